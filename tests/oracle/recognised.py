#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is not read is called by its name, with the evidence and what to do.

Every sample is put together here by its first bytes, after the public description of its format; no library
of that name runs.
"""
import io
import os
import struct
import tarfile
import tempfile
import zipfile

from oraclelib import Tap, arguments, run, same

NPY = b"\x93NUMPY\x01\x00" + struct.pack("<H", 62)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4912345678\n"
PAGE = b"<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>"
GGUF = b"GGUF" + struct.pack("<IQQ", 3, 7, 2) + bytes(40)
CONFIG = b'{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}'


def npy(descr):
    return NPY + f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 3), }}".ljust(61).encode() + b"\n" + bytes(24)


def safetensors():
    head = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + bytes(8)


def zipped(*members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members:
            z.writestr(name, data)
    return out.getvalue()


def locked():
    """A zip of torch.save with the flag of a password."""
    data = bytearray(zipped(("archive/data.pkl", b"\x80\x02}q\x00."), ("archive/version", b"3\n")))
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(magic)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(magic, at + 4)
    return bytes(data)


# What a file holds: (rule, words that have to be said).
FILES = {
    "empty.pt": (b"", "FI4001", "empty file"),
    "zip-end": (b"PK\x05\x06" + bytes(18), "FI4001", "empty zip"),
    "zeros": (bytes(64), "FI9005", "zeros"),
    "model.onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x04\x12\x02ggB\x02\x10\x12", "FI9002", "ONNX"),
    "new.onnx": (b"\x08\xc8\x01(\x07:\x04\x12\x02gg", "FI9002", "ONNX"),
    "cut.onnx": (b"\x08\x08\x12\x07pytorch:\x05\x12\x02gg", "FI9005", "08 08 12"),
    "no-graph.onnx": (b"\x08\x08\x12\x07pytorch", "FI9005", "08 08 12"),
    "m.pt2": (zipped(("m/archive_format", b"pt2"), ("m/data/sample_inputs/model.pt", b"x")), "FI9002", "torch.export"),
    "old.pt2": (zipped(("serialized_exported_program.json", b"{}"), ("serialized_state_dict.pt", b"x")), "FI9002", "torch.export"),
    "model.gguf": (GGUF, "FI9002", "GGUF", "version 3", "7 tensors"),
    "big.gguf": (b"GGUF" + struct.pack(">IQQ", 3, 7, 2), "FI9002", "GGUF", "7 tensors", "big-endian"),
    "x.npy": (npy("<f4"), "FI9002", "NumPy", "(2, 3)"),
    "objects.npy": (npy("|O"), "FI3004", "NumPy", "pickle"),
    "x.npz": (zipped(("x.npy", npy("<f4"))), "FI9002", "NumPy archive", "x.npy"),
    "ppo.zip": (zipped(("data", b"{}"), ("policy.pth", b"PK"), ("_stable_baselines3_version", b"2.7.0")), "FI9002", "Stable-Baselines3 with 3 members (data, policy.pth"),
    "m.keras": (zipped(("config.json", b"{}"), ("model.weights.h5", b"\x89HDF")), "FI9002", "Keras"),
    "m.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "FI9002", "HDF5"),
    "m.dduf": (zipped(("model_index.json", b"{}"), ("unet/model.safetensors", safetensors())), "FI9002", "DDUF"),
    "m.zip": (zipped(("m/model.safetensors", safetensors())), "FI3060", "m/model.safetensors"),
    "locked.pt": (locked(), "FI3044", "encrypted", "password"),
    "m.7z": (b"7z\xbc\xaf\x27\x1c" + bytes(40), "FI3060", "7z"),
    "m.rar": (b"Rar!\x1a\x07\x01\x00" + bytes(40), "FI3060", "rar"),
    "m.cab": (b"MSCF" + bytes(40), "FI3060", "cabinet"),
    "ocdbt": (b"\x0c\xdb\x3a\x2a" + bytes(40), "FI9002", "OCDBT"),
    "ocdbt-node": (b"\x0c\xdb\x20\xde" + bytes(40), "FI9002", "OCDBT"),
    "ocdbt-version": (b"\x0c\xdb\x12\x34" + bytes(40), "FI9002", "OCDBT"),
    "lua.t7": (struct.pack("<iii", 4, 1, 3) + b"V 1" + struct.pack("<i", 13) + b"nn.Sequential" + bytes(40), "FI9002", "Lua Torch"),
    "table.t7": (struct.pack("<iiiii", 3, 1, 1, 2, 1) + b"w" + struct.pack("<iii", 4, 2, 3) + b"V 1" + bytes(40), "FI9002", "Lua Torch"),
    "ascii.t7": (b"4\n1\n3\nV 1\n17\ntorch.FloatTensor\n1\n3\n1\n1\n", "FI9002", "Lua Torch"),
    "near.t7": (struct.pack("<ii", 4, 1) + bytes(40), "FI9005", "04 00 00 00"),
    "ct2.model.bin": (struct.pack("<IH", 6, 16) + b"TransformerSpec\0" + bytes(40), "FI9002", "CTranslate2"),
    "near.model.bin": (struct.pack("<IH", 6, 16) + b"TransformerWord\0" + bytes(40), "FI9005", "06 00 00 00"),
    "sp.model": (b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\x03<s>\x15\0\0\0\0", "FI9002", "SentencePiece"),
    "graph.pb": (b"\n\x16\n\x01x\x12\x0bPlaceholder*\x04abcd", "FI9002", "TensorFlow"),
    "ms.ckpt": (b"\n\x2a\n\x07conv1.w\x12\x1f\x08\x20\x12\x07Float32" + bytes(30), "FI9002", "MindSpore"),
    "net.caffemodel": (b"\n\x07AlexNet\xa2\x06\x20" + bytes(40), "FI9002", "Caffe"),
    "m.mlmodel": (b"\x08\x05\x12\x20\n\x05" + bytes(50), "FI9002", "Core ML"),
    "weight.bin": (struct.pack("<II", 2, 2) + bytes(56) + b"\xef\xbe\xad\xde" + bytes(40), "FI9002", "Core ML"),
    "net.xml": (b'<?xml version="1.0"?>\n<net name="x" version="11">\n<layers>', "FI9002", "OpenVINO"),
    "model.ckpt.index": (bytes(range(60)) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", "FI9002", "TensorFlow checkpoint"),
    "model.ckpt.data-00000-of-00001": (bytes(range(1, 90)), "FI9002", "TensorFlow checkpoint"),
    "ggml.bin": (b"lmgg" + bytes(40), "FI9002", "GGML"),
    "m.tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "FI9002", "TensorFlow Lite"),
    "m.pte": (b"\x1c\0\0\0ET12" + bytes(40), "FI9002", "ExecuTorch"),
    "m.engine": (b"ptrt" + bytes(40), "FI9002", "TensorRT"),
    "yolo.weights": (struct.pack("<iii", 0, 2, 5) + bytes(40), "FI9002", "Darknet"),
    "mx.params": (struct.pack("<QQ", 0x112, 0) + bytes(40), "FI9002", "MXNet"),
    "torn0.pkl": (b"(dp0\nVmodel\np1\n(lp2\nI1\naI2\n", "FI3014", "truncated"),
    "torn1.pkl": (b"}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01K\x02", "FI3014", "truncated"),
    "text.pkl": (b"(density of water)\n", "FI9005", "text"),
    "root.pt": (zipped(("data.pkl", b"\x80\x02}q\x00."), ("version", b"3\n")), "FI3042", "root of the zip"),
    "flax.msgpack": (b"\x81\xa6params\x81\xa1a\xc7\x10\x01" + bytes(16), "FI9002", "Flax"),
    "flax-end": (b"\x81\xa1a\xc7\x10\x01" + bytes(3), "FI9002", "Flax"),
    "flax-cut": (b"\x81\xa1a\xc7\x10\x01" + bytes(2), "FI9005", "81 a1 61"),
    "pointer": (POINTER, "FI4001", "Git LFS", "4.6 GiB", "git lfs pull"),
    "page": (PAGE, "FI4001", "HTML", "404 Not Found"),
    "error.json": (b'{"error": "Repository not found"}', "FI4001", "error message"),
    "entry": (b"Entry not found", "FI4001", "error message"),
    "login": (b"Invalid username or password.", "FI4001", "error message"),
    "xml": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "FI4001", "XML"),
    "mangled": (b"\xef\xbf\xbd\x03" * 300, "FI4001", "U+FFFD"),
    "elf": (b"\x7fELF" + bytes(60), "FI3063", "program"),
    "pe": (b"MZ" + bytes(60), "FI3063", "program"),
    "macho": (b"\xcf\xfa\xed\xfe" + bytes(60), "FI3063", "program"),
    "script": (b"#!/bin/sh\n", "FI3063", "script"),
    "plan.json": (b'{"base_model_tp_plan": {"layers.*": "colwise"}}', "FI9002", "transformers"),
    "config.json": (CONFIG, "FI9005", "configuration", "directory"),
    "adapter_config.json": (b'{"peft_type": "LORA"}', "FI9005", "adapter"),
    "index.json": (b'{"weight_map": {}}', "FI9005", "index of shards"),
    "other.json": (b'{"x": 1}', "FI9005", "JSON"),
    "unknown": (b"\x01\x02\x03\x04 nobody knows this", "FI9005", "01 02 03 04"),
}

# Folders that can be looked into: info lists what lies below.
LISTED = {"diffusers"}
FOLDERS = {
    "tensorrt": ({"rank0.safetensors": safetensors(), "config.json": b'{"mapping": {"world_size": 1}}'},
                 "FI9002", "TensorRT-LLM"),
    "orbax": ({"_CHECKPOINT_METADATA": b"{}", "default/manifest.ocdbt": b"\x0c\xdb\x3a\x2a"}, "FI9002", "Orbax"),
    "orbax-item": ({"default/_METADATA": b"{}", "default/manifest.ocdbt": b"\x0c\xdb\x3a\x2a"}, "FI9002", "Orbax"),
    "zarr": ({"a/.zarray": b"{}", "b/.zarray": b"{}", "a/0": b"x"}, "FI9002", "zarr"),
    "m.mlpackage": ({"Manifest.json": b"{}", "Data/com.apple.CoreML/model.mlmodel": b"\x08\x05\x12\x02\n\x00"}, "FI9002", "Core ML package"),
    "text as metadata": ({".metadata": b"name: x\nversion: 1\n", "notes.txt": b"x"}, "FI9005", "text, not the metadata"),
    "zarr-3": ({"zarr.json": b'{"zarr_format": 3}'}, "FI9002", "zarr"),
    "tensorflow": ({"saved_model.pb": b"\x08\x01", "variables/variables.index": b"x"}, "FI9002", "TensorFlow"),
    "diffusers": ({"model_index.json": b"{}", "unet/model.safetensors": safetensors(), "vae/model.safetensors": safetensors()},
                  "FI9002", "Diffusers", "unet"),
    "gguf": ({f"m-0000{i}-of-00002.gguf": GGUF for i in (1, 2)}, "FI9002", "GGUF", "part 1 of 2"),
    "no weights": ({"config.json": CONFIG}, "FI1001", "without its weights"),
    "pointers": ({"config.json": CONFIG, "model.safetensors": POINTER}, "FI4001", "Git LFS"),
    "pointers behind an index": ({"model.safetensors.index.json": b'{"weight_map": {"a": "model-1.safetensors"}}',
                                  "model-1.safetensors": POINTER}, "FI4001", "Git LFS"),
    "pages": ({"config.json": CONFIG, "pytorch_model.bin": PAGE}, "FI4001", "404 Not Found"),
    "pointers of ranks": ({"rank0.pt": POINTER, "rank1.pt": POINTER}, "FI4001", "Git LFS"),
    "pointers of DCP": ({".metadata": POINTER, "__0_0.distcp": POINTER}, "FI4001", "Git LFS"),
    "pointers of DCP-safetensors": ({"shard-00001-model-00001-of-00001.safetensors": POINTER}, "FI4001", "Git LFS"),
    "pointers of DeepSpeed": ({"global_step1/mp_rank_00_model_states.pt": POINTER,
                               "global_step1/zero_pp_rank_0_mp_rank_00_optim_states.pt": POINTER,
                               "latest": b"global_step1"}, "FI4001", "Git LFS"),
    "a broken download": ({"config.json": CONFIG, "model.safetensors": b""}, "FI4001", "empty file"),
}


def check(args, path, rule, words):
    problems = []
    r = run(args, "info", "--json", path)
    if r.crash:
        return [r.crash]
    same(problems, "status", r.status, 2)
    doc = r.json()
    told = [e.get("rule") for e in doc["errors"]]
    if rule not in told:
        problems.append(f"rules {told}, expected {rule}")
    text = run(args, "info", path).err.decode("utf-8")
    problems += [f"{word!r} is not in {text!r}" for word in words if word not in text]
    return problems


def check_listed(args, path, files):
    listed = run(args, "info", path)
    below = [os.path.dirname(name) for name in files if os.path.dirname(name)]
    missing = [name for name in below if f"\n{name}/".encode() not in listed.out]
    return ([] if listed.status == 0 else [f"status {listed.status}"]) + [f"{name} is not listed" for name in missing]


def main():
    args = arguments(__doc__)
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, (data, rule, *words) in FILES.items():
            path = os.path.join(folder, name)
            with open(path, "wb") as f:
                f.write(data)
            tap.none(f"file: {name}", check(args, path, rule, words))
            os.remove(path)
        for name, (files, rule, *words) in FOLDERS.items():
            top = os.path.join(folder, name)
            for below, data in files.items():
                path = os.path.join(top, below)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(data)
            tap.none(f"folder: {name}", check_listed(args, top, files) if name in LISTED else check(args, top, rule, words))
            if len(files) > 1:
                packed = os.path.join(folder, "packed.tar")
                with tarfile.open(packed, "w") as tar:
                    tar.add(top, "x")
                tap.none(f"packed: {name}", check(args, packed, rule, words))
    tap.done()


main()
