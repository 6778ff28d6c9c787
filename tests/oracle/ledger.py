#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FlatParameters: what `flat` says is what PyTorch's own records say, for all ranks, from a plan that has lost
everything that can be worked out; a recorded span that was changed is one finding; and both questions about one
element answer each other."""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

from oraclelib import SOURCE, Tap, arguments, cases, envelope, run

CLEAN = re.compile(r"_fsdp_wrapped_module\.|_checkpoint_wrapped_module\.")
WORKED_OUT = ("numels_with_padding", "is_padding", "shard_numel_padded", "ranks")
VIEWS = (("info", "--json"), ("tree", "--json"), ("flat", "--json"))


def clean(name):
    return CLEAN.sub("", name + ".")[:-1]


def full(unit, fqn):
    return f"{unit}.{fqn}" if unit else fqn


def expected_entries(truth, unit):
    at, names, out = 0, iter(zip(truth["_fqns"], truth["_shapes"])), []
    for numel, padding in zip(truth["_numels_with_padding"], truth["_is_padding_mask"]):
        entry = {"fqn": None, "is_padding": padding}
        if not padding:
            name, shape = next(names)
            entry.update(fqn=clean(full(unit, name)), shape=shape)
        entry.update(numel=numel, flat_start=at, flat_end=at + numel - 1)
        out.append(entry)
        at += numel
    return out


def expected_spans(truth, unit, rank):
    out = []
    for name, info in zip(truth["_fqns"], rank["_shard_param_infos"]):
        if info["in_shard"] and info["numel_in_shard"]:
            start = info["offset_in_shard"]
            out.append({"fqn": clean(full(unit, name)), "flat_start": start,
                        "flat_end": start + info["numel_in_shard"] - 1,
                        "param_start": info["intra_param_start_idx"], "param_end": info["intra_param_end_idx"]})
    return out


def compare(problems, truth, found):
    unit = clean(truth["module"]) if truth["module"] else ""
    if found["unit"] != unit:
        problems.append(f"unit {found['unit']!r}, expected {unit!r}")
        return

    def same(key, value, expected):
        if value != expected:
            problems.append(f"{unit!r} {key}: {value}, expected {expected}")
    for key, theirs in (("strategy", "strategy"), ("use_orig_params", "use_orig_params"), ("dtype", "dtype"),
                        ("requires_grad", "requires_grad"), ("shard_world_size", "shard_world_size"),
                        ("unpadded_unsharded_numel", "_unpadded_unsharded_size"),
                        ("sharded_numel", "_sharded_size")):
        same(key, found.get(key), truth[theirs])
    same("unsharded_numel", found["unsharded_numel"], found["sharded_numel"] * found["shard_world_size"])
    same("entries", found["entries"], expected_entries(truth, unit))
    by_global = {g: r for r in found["ranks"] for g in r["global_ranks"]}
    for rank in truth["ranks"]:
        row = by_global.get(rank["rank"])
        if row is None:
            problems.append(f"{unit!r}: no rank {rank['rank']}")
            continue
        same("shard rank", row["rank"], rank["shard_rank"])
        same(f"rank {rank['rank']}", row["spans"], expected_spans(truth, unit, rank))
        same("padding", found["shard_numel_padded"][row["rank"]], rank["_shard_numel_padded"])


def ledger(args, problems, *words):
    doc = envelope(run(args, "flat", "--json", *words), problems)
    return doc["data"]["units"] if doc is not None else []


def truth_test(args, tap, case, plan):
    problems = []
    units = ledger(args, problems, plan)
    truth = case.load("flat.json")["units"]
    if len(units) != len(truth):
        problems.append(f"{len(units)} units, expected {len(truth)}")
    for expected, found in zip(truth, units):
        compare(problems, expected, found)
    tap.none(f"{case.name}: as PyTorch has it", problems)


def write(folder, plan):
    path = os.path.join(folder, "plan.fsdp-plan.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(plan, f)
    return path


def lost_test(args, tap, case, folder):
    """Without `ranks`, and without all that follows from the rest, nothing that is shown changes by a byte."""
    plan = case.load("plan.fsdp-plan.json")
    problems = []

    def answers():
        path = write(folder, plan)
        return [run(args, *words, path).out for words in VIEWS]
    whole = answers()
    for keys in (("ranks",), WORKED_OUT):
        for unit in plan["units"]:
            for key in keys:
                unit.get("flat_parameter", {}).pop(key, None)
        sizes = [len(a) for a in whole]
        for words, before, after in zip(VIEWS, whole, answers()):
            # Sizes on disk are facts about the plan.
            if words[0] == "info":
                before, after = (re.sub(rb'(?s)"on_disk":\d+|"records":\d+|"files":\[.*?\]', b"", t) for t in (before, after))
            if before != after:
                problems.append(f"{' '.join(words)} without {', '.join(keys)}: differs ({sizes})")
    tap.none(f"{case.name}: nothing is lost with what can be worked out", problems)


def span_test(args, tap, case, folder):
    """Each number of one span changed by one: one finding, with unit, rank and parameter."""
    plan = case.load("plan.fsdp-plan.json")
    problems, tried = [], 0
    for unit in plan["units"]:
        flat = unit.get("flat_parameter") or {}
        name = clean(unit["module"]) if unit["module"] else ""
        for rank in flat.get("ranks", ())[-1:]:
            for span in rank["spans"][:1]:
                for key in ("flat_start", "flat_end", "param_start", "param_end"):
                    span[key] += 1
                    doc = envelope(run(args, "flat", "--json", write(folder, plan)), problems)
                    span[key] -= 1
                    tried += 1
                    found = [(f["rule"], f.get("module"), f.get("rank"), f.get("tensor")) for f in doc["findings"]]
                    expected = [("FI1080", name, rank["rank"], full(name, span["fqn"]))]
                    if found != expected:
                        problems.append(f"{name} {rank['rank']} {key}: {found}, expected {expected}")
        if tried:
            break
    if tried:
        tap.none(f"{case.name}: a span that was changed", problems)


def question_test(args, tap, case, plan):
    """Elements at the borders of spans, from the parameter to the rank and back."""
    problems = []
    for unit in ledger(args, problems, plan)[-1:]:
        for rank in unit["ranks"]:
            for span in rank["spans"][:2]:
                for which, param in (("flat_end", "param_end"),):
                    one = envelope(run(args, "flat", "--json", "--param", f"{span['fqn']}:{span[param]}", plan),
                                   problems)["data"]["answer"]
                    rank_at = f"{rank['global_ranks'][-1]}:{span[which]}"
                    two = envelope(run(args, "flat", "--json", f"--unit={unit['unit']}", "--at", rank_at, plan),
                                   problems)["data"]["answer"]
                    expected = {"fqn": span["fqn"], "param_offset": span[param], "unit": unit["unit"],
                                "rank": rank["rank"], "global_ranks": rank["global_ranks"],
                                "shard_offset": span[which],
                                "flat_offset": rank["rank"] * unit["sharded_numel"] + span[which],
                                "is_padding": False}
                    for answer in (one, two):
                        index = answer.pop("index")
                        shape = next(e["shape"] for e in unit["entries"] if e["fqn"] == span["fqn"])
                        at = 0
                        for i, n in zip(index, shape):
                            at = at * n + i
                        if answer != expected or at != span[param]:
                            problems.append(f"{answer} {index}, expected {expected}")
    tap.none(f"{case.name}: both questions", problems)


def bytes_of(folder, rows, numel, width):
    """The elements that the pieces of one tensor hold, in C order."""
    out = bytearray(numel * width)
    for r in rows:
        start = r.get("param_start", 0) if r["offsets"] is None else 0
        with open(os.path.join(folder, r["file"]), "rb") as f:
            f.seek(r["offset"])
            data = f.read(r["length"])
        out[start * width:start * width + len(data)] = data
    return bytes(out)


def local_test(args, tap, case, truth):
    """Original parameters out of the shards: shape, dtype and bytes are those of the live model."""
    problems = []
    folder = os.path.join(case.folder, "checkpoint")
    plan = case.load("plan.fsdp-plan.json")
    doc = envelope(run(args, "ls", "-l", "--json", "--plan", case.file("plan.fsdp-plan.json"), folder), problems)
    if any(f["rule"] in ("FI1080", "FI1081") for f in doc["findings"]):
        problems.append(f"findings: {[f['message'] for f in doc['findings']]}")
    rows = {}
    for r in doc["data"]["pieces"]:
        rows.setdefault(r["name"], []).append(r)
    for p in plan["parameters"]:
        found = rows.get(p["fqn"])
        if not found:
            problems.append(f"{p['fqn']}: not listed")
            continue
        if found[0]["shape"] != p["shape"] or found[0]["dtype"] != p["dtype"]:
            problems.append(f"{p['fqn']}: {found[0]['dtype']} {found[0]['shape']}, expected {p['dtype']} {p['shape']}")
            continue
        digest = hashlib.sha256(bytes_of(folder, found, found[0]["numel"], 4)).hexdigest()
        if p["dtype"] == "float32" and digest != truth["live_full_state_sha256"][p["fqn"]]:
            problems.append(f"{p['fqn']}: other bytes than in the live model")
    tap.none(f"{case.name}: original parameters in the shards", problems)


def files_test(args, tap, case, plan):
    """What the files tell without a plan is what the plan tells, as far as it goes."""
    problems = []
    with_plan = ledger(args, problems, "--plan", plan, os.path.join(case.folder, "checkpoint"))
    alone = ledger(args, problems, "--no-plan", os.path.join(case.folder, "checkpoint"))
    last = with_plan[-1]["ranks"][-1]["rank"] if with_plan else 0
    few = ledger(args, problems, "--plan", plan, f"--rank={last}", os.path.join(case.folder, "checkpoint"))
    if [u["ranks"] for u in few] != [[r for r in u["ranks"] if r["rank"] == last] for u in with_plan]:
        problems.append(f"rank {last} from few files is another than from all")
    for whole, found in zip(with_plan, alone):
        for key in ("unit", "unpadded_unsharded_numel", "unsharded_numel", "sharded_numel", "shard_numel_padded", "dtype"):
            if whole[key] != found[key]:
                problems.append(f"{whole['unit']!r} {key}: {found[key]}, with the plan {whole[key]}")
        if whole["source"] != ["plan", "files"] or found["source"] != ["files"]:
            problems.append(f"source {whole['source']} and {found['source']}")
        for entry in whole["entries"]:
            entry.pop("shape", None)
        if whole["use_orig_params"] and (found["entries"], found["ranks"]) != (whole["entries"], whole["ranks"]):
            problems.append(f"{whole['unit']!r}: {found['entries']}, with the plan {whole['entries']}")
    if len(alone) != len(with_plan) or not alone:
        problems.append(f"{len(alone)} units, with the plan {len(with_plan)}")
    tap.none(f"{case.name}: without a plan", problems)


# Models of many shapes, wrapped by FSDP1 in a world that is only pretended; prints for each its plan, and what
# PyTorch's own handles and _get_param_to_fqns hold.
LIVE = """
import json, random, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist, torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
from torch.distributed.fsdp._common_utils import _get_param_to_fqns, clean_tensor_name
from torch.testing._internal.distributed.fake_pg import FakeStore
from fsdp_inspect.recorders import sharding_plan

