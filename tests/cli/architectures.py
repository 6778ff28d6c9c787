#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cli/architectures.py BINARY TESTDATA : `audit` finds nothing in sound models of public libraries, and what is lost of them.

A file of testdata/architectures has the names of one model: `DTYPE SHAPE NAME`, where `{0-2,5}` stands for several numbers and
`-` for no dimension; `config` is its config.json. Its payload is a hole here, so FI2010 is left out.
`! drop NAME` and `! half NAME DIMENSION` are defects: each alone must be an error that names it.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

WIDTHS = {"F32": 4, "I64": 8, "F16": 2, "BF16": 2, "BOOL": 1}


def numbers(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def expand(name):
    """All names that one with {0-2,5} stands for."""
    place = re.search(r"\{([^}]*)\}", name)
    if place is None:
        return [name]
    return [other for n in numbers(place[1]) for other in expand(f"{name[:place.start()]}{n}{name[place.end():]}")]


def read(path):
    """The file of the model, its configuration, tensors by name and defects."""
    model = {"file": "model.safetensors", "config": None, "tensors": {}, "defects": []}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word in ("file", "config"):
                model[word] = rest
            elif word == "!":
                model["defects"].append(rest.split(" "))
            elif word != "#":
                shape, name = rest.split(" ")
                sizes = [int(size) for size in shape.split("x")] if shape != "-" else []
                model["tensors"].update((other, (word, sizes)) for other in expand(name))
    return model


def found(binary, model, tensors):
    """Errors and warnings of a model with such tensors: rule, severity and what they name."""
    head, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTHS[dtype] * math.prod(shape)
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, model["file"]), "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            f.truncate(8 + len(text) + at)
        if model["config"]:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
                f.write(model["config"])
        run = subprocess.run([binary, "audit", "--json", folder], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    return [f for f in json.loads(run.stdout)["findings"] if f["severity"] in ("error", "warning") and f["rule"] != "FI2010"]


def names(finding, name):
    module = finding.get("module")
    return finding["severity"] == "error" and (
        name in (finding.get("affected") or []) or name == finding.get("tensor") or bool(module and name.startswith(module + ".")))


def defect(tensors, what, name, dim="0"):
    """The tensors with one defect."""
    broken = {n: t for n, t in tensors.items() if what != "drop" or n != name}
    if what == "half":
        dtype, shape = tensors[name]
        broken[name] = (dtype, [size // 2 if i == int(dim) else size for i, size in enumerate(shape)])
    return broken


def main():
    binary, folder = sys.argv[1], os.path.join(sys.argv[2], "architectures")
    results = []
    for file in sorted(os.listdir(folder)):
        model = read(os.path.join(folder, file))
        wrong = [f"{f['severity']} {f['rule']} {f['message']}" for f in found(binary, model, model["tensors"])]
        results.append((not wrong, f"{file}: nothing is found in {len(model['tensors'])} tensors", wrong))
        for words in model["defects"]:
            rows = found(binary, model, defect(model["tensors"], *words))
            results.append((any(names(f, words[1]) for f in rows), f"{file}: {' '.join(words)} is found", rows))
    print(f"1..{len(results)}")
    for i, (good, what, why) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {i} - {what}")
        if not good:
            print("\n".join(f"# {line}" for line in why[:5]))
    return not all(good for good, _, _ in results)


if __name__ == "__main__":
    sys.exit(main())
