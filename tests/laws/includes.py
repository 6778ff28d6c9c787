#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include law: which module may include which, and which files may include headers of other libraries.

No two modules have a file of the same name. If this law rejects an include, move the code; or change these tables in a commit
that gives the reason. There are no exceptions.
"""

import os
import re

import law

# Files that are a layer below the rest of their directory -> the name of that layer.
LAYERS = {
    f"lib/checkpoint/{name}": "model"
    for name in ("build.c build.h dtype.c flat-params.c freeze.c freezing.h merge-ranks.c model.h module-tree.c placement.c "
                 "plan-join.c").split()
} | {
    f"lib/audit/{name}": "verify" for name in "verify.c verify-data.c verify-files.c verify-private.h".split()
}

# module -> modules whose headers it may include (its own always).
MODULES = {
    "base": set(),
    "io": {"base"},
    "syntax": {"base"},
    "model": {"base"},
    "formats": {"base", "io", "syntax", "model"},
    "trace": {"base", "io", "syntax"},
    "elements": {"base", "io", "syntax", "formats", "model", "checkpoint"},
    "checkpoint": {"base", "io", "syntax", "model", "formats", "trace", "elements"},
    "verify": {"base", "io", "syntax", "model", "elements", "checkpoint"},
    "naming": {"base", "model", "elements", "checkpoint"},
    "aggregate": {"base", "model", "elements", "trace"},
    "audit": {"base", "model", "elements", "verify", "naming", "aggregate"},
    "compare": {"base", "model", "elements", "naming", "aggregate"},
    "loaders": {"base", "model", "elements", "verify", "naming", "aggregate", "audit"},
    "export": {"base", "io", "syntax", "elements", "model", "checkpoint", "naming"},
}

# module -> the headers that it may include of another module, where not all.
NARROW = {
    "verify": {"checkpoint": {"lib/checkpoint/checkpoint-private.h"}},
    "elements": {
        "checkpoint": {"lib/checkpoint/checkpoint-private.h"},
        "formats": {"lib/formats/torch/torch.h"},
    },
}

# module -> those of which it may include private headers, where not all.
PRIVATE = {
    "naming": {"naming", "base"},
    "aggregate": {"aggregate", "base", "naming"},
    "audit": {"audit", "aggregate", "base", "naming"},
    "compare": {"compare", "aggregate", "base", "naming"},
    "loaders": {"loaders", "audit", "aggregate", "base", "naming"},
    "export": {"export", "base", "io", "syntax", "elements", "naming"},
}

# As MODULES, for the modules of the command; `cli` itself is main.c.
CLI = {
    "cli/render": set(),
    "cli/args": {"cli/render"},
    "cli/session": {"cli/args", "cli/render"},
    "cli/shared": {"cli/args", "cli/session", "cli/render"},
    "cli/commands": {"cli/args", "cli/session", "cli/shared", "cli/render"},
    "cli": {"cli/args", "cli/session", "cli/commands", "cli/render"},
}

# public header -> the module that implements it; that module and those above may include it.
PUBLIC = {
    "analysis.h": "aggregate",
    "audit.h": "verify",
    "checkpoint.h": "base",  # limits, and plain structs that every module fills
    "compare.h": "compare",
    "document.h": "checkpoint",
    "elements.h": "elements",
    "error.h": "base",
    "export.h": "export",
    "loaders.h": "loaders",
    "memory.h": "trace",
    "model.h": "model",
    "order.h": "trace",
    "pickle.h": "syntax",
    "trace.h": "trace",
}

# Directories whose parts may not include each other -> the headers that they share, by their path in the
# directory. A part is a directory, or the files whose names begin with the same word (order-compare.c,
# order-fx.c); a file in `free` may include all.
APART = {
    "lib/formats": {"shared": {"families.def", "format.h", "torch/torch.h"}, "free": {"registry.c"}},
    # What readers share: an event and what it is read from, types of time, sums of times,
    # Python's way of printing, values of dumps; and what the files of
    # Kineto's reader share.
    "lib/trace": {
        "shared": {"event.h", "kineto.h"},
        "free": {"readers.c", "match.c", "flight-read.c", "log.c", "recording.c"},
    },
    "lib/audit": {"shared": {"applies.h", "checking.h"}, "free": set()},
    "cli/commands": {"shared": {"schemas.h"}, "free": set()},
}

# Files that the build makes.
GENERATED = {"loaders/architectures.def", "trace/python-unprintable.def"}

# outside header -> name of the library, and the only files that may know it.
OUTSIDE = [
    (r"zlib\.h", "zlib", {"lib/io/inflate.c", "lib/io/zip.c", "lib/elements/content-hash.c", "cli/render/html.c"}),
    (r"archive(_entry)?\.h", "libarchive", {"lib/io/archive.c"}),
    (r"isa-l.*|crc\.h|igzip_lib\.h", "ISA-L", {"lib/io/inflate.c", "lib/elements/content-hash.c"}),
    (r"jansson\.h", "jansson", {"lib/checkpoint/document.c"}),
    (r"openssl/.*", "libcrypto", {"lib/elements/content-hash.c", "cli/session/diagnostics.c"}),
    (r"getopt\.h", "getopt_long", {"cli/args/parse.c"}),
    (r"pcre2.*\.h", "PCRE2", {"cli/args/select.c"}),
    (r"utf8proc\.h", "utf8proc", {"cli/render/gen-characters.c"}),
    (r"seccomp\.h|linux/(seccomp|landlock|filter|bpf.*|audit)\.h", "the sandbox", {"cli/session/sandbox.c"}),
    (r"pthread\.h|threads\.h", "threads", {"lib/base/tasks.c", "lib/io/remote.c", "lib/io/stream.c"}),
    (r"sanitizer/.*", "the sanitizers", {"lib/base/arena.c"}),
]

# The C library and the system's own calls.
SYSTEM = re.compile(
    r"(assert|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign"
    r"|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|time|uchar|wchar"
    r"|byteswap|dirent|endian|fcntl|fnmatch|getopt|langinfo|poll|sched|search|strings|termios|unistd"
    r"|sys/[a-z]+|linux/(prctl|fs|stat))\.h"
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]')


def module_of(path):
    """The module of a file, or None: not under this law."""
    parts = path.split("/")
    if parts[0] == "cli":
        return "cli/" + parts[1] if len(parts) > 2 else "cli"
    if parts[0] != "lib":
        return None
    if parts[1] == "include":
        return "public"
    return LAYERS.get(path, parts[1] if len(parts) > 2 else "lib")


def resolve(root, path, name):
    """The file that a quoted include means, whether or not the compiler would find it."""
    if name in GENERATED:
        return "lib/" + name
    for folder in (os.path.dirname(path), path.split("/")[0], "lib", "cli"):
        candidate = os.path.normpath(os.path.join(folder, name))
        if os.path.exists(os.path.join(root, candidate)):
            return candidate
    return name


def quoted(root, path, name):
    if ".." in name.split("/"):
        return "an include names its module, without .."
    module, target = module_of(path), resolve(root, path, name)
    other = module_of(target)
    if module == "public":
        return "a public header includes <fsdp/…> and the C library only"
    if other in (None, "public"):
        return f"{target} is no header of a module"
    if module in CLI:
        if other not in CLI:
            return f"cli sees the library through <fsdp/…>, not {target}"
        if other not in CLI[module] | {module}:
            return f"{module} may not include {other} ({target})"
        return apart(path, target)
    if other not in MODULES.get(module, set()) | {module}:
        return f"{module} may not include {other} ({target})"
    if other not in PRIVATE.get(module, {other}):
        return f"{module} includes {other} through <fsdp/…>, not {target}"
    if target not in NARROW.get(module, {}).get(other, {target}):
        return f"{module} may not include {target} of {other}"
    return apart(path, target)


def family(path):
    """The folder, or the first word of the file's name."""
    first, _, rest = path.partition("/")
    return first if rest else first.rsplit(".", 1)[0].split("-")[0]


