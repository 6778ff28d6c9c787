# SPDX-License-Identifier: Apache-2.0
# What holds for every command, whatever it answers.

bats_require_minimum_version 1.5.0

setup() {
	: "${FSDP_INSPECT:?}"
	cd "$BATS_TEST_TMPDIR"
	# The smallest thing that is a checkpoint: three elements of float32.
	header='{"weight":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
	length=$(printf '\\%03o' "${#header}")
	printf '%b\0\0\0\0\0\0\0%s\0\0\0\0\0\0\0\0\0\0\0\0' "$length" "$header" \
		>model.safetensors
	unset FSDP_INSPECT_COLOR FSDP_INSPECT_JOBS FSDP_INSPECT_PROGRESS
	unset NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS
}

inspect() {
	run --separate-stderr "$FSDP_INSPECT" "$@"
}

# A usage error: status 2, nothing on stdout, two lines on stderr.
refused() {
	[ "$status" -eq 2 ]
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 2 ]
	[[ ${stderr_lines[0]} == "error: "* ]]
	[[ ${stderr_lines[1]} =~ ^"  "(hint|fix)": " ]]
}

@test "without arguments the overview is on stderr, status 2" {
	inspect
	[ "$status" -eq 2 ]
	[ -z "$output" ]
	[[ ${stderr_lines[0]} == "fsdp-inspect "* ]]
}

@test "the overview fits 40 lines of 80 columns and names every command" {
	inspect --help
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(printf '%s\n' "$output" | wc -l)" -le 40 ]
	[ -z "$(printf '%s\n' "$output" | awk 'length > 80')" ]
	for command in $("$FSDP_INSPECT" commands --json | jq -r '.data.commands[].name'); do
		[[ $output == *$'\n'"  $command "* ]]
	done
}

@test "usage and options of each command fit 80 columns" {
	for command in $("$FSDP_INSPECT" commands --json | jq -r '.data.commands[].name'); do
		wide=$("$FSDP_INSPECT" "$command" --help | sed -n '/^usage:/,/^$/p; /^Options$/,$p' | awk 'length > 80')
		[ -z "$wide" ] || { echo "$command: $wide"; false; }
	done
	[ -z "$("$FSDP_INSPECT" help options | awk 'length > 80')" ]
}

@test "-h wins wherever it stands, then --version" {
	for arguments in "-h" "ls -h" "-h ls" "ls --nope -h" "--nope=1 ls x -qh" "-h --version"; do
		inspect $arguments
		[ "$status" -eq 0 ]
		[[ $output == "fsdp-inspect"*usage:* ]]
	done
	inspect ls --nope --version
	[ "$status" -eq 0 ]
	[[ $output =~ ^fsdp-inspect\ [0-9.]+$ ]]
	inspect ls -- -h
	[ "$status" -eq 2 ]
}

@test "what is not finite is counted, and left out of the mean" {
	printf '%b\0\0\0\0\0\0\0%s\0\0\300\177\0\0\200\377\0\0\200\077' "$length" "$header" \
		>odd.safetensors
	inspect show --values=: odd.safetensors weight
	[ "$status" -eq 0 ]
	[[ $output == *"3 of 3 read: min 1, max 1, mean 1; 2 not finite (1 nan, 1 inf)"* ]]
	[ "$("$FSDP_INSPECT" show --json --values=:2 odd.safetensors weight | jq -c '.data.items[0].element_stats')" \
		= '{"count":2,"nan":1,"inf":1}' ]
}

@test "h among the letters of a listing is a habit, and asks for no help" {
	for letters in -lh -hl -lhS -lSrh; do
		inspect ls "$letters" "$TESTDATA/demo/step-1234"
		[ "$status" -eq 0 ]
		[[ $output == NAME* ]]
	done
}

@test "help of a command is what its --help says" {
	for command in $("$FSDP_INSPECT" commands --json | jq -r '.data.commands[].name'); do
		inspect help "$command"
		[ "$status" -eq 0 ]
		[ "$output" = "$("$FSDP_INSPECT" "$command" --help)" ]
		[[ $output == *"usage: fsdp-inspect $command"* ]]
	done
}

@test "help knows its topics and offers the nearest" {
	for topic in limits selectors options outputs status environment plan trace json \
		findings examples rules FI1004 fi1004 truncated-file; do
		inspect help "$topic"
		[ "$status" -eq 0 ]
		[ -n "$output" ]
	done
	inspect help limts
	[ "$status" -eq 1 ]
	[[ $stderr == *"did you mean: fsdp-inspect help limits"* ]]
}

