#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas that the command prints: sound, each field described, and a name means
one thing in all of them.

schemas.py ROOT BINARY
"""

import json
import subprocess
import sys

import law

DRAFT = "https://json-schema.org/draft/2020-12/schema"

def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key {key} comes twice")
    return dict(pairs)


def walk(node, place="#"):
    """Every node that is a schema, with its place."""
    yield place, node
    for key in ("properties", "$defs"):
        for name, child in node.get(key, {}).items():
            yield from walk(child, f"{place}/{key}/{name}")
    for key in ("anyOf", "oneOf", "prefixItems"):
        for index, child in enumerate(node.get(key, [])):
            yield from walk(child, f"{place}/{key}/{index}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from walk(node[key], f"{place}/{key}")


def leads_somewhere(document, reference):
    node = document
    for step in reference.removeprefix("#/").split("/"):
        if step not in node:
            return False
        node = node[step]
    return True


def node_faults(document, place, node):
    is_property = place.split("/")[-2:-1] == ["properties"]
    if is_property and not {"description", "$ref", "const"} & set(node):
        yield "has no description"
    if "$ref" in node and not leads_somewhere(document, node["$ref"]):
        yield f"refers to {node['$ref']}, which is not there"
    if node.get("additionalProperties") is False:
        yield "forbids unknown fields, which readers ignore"
    for name in node.get("required", []):
        if name not in node.get("properties", {}):
            yield f"requires {name}, which it does not describe"


def document_faults(command, document):
    if document.get("$schema") != DRAFT:
        yield f"$schema is not {DRAFT}"
    if document.get("$id") != f"urn:fsdp-inspect:schema:{command}:1":
        yield f"wrong $id {document.get('$id')}"
    for place, node in walk(document):
        for fault in node_faults(document, place, node):
            yield f"{place} {fault}"


def shared_faults(documents):
    first = {}
    for command, document in documents.items():
        for name, node in document.get("$defs", {}).items():
            home, known = first.setdefault(name, (command, node))
            if node != known and name != "record":
                yield f"schema {command}: {name} is not as in schema {home}"


def draft_faults(documents):
    try:
        import jsonschema
    except ImportError:
        return
    sound = set()  # definitions that an earlier document has, too
    for command, document in documents.items():
        texts = {name: f"{name} {json.dumps(node)}" for name, node in document.get("$defs", {}).items()}
        new = {name: document["$defs"][name] for name, text in texts.items() if text not in sound}
        sound.update(texts.values())
        try:
            jsonschema.Draft202012Validator.check_schema({**document, "$defs": new})
        except jsonschema.SchemaError as error:
            yield f"schema {command}: {error.message}"


def printed(binary, *words):
    return subprocess.run([binary, "schema", *words], stdout=subprocess.PIPE, check=True, text=True).stdout


def check(documents):
    """Documents by command, as text."""
    broken, parsed = [], {}
    for command, text in documents.items():
        try:
            parsed[command] = json.loads(text, object_pairs_hook=no_duplicates)
        except ValueError as error:
            broken.append(f"schema {command}: {error}")
            continue
        broken += [f"schema {command}: {fault}" for fault in document_faults(command, parsed[command])]
    return broken + list(shared_faults(parsed)) + list(draft_faults(parsed))


def main():
    binary = sys.argv[2]
    commands = [line.split()[0] for line in printed(binary).splitlines()]
    return law.verdict(check({command: printed(binary, command) for command in commands}))


if __name__ == "__main__":
    sys.exit(main())
