#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of contrib/python and a static binary: the same bytes each time.

wheel.py BINARY OUT [MACHINE]: what pip would build holds no binary, is for any machine, and has the
time of day in it. Dates are SOURCE_DATE_EPOCH. Needs Python 3.11 and nothing else.
"""

import base64
import hashlib
import os
import platform
import sys
import time
import tomllib
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "contrib", "python")
LINUX = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")  # a static file is for each of them


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown"]
    for extra, needed in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {name}; extra == '{extra}'" for name in needed]
    return "\n".join(lines) + "\n\n" + read(os.path.join(SOURCE, project["readme"])).decode()


def members(settings, binary, stem, tag):
    """(name, bytes, mode) of all but RECORD."""
    for package in settings["tool"]["setuptools"]["packages"]:
        for name in sorted(os.listdir(os.path.join(SOURCE, *package.split(".")))):
            if name.endswith((".py", ".pyi", "py.typed")):
                folder = package.replace(".", "/")
                yield f"{folder}/{name}", read(os.path.join(SOURCE, folder, name)), 0o644
    yield f"{stem}.data/scripts/fsdp-inspect", read(binary), 0o755
    yield f"{stem}.dist-info/licenses/LICENSE", read(os.path.join(ROOT, "LICENSE")), 0o644
    yield f"{stem}.dist-info/METADATA", metadata(settings["project"]).encode(), 0o644
    tags = "".join(f"Tag: py3-none-{each}\n" for each in tag.split("."))
    yield f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nGenerator: fsdp-inspect\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644


def recorded(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}\n"


def main():
    binary, out = sys.argv[1:3]
    machine = sys.argv[3] if len(sys.argv) > 3 else platform.machine()
    tag = ".".join(f"{linux}_{machine}" for linux in LINUX)
    with open(os.path.join(SOURCE, "pyproject.toml"), "rb") as stream:
        settings = tomllib.load(stream)
    stem = f"{settings['project']['name'].replace('-', '_')}-{settings['project']['version']}"
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    path = os.path.join(out, f"{stem}-py3-none-{tag}.whl")
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:

        def put(name, data, mode):
            info = zipfile.ZipInfo(name, date)
            info.external_attr = (0o100000 | mode) << 16
            info.create_system = 3
            wheel.writestr(info, data, zipfile.ZIP_DEFLATED, 9)

        for name, data, mode in members(settings, binary, stem, tag):
            put(name, data, mode)
            record += recorded(name, data)
        record += f"{stem}.dist-info/RECORD,,\n"
        put(f"{stem}.dist-info/RECORD", record.encode(), 0o644)
    print(path)


if __name__ == "__main__":
    main()
