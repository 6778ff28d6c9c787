# SPDX-License-Identifier: Apache-2.0
"""mutate.py ROOT FOLDER [--quick] [--at=FILE:LINE[-LINE] | --list=FILE | --rows[=PATH]] [N [SEED]]: what scripts/mutation/mutate runs.

Chooses tokens, breaks them and asks the tests (judges.py). Knows no type: what does not compile is no mutant, and
another takes its place. All that can be are built at once (copies.py); the others, one after the other.
"""

import argparse
import os
import random
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "laws"))

import copies
import law
from ctokens import bodies, tokens
from judges import Workplace, give_up, is_for_build, is_source
from marks import partner

EQUIVALENT = "tests/mutants.txt"
WANTED = 0.9  # of the mutants are noticed

# ---- tokens

INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)")
SWAPPED = {
    "&&": "||", "||": "&&", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "++": "--", "--": "++",
}
STATEMENTS = {"return", "sizeof", "case", "else", "do"}
ALLOCATORS = {"malloc", "calloc", "realloc", "reallocarray", "fsdp_arena_take", "FSDP_TAKE", "FSDP_COMPLETE_TAKE"}

# ---- mutants

class Mutant:
    """One change of one file: edits are (begin, end, text)."""

    def __init__(self, path, source, edits, shown):
        self.path, self.source, self.edits, self.offset = path, source, edits, edits[0][0]
        self.chosen = self.copy = None  # number and name of its copy (copies.py)
        first, last = shown
        begin, end = source.rfind("\n", 0, self.offset) + 1, source.find("\n", self.offset)
        self.line = source[begin:end if end >= 0 else None].strip()
        self.change = f"{squeeze(source[first:last])} -> {squeeze(apply(source, edits, first, last))}"

    @property
    def number(self):
        """Of the line."""
        return self.source.count("\n", 0, self.offset) + 1

    def key(self):
        return self.path, self.line, self.change

    def broken(self, first=0, last=None):
        return apply(self.source, self.edits, first, len(self.source) if last is None else last)

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


def is_less(all_tokens, i):
    """Token i is the first number of `? -1 : 1`, which callers compare with zero: its sign is broken already, and qsort
    may ask only whether it is above zero."""
    texts = [token.text for token in all_tokens[max(i - 2, 0):i + 2]]
    return texts[:2] == ["?", "-"] and texts[3:] == [":"]


def is_more(all_tokens, i):
    """Token i is the other one: 2 would say the same."""
    texts = [token.text for token in all_tokens[max(i - 4, 0):i]]
    return texts[:2] + texts[3:] == ["?", "-", ":"]


def is_room(all_tokens, i):
    """Number i says how much memory is taken, and one more would only be more. Of alignments only 1 is such a number."""
    if all_tokens[i - 1].text not in ("+", "*", "(", ","):
        return False
    if all_tokens[i - 1].text == "," and all_tokens[i + 1].text == ")" and all_tokens[i].text != "1":
        return False
    depth, at = 0, i - 1
    while depth or all_tokens[at].text != "(" or all_tokens[at - 1].kind != "word":
        if all_tokens[at].kind == "sign" and all_tokens[at].text in (";", "{", "}"):
            return False
        depth += (all_tokens[at].text == ")") - (all_tokens[at].text == "(" and depth > 0)
        at -= 1
    return all_tokens[at - 1].text in ALLOCATORS


def run_to(all_tokens, i, step, ends):
    """Index of the first token from i on, in this direction, that is one of these and in no brackets opened since."""
    opening, depth = "([" if step > 0 else ")]", 0
    closing = ")]" if step > 0 else "(["
    while depth or all_tokens[i].text not in ends:
        depth += (all_tokens[i].text in opening) - (all_tokens[i].text in closing)
        if depth < 0:
            break
        i += step
    return i


