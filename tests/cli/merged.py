#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results of parts that were damaged or made up: merge never crashes, and what it joins never says better than the
parts do. Prints TAP.

A mutant is a set of results with one change, of bytes, lines, fields or whole files. Of half of them the checksum is
made anew, as who wants to deceive would do. What is taken with its old checksum must say what the results say that
were not changed.

merged.py BINARY [MUTANTS [SEED]]
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
RANK = {0: 0, 3: 1, 1: 2, 2: 3}  # from the best status to the worst
SANITIZERS = (b"AddressSanitizer", b"LeakSanitizer", b"runtime error:")
OUTPUTS = (["--json"], [], ["--jsonl"], ["-o", "csv"])
VALUES = (None, True, False, 0, 1, -1, 2, 63, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 63) - 1, 10 ** 30, 0.5, "",
          "x", "good", "error", "FI1001", "FI0000", "a" * 70000, "\x01\u20ac", [], [1], ["x"], {}, {"a": 1}, [[[[]]]])


def checksum(data):
    """As a part writes it: FNV-1a of what is in front of the last comma, without white space between values."""
    value = before = 14695981039346656037
    in_text = escaped = False
    for byte in data:
        if not in_text and byte in b" \t\r\n":
            continue
        if not in_text and byte == 0x2c:
            before = value
        if byte == 0x22 and not escaped:
            in_text = not in_text
        escaped = in_text and byte == 0x5c and not escaped
        value = (value ^ byte) * 1099511628211 & (1 << 64) - 1
    return f"{before:016x}"


def dump(lines):
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines).encode()


def sealed(data):
    """With the right checksum, if there is a place for one."""
    end = data.rfind(b'"checksum":"')
    return data[:end + 12] + checksum(data).encode() + data[end + 28:] if end >= 0 else data


# ---- results

def safetensors(path, tensors, size=4):
    head = {name: {"dtype": "F32", "shape": [size], "data_offsets": [4 * size * i, 4 * size * (i + 1)]} for i, name in enumerate(tensors)}
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + bytes(range(4 * size)) * len(tensors))


def make_model(folder):
    """Three shards and their index."""
    os.mkdir(folder)
    index = {}
    for i in range(3):
        names = [f"model.layers.{k}.mlp.up.weight" for k in range(2 * i, 2 * i + 2)]
        safetensors(os.path.join(folder, f"model-{i + 1:05}-of-00003.safetensors"), names)
        index.update((name, f"model-{i + 1:05}-of-00003.safetensors") for name in names)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="ascii") as f:
        json.dump({"metadata": {"total_size": 96}, "weight_map": index}, f)


class Run:
    """The results of all parts, and what they are joined to."""

    def __init__(self, binary, folder, name, parts, *words):
        self.name, self.binary, self.folder = name, binary, folder
        self.files = []
        for k in range(1, parts + 1):
            path = os.path.join(folder, f"part-{k}.jsonl")
            subprocess.run([binary, *words, "-qq", f"--part={k}/{parts}", "-o", f"jsonl={path}"], cwd=folder,
                           capture_output=True, check=False)
            with open(path, "rb") as f:
                self.files.append(f.read())
            os.unlink(path)
        whole = subprocess.run([binary, *words, "-qq"], cwd=folder, capture_output=True, check=False)
        self.status = whole.returncode
        self.said = [self.merge(self.files, output) for output in OUTPUTS]
        assert all(said.returncode == self.status for said in self.said), (name, self.status, self.said)

    def merge(self, files, output):
        paths = []
        for i, data in enumerate(files):
            paths.append(os.path.join(self.folder, f"m-{i}.jsonl"))
            with open(paths[-1], "wb") as f:
                f.write(data)
        env = dict(os.environ, ASAN_OPTIONS="exitcode=99:detect_leaks=1:allocator_may_return_null=1", UBSAN_OPTIONS="halt_on_error=1:exitcode=99",
                   LC_ALL="C.UTF-8")
        return subprocess.run([self.binary, "merge", "-qq", *output, *paths], cwd=self.folder, capture_output=True,
                              check=False, timeout=120, env=env)


