#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shared library exports is what debian/libfsdpinspect0.symbols lists.

abi.py ARCHIVE SYMBOLS VERSION [--update]: ARCHIVE is the static archive of the library's own
objects. A new function is added by --update with the VERSION that has it first; what is gone
breaks callers: it needs a new soversion once there was a release.
"""

import re
import subprocess
import sys

NODE = "LIBFSDPINSPECT_0"
HEAD = f"libfsdpinspect.so.0 libfsdpinspect0 #MINVER#\n {NODE}@{NODE} 0.1.0\n"
SYMBOL = re.compile(r"^\s*\d+: \S+\s+\d+\s+\S+\s+GLOBAL\s+DEFAULT\s+(\d+)\s+(fsdp_\w+)$", re.MULTILINE)


def exported(archive):
    out = subprocess.run(["readelf", "-sW", archive], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name for _, name in SYMBOL.findall(out)}


def listed(path):
    with open(path, encoding="utf-8") as stream:
        return dict(re.findall(rf"^ (fsdp_\w+)@{NODE} (\S+)$", stream.read(), re.MULTILINE))


def main():
    archive, path, version = sys.argv[1:4]
    there, known = exported(archive), listed(path)
    if not there:
        print("not built so that symbols can be read")
        return 77
    if sys.argv[4:] == ["--update"]:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(HEAD + "".join(f" {name}@{NODE} {known.get(name, version)}\n" for name in sorted(there)))
        return 0
    for name in sorted(there - set(known)):
        print(f"{path}: lacks {name}: tests/library/abi.py {archive} {path} {version} --update")
    for name in sorted(set(known) - there):
        print(f"{path}: {name} is gone, which breaks callers")
    return int(there != set(known))


if __name__ == "__main__":
    sys.exit(main())
