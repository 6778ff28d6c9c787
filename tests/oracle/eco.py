#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch's relatives, as their own libraries write them.

Names, dtypes, shapes, roles, world size, scalars against what was taken from the live model;
and the bytes at the places that `show` names, gathered here without the program's help, have to
hash to the live tensor's digest.
"""
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile

from oraclelib import Tap, arguments, contiguous, copy_tree, envelope, product, run, same, told_cases

WIDTH = {"64": 8, "32": 4, "16": 2, "128": 16}
WHOLE_BYTES = {"complex64": 8, "complex128": 16, "bool": 1}
# What the program only recognises (SAID says how); everything else is read.
NOT_READ = ("foreign", "torchrec")
# Formats whose files say themselves which tensors are buffers.
LIST_BUFFERS = ("deepspeed-zero", "fairscale", "xla")
# What is not compared, with the reason: (start of the sample's name, fact).
NOT_COMPARED = {
    ("lightning/fabric-fsdp1-full-w2", "world size"): "a whole file of two ranks does not say that there were two",
    ("cross/model-a-dcp-safetensors-w2", "scalar __metadata__.DCP_SHARDING_INFO"): "every file has its own: the boxes",
    ("other-fsdp/", "places of scale"): "each rank has a copy of the buffer, and the truth names that of rank 0",
    ("deepspeed/universal", "shape of bare tensors"): "they are stored flat; theirs is the shape of the parameter",
}
# Known gaps: (start of the sample's name, start of the fact) and the reason. An entry that no fact needs fails.
OPEN = {}


def wanted(name):
    return not name.startswith(NOT_READ)


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

    def __getitem__(self, name):
        if name not in self.cache:
            path = self.path if os.path.isfile(self.path) else os.path.join(self.path, name)
            if not os.path.exists(path):  # the program entered the one folder that is a checkpoint
                path = next(p for b in os.listdir(self.path)
                            if os.path.exists(p := os.path.join(self.path, b, name)))
            with open(path, "rb") as f:
                self.cache[name] = f.read()
        return self.cache[name]


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


class Facts:
    """What is compared with the truth, each by the name that NOT_COMPARED and OPEN know."""

    def __init__(self, sample):
        self.sample = sample
        self.problems, self.known = [], set()

    def differs(self, fact, text):
        entry = next((e for e in OPEN if self.sample.startswith(e[0]) and fact.startswith(e[1])), None)
        if entry is None:
            self.problems.append(f"{fact}: {text}")
        self.known.add(entry)

    def same(self, fact, found, expected):
        if found != expected or type(found) is not type(expected):
            self.differs(fact, f"found {found!r}, expected {expected!r}")

    def is_compared(self, fact):
        return not any(self.sample.startswith(sample) and fact == name for sample, name in NOT_COMPARED)

    def all_problems(self):
        """And the gaps of this sample that are none any more."""
        return self.problems + [f"{fact} of {sample} is right: take it out of OPEN" for sample, fact in OPEN
                                if self.sample.startswith(sample) and (sample, fact) not in self.known]


# ---- what the truth says, by the names that the program has for it

def whole_tensors(truth):
    """Records of whole tensors, by name; those that ranks hold parts of are joined."""
    kind = truth["expected_format_name"]
    if kind == "torch-zip":  # a user's own dict keeps its keys
        return {".".join(map(str, t["files"][0].get("key", [t["fqn"]]))): t for t in truth["tensors"]}
    if "merged" in truth:  # masters and buffers, and what the optimizer has of them
        roles = {t["fqn"]: t["role"] for t in truth["tensors"]}
        more = [t for t in truth["tensors"] if t["role"] in ("optim", "buffer")]
        found = {t["fqn"]: t for t in more}
        found.update((t["fqn"], {"role": roles[t["fqn"]], **t}) for t in truth["merged"])
        return found
    if kind == "deepspeed-universal":
        return {"state." + n.replace("/step", ".step") if n.endswith("/step") else n: t
                for n, t in ((t["fqn"], t) for t in truth["tensors"])}
    if "logical" in truth:
        return {t["fqn"]: {"role": "param", **t} for t in truth["logical"]}
    return {t["fqn"]: t for t in truth["tensors"]}


def places(truth, name, want):
    """Every stored part of a tensor; None where the truth has none of this form."""
    name = (truth.get("shared_params") or {}).get(name, name)
    if "merged" not in truth and "files" in want:
        return want["files"]
    for view in ("fp32_master", "frozen_fragment", "optimizer", "module"):
        found = [t for t in truth["tensors"] if t["fqn"] == name and t.get("view") == view and not t.get("placeholder")]
        if found:
            return [f for t in found for f in t["files"]]
    return None


def may_be_more(truth, name):
    """What is listed besides the tensors of the truth: state of callbacks and random generators, other forms of the
    same tensors, and what stands beside a user's model in the same file or in files of the same ranks."""
    if name.startswith(("random_states.", "rng_state.")):
        return True
    if truth["expected_format_name"] == "verl-fsdp":
        return name.startswith(("state.", "rng."))
    if truth["expected_format_name"] == "torch-zip":
        return name.startswith("optimizer.") or name == "lr_table"
    if truth["family"] == "accelerate" and "logical" in truth:
        return name.endswith("_flat_param") or name.startswith("state.")
    return name.startswith(("callbacks.", "module.", "optimizer.")) or name in (truth.get("shared_params") or ())


