# SPDX-License-Identifier: Apache-2.0
"""mutate.py ROOT FOLDER [--quick] [--at=FILE:LINE[-LINE] | --rows[=PATH]] [N [SEED]]: what scripts/mutate runs.

Knows the tokens of C, how a tree is copied, built and tested, and which tests are quick.
Knows no type: what does not compile is no mutant, and another takes its place.
"""

import argparse
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "laws"))

import law
from ctokens import bodies, tokens

EQUIVALENT = "tests/mutants.txt"
WANTED = 0.9  # of the mutants are noticed

# ---- tokens

INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)")
SWAPPED = {
    "&&": "||", "||": "&&", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "++": "--", "--": "++",
}
STATEMENTS = {"return", "sizeof", "case", "else", "do"}

# ---- mutants

class Mutant:
    """One change of one file: edits are (begin, end, text)."""

    def __init__(self, path, source, edits, shown):
        self.path, self.source, self.edits = path, source, edits
        first, last = shown
        self.number = source.count("\n", 0, edits[0][0]) + 1
        self.line = source.split("\n")[self.number - 1].strip()
        self.change = f"{squeeze(source[first:last])} -> {squeeze(apply(source, edits, first, last))}"

    def key(self):
        return self.path, self.line, self.change

    def broken(self):
        return apply(self.source, self.edits, 0, len(self.source))

    def __str__(self):
        return f"{self.path}:{self.number}  {self.change}"


def squeeze(text):
    return " ".join(text.split())


def apply(source, edits, first, last):
    """source[first:last] with the edits that begin in it."""
    out, at = [], first
    for begin, end, text in edits:
        if begin < last:
            out += [source[at:begin], text]
            at = end
    return "".join(out + [source[at:last]])


def declares_array(before):
    """These tokens end in `type name [`, and what follows is a size."""
    if len(before) < 3 or before[-1].text != "[" or before[-2].kind != "word":
        return False
    kind = before[-3]
    return kind.text == "*" or (kind.kind == "word" and kind.text not in STATEMENTS)


def partner(all_tokens, i, step=1):
    """The bracket that belongs to token i, which is one."""
    brackets, depth = {"(": "()", ")": "()", "{": "{}", "}": "{}"}[all_tokens[i].text], 0
    while True:
        if all_tokens[i].kind == "sign" and all_tokens[i].text in brackets:
            depth += 1 if all_tokens[i].text == brackets[0] else -1
        if depth == 0:
            return i
        i += step


def ends_switch(all_tokens, i):
    """Whether token i closes the braces of a switch: nothing follows that a break would pass over."""
    if all_tokens[i].text != "}":
        return False
    head = partner(all_tokens, i, -1) - 1
    return all_tokens[head].text == ")" and all_tokens[partner(all_tokens, head, -1) - 1].text == "switch"


def variants(source, all_tokens, i):
    """(edits, shown) of each way to break token i."""
    token, before, after = all_tokens[i], all_tokens[i - 1], all_tokens[i + 1]
    here, around = (token.begin, token.end), (before.begin, after.end)
    integer = INTEGER.fullmatch(token.text)
    if token.kind == "sign" and token.text in SWAPPED:
        yield [(*here, SWAPPED[token.text])], around
    elif token.kind == "sign" and token.text == "!":
        yield [(*here, "")], (token.begin, after.end)
    elif token.text in ("true", "false") and before.text == "return":
        yield [(*here, "false" if token.text == "true" else "true")], around
    elif token.text in ("continue", "break") and after.text == ";" and not ends_switch(all_tokens, i + 2):
        yield [(*here, "")], (token.begin, after.end)
    elif token.kind == "number" and integer and not declares_array(all_tokens[:i]):
        digits, suffix = integer.groups()
        if digits[1:2] in ("x", "X"):
            more = f"0x{int(digits, 16) + 1:x}"
        elif digits[0] == "0" and len(digits) > 1:
            more = f"0{int(digits, 8) + 1:o}"
        else:
            more = str(int(digits) + 1)
        yield [(*here, more + suffix)], around
    elif token.text == "if" and after.text == "(":
        end = all_tokens[partner(all_tokens, i + 1)]
        for sign in ("1 ||", "0 &&"):
            yield [(after.begin, after.end, f"({sign} ("), (end.begin, end.begin, ")")], (token.begin, after.end)


