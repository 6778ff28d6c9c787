#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole commands under failing calls. For each command and each n, the n-th allocation
(alone, and with all later ones) or read fails, the file shrinks, reads come in bits or
interrupted, output has no room. What must hold each time: the fault is reported in one
message with status 2, or it made no difference and is not mentioned; nothing crashed, nothing is still held.
Prints TAP.

run.py [--all] SHIM BINARY            the command
run.py --selftest SHIM PATIENT        a program with chosen manners
  --all tries every n; without it a long row of them is thinned evenly.
  --only=WORD tries only the commands that have this in a word.
  --within=FROM-TO fails only calls made within a function: the addresses of its code, as nm prints them.
run.py --list SHIM BINARY             numbers of the commands; given as arguments, only these are tried
"""

import argparse
import concurrent.futures
import contextlib
import errno
import gzip
import itertools
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ALLOCATIONS, READS = 6, 3  # that fail of one command, without --all: 3,000 faults in all
FIRST = 3  # reads that are tried besides, as plans and metadata are read first
TIMEOUT = 200
TOTAL = re.compile(r"\d+ tensors?, ")  # of what ls lists: less, when something cannot be read
NOT_READ = os.strerror(errno.EIO)
FINDING = re.compile(r"(error|warning|note): .* \[FI\d{4} [a-z-]+\]$|  (affected|fix): ")

CUT = "testdata/dcp/fsdp2-w4-tp/checkpoint"
ZIP = "testdata/torch-zip/views/model.pt"
DCP = "testdata/dcp/scalars/checkpoint"
STREAM = "testdata/torch-zip/legacy/model.pt"
TENSORS = "testdata/safetensors/all-dtypes/model.safetensors"
OLD_TAR = "testdata/torch-tar/tar-views/model.pth"
CROSS = "testdata/cross/model-a-dcp-safetensors-w2"
PLAN = "testdata/plan/dcp-fsdp1-w2-adam/plan.fsdp-plan.json"
LAYOUT = "testdata/fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json"
PLANNED = ["--plan=" + PLAN, "testdata/dcp/fsdp2-w4-small/checkpoint"]
TRACES = "testdata/traces/"
TAR = "checkpoint.tar.gz"  # of DCP, made when it is wanted
# Words of a command; "<" and a path: what it reads from its standard input.
COMMANDS = [  # first those that take longest with --all
    ["report", "--trace=testdata/traces/units/g_plain_rank0.pt.trace.json.gz", "testdata/dcp/fsdp2-w4-small/checkpoint"],
    ["audit", "--data", "--merged=" + CROSS, "--expect=" + CROSS, CROSS],
    ["export", "-o", "out", "testdata/demo/step-1234"],
    ["info", ZIP],
    ["info", "--json", DCP],
    ["latest", "--json", "--level=headers", "testdata/runs/trainer/run"],
    ["latest", "--all", "testdata/runs/dcp-half-written/run"],
    ["info", TAR],
    ["info", "-", "<", ZIP],
    ["ls", "-o", "json=out.json", TAR],
    ["info", STREAM],
    ["ls", "testdata/torch-zip/wrapper-subclass/model.pt"],
    ["hash", DCP],
    ["hash", "--logical", CUT],
    ["hash", "--logical", "--json", ZIP],
    ["hash", "--logical", "--part=1/2", "-o", "jsonl=out.jsonl", CUT],
    ["audit", "--jsonl", "--data", "--part=2/2", DCP],
    ["diff", "--jsonl", "--values", CROSS, "testdata/wrong/norms-concatenated/model.safetensors"],
    ["stats", CUT],
    ["stats", "--by=module", "--json", TENSORS],
    ["stats", "--hist", "--by=dtype", ZIP],
    ["ls", "testdata/megatron/legacy-gated-tp2"],
    ["ls", OLD_TAR],
    ["info", TENSORS],
    ["tree", "testdata/hf/llama-sharded"],
    ["tree", "--json", "--units-from=testdata/traces/printed_models/fsdp1_gpt2_interleaved.log"],
    ["tree", "-o", "ncdu", "testdata/hf/llama-sharded"],
    ["tree", "-o", "plan", "--units-from=testdata/traces/printed_models/fsdp2_some_noise.log"],
    ["fqns", "--units-from=testdata/traces/printed_models/fsdp2_mixtral_ansi.log", "testdata/hf/llama-sharded"],
    ["info", "testdata/lightning/trainer-ckpt"],
    ["ls", "testdata/deepspeed/zero2-roundrobin-w2"],
    ["ls", "testdata/other-fsdp/fairscale-w2"],
    ["ls", "testdata/other-fsdp/xla-w2"],
    ["info", "-v", "testdata/foreign/orbax"],
    ["pickle", "--tree", "--check", ZIP],
    ["pickle", "--json", "--tree", STREAM],
    ["ls", "testdata/cross/model-a-dcp-safetensors-w2"],
    ["audit", "--for=hf,accelerate,dcp", DCP],
    ["audit", "--json", "--for=deepspeed", "--world=3", "testdata/deepspeed/zero2-roundrobin-w2"],
    ["audit", "--json", "--for=deepspeed", "--loader-option=load_module_only=true", "testdata/deepspeed/zero2-roundrobin-w2"],
    ["tree", DCP],
    ["tree", PLAN],
    ["tree", "--style=torch", PLAN],
    ["tree", "--sizes"] + PLANNED,
    ["fqns", PLAN],
    ["fqns", "--bare", PLAN],
    ["fqns", "--by-parameter", PLAN],
    ["flat", PLAN],
    ["flat", "--json", "--param=l1.weight:4,3", LAYOUT],
    ["ls", ZIP],
    ["ls", "--json", TAR],
    ["ls", "-l", DCP],
    ["ls", "-g", "*", "-e", ".", "-s", "-bytes", ZIP],
    ["ls", "-o", "json=out.json", ZIP],
    ["show", ZIP, "base"],
    ["show", "-o", "text", "-o", "json=/dev/null", "testdata/demo/step-1234", "blocks.0"],
    ["show", "--json", "--values=2", DCP, "list.1"],
    ["show", "--values=100", CUT, "model.mlp1.down.weight"],
    ["audit", "--checks", "testdata/broken/dcp-chunk-gap/checkpoint"],
    ["audit", "-o", "sarif", "testdata/broken/dcp-chunk-gap/checkpoint"],
    ["audit", "--jsonl", ZIP, CROSS],
    ["audit", "--data", "testdata/torch-zip/sparse/model.pt"],
    ["diff", "--stat", "testdata/cross/model-a-changed/model.pt", "testdata/wrong/missing-keys/model.safetensors"],
    ["diff", "--json", "--layout", DCP, DCP],
    ["diff", "--map=hf-llama", "--rename=norm=decoder.final_layernorm", "testdata/cross/model-a-changed/model.pt", "testdata/cross/model-a-changed/model.pt"],
    ["diff", "--values", "testdata/wrong/norms-concatenated/model.safetensors", "testdata/cross/model-a-changed/model.pt"],
    ["reshard", "--json", "--world=3", DCP],
    ["reshard", "--mesh=2x2", "--tp=2", "--fit=1K", "testdata/demo/step-1234"],
    ["export", "--max-shard-size=40", "--cast=bfloat16", "--rename=b=c", "-o", "out",
     "testdata/dcp/fsdp2-w4-small/checkpoint"],
    ["export", "--to=npy", "-o", "x.npy", ZIP, "base"],
    ["rules", "--json", "FI1004"],
    ["info", "testdata/broken/dcp-truncated-metadata/checkpoint"],
    ["info", "--json", "testdata/broken/dcp-chunk-gap/checkpoint"],
    ["info", TRACES + "malformed/base.json"],
    ["info", "--json", TRACES + "printed_models/fsdp1_gpt2_interleaved.log"],
    ["ls", TRACES + "memory/tight/rank0.pickle"],
    ["replay", TRACES + "malformed/base.json"],
    ["report", DCP],
    ["replay", "-o", "chrome", TRACES + "gpu_generated/old_lying_rank0.pt.trace.json.gz"],
    ["replay", "--json", TRACES + "gpu_generated/old_lying_rank0.pt.trace.json.gz"],
    ["replay", TRACES + "gpu_generated/old_lying_rank0.pt.trace.json.gz",
     TRACES + "gpu_generated/old_lying_rank0.pt.trace.json.gz", TRACES + "malformed/not_json.json"],
    ["order", TRACES + "exec_order/states_refused_rank0.jsonl", TRACES + "exec_order/ranks_differ_rank0.jsonl"],
    ["replay", "--by=group", TRACES + "units/g_plain_rank0.pt.trace.json.gz",
     TRACES + "units/g_plain_rank1.pt.trace.json.gz"],
    ["replay", "--by=group", "--json", TRACES + "gpu_generated/new_args_rank0.pt.trace.json.gz"],
    ["replay", "--by=kernel", TRACES + "units/g_plain_rank0.pt.trace.json.gz",
     TRACES + "units/g_plain_rank1.pt.trace.json.gz"],
    ["replay", "--by=kernel", "--json", TRACES + "gpu_generated/new_args_rank0.pt.trace.json.gz"],
    ["replay", "--by=kernel", "--compare=" + TRACES + "units/g_plain_rank0.pt.trace.json.gz",
     TRACES + "units/g_same_stream_rank0.pt.trace.json.gz"],
    ["replay", "--by=unit", "--json", "--compare=" + TRACES + "units/g_plain_rank0.pt.trace.json.gz",
     TRACES + "units/g_same_stream_rank0.pt.trace.json.gz"],
    ["replay", "--by=idle", TRACES + "gpu_generated/new_args_rank0.pt.trace.json.gz"],
    ["replay", "--by=unit", TRACES + "units/g_plain_rank0.pt.trace.json.gz",
     TRACES + "units/g_plain_rank1.pt.trace.json.gz"],
    ["replay", "--json", TRACES + "simple_profiler/keys_rank0.jsonl"],
    ["replay", TRACES + "simple_profiler/keys_rank0.log"],
    ["order", "--json", TRACES + "exec_order/ranks_differ_rank0.jsonl"],
    ["replay", "--timeline", "--steps=6", TRACES + "gpu_generated/new_args_rank0.pt.trace.json.gz",
     TRACES + "gpu_generated/new_args_rank1.pt.trace.json.gz"],
    ["order", TRACES + "fx/config_args.jsonl"],
    ["order", "-o", "csv", TRACES + "exec_order/ranks_differ_rank0.jsonl", TRACES + "exec_order/ranks_differ_rank1.jsonl"],
    ["order", TRACES + "flight_recorder/nccl_size_w8"],
    ["order", "--json", TRACES + "flight_recorder/nccl_json_w4"],
    ["order", "-o", "csv", TRACES + "flight_recorder/hostile_w2"],
    ["order", TRACES + "watchdog/mesh_w4.log"],
    ["order", TRACES + "watchdog/report_w4.log"],
    ["order", "--json", TRACES + "watchdog/stuck_w8.log"],
    ["order", TRACES + "gloo_logs/barrier_w4.log"],
    ["order", TRACES + "gloo_logs/dtype_w3.log"],
    ["replay", "--memory", TRACES + "memory/tight/rank0.pickle"],
    ["replay", "--memory", "-o", "csv", TRACES + "memory/devices_w2"],
    ["replay", "--memory", "--timeline=5", TRACES + "memory/devices_w2/rank1.pickle"],
    ["replay", "--memory", "--json", TRACES + "memory/old/rank0.pickle"],
    ["help"],
    ["version"],
    ["commands", "--json"],
    ["schema", "info"],
    ["completion", "bash"],
]


# What a child of the shim meets: as FSDP_… settings of a process that meets it from its start.
WAYS = ["fail_alloc", "fail_alloc+", "fail_read", "shrink"]


class Run:
    """One run of a command: what it said, how it ended, what the shim counted. `branches` has those of its children that
    met a fault, by (way, number) of it."""

    def __init__(self, shim, command, room=None, **settings):
        with tempfile.TemporaryDirectory(prefix="fsdp-faults-") as folder, contextlib.ExitStack() as stack:
            work = os.path.join(folder, "work")
            os.mkdir(work)
            os.symlink(os.path.join(ROOT, "testdata"), os.path.join(work, "testdata"))
            if TAR in command:
                pack(os.path.join(work, TAR))
            command, given = parted(command)
            out, err, forks = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(3)]
            reading, report = os.pipe()  # no file: its size would be limited as that of the output
            forking = any(name.startswith("fork_") for name in settings)
            # The loader finds all functions once, and not in each child.
            env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "LD_PRELOAD": shim, "LD_BIND_NOW": "1",
                   "FSDP_REPORT": str(report)}
            if forking:
                env["FSDP_FORK"] = str(forks.fileno())
            env.update({"FSDP_" + name.upper(): str(value) for name, value in settings.items()})
            try:
                done = subprocess.run(
                    command, cwd=work, env=env, stdin=stack.enter_context(open(given, "rb")), stdout=out,
                    stderr=err if forking else subprocess.PIPE, timeout=None if forking else TIMEOUT, check=False,
                    pass_fds=(report, forks.fileno()), preexec_fn=(lambda: limit(room)) if room is not None else None,
                )
                self.status, told = done.returncode, whole(err) if forking else done.stderr
            except subprocess.TimeoutExpired:
                self.status, told = None, b""
            os.close(report)
            with open(reading, "rb") as stream:
                self.take(stream.read(), whole(out), told)
            self.files = {}
            for below, folders, names in os.walk(work):
                for name in names + folders:
                    path = os.path.join(below, name)
                    if name in ("testdata", TAR):
                        continue
                    self.files[os.path.relpath(path, work)] = content_of(path)
            self.branches = dict(self.branched(whole(forks)))

    def take(self, report, out, err):
        words = (word.partition("=") for word in report.decode("ascii").split())
        self.counts = {name: int(n) for name, _, n in words} or None  # None: it ended without passing exit()
        self.out, self.err = out, err.decode("utf-8", "replace")

    def branched(self, records):
        """What the shim wrote of each child: struct record, then three texts."""
        at, head = 0, struct.Struct("=II4Q")
        while at < len(records):
            way, status, number, *sizes = head.unpack_from(records, at)
            at += head.size
            ends = list(itertools.accumulate(sizes, initial=at))
            branch = object.__new__(Run)
            branch.status = os.waitstatus_to_exitcode(status)
            if branch.status == -signal.SIGALRM:
                branch.status = None
            branch.take(*(records[a:b] for a, b in itertools.pairwise(ends)))
            branch.files, branch.branches = self.files, {}
            at = ends[-1]
            yield (WAYS[way], number), branch

    def answer(self):
        return self.status, self.out, self.files


def whole(file):
    file.seek(0)
    return file.read()


def content_of(path):
    """Of a folder nothing, but that it is there."""
    if os.path.isdir(path):
        return b""
    with open(path, "rb") as stream:
        return stream.read()


def pack(path):
    """The same bytes each time, or the runs could not be compared."""
    with open(path, "wb") as plain, gzip.GzipFile("", "wb", mtime=0, fileobj=plain) as packed:
        with tarfile.open(fileobj=packed, mode="w|") as tar:
            for name in sorted(os.listdir(os.path.join(ROOT, DCP))):
                tar.add(os.path.join(ROOT, DCP, name), name)


def parted(command):
    """(words, file to read from) of words with "<" and a file behind them, or without."""
    if "<" not in command:
        return command, os.devnull
    at = command.index("<")
    return command[:at], os.path.join(ROOT, command[at + 1])


def limit(room):
    """Files end at `room` bytes: a write that goes further is cut short, then refused."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


