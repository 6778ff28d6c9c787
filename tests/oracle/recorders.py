#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The exporter and the recorders of contrib/python, in live models, against PyTorch itself.

Plans of models built anew equal the plans of the samples; recordings, replayed by their
rules, give what PyTorch's own objects hold at that moment. Where the program has the
commands for it, it is asked too. Skipped without a torch that the tests are of.
"""
import contextlib
import glob
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings

from oraclelib import SOURCE, Tap, arguments, envelope, load, run, same, skip_all, wanted_torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "contrib", "python"))
torch = wanted_torch("2.6.")
dist = torch.distributed

import recorder_models as models
import recorder_replay as replay
from fsdp_inspect.recorders import (export_plan, install, record_fx_order, record_handles, record_profiler,
                                 sharding_plan)
from fsdp_inspect.recorders._plan import _groups
from recorder_fx import FX_MODELS
from torch import nn
from torch.distributed import _composable_state
from torch.distributed.fsdp import (FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel as FSDP,
                                    StateDictType)
from torch.distributed.fsdp import _debug_utils
from torch.distributed.fsdp._common_utils import _FSDPState
from torch.distributed.fsdp._flat_param import FlatParamHandle
from torch.distributed.fsdp._trace_utils import TracingConfig, _ExecOrderTracer

SLACK_NS = 50  # PyTorch adds doubles of the size of the uptime
PROFILER = _debug_utils.SimpleProfiler


# ---- ranks

class Rank:
    """What one process of a group finds out: problems by the name of a test."""

    def __init__(self, rank, world, folder):
        self.rank, self.world, self.folder = rank, world, folder
        self.found = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    @contextlib.contextmanager
    def test(self, name):
        problems = self.found.setdefault(name, [])
        try:
            yield problems
        except Exception:
            problems.append(traceback.format_exc()[-1500:])


def rank_main(rank, world, folder, level, work):
    torch.set_num_threads(1)
    logging.getLogger("torch.distributed.fsdp").setLevel(logging.ERROR)
    dist.set_debug_level(getattr(dist.DebugLevel, level))
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    here = Rank(rank, world, folder)
    for step in work:
        torch.manual_seed(1)
        step(here)
    dist.barrier()
    with open(here.path(f"found.{rank}"), "w", encoding="utf-8") as f:
        json.dump(here.found, f)
    dist.destroy_process_group()


def together(tap, folder, world, level, *work):
    """Runs the steps on so many ranks; False if they could not."""
    os.makedirs(folder)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=rank_main, args=(r, world, folder, level, work)) for r in range(world)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join(200)
        if p.is_alive():
            p.terminate()
            p.join()
    found = [load(path) for path in sorted(glob.glob(os.path.join(folder, "found.*")))]
    if len(found) < world:
        tap.ok(False, f"{world} ranks work together", [f"exit codes {[p.exitcode for p in ranks]}"])
        return False
    for name in found[0]:
        tap.none(name, [f"rank {r}: {p}" for r, f in enumerate(found) for p in f.get(name, ["was not reached"])])
    left = [name for name in os.listdir(folder) if name.endswith(".part")]
    tap.none(f"{world} ranks at {level} leave no temporary files", left)
    return True


# ---- plans

def plans_of_samples(data):
    """Each rank writes its plan; parts of a plan that name the rank are its own."""
    def work(here):
        for name, make in models.RECIPES.items():
            sample = os.path.join(data, name, "plan.fsdp-plan.json")
            if models.world_of(name) != here.world or not os.path.exists(sample):
                continue
            with here.test(f"{name}: the plan of the sample") as problems:
                export_plan(make(), here.path(name + ".rank{rank}"))
                found, expected = load(here.path(f"{name}.rank{here.rank}")), load(sample)
                expected["rank"] = here.rank
                found["torch"] = expected["torch"]
                for key in list(dict.fromkeys([*expected, *found])):
                    same(problems, key, found.get(key), expected.get(key))
    return work


@contextlib.contextmanager
def states_where_torch_looks(root):
    """PyTorch's function for the tree finds a state on the sharded module only."""
    states = [m for m in root.modules() if isinstance(m, FSDP) and m._handle is not None]
    inner = [(s._handle._fully_sharded_module, s) for s in states]
    for module, state in inner:
        _composable_state._insert_module_state(module, state)
    try:
        yield
    finally:
        for module, _ in inner:
            del _composable_state._module_state_mapping[module]


