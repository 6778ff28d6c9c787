# SPDX-License-Identifier: Apache-2.0
"""Kinds of saves by libraries that write what a hub holds."""
import os
import shutil

from fresh_saves import CannotWork, digests, kind, of_safetensors, saved, small

TINY = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 67, "max_position_embeddings": 40, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODERS = {
    "LlamaForCausalLM": {}, "MistralForCausalLM": {}, "Qwen2ForCausalLM": {"tie_word_embeddings": True}, "Qwen3ForCausalLM": {},
    "Qwen3MoeForCausalLM": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1},
    "MixtralForCausalLM": {"num_local_experts": 4}, "Phi3ForCausalLM": {}, "Gemma2ForCausalLM": {}, "Gemma3ForCausalLM": {},
    "Olmo2ForCausalLM": {}, "GraniteForCausalLM": {}, "StableLmForCausalLM": {}, "Glm4ForCausalLM": {}, "CohereForCausalLM": {},
    "GPT2LMHeadModel": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40},
    "GPTNeoXForCausalLM": {}, "OPTForCausalLM": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "BloomForCausalLM": {"n_layer": 2, "n_head": 4}, "FalconForCausalLM": {}, "MambaForCausalLM": {},
}
OTHERS = {
    "BertForMaskedLM": {}, "RobertaForSequenceClassification": {}, "ViTForImageClassification": {"image_size": 8, "patch_size": 4},
    "T5ForConditionalGeneration": {"d_model": 32, "d_ff": 48, "d_kv": 8, "num_layers": 2, "num_heads": 4},
    "BartForConditionalGeneration": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
                                     "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
    "DistilBertForMaskedLM": {"dim": 32, "n_layers": 1, "n_heads": 4, "hidden_dim": 48}, "ElectraForPreTraining": {},
    "WhisperForConditionalGeneration": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
                                        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
                                        "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 20},
    "CLIPTextModel": {}, "DeiTModel": {"image_size": 8, "patch_size": 4},
    "ConvNextForImageClassification": {"hidden_sizes": [4, 8, 8, 8], "depths": [1, 1, 1, 1]},
}


def tiny(name, **more):
    import torch
    import transformers
    cls = getattr(transformers, name)
    torch.manual_seed(1)
    return cls(cls.config_class(**{**TINY, **{**DECODERS, **OTHERS}.get(name, {}), **more}))


def given_back(model, folder):
    """That the library loads it whole."""
    loaded, told = type(model).from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"] and not told["mismatched_keys"], told
    assert digests(loaded.state_dict()) == digests(model.state_dict()), "the library loads something else"


def save_models(folder, names, **options):
    saves, failed = {}, None
    for name in names:
        path = os.path.join(folder, name)
        try:
            model = tiny(name)
        except (AttributeError, TypeError, ValueError) as error:
            failed = f"{name}: {error}"
            continue
        model.save_pretrained(path, **options)
        given_back(model, path)
        saves[name] = path, of_safetensors(path)
    if not saves:
        raise CannotWork(failed)
    return saves


@kind("save_pretrained: decoders", "transformers")
def decoders(folder):
    return save_models(folder, DECODERS)


@kind("save_pretrained: encoders and pictures", "transformers")
def encoders(folder):
    return save_models(folder, OTHERS)


@kind("save_pretrained: shards", "transformers")
def shards(folder):
    return save_models(folder, ("LlamaForCausalLM", "MixtralForCausalLM", "T5ForConditionalGeneration", "GPT2LMHeadModel"),
                       max_shard_size="20KB")


@kind("save_pretrained: narrow, variant, state of the caller", "transformers")
def variants(folder):
    import torch
    model = tiny("LlamaForCausalLM").to(torch.bfloat16)
    saves = {}
    for name, options in (("bfloat16", {}), ("variant", {"variant": "fp16"}), ("state", {"state_dict": model.state_dict()})):
        path = os.path.join(folder, name)
        model.save_pretrained(path, **options)
        saves[name] = path, of_safetensors(path)
    return saves


# ---- what the library does with a folder that is not whole

def taken(folder):
    """Verdict and names that it does not find, as AutoModelForCausalLM has them."""
    import transformers
    transformers.logging.set_verbosity_error()
    try:
        _, told = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    except Exception:  # whatever it is, that is the answer
        return {"verdict": "refuses"}
    # Experts are joined there, and Mixtral's router has another name in files.
    missing = sorted(n for n in told["missing_keys"] if ".experts." not in n)
    if "Mixtral" in folder:
        missing = [n.replace(".mlp.gate.", ".block_sparse_moe.gate.") for n in missing]
    if any(".experts." in n for n in told["missing_keys"]):
        return {"verdict": "differs"}
    return {"verdict": "differs" if missing else "loads", "missing": missing}