def mutants_of(path, source):
    """The mutants of each token that has any. Tables, types and prototypes have none."""
    all_tokens = tokens(source)
    for i in bodies(all_tokens):
        found = [Mutant(path, source, edits, shown) for edits, shown in variants(source, all_tokens, i)]
        if found:
            yield found


def sources(root):
    return [path for path in law.tracked(root) if path.startswith(("lib/", "cli/")) and path.endswith(".c")]


def at(root, place):
    """All mutants of FILE:LINE or FILE:LINE-LINE."""
    path, _, lines = place.rpartition(":")
    first, _, last = lines.partition("-")
    for some in mutants_of(path, law.text(root, path)):
        for mutant in some:
            if int(first) <= mutant.number <= int(last or first):
                yield mutant


def chosen(root, seed):
    """All mutants in an order that the seed decides: each token once, and as likely as the others."""
    chance = random.Random(seed)
    found = [some for path in sources(root) for some in mutants_of(path, law.text(root, path))]
    chance.shuffle(found)
    for some in found:
        yield chance.choice(some)


# ---- rows of tables

def tables(all_tokens):
    """Pairs of tokens: the braces around the rows of each static const array."""
    for i, token in enumerate(all_tokens):
        if token.text != "{" or all_tokens[i - 1].text != "=":
            continue
        begin = i - 1
        while begin > 0 and all_tokens[begin].text not in (";", "{", "}"):
            begin -= 1
        if all_tokens[begin].text == "}":  # of a type without a name
            first = partner(all_tokens, begin, -1)
            begin = first - 3 if all_tokens[first - 1].text in ("struct", "union") else begin
        words = {t.text for t in all_tokens[begin:i]}
        if {"static", "const", "["} <= words:
            yield i, partner(all_tokens, i)


def rows_of(path, source):
    """A mutant for each row of each table: the table without it. A table of one row would be empty, which is no C."""
    all_tokens = tokens(source)
    for first, last in tables(all_tokens):
        begins, depth = [first + 1], 0
        for i in range(first + 1, last):
            depth += (all_tokens[i].text in "({[") - (all_tokens[i].text in ")}]") if all_tokens[i].kind == "sign" else 0
            if depth == 0 and all_tokens[i].text == "," and i + 1 < last:
                begins.append(i + 1)
        for i, end in zip(begins, [*begins[1:], last] if len(begins) > 1 else []):
            here = (all_tokens[i].begin, all_tokens[end].begin)
            if all_tokens[i].text != "NULL":  # which ends a table
                yield Mutant(path, source, [(*here, "")], here)


def rows(root, below):
    for path in sources(root):
        if path.startswith(below):
            yield from rows_of(path, law.text(root, path))


# ---- what was looked at

def equivalent(root):
    """Key of each listed mutant -> why it changes nothing. A paragraph of the list is `FILE: LINE`,
    the change, and the reason."""
    found = {}
    for paragraph in law.text(root, EQUIVALENT).split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines() if not line.startswith("#")]
        if lines:
            place, change, *why = lines
            path, _, line = place.partition(": ")
            found[path, line, change] = " ".join(why)
    return found


def complaints(root):
    """What is wrong with the list."""
    listed = equivalent(root)
    here = {mutant.key() for path in {key[0] for key in listed} & set(sources(root))
            for some in mutants_of(path, law.text(root, path)) for mutant in some}
    for key, why in listed.items():
        if key not in here:
            yield f"there is no {key[2]} in {key[0]}: {key[1]}"
        elif not why:
            yield f"no reason for {key[2]} in {key[0]}"


# ---- building and testing

class Stage:
    """Tests of one build. `seconds` is what one process may compute: more is a hang."""

    def __init__(self, build, suites, seconds, targets=(), only=None, but=()):
        self.build, self.suites, self.seconds = build, suites, seconds
        self.targets, self.only, self.but = targets, only, but

    def tests(self, introspected, path):
        for test in introspected:
            name, suites = test["name"], {suite.rpartition(":")[2] for suite in test["suite"]}
            if suites & set(self.suites) and (not self.only or name in self.only) and name not in self.but \
                    and reaches(name, suites, path):
                yield name


BUILDS = {
    "plain": ["--buildtype=debug", "-Dwerror=true", "-Dtests=true"],
    "dev": ["--native-file", "build-dev.ini"],
}
# From quick to slow. Answers are compared in the plain build; what the sanitizers must see is tried
# in the other.
QUICK = 2
STAGES = [
    Stage("plain", ["cli"], 30, targets=["cli/fsdp-inspect"], only=["goldens"]),
    Stage("plain", ["unit", "cli"], 60, but=["goldens"]),
    Stage("dev", ["unit", "fuzz", "cli"], 120),
    Stage("plain", ["oracle"], 300),
    Stage("plain", ["faults"], 60),
    Stage("dev", ["oracle"], 300, only=["hostile"]),
]


