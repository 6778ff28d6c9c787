# SPDX-License-Identifier: Apache-2.0
"""Reads URLs for fsdp-inspect, which has no network: speaks the protocol of fsdp-inspect-remote(7).

This file is built into the program, which runs it with `python3 -I -c`. It finds out what lies behind the
URLs that the user named, and reads lists and ranges below them and nothing else. It never looks into what
it reads. Errors are numbers; what a server or a package writes about one is never passed on, for it may
hold secrets.
"""

import base64
import concurrent.futures
import datetime
import difflib
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

VERSION = 1
HELLO, ROOT, SEAL, LIST, READ, CANCEL, STATS = 1, 2, 3, 4, 6, 7, 8
OK, ROOT_IS, ENTRIES, DATA, END, FAIL, COUNTS = range(128, 135)
NO_BUCKET, NOTHING, NO_CREDENTIALS, DENIED, EXPIRED, SLOW, CHANGED = range(1, 8)
UNREACHABLE, NO_RANGES, NO_PACKAGE, REDIRECT, OTHER = range(8, 13)
FRAME_MOST, DATA_MOST, PART_MOST, TEXT_MOST = (1 << 20) + 64, 1 << 20, 4 << 20, 4096
TRIES, SECONDS, TIMEOUT = 6, 120, float(os.environ.get("FSDP_INSPECT_TIMEOUT", 30))
AGAIN = {408, 429, 500, 502, 503, 504}
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".metadata", ".json", ".tar")


class Fail(Exception):
    def __init__(self, code, detail=""):
        super().__init__(code)
        self.code, self.detail = code, detail


def host_word(host):
    return re.sub(r"[^\w.:\[\]-]", "", host or "", flags=re.ASCII)[:120]


def is_safe(name):
    """As fsdp_name_is_safe, of one part."""
    raw = name.encode("utf-8", "surrogateescape")
    return (0 < len(raw) <= TEXT_MOST and name not in (".", "..") and not re.search(rb"[\x00-\x1f\x7f\\/]", raw)
            and not re.match(r"[A-Za-z]:", name))


class File:
    """One object in one version."""

    def __init__(self, key, size, tag=None, mtime=0, sha256=None):
        self.key, self.size, self.tag, self.mtime, self.sha256 = key, size, tag, mtime, sha256
        self.url, self.until, self.lock = None, 0.0, threading.Lock()


class counts:
    lists = gets = heads = retries = bytes = 0
    name = ""



# ---- HTTP ----


def tls():
    context = ssl.create_default_context()
    for variable in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        if os.environ.get(variable):
            context.load_verify_locations(os.environ[variable])
    return context


