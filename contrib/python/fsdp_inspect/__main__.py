# SPDX-License-Identifier: Apache-2.0
"""python -m fsdp_inspect ARGUMENT... is the command itself."""

import os
import sys

from ._command import NAME, Error, binary

if __name__ == "__main__":
    try:
        command = binary()
    except Error as error:
        sys.exit(f"{NAME}: {error}")
    os.execv(command, [NAME, *sys.argv[1:]])
