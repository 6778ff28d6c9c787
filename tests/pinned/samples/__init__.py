# SPDX-License-Identifier: Apache-2.0
"""Files that pinned cases read and testdata/ has not: `@ NAME [WORD...]` in a case calls the function NAME of one
of the modules here with the folder of the case and the words."""

import importlib
import os
import shlex

HERE = os.path.dirname(os.path.abspath(__file__))


def functions():
    """name -> function, of all modules."""
    found = {}
    for module in sorted(name[:-3] for name in os.listdir(HERE) if name.endswith(".py") and name != "__init__.py"):
        for name, one in vars(importlib.import_module(f"{__name__}.{module}")).items():
            if getattr(one, "is_sample", False):
                assert name not in found, f"two samples {name}"
                found[name] = one
    return found


def make(path, lines):
    """Makes the samples of these lines of a case in its folder."""
    for line in lines:
        name, *words = shlex.split(line)
        found[name](Folder(path), *words)


from .files import Folder  # noqa: E402

found = functions()
