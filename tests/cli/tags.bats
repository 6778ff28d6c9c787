#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A run of DeepSpeed: which of its tags is opened, and what is told of the others.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
	cp -r "$TESTDATA"/deepspeed/zero2-roundrobin-w2 run
	rm -r run/expected
}

again() {
	cp -r run/global_step2 "run/$1"
}

note() {
	"$FSDP_INSPECT" info run 2>&1 >/dev/null | sed -n 's/^note: //p'
}

dangling() {
	"$FSDP_INSPECT" info --json run 2>/dev/null | jq -r '.findings[] | select(.rule == "FI1011") | .severity + " " + .file + ": " + .message'
}

error() {
	"$FSDP_INSPECT" info run 2>&1 >/dev/null | head -1
}

@test "other steps are beside the tag that latest names, other names are not" {
	[ "$(note)" = "using global_step2 (from latest)" ]
	mkdir run/global_stepping
	touch run/global_step9
	[ "$(note)" = "using global_step2 (from latest)" ]
	again global_step4
	again global_step6
	[ "$(note)" = "using global_step2 (from latest; also present: global_step4, global_step6)" ]
	printf 'global_step4 \n' >run/latest
	[ "$(note)" = "using global_step4 (from latest; also present: global_step2, global_step6)" ]
}

@test "a tag of the universal form is named once" {
	again global_step4
	again global_step6
	printf global_step4 >run/latest_universal
	[ "$(note)" = "using global_step2 (from latest; also present: global_step6); latest_universal names a checkpoint of its own: global_step4" ]
	printf global_step2 >run/latest_universal
	[ "$(note)" = "using global_step2 (from latest; also present: global_step4, global_step6)" ]
	[ "$(dangling)" = "" ]
	rm run/latest
	[ "$(note)" = "using global_step2 (from latest_universal; also present: global_step4, global_step6)" ]
}

@test "a pointer to nothing is told, and the only step is read" {
	printf global_step9 >run/latest_universal
	[ "$(note)" = "using global_step2 (from latest)" ]
	[ "$(dangling)" = "warning latest_universal: points to global_step9, which does not exist; global_step2 was read" ]
	printf global_step8 >run/latest
	touch run/global_step5
	[ "$(dangling)" = "error latest: points to global_step8, which does not exist; global_step2 was read" ]
	again global_step4
	[ "$(error)" = "error: run: latest points to global_step8, which does not exist" ]
	rm run/latest
	[ "$(error)" = "error: run: latest_universal points to global_step9, which does not exist" ]
}

@test "a run is known by a tag or by a script, not by the name latest alone" {
	rm run/zero_to_*.py
	[ "$(note)" = "using global_step2 (from latest)" ]
	for tag in checkpoint pytorch_model pytorch_model_3; do
		mv run/global_step* run/$tag
		printf $tag >run/latest
		[ "$(note)" = "using $tag (from latest)" ]
		mv run/$tag run/global_step2
	done
	mv run/global_step2 run/other
	printf other >run/latest
	[[ $(note) != *"(from latest)"* ]]
	touch run/zero_to_fp32.py
	[ "$(note)" = "using other (from latest)" ]
	rm run/latest
	[[ $(note) != *" says"* ]]
}
