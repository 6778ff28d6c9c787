#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts of training frameworks as their writers cut them, made here from plain dicts.

Worlds of two digits, tensor and pipeline parallelism, experts: what would be large as files
is small as a rule. Every layout is written with torch.save by the published formulas, and the
bytes at the places that `show` names, gathered without the program's help, are compared with
the tensors they were cut from. Without torch the test is skipped.
"""
import argparse
import math
import os
import sys
import tempfile
import types
from collections import OrderedDict

from oraclelib import Tap, arguments, envelope, run, same, skip_all

try:
    import torch
except ImportError:
    torch = None

WORLD = 12
TAG = "global_step4"


class Layout:
    """A folder that is written, and what has to be read back from it."""

    def __init__(self, folder, family, world):
        self.folder, self.family, self.world = folder, family, world
        self.tensors = {}  # name: tensor
        self.own = {}      # (name, rank): tensor
        self.copies = {}   # name: tensor, for training
        self.others = set()
        self.errors = []
        self.notes = 0

    def save(self, value, *path):
        path = os.path.join(self.folder, *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        torch.save(value, path)

    def text(self, text, *path):
        path = os.path.join(self.folder, *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def seeded(*shape, seed=[0]):
    seed[0] += 1
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed[0]))


def net(blocks=2):
    names = [("embed.weight", (7, 3))]
    for i in range(blocks):
        names += [(f"blocks.{i}.up.weight", (5, 3)), (f"blocks.{i}.up.bias", (5,)), (f"blocks.{i}.norm.weight", (3,))]
    return OrderedDict((n, seeded(*s)) for n, s in names)


# ---- DeepSpeed

def cut(flat, ranks):
    """A group's partitions: the sum rounded up to 2 W elements, in W equal parts."""
    length = math.ceil(flat.numel() / (2 * ranks)) * 2 * ranks
    return torch.cat([flat, flat.new_zeros(length - flat.numel())]).chunk(ranks)


def states(module, shapes, stage, data, model=1, **more):
    return dict(module=module, buffer_names=[], optimizer=None, param_shapes=shapes, frozen_param_shapes=None,
                frozen_param_fragments=None, shared_params={}, lr_scheduler=None, global_steps=4, dp_world_size=data,
                mp_world_size=model, ds_config={"zero_optimization": dict(stage=stage, **more)}, ds_version="0.19.8")


def optimizer(stage, groups, moments, counts, **more):
    return dict(optimizer_state_dict=dict(
        zero_stage=stage, partition_count=counts, single_partition_of_fp32_groups=groups,
        base_optimizer_state=dict(state={g: dict(exp_avg=m) for g, m in enumerate(moments)}, param_groups=[]), **more))


def shapes_of(tensors):
    return OrderedDict((n, t.shape) for n, t in tensors.items())


def half(tensors):
    return OrderedDict((n, t.bfloat16()) for n, t in tensors.items())


def flat_of(tensors, paddings=None):
    parts = []
    for i, t in enumerate(tensors.values()):
        parts += [t.reshape(-1), t.new_zeros(paddings[i] if paddings else 0)]
    return torch.cat(parts)


class Fragment:
    """DeepSpeed's fragment_address, under its name there."""

    def __init__(self, numel, start):
        self.numel, self.start = numel, start


def name_fragment():
    Fragment.__module__, Fragment.__qualname__ = "deepspeed.utils.tensor_fragment", "fragment_address"
    for name in ("deepspeed", "deepspeed.utils", Fragment.__module__):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[Fragment.__module__].fragment_address = Fragment


def mappings(order, paddings, part, rank):
    """What is a rank's of each parameter."""
    found, begin = OrderedDict(), 0
    for (name, t), padding in zip(order.items(), paddings):
        low, high = max(begin, rank * part), min(begin + t.numel(), (rank + 1) * part)
        if low < high:
            found[name] = Fragment(high - low, low - rank * part)
        begin += t.numel() + padding
    return found


