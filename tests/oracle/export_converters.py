# SPDX-License-Identifier: Apache-2.0
"""What is exported is what the frameworks' own converters make of the same files, tensor by tensor: `accelerate
merge-weights` of shards of FSDP, `zero_to_fp32.py` of ZeRO, verl's merger of its rank files. PyTorch's is in
export_torch.py.

DeepSpeed's converter joins what was saved with `round_robin_gradients` in another order than it was cut; there the
truth decides. A converter that is not installed, or refuses a sample, is skipped for it.
"""
import contextlib
import glob
import hashlib
import io
import json
import os
import shutil
import tempfile

import oraclelib
from export_torch import raw, torch
from export import digests_told, read_folder  # the first leaves this folder out of the path

SHARDS = ("eco/accelerate/*", "trainer/*/checkpoint-4", "loaders/*/checkpoint")
ZERO = ("eco/deepspeed/*", "eco/cross/*deepspeed*", "trainer/zero*/checkpoint-4", "loaders/ds-*/checkpoint")
VERL = "eco/rl-and-serving/verl-fsdp2-w2/global_step_20/actor"
WRONG = "roundrobin"  # samples that DeepSpeed joins in another order


def merged_by_accelerate(path, work):
    from accelerate.utils import merge_fsdp_weights  # all that the command does
    from safetensors.torch import load_file
    target = os.path.join(work, "theirs")
    merge_fsdp_weights(path, target)
    return load_file(os.path.join(target, "model.safetensors"))


def merged_by_deepspeed(path, work):
    from deepspeed.utils import zero_to_fp32  # which is copied into the folder as zero_to_fp32.py
    return zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(path)


def merged_by_verl(path, work):
    from verl.model_merger.base_model_merger import ModelMergerConfig
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger
    from safetensors.torch import load_file
    config, target = os.path.join(work, "config"), os.path.join(work, "theirs")
    shutil.copytree(os.path.join(path, "huggingface"), config)
    told = oraclelib.load(os.path.join(config, "config.json"))
    told.setdefault("architectures", ["LlamaForCausalLM"])  # it asks for the class, which a trainer writes
    with open(os.path.join(config, "config.json"), "w", encoding="utf-8") as out:
        json.dump(told, out)
    merger = FSDPModelMerger(ModelMergerConfig(operation="merge", backend="fsdp", local_dir=path, target_dir=target,
                                               hf_model_config_path=config))
    with contextlib.suppress(ValueError):  # the sample has no tokenizer, which is copied last
        merger.merge_and_save()
    return load_file(os.path.join(target, "model.safetensors"))


def compare(theirs, told, tensors, problems):
    """Every tensor of theirs; how many there were."""
    ours = {t["name"]: t for t in told}
    oraclelib.same(problems, "names that only they have", sorted(set(theirs) - set(ours)), [])
    for name in sorted(set(theirs) & set(ours)):
        live = theirs[name]
        oraclelib.same(problems, f"{name}: dtype", ours[name]["dtype"], str(live.dtype).removeprefix("torch."))
        oraclelib.same(problems, f"{name}: shape", ours[name]["shape"], list(live.shape))
        if tensors[name][1] != raw(live):
            problems.append(f"{name}: other bytes than the converter gives")
    return len(set(theirs) & set(ours))


def by_truth(args, path, told, tensors, problems):
    truth = oraclelib.load(os.path.join(path, "expected", "truth.json"))
    known = {t["fqn"]: t["sha256"] for t in truth["tensors"] if "sha256" in t} | digests_told(truth, False)
    judged = [t for t in told if t["source"] in known]
    problems += [f"{t['name']}: other bytes than PyTorch had" for t in judged
                 if hashlib.sha256(tensors[t["name"]][1]).hexdigest() != known[t["source"]]]
    return len(judged)


def judge(args, tap, name, path, convert, *options):
    problems = []
    with tempfile.TemporaryDirectory() as work:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                theirs = convert(path, work)
        except (Exception, torch.distributed.checkpoint.CheckpointException) as error:  # not an Exception
            return tap.skip(name, f"{type(error).__name__}: {str(error).splitlines()[:1]}")
        folder = os.path.join(work, "out")
        run = oraclelib.run(args, "export", "--json", "--tie=keep", *options, "-o", folder, path)
        doc = oraclelib.envelope(run, problems)
        if doc is None:
            return tap.none(name, problems)
        tensors, _ = read_folder(folder, problems)
        told = doc["data"]["tensors"]
        if WRONG in name:
            judged = by_truth(args, path, told, tensors, problems)
        else:
            judged = compare(theirs, told, tensors, problems)
        if judged == 0:
            problems.append("no tensor was compared")
    return tap.none(f"{name} ({judged})", problems)


def folders(args, patterns, holds):
    """Samples of the larger collection in which there is such a file."""
    found = {f for p in patterns for f in glob.glob(os.path.join(args.fixtures or os.devnull, p))}
    for folder in sorted(found):
        name = os.path.relpath(folder, args.fixtures)
        if glob.glob(os.path.join(folder, holds)) and (args.only is None or args.only in name):
            yield name, folder


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    for name, folder in folders(args, SHARDS, "pytorch_model_fsdp_0/.metadata"):
        judge(args, tap, f"accelerate: {name}", os.path.join(folder, "pytorch_model_fsdp_0"), merged_by_accelerate)
    for name, folder in folders(args, ZERO, "zero_to_fp32.py"):
        judge(args, tap, f"DeepSpeed: {name}", folder, merged_by_deepspeed)
    for name, folder in folders(args, [VERL], "fsdp_config.json"):
        judge(args, tap, f"verl: {name}", folder, merged_by_verl, "--cast=bfloat16")
    tap.done()


if __name__ == "__main__":
    main()
