# SPDX-License-Identifier: Apache-2.0
"""Adapters of PEFT, whole and broken, and what PeftModel.from_pretrained does with them."""
import json
import os
import shutil

from fresh_saves import digests, kind, of_safetensors
from fresh_hub import tiny


def llama(**more):
    return tiny("LlamaForCausalLM", **more)


def gpt2(**more):
    return tiny("GPT2LMHeadModel", **more)


def bert(**more):
    import transformers
    import torch
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 67}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**{**sizes, **more}))


def picture(**more):
    """Convolutions of one, two and three dimensions, grouped ones too."""
    import torch
    torch.manual_seed(1)
    wide = more.get("hidden_size", 8)
    return torch.nn.ModuleDict({
        "flat": torch.nn.Conv2d(3, wide, 3), "grouped": torch.nn.Conv2d(wide, wide, 3, groups=2),
        "line": torch.nn.Conv1d(wide, 6, 5), "room": torch.nn.Conv3d(wide, 4, (1, 2, 3)), "last": torch.nn.Linear(wide, 5)})


QV = ["q_proj", "v_proj"]
# Another model of the same class, which is deeper or wider.
DEEPER = {llama: {"num_hidden_layers": 3}, gpt2: {"n_layer": 3, "num_hidden_layers": 3}, bert: {"num_hidden_layers": 3}}
WIDER = {llama: {"hidden_size": 48}, gpt2: {"n_embd": 48, "hidden_size": 48}, bert: {"hidden_size": 48}, picture: {"hidden_size": 10}}


def lora():
    from peft import LoraConfig
    return {
        "plain": (llama, LoraConfig(r=4, target_modules=QV)),
        "all linear": (llama, LoraConfig(r=4, target_modules="all-linear")),
        "by a pattern": (llama, LoraConfig(r=4, target_modules=r".*\.1\..*(q|v)_proj")),
        "without some": (llama, LoraConfig(r=4, target_modules=QV, exclude_modules=r".*layers\.0\..*")),
        "without listed": (llama, LoraConfig(r=4, target_modules=[*QV, "o_proj"], exclude_modules=["o_proj"])),
        "some layers": (llama, LoraConfig(r=4, target_modules=QV, layers_to_transform=[1])),
        "one layer by name": (llama, LoraConfig(r=4, target_modules=["layers.0.self_attn.q_proj"])),
        "whole modules": (llama, LoraConfig(r=2, target_modules=QV, modules_to_save=["lm_head", "norm"])),
        "bias of all": (bert, LoraConfig(r=2, target_modules=["query"], bias="all")),
        "bias of its own": (bert, LoraConfig(r=2, target_modules=["query"], bias="lora_only")),
        "a class to learn": (bert, LoraConfig(r=2, target_modules=["query", "value"], task_type="SEQ_CLS")),
        "bias of lora_B": (llama, LoraConfig(r=2, target_modules=QV, lora_bias=True)),
        "DoRA": (llama, LoraConfig(r=4, target_modules=QV, use_dora=True)),
        "rank pattern": (llama, LoraConfig(r=4, target_modules=QV, rank_pattern={"v_proj": 2}, alpha_pattern={"q_proj": 3})),
        "rank pattern of one": (llama, LoraConfig(r=4, target_modules=QV, rank_pattern={r"layers\.1\.self_attn\.q_proj": 6})),
        "rank pattern from the start": (llama, LoraConfig(r=4, target_modules=QV, rank_pattern={"^model.layers.0.self_attn.q_proj": 6})),
        "rsLoRA": (llama, LoraConfig(r=4, target_modules=QV, use_rslora=True)),
        "PiSSA": (llama, LoraConfig(r=4, target_modules=QV, init_lora_weights="pissa")),
        "embeddings": (llama, LoraConfig(r=2, target_modules=["embed_tokens", "o_proj"])),
        "tokens": (llama, LoraConfig(r=2, target_modules=QV, trainable_token_indices=[1, 3])),
        "parameters": (llama, LoraConfig(r=2, target_modules=[], target_parameters=["q_proj.weight"])),
        "Conv1D": (gpt2, LoraConfig(r=4, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)),
        "convolutions": (picture, LoraConfig(r=3, target_modules=["flat", "line", "room"])),
        "grouped convolution": (picture, LoraConfig(r=4, target_modules=["grouped", "last"])),
        "DoRA of convolutions": (picture, LoraConfig(r=3, target_modules=["flat", "last"], use_dora=True)),
    }