def decides_no_tie(all_tokens, i):
    """Comparison i comes to the same whatever it says of equals: they were told apart before, `if (a != b) return a < b`,
    or either may be taken, `a < b ? a : b` and `if (a < b) a = b;`."""
    ends = ("?", ":", ";", ",", "&&", "||", "=", "return", "{", "}")
    begin, end = run_to(all_tokens, i - 1, -1, ends), run_to(all_tokens, i + 1, 1, ends)

    def words(first, behind):
        return [token.text for token in all_tokens[first:behind]]

    left, right = words(begin + 1, i), words(i + 1, end)
    if {"++", "--"} & {*left, *right}:
        return False
    if words(begin - 1, begin + 1) == [")", "return"]:
        first = partner(all_tokens, begin - 1, -1)
        return words(first - 1, begin) == ["if", "(", *left, "!=", *right, ")"]
    if all_tokens[end].text == "?":
        middle = run_to(all_tokens, end + 1, 1, (":",))
        last = run_to(all_tokens, middle + 1, 1, (";", ","))
        return (words(end + 1, middle), words(middle + 1, last)) in ((left, right), (right, left))
    if words(begin - 1, begin + 1) == ["if", "("] and all_tokens[end].text == ")":
        last = run_to(all_tokens, end + 1, 1, (";", "{"))
        return all_tokens[last + 1].text != "else" and words(end + 1, last + 1) in (
            [*left, "=", *right, ";"], [*right, "=", *left, ";"])
    return False


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
        if token.text not in ("<", "<=", ">", ">=") or not decides_no_tie(all_tokens, i):
            yield [(*here, SWAPPED[token.text])], around
    elif token.kind == "sign" and token.text == "!":
        yield [(*here, "")], (token.begin, after.end)
    elif token.text in ("true", "false") and before.text == "return":
        yield [(*here, "false" if token.text == "true" else "true")], around
    elif token.text in ("continue", "break") and after.text == ";" and not ends_switch(all_tokens, i + 2):
        yield [(*here, "")], (token.begin, after.end)
    elif token.kind == "number" and integer and not (
            declares_array(all_tokens[:i]) or is_room(all_tokens, i) or is_less(all_tokens, i)):
        digits, suffix = integer.groups()
        if is_more(all_tokens, i):
            more = "0"
        elif digits[1:2] in ("x", "X"):
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
    return [path for path in law.tracked(root) if is_source(path)]


def at(root, place):
    """All mutants of FILE:LINE or FILE:LINE-LINE."""
    path, _, lines = place.rpartition(":")
    first, _, last = lines.partition("-")
    for some in mutants_of(path, law.text(root, path)):
        for mutant in some:
            if int(first) <= mutant.number <= int(last or first):
                yield mutant


def of_list(root, table):
    """The mutants of a list: the columns file, code and change say which. One whose line has changed is gone."""
    head, *rows = (line.split("\t") for line in law.text(root, table).splitlines() if not line.startswith("#"))
    columns = [head.index(name) for name in ("file", "code", "change")]
    wanted = {tuple(row[column] for column in columns) for row in rows}
    for path in sorted({key[0] for key in wanted} & set(sources(root))):
        for some in mutants_of(path, law.text(root, path)):
            for mutant in some:
                if mutant.key() in wanted:
                    wanted.remove(mutant.key())
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
            if "NULL" not in (all_tokens[i].text, all_tokens[i + 1].text):  # which ends a table
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


# ---- judging

# In the plain build answers are compared; what the sanitizers must see is tried in the other, where others take long and
# come to the same code.
DEV = ("pinned/", "unit/", "fuzz/")
QUICK = (*DEV, "cli/")
# What is to notice that a row of a table is gone: those who know what is found. Others take long and know no more.
ROWS = ("pinned/", "cli/diff", "cli/tried", "oracle/complete", "oracle/verdicts", "oracle/defects", "oracle/loaders", "oracle/packed",
        "unit/adapters", "unit/affected", "unit/apart", "unit/applies", "unit/audit", "unit/boxes", "unit/compare", "unit/complete-",
        "unit/hf-settings", "unit/kind", "unit/loader-rules", "unit/loaders", "unit/make-up", "unit/optimizer", "unit/overview",
        "unit/replicas", "unit/reshard", "unit/shares", "unit/sparse", "unit/spotting", "unit/stands-for", "unit/states", "unit/sums",
        "unit/unseen", "unit/verify", "unit/waste", "unit/wrapped")
FAILING = 12  # commands that are asked about a mutant with failing calls
START = 0.2  # seconds that any test takes to begin


def batches(tests):
    """Lists of tests that are run at once: pinned runs, more and more of them. The cheapest first."""
    tests = sorted(tests, key=lambda test: test.seconds)
    found = [[test] for test in tests if not test.pinned]
    pinned, size = [test for test in tests if test.pinned], 4
    while pinned:
        found.append(pinned[:size])
        pinned, size = pinned[size:], 4 * size
    return sorted(found, key=lambda batch: START + sum(test.seconds for test in batch))