def variants_of(state):
    """Some of everything that goes wrong: name -> state."""
    import torch
    names = sorted(state)
    layer = [n for n in names if ".0." in n or ".h.0." in n]
    yield "whole", state
    for name in layer:
        yield f"without {name}", {n: t for n, t in state.items() if n != name}
    yield "with one more", {**state, "model.more": torch.ones(2)}
    wide = max(layer, key=lambda n: state[n].numel())
    yield f"{wide} with a row more", {**state, wide: torch.zeros(state[wide].shape[0] + 1, *state[wide].shape[1:])}
    for part in (".experts.1.", ".experts.", ".w1.", ".down_proj.", ".up_proj."):
        if any(part in n and "experts" in n for n in layer):
            yield f"without {part}", {n: t for n, t in state.items() if n not in layer or part not in n or "experts" not in n}
    expert = next((n for n in layer if "experts.2." in n), None)
    if expert:
        yield f"{expert} with a row more", {**state, expert: torch.zeros(state[expert].shape[0] + 1, state[expert].shape[1])}
        swapped = expert.replace("experts.2.", "experts.9.")
        yield f"{expert} as {swapped}", {swapped if n == expert else n: t for n, t in state.items()}
    yield "compiled", {"_orig_mod." + n: t for n, t in state.items()}
    yield "without the head", {n: t for n, t in state.items() if not n.startswith("lm_head.")}


@kind("from_pretrained of what is not whole", "transformers")
def not_whole(folder):
    from safetensors.torch import load_file, save_file
    saves = {}
    for name in ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Phi3ForCausalLM",
                 "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Olmo2ForCausalLM", "GraniteForCausalLM", "GPT2LMHeadModel",
                 "MixtralForCausalLM", "Qwen3MoeForCausalLM"):
        path = os.path.join(folder, name)
        tiny(name).save_pretrained(path)
        weights = os.path.join(path, "model.safetensors")
        for i, (what, state) in enumerate(variants_of(load_file(weights))):
            made = os.path.join(folder, f"{name}-{i}")
            shutil.copytree(path, made)
            save_file(state, os.path.join(made, "model.safetensors"), {"format": "pt"})
            # An expert of another number is joined in another place, without a word.
            saves[f"{name}, {what}"] = made, {}, {"hf": {"verdict": "differs"} if " as " in what else taken(made)}
    return saves


@kind("from_pretrained where the configuration says little", "transformers")
def defaults(folder):
    """What config.json does not say is as the class has it."""
    import json
    saves = {}
    for name, lacks in (("Qwen3ForCausalLM", ("head_dim",)), ("Gemma2ForCausalLM", ("head_dim", "tie_word_embeddings")),
                        ("Gemma3ForCausalLM", ("num_key_value_heads",)), ("MistralForCausalLM", ("num_key_value_heads",)),
                        ("Olmo2ForCausalLM", ("num_key_value_heads", "head_dim"))):
        path = os.path.join(folder, name)
        tiny(name, attention_bias=True).save_pretrained(path)
        with open(os.path.join(path, "config.json"), encoding="utf-8") as stream:
            config = json.load(stream)
        for key in lacks:
            config.pop(key, None)
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as stream:
            json.dump(config, stream)
        saves[name] = path, {}, {"hf": taken(path)}
    return saves


def pickles(state):
    """What torch.save may hold instead of a dict of tensors."""
    import collections
    import torch
    tensors = list(state.values())
    ordered = collections.OrderedDict(state)
    yield from {"whole": state, "ordered": ordered, "no tensors": {}, "values alone": {"a": 1, "b": "x"},
                "a dict in a dict": {"model": state, "step": 3}, "an ordered one in it": {"model": ordered},
                "a number first": {"step": 3, "model": state}, "with a value": {**state, "step": 3},
                "of Lightning": {"epoch": 1, "global_step": 2, "pytorch-lightning_version": "2.6.6", "state_dict": ordered},
                "with a dict": {**state, "optimizer": {"x": torch.ones(2)}}, "by number": dict(enumerate(tensors)), "list": tensors, "empty list": [], "tuple": tuple(tensors),
                "list of dicts": [state], "matrix": torch.ones(3, 4), "vector": torch.ones(3), "number": torch.tensor(1.),
                "parameter": torch.nn.Parameter(torch.ones(2, 5)), "None": None, "integer": 3, "text": "abc",
                "set": {1, 2}}.items()


def doing(load, before):
    """What a loader does: refuses the file, or whether anything came out of it."""
    try:
        after = load()
    except Exception:
        return {"verdict": "refuses"}
    import torch
    return {"verdict": "differs" if all(torch.equal(after[n], t) for n, t in before.items()) else "loads"}


def resumed(model, path):
    from transformers import Trainer, TrainingArguments
    Trainer(model, TrainingArguments(os.path.join(path, "run"), report_to=[], use_cpu=True))._load_from_checkpoint(path)


