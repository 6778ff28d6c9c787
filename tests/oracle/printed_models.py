#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tree --units-from` against the plan that was exported from the same model.

Logs with their truth come with the larger collection. Of every sample that has a plan and a
checkpoint a print is made here, as nn.Module prints it, in front of what logs put before
lines: with the log the checkpoint must show what it shows with the plan, in all that a
print holds. A checkpoint with the names of its model shows the units that a trace of the run
names.
"""
import glob
import json
import os
import re
import tempfile

from oraclelib import Tap, arguments, cases, envelope, load, run

# ---- printing


class Node:
    def __init__(self, name, entry):
        self.name, self.entry, self.below = name, entry, []

    def text(self):
        below = [(child.name, child.text()) for child in self.below]
        lines = [f"({name}): {text}" for name, text in below]
        if not lines:
            return self.entry.get("class", "Module") + "(arguments=(1, 2), bias=True)"
        lines = "\n".join(lines).replace("\n", "\n  ")
        return f"{self.entry.get('class', 'Module')}(\n  {lines}\n)"


def printed(plan):
    nodes = {}
    for entry in plan["modules"]:
        above, _, name = entry["name"].rpartition(".")
        nodes[entry["name"]] = node = Node(name, entry)
        if entry["name"]:
            nodes[above].below.append(node)
    return nodes[""].text().split("\n")


PREFIXES = {
    "plain": lambda i: "",
    "every line": lambda i: f"2026-11-22 11:04:{i % 60:02d},{i * 37 % 1000:03d} [INFO] [rank 0] ",
    "rank": lambda i: "[rank3]: ",
}


def write_log(lines, prefix, path):
    with open(path, "w", encoding="utf-8") as f:
        f.write("step 0: loss 10.8231\n")
        for i, line in enumerate(lines):
            f.write(prefix(i) + line + "\n")
        f.write("step 1: loss 10.7\n")


# ---- comparing

def facts(doc, fields):
    return [{k: m[k] for k in fields if k in m} for m in doc["data"]["modules"]]


def differ(problems, what, found, expected):
    if found != expected:
        first = next((p for p in zip(found, expected) if p[0] != p[1]), (len(found), len(expected)))
        problems.append(f"{what}: {first[0]} where {first[1]} is expected")


def names_unit(doc):
    return [u["unit"] for u in doc["data"]["units"]]


def check_log(args, log):
    """A log of the collection against its truth and its plan."""
    truth = load(log[:-4] + ".truth.json")
    r = run(args, "tree", "--json", "--units-from", log)
    problems = [r.crash] if r.crash else []
    doc = json.loads(r.out or b"{}")
    if not truth["readable"]:
        kinds = [e.get("kind") for e in doc.get("errors", [])]
        if r.status != 2 or kinds != ["interleaved"]:
            problems.append(f"status {r.status}, errors {kinds}")
        return problems
    if r.status != (3 if truth["cut"] else 0):
        problems.append(f"status {r.status}: {r.err[-200:]}")
    if not any(f["rule"] == "FI1082" for f in doc["findings"]):
        problems.append("no finding says where the units come from")
    differ(problems, "units", names_unit(doc), truth["shown"]["units"])
    # Every visit, with the class that Python gave it.
    raw = json.loads(run(args, "tree", "--json", "--raw", "--units-from", log).out)
    shown = [(m["name"], m["class"]) for m in truth["modules"]]
    found = [(m["name"], m["class"]) for m in raw["data"]["modules"]]
    differ(problems, "modules", found, shown if not truth["cut"] else [m for m in shown if m in found])
    if len(found) != truth["shown"]["modules"]:
        problems.append(f"{len(found)} modules where the print has {truth['shown']['modules']}")
    plan = json.loads(run(args, "tree", "--json", log[:-4] + ".fsdp-plan.json").out)
    want = facts(plan, ["name", "name_raw", "class", "unit", "depth", "parent"])
    found = facts(doc, ["name", "name_raw", "class", "unit", "depth", "parent"])
    if truth["cut"]:
        rest = iter([(m["name"], m["class"]) for m in want])
        if not all((m["name"], m["class"]) in rest for m in found):
            problems.append("modules of the cut log are not in order among those of the plan")
    elif truth["units"] == truth["shown"]["units"]:
        differ(problems, "tree", found, want)
    return problems


def check_made(args, case, log, how):
    """A checkpoint with a log that was made of its plan against the same with the plan."""
    problems = []
    path = case.file("plan.fsdp-plan.json")
    truth = case.load("truth.json") if case.has("truth.json") else {}
    checkpoint = case.checkpoint(truth)
    plan = load(path)
    write_log(printed(plan), PREFIXES[how], log)
    with_plan = envelope(run(args, "tree", "--json", "--plan", path, checkpoint), problems)
    r = run(args, "tree", "--json", "--units-from", log, checkpoint)
    with_log = envelope(r, problems)
    if with_plan is None or with_log is None:
        return problems
    fields = ["name", "name_raw", "class", "depth", "parent", "unit", "fully_sharded"]
    of_units = ["unit", "api"]
    # What is tied, and which tensor is a buffer, a print does not say.
    if not plan["buffers"] and not any(p.get("shared_with") for p in plan["parameters"]):
        fields += ["parameters", "bytes"]
        of_units += ["parameters", "bytes"]
    differ(problems, "tree", facts(with_log, fields), facts(with_plan, fields))
    found, want = ([[u[k] for k in of_units] for u in doc["data"]["units"]] for doc in (with_log, with_plan))
    differ(problems, "units", sorted(found), sorted(want))
    return problems


def has_groups(plan):
    """A group over several modules, and modules with two paths, look like any others in a print."""
    return any("modules" in u for u in plan["units"]) or any("same_as" in m for m in plan["modules"])


# ---- traces

def write_weights(names, path):
    """A checkpoint with a parameter in each of these modules, and in one below it."""
    tensors, at = {}, 0
    for name in names:
        for own in ("weight", "inner.weight"):
            tensors[f"{name}.{own}" if name else own] = {"dtype": "F32", "shape": [2], "data_offsets": [at, at + 8]}
            at += 8
    head = json.dumps(tensors).encode()
    with open(path, "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head + bytes(at))


def natural(name):
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", name)]


def check_trace(args, trace, folder):
    name = re.sub(r"_rank\d+\.pt\.trace\.json\.gz$", "", os.path.basename(trace))
    expected = load(os.path.join(os.path.dirname(trace), "expected", name + ".json"))
    units = {u["unit"] for u in expected["together"]["units"]}
    weights = os.path.join(folder, "model.safetensors")
    named = sorted((u for u in units if u is not None and not u.startswith("#")), key=natural)
    problems = []
    for prefix in ("", "model."):
        write_weights([prefix + u for u in named if u] + [prefix + "head", "other"], weights)
        r = run(args, "tree", "--json", "--units-from", trace, weights)
        if not named:
            kinds = [e.get("kind") for e in json.loads(r.out).get("errors", [])]
            if r.status != 2 or kinds != ["no_units"]:
                problems.append(f"status {r.status}, errors {kinds}: {r.tail}")
            continue
        doc = envelope(r, problems)
        if doc is None:
            continue
        root = prefix.rstrip(".") if len(named) > 1 else ""  # alone it does not tell where the model begins
        want = sorted((prefix + u if u else root for u in named), key=natural)
        differ(problems, f"units below {root!r}", sorted(names_unit(doc), key=natural), want)
        if any(f["rule"] == "FI1081" for f in doc["findings"]):
            problems.append("a unit has no module")
    return problems


KINDS = ("dcp", "dcp-per-rank-metadata", "torch-zip", "fsdp1-full", "fsdp1-sharded", "fsdp2-ranks")


def main():
    args = arguments(__doc__)
    tap = Tap()
    logs = sorted(glob.glob(os.path.join(args.fixtures or "/none", "traces", "printed_models", "*.log")))
    for log in logs:
        tap.none(os.path.basename(log), check_log(args, log))
    traces = sorted(glob.glob(os.path.join(args.fixtures or "/none", "traces", "units", "*_rank0.pt.trace.json.gz")))
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            tap.none(os.path.basename(trace), check_trace(args, trace, folder))
        for i, case in enumerate(cases(args)):
            if not case.has("plan.fsdp-plan.json") or not case.has("truth.json"):
                continue
            truth = case.load("truth.json")
            if truth.get("kind") not in KINDS or not case.checkpoint(truth):
                continue
            plan = case.load("plan.fsdp-plan.json")
            if not plan["units"] or has_groups(plan):
                continue
            how = sorted(PREFIXES)[i % len(PREFIXES)]
            log = os.path.join(folder, "made.log")
            tap.none(f"{case.name}: {how}", check_made(args, case, log, how))
    tap.done()


main()
