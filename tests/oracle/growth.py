#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a small file shares, packs or nests costs little, or ends at a named limit.

All files are made here. What is judged is what is said and how much is written, never a clock; a ceiling
of CPU is there only so that a program that does not end, ends.
"""
import io
import json
import os
import resource
import struct
import tempfile
import zipfile

from oraclelib import Bounds, Tap, arguments, run, strict_json

CPU_SECONDS = 60
LIMITS = ("work", "memory", "inflate-ratio")
FILE_MOST = 64 << 20  # of an answer, and of what is made here
METADATA, STORE = b"torch.distributed.checkpoint.metadata", b"torch.distributed.checkpoint.filesystem"
TENSOR = (b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000"
          b"X\x03\0\0\0cpuK\xa0tQK\0(K\nK\x10t(K\x10K\x01t\x89ccollections\nOrderedDict\n)RtR")


# ---- pickles, opcode by opcode

def text(s):
    s = s.encode() if isinstance(s, str) else s
    return b"X" + struct.pack("<I", len(s)) + s


def get(slot):
    return b"j" + struct.pack("<I", slot)


def put(slot):
    return b"r" + struct.pack("<I", slot)


def dict_of(pairs):
    return b"}(" + b"".join(text(key) + value for key, value in pairs) + b"u"


def built(module, name, pairs):
    return b"c" + module + b"\n" + name + b"\n)\x81" + dict_of(pairs) + b"b"


def number(n):
    return b"J" + struct.pack("<i", n)


def in_zip(pickle):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a/data.pkl", pickle, zipfile.ZIP_DEFLATED)
        z.writestr("a/byteorder", "little")
        z.writestr("a/data/0", bytes(640))
        z.writestr("a/version", "3\n")
    return out.getvalue()


def nested_tensors(depth, key_bytes, tensors):
    """Each name is as long as all the keys above it together."""
    leaf = dict_of((str(i), get(0)) for i in range(tensors))
    head = b"\x80\x02" + TENSOR + put(0) + b"0" + text("k" * key_bytes) + put(1) + b"0"
    return head + (b"}" + get(1)) * depth + leaf + b"s" * depth + b"."


def shared_values(count, levels):
    """Values that share a tuple of ten, of ten, of ten ..."""
    out = b"\x80\x02(" + b"N" * 65 + b"t" + put(1)
    for level in range(levels):
        out += b"0(" + get(level + 1) * 10 + b"t" + put(level + 2)
    return out + b"0" + dict_of((f"v{i}", b"\x8f(" + get(levels + 1) + b"\x90") for i in range(count)) + b"."


def objects_of_state(count, fields):
    """Objects that share a state, which is searched for each of them."""
    state = dict_of([(f"x{i}", b"N") for i in range(fields)] + [(p, b"}") for p in ("_parameters", "_buffers", "_modules")])
    return (b"\x80\x02" + state + put(1) + b"0cm\nC\n" + put(2) + b"0" +
            dict_of((f"o{i}", get(2) + b")\x81" + get(1) + b"b") for i in range(count)) + b".")


def storages_at(count, bytes_each):
    """Locations that are alike up to their ends."""
    out = b"\x80\x02"
    for i in range(20):
        out += text("c" * bytes_each + f"{i:02}") + put(i + 1) + b"0"
    out += b"ctorch\nFloatStorage\n" + put(40) + b"0]("
    return out + b"".join(b"(" + text("storage") + get(40) + text(str(i)) + get(1 + i % 20) + b"K\x01tQ"
                          for i in range(count)) + b"e."


def globals_of(count, bytes_each):
    return (b"\x80\x04" + text("m" * bytes_each) + put(1) + b"0" + text("n") + put(2) + b"0](" +
            (get(1) + get(2) + b"\x93") * count + b"e.")


def one_name(segments):
    return b"\x80\x02" + dict_of([("a." * segments + "w", TENSOR)]) + b"."


# What ends at a limit, by any command.
ENDLESS = {
    "names that repeat long keys": lambda: nested_tensors(400, 10000, 300),
    "a state that many objects share": lambda: objects_of_state(20000, 20000),
    "storages at long places": lambda: storages_at(20000, 50000),
    "globals with one long name": lambda: globals_of(60000, 500000),
    "modules in modules": lambda: one_name(40000),
    "a pickle that was packed": lambda: b"\x80\x02(" + b"}" * (20 << 20) + b"l.",
}


# ---- distributed checkpoints

def place(*items):
    return b"ctorch\nSize\n(" + b"".join(number(i) for i in items) + b"t\x85R"


def metadata(state, storage):
    return b"\x80\x02" + built(METADATA, b"Metadata", [
        ("state_dict_metadata", dict_of(state)), ("planner_data", b"}"), ("storage_data", b"}(" + storage + b"u")]) + b"."


def stored(offset, length):
    return built(STORE, b"_StorageInfo", [("relative_path", text("__0_0.distcp")), ("offset", number(offset)),
                                          ("length", number(length))])


def many_names_one_object(count, item, shared):
    index = [built(METADATA, b"MetadataIndex", [("fqn", text(f"o{i}")), ("offset", b"N"), ("index", b"N")])
             for i in range(count)]
    entries = [stored(0, item) + put(7) if i == 0 or not shared else get(7) for i in range(count)]
    return metadata([(f"o{i}", b"c" + METADATA + b"\nBytesStorageMetadata\n)\x81") for i in range(count)],
                    b"".join(a + b for a, b in zip(index, entries)))


def many_names_one_list(count, chunks):
    chunk = b"".join(built(METADATA, b"ChunkStorageMetadata", [("offsets", place(8 + i)), ("sizes", place(4))])
                     for i in range(chunks))
    properties = b"c" + METADATA + b"\nTensorProperties\n)\x81(ctorch\nfloat32\n" + text("x") + b"\x89" + text("y") + b"\x89tb"
    entry = built(METADATA, b"TensorStorageMetadata", [("properties", properties), ("size", place(4)),
                                                       ("chunks", b"](" + chunk + b"e")]) + put(5)
    return metadata([("k", entry)] + [(f"n{i}", get(5)) for i in range(count)], b"")


def write_folder(path, meta, data):
    os.makedirs(path)
    with open(os.path.join(path, ".metadata"), "wb") as f:
        f.write(meta)
    with open(os.path.join(path, "__0_0.distcp"), "wb") as f:
        f.write(data)


# ---- the tests

def at_limit(r):
    """Whether one of the limits that follow the input's bytes was reached, and that is said."""
    said = [e["message"] for e in strict_json(r.out)["errors"] if e["code"] == "limit"]
    return r.status in (2, 3) and any(f"limit {name} " in m for m in said for name in LIMITS)


