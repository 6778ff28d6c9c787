# SPDX-License-Identifier: Apache-2.0
"""Situations of public bug reports, each beside a near miss: weights whose packing is not described, names that a
wrapper made longer, companions of macOS, and steps that lack a part."""

import json
import math
import struct

from .files import binary_unicode, dict_of, integer, list_of, pickled, plain_zip, safetensors, sample, storage, tensor

LLAMA, SMALL = "hf/llama-sharded", "dcp/fsdp2-w4-small/checkpoint"
MAC = bytes.fromhex("0005160700020000") + b"Mac OS X        " + bytes(58)
BITS = {"quant_method": "bitsandbytes", "load_in_4bit": True}


def packed(dtype, shape, *members):
    """Two weights of this dtype, and a bias."""
    tensors = {}
    for name in "ab":
        tensors[f"{name}.weight"] = (dtype, shape, bytes(shape[0] * shape[1] * (2 if dtype in ("I16", "U16", "BF16") else 1)))
        for member, size in members:
            tensors[f"{name}.weight.{member}"] = ("U8", [size], bytes(size))
    return safetensors({**tensors, "c.bias": ("F32", [2], bytes(8))}, format="pt")


@sample
def packed_weights_of_bitsandbytes(folder):
    """Without what they are read with, without the description of it, and whole."""
    absmax, values, state = ("absmax", 2), ("quant_map", 16), ("quant_state.bitsandbytes__nf4", 20)
    for title, members in {"none": [], "some": [absmax, values], "whole": [absmax, values, state]}.items():
        folder.json(f"{title}/config.json", {"model_type": "x", "quantization_config": BITS})
        folder.write(f"{title}/model.safetensors", packed("U8", [64, 1], *members))


@sample
def weights_of_16_bits_as_integers_and_as_numbers(folder):
    for title, dtype, config in (("integers", "I16", {"dtype": "bfloat16"}), ("untyped", "U16", {}), ("numbers", "BF16", {})):
        folder.json(f"{title}/config.json", {"model_type": "x"} | config)
        folder.write(f"{title}/model.safetensors", packed(dtype, [4, 4]))


def shards(folder, change, more=None):
    """The shards of a Llama in m/ with other names, and one tensor more in the last."""
    folder.copy(LLAMA, "m")
    index = json.loads(folder.read("m/model.safetensors.index.json"))
    index["weight_map"] = {change(name): file for name, file in index["weight_map"].items()}
    for file in folder.names("m/*.safetensors"):
        content = folder.read(file)
        size, = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + size])
        tensors = {change(name): (one["dtype"], one["shape"], content[8 + size:][slice(*one["data_offsets"])])
                   for name, one in header.items() if name != "__metadata__"}
        if more is not None and file == folder.names("m/*.safetensors")[-1]:
            tensors[more] = ("F32", [1], bytes(4))
            index["weight_map"][more] = file[2:]
        folder.write(file, safetensors(tensors, format="pt"))
    del index["metadata"]["total_size"]
    folder.json("m/model.safetensors.index.json", index)


@sample
def models_with_a_value_head(folder):
    """All names but those of the head have the prefix of the class that adds it; some have it; none has."""
    shards(folder.within("all"), "pretrained_model.{}".format, "v_head.summary.weight")
    shards(folder.within("some"), lambda name: "pretrained_model." * ("mlp" in name) + name, "v_head.summary.weight")
    shards(folder.within("none"), str, "v_head.summary.weight")
    shards(folder.within("module"), "module.{}".format)


def torch_zip(folder, name, value, **blocks):
    folder.write(name, plain_zip({"x/data.pkl": pickled(value), **{f"x/data/{key}": block for key, block in blocks.items()},
                                  "x/version": b"3\n"}.items()))


@sample
def models_with_two_wrappers_or_inner_ones(folder):
    """Of torch.compile and DistributedDataParallel, of compiled layers, and of a state dict beside a number."""
    shards(folder.within("two"), "_orig_mod.module.{}".format)
    shards(folder.within("layers"), lambda name: name.replace("layers.0.", "layers.0._orig_mod."))
    shards(folder.within("fsdp"), lambda name: name.replace("layers.0.", "layers.0._checkpoint_wrapped_module."))
    weights = {f"module._orig_mod.{name}": tensor(storage(name, 2), [2]) for name in "ab"}
    torch_zip(folder, "x.pt", dict_of({"model": dict_of(weights), "best": tensor(storage("c", 1), [])}),
              a=bytes(8), b=bytes(8), c=bytes(4))


