#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small files that unpack to much cost little.

Made here: compressed more than once, without end, or to a thousand times their size, bare, in a tar
and in a zip. And those of the larger collection that are compressed. Through info, tree and ls --json:
status 0 to 3, CPU and memory that follow the input, and a limit that is named where one is due.
"""
import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import tempfile
import zipfile

from oraclelib import Bounds, Tap, arguments, in_parallel, run

PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")
MIB = 1 << 20


def often(pack, count):
    """16 MiB of zeros, so many times, one compressed piece behind the other."""
    return pack(bytes(16 * MIB)) * count


def tar_of(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def safetensors(size):
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def torch_bomb(size):
    """A torch.save file whose pickle inflates to `size` bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        z.writestr("a/data.pkl", b"\x80\x02" + b"N0" * (size // 2) + b"}.")
        z.writestr("a/version", b"3\n")
    return out.getvalue()


def nested(data, times):
    for _ in range(times):
        data = gzip.compress(data, 9)
    return data


# name, bytes, what is due: a limit, a word of the message, or None for an answer
def made():
    index = {"weight_map": {f"w{i}": f"{i:05}.safetensors" for i in range(4000)}}
    shards = [("m/model.safetensors.index.json", json.dumps(index).encode())]
    shards += [(f"m/{i:05}.safetensors", safetensors(8)) for i in range(4000)]
    folders = [(f"c/{i:05}{'x' * 200}/{i}.bin", b"") for i in range(8000)]
    large = tar_of([("m/model.safetensors", safetensors(48 * MIB))])
    return [
        ("zeros.bz2", often(bz2.compress, 100), "inflate-ratio"),
        ("zeros.xz", often(lzma.compress, 100), "inflate-ratio"),
        ("zeros.gz", often(lambda data: gzip.compress(data, 9), 64), "inflate-ratio"),
        ("zeros.tar.bz2", bz2.compress(tar_of([("a", bytes(200 * MIB))])), "inflate-ratio"),
        ("nested.gz", nested(bytes(16 * MIB), 20), "more than once"),
        ("bomb.pt", torch_bomb(100 * MIB), "limit"),
        ("folders.tar.gz", gzip.compress(tar_of(folders)), ""),
        ("shards.tar.gz", gzip.compress(tar_of(shards)), None),
        ("large.tar.gz", gzip.compress(large), None),
        ("large.tar.xz", lzma.compress(large), None),
    ]


def judge(args, bounds, path, due):
    problems = []
    for words in (("info",), ("tree",), ("ls", "--json")):
        r = run(args, *words, path, timeout=120, cpu=bounds.cpu(path))
        problems += [r.crash] if r.crash else bounds.problems(r, path)
        told = r.err + r.out
        if due is None and r.status != 0:
            problems.append(f"{r.words}: status {r.status}: {r.tail}")
        elif due and (r.status not in (2, 3) or due.encode() not in told):
            problems.append(f"{r.words}: status {r.status}, not a word of {due}: {r.tail}")
    return problems


def main():
    args = arguments(__doc__, leaks=True)
    bounds, tap = Bounds(args), Tap()
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for name, data, due in made():
            jobs.append((os.path.join(folder, name), due))
            with open(jobs[-1][0], "wb") as f:
                f.write(data)
        for root in args.roots:
            attack = os.path.join(root, "attack")
            if os.path.isdir(attack):
                jobs += [(os.path.join(attack, n), "") for n in sorted(os.listdir(attack)) if n.endswith(PACKED)]
        jobs = [job for job in jobs if args.only is None or args.only in job[0]]
        done = in_parallel(lambda job: judge(args, bounds, *job), jobs)
        for (path, _), problems in zip(jobs, done):
            tap.none(os.path.basename(path), problems)
    tap.done()


main()
