# SPDX-License-Identifier: Apache-2.0
"""Reads URLs for fsdp-inspect, which has no network: speaks the protocol of fsdp-inspect-remote(7).

Built into the program, which runs it with `python3 -I -c`. Reads lists and ranges below the URLs that the user named
and nothing else, and never parses them. Errors are sent as numbers: their texts may contain secrets.
"""

import base64
import concurrent.futures
import contextlib
import datetime
import difflib
import functools
import http.client
import ipaddress
import json
import os
import random
import re
import site
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request  # for the settings of proxies alone: its openers pass credentials on

HELLO, ROOT, SEAL, LIST, READ, STATS = 1, 2, 3, 4, 6, 8
OK, ROOT_IS, ENTRIES, DATA, END, FAIL, COUNTS = range(128, 135)
NO_BUCKET, NOTHING, NO_CREDENTIALS, DENIED, EXPIRED, SLOW, CHANGED = range(1, 8)
UNREACHABLE, NO_RANGES, NO_PACKAGE, REDIRECT, OTHER = range(8, 13)
FRAME_MOST, SMALL, DATA_MOST, PART_MOST, READ_MOST = (1 << 20) + 64, 256 << 10, 1 << 20, 4 << 20, 64 << 20
TRIES, HOPS_MOST, SECONDS, REDIRECT_SECONDS, TIMEOUT = 6, 6, 120, 600, float(os.environ.get("FSDP_INSPECT_TIMEOUT", 30))
AGAIN, MOVED = {408, 429, 500, 502, 503, 504}, {301, 302, 303, 307, 308}
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".metadata", ".json", ".tar")
METADATA = {"fd00:ec2::254", "168.63.129.16", "100.100.100.200"}  # of instances; others are link-local
# Where obstore goes for S3 and for roles; all else is behind a proxy that is none.
AWS, NOWHERE = ".amazonaws.com,.amazonaws.com.cn,169.254.169.254,169.254.170.2,169.254.170.23", "127.0.0.2:1"
SAFE = re.compile(r"(?!\.\.?\Z)[^\0/]{1,1024}")
counts = dict.fromkeys(("lists", "gets", "heads", "retries", "bytes"), 0)
idle = threading.local()  # open connections of each thread
WORD = r"<Code>(\w{1,64})</Code>|\(([A-Z][A-Za-z0-9]{2,63}|[345]\d\d)\)|ErrorCode:(\w{1,64})"  # of a store
# Of an exception: its code; what is sent, None: the word of the store; what that word, the class or the text has.
FAILURES = (
    (NO_BUCKET, None, r"^(NoSuchBucket|ContainerNotFound|RepoNotFound)$|bucket does not exist|\bb/[^/]+/o$"),
    (REDIRECT, "", rf"^(30\d|TemporaryRedirect)$|{NOWHERE},"),
    (UNREACHABLE, "certificate_not_trusted", "[Cc]ertificate|CaUsedAsEndEntity|UnknownIssuer"),
    (EXPIRED, None, "^(RequestExpired|TokenRefresh.*|.*SSOToken.*)$|[Ee]xpired"),
    (CHANGED, None, "^(Precondition.*|NotModifiedError|ConditionNotMet|FileExistsError|41[26])$|MissingEtag"),
    (NOTHING, "", "^((FileNotFound|NotFound)Error|NoSuchKey|(Blob|Resource)?NotFound|404|410)$"),
    (OTHER, "set AZURE_STORAGE_ACCOUNT_NAME", "Account must be specified|Must provide either"),
    (NO_CREDENTIALS, None, r"^((No|Partial|Default)CredentialsError|ProfileNotFound)$|169\.254\.|metadata\.google"
     r"|[Mm]issing .*[Cc]redential|[Cc]redentials? (was |were )?not|Credential\w*:|CredentialProvider"),
    (DENIED, "gated or private", "^(GatedRepo|401)$"),
    (DENIED, None, "^((Permission.*|Unauthenticated)Error|AccessDenied|InvalidAcc.*|Signature.*|Auth.*Fail.*|403)$"
     "|^Forbidden:|, 401$"),
    (NO_RANGES, "", "Received non-partial"),
    (SLOW, None, r"^(SlowDown|ServerBusy|TooManyRequests)$|\b(503|429)\b"),
    (REDIRECT, "AWS_REGION is not that of the bucket",
     "^(PermanentRedirect|AuthorizationHeaderMalformed)$|configured region"),
    (OTHER, None, "^ClientError$"),  # of botocore, with a word that is not above
    (UNREACHABLE, "name_not_found", "^gaierror$|dns error|failed to lookup|[Nn]ame or service"),
    (UNREACHABLE, "connection_refused", "[Cc]onnection ?[Rr]efused|Connect call failed"),
    (UNREACHABLE, "timed_out", "^(timeout|.*TimeoutError)$|[Tt]imed ?[Oo]ut|kind: Timeout"),
    (UNREACHABLE, "connection_lost",
     "^(OS|Connection|Client|Server|BrokenPipe|SSL|Remote|Incomplete|BadStatus|Service).*$|sending|[Cc]onnect"),
)