def is_cut(r):
    """Whether work that is shared was cut, and that is said."""
    return any(f["rule"] == "FI3007" and "not all of them were checked" in f["message"] for f in strict_json(r.out)["findings"])


def ends_at_limit(args, path):
    problems = []
    for command in ("info", "ls", "tree"):
        r = run(args, command, "--json", path, cpu=CPU_SECONDS, timeout=4 * CPU_SECONDS)
        if r.crash:
            problems.append(r.crash)
        elif not at_limit(r) and not is_cut(r):
            problems.append(f"{r.words}: status {r.status}, {r.out[:200]!r}")
    return problems


def test_endless(args, tap, folder):
    for name, make in ENDLESS.items():
        path = os.path.join(folder, "x.pt")
        with open(path, "wb") as f:
            f.write(in_zip(make()))
        tap.none(f"{name}: ends at a limit", ends_at_limit(args, path))


def test_values(args, tap, folder):
    path = os.path.join(folder, "x.pt")
    with open(path, "wb") as f:
        f.write(in_zip(shared_values(3000, 3)))
    problems = []
    r = run(args, "show", "--json", path, "*", cpu=CPU_SECONDS, timeout=4 * CPU_SECONDS)
    if r.crash:
        problems.append(r.crash)
    else:
        said = [f for f in strict_json(r.out)["findings"] if f["rule"] == "FI3019"]
        if not any("the rest is omitted" in f["message"] for f in said):
            problems.append(f"{r.words}: FI3019 does not say what was cut: {said[:2]}")
    tap.none("values that share what they hold are cut, and it is said", problems)


def test_objects(args, tap, folder):
    item = in_zip(b"\x80\x02" + text("t" * 50000) + b".")
    shared = os.path.join(folder, "shared")
    write_folder(shared, many_names_one_object(1000, len(item), True), item)
    problems = []
    # What is in all of them together is more than this.
    r = run(args, "info", "--json", "--limit", "memory=24M", shared, cpu=CPU_SECONDS, timeout=4 * CPU_SECONDS)
    if r.crash or r.status != 0 or strict_json(r.out)["errors"]:
        problems.append(r.crash or f"status {r.status}: {r.out[:300]!r}")
    tap.none("an object that 1,000 names share is read once", problems)

    twice = os.path.join(folder, "twice")
    write_folder(twice, many_names_one_object(1000, len(item), False), item)
    problems = []
    r = run(args, "info", "--json", "--limit", "memory=24M", twice, cpu=CPU_SECONDS, timeout=4 * CPU_SECONDS)
    if r.crash or r.status != 3 or not any("overlap" in e["message"] for e in strict_json(r.out)["errors"]):
        problems.append(r.crash or f"status {r.status}: {r.out[:300]!r}")
    tap.none("objects that lie on each other are read once, and it is said", problems)

    lists = os.path.join(folder, "lists")
    write_folder(lists, many_names_one_list(40000, 2000), bytes(1000))
    tap.none("a list of chunks that 40,000 names share: ends at a limit", ends_at_limit(args, lists))


def groups_of_one(path, count):
    """A tensor in a layer of its own, so many times."""
    head = {f"p{i}.layers.0.weight": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(count)}
    data = json.dumps(head, separators=(",", ":")).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(data)) + data + bytes(4 * count))


def test_groups(args, tap, folder):
    path, bounds = os.path.join(folder, "model.safetensors"), Bounds(args)
    groups_of_one(path, 60000)
    problems = []
    for words in (["--by=layer"], ["--by=module"], ["--by=layer", "--hist"]):
        r = run(args, "stats", "-o", "csv", *words, path, cpu=CPU_SECONDS, timeout=4 * CPU_SECONDS)
        if r.crash or r.status != 0:
            problems.append(r.crash or f"{r.words}: status {r.status}")
        problems.extend(bounds.problems(r, path))
    tap.none("statistics of 60,000 groups take memory as the input does", problems)


def main():
    args = arguments(__doc__, leaks=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MOST, FILE_MOST))
    tap = Tap()
    for test in (test_endless, test_values, test_objects, test_groups):
        with tempfile.TemporaryDirectory() as folder:
            test(args, tap, folder)
    tap.done()


main()
