# SPDX-License-Identifier: Apache-2.0
"""What loaders do with fresh saves that have one thing wrong each."""
import dataclasses
import json
import os
import shutil

from fresh_adapters import QV, gpt2, llama, longer, made, rewrite
from fresh_saves import kind, on_ranks, small, stepped
from fresh_sharded import fully, mesh_of, wide


def verdict_of(load, expected=None, exact=False):
    """What a call does: it raises; returns tensors by names that are, or are not, those expected; `exact`: and no others."""
    try:
        found = load()
    except BaseException as error:  # whatever it is, that is the answer, and DCP raises BaseException
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
    if not any("lm_head" in n for n in state):
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
            did = verdict_of(lambda: adapted_state(path), expected, exact=True) | {"unclear": True}
            if what in ("base: absent", "base: no weights", "in a folder of its name", "no target_modules"):
                continue
            saves[f"{name}, {what}"] = os.path.abspath(path), {}, {"for": {"peft": did | ({"verdict": "differs"} if what == "old pickle beside" else {})}}
    return saves


# ---- distributed checkpoints

def dcp_saver(kind_name, seed=5):
    """Saves a model, and its optimizer if the kind has one, in the way of the kind."""
    def save(rank, folder):
        import torch
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict
        model = wide(seed)
        if kind_name == "FSDP2":
            model = fully(model, mesh_of(2))
        elif kind_name == "FSDP1":
            from torch.distributed.fsdp import FullyShardedDataParallel
            model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
        elif kind_name == "2-D":
            from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
            mesh = mesh_of(2, 2)
            model = fully(parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()}), mesh["dp"])
        if kind_name == "with optimizer":
            model = fully(model, mesh_of(2))
            optimizer = stepped(model, torch.optim.AdamW(model.parameters()), (4, 8))
            weights, states = get_state_dict(model, optimizer)
            state = {"model": weights, "optim": states}
        elif kind_name == "bfloat16":
            state = get_model_state_dict(fully(model.to(torch.bfloat16), mesh_of(2)))
        else:
            state = get_model_state_dict(model)
        dcp.save(state, checkpoint_id=folder)
        return 0
    return save