class Odd(nn.Module):
    def __init__(self, r):
        super().__init__()
        for i in range(r.randint(1, 5)):
            shape = [r.choice((0, 1, 1, 2, 3, 5, 7)) if r.random() < .3 else r.randint(1, 6) for _ in range(r.randint(1, 3))]
            self.register_parameter(f"p{i}", nn.Parameter(torch.zeros(shape)))

class Net(nn.Module):
    def __init__(self, r, wrap):
        super().__init__()
        self.first = Odd(r)
        self.layers = nn.ModuleList(wrap(Odd(r)) for _ in range(r.randint(0, 3)))
        self.one = nn.Parameter(torch.zeros(1))
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        if r.random() < .5:
            self.head.weight = self.embed.weight

out = []
for seed in range(12):
    r = random.Random(seed)
    world = r.choice((1, 2, 3, 4, 5, 8, 16))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    half = r.random() < .3
    def wrap(m):
        return FSDP(m, use_orig_params=seed % 2 == 0, device_id=torch.device("cpu"),
                    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16) if half else None)
    try:
        model = wrap(Net(r, wrap))
    except (ValueError, RuntimeError, AssertionError) as e:
        dist.destroy_process_group()
        continue
    units = []
    for m in FSDP.fsdp_modules(model):
        h = m._handle
        if h is None:
            continue
        f = h.flat_param
        ranks = []
        for rank in range(world):
            infos = h._get_shard_metadata(rank * f._sharded_size.numel(), (rank + 1) * f._sharded_size.numel() - 1)
            ranks.append([[i.in_shard, i.offset_in_shard, i.numel_in_shard, i.intra_param_start_idx, i.intra_param_end_idx]
                          for i in infos])
        units.append({"fqns": list(f._fqns), "numels": list(f._numels_with_padding), "mask": list(f._is_padding_mask),
                      "sharded": f._sharded_size.numel(), "ranks": ranks})
    names = [list(v) for v in _get_param_to_fqns(model, dedup_shared_params=False).values()]
    out.append({"seed": seed, "world": world, "plan": sharding_plan(model), "units": units, "names": names})
    dist.destroy_process_group()
