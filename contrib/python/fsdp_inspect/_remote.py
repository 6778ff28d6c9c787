# SPDX-License-Identifier: Apache-2.0
"""Reads URLs for fsdp-inspect, which has no network, by the protocol of fsdp-inspect-remote(7).

Built into the program, which runs it with `python3 -I -c`. Reads lists and ranges below the URLs that the user named
and nothing else, and never parses them. Of errors only known words are sent: their texts may contain secrets.
"""

import collections
import contextlib
import functools
import os
import queue
import random
import re
import site
import socket
import struct
import sys
import threading
import time
from urllib.parse import quote, unquote, urljoin, urlsplit

HELLO, ROOT, SEAL, LIST, READ, STATS = 1, 2, 3, 4, 6, 8
OK, ROOT_IS, ENTRIES, DATA, END, FAIL, COUNTS = range(128, 135)
NO_BUCKET, NOTHING, NO_CREDENTIALS, DENIED, EXPIRED, SLOW, CHANGED = range(1, 8)
UNREACHABLE, NO_RANGES, NO_PACKAGE, REDIRECT, OTHER = range(8, 13)
FRAME_MOST, DATA_MOST, PAGE_MOST, REDIRECTS_MOST, TRIES = 8 << 10, 1 << 20, 8 << 20, 5, 6
FLIGHT_MOST, RANGE_MOST, SMALL = 64 << 20, 4 << 20, 224 << 10  # there is room for a small range of each of 256 threads
TIMEOUT = max(1, int(float(os.environ.get("FSDP_INSPECT_TIMEOUT", 30))))  # seconds without a byte
SECONDS = 4 * TIMEOUT  # of one request, and of all tries of it
IS_PUBLIC = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() == "true"
BUNDLES = list(filter(os.path.isfile, map(os.environ.get, ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"), ("", ""))))
IS_PAYER = os.environ.get("AWS_REQUEST_PAYER") == "requester"
# Where obstore goes for S3 and for roles; all else is behind a proxy that is none.
AWS, NOWHERE = ".amazonaws.com,.amazonaws.com.cn,169.254.169.254,169.254.170.2,169.254.170.23", "127.0.0.2:1"
SAFE = re.compile(r"(?!\.\.?\Z|[A-Za-z]:)[^\0-\x1f\x7f/\\]{1,1024}")
# The word of a store in the text of an exception, which may have what its server wrote.
WORD = r"<Code>(\w{1,64})</Code>|^(?:An error \w+ )?\((\w{1,64})\)|ErrorCode:(\w{1,64})|tatus(?: code)?\W+(50[024])"
# Of an exception: its code; what is sent, None: the word; what word, class or text match.
FAILURES = (
    (NO_BUCKET, None, r"^(NoSuchBucket|ContainerNotFound|RepoNotFound)$|bucket does not exist|Error\n\S*\bb/[^/]+/o$"),
    (REDIRECT, "", rf"^(30\d|TemporaryRedirect|RecursionError)$|{NOWHERE},"),  # of botocore
    (UNREACHABLE, "certificate_not_trusted", "[Cc]ertificate|CaUsedAsEndEntity|UnknownIssuer"),
    (EXPIRED, None, "^(RequestExpired|TokenRefresh.*|.*SSOToken.*)$|[Ee]xpired"),
    (CHANGED, None, "^(Precondition.*|NotModifiedError|ConditionNotMet|FileExistsError|41[26])$|MissingEtag"),
    (NOTHING, "", "^((File|Resource)?NotFoundError|NoSuchKey|(Blob|Resource)?NotFound|404|410)$"),
    (OTHER, "obstore cannot list a key here; FSDP_INSPECT_REMOTE=fsspec can", "^InvalidPathError$"),
    (OTHER, "set AZURE_STORAGE_ACCOUNT_NAME", "Missing ?Account|Account must be specified|Must provide either"),
    (NO_CREDENTIALS, None, r"^((No|Partial|Default)CredentialsError|ProfileNotFound)$|169\.254\.|metadata\.google"
     r"|[Mm]issing .*[Cc]redential|[Cc]redentials? (was |were )?not|Credential\w*:|CredentialProvider|get_credentials"),
    (DENIED, "gated or private", r"^(GatedRepo|\(401\))$"),
    (DENIED, None, "^((Perm|Unauth).*Error|AccessDenied|InvalidA.*|Signat.*|Auth.*Fail.*|40[13])$|^Forbidden:|, 401$"),
    (NO_RANGES, "", "Received non-partial|Content-Range response header is missing"),
    (SLOW, None, r"^(SlowDown|ServerBusy|TooManyRequests)$|\b(503|429)\b"),
    (REDIRECT, "AWS_REGION is not that of the bucket", "^(PermanentRedirect|Auth.*Malformed)$|configured region"),
    (OTHER, None, "^ClientError$"),  # of botocore, with a word that is not above
    (UNREACHABLE, "the proxy refuses", "[Tt]unnel|[Pp]roxy [Aa]uth"),
    (UNREACHABLE, "name_not_found", "^gaierror$|dns error|failed to lookup|[Nn]ame or service"),
    (UNREACHABLE, "connection_refused", "[Cc]onnection ?[Rr]efused|Connect call failed"),
    (UNREACHABLE, "timed_out", "^(timeout|.*TimeoutError)$|[Tt]imed ?[Oo]ut|kind: Timeout"),
    (UNREACHABLE, "connection_lost", "^(OS|Client|Serv|Broken|SSL|Remote|BadSt)|Incomplete|: Body|sending|[Cc]onnect"),
)
PASSING = re.compile("connection_(refused|lost)$|timed_out$|HTTP (408|50[024])$|InternalError$")
# One object in one version: when it changed, and what its bytes add up to.
File = collections.namedtuple("File", "key size tag date sha256", defaults=[None, 0, b""])
counts = dict.fromkeys(("lists", "gets", "heads", "retries", "bytes"), 0)


class Fail(Exception):
    def __init__(self, code, detail="", wait=0):
        self.code, self.detail, self.wait = code, detail, wait  # seconds at least


def refuse(is_wrong, code, detail=""):
    if is_wrong:
        raise Fail(code, detail)


def fail_of(error, place="", wait=0):
    """What is sent of an exception. Its text and those of its causes are searched, not to their ends, and not sent."""
    text = ""
    while error is not None and text.count("\n") < 999:
        if isinstance(error, Fail):
            return error
        text = f"\n{type(error).__name__}\n{str(error)[:9999]}{text}"
        error = error.__cause__ or error.__context__
    word = re.search(WORD, text, re.ASCII | re.MULTILINE) or re.search(r"tatus(?: code)?\W+(\d{3})", text)
    word = word[word.lastindex].replace("None", "") if word else ""
    code, sent, _ = next((row for row in FAILURES if re.search(row[2], word + text, re.MULTILINE)), (OTHER, None, ""))
    return Fail(code, place + ("HTTP " * word.isdecimal() + word if sent is None else sent), wait)


class Store:
    """What is at or below a URL. Subclasses open it, have the rows of a list, the file at the URL (head), and read: the
    Content-Range and tag of an answer, and its bytes or what reads them."""

    def __init__(self, url):
        found = re.fullmatch("((.*?)://([^/@]*)[^/]*)/?(.*?)/*", url)
        self.url, (self.place, self.scheme, self.bucket, self.path) = url, found.groups()
        self.places, self.idle, self.tls = {}, threading.local(), None  # where URLs led; connections of each thread
        self.open(os.environ)

    def call(self, name, *words):  # credentials that expired are asked for once more; what may pass is tried again
        end, is_new = time.monotonic() + SECONDS, False
        for tries in range(1, TRIES + 2):
            counts[name + "s"] += not isinstance(self, Http)  # which counts requests
            try:
                return getattr(self, name)(*words)
            except Exception as error:
                failure = fail_of(error)
            may_pass = failure.code == SLOW or PASSING.search(failure.detail)
            wait = max(0.1 * 2 ** tries * random.uniform(0.25, 0.75), failure.wait)
            if failure.code == EXPIRED and not is_new:
                is_new, wait = True, self.open(os.environ) or 0
            elif not may_pass or tries >= TRIES or time.monotonic() + wait > end:
                failure.detail += f", {tries} tries" * (tries > 1 and failure.code in (SLOW, OTHER))
                raise failure
            counts["retries"] += 1
            time.sleep(wait)

    def list(self, folder=""):  # names and files, None: a directory
        prefix, found = "".join(part + "/" for part in (self.path, folder) if part), {}
        for key, file in self.rows(prefix):
            name, slash, _ = key[len(prefix):].partition("/")
            if SAFE.fullmatch(name):  # an empty one stands for the directory
                found[name] = None if slash else found.get(name, file)
        return found

    def file(self, meta):
        """Of a row of a package. Lists of Azure have tags without quotes."""
        key = meta.get("path") or meta["name"].partition("/")[2]
        tag = next(filter(None, map(meta.get, ("e_tag", "ETag", "generation", "etag"))), "missing").strip('"')
        return File(key, meta["size"], f'"{tag}"', meta.get("last_modified", meta.get("LastModified", 0)))

    def root(self):
        """The file, or the list of the directory; first what the name looks like. Else similar names are sent."""
        is_file = re.search(r"\.(safetensors|pt|pth|bin|ckpt|distcp|metadata|json|tar)$", self.path)
        for way in ("head", "list") if is_file else ("list", "head") if self.path else ("list",):
            try:
                if found := self.call(way):
                    return found
            except Fail as failure:
                if failure.code != NOTHING:
                    raise
        import difflib
        self.path, _, name = self.path.rpartition("/")
        missing = Fail(NOTHING)
        with contextlib.suppress(Fail):
            missing.detail = ", ".join(difflib.get_close_matches(name, self.call("list")))
        raise missing

    def get(self, file, begin, end):  # the bytes of the version that was listed
        where, tag, body = self.read(file, begin, end)
        refuse(where is None, NO_RANGES)
        refuse(str(tag).strip('"') != str(file.tag).strip('"') or not where.endswith(f"/{file.size}"), CHANGED)
        refuse(where != f"bytes {begin}-{end - 1}/{file.size}", OTHER, "wrong Content_Range")
        found = body() if callable(body) else body
        refuse(len(found) > end - begin, OTHER, "more bytes than asked for")
        refuse(len(found) < end - begin, UNREACHABLE, "connection_lost")
        return found


class Http(Store):  # one file of a server
    def open(self, env):
        self.files, self.origin, name = {}, urlsplit(self.url), "FSDP_INSPECT_HTTP_HEADER_FILE"
        path = env.get(name) or os.devnull
        refuse(not os.access(path, os.R_OK), OTHER, name)
        with open(path, encoding="latin-1") as lines:
            self.secrets = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)

    def check(self, address, host):  # refuses instance metadata, and what is not public unless the user named the host
        import ipaddress
        with contextlib.suppress(socket.gaierror):  # of a name, which a proxy looks up
            found = socket.getaddrinfo(address, None, flags=socket.AI_NUMERICHOST)[0][4]  # of any form of a number
            found = ipaddress.ip_address(found[0].partition("%")[0])
            found = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None) or found
            is_metadata = found.is_link_local or str(found) in ("fd00:ec2::254", "168.63.129.16", "100.100.100.200")
            refuse(is_metadata, OTHER, host + ": a link-local or metadata address")
            is_near = found.is_multicast or found.is_reserved or getattr(found, "is_site_local", False)  # or is NAT64
            refuse(host != self.origin.hostname and (is_near or not found.is_global), REDIRECT, host)

    def connect(self, parts):
        import base64
        import http.client
        import ssl
        import urllib.request  # for the settings of proxies alone: its openers pass credentials on
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        proxy = not urllib.request.proxy_bypass(host) and urllib.request.getproxies().get(parts.scheme)
        place = urlsplit("//" + proxy.rpartition("//")[2]) if proxy else parts
        connection = http.client.HTTPConnection(place.hostname, place.port or (80 if proxy else port), timeout=TIMEOUT)
        self.check(host, host)
        if proxy:
            pair = base64.b64encode(unquote(place.netloc.rpartition("@")[0]).encode()).decode()
            connection.set_tunnel(host, port, {"Proxy-Authorization": "Basic " + pair} if pair else {})
        connection.connect()
        connection.auto_open = False  # it would ask another address, without TLS
        if not proxy:
            self.check(connection.sock.getpeername()[0], host)
        if parts.scheme == "https":
            context = self.tls or ssl.create_default_context()
            for path in () if self.tls else BUNDLES:
                context.load_verify_locations(path)
            self.tls, connection.sock = context, context.wrap_socket(connection.sock, server_hostname=host)
        return connection

    def request(self, parts, headers, most):
        """One request: status, headers and body. A body that is too long is not read to its end."""
        end, body, idle = time.monotonic() + SECONDS, bytearray(), self.idle.__dict__
        path = quote((parts.path or "/") + "?" * bool(parts.query) + parts.query, safe="!#$%&'()*+,/:;=?@[]~")
        counts["lists" if most == PAGE_MOST else "gets"] += 1
        connection = idle.pop(parts[:2], None) or self.connect(parts)
        connection.request("GET", path, headers={"User-Agent": "fsdp-inspect", **headers})
        answer = connection.getresponse()
        is_wanted = answer.status != 200 or (answer.length or 0) <= most
        while is_wanted and len(body) <= most and (part := answer.read1(most + 1 - len(body))):
            body += part
            refuse(time.monotonic() > end, UNREACHABLE, parts.hostname + ": timed_out")
        if answer.length == 0 and connection.sock is not None and len(idle) < 8:
            answer.close()
            idle[parts[:2]] = connection
        return answer.status, answer.headers, body

    def ask(self, place, most, **headers):
        """Content-Range, version, body and headers of an answer. Follows redirects to https, or on the host of the URL,
        which alone gets secrets. Where they led is asked until that is refused."""
        url = led = self.places.get(place, place)
        for _ in range(REDIRECTS_MOST + 1):
            parts = urlsplit(url)
            host, is_named = parts.hostname or "", parts.hostname == self.origin.hostname
            is_safe = parts.scheme == "https" or is_named and parts.scheme == self.origin.scheme
            refuse("@" in parts.netloc or not is_safe, REDIRECT, host)
            secrets = self.secrets if parts[:2] == self.origin[:2] else {}
            try:
                status, found, body = self.request(parts, {**headers, **secrets}, most)
            except Exception as error:
                raise fail_of(error, host + ": ") from None
            where, size, after = map(found.get, ("Content-Range", "Content-Length", "Retry-After"), ("", "", ""))
            if status in (301, 302, 303, 307, 308) and "Location" in found:
                url = urljoin(url, found["Location"])
            elif url == led != place and status in (400, 401, 403, 404, 410):
                url = led = place
            elif status in (200, 206) or status == 416 and where.endswith("*/0"):
                refuse(found.get("Content-Encoding", "identity") != "identity", OTHER, "Content_Encoding")
                self.places[place] = url
                if status == 200:
                    refuse("Range" in headers and (size != str(len(body)) or len(body) > DATA_MOST), NO_RANGES, host)
                    where = f"bytes 0-{len(body) - 1}/{size}"
                return where, found.get("ETag") or found.get("Last-Modified"), body, found
            else:
                word = found.get("X-Error-Code")  # of the Hub; other words of a server might be the token
                word = word if word in ("GatedRepo", "RepoNotFound") else status
                raise fail_of(Exception(f"({word})"), wait=min(int(after), 30) if after.isdecimal() else 0)
        raise Fail(REDIRECT, host)

    def read(self, file, begin, end):
        match = {"If-Match": file.tag} if (file.tag or "").startswith('"') else {}
        where, tag, body, _ = self.ask(file.key, end - begin, Range=f"bytes={begin}-{end - 1}", **match)
        return where, file.tag and tag, body

    def rows(self, prefix):
        return [pair for pair in self.files.items() if pair[0].startswith(prefix)]

    def head(self):
        where, tag, *_ = self.ask(url := self.url.partition("#")[0], DATA_MOST, Range="bytes=0-0")
        size = where.rpartition("/")[2]
        refuse(not size.isdecimal(), OTHER, "wrong Content_Range")
        return File(url, int(size), tag)


class Hub(Http):  # a repository of models of the Hugging Face Hub, at one commit
    def open(self, env):
        hub = (re.match(r"https://huggingface\.co/([^/]+/[^/]+)(?:/(?:tree|blob|resolve)/([^/]+))?(/.*)?$", self.url) or
               re.match(r"hf://(?:models/)?([^/@]+/[^/@]+)(?:@(refs/pr/\d+|[^/]+))?(/.*)?$", self.url))
        refuse(hub is None, NO_BUCKET)
        self.repository, self.revision, self.path = hub[1], unquote(hub[2] or "main"), (hub[3] or "").strip("/")
        token, home = env.get("HF_TOKEN", ""), os.path.expanduser(env.get("HF_HOME", "~/.cache/huggingface"))
        path = os.path.expanduser(env.get("HF_TOKEN_PATH") or home + "/token")
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as stream:
            token = token or stream.read().strip()
        self.secrets = {"Authorization": "Bearer " + token} if token else {}
        self.endpoint = env.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        self.origin = urlsplit(self.endpoint)

    @functools.cached_property
    def files(self):
        import json
        api, files = f"{self.endpoint}/api/models/{quote(self.repository)}", {}
        commit = json.loads(self.ask(f"{api}/revision/{quote(self.revision, safe='')}", PAGE_MOST)[2])["sha"]
        url, begin = f"{api}/tree/{commit}?recursive=true", f"{self.endpoint}/{self.repository}/resolve/{commit}"
        while url:
            *_, body, headers = self.ask(url, PAGE_MOST)
            for row in filter(lambda row: row["type"] == "file", json.loads(body)):
                key, lfs = f"{begin}/{quote(row['path'])}", row.get("lfs") or {}
                files[row["path"]] = File(key, lfs.get("size", row["size"]), sha256=bytes.fromhex(lfs.get("oid", "")))
            url = (more := re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link", ""))) and urljoin(url, more[1])
        return files

    def head(self):
        return self.files.get(self.path)


class Obstore(Store):
    def open(self, env):
        import obstore.store
        self.package, self.name = obstore, "obstore " + str(getattr(obstore, "__version__", 0))
        version = [int(word) for word in re.findall(r"\d+", self.name)[:2]]
        if version < [0, 4]:
            raise ImportError(self.name + " is older than 0.4")
        env.update({"SSL_CERT_FILE": path for path in BUNDLES[:1] if "SSL_CERT_FILE" not in env})
        options = {name: value for name, value in self.options(env).items() if value and self.scheme != "gs"}
        place = options.get("endpoint") or env.get("STORAGE_EMULATOR_HOST", "")
        client = {"allow_http": place.startswith("http:"), "connect_timeout": "10s", "timeout": f"{SECONDS}s"}
        client["read_timeout" if version >= [0, 11] else "timeout"] = f"{TIMEOUT}s"  # of an older one of all bytes
        if self.scheme == "s3" and not any(env[name] for name in env if re.match("(?i)(https?|all)_proxy$", name)):
            urls = place, env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", ""), env.get("AWS_ENDPOINT_URL_STS", "")
            hosts = ",".join([AWS, *(urlsplit(url).hostname or "" for url in urls)])
            client.update(proxy_url="http://" + NOWHERE, proxy_excludes=hosts)  # else redirects get the token
        options.update(client_options=client, retry_config={"max_retries": 0})
        self.client = obstore.store.from_url(self.place, **options)

    def options(self, env):
        """What it does not look for. Profiles, SSO and roles of AWS are resolved by boto3 or the AWS CLI."""
        if self.scheme != "s3":
            find = dict(re.findall("([^=;]+)=([^;]*)", env.get("AZURE_STORAGE_CONNECTION_STRING", ""))).get
            return {"account_name": "@" not in self.place and find("AccountName"), "account_key": find("AccountKey"),
                    "endpoint": find("BlobEndpoint") or env.get("AZURE_STORAGE_ENDPOINT")}
        options = {"endpoint": env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"), "request_payer": IS_PAYER}
        has_keys = IS_PUBLIC or env.get("AWS_ACCESS_KEY_ID") and not env.get("AWS_CREDENTIAL_EXPIRATION")  # the CLI's
        if not has_keys and (env.get("AWS_PROFILE") or os.path.exists(os.path.expanduser("~/.aws"))):
            try:
                from obstore.auth.boto3 import Boto3CredentialProvider
                return {**options, "credential_provider": Boto3CredentialProvider()}
            except ImportError:
                command = "timeout 30 aws configure export-credentials --format env-no-export 2>/dev/null"
                env.update(line.split("=", 1) for line in os.popen(command).read().split() if line[:4] == "AWS_")
                hint = "AWS_PROFILE needs the package boto3, or aws configure export-credentials"
                refuse(env.get("AWS_PROFILE") and not env.get("AWS_ACCESS_KEY_ID"), NO_CREDENTIALS, hint)
        names = "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_"
        is_alone = not IS_PUBLIC and env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"  # obstore asks it
        refuse(is_alone and not any(name.startswith(names) and env[name] for name in env), NO_CREDENTIALS)
        return options

    def rows(self, prefix):
        found = self.package.list_with_delimiter(self.client, prefix or None)
        files = map(self.file, found["objects"])
        return [(path, None) for path in found["common_prefixes"]] + [(file.key, file) for file in files]

    def head(self):
        return self.file(self.package.head(self.client, self.path))

    def read(self, file, begin, end):
        found = self.package.get(self.client, file.key, options={"range": (begin, end), "if_match": file.tag})
        where = f"bytes {found.range[0]}-{found.range[1] - 1}/{found.meta['size']}"
        return where, found.meta.get("e_tag"), lambda: next(iter(found.stream(min_chunk_size=end - begin)), b"")


class Fsspec(Store):
    def open(self, env):
        env["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # which asks for the kind of a bucket
        import aiohttp
        import fsspec.asyn
        ask = getattr(aiohttp.ClientSession, "asked", aiohttp.ClientSession._request)  # the one of the package

        async def request(*words, headers=None, **options):
            """Follows no redirect, and reads no answer that is longer than the range that was asked for."""
            answer = await ask(*words, headers=headers, **{**options, "allow_redirects": False})
            asked, size = re.search(r"ange'.*?bytes=(\d+)-(\d+)", str(headers)), answer.content_length
            if asked and answer.status in (200, 206) and (size is None or size > int(asked[2]) - int(asked[1]) + 1):
                answer.close()
                raise Fail(NO_RANGES) if answer.status == 200 else Fail(OTHER, "more bytes than asked for")
            return answer

        aiohttp.ClientSession.asked, aiohttp.ClientSession._request = ask, request
        config = {"read_timeout": TIMEOUT, "max_pool_connections": 256, "retries": {"total_max_attempts": 1}}
        words = dict(anon=IS_PUBLIC, requester_pays=IS_PAYER, config_kwargs=config) if self.scheme == "s3" else {}
        self.client, _ = fsspec.core.url_to_fs(self.place, use_listings_cache=False, skip_instance_cache=True, **words)
        self.client.retries, self.name = 1, "fsspec " + fsspec.__version__
        self.wait = functools.partial(fsspec.asyn.sync, self.client.loop, timeout=SECONDS)

    def rows(self, prefix):
        return [(row["name"].partition("/")[2], self.file(row) if row["type"] == "file" else None)
                for row in self.wait(self.client._ls, f"{self.bucket}/{prefix}", detail=True)]

    def head(self):
        return self.file(self.wait(self.client._info, f"{self.bucket}/{self.path}"))

    def read(self, file, begin, end):
        client, asked = self.client, {"Range": f"bytes={begin}-{end - 1}", "IfMatch": file.tag}
        if self.scheme == "s3":
            found = self.wait(client._call_s3, "get_object", Bucket=self.bucket, Key=file.key, **asked)
            return found.get("ContentRange"), found.get("ETag"), functools.partial(self.wait, found["Body"].read)
        if self.scheme == "gs":
            call = functools.partial(client._call, "GET", client.url(f"{self.bucket}/{file.key}"), headers=asked)
            found, body = self.wait(call, ifGenerationMatch=file.tag.strip('"'))
            refuse("Location" in found, REDIRECT)
            return found.get("Content-Range"), found.get("x-goog-generation"), body
        blob = client.service_client.get_blob_client(self.bucket, file.key)
        found = self.wait(blob.download_blob, begin, end - begin, headers={"If-Match": file.tag})
        return found.properties.content_range, found.properties.etag, functools.partial(self.wait, found.readall)


def store_of(url):
    if url.startswith(("hf:", "http")):
        return (Hub if url.startswith(("hf:", "https://huggingface.co/")) else Http)(url)
    problem, forced = "", os.environ.get("FSDP_INSPECT_REMOTE", "").lower()
    for kind in (Obstore, Fsspec):
        try:
            if forced in ("", kind.__name__.lower()):
                return kind(url)
        except ImportError as error:
            problem = problem or (f"{error.name} is not installed" if error.name else str(error))
    place = f", Python is {sys.executable}" if re.fullmatch(r"[\w./+-]{1,120}", sys.executable) else ""
    raise Fail(NO_PACKAGE, problem + place) if problem else Fail(OTHER, "FSDP_INSPECT_REMOTE is not obstore or fsspec")


def text(word):
    raw = word.encode("utf-8", "surrogateescape")
    return struct.pack("<H", len(raw)) + raw


class Helper:
    """Each thread answers the next frame. What fails in any way, as a number of no root or file does, gets FAIL."""

    def __init__(self, connection):
        self.connection, self.lock, self.frames = connection, threading.RLock(), queue.Queue(2048)
        self.roots, self.files, self.is_sealed, self.name = [], [], False, ""
        count = min(max(int(re.match(r"\d*", os.environ.get("FSDP_INSPECT_CONNECTIONS", ""))[0] or 32), 1), 256)
        self.large = threading.Semaphore((FLIGHT_MOST - count * SMALL) // RANGE_MOST)
        for _ in range(count):
            threading.Thread(target=self.serve, daemon=True).start()

    def send(self, number, kind, *parts):
        with self.lock:
            for part in (struct.pack("<IIB", 5 + sum(map(len, parts)), number, kind), *parts):
                self.connection.sendall(part)

    def entry(self, store, name, file):  # a file has the next number, in the order in which frames are sent
        if file is None:
            return struct.pack("<BIQq", 1, 0, 0, 0) + text(name) + b"\0"
        self.files.append((store, file))
        head = struct.pack("<BIQq", 0, len(self.files) - 1, file.size, file.date and int(file.date.timestamp() * 1e9))
        return head + text(name) + (b"\1" + file.sha256 if len(file.sha256) == 32 else b"\0")

    def answer(self, number, kind, payload):  # kind and payload of the last frame of the answer
        if kind == HELLO and payload == b"\1\0" or kind == SEAL:
            self.is_sealed |= kind == SEAL
            return OK, b""
        if kind == STATS:
            return COUNTS, struct.pack("<5Q", *counts.values()) + text(self.name[:60])
        if kind == ROOT and not self.is_sealed:
            self.roots.append(None)
            store = store_of(payload[2:].decode("utf-8", "surrogateescape"))
            store.found, self.name = store.root(), self.name or getattr(store, "name", store.scheme)
            self.roots[-1], is_file = store, isinstance(store.found, File)
            return ROOT_IS, b"\1" + self.entry(store, "file", store.found) if is_file else b"\2"
        if kind == LIST:
            (root, size), folder = struct.unpack_from("<IH", payload), payload[6:].decode("utf-8", "surrogateescape")
            refuse(size != len(payload) - 6 or folder and not all(map(SAFE.fullmatch, folder.split("/"))), OTHER)
            store = self.roots[root]
            found = list((store.call("list", folder) if folder else store.found).items())
            with self.lock:
                for at in range(0, len(found), 200):  # a frame has room for so many long names
                    self.send(number, ENTRIES, *(self.entry(store, *pair) for pair in found[at:at + 200]))
            return END, b""
        index, begin, size = struct.unpack("<IQI", payload)
        store, file = self.files[index]
        refuse(kind != READ or not 0 < size <= RANGE_MOST or begin + size > file.size, OTHER)
        with self.large if size > SMALL else contextlib.nullcontext():
            body = memoryview(store.call("get", file, begin, begin + size))
            for at in range(0, size, DATA_MOST):
                self.send(number, DATA, struct.pack("<IQ", index, begin + at), body[at:at + DATA_MOST])
        counts["bytes"] += size
        return END, b""

    def serve(self):
        with contextlib.suppress(BaseException):  # the program has ended
            while True:
                number, kind, payload = self.frames.get()
                try:
                    end = self.answer(number, kind, payload)
                except Exception as error:
                    failure = fail_of(error)
                    end = FAIL, bytes([failure.code]) + text(re.sub(r"[^ -~]", "", failure.detail)[:200])
                self.send(number, *end)
        os._exit(0)

    def run(self):
        stream = self.connection.makefile("rb")
        while True:
            size, number, kind = struct.unpack("<IIB", stream.read(9))
            refuse(not 5 <= size <= FRAME_MOST, OTHER)
            self.frames.put((number, kind, stream.read(size - 5)))


if __name__ == "__main__":
    os.dup2(0, 2)  # what is written from now on may contain a URL
    site.addsitedir(site.getusersitepackages())
    with contextlib.suppress(struct.error, OSError, Fail, KeyboardInterrupt):
        Helper(socket.socket(fileno=3)).run()
    os._exit(0)  # without a wait for what is on its way
