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

HELLO, ROOT, SEAL, LIST, READ, CANCEL, STATS = 1, 2, 3, 4, 6, 7, 8
OK, ROOT_IS, ENTRIES, DATA, END, FAIL, COUNTS = range(128, 135)
NO_BUCKET, NOTHING, NO_CREDENTIALS, DENIED, EXPIRED, SLOW, CHANGED = range(1, 8)
UNREACHABLE, NO_RANGES, NO_PACKAGE, REDIRECT, OTHER = range(8, 13)
FRAME_MOST, SMALL, DATA_MOST, PART_MOST, READ_MOST = (1 << 20) + 64, 256 << 10, 1 << 20, 4 << 20, 64 << 20
TRIES, HOPS_MOST, SECONDS, REDIRECT_SECONDS, TIMEOUT = 6, 6, 120, 600, float(os.environ.get("FSDP_INSPECT_TIMEOUT", 30))
AGAIN, MOVED, NEVER = {408, 429, 500, 502, 503, 504}, {301, 302, 303, 307, 308}, "(?!)"
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".metadata", ".json", ".tar")
METADATA = {"fd00:ec2::254", "168.63.129.16", "100.100.100.200"}  # of instances; others are link-local
idle = threading.local()  # open connections of each thread
counts = dict.fromkeys(("lists", "gets", "heads", "retries", "bytes"), 0)
# Of an exception: a code and the word that is sent, None: the store's; its class or the code word of a store; its text.
FAILURES = (
    (NO_BUCKET, None, "NoSuchBucket|ContainerNotFound", "bucket does not exist"),
    (UNREACHABLE, "certificate_not_trusted", "SSLCertVerificationError", "[Cc]ertificate|CaUsedAsEndEntity|UnknownIssuer"),
    (EXPIRED, None, "ExpiredToken(Exception)?|RequestExpired|TokenRefreshRequired|.*SSOToken.*", "expired"),
    (CHANGED, None, "PreconditionError|NotModifiedError|PreconditionFailed|412", NEVER),
    (NOTHING, "", "(FileNotFound|NotFound)Error|NoSuchKey|(Blob)?NotFound|404", NEVER),
    (OTHER, "set AZURE_STORAGE_ACCOUNT_NAME", NEVER, "Account must be specified"),
    (NO_CREDENTIALS, None, "(No|Partial)CredentialsError|ProfileNotFound",
     r"169\.254\.|metadata\.google|credentials? (was|were)? ?not|[Mm]issing .*[Cc]redential|CredentialProvider"),
    (DENIED, None, "(Permission.*|Unauthenticated)Error|AccessDenied|InvalidAcc.*|Signature.*|Auth.*Fail.*|403", NEVER),
    (NO_RANGES, "", NEVER, "Received non-partial"),
    (SLOW, None, "SlowDown|ServerBusy|TooManyRequests", r"\b(503|429)\b"),
    (REDIRECT, "AWS_REGION is not that of the bucket", "PermanentRedirect|AuthorizationHeaderMalformed", "configured region"),
    (UNREACHABLE, "name_not_found", "gaierror", "dns error|failed to lookup"),
    (UNREACHABLE, "connection_refused", "ConnectionRefusedError", "[Rr]efused"),
    (UNREACHABLE, "timed_out", "timeout|TimeoutError", "[Tt]imed ?[Oo]ut|kind: Timeout"),
    (UNREACHABLE, "connection_lost", "(OS|Connection|BrokenPipe|SSL|Remote|Incomplete|BadStatus).*", "sending|[Cc]onnect"),
)


class Fail(Exception):
    def __init__(self, code, detail=""):
        self.code, self.detail = code, detail


def fail_of(error, host=""):
    """What is sent of an exception. Its text is only searched."""
    found, kind = str(error), type(error).__name__
    word = re.search(r"<Code>([A-Za-z0-9_]{1,64})</Code>", found) or re.search(r"\(([A-Z][A-Za-z0-9]{2,63})\)", found)
    word = word[1] if word else ""
    for code, sent, words, pattern in FAILURES:
        if re.fullmatch(words, word or kind) or re.fullmatch(words, kind) or re.search(pattern, found):
            return Fail(code, word if sent is None else host + sent)
    return Fail(OTHER, word)


