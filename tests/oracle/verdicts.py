#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An audit finds what was broken, under the rule that says it, and leaves good checkpoints alone.

Samples with a defect.json say what was done to a good checkpoint; every other sample that PyTorch or a tool of
others wrote has no warning and no error. Exceptions are listed here with their reasons, and one that is not needed
any more fails.
"""
import os

from oraclelib import Tap, arguments, envelope, in_parallel, load, run, skip_all

# What was done -> rules of which one must be found as an error, or as a warning where the sample says so.
DEFECTS = {
    "bad-header": {"FI1050"},
    "chunk-gap": {"FI1021"},
    "chunk-overlap": {"FI1022"},
    "crc-mismatch": {"FI2001"},
    "duplicate-rank": {"FI1009"},
    "duplicate-tensor": {"FI1061"},
    "empty-file": {"FI1002", "FI4001"},
    "lfs-pointer": {"FI4001"},
    "missing-file": {"FI1001", "FI1008"},
    "missing-metadata": {"FI1003"},
    "missing-rank-file": {"FI1008"},
    "missing-record": {"FI1041"},
    "missing-storage-entry": {"FI1024"},
    "missing-tensor": {"FI1060", "FI1061"},
    "not-a-checkpoint": {"FI4001"},
    "offset-overlap": {"FI1052"},
    "range-overlap": {"FI1027"},
    "range-past-end": {"FI1026", "FI1004"},
    "stale-metadata-tmp": {"FI1003", "FI1005"},
    "storage-too-short": {"FI1042"},
    "truncated-file": {"FI1004", "FI1040"},
    "truncated-metadata": {"FI1020"},
    "unlisted-tensor": {"FI1062"},
    "unreferenced-file": {"FI1007"},
    "wrong-total-size": {"FI1063"},
}
NEEDS_DATA = {"crc-mismatch"}

# Whose names no file states that can be read: those of the damaged file were the only ones.
NAMELESS = {
    "broken/dcp-empty-metadata", "broken/dcp-missing-metadata", "broken/dcp-stale-tmp", "broken/dcp-truncated-metadata",
    "broken/hf-sharded-missing-rank", "broken/pt-empty", "broken/pt-html", "broken/pt-truncated",
}

# Good ones with a warning or an error.
ALARMS = {
    "torch-zip/custom-class": "names a class of its own: FI3018",
    "torch-zip/whole-module": "names classes of its own: FI3018",
    "torch-zip/torchscript": "holds code: FI3062",
    "foreign/torchscript": "holds code: FI3062",
    "dcp/odd-names": "has a name with an empty segment: FI4003",
    "torch-zip/odd-keys": "has a name with an empty segment: FI4003",
    "dcp/overwritten": "files of an older save with more ranks lie beside it: FI1007",
}
# What a good sample lacks for a resume, as its truth says (resume.absent).
LACKS = {
    "trainer/no-scheduler": "FI5007 scheduler.pt",
    "trainer/optimizer-other-model": "FI1013 ",  # that of a wider model (optimizer_contradicts)
}
# The same of their numbers, which --values looks at: what these samples were made with.
ODD_NUMBERS = {
    "torch-zip/batchnorm": "FI2009", "dcp/fsdp2-w4-conv": "FI2009", "fsdp1/full-w2-conv": "FI2009",
    "fsdp1/local-w2-conv": "FI2009", "fsdp2/w4-empty-shard": "FI2009", "torch-zip/whole-sequential": "FI2009",  # running_var drawn at random, also below 0
    "torch-zip/odd-shapes": "FI2008", "safetensors/all-dtypes": "FI2008",  # NaN and infinity among the numbers
    "torch-zip/skip-data": "FI2011",  # saved without its numbers
}
# Good ones that can be judged in part only: nothing states of how many ranks they are.
PARTLY = {"dcp/hf-sharded-w2", "dcp/hf-sharded-w4-mapping", "dcp/hf-tp-w4"}
GOOD = ("dcp", "eco", "fsdp1", "fsdp2", "torch-zip", "trainer")
# Of the families of others these are no good checkpoints.
NOT_GOOD = ("eco/wrong",)


def samples(root):
    """(name, path, folder of what is expected) of each."""
    for family in GOOD + ("broken",):
        for folder, below, _ in os.walk(os.path.join(root, family)):
            path = next((p for p in (os.path.join(folder, n) for n in ("checkpoint", "checkpoint-4", "model.pt")) if os.path.exists(p)), None)
            below.sort()
            if path is None:
                continue
            below[:] = []
            name = os.path.relpath(folder, root)
            if not name.startswith(NOT_GOOD):
                yield "/".join(name.split(os.sep)[-2:]), path, os.path.join(folder, "expected")


def judge_place(said, defect):
    """The byte of the defect is in the range of a finding."""
    where = defect.get("where", {})
    problems = []
    if "offset" in where and not any(
            f.get("offset", 0) <= where["offset"] < f.get("offset", 0) + f.get("length", 2**63) for f in said):
        problems.append(f"byte {where['offset']} is in no range: {[(f.get('offset'), f.get('length')) for f in said]}")
    return problems


def judge_broken(args, name, path, defect):
    words = ["--data"] if defect["defect"] in NEEDS_DATA else []
    problems = []
    doc = envelope(run(args, "audit", "--json", *words, path), problems, statuses=(0, 1, 2, 3))
    if doc is None:
        return problems
    least = ("error", "warning") if defect["severity"] == "warning" else ("error",)
    found = {f["rule"] for f in doc["findings"] if f["severity"] in least}
    if defect["severity"] == "partial":
        return problems + ([] if doc["data"]["verdict"] == "partial" else [f"verdict {doc['data']['verdict']}"])
    if not found & DEFECTS[defect["defect"]]:
        problems.append(f"{defect['defect']}: found {sorted(found)}, expected one of {sorted(DEFECTS[defect['defect']])}")
    said = [f for f in doc["findings"] if f["rule"] in DEFECTS[defect["defect"]]]
    problems += judge_place(said, defect)
    names = {n for f in said for n in f.get("affected", ())}
    if "affected_fqns" in defect and (names == set(defect["affected_fqns"])) == (name in NAMELESS):
        problems.append(f"affected {sorted(names)[:5]}, expected {sorted(defect['affected_fqns'])[:5]}")
    expected = "good" if defect["severity"] == "warning" else "bad"
    if doc["data"]["verdict"] != expected:
        problems.append(f"verdict {doc['data']['verdict']}, expected {expected}")
    return problems


def judge_numbers(args, name, path):
    """At the deepest level no more is found than before, but what the sample was made with."""
    problems = []
    doc = envelope(run(args, "audit", "--data", "--values", "--json", path), problems, statuses=(0, 1, 2, 3), need_data=False)
    found = {f["rule"] for f in doc["findings"] if f["severity"] != "note"} if doc else set()
    due = {ODD_NUMBERS[name]} if name in ODD_NUMBERS else set()
    of_numbers = {rule for rule in found if rule.startswith("FI2")}
    return problems + ([] if of_numbers == due else [f"--values: {sorted(of_numbers)}, expected {sorted(due)}"])


def judge_good(args, name, path):
    problems = []
    doc = envelope(run(args, "audit", "--json", path), problems, statuses=(0, 1, 2, 3))
    if doc is None:
        return problems
    alarms = sorted({f"{f['rule']} {f.get('file', '')}: {f['message']}" for f in doc["findings"] if f["severity"] != "note"})
    if name in LACKS:
        return [] if [alarm.partition(":")[0] for alarm in alarms] == [LACKS[name]] else alarms + [f"expected {LACKS[name]}"]
    due = ("partial", 3) if name in PARTLY else ("good", 0)
    if not alarms and (doc["data"]["verdict"], doc["inputs"][0].get("status")) != due:
        alarms.append(f"verdict {doc['data']['verdict']}, status {doc['inputs'][0].get('status')}")
    return problems + alarms


def judge_wrong(args, folder, reference):
    """What was converted wrongly, seen from both sides."""
    problems = []
    for words in (("--data", f"--merged={folder}", reference), (f"--expect={reference}", folder)):
        doc = envelope(run(args, "audit", "--json", *words), problems, statuses=(0, 1, 2, 3))
        found = {f["rule"] for f in doc["findings"] if f["severity"] == "error"} if doc else set()
        # Which elements are wrong is not to be seen in names and shapes.
        if not any(rule.startswith("FI6") for rule in found) and (words[0] == "--data" or "rank-order" not in folder):
            problems.append(f"{words}: found {sorted(found)}")
    return problems


def wrong_samples(root):
    """(name, path, path of what it should be)."""
    for folder, below, files in os.walk(os.path.join(root, "eco", "wrong")):
        for name in files:
            truth = load(os.path.join(folder, name)) if name.endswith(".json") and "expected" in folder else {}
            if isinstance(truth, dict) and "reference" in truth:
                yield "/".join(folder.split(os.sep)[-3:-1]), os.path.dirname(folder), os.path.join(root, "eco", truth["reference"])


def judge_runs(args, root):
    """Of the checkpoints of a run those that can be resumed are good, and the others are not."""
    for run_folder in sorted(os.listdir(os.path.join(root, "runs"))):
        folder = os.path.join(root, "runs", run_folder)
        expected = os.path.join(folder, "expected")
        names = os.listdir(expected) if os.path.isdir(expected) else []
        for truth in (load(os.path.join(expected, n)) for n in names if n.endswith(".json")):
            for candidate in truth.get("candidates", ()):
                problems, path = [], os.path.join(folder, "run", candidate["dir"])
                doc = envelope(run(args, "audit", "--json", path), problems, statuses=(0, 1, 2, 3), need_data=False)
                if doc is not None and doc["ok"] != candidate["good"]:
                    problems.append(f"good is {candidate['good']}: {doc['findings'][:3]}")
                yield f"runs/{run_folder}/{candidate['dir']}", problems


def judge_same(args, root):
    """One model in many formats is the same model."""
    problems = []
    folder = os.path.join(root, "eco", "cross")
    one = os.path.join(folder, "model-a-pt", "model.pt")
    names = [n for n in sorted(os.listdir(folder)) if os.path.isdir(os.path.join(folder, n)) and n != "model-a-changed"]
    for name in names:
        other = os.path.join(folder, name)
        for words in (("--data", f"--merged={other}", one), (f"--expect={one}", other)):
            doc = envelope(run(args, "audit", "--json", *words), problems, statuses=(0, 3))
            problems += [f"{words}: {f['message']}" for f in (doc or {"findings": []})["findings"] if f["rule"].startswith("FI6")]
    return problems


def main():
    args = arguments(__doc__)
    if not args.fixtures:
        skip_all("no larger collection of samples")
    tap = Tap()
    found = [s for s in samples(args.fixtures) if args.only is None or args.only in s[0]]

    def judge(sample):
        name, path, expected = sample
        defect = os.path.join(expected, "defect.json")
        if os.path.exists(defect):
            return judge_broken(args, name, path, load(defect)), []
        return judge_good(args, name, path), judge_numbers(args, name, path)
    for (name, _, _), (problems, numbers) in zip(found, in_parallel(judge, found)):
        why = ALARMS.get(name)
        if numbers:
            tap.none(name, numbers)
        if why is None:
            tap.none(name, problems)
        elif problems:
            tap.skip(name, why)
        else:
            tap.none(name, [f"is as it should be, and listed as an exception: {why}"])
    for name, problems in judge_runs(args, args.fixtures):
        tap.none(name, problems)
    for name, folder, reference in wrong_samples(args.fixtures):
        tap.none(name, judge_wrong(args, folder, reference))
    if args.only is None:
        tap.none("one model in many formats", judge_same(args, args.fixtures))
    tap.done()


main()
