#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fresh saves of many kinds by the libraries that people save with, against what these libraries load from them.

Each kind is made in a process and a folder of its own (fresh_saves.py); then names, dtypes, shapes and sizes are what `ls`
shows, and the SHA-256 of every tensor is what `export` writes. A kind whose library is not installed is skipped;
FSDP_PYTHONS may name further Pythons, with colons between, which are asked for what the first one does not have."""
import os
import subprocess
import sys
import tempfile

from oraclelib import Tap, arguments, environment, envelope, in_parallel, run, same
from fresh_saves import ABSENT, load_kinds

WRITER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fresh_saves.py")
# What safetensors has no name for.
UNSUPPORTED = ("complex32", "complex128")
ROLES = "--role=param,buffer,optim,other"


def listed(args, path, truth, problems):
    """What ls shows; returns whether it could."""
    doc = envelope(run(args, "ls", "--json", "--raw", *truth.get("options", ()), path), problems, (truth.get("status", 0),))
    if doc is None:
        return False
    found = {t["name"]: t for t in doc["data"]["tensors"]}
    known = [n for n in found if n in truth["tensors"] or not truth.get("part")]
    same(problems, "names", sorted(known), sorted(truth["tensors"]))
    for name, (dtype, shape, _) in truth["tensors"].items():
        if name in found:
            dtype = truth.get("dtype", dtype)
            same(problems, f"{name}: ls", [found[name]["dtype"], found[name]["shape"]], [dtype, shape])
    same(problems, "findings", [f["message"] for f in doc.get("findings", ()) if f["severity"] not in ("note", "info") and
                                not f["message"].startswith(tuple(truth.get("findings", ())))], [])
    return True


def exported(args, path, truth, problems):
    plain = {n: t for n, t in truth["tensors"].items() if t[2] is not None}
    if not plain:
        return
    with tempfile.TemporaryDirectory() as work:
        doc = envelope(run(args, "export", "--json", "--raw", "--to=safetensors", "--strip=none", "--tie=keep", ROLES,
                           "--skip-unsupported", *truth.get("options", ()), *truth.get("export", ()), "-o",
                           os.path.join(work, "out.safetensors"), path), problems, (0, 3))
    if doc is None:
        return
    found = {t["name"]: [t["dtype"], t["shape"], t["sha256"]] for t in doc["data"]["tensors"]}
    left = {t["name"] for t in doc["data"]["left_out"]}
    for name, told in plain.items():
        if name in found:
            same(problems, f"{name}: export", found[name], told)
        elif name not in left or told[0] not in UNSUPPORTED:
            problems.append(f"{name}: not written")


def merged(args, path, expected, problems):
    """The folder that export writes without any option against what the library's own converter makes."""
    with tempfile.TemporaryDirectory() as work:
        doc = envelope(run(args, "export", "--json", "-o", os.path.join(work, "out"), path), problems)
    if doc is None:
        return
    found = {t["name"]: [t["dtype"], t["shape"], t["sha256"]] for t in doc["data"]["tensors"]}
    same(problems, "names", sorted(found), sorted(expected))
    for name in found:
        same(problems, name, found[name], expected.get(name))


def answered(args, path, loader, options, problems):
    """What audit --for says."""
    doc = envelope(run(args, "audit", "--json", f"--for={loader}", "--data", *options, path), problems, (0, 1, 2, 3))
    answer, = doc["data"]["loaders"] if doc else [None]
    return answer


def loaded(args, path, told, problems):
    """What audit --for=hf says against what the library did."""
    answer = answered(args, path, "hf", [], problems)
    if answer is None:
        return
    same(problems, "verdict", answer["verdict"], told["verdict"])
    for name in told.get("missing", ())[:1]:
        if name not in str(answer["reasons"]):
            problems.append(f"{name} is missing, and not named: {answer['reasons']}")


def judged(args, path, told, problems):
    """What audit --for says of each loader against what the loader did."""
    for loader, did in told.items():
        answer = answered(args, path, loader, did.get("options", []), problems)
        if answer is None or answer["verdict"] == "not_judged" and did.get("unclear"):
            continue
        same(problems, f"{loader}: verdict", answer["verdict"], did["verdict"])


def adapted(args, path, truth, problems):
    """What audit --for=peft says, without the base and with its names. What is not known is never called loadable, but
    where only the base tells."""
    told = truth["peft"]
    expected = [[f"--expect={os.path.join(os.path.dirname(path), truth['expect'])}"]] if "expect" in truth else []
    for options in [[], *expected]:
        answer = answered(args, path, "peft", options, problems)
        if answer is None:
            return
        allowed = [told["verdict"]]
        if truth.get("unclear"):
            allowed.append("not_judged")
        if not options and truth.get("of_base"):
            allowed += ["loads", "not_judged"]
        if answer["verdict"] not in allowed:
            problems.append(f"{options}: {answer['verdict']}, expected {told}: {answer['reasons']}")


def compare(args, path, truth):
    problems = []
    if "hf" in truth:
        loaded(args, path, truth["hf"], problems)
        return problems
    if "for" in truth:
        judged(args, path, truth["for"], problems)
        return problems
    if "peft" in truth:
        adapted(args, path, truth, problems)
        return problems
    if "merged" in truth:
        merged(args, path, truth["merged"], problems)
        return problems
    if listed(args, path, truth, problems) and not truth.get("status"):
        exported(args, path, truth, problems)
    return problems


def made(name, folder):
    """Whether the first Python that has the library could make it; else (status, why)."""
    why = "no Python"
    for python in filter(None, [sys.executable, *os.environ.get("FSDP_PYTHONS", "").split(":")]):
        env = environment(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([python, WRITER, name, folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=400, check=False, env=env, cwd=folder)
        why = done.returncode, done.stderr.decode(errors="replace").strip()[-700:]
        if done.returncode != ABSENT:
            return why
    return why


def judge(args, name):
    """[(what, problems, why it is skipped)] of one kind."""
    from oraclelib import load
    with tempfile.TemporaryDirectory() as folder:
        status, why = made(name, folder)
        if status == ABSENT:
            return [(name, [], why.splitlines()[-1][:150] if why else "no library")]
        if status != 0:
            return [(name, [f"the library: {why}"], None)]
        truth = load(os.path.join(folder, "truth.json"))
        return [(f"{truth['library']} {truth['release']}: {name}: {save}",
                 compare(args, os.path.join(folder, told["path"]), told), None) for save, told in truth["saves"].items()]


def main():
    args = arguments(__doc__)
    tap = Tap()
    kinds = [n for n in load_kinds() if args.only is None or args.only in n]
    for results in in_parallel(lambda name: judge(args, name), kinds):
        for what, problems, skipped in results:
            if skipped is not None:
                tap.skip(what, skipped)
            else:
                tap.none(what, problems)
    tap.done()


if __name__ == "__main__":
    main()
