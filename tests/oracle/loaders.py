#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What real loaders did with checkpoints of one property each, against what `audit --for` says of them.

Each run of a loader is a row of the matrix: the verdicts have to agree, and the files that were read. A row whose caller had another model is asked with the names and shapes of that one, and what else the
caller chose is told with `--loader-option`. What no file can tell may be called loadable. Where
two sets of weights differ, saying so is right whichever of them is the old one.
"""
import collections
import glob
import json
import math
import os
import re
import tempfile

from oraclelib import Tap, arguments, envelope, load, run

# Releases of libraries beside the newest that rules are known of.
OLDER = {"0.16.1": "0.16", "2.13.0": "2.13", "4.57.6": "4.57", "5.23.0": "5.23"}


# Choices of a caller, as the rows have them -> as --loader-option has them.
TOLD = {"sdt": "state_dict_type={}", "tag": "tag={}", "groups": "param_groups={}", "strict": "strict={}",
        "planner": "allow_partial_load=true", "nonstrict": "load_module_strict=false", "module_only": "load_module_only=true",
        "no_optim": "load_optimizer_states=false", "universal": "load_universal=true", "allow": "allow_shape_mismatch=true",
        "deepspeed": "deepspeed=false"}
# FSDP 1 or 2 and the class of the optimizer change no answer of load_state; the matrix has a row of each that says so.
SILENT = {"accelerate": ("call", "fsdp", "opt"), "dcp": ("per_rank",), "peft": ("call",), "hf": ("call",)}


def stored(root, case):
    """Name -> [dtype, shape] of what the case was made of."""
    return {name: facts[:2] for name, facts in load(os.path.join(root, case, "expected", "case.json"))["intended"].items()}


def resized(tensors, sizes):
    return {name: [dtype, [sizes.get(n, n) for n in shape]] for name, (dtype, shape) in tensors.items()}


def net_of(root, row, net):
    """The small model of the cases, with as many blocks and as wide as the caller's."""
    facts = load(os.path.join(root, row["case"], "expected", "case.json"))["facts"]
    was = (facts.get("setup") or facts["engine"])["net"]
    tensors = resized(stored(root, row["case"]), {was["h"]: net["h"]})
    last = f"blocks.{was['n'] - 1}."
    return tensors | {name.replace(last, f"blocks.{i}."): facts for i in range(was["n"], net["n"])
                      for name, facts in tensors.items() if name.startswith(last)}


def megatron_of(listed, given):
    """Megatron's model in the names that it stores, of other sizes, with a tensor more or less."""
    tensors = {}
    for name, (dtype, shape) in listed.items():
        if "L" in given and name.startswith("decoder.layers."):
            shape = [given["L"], *shape[1:]]
        if "V" in given and shape[0] == 24 and "layers" not in name:
            shape = [given["V"], *shape[1:]]
        if name not in given.get("skip", ()):
            tensors[name] = [dtype, shape]
    return tensors | ({"adapter.weight": ["float32", [8]]} if given.get("add") else {})


def base_of(listed, given):
    """The modules of a base model that an adapter of two layers is put on."""
    times = given["base_mk"].get("hidden_size", 16) // 16
    tensors = {}
    for name, (dtype, shape) in listed.items():
        module = name.removeprefix("base_model.model.").rpartition(".lora_")[0]
        out, width = tensors.setdefault(f"{module}.weight", ["float32", [0, 0]])[1]
        tensors[f"{module}.weight"][1] = [out, shape[1] * times] if ".lora_A." in name else [shape[0] * times, width]
    for i in range(2, given["base_mk"].get("num_hidden_layers", 2)):
        tensors |= {name.replace("layers.1.", f"layers.{i}."): facts for name, facts in tensors.items() if "layers.1." in name}
    return tensors


def listed(args, root, case):
    doc = envelope(run(args, "ls", "--json", "--raw", os.path.join(root, case, "checkpoint")), [], (0,))
    return {t["name"]: [t["dtype"], t["shape"]] for t in doc["data"]["tensors"]}


def model_of(args, root, row, given):
    """Name -> [dtype, shape] of the model that the caller had; None: these choices are about something else."""
    if set(given) == {"net"}:
        return net_of(root, row, given["net"])
    if row["loader"] == "megatron" and given and set(given) <= {"L", "V", "add", "skip"}:
        return megatron_of(listed(args, root, row["case"]), given)
    if row["loader"] == "megatron" and set(given) == {"homo"}:
        return listed(args, root, "meg-gpt-good")
    if set(given) == {"base_mk"}:
        return base_of(listed(args, root, row["case"]), given)
    if set(given) == {"values"}:
        expected = load(os.path.join(root, row["case"], "expected", "expect.json"))
        return {name: [facts["dtype"], facts["shape"]] for name, facts in expected.items()} | dict.fromkeys(given["values"], [None, None])
    return None


