# SPDX-License-Identifier: Apache-2.0
"""Logs of training jobs."""

import json
import textwrap

from .files import sample


def timeout(prefix, seq, limit_ms, after_ms, sizes=""):
    """What a watchdog of NCCL prints of an all_reduce."""
    return (f"{prefix}Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, {sizes}"
            f"Timeout(ms)={limit_ms}) ran for {after_ms} milliseconds before timing out.\n")


def lines(folder, name, *texts):
    folder.write(name, *(text + "\n" for text in texts))


@sample
def profile_lines_that_are_malformed(folder):
    profiles = {
        "good": r"""{'a': 1.5,'b\x41\u00e9\U0001f600\n\r\t\\\'\"': 2})""",
        "numbers": "{'i': inf, 'j': -inf, 'k': nan, 'l': 1e-3 , })",
        "type": "{<Type.ALL: 'all'>: 1})",
        "none": "{ })",
        "escape": r"{'\q': 1})",
        "short": r"{'\x4': 1})",
        "high": r"{'\U00110000': 1})",
        "highest": r"{'\U0010ffff': 1})",
        "quote": "{'a: 1})",
        "bare": "{a: 1})",
        "colon": "{'a' 1})",
        "word": "{'a': one})",
        "comma": "{'a': 1 'b': 2})",
        "brace": "{'a': 1",
        "paren": "{'a': 1}",
        "behind": "{'a': 1}) ",
        "list": "['a': 1])",
        "class": "{<Type.ALL 'all'>: 1})",
        "angle": "{<Type.ALL: 'all': 1})",
        "end": "{'a': 1, ",
        "backslash": "{'a\\",
    }
    lines(
        folder, "t.log",
        *(f"x [1] FSDP {name} profiling:  defaultdict(<class 'float'>, {text}" for name, text in profiles.items()),
        "logger: no FSDP word profiling: defaultdict(<class 'float'>, {})",
        "logger]no word profiling:defaultdict(<class 'float'>, {'c': 1})",
        "plain profiling: defaultdict(<class 'float'>, {'c': 2})",
        "not here: defaultdict(<class 'float'>, {'c': 4})",
        "defaultdict(<class 'float'>, {'c': 4})")


@sample
def logs_of_one_rank_each(folder):
    """What each rank wrote into two common logs."""
    for name, source in (("mesh", "watchdog/mesh_w4"), ("group", "gloo_logs/group_w4")):
        common = folder.read(f"testdata/traces/{source}.log").splitlines(keepends=True)
        for rank in range(4):
            own = [line for line in common if b"rank%d]" % rank in line]
            if own:
                folder.write(f"{name}/rank{rank}.log", *own)


@sample
def desync_reports_with_rank_lists(folder):
    """Lists of ranks and numbers of collectives of which many are damaged."""
    calls = [(ranks, "#5") for ranks in (
        "[0, 1]", "[0,1]", "[0, 1,]", "[0, 1, ]", "[0; 1]", "[]", "[1]", "[0, 1, 2147483648]", "[0, 16777215, 2]",
        "[0, x, 2]", "0, 1]", "[0, 1", "[[0, 1]", "[0] [1, 2]", "[0, -1, 2]")]
    calls += [("[0, 1]", number) for number in (
        "5", "#", "#x", "#-5", "#6", "#4", "#9223372036854775807", "#4611686018427387902", "# 5", "##5", "#5x")]
    for variant, (ranks, number) in zip(folder.folders(f"{ranks} {number}" for ranks, number in calls), calls):
        variant.write(
            "t.log", timeout("[E ProcessGroupNCCL.cpp:632] [Rank 0] ", 5, 600000, 600020),
            "\t - [0] Timeout at collective: ALLREDUCE, #5\n",
            "\t   #4 finished ranks:\n",
            "\t     [9] finished BROADCAST\n",
            f"\t   {number} started ranks:\n",
            f"\t     {ranks} started ALLREDUCE\n")


@sample
def shapes_of_gloo_that_are_damaged(folder):
    shapes = ("4 x4", "4, ", "4 4", "9999999999999999999", "-4", "2, 2")
    for variant, shape in zip(folder.folders(shapes), shapes):
        variant.copy("traces/gloo_logs/size_w3.log", "damaged.log")
        variant.edit("damaged.log", "TensorShape=[2, 4]", f"TensorShape=[{shape}]")


