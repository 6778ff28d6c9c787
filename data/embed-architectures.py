#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of architectures.txt as C, to be built in: embed-architectures.py INPUT > OUTPUT

What a row of the text means is at its start. A word that no row explains does not build.
"""

import json
import re
import sys


def expand(name):
    """Each of the names that its braces stand for."""
    found = re.search(r"\{(.*?)\}", name)
    return [name.replace(found[0], part, 1) for part in found[1].split(",")] if found else [name]


class Tables:
    def __init__(self):
        self.flags, self.sets, self.parts = [], {}, {}
        self.sizes, self.keys, self.known, self.classes = [], [], [], []
        self.families, self.types, self.rows = [], [], None

    def bits(self, words, mark):
        """The flags among these words that have this mark."""
        found = [word[1:] for word in words if word[0] == mark]
        self.flags += [flag for flag in found if flag not in self.flags]
        return " | ".join(found) or "0"

    def read(self, words):
        kind, *rest = words
        rest = [word for part in rest for word in (self.sets[part[1:]] if part[0] == "=" and part != "=" else [part])]
        if kind == "size":
            keys, _, default = " ".join(rest[1:]).partition("=")
            self.sizes.append(f"{{ '{rest[0]}', {json.dumps(keys.strip())}, {json.dumps(default.strip()) if default else 'NULL'} }}")
        elif kind == "flag":
            self.keys += [f"{{ {self.bits(['+' + rest[0]], '+')}, {json.dumps(key)} }}" for key in rest[1:]]
        elif kind == "known":
            self.known.append(f"{{ {json.dumps(rest[0])}, {rest[1]} }}")
        elif kind == "class":
            self.classes.append(f"{{ {self.bits(['+' + rest[1]], '+')}, {json.dumps(rest[0])} }}")
        elif kind == "set":
            self.sets[rest[0]] = rest[1:]
        elif kind == "part":
            self.rows = self.parts.setdefault(rest[0], [])
        elif kind == "family":
            self.rows = []
            self.families.append((*rest[:3], rest[3:], self.rows))
        elif kind == "type":
            sizes = [word for word in rest[1:] if word[0] not in "+?"]
            self.types.append(f"{{ {json.dumps(rest[0])}, &families[{len(self.families) - 1}], {self.bits(rest[1:], '+')}, "
                              f"{self.bits(rest[1:], '?')}, {json.dumps(' '.join(sizes))} }}")
        elif kind == "use":
            self.rows += self.parts[rest[0]]
        else:
            self.rows.append(words)

    def row(self, words, prefix, layer):
        """C rows of a tensor: its name, shape, flags, and what it shares."""
        name, shape, *rest = words
        shape = "" if shape == "scalar" else shape
        facts, memory = f"{self.bits(rest, '+')}, {self.bits(rest, '-')}", name
        for key, value in (word.split("=") for word in rest if word[0] not in "+-"):
            if key == "memory":
                memory = value
            else:
                facts += f", .{key} = {dict(tie='', expert='FSDP_LOAD_EXPERT_')[key]}{value.upper()}"
        names, others = (expand(one.replace("@", layer).replace("^", prefix)) for one in (name, memory))
        for text, other in zip(names, others, strict=True):
            both = text.endswith(".*")
            for end, size in (("weight", shape), ("bias", shape.split(",")[0])) if both else (("", shape),):
                one, kept = (part[:-1] + end if both else part for part in (text, other))
                more = f", .memory = {json.dumps(kept)}" if kept != one else ""
                yield f"{{ {json.dumps(one)}, {json.dumps(size)}, {facts}{more} }}"


def table(kind, name, rows):
    return f"static const struct {kind} {name}[] = {{\n\t" + ",\n\t".join(rows) + "\n};"


def main():
    tables, texts = Tables(), []
    with open(sys.argv[1], encoding="ascii") as stream:
        for line in stream:
            if line.strip() and line[0] != "#":
                tables.read(line.split())
    families = []
    for name, prefix, layer, words, rows in tables.families:
        texts.append(table("row", f"rows_of_{name}", [text for row in rows for text in tables.row(row, prefix, layer.replace("@", ""))]))
        traits = "".join(f", .{word} = true" for word in words if word[0] != "+")
        families.append(f"{{ rows_of_{name}, FSDP_COUNT(rows_of_{name}), {json.dumps(prefix)}, {tables.bits(words, '+')}{traits} }}")
    texts += [table("model_family", "families", families), table("architecture", "architectures", tables.types),
              table("size_key", "size_keys", tables.sizes), table("flag_key", "flag_keys", tables.keys),
              table("known_key", "known_keys", tables.known), table("flag_key", "class_ends", tables.classes)]
    print("enum {\n" + "".join(f"\t{flag} = 1 << {bit},\n" for bit, flag in enumerate(tables.flags)) + "};")
    print("\n".join(texts))


if __name__ == "__main__":
    main()
