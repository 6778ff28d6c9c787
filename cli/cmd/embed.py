#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the schema documents as one C file: embed.py OUTPUT COMMAND-MAJOR.json..."""

import pathlib
import sys

output, *documents = sys.argv[1:]
arrays, rows = [], []
for number, path in enumerate(map(pathlib.Path, documents)):
    command, major = path.stem.rsplit("-", 1)
    data = path.read_bytes()
    lines = (data[at : at + 16] for at in range(0, len(data), 16))
    body = "\n".join("\t" + " ".join(f"{byte}," for byte in line) for line in lines)
    arrays.append(f"static const unsigned char text_{number}[] = {{\n{body}\n}};\n")
    rows.append(f'\t{{ "{command}", {int(major)}, text_{number}, sizeof text_{number} }},\n')
rows.append("\t{ 0, 0, 0, 0 },\n")
pathlib.Path(output).write_text(
    "/* Made by embed.py from schema/. */\n"
    '#include "cmd/schemas.h"\n\n'
    + "\n".join(arrays)
    + "\nconst struct schema schemas[] = {\n"
    + "".join(rows)
    + "};\n"
)
