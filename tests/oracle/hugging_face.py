#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of Hugging Face's libraries under every name and in every place that they may have.

One sample is copied: into download caches, under other prefixes, variants and numbers, into sub-folders
and archives. What the program lists has to stay the same; only a name that is the fact may change it.
"""
import json
import os
import shutil
import tarfile
import tempfile

from oraclelib import Tap, arguments, envelope, first_case, run, same, skip_all

REVISION = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"
INDEX = "model.safetensors.index.json"


def listing(args, path, problems, statuses=(0,)):
    """What `ls` says of the tensors, and the whole document."""
    doc = envelope(run(args, "ls", "--json", path), problems, statuses)
    tensors = doc["data"]["tensors"] if doc else []
    drop = ("file",)
    return [{k: v for k, v in t.items() if k not in drop} for t in tensors], doc


def copy(source, to):
    os.makedirs(to)
    for name in os.listdir(source):
        if name != "expected":
            shutil.copyfile(os.path.join(source, name), os.path.join(to, name))
    return to


def renamed(source, to, change):
    """A copy whose shards have other names, in the index too."""
    copy(source, to)
    with open(os.path.join(to, INDEX), encoding="utf-8") as f:
        index = json.load(f)
    for name in sorted(set(index["weight_map"].values())):
        os.makedirs(os.path.dirname(os.path.join(to, change(name))), exist_ok=True)
        os.rename(os.path.join(to, name), os.path.join(to, change(name)))
    index["weight_map"] = {k: change(v) for k, v in index["weight_map"].items()}
    os.remove(os.path.join(to, INDEX))
    return index


def write_index(to, name, index):
    with open(os.path.join(to, name), "w", encoding="utf-8") as f:
        json.dump(index, f)
    return to


def cache(source, repository, revisions, main=None):
    """A download cache of these revisions, all of the same files."""
    blobs = os.path.join(repository, "blobs")
    os.makedirs(blobs)
    for revision in revisions:
        snapshot = os.path.join(repository, "snapshots", revision)
        os.makedirs(snapshot)
        for i, name in enumerate(sorted(os.listdir(source))):
            if name != "expected":
                blob = f"{i:x}".rjust(64 if name.endswith(".safetensors") else 40, "0")
                shutil.copyfile(os.path.join(source, name), os.path.join(blobs, blob))
                os.symlink("../../blobs/" + blob, os.path.join(snapshot, name))
    if main is not None:
        os.makedirs(os.path.join(repository, "refs"))
        with open(os.path.join(repository, "refs", "main"), "w", encoding="utf-8") as f:
            f.write(main)
    return repository


def names(args, source, want, folder, tap):
    """Names that writers give to shards and indexes."""
    def check(what, path, family="hf-safetensors-sharded"):
        problems = []
        found, _ = listing(args, path, problems)
        same(problems, "tensors", found, want)
        doc = envelope(run(args, "info", "--json", path), problems)
        same(problems, "format", doc and doc["data"]["format"]["family"], family)
        tap.none(f"names: {what}", problems)

    made = 0

    def place():
        nonlocal made
        made += 1
        return os.path.join(folder, f"names-{made}")

    def variant(what, change, index_name):
        to = place()
        check(what, write_index(to, index_name, renamed(source, to, change)))

    variant("a variant", lambda n: n.replace("model-", "model.fp16-"), "model.safetensors.index.fp16.json")
    variant("a variant before the extension", lambda n: n.replace("model-", "model.fp16-"),
            "model.fp16.safetensors.index.json")
    variant("another prefix", lambda n: n.replace("model-", "diffusion_pytorch_model-"),
            "diffusion_pytorch_model.safetensors.index.json")
    variant("numbers of two digits", lambda n: n.replace("-of-00005", "-of-00012"), INDEX)
    variant("numbers of six digits", lambda n: n.replace("-0000", "-00000").replace("-of-0000", "-of-00000"), INDEX)
    variant("names without numbers", lambda n: n.replace("-of-00005", "").replace("model-", "part."), INDEX)
    variant("shards in a folder below", lambda n: "weights/" + n, INDEX)
    to = copy(source, place())
    check("the index itself", os.path.join(to, INDEX))
    shards = sorted(n for n in os.listdir(to) if n.endswith(".safetensors"))
    several = [os.path.join(to, n) for n in shards]
    problems = []
    doc = envelope(run(args, "ls", "--json", *several), problems)
    same(problems, "tensors", [t["name"] for t in doc["data"]["tensors"]] if doc else [], [t["name"] for t in want])
    tap.none("names: the shards one by one", problems)
    os.remove(os.path.join(to, INDEX))
    problems = []
    found, doc = listing(args, to, problems)
    same(problems, "tensors", found, want)
    same(problems, "rules", [f["rule"] for f in doc["findings"]] if doc else [], ["FI1001"])
    tap.none("names: no index", problems)
    to = copy(source, place())
    write_index(to, "model.fp16.safetensors.index.json", {"weight_map": {}})
    check("an index beside another variant's", os.path.join(to, INDEX))
    above = place()
    copy(source, os.path.join(above, "checkpoint-500"))
    check("the folder above", above)
    packed = os.path.join(folder, "above.tar.gz")
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(above, "run")
    check("the folder above, packed", packed)
    copy(source, os.path.join(above, "checkpoint-1000"))
    r = run(args, "tree", above)
    problems = [r.crash] if r.crash else []
    same(problems, "status", r.status, 2)
    for word in ("2 checkpoints", "checkpoint-500", "checkpoint-1000"):
        if word.encode() not in r.err:
            problems.append(f"{word} is not in {r.err!r}")
    tap.none("names: two checkpoints below are listed", problems)


def caches(args, source, want, folder, tap):
    """The download cache of the hub, from every place in it."""
    def check(what, path, expected=None, words=(), statuses=(0,), rules=()):
        problems = []
        found, doc = listing(args, path, problems, statuses)
        same(problems, "tensors", found, want if expected is None else expected)
        told = [f["rule"] for f in doc["findings"]] if doc else []
        same(problems, "rules", told, list(rules))
        r = run(args, "info", path)
        problems += [f"{w} is not in {r.err!r}" for w in words if w.encode() not in r.err]
        tap.none(f"cache: {what}", problems)

    def refused(what, path, *words):
        r = run(args, "tree", path)
        problems = [r.crash] if r.crash else []
        same(problems, "status", r.status, 2)
        problems += [f"{w} is not in {r.err!r}" for w in words if w.encode() not in r.err]
        tap.none(f"cache: {what}", problems)

    hub = os.path.join(folder, "hub")
    one = cache(source, os.path.join(hub, "models--org--one"), [REVISION], REVISION + "\n")
    check("its root", one, words=["snapshots/" + REVISION, "refs/main"])
    check("the folder of snapshots", os.path.join(one, "snapshots"))
    check("the snapshot", os.path.join(one, "snapshots", REVISION))
    check("the index in the snapshot", os.path.join(one, "snapshots", REVISION, INDEX))
    check("the folder above", hub)
    open(os.path.join(one, "blobs", "0" * 64 + ".incomplete"), "w", encoding="utf-8").close()
    check("a broken download beside it", one, rules=["FI1005"])
    two = cache(source, os.path.join(folder, "two"), [OTHER, REVISION], REVISION)
    check("the revision of the main branch among two", two, words=["refs/main"])
    none = cache(source, os.path.join(folder, "none"), [REVISION])
    check("no branch, one revision", none, words=["the only one"])
    wrong = cache(source, os.path.join(folder, "wrong"), [REVISION], "../../../etc")
    check("a branch that leads away", wrong, words=["the only one"])
    refused("two revisions and no branch", cache(source, os.path.join(folder, "both"), [OTHER, REVISION]),
            OTHER, REVISION)
    cache(source, os.path.join(hub, "models--org--two"), [REVISION], REVISION)
    refused("two models", hub, "models--org--one", "models--org--two")
    shard = os.path.join("snapshots", REVISION, "model-00002-of-00005.safetensors")
    lacking = [t for t in want if t["name"] not in only(source, "model-00002-of-00005.safetensors")]
    os.remove(os.path.join(two, "blobs", os.path.basename(os.readlink(os.path.join(two, shard)))))
    check("a link to nothing", two, lacking, rules=["FI1001"])
    os.remove(os.path.join(none, shard))
    os.symlink("/etc/passwd", os.path.join(none, shard))
    check("a link that leads out", none, lacking, statuses=(3,), words=["leads out of the directory"])


def only(source, shard):
    with open(os.path.join(source, INDEX), encoding="utf-8") as f:
        return [k for k, v in json.load(f)["weight_map"].items() if v == shard]


def main():
    args = arguments(__doc__)
    tap = Tap()
    case = first_case(args, ["hf/llama-sharded"])
    if case is None:
        skip_all("no samples")
    problems = []
    want, _ = listing(args, case.folder, problems)
    tap.none("the sample itself", problems)
    with tempfile.TemporaryDirectory() as folder:
        names(args, case.folder, want, folder, tap)
        caches(args, case.folder, want, folder, tap)
    tap.done()


main()
