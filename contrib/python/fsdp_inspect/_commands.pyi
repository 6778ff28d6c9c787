# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Commands as methods of a checkpoint and as functions. scripts/gen-python writes this file."""
from __future__ import annotations
import os
from typing import TYPE_CHECKING, Any, List, Literal, Optional, Sequence, Union
from ._answer import Answer, Audit, Tree
from ._command import Path, expanded
if TYPE_CHECKING:
    from ._checkpoint import Checkpoint
Word = Union[str, int, 'os.PathLike[str]']

class Commands:
    """Questions about one checkpoint. Keywords are the options of the command."""
    _options: List[Any]

    @property
    def _place(self) -> str:
        ...

    def audit(self, *, quick: bool=False, data: bool=False, values: bool=False, require_checksums: bool=False, manifest: Optional[Word]=None, listing: Optional[Word]=None, rule: Union[Word, Sequence[Word], None]=None, allow_global: Union[Word, Sequence[Word], None]=None, expect: Optional[Word]=None, merged: Optional[Word]=None, map: Optional[Word]=None, size: Union[Word, Sequence[Word], None]=None, ignore: Union[Word, Sequence[Word], None]=None, loader: Union[Word, Sequence[Word]]='auto', world: Optional[int]=None, loader_version: Optional[Word]=None, loader_option: Union[Word, Sequence[Word], None]=None, checks: bool=False, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Audit:
        ...

    def diff(self, other: Union[Path, Checkpoint], *, names: bool=False, layout: bool=False, values: bool=False, tol: Optional[Word]=None, stat: bool=False, strip: Optional[Word]=None, rename: Union[Word, Sequence[Word], None]=None, map: Optional[Word]=None, size: Union[Word, Sequence[Word], None]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def export(self, out: Path, *, to: Optional[Literal['hf', 'safetensors', 'npy', 'raw']]=None, max_shard_size: Union[int, str, None]=None, tie: Optional[Literal['drop', 'keep']]=None, strip: Optional[Word]=None, rename: Union[Word, Sequence[Word], None]=None, map: Optional[Word]=None, size: Union[Word, Sequence[Word], None]=None, weights: Optional[Literal['master', 'model']]=None, dtype: Optional[Literal['bfloat16', 'float16', 'float32']]=None, with_config: Optional[Word]=None, prefix: Optional[Word]=None, adapter: bool=False, base: bool=False, index_only: bool=False, force: bool=False, partial: bool=False, skip_unsupported: bool=False, no_verify: bool=False, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, select_dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def flat(self, *, unit: Optional[Word]=None, param: Optional[Word]=None, at: Optional[Word]=None, units_from: Optional[Word]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, rank: Optional[Word]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def fqns(self, *, bare: bool=False, flat: bool=False, raw_map: bool=False, by_parameter: bool=False, units: Optional[Literal['known', 'likely']]=None, units_from: Optional[Word]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, depth: Optional[int]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def hash(self, *, stored: bool=False, logical: bool=False, names: bool=False, trust_store: bool=False, check: Optional[Word]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def reshard(self, *, world: Optional[int]=None, mesh: Optional[Word]=None, tp: Optional[int]=None, shard_dim: Optional[Word]=None, fit: Union[int, str, None]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def stats(self, *names: str, nonfinite: bool=False, hist: bool=False, by: Optional[Literal['module', 'layer', 'unit', 'dtype', 'role']]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, depth: Optional[int]=None, sort: Union[Word, Sequence[Word], None]=None, largest: bool=False, reverse: bool=False, head: Optional[int]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
        ...

    def tree(self, *, sizes: bool=False, full: bool=False, fold: bool=False, no_fold: bool=False, sharded_only: bool=False, params: bool=False, style: Optional[Literal['default', 'torch']]=None, units_from: Optional[Word]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, depth: Optional[int]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Tree:
        ...

def _path(of: Union[Path, Checkpoint]) -> Path:
    ...

def latest(*runs: Path, level: Optional[Literal['quick', 'headers', 'data']]=None, explain: bool=False, all: bool=False, count: Optional[int]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
    ...

def order(files: Union[Path, Sequence[Path]], *, first_diff: bool=False, names: Optional[Word]=None, rank_regex: Optional[Word]=None, strict: bool=False, head: Optional[int]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
    ...

def replay(files: Union[Path, Sequence[Path]], *, by: Optional[Literal['type', 'rank', 'step', 'collective', 'unit', 'group', 'kernel', 'idle', 'region']]=None, top: Optional[int]=None, advice: Optional[Literal['yes', 'no']]=None, memory: bool=False, percentiles: bool=False, steps: Optional[Word]=None, timeline: Optional[int]=None, style: Optional[Literal['default', 'torch']]=None, rank_regex: Optional[Word]=None, strict: bool=False, fail_if: Union[Word, Sequence[Word], None]=None, compare: Union[Word, Sequence[Word], None]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
    ...

def diff(a: Union[Path, Checkpoint], b: Union[Path, Checkpoint], *, names: bool=False, layout: bool=False, values: bool=False, tol: Optional[Word]=None, stat: bool=False, strip: Optional[Word]=None, rename: Union[Word, Sequence[Word], None]=None, map: Optional[Word]=None, size: Union[Word, Sequence[Word], None]=None, glob: Union[Word, Sequence[Word], None]=None, regex: Union[Word, Sequence[Word], None]=None, dtype: Union[Word, Sequence[Word], None]=None, role: Union[Word, Sequence[Word], None]=None, min_bytes: Union[int, str, None]=None, max_bytes: Union[int, str, None]=None, rank: Optional[Word]=None, file: Union[Word, Sequence[Word], None]=None, jobs: Optional[int]=None, part: Optional[Word]=None, limit: Union[Word, Sequence[Word], None]=None, fail_on: Optional[Literal['none', 'note', 'warning', 'error']]=None) -> Answer:
    ...
