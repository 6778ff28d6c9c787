#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Recipes of contrib/, as far as they run without what they are for.

setup() {
	cd "$BATS_TEST_TMPDIR"
	good=$TESTDATA/demo/step-1234
	bad=$TESTDATA/broken/dcp-lfs-pointer/checkpoint
}

@test "audit-changed: shards are one checkpoint, the worst status counts" {
	run "$CONTRIB/ci/audit-changed" "$good/__0_0.distcp" "$good/__1_0.distcp" "$good/.metadata" README.md
	[ "$status" -eq 0 ]
	run "$CONTRIB/ci/audit-changed" "$bad/__0_0.distcp" "$good/__0_0.distcp"
	[ "$status" -eq 1 ]
	[ "$(grep -c 'bad. 1 error' <<<"$output")" -eq 1 ]
	run "$CONTRIB/ci/audit-changed" nosuch.pt "$bad/__0_0.distcp"
	[ "$status" -eq 2 ]
	run "$CONTRIB/ci/audit-changed" notes.txt
	[ "$status" -eq 0 ]
}

@test "audit-changed: what changed since a commit" {
	git init -q repository
	cd repository
	git config user.name test
	git config user.email test@example.org
	cp -r "$good" "step 1"
	git add -A && git commit -qm one
	run "$CONTRIB/ci/audit-changed" --since=HEAD
	[ "$status" -eq 0 ] && [ -z "$output" ]
	truncate -s 100 "step 1/__1_0.distcp"
	run "$CONTRIB/ci/audit-changed" --since=HEAD -ogithub
	[ "$status" -eq 1 ]
	[[ $output == *"::error file="* ]]
}

@test "slurm: a prolog stops what would load a bad checkpoint" {
	RESUME_FROM=$good run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 0 ]
	RESUME_FROM=$bad run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 1 ]
	RESUME_FROM=$bad SLURM_PROCID=1 run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 0 ]
	run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 0 ]
}

@test "slurm: a job resumes from the newest step, or begins" {
	fsdp-inspect commands --json | grep -q '"name":"latest"' || skip 'this command has no latest'
	mkdir run
	RUN=run TRAIN=echo run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 0 ] && [[ $output != *--resume* ]]
	cp -r "$good" run/step-1234
	RUN=run TRAIN=echo run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 0 ]
	[[ $output == *--resume=*step-1234* ]]
	# What is named is not known to be the newest: training on from it might write over a newer one.
	mkdir bin
	printf '#!/bin/sh\necho run/step-1234\nexit 3\n' >bin/fsdp-inspect && chmod +x bin/fsdp-inspect
	RUN=run TRAIN=echo PATH=$PWD/bin:$PATH run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 1 ]
	[[ $output == *"could not be judged"* && $output != *--resume=* ]]
}

@test "make: a bad checkpoint leaves no answer" {
	command -v make >/dev/null || skip 'no make'
	cp -r "$good" good && cp -r "$bad" bad
	run make -s -f "$CONTRIB/make/checkpoints.mk" good.weights
	[ "$status" -eq 0 ]
	[ -e good.audit.json ] && [ -e good.weights/model.safetensors ]
	run make -s -f "$CONTRIB/make/checkpoints.mk" bad.weights
	[ "$status" -ne 0 ]
	[ ! -e bad.audit.json ] && [ ! -e bad.audit.json.part ] && [ ! -e bad.weights ]
}

@test "yaml files parse, and name commands that there are" {
	python3 -c 'import yaml' 2>/dev/null || skip 'no yaml'
	python3 - "$CONTRIB" <<-'END'
		import sys, yaml
		pod = yaml.safe_load(open(sys.argv[1] + "/kubernetes/init-container.yaml"))
		assert pod["spec"]["initContainers"][0]["args"][0] == "audit"
		action = yaml.safe_load(open(sys.argv[1] + "/ci/action.yml"))
		assert action["runs"]["using"] == "composite"
		hooks = yaml.safe_load(open(sys.argv[1] + "/../.pre-commit-hooks.yaml"))
		assert hooks[0]["entry"] == "contrib/ci/audit-changed"
	END
}
