#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the maps of names as C, to be built in: embed-maps.py OUTPUT MAP…

A map is read here once, so that one that is no JSON does not build.
"""

import json
import os
import sys


def main():
    output, *paths = sys.argv[1:]
    lines = ['#include "naming/naming.h"', ""]
    facts = []
    for number, path in enumerate(paths):
        with open(path, "rb") as stream:
            document = json.loads(stream.read())
        name = os.path.basename(path).removesuffix(".json")
        words = " ".join(f"{scheme}-{family}" for scheme in (document["to"], document["from"])
                         for family in document["families"])
        facts.append((name, document["about"], words))
        text = json.dumps(document, separators=(",", ":")).encode()
        lines.append(f"static const unsigned char map_{number}[] = {{")
        lines += ["\t" + " ".join(f"{byte}," for byte in text[at:at + 24]) for at in range(0, len(text), 24)]
        lines.append("};")
    lines.append("const struct fsdp_builtin_map fsdp_builtin_maps[] = {")
    for number, texts in enumerate(facts):
        quoted = ", ".join(json.dumps(text) for text in texts)
        lines.append(f"\t{{ {{ {quoted} }}, map_{number}, sizeof map_{number} }},")
    lines += ["};", f"const size_t fsdp_builtin_map_count = {len(paths)};", ""]
    with open(output, "w", encoding="ascii") as stream:
        stream.write("\n".join(lines))


if __name__ == "__main__":
    main()
