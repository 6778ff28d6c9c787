#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fresh checkpoints, saved by the PyTorch that the samples came from, against live tensors.

Shows that the samples are no accident of the day on which they were made. Skipped unless
exactly that PyTorch can be imported.
"""
import os
import sys
import tempfile

from oraclelib import Tap, arguments, envelope, run, same, wanted_torch

torch = wanted_torch()
dist = torch.distributed


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for k, v in value.items():
            yield from leaves(v, path + (k,))
    elif isinstance(value, (list, tuple)) and value and not isinstance(value, torch.Size):
        for i, v in enumerate(value):
            yield from leaves(v, path + (i,))
    else:
        yield ".".join(map(str, path)), value


def raw(t):
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    return bytes(t.reshape(-1).view(torch.uint8).tolist()) if t.numel() else b""


def read(path, item):
    """The tensor that the named places hold, put together by torch itself."""
    dtype = getattr(torch, item["dtype"])
    whole = torch.empty(item["shape"], dtype=dtype)
    for piece in item["pieces"]:
        sizes = piece.get("sizes") or item["shape"]
        offsets = piece.get("offsets") or [0] * len(item["shape"])
        if 0 in sizes:
            continue
        name = path if os.path.isfile(path) else os.path.join(path, piece["file"])
        with open(name, "rb") as f:
            f.seek(piece["offset"])
            data = bytearray(f.read(piece["length"]))
        flat = torch.frombuffer(data, dtype=dtype)
        strides = piece.get("strides")
        part = flat.as_strided(sizes, strides) if strides else flat.reshape(sizes)
        whole[tuple(slice(o, o + n) for o, n in zip(offsets, sizes))] = part
    if item.get("conj"):
        whole = whole.conj()
    return torch._neg_view(whole) if item.get("neg") else whole


def check(args, path, value):
    problems = []
    tensors = [(n, t) for n, t in leaves(value) if isinstance(t, torch.Tensor)]
    doc = envelope(run(args, "ls", "--json", path), problems)
    if doc:
        same(problems, "ls: names", sorted(t["name"] for t in doc["data"]["tensors"]), sorted(n for n, _ in tensors))
    doc = envelope(run(args, "show", "--json", "--", path, *[n for n, _ in tensors]), problems)
    for item, (name, t) in zip(doc["data"]["items"] if doc else (), tensors):
        same(problems, f"{name}: name", item["name"], name)
        same(problems, f"{name}: dtype", item["dtype"], str(t.dtype).removeprefix("torch."))
        same(problems, f"{name}: shape", item["shape"], list(t.shape))
        same(problems, f"{name}: bytes", item["bytes"], t.numel() * t.element_size())
        if raw(read(path, item)) != raw(t):
            problems.append(f"{name}: the bytes at its places are not its values")
    return problems


def many_dtypes():
    out = {}
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
                 "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"):
        data = torch.randint(0, 2, (3 * 5 * 16,), dtype=torch.uint8)
        out[name] = data.view(torch.bool if name == "bool" else getattr(torch, name))[:15].reshape(3, 5)
    return out


def views():
    base = torch.randn(6, 8)
    return {"base": base, "t": base.t(), "row": base[2], "column": base[:, 3], "tail": base[4:],
            "step": base[::2, 1::3], "expanded": torch.randn(1, 4).expand(3, 4), "empty": base[6:],
            "scalar": torch.tensor(2.5), "conj": torch.randn(3, dtype=torch.complex64).conj(),
            "imag": torch.randn(4, dtype=torch.complex64).conj().imag}


def trained():
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.randn(4, 7)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "names": ["a", "b"]}


def rank_main(rank, world, store, path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    import torch.distributed.checkpoint as dcp

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("dp",))
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    dcp.save({"model": model.state_dict()}, checkpoint_id=path)
    dist.destroy_process_group()


def sharded_save(path, store):
    """Two ranks; returns what the whole model holds, or None if they could not work."""
    import multiprocessing
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=rank_main, args=(r, 2, store, path)) for r in range(2)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join(90)
        if p.is_alive():
            p.terminate()
    if any(p.exitcode for p in ranks):
        return None
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
    return {"model": model.state_dict()}


def main():
    args = arguments(__doc__)
    tap = Tap()
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sharded")
        live = sharded_save(path, os.path.join(folder, "store"))
        if live is None:
            tap.skip("two ranks of FSDP2, distributed checkpoint", "the ranks could not talk to each other")
        else:
            tap.none("two ranks of FSDP2, distributed checkpoint", check(args, path, live))
        for name, make in (("dtypes", many_dtypes), ("views", views), ("trained", trained)):
            value = make()
            for protocol in (2, 5):
                path = os.path.join(folder, f"{name}-{protocol}.pt")
                torch.save(value, path, pickle_protocol=protocol)
                tap.none(f"torch.save: {name}, protocol {protocol}", check(args, path, value))
        for name, make in (("dtypes", many_dtypes), ("views", views), ("trained", trained)):
            value = make()
            for protocol in (1, 2, 3, 4, 5):
                path = os.path.join(folder, f"{name}-stream-{protocol}.pt")
                torch.save(value, path, pickle_protocol=protocol, _use_new_zipfile_serialization=False)
                tap.none(f"torch.save, stream: {name}, protocol {protocol}", check(args, path, value))
        import torch.distributed.checkpoint as dcp
        value = {"model": trained()["model"]}
        path = os.path.join(folder, "single")
        dcp.save(value, checkpoint_id=path, no_dist=True)
        tap.none("one process, distributed checkpoint", check(args, path, value))
    tap.done()


sys.exit(main())
