# SPDX-License-Identifier: Apache-2.0
"""What samples are made of: files of a folder, and the bytes of formats."""

import glob
import json
import math
import os
import shutil
import struct

TESTDATA = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "testdata"))
BLOCK = 4096


def sample(function):
    """Marks a function that cases may name."""
    function.is_sample = True
    return function


class Folder:
    """Where a case runs. Names are relative to it."""

    def __init__(self, path):
        self.path = path

    def at(self, name):
        """The path of a file that is to be written."""
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, name, *parts):
        """A file of these parts: bytes, or text."""
        with open(self.at(name), "wb") as stream:
            for part in parts:
                stream.write(part.encode() if isinstance(part, str) else part)

    def variants(self, contents):
        """A file for each of title -> bytes, and a list of the titles for `while read -r x; do ... done <list`."""
        for title, content in contents.items():
            self.write(title, content)
        self.write("list", *(f"{title}\n" for title in contents))

    def read(self, name):
        with open(os.path.join(self.path, name), "rb") as stream:
            return stream.read()

    def json(self, name, value):
        """As json.dump writes it, and a newline."""
        self.write(name, json.dumps(value), "\n")

    def json_lines(self, name, values):
        self.write(name, *(json.dumps(value) + "\n" for value in values))

    def copy(self, source, name):
        """A file or folder of testdata/, writable."""
        source, target = os.path.join(TESTDATA, source), self.at(name)
        if not os.path.isdir(source):
            shutil.copyfile(source, target)
            return
        shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
        for path, _, _ in os.walk(target):
            os.chmod(path, 0o755)

    def edit(self, name, old, new):
        """Replaces a text that must be there, each time it is."""
        old, new = (one.encode() if isinstance(one, str) else one for one in (old, new))
        content = self.read(name)
        assert old in content, (name, old)
        self.write(name, content.replace(old, new))

    def within(self, name):
        """A folder of this folder."""
        return Folder(os.path.join(self.path, name))

    def folders(self, titles):
        """Folders 00, 01, ... that a case goes through, each with a title to print."""
        for number, title in enumerate(titles):
            one = self.within(f"{number:02}")
            one.write("title", title, "\n")
            yield one

    def remove(self, name):
        path = os.path.join(self.path, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def directory(self, name):
        os.makedirs(os.path.join(self.path, name), exist_ok=True)

    def move(self, old, new):
        os.rename(os.path.join(self.path, old), self.at(new))

    def link(self, target, name):
        os.symlink(target, self.at(name))

    def names(self, pattern):
        """Of files, in order."""
        return sorted(glob.glob(pattern, root_dir=self.path))

    def change(self, name, at, content):
        """Writes these bytes over those of a file."""
        with open(os.path.join(self.path, name), "r+b") as stream:
            stream.seek(at)
            stream.write(content)

    def write_with_holes(self, name, content):
        """The same file as of write(), with holes for the blocks that are 0."""
        self.write(name)
        for at in range(0, len(content), BLOCK):
            block = content[at:at + BLOCK]
            if block.strip(b"\0"):
                self.change(name, at, block)
        os.truncate(os.path.join(self.path, name), len(content))

    def apart(self, name):
        """A folder in it that has testdata/, too: the same names with other files."""
        self.link(TESTDATA, os.path.join(name, "testdata"))
        return self.within(name)


def safetensors(tensors, alignment=8, **metadata):
    """The bytes of a safetensors file of name -> (dtype, shape, bytes)."""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % alignment)
    return struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in tensors.values())


def plain_zip(members):
    """A zip of (name, bytes), stored, without checksums and times."""
    local, central, members = b"", b"", list(members)
    for name, content in members:
        name, sizes = name.encode(), struct.pack("<III", 0, len(content), len(content))
        central += b"PK\1\2" + bytes(12) + sizes + struct.pack("<HH10xI", len(name), 0, len(local)) + name
        local += b"PK\3\4" + bytes(10) + sizes + struct.pack("<HH", len(name), 0) + name + content
    count = len(members)
    return local + central + b"PK\5\6" + struct.pack("<4xHHIIH", count, count, len(central), len(local), 0)


# ---- pickles, by the names of their opcodes; texts and numbers as protocol 0 writes them ----


def text(value):
    return b"S'%s'\n" % value.encode()


def integer(value):
    return b"I%s\n" % str(value).encode()


def boolean(value):
    return b"I01\n" if value else b"I00\n"


def name_of(path):
    """GLOBAL of "module.Name"."""
    return b"c%s\n%s\n" % tuple(part.encode() for part in path.rsplit(".", 1))


def tuple_of(*items):
    return b"(" + b"".join(items) + b"t"


def integers(*values):
    """A tuple of integers: a shape, or strides."""
    return tuple_of(*map(integer, values))


def call(path, *arguments):
    return name_of(path) + tuple_of(*arguments) + b"R"


def list_of(*items):
    return b"(l" + b"".join(item + b"a" for item in items)


def unicode(value):
    return b"V%s\n" % value.encode()


def binary_unicode(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def dict_of(items, key=text):
    """Of name -> pickled value."""
    return b"(d" + b"".join(key(name) + value + b"s" for name, value in items.items())


def built(path, state=None):
    """An object without arguments, with this state."""
    return name_of(path) + b")\x81" + (state + b"b" if state is not None else b"")


def storage(key, numel, kind="Float", device="cpu", views=False):
    """The persistent id of a storage; a legacy file has its views, too."""
    return tuple_of(text("storage"), name_of(f"torch.{kind}Storage"), text(key), text(device), integer(numel),
                    *([b"N"] if views else [])) + b"Q"


def row_major(shape):
    """Strides of a tensor without gaps."""
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def tensor(where, shape, strides=None, offset=0):
    return call("torch._utils._rebuild_tensor_v2", where, integer(offset), integers(*shape),
                integers(*(strides or row_major(shape))), boolean(False), b")")


def pickled(value, protocol=2):
    return b"\x80%c" % protocol + value + b"."


MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def legacy_file(folder, name, value, storages):
    """As torch.save writes without a zip. storages: key -> (number of elements, bytes)."""
    folder.write(
        name, b"L%dL\n." % MAGIC, integer(LEGACY_PROTOCOL), b".",
        dict_of({"protocol_version": integer(LEGACY_PROTOCOL), "little_endian": boolean(True)}), b".",
        value, b".", list_of(*map(text, storages)), b".",
        *(struct.pack("<Q", numel) + content for numel, content in storages.values()))