class Web:
    """Requests to one server after the other, with a few connections that stay open."""

    def __init__(self):
        self.idle, self.lock, self.context = {}, threading.Lock(), None

    def connect(self, parts, named):
        proxies = urllib.request.getproxies_environment()
        proxy = proxies.get(parts.scheme)
        if proxy and urllib.request.proxy_bypass_environment(parts.hostname, proxies):
            proxy = None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if parts.scheme == "https" and self.context is None:
            self.context = tls()
        where = urllib.parse.urlsplit(proxy if "//" in (proxy or "") else f"//{proxy}") if proxy else parts
        place = (where.hostname, where.port or (80 if proxy else port))
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(*place, timeout=TIMEOUT, context=self.context)
        else:
            connection = http.client.HTTPConnection(*place, timeout=TIMEOUT)
        headers = {}
        if proxy and where.username:
            pair = f"{urllib.parse.unquote(where.username)}:{urllib.parse.unquote(where.password or '')}"
            headers["Proxy-Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        if proxy:
            connection.set_tunnel(parts.hostname, port, headers)
        connection.connect()
        if not proxy:
            address = ipaddress.ip_address(connection.sock.getpeername()[0].partition("%")[0])
            if address.is_link_local or not (named or address.is_global):
                connection.close()
                raise Fail(REDIRECT, host_word(parts.hostname))
        return connection

    def get(self, url, headers, most, named=True):
        """Status, headers and at most so many bytes; *named: the user's URL names this host."""
        parts = urllib.parse.urlsplit(url)
        key = (parts.scheme, parts.netloc, named)
        with self.lock:
            connection = self.idle[key].pop() if self.idle.get(key) else None
        reused = connection is not None
        try:
            connection = connection or self.connect(parts, named)
            path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
            connection.request("GET", path, headers={"Accept-Encoding": "identity", "User-Agent": "fsdp-inspect",
                                                     **headers})
            answer = connection.getresponse()
            # No more than was asked for is read of a server that sends everything.
            cut = answer.status in (200, 206) and answer.length is not None and answer.length > most
            body = b"" if cut else answer.read(most + 1)
        except (OSError, http.client.HTTPException) as error:
            if connection is not None:
                connection.close()
            if reused and not isinstance(error, (socket.timeout, ssl.SSLError)):
                return self.get(url, headers, most, named)  # it was closed while it was idle
            raise
        if cut or not answer.isclosed():
            connection.close()
        else:
            with self.lock:
                self.idle.setdefault(key, []).append(connection)
        return answer.status, answer.headers, body


web = Web()


def unreachable(error, host):
    word = ("certificate_not_trusted" if isinstance(error, ssl.SSLCertVerificationError) else
            "name_not_found" if isinstance(error, socket.gaierror) else
            "timed_out" if isinstance(error, (socket.timeout, TimeoutError)) else
            "connection_refused" if isinstance(error, ConnectionRefusedError) else "connection_lost")
    return Fail(UNREACHABLE, f"{host_word(host)}: {word}")


def request(url, headers, most, named=True):
    """The same, again where it may help."""
    begun, failure = time.monotonic(), None
    for attempt in range(TRIES):
        wait = 0.1 * 2 ** attempt * random.uniform(0.5, 1.5)
        try:
            status, found, body = web.get(url, headers, most, named)
            if status not in AGAIN:
                return status, found, body
            failure = Fail(SLOW if status in (429, 503) else OTHER, f"HTTP {status}, {TRIES} tries")
            after = found.get("Retry-After", "")
            wait = max(wait, min(float(after), 30)) if after.isdigit() else wait
        except (OSError, http.client.HTTPException) as error:
            failure = unreachable(error, urllib.parse.urlsplit(url).hostname)
            if isinstance(error, (ssl.SSLCertVerificationError, socket.gaierror)):
                break
        if time.monotonic() - begun + wait > SECONDS or attempt == TRIES - 1:
            break
        counts.retries += 1
        time.sleep(wait)
    raise failure


def refuse_status(status, headers):
    word = headers.get("X-Error-Code", "")
    if word == "RepoNotFound":
        raise Fail(NO_BUCKET)
    if status in (401, 403):
        raise Fail(DENIED, "gated or private" if word or status == 401 else f"HTTP {status}")
    if status in (404, 410):
        raise Fail(NOTHING)
    raise Fail(OTHER, f"HTTP {status}")


def total_of(headers):
    """From Content-Range: begin, end, size; None: it has none."""
    found = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)", headers.get("Content-Range", ""))
    return None if found is None else tuple(None if text is None else int(text) for text in found.groups())


def follow(url, location, first):
    """Where a redirect leads, if it may be followed, and whether the user named that host."""
    target = urllib.parse.urljoin(url, location)
    parts = urllib.parse.urlsplit(target)
    named = parts.hostname == first.hostname
    if parts.scheme != "https" and not (named and parts.scheme == first.scheme) or "@" in parts.netloc:
        raise Fail(REDIRECT, host_word(parts.hostname))
    return target, named


