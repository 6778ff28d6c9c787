# SPDX-License-Identifier: Apache-2.0
"""What is exported of a distributed checkpoint is what PyTorch's own converter makes of it: each
sample goes through dcp_to_torch_save, and every tensor that both have must have the same dtype,
shape and bytes. Skipped unless the PyTorch of the samples can be imported.
"""
import os
import tempfile

import oraclelib
from export import read_folder

torch = oraclelib.wanted_torch()
import torch.distributed.checkpoint  # noqa: E402


def leaves(value, path=()):
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, part in parts:
        yield from leaves(part, path + (str(key),))
    if isinstance(value, torch.Tensor):
        yield ".".join(path), value


def raw(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""


def converted(path, work):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    target = os.path.join(work, "model.pt")
    dcp_to_torch_save(path, target)
    loaded = torch.load(target, weights_only=False)
    return dict(leaves(loaded))


def compare(args, path, theirs, work):
    problems, judged = [], 0
    folder = os.path.join(work, "out")
    run = oraclelib.run(args, "export", "--json", "--raw", "--skip-unsupported", "--tie=keep", "-o", folder, path)
    if run.status in (1, 2) and not run.crash:
        return None, run.tail
    doc = oraclelib.envelope(run, problems, statuses=(0, 3))
    tensors, _ = read_folder(folder, problems)
    for told in doc["data"]["tensors"] if doc else ():
        live = theirs.get(told["source"])
        if live is None:
            continue
        judged += 1
        oraclelib.same(problems, f"{told['name']}: dtype", told["dtype"], str(live.dtype).removeprefix("torch."))
        oraclelib.same(problems, f"{told['name']}: shape", told["shape"], list(live.shape))
        if tensors[told["name"]][1] != raw(live):
            problems.append(f"{told['name']}: other bytes than dcp_to_torch_save gives")
    return judged, problems


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    for case in oraclelib.cases(args):
        path = case.checkpoint(case.load("truth.json")) if case.has("truth.json") else None
        if case.family != "dcp" or path is None or not os.path.exists(os.path.join(path, ".metadata")):
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                theirs = converted(path, work)
            except (Exception, torch.distributed.checkpoint.CheckpointException) as error:  # not an Exception
                tap.skip(case.name, f"dcp_to_torch_save: {type(error).__name__}")
                continue
            judged, problems = compare(args, path, theirs, work)
            if not judged:
                tap.skip(case.name, "nothing to compare")
            else:
                tap.none(f"{case.name} ({judged})", problems)
    tap.done()


if __name__ == "__main__":
    main()
