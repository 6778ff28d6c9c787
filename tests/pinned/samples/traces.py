# SPDX-License-Identifier: Apache-2.0
"""Traces as torch.profiler exports them."""

import gzip
import json
import re
import tarfile

from .files import sample

NO_EVENT = {}


def event(cat, name, ts, dur, tid=1, pid=1, args=None):
    """A complete event. Keys without a value are left out."""
    places = {key: value for key, value in (("pid", pid), ("tid", tid)) if value is not None}
    more = {} if args is None else {"args": args}
    return {"ph": "X", "cat": cat, "name": name, **places, "ts": ts, "dur": dur, **more}


def annotation(name, ts=1, dur=1, tid=1):
    return event("user_annotation", name, ts, dur, tid)


def step(number, ts, dur):
    return annotation(f"ProfilerStep#{number}", ts, dur)


def runtime(name, ts, dur, correlation, tid=1):
    """A call of the runtime of CUDA."""
    return event("cuda_runtime", name, ts, dur, tid, args={"correlation": correlation})


def kernel(name, ts, dur, tid=7, **args):
    return event("kernel", name, ts, dur, tid, 0, args or None)


def trace(folder, name, events, rank=None, world_size=None, backend=None, **header):
    info = {key: value for key, value in (("backend", backend), ("rank", rank), ("world_size", world_size))
            if value is not None}
    folder.json(name, {**header, **({"distributedInfo": info} if info else {}), "traceEvents": events})


# ---- steps and what is in them ----


@sample
def step_with_allocator_calls(folder):
    trace(folder, "t.json", [
        step(7, 0, 1000),
        runtime("cudaMalloc", 100, 90, 1),
        runtime("cudaFree", 200, 10.5, 2),
        runtime("cudaMalloc", 300, 20, 3),
        runtime("cudaLaunchKernel", 400, 5, 4),
        kernel("gemm", 410, 500, correlation=4),
        runtime("cudaFree", 2000, 10, 5),
    ], rank=0, world_size=1)


@sample
def allocator_calls_in_three_steps(folder):
    """Steps and calls are in no order. Two calls are at the end of step 2, two behind it, one behind the last step."""
    events = [NO_EVENT, step(2, 100, 100), step(1, 0, 100), step(3, 200, 100)]
    for number, at in enumerate((210, 150, 10, 250, 160, 20, 30, 170, 110, 90, 220)):
        events.append(event("cuda_runtime", "cudaMalloc", at, 3 + 2 * number))
        events.append(event("cuda_runtime", "cudaFree", at + 1, 2))
    events += [
        event("cuda_runtime", "cudaHostAlloc", 199, 1),
        event("cuda_runtime", "cuMemMap", 200, 1),
        event("cuda_runtime", "cudaMalloc", 300, 100),
        event("kernel", "k", 5, 280),
    ]
    trace(folder, "t.json", events)


@sample
def steps_of_types_that_some_runs_have(folder):
    """Three runs before and six now, by the times of step, resharding and all_gather_object."""
    runs = {
        "a": (100, 5, None), "b": (120, 15, 0), "c": (110, 10, None),
        "now1": (100, 5, 3), "now2": (120, 15, 0), "now3": (99.999, 100, None),
        "now4": (120.001, 101, None), "now5": (110, 0, 7), "now6": (115.5, None, None),
    }
    for name, (whole, resharding, gather) in runs.items():
        events = [NO_EVENT, event("cpu_op", "aten::mm", 1, 1), step(1, 0, whole)]
        for part, dur in (("resharding", resharding), ("all_gather_object", gather)):
            if dur is not None:
                events.append(annotation(part, 1, dur))
        trace(folder, f"{name}.json", events, rank=0)


@sample
def kernels_of_10_and_14_ms_without_steps(folder):
    for ms in (10, 14):
        trace(folder, f"{ms}.json", [kernel("gemm", 1, ms * 1000, stream=7, device=0)], 0, 2, "nccl", schemaVersion=1)


@sample
def steps_of_few_nanoseconds(folder):
    for count in (1, 2, 7):
        trace(folder, f"{count}/t.json", [NO_EVENT] + [
            event("user_annotation", f"ProfilerStep#{number}", number * 10, number * number % 5 / 1000, None, None)
            for number in range(1, count + 1)])


