#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A flipped bit is found by `audit --data` wherever a CRC of the file covers it.

Bits are drawn at random, with a fixed seed, from the files of samples, and flipped one at a time in a
copy. Of bytes that a zip records a CRC of, each must be found. Of all others it is counted how many are:
that is the table "What --data can see" of the manual, printed with --table yes.
"""
import bisect
import os
import random
import shutil
import struct
import subprocess
import tempfile
import zlib

from oraclelib import Tap, arguments, skip_all
from losses import NOT_READ, copy, samples

SEED = 20261123
COVERED, COVERED_OF_ALL = 300, 10000  # with --all
TABLE = 250  # of each format
FORMATS = [
    ("torch.save, zip", ("torch-zip/", "fsdp1/", "fsdp2/")),
    ("DCP", ("dcp/",)),
    ("Trainer", ("trainer/",)),
    ("Lightning", ("eco/lightning/",)),
    ("Accelerate", ("eco/accelerate/",)),
    ("DeepSpeed", ("eco/deepspeed/",)),
    ("Megatron", ("eco/megatron/",)),
    ("Hugging Face, safetensors", ("eco/hf/", "eco/safetensors/")),
    ("torch.save, tar and before", ("eco/torch-tar/",)),
]
MUST = ("torch-zip/", "dcp/", "trainer/", "eco/lightning/")
# Files that nothing refers to.
STRAY = ("dcp-overwritten/checkpoint/__2_0.distcp", "dcp-overwritten/checkpoint/__3_0.distcp")
# Bytes of texts that hold no facts of a checkpoint.
TEXTS = (".md", ".txt", ".py", ".jinja", ".log", ".csv")


def zips(data):
    """Where zips begin and end: all of a file, or items one behind the other."""
    at = 0
    while True:
        at = data.find(b"PK\5\6", at)
        if at < 0:
            return
        if at + 22 <= len(data):
            size, begin = struct.unpack_from("<II", data, at + 12)
            first = at - size - begin
            for record in (0, 76):  # a zip64 record and its locator may lie between
                if begin != 0xFFFFFFFF and data[at - size - record:at - size - record + 4] == b"PK\1\2":
                    yield first - record, at - size - record, at - record
                    break
        at += 4


def covered(data):
    """Ranges of bytes that a CRC covers."""
    ranges = []
    for base, directory, end in zips(data):
        members = []
        at = directory
        while data[at:at + 4] == b"PK\1\2":
            crc, stored = struct.unpack_from("<II", data, at + 16)
            name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
            header = base + struct.unpack_from("<I", data, at + 42)[0]
            begin = header + 30 + sum(struct.unpack_from("<HH", data, header + 26))
            members.append((crc, begin, stored))
            at += 46 + name + extra + comment
        # Where CRCs are switched off, something else is there.
        ranges += [(begin, begin + stored) for crc, begin, stored in members
                   if stored and zlib.crc32(data[begin:begin + stored]) == crc]
    return sorted(ranges)


class Place:
    """A byte range of a file in a copy."""

    def __init__(self, checkpoint, file, begin, end, covered_):
        self.checkpoint, self.file, self.begin, self.end, self.covered = checkpoint, file, begin, end, covered_


def places(checkpoint):
    files = [checkpoint] if os.path.isfile(checkpoint) else sorted(
        os.path.join(d, n) for d, _, names in os.walk(checkpoint) for n in names)
    for file in files:
        if os.path.islink(file) or file.endswith(TEXTS + STRAY):
            continue
        with open(file, "rb") as f:
            data = f.read()
        at = 0
        for begin, end in covered(data) + [(len(data), len(data))]:
            if at < begin:
                yield Place(checkpoint, file, at, begin, False)
            if begin < end:
                yield Place(checkpoint, file, begin, end, True)
            at = max(at, end)


def draw(rng, among, count):
    """Bytes with equal chance, in the order of checkpoints."""
    ends, total = [], 0
    for place in among:
        total += place.end - place.begin
        ends.append(total)
    drawn = []
    for _ in range(count if total else 0):
        at = rng.randrange(total)
        place = among[bisect.bisect_right(ends, at)]
        drawn.append((place, place.end - (ends[bisect.bisect_right(ends, at)] - at), rng.randrange(8)))
    return sorted(drawn, key=lambda d: d[0].checkpoint)


def ask(helper, flips):
    lines = "".join(f"{p.checkpoint}\t{p.file}\t{at}\t{bit}\n" for p, at, bit in flips)
    done = subprocess.run([helper, "data"], input=lines, capture_output=True, text=True, check=True)
    return [word == "1" for word in done.stdout.split()]


def is_of(sample, families):
    return sample.startswith(tuple(families))


def main():
    args = arguments(__doc__, all="", helper=None, table="")
    if args.fixtures is None:
        skip_all("no samples")
    rng = random.Random(SEED)
    tap = Tap()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as tmp:
        of = {}
        for sample in samples(args.fixtures):
            if args.only is None or args.only in sample:
                path = copy(os.path.join(args.fixtures, sample), os.path.join(tmp, sample.replace("/", "-")))
                of[sample] = list(places(path))
        among = [p for sample, all_ in of.items() if is_of(sample, MUST) for p in all_ if p.covered]
        flips = draw(rng, among, COVERED_OF_ALL if args.all else COVERED)
        found = ask(args.helper, flips)
        missed = [f"{os.path.relpath(p.file, tmp)}: bit {bit} of byte {at}"
                  for (p, at, bit), yes in zip(flips, found) if not yes]
        tap.none(f"each of {len(flips)} flipped bits under a CRC is found", missed)
        tap.ok(len(found) == len(flips) and flips, "there are such bits")
        if args.table:
            print_table(rng, args.helper, of)
        shutil.rmtree(tmp, ignore_errors=True)
        os.makedirs(tmp, exist_ok=True)
    tap.done()


def share(helper, rng, among):
    answers = ask(helper, draw(rng, among, TABLE))
    return f"{100 * sum(answers) / len(answers):.0f} %" if answers else "-"


def print_table(rng, helper, of):
    for name, families in FORMATS:
        all_ = [p for sample, some in of.items() if is_of(sample, families) for p in some]
        inside = [p for p in all_ if p.covered]
        outside = [p for p in all_ if not p.covered]
        bytes_ = [sum(p.end - p.begin for p in some) for some in (inside, all_)]
        print(f"# {name}: {100 * bytes_[0] / max(bytes_[1], 1):.0f} % of {bytes_[1]} bytes are covered; found "
              f"{share(helper, rng, inside)} of these, {share(helper, rng, outside)} of others")


if __name__ == "__main__":
    main()
