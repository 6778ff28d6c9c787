#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed-report.py TEMPLATE: writes the template of the page of a report as C, with the digests of its style and script,
which its policy allows alone. The page ends at the first line that begins with @@; from there on each such line is a block:
its name and its markup. @name@ is a field of text, @+name@ a field of filled blocks."""
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
    page, *blocks = page.split("\n@@")
    blocks = [("page", page + "\n")] + [(name, text.rstrip("\n") + "\n") for name, text in (block.split(" ", 1) for block in blocks)]
    print('#include "render/html.h"')
    for name, text in blocks:
        print(f"static const struct html_piece {name}_block[] = {{")
        for number, piece in enumerate(re.split("@([+]?[a-z]+)@", text)):
            if number % 2:
                print(f'\t{{ {"HTML_BLOCKS" if piece[0] == "+" else "HTML_TEXT"}, {literal(piece.lstrip("+"))} }},')
            else:
                for line in piece.splitlines(keepends=True):
                    print(f"\t{{ HTML_MARKUP, {literal(line)} }},")
        print("\t{ HTML_MARKUP, 0 },\n};")
    print("const struct html_block html_blocks[] = {")
    for name, _ in blocks:
        print(f'\t{{ "{name}", {name}_block }},')
    print("\t{ 0, 0 },\n};")


main(sys.argv[1])
