#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Saves that did not end: what their writers leave behind is told by its name.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
}

info() {
	"$FSDP_INSPECT" info --no-plan --json "$@" 2>/dev/null
}

# Findings that are no notes: rule, file and message.
findings() {
	info "$@" | jq -r '.findings[] | select(.severity != "note") | [.rule, .file // "-", .message] | join(" ")'
}

family() {
	info "$@" | jq -r .data.format.family
}

error() {
	info "$@" | jq -r '.errors[] | .rule + " " + .message'
}

@test "shards that were to be put together lack the index" {
	mkdir -p save/sharded
	cp "$TESTDATA"/cross/model-a-dcp-safetensors-w2/*.safetensors save/sharded
	echo '{}' > save/config.json
	text="FI1003 model.safetensors.index.json the shards in sharded are not consolidated: the index, which is written last, is missing: the consolidation failed, or is still running"
	[ "$(family save)" = dcp-safetensors ]
	[ "$(findings save)" = "$text" ]
	# One of the files that an index would name is there, or is all that is there.
	cp "$TESTDATA"/hf/llama-sharded/model-00001-of-*.safetensors save
	[ "$(findings save)" = "$text" ]
	[ "$(findings save/sharded)" = "" ]
	rm -r save/sharded
	mkdir save/sharded
	cp -r "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint/. save/sharded
	rm save/*.safetensors
	[ "$(family save)" = dcp ]
	[ "$(findings save)" = "" ]
}

@test "shards beside which their index lies are put together" {
	mkdir -p save/sharded
	cp "$TESTDATA"/cross/model-a-dcp-safetensors-w2/*.safetensors save/sharded
	cp "$TESTDATA"/hf/llama-sharded/*.{safetensors,index.json} save
	[ "$(family save)" = hf-safetensors-sharded ]
	[ "$(findings save)" = "" ]
}

@test "NeMo marks a folder that it writes" {
	mkdir -p 'run/step=100/context'
	cp -r "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint 'run/step=100/weights'
	echo '{"sharded_backend": "torch_dist"}' > 'run/step=100/weights/metadata.json'
	[ "$(family run)" = nemo ]
	[ "$(findings run)" = "" ]
	touch 'run/step=100-unfinished'
	for path in run 'run/step=100' 'run/step=100//' 'run/step=100/weights'; do
		[ "$(findings "$path")" = "FI1005 - step=100-unfinished is next to the directory: NeMo's save did not finish, or is still running" ]
	done
	[ "$(family 'run/step=100/weights')" = megatron-torch_dist ]
}

@test "a run does not go on with what NeMo still writes" {
	local step
	for step in 100 200; do
		mkdir -p "run/checkpoints/gpt--val_loss=2.0-step=$step-last/context"
		cp -r "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint "run/checkpoints/gpt--val_loss=2.0-step=$step-last/weights"
	done
	[ "$("$FSDP_INSPECT" latest run)" = "run/checkpoints/gpt--val_loss=2.0-step=200-last" ]
	touch "run/checkpoints/gpt--val_loss=2.0-step=200-last-unfinished"
	[ "$("$FSDP_INSPECT" latest run)" = "run/checkpoints/gpt--val_loss=2.0-step=100-last" ]
	[ "$("$FSDP_INSPECT" latest --all --json run | jq -r '.data.candidates[] | select(.result == "bad").path')" = "run/checkpoints/gpt--val_loss=2.0-step=200-last" ]
}

@test "folders of those names are not always NeMo's" {
	mkdir -p other/context
	cp -r "$TESTDATA"/cross/model-a-dcp-safetensors-w2 other/weights
	touch other-unfinished
	[ "$(family other)" = dcp-safetensors ]
	[ "$(findings other)" = "" ]
}

@test "Orbax names a folder that it writes" {
	cp -r "$TESTDATA"/foreign/orbax/3 3.orbax-checkpoint-tmp-17
	[ "$(error 3.orbax-checkpoint-tmp-17)" = "FI9002 this is an Orbax checkpoint (JAX): _CHECKPOINT_METADATA, of a save that did not finish: .orbax-checkpoint-tmp in its name" ]
	[ "$(error 3.orbax-checkpoint-tmp-17/default/)" = "FI9002 this is an Orbax checkpoint (JAX): manifest.ocdbt, of a save that did not finish: .orbax-checkpoint-tmp in its name" ]
	[ "$(findings 3.orbax-checkpoint-tmp-17)" = "FI1005 - the directory belongs to a save that did not finish: .orbax-checkpoint-tmp in its name" ]
	# Where a folder cannot be renamed.
	touch 3.orbax-checkpoint-tmp-17/commit_success.txt
	[ "$(error 3.orbax-checkpoint-tmp-17)" = "FI9002 this is an Orbax checkpoint (JAX): _CHECKPOINT_METADATA" ]
	[ "$(findings 3.orbax-checkpoint-tmp-17)" = "" ]
	mkdir run
	mv 3.orbax-checkpoint-tmp-17 run
	rm run/3.*/commit_success.txt
	[[ $(error run) = *"did not finish"* ]]
	cp -r "$TESTDATA"/foreign/orbax/3 run/4
	[ "$(error run)" = "FI9002 this is an Orbax checkpoint (JAX): _CHECKPOINT_METADATA" ]
}

@test "a temporary metadata file goes by its own name" {
	cp -r "$TESTDATA"/dcp/no-collectives/checkpoint save
	touch save/__1.metadata.tmp
	[ "$(findings save | cut -d' ' -f1,2)" = "FI1005 __1.metadata.tmp" ]
}

@test "DeepSpeed's converter leaves its folder behind" {
	mkdir -p step/{zero,tmp}
	cp "$TESTDATA"/deepspeed/zero2-roundrobin-w2/global_step2/mp_rank_00_model_states.pt step
	findings step | cut -d' ' -f1,2 | grep -qx "FI1005 tmp"
	findings step | cut -d' ' -f1,2 | grep -qx "FI1001 zero/optimizer_state.pt"
}

@test "one data file of a distributed checkpoint tells nothing of how its save ended" {
	mkdir node step
	cp "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint/__1_0.distcp node
	cp -r "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint/. step
	run info node/__1_0.distcp
	[ "$status" -eq 2 ]
	[ "$(jq -c '[.findings, (.errors[] | .code, .rule)]' <<<"$output")" = '[[],"not_a_checkpoint",null]' ]
	[[ $(jq -r '.errors[].message' <<<"$output") == *".metadata, which describes it, is missing"* ]]
	# A folder of files of other ranks only is the part of a node; one with a trace of
	# what commits it was not committed.
	[[ $(error node) == "FI1008 .metadata, which rank 0 writes, is missing; only the data files of rank 1 are present, "* ]]
	mv step/.metadata step/.metadata.tmp
	[[ $(error step/__1_0.distcp) == "FI1003 "* ]]
	mv step/.metadata.tmp step/.metadata
	run info step/__1_0.distcp
	[ "$status" -eq 0 ]
}
