#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Recordings that do not belong together, that say nothing, or that end too early.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
	gpu=$TESTDATA/traces/gpu_generated
}

replay() {
	"$FSDP_INSPECT" replay "$@"
}

# A trace of one rank, its clock so many seconds later.
later() {
	gunzip -c "$gpu/new_args_rank$1.pt.trace.json.gz" |
		sed -E "s/(\"baseTimeNanoseconds\": *[0-9]+)[0-9]{9}/\1$(printf %09d "$2")/" > "rank$1.json"
}

@test "a folder stands for its compressed dumps too" {
	mkdir dumps snapshots
	for dump in "$TESTDATA"/traces/flight_recorder/nccl_stop_w8/nccl_trace_rank_?; do
		gzip -c "$dump" > "dumps/$(basename "$dump").gz"
	done
	gzip -c "$TESTDATA/traces/memory/plain/rank0.pickle" > snapshots/rank0.pickle.gz
	# No recording, by its name.
	gzip -c "$gpu/new_args_rank0.pt.trace.json.gz" > dumps/code.tar.gz
	run -1 --separate-stderr "$FSDP_INSPECT" order dumps
	compressed=$output
	run -1 --separate-stderr "$FSDP_INSPECT" order "$TESTDATA"/traces/flight_recorder/nccl_stop_w8/nccl_trace_rank_?
	[ "$output" = "$compressed" ]
	run -0 --separate-stderr replay --memory snapshots
	compressed=$output
	run -0 --separate-stderr replay --memory "$TESTDATA/traces/memory/plain/rank0.pickle"
	[ "$output" = "$compressed" ]
}

@test "a folder stands for its recordings" {
	mkdir run run/below
	cp "$gpu"/new_args_rank?.pt.trace.json.gz run
	echo text > run/notes.txt
	run -0 --separate-stderr replay --by=rank run
	[ "${lines[1]}" = "4 ranks (nccl), 2 steps; 80 collective calls of all ranks, timed on the GPU" ]
	[ "$stderr" = "" ]
	mkdir empty
	run -2 --separate-stderr replay empty
	[ "${stderr_lines[0]}" = "error: empty: no supported file in this directory" ]
}

@test "one bad file does not hide the others" {
	mkdir run
	cp "$gpu"/new_args_rank[01].pt.trace.json.gz run
	echo nonsense > run/rank2.json
	run -3 --separate-stderr replay --json run
	[ "$(jq -c '[.data.ranks[] | [.rank, .input]]' <<< "$output")" = "[[0,0],[1,1]]" ]
	[ "$(jq -c '[.errors[] | [.kind, .input]]' <<< "$output")" = '[["not_json",2]]' ]
	[ "$(jq -c '[.inputs[].status]' <<< "$output")" = '[3,3,2]' ]
	run -2 replay run/rank2.json
}

@test "what another command reads is left out" {
	mkdir run
	cp "$gpu"/new_args_rank0.pt.trace.json.gz run
	cp "$TESTDATA"/traces/exec_order/changes_rank0.jsonl run/order_rank0.jsonl
	run -0 --separate-stderr replay --by=rank run
	[ "${lines[1]}" = "1 rank (nccl), 2 steps; 20 collective calls, timed on the GPU" ]
	[[ "$stderr" == *"note: skipped run/order_rank0.jsonl: "* ]]
	run -0 --separate-stderr "$FSDP_INSPECT" order --json run
	[ "$(jq -c '[.data.recordings[] | .input]' <<< "$output")" = "[1]" ]
	# Alone it is refused, and told who reads it.
	run -2 --separate-stderr replay run/order_rank0.jsonl
	[[ "$stderr" == *"hint: fsdp-inspect order"* ]]
}

