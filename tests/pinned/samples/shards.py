# SPDX-License-Identifier: Apache-2.0
"""Models in shards with an index, and safetensors files of which parts were never written."""

import json
import struct

from .files import safetensors, sample

SHARDED, WHOLE = "hf/llama-sharded", "complete/llama-tied/checkpoint"
INDEX = "model.safetensors.index.json"
DIFFUSERS_UNET = {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.42.1"}


def shard(number, name="model", suffix="safetensors"):
    return f"{name}-{number:05}-of-00005.{suffix}"


def sharded(folder, name):
    folder.copy(SHARDED, name)
    return f"{name}/{INDEX}"


def change_index(folder, name, change):
    """change: what becomes of the map of tensors to files."""
    index = json.loads(folder.read(name))
    index["weight_map"] = change(index["weight_map"])
    folder.write(name, json.dumps(index, indent=2), "\n")


def exchange(folder, one, other):
    folder.move(one, one + ".x")
    folder.move(other, one)
    folder.move(one + ".x", other)


def tensors_of(content):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    length, = struct.unpack("<Q", content[:8])
    header, content = json.loads(content[8:8 + length]), content[8 + length:]
    header.pop("__metadata__", None)
    return {name: (one["dtype"], one["shape"], content[slice(*one["data_offsets"])]) for name, one in header.items()}


def joined(folder):
    """The tensors of all shards in one file, as export writes it."""
    folder.copy(SHARDED, "joined")
    tensors = {}
    for name in folder.names("joined/model-*"):
        tensors |= tensors_of(folder.read(name))
    folder.remove("joined")
    return safetensors(dict(sorted(tensors.items())), format="pt")


# ---- indexes ----


@sample
def an_index_of_ten_shards_beside_five(folder):
    folder.edit(sharded(folder, "s"), "-of-00005", "-of-00010")


@sample
def an_index_that_omits_three_shards(folder):
    change_index(folder, sharded(folder, "s"), lambda files: {
        name: file for name, file in files.items() if file in (shard(1), shard(2))})


@sample
def indexes_with_dots_before_the_names(folder):
    for place, dots in {"here": "./", "parent": "../m/"}.items():
        folder.edit(sharded(folder, place + "/m"), ': "model-', f': "{dots}model-')


@sample
def indexes_that_are_none(folder):
    """And a directory without its index, one that lacks a shard too, and an index of .bin files beside weights."""
    for name, text in {
            "object": "{}", "no-names": '{"weight_map": {}}', "cut": '{"weight_map": {"a"', "blank": ""}.items():
        folder.write(sharded(folder, name + "/s"), text, "\n")
    folder.remove(sharded(folder, "s"))
    folder.write(sharded(folder, "incomplete/s"), "\n")
    folder.remove("incomplete/s/" + shard(3))
    folder.copy(WHOLE, "m")
    folder.copy(f"{SHARDED}/{INDEX}", "m/pytorch_model.bin.index.json")
    folder.edit("m/pytorch_model.bin.index.json", 'safetensors"', 'bin"')
    folder.edit("m/pytorch_model.bin.index.json", "model-", "pytorch_model-")


@sample
def shards_with_exchanged_names(folder):
    sharded(folder, "right/s")
    sharded(folder, "s")
    exchange(folder, "s/" + shard(2), "s/" + shard(3))


@sample
def shards_with_exchanged_names_and_a_tensor_elsewhere(folder):
    index = sharded(folder, "m")
    exchange(folder, "m/" + shard(2), "m/" + shard(3))
    change_index(folder, index, lambda files: files | {"model.norm.weight": shard(3)})


@sample
def shards_with_other_names_than_in_the_index(folder):
    sharded(folder, "s")
    for name in folder.names("s/model-*"):
        folder.move(name, name.replace("model-", "weights-"))


@sample
def shards_with_names_of_downloads_and_an_index_with_a_prefix(folder):
    sharded(folder, "downloads/m")
    folder.move("downloads/m/" + shard(2), "downloads/m/" + shard(2).replace(".", " (1).", 1))
    folder.move("downloads/m/" + shard(3), "downloads/m/" + shard(3) + ".crdownload")
    change_index(folder, sharded(folder, "prefix/m"), lambda files: {
        "module." + name: file for name, file in files.items()})


@sample
def an_index_without_its_files(folder):
    """And with a single file beside it, and one of .bin files with that file. s is complete."""
    sharded(folder, "s")
    whole = joined(folder)
    for place in ("gone/s", "single/s", "bin/m"):
        index = sharded(folder, place)
        for name in folder.names(place + "/model-*"):
            folder.remove(name)
        if place != "gone/s":
            folder.write(place + "/model.safetensors", whole)
    folder.edit(index, "safetensors", "bin")
    folder.move(index, "bin/m/pytorch_model.bin.index.json")


@sample
def shards_of_diffusers_without_an_index(folder):
    """And a single file of its tensors with an index of shards, or of .bin files."""
    def begun(place):
        sharded(folder, place)
        folder.json(place + "/config.json", DIFFUSERS_UNET)

    begun("s")
    for name in folder.names("s/model*"):
        folder.move(name, name.replace("/", "/diffusion_pytorch_"))
    folder.remove("s/diffusion_pytorch_" + INDEX)
    whole = joined(folder)
    for place, suffix in {"sharded/m": "safetensors", "bin/m": "bin"}.items():
        begun(place)
        folder.edit(f"{place}/{INDEX}", "safetensors", suffix)
        if suffix != "bin":
            folder.edit(f"{place}/{INDEX}", "model-", "diffusion_pytorch_model-")
        folder.move(f"{place}/{INDEX}", f"{place}/diffusion_pytorch_model.{suffix}.index.json")
        for name in folder.names(place + "/model-*"):
            folder.remove(name)
        folder.write(place + "/diffusion_pytorch_model.safetensors", whole)


@sample
def shards_of_diffusers_in_bin(folder):
    name = "diffusion_pytorch_model-00001-of-00001.bin"
    folder.json("b/config.json", DIFFUSERS_UNET)
    folder.copy("torch-zip/optimizer/model.pt", "b/" + name)
    folder.json("b/diffusion_pytorch_model.bin.index.json", {"weight_map": {"a": name}})


@sample
def models_of_one_to_three_shards_whose_headers_begin_with_a_blank(folder):
    for count in (1, 2, 3):
        files = {f"w{i}": f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)}
        for tensor, name in files.items():
            content = safetensors({tensor: ("U8", [1], b"1")})
            folder.write(f"m{count}/{name}", bytes([content[0] + 1]), content[1:8], " ", content[8:])
        folder.json(f"m{count}/{INDEX}", {"weight_map": files})


