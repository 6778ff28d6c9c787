#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plan of another model is told apart, by name; and a plan can hide nothing.

The plan of a sample is changed in one name, one shape, one unit: tree and info have to say
which. Then: whatever plan lies beside a damaged checkpoint, every finding made without it is
still made.
"""
import copy
import json
import os
import shutil
import tempfile

from oraclelib import Tap, arguments, cases, clean, copy_tree, envelope, first_case, run

RULE = "FI1081"
SAMPLES = ["dcp/fsdp2-w4-small", "dcp/fsdp2-w2", "dcp/fsdp1-w2", "dcp/threads", "fsdp1/full-w2"]


def rename_parameter(plan):
    p = plan["parameters"][-1]["fqn"]
    new = p + "_renamed"
    out = copy.deepcopy(plan)
    out["parameters"][-1]["fqn"] = new
    out["parameter_names"] = [n + "_renamed" if n == p or n.endswith("." + p) else n
                              for n in out["parameter_names"]]
    for unit in out["units"]:
        for q in unit.get("params", ()):
            if q["fqn"] == p:
                q["fqn"] = new
        flat = unit.get("flat_parameter")
        prefix = unit["module"]
        if flat:
            flat["fqns"] = [f + "_renamed" if full(prefix, f) == p else f for f in flat["fqns"]]
            for rank in flat.get("ranks", ()):
                for span in rank["spans"]:
                    if full(prefix, span["fqn"]) == p:
                        span["fqn"] += "_renamed"
    return out, {p, new}


def full(module, fqn):
    return (clean(module + ".") if module else "") + fqn


def change_shape(plan):
    """One more row in one parameter; for a flat parameter its numbers follow."""
    out = copy.deepcopy(plan)
    for p in out["parameters"]:
        unit = next((u for u in out["units"] if any(q["fqn"] == p["fqn"] for q in u.get("params", ()))), None)
        if unit is None:
            continue
        p["shape"][0] += 1
        for q in unit["params"]:
            if q["fqn"] == p["fqn"]:
                q["shape"][0] += 1
        return out, {p["fqn"]}
    p = out["parameters"][-1]  # a transposed shape keeps every product of a flat parameter
    p = next((q for q in out["parameters"] if len(q["shape"]) == 2), p)
    p["shape"] = [p["shape"][0] * p["shape"][1], 1] if len(p["shape"]) == 2 else p["shape"] + [1]
    for unit in out["units"]:
        flat = unit.get("flat_parameter")
        for i, f in enumerate(flat["fqns"] if flat else ()):
            if full(unit["module"], f) == p["fqn"]:
                flat["shapes"][i] = list(p["shape"])
    return out, {p["fqn"]}


def add_unit(plan):
    """One more unit over a module that the checkpoint never heard of."""
    out = copy.deepcopy(plan)
    visit = len(out["modules"])
    out["modules"].append({"name": "stray", "class": "Linear"})
    out["parameter_names"].append("stray.weight")
    out["parameters"].append({"fqn": "stray.weight", "shape": [4, 4], "dtype": "float32", "requires_grad": True})
    world = out["units"][0]["shard_world_size"]
    out["units"].append({
        "module": "stray", "visit": visit, "api": "fsdp2", "strategy": "FULL_SHARD",
        "reshard_after_forward": True, "shard_world_size": world,
        "replicate_world_size": out["units"][0]["replicate_world_size"], "cpu_offload": False,
        "params": [{"fqn": "stray.weight", "shape": [4, 4], "dtype": "float32",
                    "placements": ["Shard(dim=0)"], "mesh_dim_names": []}]})
    return out, {"stray", "stray.weight"}


def is_one_of(found, names):
    """The checkpoint may hold the model below a prefix, such as model."""
    return found is not None and any(found == n or found.endswith("." + n) for n in names)


def said(doc, names):
    """Whether a finding of the rule carries one of the names."""
    return any(is_one_of(said, names) for f in doc["findings"] if f["rule"] == RULE
               for said in (f.get("tensor"), f.get("module"), *f.get("affected", ())))


def drift(tap, args, name, folder):
    case = first_case(args, [name])
    if case is None:
        return
    truth = case.load("truth.json")
    checkpoint = case.checkpoint(truth)
    plan = case.load("plan.fsdp-plan.json")
    problems = []
    for command in ("tree", "info"):
        doc = envelope(run(args, command, "--json", "--plan", case.file("plan.fsdp-plan.json"), checkpoint), problems)
        if doc and any(f["rule"] == RULE for f in doc["findings"]):
            problems.append(f"{command}: the right plan is said to differ: "
                            f"{[f['message'] for f in doc['findings'] if f['rule'] == RULE][:2]}")
    tap.none(f"{name}: its own plan fits", problems)
    for what, change in (("name", rename_parameter), ("shape", change_shape), ("unit", add_unit)):
        wrong, names = change(plan)
        path = os.path.join(folder, f"{what}.fsdp-plan.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(wrong, f)
        for command in ("tree", "info"):
            problems = []
            doc = envelope(run(args, command, "--json", "--plan", path, checkpoint), problems, statuses=(0, 1), need_data=False)
            if doc and not said(doc, names):
                problems.append(f"JSON: no {RULE} names one of {sorted(names)}; there are "
                                f"{[(f['rule'], f.get('tensor'), f.get('module')) for f in doc['findings']][:5]}")
            r = run(args, command, "--plan", path, checkpoint)
            if r.crash:
                problems.append(r.crash)
            text = (r.out + r.err if command == "info" else r.err).decode("utf-8", "replace")
            if not any(n in text for n in names):
                problems.append(f"text: none of {sorted(names)} is said: {text[-200:]!r}")
            tap.none(f"{name}: {command}: a plan with one wrong {what}", problems)


def key(finding):
    return tuple(str(finding.get(k, "")) for k in ("rule", "file", "member", "tensor", "rank"))


def findings_of(args, command, path, problems):
    doc = envelope(run(args, command, "--json", path), problems, statuses=(0, 1, 2, 3), need_data=False)
    return doc and ({key(f) for f in doc["findings"]}, len(doc["errors"]), doc)


def hiding(tap, args, case, plan, folder):
    """Lay the plan beside a copy of the checkpoint; nothing may vanish from the findings."""
    source = case.checkpoint()
    if source is None or not os.path.isdir(source):
        return
    bare, beside = os.path.join(folder, "bare", "ck"), os.path.join(folder, "beside", "ck")
    copy_tree(source, bare)
    copy_tree(source, beside)
    shutil.copyfile(plan, os.path.join(beside, "model.fsdp-plan.json"))
    for command in ("info", "ls", "tree"):
        problems = []
        without = findings_of(args, command, bare, problems)
        having = findings_of(args, command, beside, problems)
        if without and having:
            lost = without[0] - having[0]
            if lost:
                problems.append(f"gone beside a plan: {sorted(lost)[:4]}")
            if without[1] and not having[1]:
                problems.append("errors are gone beside a plan")
        tap.none(f"{case.name}: {command}: no finding vanishes beside a plan", problems)


def main():
    args = arguments(__doc__)
    tap = Tap()
    for name in SAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            drift(tap, args, name, folder)
    donor = first_case(args, ["dcp/fsdp2-w4-small", "dcp/fsdp2-w2"])
    for case in cases(args):
        if donor is None or not (case.family == "broken" and case.short.startswith("dcp-") or
                                 case.name in ("dcp/overwritten", "dcp/views")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            hiding(tap, args, case, donor.file("plan.fsdp-plan.json"), folder)
    tap.done()


main()
