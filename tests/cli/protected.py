#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No command replaces or removes what it reads, however source and target are named. Each row is run in a folder of its
own; what was there before is compared by SHA-256, links by what they lead to. Prints TAP.

protected.py BINARY TESTDATA
"""

import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

BINARY, TESTDATA = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SHARD = "model-0000%d-of-00005.safetensors"
ONE = "--to=safetensors"

# REFUSED: status 2, and nothing changed. FREE: status 0, and only what is named behind it changed.
REFUSED, FREE = "refused", "free"
EXPORTS = [
    # ---- a folder of shards and its index
    (REFUSED, "-o M M"),
    (REFUSED, "-o M/ M"),
    (REFUSED, "-o M/. M"),
    (REFUSED, "-o M/../M M"),
    (REFUSED, "-o {}/M M"),
    (REFUSED, "-o M {}/M"),
    (REFUSED, "-o M-link M"),
    (REFUSED, "-o M M-link"),
    (REFUSED, "-o M-link/ M-link"),
    (REFUSED, f"-o M M/{SHARD % 1}"),
    (REFUSED, f"-o {{}}/M M/{SHARD % 3}"),
    (REFUSED, f"-o M-link M/{SHARD % 5}"),
    (REFUSED, f"-o M --separate M/{SHARD % 1}"),
    (REFUSED, f"-o M M-link/{SHARD % 2}"),
    (REFUSED, "-o M M/model.safetensors.index.json"),
    (REFUSED, f"-o M shard-link.safetensors"),
    (REFUSED, f"-o M shard-hard.safetensors"),
    (REFUSED, f"-o hard M"),
    (REFUSED, f"-o links M"),
    (REFUSED, "-o M --with-config=M one.safetensors"),
    (REFUSED, f"{ONE} -o M/{SHARD % 1} M"),
    (REFUSED, f"{ONE} -o M/{SHARD % 2} M/{SHARD % 1}"),
    (REFUSED, f"{ONE} -o {{}}/M/{SHARD % 2} --separate M/{SHARD % 1}"),
    (REFUSED, f"{ONE} -o M/model.safetensors.index.json M"),
    (REFUSED, f"{ONE} -o M/model.safetensors.index.json --separate M/{SHARD % 1}"),
    (REFUSED, f"{ONE} -o M/config.json M"),
    (REFUSED, f"{ONE} -o shard-hard.safetensors M/{SHARD % 1}"),
    (REFUSED, f"{ONE} -o shard-link.safetensors M"),
    (REFUSED, f"{ONE} -o shard-link.safetensors M/{SHARD % 1}"),
    (REFUSED, "--to=raw -o M/below/notes.txt M lm_head.weight"),
    (FREE, "-o M/new M"),
    (FREE, "-o new M"),
    (FREE, "-o old M", "old"),
    (FREE, f"{ONE} -o M/new.safetensors M"),
    (FREE, f"{ONE} -o old/model.safetensors M/{SHARD % 1}", "old"),
    # ---- the index of shards that have none
    (REFUSED, "--index-only M"),
    (REFUSED, "--index-only M-link"),
    (REFUSED, "--index-only run-bare"),
    (FREE, "--index-only bare"),
    # ---- a folder of a run that leads to one
    (REFUSED, "-o run/step-10 run"),
    (REFUSED, "-o run/step-10 -g model.layers.0.** run"),
    (REFUSED, "-o {}/run/step-10 run"),
    (REFUSED, "-o run/step-10/ run-link"),
    (REFUSED, f"{ONE} -o run/step-10/{SHARD % 4} run"),
    (REFUSED, f"{ONE} -o run-link/step-10/{SHARD % 4} run"),
    (FREE, "-o run/new run"),
    # ---- files of ranks
    (REFUSED, f"{ONE} -o R/rank1.pt R/rank0.pt"),
    (REFUSED, f"{ONE} -o R/rank0.pt R/rank0.pt"),
    (REFUSED, f"{ONE} -o R/rank0.pt R"),
    (REFUSED, f"{ONE} -o ./R/../R/rank2.pt {{}}/R/rank0.pt"),
    (REFUSED, f"{ONE} -o R/rank1.pt --separate R/rank0.pt"),
    (REFUSED, "-o R R"),
    (REFUSED, f"{ONE} -o iter/mp_rank_01/model_optim_rng.pt iter/mp_rank_00/model_optim_rng.pt"),
    (REFUSED, f"{ONE} -o {{}}/iter/mp_rank_01/model_optim_rng.pt --separate iter/mp_rank_00/model_optim_rng.pt"),
    (REFUSED, f"{ONE} -o iter/mp_rank_01/model_optim_rng.pt iter"),
    (FREE, f"{ONE} -o iter2/model.safetensors iter1/model.safetensors", "iter2"),
    # ---- DCP
    (REFUSED, "-o D D"),
    (REFUSED, "-o D D/.metadata"),
    (REFUSED, "-o D D/__0_0.distcp"),
    (REFUSED, f"{ONE} -o D/.metadata D"),
    (REFUSED, f"{ONE} -o D/.metadata D/__0_0.distcp"),
    (REFUSED, f"{ONE} -o D/__3_0.distcp D/.metadata"),
    (REFUSED, f"{ONE} -o D/model.fsdp-plan.json D"),
    # ---- one file
    (REFUSED, f"{ONE} -o one.safetensors one.safetensors"),
    (REFUSED, f"{ONE} -o {{}}/one.safetensors one.safetensors"),
    (REFUSED, f"{ONE} -o one-link.safetensors one.safetensors"),
    (REFUSED, f"{ONE} -o one.safetensors one-link.safetensors"),
    (REFUSED, f"{ONE} -o one-hard.safetensors one.safetensors"),
    (REFUSED, f"{ONE} -o one.safetensors --plan=one.safetensors M"),
    (REFUSED, "-o single single/model.safetensors"),
    (REFUSED, "-o single single-hard.safetensors"),
    (REFUSED, f"{ONE} -o one.safetensors - < one.safetensors"),
    (REFUSED, "-o single - < single/model.safetensors"),
    (REFUSED, "--to=raw -o - one.safetensors model.norm.weight >> one.safetensors"),
    (REFUSED, f"--to=raw -o - M lm_head.weight >> M/{SHARD % 1}"),
    (FREE, "-o . one.safetensors"),
    (FREE, "-o C one.safetensors"),
    # ---- archives
    (REFUSED, f"{ONE} -o M.tar M.tar"),
    (REFUSED, f"{ONE} -o M.tar.gz M.tar.gz"),
    (REFUSED, "-o M.tar M.tar"),
    (REFUSED, f"{ONE} -o packed/model.safetensors packed/model.safetensors"),
    (FREE, "-o M M.tar", *("M/" + SHARD % n for n in range(1, 6)), "M/model.safetensors.index.json", "M/config.json",
     "M/generation_config.json"),
    # ---- a download cache
    (REFUSED, "-o hub/models--a--b/snapshots/c hub/models--a--b/snapshots/c"),
    (REFUSED, f"-o hub/models--a--b/snapshots/c hub/models--a--b/snapshots/c/{SHARD % 1}"),
    (REFUSED, "--to=safetensors -o hub/models--a--b/blobs/{blob} hub/models--a--b/snapshots/c"),
    # ---- what options name
    (REFUSED, f"{ONE} -o map.json --map=map.json M"),
    (REFUSED, "-o C --with-config=C M"),
    (REFUSED, f"{ONE} -o C/config.json --with-config=C M"),
    (FREE, f"{ONE} -o list one.safetensors", "list"),
    # ---- the answer and the tensors
    (REFUSED, f"{ONE} -o X --output=json=X M"),
    (REFUSED, f"{ONE} -o X --output=json={{}}/X M"),
    (REFUSED, f"{ONE} -o ./X --output=json=M/../X M"),
    (REFUSED, f"{ONE} -o old/model.safetensors --output=json=old/model.safetensors M"),
    (REFUSED, f"{ONE} -o old-link.safetensors --output=json=old/model.safetensors M"),
    (REFUSED, "-o X --output=json=X M"),
    (REFUSED, "-o X/ --output=json=X M"),
    (REFUSED, "-o old --output=json=old/model.safetensors M"),
    (REFUSED, "-o old --output=json=old/SHA256SUMS M"),
    (REFUSED, f"-o X --output=json=M/{SHARD % 2} M"),
    (REFUSED, f"-o X --output=json=M/{SHARD % 2} M/{SHARD % 1}"),
    (REFUSED, "-o X --output=json=single/config.json single/model.safetensors"),
    (FREE, "-o X --output=json=X.json M"),
    (FREE, "-o old --output=json=old/answer.json M", "old"),
    # ---- no file
    (REFUSED, f"{ONE} -o fifo M"),
]
# Outputs of commands that write nothing else.
OTHERS = [
    (REFUSED, f"info -o json=M/{SHARD % 2} M"),
    (REFUSED, f"info -o json=M/{SHARD % 2} --separate M/{SHARD % 1}"),
    (REFUSED, "info -o json=M/model.safetensors.index.json M-link"),
    (REFUSED, "ls -o csv=R/rank2.pt R/rank0.pt"),
    (REFUSED, "audit -o json=R/rank1.pt --separate R/rank0.pt"),
    (REFUSED, "hash -o json=one-hard.safetensors one.safetensors"),
    (REFUSED, "reshard --to=2 -o json=D/.metadata D/__0_0.distcp"),
    (REFUSED, f"info -o json=links/{SHARD % 1} links"),
    (REFUSED, f"diff -o json=M/{SHARD % 2} one.safetensors M"),
    (FREE, "info -o json=M/new.json M"),
    (FREE, "info -o json=M/new1.json one.safetensors"),
]


def build(root):
    sample = TESTDATA / "hf/llama-sharded"
    names = [SHARD % n for n in range(1, 6)]
    shutil.copytree(sample, root / "M", ignore=shutil.ignore_patterns("expected"))
    (root / "M/below").mkdir()
    (root / "M/below/notes.txt").write_text("mine")
    for to in ("run/step-10", "bare", "run-bare/step-10"):
        shutil.copytree(sample, root / to, ignore=shutil.ignore_patterns("expected"))
    for to in ("bare", "run-bare/step-10"):
        (root / to / "model.safetensors.index.json").unlink()
    shutil.copytree(TESTDATA / "fsdp1/local-w3-uneven/checkpoint", root / "R")
    for rank in (0, 1):
        (root / f"iter/mp_rank_0{rank}").mkdir(parents=True)
        shutil.copy(root / f"R/rank{rank}.pt", root / f"iter/mp_rank_0{rank}/model_optim_rng.pt")
    for step in (1, 2):
        (root / f"iter{step}").mkdir()
        shutil.copy(sample / names[4], root / f"iter{step}/model.safetensors")
    shutil.copytree(TESTDATA / "dcp/fsdp2-w4-small/checkpoint", root / "D")
    shutil.copy(TESTDATA / "demo/step-1234/model.fsdp-plan.json", root / "D")
    shutil.copy(sample / names[4], root / "one.safetensors")
    for folder in ("hard", "links", "old", "C", "single", "packed", "hub/models--a--b/blobs", "hub/models--a--b/snapshots/c"):
        (root / folder).mkdir(parents=True)
    for name in names[:2]:
        (root / "hard" / name).hardlink_to(root / "M" / name)
        (root / "links" / name).symlink_to(f"../M/{name}")
    shutil.copy(sample / names[4], root / "old/model.safetensors")
    (root / "old/SHA256SUMS").write_text("")
    (root / "old/notes.txt").write_text("mine")
    shutil.copy(sample / names[4], root / "single/model.safetensors")
    (root / "single/config.json").write_text("{}")
    (root / "C/config.json").write_text("{}")
    for name in ("map.json", "list"):
        (root / name).write_text("{}")
    for link, to in (("M-link", "M"), ("run-link", "run"), ("shard-link.safetensors", f"M/{names[0]}"),
                     ("one-link.safetensors", "one.safetensors"), ("old-link.safetensors", "old/model.safetensors")):
        (root / link).symlink_to(to)
    for hard, to in (("shard-hard.safetensors", f"M/{names[0]}"), ("one-hard.safetensors", "one.safetensors"),
                     ("single-hard.safetensors", "single/model.safetensors")):
        (root / hard).hardlink_to(root / to)
    with tarfile.open(root / "M.tar", "w") as tar:
        tar.add(sample, "M", filter=lambda member: None if "expected" in member.name else member)
    (root / "M.tar.gz").write_bytes(gzip.compress((root / "M.tar").read_bytes()))
    shutil.copy(root / "M.tar", root / "packed/model.safetensors")
    hub = root / "hub/models--a--b"
    for path in sorted(sample.glob("*.*")):
        blob = hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copy(path, hub / "blobs" / blob)
        (hub / "snapshots/c" / path.name).symlink_to(f"../../blobs/{blob}")
    os.mkfifo(root / "fifo")
    return hashlib.sha256((sample / names[0]).read_bytes()).hexdigest()


def facts(root):
    """What each path is: the text of a link, the digest of a file."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "other"
    return found


