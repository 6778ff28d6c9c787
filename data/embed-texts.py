#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes texts as C, to be built in: embed-texts.py OUTPUT PREFIX TEXT…

Each becomes a string of the prefix and the name of its file.
"""

import json
import os
import re
import sys


def main():
    output, prefix, *paths = sys.argv[1:]
    with open(output, "w", encoding="ascii") as stream:
        stream.write("#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
        for path in paths:
            with open(path, encoding="ascii") as text:
                lines = "\n".join("\t" + json.dumps(line) for line in text)
            name = re.sub(r"\W", "_", prefix + os.path.basename(path))
            stream.write(f"extern const char {name}[];\nconst char {name}[] =\n{lines};\n")


if __name__ == "__main__":
    main()
