# SPDX-License-Identifier: Apache-2.0
"""Commands as methods of a checkpoint and as functions. scripts/gen-python writes this file."""

# ruff: noqa: E501
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Literal, Optional, Sequence, Union

from ._answer import Answer, Audit, Tree
from ._command import Path, expanded

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint

Word = Union[str, int, "os.PathLike[str]"]


class Commands:
    """Questions about one checkpoint. Keywords are the options of the command."""

    _options: List[Any]

    @property
    def _place(self) -> str:
        raise NotImplementedError

    def audit(self, *, quick: bool = False, data: bool = False, values: bool = False, require_checksums: bool = False, manifest: Optional[Word] = None, listing: Optional[Word] = None, rule: Union[Word, Sequence[Word], None] = None, allow_global: Union[Word, Sequence[Word], None] = None, expect: Optional[Word] = None, merged: Optional[Word] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, ignore: Union[Word, Sequence[Word], None] = None, loader: Union[Word, Sequence[Word]] = "auto", world: Optional[int] = None, loader_version: Optional[Word] = None, loader_option: Union[Word, Sequence[Word], None] = None, checks: bool = False, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Audit:
        """check whether a checkpoint is complete, intact and safe

        quick: check names, sizes and top-level metadata only
        data: also read every byte
        values: like --data, and count NaN and Inf values
        require_checksums: with --data: partial if a file has no checksums
        manifest: with --data: compare with SHA-256 digests (sha256sum)
        listing: like --quick, for files of this list (aws s3 ls, ls -lR)
        rule: change the severity of a rule: off, note, warning, error
        allow_global: trust this global in pickles
        expect: compare names with a JSON file, a checkpoint or a plan
        merged: compare with a converted checkpoint; with --data all bytes
        map: with --merged: names of another framework (help maps)
        size: set a number of the map: num_attention_heads=32
        ignore: names that --expect and --merged skip
        loader: check with these loaders; auto: the one of its format
        world: with --for: world size of the run that loads
        loader_version: with --for: version of the library (default: the newest)
        loader_option: with --for: set a parameter of the loader
        checks: list the result of every rule
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"quick": quick, "data": data, "values": values, "require-checksums": require_checksums, "manifest": manifest, "listing": listing, "rule": rule, "allow-global": allow_global, "expect": expect, "merged": merged, "map": map, "size": size, "ignore": ignore, "for": loader if loader != "auto" else None, "world": world, "loader-version": loader_version, "loader-option": loader_option, "checks": checks, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Audit.of("audit", self._options, [self._place], given)

    def diff(self, other: Union[Path, Checkpoint], *, names: bool = False, layout: bool = False, values: bool = False, tol: Optional[Word] = None, stat: bool = False, strip: Optional[Word] = None, rename: Union[Word, Sequence[Word], None] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """compare two checkpoints

        names: compare names only
        layout: also compare placements and FSDP units
        values: also compare elements and values
        tol: with --values: equal if |a - b| <= ABS + REL * |b|
        stat: print one row per module
        strip: remove this prefix from names; none: remove no prefix
        rename: rename tensors of A, by full name or prefix
        map: compare names of two frameworks with this map (help maps)
        size: set a number of the map: num_attention_heads=32
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        dtype: select these dtypes: bfloat16,float32
        role: select tensors with these roles
        min_bytes: select tensors of at least SIZE
        max_bytes: select tensors of at most SIZE
        rank: select tensors with pieces of these ranks: 0,4-7
        file: select tensors with pieces in these files
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"names": names, "layout": layout, "values": values, "tol": tol, "stat": stat, "strip": strip, "rename": rename, "map": map, "size": size, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("diff", self._options, [self._place, _path(other)], given)

    def export(self, out: Path, *, to: Optional[Literal["hf", "safetensors", "npy", "raw"]] = None, max_shard_size: Union[int, str, None] = None, tie: Optional[Literal["drop", "keep"]] = None, strip: Optional[Word] = None, rename: Union[Word, Sequence[Word], None] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, weights: Optional[Literal["master", "model"]] = None, dtype: Optional[Literal["bfloat16", "float16", "float32"]] = None, with_config: Optional[Word] = None, prefix: Optional[Word] = None, adapter: bool = False, base: bool = False, index_only: bool = False, force: bool = False, partial: bool = False, skip_unsupported: bool = False, no_verify: bool = False, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, select_dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """write safetensors, or one tensor

        to: write shards, one file, or one tensor (default: by OUT)
        max_shard_size: largest size of one shard (default 5GB)
        tie: write tied tensors under one name, or under all
        strip: remove this prefix from names; auto, none
        rename: rename tensors, by full name or prefix
        map: convert names and layouts with this map (help maps)
        size: set a number of the map: num_attention_heads=32
        weights: DeepSpeed: float32 weights of the optimizer, or the model's
        dtype: convert floating-point tensors (round to nearest even)
        with_config: copy configuration and tokenizer from this directory
        prefix: export the state dict of this name
        adapter: export only the LoRA adapter of an unmerged model
        base: export an unmerged model without its LoRA adapter
        index_only: only create the missing index file
        force: replace existing files
        partial: export complete tensors of an incomplete checkpoint
        skip_unsupported: skip tensors that the format cannot store
        no_verify: do not read back the output; print no digests
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        select_dtype: select these dtypes: bfloat16,float32
        role: select tensors with these roles
        min_bytes: select tensors of at least SIZE
        max_bytes: select tensors of at most SIZE
        rank: select tensors with pieces of these ranks: 0,4-7
        file: select tensors with pieces in these files
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"to": to, "max-shard-size": max_shard_size, "tie": tie, "strip": strip, "rename": rename, "map": map, "size": size, "weights": weights, "cast": dtype, "with-config": with_config, "prefix": prefix, "adapter": adapter, "base": base, "index-only": index_only, "force": force, "partial": partial, "skip-unsupported": skip_unsupported, "no-verify": no_verify, "glob": glob, "regex": regex, "dtype": select_dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("export", [*self._options, "-o", out], [self._place], given)

    def flat(self, *, unit: Optional[Word] = None, param: Optional[Word] = None, at: Optional[Word] = None, units_from: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, rank: Optional[Word] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """show the layout of each FlatParameter

        unit: show only the unit of this module; '' is the root
        param: locate a parameter, or one element of it: 100 or 6,4
        at: show the parameter at this element of a rank's shard
        units_from: use the units of a trace, or of a log with the printed model
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        rank: select tensors with pieces of these ranks: 0,4-7
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"unit": unit, "param": param, "at": at, "units-from": units_from, "glob": glob, "regex": regex, "rank": rank, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("flat", self._options, [self._place], given)

    def fqns(self, *, bare: bool = False, flat: bool = False, raw_map: bool = False, by_parameter: bool = False, units: Optional[Literal["known", "likely"]] = None, units_from: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, depth: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """print parameter names by module as JSON

        bare: print PyTorch's own map: raw keys, FSDP1 units only
        flat: print only the names of parameters
        raw_map: print stored names, each with its clean name
        by_parameter: print all names of each parameter, with tied ones
        units: likely: infer units if no plan or log names them
        units_from: use the units of a trace, or of a log with the printed model
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        dtype: select these dtypes: bfloat16,float32
        role: select tensors with these roles
        min_bytes: select tensors of at least SIZE
        max_bytes: select tensors of at most SIZE
        rank: select tensors with pieces of these ranks: 0,4-7
        file: select tensors with pieces in these files
        depth: print N levels below the root
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"bare": bare, "flat": flat, "raw-map": raw_map, "by-parameter": by_parameter, "units": units, "units-from": units_from, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "depth": depth, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("fqns", self._options, [self._place], given)

    def hash(self, *, stored: bool = False, logical: bool = False, names: bool = False, trust_store: bool = False, check: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """print digests of files and tensors

        stored: hash each file as stored, like sha256sum (default)
        logical: hash elements: equal for every sharding and format
        names: hash names, dtypes and shapes; read headers only
        trust_store: print the SHA-256 that the Hub lists, without reading
        check: compare with the digests in this file
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        dtype: select these dtypes: bfloat16,float32
        role: select tensors with these roles
        min_bytes: select tensors of at least SIZE
        max_bytes: select tensors of at most SIZE
        rank: select tensors with pieces of these ranks: 0,4-7
        file: select tensors with pieces in these files
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"stored": stored, "logical": logical, "names": names, "trust-store": trust_store, "check": check, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("hash", self._options, [self._place], given)

    def reshard(self, *, world: Optional[int] = None, mesh: Optional[Word] = None, tp: Optional[int] = None, shard_dim: Optional[Word] = None, fit: Union[int, str, None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """show the pieces for another world size

        world: ranks of the new run
        mesh: HSDP: A replicas of the model, each on B ranks
        tp: ranks of tensor parallelism, innermost
        shard_dim: dimension to shard; auto: as saved, else 0
        fit: memory per rank: status 1 if a rank needs more
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"world": world, "mesh": mesh, "tp": tp, "shard-dim": shard_dim, "fit": fit, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("reshard", self._options, [self._place], given)

    def stats(self, *names: str, nonfinite: bool = False, hist: bool = False, by: Optional[Literal["module", "layer", "unit", "dtype", "role"]] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, depth: Optional[int] = None, sort: Union[Word, Sequence[Word], None] = None, largest: bool = False, reverse: bool = False, head: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """print min, max, mean, deviation, NaN and Inf counts

        nonfinite: list only tensors with NaN or Inf; then exit with 1
        hist: print a histogram of each; reads the bytes twice
        by: group tensors by this
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        dtype: select these dtypes: bfloat16,float32
        role: select tensors with these roles
        min_bytes: select tensors of at least SIZE
        max_bytes: select tensors of at most SIZE
        rank: select tensors with pieces of these ranks: 0,4-7
        file: select tensors with pieces in these files
        depth: print N levels below the root
        sort: sort rows by columns; -KEY: descending
        largest: sort by size, largest first (-s -bytes)
        reverse: reverse the order of rows
        head: print the first N rows
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"nonfinite": nonfinite, "hist": hist, "by": by, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "depth": depth, "sort": sort, "largest": largest, "reverse": reverse, "head": head, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("stats", [*self._options, *[f"--glob={each}" for each in names]], [self._place], given)

    def tree(self, *, sizes: bool = False, full: bool = False, fold: bool = False, no_fold: bool = False, sharded_only: bool = False, params: bool = False, style: Optional[Literal["default", "torch"]] = None, units_from: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, depth: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Tree:
        """show the module tree and FSDP units

        sizes: show parameters, bytes, percentage and bytes per rank
        full: print full names
        fold: print one line for siblings that differ in one word
        no_fold: print one line per module, also on a terminal
        sharded_only: show only fully sharded modules and their parents
        params: show the parameters of each module
        style: torch: print the model like PyTorch
        units_from: use the units of a trace, or of a log with the printed model
        glob: select names: * in a segment, ** across; !PATTERN excludes
        regex: select names that match this PCRE2 expression
        dtype: select these dtypes: bfloat16,float32
        role: select tensors with these roles
        min_bytes: select tensors of at least SIZE
        max_bytes: select tensors of at most SIZE
        rank: select tensors with pieces of these ranks: 0,4-7
        file: select tensors with pieces in these files
        depth: print N levels below the root
        jobs: read with N threads
        part: read part K of N of the bytes; merge joins the results
        limit: change a limit; 0: no limit (help limits)
        fail_on: exit with 1 on findings at this level or above"""
        given = {"sizes": sizes, "full": full, "fold": fold, "no-fold": no_fold, "sharded-only": sharded_only, "params": params, "style": style, "units-from": units_from, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "depth": depth, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Tree.of("tree", self._options, [self._place], given)


def _path(of: Union[Path, Checkpoint]) -> Path:
    return of._place if isinstance(of, Commands) else of


def latest(*runs: Path, level: Optional[Literal["quick", "headers", "data"]] = None, explain: bool = False, all: bool = False, count: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """print the newest good checkpoint of a run

    level: check names and sizes, all headers, or every byte
    explain: show why newer checkpoints were rejected
    all: list all checkpoints with their sizes
    count: print the N newest good checkpoints
    jobs: read with N threads
    part: read part K of N of the bytes; merge joins the results
    limit: change a limit; 0: no limit (help limits)
    fail_on: exit with 1 on findings at this level or above"""
    given = {"level": level, "explain": explain, "all": all, "count": count, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("latest", [], runs, given)


def order(files: Union[Path, Sequence[Path]], *, first_diff: bool = False, names: Optional[Word] = None, rank_regex: Optional[Word] = None, strict: bool = False, head: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """show execution order and where ranks diverge

    first_diff: print only the first divergence, in any iteration
    names: compare with the FlatParameters of this checkpoint or plan
    rank_regex: read ranks of dumps from paths with this expression
    strict: exit with 1 if PyTorch would warn or reject a state
    head: print the first N lines of each list
    jobs: read with N threads
    part: read part K of N of the bytes; merge joins the results
    limit: change a limit; 0: no limit (help limits)
    fail_on: exit with 1 on findings at this level or above"""
    given = {"first-diff": first_diff, "names": names, "rank-regex": rank_regex, "strict": strict, "head": head, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("order", [], expanded(files), given)


def replay(files: Union[Path, Sequence[Path]], *, by: Optional[Literal["type", "rank", "step", "collective", "unit", "group", "kernel", "idle", "region"]] = None, top: Optional[int] = None, advice: Optional[Literal["yes", "no"]] = None, memory: bool = False, percentiles: bool = False, steps: Optional[Word] = None, timeline: Optional[int] = None, style: Optional[Literal["default", "torch"]] = None, rank_regex: Optional[Word] = None, strict: bool = False, fail_if: Union[Word, Sequence[Word], None] = None, compare: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """show where training step time is spent

    by: show only this table
    top: show the N rows with the most time in each table
    advice: print where most time is lost
    memory: read memory snapshots: used memory by stack
    percentiles: show min, p50, p95 and max time per call
    steps: use only these steps: 3,10-19
    timeline: draw one line per rank over time; with --memory N rows
    style: torch: print only the lines of SimpleProfiler
    rank_regex: read ranks from paths with this expression
    strict: treat every warning as a failure
    fail_if: status 1 if exposed>20%, idle>30%, TYPE>50ms, TYPE>1.2x ...
    compare: compare with earlier recordings or a replay --json result
    jobs: read with N threads
    part: read part K of N of the bytes; merge joins the results
    limit: change a limit; 0: no limit (help limits)
    fail_on: exit with 1 on findings at this level or above"""
    given = {"by": by, "top": top, "advice": advice, "memory": memory, "percentiles": percentiles, "steps": steps, "timeline": timeline, "style": style, "rank-regex": rank_regex, "strict": strict, "fail-if": fail_if, "compare": compare, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("replay", [], expanded(files), given)


def diff(a: Union[Path, Checkpoint], b: Union[Path, Checkpoint], *, names: bool = False, layout: bool = False, values: bool = False, tol: Optional[Word] = None, stat: bool = False, strip: Optional[Word] = None, rename: Union[Word, Sequence[Word], None] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """compare two checkpoints

    names: compare names only
    layout: also compare placements and FSDP units
    values: also compare elements and values
    tol: with --values: equal if |a - b| <= ABS + REL * |b|
    stat: print one row per module
    strip: remove this prefix from names; none: remove no prefix
    rename: rename tensors of A, by full name or prefix
    map: compare names of two frameworks with this map (help maps)
    size: set a number of the map: num_attention_heads=32
    glob: select names: * in a segment, ** across; !PATTERN excludes
    regex: select names that match this PCRE2 expression
    dtype: select these dtypes: bfloat16,float32
    role: select tensors with these roles
    min_bytes: select tensors of at least SIZE
    max_bytes: select tensors of at most SIZE
    rank: select tensors with pieces of these ranks: 0,4-7
    file: select tensors with pieces in these files
    jobs: read with N threads
    part: read part K of N of the bytes; merge joins the results
    limit: change a limit; 0: no limit (help limits)
    fail_on: exit with 1 on findings at this level or above"""
    given = {"names": names, "layout": layout, "values": values, "tol": tol, "stat": stat, "strip": strip, "rename": rename, "map": map, "size": size, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("diff", [], [_path(a), _path(b)], given)
