#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Views, maps and values that a pickle shares make much of a few stored bytes: each command counts that before it reads, and
ends at a named limit; what is ordinary is read. Prints TAP.

repeats.py BINARY
"""

import collections
import io
import os
import pathlib
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import types
import zipfile

BINARY = os.path.abspath(sys.argv[1])
SANITIZED = b"__asan_init" in pathlib.Path(BINARY).read_bytes()
Storage = collections.namedtuple("Storage", "key numel")


def stand_in(module, name, made):
    """A global of that name: pickles name it and nothing calls it."""
    made.__module__, made.__qualname__ = module, name
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, made)
    return made


REBUILD = stand_in("torch._utils", "_rebuild_tensor_v2", lambda *_: None)
FLOAT = stand_in("torch", "FloatStorage", type("FloatStorage", (), {}))


class Tensor:
    def __init__(self, storage, shape, stride, offset=0):
        self.parts = (storage, offset, shape, stride, False, collections.OrderedDict())

    def __reduce__(self):
        return REBUILD, self.parts


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", FLOAT, obj.key, "cpu", obj.numel) if isinstance(obj, Storage) else None


def save(path, tensors, storages, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    Pickler(stream, 2).dump(tensors)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", stream.getvalue())
        archive.writestr("model/byteorder", "little")
        for key, values in storages.items():
            archive.writestr(f"model/data/{key}", values, method)
        archive.writestr("model/version", "3\n")


def build(root):
    one = Storage("0", 1)
    save(root / "one.pt", {"a": Tensor(one, (1 << 20, 1 << 13), (0, 0))}, {"0": bytes(4)})
    stack = {"decoder.layers.mlp.experts.experts.linear_fc2.weight": Tensor(one, (4096, 4096, 2, 1), (0, 0, 0, 0))}
    save(root / "stack.pt", stack, {"0": bytes(4)})
    half, many = 1 << 17, Storage("0", 1 << 18)
    save(root / "views.pt", {f"v{i}": Tensor(many, (half,), (1,), i) for i in range(1000)}, {"0": bytes(4 << 18)})
    # Whoever wants one number of a storage inflates all of it that is before.
    far = Storage("0", 1 << 24)
    save(root / "far.pt", {f"v{i}": Tensor(far, (7,), (1,), (1 << 24) - 8 - i) for i in range(1000)}, {"0": bytes(4 << 24)},
         zipfile.ZIP_DEFLATED)
    save(root / "wide.pt", {f"v{i}": Tensor(far, (2,), ((1 << 24) - 1 - i,)) for i in range(1000)}, {"0": bytes(4 << 24)},
         zipfile.ZIP_DEFLATED)
    # What people have: a bias that was expanded, a mask of one number, a transposed weight, one storage of two names.
    weight, bias, mask = Storage("0", 1 << 16), Storage("1", 1 << 10), Storage("2", 1)
    save(root / "good.pt", {
        "linear.weight": Tensor(weight, (64, 1024), (1, 64)),
        "tied.weight": Tensor(weight, (1024, 64), (64, 1)),
        "linear.bias": Tensor(bias, (4096, 1024), (0, 1)),
        "mask": Tensor(mask, (2048, 2048), (0, 0)),
    }, {"0": b"".join(struct.pack("<f", i / 7) for i in range(1 << 16)), "1": bytes(range(1, 65)) * 64, "2": bytes(4)})
    # A storage of 80 MiB that is deflated: read once from begin to end, not once for each range.
    long = Storage("0", 20 << 20)
    save(root / "long.pt", {"a": Tensor(long, (20, 1 << 20), (1 << 20, 1))}, {"0": bytes(80 << 20)}, zipfile.ZIP_DEFLATED)


def dump(path, entries, groups):
    path.write_bytes(pickle.dumps({"version": "2.10", "pg_config": groups, "entries": entries}, 4))


def entry(seq, group=("0", "default_pg"), **fields):
    return {"record_id": seq, "process_group": group, "collective_seq_id": seq, "profiling_name": "nccl:all_reduce", **fields}


def build_dumps(root):
    """Dumps of the Flight Recorder: lists that all entries share, and as many groups as entries."""
    many, ranks = range(20000), list(range(20000))
    sizes, frames = [[1] * 1000] * 1000, [{"name": "f", "filename": "torch/nn.py", "line": 1}] * 20000
    wide = entry(1, **{f"key{i}": 0 for i in many})
    dump(root / "sizes.pt", [entry(i, input_sizes=sizes, output_sizes=sizes) for i in range(600)], {})
    dump(root / "frames.pt", [entry(i, frames=frames) for i in many], {})
    dump(root / "entries.pt", [wide] * 20000, {})
    dump(root / "shared.pt", [entry(i, (str(i), "pp")) for i in many], {str(i): {"ranks": ranks} for i in many})
    dump(root / "single.pt", [entry(i, (str(i), "pp")) for i in many], {str(i): {"ranks": str([i])} for i in many})
    dump(root / "world.pt", [entry(i, (str(i), "default_pg")) for i in many], {"all": {"ranks": ranks}})
    dump(root / "names.pt", [entry(i, ("0", f"group {i}")) for i in many], {"0": {"ranks": ranks}})


# (line, statuses, what is printed)
ROWS = [
    ("hash --logical one.pt", (3,), "limit expanded-bytes"),
    ("stats one.pt", (3,), "limit expanded-bytes"),
    ("diff --values one.pt one.pt", (3,), "a: limit expanded-bytes"),
    ("audit --data --values one.pt", (3,), "a limit was reached"),
    ("export -o out one.pt", (2,), "a: limit expanded-bytes"),
    ("export --to=raw -o - one.pt a", (2,), "a: limit expanded-bytes"),
    ("export --to=npy -o a.npy one.pt a", (2,), "a: limit expanded-bytes"),
    ("export --to=raw --limit expanded-bytes=100GiB --limit memory=1 -o - one.pt a", (2,), "limit memory"),
    ("export --map=hf-mixtral -o out stack.pt", (2,), "limit memory"),
    ("diff --map=hf-mixtral stack.pt stack.pt", (2,), "limit memory"),
    ("audit --merged=stack.pt --map=hf-mixtral stack.pt", (2,), "limit memory"),
    *[(f"{line} {name}.pt", (2, 3), "limit expanded-bytes") for name in ("views", "far", "wide")
      for line in ("hash --logical", "stats", f"diff --values {name}.pt", "export -o out")],
    *[(f"order {name}.pt", (2,), "limit work") for name in ("sizes", "frames", "entries")],
    *[(f"order {name}.pt", (3,), "no dump") for name in ("shared", "single", "world", "names")],
    ("hash --logical good.pt", (0,), ""),
    ("stats good.pt", (0,), ""),
    ("diff --values good.pt good.pt", (0,), "4 tensors are equal"),
    ("audit --data --values good.pt", (0,), "good: no problems"),
    ("export -o out1 good.pt", (0,), "output read back"),
    ("export --to=raw -o - good.pt mask", (0,), ""),
    ("hash --logical long.pt", (0,), ""),
    ("diff --values long.pt long.pt", (0,), "1 tensor is equal"),
    ("export -o out2 long.pt", (0,), "output read back"),
]


def wrong(root, line, statuses, text):
    with open(root / "stdout", "wb") as out, open(root / "stderr", "wb") as err:
        child = subprocess.Popen([BINARY, *line.split()], cwd=root, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (30, 30)))
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    size = max((root / word).stat().st_size for word in line.split() if word.endswith(".pt") and word[0] != "-")
    said = b"".join((root / name).read_bytes()[-4000:] for name in ("stdout", "stderr")).decode(errors="replace")
    if child.returncode not in statuses or text not in said:
        return f"status {child.returncode}: {said}"
    cpu, mib = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    if not SANITIZED and 0 not in statuses and (cpu > max(2, 2 * size / 1e6) or mib > 72 + 10 * size / 2**20):
        return f"{cpu:.1f} s and {mib:.0f} MiB for {size} bytes"
    return None


def main():
    failed = 0
    print(f"1..{len(ROWS)}")
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
        root = pathlib.Path(folder)
        build(root)
        build_dumps(root)
        for number, row in enumerate(ROWS, 1):
            why = wrong(root, *row)
            failed += why is not None
            print(f"{'not ' if why else ''}ok {number} - {row[0]}")
            if why:
                print("# " + why.replace("\n", "\n# "))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