@test "two recordings of a rank are compared and not added up" {
	cp "$gpu/new_args_rank0.pt.trace.json.gz" before_rank0.json.gz
	cp "$gpu/old_lying_rank0.pt.trace.json.gz" later_rank0.json.gz
	run -0 --separate-stderr replay --json before_rank0.json.gz later_rank0.json.gz
	[ "$(jq -c '[.data.types[] | select(.type == "compute") | [.run, .count]]' <<< "$output")" = "[[1,49],[2,38]]" ]
	[ "$(jq -c '[.data.ranks[] | [.rank, .run]]' <<< "$output")" = "[[0,1],[0,2]]" ]
	[ "$(jq .data.matching.straggler <<< "$output")" = null ]
	run -0 --separate-stderr replay before_rank0.json.gz later_rank0.json.gz
	[[ "$output" == *"compute           2     38     4.221       88.9     0.94x"* ]]
	[[ "$output" != *straggler* ]]
}

@test "two runs of two ranks are matched run by run" {
	for run in a b; do
		mkdir $run
		cp "$gpu"/new_args_rank[02].pt.trace.json.gz $run
	done
	run -0 --separate-stderr replay --json a b
	[ "$(jq -c '[.data.collectives[] | .run] | [length, (map(select(. == 2)) | length)]' <<< "$output")" = "[40,20]" ]
	[ "$(jq -c '[.data.ranks[] | .times_last]' <<< "$output")" = "[0,0,20,20]" ]
}

@test "waits and stragglers are left out where clocks differ" {
	later 0 0
	later 2 0
	run -0 --separate-stderr replay --json rank0.json rank2.json
	[ "$(jq -c '[.data.matching.aligned, .data.matching.straggler]' <<< "$output")" = "[true,2]" ]
	later 2 500000000
	run -0 --separate-stderr replay --json rank0.json rank2.json
	[ "$(jq -c '[.data.matching.aligned, .data.matching.straggler]' <<< "$output")" = "[false,null]" ]
	[ "$(jq -c '[.data.ranks[].wait_ns] | add' <<< "$output")" = 0 ]
	run -0 --separate-stderr replay rank0.json rank2.json
	[[ "$output" != *WAIT* && "$output" != *straggler* ]]
	[[ "$stderr" == *"clocks are not synchronized ("*" starts 500."*" ms apart, lasts at most "* ]]
	# What cannot be judged is no pass.
	run -2 --separate-stderr replay --fail-if 'straggler>50%' rank0.json rank2.json
}

@test "a wait that is longer than its call is none, though the run is longer" {
	later 0 0
	later 2 3000000
	run -0 --separate-stderr replay --json rank0.json rank2.json
	[ "$(jq -c '[.data.matching.aligned, (.data.collectives[0].start_skew_ns < 5000000)]' <<< "$output")" = "[false,true]" ]
}

@test "what recorded nothing is told in the first line" {
	header='{"type":"header","format":"fsdp-inspect-trace","version":1,"kind":"simple_profiler","rank":0}'
	echo "$header" > profile.jsonl
	run -3 --separate-stderr replay profile.jsonl
	[[ "${lines[0]}" == "log has no times of training steps: SimpleProfiler times optim_state_dict()"* ]]
	[[ "${lines[1]}" == "record with torch.profiler.profile("* ]]
	echo '[{"ph":"X","cat":"python_function","name":"f","pid":1,"tid":1,"ts":1,"dur":5}]' > python.json
	run -3 --separate-stderr replay python.json
	[[ "${lines[0]}" == "no operators, kernels or collectives were recorded"* ]]
	echo '[{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":5}]' > cpu.json
	run -0 --separate-stderr replay cpu.json
	[[ "${lines[0]}" == "recorded 5.00 us: no GPU kernels"* ]]
	echo '[{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllGather_RING_LL","pid":0,"tid":7,"ts":1,"dur":5}]' > nccl.json
	run -0 --separate-stderr replay nccl.json
	[[ "${lines[0]}" == "recorded 5.00 us: no GPU kernels but those of collectives in the trace, "* ]]
	[[ "${lines[1]}" == *"1 collective call, timed on the GPU" ]]
	run -0 --separate-stderr replay --by=kernel nccl.json
	[[ "$output" != *"stream that computes"* ]]
	run -0 --separate-stderr replay --timeline cpu.json
	[[ "$output" == *"no timeline: no kernel, copy or collective was timed"* ]]
	echo '{"traceEvents":[]}' > empty.json
	run -0 --separate-stderr replay empty.json
	[[ "${lines[0]}" == "trace has no events"* ]]
	[[ "$output" != *TYPE* ]]
}

