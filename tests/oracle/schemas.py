#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every JSON answer is what the schemas of the command say, and they say nothing that never comes.

Each output over all samples is walked beside its schema: what that does not allow is a failure, and so is a field that
no schema names (the schemas themselves let unknown fields pass, for the sake of later versions) and, at the end, a field
that was never seen. schemalib.py does that; jsonschema, where it is installed, judges the shortest answer of each kind and
answers with faults made in them.
"""
import collections
import functools
import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from oraclelib import SOURCE, Tap, arguments, cases, copy_tree, environment, first_case, in_parallel, run, strict_json, thinned
from schemalib import Document, Walk

try:
    import jsonschema
except ImportError:
    jsonschema = None

# Fields that no input can show today, and why. A * at either end stands for the rest.
NEVER_SEEN = {
    "replay-1#/$defs/rank/properties/interrupted": "only after Ctrl-C, which replay.bats tries",
    "*#/properties/interrupted": "only after Ctrl-C, which replay.bats tries",
    "*/properties/dtype_raw": "PyTorch spells dtypes one way",
    "replay-1#/$defs/cost/properties/cause": "only of ranks on one clock, which the oracle of asynchronous traces makes",
    "info-1#/$defs/facts/properties/bytes/properties/holes": "only of files with holes, which a pinned run makes",
    "info-1#/$defs/facts/properties/average*": "only of a model with its average, which export.bats makes",
    "diff-1#/$defs/side/properties/value": "only of checkpoints that differ in a value, which diff.bats makes",
}

# Serves local directories as s3://local/PATH.
HELPER = os.path.join(SOURCE, "tests", "cli", "remote_helper.py")
READ = ("torch-zip", "dcp", "fsdp1", "fsdp2")
NOT_READ = ("dcp-safetensors",)

SHAPES = [
    ("info",), ("info", "--waste"), ("tree",), ("tree", "--sizes"), ("tree", "--raw"), ("fqns",), ("fqns", "--flat"),
    ("fqns", "--raw-map"), ("fqns", "--by-parameter"), ("ls",), ("ls", "-l"), ("ls", "--objects"), ("ls", "--by=file"),
    ("ls", "--by=rank"), ("ls", "--by=dtype"),
]
LINES = [("tree",), ("ls",), ("ls", "-l"), ("ls", "--objects"), ("ls", "--by=file")]
EVERY = 4  # of what is asked of many samples
FAULTS = 12  # made in one answer of each schema
OTHER = (None, True, -1, "", [], {})  # what stands for a value then
# Have fields that no other sample has, or few.
ALONE = {"dcp/no-collectives", "torch-zip/quantised", "torch-zip/sparse", "torch-zip/whole-module", "zip/bomb-record.pt"}
ABOUT = [("version", "--json"), ("commands", "--json"), ("rules", "--json"), ("rules", "--jsonl"), ("rules", "--json", "FI2003")]


class Schemas:
    """What `schema` gives, by name and version: ls-1; found by the name that an answer gives."""

    def __init__(self, args):
        self.by_name = {}
        for line in run(args, "schema").out.decode().splitlines():
            command, major = line.split()
            self.by_name[f"{command}-{major}"] = run(args, "schema", "--schema=" + major, command).json()
        self.documents = {name: Document(name, doc) for name, doc in self.by_name.items()}
        self.validators = {}

    def find(self, schema):
        """The name of the document for "fsdp-inspect.ls"."""
        command = schema.rpartition(".")[2]
        return next((name for name in self.by_name if name.rpartition("-")[0] == command), None)

    @functools.cache
    def place(self, name, reference):
        """Where something stands. A definition that several documents repeat word for word
        stands in the first of them."""
        head = reference.split("/")[:3]
        if head[:2] == ["#", "$defs"]:
            text = json.dumps(self.by_name[name]["$defs"][head[2]])
            for other, doc in self.by_name.items():
                if json.dumps(doc.get("$defs", {}).get(head[2])) == text:
                    name = other
                    break
        return name + reference

    @functools.cache
    def row(self, where):
        """What is printed at a place, under which name."""
        name, _, fragment = where.partition("#")
        node = self.by_name[name]
        for step in fragment.strip("/").split("/"):
            node = node[int(step)] if isinstance(node, list) else node[step]
        return fragment.rpartition("/")[2], json.dumps(node)

    def has_records(self, name):
        return "record" in self.by_name[name].get("$defs", {})

    def referee(self, name, fragment=""):
        """What jsonschema makes of a whole document, or of one definition in it."""
        if (name, fragment) not in self.validators:
            doc = self.by_name[name]
            if fragment:
                doc = {"$defs": doc["$defs"], "$ref": "#" + fragment}
            self.validators[name, fragment] = jsonschema.Draft202012Validator(doc)
        return self.validators[name, fragment]


def declared(schemas):
    """Where each field that a document can have is named: {place}. A field that only refers
    to another one is that one; records of JSON Lines are made of the same fields."""
    out, visited = set(), set()
    todo = [(document.node("#"), name + "#") for name, document in schemas.documents.items()]
    while todo:
        node, place = todo.pop()
        if node.reference:
            at = schemas.place(node.document.name, node.reference)
            if "/properties/" in node.reference:
                out.add(at)
            if at not in visited:
                visited.add(at)
                todo.append((node.target(), at))
        for below in node.below():
            at = place + below.place[len(node.place):]
            if below.place.rpartition("/")[0] == node.place + "/properties" and "/properties/" not in (below.reference or ""):
                out.add(at)
            todo.append((below, at))
    return out


def jobs_of_case(case):
    """Command lines over one sample."""
    truth = case.load("truth.json") if case.has("truth.json") else {}
    checkpoint = case.checkpoint(truth)
    plan = case.file("plan.fsdp-plan.json") if case.has("plan.fsdp-plan.json") else None
    many = truth.get("kind", "").startswith(READ) and not truth["kind"].startswith(NOT_READ)
    if plan:
        yield from (("--json", w, plan) for w in ("tree", "info", "fqns", "flat"))
    if plan and case.has("flat.json"):
        first = case.load("flat.json")["units"][0]
        yield "--jsonl", "flat", plan
        yield "--json", "flat", "--unit", first["module"], "--at", "0:0", plan
        if checkpoint:
            yield "--json", "--separate", "flat", plan, plan
            yield "--json", "flat", *(["--plan", plan] if many else []), checkpoint
    if case.has("latest.json"):
        of_run = os.path.join(case.folder, "run")
        yield "--json", "latest", "--level=data", of_run
        yield "--jsonl", "latest", of_run
    if checkpoint is None or case.family == "plan":
        return
    yield "--json", "reshard", "--world=3", "--fit=1K", checkpoint
    yield "--jsonl", "reshard", "--mesh=2x2", "--tp=2", checkpoint
    yield "--json", "audit", checkpoint
    yield "--jsonl", "audit", "--data", checkpoint
    given = ["--plan", plan] if plan and many else []
    for words in SHAPES if many else SHAPES[:1] + SHAPES[8:9]:
        yield "--json", *words, *given, checkpoint
    if not many:
        return
    for words in LINES:
        yield "--jsonl", *words, *given, checkpoint
    names = [t["clean_fqn"] for t in truth["tensors"] or ()][:40]
    names += [o["fqn"] for o in truth["objects"] or ()][:10]
    if names:
        yield "--json", "show", "--values=3", *given, "--", checkpoint, *names
    if "globals" in truth:
        for words in (("ls",), ("tree",), ("fqns",), ("info",), ("show",)):
            yield "--json", "--limit=findings=1", *words, checkpoint, *(names[:1] if words == ("show",) else ())
    if case.short == "views":
        yield "--json", "--limit=pickle-bytes=64", "info", checkpoint
        yield "--json", "show", checkpoint, "no.such.name"
        yield "--json", "ls", checkpoint + ".absent"
        yield "--json", "--separate", "info", "--waste", checkpoint, checkpoint


def made_jobs(args, folder):
    """Command lines over what no sample shows, made here."""
    wrapped = os.path.join(folder, "wrapped.pt")
    generator = os.path.join(SOURCE, "bench", "gen-torch-zip.py")
    subprocess.run([sys.executable, generator, wrapped, "--tensors=20", "--names=wrapped"], check=True)
    for words in SHAPES:
        yield "--json", *words, wrapped
    for words in LINES:
        yield "--jsonl", *words, wrapped
    yield "--json", "show", wrapped, "layers.0.norm_1.weight"
    yield "--json", "show", wrapped, "layers"
    bad = os.path.join(folder, "no-utf8.pt")  # and a name that is not a string
    with open(wrapped, "rb") as f:
        data = f.read()
    with open(bad, "wb") as f:
        f.write(data.replace(b"layers.1.", b"layers.\xff."))
    for words in SHAPES:
        yield "--json", *words, bad
    case = first_case(args, ["fsdp1/sharded-w2-orig"])
    if case:
        below = os.path.join(folder, "sets")  # rank files of two saves
        os.mkdir(below)
        for save in ("first", "last"):
            for name in os.listdir(case.checkpoint()):
                shutil.copyfile(os.path.join(case.checkpoint(), name), os.path.join(below, f"{save}_{name}"))
        yield "--json", "info", below
        yield "--json", "show", "--plan", case.file("plan.fsdp-plan.json"), case.checkpoint(), "u1"
    archive = os.path.join(folder, "archive.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(wrapped, "step/wrapped.pt")
    for words in SHAPES:
        yield "--json", *words, archive
    case = first_case(args, ["dcp/fsdp2-w2", "dcp/fsdp2-w4-small"])
    if case:
        beside = os.path.join(folder, "beside")
        copy_tree(case.checkpoint(), beside)
        shutil.copyfile(case.file("plan.fsdp-plan.json"), os.path.join(beside, "model.fsdp-plan.json"))
        for words in SHAPES:
            yield "--json", *words, beside
        for words in (("info", "--waste"), ("ls",), ("tree",), ("fqns",), ("fqns", "--flat"), ("fqns", "--by-parameter")):
            yield "--json", "--separate", *words, beside, wrapped
        below = os.path.join(folder, "run")  # a step that is whole, and one that is cut
        for step in ("step-1", "step-2"):
            copy_tree(case.checkpoint(), os.path.join(below, step))
        os.truncate(os.path.join(below, "step-2", "__0_0.distcp"), 100)
        yield "--json", "info", below
        yield "--json", "tree", below
        yield "--json", "show", beside, "model"
        yield "--json", "show", "--whole", "--glob=**", beside
        copy_tree(case.checkpoint(), os.path.join(folder, "epochs", "epoch_1"))
        gone = os.path.join(folder, "gone")
        copy_tree(case.checkpoint(), gone)
        os.remove(os.path.join(gone, "__1_0.distcp"))
        yield "--json", "ls", "--by=rank", gone
        yield "--json", "latest", os.path.join(folder, "epochs")
        twice = case.load("plan.fsdp-plan.json")
        last = twice["modules"][-1]
        twice["modules"].append({"name": "again", "class": last["class"], "same_as": len(twice["modules"]) - 1})
        path = os.path.join(folder, "twice.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(twice, f)
        yield "--json", "tree", path
    adapter = os.path.join(folder, "adapter")
    os.makedirs(adapter)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        with open(os.path.join(SOURCE, "testdata", "complete", "lora-b-gone", "checkpoint", name), "rb") as file:
            content = file.read().replace(b'"base_model_name_or_path": null', b'"base_model_name_or_path": "tiny/llama"')
        with open(os.path.join(adapter, name), "wb") as file:
            file.write(content)
    yield "--json", "info", adapter


def recording_jobs(folder):
    """Views of recordings that few samples have."""
    def at(*names):
        return [os.path.join(SOURCE, "testdata", "traces", name) for name in names]
    dumps = os.path.join(folder, "dumps")
    os.makedirs(dumps)
    for rank in range(2):  # the dump of rank 0 is older
        calls = [{"record_id": i, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": i + 1, "p2p_seq_id": 0,
                  "profiling_name": "nccl:all_reduce", "time_created_ns": i, "input_sizes": [[4]], "output_sizes": [[4]],
                  "state": "completed", "retired": True, "is_p2p": False} for i in range(rank + 1)]
        with open(os.path.join(dumps, f"nccl_trace_rank_{rank}.json"), "w", encoding="ascii") as f:
            json.dump({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "entries": calls}, f)
    yield "--json", "order", dumps
    yield ("--json", "order", *at("watchdog/stuck_w8.log"))
    yield ("--json", "order", *at("watchdog/report_w4.log"))
    yield ("--json", "order", *at("gloo_logs/barrier_w4.log"))
    yield ("--json", "order", *at("gloo_logs/timeout_op_w3.log"))
    yield ("--json", "order", *at("gloo_logs/timeout_size_w3.log"))
    yield ("--json", "order", *at("watchdog/all_wait_w2.log"))
    yield ("--json", "order", *at("watchdog/exception_w3.log"))
    yield ("--json", "replay", "--memory", "--compare", *at("memory/oom_w8/oom_rank0.pickle", "memory/oom_w8/oom_rank7.pickle"))
    yield ("--json", "replay", "--memory", "--compare", *at("memory/oom_w8/oom_rank7.pickle", "memory/oom_w8/oom_rank0.pickle"))
    for key in ("group", "idle", "kernel"):
        yield ("--json", "replay", f"--by={key}", *at("units/g_same_stream_rank0.pt.trace.json.gz"))
    for key in ("rank", "collective"):
        yield ("--json", "replay", f"--by={key}", "--compare", *at("units/g_plain_rank0.pt.trace.json.gz", "units/g_plain_rank1.pt.trace.json.gz"))


def audit_jobs(args, folder):
    """Command lines that judge, with all that an audit can be given."""
    for case in (first_case(args, [name]) for name in ("broken/dcp-chunk-gap", "torch-zip/odd-shapes", "torch-zip/all-dtypes")):
        if case is None:
            continue
        path = case.checkpoint()
        yield "--json", "audit", "--rule=FI1005=off", "--allow-global=a.B", "--expect", path, "--merged", path, path
        yield "--json", "audit", "--data", "--values", path
        yield "--json", "audit", "--data", "--part=1/2", path
        yield "--jsonl", "audit", "--data", "--part=1/2", path
        yield "--json", "audit", path, os.path.join(folder, "absent")
        yield "--jsonl", "audit", path, os.path.join(folder, "absent")
    for case in (first_case(args, [name]) for name in ("broken/hf-missing-tensor", "torch-zip/custom-class")):
        if case is not None:
            yield "--json", "audit", "--for=all", case.checkpoint()
            yield "--json", "audit", "--for=dcp", "--provenance", "--world=2", "--loader-option=allow_partial_load=true", case.checkpoint()
    empty = os.path.join(folder, "empty.safetensors")
    with open(empty, "wb") as f:
        text = b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        f.write(len(text).to_bytes(8, "little") + text + bytes(4))
    yield "--json", "audit", empty


def rare_jobs(args):
    """Command lines with fields that no other line has."""
    types = first_case(args, ["plan/fsdp2-w2-param-dtypes"])
    if types is not None:
        yield "--json", "tree", types.file("plan.fsdp-plan.json")
    step = first_case(args, ["dcp/fsdp2-w2"])
    if step is not None:
        yield "--json", "info", step.folder
        yield "--json", "ls", "--by=rank,dtype", step.checkpoint()
    for name, more in (("fsdp2/w4-tp", "--tp=2"), ("trainer/adafactor", "--world=2"), ("megatron/torch-dist-w2", "--world=2")):
        case = first_case(args, [name])
        if case is not None:
            yield "--json", "reshard", "--world=4", more, case.checkpoint(case.load("truth.json")) or case.folder
    for root in args.roots:
        for path in glob.glob(os.path.join(root, "runs", "dcp-half-written", "run")):
            yield "--json", "latest", "--all", path
        for path in glob.glob(os.path.join(root, "demo", "step-1234")):
            yield "--json", "--provenance", "info", "s3://local" + os.path.abspath(path)
        for path in glob.glob(os.path.join(root, "blocks")):
            yield "--json", "tree", path
    trace = os.path.join(args.fixtures or "", "traces/kineto_cpu/collectives_rank0.pt.trace.json.gz")
    if os.path.exists(trace):
        yield "--json", "replay", trace, trace


def export_jobs(args, folder):
    """Command lines that write checkpoints into folders of their own."""
    cases = (first_case(args, [name]) for name in ("dcp/fsdp2-w2", "torch-zip/all-dtypes", "torch-zip/nested-checkpoint", "trainer/tied-qwen2"))
    for case in filter(None, cases):
        truth = case.load("truth.json")
        for number, more in enumerate(((), ("--cast=float16",), ("--tie=keep", "--no-verify"))):
            yield "--json", "export", "--skip-unsupported", *more, "-o", os.path.join(folder, f"{case.short}-{number}"), case.checkpoint(truth)
        yield "--jsonl", "export", "--skip-unsupported", "-o", os.path.join(folder, case.short + "-lines"), case.checkpoint(truth)


def comparison_jobs(args, folder):
    """Command lines over two checkpoints, and over the bytes of one."""
    cases = [first_case(args, [name]) for name in ("cross/model-a-changed", "cross/model-a-hf-single", "cross/model-a-dcp-w2",
                                                   "cross/model-a-dcp-safetensors-w2", "dcp/fsdp2-w2", "dcp/scalars", "fsdp2/w4-tp")]
    paths = [case.checkpoint(case.load("truth.json")) or case.folder for case in cases if case is not None]
    paths = [path for path in paths if path is not None]
    for one, other in zip(paths, paths[1:] + paths[:1]):
        for words in ((), ("--values",), ("--layout", "--stat"), ("--values", "--stat"), ("--strip=model.",), ("--values", "--tol=0.1,0.1")):
            yield "--json", "diff", *words, one, other
        yield "--jsonl", "diff", "--values", one, other
    for path in paths:
        for words in ((), ("--logical",), ("--names",)):
            yield "--json", "hash", *words, path
            yield "--jsonl", "hash", *words, path
        sums = os.path.join(folder, "sums")
        with open(sums, "wb") as f:
            f.write(run(args, "hash", path).out[1:] + b"0" * 64 + b"  absent\n")
        yield "--json", "hash", "--check", sums, path
        for words in ((), ("--by=module",), ("--nonfinite",), ("--hist",)):
            yield "--json", "stats", *words, path
        yield "--jsonl", "stats", path


def pickle_jobs(args):
    """Command lines that list pickles, of every form that has some."""
    names = ("torch-zip/custom-class", "torch-zip/quantised", "torch-zip/legacy", "broken/dcp-truncated-metadata")
    for case in (first_case(args, [name]) for name in names):
        if case is not None:
            path = case.checkpoint()
            path = os.path.join(path, ".metadata") if os.path.isdir(path) else path
            yield from (("--json", "pickle", *words, path) for words in ((), ("--check",), ("--tree",)))
            yield "--jsonl", "pickle", path
    for root in args.roots:
        for path in sorted(glob.glob(os.path.join(root, "hostile", "pickle", "*")))[:40]:
            yield "--json", "pickle", "--check", "--tree", path


def trace_jobs(args, folder):
    """Command lines over recordings."""
    for root in args.roots:
        of = lambda *words: sorted(glob.glob(os.path.join(root, "traces", *words)))
        for path in of("malformed", "*.json*") + of("gpu_generated", "*.gz") + of("kineto_cpu", "c*.gz"):
            yield "--json", "replay", path
        for path in of("simple_profiler", "*.jsonl") + of("simple_profiler", "*.log"):
            yield "--json", "replay", path
        for path in of("fx", "*.jsonl") + of("exec_order", "*.jsonl"):
            yield "--json", "order", path
        for path in of("malformed", "cut_in_args.json") + of("simple_profiler", "keys_rank0.jsonl"):
            yield "--jsonl", "replay", path
        for path in of("fx", "flag_abort.jsonl") + of("exec_order", "states_refused_rank0.jsonl"):
            yield "--jsonl", "order", path
        for path in of("malformed", "cut_in_args.json"):
            yield "--json", "--limit=findings=1", "replay", os.path.join(os.path.dirname(path), "bare_quote.json")
            result = os.path.join(folder, "result.json")
            with open(result, "wb") as f:
                f.write(run(args, "replay", "--json", path).out)
            yield "--json", "replay", "--compare", result, os.path.join(os.path.dirname(path), "base.json")
        for path in of("exec_order", "changes_rank0.jsonl"):
            yield "--json", "--limit=findings=1", "order", path
        for path in of("flight_recorder", "*_w[0-9]"):
            yield "--json", "order", path
            yield "--jsonl", "order", path
        for path in of("memory", "*.pickle") + of("memory", "*", "*.pickle"):
            yield "--json", "replay", "--memory", path
            yield "--json", "replay", "--memory", "--timeline=3", path
        for path in of("memory", "*"):
            if os.path.isdir(path) and glob.glob(os.path.join(path, "*.pickle")):
                yield "--json", "replay", "--memory", *sorted(glob.glob(os.path.join(path, "*.pickle")))
        grown = of("memory", "oom_w8", "*.pickle")
        if len(grown) > 1:
            yield "--json", "replay", "--memory", "--compare", grown[0], grown[-1]
            yield "--json", "replay", "--memory", "--compare", grown[-1], grown[0]
        units = of("units", "g_plain_rank?.pt.trace.json.gz")
        for path in units:
            yield "--json", "info", path
        for by in ("unit", "step", "rank", "collective", "idle") if units else ():
            yield "--json", "replay", f"--by={by}", *units
            yield "--jsonl", "replay", f"--by={by}", *units
        for by in ("unit", "step", "type", "group", "kernel") if len(units) > 1 else ():
            yield "--json", "replay", f"--by={by}", "--compare", units[0], units[1]
            yield "--jsonl", "replay", f"--by={by}", "--compare", units[0], units[1]
        many = of("gpu_generated", "new_args_rank?.pt.trace.json.gz")
        differ = of("exec_order", "ranks_differ_rank?.jsonl")
        if many:
            yield ("--json", "replay", "--timeline", *many)
        if differ:
            yield ("--json", "order", "--first-diff", *differ)


def kind_of(words):
    """What a command line asks, whatever of."""
    return tuple(itertools.takewhile(lambda word: os.sep not in word, words[:3]))


def sample_jobs(args, folder):
    """(folder of samples, command line)."""
    for words in trace_jobs(args, folder):
        yield os.path.basename(os.path.dirname(words[-1])), words
    for case in cases(args):
        for words in jobs_of_case(case):
            yield case.name if case.name in ALONE else case.family, words
    for path in glob.glob(os.path.join(SOURCE, "testdata", "dcp", "conjugates", "checkpoint")):
        yield "dcp/conjugates", ("--json", "ls", "-l", path)
    hostile = os.path.join(args.fixtures, "hostile") if args.fixtures else ""
    for part in ("zip", "tensor", "dcp", "plan"):
        for path in sorted(glob.glob(os.path.join(hostile, part, "*"))):
            family = f"{part}/{os.path.basename(path)}"
            family = family if family in ALONE else part
            yield family, ("--json", "--limit=findings=1", "info", path)
            yield family, ("--json", "ls", "-l", path)
            if part == "plan":
                yield family, ("--json", "--limit=findings=1", "flat", path)


def jobs(args, folder):
    """Every command line; without --all a part of those over samples, but some of each family."""
    every = 1 if args.all else EVERY
    found = thinned(sample_jobs(args, folder), lambda job: (job[0], kind_of(job[1])), every)
    return [*ABOUT, *(words for _, words in found), *made_jobs(args, folder), *audit_jobs(args, folder), *recording_jobs(folder), *rare_jobs(args), *export_jobs(args, folder),
            *comparison_jobs(args, folder), *pickle_jobs(args)]


def paths_of(value, path=()):
    """Where all that a value holds stands in it."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from paths_of(below, (*path, key))


