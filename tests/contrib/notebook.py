#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The notebooks of doc/ run from beginning to end, without torch.

notebook.py ROOT [plain]: in a kernel of their own if this Python has nbclient and ipykernel, which
is skipped otherwise; with `plain` as one program, which needs neither.
"""

import glob
import json
import os
import sys

SKIP = 77
HIDDEN = """import sys
sys.modules["torch"] = None
"""


def run_in_kernel(path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(HIDDEN))
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": os.getcwd()}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    html = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    print(f"{path}: {len(shown)} outputs, {len(html)} of them with HTML")
    assert html, "nothing was shown as HTML"


def run_plain(path):
    with open(path, encoding="utf-8") as stream:
        notebook = json.load(stream)
    program = HIDDEN + "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    exec(compile(program, path, "exec"), {"__name__": "__main__"})  # pylint: disable=exec-used


def main():
    root, plain = sys.argv[1], sys.argv[2:] == ["plain"]
    os.chdir(root)
    if not plain:
        try:
            import ipykernel  # noqa: F401
            import nbclient  # noqa: F401
        except ImportError as missing:
            print(f"not run in a kernel: {missing}")
            return SKIP
    for path in sorted(glob.glob("doc/*.ipynb")):
        (run_plain if plain else run_in_kernel)(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
