# SPDX-License-Identifier: Apache-2.0
"""Torch files whose tensors are built by other functions than plain ones."""

import math
import struct

from .files import (boolean, built, call, dict_of, integer, integers, legacy_file, list_of, name_of, pickled,
                    row_major, safetensors, sample, storage, tensor, text, tuple_of)


def placement(name, **state):
    return built(f"torch.distributed.tensor.placement_types.{name}", dict_of(state) if state else None)


def subclass(cls, shape, strides, requires_grad, *state):
    """Of float32 on the CPU."""
    cls = name_of(cls)
    return call(
        "torch._tensor._rebuild_from_type_v2", name_of("torch._utils._rebuild_wrapper_subclass"), cls,
        tuple_of(cls, name_of("torch.float32"), integers(*shape), integers(*(strides or row_major(shape))), integer(0),
                 call("torch.serialization._get_layout", text("torch.strided")), call("torch.device", text("cpu")),
                 boolean(requires_grad)),
        tuple_of(*state))


def shard(dim):
    return placement("Shard", dim=integer(dim))


def strided_shard(dim, split_factor):
    return placement("_StridedShard", dim=integer(dim), split_factor=integer(split_factor))


def partial(reduce_op, name="Partial"):
    return placement(name, reduce_op=text(reduce_op))


REPLICATE = placement("Replicate")


def dtensor_of(shape, local, mesh, *placements, strides=None):
    spec = built("torch.distributed.tensor._dtensor_spec.DTensorSpec",
                 dict_of({"mesh": mesh, "placements": tuple_of(*placements)}))
    return subclass("torch.distributed.tensor.DTensor", shape, strides, True,
                    b"N", dict_of({"_local_tensor": local, "_spec": spec}))


def dtensor(key, shape, strides, local_shape, local_strides, *placements):
    """Of the rank at 1, 0 of a mesh of 2 x 2."""
    mesh = built("torch.distributed.device_mesh.DeviceMesh", dict_of({
        "mesh": tensor(storage("ranks", 4, "Long", views=True), [2, 2]),
        "mesh_dim_names": tuple_of(text("dp"), text("tp")),
        "_coordinate_on_dim": list_of(integer(1), integer(0)),
    }))
    local = tensor(storage(key, 32, views=True), local_shape, local_strides)
    return dtensor_of(shape, local, mesh, *placements, strides=strides)


@sample
def dtensors_of_many_placements(folder):
    square, column, row = ([4, 6], [6, 1]), ([4, 3], [3, 1]), ([2, 6], [6, 1])
    wide, tall = ([8, 6], [6, 1]), ([4, 6], [6, 1])
    tensors = {
        "copies-columns": (*square, *column, REPLICATE, shard(1)),
        "rows-copies": (*square, *row, shard(0), REPLICATE),
        "uneven": ([3, 6], [6, 1], [1, 6], [6, 1], shard(0), REPLICATE),
        "last": (*square, *column, partial("sum", "_Partial"), shard(-1)),
        "op-32": (*column, *column, partial("abcdefghijklmnopqrstuvwxyzabcdef"), REPLICATE),
        "op-33": (*column, *column, partial("abcdefghijklmnopqrstuvwxyzabcdefg"), REPLICATE),
        "op-none": (*column, *column, placement("Partial", op=integer(0)), REPLICATE),
        "both": (*wide, *row, strided_shard(0, 2), shard(0)),
        "strided": (*wide, *tall, strided_shard(0, 2), REPLICATE),
        "cube": ([8, 2, 3], [6, 3, 1], [4, 2, 3], [6, 3, 1], strided_shard(0, 2), REPLICATE),
        "view": (*wide, [4, 6], [8, 1], strided_shard(0, 2), REPLICATE),
        "two": ([8, 4], [4, 1], [4, 2], [2, 1], strided_shard(0, 2), strided_shard(1, 2)),
        "one": ([2, 6], [6, 1], [1, 6], [6, 1], strided_shard(0, 1), REPLICATE),
        "unstated": (*square, *row, shard(0)),
        "more": (*square, *row, shard(0), REPLICATE, REPLICATE),
        "none": (*square, *tall),
        "no-dim": (*square, *row, placement("Shard", dims=integer(0)), REPLICATE),
        "no-factor": (*square, *row, placement("_StridedShard", dim=integer(0)), REPLICATE),
        "wrong-size": (*square, [3, 6], [6, 1], shard(0), REPLICATE),
        "wrong-dims": (*square, [12], [1], shard(0), REPLICATE),
    }
    state = b"}" + b"".join(text(name) + dtensor(name, *parts) + b"s" for name, parts in tensors.items())
    legacy_file(folder, "x.pt", state, {name: (32, b"0" * 128) for name in tensors} | {
        "ranks": (4, b"".join(rank.to_bytes(8, "little") for rank in range(4)))})


