# SPDX-License-Identifier: Apache-2.0
"""Writes the dumps of nccl_ahead_w4, nccl_gpu_w4, nccl_held_w4, nccl_common_w4, nccl_pause_w4,
nccl_circle_w4 and nccl_active_agree_w4: active entries only, as the heartbeat monitor
of NCCL dumps them. Groups: default_pg (0-3), tp (0-1, 2-3), dp (0,2 and 1,3)."""
import json
import os
import pickle

GROUPS = {"0": ("default_pg", [0, 1, 2, 3]), "1": ("tp", [0, 1]), "2": ("tp", [2, 3]), "3": ("dp", [0, 2]), "4": ("dp", [1, 3])}
START = 1700000000000000000


def write(case, known, result, ranks):
    """ranks[rank]: {group: (last enqueued, numbers of unfinished entries, operation)}."""
    os.makedirs(case, exist_ok=True)
    dumps = []
    for rank, groups in enumerate(ranks):
        mine = sorted(name for name, (_, members) in GROUPS.items() if rank in members)
        entries = []
        for name, (_, unfinished, op) in groups.items():
            entries += [(seq, name, op) for seq in unfinished]
        entries = [{"record_id": 100 + i, "pg_id": mine.index(name), "process_group": (name, GROUPS[name][0]),
                    "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": i, "profiling_name": f"nccl:{op}",
                    "time_created_ns": START + 1000 * i, "input_sizes": [[64]], "output_sizes": [[64]],
                    "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "scheduled", "retired": False,
                    "timeout_ms": 600000, "is_p2p": False} for i, (seq, name, op) in enumerate(entries)]
        last = {name: groups.get(name, (7, [], ""))[:2] for name in mine}
        status = {str(mine.index(name)): {"last_enqueued_collective": enqueued, "last_started_collective": -1,
                                          "last_completed_collective": min(unfinished, default=enqueued + 1) - 1}
                  for name, (enqueued, unfinished) in last.items()}
        dump = {"version": "2.9", "nccl_version": "2.27.3", "pg_status": status,
                "pg_config": {name: {"name": name, "desc": GROUPS[name][0], "ranks": str(GROUPS[name][1])} for name in mine}}
        if entries:
            dump["entries"] = entries
        with open(f"{case}/nccl_trace_rank_{rank}", "wb") as file:
            pickle.dump(dump, file, 2)
        dumps.append({"rank": rank, "entries": len(entries), "first_record": 100 if entries else None})
    base = {"verdict": "agree", "problem": None, "culprits": [], "gpu_stopped": [], "missing_dumps": [], "unreadable": [], "versions": ["2.9"],
            "dumps": dumps}
    with open(f"{case}/truth.json", "w", encoding="utf-8") as file:
        json.dump({"known": known, "result": base | result}, file, indent=1)
        file.write("\n")


GATHER, REDUCE = "_all_gather_base", "all_reduce"
# The hosts of ranks 1 and 2 stopped in different groups; 0 and 3 enqueue ahead.
write("nccl_ahead_w4", {"culprits": [1, 2]},
      {"verdict": "stuck", "problem": "missing", "culprits": [1, 2]},
      [{"1": (9, [8, 9], GATHER), "3": (9, [8, 9], REDUCE)}, {"1": (7, [], ""), "4": (7, [], "")},
       {"2": (7, [], ""), "3": (7, [], "")}, {"2": (9, [8, 9], GATHER), "4": (9, [8, 9], REDUCE)}])
# Rank 1 enqueued all that rank 0 did, but its device stopped in #8, which rank 0 finished; 3 waits for 1 as well.
write("nccl_gpu_w4", {"culprits": [1]},
      {"verdict": "stuck", "problem": "gpu_stopped", "culprits": [1], "gpu_stopped": [1], "group": "tp", "seq": 8},
      [{"1": (10, [10], GATHER)}, {"1": (10, [8, 9, 10], GATHER), "4": (8, [8], REDUCE)}, {"2": (8, [], "")},
       {"4": (8, [8], REDUCE), "2": (8, [], "")}])
# The host of rank 1 stopped before #8 of dp, which holds the device of rank 3. So 3 has not entered #8 of default_pg either.
write("nccl_held_w4", {"culprits": [1]},
      {"verdict": "stuck", "problem": "missing", "culprits": [1], "group": "tp", "seq": 8},
      [{"1": (8, [8], REDUCE), "0": (8, [8], REDUCE)}, {},
       {"2": (8, [8], REDUCE), "0": (8, [8], REDUCE)}, {"4": (8, [8], GATHER), "2": (8, [8], REDUCE)}])
# Ranks 1 and 3 entered #8 of dp, and it ends on neither; 0 and 2 enqueued one operation more.
write("nccl_common_w4", {"culprits": []}, {"verdict": "agree"},
      [{"1": (8, [8], REDUCE), "0": (8, [8], REDUCE)}, {"4": (8, [8], GATHER), "1": (8, [8], REDUCE)},
       {"2": (8, [8], REDUCE), "0": (8, [8], REDUCE)}, {"4": (8, [8], GATHER), "2": (8, [8], REDUCE)}])
# The device of rank 1 stopped in #8 of default_pg, the last one there, which the others finished; 0 enqueued one operation more.
write("nccl_pause_w4", {"culprits": [1]},
      {"verdict": "stuck", "problem": "missing", "culprits": [1], "gpu_stopped": [1]},
      [{"0": (8, [], ""), "1": (10, [9, 10], GATHER)}, {"0": (8, [8], REDUCE), "1": (9, [9], GATHER)},
       {"0": (8, [], "")}, {"0": (8, [], "")}])
# Rank 0 enqueued #9 of tp and then #8 of default_pg, rank 1 the other way round; 2 and 3 wait for both.
write("nccl_circle_w4", {"culprits": [0, 1]},
      {"verdict": "stuck", "problem": "cycle", "culprits": [0, 1], "group": "tp", "seq": 9},
      [{"1": (9, [9], GATHER), "0": (8, [8], REDUCE)}, {"0": (8, [8], REDUCE), "1": (9, [9], GATHER)},
       {"0": (8, [8], REDUCE)}, {"0": (8, [8], REDUCE)}])
# A sound job: rank 0 has finished #8 of tp, which is in flight on rank 1, and nobody went on; rank 3 finished its groups.
write("nccl_active_agree_w4", {"verdict": "agree"}, {},
      [{"1": (8, [], ""), "3": (8, [8], REDUCE)}, {"1": (8, [8], GATHER)}, {"3": (8, [8], REDUCE)}, {}])