@sample
def exceptions_of_rank_2_without_a_time(folder):
    """Before the lines of the other ranks, which have times."""
    others = [line for line in folder.read("testdata/traces/watchdog/exception_w3.log").splitlines(keepends=True)
              if b"rank2" not in line]
    errors = ("torch.OutOfMemoryError: CUDA out of memory", "RuntimeError: NCCL communicator was aborted",
              "ValueError: timeout")
    for variant, error in zip(folder.folders(errors), errors):
        variant.write("job.log", f"[rank2]: {error}\n", *others)


@sample
def errors_of_two_ranks(folder):
    """The earlier one twice; and the same error in one second."""
    ended = "Process group watchdog thread terminated with exception: CUDA error:"
    memory = "an illegal memory access was encountered"

    def error(rank, second, text):
        return (f"[rank{rank}]:[E1101 08:00:0{second}.123456789 ProcessGroupNCCL.cpp:1895] "
                f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] {ended} {text}\n")

    folder.write("same.log", error(0, 1, memory), error(3, 1, memory))
    folder.write("errors.log", error(0, 2, "unknown"), error(3, 1, memory),
                 f"  what():  [PG ID 0 PG GUID 0(default_pg) Rank 3] {ended} {memory}\r\n")


@sample
def errors_as_launchers_print_them(folder):
    lines(folder, "ray.log", "(RayWorker pid=5304) [E ProcessGroupNCCL.cpp:916] [Rank 7] "
          "NCCL watchdog thread terminated with exception: CUDA error: unknown error")
    lines(folder, "torchrun.log", "[default1]:[I ProcessGroupNCCL.cpp:475] [Rank 1] found async exception when "
          "checking for NCCL errors: NCCL error: unhandled system error, NCCL version 2.10.3")
    lines(folder, "srun.log", "3: [rank2]:[E1206 18:40:12.815298701 ProcessGroupNCCL.cpp:587] [Rank 2] Collective "
          "WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=600000) raised the following async exception: "
          "NCCL error: remote process exited or there was a network error")


@sample
def watchdogs_that_are_stuck(folder):
    """Alone, and behind a timeout."""
    stuck = [f"[rank{rank}]:[F1206 18:5{rank}:12.700000000 ProcessGroupNCCL.cpp:1224] [PG 0 Rank {rank}] "
             "ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress\n" for rank in (0, 2)]
    folder.write("stuck.log", *stuck)
    folder.write("timeout.log", timeout("[rank1]:[E1206 18:44:12.100000000 ProcessGroupNCCL.cpp:632] [Rank 1] ", 5,
                                        600000, 600020, "NumelIn=8, NumelOut=8, "), *stuck)


@sample
def forward_orders_that_differ(folder):
    """Across ranks, and from the first iteration."""
    lines(folder, "ranks.log", "[rank1]: RuntimeError: Forward order differs across ranks: "
          "rank 0 is all-gathering 3 parameters while rank 2 is all-gathering 2 parameters")
    lines(folder, "iterations.log", "site-packages/torch/distributed/fsdp/_exec_order_utils.py:298: UserWarning: "
          "Forward order differs from that of the first iteration on rank 1. "
          "Collectives are unchecked and may give incorrect results or hang.")


def gloo_error(rank, place, text):
    return f"[rank{rank}]: RuntimeError: [{place}] {text}\n"


RECEIVE_TIMED_OUT = ("/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78",
                     "Timed out waiting 4000ms for recv operation to complete")


@sample
def receives_of_gloo_that_timed_out_on_each_rank(folder):
    folder.write("t.log", *(gloo_error(rank, *RECEIVE_TIMED_OUT) for rank in range(3)))


@sample
def transfers_of_gloo_that_timed_out_or_lost_the_peer(folder):
    folder.write("t.log", gloo_error(0, *RECEIVE_TIMED_OUT), gloo_error(
        2, "../third_party/gloo/gloo/transport/tcp/pair.cc:534", "Connection closed by peer [127.0.0.1]:43210"))


