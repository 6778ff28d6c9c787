#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include law once more, as the linker sees it: no object needs what a room defines that its own
room may not know, however it was declared. The command and the analyses stand above the doors: they
need of them what the public headers declare. Files of one room may need each other.

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


def check(root, archives):
    sources, public = compiled(root), declared(root)
    broken, home, needed = [], {}, set()
    for archive in archives:
        for place, name in symbols.nm(archive, "-g", "--defined-only"):
            home[name] = sources.get(os.path.basename(place))
        needed.update((sources.get(os.path.basename(place)), name) for place, name in symbols.nm(archive, "-u"))
    for path, name in sorted((path, name) for path, name in needed if path and home.get(name)):
        room, other = includes.room_of(path), includes.room_of(home[name])
        above = other in includes.ROOMS and (room in ("analysis", "naming") or room in includes.CLI)
        if other not in ROOMS[room] | {room} and not (above and name in public):
            broken.append(f"{path}: {room} may not need {name} of {other}")
    return broken


if __name__ == "__main__":
    sys.exit(law.verdict(check(sys.argv[1], sys.argv[2:])))