print(json.dumps(out))
"""


def live_test(args, tap, folder):
    """PyTorch's own records of models made now, if it is here."""
    exporter = os.path.join(SOURCE, "contrib", "python")
    r = subprocess.run([sys.executable, "-c", LIVE, exporter], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, check=False)
    if r.returncode != 0:
        tap.skip("live models", (r.stderr.strip().splitlines() or ["no PyTorch"])[-1])
        return
    for made in json.loads(r.stdout):
        problems = []
        for unit in made["plan"]["units"]:
            for key in WORKED_OUT:
                unit["flat_parameter"].pop(key, None)
        plan = write(folder, made["plan"])
        units = ledger(args, problems, plan)
        if len(units) != len(made["units"]):
            problems.append(f"{len(units)} units, expected {len(made['units'])}")
        for live, found in zip(made["units"], units):
            same = [e["numel"] for e in found["entries"]] == [n for n in live["numels"]]
            if not same or [e["is_padding"] for e in found["entries"]] != live["mask"]:
                problems.append(f"{found['unit']!r}: {found['entries']}, expected {live}")
            for rank, infos in enumerate(live["ranks"]):
                expected = [[full(found["unit"], n)] + i[1:] for n, i in zip(live["fqns"], infos) if i[0] and i[2]]
                spans = [[s["fqn"], s["flat_start"], s["flat_end"] - s["flat_start"] + 1, s["param_start"], s["param_end"]]
                         for s in found["ranks"][rank]["spans"]] if rank < len(found["ranks"]) else None
                if found["strategy"] != "NO_SHARD" and spans != expected:
                    problems.append(f"{found['unit']!r} rank {rank}: {spans}, expected {expected}")
        doc = envelope(run(args, "fqns", "--by-parameter", "--json", plan), problems)
        if sorted(doc["data"]["parameters"]) != sorted(made["names"]):
            problems.append(f"{sorted(doc['data']['parameters'])}, expected {sorted(made['names'])}")
        tap.none(f"live model {made['seed']}, world size {made['world']}", problems)


def main():
    args = arguments(__doc__)
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(args):
            if not case.has("flat.json") or not case.has("plan.fsdp-plan.json"):
                continue
            plan = case.file("plan.fsdp-plan.json")
            truth_test(args, tap, case, plan)
            lost_test(args, tap, case, folder)
            span_test(args, tap, case, folder)
            question_test(args, tap, case, plan)
            truth = case.load("truth.json") if case.has("truth.json") else {}
            if truth.get("kind") == "fsdp1-local":
                local_test(args, tap, case, truth)
                if truth.get("strategy") != "NO_SHARD":
                    files_test(args, tap, case, plan)
        live_test(args, tap, folder)
    tap.done()


main()
