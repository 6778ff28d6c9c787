#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Outputs that other programs draw, opened by these programs where they are installed.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	bin=$FSDP_INSPECT
	data=$TESTDATA
}

# A model whose names would hurt whatever does not escape them.
hostile() {
	cat > hostile.fsdp-plan.json <<'PLAN'
{"format": "fsdp-plan", "version": 1, "world_size": 2, "modules": [
 {"name": "", "class": "N\"et;\\G"},
 {"name": "a;b 7", "class": "</svg><script>alert(1)</script>"},
 {"name": "a;b 7.\u001b[31mred", "class": "\u202egnp"},
 {"name": "a;b 7.line\nfeed", "class": "Lin\\near"},
 {"name": "\"quoted\\\"", "class": "&lt;&amp;"}],
 "parameters": [{"fqn": "a;b 7.\u001b[31mred.w;eight", "shape": [3], "dtype": "float32"},
  {"fqn": "a;b 7.line\nfeed.bias\"", "shape": [5], "dtype": "float32"},
  {"fqn": "\"quoted\\\".x\\", "shape": [7], "dtype": "float32"}], "units": []}
PLAN
}

@test "ncdu reads its listing and finds all bytes" {
	hostile
	"$bin" tree -q -o ncdu=listing hostile.fsdp-plan.json
	jq -e '.[0] == 1' listing
	! LC_ALL=C grep -P '[^\x0a\x20-\x7e]' listing
	[ "$(jq '[.. | objects | .asize // 0] | add' listing)" = 60 ]
	command -v ncdu || skip "ncdu is not installed"
	ncdu -f listing -o again
	[ "$(jq '[.. | objects | .asize // 0] | add' again)" = 60 ]
	"$bin" tree -q -o ncdu "$data/demo/step-1234" | ncdu -f - -o again
}

@test "a plan of a log is read as one" {
	log=$data/traces/printed_models/fsdp1_checkpoint_logging.log
	"$bin" tree -q --units-from="$log" -o json=a -o plan=x.fsdp-plan.json
	"$bin" tree -q --json --plan x.fsdp-plan.json x.fsdp-plan.json > b
	diff <(jq -c '.data' a) <(jq -c '.data' b)
	run -2 "$bin" tree -q -o plan "$data/demo/step-1234"
}

@test "with a checkpoint the plan has its parameters" {
	log=$data/traces/printed_models/fsdp2_some_noise.log
	"$bin" tree -q --units-from="$log" -o json=a -o plan=x.fsdp-plan.json "$data/hf/llama-sharded" || true
	jq -e '.from == "log" and (.parameters | type == "array")' x.fsdp-plan.json
	"$bin" tree -q --json --plan x.fsdp-plan.json "$data/hf/llama-sharded" > b || true
	diff <(jq -c '.data.units' a) <(jq -c '.data.units' b)
}

@test "a plan of a trace has the names of the model, not of where a checkpoint keeps it" {
	annotation='{"ph":"X","cat":"user_annotation","pid":1,"tid":1,"ts":%d,"dur":5,"name":"FSDP::%s"}'
	printf "[$annotation,$annotation,$annotation]" 1 pre_forward 2 'all_gather (u1)' 3 'all_gather (u2)' > trace.json
	"$bin" tree -q --units-from=trace.json -o json=a -o plan=x.fsdp-plan.json "$data/dcp/fsdp2-w4-hsdp"
	jq -e '.from == "trace" and [.units[].module] == ["", "u1", "u2"] and .modules[0].name == "" and
		(.modules | any(.name == "u1.seq")) and (.parameters | any(.fqn == "u1.l1.weight")) and
		(.modules + .parameters | all((.name // .fqn) | startswith("model") | not))' x.fsdp-plan.json
	"$bin" tree -q --json --plan x.fsdp-plan.json "$data/dcp/fsdp2-w4-hsdp" > b
	[ "$(jq -c '[.data.units[].api]' a)" = "$(jq -c '[.data.units[].api]' b)" ]
}

traces() {
	ls "$data"/traces/gpu_generated/new_args_rank*.gz
}

# What Perfetto and chrome://tracing ask of a trace.
valid_chrome() {
	jq -e '.displayTimeUnit == "ms" and (.traceEvents | type == "array") and
		all(.traceEvents[]; (.ph == "X" or .ph == "M") and (.pid | type == "number") and
			(.tid | type == "number") and (.name | type == "string")) and
		all(.traceEvents[] | select(.ph == "X"); .ts >= 0 and .dur >= 0 and (.cat | type == "string")) and
		([.traceEvents[] | select(.ph == "X") | [.pid, .tid]] | unique) ==
			([.traceEvents[] | select(.name == "thread_name") | [.pid, .tid]] | unique) and
		all([.traceEvents[] | select(.ph == "X")] | group_by([.pid, .tid])[]; sort_by(.ts) | . as $spans |
			all(range(1; length); ($spans[.].ts * 1000 | round) >=
				(($spans[. - 1].ts + $spans[. - 1].dur) * 1000 | round))) and
		([.traceEvents[] | select(.name == "process_name") | .pid] | length == (unique | length))' "$1" > /dev/null
}

@test "chrome: a trace of all ranks, whose lanes add up" {
	"$bin" replay -q -o json=replay.json -o chrome=trace.json $(traces)
	valid_chrome trace.json
	for rank in $(jq '.data.ranks[].rank' replay.json); do
		exposed=$(jq "[.traceEvents[] | select(.ph == \"X\" and .pid == $rank and .cat == \"exposed\").dur * 1000 | round] | add // 0" trace.json)
		[ "$exposed" = "$(jq ".data.ranks[] | select(.rank == $rank) | .device.exposed_ns" replay.json)" ]
		computing=$(jq "[.traceEvents[] | select(.ph == \"X\" and .pid == $rank and .cat == \"computing\").dur * 1000 | round] | add // 0" trace.json)
		[ "$computing" = "$(jq ".data.ranks[] | select(.rank == $rank) | .device.compute_busy_ns" replay.json)" ]
	done
}

@test "chrome: what overlaps has a thread of its own" {
	jq -n '{distributedInfo: {rank: 0, world_size: 1}, traceEvents: [range(9) | {ph: "X", cat: "kernel", pid: 0,
		name: "ncclDevKernel_AllGather_RING_LL", tid: (20 + . % 3), ts: (100 + 10 * .), dur: 25,
		args: {"Process Group Name": "ends with \\"}}]}' > over_rank0.json
	"$bin" replay -q -o chrome=over.json over_rank0.json
	valid_chrome over.json
	[ "$(jq -c '[.traceEvents[] | select(.name == "thread_name").args.name]' over.json)" = \
		'["collectives","collectives 2","collectives 3","exposed"]' ]
	jq -e '[.traceEvents[] | select(.cat == "collectives")] | length == 9 and
		all(.[]; .args["process group"] == "ends with \\")' over.json
	# Perfetto does not find the end of such a string behind two backslashes.
	! grep -F '\\' over.json
}

