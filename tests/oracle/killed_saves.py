#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves of two ranks that are killed at random moments: `latest` names none that dcp.load refuses or loads wrong.

Each round starts two ranks, which save one step after the other, and kills them: at once, or one a little before the
other. Then every candidate that is said to be good is loaded and compared with what was saved, and of those that were
committed none may be called bad. --kills=N is how many; its default is a handful.
"""
import logging
import os
import random
import signal
import sys
import tempfile
import time

from oraclelib import Tap, arguments, envelope, run, wanted_torch

torch = wanted_torch()
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.tensor import DTensor, Shard, init_device_mesh  # noqa: E402

logging.disable(logging.CRITICAL)
ROWS, COLUMNS = 512, 256


def whole(step):
    return torch.arange(ROWS * COLUMNS, dtype=torch.float32).reshape(ROWS, COLUMNS) + step


def state(step, mesh):
    weight = whole(step)
    if mesh is not None:
        rows = ROWS // mesh.size()
        weight = DTensor.from_local(weight[mesh.get_rank() * rows:][:rows].contiguous(), mesh, [Shard(0)])
    return {"model": {"weight": weight}, "step": step}


def train(folder, rank, first, store, ready):
    """One rank: saves until it is killed."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(store, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    for step in range(first, first + 10000):
        dcp.save(state(step, mesh), checkpoint_id=os.path.join(folder, f"step-{step}"))
        if step == first:
            os.write(ready, b"x")


def start(folder, rank, first, store, ready):
    child = os.fork()
    if child == 0:
        try:
            with open(os.devnull, "w") as null:
                os.dup2(null.fileno(), 1)
                os.dup2(null.fileno(), 2)
            train(folder, rank, first, store, ready)
        finally:
            os._exit(1)
    return child


def kill_a_save(folder, first, store, dice):
    """Starts two ranks, waits for the first save and a random time, and kills both."""
    readable, writable = os.pipe()
    ranks = [start(folder, rank, first, store, writable) for rank in range(2)]
    for _ in ranks:
        os.read(readable, 1)
    time.sleep(dice.random() * 0.3)
    dice.shuffle(ranks)
    os.kill(ranks[0], signal.SIGKILL)
    if dice.random() < 0.5:
        time.sleep(dice.random() * 0.02)
    os.kill(ranks[1], signal.SIGKILL)
    for child in ranks:
        os.waitpid(child, 0)
    os.close(readable)
    os.close(writable)


def steps(folder):
    return sorted(int(name[5:]) for name in os.listdir(folder))


def loads(folder, step):
    """Why not, or None."""
    into = {"model": {"weight": torch.zeros(ROWS, COLUMNS)}, "step": -1}
    try:
        dcp.load(into, checkpoint_id=os.path.join(folder, f"step-{step}"), no_dist=True)
    except BaseException as error:
        return f"dcp.load refuses step-{step}: {type(error).__name__}"
    if into["step"] != step or not torch.equal(into["model"]["weight"], whole(step)):
        return f"dcp.load loads step-{step} wrong"
    return None


def check(args, folder, first):
    """(problems, the steps that are not good)"""
    problems, bad = [], 0
    doc = envelope(run(args, "latest", "--json", folder), problems, statuses=(0, 1))
    named = run(args, "latest", folder)
    if not doc:
        return problems, 0
    for candidate in doc["data"]["candidates"]:
        step = candidate["step"]
        if step < first:
            continue
        why = loads(folder, step)
        bad += candidate["result"] != "good"
        if candidate["result"] == "good" and why:
            problems.append("is called good: " + why)
        if candidate["result"] != "good" and not why:
            problems.append(f"step-{step} loads and is called {candidate['result']}")
        if candidate["path"] == os.fsdecode(named.out).strip() and why:
            problems.append("is named: " + why)
    if {c["step"] for c in doc["data"]["candidates"]} != set(steps(folder)):
        problems.append("some step is no candidate")
    return problems, bad


def main():
    args = arguments(__doc__, kills="6", seed="1")
    tap = Tap()
    dice = random.Random(int(args.seed))
    halves = 0
    with tempfile.TemporaryDirectory() as root:
        folder = os.path.join(root, "run")
        os.mkdir(folder)
        for kill in range(int(args.kills)):
            first = steps(folder)[-1] + 1 if steps(folder) else 1
            kill_a_save(folder, first, os.path.join(root, f"store-{kill}"), dice)
            problems, bad = check(args, folder, first)
            halves += bad
            tap.none(f"kill {kill + 1}", problems)
    print(f"# {halves} of the saves were cut")
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
