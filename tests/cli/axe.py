#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of report in a browser at three widths, light and dark: axe finds no violation, nothing is logged, nothing
but the page is requested, it does not scroll sideways, and no mark that turns the direction of text is shown raw.
Prints TAP.

Needs Chromium and Node.js, and takes axe-core and puppeteer-core by npm: skipped where one of them cannot be had.

axe.py BINARY
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

DATA = os.path.join(os.path.dirname(__file__), "..", "..", "testdata")
PICTURE = os.path.abspath(os.path.join(DATA, "..", "doc", "gallery", "ls.svg"))
PACKAGES = ("axe-core@4", "puppeteer-core@24")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# What stands in a name: markup, an end of an attribute, of a style and of a script, a control character.
HOSTILE = ("<img src=x onerror=alert(1)>", "\"' onload='x", "</style><b>", "</script><script>x()</script>", "a\u0007b\u202ec")

# What the test of the forms of numbers in C expects, the script of a page writes, too.
with open(os.path.join(os.path.dirname(__file__), "..", "unit", "test-escape.c"), encoding="utf-8") as source:
    NUMBERS = [[form, int(number), text] for form, number, text in re.findall(r'check_(bytes|elements)\((?:UINT64_C\()?(\d+)\)?, "([^"]*)"\)', source.read())]

# The first is the one that keys and clicks are tried on. What begins with "made/" is made here.
PAGES = {
    "deepspeed": ("report", "deepspeed/zero2-w2"),
    "report": ("report", "--trace=traces/gpu_generated", "demo/step-1234"),
    "missing": ("report", "made/run/step-1234"),
    "local": ("report", "fsdp1/local-w2-conv/checkpoint"),
    "many": ("report", "made/many.safetensors"),
    "values": ("report", "runs/dcp-half-written/run/step-10", "runs/dcp-half-written/run/step-20"),
    "recording": ("report", *(f"traces/gpu_generated/new_args_rank{rank}.pt.trace.json.gz" for rank in range(4))),
    "comparison": ("report", "complete/tensor-gone-llama/checkpoint", "hf/llama-sharded"),
    "adapter": ("report", "complete/lora-b-gone/checkpoint"),
    "report-broken": ("report", "broken/dcp-missing-metadata/checkpoint"),
    "report-odd": ("report", "dcp/odd-names/checkpoint"),
    "hostile": ("report", "made/hostile.safetensors"),
    "shares": ("report", "made/shares"),
}

# Ranks that a page calls missing. Rank 3 of the first owns no element, and its file is there.
MISSING = {"shares": ["rank 2"], "missing": ["rank 1"], "report": []}


# What axe.js does before it looks at all pages, in its order.
TRIED = ("keys, search, order and numbers", "the length of an interval of a recording, by pointer and by keys",
         "what changed, and a search for errors",
         "printed pages", "the page without a script", "columns of a picture of the gallery")


def give_up(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def write_tensors(path, names, metadata):
    head = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)}
    head["__metadata__"] = metadata
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + bytes(range(1, 5)) * len(names))


def make_inputs(folder):
    os.mkdir(folder)
    write_tensors(os.path.join(folder, "hostile.safetensors"), [f"layers.{i}.{name}" for i, name in enumerate(HOSTILE * 81)][:401], {name: name for name in HOSTILE})
    write_tensors(os.path.join(folder, "many.safetensors"),
                  [f"model.layers.{layer}.experts.{expert}.{name}.weight" for layer in range(50) for expert in range(100) for name in ("up", "down")], {})
    shutil.copytree(os.path.join(DATA, "demo", "step-1234"), os.path.join(folder, "run", "step-1234"))
    os.remove(os.path.join(folder, "run", "step-1234", "__1_0.distcp"))
    shutil.copytree(os.path.join(DATA, "dcp", "fsdp2-w4-small", "checkpoint"), os.path.join(folder, "shares"))
    os.remove(os.path.join(folder, "shares", "__2_0.distcp"))


def write_page(binary, name, words, folder):
    path = os.path.join(folder, name + ".html")
    command, *rest = [os.path.join(folder, w) if w.startswith("made/") else w for w in words]
    run = subprocess.run([binary, command, "-q", "-o", "html=" + path, *rest], cwd=DATA, capture_output=True, text=True)
    if not os.path.exists(path):
        raise AssertionError(f"{' '.join(words)}: {run.stderr}")
    return path


def main(binary):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or not shutil.which("node") or not shutil.which("npm"):
        give_up("needs Chromium, node and npm")
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *PACKAGES],
                             capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if got.returncode:
            give_up("npm could not fetch " + " and ".join(PACKAGES))
        make_inputs(os.path.join(folder, "made"))
        control = os.path.join(folder, "control.html")
        with open(control, "w") as file:
            file.write("<!doctype html><title>x</title><img src='data:,'><p style='width:2000px'>x")
        pages = [write_page(binary, name, words, folder) for name, words in PAGES.items()]
        shutil.copy(os.path.join(os.path.dirname(__file__), "axe.js"), folder)
        assert len(NUMBERS) >= 30, NUMBERS
        run = subprocess.run(["node", os.path.join(folder, "axe.js"), json.dumps(NUMBERS), browser, PICTURE, control, *pages], capture_output=True, text=True)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        if not rows:
            give_up("the browser does not run here: " + run.stderr.strip()[:200].replace("\n", " "))
    print(f"1..{len(PAGES) + 7}")
    failed = False
    tried = [row["faults"] for row in rows if "faults" in row] + [["did not run"]] * len(TRIED)
    for number, what in enumerate(TRIED):
        failed |= tried[number] != []
        print("ok" if not tried[number] else "not ok", len(PAGES) + 2 + number, "-", what, *tried[number])
    for number, path in enumerate([control, *pages], 1):
        seen = [row for row in rows if row["page"] == path and "faults" not in row]
        name = os.path.basename(path).removesuffix(".html")
        faults = [row for row in seen if row["violations"] or row["messages"] or row["requests"] != 1 or row["overflow"] or row["raw"]
                  or row["missing"] != MISSING.get(name, row["missing"])]
        fine = len(seen) == 6 and not faults
        if path == control:
            # That a violation, and a page that is too wide, would be seen.
            fine = len(seen) == 6 and all("image-alt" in dict(row["violations"]) and row["overflow"] for row in seen)
        failed |= not fine
        print("ok" if fine else "not ok", number, "-", name)
        for row in [] if fine else faults or seen:
            print("#", json.dumps(row)[:600])
    return failed


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