def make_runs(binary, folder):
    model, bad = os.path.join(folder, "model"), os.path.join(folder, "bad")
    make_model(model)
    shutil.copytree(model, bad)
    with open(os.path.join(bad, "model-00002-of-00003.safetensors"), "r+b") as f:
        f.truncate(os.path.getsize(f.name) - 3)
    for name, words in (("files", ["hash"]), ("tensors", ["hash", "--logical"])):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(subprocess.run([binary, *words, "model"], cwd=folder, capture_output=True, check=True).stdout)
    for name in ("files", "tensors"):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            lines = [line for line in f if not line.startswith("sha256:")]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.writelines(lines)
        lines[0] = lines[0].translate(str.maketrans("0123456789", "1234567890"))
        with open(os.path.join(folder, name + "-wrong"), "w", encoding="utf-8") as f:
            f.writelines(lines[:-1] + [f"{0:064}  gone\n"])
    testdata = os.path.join(ROOT, "testdata")
    return [
        Run(binary, folder, "files", 3, "hash", "model"),
        Run(binary, folder, "tensors", 2, "hash", "--logical", "model"),
        Run(binary, folder, "files as listed", 2, "hash", "--check=files", "model"),
        Run(binary, folder, "tensors not as listed", 2, "hash", "--logical", "--check=tensors-wrong", "model"),
        Run(binary, folder, "tensors that are cut", 2, "hash", "--logical", "bad"),
        Run(binary, folder, "a good audit", 2, "audit", "--data", os.path.join(testdata, "demo", "step-1234")),
        Run(binary, folder, "an audit with a list that differs", 3, "audit", "--data", "--manifest=files-wrong", "model"),
        Run(binary, folder, "a bad audit", 2, "audit", "--data", "bad"),
        Run(binary, folder, "an audit in part", 2, "audit", "--data", "--checks", "--limit=inflate-bytes=1",
            os.path.join(testdata, "torch-zip", "state-dict", "model.pt")),
        Run(binary, folder, "an audit with findings left out", 2, "audit", "--data", "--limit=findings=1", "--rule=FI3003=error",
            os.path.join(testdata, "torch-zip", "whole-module")),
    ]


# ---- mutants

def places(value):
    """Every container in a value."""
    if isinstance(value, (dict, list)):
        if value:
            yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from places(item)


def other(rng, value):
    """A value of another type, or another one of the same."""
    if isinstance(value, bool):
        return rng.choice((not value, rng.choice(VALUES)))
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, 0, 2 * value, rng.choice(VALUES)))
    if isinstance(value, str) and value and rng.random() < 0.5:
        at = rng.randrange(len(value))
        return value[:at] + chr(rng.randrange(33, 127)) + value[at + 1:]
    return rng.choice(VALUES)


WORDS = (("error", "note"), ("warning", "note"), ("bad", "good"), ("partial", "good"), ("failed", "passed"), ("not_evaluated", "passed"),
         ("not_evaluated", "not_applicable"), ("mismatched", "matched"), ("unlisted", "matched"), (1, 0), (3, 0), (False, True))


def better(lines, rng):
    """One field says what is better."""
    found = []
    for line in lines:
        for place in places(line):
            for key, value in list(place.items() if isinstance(place, dict) else enumerate(place)):
                found += [(place, key, new) for old, new in WORDS if type(old) is type(value) and old == value]
    if found:
        place, key, value = rng.choice(found)
        place[key] = value


def field(lines, rng):
    line = lines[-1] if rng.random() < 0.4 else rng.choice(lines)
    place = rng.choice(list(places(line)))
    key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
    kind = rng.randrange(6)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[key + "x"] = place.pop(key)
    elif kind == 2 and isinstance(place, list):
        place.append(place[key])
    else:
        place[key] = other(rng, place[key])


def some_lines(lines, rng):
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, json.loads(json.dumps(lines[at])))
    elif kind == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif kind == 3:
        lines[:] = [line for line in lines if line["type"] != "finding"]
    elif kind == 4:
        lines[:] = [line for line in lines if line["type"] != "item" or rng.random() < 0.7]
    else:
        del lines[at:]
    if rng.random() < 0.5 and lines and "items" in lines[-1]:  # and the last line counts what is left
        for key, kind in (("items", "item"), ("findings", "finding"), ("errors", "error")):
            lines[-1][key] = sum(line.get("type") == kind for line in lines)


