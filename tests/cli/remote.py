#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""URLs: each answer is the one of the local files, each failure has its words, and no secret is shown. Prints TAP.

remote.py BINARY TESTDATA [PROCESS]
  BINARY answers; PROCESS, if it is another program, where the test looks at the process itself.
  A helper that serves local folders stands for the network; then the one that is built in reads from servers on the
  loopback: a web server, a stand-in of the Hugging Face Hub, and S3 by moto where it is installed, beside obstore.
"""
import base64
import hashlib
import http.server
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

BINARY, TESTDATA, PROCESS = map(os.path.abspath, [*sys.argv[1:], sys.argv[1]][:3])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "server"))
import serving  # noqa: E402
FAKE = os.path.join(HERE, "remote_helper.py")
PROGRAM = os.path.join(HERE, "..", "..", "contrib", "python", "fsdp_inspect", "_remote.py")
SECRET = "hushhush"
count = failed = 0


def has_name(host):
    """Whether this machine finds the name: a minimal one has no /etc/hosts."""
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False


def check(title, wrong):
    global count, failed
    count += 1
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} - {title}" + (f"\n# {str(wrong)[:900]}" if wrong else ""), flush=True)


def run(words, **variables):
    kept = {name: value for name, value in os.environ.items()
            if name not in ("HF_TOKEN", "HF_ENDPOINT") and not name.lower().endswith("_proxy") and not name.startswith("AWS_")}
    env = {**kept, "AWS_EC2_METADATA_DISABLED": "true", "FSDP_INSPECT_PYTHON": sys.executable, **variables}
    if os.path.exists(serving.server_of(BINARY)):
        out, err, status = serving.run(BINARY, [BINARY, *words], ".", 120, env)
        return status, out.decode(), err.decode()
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=120, env=env, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


FIXTURES = ["demo/step-1234", "dcp/fsdp2-w4-small/checkpoint", "dcp/zstd/checkpoint", "hf/llama-sharded", "fsdp1/local-w2-adam",
            "torch-zip/state-dict/model.pt", "broken/dcp-chunk-gap/checkpoint", "deepspeed", "runs"]
COMMANDS = [["info"], ["ls"], ["tree"], ["fqns"], ["audit"], ["audit", "--data"], ["audit", "--values"], ["hash"], ["stats"],
            ["latest"], ["flat"], ["reshard", "--to", "2"]]


def compare(title, base, fixtures, commands=COMMANDS, **variables):
    """The same of what lies here and of what lies there; the names of the files aside."""
    wrong = []
    for fixture in fixtures:
        path = os.path.join(TESTDATA, fixture)
        if not os.path.exists(path):
            wrong.append(fixture + " is not there")
        for command in commands:
            here = run(command + ["--json", path])
            there = list(run(command + ["--json", base + path], **variables))
            there[1] = re.sub(r',?"only the names of [0-9]+ files at the URL were checked"', "", there[1]).replace(',"notes":[]', "")
            # No shell writes into a URL: the fix of a tracker names it and is no command.
            there[1] = re.sub(f'"fix":"write ([^ "]+) into {base}', rf'"fix":"echo \1 > {base}', there[1])
            if (here[0], here[1]) != (there[0], there[1].replace(base, "")):
                lines = [pair for pair in zip(here[1].split("\n"), there[1].replace(base, "").split("\n")) if pair[0] != pair[1]]
                wrong.append((command, fixture, here[0], there[0], lines[:1], there[2][:200]))
    check(title, wrong)


def fake():
    local = {"FSDP_INSPECT_HELPER": FAKE}
    folder = os.path.join(TESTDATA, "demo", "step-1234")
    url = "s3://local" + folder
    compare("a helper's folders are answered for as local ones", "s3://local", FIXTURES, **local)
    compare("a file that stands for its directory opens that", "s3://local",
            ["hf/llama-sharded/model.safetensors.index.json", "demo/step-1234/.metadata", "demo/step-1234/__0_0.distcp"], COMMANDS[:2], **local)
    compare("latest asks the loader of what it names", "s3://local", ["complete/layer-gone-falcon/checkpoint"], [["latest"]], **local)
    compare("late answers change nothing", "s3://local", FIXTURES[:1], COMMANDS[:5], FAKE_FAULT="delay", **local)
    here, there = (run(["show", "--json", one, "model.head.weight"], **local) for one in (folder, url))
    check("a name after a URL", (here[0] != 0 or here[:2] != (there[0], there[1].replace("s3://local", ""))) and (here, there))
    here, there = run(["diff", "--json", folder, folder]), run(["diff", "--json", folder, url], **local)
    check("one of two may be a URL", here[:2] != (there[0], there[1].replace("s3://local", "")) and (here, there))
    with tempfile.TemporaryDirectory() as scratch:
        os.mkdir(scratch + "/here")
        os.mkdir(scratch + "/there")
        for name in ("demo/step-1234", "hf/llama-sharded", "hf/llama-sharded/model.safetensors.index.json"):
            one, two = (run(["export", "-o", f"{scratch}/{out}/{name.replace('/', '-')}", f"{base}{TESTDATA}/{name}"], **local)
                        for base, out in (("", "here"), ("s3://local", "there")))
            wrong = subprocess.run(["diff", "-r", scratch + "/here", scratch + "/there"], capture_output=True, text=True).stdout
            check(f"export of {name} writes what it writes of local files, configurations too", one[0] != two[0] or wrong)
    compare("recordings at URLs", "s3://local", ["traces/units/g_same_stream_rank0.pt.trace.json.gz", "traces/simple_profiler/keys_rank0.log"],
            [["replay", "--by=unit"]], **local)
    compare("a dump", "s3://local", ["traces/flight_recorder/hostile_w2/nccl_trace_rank_0"], [["order"]], **local)
    plan = os.path.join(folder, "model.fsdp-plan.json")
    here, there = (run(["tree", "--plan=" + one, folder], **local) for one in (plan, "s3://local" + plan))
    check("a plan at a URL", here[:2] != there[:2] and (here, there))
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        shards = scratch + "/shards"
        shutil.copytree(os.path.join(TESTDATA, "hf", "llama-sharded"), shards)
        with open(scratch + "/names.json", "w", encoding="ascii") as stream:
            stream.write(run(["ls", "--json", shards])[1])
        with open(scratch + "/sums", "w", encoding="ascii") as stream:
            stream.write(run(["hash", "--stored", shards])[1])
        flight = os.path.join(TESTDATA, "traces", "flight_recorder")
        trace = os.path.join(TESTDATA, "traces", "units", "g_plain_rank0.pt.trace.json.gz")
        memory = os.path.join(TESTDATA, "traces", "memory", "plain", "rank0.pickle")
        with open(scratch + "/times.json", "w", encoding="ascii") as stream:
            stream.write(run(["replay", "--json", trace])[1])
        with open(scratch + "/map.json", "w", encoding="ascii") as stream:
            json.dump({"fsdp_inspect_map": 1, "tensors": [{"from": "lm_head.weight", "to": "head.weight"}]}, stream)
        for words in (["audit", "--expect=" + scratch + "/names.json", shards], ["audit", "--merged=" + shards, shards],
                      ["audit", "--data", "--manifest=" + scratch + "/sums", shards], ["hash", "--check=" + scratch + "/sums", shards],
                      ["diff", shards, scratch + "/names.json"], ["order", "--names=" + shards, flight + "/nccl_json_w4"],
                      ["diff", "--map=" + scratch + "/map.json", shards, shards], ["fqns", "-o", "text", "--units-from=" + trace, shards],
                      ["replay", "--compare=" + trace.replace("plain", "same_stream"), trace],
                      ["replay", "--compare=" + scratch + "/times.json", trace],
                      ["replay", "--memory", "--compare=" + memory, memory],
                      ["report", "--trace=" + os.path.join(TESTDATA, "traces/units/g_same_stream_rank0.pt.trace.json.gz"), folder],
                      ["replay", os.path.join(TESTDATA, "traces", "units")], ["order", flight + "/hostile_w2"]):
            here, there = run(words), run([re.sub("(^|=)/", r"\1s3://local/", word) for word in words], **local)
            if here != tuple(part.replace("s3://local", "") if isinstance(part, str) else part for part in there):
                wrong.append((words, here, there))
    check("files of options and directories of recordings at URLs", wrong)
    here = run(["info", "--json", folder])
    there = [run(["info", "--json", start + folder]) for start in ("file://", "file://localhost")]
    check("a file URL is a local path", any(here[:2] != one[:2] for one in there) and (here, there))
    wrong = {}
    for fault, code in (("credentials", "permission"), ("denied", "permission"), ("expired", "permission"), ("slow", "system"),
                        ("nothing", "system"), ("package", "usage")):
        found = json.loads(run(["info", "--json", url], FAKE_FAULT=fault, **local)[1])["errors"][0]
        if found["code"] != code or fault == "nothing" and found["hint"] != "similar names: Word":
            wrong[fault] = found
    check("the code of each failure", wrong)
    words = {"bucket": "no such bucket", "nothing": "no such file or directory", "credentials": "no credentials were found",
             "denied": "access denied (Word)", "expired": "the credentials expired", "slow": "asks to slow down",
             "unreachable": "cannot reach the server", "ranges": "ignores range requests", "package": "needs a Python package",
             "redirect": "redirects to another place", "other": "cannot be read"}
    wrong = {}
    for fault, word in words.items():
        status, out, err = run(["info", url], FAKE_FAULT=fault, **local)
        if status != 2 or out or f"error: {url}: " not in err or word not in err:
            wrong[fault] = status, out, err
    check("each failure of a root has its words", wrong)
    wrong = {}
    for fault, word in (("credentials", "aws sso login, or AWS_PROFILE=NAME"), ("denied", "s3:ListBucket"), ("expired", "aws sso login")):
        err = run(["info", url], FAKE_FAULT=fault, **local)[2]
        if f"  fix: {word}" not in err and f"need {word}" not in err:
            wrong[fault] = err
    check("the fix of a failure is for the store of the URL", wrong)
    wrong = {}
    for fault, word in (("escape", "sent an invalid message"), ("moved", "sent an invalid message"), ("twice", "sent an invalid message"),
                        ("dies", "the helper ended"), ("changed", "changed since the directory was listed")):
        status, out, err = run(["info", url], FAKE_FAULT=fault, **local)
        if status not in (1, 2, 3) or word not in err + out:
            wrong[fault] = status, out, err
    check("what the protocol does not allow ends the answer", wrong)
    status, out, err = run(["info", os.path.join("s3://local", TESTDATA[1:], "hf", "llama-sharded")], FAKE_FAULT="unreadable",
                           FAKE_FILE="00002-of-00003.safetensors", **local)
    check("one file that cannot be read makes the answer partial", status not in (0, 1, 3) and (status, out, err))
    status, out, err = run(["info", "s3://local/nowhere"], **local)
    check("what is not there", (status != 2 or "s3://local/nowhere: no such file" not in err) and (status, out, err))
    # A file is a range or two: what is next to what is asked for goes with it.
    wrong = {}
    for words, fixture, ranges in ((["info"], "demo/step-1234", 4), (["audit"], "demo/step-1234", 5), (["info"], "hf/llama-sharded", 9),
                                   (["audit"], "hf/llama-sharded", 9), (["audit", "--data"], "dcp/fsdp2-w4-small/checkpoint", 5)):
        status, out, err = run([*words, "-v", f"s3://local{TESTDATA}/{fixture}"], **local)
        if "remote: fake 1, " not in err or f" LIST, {ranges} GET, " not in err:
            wrong[*words, fixture] = err[-200:]
    check("-v tells what was asked for, and each range is asked for once", wrong)
    status, out, err = run(["info", "--json", "--provenance", url], **local)
    check("provenance has the same numbers", json.loads(out)["provenance"].get("remote") != {
        "backend": "fake 1", "lists": 1, "gets": 4, "heads": 0, "retries": 0, "bytes": 0} and out)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder, scratch + "/run")
        for i in range(50):
            with open(f"{scratch}/run/{i}.log", "w", encoding="ascii") as stream:
                stream.write("x")
        status, out, err = run(["audit", "-v", f"s3://local{scratch}/run"], **local)
        check("files whose names are of no pickle and no program are not read", (
            status != 0 or " 5 GET, " not in err or "only the names of 50 files at the URL were checked" not in err) and (status, out, err))
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(4):
            shutil.copytree(folder, f"{scratch}/step-{i}")
        found = [run([command, "s3://local" + scratch], FAKE_FAULT="together", **local) for command in ("info", "audit")]
        check("the directories of a run are listed together", any(status != 0 for status, _, _ in found) and found)
    done = subprocess.run(["bash", "-c", f"'{BINARY}' ls -q {url} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True,
                          env={**os.environ, **local})
    check("a reader that has enough ends it without a word", done.stderr or len(done.stdout.split("\n")) != 3)
    status, out, err = run(["info", "--limit", "remote-requests=1", url], **local)
    check("a limit ends it", (status != 2 or "remote-requests" not in err) and (status, err))
    status, out, err = run(["info", "-v", "--limit", "remote-requests=3", f"s3://local{TESTDATA}/hf/llama-sharded"], **local)
    check("also what is announced", (status == 0 or not re.search(" 1 LIST, [12] GET, ", err)) and (status, err))


def usage():
    wrong = {}
    for words, message in ((["https://u:p@host/x"], "a user name or password"), (["https://host/x/"], "HTTP has no directories"),
                           (["http://host.example/x"], "only for this machine"), (["hf://datasets/a/b"], "only model repositories"),
                           (["s3://b/x//y"], "a part of the URL is empty"), (["s3://b/../y"], "a part of the URL is empty"),
                           (["s3://"], "no bucket or host"), (["ssh://host/x"], "URLs are not supported"),
                           (["wandb://a/b"], "URLs are not supported")):
        status, out, err = run(["info", *words])
        if status != 2 or message not in err or ":p@" in err:
            wrong[words[0]] = status, err
    check("URLs that cannot be read are refused", wrong)
    status, out, err = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON="/nowhere")
    check("without Python", (status != 2 or "no helper: python3 was not found" not in err or "fix: FSDP_INSPECT_PYTHON" not in err) and err)
    status, out, err = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON="/bin/false")
    check("a Python that cannot run the helper", (status != 2 or "the helper ended (status 1)\n  fix: FSDP_INSPECT_PYTHON=PATH" not in err) and err)
    status, out, err = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON="", PATH="/nowhere", VIRTUAL_ENV="", CONDA_PREFIX="")
    check("without any Python: a command that makes a local copy", "  fix: install Python 3.9 or newer; without it: aws s3 cp --recursive s3://b/x DIR\n" not in err and err)
    with tempfile.TemporaryDirectory() as scratch:
        python = os.path.join(scratch, "python3")
        with open(python, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho Traceback >&2\necho \"ImportError: No module named 'ssl'\" >&2\nexit 1\n")
        os.chmod(python, 0o755)
        status, out, err = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON=python)
        check("the last line of a Python that fails at its start", "the helper ended (status 1): ImportError: No module named 'ssl'\n" not in err and err)
    with tempfile.TemporaryDirectory() as scratch:
        killed = os.path.join(scratch, "helper")
        with open(killed, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nkill -9 $$\n")
        os.chmod(killed, 0o755)
        status, out, err = run(["info", "s3://b/x"], FSDP_INSPECT_HELPER=killed)
    check("a helper that is killed at its start", (status != 2 or "the helper ended (signal 9)\n" not in err or "fix" in err) and err)
    with tempfile.TemporaryDirectory() as scratch:
        # Modules of the folder of a venv without any others stand for an old package.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", scratch + "/venv"], check=True)
        python = scratch + "/venv/bin/python3"
        missing = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON=python, HOME=scratch)
        check("without obstore", (missing[0] != 2 or "(obstore is not installed, Python is " not in missing[2] or
                                  f"hint: {python} -m pip install -U obstore\n" not in missing[2]) and missing)
        other = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON=python, FSDP_INSPECT_REMOTE="boto")
        check("a name of no package", (other[0] != 2 or "(FSDP_INSPECT_REMOTE is not obstore or fsspec)" not in other[2]) and other)
        program = shutil.copy(PROCESS, scratch + "/venv/bin/fsdp-inspect")
        env = {"PATH": "/usr/bin:/bin", "HOME": scratch, "ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run([program, "info", "s3://b/x"], capture_output=True, text=True, env=env)
        check("the Python beside the program", f"Python is {python})" not in done.stderr and done)
        place = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True).stdout.strip()
        os.makedirs(place + "/obstore")
        for name, text in (("__init__.py", "__version__ = '0.3.0'"), ("store.py", "")):
            with open(f"{place}/obstore/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
        old = run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON=python, HOME=scratch)
        check("with an old obstore", (old[0] != 2 or "(obstore 0.3.0 is older than 0.4, Python is " not in old[2]) and old)
    with tempfile.TemporaryDirectory() as scratch:
        spy = os.path.join(scratch, "python")
        with open(spy, "w", encoding="ascii") as stream:
            stream.write(f"#!{sys.executable}\nimport os, sys\nopen('{scratch}/program', 'w').write(sys.argv[3])\n"
                         f"open('{scratch}/env', 'w').write(repr(sorted(os.environ)))\n")
        os.chmod(spy, 0o700)
        run(["info", "s3://b/x"], FSDP_INSPECT_PYTHON=spy, LD_NOTHING="1", PYTHONNOTHING="1")
        with open(os.path.join(scratch, "program"), encoding="ascii") as program, open(PROGRAM, encoding="ascii") as file:
            check("the program that is built in is the one of the package", program.read() != file.read())
        with open(os.path.join(scratch, "env"), encoding="ascii") as stream:
            names = stream.read()
        check("variables that choose libraries are left out", ("LD_NOTHING" in names or "PYTHONNOTHING" in names) and names)


def drip(handler, body, size=2, wait=0.3):
    """Sends few bytes at a time, so that a server is never silent, and counts how often."""
    handler.close_connection = True
    try:
        for at in range(0, len(body), size):
            type(handler).tries += 1
            handler.wfile.write(body[at:at + size])
            time.sleep(wait)
    except OSError:
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    """Files of TESTDATA by ranges, below /s a faulty server, and a Hub below /api and /resolve."""

    protocol_version = "HTTP/1.1"
    fault, seen, tries, listed = "", [], 0, None

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def file(self, path):
        with open(path, "rb") as stream:
            body = stream.read()
        tag = '"' + hashlib.md5(body).hexdigest() + '"'
        if self.fault == "changed" and self.headers.get("If-Match"):
            return self.answer(412)
        if self.fault == "other tag" and self.headers.get("If-Match"):
            tag = '"other"'
        if self.fault == "no ranges":
            return self.answer(200, body + b"\0" * (2 << 20), ETag=tag)
        if self.fault == "busy" or self.fault == "busy twice" and Handler.tries < 2:
            Handler.tries += 1
            return self.answer(503, b"body " + SECRET.encode(), Retry_After="0")
        if self.fault == "denied":
            return self.answer(403, b"body " + SECRET.encode())
        begin, end = self.headers["Range"].partition("=")[2].split("-")
        begin, end = int(begin), min(int(end), len(body) - 1)
        part = body[begin:end + 1]
        if self.fault == "no size":
            return self.answer(206, part, ETag=tag, Content_Range=f"bytes {begin}-{end}/*")
        where = f"bytes {begin + (self.fault == 'wrong range')}-{end}/{len(body) + (self.fault == 'other size' and begin > 0)}"
        if self.fault == "longer":
            part += bytes(10)
        if self.fault == "cut once" and end > 0 and not Handler.tries:
            Handler.tries, self.close_connection = 1, True
            self.wfile.write(f"HTTP/1.1 206 x\r\nETag: {tag}\r\nContent-Range: {where}\r\nContent-Length: {len(part)}\r\n\r\nx".encode())
            return None
        if self.fault == "drips":
            self.wfile.write(f"HTTP/1.1 206 x\r\nETag: {tag}\r\nContent-Range: {where}\r\nContent-Length: {len(part)}\r\n\r\n".encode())
            return drip(self, part)
        if self.fault == "endless":
            self.wfile.write(f"HTTP/1.1 206 x\r\nETag: {tag}\r\nContent-Range: {where}\r\n\r\n".encode())
            try:
                while True:
                    self.wfile.write(bytes(1 << 16))
            except OSError:
                self.close_connection = True
                return None
        encoding = {"Content_Encoding": "gzip"} if self.fault == "gzip" else {}
        headers = {f"X_{i}": "x" * 60000 for i in range(200)} if self.fault == "huge headers" else {}
        return self.answer(206, part, ETag=tag, Content_Range=where, **encoding, **headers)

    def do_GET(self):
        Handler.seen.append((self.server.server_port, self.path, self.headers.get("Authorization")))
        path = urllib.parse.unquote(self.path.partition("?")[0])
        repository = self.server.repository
        if path.startswith("/api/models/org/name/revision/"):
            return self.answer(200, json.dumps({"sha": "a" * 40}).encode())
        if path.startswith("/api/models/org/name/tree/" + "a" * 40):
            names = sorted(os.listdir(repository))
            first = "cursor" not in self.path
            rows = []
            for name in names[:2] if first else names[2:]:
                with open(os.path.join(repository, name), "rb") as stream:
                    body = stream.read()
                rows.append({"type": "file", "path": name, "size": len(body), "oid": "b" * 40, "lfs":
                             {"oid": self.listed or hashlib.sha256(body).hexdigest(), "size": len(body)} if name.endswith(".safetensors") else None})
            link = {"Link": f'<http://127.0.0.1:{self.server.server_port}{path}?recursive=true&cursor=x>; rel="next"'}
            return self.answer(200, json.dumps(rows).encode(), **(link if first else {}))
        if path.startswith("/org/name/resolve/" + "a" * 40 + "/"):
            return self.answer(302, Location=f"http://127.0.0.1:{self.server.other}/cdn/{path.rpartition('/')[2]}?sig={SECRET}")
        if path.startswith("/cdn/"):
            return self.file(os.path.join(repository, path[5:]))
        if path.startswith("/api/models/org/gated/"):
            return self.answer(403, b"", X_Error_Code="GatedRepo")
        if path.startswith("/api/models/org/echo/"):
            return self.answer(403, b"", X_Error_Code=self.headers["Authorization"].rpartition(" ")[2])
        if path.startswith("/api/"):
            return self.answer(401, b"", X_Error_Code="RepoNotFound")
        if path.startswith("/to/"):
            return self.answer(302, Location=path[4:].replace("PORT", str(self.server.other)))
        if path.startswith("/elsewhere/"):
            return self.answer(302, Location=f"http://10.0.0.1/{SECRET}")
        if os.path.isfile(TESTDATA + path):
            return self.file(TESTDATA + path)
        return self.answer(404)


def serve(repository):
    for name in os.listdir(os.path.join(TESTDATA, "hf", "llama-sharded")):
        path = os.path.join(TESTDATA, "hf", "llama-sharded", name)
        if os.path.isfile(path):
            shutil.copy(path, repository)
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    for server, other in zip(servers, servers[::-1]):
        server.handle_error = lambda *words: None
        server.other, server.repository = other.server_port, repository
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return servers


def web(servers):
    base = f"http://127.0.0.1:{servers[0].server_port}"
    name = "/torch-zip/state-dict/model.pt"
    url = f"{base}{name}"
    here = run(["ls", "--json", TESTDATA + name])
    there = run(["ls", "--json", f"{url}?token={SECRET}", "--provenance"])
    check("a file of a web server", here[0] != there[0] or json.loads(here[1])["data"] != json.loads(there[1])["data"] and there)
    check("a query is not shown", SECRET in there[1] + there[2] and there)
    check("but asked for", not any(f"token={SECRET}" in path for _, path, _ in Handler.seen))
    for fault, status, word in (("changed", (1, 2, 3), "changed since"), ("no ranges", (2,), "ignores range requests"),
                                ("denied", (2,), "access denied (HTTP 403)"), ("wrong range", (1, 2, 3), "wrong Content_Range"),
                                ("no size", (2,), "wrong Content_Range"), ("other tag", (1, 2, 3), "changed since"), ("longer", (2,), "more bytes than asked for"),
                                ("cut once", (0,), ""), ("endless", (2,), "cannot be read"), ("gzip", (2,), "cannot be read (Content_Encoding)"),
                                ("huge headers", (2,), "cannot be read"), ("busy twice", (0,), ""), ("busy", (2,), "asks to slow down (HTTP 503, 6 tries)")):
        Handler.fault, Handler.tries = fault, 0
        found = run(["info", f"{url}?token={SECRET}"])
        Handler.fault = ""
        check(f"a server with a fault: {fault}", (found[0] not in status or word not in found[1] + found[2] or
                                                   SECRET in found[1] + found[2]) and found)
    Handler.fault = "no ranges"
    check("a server without ranges: a command that gets the file", f"  fix: curl -fLO {url}\n" not in run(["info", url])[2])
    Handler.fault, Handler.tries = "drips", 0
    found = run(["info", url], FSDP_INSPECT_TIMEOUT="1")
    Handler.fault = ""
    check("an answer that takes four times the timeout is given up", (
        found[0] != 2 or "cannot reach the server (127.0.0.1: timed_out)" not in found[2] or Handler.tries > 100) and (found, Handler.tries))
    found = run(["info", f"{base}/elsewhere/x.pt"])
    check("a redirect to a private address is not followed", (found[0] != 2 or "redirects to another place (10.0.0.1)" not in found[2] or
                                                              SECRET in found[2]) and found)
    wrong = {}
    for host in ("localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"):
        if host == "localhost" and not has_name(host):
            continue
        found = run(["info", base + "/to/" + urllib.parse.quote(f"https://{host}:PORT/x.pt", safe="")])
        if found[0] != 2 or "redirects to another place" not in found[2]:
            wrong[host] = found
    check("nor one to this machine by another name", wrong)
    found = run(["info", f"{base}/demo/step-1234/__0_0.distcp"])
    check("a file that is nothing without its directory", (found[0] != 2 or "HTTP has no directories" not in found[2]) and found)
    found = run(["info", f"{base}/nothing.pt"])
    check("a file that is not there", (found[0] != 2 or "no such file" not in found[2]) and found)
    found = run(["info", "http://127.0.0.1:1/x.pt"])
    check("a server that is not there", (found[0] != 2 or "cannot reach the server (127.0.0.1: connection_refused)" not in found[2]) and found)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as headers:
        headers.write(f"Authorization: {SECRET}\n")
        headers.flush()
        Handler.seen.clear()
        found = run(["info", url], FSDP_INSPECT_HTTP_HEADER_FILE=headers.name)
        check("lines of a header file are sent", any(word != SECRET for _, _, word in Handler.seen) or found[0] != 0)
        Handler.seen.clear()
        found = run(["info", base + "/to/" + urllib.parse.quote(f"http://127.0.0.1:PORT{name}", safe="")], FSDP_INSPECT_HTTP_HEADER_FILE=headers.name)
        strangers = [word for port, _, word in Handler.seen if port != servers[0].server_port]
        check("but not to another port of the host", not strangers or any(strangers) or found[0] != 0)


def hub(servers):
    variables = {"HF_ENDPOINT": f"http://127.0.0.1:{servers[0].server_port}", "HF_TOKEN": SECRET}
    path = servers[0].repository
    wrong = []
    for command in COMMANDS[:5]:
        here, there = run(command + ["--json", path]), run(command + ["--json", "hf://org/name"], **variables)
        if (here[0], here[1]) != (there[0], there[1].replace("hf://org/name", path)):
            wrong.append((command, here, there))
    check("a repository of the Hub", wrong)
    status, out, err = run(["audit", "--data", "hf://org/name"], **variables)
    check("its digests are compared", (status != 0 or "compared with checksums" not in out) and (status, out, err))
    here, there = run(["hash", path]), run(["hash", "--trust-store", "hf://org/name"], **variables)
    check("the digests of the Hub are those of the files", here[:2] != there[:2] and (here, there))
    Handler.listed = "ab" * 32
    here, there = [run(["hash", *words, "hf://org/name"], **variables)[1] for words in ([], ["--trust-store"])]
    check("only --trust-store prints a digest that the Hub lists", (
        Handler.listed in here or there.count(Handler.listed) != there.count(".safetensors\n")) and (here, there))
    Handler.listed = None
    status, out, err = run(["audit", "--data", "hf://org/name"], **variables)
    strangers = [seen for seen in Handler.seen if seen[0] != servers[0].server_port and seen[2]]
    check("its token goes to no other server", strangers or not any(seen[2] for seen in Handler.seen))
    status, out, err = run(["info", "hf://org/name@main/model.safetensors.index.json"], **variables)
    check("a file of it", SECRET in out + err)
    for url, word in (("hf://org/gated", "access denied (gated or private)"), ("hf://org/echo", "access denied (HTTP 403)"), ("hf://org/none", "no such bucket, container or repository")):
        found = run(["info", url], **variables)
        check(f"a repository that is not given: {url}", (found[0] != 2 or word not in found[2] or SECRET in found[2]) and found)


def locked(servers):
    if shutil.which("strace") is None or subprocess.run(["strace", "true"], capture_output=True).returncode != 0:
        return check("no strace # SKIP", None)
    with tempfile.TemporaryDirectory() as scratch:
        url = f"http://127.0.0.1:{servers[0].server_port}/torch-zip/state-dict/model.pt"
        subprocess.run(["strace", "-f", "-o", scratch + "/trace", "-e", "trace=network,seccomp,process", PROCESS, "info", url],
                       capture_output=True, env={**os.environ, "FSDP_INSPECT_PYTHON": sys.executable, "ASAN_OPTIONS": "detect_leaks=0"})
        with open(scratch + "/trace", encoding="utf-8", errors="replace") as stream:
            lines = stream.readlines()
    own = [line.split(None, 1)[1] for line in lines if line.split()[0] == lines[0].split()[0]]
    sockets = [line for line in own if line.startswith(("socket(", "connect(", "sendto(", "sendmsg(", "recv"))]
    check("the process that parses opens no socket", sockets)


def receive(connection, size):
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            break
        found += more
    return found


def ask(connection, number, kind, payload=b""):
    """One frame to the built-in program; the kinds of the answers to it, and the code of a failure."""
    connection.sendall(struct.pack("<IIB", 5 + len(payload), number, kind) + payload)
    kinds, code = [], None
    while True:
        head = receive(connection, 9)
        if len(head) < 9:
            return kinds, "ended"
        size, _, found = struct.unpack("<IIB", head)
        body = receive(connection, size - 5)
        kinds.append(found)
        code = body[0] if found == 133 else code
        if found not in (130, 131):
            return kinds, code


def start_helper(variables):
    """The built-in program, and a socket to it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    with open(PROGRAM, encoding="ascii") as stream:
        program = stream.read().replace("fileno=3", f"fileno={theirs.fileno()}")
    helper = subprocess.Popen([sys.executable, "-I", "-c", program], pass_fds=[theirs.fileno()], env=variables)
    theirs.close()
    return ours, helper


