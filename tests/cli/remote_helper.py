#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A helper of fsdp-inspect-remote(7) that serves local folders, s3://local/PATH, and does one thing wrong.

FAKE_FAULT says what. Nothing of the network is used.
"""
import os
import socket
import struct
import time

FAULT = os.environ.get("FAKE_FAULT", "")
FAILURES = {"bucket": 1, "nothing": 2, "credentials": 3, "denied": 4, "expired": 5, "slow": 6, "unreachable": 8, "ranges": 9,
            "package": 10, "redirect": 11, "other": 12}
connection = socket.socket(fileno=3)
if FAULT == "together":
    connection.settimeout(60)
roots, files, held = [], [], []
lists = reads = 0


def receive(size):
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise SystemExit
        found += more
    return found


def send(number, kind, payload=b""):
    connection.sendall(struct.pack("<IIB", 5 + len(payload), number, kind) + payload)


def text(word):
    raw = os.fsencode(word)
    return struct.pack("<H", len(raw)) + raw


def entry(path, name=None):
    name = name or os.path.basename(path)
    if os.path.isdir(path):
        return struct.pack("<BIQq", 1, 0, 0, 0) + text(name) + b"\0"
    files.append(path)
    size = os.path.getsize(path) + (FAULT == "longer")
    return struct.pack("<BIQq", 0, len(files) - 1, size, 0) + text("../" + name if FAULT == "escape" else name) + b"\0"


def fail(number, code, detail=""):
    send(number, 133, bytes([code]) + text(detail))


def read(number, payload):
    global reads
    for file, offset, size in struct.iter_unpack("<IQI", payload):
        reads += 1
        if FAULT == "changed":
            return fail(number, 7)
        if FAULT == "unreadable" and files[file].endswith(os.environ.get("FAKE_FILE", "")):
            return fail(number, 4, "AccessDenied")
        if FAULT == "delay":
            time.sleep(0.005)
        with open(files[file], "rb") as stream:
            stream.seek(offset)
            bytes_ = stream.read(size).ljust(size, b"\0")
        if FAULT == "dies":
            connection.sendall(struct.pack("<IIB", 500, number, 131))
            os._exit(1)
        for at in range(0, size, 1 << 20):
            part = bytes_[at:at + (1 << 20)]
            send(number, 131, struct.pack("<IQ", file, offset + at + (FAULT == "moved")) + part)
            if FAULT == "twice":
                send(number, 131, struct.pack("<IQ", file, offset + at) + part)
    send(number, 132)


while True:
    length, number, kind = struct.unpack("<IIB", receive(9))
    payload = receive(length - 5)
    if kind == 1:
        send(number, 128)
    elif kind == 2:
        path = os.fsdecode(payload[2:]).replace("s3://local", "", 1)
        if FAULT in FAILURES:
            roots.append(None)
            fail(number, FAILURES[FAULT], "Word")
        elif not os.path.exists(path):
            roots.append(None)
            send(number, 129, b"\0")
        else:
            roots.append(path)
            send(number, 129, b"\2" if os.path.isdir(path) else b"\1" + entry(path, "file"))
    elif kind == 3:
        send(number, 128)
    elif kind == 4:
        lists += 1
        held.append((number, os.path.join(roots[struct.unpack_from("<I", payload)[0]], os.fsdecode(payload[6:]))))
        # "together": the lists of four subdirectories are answered once all of them were asked for.
        while held and (FAULT != "together" or lists == 1 or lists >= 5):
            number, folder = held.pop(0)
            names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            send(number, 130, b"".join(entry(os.path.join(folder, name)) for name in names
                                       if os.path.isdir(os.path.join(folder, name)) or os.path.isfile(os.path.join(folder, name))))
            send(number, 132)
    elif kind == 6:
        read(number, payload)
    elif kind == 8:
        send(number, 134, struct.pack("<5Q", lists, reads, 0, 0, 0) + text("fake 1"))
