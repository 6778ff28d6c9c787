#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each fix that is printed for a broken adapter is carried out on a copy, which PEFT then has to load with every tensor that
the whole one has. What only a person can do is counted. Skipped without peft; FSDP_PYTHONS may name a Python that has it."""
import collections
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import warnings

import oraclelib
import fresh_loads
from fresh_adapters import rewrite

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # a test here is called packaging


def whole_config(whole):
    with open(os.path.join(whole, "adapter_config.json"), encoding="utf-8") as stream:
        return json.load(stream)


def replaced(*names):
    return lambda copy, whole, _: [shutil.copy(os.path.join(whole, name), copy) for name in names]


def configured(change):
    """A change of the configuration, by what the whole one has and what the text says."""
    return lambda copy, whole, found: rewrite(copy, None, lambda config: change(config, whole_config(whole), found))


def renamed(change):
    return lambda copy, whole, found: rewrite(copy, lambda state: {change(name): tensor for name, tensor in state.items()})


def transposed(copy, whole, _):
    from safetensors.torch import load_file
    shapes = {name: tensor.shape for name, tensor in load_file(os.path.join(whole, "adapter_model.safetensors")).items()}
    rewrite(copy, lambda state: {name: tensor if tensor.shape == shapes[name] else tensor.T for name, tensor in state.items()})


WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
# how the text begins, what is done: with the copy, the whole adapter and what the expression found
CURES = [
    (r"set r to (\d+) in", configured(lambda config, _, found: config.update(r=int(found[1])))),
    (r"add (\S+) to target_modules", configured(lambda config, _, found: config["target_modules"].append(found[1]))),
    (r"set use_dora to true", configured(lambda config, *_: config.update(use_dora=True))),
    (r"set (?:it|num_virtual_tokens) to (\d+) in", configured(lambda config, _, found: config.update(num_virtual_tokens=int(found[1])))),
    (r"set trainable_token_indices to null", configured(lambda config, *_: config.update(trainable_token_indices=None))),
    (r"take the module out of modules_to_save", configured(lambda config, *_: config.update(modules_to_save=None))),
    (r"set target_modules to (\[.*\]) in", configured(lambda config, _, found: config.update(target_modules=json.loads(found[1].replace("'", '"'))))),
    (r"set target_modules to the modules", configured(lambda config, was, _: config.update(target_modules=was["target_modules"]))),
    (r"set peft_type in", configured(lambda config, was, _: config.update(peft_type=was["peft_type"]))),
    (r"load it into the base that", configured(lambda config, *_: config.update(base_model_name_or_path="../base"))),
    (r"save each of them transposed", transposed),
    (r'remove one "base_model.model."', renamed(lambda name: name.replace("base_model.model.", "", 1))),
    (r'insert "base_model.model." before', renamed(lambda name: "base_model.model." + name)),
    (r'insert "model." after', renamed(lambda name: name if "lm_head" in name else name.replace("base_model.model.", "base_model.model.model.", 1))),
    (r"copy adapter_config.json of this adapter", replaced(CONFIG)), (r"copy this file again|save again", replaced(WEIGHTS, CONFIG)),
    (r"put adapter_model.safetensors|download or copy the file again", replaced(WEIGHTS)),
    (r"move the one that is not meant", lambda copy, *_: os.remove(os.path.join(copy, "adapter_model.bin"))),
    (r"import ", lambda copy, whole, found: exec(found.string, {})),
]


def fixes(args, path, problems):
    doc = oraclelib.envelope(oraclelib.run(args, "audit", "--json", "--for=peft", path), problems, (0, 1, 2, 3))
    found = {reason["way_out"] for loader in doc["data"]["loaders"] for reason in loader["reasons"] if reason.get("way_out")}
    return found | {f["fix"] for f in doc["findings"] if f.get("fix") and f["severity"] in ("error", "warning")}


def carried_out(fix, copy, whole):
    """Whether there was something to do."""
    for begin, change in CURES:
        found = re.match(begin, fix)
        if found:
            change(copy, whole, found)
            return True
    return False


def main():
    args = oraclelib.arguments(__doc__)
    pythons = list(filter(None, os.environ.get("FSDP_PYTHONS", "").split(":")))
    if pythons:
        oraclelib.run_in_each(pythons)
    os.environ["HF_HUB_OFFLINE"] = "1"
    if importlib.util.find_spec("peft") is None:
        oraclelib.skip_all("no peft")
    warnings.filterwarnings("ignore")
    problems, counts, wholes = collections.defaultdict(list), collections.Counter(), {}
    with tempfile.TemporaryDirectory(prefix="cures-") as work:
        saves = fresh_loads.based_adapters(work)
        for save, (path, *_) in saves.items():
            whole = path.rpartition("-")[0]
            wholes[whole] = wholes.get(whole) or fresh_loads.adapted_state(whole)
            for fix in fixes(args, path, problems[save]):
                shutil.rmtree("copy", ignore_errors=True)
                shutil.copytree(path, "copy")
                if not carried_out(fix, "copy", whole):
                    counts[re.sub(r"\d+", "N", fix)] += 1
                    continue
                did = fresh_loads.verdict_of(lambda: fresh_loads.adapted_state("copy"), wholes[whole], exact=True)
                if did["verdict"] != "loads":
                    problems[save].append(f"{fix}: {did}")
        os.chdir("/")
    tap = oraclelib.Tap()
    for save, found in problems.items():
        tap.none(save, found)
    for fix, count in sorted(counts.items()):
        print(f"# {count} times not carried out: {fix}")
    tap.done()


if __name__ == "__main__":
    main()
