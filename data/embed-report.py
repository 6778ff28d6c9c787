#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed-report.py TEMPLATE: writes the template of the page of a report as C, with the digests of its style and script,
which its policy allows alone."""
import base64
import hashlib
import re
import sys


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def literal(text):
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode()) for c in text) + '"'


def main(path):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    for name, tag in (("style-hash", "style"), ("script-hash", "script")):
        page = page.replace(f"@{name}@", digest(re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]))
    print('#include "render/html.h"\nconst struct html_piece html_template[] = {')
    for number, piece in enumerate(re.split("@([a-z]+)@", page)):
        if number % 2:
            print(f"\t{{ {literal(piece)}, true }},")
        else:
            for line in piece.splitlines(keepends=True):
                print(f"\t{{ {literal(line)}, false }},")
    print("\t{ 0, false },\n};")


main(sys.argv[1])
