# SPDX-License-Identifier: Apache-2.0
"""Torch files whose tensors are built by other functions than plain ones."""

from .files import (boolean, built, call, dict_of, integer, integers, legacy_file, list_of, name_of, sample, storage,
                    tensor, text, tuple_of)


def placement(name, **state):
    return built(f"torch.distributed.tensor.placement_types.{name}", dict_of(state) if state else None)


def shard(dim):
    return placement("Shard", dim=integer(dim))


def strided_shard(dim, split_factor):
    return placement("_StridedShard", dim=integer(dim), split_factor=integer(split_factor))


def partial(reduce_op, name="Partial"):
    return placement(name, reduce_op=text(reduce_op))


REPLICATE = placement("Replicate")


def dtensor(key, shape, strides, local_shape, local_strides, *placements):
    """Of the rank at 1, 0 of a mesh of 2 x 2."""
    local = tensor(storage(key, 32, views=True), local_shape, local_strides)
    mesh = built("torch.distributed.device_mesh.DeviceMesh", dict_of({
        "mesh": tensor(storage("ranks", 4, "Long", views=True), [2, 2]),
        "mesh_dim_names": tuple_of(text("dp"), text("tp")),
        "_coordinate_on_dim": list_of(integer(1), integer(0)),
    }))
    spec = built("torch.distributed.tensor._dtensor_spec.DTensorSpec",
                 dict_of({"mesh": mesh, "placements": tuple_of(*placements)}))
    cls = name_of("torch.distributed.tensor.DTensor")
    return call(
        "torch._tensor._rebuild_from_type_v2", name_of("torch._utils._rebuild_wrapper_subclass"), cls,
        tuple_of(cls, name_of("torch.float32"), integers(*shape), integers(*strides), integer(0),
                 call("torch.serialization._get_layout", text("torch.strided")), call("torch.device", text("cpu")),
                 boolean(True)),
        tuple_of(b"N", dict_of({"_local_tensor": local, "_spec": spec})))


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
