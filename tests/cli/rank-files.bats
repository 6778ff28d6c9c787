#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Files of several ranks: which are read together, and what is said of those that do not
# belong together.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8
	mkdir set
	cp "$TESTDATA"/fsdp1/local-w3-uneven/checkpoint/rank?.pt set/
	cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank0.pt other.pt
}

inspect() {
	run --separate-stderr "$FSDP_INSPECT" "$@"
}

# The data of ls, whatever the inputs are called.
data() {
	"$FSDP_INSPECT" ls -l --json --no-plan "$@" 2>/dev/null | jq -cS .data
}

rules() {
	"$FSDP_INSPECT" info --json "$@" 2>/dev/null | jq -r '[.findings[] | select(.severity != "note") | .rule] | join(" ")'
}

# The message of the first finding of a rule.
message() {
	local rule=$1
	shift
	"$FSDP_INSPECT" info --json "$@" 2>/dev/null |
		jq -r --arg rule "$rule" 'first(.findings[] | select(.rule == $rule)) | .message'
}

@test "a folder, all its files and one of them are one checkpoint" {
	whole=$(data set)
	[ "$(data set/rank0.pt set/rank1.pt set/rank2.pt)" = "$whole" ]
	[ "$(data set/rank2.pt set/rank0.pt set/rank1.pt set/rank0.pt)" = "$whole" ]
	[ "$(data set/rank1.pt)" = "$whole" ]
	(cd set && [ "$(data rank1.pt)" = "$whole" ] && [ "$(data ./rank1.pt rank0.pt rank2.pt)" = "$whole" ])
}

@test "siblings of one file are named in a note and in inputs" {
	inspect ls --json set/rank1.pt
	[ "$status" -eq 0 ]
	[[ $stderr == *"set/rank1.pt is one file of a set: 2 more were read too (rank0.pt, rank2.pt)"* ]]
	[ "$(jq -c '[.inputs[] | [.path, .kind, .found // false]]' <<<"$output")" = \
		'[["set/rank1.pt","checkpoint",false],["set/rank0.pt","checkpoint",true],["set/rank2.pt","checkpoint",true]]' ]
	inspect -q ls set/rank1.pt
	[[ $stderr != *"one file of a set"* ]]
}

@test "--separate reads one file alone, or each" {
	inspect show --separate --json set/rank1.pt u1._flat_param
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.data.items[0].pieces[].rank]' <<<"$output")" = '[1]' ]
	[ "$(jq -c '.inputs | length' <<<"$output")" = 1 ]
	inspect ls --separate --json set/rank0.pt set/rank2.pt
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.data.checkpoints[].input]' <<<"$output")" = '[0,1]' ]
	[ "$(rules --separate set/rank0.pt)" = "" ]
}

@test "files without a word for ranks are a set where their contents say so" {
	mkdir plain
	for i in 0 1 2; do cp set/rank$i.pt plain/part$i.pt; done
	inspect info plain/part1.pt
	[ "$status" -eq 0 ]
	[[ $output == *"3 ranks"* ]]
	[[ $stderr == *"part1.pt is one file of a set"* ]]
	cp "$TESTDATA"/torch-zip/state-dict/model.pt plain/epoch1.pt
	cp "$TESTDATA"/torch-zip/state-dict/model.pt plain/epoch2.pt
	inspect info plain/epoch1.pt
	[ "$status" -eq 0 ]
	[[ $stderr != *"one file of a set"* ]]
	inspect info plain/epoch1.pt plain/epoch2.pt
	[ "$status" -eq 0 ]
	[[ $output == *"plain/epoch1.pt  PyTorch file"*"plain/epoch2.pt  PyTorch file"* ]]
	inspect ls plain/epoch1.pt plain/epoch2.pt
	[ "$status" -eq 2 ]
	[[ $stderr == *"it is not recorded that these 2 files are ranks of one save"* ]]
}

