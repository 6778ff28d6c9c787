# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of models, printed models, and plans."""

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
def plan_with_a_wrong_range(folder):
    plan(folder, "fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json", {
        '"flat_end": 22, "param_start": 0, "param_end": 22': '"flat_end": 21, "param_start": 0, "param_end": 21'})
