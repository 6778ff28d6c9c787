#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a torch.save file of any size out of nothing.

    bench/gen-torch-zip.py OUT --tensors=N [options]

Needs neither torch nor memory for the payload. The pickle is emitted opcode by opcode in
the manner of torch.save (protocol 2, every object memoised, items in batches of 1000); the
container has what its writer leaves behind: zeroes for sizes and CRC in local headers, a
descriptor behind each record, payloads on 64-byte boundaries, ZIP64 end records always.
The same arguments give the same bytes.
"""
import argparse
import io
import struct
import zlib

BLOCK = ("attention.query", "attention.key", "attention.value", "attention.output", "norm_1",
         "feed.in", "feed.gate", "feed.out", "norm_2")
DEPTH = 4096
ALIGN = 64
FULL32 = 0xFFFFFFFF
FULL16 = 0xFFFF
DTYPES = {"float32": (b"FloatStorage", 4), "bfloat16": (b"BFloat16Storage", 2),
          "int64": (b"LongStorage", 8), "uint8": (b"ByteStorage", 1)}


# ---- names

def decoder(i):
    """Nine weights a layer, as most language models have."""
    return f"layers.{i // len(BLOCK)}.{BLOCK[i % len(BLOCK)]}.weight"


def siblings(i):
    """One node that has all the children."""
    return f"table.row_{i}.weight"


def deep(i):
    """All names share 4,096 levels."""
    return "d." * DEPTH + f"w{i}"


def scattered(i):
    """No two modules in a row are the same: wide at every level."""
    return f"experts.{i % 64}.{i // 64 % 128}.part_{i // 8192}.weight"


def wrapped(i):
    """With the segments that FSDP and activation checkpointing put in."""
    return f"_fsdp_wrapped_module.layers.{i // len(BLOCK)}._checkpoint_wrapped_module.{BLOCK[i % len(BLOCK)]}.weight"


NAMES = {f.__name__: f for f in (decoder, siblings, deep, scattered, wrapped)}


# ---- the pickle

class Pickle:
    """Opcodes of protocol 2. Memo numbers are given out in order."""

    def __init__(self):
        self.out = io.BytesIO()
        self.next = 0
        self.known = {}

    def put(self):
        n = self.next
        self.next += 1
        self.out.write(b"q" + bytes([n]) if n < 256 else b"r" + struct.pack("<I", n))
        return n

    def get(self, n):
        self.out.write(b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n))

    def once(self, key, data):
        """An object that is written the first time and fetched afterwards."""
        if key in self.known:
            self.get(self.known[key])
        else:
            self.out.write(data)
            self.known[key] = self.put()

    def text(self, value):
        return b"X" + struct.pack("<I", len(value)) + value

    def number(self, n):
        if n < 256:
            self.out.write(b"K" + bytes([n]))
        elif n < 65536:
            self.out.write(b"M" + struct.pack("<H", n))
        elif n < 1 << 31:
            self.out.write(b"J" + struct.pack("<i", n))
        else:
            size = n.bit_length() // 8 + 1
            self.out.write(b"\x8a" + bytes([size]) + n.to_bytes(size, "little"))

    def pair(self, numbers):
        for n in numbers:
            self.number(n)
        self.out.write({1: b"\x85", 2: b"\x86"}[len(numbers)])
        self.put()

    def ordered_dict(self):
        self.once("dict", b"ccollections\nOrderedDict\n")
        self.out.write(b")R")
        self.put()

    def tensor(self, key, storage, numel, shape):
        w = self.out.write
        self.once("rebuild", b"ctorch._utils\n_rebuild_tensor_v2\n")
        w(b"((")
        self.once("storage", self.text(b"storage"))
        self.once(storage, b"ctorch\n" + storage + b"\n")
        w(self.text(key))
        self.put()
        self.once("cpu", self.text(b"cpu"))
        self.number(numel)
        w(b"t")
        self.put()
        w(b"Q")
        self.number(0)
        self.pair(shape)
        self.pair((shape[1], 1) if len(shape) == 2 else (1,))
        w(b"\x89")
        self.ordered_dict()
        w(b"t")
        self.put()
        w(b"R")
        self.put()


def state_dict(entries):
    """entries: (name, key, storage, numel, shape), all but the first as bytes or numbers."""
    p = Pickle()
    p.out.write(b"\x80\x02")
    p.ordered_dict()
    entries = iter(entries)
    while True:
        batch = [e for _, e in zip(range(1000), entries)]
        if not batch:
            break
        p.out.write(b"(")
        for name, *rest in batch:
            p.out.write(p.text(name.encode()))
            p.put()
            p.tensor(*rest)
        p.out.write(b"u")
    p.out.write(b".")
    return p.out.getvalue()


# ---- the container

class Container:
    def __init__(self, file, root):
        self.file, self.root = file, root
        self.at = 0
        self.central = io.BytesIO()
        self.count = 0

    def write(self, data):
        self.file.write(data)
        self.at += len(data)

    def record(self, name, size, blocks):
        name = f"{self.root}/{name}".encode()
        start, large = self.at, size >= FULL32
        behind = start >= FULL32
        flags = 0x0808 if size else 0x0800
        extra = b""
        if large:
            extra = struct.pack("<HHQQ", 1, 16, size, 0)
        elif behind:
            extra = struct.pack("<HHQ", 1, 8, start)
        pad = -(start + 30 + len(name) + len(extra) + 4) % ALIGN
        extra += b"FB" + struct.pack("<H", pad) + b"Z" * pad
        size32 = FULL32 if large else 0
        self.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, flags, 0, 0, 0, 0, size32, size32,
                               len(name), len(extra)) + name + extra)
        crc = 0
        for block in blocks:
            crc = zlib.crc32(block, crc)
            self.write(block)
        if size:
            self.write(struct.pack("<IIQQ" if large or behind else "<IIII", 0x08074B50, crc, size, size))
        extra = struct.pack("<QQ", size, size) if large else b""
        if behind:
            extra += struct.pack("<Q", start)
        if extra:
            extra = struct.pack("<HH", 1, len(extra)) + extra
        self.central.write(struct.pack(
            "<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, flags, 0, 0, 0, crc, min(size, FULL32),
            min(size, FULL32), len(name), len(extra), 0, 0, 0, 0, min(start, FULL32)) + name + extra)
        self.count += 1

    def close(self):
        table, start = self.central.getvalue(), self.at
        self.write(table)
        end = self.at
        self.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 798, 45, 0, 0, self.count, self.count,
                               len(table), start))
        self.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
        count = min(self.count, FULL16)
        self.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, min(len(table), FULL32),
                               min(start, FULL32), 0))


def payload(number, size):
    """Different for each record, cheap, the same every time; small finite values."""
    unit = struct.pack("<I", number * 2654435761 % (1 << 30)) * 16384
    while size:
        part = unit[:min(size, len(unit))]
        yield part
        size -= len(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tensors", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=64, help="of each tensor")
    parser.add_argument("--total-bytes", type=int, help="of all of them, instead of --bytes")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--names", choices=NAMES, default="decoder")
    parser.add_argument("--pickle-last", action="store_true", help="data.pkl behind the tensors")
    parser.add_argument("--large-bytes", type=int, default=0, help="one more tensor, of this size")
    a = parser.parse_args()

    storage, width = DTYPES[a.dtype]
    numel = max(1, (a.total_bytes // a.tensors if a.total_bytes else a.bytes) // width)
    sizes = [numel * width] * a.tensors

    def shape(n):
        return (n // 64, 64) if n >= 64 and n % 64 == 0 else (n,)

    entries = [(NAMES[a.names](i), str(i).encode(), storage, numel, shape(numel)) for i in range(a.tensors)]
    if a.large_bytes:
        n = a.large_bytes // width
        entries.append(("large.weight", str(a.tensors).encode(), storage, n, shape(n)))
        sizes.append(n * width)
    pickle = state_dict(entries)
    with open(a.out, "wb", buffering=1 << 22) as f:
        c = Container(f, "archive")

        def small(name, data):
            c.record(name, len(data), [data])
        if not a.pickle_last:
            small("data.pkl", pickle)
        small(".format_version", b"1")
        small(".storage_alignment", str(ALIGN).encode())
        small("byteorder", b"little")
        for i, size in enumerate(sizes):
            c.record(f"data/{i}", size, payload(i, size))
        if a.pickle_last:
            small("data.pkl", pickle)
        small("version", b"3\n")
        small(".data/serialization_id", b"0" * 40)
        c.close()


if __name__ == "__main__":
    main()
