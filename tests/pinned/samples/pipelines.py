# SPDX-License-Identifier: Apache-2.0
"""Models with their configuration, adapters, and directories of several models: pipelines of diffusers, modules of
sentence-transformers."""

import os
import struct

from .files import safetensors, sample

WHOLE, SHARDED = "complete/llama-tied/checkpoint", "hf/llama-sharded"
ADAPTER = "complete/lora-some-layers/checkpoint"
WEIGHTS = "safetensors/aliases/model.safetensors"
UNET = ["diffusers", "UNet2DModel"]
BEYOND_64_BITS = 1000000000000000019884624838656


def bytes_of(*names):
    """A safetensors file of tensors of one byte."""
    return safetensors({name: ("U8", [1], b"ab"[i:i + 1]) for i, name in enumerate(names)})


@sample
def a_tensor_with_the_name_of_a_prefix(folder):
    folder.write("leaf.safetensors", safetensors({"10.model": ("U8", [1], b"\1"), "10.model.0": ("U8", [1], b"\2")}))


@sample
def tensors_of_torch_compile(folder):
    folder.write("w.safetensors", bytes_of("_orig_mod.a", "_orig_mod.b"))


@sample
def tensors_of_two_wrappers(folder):
    folder.write("t/config.json", '{"model_type":"mamba"}')
    folder.write("t/model.safetensors", bytes_of("module._orig_mod.a", "module._orig_mod.b"))


@sample
def tensors_with_a_long_name(folder):
    for name, tensor in {"a": "a", "b": "0" * 202}.items():
        folder.write(name + ".safetensors", safetensors({tensor: ("F32", [2], b"12345678")}))


# ---- configurations ----


@sample
def a_vocabulary_of_another_size(folder):
    """A smaller one, a larger one, and this in a checkpoint of Trainer."""
    for place, size in {"smaller": 48, "larger": 192, "trainer": 192}.items():
        folder.copy(SHARDED, place + "/m")
        folder.edit(place + "/m/config.json", '"vocab_size": 64', f'"vocab_size": {size}')
    folder.json("trainer/m/trainer_state.json", {"global_step": 2})


@sample
def configurations_and_names_that_loaders_refuse(folder):
    for place in ("cut", "empty", "none", "name"):
        folder.copy(SHARDED, place + "/m")
    folder.write("cut/m/config.json", folder.read("cut/m/config.json")[:90])
    folder.write("empty/m/config.json")
    folder.remove("none/m/config.json")
    folder.move("name/m/model-00001-of-00005.safetensors", "name/m/pytorch_model.safetensors")
    for name in folder.names("name/m/model*"):
        folder.remove(name)


@sample
def numbers_beyond_64_bits(folder):
    folder.copy(SHARDED, "m")
    folder.edit("m/config.json", '{\n  "architectures"',
                '{"model_max_length": %d, "rope_theta": 1e999, "vocab_size": 1,\n  "architectures"' % BEYOND_64_BITS)
    folder.json("m/tokenizer_config.json", {"model_max_length": BEYOND_64_BITS})


@sample
def numbers_of_python_and_other_words(folder):
    """In the state of Trainer c/ and the configuration of the model m/."""
    for place, nan, infinity in (("python", "NaN", "Infinity"), ("other", "nan", "infinity")):
        folder.copy("runs/trainer/run/checkpoint-500", place + "/c")
        folder.edit(place + "/c/trainer_state.json", '"log_history": [',
                    '"log_history": [{"loss": %s, "grad_norm": Infinity, "best": -Infinity}, ' % nan)
        folder.copy(WHOLE, place + "/m")
        folder.edit(place + "/m/config.json", '{\n "architectures"',
                    '{"time_step_limit": [0.0, %s],\n "architectures"' % infinity)


@sample
def a_configuration_with_fewer_layers(folder):
    folder.copy(WHOLE, "right/m")
    folder.copy(WHOLE, "fewer/m")
    folder.edit("fewer/m/config.json", '"num_hidden_layers": 4', '"num_hidden_layers": 3')


