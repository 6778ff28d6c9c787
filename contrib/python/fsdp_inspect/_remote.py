# SPDX-License-Identifier: Apache-2.0
"""Reads URLs for fsdp-inspect, which has no network, by the protocol of fsdp-inspect-remote(7).

Built into the program, which runs it with `python3 -I -c`. Reads lists and ranges below the URLs that the user named
and nothing else, and never parses them. Errors are sent as numbers: their texts may contain secrets.
"""

import collections
import contextlib
import datetime
import functools
import itertools
import os
import random
import re
import select
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
FRAME_MOST, DATA_MOST, BLOCK, RANGE_MOST, RANGES_MOST = (1 << 20) + 64, 1 << 20, 64 << 10, 4 << 20, 4096
FLIGHT_MOST, PAGE_MOST, FILES_MOST = 64 << 20, 8 << 20, 1 << 23
TRIES, REQUESTS_MOST, TIMEOUT = 6, 6, float(os.environ.get("FSDP_INSPECT_TIMEOUT", 30))
SECONDS = 4 * TIMEOUT  # of one request, and of all tries of it
# Of each scheme of stores its class in obstore and its package beside fsspec.
STORES = {"s3": ("S3Store", "s3fs"), "gs": ("GCSStore", "gcsfs"),
          "az": ("AzureStore", "adlfs"), "abfss": ("AzureStore", "adlfs")}
HUB_ERRORS = "GatedRepo", "RepoNotFound", "RevisionNotFound", "EntryNotFound"
SUFFIXES = ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".metadata", ".json", ".tar"
CREDENTIALS = "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_"
BUNDLES, PROXIES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"), ("http_proxy", "https_proxy", "all_proxy")
METADATA = "fd00:ec2::254", "168.63.129.16", "100.100.100.200"  # others are link-local
# Where obstore goes for S3 and for roles; all else is behind a proxy that is none.
AWS = ".amazonaws.com,.amazonaws.com.cn,169.254.169.254,169.254.170.2,169.254.170.23"
NOWHERE = "127.0.0.2:1"
SAFE = re.compile(r"(?!\.\.?\Z)[^\0/]{1,1024}")
counts = dict.fromkeys(("lists", "gets", "heads", "retries", "bytes"), 0)
idle = threading.local()  # open connections of each thread
# The word of a store in the text of an exception, which may have what its server wrote.
WORD = r"<Code>(\w{1,64})</Code>|^(?:An error occurred )?\((\w{1,64})\)|ErrorCode:(\w{1,64})"
# Of an exception: its code; what is sent, None: the word; what word, class or text match.
FAILURES = (
    (NO_BUCKET, None, r"^(NoSuchBucket|ContainerNotFound|RepoNotFound)$|bucket does not exist|\bb/[^/]+/o$"),
    (REDIRECT, "", rf"^(30\d|TemporaryRedirect|RecursionError)$|{NOWHERE},"),  # of botocore
    (UNREACHABLE, "certificate_not_trusted", "[Cc]ertificate|CaUsedAsEndEntity|UnknownIssuer"),
    (EXPIRED, None, "^(RequestExpired|TokenRefresh.*|.*SSOToken.*)$|[Ee]xpired"),
    (CHANGED, None, "^(Precondition.*|NotModifiedError|ConditionNotMet|FileExistsError|41[26])$|MissingEtag"),
    (NOTHING, "", "^((FileNotFound|NotFound)Error|NoSuchKey|(Blob|Resource)?NotFound|404|410)$"),
    (OTHER, "obstore cannot list a key here; FSDP_INSPECT_REMOTE=fsspec can", "^InvalidPathError$"),
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
    (UNREACHABLE, "the proxy refuses", "[Tt]unnel|[Pp]roxy [Aa]uth"),
    (UNREACHABLE, "name_not_found", "^gaierror$|dns error|failed to lookup|[Nn]ame or service"),
    (UNREACHABLE, "connection_refused", "[Cc]onnection ?[Rr]efused|Connect call failed"),
    (UNREACHABLE, "timed_out", "^(timeout|.*TimeoutError)$|[Tt]imed ?[Oo]ut|kind: Timeout"),
    (UNREACHABLE, "connection_lost",
     "^(OS|Connection|Client|Server|BrokenPipe|SSL|Remote|Incomplete|BadStatus|Service).*$|sending|[Cc]onnect"),
    (OTHER, None, ""),
)
# What is sent of failures that may pass.
PASSING = re.compile("connection_(refused|lost)$|timed_out$|HTTP (408|50[024])$|InternalError$")
# One object in one version: when it changed, and what its bytes add up to.
File = collections.namedtuple("File", "key size tag moment sha256", defaults=[None] * 3)