class Judge:
    def __init__(self, place, tests, sanitizers):
        self.place, self.tests, self.sanitizers = place, tests, sanitizers
        self.steady = set()  # (build, test) that pass where nothing is broken

    def called(self, mutant):
        """The tests that may notice it. Of commands with failing calls the quickest."""
        mark = self.place.files[mutant.path].mark(mutant.offset)
        if mark is None:
            return [test for test in self.tests if test.name.startswith(ROWS)]
        if is_for_build(mutant.path):
            return self.tests
        found = sorted((test for test in self.tests if test.comes_to(mark)), key=lambda test: test.seconds)
        one = copies.function_at(mutant.source, mutant.offset)
        if not found and one:  # what only follows one of many failing calls
            entered = self.place.files[mutant.path].mark_behind(one.open)
            found = [test for test in self.tests if test.failing and test.comes_to(entered)]
        failing = [test for test in found if test.failing][:FAILING]
        return [test for test in found if not test.failing] + failing

    def noticed_by(self, mutant):
        """The test that fails, or ""."""
        called, place = self.called(mutant), self.place
        whole = [test for test in called if not test.failing]
        failing = [test for test in called if test.failing]
        checked = [test for test in whole if self.sanitizers and test.name.startswith(DEV)]
        rounds = [(place.plain, whole), (place.dev, checked)]
        if failing and mutant.copy:
            rounds.append((place.plain, failing, place.plain.within(mutant.copy)))
        if failing and not (whole and mutant.copy):  # it may be there for calls that fail elsewhere
            rounds.append((place.plain, failing))
        with place.broken(mutant):
            for build, tests, *options in rounds:
                for batch in batches(tests):
                    said = self.failure(build, batch, mutant, *options)
                    if said:
                        return said
        return ""

    def failure(self, build, batch, mutant, *options):
        """What fails for a mutant and for no other reason."""
        tests = [build.tests[test.name] for test in batch]
        for test, known in zip(tests, batch):
            test.seconds = known.seconds
        if mutant.chosen is None:
            build.make({name for test in tests for name in test.targets} | {"cli/fsdp-inspect"})
        said, _ = build.run(tests, *options)
        if said and (build.kind, said.partition(" (")[0]) not in self.steady:
            with self.place.whole(mutant):
                if mutant.chosen is None:
                    build.make(tests[0].targets)
                without, _ = build.run(tests, *options)
            if without:
                give_up(without)
            self.steady |= {(build.kind, test.name) for test in batch}
        return said


def taken(place, mutants, count):
    """The first of these that compile; what is listed is told."""
    listed, found = equivalent(place.tree), []
    for mutant in mutants:
        if len(found) == count:
            break
        if mutant.key() in listed:
            print(f"equivalent {mutant}: {listed[mutant.key()]}", flush=True)
        elif place.compiles(mutant):
            found.append(mutant)
    return found


def main():
    parser = argparse.ArgumentParser(prog="mutate", description="Breaks tokens and runs the tests.")
    parser.add_argument("root")
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="no sanitizers, oracles and faults: more survive")
    parser.add_argument("--at", metavar="FILE:LINE[-LINE]", help="all mutants of these lines")
    parser.add_argument("--list", metavar="FILE", help="the mutants of a list, as scripts/mutation/proof.tsv is one")
    parser.add_argument("count", metavar="N", nargs="?", type=int, default=20)
    parser.add_argument("seed", metavar="SEED", nargs="?", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--rows", metavar="PATH", nargs="?", const="lib/audit/",
                        help="each row of the tables of files whose path begins so (lib/audit/) is deleted")
    options = parser.parse_intermixed_args()

    place = Workplace(options.root, options.folder)
    sanitizers = not options.quick and not options.rows
    builds = [place.plain, place.dev] if sanitizers else [place.plain]
    place.prepare(builds)
    names = ROWS if options.rows else QUICK if options.quick else ("",)
    tests = [test for test in place.plain.tests.values() if test.name.startswith(names)]
    place.learn(tests)
    judge = Judge(place, tests, sanitizers)
    if options.at:
        mutants = taken(place, at(place.tree, options.at), None)
    elif options.list:
        mutants = taken(place, of_list(place.tree, options.list), None)
    elif options.rows:
        mutants = taken(place, rows(place.tree, options.rows), None)
    else:
        print(f"seed {options.seed}", flush=True)
        mutants = taken(place, chosen(place.tree, options.seed), options.count)
    place.copy_broken(builds, mutants)
    noticed = 0
    for mutant in mutants:
        said = judge.noticed_by(mutant)
        noticed += bool(said)
        alone = "" if said or judge.called(mutant) else ": no test comes to it"
        print(f"noticed by {said}  {mutant}" if said else f"SURVIVED {mutant}{alone}", flush=True)
    count = len(mutants)
    print(f"{count} mutants, {noticed} noticed ({100 * noticed // max(count, 1)} %), {count - noticed} survived")
    return 0 if noticed >= WANTED * count else 1


if __name__ == "__main__":
    sys.exit(main())
