# SPDX-License-Identifier: Apache-2.0
"""Recordings of SimpleProfiler and of the execution order, in JSON lines."""

import json

from .files import sample


def header(kind, version=1, **fields):
    return {"format": "fsdp-inspect-trace", "version": version, "kind": kind, **fields}


def simple(**fields):
    return header("simple_profiler", **fields)


def handles(*names):
    """Of flat parameters with one parameter each."""
    return [{"id": number, "fqns": [name], "names": [name]} for number, name in enumerate(names)]


def line(value):
    """Of a recording: a text as it is."""
    return value if isinstance(value, str) else json.dumps(value)


def span(kind, dur_ns):
    return {"ev": "span", "type": kind, "dur_ns": dur_ns}


def at(event, kind, **time):
    """A begin or end."""
    return {"ev": event, "type": kind, **time}


@sample
def forward_orders_without_checks(folder):
    """One changes; in the other both iterations use a unit twice."""
    folder.copy("traces/exec_order/changes_rank0.jsonl", "o.jsonl")
    folder.edit("o.jsonl", '"DETAIL"', '"OFF"')
    lines = folder.read("o.jsonl").splitlines(True)[:12]
    lines += lines[1:]
    folder.write("again.jsonl", *lines[:5], *lines[4:17], *lines[16:])


# ---- of SimpleProfiler ----


@sample
def recordings_of_debug_levels(folder):
    for name in ("INFO", "OFF", "DETAIL"):
        folder.copy("traces/simple_profiler/keys_rank0.jsonl", f"{name}.jsonl")
        folder.edit(f"{name}.jsonl", "INFO", name)
    folder.copy("traces/simple_profiler/keys_rank0.jsonl", "OFF_rank1.jsonl")
    folder.edit("OFF_rank1.jsonl", "INFO", "OFF")
    folder.edit("OFF_rank1.jsonl", '"rank": 0', '"rank": 1')


@sample
def spans_from_half_a_second_on_10_ranks(folder):
    for rank in range(10):
        folder.json_lines(f"t{rank}.jsonl", [simple(rank=rank, world_size=10), span("z", rank * 10**9 + 5 * 10**8)])


@sample
def span_of_3_75_seconds(folder):
    folder.json_lines("t.jsonl", [simple(rank=3), span("z", 3750000000)])


@sample
def headers_that_are_wrong(folder):
    start = '{"format": "fsdp-inspect-trace"'
    headers = (
        header("simple_profiler", 2),
        {"format": "fsdp-inspect-trace", "kind": "simple_profiler"},
        {"format": "fsdp-inspect-trace"},
        {"format": "fsdp-inspect-trace", "kind": 5},
        {"format": "fsdp-inspect-trace", "kind": f"{1:080}"},
        {"format": "fsdp-inspect-trace", "kind": f"{1:081}"},
        start,
        '{"format": 1',
    )
    for variant, one in zip(folder.folders(map(str, headers)), headers):
        variant.write("t.jsonl", line(one), "\n")


@sample
def recordings_with_bad_lines(folder):
    """Three, and four."""
    for name, rank, bad in (("a", 0, 3), ("b", 1, 4)):
        lines = [simple(rank=rank, world_size=2), at("begin", "a", t=1), at("end", "a", t=2)] + ["bad"] * bad
        folder.write(f"{name}.jsonl", *(line(one) + "\n" for one in lines))


@sample
def begins_and_ends_that_do_not_match(folder):
    """With the byte order mark and the line ends of Windows."""
    lines = [
        simple(rank=3, world_size=4),
        " ",
        at("begin", "z", t=1.5),
        at("begin", "m", t=2),
        at("begin", "a", t_ns=5),
        at("end", "z", t=1.75),
        at("end", "z", t=2),
        at("begin", "z", t=3),
        at("begin", "z", t=4),
        {"ev": "reset"},
        at("begin", "z", t=5),
        at("end", "z", t=5.5),
        at("end", "z", t=6),
        span("s", 4),
        {"ev": "span", "type": "s"},
        {"ev": "span", "dur_ns": 4},
        span(5, 4),
        at("begin", "q", t="1"),
        at("begin", "q"),
        at("begin", "q", t_ns=1.5, t=1),
        {"ev": "other"},
        '{"ev"',
        r'{"ev": "span", "type": "\u0073", "dur_ns": [1]}',
        r'{"ev": "span", "type": "\u0073", "dur_ns": 6} x',
    ]
    folder.write("t.jsonl", "\ufeff", *(line(one) + "\r\n" for one in lines))


@sample
def sums_at_the_limit_of_64_bits(folder):
    least, most = -(2**63 - 1), 2**63 - 1
    folder.json_lines("most.jsonl", [simple(), at("begin", "a", t_ns=least), at("end", "a", t_ns=0), span("a", 1)])
    folder.json_lines("far.jsonl", [simple(), at("begin", "a", t_ns=least), at("end", "a", t_ns=1)])
    folder.json_lines("fits.jsonl", [simple(), span("a", most - 1), span("a", 1)])


@sample
def recordings_with_repeated_faults(folder, name):
    """Of one and of two spans, open regions, unknown lines, lines that are no JSON, and dumps."""
    dump = {"ev": "dump", "msg": "m"}
    contents = (
        [span("a", 1)], [span("a", 1), span("c", 1)],
        [at("begin", "b", t_ns=1)], [at("begin", "b", t_ns=1), at("begin", "d", t_ns=1)],
        [{}], [{}, {}], ["x"], ["x", "y"], [dump], [dump, dump],
    )
    titles = ("== " + "\n".join(map(line, lines)) for lines in contents)
    for variant, lines in zip(folder.within(name).folders(titles), contents):
        variant.write("t", *(line(one) + "\n" for one in [simple(rank=0), *lines]))


