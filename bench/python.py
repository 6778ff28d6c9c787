#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs beside safetensors.safe_open and huggingface_hub.

    PATH=build/cli:$PATH PYTHONPATH=contrib/python bench/python.py [TENSORS [RUNS]]

Makes a safetensors file of so many tensors of 4 KiB (10000) and prints the best and the median of so
many runs (5), and the best processor time, that of processes included: names, dtypes and shapes; one
value; all values; each with opening and closing. Needs numpy; what is not installed is left out.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy

import fsdp_inspect


def ours(path):
    def names():
        with fsdp_inspect.open(path) as ck:
            return {name: (ck[name].dtype, ck[name].shape) for name in ck}

    def one(name):
        with fsdp_inspect.open(path) as ck:
            return ck[name].numpy()

    def all_values():
        with fsdp_inspect.open(path) as ck:
            return sum(ck[name].numpy().nbytes for name in ck)

    return names, one, all_values


def safe_open(path):
    from safetensors import safe_open as opened

    def names():
        with opened(path, "numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}
            return {name: (each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}

    def one(name):
        with opened(path, "numpy") as file:
            return file.get_tensor(name)

    def all_values():
        with opened(path, "numpy") as file:
            return sum(file.get_tensor(name).nbytes for name in file.keys())

    return names, one, all_values


def hub(path):
    """What get_safetensors_metadata() does with a file that is here."""
    from huggingface_hub import parse_local_safetensors_file_metadata as parse

    return (lambda: {name: (each.dtype, tuple(each.shape)) for name, each in parse(path).tensors.items()},)


def shown(what, run, runs):
    times, worked = [], []
    for _ in range(runs):
        begin, before = time.perf_counter(), sum(os.times()[:4])
        run()
        times.append(time.perf_counter() - begin)
        worked.append(sum(os.times()[:4]) - before)
    print(f"{what:38} {min(times):7.3f} s  {statistics.median(times):7.3f} s  {min(worked):6.2f} s of the processors", flush=True)


def metadata(path):
    """Microseconds of what an open checkpoint answers without a process."""
    with fsdp_inspect.open(path) as ck:
        names = list(ck)
        for what, run in (("ck[name]", lambda: [ck[name] for name in names]), ("name in ck", lambda: [name in ck for name in names]),
                          ("iteration", lambda: list(ck)), ("shape, dtype, nbytes, pieces", lambda: [
                              (each.shape, each.dtype, each.nbytes, each.pieces) for each in map(ck.__getitem__, names)])):
            best = min(timed(run) for _ in range(5))
            print(f"{what:38} {best / len(names) * 1e6:7.2f} µs each")


def timed(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main():
    tensors, runs = ([int(word) for word in sys.argv[1:]] + [10000, 5][len(sys.argv) - 1:])[:2]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as stream:
            row = numpy.arange(1024, dtype="<f4")
            fields = ",".join(f'"layers.{i}.weight":{{"dtype":"F32","shape":[32,32],"data_offsets":[{4096 * i},{4096 * (i + 1)}]}}'
                              for i in range(tensors)).encode()
            header = b"{" + fields + b"}"
            header += b" " * (-len(header) % 8)
            stream.write(len(header).to_bytes(8, "little") + header)
            for i in range(tensors):
                stream.write((row + i).tobytes())
        name = f"layers.{tensors // 2}.weight"
        for who, of in (("fsdp_inspect", ours), ("safe_open", safe_open), ("huggingface_hub", hub)):
            try:
                made = of(path)
            except ImportError as missing:
                print(f"{who}: {missing}")
                continue
            shown(f"{who}: names, dtypes, shapes", made[0], runs)
            if len(made) > 1:
                assert numpy.array_equal(made[1](name), (row + tensors // 2).reshape(32, 32)) and made[2]() == 4096 * tensors
                shown(f"{who}: one value", lambda: made[1](name), runs)
                shown(f"{who}: all values", made[2], runs)
        metadata(path)


if __name__ == "__main__":
    main()
