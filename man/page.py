#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a page of the manual: page.py PAGE SELECTORS COMMAND… > OUTPUT

Three requests in a page are replaced by what the command at hand says of itself:

	.\\" OBJECTS      every object of its JSON, printed from the schemas
	.\\" SELECTORS    the options of man/selectors.mdoc that the page's command takes
	.\\" RULES        every rule, by category
"""

import json
import re
import subprocess
import sys


def ask(command, *words):
    return subprocess.run([*command, *words], stdout=subprocess.PIPE, check=True, text=True).stdout


# ---- objects ----

TYPES = {"string": "text", "integer": "integer", "boolean": "boolean", "number": "number",
         "array": "array", "object": "object", "null": "null"}


def sentences(text):
    """Lines of mdoc: a sentence a line, `words` as literals."""
    lines = []
    for sentence in re.split(r"(?<=[.:;?])\s+(?=[A-Z`])", text):
        parts = re.split(r"`([^`]*)`", sentence)
        for i, part in enumerate(parts):
            if i % 2:
                end = re.match(r"[.,;:)]*", parts[i + 1]).group()
                parts[i + 1] = parts[i + 1][len(end):].lstrip()
                lines.append(f".Ql {quoted(part)}" + "".join(f" {c}" for c in end))
            elif part.strip():
                lines.append(plain(part.strip()))
    return lines


def quoted(word):
    word = word.replace("\\", "\\e")
    return f'"{word}"' if " " in word else re.sub(r"^([.,;:()\[\]?!|])$", r"\\&\1", word)


def plain(text):
    text = text.replace("\\", "\\e")
    return "\\&" + text if text[0] in ".'" else text


def reference(node):
    return node["$ref"].rsplit("/", 1)[1] if "$ref" in node else None


def without_null(node):
    choices = [c for c in node.get("anyOf", []) if c.get("type") != "null"]
    if choices and len(choices) < len(node["anyOf"]):
        return (choices[0] if len(choices) == 1 else {"anyOf": choices}), True
    return node, False


def type_of(node):
    """Words for what a field holds, and the schema of the object inside, if it has no name."""
    node, null = without_null(node)
    kinds = node.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    null = null or "null" in kinds or None in node.get("enum", [])
    kinds = [k for k in kinds if k != "null"]
    inner = None
    if reference(node):
        words = reference(node)
    elif "const" in node:
        words = "text"
    elif "anyOf" in node:
        words = " or ".join(type_of(choice)[0] for choice in node["anyOf"])
    elif "enum" in node:
        words = "text"
    elif kinds == ["array"]:
        words, inner = type_of(node.get("items", {}))
        if "prefixItems" in node:
            words = "array of " + " and ".join(type_of(n)[0] for n in node["prefixItems"])
        else:
            words = f"array of {words}"
    elif kinds == ["object"]:
        words = "object"
        if "additionalProperties" in node:
            value, inner = type_of(node["additionalProperties"])
            words = f"object of {value}"
        elif "properties" in node:
            inner = node
    elif kinds == ["number", "string"]:
        words = "number"
    else:
        words = " or ".join(TYPES[k] for k in kinds) or "any"
    return words + (" or null" if null else ""), inner


def enumeration(node):
    if "const" in node:
        return [f".Ql {node['const']} ."]
    words = [w for w in node.get("enum", node.get("items", {}).get("enum", [])) if w is not None]
    if len(words) < 2:
        return [f".Ql {words[0]} ."] if words else []
    return ["One of", ".Cm " + " , ".join(words) + " ."]


def fields(node):
    lines = [".Bl -tag -width Ds"]
    for name, field in node["properties"].items():
        words, inner = type_of(field)
        optional = "" if name in node.get("required", []) else " , optional"
        lines.append(f".It Va {name} Pq {words}{optional}")
        lines += sentences(field.get("description", ""))
        lines += enumeration(field)
        if inner:
            lines += fields(inner)
    return lines + [".El"]


def definition(name, node):
    lines = [f".Ss {name}"]
    lines += sentences(node.get("description", ""))
    if "properties" in node:
        return lines + fields(node)
    for choice in node.get("anyOf", []):
        if "properties" in choice:
            lines += sentences(choice.get("description", "")) + fields(choice)
    return lines


def objects(command):
    schemas = {line.split()[0]: json.loads(ask(command, "schema", line.split()[0]))
               for line in ask(command, "schema").splitlines()}
    users, nodes = {}, {}
    for name, schema in schemas.items():
        for key, node in schema["$defs"].items():
            if key != "record" and not key.endswith("_line"):
                users.setdefault(key, []).append(name)
                nodes[key] = node
    lines = []
    for key, node in nodes.items():
        if len(users[key]) > 1:
            lines += definition(key, node)
    lines.append(".Sh DATA OF EACH COMMAND")
    lines += ["With", ".Fl -separate ,", ".Va data", "has one field,", ".Va checkpoints", ".Pq array of object .",
              "Each element has", ".Va input", ".Pq integer ,", "the", ".Va id",
              "of the input, and the fields below.", "A checkpoint that could not be read has no element;",
              ".Va errors", "has the reason."]
    for name, schema in schemas.items():
        data = schema["properties"]["data"]["anyOf"][0]
        answers = data.get("anyOf", [data])
        lines.append(f".Ss {name}")
        for answer in answers:
            node = schema["$defs"][reference(answer)] if reference(answer) else answer
            if "checkpoints" in node.get("properties", {}):
                continue
            if reference(answer) and len(users[reference(answer)]) > 1:
                lines += ["The object", f".Va {reference(answer)} ."]
            elif "anyOf" in node:
                for choice in node["anyOf"]:
                    lines += sentences(choice.get("description", "")) + fields(choice)
            else:
                lines += sentences(node.get("description", "")) + fields(node)
        own = [k for k in schema["$defs"] if users.get(k) == [name] and {"$ref": f"#/$defs/{k}"} not in answers]
        for key in own:
            about = nodes[key].get("description", "")
            lines += [".Pp", f".Em {key} :"] + sentences(about)
            lines += fields(nodes[key]) if "properties" in nodes[key] else []
    return lines


# ---- selectors ----

def selectors(page, command, path):
    """Items whose options the page's command has."""
    name = re.search(r"fsdp-inspect-([a-z]+)\.1$", page).group(1)
    rows = json.loads(ask(command, "commands", "--json"))["data"]["commands"]
    has = next({option["name"] for option in row["options"]} for row in rows if row["name"] == name)
    lines = [".Bl -tag -width Ds"]
    with open(path, encoding="utf-8") as f:
        for item in re.split(r"(?m)^(?=\.It )", f.read())[1:]:
            if set(re.findall(r"Fl -([a-z-]+)", item.splitlines()[0])) <= has:
                lines += item.splitlines()
    return lines + [".El"]