# What libarchive says before it gives up by itself, for the names in a tar; main only sees to
# the status.
GAVE_UP = re.compile(r"Fatal Internal Error in libarchive: (Out of|No) memory\n")


def well_told(run, clean):
    """Status 2 is one message, perhaps with a next step; 3 may list several places. What is
    said without the fault, and notes, may stand before it."""
    lines = [line for line in run.err.splitlines()
             if line not in clean.err.splitlines() and not line.startswith("note: ")]
    errors = [line for line in lines if line.startswith("error: ") and not FINDING.match(line)]
    beside = [line for line in lines
              if not line.startswith(("error: ", "  fix: ", "  hint: ", "  and ")) and not FINDING.match(line)
              and not (run.status == 3 and TOTAL.match(line))]
    return bool(errors) and not beside and (run.status != 2 or len(errors) == 1)


def tells_failure(content):
    """A whole envelope that says that there is no answer, or not all of it: a document, or lines from header to end."""
    try:
        lines = [json.loads(line) for line in content.splitlines()]
        if len(lines) > 1:
            kinds = [line["type"] for line in lines]
            whole = kinds[0] == "header" and kinds.index("end") == len(kinds) - 1 and content.endswith(b"\n")
            counts = (kinds.count("item"), kinds.count("finding"), kinds.count("error"))
            return whole and lines[-1]["ok"] is False and counts == tuple(
                lines[-1][key] for key in ("items", "findings", "errors"))
    except (ValueError, LookupError, TypeError):
        pass
    try:
        return json.loads(content)["ok"] is False
    except (ValueError, LookupError, TypeError):
        return False


