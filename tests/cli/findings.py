#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outputs that show findings alone, judged by others: SARIF by its schema, and what contrib/ci makes of JSON: JUnit by
XML readers and a schema, GitHub's commands by its own rules of unescaping. They say what JSON says, whatever bytes names have.
Prints TAP: findings.py BINARY
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RECIPES = os.path.join(ROOT, "contrib", "ci")
BROKEN = os.path.join(ROOT, "testdata", "broken")
# A name is all of these in a row; one that is not UTF-8 cannot stand in a header.
NASTY = "a\nb\r::error::c%0A,d:\"'<&>]]>\x1b[31m\u202e\x7f\x01\\\ufffe\U000e0041é"


def tensors(path, names):
    """A file of safetensors that ends too early for its last tensor."""
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(4 * len(names) - 4))


def samples(folder):
    """Name -> words of the command line."""
    for name in (n for n in os.listdir(BROKEN) if os.path.isdir(os.path.join(BROKEN, n, "checkpoint"))):
        shutil.copytree(os.path.join(BROKEN, name, "checkpoint"), os.path.join(folder, name))
    found = {name: [name] for name in sorted(os.listdir(folder))}
    found["all"] = sorted(found)
    found["absent"] = ["nosuch"]
    found["wrong usage"] = ["--rule=nosuch=off", "dcp-chunk-gap"]
    found["threshold"] = ["--fail-on=none", "dcp-chunk-gap"]
    found["off"] = ["--rule=*=off", "dcp-chunk-gap"]
    tensors(os.path.join(folder, "nasty.safetensors"), ["x", NASTY])
    found["nasty tensor"] = ["nasty.safetensors"]
    os.mkdir(os.path.join(folder, "in"))
    path = os.path.join(folder, "in", NASTY.replace("/", "") + ".safetensors")
    tensors(path.encode("utf-8") + b"\xff\x80.safetensors", ["x", "y"])
    found["nasty file"] = [os.path.join(b"in", n) for n in os.listdir(os.path.join(folder, "in").encode())]
    many = os.path.join(folder, "many")
    os.mkdir(many)
    tensors(os.path.join(many, "model-00001-of-00001.safetensors"), ["x"])
    with open(os.path.join(many, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": {n: "model-00001-of-00001.safetensors"
                                                  for n in ["x"] + [f"{NASTY}{i}" for i in range(40)]}}, f)
    found["many"] = ["many"]
    return found


