#!/usr/bin/env zsh
# SPDX-License-Identifier: Apache-2.0
# complete.zsh SCRIPT LINE…: what each line becomes after a tab in an interactive zsh that
# has read SCRIPT.
zmodload zsh/zpty || exit 77
script=$1
shift
zpty shell zsh -f -i
zpty -w shell "PS1=; autoload -U compinit; compinit -u -D; source ${(q)script}
tell() { print -r -- \"<<\$BUFFER>>\"; zle kill-whole-line }
zle -N tell; bindkey '^I' complete-word; bindkey '^X' tell; setopt no_beep no_list_ambiguous no_auto_list"
zpty -w shell 'print -r -- ready-$((40 + 2))'
zpty -r -m shell answer '*ready-42*'
for line; do
	zpty -w -n shell "$line"$'\t\x18'
	zpty -r -m shell answer '*<<*>>*'
	answer=${answer##*<<}
	print -r -- "${answer%%>>*}"
done
zpty -d shell
