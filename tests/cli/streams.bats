#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What one pinned run cannot show: pipes, full disks, closed streams, environment.

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$TESTDATA" testdata
	sample=testdata/torch-zip/state-dict/model.pt
	dcp=testdata/demo/step-1234
	export LC_ALL=C.UTF-8
	unset COLUMNS NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM
}

inspect() {
	"$FSDP_INSPECT" "$@"
}

# stderr of a command alone
errors() {
	inspect "$@" 2>&1 >/dev/null
}

@test "without a command: the overview on stderr, status 2" {
	run inspect
	[ "$status" -eq 2 ]
	[[ $output == *usage:* ]]
	[ -z "$(inspect 2>/dev/null)" ]
}

@test "help and version on stdout, status 0" {
	run inspect --help
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -gt 5 ]
	[ "${#lines[@]}" -le 40 ]
	[ -z "$(errors --help)" ]
	run inspect --version
	[ "$status" -eq 0 ]
	[ -z "$(errors --version)" ]
}

@test "a reader that leaves early is no error" {
	run bash -o pipefail -c '"$FSDP_INSPECT" ls -l "$1" 2>err | head -1; exit ${PIPESTATUS[0]}' - "$dcp"
	[ "$status" -eq 0 ] || [ "$status" -eq 141 ]
	[ "${#lines[@]}" -eq 1 ]
	[ "$(grep -ci pipe err)" -eq 0 ]
}

@test "a full disk is status 2 and a message, for every output" {
	[ -c /dev/full ] || skip "no /dev/full"
	traces=testdata/traces
	torn=testdata/broken/dcp-chunk-gap
	# Of each output the first words of a command that writes something with it.
	while read -r format words; do
		seen="$seen $format"
		run bash -c "\"\$FSDP_INSPECT\" $words -o $format >/dev/full"
		[ "$status" -eq 2 ] || { echo "$format to stdout: $status"; false; }
		[[ $output == *"error: standard output: "* ]] || { echo "$format: $output"; false; }
		run bash -c "\"\$FSDP_INSPECT\" $words -o $format=/dev/full"
		[ "$status" -eq 2 ] || { echo "$format to a file: $status"; false; }
		[[ $output == *"/dev/full: "* ]] || { echo "$format: $output"; false; }
	done <<-EOF
		text ls $sample
		json ls $sample
		jsonl ls $sample
		csv ls $sample
		tsv ls $sample
		name ls $sample
		sarif audit $dcp
		html report $dcp
		ncdu tree $dcp
		chrome replay $traces/gpu_generated/new_args_rank0.pt.trace.json.gz
		plan tree --units-from=$traces/printed_models/fsdp1_checkpoint_logging.log
	EOF
	for format in $(inspect commands --json | jq -r '[.data.commands[].outputs[]] | unique[]'); do
		[[ " $seen " == *" $format "* ]] || { echo "$format is not tried"; false; }
	done
}

@test "a closed stdout is status 2, not a crash" {
	run bash -c '"$FSDP_INSPECT" ls "$1" >&-' - "$sample"
	[ "$status" -eq 2 ]
}

@test "closed stdin and stderr change nothing" {
	inspect ls --json "$sample" >plain 2>/dev/null
	inspect ls --json "$sample" >closed <&- 2>&-
	[ -s plain ]
	cmp plain closed
}

@test "the same bytes give the same output in any locale, zone, width and number of threads" {
	inspect info --json "$dcp" >expected
	[ -s expected ]
	LC_ALL=C inspect info --json "$dcp" | cmp - expected
	LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8 inspect info --json "$dcp" | cmp - expected
	TZ=Asia/Kathmandu COLUMNS=20 inspect info --json "$dcp" | cmp - expected
	env -i "$FSDP_INSPECT" info --json "$dcp" | cmp - expected
	inspect info --json -j 1 "$dcp" | cmp - expected
	inspect info --json -j 7 "$dcp" | cmp - expected
}

@test "no colour in a pipe; --color wins over NO_COLOR" {
	[ "$(inspect tree "$dcp" | grep -c $'\033')" -eq 0 ]
	NO_COLOR=1 inspect tree --color=always "$dcp" | grep -q $'\033'
}

@test "an output file is there whole or not at all" {
	run inspect ls -o json=out.json "$sample"
	[ "$status" -eq 0 ]
	jq -e .ok out.json
	run inspect ls -o json=no/such/folder/out.json "$sample"
	[ "$status" -eq 2 ]
	[ "$(ls)" = "$(printf 'out.json\ntestdata')" ]
}

@test "JSON is one document, also when the work failed" {
	run bash -c '"$FSDP_INSPECT" info --json no-such-file 2>/dev/null'
	[ "$status" -eq 2 ]
	jq -e '.ok == false and (.errors | length) == 1' <<<"$output"
}

# A safetensors file with the tensor U+045B 31m: bytes D1 9B, and 9B alone begins a
# sequence on a terminal that does not know UTF-8.
named_for_a_terminal() {
	header='{"\xd1\x9b31m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
	printf '\x39\0\0\0\0\0\0\0'"$header"'x' >"$1"
}

