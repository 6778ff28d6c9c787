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

    def audit(self, *, quick: bool = False, data: bool = False, values: bool = False, require_checksums: bool = False, manifest: Optional[Word] = None, rule: Union[Word, Sequence[Word], None] = None, allow_global: Union[Word, Sequence[Word], None] = None, expect: Optional[Word] = None, merged: Optional[Word] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, ignore: Union[Word, Sequence[Word], None] = None, loader: Union[Word, Sequence[Word]] = "auto", world: Optional[int] = None, loader_version: Optional[Word] = None, loader_option: Union[Word, Sequence[Word], None] = None, checks: bool = False, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Audit:
        """is it complete, intact, safe?

        quick: names, sizes and the topmost metadata only
        data: read every byte too
        values: with --data: and count values that are not finite
        require_checksums: with --data: files without checksums make it partial
        manifest: with --data: SHA-256 digests of the files, as sha256sum writes
        rule: another level: off, note, warning, error; *=off first
        allow_global: a global of pickles whose code is trusted
        expect: the names it must have: a JSON list or map, a checkpoint, a plan
        merged: must be the same, converted: names, shapes; with --data all bytes
        map: with --merged: names of another framework (help maps)
        size: a number that the map uses: num_attention_heads=32
        ignore: names that --expect and --merged leave out
        loader: judge what these loaders would do with it; auto, the default: that of its own kind
        world: with --for: ranks of the run that loads
        loader_version: with --for: of the loader's library; else the newest known
        loader_option: with --for: a parameter of the loader's call or run
        checks: list what became of every rule
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"quick": quick, "data": data, "values": values, "require-checksums": require_checksums, "manifest": manifest, "rule": rule, "allow-global": allow_global, "expect": expect, "merged": merged, "map": map, "size": size, "ignore": ignore, "for": loader if loader != "auto" else None, "world": world, "loader-version": loader_version, "loader-option": loader_option, "checks": checks, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Audit.of("audit", self._options, [self._place], given)

    def diff(self, other: Union[Path, Checkpoint], *, names: bool = False, layout: bool = False, values: bool = False, tol: Optional[Word] = None, stat: bool = False, strip: Optional[Word] = None, rename: Union[Word, Sequence[Word], None] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """what differs between two checkpoints?

        names: compare names alone
        layout: compare how tensors lie on ranks, and FSDP units, too
        values: compare elements, and values that are not tensors, too
        tol: with --values: equal if |a - b| <= ABS + REL * |b|
        stat: one row per module instead of one per tensor
        strip: segments removed from the front of names; none: not even model. beside optim.
        rename: another name, or other first segments, for names of A
        map: compare names of different frameworks, as this map has them (help maps)
        size: a number that the map uses: num_attention_heads=32
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        dtype: of these dtypes: bfloat16,float32
        role: of these roles
        min_bytes: at least this large
        max_bytes: at most this large
        rank: with pieces of these ranks: 0,4-7
        file: with pieces in files that match
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"names": names, "layout": layout, "values": values, "tol": tol, "stat": stat, "strip": strip, "rename": rename, "map": map, "size": size, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("diff", self._options, [self._place, _path(other)], given)

    def export(self, out: Path, *, to: Optional[Literal["hf", "safetensors", "npy", "raw"]] = None, max_shard_size: Union[int, str, None] = None, tie: Optional[Literal["drop", "keep"]] = None, strip: Optional[Word] = None, rename: Union[Word, Sequence[Word], None] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, weights: Optional[Literal["master", "model"]] = None, dtype: Optional[Literal["bfloat16", "float16", "float32"]] = None, with_config: Optional[Word] = None, prefix: Optional[Word] = None, adapter: bool = False, base: bool = False, index_only: bool = False, force: bool = False, partial: bool = False, skip_unsupported: bool = False, no_verify: bool = False, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, select_dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """plain weights: a folder of safetensors, or one tensor

        to: a folder of shards, one file, or one tensor
        max_shard_size: the most in one file of a folder (default 5GB)
        tie: write one name of tied tensors, or all
        strip: segments removed from the front of names; auto, none
        rename: another name, or other first segments
        map: what tensors are called elsewhere, and how they are cut or joined (help maps)
        size: a number that the map uses: num_attention_heads=32
        weights: of DeepSpeed: the optimizer's float32 weights, or the model's own
        dtype: of floating parameters, rounded to nearest even
        with_config: configuration and tokenizer from here (default: beside the checkpoint)
        prefix: of several state dicts the one of this name
        adapter: of LoRA that is not merged, write the adapter
        base: of LoRA that is not merged, write the model without it
        index_only: write the index that shards in a folder lack, and nothing else
        force: replace what is there
        partial: of an incomplete checkpoint, write what is whole
        skip_unsupported: leave out what the form cannot hold
        no_verify: do not read back what was written; no digests
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        select_dtype: of these dtypes: bfloat16,float32
        role: of these roles
        min_bytes: at least this large
        max_bytes: at most this large
        rank: with pieces of these ranks: 0,4-7
        file: with pieces in files that match
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"to": to, "max-shard-size": max_shard_size, "tie": tie, "strip": strip, "rename": rename, "map": map, "size": size, "weights": weights, "cast": dtype, "with-config": with_config, "prefix": prefix, "adapter": adapter, "base": base, "index-only": index_only, "force": force, "partial": partial, "skip-unsupported": skip_unsupported, "no-verify": no_verify, "glob": glob, "regex": regex, "dtype": select_dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("export", [*self._options, "-o", out], [self._place], given)

    def flat(self, *, unit: Optional[Word] = None, param: Optional[Word] = None, at: Optional[Word] = None, units_from: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, rank: Optional[Word] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """how each FlatParameter is laid out

        unit: only the unit of this module; the root is the empty name
        param: where a parameter lies, or one element of it: 100 or 6,4
        at: what lies at an element of a rank's shard
        units_from: units from a trace, or with classes from a log that printed the model
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        rank: with pieces of these ranks: 0,4-7
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"unit": unit, "param": param, "at": at, "units-from": units_from, "glob": glob, "regex": regex, "rank": rank, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("flat", self._options, [self._place], given)

    def fqns(self, *, bare: bool = False, flat: bool = False, raw_map: bool = False, by_parameter: bool = False, units: Optional[Literal["known", "likely"]] = None, units_from: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, depth: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """module -> parameter names, JSON

        bare: exactly PyTorch's map: raw keys, FSDP1 units only, no envelope
        flat: only the names of parameters
        raw_map: names as stored, each with its clean name
        by_parameter: each parameter with all its names, tied ones included
        units: likely: blocks that repeat, too, where nothing tells units
        units_from: units from a trace, or with classes from a log that printed the model
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        dtype: of these dtypes: bfloat16,float32
        role: of these roles
        min_bytes: at least this large
        max_bytes: at most this large
        rank: with pieces of these ranks: 0,4-7
        file: with pieces in files that match
        depth: levels below the root
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"bare": bare, "flat": flat, "raw-map": raw_map, "by-parameter": by_parameter, "units": units, "units-from": units_from, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "depth": depth, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("fqns", self._options, [self._place], given)

    def hash(self, *, stored: bool = False, logical: bool = False, names: bool = False, check: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """digests of files, of tensors, of the whole

        stored: of each file as it is stored, as sha256sum writes them (default)
        logical: of each tensor's elements: the same for every sharding and format
        names: of names, dtypes and shapes; reads headers only
        check: compare with the digests that this file lists
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        dtype: of these dtypes: bfloat16,float32
        role: of these roles
        min_bytes: at least this large
        max_bytes: at most this large
        rank: with pieces of these ranks: 0,4-7
        file: with pieces in files that match
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"stored": stored, "logical": logical, "names": names, "check": check, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("hash", self._options, [self._place], given)

    def reshard(self, *, world: Optional[int] = None, mesh: Optional[Word] = None, tp: Optional[int] = None, shard_dim: Optional[Word] = None, fit: Union[int, str, None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """what if the world size were N?

        world: ranks of the new run
        mesh: HSDP: A copies of the model, each on B ranks
        tp: ranks of tensor parallelism, innermost
        shard_dim: dimension that is cut; auto: as saved, else 0
        fit: memory per rank: status 1 if a rank needs more
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"world": world, "mesh": mesh, "tp": tp, "shard-dim": shard_dim, "fit": fit, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("reshard", self._options, [self._place], given)

    def stats(self, *names: str, nonfinite: bool = False, hist: bool = False, by: Optional[Literal["module", "layer", "unit", "dtype", "role"]] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, depth: Optional[int] = None, sort: Union[Word, Sequence[Word], None] = None, largest: bool = False, reverse: bool = False, head: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
        """min, max, mean, deviation, what is not finite

        nonfinite: only what holds NaN or infinities; status 1 if there is any
        hist: a small histogram of each; reads everything twice
        by: fold tensors by this
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        dtype: of these dtypes: bfloat16,float32
        role: of these roles
        min_bytes: at least this large
        max_bytes: at most this large
        rank: with pieces of these ranks: 0,4-7
        file: with pieces in files that match
        depth: levels below the root
        sort: order of rows: column names, -KEY reverses
        largest: the same as -s -bytes
        reverse: rows in the opposite order
        head: the first N rows
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"nonfinite": nonfinite, "hist": hist, "by": by, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "depth": depth, "sort": sort, "largest": largest, "reverse": reverse, "head": head, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Answer.of("stats", [*self._options, *[f"--glob={each}" for each in names]], [self._place], given)

    def tree(self, *, sizes: bool = False, full: bool = False, fold: bool = False, no_fold: bool = False, sharded_only: bool = False, params: bool = False, style: Optional[Literal["default", "torch"]] = None, units_from: Optional[Word] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, depth: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Tree:
        """modules, with FULLY SHARDED marks

        sizes: parameters, bytes, their share, and bytes per rank
        full: whole names
        fold: one line for siblings that differ only in a number or a word
        no_fold: a line for each module, on a terminal, too
        sharded_only: only modules that are fully sharded, and those above them
        params: each module's own parameters below it
        style: torch is PyTorch's own form
        units_from: units from a trace, or with classes from a log that printed the model
        glob: names that match: * in one segment, ** across; !PATTERN excludes
        regex: names in which this PCRE2 expression is found
        dtype: of these dtypes: bfloat16,float32
        role: of these roles
        min_bytes: at least this large
        max_bytes: at most this large
        rank: with pieces of these ranks: 0,4-7
        file: with pieces in files that match
        depth: levels below the root
        jobs: threads for reading bytes
        part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
        limit: change a ceiling, 0 is none (help limits)
        fail_on: least finding that gives status 1"""
        given = {"sizes": sizes, "full": full, "fold": fold, "no-fold": no_fold, "sharded-only": sharded_only, "params": params, "style": style, "units-from": units_from, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "depth": depth, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
        return Tree.of("tree", self._options, [self._place], given)


def _path(of: Union[Path, Checkpoint]) -> Path:
    return of._place if isinstance(of, Commands) else of


def latest(*runs: Path, level: Optional[Literal["quick", "headers", "data"]] = None, explain: bool = False, all: bool = False, count: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """which step can I resume from?

    level: how closely to look: names and sizes, all headers, every byte
    explain: a table: what newer ones lack
    all: a table of all, with their bytes
    count: name the N newest that are good
    jobs: threads for reading bytes
    part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
    limit: change a ceiling, 0 is none (help limits)
    fail_on: least finding that gives status 1"""
    given = {"level": level, "explain": explain, "all": all, "count": count, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("latest", [], runs, given)


def order(files: Union[Path, Sequence[Path]], *, first_diff: bool = False, names: Optional[Word] = None, rank_regex: Optional[Word] = None, strict: bool = False, head: Optional[int] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """which order, where ranks part?

    first_diff: only where ranks part first, in any iteration
    names: each FlatParameter of this checkpoint or plan beside the first use of what lies in it
    rank_regex: of dumps: take ranks from the paths: the first group, or all that matches
    strict: warnings of PyTorch and refused states make the status 1
    head: the first N lines of each list
    jobs: threads for reading bytes
    part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
    limit: change a ceiling, 0 is none (help limits)
    fail_on: least finding that gives status 1"""
    given = {"first-diff": first_diff, "names": names, "rank-regex": rank_regex, "strict": strict, "head": head, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("order", [], expanded(files), given)


def replay(files: Union[Path, Sequence[Path]], *, by: Optional[Literal["type", "rank", "step", "collective", "unit", "group", "kernel", "idle", "region"]] = None, top: Optional[int] = None, advice: Optional[Literal["yes", "no"]] = None, memory: bool = False, percentiles: bool = False, steps: Optional[Word] = None, timeline: Optional[int] = None, style: Optional[Literal["default", "torch"]] = None, rank_regex: Optional[Word] = None, strict: bool = False, fail_if: Union[Word, Sequence[Word], None] = None, compare: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """where did the time go?

    by: show only this table
    top: of each table the N rows with the most time
    advice: no: leave out the line that names the largest loss
    memory: snapshots of CUDA memory: what is held, and by which stacks
    percentiles: how long each call took: min, p50, p95, max
    steps: count these steps only: 3,10-19
    timeline: one line per rank: what filled most of each part of its time; with --memory N rows
    style: torch: the lines that SimpleProfiler prints, and nothing else
    rank_regex: take ranks from the paths: the first group, or all that matches
    strict: treat every warning as a failure
    fail_if: status 1 if exposed>20%, idle>30%, TYPE>50ms, TYPE>1.2x ...
    compare: earlier recordings, or a result of replay --json; with --memory a snapshot
    jobs: threads for reading bytes
    part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
    limit: change a ceiling, 0 is none (help limits)
    fail_on: least finding that gives status 1"""
    given = {"by": by, "top": top, "advice": advice, "memory": memory, "percentiles": percentiles, "steps": steps, "timeline": timeline, "style": style, "rank-regex": rank_regex, "strict": strict, "fail-if": fail_if, "compare": compare, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("replay", [], expanded(files), given)


def diff(a: Union[Path, Checkpoint], b: Union[Path, Checkpoint], *, names: bool = False, layout: bool = False, values: bool = False, tol: Optional[Word] = None, stat: bool = False, strip: Optional[Word] = None, rename: Union[Word, Sequence[Word], None] = None, map: Optional[Word] = None, size: Union[Word, Sequence[Word], None] = None, glob: Union[Word, Sequence[Word], None] = None, regex: Union[Word, Sequence[Word], None] = None, dtype: Union[Word, Sequence[Word], None] = None, role: Union[Word, Sequence[Word], None] = None, min_bytes: Union[int, str, None] = None, max_bytes: Union[int, str, None] = None, rank: Optional[Word] = None, file: Union[Word, Sequence[Word], None] = None, jobs: Optional[int] = None, part: Optional[Word] = None, limit: Union[Word, Sequence[Word], None] = None, fail_on: Optional[Literal["none", "note", "warning", "error"]] = None) -> Answer:
    """what differs between two checkpoints?

    names: compare names alone
    layout: compare how tensors lie on ranks, and FSDP units, too
    values: compare elements, and values that are not tensors, too
    tol: with --values: equal if |a - b| <= ABS + REL * |b|
    stat: one row per module instead of one per tensor
    strip: segments removed from the front of names; none: not even model. beside optim.
    rename: another name, or other first segments, for names of A
    map: compare names of different frameworks, as this map has them (help maps)
    size: a number that the map uses: num_attention_heads=32
    glob: names that match: * in one segment, ** across; !PATTERN excludes
    regex: names in which this PCRE2 expression is found
    dtype: of these dtypes: bfloat16,float32
    role: of these roles
    min_bytes: at least this large
    max_bytes: at most this large
    rank: with pieces of these ranks: 0,4-7
    file: with pieces in files that match
    jobs: threads for reading bytes
    part: of audit --data, hash, stats, diff --values: this share of the bytes; merge joins them
    limit: change a ceiling, 0 is none (help limits)
    fail_on: least finding that gives status 1"""
    given = {"names": names, "layout": layout, "values": values, "tol": tol, "stat": stat, "strip": strip, "rename": rename, "map": map, "size": size, "glob": glob, "regex": regex, "dtype": dtype, "role": role, "min-bytes": min_bytes, "max-bytes": max_bytes, "rank": rank, "file": file, "jobs": jobs, "part": part, "limit": limit, "fail-on": fail_on}
    return Answer.of("diff", [], [_path(a), _path(b)], given)
