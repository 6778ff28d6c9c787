# SPDX-License-Identifier: Apache-2.0
"""Checkpoints to export."""

import json

from .files import Folder, safetensors, sample


@sample
def incomplete_shard_of_many_tensors(folder: Folder):
    """a.safetensors is whole, b.safetensors has a header only."""
    def floats(names, content=b""):
        whole = safetensors({name: ("F32", [1], b"1234") for name in names})
        return whole if content else whole[:-4 * len(names)]

    many = [f"t{number:04}" for number in range(1003)]
    folder.write("m/b.safetensors", floats(many))
    folder.write("m/a.safetensors", floats(["a", "z"], b"1234"))
    folder.write("m/model.safetensors.index.json", json.dumps({
        "weight_map": {"a": "a.safetensors", "z": "a.safetensors", **dict.fromkeys(many, "b.safetensors")}}))


@sample
def shards_without_an_index(folder: Folder):
    """m has one of one, n two of two."""
    for name, tensor in [("m/model-00001-of-00001", "a"), ("n/model-00001-of-00002", "a"),
                         ("n/model-00002-of-00002", "b")]:
        folder.write(f"{name}.safetensors", safetensors({tensor: ("F32", [1], b"1234")}))


@sample
def tensor_in_two_shards(folder: Folder):
    """The name b is in both shards: with equal bytes, with other bytes, and with another shape."""
    for place, (shape, content) in {"equal": ([1], b"5678"), "bytes": ([1], b"5679"), "shape": ([1, 1], b"5678")}.items():
        folder.write(f"{place}/model-00001-of-00002.safetensors", safetensors({
            "a": ("F32", [1], b"1234"), "b": ("F32", [1], b"5678")}))
        folder.write(f"{place}/model-00002-of-00002.safetensors", safetensors({"b": ("F32", shape, content), "c": ("F32", [1], b"1234")}))
        folder.json(f"{place}/model.safetensors.index.json", {"metadata": {"total_size": 12}, "weight_map": {
            "a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}})


@sample
def names_with_segments_of_wrappers(folder: Folder):
    one = b"\0\0\200\77"
    folder.write("x.safetensors", safetensors({
        "a._orig_mod.b.module.w": ("F32", [1], one), "_orig_mod.c.module": ("F32", [1], one)}))


@sample
def attention_of_more_than_16_mib(folder: Folder):
    """x.safetensors, and in rows what a map joins: a row of q, of k, of v, and so on."""
    heads, width = 4750, 1200
    parts = {}
    for number, name in enumerate("qkv", 1):
        digits = "".join(map(str, range(number * 1000000, number * 1000000 + heads * width // 7 + 1)))[:heads * width]
        parts[name] = digits.encode()
    folder.write("x.safetensors", safetensors({
        f"model.layers.0.self_attn.{name}_proj.weight": ("U8", [heads, width], part) for name, part in parts.items()}))
    folder.write("rows", b"".join(
        part[at:at + width] for at in range(0, heads * width, width) for part in parts.values()))
