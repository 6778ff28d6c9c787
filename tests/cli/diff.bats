#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What is compared is large, or comes from elsewhere than a file.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
	SAMPLE="$TESTDATA/wrong/missing-keys/model.safetensors"
}

# FILE: one tensor of 80 MiB, more than a list of names may have, all zeros.
large() {
	python3 - "$1" <<'END'
import struct, sys
header = b'{"w":{"dtype":"U8","shape":[83886080],"data_offsets":[0,83886080]}}'
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header)
    out.truncate(8 + len(header) + 83886080)
END
}

@test "a large file of weights is no list of names" {
	large a.safetensors
	cp --sparse=always a.safetensors b.safetensors
	"$FSDP_INSPECT" diff --values -q a.safetensors b.safetensors
	"$FSDP_INSPECT" audit -q --expect=b.safetensors a.safetensors
	printf '\1' | dd of=b.safetensors bs=1 seek=80000000 conv=notrunc status=none
	for jobs in 1 3; do
		run -1 "$FSDP_INSPECT" diff --values -q -j "$jobs" a.safetensors b.safetensors
		[[ "$output" == *"1 of 83886080 elements differ"* ]]
	done
}

@test "the first may come from standard input" {
	"$FSDP_INSPECT" diff --values -q - "$SAMPLE" < "$SAMPLE"
}

@test "a list without an end is an error, and so is what is neither" {
	printf '["a", ' > names.json
	run -2 "$FSDP_INSPECT" diff "$SAMPLE" names.json
	run -2 "$FSDP_INSPECT" diff "$SAMPLE" nothing
	[[ "$output" == *"nothing"* ]]
	run -2 "$FSDP_INSPECT" diff "$SAMPLE"
	run -2 "$FSDP_INSPECT" diff "$SAMPLE" "$SAMPLE" "$SAMPLE"
	[[ "$output" == *"needs two checkpoints, not 3"* ]]
}
