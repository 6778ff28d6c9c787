# SPDX-License-Identifier: Apache-2.0
"""What `audit` calls incomplete is not exported: over all samples, `export` refuses if and only if an audit of the
headers, or of the bytes that are read on the way, has an error about tensors that would be written, and writes nothing
then. With --partial no tensor that such
an error names is written. Broken models of which the truth says that headers show it are refused in any case.
"""
import concurrent.futures
import os
import tempfile

import oraclelib
from complete import truths

# Broken models of which an audit only warns.
WARNED = ("checkpoint-wrapped-bert", "input-scale-gone-nvfp4", "lora-orig-mod", "orig-mod-llama", "orig-mod-some-qwen2")
# What the bytes say where a record states their checksum.
READ_ON_THE_WAY = ("FI2001",)
FAMILIES = ("broken", "dcp", "eco", "fsdp1", "fsdp2", "loaders", "runs", "torch-zip", "trainer")


def samples(args):
    """(name, path, whether it must be refused; None: the audit says) of every sample."""
    for name, path, truth in truths([os.path.join(r, "complete") for r in args.roots]):
        broken = not truth["good"] and truth["detectable_from"] != "values"
        yield f"complete/{name}", path, broken and os.path.basename(name) not in WARNED
    for root in args.roots:
        for folder, below, _ in sorted(os.walk(root)):
            if folder == root:
                below[:] = [d for d in below if d in FAMILIES]
            if "expected" not in below:
                continue
            inside = [n for n in sorted(os.listdir(folder)) if n != "expected"]
            alone = "checkpoint" in inside or len(inside) == 1
            path = os.path.join(folder, "checkpoint" if "checkpoint" in inside else inside[0]) if alone else folder
            below[:] = []
            yield os.path.relpath(folder, root), path, None


def listed(args, path, *words):
    run = oraclelib.run(args, "ls", "--json", *words, path)
    return run.json().get("data") or {} if run.status in (0, 1, 3) else {}


def unwanted(args, path):
    """Names of tensors and values that are not written unless they are asked for."""
    tensors = {t["name"] for t in listed(args, path).get("tensors", ()) if t["role"] not in ("param", "buffer")}
    return tensors | {v["name"] for v in listed(args, path, "--values").get("values", ())}


def stopping(args, audit, subjects, path):
    """Errors about tensors, but for those that name only what is not written."""
    errors = [f for f in audit["findings"] if f["severity"] == "error" and subjects[f["rule"]] == "tensors"]
    besides = unwanted(args, path) if errors else set()
    return [f for f in errors if not f.get("affected") or set(f["affected"]) - besides]


def problems_of(args, subjects, path, must):
    problems = []
    audit = oraclelib.envelope(oraclelib.run(args, "audit", "--json", "--for=none", path), problems, (0, 1, 2, 3), need_data=False)
    if audit is None:
        return problems
    stops = stopping(args, audit, subjects, path)
    if not stops:
        data = oraclelib.envelope(oraclelib.run(args, "audit", "--json", "--for=none", "--data", path), problems, (0, 1, 2, 3), need_data=False)
        stops = [f for f in stopping(args, data or {"findings": []}, subjects, path) if f["rule"] in READ_ON_THE_WAY]
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        run = oraclelib.run(args, "export", "--json", "--skip-unsupported", "-o", out, path)
        if sum(one["kind"] == "checkpoint" for one in audit["inputs"]) > 1:  # below the directory; export takes one
            oraclelib.same(problems, "status", run.status, 2)
            return problems
        oraclelib.same(problems, "refused", run.status == 1, bool(stops) if must is None else must)
        oraclelib.same(problems, "a folder", os.path.exists(out), run.status in (0, 3))
        if run.status != 1:
            return problems
        told = oraclelib.envelope(run, problems, statuses=(1,))
        rules = {f["rule"] for f in told["findings"]} if told else set()
        if not rules & {f["rule"] for f in stops}:
            problems.append(f"what is wrong is not told: {sorted(rules)}")
        run = oraclelib.run(args, "export", "--json", "--skip-unsupported", "--partial", "-o", out, path)
        part = oraclelib.envelope(run, problems, statuses=(1, 3))
        oraclelib.same(problems, "a folder of a part", os.path.exists(out), run.status == 3)
        suffers = {name for f in stops for name in f.get("affected", ())}
        problems += [f"{t['source']} is written, and is not whole" for t in part["data"]["tensors"]
                     if t["source"] in suffers] if part else []
    return problems


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    rules = oraclelib.envelope(oraclelib.run(args, "rules", "--json"), [])["data"]["rules"]
    subjects = {rule["rule"]: rule["subject"] for rule in rules}
    chosen = [s for s in samples(args) if args.only is None or args.only in s[0]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for sample, problems in zip(chosen, pool.map(lambda s: problems_of(args, subjects, *s[1:]), chosen)):
            tap.none(sample[0], problems)
    tap.done()


if __name__ == "__main__":
    main()
