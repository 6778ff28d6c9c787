# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of models, printed models, and plans."""

import json
import math

from .files import safetensors, sample


def model(folder, prefix, config):
    """m/ with tensors of the names that classes of transformers have, and some that are like them."""
    attention = [f"model.layers.0.self_attn.{name}" for name in ("q_proj", "o_proj", "k_projx")]
    names = attention + [
        "model.embed_tokens", "model.layers.0.mlp.up_proj", "model.layers.0.input_layernorm",
        "model.layers.0.post_attention_layernorm", "model.layers.1x.norm", "model.blocks.2.norm", "model.norm",
        "lm_head", "other"]
    folder.write("m/model.safetensors", safetensors({f"{prefix}{name}.weight": ("U8", [1], b"\0") for name in names}))
    folder.write("m/config.json", config)


@sample
def models_of_transformers(folder):
    """Folders of variants by what config.json says, and by the prefix of the names of tensors."""
    def architecture(name):
        return f'{{"architectures":["{name}"]}}'

    def of_text(name, model_type):
        return f'{{"architectures":["{name}"],"text_config":{{"model_type":"{model_type}"}}}}'

    language = "language_model."
    models = {
        "llama": [("", '{"architectures":["LlamaForCausalLM"],"model_type":"llama"}')],
        "architectures": [("", architecture(name)) for name in (
            "MistralModel", "Qwen2ForSequenceClassification", "Gemma2ForTokenClassification", "Llama",
            "Gemma3ForCausalLM", "GraniteForCausalLM", "Olmo2ForCausalLM", "Phi3ForCausalLM", "Qwen3ForCausalLM",
            "GemmaForCausalLM", "BertForCausalLM", "ForCausalLM")],
        "damaged": [("", config) for config in (
            '{"architectures":[1]}', '{"architectures":[]}', '{"architectures":"LlamaModel"}')],
        "prefixes": [(prefix, of_text("LlavaForConditionalGeneration", "qwen2")) for prefix in (
            language, "text_model.", "vision_tower.", "x.language_model.")],
        "types": [(language, of_text("X", name)) for name in (
            "gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "olmo2", "phi3", "qwen3", "bert")],
    }
    for name, configs in models.items():
        titles = (f"-- {prefix}\n" * (name == "prefixes") + f"== {config}" for prefix, config in configs)
        for variant, (prefix, config) in zip(folder.within(name).folders(titles), configs):
            model(variant, prefix, config)


@sample
def encoders_without_a_head(folder):
    """A BertModel; without a part of its pooler; with a class of its own code, without its pooler; with a row more in one weight;
    with names of layers that are cut."""
    shapes = {f"embeddings.{name}_embeddings.weight": [rows, 2] for name, rows in {"word": 4, "position": 3, "token_type": 2}.items()}
    layers = {"attention.self.query": [2, 2], "attention.self.key": [2, 2], "attention.self.value": [2, 2],
              "attention.output.dense": [2, 2], "intermediate.dense": [6, 2], "output.dense": [2, 6],
              "attention.output.LayerNorm": [2], "output.LayerNorm": [2]}
    modules = {"embeddings.LayerNorm": [2], "pooler.dense": [2, 2], **{f"encoder.layer.0.{name}": one for name, one in layers.items()}}
    for name, shape in modules.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    config = {"model_type": "bert", "architectures": ["BertModel"], "dtype": "float32", "vocab_size": 4, "hidden_size": 2, "intermediate_size": 6,
              "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 3, "type_vocab_size": 2}
    own = {"architectures": ["OwnBertModel"], "auto_map": {"AutoModel": "own.OwnBertModel"}}
    wide = shapes | {"encoder.layer.0.intermediate.dense.weight": [7, 2]}
    cut = {name.removeprefix("encoder."): shape for name, shape in shapes.items()}
    for place, stored, lacking, more in (
            ("whole", shapes, "none", {}), ("part", shapes, "pooler.dense.bias", {}), ("own", shapes, "pooler", own),
            ("wide", wide, "none", {}), ("cut", cut, "none", {})):
        folder.json(place + "/config.json", config | more)
        folder.write(place + "/model.safetensors", safetensors({
            name: ("F32", shape, bytes(4 * math.prod(shape))) for name, shape in stored.items() if not name.startswith(lacking)}))


@sample
def printed_fsdp1_wrapper_of_a_linear(folder):
    folder.write("log", "FullyShardedDataParallel(\n"
                 "  (_fsdp_wrapped_module): Linear(in_features=4, out_features=3, bias=True)\n)\n")


@sample
def tensors_with_names_of_any_length(folder):
    names = "ax xb yb zq c cx jkk kkk".split() + ["v" * 202, "w" * 201]
    folder.write("m.safetensors", safetensors({f"{name}.w": ("F32", [0], b"") for name in names}))


def plan(folder, source, changes):
    """p.json: a plan of testdata/ with other texts."""
    folder.copy(source, "p.json")
    for old, new in changes.items():
        folder.edit("p.json", old, new)


@sample
def plan_of_frozen_parameters(folder):
    plan(folder, "plan/fsdp1-local-w2-conv/plan.fsdp-plan.json",
         {'"requires_grad": true': '"requires_grad": false'})


@sample
def plan_of_four_ranks(folder):
    plan(folder, "fsdp1/local-w2-conv/expected/plan.fsdp-plan.json", {
        '"shard_world_size": 2': '"shard_world_size": 4', '"sharded_numel": 358': '"sharded_numel": 179'})


@sample
def plan_of_tied_weights(folder):
    def parameter(name, shape, shared_with):
        return f'{{"fqn": "{name}", "shape": {shape}, "dtype": "float32", "shared_with": "{shared_with}"}}, '

    def shared(name, same_as):
        return f'{{"fqn": "{name}", "same_as": "{same_as}"}}'

    plan(folder, "fsdp1/local-w2-conv/expected/plan.fsdp-plan.json", {
        '"shared": []': f'"shared": [{shared("head.tied", "bn2.weight")}, {shared("bn1.tied", "head.bias")}]',
        '"parameters": [': '"parameters": ['
        + parameter("head.tied", [10], "bn2.weight") + parameter("bn1.tied", [7], "head.bias")})


@sample
def plans_with_other_shapes_of_a_bias(folder):
    for shape in ("5", "6", "5,1"):
        plan(folder, "dcp/fsdp2-w4-small/expected/plan.fsdp-plan.json",
             {'"fqn": "a.bias", "shape": [5]': f'"fqn": "a.bias", "shape": [{shape}]'})
        folder.move("p.json", f"{shape}.json")


@sample
def plans_of_large_meshes(folder):
    for copies, shards in ((17, 19), (16, 14), (2, 15)):
        plan(folder, "dcp/fsdp2-w4-hsdp/expected/plan.fsdp-plan.json", {
            '"shape": [2, 2]': f'"shape": [{copies}, {shards}]', '"world_size": 4': '"world_size": 2170560'})
        folder.move("p.json", f"{copies}x{shards}.json")


@sample
def configurations_that_are_no_plans(folder):
    for name, content in {"tp": {"base_model_tp_plan": {"layers.*.q_proj": "colwise"}},
                          "args": {"fsdp": "full_shard", "fsdp_config": {}},
                          "bare": {"model.layers.*.q_proj": "colwise"},
                          "args2": {"fsdp_version": 2}, "other": {"format": "other"}}.items():
        folder.json(name + ".json", content)


@sample
def plan_with_a_wrong_range(folder):
    plan(folder, "fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json", {
        '"flat_end": 22, "param_start": 0, "param_end": 22': '"flat_end": 21, "param_start": 0, "param_end": 21'})


# ---- models of libraries ----


def shards_of_llama(folder, name, lost=()):
    for number in range(1, 6):
        if str(number) not in lost:
            shard = f"model-0000{number}-of-00005.safetensors"
            folder.copy("hf/llama-sharded/" + shard, f"{name}/{shard}")


@sample
def llama_with_every_known_part_of_a_configuration(folder):
    shards_of_llama(folder, "m")
    folder.copy("hf/llama-sharded/model.safetensors.index.json", "m/model.safetensors.index.json")
    folder.json("m/config.json", {
        "architectures": ["X"], "text_config": {"dtype": "a"}, "vision_config": {"dtype": "b"},
        "audio_config": {"dtype": "c"}, "quantization_config": {"quant_method": "d"}, "fsdp_plan": {"e": "f"},
        "base_model_pp_plan": {"g": "h"}})


@sample
def llamas_without_some_shards_and_without_an_index(folder):
    """A folder for each set of numbers of lost shards."""
    for lost in ("1", "3", "5", "2-3", "4-5"):
        shards_of_llama(folder, lost + "/m", lost.split("-"))


@sample
def llamas_with_tokens_near_the_rows_of_their_embedding(folder):
    """In the last row, beyond it, and of pictures beyond it."""
    for name, number, content in (("last", 63, "<tool>"), ("beyond", 64, "<tool>"), ("image", 64, "<image>")):
        folder.copy("hf/llama-sharded", name)
        folder.json(name + "/tokenizer.json", {"added_tokens": [{"id": number, "content": content}]})


def part_of_a_pipeline(folder, name, source):
    folder.copy(f"safetensors/{source}/model.safetensors", name + "/diffusion_pytorch_model.safetensors")


@sample
def pipeline_of_diffusers_with_a_scheduler(folder):
    folder.json("d/model_index.json", {})
    folder.json("d/scheduler/scheduler_config.json", {})
    part_of_a_pipeline(folder, "d/unet", "all-dtypes")
    part_of_a_pipeline(folder, "d/vae", "aliases")


@sample
def pipeline_of_diffusers_without_the_file_of_a_part(folder):
    folder.json("p/model_index.json",
                {"unet": ["diffusers", "UNet2DModel"], "vae": ["diffusers", "AutoencoderKL"]})
    for part in ("unet", "vae"):
        folder.json(f"p/{part}/config.json", {})
    part_of_a_pipeline(folder, "p/unet", "aliases")


@sample
def names_with_a_segment_of_a_wrapper(folder):
    for prefix in ("module", "_orig_mod", "lightning_module", "a._fsdp_wrapped_module",
                   "a._checkpoint_wrapped_module"):
        folder.write(prefix + "/x.safetensors", safetensors({prefix + ".w": ("U8", [1], b"1")}))


@sample
def model_of_meta(folder, **sizes):
    for rank in (0, 1):
        name = f"consolidated.{rank:02}.pth"
        folder.copy("meta/consolidated-mp2/" + name, "m/" + name)
    folder.json("m/params.json", {"n_heads": 4, "n_kv_heads": 2, **sizes})


@sample
def models_of_meta_with_other_sizes(folder):
    """Without dim, or with one that is no whole number, and at last a right one."""
    for number, sizes in enumerate(({"dim": 0}, {"dim": 16.0}, {"dim": "16"}, {"dims": 16}, {"a": {"dim": 16}},
                                    {"dim": 16})):
        model_of_meta(folder.within(str(number)), **sizes)


@sample
def models_with_averages(folder):
    """Of Lightning's kind, where the average is a model of its own, of latent-diffusion's, whose names lack the dots, and of
    mmcv's, with "_" in their place; in other.safetensors the "average" has another shape."""
    names = [f"blocks.{i}.conv.{kind}" for i in range(2) for kind in ("weight", "bias")]

    def save(file, prefix, averages, shape=(2,)):
        tensors = {prefix + name: ("U8", [2], b"\1\2") for name in names}
        tensors |= {name: ("U8", list(shape), b"\1\2") for name in averages}
        folder.write(file, safetensors(tensors))

    save("twins.safetensors", "model.", ["ema_model." + name for name in names])
    save("undotted.safetensors", "model.", ["model_ema." + name.replace(".", "") for name in names])
    save("flat.safetensors", "", ["ema_" + name.replace(".", "_") for name in names])
    save("other.safetensors", "", ["ema_" + name.replace(".", "_") for name in names], (1, 2))


@sample
def t5_with_a_head_of_its_own(folder):
    """m/ as T5 of transformers 4.57.3 saves it with tie_word_embeddings false, and n/ without that head. Tried: 4.57.3 and
    5.24.0 load m/ without missing names."""
    shapes = {"shared": [4, 2], "lm_head": [4, 2]}
    for side, layers in (("encoder", ("SelfAttention", "DenseReluDense")),
                         ("decoder", ("SelfAttention", "EncDecAttention", "DenseReluDense"))):
        shapes[f"{side}.final_layer_norm"] = [2]
        for i, layer in enumerate(layers):
            at = f"{side}.block.0.layer.{i}"
            shapes[f"{at}.layer_norm"] = [2]
            if layer == "DenseReluDense":
                shapes |= {f"{at}.{layer}.wi_0": [3, 2], f"{at}.{layer}.wi_1": [3, 2], f"{at}.{layer}.wo": [2, 3]}
            else:
                shapes |= {f"{at}.{layer}.{name}": [2, 2] for name in "qkvo"}
            if layer == "SelfAttention":
                shapes[f"{at}.{layer}.relative_attention_bias"] = [32, 1]
    for place in "mn":
        tensors = {f"{name}.weight": ("F32", shape, bytes(4 * math.prod(shape))) for name, shape in shapes.items()}
        folder.write(f"{place}/model.safetensors", safetensors(tensors, format="pt"))
        folder.write(f"{place}/config.json", """{"architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
            "vocab_size": 4, "d_model": 2, "d_ff": 3, "d_kv": 2, "num_heads": 1, "num_layers": 1, "num_decoder_layers": 1,
            "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false}""")
        shapes.pop("lm_head", None)


SIZES = {"vocab_size": 4, "hidden_size": 2, "intermediate_size": 3, "num_hidden_layers": 1, "num_attention_heads": 1,
         "num_key_value_heads": 1, "num_local_experts": 2, "dtype": "float32", "tie_word_embeddings": False}


def decoder(folder, name, kind, mlp, head="lm_head"):
    """A model of one layer with these tensors of its MLP."""
    layer = "model.layers.0."
    shapes = {f"{layer}self_attn.{one}_proj.weight": [2, 2] for one in "qkvo"} | {f"{layer}{one}": shape for one, shape in mlp.items()}
    shapes |= {f"{one}.weight": [2] for one in (layer + "input_layernorm", layer + "post_attention_layernorm", "model.norm")}
    shapes |= {"model.embed_tokens.weight": [4, 2], f"{head}.weight": [4, 2]}
    folder.json(name + "/config.json", SIZES | {"model_type": kind.lower(), "architectures": [kind + "ForCausalLM"]})
    folder.write(name + "/model.safetensors", safetensors(
        {one: ("F32", shape, bytes(4 * math.prod(shape))) for one, shape in shapes.items()}, format="pt"))


@sample
def experts_with_names_in_memory(folder):
    """Mixtral as saved; with names in memory, single and joined; without its router. The same of GraniteMoe. Tried: 5.24.0."""
    experts = {f"experts.{expert}.w{matrix}.weight": [2, 3] if matrix == 2 else [3, 2] for expert in (0, 1) for matrix in (1, 2, 3)}
    joined = {"experts.gate_up_proj": [2, 6, 2], "experts.down_proj": [2, 2, 3]}
    router = {"gate.weight": [2, 2]}
    granite = {"input_linear.weight": [2, 6, 2], "output_linear.weight": [2, 2, 3], "router.layer.weight": [2, 2]}
    for place, kind, module, mlp in (
            ("saved", "Mixtral", "block_sparse_moe", router | experts), ("single", "Mixtral", "mlp", router | experts),
            ("joined", "Mixtral", "mlp", router | joined), ("part", "Mixtral", "mlp", joined),
            ("granite", "GraniteMoe", "block_sparse_moe", granite),
            ("granite-joined", "GraniteMoe", "block_sparse_moe", joined | {"router.weight": [2, 2]})):
        decoder(folder, place, kind, {f"{module}.{name}": shape for name, shape in mlp.items()})


@sample
def classifier_with_the_class_of_its_base(folder):
    """Tried: 5.24.0 loads it with the class of the fix."""
    mlp = {f"mlp.{name}_proj.weight": shape for name, shape in {"gate": [3, 2], "up": [3, 2], "down": [2, 3]}.items()}
    decoder(folder, "m", "Llama", mlp, "score")
    folder.edit("m/config.json", '"vocab_size"', '"num_labels": 4, "vocab_size"')


@sample
def models_with_weights_of_other_libraries(folder):
    """Of TensorFlow and of Flax alone, and of TensorFlow next to those of PyTorch."""
    files = {"tf": ("tf_model.h5", b"\x89HDF\r\n\x1a\n" + bytes(100)), "flax": ("flax_model.msgpack", b"\x81\xa6params\x80"),
             "both": ("tf_model.h5", b"\x89HDF\r\n\x1a\n" + bytes(100))}
    for place, (name, content) in files.items():
        folder.json(place + "/config.json", {"model_type": "x", "architectures": ["XModel"]})
        folder.write(place + "/vocab.txt", "a\n")
        folder.write(f"{place}/{name}", content)
    folder.write("both/model.safetensors", safetensors({"a.weight": ("F32", [2, 2], bytes(16))}, format="pt"))


@sample
def models_as_wide_as_their_vocabulary(folder):
    """Without a head that is not tied; with one of another name. Tried: 5.24.0 initializes the head of the first."""
    config = {"model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"], "tie_word_embeddings": False,
              "text_config": {"vocab_size": 8, "hidden_size": 4, "intermediate_size": 8}}
    names = ("embed_tokens.weight", "layers.0.mlp.up_proj.weight", "layers.0.mlp.gate_proj.weight")
    for place, more in {"none": (), "other": ("unembed.0.weight",)}.items():
        folder.json(place + "/config.json", config)
        folder.write(place + "/model.safetensors", safetensors(
            {"model.language_model." + name: ("F32", [8, 4], bytes(128)) for name in (*names, *more)}, format="pt"))


@sample
def llama_with_a_buffer_of_one_layer(folder):
    """As older releases saved it in all. Tried: 5.24.0 ignores it."""
    folder.copy("hf/llama-sharded", "m")
    folder.write("m/more.safetensors", safetensors({"model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", [4], bytes(16))}))
    index = json.loads(folder.read("m/model.safetensors.index.json"))
    index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = "more.safetensors"
    index["metadata"]["total_size"] += 16
    folder.json("m/model.safetensors.index.json", index)


@sample
def models_that_a_command_or_a_number_repairs(folder):
    """A shard without an index; a vocabulary that was given tokens; weights wider than config.json states."""
    config = {"model_type": "x", "vocab_size": 5, "hidden_size": 2}
    for place, name, more, rows in (
            ("shard", "model-00001-of-00001.safetensors", {}, 5), ("tokens", "model.safetensors", {}, 7),
            ("wide", "model.safetensors", {"dtype": "bfloat16"}, 5)):
        folder.json(place + "/config.json", config | more)
        folder.write(f"{place}/{name}", safetensors(
            {f"{one}.weight": ("F32", [rows, 2], bytes(8 * rows)) for one in ("model.embed_tokens", "lm_head")}, format="pt"))


@sample
def weights_of_gptq_without_their_description(folder):
    tensors = {"qweight": ("I32", [1, 8], bytes(32)), "qzeros": ("I32", [1, 1], bytes(4)), "scales": ("F16", [1, 8], bytes(16)),
               "g_idx": ("I32", [8], bytes(32))}
    folder.json("m/config.json", {"model_type": "x"})
    folder.write("m/model.safetensors", safetensors({f"a.{name}": tensor for name, tensor in tensors.items()}, format="pt"))


@sample
def encoders_of_images_with_names_in_memory(folder):
    """ViTModel as saved, and with its names in memory. Tried: 5.24.0 loads both."""
    names = {"attention.attention.query": "attention.q_proj", "attention.attention.key": "attention.k_proj",
             "attention.attention.value": "attention.v_proj", "attention.output.dense": "attention.o_proj", "intermediate.dense": "mlp.fc1",
             "output.dense": "mlp.fc2", "layernorm_before": "layernorm_before", "layernorm_after": "layernorm_after"}
    other = {"intermediate.dense": [3, 2], "output.dense": [2, 3], "layernorm_before": [2], "layernorm_after": [2]}
    for place in ("saved", "memory"):
        shapes = {"embeddings.cls_token": [1, 1, 2], "embeddings.position_embeddings": [1, 2, 2]}
        modules = {"embeddings.patch_embeddings.projection": [2, 3, 1, 1], "layernorm": [2], "pooler.dense": [2, 2]}
        for saved, memory in names.items():
            modules[f"encoder.layer.0.{saved}" if place == "saved" else f"layers.0.{memory}"] = other.get(saved, [2, 2])
        for name, shape in modules.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        folder.json(place + "/config.json", {"model_type": "vit", "architectures": ["ViTModel"], "hidden_size": 2, "intermediate_size": 3,
                    "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 1, "patch_size": 1, "dtype": "float32"})
        folder.write(place + "/model.safetensors", safetensors(
            {name: ("F32", shape, bytes(4 * math.prod(shape))) for name, shape in shapes.items()}, format="pt"))