# ---- comparing

def check_role(facts, truth, name, item, role):
    fact = f"role of {name}"
    if role == "buffer" and not truth["expected_format_name"].startswith(LIST_BUFFERS):
        # No bytes of a state dict, of DCP or of safetensors tell a buffer from a parameter: a guess, and marked as one.
        if item["role"] not in ("param", "buffer") or "role" not in item.get("inferred", ()):
            facts.differs(fact, f"{item['role']!r}, inferred {item.get('inferred')!r}; a guess was due")
        return
    facts.same(fact, item["role"], role)


def check_places(facts, truth, name, item, want):
    """Where the bytes are: every part, once each, and whose it is."""
    told = places(truth, name, want)
    if told is None:
        return
    told = sorted((f["file"], f["offset"], f["length"], f.get("rank")) for f in told if f.get("length"))
    found = sorted((p["file"], p["offset"], p["length"], p.get("rank")) for p in item["pieces"] if p["length"])
    if len(told) != len(found) or any(t[1:3] != f[1:3] or not ("/" + t[0]).endswith("/" + f[0]) or
                                      None not in (t[3], f[3]) and t[3] != f[3] for t, f in zip(told, found)):
        facts.differs(f"places of {name}", f"found {found}, expected {told}")


def check_tensor(facts, truth, name, item, want, files):
    facts.same(f"dtype of {name}", item["dtype"], want["dtype"])
    if "safetensors_dtype" in want:
        facts.same(f"stored dtype of {name}", item.get("dtype_raw", item["dtype"]), want["safetensors_dtype"])
    if want.get("stored") != "bare" or facts.is_compared("shape of bare tensors"):
        facts.same(f"shape of {name}", item["shape"], want["shape"])
    check_role(facts, truth, name, item, want["role"])
    if facts.is_compared(f"places of {name}"):
        check_places(facts, truth, name, item, want)
    if want.get("sha256") is None:
        return
    try:
        found = hashlib.sha256(assemble(item, files)).hexdigest()
    except (ValueError, KeyError, OSError, TypeError, IndexError) as e:
        facts.differs(f"bytes of {name}", f"cannot be gathered: {type(e).__name__}: {e}")
        return
    facts.same(f"bytes of {name}", found, want["sha256"])


def check_world(facts, truth, found):
    if not facts.is_compared("world size"):
        return
    if found is None and truth["expected_format_name"] == "torch-zip":
        found = 1  # many ranks may have gathered it, and the file does not say
    facts.same("world size", found, truth["world_size"])


def check_scalars(facts, truth, info):
    values = {v["name"]: v.get("value") for v in info["data"]["values"]}
    due = dict(truth["scalars"])
    due.update(("__metadata__." + k, v) for k, v in (truth.get("metadata") or {}).items()
               if isinstance(v, str))
    due.update(("hyper_parameters." + k, v) for k, v in (truth.get("hyper_parameters") or {}).items()
               if not isinstance(v, list))
    if "architecture" in truth:
        due["config.architecture"] = truth["architecture"]
    for key, value in due.items():
        found = values.get(key)
        if isinstance(value, float) and isinstance(found, int):
            found = float(found)  # JSON has one kind of number
        if facts.is_compared(f"scalar {key}"):
            facts.same(f"scalar {key}", found, value)


def check_aliases(facts, truth, listed, items):
    """A second name of a tensor is listed as one or is among the first one's aliases."""
    pairs = dict(truth.get("aliases") or {})
    pairs.update(truth.get("shared_params") or {})
    for other, kept in pairs.items():
        told = items.get(kept, {}).get("aliases", [])
        alias = next((t.get("alias") for t in listed["data"]["tensors"] if t["name"] == other), None)
        if other not in told and alias != kept:
            facts.differs(f"alias {other}", f"{kept} has {told!r}; it is listed as {alias!r}")


