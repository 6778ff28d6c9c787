# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of this directory, in the form of torch.profiler: times in microseconds."""
import json

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(cat, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 0 if cat == "kernel" else 1,
            "tid": tid, "args": args}


def work(name, ts, dur, tid, correlation, launch=None, **args):
    """A launch and its kernel."""
    start = ts if launch is None else launch
    return [event("cuda_runtime", "cudaLaunchKernel", start, 1, correlation=correlation),
            event("kernel", name, ts, dur, tid, correlation=correlation, device=0, stream=tid, **args)]


def write(case, rank, world, step_us, events, steps=True):
    head = [event("user_annotation", "ProfilerStep#5", 0, step_us)] if steps else []
    trace = {"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000,
             "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
             "traceEvents": head + events}
    with open(f"{case}_rank{rank}.json", "w", encoding="utf-8") as file:
        json.dump(trace, file)
        file.write("\n")


def reduces(case, late_us, length_us=3000):
    """All-reduces, one every 3 ms; late_us[rank][i]: how late the rank enters it."""
    for rank, late in enumerate(late_us):
        events = []
        for i, delay in enumerate(late):
            begin, shared = length_us * i + 1000 + delay, max(row[i] for row in late_us) + 1000
            events += work("gemm", length_us * i, 1000 + delay, 7, 2 * i + 1)
            events += work(NCCL, begin, length_us * i + shared + 500 - begin, 9, 2 * i + 2,
                           **{"Collective name": "allreduce", "Process Group Name": "0", "Seq": i,
                              "Group size": len(late_us), "In msg nelems": 1024, "Out msg nelems": 1024,
                              "dtype": "BFloat16"})
        write(case, rank, len(late_us), length_us * len(late_us[0]), events)


# Each rank is late in turn: all wait 3 x 1 ms of 12 ms.
reduces("even", [[1000 * (i % 4 == rank) for i in range(8)] for rank in range(4)])
# Rank 1 waits 1 ms, the others 2 ms and 2 ms: exactly half of their mean, so it does not stand out.
reduces("half", [[0, 0, 1000], [1000, 1000, 0], [0, 0, 1000]])
# Rank 1 waits 1 ms, the others 3 ms each: less than half.
reduces("third", [[0, 0, 0, 1000], [1000, 1000, 1000, 0], [0, 0, 0, 1000]])
# Two collectives of two groups at the same time: rank 0 waits 2 ms in both.
for rank in range(2):
    begin, events = 2000 * rank, []
    for place, group in enumerate(("0", "1")):
        events += work(NCCL, begin + 10 * place, 2500 - begin, 9 + place, place + 1,
                       **{"Collective name": "allreduce", "Process Group Name": group, "Seq": 1, "Group size": 2,
                          "In msg nelems": 1024, "Out msg nelems": 1024, "dtype": "BFloat16"})
    write("concurrent", rank, 2, 2510, events)


# One step of 100 ms: the data loader takes 60 ms, then kernels back to back up to 98 ms.
loader = [event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 60000)]
gemms = []
for i in range(4):
    gemms += work("gemm", 60010 + 9500 * i, 9500, 7, i + 1, 60000 + 2 * i)
write("loader", 0, 1, 100000, loader + gemms)
# The same without a step: all that was recorded.
write("nosteps", 0, 1, 100000, loader + gemms, steps=False)
# The same on a CPU; and the near miss, in which a thread of its own asks the data loader.
ops = [event("cpu_op", "aten::linear", 60000 + 9500 * i, 9500) for i in range(4)]
write("cpu", 0, 1, 100000, loader + ops)
write("thread", 0, 1, 100000, [{**loader[0], "tid": 2}] + ops)
# The near miss: the GPU works for the whole step.
write("full", 0, 1, 100000, sum((work("gemm", 100 + 9980 * i, 9980, 7, i + 1, 10 * i) for i in range(10)), []))


# One step of 20 ms, half of which are collectives that nothing overlaps with.
def exposed(case, name, kernel, pieces):
    events = []
    for i in range(5):
        events += work("gemm", 4000 * i, 2000, 7, 2 * i + 1)
        events += work(kernel, 4000 * i + 2000, 2000, 9, 2 * i + 2,
                       **{"Collective name": name, "Process Group Name": "0", "Group size": pieces,
                          "In msg nelems": 4096, "Out msg nelems": 4096, "dtype": "BFloat16"})
    write(case, 0, pieces, 20000, events)


exposed("exchange", "alltoall", NCCL.replace("AllReduce_Sum_bf16", "SendRecv"), 4)
exposed("gathers", "all_gather_into_tensor_out", NCCL.replace("AllReduce_Sum_bf16", "AllGather"), 4)
# Four units of FSDP, the reductions of which run on a stream of their own, and yet one after the other with compute.
events = []
for i in range(4):
    begin = 5000 * i
    name = f"FSDP::post_backward_reduce (layers.{3 - i})"
    events += work("gemm", begin, 3000, 7, 2 * i + 1)
    events += [event("user_annotation", name, begin + 1000, 500),
               event("user_annotation", f"FSDP::all_gather (layers.{3 - i})", begin + 500, 10)]
    events += work(NCCL.replace("AllReduce", "ReduceScatter"), begin + 3000, 2000, 9, 2 * i + 2, begin + 1100,
                   **{"Collective name": "_reduce_scatter_base", "Process Group Name": "0", "Group size": 4,
                      "In msg nelems": 4096, "Out msg nelems": 1024, "dtype": "BFloat16"})
events += work("gemm", 20000, 3000, 7, 99)
write("alone", 0, 4, 23000, events)