# What is to notice that a row of a table is gone: those who know what is found. Others take long and know no more.
JUDGES = ["affected", "applies", "audit", "compare", "complete-config", "complete-packed", "complete-stacks", "complete-words", "hf-settings", "kind", "loaders",
          "make-up", "optimizer", "overview", "replicas", "reshard", "shares", "sparse", "stands-for", "states", "sums", "unseen", "verify", "verify-data",
          "verify-values", "waste", "wrapped"]
ROW_STAGES = [
    Stage("plain", ["unit"], 60, only=JUDGES,
          targets=["cli/fsdp-inspect", "tests/oracle/oracle-audit-dump", *(f"tests/unit/test-{name}" for name in JUDGES)]),
    Stage("plain", ["oracle"], 120, only=["complete", "verdicts", "defects", "packed"], targets=["cli/fsdp-inspect"]),
    Stage("plain", ["cli"], 30, only=["goldens"], targets=["cli/fsdp-inspect"]),
]


# A test cannot notice what it does not come to: files that only read recordings, or only checkpoints,
# and the tests that have recordings among their samples.
RECORDINGS = ("lib/trace/", "lib/recording.c", "cli/cmd/order/", "cli/cmd/replay/")
CHECKPOINTS = ("lib/format/", "lib/model/", "lib/sweep/", "lib/analysis/")
WITH_RECORDINGS = {"hostile", "recorders", "schemas", "traces"}
RECORDINGS_ONLY = {"recorders", "traces"}
LOCKS = {"sandbox", "signals"}


def reaches(test, suites, path):
    """Whether it can come to that file, or to any if there is no path."""
    if test.startswith("contrib-"):
        return False
    if test in LOCKS:
        return path.startswith("cli/run/") or not path
    if "oracle" not in suites or not path:
        return True
    if path.startswith(RECORDINGS):
        return test in WITH_RECORDINGS
    return test not in RECORDINGS_ONLY or not path.startswith(CHECKPOINTS)


