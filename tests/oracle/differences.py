# SPDX-License-Identifier: Apache-2.0
"""What `diff` tells is what is so: samples of one model in many forms are equal, each wrong conversion
is described as its truth says, and every sample is equal to itself.
"""
import json
import os
import struct
import tempfile

import oraclelib


def diff(args, problems, a, b, *options, statuses=(0, 1)):
    doc = oraclelib.envelope(oraclelib.run(args, "diff", "--json", *options, a, b), problems, statuses)
    return doc["data"] if doc else None


def folder(args, name):
    return next((os.path.join(root, *parts, name) for root in args.roots[::-1] for parts in ((), ("eco",))
                 if os.path.isdir(os.path.join(root, *parts, name))), None)


def silent(args, problems, a, b, *options):
    run = oraclelib.run(args, "diff", "-q", *options, a, b)
    if run.crash or run.status != 0 or run.out:
        problems.append(f"{run.words}: status {run.status}: {run.out[:200]} {run.tail}")


# ---- one model in many forms

def equal_forms(tap, args, truth):
    names = truth["equal"]
    for i, a in enumerate(names):
        problems = []
        for b in names[i + 1:] + names[:1]:
            silent(args, problems, folder(args, f"cross/{a}"), folder(args, f"cross/{b}"))
            silent(args, problems, folder(args, f"cross/{b}"), folder(args, f"cross/{a}"), "--values")
        tap.none(f"cross/{a} is the same in {len(names)} forms", problems)


def changed_values(tap, args, truth):
    """Also by value, with what numpy makes of the same numbers."""
    changed, problems = truth["changed"], []
    paths = folder(args, "cross/model-a-pt"), folder(args, "cross/" + changed["case"])
    data = diff(args, problems, *paths, "--values")
    if data:
        oraclelib.same(problems, "only", data["only_a"] + data["only_b"], [])
        oraclelib.same(problems, "renamed", [[r["a"], r["b"]] for r in data["renamed"]], changed["same_bytes_renamed"])
        what = {c["name"]: c["what"] for c in data["changed"]}
        expected = {n: ["dtype"] for n in changed["dtype"]} | {n: ["shape"] for n in changed["shape"]} | \
            {n: ["elements"] for n in changed["values"]}
        oraclelib.same(problems, "changed", what, expected)
        for change in data["changed"]:
            if "dtype" in change["what"]:
                oraclelib.same(problems, "a cast is equal", change["elements"]["equal"], True)
    data = diff(args, problems, *paths, "--values", "--tol=0.01,0")
    if data:
        oraclelib.same(problems, "within 0.01", sorted(c["name"] for c in data["changed"]),
                       sorted(changed["dtype"] + changed["shape"]))
    tap.none("cross/" + changed["case"] + " by value", problems)


def changed_form(tap, args, truth):
    changed, problems = truth["changed"], []
    data = diff(args, problems, folder(args, "cross/model-a-pt"), folder(args, "cross/" + changed["case"]))
    if data:
        oraclelib.same(problems, "only_a", data["only_a"], changed["only_left"])
        oraclelib.same(problems, "only_b", data["only_b"], changed["only_right"])
        what = {c["name"]: c["what"] for c in data["changed"]}
        expected = {n: ["dtype"] for n in changed["dtype"]} | {n: ["shape"] for n in changed["shape"]}
        oraclelib.same(problems, "changed", what, expected)
    tap.none("cross/" + changed["case"], problems)


# ---- wrong conversions

# kind -> words of the hint for every tensor that is affected
HINTS = {
    "flat-shard": "1/2 of the elements, flattened: possibly the flat shard of one rank",
    "replicated-concatenated": "2 times as long in dim 0",
    "placeholders": "a placeholder without elements",
}


def wrong_conversion(tap, args, case):
    defect, problems = case.load("defect.json"), []
    reference = folder(args, defect["reference"])
    if reference is None:
        tap.skip(case.name, "its reference is not here")
        return
    data = diff(args, problems, reference, case.folder, "--role=param,buffer")
    if data is None:
        tap.none(case.name, problems)
        return
    oraclelib.same(problems, "only_a", sorted(data["only_a"]), sorted(defect.get("missing", [])))
    oraclelib.same(problems, "only_b", data["only_b"], [])
    oraclelib.same(problems, "renamed", data["renamed"], [])
    expected = {a["fqn"]: (a["expected_shape"], a["found_shape"]) for a in defect.get("affected", ())
                if "found_shape" in a}
    found = {c["name"]: (c["a"]["shape"], c["b"]["shape"]) for c in data["changed"] if "shape" in c["what"]}
    oraclelib.same(problems, "shapes", found, expected)
    for change in data["changed"]:
        if not change.get("hint", "").startswith(HINTS.get(defect["kind"], "")):
            problems.append(f"{change['name']}: {change.get('hint')}")
    tap.none(f"{case.name}: {defect['kind']}", problems)


# kind -> hint by value
VALUE_HINTS = {
    "flat-shard": "1/2 of the elements, flattened: the flat shard of rank 0, saved as the full tensor",
    "replicated-concatenated": "2 identical copies of it, joined along dim 0",
    "rank-order": "the same 2 pieces along dim 0, joined in another order",
}


