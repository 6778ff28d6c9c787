# SPDX-License-Identifier: Apache-2.0
"""What loaders do with fresh saves that have one thing wrong each."""
import dataclasses
import os

from fresh_saves import kind, small, stepped


def verdict_of(load, expected=None):
    """What a call does: it raises; returns tensors by names that are, or are not, those expected."""
    try:
        found = load()
    except Exception as error:  # whatever it is, that is the answer
        return {"verdict": "refuses", "why": f"{type(error).__name__}: {error}"[:200]}
    if expected is None:
        return {"verdict": "loads"}
    wrong = [n for n, t in expected.items() if n not in found or not same(found[n], t)]
    return {"verdict": "differs" if wrong else "loads", "missing": wrong[:3]}


def same(a, b):
    import torch
    return a.shape == b.shape and torch.equal(a.float(), b.float())


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