class Fail(Exception):
    def __init__(self, code, detail=""):
        self.code, self.detail = code, detail


def fail_of(error, host=""):
    """What is sent of an exception. Its text and those of its causes are only searched."""
    if isinstance(error, Fail):
        return error
    text = ""
    while error is not None and text.count("\n") < 999:
        text = f"\n{type(error).__name__}\n{error}{text}"
        error = error.__cause__ or error.__context__
    word = re.search(WORD, text, re.ASCII)
    word = word[word.lastindex] if word else ""
    for code, sent, pattern in FAILURES:
        if re.search(pattern, word + text, re.MULTILINE):
            return Fail(code, "HTTP " * word.isdecimal() + word if sent is None else host + sent)
    return Fail(OTHER, "HTTP " * word.isdecimal() + word)


class File:  # one object in one version
    def __init__(self, key, size, tag=None, moment=None, sha256=None):
        self.key, self.size, self.tag, self.sha256 = key, size, tag, sha256
        self.mtime = int(moment.timestamp() * 1e9) if moment else 0
        self.url, self.until, self.lock = None, 0.0, threading.Lock()


def host_of(url):
    host = urllib.parse.urlsplit(url).hostname or ""
    return re.sub(r"[^\w.:\[\]-]", "", host, flags=re.ASCII)[:120]