class Fail(Exception):
    def __init__(self, code, detail="", seconds=0):
        self.code, self.detail, self.seconds = code, detail, seconds  # to wait at least


def fail_of(error):
    """What is sent of an exception. Its text and those of its causes are only searched, and not to their ends, which
    a server may have put far away."""
    if isinstance(error, Fail):
        return error
    text = ""
    while error is not None and text.count("\n") < 999:
        text = f"\n{type(error).__name__}\n{str(error)[:9999]}{text}"
        error = error.__cause__ or error.__context__
    word = re.search(WORD, text, re.ASCII | re.MULTILINE)
    word = word[word.lastindex] if word else ""
    code, sent, _ = next(row for row in FAILURES if re.search(row[2], word + text, re.MULTILINE))
    if code == OTHER and not word:
        word = "".join(re.findall(r"status code: (\d{3})", text)[:1])
    return Fail(code, "HTTP " * word.isdecimal() + word if sent is None else sent)


class Store:
    """What is at or below a URL. Subclasses open it, and have rows of a list, the file at the URL (head), and read:
    Content-Range and tag of an answer, and its bytes or what reads them."""

    is_bucket, tries = True, TRIES  # a bucket: a call is a request, and each file has a tag

    def __init__(self, url):
        self.scheme, place, self.path = re.fullmatch("(.*?)://([^/]*)/?(.*?)/*", url).groups()
        self.bucket, _, host = place.partition("@")
        self.account, self.name, self.url, self.first = host.partition(".")[0], self.scheme, url, {}
        self.open(os.environ)

    def call(self, name, *words):
        """Credentials that expired are asked for once more; what may pass is tried again."""
        end, tries, is_new = time.monotonic() + SECONDS, 0, False
        while True:
            counts[name + "s"] += self.is_bucket
            try:
                return getattr(self, name)(*words)
            except Exception as error:
                failure = fail_of(error)
            if failure.code == EXPIRED and not is_new:
                is_new = True
                self.open(os.environ)
                continue
            if failure.code != SLOW and not PASSING.search(failure.detail):
                raise failure
            wait = max(0.1 * 2 ** tries * random.uniform(0.5, 1.5), failure.seconds)
            tries += 1
            if tries == self.tries or time.monotonic() + wait > end:
                failure.detail += f", {tries} tries" * (tries > 1 and failure.code != UNREACHABLE)
                raise failure
            counts["retries"] += 1
            time.sleep(wait)

    def list(self, folder=""):
        """Names and files, None: a directory. The list that told what the root is is kept."""
        if self.first and not folder:
            return self.first
        prefix, found = "".join(part + "/" for part in (self.path, folder) if part), {}
        for key, file in self.rows(prefix):
            name, slash, _ = key[len(prefix):].partition("/")
            if name:  # else it stands for the directory
                found[name] = None if slash else found.get(name, file)
        self.first = self.first or found
        return found

    def root(self):
        """The file, or the list of the directory. Tries first what the name looks like. If there is neither, the detail
        of the failure is similar names in the same directory."""
        missing, order = Fail(NOTHING), ("head", "list") if self.path.endswith(SUFFIXES) else ("list", "head")
        for way in order if self.path else ("list",):
            try:
                if found := self.call(way):
                    return found
            except Fail as failure:
                if failure.code not in (NOTHING, NO_BUCKET):
                    raise
                missing = failure if way == "list" else missing
        self.path, _, name = self.path.rpartition("/")
        if missing.code == NOTHING and name:
            import difflib
            with contextlib.suppress(Fail):
                missing.detail = ", ".join(difflib.get_close_matches(name, self.call("list")))
        raise missing

    def get(self, file, begin, end):
        """The bytes of the version that was listed."""
        asked = f"bytes {begin}-{end - 1}/{file.size}"
        where, tag, body = self.read(file, begin, end)
        if where is None or where == f"bytes 0-{file.size - 1}/{file.size}" != asked:
            raise Fail(NO_RANGES)
        if tag != file.tag or not tag and self.is_bucket or not where.endswith(f"/{file.size}"):
            raise Fail(CHANGED)
        if where != asked:
            raise Fail(OTHER, "wrong Content_Range")
        found = body() if callable(body) else body
        if len(found) > end - begin:
            raise Fail(OTHER, "more bytes than were asked for")
        if len(found) < end - begin:
            raise ConnectionError
        return found


