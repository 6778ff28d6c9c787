# SPDX-License-Identifier: Apache-2.0
# Passes cut into parts, and joined again: what one run would have said, byte for byte.

bats_require_minimum_version 1.5.0

setup() {
	: "${FSDP_INSPECT:?}" "${TESTDATA:?}"
	cd "$BATS_TEST_TMPDIR"
	cp -r "$TESTDATA/demo/step-1234" step
	unset RANK WORLD_SIZE SLURM_ARRAY_TASK_ID SLURM_PROCID PARALLEL_SEQ
}

# parts N WORD...: all results of a command
parts() {
	local count=$1 k
	shift
	rm -f part-*
	for ((k = 1; k <= count; k++)); do
		"$FSDP_INSPECT" "$@" -qq --part="$k/$count" -o jsonl=part-%p.jsonl 2>part-$k.err || true
	done
}

# same N WORD...: joined, they say what one run says, in every output
same() {
	local one=0 two=0 output
	parts "$@"
	shift
	[ "$1" != audit ] || set -- audit --for=none "${@:2}" # of parts no loader is asked
	for output in ${OUTPUTS:-json jsonl text csv tsv name}; do
		one=0 two=0
		"$FSDP_INSPECT" "$@" -qq -o $output >one 2>one.err || one=$?
		"$FSDP_INSPECT" merge -qq -o $output part-*.jsonl >two 2>two.err || two=$?
		cmp one two
		cmp one.err two.err
		[ "$one" = "$two" ]
	done
}

refused() {
	run --separate-stderr "$FSDP_INSPECT" merge "${@:2}"
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"$1"* ]]
}

@test "digests of files" {
	for n in 1 2 3 7; do same $n hash step; done
}

@test "digests of tensors" {
	for n in 1 2 5 100; do same $n hash --logical step; done
	same 3 hash --logical -g 'blocks.0.**' step
	same 2 hash --logical -g nothing step
}

@test "digests that are compared with a list" {
	"$FSDP_INSPECT" hash step >sums
	for n in 1 2 3 7; do same $n hash --check=sums step; done
	"$FSDP_INSPECT" hash --logical step >tensors
	for n in 1 2 5 100; do same $n hash --logical --check=tensors step; done
	# One is not listed, two are not there, two differ, one line is none.
	awk 'NR == 3 { next } NR % 4 == 1 { sub(/^..../, "0000") } { print }
		END { d = sprintf("%064d", 0); print d "  gone"; print d "  a/gone"; print "no line" }' tensors >wrong
	for n in 1 2 5; do same $n hash --logical --check=wrong step; done
	same 3 hash --logical --check=wrong -g 'blocks.0.**' step
	awk 'NR == 2 { next } NR == 1 { sub(/^..../, "0000") } { print } END { print "no line" }' sums >step/wrong
	for n in 1 2 3; do same $n hash --check=step/wrong step; done
	same 2 hash --logical --check=tensors "$TESTDATA/torch-zip/sparse/model.pt"
}

@test "a part that was compared with another list is refused" {
	"$FSDP_INSPECT" hash --logical step >sums
	parts 2 hash --logical --check=sums step
	echo "$(printf %064d 0)  more" >>sums
	"$FSDP_INSPECT" hash --logical --check=sums -q --part=2/2 -o jsonl=part-2.jsonl step || [ $? -eq 1 ]
	refused "not of one run" part-*.jsonl
	parts 2 hash --logical --check=sums step
	"$FSDP_INSPECT" hash --logical -q --part=2/2 -o jsonl=part-2.jsonl step
	refused "not of one run" part-*.jsonl
}

@test "audits" {
	OUTPUTS="json jsonl text sarif"
	for n in 1 2 3 7; do same $n audit --data step; done
	same 2 audit --data --checks --rule=FI4007=error --rule=FI9006=off --fail-on=warning step
	"$FSDP_INSPECT" hash step >sums
	sed -i 's/^./0/' sums
	same 3 audit --data --manifest=sums step
	cp sums step/SHA256SUMS
	same 3 audit --data step
	"$FSDP_INSPECT" fqns --bare step >names
	same 2 audit --data --expect=names step
}

