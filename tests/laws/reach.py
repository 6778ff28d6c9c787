#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function is reached: in lib/ from what the public headers declare, in cli/ from main. A table
reaches what it names, and so does a macro. What only tests call is not reached. Names begin
with a verb that says what is done: parse, check, report, print, write, append and their kind.

By names alone: a function that shares its name with a field may pass unseen."""

import collections
import re

import ctokens
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


def opening(tokens, i):
    """Where the bracket that token i closes begins."""
    depth = 0
    while True:
        depth += {")": 1, "(": -1}.get(tokens[i].text, 0)
        if depth == 0:
            return i
        i -= 1


def is_static(tokens, i):
    """Whether the declaration that token i is part of says so."""
    while i >= 0 and tokens[i].text not in (";", "}", "{") and tokens[i].kind != "line":
        if tokens[i].text == "static":
            return True
        i -= 1
    return False


def parse(path, source):
    """(functions, words of tables and macros) of a file."""
    tokens = ctokens.scan(source)
    functions, loose, depth = [], set(), 0
    for i, token in enumerate(tokens):
        if token.kind == "line":
            if re.match(r"\s*#\s*define\b", token.text):
                loose.update(re.findall(r"\w+", token.text)[2:])
        elif token.kind == "word":
            if depth > 0:
                words.add(token.text)
        elif token.text == "{":
            if depth == 0:
                words = loose
                if tokens[i - 1].text == ")":
                    name = tokens[opening(tokens, i - 1) - 1]
                    words = set()
                    functions.append(Function(path, source.count("\n", 0, name.begin) + 1, name.text,
                                              is_static(tokens, i - 1), words))
            depth += 1
        elif token.text == "}":
            depth -= 1
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
    functions, words = collections.defaultdict(list), collections.defaultdict(set)
    words["cli"].add(("cli/main.c", "main"))
    for path in law.tracked(root):
        folder = path.split("/")[0]
        if folder not in ("lib", "cli") or not path.endswith((".c", ".h", ".def")):
            continue
        source = law.text(root, path)
        found, loose = parse(path, source)
        functions[folder] += found
        if path.startswith("lib/include/"):
            loose.update(re.findall(r"\w+", source))
        words[folder].update((path, word) for word in loose)
    return [f"{function.path}:{function.line}: nothing reaches {function.name}"
            for folder in functions for function in unreached(functions[folder], words[folder])
            if not function.static and function.name not in UNREACHED] + [
        f"{function.path}:{function.line}: {function.name} begins with a verb that does not say what is done"
        for folder in functions for function in functions[folder] if VAGUE.match(function.name)]


if __name__ == "__main__":
    law.main(check)
