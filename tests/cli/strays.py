#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pickle that runs a command, put into each folder of each sample that is good: no audit of it is good any more,
whatever the file is called and packed in; and what is no such pickle leaves it good. Prints TAP.

strays.py BINARY [FOLDER...]
  FOLDER holds more samples.
"""
import bz2
import gzip
import io
import lzma
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

import sandbox

PLAIN = b"cposix\nsystem\n(S'touch CANARY'\ntR."


class Deed:
    def __reduce__(self):
        return os.system, ("touch CANARY",)


def made(protocol, value=None):
    return pickle.dumps({"step": [1, 2, 3], "deed": value or Deed()}, protocol)


def zipped(members, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def torch_zip(value=None):
    return zipped([("archive/data.pkl", made(2, value)), ("archive/version", b"3\n"), ("archive/byteorder", b"little")])


def legacy(value=None):
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    return b"".join(pickle.dumps(part, 2) for part in (0x1950a86a20f9469cfc6c, 1001, facts)) + made(2, value) + pickle.dumps([], 2)


def tarred(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def torch_tar():
    facts = {"protocol_version": 1000, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    none = pickle.dumps(0, 2) + pickle.dumps([], 2)
    return tarred([("sys_info", pickle.dumps(facts, 2)), ("pickle", made(2)), ("tensors", pickle.dumps(0, 2)), ("storages", none)])


def array(descr="|O", body=None):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}".encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + (made(4) if body is None else body)


def evil():
    yield from {
        "pytorch_model.bin": torch_zip(), "x.pkl": PLAIN, "model.joblib": made(4), "train_state.pt": legacy(),
        "no-suffix": made(2), ".hidden": torch_zip(), "stats.npy": array(), "stats.npz": zipped([("a.npy", array())]),
        "packed.npz": zipped([("a.npy", array())], zipfile.ZIP_DEFLATED), "model.pth.tar": torch_tar(),
        "x.pkl.gz": gzip.compress(made(4)), "x.bz2": bz2.compress(made(4)), "x.xz": lzma.compress(made(3)),
        "zlib.joblib": zlib.compress(made(4)), "x.lzma": lzma.compress(made(4), format=lzma.FORMAT_ALONE),
        "bundle.zip": zipped([("a/b.pkl", made(2))]), "torn.pt": PLAIN[:-1], "rng.pt": made(5),
        "without-proto": b"\x8c\x05posix\x8c\x06system\x93\x8c\x0ctouch CANARY\x85R.",
        "consolidated.00.pth": torch_zip(), "adapter_model.bin": torch_zip(), "README": PLAIN, "notes.yaml": made(0),
        "text.pkl": b"S'" + b"a" * 9000 + b"'\n0" + PLAIN, "bytes.bin": b"B" + struct.pack("<I", 9000) + b"a" * 9000 + b"0" + PLAIN,
        "list.pkl": b"]" + b"I1\na" * 3000 + b"0" + PLAIN, "weights.tar": tarred([("a.txt", b"a"), ("m.pt", torch_zip())]),
        "weights.tgz": gzip.compress(tarred([("m.pt", torch_zip())])), "x.npy.gz": gzip.compress(array()),
        "zip.distcp": torch_zip(), "plain.distcp": made(2), "rank9.pt": torch_zip(), "junk.pkl": made(4)[:-1] + b"\xff" * 9,
        # A header of safetensors to who looks for one, and a string to who looks for that.
        "both.safetensors": b"X" + struct.pack("<I", 32) + b"\0\0\0{}" + b" " * 27 + b"0" + PLAIN,
    }.items()


def harmless():
    yield from {
        "include.txt": b"include\nabc\nsystem\n.", "words.dict": b"abolish\nabs\nacos\nos\nsystem\n", "v.txt": b"Git 1.7.12.1 notes\n" * 9,
        "copy.txt": b"cos\nsystem\n", "long.txt": b"Very long " * 900, "string.txt": b"S'tis but a text " * 900, "zeros": b"\0" * 5000,
        "numbers.npy": array("<f4", b"\0\0\0\0"), "numbers.npz": zipped([("a.npy", array("<f4", b"\0\0\0\0"))]),
        "office.docx": zipped([("word/document.xml", b"<xml/>")], zipfile.ZIP_DEFLATED), "log.gz": gzip.compress(b"cos\nsystem\n" * 99),
        "text.tar": tarred([("a.txt", b"cos\nsystem\n")]), "object": zlib.compress(b"blob 4\0abcd"), "half": b"\x80\x04\xff\xff",
        "state.pkl": made(4, [1.5]), "state.pt": torch_zip({"lr": 0.1}), "old.pt": legacy({"lr": 0.1}), "protocol-0": made(0, "text"),
        "torn.pkl": made(4, [1.5])[:-3], "empty": b"", "lr.npy": array("|O", made(4, [0.5])),
    }.items()


def audit(binary, folder, empty):
    done = subprocess.run([binary, "audit", folder], cwd=empty, env=sandbox.environment(empty), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=sandbox.TIMEOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def copied(folder, to):
    shutil.copytree(folder, to, symlinks=True)
    for place, _, _ in os.walk(to):
        os.chmod(place, 0o755)


def put(place, name, data):
    path = os.path.join(place, name)
    if os.path.lexists(path):
        path = os.path.join(place, "zz-" + name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def samples(roots):
    for root in roots:
        for folder, below, files in sorted(os.walk(root)):
            below.sort()
            if files:
                below.clear()
                yield folder


def main():
    binary, kinds, at, results = os.path.abspath(sys.argv[1]), list(evil()), 0, []
    testdata = os.path.join(sandbox.ROOT, "testdata")
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as room:
        # Each kind in one sample, then one kind after the other in each folder of all samples.
        plain = os.path.join(room, "plain")
        copied(os.path.join(testdata, "hf", "llama-sharded"), plain)
        places = [(plain, [os.path.join(plain, "a", "b")] * len(kinds))]
        os.makedirs(places[0][1][0])
        for number, folder in enumerate(samples([testdata, *sys.argv[2:]])):
            if audit(binary, folder, empty)[0] == 0:
                to = os.path.join(room, str(number))
                copied(folder, to)
                places.append((to, [place for place, _, _ in sorted(os.walk(to))]))
        for to, folders in places:
            for place in folders:
                name, data = kinds[at % len(kinds)]
                at += 1
                path = put(place, name, data)
                status, said = audit(binary, to, empty)
                bad = "CANARY" in os.listdir(empty) or status == 0 or (status in (1, 3) and os.path.basename(path) not in said)
                results.append((not bad, f"{os.path.relpath(path, room)}: status {status}"))
                os.unlink(path)
        shutil.rmtree(os.path.join(plain, "a"))
        before = audit(binary, plain, empty)
        for place in (plain, os.path.join(plain, "below")):
            os.makedirs(place, exist_ok=True)
            for name, data in harmless():
                put(place, name, data)
        after = audit(binary, plain, empty)
        results.append((before == after and before[0] == 0, "what is harmless changes nothing: " + after[1].replace("\n", " ")))
    print(f"1..{len(results)}")
    for number, (good, what) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
