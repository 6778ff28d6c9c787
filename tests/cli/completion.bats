#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Completion as it comes out of interactive shells: after a tab in bash and zsh, and as fish lists it.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export LC_ALL=C.UTF-8 HOME=$BATS_TEST_TMPDIR
	here=$(dirname "$BATS_TEST_FILENAME")
	mkdir -p bin
	ln -sf "$FSDP_INSPECT" bin/fsdp-inspect
	# The fifth of a second after which names are given up, and no clock of a busy machine.
	limit=$(command -v timeout)
	printf '#!/bin/sh\nif [ "$1" = 0.2 ]; then shift; exec "$@"; fi\nexec %s "$@"\n' "$limit" >bin/timeout
	chmod +x bin/timeout
	PATH=$PWD/bin:$PATH
	ln -sf "$TESTDATA/torch-zip/state-dict/model.pt" model.pt
	ln -sfn "$TESTDATA/fsdp1/local-w2-adam-orig/checkpoint" ranks
	header='{"$(touch pwned) `touch pwned`;":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
	length=$(printf '\\%03o' "${#header}")
	printf '%b\0\0\0\0\0\0\0%s\0\0\0\0\0\0\0\0\0\0\0\0' "$length" "$header" >hostile.safetensors
	name=$(fsdp-inspect ls -q -o name model.pt | head -1)
}

# Pairs of what is typed and what it becomes.
bash_makes() {
	why=$(python3 "$here/terminals.py") || skip "$why"
	fsdp-inspect completion bash >fsdp-inspect.bash
	typed=()
	wanted=()
	while IFS='>' read -r from to; do
		typed+=("fsdp-inspect $from")
		wanted+=("fsdp-inspect $to|")
	done
	timeout 100 python3 "$here/complete.py" "$PWD/fsdp-inspect.bash" "${typed[@]}" >made
	printf '%s\n' "${wanted[@]}" | diff - <(sed 's/$/|/' made)
}

@test "bash completes commands, options, words, rules and columns" {
	bash_makes <<-'EOF'
		tr>tree 
		-o json tr>-o json tree 
		--verb>--verbose 
		--color=nev>--color=never 
		ls --min>ls --min-bytes=
		ls --role=opt>ls --role=optim
		ls --role=param,opt>ls --role=param,optim
		ls --columns=name,dtype_>ls --columns=name,dtype_raw
		ls --columns name,requires>ls --columns name,requires_grad
		ls -s byt>ls -s bytes
		ls -s -byt>ls -s -bytes
		ls --limit=pickle-by>ls --limit=pickle-bytes=
		audit --loader-option=fsdp=fa>audit --loader-option=fsdp=false 
		audit --loader-option state_dict_type=SH>audit --loader-option state_dict_type=SHARDED_STATE_DICT 
		audit --for=dcp --loader-option storage_>audit --for=dcp --loader-option storage_reader=
		help lim>help limits 
		help FI1004>help FI1004 
		rules FI1004>rules FI1004 
		audit --rule=FI1004>audit --rule=FI1004=
		audit --rule=truncated-fi>audit --rule=truncated-file=
		info mod>info model.pt 
		info --plan=mod>info --plan=model.pt 
	EOF
}

