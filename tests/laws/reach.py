#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function is reached: in lib/ from what the public headers declare, in cli/ from main. A table
reaches what it names, and so does a macro. What only tests call is not reached. Names begin
with a verb that says what is done: parse, check, report, print, write, append and their kind.

By names alone: a function that shares its name with a field may pass unseen."""

import collections
import functools
import re

import law

AUDIT = "waits for the command that judges all bytes of a file"
TESTS = "lets tests look at the whole"
UNREACHED = {
    "fsdp_pickle_keywords": TESTS,
    "fsdp_pickle_length": TESTS,
    "fsdp_registry_at": TESTS,
    "fsdp_registry_bid": TESTS,
    "fsdp_zip_check_headers": AUDIT,
    "schema_write": "waits for the schemas that it prints",
}
VAGUE = re.compile(r"(?:judge|put|say|settle|take|tell)_")

Function = collections.namedtuple("Function", "path line name static words")


# What decides nothing here, and what is left to look at without it.
SILENT = re.compile(r"""/\*.*?\*/|//[^\n]*|(?:L|u8?|U)?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
LINE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
SIGN = re.compile(r"[A-Za-z_]\w*|\.?\d(?:[eEpP][-+]|[\w.])*|[{}();]")
BRACE = re.compile(r"[{}]")
WORD = re.compile(r"\.?\d(?:[eEpP][-+]|[\w.])*|([A-Za-z_]\w*)")


def blank(found):
    return " " + "\\\n" * found.group().count("\n")


def opening(tokens):
    """Where the bracket that the last token closes begins."""
    depth, i = 0, len(tokens)
    while depth != 0 or i == len(tokens):
        i -= 1
        depth += {")": 1, "(": -1}.get(tokens[i], 0)
    return i


def closing(source, at):
    """Where the braces end that are open before this place."""
    depth = 1
    while depth != 0 and (found := BRACE.search(source, at)):
        at = found.end()
        depth += 1 if found.group() == "{" else -1
    return at if depth == 0 else len(source)


@functools.cache
def parse(path, source):
    """(functions, words of tables and macros) of a file."""
    functions, loose = [], set()
    source = SILENT.sub(blank, source)
    for found in LINE.finditer(source):
        if re.match(r"\s*#\s*define\b", found.group()):
            loose.update(re.findall(r"\w+", found.group())[2:])
    source = LINE.sub(blank, source)
    before, starts, line, counted, at = [], [], 1, 0, 0
    while found := SIGN.search(source, at):
        sign, at = found.group(), found.end()
        if sign == "{":
            words = loose
            if source[:found.start()].rstrip(" \t\n\\")[-1:] == ")":
                first = opening(before)
                words = set()
                line, counted = line + source.count("\n", counted, starts[first - 1]), starts[first - 1]
                functions.append(Function(path, line, before[first - 1], "static" in before, words))
            at = closing(source, found.end())
            words.update(word for word in WORD.findall(source, found.end(), at) if word)
            before, starts = [], []
        elif sign == ";":
            before, starts = [], []
        else:
            before.append(sign)
            starts.append(found.start())
    return functions, loose


def unreached(functions, words):
    """Functions that these do not lead to: (path, word there)."""
    public, private = collections.defaultdict(list), {}
    for function in functions:
        if function.static and function.path.endswith(".c"):
            private[function.path, function.name] = function
        else:
            public[function.name].append(function)
    todo, reached = list(words), set()
    while todo:
        path, word = todo.pop()
        found = [private[path, word]] if (path, word) in private else public.get(word, [])
        for function in found:
            if id(function) not in reached:
                reached.add(id(function))
                todo += [(function.path, inner) for inner in function.words]
    return [function for function in functions if id(function) not in reached]


def check(root):
    functions, words, macros = collections.defaultdict(list), collections.defaultdict(set), {}
    words["cli"].add(("cli/main.c", "main"))
    for path in law.tracked(root):
        if path.startswith(("lib/", "cli/")) and path.endswith(".h"):
            for name, body in MACRO.findall(law.text(root, path)):
                macros[name] = re.findall(r"\w+", body)
    for path in law.tracked(root):
        folder = path.split("/")[0]
        if folder not in ("lib", "cli") or not path.endswith((".c", ".h", ".def")):
            continue
        source = law.text(root, path)
        found, loose = parse(path, source)
        functions[folder] += found
        loose = set(loose)
        if path.startswith("lib/include/"):
            loose.update(re.findall(r"\w+", source))
        # A macro of a header reaches static functions of the files that use it.
        loose.update(word for name in macros.keys() & set(re.findall(r"\w+", source)) for word in macros[name])
        words[folder].update((path, word) for word in loose)
    return [f"{function.path}:{function.line}: nothing reaches {function.name}"
            for folder in functions for function in unreached(functions[folder], words[folder])
            if not function.static and function.name not in UNREACHED] + [
        f"{function.path}:{function.line}: {function.name} begins with a verb that does not say what is done"
        for folder in functions for function in functions[folder] if VAGUE.match(function.name)]


if __name__ == "__main__":
    law.main(check)
