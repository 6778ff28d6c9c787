#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Law: the JSON Schemas are sound, and what they share is the same in each.

Each file stands alone, so that one document is enough to check one answer. The price is
that shared objects are written once per file; this test keeps the copies equal.

usage: schemas.py SCHEMA-DIRECTORY
"""

import json
import pathlib
import re
import sys

DRAFT = "https://json-schema.org/draft/2020-12/schema"

# Definitions that every file may fill in its own way.
OWN = {"data", "record", "header_record"}

# Objects whose keys come from checkpoints.
OPEN_KEYS = {"mixed_precision", "modules", "names"}


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key {key!r} comes twice")
    return dict(pairs)


def walk(node, place="#"):
    """Every node that is a schema, with its place."""
    yield place, node
    for key in ("properties", "$defs"):
        for name, child in node.get(key, {}).items():
            yield from walk(child, f"{place}/{key}/{name}")
    for key in ("anyOf", "oneOf"):
        for index, child in enumerate(node.get(key, [])):
            yield from walk(child, f"{place}/{key}/{index}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from walk(node[key], f"{place}/{key}")


def resolve(document, reference):
    node = document
    for step in reference.removeprefix("#/").split("/"):
        node = node[step]
    return node


def check_file(path, complain):
    document = json.loads(path.read_text("utf-8"), object_pairs_hook=no_duplicates)
    command, major = re.fullmatch(r"([a-z]+)-([0-9]+)\.json", path.name).groups()
    if document.get("$schema") != DRAFT:
        complain(f"{path.name}: $schema is not {DRAFT}")
    if document.get("$id") != f"urn:fsdp-inspect:schema:{command}:{major}":
        complain(f"{path.name}: wrong $id {document.get('$id')!r}")
    if document["properties"]["schema"] != {
        "description": "Which command wrote the document.",
        "const": f"fsdp-inspect.{command}",
    }:
        complain(f"{path.name}: the property schema names another command")
    used = set()
    for place, node in walk(document):
        described = "description" in node or "$ref" in node
        if place.split("/")[-2:-1] == ["properties"] and not described and "const" not in node:
            complain(f"{path.name}: {place} has no description")
        if "$ref" in node:
            used.add(node["$ref"].split("/")[2])
            try:
                resolve(document, node["$ref"])
            except KeyError:
                complain(f"{path.name}: {place} refers to {node['$ref']}, which is not there")
        if node.get("additionalProperties") is False:
            complain(f"{path.name}: {place} forbids unknown fields; readers ignore them")
        if "additionalProperties" in node and place.rsplit("/", 1)[1] not in OPEN_KEYS:
            complain(f"{path.name}: {place} has keys of its own, but is not known for that")
        for name in node.get("required", []):
            if name not in node["properties"]:
                complain(f"{path.name}: {place} requires {name}, which it does not describe")
    for name in document["$defs"]:
        if name not in used and name != "record":
            complain(f"{path.name}: nothing refers to $defs/{name}")
    return document


def check_shared(documents, complain):
    first = {}
    for name, document in sorted(documents.items()):
        for key, definition in document["$defs"].items():
            if key in OWN:
                continue
            home, known = first.setdefault(key, (name, definition))
            if definition != known:
                complain(f"$defs/{key} differs between {home} and {name}")
        top = {key: value for key, value in document["properties"].items() if key != "schema"}
        home, known = first.setdefault("", (name, (document["required"], top)))
        if (document["required"], top) != known:
            complain(f"the envelope differs between {home} and {name}")


def check_meta(documents, complain):
    try:
        import jsonschema
    except ImportError:
        print("schemas: jsonschema is not installed, so the drafts are not checked")
        return
    for name, document in documents.items():
        try:
            jsonschema.Draft202012Validator.check_schema(document)
        except jsonschema.SchemaError as error:
            complain(f"{name}: {error.message}")


def main():
    folder = pathlib.Path(sys.argv[1])
    complaints = []
    paths = sorted(folder.glob("*.json"))
    if not paths:
        complaints.append(f"{folder}: there are no schemas")
    documents = {path.name: check_file(path, complaints.append) for path in paths}
    check_shared(documents, complaints.append)
    check_meta(documents, complaints.append)
    for line in complaints:
        print(line, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
