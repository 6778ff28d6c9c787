# SPDX-License-Identifier: Apache-2.0
"""The elements of every tensor, put together from its pieces, hash to what PyTorch's own
bytes of the whole tensor hash to: over every sample that says so.

A truth file may give the `sha256` of a tensor.
"""
import hashlib
import subprocess

import oraclelib

UNSUPPORTED = 3  # status of the helper
NOT_READ = ("dcp-safetensors",)


def assembled(*command):
    """name -> sha256, or None and why not."""
    run = subprocess.run(command, capture_output=True, timeout=900, check=False)
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


def problems_of(tensors, found):
    for tensor in tensors:
        if "sha256" not in tensor or any(key in tensor for key in oraclelib.NO_TENSOR):
            continue
        digest, why = found.get(tensor["fqn"], (None, "there is no such tensor"))
        if digest != tensor["sha256"]:
            yield f"{tensor['fqn']}: {why or 'other bytes'}"


def judge(tap, args, case, truth, path, *plan):
    name = f"{case.name}: assembled bytes{' with the plan' if plan else ''}"
    found, why = assembled(args.helper, path, *plan)
    if found == {} or truth.get("kind") in NOT_READ:
        tap.skip(name, why or "not read yet")
    elif found is None:
        tap.ok(False, name, [why])
    else:
        tap.none(name, list(problems_of(oraclelib.whole_parameters(truth, plan), found)))


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
        judge(tap, args, case, truth, path)
        # With its plan a flattened parameter is what it was before.
        if "fsdp1-local" in truth.get("kind", "") and case.has("plan.fsdp-plan.json"):
            judge(tap, args, case, truth, path, case.file("plan.fsdp-plan.json"))
    tap.done()


if __name__ == "__main__":
    main()
