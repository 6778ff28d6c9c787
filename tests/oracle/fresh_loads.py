# SPDX-License-Identifier: Apache-2.0
"""What loaders do with fresh saves that have one thing wrong each."""
import dataclasses
import json
import os
import shutil

from fresh_adapters import QV, gpt2, llama, longer, made, rewrite
from fresh_saves import kind, small, stepped


def verdict_of(load, expected=None, exact=False):
    """What a call does: it raises; returns tensors by names that are, or are not, those expected; `exact`: and no others."""
    try:
        found = load()
    except Exception as error:  # whatever it is, that is the answer
        return {"verdict": "refuses", "why": f"{type(error).__name__}: {error}"[:200]}
    if expected is None:
        return {"verdict": "loads"}
    if exact:  # what the file has more is ignored
        wrong = [n for n, t in found.items() if n not in expected or not same(expected[n], t)]
    else:
        wrong = [n for n, t in expected.items() if n not in found or not same(found[n], t)]
    return {"verdict": "differs" if wrong else "loads", "missing": wrong[:3]}


def same(a, b):
    import torch
    return a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=0.02)


# ---- torch.load

def objects():
    """What people put into files."""
    import argparse
    import collections
    import datetime
    import decimal
    import enum
    import fractions
    import functools
    import pathlib
    import random
    import types
    import uuid
    import numpy
    import torch
    tensor = torch.arange(6.0).reshape(2, 3)
    model = small()
    yield "state dict", model.state_dict()
    yield "Parameter", torch.nn.Parameter(tensor)
    yield "OrderedDict", collections.OrderedDict(a=tensor)
    yield "Counter", {"m": tensor, "c": collections.Counter("abca")}
    yield "defaultdict", {"m": tensor, "d": collections.defaultdict(list, a=[1])}
    yield "empty defaultdict", {"m": tensor, "d": collections.defaultdict(list)}
    yield "defaultdict of dict", {"m": tensor, "d": collections.defaultdict(dict, a={"b": 1})}
    yield "deque", {"m": tensor, "d": collections.deque([1, 2], 5)}
    yield "namedtuple of torch", {"m": torch.sort(tensor)}
    yield "Namespace", {"m": tensor, "args": argparse.Namespace(lr=0.1, layers=[1, 2])}
    yield "SimpleNamespace", {"m": tensor, "args": types.SimpleNamespace(lr=0.1)}
    for name in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool_", "complex64", "str_"):
        yield f"numpy scalar {name}", {"m": tensor, "loss": getattr(numpy, name)(1)}
    yield "numpy array", {"m": tensor, "a": numpy.arange(4)}
    yield "numpy array of float", {"m": tensor, "a": numpy.ones((2, 2), dtype="float32")}
    yield "numpy array of objects", {"m": tensor, "a": numpy.array([1, "a"], dtype=object)}
    yield "numpy array of text", {"m": tensor, "a": numpy.array(["a", "b"])}
    yield "numpy structured array", {"m": tensor, "a": numpy.zeros(2, dtype=[("x", "i4")])}
    yield "numpy dtype", {"m": tensor, "a": numpy.dtype("float32")}
    yield "numpy RNG state", {"m": tensor, "rng": numpy.random.get_state()}
    yield "numpy Generator", {"m": tensor, "rng": numpy.random.default_rng(1)}
    yield "numpy Generator state", {"m": tensor, "rng": numpy.random.default_rng(1).bit_generator.state}
    yield "random state", {"m": tensor, "rng": random.getstate()}
    yield "torch RNG", {"m": tensor, "rng": torch.get_rng_state()}
    yield "Generator", {"m": tensor, "rng": torch.Generator()}
    yield "Path", {"m": tensor, "p": pathlib.PurePosixPath("a/b")}
    yield "datetime", {"m": tensor, "p": datetime.datetime(2024, 1, 1)}
    yield "timedelta", {"m": tensor, "p": datetime.timedelta(1)}
    yield "Decimal", {"m": tensor, "p": decimal.Decimal("1.5")}
    yield "Fraction", {"m": tensor, "p": fractions.Fraction(1, 2)}
    yield "UUID", {"m": tensor, "p": uuid.UUID(int=3)}
    yield "slice", {"m": tensor, "p": slice(1, 2)}
    yield "range", {"m": tensor, "p": range(3)}
    yield "frozenset", {"m": tensor, "p": frozenset([1])}
    yield "set", {"m": tensor, "p": {1, 2}}
    yield "bytearray", {"m": tensor, "p": bytearray(b"ab")}
    yield "bytes", {"m": tensor, "p": b"ab"}
    yield "complex", {"m": tensor, "p": 1j}
    yield "Ellipsis", {"m": tensor, "p": ...}
    yield "NotImplemented", {"m": tensor, "p": NotImplemented}
    yield "big integer", {"m": tensor, "p": 1 << 300}
    yield "negative big integer", {"m": tensor, "p": -(1 << 70)}
    yield "partial", {"m": tensor, "p": functools.partial(int, base=2)}
    yield "builtin", {"m": tensor, "p": len}
    yield "class", {"m": tensor, "p": dict}
    yield "exception", {"m": tensor, "p": ValueError("x")}
    yield "Size", {"m": tensor, "p": tensor.shape}
    yield "dtype", {"m": tensor, "p": torch.bfloat16}
    yield "device", {"m": tensor, "p": torch.device("cpu")}
    yield "layout", {"m": tensor, "p": torch.sparse_coo}
    yield "memory format", {"m": tensor, "p": torch.channels_last}
    yield "finfo", {"m": tensor, "p": torch.float32.itemsize}
    yield "module", model
    yield "nn.ReLU", {"m": tensor, "f": torch.nn.ReLU()}
    yield "optimizer", {"m": model.state_dict(), "o": torch.optim.Adam(model.parameters())}
    yield "optimizer state", {"o": stepped(model, torch.optim.Adam(model.parameters())).state_dict()}
    yield "scheduler state", {"o": torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), 0.1), 3).state_dict()}
    yield "LambdaLR state", {"o": torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD(model.parameters(), 0.1), [lambda e: 1.0]).state_dict()}
    yield "OneCycleLR state", {"o": torch.optim.lr_scheduler.OneCycleLR(torch.optim.SGD(model.parameters(), 0.1), 0.1, total_steps=4).state_dict()}
    yield "CyclicLR state", {"o": torch.optim.lr_scheduler.CyclicLR(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), 0.1, 0.2).state_dict()}
    yield "SequentialLR state", {"o": sequential(torch, model)}
    yield "MultiStepLR state", {"o": torch.optim.lr_scheduler.MultiStepLR(torch.optim.SGD(model.parameters(), 0.1), [1, 2]).state_dict()}
    yield "ReduceLROnPlateau state", {"o": torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(model.parameters(), 0.1)).state_dict()}
    yield "CosineAnnealingWarmRestarts state", {"o": torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(torch.optim.SGD(model.parameters(), 0.1), 3).state_dict()}
    yield "GradScaler state", {"o": torch.amp.GradScaler("cpu").state_dict()}
    yield "sparse COO", {"m": torch.eye(3).to_sparse()}
    yield "sparse CSR", {"m": torch.eye(3).to_sparse_csr()}
    yield "sparse CSC", {"m": torch.eye(3).to_sparse_csc()}
    yield "sparse BSR", {"m": torch.eye(4).to_sparse_bsr((2, 2))}
    yield "nested", {"m": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])}
    yield "quantized", {"m": torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)}
    yield "quantized per channel", {"m": torch.quantize_per_channel(tensor, torch.ones(2), torch.zeros(2), 0, torch.qint8)}
    yield "attribute on a tensor", {"m": with_attribute(tensor.clone(), "tag", 3)}
    yield "attribute of a class", {"m": with_attribute(tensor.clone(), "tag", pathlib.PurePosixPath("a"))}
    yield "attribute on a Parameter", {"m": with_attribute(torch.nn.Parameter(tensor.clone()), "tag", 3)}
    yield "Buffer", {"m": torch.nn.Buffer(tensor)}
    yield "UninitializedParameter", {"m": torch.nn.parameter.UninitializedParameter()}
    yield "lazy module's state", torch.nn.LazyLinear(3).state_dict()
    yield "meta tensor", {"m": torch.empty(3, device="meta")}
    yield "conjugate", {"m": torch.ones(3, dtype=torch.complex64).conj()}
    yield "negated view", {"m": torch._neg_view(torch.ones(3))}
    for name in ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "uint16", "uint32", "uint64", "complex32", "bool", "float8_e8m0fnu"):
        yield f"tensor of {name}", {"m": torch.zeros(4).to(getattr(torch, name))}
    yield "fp4", {"m": torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}
    yield "typed storage", {"m": tensor.storage()}
    yield "masked", {"m": torch.masked.masked_tensor(tensor, tensor > 2)}
    yield "itself", itself(tensor)
    yield "deep lists", {"m": tensor, "deep": deep(400)}
    yield "shared storage", {"a": tensor, "b": tensor[1:]}
    yield "list of tensors", [tensor, tensor]
    yield "bare tensor", tensor
    yield "nothing", {}
    yield "None", None
    yield "text", "abc"
    yield "integer keys", {1: tensor, 2: tensor}
    yield "tuple keys", {(1, "a"): tensor}
    yield "enum", {"m": tensor, "e": colours(enum)("red")}
    yield "dataclass", {"m": tensor, "e": Settings(0.1)}
    yield "enum of torch", {"m": tensor, "e": torch.distributed.fsdp.ShardingStrategy.FULL_SHARD}
    yield "ReduceOp", {"m": tensor, "e": torch.distributed.fsdp.StateDictType.FULL_STATE_DICT}
    yield "averaged model", torch.optim.swa_utils.AveragedModel(model).state_dict()
    yield "transformer layer state", torch.nn.TransformerEncoderLayer(4, 2, 8).state_dict()
    yield "parametrized state", torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2)).state_dict()
    yield "parametrized module", torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    yield "nn.ParameterDict", torch.nn.ParameterDict({"a": torch.ones(2)})
    yield "generator of a dict view", {"m": tensor, "k": list({"a": 1}.keys())}
    yield "OrderedDict with an attribute", with_attribute(collections.OrderedDict(a=tensor), "note", 3)
    yield "OrderedDict with a class as attribute", with_attribute(collections.OrderedDict(a=tensor), "note", argparse.Namespace())


