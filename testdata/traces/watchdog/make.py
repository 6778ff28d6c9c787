#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the logs of this folder and truth.json: what NCCL's watchdog prints in jobs whose ranks are known to part.

The lines are put together from the format strings of ProcessGroupNCCL.cpp of each release; NCCL itself needs GPUs.
"""
import json
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
DUMP = (" and we will try our best to dump the debug info. Last enqueued NCCL work: %d, last completed NCCL work: %d."
        "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order "
        "of collectives is not same for all ranks or the scheduled collective, for some reason, didn't run. ")


def head(rank, release, line, milliseconds=0):
    if release == "1.13":
        return "[E ProcessGroupNCCL.cpp:%d] " % line
    if release == "2.3":
        return "[rank%d]:[E ProcessGroupNCCL.cpp:%d] " % (rank, line)
    return "[rank%d]:[E1206 18:44:%02d.%03d298746 ProcessGroupNCCL.cpp:%d] " % (
        rank, 12 + milliseconds // 1000, milliseconds % 1000, line)


def group_words(release, uid, desc, local):
    if release == "2.3":
        return "[PG %s Rank %d] " % (uid, local)
    if release == "2.4":
        return "[PG %s %sRank %d] " % (uid, "(%s) " % desc if desc else "", local)
    return "[PG ID %s PG GUID %s%s Rank %d] " % (uid, uid, "(%s)" % desc if desc else "", local)


def timeout(rank, release, local, seq, op, numel, ran=600000):
    size = "" if release == "1.13" else ", NumelIn=%d, NumelOut=%d" % numel
    return head(rank, release, 632, ran % 1000) + (
        "[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=%s%s, Timeout(ms)=600000) "
        "ran for %d milliseconds before timing out." % (local, seq, op, size, ran))


def status(rank, release, uid, desc, local, seq, enqueued, completed):
    words = {"2.3": "Timeout at NCCL work: %d, last enqueued NCCL work: %d, last completed NCCL work: %d.",
             "2.4": "Exception (either an error or timeout) detected by watchdog at work: %d, last enqueued NCCL work: "
                    "%d, last completed NCCL work: %d."}.get(
        release, " failure detected by watchdog at work sequence id: %d PG status: last enqueued work: %d, last "
                 "completed work: %d")
    return head(rank, release, 2271, 900) + group_words(release, uid, desc, local) + words % (seq, enqueued, completed)


def signal(rank, release, of, enqueued, completed):
    return (head(rank, release, 1987, 1100) + group_words(release, "0", "default_pg", rank) +
            "Received a dump signal due to a collective timeout from  rank %d" % of + DUMP % (enqueued, completed))


def stuck(release, world, behind, seq, op, numel, uid="0", desc="default_pg"):
    lines = []
    for rank in range(world):
        if rank in behind:
            if release not in ("1.13", "2.3") and uid == "0":
                lines.append(signal(rank, release, 0, seq - 1, seq - 1))
            continue
        lines.append(timeout(rank, release, rank, seq, op, numel, 600000 + 7 * rank))
        if release != "1.13":
            lines.append(status(rank, release, uid, desc, rank, seq, seq + 3, seq - 1))
    return lines


def report(release, rank, op, seq, missing, lagging, snapshot):
    """What TORCH_NCCL_DESYNC_DEBUG prints, from the format strings of TraceUtils.h."""
    def listed(ranks):
        return ", ".join(str(r) for r in ranks)
    lines = [head(rank, release, 1224), "\t - [%d] Timeout at collective: %s, #%d" % (rank, op, seq)]
    if missing:
        return lines + ["\t - To our best knowledge, ranks [%s] are the lagging ranks that caused this timeout. They "
                        "never joined any collectives" % listed(missing)]
    number, joined, finished = lagging
    lines.append("\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:")
    if joined:
        lines.append("\t   - [%s] joined but didn't finish collective #%d (count from 1)" % (listed(joined), number))
    if finished:
        lines.append("\t     [%s] finished collective #%d, but didn't join collective #%d (count from 1)" % (
            listed(finished), number, number + 1))
    lines.append("\t - Snapshot of ranks' latest states:")
    for number, word, calls in snapshot:
        lines.append("\t   #%d %s ranks:" % (number, word))
        lines += ["\t     [%s] %s %s" % (listed(ranks), word, name) for name, ranks in calls]
    return lines


def write(name, lines):
    with open(os.path.join(HERE, name), "w", newline="") as log:
        log.write("\n".join(lines) + "\n")


def main():
    rng = random.Random(7)
    truth = {}

    def case(name, lines, verdict, problem=None, culprits=(), seq=None, op=None, group=None, missing=()):
        write(name, lines)
        truth[name] = {"verdict": verdict, "problem": problem, "culprits": list(culprits), "seq": seq, "op": op,
                       "group": group, "missing_dumps": list(missing)}

    lines = stuck("2.8", 8, {5}, 20585, "_ALLGATHER_BASE", (1024, 8192))
    rng.shuffle(lines)
    noise = ["Epoch 1:  12%|#1  | 128/1024 [01:12<08:30]", "INFO:train:step 128 loss 5.46"]
    lines = ["\x1b[31m[default%d]:%s\x1b[0m" % (i % 4, line) for i, line in enumerate(lines)]
    case("stuck_w8.log", noise + lines, "stuck", "missing", [5], 20585, "all_gather", "default_pg")
    case("stuck_2_4_w4.log", stuck("2.4", 4, {2}, 808, "ALLREDUCE", (9801523, 9801523)), "stuck", "missing", [2], 808,
         "all_reduce", "default_pg")

    # A 2 x 2 mesh as below: ranks 1 and 3 wait in a gather of group 4 that ends on neither, 0 and 2 for them in an
    # all-reduce of all ranks, which 1 and 3 have not enqueued yet.
    lines = []
    for rank in (0, 2):
        lines += [timeout(rank, "2.8", rank, 7, "ALLREDUCE", (1, 1), 600002),
                  status(rank, "2.8", "0", "default_pg", rank, 7, 7, 6)]
    for rank in (1, 3):
        lines += [timeout(rank, "2.8", rank // 2, 40, "_ALLGATHER_BASE", (64, 128), 600005),
                  status(rank, "2.8", "4", "mesh_shard", rank // 2, 40, 41, 39), signal(rank, "2.8", 0, 6, 6)]
    case("held_w4.log", lines, "agree", None, [], None, None, None)
    # The same, but rank 1 printed nothing.
    case("held_unheard_w4.log", [line for line in lines if "[rank1]" not in line], "incomplete", "unheard", [], 7,
         "all_reduce", "default_pg", [1])

    lines = stuck("2.6", 4, set(), 64, "ALLREDUCE", (64, 64))
    lines = [line.replace("OpType=ALLREDUCE, NumelIn=64, NumelOut=64", "OpType=BROADCAST, NumelIn=5056, NumelOut=5056")
             if "[rank3]" in line else line for line in lines]
    case("mismatch_w4.log", lines, "mismatch", "op", [3], 64, "all_reduce", "default_pg")

    # A 2 x 2 mesh: group 2 is ranks 2 and 3, group 3 ranks 0 and 2, group 4 ranks 1 and 3. Rank 3 stopped: rank 2
    # waits for it in group 2, rank 0 for rank 2 in group 3, rank 1 for rank 3 in group 4. Only of the default group
    # every rank says what it did.
    lines = [signal(rank, "2.8", 2, 2, 2) for rank in range(4)]
    for rank, uid, desc, local, seq, op, ran in ((2, "2", "mesh_shard", 0, 40, "_REDUCE_SCATTER_BASE", 600900),
                                                 (0, "3", "mesh_replicate", 0, 21, "ALLREDUCE", 600400),
                                                 (1, "4", "mesh_replicate", 0, 21, "ALLREDUCE", 600300)):
        lines += [timeout(rank, "2.8", local, seq, op, (64, 32), ran),
                  status(rank, "2.8", uid, desc, local, seq, seq, seq - 1)]
    case("mesh_w4.log", lines, "stuck", "idle", [3], 40, "reduce_scatter", "mesh_shard")

    case("unheard_w4.log", stuck("2.8", 3, set(), 5, "_ALLGATHER_BASE", (10, 40)), "incomplete", "unheard", [], 5,
         "all_gather", "default_pg", [3])
    lines = stuck("2.8", 2, set(), 5, "ALLREDUCE", (1, 1))
    lines[1] = lines[1].replace("last enqueued work: 8", "last enqueued work: 6")  # waits for it on the host
    case("all_wait_w2.log", lines, "agree")
    case("old_1_13_w3.log", stuck("1.13", 3, set(), 469508, "ALLREDUCE", (1, 1)), "agree")
    lines = stuck("2.3", 3, set(), 1, "ALLGATHER", (1, 1))
    lines[1] = lines[1].replace("completed NCCL work: 0", "completed NCCL work: 76280750235782912")
    case("never_completed_2_3_w3.log", lines, "agree")

    # Two ranks share a line; the line of a third is cut inside of its number.
    lines = stuck("2.8", 4, {1}, 71, "ALLREDUCE", (8, 8))
    cut = lines[5][:lines[5].index("71, OpType") + 1]
    case("shared_line_w4.log", [lines[0] + lines[3], lines[1] + lines[4], lines[2], cut, lines[6]], "stuck", "missing",
         [1], 71, "all_reduce", "default_pg")

    # Reports of ranks that part: one rank prints what it knows of all.
    lines = [timeout(0, "1.13", 0, 5, "ALLREDUCE", (1, 1), 600020)] + report(
        "1.13", 0, "ALLREDUCE", 5, [], (4, [], [2]),
        [(4, "finished", [("BROADCAST", [2])]), (5, "started", [("ALLREDUCE", [0, 1, 3])])]) + ["[1] started a run"]
    case("report_w4.log", lines, "stuck", "missing", [2], 5, "all_reduce", "")
    lines = report("2.8", 1, "_ALLGATHER_BASE", 9, [], (9, [0, 1, 2, 3], []),
                   [(9, "started", [("_ALLGATHER_BASE", [0, 1, 3]), ("ALLREDUCE", [2])])])
    case("report_mismatch_w4.log", ["(worker pid=%d) %s" % (77, line) for line in lines], "mismatch", "op", [2], 9,
         "all_gather", "")
    lines = [status(rank, "2.8", "0", "default_pg", rank, 1, 1, 0) for rank in (0, 2)]
    case("report_never_w4.log", lines[:1] + report("2.8", 0, "ALLREDUCE", 1, [1, 3], None, None) + lines[1:], "stuck",
         "missing", [1, 3], 1, "all_reduce", "default_pg")
    with open(os.path.join(HERE, "truth.json"), "w") as file:
        json.dump(truth, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