def odd_plans(here):
    for make in models.ODD:
        name = make.__name__.replace("_", " ")
        with here.test(f"plan: {name}") as problems:
            model = make()
            plan = export_plan(model, here.path(f"{make.__name__}.fsdp-plan.json"), unsharded=make is models.plain)
            same(problems, "world size", plan["world_size"], here.world)
            with states_where_torch_looks(model):
                text, _ = _debug_utils._get_sharded_module_tree_with_module_name_to_fqns(model)
            if here.rank == 0:
                with open(here.path(make.__name__ + ".tree"), "w", encoding="utf-8") as f:
                    f.write(text)
            if make is models.buffers_cast:
                same(problems, "dtype of the buffer", plan["buffers"][0]["dtype"], "float32")
            if make is models.two_meshes:
                same(problems, "mesh", plan.get("mesh"), None)
            if make is models.replicated:
                same(problems, "units", plan["units"], [])
            if here.world == 1:
                same(problems, "strategies of FSDP1", {u["strategy"] for u in plan["units"] if u["api"] == "fsdp1"} -
                     {"NO_SHARD"}, set())
    with here.test("a torch that keeps things elsewhere is named") as problems:
        model = models.fsdp2(models.composite)
        group = _groups(model)[0]
        del group.offload_policy
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            plan = sharding_plan(model)
        same(problems, "what is left out", [u.get("cpu_offload") for u in plan["units"]], [None, False, False])
        same(problems, "warnings", ["offload_policy" in str(w.message) for w in told], [True])
        del group.mesh_info
        for what in (export_plan, install):
            try:
                what(model, *[here.path("none.fsdp-plan.json")][:what is export_plan])
                problems.append(f"{what.__name__} went on")
            except RuntimeError as error:
                same(problems, what.__name__, f"torch {torch.__version__.split('+')[0]} keeps it in another place" in str(error), True)
    with here.test("a path without {rank} is rank 0's alone") as problems:
        export_plan(models.plain(), here.path(f"only-{here.rank}"), unsharded=True)
        same(problems, "written", os.path.exists(here.path(f"only-{here.rank}")), here.rank == 0)


def plan_without_ranks(tap, folder):
    problems = []
    try:
        export_plan(models.plain(), os.path.join(folder, "refused.fsdp-plan.json"))
        problems.append("a model that nothing wraps was exported")
    except ValueError as error:
        same(problems, "the cure is told", "after fully_shard(model)" in str(error), True)
    plan = export_plan(models.plain(), os.path.join(folder, "alone.fsdp-plan.json"), unsharded=True)
    same(problems, "the file", load(os.path.join(folder, "alone.fsdp-plan.json")), plan)
    same(problems, "who", (plan["rank"], plan["world_size"], plan["units"]), (0, 1, []))
    tap.none("plan: no process group", problems)


def ask_about_plans(tap, args, folder):
    """The program finds nothing wrong with the odd plans, and draws PyTorch's tree."""
    for make in models.ODD:
        plan = os.path.join(folder, f"{make.__name__}.fsdp-plan.json")
        problems = []
        doc = envelope(run(args, "info", "--json", plan), problems)
        for finding in doc["findings"] if doc else ():
            problems.append(finding["message"])
        said = run(args, "tree", "--style=torch", "-q", plan).out.decode()
        with open(os.path.join(folder, make.__name__ + ".tree"), encoding="utf-8") as f:
            same(problems, "tree", said, f.read())
        tap.none(f"the program reads the plan of world {os.path.basename(folder)}: "
                 f"{make.__name__.replace('_', ' ')}", problems)