@test "unknown commands: the nearest, and what other tools call it" {
	inspect treee x
	refused
	[[ $stderr == *"fsdp-inspect tree"* ]]
	inspect list x
	refused
	[[ $stderr == *"fsdp-inspect ls"* ]]
	inspect du x
	refused
	[[ $stderr == *"fsdp-inspect ls --by=file x"* ]]
	inspect verify x
	refused
	[[ $stderr == *audit* ]]
	inspect zzzzzz
	refused
}

@test "an own option of a command is the last that its help tells" {
	for command in ls tree replay info; do
		last=$("$FSDP_INSPECT" commands --json | jq -r --arg command $command \
			'.data.commands[] | select(.name == $command).options | map(.name)')
		[ "$("$FSDP_INSPECT" "$command" --help | grep -c -- --no-sandbox)" -eq 0 ]
		own=$("$FSDP_INSPECT" "$command" --help | sed -n 's/^ .*--\([a-z0-9-]*\).*/\1/p' | tail -1)
		[[ $last == *"\"$own\""* ]]
	done
	for line in $("$FSDP_INSPECT" help options | sed -n 's/^ \{2,6\}\(-., \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'); do
		[[ $("$FSDP_INSPECT" ls --help) != *"$line "* ]]
	done
}

@test "a usage error is a document where one is asked for" {
	for words in "ls --nope x --json" "--json ls --nope x" "ls -ojson --nope x" "lss -o json x" \
		"info --output=json s3://bucket/key" "ls --json"; do
		inspect $words
		[ "$status" -eq 2 ]
		[ "$(jq -r '[.ok, .errors[0].code, (.errors[0].hint | length > 0)] | @csv' <<<"$output")" = 'false,"usage",true' ]
		[ "${#stderr_lines[@]}" -eq 2 ]
	done
	inspect ls --nope x --jsonl
	[ "$(tail -n 1 <<<"$output" | jq -r '[.type, .status] | @csv')" = '"end",2' ]
	inspect ls --nope x -o json=file.json
	refused
}

@test "a line on stderr is one write" {
	command -v strace || skip "there is no strace"
	for words in "ls --nope x" "info nowhere" "info model.safetensors nowhere"; do
		strace -f -qq -e trace=write -e signal=none -o trace "$FSDP_INSPECT" $words >/dev/null 2>err || true
		[ "$(grep -c 'write(2,' trace)" -le "$(wc -l <err)" ]
	done
}

@test "a file is read without a look at each of its neighbours" {
	command -v strace || skip "there is no strace"
	mkdir beside
	cp model.safetensors beside/
	touch beside/other-{1..9}.bin
	# A process that is traced cannot look for leaks.
	ASAN_OPTIONS=detect_leaks=0 strace -f -qq -e trace=file -e signal=none -o trace "$FSDP_INSPECT" info beside/model.safetensors
	grep -q 'beside/model.safetensors' trace
	run ! grep -q 'other-' trace
}

@test "ls reads items for offsets only if they are shown or sorted by" {
	command -v strace || skip "there is no strace"
	for words in "" "--sort=bytes" "--sort=-dtype" "--sort=offset" "--columns=name,length"; do
		ASAN_OPTIONS=detect_leaks=0 strace -f -qq -e trace=openat -e signal=none -o trace \
			"$FSDP_INSPECT" ls $words "$TESTDATA/demo/step-1234" >/dev/null
		case $words in
		*offset | *length) grep -q 'distcp"' trace ;;
		*) run ! grep -q 'distcp"' trace ;;
		esac
	done
}

@test "SIGUSR1 asks every command and ends none" {
	mkfifo pipe
	for command in info ls tree; do
		"$FSDP_INSPECT" "$command" - <pipe >out 2>err &
		pid=$!
		exec 9>pipe
		sleep 0.4
		kill -USR1 "$pid"
		sleep 0.2
		cat model.safetensors >&9
		exec 9>&-
		wait "$pid"
		[[ "$(head -n 1 err)" == "fsdp-inspect: at work for "*" s, computing for "*" s" ]]
	done
}

@test "standard input by its other names, and a pipe of the shell" {
	[ "$(cat model.safetensors | "$FSDP_INSPECT" ls -o name /dev/stdin)" = weight ]
	[ "$("$FSDP_INSPECT" ls -o name <(cat model.safetensors))" = weight ]
	inspect ls <(cat model.safetensors) <(cat model.safetensors)
	refused
}