@kind("pickles that are no dict of tensors", "accelerate")
def odd_pickles(folder):
    import json
    import torch
    import transformers
    from accelerate import load_checkpoint_in_model
    transformers.logging.set_verbosity_error()
    saves, model = {}, tiny("LlamaForCausalLM")
    for n in model.state_dict().values():
        n.add_(1)
    for i, (what, value) in enumerate(pickles(dict(model.state_dict()))):
        for dtype in None, "float32":
            path = os.path.join(folder, f"{i}-{dtype}")
            os.makedirs(path)
            model.config.save_pretrained(path)
            with open(os.path.join(path, "config.json"), encoding="utf-8") as stream:
                config = {k: v for k, v in json.load(stream).items() if k != "dtype"} | ({"dtype": dtype} if dtype else {})
            with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as stream:
                json.dump(config, stream)
            torch.save(value, os.path.join(path, "pytorch_model.bin"))
            with open(os.path.join(path, "trainer_state.json"), "w", encoding="utf-8") as stream:
                stream.write("{}")
            for name in "optimizer.pt", "scheduler.pt":
                torch.save({}, os.path.join(path, name))
            live = tiny("LlamaForCausalLM")
            norms = {n: t.clone() for n, t in live.state_dict().items() if "norm" in n}

            def fresh():
                return transformers.AutoModelForCausalLM.from_pretrained(path).state_dict()

            def put(load, live=live):
                load()
                return live.state_dict()
            told = {"hf": doing(fresh, norms),
                    "trainer": doing(lambda: put(lambda: resumed(live, path)), norms),
                    "accelerate": doing(lambda: put(lambda: load_checkpoint_in_model(live, path)), norms)}
            told["hf"]["unclear"] = dtype is not None
            saves[f"{what}, {dtype or 'no type'}"] = path, {}, {"for": told}
    return saves


# ---- adapters

def adapters():
    import peft
    linear = ["q_proj", "v_proj"]
    return {"LoRA": peft.LoraConfig(r=4, target_modules=linear),
            "LoRA with whole modules": peft.LoraConfig(r=2, target_modules=linear, modules_to_save=["lm_head"], bias="all"),
            "DoRA": peft.LoraConfig(r=4, target_modules=linear, use_dora=True),
            "rsLoRA, rank pattern": peft.LoraConfig(r=4, target_modules=linear, rank_pattern={"v_proj": 2}, use_rslora=True),
            "LoRA of embeddings": peft.LoraConfig(r=2, target_modules=["embed_tokens", "o_proj"]),
            "IA3": peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
            "prompt tuning": peft.PromptTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM"),
            "prefix tuning": peft.PrefixTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM"),
            "VeRA": peft.VeraConfig(r=4, target_modules=["q_proj"]),
            "AdaLoRA": peft.AdaLoraConfig(target_modules=linear, total_step=10, init_r=3, target_r=2),
            "LoHa": peft.LoHaConfig(r=2, target_modules=linear), "OFT": peft.OFTConfig(oft_block_size=4, target_modules=linear),
            "BOFT": peft.BOFTConfig(boft_block_size=4, target_modules=["q_proj"])}


@kind("adapters", "peft")
def adapter_saves(folder):
    import peft
    saves = {}
    for name, config in adapters().items():
        model = peft.get_peft_model(tiny("LlamaForCausalLM"), config)
        path = os.path.join(folder, name.replace(" ", "-"))
        model.save_pretrained(path)
        saves[name] = path, of_safetensors(path)
    return saves