@sample
def instant_event_alone(folder):
    trace(folder, "i.json", [{"ph": "i", "s": "t", "name": "x", "ts": 1, "pid": 1, "tid": 1}], 0, 2, schemaVersion=1)


@sample
def one_operator_without_kernels(folder):
    trace(folder, "t.json", [event("cpu_op", "aten::mm", 1, 5)])


@sample
def steps_of_ranks_that_are_nearly_equal(folder):
    """The last step of rank 1 is as long as that of rank 0, and 8 % longer in the file longer_rank1.json."""
    for name, rank, last in (("t_rank0", 0, 120000), ("t_rank1", 1, 120000), ("longer_rank1", 1, 130000)):
        trace(folder, f"{name}.json",
              [step(1, 0, 100000), step(2, 100000, last), event("cpu_op", "aten::add", 10, 5)], rank=rank)


@sample
def items_that_are_no_events(folder):
    one = event("cpu_op", "aten::mm", 1, 5)
    for variant, more in zip(folder.folders(("none", "a number", "a text", "a list")), ([], [5], ["x"], [[one, one]])):
        trace(variant, "t.json", more + [one])


@sample
def times_at_the_limits_of_nanoseconds(folder):
    def exact(text):
        """A number of more digits than a float has."""
        return f"exact {text}"

    def call(name):
        return event("python_function", name, 1, 2)

    reshard = "FSDP::post_backward_reshard"
    text = json.dumps({"traceEvents": [
        NO_EVENT,
        annotation("resharding", " 1.5\\t", "2"),
        annotation("resharding", exact("2305843009213693.951"), 2),
        annotation("resharding", exact("2305843009213693.952"), 2),
        annotation("resharding", exact("-2305843009213693.951"), 2),
        annotation("resharding", exact("-2305843009213693.952"), 2),
        annotation("D2H", 5, 604800000000),
        annotation("D2H", 5, 604800000000.001),
        annotation("D2H", 5, 0),
        annotation("D2H", 5, -0.001),
        annotation("D2H", None, 1),
        annotation("D2H", 5, " "),
        annotation("D2H", "", 1),
        event("Trace", "D2H", None, 1),
        call("torch/distributed/distributed_c10d.py(0): all_gather_object"),
        call("distributed_c10d.py(1929): all_gather_object"),
        call("distributed_c10d.py(): all_gather_object"),
        call("distributed_c10d.py(1929a): all_gather_object"),
        call("c10d.py(1929): all_gather_object"),
        call("1929): all_gather_object"),
        call("distributed_c10d.py(1929): all_gather_objects"),
        *(annotation(reshard + unit, 5, 1) for unit in ("", " (", " ()", "(a)", " (a) ")),
    ]})
    folder.write("t.json", re.sub('"exact ([^"]*)"', r"\1", text))


# ---- kernels, and the time between them ----


@sample
def gaps_of_each_cause(folder):
    def work(name, ts, dur, **more):
        return event("kernel", name, ts, dur, 7, args={"device": 0, "stream": 7, **more})

    def operator(name, ts, dur, tid):
        return event("cpu_op", name, ts, dur, tid, args={})

    def launch(ts, dur, correlation, tid):
        return runtime("cudaLaunchKernel", ts, dur, correlation, tid)

    trace(folder, "t.json", [
        NO_EVENT,
        work("begin", 0, 10), work("late", 100, 10, correlation=8), work("first", 100, 10, correlation=7),
        launch(60, 10, 7, tid=1), launch(80, 10, 8, tid=1),
        work("one", 200, 10), work("two", 200, 10), work("two", 300, 10), work("one", 300, 10),
        work("short", 400, 10), work("long", 400, 20),
        runtime("cudaMemcpyAsync", 430, 5, 20), launch(450, 5, 20, tid=1), launch(440, 5, 20, tid=2),
        work("three", 500, 10, correlation=20),
        launch(540, 5, 21, tid=4), launch(540, 5, 21, tid=3),
        operator("aten::mm", 510, 20, tid=3), operator("aten::mul", 510, 10, tid=4),
        work("four", 600, 10, correlation=21),
        launch(700, 5, 22, tid=3), runtime("cudaDeviceSynchronize", 620, 20, 23, tid=3),
        runtime("cudaMalloc", 640, 20, 24, tid=3), runtime("cudaMemcpy", 660, 10, 25, tid=3),
        runtime("cudaStreamSynchronize", 620, 80, 26, tid=4),
        work("five", 705, 5, correlation=22),
        launch(702, 3, 30, tid=3), work("queued", 750, 5, correlation=30),
    ])


