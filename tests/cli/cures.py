#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causes and cures of what users of checkpoint libraries report: samples, near misses, and what is printed about each."""
import json
import os
import sys
import tempfile

from rule_examples import BINARY, ENDS, LLAMA_ALL, adapter, always, copy, layers, model, on_base, serving, write

BERT = {"model_type": "bert", "architectures": ["BertForTokenClassification"], "num_hidden_layers": 1, "vocab_size": 64, "hidden_size": 16,
        "intermediate_size": 24, "num_attention_heads": 4, "max_position_embeddings": 8, "type_vocab_size": 2, "id2label": {"0": "a", "1": "b", "2": "c"}}
WHISPER = {"model_type": "whisper", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
GATHER = "gather the full state dict before saving it, or merge the shards of all ranks"
AGAIN = "save or convert the model again, and compare the tensor names with those of the original"


def bert(weight="weight", bias="bias", rows=8, **config):
    """With these words for the parameters of norms, as TensorFlow had them, and these rows of positions."""
    linear = {"attention.self.query": (16, 16), "attention.self.key": (16, 16), "attention.self.value": (16, 16), "attention.output.dense": (16, 16),
              "intermediate.dense": (24, 16), "output.dense": (16, 24)}
    tensors = {f"bert.embeddings.{kind}_embeddings.weight": (count, 16) for kind, count in (("word", 64), ("position", rows), ("token_type", 2))}
    tensors |= {f"bert.encoder.layer.0.{name}.weight": shape for name, shape in linear.items()}
    tensors |= {f"bert.encoder.layer.0.{name}.bias": shape[:1] for name, shape in linear.items()}
    tensors |= {f"bert.{norm}.LayerNorm.{word}": (16,) for norm in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output") for word in (weight, bias)}
    tensors |= {"classifier.weight": (3, 16), "classifier.bias": (3,)}
    return always(model(tensors, {}, **BERT | config))


def llama(changed=(), **config):
    return always(model(LLAMA_ALL | dict(changed), {}, **config))


def prefixed(prefix, inner="", tensors=LLAMA_ALL, **config):
    return always(model({f"{prefix}{name}".replace(".q_proj.", f".q_proj.{inner}"): shape for name, shape in tensors.items()}, {}, **config))


def without(*names, **config):
    return always(model({name: shape for name, shape in LLAMA_ALL.items() if name not in names}, {}, **config))


def quantized(**config):
    return llama(quantization_config=config)


def gptq(group, bits=4, last=4):
    """Weights of 4 bits and groups of 32, under this configuration; the last may have other groups."""
    tensors = dict(ENDS)
    for i, groups in enumerate((4, last)):
        tensors |= {f"model.layers.{i}.mlp.down_proj.{member}": (dtype, shape) for member, dtype, shape in (
            ("qweight", "I32", (16, 16)), ("qzeros", "I32", (groups, 2)), ("scales", "F16", (groups, 16)))}
    return always(model(tensors, {}, quantization_config={"quant_method": "gptq", "bits": bits, "group_size": group}, intermediate_size=128))


def awq(group):
    tensors = ENDS | layers("mlp.down_proj.qweight", shape=("I32", (128, 2))) | layers("mlp.down_proj.qzeros", shape=("I32", (4, 2)))
    tensors |= layers("mlp.down_proj.scales", shape=("F16", (4, 16)))
    return always(model(tensors, {}, quantization_config={"quant_method": "awq", "bits": 4, "group_size": group}, intermediate_size=128))


def fp8(*members):
    tensors = ENDS | layers("mlp.down_proj.weight", shape=("F8_E4M3", (16, 24)))
    for member in members:
        tensors |= layers(f"mlp.down_proj.{member}", shape=(1, 1))
    return always(model(tensors, {}, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}))


def lora(*halves):
    """A file of pairs; the last module has no second half if it says so."""
    def lora_file(folder):
        tensors = {f"{prefix}.{i}.{half}.weight": (4, 16) for prefix, both in halves for i in range(2) for half in both[:2]}
        for prefix, both in halves:
            if len(both) > 2:
                del tensors[f"{prefix}.1.{both[1]}.weight"]
        return os.path.join(write(folder, tensors), "model.safetensors")
    return lora_file


def with_pointer(content):
    """What is in the place of a shard."""
    def with_other_shard(folder):
        path = copy("hf/llama-sharded", folder)
        with open(os.path.join(path, "model-00002-of-00005.safetensors"), "w", encoding="utf-8") as f:
            f.write(content)
        return path
    return with_other_shard


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 4096\n"

MERGE = "merge them in the program that trained them (PEFT: model.merge_and_unload()), and save the model again"
LORA_LIVE = layers("self_attn.v_proj.lora_A.default.weight", shape=(4, 16)) | layers("self_attn.v_proj.lora_B.default.weight", shape=(8, 4))

# rule, what makes a sample, the next steps that are printed
CURES = [
    ("FI1093", gptq(32), []), ("FI1093", gptq(16), ["set group_size to 32 in quantization_config"]),
    ("FI1093", gptq(32, bits=8), ["set bits to 4 in quantization_config"]), ("FI1093", gptq(16, last=2), ["check the group size, and quantize the model again"] * 4),
    ("FI1093", awq(32), []), ("FI1093", awq(64), ["set group_size to 32 in quantization_config"]),
    ("FI1092", fp8("weight_scale_inv"), []), ("FI1092", fp8(), ["quantize or convert the model again"]),
    ("FI1091", llama(num_key_value_heads=4), ["set num_key_value_heads to 2 in config.json"]),
    ("FI1091", llama(num_key_value_heads=4, head_dim=None), ["compare num_attention_heads and num_key_value_heads with the source model"]),
    ("FI1091", llama(head_dim=8), ["set head_dim to 4 in config.json"]), ("FI1091", llama(), []),
    # A piece of two ranks has half of the middle part, too.
    ("FI1094", llama(layers("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight", shape=(8, 16))
                     | layers("mlp.gate_proj.weight", "mlp.up_proj.weight", shape=(12, 16)), num_key_value_heads=4), [GATHER] * 4),
    ("FI1091", llama(hidden_size=32), ["put the config.json of the model that was saved in its place"]),
    *(("FI1091", quantized(**config), ["remove quantization_config from config.json, or quantize the model again"]) for config in (
        {"quant_method": "gptq", "bits": 4}, {"quant_method": "bitsandbytes", "load_in_4bit": True}, {"quant_method": "fp8"})),
    *(("FI1091", quantized(**config), []) for config in ({"quant_method": "torchao"}, {"quant_method": "bitsandbytes", "load_in_4bit": False})),
    ("FI1090", lora(("lora_unet_mid", ("lora_down", "lora_up"))), []), ("FI1090", lora(("lora_unet_mid", ("lora_down", "lora_up", "gone"))), [AGAIN]),
    ("FI4003", lora(("unet.mid", ("lora_A", "lora_B")), ("lora_unet_mid", ("lora_down", "lora_up"))), ["convert all names to one convention, or save them as two files"]),
    ("FI4003", lora(("unet.mid", ("lora_A", "lora_B")), ("unet.up", ("lora_A", "lora_B"))), []),
    ("FI4002", prefixed("base_model.model.", "base_layer."),
     ['save the result of model.merge_and_unload(), or remove "base_model.model." and ".base_layer" from the names']),
    ("FI4002", llama({"base_model.own.weight": (4, 4)}), []), ("FI4002", always(adapter()), []),
    # What is trained is lost if only the names are changed.
    ("FI4002", prefixed("base_model.model.", "base_layer.", LLAMA_ALL | LORA_LIVE), [MERGE]),
    ("FI4002", prefixed("base_model.model.", "base_layer.", LLAMA_ALL | {"lm_head.modules_to_save.default.weight": (64, 16)}), ["save the result of model.merge_and_unload()"]),
    ("FI1095", without("lm_head.weight", tie_word_embeddings=False), ["if the source model ties them, set tie_word_embeddings to true; otherwise copy the head from it"]),
    ("FI1095", llama({"lm_head.weight": (32, 16)}, tie_word_embeddings=True), ["compare the head, the embedding and tie_word_embeddings with the source model"]),
    ("FI1095", llama(tie_word_embeddings=True), []),
    ("FI4005", always(model(ENDS | {"model._flat_param": (512,)}, {})), ["save a full state dict (StateDictType.FULL_STATE_DICT or get_model_state_dict)"]),
    ("FI4005", always(model(ENDS | {"model.flat.bias": (512,)}, {})), []),
    # As transformers builds the embedding of Mllama.
    ("FI1091", llama({"model.embed_tokens.weight": (72, 16)}, model_type="mllama_text_model"), []),
    ("FI1091", llama({"model.embed_tokens.weight": (72, 16)}, model_type="mine"), ["copy config.json and all weights again from one and the same save"]),
]

META = {"model.embed_tokens": "tok_embeddings", "lm_head": "output", "model.norm": "norm", "model.layers": "layers", "self_attn.q_proj": "attention.wq",
        "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
        "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}


def of_meta(name):
    for ours, theirs in META.items():
        name = name.replace(ours, theirs)
    return name


# what makes a sample, the verdict of from_pretrained, its next step
LOADS = [
    (bert(), "loads", None), (bert("gamma", "beta"), "loads", None), (bert("gamma", "shift"), "differs", None),
    (bert(id2label={"0": "a"}), "refuses", "list the 3 labels of the trained model in config.json (id2label, label2id); the weights do not contain their names"),
    (bert(rows=12), "refuses", "set max_position_embeddings in config.json to 12"), (bert(rows=4), "refuses", None),
    (with_pointer(POINTER), "refuses", "download or copy the file again"), (with_pointer("\0" * 4096), "refuses", "download or copy the file again"),
    (llama(rope_scaling={"type": "linear"}), "refuses", "put rope_scaling of the source model's config.json in its place"),
    (llama(rope_parameters={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}), "refuses", "put rope_parameters of the source model's config.json in its place"),
    (llama(rope_scaling={"type": "linear", "factor": 2.0}), "loads", None), (llama(rope_scaling={"rope_type": "default"}), "loads", None),
    (llama(num_hidden_layers=1), "loads", None),
    (llama({"model.embed_tokens.weight": (66, 16)}), "refuses",
     "lm_head.weight has 64 rows: call model.resize_token_embeddings(66), which resizes both, and save again"),
    # The rows of one rank are no reason to cut the other tensor.
    (llama({"model.embed_tokens.weight": (32, 16)}), "refuses", None), (llama({"model.embed_tokens.weight": (1024,)}), "refuses", None),
    (llama({name: (66, 16) for name in ENDS}), "refuses", "set vocab_size in config.json to 66"), (llama({name: (32, 16) for name in ENDS}), "refuses", None),
    (llama(intermediate_size=28), "refuses", "set intermediate_size in config.json to 24"), (llama(intermediate_size=64), "refuses", None),
    (llama(layers("mlp.down_proj.weight", shape=(24, 16))), "refuses", "save these matrices transposed"),
    (llama(layers("mlp.down_proj.weight", shape=(12, 16))), "refuses", None),
    (prefixed("language_model.", tensors={n: s for n, s in LLAMA_ALL.items() if n != "lm_head.weight"}, tie_word_embeddings=True), "differs",
     "fsdp-inspect export --strip=language_model. -o OUT FOLDER"),
    (quantized(quant_method="gptq", bits=4), "not_judged", None), (llama(quantization={"bits": 4, "group_size": 64}), "loads", None),
    (quantized(bits=4, group_size=64), "refuses", "remove quantization_config from config.json"),
    (always(model({**LLAMA_ALL, "lm_head.scales": (4, 4)}, {}, quantization_config={"bits": 4, "group_size": 64})), "refuses", None),
    *((always(model({"model.decoder.embed_tokens.weight": (64, 16)}, {}, **WHISPER, architectures=[name])), verdict, None) for name, verdict in (
        ("WhisperForCausalLM", "not_judged"), ("WhisperForConditionalGeneration", "differs"))),
    (always(model({of_meta(name): shape for name, shape in LLAMA_ALL.items()}, {})), "differs", "fsdp-inspect export --map=hf-llama -o OUT FOLDER"),
    (always(model({of_meta(name): shape for name, shape in LLAMA_ALL.items() if ".q_proj." not in name}, {})), "differs", None),
]


ADAPTED = [
    (always(on_base(lambda tensors: tensors)), "loads", None),
    *((always(on_base(lambda tensors, rows=rows: tensors | {"base_model.model.model.embed_tokens.weight": (rows, 16)})), "refuses", step) for rows, step in (
        (66, "call resize_token_embeddings(66) on the base before the adapter is loaded"), (62, None))),
]

def gptj(base="transformer."):
    """Its head has a bias, whose name has no prefix in any release."""
    tensors = {f"{base}{name}": (16,) for name in ("ln_f.weight", "ln_f.bias", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.mlp.fc_out.bias")}
    tensors |= {f"{base}h.0.attn.{name}.weight": (16, 16) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    tensors |= {f"{base}h.0.mlp.fc_in.weight": (64, 16), f"{base}h.0.mlp.fc_in.bias": (64,), f"{base}h.0.mlp.fc_out.weight": (16, 64)}
    tensors |= {f"{base}wte.weight": (64, 16), "lm_head.weight": (64, 16), "lm_head.bias": (64,)}
    return always(model(tensors, {}, model_type="gptj", architectures=["GPTJForCausalLM"], n_embd=16, n_layer=1, n_head=4, vocab_size=64, intermediate_size=64, num_hidden_layers=1, num_key_value_heads=4))


OLDER = [(gptj(), "loads", None), (gptj(""), "refuses", "rename the tensors to the names of the model")]


def audit(path, *options):
    run = serving.completed([BINARY, "audit", "--json", *options, path])
    return json.loads(run.stdout)


def main():
    print(f"1..{len(CURES) + len(LOADS) + len(ADAPTED) + len(OLDER)}")
    outcomes = []
    for rule, make, wanted in CURES:
        with tempfile.TemporaryDirectory() as folder:
            given = [f.get("fix") for f in audit(make(folder), "--for=none")["findings"] if f["rule"] == rule]
        outcomes.append((given, wanted))
    for loader, (make, wanted, step) in [("hf", load) for load in LOADS] + [("peft", load) for load in ADAPTED] + [("hf --loader-version=4.57", load) for load in OLDER]:
        with tempfile.TemporaryDirectory() as folder:
            answer = audit(make(folder), *f"--for={loader}".split())["data"]["loaders"][0]
            steps = [reason.get("way_out") for reason in answer["reasons"]]
        given = [answer["verdict"], *(text.replace(folder, "FOLDER") if text else text for text in steps)]
        outcomes.append((given, [wanted] if wanted == "loads" else [wanted, step]))
    for number, (given, wanted) in enumerate(outcomes, 1):
        print(f"{'ok' if given == wanted else 'not ok'} {number} - {given}" + ("" if given == wanted else f", expected {wanted}"))
    return 1 if any(given != wanted for given, wanted in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