@test "audits of what is damaged, replicated, or beside the checkpoint" {
	local one
	OUTPUTS="json text"
	for one in torch-zip/whole-module wrong/hf-mixed-shards safetensors/all-dtypes/model.safetensors runs/hf-trainer; do
		[ -e "$TESTDATA/$one" ] || continue
		for n in 2 3; do same $n audit --data "$TESTDATA/$one"; done
	done
	for one in "$TESTDATA"/broken/*/checkpoint "$TESTDATA"/fsdp1/*/checkpoint; do
		run "$FSDP_INSPECT" audit --data "$one"
		[ "$status" -eq 2 ] || same 2 audit --data "$one"
	done
}

@test "copies in files of two parts are compared" {
	OUTPUTS="json text"
	cp -r "$TESTDATA/fsdp2/w4-tp/checkpoint" copies
	for n in 2 3 4; do same $n audit --data copies; done
	# one rank has other bytes under good checksums
	python3 - copies/rank3.pt <<-'END'
		import sys, zipfile
		path = sys.argv[1]
		with zipfile.ZipFile(path) as old:
		    members = [(m.filename, old.read(m)) for m in old.infolist()]
		with zipfile.ZipFile(path, "w") as new:
		    for name, data in members:
		        if "/data/" in name and data:
		            data = bytes([data[0] ^ 1]) + data[1:]
		        new.writestr(name, data)
	END
	"$FSDP_INSPECT" audit --data copies >one || true
	grep -q replica-differs one
	for n in 2 3 4; do same $n audit --data copies; done
}

@test "what parts of an audit cannot say" {
	for words in "" "--data --merged=step" "--data --for=dcp" "--data --values"; do
		run --separate-stderr "$FSDP_INSPECT" audit $words --part=1/2 step
		[ "$status" -eq 2 ]
		[[ "$stderr" == *"--part"* ]]
	done
	parts 2 hash step
	refused "hash has no output sarif" -o sarif part-*.jsonl
}

@test "what cannot be read is told alike" {
	same 3 hash --logical "$TESTDATA/torch-zip/sparse/model.pt"
	same 4 hash --logical "$TESTDATA/broken/dcp-chunk-gap/checkpoint"
	same 2 hash --logical "$TESTDATA/torch-zip/quantised/model.pt"
}