@sample
def gaps_that_launched_work_leaves(folder):
    """The second kernel starts 600 us after its launch; the host takes 20 us before the third one."""
    trace(folder, "t.json", [
        step(1, 0, 1000),
        runtime("cudaLaunchKernel", 0, 10, 1), runtime("cudaLaunchKernel", 10, 10, 2),
        runtime("cudaLaunchKernel", 800, 10, 3),
        kernel("a", 10, 100, correlation=1), kernel("b", 710, 90, correlation=2),
        kernel("c", 810, 190, correlation=3),
    ])


@sample
def kernels_with_names_of_1_to_150_characters(folder):
    trace(folder, "t.json", [kernel("0" * length, length * 10, 5, stream=7) for length in range(1, 151)]
          + [kernel("last", 2000, 5)])


@sample
def kernels_of_oneccl_on_xpu(folder):
    def launch(ts, correlation):
        return event("xpu_runtime", "urEnqueueKernelLaunch", ts, 1, args={"correlation": correlation})

    def work(name, ts, dur, tid, correlation):
        return event("kernel", name, ts, dur, tid, args={"correlation": correlation})

    trace(folder, "t.json", [
        launch(0, 1), work("gemm_kernel", 10, 60, 7, 1),
        launch(2, 2), work("oneccl_allreduce_large<bf16>", 70, 30, 9, 2),
    ], 0, 2, "xccl")


@sample
def two_streams_and_collectives_outside_of_the_step(folder):
    for rank in (0, 1):
        events = [step(1, 1000, 1000)]
        for ts in (1000, 1400, 1800, 2200):
            events += [kernel("gemm", ts, 390, stream) for stream in (7, 8)]
            events.append(kernel("ncclDevKernel_AllReduce", ts + 350 * (1 - rank), 40 + 350 * rank, 20))
        trace(folder, f"rank{rank}.json", events, rank, 2, "nccl", baseTimeNanoseconds=0)


@sample
def host_collectives_beside_a_gpu(folder):
    """Two ranks of three. Rank 1 begins its collectives later from step to step."""
    for rank in (0, 1):
        events = [{"ph": "M"}]
        for number in range(3):
            begin, late = number * 10000, rank * number * 2000
            events += [
                step(number, begin, 10000),
                kernel("sgemm", begin + 100, 2000),
                annotation("gloo:all_reduce", begin + 3000 + late, 5000 - late, 9),
                annotation("gloo:all_reduce", begin + 8500, 500, 9),
            ]
        trace(folder, f"rank{rank}.json", events, rank, 3, "gloo", baseTimeNanoseconds=0)


@sample
def straggler_of_one_step(folder):
    """Rank 0 computes less in step 1. The steps in regions/ are annotations of another name."""
    for kind, name in (("steps", "ProfilerStep#"), ("regions", "step ")):
        for rank in (0, 1):
            events = [{"ph": "M"}]
            for number in range(3):
                begin, early = number * 10000, 6000 if (rank, number) == (0, 1) else 0
                events += [
                    annotation(f"{name}{number}", begin, 10000),
                    kernel("sgemm", begin, 8000 - early),
                    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin + 8000 - early, 1500 + early, 9),
                ]
            trace(folder, f"{kind}/rank{rank}.json", events, rank, 2, "nccl", baseTimeNanoseconds=0)


def launched(work, ts, correlation):
    """A kernel or copy of the GPU and the call that launches it 5 us before."""
    call = "cudaMemcpyAsync" if work["cat"] == "gpu_memcpy" else "cudaLaunchKernel"
    return [runtime(call, ts - 5, 4, correlation), work | {"ts": ts, "args": {"correlation": correlation}}]


def copy(kind, dur):
    return event("gpu_memcpy", f"Memcpy {kind}", 0, dur, 7, 0)