@sample
def links_to_nothing_and_out_of_the_directory(folder):
    for place, target in {"nothing": "blob", "out": "/tmp/blob"}.items():
        folder.copy(WHOLE + "/config.json", place + "/m/config.json")
        folder.link(target, place + "/m/model.safetensors")
    sharded(folder, "s")
    folder.remove("s/" + shard(2))
    folder.link("blob", "s/" + shard(2))


# ---- a second set of weights ----


def with_bin(folder, name):
    """Under the names of .bin, too."""
    index = sharded(folder, name)
    folder.write(name + "/pytorch_model.bin.index.json", folder.read(index).replace(b"safetensors", b"bin"))
    for number in range(1, 6):
        folder.write(f"{name}/{shard(number, suffix='bin')}", folder.read(f"{name}/{shard(number)}"))


@sample
def two_weight_sets_with_equal_bytes(folder):
    with_bin(folder, "m")
    folder.remove("m/expected")


@sample
def two_weight_sets_with_equal_and_with_other_bytes(folder):
    with_bin(folder, "equal/m")
    with_bin(folder, "stale/m")
    name = "stale/m/" + shard(1, suffix="bin")
    content = bytearray(folder.read(name))
    content[-1200:-299:4] = b"x" * 226
    folder.write(name, content)


# ---- parts that were never written ----


def lines(length):
    """Bytes that are not 0."""
    return b"y\n" * (length // 2)


def with_data(shapes, data):
    """A safetensors file of F32 tensors of these shapes, whose bytes are these and then 0."""
    tensors, at = {}, 0
    for name, (rows, columns) in shapes.items():
        size = 4 * rows * columns
        tensors[name] = ("F32", [rows, columns], data[at:at + size].ljust(size, b"\0"))
        at += size
    return safetensors(tensors, alignment=1)


@sample
def a_model_of_which_nothing_or_the_end_was_never_written(folder):
    content = with_data({"w": (4096, 256)}, b"")
    folder.write_with_holes("nothing/x.safetensors", content)
    folder.write_with_holes("end/x.safetensors", content[:4096] + lines(3000000) + content[3004096:])


@sample
def a_model_with_an_adapter_of_which_the_model_was_never_written(folder):
    folder.write_with_holes("x.safetensors", with_data(
        {"model.q.base_layer.weight": (4096, 256), "model.q.lora_A.weight": (8, 256)}, bytes(4194304) + lines(8192)))


@sample
def an_adapter_of_which_half_is_0(folder):
    prefix = "base_model.model.q.lora_"
    folder.write_with_holes("x.safetensors", with_data(
        {prefix + "A.weight": (8, 256), prefix + "B.weight": (131072, 8)}, lines(8192)))


@sample
def a_shard_that_ends_in_zeros(folder):
    for length in (5200, 3202):
        sharded(folder, f"{length}/z")
        name = f"{length}/z/{shard(2)}"
        content = folder.read(name)
        folder.write(name, content[:length].ljust(len(content), b"\0"))


@sample
def files_with_zeros_in_many_blocks(folder):
    """Before the end, from the begin of a tensor, and before a byte that is not 0."""
    for name, length, end in (("inside", 70000, b"\0"), ("tensor", 100000, b"\0"), ("byte", 70000, b"\n")):
        data = lines(length).ljust(199999, b"\0") + end
        folder.write(name + "/x.safetensors", safetensors({
            "a": ("U8", [100000], data[:100000]), "b": ("U8", [100000], data[100000:])}, alignment=1))