def zero_cut(layout, stage, round_robin=False, aligned=False, mapped=False, shapes=True, recorded=True, notes=0):
    """ZeRO 1 and 2 over WORLD ranks: trailing ranks are short, or empty. What is not recorded of an alignment
    only the mappings tell; they follow the model's order, also where the buffers do not."""
    name_fragment()
    tensors = net()
    decayed = OrderedDict((n, t) for n, t in tensors.items() if t.dim() > 1)
    plain = OrderedDict((n, t) for n, t in tensors.items() if t.dim() < 2)
    told = [decayed, plain]
    if round_robin:
        decayed = OrderedDict(reversed(decayed.items()))
    groups = [decayed, plain]
    paddings = [[(-t.numel()) % 4 for t in g.values()] if aligned else [0] * len(g) for g in groups]
    flats = [flat_of(g, p) for g, p in zip(groups, paddings)]
    layout.save(states(half(tensors), [shapes_of(g) for g in groups] if shapes else None, stage, WORLD,
                       round_robin_gradients=round_robin), TAG, "mp_rank_00_model_states.pt")
    for rank in range(WORLD):
        own, moments = [], []
        for flat in flats:
            part = cut(flat, WORLD)[rank]
            size = min(max(flat.numel() - rank * part.numel(), 0), part.numel())
            own.append(part[:size].clone())
            moments.append(part * 0.5)
        more = dict(param_alignment_paddings=paddings) if recorded else {}
        if mapped:
            more["param_slice_mappings"] = [mappings(g, p, cut(f, WORLD)[0].numel(), rank)
                                            for g, p, f in zip(told, paddings, flats)]
        layout.save(optimizer(stage, own, moments, [WORLD] * 2, **more), TAG,
                    f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    layout.text(TAG, "latest")
    layout.tensors = {**tensors, **{f"state.{n}.exp_avg": t * 0.5 for n, t in tensors.items()}}
    layout.notes = notes


def zero_parts(layout):
    """ZeRO 3: of each parameter every rank has one part; groups end anywhere."""
    tensors = net()
    frozen = "blocks.1.up.bias"
    for rank in range(WORLD):
        def part(t):
            size = math.ceil(t.numel() / WORLD)
            own = t.reshape(-1)[rank * size:(rank + 1) * size]
            return torch.cat([own, own.new_zeros(size - own.numel())])
        stream = torch.cat([part(t) for n, t in tensors.items() if n != frozen])
        flats = [p.clone() for p in stream.split([3, stream.numel() - 3])]
        model = states(OrderedDict((n, torch.empty(0)) for n in tensors),
                       [shapes_of({n: t for n, t in tensors.items() if n != frozen})], 3, WORLD)
        model.update(frozen_param_shapes={frozen: tensors[frozen].shape},
                     frozen_param_fragments={frozen: part(tensors[frozen])})
        layout.save(model, TAG, f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        layout.save(dict(optimizer_state_dict=dict(
            zero_stage=3, partition_count=WORLD, fp32_flat_groups=flats,
            optimizer_state_dict=dict(state={k: dict(exp_avg=f * 0.5) for k, f in enumerate(flats)}, param_groups=[]))),
            TAG, f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    layout.text(TAG, "latest")
    layout.tensors = {**tensors, **{f"state.{n}.exp_avg": t * 0.5 for n, t in tensors.items() if n != frozen}}


def save_slice(layout, model, data, tensors, ranks):
    """One tensor- or pipeline-parallel rank's files; its tensors go by the ranks of the save."""
    flat = flat_of(tensors)
    for rank in range(data):
        layout.save(optimizer(1, [cut(flat, data)[rank].clone()], [cut(flat, data)[rank] * 0.5], [data]), TAG,
                    f"bf16_zero_pp_rank_{rank}_mp_rank_{model:02d}_optim_states.pt")
    for n, t in tensors.items():
        begin = 0
        for other, value in tensors.items():
            if other == n:
                break
            begin += value.numel()
        first = ranks[begin // cut(flat, data)[0].numel()]
        layout.own[n, first] = t
        layout.own[f"state.{n}.exp_avg", first] = t * 0.5


def tensor_parallel(layout, model=10, data=2):
    for m in range(model):
        tensors = OrderedDict([("up.weight", seeded(4, 3)), ("norm.weight", torch.ones(3))])
        layout.save(states(half(tensors), [shapes_of(tensors)], 1, data, model), TAG,
                    f"mp_rank_{m:02d}_model_states.pt")
        save_slice(layout, m, data, tensors, [d * model + m for d in range(data)])
        for n, t in half(tensors).items():
            layout.own["module." + n, m] = t
    layout.text(TAG, "latest")
    layout.notes = 1


# What a model tells the universal converter: names, shapes and how they are cut.
CUT = OrderedDict([
    ("embed.word.weight", ((20, 3), 0)), ("embed.position.weight", ((4, 3), None)),
    ("layers.0.attn.qkv.weight", ((12, 3), 0)), ("layers.0.attn.qkv.bias", ((12,), 0)),
    ("layers.0.attn.dense.weight", ((3, 12), 1)), ("layers.0.attn.dense.bias", ((3,), None)),
    ("layers.0.mlp.gate_up.weight", ((16, 3), "halves")), ("layers.0.mlp.gate_up.bias", ((16,), "halves")),
    ("layers.10.mlp.down.weight", ((5, 8), 1)), ("layers.0.drift", ((3,), "mean"))])
PATTERNS = dict(
    universal_checkpoint_version=0.2, original_vocab_size=18, padded_vocab_size=20,
    vocabulary_parameter_patterns=["embed.word.weight"],
    pipeline_replicated_parameter_patterns=[],
    tp_replicated_parameter_patterns=[r"embed\.position.weight", r"^layers.\d+\.attn\.dense\.bias$"],
    parameter_to_average_patterns=[r".*drift"],
    parameter_with_row_parallelism_patterns=[r"layers.\d+.attn.dense.weight", r"layers\.\d+\.m\w*\.down"],
    parameter_with_2_sub_params_cat_dim_0=[r"layers.\d+.mlp.gate_?up.(weight|bias)"])


def part_of(whole, cut_along, part, parts):
    if cut_along is None:
        return whole.clone()
    if cut_along == "halves":
        return torch.cat([h.chunk(parts)[part] for h in whole.chunk(2)])
    return whole.chunk(parts, cut_along)[part].clone().contiguous()


def tensor_parallel_told(layout, model=4, data=3, understood=True):
    whole = OrderedDict((n, seeded(*shape)) for n, (shape, _) in CUT.items())
    told = dict(PATTERNS)
    if understood:
        told["parameter_with_2_sub_params_cat_dim_0"] = [r"layers.\d+.mlp.gate_?up.weight", r"layers.*up.bias"]
    for m in range(model):
        tensors = OrderedDict((n, seeded(3) if CUT[n][1] == "mean" else part_of(t, CUT[n][1], m, model))
                              for n, t in whole.items())
        top = states(half(tensors), [shapes_of(tensors)], 1, data, model)
        top["universal_checkpoint_info"] = told
        layout.save(top, TAG, f"mp_rank_{m:02d}_model_states.pt")
        save_slice(layout, m, data, tensors, [d * model + m for d in range(data)])
        for n, t in half(tensors).items():
            layout.own["module." + n, m] = t
    layout.text(TAG, "latest")
    layout.notes = 1
    if understood:
        layout.own = {k: t for k, t in layout.own.items() if "drift" in k[0]}
        joined = {n: t for n, t in whole.items() if CUT[n][1] != "mean"}
        layout.tensors = {**joined, **{f"state.{n}.exp_avg": t * 0.5 for n, t in joined.items()}}
        layout.copies = {"module." + n: t for n, t in half(joined).items()}


def pipeline(layout, stages=2, model=2, data=2):
    for stage in range(stages):
        for part in range(model):
            tensors = OrderedDict((f"{i}.{n}", seeded(2, 3)) for i in (2 * stage, 2 * stage + 1)
                                  for n in ("attn.weight", "fc.weight"))
            layout.save(states(None, [shapes_of(tensors)], 1, data, stages * model), TAG,
                        f"mp_rank_{stage * model + part:02d}_model_states.pt")
            ranks = [(stage * data + d) * model + part for d in range(data)]
            save_slice(layout, stage * model + part, data, tensors, ranks)
            for i in (2 * stage, 2 * stage + 1):
                own = half({n.split(".", 1)[1]: t for n, t in tensors.items() if n.startswith(f"{i}.")})
                layout.save(own, TAG, f"layer_{i:02d}-model_{part:02d}-model_states.pt")
                for n, t in own.items():
                    layout.own[f"module.{i}.{n}", ranks[0]] = t
    layout.text(TAG, "latest")
    layout.notes = 1


def experts(layout, ranks=2):
    """Each rank has an expert of its own, beside what all share."""
    dense = OrderedDict([("gate.weight", seeded(3, 2)), ("norm.weight", seeded(5))])
    flat = flat_of(dense)
    name = "moe.deepspeed_moe.experts.deepspeed_experts.%d.fc.weight"
    one = {name % 0: seeded(2, 2)}
    layout.save(states(half(dense), [shapes_of(dense), shapes_of(one)], 1, ranks), TAG, "mp_rank_00_model_states.pt")
    for rank in range(ranks):
        weight = seeded(2, 2)
        layout.save(optimizer(1, [cut(flat, ranks)[rank].clone(), weight.reshape(-1)],
                              [cut(flat, ranks)[rank] * 0.5, weight.reshape(-1) * 0.5], [ranks, 1]), TAG,
                    f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        layout.save(half({name % rank: weight}), TAG, f"layer_0_expert_{rank}_mp_rank_00_model_states.pt")
        layout.tensors[name % rank] = weight.bfloat16()
        stored = "optimizer_state_dict."
        layout.own[stored + "single_partition_of_fp32_groups.1", rank] = weight.reshape(-1)
        layout.own[stored + "base_optimizer_state.state.1.exp_avg", rank] = weight.reshape(-1) * 0.5
    layout.text(TAG, "latest")
    layout.tensors.update(dense)
    layout.tensors.update((f"state.{n}.exp_avg", t * 0.5) for n, t in dense.items())
    layout.notes = 1


def pipeline_tied(layout, stages=2, data=2):
    """A parameter that both ends of a pipeline have, as the model tells."""
    tied = seeded(4, 3)
    told = dict(universal_checkpoint_version=0.2,
                pipeline_replicated_parameter_patterns=[r"tied_modules\.embed\.weight"])
    for stage in range(stages):
        tensors = OrderedDict([("tied_modules.embed.weight", tied), (f"{stage + 1}.weight", seeded(2, 3))])
        top = states(None, [shapes_of(tensors)], 1, data, stages)
        top["universal_checkpoint_info"] = told
        layout.save(top, TAG, f"mp_rank_{stage:02d}_model_states.pt")
        save_slice(layout, stage, data, tensors, [stage * data + d for d in range(data)])
        layout.save(half({"weight": tensors[f"{stage + 1}.weight"]}), TAG,
                    f"layer_{stage + 1:02d}-model_00-model_states.pt")
        layout.tensors.update(tensors)
    layout.own = {}
    layout.text(TAG, "latest")
    layout.tensors.update({f"state.{n}.exp_avg": t * 0.5 for n, t in layout.tensors.items()})


def universal(layout):
    """One tensor a file; a state that is missing and one of another shape are said."""
    tensors = net(1)
    top = states(half(tensors), [shapes_of(tensors)], 2, WORLD)
    top["module"]["scale"] = torch.ones(3)
    top["buffer_names"] = ["scale"]
    layout.save(top, TAG, "mp_rank_00_model_states.pt")
    for n, t in [*tensors.items(), ("scale", torch.ones(3))]:
        layout.save({"param": t}, TAG, "zero", n, "fp32.pt")
        layout.tensors[n] = t
        if n in ("scale", "embed.weight"):
            continue
        moment = torch.cat([t, t]) if n == "blocks.0.up.bias" else t * 0.5
        layout.save({"param": moment}, TAG, "zero", n, "exp_avg.pt")
        layout.tensors[f"state.{n}.exp_avg"] = moment
    layout.save({"param_groups": [{"lr": 0.1}]}, TAG, "zero", "optimizer_state.pt")
    layout.text(TAG, "latest_universal")
    layout.errors = ["missing file (other parameters have one)"]
    layout.notes = 1


# ---- ranks of torch's own sharding

def as_rank(rank):
    """A process group that only claims to be one: sharded tensors of any rank in one process."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=WORLD)


def verl(layout):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard
    whole = {"embed.weight": seeded(17, 3), "norm.weight": seeded(5)}
    for rank in range(WORLD):
        as_rank(rank)
        mesh = DeviceMesh("cpu", list(range(WORLD)), mesh_dim_names=("fsdp",))

        def place(t):
            rows = math.ceil(t.shape[0] / WORLD)
            own = t[min(rank * rows, t.shape[0]):(rank + 1) * rows].clone()
            return DTensor.from_local(own, mesh, [Shard(0)], run_check=False, shape=t.shape, stride=t.stride())
        base = f"world_size_{WORLD}_rank_{rank}.pt"
        folder = ("global_step_7", "actor")
        layout.save({n: place(t) for n, t in whole.items()}, *folder, "model_" + base)
        layout.save({"state": {i: {"exp_avg": place(t * 0.5), "step": torch.tensor(7.0)}
                               for i, t in enumerate(whole.values())}, "param_groups": []}, *folder, "optim_" + base)
        state = torch.full((16,), rank, dtype=torch.uint8)
        layout.save({"lr_scheduler": {"last_epoch": 7}, "rng": {"cpu": state}}, *folder, "extra_state_" + base)
        layout.own["rng.cpu", rank] = state
    layout.text("7", "latest_checkpointed_iteration.txt")
    layout.text("{}", "global_step_7", "actor", "fsdp_config.json")
    layout.tensors = dict(whole)
    for i, t in enumerate(whole.values()):
        layout.tensors[f"state.{i}.exp_avg"] = t * 0.5
        layout.tensors[f"state.{i}.step"] = torch.tensor(7.0)


def accelerate_local(layout):
    """FSDP1 with use_orig_params: parameters are runs of the flat shard that a rank holds."""
    from torch.distributed._shard.metadata import ShardMetadata
    from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor
    from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
    tensors = net()
    flat = flat_of(tensors)
    size = math.ceil(flat.numel() / WORLD)
    flat = torch.cat([flat, flat.new_zeros(size * WORLD - flat.numel())])
    marks = [ShardMetadata([size * i], [size], f"rank:{i}/cpu") for i in range(WORLD)]
    for rank in range(WORLD):
        as_rank(rank)
        own = flat[rank * size:(rank + 1) * size].clone()
        found = OrderedDict(scale=torch.arange(3.0))
        begin = 0
        for n, t in tensors.items():
            low, high = max(begin, rank * size), min(begin + t.numel(), (rank + 1) * size)
            found[n] = own[low - rank * size:high - rank * size] if low < high else torch.empty(0)
            begin += t.numel()
        found["_flat_param"] = ShardedTensor._init_from_local_shards_and_global_metadata(
            [Shard(own, marks[rank])], ShardedTensorMetadata(marks, flat.shape, TensorProperties()))
        layout.save(found, f"pytorch_model_fsdp_rank{rank}.bin")
        state = torch.full((16,), rank, dtype=torch.uint8)
        layout.save({"step": 0, "torch_manual_seed": state}, f"random_states_{rank}.pkl")
        layout.own["random_states.torch_manual_seed", rank] = state
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    dist.destroy_process_group()
    moments = {f"optimizer.state.{n}.exp_avg": t * 0.5 for n, t in tensors.items()}
    counts = {f"optimizer.state.{n}.step": torch.tensor(9.0) for n in tensors}
    dcp.save({**moments, **counts}, checkpoint_id=os.path.join(layout.folder, "optimizer_0"), no_dist=True)
    layout.tensors = {"scale": torch.arange(3.0), **tensors}
    layout.tensors.update((n[len("optimizer."):], t) for n, t in {**moments, **counts}.items())
    layout.others = {"_flat_param"}


# ---- Megatron-LM

def megatron(layout, parts=10):
    whole = {"embedding.word_embeddings.weight": (seeded(20, 3), 0), "output_layer.weight": (seeded(20, 3), 0),
             "decoder.layers.0.mlp.linear_fc2.weight": (seeded(3, 20), 1),
             "decoder.final_layernorm.weight": (seeded(3), None)}
    for part in range(parts):
        model = {n: (t if dim is None else t.chunk(parts, dim)[part]).clone().contiguous()
                 for n, (t, dim) in whole.items()}
        state = torch.full((16,), part, dtype=torch.uint8)
        moment = seeded(4)
        layout.save(dict(args=argparse.Namespace(tensor_model_parallel_size=parts, pipeline_model_parallel_size=1),
                         checkpoint_version=3.0, iteration=5, model=model, rng_state=[dict(torch_rng_state=state)],
                         optimizer=dict(state={0: dict(exp_avg=moment)})),
                    "iter_0000005", f"mp_rank_{part:02d}", "model_optim_rng.pt")
        layout.own["rng_state.0.torch_rng_state", part] = state
        layout.own["optimizer.state.0.exp_avg", part] = moment
    layout.text("5", "latest_checkpointed_iteration.txt")
    layout.tensors = {n: t for n, (t, _) in whole.items()}


def megatron_virtual(layout, stages=2, chunks=2):
    """Interleaved stages: the first parts of all of them are before the second ones."""
    for stage in range(stages):
        top = dict(args=argparse.Namespace(tensor_model_parallel_size=1, pipeline_model_parallel_size=stages),
                   checkpoint_version=3.0, iteration=5)
        for chunk in range(chunks):
            weight = seeded(3)
            top[f"model{chunk}"] = {"decoder.layers.0.input_layernorm.weight": weight}
            layout.tensors[f"decoder.layers.{chunk * stages + stage}.input_layernorm.weight"] = weight
        layout.save(top, "iter_0000005", f"mp_rank_00_{stage:03d}", "model_optim_rng.pt")
    layout.text("5", "latest_checkpointed_iteration.txt")


def megatron_experts(layout, ranks=2):
    norm = seeded(3)
    name = "decoder.layers.0.mlp.experts.local_experts.%d.linear_fc1.weight"
    for rank in range(ranks):
        own = [seeded(4, 3), seeded(4, 3)]
        layout.save(dict(args=argparse.Namespace(tensor_model_parallel_size=1, pipeline_model_parallel_size=1,
                                                 expert_model_parallel_size=ranks), iteration=5,
                         model={"decoder.final_layernorm.weight": norm, name % 0: own[0], name % 1: own[1]}),
                    "iter_0000005", f"mp_rank_00_{rank:03d}", "model_optim_rng.pt")
        for i, weight in enumerate(own):
            layout.tensors[name % (2 * rank + i)] = weight
    layout.tensors["decoder.final_layernorm.weight"] = norm
    layout.text("5", "latest_checkpointed_iteration.txt")


# ---- files of plain tensors, of which nothing says how they were cut

def slices(layout, name, even=True):
    """What all ranks have alike is a copy; the rest is each rank's own."""
    norm, empty = seeded(4), torch.empty(0, 4)
    layout.tensors = {"norm.weight": norm, "empty": empty}
    for rank in range(WORLD):
        own = {"fc.weight": seeded(3, 4), "vocabulary": seeded(3 if even else 3 + rank % 2, 4)}
        layout.save({**own, "norm.weight": norm.clone(), "empty": empty.clone()}, name % rank)
        layout.own.update(((n, rank), t) for n, t in own.items())
    layout.notes = 1


def copies(layout, ranks=3):
    layout.tensors = {"fc.weight": seeded(3, 4), "norm.weight": seeded(4)}
    for rank in range(ranks):
        layout.save({n: t.clone() for n, t in layout.tensors.items()}, f"model_rank{rank}.pt")


def uncounted(layout, ranks=2):
    """Without a CRC nobody knows whether they are copies."""
    weight = seeded(3, 4)
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    for rank in range(ranks):
        layout.save({"fc.weight": weight.clone()}, f"model_rank{rank}.pt")
        layout.own["fc.weight", rank] = weight
    torch.serialization.set_crc32_options(before)
    layout.notes = 1


LAYOUTS = (
    ("DeepSpeed ZeRO 1", "deepspeed-zero1", WORLD, lambda l: zero_cut(l, 1)),
    ("DeepSpeed ZeRO 2, round robin", "deepspeed-zero2", WORLD, lambda l: zero_cut(l, 2, round_robin=True, notes=1)),
    ("DeepSpeed ZeRO 2, round robin and mappings", "deepspeed-zero2", WORLD,
     lambda l: zero_cut(l, 2, round_robin=True, mapped=True, notes=1)),
    ("DeepSpeed ZeRO 2, aligned", "deepspeed-zero2", WORLD, lambda l: zero_cut(l, 2, aligned=True, mapped=True)),
    ("DeepSpeed ZeRO 2, aligned, told by mappings", "deepspeed-zero2", WORLD,
     lambda l: zero_cut(l, 2, aligned=True, mapped=True, recorded=False, notes=2)),
    ("DeepSpeed ZeRO 1, told by mappings", "deepspeed-zero1", WORLD,
     lambda l: zero_cut(l, 1, mapped=True, shapes=False, notes=1)),
    ("DeepSpeed ZeRO 2, aligned, told by mappings alone", "deepspeed-zero2", WORLD,
     lambda l: zero_cut(l, 2, aligned=True, mapped=True, shapes=False, recorded=False, notes=1)),
    ("DeepSpeed ZeRO 3", "deepspeed-zero3", WORLD, zero_parts),
    ("DeepSpeed, tensor parallel", "deepspeed-zero1", 20, tensor_parallel),
    ("DeepSpeed, tensor parallel, put together", "deepspeed-zero1", WORLD, tensor_parallel_told),
    ("DeepSpeed, tensor parallel, not understood", "deepspeed-zero1", WORLD,
     lambda l: tensor_parallel_told(l, understood=False)),
    ("DeepSpeed, pipeline", "deepspeed-zero1", 8, pipeline),
    ("DeepSpeed, pipeline with a tied parameter", "deepspeed-zero1", 4, pipeline_tied),
    ("DeepSpeed, universal", "deepspeed-universal", WORLD, universal),
    ("DeepSpeed, experts", "deepspeed-zero1", 2, experts),
    ("verl", "verl-fsdp", WORLD, verl),
    ("Accelerate, LOCAL", "accelerate", WORLD, accelerate_local),
    ("Megatron-LM", "megatron-legacy", 10, megatron),
    ("Megatron-LM, interleaved stages", "megatron-legacy", 2, megatron_virtual),
    ("Megatron-LM, experts", "megatron-legacy", 2, megatron_experts),
    ("tensor-parallel slices", "rank-set", WORLD, lambda l: slices(l, "tp_%d.pt")),
    ("tensor-parallel slices, uneven", "rank-set", WORLD, lambda l: slices(l, "mp_rank_%02d.pt", even=False)),
    ("rank files that differ", "rank-set", WORLD, lambda l: slices(l, "model_rank%d.pt")),
    ("rank files that are copies", "rank-set", 3, copies),
    ("rank files without CRC", "rank-set", 2, uncounted),
)


# ---- reading back

def gather(item, files, width):
    """The bytes of a tensor, from the places that are named."""
    shape = item["shape"]
    total = math.prod(shape)
    index = torch.arange(total).reshape(shape)
    out = bytearray(total * width)
    seen = 0
    for piece in item["pieces"]:
        if not piece["length"]:
            continue
        with open(os.path.join(files, piece["file"]), "rb") as f:
            f.seek(piece["offset"])
            data = f.read(piece["length"])
        if "param_start" in piece:
            at = list(range(piece["param_start"], piece["param_end"] + 1))
        elif piece.get("sizes") is not None and shape:
            part = index
            for dim, (begin, size) in enumerate(zip(piece.get("offsets") or [0] * len(shape), piece["sizes"])):
                part = part.narrow(dim, begin, size)
            at = part.reshape(-1).tolist()
        else:
            at = list(range(total))
        for i, place in enumerate(at):
            out[place * width:(place + 1) * width] = data[i * width:(i + 1) * width]
        seen += len(at)
    return bytes(out) if seen >= total else None


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def check_item(layout, item, problems):
    name = item["name"]
    rank = min((p["rank"] for p in item["pieces"] if p.get("rank") is not None), default=None)
    want = layout.own.get((name, rank), layout.tensors.get(name, layout.copies.get(name)))
    if want is None:
        problems.append(f"{name} of rank {rank} was not written")
        return
    same(problems, f"{name}: shape", item["shape"], list(want.shape))
    same(problems, f"{name}: dtype", item["dtype"], str(want.dtype)[len("torch."):])
    if item["shape"] == list(want.shape) and gather(item, layout.folder, want.element_size()) != raw(want):
        problems.append(f"{name} of rank {rank}: other bytes")


def check(args, layout):
    problems = []
    info = envelope(run(args, "info", "--json", layout.folder), problems)
    listed = envelope(run(args, "ls", "--json", layout.folder), problems)
    if info is None or listed is None:
        return problems
    same(problems, "family", info["data"]["format"]["family"], layout.family)
    same(problems, "world size", info["data"]["world_size"], layout.world)
    same(problems, "errors", [f["message"] for f in info["findings"] if f["severity"] == "error"], layout.errors)
    names = [t["name"] for t in listed["data"]["tensors"] if t["name"] not in layout.others and
             (not t["name"].startswith("module.") or (t["name"], t.get("rank")) in layout.own or
              t["name"] in layout.copies)]
    want = [*layout.tensors, *layout.copies, *(n for n, _ in layout.own)]
    same(problems, "names", sorted(names), sorted(want))
    doc = envelope(run(args, "show", "--json", "--", layout.folder, *sorted(set(names))), problems)
    for item in doc["data"]["items"] if doc else ():
        check_item(layout, item, problems)
    said = [f for f in info["findings"] if f["rule"] in ("FI9004", "FI1025") or (f["rule"], f["severity"]) == ("FI1071", "warning")]
    same(problems, "notes", len(said), int(layout.notes))
    tree = run(args, "tree", layout.folder).out.decode()
    if "_flat_param" not in layout.others and layout.family != "verl-fsdp" and "SHARDED" in tree:
        problems.append(f"a unit of FSDP is shown: {tree[:200]}")
    return problems


def main():
    args = arguments(__doc__)
    if torch is None:
        skip_all("no torch")
    tap = Tap()
    for title, family, world, write in LAYOUTS:
        if args.only and args.only not in title:
            continue
        with tempfile.TemporaryDirectory() as folder:
            layout = Layout(folder, family, world)
            write(layout)
            tap.none(title, check(args, layout))
    tap.done()


main()