def hostile(servers):
    """A program in the place of the one that parses asks for what lies outside of the roots."""
    ours, helper = start_helper({"PATH": "/usr/bin:/bin", "HF_ENDPOINT": f"http://127.0.0.1:{servers[0].server_port}"})

    def text(word):
        return struct.pack("<H", len(word)) + word

    check("the helper answers", ask(ours, 1, 1, struct.pack("<H", 1)) != ([128], None))
    check("and reads a root", ask(ours, 2, 2, text(b"hf://org/name")) != ([129], None))
    check("until it is sealed", ask(ours, 3, 3) != ([128], None))
    Handler.seen.clear()
    url = b"http://127.0.0.1:%d/torch-zip/state-dict/model.pt" % servers[0].server_port
    wrong = {}
    for title, kind, payload in (("another root", 2, text(url)), ("a parent", 4, struct.pack("<I", 0) + text(b"../x")),
                                 ("an absolute path", 4, struct.pack("<I", 0) + text(b"/etc")),
                                 ("a root that is none", 4, struct.pack("<I", 7) + text(b"")),
                                 ("a text that is cut", 4, struct.pack("<IH", 0, 50) + b"x"),
                                 ("a file that was not listed", 6, struct.pack("<IQI", 0, 0, 10)),
                                 ("nothing", 6, b""), ("half a range", 6, b"abc"), ("an unknown kind", 99, b"")):
        found = ask(ours, 9, kind, payload)
        if found != ([133], 12):
            wrong[title] = found
    check("then it refuses what is not below a root", wrong)
    listed = ask(ours, 10, 4, struct.pack("<I", 0) + text(b""))
    check("and lists what is", listed != ([130, 132], None) and listed)
    beyond = ask(ours, 11, 6, struct.pack("<IQI", 0, 1 << 60, 10)), ask(ours, 12, 6, struct.pack("<IQI", 0, 0, 1 << 30))
    check("ranges outside of a file are refused", beyond != (([133], 12), ([133], 12)) and beyond)
    check("for none of that a request was made", Handler.seen)
    ours.close()
    check("it ends with its socket", helper.wait(20))


