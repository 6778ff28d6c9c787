#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models whose names and shapes are known by their configuration, as transformers saves them: `audit --for=hf` of each, and of
copies with one thing wrong, against what `from_pretrained` does. What is not judged agrees with everything."""
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings

from oraclelib import Tap, arguments, envelope, run, run_in_each, skip_all

SIZES = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
KV = SIZES | {"num_key_value_heads": 2, "pad_token_id": 0}
N = {"vocab_size": 64, "n_embd": 16, "n_layer": 2, "n_head": 4}
T5 = {"vocab_size": 64, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
FEW = {"vocab_size": 64, "hidden_size": 16, "num_attention_heads": 4}
TOWER = SIZES | {"max_position_embeddings": 16, "image_size": 16, "patch_size": 8}
BART = {"vocab_size": 64, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 32, "pad_token_id": 0}
# class, configuration
KINDS = [
    ("LlamaForCausalLM", KV), ("LlamaForCausalLM", KV | {"attention_bias": True, "mlp_bias": True}), ("LlamaModel", KV),
    ("LlamaForSequenceClassification", KV | {"num_labels": 3}), ("GraniteForCausalLM", KV), ("MistralForCausalLM", KV),
    ("Qwen2ForCausalLM", KV | {"tie_word_embeddings": True}), ("Qwen3ForCausalLM", KV | {"head_dim": 8}), ("Phi3ForCausalLM", KV),
    ("MixtralForCausalLM", KV | {"num_local_experts": 4}), ("Qwen3MoeForCausalLM", KV | {"moe_intermediate_size": 8, "num_experts": 4}),
    ("Qwen2MoeForCausalLM", KV | {"moe_intermediate_size": 8, "num_experts": 4, "shared_expert_intermediate_size": 12}),
    ("GemmaForCausalLM", KV | {"head_dim": 4}), ("Gemma2ForCausalLM", KV | {"head_dim": 4}), ("Gemma3ForCausalLM", KV | {"head_dim": 4}),
    ("SmolLM3ForCausalLM", KV), ("CohereForCausalLM", KV), ("OlmoForCausalLM", KV), ("Olmo2ForCausalLM", KV), ("Olmo3ForCausalLM", KV),
    ("Starcoder2ForCausalLM", KV), ("Starcoder2ForCausalLM", KV | {"use_bias": False}), ("PhiForCausalLM", KV), ("BloomForCausalLM", N | {"hidden_size": 16}),
    ("GPT2LMHeadModel", N | {"n_positions": 32}), ("GPT2LMHeadModel", N | {"n_positions": 32, "n_inner": 24, "tie_word_embeddings": False}),
    ("GPTJForCausalLM", N | {"rotary_dim": 4}), ("GPTNeoXForCausalLM", SIZES), ("GPTNeoXForCausalLM", SIZES | {"attention_bias": False}),
    ("FalconForCausalLM", FEW), ("FalconForCausalLM", FEW | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
    ("FalconForCausalLM", FEW | {"multi_query": False, "parallel_attn": False}),
    ("OPTForCausalLM", FEW | {"num_hidden_layers": 2, "ffn_dim": 24, "word_embed_proj_dim": 12, "max_position_embeddings": 32}),
    ("WhisperForConditionalGeneration", {"vocab_size": 64, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20,
                                         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_mel_bins": 8, "pad_token_id": 0}),
    ("CLIPModel", {"text_config": TOWER, "vision_config": TOWER | {"hidden_size": 24}, "projection_dim": 8}),
    ("T5ForConditionalGeneration", T5), ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    ("MT5ForConditionalGeneration", T5), ("BertForMaskedLM", SIZES), ("BertForSequenceClassification", SIZES), ("BertForTokenClassification", SIZES),
    ("RobertaForMaskedLM", SIZES), ("RobertaForSequenceClassification", SIZES | {"num_labels": 4}), ("XLMRobertaForSequenceClassification", SIZES),
    ("DistilBertForSequenceClassification", {"vocab_size": 64, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4}),
    ("ViTForImageClassification", SIZES | {"image_size": 16, "patch_size": 8}),
    ("OlmoeForCausalLM", KV | {"num_experts": 4}), ("GraniteMoeForCausalLM", KV | {"num_local_experts": 4}), ("GlmForCausalLM", KV | {"head_dim": 8}),
    ("GptOssForCausalLM", KV | {"num_local_experts": 4, "head_dim": 8}), ("Glm4ForCausalLM", KV | {"head_dim": 8, "attention_bias": False}),
    ("HeliumForCausalLM", KV | {"head_dim": 4, "attention_bias": True}), ("SeedOssForCausalLM", KV | {"head_dim": 8}), ("ArceeForCausalLM", KV | {"mlp_bias": True}),
    ("NemotronForCausalLM", KV | {"attention_bias": True}), ("Exaone4ForCausalLM", KV), ("Cohere2ForCausalLM", KV), ("CamembertForMaskedLM", SIZES),
    ("BartForConditionalGeneration", BART), ("BartForSequenceClassification", BART | {"num_labels": 4}), ("BartModel", BART),
    ("MBartForConditionalGeneration", BART),
]


def write(folder, tensors):
    from safetensors.torch import save_file
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def faults(folder, tensors, own):
    """Changes what was saved, one after the other."""
    names = sorted(tensors)
    yield "good", tensors
    for name in names[:1] + names[len(names) // 2:len(names) // 2 + 1] + names[-1:]:
        yield f"without {name}", {n: t for n, t in tensors.items() if n != name}
    widest = max(names, key=lambda n: (tensors[n].dim(), n))
    yield f"rows of {widest}", tensors | {widest: tensors[widest][:-1]}
    for prefix in ("module.", "model.", own + "."):  # the last is that of the base model
        yield f"prefix {prefix}", {prefix + n: t for n, t in tensors.items()}
    yield "an extra tensor", tensors | {"extra.weight": tensors[names[0]].clone()}
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    for key, change in (("tie_word_embeddings", lambda tied: not tied), ("intermediate_size", lambda size: size and size + 8)):
        if key in config and config[key] is not None:
            with open(path, "w", encoding="utf-8") as f:
                json.dump(config | {key: change(config[key])}, f)
            yield f"other {key}", tensors
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)


def tried(model, folder):
    try:
        _, info = model.from_pretrained(folder, output_loading_info=True)
    except Exception:  # whatever the library raises is a refusal
        return "refuses"
    return "differs" if info.get("missing_keys") or info.get("mismatched_keys") else "loads"


def judge(args, transformers, name, config):
    from safetensors.torch import load_file
    problems, judged, count = [], 0, 0
    model = getattr(transformers, name)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        model(model.config_class(**config)).save_pretrained(folder)
        for fault, tensors in faults(folder, load_file(os.path.join(folder, "model.safetensors")), model.base_model_prefix):
            write(folder, tensors)
            real = tried(model, folder)
            doc = envelope(run(args, "audit", "--json", "--for=hf", folder), problems, (0, 1, 3))
            given = doc["data"]["loaders"][0]["verdict"] if doc else None
            count += 1
            judged += given != "not_judged"
            status = run(args, "audit", "-qq", folder).status
            if given != "not_judged" and (status == 1) != (real != "loads"):
                problems.append(f"{fault}: status {status}, transformers: {real}")
            if given not in (real, "not_judged"):
                problems.append(f"{fault}: {given}, transformers: {real}")
    if judged < count // 2:
        problems.append("most are not judged")
    return f"{name}: {judged} of {count} are judged", problems


def main():
    args = arguments(__doc__)
    pythons = list(filter(None, os.environ.get("FSDP_PYTHONS", "").split(":")))
    if pythons:
        run_in_each(pythons)
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # a test here is called packaging
    warnings.simplefilter("ignore")
    try:
        import transformers
        from safetensors.torch import load_file  # noqa: F401
    except ImportError:
        skip_all("transformers is not installed")
    if not transformers.__version__.startswith(("5.23", "5.24")):
        skip_all(f"transformers is {transformers.__version__}, the rules are of 5.23 and 5.24")
    transformers.logging.set_verbosity_error()
    tap = Tap()
    for number, (name, config) in enumerate(KINDS):
        title, problems = judge(args, transformers, name, config)
        tap.none(f"{number}. {title}", problems)
    tap.done()


if __name__ == "__main__":
    main()