def host_of(url):
    return re.sub(r"[^\w.:\[\]-]", "", urlsplit(url).hostname or "", flags=re.ASCII)[:120]


@functools.lru_cache(None)
def tls():
    import ssl
    context = ssl.create_default_context()
    for path in filter(None, map(os.environ.get, BUNDLES)):
        context.load_verify_locations(path)
    return context


def check_address(place, named):
    """Refuses instance metadata, and what is not public unless the user named the host."""
    import ipaddress
    try:  # all forms of numbers that a connection takes
        found = socket.getaddrinfo(place, None, flags=socket.AI_NUMERICHOST)[0][4][0]
    except OSError:
        return  # a name, which a proxy looks up
    address = ipaddress.ip_address(found.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if address.is_link_local or str(address) in METADATA:
        raise Fail(OTHER, "a link-local or metadata address")
    kinds = "is_multicast", "is_reserved", "is_site_local"  # NAT64 is reserved
    if not named and (not address.is_global or any(getattr(address, kind, 0) for kind in kinds)):
        raise Fail(REDIRECT)


def connect(parts, named):
    import base64
    import http.client
    import urllib.request  # for the settings of proxies alone: its openers pass credentials on
    host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    proxy = not urllib.request.proxy_bypass(host) and urllib.request.getproxies().get(parts.scheme)
    place = urlsplit("//" + proxy.rpartition("//")[2]) if proxy else parts
    connection = http.client.HTTPConnection(place.hostname, place.port or (80 if proxy else port), timeout=TIMEOUT)
    check_address(host, named)
    if proxy:
        pair = base64.b64encode(unquote(place.netloc.rpartition("@")[0]).encode()).decode()
        connection.set_tunnel(host, port, {"Proxy-Authorization": "Basic " + pair} if pair else {})
    connection.connect()
    connection.auto_open = False  # it would ask another address, without TLS
    if not proxy:
        check_address(connection.sock.getpeername()[0], named)
    if parts.scheme == "https":
        connection.sock = tls().wrap_socket(connection.sock, server_hostname=host)
    return connection


def request(parts, headers, most, named):
    """One request: status, headers and body. *named: the user named the host."""
    key, end, body = (*parts[:2], named), time.monotonic() + SECONDS, bytearray()
    path = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
    headers = {"Accept-Encoding": "identity", "User-Agent": "fsdp-inspect", **headers}
    connection = idle.__dict__.pop(key, None) or connect(parts, named)
    connection.request("GET", quote(path, safe="!#$%&'()*+,/:;=?@[]~"), headers=headers)
    answer = connection.getresponse()
    # A whole file is not read to its end, and nothing further than shows that it is too long.
    is_wanted = answer.status != 200 or (answer.length or 0) <= most
    while is_wanted and len(body) <= most and (part := answer.read1(most + 1 - len(body))):
        body += part
        if time.monotonic() > end:
            raise TimeoutError
    if answer.length == 0:
        answer.close()
    if answer.isclosed() and connection.sock is not None and len(idle.__dict__) < 8:
        idle.__dict__[key] = connection
    else:
        connection.close()
    return answer.status, answer.headers, body


class Http(Store):  # one file of a server
    is_bucket = False

    def open(self, env):
        self.named, self.places, name = urlsplit(self.url), {}, "FSDP_INSPECT_HTTP_HEADER_FILE"
        try:
            with open(env.get(name) or os.devnull, encoding="latin-1") as lines:
                pairs = [line.split(":", 1) for line in lines if ":" in line]
        except OSError:
            raise Fail(OTHER, name) from None
        self.secrets = {name.strip(): value.strip() for name, value in pairs}

    def ask(self, place, most, count="gets", **headers):
        """Content-Range, None: a long file whole; version, body and headers. Follows redirects to https, or on the host
        of the URL, which alone gets secrets. Where they led is asked until that is refused."""
        led = self.places.get(place)
        url = led or place
        for _ in range(REQUESTS_MOST):
            parts = urlsplit(url)
            is_named = parts.hostname == self.named.hostname
            is_safe = parts.scheme == "https" or is_named and parts.scheme == self.named.scheme
            if "@" in parts.netloc or not is_safe:
                break
            counts[count] += 1
            secrets = self.secrets if parts[:2] == self.named[:2] else {}
            try:
                status, found, body = request(parts, {**headers, **secrets}, most, is_named)
            except Exception as error:
                failure = fail_of(error)
                raise Fail(failure.code, ": ".join(filter(None, (host_of(url), failure.detail)))) from None
            where, size, after = map(found.get, ("Content-Range", "Content-Length", "Retry-After"), ("", "", ""))
            if status in (301, 302, 303, 307, 308) and "Location" in found:
                url = urljoin(url, found["Location"])
            elif url == led and status in (400, 401, 403, 404, 410):
                url, led = place, None
            elif status not in (200, 206) and not (status == 416 and where.endswith("*/0")):
                error = found.get("X-Error-Code")  # of the Hub; a server might return the token in it
                failure = fail_of(Exception(f"({error if error in HUB_ERRORS else status})"))
                failure.seconds = min(int(after), 30) if after.isdecimal() else 0
                raise failure
            elif found.get("Content-Encoding", "identity") != "identity":
                raise Fail(OTHER, "Content_Encoding")
            else:
                if url != place:
                    self.places[place] = url
                if status == 200:
                    is_small = size.isdecimal() and int(size) <= DATA_MOST
                    where = f"bytes 0-{int(size) - 1}/{size}" if is_small else None
                return where, found.get("ETag") or found.get("Last-Modified"), body, found
        raise Fail(REDIRECT, host_of(url))

    def read(self, file, begin, end):
        match = {"If-Match": file.tag} if (file.tag or "").startswith('"') else {}
        where, tag, body, _ = self.ask(file.key, end - begin, Range=f"bytes={begin}-{end - 1}", **match)
        return where, file.tag and tag, body

    def rows(self, prefix):
        return ()

    def head(self):
        url = self.url.partition("#")[0]
        where, tag, *_ = self.ask(url, DATA_MOST, Range="bytes=0-0")
        if where is None:
            raise Fail(NO_RANGES, host_of(url))
        size = where.rpartition("/")[2]
        if not size.isdecimal():
            raise Fail(OTHER, "wrong Content_Range")
        return File(url, int(size), tag)


class Hub(Http):  # a repository of models of the Hugging Face Hub, at one commit
    def open(self, env):
        page = r"https://huggingface\.co/([^/]+/[^/]+)(?:/(?:tree|blob|resolve)/([^/]+))?(/.*)?"
        name = r"hf://(?:models/)?([^/@]+/[^/@]+)(?:@(refs/pr/\d+|[^/]+))?(/.*)?"
        found = re.fullmatch(page, self.url) or re.fullmatch(name, self.url)
        if found is None:
            raise Fail(NO_BUCKET)
        self.repository, self.revision = found[1], unquote(found[2] or "main")
        self.path, self.files, self.places = (found[3] or "").strip("/"), {}, {}
        token, home = env.get("HF_TOKEN", ""), env.get("HF_HOME", "~/.cache/huggingface")
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.expanduser(env.get("HF_TOKEN_PATH") or home + "/token"), encoding="ascii") as stream:
                token = token or stream.read().strip()
        self.secrets = {"Authorization": "Bearer " + token} if token else {}
        self.endpoint = env.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        self.named = urlsplit(self.endpoint)

    def pages(self, url):
        """What the interface answers, one page after another."""
        import json
        while url:
            *_, body, headers = self.ask(url, PAGE_MOST, "lists")
            yield json.loads(body)
            more = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link", ""))
            url = more and urljoin(url, more[1])

    def load(self):
        api, files = f"{self.endpoint}/api/models/{quote(self.repository)}", {}
        page = next(self.pages(f"{api}/revision/{quote(self.revision, safe='')}"))
        commit = re.fullmatch("[0-9a-f]{40}", str(page.get("sha")))
        if commit is None:
            raise Fail(OTHER, "no commit")
        begin = f"{self.endpoint}/{self.repository}/resolve/{commit[0]}/"
        for row in itertools.chain.from_iterable(self.pages(f"{api}/tree/{commit[0]}?recursive=true")):
            if row["type"] == "file":
                lfs = row.get("lfs") or {}
                oid = re.fullmatch("[0-9a-f]{64}", str(lfs.get("oid")))
                size, digest = int(lfs.get("size", row["size"])), oid and bytes.fromhex(oid[0])
                files[row["path"]] = File(begin + quote(row["path"]), size, sha256=digest)
            if len(files) > FILES_MOST:
                raise Fail(OTHER, "more files than are read")
        return files

    def rows(self, prefix):
        self.files = self.files or self.load()
        return [pair for pair in self.files.items() if pair[0].startswith(prefix)]

    def head(self):
        return dict(self.rows(self.path)).get(self.path)