@dataclasses.dataclass
class Settings:
    lr: float


def sequential(torch, model):
    from torch.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return SequentialLR(optimizer, [ConstantLR(optimizer), ExponentialLR(optimizer, 0.9)], [2]).state_dict()


def with_attribute(value, name, attribute):
    setattr(value, name, attribute)
    return value


def itself(tensor):
    value = {"m": tensor}
    value["self"] = value
    return value


def deep(count):
    value = []
    for _ in range(count):
        value = [value]
    return value


def colours(enum):
    global Colour
    Colour = enum.Enum("Colour", {"RED": "red"}, module=__name__, qualname="Colour")
    return Colour


@kind("objects of all kinds by torch.save", "torch")
def pickled(folder):
    import torch
    saves = {}
    forms = {"zip": {}, "stream": {"_use_new_zipfile_serialization": False}, "protocol 4": {"pickle_protocol": 4}}
    for what, value in objects():
        for form, options in forms.items():
            if form == "protocol 4" and len(saves) > 80:
                continue
            path = os.path.join(folder, f"{len(saves)}.pt")
            try:
                torch.save(value, path, **options)
            except Exception:  # it cannot be written: nothing to judge
                continue
            told = verdict_of(lambda: torch.load(path, weights_only=True))
            told |= {"options": ["--loader-version=" + ".".join(torch.__version__.split(".")[:2])], "unclear": what == "nested"}
            saves[f"{what}, {form}"] = path, {}, {"for": {"weights_only": told}}
    return saves