@test "bytes that steer a terminal without UTF-8 do not reach it" {
	file=$'c\xd1\x9b.safetensors'
	named_for_a_terminal "$file"
	inspect ls "$file" | grep -qa $'^\xd1\x9b31m'
	for words in "info" "ls" "tree" "ls -l" "fqns -o text" "show" "info --no-such" "no-such"; do
		LC_ALL=C inspect $words "$file" $'\xd1\x9b31m' >out 2>&1 || true
		LC_ALL=C inspect $words "$file" >>out 2>&1 || true
		[ -s out ]
		[ "$(LC_ALL=C grep -ca '[^ -~]' out)" -eq 0 ]
	done
	LC_ALL=C inspect ls "$file" | grep -q '^\\u{045b}31m '
	# What a program reads is the same everywhere, but for one that is a terminal.
	for output in json jsonl csv tsv name; do
		inspect ls -o $output "$file" >expected
		LC_ALL=C inspect ls -o $output "$file" | cmp - expected
	done
}

@test "nor do those of a program's output where it is a terminal" {
	file=$'c\xd1\x9b.safetensors'
	named_for_a_terminal "$file"
	script -qec true /dev/null </dev/null || skip "no pseudo-terminal"
	for output in json jsonl csv tsv name text; do
		LC_ALL=C FILE=$file script -qec \
			'"$FSDP_INSPECT" ls -o '"$output"' "$FILE" 2>&1' /dev/null </dev/null >out
		grep -q 045b out
		[ "$(tr -d '\r\n\t' <out | LC_ALL=C grep -ca '[^ -~]')" -eq 0 ]
	done
}

@test "a quote that ends nothing is looked for as far as the next" {
	{
		printf '{"traceEvents":[{"ph":"X",'
		yes '"s":"x"y",' | head -n 800000 | tr -d '\n'
		printf '"ts":1,"dur":1}]}'
	} >quotes.json
	run bash -c 'ulimit -t 20; exec "$FSDP_INSPECT" replay --json quotes.json 2>/dev/null'
	# It has no event that would tell of a step.
	[ "$status" -eq 3 ]
	[ "$(jq .data.ranks[0].deviations.bare_quote <<<"$output")" -eq 800000 ]
}

@test "the checkpoint of --names has the limits that were set" {
	run errors order --limit=plan-bytes=1 testdata/traces/fx/config_args.jsonl \
		--names=testdata/plan/fsdp1-local-w2-conv/plan.fsdp-plan.json
	[[ $output == *"limit plan-bytes (1) reached"* ]]
}

@test "a recording is the same packed, through a pipe and plain" {
	local trace=testdata/traces/gpu_generated/new_args_rank0.pt.trace.json.gz packing
	gzip -dc "$trace" >plain.json
	inspect replay -q plain.json >expected
	for packing in bz2 lzma gzip; do
		python3 -c "import sys, $packing as p; sys.stdout.buffer.write(p.compress(sys.stdin.buffer.read()))" \
			<plain.json >packed
		inspect replay -q packed | diff expected -
		inspect replay -q - <packed | diff expected -
		bash -c 'cat packed; sleep 0.1' | inspect replay -q - | diff expected -
	done
	bash -c 'head -c 1000 plain.json; sleep 0.1; tail -c +1001 plain.json' |
		inspect replay -q - | diff expected -
}

@test "a packed recording that is cut is told" {
	local packing
	for packing in bz2 lzma; do
		python3 -c "import sys, $packing as p; sys.stdout.buffer.write(p.compress(b'x' * 99)[:-20])" >packed
		run errors replay packed
		[[ $output == *"the compressed data is truncated: no byte could be unpacked"* ]]
	done
}

@test "elements have the same fields in json and in jsonl" {
	trace=testdata/traces/gpu_generated/new_args_rank0.pt.trace.json.gz
	for words in "info $dcp" "tree $dcp" "ls $dcp" "ls -l $dcp" "ls --values $dcp" "ls --by=rank $dcp" \
		"show $dcp step" "audit $dcp" "hash $dcp" "replay $trace" "rules" "commands"; do
		"$FSDP_INSPECT" $words -q -o json=doc -o jsonl=lines || [ $? -ne 2 ]
		of=$(jq -r 'select(.type == "item").of' lines | head -1)
		jq -c --arg of "$of" '.data[$of][] | del(.type)' doc > elements
		jq -c --arg of "$of" 'select(.type == "item" and .of == $of) | del(.type, .of)' lines > items
		[ -s items ] || { echo "$words: no items"; false; }
		cmp elements items || { echo "$words"; false; }
	done
}

@test "JSON Lines are written as JSON is when the work failed" {
	run ! "$FSDP_INSPECT" ls -qq -o json=failed.json -o jsonl=failed.jsonl nothing-here
	[ "$(jq .ok failed.json)" = false ]
	[ "$(tail -1 failed.jsonl | jq -c '[.type, .ok, .status, .data]')" = '["end",false,2,null]' ]
	[ "$(jq -c '.errors[0]' failed.json)" = "$(grep '"type":"error"' failed.jsonl | jq -c 'del(.type)')" ]
}