# ---- other functions that rebuild tensors ----

PLAIN_END = boolean(False) + b")"  # requires_grad, and no hooks
INT32 = name_of("torch.int32")
FLAGS = ("conj", "neg")


def rebuilt(function, *arguments):
    return call(f"torch._utils._rebuild_{function}", *arguments)


def rebuilt_view(function, key, *more, device="cpu"):
    """Of 2 rows of 3, with these further arguments."""
    return rebuilt(function, storage(key, 6, device=device), integer(0), integers(2, 3), integers(3, 1), *more)


def math_bits(**bits):
    return dict_of({name: boolean(bit) for name, bit in bits.items()})


@sample
def tensors_of_each_rebuild_function(folder):
    number = integer(1)

    def device(name, *index):
        return call("torch.device", text(name), *map(integer, index))

    def copied_to_cpu(where):
        return lambda key: rebuilt("device_tensor_from_cpu_tensor", rebuilt_view("tensor_v2", key, PLAIN_END),
                                   name_of("torch.float32"), where, boolean(True))

    def view(function, *more, **storage_of):
        return lambda key: rebuilt_view(function, key, *more, **storage_of)

    def meta(*more):
        return lambda _: rebuilt("meta_tensor_no_storage", name_of("torch.float32"), integers(2, 3), integers(3, 1),
                                   *more)

    def sparse(layout, parts, *more):
        return lambda key: rebuilt(
            "sparse_tensor", call("torch.serialization._get_layout", text(f"torch.sparse_{layout}")),
            tuple_of(*[rebuilt_view("tensor_v2", key, PLAIN_END)] * parts, integers(4, 5), *more))

    def nested(*more):
        return lambda key: rebuilt("nested_tensor", *[rebuilt_view("tensor_v2", key, PLAIN_END)] * 4, *more)

    def quantized(*scheme, end=(b")",)):
        return lambda key: rebuilt_view("qtensor", key, tuple_of(*scheme), boolean(True), *end)

    half, scales = b"F0.5\n", list_of(b"F0.5\n")
    affine, by_channel = name_of("torch.per_tensor_affine"), name_of("torch.per_channel_affine")
    tensors = {
        "v1": view("tensor"),
        "v1-more": view("tensor", boolean(False)),
        "v2-less": view("tensor_v2", boolean(False)),
        "v2-conj": view("tensor_v2", boolean(True), b")", math_bits(conj=True, neg=False)),
        "v2-neg": view("tensor_v2", PLAIN_END, math_bits(conj=False, neg=True)),
        "v2-number": view("tensor_v2", PLAIN_END, number),
        "v2-more": view("tensor_v2", PLAIN_END, b"}", number),
        "v2-meta": view("tensor_v2", PLAIN_END, device="meta"),
        "v2-cuda": view("tensor_v2", PLAIN_END, device="cuda:1"),
        "v3-less": view("tensor_v3", PLAIN_END),
        "v3": view("tensor_v3", PLAIN_END, INT32),
        "v3-conj": view("tensor_v3", PLAIN_END, INT32, math_bits(conj=True)),
        "v3-more": view("tensor_v3", PLAIN_END, INT32, b"}", number),
        "v3-odd": view("tensor_v3", PLAIN_END, name_of("torch.int33")),
        "cpu-text": copied_to_cpu(text("xpu:0")),
        "cpu-none": copied_to_cpu(b"N"),
        "cpu-device": copied_to_cpu(device("xpu")),
        "cpu-index": copied_to_cpu(device("xpu", 3)),
        "cpu-below": copied_to_cpu(device("xpu", -1)),
        "cpu-32": copied_to_cpu(device("abcdefghijklmnopqrstuvwxyzabcdef", 3)),
        "cpu-33": copied_to_cpu(device("abcdefghijklmnopqrstuvwxyzabcdefg", 3)),
        "meta": meta(boolean(True)),
        "meta-less": meta(),
        "coo": sparse("coo", 2),
        "csr": sparse("csr", 3),
        "bsr": sparse("bsr", 3),
        "csc": sparse("csc", 3),
        "bsc": sparse("bsc", 3),
        "csc-less": sparse("csc", 2, b"N"),
        "nested": nested(),
        "nested-more": nested(b"N"),
        "tensor": quantized(affine, half, integer(3)),
        "tensor-less": quantized(affine, half, integer(3), end=()),
        "channel": quantized(by_channel, scales, list_of(integer(1)), integer(1)),
        "channel-less": quantized(by_channel, half),
        "channel-more": quantized(by_channel, b"N", b"N", integer(1), integer(2)),
        "scheme-none": quantized(b"N", half, integer(3)),
    }
    folder.write("x.pkl", pickled(b"}" + b"".join(text(name) + make(name) + b"s" for name, make in tensors.items())))