# ---- rules ----

CATEGORIES = {"structure": "STRUCTURE AND COMPLETENESS", "integrity": "INTEGRITY", "safety": "SAFETY",
              "naming": "COMPATIBILITY AND NAMES", "optimizer": "OPTIMIZERS AND RESUMING",
              "between": "BETWEEN CHECKPOINTS", "recording": "RECORDINGS", "limits": "WHAT COULD NOT BE JUDGED"}
NEEDS = {"data": ".Fl -data", "values": ".Fl -data -values"}


def sentence(text):
    return plain(text[0].upper() + text[1:] + ".")


def rules(command):
    """A section for each category, an item for each rule."""
    found = json.loads(ask(command, "rules", "--json"))["data"]["rules"]
    lines = []
    for category in dict.fromkeys(rule["category"] for rule in found):
        lines += [f".Sh {CATEGORIES.get(category, category.upper())}", ".Bl -tag -width Ds"]
        for rule in (r for r in found if r["category"] == category):
            lines += [f".It Sy {rule['rule']} {rule['slug']} Pq {rule['severity']}", sentence(rule["title"]),
                      ".br", "Cause: " + plain(rule["cause"]) + ".", ".br", "Next: " + plain(rule["fix"]) + "."]
            if rule["level"] in NEEDS:
                lines += [".br", "Needs", NEEDS[rule["level"]] + " ."]
        lines.append(".El")
    return lines


def main():
    page, options, *command = sys.argv[1:]
    with open(page, encoding="utf-8") as f:
        for line in f.read().splitlines():
            if line == '.\\" OBJECTS':
                print("\n".join(objects(command)))
            elif line == '.\\" RULES':
                print("\n".join(rules(command)))
            elif line == '.\\" SELECTORS':
                print("\n".join(selectors(page, command, options)))
            else:
                print(line)


if __name__ == "__main__":
    main()