class Https:
    """One file of a web server."""

    name = "https"

    def __init__(self, url):
        self.url, self.first = url.partition("#")[0], urllib.parse.urlsplit(url)
        self.headers = {}
        if os.environ.get("FSDP_INSPECT_HTTP_HEADER_FILE"):
            with open(os.environ["FSDP_INSPECT_HTTP_HEADER_FILE"], encoding="latin-1") as lines:
                for line in lines:
                    name, _, value = line.partition(":")
                    if value:
                        self.headers[name.strip()] = value.strip()

    def open(self, file, offset, size, most):
        """An answer of another status than a redirect."""
        counts.gets += 1
        headers = {"Range": f"bytes={offset}-{offset + size - 1}"}
        if file is not None and file.tag and not file.tag.startswith("W/") and file.tag.startswith('"'):
            headers["If-Match"] = file.tag
        url, named = self.url, True
        for _ in range(6):
            same = urllib.parse.urlsplit(url).netloc == self.first.netloc
            status, found, body = request(url, {**headers, **(self.headers if same else {})}, most, named)
            if status not in (301, 302, 303, 307, 308) or "Location" not in found:
                return status, found, body
            url, named = follow(url, found["Location"], self.first)
        raise Fail(REDIRECT, host_word(urllib.parse.urlsplit(url).hostname))

    def root(self):
        status, headers, body = self.open(None, 0, 1, DATA_MOST)
        total = total_of(headers)
        if status == 416 and total:
            size = total[2]
        elif status == 206 and total:
            size = total[2]
        elif status == 200 and headers.get("Content-Length", "").isdigit():
            size = int(headers["Content-Length"])
            if size > DATA_MOST:
                raise Fail(NO_RANGES, host_word(self.first.hostname))
        else:
            refuse_status(status, headers)
        return File(self.url, size, headers.get("ETag") or headers.get("Last-Modified"))

    def get(self, file, offset, size):
        status, headers, body = self.open(file, offset, size, size)
        return ranged(file, offset, size, status, headers, body,
                      headers.get("ETag") or headers.get("Last-Modified"), self.first.hostname)


def ranged(file, offset, size, status, headers, body, tag, host):
    """The bytes that were asked for, of the file that was listed."""
    if status in (412, 416) or tag != file.tag:
        raise Fail(CHANGED)
    if status == 200 and offset == 0 and len(body) == size == file.size <= DATA_MOST:
        return body
    if status == 200:
        raise Fail(NO_RANGES, host_word(host))
    if status != 206:
        refuse_status(status, headers)
    total = total_of(headers)
    if total is None or total[:2] != (offset, offset + size - 1):
        raise Fail(OTHER, "wrong Content_Range")
    if total[2] != file.size:
        raise Fail(CHANGED)
    if len(body) != size:
        raise Fail(UNREACHABLE, f"{host_word(host)}: connection_lost")
    return body