@sample
def a_tensor_with_another_shape_than_in_other_layers(folder):
    folder.copy(WHOLE, "m")
    tensor = '"model.layers.1.self_attn.o_proj.weight":{"dtype":"F32","shape":'
    folder.edit("m/model.safetensors", tensor + "[16,16]", tensor + "[8,32] ")


@sample
def weights_in_fp8(folder):
    """Of a model in bfloat16 and of one in FP8."""
    for place, dtype in {"bfloat16": "bfloat16", "fp8": "float8_e4m3fn"}.items():
        folder.write(place + "/m/model.safetensors", safetensors({
            "model.layers.0.mlp.up_proj.weight": ("F8_E4M3", [4, 4], b"0123456789abcdef")}))
        folder.json(place + "/m/config.json", {"model_type": "mine", "dtype": dtype})


@sample
def weights_that_are_0_or_nan(folder):
    """All of them, or the second or last of three thirds; a/ is an adapter without the magnitudes of DoRA."""
    folder.copy(ADAPTER, "a")
    folder.edit("a/adapter_config.json", '"use_dora": false', '"use_dora": true')
    for place in ("zeros", "nan", "two-thirds", "third"):
        folder.copy(WHOLE, place + "/m")
        name = place + "/m/model.safetensors"
        content = folder.read(name)
        header = 8 + struct.unpack("<Q", content[:8])[0]
        size = len(content) - header
        kept = {"two-thirds": header + size // 3, "third": len(content) - size // 3}.get(place, header)
        folder.write(name, content[:kept].ljust(len(content), b"\xff" if place == "nan" else b"\0"))


@sample
def a_configuration_whose_weights_are_below_it(folder):
    for place in ("none", "final", "run"):
        folder.copy(WHOLE + "/config.json", place + "/m/config.json")
    folder.copy(WHOLE, "final/m/final")
    folder.copy(WHOLE, "run/m/checkpoint-10")


def of_other_type(folder, name, model_type, class_name):
    folder.copy(WHOLE, name)
    folder.edit(name + "/config.json", '"model_type": "llama"', f'"model_type": "{model_type}"')
    folder.edit(name + "/config.json", "LlamaForCausalLM", class_name)


@sample
def models_of_an_unknown_type_with_other_names(folder):
    """b: a segment of a wrapper; c: the head without the embedding."""
    for name, old, new in (("b", "input_layernorm.weight", "_orig_mod.input.weight"),
                           ("c", '"model.embed_tokens.weight"', '"lm_head.weight"           ')):
        of_other_type(folder, name, "stablelm", "StableLmForCausalLM")
        folder.edit(name + "/config.json", '"tie_word_embeddings": true', '"tie_word_embeddings": false')
        folder.edit(name + "/model.safetensors", old, new)


@sample
def a_tower_without_the_part_that_joins_it(folder):
    """In a class of transformers, in a class of another library, and with the part."""
    for place, class_name in {"generates": "LlavaForConditionalGeneration", "other": "LlavaLlamaForCausalLM",
                              "joined": "LlavaForConditionalGeneration"}.items():
        of_other_type(folder, place + "/m", "llava", class_name)
    folder.edit("joined/m/model.safetensors", "layers.0.post_attention_layernorm", "layers.0.multi_modal_projector_ln")


@sample
def models_of_stablelm_with_other_contents(folder):
    """a: a nested dict; b: names of PEFT; c: an empty tensor; d: good; adapter/d: with an adapter without weights."""
    for name in ("a", "b", "c", "d", "adapter/d"):
        folder.json(name + "/config.json", {
            "model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "dtype": "float32"})
    folder.copy("torch-zip/python2-zip/model.pt", "a/pytorch_model.bin")
    tensors = {"a.weight": ("U8", [1], b"a"), "b.weight": ("U8", [1], b"b")}
    for name, content in {"b": {"base_model.model." + key: one for key, one in tensors.items()},
                          "c": tensors | {"c.weight": ("U8", [0], b"")}, "d": tensors, "adapter/d": tensors}.items():
        folder.write(name + "/model.safetensors", safetensors(content))
    folder.json("adapter/d/adapter_config.json", {"peft_type": "LORA", "target_modules": ["a"]})


# ---- adapters ----


def adapter(folder, name):
    """With its base model."""
    folder.copy(ADAPTER, name)
    base = os.path.join(folder.path, "testdata", SHARDED)
    key = '"base_model_name_or_path": '
    folder.edit(name + "/adapter_config.json", key + "null", f'{key}"{base}"')


@sample
def adapters_without_effect(folder):
    """a: with the tensors of a model; b: without its base; based/b: with layers that the base lacks."""
    folder.copy(SHARDED + "/model-00002-of-00005.safetensors", "a/adapter_model.safetensors")
    folder.json("a/adapter_config.json", {"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"]})
    folder.copy(ADAPTER, "b")
    adapter(folder, "based/b")


@sample
def adapter_that_repeats_a_layer(folder):
    """Of a base with one layer, which the configuration makes two. Tried: peft 0.21.2 loads its values."""
    pairs = {f"base_model.model.model.layers.{at}.self_attn.q_proj.lora_{side}.weight": ("F32", shape, bytes(32))
             for at in (0, 1) for side, shape in (("A", [2, 4]), ("B", [4, 2]))}
    base = {"model.layers.0.self_attn.q_proj.weight": ("F32", [4, 4], bytes(64))}
    folder.write("base/model.safetensors", safetensors(base, format="pt"))
    folder.json("base/config.json", {"model_type": "x"})
    folder.write("adapter/adapter_model.safetensors", safetensors(pairs, format="pt"))
    folder.json("adapter/adapter_config.json", {
        "peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
        "base_model_name_or_path": "../base", "layer_replication": [[0, 1], [0, 1]]})


@sample
def adapters_with_tensors_that_are_ignored(folder):
    """weight: of a module that the adapter wraps, with another shape; half: half of a pair of a module that is no target."""
    pairs = {f"base_model.model.model.layers.{at}.self_attn.q_proj.lora_{side}.weight": ("F32", shape, bytes(256))
             for at in (0, 1) for side, shape in (("A", [4, 16]), ("B", [16, 4]))}
    more = {"weight": "base_model.model.model.layers.0.self_attn.q_proj.weight", "half": "base_model.model.more.lora_A.weight"}
    for title, name in more.items():
        folder.json(f"{title}/adapter_config.json", {
            "peft_type": "LORA", "r": 4, "target_modules": ["q_proj"],
            "base_model_name_or_path": os.path.join(folder.path, "testdata", SHARDED)})
        folder.write(f"{title}/adapter_model.safetensors", safetensors(pairs | {name: ("F32", [4, 8], bytes(128))}, format="pt"))


@sample
def adapters_with_other_names_targets_and_fan_in(folder):
    for name in ("a", "b", "c"):
        adapter(folder, name)
    folder.edit("a/adapter_model.safetensors", "lora_A", "lora_a")
    folder.edit("a/adapter_model.safetensors", "lora_B", "lora_b")
    folder.edit("b/adapter_config.json", '[\n  "q_proj",\n  "k_proj"\n ]', '"all-linear"')
    folder.edit("c/adapter_config.json", '"fan_in_fan_out": false', '"fan_in_fan_out": true')


# ---- sentence-transformers ----


@sample
def modules_of_sentence_transformers(folder):
    """Without and with the list of the modules."""
    for place in ("without", "with"):
        folder.copy(WHOLE, place + "/s/0_Transformer")
        folder.copy(WEIGHTS, place + "/s/2_Dense/model.safetensors")
        for name in ("2_Dense/config.json", "1_Pooling/config.json", "sentence_bert_config.json"):
            folder.json(f"{place}/s/{name}", {})
    folder.json("with/s/modules.json", [])


@sample
def modules_of_which_one_lacks_its_weights(folder):
    """Weights, those of pickles, none, and no directory of the module."""
    library = "sentence_transformers.models."
    modules = {"": library + "Transformer", "1_Pooling": library + "Pooling", "2_Dense": library + "Dense",
               "3_Own": "own.Dense"}
    for place in ("safetensors", "bin", "none", "gone"):
        folder.copy(SHARDED, place + "/d")
        folder.json(place + "/d/modules.json", [
            {"idx": 1, "name": "1", "path": path, "type": kind} for path, kind in modules.items()])
    folder.copy(WEIGHTS, "safetensors/d/2_Dense/model.safetensors")
    folder.copy(WEIGHTS, "bin/d/2_Dense/pytorch_model.bin")
    folder.directory("none/d/2_Dense")


# ---- diffusers ----


def pipeline(folder, name, **parts):
    folder.json(name + "/model_index.json", {"_class_name": "P", **parts})


@sample
def a_pipeline_with_and_without_the_tokenizer(folder):
    for place in ("with", "without"):
        pipeline(folder, place + "/p", unet=UNET, tokenizer=["transformers", "TokenizersBackend"])
        folder.copy(WEIGHTS, place + "/p/unet/diffusion_pytorch_model.safetensors")
        folder.directory(place + "/p/tokenizer")
    folder.json("with/p/tokenizer/tokenizer_config.json", {"model_max_length": BEYOND_64_BITS})


@sample
def pipelines_with_and_without_their_parts(folder):
    """a: all; b: the VAE in a variant; then b without a scheduler, with damaged weights, and without its list."""
    variant = "vae/diffusion_pytorch_model.fp16.safetensors"
    for name in ("a", "b", "scheduler/b", "damaged/b", "list/b"):
        pipeline(folder, name, unet=UNET, vae=["diffusers", "AutoencoderKL"],
                 scheduler=["diffusers", "DDIMScheduler"], safety_checker=[None, None])
        folder.json(name + "/unet/config.json", {})
        folder.copy(WEIGHTS, name + "/unet/diffusion_pytorch_model.safetensors")
        folder.copy(WEIGHTS, f"{name}/{'vae/diffusion_pytorch_model.safetensors' if name == 'a' else variant}")
        if name in ("a", "b"):
            folder.json(name + "/scheduler/scheduler_config.json", {})
    for name in ("damaged/b/", "list/b/"):
        folder.write(name + variant, "version\n")
    folder.remove("list/b/model_index.json")


@sample
def pipelines_with_a_variant_of_one_and_of_two_words(folder):
    for name, file in {"a": "diffusion_pytorch_model.fp16.safetensors",
                       "b": "diffusion_pytorch_model.safetensors.old.safetensors"}.items():
        pipeline(folder, name, unet=UNET)
        folder.json(name + "/unet/config.json", {})
        folder.copy(WEIGHTS, f"{name}/unet/{file}")


@sample
def weights_of_diffusers_with_other_widths(folder):
    unet = "UNet2DConditionModel"
    for place, config in {
        "64": {"_class_name": unet, "cross_attention_dim": 64},
        "16": {"_class_name": unet, "cross_attention_dim": 16},
        "both": {"_class_name": unet, "cross_attention_dim": [64, 16]},
        "packed": {"_class_name": unet, "cross_attention_dim": 64, "quantization_config": {"a": 1}},
        "class": {"_class_name": "Other", "cross_attention_dim": 64},
    }.items():
        folder.copy(WHOLE + "/model.safetensors", place + "/m/diffusion_pytorch_model.safetensors")
        folder.edit(place + "/m/diffusion_pytorch_model.safetensors", "self_attn.q_proj", "selfs.attn2.to_k")
        folder.json(place + "/m/config.json", config)


@sample
def adapter_whose_base_is_gone_and_model_with_a_tokenizer(folder):
    """a, and the same in a directory with a blank in its name; t."""
    for name in ("a", "a b"):
        folder.copy("complete/lora-b-gone/checkpoint", name)
        key = '"base_model_name_or_path": '
        folder.edit(name + "/adapter_config.json", key + "null", key + '"/nonexistent/base"')
    folder.copy("hf/llama-sharded", "t")
    folder.remove("t/expected")
    folder.json("t/tokenizer.json", {})
