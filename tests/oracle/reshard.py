#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`reshard` from and to 1, 2, 3, 5 and 7 ranks tells, rank by rank, what PyTorch's own ranks of these sizes hold.

A model is sharded and saved at each size: by FSDP2, and by FSDP1 with and without use_orig_params. It has dimensions smaller
than the ranks, a single row, a buffer and, in FSDP1, flat parameters that need padding. Without its plan a save of FSDP1 is a
SHARDED state dict, whose tensors are cut one by one.

A second model is cut by PyTorch's tensor parallelism first, along dimensions that it does not divide, and by FSDP2 over the
rest of the mesh, with copies and without.
"""
import argparse
import json
import logging
import os
import sys
import tempfile
import traceback
import warnings

from oraclelib import SOURCE, Tap, arguments, envelope, in_parallel, run, wanted_torch

torch = wanted_torch()
sys.path.insert(0, os.path.join(SOURCE, "contrib", "python"))
import torch.distributed.checkpoint as dcp  # noqa: E402
from fsdp_inspect.recorders import export_plan  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard  # noqa: E402
from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate  # noqa: E402
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,  # noqa: E402
                                               parallelize_module)

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
SIZES = (1, 2, 3, 5, 7)
# Copies, shards, tensor parallelism. PyTorch's planner refuses to save from the last ones: a dimension is cut twice, unevenly.
MESHES = ((1, 1, 2), (1, 1, 5), (1, 2, 1), (1, 2, 2), (1, 2, 3), (1, 3, 2), (2, 2, 2), (1, 4, 2), (1, 2, 4))
UNSAVED = MESHES[-2:]
KINDS = ("fsdp2", "fsdp1-orig", "fsdp1-flat", "tp")


class Block(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.up = nn.Linear(columns, rows)
        self.down = nn.Linear(rows, columns, bias=False)
        self.register_buffer("running_mean", torch.ones(3))

    def forward(self, x):
        return self.down(self.up(x)) * self.running_mean[0]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(11, 2), Block(4, 2)])
        self.head = nn.Linear(2, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Attention(nn.Module):
    """Under the names of a Llama, with dimensions that ranks do not divide, and one of a single row."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(12, 7)
        self.norm = nn.LayerNorm(7)
        self.q_proj = nn.Linear(7, 12)
        self.o_proj = nn.Linear(12, 7)
        self.up_proj = nn.Linear(7, 1)
        self.lm_head = nn.Linear(7, 12, bias=False)


TENSOR_PARALLEL = {"embed_tokens": RowwiseParallel(input_layouts=Replicate()), "norm": SequenceParallel(), "q_proj": ColwiseParallel(),
                   "o_proj": RowwiseParallel(), "up_proj": ColwiseParallel(), "lm_head": ColwiseParallel()}


def shard(kind, mesh):
    if kind == "tp":
        model = Attention()
        mesh = init_device_mesh("cpu", mesh, mesh_dim_names=("copies", "shards", "tp"))
        parallelize_module(model, mesh["tp"], TENSOR_PARALLEL)
        return fully_shard(model, mesh=mesh["copies", "shards"] if mesh.size(0) > 1 else mesh["shards"])
    model = Model()
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", mesh[1:2])
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"),
                                    use_orig_params=kind == "fsdp1-orig")