def apart(path, target):
    for folder, rule in APART.items():
        if not (path.startswith(folder + "/") and target.startswith(folder + "/")):
            continue
        ours, theirs = path[len(folder) + 1:], target[len(folder) + 1:]
        if family(ours) != family(theirs) and ours not in rule["free"] and theirs not in rule["shared"]:
            return f"a part of {folder} may not include another: {target}"
    return None


def angled(path, name):
    module = module_of(path)
    if name.startswith("fsdp/"):
        home = PUBLIC.get(name[len("fsdp/"):])
        if home is None:
            return f"<{name}> is in no row of the table of public headers"
        if module == "cli/render":
            return "cli/render includes libc and its own module, not the library"
        if module in MODULES and home not in MODULES[module] | {module}:
            return f"{module} may not include {home} (<{name}>)"
        return None
    for pattern, library, files in OUTSIDE:
        if re.fullmatch(pattern, name):
            if path in files:
                return None
            return f"{library} (<{name}>) belongs to {', '.join(sorted(files))} alone"
    if not SYSTEM.fullmatch(name):
        return f"<{name}> is in no row of the table of outside headers"
    return None


def check(root):
    broken, homes = [], {}
    for path in law.tracked(root):
        if not path.endswith((".c", ".h", ".def")) or module_of(path) is None:
            continue
        if module_of(path) != "public":
            first = homes.setdefault(os.path.basename(path), path)
            if first != path:
                broken.append(f"{path}:1: {first} has this name already")
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            kind, name = found.groups()
            why = quoted(root, path, name) if kind == '"' else angled(path, name)
            if why:
                broken.append(f"{path}:{number}: {why}")
    return broken


if __name__ == "__main__":
    law.main(check)
