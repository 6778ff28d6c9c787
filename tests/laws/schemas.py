#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas: sound, alike in what they share, and told field by field in the manual.

Each file stands alone, so that one document is enough to check one answer. The price is
that shared objects are written once per file; this keeps the copies equal.
"""

import json
import os
import re

import law

DRAFT = "https://json-schema.org/draft/2020-12/schema"

# Definitions that every file fills in its own way.
OWN = {"answers", "data", "header_record", "record"}

# Objects whose keys come from checkpoints.
OPEN_KEYS = {"mixed_precision", "modules", "names",
             # words that traces and PyTorch have, and that may become more
             "categories", "deviations", "phases", "types", "handle_state", "prefetch", "training_state"}

PAGE = "man/fsdp-inspect-json.5"


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
    for key in ("anyOf", "oneOf"):
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
    if "additionalProperties" in node and place.rsplit("/", 1)[1] not in OPEN_KEYS:
        yield "has keys of its own, but is not known for that"
    for name in node.get("required", []):
        if name not in node.get("properties", {}):
            yield f"requires {name}, which it does not describe"


def file_faults(path, document):
    command, major = re.fullmatch(r"schema/([a-z]+)-([0-9]+)\.json", path).groups()
    if document.get("$schema") != DRAFT:
        yield f"$schema is not {DRAFT}"
    if document.get("$id") != f"urn:fsdp-inspect:schema:{command}:{major}":
        yield f"wrong $id {document.get('$id')}"
    word = document.get("properties", {}).get("schema", {}).get("const")
    if word != f"fsdp-inspect.{command}":
        yield f"its documents say that they are {word}"
    used = {"record"}
    for place, node in walk(document):
        for fault in node_faults(document, place, node):
            yield f"{place} {fault}"
        if "$ref" in node:
            used.add((node["$ref"].split("/") + ["", ""])[2])
    for name in document.get("$defs", {}):
        if name not in used:
            yield f"nothing refers to $defs/{name}"


def shared_faults(documents):
    first = {}
    for path, document in sorted(documents.items()):
        parts = {f"$defs/{k}": v for k, v in document.get("$defs", {}).items() if k not in OWN}
        rest = {k: v for k, v in document.get("properties", {}).items() if k != "schema"}
        parts["the envelope"] = (document.get("required"), rest)
        for name, part in parts.items():
            home, known = first.setdefault(name, (path, part))
            if part != known:
                yield f"{path}: {name} is not as in {home}"


def draft_faults(documents):
    try:
        import jsonschema
    except ImportError:
        return
    for path, document in documents.items():
        try:
            jsonschema.Draft202012Validator.check_schema(document)
        except jsonschema.SchemaError as error:
            yield f"{path}: {error.message}"


def page_faults(page, documents):
    """Fields that the manual does not name. It names them as variables."""
    variables = re.findall(r"(?m)^\.(?:It )?Va (.*)$", page)
    told = {word for line in variables for word in line.split(" Pq ")[0].split()}
    for path, document in sorted(documents.items()):
        fields = {name for _, node in walk(document) for name in node.get("properties", {})}
        for name in sorted(fields - told):
            yield f"{PAGE}: {name} of {path} is not told"


def check(root):
    documents, broken = {}, []
    for path in law.tracked(root):
        if not re.fullmatch(r"schema/.*\.json", path):
            continue
        try:
            document = json.loads(law.text(root, path), object_pairs_hook=no_duplicates)
        except ValueError as error:
            broken.append(f"{path}: {error}")
            continue
        documents[path] = document
        broken += [f"{path}: {fault}" for fault in file_faults(path, document)]
    broken += shared_faults(documents)
    broken += draft_faults(documents)
    if os.path.exists(os.path.join(root, PAGE)):
        broken += page_faults(law.text(root, PAGE), documents)
    return broken


if __name__ == "__main__":
    law.main(check)
