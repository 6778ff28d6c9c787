#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`latest` names of each run what its truth says, judges each candidate as it says, and costs what it must.

Folders as frameworks write them are made of samples: the newest one by its step, whatever the folder is called.
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types

from oraclelib import Tap, arguments, cases, environment, envelope, run

LEVELS = ("quick", "headers", "data")


def named(args, *words):
    """What stdout says, in lines."""
    return run(args, "latest", *words).out.decode().splitlines()


# ---- runs with a truth

def check_candidates(doc, truth, root):
    found = {os.path.relpath(c["path"], root): c for c in doc["data"]["candidates"]}
    for wanted in truth["candidates"]:
        got = found.pop(wanted["dir"], None)
        if got is None:
            yield f"{wanted['dir']} is no candidate"
            continue
        if (got["result"] == "good") != wanted["good"]:
            yield f"{wanted['dir']} is {got['result']}"
        if got["step"] != wanted["step"]:
            yield f"{wanted['dir']} has step {got['step']}, not {wanted['step']}"
    for name in found:
        yield f"{name} is a candidate"


def check_run(args, case, level):
    truth, problems = case.load("latest.json"), []
    root = os.path.join(case.folder, "run")
    wanted = [os.path.join(root, truth["latest_resumable"])] if truth["latest_resumable"] else []
    answer = run(args, "latest", "--level=" + level, root)
    if answer.out.decode().splitlines() != wanted or answer.status != (0 if wanted else 1):
        problems.append(f"says {answer.out!r} with status {answer.status}")
    doc = envelope(run(args, "latest", "--json", "--level=" + level, root), problems, statuses=(0, 1))
    if doc:
        problems += check_candidates(doc, truth, root)
        if doc["data"]["newest"] != (wanted[0] if wanted else None):
            problems.append(f"newest is {doc['data']['newest']}")
    return problems


# ---- folders as frameworks write them

LAYOUTS = {
    # sample -> folder or file of the run that it becomes, the older one
    "deepspeed/zero2-bf16-w2": ("global_step2", "out/global_step{}"),
    "megatron/torch-dist-w2": ("iter_0000010", "out/iter_{:07d}"),
    "megatron/legacy-tp2-pp2": ("iter_0000500", "out/iter_{:07d}"),
    "rl-and-serving/verl-fsdp2-w2": ("global_step_20", "out/global_step_{}"),
    "lightning/trainer-ckpt": ("last.ckpt", "lightning_logs/version_0/checkpoints/epoch=0-step={}.ckpt"),
    "lightning/fabric-fsdp2-sharded-w2": ("model.ckpt", "out/step-{}.ckpt"),
    "accelerate/fsdp2-sharded-w2": ("", "out/checkpoints/checkpoint_{}"),
    "accelerate/fsdp1-local-w2": ("", "out/checkpoint-{}"),
    "cross/model-a-trainer": ("", "out/checkpoint-{}"),
}


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(source):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("expected"))
    else:
        shutil.copy(source, target)
    for folder, _, files in os.walk(os.path.dirname(target)):
        os.chmod(folder, 0o700)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o600)


