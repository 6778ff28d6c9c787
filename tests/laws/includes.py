#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include law: which room may know which, and which file may know what is outside.

No two rooms have a file of the same name. If a wall is in the way, move the code; or change these tables in a commit that argues
why the house was wrong. There are no exceptions.
"""

import os
import re

import law

# room -> rooms whose headers it may include (its own always).
ROOMS = {
    "base": set(),
    "io": {"base"},
    "syntax": {"base"},
    "model": {"base"},
    "formats": {"base", "io", "syntax", "model"},
    "trace": {"base", "io", "syntax"},
    "elements": {"base", "io", "model", "doors"},
    "doors": {"base", "io", "syntax", "model", "formats", "trace", "elements"},
    "verify": {"base", "io", "syntax", "model", "elements", "doors"},
    "naming": {"base", "model", "elements", "doors"},
    "analysis": {"base", "model", "elements", "verify", "naming"},
    "export": {"base", "io", "syntax", "elements", "model", "doors", "naming"},
}

# room -> what it may see of a room whose headers are not all for it.
NARROW = {
    "verify": {"doors": {"lib/checkpoint-private.h"}},
    "elements": {"doors": {"lib/checkpoint-private.h"}},
}

# room -> those of which it may include more than the public headers, if not all of them.
PRIVATE = {
    "naming": {"naming", "base"},
    "analysis": {"analysis", "base", "naming"},
    "export": {"export", "base", "io", "syntax", "elements", "naming"},
}

# As ROOMS, for the rooms of the command; `cli` itself is main.c.
CLI = {
    "cli/render": set(),
    "cli/args": {"cli/render"},
    "cli/session": {"cli/args", "cli/render"},
    "cli/part": {"cli/args", "cli/session", "cli/render"},
    "cli/commands": {"cli/args", "cli/session", "cli/part", "cli/render"},
    "cli": {"cli/args", "cli/session", "cli/commands", "cli/render"},
}

# public header -> the room whose words it holds; that room and those above may use it.
PUBLIC = {
    "analysis.h": "analysis",
    "audit.h": "verify",
    "checkpoint.h": "base",  # limits, and plain structs that every room may fill
    "compare.h": "analysis",
    "document.h": "doors",
    "elements.h": "elements",
    "error.h": "base",
    "export.h": "export",
    "loaders.h": "analysis",
    "memory.h": "trace",
    "model.h": "model",
    "order.h": "trace",
    "pickle.h": "syntax",
    "trace.h": "trace",
}

# Folders whose families are strangers to each other -> the headers they do share, by their path in the
# folder. A family is a folder, or the files whose names begin with the same word (order-compare.c,
# order-fx.c); `free` files hold the table of the others.
STRANGERS = {
    "lib/formats": {"shared": {"families.def", "format.h", "torch/torch.h"}, "free": {"registry.c"}},
    # What readers share: an event and what it is read from, types of time, sums of times,
    # Python's way of printing, values of dumps; and what the files of
    # Kineto's reader share.
    "lib/trace": {
        "shared": {"event.h", "types.h", "durations.h", "python.h", "kineto.h"},
        "free": {"readers.c", "profile.c", "match.c", "join.c", "flight-read.c", "log.c"},
    },
    "lib/analysis/checks": {"shared": {"checking.h"}, "free": set()},
    "cli/commands": {"shared": {"schemas.h"}, "free": set()},
}

# Files that the build makes.
GENERATED = {"trace/python-unprintable.def"}

# outside header -> name of the library, and the only files that may know it.
OUTSIDE = [
    (r"zlib\.h", "zlib", {"lib/io/inflate.c", "lib/io/zip.c", "lib/elements/content-hash.c", "cli/render/html.c"}),
    (r"archive(_entry)?\.h", "libarchive", {"lib/io/archive.c"}),
    (r"isa-l.*|crc\.h|igzip_lib\.h", "ISA-L", {"lib/io/inflate.c", "lib/elements/content-hash.c"}),
    (r"jansson\.h", "jansson", {"lib/document.c"}),
    (r"openssl/.*", "libcrypto", {"lib/elements/content-hash.c", "cli/session/diagnostics.c"}),
    (r"getopt\.h", "getopt_long", {"cli/args/parse.c"}),
    (r"pcre2.*\.h", "PCRE2", {"cli/args/select.c"}),
    (r"utf8proc\.h", "utf8proc", {"cli/render/gen-characters.c"}),
    (r"seccomp\.h|linux/(seccomp|landlock|filter|bpf.*|audit)\.h", "the sandbox", {"cli/session/sandbox.c"}),
    (r"pthread\.h|threads\.h", "threads", {"lib/base/pool.c", "lib/io/remote.c", "lib/io/stream.c"}),
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


def room_of(path):
    """The room a file lives in, or None: not under this law."""
    parts = path.split("/")
    if parts[0] == "cli":
        return "cli/" + parts[1] if len(parts) > 2 else "cli"
    if parts[0] != "lib":
        return None
    if parts[1] == "include":
        return "public"
    return parts[1] if len(parts) > 2 else "doors"


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
        return "an include names its room; it does not climb with .."
    room, target = room_of(path), resolve(root, path, name)
    other = room_of(target)
    if room == "public":
        return "a public header includes <fsdp/…> and the C library only"
    if other in (None, "public"):
        return f"{target} is no header of a room"
    if room in CLI:
        if other not in CLI:
            return f"cli sees the library through <fsdp/…>, not {target}"
        if other not in CLI[room] | {room}:
            return f"{room} may not know {other} ({target})"
        return stranger(path, target)
    if other not in ROOMS.get(room, set()) | {room}:
        return f"{room} may not know {other} ({target})"
    if other not in PRIVATE.get(room, {other}):
        return f"{room} sees {other} through <fsdp/…>, not {target}"
    if target not in NARROW.get(room, {}).get(other, {target}):
        return f"{room} may not know {target} of {other}"
    return stranger(path, target)


def family(path):
    """The folder, or the first word of the file's name."""
    first, _, rest = path.partition("/")
    return first if rest else first.rsplit(".", 1)[0].split("-")[0]


def stranger(path, target):
    for folder, rule in STRANGERS.items():
        if not (path.startswith(folder + "/") and target.startswith(folder + "/")):
            continue
        ours, theirs = path[len(folder) + 1:], target[len(folder) + 1:]
        if family(ours) != family(theirs) and ours not in rule["free"] and theirs not in rule["shared"]:
            return f"files of {folder} are strangers: {target}"
    return None


def angled(path, name):
    room = room_of(path)
    if name.startswith("fsdp/"):
        home = PUBLIC.get(name[len("fsdp/"):])
        if home is None:
            return f"<{name}> is in no row of the table of public headers"
        if room == "cli/render":
            return "cli/render knows libc and its own room, not the library"
        if room in ROOMS and home not in ROOMS[room] | {room}:
            return f"{room} may not know {home} (<{name}>)"
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
    broken, rooms = [], {}
    for path in law.tracked(root):
        if not path.endswith((".c", ".h", ".def")) or room_of(path) is None:
            continue
        if room_of(path) != "public":
            first = rooms.setdefault(os.path.basename(path), path)
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
