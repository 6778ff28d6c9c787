#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch's relatives, as their own libraries write them.

Names, dtypes, shapes, roles, world size, scalars against what was taken from the live model;
and the bytes at the places that `show` names, gathered here without the program's help, have to
hash to the live tensor's digest.
"""
import hashlib
import itertools
import os
import shutil
import tarfile
import tempfile

from oraclelib import Tap, arguments, envelope, product, run, same, told_cases

WIDTH = {"64": 8, "32": 4, "16": 2, "128": 16}
WHOLE_BYTES = {"complex64": 8, "complex128": 16, "bool": 1}
# Layouts that say which tensors are buffers; elsewhere a buffer is as good as a parameter.
LIST_BUFFERS = ("deepspeed", "fairscale", "xla")
# What the program reads. The others are recognised and said (`foreign`).
READ = ("deepspeed/universal-from-zero2-bf16-w2", "deepspeed/universal-from-zero3-fp32-w2",
        "cross/model-a-deepspeed-zero2-w2", "cross/model-a-deepspeed-zero3-w2", "deepspeed/zero0-w1",
        "deepspeed/zero1-bf16opt-w2", "deepspeed/zero1-fp32-w2", "deepspeed/zero2-aligned-w2",
        "deepspeed/zero2-bf16-w2", "deepspeed/zero2-roundrobin-w2", "deepspeed/zero3-bf16-subgroups-w2",
        "deepspeed/zero3-fp32-w2", "accelerate", "lightning", "megatron",
        "rl-and-serving/verl-fsdp2-w2", "cross/model-a-trainer", "hf", "safetensors", "cross/model-a-hf", "cross/model-a-dcp-safetensors-w2", "wrong/index-shard-lost", "torch-tar", "cross/model-a-safetensors", "wrong/flat-shard-as-weight",
        "wrong/missing-keys", "wrong/norms-concatenated", "wrong/rank-order-swapped",
        "wrong/zero3-placeholders", "cross/model-a-legacy", "cross/model-a-pt", "cross/model-a-changed",
        "cross/model-a-dcp-w2")


# Scalars that no entry of this name holds: elements of tensors, numbers of folders.
COUNTED = ("steps", "global_step")


def wanted(name):
    return any(name == r or name.startswith(r + "/") for r in READ)


def item_bytes(dtype):
    if dtype in WHOLE_BYTES:
        return WHOLE_BYTES[dtype]
    for bits, width in WIDTH.items():
        if dtype.endswith(bits):
            return width
    return 1


class Files:
    """The bytes of a checkpoint, read without the program."""

    def __init__(self, path):
        self.path, self.cache = path, {}
        if os.path.isfile(path) and tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                self.cache = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}

    def __getitem__(self, name):
        if name not in self.cache:
            path = self.path if os.path.isfile(self.path) else os.path.join(self.path, name)
            if not os.path.exists(path):  # the program entered the one folder that is a checkpoint
                path = next(p for b in os.listdir(self.path)
                            if os.path.exists(p := os.path.join(self.path, b, name)))
            with open(path, "rb") as f:
                self.cache[name] = f.read()
        return self.cache[name]


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def assemble(item, files):
    """The whole tensor's bytes from the pieces that `show` names."""
    shape, pieces = item["shape"], [p for p in item["pieces"] if p["length"]]
    first = pieces[0] if pieces else None
    if product(shape) == 0:
        return b""
    if first and first.get("sizes") in (None, shape) and "param_start" not in first and not first.get("strides"):
        return files[first["file"]][first["offset"]:first["offset"] + first["length"]]
    width = item_bytes(item["dtype"])
    out, steps = [None] * product(shape), contiguous(shape)
    for piece in pieces:
        data = files[piece["file"]]
        if "param_start" in piece:
            for i in range(piece["param_start"], piece["param_end"] + 1):
                at = piece["offset"] + (i - piece["param_start"]) * width
                out[i] = data[at:at + width]
            continue
        sizes = shape if piece.get("sizes") is None else piece["sizes"]
        offsets = [0] * len(shape) if piece.get("offsets") is None else piece["offsets"]
        strides = piece.get("strides") or contiguous(sizes)
        for index in itertools.product(*map(range, sizes)):
            at = piece["offset"] + sum(i * s for i, s in zip(index, strides)) * width
            out[sum((i + o) * s for i, o, s in zip(index, offsets, steps))] = data[at:at + width]
    if None in out:
        raise ValueError(f"{out.count(None)} of {len(out)} elements are in no piece")
    return b"".join(out)


def path_of(case):
    """The one file of the case, or its folder."""
    below = [n for n in os.listdir(case.folder) if n != "expected"]
    only = os.path.join(case.folder, below[0])
    return only if len(below) == 1 and os.path.isfile(only) else case.folder


def check_tensors(item_of, want, truth, files, problems):
    for name, tensor in want.items():
        item = item_of.get(name)
        if item is None:
            continue
        for key in ("dtype", "shape"):
            if key in tensor:
                same(problems, f"{name}: {key}", item[key], tensor[key])
        role = tensor["role"]
        if role == "buffer" and not truth["expected_format_name"].startswith(LIST_BUFFERS):
            role = "param"
        same(problems, f"{name}: role", item["role"], role)
        if tensor.get("sha256") is None:
            continue
        try:
            found = hashlib.sha256(assemble(item, files)).hexdigest()
        except (ValueError, KeyError, OSError, TypeError, IndexError) as e:
            problems.append(f"{name}: bytes cannot be gathered: {type(e).__name__}: {e}")
            continue
        if found != tensor["sha256"]:
            problems.append(f"{name}: the bytes at its places are not its values")