@sample
def timeouts_far_apart_without_process_groups(folder):
    folder.write("old.log", timeout("[E ProcessGroupNCCL.cpp:458] [Rank 0] ", 9117, 1800000, 1800613),
                 timeout("[E ProcessGroupNCCL.cpp:458] [Rank 1] ", 6408, 1800000, 1800251))


@sample
def sixty_ranks_that_did_not_come_to_a_barrier(folder):
    ranks = ", ".join(str(rank) for rank in range(1, 121, 2))
    lines(folder, "many.log", "[rank0]:[E1126 19:37:08.256 ProcessGroupGloo.cpp:144] [Rank 0]: "
          f"Ranks {ranks} failed to pass monitoredBarrier in 3000 ms")


@sample
def timeouts_of_1024_ranks(folder):
    line = next(line for line in folder.read("testdata/traces/watchdog/stuck_w8.log").decode().split("\n")
                if "Rank 6] Watchdog caught" in line)
    lines(folder, "many.log", *(line.replace("rank6", f"rank{rank}").replace("Rank 6", f"Rank {rank}")
                                for rank in range(1024)))


def failure(rank, group, seq, enqueued, number=None, time="05:20:03"):
    """What a watchdog of NCCL prints when an all_reduce of a group fails."""
    front = f"[rank{rank}]:[E901 {time}.123992144 ProcessGroupNCCL.cpp:"
    number = rank if number is None else number
    return (timeout(f"{front}632] [Rank {number}] ", seq, 600000, 600020, "NumelIn=1, NumelOut=1, ") +
            f"{front}2271] [PG ID 0 PG GUID {group} Rank {number}]  failure detected by watchdog at work sequence id: "
            f"{seq} PG status: last enqueued work: {enqueued}, last completed work: {seq - 1}\n")


@sample
def errors_of_rank_2_that_others_wait_for(folder):
    """Of its own code, and of a group of processes."""
    errors = ("DataLoader worker (pid 12345) is killed by signal: Killed. ",
              "The size of tensor a (512) must match the size of tensor b (513)",
              "NCCL communicator was aborted on rank 2.")
    others = [failure(rank, "0(default_pg)", 4606, 4606) for rank in (0, 1, 3)]
    for variant, error in zip(folder.folders(errors), errors):
        variant.write("job.log", f"[rank2]: RuntimeError: {error}\n", *others)


@sample
def report_of_torchrun_with_the_signal_below(folder):
    lines(folder, "job.log", *(failure(rank, "0(default_pg)", 808, 811) for rank in (0, 1, 3)),
          "Root Cause (first observed failure):", "  rank      : 2 (local_rank: 2)", "  exitcode  : -9 (pid: 48101)",
          "  error_file: <N/A>", "  traceback : Signal 9 (SIGKILL) received by PID 48101")


@sample
def logs_in_which_ranks_cannot_be_compared(folder):
    """Of rank 1, which heard of a timeout in another group, and of ranks that wait in groups of their own."""
    dump = ("[rank1]:[E901 05:20:03.123992144 ProcessGroupNCCL.cpp:1890] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
            "Received a dump signal due to a collective timeout from {} and we will try our best to dump the debug "
            "info. Last enqueued NCCL work: 51, last completed NCCL work: 51.\n")
    waits = failure(2, "97(PIPELINE_MODEL_PARALLEL_GROUP)", 1, 1, 0)
    folder.write("local.log", dump.format("this local rank"))
    folder.write("one.log", dump.format(" rank 3"), waits)
    folder.write("groups.log", waits, failure(3, "98(TENSOR_MODEL_PARALLEL_GROUP)", 57, 60, 0))
    folder.write("alone.log", failure(2, "0(default_pg)", 808, 811))


def hang(missing, seq, time, ranks=4):
    """What the ranks of a job print of a collective that one of them never entered."""
    dump = (f"[rank{missing}]:[E901 {time}.223992144 ProcessGroupNCCL.cpp:1890] [PG ID 0 PG GUID 0(default_pg) Rank {missing}] "
            "Received a dump signal due to a collective timeout from  rank 9 and we will try our best to dump the debug "
            f"info. Last enqueued NCCL work: {seq - 1}, last completed NCCL work: {seq - 1}.\n".replace("rank 9", f"rank {(missing + 1) % 4}"))
    return [failure(rank, "0(default_pg)", seq, seq + 1, time=time) for rank in range(ranks) if rank != missing] + [dump]


