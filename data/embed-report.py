#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed-report.py PAGE BLOCKS: writes the template of the page of a report as C, with the digests of its style and script,
which its policy allows alone; and the blocks that are filled into it. Each line of BLOCKS begins with @@ and is a name and
its markup. @name@ is a field of text, @+name@ a field of filled blocks."""
import base64
import hashlib
import re
import sys


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def literal(text):
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode()) for c in text) + '"'


def main(page_path, blocks_path):
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    with open(blocks_path, encoding="utf-8") as file:
        blocks = ("\n" + file.read()).split("\n@@")[1:]
    for name, tag in (("style-hash", "style"), ("script-hash", "script")):
        page = page.replace(f"@{name}@", digest(re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]))
    blocks = [("page", page)] + [(name, text.rstrip("\n") + "\n") for name, text in (block.split(" ", 1) for block in blocks)]
    print('#include "render/out.h"')
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


main(*sys.argv[1:])
