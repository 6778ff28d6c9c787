#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What `latest` says of a run without a good checkpoint, and which of many it opens.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	good=$TESTDATA/demo/step-1234
	mkdir run
}

latest() {
	run --separate-stderr "$FSDP_INSPECT" latest "$@"
}

@test "an empty run has a status of its own" {
	latest -q run
	[ "$status" -eq 4 ]
	[ -z "$output$stderr" ]
	# What a job writes before its first save.
	mkdir -p run/wandb/run-1/files/media/images run/tensorboard run/code/src
	ln -s run-1 run/wandb/latest-run
	echo started >run/train.log
	echo '{"lr": 0.1}' >run/args.json
	echo data >run/samples_step_500.png
	echo data >run/tensorboard/events.out.tfevents.1
	latest run
	[ "$status" -eq 4 ]
	[ -z "$output" ]
	[[ $stderr == *"run: no checkpoint, tracker file or unfinished save"* ]]
	latest --json run
	[ "$status" -eq 4 ]
	[ "$(jq -c '[.ok, .data.newest, .data.candidates]' <<<"$output")" = '[false,null,[]]' ]
	latest run run
	[ "$status" -eq 4 ]
}

@test "a run with anything of a save is not empty" {
	local name
	for name in step-5/ step-5.tmp/ save.tmp/ .step-5.tmp/ model.pt .metadata.tmp latest LATEST \
		latest_checkpointed_iteration.txt model.safetensors.tmp model.ckpt-100.index a/b/c/d/e/step-5/; do
		rm -rf run && mkdir run
		case $name in
		*/) mkdir -p "run/$name" ;;
		*) : >"run/$name" ;;
		esac
		latest -q run
		[ "$status" -eq 1 ] && [ -z "$output" ] && [[ $stderr == *"${name%/}"* ]] || { echo "$name: $status $stderr"; false; }
	done
	rm -rf run && mkdir run && echo step-5 >run/latest
	latest -q run
	[ "$status" -eq 1 ]
	[[ $stderr == *"step-5 (missing)"*FI1011* ]]
	rm run/latest && ln -s ../nowhere run/checkpoints
	latest -q run
	[ "$status" -eq 1 ]
	[[ $stderr == *"'run/checkpoints'"* ]]
	rm run/checkpoints && cp "$TESTDATA/foreign/gguf/tiny.gguf" run/
	latest -q run
	[ "$status" -eq 1 ]
	[[ $stderr == *tiny.gguf* ]]
	cp run/tiny.gguf "run/model-$(printf %0100d 1).gguf"
	latest --limit below=1 -q run
	[ "$status" -ne 4 ]
}

@test "what cannot be listed is not empty" {
	latest -q nowhere
	[ "$status" -eq 2 ]
	mkdir run/sub && chmod 0 run/sub
	[ -r run/sub ] || {
		latest -q run
		[ "$status" -eq 2 ]
	}
	chmod 700 run/sub
}

@test "each reason is printed, also with -q" {
	local step
	for step in 1234 1235 1236; do
		cp -r "$good" run/step-$step
		rm -f run/step-$step/__1_0.distcp
	done
	latest -q run
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[ "$(grep -c "run/step-123[456]: bad: .*FI1001" <<<"$stderr")" -eq 3 ]
	[[ $stderr == *"run: no good checkpoint (3 checked)"* ]]
	cp "$good/__1_0.distcp" run/step-1234
	latest run
	[ "$status" -eq 0 ]
	[ "$output" = run/step-1234 ]
	[ "$(grep -c 'note: run/step-123[56] skipped: .*FI1001' <<<"$stderr")" -eq 2 ]
	latest -q run
	[ -z "$stderr" ]
}

@test "LATEST counts as latest" {
	cp -r "$good" run/step-2 && cp -r "$good" run/step-1
	rm run/step-2/__1_0.distcp
	ln -s step-2 run/LATEST
	latest run
	[ "$status" -eq 0 ]
	[[ $stderr == *"LATEST points to step-2 (bad)"*"FI1011"* ]]
}

@test "the newest is opened first, and older ones not at all" {
	cp -r "$good" run/step-1234
	# A version that is not read: partial where it is looked at.
	mkdir run/step-7 && cp "$TESTDATA/foreign/gguf/tiny.gguf" run/step-7
	latest --all run
	[[ $output == *"step-7 "* ]]
	if command -v strace >/dev/null; then
		ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=open,openat "$FSDP_INSPECT" latest --no-sandbox -q run
		grep -q 'step-1234' trace
		! grep -q 'step-7' trace
	fi
	latest run
	[ "$status" -eq 0 ]
	[ "$output" = run/step-1234 ]
	# A name that is not the step is not relied on.
	rm -r run/step-7
	mv run/step-1234 run/step-5
	cp -r run/step-5 run/step-6
	latest run
	[ "$status" -eq 0 ]
	[ "$output" = run/step-6 ]
	if command -v strace >/dev/null; then
		ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=open,openat "$FSDP_INSPECT" latest --no-sandbox -q run
		grep -q 'step-5' trace
	fi
	# What has no step in its name may be the newest.
	mv run/step-6 run/final && mv run/step-5 run/step-7
	rm run/step-7/__1_0.distcp
	latest run
	[ "$output" = run/final ]
}

