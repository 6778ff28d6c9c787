#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Recipes of contrib/, as far as they run without what they are for.

setup() {
	cd "$BATS_TEST_TMPDIR"
	good=$TESTDATA/demo/step-1234
	bad=$TESTDATA/broken/dcp-lfs-pointer/checkpoint
}

# A folder without any checkpoint, and one that is not there: root reads what permissions forbid.
empty() { mkdir -p empty && echo empty; }

# A pickle that calls posix.system("true").
hostile() { printf '\x80\x02cposix\nsystem\nX\x04\x00\x00\x00trueq\x00\x85R.' >"$1"; }

repository() {
	git init -q repository
	cd repository
	git config user.name test
	git config user.email test@example.org
	cp -r "$good" "step 1"
	cp -r "$TESTDATA/hf/llama-sharded" model && rm -r model/expected
	chmod -R u+w .
	echo text >notes.txt
	git add -A && git commit -qm one
}

changed() {
	run "$CONTRIB/ci/audit-changed" "$@"
}

@test "audit-changed: shards are one checkpoint, the worst status counts" {
	changed "$good/__0_0.distcp" "$good/__1_0.distcp" "$good/.metadata" README.md
	[ "$status" -eq 0 ]
	changed "$bad/__0_0.distcp" "$good/__0_0.distcp"
	[ "$status" -eq 1 ]
	[ "$(grep -c 'bad. 1 error' <<<"$output")" -eq 1 ]
	changed nosuch.pt "$bad/__0_0.distcp"
	[ "$status" -eq 2 ]
	changed notes.txt
	[ "$status" -eq 0 ]
	[ "$output" = "audit-changed: not audited: notes.txt" ]
	changed "$(empty)"
	[ "$status" -eq 2 ]
	mkdir bin
	printf '#!/bin/sh\nkill -SEGV $$\n' >bin/fsdp-inspect && chmod +x bin/fsdp-inspect
	PATH=$PWD/bin:$PATH changed "$good/.metadata"
	[ "$status" -eq 2 ]
	rm bin/fsdp-inspect
	PATH=$PWD/bin:/usr/bin:/bin command -v fsdp-inspect || {
		PATH=$PWD/bin:/usr/bin:/bin changed "$good/.metadata"
		[ "$status" -eq 2 ]
	}
}

@test "audit-changed: what changed since a commit" {
	repository
	changed --since=HEAD
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	truncate -s 100 "step 1/__1_0.distcp"
	changed --since=HEAD -ojson=audit.json
	[ "$status" -eq 1 ]
	[[ $(jq -rf "$CONTRIB/ci/github.jq" audit.json) == *"::error file="* ]]
	cd "step 1"
	changed --since=HEAD
	[ "$status" -eq 1 ]
}

@test "audit-changed: a base that is none is no reason to pass" {
	local base
	repository
	truncate -s 100 "step 1/__1_0.distcp"
	git commit -qam cut
	for base in "" 0000000000000000000000000000000000000000; do
		changed --since=$base
		[ "$status" -eq 1 ]
	done
	for base in nosuch 1234567890123456789012345678901234567890 --output=x -x HEAD:notes.txt; do
		changed "--since=$base"
		[ "$status" -eq 2 ]
		[[ $output == *"no such commit"* ]]
	done
	rm -rf .git
	changed --since=HEAD
	[ "$status" -eq 2 ]
	changed --since=
	[ "$status" -eq 2 ]
}

