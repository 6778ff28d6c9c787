# SPDX-License-Identifier: Apache-2.0
"""What is exported is what PyTorch had: over every sample that says what each tensor hashes to,
the exported folder is read with a reader of this test's own and compared tensor by tensor, with
the answer's own digests and with SHA256SUMS; where the safetensors library is installed it must
open the files too.
"""
import hashlib
import os
import sys
import tempfile

import oraclelib

# Beside this file lies a packaging.py, which is not the one that it imports.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
try:
    import safetensors
except ImportError:
    safetensors = None

# Formats that are not read, or hold no model: the program says so, and writes nothing.
NOTHING = (b"no tensors to write", b"is one safetensors file", b"rank file of",
           b"this directory contains 2 checkpoints", b"each rank has its own: choose one")


def read_safetensors(path):
    """name -> (header entry, bytes); the file must have no holes and nothing behind."""
    with open(path, "rb") as stream:
        data = stream.read()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0 and 8 + length <= len(data), "length of the header"
    header = oraclelib.strict_json(data[8:8 + length].rstrip(b" "))
    metadata = header.pop("__metadata__")
    assert metadata["format"] == "pt", "metadata"
    at, found = 0, {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin == at, f"{name} begins at {begin}, not at {at}"
        found[name] = entry, data[8 + length + begin:8 + length + end]
        at = end
    assert 8 + length + at == len(data), "bytes behind the last tensor"
    return found, metadata


def opens(path, names, problems):
    if safetensors is None:
        return
    with safetensors.safe_open(path, framework="numpy") as opened:
        if sorted(opened.keys()) != sorted(names):
            problems.append("the safetensors library finds other names")


def read_folder(folder, problems):
    """All tensors of an exported folder, and its ties."""
    index = os.path.join(folder, "model.safetensors.index.json")
    tensors, ties = {}, {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        found, metadata = read_safetensors(os.path.join(folder, name))
        opens(os.path.join(folder, name), found, problems)
        tensors.update({key: entry + (name,) for key, entry in found.items()})
        ties.update({k: v for k, v in metadata.items() if k != "format"})
    if os.path.exists(index):
        told = oraclelib.load(index)
        total = sum(len(data) for _, data, _ in tensors.values())
        oraclelib.same(problems, "total_size", told["metadata"]["total_size"], total)
        oraclelib.same(problems, "weight_map", told["weight_map"], {k: v[2] for k, v in tensors.items()})
        ties.update({k: v for k, v in told["metadata"].items() if not k.startswith("total_")})
    return tensors, ties


def check_sums(folder, problems):
    with open(os.path.join(folder, "SHA256SUMS"), encoding="utf-8") as stream:
        for line in stream:
            digest, _, name = line.rstrip("\n").partition("  ")
            with open(os.path.join(folder, name), "rb") as told:
                if hashlib.sha256(told.read()).hexdigest() != digest:
                    problems.append(f"SHA256SUMS: {name}")


def digests_told(truth, plan):
    """clean name -> SHA-256 of the tensor's bytes. Of what ranks hold slices of under one name, nothing."""
    known, slices = {}, set()
    for tensor in truth["tensors"]:
        if "sha256" not in tensor or "sha256_of" in tensor:
            continue
        name = tensor.get("clean_fqn", tensor["fqn"])
        if known.setdefault(name, tensor["sha256"]) != tensor["sha256"] and "rank" in str(tensor.get("view")):
            slices.add(name)
    for name in slices:
        del known[name]
    if plan:
        for name, digest in (truth.get("live_full_state_sha256") or {}).items():
            known[oraclelib.clean(name)] = digest
    return known


def compare(args, doc, folder, known, problems):
    tensors, ties = read_folder(folder, problems)
    check_sums(folder, problems)
    answer = doc["data"]
    oraclelib.same(problems, "names", sorted(tensors), sorted(t["name"] for t in answer["tensors"]))
    judged = 0
    for tensor in answer["tensors"]:
        data = tensors[tensor["name"]][1]
        digest = hashlib.sha256(data).hexdigest()
        oraclelib.same(problems, f"{tensor['name']}: digest told", tensor["sha256"], digest)
        expected = known.get(tensor["source"]) or known.get(tensor["name"].removeprefix("model."))
        if expected is not None:
            judged += 1
            if expected != digest:
                problems.append(f"{tensor['name']}: other bytes than PyTorch had")
    listed = "".join(f"{t['sha256']} {t['dtype']} {'x'.join(map(str, t['shape']))} {t['name']}\n" for t in answer["tensors"])
    oraclelib.same(problems, "digest", answer["digest"], hashlib.sha256(listed.encode()).hexdigest())
    logical = oraclelib.envelope(oraclelib.run(args, "hash", "--logical", "--raw", "--json", folder), problems)
    same_order = logical and [t["name"] for t in logical["data"]["tensors"]] == [t["name"] for t in answer["tensors"]]
    if same_order:
        oraclelib.same(problems, "digest of hash", logical["data"]["digest"], answer["digest"])
    for left in answer["left_out"]:
        if left["why"] == "tied" and left["same_as"] not in tensors:
            problems.append(f"{left['name']} is tied to {left['same_as']}, which was not written")
    if not set(ties.values()) <= set(tensors):
        problems.append("a tie names what was not written")
    return judged


def judge(tap, args, case, truth, path, *plan):
    name = f"{case.name}: exported bytes{' with the plan' if plan else ''}"
    problems = []
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "out")
        limit = ["--max-shard-size=700"] if len(case.name) % 2 else []
        run = oraclelib.run(args, "export", "--json", "--skip-unsupported", *limit, *plan, "-o", folder, path)
        if run.status in (1, 2) and not run.crash:
            if os.path.exists(folder):
                problems.append("a folder is left although nothing was written")
            if problems or case.family not in ("broken", "foreign", "wrong") and \
                    not any(words in run.err for words in NOTHING):
                tap.ok(False, name, problems + [run.tail])
            else:
                tap.skip(name, "refused: " + run.tail.strip().splitlines()[0][-120:])
            return
        doc = oraclelib.envelope(run, problems, statuses=(0, 3))
        judged = compare(args, doc, folder, digests_told(truth, plan), problems) if doc else 0
        if not judged:
            problems.append("no tensor was compared")
        tap.none(f"{name} ({judged})", problems)


def path_of(case, truth):
    """What the user would name: of a run with one step that step."""
    below = [n for n in os.listdir(case.folder) if n != "expected"]
    if "checkpoint-4" in below:
        return os.path.join(case.folder, "checkpoint-4")
    path = case.checkpoint(truth)
    if path is not None:
        return path
    only = os.path.join(case.folder, below[0])
    return only if len(below) == 1 and (os.path.isfile(only) or case.family == "trainer") else case.folder


def samples(args):
    """Also those of training runs, which other tests do not read."""
    yield from oraclelib.cases(args)
    runs = os.path.join(args.fixtures, "trainer") if args.fixtures else ""
    for name in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
        expected = os.path.join(runs, name, "expected")
        if os.path.isdir(expected) and (args.only is None or args.only in f"trainer/{name}"):
            yield oraclelib.Case(runs, os.path.dirname(expected), expected)


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    for case in samples(args):
        if not case.has("truth.json"):
            continue
        truth = case.load("truth.json")
        path = path_of(case, truth)
        if not isinstance(truth.get("tensors"), list):
            continue
        if not any("sha256" in t for t in truth["tensors"]):
            continue
        judge(tap, args, case, truth, path)
        if "fsdp1-local" in truth.get("kind", "") and case.has("plan.fsdp-plan.json"):
            judge(tap, args, case, truth, path, "--plan=" + case.file("plan.fsdp-plan.json"))
    tap.done()


if __name__ == "__main__":
    main()
