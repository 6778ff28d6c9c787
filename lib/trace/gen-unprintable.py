#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the code points beyond ASCII that Python 3.11 (Unicode 14.0) does not print, as UNPRINTABLE(first, last) for
each run. Another Python gives the same table: what Unicode 14.0 added, and what later versions added, is listed here."""

import hashlib
import itertools
import sys
import unicodedata

ADDED = """61d 870-88e 898-89f 8b5 8c8-8d2 c3c c5d cdd 170d 1715 171f 180f 1ac1-1ace 1b4c 1b7d-1b7e 1dfa 20c0 2c2f 2c5f
2e53-2e5d 9ffd-9fff a7c0-a7c1 a7d0-a7d1 a7d3 a7d5-a7d9 a7f2-a7f4 fbc2 fd40-fd4f fdcf fdfe-fdff 10570-1057a 1057c-1058a
1058c-10592 10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc 10780-10785 10787-107b0 107b2-107ba 10f70-10f89
11070-11075 110c2 116b9 11740-11746 11ab0-11abf 12f90-12ff2 16a70-16abe 16ac0-16ac9 1aff0-1aff3 1aff5-1affb 1affd-1affe
1b11f-1b122 1cf00-1cf2d 1cf30-1cf46 1cf50-1cfc3 1d1e9-1d1ea 1df00-1df1e 1e290-1e2ae 1e7e0-1e7e6 1e7e8-1e7eb 1e7ed-1e7ee
1e7f0-1e7fe 1f6dd-1f6df 1f7f0 1f979 1f9cc 1fa7b-1fa7c 1faa9-1faac 1fab7-1faba 1fac3-1fac5 1fad7-1fad9 1fae0-1fae7
1faf0-1faf6 2a6de-2a6df 2b735-2b738"""
# Unicode 15.0 to 17.0.
LATER = """88f 897 c5c cdc cf3 ece 1acf-1add 1ae0-1aeb 1b4e-1b4f 1b7f 1c89-1c8a 20c1 2427-2429 2b96 2ffc-2fff 31e4-31e5 31ef
a7cb-a7cf a7d2 a7d4 a7da-a7dc a7f1 fbc3-fbd2 fd90-fd91 fdc8-fdce 105c0-105f3 10940-10959 10d40-10d65 10d69-10d85
10d8e-10d8f 10ec2-10ec7 10ed0-10ed8 10efa-10eff 1123f-11241 11380-11389 1138b 1138e 11390-113b5 113b7-113c0 113c2 113c5
113c7-113ca 113cc-113d5 113d7-113d8 113e1-113e2 116d0-116e3 11b00-11b09 11b60-11b67 11bc0-11be1 11bf0-11bf9 11db0-11ddb
11de0-11de9 11f00-11f10 11f12-11f3a 11f3e-11f5a 1342f 13440-13455 13460-143fa 16100-16139 16d40-16d79 16ea0-16eb8
16ebb-16ed3 16ff2-16ff6 187f8-187ff 18cff 18d09-18d1e 18d80-18df2 1b132 1b155 1cc00-1ccfc 1cd00-1ceb3 1ceba-1ced0
1cee0-1cef0 1d2c0-1d2d3 1df25-1df2a 1e030-1e06d 1e08f 1e4d0-1e4f9 1e5d0-1e5fa 1e5ff 1e6c0-1e6de 1e6e0-1e6f5 1e6fe-1e6ff
1f6d8 1f6dc 1f774-1f77f 1f7d9 1f8b2-1f8bb 1f8c0-1f8c1 1f8d0-1f8d8 1fa54-1fa57 1fa75-1fa77 1fa87-1fa8a 1fa8e-1fa8f
1faad-1faaf 1fabb-1fabf 1fac6 1fac8 1facd-1facf 1fada-1fadc 1fadf 1fae8-1faea 1faef 1faf7-1faf8 1fbcb-1fbef 1fbfa
2b739-2b73f 2cea2-2cead 2ebf0-2ee5d 31350-33479"""
DIGEST = "5d58e41c6e51fdf47cf605c8761b742c702dec5bbf3697724bf81c8f248041dc"


def points(runs):
    for run in runs.split():
        first, _, last = run.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


added, later = set(points(ADDED)), set(points(LATER))
absent = (c for c in range(128, 0x110000) if c in later or not (c in added or chr(c).isprintable()))
runs = [[c for _, c in run] for _, run in itertools.groupby(enumerate(absent), lambda pair: pair[1] - pair[0])]
text = "".join(f"UNPRINTABLE({run[0]:#x}, {run[-1]:#x})\n" for run in runs)
if hashlib.sha256(text.encode()).hexdigest() != DIGEST:
    sys.exit(f"gen-unprintable.py: Unicode {unicodedata.unidata_version} has assigned more: add it to LATER")
print(text, end="")