def wrong_values(tap, args, case):
    defect, problems = case.load("defect.json"), []
    reference = folder(args, defect["reference"])
    if reference is None or defect["kind"] not in VALUE_HINTS:
        return
    data = diff(args, problems, reference, case.folder, "--values", "--role=param,buffer")
    if data:
        hints = {c["name"]: c.get("hint") for c in data["changed"]}
        expected = {a["fqn"]: VALUE_HINTS[defect["kind"]] for a in defect["affected"]}
        oraclelib.same(problems, "hints", hints, expected)
    tap.none(f"{case.name}: {defect['kind']} by value", problems)


# ---- numbers

def numbers(tap, args):
    """What it reports of elements, compared with numpy, over dtypes that it has."""
    try:
        import numpy
    except ImportError:
        tap.skip("numbers", "no numpy")
        return
    random = numpy.random.default_rng(7)
    for name, dtype in (("F64", "f8"), ("F32", "f4"), ("F16", "f2"), ("I64", "i8"), ("I8", "i1"), ("U8", "u1")):
        problems = []
        a = (random.standard_normal((37, 501)) * 50).astype(dtype)
        b = a.copy()
        places = random.choice(a.size, 100, replace=False)
        b.reshape(-1)[places] += numpy.array(3, dtype)
        if dtype[0] == "f":
            b[0, 3], a[0, 4], b[0, 4] = 0.0, numpy.nan, numpy.nan
        with tempfile.TemporaryDirectory() as work:
            for side, array in (("a", a), ("b", b)):
                write_safetensors(os.path.join(work, side + ".safetensors"), {"t": (name, array)})
            paths = [os.path.join(work, side + ".safetensors") for side in "ab"]
            data = diff(args, problems, *paths, "--values", statuses=(1,))
            again = diff(args, problems, *paths, "--values", "-j7", statuses=(1,))
            within = diff(args, problems, *paths, "--values", "--tol=2.5,0.01")
        if data and within is not None:
            check_numbers(numpy, problems, data["changed"][0]["elements"], a, b)
            oraclelib.same(problems, "threads", again, data)
            left = numpy.abs(a.astype("f8") - b.astype("f8")) > 2.5 + 0.01 * numpy.abs(b.astype("f8"))
            found = within["changed"][0]["elements"]["differing"] if within["changed"] else 0
            oraclelib.same(problems, "within", found, int(left.sum()))
        tap.none(f"numbers of {name}", problems)


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, array) in tensors.items():
        data = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + body)


def check_numbers(numpy, problems, told, a, b):
    raw = (a.view("u1").reshape(a.shape + (-1,)) != b.view("u1").reshape(b.shape + (-1,))).any(axis=-1)
    oraclelib.same(problems, "differing", told["differing"], int(raw.sum()))
    oraclelib.same(problems, "first", told["first_index"], [int(i) for i in numpy.argwhere(raw)[0]])
    x, y = a.astype("f8"), b.astype("f8")
    apart = numpy.where(numpy.isnan(x) & numpy.isnan(y), 0, numpy.abs(x - y))
    with numpy.errstate(all="ignore"):
        far = numpy.where(apart == 0, 0, apart / numpy.abs(y))
    for key, expected in (("max_abs", apart.max()), ("max_rel", far.max()), ("mean_abs", apart.mean())):
        found = told[key] if not isinstance(told[key], str) else float(told[key])
        if not (found == expected or abs(found - expected) <= 1e-12 * abs(expected)):
            problems.append(f"{key}: {told[key]}, expected {expected}")


# ---- itself

# Formats whose elements neither side reads.
UNREADABLE = (b"torch itself cannot read it back",)

def itself(tap, args, case, truth):
    path = case.checkpoint(truth) or case.folder
    problems = []
    probe = oraclelib.run(args, "ls", "-q", "-o", "name", path)
    if probe.status != 0:
        tap.skip(f"{case.name} and itself", f"ls ends with status {probe.status}")
        return
    silent(args, problems, path, path)
    silent(args, problems, path, path, "--layout", "--raw")
    by_value = oraclelib.run(args, "diff", "-q", "--values", path, path)
    if by_value.crash or by_value.out or by_value.status not in (0, 3) or \
            (by_value.status == 3 and not any(words in by_value.err for words in UNREADABLE)):
        problems.append(f"{by_value.words}: status {by_value.status}: {by_value.out[:200]} {by_value.tail}")
    tap.none(f"{case.name} and itself", problems)


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    cross = os.path.join(args.fixtures, "eco", "cross", "model-a.json") if args.fixtures else ""
    if os.path.exists(cross):
        equal_forms(tap, args, oraclelib.load(cross))
        changed_form(tap, args, oraclelib.load(cross))
        changed_values(tap, args, oraclelib.load(cross))
    for case in oraclelib.cases(args):
        if case.family == "wrong" and case.has("defect.json"):
            wrong_conversion(tap, args, case)
            wrong_values(tap, args, case)
    numbers(tap, args)
    for case, truth in oraclelib.told_cases(args):
        itself(tap, args, case, truth)
    tap.done()


if __name__ == "__main__":
    main()