@test "a plan beside the set serves the set" {
	cp "$TESTDATA"/fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json set/net.fsdp-plan.json
	for arguments in "set" "set/rank0.pt" "set/rank0.pt set/rank1.pt set/rank2.pt" \
		"set/net.fsdp-plan.json set/rank0.pt set/rank1.pt set/rank2.pt"; do
		inspect info --json $arguments
		[ "$status" -eq 0 ]
		[ "$(jq -r .data.plan.path <<<"$output")" = set/net.fsdp-plan.json ]
	done
}

@test "a missing rank is named, and one that was not named differently" {
	[ "$(rules set/rank0.pt set/rank2.pt)" = FI1008 ]
	[ "$(message FI1008 set/rank0.pt set/rank2.pt)" = \
		"file of rank 1 was not named (world size is 3)" ]
	rm set/rank0.pt set/rank1.pt
	[ "$(rules set)" = FI1008 ]
	[ "$(message FI1008 set)" = "files of ranks 0-1 are missing (world size is 3)" ]
}

@test "of a doubled rank the second file is left out" {
	whole=$(data set)
	cp set/rank1.pt set/rank7.pt
	[ "$(rules set)" = FI1009 ]
	[[ $(data set) == "$whole" ]]
	"$FSDP_INSPECT" info --json set 2>/dev/null |
		grep -q 'skipped: another file has the same rank 1 (rank1.pt)'
}

@test "a double in the place of a missing rank is one finding" {
	cp set/rank1.pt set/rank2.pt
	[ "$(rules set)" = FI1009 ]
	[ "$(message FI1009 set)" = \
		"contains the data of rank 1, as rank1.pt does; the data of rank 2 is missing" ]
	"$FSDP_INSPECT" info --json set 2>/dev/null | jq -e 'any(.findings[]; .rule == "FI1009" and .affected_count > 0)'
}

@test "files of another world are left out" {
	whole=$(data set)
	cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank3.pt set/rank3.pt
	[[ $(rules set) == "FI1009" ]]
	[[ $(message FI1009 set) == \
		"skipped: the file belongs to a save by 4 ranks, 3 other files are to one by 3" ]]
	[ "$(data set)" = "$whole" ]
}

@test "of two worlds the one counts that is more complete, then the one with more files" {
	mkdir mixed
	cp set/rank0.pt mixed/rank0.pt
	cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank[13].pt mixed/
	cp set/rank2.pt mixed/rank2.pt
	[[ $(message FI1009 mixed) == \
		"skipped: the file belongs to a save by 4 ranks, 2 other files are to one by 3" ]]
	[ "$("$FSDP_INSPECT" info --json mixed 2>/dev/null |
		jq -c '[.findings[] | select(.rule == "FI1009") | .file]')" = '["rank1.pt","rank3.pt"]' ]
	mkdir equal
	cp "$TESTDATA"/fsdp1/sharded-w2-orig/checkpoint/rank[01].pt equal/
	for i in {0..19}; do
		cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank$((i % 4)).pt equal/rank$((i + 2)).pt
	done
	[[ $(message FI1009 equal) == \
		"skipped: the file belongs to a save by 2 ranks, 20 other files are to one by 4" ]]
}

@test "files of two models in one world disagree, and it is said how" {
	mkdir two
	cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank[012].pt two/
	cp "$TESTDATA"/fsdp2/w4-empty-shard/checkpoint/rank3.pt two/
	[[ $(rules two) == *FI1031* ]]
	[[ $(message FI1031 two) == "file has no shard of "*" that other ranks have shards of, for example in rank"* ]]
}

@test "a plan of another world size is said for rank files" {
	cp "$TESTDATA"/fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json plan.json
	inspect info --json --plan plan.json "$TESTDATA"/fsdp1/sharded-w2-orig/checkpoint
	[ "$status" -eq 0 ]
	jq -e 'any(.findings[]; .rule == "FI1081" and .message == "the plan has 3 ranks, the rank files have 2")' \
		<<<"$output"
}