def told(row, given):
    """Takes out of `given` what --loader-option says, and returns that."""
    found = [TOLD[key].format(given.pop(key)) for key in list(given) if key in TOLD]
    if "cfg" in given:  # the whole configuration: what it does not have is off
        config = given.pop("cfg")
        found += [f"zero_stage={config['zero_optimization']['stage']}", f"bf16={'true' if 'bf16' in config else 'false'}"]
    if row["loader"] == "trainer" and "fsdp" in given:
        given.pop("fsdp")
        found.append("fsdp=false")
    return [f"--loader-option={option}" for option in found]


def options_of(args, root, row):
    """Options of the command for a row, and the model that the caller had; None: a choice that has no option here."""
    given = {key: value for key, value in (row.get("options") or {}).items() if key not in SILENT.get(row["loader"], ())}
    found = [f"--for={row['loader']}", f"--world={row['world']}", "--data", *told(row, given)]
    release = row["version"].partition("+")[0]
    if release in OLDER:
        found.append(f"--loader-version={OLDER[release]}")
    if not given:
        return found, None
    model = model_of(args, root, row, given)
    return (found, model) if model is not None else (None, None)


# What Python prints when it raises: refusals have words of the program's own.
RAISED = re.compile(r"\b\w*(Error|Exception|Warning)\b|Errno|Traceback|object has no attribute")


def spoken(answer):
    """Problems of the reasons: each has a code, one plain sentence and the release that was tried."""
    reasons = answer["reasons"] if answer["version"] else []
    return [f"a reason without its own words: {reason}" for reason in reasons
            if not reason["message"] or RAISED.search(reason["message"]) or not re.fullmatch(r"[a-z-]+", reason["code"])] + \
        [f"{answer['verdict']} without a reason"] * (answer["verdict"] != "loads" and not reasons)


def check(args, root, row, options, model):
    """Problems, and the verdict that was given."""
    problems = []
    base = os.path.join(root, row["case"])
    path = os.path.join(base, row.get("target") or "checkpoint")
    expect = os.path.join(base, "expected", "expect.json")
    with tempfile.TemporaryDirectory() as folder:
        if model is not None:
            expect = os.path.join(folder, "expect.json")
            with open(expect, "w", encoding="utf-8") as f:
                json.dump({name: {"dtype": dtype, "shape": shape} if dtype else {} for name, (dtype, shape) in model.items()}, f)
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
    problems += spoken(answer)
    allowed = [row["verdict"], *row.get("also", [])]
    if row.get("undetectable"):
        allowed.append("loads")
    if row["loader"] == "trainer" and "-stale-" in row["case"]:
        allowed.append("differs")
    if row["loader"] == "peft" and "base-model" in (codes := {r["code"] for r in answer["reasons"]}) and codes <= {"base-model", "ignored"}:
        allowed.append("not_judged")  # the base is a name on the hub, and the row compares with none
    if verdict not in allowed:
        if not (verdict == "not_judged" and (row.get("optional") or row.get("reference"))):
            problems.append(f"verdict {verdict}, expected {allowed}: {answer['reasons']}")
        return problems, verdict
    if verdict not in ("refuses", "not_judged") and answer["took"] != row.get("took", answer["took"]):
        problems.append(f"took {answer['took']}, expected {row['took']}")
    return problems, verdict


# Of another program: tensors are packed under keys that transformers does not know; 5.23 was seen to refuse it.
PACKED = ("mlx-llama",)
# Whose tensors the program knows from their configuration.
KNOWN = ("bert", "gemma2", "gpt2", "llama", "mistral", "mixtral", "olmo2", "phi3", "qwen2", "qwen3", "t5", "vit")