@test "a path that is not there: what is like it" {
	mkdir step-1000
	inspect info step-100
	[ "$status" -eq 2 ]
	[[ ${stderr_lines[1]} == "  fix: did you mean: fsdp-inspect info step-1000" ]]
	inspect ls modle.safetensors
	[[ ${stderr_lines[1]} == "  fix: did you mean: fsdp-inspect ls model.safetensors" ]]
	inspect ls --json model
	[ "$(jq -r '.errors[0].hint' <<<"$output")" = "did you mean: fsdp-inspect ls model.safetensors" ]
	inspect info step-100/model/
	[[ ${stderr_lines[1]} == "  fix: did you mean: fsdp-inspect info step-1000" ]]
	for path in something-else /no/such/place nowhere/at/all ""; do
		inspect info "$path"
		[[ $stderr != *"did you mean"* ]]
	done
}

@test "a path where the command belongs" {
	inspect model.safetensors
	[ "$output" = "$("$FSDP_INSPECT" info -q model.safetensors)" ]
	inspect nowhere/model.safetensors
	refused
	[[ ${stderr_lines[1]} == *"fsdp-inspect info nowhere/model.safetensors" ]]
}

@test "bad options: what, and what was probably meant" {
	inspect ls --dept 3 x
	refused
	[[ $stderr == *"--depth"* ]]
	inspect ls --nope x
	refused
	inspect --nope
	refused
	inspect info --glob 'x' x
	refused
	[[ $stderr == *"it is an option of"*ls* ]]
	inspect ls --glob
	refused
	inspect info --json=3 x
	refused
	inspect info --js x
	refused
}

@test "an option that would do nothing is refused" {
	for words in "replay --plan=x y" "order --raw y" "rules --no-plan" "help --separate" "version --range=0"; do
		inspect $words
		refused
		[[ $stderr == *"cannot be used"* ]]
	done
}

@test "bad values" {
	for option in --min-bytes=4Q --min-bytes=-1 --min-bytes=99999999999999999999 --depth=-1 \
		--depth=x --role=prm --jobs=0 --jobs=1025 --color=red --width=3 --range=x \
		--range=4: --limit=memory --limit=memry=1 --limit=memory=x -otxt -ojson= \
		--progress=loud; do
		inspect ls "$option" x
		refused
	done
	inspect ls --limit=memry=1 x
	[[ $stderr == *"did you mean memory?"* ]]
	inspect ls --plan a --no-plan x
	refused
}

@test "a ceiling that is reached is named, and how to raise it" {
	inspect info --limit=names=5 model.safetensors
	refused
	[[ $stderr == *"limit names (5) reached"*"--limit names=VALUE"* ]]
	inspect info --limit=names=6 model.safetensors
	[ "$status" -eq 0 ]
}

@test "each ceiling of a file's structure counts" {
	local empty=$TESTDATA/fsdp2/w4-empty-shard/checkpoint/rank1.pt
	printf '\x80\x02].\x80\x02].' >two.pkl
	while read -r name most file; do
		inspect info --limit="$name=$((most - 1))" "$file"
		[ "$status" -ge 2 ]
		[[ $stderr == *"limit $name ($((most - 1))) reached"* ]]
		inspect info --limit="$name=$most" "$file"
		[[ $stderr != *"limit $name"* ]]
	done <<-END
		mesh-ranks 8 $empty
		placement-runs 34 $empty
		json-bytes 1756 $TESTDATA/hf/llama-sharded
		rank-dims 2 $TESTDATA/hf/llama-sharded
		pickle-streams 2 two.pkl
	END
}

@test "values beyond the ceiling of nesting are cut" {
	printf '\x80\x02]]]aa.' >nested.pkl
	inspect info --limit=pickle-depth=2 nested.pkl
	[[ $output == *"nested more than 2 levels deep"*"FI3019"* ]]
	inspect info --limit=pickle-depth=3 nested.pkl
	[ -z "$stderr" ]
}

@test "outputs that do not fit are refused with those that do" {
	inspect version -o csv
	refused
	[[ $stderr == *"one of text, json"* ]]
	inspect ls -o jsn x
	refused
	[[ $stderr == *"did you mean json"* ]]
	inspect ls --json -o text x
	refused
	inspect ls -o json=a -o csv=a x
	refused
}

@test "missing arguments" {
	inspect ls
	refused
	inspect show model.safetensors
	refused
	inspect ls - --files0-from=-
	refused
}

@test "environment: wrong values are told by name, options win" {
	FSDP_INSPECT_COLOR=red inspect version
	refused
	[[ $stderr == *FSDP_INSPECT_COLOR=red* ]]
	FSDP_INSPECT_JOBS=many inspect version
	refused
	POSIXLY_CORRECT=1 inspect version --json
	[ "$status" -eq 0 ]
}

