#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sample or two of each kind with every view pinned, the others with those in which they
differ: writes the `cmd` of each pair of a sample and a view that has none yet, as tests/cli/COMMAND/SAMPLE[-VIEW]/cmd. Record what the command says
with run-goldens.py --update, and read it.

make-cases.py [--list]
"""

import json
import os
import shlex
import sys

import sandbox

HERE = os.path.dirname(os.path.abspath(__file__))

# command, view, words between command and checkpoint, does a tensor's name follow
VIEWS = [
    ("fqns", "", "", False),
    ("fqns", "bare", "--bare", False),
    ("fqns", "flat", "--flat -o text", False),
    ("info", "", "", False),
    ("info", "json", "--json", False),
    ("ls", "", "", False),
    ("ls", "by-file", "--by=file", False),
    ("ls", "json", "--json", False),
    ("ls", "long", "-l", False),
    ("ls", "values", "--values", False),
    ("ls", "tsv", "-o tsv", False),
    ("show", "", "", True),
    ("show", "json", "--json", True),
    ("tree", "", "", False),
    ("tree", "fold", "--fold", False),
    ("tree", "json", "--json", False),
    ("tree", "sizes", "--sizes", False),
    ("tree", "torch", "--style=torch", False),
]
# Views that speak of a plan; the others are for every sample.
OF_PLANS = {"torch", "bare"}
# A checkpoint that cannot be opened says the same to every command: two are enough.
OF_BROKEN = {("info", ""), ("info", "json"), ("ls", "")}
# Every view of these. The other samples differ from one of them in what they hold, and that
# is seen in four.
IN_FULL = {"demo", "dcp-fsdp2-w4-hsdp", "dcp-odd-names", "dcp-scalars", "plan-fsdp1-local-w2-conv",
           "torch-zip-nested-checkpoint", "torch-zip-odd-keys", "torch-zip-views"}
OF_OTHERS = {("info", ""), ("ls", "long"), ("show", "json"), ("tree", "")}
# These differ from torch-zip-state-dict in their bytes and not in what they hold.
TWINS = {f"torch-zip-{n}" for n in ("no-crc", "protocol-3", "protocol-4", "protocol-5", "skip-data")}
OF_TWINS = {("info", ""), ("ls", "long")}


def samples():
    """(name, path, plan: None or where, "" beside it, name of a tensor in it or None)."""
    data = os.path.join(sandbox.ROOT, "testdata")
    for family in ("broken", "cross", "dcp", "deepspeed", "foreign", "fsdp1", "fsdp2", "hf", "lightning", "megatron", "safetensors", "torch-tar",
                   "torch-zip"):
        for case in sorted(os.listdir(os.path.join(data, family))):
            if case.startswith("local-"):
                continue  # what they hold is seen in `flat`
            folder = os.path.join(data, family, case)
            alone = [n for n in os.listdir(folder) if n != "expected"]
            if len(alone) == 1 and alone[0].startswith("model."):
                truth = os.path.join(folder, "expected", "truth.json")
                yield f"{family}-{case}", f"testdata/{family}/{case}/{alone[0]}", None, first(truth)
                continue
            if not any(n in alone for n in ("checkpoint", "model.pt")):
                truth = os.path.join(folder, "expected", "truth.json")
                yield f"{family}-{case}", f"testdata/{family}/{case}", None, first(truth)
                continue
            path = f"testdata/{family}/{case}/"
            path += "model.pt" if os.path.exists(os.path.join(folder, "model.pt")) else "checkpoint"
            inside = os.path.join(data, "..", path, "model.pt")
            if os.path.exists(inside) and not os.path.isdir(inside):
                path += "/model.pt"
            truth = os.path.join(folder, "expected", "truth.json")
            plan = os.path.join("testdata", family, case, "expected", "plan.fsdp-plan.json")
            has_plan = os.path.exists(os.path.join(sandbox.ROOT, plan))
            yield f"{family}-{case}", path, plan if has_plan else None, first(truth)
    yield "plan-fsdp1-local-w2-conv", "testdata/plan/fsdp1-local-w2-conv/plan.fsdp-plan.json", "", None
    yield "demo", "testdata/demo/step-1234", "", "model.norm.weight"


def first(truth):
    if not os.path.exists(truth):
        return None
    with open(truth, encoding="utf-8") as stream:
        tensors = json.load(stream).get("tensors") or []
    return tensors[0]["fqn"] if tensors else None


def wanted(name, plan, tensor, command, view, named):
    if name.startswith(("broken-", "foreign-")):
        return (command, view) in OF_BROKEN
    if name in TWINS:
        return (command, view) in OF_TWINS
    if name not in IN_FULL and (command, view) not in OF_OTHERS:
        return False
    return (plan is not None or view not in OF_PLANS) and (tensor is not None or not named)


def lines():
    """(case, shell line). A plan that lies beside the truth is named; the demo's is found."""
    for name, path, plan, tensor in samples():
        for command, view, before, named in VIEWS:
            if wanted(name, plan, tensor, command, view, named):
                words = ["fsdp-inspect", command] + shlex.split(before)
                words += ["--plan=" + plan] if plan else []
                words += [path] + ([tensor] if named else [])
                yield f"{command}/{name}" + (f"-{view}" if view else ""), shlex.join(words)


def main():
    written = 0
    for case, line in lines():
        where = os.path.join(HERE, case, "cmd")
        if "--list" in sys.argv[1:]:
            print(f"{case}: {line}")
        elif not os.path.exists(where):
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with open(where, "w", encoding="utf-8") as stream:
                stream.write(line + "\n")
            written += 1
    if "--list" not in sys.argv[1:]:
        print(f"{written} new cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
