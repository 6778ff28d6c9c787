#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Defects made on sound samples, and the rule that tells each of them.

A row is a sample, what is done to a copy of it (shell commands of few words: rm, write, cut,
copy), and the one rule above a note that has to be told, as `info` or as the command that the
row names tells it. Of the sample itself, untouched, it must not be told.
"""
import glob
import os
import shutil
import tempfile

from oraclelib import Tap, arguments, copy_tree, envelope, in_parallel, run, skip_all

DS = "eco/deepspeed/"
# sample, edits, rules and severities
ROWS = [
    (DS + "zero2-bf16-w2", "rm global_step2/mp_rank_00_model_states.pt", "FI1070 error"),
    (DS + "zero1-fp32-w2", "rm global_step2/*optim*", "FI1070 error"),
    (DS + "zero3-fp32-w2", "rm global_step2/zero_pp_rank_1_mp_rank_00_model_states.pt", "FI1070 error"),
    (DS + "zero3-fp32-w2", "rm global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", "FI1008 error"),
    (DS + "zero2-bf16-w2", "rm latest", "FI1001 warning"),
    (DS + "zero2-bf16-w2", "write latest global_step7", "FI1011 error"),
    (DS + "universal-from-zero2-bf16-w2", "rm */zero/optimizer_state.pt", "FI1001 error"),
    (DS + "universal-from-zero2-bf16-w2", "rm */zero/embed.weight/exp_avg.pt", "FI1001 error"),
    (DS + "universal-from-zero3-fp32-w2", "rm */zero_pp_rank_1_mp_rank_00_model_states.pt", "FI1070 warning"),
    # The parts of one save in another: other lengths under the same names.
    (DS + "zero1-fp32-w2",
     "copy ../../cross/model-a-deepspeed-zero2-w2/*/zero_pp_rank_1_mp_rank_00_optim_states.pt "
     "global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", "FI1071 error"),
    (DS + "zero3-fp32-w2",
     "copy ../zero3-bf16-subgroups-w2/global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt "
     "global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", "FI1071 error"),
]

MEGATRON = "eco/megatron/"
ROWS += [
    (MEGATRON + "torch-dist-w2", "rm */common.pt", "FI1001 error"),
    (MEGATRON + "torch-dist-w2", "cut */metadata.json 50", "FI1004 error"),
    (MEGATRON + "torch-dist-w2", "rm */metadata.json", "FI1003 error"),
    (MEGATRON + "torch-dist-w2", "write iter_0000010/integrity.json {\"files\": {\"gone.pt\": \"00\"}}", "FI1073 error"),
    (MEGATRON + "legacy-tp2-pp2", "rm */mp_rank_01_001", "FI1073 error"),
    (MEGATRON + "legacy-tp2-pp2", "write latest_checkpointed_iteration.txt 7", "FI1011 error"),
    ("eco/accelerate/fsdp1-sharded-w2", "rm random_states_1.pkl", "FI1008 note"),
    ("eco/accelerate/fsdp1-local-w2", "rm pytorch_model_fsdp_rank1.bin", "FI1008 error"),
    (DS + "universal-from-zero2-bf16-w2", "cut */zero/optimizer_state.pt 900", "FI1040 error", "audit"),
    ("trainer/plain-llama", "cut checkpoint-4/optimizer.pt -2", "FI1040 error", "audit"),
    ("trainer/plain-llama", "cut checkpoint-4/trainer_state.json -30", "FI1004 error", "audit"),
    ("trainer/zero2-w2", "rm checkpoint-4/config.json", "FI1001 warning", "audit"),
    ("trainer/only-model", "rm checkpoint-4/model.safetensors", "FI1001 error", "audit"),
    ("trainer/ddp-w2", "rm checkpoint-4/rng_state_1.pth", "FI1008 note", "audit"),
    ("eco/hf/peft-lora", "rm adapter_config.json", "FI1001 error", "audit"),
    ("trainer/fsdp1-full-w2", "rm checkpoint-4/optimizer.bin", "FI5007 error", "audit"),
    ("trainer/fsdp2-full-w2", "rm checkpoint-4/pytorch_model_fsdp.bin", "FI5007 error", "audit"),
    ("eco/accelerate/fsdp2-full-w2", "rm optimizer.bin", "FI5007 error", "audit"),
    ("eco/rl-and-serving/verl-fsdp2-w2", "rm global_step_20/actor/extra_state_world_size_2_rank_1.pt", "FI5007 error", "audit"),
    ("eco/rl-and-serving/vllm-sharded-state-tp2", "rm model-rank-1-part-*", "FI1008 error", "audit"),
    ("eco/rl-and-serving/meta-consolidated-mp2", "rm consolidated.01.pth", "FI1008 error", "audit"),
    ("dcp/fsdp2-w2", "rm checkpoint/__1_0.distcp", "FI1001 error"),
    ("dcp/no-collectives", "rm checkpoint/__1.metadata", "FI1008 error"),
    ("dcp/fsdp2-w2", "cut checkpoint/.metadata 2000", "FI1020 error"),
    ("dcp/fsdp2-w2", "cut checkpoint/__1_0.distcp -2", "FI1004 error"),
    ("broken/dcp-chunk-overlap", "rm checkpoint/__1_0.distcp", "FI1001 error", "audit"),
]


def edit(folder, source, command):
    words = command.split()
    if words[0] == "rm":
        found = glob.glob(os.path.join(folder, words[1]))
        assert found, command
        for path in found:
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
    elif words[0] == "write":
        with open(os.path.join(folder, words[1]), "w", encoding="utf-8") as f:
            f.write(" ".join(words[2:]))
    elif words[0] == "cut":
        path = glob.glob(os.path.join(folder, words[1]))[0]
        os.truncate(path, int(words[2]) % (os.path.getsize(path) + 1))
    elif words[0] == "copy":
        found = glob.glob(os.path.normpath(os.path.join(source, words[1])))
        assert found, command
        shutil.copy(found[0], os.path.join(folder, words[2]))
    else:
        raise ValueError(command)


def told(args, folder, problems, words):
    inside = [os.path.join(folder, n) for n in ("checkpoint", "checkpoint-4")]
    given = next((p for p in inside if os.path.isdir(p)), folder)
    doc = envelope(run(args, *words, "--json", given), problems, statuses=(0, 1, 2, 3), need_data=False)
    if doc is None:
        return set()
    out = {f'{f["rule"]} {f["severity"]}' for f in doc["findings"] if f["severity"] != "note" or f["rule"] == "FI1008"}
    return out | {f'{e.get("rule")} error' for e in doc["errors"]}


def judge(args, row):
    sample, edits, wanted = row[:3]
    words = row[3].split() if len(row) > 3 else ["info"]
    source = os.path.join(args.fixtures, sample)
    problems = []
    with tempfile.TemporaryDirectory() as tmp:
        folder = os.path.join(tmp, os.path.basename(sample))
        copy_tree(source, folder, symlinks=True, ignore=shutil.ignore_patterns("expected"))
        before = told(args, folder, problems, words)
        for command in edits.split("; "):
            edit(folder, source, command)
        after = told(args, folder, problems, words)
    new = after - before
    if set(wanted.split(", ")) - new:
        problems.append(f"{edits}: {wanted} is not told, but {sorted(new)}")
    return f"{sample}: {edits}", problems


def main():
    args = arguments(__doc__)
    if args.fixtures is None:
        skip_all("no samples")
    tap = Tap()
    judges = b'"audit"' in run(args, "commands", "--json").out
    rows = [r for r in ROWS if (args.only is None or args.only in r[0]) and (judges or len(r) == 3)]
    for name, problems in in_parallel(lambda row: judge(args, row), rows):
        tap.none(name, problems)
    tap.done()


main()
