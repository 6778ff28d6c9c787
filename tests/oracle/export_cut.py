# SPDX-License-Identifier: Apache-2.0
"""Fifty random models: shards and index are those that huggingface_hub's
split_torch_state_dict_into_shards gives for the same names, shapes and limit, and every
file is byte for byte what the reference writer of safetensors makes of its tensors.

Skipped where numpy, safetensors or huggingface_hub is not installed.
"""
import os
import random
import sys
import tempfile

import oraclelib

# Beside this file lies a packaging.py, which is not the one that they import.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
try:
    import numpy
    import safetensors.numpy
    from huggingface_hub.serialization._base import split_state_dict_into_shards_factory as split
except ImportError:
    oraclelib.skip_all("no numpy, safetensors and huggingface_hub")

MODELS = 50
DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]
WORDS = ["layers", "model", "wei ght", "b", "Größe", "q\"uote", "10", "2", "0", "x" * 40, "norm", "\U0001f600"]


def a_model(seed):
    """name -> array, in the order in which the program lists them."""
    rng = random.Random(seed)
    model = {}
    for _ in range(rng.choice((1, 2, 7, 40, 120))):
        name = ".".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))
        shape = [rng.randint(0, 9) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.1:
            shape = [rng.randint(100, 400)]
        dtype = rng.choice(DTYPES)
        count = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        data = numpy.frombuffer(rng.randbytes(count), numpy.uint8)
        data = data & 1 if dtype == "bool" else data
        model[name] = data.view(dtype).reshape(shape)
    return model, rng.choice((64, 200, 1000, 5000, 10**9))


def judge(args, work, seed):
    problems = []
    model, limit = a_model(seed)
    source, folder = os.path.join(work, "source.safetensors"), os.path.join(work, "out")
    safetensors.numpy.save_file(model, source)
    doc = oraclelib.envelope(oraclelib.run(args, "export", "--json", "--strip=none", f"--max-shard-size={limit}",
                                           "-o", folder, source), problems)
    if doc is None:
        return problems
    in_order = {t["name"]: model[t["name"]] for t in doc["data"]["tensors"]}
    oraclelib.same(problems, "names", sorted(in_order), sorted(model))
    cut = split(in_order, get_storage_size=lambda a: a.nbytes, max_shard_size=limit,
                filename_pattern="model{suffix}.safetensors")
    found = [n for n in sorted(os.listdir(folder)) if n.endswith(".safetensors")]
    oraclelib.same(problems, "files", found, sorted(cut.filename_to_tensors))
    for name in found:
        shard = {k: in_order[k] for k in cut.filename_to_tensors.get(name, ())}
        with open(os.path.join(folder, name), "rb") as stream:
            if stream.read() != safetensors.numpy.save(shard, {"format": "pt"}):
                problems.append(f"{name} is not what the reference writer makes")
    index = os.path.join(folder, "model.safetensors.index.json")
    oraclelib.same(problems, "index", os.path.exists(index), cut.is_sharded)
    if cut.is_sharded:
        told = oraclelib.load(index)
        oraclelib.same(problems, "weight_map", told["weight_map"], cut.tensor_to_filename)
        oraclelib.same(problems, "total_size", told["metadata"]["total_size"], cut.metadata["total_size"])
    return problems


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    for seed in range(MODELS):
        with tempfile.TemporaryDirectory() as work:
            tap.none(f"model {seed}", judge(args, work, seed))
    tap.done()


if __name__ == "__main__":
    main()