@test "each table has rows of its own" {
	trace=$gpu/new_args_rank0.pt.trace.json.gz
	columns="$(replay -o tsv --by=rank "$trace" | sed q | paste -sd' ')"
	[[ "$columns" == "rank	input	all_ns	comm_busy_ns	exposed_ns	"* ]]
	[ "$(replay -o tsv "$trace" | cut -f2 | sort -u | paste -sd' ')" = " 5 6 step" ]
	[ "$(replay -o tsv --by=step "$trace" | cut -f1 | paste -sd' ')" = "step 5 6" ]
	[ "$(replay -o csv --by=region "$trace" | wc -l)" = 1 ]
	[ "$(replay -o csv --by=collective "$trace" | wc -l)" = 21 ]
	[ "$(replay --json "$trace" | jq -r '.data.collectives[0].algbw_GBps | type')" = number ]
}

@test "rows of types and steps are those of the text, over all ranks" {
	row() {
		replay -q -o csv "$@" | jq -Rc 'split(",")' | jq -sc \
			'.[0] as $head | .[1:] | map([$head, .] | transpose | map({(.[0]): .[1]}) | add)'
	}
	traces=("$gpu"/new_args_rank{0,1,2,3}.pt.trace.json.gz)
	rows="$(row --by=type "${traces[@]}")"
	json="$(replay -q --json "${traces[@]}" | jq .data)"
	for type in all all_gather compute; do
		one="$(jq -c ".[] | select(.type == \"$type\")" <<<"$rows")"
		truth="$(jq -c ".types[] | select(.type == \"$type\")" <<<"$json")"
		[ "$(jq -r .count <<<"$one")" = "$(jq .count <<<"$truth")" ]
		[ "$(jq -r .sum_ns <<<"$one")" = "$(jq .sum_ns <<<"$truth")" ]
		[ "$(jq -r '"\(.rank_min_ns) \(.min_rank)"' <<<"$one")" = \
			"$(jq -r '.ranks | min_by(.sum_ns) | "\(.sum_ns) \(.rank)"' <<<"$truth")" ]
		[ "$(jq -r '"\(.rank_max_ns) \(.max_rank)"' <<<"$one")" = \
			"$(jq -r '.ranks | sort_by(-.sum_ns) | .[0] | "\(.sum_ns) \(.rank)"' <<<"$truth")" ]
	done
	[ "$(jq -r 'map(.type) | unique | length' <<<"$rows")" = "$(jq length <<<"$rows")" ]
	steps="$(row --by=step "${traces[@]}")"
	[ "$(jq -r 'map(.step) | join(" ")' <<<"$steps")" = "5 6" ]
	[ "$(jq -r '.[0] | "\(.max_ns) \(.max_rank)"' <<<"$steps")" = \
		"$(jq -r '[.steps[] | select(.step == 5)] | (map(.dur_ns) | max) as $max | map(select(.dur_ns == $max)) | .[0] | "\(.dur_ns) \(.rank)"' <<<"$json")" ]
	replay -q -o csv --by=step "${traces[@]}" "${traces[@]}" >two.csv
	[ "$(cut -d, -f2 two.csv | sort -u | paste -sd' ')" = "1 2 run" ]
}

@test "a threshold tells the rank and the value" {
	run -1 --separate-stderr replay --fail-if 'idle>11%' "$gpu"/new_args_rank?.pt.trace.json.gz
	[[ "${stderr_lines[0]}" == *"idle>11%: rank 2 11.1 % (0.593 of 5.341 ms) [FI7031 threshold]" ]]
}

