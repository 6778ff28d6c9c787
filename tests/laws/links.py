#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include law again, as the linker sees it: no object needs a symbol of a module that its own module may
not include, however it was declared. The command and the modules above `checkpoint` need of it what the
public headers declare. Files of one module may need each other.

links.py ROOT ARCHIVE…: static archives of the modules.
"""

import os
import re
import sys

import includes
import law
import symbols

MODULES = {**includes.MODULES, **includes.CLI}


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
        module, other = includes.module_of(path), includes.module_of(home[name])
        above = other in includes.MODULES and (module in ("naming", "aggregate", "audit", "compare", "loaders") or module in includes.CLI)
        if other not in MODULES[module] | {module} and not (above and name in public):
            broken.append(f"{path}: {module} may not need {name} of {other}")
    return broken


if __name__ == "__main__":
    sys.exit(law.verdict(check(sys.argv[1], sys.argv[2:])))