@test "audit-changed: what is left of deleted files is audited" {
	repository
	rm model/model-00003-of-00005.safetensors
	changed --since=HEAD
	[ "$status" -eq 1 ]
	PRE_COMMIT=1 changed
	[ "$status" -eq 0 ] # not staged
	git add -A
	PRE_COMMIT=1 changed notes.txt
	[ "$status" -eq 1 ]
	git reset -q --hard && rm "step 1/.metadata"
	changed --since=HEAD
	[ "$status" -eq 1 ]
	git reset -q --hard && rm model/*.safetensors model/*.index.json
	changed --since=HEAD
	[ "$status" -eq 1 ]
	git reset -q --hard && rm -r model
	changed --since=HEAD
	[ "$status" -eq 0 ]
	[[ $output == *"not audited: model/config.json (deleted)"* ]]
	git reset -q --hard
	cp "$TESTDATA"/fsdp1/local-w2-conv/checkpoint/rank*.pt . && git add -A && git commit -qm ranks
	changed --since=HEAD~1
	[ "$status" -eq 0 ]
	rm rank0.pt
	changed --since=HEAD
	[ "$status" -eq 1 ]
}

@test "audit-changed: a file is no option, whatever its name" {
	hostile m.pt
	echo text >--fail-on=none
	changed --fail-on=none m.pt
	[ "$status" -ne 0 ]
	[[ $output == *FI3001* ]]
	changed -- --fail-on=none m.pt
	[ "$status" -ne 0 ]
	[[ $output == *FI3001* ]]
	mv m.pt -- --rule=FI3001=off.pt
	changed --rule=FI3001=off.pt
	[ "$status" -eq 1 ]
	[[ $output == *FI3001* ]]
	mv -- --rule=FI3001=off.pt --since=HEAD
	changed --since=HEAD
	[ "$status" -eq 1 ]
	[[ $output == *FI3001* ]]
}

@test "audit-changed: files that belong to a checkpoint" {
	local name
	for name in adapter_model.bin training_args.bin x.pkl x.pickle weights.bin no-suffix.dat; do
		hostile "$name"
		changed "$name"
		[ "$status" -eq 1 ] && [[ $output == *FI3001* ]] || { echo "$name $status $output"; false; }
		rm "$name"
	done
	cp -r "$TESTDATA/hf/llama-sharded" model && chmod -R u+w model
	sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 9/' model/config.json
	changed model/config.json
	[ "$status" -eq 1 ]
	cp "$TESTDATA/hf/llama-sharded/config.json" model/
	for name in adapter_config.json tokenizer.json tokenizer_config.json tokenizer.model vocab.json merges.txt generation_config.json; do
		[ -e model/$name ] || echo '{}' >model/$name
		changed model/$name
		[ "$status" -ne 2 ]
		[[ $output != *"not audited"* ]]
		rm model/$name
	done
	# Nothing that such a name is beside.
	echo '{}' >config.json
	changed config.json firmware.bin
	[ "$status" -eq 0 ]
	[[ $output == *"not audited: config.json"*"not audited: firmware.bin"* ]]
}

@test "slurm: a prolog stops what would load a bad checkpoint" {
	local from task
	RESUME_FROM=$good run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 0 ]
	mkdir bin
	printf '#!/bin/sh\necho "cancelled $*" >>cancelled\n' >bin/scancel && chmod +x bin/scancel
	for from in "$bad" "$(empty)" nowhere "$TESTDATA/foreign/gguf"; do
		for task in 0 1; do
			rm -f cancelled
			RESUME_FROM=$from SLURM_PROCID=$task SLURM_JOB_ID=7 SLURM_STEP_ID=3 PATH=$PWD/bin:$PATH run "$CONTRIB/slurm/prolog.sh"
			[ "$status" -eq 1 ]
			[ "$(cat cancelled)" = "cancelled 7.3" ]
		done
	done
	RESUME_FROM=$bad SLURM_JOB_ID=7 run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 1 ]
	run "$CONTRIB/slurm/prolog.sh"
	[ "$status" -eq 0 ]
}

@test "slurm: a job resumes from the newest step, begins with an empty run, or stops" {
	mkdir run
	RUN=run TRAIN=echo run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 0 ]
	[[ $output != *--resume* ]]
	cp -r "$good" run/step-1234
	RUN=run TRAIN=echo run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 0 ]
	[[ $output == *--resume=*step-1234* ]]
	# Not one of these is a reason to begin anew, over what is there.
	rm -r run/step-1234 && cp -r "$bad" run/step-1234
	RUN=run TRAIN="echo started" run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 1 ]
	[[ $output != *started* ]]
	rm -r run && mkdir run && echo step-7 >run/latest
	RUN=run TRAIN="echo started" run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 1 ]
	[[ $output != *started* ]]
	RUN=nowhere TRAIN="echo started" run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 1 ]
	[[ $output != *started* ]]
	mkdir bin
	for code in 2 3 126 139; do
		printf '#!/bin/sh\necho run/step-1234\nexit %d\n' $code >bin/fsdp-inspect && chmod +x bin/fsdp-inspect
		RUN=run TRAIN="echo started" PATH=$PWD/bin:$PATH run bash "$CONTRIB/slurm/resume.sbatch"
		[ "$status" -eq 1 ]
		[[ $output != *started* ]]
	done
}

@test "slurm, bucket: a run at a URL" {
	local line
	export FSDP_INSPECT_HELPER=$CONTRIB/../tests/cli/remote_helper.py
	mkdir run && touch run/.keep
	RUN=s3://local$PWD/run TRAIN=echo run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 0 ]
	[[ $output != *--resume* ]]
	cp -r "$good" run/step-1234
	RUN=s3://local$PWD/run TRAIN=echo run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 0 ]
	[[ $output == *--resume=s3://local*step-1234* ]]
	line=$(sed -n 's/^ *run: \(fsdp-inspect audit .*\)$/\1/p' "$CONTRIB/ci/bucket.yml")
	[ -n "$line" ]
	RUN=s3://local$PWD/run run bash -c "$line"
	[ "$status" -eq 0 ]
	cp -r "$bad" run/step-1235
	RUN=s3://local$PWD/run run bash -c "$line"
	[ "$status" -eq 1 ]
	jq -rf "$CONTRIB/ci/github.jq" audit.json | grep -q '^::error file=s3%3A//local.*step-1235'
	RUN=s3://local$PWD/nowhere TRAIN="echo started" run bash "$CONTRIB/slurm/resume.sbatch"
	[ "$status" -eq 1 ]
	[[ $output != *started* ]]
}

@test "kubernetes: a pod starts with every good model, and with no other" {
	local args model
	args=$(sed -n 's/^ *args: \[audit, \(.*\), .model\]$/audit \1/p' "$CONTRIB/kubernetes/init-container.yaml" | tr -d ,)
	[ -n "$args" ]
	for model in "$good" "$TESTDATA"/hf/llama-sharded "$TESTDATA"/safetensors/all-dtypes \
		"$TESTDATA"/torch-zip/state-dict/model.pt "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint; do
		run fsdp-inspect $args "$model"
		[ "$status" -eq 0 ] || { echo "$model $status $output"; false; }
	done
	for model in "$bad" "$(empty)" nowhere "$TESTDATA/foreign/gguf"; do
		run fsdp-inspect $args "$model"
		[ "$status" -ne 0 ]
	done
}

@test "make: a bad checkpoint leaves no answer" {
	local what
	command -v make >/dev/null || skip 'no make'
	cp -r "$good" good && cp -r "$bad" bad && empty
	run make -s -f "$CONTRIB/make/checkpoints.mk" good.weights
	[ "$status" -eq 0 ]
	[ -e good.audit.json ]
	[ -e good.weights/model.safetensors ]
	for what in bad empty nowhere; do
		run make -s -f "$CONTRIB/make/checkpoints.mk" $what.weights
		[ "$status" -ne 0 ]
		[ ! -e $what.audit.json ]
		[ ! -e $what.audit.json.part ]
		[ ! -e $what.weights ]
	done
}

@test "action: the command is the runner's, or built from there" {
	grep -q 'command -v fsdp-inspect && exit' "$CONTRIB/ci/action.yml"
	[ -x "$CONTRIB/../scripts/run" ]
	! grep -rn 'run: pip install fsdp-inspect$' "$CONTRIB"
}

@test "yaml files parse, and name commands that there are" {
	python3 -c 'import yaml' 2>/dev/null || skip 'no yaml'
	python3 - "$CONTRIB" <<-'END'
		import sys, yaml
		pod = yaml.safe_load(open(sys.argv[1] + "/kubernetes/init-container.yaml"))
		assert pod["spec"]["initContainers"][0]["args"][0] == "audit"
		action = yaml.safe_load(open(sys.argv[1] + "/ci/action.yml"))
		assert action["runs"]["using"] == "composite"
		assert "audit" in yaml.safe_load(open(sys.argv[1] + "/ci/bucket.yml"))["jobs"]
		hooks = yaml.safe_load(open(sys.argv[1] + "/../.pre-commit-hooks.yaml"))
		assert hooks[0]["entry"] == "contrib/ci/audit-changed"
	END
}
