# SPDX-License-Identifier: Apache-2.0
"""Files that are no checkpoints, and headers that are damaged."""

import struct

from .files import Folder, sample


@sample
def files_of_other_programs(folder: Folder):
    """By their first bytes."""
    def lfs_pointer(size):
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize {size}\n"

    def array(version, header, length=118):
        return b"\223NUMPY" + bytes(version) + length.to_bytes(2 if version[0] == 1 else 4, "little") + header.encode()

    sizes = [0, 1, 7, 1023, 1024, 1075, 1126, 1047552, 2**20, 2**30, 2**40, 2**50, 1234567890123456789012]
    pointer, gguf = "version https://git-lfs.github.com/spec/v1\n", b"GGUF" + struct.pack("<IQ", 3, 2)
    folder.variants({
        **{f"lfs-{size}": lfs_pointer(size) for size in sizes},
        "lfs": pointer,
        "lfs-slash": pointer + "size 1/",
        "lfs-colon": pointer + "size 1:",
        "page": "\ufeff \t\r\n<!DOCTYPE HTML><TITLE>x</TITLE>",
        "title": "<HTML><title>A b</title>",
        "title-80": f"<html><title>{1:080}</title>",
        "title-81": f"<html><title>{1:081}</title>",
        "title-open": "<html><title>open",
        "xml": '<?xml version="1.0"?><e/>',
        "error": '{"Error":"x"}',
        "entry": "Entry not found",
        "repository": "Repository Not Found",
        "password": "Invalid username or password.",
        "gguf-23": gguf + b"\1\1" + bytes(5),
        "gguf-24": gguf + b"\1\1" + bytes(6),
        "m-00002-of-00003.gguf": b"GGUF" + struct.pack(">IQQ", 3, 2, 257),
        "m-2-of-x.gguf": b"GGUF" + struct.pack(">IQQ", 0, 2, 257),
        "npy-1": array((1, 0), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  \n"),
        "npy-2": array((2, 0), "{'descr': '|O', 'shape': (3,), }  \n"),
        "npy-3": array((3, 0), "{'descr': '<i8', 'shape': ()}"),
        "npy-cut": array((1, 0), "{'descr': '|O'"),
        "npy-long": array((1, 0), f"{{'descr': '{1:0200}'}}"),
        "zip": b"PK\5\6" + b"0" * 18,
        "hdf5": b"\211HDF\r\n\032\n",
        "ocdbt": b"\014\333\072\052",
        "ocdbt-node": b"\014\333\040\336",
        "ocdbt-version": b"\014\333\022\064",
        "7z": b"7z\274\257\047\034",
        "rar": "Rar!",
        "cabinet": "MSCF",
        "elf": b"\177ELF",
        "pe": "MZ",
        "fat": b"\312\376\272\276",
        "macho": b"\317\372\355\376",
        "script": "#!/bin/sh\n",
        "png": b"\211PNG",
        "pdf": "%PDF",
        "sqlite": "SQLite format 3",
        "parquet": "PAR1",
        "near": "PAR",
    })


@sample
def malformed_safetensors_headers(folder: Folder):
    entry = '"dtype":"U8","shape":[1],"data_offsets":[0,1]'

    def file(header, content="", length=None):
        return struct.pack("<Q", len(header) if length is None else length) + header.encode() + content.encode()

    def one(entry, more="", content="x"):
        return file(f'{{"a":{{{entry}}}{more}}}', content)

    contents = [
        file("{}"), file("{", length=2), file("{}", length=1), file("{}", length=3), file(" {}"), file("{} "),
        file("\t\n{}"), file("\r{}"), file("  {}", length=2), file("  {}", length=3), file("  {}"), file("\v{}"),
        file("[]"), file("{}", length=2**56 + 2), file("{}", "x"),
        file('{"a":{"dtype":"U8","shape":[1],"data_o', length=38),
        one(entry), one(entry, content=""), one(entry, content="xy"),
        *(one(entry, f',"__metadata__":{value}')
          for value in ["{}", "null", '{"k":"v","k":"w"}', '{"k":1}', "[]"]),
        one(entry, f',"a":{{{entry}}}'),
        one('"dtype":"U8","shape":[],"data_offsets":[0,1]'),
        one('"dtype":"U8","shape":[2],"data_offsets":[0,1]'),
        one('"dtype":"U8","shape":[1],"data_offsets":[1,2]', content="xy"),
        one('"dtype":"U8","shape":[1],"data_offsets":[1,0]'),
        one('"dtype":"U8","shape":[1],"data_offsets":[0]'),
        one('"dtype":"U8","shape":[1],"data_offsets":[0,1,1]'),
        one('"dtype":"U8","shape":[-1],"data_offsets":[0,1]'),
        one('"dtype":"F4","shape":[2],"data_offsets":[0,1]'),
        one('"dtype":"F4","shape":[3],"data_offsets":[0,1]'),
    ]
    for number, content in enumerate(contents):
        folder.write(f"{number:02}/x", content)
    labels = ("".join(f"\\{byte:o}" for byte in content[:8]) + repr(content[8:].decode())[1:-1]
              for content in contents)
    folder.write("list", *(f"{number:02} {label}\n" for number, label in enumerate(labels)))


CHECKSUM, LIST_OF_ZIP, DESCRIPTOR = b"\1\2\3\4", b"PK\1\2", b"PK\7\10"


def record(content, size=None, extra=b""):
    """A stored member `a` of a zip; its header may state another size."""
    header = struct.pack("<4sHHHHH", b"PK\3\4", 20, 0, 0, 0, 0)
    size = len(content) if size is None else size
    return header + CHECKSUM + struct.pack("<IIHH", size, size, 1, len(extra)) + b"a" + extra + content


def streamed(content=b"", sizes=b"", flags=8, descriptor=DESCRIPTOR):
    """A member whose sizes follow its content."""
    header = struct.pack("<4sHHHHH", b"PK\3\4", 20, flags, 0, 0, 0)
    tail = descriptor + CHECKSUM + sizes if sizes else b""
    return header + CHECKSUM + struct.pack("<IIHH", 0, 0, 1, 0) + b"a" + content + tail


@sample
def zips_without_an_end(folder: Folder):
    """By what is left of their front."""
    def narrow(size):
        return struct.pack("<II", size, size)

    def wide(size):
        return struct.pack("<QQ", size, size)

    one, described = record(b"abc"), streamed(b"abc", narrow(3))
    far = [262084, 262088, 262089, 262109, 262110, 262111, 262112, 262113, 524250]
    contents = {
        "header": one[:29], "name": one[:30], "data": one[:33], "whole": one,
        "directory": one + LIST_OF_ZIP, "other": one + b"PK\1\3",
        "two": one + record(b"abcd"), "two-cut": one + record(b"abcd")[:34],
        "extra": record(b"de", 2, b"xy") + one, "empty": record(b"") * 3,
        "described": described + streamed(b"abc", wide(3)) + described,
        "nothing": streamed(b"ab\7", narrow(3)) + streamed(b"", narrow(0)) + streamed(b"", wide(0)) + one,
        "wide-cut": streamed(b"abc", wide(3))[:57], "narrow-cut": described[:46],
        "other-size": streamed(b"abcd", narrow(3)),
        "again": streamed(DESCRIPTOR * 2, narrow(8)), "undescribed": streamed(b"PKPK"),
        "flags": record(b"abc")[:6] + b"\7" + record(b"abc")[7:],
        **{f"far-{size}": streamed(bytes(size), narrow(size)) + one for size in far},
        "long": streamed(bytes(68000000)), "long-ones": streamed(bytes(6000000), narrow(6000000)) * 2,
    }
    for title, content in contents.items():
        folder.write(f"{title}/x.pt", content)
    folder.write("list", *(f"{title}\n" for title in contents))


@sample
def msgpack_like_that_of_flax(folder: Folder):
    """With extensions of its type and of others."""
    contents = [
        b"\1\241w\307\1\1abcdef", b"\1\241w\307\1\2abcdef", b"\1\241w\310\0\1\1abcdef", b"\1\241w\310\0\1\2abcdef",
        b"\1\241w\311\0\0\0\1\1abcdef", b"\1\241w\311\0\0\0\1\2abcdef", b"\1\241wabc\307\1\1def",
        b"\1\241wabc\307\1\1de", b"\1\242w\37\307\1\1abcdef", b"\1\242w~\307\1\1abcdef", b"\1\240\307\1\1abcdef",
    ]
    for number, content in enumerate(contents):
        folder.write(f"{number:02}/x", b"\x81" + content[1:])


@sample
def lists_of_paths(folder: Folder):
    """For --files0-from, by the paths in them: one is a model."""
    model, longest = "testdata/torch-zip/state-dict/model.pt", f"{1:04095}"
    lists = [
        f"{model}\0{model}", f"\0{model}\0", f"{model}\0\0", f"{model}\0\0{model}\0", "", f"{longest}\0",
        f"{model}\0{1:04096}\0", f"{1:04096}",
    ]
    folder.write("two", f"{model}\0{model}\0")
    folder.write("one", f"{model}\0")
    for number, content in enumerate(lists):
        folder.write(f"list-{number}", content)