def wrong(run, clean, statuses=(2,), counted=True, judged=()):
    """What is wrong with a run that met a fault, or None. One that judges may tell it by what it finds: with these statuses.
    A status beyond 2 and 3 is one of a verdict on what could be read: the message is wanted with it, too."""
    if run.status is None:
        return f"no end after {TIMEOUT} s"
    if run.status < 0:
        return f"ended by signal {-run.status}: {run.err.strip()[:200]}"
    for name, content in run.files.items():
        if content != clean.files.get(name) and not tells_failure(content):
            return f"left a file {name} that is not whole"
    if GAVE_UP.fullmatch(run.err) and run.status == 2:
        return None
    if counted and run.counts is None:
        return "ended without passing exit()"
    if counted and (run.counts["blocks"] or run.counts["mappings"]):
        return f"still holds {run.counts['blocks']} blocks and {run.counts['mappings']} mappings"
    if counted and run.counts["libc_blocks"] > clean.counts["libc_blocks"]:
        return f"still holds {run.counts['libc_blocks']} blocks of the C library, without a fault " \
            f"{clean.counts['libc_blocks']}"
    if run.status == 0 and 0 not in judged and NOT_READ in run.err:
        return "says that a read failed, and ends with status 0"
    if run.answer() == clean.answer():
        return None
    # Where its buffer cannot grow jansson 2.14 goes on, and a text of the answer lacks a byte.
    if run.status == clean.status and run.counts and run.counts["jansson_faults"] == 1:
        return None
    if run.status in judged and run.out != clean.out:
        return None
    if run.status not in statuses:
        return f"status {run.status} and another answer than without the fault"
    if not well_told(run, clean):
        return f"status {run.status}, but not one message: {run.err!r}"
    return None


