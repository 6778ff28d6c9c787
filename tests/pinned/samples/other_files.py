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
        file("{}"), file("{", length=2), file("{}", length=1), file("{}", length=3), file(" {}"), file("{} "), file("\t\n{}"),
        file("\r{}"), file("  {}", length=2), file("  {}", length=3), file("  {}"), file("\v{}"), file("[]"),
        file("{}", length=2**56 + 2), file("{}", "x"), file('{"a":{"dtype":"U8","shape":[1],"data_o', length=38),
        one(entry), one(entry, content=""), one(entry, content="xy"),
        *(one(entry, f',"__metadata__":{value}') for value in ["{}", "null", '{"k":"v","k":"w"}', '{"k":1}', "[]"]),
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
    labels = ("".join(f"\\{byte:o}" for byte in content[:8]) + repr(content[8:].decode())[1:-1] for content in contents)
    folder.write("list", *(f"{number:02} {label}\n" for number, label in enumerate(labels)))
