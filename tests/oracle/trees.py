#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tree text and module-to-FQN map against ours, to the byte."""
import json

from oraclelib import Tap, arguments, cases, clean_module, envelope, run


def pairs_of(data):
    return json.loads(data, object_pairs_hook=lambda items: items)


def check_tree(args, problems, expected, *words):
    r = run(args, "tree", "--style=torch", *words)
    if r.crash:
        problems.append(r.crash)
    elif r.status != 0:
        problems.append(f"{r.words}: exit status {r.status}: {r.tail}")
    elif r.out != expected:
        mine, theirs = r.out.split(b"\n"), expected.split(b"\n")
        at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
        problems.append(f"{r.words}: line {at + 1} differs: found {mine[at:at + 1]}, expected {theirs[at:at + 1]}")


def check_map(args, problems, expected, *words):
    r = run(args, "fqns", "--bare", *words)
    if r.crash:
        problems.append(r.crash)
        return
    if r.status != 0:
        problems.append(f"{r.words}: exit status {r.status}: {r.tail}")
    try:
        found = pairs_of(r.out)
    except ValueError as e:
        problems.append(f"{r.words}: no JSON: {e}: {r.out[:100]!r}")
        return
    if found != expected:
        problems.append(f"{r.words}: found {str(found)[:200]}, expected {str(expected)[:200]}")
    if not expected and not r.err:
        problems.append(f"{r.words}: an empty map without a note that says why")


def marked_names(plan):
    """Clean names of all visits of fully sharded modules."""
    names = set()
    modules = plan["modules"]
    by_name = {m["name"]: i for i, m in reversed(list(enumerate(modules)))}
    for unit in plan["units"]:
        heads = {unit["visit"]} | {by_name[n] for n in unit.get("modules", ()) if n in by_name}
        heads = {modules[h].get("same_as", h) for h in heads}
        for i, m in enumerate(modules):
            if m.get("same_as", i) in heads:
                names.add(clean_module(m["name"]))
    return names


def check_marks(args, problems, plan, path):
    doc = envelope(run(args, "tree", "--json", path), problems)
    if doc is None:
        return
    data = doc["data"]
    found = {m["name"] for m in data["modules"] if m["fully_sharded"]}
    expected = marked_names(plan)
    for name in sorted(expected - found):
        problems.append(f"tree --json: {name!r} is a unit and not marked")
    for name in sorted(found - expected):
        problems.append(f"tree --json: {name!r} is marked and no unit")
    units = sorted(clean_module(u["module"]) for u in plan["units"])
    if sorted(u["unit"] for u in data["units"]) != units:
        problems.append(f"tree --json: units {[u['unit'] for u in data['units']]}, expected {units}")
    for i, m in enumerate(data["modules"]):
        parent = m["parent"]
        if (i == 0) != (parent is None) or (parent is not None and not 0 <= parent < i):
            problems.append(f"tree --json: module {i} has parent {parent}")
            break
    r = run(args, "tree", path)
    if r.crash or r.status != 0:
        problems.append(r.crash or f"{r.words}: exit status {r.status}: {r.tail}")
        return
    lines = r.out.decode().splitlines()
    if len(lines) != len(data["modules"]):
        problems.append(f"tree: {len(lines)} lines for {len(data['modules'])} modules")
    marks = [line for line in lines if "FULLY SHARDED" in line]
    if len(marks) != sum(m["fully_sharded"] for m in data["modules"]):
        problems.append(f"tree: {len(marks)} lines are marked; JSON marks {len(found)} names")


def main():
    args = arguments(__doc__)
    tap = Tap()
    known = set()
    for case in cases(args):
        if not case.has("plan.fsdp-plan.json"):
            continue
        path = case.file("plan.fsdp-plan.json")
        plan = case.load("plan.fsdp-plan.json")
        twin = json.dumps(plan) in known  # the same plan is kept with and without its checkpoint
        known.add(json.dumps(plan))
        targets = [] if twin else [((path,), "plan alone")]
        truth = case.load("truth.json") if case.has("truth.json") else {}
        checkpoint = case.checkpoint(truth)
        if checkpoint and truth.get("kind") in (
            "dcp", "dcp-per-rank-metadata", "torch-zip", "fsdp1-full", "fsdp1-local", "fsdp1-sharded", "fsdp2-ranks"
        ):
            targets.append((("--plan", path, checkpoint), "plan and checkpoint"))
        for words, how in targets:
            if case.has("tree.torch.txt"):
                problems = []
                with open(case.file("tree.torch.txt"), "rb") as f:
                    check_tree(args, problems, f.read(), *words)
                tap.none(f"{case.name}: tree, {how}", problems)
            if case.has("fqns.torch.json"):
                problems = []
                with open(case.file("fqns.torch.json"), "rb") as f:
                    check_map(args, problems, pairs_of(f.read()), *words)
                tap.none(f"{case.name}: map, {how}", problems)
        if twin:
            continue
        problems = []
        check_marks(args, problems, plan, path)
        tap.none(f"{case.name}: every unit is marked", problems)
    tap.done()


main()
