#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of the manual cannot rot: each line that begins with `$ `, alone (.Dl) or in a literal block, is
run by a shell on a terminal of 73 columns, the lines of a page one after the other in one folder. What
follows a line in its block must be what it prints; a line that is only `...` stands for any number of
lines. A line with nothing behind it must not fail (status 2). Launchers of clusters are stood in for by
scripts that start what they are given. Prints TAP.

manual.py [--update] BINARY [PAGE...]
  --update writes down what the binary says now; read the diff before you commit it.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import readme
import real_size
import sandbox
import terminals

COLUMNS = 73
# jq paints what goes to a terminal.
PAINT = re.compile(r"\033\[[0-9;]*m")
# What the lines of the pages are about.
FOLDER = r"""
cp -r testdata/demo/step-1234 step-1234
cp -r testdata/demo/step-1234 consolidated
mkdir -p runs/exp7 model release ranks plans
cp -r testdata/runs/dcp-half-written/run/step-* runs/exp7/
cp testdata/hf/llama-sharded/*.* model/
cp testdata/hf/llama-sharded/*.* release/
cp testdata/torch-zip/state-dict/model.pt model.pt
cp testdata/torch-zip/state-dict/model.pt pytorch_model.bin
cp testdata/lightning/trainer-ckpt/last.ckpt last.ckpt
cp -r testdata/fsdp1/local-w3-uneven/checkpoint/* ranks/
cp testdata/fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json plans/net.fsdp-plan.json
cp -r testdata/megatron/legacy-gated-tp2/iter_0000001 iter_0000001
for rank in 0 1 2 3; do
	cp testdata/traces/gpu_generated/new_args_rank$rank.pt.trace.json.gz trace-rank$rank.json.gz
done
for rank in 0 1; do
	cp testdata/traces/exec_order/ranks_differ_rank$rank.jsonl rank$rank.order.jsonl
done
cp testdata/traces/simple_profiler/keys_rank0.log train.log
cp "$(ls testdata/traces/fx/*.jsonl | head -n 1)" model.fx.jsonl
cp testdata/traces/flight_recorder/nccl_json_w4/nccl_* .
cp testdata/traces/memory/oom_w8/*.pickle .
cp testdata/traces/watchdog/stuck_2_4_w4.log slurm-4711.out
cp testdata/traces/printed_models/fsdp2_some_noise.log printed.log
mkdir traces .zfunc
cp trace-rank*.json.gz traces/
fsdp-inspect export -q --map=hf-llama -g '!**.bias' -o converted iter_0000001 > /dev/null
fsdp-inspect replay --json trace-rank*.json.gz > last.json
printf '["l1.bias", "l1.weight", "l3.weight"]' > expected-names.json
zstd -q -k model.pt || true
fsdp-inspect fqns --flat -o text -q step-1234 > expected.txt
"""
# The first process that a launcher would start; all tasks of an array.
LAUNCHER = r"""#!/bin/sh
tasks=1
while [ $# -gt 0 ] && [ "$1" != fsdp-inspect ]; do
	case $1 in
	--array=1-*) tasks=${1#--array=1-} ;;
	--wrap)
		for task in $(seq "$tasks"); do
			SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$tasks SLURM_ARRAY_TASK_MIN=1 \
				SLURM_ARRAY_TASK_MAX=$tasks sh -c "$2" || exit
		done
		exit
		;;
	esac
	shift
done
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 exec "$@"
"""
PARALLEL = r"""#!/bin/sh
while [ "$1" != fsdp-inspect ]; do
	shift
done
while read -r number; do
	sh -c "$(printf '%s ' "$@" | sed "s/{}/$number/")" || exit
done
"""
QUIET = "#!/bin/sh\ncat > /dev/null\n"
STUBS = {"sbatch": LAUNCHER, "srun": LAUNCHER, "torchrun": LAUNCHER, "parallel": PARALLEL,
         "ncdu": QUIET, "source": QUIET, "deploy": "#!/bin/sh\n"}
# Programs that lines of the pages call, and that need not be installed.
OTHERS = ("jq", "zstd")
BEGIN, END = ".Bd -literal", ".Ed"


def plain(line):
    """What a line of mdoc prints."""
    line = line[2:] if line.startswith("\\&") else line
    return line.replace("\\(dq", '"').replace("\\(aq", "'").replace("\\-", "-").replace("\\e", "\\")