# ---- adapters beside their base

def renamed(old, new):
    return lambda state: {n.replace(old, new): t for n, t in state.items()}


def without(*words):
    return lambda state: {n: t for n, t in state.items() if not any(w in n for w in words)}


def each(change, *words):
    return lambda state: {n: change(t) if all(w in n for w in words) else t for n, t in state.items()}


def put(**more):
    return lambda config: config.update(more)


def lacking(*keys):
    return lambda config: [config.pop(k, None) for k in keys]


def adapter_kinds():
    import peft
    from peft import LoraConfig
    task = {"task_type": "CAUSAL_LM"}
    return {
        "LoRA": LoraConfig(r=4, target_modules=QV, **task),
        "LoRA, MLP too": LoraConfig(r=4, target_modules=[*QV, "down_proj", "up_proj"], **task),
        "LoRA with modules_to_save": LoraConfig(r=2, target_modules=QV, modules_to_save=["lm_head", "embed_tokens"], **task),
        "LoRA of embeddings": LoraConfig(r=2, target_modules=["embed_tokens", "q_proj"], **task),
        "DoRA": LoraConfig(r=4, target_modules=QV, use_dora=True, **task),
        "LoRA, some layers": LoraConfig(r=4, target_modules=QV, layers_to_transform=[1], **task),
        "LoRA, tokens": LoraConfig(r=2, target_modules=QV, trainable_token_indices=[1, 3], **task),
        "IA3": peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], **task),
        "prompt tuning": peft.PromptTuningConfig(num_virtual_tokens=5, **task),
        "prefix tuning": peft.PrefixTuningConfig(num_virtual_tokens=5, **task),
    }