class World:
    """The folder of a row, which serves the next one too if nothing in it changed."""

    def __init__(self):
        self.folder = None

    def enter(self):
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="fsdp-inspect-")
            self.blob = build(pathlib.Path(self.folder))
            self.facts = facts(pathlib.Path(self.folder))

    def leave(self):
        if self.folder is not None:
            shutil.rmtree(self.folder)
        self.folder = None


def wrong(world, row, command):
    expected, words, *may = row
    world.enter()
    line = words.replace("{}", world.folder).replace("{blob}", world.blob)
    done = subprocess.run(["/bin/sh", "-c", f'exec "{BINARY}" {command} {line}'], cwd=world.folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    before, after = world.facts, facts(pathlib.Path(world.folder))
    if after != before:
        world.leave()
    said = done.stderr.decode(errors="replace")
    lost = [name for name, what in before.items() if after.get(name) != what and
            not any(name == m or name.startswith(m + "/") for m in may)]
    if lost:
        return f"changed: {lost}"
    if expected == REFUSED and (done.returncode != 2 or after.keys() != before.keys()):
        return f"status {done.returncode}, new: {sorted(after.keys() - before.keys())}: {said}"
    if expected == REFUSED and "fix: " not in said and "hint: " not in said:
        return f"does not say what to do: {said}"
    if expected == FREE and done.returncode not in (0, 3):
        return f"status {done.returncode}: {said}"
    return None


def main():
    rows = [(row, "export --force") for row in EXPORTS] + [(row, "export") for row in EXPORTS if row[0] == REFUSED]
    rows += [(row, "") for row in OTHERS]
    print(f"1..{len(rows)}")
    failed, world = 0, World()
    for number, (row, command) in enumerate(rows, 1):
        why = wrong(world, row, command)
        failed += why is not None
        print(f"{'not ' if why else ''}ok {number} - {row[0]}: {command} {row[1]}")
        if why:
            print("# " + why.replace("\n", "\n# "))
    world.leave()
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
