# SPDX-License-Identifier: Apache-2.0
"""The elements of every tensor, put together from its pieces, hash to what PyTorch's own
bytes of the whole tensor hash to: over every sample that says so.

Knows that a truth file may give the `sha256` of a tensor. Refuses to know how one is cut.
"""
import hashlib
import subprocess

import oraclelib

# Not read yet, or not as a tensor of its own.
NO_TENSOR = ("layout", "sha256_of")
UNSUPPORTED = 3  # status of the helper
NOT_READ = ("dcp-safetensors",)


def assembled(program, path):
    """name -> sha256, or None and why not."""
    run = subprocess.run([program, path], capture_output=True, timeout=120, check=False)
    if run.returncode == UNSUPPORTED:
        return {}, run.stderr.decode(errors="replace").strip()
    if run.returncode != 0:
        return None, run.stderr.decode(errors="replace").strip()
    found, at, out = {}, 0, run.stdout
    while at < len(out):
        end = out.index(b"\n", at)
        word, size, name = out[at:end].split(b" ", 2)
        name, _, why = name.partition(b": ")
        name = bytes.fromhex(name.decode()).decode(errors="surrogateescape")
        at = end + 1 + int(size)
        digest = hashlib.sha256(out[end + 1:at]).hexdigest() if word == b"ok" else None
        found[name] = (digest, why.decode(errors="replace"))
    return found, None


def problems_of(truth, found):
    for tensor in truth["tensors"]:
        if "sha256" not in tensor or any(key in tensor for key in NO_TENSOR):
            continue
        digest, why = found.get(tensor["fqn"], (None, "there is no such tensor"))
        if digest != tensor["sha256"]:
            yield f"{tensor['fqn']}: {why or 'other bytes'}"


def main():
    args = oraclelib.arguments(__doc__, helper=None)
    tap = oraclelib.Tap()
    for case in oraclelib.cases(args):
        if not case.has("truth.json"):
            continue
        truth = case.load("truth.json")
        path = case.checkpoint(truth)
        if path is None or not any("sha256" in t for t in truth.get("tensors") or ()):
            continue
        name = f"{case.name}: assembled bytes"
        found, why = assembled(args.helper, path)
        if found == {} or truth.get("kind") in NOT_READ:
            tap.skip(name, why or "not read yet")
        elif found is None:
            tap.ok(False, name, [why])
        else:
            tap.none(name, list(problems_of(truth, found)))
    tap.done()


if __name__ == "__main__":
    main()