class Obstore(Store):
    tries = 1  # it has retries of its own, of each page of a list

    def open(self, env):
        import obstore.store
        self.package, self.name = obstore, "obstore " + str(getattr(obstore, "__version__", 0))
        version = [int(word) for word in re.findall(r"\d+", self.name)[:2]]
        if version < [0, 4]:
            raise ImportError(self.name + " is older than 0.4")
        for path in filter(os.path.isfile, map(env.get, BUNDLES, ("", ""))):
            env.setdefault("SSL_CERT_FILE", path)
        options = {name: value for name, value in self.options(env).items() if value}
        place = options.get("endpoint") or env.get("STORAGE_EMULATOR_HOST", "")
        # Of an older one the time without a byte is that of all bytes.
        times = ("timeout", SECONDS), ("read_timeout", TIMEOUT) if version >= [0, 11] else ("timeout", TIMEOUT)
        client = {name: f"{int(seconds) or 1}s" for name, seconds in times}
        client.update(connect_timeout="10s", allow_http=place.startswith("http:"))
        if self.scheme == "s3" and not any(env.get(name) or env.get(name.upper()) for name in PROXIES):
            # It follows redirects, and passes the session token on.
            hosts = place, env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", ""), env.get("AWS_ENDPOINT_URL_STS", "")
            client.update(proxy_url="http://" + NOWHERE, proxy_excludes=",".join([AWS, *map(host_of, hosts)]))
        retry = {"max_retries": TRIES - 1, "retry_timeout": datetime.timedelta(seconds=SECONDS)}
        kind = getattr(obstore.store, STORES[self.scheme][0])
        self.client = kind(self.bucket, client_options=client, retry_config=retry, **options)

    def options(self, env):
        """Profiles, SSO and roles are resolved by boto3 or the AWS CLI, if one of them is there; else by obstore."""
        if self.scheme == "gs":
            return {}
        if self.scheme != "s3":
            parts = env.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";")
            pairs = dict(part.partition("=")[::2] for part in parts)
            return {"account_name": self.account or pairs.get("AccountName"), "account_key": pairs.get("AccountKey"),
                    "endpoint": pairs.get("BlobEndpoint") or env.get("AZURE_STORAGE_ENDPOINT")}
        options = {"endpoint": env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
                   "skip_signature": env.get("AWS_SKIP_SIGNATURE", "").lower() == "true",
                   "request_payer": env.get("AWS_REQUEST_PAYER") == "requester"}
        # Keys with an end are of the AWS CLI, from the call before.
        has_keys = env.get("AWS_ACCESS_KEY_ID") and not env.get("AWS_CREDENTIAL_EXPIRATION")
        has_tools = env.get("AWS_PROFILE") or os.path.exists(os.path.expanduser("~/.aws"))
        if options["skip_signature"] or has_keys:
            return options
        try:
            if has_tools:
                import boto3
                from obstore.auth.boto3 import Boto3CredentialProvider as Provider
                session = boto3.Session()
                if session.get_credentials() is not None:
                    return {**options, "credential_provider": Provider(session), "region": session.region_name}
        except ImportError:
            import subprocess
            words = "aws configure export-credentials --format env-no-export".split()
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                found = subprocess.run(words, timeout=30, capture_output=True, text=True).stdout
                env.update(line.split("=", 1) for line in found.split() if line[:4] == "AWS_")
            if env.get("AWS_PROFILE") and not env.get("AWS_ACCESS_KEY_ID"):
                raise Fail(NO_CREDENTIALS, "AWS_PROFILE needs the package boto3, or aws configure export-credentials")
        is_alone = env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"  # obstore asks it
        if is_alone and not any(name.startswith(CREDENTIALS) and env[name] for name in env):
            raise Fail(NO_CREDENTIALS)
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


