# SPDX-License-Identifier: Apache-2.0
"""A checker of JSON Schema for the keywords that the schemas of the command use; any other keyword is an error.

The schemas let unknown fields pass, for the sake of later versions. This checker reports them, and remembers which
fields it has seen. schemas.py compares it with jsonschema, which takes far longer."""

TYPES = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
# Of a document or for its readers.
IGNORED = {"$schema", "$id", "$defs", "title", "description"}
# A boolean is no number, whatever Python says.
EQUAL = {True: "true", False: "false"}


def comparable(value):
    return EQUAL[value] if isinstance(value, bool) else value


class Node:
    """A schema, its references followed when it is first asked."""

    def __init__(self, document, schema, place):
        self.document, self.place = document, place
        schema = dict(schema)
        for key in IGNORED:
            schema.pop(key, None)
        names = schema.pop("type", [])
        self.types = [TYPES[name] for name in ([names] if isinstance(names, str) else names)]
        self.minimum = schema.pop("minimum", None)
        self.values = None
        if "enum" in schema:
            self.values = [comparable(value) for value in schema.pop("enum")]
        if "const" in schema:
            self.values = [comparable(schema.pop("const"))]
        self.required = schema.pop("required", [])
        self.described = "properties" in schema
        self.properties = {name: self.child(inner, f"properties/{name}")
                           for name, inner in schema.pop("properties", {}).items()}
        extra = schema.pop("additionalProperties", None)
        self.extra = self.child(extra, "additionalProperties") if isinstance(extra, dict) else None
        self.any_extra = extra is True and not self.described
        self.any_of = self.children(schema, "anyOf")
        self.one_of = self.children(schema, "oneOf")
        self.prefix = self.children(schema, "prefixItems")
        items = schema.pop("items", None)
        self.items = self.child(items, "items") if items is not None else None
        self.reference = schema.pop("$ref", None)
        if schema or extra is False:
            raise ValueError(f"{place}: {sorted(schema) or 'additionalProperties'} is not checked")

    def child(self, schema, step):
        return Node(self.document, schema, f"{self.place}/{step}")

    def children(self, schema, key):
        return [self.child(inner, f"{key}/{index}") for index, inner in enumerate(schema.pop(key, []))]

    def below(self):
        """All nodes that stand in this one."""
        yield from self.properties.values()
        yield from (*self.any_of, *self.one_of, *self.prefix)
        yield from filter(None, (self.extra, self.items))

    def target(self):
        return self.document.node(self.reference)

    def own_fault(self, value):
        """What this schema alone says against a value, without what stands below."""
        if self.types and not any(fits(value) for fits in self.types):
            return "has another type"
        if self.values is not None and comparable(value) not in self.values:
            return "is none of the values"
        if self.minimum is not None and TYPES["number"](value) and value < self.minimum:
            return f"is less than {self.minimum}"
        if isinstance(value, dict):
            for name in self.required:
                if name not in value:
                    return f"has no {name}"
        return None

    def inner(self, key):
        """The nodes for an item or a field."""
        if isinstance(key, int):
            return self.prefix[key] if key < len(self.prefix) else self.items
        return self.properties.get(key, self.extra)

    def is_valid(self, value):
        if self.own_fault(value) or self.reference and not self.target().is_valid(value):
            return False
        if self.any_of and not any(one.is_valid(value) for one in self.any_of):
            return False
        if self.one_of and sum(one.is_valid(value) for one in self.one_of) != 1:
            return False
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return all(node is None or node.is_valid(below) for node, below in ((self.inner(key), below) for key, below in inside))


class Document:
    """The nodes of one schema by where they stand: # and #/$defs/NAME are places."""

    def __init__(self, name, schema):
        self.name, self.schema, self.nodes = name, schema, {}

    def node(self, reference):
        if reference not in self.nodes:
            found = self.schema
            for step in filter(None, reference.removeprefix("#").split("/")):
                found = found[int(step)] if isinstance(found, list) else found[step]
            self.nodes[reference] = Node(self, found, self.name + reference)
        return self.nodes[reference]


class Walk:
    """Walks values beside their schemas: fault() is what is wrong with one, `seen` the places of all fields that were
    there, `unknown` those that no schema names. place_of gives the name of a place that a reference leads to."""

    def __init__(self, place_of):
        self.place_of = place_of
        self.seen, self.unknown = set(), set()

    def parts(self, node, place, value, path):
        """(node, place) of all that applies: references, every branch of anyOf and oneOf that fits. Or a fault."""
        todo, found = [(node, place)], []
        while todo:
            node, place = todo.pop()
            fault = node.own_fault(value)
            if fault:
                return None, f"{path} {fault}"
            found.append((node, place))
            if node.reference:
                at = self.place_of(node.document.name, node.reference)
                self.seen.add(at)
                todo.append((node.target(), at))
            for key, branches in (("anyOf", node.any_of), ("oneOf", node.one_of)):
                fitting = [index for index, one in enumerate(branches) if one.is_valid(value)]
                if branches and not fitting:
                    likely = [one for one in branches if not one.own_fault(value)][:1]
                    return None, self.fault([(one, place) for one in likely], value, path) or f"{path} fits none of {key}"
                if key == "oneOf" and len(fitting) > 1:
                    return None, f"{path} fits {len(fitting)} of oneOf"
                todo += [(branches[index], f"{place}/{key}/{index}") for index in fitting]
        return found, None

    def fault(self, given, value, path):
        """given: (node, place) of all that the field above says of this one."""
        parts = []
        for node, place in given:
            found, fault = self.parts(node, place, value, path)
            if fault:
                return fault
            parts += found
        if isinstance(value, list):
            for index, below in enumerate(value):
                inner = [(node.inner(index), f"{place}/{'items' if index >= len(node.prefix) else f'prefixItems/{index}'}")
                         for node, place in parts if node.inner(index) is not None]
                fault = self.fault(inner, below, path + "[]") if inner else None
                if fault:
                    return fault
        elif isinstance(value, dict):
            described = any(node.described for node, _ in parts)
            for key, below in value.items():
                inner, known = [], False
                for node, place in parts:
                    if key in node.properties:
                        inner.append((node.properties[key], f"{place}/properties/{key}"))
                        self.seen.add(inner[-1][1])
                    elif node.extra is not None:
                        inner.append((node.extra, place + "/additionalProperties"))
                    known |= node.any_extra
                if described and not known and not inner:
                    self.unknown.add(f"{path}.{key}")
                fault = self.fault(inner, below, f"{path}.{key}") if inner else None
                if fault:
                    return fault
        return None