# ---- SimpleProfiler

class Dumps(logging.Handler):
    """PyTorch's own results: the dict that it hands to its logger."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        message, results = record.args
        self.seen.append([message, plain_results(results)])


def plain_results(results):
    return {str.__str__(key): seconds for key, seconds in results.items()}


def compare_seconds(problems, what, ns, seconds):
    same(problems, f"{what}: types in order", list(ns), list(seconds))
    for name in ns:
        if abs(ns[name] - seconds.get(name, 0) * 1e9) > SLACK_NS:
            problems.append(f"{what}: {name}: {ns[name]} ns, PyTorch has {seconds.get(name)} s")


def save_optimizer(here):
    model = models.fsdp1(models.composite)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    for rank0_only in (False, True):  # the second leaves a region to the garbage collector
        FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(),
                                 FullOptimStateDictConfig(rank0_only=rank0_only))
        FSDP.optim_state_dict(model, optimizer)


def edges(here):
    """What SimpleProfiler refuses, forgets and counts twice. Every rank dumps."""
    PROFILER.reset()
    with PROFILER.profile(PROFILER.Type.ALL), PROFILER.profile("it's"):
        with contextlib.suppress(AssertionError), PROFILER.profile("all"):
            pass
        with contextlib.suppress(ValueError), PROFILER.profile(PROFILER.Type.H2D):
            raise ValueError
    with PROFILER.profile("it's"):
        time.sleep(0.001)
    PROFILER.dump_and_reset("edges profiling: ")
    with contextlib.suppress(KeyError), PROFILER.profile("D2H"), PROFILER.profile("clone"):
        PROFILER.reset()
        with PROFILER.profile("D2H"):
            pass
    PROFILER.dump_and_reset("after a reset profiling: ")
    with PROFILER.profile("left over"):
        pass


def profiler(here):
    handler, logger = Dumps(), logging.getLogger(_debug_utils.__name__)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    before = {n: vars(PROFILER)[n] for n in ("profile", "reset", "dump_and_reset")}
    for work in (save_optimizer, edges):
        with here.test(f"SimpleProfiler: {work.__name__.replace('_', ' ')}") as problems:
            handler.seen.clear()
            PROFILER.reset()
            path = here.path(f"profile-{work.__name__}.rank{here.rank}")
            with record_profiler(here.path(f"profile-{work.__name__}.rank{{rank}}")):
                work(here)
            left = plain_results(PROFILER.results)
            header, events = replay.read(path)
            same(problems, "header", header, {
                "type": "header", "format": "fsdp-inspect-trace", "version": 1, "kind": "simple_profiler",
                "rank": here.rank, "world_size": here.world, "debug_level": "INFO", "clock": "monotonic_ns",
                "times": "optim_state_dict() and loading of FSDP1; not the steps of training"})
            told = replay.Profiler(events)
            if here.rank == 0:
                same(problems, "dumps", [m for m, _ in told.dumps], [m for m, _ in handler.seen])
                for (message, ns), (_, seconds) in zip(told.dumps, handler.seen):
                    compare_seconds(problems, message, ns, seconds)
                with open(path + ".torch", "w", encoding="utf-8") as f:
                    json.dump(handler.seen, f)
            compare_seconds(problems, "never dumped", told.results, left)
            if work is edges:
                same(problems, "problems", told.problems, [("reentry", "all"), ("end_after_reset", "clone"),
                                                           ("end_after_reset", "D2H")])
                same(problems, "dumps on each rank", len(told.dumps), 2)
    with here.test("SimpleProfiler is as it was, after an exception too") as problems:
        with contextlib.suppress(ZeroDivisionError), record_profiler(here.path("broken.rank{rank}")):
            with PROFILER.profile("x"):
                1 / 0
        same(problems, "events of the broken one", [e["ev"] for e in replay.read(
            here.path(f"broken.rank{here.rank}"))[1]], ["begin", "end"])
        for name, value in before.items():
            same(problems, name, vars(PROFILER)[name] is value, True)
        same(problems, "clock", _debug_utils.time is time, True)
        PROFILER.reset()
    logger.removeHandler(handler)


def ask_about_profiles(tap, args, folder):
    for work in (save_optimizer, edges):
        path = os.path.join(folder, f"profile-{work.__name__}.rank0")
        problems = []
        doc = envelope(run(args, "replay", "--json", path), problems, statuses=(0, 1))
        dumps, truth = doc["data"]["dumps"] if doc else [], load(path + ".torch")
        same(problems, "messages", [dump["msg"] for dump in dumps], [message for message, _ in truth])
        for dump, (message, seconds) in zip(dumps, truth):
            compare_seconds(problems, message, dict(map(tuple, dump["results"])), seconds)
        tap.none(f"the program replays SimpleProfiler: {work.__name__.replace('_', ' ')}", problems)


# ---- what the pages show

def example_of(page):
    """The block of code that records."""
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        blocks = [part.split("```")[0] for part in f.read().split("```python\n")[1:]]
    return next(block for block in blocks if "record_handles(model" in block)


def readme_example(here):
    with here.test("the example of the pages") as problems:
        example = example_of("doc/tour.md")
        same(problems, "in contrib/python", example_of("contrib/python/README.md"), example)
        same(problems, "lines", example.count("\n"), 5)
        model = models.fsdp1(models.composite)
        optimizer = torch.optim.Adam(model.parameters())

        def train(model):
            model(torch.ones(2, 6)).sum().backward()
            optimizer.step()

        os.makedirs(here.path(f"example{here.rank}"))
        os.chdir(here.path(f"example{here.rank}"))
        exec(example, {"model": model, "optimizer": optimizer, "train": train, "save": FSDP.optim_state_dict})
        plan = ["step-1000/model.fsdp-plan.json"] if here.rank == 0 else []
        same(problems, "files", sorted(p for p in glob.glob("**", recursive=True) if os.path.isfile(p)),
             [f"order_rank{here.rank}.jsonl", f"profile_rank{here.rank}.jsonl", *plan])
        same(problems, "regions", replay.Profiler(replay.read(f"profile_rank{here.rank}.jsonl")[1]).problems, [])
        same(problems, "forwards", replay.ExecOrder(*replay.read(f"order_rank{here.rank}.jsonl")).pre, [0, 1, 2])
        os.chdir(here.folder)


# ---- fx

def fx_truth(info, root, aborted):
    number = {m: i for i, m in enumerate(root.modules())}
    param = {p: i for i, p in enumerate(root.parameters())}
    return {
        "aborted": aborted,
        "module_forward_order": [number[m] for m in info.module_forward_order],
        "module_to_param_usage_infos": [
            [number[m], [[number[u.module], [[n, param[p]] for n, p in u.named_params]] for u in used]]
            for m, used in info.module_to_param_usage_infos.items()],
        "param_forward_order": [param[p] for p in info.param_forward_order],
        "curr_module": number[info.curr_module],
    }


def fx_order(tap, args, folder, ask):
    for name, make in FX_MODELS.items():
        problems, aborted = [], None
        root, config = make()
        config = config or TracingConfig()
        tracer, before = config.tracer, dict(vars(config.tracer))
        path = os.path.join(folder, name + ".jsonl")
        watcher = _ExecOrderTracer()
        try:
            with watcher.patch_tracer(tracer, root), record_fx_order(tracer, path):
                tracer.trace(root, config.concrete_args)
        except Exception as error:
            aborted = type(error).__name__
        truth = fx_truth(watcher.exec_info, root, aborted)
        header, events = replay.read(path)
        same(problems, "tracer", header["tracer"], type(tracer).__name__)
        same(problems, "concrete_args", header["concrete_args"],
             None if config.concrete_args is None else list(config.concrete_args))
        told = replay.FxOrder(events).result()
        for key, value in truth.items():
            same(problems, key, told[key], value)
        same(problems, "left on the tracer", [n for n in ("trace", "call_module", "create_proxy")
                                              if "recorded" in getattr(getattr(tracer, n), "__qualname__", "")], [])
        same(problems, "the tracer was new", [n for n in ("trace",) if n in before], [])
        if ask:
            doc = envelope(run(args, "order", "--json", path), problems, statuses=(0, 1))
            said = doc["data"]["recordings"][0] if doc else truth
            for key, value in truth.items():
                same(problems, f"the program: {key}", said[key], value)
        tap.none(f"fx order: {name}", problems)
    problems = []
    tracer = torch.fx.Tracer()
    with contextlib.suppress(TypeError), record_fx_order(tracer, os.path.join(folder, "function.jsonl")):
        tracer.trace(lambda x: x + 1)
        problems.append("the order of a function is recorded")
    same(problems, "a file of nothing", os.path.exists(os.path.join(folder, "function.jsonl")), False)
    same(problems, "trace is the tracer's own again", "trace" in vars(tracer), False)
    tap.none("fx order: a function has none", problems)


# ---- handles

class Net(nn.Module):
    """Runs its blocks in the order of `plan`."""

    def __init__(self, blocks=4, head=True):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(blocks))
        self.head = nn.Linear(4, 4) if head else nn.Identity()
        self.plan = list(range(blocks))

    def forward(self, x):
        for i in self.plan:
            x = torch.tanh(self.blocks[i](x))
        return self.head(x)


class Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x.detach()).detach()


class Side(nn.Module):
    """A trained unit, a frozen one, and a frozen one that no gradient reaches."""

    def __init__(self):
        super().__init__()
        self.first, self.frozen, self.cut = nn.Linear(4, 4), nn.Linear(4, 4), Detached(4, 4)
        self.frozen.requires_grad_(False)
        self.cut.requires_grad_(False)

    def forward(self, x):
        x = self.first(x)
        return self.frozen(x) + x * self.cut(x)


def wrapped(model, units, **options):
    for owner, name in units:
        setattr(owner, name, models.fsdp(getattr(owner, name), **options))
    return models.fsdp(model, **options)


def net(blocks=4, head=True, orig=False, **options):
    model = Net(blocks, head)
    return wrapped(model, [(model.blocks, str(i)) for i in range(blocks)], use_orig_params=orig, **options)


def side():
    model = Side()
    return wrapped(model, [(model, name) for name in ("first", "frozen", "cut")], use_orig_params=False)


def forward(model, plan=None, train=True):
    if plan is not None:
        model.module.plan = plan
    model.train(train)
    with contextlib.nullcontext() if train else torch.no_grad():
        return model(torch.randn(2, 4)).sum()


def steps(*plans):
    def work(model, look):
        for plan in plans:
            loss = forward(model, plan)
            look()
            loss.backward()
            model.zero_grad()
            look()
    return work


def eval_then_train(model, look):
    for train in (False, False, True, False, True):
        loss = forward(model, train=train)
        look()
        if train:
            loss.backward()
    look()


def summon(model, look):
    steps(None)(model, look)
    with FSDP.summon_full_params(model):
        pass
    look()
    with FSDP.summon_full_params(model.module.blocks[1], recurse=False, writeback=False):
        pass
    model.state_dict()
    look()
    steps(None)(model, look)


def accumulate(model, look):
    with model.no_sync():
        for _ in range(2):
            forward(model).backward()
            look()
    steps(None)(model, look)
    forward(model, train=False)
    steps(None)(model, look)


# name -> (model, what it does, with states); `sample` names a recording of the fixtures
HANDLES = {
    "plain": (lambda: net(), steps(None, None, None), False),
    "declared_backwards": (lambda: net(), steps([3, 1, 2, 0], [3, 1, 2, 0]), False),
    "reuse": (lambda: net(3), steps([0, 1, 0, 2, 1], [0, 1, 0, 2, 1]), False),
    "changes": (lambda: net(), steps([0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0], [0, 1, 2, 3]), False),
    "more": (lambda: net(), steps([0, 1], [0, 1, 2], [0, 1, 3]), False),
    "orig_changes": (lambda: net(3, orig=True), steps([0, 1, 2], [0, 2, 1]), False),
    "rankless_root": (lambda: net(3, head=False), steps(None, None), False),
    "states_plain": (lambda: net(3), steps(None, None), True),
    "states_summon": (lambda: net(2, forward_prefetch=True), summon, True),
    "states_frozen": (side, steps(None, None), True),
    "evaluation": (lambda: net(3), eval_then_train, True),
}
HANDLES_AT_INFO = {"states_accumulate": (lambda: net(2, orig=True), accumulate, True)}


def handle_truth(data, states):
    def number(h):
        return h and h._handle_index
    truth = {
        "iter": data._iter,
        "handles_pre_forward_order": [number(h) for h in data.handles_pre_forward_order],
        "handles_post_forward_order": [number(h) for h in data.handles_post_forward_order],
        "pre_forward_order_index": [h._pre_forward_order_index for h in data.all_handles],
        "post_forward_index": [h._post_forward_index for h in data.all_handles],
    }
    pairs = {number(s._handle): [s.training_state.name, s._handle._training_state.name]
             for s in states if s._handle is not None}
    return truth, pairs


def handles(cases, level, samples):
    """samples: folder of recordings made by somebody else's recorder, or None"""
    def work(here):
        for name, (make, act, with_states) in cases.items():
            with here.test(f"handles: {name}") as problems:
                handle_case(here, problems, name, make(), act, with_states)
                path = here.path(f"{name}.rank{here.rank}")
                sample = samples and os.path.join(samples, f"{name}_rank{here.rank}.jsonl")
                if sample and os.path.exists(sample):
                    same(problems, "as the sample", replay.read(path), replay.read(sample))
                same(problems, "debug level", replay.read(path)[0]["debug_level"], level)
    return work


