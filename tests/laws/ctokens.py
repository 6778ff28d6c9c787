# SPDX-License-Identifier: Apache-2.0
"""C as tokens: what a law of code and scripts/mutation/mutate.py share. Knows no type and expands no macro."""

import collections
import re

TOKEN = re.compile(
    r"""(?P<skip>\s+|/\*.*?\*/|//[^\n]*)
    |(?P<line>^[ \t]*\#(?:/\*.*?\*/|\\\n|[^\n])*)
    |(?P<text>(?:L|u8?|U)?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>\.?\d(?:[eEpP][-+]|[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|.)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)

Token = collections.namedtuple("Token", "kind text begin end")


def scan(source):
    """All tokens, with those of kind `line`: what the preprocessor reads."""
    return [Token(found.lastgroup, found.group(), found.start(), found.end())
            for found in TOKEN.finditer(source) if found.lastgroup != "skip"]


def tokens(source):
    return [token for token in scan(source) if token.kind != "line"]


def nested(all_tokens):
    """(index, whether it is in a function) of each token within braces. What is not in a function is
    in a type or in a table."""
    depth, inside = 0, False
    for i, token in enumerate(all_tokens):
        if token.text == "{" and token.kind == "sign":
            if depth == 0:
                inside = i > 0 and all_tokens[i - 1].text == ")"
            depth += 1
        elif token.text == "}" and token.kind == "sign":
            depth -= 1
        elif depth > 0:
            yield i, inside


def bodies(all_tokens):
    """Indices of the tokens inside of functions."""
    return (i for i, inside in nested(all_tokens) if inside)