@functools.lru_cache(None)
def tls():
    context = ssl.create_default_context()
    for path in filter(None, map(os.environ.get, ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"))):
        context.load_verify_locations(path)
    return context


def connect(parts, named):
    """By a proxy; else at an address that is public, or of a host that the user named."""
    is_tls, host, proxies = parts.scheme == "https", parts.hostname, urllib.request.getproxies()
    port, proxy = parts.port or (443 if is_tls else 80), proxies.get(parts.scheme)
    proxy = proxy if proxy and not urllib.request.proxy_bypass(host) else ""
    where = urllib.parse.urlsplit(proxy if "//" in proxy else "//" + proxy)
    place = (where.hostname, where.port or 80) if proxy else (host, port)
    connection = http.client.HTTPConnection(*place, timeout=TIMEOUT)
    if proxy:
        pair = urllib.parse.unquote(where.netloc.rpartition("@")[0]).encode()
        mark = {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode()} if pair else {}
        connection.set_tunnel(host, port, mark)
    connection.connect()
    connection.auto_open = False  # it would ask another address, without TLS
    if not proxy:
        address = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_link_local or str(address) in METADATA or not (named or address.is_global):
            connection.close()
            what = host_of(parts.geturl()) + " is a link-local or metadata address" * named
            raise Fail(OTHER if named else REDIRECT, what)
    if is_tls:
        connection.sock = tls().wrap_socket(connection.sock, server_hostname=host)
    return connection


def request(parts, headers, most, named):
    """One request: status, headers and body. *named: the user named the host."""
    key = parts.scheme, parts.netloc, named
    path = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
    connection = idle.__dict__.pop(key, None) or connect(parts, named)
    with contextlib.ExitStack() as failing:
        failing.callback(connection.close)
        connection.request("GET", urllib.parse.quote(path, safe="!#$%&'()*+,/:;=?@[]~"), headers={
            "Accept-Encoding": "identity", "User-Agent": "fsdp-inspect", **headers})
        answer = connection.getresponse()
        # Of a server that sends everything no more is read than was asked for.
        is_long = answer.status in (200, 206) and (answer.length or 0) > most
        body = b"" if is_long else answer.read(most + 1)
        if answer.isclosed() and connection.sock is not None:
            idle.__dict__[key] = connection
            failing.pop_all()
    return answer.status, answer.headers, body


class Http:  # one file of a server; secret headers go to the host that the user named only
    def __init__(self, url):
        self.url, self.first = url.partition("#")[0], urllib.parse.urlsplit(url)
        with open(os.environ.get("FSDP_INSPECT_HTTP_HEADER_FILE") or os.devnull, encoding="latin-1") as lines:
            self.secrets = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)

    def fetch(self, url, most, count="gets", **headers):
        """Status, headers, at most so many bytes, and where they came from. Tries again where that may help; follows
        redirects to https, or on the host of the URL."""
        begun, tries, hops = time.monotonic(), 0, 0
        while True:
            parts = urllib.parse.urlsplit(url)
            named = parts.hostname == self.first.hostname
            is_same = named and parts.scheme == self.first.scheme
            if hops == HOPS_MOST or "@" in parts.netloc or parts.scheme != "https" and not is_same:
                raise Fail(REDIRECT, host_of(url))
            counts[count] += 1
            secrets = self.secrets if parts[:2] == self.first[:2] else {}
            wait, tries = 0.1 * 2 ** tries * random.uniform(0.5, 1.5), tries + 1
            try:
                status, found, body = request(parts, {**headers, **secrets}, most, named)
                if status in MOVED and "Location" in found:
                    url, hops = urllib.parse.urljoin(url, found["Location"]), hops + 1
                    continue
                if status not in AGAIN:
                    return status, found, body, url
                code, after = SLOW if status in (429, 503) else OTHER, found.get("Retry-After", "")
                failure = Fail(code, f"HTTP {status}, {tries} tries")
                wait = max(wait, min(float(after), 30)) if after.isdecimal() else wait
            except (OSError, http.client.HTTPException) as error:
                failure = fail_of(error, host_of(url) + ": ")
            is_last = tries == TRIES or time.monotonic() - begun + wait > SECONDS
            if is_last or failure.detail.endswith(("trusted", "not_found")):
                raise failure
            counts["retries"] += 1
            time.sleep(wait)

    def get(self, file, begin, end):
        """The bytes of the version that was listed. Where a redirect led is asked until that is old or refused."""
        size, asked, found = end - begin, {"Range": f"bytes={begin}-{end - 1}"}, None
        if file.tag and file.tag[0] == '"':
            asked["If-Match"] = file.tag
        with file.lock:
            if time.monotonic() > file.until:
                found = self.fetch(file.key, size, **asked)
                file.url, file.until = found[3], time.monotonic() + REDIRECT_SECONDS
        found = found or self.fetch(file.url, size, **asked)
        if found[0] == 403 and file.url != file.key:
            found = self.fetch(file.key, size, **asked)
        status, headers, body, url = found
        span, total, tag = facts_of(status, headers)
        if file.tag and tag != file.tag or total not in (None, file.size):
            raise Fail(CHANGED)
        if status == 200 and not size == file.size <= DATA_MOST:
            raise Fail(NO_RANGES, host_of(url))
        if status == 206 and span != f"bytes {begin}-{end - 1}":
            raise Fail(OTHER, "wrong Content_Range")
        if len(body) != size:
            raise Fail(CHANGED) if status == 200 else Fail(UNREACHABLE, "connection_lost")
        return body

    def root(self):
        status, headers, _, url = self.fetch(self.url, DATA_MOST, Range="bytes=0-0")
        size, tag = facts_of(status, headers)[1:]
        if status == 200 and (size is None or size > DATA_MOST):
            raise Fail(NO_RANGES, host_of(url))
        return File(self.url, size, tag)


def facts_of(status, headers):
    """The range, the size of the whole, and what stands for the version."""
    span, _, total = headers.get("Content-Range", "").partition("/")
    total = headers.get("Content-Length", "") if status == 200 else total
    if status not in (200, 206) and not (status == 416 and total == "0"):
        raise fail_of(Exception(f"({headers.get('X-Error-Code') or status})"))
    return span, int(total) if total.isdecimal() else None, headers.get("ETag") or headers.get("Last-Modified")


class Hub(Http):  # a repository of models of the Hugging Face Hub, at one commit
    def __init__(self, url):
        env, self.files = os.environ, {}
        token, home = env.get("HF_TOKEN", ""), env.get("HF_HOME", "~/.cache/huggingface")
        with contextlib.suppress(OSError, ValueError):
            path = os.path.expanduser(env.get("HF_TOKEN_PATH") or home + "/token")
            with open(path, encoding="ascii") as stream:
                token = token or stream.read().strip()
        self.secrets = {"Authorization": "Bearer " + token} if token else {}
        self.endpoint = env.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        self.first = urllib.parse.urlsplit(self.endpoint)
        url = re.sub(r"^https://huggingface\.co/([^/]+/[^/]+)(?:/(?:tree|blob|resolve)/([^/]+))?",
                     lambda found: f"hf://{found[1]}@{found[2] or 'main'}", url)
        found = re.fullmatch(r"hf://(?:models/)?([^/@]+/[^/@]+)(?:@(refs/pr/\d+|[^/]+))?(/.*)?", url)
        if found is None:
            raise Fail(NO_BUCKET)
        self.repository, self.revision = found[1], urllib.parse.unquote(found[2] or "main")
        self.path = (found[3] or "").strip("/")

    def ask(self, url):
        status, headers, body, _ = self.fetch(url, READ_MOST, "lists")
        facts_of(status, headers)
        return json.loads(body), headers

    def root(self):
        api = f"{self.endpoint}/api/models/{urllib.parse.quote(self.repository)}"
        found, _ = self.ask(f"{api}/revision/{urllib.parse.quote(self.revision, safe='')}")
        commit = re.fullmatch("[0-9a-f]{40}", str(found.get("sha")))
        if commit is None:
            raise Fail(OTHER, "no commit")
        url = f"{api}/tree/{commit[0]}?recursive=true"
        begin = f"{self.endpoint}/{self.repository}/resolve/{commit[0]}/"
        while url:
            rows, headers = self.ask(url)
            for row in (row for row in rows if row["type"] == "file"):
                lfs = row.get("lfs") or {}
                oid = re.fullmatch(r"[0-9a-f]{64}", str(lfs.get("oid")))
                size, digest = int(lfs.get("size", row["size"])), oid and bytes.fromhex(oid[0])
                key = begin + urllib.parse.quote(row["path"])
                self.files[row["path"]] = File(key, size, sha256=digest)
            more = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link", ""))
            url = more and urllib.parse.urljoin(url, more[1])
            if url and urllib.parse.urlsplit(url)[:2] != self.first[:2]:
                raise Fail(REDIRECT, host_of(url))
        if self.path not in self.files and not self.list(""):
            raise Fail(NOTHING)
        return self.files.get(self.path)

    def list(self, folder):
        begin, found = "".join(part + "/" for part in (self.path, folder) if part), {}
        for path, file in self.files.items():
            if path.startswith(begin):
                name, slash, _ = path[len(begin):].partition("/")
                found[name] = None if slash else file
        return list(found.items())


class Bucket:  # a bucket or container; subclasses are packages
    def __init__(self, url):
        self.scheme, place, self.path = re.fullmatch("(.*?)://([^/]*)/?(.*?)/*", url).groups()
        self.bucket, _, host = place.partition("@")
        self.account, self.first = host.partition(".")[0] or None, []
        self.call(self.open, os.environ)

    def call(self, function, *words):
        """Credentials that expired are asked for once more."""
        for is_last in (function == self.open, True):
            try:
                return function(*words)
            except ImportError:
                raise
            except Exception as error:
                failure = fail_of(error)
            if is_last or failure.code != EXPIRED:
                raise failure
            self.call(self.open, os.environ)

    def list(self, folder):
        """The list that told what the root is is not asked for again."""
        if self.first and not folder:
            return self.first
        counts["lists"] += 1
        prefix = "".join(part + "/" for part in (self.path, folder) if part)
        return [(key[len(prefix):].strip("/"), file) for key, file in self.call(self.rows, prefix) if key != prefix]

    def root(self):
        missing = Fail(NOTHING)
        for is_file in sorted({bool(self.path), False}, reverse=self.path.endswith(SUFFIXES)):
            try:
                if is_file:
                    counts["heads"] += 1
                    return self.call(self.head)
                self.first = self.list("")
                if self.first:
                    return None
            except Fail as failure:
                if failure.code not in (NOTHING, NO_BUCKET):
                    raise
                missing = missing if is_file else failure
        raise missing

    def get(self, file, begin, end):
        counts["gets"] += 1
        where, tag, more = self.call(self.read, file, begin, end)
        if where is None:
            raise Fail(NO_RANGES)
        body = self.call(more) if tag and (where, tag) == (f"bytes {begin}-{end - 1}/{file.size}", file.tag) else b""
        if len(body) != end - begin:
            raise Fail(CHANGED)
        return body


class Obstore(Bucket):
    def open(self, env):
        import obstore.store
        self.name = "obstore " + str(getattr(obstore, "__version__", 0))
        if [int(word) for word in re.findall(r"\d+", self.name)[:2]] < [0, 4]:
            raise ImportError(self.name + " is older than 0.4")
        kind = {"s3": "S3Store", "gs": "GCSStore"}.get(self.scheme, "AzureStore")
        options = {"S3Store": self.s3, "AzureStore": self.azure}.get(kind, lambda env: {})(env)
        options = {name: value for name, value in options.items() if value}
        place = options.get("endpoint") or env.get("STORAGE_EMULATOR_HOST", "")
        client = {"timeout": f"{int(TIMEOUT) or 1}s", "connect_timeout": "10s", "allow_http": place.startswith("http:")}
        if self.scheme == "s3" and not urllib.request.getproxies().keys() & {"http", "https", "all"}:
            # It follows redirects, and passes the session token on.
            hosts = [place, env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", ""), env.get("AWS_ENDPOINT_URL_STS", "")]
            client.update(proxy_url="http://" + NOWHERE, proxy_excludes=",".join([AWS, *map(host_of, hosts)]))
        retry = {"max_retries": TRIES - 1, "retry_timeout": datetime.timedelta(seconds=SECONDS)}
        kind, self.package = getattr(obstore.store, kind), obstore
        self.client = kind(self.bucket, client_options=client, retry_config=retry, **options)

    def azure(self, env):
        parts = env.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";")
        pairs = dict(part.partition("=")[::2] for part in parts)
        return {"account_name": self.account or pairs.get("AccountName"), "account_key": pairs.get("AccountKey"),
                "endpoint": pairs.get("BlobEndpoint") or env.get("AZURE_STORAGE_ENDPOINT")}

    def s3(self, env):
        """Profiles, SSO and roles are resolved by boto3 or the AWS CLI, if one of them is there; else by obstore."""
        options = {"endpoint": env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
                   "skip_signature": env.get("AWS_SKIP_SIGNATURE", "").lower() == "true",
                   "request_payer": env.get("AWS_REQUEST_PAYER") == "requester"}
        has_keys = env.get("AWS_ACCESS_KEY_ID") and not env.get("AWS_CREDENTIAL_EXPIRATION")  # not of the AWS CLI
        has_tools = env.get("AWS_PROFILE") or os.path.exists(os.path.expanduser("~/.aws"))
        if options["skip_signature"] or has_keys or not has_tools:
            return options
        try:
            import boto3
            from obstore.auth.boto3 import Boto3CredentialProvider
            session = boto3.Session()
            if session.get_credentials() is not None:
                options.update(credential_provider=Boto3CredentialProvider(session), region=session.region_name)
        except ImportError:
            words = ["aws", "configure", "export-credentials", "--format", "env-no-export"]
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                found = subprocess.check_output(words, timeout=30, stderr=subprocess.DEVNULL, text=True)
                env.update(line.split("=", 1) for line in found.split() if line.startswith("AWS_"))
        return options

    def file(self, meta):
        """If-Match takes tags in quotes, and the lists of Azure have none."""
        tag = (meta.get("e_tag") or "").strip('"')
        return File(meta["path"], meta["size"], tag and f'"{tag}"', meta.get("last_modified"))

    def rows(self, prefix):
        found = self.package.list_with_delimiter(self.client, prefix or None)
        return ([(path, None) for path in found["common_prefixes"]] +
                [(meta["path"], self.file(meta)) for meta in found["objects"]])

    def head(self):
        return self.file(self.package.head(self.client, self.path))

    def read(self, file, begin, end):
        found = self.package.get(self.client, file.key, options={"range": (begin, end), "if_match": file.tag})
        where = f"bytes {found.range[0]}-{found.range[1] - 1}/{found.meta['size']}"
        return where, self.file(found.meta).tag, found.bytes


class Fsspec(Bucket):
    def open(self, env):
        env["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # which asks for the kind of a bucket, and waits
        name = {"s3": "s3fs", "gs": "gcsfs"}.get(self.scheme, "adlfs")
        package, options = __import__(name), {"account_name": self.account} if self.account else {}
        import aiohttp
        import fsspec.asyn
        session, self.name = aiohttp.ClientSession, f"{name} {package.__version__}"
        session._request = functools.partialmethod(session._request, allow_redirects=False)
        if self.scheme == "s3":
            retries = {"mode": "standard", "total_max_attempts": TRIES}
            options = {"anon": env.get("AWS_SKIP_SIGNATURE", "").lower() == "true",
                       "requester_pays": env.get("AWS_REQUEST_PAYER") == "requester",
                       "config_kwargs": {"read_timeout": TIMEOUT, "max_pool_connections": 256, "retries": retries}}
        self.client = fsspec.filesystem(self.scheme, use_listings_cache=False, skip_instance_cache=True, **options)
        self.client.retries, self.wait = 1, functools.partial(fsspec.asyn.sync, self.client.loop)

    def file(self, found):
        tag = found.get("ETag") or found.get("generation") or found.get("etag")
        return File(found["name"].partition("/")[2], found["size"], tag, found.get("LastModified"))

    def rows(self, prefix):
        return [(row["name"].partition("/")[2], self.file(row) if row["type"] == "file" else None)
                for row in self.client.ls(f"{self.bucket}/{prefix}", detail=True)]

    def head(self):
        return self.file(self.client.info(f"{self.bucket}/{self.path}"))

    def read(self, file, begin, end):
        client, asked = self.client, {"Range": f"bytes={begin}-{end - 1}", "IfMatch": file.tag}
        if self.scheme == "gs":
            url = client.url(f"{self.bucket}/{file.key}")
            found, body = client.call("GET", url, headers=asked, ifGenerationMatch=file.tag)
            return found.get("Content-Range"), found.get("x-goog-generation"), lambda: body
        if self.scheme == "s3":
            found = client.call_s3("get_object", Bucket=self.bucket, Key=file.key, **asked)
            return found.get("ContentRange"), found.get("ETag"), lambda: self.wait(found["Body"].read)
        blob = client.service_client.get_blob_client(self.bucket, file.key)
        found = self.wait(blob.download_blob, begin, end - begin, headers={"If-Match": file.tag})
        return found.properties.content_range, found.properties.etag, lambda: self.wait(found.readall)


def backend_of(url):
    if url.startswith(("hf:", "http")):
        return (Hub if url.startswith(("hf:", "https://huggingface.co/")) else Http)(url)
    problem, forced = None, os.environ.get("FSDP_INSPECT_REMOTE", "").lower()
    for kind in (Obstore, Fsspec):
        try:
            if forced in ("", kind.__name__.lower()):
                return kind(url)
        except ImportError as error:
            problem = problem or (f"{error.name} is not installed" if error.name else str(error))
    raise Fail(NO_PACKAGE, f"{problem}, Python is {sys.executable[:120]}")


def text(word):
    raw = word.encode("utf-8", "surrogateescape")
    return struct.pack("<H", len(raw)) + raw


class Helper:
    def __init__(self, connection):
        self.connection, self.lock = connection, threading.RLock()
        self.roots, self.files, self.sealed, self.name = [], [], False, ""
        self.large = threading.Semaphore(READ_MOST // PART_MOST)
        count = os.environ.get("FSDP_INSPECT_CONNECTIONS", "")
        count = min(max(int(count), 1), 256) if count.isdecimal() else 32
        self.pool, self.ends = (concurrent.futures.ThreadPoolExecutor(count) for _ in range(2))

    def send(self, number, kind, *parts):
        size = 5 + sum(map(len, parts))
        with self.lock:
            self.connection.sendall(struct.pack("<IIB", size, number, kind) + b"".join(parts[:-1]))
            self.connection.sendall(parts[-1] if parts else b"")

    def entry(self, backend, name, file):
        """A file has the next number, in the order in which frames are sent."""
        if file is None:
            return struct.pack("<BIQq", 1, 0, 0, 0) + text(name) + b"\0"
        self.files.append((backend, file))
        digest = b"\1" + file.sha256 if file.sha256 else b"\0"
        return struct.pack("<BIQq", 0, len(self.files) - 1, file.size, file.mtime) + text(name) + digest

    def root(self, number, payload):
        if self.sealed:
            raise Fail(OTHER)
        self.roots.append(None)
        url = payload[2:].decode("utf-8", "surrogateescape")
        backend = backend_of(url)
        try:
            found = backend.root()
        except Fail as failure:
            above, _, name = getattr(backend, "path", "").rpartition("/")
            if failure.code == NOTHING and name:
                backend.path = above
                with contextlib.suppress(Fail):
                    failure.detail = ", ".join(difflib.get_close_matches(name, dict(backend.list(""))))
            raise
        self.name = self.name or getattr(backend, "name", url.partition(":")[0])
        self.roots[-1] = backend if found is None else None
        with self.lock:
            entry = b"\2" if found is None else b"\1" + self.entry(backend, "file", found)
            self.send(number, ROOT_IS, entry, text(""))

    def list(self, number, payload):
        root, size = struct.unpack_from("<IH", payload)
        folder = payload[6:].decode("utf-8", "surrogateescape")
        backend = self.roots[root] if root < len(self.roots) else None
        is_below = not folder or all(map(SAFE.fullmatch, folder.split("/")))
        if size != len(payload) - 6 or backend is None or not is_below:
            raise Fail(OTHER)
        found = [pair for pair in backend.list(folder) if SAFE.fullmatch(pair[0])]
        with self.lock:
            for at in range(0, len(found), 200):  # a frame has room for so many of the longest names
                self.send(number, ENTRIES, b"".join(self.entry(backend, *pair) for pair in found[at:at + 200]))
            self.send(number, END)

    def read(self, number, payload):
        ranges = list(struct.iter_unpack("<IQI", payload))
        if not 0 < len(ranges) <= 4096 or any(
                file >= len(self.files) or not 0 < size <= READ_MOST or offset + size > self.files[file][1].size
                for file, offset, size in ranges):
            raise Fail(OTHER)
        parts = [self.pool.submit(self.part, number, file, at, min(at + PART_MOST, offset + size))
                 for file, offset, size in ranges for at in range(offset, offset + size, PART_MOST)]
        self.ends.submit(self.answer, number, END, parts)

    def part(self, number, index, begin, end):
        backend, file = self.files[index]
        with self.large if end - begin > SMALL else contextlib.nullcontext():
            body = memoryview(backend.get(file, begin, end))
            for at in range(0, len(body), DATA_MOST):
                self.send(number, DATA, struct.pack("<IQ", index, begin + at), body[at:at + DATA_MOST])
            counts["bytes"] += len(body)

    def answer(self, number, kind, payload):
        try:
            if kind == HELLO and payload == b"\1\0" or kind == SEAL:
                self.sealed |= kind == SEAL
                self.send(number, OK, text("fsdp-inspect"))
            elif kind == STATS:
                self.send(number, COUNTS, struct.pack("<5Q", *counts.values()), text(self.name[:60]))
            elif kind == END:
                concurrent.futures.wait(payload)
                [part.result() for part in payload]
                self.send(number, END)
            else:
                {ROOT: self.root, LIST: self.list, READ: self.read}[kind](number, payload)
        except Exception as error:
            failure = error if isinstance(error, Fail) else Fail(OTHER)
            detail = re.sub(r"[^ -~]", "", failure.detail)[:200]
            self.send(number, FAIL, struct.pack("<BI", failure.code, 0xFFFFFFFF), text(detail))

    def run(self):
        stream = self.connection.makefile("rb")
        while True:
            size, number, kind = struct.unpack("<IIB", stream.read(9))
            if not 5 <= size <= FRAME_MOST or kind >= OK:
                return
            asked = number, kind, stream.read(size - 5)
            if kind == LIST:
                self.pool.submit(self.answer, *asked)
            else:
                self.answer(*asked)


if __name__ == "__main__":
    if os.path.isdir(site.getusersitepackages()):
        site.addsitedir(site.getusersitepackages())
    with contextlib.suppress(struct.error, OSError, KeyboardInterrupt):
        Helper(socket.socket(fileno=3)).run()
    os._exit(0)  # without a wait for what is on its way
