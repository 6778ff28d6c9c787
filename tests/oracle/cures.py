#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `audit --for=deepspeed` says helps is done with DeepSpeed on a copy of a fresh save: the conversion that it names has
to end well and to load in another world with every weight and every moment; where it names none, the converter has to fail
or to change them. Skipped without deepspeed; FSDP_PYTHONS may name a Python that has it."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

import oraclelib
from fresh_saves import digest, on_ranks
from fresh_sharded import wide

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # some tests here are called like modules that deepspeed imports
TAG = "step2"
STATES = {"AdamW": ("exp_avg", "exp_avg_sq"), "AMSGrad": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), "SGD": ("momentum_buffer",)}
# name, configuration, optimizer, whether a conversion is right
SAVES = [
    ("ZeRO 1", {"stage": 1}, "AdamW", True),
    ("ZeRO 2", {"stage": 2}, "AdamW", True),
    ("ZeRO 2, bf16", {"stage": 2, "bf16": True}, "AdamW", True),
    ("ZeRO 3", {"stage": 3, "stage3_param_persistence_threshold": 0}, "AdamW", True),
    ("ZeRO 2, round robin", {"stage": 2, "round_robin_gradients": True}, "AdamW", False),
    ("ZeRO 1, elastic", {"stage": 1, "elastic_checkpoint": True}, "AdamW", False),
    ("ZeRO 1, SGD", {"stage": 1}, "SGD", False),
    ("ZeRO 1, AMSGrad", {"stage": 1}, "AMSGrad", False),
]


def modelled(file):
    """The model of a sample, of other values: the names and shapes of its state dict in modules. What it returns second are
    its parameters in two groups, as the samples have them: those of one dimension apart."""
    import torch
    model = torch.nn.Module()
    saved = torch.load(file, weights_only=False)
    for name, value in saved["module"].items():
        *path, last = name.split(".")
        module = model
        for part in path:
            if not hasattr(module, part):
                module.add_module(part, torch.nn.Module())
            module = getattr(module, part)
        if name in saved["buffer_names"]:
            module.register_buffer(last, torch.ones_like(value))
        else:
            module.register_parameter(last, torch.nn.Parameter(torch.ones_like(value)))
    parameters = list(model.parameters())
    return model, [{"params": [p for p in parameters if (p.dim() > 1) == many]} for many in (True, False)]