def module():
    """The helper as a module, without a process."""
    found = importlib.util.module_from_spec(importlib.util.spec_from_file_location("helper", PROGRAM))
    found.__spec__.loader.exec_module(found)
    return found


def redirects():
    """Where redirects of servers that are not on this machine may lead, and what is sent there."""
    helper, wrong = module(), {}
    near = ("127.0.0.1 10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 0.0.0.0 224.0.0.1 ::1 fe80::1%lo fc00::1 fec0::1 ff02::1 ::ffff:10.0.0.1 "
            "::ffff:169.254.169.254 2002:7f00:1::1 2002:a9fe:a9fe::1 64:ff9b::7f00:1 2130706433 0x7f.1 0177.0.0.1 169.254.169.254 fd00:ec2::254")
    for place, named, refused in ([(place, False, True) for place in near.split()] + [(place, True, False) for place in near.split()[:4]] +
                                  [(place, True, True) for place in ("169.254.169.254", "::ffff:169.254.169.254", "fe80::1%lo", "168.63.129.16",
                                                                     "2002:a9fe:a9fe::1", "100.100.100.200")] +
                                  [(place, False, False) for place in ("93.184.216.34", "2606:2800:220:1::1", "name.example")]):
        store = helper.Http("https://first.example/x.pt")
        try:
            store.check(place, "first.example" if named else "other.example")
            found = False
        except helper.Fail:
            found = True
        if found != refused:
            wrong[place, named] = found
    check("addresses that redirects and names may lead to", wrong)
    wrong = {}
    for place, answer in (("https://other.example/x", None), ("http://first.example/x", 11), ("http://other.example/x", 11),
                          ("https://first.example:444/x", None), ("https://name:word@first.example/x", 11), ("file:///etc/passwd", 11),
                          ("//other.example/x", None), ("ftp://first.example/x", 11), ("/again", 11)):
        seen = []

        def request(self, parts, headers, most):
            seen.append((parts.netloc, headers.get("Authorization")))
            is_first = parts.path == "/x.pt" or parts.path == "/again"
            return (302, {"Location": place}, b"") if is_first else (206, {"Content-Range": "bytes 0-0/1"}, b"x")

        helper.Http.request = request
        store = helper.Http("https://first.example/x.pt")
        store.secrets = {"Authorization": SECRET}
        try:
            code = store.head() and None
        except helper.Fail as failure:
            code = failure.code
        if code != answer or any((word is None) != (host != "first.example") for host, word in seen) or len(seen) > 6:
            wrong[place] = code, seen
    check("redirects to other hosts, ports and schemes", wrong)
    # path: where it leads, or the status there
    seen, places = [], {"/x.pt": "https://other.example/1", "/1": 206, "/2": 206}

    def request(self, parts, headers, most):
        seen.append(parts.path)
        answer = places[parts.path]
        return (answer, {"Content-Range": "bytes 0-0/1"}, b"x") if isinstance(answer, int) else (302, {"Location": answer}, b"")

    helper.Http.request = request
    store = helper.Http("https://first.example/x.pt")
    asked = [store.head() and [seen.pop(0) for _ in list(seen)] for _ in range(2)]
    for status in (403, 410):
        places.update({"/x.pt": "https://other.example/2", "/1": status, "/2": 206})
        asked.append(store.head() and [seen.pop(0) for _ in list(seen)])
        store.places = {store.url: "https://other.example/1"}
    places["/x.pt"] = 403
    try:
        asked.append(store.head())
    except helper.Fail as failure:
        asked.append([*seen, failure.code])
    check("where a redirect led is asked until that is refused", asked != [
        ["/x.pt", "/1"], ["/1"], ["/1", "/x.pt", "/2"], ["/1", "/x.pt", "/2"], ["/1", "/x.pt", 4]] and asked)
    opened, answers = [], [helper.Fail(helper.EXPIRED), helper.Fail(helper.SLOW), {"run/below/x": None}, helper.Fail(helper.EXPIRED), helper.Fail(helper.EXPIRED)]

    class Store(helper.Store):
        def open(self, env):
            opened.append(self.url)

        def rows(self, prefix):
            answer = answers.pop(0)
            if isinstance(answer, helper.Fail):
                raise answer
            return answer.items()

    store = Store("s3://bucket/run")
    first = store.call("list", "below")
    try:
        second = store.call("list", "other")
    except helper.Fail as failure:
        second = failure.code
    check("credentials that expired are asked for once more", (len(opened) != 3 or first != {"x": None} or second != helper.EXPIRED) and (opened, first, second))
    both = [("run/same", helper.File("run/same", 1)), ("run/same/below", helper.File("run/same/below", 1)), ("run/", helper.File("run/", 0))]
    for rows in (both, both[::-1]):
        answers[:] = [dict(rows)]
        found = Store("s3://bucket/run").call("list")
        check("a directory counts more than an object of its name", found != {"same": None} and found)
    searched, search = [], helper.re.search
    helper.re.search = lambda pattern, where, *flags: searched.append(len(where)) or search(pattern, where[:11000], *flags)
    try:
        code = helper.fail_of(Exception("status code: 403 <Code>AccessDenied</Code>" + "missing " * 1000000)).code
    finally:
        helper.re.search = search
    check("a long answer is not searched to its end", (code != 4 or not searched or max(searched) > 11000) and (code, searched))