@sample
def steps_that_copy_compile_or_lose_their_kernels(folder):
    """Three steps of 1 ms each; in some folders the first takes 60 ms."""
    def steps(*works, first=1000):
        events, at = [], 1000
        for number in range(3):
            dur = first if number == 0 else 1000
            events.append(step(number, at, dur))
            for place, (ts, work) in enumerate(works):
                events += launched(work, at + dur - 1000 + ts, 10 * number + place)
            at += dur
        return events

    gemm = kernel("gemm", 0, 400)
    runs = {
        "copies": steps((50, gemm), (460, copy("HtoD (Pageable -> Device)", 500))),
        "few copies": steps((50, kernel("gemm", 0, 600)), (660, copy("DtoH (Device -> Pageable)", 40))),
        "compiles": steps((50, kernel("gemm", 0, 900)), first=60000),
        "long": steps((50, kernel("gemm", 0, 900)), first=1900),
        "lost": [event("cpu_op", "aten::mm", 1010, 20)] + [
            one for one in steps((50, gemm)) if one["cat"] != "kernel"],
    }
    for name, events in runs.items():
        trace(folder, f"{name.replace(' ', '-')}/t.json", events, 0, 1, "nccl")


@sample
def steps_that_map_memory(folder):
    """As with expandable_segments, and without."""
    for name in ("cuMemMap", "cudaMalloc"):
        trace(folder, f"{name}.json", [
            step(7, 0, 1000), runtime(name, 100, 300, 1), *launched(kernel("gemm", 0, 500), 410, 4)], 0, 1, "nccl")


# ---- collectives ----


def collective(kind, ts, dur, group, ranks, size, seq):
    return kernel(f"ncclDevKernel_{kind}", ts, dur, **{
        "Collective name": kind, "Process Group Name": group, "Process Group Ranks": ranks, "Group size": size,
        "Seq": seq, "dtype": "Float", "In msg nelems": 64, "Out msg nelems": 128})


@sample
def collectives_with_numbers_places_and_groups(folder):
    """Two ranks in a folder each for how collectives are matched."""
    def gather(ts, seq, dur=5, kind="all_gather"):
        return collective(kind, ts, dur, "0", "[0, 1]", 2, seq)

    def grouped(ts, group, ranks="[0, 1]", size=2):
        return collective("all_gather", ts, 5, group, ranks, size, 1)

    nine = "[0, 1, ..., 8]"
    ranks = {
        "numbers": ([
            gather(10, 7), gather(20, "8"), gather(25, 8), gather(30, 1000000000), gather(40, None), gather(50, "x"),
            gather(60, 9, kind="all_reduce"), gather(70, 0, kind="reduce_scatter"), gather(80, -1),
        ], [
            gather(12, 7), gather(22, 8), gather(31, 1000000000), gather(60, 9, 6),
            gather(71, 0, kind="reduce_scatter"), gather(83, -1), gather(90, 10),
        ]),
        "places": ([
            gather(10, None), gather(11, None, kind="send"), gather(20, None),
            collective("all_gather", 30, 5, "", "", 2, None),
        ], [
            gather(13, None), gather(21, None), gather(28, None, kind="recv"), gather(33, None),
        ]),
        "groups": ([
            grouped(10, "a"), grouped(20, "b"), grouped(30, "c", nine, 9), grouped(40, "d", size=3),
        ], [
            grouped(21, "b"), grouped(11, "a"), grouped(31, "c", nine, 9), grouped(35, "e", nine, 9),
            grouped(44, "x", size=3),
        ]),
    }
    for name, both in ranks.items():
        for rank, events in enumerate(both):
            trace(folder, f"{name}/t{rank}.json", [NO_EVENT] + events, rank, 2, baseTimeNanoseconds=1000)


def gloo(name, ts):
    return event("user_annotation", f"gloo:{name}", ts, 5, 2, args={})


@sample
def calls_of_gloo_without_process_groups(folder):
    """Three ranks p that send and receive, two ranks q with collectives that do not overlap."""
    ranks = {
        "p": ([gloo("send", 1000), gloo("send", 1100), gloo("recv", 5000)],
              [gloo("recv", 1000), gloo("send", 3000), gloo("recv", 1100), gloo("send", 3100), gloo("recv", 4800)],
              [gloo("recv", 3000), gloo("send", 4800)]),
        "q": ([gloo("all_reduce", 1000), gloo("all_reduce", 9000)],
              [gloo("all_reduce", 3000), gloo("all_reduce", 7000)]),
    }
    for name, runs in ranks.items():
        for rank, events in enumerate(runs):
            trace(folder, f"{name}{rank}.json", events, rank, len(runs), "gloo", schemaVersion=1)


