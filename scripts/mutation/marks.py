# SPDX-License-Identifier: Apache-2.0
"""C source with a mark before each statement, and what was marked: which statements a test comes to.

A mark sets a byte of a file that all processes share (marks.c), so neither a signal nor a sandbox keeps it from being
seen. Knows no type: what looks like a statement is one.
"""

import bisect
import os

from ctokens import tokens

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "marks.h")
ROOM = 1024  # of a file
BRANCHES = {"if", "for", "while", "switch"}


def partner(all_tokens, i, step=1):
    """The bracket that belongs to token i, which is one."""
    brackets, depth = {"(": "()", ")": "()", "{": "{}", "}": "{}"}[all_tokens[i].text], 0
    while True:
        if all_tokens[i].kind == "sign" and all_tokens[i].text in brackets:
            depth += 1 if all_tokens[i].text == brackets[0] else -1
        if depth == 0:
            return i
        i += step


class Block:
    """A pair of braces. `mark` is the one last set in it; without statements, as in a type or a table, it is not `code`."""

    def __init__(self, code, mark, after_do=False):
        self.code, self.mark, self.after_do = code, mark, after_do


class Marker:
    """Walks over the tokens of one file."""

    def __init__(self, source):
        self.all, self.inserted, self.count = tokens(source), [], 0
        self.marks = [None] * len(self.all)  # of each token: the last statement that is surely come to before it
        self.blocks, self.parens = [], 0
        self.bodies = {}  # index of the first token of a body -> the word it belongs to
        self.ends = set()  # of bodies that got braces
        self.fresh = False  # a statement begins here
        self.begin = None
        for i in range(len(self.all)):
            self.step(i)

    def set_mark(self, i, text):
        self.inserted.append((self.all[i].begin, text % self.count))
        self.blocks[-1].mark = self.count
        self.count += 1

    def begins(self, i):
        """Token i begins a statement, or the body of one."""
        token, word = self.all[i], self.bodies.get(i)
        if token.text in BRANCHES:
            self.bodies[partner(self.all, i + 1) + 1] = token.text
        elif token.text in ("else", "do"):
            self.bodies[i + 1] = token.text
        if token.text in ("case", "default"):
            self.blocks[-1].mark = self.blocks[-2].mark  # what stands above it may not be come to
        if token.text in ("{", "}", ";", "else", "case", "default"):
            return
        if word and token.text in {*BRANCHES, "do"}:
            return
        if word:
            self.blocks.append(Block(True, self.blocks[-1].mark, word == "do"))
            self.ends.add(self.end(i))
            self.set_mark(i, "{ MARK(%d); ")
        elif self.all[i + 1].text != ":":  # which follows a label
            self.set_mark(i, "MARK(%d); ")
        self.begin = i

    def end(self, i):
        """The semicolon of the simple statement that begins with token i."""
        depth = 0
        while depth or self.all[i].text != ";":
            depth += (self.all[i].text in "({[") - (self.all[i].text in ")}]") if self.all[i].kind == "sign" else 0
            i += 1
        return i

    def opens_code(self, i):
        before = self.all[i - 1].text
        if not self.blocks:
            return before == ")"
        if not self.blocks[-1].code or self.parens:
            return False
        if i in self.bodies or self.fresh:
            return True
        if before != ")" or self.all[self.begin].text == "return":
            return False
        return self.begin == partner(self.all, i - 1, -1) - 1  # a loop made by a macro

    def step(self, i):
        token, block = self.all[i], self.blocks[-1] if self.blocks else None
        if block and block.code and not self.parens and (self.fresh or i in self.bodies):
            self.begins(i)
            block = self.blocks[-1]
        self.marks[i] = block.mark if block else None
        sign = token.text if token.kind == "sign" else ""
        code = self.opens_code(i) if sign == "{" else False
        self.fresh = False
        if sign == "{":
            word = self.bodies.get(i)
            self.blocks.append(Block(code, block.mark if block else None, word == "do"))
            self.fresh = code
        elif sign == "}":
            self.blocks.pop()
            self.fresh = bool(self.blocks) and self.blocks[-1].code and block.code and not block.after_do
        elif sign in ("(", "["):
            self.parens += bool(block) and block.code
        elif sign in (")", "]"):
            self.parens -= bool(block) and block.code
        elif sign == ";" and block and block.code and not self.parens:
            self.fresh = True
            if i in self.ends:
                self.fresh = not self.blocks.pop().after_do
                self.inserted.append((token.end, " }"))
        elif sign == ":" and block and block.code and not self.parens:
            self.fresh = self.ends_label(i)

    def ends_label(self, i):
        """This colon ends a label, not the choice of an expression."""
        if self.all[i - 2].text in (";", "{", "}", ":") and self.all[i - 1].kind == "word":
            return True
        while self.all[i].text not in (";", "{", "}", "?"):
            if self.all[i].text == "case":
                return True
            i -= 1
        return False


class File:
    """Marks of one file: (offset of a token, its mark)."""

    def __init__(self, first, source):
        marker = Marker(source)
        assert marker.count <= ROOM, "ROOM is too small"
        self.first, self.inserted = first, marker.inserted
        self.begins = [token.begin for token in marker.all]
        self.marks = marker.marks

    def mark(self, offset):
        """The mark that is set before what stands at this offset, or None outside of functions."""
        return self.of_token(bisect.bisect_right(self.begins, offset) - 1)

    def mark_behind(self, offset):
        """The mark of the statement that begins behind a brace at this offset."""
        return self.of_token(bisect.bisect_right(self.begins, offset))

    def of_token(self, i):
        return None if self.marks[i] is None else self.first + self.marks[i]

    def text(self, source):
        out, at = [f"#define MARKS_BEGIN {self.first}\n#include \"{HEADER}\"\n#line 1\n"], 0
        for offset, text in self.inserted:
            out += [source[at:offset], text]
            at = offset
        return "".join(out + [source[at:]])