def profiles():
    """A profile that nothing on this machine can read."""
    helper = module()
    store = helper.Obstore.__new__(helper.Obstore)
    store.scheme, kept = "s3", sys.modules.get("boto3")
    sys.modules["boto3"] = None
    try:
        found = store.options({"AWS_PROFILE": "nobody"})
    except helper.Fail as failure:
        found = failure.code, failure.detail
    finally:
        sys.modules.pop("boto3")
        sys.modules.update({"boto3": kept} if kept else {})
    check("a profile without boto3 and the AWS CLI", found != (
        helper.NO_CREDENTIALS, "AWS_PROFILE needs the package boto3, or aws configure export-credentials") and found)


class Proxy(http.server.BaseHTTPRequestHandler):
    """Leads to servers on this machine who has the password."""

    protocol_version = "HTTP/1.1"
    seen = []

    def log_message(self, *words):
        pass

    def do_CONNECT(self):
        Proxy.seen.append(self.path)
        is_known = self.headers.get("Proxy-Authorization") == "Basic " + base64.b64encode(f"name:{SECRET}".encode()).decode()
        self.send_response(200 if is_known else 407)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.close_connection = True
        if not is_known:
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as other:
            def answers():
                while part := other.recv(1 << 16):
                    self.connection.sendall(part)

            threading.Thread(target=answers, daemon=True).start()
            while part := self.connection.recv(1 << 16):
                other.sendall(part)


