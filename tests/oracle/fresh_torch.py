# SPDX-License-Identifier: Apache-2.0
"""Kinds of saves by torch.save that no sample has."""
import os

from fresh_saves import CannotWork, digests, kind, saved, small, stepped

OPTIMIZERS = {
    "Adam, amsgrad": ("Adam", {"amsgrad": True}), "Adam, fused": ("Adam", {"fused": True}),
    "AdamW, foreach": ("AdamW", {"foreach": True}), "SGD, momentum": ("SGD", {"momentum": 0.9}),
    "SGD, nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}), "LBFGS": ("LBFGS", {"history_size": 3}),
    "NAdam": ("NAdam", {}), "RAdam": ("RAdam", {}), "Adagrad": ("Adagrad", {}), "Adadelta": ("Adadelta", {}),
    "Adamax": ("Adamax", {}), "ASGD": ("ASGD", {}), "Rprop": ("Rprop", {}), "RMSprop": ("RMSprop", {"centered": True}),
    "Adafactor": ("Adafactor", {}),
}


@kind("optimizers", "torch")
def optimizers(folder):
    import torch
    saves = {}
    for i, (name, (cls, options)) in enumerate(OPTIMIZERS.items()):
        model = small()
        optimizer = stepped(model, getattr(torch.optim, cls)(model.parameters(), lr=0.01, **options))
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
        saves[name] = saved(state, os.path.join(folder, f"{i}.pt"))
    return saves


@kind("optimizers of matrices alone", "torch")
def matrices(folder):
    import torch
    saves = {}
    model = torch.nn.Sequential(torch.nn.Linear(7, 5, bias=False), torch.nn.Linear(5, 3, bias=False))
    if hasattr(torch.optim, "Muon"):
        optimizer = stepped(model, torch.optim.Muon(model.parameters(), lr=0.01))
        saves["Muon"] = saved({"model": model.state_dict(), "opt": optimizer.state_dict()}, os.path.join(folder, "muon.pt"))
    table = torch.nn.Embedding(9, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(torch.tensor([1, 4, 1])).sum().backward()
    optimizer.step()
    saves["SparseAdam"] = saved({"opt": optimizer.state_dict()}, os.path.join(folder, "sparse.pt"))
    return saves


@kind("optimizer with named parameters, scheduler and scaler", "torch")
def named(folder):
    import torch
    model = small()
    optimizer = stepped(model, torch.optim.AdamW(list(model.named_parameters())))
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    state = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
             "scaler": torch.amp.GradScaler("cpu").state_dict(), "rng": torch.get_rng_state()}
    return {"zip": saved(state, os.path.join(folder, "a.pt")),
            "stream": saved(state, os.path.join(folder, "b.pt"), _use_new_zipfile_serialization=False)}


@kind("averaged models", "torch")
def averaged(folder):
    import torch
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    model = small()
    swa, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    for average in (swa, ema):
        average.update_parameters(small(4))
        average.update_parameters(small(5))
    return {"SWA": saved({"model": model.state_dict(), "swa": swa.state_dict()}, os.path.join(folder, "swa.pt")),
            "EMA": saved(ema.state_dict(), os.path.join(folder, "ema.pt"))}


@kind("wrapped models", "torch")
def wrapped(folder):
    import torch
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    return {"DataParallel": saved(torch.nn.DataParallel(small()).state_dict(), os.path.join(folder, "dp.pt")),
            "compile": saved({"model": torch.compile(small()).state_dict()}, os.path.join(folder, "compile.pt")),
            "keep_vars": saved(small().state_dict(keep_vars=True), os.path.join(folder, "vars.pt"))}


@kind("parametrized modules", "torch")
def parametrized(folder):
    import torch
    from torch.nn.utils import parametrizations, prune
    saves = {}
    for name, change in (("weight_norm", parametrizations.weight_norm), ("spectral_norm", parametrizations.spectral_norm),
                         ("orthogonal", parametrizations.orthogonal)):
        model = torch.nn.Sequential(change(torch.nn.Linear(6, 4)), torch.nn.Linear(4, 2))
        saves[name] = saved(model.state_dict(), os.path.join(folder, name + ".pt"))
    model = torch.nn.Linear(6, 4)
    prune.l1_unstructured(model, "weight", 0.5)
    saves["prune"] = saved(model.state_dict(), os.path.join(folder, "prune.pt"))
    return saves