@test "what is not a file of one folder is refused" {
	inspect ls set/rank0.pt other.pt
	[ "$status" -eq 2 ]
	[[ $stderr == *"ls reads one checkpoint, but 2 were given"*"--separate"* ]]
	inspect ls set/rank0.pt set
	[ "$status" -eq 2 ]
	[[ $stderr == *"ls reads one checkpoint, but 2 were given"* ]]
	inspect info set/rank0.pt other.pt
	[ "$status" -eq 0 ]
	inspect ls set/rank0.pt - </dev/null
	[ "$status" -eq 2 ]
	inspect ls set/rank0.pt set/rank9.pt
	[ "$status" -eq 2 ]
	[[ $stderr == *"set/rank9.pt: no such file"* ]]
}

@test "nothing outside of the folder is opened" {
	ln -s ../other.pt set/rank3.pt
	inspect ls set/rank0.pt
	[ "$status" -eq 0 ]
	[[ $stderr == *"2 more"* ]]
	inspect ls set/rank0.pt set/rank3.pt
	[ "$status" -eq 2 ]
	[[ $stderr == *"leads out of the directory"* ]]
}

@test "files of a distributed checkpoint stand for its directory" {
	dcp=$TESTDATA/dcp/fsdp2-w4-hsdp/checkpoint
	inspect ls --json "$dcp"/*.distcp
	[ "$status" -eq 0 ]
	[ "$(jq -cS .data <<<"$output")" = "$("$FSDP_INSPECT" ls --json "$dcp" | jq -cS .data)" ]
	[[ $stderr == *"opened the directory that contains these files"* ]]
}

@test "1,023 ranks without a file are said in one line" {
	mkdir large
	cp "$TESTDATA"/torch-zip/state-dict/model.pt large/model_world_size_1024_rank_0.pt
	[ "$(rules large)" = FI1008 ]
	[ "$(message FI1008 large)" = "files of ranks 1-1023 are missing (world size is 1024)" ]
	cp set/rank0.pt large/model_world_size_1024_rank_0.pt
	[ "$(message FI1009 large)" = "the file belongs to a save by 3 ranks, but its name has 1024" ]
}

# What show says of the states of each parameter: NAME KEY:SHAPE …
states() {
	"$FSDP_INSPECT" show --json --no-plan "$@" 2>/dev/null |
		jq -r '.data.items[] | .name + " " + ([.states[] | .key + ":" + (.shape | map(tostring) | join("x"))] | join(" "))'
}

@test "an optimizer that counts is tied to the parameters in their order" {
	[ "$(states "$TESTDATA"/fsdp1/local-w2-adam/checkpoint model.0._flat_param model._flat_param)" = \
		"model.0._flat_param exp_avg:20 exp_avg_sq:20 step:
model._flat_param exp_avg:12 exp_avg_sq:12 step:" ]
	[ "$(states "$TESTDATA"/fsdp1/local-w2-adam-orig/checkpoint model.0.weight model.0.bias model.2.weight model.2.bias)" = \
		"model.0.weight exp_avg:15 exp_avg_sq:15 step:
model.0.bias exp_avg:5 exp_avg_sq:5 step:
model.2.weight exp_avg:10 exp_avg_sq:10 step:
model.2.bias exp_avg:2 exp_avg_sq:2 step:" ]
	[ "$(states "$TESTDATA"/torch-zip/nested-checkpoint/model.pt model.blocks.1.down.weight)" = \
		"model.blocks.1.down.weight exp_avg:8x20 exp_avg_sq:8x20 step:" ]
	# Tied: counted once, where it comes first.
	[ "$(states "$TESTDATA"/torch-zip/nested-checkpoint/model.pt model.head.weight model.embed.weight | cut -d' ' -f2-)" = \
		"exp_avg:37x8 exp_avg_sq:37x8 step:
exp_avg:37x8 exp_avg_sq:37x8 step:" ]
}

@test "states that count are one rank's part each" {
	[ "$("$FSDP_INSPECT" ls -l --json --no-plan "$TESTDATA"/fsdp1/local-w2-adam-orig/checkpoint 2>/dev/null |
		jq -c '[.data.pieces[] | select(.name == "optimizer.state.2.exp_avg") | [.rank, .file, .length]]')" = \
		'[[0,"rank0.pt",28],[1,"rank1.pt",12]]' ]
}

@test "the world that a name tells costs nothing" {
	mkdir large
	cp "$TESTDATA"/torch-zip/views/model.pt large/model_world_size_16777215_rank_0.pt
	cp "$TESTDATA"/torch-zip/views/model.pt large/model_world_size_16777215_rank_5.pt
	inspect info --no-plan --limit memory=24MiB large
	[ "$status" -eq 0 ]
	[[ "$(message FI1008 large)" == *"ranks 1-4, 6-16777214 are missing"* ]]
}

@test "the files of one node are called that" {
	mkdir node
	cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank[23].pt node/
	[ "$(message FI1008 node)" = "files of ranks 0-1 are missing; only ranks 2-3 of 4 are present, probably those of one node" ]
	# A block that divides the world into no nodes, and one that does not begin with one.
	cp "$TESTDATA"/fsdp2/w4-tp/checkpoint/rank1.pt node/
	[ "$(message FI1008 node)" = "file of rank 0 is missing (world size is 4)" ]
	rm node/rank3.pt
	[ "$(message FI1008 node)" = "files of ranks 0, 3 are missing (world size is 4)" ]
}

@test "of a distributed checkpoint only what is proved is said" {
	mkdir dcp
	cp "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint/__[23]_0.distcp dcp/
	inspect info dcp
	[ "$status" -eq 2 ]
	[[ $stderr == *".metadata, which rank 0 writes, is missing; only the data files of 2 ranks (2-3) are present, probably those of one node"*"copy the files of all nodes"* ]]
	rm dcp/__2_0.distcp
	inspect info dcp
	[[ $stderr == *"only the data files of rank 3 are present, probably those of one node"* ]]
	cp "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint/__0_0.distcp dcp/
	inspect info dcp
	[[ $stderr == *".metadata is missing (2 data files found): the save did not finish, or a copy skipped it"* ]]
	: >dcp/.metadata.tmp
	inspect info dcp
	[[ $stderr == *".metadata is missing (2 data files and .metadata.tmp found): the save was not committed"* ]]
}

@test "of a file that is not a rank the line to type names that file" {
	gunzip -c "$TESTDATA/traces/gpu_generated/new_args_rank1.pt.trace.json.gz" > set/trace_rank1.json
	inspect tree set/rank0.pt set/trace_rank1.json
	[[ "$stderr" == *"fix: fsdp-inspect replay set/trace_rank1.json"* ]]
}

# The folder of a node other than the first: ranks 2 and 3 of 4.
node() {
	mkdir -p node/pytorch_model_fsdp_0
	cp "$TESTDATA"/broken/dcp-missing-metadata/checkpoint/__1_0.distcp node/pytorch_model_fsdp_0/
	for name in "$@"; do
		cp "$TESTDATA"/runs/trainer/run/checkpoint-500/rng_state.pth "node/$name"
	done
}

@test "of the files of one node each part says what is missing, and nothing else is guessed" {
	node random_states_2.pkl random_states_3.pkl
	inspect audit node
	[ "$status" -eq 1 ]
	[[ $output == *"pytorch_model_fsdp_0: .metadata, which rank 0 writes, is missing; only the data files of rank 1 are present"*"[FI1008 rank-missing]"* ]]
	[[ $output == *"files of ranks 0-1 are missing; only ranks 2-3 of at least 4 are present, probably those of one node"* ]]
	[[ $output == *"copy the files of all nodes into one directory"* ]]
	[[ $output != *"no file of this folder has weights"* ]]
	[[ $output != *affected* ]]
}

@test "of a Trainer folder without its first rank's files the lost schedule is not judged" {
	node rng_state_1.pth
	mkdir node/optimizer_0
	cp node/pytorch_model_fsdp_0/__1_0.distcp node/optimizer_0/
	inspect audit node
	[ "$status" -eq 1 ]
	[[ $output == *"trainer_state.json: missing file (Trainer writes it last)"* ]]
	[[ $output == *"file of rank 0 is missing (world size is at least 2)"* ]]
	[[ $output != *scheduler.pt* ]]
}
