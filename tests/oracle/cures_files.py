#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each form of fix that `audit` prints for a sample is carried out on a copy, if it is a command or an edit of files. Then the
copy has to be free of the finding, and the library of the fix has to load it. The last lines have the fixes that were not
carried out. Skipped without transformers; FSDP_PYTHONS may name a Python that has it."""
import collections
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings

import oraclelib

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # a test here is called packaging
OF_EACH = 2  # samples for each form
OTHERS = ("attack", "attack3", "gen", "hostile", "recordings3", "traces", "x")
WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|ckpt|distcp)$|^\.metadata$|^(adapter_)?config\.json$")


class NotLoaded(Exception):
    """What a library says."""


def samples(roots):
    """Directories with weights, and single files of torch.load."""
    for root in roots:
        for path, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in ("expected", *OTHERS))
            if any(WEIGHTS.search(f) for f in files):
                yield path


def form(text):
    text = re.sub(r"/\S+", "PATH", text)
    text = re.sub(r"(\w+\.){2,}\w+|\S+\.(safetensors|bin|pt|json)\b", "NAME", text)
    return re.sub(r"\d+", "N", text)


# ---- what a fix says, done to a copy

def edited(copy, name, change):
    path = os.path.join(copy, name)
    with open(path, encoding="utf-8") as stream:
        document = json.load(stream)
    change(document)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(document, stream)


def stored(folder):
    """Each file of weights with what it contains."""
    import torch
    from safetensors.torch import load_file
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            yield name, load_file(os.path.join(folder, name))
        elif re.search(r"model.*\.bin$", name):
            yield name, torch.load(os.path.join(folder, name), weights_only=False)


def rewritten(copy, change):
    import torch
    from safetensors.torch import save_file
    for name, state in list(stored(copy)):
        path = os.path.join(copy, name)
        if name.endswith(".safetensors"):
            save_file({n: t.clone().contiguous() for n, t in change(state).items()}, path, {"format": "pt"})
        else:
            torch.save(change(state), path)


def renamed(change):
    return lambda args, copy, found: rewritten(copy, lambda state: {change(name, found): tensor for name, tensor in state.items()})


def set_to(name):
    def change(args, copy, found):
        value = json.loads(found[2]) if re.fullmatch(r"\d+|true|false", found[2]) else found[2]
        edited(copy, name, lambda document: document.update({found[1]: value}))
    return change


def command(args, copy, found):
    words = [args.bin if word == "fsdp-inspect" else word for word in shlex.split(found[1])]
    out = copy + "-out"
    if words[1:2] == ["export"] and "--index-only" not in words and copy not in words:
        words.append(copy)
    if words[0] == args.bin and "-o" not in words and "--index-only" not in words:
        words[2:2] = ["-o", out]
    words = [out if word == "OUT" else word for word in words]
    run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=copy)
    if run.returncode != 0:
        raise NotLoaded(f"status {run.returncode}: {run.stderr.strip()[-200:]}")
    if os.path.isdir(out):
        shutil.rmtree(copy)
        shutil.move(out, copy)


def shell(args, copy, found):
    """A line of two commands."""
    line = found[1].replace("fsdp-inspect ", shlex.quote(args.bin) + " ")
    run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, cwd=copy)
    if run.returncode != 0:
        raise NotLoaded(f"status {run.returncode}: {run.stderr.strip()[-200:]}")


def trusted(copy, name):
    """torch.load with all classes; a module that is not installed here is no answer."""
    import torch
    path = os.path.join(copy, name or "")
    if not re.search(r"\.(bin|pt|pth|ckpt|pkl)$", path) or not os.path.isfile(path):
        raise FileNotFoundError(f"{name} is not a file of torch.load")
    try:
        torch.load(path, weights_only=False, map_location="cpu")
    except (ImportError, AttributeError) as error:
        raise FileNotFoundError(str(error)) from error
    except BaseException as error:
        raise NotLoaded(f"{type(error).__name__}: {error}"[:200]) from error


GROUP = """import sys, torch, torch.distributed as group
group.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=int(sys.argv[3]))
torch.load(sys.argv[4], weights_only=False)"""


def in_group(args, copy, found):
    """A rank of the save loads each file."""
    files = sorted(name for name in os.listdir(copy) if re.search(r"\d+\.pt$", name))
    ranks = [subprocess.Popen([sys.executable, "-c", GROUP, copy + "-store", str(rank), str(len(files)), os.path.join(copy, name)],
                              stderr=subprocess.PIPE, text=True) for rank, name in enumerate(files)]
    told = [rank.communicate(timeout=120)[1] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise NotLoaded("".join(told)[-200:])


def moved(args, copy, found):
    name = found[1]
    if name == "the index":
        name = next(n for n in sorted(os.listdir(copy)) if n.endswith(".index.json"))
    os.remove(os.path.join(copy, name))
    if found.re.groups > 1:
        command(args, copy, re.match(r"()", found[2]) and re.match(r"(.*)", found[2]))


def copied_config(args, copy, found):
    command(args, copy, found)
    if not os.path.exists(os.path.join(copy, "config.json")):
        raise FileNotFoundError("config.json")


def inner(args, copy, found):
    def change(state):
        return next(value for value in state.values() if isinstance(value, dict))
    rewritten(copy, change)


def transposed(args, copy, found):
    rewritten(copy, lambda state: {n: t.T if t.dim() == 2 else t for n, t in state.items()})


def targets(args, copy, found):
    names = {re.search(r"\.(\w+)\.lora_\w+", name)[1] for _, state in stored(copy) for name in state}
    edited(copy, "adapter_config.json", lambda document: document.update(target_modules=sorted(names)))


def with_globals(copy, program, name):
    """The text is a program; what follows it here reads the file that it was printed for."""
    path = os.path.join(copy, name or "")
    if re.search(r"\.(bin|pt|pth|ckpt)$", path) and os.path.isfile(path):
        program = f"{program}\nimport sys\nimport torch as t\nt.load(sys.argv[1], weights_only=True)"
        run = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
        if "ModuleNotFoundError" in run.stderr:
            raise FileNotFoundError(run.stderr.strip().splitlines()[-1])
        if run.returncode != 0:
            raise NotLoaded(run.stderr.strip()[-300:])


# how the text begins, what is done
DONE = [
    (r"(mv -n .* && fsdp-inspect .*)$", shell),
    (r"to make it smaller: (fsdp-inspect export .*)$", command), (r"torch\.load\(\.\.\., weights_only=False\)", trusted),
    (r"call init_process_group with the ranks of the save", in_group),
    (r"set (\w+) in config\.json to (\d+)", set_to("config.json")),
    (r"(fsdp-inspect export (?!.*--map).*)$", command), (r"run (fsdp-inspect [^,]*), and put", copied_config),
    (r"run (accelerate merge-weights .*)$", lambda args, copy, found: command(args, copy, re.match(r"(.*)", os.path.join(os.path.dirname(sys.executable), found[1])))),
    (r"move (the index) elsewhere, then run: (.*)$", moved), (r"move (\S+\.json) away", moved),
    (r"rename (\S+) to (\S+)$", lambda args, copy, found: os.rename(os.path.join(copy, found[1]), os.path.join(copy, found[2]))),
    (r"rename the tensors: without the prefix (\S+)$", renamed(lambda name, found: name.removeprefix(found[1]))),
    (r"put (\S+) before the names that the model does not have$", renamed(lambda name, found: name if name.startswith(("lm_head", found[1])) else found[1] + name)),
    (r'.*remove "([^"]*)" from the names', renamed(lambda name, found: name.replace(found[1], ""))),
    (r'remove one "([^"]*)" from the names', renamed(lambda name, found: name.replace(found[1], "", 1))),
    (r'insert "([^"]*)" (?:before|at the start of) all names', renamed(lambda name, found: found[1] + name)),
    (r'insert "([^"]*)" after "([^"]*)" in', renamed(lambda name, found: name if "lm_head" in name else name.replace(found[2], found[2] + found[1], 1))),
    (r"save \S+, or run (fsdp-inspect export \S+)", command),
    (r"set (\w+) to (\w+) in config\.json", set_to("config.json")), (r"set (\w+) to (\d+) in adapter_config\.json", set_to("adapter_config.json")),
    (r"set (tie_word_embeddings) to (false)", set_to("config.json")),
    (r"set target_modules to the modules", targets),
    (r"add (\S+) to target_modules", lambda args, copy, found: edited(copy, "adapter_config.json", lambda config: config["target_modules"].append(found[1]))),
    (r"save only the inner dict", inner), (r"save only the dict under", inner), (r"save each of them transposed", transposed),
    (r"import torch, ", with_globals),
]


# ---- what the libraries load

def from_pretrained(copy):
    import transformers
    with open(os.path.join(copy, "config.json"), encoding="utf-8") as stream:
        classes = json.load(stream).get("architectures") or ["AutoModelForCausalLM"]
    cls = getattr(transformers, classes[0], None)
    if cls is None:
        return
    try:
        report = cls.from_pretrained(copy, output_loading_info=True)[1]
    except BaseException as error:  # whatever it is, that is the answer
        raise NotLoaded(f"{type(error).__name__}: {error}"[:200]) from error
    if report["missing_keys"] or report["mismatched_keys"]:
        raise NotLoaded(f"missing: {sorted(report['missing_keys'])[:2]}, of other shapes: {sorted(report['mismatched_keys'])[:2]}")


def from_base(copy, base):
    import peft
    import transformers
    if not os.path.isdir(base):
        return
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            peft.PeftModel.from_pretrained(model, copy)
    except BaseException as error:
        raise NotLoaded(f"{type(error).__name__}: {error}"[:200]) from error
    found = [str(warning.message) for warning in told if "missing adapter keys" in str(warning.message)]
    if found:
        raise NotLoaded(found[0][:200])


def audit(args, path, options=()):
    run = subprocess.run([args.bin, "audit", "--json", *options, path], capture_output=True, check=False)
    document = json.loads(run.stdout or b"{}")
    told = [(f["rule"], f["fix"], f.get("file")) for f in document.get("findings", []) if f.get("fix")]
    for loader in (document.get("data") or {}).get("loaders", []):
        told += [(loader["loader"] + " " + reason["code"], reason["way_out"], None) for reason in loader["reasons"] if reason.get("way_out")]
    return told


def attempt(args, path, rule, fix, file, change, found):
    """What is wrong after the fix, or None."""
    with tempfile.TemporaryDirectory(prefix="cures-") as work:
        copy = os.path.join(work, "copy")
        shutil.copytree(path, copy)
        for up in ("base",):
            if os.path.isdir(os.path.join(path, "..", up)):
                shutil.copytree(os.path.join(path, "..", up), os.path.join(work, up))
        try:
            if change is with_globals:
                return with_globals(copy, fix, file)
            if change is trusted:
                return trusted(copy, file)
            if change is in_group:
                return in_group(args, copy, found)
            change(args, copy, re.match(found.re.pattern, found.string.replace(path, copy)))
            left = [told for told in audit(args, copy, () if " " not in rule else (f"--for={rule.split()[0]}",)) if told[0] == rule]
            if left:
                return f"still: {left[0][1]}"
            if os.path.exists(os.path.join(copy, "adapter_config.json")):
                from_base(copy, os.path.join(work, "base"))
            elif os.path.exists(os.path.join(copy, "config.json")):
                from_pretrained(copy)
        except NotLoaded as error:
            return str(error)
        except FileNotFoundError as error:
            return f"skipped: {error}"
    return None


def main():
    args = oraclelib.arguments(__doc__)
    pythons = list(filter(None, os.environ.get("FSDP_PYTHONS", "").split(":")))
    if pythons:
        oraclelib.run_in_each(pythons)
    os.environ["HF_HUB_OFFLINE"] = "1"
    if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("peft") is None:
        oraclelib.skip_all("no transformers and peft")
    warnings.filterwarnings("ignore")
    tap, tried, left = oraclelib.Tap(), collections.Counter(), collections.Counter()
    for path in samples(args.roots):
        if args.only is not None and args.only not in path:
            continue
        for rule, fix, file in audit(args, path):
            kind = f"{rule}: {form(fix)}"
            change, found = next(((change, re.match(begin, fix)) for begin, change in DONE if re.match(begin, fix)), (None, None))
            if change is None:
                left[kind] += 1
            elif tried[kind] < OF_EACH:
                problem = attempt(args, path, rule, fix, file, change, found)
                tried[kind] += 1
                if problem is not None and problem.startswith("skipped"):
                    tap.skip(f"{kind}: {os.path.relpath(path, args.roots[-1])}", problem)
                else:
                    tap.none(f"{kind}: {os.path.relpath(path, args.roots[-1])}", [problem] if problem else [])
    for kind, count in sorted(left.items()):
        print(f"# {count} times not carried out: {kind}")
    tap.done()


if __name__ == "__main__":
    main()