class File:  # one object in one version
    def __init__(self, key, size, tag=None, mtime=0, sha256=None):
        self.key, self.size, self.tag, self.mtime, self.sha256 = key, size, tag, mtime, sha256
        self.url, self.until, self.lock = None, 0.0, threading.Lock()


def host_of(url):
    return re.sub(r"[^\w.:\[\]-]", "", urllib.parse.urlsplit(url).hostname or "", flags=re.ASCII)[:120]


def is_safe(name):
    return re.fullmatch(rb"(?!\.\.?\Z)[^\0/]{1,4096}", name.encode("utf-8", "surrogateescape"))


@functools.lru_cache(None)
def tls():
    context = ssl.create_default_context()
    for path in filter(None, map(os.environ.get, ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"))):
        context.load_verify_locations(path)
    return context


def connect(parts, named):
    """By a proxy; else at an address that is public, or of a host that the user named."""
    proxies, is_tls = urllib.request.getproxies_environment(), parts.scheme == "https"
    kind, more = (http.client.HTTPSConnection, {"context": tls()}) if is_tls else (http.client.HTTPConnection, {})
    proxy, place = proxies.get(parts.scheme), (parts.hostname, parts.port or (443 if is_tls else 80))
    if proxy and not urllib.request.proxy_bypass_environment(parts.hostname, proxies):
        where = urllib.parse.urlsplit(proxy if "//" in proxy else "//" + proxy)
        pair = base64.b64encode(urllib.parse.unquote(where.netloc.rpartition("@")[0]).encode()).decode()
        connection = kind(where.hostname, where.port or 80, timeout=TIMEOUT, **more)
        connection.set_tunnel(*place, {"Proxy-Authorization": "Basic " + pair} if pair else {})
        return connection
    connection = kind(*place, timeout=TIMEOUT, **more)
    connection.sock = socket.create_connection(place, TIMEOUT)
    address = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_link_local or str(address) in METADATA or not (named or address.is_global):
        connection.close()
        raise Fail(OTHER if named else REDIRECT, host_of(parts.geturl()) + " is a link-local or metadata address" * named)
    if is_tls:
        connection.sock = tls().wrap_socket(connection.sock, server_hostname=parts.hostname)
    return connection


def request(url, headers, most, named=True):
    """Status, headers and at most so many bytes, tried again where that may help. *named: the user named this host."""
    begun, parts = time.monotonic(), urllib.parse.urlsplit(url)
    key = parts.scheme, parts.netloc, named
    path = urllib.parse.quote((parts.path or "/") + ("?" + parts.query if parts.query else ""), safe="!#$%&'()*+,/:;=?@[]~")
    for attempt in range(TRIES):
        wait = 0.1 * 2 ** attempt * random.uniform(0.5, 1.5)
        old = connection = idle.__dict__.pop(key, None)
        try:
            connection = old or connect(parts, named)
            connection.request("GET", path, headers={"Accept-Encoding": "identity", "User-Agent": "fsdp-inspect", **headers})
            answer = connection.getresponse()
            # Of a server that sends everything no more is read than was asked for.
            is_long = answer.status in (200, 206) and (answer.length or 0) > most
            body = b"" if is_long else answer.read(most + 1)
            if is_long or not answer.isclosed():
                connection.close()
            else:
                idle.__dict__[key] = connection
            if answer.status not in AGAIN:
                return answer.status, answer.headers, body
            failure = Fail(SLOW if answer.status in (429, 503) else OTHER, f"HTTP {answer.status}, {attempt + 1} tries")
            after = answer.headers.get("Retry-After", "")
            wait = max(wait, min(float(after), 30)) if after.isdigit() else wait
        except (OSError, http.client.HTTPException) as error:
            if connection is not None:
                connection.close()
            failure = fail_of(error, host_of(url) + ": ")
            wait *= old is None  # else it was closed while it was idle
        is_last = attempt == TRIES - 1 or time.monotonic() - begun + wait > SECONDS
        if is_last or failure.detail.endswith(("trusted", "not_found")):
            raise failure
        counts["retries"] += 1
        time.sleep(wait)


class Http:  # files of a server; secret headers go to the host that the user named only
    def __init__(self, name, url, secrets):
        self.name, self.first, self.secrets = name, urllib.parse.urlsplit(url), secrets

    def fetch(self, url, offset, size, most, tag=None):
        """Status, headers, bytes, and where they came from. Follows redirects to https, or on the host of the URL."""
        headers = {"Range": f"bytes={offset}-{offset + size - 1}", **({"If-Match": tag} if tag and tag[0] == '"' else {})}
        for _ in range(HOPS_MOST):
            parts = urllib.parse.urlsplit(url)
            named = parts.hostname == self.first.hostname
            if parts.scheme != "https" and not (named and parts.scheme == self.first.scheme) or "@" in parts.netloc:
                break
            counts["gets"] += 1
            secrets = self.secrets if parts[:2] == self.first[:2] else {}
            status, found, body = request(url, {**headers, **secrets}, most, named)
            if status not in MOVED or "Location" not in found:
                return status, found, body, url
            url = urllib.parse.urljoin(url, found["Location"])
        raise Fail(REDIRECT, host_of(url))

    def get(self, file, offset, size):
        """The bytes of the version that was listed. Where a redirect led is asked until that is old or refused."""
        asked, found = (offset, size, size, file.tag), None
        with file.lock:
            if time.monotonic() > file.until:
                found = self.fetch(file.key, *asked)
                file.url, file.until = found[3], time.monotonic() + REDIRECT_SECONDS
        found = found or self.fetch(file.url, *asked)
        if found[0] == 403 and file.url != file.key:
            found = self.fetch(file.key, *asked)
        status, headers, body, url = found
        begin, end, total, tag = facts_of(headers)
        if status in (200, 206) and file.tag and tag != file.tag or total not in (None, file.size):
            raise Fail(CHANGED)
        if status == 200 and not (offset == 0 and size == file.size <= DATA_MOST):
            raise Fail(NO_RANGES, host_of(url))
        if status not in (200, 206):
            refuse(status, headers)
        if status == 206 and (begin, end) != (offset, offset + size - 1):
            raise Fail(OTHER, "wrong Content_Range")
        if len(body) != size:
            raise Fail(CHANGED if status == 200 else UNREACHABLE, host_of(url) + ": connection_lost")
        return body


def facts_of(headers):
    """First and last byte and size by Content-Range, and what stands for the version."""
    found = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)", headers.get("Content-Range", ""))
    tag = headers.get("ETag") or headers.get("Last-Modified")
    return *(word and int(word) for word in (found.groups() if found else (None,) * 3)), tag


def refuse(status, headers):
    word, reason = headers.get("X-Error-Code", ""), f"HTTP {status}"
    denied = DENIED, "gated or private" if word or status == 401 else reason
    codes = {401: denied, 403: denied, 404: [NOTHING], 410: [NOTHING], 412: [CHANGED], 416: [CHANGED]}
    raise Fail(NO_BUCKET) if word == "RepoNotFound" else Fail(*codes.get(status, [OTHER, reason]))


class Https(Http):  # one file
    def __init__(self, url):
        self.url, path = url.partition("#")[0], os.environ.get("FSDP_INSPECT_HTTP_HEADER_FILE") or os.devnull
        pairs = [line.partition(":") for line in open(path, encoding="latin-1")]
        super().__init__("https", self.url, {name.strip(): value.strip() for name, _, value in pairs if value.strip()})

    def root(self):
        status, headers, _, url = self.fetch(self.url, 0, 1, DATA_MOST)
        _, _, size, tag = facts_of(headers)
        size = int(headers.get("Content-Length", DATA_MOST + 1)) if status == 200 else size
        if status == 200 and size > DATA_MOST:
            raise Fail(NO_RANGES, host_of(url))
        return File(self.url, size, tag) if status in (200, 206, 416) and size is not None else refuse(status, headers)


class Hub(Http):  # a repository of models of the Hugging Face Hub, at one commit
    def __init__(self, url):
        token, home = os.environ.get("HF_TOKEN", ""), os.environ.get("HF_HOME", "~/.cache/huggingface")
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.expanduser(os.environ.get("HF_TOKEN_PATH") or home + "/token"), encoding="ascii") as stream:
                token = token or stream.read().strip()
        self.endpoint, self.files = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/"), {}
        super().__init__("hf", self.endpoint, {"Authorization": "Bearer " + token} if token else {})
        found = (re.fullmatch(r"https://huggingface\.co/([^/]+/[^/]+)(?:/(?:tree|blob|resolve)/([^/]+)(?:/(.*))?)?", url) or
                 re.fullmatch(r"hf://(?:models/)?([^/@]+/[^/@]+)(?:@(refs/pr/\d+|[^/]+))?(?:/(.*))?", url))
        if found is None:
            raise Fail(NO_BUCKET)
        self.repository, self.revision = found[1], urllib.parse.unquote(found[2] or "main")
        self.path = (found[3] or "").strip("/")

    def ask(self, url):
        counts["lists"] += 1
        status, headers, body = request(url, self.secrets, READ_MOST)
        return (json.loads(body), headers) if status == 200 else refuse(status, headers)

    def root(self):
        api = f"{self.endpoint}/api/models/{urllib.parse.quote(self.repository)}"
        found, _ = self.ask(f"{api}/revision/{urllib.parse.quote(self.revision, safe='')}")
        commit = re.fullmatch("[0-9a-f]{40}", str(found.get("sha")))
        if commit is None:
            raise Fail(OTHER, "no commit")
        url, begin = f"{api}/tree/{commit[0]}?recursive=true", f"{self.endpoint}/{self.repository}/resolve/{commit[0]}/"
        while url:
            rows, headers = self.ask(url)
            for row in rows:
                if row["type"] == "file":
                    lfs = row.get("lfs") or {}
                    oid = re.fullmatch(r"[0-9a-f]{64}", str(lfs.get("oid")))
                    size, digest = int(lfs.get("size", row["size"])), oid and bytes.fromhex(oid[0])
                    self.files[row["path"]] = File(begin + urllib.parse.quote(row["path"]), size, None, 0, digest)
            more = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link", ""))
            url = more and urllib.parse.urljoin(url, more[1])
            if url and urllib.parse.urlsplit(url)[:2] != self.first[:2]:
                raise Fail(REDIRECT, host_of(url))
        if self.path not in self.files and not any(self.list("")):
            raise Fail(NOTHING)
        return self.files.get(self.path)

    def list(self, folder):
        begin = "".join(part + "/" for part in (self.path, folder) if part)
        below = [(path[len(begin):].partition("/"), file) for path, file in self.files.items() if path.startswith(begin)]
        yield from dict.fromkeys((name, None) for (name, slash, _), _ in below if slash)
        yield from ((name, file) for (name, slash, _), file in below if not slash)