def adapter_faults(kind_name, state, config):
    """(what, change of the state, change of the configuration, change of the folder)"""
    import torch
    first, last = sorted(state)[0], sorted(state)[-1]
    yield "whole", None, None, None
    for name in {first, last, sorted(state)[len(state) // 2]}:
        yield f"without {name}", lambda s, n=name: {k: t for k, t in s.items() if k != n}, None, None
        yield f"transposed {name}", lambda s, n=name: {k: t.T if k == n else t for k, t in s.items()}, None, None
        yield f"flat {name}", lambda s, n=name: {k: t.reshape(-1) if k == n else t for k, t in s.items()}, None, None
        yield f"half of {name}", lambda s, n=name: {k: t[:max(1, len(t) // 2)] if k == n else t for k, t in s.items()}, None, None
        yield f"a row more in {name}", lambda s, n=name: longer(s, n), None, None
    yield "in float16", lambda s: {n: t.half() for n, t in s.items()}, None, None
    yield "in bfloat16", lambda s: {n: t.bfloat16() for n, t in s.items()}, None, None
    yield "prefix twice", lambda s: {"base_model.model." + n: t for n, t in s.items()}, None, None
    yield "prefix missing", renamed("base_model.model.", ""), None, None
    yield "half of the prefix", renamed("base_model.model.", "base_model."), None, None
    yield "model. missing", renamed("base_model.model.model.", "base_model.model."), None, None
    yield "model. twice", renamed("base_model.model.model.", "base_model.model.model.model."), None, None
    yield "compiled", lambda s: {n.replace("base_model.model.", "base_model.model._orig_mod."): t for n, t in s.items()}, None, None
    yield "module.", lambda s: {"module." + n: t for n, t in s.items()}, None, None
    yield "with the adapter's name", lambda s: {n.replace("lora_A.", "lora_A.default.").replace("lora_B.", "lora_B.default."): t for n, t in s.items()}, None, None
    yield "with another adapter's name", lambda s: {n.replace("lora_A.", "lora_A.mine.").replace("lora_B.", "lora_B.mine."): t for n, t in s.items()}, None, None
    yield "layers renumbered", renamed("layers.1.", "layers.2."), None, None
    yield "without tensors", lambda s: {}, None, None
    yield "with the base's weights", lambda s: s | {"base_model.model.model.norm.weight": torch.ones(32)}, None, None
    yield "with layers of the base", lambda s: s | {"base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight": torch.ones(32, 32)}, None, None
    yield "another extra tensor", lambda s: s | {"extra": torch.ones(2)}, None, None
    for key in ("r", "num_virtual_tokens"):
        if isinstance(config.get(key), int):
            yield f"{key} doubled", None, put(**{key: config[key] * 2}), None
            yield f"no {key}", None, lacking(key), None
    for key in ("lora_alpha", "task_type", "inference_mode", "base_model_name_or_path", "target_modules", "bias", "peft_version"):
        yield f"no {key}", None, lacking(key), None
    yield "no peft_type", None, lacking("peft_type"), None
    yield "unknown peft_type", None, put(peft_type="FOO"), None
    yield "a key of another release", None, put(from_the_future=3), None
    yield "target_modules all-linear", None, put(target_modules="all-linear"), None
    if isinstance(config.get("target_modules"), list):
        yield "a target more", None, put(target_modules=[*config["target_modules"], "o_proj"]), None
        yield "a target less", None, put(target_modules=config["target_modules"][:1]), None
        yield "other targets", None, put(target_modules=["gate_proj"]), None
        yield "unknown targets", None, put(target_modules=["wq"]), None
        yield "unknown target beside", None, put(target_modules=[*config["target_modules"], "wq"]), None
    yield "modules_to_save lm_head", None, put(modules_to_save=["lm_head"]), None
    yield "modules_to_save null", None, put(modules_to_save=None), None
    yield "modules_to_save unknown", None, put(modules_to_save=["score"]), None
    yield "use_dora", None, put(use_dora=True), None
    yield "no use_dora", None, put(use_dora=False), None
    yield "bias all", None, put(bias="all"), None
    yield "rsLoRA", None, put(use_rslora=True), None
    yield "rank_pattern", None, put(rank_pattern={"q_proj": 8}), None
    yield "layers_to_transform 0", None, put(layers_to_transform=[0]), None
    yield "layers_to_transform 7", None, put(layers_to_transform=[7]), None
    yield "trainable tokens", None, put(trainable_token_indices=[2]), None
    for base in ("deeper", "shallower", "wider", "gpt2", "vocabulary", "tied", "absent", "no weights"):
        yield f"base: {base}", None, put(base_model_name_or_path=f"../base-{base}"), None
    yield "base: absolute", None, lambda c: c.update(base_model_name_or_path=os.path.join(os.getcwd(), "base")), None
    weights, told = "adapter_model.safetensors", "adapter_config.json"
    yield "no configuration", None, None, lambda f: os.remove(os.path.join(f, told))
    yield "no weights", None, None, lambda f: os.remove(os.path.join(f, weights))
    yield "empty file", None, None, lambda f: open(os.path.join(f, weights), "wb").close()
    yield "cut file", None, None, lambda f: cut(os.path.join(f, weights))
    yield "cut configuration", None, None, lambda f: cut(os.path.join(f, told))
    yield "pickled", None, None, lambda f: as_pickle(f, lambda s: s)
    yield "pickled, nested", None, None, lambda f: as_pickle(f, lambda s: {"state_dict": s})
    yield "pickled, with a Namespace", None, None, lambda f: as_pickle(f, with_namespace)
    yield "old pickle beside", None, None, lambda f: as_pickle(f, lambda s: {n: t + 1 for n, t in s.items()}, keep=True)
    yield "weights under another name", None, None, lambda f: os.rename(os.path.join(f, weights), os.path.join(f, "pytorch_model.safetensors"))
    yield "config.json beside", None, None, lambda f: shutil.copy("base/config.json", f)
    yield "full model beside", None, None, lambda f: [shutil.copy(f"base/{n}", f) for n in ("config.json", "model.safetensors")]
    yield "in a folder of its name", None, None, lambda f: [os.mkdir(os.path.join(f, "default")), *(os.rename(os.path.join(f, n), os.path.join(f, "default", n)) for n in (weights, told))]


def with_namespace(state):
    import argparse
    return state | {"args": argparse.Namespace(lr=1)}


def cut(path, size=None):
    with open(path, "r+b") as stream:
        stream.truncate(os.path.getsize(path) // 2 if size is None else size)


def as_pickle(folder, change, keep=False):
    import torch
    from safetensors.torch import load_file
    path = os.path.join(folder, "adapter_model.safetensors")
    torch.save(change(load_file(path)), os.path.join(folder, "adapter_model.bin"))
    if not keep:
        os.remove(path)


def bases():
    made = {"base": llama(), "base-deeper": llama(num_hidden_layers=3), "base-shallower": llama(num_hidden_layers=1),
            "base-wider": llama(hidden_size=48), "base-gpt2": gpt2(), "base-vocabulary": llama(vocab_size=71),
            "base-tied": llama(tie_word_embeddings=True), "base-no weights": llama()}
    for name, model in made.items():
        model.save_pretrained(name)
    os.remove("base-no weights/model.safetensors")


def adapted_state(folder):
    """What the model has of the adapter, by the names that are stored."""
    import peft
    import transformers
    config = peft.PeftConfig.from_pretrained(folder)
    where = os.path.normpath(os.path.join(folder, config.base_model_name_or_path or "../base"))
    model = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(where), folder)
    return peft.get_peft_model_state_dict(model)


@kind("adapters beside their base", "peft")
def based_adapters(folder):
    import peft
    import transformers
    transformers.logging.set_verbosity_error()
    os.chdir(folder)
    bases()
    saves = {}
    for number, (name, config) in enumerate(adapter_kinds().items()):
        config.base_model_name_or_path = "../base"
        model = made(lambda: transformers.AutoModelForCausalLM.from_pretrained("base"), config)
        whole = f"a{number}"
        for part in model.peft_config.values():
            part.base_model_name_or_path = "../base"
        model.save_pretrained(whole, save_embedding_layers=False)
        with open(os.path.join(whole, "adapter_config.json"), encoding="utf-8") as stream:
            told = json.load(stream)
        from safetensors.torch import load_file
        state = load_file(os.path.join(whole, "adapter_model.safetensors"))
        expected = adapted_state(whole)
        for i, (what, change_state, change_config, change_folder) in enumerate(adapter_faults(name, state, told)):
            path = f"a{number}-{i}"
            shutil.copytree(whole, path)
            try:
                rewrite(path, change_state, change_config)
                if change_folder:
                    change_folder(path)
            except (AttributeError, KeyError):
                continue
            did = verdict_of(lambda: adapted_state(path), expected, exact=True)
            saves[f"{name}, {what}"] = os.path.abspath(path), {}, {"for": {"peft": did | ({"verdict": "differs"} if what == "old pickle beside" else {})}}
    return saves
