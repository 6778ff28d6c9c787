#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What is exported is whole or absent, and always the same.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
	SOURCE="$TESTDATA/demo/step-1234"
}

export_to() {
	"$FSDP_INSPECT" export -q -o "$@"
}

# FILE [N]: safetensors of N tensors of 1 MiB.
large() {
	python3 - "$1" "${2:-24}" <<'END'
import struct, sys
count = int(sys.argv[2])
header = b'{' + b",".join(b'"layers.%d.weight":{"dtype":"F32","shape":[512,512],"data_offsets":[%d,%d]}'
                          % (i, i << 20, (i + 1) << 20) for i in range(count)) + b'}'
header += b" " * (-len(header) % 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header)
    for i in range(count):
        out.write(bytes([i + 1]) * (1 << 20))
END
}

# Nothing but what is named here is in the folder.
holds() {
	local folder=$1
	shift
	[ "$(ls -A "$folder")" = "$(printf '%s\n' "$@")" ]
}

@test "two runs and any number of threads write the same bytes" {
	large model.safetensors
	for jobs in 1 1 2 7; do
		rm -rf out
		export_to out -j "$jobs" --max-shard-size=5MiB model.safetensors
		(cd out && sha256sum ./*) > "sums-$jobs"
		[ ! -e first ] || cmp first "sums-$jobs"
		mv "sums-$jobs" first
	done
}

@test "a folder that was there stays, one that was made goes" {
	printf 'no checkpoint' > broken.pt
	mkdir kept
	run -2 export_to kept broken.pt
	run -2 export_to made broken.pt
	holds kept
	[ ! -e made ]
}

@test "a disk without room leaves nothing" {
	large model.safetensors
	trap '' XFSZ
	mkdir out
	(ulimit -f 4096 && run -2 export_to out model.safetensors && [[ "$output" == *"cannot write"* ]])
	holds out
	rm -r out
	(ulimit -f 4096 && run -2 export_to out model.safetensors)
	[ ! -e out ]
}

@test "a source that shrinks on the way leaves nothing" {
	large model.safetensors
	truncate -s -1 model.safetensors
	run export_to out model.safetensors
	[ "$status" -ne 0 ]
	[ ! -e out ]
}

@test "a run that is killed leaves no weights" {
	large model.safetensors 64
	for delay in 0.005 0.01 0.02 0.03 0.05 0.08 0.12; do
		rm -rf out
		"$FSDP_INSPECT" export -q -o out --max-shard-size=9MiB model.safetensors > /dev/null &
		sleep "$delay"
		kill -9 $! || true
		wait $! || true
		# What removes its files needs a moment of its own.
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			ls -A out 2>/dev/null | grep -q tmp || break
			sleep 0.1
		done
		[ ! -e out ] || ! ls -A out | grep -q tmp
		# The index comes last: with it all is there.
		if [ -e out/model.safetensors.index.json ]; then
			(cd out && sha256sum --quiet -c SHA256SUMS)
		fi
	done
}

@test "an interrupt leaves nothing and ends by its signal" {
	large model.safetensors 64
	"$FSDP_INSPECT" export -q -o out model.safetensors > /dev/null &
	child=$!
	sleep 0.03
	kill -TERM $child || true
	status=0
	wait $child || status=$?
	[ "$status" -eq 143 ] || [ "$status" -eq 0 ]
	if [ "$status" -eq 143 ]; then
		[ ! -e out ]
	fi
}

@test "what is replaced is replaced as a whole" {
	export_to out --max-shard-size=500 "$SOURCE"
	run -2 export_to out "$SOURCE"
	export_to out --force "$SOURCE"
	holds out SHA256SUMS model.safetensors
	(cd out && sha256sum --quiet -c SHA256SUMS)
}

@test "an exported folder is exported to itself" {
	export_to one "$SOURCE"
	export_to two one
	# A tie that the first notes is no tensor of the second, so headers differ.
	"$FSDP_INSPECT" ls -o tsv --columns=name,dtype,shape one > a
	"$FSDP_INSPECT" ls -o tsv --columns=name,dtype,shape two > b
	cmp a b
}

@test "a file is named in its own folder" {
	mkdir deep
	"$FSDP_INSPECT" export -q --to=safetensors -o deep/one.safetensors "$SOURCE"
	holds deep one.safetensors
	run -2 "$FSDP_INSPECT" export -q --to=safetensors -o deep/one.safetensors "$SOURCE"
	"$FSDP_INSPECT" export -q --force --to=safetensors -o deep/one.safetensors "$SOURCE"
	run -2 "$FSDP_INSPECT" export -q --to=safetensors -o nowhere/one.safetensors "$SOURCE"
}

@test "the answer goes to a file while tensors go to standard output" {
	"$FSDP_INSPECT" export --to=safetensors -o - --output=json=answer.json "$SOURCE" > a.safetensors
	[ "$(jq .data.verified answer.json)" = false ]
	[ "$(jq '.data.tensors | length' answer.json)" -gt 10 ]
	"$FSDP_INSPECT" ls -q a.safetensors > /dev/null
}
