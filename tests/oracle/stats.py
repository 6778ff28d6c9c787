# SPDX-License-Identifier: Apache-2.0
"""What the numbers of tensors come to, compared with sums made here of the assembled bytes: over every sample. The
same digits on any number of threads, and for one model however it was saved.
"""
import json
import math
import os
import struct
import subprocess

import oraclelib

JOBS = ("1", "2", "7")
CODES = {"float32": "f", "float64": "d", "float16": "e", "int8": "b", "uint8": "B", "bool": "B", "int16": "h",
         "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "uint64": "Q", "complex64": "f",
         "complex128": "d", "complex32": "e"}


def numbers_of(dtype, data):
    """As Python's numbers, or None: not a dtype of Python."""
    if dtype == "bfloat16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return struct.unpack(f"<{len(halves)}f", b"".join(struct.pack("<I", h << 16) for h in halves))
    if dtype not in CODES:
        return None
    size = struct.calcsize(CODES[dtype])
    return struct.unpack(f"<{len(data) // size}{CODES[dtype]}", data)


def bins_of(numbers, low, high, count=16):
    """How many numbers lie in each part from low to high; halves, since their difference is finite."""
    bins = [0] * count
    for n in numbers:
        if math.isfinite(n):
            part = (n / 2 - low / 2) / (high / 2 - low / 2) if high / 2 - low / 2 > 0 else 0
            bins[min(int(part * count), count - 1)] += 1
    return bins


def close(a, b, scale, loose):
    return (a is None) == (b is None) and (a is None or abs(a - b) <= loose * (scale + abs(b)))


def problems_of(row, numbers):
    finite = [n for n in numbers if not math.isinf(n) and not math.isnan(n)]
    mean = math.fsum(finite) / len(finite) if finite else None
    std = math.sqrt(math.fsum((n - mean) ** 2 for n in finite) / len(finite)) if finite else None
    due = {"zeros": sum(n == 0 for n in numbers), "nan": sum(math.isnan(n) for n in numbers),
           "inf": sum(math.isinf(n) for n in numbers), "min": min(finite, default=None),
           "max": max(finite, default=None)}
    for key, value in due.items():
        if row[key] != value:
            yield f"{row['name']}: {key} is {row[key]}, not {value}"
    if row["bins"] != bins_of(numbers, due["min"], due["max"]):
        yield f"{row['name']}: bins are {row['bins']}"
    scale = max(map(abs, finite), default=0)
    loose = 1e-6 if row["dtype"].endswith("16") else 1e-12
    if not close(row["mean"], mean, scale, loose):
        yield f"{row['name']}: mean is {row['mean']}, not {mean}"
    if not close(row["std"], std, scale, 1e-3 if row["dtype"] == "float16" else 1e-6):
        yield f"{row['name']}: std is {row['std']}, not {std}"


def assembled(helper, path):
    """name -> bytes"""
    run = subprocess.run([helper, path], capture_output=True, timeout=900, check=False)
    found, at = {}, 0
    while run.returncode == 0 and at < len(run.stdout):
        end = run.stdout.index(b"\n", at)
        word, size, name = run.stdout[at:end].split(b" ", 2)
        at = end + 1 + int(size)
        if word == b"ok":
            found[bytes.fromhex(name.decode()).decode(errors="surrogateescape")] = run.stdout[end + 1:at]
    return found


def judge(tap, args, case, path):
    runs = [oraclelib.run(args, "stats", "--raw", "--json", "--hist", "-j", jobs, path) for jobs in JOBS]
    name = f"{case.name}: statistics"
    if runs[0].crash or runs[0].status == 2:
        if runs[0].crash:
            tap.ok(False, name, [runs[0].crash])
        return
    bytes_of, problems, count = assembled(args.helper, path), [], 0
    for row in runs[0].json()["data"]["tensors"]:
        numbers = numbers_of(row["dtype"], bytes_of[row["name"]]) if row["name"] in bytes_of else None
        if numbers is None or "zeros" not in row or len(numbers) < row["numel"]:
            continue
        count += 1
        problems += problems_of(row, numbers)
    if any(r.out != runs[0].out for r in runs):
        problems.append("other digits on other numbers of threads")
    if count or problems:
        tap.none(name, problems)


def judge_cross(tap, args):
    folder = os.path.join(args.fixtures or "", "eco", "cross")
    if not os.path.exists(os.path.join(folder, "model-a.json")):
        tap.skip("one model, the same digits", "no samples")
        return
    answers = {}
    for name in oraclelib.load(os.path.join(folder, "model-a.json"))["equal"]:
        run = oraclelib.run(args, "stats", "--json", "--hist", "--role=param,buffer", os.path.join(folder, name))
        answers[name] = json.dumps(run.json()["data"])
    tap.ok(len(set(answers.values())) == 1, "one model, the same digits", answers.values())


def main():
    args = oraclelib.arguments(__doc__, helper=None)
    tap = oraclelib.Tap()
    for case, truth in oraclelib.told_cases(args):
        path = case.checkpoint(truth)
        if path is not None:
            judge(tap, args, case, path)
    judge_cross(tap, args)
    tap.done()


if __name__ == "__main__":
    main()
