#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fresh_saves.py KIND FOLDER: writes the saves of one kind with the library that makes them, and truth.json: what that
library loads from each, name by name as dtype, shape and SHA-256 (null of what is no array of plain elements).

Status 77: the library is not here, or cannot work on this machine; the last line of stderr says why."""
import hashlib
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import sys
import warnings

ABSENT = 77
KINDS = {}
MODULES = ("fresh_torch", "fresh_sharded", "fresh_hub", "fresh_adapters", "fresh_trainers", "fresh_more", "fresh_loads")


class CannotWork(Exception):
    """The library is there, and not able to make this here."""


def kind(name, library):
    """A function that gets a folder and returns {save: (path, {tensor name: digest}, more)}; of `more`, which may lack:
    options   of ls and export
    export    of export alone
    dtype     that ls shows of all, where export is to write another one
    status    of ls, of what cannot be read for a reason that is said; then nothing is exported
    part      whether more tensors are there, which the library does not give back
    merged    what the library's converter makes of it, which export is to write; then nothing else is asked
    hf, peft  what from_pretrained did, which audit --for is to say; then nothing else is asked; also:
    for       loader -> what it did, which audit --for is to say, with `options`; then nothing else is asked. `unclear`: or not judged
    expect    names and shapes of the base model, in a file beside it
    of_base   whether only these tell the answer
    unclear   whether not even these do: a pattern, a type of which too little is known
    findings  how those begin that are true of the save"""
    def keep(function):
        KINDS[name] = library, function
        return function
    return keep


def load_kinds():
    for module in MODULES:
        importlib.import_module(module)
    return KINDS


# ---- truth

def digest(tensor):
    """Of DTensors and the like that are whole; None for the digest of what has no plain elements."""
    import torch
    tensor = tensor.detach()
    told = [str(tensor.dtype)[len("torch."):], list(tensor.shape)]
    if tensor.layout != torch.strided or tensor.is_quantized or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return told + [None]
    tensor = tensor.cpu().resolve_conj().resolve_neg().clone().contiguous()
    data = tensor.reshape(-1) if tensor.dim() else tensor.reshape(1)
    return told + [hashlib.sha256(data.view(torch.uint8).numpy().tobytes()).hexdigest()]


def digests(value, path=()):
    """Of all tensors in dicts and lists, by their keys with dots between."""
    import torch
    if isinstance(value, torch.Tensor):
        return {".".join(map(str, path)): digest(value)}
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return {name: told for key, item in parts for name, told in digests(item, path + (key,)).items()}


def saved(value, path, **options):
    """(path, truth) of torch.save, as torch.load has it."""
    import torch
    torch.save(value, path, **options)
    return path, digests(torch.load(path, weights_only=False))


def of_safetensors(folder):
    """What the library of safetensors has in all files of a folder, or in one file."""
    from safetensors.torch import load_file
    files = [folder] if os.path.isfile(folder) else \
        [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(".safetensors")]
    return {name: told for file in files for name, told in digests(load_file(file)).items()}


def of_dcp(folder, work):
    """What PyTorch's converter has in a distributed checkpoint."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    target = os.path.join(work, "converted.pt")
    dcp_to_torch_save(folder, target)
    told = digests(torch.load(target, weights_only=False))
    os.remove(target)
    return told


# ---- ranks

def rank_main(rank, world, folder, function):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1")
    dist.init_process_group("gloo", init_method=f"file://{folder}/.store", rank=rank, world_size=world)
    told = function(rank, folder)
    if rank == 0:
        with open(os.path.join(folder, ".told"), "w", encoding="utf-8") as stream:
            json.dump(told, stream)
    dist.barrier()
    dist.destroy_process_group()


def on_ranks(world, function, folder):
    """function(rank, folder) on each of several processes that can talk; what that of rank 0 returns."""
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=rank_main, args=(r, world, folder, function)) for r in range(world)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(200)
        if process.is_alive():
            process.terminate()
    if any(process.exitcode for process in ranks):
        raise RuntimeError("a rank failed")
    with open(os.path.join(folder, ".told"), encoding="utf-8") as stream:
        told = json.load(stream)
    for name in (".store", ".told"):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    return told


# ---- models

def small(seed=3):
    """A model with a normalisation, whose sizes no rank count divides."""
    import torch
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3, bias=False))


def stepped(model, optimizer, shape=(4, 7)):
    """One step of training, so that there is a state."""
    import torch

    def closure():
        optimizer.zero_grad()
        loss = model(torch.randn(*shape)).square().sum()
        loss.backward()
        return loss
    optimizer.step(closure)
    return optimizer


def main():
    name, folder = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    sys.modules.setdefault("fresh_saves", sys.modules["__main__"])
    load_kinds()
    # Files beside this one are called like modules that the libraries import.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    sys.modules.pop("packaging", None)
    warnings.filterwarnings("ignore")
    library, function = KINDS[name]
    try:
        importlib.import_module(library)
        top = library.partition(".")[0]
        release = importlib.metadata.version(importlib.metadata.packages_distributions().get(top, [top])[0])
        saves = function(folder)
    except (ImportError, CannotWork, importlib.metadata.PackageNotFoundError) as error:
        print(f"{library}: {error}".replace("\n", " "), file=sys.stderr)
        return ABSENT
    told = {save: {"path": os.path.relpath(made[0], folder), "tensors": made[1], **(made[2] if len(made) > 2 else {})}
            for save, made in saves.items()}
    with open(os.path.join(folder, "truth.json"), "w", encoding="utf-8") as stream:
        json.dump({"library": library, "release": release, "saves": told}, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main())