def options_of(scheme, host, env):
    """Profiles, SSO and roles of AWS are resolved by boto3 or the AWS CLI, if one of them is there; else by obstore."""
    if scheme in ("az", "abfss"):
        pairs = dict(part.partition("=")[::2] for part in env.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";"))
        return {"account_name": host.partition(".")[0] or pairs.get("AccountName"), "account_key": pairs.get("AccountKey"),
                "endpoint": pairs.get("BlobEndpoint") or env.get("AZURE_STORAGE_ENDPOINT")}
    options = {"endpoint": env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
               "skip_signature": env.get("AWS_SKIP_SIGNATURE", "").lower() == "true",
               "request_payer": env.get("AWS_REQUEST_PAYER") == "requester"}
    has_tools = env.get("AWS_PROFILE") or os.path.exists(os.path.expanduser("~/.aws"))
    if options["skip_signature"] or env.get("AWS_ACCESS_KEY_ID") or not has_tools:
        return options
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
        session = boto3.Session()
        if session.get_credentials() is not None:
            options.update(credential_provider=Boto3CredentialProvider(session), region=session.region_name)
    except ImportError:
        names = {"AccessKeyId": "access_key_id", "SecretAccessKey": "secret_access_key", "SessionToken": "session_token"}
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            done = subprocess.run(["aws", "configure", "export-credentials"], capture_output=True, timeout=30, check=True)
            options.update({names[key]: value for key, value in json.loads(done.stdout).items() if key in names})
    return options