def others():
    import peft
    return {
        "IA3": (llama, peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"])),
        "IA3 of Conv1D": (gpt2, peft.IA3Config(target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True)),
        "IA3 of convolutions": (picture, peft.IA3Config(target_modules=["flat", "last"], feedforward_modules=["flat"])),
        "OFT": (llama, peft.OFTConfig(oft_block_size=4, target_modules=QV)),
        "BOFT": (llama, peft.BOFTConfig(boft_block_size=4, target_modules=["q_proj"])),
        "prompt tuning": (llama, peft.PromptTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM")),
        "prefix tuning": (llama, peft.PrefixTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM")),
    }


def unsupported():
    """Of types whose rules the program does not have."""
    import peft
    return {
        "AdaLoRA": (llama, peft.AdaLoraConfig(target_modules=QV, total_step=10, init_r=6, target_r=2)),
        "LoHa": (llama, peft.LoHaConfig(r=2, target_modules=QV)),
        "LoKr": (llama, peft.LoKrConfig(r=2, target_modules=QV)),
        "VeRA": (llama, peft.VeraConfig(r=4, target_modules=["q_proj"])),
        "LN tuning": (llama, peft.LNTuningConfig(target_modules=["input_layernorm"])),
        "p-tuning": (llama, peft.PromptEncoderConfig(num_virtual_tokens=5, encoder_hidden_size=16, task_type="CAUSAL_LM")),
    }


# ---- making them

def made(base, config):
    import peft
    import torch
    model = peft.get_peft_model(base(), config)
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter))
    return model


def is_of_adapter(name):
    return ".default" in name or name.startswith("prompt_encoder.") or "adaption_" in name


def taken(base, folder, wanted, bias):
    """Verdict and the names in the live model that are not as they were saved."""
    import peft
    import torch
    try:
        model = peft.PeftModel.from_pretrained(base(), folder)
    except Exception:  # whatever it is, that is the answer
        return {"verdict": "refuses"}
    new = [n for n, t in model.state_dict().items()
           if (is_of_adapter(n) or (bias and n.endswith(".bias") and n in wanted))
           and (n not in wanted or wanted[n].shape != t.shape or not torch.equal(wanted[n], t))]
    return {"verdict": "differs" if new else "loads", "missing": new}


# ---- breaking them

def rewrite(folder, change_state=None, change_config=None):
    from safetensors.torch import load_file, save_file
    weights, config = os.path.join(folder, "adapter_model.safetensors"), os.path.join(folder, "adapter_config.json")
    if change_state:
        state = change_state(load_file(weights))
        save_file({n: t.clone().contiguous() for n, t in state.items()}, weights, {"format": "pt"})
    if change_config:
        with open(config, encoding="utf-8") as stream:
            told = json.load(stream)
        change_config(told)
        with open(config, "w", encoding="utf-8") as stream:
            json.dump(told, stream)


def longer(state, name):
    import torch
    return {**state, name: torch.cat([state[name], state[name][:1]])}


def kinds_of(state):
    """The first tensor of each last part that names have."""
    found = {}
    for name in sorted(state):
        found.setdefault(name.split(".")[-2] if name.endswith(".weight") else name.rpartition(".")[2], name)
    return found


# Of these a module has no more, so that another base might lack it.
ALONE = ("ia3_l", "oft_R", "trainable_tokens_delta")
# What expressions choose is not looked at.
UNCLEAR = ("by a pattern", "without some", "parameters")


def lies_in_base(what, part=None):
    """Whether nothing in the folder shows it."""
    return what.endswith((" base", "a row more")) or part in ALONE or (
        part is not None and not part.startswith(("lora_", "boft_", "prompt")))


def broken(base, state, config):
    """(what, change of the state, change of the configuration, what other base)"""
    import torch
    yield "whole", None, None, {}
    for part, name in kinds_of(state).items():
        yield f"without {part}", lambda s, n=name: {k: t for k, t in s.items() if k != n}, None, {}
        if state[name].dim():
            yield f"{part} with a row more", lambda s, n=name: longer(s, n), None, {}
    yield "with one more", lambda s: {**s, "base_model.model.more": torch.ones(2)}, None, {}
    yield "compiled", lambda s: {"_orig_mod." + n: t for n, t in s.items()}, None, {}
    if any(".lora_B." in n for n in state):
        yield "in small letters", lambda s: {n.replace("lora_A", "lora_a").replace("lora_B", "lora_b"): t for n, t in s.items()}, None, {}
        yield "with the name of an adapter", lambda s: {n.replace("lora_A.", "lora_A.own.").replace("lora_B.", "lora_B.own."): t for n, t in s.items()}, None, {}
    if config.get("fan_in_fan_out") is False:
        yield "with inputs called first", None, lambda c: c.update(fan_in_fan_out=True), {}
    if config.get("layers_to_transform"):
        yield "all linear", None, lambda c: c.update(target_modules="all-linear"), {}
    for key in ("r", "num_virtual_tokens"):
        if isinstance(config.get(key), int):
            yield f"another {key}", None, lambda c, k=key: c.update({k: c[k] * 2}), {}
    if config.get("rank_pattern"):
        yield "no rank pattern", None, lambda c: c.update(rank_pattern={}), {}
    if isinstance(config.get("target_modules"), list) and len(config["target_modules"]) > 1:
        yield "a target less", None, lambda c: c.update(target_modules=sorted(c["target_modules"])[:1]), {}
    if config.get("target_modules") and not config.get("target_parameters"):
        yield "no target", None, lambda c: c.update(target_modules=[]), {}
    if base in DEEPER:
        yield "deeper base", None, None, DEEPER[base]
    if base in WIDER:
        yield "wider base", None, None, WIDER[base]


def described(model):
    """What --expect takes."""
    return {n: {"dtype": str(t.dtype)[len("torch."):], "shape": list(t.shape)} for n, t in model.state_dict().items()}


def verdicts(folder, named):
    import warnings
    from safetensors.torch import load_file
    warnings.filterwarnings("ignore")
    saves = {}
    for name, (base, config) in named.items():
        model = made(base, config)
        path = os.path.join(folder, name.replace(" ", "-"))
        model.save_pretrained(path)
        wanted = {n: t.clone() for n, t in model.state_dict().items()}
        state = load_file(os.path.join(path, "adapter_model.safetensors"))
        if "prompt_embeddings" in state:  # what made them is not saved
            wanted = {"prompt_encoder.default.embedding.weight": state["prompt_embeddings"]}
        saves[name] = path, digests(state)
        with open(os.path.join(path, "adapter_config.json"), encoding="utf-8") as stream:
            told = json.load(stream)
        for i, (what, change_state, change_config, other) in enumerate(broken(base, state, told)):
            case = f"{path}-{i}"
            shutil.copytree(path, case)
            rewrite(case, change_state, change_config)
            with open(case + ".expect.json", "w", encoding="utf-8") as stream:
                json.dump(described(base(**other)), stream)
            saves[f"{name}, {what}"] = case, {}, {
                "peft": taken(lambda: base(**other), case, wanted, told.get("bias", "none") != "none"),
                "expect": os.path.basename(case) + ".expect.json", "unclear": name.startswith(UNCLEAR),
                "of_base": lies_in_base(what, what.removeprefix("without ") if what.startswith("without ") else None)}
    return saves


@kind("LoRA, whole and broken", "peft")
def lora_saves(folder):
    return verdicts(folder, lora())


@kind("adapters without LoRA, whole and broken", "peft")
def other_saves(folder):
    return verdicts(folder, others())


@kind("adapters of types that are not supported", "peft")
def unsupported_saves(folder):
    saves = {}
    for name, (base, config) in unsupported().items():
        path = os.path.join(folder, name)
        made(base, config).save_pretrained(path)
        saves[name] = path, {}, {"peft": {"verdict": "not_judged"}}
    return saves
