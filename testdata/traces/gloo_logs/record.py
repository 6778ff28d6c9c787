#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the logs of this folder: what PyTorch prints on gloo where ranks do not come to a monitored barrier, with
TORCH_DISTRIBUTED_DEBUG=DETAIL where they call something else, and without it where they time out, or one is killed.
`record.py` writes them with torchrun, `record.py -- CASE...` some of them; `record.py CASE` is one rank of a job.
"""
import datetime
import os
import re
import signal
import subprocess
import sys
import time

CASES = {  # ranks, whether with DETAIL
    "barrier_w4": (4, False), "barrier_all_w4": (4, False), "barrier_group_w4": (4, False),
    "missing_w3": (3, True), "op_w3": (3, True), "size_w3": (3, True), "dtype_w3": (3, True),
    "misread_w3": (3, True), "group_w4": (4, True), "python_w3": (3, False),
    "timeout_missing_w3": (3, False), "timeout_op_w3": (3, False), "timeout_size_w3": (3, False),
    "signal_w3": (3, False),
}


def run(case):
    import torch
    import torch.distributed as dist

    def late():
        time.sleep(9)
        os._exit(0)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
    rank = dist.get_rank()
    tensor = torch.ones(4)
    pair = dist.new_group([2, 3]) if "group" in case else None
    dist.all_reduce(tensor)
    print("step 1 done", flush=True)
    if case.startswith("barrier"):
        if rank in ((3,) if pair else (1, 2)):
            late()
        if pair is None or rank == 2:
            dist.monitored_barrier(pair, timeout=datetime.timedelta(seconds=3), wait_all_ranks="all" in case)
        else:
            late()
    if case.endswith("missing_w3"):
        if rank == 1:
            late()
        dist.all_reduce(tensor)
    if case == "op_w3":
        dist.all_reduce(tensor) if rank == 1 else dist.broadcast(tensor, 0)
    if case == "timeout_op_w3":
        if rank == 1:
            dist.broadcast(tensor, 0)
        dist.all_reduce(tensor)
    if case == "timeout_size_w3":
        dist.all_reduce(torch.ones(8 if rank == 1 else 4))
    if case == "signal_w3":
        if rank == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        dist.all_reduce(tensor)
    if case == "python_w3":
        if rank == 2:
            torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 5]))
        dist.all_reduce(tensor)
    if case == "size_w3":
        dist.all_reduce(torch.ones(2, 2 if rank == 1 else 4))
    if case == "dtype_w3":
        dist.all_reduce(tensor.double() if rank == 1 else tensor)
    if case == "misread_w3":
        dist.barrier() if rank == 1 else dist.all_gather_into_tensor(torch.ones(12), tensor)
    if case == "group_w4":
        if rank < 2:
            late()
        dist.all_reduce(tensor, group=pair) if rank == 3 else dist.broadcast(tensor, 2, group=pair)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) > 1 and sys.argv[1] != "--":
        run(sys.argv[1])
        return
    for case in sys.argv[2:] or CASES:
        ranks, detail = CASES[case]
        environment = dict(os.environ, **({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} if detail else {}))
        found = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
                                "29631", os.path.abspath(__file__), case], env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with open(os.path.join(here, case + ".log"), "w") as file:
            # Stacks name files of the machine that recorded them.
            stacks = case.startswith("timeout") or case.startswith("signal")
            file.writelines(re.sub('"/[^"]*/(?=torch/|record)', '"/src/', line) + "\n" for line in found.stdout.splitlines()
                            if "step 1" in line or line.startswith("[rank") and (stacks or "Error" in line or "ProcessGroup" in line)
                            or stacks and re.search("what[(][)]:|Root Cause|^  (rank|exitcode) ", line))


if __name__ == "__main__":
    main()
