#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ls, ls -l and show against what PyTorch itself read from the same files.

Names, dtypes, shapes, strides, storages, aliases, values; every piece with its place. And
the bytes at the places that `show` names, gathered here without the program's help, have to
hash to the digest that was taken from the live tensor.
"""
import ast
import hashlib
import itertools
import os
import re
import struct
import zipfile

from oraclelib import Tap, arguments, contiguous, envelope, product, run, same, told_cases

KINDS = ("torch-zip", "torch-legacy", "fsdp1-full", "dcp", "dcp-per-rank-metadata")
ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex128": 16, "complex64": 8,
    "complex32": 4, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4,
    "uint16": 2, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
    "qint8": 1, "quint8": 1, "qint32": 4,
}


def meaningful(shape, strides):
    """Strides of dimensions that are walked along; nothing is walked in an empty tensor."""
    if product(shape) == 0:
        return []
    return [(i, st) for i, (n, st) in enumerate(zip(shape, strides)) if n > 1]


class Files:
    """The bytes of a checkpoint, read without the program."""

    def __init__(self, path):
        self.path = path
        self.cache = {}
        self.big = False
        if os.path.isfile(path):
            try:
                with zipfile.ZipFile(path) as z:
                    name = next((n for n in z.namelist() if n.endswith("/byteorder")), None)
                    self.big = name is not None and z.read(name) == b"big"
            except zipfile.BadZipFile:
                pass

    def bytes_of(self, name):
        path = self.path if os.path.isfile(self.path) else os.path.join(self.path, name)
        if path not in self.cache:
            with open(path, "rb") as f:
                self.cache[path] = f.read()
        return self.cache[path]


def elements(data, at, shape, strides, item):
    """The elements of a strided view whose first one is at byte `at`, in C order."""
    places = [0]
    for size, stride in zip(shape, strides):
        places = [p + i * stride for p in places for i in range(size)]
    out = []
    for p in places:
        start = at + p * item
        if start + item > len(data):
            raise ValueError(f"element at byte {start} lies past the end of the file ({len(data)})")
        out.append(data[start:start + item])
    return out


def resolved(element, dtype, big, conj, neg):
    """Little-endian bytes of the logical value of one stored element."""
    parts = 2 if dtype.startswith("complex") else 1
    width = len(element) // parts
    words = [element[i * width:(i + 1) * width] for i in range(parts)]
    if big:
        words = [w[::-1] for w in words]
    floating = parts == 2 or dtype.startswith(("float", "bfloat"))

    def negated(w):
        if floating:
            return w[:-1] + bytes([w[-1] ^ 0x80])
        value = -int.from_bytes(w, "little") % (1 << 8 * width)
        return value.to_bytes(width, "little")
    if conj:
        words[1] = negated(words[1])
    if neg:
        words = [negated(w) for w in words]
    return b"".join(words)


def assemble(item, files):
    """Bytes of the whole logical tensor from the pieces that `show` names."""
    dtype, shape = item["dtype"], item["shape"]
    width = ITEM_BYTES[dtype]
    whole = [None] * product(shape)
    steps = contiguous(shape)
    for piece in item["pieces"]:
        if piece.get("method"):
            raise ValueError("a compressed piece")
        sizes = piece.get("sizes")
        sizes = shape if sizes is None else sizes
        offsets = piece.get("offsets")
        offsets = [0] * len(shape) if offsets is None else offsets
        if product(sizes) == 0:
            continue
        strides = piece.get("strides") or contiguous(sizes)
        data = files.bytes_of(piece["file"])
        found = elements(data, piece["offset"], sizes, strides, width)
        span = (sum((n - 1) * st for n, st in zip(sizes, strides)) + 1) * width
        if piece["length"] != span:
            raise ValueError(f"length {piece['length']}, its elements span {span}")
        boxes = itertools.product(*(range(o, o + n) for o, n in zip(offsets, sizes)))
        for index, element in zip(boxes, found):
            at = sum(i * st for i, st in zip(index, steps))
            whole[at] = resolved(element, dtype, files.big, item.get("conj"), item.get("neg"))
    missing = whole.count(None)
    if missing:
        raise ValueError(f"{missing} of {len(whole)} elements are in no piece")
    return b"".join(whole)


def check_digest(item, files, expected, problems, what):
    try:
        data = assemble(item, files)
    except (ValueError, KeyError, OSError, TypeError) as e:
        problems.append(f"{what}: bytes cannot be gathered: {type(e).__name__}: {e}")
        return None
    if hashlib.sha256(data).hexdigest() != expected:
        problems.append(f"{what}: the bytes at its places are not its values")
    return data


# ---- one tensor

def check_view(item, want, problems, what):
    """Stride and storage of a tensor in one piece."""
    if want.get("numel") == 0:
        return
    if len(item["pieces"]) != 1:
        problems.append(f"{what}: {len(item['pieces'])} pieces, expected 1")
        return
    piece = item["pieces"][0]
    shape = want["shape"]
    strides = piece.get("strides") or contiguous(shape)
    same(problems, f"{what}: strides", meaningful(shape, strides), meaningful(shape, want["stride"]))
    if want.get("storage_key") is None:
        return
    for key in ("storage_offset", "storage_bytes"):
        same(problems, f"{what}: {key}", piece.get(key), want[key])
    same(problems, f"{what}: storage", piece.get("storage"), want["storage_key"])
    if want.get("storage_file_offset") is not None and "offset" in piece:
        start = piece["offset"] - want["storage_offset"] * ITEM_BYTES[want["dtype"]]
        same(problems, f"{what}: place of its storage", start, want["storage_file_offset"])
    if not piece.get("member", "/data/" + want["storage_key"]).endswith("/data/" + want["storage_key"]):
        problems.append(f"{what}: member {piece['member']!r} is not record data/{want['storage_key']}")


def check_quantizer(item, want, files, problems, what):
    got = item.get("quantizer")
    if got is None:
        problems.append(f"{what}: no quantizer")
        return
    same(problems, f"{what}: scheme", got.get("scheme"), want["qscheme"])
    if "q_scale" in want:
        same(problems, f"{what}: scale", got.get("scale"), want["q_scale"])
        same(problems, f"{what}: zero point", got.get("zero_point"), want["q_zero_point"])
        return
    same(problems, f"{what}: axis", got.get("axis"), want["q_axis"])
    parts = item.get("components", [])
    for key, values in (("scale", want["q_scales"]), ("zero_point", want["q_zero_points"])):
        part = next((p for p in parts if p["name"].rsplit(".", 1)[-1].startswith(key)), None)
        if part is None:
            problems.append(f"{what}: no component for its {key}s")
            continue
        code = {"float64": "d", "float32": "f", "int64": "q"}.get(part["dtype"])
        try:
            data = assemble(part, files)
            found = list(struct.unpack(f"<{len(values)}{code}", data))
        except (ValueError, KeyError, TypeError, struct.error) as e:
            problems.append(f"{what}: {key}s cannot be read: {e}")
            continue
        same(problems, f"{what}: {key}s", found, values)


def check_components(item, want, files, problems, what):
    parts = {p["name"].rsplit(".", 1)[-1]: p for p in item.get("components", [])}
    for part in want["components"]:
        name = part["fqn"]
        found = parts.get(name)
        if found is None:
            problems.append(f"{what}: no component {name}, only {sorted(parts)}")
            continue
        for key in ("dtype", "shape", "numel"):
            same(problems, f"{what}: {name}: {key}", found.get(key), part[key])
        check_view(found, part, problems, f"{what}: {name}")
        check_digest(found, files, part["sha256"], problems, f"{what}: {name}")


def check_facts(item, want, problems, what, whole_module):
    same(problems, f"{what}: name", item.get("name"), want["clean_fqn"])
    same(problems, f"{what}: name_raw", item.get("name_raw", item.get("name")), want["fqn"])
    for key in ("dtype", "shape", "numel"):
        same(problems, f"{what}: {key}", item.get(key), want[key])
    same(problems, f"{what}: bytes", item.get("bytes"), want["nbytes"])
    if "requires_grad" in want and not whole_module:
        same(problems, f"{what}: requires_grad", item.get("requires_grad"), want["requires_grad"])
    if "class" in want:
        same(problems, f"{what}: class", item.get("class"), want["class"])
    if "path" in want and "path" in item and not any(isinstance(p, bool) for p in want["path"]):
        same(problems, f"{what}: path", item["path"], want["path"])
    for key in ("conj", "neg"):
        same(problems, f"{what}: {key}", item.get(key, False), want.get(key, False))
    same(problems, f"{what}: layout", item.get("layout"), want.get("layout"))
    if want.get("device"):
        same(problems, f"{what}: device", item.get("device"), want["device"])


def check_chunks(item, want, problems, what):
    """The pieces of a DCP tensor, in the order of its chunk list."""
    pieces = item["pieces"]
    if len(pieces) != len(want["chunks"]):
        problems.append(f"{what}: {len(pieces)} pieces, expected {len(want['chunks'])}")
        return
    for i, (piece, chunk) in enumerate(zip(pieces, want["chunks"])):
        where = f"{what}: piece {i}"
        whole = chunk["sizes"] == want["shape"]
        for key in ("offsets", "sizes"):
            got = piece.get(key)
            if got is None and whole:
                got = chunk[key]
            same(problems, f"{where}: {key}", got, chunk[key])
        same(problems, f"{where}: file", piece.get("file"), chunk["file"])
        same(problems, f"{where}: item_offset", piece.get("item_offset"), chunk["file_offset"])
        same(problems, f"{where}: item_length", piece.get("item_length"), chunk["file_length"])
        if product(chunk["sizes"]):
            start, end = chunk["file_offset"], chunk["file_offset"] + chunk["file_length"]
            if not start <= piece["offset"] <= piece["offset"] + piece["length"] <= end:
                problems.append(f"{where}: payload {piece['offset']}+{piece['length']} outside its item")
        else:
            same(problems, f"{where}: empty", (piece["offset"], piece["length"]), (0, 0))
        rank = re.match(r"__(\d+)_", chunk["file"])
        if rank and "rank" in piece:
            same(problems, f"{where}: rank", piece["rank"], int(rank[1]))


def check_tensor(item, want, truth, files, problems):
    what = want["fqn"]
    if item.get("kind") != "tensor":
        problems.append(f"{what}: kind {item.get('kind')!r}")
        return
    check_facts(item, want, problems, what, whole_module="globals" in truth)
    if want.get("device") == "meta":
        if any(p.get("length") for p in item.get("pieces", [])):
            problems.append(f"{what}: a meta tensor has bytes")
        return
    if want.get("components"):
        check_components(item, want, files, problems, what)
        return
    if "chunks" in want:
        check_chunks(item, want, problems, what)
    elif "stride" in want:
        check_view(item, want, problems, what)
    if want.get("qscheme"):
        check_quantizer(item, want, files, problems, what)
    same(problems, f"{what}: aliases", sorted(item.get("aliases", [])), sorted(want.get("aliases", [])))
    if want.get("sha256"):
        check_digest(item, files, want["sha256"], problems, what)


# ---- the whole sample

def check_value(item, want, problems):
    what = f"value {want['fqn']}"
    same(problems, f"{what}: name", item.get("name"), want["fqn"])
    same(problems, f"{what}: type", item.get("type"), want["type"])
    if "value" in want:
        same(problems, f"{what}: value", item.get("value", "absent"), want["value"])
    elif "value" in item:
        try:
            value = ast.literal_eval(want["python_repr"])
        except (ValueError, SyntaxError):
            value = None
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, (list, dict)):
            same(problems, f"{what}: value", item["value"], value)
    if not isinstance(item.get("text"), str):
        problems.append(f"{what}: no text")
    if "file" in want:
        for key in ("file", "offset", "length"):
            same(problems, f"{what}: {key}", item.get(key), want[key])


def per_rank(truth):
    """Tensors of a save whose ranks wrote a .metadata each, as one list."""
    live = truth["live_full_state_sha256"]
    out = {}
    for rank in truth["per_rank"]:
        places = {(s["fqn"], tuple(s["offset"] or ())): s for s in rank["storage_data"]}
        for name, t in rank["tensors"].items():
            digest = next((live[k] for k in (name, name.removeprefix("model.")) if k in live), None)
            width = ITEM_BYTES[t["dtype"]]
            want = out.setdefault(name, {
                "fqn": name, "clean_fqn": name, "dtype": t["dtype"], "shape": t["shape"],
                "numel": product(t["shape"]), "nbytes": product(t["shape"]) * width,
                "sha256": digest, "chunks": []})
            for chunk in t["chunks"]:
                place = places[name, tuple(chunk["offsets"])]
                want["chunks"].append({**chunk, "file": place["file"],
                                       "file_offset": place["file_offset"],
                                       "file_length": place["file_length"]})
    return list(out.values())


def check_ls(doc, tensors, totals, problems):
    """ls: the names once each, and the same facts as show would give. Returns {name: tensor}."""
    data = doc["data"]
    names = [t["name"] for t in data["tensors"]]
    same(problems, "ls: names", sorted(names), sorted(t["clean_fqn"] for t in tensors))
    same(problems, "ls: total.tensors", data["total"]["tensors"], totals["tensors"])
    same(problems, "ls: total.numel", data["total"]["numel"], totals["elements"])
    same(problems, "ls: total.bytes", data["total"]["bytes"], totals["bytes"])
    return {t["name"]: t for t in data["tensors"]}


def check_alias(by_name, tensors, problems):
    """Equal views of one storage: all but one name the same first one."""
    groups = {}
    for t in tensors:
        if t.get("storage_key") is not None and t["nbytes"]:
            view = (t["storage_key"], t["storage_offset"], tuple(t["shape"]), tuple(t["stride"]), t["dtype"])
            groups.setdefault(view, []).append(t["clean_fqn"])
    for group in groups.values():
        said = {n: by_name.get(n, {}).get("alias") for n in group}
        first = [n for n in group if said[n] is None]
        if len(first) != 1 or any(a not in (None, first[0]) for a in said.values()):
            problems.append(f"ls: alias: {said}")


COMMON = ("name", "name_raw", "class", "dtype", "dtype_raw", "layout", "device", "conj", "neg", "shape",
          "numel", "bytes", "role", "requires_grad", "alias", "module", "unit")
PLACE = ("rank", "offsets", "sizes", "file", "member", "offset", "length", "strides", "method",
         "storage", "storage_offset", "storage_bytes", "item_offset", "item_length")


def check_agreement(by_name, rows, items, problems):
    """ls, ls -l and show say the same."""
    long = {}
    for row in rows:
        long.setdefault(row["name"], []).append(row)
    for item in items:
        name = item["name"]
        short = by_name.get(name)
        if short is None:
            continue
        for key in COMMON:
            if short.get(key) != item.get(key):
                problems.append(f"{name}: {key}: ls {short.get(key)!r}, show {item.get(key)!r}")
        if short.get("pieces") != len(item["pieces"]):
            problems.append(f"{name}: ls counts {short.get('pieces')} pieces, show {len(item['pieces'])}")
        if len(item["pieces"]) == 1:
            for key in ("rank", "file", "offset", "length"):
                if short.get(key) != item["pieces"][0].get(key):
                    problems.append(f"{name}: {key}: ls {short.get(key)!r}, show {item['pieces'][0].get(key)!r}")
        mine = [{k: r[k] for k in PLACE if k in r} for r in long.get(name, [])]
        theirs = [{k: p[k] for k in PLACE if k in p} for p in item["pieces"]]
        if mine != theirs:
            problems.append(f"{name}: ls -l {mine[:1]}, show {theirs[:1]}")


def check(args, case, truth, checkpoint):
    problems = []
    tensors = truth["tensors"] or []
    totals = truth["totals"]
    if truth["kind"] == "dcp-per-rank-metadata":
        tensors = per_rank(truth)
        totals = {"tensors": len(tensors), "elements": sum(t["numel"] for t in tensors),
                  "bytes": sum(t["nbytes"] for t in tensors)}
    objects = truth["objects"] if "globals" not in truth else []
    files = Files(checkpoint)
    short = envelope(run(args, "ls", "--json", checkpoint), problems)
    long = envelope(run(args, "ls", "-l", "--json", checkpoint), problems)
    by_name = check_ls(short, tensors, totals, problems) if short else {}
    if short and "globals" not in truth and not truth.get("stale_files"):
        for f in short["findings"]:
            if f["severity"] != "note":
                problems.append(f"a sound checkpoint, but {f['rule']} {f['message']}")
    if short:
        check_alias(by_name, tensors, problems)
    names = [t["clean_fqn"] for t in tensors] + [o["fqn"] for o in objects]
    doc = envelope(run(args, "show", "--json", "--", checkpoint, *names), problems)
    if doc is None:
        return problems
    items = doc["data"]["items"]
    if len(items) != len(names):
        problems.append(f"show: {len(items)} items for {len(names)} names")
        return problems
    for item, want in zip(items, tensors):
        check_tensor(item, want, truth, files, problems)
    for item, want in zip(items[len(tensors):], objects):
        check_value(item, want, problems)
    if short and long:
        check_agreement(by_name, long["data"]["pieces"], items[:len(tensors)], problems)
    listed = envelope(run(args, "ls", "--objects", "--json", checkpoint), problems,
                      statuses=(0,) if objects else (0, 1))
    if listed and "globals" not in truth:
        same(problems, "ls --objects: names", sorted(v["name"] for v in listed["data"]["values"]),
             sorted(o["fqn"] for o in objects))
    # Folders of safetensors without an index's help tell no world size.
    told = envelope(run(args, "info", "--json", checkpoint), problems)
    if told and told["data"].get("world_size") is not None and truth.get("world_size") is not None:
        same(problems, "info: world size", told["data"]["world_size"], truth["world_size"])
    return problems


def main():
    args = arguments(__doc__)
    tap = Tap()
    for case, truth in told_cases(args):
        if truth.get("kind") not in KINDS or case.family not in ("torch-zip", "dcp", "fsdp1"):
            continue
        checkpoint = case.checkpoint(truth)
        tap.none(case.name, check(args, case, truth, checkpoint))
    tap.done()


main()
