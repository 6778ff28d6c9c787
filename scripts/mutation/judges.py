# SPDX-License-Identifier: Apache-2.0
"""The tests that judge mutants: how each is run alone, and which statements it comes to.

Every test is run once in a build with marks (marks.py). What it came to is kept in a file named by a digest of all
that it depends on, so that a change of one test makes that test run again, and a change of the code all of them.
"""

import array
import bisect
import contextlib
import hashlib
import importlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading

import copies
import law
import marks

SUITES = ["unit", "fuzz", "cli", "faults", "oracle"]  # from quick to slow
PINNED, FAULTS = "pinned", "faults"  # tests of many cases, each of which is asked by itself
LEFT_OUT = ("contrib-", "replay-canary")  # what runs no C, and what is to fail
# What no test depends on, or one alone.
APART = ("man/", "debian/", "tests/laws/", "tests/mutants.txt", "scripts/", "NEWS.md", "CONTRIBUTING.md", "tests/unit/")
MEMORY = 8 << 30  # what a mutant may take that never stops asking

BUILDS = {
    "plain": ["--buildtype=debug", "-Dtests=true", "-Dfuzzing=replay"],
    "marked": ["--buildtype=debug", "-Dtests=true", "-Dfuzzing=replay"],
    "dev": ["--native-file", "build-dev.ini", "-Dwerror=false"],
}


