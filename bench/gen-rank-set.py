#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the rank files of a LOCAL state dict of FSDP1 out of nothing.

    bench/gen-rank-set.py FOLDER --ranks=N --units=N [--world=N] [--plan]

Needs no torch: classes of its names stand in for its own, so Python's pickler writes what it writes for torch.save.
Every file repeats the shard list of all ranks for each unit, which is nearly all of its bytes. The same arguments give
the same bytes.
"""
import argparse
import collections
import copyreg  # its __newobj__ makes the pickler write NEWOBJ
import io
import json
import os
import pickle
import sys
import types
import zipfile

SHARDED = "torch.distributed._shard.sharded_tensor"
PARAMETERS = (("attention.query.weight", (8, 8)), ("attention.output.weight", (8, 8)), ("norm.weight", (8,)),
              ("feed.in.weight", (24, 8)), ("feed.out.weight", (8, 24)))
NUMEL = 64 + 64 + 8 + 192 + 192


def stand_in(module, name, **members):
    """A class or function that pickles under this name."""
    names = module.split(".")
    for i in range(1, len(names) + 1):
        sys.modules.setdefault(".".join(names[:i]), types.ModuleType(".".join(names[:i])))
    made = type(name.split(".")[-1], (), {"__module__": module, "__qualname__": name, **members})
    holder = sys.modules[module]
    for outer in name.split(".")[:-1]:
        holder = getattr(holder, outer)
    setattr(holder, name.split(".")[-1], made)
    return made


def filled(cls, state, slots=False):
    made = cls.__new__(cls)
    made.state = (None, state) if slots else state
    return made


HAS_STATE = {"__reduce_ex__": lambda self, _: (copyreg.__newobj__, (type(self),), self.state)}

SHARD = stand_in(SHARDED + ".shard", "Shard", **HAS_STATE)
SHARD_METADATA = stand_in("torch.distributed._shard.metadata", "ShardMetadata", **HAS_STATE)
REMOTE = stand_in("torch.distributed.remote_device", "_remote_device", **HAS_STATE)
SHARDED_METADATA = stand_in(SHARDED + ".metadata", "ShardedTensorMetadata", **HAS_STATE)
PROPERTIES = stand_in(SHARDED + ".metadata", "TensorProperties", **HAS_STATE)
SPEC = stand_in("torch.distributed._shard.sharding_spec.chunk_sharding_spec", "ChunkShardingSpec", **HAS_STATE)
SHARDED_TENSOR = stand_in(SHARDED + ".api", "ShardedTensor")
FLOAT = stand_in("torch", "FloatStorage")
FLOAT32 = stand_in("torch", "float32")
SIZE = stand_in("torch", "Size")
DEVICE = stand_in("torch", "device")
LAYOUT = stand_in("torch.serialization", "_get_layout")
TENSOR = stand_in("torch._utils", "_rebuild_tensor_v2")
WRAPPER = stand_in("torch._utils", "_rebuild_wrapper_subclass")
FROM_TYPE = stand_in("torch._tensor", "_rebuild_from_type_v2")
STATE = stand_in(SHARDED + ".api", "ShardedTensor.ProcessGroupState", **HAS_STATE)


class Call:
    """function(*arguments) when it is unpickled."""

    def __init__(self, function, *arguments):
        self.called = (function, arguments)

    def __reduce_ex__(self, _):
        return self.called


class Storage:
    def __init__(self, key, numel):
        self.key, self.numel = key, numel


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", FLOAT, obj.key, "cpu", obj.numel) if isinstance(obj, Storage) else None


def box(offset, size, rank):
    placement = filled(REMOTE, {"_worker_name": None, "_rank": rank, "_device": Call(DEVICE, "cpu")})
    return filled(SHARD_METADATA, {"shard_offsets": [offset], "shard_sizes": [size], "placement": placement}, slots=True)


def state_dict(rank, world, units):
    layout, device = Call(LAYOUT, "torch.strided"), Call(DEVICE, "cpu")
    numel = -(-NUMEL // world)
    out = collections.OrderedDict()
    storages = []
    for unit in range(units):
        def size(r):
            return max(0, min(NUMEL, (r + 1) * numel) - min(NUMEL, r * numel))
        held = size(rank)
        storage = Storage(str(unit), held)
        storages.append(held)
        local = Call(TENSOR, storage, 0, (held,), (1,), True, collections.OrderedDict())
        shard = filled(SHARD, {"tensor": local, "metadata": box(rank * numel, held, rank)}, slots=True)
        boxes = [box(r * numel, size(r), r) for r in range(world) if size(r)]
        properties = filled(PROPERTIES, (FLOAT32, layout, True, None, False))
        metadata = filled(SHARDED_METADATA, {"shards_metadata": boxes, "size": Call(SIZE, (NUMEL,)),
                                             "tensor_properties": properties})
        group = filled(STATE, {"local_rank": rank, "global_rank": rank, "local_world_size": world,
                               "global_world_size": world})
        spec = filled(SPEC, {"dim": 0, "placements": [b.state[1]["placement"] for b in boxes]})
        made = Call(WRAPPER, SHARDED_TENSOR, (SHARDED_TENSOR, FLOAT32, (NUMEL,), (1,), 0, layout, device, True),
                    ([shard] if held else [], metadata, group, spec, False))
        made.called = (FROM_TYPE, made.called[0:1] + made.called[1])
        out[f"layers.{unit}._flat_param"] = made
    return out, storages


def write(path, rank, world, units):
    entries, storages = state_dict(rank, world, units)
    stream = io.BytesIO()
    Pickler(stream, protocol=2).dump(entries)
    root = os.path.splitext(os.path.basename(path))[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        def put(name, data):
            z.writestr(zipfile.ZipInfo(f"{root}/{name}", (1980, 1, 1, 0, 0, 0)), data)
        put("data.pkl", stream.getvalue())
        put("byteorder", b"little")
        for key, numel in enumerate(storages):
            put(f"data/{key}", bytes(4 * numel))
        put("version", b"3\n")
    return stream.tell()


def plan(world, units):
    modules = [{"name": "", "class": "Net"}, {"name": "layers", "class": "ModuleList"}]
    parameters, out = [], []
    numel = -(-NUMEL // world)
    for i in range(units):
        modules += [{"name": f"layers.{i}", "class": "FullyShardedDataParallel", "wrapper": "fsdp1"}]
        inner = f"layers.{i}._fsdp_wrapped_module"
        out.append({"module": inner, "visit": len(modules), "api": "fsdp1", "strategy": "FULL_SHARD",
                    "use_orig_params": False, "shard_world_size": world, "replicate_world_size": 1,
                    "flat_parameter": {
                        "dtype": "float32", "requires_grad": True, "fqns": [n for n, _ in PARAMETERS],
                        "shapes": [list(s) for _, s in PARAMETERS], "numels": [64, 64, 8, 192, 192],
                        "unpadded_unsharded_numel": NUMEL, "sharded_numel": numel, "unsharded_numel": numel * world,
                        "shard_numel_padded": [numel - max(0, min(NUMEL, (r + 1) * numel) - min(NUMEL, r * numel))
                                               for r in range(world)]}})
        modules.append({"name": inner, "class": "Block"})
        for part in ("attention", "attention.query", "attention.output", "norm", "feed", "feed.in", "feed.out"):
            modules.append({"name": f"{inner}.{part}", "class": "Linear"})
        parameters += [{"fqn": f"layers.{i}.{n}", "shape": list(s), "dtype": "float32"} for n, s in PARAMETERS]
    return {"format": "fsdp-plan", "version": 1, "world_size": world, "modules": modules,
            "parameter_names": [f"layers.{i}._fsdp_wrapped_module.{n}" for i in range(units) for n, _ in PARAMETERS],
            "parameters": parameters, "buffers": [], "units": out}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=32, help="files to write")
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--world", type=int, help="ranks of the job; those that are written by default")
    parser.add_argument("--plan", action="store_true", help="a sharding plan beside them")
    args = parser.parse_args()
    world = args.world or args.ranks
    os.makedirs(args.folder, exist_ok=True)
    if args.ranks:
        for rank in range(args.ranks):
            write(os.path.join(args.folder, f"rank{rank}.pt"), rank, world, args.units)
    if args.plan:
        with open(os.path.join(args.folder, "net.fsdp-plan.json"), "w", encoding="utf-8") as f:
            json.dump(plan(world, args.units), f)


main()
