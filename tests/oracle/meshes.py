#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DTensors of many meshes and placements, as PyTorch itself places them.

Each rank's file is written by a process that believes to be that rank of a world of 1 to
1,024 (a fake process group: nothing is sent). What PyTorch computes as the local part and
its place is compared with what the program says. Skipped unless exactly that PyTorch can be
imported.
"""
import itertools
import os
import random
import sys
import tempfile

from oraclelib import Tap, arguments, envelope, run, same, wanted_torch

torch = wanted_torch()
dist = torch.distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

# (mesh, placements, global shape); every rank of small worlds is written, some of large ones.
CASES = [
    ((1,), (Shard(0),), (5, 3)),
    ((1,), (Replicate(),), ()),
    ((1, 4), (Replicate(), Shard(0)), (6, 2)),
    ((4, 1), (Shard(0), Shard(1)), (6, 2)),
    ((2, 1, 2), (Shard(0), Replicate(), _StridedShard(1, split_factor=2)), (5, 6)),
    ((3,), (Shard(0),), (1,)),
    ((3,), (Shard(0),), (0, 4)),
    ((3,), (Shard(1),), (2, 7)),
    ((4,), (Replicate(),), (3,)),
    ((4,), (Partial(),), (3, 2)),
    ((4,), (Shard(0),), (5,)),
    ((2, 2), (Replicate(), Shard(0)), (5, 2)),
    ((2, 2), (Shard(0), Shard(1)), (3, 5)),
    ((2, 2), (Shard(0), Shard(0)), (7, 2)),
    ((2, 2), (_StridedShard(0, split_factor=2), Shard(0)), (9, 2)),
    ((2, 3), (_StridedShard(1, split_factor=3), Shard(1)), (2, 14)),
    ((2, 2), (Partial("sum"), Shard(1)), (3, 4)),
    ((2, 2, 2), (Replicate(), Shard(0), Shard(1)), (5, 6)),
    ((2, 2, 2), (Shard(0), Replicate(), Shard(0)), (9, 1)),
    ((3, 2, 2), (Shard(2), Shard(1), Shard(0)), (5, 3, 7)),
    ((1024,), (Shard(0),), (1500, 2)),
    ((32, 32), (Replicate(), Shard(0)), (40, 3)),
    ((16, 64), (Shard(1), Shard(0)), (70, 33)),
]


def save(folder, rank, mesh_shape, placements, shape):
    """One rank's file; returns the offset and shape of its part as PyTorch has it."""
    world = 1
    for n in mesh_shape:
        world *= n
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        mesh = DeviceMesh("cpu", torch.arange(world).reshape(mesh_shape),
                          mesh_dim_names=tuple(f"m{i}" for i in range(len(mesh_shape))))
        local, offset = compute_local_shape_and_global_offset(shape, mesh, placements)
        part = torch.arange(int(torch.Size(local).numel()), dtype=torch.float32).reshape(local)
        full = DTensor.from_local(part, mesh, placements, run_check=False, shape=torch.Size(shape),
                                  stride=torch.empty(shape, device="meta").stride())
        torch.save({"w": full}, os.path.join(folder, f"rank{rank}.pt"))
        return world, list(local), list(offset)
    finally:
        dist.destroy_process_group()


def strided(placements):
    return any(isinstance(p, _StridedShard) for p in placements)


def numel(sizes):
    n = 1
    for s in sizes:
        n *= s
    return n


def check(args, folder, case):
    mesh_shape, placements, shape = case
    world = 1
    for n in mesh_shape:
        world *= n
    ranks = range(world) if world <= 16 else sorted({0, 1, world - 1, *random.Random(world).sample(range(world), 4)})
    expected = {r: save(folder, r, *case)[1:] for r in ranks}
    problems = []
    doc = envelope(run(args, "ls", "-l", "--json", folder), problems)
    if doc is None:
        return problems
    rules = [f["rule"] for f in doc["findings"] if f["severity"] != "note"]
    same(problems, "findings", rules, [] if len(expected) == world else ["FI1008"])
    pieces = doc["data"]["pieces"]
    for r, (local, offset) in expected.items():
        mine = [p for p in pieces if p.get("rank") == r]
        same(problems, f"rank {r}: elements", sum(numel(p["sizes"]) for p in mine), numel(local))
        if not strided(placements) and numel(local):
            same(problems, f"rank {r}: place", [(p["offsets"], p["sizes"]) for p in mine], [(offset, local)])
        for p in mine:
            same(problems, f"rank {r}: shape", p["shape"], list(shape))
            if any(o + n > s for o, n, s in zip(p["offsets"], p["sizes"], shape)):
                problems.append(f"rank {r}: {p['offsets']} + {p['sizes']} leaves {shape}")
    if len(expected) == world and numel(shape):
        problems += coverage(pieces, shape, copies(mesh_shape, placements))
    doc = envelope(run(args, "info", "--json", folder), problems)
    if doc is not None:
        same(problems, "world size", doc["data"].get("world_size"), world)
    return problems


def copies(mesh_shape, placements):
    return numel([n for n, p in zip(mesh_shape, placements) if not isinstance(p, (Shard, _StridedShard))])


def coverage(pieces, shape, times):
    seen = dict.fromkeys(itertools.product(*map(range, shape)), 0)
    for p in pieces:
        for at in itertools.product(*(range(o, o + n) for o, n in zip(p["offsets"], p["sizes"]))):
            seen[at] += 1
    wrong = [at for at, n in seen.items() if n != times]
    return [f"{len(wrong)} elements not in {times} pieces, first {wrong[0]}"] if wrong else []


def main():
    args = arguments(__doc__)
    tap = Tap()
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            name = f"{'x'.join(map(str, case[0]))} {', '.join(map(str, case[1]))} of {list(case[2])}"
            tap.none(name, check(args, folder, case))
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