def handle_case(here, problems, name, model, act, with_states):
    data = model._exec_order_data
    before = set(vars(data))
    units = [m for m in model.modules() if isinstance(m, FSDP)]
    looks = []

    def look():
        """What PyTorch holds now, and how many lines were written up to now."""
        draft, = glob.glob(here.path(f".{name}.rank{here.rank}.*.part"))
        with open(draft, encoding="utf-8") as f:
            looks.append((len(f.readlines()), *handle_truth(data, units)))

    with record_handles(model, here.path(name + ".rank{rank}"), states=with_states):
        act(model, look)
    header, events = replay.read(here.path(f"{name}.rank{here.rank}"))
    for lines, truth, pairs in looks:
        told = replay.ExecOrder(header, events[:lines - 1])
        same(problems, f"line {lines}", told.result(), truth)
        if with_states:
            same(problems, f"line {lines}: states", told.states, pairs)
    for handle, told in zip(data.all_handles, header["handles"]):
        same(problems, "names", told["names"], data.param_to_fqn.get(handle.flat_param))
    if here.rank == 0:
        with open(here.path(name + ".torch"), "w", encoding="utf-8") as f:
            json.dump(handle_truth(data, units)[0], f)
    same(problems, "left on the order data", set(vars(data)) & {"init", "next_iter", "record_pre_forward"}, set())
    same(problems, "new on the order data", set(vars(data)) - before - {"rank"}, set())
    same(problems, "properties left", ["training_state" in vars(_FSDPState),
                                       "_training_state" in vars(FlatParamHandle)], [False, False])


