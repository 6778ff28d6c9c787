# SPDX-License-Identifier: Apache-2.0
"""Whether a model is complete, without anything to compare it with: nothing is found in good models,
and of broken ones what was done to them.

A case is a folder with `checkpoint/` and `truth.json` (below `expected/` in the larger collection):
`accepted` names the rules that may say it, `names` the tensors that suffer. With `any_name` one of them
is enough, with `loose` none is asked for. Every other sample of the larger collection that is not
broken is a near miss of all rules.
"""
import json
import os
import subprocess

import oraclelib

# Samples that are meant to be odd, and the rule that says so.
ODD = {"dcp/odd-names": "FI4003", "torch-zip/odd-keys": "FI4003", "eco/wrong/zero3-placeholders": "FI4004"}
NEAR_MISSES = ("dcp", "eco", "fsdp1", "fsdp2", "runs", "torch-zip", "trainer")


def dumped(helper, paths):
    """The audit's own findings of each path that are no notes, and whether the program ended well."""
    found = []
    for at in range(0, len(paths), 64):
        run = subprocess.run([helper, *paths[at:at + 64]], capture_output=True, timeout=600, check=False)
        if run.returncode != 0:
            return None
        for block in run.stdout.decode("ascii").split("end\n")[:-1]:
            rows = [json.loads(line) for line in block.splitlines()]
            found.append([r for r in rows if r["from"] == "audit" and r["severity"] != "note"])
    return found


def truths(roots):
    """(name, checkpoint, truth) of every case, in order."""
    for root in roots:
        for folder, below, _ in sorted(os.walk(root)):
            for place in ("truth.json", "expected/truth.json"):
                path = os.path.join(folder, place)
                if "checkpoint" in below and os.path.exists(path):
                    yield os.path.relpath(folder, root), os.path.join(folder, "checkpoint"), oraclelib.load(path)


def problems_of(truth, found):
    """What a broken case's findings lack, or say too much of."""
    mine = [f for f in found if f["slug"] in truth["accepted"]]
    names = set(truth["names"])
    told = {name for f in mine for name in f["affected"]}
    if not mine:
        yield f"no finding of {' or '.join(truth['accepted'])}: {found}"
    elif truth.get("any_name"):
        if not told & names:
            yield f"none of the names: {sorted(told)[:5]}"
    elif not truth.get("loose"):
        yield from (f"not told: {name}" for name in sorted(names - told))
    for finding in found:
        if finding not in mine:
            yield f"told besides: {finding['rule']} {finding['message']}"


def exact_problems(truth, found):
    """Where every name is known, no other may be told."""
    if truth.get("any_name") or truth.get("loose"):
        return
    told = {name for f in found for name in f["affected"]}
    # Both are too short for the vocabulary of the configuration, and the truth names one of them.
    if truth["defect"] != "vocab":
        yield from (f"told, and not broken: {name}" for name in sorted(told - set(truth["names"])))


def judge(tap, name, truth, found):
    if truth["good"] or truth["detectable_from"] == "values":
        tap.none(f"{name}: nothing is found in headers", [f"{f['rule']} {f['message']}" for f in found])
    else:
        tap.none(f"{name}: {truth['what'][:80]}",
                 [*problems_of(truth, found), *exact_problems(truth, found)])


def near_misses(fixtures):
    """(name, what is given to the command) of samples of other formats."""
    for family in NEAR_MISSES:
        for folder, below, _ in sorted(os.walk(os.path.join(fixtures, family))):
            if "expected" not in below:
                continue
            name = os.path.relpath(folder, fixtures)
            given = ["checkpoint"] if "checkpoint" in below else sorted(set(os.listdir(folder)) - {"expected"})
            for path in given:
                yield name, os.path.join(folder, path)


def judge_near_misses(tap, helper, fixtures):
    cases = [c for c in near_misses(fixtures)]
    found = dumped(helper, [path for _, path in cases])
    if found is None:
        tap.ok(False, "samples of other formats are looked at")
        return
    for family in NEAR_MISSES:
        wrong = [f"{name}: {f['rule']} {f['message']}"
                 for (name, _), rows in zip(cases, found) if name.startswith(family + "/")
                 for f in rows if ODD.get(name) != f["rule"]]
        tap.none(f"nothing is found in samples of {family}", wrong)


def main():
    args = oraclelib.arguments(__doc__, helper=None)
    tap = oraclelib.Tap()
    roots = [os.path.join(root, "complete") for root in args.roots]
    cases = list(truths(root for root in roots if os.path.isdir(root)))
    found = dumped(args.helper, [path for _, path, _ in cases])
    tap.ok(found is not None and len(found) == len(cases), "the program looks at all of them")
    for (name, _, truth), rows in zip(cases, found or ()):
        judge(tap, name, truth, rows)
    if args.fixtures:
        judge_near_misses(tap, args.helper, args.fixtures)
    tap.done()


if __name__ == "__main__":
    main()