class Audit:
    """One audit in all forms."""

    def __init__(self, binary, folder, words):
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        names = {f: os.path.join(folder, "out." + f) for f in ("json", "sarif")}
        for path in names.values():
            if os.path.exists(path):
                os.remove(path)
        done = subprocess.run([binary, "audit", *words] + [w for f, p in names.items() for w in ("-o", f"{f}={p}")],
                              cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.status, self.err = done.returncode, done.stderr
        self.bytes = {}
        for form, path in names.items():
            with open(path, "rb") as f:
                self.bytes[form] = f.read()
        for form in ("junit", "github"):
            self.bytes[form] = subprocess.run(["jq", "-rf", os.path.join(RECIPES, form + ".jq"), names["json"]],
                                              stdout=subprocess.PIPE, env=env, check=True).stdout
            with open(os.path.join(folder, "out." + form), "wb") as f:
                f.write(self.bytes[form])
        self.json = json.loads(self.bytes["json"])
        self.findings = [f for f in self.json["findings"] if f["rule"] != "FI9006" or "file" in f]


# ---- SARIF

def schema():
    try:
        import jsonschema
    except ImportError:
        return None
    with open(os.path.join(HERE, "sarif-2.1.0.json"), encoding="utf-8") as f:
        return jsonschema.Draft4Validator(json.load(f))


def judge_sarif(audit, validator):
    log = json.loads(audit.bytes["sarif"])
    if validator:
        for error in validator.iter_errors(log):
            yield f"schema: {error.message[:200]}"
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    levels = {"error": 0, "warning": 1, "note": 2}
    order = [levels[r["level"]] for r in run["results"]]
    if order != sorted(order):
        yield "the worst do not come first"
    said = sorted((r["ruleId"], r["level"], r["message"]["text"], r["partialFingerprints"]["fsdpInspect/v1"])
                  for r in run["results"])
    if said != sorted((f["rule"], f["severity"], f["message"], f["fingerprint"]) for f in audit.findings):
        yield "other findings than in JSON"
    for result in run["results"]:
        if rules[result["ruleIndex"]]["id"] != result["ruleId"]:
            yield "ruleIndex of another rule"
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        if not re.fullmatch(r"(%[0-9A-F]{2}|[A-Za-z0-9._~/-])+", uri):
            yield f"no URI: {uri!r}"
    invocation = run["invocations"][0]
    if invocation["executionSuccessful"] != (not audit.json["errors"]) or invocation["exitCode"] != audit.status:
        yield "success and status differ from JSON"


# ---- JUnit

def judge_junit(audit, folder):
    path = os.path.join(folder, "out.junit")
    if shutil.which("xmllint"):
        done = subprocess.run(["xmllint", "--noout", "--schema", os.path.join(HERE, "junit.xsd"), path],
                              stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            yield f"xmllint: {done.stderr[:300]!r}"
    root = xml.etree.ElementTree.parse(path).getroot()
    for node in [root, *root]:
        counts = {"tests": len(node.findall(".//testcase")), "failures": len(node.findall(".//failure")),
                  "errors": len(node.findall(".//error")), "skipped": len(node.findall(".//skipped"))}
        for name, count in counts.items():
            if int(node.get(name)) != count:
                yield f"{name} is {node.get(name)}, there are {count}"
    failed = {c.get("classname") for c in root.iter("testcase") if c.find("failure") is not None}
    errors = {f["rule"] for f in audit.findings if f["severity"] == "error"}
    if failed != (set() if audit.status == 0 else errors):
        yield f"failures of {failed}, errors of {errors}"
    text = "".join(root.itertext())
    for finding in audit.findings:
        if finding["message"].isascii() and finding["message"].isprintable() and finding["message"] not in text:
            yield f"not there: {finding['message']}"


# ---- GitHub

def unescaped(text):
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def judge_github(audit):
    seen = {"error": 0, "warning": 0, "notice": 0}
    for line in audit.bytes["github"].decode().splitlines():
        match = re.fullmatch(r"::(error|warning|notice) ((?:[a-z]+=[^,:\r\n]*,?)+)::(.*)", line)
        if match is None:
            if not re.fullmatch(r"\.\.\. and \d+ more (error|warning|notice)s?", line):
                yield f"no command: {line!r}"
            continue
        seen[match[1]] += 1
        if any(ord(c) < 32 or ord(c) == 127 for c in line):
            yield f"control characters: {line!r}"
    if max(seen.values()) > 10:
        yield f"too many: {seen}"
    first = [f for f in audit.findings if f["severity"] == "error"][:1]
    if first and first[0]["message"].isascii() and first[0]["message"] not in unescaped(audit.bytes["github"].decode()):
        yield "the first error is not there"


def main():
    binary = os.path.abspath(sys.argv[1])
    if not shutil.which("jq"):
        print("1..0 # SKIP no jq")
        return
    validator = schema()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, words in samples(folder).items():
            audit = Audit(binary, folder, words)
            problems = [*judge_sarif(audit, validator), *judge_junit(audit, folder), *judge_github(audit)]
            count += 1
            print(f"{'not ok' if problems else 'ok'} {count} - {name}")
            for problem in problems[:10]:
                print("#  " + problem.encode("ascii", "backslashreplace").decode())
    print(f"1..{count}")


if __name__ == "__main__":
    main()