# Commands that judge what they read -> the statuses with which they tell it in their answer. One of several candidates may
# be bad, and what a loader would do is no status of reshard.
JUDGING = {"audit": (1, 3), "info": (0,), "latest": (0, 1, 3), "report": (0, 3), "reshard": (0, 1)}


# A read that fails is not a judgement of these, but a file that shrinks is.
SHRINKING = {"export": (1,)}


# Commands that compare the files of a set, and judge by those that can be read -> the statuses that a read error may end
# with beside 2 and 3. The error is a message of its own all the same.
COMPARING = {"order": (1,)}


def thinned(first, last, most):
    """first…last, or `most` of them evenly, the first and the last among them. most = None: all."""
    if most is None or last - first < most:
        return range(first, last + 1)
    return sorted({first + i * (last - first) // (most - 1) for i in range(most)})


# Commands that read elements or files with several threads. With one they make the same calls in each run; with several
# the count of them varies, as a thread may find what it read before. Each read that fails after the opening must be reported.
# Up to the first thread the calls are those of the command with one: there they are not tried again.
JOBS = "-j4"


def is_parallel(words):
    return words[0] in ("hash", "stats", "export") or "--data" in words or "--values" in words


def with_jobs(words):
    """The command as it is, or with one thread and with several."""
    return [[words[0], jobs] + words[1:] for jobs in ("-j1", JOBS)] if is_parallel(words) else [words]


def ended_before(run, fault, parallel):
    """It made fewer calls than that: a thread that finds what another one left makes none of its own."""
    (kind, n), = fault.items()
    counted = "allocs" if kind == "fail_alloc" else "reads" if parallel else None
    return counted is not None and run.counts[counted] < int(str(n).rstrip("+"))


def listed(numbers):
    return ",".join(map(str, numbers))


def way_of(fault):
    (way, n), = fault.items()
    return way + "+" * str(n).endswith("+"), int(str(n).rstrip("+"))


class Suite:
    def __init__(self, shim, every, within=None):
        self.shim, self.every, self.within = os.path.abspath(shim), every, {"within": within} if within else {}

    def run(self, command, **faults):
        return Run(self.shim, command, **faults, **self.within)

    def forked(self, command, clean, allocs, reads):
        """The runs that one process and its children can make: without a file that is written, and while there are no
        other threads."""
        if clean.files:
            return {}
        runs = self.run(command, fork_allocs="all" if self.every else listed(allocs), fork_reads=listed(reads))
        if (runs.answer(), runs.err) != (clean.answer(), clean.err):
            raise RuntimeError(f"the command differs after its forks: {' '.join(command)}")
        return runs.branches

    def tries(self, command, clean, faults, runs):
        """First complaint over runs with each of these faults; None if all is well."""
        def one(fault):
            fault = dict(fault)
            statuses, met = fault.pop("statuses", (2,)), fault.pop("met", None)
            silent = fault.pop("silent", True)
            run = runs.get(way_of(fault)) or self.run(command, **fault)
            judged = JUDGING.get(command[1], ()) if 3 in statuses else ()  # what it reads, that is
            judged += SHRINKING.get(command[1], ()) if "shrink" in fault else ()
            statuses += COMPARING.get(command[1], ()) if 3 in statuses else ()
            what = wrong(run, clean, statuses, judged=judged)
            told = run.answer() != clean.answer() or run.err != clean.err
            if what is None and met and run.counts and not run.counts[met]:
                what = None if ended_before(run, fault, JOBS in command) else "the fault was not met"
            elif what is None and not silent and not told:
                what = "the fault was not told"
            return told, what and f"{' '.join(f'{k}={v}' for k, v in fault.items())}: {what}"

        results = [one(fault) for fault in faults]
        complaints = [what for _, what in results if what]
        return complaints, sum(told for told, _ in results), len(results)

    def opening_reads(self, command):
        """As many reads as opening what the command names makes: a sign that is sought and not found may be any of them."""
        paths = {path for word in command[1:] for path in re.findall(r"testdata/.*", word)}
        times = sum(word.count("testdata/") for word in command[1:])
        return times * max(Run(self.shim, [command[0], "ls", path]).counts["reads"] for path in paths)

    def moments(self, command, clean):
        most_allocs, most_reads = (None, None) if self.every else (ALLOCATIONS, READS)
        allocs, reads = (clean.counts[f"{kind}_alone"] + 1 if JOBS in command else 1 for kind in ("allocs", "reads"))
        early = range(reads, 1 + min(FIRST, clean.counts["reads"]))
        return (thinned(allocs, clean.counts["allocs"], most_allocs),
                sorted({*early, *thinned(reads, clean.counts["reads"], most_reads)}))

    def kinds(self, command, clean, allocs, reads):
        """(name, faults, must one of them be told)."""
        opening = self.opening_reads(command) if is_parallel(command[1:]) and not self.within else clean.counts["reads"]
        yield "an allocation fails", [{"fail_alloc": n, "met": "alloc_faults"} for n in allocs], True
        yield "all allocations fail from one on", [
            {"fail_alloc": f"{n}+", "met": "alloc_faults"} for n in allocs], True
        if clean.counts["reads"]:
            yield "a read fails", [
                {"fail_read": n, "met": "read_faults", "statuses": (2, 3), "silent": n <= opening}
                for n in reads], True
            yield "a file shrinks meanwhile", [
                {"shrink": n, "met": "read_faults", "statuses": (2, 3), "silent": n <= opening}
                for n in reads], True
            yield "reads are short", [
                {"short_read": n, "met": "read_faults", "statuses": ()} for n in ((1, 2) if self.every else (1,))], False
            yield "reads are interrupted", [{"eintr": 1, "met": "read_faults", "statuses": ()}], False
        size = max([len(clean.out)] + [len(content) for content in clean.files.values()])
        if size:
            rooms = sorted({0, 1, size // 2, size - 1} if self.every else {0, size - 1})
            yield "output has no room", [{"room": room} for room in rooms], True

    def command(self, command):
        """(name, complaints) of each kind of fault."""
        clean = self.run(command)
        if clean.status not in (0, 1, 2, 3) or clean.counts is None or not (clean.counts["allocs"] or self.within):
            yield "runs without a fault", [f"status {clean.status}: {clean.err.strip()[:200]}"]
            return
        what = wrong(clean, clean)
        yield "holds nothing at exit", [what] if what else []
        allocs, reads = self.moments(command, clean)
        runs = self.forked(command, clean, allocs, reads)
        for name, faults, must in self.kinds(command, clean, allocs, reads):
            complaints, told, count = self.tries(command, clean, faults, runs)
            if must and count and self.every and not told and not complaints and not self.within:
                complaints = [f"none of {count} faults was ever told"]
            yield f"{name} ({count} runs, {told} told)", complaints


def report(number, name, complaints):
    print(f"{'not ok' if complaints else 'ok'} {number} - {name}", flush=True)
    for line in complaints[:5]:
        print(f"#   {line}")
    if len(complaints) > 5:
        print(f"#   and {len(complaints) - 5} more")


def all_commands(suite, binary, commands):
    number = failed = 0
    # A command forks at its faults one after the other: several commands at a time.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for words, kinds in zip(commands, pool.map(lambda words: list(suite.command([binary] + words)), commands)):
            for name, complaints in kinds:
                number += 1
                failed += bool(complaints)
                report(number, f"{' '.join(words)}: {name}".replace("#", ""), complaints)
    print(f"1..{number}")
    return failed


# manners -> part of the complaint they must earn, and under which fault.
MANNERS = [
    ("good", None, None),
    ("silent", "an allocation fails", "another answer"),
    ("crash", "an allocation fails", "ended by signal 6"),
    ("chatty", "an allocation fails", "not one message"),
    ("leaky", "all allocations fail", "still holds 1 blocks"),
    ("blind", "a read fails", "another answer"),
    ("trusting", "a file shrinks", "another answer"),
    ("impatient", "reads are short", "another answer"),
    ("hasty", "reads are interrupted", "another answer"),
    ("blind", "output has no room", "another answer"),
]


def selftest(suite, patient):
    print(f"1..{len(MANNERS)}")
    failed = 0
    for number, (manners, fault, complaint) in enumerate(MANNERS, 1):
        found = list(suite.command([patient, manners, "testdata/broken/pt-html/checkpoint/model.pt"]))
        if fault is None:
            good = not any(complaints for _, complaints in found)
        else:
            good = any(name.startswith(fault) and any(complaint in c for c in complaints)
                       for name, complaints in found)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {manners} manners {'pass' if fault is None else 'are seen'}")
        for name, complaints in found if not good else []:
            print(f"#   {name}: {complaints[:2]}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--within")
    parser.add_argument("shim")
    parser.add_argument("binary")
    parser.add_argument("numbers", nargs="*", type=int)
    options = parser.parse_intermixed_args()
    suite, binary = Suite(options.shim, options.all, options.within), os.path.abspath(options.binary)
    if options.selftest:
        return 1 if selftest(suite, binary) else 0
    commands = [tried for words in COMMANDS for tried in with_jobs(words)]
    if options.list:
        print(*range(len(commands)), sep="\n")
        return 0
    if options.only:
        commands = [words for words in commands if any(options.only in word for word in words)]
        if not commands:
            parser.error(f"no command has {options.only}")
    if options.numbers:
        commands = [commands[number] for number in options.numbers]
    return 1 if all_commands(suite, binary, commands) else 0


if __name__ == "__main__":
    sys.exit(main())
