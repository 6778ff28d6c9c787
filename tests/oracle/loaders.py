#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What real loaders did with checkpoints of one property each, against what `audit --for` says of them.

Each run of a loader is a row of the matrix: the verdict and the class of the exception have to agree, and the message
in its first words. Rows about a choice that no file shows are read only for another release, rows that no file can
tell are left out, and where two sets of weights differ, saying so is right whichever of them is the old one.
"""
import collections
import os
import re

from oraclelib import Tap, arguments, envelope, load, run

WORDS = 6
# Releases of libraries beside the newest that rules are known of.
OLDER = {"4.57.6": "4.57"}


def spoken(text):
    """The first words of a message, without what differs from run to run."""
    text = re.sub(r"^(\[[^\]]*\] )+", "", text or "")
    # A set of Python has no order.
    text = re.sub(r"\{([^{}]*)\}", lambda m: "{" + ", ".join(sorted(m.group(1).split(", "))) + "}", text)
    return text.split()[:WORDS]


def options_of(row):
    """Options of the command for a row; None: what it was given is seen in no file and has no option here."""
    given = dict(row.get("options") or {})
    given.pop("call", None)
    given.pop("per_rank", None)
    found = [f"--for={row['loader']}", f"--world={row['world']}", "--data"]
    if row["version"] in OLDER and not given:
        return found + [f"--loader-version={OLDER[row['version']]}"]
    if row.get("reference") or given:
        return None
    return found


def check(args, root, row, options):
    """Problems, and the verdict that was given."""
    problems = []
    base = os.path.join(root, row["case"])
    path = os.path.join(base, row.get("target") or "checkpoint")
    expect = os.path.join(base, "expected", "expect.json")
    if os.path.exists(expect):
        options = options + [f"--expect={expect}"]
    doc = envelope(run(args, "audit", "--json", *options, path), problems, (0, 1, 2, 3))
    # A damaged checkpoint has findings, and that is another question.
    if doc is None:
        return [p for p in problems], None
    answers = doc["data"].get("loaders", [])
    if len(answers) != 1:
        return [f"{len(answers)} answers"], None
    answer = answers[0]
    verdict = answer["verdict"]
    allowed = [row["verdict"], *row.get("also", [])]
    if row["loader"] == "trainer" and "-stale-" in row["case"]:
        allowed.append("differs")
    if verdict not in allowed:
        if not (verdict == "not_judged" and (row.get("optional") or row.get("reference"))):
            problems.append(f"verdict {verdict}, expected {allowed}: {answer['reasons']}")
        return problems, verdict
    if verdict == "refuses":
        reason = answer["reasons"][-1]
        if reason.get("exception") != row["exception"]:
            problems.append(f"exception {reason.get('exception')}, expected {row['exception']}")
        message = reason["message"].replace(path, "CHECKPOINT")
        if "T5Config" in row.get("message", ""):  # that release took the name of a folder for that of a model
            return problems, verdict
        if spoken(message) != spoken(row.get("message"))[:len(spoken(message)) or WORDS] or \
                bool(message) != bool(row.get("message")):
            problems.append(f"message {message!r}, expected {row.get('message')!r}")
    return problems, verdict


# Of another program: tensors are packed under keys that transformers does not know; 5.23 was seen to refuse it.
PACKED = ("mlx-llama",)


def check_good(args, tap):
    """Folders in which nothing is wrong load, or it is not known."""
    root = os.path.join(args.fixtures or os.devnull, "complete", "good")
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        path, problems = os.path.join(root, name, "checkpoint"), []
        if not os.path.exists(os.path.join(path, "config.json")) or (args.only and args.only not in name):
            continue
        doc = envelope(run(args, "audit", "--json", "--for=hf", "--data", path), problems, (0, 1, 2, 3))
        for answer in doc["data"]["loaders"] if doc else ():
            if answer["verdict"] not in (("refuses",) if name in PACKED else ("loads", "not_judged")):
                problems.append(f"verdict {answer['verdict']}: {answer['reasons']}")
        tap.none(f"hf complete/good/{name}", problems)


def main():
    args = arguments(__doc__)
    tap = Tap()
    root = os.path.join(args.fixtures, "loaders") if args.fixtures else None
    rows = load(os.path.join(root, "matrix.json")) if root and os.path.exists(os.path.join(root, "matrix.json")) else []
    told = collections.Counter()
    for row in rows:
        name = f"{row['loader']} {row['version']} {row['case']} w{row['world']}"
        options = options_of(row)
        if args.only and args.only not in name:
            continue
        if options is None or row.get("undetectable"):
            told["left out"] += 1
            continue
        problems, verdict = check(args, root, row, options)
        told["agree" if not problems else "disagree"] += 1
        told[f"{row['loader']} not judged"] += verdict == "not_judged"
        tap.none(name, problems)
    check_good(args, tap)
    print("# " + ", ".join(f"{k} {v}" for k, v in sorted(told.items()) if v))
    tap.done()


if __name__ == "__main__":
    main()
