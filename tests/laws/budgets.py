#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The size of the tree stays within budgets.json: lines, files, functions with exactly one caller,
private headers, and headers that one source uses. scripts/count prints the same figures.

A caller is a function that names the other one. What only a table names has no caller.

As a program it also checks the law of reach.py, which parses the same files."""

import collections
import json
import os
import re

import law
import reach

BUDGETS = "tests/laws/budgets.json"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def callers(functions):
    """How many other functions name each function."""
    public, private = collections.defaultdict(list), {}
    for function in functions:
        if function.static and function.path.endswith(".c"):
            private[function.path, function.name] = function
        else:
            public[function.name].append(function)
    found = collections.Counter()
    for function in functions:
        for word in function.words:
            called = private.get((function.path, word))
            for other in [called] if called else public.get(word, []):
                found[id(other)] += other is not function
    return [found[id(function)] for function in functions]


def figures(root, folders=("lib", "cli")):
    """Name of a figure -> number, for the C files in these folders."""
    texts = {path: law.text(root, path) for path in law.tracked(root)
             if path.split("/")[0] in folders and path.endswith((".c", ".h", ".def"))}
    functions = [function for path, text in texts.items() for function in reach.parse(path, text)[0]]
    once = callers(functions).count(1)
    headers = [path for path in texts if path.endswith(".h") and not path.startswith("lib/include/")]
    users = collections.Counter()
    for path, text in texts.items():
        if not path.endswith(".c"):
            continue
        for name in set(INCLUDE.findall(text)):
            for header in {os.path.join(folder, name) for folder in (path.split("/")[0], os.path.dirname(path))}:
                users[header] += os.path.splitext(header)[0] != os.path.splitext(path)[0]
    sources = [path for path in texts if path.endswith(".c")]
    return {
        "lines": sum(text.count("\n") for text in texts.values()),
        "files": len(texts),
        "sources under 200 lines": sum(texts[path].count("\n") < 200 for path in sources),
        "functions": len(functions),
        "percent with one caller": round(100 * once / max(len(functions), 1), 1),
        "private headers": len(headers),
        "private headers with one user": sum(users[path] <= 1 for path in headers),
    }


def check(root):
    if not os.path.exists(os.path.join(root, BUDGETS)):
        return []
    found, budgets = figures(root), json.loads(law.text(root, BUDGETS))
    return [f"{BUDGETS}: {name}: {found[name]}, at most {budget['most']}"
            for name, budget in budgets.items() if found[name] > budget["most"]]


if __name__ == "__main__":
    law.main(check, reach.check)
