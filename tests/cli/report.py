#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of report as it is written, without a browser: its template, what C fills in, the data that the script reads.
Prints TAP. (axe.py opens pages in a browser.)

report.py BINARY TESTDATA [--claims]
  --claims judges the claims of all pages of broken checkpoints; without it those of every third.
"""
import base64
import collections
import glob
import gzip
import hashlib
import html
import html.parser
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

import rule_examples
from rule_examples import serving

BINARY, TESTDATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TEMPLATE = os.path.join(os.path.dirname(__file__), "..", "..", "data", "report.html")
BLOCKS = TEMPLATE.replace("report.html", "report-blocks.html")
FIELDS = {"style-hash", "script-hash", "title", "color", "verdict", "icon", "badge", "+chips", "summary", "+cards", "+findings", "+runs", "+loaders", "+values", "+footer", "+data"}
HOSTILE = ("<img src=x onerror=alert(1)>", "\"' onload='x", "</style><b>", "</script><script>x()</script>", "a\u0007b\u202ec", "@data@", "__proto__", "&lt;", "x" * 3000, "", "a\nb", "constructor", "\u2067rtl", ".#.", "9" * 400, "a\0b")


def run(*words):
    return serving.completed([BINARY, *words], TESTDATA)


class Page(html.parser.HTMLParser):
    """Tags that are not of the template: none may run, load or style anything."""

    def __init__(self, text):
        super().__init__()
        self.text, self.open, self.words, self.faults = text, [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        if tag in ("img", "iframe", "object", "base", "form") or any(name.startswith("on") or name in ("src", "style") for name in names):
            self.faults.append((tag, names))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data.strip())

    @property
    def plain(self):
        return " ".join(word for word in self.words if word)

    @property
    def data(self):
        """Document by key; of one that is not on the page None."""
        found = re.findall(r'id="data-([a-z_]+)">([^<]*)<', self.text)
        return collections.defaultdict(lambda: None, {key: json.loads(gzip.decompress(base64.b64decode(text))) for key, text in found})


def page(*words, status=0):
    got = run("report", "-q", *words)
    assert got.returncode == status, (words, got.returncode, got.stderr)
    return Page(got.stdout.decode())


def check_template():
    with open(TEMPLATE, encoding="utf-8") as file:
        text = file.read()
    assert len(text.encode()) <= 45 << 10, len(text.encode())
    assert sorted(re.findall("@([+]?[a-z-]+)@", text)) == sorted([*FIELDS, "title", "verdict"])
    script = re.search("<script>(.*)</script>", text, re.DOTALL)[1]
    for word in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "outerHTML"):
        assert word not in script, word
    with open(BLOCKS, encoding="utf-8") as file:
        text += file.read()
    assert set(re.findall(r"https?://[^\s\"']*", text)) == {"http://www.w3.org/2000/svg"}


def check_policy():
    text = page("demo/step-1234").text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for tag in ("style", "script"):
        content = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        assert base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() in policy, tag


def check_sound():
    one = page("demo/step-1234")
    assert not one.faults and one.text == page("demo/step-1234").text
    for part in ("demo/step-1234: good", "GOOD", "no errors, no warnings", "All 3 files are present and all 57 tensors are complete.",
                 "238", "TinyTransformer", "no unreferenced bytes, 203.5 KiB headers and metadata", "FSDP2 × 2", "Adam", "1.5 KiB", "20 values that are not tensors", "checks passed"):
        assert part in one.plain, part


def check_broken():
    one = page("broken/dcp-chunk-gap/checkpoint")
    for part in ("dcp-chunk-gap/checkpoint: bad", "BAD", ".metadata, model.a.weight: pieces cover", "Optimizer none no states are stored", "1 error", "FI1021 chunk-gap", "model.a.weight", "Fix:"):
        assert part in one.plain, part
    with tempfile.TemporaryDirectory() as folder:
        gone = os.path.join(folder, "run", "step-1234")
        shutil.copytree(os.path.join(TESTDATA, "demo/step-1234"), gone)
        os.remove(os.path.join(gone, "__1_0.distcp"))
        lost = page(gone)
    for part in ("run/step-1234: bad", "57 of 57 tensors are affected: 1.4 KiB,", "% of the bytes.", "2 of 3 files"):
        assert part in lost.plain, part
    assert {piece["rank"] for piece in lost.data["pieces"]["data"]["pieces"] if piece.get("missing")} == {1}
    assert [file["path"] for file in lost.data["info"]["data"]["files"] if file.get("missing")] == ["__1_0.distcp"]
    with tempfile.TemporaryDirectory() as folder:
        cut = os.path.join(folder, "run", "step-1234")
        shutil.copytree(os.path.join(TESTDATA, "demo/step-1234"), cut)
        os.truncate(os.path.join(cut, "__0_0.distcp"), 30000)
        short = page(cut)
    assert "3 files, 1 truncated" in short.plain and "headers and metadata" not in short.plain
    assert [(file["path"], file["payload"], file.get("truncated")) for file in short.data["info"]["data"]["files"]] == [(".metadata", 0, None), ("__0_0.distcp", 1564, True), ("__1_0.distcp", 1556, None)]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(TESTDATA, "fsdp1/local-w2-conv/checkpoint/rank0.pt"), folder)
        assert "rank1.pt: file of rank 1 is missing (world size is 2)" in page(folder).plain
    pointer = page("broken/hf-lfs-pointer/checkpoint")
    assert "2 names are affected" in pointer.plain and "git lfs pull" in pointer.plain
    # What cannot be opened has a page, too, if the audit has an error.
    assert "BAD" in page("broken/dcp-missing-metadata/checkpoint").plain


def check_documents():
    data = page("demo/step-1234").data
    for key, words in (("info", ["info"]), ("tree", ["tree"]), ("ls", ["ls"]), ("audit", ["audit"]), ("by_rank", ["ls", "--by=rank,role"]), ("pieces", ["ls", "-l", "--columns=name,rank,offsets,sizes,file,missing"])):
        assert data[key] == json.loads(run(*words, "--json", "demo/step-1234").stdout), key
    assert data["diff"] is None and data["replay"] is None


def check_short_path():
    text = page(os.path.join(TESTDATA, "demo/step-1234"))
    assert TESTDATA not in text.plain and TESTDATA not in json.dumps(text.data)
    assert text.data["info"]["inputs"][0]["path"] == "demo/step-1234"
    here = subprocess.run([BINARY, "report", "-q", "."], cwd=os.path.join(TESTDATA, "demo/step-1234"), capture_output=True, check=True).stdout.decode()
    assert "<title>demo/step-1234: good</title>" in here and "audit --data demo/step-1234" in here


def check_hostile():
    names = [f"layers.{i}.{name}" for i, name in enumerate(HOSTILE * 26)][:401]
    head = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    head["__metadata__"] = {name: name for name in HOSTILE}
    text = json.dumps(head).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x@data@<b>.safetensors")
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + bytes(4 * len(names)))
        one = page(path)
    assert not one.faults and "x@data@<b>.safetensors: good" in one.plain
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", one.text)
    assert {tensor["name"] for tensor in one.data["ls"]["data"]["tensors"]} == set(names)


# Of audit, as people read them.
VERDICTS = {"loads": "loads", "differs": "loads with differences", "refuses": "refuses", "not_judged": "not judged"}


def plural(count, noun):
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def check_claim(path):
    """What the page of a checkpoint says is what the audit found."""
    got = run("audit", "--json", path)
    audit = json.loads(got.stdout.decode().replace(path, "/".join(path.split("/")[-2:])))
    one = page(path, status=3 if not audit["data"] else 0)
    data, info, text = audit["data"], one.data["info"]["data"], one.plain
    assert f"{data['verdict'].upper()} " in text
    for level in ("error", "warning"):
        count = data["counts"][level]
        assert (plural(count, level) in text.split(" Parameters ")[0].split(" Findings ")[0]) == (count > 0), level
        found = [finding for finding in audit["findings"] if finding["severity"] == level]
        for finding in found if len(found) <= 20 else []:
            assert finding["message"] in text, finding["message"]
            assert f"Fix: {finding['fix']}" in text if finding.get("fix") else True, finding["fix"]
    errors = [finding for finding in audit["findings"] if finding["severity"] == "error"]
    if errors:
        first = errors[0]
        summary = re.search(r'<p class="summary">(.*?)</p>', one.text, re.DOTALL)[1]
        summary = html.unescape(summary)
        assert ".." not in summary.replace("...", ""), summary
        where = [first.get("file"), first.get("tensor") if first.get("affected_count", 0) <= 1 and first.get("tensor", "") not in first["message"] else None]
        message = ", ".join(filter(None, where)) + (": " if any(where) else "") + first["message"]
        assert summary[1:].startswith(message[1:]), summary
        names = {tensor["name"] for tensor in one.data["ls"]["data"]["tensors"]} & set(first.get("affected", [])) if info else set()
        told = re.search(r"([\d,]+) of ([\d,]+) tensors? (?:is|are) affected", summary)
        assert (int(told[1].replace(",", "")), int(told[2].replace(",", ""))) == (len(names), info["counts"]["tensors"]) if told else not names, summary
        share = re.search(r"([\d.]+) % of the bytes", summary)
        assert abs(float(share[1]) - 100 * first["affected_bytes"] / info["bytes"]["payload"]) <= 0.051 if share else True, summary
    for loader in data.get("loaders", []):
        assert f"{VERDICTS[loader['verdict']]} {loader['title']} {loader['library']} {loader['version']}" in text, loader["loader"]
        for reason in loader.get("reasons", [])[:1]:
            assert reason["message"] in text and reason.get("way_out", "") in text, reason
    passed = sum(check["status"] == "passed" for check in data["checks"])
    assert not passed or plural(passed, "check") + " passed" in text
    if info:
        for count, noun in ((info["bytes"]["on_disk"], "On disk "), (info["counts"]["parameters"], "Parameters ")):
            assert not count or noun in text
        for name, share in re.findall(r"<dd>([^<]*), (\d+) % of the bytes</dd>", one.text):
            assert 0 < int(share) <= 100, name


def check_claims():
    paths = sorted(glob.glob(TESTDATA + "/broken/*/checkpoint") + glob.glob(TESTDATA + "/complete/*/checkpoint") + glob.glob(TESTDATA + "/deepspeed/*"))
    paths = [os.path.relpath(path, TESTDATA) for path in paths]
    assert len(paths) >= 30, len(paths)
    for path in paths if "--claims" in sys.argv else paths[::3]:
        try:
            check_claim(path)
        except AssertionError as error:
            raise AssertionError(f"{path}: {error}") from error


def check_experts():
    names = [f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight" for layer in range(3) for expert in range(5) for name in ("gate_proj", "up_proj")]
    head = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    text = json.dumps(head).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + bytes(range(1, 5)) * len(names))
        assert "3 layers, 30 tensors" in page(path).plain


def check_exports():
    """A row of from_pretrained only for names that it reads: Meta's are others."""
    listed = json.loads(run("ls", "--json", "hf/llama-sharded").stdout)["data"]["tensors"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        storages = {tensor["name"]: rule_examples.Storage(str(i), tensor["numel"]) for i, tensor in enumerate(listed)}
        tensors = {tensor["name"]: rule_examples.Tensor(storages[tensor["name"]], tuple(tensor["shape"]), (tensor["shape"] + [1])[1:]) for tensor in listed}
        rule_examples.torch_zip(path, tensors, {str(i): tensor["numel"] for i, tensor in enumerate(listed)})
        one = page(path)
    assert "after export from_pretrained" in one.plain and "fsdp-inspect export -o OUT" in one.plain
    meta = page("meta/consolidated-mp2")
    assert "Llama-like" in meta.plain and "after export" not in meta.plain


def check_expect():
    assert "to compare names and shapes: fsdp-inspect audit --for=hf --expect=MODEL scale-gone-fp8/checkpoint" in page("complete/scale-gone-fp8/checkpoint").plain


def check_size():
    names = [f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight" for layer in range(50) for expert in range(67) for name in ("gate_proj", "up_proj", "down_proj")]
    head = {name: {"dtype": "BF16", "shape": [1, 2], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    text = json.dumps(head).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + bytes(range(1, 5)) * len(names))
        one = page(path)
    assert "10,050 tensors" in one.plain and len(one.text.encode()) <= 1.5e6, len(one.text.encode())


def check_notes():
    one = page("deepspeed/zero2-w2")
    assert "using global_step2 (from latest)" in one.plain and one.data["info"]["notes"] == ["using global_step2 (from latest)"]


def check_runs():
    one = page("traces/gpu_generated")
    costs = one.data["replay"]["data"]["cost"]
    assert one.text.count('<section class="run">') == len(costs) == 2
    assert "2 runs of 6 recordings" in one.plain
    for number, cost in enumerate(costs, 1):
        sentence = cost["loss"]["sentence"]
        assert f"Run {number}" in one.plain and sentence[0].upper() + sentence[1:] + "." in one.plain
        assert {step["run"] for step in one.data["replay"]["data"]["steps"]} == {1, 2}
    begins = {clock["run"]: clock["begin_ns"] for clock in one.data["lanes"]["otherData"]["clocks"]}
    assert begins[1] == 0 < begins[2], begins
    alone = page(*(f"traces/gpu_generated/old_lying_rank{rank}.pt.trace.json.gz" for rank in range(2)))
    assert "Run 1" not in alone.plain and "Idle (10 %): --by=idle lists the causes" in alone.plain


def check_changed_values():
    steps = [f"runs/dcp-half-written/run/step-{step}" for step in (10, 20)]
    one = page(*steps)
    for part in ("DIFFERENT", "1 value changed", "6 equal in name, shape and dtype", "step 10 → 20"):
        assert part in one.plain, part
    assert "EQUAL" in page(steps[0], steps[0]).plain and "Values" not in page(steps[0], steps[0]).plain


def check_comparison():
    one = page("hf/llama-sharded", "complete/tensor-gone-llama/checkpoint")
    for part in ("hf/llama-sharded → tensor-gone-llama/checkpoint", "DIFFERENT", "Contents were not compared.", "before",
                 "1 error: fsdp-inspect audit tensor-gone-llama/checkpoint",
                 "with another dtype", "more"):
        assert part in one.plain, part
    assert "FI1090" not in one.plain
    assert "1 error: fsdp-inspect audit tensor-gone-llama/checkpoint" in page("complete/tensor-gone-llama/checkpoint", "hf/llama-sharded").plain
    assert one.data["diff"]["data"] and one.data["ls_a"]["data"]
    assert "EQUAL" in page("demo/step-1234", "demo/step-1234").plain


def check_recordings():
    traces = "traces/gpu_generated/new_args_rank{}.pt.trace.json.gz"
    alone = page(traces.format(0))
    for part in ("RECORDING", "Step time", "Compute", "Idle", "nccl, 2 steps"):
        assert part in alone.plain, part
    both = page(*(f"--trace={traces.format(rank)}" for rank in range(4)), "demo/step-1234")
    assert "GOOD" in both.plain and "straggler: rank 2" in both.plain
    assert both.data["lanes"]["traceEvents"] and both.data["replay"]["data"]["ranks"]
    folder = page("traces/gpu_generated")
    assert "RECORDING" in folder.plain and len(folder.data["replay"]["data"]["ranks"]) > 4


def check_failures():
    assert run("report", "nowhere").returncode == 2
    several = run("report", "runs/dcp-half-written/run")
    assert several.returncode == 2 and not several.stdout and b"contains 3 checkpoints, but a report has one" in several.stderr, several
    assert run("report", "runs/dcp-half-written/run", "demo/step-1234").returncode == 2
    assert run("report", "--trace=nowhere", "demo/step-1234").returncode == 2
    with tempfile.NamedTemporaryFile(suffix=".json") as broken:
        broken.write(b'{"a": ')
        broken.flush()
        got = run("report", "--trace=traces/gpu_generated/new_args_rank0.pt.trace.json.gz", "--trace=" + broken.name, "demo/step-1234")
    assert got.returncode == 3 and os.path.basename(broken.name).encode() in got.stderr and got.stdout


def check_terminal():
    try:
        main, other = pty.openpty()
    except OSError:
        return  # a machine without pseudo terminals
    with tempfile.TemporaryDirectory() as folder:

        def write():
            return subprocess.run([BINARY, "report", os.path.join(TESTDATA, "demo/step-1234/")], cwd=folder, stdout=other, stderr=subprocess.PIPE, check=False)

        page = os.path.join(folder, "step-1234.html")
        for _ in range(2):  # the second page replaces the first
            got = write()
            assert got.returncode == 0 and b"wrote step-1234.html" in got.stderr, got
            assert os.listdir(folder) == ["step-1234.html"]
        with open(page, "w") as file:
            file.write("a page of another program")
        got = write()
        assert got.returncode == 2 and b"is not a page of report" in got.stderr, got
        with open(page) as file:
            assert file.read() == "a page of another program"
        os.remove(page)
        os.mkfifo(page)
        assert write().returncode == 2
        os.close(other)
        os.close(main)


def check_protected():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.safetensors")
        with open(os.path.join(TESTDATA, "safetensors/aliases/model.safetensors"), "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(content)
        assert run("report", "-o", "html=" + path, path).returncode == 2
        with open(path, "rb") as file:
            assert file.read() == content


CHECKS = {
    "the template has at most 45 KiB, all its fields, and no way to run what a name says": check_template,
    "the policy allows the style and the script by their digests": check_policy,
    "a sound checkpoint: verdict, summary and cards are text": check_sound,
    "a broken checkpoint: findings with affected names and fixes are text": check_broken,
    "the script reads the documents of the commands": check_documents,
    "no directory above the last two is on the page": check_short_path,
    "401 hostile names make no markup": check_hostile,
    "two checkpoints make the page of a comparison": check_comparison,
    "what the pages of all broken checkpoints say is what the audit found": check_claims,
    "layers are counted, not experts": check_experts,
    "from_pretrained after an export is named only for its own names": check_exports,
    "what was not compared is followed by the command that compares it": check_expect,
    "10,050 tensors make a page of at most 1.5 MB": check_size,
    "notes of other commands are notes of the page": check_notes,
    "several runs: each has a section with its largest loss": check_runs,
    "two checkpoints that differ in a stored value": check_changed_values,
    "recordings alone, and beside a checkpoint": check_recordings,
    "what cannot be read is an error of the command": check_failures,
    "on a terminal the page goes to a file": check_terminal,
    "the page does not replace what it is about": check_protected,
}


def main():
    checks = {title: check for title, check in CHECKS.items() if check == check_claims or "--claims" not in sys.argv}
    print(f"1..{len(checks)}")
    for number, (title, check) in enumerate(checks.items(), 1):
        try:
            check()
            print(f"ok {number} - {title}")
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
            print(f"not ok {number} - {title}\n# {type(error).__name__}: {str(error)[:600]}")


main()