def dcp_faults(folder, other, wider):
    """(what, change of the folder)"""
    def gone(name):
        return lambda f: os.remove(os.path.join(f, name))

    def shortened(name, size):
        return lambda f: cut(os.path.join(f, name), size(os.path.getsize(os.path.join(f, name))))

    def taken_from(source, name, to=None):
        return lambda f: shutil.copy(os.path.join(source, name), os.path.join(f, to or name))

    def moved(*names):
        def move(f):
            paths = [os.path.join(f, n) for n in names]
            os.rename(paths[0], paths[0] + ".x")
            for i in range(len(paths) - 1):
                os.rename(paths[i + 1], paths[i])
            os.rename(paths[0] + ".x", paths[-1])
        return move

    def written(name, data):
        def write(f):
            with open(os.path.join(f, name), "wb") as stream:
                stream.write(data)
        return write
    files = sorted(n for n in os.listdir(folder) if n.endswith(".distcp"))
    yield "whole", lambda f: None
    for name in [".metadata", *files]:
        yield f"without {name}", gone(name)
        yield f"half of {name}", shortened(name, lambda size: size // 2)
        yield f"a byte less of {name}", shortened(name, lambda size: size - 1)
        yield f"nothing in {name}", shortened(name, lambda size: 0)
        yield f"{name} of another save", taken_from(other, name)
        if os.path.exists(os.path.join(wider, name)):
            yield f"{name} of a wider model", taken_from(wider, name)
        yield f"{name} is a pointer of Git LFS", written(name, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    if len(files) > 1:
        yield "two files exchanged", moved(files[0], files[-1])
    yield "metadata of one rank", lambda f: os.rename(os.path.join(f, ".metadata"), os.path.join(f, "__0.metadata"))
    yield "metadata under another name", lambda f: os.rename(os.path.join(f, ".metadata"), os.path.join(f, "metadata"))
    yield "metadata still temporary", lambda f: os.rename(os.path.join(f, ".metadata"), os.path.join(f, ".metadata.tmp"))
    yield "temporary metadata beside", written(".metadata.tmp", b"x")
    yield "another file beside", written("__7_0.distcp", b"x")
    yield "zeros in a file", lambda f: holed(os.path.join(f, files[0]))
    yield "a file that is a directory", lambda f: [os.remove(os.path.join(f, files[0])), os.mkdir(os.path.join(f, files[0]))]


def holed(path):
    with open(path, "r+b") as stream:
        size = os.path.getsize(path)
        stream.seek(size // 4)
        stream.write(bytes(size // 2))


def dcp_models():
    """(what, state dict that is loaded into, by the names that are stored)"""
    import torch
    yield "the model", lambda: wide(9).state_dict(), True
    yield "a wider one", lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10), torch.nn.Linear(10, 6, bias=False)).state_dict(), False
    yield "a deeper one", lambda: torch.nn.Sequential(*wide(9), torch.nn.Linear(6, 6)).state_dict(), False
    yield "a shorter one", lambda: wide(9)[:3].state_dict(), False
    yield "a compiled one", lambda: {"_orig_mod." + n: t for n, t in wide(9).state_dict().items()}, False
    yield "below a key", lambda: {"model": wide(9).state_dict()}, False
    yield "in float16", lambda: wide(9).half().state_dict(), False
    yield "flat", lambda: {n: t.reshape(-1) for n, t in wide(9).state_dict().items()}, False
    yield "with a step", lambda: wide(9).state_dict() | {"step": torch.tensor(1)}, False


def flattened(state, prefix=""):
    import torch
    found = {}
    for key, value in state.items():
        found |= flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value} if isinstance(value, torch.Tensor) else {}
    return found


@kind("DCP loaded into models", "torch")
def dcp_loads(folder):
    import warnings
    import torch
    import torch.distributed.checkpoint as dcp
    warnings.filterwarnings("ignore")
    saves = {}
    release = ["--loader-version=" + ".".join(torch.__version__.split(".")[:2])]
    kinds = {"plain": 1, "two ranks": 2, "FSDP2": 2, "FSDP1": 2, "2-D": 4, "with optimizer": 2, "bfloat16": 2}
    for number, (name, world) in enumerate(kinds.items()):
        whole, other, wider = (os.path.join(folder, f"{part}{number}") for part in ("d", "other", "wider"))
        for path, seed in ((whole, 5), (other, 6)):
            os.mkdir(path)
            on_ranks(world, dcp_saver(name, seed), path)
        os.mkdir(wider)
        on_ranks(world, dcp_wide_saver, wider)
        truth = stored_values(whole)
        for i, (what, change) in enumerate(dcp_faults(whole, other, wider)):
            path = f"{whole}-{i}"
            shutil.copytree(whole, path)
            change(path)
            models = list(dcp_models()) if what == "whole" and name in ("plain", "FSDP2") else list(dcp_models())[:1]
            for j, (model, make, is_own) in enumerate(models):
                state = make()
                if name == "with optimizer":
                    state = {n: torch.zeros_like(t) for n, t in truth.items()}
                expect = f"{path}-{j}.json"
                with open(expect, "w", encoding="utf-8") as stream:
                    json.dump({n: {"dtype": str(t.dtype)[6:], "shape": list(t.shape)} for n, t in flattened(state).items()}, stream)

                def load():
                    dcp.load(state, checkpoint_id=path, no_dist=True)
                    return flattened(state)
                wanted = {n: t for n, t in truth.items() if n in flattened(state)}
                did = verdict_of(load, wanted)
                if did["verdict"] == "differs" and what.endswith(("of another save", "exchanged")):
                    continue  # nothing in the files shows it
                saves[f"{name}, {what}, {model}"] = path, {}, {"for": {"dcp": did | {"options": [f"--expect={expect}", *release], "auto": is_own}}}
                if is_own:
                    saves[f"{name}, {what}"] = path, {}, {"for": {"dcp": did | {"options": release}}}
    return saves


def dcp_wide_saver(_, folder):
    import torch
    import torch.distributed.checkpoint as dcp
    dcp.save(torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).state_dict(), checkpoint_id=folder)
    return 0


def stored_values(path):
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    dcp_to_torch_save(path, path + ".pt")
    state = torch.load(path + ".pt", weights_only=False)
    os.remove(path + ".pt")
    return flattened(state)


# ---- states of accelerate and of Trainer

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def file_faults(folder):
    """Each file of a directory missing, cut, empty, or something else."""
    def emptied(path, data=b""):
        with open(path, "wb") as stream:
            stream.write(data)
    yield "whole", lambda f: None
    for name in sorted(os.listdir(folder)):
        if os.path.isfile(os.path.join(folder, name)):
            yield f"without {name}", lambda f, n=name: os.remove(os.path.join(f, n))
            yield f"half of {name}", lambda f, n=name: cut(os.path.join(f, n))
            yield f"nothing in {name}", lambda f, n=name: emptied(os.path.join(f, n))
            yield f"{name} is a pointer of Git LFS", lambda f, n=name: emptied(os.path.join(f, n), LFS)


def weight_faults(name, other):
    """Names and shapes of model.safetensors; files of another save."""
    import torch

    def changed(change):
        return lambda f: rewrite_file(os.path.join(f, name), change)
    yield "without the last weight", changed(lambda s: {n: s[n] for n in sorted(s)[:-1]})
    yield "one more weight", changed(lambda s: s | {"more": torch.ones(2)})
    yield "a row less", changed(lambda s: {n: t[:-1] if n == sorted(s)[-1] else t for n, t in s.items()})
    for prefix in ("module.", "_orig_mod.", "model.", "_fsdp_wrapped_module."):
        yield f"names with {prefix}", changed(lambda s, p=prefix: {p + n: t for n, t in s.items()})
    yield "in float16", changed(lambda s: {n: t.half() for n, t in s.items()})
    yield "weights as a pickle", lambda f: repickled(f, name, lambda s: s)
    yield "weights as a pickle below a key", lambda f: repickled(f, name, lambda s: {"state_dict": s})
    yield "an old pickle beside", lambda f: repickled(f, name, lambda s: {n: t + 1 for n, t in s.items()}, keep=True)
    yield "weights of another save", lambda f: shutil.copy(os.path.join(other, name), f)


def rewrite_file(path, change):
    from safetensors.torch import load_file, save_file
    save_file({n: t.clone().contiguous() for n, t in change(load_file(path)).items()}, path, {"format": "pt"})


def repickled(folder, name, change, keep=False):
    import torch
    from safetensors.torch import load_file
    path = os.path.join(folder, name)
    torch.save(change(load_file(path)), os.path.join(folder, "pytorch_model.bin"))
    if not keep:
        os.remove(path)


def accelerated(seed=5, groups=1):
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = wide(seed)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": parameters[i::groups]} for i in range(groups)])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    return accelerator, *accelerator.prepare(model, optimizer, scheduler)


def accelerate_values(accelerator, model, optimizer, scheduler):
    import torch
    found = {n: t.clone() for n, t in model.state_dict().items()}
    found |= {f"optim.{i}.{k}": v.clone() for i, s in optimizer.state_dict()["state"].items() for k, v in s.items() if isinstance(v, torch.Tensor)}
    return found | {"epoch": torch.tensor(scheduler.state_dict()["last_epoch"])}


@kind("accelerate states with one thing wrong", "accelerate")
def accelerate_loads(folder):
    saves, truth = {}, None
    for name, seed in (("whole", 5), ("other", 6)):
        parts = accelerated(seed)
        for _ in range(2):
            stepped(parts[1], parts[2], (4, 8))
            parts[3].step()
        parts[0].save_state(os.path.join(folder, name))
        truth = truth or accelerate_values(*parts)
    whole, other = os.path.join(folder, "whole"), os.path.join(folder, "other")
    for i, (what, change) in enumerate([*file_faults(whole), *weight_faults("model.safetensors", other)]):
        path = f"{whole}-{i}"
        shutil.copytree(whole, path)
        change(path)
        if what in ("weights of another save", "without random_states_0.pkl"):
            continue

        def load():
            parts = accelerated(9)
            parts[0].load_state(path)
            return accelerate_values(*parts)
        did = verdict_of(load, truth) | {"unclear": "random_states" in what}
        if what == "an old pickle beside":
            did["verdict"] = "differs"
        expect = f"{path}.json"
        with open(expect, "w", encoding="utf-8") as stream:
            json.dump({n: {"dtype": "float32", "shape": list(t.shape)} for n, t in wide().state_dict().items()}, stream)
        saves[what] = path, {}, {"for": {"accelerate": did | {"options": [f"--expect={expect}"]}}}
        if not any(word in what for word in ("weight", "row", "names with", "without random")):  # only the model shows it
            saves[f"{what}, alone"] = path, {}, {"for": {"accelerate": did}}
    return saves


class Enough(Exception):
    """The state before the first new step is known."""


def trained(folder, steps, model, resume=None, **options):
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments
    seen = {}

    class Look(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **_):
            if resume:
                seen.update({n: t.clone() for n, t in model.state_dict().items()})
                inner = optimizer.optimizer if hasattr(optimizer, "optimizer") else optimizer
                seen.update({f"optim.{i}.{k}": torch.as_tensor(v).clone() for i, s in inner.state_dict()["state"].items() for k, v in s.items()})
                seen.update(step=torch.tensor(state.global_step), epoch=torch.tensor(lr_scheduler.state_dict()["last_epoch"]))
                raise Enough
    rows = [{"input_ids": torch.arange(6) + i, "labels": torch.arange(6)} for i in range(8)]
    args = TrainingArguments(folder, max_steps=steps, save_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True,
                             optim="adamw_torch", disable_tqdm=True, **options)
    try:
        Trainer(model, args, train_dataset=rows, callbacks=[Look()]).train(resume_from_checkpoint=resume)
    except Enough:
        pass
    return seen


@kind("Trainer checkpoints with one thing wrong", "transformers")
def trainer_loads(folder):
    import transformers
    from fresh_hub import tiny
    transformers.logging.set_verbosity_error()
    saves = {}
    kinds = {"one file": {}, "shards": {"shards": True}}
    for number, (name, options) in enumerate(kinds.items()):
        run, other = os.path.join(folder, f"r{number}"), os.path.join(folder, f"o{number}")
        shards = options.pop("shards", False)
        for path, seed in ((run, 1), (other, 2)):
            model = tiny("LlamaForCausalLM")
            import torch
            torch.manual_seed(seed)
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter)
            if shards:
                save = model.save_pretrained
                model.save_pretrained = lambda *a, s=save, **k: s(*a, **k | {"max_shard_size": "20KB"})
            trained(path, 2, model, **options)
        whole = os.path.join(run, "checkpoint-2")
        truth = trained(os.path.join(run, "look"), 4, tiny("LlamaForCausalLM"), resume=whole)
        faults = [*file_faults(whole)]
        if not shards:
            faults += weight_faults("model.safetensors", os.path.join(other, "checkpoint-2"))
        for i, (what, change) in enumerate(faults):
            path = os.path.join(run, f"c{i}", "checkpoint-2")
            shutil.copytree(whole, path)
            change(path)
            if what == "weights of another save":
                continue
            did = verdict_of(lambda: trained(os.path.join(run, "look"), 4, tiny("LlamaForCausalLM"), resume=path), truth)
            if what == "an old pickle beside":
                did["verdict"] = "differs"  # which of the two is old is not known
            did["unclear"] = "generation_config" in what or "training_args" in what
            saves[f"{name}, {what}"] = path, {}, {"for": {"trainer": did}}
    return saves