@test "many files in one folder take time for each of them once" {
	python3 -c 'for i in range(8000): open(f"run/model_{i:07d}.pth", "wb").write(b"x")'
	ulimit -t 6
	latest -q run
	[ "$status" -eq 1 ]
	echo '{}' >run/model.fsdp-plan.json
	latest -q --all run
	[ "$status" -eq 1 ]
}

@test "a file of the trainer's state needs a file of weights with its numbers" {
	local state=$TESTDATA/runs/trainer/run/checkpoint-500/scheduler.pt weights=$TESTDATA/torch-zip/state-dict/model.pt
	cp "$state" run/checkpoint.0.10.pt
	touch -d '2020-01-01' run/checkpoint.0.10.pt
	cp "$weights" run/Model.0.10.pt
	cp "$state" run/checkpoint.0.20.pt
	latest --all run
	[ "$status" -eq 0 ]
	[[ $output == *"checkpoint.0.20.pt"*bad*"the weights of this step are missing (Model.0.10.pt belongs to another step)"* ]]
	[[ $output =~ checkpoint.0.10.pt\ +good ]]
	cp "$weights" run/Model.0.20.pt
	latest --all run
	[[ $output != *bad* ]]
}

@test "a step that lacks what the other steps of its run have is skipped" {
	local step
	for step in 10 20 30; do
		cp -r "$good" run/step-$step
		echo a: 1 >run/step-$step/run_config.yaml
		echo 1 >run/step-$step/eval_results.json
	done
	rm run/step-30/eval_results.json
	latest run
	[ "$output" = run/step-30 ]
	rm run/step-30/run_config.yaml
	latest run
	[ "$output" = run/step-20 ]
	[[ $stderr == *"step-30 skipped"*"run_config.yaml"* ]]
	# Of two that differ it is not known which is whole.
	rm -r run/step-10
	latest run
	[ "$output" = run/step-30 ]
	rm -r run && mkdir run
	for step in 10 20; do
		cp "$TESTDATA/torch-zip/state-dict/model.pt" run/model_step${step}_rank0.pt
		cp "$TESTDATA/torch-zip/state-dict/model.pt" run/model_step${step}_rank1.pt
	done
	latest run
	[[ $output == run/model_step20_rank* ]]
	rm run/model_step20_rank1.pt
	latest run
	[[ $output == run/model_step10_rank* ]]
	[[ $stderr == *"model_step#_rank1.pt"* ]]
}

@test "what resumes nothing is older than what does" {
	cp -r "$good" run/checkpoint-10
	cp -r "$TESTDATA/complete/lora-some-layers/checkpoint" run/checkpoint-2000
	latest run
	[ "$output" = run/checkpoint-10 ]
	[[ $stderr == *"checkpoint-2000 skipped: it is an adapter"* ]]
	rm -r run/checkpoint-10
	latest run
	[ "$output" = run/checkpoint-2000 ]
	cp -r "$good" run/checkpoint-10
	rm -r run/checkpoint-2000 && mkdir run/checkpoint-2000
	cp "$TESTDATA/torch-zip/state-dict/model.pt" run/checkpoint-2000/rng_state.pth
	cp "$TESTDATA/torch-zip/state-dict/model.pt" run/checkpoint-2000/scheduler.pt
	latest run
	[ "$output" = run/checkpoint-10 ]
	[[ $stderr == *"weights are missing"* ]]
	mv run/checkpoint-2000/rng_state.pth run/checkpoint-2000/model.pt
	latest run
	[ "$output" = run/checkpoint-2000 ]
	: >run/checkpoint-2000-unfinished
	latest run
	[ "$output" = run/checkpoint-10 ]
	run --separate-stderr "$FSDP_INSPECT" info run
	[[ $output == *checkpoint-2000*" no "*unfinished* ]]
	rm run/checkpoint-2000-unfinished
	run --separate-stderr "$FSDP_INSPECT" info run
	[[ $output != *" no "* ]]
}

@test "a run of hundreds of checkpoints" {
	seq -f run/step-%g 700 | xargs mkdir
	for step in run/*; do cp "$TESTDATA/safetensors/all-dtypes/model.safetensors" "$step"; done
	latest -q run
	[ "$status" -eq 0 ]
	[ "$output" = run/step-700 ]
}

@test "a limit of entries ends the search below a run, not in it" {
	cp -r "$good" run/checkpoint-10
	cp -r "$good" run/checkpoint-20
	latest --limit below=1 -q run
	[ "$status" -eq 0 ]
	[ "$output" = run/checkpoint-20 ]
	seq -f run/x%04g 1100 | xargs mkdir
	run --separate-stderr "$FSDP_INSPECT" info --limit below=1 run
	[[ $stderr == *"contains at least 2 checkpoints (checkpoint-10, checkpoint-20)"* ]]
}
