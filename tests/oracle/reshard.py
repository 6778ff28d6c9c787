#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`reshard` from and to 1, 2, 3, 5 and 7 ranks tells, rank by rank, what PyTorch's own ranks of these sizes hold.

A model is sharded and saved at each size: by FSDP2, and by FSDP1 with and without use_orig_params. It has dimensions smaller
than the ranks, a single row, a buffer and, in FSDP1, flat parameters that need padding. Without its plan a save of FSDP1 is a
SHARDED state dict, whose tensors are cut one by one.
"""
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
from fsdp_inspect_export import export_plan  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard  # noqa: E402
from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
SIZES = (1, 2, 3, 5, 7)
KINDS = ("fsdp2", "fsdp1-orig", "fsdp1-flat")


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


def shard(kind, world):
    model = Model()
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", (world,))
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


def save(kind, rank, world, root):
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(os.path.join(root, f"store-{kind}-{world}"), world),
                                         rank=rank, world_size=world)
    torch.manual_seed(0)
    model = shard(kind, world)
    optimizer = step(model)
    names = get_state_dict(model, optimizer)
    saved = {"model": names[0], "optim": names[1]}
    folder = os.path.join(root, f"{kind}-{world}")
    dcp.save(saved, checkpoint_id=folder)
    if rank == 0:
        export_plan(model, os.path.join(folder, "model.fsdp-plan.json"))
    with open(os.path.join(root, f"{kind}-{world}-{rank}.json"), "w") as f:
        json.dump(facts(kind, model, optimizer, saved), f)


def start(kind, rank, world, root):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log = os.open(os.path.join(root, f"log-{kind}-{world}-{rank}"), os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            save(kind, rank, world, root)
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    return child


def save_all(kind, world, root):
    """Why it was not saved, in lines."""
    children = [start(kind, rank, world, root) for rank in range(world)]
    bad = [rank for rank, child in enumerate(children) if os.waitpid(child, 0)[1] != 0]
    return [open(os.path.join(root, f"log-{kind}-{world}-{rank}")).read()[-500:] for rank in bad[:1]]


def wanted(kind, world, root, planned):
    """What must be said of each rank."""
    for rank in range(world):
        with open(os.path.join(root, f"{kind}-{world}-{rank}.json")) as f:
            have = json.load(f)
        if kind == "fsdp2":
            yield {"param_bytes": have["param"], "optim_bytes": have["optim"], "empty": have["empty"]}
        elif not planned:
            yield {"param_bytes": have["saved_param"], "optim_bytes": have["saved_optim"]}
        elif kind == "fsdp1-orig":
            yield {"param_bytes": have["param"], "optim_bytes": have["optim"]}
        else:  # the optimizer sees the padding too
            yield {"all": have["param"] + have["optim"]}


def check(args, kind, world, to, root, planned):
    problems = []
    folder = os.path.join(root, f"{kind}-{world}")
    words = ["reshard", "--json", f"--world={to}", folder] + ([] if planned else ["--no-plan"])
    doc = envelope(run(args, *words), problems)
    for rank, must in enumerate(wanted(kind, to, root, planned) if doc else ()):
        got = doc["data"]["ranks"][rank]
        got["empty"] = sorted(got["empty"])
        got["all"] = got["bytes"] + got["padding_bytes"]
        problems += [f"rank {rank}: {key} is {got[key]}, not {value}" for key, value in must.items() if got[key] != value]
    if doc and len(doc["data"]["ranks"]) != to:
        problems.append(f"tells of {len(doc['data']['ranks'])} ranks")
    return problems


def main():
    args = arguments(__doc__)
    tap = Tap()
    with tempfile.TemporaryDirectory() as root:
        for kind in KINDS:
            failed = [line for world in SIZES for line in save_all(kind, world, root)]
            tap.none(f"{kind} is saved", failed)
            ways = [(world, to, planned) for planned in ((True,) if kind == "fsdp2" else (True, False))
                    for world in SIZES for to in SIZES]
            results = in_parallel(lambda way: check(args, kind, *way[:2], root, way[2]), [] if failed else ways)
            for (world, to, planned), problems in zip(ways, results):
                tap.none(f"{kind}{'' if planned else ' without a plan'}: {world} to {to}", problems)
    tap.done()


if __name__ == "__main__":
    main()
