#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`export` is stopped at its first write, its source is changed, and it goes on: a bit that flips, an end that is cut off,
a file that is emptied or gone. It ends with status 1 and a finding that names the file and leaves nothing, or writes what was
there before. Prints TAP.

changes.py KILLER BINARY"""
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile

COUNT, SIZE = 24, 1 << 20


def source(path):
    """A torch.save file: a dict of COUNT matrices of SIZE bytes, each a record with its CRC-32."""
    pickle = b"\x80\x02}("
    for i in range(COUNT):
        name = b"layers.%d.weight" % i
        pickle += b"X" + struct.pack("<I", len(name)) + name + b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage" \
            b"ctorch\nFloatStorage\nX" + struct.pack("<I", len(str(i))) + str(i).encode() + b"X\x03\0\0\0cpu" \
            b"J" + struct.pack("<i", SIZE // 4) + b"tQK\0J" + struct.pack("<i", SIZE // 4) + b"\x85K\x01\x85\x89" \
            b"ccollections\nOrderedDict\n)RtR"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("model/data.pkl", pickle + b"u.")
        out.writestr("model/byteorder", "little")
        for i in range(COUNT):
            out.writestr(f"model/data/{i}", bytes([i]) * SIZE)
        out.writestr("model/version", "3\n")


def flip(path):
    with open(path, "r+b") as stream:
        data = stream.read()
        at = data.rindex(bytes([COUNT - 1]) * 64)
        stream.seek(at)
        stream.write(bytes([data[at] ^ 1]))


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def empty(path):
    os.truncate(path, 0)


def run(killer, binary, path, out, change):
    reader, writer = os.pipe()
    env = dict(os.environ, LD_PRELOAD=killer, FSDP_STOP_AT="2", FSDP_STOP_FD=str(writer), FSDP_STOP_SIGNAL="1")
    child = subprocess.Popen([binary, "export", "-q", "-j1", "-o", out, path], env=env, pass_fds=[writer],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.close(writer)
    with os.fdopen(reader) as stream:
        told = stream.readline().strip()
        if told == "stopped":
            os.waitpid(child.pid, os.WUNTRACED)
            change(path)
            child.send_signal(signal.SIGCONT)
        _, words = child.communicate()
    return told, child.returncode, words.decode()


def judge(killer, binary, work, change, fails):
    path, out = os.path.join(work, "model.pt"), os.path.join(work, "out")
    source(path)
    shutil.rmtree(out, ignore_errors=True)
    told, status, words = run(killer, binary, path, out, change)
    if told != "stopped":
        return f"it was not stopped: {told} {words}"
    if not fails:
        return None if status == 0 and os.path.exists(out) else f"status {status}: {words}"
    if status != 1 or fails not in words or "model.pt" not in words:
        return f"status {status}: {words}"
    return f"left: {os.listdir(out)}" if os.path.exists(out) else None


def main():
    killer, binary = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    cases = {"a bit flips": (flip, "FI2001"), "the end is cut off": (cut, "FI2004"), "the file is emptied": (empty, "FI2004"),
             "the file is gone, but open": (os.remove, None)}
    print(f"1..{len(cases)}")
    with tempfile.TemporaryDirectory() as work:
        for number, (name, (change, fails)) in enumerate(cases.items(), 1):
            problem = judge(killer, binary, work, change, fails)
            print(f"{'not ' if problem else ''}ok {number} - {name}")
            if problem:
                print(f"#   {problem}")


if __name__ == "__main__":
    main()