@test "a missing file: one message, status 2, the same in JSON" {
	inspect ls nowhere.pt
	[ "$status" -eq 2 ]
	[ -z "$output" ]
	[[ ${stderr_lines[0]} == "error: nowhere.pt: "* ]]
	inspect ls --json nowhere.pt
	[ "$status" -eq 2 ]
	[ "$(jq -r '[.ok, .data, (.errors | length), .errors[0].path] | @json' <<<"$output")" = \
		'[false,null,1,"nowhere.pt"]' ]
}

@test "a directory without a checkpoint" {
	mkdir empty
	inspect info empty
	[ "$status" -eq 2 ]
	[ -z "$output" ]
	[[ ${stderr_lines[0]} == "error: empty"* ]]
}

@test "hostile names in messages are escaped" {
	inspect ls $'a\e[31mb\nc.pt'
	[ "$status" -eq 2 ]
	[[ $stderr == *'a\x1b[31mb\x0ac.pt'* ]]
	[[ $stderr != *$'\e'* ]]
	inspect ls --role=$'\e]0;x'
	[[ $stderr != *$'\e'* ]]
}

@test "a full disk is one message and status 2" {
	[ -c /dev/full ] || skip "no /dev/full"
	for arguments in "help" "-h" "version" "version --json" "commands --json" "schema" \
		"ls model.safetensors" "info model.safetensors"; do
		run --separate-stderr bash -c "\"$FSDP_INSPECT\" $arguments >/dev/full"
		[ "$status" -eq 2 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	inspect version -o json=/dev/full
	[ "$status" -eq 2 ]
	[[ $stderr == *"/dev/full: "* ]]
	[ -c /dev/full ]
}

@test "a closed stdout is a failure, a closed stdin or stderr is none" {
	run --separate-stderr bash -c "\"$FSDP_INSPECT\" version >&-"
	[ "$status" -eq 2 ]
	run --separate-stderr bash -c "\"$FSDP_INSPECT\" version <&- 2>&-"
	[ "$status" -eq 0 ]
	[[ $output == fsdp-inspect* ]]
	run --separate-stderr bash -c "\"$FSDP_INSPECT\" version -o json=v.json <&- >&- 2>&-"
	[ "$status" -eq 0 ]
	jq -e .ok v.json
}

@test "a closed pipe is quiet" {
	run --separate-stderr bash -c "\"$FSDP_INSPECT\" commands --json | head -c 1"
	[ "$output" = "{" ]
	[ -z "$stderr" ]
	# Files are finished all the same.
	run --separate-stderr bash -c \
		"\"$FSDP_INSPECT\" commands --json -o text=c.txt | (exec <&-; sleep 0.1)"
	[ -z "$stderr" ]
	[ -s c.txt ]
}

@test "a file appears complete or not at all" {
	umask 027
	inspect version -o json=v.json -o text=v.txt
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	jq -e '.schema == "fsdp-inspect.version" and .ok' v.json
	[ "$(stat -c %a v.json)" = 640 ]
	[[ $(head -1 v.txt) == fsdp-inspect* ]]
	# No answer: json says so, the others do not appear.
	inspect ls nowhere.pt -o json=n.json -o csv=n.csv
	[ "$status" -eq 2 ]
	jq -e '.ok == false and .data == null' n.json
	[ ! -e n.csv ]
	inspect version -o json=no/such/folder.json
	[ "$status" -eq 2 ]
	[ -z "$(find . -name '.fsdp-inspect*')" ]
}

@test "what is not a regular file is written to, not replaced" {
	inspect version -o json=/dev/null
	[ "$status" -eq 0 ]
	[ -c /dev/null ]
	ln -s real.json link.json
	echo old >real.json
	inspect version -o json=link.json
	[ "$status" -eq 0 ]
	[ -L link.json ]
	jq -e .ok real.json
	run --separate-stderr bash -c "\"$FSDP_INSPECT\" version -o json=/dev/stdout | jq .ok"
	[ "$output" = true ]
}

@test "an output never replaces an input" {
	cp model.safetensors before
	inspect info model.safetensors -o json=./model.safetensors
	[ "$status" -eq 2 ]
	cmp model.safetensors before
}

# stays FILE ARGUMENT… : a run that would put its JSON there says no, and the file is as
# before.
stays() {
	local file=$1
	shift
	cp "$file" "$BATS_TEST_TMPDIR/before"
	inspect "$@" -o json="$file"
	[ "$status" -eq 2 ]
	[[ $stderr == *"$file: "*"belongs to the input, so "* ]]
	cmp "$file" "$BATS_TEST_TMPDIR/before"
	[ -z "$(find . -name '.fsdp-inspect*')" ]
}

@test "nor a file of a folder that is read" {
	cp -r "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint step
	mkdir step/below elsewhere
	echo mine >step/below/notes.txt
	for input in step ./step/.metadata step/__0_0.distcp; do
		stays step/__1_0.distcp info "$input"
		stays step/below/notes.txt info "$input"
	done
	ln -s step link
	stays link/__1_0.distcp info step
	stays step/__1_0.distcp info link
	(cd step && stays __1_0.distcp info .)
	# One that cannot be opened is not replaced either.
	: >step/.metadata
	stays step/__1_0.distcp info step/.metadata
	# A new name in the folder, and any beside it, are free.
	for _ in first again; do
		inspect info "$TESTDATA"/dcp/fsdp2-w4-small/checkpoint -o json=elsewhere/out.json
		[ "$status" -eq 0 ]
	done
	inspect info elsewhere/../model.safetensors -o json=out.json
	[ "$status" -eq 0 ]
	inspect info model.safetensors -o json=out.json
	[ "$status" -eq 0 ]
	inspect info step -o json=step/new.json
	[ -s step/new.json ]
}

@test "nor a file of a set, of an index or of a download cache" {
	cp -r "$TESTDATA"/fsdp1/local-w2-conv/checkpoint set
	stays set/rank1.pt info set/rank0.pt
	stays set/rank1.pt info set/rank0.pt set/rank1.pt
	stays set/rank1.pt info --separate set/rank0.pt
	cp -r "$TESTDATA"/hf/llama-sharded hf
	index=$(echo hf/*.index.json) shard=$(echo hf/*-00001-of-*.safetensors)
	stays "$shard" info "$index"
	stays "$index" info hf
	mkdir -p cache/blobs cache/snapshots/main
	blob=cache/blobs/0123456789012345678901234567890123456789
	cp model.safetensors $blob
	ln -s ../../blobs/0123456789012345678901234567890123456789 \
		cache/snapshots/main/model.safetensors
	for input in cache cache/snapshots/main cache/snapshots/main/model.safetensors; do
		stays $blob info $input
		stays cache/snapshots/main/model.safetensors info $input
	done
}

@test "nor a plan, a list, or what stdin reads" {
	cp -r "$TESTDATA"/fsdp1/local-w2-conv/checkpoint set
	plan=$TESTDATA/fsdp1/local-w2-conv/expected/plan.fsdp-plan.json
	cp "$plan" my.json
	stays my.json tree --plan my.json set
	stays my.json tree --plan ./set/../my.json set/rank0.pt
	cp "$plan" beside.fsdp-plan.json
	stays beside.fsdp-plan.json tree model.safetensors
	printf 'model.safetensors\0' >list
	stays list info --files0-from list
	stays list info --files0-from - <list
	stays model.safetensors info - <model.safetensors
	cp "$TESTDATA/traces/malformed/base.json" trace.json
	"$FSDP_INSPECT" replay --json trace.json >last.json
	stays last.json replay --compare last.json trace.json
	stays trace.json replay trace.json
}

@test "no two outputs are one file" {
	mkdir folder
	ln -s folder link
	: >there.json
	ln -s there.json to-there.json
	for pair in "a ./a" "a folder/../a" "folder/a link/a" "there.json to-there.json"; do
		inspect version -o json="${pair% *}" -o text="${pair#* }"
		refused
		[ ! -s there.json ]
	done
	inspect version -o text -o json=there.json >/dev/null
	run bash -c '"$FSDP_INSPECT" version -o text -o json=there.json >there.json'
	[ "$status" -eq 2 ]
	[ -z "$(find . -name '.fsdp-inspect*')" ]
	inspect version -o json=a -o text=folder/a
	[ "$status" -eq 0 ]
}

# Waits until a process has begun the file that it will put in its place.
begun() {
	for _ in $(seq 2400); do
		[ -n "$(find . -name '.fsdp-inspect*')" ] && break
		sleep 0.05
	done
	[ -n "$(find . -name '.fsdp-inspect*')" ]
}

# SIGTERM ends $pid, which reads descriptor 9, and what it began to write is gone.
terminated() {
	kill -TERM "$pid"
	ended=0
	wait "$pid" || ended=$?
	exec 9>&-
	[ "$ended" -eq 143 ]
	[ ! -e s.json ]
	[ -z "$(find . -name '.fsdp-inspect*')" ]
}

@test "signals leave no file behind" {
	mkfifo pipe
	"$FSDP_INSPECT" ls - -o json=s.json <pipe 2>/dev/null &
	pid=$!
	exec 9>pipe
	begun
	terminated
}

@test "an interrupted replay says so and ends by the signal" {
	mkfifo pipe
	"$FSDP_INSPECT" replay - -o jsonl -o json=s.json <pipe >out 2>err &
	pid=$!
	exec 9>pipe
	cat "$TESTDATA/traces/malformed/base.json" >&9
	# More than a pipe holds: when all is written, the reading has begun.
	head -c 200000 /dev/zero | tr '\0' ' ' >&9
	terminated
	tail -n 1 out | grep -q '"interrupted":true'
	tail -n 1 out | grep -q '"ok":false'
	[ "$(jq .interrupted s.json)" = true ] || [ ! -e s.json ]
	[ "$(cat err)" = "error: interrupted after 64 events: the answer is for these" ]
}

@test "a reading that waits for a thread is interrupted too" {
	mkfifo pipe
	"$FSDP_INSPECT" replay - -o json=s.json <pipe >/dev/null 2>&1 &
	pid=$!
	exec 9>pipe
	gzip -c "$TESTDATA/traces/malformed/base.json" | head -c 200 >&9
	begun
	sleep 0.5
	terminated
}

@test "what is not there is said under the locks too" {
	mkdir folder
	cp model.safetensors folder
	for paths in "folder nowhere.pt" "nowhere.pt folder" "folder no/where.pt" \
		"folder folder" "none.pt nothing.pt" "no/none.pt no/nothing.pt" nowhere.pt; do
		inspect ls $paths
		told=$stderr
		inspect ls $paths --no-sandbox
		# Lines to type keep the options that were typed.
		[ "$told" = "${stderr/ --no-sandbox/}" ]
		[[ $told != *"cannot open"* ]]
	done
}

@test "a line says which locks hold" {
	inspect version
	[[ $output == *"locks        "* ]]
	held=$(sed -n 's/^  locks *//p' <<<"$output")
	inspect version -v
	[ "$stderr" = "note: sandbox: $held" ]
	inspect version --no-sandbox
	[[ $output == *"locks        none"* ]]
}

@test "without its envelope a failure writes nothing" {
	for arguments in "nowhere.pt" "model.safetensors" "--flat model.safetensors"; do
		inspect fqns --bare $arguments
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ -n "$stderr" ]
	done
	inspect fqns --bare nowhere.pt -o json=map.json
	[ "$status" -eq 2 ]
	[ ! -e map.json ]
	inspect fqns --bare nowhere.pt -o jsonl
	[ "$status" -eq 2 ]
	inspect fqns nowhere.pt
	[ "$(jq .ok <<<"$output")" = false ]
}

@test "an error names its file from the input on, also one that is called alike" {
	cp -r "$TESTDATA/deepspeed/zero2-roundrobin-w2" z
	name=zero_pp_rank_1_mp_rank_00_optim_states.pt
	printf 'junk' >z/global_step2/$name
	mkdir run
	cp -r z run/step-2
	tar cf z.tar z
	for place in z/global_step2 z/ ./z z.tar run/step-2 run; do
		inspect info -q --json "$place"
		[ "$status" -eq 3 ]
		path=$(jq -r '.errors[0].path' <<<"$output")
		case $place in
		z/global_step2 | ./z) [ "$path" = "${place%/global_step2}/global_step2/$name" ] ;;
		z/) [ "$path" = "z/global_step2/$name" ] ;;
		z.tar) [ "$path" = "z.tar/global_step2/$name" ] ;;
		*) [ "$path" = "run/step-2/global_step2/$name" ] ;;
		esac
	done
	chmod 000 z/global_step2/$name
	[ -r z/global_step2/$name ] || {
		inspect info -q --json z
		[ "$(jq -r '.errors[0].path' <<<"$output")" = "z/global_step2/$name" ]
	}
}

