# SPDX-License-Identifier: Apache-2.0
"""python -m fsdp_inspect_export is python -m fsdp_inspect.recorders."""

import sys

from fsdp_inspect.recorders.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