def stored(folder):
    """What a save of stage 1 or 2 has: the buffers of its ranks one after another are the parameters of a group."""
    import torch
    found = {}
    files = [torch.load(os.path.join(folder, f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"), weights_only=False) for rank in (0, 1)]
    ranks = [file["optimizer_state_dict"] for file in files]
    for g, group in enumerate(torch.load(os.path.join(folder, "mp_rank_00_model_states.pt"), weights_only=False)["param_shapes"]):
        buffers = {"": torch.cat([rank["single_partition_of_fp32_groups"][g] for rank in ranks])}
        for state in STATES["AdamW"]:
            buffers["." + state] = torch.cat([rank["base_optimizer_state"]["state"][g][state] for rank in ranks])
        for end, buffer in buffers.items():
            at = 0
            for name, shape in group.items():
                found[name + end] = digest(buffer[at:at + shape.numel()].view(shape))
                at += shape.numel()
    return found


def engine_of(zero, optimizer, universal=False, sample=None):
    import deepspeed
    import torch
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # its shared-memory collectives spin; gloo does not
    os.environ["DS_ACCELERATOR"] = "cpu"
    model = wide(seed=6 if universal else 5)
    groups = model.parameters()
    if sample is not None:
        model, groups = modelled(sample)
    made = torch.optim.SGD(groups, lr=1e-2, momentum=0.9) if optimizer == "SGD" else \
        torch.optim.AdamW(groups, lr=1e-2, amsgrad=optimizer == "AMSGrad")
    config = {"train_micro_batch_size_per_gpu": 2, "steps_per_print": 10**9, "zero_allow_untested_optimizer": True,
              "bf16": {"enabled": zero.get("bf16", False)}, "checkpoint": {"load_universal": universal},
              "zero_optimization": {k: v for k, v in zero.items() if k != "bf16"}}
    return deepspeed.initialize(model=model, optimizer=made, config=config, dist_init_required=False)[0]


def held(engine, optimizer):
    """All weights and states, gathered."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    found = {}
    for name, parameter in engine.module.named_parameters():
        # Of round-robin saves the library itself puts masters together from other places.
        own = engine.zero_optimization_stage() < 3 and not engine.bfloat16_enabled()
        found[name] = digest(parameter if own else safe_get_full_fp32_param(parameter))
        for state in STATES[optimizer]:
            found[f"{name}.{state}"] = digest(safe_get_full_optimizer_state(parameter, state))
    return found


def save_of(zero, optimizer):
    def save(_, folder):
        import torch
        engine = engine_of(zero, optimizer)
        torch.manual_seed(9 + torch.distributed.get_rank())
        for _ in range(2):
            engine.backward(engine(torch.randn(2, 8).to(torch.bfloat16 if zero.get("bf16") else torch.float32)).square().sum())
            engine.step()
        engine.save_checkpoint(folder, tag=TAG)
        return held(engine, optimizer)
    return save


def load_of(zero, optimizer, sample=None):
    def load(_, folder):
        engine = engine_of(zero, optimizer, universal=True, sample=sample)
        engine.load_checkpoint(folder)
        return held(engine, optimizer)
    return load


def convert(folder, flags, tag=TAG):
    """Whether the converter ended well."""
    where = os.path.join(folder, tag)
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", where, "--output_folder", where + "_universal", *flags]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300).returncode == 0


def cure_of(args, folder, problems, world=1):
    doc = oraclelib.envelope(oraclelib.run(args, "audit", "--json", "--for=deepspeed", f"--world={world}", folder), problems, (0, 1))
    reasons = doc["data"]["loaders"][0]["reasons"] if doc else []
    return reasons[-1].get("way_out", "") if reasons else ""


def survives(zero, optimizer, folder, flags, live):
    """Whether all of it loads in a world of one rank after the conversion."""
    if not convert(folder, flags):
        return "the converter fails"
    try:
        found = on_ranks(1, load_of(zero, optimizer), folder)
    except RuntimeError:
        return "the conversion does not load"
    return ", ".join(sorted(n for n in live if found.get(n) != live[n]))


def check(args, tap, name, zero, optimizer, is_right):
    problems = []
    with tempfile.TemporaryDirectory(prefix="cures-") as work:
        folder = os.path.join(work, "run")
        os.mkdir(folder)
        live = on_ranks(2, save_of(zero, optimizer), folder)
        cure = cure_of(args, folder, problems)
        names_converter = cure.startswith("convert it with ds_to_universal.py")
        oraclelib.same(problems, f"conversion is advised ({cure!r})", names_converter, is_right)
        if not names_converter:
            oraclelib.same(problems, "cure", cure, "no converter supports this checkpoint; weights only: fsdp-inspect export")
        flags = flags_of(cure) if names_converter else ["--inject_missing_state"]
        copy = os.path.join(work, "copy")
        shutil.copytree(folder, copy)
        lost = survives(zero, optimizer, copy, flags, live)
        if names_converter and lost:
            problems.append(f"lost by the cure: {lost}")
        if not names_converter and not lost:
            problems.append("the converter is right, and was not advised")
        if names_converter and flags:
            plain = os.path.join(work, "plain")
            shutil.copytree(folder, plain)
            if convert(plain, []):
                problems.append(f"{flags} is not needed")
    tap.none(name, problems)


def flags_of(cure):
    return [word.rstrip(",") for word in cure.split() if word.startswith("--")]


def check_example(args, tap):
    """The example of README.md is a save of two ranks, and is loaded by three."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="cures-") as work:
        folder = os.path.join(work, "run")
        shutil.copytree(os.path.join(args.data[0], "deepspeed", "zero2-w2"), folder)
        tag = "global_step2"
        sample = os.path.join(folder, tag, "mp_rank_00_model_states.pt")
        live = stored(os.path.join(folder, tag))
        cure = cure_of(args, folder, problems, 3)
        if not convert(folder, flags_of(cure), tag):
            problems.append(f"the converter fails: {cure!r}")
        else:
            oraclelib.same(problems, "all weights and states", on_ranks(3, load_of({"stage": 2}, "AdamW", sample=sample), folder), live)
    tap.none("the example of README.md", problems)


def main():
    args = oraclelib.arguments(__doc__)
    oraclelib.wanted_torch()
    if importlib.util.find_spec("deepspeed") is None:
        oraclelib.skip_all("no deepspeed")
    tap = oraclelib.Tap()
    for save in SAVES:
        if args.only is None or args.only in save[0]:
            check(args, tap, *save)
    if args.only is None or "README" in args.only:
        check_example(args, tap)
    tap.done()


if __name__ == "__main__":
    main()