def handles_otherwise(here):
    with here.test("handles: entered after the first iteration") as problems:
        model = net(2)
        steps(None)(model, lambda: None)
        with record_handles(model, here.path("late.rank{rank}"), states=True):
            steps([1, 0])(model, lambda: None)
        header, events = replay.read(here.path(f"late.rank{here.rank}"))
        same(problems, "handles", [h["module"] for h in header["handles"]], ["", "blocks.0", "blocks.1"])
        same(problems, "order", replay.ExecOrder(header, events).pre, [0, 2, 1])
    with here.test("handles: a model that raises") as problems:
        model = net(2)
        with contextlib.suppress(IndexError), record_handles(model, here.path("raises.rank{rank}"), states=True):
            forward(model, [0, 5])
        same(problems, "events", [e["ev"] for e in replay.read(here.path(f"raises.rank{here.rank}"))[1]
                                  if e["ev"] != "state"], ["pre_forward", "pre_forward", "post_forward"])
        same(problems, "left over", "init" in vars(model._exec_order_data), False)
        same(problems, "property left", "training_state" in vars(_FSDPState), False)
    with here.test("handles: only one model of two") as problems:
        model, other = net(1), net(1)
        with record_handles(model, here.path("one.rank{rank}"), states=True):
            for m in (other, model, other):
                steps(None)(m, lambda: None)
        same(problems, "forwards", [e["handle"] for e in replay.read(here.path(f"one.rank{here.rank}"))[1]
                                    if e["ev"] == "pre_forward"], [0, 1])
    with here.test("handles: no forward, no file") as problems:
        with record_handles(net(1), here.path("nothing.rank{rank}")):
            pass
        same(problems, "there", os.path.exists(here.path(f"nothing.rank{here.rank}")), False)
        with contextlib.suppress(ValueError), record_handles(models.plain(), here.path("nothing")):
            problems.append("a model without FSDP1 is recorded")


