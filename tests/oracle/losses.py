#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that were cut off, and files that are gone, are found.

Of a sample drawn at random, with a fixed seed, one file is cut to a random length or removed;
`audit` must tell something that it does not tell of the sample as it is. What no file of the
sample states cannot be found: the rules for that are below, each with its reason.
"""
import fnmatch
import os
import random
import shutil
import tempfile

from oraclelib import Tap, arguments, copy_tree, envelope, in_parallel, run, skip_all

SEED = 20261123
CASES, CASES_OF_ALL = 200, 1000  # with --all
FAMILIES = ("dcp", "fsdp1", "fsdp2", "torch-zip", "trainer", "eco/accelerate", "eco/cross", "eco/deepspeed", "eco/hf",
            "eco/lightning", "eco/megatron", "eco/safetensors", "eco/torch-tar", "eco/rl-and-serving")
# Formats that are recognised and not read, and folders of several checkpoints.
NOT_READ = ("trainer/plain-llama-best", "torch-zip/torchscript")

# sample, file, what is done to it: no file states that it was there, or how long it was.
UNSTATED = [
    # Scripts and texts, which are not a part of a checkpoint.
    ("*", "*.py", "*"), ("*", "*.md", "*"), ("*", "*plan*.json", "*"), ("*", "config-with-plans.json", "*"),
    # Written by trainers that may or may not write them.
    ("trainer/*", "optimizer.pt", "rm"), ("trainer/*", "scheduler.pt", "rm"), ("trainer/*", "rng_state.pth", "rm"),
    ("trainer/*", "trainer_state.json", "rm"), ("trainer/*", "training_args.bin", "rm"), ("*", "generation_config.json", "rm"),
    ("*", "config.json", "rm"), ("eco/accelerate/*", "scheduler.bin", "rm"), ("eco/accelerate/*", "optimizer.bin", "rm"),
    ("eco/lightning/fabric-*", "meta.pt", "rm"), ("eco/rl-and-serving/verl-*", "fsdp_config.json", "rm"),
    ("eco/rl-and-serving/verl-*", "huggingface/*", "*"), ("eco/megatron/*", "latest_checkpointed_iteration.txt", "rm"),
    # One step alone is as it is when it was copied out of its run.
    ("eco/rl-and-serving/verl-*", "latest_checkpointed_iteration.txt", "rm"),
    ("eco/deepspeed/zero0-w1", "latest", "rm"), ("eco/cross/*", "latest", "rm"),
    ("eco/deepspeed/universal-*", "latest_universal", "rm"),
    ("eco/rl-and-serving/meta-*", "params.json", "*"), ("eco/rl-and-serving/meta-*", "consolidated.01.pth", "rm"),
    # The model lies there in another form too.
    ("trainer/*-full-*", "pytorch_model_fsdp.bin", "rm"), ("trainer/*-full-*", "model.safetensors", "rm"),
    ("trainer/zero*", "model.safetensors", "rm"),
    # How many ranks there were: full copies on each, or the last of a set without an index.
    ("eco/accelerate/*-full-w2", "random_states_1.pkl", "rm"), ("fsdp1/*-noshard", "rank1.pt", "rm"),
    ("fsdp1/full-*", "*", "rm"), ("dcp/hf-*", "*shard-*.safetensors", "rm"), ("eco/cross/*-dcp-safetensors-*", "*", "rm"),
    ("dcp/hf-consolidated-w2", "sharded/*", "*"),
    # Files that nothing refers to.
    ("dcp/overwritten", "__[23]_0.distcp", "*"), ("dcp/*", "empty", "rm"),
    # Zeros at the end of a tar.
    ("eco/torch-tar/*", "*", "padding"),
]


def samples(root):
    for family in FAMILIES:
        for name in sorted(os.listdir(os.path.join(root, family))):
            sample = f"{family}/{name}"
            if os.path.isdir(os.path.join(root, sample)) and not any(fnmatch.fnmatch(sample, p) for p in NOT_READ):
                yield sample


def given(folder):
    """What is handed to the program."""
    for name in ("checkpoint", "checkpoint-4", "run"):
        if os.path.isdir(os.path.join(folder, name)):
            return os.path.join(folder, name)
    below = os.listdir(folder)
    return os.path.join(folder, below[0]) if len(below) == 1 else folder


def copy(source, folder):
    copy_tree(source, folder, symlinks=True, ignore=shutil.ignore_patterns("expected"))
    return given(folder)


def told(args, path, problems):
    doc = envelope(run(args, "audit", "--json", path, cwd=os.path.dirname(path)), problems, statuses=(0, 1, 2, 3),
                   need_data=False)
    if doc is None:
        return None
    return ([(f["rule"], f.get("file"), f["message"]) for f in doc["findings"] if f["severity"] != "note" or f["rule"] == "FI1008" or f["rule"] == "FI9006"
             and "was not judged" in f["message"]],
            [(e.get("rule"), e["message"]) for e in doc["errors"]])


def pick(rng, path):
    """(file below the path, what is done to it, to which length)"""
    if os.path.isfile(path):
        files = [path]
    else:
        files = sorted(os.path.join(d, n) for d, _, names in os.walk(path) for n in names)
    file = rng.choice(files)
    size = os.path.getsize(file)
    if size == 0:
        return file, "empty", None
    if len(files) > 1 and rng.random() < 0.5:
        return file, "rm", None
    return file, "cut", rng.choice([0, 1, size - 1, rng.randrange(size), rng.randrange(size)])


def is_padding(path, length):
    with open(path, "rb") as f:
        f.seek(length)
        return not f.read().strip(b"\0 \n\t")


def is_stated(sample, name, what):
    return not any(fnmatch.fnmatch(sample, s) and (fnmatch.fnmatch(name, f) or fnmatch.fnmatch(os.path.basename(name), f) or
                                                   f in ("empty",) and what == "empty")
                   and fnmatch.fnmatch(what, w) for s, f, w in UNSTATED)


def judge(args, known, sample, seed):
    """None: nothing states it."""
    rng = random.Random(seed)
    problems = []
    with tempfile.TemporaryDirectory() as tmp:
        path = copy(os.path.join(args.fixtures, sample), os.path.join(tmp, os.path.basename(sample)))
        if sample not in known:
            known[sample] = told(args, path, problems)
        file, what, length = pick(rng, path)
        name = os.path.relpath(file, path) if path != file else os.path.basename(file)
        if what == "cut" and is_padding(file, length) and length != 0:
            what = "padding"
        if what in ("empty", "padding") or not is_stated(sample, name, what):
            return None
        if what == "rm":
            os.remove(file)
        else:
            os.truncate(file, length)
        after = told(args, path, problems)
    if not problems and after == known[sample]:
        problems.append(f"{sample}: {name}: {what} {'' if length is None else length}: nothing is told")
    return problems


def main():
    args = arguments(__doc__, all="")
    if args.fixtures is None:
        skip_all("no samples")
    if b'"audit"' not in run(args, "commands", "--json").out:
        skip_all("no audit in this build")
    rng = random.Random(SEED)
    names = [s for s in samples(args.fixtures) if args.only is None or args.only in s]
    known = {}
    jobs = [(rng.choice(names), rng.random()) for _ in range(CASES_OF_ALL if args.all else CASES)]
    done = in_parallel(lambda job: judge(args, known, *job), jobs)
    tap = Tap()
    tap.none(f"{sum(d is not None for d in done)} losses in {len(names)} samples", [p for d in done if d for p in d])
    tap.ok(sum(d is not None for d in done) * 2 > len(jobs), "most of what was drawn is stated somewhere")
    tap.done()


if __name__ == "__main__":
    main()
