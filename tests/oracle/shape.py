#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names 4,096 levels deep, a plan of 2,048 levels, 20,000 children of one node, entries in no order: on a stack of 256 KiB.
Without --many 5,000 children."""
import json
import os
import subprocess
import sys
import tempfile

from oraclelib import SOURCE, Tap, arguments, envelope, run, same

STACK = 256 << 10
DEPTH = 4096
PLAN_DEPTH = 2048  # its tree is as wide as it is long
SIBLINGS = 5000, 20000
SECONDS = 60


def generate(path, *words, script="gen-torch-zip.py"):
    script = os.path.join(SOURCE, "bench", script)
    subprocess.run([sys.executable, script, path, *words], check=True, stdout=subprocess.DEVNULL)


def ask(args, *words):
    return run(args, *words, stack=STACK, cpu=SECONDS)


def check_counts(args, path, tensors, modules, depth):
    problems = []
    doc = envelope(ask(args, "ls", "--json", path), problems)
    if doc:
        names = {t["name"] for t in doc["data"]["tensors"]}
        if len(doc["data"]["tensors"]) != tensors or len(names) != tensors:
            problems.append(f"ls: {len(doc['data']['tensors'])} tensors, {len(names)} names, expected {tensors}")
    doc = envelope(ask(args, "info", "--json", path), problems)
    if doc and doc["data"]["counts"]["tensors"] != tensors:
        problems.append(f"info: {doc['data']['counts']['tensors']} tensors, expected {tensors}")
    doc = envelope(ask(args, "tree", "--json", path), problems)
    if doc:
        found = doc["data"]["modules"]
        if len(found) != modules:
            problems.append(f"tree: {len(found)} modules, expected {modules}")
        deepest = max((m["depth"] for m in found), default=None)
        same(problems, "tree: depth", deepest, depth)
    for words in (("tree",), ("tree", "--fold"), ("tree", "--sizes"), ("ls",), ("ls", "--fold"), ("ls", "-l"),
                  ("ls", "-o", "csv"), ("info",), ("fqns",)):
        r = ask(args, *words, path)
        if r.crash or r.status != 0:
            problems.append(r.crash or f"{r.words}: exit status {r.status}: {r.tail}")
    return problems


def deep_plan(path):
    modules = [{"name": ".".join("d" * i), "class": "M"} for i in range(PLAN_DEPTH + 1)]
    name = "d." * PLAN_DEPTH + "w0"
    plan = {"format": "fsdp-plan", "version": 1, "torch": "2.13.0", "world_size": 1, "modules": modules,
            "parameter_names": [name],
            "parameters": [{"fqn": name, "shape": [16], "dtype": "float32", "requires_grad": True}],
            "buffers": [], "units": []}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(plan, f)


def stored(args, folder, problems, *words):
    """Where each chunk of a generated folder lies: its items are holes, hence status 3."""
    generate(folder, "--tensors=40", "--world=5", "--states=1", "--values=2", *words, script="gen-dcp-metadata.py")
    r = ask(args, "ls", "-l", "--json", folder)
    if r.crash or r.status != 3:
        problems.append(r.crash or f"{r.words}: exit status {r.status}: {r.tail}")
        return []
    return json.loads(r.out)["data"]["pieces"]


def main():
    args = arguments(__doc__, leaks=True, many="")
    tap, siblings = Tap(), SIBLINGS[bool(args.many)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "deep.pt")
        generate(path, "--tensors=4", "--names=deep")
        tap.none("4 names of 4096 levels", check_counts(args, path, 4, DEPTH + 1, DEPTH))
        problems = []
        r = ask(args, "--limit=name-bytes=0", "ls", "-o", "name", path)
        want = [b"d." * DEPTH + b"w%d" % i for i in range(4)]
        if r.crash or r.out.split(b"\n")[:-1] != want:
            problems.append(r.crash or f"{r.words}: status {r.status}, {len(r.out)} bytes: {r.tail}")
        for i in (0, 3):
            doc = envelope(ask(args, "--limit=name-bytes=0", "show", "--json", path, want[i].decode()), problems)
            if doc and doc["data"]["items"][0]["name"] != want[i].decode():
                problems.append(f"show: another name, {len(doc['data']['items'][0]['name'])} characters")
        tap.none("whole names, where no limit cuts them", problems)

        problems = []
        ordered = stored(args, os.path.join(folder, "ordered"), problems)
        same(problems, "chunks", len(ordered), 400)
        shuffled = stored(args, os.path.join(folder, "shuffled"), problems, "--shuffle=1")
        if shuffled != ordered:
            problems.append("the order of storage entries changes where chunks lie")
        tap.none("storage entries in no order, with wrong hints", problems)

        alone = os.path.join(folder, "plan")  # beside a checkpoint it would be taken for its plan
        os.mkdir(alone)
        path = os.path.join(alone, "deep.fsdp-plan.json")
        deep_plan(path)
        problems = []
        r = ask(args, "tree", "--style=torch", path)
        lines = r.out.split(b"\n")[:-1]
        if r.crash or r.status != 0:
            problems.append(r.crash or f"{r.words}: exit status {r.status}: {r.tail}")
        elif len(lines) != PLAN_DEPTH + 1 or not lines[-1].startswith(b" " * 4 * PLAN_DEPTH + b"d."):
            problems.append(f"{r.words}: {len(lines)} lines")
        tap.none("a plan of 2048 levels", problems)

        path = os.path.join(folder, "wide.pt")
        generate(path, f"--tensors={siblings}", "--names=siblings", "--bytes=4", "--pickle-last")
        tap.none(f"{siblings} children of one node", check_counts(args, path, siblings, siblings + 2, 2))
    tap.done()


main()