@test "a part reads its share of the bytes, and one file or tensor more" {
	command -v strace >/dev/null && strace -o trace true || skip "no strace"
	python3 - <<-'END'
		import json, os, struct
		os.mkdir("shards")
		index = {}
		for i in range(9):
		    names, at = {}, 0
		    for k in range(5):
		        size = 65536 * (1 + (7 * i + 3 * k) % 11)
		        names[f"l.{i}.{k}"] = {"dtype": "F32", "shape": [size // 4], "data_offsets": [at, at + size]}
		        at += size
		    text = json.dumps(names).encode()
		    index.update({name: f"model-{i + 1:05}-of-00009.safetensors" for name in names})
		    with open(f"shards/model-{i + 1:05}-of-00009.safetensors", "wb") as f:
		        f.write(struct.pack("<Q", len(text)) + text + bytes(at))
		with open("shards/model.safetensors.index.json", "w") as f:
		    json.dump({"metadata": {}, "weight_map": index}, f)
	END
	share() { # FACTOR ONE WORD...: what each part reads at most
		local n k all=$(cat shards/* | wc -c) bytes
		for n in 2 3 7; do
			for ((k = 1; k <= n; k++)); do
				# The sanitizer of leaks works under no tracer.
				ASAN_OPTIONS=detect_leaks=0 strace -f -y -o trace -e trace=pread64,read "$FSDP_INSPECT" --no-sandbox -q -j1 "${@:3}" --part=$k/$n >out || [ $? -eq 3 ]
				bytes=$(awk '/shards\// && $NF ~ /^[0-9]+$/ { sum += $NF } END { print sum + 0 }' trace)
				[ "$bytes" -gt 0 ]
				[ "$bytes" -le $(($1 * (all / n + $2 + 9 * 16384))) ]
			done
		done
	}
	share 1 $((5 * 720896)) hash shards
	share 1 $((5 * 720896)) audit --data shards
	share 1 720896 hash --logical shards
}

@test "what is read in one process has no parts" {
	local words
	for words in "ls step" "stats step" "diff --values step step"; do
		run --separate-stderr "$FSDP_INSPECT" $words --part=1/2
		[ "$status" -eq 2 ]
		[[ "$stderr" == *"has no --part"*"omit it"* ]]
	done
}

@test "what cannot be cut says why" {
	refuses() {
		run --separate-stderr "$FSDP_INSPECT" "${@:2}" --part=1/2
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ "$stderr" == *"$1"* ]]
	}
	refuses "--part cannot be used with --names" hash --names step
}

@test "a part with a name that is not UTF-8 is refused" {
	cp -r step named
	touch named/"$(printf 'a\xff')"
	run --separate-stderr "$FSDP_INSPECT" hash --part=1/1 -o jsonl=part-1.jsonl named
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"not UTF-8"*"without --part"* ]]
}

@test "a result that was written anew with white space is taken, one that was changed is not" {
	parts 2 audit --data "$TESTDATA/broken/dcp-chunk-gap/checkpoint"
	"$FSDP_INSPECT" merge --json part-*.jsonl >one || [ $? -eq 1 ]
	python3 - part-1.jsonl <<'END'
import json, sys
lines = [json.dumps(json.loads(line)) for line in open(sys.argv[1])]
open(sys.argv[1], "w").write("\n".join(lines) + "\n")
END
	"$FSDP_INSPECT" merge --json part-*.jsonl >two || [ $? -eq 1 ]
	cmp one two
	sed -i 's/"severity": "error"/"severity": "note"/' part-1.jsonl
	refused "not a complete result" part-*.jsonl
}

@test "the order of results does not matter" {
	parts 3 hash --logical step
	"$FSDP_INSPECT" merge part-3.jsonl part-1.jsonl part-2.jsonl >two
	"$FSDP_INSPECT" hash --logical step >one
	cmp one two
}

@test "a part that died is found, and one that ran again is taken" {
	parts 3 hash --logical step
	head -2 part-2.jsonl >cut && mv cut part-2.jsonl
	refused "not a complete result" part-*.jsonl
	rm part-2.jsonl
	refused "part 2 of 3 is missing" part-*.jsonl
	"$FSDP_INSPECT" hash --logical -q --part=2/3 -o jsonl=part-%p.jsonl step
	"$FSDP_INSPECT" merge part-*.jsonl >two
	"$FSDP_INSPECT" hash --logical step >one
	cmp one two
}

@test "a part twice is refused" {
	parts 2 hash step
	cp part-1.jsonl again.jsonl
	refused "are both part 1" part-*.jsonl again.jsonl
}

@test "parts of two checkpoints, of two commands, of two cuts are refused" {
	cp -r step other
	parts 2 hash --logical step
	"$FSDP_INSPECT" hash --logical -q --part=2/2 -o jsonl=two.jsonl other
	refused "not of one run" part-1.jsonl two.jsonl
	"$FSDP_INSPECT" hash -q --part=2/2 -o jsonl=two.jsonl step
	refused "not of one run" part-1.jsonl two.jsonl
	"$FSDP_INSPECT" hash --logical -q --part=2/3 -o jsonl=two.jsonl step
	refused "not of one run" part-1.jsonl two.jsonl
	touch step/__0_0.distcp
	"$FSDP_INSPECT" hash --logical -q --part=2/2 -o jsonl=two.jsonl step
	refused "not of one run" part-1.jsonl two.jsonl
}

@test "what is not a result is refused" {
	"$FSDP_INSPECT" hash -q -o jsonl=whole.jsonl step
	refused "not a complete result" whole.jsonl
	"$FSDP_INSPECT" hash -q --part=1/2 -o json=part-1.json step
	refused "not a complete result" part-1.json
	echo '{"type":' >cut.json
	refused "not a complete result" cut.json
	printf '{"type":"header"}\n{"type":"end","status":0,"data":{"partial":{}}}\n' >odd
	refused "not a complete result" odd
	run "$FSDP_INSPECT" merge nothing.jsonl
	[ "$status" -eq 2 ]
	# Nobody ever writes into it.
	mkfifo pipe
	refused "not a regular file" pipe
}

@test "findings that were left out" {
	OUTPUTS="json text"
	"$FSDP_INSPECT" audit --data -qq --json --limit=findings=1 "$TESTDATA/torch-zip/whole-module" >one || true
	grep -q '"omitted":' one
	same 2 audit --data --limit=findings=1 "$TESTDATA/torch-zip/whole-module"
}

@test "an array of Slurm" {
	for id in 10 12 14; do
		SLURM_ARRAY_TASK_ID=$id SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=14 SLURM_ARRAY_TASK_STEP=2 \
			SLURM_ARRAY_TASK_COUNT=3 SLURM_PROCID=0 SLURM_NTASKS=1 \
			"$FSDP_INSPECT" hash --part=auto -o jsonl=part-%p.jsonl step 2>err
	done
	grep -q "part 3 of 3 (from a Slurm array)" err
	"$FSDP_INSPECT" merge -q --json part-{1,2,3}.jsonl >two
	"$FSDP_INSPECT" hash -q --json step >one
	cmp one two
}

@test "srun and torchrun" {
	SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=4 "$FSDP_INSPECT" hash --part=auto -o jsonl=s-%p step
	[ -e s-2 ]
	RANK=0 WORLD_SIZE=2 "$FSDP_INSPECT" hash --part=auto -o jsonl=t-%p step
	"$FSDP_INSPECT" merge -q t-1 s-2 >two
	"$FSDP_INSPECT" hash step >one
	cmp one two
}

@test "GNU parallel sets no number of parts" {
	PARALLEL_SEQ=1 run --separate-stderr "$FSDP_INSPECT" hash --part=auto step
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"--part=auto/N"* ]]
	PARALLEL_SEQ=1 "$FSDP_INSPECT" hash --part=auto/2 -o jsonl=p-%p step
	[ -e p-1 ]
}

@test "GNU parallel itself" {
	command -v parallel >/dev/null && parallel --version 2>/dev/null | grep -q GNU || skip "no GNU parallel"
	seq 4 | parallel --will-cite "$FSDP_INSPECT" hash --logical -q --part={}/4 -o jsonl=part-%p.jsonl step
	"$FSDP_INSPECT" merge part-*.jsonl >two
	"$FSDP_INSPECT" hash --logical step >one
	cmp one two
}

@test "GNU parallel numbers the parts" {
	command -v parallel >/dev/null && parallel --version 2>/dev/null | grep -q GNU || skip "no GNU parallel"
	seq 4 | parallel --will-cite -N0 "$FSDP_INSPECT" hash -q --part=auto/4 -o jsonl=part-%p.jsonl step
	"$FSDP_INSPECT" merge -q --json part-*.jsonl >two
	"$FSDP_INSPECT" hash -q --json step >one
	cmp one two
}

@test "torchrun itself, where a part finds something" {
	command -v torchrun >/dev/null || skip "no torchrun"
	torchrun --nnodes 1 --nproc-per-node 3 --no-python "$FSDP_INSPECT" hash -q --part=auto -o jsonl=part-%p.jsonl step
	"$FSDP_INSPECT" merge -q --json part-*.jsonl >two
	"$FSDP_INSPECT" hash -q --json step >one
	cmp one two
	rm part-*
	"$FSDP_INSPECT" hash step >sums
	sed -i 's/^./0/' sums
	torchrun --nnodes 1 --nproc-per-node 3 --no-python sh -c \
		'"$FSDP_INSPECT" audit --data --manifest=sums --part=auto -o jsonl=part-%p.jsonl step || [ $? -ne 2 ]'
	run "$FSDP_INSPECT" merge part-*.jsonl
	[ "$status" -eq 1 ]
}

@test "launchers that disagree, or say nothing" {
	RANK=1 WORLD_SIZE=4 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 run --separate-stderr "$FSDP_INSPECT" hash --part=auto step
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"disagree"* ]]
	run --separate-stderr "$FSDP_INSPECT" hash --part=auto step
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"no launcher"* ]]
	for wrong in 0/3 4/3 3 x/y 1/0 1/ /2 auto/x; do
		run "$FSDP_INSPECT" hash --part=$wrong step
		[ "$status" -eq 2 ]
	done
	run --separate-stderr "$FSDP_INSPECT" ls --part=1/2 step
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"ls has no --part"*"omit it"* ]]
}

@test "each tensor of a model that is known by its class is missed" {
	python3 - "$FSDP_INSPECT" "$TESTDATA/complete/t5/checkpoint" <<'END'
import json, os, shutil, struct, subprocess, sys
binary, source = sys.argv[1:]
shutil.copytree(source, "copy", copy_function=shutil.copyfile)
path = os.path.join("copy", "model.safetensors")
with open(path, "rb") as f:
    data = f.read()
size = struct.unpack("<Q", data[:8])[0]
names = [name for name in json.loads(data[8:8 + size]) if name != "__metadata__" and ".1.layer." not in name]
assert len(names) > 20
for name in names:
    with open(path, "wb") as f:
        f.write(data.replace(f'"{name}"'.encode(), f'"Z{name[1:]}"'.encode(), 1))
    run = subprocess.run([binary, "audit", "--json", "--for=hf", "copy"], capture_output=True, check=False)
    answer = json.loads(run.stdout)["data"]["loaders"][0]
    assert answer["verdict"] == "differs", (name, answer)
END
}