def expected(truth):
    """By name. A user's own dict keeps its keys; runs of one rank are parts of the whole."""
    if truth["expected_format_name"] == "torch-zip":
        return {".".join(map(str, t["files"][0].get("key", [t["fqn"]]))): t for t in truth["tensors"]}
    if "merged" in truth:  # masters and buffers, and what the optimizer has of them
        roles = {t["fqn"]: t["role"] for t in truth["tensors"]}
        more = [t for t in truth["tensors"] if t["role"] == "optim"]
        return {t["fqn"]: {"role": roles[t["fqn"]], **t} for t in truth["merged"] + more}
    if truth["expected_format_name"] == "deepspeed-universal":  # bare ones get their shape from param_shapes
        drop = ("shape",)
        return {"state." + n.replace("/step", ".step") if n.endswith("/step") else n:
                {k: v for k, v in t.items() if t["stored"] != "bare" or k not in drop}
                for n, t in ((t["fqn"], t) for t in truth["tensors"])}
    if truth["expected_format_name"] == "megatron-legacy":  # slices of ranks, joined
        return {t["fqn"]: {"role": "param", **t} for t in truth["logical"]}
    if "logical" in truth:
        return {t["fqn"]: {k: v for k, v in t.items() if k != "shape"} for t in truth["logical"]}
    return {t["fqn"]: t for t in truth["tensors"]}


def listed_names(listed, want, truth):
    """All of them; but what callbacks keep is in no truth, nor what is stored beside runs."""
    more = truth["expected_format_name"] == "torch-zip" or "logical" in truth
    known = [*want, *(truth.get("shared_params") or ()), *(truth.get("buffer_names") or ())]
    if any(n in known and n not in {t["name"] for t in listed["data"]["tensors"]} for n in known):
        return []
    return [t["name"] for t in listed["data"]["tensors"]
            if t["name"] in want or not (t["name"] in known) and not (more or t["name"].startswith(("callbacks.", "module.", "optimizer.")))]


def check(args, path, truth):
    problems = []
    want = expected(truth)
    info = envelope(run(args, "info", "--json", path), problems)
    listed = envelope(run(args, "ls", "--json", path), problems)
    if info is None or listed is None:
        return problems
    same(problems, "format", info["data"]["format"]["family"], truth["expected_format_name"])
    if truth["expected_format_name"] != "torch-zip":  # one file says nothing of its world
        same(problems, "world size", info["data"].get("world_size", 1), truth["world_size"])
    values = {v["name"]: v.get("value") for v in info["data"]["values"]}
    for key, value in truth["scalars"].items():
        if key not in COUNTED and values.get(key) != value:
            problems.append(f"scalar {key}: found {values.get(key)!r}, expected {value!r}")
    names = listed_names(listed, want, truth)
    same(problems, "names", sorted(names), sorted(want))
    if not names:
        return problems
    doc = envelope(run(args, "show", "--json", "--", path, *names), problems)
    if doc is not None:
        check_tensors({i["name"]: i for i in doc["data"]["items"]}, want, truth, Files(path), problems)
    for f in info["findings"] if truth["complete"] else ():
        if f["severity"] == "error":
            problems.append(f"a sound checkpoint, but {f['rule']} {f['message']}")
    return problems


# Numbers of steps in names of folders, and what points to them.
STEPS = (("global_step2", "global_step1234"), ("global_step_20", "global_step_987654"),
         ("iter_0000010", "iter_0123456"), ("iter_0000500", "iter_0123456"))
POINTERS = ("latest", "latest_universal", "latest_checkpointed_iteration.txt")


def rename_step(case, folder):
    """The checkpoint with another step in its names, or None if they hold none."""
    old, new = next(((o, n) for o, n in STEPS if any(x.startswith(o) for x in os.listdir(case.folder))), (None, None))
    if old is None:
        return None
    copy = os.path.join(folder, "copy")
    shutil.copytree(case.folder, copy, ignore=shutil.ignore_patterns("expected"), copy_function=shutil.copyfile)
    for name in os.listdir(copy):
        path = os.path.join(copy, name)
        os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
        if name in POINTERS:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace(old, new))
        elif name.startswith(old):
            os.rename(path, os.path.join(copy, name.replace(old, new)))
    return copy


# What is only recognised: a word that the refusal has to have.
SAID = {"gguf": "GGUF", "hdf5": "HDF5", "html": "HTML", "lfs-pointer": "Git LFS", "npz": "NumPy",
        "orbax": "Orbax", "vllm-sharded-state": "vLLM", "meta-consolidated": "Meta", "xla-fsdp": "torch_xla",
        "fairscale-fsdp": "fairscale", "torchrec-sharding-plan": "TorchRec"}


def check_said(args, path, word):
    r = run(args, "info", path)
    text = r.err.decode("utf-8", "replace")
    problems = [r.crash] if r.crash else []
    same(problems, "status", r.status, 2)
    if word not in text:
        problems.append(f"{word} is not in: {text}")
    if "next: " not in text:
        problems.append(f"no next step in: {text}")
    return problems


def main():
    args = arguments(__doc__)
    tap = Tap()
    for case, truth in told_cases(args):
        word = SAID.get(truth.get("expected_format_name"))
        if word is not None:
            tap.none(f"{case.name}: said", check_said(args, case.folder, word))
        if not wanted(case.name):
            continue
        path = path_of(case)
        tap.none(case.name, check(args, path, truth))
        with tempfile.TemporaryDirectory() as folder:
            copy = rename_step(case, folder)
            if copy is not None:
                tap.none(f"{case.name}: at another step", check(args, copy, truth))
        if os.path.isfile(path):
            with tempfile.TemporaryDirectory() as folder:
                renamed = os.path.join(folder, "another name.bin")
                shutil.copy(path, renamed)
                tap.none(f"{case.name}: under another name", check(args, renamed, truth))
    tap.done()


main()