@test "bash completes names and units of the checkpoint, and runs none of them" {
	bash_makes <<-EOF
		show model.pt $name>show model.pt $name 
		show model.pt ${name%?}>show model.pt $name 
		--color=never show model.pt ${name%?}>--color=never show model.pt $name 
		ls model.pt -g ${name%?}>ls model.pt -g $name 
		ls model.pt --glob=${name%?}>ls model.pt --glob=$name 
		flat ranks --unit=model.>flat ranks --unit=model.0 
		show hostile.safetensors >show hostile.safetensors \\\$\\(touch\\ pwned\\)\\ \\\`touch\\ pwned\\\`\\; 
	EOF
	[ ! -e pwned ]
}

# The same for zsh.
zsh_makes() {
	why=$(python3 "$here/terminals.py") || skip "$why"
	fsdp-inspect completion zsh >_fsdp-inspect
	typed=()
	wanted=()
	while IFS='>' read -r from to; do
		typed+=("fsdp-inspect $from")
		wanted+=("fsdp-inspect $to")
	done
	timeout 100 zsh "$here/complete.zsh" "$PWD/_fsdp-inspect" "${typed[@]}" >made
	printf '%s\n' "${wanted[@]}" | diff - <(sed 's/ *$//' made)
}

@test "zsh completes commands, options, words and columns" {
	command -v zsh || skip "zsh is not installed"
	zsh_makes <<-'EOF'
		tr>tree
		-o json tr>-o json tree
		--verb>--verbose
		--color=nev>--color=never
		ls --min>ls --min-bytes=
		ls --role=opt>ls --role=optim,
		ls --role=param,opt>ls --role=param,optim,
		ls --columns=name,dty>ls --columns=name,dtype
		ls -s byt>ls -s bytes,
		help lim>help limits
		help FI1004>help FI1004
		rules FI1004>rules FI1004
		audit --rule=FI1004>audit --rule=FI1004=
		info mod>info model.pt
	EOF
}

@test "zsh completes names of the checkpoint, and runs none of them" {
	command -v zsh || skip "zsh is not installed"
	zsh_makes <<-EOF
		show model.pt $name>show model.pt $name
		show model.pt ${name%?}>show model.pt $name
		--color=never show model.pt ${name%?}>--color=never show model.pt $name
		ls model.pt -g ${name%?}>ls model.pt -g $name
		flat ranks --unit=model.>flat ranks --unit=model.0
		show hostile.safetensors >show hostile.safetensors \\\$\\(touch\\ pwned\\)\\ \\\`touch\\ pwned\\\`\\;
	EOF
	[ ! -e pwned ]
}

# What fish offers for a line: the words alone, on one line.
fish_offers() {
	timeout 60 fish --no-config -c 'fsdp-inspect completion fish | source; complete -C $argv[1]' "fsdp-inspect $1" | cut -f1 | paste -sd' '
}

@test "fish offers commands, options, words and columns" {
	command -v fish || skip "fish is not installed"
	[ "$(fish_offers tr)" = tree ]
	[ "$(fish_offers '-o json tr')" = tree ]
	[ "$(fish_offers --verb)" = --verbose ]
	[ "$(fish_offers --color=nev)" = --color=never ]
	[ "$(fish_offers 'ls --min')" = --min-bytes ]
	[ "$(fish_offers 'ls --role param,opt')" = param,optim ]
	[ "$(fish_offers 'ls --columns=name,dty')" = "--columns=name,dtype --columns=name,dtype_raw" ]
	[ "$(fish_offers 'help lim')" = limits ]
	[ "$(fish_offers 'help FI1004')" = FI1004 ]
	[ "$(fish_offers 'rules FI1004')" = FI1004 ]
	[ "$(fish_offers 'audit --rule FI1004')" = FI1004= ]
	[ "$(fish_offers 'info mod')" = model.pt ]
}

@test "fish offers names of the checkpoint, and runs none of them" {
	command -v fish || skip "fish is not installed"
	[ "$(fish_offers "show model.pt ${name%?}")" = "$name" ]
	[ "$(fish_offers "--color=never show model.pt ${name%?}")" = "$name" ]
	[ "$(fish_offers "ls model.pt -g ${name%?}")" = "$name" ]
	[ "$(fish_offers "show hostile.safetensors ")" = '$(touch pwned) `touch pwned`;' ]
	[ "$(fish_offers "show mod")" = model.pt ]
	[ "$(fish_offers "flat ranks --unit=model.")" = --unit=model.0 ]
	[ ! -e pwned ]
}