class Store:  # a bucket or container, by the package obstore
    def __init__(self, url):
        self.package, self.first = None, []
        with contextlib.suppress(ImportError):
            import obstore.store
            self.package = obstore
        self.name = "obstore " + str(getattr(self.package, "__version__", 0))
        if [int(word) for word in re.findall(r"\d+", self.name)[:2]] < [0, 4]:
            what = self.name + " is older than 0.4" if self.package else "obstore is not installed"
            raise Fail(NO_PACKAGE, f"{what}, Python is " + sys.executable[:120])
        scheme, _, rest = url.partition("://")
        place, _, path = rest.partition("/")
        self.path, (bucket, _, host) = path.strip("/"), place.partition("@")
        options = {name: value for name, value in options_of(scheme, host, os.environ).items() if value and scheme != "gs"}
        client = {"timeout": f"{int(TIMEOUT) or 1}s", "connect_timeout": "10s"}
        if options.get("endpoint", "").startswith("http://") or scheme == "gs" and "STORAGE_EMULATOR_HOST" in os.environ:
            client["allow_http"] = True
        retry = {"max_retries": TRIES - 1, "retry_timeout": datetime.timedelta(seconds=SECONDS)}
        options.update(client_options=client, retry_config=retry)
        kind = {"s3": "S3Store", "gs": "GCSStore"}.get(scheme, "AzureStore")
        self.store = self.try_(getattr(self.package.store, kind), bucket, **options)

    def try_(self, function, *words, **more):
        try:
            return function(*words, **more)
        except Exception as error:
            raise fail_of(error) from None

    def file(self, meta):
        """If-Match takes tags in quotes, and the lists of Azure have none."""
        moment, tag = meta.get("last_modified"), meta.get("e_tag") or ""
        tag = f'"{tag}"' if tag and not tag.endswith('"') else tag
        return File(meta["path"], meta["size"], tag, int(moment.timestamp() * 1e9) if moment else 0)

    def list(self, folder):
        """The list that told what the root is is not asked for again."""
        if self.first and not folder:
            return self.first
        prefix = "/".join(part for part in (self.path, folder) if part)
        counts["lists"] += 1
        found = self.try_(self.package.list_with_delimiter, self.store, prefix or None)
        return ([(path.rstrip("/").rpartition("/")[2], None) for path in found["common_prefixes"]] +
                [(meta["path"].rpartition("/")[2], self.file(meta)) for meta in found["objects"] if meta["path"] != prefix])

    def root(self):
        for as_file in sorted((True, False), reverse=self.path.endswith(SUFFIXES)):
            if not as_file:
                self.first = self.list("")
                if self.first:
                    return None
            elif self.path:
                counts["heads"] += 1
                try:
                    return self.file(self.try_(self.package.head, self.store, self.path))
                except Fail as failure:
                    if failure.code not in (NOTHING, NO_BUCKET):
                        raise
        raise Fail(NOTHING)

    def get(self, file, offset, size):
        counts["gets"] += 1
        options = {"range": (offset, offset + size), **({"if_match": file.tag} if file.tag else {})}
        answer = self.try_(self.package.get, self.store, file.key, options=options)
        now, body = self.file(answer.meta), self.try_(answer.bytes)
        if (now.size, now.tag) != (file.size, file.tag) or len(body) != size or not file.tag:
            raise Fail(CHANGED)
        return body


