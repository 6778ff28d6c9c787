#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`export` is killed (SIGKILL) before chosen calls that change a file, and what it leaves is looked at as loaders do: the
folder holds all of it, all of what was there before, or nothing that a loader takes. Prints TAP.

kills.py KILLER BINARY MOMENTS
Moments are calls, counted in a run that is not killed: a random choice, and the last ones, where files get their names."""
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

LAST = 12  # calls at the end that are always among the moments


def source(path, count, fill):
    """A safetensors file of `count` tensors of 64 KiB."""
    header = json.dumps({f"layers.{i}.weight": {"dtype": "F32", "shape": [128, 128], "data_offsets": [i << 16, (i + 1) << 16]}
                         for i in range(count)}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for i in range(count):
            stream.write(bytes([i + fill]) * (1 << 16))


def digest(path):
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def is_sound(path):
    """As the safetensors library judges a file when it opens it."""
    with open(path, "rb") as stream:
        data = stream.read()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or 8 + length > len(data):
        return False
    entries = json.loads(data[8:8 + length])
    return 8 + length + max(e["data_offsets"][1] for n, e in entries.items() if n != "__metadata__") == len(data)


def opened(folder, names):
    """{file: digest}, or {} where one of them is not there or cannot be read, which is a refusal."""
    paths = {n: os.path.join(folder, n) for n in names}
    if not all(os.path.exists(p) and is_sound(p) for p in paths.values()):
        return {}
    return {n: digest(p) for n, p in paths.items()}


def indexed(folder):
    path = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        return sorted(set(json.load(stream)["weight_map"].values()))


def by_index(folder):
    """What transformers takes."""
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return opened(folder, ["model.safetensors"])
    return opened(folder, indexed(folder) or [])


def by_pattern(folder):
    """What vLLM, MLX and llama.cpp take: all files of the folder, of which an index only drops some."""
    found = sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))
    listed = indexed(folder)
    return opened(folder, [n for n in found if listed is None or n in listed])


def start(killer, argv, at):
    """(what was told, the process). The process that sweeps up behind a killed one has the pipe too: it is over once the
    pipe has an end."""
    reader, writer = os.pipe()
    env = dict(os.environ, LD_PRELOAD=killer, FSDP_STOP_AT=str(at), FSDP_STOP_FD=str(writer))
    child = subprocess.Popen(argv, env=env, pass_fds=[writer], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
    os.close(writer)
    with os.fdopen(reader) as stream:
        told = stream.readline().strip()
        if told == "stopped":
            child.kill()
        child.communicate()
        stream.read()
    return told, child


def before(case, old, folder):
    shutil.rmtree(folder, ignore_errors=True)
    if case["replaces"]:
        shutil.copytree(old, folder)


def judge(case, old, folder):
    """What is wrong with what is left; None: nothing."""
    if not os.path.isdir(folder):
        return None if not case["replaces"] else "the folder is gone"
    if any(n.endswith(".tmp") for n in os.listdir(folder)):
        return "temporary files stay"
    sound = ({}, case["whole"], by_index(old) if case["replaces"] else {})
    for loader in by_index, by_pattern:
        if loader(folder) not in sound:
            return f"a loader takes {sorted(loader(folder))} {loader.__name__.replace('_', ' ')}"
    return None


def main():
    killer, binary, wanted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
    chance, count = random.Random(7), 0
    cases = [{"name": "shards into a new folder", "limit": "200kB", "replaces": False},
             {"name": "one file into a new folder", "limit": "5GB", "replaces": False},
             {"name": "shards in place of others", "limit": "300kB", "replaces": True},
             {"name": "one file in place of shards", "limit": "5GB", "replaces": True}]
    with tempfile.TemporaryDirectory() as work:
        new, older, old, folder = (os.path.join(work, n) for n in ("new.safetensors", "older.safetensors", "old", "out"))
        source(new, 20, 1)
        source(older, 20, 101)
        subprocess.run([binary, "export", "-q", "--max-shard-size=200kB", "-o", old, older], check=True, stdout=subprocess.DEVNULL)
        print(f"1..{len(cases)}")
        for number, case in enumerate(cases, 1):
            argv = [binary, "export", "-q", "-j2", f"--max-shard-size={case['limit']}", "-o", folder, new] + \
                (["--force"] if case["replaces"] else [])
            before(case, old, folder)
            told, child = start(killer, argv, 0)
            case["whole"] = by_index(folder) if child.returncode == 0 else None
            calls, problems = int(told or 0), []
            moments = set(range(max(1, calls - LAST), calls + 1))
            share = min(calls, wanted // len(cases))
            while len(moments) < max(share, LAST + 1):
                moments.add(chance.randint(1, calls))
            if wanted < len(cases) * LAST:
                moments = set(chance.sample(sorted(moments), share))
            for at in sorted(moments):
                before(case, old, folder)
                told, child = start(killer, argv, at)
                found = judge(case, old, folder) if told == "stopped" else f"it was not stopped: {told}"
                count += 1
                problems += [f"call {at} of {calls}: {found}"] if found else []
            print(f"{'not ' if problems or not case['whole'] else ''}ok {number} - {case['name']}: killed {len(moments)} times")
            for problem in problems[:10]:
                print(f"#   {problem}")
    print(f"# {count} kills")


if __name__ == "__main__":
    main()