class Fsspec(Store):
    def open(self, env):
        env["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # which asks for the kind of a bucket
        name, options = STORES[self.scheme][1], {"account_name": self.account} if self.account else {}
        self.name = f"{name} {__import__(name).__version__}"
        import aiohttp
        import fsspec.asyn
        session = aiohttp.ClientSession
        session._request = functools.partialmethod(session._request, allow_redirects=False)
        if self.scheme == "s3":
            retries = {"mode": "standard", "total_max_attempts": 1}
            options = {"anon": env.get("AWS_SKIP_SIGNATURE", "").lower() == "true",
                       "requester_pays": env.get("AWS_REQUEST_PAYER") == "requester",
                       "config_kwargs": {"read_timeout": TIMEOUT, "max_pool_connections": 256, "retries": retries}}
        self.client = fsspec.filesystem(self.scheme, use_listings_cache=False, skip_instance_cache=True, **options)
        self.client.retries = 1
        self.wait = functools.partial(fsspec.asyn.sync, self.client.loop, timeout=SECONDS)

    def file(self, found):
        tag = found.get("ETag") or found.get("generation") or found.get("etag")
        return File(found["name"].partition("/")[2], found["size"], tag, found.get("LastModified"))

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
            url = client.url(f"{self.bucket}/{file.key}")
            found, body = self.wait(client._call, "GET", url, headers=asked, ifGenerationMatch=file.tag)
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
    raise Fail(NO_PACKAGE, f"{problem}, Python is {sys.executable[:120]}")


def text(word):
    raw = word.encode("utf-8", "surrogateescape")
    return struct.pack("<H", len(raw)) + raw


class Helper:
    """Each thread takes the next task, of the last frame or of a new one, once there is room for its answer. What fails
    in any way, as a number of no root or file does, is answered with FAIL."""

    def __init__(self, connection):
        self.connection, self.lock, self.turn = connection, threading.RLock(), threading.Lock()
        self.roots, self.files, self.sealed, self.name = [], [], False, ""
        self.tasks, self.flying = self.answers(connection.makefile("rb")), threading.Semaphore(FLIGHT_MOST // BLOCK)

    def send(self, number, kind, *parts):
        with self.lock:
            for part in (struct.pack("<IIB", 5 + sum(map(len, parts)), number, kind), *parts):
                self.connection.sendall(part)

    def fail(self, number, error):
        failure = fail_of(error)
        detail = re.sub(r"[^ -~]", "", failure.detail)[:200]
        self.send(number, FAIL, bytes([failure.code]), text(detail))

    def entry(self, store, name, file):
        """A file has the next number, in the order in which frames are sent."""
        if file is None:
            return struct.pack("<BIQq", 1, 0, 0, 0) + text(name) + b"\0"
        self.files.append((store, file))
        time_ns = int(file.moment.timestamp() * 1e9) if file.moment else 0
        facts = struct.pack("<BIQq", 0, len(self.files) - 1, file.size, time_ns)
        return facts + text(name) + (b"\1" + file.sha256 if file.sha256 else b"\0")

    def root(self, number, url):
        self.roots.append(None)
        store = store_of(url)
        found = store.root()
        is_file = isinstance(found, File)
        self.name, self.roots[-1] = self.name or store.name, None if is_file else store
        self.send(number, ROOT_IS, b"\1" + self.entry(store, "file", found) if is_file else b"\2")

    def list(self, number, store, folder):
        found = [pair for pair in store.call("list", folder).items() if SAFE.fullmatch(pair[0])]
        with self.lock:
            if len(self.files) + len(found) > FILES_MOST:
                raise Fail(OTHER, "more files than are read")
            for at in range(0, len(found), 200):  # a frame has room for so many long names
                self.send(number, ENTRIES, b"".join(self.entry(store, *pair) for pair in found[at:at + 200]))
            self.send(number, END)

    def part(self, number, state, index, begin, end):
        """After a failure nothing more is asked for. The last part ends the answer."""
        store, file = self.files[index]
        try:
            body = memoryview(b"" if state["failure"] else store.call("get", file, begin, end))
            for at in range(0, len(body), DATA_MOST):
                self.send(number, DATA, struct.pack("<IQ", index, begin + at), body[at:at + DATA_MOST])
            counts["bytes"] += len(body)
        except Exception as error:
            state["failure"] = error
        with self.lock:
            state["left"] -= 1
            if state["left"] == 0 and state["failure"]:
                raise state["failure"]
            if state["left"] == 0:
                self.send(number, END)

    def answer(self, number, kind, payload):
        """Yields what is left to other threads: the bytes that it needs room for, and the call."""
        if kind == HELLO and payload == b"\1\0" or kind == SEAL:
            self.sealed |= kind == SEAL
            self.send(number, OK)
        elif kind == STATS:
            self.send(number, COUNTS, struct.pack("<5Q", *counts.values()), text(self.name[:60]))
        elif kind == ROOT and not self.sealed:
            self.root(number, payload[2:].decode("utf-8", "surrogateescape"))
        elif kind == LIST:
            (root, size), folder = struct.unpack_from("<IH", payload), payload[6:].decode("utf-8", "surrogateescape")
            is_below = not folder or all(map(SAFE.fullmatch, folder.split("/")))
            if size != len(payload) - 6 or self.roots[root] is None or not is_below:
                raise Fail(OTHER)
            yield 0, self.list, number, self.roots[root], folder
        elif kind == READ:
            ranges = list(struct.iter_unpack("<IQI", payload))
            is_inside = all(0 < size <= RANGE_MOST and offset + size <= self.files[file][1].size
                            for file, offset, size in ranges)
            if not 0 < len(ranges) <= RANGES_MOST or not is_inside:
                raise Fail(OTHER)
            state = {"left": len(ranges), "failure": None}
            for file, offset, size in ranges:
                yield size, self.part, number, state, file, offset, offset + size
        else:
            raise Fail(OTHER)

    def answers(self, stream):
        while True:
            size, number, kind = struct.unpack("<IIB", stream.read(9))
            if not 5 <= size <= FRAME_MOST or kind >= OK:
                return
            try:
                yield from self.answer(number, kind, stream.read(size - 5))
            except Exception as error:
                self.fail(number, error)

    def serve(self):
        try:
            while True:
                with self.turn:
                    size, function, number, *words = next(self.tasks)
                    units = max(1, size // BLOCK)
                    for _ in range(units):
                        self.flying.acquire()
                try:
                    function(number, *words)
                except Exception as error:
                    self.fail(number, error)
                self.flying.release(units)
        finally:
            os._exit(0)  # the program has ended, or sent a wrong frame

    def run(self):
        count, watch = os.environ.get("FSDP_INSPECT_CONNECTIONS", ""), select.poll()
        for _ in range(min(max(int(count), 1), 256) if count.isdecimal() else 32):
            threading.Thread(target=self.serve, daemon=True).start()
        watch.register(self.connection, 0)
        watch.poll()  # the threads may all wait for servers


if __name__ == "__main__":
    if os.path.isdir(site.getusersitepackages()):
        site.addsitedir(site.getusersitepackages())
    with contextlib.suppress(struct.error, OSError, KeyboardInterrupt):
        Helper(socket.socket(fileno=3)).run()
    os._exit(0)  # without a wait for what is on its way