class Workplace:
    def __init__(self, root, folder):
        self.root, self.folder, self.tree = root, folder, os.path.join(folder, "tree")
        self.environment = dict(os.environ)
        larger = os.path.join(os.path.dirname(root), "shared", "fixtures")
        if "FSDP_FIXTURES" not in self.environment and os.path.isdir(larger):
            self.environment["FSDP_FIXTURES"] = larger
        if "CC" not in self.environment and shutil.which("ccache"):
            self.environment["CC"] = "ccache cc"

    def copy(self):
        """The tree as it is now; what is the same is left alone. Returns a digest of it all."""
        digest, paths = hashlib.sha256(), law.tracked(self.root)
        for path in paths:
            target = os.path.join(self.tree, path)
            content = read(os.path.join(self.root, path))
            digest.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
            if not os.path.isfile(target) or read(target) != content:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(os.path.join(self.root, path), target)
                os.utime(target)
        for path in set(law.tracked(self.tree)) - set(paths):
            os.remove(os.path.join(self.tree, path))
        return digest.hexdigest()

    def build_folder(self, build):
        return os.path.join(self.folder, build)

    def prepare(self, builds):
        """Builds of the tree as it is."""
        self.introspected = {}
        for build in builds:
            folder = self.build_folder(build)
            if not os.path.exists(os.path.join(folder, "build.ninja")):
                self.quietly(["meson", "setup", folder, self.tree, *BUILDS[build]], cwd=self.tree, check=True)
            said = self.make(build)
            if said:
                give_up(said)
            said = subprocess.run(["meson", "introspect", "--tests", folder], stdout=subprocess.PIPE, check=True)
            self.introspected[build] = json.loads(said.stdout)

    def quietly(self, command, **more):
        return subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **more)

    def make(self, build, targets=()):
        """None, or what the compiler says."""
        done = self.quietly(["ninja", "-C", self.build_folder(build), *targets])
        return None if done.returncode == 0 else done.stdout.decode("utf-8", "replace")

    def tests_of(self, stage, path=""):
        """Those that can come to this file, or all."""
        return list(stage.tests(self.introspected[stage.build], path))

    def run(self, stage, names, wall=None):
        """None, or the first test that fails."""
        folder = self.build_folder(stage.build)
        log = os.path.join(folder, "meson-logs", "testlog.json")
        if os.path.exists(log):
            os.remove(log)

        def bounds():
            resource.setrlimit(resource.RLIMIT_CPU, (stage.seconds, stage.seconds + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        child = subprocess.Popen(
            ["meson", "test", "-C", folder, "--no-rebuild", "--maxfail=1", *names], env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=bounds)
        try:
            status = child.wait(wall)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGTERM)  # meson ends its tests
            child.wait()
            return "no end"
        return None if status == 0 else failure(log)

    def put(self, path, source):
        with open(os.path.join(self.tree, path), "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(source)


def give_up(why):
    print(f"mutate: the tree as it is does not pass: {why[-2000:]}", file=sys.stderr)
    sys.exit(2)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def failure(path):
    """The first test that did not pass, and its first subtest that did not."""
    try:
        lines = read(path).decode("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        return "meson"
    for test in map(json.loads, lines):
        if test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL"):
            name = test["name"].rpartition("/")[2].strip()
            inner = re.search(r"^not ok \d+ -? ?(.*)", test.get("stdout", ""), re.MULTILINE)
            return f"{name} ({inner.group(1)[:60]})" if inner else f"{name} ({test['result'].lower()})"
    return "meson"


def unmutated(place, digest, stages):
    """Seconds that each stage takes. What passed once is not tried again."""
    passed = os.path.join(place.folder, "passed.json")
    known = json.loads(read(passed)) if os.path.exists(passed) else {}
    seconds = known["seconds"] if known.get("digest") == digest else []
    for stage in stages[len(seconds):]:
        begin = time.monotonic()
        said = place.run(stage, place.tests_of(stage))
        if said:
            give_up(said)
        seconds.append(time.monotonic() - begin)
    with open(passed, "w", encoding="utf-8") as stream:
        json.dump({"digest": digest, "seconds": seconds}, stream)
    return seconds


def noticed_by(place, mutant, stages, seconds):
    """The test that fails, "" if none does, None if it does not compile."""
    place.put(mutant.path, mutant.broken())
    try:
        if place.make("plain", stages[0].targets):
            return None
        for stage, usual in zip(stages, seconds):
            if place.make(stage.build, stage.targets):
                return None
            said = place.run(stage, place.tests_of(stage, mutant.path), 300 + 10 * usual)
            if said:
                return said
        return ""
    finally:
        place.put(mutant.path, mutant.source)


def main():
    parser = argparse.ArgumentParser(prog="mutate", description="Breaks tokens and runs the tests.")
    parser.add_argument("root")
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="no sanitizers, oracles and faults: more survive")
    parser.add_argument("--at", metavar="FILE:LINE[-LINE]", help="all mutants of these lines")
    parser.add_argument("count", metavar="N", nargs="?", type=int, default=20)
    parser.add_argument("seed", metavar="SEED", nargs="?", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--rows", metavar="PATH", nargs="?", const="lib/analysis/",
                        help="each row of the tables of files whose path begins so (lib/analysis/) is deleted")
    options = parser.parse_intermixed_args()

    place = Workplace(options.root, options.folder)
    stages = ROW_STAGES if options.rows else STAGES
    stages = stages[:QUICK] if options.quick else stages
    digest = place.copy() + " rows" * bool(options.rows)
    listed = equivalent(place.tree)
    place.prepare({stage.build for stage in stages})
    seconds = unmutated(place, digest, stages)
    everything = options.at or options.rows
    if options.at:
        mutants = at(place.tree, options.at)
    elif options.rows:
        mutants = rows(place.tree, options.rows)
    else:
        print(f"seed {options.seed}", flush=True)
        mutants = chosen(place.tree, options.seed)
    count = noticed = known = 0
    for mutant in mutants:
        if count == options.count and not everything:
            break
        if mutant.key() in listed:
            known += 1
            print(f"equivalent {mutant}: {listed[mutant.key()]}", flush=True)
            continue
        said = noticed_by(place, mutant, stages, seconds)
        if said is None:
            continue
        count += 1
        noticed += bool(said)
        print(f"noticed by {said}  {mutant}" if said else f"SURVIVED {mutant}", flush=True)
    print(f"{count} mutants, {noticed} noticed ({100 * noticed // max(count, 1)} %), {count - noticed} survived"
          + (f"; {known} more are listed as equivalent" if known else ""))
    return 0 if noticed >= WANTED * count else 1


if __name__ == "__main__":
    sys.exit(main())