@sample
def wrappers_of_equal_kinds_and_in_a_long_container(folder):
    """Two wrappers are removed by one command, 60 are more than a command has room for."""
    for name, container, count in ("two", "model", 2), ("many", "model", 60), ("long", "m" * 300, 1):
        weights = {"module." * count + part: tensor(storage(part, 2), [2]) for part in "ab"}
        torch_zip(folder, f"{name}.pt", dict_of({container: dict_of(weights)}), a=bytes(8), b=bytes(8))


@sample
def files_of_models_that_are_empty_or_have_none(folder):
    """An empty state dict alone and beside a number; a number, and an empty dict of another name."""
    values = {"alone": {}, "below": {"state_dict": dict_of({}), "epoch": integer(3)}, "number": {"epoch": integer(3)},
              "scaler": {"scaler": dict_of({})}}
    for name, value in values.items():
        torch_zip(folder, f"{name}.pt", dict_of(value, key=binary_unicode))


@sample
def shards_that_each_have_the_storage_of_all(folder):
    """Two views of one storage, in a file each; of the total of the tensors, and of one that nothing has."""
    for title, total in {"tensors": 16, "other": 20}.items():
        for number, name in enumerate("ab"):
            torch_zip(folder, f"{title}/pytorch_model-{number + 1:05}-of-00002.bin",
                      dict_of({name: tensor(storage("0", 4), [2], offset=2 * number)}, key=binary_unicode), **{"0": bytes(16)})
        folder.json(f"{title}/pytorch_model.bin.index.json", {"metadata": {"total_size": total}, "weight_map": {
            name: f"pytorch_model-{number + 1:05}-of-00002.bin" for number, name in enumerate("ab")}})


@sample
def placeholders_of_one_element(folder):
    """In place of all parameters, and of all but one."""
    folder.copy(f"{LLAMA}/model.safetensors.index.json", "index")
    index = json.loads(folder.read("index"))
    for title, rest in {"all": [1], "some": [16]}.items():
        folder.copy(f"{LLAMA}/config.json", f"{title}/config.json")
        folder.write(f"{title}/model.safetensors", safetensors({
            name: ("F32", shape := rest if name == "model.norm.weight" else [1], bytes(4 * shape[0]))
            for name in index["weight_map"]}, format="pt"))


@sample
def experts_of_routers(folder):
    """Two experts in each of two layers, with routers of other shapes, and in one tensor."""
    for title, (router, shape) in {"half": ("router.gate", [4, 8]), "all": ("gate", [2, 8]), "columns": ("router", [8, 2]),
                                   "square": ("gate", [8, 8]), "more": ("gate", [3, 8]), "fused": ("router.gate", [4, 8])}.items():
        tensors = {}
        for layer in ("layers.0.mlp", "layers.1.mlp"):
            tensors[f"{layer}.{router}.weight"] = ("F32", shape, bytes(4 * shape[0] * shape[1]))
            experts = {"w1": [2, 8, 8]} if title == "fused" else {f"{n}.w1.weight": [8, 8] for n in range(2)}
            tensors |= {f"{layer}.experts.{name}": ("F32", size, bytes(4 * math.prod(size)))
                        for name, size in experts.items()}
        folder.write(f"{title}/x.safetensors", safetensors(tensors))


@sample
def models_without_layers(folder):
    """The tensors outside of the layers, also with a matrix of a kind that is not known."""
    for title, more in {"root": {}, "unknown": {"model.mixer.weight": ("F32", [16, 16], bytes(1024))}}.items():
        folder.copy(f"{LLAMA}/config.json", f"{title}/config.json")
        folder.write(f"{title}/model.safetensors", safetensors({
            "lm_head.weight": ("F32", [64, 16], bytes(4096)), "model.embed_tokens.weight": ("F32", [64, 16], bytes(4096)),
            "model.norm.weight": ("F32", [16], bytes(64)), **more}, format="pt"))


