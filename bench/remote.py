#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests and seconds of commands at s3:// against a server that answers each request after 30 ms.

    bench/remote.py PROGRAM FOLDER [--delay=0.03] [--runs=7]

Makes its checkpoints in FOLDER by the gen-* programs beside it, which for two of them need torch. The package obstore
must be there for this Python. The server knows lists and ranges of one bucket, and no signatures. Prints a table: the
requests, the seconds of the run in the middle and what they may be at most, megabytes of the helper and of the program.
"""
import argparse
import asyncio
import bisect
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils

HERE = os.path.dirname(os.path.abspath(__file__))
# name, program that makes it, its arguments, command, requests and seconds at most
ROWS = [
    ("info, 30 safetensors shards", "shards", ["gen-safetensors.py", "shards", "--tensors=56", "--shards=30"], ["info"], 70, 0.5),
    ("info, 64 rank files of FSDP1", "ranks", ["gen-rank-set.py", "ranks", "--ranks=64", "--units=32"], ["info"], 140, 0.5),
    ("info, DCP of 64 ranks", "meta", ["gen-dcp-metadata.py", "meta", "--tensors=150", "--world=64"], ["info"], 6, 0.4),
    ("info, torch zip of 100,000 tensors", "big.pt", ["gen-torch-zip.py", "big.pt", "--tensors=100000"], ["info"], 16, 0.6),
    ("audit, 30 shards", "shards", None, ["audit"], 75, 0.6),
    ("audit, 11,584 pieces of 5.7 KiB in 64 files", "small",
     ["gen-dcp-pieces.py", "small", "--mib=63", "--tensors=181", "--pieces=64", "--files=64"], ["audit"], 140, 1.5),
    ("audit, 1,920 pieces of 256 KiB in 64 files", "large",
     ["gen-dcp-pieces.py", "large", "--mib=480", "--tensors=30", "--pieces=64", "--files=64"], ["audit"], 2200, 5),
    ("audit --data, 30 shards", "shards", None, ["audit", "--data"], 80, 1),
    ("audit --data, DCP of 480 MiB", "large", None, ["audit", "--data"], 260, 5),
    ("latest, 100 checkpoints", "run", None, ["latest"], 20, 0.6),
]


class Bucket:
    """Files below a folder as an S3 server has them."""

    def __init__(self, folder, delay):
        self.folder, self.delay, self.requests, self.names = folder, delay, 0, {}
        self.loop, self.port = asyncio.new_event_loop(), None
        ready = threading.Event()
        threading.Thread(target=self.run, args=[ready], daemon=True).start()
        ready.wait()

    def run(self, ready):
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 16))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    def entries(self, query):
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        folder = os.path.join(self.folder, prefix)
        if folder not in self.names:
            self.names[folder] = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        names, rows = self.names[folder], []
        for name in names[bisect.bisect_right(names, after):]:
            path = os.path.join(folder, name)
            key = xml.sax.saxutils.escape(prefix + name)
            if len(rows) == 1000:
                rows.append(f"<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>")
                break
            last = name
            if os.path.isdir(path):
                rows.append(f"<CommonPrefixes><Prefix>{key}/</Prefix></CommonPrefixes>")
            else:
                rows.append(f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"x\"</ETag>"
                            f"<Size>{os.path.getsize(path)}</Size><StorageClass>STANDARD</StorageClass></Contents>")
        return ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<Name>bucket</Name><MaxKeys>1000</MaxKeys>{''.join(rows)}</ListBucketResult>").encode()

    def answer(self, method, target, headers):
        path, _, query = target.partition("?")
        key = urllib.parse.unquote(path).removeprefix("/bucket").strip("/")
        if not key:
            return "200 OK", self.entries(urllib.parse.parse_qs(query)), ""
        path = os.path.join(self.folder, key)
        if not os.path.isfile(path):
            return "404 Not Found", b"", ""
        size = os.path.getsize(path)
        tag = 'ETag: "x"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n'
        found = re.search(r"(?im)^range: bytes=(\d+)-(\d+)", headers)
        begin, end = (int(found[1]), min(int(found[2]), size - 1)) if found else (0, size - 1)
        if method == "HEAD":
            return "200 OK", size, tag
        with open(path, "rb") as stream:
            stream.seek(begin)
            body = stream.read(end - begin + 1)
        return "206 Partial Content", body, tag + f"Content-Range: bytes {begin}-{end}/{size}\r\n"

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, target, _ = head.split("\r\n", 1)[0].split(" ")
                self.requests += 1
                await asyncio.sleep(self.delay)
                status, body, more = self.answer(method, target, head)
                size = body if isinstance(body, int) else len(body)
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{more}\r\n".encode())
                if not isinstance(body, int):
                    writer.write(body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()


def resident(pid):
    """Megabytes of a process and of its child, at most so far."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
        pids = [str(pid), *stream.read().split()]
    texts = [open(f"/proc/{one}/status", encoding="ascii").read() for one in pids]
    return [int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1000 for text in texts]


def measure(words, env):
    begun, most = time.monotonic(), [0.0, 0.0]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    while process.poll() is None:
        try:
            most = [max(pair) for pair in zip(most, resident(process.pid) + [0.0])]
        except (OSError, TypeError):
            pass
        time.sleep(0.01)
    return time.monotonic() - begun, process.returncode, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--delay", type=float, default=0.03)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    os.makedirs(folder, exist_ok=True)
    for _, name, make, *_ in ROWS:
        if make and not os.path.exists(os.path.join(folder, name)):
            subprocess.run([sys.executable, os.path.join(HERE, make[0]), *make[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for i in range(100):
        if not os.path.exists(os.path.join(folder, "run", f"step-{i}")):
            shutil.copytree(os.path.join(HERE, "..", "testdata", "dcp", "fsdp2-w4-hsdp", "checkpoint"), os.path.join(folder, "run", f"step-{i}"))
    bucket = Bucket(folder, args.delay)
    env = {**{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
           "AWS_ENDPOINT_URL": f"http://127.0.0.1:{bucket.port}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
           "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "FSDP_INSPECT_PYTHON": sys.executable}
    print(f"{'':45}{'requests':>14}{'seconds':>14}{'MB here':>9}{'helper':>8}{'status':>8}")
    for title, name, _, words, requests, seconds in ROWS:
        runs = []
        for _ in range(args.runs):
            bucket.requests = 0
            took, status, most = measure([args.program, *words, f"s3://bucket/{name}"], env)
            runs.append((took, bucket.requests, most, status))
        took, count, most, status = sorted(runs)[args.runs // 2]
        print(f"{title:45}{count:>6} of {requests:<4}{took:>7.2f} of {seconds:<4}{most[0]:>8.0f}{most[1]:>8.0f}{status:>8}", flush=True)


main()
