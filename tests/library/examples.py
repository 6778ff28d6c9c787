#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of the public headers, as one program, and what they print.

examples.py HEADER...: writes the program. examples.py --run PROGRAM TESTDATA HEADER...: runs each
example on its sample and compares the output with the comment.

An example is in the first comment of its header: a line "Example (SAMPLE...):", a function, a line
"It prints:" and the output, both indented by four columns. The program gives the function what its
parameters ask for: a path, all paths, opened checkpoints, or the error of a path that cannot be opened.
"""

import glob
import os
import re
import subprocess
import sys

FORM = re.compile(r"^Example \(([^)]+)\):\n\n((?:    .*\n|\n)+)\nIt prints:\n\n((?:    .*\n|\n)+)", re.MULTILINE)
ARGUMENTS = {
    "const char *path": "argv[2]",
    "const char *const *paths": "(const char *const *)(argv + 2)",
    "size_t count": "(size_t)argc - 2",
    "const struct fsdp_checkpoint *checkpoint": "open_path(0, argv[2])",
    "const struct fsdp_checkpoint *a": "open_path(0, argv[2])",
    "const struct fsdp_checkpoint *b": "open_path(1, argv[3])",
    "const struct fsdp_error *error": "error_of(argv[2])",
    "struct fsdp_error **ret_error": "&error",
}
HELPERS = """
static struct fsdp_checkpoint *checkpoints[2];
static struct fsdp_error *error;

static struct fsdp_checkpoint *open_path(unsigned side, const char *path)
{
	if (!fsdp_checkpoint_open(&path, 1, NULL, &checkpoints[side], &error)) {
		fprintf(stderr, "%s\\n", fsdp_error_message(error));
		exit(1);
	}
	return checkpoints[side];
}

static const struct fsdp_error *error_of(const char *path)
{
	return fsdp_checkpoint_open(&path, 1, NULL, &checkpoints[0], &error) ? NULL : error;
}
"""


def example(path):
    """Samples, code and output of a header; None: it has no example."""
    with open(path, encoding="utf-8") as stream:
        head = re.search(r"^/\*\*\n(.*?)^ \*/", stream.read(), re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ \* ?", "", head[1], flags=re.MULTILINE) if head else ""
    found = FORM.search(text)
    if not found:
        return None
    code, output = (re.sub("^    ", "", found[n], flags=re.MULTILINE).strip("\n") + "\n" for n in (2, 3))
    return found[1].split(), code, output


def call(header, code):
    """The lines that call an example."""
    name, parameters = re.match(r"\w+ (\w+)\(([^)]*)\)", code).groups()
    values = [ARGUMENTS[" ".join(one.split())] for one in parameters.split(",")]
    ends = "" if code.startswith("void") else "return "
    tail = "" if ends else "\n\t\treturn true;"
    return f'\tif (strcmp(argv[1], "{header}") == 0) {{\n\t\t{ends}{name}({", ".join(values)});{tail}\n\t}}\n'


def write(headers):
    print("/* Made by tests/library/examples.py. */\n#include <inttypes.h>\n#include <stdio.h>\n#include <stdlib.h>"
          "\n#include <string.h>\n")
    codes = {os.path.basename(path): example(path)[1] for path in headers}
    for header, code in codes.items():
        print(f"#include <fsdp/{header}>\n\nstatic {code}")
    print(HELPERS + "\nstatic bool run(int argc, char **argv)\n{\n"
          + "".join(call(header, code) for header, code in codes.items())
          + "\treturn argc < 0;\n}\n\nint main(int argc, char **argv)\n{\n"
          "\treturn run(argc, argv) ? 0 : 1;\n}")


def paths(testdata, samples):
    return [path for sample in samples for path in sorted(glob.glob(os.path.join(testdata, sample.partition("testdata/")[2])))]


def check(program, testdata, headers):
    wrong = 0
    for path in headers:
        samples, _, due = example(path)
        command = [program, os.path.basename(path), *paths(testdata, samples)]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if (result.returncode, result.stdout) != (0, due):
            print(f"{path}: its example ends with {result.returncode} and prints\n{result.stdout}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(check(sys.argv[2], sys.argv[3], sys.argv[4:]) if sys.argv[1] == "--run" else write(sys.argv[1:]))