class Hub:
    """A repository of models of the Hugging Face Hub, at one commit."""

    name = "hf"

    def __init__(self, url):
        self.endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        self.first = urllib.parse.urlsplit(self.endpoint)
        if url.startswith("https://"):
            found = re.fullmatch(r"https://huggingface\.co/([^/]+/[^/]+)(?:/(?:tree|blob|resolve)/([^/]+)(?:/(.*))?)?", url)
        else:
            found = re.fullmatch(r"hf://(?:models/)?([^/@]+/[^/@]+)(?:@(refs/pr/\d+|[^/]+))?(?:/(.*))?", url)
        if found is None:
            raise Fail(NO_BUCKET)
        self.repository, revision, path = found.groups()
        self.revision = urllib.parse.unquote(revision or "main")
        self.path = (path or "").strip("/")
        token = os.environ.get("HF_TOKEN", "")
        if not token:
            home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
            try:
                with open(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token"), encoding="ascii") as text:
                    token = text.read().strip()
            except (OSError, ValueError):
                pass
        self.headers = {"Authorization": "Bearer " + token} if token else {}
        self.files, self.folders = {}, set()

    def ask(self, url):
        counts.lists += 1
        status, headers, body = request(url, self.headers, 64 << 20)
        if status != 200:
            refuse_status(status, headers)
        try:
            return json.loads(body), headers
        except ValueError:
            raise Fail(OTHER, "answer is no JSON") from None

    def root(self):
        api = f"{self.endpoint}/api/models/{urllib.parse.quote(self.repository)}"
        found, _ = self.ask(f"{api}/revision/{urllib.parse.quote(self.revision, safe='')}")
        self.revision = str(found.get("sha", "")) if isinstance(found, dict) else ""
        if not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise Fail(OTHER, "no commit")
        url = f"{api}/tree/{self.revision}?recursive=true"
        while url:
            rows, headers = self.ask(url)
            for row in rows:
                if row.get("type") == "file":
                    lfs = row.get("lfs") or {}
                    oid = str(lfs.get("oid", ""))
                    self.files[row["path"]] = File(row["path"], int(lfs.get("size", row["size"])), None, 0,
                                                   bytes.fromhex(oid) if re.fullmatch(r"[0-9a-f]{64}", oid) else None)
            more = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link", ""))
            url, named = follow(url, more.group(1), self.first) if more else (None, True)
            if not named:
                raise Fail(REDIRECT, host_word(urllib.parse.urlsplit(url).hostname))
        if self.path in self.files:
            return self.files[self.path]
        return None if any(self.list("")) else Fail(NOTHING)

    def list(self, folder):
        begin = "".join(part + "/" for part in (self.path, folder) if part)
        seen = set()
        for path, file in self.files.items():
            if not path.startswith(begin):
                continue
            name, slash, _ = path[len(begin):].partition("/")
            if slash and name not in seen:
                seen.add(name)
                yield name, None
            elif not slash:
                yield name, file

    def get(self, file, offset, size):
        headers = {"Range": f"bytes={offset}-{offset + size - 1}"}
        for _ in range(2):
            with file.lock:
                if file.url is None or time.monotonic() > file.until:
                    counts.heads += 1
                    url = f"{self.endpoint}/{self.repository}/resolve/{self.revision}/{urllib.parse.quote(file.key)}"
                    status, found, body = request(url, {**self.headers, **headers}, size)
                    if status in (200, 206):  # no redirect: a small file
                        return ranged(file, offset, size, status, found, body, None, self.first.hostname)
                    if status not in (301, 302, 303, 307, 308) or "Location" not in found:
                        refuse_status(status, found)
                    file.url = follow(url, found["Location"], self.first)
                    file.until = time.monotonic() + 600
                url, named = file.url
            same = urllib.parse.urlsplit(url).netloc == self.first.netloc
            counts.gets += 1
            status, found, body = request(url, {**headers, **(self.headers if same else {})}, size, named)
            if status != 403:
                break
            file.url = None
        return ranged(file, offset, size, status, found, body, None, urllib.parse.urlsplit(url).hostname)


# ---- object stores ----


STORE_ERRORS = (("[Cc]ertificate|CaUsedAsEndEntity|UnknownIssuer", "certificate_not_trusted"),
                ("dns error|failed to lookup", "name_not_found"), ("ConnectionRefused|refused", "connection_refused"),
                ("TimedOut|kind: Timeout|timed out", "timed_out"), ("error sending request|[Cc]onnect", "connection_lost"))


def fail_of(error):
    """From the kind of a package's exception, and from words in its text that are no secrets."""
    text, kind = str(error), type(error).__name__
    word = (re.search(r"<Code>([A-Za-z0-9_]{1,64})</Code>", text) or re.search(r"\(([A-Z][A-Za-z0-9]{2,63})\)", text))
    word = word.group(1) if word else ""
    if word in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in text:
        return Fail(NO_BUCKET)
    if word in ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired") or "expired" in text:
        return Fail(EXPIRED, word)
    if kind in ("PreconditionError", "NotModifiedError") or word == "PreconditionFailed" or "412" in word:
        return Fail(CHANGED)
    if kind in ("NotFoundError", "FileNotFoundError") or word in ("NoSuchKey", "404", "NotFound"):
        return Fail(NOTHING)
    if kind in ("NoCredentialsError", "PartialCredentialsError") or re.search(
            r"169\.254\.|metadata\.google|credentials? (?:was|were)? ?not|[Mm]issing .*[Cc]redential|CredentialProvider", text):
        return Fail(NO_CREDENTIALS)
    if kind in ("PermissionDeniedError", "UnauthenticatedError", "PermissionError") or word in (
            "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "403"):
        return Fail(DENIED, word)
    if word in ("SlowDown", "ServerBusy", "TooManyRequests") or re.search(r"\b(?:503|429)\b", text):
        return Fail(SLOW, word)
    if word in ("PermanentRedirect", "AuthorizationHeaderMalformed") or "configured region" in text:
        return Fail(REDIRECT, "AWS_REGION is not that of the bucket")
    for pattern, reason in STORE_ERRORS if not word else ():
        if re.search(pattern, text):
            return Fail(UNREACHABLE, reason)
    return Fail(OTHER, word)


def time_of(moment):
    return int(moment.timestamp() * 1e9) if moment is not None else 0


class Store:
    """A bucket or container, by the package obstore."""

    def __init__(self, url):
        import obstore
        import obstore.store

        self.package, scheme, self.first = obstore, url.partition("://")[0], []
        self.name = "obstore " + str(getattr(obstore, "__version__", ""))
        if [int(word) for word in re.findall(r"\d+", self.name)[:2]] < [0, 4]:
            raise ImportError(self.name + " is older than 0.4")
        rest = urllib.parse.urlsplit(url.replace("abfss://", "az://", 1))
        bucket, self.path = rest.netloc, url.partition("://")[2].partition("/")[2].strip("/")
        client = {"timeout": f"{int(TIMEOUT) or 1}s", "connect_timeout": "10s"}
        retry = {"max_retries": TRIES - 1, "retry_timeout": datetime.timedelta(seconds=SECONDS)}
        if scheme == "s3":
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            options = {"endpoint": endpoint} if endpoint else {}
            if (endpoint or "").startswith("http://"):
                client["allow_http"] = True
            if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() == "true":
                options["skip_signature"] = True
            if os.environ.get("AWS_REQUEST_PAYER") == "requester":
                options["request_payer"] = True
            if "skip_signature" not in options and not os.environ.get("AWS_ACCESS_KEY_ID"):
                options.update(aws_credentials())
            self.store = obstore.store.S3Store(bucket, client_options=client, retry_config=retry, **options)
        elif scheme == "gs":
            if "STORAGE_EMULATOR_HOST" in os.environ:
                client["allow_http"] = True
            self.store = obstore.store.GCSStore(bucket, client_options=client, retry_config=retry)
        else:
            options = {}
            if "@" in bucket:
                bucket, _, host = bucket.partition("@")
                options["account_name"] = host.partition(".")[0]
            if "AZURE_STORAGE_ENDPOINT" in os.environ:
                options["endpoint"] = os.environ["AZURE_STORAGE_ENDPOINT"]
            options.update(azure_connection())
            if options.get("endpoint", "").startswith("http://"):
                client["allow_http"] = True
            self.store = obstore.store.AzureStore(bucket, client_options=client, retry_config=retry, **options)

    def file(self, meta):
        return File(meta["path"], meta["size"], quoted(meta.get("e_tag")), time_of(meta.get("last_modified")))

    def list(self, folder):
        """The list that told what the root is is not asked for again."""
        if self.first and not folder:
            yield from self.first
            self.first = []
            return
        prefix = "/".join(part for part in (self.path, folder) if part)
        counts.lists += 1
        try:
            found = self.package.list_with_delimiter(self.store, prefix or None)
        except Exception as error:
            raise fail_of(error) from None
        for path in found["common_prefixes"]:
            yield path.rstrip("/").rpartition("/")[2], None
        for meta in found["objects"]:
            if meta["path"] != prefix:
                yield meta["path"].rpartition("/")[2], self.file(meta)

    def root(self):
        first = self.path.endswith(SUFFIXES)
        for as_file in (first, not first):
            if not as_file:
                self.first = list(self.list(""))
                if self.first:
                    return None
            if as_file and self.path:
                counts.heads += 1
                try:
                    return self.file(self.package.head(self.store, self.path))
                except Exception as error:
                    failure = fail_of(error)
                    if failure.code not in (NOTHING, NO_BUCKET):
                        raise failure from None
        return Fail(NOTHING)

    def get(self, file, offset, size):
        counts.gets += 1
        try:
            answer = self.package.get(self.store, file.key,
                                      options={"range": (offset, offset + size), **({"if_match": file.tag} if file.tag else {})})
            meta, body = answer.meta, answer.bytes()
        except Exception as error:
            raise fail_of(error) from None
        if meta["size"] != file.size or quoted(meta.get("e_tag")) != file.tag or len(body) != size or not file.tag:
            raise Fail(CHANGED)
        return body


def aws_credentials():
    """What profiles, SSO and roles give, where botocore or the AWS CLI is there; else obstore looks."""
    if not (os.environ.get("AWS_PROFILE") or os.path.exists(os.path.expanduser("~/.aws"))):
        return {}
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider

        session = boto3.Session()
        if session.get_credentials() is None:
            return {}
        region = {"region": session.region_name} if session.region_name else {}
        return {"credential_provider": Boto3CredentialProvider(session), **region}
    except ImportError:
        pass
    try:
        text = subprocess.run(["aws", "configure", "export-credentials"], capture_output=True, timeout=30, check=True).stdout
        found = json.loads(text)
        return {"access_key_id": found["AccessKeyId"], "secret_access_key": found["SecretAccessKey"],
                **({"session_token": found["SessionToken"]} if found.get("SessionToken") else {})}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return {}


def quoted(tag):
    """As If-Match needs it; the lists of Azure have tags without quotes."""
    return tag if not tag or tag.endswith('"') else f'"{tag}"'


def azure_connection():
    pairs = dict(part.partition("=")[::2] for part in os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";") if part)
    names = {"AccountName": "account_name", "AccountKey": "account_key", "BlobEndpoint": "endpoint"}
    return {names[key]: value for key, value in pairs.items() if key in names}


# ---- the protocol ----


def text(word):
    raw = word.encode("utf-8", "surrogateescape")
    return struct.pack("<H", len(raw)) + raw


class Helper:
    def __init__(self, connection):
        self.connection, self.sending, self.cancelled = connection, threading.Lock(), set()
        self.roots, self.files, self.sealed = [], [], False
        self.room, self.freed = 64 << 20, threading.Condition()

    def send(self, number, kind, *parts):
        size = 5 + sum(len(part) for part in parts)
        with self.sending:
            self.connection.sendall(struct.pack("<IIB", size, number, kind) + b"".join(parts[:-1]))
            if parts:
                self.connection.sendall(parts[-1])

    def fail(self, number, failure, file=0xFFFFFFFF):
        detail = re.sub(r"[^ -~]", "", failure.detail)[:200]
        self.send(number, FAIL, struct.pack("<BI", failure.code, file), text(detail))

    def entry(self, name, found):
        """A file gets the next number, in the order in which frames are sent."""
        if found is None:
            return struct.pack("<BIQq", 1, 0, 0, 0) + text(name) + b"\0"
        self.files.append((self.backend, found))
        digest = b"\1" + found.sha256 if found.sha256 else b"\0"
        return struct.pack("<BIQq", 0, len(self.files) - 1, found.size, found.mtime) + text(name) + digest

    def root(self, number, url):
        if self.sealed:
            raise Fail(OTHER)
        self.backend = backend = open_backend(url)
        try:
            found = backend.root()
        except Fail as failure:
            found = failure
        if isinstance(found, Fail):
            raise Fail(NOTHING, near(backend)) if found.code == NOTHING else found
        counts.name = counts.name or backend.name
        self.roots.append(backend if found is None else None)
        self.send(number, ROOT_IS, b"\2" if found is None else b"\1" + self.entry("file", found), text(""))

    def list(self, number, payload):
        root, _, size = struct.unpack_from("<IBH", payload)
        folder = payload[7:].decode("utf-8", "surrogateescape")
        if size != len(payload) - 7 or root >= len(self.roots) or self.roots[root] is None or not all(
                is_safe(part) for part in folder.split("/") if folder):
            raise Fail(OTHER)
        self.backend, batch, room = self.roots[root], [], 0
        for name, found in self.backend.list(folder):
            if is_safe(name):
                batch.append(self.entry(name, found))
                room += len(batch[-1])
            if room > DATA_MOST // 2:
                self.send(number, ENTRIES, b"".join(batch))
                batch, room = [], 0
        self.send(number, ENTRIES, b"".join(batch))
        self.send(number, END)

    def read(self, number, payload, pool):
        ranges = list(struct.iter_unpack("<IQI", payload))
        if not 0 < len(ranges) <= 4096 or any(
                file >= len(self.files) or not 0 < size <= 64 << 20 or offset + size > self.files[file][1].size
                for file, offset, size in ranges):
            raise Fail(OTHER)
        parts = [(file, offset + at, min(PART_MOST, size - at))
                 for file, offset, size in ranges for at in range(0, size, PART_MOST)]
        left = {"count": len(parts), "failure": None}
        for part in parts:
            pool.submit(self.part, number, part, left)

    def part(self, number, part, left):
        index, offset, size = part
        backend, file = self.files[index]
        with self.freed:
            self.freed.wait_for(lambda: self.room >= size)
            self.room -= size
        try:
            body = memoryview(backend.get(file, offset, size)) if left["failure"] is None else b""
            for at in range(0, len(body), DATA_MOST):
                self.send(number, DATA, struct.pack("<IQ", index, offset + at), body[at:at + DATA_MOST])
            counts.bytes += len(body)
            body = None
        except Exception as error:
            left["failure"] = (error if isinstance(error, Fail) else Fail(OTHER)), index
        with self.freed:
            self.room += size
            left["count"] -= 1
            last = left["count"] == 0
            self.freed.notify_all()
        if last and left["failure"]:
            self.fail(number, *left["failure"])
        elif last:
            self.send(number, END)

    def receive(self, size):
        found = bytearray()
        while len(found) < size:
            more = self.connection.recv(size - len(found))
            if not more:
                raise EOFError
            found += more
        return bytes(found)

    def run(self):
        connections = os.environ.get("FSDP_INSPECT_CONNECTIONS", "")
        count = min(max(int(connections), 1), 256) if connections.isdigit() else 32
        pool = concurrent.futures.ThreadPoolExecutor(count)
        while True:
            size, number, kind = struct.unpack("<IIB", self.receive(9))
            if not 5 <= size <= FRAME_MOST:
                return
            payload = self.receive(size - 5)
            try:
                if kind == HELLO and payload[:2] == struct.pack("<H", VERSION):
                    self.send(number, OK, text("fsdp-inspect"))
                elif kind == SEAL:
                    self.sealed = True
                    self.send(number, OK, text(""))
                elif kind == ROOT:
                    self.root(number, payload[2:].decode("utf-8", "surrogateescape"))
                elif kind == LIST:
                    self.list(number, payload)
                elif kind == READ:
                    self.read(number, payload, pool)
                elif kind == STATS:
                    numbers = counts.lists, counts.gets, counts.heads, counts.retries, counts.bytes
                    self.send(number, COUNTS, struct.pack("<5Q", *numbers), text(counts.name[:60]))
                elif kind != CANCEL:
                    raise Fail(OTHER)
            except Exception as error:
                if kind == ROOT:
                    self.roots.append(None)
                self.fail(number, error if isinstance(error, Fail) else Fail(OTHER))


def near(backend):
    """Names beside one that is not there."""
    above, _, name = getattr(backend, "path", "").rpartition("/")
    backend.path = above
    try:
        return ", ".join(difflib.get_close_matches(name, [found for found, _ in backend.list("")], 3)) if name else ""
    except Fail:
        return ""


def open_backend(url):
    if re.match(r"hf://|https://huggingface\.co/", url):
        return Hub(url)
    if url.startswith("http"):
        return Https(url)
    try:
        return Store(url)
    except ImportError as error:
        what = "obstore is not installed" if getattr(error, "name", None) else str(error)
        raise Fail(NO_PACKAGE, f"{what}, Python is " + re.sub(r"[^ -~]", "", sys.executable)[:120]) from None


def main():
    if os.path.isdir(site.getusersitepackages()):
        site.addsitedir(site.getusersitepackages())
    try:
        Helper(socket.socket(fileno=3)).run()
    except (EOFError, OSError, KeyboardInterrupt):
        pass
    os._exit(0)  # without a wait for what is on its way


if __name__ == "__main__":
    main()
