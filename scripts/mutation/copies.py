# SPDX-License-Identifier: Apache-2.0
"""C source in which a number chooses what is broken: for each mutant a copy of its function, which the function calls
if the number is the mutant's (chosen.c). So all mutants are built at once. Knows no type: a function whose parameters
it cannot name has no copies.
"""

import collections
import itertools
import os
import re

from ctokens import scan
from marks import partner

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chosen.h")
DROPPED = {"static", "extern", "inline", "FSDP_API", "FSDP_CLONES", "HOT", "COLD"}

# Offsets where it begins, where its body does, and where both end; and what its copies need.
Function = collections.namedtuple("Function", "begin open end name kind parameters names")


def parameter_name(all_tokens):
    """Of `type name`, `type name[N]` and `type (*name)(…)`; None of `...`."""
    for i, token in enumerate(all_tokens[:-2]):
        if token.text == "(" and all_tokens[i + 1].text == "*":
            return all_tokens[i + 2].text
    words = [token.text for token in itertools.takewhile(lambda token: token.text != "[", all_tokens) if token.kind == "word"]
    return words[-1] if words else None


def parameter_names(inside):
    """Names of the parameters between the parentheses, or None."""
    parts, depth = [[]], 0
    for token in inside:
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "sign" else 0
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if [token.text for token in inside] in ([], ["void"]):
        return []
    names = [parameter_name(part) for part in parts]
    return None if None in names else names


def kind_of(before):
    """The tokens of the type that a function returns."""
    kept, i = [], 0
    while i < len(before):
        if before[i].text == "__attribute__":
            i = partner(before, i + 1) + 1
            continue
        if before[i].text not in DROPPED:
            kept.append(before[i].text)
        i += 1
    return " ".join(kept)


def first_of_kind(all_tokens, name):
    """Index of the first token of the definition whose name is token `name`. What a macro made may stand before it."""
    begin = name
    while begin > 0:
        before = all_tokens[begin - 1]
        if before.text == ")":
            opening = partner(all_tokens, begin - 1, -1)
            if all_tokens[opening - 1].text != "__attribute__":
                break
            begin = opening - 1
        elif before.kind == "word" or before.text == "*":
            begin -= 1
        else:
            break
    return begin


def functions(source):
    """Those that can have copies, in order."""
    all_tokens, i = scan(source), 0
    while i < len(all_tokens):
        if all_tokens[i].kind != "sign" or all_tokens[i].text != "{":
            i += 1
            continue
        close = partner(all_tokens, i)
        if all_tokens[i - 1].text == ")":
            first = partner(all_tokens, i - 1, -1)
            name = first - 1
            begin = first_of_kind(all_tokens, name)
            names = parameter_names(all_tokens[first + 1:i - 1])
            if names is not None and begin < name:
                yield Function(all_tokens[begin].begin, all_tokens[i].begin, all_tokens[close].end, all_tokens[name].text,
                               kind_of(all_tokens[begin:name]), source[all_tokens[first].begin:all_tokens[i - 1].end],
                               names)
        i = close + 1


def function_at(source, offset):
    """The function whose body this offset is in, or None."""
    return next((one for one in functions(source) if one.open < offset < one.end), None)


def with_copies(source, mutants):
    """The source with a copy for each mutant that has a number."""
    inserted = collections.defaultdict(str)
    for mutant in mutants:
        one, number = function_at(source, mutant.offset), mutant.chosen
        mutant.copy = copy = f"{one.name}__{number}"
        head = re.sub(r"\s+", " ", f"static {one.kind} {copy}{one.parameters}")
        inserted[one.begin] += f"{head}; "
        call = f"{copy}({', '.join(one.names)});"
        call = f"{{ {call} return; }}" if one.kind == "void" else f"return {call}"
        inserted[one.open + 1] += f" if (fsdp_chosen == {number}) {call}"
        inserted[one.end] += f"\n{head}\n{mutant.broken(one.open, one.end)}\n"
    out, at = [f'#include "{HEADER}"\n#line 1\n'], 0
    for offset in sorted(inserted):
        out += [source[at:offset], inserted[offset]]
        at = offset
    return "".join(out + [source[at:]])
