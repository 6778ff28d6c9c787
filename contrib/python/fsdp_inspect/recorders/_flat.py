# SPDX-License-Identifier: Apache-2.0
"""How a flat parameter falls on its shard ranks.

Integers in and out; no torch. A flat parameter is its parameters and padding end to end,
cut into as many pieces of ceil(n / shards) elements.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

# A plan leaves spans out above this many: they grow with units times ranks, and follow
# from the rest.
RANKS_MAX = 8


def pieces(fqns: Sequence[str], numels: Sequence[int], padding: Sequence[bool], shards: int) -> Dict[str, Any]:
    """The sizes of a flat parameter, and where its parameters lie. `numels` and `padding`
    include padding in place, `fqns` does not."""
    whole = sum(numels)
    piece = -(-whole // shards)
    result: Dict[str, Any] = {
        "unpadded_unsharded_numel": whole,
        "unsharded_numel": piece * shards,
        "sharded_numel": piece,
        "shard_numel_padded": [min(max((rank + 1) * piece - whole, 0), piece) for rank in range(shards)],
    }
    if shards <= RANKS_MAX:
        extents = list(_extents(fqns, numels, padding))
        result["ranks"] = [{"rank": rank, "spans": _spans(extents, rank * piece, (rank + 1) * piece)}
                           for rank in range(shards)]
    return result


def _extents(fqns: Sequence[str], numels: Sequence[int],
             padding: Sequence[bool]) -> Iterator[Tuple[str, int, int]]:
    """(name, begin, end) of each parameter in the whole, end exclusive."""
    names = iter(fqns)
    begin = 0
    for numel, is_padding in zip(numels, padding):
        if not is_padding:
            yield next(names), begin, begin + numel
        begin += numel


def _spans(extents: Sequence[Tuple[str, int, int]], begin: int, end: int) -> List[Dict[str, Any]]:
    """What lies from begin up to end; positions inclusive, as in PyTorch's _ShardParamInfo."""
    found = []
    for fqn, first, after in extents:
        low, high = max(first, begin), min(after, end) - 1
        if low <= high:
            found.append({"fqn": fqn, "flat_start": low - begin, "flat_end": high - begin,
                          "param_start": low - first, "param_end": high - first})
    return found