def proxy(servers):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.handle_error = lambda *words: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{servers[0].server_port}/torch-zip/state-dict/model.pt"
    wrong = {}
    for word, url, status, message, connections in ((SECRET, url, 0, "", True), ("wrong" + SECRET, url, 2, "the proxy refuses)", True),
                                                    (SECRET, "https://169.254.169.254/x.pt", 2, "(169.254.169.254: a link-local or metadata address)", False)):
        Proxy.seen.clear()
        place = f"http://name:{word}@127.0.0.1:{server.server_port}"
        found = run(["info", url], HTTP_PROXY=place, HTTPS_PROXY=place)
        if found[0] != status or message not in found[2] or SECRET in found[1] + found[2] or bool(Proxy.seen) != connections:
            wrong[word, url] = found, Proxy.seen
    check("servers behind a proxy", wrong)
    server.shutdown()


def certificates(repository):
    """A server whose certificate nobody has signed, and a name that nobody has."""
    found = run(["info", "https://nothing.invalid/x.pt"])
    check("a name that is not found", (found[0] != 2 or "cannot reach the server (nothing.invalid: name_not_found)" not in found[2]) and found)
    if shutil.which("openssl") is None:
        return check("certificates # SKIP no openssl", None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error, server.repository, server.other = lambda *words: None, repository, 0
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-keyout", scratch + "/key", "-out", scratch + "/certificate", "-subj", "/CN=test",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(scratch + "/certificate", scratch + "/key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url, wrong = f"https://127.0.0.1:{server.server_port}/torch-zip/state-dict/model.pt", {}
        store = {"AWS_ENDPOINT_URL": f"https://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET,
                 "AWS_REGION": "us-east-1"}
        for name, words, word, variables in [("none", [url], "(127.0.0.1: certificate_not_trusted)", {})] + [
                (name, [url], "", {name: scratch + "/certificate"}) for name in ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")] + [
                ("s3", ["s3://bucket/x"], "(certificate_not_trusted)", store)] * bool(importlib.util.find_spec("obstore")):
            found = run(["info", *words], **variables)
            if found[0] != (2 if word else 0) or word not in found[2] or SECRET in found[1] + found[2]:
                wrong[name] = found
        check("a server is read only if its certificate is trusted", wrong)
    server.shutdown()


class Long(http.server.BaseHTTPRequestHandler):
    """A file of 1 GiB."""

    protocol_version = "HTTP/1.1"
    seen = 0

    def log_message(self, *words):
        pass

    def do_GET(self):
        Long.seen += 1
        begin, end = map(int, self.headers["Range"].partition("=")[2].split("-"))
        self.send_response(206)
        for name, value in (("ETag", '"x"'), ("Content-Length", end + 1 - begin), ("Content-Range", f"bytes {begin}-{end}/{1 << 30}")):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(bytes(end + 1 - begin))


def greedy():
    """A program in the place of the one that parses asks for more than there is memory for."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Long)
    server.handle_error = lambda *words: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = b"http://127.0.0.1:%d/x.pt" % server.server_port
    wrong = {}
    for title, kind, payload in (("ranges", 6, struct.pack("<IQI", 0, 0, 4 << 20)), ("small ranges", 6, struct.pack("<IQI", 0, 0, 1)),
                                 ("lists", 4, struct.pack("<IH", 0, 0)), ("counts", 8, b"")):
        ours, helper = start_helper({"PATH": "/usr/bin:/bin", "FSDP_INSPECT_CONNECTIONS": "256"})
        ask(ours, 1, 1, struct.pack("<H", 1))
        ask(ours, 2, 2, struct.pack("<H", len(url)) + url)
        ask(ours, 3, 3)
        ours.settimeout(2)
        frame = struct.pack("<IIB", 5 + len(payload), 9, kind) + payload
        frames, most_bytes, sent = frame * max(1, 65536 // len(frame)), min(1 << 30, len(frame) << 22), 0
        try:
            while sent < most_bytes:
                ours.sendall(frames)
                sent += len(frames)
        except OSError:
            pass
        with open(f"/proc/{helper.pid}/status", encoding="ascii") as stream:
            most = int(re.search(r"VmHWM:\s+(\d+)", stream.read())[1])
        ours.close()
        try:
            if helper.wait(20) or most > 160000:
                wrong[title] = most, sent
        except subprocess.TimeoutExpired:
            wrong[title] = "goes on"
            helper.kill()
    check("and gets no more than the helper has memory for", wrong)
    ours, helper = start_helper({"PATH": "/usr/bin:/bin"})
    ask(ours, 1, 1, struct.pack("<H", 1))
    ask(ours, 2, 2, struct.pack("<H", len(url)) + url)
    ours.sendall(b"".join(struct.pack("<IIBIQI", 21, 9 + i, 6, 0, 10 << 20 | i * 1000003, 1000003) for i in range(40)))
    ranges, ends = [], []
    while len(ends) < 40:
        size, number, kind = struct.unpack("<IIB", receive(ours, 9))
        body = receive(ours, size - 5)
        if kind == 131:
            ranges.append((struct.unpack_from("<Q", body, 4)[0], size - 5 - 12))
        else:
            ends.append((number, kind))
    ours.close()
    check("each byte is sent once", (sorted(ends) != [(9 + i, 132) for i in range(40)] or sum(size for _, size in ranges) != 40 * 1000003 or
                                     len(set(ranges)) != len(ranges)) and ranges)
    server.shutdown()


class Faulty(http.server.BaseHTTPRequestHandler):
    """One object of a bucket of S3, as its server's fault has it; each error has a secret in its body."""

    protocol_version = "HTTP/1.1"
    seen, tries = [], 0
    # fault: status, code of every answer
    errors = {"denied": (403, "AccessDenied"), "wrong key": (403, "InvalidAccessKeyId"), "signature": (403, "SignatureDoesNotMatch"),
              "expired": (400, "ExpiredToken"), "no bucket": (404, "NoSuchBucket"), "slow down": (503, "SlowDown"), "odd": (418, "Teapot"),
              "region": (301, "PermanentRedirect"), "broken": (500, ""), "no word": (403, ""), "no login": (401, "")}
    # the same of answers to reads alone
    reads = {"gone": (404, "NoSuchKey"), "changed": (412, "PreconditionFailed"), "read denied": (403, "AccessDenied")}

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    def do_GET(self):
        Faulty.seen.append((self.server.server_port, {name.lower() for name in self.headers}, self.path))
        fault, is_list = self.server.fault, any(word in self.path for word in ("list-type=", "comp=list", "/b/bucket/o?"))
        found = self.errors.get(fault) or (None if is_list else self.reads.get(fault))
        is_fault = not is_list and Faulty.tries < 2
        Faulty.tries += is_fault
        if is_fault and fault in ("busy twice", "odd twice"):
            found = (503, "SlowDown") if fault == "busy twice" else (500, "OperationAborted")
        if fault == "cut":
            self.connection.close()
            self.close_connection = True
        elif fault == "hangs":
            time.sleep(4)
            self.close_connection = True
        elif found:
            self.answer(found[0], f"<Error><Code>{found[1]}</Code><Message>{SECRET} (Word)</Message></Error>".encode())
        elif is_list and "/o?" not in self.path:
            prefix = urllib.parse.parse_qs(self.path.partition("?")[2]).get("prefix", [""])[0]
            row = (f"<Contents><Key>{prefix}model.safetensors</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"x\"</ETag>"
                   f"<Size>{len(self.server.body)}</Size></Contents>")
            blob = (f"<Blob><Name>{prefix}model.safetensors</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
                    f"<Content-Length>{len(self.server.body)}</Content-Length><Content-Type>x</Content-Type><Content-Encoding/><Content-Language/>"
                    "<Etag>x</Etag><BlobType>BlockBlob</BlobType></Properties></Blob>")
            if "prefix=run&delimiter" in self.path:  # of adlfs
                blob = "<BlobPrefix><Name>run/</Name></BlobPrefix>"
            row = row.replace("model", "/model") if fault == "bad key" else row
            self.answer(200, ("<ListBucketResult><Name>bucket</Name>" + row * (fault != "empty") + "</ListBucketResult>"
                              if "list-type=" in self.path else "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://x/\" ContainerName=\"bucket\"><Blobs>" + blob * (fault != "empty") +
                              "</Blobs><NextMarker/></EnumerationResults>").encode(), Content_Type="application/xml")
        elif is_list:  # of gcsfs
            row = {"name": "run/model.safetensors", "size": str(len(self.server.body)), "generation": "1", "updated": "2026-01-01T00:00:00Z"}
            self.answer(200, json.dumps({"items": [row] * (fault != "empty")}).encode(), Content_Type="application/json")
        elif fault == "empty":
            self.answer(404)
        elif fault == "redirect" and not self.path.startswith("/other"):
            self.answer(307, Location=f"http://127.0.0.2:{self.server.other}/other?X-Amz-Signature={SECRET}")
        elif fault == "no ranges":
            self.answer(200, self.server.body, ETag='"x"')
        else:
            begin, end = map(int, (self.headers["Range"] or self.headers["x-ms-range"]).partition("=")[2].split("-"))
            part = self.server.body[begin:end + 1]
            tag = {"other tag": {"ETag": '"y"', "x-goog-generation": "2"}, "no tag": {}, "redirect": {}}.get(fault, {"ETag": '"x"', "x-goog-generation": "1"})
            where = f"bytes {begin}-{begin + len(part) - 1}/{len(self.server.body)}"
            if fault == "slow":
                self.answer(206, b"", Content_Range=where, **{"Content-Length": len(part)}, **tag)
                for at in range(0, len(part), len(part) // 6 + 1):
                    time.sleep(0.4)
                    self.wfile.write(part[at:at + len(part) // 6 + 1])
            elif fault == "drips":
                self.answer(206, b"", Content_Range=where, **{"Content-Length": len(part)}, **tag)
                drip(self, part)
            elif fault == "endless":
                self.answer(206, b"", Content_Range=where, **{"Content-Length": 1 << 40}, **tag)
                drip(self, bytes(1 << 20), 64 << 10, 0.01)
            elif fault == "cut body" and is_fault:
                self.close_connection = True
                self.answer(206, part[:len(part) // 2], Content_Range=where, **{"Content-Length": len(part)}, **tag)
            else:
                self.answer(206, part, Content_Range=where, **tag)

    do_HEAD = do_GET


STORE_FAULTS = (
    ("none", 0, ""), ("slow", 0, ""), ("busy twice", 0, ""), ("odd twice", 0, ""), ("cut body", 0, ""), ("denied", 2, "access denied (AccessDenied)"), ("wrong key", 2, "access denied (InvalidAccessKeyId)"),
    ("signature", 2, "access denied (SignatureDoesNotMatch)"), ("expired", 2, "the credentials expired (ExpiredToken)"),
    ("no bucket", 2, "no such bucket, container or repository (NoSuchBucket)"), ("slow down", 2, "the store asks to slow down (SlowDown, 6 tries)"),
    ("no word", 2, "access denied (HTTP 403)"), ("no login", 2, "access denied (HTTP 401)"),
    ("odd", 2, "cannot be read (Teapot)"), ("broken", 2, "cannot be read (HTTP 500, 6 tries)"), ("region", 2, "redirects to another place (AWS_REGION is not that of the bucket)"),
    ("empty", 2, "s3://bucket/run: no such file or directory"), ("cut", 2, "cannot reach the server (connection_lost)"),
    ("bad key", 2, "cannot be read (obstore cannot list a key here; FSDP_INSPECT_REMOTE=fsspec can)"), ("hangs", 2, "cannot reach the server (timed_out)"), ("drips", 2, "cannot reach the server (timed_out)"), ("gone", 2, "/model.safetensors: no such file or directory"),
    ("changed", 2, "/model.safetensors: the file changed since the directory was listed"),
    ("read denied", 2, "/model.safetensors: access denied (AccessDenied)"),
    ("no ranges", 2, "/model.safetensors: the server ignores range requests"),
    ("endless", 2, "/model.safetensors: cannot be read (more bytes than asked for)"),
    ("other tag", 2, "the file changed since"), ("no tag", 2, "the file changed since"), ("redirect", 2, "/model.safetensors: the server redirects to another place"))


def store_faults():
    """Each failure of a store: its words and status, and no secret."""
    servers = [http.server.ThreadingHTTPServer((host, 0), Faulty) for host in ("127.0.0.1", "127.0.0.2")]
    for server, other in zip(servers, servers[::-1]):
        server.handle_error = lambda *words: None
        server.fault, server.other = "", other.server_port
        with open(os.path.join(TESTDATA, "safetensors", "all-dtypes", "model.safetensors"), "rb") as stream:
            server.body = stream.read()
        threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{servers[0].server_port}", "AWS_ACCESS_KEY_ID": SECRET, "AWS_REGION": "us-east-1",
                 "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SECRET, "FSDP_INSPECT_TIMEOUT": "2"}
    account = tempfile.NamedTemporaryFile("w", suffix=".json")
    json.dump({"gcs_base_url": variables["AWS_ENDPOINT_URL"], "disable_oauth": True, "client_email": "", "private_key": SECRET,
               "private_key_id": ""}, account)
    account.flush()
    variables.update(GOOGLE_SERVICE_ACCOUNT=account.name, AZURE_STORAGE_CONNECTION_STRING="AccountName=name;AccountKey="
                     f"{base64.b64encode(SECRET.encode()).decode()};BlobEndpoint={variables['AWS_ENDPOINT_URL']}/name")
    for scheme, forced, package in (("s3", "obstore", "obstore"), ("s3", "fsspec", "s3fs"), ("gs", "obstore", "obstore"),
                                    ("az", "obstore", "obstore"), ("gs", "fsspec", "gcsfs"), ("az", "fsspec", "adlfs")):
        emulator = {"STORAGE_EMULATOR_HOST": variables["AWS_ENDPOINT_URL"]} if scheme == "gs" else {}
        if not importlib.util.find_spec(package):
            check(f"faults of S3 # SKIP no {package}", None)
            continue
        wrong = {}
        Faulty.seen.clear()
        # The retries of s3fs take long, and it looks for the region of the bucket.
        slow = ("busy twice", "odd twice", "no word", "no login", "slow down", "cut", "hangs", "region", "broken", "bad key") if forced == "fsspec" else ("drips", "bad key") * (scheme != "s3")
        for fault, status, words in (row for row in STORE_FAULTS if row[0] not in slow):
            servers[0].fault = servers[1].fault = fault
            Faulty.tries = 0
            found = run(["info", scheme + "://bucket/run"], **{**variables, **emulator, "FSDP_INSPECT_REMOTE": forced,
                        "FSDP_INSPECT_TIMEOUT": "5" if forced == "fsspec" else "2"})
            # Redirects of Google by obstore and of Azure are followed: what comes from there has no ETag of the list.
            is_followed = fault == "redirect" and (scheme, package) not in (("s3", "obstore"), ("s3", "s3fs"), ("gs", "gcsfs"))
            words = "the file changed since" if is_followed else words.replace("s3:", scheme + ":")
            words = words.removesuffix(" (NoSuchBucket)") if package == "gcsfs" else words  # of a status alone
            if found[0] != status or words not in found[2] or SECRET in found[1] + found[2] or "(Word)" in found[2]:
                wrong[fault] = found
        check(f"the words and status of each failure of {scheme}, by {package}", wrong)
        strangers = [row for row in Faulty.seen if row[0] == servers[1].server_port and
                     (scheme == "s3" or "authorization" in row[1] or SECRET in row[2].partition("Signature=")[0])]
        check(f"where a redirect of {scheme} leads gets no secret, by {package}", strangers)
    if importlib.util.find_spec("obstore"):
        Faulty.seen.clear()
        servers[0].fault = "none"
        found = run(["info", "s3://bucket/run"], AWS_ENDPOINT_URL=variables["AWS_ENDPOINT_URL"], AWS_METADATA_ENDPOINT=variables["AWS_ENDPOINT_URL"],
                    AWS_REGION="us-east-1", HOME="/nowhere")
        check("without credentials instance metadata is not asked if it is disabled", (
            found[0] != 2 or "no credentials were found" not in found[2] or Faulty.seen) and (found, Faulty.seen))
    servers[0].fault = "hangs"
    process = subprocess.Popen([PROCESS, "info", "--json", "--provenance", f"http://127.0.0.1:{servers[0].server_port}/x.pt?token={SECRET}"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               env={**os.environ, **variables, "FSDP_INSPECT_PYTHON": sys.executable, "HF_TOKEN": SECRET,
                                    "ALL_PROXY": SECRET, "NO_PROXY": "127.0.0.1"})
    Faulty.seen.clear()
    while not Faulty.seen and process.poll() is None:
        time.sleep(0.05)
    children = open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii").read().split()
    lines = [open(f"/proc/{pid}/cmdline", "rb").read() for pid in (str(process.pid), *children)]
    check("no secret in the arguments of the two processes", (len(children) != 1 or any(SECRET.encode() in line for line in lines)) and lines)
    limits = [open(f"/proc/{pid}/limits", encoding="ascii").read() for pid in (str(process.pid), *children)]
    check("the two processes leave no core", not all(re.search(r"Max core file size +0 +0", text) for text in limits) and limits)
    check("the helper's memory is limited", "Max data size             4294967296" not in limits[-1] and limits[-1])
    with open(f"/proc/{process.pid}/environ", "rb") as stream:
        check("no secret in the environment of the process that parses", SECRET.encode() in stream.read())
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    found = process.communicate()[0]
    check("no secret in JSON", SECRET.encode() in found)
    check("an end of the helper is an error", (process.returncode != 2 or b"the helper ended (signal 9)" not in found) and (process.returncode, found))
    for server in servers:
        server.shutdown()


def s3():
    if not (importlib.util.find_spec("obstore") and importlib.util.find_spec("moto") and importlib.util.find_spec("boto3")):
        return check("S3 # SKIP no obstore, moto and boto3", None)
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
    keys = {"aws_access_key_id": SECRET, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=endpoint, **keys)
    client.create_bucket(Bucket="bucket")
    fixtures = FIXTURES[:1] + FIXTURES[3:6]
    for fixture in fixtures:
        top = os.path.join(TESTDATA, fixture)
        paths = [top] if os.path.isfile(top) else [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
        for path in paths:
            client.upload_file(path, "bucket", path[1:], ExtraArgs={"ACL": "public-read"})
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    compare("a bucket is answered for as local folders", "s3://bucket", fixtures, COMMANDS[:2] + COMMANDS[4:6], **variables)
    # A process that serves elements is asked for those of the first tensor.
    script = ("import sys, fsdp_inspect as fi\nhere, there = map(fi.open, sys.argv[1:])\nname = list(here)[0]\n"
              "assert list(here) == list(there) and here.format == there.format and here[name].shape == there[name].shape\n"
              "assert bytes(memoryview(here[name][0:1])) == bytes(memoryview(there[name][0:1]))\nprint('same')")
    wrong = {}
    for fixture in fixtures[:2]:
        done = subprocess.run([sys.executable, "-c", script, os.path.join(TESTDATA, fixture), f"s3://bucket{TESTDATA}/{fixture}"],
                              capture_output=True, text=True, env={**os.environ, **variables, "AWS_EC2_METADATA_DISABLED": "true",
                              "PATH": os.path.dirname(BINARY) + ":" + os.environ["PATH"],
                              "PYTHONPATH": os.path.dirname(os.path.dirname(PROGRAM))})
        if done.stdout != "same\n" or SECRET in done.stderr:
            wrong[fixture] = done.stdout, done.stderr
    check("fsdp_inspect.open reads the same of a bucket", wrong)
    for url, word in (("s3://nobucket/x", "no such bucket"), ("s3://bucket/none", "no such file or directory")):
        found = run(["info", url], **variables)
        check(f"S3: {word}", (found[0] != 2 or word not in found[2] or SECRET in found[1] + found[2]) and found)
    found = run(["info", "s3://bucket/x"], **{**variables, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    check("S3: a server that is not there", (found[0] != 2 or "cannot reach the server (connection_refused)" not in found[2]) and found)
    found = run(["info", f"s3://bucket{TESTDATA}/demo/step-1233"], **variables)
    check("a name beside it", (found[0] != 2 or "similar names: step-1234" not in found[2]) and found)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as account:
        json.dump({"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}, account)
        account.flush()
        compare("the XML interface of Google Cloud Storage, which moto has for S3", "gs://bucket", fixtures, COMMANDS[:2],
                GOOGLE_SERVICE_ACCOUNT=account.name, STORAGE_EMULATOR_HOST=endpoint)
    server.stop()


fake()
usage()
with tempfile.TemporaryDirectory() as repository:
    servers = serve(repository)
    web(servers)
    hub(servers)
    proxy(servers)
    certificates(repository)
    locked(servers)
    hostile(servers)
redirects()
profiles()
greedy()
store_faults()
s3()
print(f"1..{count}")
sys.exit(failed != 0)