def give_up(why):
    print(f"mutate: the tree as it is does not pass: {why[-2000:]}", file=sys.stderr)
    sys.exit(2)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def spent():
    """Seconds of processors that children took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def is_source(path):
    return path.startswith(("lib/", "cli/")) and path.endswith(".c")


def is_for_build(path):
    """Such a file runs while others are built: no test comes to it, and each may see what it made."""
    return os.path.basename(path).startswith("gen-")


# ---- a test

class Test:
    """One test, a pinned run or a command under failing calls. What it came to is known of those of the plain build."""

    def __init__(self, introspected, targets, kind=None, case=None):
        self.argv, self.more = list(introspected["cmd"]), introspected["env"]
        if os.path.basename(self.argv[0]) == "python3":
            self.argv[0] = sys.executable  # a shim of that name takes longer than a test
        self.suite = next(suite.rpartition(":")[2] for suite in introspected["suite"])
        self.name, self.case = f"{kind}/{case}" if kind else f"{self.suite}/{introspected['name']}", case
        self.pinned, self.failing = kind == "pinned", kind == "failing"
        self.targets = [targets[name] for name in introspected["depends"] if name in targets]
        self.tap = introspected["protocol"] == "tap"
        self.seconds, self.marks = 0, array.array("I")

    def driver(self):
        """The module that makes pinned runs."""
        folder = os.path.dirname(self.argv[1])
        if folder not in sys.path:
            sys.path.insert(0, folder)
        return importlib.import_module(os.path.splitext(os.path.basename(self.argv[1]))[0])

    def comes_to(self, mark):
        at = bisect.bisect_left(self.marks, mark)
        return at < len(self.marks) and self.marks[at] == mark


def failure(output, status, tap):
    """None, or what did not pass."""
    text = output.decode("utf-8", "replace")
    results = re.findall(r"^(not )?ok \d+(?: -)? ?(.*)$", text, re.MULTILINE) if tap else []
    for bad, title in results:
        if bad:
            return title.strip()[:60] or "not ok"
    if status not in (0, 77):
        return f"exit status {status}" if status > 0 else f"signal {-status}"
    plan = re.search(r"^1\.\.(\d+)", text, re.MULTILINE) if tap else None
    if tap and (plan is None or int(plan.group(1)) != len(results)):
        return "an early end"
    return None


# ---- a build

class Build:
    """A build of a copy of the tree, in that copy."""

    def __init__(self, kind, tree, environment):
        self.kind, self.tree, self.environment = kind, tree, environment
        self.folder = os.path.join(tree, f"build-{kind}")
        self.slower = 6 if kind == "dev" else 1

    def prepare(self, more=()):
        options, told = [*BUILDS[self.kind], *more], os.path.join(self.folder, "options")
        if not os.path.exists(told) or law.text(self.folder, "options").split("\n") != options:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.quietly(["meson", "setup", self.folder, *options], cwd=self.tree, check=True)
            with open(told, "w", encoding="utf-8") as stream:
                stream.write("\n".join(options))
        said = self.make()
        if said:
            give_up(said)
        found = sorted(self.introspect(), key=lambda test: (SUITES.index(test.suite), test.name))
        self.tests = {test.name: test for test in found}

    def quietly(self, command, **more):
        return subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **more)

    def make(self, targets=()):
        """None, or what the compiler says."""
        done = self.quietly(["ninja", "-C", self.folder, *targets])
        return None if done.returncode == 0 else done.stdout.decode("utf-8", "replace")

    def compiler(self, path):
        """The command that compiles a file of the tree, without what it makes."""
        if not hasattr(self, "commands"):
            with open(os.path.join(self.folder, "compile_commands.json"), encoding="utf-8") as stream:
                self.commands = {os.path.normpath(os.path.join(one["directory"], one["file"])): one["command"]
                                 for one in json.load(stream)}
        words = shlex.split(self.commands[os.path.join(self.tree, path)])
        return words[:words.index("-MD")] if "-MD" in words else words[:words.index("-o")]

    def introspect(self):
        def told(what):
            said = subprocess.run(["meson", "introspect", what, self.folder], stdout=subprocess.PIPE, check=True)
            return json.loads(said.stdout)

        targets = {one["id"]: os.path.relpath(one["filename"][0], self.folder) for one in told("--targets")}
        for one in told("--tests"):
            if not any(suite.rpartition(":")[2] in SUITES for suite in one["suite"]) or one["name"].startswith(LEFT_OUT):
                continue
            kind = {PINNED: "pinned", FAULTS: "failing"}.get(one["name"])
            if not kind:
                yield Test(one, targets)
                continue
            said = subprocess.run([*one["cmd"][:2], "--list", *one["cmd"][2:]], stdout=subprocess.PIPE, check=True)
            for case in said.stdout.decode().splitlines():
                yield Test(one, targets, kind, case)

    def within(self, function):
        """The option of failing calls that fails those made within a function of the program."""
        if not hasattr(self, "code"):
            said = subprocess.run(["nm", "-S", os.path.join(self.folder, "cli", "fsdp-inspect")], stdout=subprocess.PIPE,
                                  check=True)
            rows = [line.split() for line in said.stdout.decode().splitlines()]
            self.code = {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tT"}
        begin, size = self.code[function]
        return f"--within={begin:x}-{begin + size:x}"

    def run(self, tests, *options):
        """(None or the name of a test that fails and why, seconds of processors). Several tests are pinned runs."""
        seconds = sum(test.seconds for test in tests) * self.slower

        def bounds():
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]  # a test may set more for what it runs
            if seconds:  # of one process: more is a hang, unless it is run for the first time
                resource.setrlimit(resource.RLIMIT_CPU, (int(10 + 20 * seconds), hard))
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # of a job in the background it is ignored, and tests send it
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if self.kind != "dev":
                resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

        before, test = spent(), tests[0]
        child = subprocess.Popen(
            test.argv + [*options] + [one.case for one in tests if one.case], cwd=self.folder, env={**self.environment, **test.more},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=bounds)

        def end():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

        late, output = threading.Timer(600 + 100 * seconds if seconds else 3600, end), []
        late.start()
        for line in child.stdout:
            output.append(line)
            if test.tap and line.startswith(b"not ok"):
                break  # the others may wait for what never comes
        else:
            child.wait()
        late.cancel()
        end()
        said = failure(b"".join(output), child.wait(), test.tap)
        return said and (f"pinned/{said}" if test.pinned else f"{test.name} ({said})"), spent() - before

    def run_here(self, test):
        """The same of a pinned run, which takes less time than to start its driver."""
        driver, before = self.tests[test.name].driver(), spent()
        case = dict((driver.name_of(*pair), pair[1]) for pair in driver.cases())[test.case]
        said = driver.difference(case, driver.run(os.path.join(self.folder, test.argv[2]), case, False))
        return "\n".join(said), spent() - before


# ---- what they come to

class Workplace:
    """Two copies of the tree: one to break, one with marks."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.tree = os.path.join(folder, "tree")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        larger = os.path.join(os.path.dirname(root), "shared", "fixtures")
        if "FSDP_FIXTURES" not in environment and os.path.isdir(larger):
            environment["FSDP_FIXTURES"] = larger
        if "CC" not in environment and shutil.which("ccache"):
            environment["CC"] = "ccache cc"
        self.copy(self.tree, lambda path, content: content)
        self.plain, self.dev = (Build(kind, self.tree, environment) for kind in ("plain", "dev"))
        self.marked = Build("marked", os.path.join(folder, "marked"), environment)
        self.file = os.path.join(folder, "marks")
        paths = [path for path in law.tracked(self.tree) if is_source(path)]
        self.files = {path: marks.File(marks.ROOM * i, law.text(self.tree, path)) for i, path in enumerate(paths)}
        self.choice = os.path.join(folder, "chosen")
        self.bytes = -(-marks.ROOM * len(paths) // 65536) * 65536

    def copy(self, tree, change):
        """The tree as it is now; what is the same is left alone."""
        paths = law.tracked(self.root)
        for path in paths:
            target, content = os.path.join(tree, path), change(path, read(os.path.join(self.root, path)))
            if not os.path.isfile(target) or read(target) != content:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as stream:
                    stream.write(content)
                shutil.copymode(os.path.join(self.root, path), target)
        for path in set(law.tracked(tree)) - set(paths):
            os.remove(os.path.join(tree, path))

    def linked(self, source, *defined):
        """The option of meson that links what this file of C defines to all there is."""
        target = os.path.join(self.folder, os.path.splitext(os.path.basename(source))[0] + ".o")
        subprocess.run(["cc", "-fPIC", *(f"-D{one}" for one in defined), "-c", source, "-o", target], check=True)
        return f"-Dc_link_args={target}"

    def prepare(self, builds):
        self.choose(0)
        option = self.linked(os.path.splitext(copies.HEADER)[0] + ".c", f'CHOSEN_FILE="{self.choice}"')
        for build in builds:
            build.prepare([option])

    def choose(self, number):
        with open(self.choice, "w", encoding="ascii") as stream:
            stream.write(f"{number}\n")

    def compiles(self, mutant):
        """Whether its file does, without a warning."""
        beside = f"{mutant.path}.broken.c"
        self.put(beside, mutant.broken())
        command = [*self.plain.compiler(mutant.path), "-Werror", "-fsyntax-only", os.path.join(self.tree, beside)]
        done = self.plain.quietly(command, cwd=self.plain.folder)
        os.remove(os.path.join(self.tree, beside))
        return done.returncode == 0

    def copy_broken(self, builds, mutants):
        """Numbers those that can have a copy, and builds the copies."""
        for number, mutant in enumerate(mutants, 1):
            if not is_for_build(mutant.path) and copies.function_at(mutant.source, mutant.offset):
                mutant.chosen = number
        for path in {mutant.path for mutant in mutants}:
            numbered = [mutant for mutant in mutants if mutant.path == path and mutant.chosen is not None]
            if numbered:
                self.put(path, copies.with_copies(numbered[0].source, numbered))
        for build in builds:
            said = build.make()
            if said:
                give_up(said)

    @contextlib.contextmanager
    def broken(self, mutant):
        """Within it the mutant is what runs, or what is to be built."""
        if mutant.chosen is None:
            kept = law.text(self.tree, mutant.path)
            self.put(mutant.path, mutant.broken())
            yield
            self.put(mutant.path, kept)
        else:
            self.choose(mutant.chosen)
            yield
            self.choose(0)

    @contextlib.contextmanager
    def whole(self, mutant):
        """Within broken: nothing is."""
        if mutant.chosen is None:
            self.put(mutant.path, mutant.source)
            yield
            self.put(mutant.path, mutant.broken())
        else:
            self.choose(0)
            yield
            self.choose(mutant.chosen)

    def put(self, path, source):
        with open(os.path.join(self.tree, path), "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(source)

    def digests(self):
        """Digest of what all tests depend on, and of what only one does: name of the test -> digest."""
        common, own = hashlib.sha256(), {}
        for path in law.tracked(self.tree):
            content = read(os.path.join(self.tree, path))
            if path.startswith("tests/pinned/") and path.endswith(".txt"):
                command = os.path.basename(path)[:-len(".txt")]
                for case in content.split(b"\n# "):
                    title = case.split(b"\n")[0].removeprefix(b"# ").decode()
                    own[f"pinned/{command}: {title}"] = hashlib.sha256(case)
            elif path.startswith("tests/unit/test-"):
                name = f"unit/{os.path.basename(path)[5:-2]}"
                own.setdefault(name, hashlib.sha256()).update(path.encode() + b"\0" + content)
            elif not path.startswith(APART):
                common.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
        return common.hexdigest(), {name: digest.hexdigest() for name, digest in own.items()}

    def learn(self, tests):
        """Runs each of these tests with marks, if nobody did before."""
        common, own = self.digests()
        kept = os.path.join(self.folder, "learned")
        os.makedirs(kept, exist_ok=True)
        unknown = []
        for test in tests:
            name = hashlib.sha256(f"{common} {test.name} {own.get(test.name)}".encode()).hexdigest()
            path = os.path.join(kept, name)
            if not os.path.exists(path):
                unknown.append((test, path))
                continue
            head, _, rest = read(path).partition(b"\n")
            test.seconds = float(head)
            test.marks.frombytes(rest)
        if not unknown:
            return
        print(f"learning what {len(unknown)} tests come to", flush=True)
        self.build_marked()
        for test, path in unknown:
            self.learn_one(test)
            with open(path + ".new", "wb") as stream:
                stream.write(f"{test.seconds}\n".encode() + test.marks.tobytes())
            os.replace(path + ".new", path)

    def build_marked(self):
        def change(path, content):
            return self.files[path].text(law.text(self.root, path)).encode("utf-8", "surrogateescape") \
                if path in self.files else content

        self.copy(self.marked.tree, change)
        option = self.linked(os.path.splitext(marks.HEADER)[0] + ".c", f'MARKS_FILE="{self.file}"',
                             f"MARKS_BYTES={self.bytes}")
        if os.path.exists(self.file):
            os.remove(self.file)  # what is built with marks runs while others are built
        self.marked.prepare([option])

    def learn_one(self, test):
        with open(self.file, "wb") as stream:
            stream.truncate(self.bytes)
        said, test.seconds = self.marked.run_here(test) if test.pinned else self.marked.run([self.marked.tests[test.name]])
        if said:
            give_up(said)
        test.marks = array.array("I", (found.start() for found in re.finditer(b"\1", read(self.file))))