def step(model):
    """States of an optimizer, as a step makes them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    return optimizer


def local(value):
    """Elements of a saved tensor that this rank has."""
    if isinstance(value, DTensor):
        return value.to_local().numel()
    if hasattr(value, "local_shards"):
        return sum(s.tensor.numel() for s in value.local_shards())
    return value.numel()


def tensors(value, name=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, name + (str(key),))
    elif isinstance(value, torch.Tensor) or hasattr(value, "local_shards"):
        yield ".".join(name), value


def facts(kind, model, optimizer, saved):
    """What this rank holds, in bytes: alive, and of what it saves."""
    numels = {name: local(value) for name, value in tensors(saved)}
    steps = sum(name.endswith(".step") for name in numels)
    moments = sum(local(s[k]) for s in optimizer.state.values() for k in ("exp_avg", "exp_avg_sq"))
    buffers = sum(b.numel() for b in model.buffers())
    return {
        "param": 4 * (sum(local(p) for p in model.parameters()) + buffers),
        "optim": 4 * (moments + steps),
        "saved_param": 4 * sum(n for name, n in numels.items() if name.startswith("model.")),
        "saved_optim": 4 * sum(n for name, n in numels.items() if name.startswith("optim.")),
        "empty": sorted(name for name, n in numels.items() if n == 0),
    }


def world_of(mesh):
    return mesh[0] * mesh[1] * mesh[2]


def path(root, kind, mesh, *more):
    return os.path.join(root, "-".join([kind, "x".join(map(str, mesh)), *map(str, more)]))


def save(kind, rank, mesh, root):
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(path(root, kind, mesh, "store"), world_of(mesh)),
                                         rank=rank, world_size=world_of(mesh))
    torch.manual_seed(0)
    model = shard(kind, mesh)
    optimizer = step(model)
    names = get_state_dict(model, optimizer)
    saved = {"model": names[0], "optim": names[1]}
    if mesh not in UNSAVED:
        dcp.save(saved, checkpoint_id=path(root, kind, mesh))
    if rank == 0 and mesh not in UNSAVED:
        export_plan(model, os.path.join(path(root, kind, mesh), "model.fsdp-plan.json"))
    with open(path(root, kind, mesh, rank), "w") as f:
        json.dump(facts(kind, model, optimizer, saved), f)


def start(kind, rank, mesh, root):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log = os.open(path(root, kind, mesh, "log", rank), os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            save(kind, rank, mesh, root)
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    return child


def save_all(kind, mesh, root):
    """Why it was not saved, in lines."""
    children = [start(kind, rank, mesh, root) for rank in range(world_of(mesh))]
    bad = [rank for rank, child in enumerate(children) if os.waitpid(child, 0)[1] != 0]
    return [open(path(root, kind, mesh, "log", rank)).read()[-500:] for rank in bad[:1]]


def wanted(kind, mesh, root, planned):
    """What must be said of each rank."""
    for rank in range(world_of(mesh)):
        with open(path(root, kind, mesh, rank)) as f:
            have = json.load(f)
        if kind in ("fsdp2", "tp"):
            yield {"param_bytes": have["param"], "optim_bytes": have["optim"], "empty": have["empty"]}
        elif not planned:
            yield {"param_bytes": have["saved_param"], "optim_bytes": have["saved_optim"]}
        elif kind == "fsdp1-orig":
            yield {"param_bytes": have["param"], "optim_bytes": have["optim"]}
        else:  # the optimizer sees the padding too
            yield {"all": have["param"] + have["optim"]}


def check(args, kind, mesh, to, root, planned):
    problems = []
    words = ["reshard", "--json", f"--world={world_of(to)}", path(root, kind, mesh)] + ([] if planned else ["--no-plan"])
    if kind == "tp":
        words += [f"--mesh={to[0]}x{to[1]}", f"--tp={to[2]}"]
    doc = envelope(run(args, *words), problems)
    for rank, must in enumerate(wanted(kind, to, root, planned) if doc else ()):
        got = doc["data"]["ranks"][rank]
        got["empty"] = sorted(got["empty"])
        got["all"] = got["bytes"] + got["padding_bytes"]
        problems += [f"rank {rank}: {key} is {got[key]}, not {value}" for key, value in must.items() if got[key] != value]
    if doc and len(doc["data"]["ranks"]) != world_of(to):
        problems.append(f"tells of {len(doc['data']['ranks'])} ranks")
    return problems


def check_vocabulary(args, rows, tp, to, root):
    """Megatron's files of `tp` ranks: whether the vocabulary is among what cannot be shared, as Megatron pads it to 128 rows a rank."""
    problems = []
    folder = os.path.join(root, f"vocabulary-{rows}-{tp}", "iter_0000001")
    for rank in range(tp):
        os.makedirs(os.path.join(folder, f"mp_rank_{rank:02}"), exist_ok=True)
        torch.save({"model": {"embedding.word_embeddings.weight": torch.zeros(rows // tp, 2)}, "iteration": 1,
                    "args": argparse.Namespace(tensor_model_parallel_size=tp)},
                   os.path.join(folder, f"mp_rank_{rank:02}", "model_optim_rng.pt"))
    doc = envelope(run(args, "reshard", "--json", f"--world={to}", f"--tp={to}", folder), problems)
    padded = {v: -(-v // (128 * to)) * 128 * to for v in range(rows - 128 * tp + 1, rows + 1)}
    wanted = [("embedding.word_embeddings.weight", "vocabulary")] if any(p != rows for p in padded.values()) else []
    got = [(stays["name"], stays["why"]) for stays in doc["data"]["not_resharded"]] if doc else None
    return problems + ([] if got == wanted else [f"{got}, not {wanted}"])


def main():
    args = arguments(__doc__)
    tap = Tap()
    with tempfile.TemporaryDirectory() as root:
        for kind in KINDS:
            meshes = MESHES if kind == "tp" else [(1, size, 1) for size in SIZES]
            failed = [line for mesh in meshes for line in save_all(kind, mesh, root)]
            tap.none(f"{kind} is saved", failed)
            ways = [(mesh, to, planned) for planned in ((True,) if kind == "fsdp2" else (True, False))
                    for mesh in meshes if mesh not in UNSAVED for to in meshes]
            results = in_parallel(lambda way: check(args, kind, *way[:2], root, way[2]), [] if failed else ways)
            for (mesh, to, planned), problems in zip(ways, results):
                said = ["x".join(map(str, m)) if kind == "tp" else m[1] for m in (mesh, to)]
                tap.none(f"{kind}{'' if planned else ' without a plan'}: {said[0]} to {said[1]}", problems)
        for rows, tp, to in ((512, 2, 1), (512, 2, 2), (512, 2, 4), (768, 2, 4), (256, 1, 2), (384, 1, 2)):
            tap.none(f"vocabulary of {rows} rows: tensor parallelism of {tp} to {to}", check_vocabulary(args, rows, tp, to, root))
    tap.done()


if __name__ == "__main__":
    main()