def check_good(args, tap):
    """Folders in which nothing is wrong load, or it is not known."""
    root = os.path.join(args.fixtures or os.devnull, "complete", "good")
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        path, problems = os.path.join(root, name, "checkpoint"), []
        if not os.path.exists(os.path.join(path, "config.json")) or (args.only and args.only not in name):
            continue
        doc = envelope(run(args, "audit", "--json", "--for=hf", "--data", path), problems, (0, 1, 2, 3))
        for answer in doc["data"]["loaders"] if doc else ():
            allowed = ("refuses",) if name in PACKED else ("loads",) if name in KNOWN else ("loads", "not_judged")
            if answer["verdict"] not in allowed:
                problems.append(f"verdict {answer['verdict']}: {answer['reasons']}")
        tap.none(f"hf complete/good/{name}", problems)


# PyTorch gives back what is not all that was saved, and says nothing.
SILENT_GAPS = ("dcp-chunk-gap", "dcp-chunk-overlap", "dcp-range-overlap")


def check_broken(args, tap):
    """What PyTorch did with damaged folders of DCP when it was asked for all of them."""
    root = os.path.join(args.fixtures or os.devnull, "broken")
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        problems = []
        if not name.startswith("dcp-") or (args.only and args.only not in name):
            continue
        said = load(os.path.join(root, name, "expected", "defect.json"))["torch_2_13"]
        doc = envelope(run(args, "audit", "--json", "--for=dcp", os.path.join(root, name, "checkpoint")), problems, (0, 1, 2, 3))
        answers = doc["data"].get("loaders", []) if doc else []
        # A folder of which nothing can be read has no answers.
        for answer in answers:
            allowed = ("refuses",) if said.startswith("raises") else ("differs", "loads") if name in SILENT_GAPS else ("loads",)
            if answer["verdict"] not in allowed:
                problems.append(f"verdict {answer['verdict']}, PyTorch {said}: {answer['reasons']}")
        tap.none(f"dcp broken/{name}", problems)


def write_model(folder, config, tensors):
    """A model of zeros, as save_pretrained lays it down."""
    header, end = {}, 0
    for name, shape in tensors.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + bytes(end))


def missing_of(args, loader, release, folder, problems):
    """What the loader misses in a model; None: it says something else."""
    doc = envelope(run(args, "audit", "--json", f"--for={loader}", f"--loader-version={release}", "--data", folder), problems, (0, 1, 2, 3))
    answer = doc["data"]["loaders"][0] if doc else {"verdict": "none"}
    if answer["verdict"] == "loads":
        return []
    if answer["verdict"] == "differs" and [r["code"] for r in answer["reasons"]] == ["missing-tensor"]:
        return sorted(answer["reasons"][0]["names"])
    problems.append(f"{answer['verdict']}: {answer.get('reasons')}")
    return None


def check_models(args, tap):
    """Models of which transformers was seen to load the whole, and to miss what it lacks. Under other names of what is tied
    accelerate was seen to find the same."""
    for root in args.roots:
        for path in sorted(glob.glob(os.path.join(root, "models", "*.json"))):
            sample, name = load(path), os.path.basename(path).removesuffix(".json")
            for at, row in enumerate(sample["runs"] if not args.only or args.only in name else ()):
                tensors, problems = sample["tensors"] | row["with"], []
                with tempfile.TemporaryDirectory() as folder:
                    write_model(folder, sample["config"], {n: s for n, s in tensors.items() if n not in row["without"]})
                    for loader, release in sample["libraries"].items() if row["with"] else (("hf", sample["libraries"]["hf"]),):
                        missing = missing_of(args, loader, release, folder, problems)
                        if missing is not None and missing != row["missing"]:
                            problems.append(f"{loader}: missing {missing}, expected {row['missing']}")
                tap.none(f"models/{name} {at}", problems)


def main():
    args = arguments(__doc__)
    tap = Tap()
    root = os.path.join(args.fixtures, "loaders") if args.fixtures else None
    rows = load(os.path.join(root, "matrix.json")) if root and os.path.exists(os.path.join(root, "matrix.json")) else []
    counted = collections.Counter()
    for row in rows:
        name = f"{row['loader']} {row['version']} {row['case']} w{row['world']}"
        if args.only and args.only not in name:
            continue
        options, model = options_of(args, root, row)
        if options is None:
            counted["left out"] += 1
            continue
        problems, verdict = check(args, root, row, options, model)
        counted["agree" if not problems else "disagree"] += 1
        counted[f"{row['loader']} not judged"] += verdict == "not_judged"
        tap.none(name, problems)
    check_good(args, tap)
    check_broken(args, tap)
    check_models(args, tap)
    print("# " + ", ".join(f"{k} {v}" for k, v in sorted(counted.items()) if v))
    tap.done()


if __name__ == "__main__":
    main()
