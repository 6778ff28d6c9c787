# SPDX-License-Identifier: Apache-2.0
"""Logical digests are those of PyTorch's own bytes: over every sample that says what each tensor hashes to.
One model in several formats and sharded in several ways has one digest. Stored digests are those of sha256sum,
and the audit takes the list.
"""
import hashlib
import os
import subprocess
import tempfile

import oraclelib

NOT_READ = ("dcp-safetensors",)
JOBS = ("1", "2", "7")


def digest_of(tensors, kind="logical"):
    """The digest of the list, made as the manual says."""
    lines = []
    for t in tensors:
        shape = "x".join(map(str, t["shape"]))
        digest = t["sha256"] + " " if kind == "logical" else ""
        lines.append(f"{digest}{t['dtype']} {shape} {t['name']}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def problems_of(tensors, data):
    found = {t["name"]: t for t in data["tensors"]}
    for t in tensors:
        if "sha256" not in t or any(key in t for key in oraclelib.NO_TENSOR):
            continue
        one = found.get(t["fqn"])
        if one is None or one.get("sha256") != t["sha256"]:
            yield f"{t['fqn']}: {one}"
    if "digest" in data and all(ascii(t["name"]) == repr(t["name"]) for t in data["tensors"]) \
            and data["digest"] != digest_of(data["tensors"]):
        yield "the digest of the list is not what the manual says"


def judge_truth(tap, args, case, truth, path, *plan):
    name = f"{case.name}: logical digests{' with the plan' if plan else ''}"
    runs = [oraclelib.run(args, "hash", "--logical", "--raw", "--json", "-j", jobs, *plan, path) for jobs in JOBS]
    if runs[0].crash or runs[0].status == 2:
        tap.ok(not runs[0].crash, name, [runs[0].crash])
        return
    if truth.get("kind") in NOT_READ:
        tap.skip(name, "not read yet")
        return
    problems = list(problems_of(oraclelib.whole_parameters(truth, plan), runs[0].json()["data"]))
    if any(r.out != runs[0].out for r in runs):
        problems.append("another answer on other numbers of threads")
    tap.none(name, problems)


def judge_stored(tap, args, case, path):
    """sha256sum takes the list, the audit takes it, and a byte less is found."""
    if not os.path.isdir(path):
        return
    with tempfile.TemporaryDirectory() as room:
        copy = os.path.join(room, "copy")
        oraclelib.copy_tree(path, copy)
        sums = os.path.join(copy, "SHA256SUMS")
        listed = oraclelib.run(args, "hash", copy)
        if listed.status == 2:
            return
        with open(sums, "wb") as stream:
            stream.write(listed.out)
        problems = [] if not listed.crash and listed.status == 0 else [listed.crash or listed.tail]
        base = copy if all(os.path.exists(os.path.join(copy, line[66:])) for line in listed.out.decode().splitlines()) \
            else None
        if base and subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=base,
                                   capture_output=True, check=False).returncode:
            problems.append("sha256sum does not take it")
        again = oraclelib.run(args, "hash", "--check", sums, copy)
        if again.status != 0 or again.crash:
            problems.append(f"--check: status {again.status}: {again.out[-300:]}")
        audit = oraclelib.run(args, "audit", "--data", "--json", "--manifest", sums, copy)
        if any(f["rule"] == "FI6008" for f in audit.json()["findings"]):
            problems.append("the audit finds a mismatch")
        tap.none(f"{case.name}: list of files", problems)


def judge_cross(tap, args):
    """Model A, however it was saved."""
    folder = os.path.join(args.fixtures or "", "eco", "cross")
    if not os.path.exists(os.path.join(folder, "model-a.json")):
        tap.skip("one model, one digest", "no samples")
        return
    said = oraclelib.load(os.path.join(folder, "model-a.json"))
    whole = {}
    for name in said["equal"] + ["model-a-changed"]:
        path = os.path.join(folder, name)
        run = oraclelib.run(args, "hash", "--logical", "--json", "--role=param,buffer", path)
        data = run.json()["data"]
        whole[name] = data.get("digest")
        names = oraclelib.run(args, "hash", "--names", "--json", "--role=param,buffer", path).json()["data"]
        tap.ok(names["digest"] == digest_of(names["tensors"], "names"), f"cross/{name}: digest of names")
        if name in said["equal"]:
            found = {t["name"]: (t["sha256"], t["dtype"], t["shape"]) for t in data["tensors"]}
            tap.ok(found == {t["fqn"]: (t["sha256"], t["dtype"], t["shape"]) for t in said["tensors"]},
                   f"cross/{name}: tensors", [str(found)])
    tap.ok(len({whole[n] for n in said["equal"]}) == 1 and None not in whole.values(), "one model, one digest",
           [str(whole)])
    tap.ok(whole["model-a-changed"] not in [whole[n] for n in said["equal"]], "another model, another digest")


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    for case, truth in oraclelib.told_cases(args):
        path = case.checkpoint(truth)
        if path is None:
            continue
        told = truth.get("tensors")
        if isinstance(told, list) and any("sha256" in t for t in told):
            judge_truth(tap, args, case, truth, path)
            if "fsdp1-local" in truth.get("kind", "") and case.has("plan.fsdp-plan.json"):
                judge_truth(tap, args, case, truth, path, "--plan", case.file("plan.fsdp-plan.json"))
        judge_stored(tap, args, case, path)
    judge_cross(tap, args)
    tap.done()


if __name__ == "__main__":
    main()
