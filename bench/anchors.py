#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python does with the same input. Prints {"answer": …}, and "seconds" where only a
part of the run is the anchor.

    bench/anchors.py zipfile|unpickle|header|index|torch|dump|tree|trace FILE
"""
import collections
import io
import json
import os
import pickle
import sys
import time
import zipfile


def count_members(path):
    with zipfile.ZipFile(path) as z:
        return {"answer": len(z.namelist())}


class Stub:
    """Stands for any class of the stream: keeps state, does nothing."""

    def __init__(self, *args):
        self.args = args

    def __setstate__(self, state):
        self.state = state

    def __hash__(self):
        return id(self)


class Inert(pickle.Unpickler):
    """CPython's own unpickler over classes that only remember."""

    def __init__(self, file):
        super().__init__(file)
        self.classes = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if name not in self.classes:
            self.classes[name] = type(name, (Stub,), {})
        return self.classes[name]

    def persistent_load(self, pid):
        return pid


def unpickle(path):
    with open(path, "rb") as f:
        state = Inert(f).load().state
    tensors = state["state_dict_metadata"]
    chunks = [len(t.state["chunks"]) for t in tensors.values() if hasattr(t, "state")]
    return {"answer": [len(chunks), sum(chunks)]}


def header_of(path):
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        tensors = json.loads(f.read(size))
    tensors.pop("__metadata__", None)
    return tensors


def header(path):
    """Of a safetensors file."""
    return {"answer": len(header_of(path))}


def index(path):
    """Of a folder of safetensors files, and their headers."""
    with open(os.path.join(path, "model.safetensors.index.json"), encoding="utf-8") as f:
        files = json.load(f)["weight_map"]
    headers = [header_of(os.path.join(path, name)) for name in sorted(set(files.values()))]
    return {"answer": [len(files), sum(len(h) for h in headers)]}


def torch_load(path):
    import torch
    return {"answer": len(torch.load(path, weights_only=True))}


def dump(path):
    """Writes again what was read; only writing counts."""
    with open(path, encoding="utf-8") as f:
        doc = json.load(f)
    with open("/dev/null", "w", encoding="utf-8") as f:
        start = time.perf_counter()
        json.dump(doc, f)
        return {"answer": len(doc["data"]["tensors"]), "seconds": time.perf_counter() - start}


def names_of(path):
    with zipfile.ZipFile(path) as z:
        root = z.namelist()[0].split("/")[0]
        data = z.read(root + "/data.pkl")
    return list(Inert(io.BytesIO(data)).load())


def tree(path):
    """The modules of all names as nested dicts, printed; reading does not count."""
    names = names_of(path)
    start = time.perf_counter()
    root = {}
    for name in names:
        node = root
        for part in name.split(".")[:-1]:
            node = node.setdefault(part, {})
    lines = 0
    with open("/dev/null", "w", encoding="utf-8") as f:
        stack = [("", 0, root)]
        while stack:
            name, depth, node = stack.pop()
            f.write("    " * depth + name + "\n")
            lines += 1
            stack += [(f"{name}.{k}" if name else k, depth + 1, v) for k, v in reversed(node.items())]
    return {"answer": lines, "seconds": time.perf_counter() - start}


def trace(path):
    """A trace as Python reads it, and the sum of all durations by name."""
    with open(path, encoding="utf-8") as f:
        doc = json.load(f)
    sums = {}
    for event in doc["traceEvents"]:
        sums[event["name"]] = sums.get(event["name"], 0) + event.get("dur", 0)
    return {"answer": len(doc["traceEvents"])}


WORK = {"trace": trace, "zipfile": count_members, "unpickle": unpickle, "header": header, "index": index,
        "torch": torch_load, "dump": dump, "tree": tree}

if __name__ == "__main__":
    print(json.dumps(WORK[sys.argv[1]](sys.argv[2])))