def faulty(value):
    """The value with one thing in it left out or replaced, for FAULTS of its places."""
    places = list(paths_of(value))
    for number, path in enumerate(places[::len(places) // FAULTS + 1]):
        copy = json.loads(json.dumps(value))
        within = functools.reduce(lambda inner, key: inner[key], path[:-1], copy)
        if number % 2 == 0 and isinstance(within, dict):
            del within[path[-1]]
        else:
            within[path[-1]] = OTHER[number // 2 % len(OTHER)]
        yield copy


class Answers:
    """Checks answers, and collects what is wrong by schema."""

    def __init__(self, schemas):
        self.schemas = schemas
        self.walk = Walk(schemas.place)
        self.problems = collections.defaultdict(list)
        self.counts = collections.Counter()
        self.shortest = {}  # of each kind, for the referee: (length, schema, fragment, value)

    def check(self, words, r):
        if r.crash:
            self.problems["crashes"].append(r.crash)
            return
        try:
            if "--jsonl" in words:
                self.check_lines(words, r, [strict_json(line) for line in r.out.splitlines()])
            else:
                self.check_document(words, r, strict_json(r.out))
        except ValueError as e:
            self.problems["JSON"].append(f"{r.words}: {e}; status {r.status}: {r.tail}")

    def check_document(self, words, r, doc):
        self.counts[doc.get("schema")] += 1
        name = self.schemas.find(doc.get("schema", ""))
        if name is None:
            self.problems["schema"].append(f"{r.words}: no document for {doc.get('schema')!r}")
            return
        if doc["ok"] != (r.status == 0):
            self.problems[doc["schema"]].append(f"{r.words}: ok is {doc['ok']}, status {r.status}")
        self.check_value(r, doc["schema"], name, "", doc, (kind_of(words), doc["ok"]))

    def check_lines(self, words, r, lines):
        """JSON Lines: each a record of the schema that the header names."""
        name = self.schemas.find(lines[0].get("schema", "")) if lines else None
        if name is None:
            self.problems["schema"].append(f"{r.words}: no document for the header")
            return
        if not self.schemas.has_records(name):
            self.problems["schema"].append(f"{name}: says nothing of JSON Lines")
            return
        for line in lines:
            if not self.check_value(r, lines[0]["schema"], name, "/$defs/record", line, line.get("type")):
                return

    def check_value(self, r, schema, name, fragment, value, kind):
        node = self.schemas.documents[name].node("#" + fragment)
        fault = self.walk.fault([(node, self.schemas.place(name, "#" + fragment))], value, name)
        if fault:
            self.problems[schema].append(f"{r.words}: {fault}")
        length = len(json.dumps(value))
        found = self.shortest.setdefault((name, fragment, kind), (length, r, value))
        if length < found[0]:
            self.shortest[name, fragment, kind] = (length, r, value)
        return not fault

    def disagreements(self):
        """Where jsonschema sees it otherwise: in the shortest answer of each kind, and in the faults made in one of each schema."""
        first = {}
        for (name, fragment, kind), (_, r, value) in self.shortest.items():
            error = jsonschema.exceptions.best_match(self.schemas.referee(name, fragment).iter_errors(value))
            if error:
                yield f"{r.words}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
            first[name, fragment, kind if fragment else None] = value
        for (name, fragment, _), value in first.items():
            node, referee = self.schemas.documents[name].node("#" + fragment), self.schemas.referee(name, fragment)
            for fault in faulty(value):
                if node.is_valid(fault) != referee.is_valid(fault):
                    yield f"{name}{fragment}: {'refused' if node.is_valid(fault) else 'taken'} by jsonschema alone: {json.dumps(fault)[:200]}"


def main():
    args = arguments(__doc__, all="")
    schemas = Schemas(args)
    tap = Tap()
    answers = Answers(schemas)

    def one(words):
        return words, run(args, *words, env=environment(FSDP_INSPECT_HELPER=HELPER))
    with tempfile.TemporaryDirectory() as folder:
        for done in in_parallel(one, jobs(args, folder)):
            answers.check(*done)
    walk, problems, counts = answers.walk, answers.problems, answers.counts
    tap.none("no run crashes", problems.pop("crashes", []))
    tap.none("stdout is always one JSON document", problems.pop("JSON", []))
    tap.none("every answer has a schema", problems.pop("schema", []))
    for schema in sorted(set(counts) | set(problems)):
        tap.none(f"{schema}: {counts[schema]} answers are as the schema says", problems[schema])
    tap.none("no field is undocumented", sorted(walk.unknown))
    if jsonschema is None:
        tap.skip("jsonschema agrees", "no jsonschema")
    else:
        tap.none("jsonschema agrees, on answers and on faults made in them", list(answers.disagreements()))
    doc = run(args, "commands", "--json").json()
    wrong = [f"{c['name']}: the schema has {'' if schemas.has_records(name) else 'no '}records, outputs are {c['outputs']}"
             for c in doc["data"]["commands"] for name in [schemas.find(c["name"])]
             if name and schemas.has_records(name) != ("jsonl" in c["outputs"])]
    tap.none("records are described for the commands that write JSON Lines", wrong)
    # A row that several records share is printed in each of them, and seen if it is in one.
    rows = collections.defaultdict(set)
    for where in declared(schemas):
        rows[schemas.row(where)].add(where)
    unseen = {min(places) for places in rows.values() if not places & walk.seen}
    unexplained = sorted(w for w in unseen if not excepted(w))
    stale = sorted(k for k in NEVER_SEEN if not any(matches(k, w) for w in unseen))
    if args.fixtures:
        tap.none("every documented field occurs", unexplained)
        tap.none("no exception is stale", stale)
    else:
        tap.skip("every documented field occurs", f"only the small samples are here; {len(unexplained)} were not seen")
    tap.done()


def matches(pattern, where):
    if pattern.endswith("*"):
        return where.startswith(pattern[:-1])
    return where.endswith(pattern[1:]) if pattern.startswith("*") else where == pattern


def excepted(where):
    return any(matches(k, where) for k in NEVER_SEEN)


if __name__ == "__main__":
    sys.exit(main())
