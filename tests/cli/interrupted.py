#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recording whose reading is interrupted in the middle: the answer says how far it was read, and nothing
is made of what is missing: no wait, no straggler, no row of zeros, no finding about a broken file. No clock:
the signal is sent when the reader has taken all that the pipe holds. Prints TAP.

interrupted.py BINARY
"""

import array
import fcntl
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import termios

import sandbox

GPU = os.path.join(sandbox.ROOT, "testdata", "traces", "gpu_generated")
RANKS = [os.path.join(GPU, f"new_args_rank{rank}.pt.trace.json.gz") for rank in range(4)]
# More than is looked at to see what it is, and less than all.
CHUNKS, CHUNK = 3, 15000


def catches(child, number):
    """Whether it has a handler of its own; before, it reads no more than what a file begins with."""
    with open(f"/proc/{child.pid}/status", encoding="ascii") as stream:
        caught = next(line.split()[1] for line in stream if line.startswith("SigCgt:"))
    return int(caught, 16) >> (number - 1) & 1


def waits_in(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def drain(child, pipe, sent):
    """Waits until it has read all that the pipe holds and would be interrupted by the signal."""
    while child.poll() is None and (waits_in(pipe) > 0 or not catches(child, sent)):
        os.sched_yield()


def catch_all():
    """A child of a shell that ignores these (nohup, some runners of jobs) would never install its handlers."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def interrupted(binary, sent, words):
    """(stdout, stderr, status) where `-` gives the beginning of a trace, and then nothing."""
    with gzip.open(RANKS[0]) as stream:
        chunks = [stream.read(CHUNK) for _ in range(CHUNKS)]
    theirs, ours = os.pipe()
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
        # The only thread is the one that the signal finds in read().
        child = subprocess.Popen([binary, "replay", "-j1", "--progress=never", *words], cwd=folder, stdin=theirs,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=sandbox.environment(folder), preexec_fn=catch_all)
        for chunk in chunks:
            os.write(ours, chunk)
            drain(child, theirs, sent)
        os.close(theirs)
        child.send_signal(sent)
        out, err = child.communicate(timeout=sandbox.TIMEOUT)
    os.close(ours)
    return out.decode(), err.decode(), child.returncode


def faults_of_text(out, err, status, sent):
    if status != -sent:
        yield f"status {status}"
    if "interrupted after " not in err:
        yield f"stderr says no 'interrupted after': {err!r}"
    for word in ("straggler", "WAIT", "truncated", "FI7"):
        if word in out + err:
            yield f"it says {word}"
    for line in out.splitlines():
        cells = line.split()
        if len(cells) > 2 and all(cell in ("0", "0.000", "0.0", "-") for cell in cells[1:]):
            yield f"a row of zeros: {line}"


def faults_of_json(out, status, sent):
    said = json.loads(out)
    if status != -sent:
        yield f"status {status}"
    if said["findings"]:
        yield f"findings {said['findings']}"
    stopped = [one for one in said["data"]["ranks"] if one.get("interrupted")]
    if len(stopped) != 1 or stopped[0]["truncated"] or stopped[0]["dropped"]:
        yield f"recordings that were interrupted: {stopped}"
    if any(one.get("wait_ns") for one in said["data"]["ranks"]):
        yield "a wait"
    if not any("interrupted after " in one["message"] for one in said["errors"]):
        yield f"errors {said['errors']}"


def main():
    binary, failed, number = os.path.abspath(sys.argv[1]), 0, 0
    runs = [(name, sent, inputs) for name, inputs in (("one rank", ["-"]), ("the last of four", [*RANKS[1:], "-"]))
            for sent in (signal.SIGINT, signal.SIGTERM)]
    print(f"1..{2 * len(runs)}")
    for name, sent, inputs in runs:
        text = list(faults_of_text(*interrupted(binary, sent, inputs), sent))
        out, _, status = interrupted(binary, sent, ["--json", *inputs])
        for kind, found in (("text", text), ("json", list(faults_of_json(out, status, sent)))):
            number += 1
            failed += bool(found)
            print(f"{'not ok' if found else 'ok'} {number} - {name}, {signal.Signals(sent).name}, {kind}")
            for fault in found:
                print(f"#  {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
