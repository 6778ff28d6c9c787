# SPDX-License-Identifier: Apache-2.0
"""What the oracle tests share: samples, runs of the program, TAP.

Finds samples and runs a program under bounds. What an answer means is each test's own
business.

Every test takes --bin PROGRAM --data DIR..., prints TAP, and skips what it cannot judge.
A sample is a folder with `expected/` in it, or a plan with PyTorch's text beside it; the
environment's FSDP_FIXTURES names a further, larger collection. A test of PyTorch is run by
each Python of FSDP_PYTHONS, with colons between, if that is set: releases behave differently.
"""
import argparse
import collections
import concurrent.futures
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import warnings
from decimal import Decimal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import serving  # noqa: E402

TORCH = ("2.13.", "2.15.")
# Folders of the larger collection whose samples are read and judged.
FAMILIES = ("broken", "dcp", "eco", "fsdp1", "fsdp2", "runs", "torch-zip")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SANITIZER_MARKS = (b"AddressSanitizer", b"LeakSanitizer", b"runtime error:", b"UndefinedBehavior",
                   b"MemorySanitizer", b"ThreadSanitizer")


# ---- recordings

def nanoseconds(value):
    """Of microseconds, exact."""
    return int(Decimal(str(value)) * 1000)


def trace_events(path):
    """What a trace of Kineto holds, packed or not; times are exact."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        data = json.load(f, parse_float=Decimal)
    return [e for e in (data if isinstance(data, list) else data["traceEvents"]) if isinstance(e, dict)]


# ---- TAP

class Tap:
    """Prints a result a line and the plan at the end."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    @staticmethod
    def _plain(text):
        return str(text).encode("unicode_escape").decode().replace("#", "\\#")

    def ok(self, good, name, problems=()):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {self._plain(name)}")
        if not good:
            problems = list(problems)
            for line in problems[:12]:
                print(f"#   {self._plain(line)[:600]}")
            if len(problems) > 12:
                print(f"#   and {len(problems) - 12} more")
        sys.stdout.flush()

    def none(self, name, problems):
        """Passes when there are no problems."""
        self.ok(not problems, name, problems)

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {self._plain(name)} # SKIP {reason}")

    def done(self):
        if self.count:
            print(f"1..{self.count}")
        else:
            print("1..0 # SKIP no samples")
        sys.exit(0)


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def find_torch(*older):
    """(the PyTorch that the samples came from, or an older one, quiet and on one thread, None), or (None, why it is not there)."""
    releases = (*older, *TORCH)
    warnings.filterwarnings("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        import torch
        import torch.distributed
    except ImportError:
        return None, "no torch"
    if not torch.__version__.startswith(releases):
        return None, f"torch is {torch.__version__.split('+')[0]}, the tests are of {' and '.join(releases)}"
    return torch, None


def run_in_each(pythons):
    """The test by each of these Pythons, as one."""
    count, failed = 0, False
    for python in pythons:
        run = subprocess.run([python, *sys.argv], env={**os.environ, "FSDP_PYTHONS": ""}, stdout=subprocess.PIPE, text=True)
        for line in run.stdout.splitlines():
            found = re.fullmatch(r"((?:not )?ok) \d+ - (.*)", line)
            count += found is not None
            if not line.startswith("1.."):
                print(f"{found[1]} {count} - {python}: {found[2]}" if found else line)
        failed |= run.returncode != 0
    print(f"1..{count}" if count else "1..0 # SKIP no Python with torch")
    sys.exit(failed)


def wanted_torch(*older):
    """What find_torch finds; without it the whole test is skipped."""
    pythons = list(filter(None, os.environ.get("FSDP_PYTHONS", "").split(":")))
    if pythons:
        run_in_each(pythons)
    torch, missing = find_torch(*older)
    return torch or skip_all(missing)


# ---- arguments and samples

def arguments(doc, leaks=False, **extra):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--data", nargs="*", default=[], metavar="DIR")
    parser.add_argument("--only", help="samples whose name contains this")
    for name, default in extra.items():
        parser.add_argument("--" + name, default=default)
    args = parser.parse_args()
    args.bin = os.path.abspath(args.bin)
    args.served = f"{os.sep}tests{os.sep}server{os.sep}" in args.bin
    if args.served and not leaks:
        # Half of what a short run costs; pinned runs and hostile samples look for leaks.
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
    if not os.access(args.bin, os.X_OK):
        skip_all(f"no program at {args.bin}")
    larger = os.environ.get("FSDP_FIXTURES")
    if larger is None:
        larger = os.path.join(os.path.dirname(SOURCE), "shared", "fixtures")
    args.fixtures = os.path.abspath(larger) if larger and os.path.isdir(larger) else None
    args.roots = [os.path.abspath(d) for d in args.data if os.path.isdir(d)]
    if args.fixtures:
        args.roots.append(args.fixtures)
    return args


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Case:
    """A sample: its folder, its name (family/case) and what is expected of it."""

    def __init__(self, root, folder, expected):
        self.folder = folder
        self.expected = expected
        self.name = "/".join(os.path.relpath(folder, root).split(os.sep)[-2:])
        self.family = self.name.split("/")[0]
        self.short = self.name.split("/")[-1]

    def has(self, name):
        return os.path.exists(os.path.join(self.expected, name))

    def file(self, name):
        return os.path.join(self.expected, name)

    def load(self, name):
        return load(self.file(name))

    def checkpoint(self, truth=None):
        """The file or folder to be inspected; None if the sample is a plan alone."""
        tries = []
        if truth and truth.get("file"):
            tries = [os.path.join(self.folder, truth["file"]),
                     os.path.join(self.folder, "checkpoint", truth["file"])]
        tries += [os.path.join(self.folder, "checkpoint"), os.path.join(self.folder, "model.pt")]
        return next((t for t in tries if os.path.exists(t)), None)


def cases(args):
    """Every sample once, in order of names; the roots given first win. Of the larger collection, the families
    that the program reads: a new one there waits until its tests name it here."""
    seen = {}
    for root in args.roots:
        for folder, below, files in os.walk(root):
            if folder == args.fixtures:
                below[:] = [d for d in below if d in FAMILIES]
            expected = os.path.join(folder, "expected") if "expected" in below else folder
            if expected != folder or "tree.torch.txt" in files:
                case = Case(root, folder, expected)
                if args.only is None or args.only in case.name:
                    seen.setdefault(case.name, case)
                below[:] = []
            else:
                below[:] = sorted(d for d in below if not d.startswith(".") and d != "hostile")
    return [seen[name] for name in sorted(seen)]


def told_cases(args):
    """(sample, truth) of every one whose tensors were taken from live ones."""
    for case in cases(args):
        if case.has("truth.json"):
            yield case, case.load("truth.json")


def truths(args, kind):
    """The folders of traces/KIND that hold a truth.json, in order of names: of the larger collection alone if it
    is there, since that holds what the others do."""
    found = []
    for root in args.roots[-1:] if args.fixtures else args.roots:
        folder = os.path.join(root, "traces", kind)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if os.path.exists(os.path.join(folder, name, "truth.json")) and (args.only or "") in name:
                found.append(os.path.join(folder, name))
    return found


def first_case(args, names):
    """The first of these samples that is here."""
    here = {c.name: c for c in cases(args)}
    return next((here[n] for n in names if n in here), None)


# ---- running

class Run:
    """One finished run."""

    def __init__(self, argv, status, out, err, usage):
        self.argv, self.status, self.out, self.err = argv, status, out, err
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss << 10

    @property
    def words(self):
        return " ".join(os.path.basename(self.argv[0]) if i == 0 else repr(a)[1:-1][-90:]
                        for i, a in enumerate(self.argv))

    @property
    def crash(self):
        """Why this was no orderly end, or None."""
        if self.status is None:
            return f"{self.words}: did not end in time"
        if self.status < 0:
            return f"{self.words}: ended by signal {-self.status}: {self.tail}"
        if any(mark in self.err for mark in SANITIZER_MARKS):
            return f"{self.words}: sanitizer report: {self.tail}"
        if self.status > 3:
            return f"{self.words}: exit status {self.status}: {self.tail}"
        return None

    @property
    def tail(self):
        text = self.err.decode("utf-8", "replace")
        for mark in ("runtime error:", "ERROR: "):
            if mark in text:
                return text[max(0, text.index(mark) - 80):][:300]
        return text[-300:]

    def json(self):
        return strict_json(self.out)


def strict_json(data):
    """Refuses invalid UTF-8, duplicate keys, NaN and infinities."""
    def pairs(items):
        out = dict(items)
        if len(out) != len(items):
            raise ValueError("duplicate key in " + ", ".join(k for k, _ in items)[:200])
        return out

    def constant(name):
        raise ValueError(name + " in JSON")
    return json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)