def mdoc(line):
    line = line.replace("\\", "\\e")
    return "\\&" + line if line[:1] in (".", "'") else line


def goes_on(command):
    return command.endswith(("|", "\\")) or command.count("'") % 2 == 1


def commands(page):
    """[first line, line behind the command, line behind what it prints, command], counted from 0."""
    lines, found, inside = page.split("\n"), [], False
    for number, line in enumerate(lines):
        inside = line.startswith(BEGIN) or (inside and line != END)
        if line.startswith(".Dl $ "):
            found.append([number, number + 1, number + 1, plain(line[6:])])
        elif inside and line.startswith("$ "):
            found.append([number, number + 1, number + 1, plain(line[2:])])
        elif inside and found and found[-1][2] == number and lines[found[-1][0]].startswith("$ "):
            one = found[-1]
            one[2] += 1
            if one[1] == number and goes_on(one[3]):
                one[1] += 1
                one[3] += "\n" + plain(line)
    return found


def skipped(command):
    """Why a line is not run, or None."""
    for name in OTHERS:
        if re.search(rf"\b{name} ", command) and not shutil.which(name):
            return f"there is no {name}"
    return None


def documents(page):
    """What literal blocks show that begin as JSON."""
    return re.findall(r"^\.Bd -literal.*\n(\{\n(?:.*\n)*?)\.Ed$", page, re.M)


def furnish(binary, folder, real):
    sandbox.furnish(folder, binary, {readme.REAL: os.path.join(real, readme.REAL)})
    for name, script in STUBS.items():
        path = os.path.join(folder, ".bin", name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(script)
        os.chmod(path, 0o755)
    subprocess.run(["/bin/sh", "-ec", FOLDER], cwd=folder, env=sandbox.environment(folder), check=True)


def on_terminal(binary, line, folder):
    """([line of text...], status) of a shell line whose output is a terminal. Progress, which comes and goes
    with the load of the machine, is off."""
    environment = {**sandbox.environment(folder), "FSDP_INSPECT_PROGRESS": "never"}
    words = [os.path.abspath(binary), *shlex.split(line)[1:]] if sandbox.PLAIN.fullmatch(line) else ["/bin/sh", "-c", line]
    sent, status = terminals.shown(words, COLUMNS, folder, environment)
    return readme.trimmed([one.rstrip() for one in PAINT.sub("", sent).split("\n")]), status


def judge(binary, path, template, update, count):
    """Tests of one page, numbered from count + 1 on: how many there are, and how many failed."""
    with open(path, encoding="utf-8") as stream:
        page = stream.read()
    lines, found, failed, new = page.split("\n"), commands(page), 0, []
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
        if found:
            shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
        for document in documents(page):
            with open(os.path.join(folder, "linear.fsdp-plan.json"), "w", encoding="utf-8") as stream:
                stream.write(document)
        for index, (first, behind, end, command) in enumerate(found, count + 1):
            name = f"{os.path.relpath(path, sandbox.ROOT)} line {first + 1}"
            if why := skipped(command) or terminals.missing():
                print(f"ok {index} - {name} # SKIP {why}")
                continue
            said, status = on_terminal(binary, command, folder)
            expected = readme.trimmed([plain(line) for line in lines[behind:end]])
            good = status != 2 and status < 126 and (not expected or readme.matches(expected, said))
            if update and expected and "..." not in expected:
                new.append((behind, end, [mdoc(line) for line in said] + lines[behind + len(expected):end]))
                good = status != 2
            failed += not good
            print(f"{'ok' if good else 'not ok'} {index} - {name}")
            if not good:
                shown = command.replace("\n", "\n#  ")
                print(f"#  {shown} (status {status})")
                for text in said:
                    print(f"#  | {text}")
    for behind, end, text in reversed(new):
        lines[behind:end] = text
    if new:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines))
    return len(found), failed


def main():
    words = sys.argv[1:]
    update = words[:1] == ["--update"]
    binary, *chosen = words[1:] if update else words
    count = failed = 0
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as real, tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as template:
        real_size.make(os.path.join(real, readme.REAL, "step-1000"))
        furnish(binary, template, real)
        for path in chosen or sorted(glob.glob(os.path.join(sandbox.ROOT, "man", "*.[157]"))):
            of_page = judge(binary, path, template, update, count)
            count, failed = count + of_page[0], failed + of_page[1]
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