@sample
def logs_of_a_job_that_was_started_again(folder):
    """First rank 3 is missing, then rank 1, at an earlier or a later step; with what torchrun prints between, or without."""
    restart = ("I901 05:20:05.500000 77 torch/distributed/elastic/agent/server/api.py:879] [default] Worker group FAILED. "
               "3/3 attempts left; will restart worker group\n")
    first = hang(3, 100, "05:20:03")
    folder.write("earlier.log", *first, *hang(1, 40, "07:20:03"))
    folder.write("later.log", *first, *hang(1, 140, "07:20:03"))
    folder.write("torchrun.log", *first, restart, *hang(1, 100, "07:20:03"))
    folder.write("recovers.log", *first, restart, "step 101\n")


@sample
def logs_of_torchrun_by_attempt(folder):
    """As torchrun --log-dir writes them: RUN/attempt_N/RANK/stderr.log; rank 3 is missing first, then rank 1."""
    for attempt, missing in ((0, 3), (1, 1)):
        lines_of_all = hang(missing, 100, f"0{5 + attempt}:20:03")
        for rank in range(4):
            own = [line for line in lines_of_all if line.startswith(f"[rank{rank}]")]
            folder.write(f"none_abc/attempt_{attempt}/{rank}/stderr.log", *own)
            folder.write(f"none_abc/attempt_{attempt}/{rank}/stdout.log", "")


@sample
def log_of_two_jobs_at_a_time(folder):
    """As of an actor and of its rollout: each has a rank 0 and a rank 1."""
    folder.write("job.log", *hang(1, 100, "05:20:03", 2), *hang(1, 7, "05:20:05", 2))


@sample
def logs_as_launchers_change_them(folder):
    """Lines in strings of JSON by Docker, wrapped by Rich, and omitted by Ray."""
    text = "".join(hang(3, 100, "05:20:03"))
    folder.write("docker.log", *(json.dumps({"log": line, "stream": "stderr", "time": "2026-09-01T05:20:03Z"},
                                            separators=(",", ":")) + "\n" for line in text.splitlines(keepends=True)))
    wrapped = [f"{'[09/01/26 05:20:03] ERROR' if i == 0 else '':29}{part:60} {'logger.py:616' if i == 0 else ''}\n"
               for line in text.splitlines() for i, part in enumerate(textwrap.wrap(line, 60))]
    folder.write("rich.log", *wrapped)
    shown = failure(0, "0(default_pg)", 100, 101).splitlines()
    folder.write("ray.log", "(Worker pid=17) [rank3]: starts\n", *(
        f"(Worker pid=15) {line} [repeated 2x across cluster]\n" for line in shown))


@sample
def logs_of_a_connection_that_ended_first(folder):
    """Of rank 3, while all others print that they wait, or while rank 2 prints nothing."""
    error = ("[rank3]:[E901 05:10:01.123992144 ProcessGroupNCCL.cpp:2036] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group "
             "watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error\n")
    for name, ranks in (("heard", (0, 1, 2)), ("silent", (0, 1))):
        folder.write(f"{name}.log", error, *(failure(rank, "0(default_pg)", 100, 101) for rank in ranks))


@sample
def logs_of_a_store_and_of_a_heartbeat(folder):
    """The processes that did not join, the store that is gone, and a watchdog that gives no sign."""
    front = "[rank3]:[E901 05:10:01.123992144 "
    lines(folder, "join.log", "[rank1]: Traceback (most recent call last):",
          '[rank1]:   File "/src/train.py", line 12, in main',
          "[rank1]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined.")
    lines(folder, "store.log", f"{front}TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, addr=[a]:40010, "
                               "remote=[b]:29500): failed to recv, got 0 bytes")
    lines(folder, "heartbeat.log", f"{front}ProcessGroupNCCL.cpp:1306] [PG ID 0 PG GUID 0(default_pg) Rank 3] Heartbeat monitor "
                                   "timed out! Process will be terminated after dumping debug info.")