# ---- shards ----

SHARDED = "torch.distributed._shard."


def sharded_tensor(key, rank, world_size, shards):
    """Of 4 rows of 6, with the shards of one rank: (offsets, sizes, shape of the local tensor, its strides)."""
    api = f"{SHARDED}sharded_tensor.api"

    def one(offsets, sizes, shape, strides):
        metadata = built(f"{SHARDED}metadata.ShardMetadata", tuple_of(
            b"N", dict_of({"shard_offsets": integers(*offsets), "shard_sizes": integers(*sizes)})))
        return built(f"{SHARDED}sharded_tensor.shard.Shard", tuple_of(
            b"N", dict_of({"tensor": tensor(storage(key, 32), shape, strides), "metadata": metadata})))

    group = b"c%s\nShardedTensor.ProcessGroupState\n)\x81" % api.encode() + dict_of(
        {"global_rank": integer(rank), "global_world_size": integer(world_size)}) + b"b"
    return subclass(f"{api}.ShardedTensor", [4, 6], None, False,
                    b"]" + b"".join(one(*shard_of) + b"a" for shard_of in shards), b"N", group, b"N", b"N")


@sample
def shards_within_and_outside_of_their_tensor(folder):
    rows = ([2, 6], [6, 1])
    tensors = {
        "rows": [([2, 0], [2, 6], *rows)],
        "two": [([0, 0], [1, 6], [1, 6], [6, 1]), ([3, 0], [1, 6], [1, 6], [6, 1])],
        "none": [],
        "end": [([4, 6], [0, 0], [0, 0], [1, 1])],
        "whole": [([0, 0], [4, 6], [4, 6], [6, 1])],
        "narrow": [([0, 0], [2, 3], [3, 6], [6, 1])],
        "behind": [([2, 0], [3, 6], [3, 6], [6, 1])],
        "right": [([0, 1], [2, 6], *rows)],
        "below": [([-1, 0], [2, 6], *rows)],
        "less": [([0, 0], [-2, 6], *rows)],
        "after": [([5, 0], [0, 6], [0, 6], [6, 1])],
        "long": [([0, 0], [4, 6], [5, 6], [6, 1])],
        "dims": [([0, 0], [2, 6], [12], [1])],
        "offsets": [([0], [2, 6], *rows)],
        "sizes": [([0, 0], [2], *rows)],
    }
    folder.write("x.pkl", pickled(b"}" + b"".join(
        text(name) + sharded_tensor(name, 1, 2, shards) + b"s" for name, shards in tensors.items())))
    for rank, world_size in [(0, 1), (1, 1), (0, 0), (0, -1), (-1, 2), (16777215, 16777215), (16777216, 16777216),
                             (16777217, 16777217)]:
        folder.write(f"rank {rank} {world_size}/y.pkl", pickled(
            b"}" + text("rows") + sharded_tensor("rows", rank, world_size, tensors["rows"]) + b"s"))


# ---- views ----


@sample
def views_within_and_outside_of_their_storage(folder):
    """Of a storage of 6 elements."""
    largest = 2**63 - 1
    views = {
        "ranks": (0, [2, 3], [1]),
        "negative-size": (0, [2, -3], [3, 1]),
        "overflow": (0, [2**32, 2**32], [1, 1]),
        "too-many": (0, [2**32, 2**31], [2**31, 1]),
        "negative-stride": (0, [2, 3], [-3, 1]),
        "negative-offset": (-1, [2, 3], [3, 1]),
        "long": (2**63, [2], [1]),
        "one-odd": (0, [1, 3], [7, 1]),
        "none-odd": (0, [0, 3], [7, 2]),
        "end": (1, [5], [1]),
        "behind-end": (2, [5], [1]),
        "last": (5, [2, 2], [0, 0]),
        "far": (1, [2, 2], [3, 1]),
        "further": (2, [2, 2], [3, 1]),
        "far-off": (0, [2, 2], [largest, largest]),
    }
    folder.write("x.pkl", pickled(b"}" + b"".join(
        text(name) + call("torch._utils._rebuild_tensor_v2", storage(name, 6), integer(offset), integers(*shape),
                          integers(*strides), boolean(False), b")") + b"s"
        for name, (offset, shape, strides) in views.items())))


