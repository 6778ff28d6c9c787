# SPDX-License-Identifier: Apache-2.0
"""The models of the samples, built anew, and how each sample had them wrapped.

Classes, sizes and wrapping are as the samples' plans show them; a plan holds no values,
so weights are whatever torch makes them.
"""
import functools
import importlib.util

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as ac
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (FullyShardedDataParallel as FSDP, MixedPrecision, MixedPrecisionPolicy,
                                    ShardingStrategy, fully_shard)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

CPU = torch.device("cpu")


# ---- the models

class UnitModule(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.l1 = nn.Linear(width, width)
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.l2 = nn.Linear(width, width)

    def forward(self, x):
        return self.l2(self.seq(self.l1(x)))


class CompositeModel(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.l1 = nn.Linear(width, width)
        self.u1 = UnitModule(width)
        self.u2 = UnitModule(width)
        self.l2 = nn.Linear(width, width)

    def forward(self, x):
        return self.l2(self.u2(self.u1(self.l1(x))))


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 5)
        self.b = nn.Linear(5, 3, bias=False)

    def forward(self, x):
        return self.b(self.a(x))


class Block(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)


class TinyTransformer(nn.Module):
    """Its head has the weight of its embedding."""

    def __init__(self, words=37, width=8, inner=20, depth=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, inner) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 5, 3)
        self.bn1 = nn.BatchNorm2d(5)
        self.conv2 = nn.Conv2d(5, 10, 3, bias=False)
        self.bn2 = nn.BatchNorm2d(10)
        self.head = nn.Linear(10, 7)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("scratch", torch.zeros(4), persistent=False)


class TensorParallelNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, 8)
        self.mlp1 = nn.ModuleDict({"up": nn.Linear(8, 16), "down": nn.Linear(16, 8)})
        self.mlp2 = nn.ModuleDict({"up": nn.Linear(8, 16), "down": nn.Linear(16, 8)})
        self.norm = nn.LayerNorm(8)


composite = CompositeModel
composite5 = functools.partial(CompositeModel, 5)
transformer = TinyTransformer
transformer1 = functools.partial(TinyTransformer, 13, 4, 10, 1)


# ---- wrapping

def mesh(*dims):
    """mesh(("dp", 2), ("tp", 2))"""
    return init_device_mesh("cpu", tuple(size for _, size in dims), mesh_dim_names=tuple(name for name, _ in dims))


def dp():
    return mesh(("dp", dist.get_world_size()))


def hybrid():
    return mesh(("dp_replicate", 2), ("dp_shard", 2))


def hybrid_groups():
    """The same by process groups: (who shares a copy, who has the same piece)."""
    rank = dist.get_rank()
    shard = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    replicate = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    return shard[rank // 2], replicate[rank % 2]


def fsdp1(make, orig=True, units=("u1", "u2"), checkpointed=None, frozen=None, groups=None, strategy=None, **given):
    """Units of a composite are wrapped by hand, blocks of a transformer by policy."""
    options = {k: v() if callable(v) else v for k, v in given.items()}
    if strategy:
        options["sharding_strategy"] = ShardingStrategy[strategy]
    if groups:
        options["process_group"] = groups()
    wrap = functools.partial(FSDP, device_id=CPU, use_orig_params=orig, **options)
    model = make()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and frozen in name))
    if isinstance(model, TinyTransformer):
        root = wrap(model, auto_wrap_policy=ModuleWrapPolicy({Block}))
        if checkpointed:
            ac.apply_activation_checkpointing(root, check_fn=lambda m: isinstance(m, Block))
        return root
    for name in units if isinstance(model, CompositeModel) else ():
        unit = getattr(model, name)
        if checkpointed == "inside":
            unit = wrap(ac.checkpoint_wrapper(unit))
        elif checkpointed == "outside":
            unit = ac.checkpoint_wrapper(wrap(unit))
        elif checkpointed == "no units":
            unit = ac.checkpoint_wrapper(unit) if name != "u2" else unit
        else:
            unit = wrap(unit)
        setattr(model, name, unit)
    return wrap(model)