def check(args, sample, path, truth):
    facts, problems = Facts(sample), []
    want = whole_tensors(truth)
    info = envelope(run(args, "info", "--json", path), problems)
    listed = envelope(run(args, "ls", "--json", path), problems)
    if info is None or listed is None:
        return problems
    facts.same("format", info["data"]["format"]["family"], truth["expected_format_name"])
    check_world(facts, truth, info["data"].get("world_size"))
    check_scalars(facts, truth, info)
    here = [t["name"] for t in listed["data"]["tensors"]]
    facts.same("names: not listed", sorted(n for n in want if n not in here), [])
    facts.same("names: not in the truth", [n for n in here if n not in want and not may_be_more(truth, n)], [])
    # What ranks have of their own goes by one name.
    own = [(t["name"], t.get("rank")) for t in listed["data"]["tensors"]]
    facts.same("names: twice", len(own), len(set(own)))
    here, items = [n for n in here if n in want], {}
    if here:
        doc = envelope(run(args, "show", "--json", "--", path, *here), problems)
        items = {} if doc is None else {i["name"]: i for i in doc["data"]["items"]}
    files = Files(path)
    for n, item in items.items():
        check_tensor(facts, truth, n, item, want[n], files)
    check_aliases(facts, truth, listed, items)
    strays = len({m["fqn"] for m in truth.get("slice_mapping_disagrees", ())})
    said = [f["message"] for f in info["findings"] if "param_slice_mappings" in f["message"]]
    if strays:
        facts.same("strayed mappings", [f"for {strays} of " in m for m in said], [True])
    else:
        facts.same("strayed mappings", said, [])
    for f in info["findings"] if truth["complete"] else ():
        if f["severity"] == "error":
            facts.differs("findings", f"a sound checkpoint, but {f['rule']} {f['message']}")
    return problems + facts.all_problems()


# Numbers of steps in names of folders, and what points to them.
STEPS = (("global_step2", "global_step1234"), ("global_step_20", "global_step_987654"),
         ("iter_0000010", "iter_0123456"), ("iter_0000500", "iter_0123456"))
POINTERS = ("latest", "latest_universal", "latest_checkpointed_iteration.txt")


def number_of(name):
    return str(int(re.search("[0-9]+$", name).group()))


def rename_step(case, truth, folder):
    """The checkpoint with another step in its names and the truth about it, or None if they hold none."""
    old, new = next(((o, n) for o, n in STEPS if any(x.startswith(o) for x in os.listdir(case.folder))), (None, None))
    if old is None:
        return None, None
    copy = os.path.join(folder, "copy")
    copy_tree(case.folder, copy, ignore=shutil.ignore_patterns("expected"), copy_function=shutil.copyfile)
    for name in os.listdir(copy):
        path = os.path.join(copy, name)
        if name in POINTERS:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(number_of(new) if text.isdigit() else text.replace(old, new))
        elif name.startswith(old):
            os.rename(path, os.path.join(copy, name.replace(old, new)))
    told = json.loads(json.dumps(truth).replace(old, new))
    if "global_step" in told["scalars"]:  # which stands in the name alone
        told["scalars"]["global_step"] = int(number_of(new))
    return copy, told


# What is only recognised: a word that the refusal has to have.
SAID = {"gguf": "GGUF", "hdf5": "HDF5", "html": "HTML", "lfs-pointer": "Git LFS", "npz": "NumPy",
        "orbax": "Orbax"}


def check_said(args, path, word):
    r = run(args, "info", path)
    text = r.err.decode("utf-8", "replace")
    problems = [r.crash] if r.crash else []
    same(problems, "status", r.status, 2)
    if word not in text:
        problems.append(f"{word} is not in: {text}")
    if "fix: " not in text and "hint: " not in text:
        problems.append(f"no next step in: {text}")
    return problems


def main():
    args = arguments(__doc__)
    tap = Tap()
    for case, truth in told_cases(args):
        if "expected_format_name" not in truth:
            continue
        word = SAID.get(truth.get("expected_format_name"))
        if word is not None:
            tap.none(f"{case.name}: said", check_said(args, case.folder, word))
        if not wanted(case.name):
            continue
        path = path_of(case)
        tap.none(case.name, check(args, case.name, path, truth))
        with tempfile.TemporaryDirectory() as folder:
            copy, told = rename_step(case, truth, folder)
            if copy is not None:
                tap.none(f"{case.name}: at another step", check(args, case.name, copy, told))
        # The run's folder, in which it has a number of two digits; what is itself only found below is too deep there.
        if os.path.isdir(path) and any(e.is_file() or e.name.startswith("optimizer") for e in os.scandir(path)):
            with tempfile.TemporaryDirectory() as folder:
                copy_tree(path, os.path.join(folder, "checkpoint_12"),
                          ignore=shutil.ignore_patterns("expected"), copy_function=shutil.copyfile)
                tap.none(f"{case.name}: in a run's folder", check(args, case.name, folder, truth))
        if os.path.isfile(path):
            with tempfile.TemporaryDirectory() as folder:
                renamed = os.path.join(folder, "another name.bin")
                shutil.copy(path, renamed)
                for f in (f for t in truth["tensors"] for f in t["files"]):
                    f["file"] = os.path.basename(renamed)
                tap.none(f"{case.name}: under another name", check(args, case.name, renamed, truth))
    tap.done()


main()