@sample
def sends_that_pass_sends_of_the_other_rank(folder):
    """The second receive of rank 1 comes after its send, the second send of rank 0 before its receive."""
    ranks = ([("send", 100, 50), ("send", 200, 750), ("recv", 600, 200)],
             [("recv", 50, 100), ("send", 700, 100), ("recv", 900, 50)])
    for rank, calls in enumerate(ranks):
        notes = [annotation("gloo:" + name, ts, dur, 2) for name, ts, dur in calls]
        trace(folder, f"t_rank{rank}.json", [step(1, 0, 1000)] + notes, rank, 2, "gloo")


@sample
def sends_of_three_ranks(folder):
    for rank in range(3):
        trace(folder, f"t_rank{rank}.json", [step(1, 0, 1000), annotation("gloo:send", rank + 10, 100, 2)],
              rank, 3, "gloo")


@sample
def pipeline_of_three_ranks(folder):
    """Each rank numbers its sends and receives itself; an all_reduce at the end is of all. A pair has a group of its own."""
    def transfer(kind, ts, seq):
        return collective(kind, ts, 20, "1", "[0, 1, 2]", 3, seq)

    calls = {0: [("send", 100, 1), ("recv", 800, 2)], 2: [("recv", 400, 1), ("send", 500, 2)],
             1: [("recv", 110, 1), ("send", 380, 2), ("recv", 510, 3), ("send", 790, 4)]}
    for rank, transfers in calls.items():
        trace(folder, f"three/t_rank{rank}.json", [step(1, 0, 1000)] + [transfer(*one) for one in transfers] + [
            collective("all_reduce", 900 + rank, 20, "0", "[0, 1, 2]", 3, 1)], rank, 3, "nccl")
    for rank, kind in enumerate(("send", "recv")):
        trace(folder, f"pair/t_rank{rank}.json", [
            step(1, 0, 1000), collective(kind, 100 + rank * 10, 60 - rank * 10, "1", "[0, 1]", 2, 1)], rank, 2, "nccl")


# ---- units ----


@sample
def units_in_all_annotations_of_fsdp2(folder):
    def both(name, ts, dur, tid=1):
        return annotation(f"FSDP::{name}", ts, dur, tid)

    trace(folder, "t.json", [
        NO_EVENT, step(1, 0, 500), step(2, 500, 500),
        both("pre_forward (a)", 10, 50),
        both("all_gather (a)", 10, 5),
        both("all_gather (b)", 20, 5),
        both("all_gather (a) [pg=1]", 55, 5),
        both("forward_prefetch for b", 30, 10),
        both("all_gather (b)", 30, 10),
        both("pre_forward (b) [pg=0]", 70, 20),
        both("all_gather (b) [pg=0]", 70, 10),
        both("all_gather (b) [pg=1]", 80, 10),
        both("pre_forward (a (x)) [pg=5]", 100, 10),
        both("all_gather (a (x)) [pg=5]", 101, 5),
        both("all_gather (c) [pg=]", 120, 5),
        both("all_gather (c) [pg=5x]", 120, 5),
        both("all_gather (c) [pg=99999999999999999999]", 120, 5),
        both("all_gather (d", 120, 5),
        both("all_gather d)", 120, 5),
        both("all_gather(d)", 120, 5),
        both("all_gather ()", 130, 5),
        both("all_gather", 131, 5),
        both("all_gather [pg=3]", 132, 5),
        both("all_gather (_orig_mod.m._fsdp_wrapped_module._checkpoint_wrapped_module.n.)", 140, 5),
        both("all_gather (_orig_mod)", 141, 5),
        both("all_gather (x._orig_mod.)", 142, 5),
        both("backward_prefetch for c", 500, 10, 2),
        both("all_gather (c)", 501, 5, 2),
        both("all_gather (c)", 504, 10, 2),
        both("backward_prefetch to c", 520, 10, 2),
        both("all_gather (c)", 520, 10, 2),
        both("pre_backward (c)", 540, 10, 2),
        both("all_gather (c)", 540, 10, 1),
        both("post_backward_reduce (c)", 550, 10, 2),
        both("post_backward_reduce (c) [pg=2]", 550, 10, 2),
        both("post_backward_reshard (c)", 560, 10, 2),
        both("post_backward_rs_wait (c)", 570, 10, 2),
        both("post_forward (c)", 580, 10, 2),
        kernel("gemm", 5, 900),
        both("unheard_of (e)", 580, 10, 2),
    ])


