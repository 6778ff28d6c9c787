#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders that transformers' Trainer wrote, against the live model and optimizer at the save.

Names, shapes, dtypes, roles and bytes of weights and of what the optimizer keeps of them, under the
parameters' names; world size, step, epoch, what was best, and what a resume lacks.
"""
import hashlib
import os

from oraclelib import Tap, arguments, envelope, load, run

# A number that the files leave more than one parameter for keeps it: layers of equal shapes, of which some were frozen.
AMBIGUOUS = {"frozen-llama"}
STATE = {"step": "global_step", "epoch": "epoch", "max_steps": "trainer_state.max_steps",
         "best_metric": "trainer_state.best_metric", "best_global_step": "trainer_state.best_global_step",
         "best_model_checkpoint": "trainer_state.best_model_checkpoint",
         "train_batch_size": "trainer_state.train_batch_size"}
LACKS = {"optimizer state": "optimizer.pt", "scheduler": "scheduler.pt", "rng of every rank": "rng_state.pth"}


def wanted(case, truth):
    """The records by name; of weights that are there twice those that a resume reads."""
    found = {}
    contradicts = truth.get("optimizer_contradicts") or truth["trainer"].get("optimizer_contradicts")
    for t in truth["tensors"]:
        first = t["files"][0]
        if truth["trainer"]["weights"] == "fsdp-full" and first["file"].endswith("model.safetensors"):
            continue
        name = t["fqn"]
        if contradicts and "id" in t:
            name = f"state.{t['id']}.{t['state']}"
        found[name] = t
    merged = (truth.get("deepspeed") or {}).get("merged", [])
    for t in merged:
        masters = truth["trainer"]["weights"] == "none"
        found[t["fqn"] if masters else f"state.{t['fqn']}.fp32"] = {**t, "role": "param" if masters else "optim"}
    return found


def elements(folder, item):
    """Bytes of a tensor from the places that are told."""
    width = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8, "int64": 8}[item["dtype"]]
    shape = item["shape"]
    count = 1
    for s in shape:
        count *= s
    out = bytearray(count * width)
    done = 0
    for piece in item["pieces"]:
        if not piece["length"]:
            continue
        with open(os.path.join(folder, piece["file"]), "rb") as f:
            f.seek(piece["offset"])
            data = f.read(piece["length"])
        if "param_start" in piece:
            at = piece["param_start"] * width
            out[at:at + len(data)] = data
            done += len(data)
            continue
        sizes = piece.get("sizes") or shape
        offsets = piece.get("offsets") or [0] * len(shape)
        # Boxes of whole rows only: what FSDP cuts along the first dimension.
        row = width
        for s in shape[1:]:
            row *= s
        if sizes[1:] != shape[1:]:
            raise ValueError(f"{item['name']} is cut along another dimension")
        at = offsets[0] * row if shape else 0
        out[at:at + len(data)] = data
        done += len(data)
    if done != len(out):
        raise ValueError(f"{item['name']}: {done} of {len(out)} bytes")
    return bytes(out)


def check_tensors(case, folder, want, listed, items):
    problems, unnamed = [], 0
    here = {t["name"]: t for t in listed if t["role"] != "other"}
    for name, t in sorted(want.items()):
        if name not in here and case in AMBIGUOUS and "id" in t:
            name = f"state.{t['id']}.{t['state']}"
            unnamed += 1
        item = items.get(name)
        if name not in here or item is None:
            problems.append(f"{name} is not listed")
            continue
        for key in ("dtype", "shape", "role"):
            if item[key] != t[key]:
                problems.append(f"{key} of {name}: found {item[key]!r}, expected {t[key]!r}")
        if "id" in t and item.get("name_raw", name) != f"state.{t['id']}.{t['state']}":
            problems.append(f"{name} was {item.get('name_raw')!r}, expected number {t['id']}")
        if t.get("sha256"):
            try:
                digest = hashlib.sha256(elements(folder, item)).hexdigest()
            except (ValueError, OSError, KeyError) as e:
                digest = str(e)
            if digest != t["sha256"]:
                problems.append(f"bytes of {name}: {digest}")
    known = set(want) | {f"state.{t['id']}.{t['state']}" for t in want.values() if "id" in t and case in AMBIGUOUS}
    more = [n for n in here if n not in known and not n.startswith("state.") and not n.startswith("module.")]
    if more:
        problems.append(f"listed, but not in the truth: {more[:4]}")
    if unnamed > len(want) // 2 + len(want) // 4:
        problems.append(f"{unnamed} of {len(want)} have no name")
    return problems


def check(args, case, base, folder):
    problems = []
    truth = load(os.path.join(base, "expected", "truth.json"))
    info = envelope(run(args, "info", "--json", folder), problems)
    listed = envelope(run(args, "ls", "--json", folder), problems)
    if info is None or listed is None:
        return problems
    trainer = truth["trainer"]
    if info["data"]["format"]["family"] != "trainer":
        problems.append(f"format {info['data']['format']['family']}")
    if info["data"].get("world_size") != trainer["world_size"]:
        problems.append(f"world size {info['data'].get('world_size')}, expected {trainer['world_size']}")
    values = {v["name"]: v.get("value") for v in info["data"]["values"]}
    for key, name in STATE.items():
        if trainer.get(key) is not None and values.get(name) != trainer[key]:
            problems.append(f"{name}: found {values.get(name)!r}, expected {trainer[key]!r}")
    said = [f.get("file") for f in info["findings"] if f["rule"] == "FI5007"]
    absent = [LACKS[a] for a in trainer["resume"]["absent"]]
    if len(absent) == len(LACKS):  # save_only_model: one note for all
        message = next((f["message"] for f in info["findings"] if f["rule"] == "FI5007"), "")
        problems += [f"a resume lacks {a}, which {message!r} does not name" for a in absent if a not in message]
        absent = [None]
    if said != absent:
        problems.append(f"a resume lacks {said}, expected {absent}")
    problems += [f"a sound folder, but {f['rule']} {f['message']}" for f in info["findings"] if f["severity"] == "error"]
    want = wanted(case, truth)
    names = [t["name"] for t in listed["data"]["tensors"] if t["role"] != "other"]
    shown = envelope(run(args, "show", "--json", "--", folder, *names), problems)
    items = {} if shown is None else {i["name"]: i for i in shown["data"]["items"]}
    return problems + check_tensors(case, folder, want, listed["data"]["tensors"], items)


def main():
    args = arguments(__doc__)
    tap = Tap()
    root = os.path.join(args.fixtures, "trainer") if args.fixtures else None
    for case in sorted(os.listdir(root)) if root and os.path.isdir(root) else ():
        base = os.path.join(root, case)
        folder = os.path.join(base, "checkpoint-4")
        if args.only and args.only not in case or not os.path.isdir(folder):
            continue
        tap.none(case, check(args, case, base, folder))
    tap.done()


if __name__ == "__main__":
    main()
