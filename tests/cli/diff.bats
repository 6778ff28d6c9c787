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

@test "a large file of weights is not a list of names" {
	large a.safetensors
	cp --sparse=always a.safetensors b.safetensors
	"$FSDP_INSPECT" diff --values -q a.safetensors b.safetensors
	"$FSDP_INSPECT" audit -q --rule=FI2010=off --expect=b.safetensors a.safetensors
	printf '\1' | dd of=b.safetensors bs=1 seek=80000000 conv=notrunc status=none
	for jobs in 1 3; do
		run -1 "$FSDP_INSPECT" diff --values -q -j "$jobs" a.safetensors b.safetensors
		[[ "$output" == *"1 of 83886080 differ"* ]]
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

# FILE DTYPE SHAPE, and the data as Python has it.
weights() {
	python3 - "$@" <<'END'
import json, math, struct, sys
path, dtype, shape, data = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), eval(sys.argv[4])
header = json.dumps({"weight": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
header += b" " * (-len(header) % 8)
with open(path, "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header + data)
END
}

hint() {
	"$FSDP_INSPECT" diff --values --json -q "$@" | jq -r '.data.changed[0].hint'
}

@test "pieces of each usual world are known in another order" {
	for world in 2 3 4 6 8 12 16 24 32 48 64; do
		weights a.safetensors U8 "[$world, 3]" "bytes(range(3 * $world))"
		weights b.safetensors U8 "[$world, 3]" "bytes([3, 4, 5, 0, 1, 2, *range(6, 3 * $world)])"
		[ "$(hint a.safetensors b.safetensors)" = "the same $world pieces along dim 0, joined in another order" ]
	done
	weights a.safetensors U8 "[5, 3]" "bytes(range(15))"
	weights b.safetensors U8 "[5, 3]" "bytes([3, 4, 5, 0, 1, 2, *range(6, 15)])"
	[ "$(hint a.safetensors b.safetensors)" = null ]
}

@test "what was rounded to a narrower dtype is known, for each of them" {
	# The number behind 1, the least and the most that the dtype holds, in F64 nearly these.
	while read -r dtype fraction least most bits; do
		weights a.safetensors F64 "[3]" "struct.pack('<3d', 1 + 1.4 * 2.0**-$fraction, 1.4 * 2.0**$least, $most * (1 + 2.0**-($fraction + 3)))"
		weights b.safetensors "$dtype" "[3]" "bytes.fromhex('$bits')"
		[ "$(hint a.safetensors b.safetensors)" = "equal, rounded to the narrower of the two dtypes" ]
		weights a.safetensors F64 "[3]" "struct.pack('<3d', 1 + 1.6 * 2.0**-$fraction, 2.0**$least, $most)"
		[ "$(hint a.safetensors b.safetensors)" != "equal, rounded to the narrower of the two dtypes" ]
	done <<-'END'
		F32 23 -149 (2-2.0**-23)*2.0**127 0100803f01000000ffff7f7f
		F16 10 -24 65504 013c0100ff7b
		BF16 7 -133 (2-2.0**-7)*2.0**127 813f01007f7f
		F8_E4M3 3 -9 448 39017e
		F8_E5M2 2 -16 57344 3d017b
	END
}
