# SPDX-License-Identifier: Apache-2.0
"""Kinds of saves by several ranks of PyTorch that no sample has."""
import os

from fresh_saves import digests, kind, of_dcp, of_safetensors, on_ranks, small, stepped


def wide(seed=5):
    import torch
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 10), torch.nn.Linear(10, 6, bias=False))


def mesh_of(*sizes):
    from torch.distributed.device_mesh import init_device_mesh
    return init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp", "cp")[:len(sizes)])


def whole(value):
    """DTensors put together, on all ranks."""
    import torch
    from torch.distributed.tensor import DTensor
    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(value, dict):
        return {k: whole(v) for k, v in value.items()}
    return [whole(v) for v in value] if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size) else value


def fully(model, mesh, **options):
    from torch.distributed.fsdp import fully_shard
    for part in list(model):
        if list(part.parameters()):
            fully_shard(part, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def rank_files(state, rank, folder):
    import torch
    os.makedirs(folder, exist_ok=True)
    torch.save(state, os.path.join(folder, f"model_world_size_{torch.distributed.get_world_size()}_rank_{rank}.pt"))


# ---- FSDP2 and DTensor

def fsdp2_ranks(rank, folder):
    import torch
    from torch.distributed.tensor import Shard
    mesh = mesh_of(2)
    model = fully(wide(), mesh, shard_placement_fn=lambda p: Shard(1) if p.dim() == 2 else None)
    optimizer = stepped(model, torch.optim.AdamW(model.parameters()), (4, 8))
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    told = digests(whole(state))
    rank_files(state, rank, os.path.join(folder, "dim1"))
    narrow = fully(wide().to(torch.bfloat16), mesh)
    rank_files(narrow.state_dict(), rank, os.path.join(folder, "narrow"))
    return told, digests(whole(narrow.state_dict()))


@kind("FSDP2, rank files", "torch")
def fsdp2(folder):
    dim1, narrow = on_ranks(2, fsdp2_ranks, folder)
    return {"sharded along dimension 1, AdamW": (os.path.join(folder, "dim1"), dim1),
            "bfloat16": (os.path.join(folder, "narrow"), narrow)}


def plane_ranks(rank, folder):
    import torch
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = mesh_of(2, 2)
    model = parallelize_module(wide(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    rank_files(model.state_dict(), rank, os.path.join(folder, "tp"))
    tp = digests(whole(model.state_dict()))
    model = parallelize_module(wide(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully(model, mesh["dp"])
    rank_files({"model": model.state_dict()}, rank, os.path.join(folder, "both"))
    both = digests(whole({"model": model.state_dict()}))
    hybrid = fully(wide(), mesh)
    rank_files(hybrid.state_dict(), rank, os.path.join(folder, "hybrid"))
    return tp, both, digests(whole(hybrid.state_dict()))


@kind("tensor parallel and hybrid meshes, rank files", "torch")
def plane(folder):
    tp, both, hybrid = on_ranks(4, plane_ranks, folder)
    return {"TP": (os.path.join(folder, "tp"), tp), "TP and FSDP2": (os.path.join(folder, "both"), both),
            "HSDP": (os.path.join(folder, "hybrid"), hybrid)}


def placed_ranks(rank, folder):
    import torch
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    line, square = mesh_of(4), mesh_of(2, 2)
    table = {"row": (line, [Shard(0)], (10, 3)), "last": (line, [Shard(2)], (2, 3, 7)), "few": (line, [Shard(0)], (2, 5)),
             "copy": (line, [Replicate()], (3, 3)), "twice": (square, [Shard(0), Shard(0)], (9, 2)),
             "cross": (square, [Shard(1), Shard(0)], (5, 6)), "half": (square, [Replicate(), Shard(1)], (4, 5)),
             "none": (square, [Shard(0), Replicate()], (0, 4)), "cube": (square, [Shard(0), Shard(2)], (3, 4, 5))}
    torch.manual_seed(2)
    full = {n: torch.randn(shape) for n, (_, _, shape) in table.items()}
    state = {n: distribute_tensor(full[n], mesh, places) for n, (mesh, places, _) in table.items()}
    rank_files(state, rank, os.path.join(folder, "ranks"))
    import torch.distributed.checkpoint as dcp
    dcp.save(state, checkpoint_id=os.path.join(folder, "dcp"))
    return digests(full)


@kind("DTensors of many placements", "torch")
def placed(folder):
    told = on_ranks(4, placed_ranks, folder)
    return {"rank files": (os.path.join(folder, "ranks"), told), "DCP": (os.path.join(folder, "dcp"), told)}


# ---- DCP

def dcp_ranks(rank, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    mesh = mesh_of(2)
    model = fully(wide(), mesh)
    optimizer = stepped(model, torch.optim.AdamW(model.parameters(), fused=True), (4, 8))
    where = lambda name: os.path.join(folder, name)
    for name, options in (("nested", {}), ("flat", {"flatten_optimizer_state_dict": True}),
                          ("full", {"full_state_dict": True, "cpu_offload": True})):
        weights, states = get_state_dict(model, optimizer, options=StateDictOptions(**options))
        state = {"model": weights, "optim": states, "step": 7, "note": ["a", {"b": 2.5}]}
        if name == "full" and rank != 0:  # these are rank 0's alone
            state = {}
        dcp.save(state, checkpoint_id=where(name))
    weights, states = get_state_dict(model, optimizer)
    future = dcp.async_save({"app": {"model": weights, "optim": states}}, checkpoint_id=where("async"))
    future.result()
    dcp.save({"model": weights}, storage_writer=dcp.FileSystemWriter(where("threads"), thread_count=2, single_file_per_rank=False))
    dcp.save({"model": weights}, checkpoint_id=where("again"))
    dcp.save({"model": weights, "epoch": 2}, storage_writer=dcp.FileSystemWriter(where("again"), overwrite=True))
    planner = dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    dcp.save({"model": weights, "copy": torch.arange(9.)}, checkpoint_id=where("lowest"), planner=planner)
    planner = dcp.DefaultSavePlanner(flatten_sharded_tensors=False, dedup_replicated_tensors=False)
    dcp.save({"model": weights}, checkpoint_id=where("copies"), planner=planner)
    return list("nested flat full async threads again lowest copies".split())


@kind("DCP of two ranks", "torch")
def dcp_many(folder):
    names = on_ranks(2, dcp_ranks, folder)
    return {n: (os.path.join(folder, n), of_dcp(os.path.join(folder, n), folder)) for n in names}


@kind("DCP without ranks", "torch")
def dcp_alone(folder):
    import torch
    import torch.distributed.checkpoint as dcp
    where = lambda name: os.path.join(folder, name)
    model = wide()
    optimizer = stepped(model, torch.optim.SGD(model.parameters(), momentum=0.9), (4, 8))
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "list": [torch.ones(2), 3],
             "odd/name": torch.zeros(2), "scalar": torch.tensor(4), "bf": torch.ones(3, dtype=torch.bfloat16)}
    dcp.save(state, checkpoint_id=where("plain"), no_dist=True)
    dcp.async_save(state, checkpoint_id=where("async"), no_dist=True).result()
    saves = ["plain", "async"]
    try:
        from torch.distributed.checkpoint._extension import ZStandard
        dcp.save(state, storage_writer=dcp.FileSystemWriter(where("zstd"), _extensions=[ZStandard()]), no_dist=True)
        saves.append("zstd")
    except (ImportError, ValueError):
        pass
    from torch.distributed.checkpoint.format_utils import torch_save_to_dcp
    torch.save({"model": model.state_dict()}, where("model.pt"))
    torch_save_to_dcp(where("model.pt"), where("converted"))
    return {n: (where(n), of_dcp(where(n), folder), {"status": 3 if n == "zstd" else 0}) for n in saves + ["converted"]}


def hf_ranks(rank, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    model = fully(wide(), mesh_of(2))
    weights = model.state_dict()
    index = {n: 1 + i % 2 for i, n in enumerate(weights)}
    dcp.save(weights, storage_writer=HuggingFaceStorageWriter(
        os.path.join(folder, "joined"), fqn_to_index_mapping=index, save_distributed=True, enable_consolidation=True))
    dcp.save(weights, storage_writer=HuggingFaceStorageWriter(os.path.join(folder, "pieces"), save_distributed=True))
    return digests(whole(weights))


@kind("DCP as safetensors", "torch")
def dcp_hf(folder):
    told = on_ranks(2, hf_ranks, folder)
    joined = os.path.join(folder, "joined")
    assert of_safetensors(joined) == told
    return {"consolidated": (joined, told), "pieces": (os.path.join(folder, "pieces"), told)}


# ---- FSDP1

def fsdp1_model(**options):
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    model = wide()
    for i in (0, 2):
        model[i] = FSDP(model[i], device_id=torch.device("cpu"), **options)
    return FSDP(model, device_id=torch.device("cpu"), **options)


def full_of(model):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        return digests(model.state_dict())


def fsdp1_ranks(rank, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
    told = {}
    for name, options in (("orig", {"use_orig_params": True}), ("flat", {"use_orig_params": False})):
        model = fsdp1_model(**options)
        optimizer = stepped(model, torch.optim.RAdam(model.parameters()), (4, 8))
        told[name] = full_of(model)
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
            state = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
            if rank == 0:
                torch.save(state, os.path.join(folder, name + "-full.pt"))
            told[name + "-full"] = digests(state)
        with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            state = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
            dcp.save(state, checkpoint_id=os.path.join(folder, name + "-dcp"))
            rank_files(state["model"], rank, os.path.join(folder, name + "-ranks"))
    return told


@kind("FSDP1 of three ranks", "torch")
def fsdp1(folder):
    told = on_ranks(3, fsdp1_ranks, folder)
    saves = {}
    for name in ("orig", "flat"):
        saves[f"{name}, full, RAdam"] = os.path.join(folder, name + "-full.pt"), told[name + "-full"]
        saves[f"{name}, DCP, RAdam"] = os.path.join(folder, name + "-dcp"), of_dcp(os.path.join(folder, name + "-dcp"), folder)
        saves[f"{name}, rank files"] = os.path.join(folder, name + "-ranks"), told[name]
    return saves


# ---- DDP and others

def ddp_ranks(rank, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = torch.nn.parallel.DistributedDataParallel(small())
    optimizer = stepped(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam))
    optimizer.consolidate_state_dict(0)
    state = {"model": model.state_dict()}
    dcp.save(state, checkpoint_id=os.path.join(folder, "dcp"))
    if rank == 0:
        state["optimizer"] = optimizer.state_dict()
        torch.save(state, os.path.join(folder, "ddp.pt"))
    return digests(state)


@kind("DDP", "torch")
def ddp(folder):
    told = on_ranks(2, ddp_ranks, folder)
    return {"torch.save, ZeroRedundancyOptimizer": (os.path.join(folder, "ddp.pt"), told),
            "DCP": (os.path.join(folder, "dcp"), of_dcp(os.path.join(folder, "dcp"), folder))}