@test "an interrupted reading tells how far it was and finds no fault" {
	# It stops at the end of what the pipe gives, in the middle of an event.
	mkfifo pipe
	"$FSDP_INSPECT" replay --json --progress=never - < pipe > out 2> err &
	reader=$!
	{
		gunzip -c "$gpu/new_args_rank0.pt.trace.json.gz" | head -c 20000
		sleep 2
	} > pipe &
	sleep 1
	kill -TERM $reader
	wait $reader || true
	[ "$(jq -c '[.data.ranks[0].interrupted, .data.ranks[0].truncated, .data.ranks[0].dropped, .findings]' out)" = '[true,false,0,[]]' ]
	[[ "$(jq -r '.errors[0].message' out)" == "interrupted after "*" events: the answer is for these" ]]
}

@test "recordings of other profilers are called what they are" {
	printf 'SQLite format 3\0rest' > report.sqlite
	run -2 --separate-stderr replay report.sqlite
	[[ "$stderr" == *"an SQLite database, as Nsight Systems exports"* ]]
	printf 'zzz' > report.nsys-rep
	run -2 --separate-stderr replay report.nsys-rep
	[[ "$stderr" == *"a report of NVIDIA Nsight"* ]]
	printf '\x0a\x05\x08\x01\x10\x02\x00\x0a\x02\x08\x01' > some.pftrace
	run -2 --separate-stderr replay some.pftrace
	[[ "$stderr" == *"Perfetto"* ]]
	echo '{"schema":"1.0","nodes":[]}' > execution.json
	run -2 --separate-stderr replay execution.json
	[[ "$stderr" == *"execution trace"* ]]
	# A text that begins with empty lines is none.
	printf '\n\n{"traceEvents":[]}' > trace.json
	run -0 --separate-stderr replay trace.json
	# The others of a set are reported.
	event='{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5}'
	echo "{\"traceEvents\":[$event]}" > rank0.json
	: > rank1.json
	run -3 --separate-stderr replay rank0.json rank1.json some.pftrace
	[[ "$output" == *"1 rank"* && "$stderr" == *rank1.json* && "$stderr" == *some.pftrace* ]]
}

@test "events of kinds that are not known are counted, and no table of zeros is all" {
	op='{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5}'
	other='{"ph":"X","cat":"mtia_ccp_events","name":"k","pid":0,"tid":1,"ts":2,"dur":5}'
	echo "{\"traceEvents\":[$op,$other,$other]}" > mtia.json
	run -3 --separate-stderr replay mtia.json
	[[ "$stderr" == *"unknown kinds, skipped: 2 mtia_ccp_events"* ]]
	# No more than four are named.
	for count in 4 5; do
		events=
		for i in $(seq $count); do
			events+=,${other/mtia_ccp_events/kind_$i}
		done
		echo "{\"traceEvents\":[$op$events]}" > kinds.json
		run -3 --separate-stderr replay kinds.json
		[[ "$stderr" == *"skipped: 1 kind_1, 1 kind_2, 1 kind_3, 1 kind_4"* ]]
		[[ "$stderr" != *kind_5* ]]
		[[ "$stderr" == *", ..."* ]] || [ "$count" -eq 4 ]
	done
	bare='{"ph":"X","name":"fusion.3","pid":1,"tid":1,"ts":1,"dur":5}'
	echo "{\"traceEvents\":[$bare]}" > xla.json
	run -3 --separate-stderr replay xla.json
	[[ "$output" == *"1 event is without category"* ]]
	echo '[[1,2,3],[[4],[5],[6]]]' > memory.json
	run -2 --separate-stderr replay memory.json
	[[ "$stderr" == *"a list of lists, as export_memory_timeline() writes it"* ]]
	[[ "$stderr" == *"replay --memory FILE"* ]]
	echo '[1,2]' > numbers.json
	run -3 --separate-stderr replay numbers.json
	[[ "$output" == *"none of its 2 elements is an event"* ]]
}

# cycle FILE RANK MILLISECONDS: a trace that begins so much after the others.
cycle() {
	local kernel='{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":100.000,"dur":50.000,"args":{"Collective name":"allreduce","Process Group Name":"0","Seq":1,"Group size":2}}'
	echo "{\"distributedInfo\":{\"rank\":$2,\"world_size\":2},\"baseTimeNanoseconds\":$((1000000000000 + $3 * 1000000)),\"traceEvents\":[$kernel]}" > "$1"
}

