# SPDX-License-Identifier: Apache-2.0
"""Flat parameters of the FSDP of fairscale and of torch_xla."""

from .files import dict_of, integer, integers, list_of, pickled, plain_zip, sample, storage, tensor, text, tuple_of


def texts(values):
    return list_of(*map(text, values))


def numbers(values):
    return list_of(*map(integer, values))


def shapes(values):
    return list_of(*(integers(*value) for value in values))


def write_rank(folder, name, lengths, metadata, block):
    """A torch zip of a model of vectors, and of metadata beside it. Each storage is as long as `block`."""
    vectors = {key: tensor(storage(key, len(block) // 4, views=True), [length], [1]) for key, length in lengths.items()}
    folder.write(name, plain_zip({
        "x/data.pkl": pickled(dict_of({"model": dict_of(vectors), **metadata})),
        **{f"x/data/{key}": block for key in lengths},
        "x/version": b"3\n",
    }.items()))


# ---- fairscale ----


def fairscale_rank(folder, variant, rank, length, names=("a.weight", "_fsdp_wrapped_module.b", "c"),
                   sizes=((2, 3), (4,), (0, 5)), numels=(6, 4, 0), padding=0, key="shard_metadata"):
    def unit(path, name, names, sizes, numels, padding):
        return dict_of({"fsdp_path": text(path), "params": dict_of({name: dict_of({
            "names": texts(names), "shapes": shapes(sizes), "numels": numbers(numels), "padding": integer(padding)})})})

    metadata = dict_of({
        "param_metadata": list_of(
            unit("", "flat_param_0", names, sizes, numels, padding),
            unit("u._fpw_module", "flat_param_0", ["x", "_fpw_module.y"], [(1,), ()], [1, 1], 2 if rank else 0)),
        "buffer_names": texts(["buf", "other"]),
    })
    lengths = {"flat_param_0": length, "u._fpw_module.flat_param_0": 2, "buf": 3, "free": 2}
    write_rank(folder, f"{variant}/rank{rank}.pt", lengths, {key: metadata}, b"0" * 396)


@sample
def fairscale_flat_parameters(folder):
    for rank, padding in enumerate([0, 0, 2]):
        fairscale_rank(folder, "three", rank, 4, padding=padding)
    fairscale_rank(folder, "one", 0, 10)
    other_key = {"key": "meta"}
    fairscale_rank(folder, "meta", 0, 10, **other_key)
    fairscale_rank(folder, "padding-before", 0, 4, padding=1, **other_key)
    for variant, length, changed in [
            ("padding-long", 10, {"padding": 11}), ("padding-negative", 10, {"padding": -1}),
            ("padded", 11, {"padding": 1}), ("padded-more", 11, {"padding": 2}),
            ("names-less", 10, {"names": ["a", "b"]}), ("shapes-less", 10, {"sizes": [(2, 3), (4,)]}),
            ("numels-less", 10, {"numels": [6, 4]}), ("numel-other", 10, {"numels": [6, 4, 1]}),
            ("negative", 10, {"sizes": [(2, 3), (4,), (-1,)], "numels": [6, 4, 1]})]:
        fairscale_rank(folder, variant, 0, length, **changed, **other_key)


# ---- torch_xla ----


def xla_rank(folder, name, rank, world_size, length, flat_size, weight_size, sizes, numels):
    unit = "_fsdp_wrapped_module.u"

    def shard(original, size):
        return dict_of({"shard_0": dict_of({"_orig_name": text(original), "_orig_size": integers(*size)})})

    metadata = dict_of({
        "world_size": integer(world_size), "rank": integer(rank),
        "shard_info": dict_of({"": shard("flat_0", flat_size), unit: shard("weight", weight_size)}),
        "flatten_info": dict_of({"flat_0": tuple_of(texts(["a.weight", "b"]), shapes(sizes), numbers(numels))}),
        "buffer_info": dict_of({"buf": b"N"}),
    })
    lengths = {"shard_0": length, f"{unit}.shard_0": length, "buf": 3, "free": 2}
    write_rank(folder, name, lengths, {"shard_metadata": metadata}, b"0" * 1024)


@sample
def xla_flat_parameters(folder):
    large = ([(2, 3), (200,)], [6, 200])
    small = ([(2, 3), (100,)], [6, 100])
    for rank in range(2):
        xla_rank(folder, f"two/rank{rank}.pt", rank, 2, 128, [206], [2, 103], *large)
    for variant, length, size in [("one", 128, 106), ("whole", 106, 106), ("less", 105, 106), ("more", 234, 106),
                                  ("most", 233, 106), ("other", 128, 105)]:
        xla_rank(folder, f"{variant}/rank0.pt", 0, 1, length, [size], [size], *small)
    xla_rank(folder, "second/rank1.pt", 1, 2, 128, [206], [206], *large)