@sample
def sharded_ranks_that_contradict(folder):
    """Files of ranks of one save: in each folder file name -> (rank, world size) by its contents."""
    saves = {
        "more": {"rank0": (0, 3), "rank1": (1, 3), "rank2": (2, 2)},
        "fuller": {"rank0": (0, 2), "rank1": (1, 3), "rank2": (2, 3)},
        "whole": {"rank0": (0, 2), "rank1": (1, 2), "rank2": (2, 3)},
        "one": {"rank0": (0, 1), "rank1": (1, 2)},
        "first": {"rank0": (0, 2), "rank1": (1, 4), "rank2": (2, 4)},
        "last": {"rank1": (1, 4), "rank2": (2, 4), "rank5": (0, 2)},
        "swapped": {"rank0": (1, 2), "rank1": (0, 2)},
        "twice": {"rank0": (0, 2), "rank1": (0, 2)},
        "again": {"rank0": (0, 2), "rank2": (0, 2)},
        "other": {"rank0": (1, 2)},
        "beyond": {"rank3": (3, 2), "rank1": (1, 2), "rank0": (0, 2)},
        "named": {"world_size_3_rank_0": (0, 2), "world_size_3_rank_1": (1, 2)},
        "same": {"world_size_2_rank_0": (0, 2), "world_size_2_rank_1": (1, 2)},
        "alone": {"rank0": (0, 2), "rank1": (1, 2), "rank2": (0, 1)},
        "named-alone": {"world_size_3_rank_0": (0, 1)},
        "mixed": {"rank0": (0, 2), "a1": (1, 2)},
    }
    for save, files in saves.items():
        for name, (rank, world_size) in files.items():
            folder.write(f"{save}/s/{name}.pt", pickled(dict_of({"w": sharded_tensor("w", rank, world_size, [])})))
    folder.write("list", *(f"{save}\n" for save in saves))


@sample
def truncated_legacy_file_of_a_dtensor(folder):
    """The file x.pt, and what is left of it without its last bytes."""
    mesh = built("torch.distributed.device_mesh.DeviceMesh", dict_of({
        "mesh": tensor(storage("1", 2, "Long", views=True), [2]), "_coordinate_on_dim": list_of(integer(1))}))
    value = dtensor_of([4, 2], tensor(storage("0", 4, views=True), [2, 2]), mesh, shard(0))
    legacy_file(folder, "x.pt", b"}" + text("w") + value + b"s",
                {"0": (4, b"0" * 16), "1": (2, (6).to_bytes(8, "little") + (7).to_bytes(8, "little"))})
    whole = folder.read("x.pt")
    for cut in [0, 1, 16, 17, 24, 25, 40]:
        folder.write(f"{cut}/y.pt", whole[:len(whole) - cut])


# ---- numbers next to state dicts ----


@sample
def numbers_beside_a_model_and_its_optimizer(folder):
    """x.pt: best_acc1, of which no optimizer has a state. bare.pt: a model alone that has a number."""
    def stored(key, *shape):
        return tensor(storage(key, math.prod(shape), views=True), list(shape))

    storages = {"w": (4, b"0" * 16), "m": (4, b"0" * 16), "a": (1, b"0" * 4)}
    legacy_file(folder, "x.pt", dict_of({
        "state_dict": dict_of({"w": stored("w", 4)}),
        "optimizer": dict_of({"state": dict_of({"w": dict_of({"exp_avg": stored("m", 4)})})}),
        "best_acc1": stored("a"),
    }), storages)
    legacy_file(folder, "bare.pt", dict_of({"w": stored("w", 4), "loss_weight": stored("a")}),
                {key: storages[key] for key in "wa"})


@sample
def numbers_at_and_beyond_a_tolerance(folder):
    """1.0 beside 1.5, and beside 1.53125."""
    for name, number in (("one", 1.0), ("at", 1.5), ("beyond", 1.53125)):
        folder.write(f"{name}.safetensors", safetensors({"w": ("F32", [1], struct.pack("<f", number))}))
