#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include law once more, as the linker sees it: no object needs what a room defines that its own
room may not know, however it was declared. The command and the analyses stand above the doors: they
need of them what the public headers declare. And of the files none needs itself by way of others.

links.py ROOT ARCHIVE…: static archives of the rooms.
"""

import os
import re
import sys

import includes
import law
import symbols

ROOMS = {**includes.ROOMS, **includes.CLI}


def compiled(root):
    """Name of an object -> its source: io_zip.c.o is lib/io/zip.c."""
    return {path.partition("/")[2].replace("/", "_") + ".o": path for path in law.tracked(root)
            if path.startswith(("lib/", "cli/")) and path.endswith(".c")}


def declared(root):
    """Words of the public headers."""
    return {word for path in law.tracked(root) if path.startswith("lib/include/")
            for word in re.findall(r"\w+", law.text(root, path))}


def circles(needs):
    """Of {file: {file that it needs: a name}} those that need each other, a list for each circle (Tarjan 1972)."""
    order, low, stack, found = {}, {}, [], []
    for start in sorted(needs):
        if start in order:
            continue
        order[start] = low[start] = len(order)
        stack.append(start)
        path = [(start, iter(sorted(needs[start])))]
        while path:
            file, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[file])
                if low[file] == order[file]:
                    at = stack.index(file)
                    found += [sorted(stack[at:])] if len(stack) - at > 1 else []
                    del stack[at:]
            elif other not in order:
                order[other] = low[other] = len(order)
                stack.append(other)
                path.append((other, iter(sorted(needs.get(other, ())))))
            elif other in stack:
                low[file] = min(low[file], order[other])
    return found


def check(root, archives):
    sources, public = compiled(root), declared(root)
    broken, home, needed, needs = [], {}, set(), {}
    for archive in archives:
        for place, name in symbols.nm(archive, "-g", "--defined-only"):
            home[name] = sources.get(os.path.basename(place))
        needed.update((sources.get(os.path.basename(place)), name) for place, name in symbols.nm(archive, "-u"))
    for path, name in sorted((path, name) for path, name in needed if path and home.get(name)):
        room, other = includes.room_of(path), includes.room_of(home[name])
        above = other in includes.ROOMS and (room in ("analysis", "naming") or room in includes.CLI)
        if other not in ROOMS[room] | {room} and not (above and name in public):
            broken.append(f"{path}: {room} may not need {name} of {other}")
        if path != home[name]:
            needs.setdefault(path, {})[home[name]] = name
    for circle in circles(needs):
        arrows = (f"{path} needs {name} of {other}" for path in circle for other, name in needs[path].items()
                  if other in circle)
        broken.append(f"{circle[0]}: a circle of {len(circle)} files: " + ", ".join(arrows))
    return broken


if __name__ == "__main__":
    sys.exit(law.verdict(check(sys.argv[1], sys.argv[2:])))