@kind("narrow and unsigned numbers", "torch")
def numbers(folder):
    import torch
    names = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32",
             "uint64", "complex32", "complex64", "complex128", "bfloat16", "bool")
    state = {}
    for name in names:
        dtype = getattr(torch, name)
        data = torch.randint(0, 2, (3 * 5 * 16,), dtype=torch.uint8)
        state[name] = data.view(dtype)[:15].reshape(3, 5)
    return {"zip": saved(state, os.path.join(folder, "a.pt")),
            "protocol 5": saved(state, os.path.join(folder, "b.pt"), pickle_protocol=5)}


@kind("layouts", "torch")
def layouts(folder):
    import torch
    dense = torch.eye(6)[:4] * 3
    state = {"plain": dense, "coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(),
             "bsr": dense.to_sparse_bsr((2, 2)), "bsc": dense.to_sparse_bsc((2, 2)),
             "hybrid": torch.sparse_coo_tensor([[0, 2]], torch.randn(2, 3), (4, 3))}
    return {"sparse": saved(state, os.path.join(folder, "sparse.pt"))}


@kind("quantised tensors", "torch")
def quantised(folder):
    import torch
    data = torch.randn(4, 6)
    state = {"plain": data}
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        state[str(dtype)[6:]] = torch.quantize_per_tensor(data, 0.1, 0, dtype)
    state["channel"] = torch.quantize_per_channel(data, torch.rand(4) + 0.1, torch.zeros(4), 0, torch.qint8)
    return {"tensors": saved(state, os.path.join(folder, "a.pt"))}


@kind("views and shared storages", "torch")
def views(folder):
    import torch
    base = torch.arange(120.)
    state = {"base": base, "reshaped": base.view(10, 12), "t": base.view(10, 12).t(), "tail": base[100:],
             "diagonal": torch.diagonal(base.view(10, 12)), "unfolded": base.unfold(0, 4, 2),
             "permuted": base.view(2, 3, 4, 5).permute(3, 1, 0, 2),
             "channels": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)}
    return {f"protocol {p}{', stream' if old else ''}":
            saved(state, os.path.join(folder, f"{p}-{old}.pt"), pickle_protocol=p, _use_new_zipfile_serialization=not old)
            for p in (2, 4, 5) for old in (False, True)}


@kind("subclasses and parameters", "torch")
def subclasses(folder):
    import torch
    weight = torch.nn.Parameter(torch.randn(3, 4))
    weight.sharded = True
    state = {"parameter": weight, "frozen": torch.nn.Parameter(torch.randn(2), requires_grad=False),
             "buffer": torch.nn.Buffer(torch.randn(3)), "empty": torch.empty(0, 7), "scalar": torch.tensor(2.5),
             "list": [torch.ones(2), {"deep": torch.zeros(1, 1)}], "tuple": (torch.ones(1), "x")}
    return {"mixed": saved(state, os.path.join(folder, "a.pt"))}


@kind("nested and masked tensors", "torch")
def nested(folder):
    import torch
    state = {"plain": torch.ones(3), "inside": {"jagged": torch.nested.nested_tensor(
        [torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged).values()}}
    return {"values": saved(state, os.path.join(folder, "a.pt"))}


@kind("large pickle and many tensors", "torch")
def many(folder):
    import torch
    state = {f"layers.{i}.part.{j}": torch.full((2,), float(i + j)) for i in range(200) for j in range(10)}
    return {"2000 tensors": saved(state, os.path.join(folder, "a.pt"))}


@kind("modules as they are", "torch")
def modules(folder):
    import torch
    path = os.path.join(folder, "transformer.pt")
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    rnn = torch.nn.LSTM(5, 4, num_layers=2, bidirectional=True)
    return {"transformer": saved(model.state_dict(), path), "lstm": saved(rnn.state_dict(), os.path.join(folder, "lstm.pt")),
            "attention": saved({"net": torch.nn.MultiheadAttention(8, 2, add_bias_kv=True).state_dict()},
                               os.path.join(folder, "attention.pt"))}


@kind("quantised modules", "torch.ao.quantization")
def quantised_modules(folder):
    import torch
    if "qnnpack" not in torch.backends.quantized.supported_engines and \
            "fbgemm" not in torch.backends.quantized.supported_engines:
        raise CannotWork("no engine")
    path = os.path.join(folder, "a.pt")
    model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(6, 4)), {torch.nn.Linear})
    state = {"model": model.state_dict(), "plain": torch.ones(3)}
    torch.save(state, path)
    return {"dynamic": (path, digests(torch.load(path, weights_only=False)))}