@kind("two adapters of one model, and a merged one", "peft")
def adapter_pair(folder):
    import peft
    model = peft.get_peft_model(tiny("LlamaForCausalLM"), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    model.add_adapter("other", peft.LoraConfig(r=3, target_modules=["v_proj"]))
    path = os.path.join(folder, "pair")
    model.save_pretrained(path)
    merged = os.path.join(folder, "merged")
    model.merge_and_unload().save_pretrained(merged)
    return {"default": (path, of_safetensors(os.path.join(path, "adapter_model.safetensors"))),
            "other": (os.path.join(path, "other"), of_safetensors(os.path.join(path, "other"))),
            "merged": (merged, of_safetensors(merged)), "live": saved(model.state_dict(), os.path.join(folder, "live.pt"))}


# ---- pictures and sentences

@kind("parts of a pipeline", "diffusers")
def pipeline(folder):
    import diffusers
    unet = diffusers.UNet2DModel(sample_size=8, block_out_channels=(32, 32), layers_per_block=1,
                                 down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                 up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler()).save_pretrained(os.path.join(folder, "pipe"))
    vae = diffusers.AutoencoderKL(block_out_channels=(32,), layers_per_block=1)
    vae.save_pretrained(os.path.join(folder, "vae"), max_shard_size="100KB")
    unet.save_pretrained(os.path.join(folder, "bin"), safe_serialization=False)
    from diffusers.training_utils import EMAModel
    EMAModel(unet.parameters(), model_cls=type(unet), model_config=unet.config).save_pretrained(os.path.join(folder, "ema"))
    where = {n: os.path.join(folder, *n.split("/")) for n in ("pipe/unet", "vae", "ema")}
    return {n: (path, of_safetensors(path)) for n, path in where.items()} | \
        {"bin": (os.path.join(folder, "bin"), digests(unet.state_dict()))}


@kind("saves of training", "timm")
def timm_saves(folder):
    import timm
    import torch
    from timm.utils import CheckpointSaver, ModelEmaV3
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, num_classes=5)
    ema = ModelEmaV3(model)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(1, 3, 32, 32)).sum().backward()
    optimizer.step()
    CheckpointSaver(model, optimizer, model_ema=ema, checkpoint_dir=folder, recovery_dir=folder).save_checkpoint(0, 0.5)
    state = {"state_dict": model.state_dict(), "state_dict_ema": ema.module.state_dict()}
    path = os.path.join(folder, "last.pth.tar")
    return {"last": (path, digests(torch.load(path, weights_only=False))),
            "hub": saved(state, os.path.join(folder, "pytorch_model.bin"))}


@kind("a model of sentences", "sentence_transformers")
def sentences(folder):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Pooling
    import transformers
    bert = os.path.join(folder, "bert")
    tiny("BertForMaskedLM").bert.save_pretrained(bert)
    with open(os.path.join(bert, "vocab.txt"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(97 + i) for i in range(26)]))
    transformers.BertTokenizerFast(os.path.join(bert, "vocab.txt")).save_pretrained(bert)
    from sentence_transformers.models import Transformer
    model = SentenceTransformer(modules=[Transformer(bert), Pooling(32), Dense(32, 8)], device="cpu")
    path = os.path.join(folder, "model")
    model.save(path)
    dense = os.path.join(path, "2_Dense")
    return {"model": (os.path.join(path, "model.safetensors"), of_safetensors(os.path.join(path, "model.safetensors"))),
            "dense": (dense, of_safetensors(dense))}


@kind("saves of huggingface_hub", "huggingface_hub")
def hub(folder):
    import torch
    from huggingface_hub import PyTorchModelHubMixin, save_torch_model, save_torch_state_dict

    class Net(torch.nn.Module, PyTorchModelHubMixin):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(5, 5)
            self.b = torch.nn.Linear(5, 5)
            self.b.weight = self.a.weight
    where = lambda name: os.path.join(folder, name)
    Net().save_pretrained(where("mixin"))
    for name, options in (("one", {}), ("shards", {"max_shard_size": 100})):
        os.makedirs(where(name))
        save_torch_model(Net(), where(name), **options)
    os.makedirs(where("pickled"))
    state = small().state_dict()
    save_torch_state_dict(state, where("pickled"), safe_serialization=False, max_shard_size=60)
    return {n: (where(n), of_safetensors(where(n))) for n in ("mixin", "one", "shards")} | \
        {"pickled shards": (where("pickled"), digests(state))}


@kind("safetensors by hand", "safetensors")
def by_hand(folder):
    import torch
    from safetensors.torch import save_file, save_model
    model = tied()
    save_model(model, os.path.join(folder, "tied.safetensors"), metadata={"format": "pt", "note": "ü \\ \""})
    names = ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64", "bool", "complex64", "float64", "int8",
             "float8_e8m0fnu")
    state = {n: torch.randint(0, 2, (96,), dtype=torch.uint8).view(getattr(torch, n))[:6].reshape(2, 3).contiguous() for n in names}
    state.update({"scalar": torch.tensor(1.5), "empty": torch.empty(0, 3), "naïve \u6a21": torch.ones(2)})
    save_file(state, os.path.join(folder, "dtypes.safetensors"))
    return {n: (os.path.join(folder, n + ".safetensors"), of_safetensors(os.path.join(folder, n + ".safetensors")))
            for n in ("tied", "dtypes")}


def tied():
    import torch
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9, bias=False))
    model[1].weight = model[0].weight
    return model


@kind("safetensors of flax", "flax")
def flax_saves(folder):
    import flax.linen as nn
    import jax
    from flax.traverse_util import flatten_dict
    import numpy
    from safetensors.flax import save_file
    weights = nn.Dense(3).init(jax.random.PRNGKey(0), numpy.ones((1, 5)))
    path = os.path.join(folder, "flax.safetensors")
    save_file({".".join(k): v for k, v in flatten_dict(weights).items()}, path)
    return {"Dense": (path, of_safetensors(path))}