@sample
def units_with_numbers_in_their_names(folder):
    names = "l.10 l.2 l.02 l.2a l.a l. l l.2.x 10 9 a9b10 a9b9 a10 a l.002 l.20 l.1x l.1.".split() + [""]
    trace(folder, "names.json", [NO_EVENT] + [annotation(f"FSDP::all_gather ({name})") for name in names])


@sample
def nested_forwards_of_fsdp1(folder):
    def fsdp(name, tid, ts, dur):
        return annotation(f"FullyShardedDataParallel.{name}", ts, dur, tid)

    trace(folder, "t.json", [
        NO_EVENT, step(1, 0, 1000),
        fsdp("forward", 2, 100, 50),
        fsdp("forward", 2, 100, 80),
        fsdp("forward", 2, 100, 80),
        fsdp("forward", 2, 110, 5),
        fsdp("forward", 2, 180, 10),
        fsdp("forward", 1, 100, 80),
        fsdp("forward", 1, 120, 10),
        fsdp("_pre_forward", 2, 110, 5),
        fsdp("_pre_forward", 2, 120, 1),
        fsdp("_pre_forward_prefetch", 2, 121, 1),
        fsdp("_pre_forward", 2, 181, 2),
        fsdp("_pre_forward", 1, 125, 2),
        fsdp("_pre_backward_hook", 1, 300, 10),
        fsdp("_post_backward_hook", 1, 310, 10),
        fsdp("_post_backward_hook_reshard_only", 1, 330, 10),
        *(annotation("gloo:_all_gather_base", ts, 1, 2) for ts in (111, 120, 121, 181, 302)),
        annotation("gloo:_all_gather_base", 125, 1),
        annotation("gloo:_all_gather_base", 301, 2),
        annotation("gloo:_reduce_scatter_base", 312, 2),
    ])


@sample
def reshards_of_several_parameter_groups(folder):
    trace(folder, "t.json", [NO_EVENT, event("kernel", "gemm", 50, 10)] + [annotation(name, 100, 10) for name in (
        "FSDP::post_backward_reshard (layers.0) [pg=4]",
        "FSDP::post_backward_reshard (layers.0)",
        "FSDP::post_backward_reshard",
        "FSDP::post_backward_reshard_x (layers.0)",
        "FullyShardedDataParallel._post_backward_hook_reshard_only",
    )])


@sample
def gathers_of_units(folder, *units):
    """A trace that is a list."""
    folder.json("trace.json", [annotation(f"FSDP::all_gather ({unit})", dur=5) for unit in units] + [NO_EVENT])


@sample
def gathers_of_a_unit_and_17_like_it(folder):
    gathers_of_units(folder, "mlp1.up", *(f"mlp1.up{number}" for number in range(1, 18)))


# ---- other files in the place of a trace ----


@sample
def archives_and_traces_of_other_tools(folder):
    folder.write("c.zip", b"PK\3\4....")
    with tarfile.open(folder.at("a.tar"), "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(folder.at("testdata/traces/losses"), "losses")
    folder.write("b.tgz", gzip.compress(folder.read("a.tar")))
    folder.json("d.json", {"rocprofiler-sdk-tool": [{"metadata": {}}]})
    folder.json("npu.json", [
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 2, "tid": 9, "ts": "900.0", "dur": 40},
        {"ph": "X", "name": "Communication(Not Overlapped)", "pid": 5, "tid": 2, "ts": "1100.000", "dur": 50},
    ])