def environment(**more):
    keep = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "GCOV_PREFIX")
    env = {k: os.environ[k] for k in keep if k in os.environ}
    env.update(LC_ALL="C.UTF-8", TERM="dumb")
    env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":exitcode=99"
    env["UBSAN_OPTIONS"] = os.environ.get("UBSAN_OPTIONS", "") + ":print_stacktrace=1"
    env.update(more)
    return env


def run(args, *words, stdin=None, cwd=None, timeout=900, cpu=None, stack=None, env=None):
    """Runs the program. stdin: bytes or an open file. cpu: seconds; stack: bytes."""
    argv = [args.bin] + [os.fsdecode(w) if isinstance(w, bytes) else str(w) for w in words]
    limits = {resource.RLIMIT_CORE: (0, 0)}
    if cpu:
        limits[resource.RLIMIT_CPU] = (cpu, cpu + 1)
    if stack:
        limits[resource.RLIMIT_STACK] = (stack, stack)

    def bounds():
        for limit, ends in limits.items():
            resource.setrlimit(limit, ends)

    with memory_file() as out, memory_file() as err, memory_file() as given:
        if isinstance(stdin, bytes):
            given.write(stdin)
            given.seek(0)
        streams = (stdin if stdin and not isinstance(stdin, bytes) else given, out, err)
        env = env or environment()
        if args.served:
            status, usage = serving.serve(args.bin, argv, [stream.fileno() for stream in streams], cwd or ".", timeout, limits, env)
        else:
            child = subprocess.Popen(argv, stdin=streams[0], stdout=out, stderr=err, cwd=cwd, env=env, preexec_fn=bounds)
            status, usage = wait(child, timeout)
        out.seek(0)
        err.seek(0)
        return Run(argv, status, out.read(), err.read(), usage)