def text(word):
    raw = word.encode("utf-8", "surrogateescape")
    return struct.pack("<H", len(raw)) + raw


class Helper:
    def __init__(self, connection):
        self.connection, self.sending, self.numbering = connection, threading.Lock(), threading.Lock()
        self.roots, self.files, self.sealed, self.name = [], [], False, ""
        self.large = threading.Semaphore(READ_MOST // PART_MOST)
        count = os.environ.get("FSDP_INSPECT_CONNECTIONS", "")
        self.pool = concurrent.futures.ThreadPoolExecutor(min(max(int(count), 1), 256) if count.isdigit() else 32)

    def send(self, number, kind, *parts):
        size = 5 + sum(len(part) for part in parts)
        with self.sending:
            self.connection.sendall(struct.pack("<IIB", size, number, kind) + b"".join(parts[:-1]))
            self.connection.sendall(parts[-1] if parts else b"")

    def fail(self, number, error, file=0xFFFFFFFF):
        failure = error if isinstance(error, Fail) else Fail(OTHER)
        self.send(number, FAIL, struct.pack("<BI", failure.code, file), text(re.sub(r"[^ -~]", "", failure.detail)[:200]))

    def entry(self, backend, name, found):
        """A file has the next number, in the order in which frames are sent."""
        if found is None:
            return struct.pack("<BIQq", 1, 0, 0, 0) + text(name) + b"\0"
        self.files.append((backend, found))
        digest = b"\1" + found.sha256 if found.sha256 else b"\0"
        return struct.pack("<BIQq", 0, len(self.files) - 1, found.size, found.mtime) + text(name) + digest

    def root(self, number, payload):
        if self.sealed:
            raise Fail(OTHER)
        url = payload[2:].decode("utf-8", "surrogateescape")
        self.roots.append(None)
        is_hub = url.startswith(("hf:", "https://huggingface.co/"))
        backend = (Hub if is_hub else Https if url.startswith("http") else Store)(url)
        try:
            found = backend.root()
        except Fail as failure:
            if failure.code == NOTHING and getattr(backend, "path", ""):
                backend.path, _, name = backend.path.rpartition("/")
                with contextlib.suppress(Fail):
                    failure.detail = ", ".join(difflib.get_close_matches(name, [name for name, _ in backend.list("")], 3))
            raise
        self.name = self.name or backend.name
        self.roots[-1] = backend if found is None else None
        with self.numbering:
            self.send(number, ROOT_IS, b"\2" if found is None else b"\1" + self.entry(backend, "file", found), text(""))

    def list(self, number, payload):
        root, _, size = struct.unpack_from("<IBH", payload)
        folder = payload[7:].decode("utf-8", "surrogateescape")
        backend = self.roots[root] if root < len(self.roots) else None
        if size != len(payload) - 7 or backend is None or not all(map(is_safe, folder.split("/") if folder else ())):
            raise Fail(OTHER)
        found = [pair for pair in backend.list(folder) if is_safe(pair[0])]
        with self.numbering:
            for at in range(0, len(found), 200):  # a frame has room for so many of the longest names
                self.send(number, ENTRIES, b"".join(self.entry(backend, *pair) for pair in found[at:at + 200]))
        self.send(number, END)

    def read(self, number, payload):
        ranges = list(struct.iter_unpack("<IQI", payload))
        if not 0 < len(ranges) <= 4096 or any(
                file >= len(self.files) or not 0 < size <= READ_MOST or offset + size > self.files[file][1].size
                for file, offset, size in ranges):
            raise Fail(OTHER)
        parts = [(file, offset + at, min(PART_MOST, size - at))
                 for file, offset, size in ranges for at in range(0, size, PART_MOST)]
        left, failures = [len(parts)], []
        def read_part(index, offset, size):
            backend, file = self.files[index]
            try:
                with self.large if size > SMALL else contextlib.nullcontext():
                    body = memoryview(b"" if failures else backend.get(file, offset, size))
                    for at in range(0, len(body), DATA_MOST):
                        self.send(number, DATA, struct.pack("<IQ", index, offset + at), body[at:at + DATA_MOST])
                    counts["bytes"] += len(body)
                    del body
            except Exception as error:
                failures.append((error, index))
            with self.numbering:
                left[0] -= 1
                is_last = left[0] == 0
            if is_last:
                self.fail(number, *failures[0]) if failures else self.send(number, END)
        for part in parts:
            self.pool.submit(read_part, *part)

    def answer(self, number, kind, payload):
        try:
            if kind == HELLO and payload[:2] == b"\1\0" or kind == SEAL:
                self.sealed |= kind == SEAL
                self.send(number, OK, text("fsdp-inspect"))
            elif kind == STATS:
                self.send(number, COUNTS, struct.pack("<5Q", *counts.values()), text(self.name[:60]))
            elif kind != CANCEL:
                {ROOT: self.root, LIST: self.list, READ: self.read}[kind](number, payload)
        except Exception as error:
            self.fail(number, error)

    def run(self):
        stream = self.connection.makefile("rb")
        while True:
            size, number, kind = struct.unpack("<IIB", stream.read(9))
            if not 5 <= size <= FRAME_MOST:
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
