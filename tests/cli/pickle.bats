#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# pickle on files that were made to hurt whoever shows or reads them.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
}

inspect() {
	run --separate-stderr "$FSDP_INSPECT" "$@"
}

@test "names with control characters do not reach the terminal" {
	printf 'cos\033[31m\nsys\033tem\n.' >names
	printf '\200\002}X\012\000\000\000a\033[31mb\nc\302\233s.' >texts
	for view in --globals --tree --check; do
		for file in names texts; do
			"$FSDP_INSPECT" pickle $view $file >out 2>err || true
			! grep -q $'\033' out err
			! grep -q $'\302\233' out err
			"$FSDP_INSPECT" pickle --json $view $file 2>err >json || true
			jq -e .data json >/dev/null
		done
	done
}

@test "what is shared is shown once, and a cycle ends" {
	# l = []; l.append(l)
	printf '\200\002]q\000h\000a.' >cycle
	inspect pickle --tree cycle
	[ "$status" -eq 0 ]
	[ "${lines[2]}" = "    item: cycle #1" ]
	# 40 levels, each of which holds the one before twice
	{
		printf '\200\002]q\000'
		for level in $(seq 40); do
			printf "q\\$(printf %03o "$level")h\\$(printf %03o "$level")\206"
		done
		printf .
	} >shared
	inspect pickle --tree shared
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 82 ]
}

@test "deep values are cut" {
	{
		printf '\200\002'
		for level in $(seq 400); do printf ']'; done
		for level in $(seq 399); do printf 'a'; done
		printf .
	} >deep
	inspect pickle --tree deep
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 258 ]
	[[ "${lines[257]}" = *"item: cut" ]]
}

@test "a gadget is named, refused, and not run" {
	printf 'cposix\nsystem\n(S"touch ran"\ntR.' >gadget
	inspect pickle --check gadget
	[ "$status" -eq 1 ]
	[[ "${lines[1]}" = *"called  UNKNOWN      posix.system" ]]
	[[ "$output" = *"refused: posix.system: names of this module are never allowed"* ]]
	[ ! -e ran ]
}

@test "a pickle that stops in the middle is listed as far as it goes" {
	printf '\200\002cos\nsystem\nX\377\377\377\177' >cut
	inspect pickle cut
	[ "$status" -eq 3 ]
	[[ "${lines[1]}" = *"os.system" ]]
}

@test "a pickle inside of a value is told once, with what it names" {
	told() {
		"$FSDP_INSPECT" info --json inner 2>/dev/null | jq -r '.findings[] | select(.rule == "FI3005") | .severity + " " + (.offset | tostring) + " " + (.message | split("uses ")[1])'
	}
	printf '\200\003C\034\200\002cposix\012system\012X\004\000\000\000true\205R..' >inner
	[ "$(told)" = "error 4 posix.system" ]
	# In protocol 2 bytes are text: characters beyond 0x7f take two bytes.
	printf '\200\002X\036\000\000\000\302\200\002cposix\012system\012X\004\000\000\000true\302\205R..' >inner
	[ "$(told)" = "error 7 posix.system" ]
	# Inside of one that names nothing.
	printf '\200\004C!\200\004C\034\200\002cposix\012system\012X\004\000\000\000true\205R...' >inner
	[ "$(told)" = "error 8 posix.system" ]
	# What it names is data.
	printf '\200\003C\036\200\002ccollections\012OrderedDict\012)R..' >inner
	[ "$(told)" = "warning 4 collections.OrderedDict" ]
	# It names nothing.
	printf '\200\003C\010\200\002K\001K\002\206..' >inner
	[ "$(told)" = "" ]
	# It has no end.
	printf '\200\003C\033\200\002cposix\012system\012X\004\000\000\000true\205R.' >inner
	[ "$(told)" = "" ]
}
