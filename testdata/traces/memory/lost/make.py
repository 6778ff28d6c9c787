# SPDX-License-Identifier: Apache-2.0
"""Writes rank0.pickle, a snapshot whose segments are free in part, wait for another stream, or belong to a CUDA graph."""
import pickle

MIB = 1 << 20
STATS = [("??", 0, "torch::unwind::unwind()"), ("/job/stats.py", 12, "record"), ("/job/train.py", 40, "main")]
MODEL = [("??", 0, "torch::unwind::unwind()"), ("/job/model.py", 77, "forward"), ("/job/train.py", 50, "main")]
USED, FREE, PENDING = "active_allocated", "inactive", "active_pending_free"


def segment(number, blocks, pool=(0, 0), expandable=False):
    at = address = number << 32
    total, made = sum(size for _, size, _ in blocks) * MIB, []
    for state, size, stack in blocks:
        frames = [{"filename": file, "line": line, "name": name} for file, line, name in stack]
        made.append({"address": at, "size": size * MIB, "requested_size": size * MIB, "state": state, "frames": frames})
        at += size * MIB
    return {"device": 0, "address": address, "total_size": total, "segment_type": "large", "segment_pool_id": pool,
            "is_expandable": expandable, "stream": 0, "frames": [], "blocks": made}


segments = [segment(i + 1, [(USED, 2, STATS), (FREE, 255, []), (USED, 1, STATS), (FREE, 254, [])]) for i in range(20)]
segments += [segment(30, [(USED, 300, MODEL), (PENDING, 12, STATS)]), segment(31, [(FREE, 40, [])]),
             segment(32, [(USED, 20, MODEL), (FREE, 12, [])], (0, 1)), segment(33, [(USED, 2, MODEL), (FREE, 900, [])], expandable=True)]
with open("rank0.pickle", "wb") as out:
    pickle.dump({"segments": segments, "device_traces": [[]], "allocator_settings": {}}, out, 4)