def ask_about_handles(tap, args, folder, cases):
    for name in cases:
        problems = []
        doc = envelope(run(args, "order", "--json", os.path.join(folder, name + ".rank0")), problems, statuses=(0, 1))
        snapshot = doc["data"]["recordings"][0]["snapshots"][-1] if doc else {}
        for key, value in load(os.path.join(folder, name + ".torch")).items() if doc else ():
            same(problems, key, snapshot.get(key), value)
        tap.none(f"the program replays handles: {name}", problems)


# ---- all of it

def commands(args):
    doc = run(args, "commands", "--json").json()
    return {command["name"] for command in doc["data"]["commands"]}


def main():
    args = arguments(__doc__)
    tap = Tap()
    known = commands(args)
    data = next((d for root in args.roots if os.path.isdir(d := os.path.join(root, "plan"))), None)
    if data is None:
        skip_all("no plans to compare with")
    tap.none("every plan among the samples is built anew", sorted(set(os.listdir(data)) - set(models.RECIPES) - models.NEWER))
    samples = args.fixtures and os.path.join(args.fixtures, "traces", "exec_order")
    with tempfile.TemporaryDirectory() as folder:
        plan_without_ranks(tap, folder)
        for world in (1, 2, 3, 4):
            here = os.path.join(folder, str(world))
            odd = [odd_plans] if world < 3 else []
            if together(tap, here, world, "OFF", plans_of_samples(data), *odd) and odd:
                ask_about_plans(tap, args, here)
        info = os.path.join(folder, "info")
        if together(tap, info, 2, "INFO", profiler, readme_example, handles(HANDLES_AT_INFO, "INFO", samples)) and "replay" in known:
            ask_about_profiles(tap, args, info)
        detail = os.path.join(folder, "detail")
        if together(tap, detail, 2, "DETAIL", handles(HANDLES, "DETAIL", samples), handles_otherwise) and \
                "order" in known:
            ask_about_handles(tap, args, detail, HANDLES)
        fx_order(tap, args, folder, "order" in known)
    tap.done()


main()
