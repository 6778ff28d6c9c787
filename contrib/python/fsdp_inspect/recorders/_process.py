# SPDX-License-Identifier: Apache-2.0
"""Which process of the run this is.

Knows torch.distributed and the variables of torchrun. Refuses to talk to other ranks.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator, Optional, Tuple

from ._files import Path, Recording, path_of_rank

FORMAT = "fsdp-inspect-trace"
VERSION = 1


def rank_and_world() -> Tuple[int, int]:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    # Before init_process_group, torchrun has said it already.
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1


def debug_level() -> str:
    """OFF, INFO or DETAIL, as torch understood TORCH_DISTRIBUTED_DEBUG."""
    import torch.distributed as dist

    return str(dist.get_debug_level().name) if dist.is_available() else "OFF"


def torch_version() -> str:
    import torch

    return str(torch.__version__).split("+")[0]


def recording(path: Path) -> Optional[Recording]:
    """This rank's recording; None on a rank that writes none."""
    name = path_of_rank(path, rank_and_world()[0])
    return None if name is None else Recording(name)


@contextmanager
def private_torch(what: str) -> Iterator[None]:
    """Names the release of torch where something private is not where it is looked for."""
    try:
        yield
    except (AttributeError, ImportError) as error:
        raise RuntimeError(f"{what} cannot be read: torch {torch_version()} keeps it in another place than the releases "
                           f"from 2.3 to 2.15 that this exporter knows ({error})") from error
