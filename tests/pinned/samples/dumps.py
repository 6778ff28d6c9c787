# SPDX-License-Identifier: Apache-2.0
"""Dumps of the flight recorder of NCCL, and snapshots of the memory of CUDA."""

import json
import pickle

from .files import pickled, sample
from .logs import timeout
from .traces import event

START_NS = 1790000000000000000


def entry(record, seq, op, **changes):
    """A collective of the default process group that is complete. Other values are given by the keys."""
    return {
        "record_id": record, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq,
        "p2p_seq_id": 0, "op_id": 1, "profiling_name": f"nccl:{op}", "time_created_ns": START_NS + record,
        "input_sizes": [[4]], "output_sizes": [[4]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
        "state": "completed", "retired": True, "is_p2p": False} | changes


def group(ranks, name="0", desc="default_pg"):
    return {name: {"name": name, "desc": desc, "ranks": str(ranks)}}


def dump(folder, name, entries, ranks):
    folder.json(name, {"version": "2.10", "pg_config": group(ranks), "entries": entries})


def dumps(folder, entries_of_ranks, ranks=None):
    """One for each rank. ranks: those of the group, if others are in it, too."""
    for rank, entries in enumerate(entries_of_ranks):
        dump(folder, f"nccl_trace_rank_{rank}.json", entries, ranks or list(range(len(entries_of_ranks))))


def seventh(second, state="started", **more):
    """The collective in which ranks hang, called in this second."""
    return entry(0, 7, "all_reduce", op_id=7, time_created_ns=START_NS + second * 10**9, state=state, retired=False,
                 **more)


@sample
def dumps_of_ranks_that_wait_in_one_collective(folder):
    dumps(folder, [[seventh(rank)] for rank in (0, 1)])


@sample
def dumps_of_ranks_that_wait_with_other_calls_before(folder):
    """The rank that came first has fewer calls in its dump."""
    dumps(folder, [[entry(0, 6, "broadcast"), seventh(5, record_id=1)], [seventh(1, record_id=1)]])


@sample
def dumps_of_different_moments(folder):
    """Of calls 1 to N of each rank; the last one of ranks that are marked is not complete."""
    def calls(count, is_open=False, last="all_reduce"):
        open_call = {"state": "started", "retired": False} if is_open else {}
        return ([entry(seq - 1, seq, "all_reduce") for seq in range(1, count)]
                + [entry(count - 1, count, last, **open_call)])

    variants = {
        "a job that runs": [calls(2), calls(5)],
        "a broadcast ends without the others": [calls(2), calls(3, last="broadcast")],
        "the newest waits": [calls(2, True), calls(5), calls(6, True)],
        "one moment": [calls(2), calls(3, True)],
        "rank 2 went on elsewhere": [calls(2), calls(6, True), calls(5) + [
            entry(9, 1, "all_reduce", pg_id=1, process_group=["1", "other"], time_created_ns=START_NS + 20 * 10**9)]],
    }
    for variant, ranks in zip(folder.folders(f"== {title}" for title in variants), variants.values()):
        dumps(variant, ranks)


@sample
def dumps_of_a_gpu_that_did_not_begin(folder):
    dumps(folder, [[seventh(0)], [seventh(0, "scheduled")]])


@sample
def dumps_of_gloo_that_blame_no_rank(folder):
    """A peer finished the collective, or the other ranks of the groups left no dump."""
    def call(record, name, seq, op, retired):
        return entry(record, seq, op, process_group=name, op_id=seq, profiling_name=f"gloo:{op}", state="scheduled",
                     retired=retired)

    world, shards, pair = ["0", "default_pg"], ["1", "shard"], ["2", "pair"]
    peers = {
        "finished": ([call(0, world, 1, "broadcast", False)],
                     [call(0, world, 1, "broadcast", True), call(1, world, 2, "all_reduce", False)]),
        "absent": ([call(0, shards, 1, "all_reduce", False)], [call(1, pair, 1, "all_gather", False)]),
    }
    for name, ranks in peers.items():
        for rank, entries in enumerate(ranks):
            folder.json(f"{name}/dump_rank{rank}.json", {
                "version": "2.10", "pg_config": group([], "", ""), "entries": entries})


@sample
def dumps_without_that_of_rank_2(folder):
    dumps(folder, [[seventh(0)], [seventh(1, "completed")]], [0, 1, 2])


@sample
def dump_with_stack_frames(folder):
    frames = (
        ("all_reduce", "/env/torch/distributed/distributed_c10d.py", 3),
        ("inner", "/usr/lib/python3.11/contextlib.py", 81),
        ("wrapper", "/env/typing_extensions.py", 5),
        ("step", "/home/u/train.py", 7),
    )
    dumps(folder, [[seventh(0, frames=[dict(zip(("name", "filename", "line"), one)) for one in frames])], []])


@sample
def dumps_that_differ_in_a_collective(folder):
    def call(op, sizes=([4],), dtype="Float", record=0, seq=1):
        sizes = list(sizes)
        return entry(record, seq, op, input_sizes=sizes, output_sizes=sizes, input_dtypes=[dtype],
                     output_dtypes=[dtype])

    reduce, broadcast, gather = call("all_reduce"), call("broadcast"), call("all_gather")
    of_8, of_2x2, of_none = (call("all_reduce", sizes) for sizes in ([[8]], [[2, 2]], []))
    half = call("all_reduce", dtype="Half")
    second, other_second = (call(op, record=1) for op in ("broadcast", "all_gather"))
    variants = {
        "three of five": [[broadcast], [reduce], [reduce], [gather], [reduce]],
        "two of five": [[gather], [broadcast], [reduce], [reduce], [broadcast]],
        "two of four": [[broadcast], [reduce], [reduce], [broadcast]],
        "two, one, one": [[gather], [reduce], [reduce], [broadcast]],
        "three of four": [[reduce], [broadcast], [reduce], [reduce]],
        "sizes": [[reduce], [of_8], [reduce], [reduce]],
        "as many elements": [[reduce], [of_2x2], [reduce], [reduce]],
        "sizes unknown": [[of_none], [reduce], [reduce], [reduce]],
        "unknown beside others": [[of_none], [reduce], [reduce], [of_8]],
        "dtypes": [[reduce], [reduce], [half], [reduce]],
        "op before size before dtype": [[broadcast], [of_8], [half], [reduce]],
        "one less": [[reduce, second], [reduce, second], [reduce], [reduce, second]],
        "other seconds": [[reduce, second], [reduce, second], [reduce, other_second], [reduce, second]],
        "a ring": [
            [call("all_reduce", record=3, seq=3), call("all_reduce", record=4, seq=4)],
            [reduce] + [call("all_reduce", record=seq - 1, seq=seq) for seq in (2, 3, 4)],
            [broadcast, call("broadcast", record=1, seq=2)]
            + [call("all_reduce", record=seq - 1, seq=seq) for seq in (3, 4)],
            [call("broadcast", record=2, seq=2), call("all_reduce", record=3, seq=3),
             call("all_gather", record=4, seq=4)],
        ],
    }
    for variant, ranks in zip(folder.folders(f"== {title}" for title in variants), variants.values()):
        dumps(variant, ranks)


@sample
def dumps_with_sends_and_receives(folder):
    def call(record, seq, p2p_seq, op, sent, received, is_p2p):
        return entry(record, seq, op, p2p_seq_id=p2p_seq, input_sizes=[[sent]], output_sizes=[[received]],
                     is_p2p=is_p2p)

    def p2p(*calls):
        """Of (name, elements sent) or (name, elements sent, elements received)."""
        return [call(number, 0, number + 1, name, sizes[0], sizes[-1], True)
                for number, (name, *sizes) in enumerate(calls)]

    def waiting(*calls):
        """The last of them is not complete."""
        *done, last = p2p(*calls)
        return done + [last | {"state": "started", "retired": False}]

    variants = {
        "matched": {
            0: p2p(("send 0->1", 4), ("recv 0<-2", 3), ("send 0->1", 5)),
            1: p2p(("recv 1<-0", 9, 4), ("recv 1<-0", 9, 5)),
            2: p2p(("send 2->0", 3, 7), ("send 2->9", 1), ("send 3->2", 1), ("isend 2->1", 1), ("send 2>1", 1),
                   ("send x->1", 1), ("send 2->", 1), ("send 4294967297->1", 1)),
        },
        "sent only": {
            0: waiting(("send 0->1", 4), ("send 0->1", 4)), 1: p2p(("recv 1<-0", 4)), 2: waiting(("send 2->1", 4)),
        },
        "received only": {
            0: waiting(("recv 0<-2", 4), ("recv 0<-2", 4)), 1: waiting(("recv 1<-2", 4)), 2: p2p(("send 2->0", 4)),
        },
        "unheard": {0: p2p(("send 0->1", 4)), 2: p2p(("recv 2<-1", 4))},
        "sizes": {
            0: p2p(("recv 0<-2", 4), ("recv 0<-2", 4, 5)),
            1: p2p(("recv 1<-2", 9)),
            2: p2p(("send 2->0", 4), ("send 2->0", 6, 5), ("send 2->1", 8)),
        },
        "order": {rank: [call(record, seq, 0, op, sent, received, False) for record, seq, op, sent, received in (
            (2, 3, "all_reduce", 3, 3), (0, 1, "all_gather", 1, 2), (1, 2, "broadcast", 2, 2),
            (4, 5, "all_reduce", rank + 5, rank + 5), (3, 4, "barrier", 1, 1))] for rank in range(3)},
    }
    for variant, ranks in zip(folder.folders(variants), variants.values()):
        for rank, entries in ranks.items():
            dump(variant, f"nccl_trace_rank_{rank}.json", entries, [0, 1, 2])


@sample
def dumps_of_seven_process_groups(folder):
    for rank in (0, 1):
        dump(folder, f"nccl_trace_rank_{rank}", [
            entry(0, 1, "all_reduce", pg_id=1, process_group=[name, f"group_{name}"], time_created_ns=1)
            for name in "abcdefg"], [0, 1])


@sample
def dump_that_is_empty(folder):
    """Of rank 1."""
    folder.copy("traces/flight_recorder/clean_w2/nccl_trace_rank_0", "d/fr_trace_0")
    folder.write("d/fr_trace_1")


@sample
def dumps_and_log_with_the_least_numbers(folder):
    for rank in (0, 1):
        folder.json(f"dumps/nccl_trace_rank_{rank}.json", {
            "version": "2.9",
            "pg_status": {"0": {"last_enqueued_collective": 8, "last_completed_collective": 7}},
            "pg_config": group([0, 1]),
            "entries": [{
                "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": -2**63,
                "profiling_name": "nccl:all_reduce", "time_created_ns": 17, "input_sizes": [[64]],
                "output_sizes": [[64]], "state": "scheduled", "retired": False, "is_p2p": False}]})
    folder.write("t.log", timeout("[E ProcessGroupNCCL.cpp:632] [Rank 0] ", 5, 600000, -(2**63 - 1)))


@sample
def dumps_of_ten_pairs_that_hang(folder):
    for rank in range(20):
        number = rank // 2
        name = str(number)
        entries = [entry(seq, seq, "all_reduce", pg_id=number, process_group=[name, "x"], op_id=seq,
                         time_created_ns=seq, input_sizes=[[1]], output_sizes=[[1]], state=state, retired=False)
                   for seq, state in ((1, "completed"), (2, "started" if rank % 2 else "completed"), (3, "started"))]
        folder.json(f"d{rank}", {"version": "2.10", "nccl_version": "2.20",
                                 "pg_config": group([2 * number, 2 * number + 1], name, "x"), "entries": entries})


# ---- snapshots of the memory ----


def pickle_of(value):
    """Of lists, dicts, integers and texts, without a memo."""
    if isinstance(value, dict):
        return b"}(" + b"".join(pickle_of(key) + pickle_of(one) for key, one in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(pickle_of, value)) + b"e" if value else b"]"
    return b"%c%s\n" % (b"I" if isinstance(value, int) else b"V", str(value).encode())


def snapshot(*segments, traces=None):
    return pickled(pickle_of({"segments": list(segments), "device_traces": traces or []}))


def segment(device, size, *blocks):
    return {"device": device, "total_size": size, "address": 4096, "blocks": list(blocks)}


def block(size, requested, state, filename, line, name):
    return {"size": size, "requested_size": requested, "state": state,
            "frames": [{"filename": filename, "line": line, "name": name}]}


@sample
def snapshots_with_stacks_of_equal_growth(folder):
    """before, now, and two: with two devices."""
    same = block(100, 100, "active_awaiting_free", "c.py", 3, "same")

    def up(size, requested, line=1):
        return block(size, requested, "active_allocated", "a.py", line, "up")

    folder.write("before.pickle", snapshot(segment(
        0, 4096, up(512, 500), up(512, 500, 2), block(1024, 900, "active_pending_free", "b.py", 7, "down"), same,
        block(64, 64, "inactive", "d.py", 3, "idle")), traces=[[]]))
    folder.write("now.pickle", snapshot(segment(
        0, 8192, up(1024, 1000), up(1024, 1000, 2), block(512, 400, "active_pending_free", "b.py", 7, "down"), same,
        block(300, 300, "active_allocated", "e.py", 3, "fresh")), traces=[[]]))
    folder.write("two.pickle", snapshot(segment(1, 8192, up(1, 1)), segment(0, 4096, up(2, 2)), traces=[[]]))


@sample
def snapshots_of_a_rank_out_of_memory(folder):
    """40 MiB are free in a segment, of 30 MiB that are requested; in grows.pickle it can grow."""
    mib = 1 << 20
    blocks = (block(60 * mib, 60 * mib, "active_allocated", "a.py", 1, "train"),
              block(40 * mib, 0, "inactive", "a.py", 1, "train"))
    oom = {"action": "oom", "size": 30 * mib, "device_free": 10 * mib, "addr": 0, "stream": 0, "frames": []}
    for name, grows in (("fixed", False), ("grows", True)):
        folder.write(f"{name}.pickle", pickle.dumps({
            "segments": [segment(0, 100 * mib, *blocks) | {"is_expandable": grows}], "device_traces": [[oom]]}, 2))


@sample
def snapshots_of_ranks_4_and_5(folder):
    """Earlier ones of both in then/, a later one of rank 4."""
    folder.copy("traces/memory/cpp_w2/rank0.pickle", "then/x4.pickle")
    folder.copy("traces/memory/plain/rank0.pickle", "then/x5.pickle")
    folder.copy("traces/memory/cpp_w2/rank0.pickle", "now-x4.pickle")


# ---- files of any kind ----


@sample
def files_with_ranks_in_their_names(folder):
    """Traces, dumps and snapshots, and the names of each kind in their order."""
    call = entry(0, 1, "all_reduce", input_sizes=[[1]], output_sizes=[[1]])
    kinds = {
        "trace": (
            {"traceEvents": [event("cpu_op", "a", 1, 1, None, None)]},
            "t.json|rank3.json|rank-4|rank_5.x|rank 6|rank--7|rank|rank.|Rank8|rank9rank10|rank11x12|r13|t14.json|"
            "rank3rank3000000000|rank2147483647|rank2147483648|rank3rank|rank9223372036854775807|"
            "rank9223372036854775808|rank99999999999999999999|x_rank017.json|trank18|worker19|worker_20|host1_21.json|"
            "dp22|pp3rank4|rank5_tp6"),
        "dump": (
            {"version": "2.10", "pg_config": group([0, 1]), "entries": [call]},
            "nccl_trace_rank_1|dump7.json|8|host1_9|dump_10.json.gz|dump_11.pt.json|dump_12.txt|rank_3_4.pkl|"
            "5.pickle.gz.json|.json"),
        "memory": (
            snapshot(),
            "oom_3.pickle|snapshot-4|5|x6.7|8.pickle.9.x|a10b.pickle|.11|12.|rank13_14.pickle|15a"),
    }
    for kind, (content, names) in kinds.items():
        names = names.split("|")
        for variant, name in zip(folder.within(kind).folders(names), names):
            variant.write(f"in/{name}", content if isinstance(content, bytes) else json.dumps(content))