@test "a file whose folder cannot be listed" {
	mkdir f
	echo '{"weight_map": {"a": "x.safetensors"}}' >f/model.safetensors.index.json
	cp "$TESTDATA/torch-zip/list-top/model.pt" f/model.pt
	echo '{"weight_map": {}}' >f/other.json
	inspect info --limit files=1 f/model.safetensors.index.json
	[ "$status" -ne 0 ]
	[[ "$output$stderr" != *"index of shards"* ]]
	[[ "$stderr" == *"limit files (1) reached"* ]]
	inspect info --limit files=1 f/model.pt
	[ "$status" -eq 0 ]
	inspect info --limit files=1 f/other.json
	[[ "$output$stderr" == *"index of shards"* ]]
}

@test "lists of inputs" {
	cp "$TESTDATA/torch-zip/list-top/model.pt" model.pt
	inspect ls model.pt -o name
	names=$output
	[ -n "$names" ]
	printf 'model.pt\0' >list
	inspect ls --files0-from=list -o name
	[ "$status" -eq 0 ]
	[ "$output" = "$names" ]
	printf 'model.pt\0\0' >list
	inspect ls --files0-from=list
	[ "$status" -eq 2 ]
	inspect ls --files0-from=nowhere
	[ "$status" -eq 2 ]
}

