#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --by=kernel` says of traces with kernels, against sums over their events.

Names, calls, times, shares and streams are added up here from the traces themselves; the class of each name that
these traces hold is given by hand.
"""
import glob
import os
from collections import defaultdict

import oraclelib
from oraclelib import nanoseconds, trace_events

COMM = ("nccl", "rccl", "msccl", "cross_device_reduce", "multimem_all_")
CLASSES = {
    "ampere_bf16_s16816gemm_bf16_128x128_nt": "gemm",
    "ampere_bf16_s16816gemm_bf16_128x128_tn": "gemm",
    "ampere_sgemm_128x64_tn": "gemm",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(Params)": "gemm",
    "triton_per_fused_native_layer_norm_0": "reduction",
    "void at::native::chunk_cat_cuda_kernel(int)": "copy",
    "void at::native::split_with_sizes_copy_out_contiguous(int)": "copy",
    "void at::native::multi_tensor_apply_kernel(Adam)": "elementwise",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)": "elementwise",
}


def events_of(path):
    return [e for e in trace_events(path) if e.get("ph") == "X"]


def kind_of(event):
    if event.get("cat") in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"):
        return "copy"
    if any(word in event["name"].lower() for word in COMM) or "Collective name" in event.get("args", {}):
        return "communication"
    return "compute"


def launched(events, step):
    """Device events that the host launched within a step, by the correlation of both."""
    spans = [e for e in events if e["name"] == f"ProfilerStep#{step}" and e.get("cat") == "user_annotation"]
    at = {e["args"]["correlation"]: nanoseconds(e["ts"]) for e in events if e.get("cat") == "cuda_runtime"}
    begin = nanoseconds(spans[0]["ts"])
    end = begin + nanoseconds(spans[0]["dur"])
    return [e for e in events if is_device(e) and
            begin <= at.get(e.get("args", {}).get("correlation"), nanoseconds(e["ts"])) < end]


def is_device(event):
    return event.get("cat") in ("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset")


def expected(traces):
    """By name: class, calls, time, share, calls on the compute stream. Each trace: events of the device."""
    rows = defaultdict(lambda: [0, 0, 0])
    for events in traces:
        by_stream = defaultdict(int)
        for e in events:
            if kind_of(e) == "compute":
                by_stream[e["pid"], e["tid"]] += nanoseconds(e["dur"])
        stream = max(by_stream, key=by_stream.get, default=None)
        for e in events:
            row = rows[e["name"], kind_of(e)]
            row[0] += 1
            row[1] += nanoseconds(e["dur"])
            row[2] += (e["pid"], e["tid"]) == stream
    compute = sum(row[1] for (_, kind), row in rows.items() if kind == "compute")
    return {name: (CLASSES[name] if kind == "compute" else kind, row[0], row[1],
                   round(100 * row[1] / compute, 6) if kind == "compute" and compute else None,
                   row[2] if kind == "communication" else None) for (name, kind), row in rows.items()}


def found(args, paths, *options):
    data = oraclelib.run(args, "replay", "--by=kernel", "--json", *options, *paths).json()["data"]
    times = [k["sum_ns"] for k in data["kernels"]]
    assert times == sorted(times, reverse=True), times
    rows = {}
    for k in data["kernels"]:
        share = k.get("compute_percent")
        rows[k["kernel"]] = (k["class"], k["count"], k["sum_ns"], share if share is None else round(share, 6),
                             k.get("on_compute_stream"))
    classes = {c["class"]: (c["count"], c["sum_ns"]) for c in data["kernel_classes"]}
    assert list(classes.values()) == sorted(classes.values(), key=lambda c: -c[1]), classes
    assert classes == by_class(rows), classes
    return rows, {t["type"]: t["sum_ns"] for t in data["types"]}


def by_class(rows):
    sums = defaultdict(lambda: (0, 0))
    for row in rows.values():
        sums[row[0]] = (sums[row[0]][0] + row[1], sums[row[0]][1] + row[2])
    return dict(sums)


def differences(got, want):
    return [f"{name}: found {got.get(name)}, expected {want.get(name)}"
            for name in sorted(set(got) | set(want)) if got.get(name) != want.get(name)]


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    sets = {}
    for root in args.roots:
        for kind in ("units", "gpu_generated"):
            for path in sorted(glob.glob(os.path.join(root, "traces", kind, "*_rank*.json*"))):
                name = os.path.basename(path).split("_rank")[0]
                if kind == "units" and not name.startswith("g_"):
                    continue
                paths = sets.setdefault(name, {})
                paths.setdefault(os.path.basename(path), path)
    for name, paths in sorted(sets.items()):
        if (args.only or "") not in name:
            continue
        paths = sorted(paths.values())
        traces = [events_of(path) for path in paths]
        want = expected([[e for e in events if is_device(e)] for events in traces])
        got, types = found(args, paths)
        problems = differences(got, want)
        compute = sum(row[2] for row in got.values() if row[3] is not None)
        if compute != types["compute"]:
            problems.append(f"{compute} ns compute by name, {types['compute']} by type")
        tap.none(name, problems)
        steps = sorted({int(e["name"].split("#")[1]) for events in traces for e in events
                        if e["name"].startswith("ProfilerStep#")})
        if len(steps) < 2:
            continue
        want = expected([launched(events, steps[-1]) for events in traces])
        got, _ = found(args, paths, f"--steps={steps[-1]}")
        tap.none(f"{name}, its last step", differences(got, want))
    tap.done()


main()
