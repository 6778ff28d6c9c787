#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One version everywhere. versions.py ROOT VERSION"""

import os
import re
import sys

PLACES = {
    "lib/include/fsdp/error.h": r'#define FSDP_VERSION "(.*)"',
    "contrib/python/pyproject.toml": r'^version = "(.*)"',
    "contrib/python/fsdp_inspect/__init__.py": r'^__version__ = "(.*)"',
    "contrib/python/fsdp_inspect/recorders/__init__.py": r'^__version__ = "(.*)"',
    "debian/changelog": r"^fsdp-inspect \((.*)-\d+\)",
}


def text(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as stream:
        return stream.read()


def main():
    root, version = sys.argv[1:]
    told = {path: re.search(pattern, text(root, path), re.MULTILINE)[1] for path, pattern in PLACES.items()}
    header = text(root, "lib/include/fsdp/error.h")
    told["its numbers"] = ".".join(
        re.search(rf"#define FSDP_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    wrong = {path: other for path, other in told.items() if other != version}
    for path, other in wrong.items():
        print(f"{path}: {other}, but meson.build says {version}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
