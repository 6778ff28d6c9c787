#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the .metadata of a distributed checkpoint of any size, in constant memory.

    bench/gen-dcp-metadata.py FOLDER --tensors=T --world=W [--states=S] [--values=V] [--shuffle=SEED]

T tensors are cut along dimension 0 over W ranks, and so are S optimizer states of each, so
there are T x W x (S + 1) chunks and as many storage entries. FOLDER gets .metadata and the
ranks' files, which are holes of the length that .metadata promises: everything but payloads
can be asked. The stream is what torch 2.13 writes (protocol 4, frames of 64 KiB, every
object memoised, batches of 1000, no two ranks sharing a name). With --shuffle the same storage entries stand in no order, and
most of their hints are wrong, which torch allows. Same arguments, same bytes.
"""
import argparse
import os
import random
import struct

FRAME = 64 << 10
ROWS = 8      # of each tensor on each rank
AROUND = 1513  # bytes that the zip around each item takes
BLOCK = ("attention.query", "attention.key", "attention.value", "attention.output", "norm_1",
         "feed.in", "feed.gate", "feed.out", "norm_2")
STATES = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
META = "torch.distributed.checkpoint.metadata"
FILES = "torch.distributed.checkpoint.filesystem"


class Stream:
    """Opcodes of protocol 4, cut into frames."""

    def __init__(self, file):
        self.file = file
        self.frame = bytearray()
        self.memo = 0
        self.known = {}
        file.write(b"\x80\x04")

    def put(self, data):
        self.frame += data
        if len(self.frame) >= FRAME:
            self.flush()

    def flush(self):
        self.file.write(b"\x95" + struct.pack("<Q", len(self.frame)) + self.frame)
        self.frame = bytearray()

    def memoise(self, data):
        self.put(data + b"\x94")
        self.memo += 1
        return self.memo - 1

    def fetch(self, n):
        self.put(b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n))

    def text(self, value):
        data = value.encode()
        return b"\x8c" + bytes([len(data)]) + data if len(data) < 256 else b"X" + struct.pack("<I", len(data)) + data

    def fresh(self, value):
        """A text that is an object of its own each time."""
        return self.memoise(self.text(value))

    def once(self, value):
        """An interned text, such as the name of a field."""
        if value in self.known:
            self.fetch(self.known[value])
        else:
            self.known[value] = self.fresh(value)

    def global_(self, module, name):
        key = (module, name)
        if key in self.known:
            self.fetch(self.known[key])
            return
        self.once(module)
        self.once(name)
        self.known[key] = self.memoise(b"\x93")

    def number(self, n):
        if n < 256:
            self.put(b"K" + bytes([n]))
        elif n < 65536:
            self.put(b"M" + struct.pack("<H", n))
        elif n < 1 << 31:
            self.put(b"J" + struct.pack("<i", n))
        else:
            size = n.bit_length() // 8 + 1
            self.put(b"\x8a" + bytes([size]) + n.to_bytes(size, "little"))

    def size(self, numbers):
        """torch.Size((...))"""
        self.global_("torch", "Size")
        for n in numbers:
            self.number(n)
        self.memoise({1: b"\x85", 2: b"\x86", 3: b"\x87"}[len(numbers)])
        self.memoise(b"\x85")
        self.memoise(b"R")

    def new(self, module, name):
        self.global_(module, name)
        self.memoise(b")\x81")

    def begin_state(self):
        self.memoise(b"}")
        self.put(b"(")

    def end_state(self):
        self.put(b"ub")

    def batches(self, items, end):
        """Runs through items between MARK and `end` (APPENDS or SETITEMS), 1000 at a time."""
        count = 0
        for item in items:
            if count % 1000 == 0:
                self.put(b"(" if count == 0 else end + b"(")
            count += 1
            yield item
        if count:
            self.put(end)


def plan(a):
    """Yields (name, path, dtype, columns, rows' bytes) of every tensor."""
    for s in range(-1, a.states):
        for i in range(a.tensors):
            short = f"layers.{i // len(BLOCK)}.{BLOCK[i % len(BLOCK)]}.weight"
            columns = 0 if "norm" in short else 1024 * (1 + i % 5)
            if s < 0:
                yield f"model.{short}", ("model", short), "bfloat16", columns, 2
            else:
                yield f"optim.state.{short}.{STATES[s]}", ("optim", "state", short, STATES[s]), "float32", columns, 4


def properties(s, dtype):
    s.new(META, "TensorProperties")
    s.put(b"(")
    s.global_("torch", dtype)
    if "layout" in s.known:
        s.fetch(s.known["layout"])
    else:
        s.global_("torch.serialization", "_get_layout")
        s.fresh("torch.strided")
        s.memoise(b"\x85")
        s.known["layout"] = s.memoise(b"R")
    s.put(b"\x89")
    if "format" in s.known:
        s.fetch(s.known["format"])
    else:
        s.global_(META, "_MEM_FORMAT_ENCODING")
        s.number(0)
        s.memoise(b"\x85")
        s.known["format"] = s.memoise(b"R")
    s.put(b"\x89")
    s.memoise(b"t")
    s.put(b"b")


def box(columns, row, rows):
    return (row, 0) if columns and not rows else (row,) if not rows else (rows, columns) if columns else (rows,)


def tensor(s, a, dtype, columns):
    s.new(META, "TensorStorageMetadata")
    s.begin_state()
    s.once("properties")
    properties(s, dtype)
    s.once("size")
    s.size((ROWS * a.world, columns) if columns else (ROWS * a.world,))
    s.once("chunks")
    s.memoise(b"]")
    for rank in s.batches(range(a.world), b"e"):
        s.new(META, "ChunkStorageMetadata")
        s.begin_state()
        s.once("offsets")
        s.size(box(columns, rank * ROWS, 0))
        s.once("sizes")
        s.size(box(columns, 0, ROWS))
        s.end_state()
    s.end_state()


def storage_entry(s, name, index, offsets, path, at, length):
    s.new(META, "MetadataIndex")
    s.begin_state()
    s.once("fqn")
    s.fresh(name)
    if offsets is not None:
        s.once("index")
        s.number(index)
        s.once("offset")
        s.size(offsets)
    s.end_state()
    s.new(FILES, "_StorageInfo")
    s.begin_state()
    s.once("relative_path")
    s.once(path)
    s.once("offset")
    s.number(at)
    s.once("length")
    s.number(length)
    s.end_state()


def write(a, file):
    """Returns the number of chunks and how long each rank's file has to be."""
    s = Stream(file)
    used = [0] * a.world
    values = [f"trainer.note_{i}" for i in range(a.values)]
    s.new(META, "Metadata")
    s.begin_state()
    s.once("state_dict_metadata")
    s.memoise(b"}")
    for item in s.batches([*plan(a), *values], b"u"):
        if isinstance(item, str):
            s.fresh(item)
            s.new(META, "BytesStorageMetadata")
        else:
            s.fresh(item[0])
            tensor(s, a, item[2], item[3])
    s.once("planner_data")
    s.memoise(b"}")
    for item in s.batches([*plan(a), *values], b"u"):
        name, path = (item, item.split(".", 1)) if isinstance(item, str) else item[:2]
        s.fresh(name)
        if len(path) > 3:
            s.put(b"(")
        for part in path:
            s.once(part)
        s.memoise(b"t" if len(path) > 3 else {2: b"\x86", 3: b"\x87"}[len(path)])
    s.once("storage_data")
    s.memoise(b"}")

    def entries():
        for rank in range(a.world):
            path = f"__{rank}_0.distcp"
            for value in values if rank == 0 else ():
                yield value, None, None, path, used[rank], 1261
                used[rank] += 1261
            for name, _, _, columns, width in plan(a):
                length = ROWS * max(columns, 1) * width + AROUND
                yield name, rank, box(columns, rank * ROWS, 0), path, used[rank], length
                used[rank] += length
    listed = entries()
    if a.shuffle:
        listed = [(n, i if i is None else i * 7 % a.world, *rest) for n, i, *rest in listed]
        random.Random(a.shuffle).shuffle(listed)
    chunks = 0
    for entry in s.batches(listed, b"u"):
        storage_entry(s, *entry)
        chunks += entry[2] is not None
    s.once("storage_meta")
    s.new(META, "StorageMeta")
    s.begin_state()
    s.once("checkpoint_id")
    s.fresh("step-1000")
    s.once("save_id")
    s.fresh("00000000-0000-4000-8000-000000000000")
    s.once("load_id")
    s.put(b"N")
    s.once("modules")
    s.memoise(b"]")
    s.end_state()
    s.once("version")
    s.fresh("1.0.0")
    s.end_state()
    s.put(b".")
    s.flush()
    return chunks, used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tensors", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--states", type=int, default=0, choices=range(len(STATES) + 1))
    parser.add_argument("--values", type=int, default=0, help="entries that are not tensors; holes too")
    parser.add_argument("--shuffle", type=int, default=0, metavar="SEED", help="storage entries in no order")
    a = parser.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    with open(os.path.join(a.folder, ".metadata"), "wb", buffering=1 << 20) as f:
        chunks, used = write(a, f)
    for rank, size in enumerate(used):
        with open(os.path.join(a.folder, f"__{rank}_0.distcp"), "wb") as f:
            f.truncate(size)
    print(chunks)


if __name__ == "__main__":
    main()