# ---- of the execution order ----


@sample
def recordings_of_69_ranks_that_do_the_same(folder):
    """And of rank 0, which differs."""
    name = "ranks_differ_rank{}.jsonl"
    for rank in range(70):
        folder.copy("traces/exec_order/" + name.format(min(rank, 1)), name.format(rank))
        if rank > 1:
            first, rest = folder.read(name.format(rank)).split(b"\n", 1)
            folder.write(name.format(rank), first.replace(b'"rank": 1,', b'"rank": %d,' % rank), b"\n", rest)


@sample
def iterations_that_diverge_or_not(folder):
    """Of rank 0 in a, and of rank 1 in b and, without a difference, in same."""
    for name, rank, units in (("a", 0, (0, 1, 0, 0)), ("b", 1, (0, 1, 0, 1)), ("same", 1, (0, 1, 0, 0))):
        lines = [header("exec_order", rank=rank, world_size=2, debug_level="INFO", handles=[
            {"id": number, "module": module, "fqns": [f"{module}.w"], "names": [f"{module}.w"]}
            for number, module in enumerate("ab")])]
        for unit in units:
            lines += [{"ev": "pre_forward", "handle": unit, "training": True}, {"ev": "post_forward", "handle": unit},
                      {"ev": "next_iter"}]
        folder.json_lines(f"{name}.jsonl", lines)


@sample
def forwards_that_differ_in_later_iterations(folder, name):
    """The titles have the events without their quotes."""
    recordings = ("a", "a b", "a a", "a a a", "a b | a | a b", "a b | a | a | a", "a b | b", "a b | b a")
    forward = {"ev": "pre_forward", "training": True}
    events = {"a": forward | {"handle": 0}, "b": forward | {"handle": 1}, "|": {"ev": "next_iter"}}
    short = {"a": "{pre_forward,handle:0}", "b": "{pre_forward,handle:1}", "|": "{next_iter}"}
    titles = ("== " + " ".join(short[name] for name in one.split()) for one in recordings)
    units = [{"id": number, "fqns": [name]} for number, name in enumerate("ab")]
    for variant, one in zip(folder.within(name).folders(titles), recordings):
        variant.json_lines("t", [header("exec_order", rank=0, handles=units), *(events[name] for name in one.split())])


TRAINING_STATES = ("IDLE", "FORWARD_BACKWARD", "SUMMON_FULL_PARAMS")
HANDLE_STATES = ("IDLE", "FORWARD", "BACKWARD_PRE", "BACKWARD_POST", "SUMMON_FULL_PARAMS")


def states(event, handle, training, of_handle):
    return {"ev": event, "handle": handle, "training_state": training, "handle_state": of_handle}


def order_of_m():
    return header("exec_order", rank=0, handles=[{"id": 0, "module": "m", "fqns": ["m"], "names": ["m"]}])


@sample
def transitions_between_all_training_states(folder):
    pairs = [(training, of_handle) for training in TRAINING_STATES for of_handle in HANDLE_STATES]
    folder.json_lines("t.jsonl", [order_of_m()] + [
        event for before in pairs for after in pairs
        for event in (states("post_forward", 0, *before), states("state", 0, *after))])


@sample
def training_states_that_are_unknown_or_incomplete(folder):
    fields = (
        {"training_state": "GONE"},
        {"handle_state": "GONE"},
        {"training_state": "GONE", "handle_state": "LOST"},
        {"training_state": "IDLE", "handle_state": "LOST"},
        {"training_state": 5},
        {"training_state": "SUMMON_FULL_PARAMS"},
        {"training_state": "FORWARD_BACKWARD", "handle_state": "FORWARD"},
        {"x": 1},
    )
    for variant, one in zip(folder.folders(map(line, fields)), fields):
        variant.json_lines("t.jsonl", [order_of_m(), {"ev": "state", "handle": 0, **one}])


@sample
def prefetches_in_the_states_of_three_units(folder):
    folder.json_lines("t.jsonl", [
        header("exec_order", rank=0, handles=handles("a", "b", "c")),
        states("state", 0, "IDLE", "FORWARD"),
        states("pre_forward", 0, "FORWARD_BACKWARD", "FORWARD"),
        states("state", 1, "IDLE", "FORWARD"),
        states("state", 1, "IDLE", "BACKWARD_PRE"),
        states("state", 1, "IDLE", "IDLE"),
        states("state", 1, "FORWARD_BACKWARD", "FORWARD"),
        states("state", 1, "SUMMON_FULL_PARAMS", "BACKWARD_PRE"),
        states("post_forward", 0, "IDLE", "IDLE"),
        states("state", 2, "IDLE", "FORWARD"),
        states("state", 2, "IDLE", "BACKWARD_POST"),
        {"ev": "next_iter"},
        states("state", 1, "IDLE", "BACKWARD_PRE"),
        states("state", 0, "FORWARD_BACKWARD", "BACKWARD_PRE"),
        states("state", 2, "IDLE", "BACKWARD_PRE"),
        states("state", 0, "FORWARD_BACKWARD", "BACKWARD_POST"),
        states("state", 0, "IDLE", "IDLE"),
        states("state", 2, "IDLE", "FORWARD"),
    ])
