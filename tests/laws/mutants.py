#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every mutant of tests/mutants.txt can still be made, and says why it changes nothing."""

import os
import sys

import law

sys.path.insert(0, os.path.join(law.ROOT, "scripts", "mutation"))
sys.dont_write_bytecode = True

import mutate


def check(root):
    if not os.path.exists(os.path.join(root, mutate.EQUIVALENT)):
        return []
    return [f"{mutate.EQUIVALENT}: {why}" for why in mutate.complaints(root)]


if __name__ == "__main__":
    law.main(check)
