#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is exported is loaded by transformers as the folder itself is, or, where the library cannot load that (shards of
FSDP or ZeRO, a distributed checkpoint), with no name missing and none left over. Each folder of the larger collection
that has a config.json is exported and loaded by the class that its configuration names.

Skipped without transformers. A folder that the library does not load, and that is none of FSDP or ZeRO, is skipped."""
import glob
import json
import os
import sys
import tempfile
import warnings

import oraclelib

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # a packaging.py is there
sys.modules.pop("packaging", None)
warnings.filterwarnings("ignore")
try:
    import torch
    import transformers
except ImportError:
    oraclelib.skip_all("no transformers")
transformers.logging.set_verbosity_error()
os.environ["HF_HUB_OFFLINE"] = "1"
# Folders in which nothing is wrong.
WHERE = ("complete/good/**", "loaders/*-good*/checkpoint", "trainer/**", "eco/hf/**")


def taken(folder):
    """({parameter: bytes}, names that lacked or were left over), or None and why it does not load."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as stream:
        names = json.load(stream).get("architectures") or ["AutoModel"]
    cls = getattr(transformers, names[0], None)
    if cls is None:
        return None, f"no class {names[0]}"
    try:
        model, told = cls.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    except Exception as error:  # whatever it is: the folder does not load
        return None, f"{type(error).__name__}: {str(error)[:80]}"
    missing = sorted(map(str, told["missing_keys"]))
    odd = missing + sorted(map(str, told["unexpected_keys"])) + sorted(map(str, told["mismatched_keys"]))
    # What is missing is new each time.
    state = {n: t for n, t in model.state_dict().items() if n not in missing and t.device.type == "cpu"}
    return {n: bytes(t.detach().contiguous().reshape(-1).view(torch.uint8).tolist()) if t.numel() else b""
            for n, t in state.items() if type(t) is torch.Tensor}, odd


def judge(args, tap, name, folder):
    before, odd = taken(folder)
    sharded = glob.glob(os.path.join(folder, "pytorch_model_fsdp*"))
    if os.path.exists(os.path.join(folder, "latest")):  # of DeepSpeed
        sharded.append(folder)
    if before is None and not sharded:
        return tap.skip(name, odd.replace("\n", " "))
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        run = oraclelib.run(args, "export", "-q", f"--with-config={folder}", "-o", out, sharded[0] if before is None else folder)
        if run.status == 2 and b"cannot be written" in run.err:
            return tap.skip(name, "the form cannot hold it")
        if run.status != 0:
            return tap.none(name, [run.tail])
        after, still = taken(out)
    problems = []
    if after is None:
        problems.append(still)
    elif before is None:
        oraclelib.same(problems, "names that lack or are left over", still, [])
    else:
        oraclelib.same(problems, "names that lack or are left over", sorted(set(still) - set(odd)), [])
        problems += [f"{n}: other bytes" for n in before if after.get(n) != before[n]]
    return tap.none(name, problems)


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    found = {f for pattern in WHERE for f in glob.glob(os.path.join(args.fixtures or os.devnull, pattern), recursive=True)}
    for folder in sorted(found):
        name = os.path.relpath(folder, args.fixtures)
        if os.path.exists(os.path.join(folder, "config.json")) and (args.only is None or args.only in name):
            judge(args, tap, name, folder)
    tap.done()


if __name__ == "__main__":
    main()
