#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Folders that hold more than one checkpoint: which of them is read, and that it is said.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
}

notes() {
	"$FSDP_INSPECT" info --no-plan "$@" 2>&1 >/dev/null | sed -n 's/^note: //p'
}

info() {
	"$FSDP_INSPECT" info --no-plan --json "$@" 2>/dev/null
}

# Findings that are no notes: rule and message.
findings() {
	info "$@" | jq -r '.findings[] | select(.severity != "note") | .rule + " " + .message'
}

step() {
	info "$@" | jq -c '[.data.values[] | select(.name == "global_step") | .value]'
}

# Files of a verl save by 4 ranks, which may go by any world size.
verl() {
	local folder=$1 world=$2 kind rank
	mkdir -p "$folder"
	for ((rank = 0; rank < world; rank++)); do
		for kind in model optim; do
			cp "$TESTDATA/fsdp2/w4-tp/checkpoint/rank$((rank % 4)).pt" "$folder/${kind}_world_size_${world}_rank_$rank.pt"
		done
	done
}

deepspeed() {
	mkdir "$1"
	cp -r "$TESTDATA"/deepspeed/zero2-roundrobin-w2/{global_step2,latest} "$1"
}

@test "of a tag that was converted, both forms are named" {
	deepspeed root
	cp -r root/global_step2 root/global_step2_universal
	mkdir root/global_step1
	printf global_step2_universal > root/latest_universal
	[ "$(notes root)" = "using global_step2 (from latest; also present: global_step1); latest_universal names a checkpoint of its own: global_step2_universal" ]
	rm -r root/global_step1 root/global_step2
	[ "$(notes root)" = "using global_step2_universal (from latest_universal)" ]
	findings root | grep -qx 'FI1011 points to global_step2, which does not exist; global_step2_universal was read'
	rm -r root/global_step2_universal
	run ! info root
}

@test "one tag is named too" {
	deepspeed root
	[ "$(notes root)" = "using global_step2 (from latest)" ]
	[ "$(notes root/global_step2)" = "" ]
}

@test "the steps of a Megatron root are named" {
	cp -r "$TESTDATA"/megatron/legacy-tp2-pp2 root
	for i in 1 2 3 4; do mkdir "root/iter_000000$i"; done
	[ "$(notes root)" = "using iter_0000500 (from latest_checkpointed_iteration.txt; also present: iter_0000001, iter_0000002, iter_0000003 and 1 more)" ]
}

@test "what is not a step does not stand for the release" {
	cp -r "$TESTDATA"/megatron/legacy-tp2-pp2 root
	mv root/iter_0000500 root/release
	echo release > root/latest_checkpointed_iteration.txt
	[ "$(notes root)" = "using release (from latest_checkpointed_iteration.txt)" ]
	[ "$("$FSDP_INSPECT" latest root 2>err)" = root ]
	grep -qxF "note: root: weights to start from (Megatron's release), of no step of a run" err
	cp -r "$TESTDATA"/megatron/legacy-tp2-pp2/iter_0000500 release
	"$FSDP_INSPECT" latest --explain release | grep -q "good    weights to start from"
	mv release steps
	[ "$("$FSDP_INSPECT" latest steps 2>&1 | grep -v "also checks contents")" = steps ]
	echo newest > root/latest_checkpointed_iteration.txt
	[ "$(notes root)" = "" ]
	findings root | grep -qx "FI1011 points to newest, which does not exist; release was read"
}