def some_bytes(data, rng):
    at, size = rng.randrange(len(data)), 1 if rng.random() < 0.7 else rng.randrange(1, 40)
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]
    if kind == 1:
        return data[:at] + data[at + size:]
    if kind == 2:
        return data[:at] + rng.randbytes(size) + data[at + size:]
    if kind == 3:
        return data[:at]
    numbers = [m.span() for m in re.finditer(rb"\d+", data)]
    start, end = rng.choice(numbers)
    return data[:start] + str(rng.choice((9, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 64, 10 ** 400))).encode() + data[end:]


def some_files(files, others, rng):
    kind, at = rng.randrange(4), rng.randrange(len(files))
    if kind == 0:
        del files[at]
    elif kind == 1:
        files.append(files[at])
    elif kind == 2:
        files[at] = rng.choice(rng.choice(others).files)
    else:
        rng.shuffle(files)
    return files or [b""]


def mutant(run, runs, rng, times=1):
    """(files, whether each result is as it was or has its old checksum)"""
    files, seal = list(run.files), rng.random() < 0.5
    for _ in range(times):
        at, kind = rng.randrange(len(files)), rng.randrange(10)
        if kind == 0:
            files = some_files(files, runs, rng)
        elif kind < 3 and files[at]:
            files[at] = some_bytes(files[at], rng)
        else:
            try:
                lines = [json.loads(line) for line in files[at].splitlines()]
                if lines:
                    (better, field, field, field, some_lines, some_lines)[rng.randrange(6)](lines, rng)
            except (ValueError, IndexError, KeyError, TypeError, AttributeError):
                continue
            if seal and lines and isinstance(lines[-1], dict) and "checksum" in lines[-1]:
                lines[-1]["checksum"] = lines[-1].pop("checksum")  # the last member again
            files[at] = dump(lines)
    if seal:
        files = [sealed(data) for data in files]
    return files, not seal


# ---- judging

def told(files):
    """The worst that results say of themselves: by their status and verdict, and of audits by their findings."""
    worst = 0
    for data in files:
        audit = b'"fsdp-inspect.audit"' in data
        for text in data.splitlines():
            try:
                line = json.loads(text)
                if audit and line["type"] == "finding" and line["severity"] == "error" and not line["rule"].startswith("FI90"):
                    worst = max(worst, RANK[1])
                if line["type"] == "end":
                    worst = max(worst, RANK[line["status"]])
                    worst = max(worst, {"bad": RANK[1], "partial": RANK[3]}.get(line["data"].get("verdict"), 0))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
    return worst


def problem(run, files, is_damage, output, times):
    joined = run.merge(files, OUTPUTS[output])
    if joined.returncode not in RANK or any(mark in joined.stderr for mark in SANITIZERS):
        return "crash", f"ended with {joined.returncode}: {joined.stderr[-400:]!r}"
    if joined.returncode == 2:
        return "refused", None
    if is_damage and joined.stdout != run.said[output].stdout:
        return "taken", "what is damaged is taken, and says something else"
    if times == 1 and RANK[joined.returncode] < RANK[run.status]:
        return "taken", f"status {joined.returncode}, and {run.status} before the change"
    if RANK[joined.returncode] < told(files):
        return "taken", f"status {joined.returncode}: a part says worse"
    return "taken", None


def main():
    binary = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fsdp-merged-") as folder:
        runs = make_runs(binary, folder)
        statuses = {run.status for run in runs}
        assert statuses == {0, 1, 3}, statuses
        totals = {}
        for number, run in enumerate(runs, 1):
            problems = []
            for i in range(count // len(runs)):
                times = 1 if i % 4 else 3
                files, is_damage = mutant(run, runs, rng, times)
                if files == run.files:
                    continue
                outcome, wrong = problem(run, files, is_damage, i % len(OUTPUTS), times)
                totals[outcome] = totals.get(outcome, 0) + 1
                if wrong:
                    problems.append(wrong)
                    keep = os.environ.get("KEEP_MUTANTS")
                    for k, data in enumerate(files if keep else []):
                        with open(os.path.join(keep, f"{run.name.replace(' ', '-')}-{i}-{k}.jsonl"), "wb") as f:
                            f.write(data)
            failed += bool(problems)
            print(f"{'not ok' if problems else 'ok'} {number} - {run.name}: results that were changed", flush=True)
            for text in problems[:10]:
                print(f"#   {text}")
    print(f"# {sum(totals.values())} mutants: {totals}")
    print(f"1..{len(runs)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