def memory_file():
    return open(os.memfd_create("oracle"), "w+b", buffering=0)


def wait(child, timeout):
    """(status or None when it had to be killed, rusage)"""
    late = []
    timer = threading.Timer(timeout, lambda: (late.append(True), child.kill()))
    timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
    finally:
        timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return (None if late else child.returncode), usage


# ---- what an input may cost

class Bounds:
    """Work and memory follow the input as it is given: 2 seconds of CPU for each MB, at least 2; and
    64 MiB with ten bytes for each of its own.

    A sanitizer makes a program about ten times slower, and its memory says nothing."""

    SLOWER = 12

    def __init__(self, args):
        with open(args.bin, "rb") as f:
            self.sanitized = args.served or b"__asan_init" in f.read()

    def cpu(self, path):
        seconds = max(2, 2 * given_bytes(path) / 1e6)
        return int(seconds * (self.SLOWER if self.sanitized else 1)) + 1

    def problems(self, run_, path):
        if run_.cpu > self.cpu(path):
            yield f"{run_.words}: {run_.cpu:.1f} s of CPU"
        if not self.sanitized and run_.memory > (64 << 20) + 10 * given_bytes(path):
            yield f"{run_.words}: {run_.memory >> 20} MiB of memory"


def given_bytes(path):
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(os.lstat(os.path.join(d, n)).st_size for d, _, files in os.walk(path) for n in files)


def copy_tree(source, folder, **options):
    """A copy that may be written in, also of a directory that may not."""
    shutil.copytree(source, folder, **options)
    for below, _, files in os.walk(folder):
        os.chmod(below, 0o755)
        for name in files:
            if not os.path.islink(os.path.join(below, name)):
                os.chmod(os.path.join(below, name), 0o644)
    return folder


def thinned(items, kind, every):
    """Of each kind the first item, and every n-th: from one kind to the next another."""
    counts, places = collections.Counter(), {}
    for item in items:
        found = kind(item)
        place = places.setdefault(found, len(places))
        if counts[found] == 0 or (counts[found] + place) % every == 0:
            yield item
        counts[found] += 1


def in_parallel(work, items, workers=2):
    """work(item) for each, two at a time; results in order."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def envelope(run_, problems, statuses=(0,), need_data=True):
    """The JSON document of a run, or None with the reason among the problems."""
    if run_.crash:
        problems.append(run_.crash)
        return None
    if run_.status not in statuses:
        problems.append(f"{run_.words}: exit status {run_.status}: {run_.tail}")
    try:
        doc = run_.json()
    except ValueError as e:
        problems.append(f"{run_.words}: stdout is no JSON: {e}; stderr: {run_.tail}")
        return None
    if need_data and not isinstance(doc.get("data"), dict):
        problems.append(f"{run_.words}: no data: {doc.get('errors')}")
        return None
    return doc


def same(problems, what, found, expected):
    if found != expected or type(found) is not type(expected):
        problems.append(f"{what}: found {found!r}, expected {expected!r}")


def clean(name):
    """clean_tensor_name of PyTorch."""
    return name.replace("_fsdp_wrapped_module.", "").replace("_checkpoint_wrapped_module.", "")


def clean_module(name):
    """The same for the name of a module: segments go with their dot."""
    return clean(name + ".")[:-1] if name else name


# Keys of a truth that has no bytes of its own, or lists them under other names.
NO_TENSOR = ("layout", "sha256_of")


def whole_parameters(truth, plan):
    """Tensors of a truth; with a plan the original parameters of a flattened one too, which only the plan knows."""
    tensors = list(truth["tensors"])
    if plan:
        known = {t["fqn"] for t in tensors}
        live = truth.get("live_full_state_sha256") or {}
        tensors += [{"fqn": name, "sha256": digest} for name, digest in live.items() if name not in known]
    return tensors


def product(numbers):
    out = 1
    for n in numbers:
        out *= n
    return out


def contiguous(shape):
    """Strides in C order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]
