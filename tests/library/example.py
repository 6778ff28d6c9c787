#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of a manual page as a program.

example.py PAGE: what stands between .Bd -literal and .Ed in its section EXAMPLES, as mandoc would
show it.
"""

import re
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as stream:
        section = stream.read().partition("\n.Sh EXAMPLES\n")[2]
    found = re.search(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", section, re.DOTALL | re.MULTILINE)
    if not found:
        sys.exit(f"{sys.argv[1]}: no example")
    sys.stdout.write(found.group(1).replace("\\e", "\\"))


if __name__ == "__main__":
    main()