@test "separate checkpoints each have a status" {
	cp "$TESTDATA/torch-zip/list-top/model.pt" model.pt
	inspect info --json --separate model.pt nowhere.pt
	[ "$status" -eq 2 ]
	[ "$(jq -c '[.inputs[].status, (.data.checkpoints | length), .data.checkpoints[0].input]' \
		<<<"$output")" = '[0,2,1,0]' ]
}

@test "the same bytes give the same output in any locale" {
	LC_ALL=C "$FSDP_INSPECT" commands --json >a
	LC_ALL=C.UTF-8 TZ=Asia/Tokyo "$FSDP_INSPECT" commands --json >b
	cmp a b
}

@test "every schema is a document, and every JSON output names one" {
	"$FSDP_INSPECT" schema >names
	[ "$(wc -l <names)" -ge 10 ]
	while read -r name major; do
		"$FSDP_INSPECT" schema "$name" --schema="$major" >document
		[ "$(jq -r '.properties.schema.const' document)" = "fsdp-inspect.$name" ]
		"$FSDP_INSPECT" schema "$name" | cmp - document
	done <names
	inspect schema nothing
	[ "$status" -eq 1 ]
	[ "$stderr" = "error: unknown schema nothing
  hint: fsdp-inspect schema lists them" ]
	inspect schema lss
	[[ $stderr == *"did you mean: fsdp-inspect schema ls"* ]]
	inspect schema ls --schema=999
	[ "$status" -eq 1 ]
	[ "$stderr" = "error: unknown schema ls, version 999
  hint: fsdp-inspect schema lists them" ]
	inspect schema ls info
	[ "$status" -eq 0 ]
	[ "$(jq -r '.properties.schema.const' <<<"$output" | tr '\n' ' ')" = "fsdp-inspect.ls fsdp-inspect.info " ]
}

@test "completion is syntax that its shell accepts" {
	for shell in bash zsh fish; do
		inspect completion "$shell"
		[ "$status" -eq 0 ]
		printf '%s\n' "$output" >"completion.$shell"
		if command -v "$shell" >/dev/null; then
			"$shell" -n "completion.$shell"
		fi
	done
	inspect completion tcsh
	[ "$status" -eq 1 ]
	inspect completion
	[ "$status" -eq 2 ]
}

@test "bash completion offers commands, options and words" {
	complete_line() {
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_fsdp_inspect
		printf '%s\n' "${COMPREPLY[@]}"
	}
	eval "$("$FSDP_INSPECT" completion bash)"
	[ "$(complete_line fsdp-inspect tr)" = tree ]
	[ "$(complete_line fsdp-inspect ls --min)" = --min-bytes= ]
	[ "$(complete_line fsdp-inspect ls --role opt)" = optim ]
	[ "$(complete_line fsdp-inspect ls --role = opt)" = optim ]
	[ "$(complete_line fsdp-inspect help lim)" = limits ]
	# Before the command, columns, and what follows a comma.
	[ "$(complete_line fsdp-inspect -o json tr)" = tree ]
	[ "$(complete_line fsdp-inspect --verb)" = --verbose ]
	[ "$(complete_line fsdp-inspect ls -s byt)" = bytes ]
	[ "$(complete_line fsdp-inspect ls --columns = name,offs | paste -sd' ')" = "name,offset name,offsets" ]
	[ "$(complete_line fsdp-inspect ls --role param,opt)" = param,optim ]
}

@test "bash completion offers names of the checkpoint, and runs none of them" {
	complete_line() {
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_fsdp_inspect
		printf '%s\n' "${COMPREPLY[@]}"
	}
	mkdir bin
	ln -s "$FSDP_INSPECT" bin/fsdp-inspect
	printf '#!/bin/sh\nshift\nexec "$@"\n' >bin/timeout # no clock
	chmod +x bin/timeout
	PATH=$PWD/bin:$PATH
	eval "$("$FSDP_INSPECT" completion bash)"
	[ "$(complete_line fsdp-inspect show model.safetensors we)" = weight ]
	[ "$(complete_line fsdp-inspect ls model.safetensors -g we)" = weight ]
	[ "$(complete_line fsdp-inspect show nowhere.pt we)" = "" ]
	header='{"$(touch pwned) `touch pwned`;":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
	length=$(printf '\\%03o' "${#header}")
	printf '%b\0\0\0\0\0\0\0%s\0\0\0\0\0\0\0\0\0\0\0\0' "$length" "$header" >hostile.safetensors
	offered=$(complete_line fsdp-inspect show hostile.safetensors '')
	[[ $offered == '\$\(touch\ pwned\)'* ]]
	[ ! -e pwned ]
}

@test "every column that completion offers is one of some table" {
	for column in $("$FSDP_INSPECT" completion bash | sed -n "s/.*ls:--columns) words='\(.*\)'.*/\1/p"); do
		for form in "" -l --by=role --objects; do
			inspect ls $form --columns="$column" model.safetensors
			[ "$status" -ne 2 ] && break
		done
		[ "$status" -ne 2 ]
	done
}

@test "a type with a long name is not gone since the baseline" {
	name=$(printf 'k%.0s' $(seq 300))
	sed "s/über/$name/" "$TESTDATA/traces/simple_profiler/keys_rank0.log" >long.log
	"$FSDP_INSPECT" replay --json long.log >base.json
	inspect replay --compare base.json long.log
	[ "$status" -eq 0 ]
	[[ $output == *"$name"* ]]
	[[ $output != *"~ $name"* ]]
}

@test "a plan that only lies there is read as long as it is small" {
	{
		cat "$TESTDATA"/fsdp1/local-w3-uneven/expected/plan.fsdp-plan.json
		head -c 1048576 /dev/zero | tr '\0' ' '
	} >big.fsdp-plan.json
	inspect ls model.safetensors
	[ "$status" -eq 0 ]
	[[ $stderr == *"did not use the plan big.fsdp-plan.json"*"give it with --plan"* ]]
	for option in --limit=found-plan-bytes=2M --plan=big.fsdp-plan.json; do
		inspect ls "$option" model.safetensors
		[[ $stderr != *"did not use"* ]]
		[[ $stderr == *"none of the plan's "* ]]
	done
}

@test "what was not looked through beside something broken is told" {
	mkdir broken
	printf '\x80\x02}(cos\nsystem\n' >broken/.metadata
	for i in $(seq 100 165); do
		printf '\x80\x02}.' >"broken/x$i.pkl"
	done
	inspect info -v broken
	[ "$status" -eq 2 ]
	[[ $stderr == *"os.system is named"*"FI3001"* ]]
	[[ $stderr == *"x163.pkl: this is the last of 64 files"*"FI9006"* ]]
	rm broken/x16[45].pkl
	inspect info -v broken
	[[ $stderr != *"FI9006"* ]]
}

@test "an error of a file that is the input names it once" {
	python3 - "$TESTDATA/torch-zip/list-top/model.pt" <<-'END'
		import sys, zipfile
		archive = zipfile.ZipFile(sys.argv[1])
		name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
		open("data.pkl", "wb").write(archive.read(name))
	END
	inspect ls -l data.pkl
	[[ $stderr == *"error: data.pkl: the file does not have these bytes"* ]]
}

@test "of pickles that were not looked at, as many are named as fit" {
	python3 - "$TESTDATA/torch-zip/state-dict/model.pt" many.pt <<-'END'
		import sys, zipfile
		with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
		    for name in old.namelist():
		        new.writestr(name, old.read(name))
		    for letter in "abcd":
		        new.writestr("model/" + letter * 300, b"\x80\x02K\x01.")
	END
	inspect ls --limit=pickle-streams=1 many.pt
	[ "$status" -eq 0 ]
	local b c
	printf -v b '%249s' ''
	c=${b// /c} b=${b// /b}
	grep -qxF "warning: many.pt: 3 pickles next to data.pkl were not checked: model/$b, model/$c [FI9006 not-evaluated]" <<<"$stderr"
}

@test "metadata is read once, and small items once too, whether they are looked into or not" {
	command -v strace || skip "there is no strace"
	reads() { # NAME WORD...: how often files of this name are read
		ASAN_OPTIONS=detect_leaks=0 strace -f -y -qq -e trace=pread64 -e signal=none -o trace "$FSDP_INSPECT" --no-sandbox "${@:2}" >out
		grep -c "$1>" trace || true
	}
	[ "$(reads .metadata info "$TESTDATA/dcp/fsdp1-w2-ac/checkpoint")" -eq 1 ]
	[ "$(reads .distcp audit --for=none "$TESTDATA/dcp/fsdp1-w2-ac/checkpoint")" -le 12 ]
}