@test "of the models that verl trains one is read, and the others are named" {
	verl root/global_step_7/actor 4
	verl root/global_step_7/critic 4
	echo 7 > root/latest_checkpointed_iteration.txt
	[ "$(notes root)" = "using global_step_7 (from latest_checkpointed_iteration.txt)
opened the model in actor (also there: critic)" ]
	[ "$(notes root/global_step_7)" = "opened the model in actor (also there: critic)" ]
	[ "$(notes root/global_step_7/critic)" = "" ]
	rm -r root/global_step_7/actor
	[ "$(notes root/global_step_7)" = "opened the model in critic, the only model in this directory" ]
}

@test "a critic is judged with its actor, from wherever it was entered" {
	verl root/global_step_7/actor 4
	verl root/global_step_7/critic 4
	echo 7 > root/latest_checkpointed_iteration.txt
	run "$FSDP_INSPECT" audit root
	[ "$status" = 0 ]
	[[ "$output" = *"global_step_7/actor: critic next to it is another model"*"[FI1012 weights-differ]"* ]]
	rm root/global_step_7/critic/model_world_size_4_rank_1.pt
	run "$FSDP_INSPECT" audit root
	[ "$status" = 1 ]
	[[ "$output" = *"global_step_7/critic/"*"[FI1008 rank-missing]"* ]]
	run "$FSDP_INSPECT" export -o out root
	[ "$status" = 0 ]
	rm root/global_step_7/critic/*
	run "$FSDP_INSPECT" audit root/global_step_7
	[ "$status" = 3 ]
	[[ "$output" = *"critic: it cannot be opened, and was not judged"* ]]
}

@test "a step of verl is known by whichever of its folders is named" {
	verl root/global_step_7/actor 4
	echo 7 > root/latest_checkpointed_iteration.txt
	for path in root root/global_step_7 root/global_step_7// root/global_step_7/actor; do
		[ "$(step "$path")" = "[7]" ]
	done
	mv root/global_step_7 root/other
	[ "$(step root/other)" = "[]" ]
}

@test "verl files of another world size are left out" {
	verl actor 4
	verl actor 8
	echo '{"FSDP_version": 2, "world_size": 4}' > actor/fsdp_config.json
	[ "$(findings actor)" = "FI1007 skipped 16 files of a save by 8 ranks: the other files are of a save by 4 (see fsdp_config.json)" ]
	[ "$(info actor | jq -c '[.data.world_size, .data.counts.files]')" = "[4,8]" ]
	rm actor/*_8_rank_7.pt
	for text in '{}' '{"world_size": 3}' '{"world_size": "4"}' '{'; do
		echo "$text" > actor/fsdp_config.json
		[ "$(findings actor)" = "FI1009 skipped 14 files of a save by 8 ranks: the other files are of a save by 4" ]
	done
}

@test "rank files of one set are one checkpoint below a folder" {
	from=$TESTDATA/fsdp1/local-w3-uneven/checkpoint
	count=$(ls "$from"/rank*.pt | wc -l)
	mkdir two
	for file in "$from"/rank*.pt; do
		cp "$file" two/
		cp "$file" "two/other-$(basename "$file")"
	done
	[ "$count" -gt 1 ]
	[ "$("$FSDP_INSPECT" info -q --json two | jq -c '[.data.below[] | [.path, .others]]')" = \
		"[[\"two/other-rank0.pt\",$((count - 1))],[\"two/rank0.pt\",$((count - 1))]]" ]
	run "$FSDP_INSPECT" info -q two
	[[ ${lines[0]} == "2 checkpoints below two" ]]
	[[ $output == *"rank0.pt and $((count - 1)) more"* ]]
}

models() {
	"$FSDP_INSPECT" audit --json "$@" 2>/dev/null | jq -r '.findings[] | select(.rule == "FI1012") | .severity + " " + .message'
}

@test "an actor and a critic are compared, though each is a checkpoint" {
	verl global_step_5/actor 4
	cp -r global_step_5/actor global_step_5/critic
	run models global_step_5
	[[ $output =~ ^note\ critic\ next\ to\ it\ is\ another\ model:\ ([0-9]+)\ of\ its\ ([0-9]+)\ tensors\ .*here$ ]]
	[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
	run models --data global_step_5
	[[ $output == *" and ${BASH_REMATCH[1]} of these the same bytes" ]]
	# Alone it is one of its own.
	[ -z "$(models global_step_5/actor)" ]
	rm -r global_step_5/critic
	[ -z "$(models global_step_5)" ]
}

@test "a directory of two models is not checked as one, and says what they share" {
	cp "$TESTDATA/safetensors/aliases/model.safetensors" actor.safetensors
	cp actor.safetensors critic.safetensors
	run --separate-stderr "$FSDP_INSPECT" audit --data .
	[ "$status" -eq 2 ]
	[[ $output == *"actor.safetensors: critic.safetensors next to it is another model"*"the same bytes"*"FI1012"* ]]
}

@test "a folder that only leads on is judged as the one that it leads to" {
	mkdir -p run/checkpoint
	cp -r "$TESTDATA"/hf/llama-sharded/. run/checkpoint
	cp "$TESTDATA/safetensors/aliases/model.safetensors" run/checkpoint/model.safetensors
	models run >outside
	models run/checkpoint >inside
	[ -s inside ]
	cmp outside inside
	rm run/checkpoint/model.safetensors
	"$FSDP_INSPECT" export -q -o out run >/dev/null
	cmp out/config.json run/checkpoint/config.json
}
