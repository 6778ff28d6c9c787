#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What an audit is for in a shell: its status.

bats_require_minimum_version 1.5.0

GOOD=dcp/fsdp2-w4-small/checkpoint
BAD=broken/dcp-chunk-gap/checkpoint
NOTHING=broken/pt-html/checkpoint/model.pt

setup() {
	cd "$TESTDATA" || return 1
}

audit() {
	run --separate-stderr "$FSDP_INSPECT" audit "$@"
}

@test "each verdict has its status" {
	audit "$GOOD"
	[ "$status" -eq 0 ]
	audit "$BAD"
	[ "$status" -eq 1 ]
	audit "$NOTHING"
	[ "$status" -eq 2 ]
	audit --limit tensors=1 "$GOOD"
	[ "$status" -eq 2 ]
}

@test "of several the worst one counts: 2, then 1, then 0" {
	audit "$GOOD" "$BAD"
	[ "$status" -eq 1 ]
	audit "$BAD" "$NOTHING" "$GOOD"
	[ "$status" -eq 2 ]
	audit "$GOOD" "$GOOD"
	[ "$status" -eq 0 ]
	find "$GOOD" "$BAD" -maxdepth 0 -print0 >"$BATS_TEST_TMPDIR/list"
	audit --files0-from="$BATS_TEST_TMPDIR/list"
	[ "$status" -eq 1 ]
}

@test "what is good is deployed, in silence, and nothing else" {
	run --separate-stderr sh -c '"$FSDP_INSPECT" audit -q "$1" && echo deployed' sh "$GOOD"
	[ "$output" = deployed ]
	run --separate-stderr sh -c '"$FSDP_INSPECT" audit -q "$1" && echo deployed' sh "$BAD"
	[ "$status" -eq 1 ]
	[[ $output != *deployed* ]]
	[[ $output == *FI1021* ]]
	run --separate-stderr sh -c '"$FSDP_INSPECT" audit -q "$1" && echo deployed' sh "$NOTHING"
	[ "$status" -eq 2 ]
	[[ $output != *deployed* ]]
}

@test "a threshold changes the status alone" {
	audit "$BAD"
	bad=$output
	audit --fail-on=none "$BAD"
	[ "$status" -eq 0 ]
	[ "$output" = "$bad" ]
	audit --rule=chunk-gap=warning --fail-on=warning "$BAD"
	[ "$status" -eq 1 ]
	audit --rule='*=off' "$BAD"
	[ "$status" -eq 0 ]
}

@test "reports are complete also when there is nothing to judge" {
	cd "$BATS_TEST_TMPDIR"
	audit -o sarif=s -o json=d "$TESTDATA/nosuch"
	[ "$status" -eq 2 ]
	[ "$(jq '.runs[0].invocations[0].executionSuccessful' s 2>/dev/null || echo false)" = false ]
	[ -s d ]
}

@test "--fail-on decides the status of every command, and of each checkpoint" {
	for command in info tree ls fqns; do
		run "$FSDP_INSPECT" "$command" "$BAD"
		[ "$status" -eq 0 ]
		run "$FSDP_INSPECT" "$command" --fail-on=error "$BAD"
		[ "$status" -eq 1 ]
		run "$FSDP_INSPECT" "$command" --fail-on=none "$BAD"
		[ "$status" -eq 0 ]
	done
	# Rank files have a note, and that is all.
	run "$FSDP_INSPECT" info --fail-on=warning "$TESTDATA/fsdp1/sharded-w2-orig/checkpoint"
	[ "$status" -eq 0 ]
	run "$FSDP_INSPECT" info --fail-on=note "$TESTDATA/fsdp1/sharded-w2-orig/checkpoint"
	[ "$status" -eq 1 ]
	run --separate-stderr "$FSDP_INSPECT" info --fail-on=error --json "$TESTDATA/dcp/views/checkpoint" "$BAD"
	[ "$status" -eq 1 ]
	[ "$(jq -c '[.ok, .inputs[].status]' <<<"$output")" = "[false,0,1]" ]
}