def fsdp2(make, shape=dp, grouped=False, tp=False, **options):
    model, device_mesh = make(), shape()
    options["mesh"] = device_mesh["dp"] if tp else device_mesh
    if tp:
        for mlp in (model.mlp1, model.mlp2):
            parallelize_module(mlp, device_mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    if isinstance(model, CompositeModel):
        units = [[model.u1, model.u2]] if grouped else [model.u1, model.u2]
    elif isinstance(model, TinyTransformer):
        units = model.blocks
    else:
        units = {Pair: lambda: [model.a], TensorParallelNet: lambda: [model.mlp1["up"]]}.get(type(model), list)()
    for unit in units:
        fully_shard(unit, **options)
    return fully_shard(model, **options)


def ddp():
    return nn.parallel.DistributedDataParallel(CompositeModel())


# ---- name of the sample -> how to build it

BF16 = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
TP_MESH = functools.partial(mesh, ("dp", 2), ("tp", 2))


def rows_or_columns(parameter):
    return Shard(1) if parameter.dim() == 2 else Shard(0)


def of(wrap, make, **options):
    return functools.partial(wrap, make, **options)


RECIPES = {
    "fsdp1-full-w2": of(fsdp1, composite),
    "fsdp1-full-w2-optim": of(fsdp1, transformer),
    "fsdp1-full-w2-conv": of(fsdp1, ConvNet),
    "fsdp1-full-w4-hybrid": of(fsdp1, composite5, strategy="HYBRID_SHARD", device_mesh=hybrid),
    "fsdp1-local-w2-orig": of(fsdp1, composite),
    "fsdp1-local-w2-flat": of(fsdp1, composite, orig=False),
    "fsdp1-local-w2-conv": of(fsdp1, ConvNet),
    "fsdp1-local-w2-zero2": of(fsdp1, composite, strategy="SHARD_GRAD_OP"),
    "fsdp1-local-w2-noshard": of(fsdp1, composite, strategy="NO_SHARD"),
    "fsdp1-local-w2-ac-inside": of(fsdp1, composite, orig=False, checkpointed="inside"),
    "fsdp1-local-w2-ac-outside": of(fsdp1, composite, checkpointed="outside"),
    "fsdp1-local-w2-ac-in-root": of(fsdp1, composite, orig=False, checkpointed="no units", units=("l1", "u1")),
    "fsdp1-local-w3-uneven": of(fsdp1, composite5),
    "fsdp1-local-w4-orig": of(fsdp1, composite5),
    "fsdp1-local-w4-flat": of(fsdp1, composite5, orig=False),
    "fsdp1-sharded-w2-orig": of(fsdp1, composite),
    "fsdp1-sharded-w2-flat": of(fsdp1, composite, orig=False),
    "fsdp1-sharded-w2-ac": of(fsdp1, transformer1, checkpointed="blocks"),
    "fsdp1-sharded-w2-dtensor-flat": of(fsdp1, composite5, orig=False, device_mesh=dp),
    "fsdp1-sharded-w2-frozen": of(fsdp1, composite, frozen="l1"),
    "fsdp1-sharded-w2-mixed-precision": of(fsdp1, composite5, mixed_precision=MixedPrecision(**BF16)),
    "fsdp1-sharded-w2-noshard": of(fsdp1, composite, strategy="NO_SHARD"),
    "fsdp1-sharded-w2-optim": of(fsdp1, composite),
    "fsdp1-sharded-w3-orig": of(fsdp1, transformer1),
    "fsdp1-sharded-w3-flat": of(fsdp1, transformer1, orig=False),
    "fsdp1-sharded-w4-dtensor": of(fsdp1, transformer1, device_mesh=dp),
    "fsdp1-sharded-w4-hybrid": of(fsdp1, composite5, strategy="HYBRID_SHARD", groups=hybrid_groups),
    "fsdp1-sharded-w4-hybrid-dtensor": of(fsdp1, composite5, strategy="HYBRID_SHARD", device_mesh=hybrid),
    "fsdp2-w2": of(fsdp2, composite),
    "fsdp2-w2-dim1": of(fsdp2, composite, shard_placement_fn=rows_or_columns),
    "fsdp2-w2-grouped": of(fsdp2, composite, grouped=True),
    "fsdp2-w2-mixed-precision": of(fsdp2, composite, mp_policy=MixedPrecisionPolicy(**BF16),
                                   reshard_after_forward=False),
    "fsdp2-w2-optim": of(fsdp2, transformer),
    "fsdp2-w4-empty-shard": of(fsdp2, ConvNet),
    "fsdp2-w4-hsdp": of(fsdp2, composite, shape=hybrid),
    "fsdp2-w4-reshard-int": of(fsdp2, composite, reshard_after_forward=2),
    "fsdp2-w4-tp": of(fsdp2, TensorParallelNet, shape=TP_MESH, tp=True),
    "fsdp2-w4-transformer": of(fsdp2, transformer),
    "fsdp2-w4-uneven": of(fsdp2, composite5),
    "fsdp1-sharded-w2-verl-names": of(fsdp1, transformer1, device_mesh=dp),
    "fsdp1-sharded-w4-optim-dtensor": of(fsdp1, transformer1, device_mesh=dp),
    "dcp-async": of(fsdp2, Pair),
    "dcp-ddp-w2": ddp,
    "dcp-ddp-w2-dedup-lowest": ddp,
    "dcp-file-per-item": of(fsdp2, Pair),
    "dcp-fsdp1-w2": of(fsdp1, composite),
    "dcp-fsdp1-w2-ac": of(fsdp1, transformer1, checkpointed="blocks"),
    "dcp-fsdp1-w2-adam": of(fsdp1, Pair),
    "dcp-fsdp1-w4-flat": of(fsdp1, composite5, orig=False),
    "dcp-fsdp1-w4-hybrid": of(fsdp1, composite5, strategy="HYBRID_SHARD", device_mesh=hybrid),
    "dcp-fsdp2-w1": of(fsdp2, transformer1),
    "dcp-fsdp2-w2": of(fsdp2, transformer1),
    "dcp-fsdp2-w2-sgd": of(fsdp2, composite),
    "dcp-fsdp2-w4": of(fsdp2, transformer1),
    "dcp-fsdp2-w4-conv": of(fsdp2, ConvNet),
    "dcp-fsdp2-w4-hsdp": of(fsdp2, composite, shape=hybrid),
    "dcp-fsdp2-w4-small": of(fsdp2, Pair),
    "dcp-fsdp2-w4-tp": of(fsdp2, TensorParallelNet, shape=TP_MESH, tp=True),
    "dcp-threads": of(fsdp2, transformer1),
}


# Samples that an older torch cannot make.
NEWER = set() if hasattr(MixedPrecisionPolicy(), "param_dtype_override_fn") else {"fsdp2-w2-param-dtypes"}
if not NEWER:
    RECIPES["fsdp2-w2-param-dtypes"] = of(fsdp2, composite, mp_policy=MixedPrecisionPolicy(
        **BF16, param_dtype_override_fn=lambda p: p.dtype if p.ndim == 1 else None))


def world_of(name):
    """As the name says, else 2."""
    said = [int(part[1:]) for part in name.split("-") if part[0] == "w" and part[1:].isdigit()]
    return said[0] if said else 2


# ---- models that no sample has

def fsdp(module, **options):
    return FSDP(module, device_id=CPU, **options)


def tied_flat():
    return fsdp1(transformer1, orig=False)


def reached_twice():
    inner = fsdp(nn.Linear(4, 4), use_orig_params=True)
    return fsdp(nn.Sequential(nn.Linear(4, 4), nn.Sequential(inner), nn.Sequential(inner)), use_orig_params=True)


def only_children():
    """The root unit has no parameters of its own, and so no handle."""
    return fsdp(nn.Sequential(fsdp(nn.Linear(3, 5)), nn.ReLU(), fsdp(nn.Linear(5, 2))))


def ignored():
    model = CompositeModel()
    return fsdp(model, ignored_modules=[model.u1], use_orig_params=True)


def frozen_unit():
    model = CompositeModel()
    model.u1.requires_grad_(False)
    model.u1 = fsdp(model.u1)
    return fsdp(model)


def compiled():
    """No code is compiled before the first forward."""
    model = CompositeModel()
    model.u1 = fsdp(torch.compile(model.u1), use_orig_params=True)
    return fsdp(model, use_orig_params=True)


def compiled_root():
    return torch.compile(fsdp1(composite))


def buffers_cast():
    """After a forward, mixed precision has cast the buffers."""
    layer = nn.Linear(4, 4)
    layer.register_buffer("history", torch.zeros(3))
    model = fsdp(nn.Sequential(layer), mixed_precision=MixedPrecision(buffer_dtype=torch.bfloat16))
    model(torch.ones(2, 4))
    assert layer.history.dtype == torch.bfloat16
    return model


def after_a_step():
    model = fsdp1(composite)
    model(torch.ones(2, 6)).sum().backward()
    return model


def plain():
    return CompositeModel()


def two_meshes():
    """FSDP2 units on meshes of which neither is part of the other."""
    model = Pair()
    fully_shard(model.a, mesh=mesh(("ep", dist.get_world_size())))
    return fully_shard(model, mesh=dp())


def replicated():
    from torch.distributed._composable.replicate_with_fsdp import replicate

    return replicate(Pair(), mesh=dp())


def fsdp2_after_a_step():
    model = fsdp2(composite)
    model(torch.ones(2, 6)).sum().backward()
    return model


ODD = [tied_flat, reached_twice, only_children, ignored, frozen_unit, compiled, compiled_root, buffers_cast,
       after_a_step, plain, two_meshes]
# torch 2.6 has no replicate() that is built on FSDP2, and runs no model of FSDP2 on a CPU.
if importlib.util.find_spec("torch.distributed._composable.replicate_with_fsdp"):
    ODD += [replicated, fsdp2_after_a_step]