@sample
def reports_of_other_profilers(folder):
    """By their names, and by their first bytes. The titles are those bytes as printf has them."""
    files = [(name, r"x\001") for name in (
        "a.nsys-rep", "a.qdrep", "a.qdstrm", "a.ncu-rep", ".ncu-rep", "a.nsys-repx", "nsys-rep")]
    files += [("a.nsys-rep", content) for content in ("", "x", " ", "{", "[")]
    files += [("x", content) for content in (
        r"SQLite format 3\0", r"SQLite format 3\0x", "SQLite format 3", "SQLite format 3x", r"SQLite format 2\0",
        r" SQLite format 3\0",
        r"\n\001\001", r"\n\001x", r"\n\002x", r"\n\003x\n", r"\n\001x\n\001y", r"\n\001x\n\005y", r"\n\001x\n",
        r"\n\001x\n\0", r"\n\0", r"\n\003", r"\n\0x", r"\n\001x\022\001y", r"\n\201\0x", r"\n\201",
        r"\n\201\201\201\201\201\201\201\201\001", r"\n\201\201\201\201\201\201\201\201\201\001",
        r"\n\tabcdefghi", r"\n\tabcdefghi\n\001x", r"\n\rabcdefghijklm", r"\022\001x", r"\n\037abc",
        r"\n abcdefghijklmnopqrstuvwxyz012345\n",
    )]
    for variant, (name, content) in zip(folder.folders(f"{name} {content}: " for name, content in files), files):
        variant.write(f"in/{name}", content.encode().decode("unicode_escape").encode("latin-1"))


@sample
def traces_with_repeated_faults(folder, name):
    """Texts of a list: an event; one without dur; one with NaN; a begin without end; one that is cut within."""
    whole = '{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1}'
    endless = '{"ph":"X","cat":"cpu_op","name":"a","ts":1}'
    nan = '{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1,"args":{"x":NaN}}'
    begin = '{"ph":"B","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1}'
    garbled = '{"ph":"X","cat"!}'
    texts = [
        f"{whole}]", whole, f"{whole},{whole}", whole + ',{"ph',
        f"{whole},{endless}]", f"{whole},{endless},{endless}]", f"{whole},{nan}]", f"{nan},{nan}]",
        f"{whole},{begin}]", f"{begin},{begin},{whole}]", f"{whole},{garbled}]", f"{whole},{garbled},{garbled}]",
        f"{whole}]x", f"{whole}] ",
    ]
    for variant, text in zip(folder.within(name).folders(f"== {text}" for text in texts), texts):
        variant.write("t", "[" + text)


@sample
def annotations_that_name_units_or_not(folder):
    """Traces that begin in other ways, and beginnings that are no traces."""
    def text(*names):
        events = "".join(f',{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":1,"dur":1}}'
                         for name in names)
        return f'{{"x":1,"traceEvents":[{{}}{events},{{"name":5}},{{"cat":"FSDP::all_gather (embed)"}}]}}\n'

    one = text("FSDP::all_gather (blocks.0)")
    traces = {
        "names": text(
            "FSDP::all_gather (_orig_mod)", "FSDP::all_gather (_orig_mod.blocks.1)",
            "FSDP::all_gather (bl\\u006fcks.1)", "FSDP::pre_forward (blocks._checkpoint_wrapped_module.0)",
            "FSDP::post_forward (head)", "FSDP::all_gather (nowhere)", "XFSDP::all_gather (norm)"),
        "byte-order-mark": "\ufeff \r\n" + one,
        "list": "\t[ \n" + one.split('"traceEvents":[{},', 1)[1].replace("]}\n", "]\n"),
        "fsdp2": text("FSDP::pre_forward", "FullyShardedDataParallel.forward"),
        "fsdp2-wait": text("FSDP::post_backward_rs_wait"),
        "fsdp1": text("FullyShardedDataParallel.forward"),
        "fsdp1-reshard": text("FullyShardedDataParallel._post_backward_hook_reshard_only"),
        "others": text("FullyShardedDataParallel.rate_limiter", "FSDP::other"),
    }
    for name, content in traces.items():
        folder.write(f"traces/{name}/t", content)
    for variant, begin in zip(folder.folders(("beginning",) * 14), (
            "{", "[", "[]", "{}", "{ }", "[ ]", "{5", "[5", '["', "[{", '{"', "{[", " ", "5")):
        variant.write("t", begin)