def cut(path):
    """Half of the largest file."""
    files = [os.path.join(d, n) for d, _, names in os.walk(path) for n in names] or [path]
    largest = max(files, key=os.path.getsize)
    os.truncate(largest, os.path.getsize(largest) // 2)


def check_layout(args, source, pattern):
    problems = []
    with tempfile.TemporaryDirectory() as root:
        paths = [os.path.join(root, pattern.format(step)) for step in (9, 10, 100)]
        for path in paths:
            copy(source, path)
        for kept in (2, 1, 0):
            got = named(args, root)
            if got != [paths[kept]]:
                problems.append(f"says {got}, not {paths[kept]}")
            cut(paths[kept])
        if named(args, root) or run(args, "latest", root).status != 1:
            problems.append("names one though all were cut")
    return problems


# ---- files as trainers write them

def saves(torch):
    """Folder of a run -> its pointer, and its files, the newest first, with what they hold beside weights."""
    def fairseq(*updates):
        return {"optimizer_history": [{"num_updates": n} for n in updates], "extra_state": {"train_iterator": {"epoch": 3}}}

    return {
        "detectron2": (("last_checkpoint", "model_0014999.pth"), [
            (f"model_{step:07d}.pth", {"scheduler": {"last_epoch": step}, "iteration": step}) for step in (14999, 9999, 4999)]),
        "detectron2, at its end": (("last_checkpoint", "model_final.pth"), [
            ("model_final.pth", {"iteration": 29999}), ("model_0024999.pth", {}), ("model_0019999.pth", {})]),
        "fairseq": (None, [
            ("checkpoint_last.pt", fairseq(300, 650)), ("checkpoint2.pt", fairseq(600)),
            ("checkpoint_1_500.pt", fairseq(500)), ("checkpoint1.pt", fairseq(300))]),
        "mmengine, by epochs": (("last_checkpoint", "/elsewhere/epoch_10.pth"), [
            (f"epoch_{n}.pth", {"meta": {"epoch": n, "iter": n * 100}}) for n in (10, 9, 1)]),
        "mmengine, by steps": (("last_checkpoint", "/elsewhere/iter_1000.pth"), [
            (f"iter_{n}.pth", {"meta": {"epoch": 1, "iter": n}}) for n in (1000, 900)]),
        "timm": (None, [
            ("checkpoint-10.pth.tar", {"epoch": 10}), ("last.pth.tar", {"epoch": 10}),
            ("checkpoint-9.pth.tar", {"epoch": 9}), ("model_best.pth.tar", {"epoch": 8})]),
        "the example of ImageNet": (None, [("checkpoint.pth.tar", {"epoch": 90}), ("model_best.pth.tar", {"epoch": 85})]),
        "ultralytics, without classes": (None, [
            ("last.pt", {"epoch": 9}), ("best.pt", {"epoch": 8}), ("epoch5.pt", {"epoch": 5})]),
        "nanoGPT": (None, [("ckpt.pt", {"iter_num": 2000}), ("older.pt", {"iter_num": 1000})]),
        "NeMo": (None, [
            ("gpt--val_loss=2.15-step=200-consumed_samples=1600.0-last.ckpt", {"global_step": 200, "epoch": 0}),
            ("gpt--val_loss=2.35-step=100-consumed_samples=800.0.ckpt", {"global_step": 100, "epoch": 0})]),
        "Lightning": (None, [
            ("last.ckpt", {"global_step": 250, "epoch": 1}), ("epoch=1-step=200.ckpt", {"global_step": 200, "epoch": 1})]),
        "a loop of one's own": (None, [(f"net_{n}.pt", {}) for n in (100, 11, 9)]),
    }


def check_saves(args, torch, pointer, files):
    problems = []
    with tempfile.TemporaryDirectory() as root:
        for name, rest in files:
            torch.save({"model": {"weight": torch.arange(16.)}, **rest}, os.path.join(root, name))
        if pointer:
            with open(os.path.join(root, pointer[0]), "w") as f:
                f.write(pointer[1])
        doc = envelope(run(args, "latest", "--all", "--json", root), problems)
        wanted = [name for name, _ in files]
        got = [os.path.basename(c["path"]) for c in doc["data"]["candidates"]] if doc else None
        if got != wanted:
            problems.append(f"the order is {got}, not {wanted}")
        if doc and not all(p["agrees"] for p in doc["data"]["pointers"]) or doc and bool(pointer) != bool(doc["data"]["pointers"]):
            problems.append(f"pointers: {doc['data']['pointers']}")
        for name in wanted:
            if named(args, root) != [os.path.join(root, name)]:
                problems.append(f"says {named(args, root)}, not {name}")
            cut(os.path.join(root, name))
    return problems


def check_classes(args, torch):
    """Ultralytics pickles the model itself, with classes of its own."""
    problems = []
    tasks = types.ModuleType("ultralytics.nn.tasks")
    model = type("DetectionModel", (torch.nn.Module,), {"__module__": tasks.__name__})
    tasks.DetectionModel = model
    names = ("ultralytics", "ultralytics.nn", tasks.__name__)
    sys.modules.update({name: tasks for name in names})
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, "last.pt")
        torch.save({"epoch": 9, "best_fitness": 0.5, "model": None, "ema": model(), "optimizer": None, "train_args": {}}, path)
        for name in names:
            del sys.modules[name]
        info = envelope(run(args, "info", "--json", path), problems)
        if info and info["data"]["format"]["writer"] != "Ultralytics":
            problems.append(f"is of {info['data']['format']}")
        got = run(args, "latest", root)
        if got.status != 1 or got.out or b"nothing else is wrong with it" not in got.err:
            problems.append(f"latest: {got}")
        torch.save({"epoch": 9, "ema": object, "train_args": {}}, path)
        cut(path)
        if b"nothing else" in run(args, "latest", root).err:
            problems.append("of a file that is cut off nothing else is said to be wrong")
    return problems


# ---- what it costs

def check_cost(args, sample):
    """Calls that look at a file, for each file of the steps that are opened: of all, or of the newest. One lists it; two
    are there when a file that nothing names is opened, to see whether it is a pickle. Each step has a marker that may lie beside it, and four folders to compare."""
    problems = []
    with tempfile.TemporaryDirectory() as root:
        for step in range(1215, 1235):  # the sample's own step comes last
            folder = os.path.join(root, f"step-{step}")
            copy(sample, folder)
            for rank in range(200):
                os.link(os.path.join(folder, "__0_0.distcp"), os.path.join(folder, f"__{rank + 10}_0.distcp"))
        files = sum(len(names) for _, _, names in os.walk(root))
        with tempfile.NamedTemporaryFile() as trace:
            for words, opened, steps in ((("--all",), files, 20), ((), files // 20, 1)):
                subprocess.run(["strace", "-f", "-o", trace.name, "-e", "trace=%stat,%fstat,statx", args.helper or args.bin, "latest", "--no-sandbox", *words, root],
                               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=environment(ASAN_OPTIONS="detect_leaks=0"))  # which cannot be told of a process that is traced
                with open(trace.name) as f:
                    calls = sum(bool(re.search(r"\w*stat\w*\(", line)) for line in f)
                if not opened <= calls <= 3 * opened + 5 * steps + 40:
                    problems.append(f"{calls} calls for {opened} files")
    return problems


def main():
    args = arguments(__doc__, helper=None)  # the command as a process of its own, which can be traced
    tap = Tap()
    here = {case.name: case for case in cases(args)}
    for case in here.values():
        if case.has("latest.json"):
            for level in LEVELS:
                tap.none(f"{case.name} {level}", check_run(args, case, level))
    for name, (inside, pattern) in LAYOUTS.items():
        if name in here:
            tap.none(f"{name} as {json.dumps(pattern)}", check_layout(args, os.path.join(here[name].folder, inside), pattern))
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        for name, (pointer, files) in saves(torch).items():
            tap.none(name, check_saves(args, torch, pointer, files))
        tap.none("ultralytics, with classes", check_classes(args, torch))
    else:
        tap.skip("files as trainers write them", "no torch")
    sample = here.get("dcp/fsdp2-w4-small")
    if sample and shutil.which("strace"):
        tap.none("cost", check_cost(args, sample.checkpoint()))
    else:
        tap.skip("cost", "no strace")
    tap.done()


if __name__ == "__main__":
    main()