@test "chrome: clocks that differ make no difference" {
	set -- $(traces)
	gzip -dc "$1" > new_args_rank0.pt.trace.json
	gzip -dc "$2" > new_args_rank1.pt.trace.json
	"$bin" replay -q -o chrome=same.json new_args_rank?.pt.trace.json
	jq '.traceEvents |= map(if .ts then .ts += 7000000 else . end)' new_args_rank1.pt.trace.json > moved
	mv moved new_args_rank1.pt.trace.json
	"$bin" replay -q -o chrome=moved.json new_args_rank?.pt.trace.json
	[ "$(jq -c .traceEvents same.json)" = "$(jq -c .traceEvents moved.json)" ]
	[ "$(jq '.otherData.clocks | length' moved.json)" = 2 ]
	jq -e --slurpfile before same.json '.otherData.clocks | all(.aligned) and
		(.[0].offset_ns == $before[0].otherData.clocks[0].offset_ns) and
		(.[1].offset_ns - $before[0].otherData.clocks[1].offset_ns) as $moved |
		$moved == -7000000000' moved.json
	"$bin" replay -q -o chrome=again.json new_args_rank?.pt.trace.json
	cmp again.json moved.json
}

@test "chrome: a rank that shares no collective begins with the others, and two runs follow each other" {
	set -- $(traces)
	gzip -dc "$1" > alone_rank0.json
	gzip -dc "$2" | sed 's/"Process Group Name": *"[^"]*"/"Process Group Name": "other"/g; s/nccl/rccl/g' > alone_rank1.json
	"$bin" replay -o chrome=apart.json alone_rank0.json alone_rank1.json 2> notes
	grep "rank 1 shares no collective with rank 0, even through other ranks: both are drawn with the same start" notes
	jq -e '[.otherData.clocks[].aligned] == [true, false]' apart.json
	valid_chrome apart.json
	"$bin" replay -q -o chrome=twice.json "$1" "$2" alone_rank0.json
	valid_chrome twice.json
	jq -e '[.otherData.clocks[].rank] == [0, 1, 0]' twice.json
	jq -e '[.traceEvents[] | select(.pid == 0 and .cat == "steps")] |
		(length % 2 == 0) and (.[length / 2 - 1] as $last | .[length / 2].ts >= $last.ts + $last.dur)' twice.json
}

@test "names from a trace hurt no timeline" {
	gzip -dc "$(traces | head -1)" | sed 's/nccl:all_gather/<\/svg><script>;\\u202e"/g; s/"Process Group Name": *"[^"]*"/"Process Group Name": "\\"}<\/title>\\u001b[31m"/g' > odd_rank0.json
	"$bin" replay -q -o chrome=trace.json odd_rank0.json
	valid_chrome trace.json
	! LC_ALL=C grep -P '[^\x0a\x20-\x7e]' trace.json
}
