#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""release_saves.py FOLDER [--small]: writes saves with the PyTorch that this Python has, 2.1 or later. The small ones are
those of testdata/releases.

A torch.save file in both containers; DTensors on a mesh of 2 x 2 ranks and on each of its sub-meshes, as rank files and
as a distributed checkpoint; rank files of FSDP2 where the release can shard on a CPU, which the small ones lack. truth.json
has dtype, shape and SHA-256 of what was there before it was sharded."""
import hashlib
import importlib
import json
import multiprocessing
import os
import sys
import warnings

sys.path.pop(0)  # the other files here are called like what old releases import
warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist

MESH = (2, 2)
WORLD = 4


def import_one(names, *modules):
    for module in modules:
        try:
            found = importlib.import_module(module)
            return [getattr(found, name) for name in names]
        except (ImportError, AttributeError):
            continue
    return [None] * len(names)


def module():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3, bias=False))


def tensors():
    """On all of the mesh, on its slices, and not sharded at all."""
    return {"both": torch.arange(35.).reshape(5, 7), "copy": torch.arange(12, dtype=torch.int64).reshape(4, 3) - 5,
            "dp": torch.arange(10.).reshape(5, 2) / 3, "tp": (torch.arange(9.) / 7).to(torch.bfloat16)}


def digest(tensor):
    data = tensor.detach().clone().contiguous()
    data = data.reshape(-1).view(torch.uint8) if data.dim() else data.reshape(1).view(torch.uint8)
    return [str(tensor.dtype)[len("torch."):], list(tensor.shape), hashlib.sha256(bytes(data.tolist())).hexdigest()]


def digests(value, path=()):
    if isinstance(value, torch.Tensor):
        return {".".join(map(str, path)): digest(value)}
    if not isinstance(value, dict):
        return {}
    return {name: told for key, item in value.items() for name, told in digests(item, path + (key,)).items()}


init_device_mesh, = import_one(["init_device_mesh"], "torch.distributed.device_mesh")


def meshes():
    """The mesh, its slices by columns and by rows."""
    mesh = init_device_mesh("cpu", MESH, mesh_dim_names=("dp", "tp"))
    return mesh, mesh["dp"], mesh["tp"]


def sharded():
    distribute, shard, replicate = import_one(["distribute_tensor", "Shard", "Replicate"], "torch.distributed.tensor",
                                              "torch.distributed._tensor")
    whole = tensors()
    if init_device_mesh is None:  # 2.1, which saves those of flat meshes only
        make, = import_one(["DeviceMesh"], "torch.distributed._tensor")
        mesh = make("cpu", list(range(WORLD)))
        return {"both": distribute(whole["both"], mesh, [shard(1)]), "copy": distribute(whole["copy"], mesh, [replicate()])}
    mesh, dp, tp = meshes()
    return {"both": distribute(whole["both"], mesh, [shard(0), shard(1)]),
            "copy": distribute(whole["copy"], mesh, [replicate(), shard(1)]),
            "dp": distribute(whole["dp"], dp, [shard(0)]), "tp": distribute(whole["tp"], tp, [shard(0)])}


def write_ranks(folder, name, state, rank):
    where = os.path.join(folder, name)
    os.makedirs(where, exist_ok=True)
    torch.save(state, os.path.join(where, f"rank{rank}.pt"))


def write_dcp(folder, name, state):
    import torch.distributed.checkpoint as dcp
    writer = dcp.FileSystemWriter(os.path.join(folder, name))
    if hasattr(dcp, "save"):
        dcp.save(state, storage_writer=writer)
    else:
        dcp.save_state_dict(state, writer)


def fsdp_state():
    fully_shard, = import_one(["fully_shard"], "torch.distributed.fsdp", "torch.distributed._composable.fsdp")
    if init_device_mesh is None or fully_shard is None or "--small" in sys.argv or not callable(fully_shard):
        return None
    model = module()
    fully_shard(model, mesh=init_device_mesh("cpu", (WORLD,)))
    return {"model": model.state_dict()}


def rank_main(rank, store, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    state = sharded()
    write_ranks(folder, "ranks", state, rank)
    write_dcp(folder, "dcp", state)
    told = {"ranks": {k: digest(tensors()[k]) for k in state}}
    told["dcp"] = told["ranks"]
    state = fsdp_state()
    if state is not None:
        write_ranks(folder, "fsdp2", state, rank)
        told["fsdp2"] = digests({"model": module().state_dict()})
    if rank == 0:
        with open(os.path.join(folder, "truth.json"), encoding="utf-8") as stream:
            truth = json.load(stream)
        truth["saves"].update(told)
        write_truth(folder, truth)
    dist.barrier()
    dist.destroy_process_group()


def write_truth(folder, truth):
    with open(os.path.join(folder, "truth.json"), "w", encoding="utf-8") as stream:
        json.dump(truth, stream, indent=1)
        stream.write("\n")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    state = {"model": module().state_dict(), "more": tensors(), "epoch": 3}
    torch.save(state, os.path.join(folder, "zip.pt"))
    torch.save(state, os.path.join(folder, "stream.pt"), _use_new_zipfile_serialization=False)
    truth = {"torch": torch.__version__.split("+")[0], "saves": {"zip.pt": digests(state), "stream.pt": digests(state)}}
    write_truth(folder, truth)
    store = os.path.join(folder, "store")
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=rank_main, args=(r, store, folder)) for r in range(WORLD)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
        if process.is_alive():
            process.terminate()
    if os.path.exists(store):
        os.remove(store)
    return max(abs(process.exitcode or 0) for process in ranks)


if __name__ == "__main__":
    sys.exit(main())