@sample
def optimizers_and_schedulers_in_each_others_place(folder):
    """Both, one of them, and none."""
    optimizer = {"state": b"}", "param_groups": list_of(dict_of({"params": list_of(integer(0))}, key=binary_unicode))}
    scheduler = {"last_epoch": integer(3), "_step_count": integer(4)}
    for title, contents in {"both": (scheduler, optimizer), "one": (optimizer, optimizer), "none": (optimizer, scheduler)}.items():
        torch_zip(folder, f"{title}.pt", dict_of(dict(zip(
            ("optimizer", "lr_scheduler"), (dict_of(one, key=binary_unicode) for one in contents))), key=binary_unicode))


@sample
def a_configuration_of_a_larger_model(folder):
    folder.copy(LLAMA, "m")
    config = json.loads(folder.read("m/config.json"))
    config["hidden_size"] *= 2
    config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    folder.json("m/config.json", config)


@sample
def headers_without_a_name_of_a_dtype(folder):
    for title, dtype in {"empty": "", "new": "F5"}.items():
        folder.write(title, safetensors({"a": (dtype, [], b"")}))


@sample
def adapters_of_several_ranks(folder):
    """Without a configuration of PEFT, and with one that lacks its rank_pattern."""
    def pairs(ranks):
        return safetensors({f"base_model.model.l.{at}.q_proj.lora_{side}.weight": ("F32", shape, bytes(16 * rank))
                            for at, rank in enumerate(ranks) for side, shape in (("A", [rank, 4]), ("B", [4, rank]))},
                           format="pt")

    folder.write("several.safetensors", pairs([2, 3, 1]))
    folder.write("equal.safetensors", pairs([2, 2, 2]))
    for title, pattern in {"lost": {}, "kept": {"l.1.q_proj": 3}}.items():
        folder.json(f"{title}/adapter_config.json", {
            "peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "rank_pattern": pattern})
        folder.write(f"{title}/adapter_model.safetensors", pairs([2, 3]))


@sample
def rank_files_with_companions_of_macos(folder):
    folder.copy("fsdp1/local-w2-conv/checkpoint", "s")
    for name in folder.names("s/rank*"):
        folder.write(f"s/._{name[2:]}", MAC)


@sample
def steps_of_a_run_without_their_last_part(folder):
    """Three steps, of which the newest lacks a directory that both others have, or that one of them has."""
    for title, with_critic in {"both": (1, 2), "one": (2,)}.items():
        for step in (1, 2, 3):
            for part in ("actor", "critic"):
                if part == "actor" or step in with_critic:
                    folder.copy(SMALL, f"{title}/global_step_{step}/{part}")


@sample
def steps_of_a_run_with_an_empty_part(folder):
    """Two steps: the newer one has an empty directory, which is full in the older one, or empty in both."""
    for title, filled in {"one": (1,), "both": ()}.items():
        for step in (1, 2):
            folder.copy(SMALL, f"{title}/global_step_{step}/actor")
            folder.directory(f"{title}/global_step_{step}/data")
        for step in filled:
            folder.write(f"{title}/global_step_{step}/data/rows.pt", b"rows")


@sample
def steps_of_a_run_after_that_of_their_tracker(folder):
    """The newer of two steps lacks a file of the older one; the tracker names the older, or the newer one."""
    for title, step in {"older": "1", "newer": "2"}.items():
        for number in (1, 2):
            folder.copy(SMALL, f"{title}/global_step_{number}/actor")
        folder.write(f"{title}/global_step_1/data.pt", pickled(dict_of({"rows": integer(7)}, key=binary_unicode)))
        folder.write(f"{title}/latest_checkpointed_iteration.txt", step)


@sample
def optimizers_under_any_key(folder):
    """Of two networks, one optimizer further in, and a dict that has states and no groups."""
    def optimizer(key):
        return {"state": b"}" + integer(0) + dict_of({"exp_avg": tensor(storage(key, 4), [4])}) + b"s",
                "param_groups": list_of(dict_of({"lr": b"F0.1\n", "params": list_of(integer(0))}))}

    def weight(key):
        return dict_of({"weight": tensor(storage(key, 4), [4])})

    folder.write("m.pkl", pickled(dict_of({
        "netG": weight("0"), "netD": weight("1"), "optG": dict_of(optimizer("2")),
        "train": dict_of({"opts": list_of(dict_of(optimizer("3")))}),
        "ema": dict_of({"state": weight("4"), "groups": list_of()}),
    })))


@sample
def shards_under_names_that_no_loader_asks_for(folder):
    """And under their own, beside a file of another program."""
    for title, begin in {"other": "pytorch_model", "own": "model"}.items():
        folder.copy(LLAMA, title)
        for name in folder.names(f"{title}/model*"):
            folder.move(name, name.replace("model", begin))
        folder.edit(f"{title}/{begin}.safetensors.index.json", "model-0", begin + "-0")
    folder.write("own/m.gguf", b"GGUF", struct.pack("<IQQ", 3, 0, 0))


@sample
def a_run_of_megatron_with_and_without_the_description_of_its_step(folder):
    for title in ("whole", "part"):
        folder.copy("megatron/common-inside", f"{title}/iter_0000007")
        folder.write(f"{title}/iter_0000007/common.pt", pickled(dict_of({"iteration": integer(7)}, key=binary_unicode)))
        folder.write(f"{title}/latest_checkpointed_iteration.txt", "7")
    folder.remove("part/iter_0000007/metadata.json")


@sample
def adapters_with_an_empty_head_and_with_a_whole_one(folder):
    pair = {f"base_model.model.l.q_proj.lora_{side}.weight": ("F32", shape, bytes(32))
            for side, shape in (("A", [2, 4]), ("B", [4, 2]))}
    for title, shape in {"empty": [0], "whole": [1, 4]}.items():
        folder.json(f"{title}/adapter_config.json", {"peft_type": "LORA", "r": 2, "lora_alpha": 4,
                                                     "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]})
        head = {"base_model.model.lm_head.weight": ("F32", shape, bytes(4 * shape[-1]))}
        folder.write(f"{title}/adapter_model.safetensors", safetensors({**pair, **head}, format="pt"))


@sample
def adapters_of_a_trainer_with_and_without_a_wrapper(folder):
    for title, prefix in {"own": "", "wrapped": "module."}.items():
        folder.copy("optimizer-ids/trainer/checkpoint", title)
        folder.remove(f"{title}/model.safetensors")
        folder.remove(f"{title}/config.json")
        folder.write(f"{title}/adapter_model.safetensors", safetensors({
            f"{prefix}base_model.model.l.q_proj.lora_{side}.weight": ("F32", shape, bytes(32))
            for side, shape in (("A", [2, 4]), ("B", [4, 2]))}, format="pt"))


@sample
def adapters_with_wrapped_names_of_a_whole_module(folder):
    """As bias "all" saves it, with all names twice; and with those of the wrapper alone."""
    pair = {f"base_model.model.l.q_proj.lora_{side}.weight": ("F32", shape, bytes(32))
            for side, shape in (("A", [2, 4]), ("B", [4, 2]))}
    for title, places in {"both": ("", "modules_to_save.default."), "wrapped": ("modules_to_save.default.",)}.items():
        folder.json(f"{title}/adapter_config.json", {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "all",
                                                     "target_modules": ["q_proj"], "modules_to_save": ["classifier"]})
        head = {f"base_model.model.classifier.{place}out.bias": ("F32", [2], bytes(8)) for place in places}
        folder.write(f"{title}/adapter_model.safetensors", safetensors({**pair, **head}, format="pt"))


@sample
def configurations_of_mlx(folder):
    """MLX writes quantization twice. The weights are plain, or they have scales."""
    mlx = {"bits": 4, "group_size": 64}
    for place, settings in {"plain": {}, "plain-twice": {"quantization_config": mlx}}.items():
        folder.copy(LLAMA, place)
        config = json.loads(folder.read(place + "/config.json"))
        folder.json(place + "/config.json", {**config, "quantization": mlx, **settings})
    folder.json("packed/config.json", {"model_type": "llama", "quantization": mlx, "quantization_config": mlx})
    folder.write("packed/model.safetensors", safetensors({
        "lm_head.weight": ("U32", [8, 8], bytes(range(256))), "lm_head.scales": ("F16", [8, 1], b"\1" * 16)}))