# absolute FILE RANK SECONDS: the same without a base, as traces were before PyTorch 2.3: times count from 1970.
absolute() {
	local kernel='{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":'$((1700000000 + $3))'000100.000,"dur":50.000}'
	echo "{\"distributedInfo\":{\"rank\":$2,\"world_size\":2},\"traceEvents\":[$kernel]}" > "$1"
}

@test "a rank that only the later of two runs has is of that one, without a base too" {
	absolute a1.json 0 0
	absolute a2.json 0 3600
	absolute b2.json 1 3600
	run -0 --separate-stderr replay --json a1.json a2.json b2.json
	[ "$(jq -c '[.data.ranks[] | [.rank, .run, .input]]' <<< "$output")" = "[[0,1,0],[0,2,1],[1,2,2]]" ]
}

@test "cycles of the profiler are matched with those of the same time" {
	cycle a10.json 0 5000
	cycle a2.json 0 0
	cycle b10.json 1 5000
	cycle b2.json 1 0
	run -0 --separate-stderr replay --json a10.json a2.json b10.json b2.json
	[ "$(jq -c '[.data.ranks[] | [.rank, .run, .input]]' <<< "$output")" = "[[0,2,0],[0,1,1],[1,2,2],[1,1,3]]" ]
	[ "$(jq -c '[.data.collectives[] | [.run, .start_skew_ns]]' <<< "$output")" = "[[1,0],[2,0]]" ]
	# A rank that lacks the first one.
	run -0 --separate-stderr replay --json a2.json a10.json b10.json
	[ "$(jq -c '[.data.collectives[] | [.run, .ranks]]' <<< "$output")" = "[[2,[0,1]]]" ] ||
		[ "$(jq -c '[.data.collectives[] | select(.ranks == [0,1]) | .run]' <<< "$output")" = "[2]" ]
}

@test "units without launches have no times, and a note says so" {
	gunzip -c "$TESTDATA/traces/units/g_plain_rank0.pt.trace.json.gz" |
		jq '.traceEvents |= map(select(.cat != "cuda_runtime"))' > rank0.json
	run -0 --separate-stderr replay --by=unit rank0.json
	[[ $stderr == *"times of units are not known: no collective was issued within an annotation of FSDP"* ]]
	! grep -E '^(\(root\)|layers)' <<< "$output" | grep -F '0.000'
	grep -qE '^layers.0 +backward +- +2 of 2 +-$' <<< "$output"
}

# FILE EVENT…: a snapshot of a segment with one block of 1 MiB; an event is ACTION:ADDRESS, of 1 MiB each.
snapshot() {
	python3 - "$@" <<'END'
import pickle, sys
MIB = 1 << 20
frames = [{"name": "step", "filename": "train.py", "line": 3}]
block = {"address": 0, "size": MIB, "requested_size": MIB, "state": "active_allocated", "frames": frames}
segment = {"device": 0, "address": 0, "total_size": MIB, "allocated_size": MIB, "active_size": MIB, "requested_size": MIB,
           "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block]}
events = [{"action": action, "addr": int(addr) * MIB, "size": MIB, "stream": 0, "time_us": 100 + i, "frames": frames}
          for i, (action, addr) in enumerate(word.split(":") for word in sys.argv[2:])]
with open(sys.argv[1], "wb") as f:
    pickle.dump({"segments": [segment], "device_traces": [events], "allocator_settings": {}}, f)
END
}

# The blocks at the peak that were freed later and of which the allocation was not recorded, and all.
at_peak() {
	replay --memory --json "$1" 2>/dev/null | jq -c '.data.memory[0] | [.peak_event, ([.peak_stacks[].blocks] | add)]'
}

@test "what is freed behind the peak was there, from the first event on" {
	# At the begin most is in use, so that the peak is at no event.
	snapshot falls.pickle free_completed:1 free_completed:2 alloc:3 free_completed:3
	[ "$(at_peak falls.pickle)" = "[null,3]" ]
	snapshot rises.pickle alloc:3 alloc:4 free_completed:1 free_completed:3 free_completed:4
	[ "$(at_peak rises.pickle)" = "[1,4]" ]
}
