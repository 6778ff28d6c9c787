# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts beside it; source it, do not run it. Knows what the build needs
# on Debian 12 and how to keep a build folder up to date. Everything it says goes to
# stderr, and of the chatter of apt, meson and ninja only what explains a failure.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# Where build folders go: the source tree, unless it cannot be written to.
if [ -w "$root" ]; then
	build_root=$root
else
	build_root=${TMPDIR:-/tmp}/fsdp-inspect-$(id -u)-$(printf %s "$root" | cksum | cut -d' ' -f1)
	mkdir -p -m 700 "$build_root"
	[ -O "$build_root" ] || { echo "setup: $build_root belongs to another user" >&2; exit 2; }
fi

say() {
	printf 'setup: %s\n' "$*" >&2
}

# What is needed: package, and a probe that says whether it is there already, however
# installed it.
needs_build='
gcc                command:cc
libc6-dev          file:/usr/include/stdio.h
meson              command:meson
ninja-build        command:ninja
pkg-config         command:pkg-config
zlib1g-dev         module:zlib
libarchive-dev     module:libarchive
libjansson-dev     module:jansson
libpcre2-dev       module:libpcre2-8
libutf8proc-dev    module:libutf8proc
libssl-dev         module:libcrypto
'
needs_test='
g++                command:c++
binutils           command:nm
libcmocka-dev      module:cmocka
bats               command:bats
mandoc             command:mandoc
jq                 command:jq
libxml2-utils      command:xmllint
python3-jsonschema python:jsonschema
python3-pip        python:pip
python3-setuptools python:setuptools
python3-wheel      python:wheel
bsdutils           command:script
tmux               command:tmux
git                command:git
'
needs_fuzz='
clang              command:clang
'

# has_module PYTHON MODULE
has_module() {
	"$1" -c "import $2" >/dev/null 2>&1
}

present() {
	local what=${1#*:}
	case $1 in
	command:*) command -v "$what" >/dev/null ;;
	module:*) pkg-config --exists "$what" 2>/dev/null ;;
	python:*) has_module python3 "$what" || has_module /usr/bin/python3 "$what" ;;
	file:*) [ -e "$what" ] ;;
	esac
}

# quietly WHAT COMMAND… : its output is shown only if it fails.
quietly() {
	local what=$1 log status=0
	shift
	log=$(mktemp "${TMPDIR:-/tmp}/fsdp-inspect.XXXXXX") || return
	"$@" </dev/null >"$log" 2>&1 || status=$?
	if [ "$status" -ne 0 ]; then
		cat "$log" >&2
		say "$what failed with status $status"
	fi
	rm -f "$log"
	return "$status"
}

# watched WHAT COMMAND… : as quietly, and meanwhile the last line of its output on stderr
# with the elapsed time: renewed on a terminal, every 15 seconds elsewhere.
watched() {
	local what=$1 log watcher status=0 started=$SECONDS
	shift
	log=$(mktemp "${TMPDIR:-/tmp}/fsdp-inspect.XXXXXX") || return
	say "$what"
	watch_log "$what" "$log" $$ &
	watcher=$!
	"$@" </dev/null >"$log" 2>&1 || status=$?
	kill "$watcher" 2>/dev/null
	wait "$watcher" 2>/dev/null || true
	[ ! -t 2 ] || printf '\r\033[K' >&2
	if [ "$status" -ne 0 ]; then
		cat "$log" >&2
		say "$what: failed with status $status"
	else
		say "$what: done in $((SECONDS - started)) s"
	fi
	rm -f "$log"
	return "$status"
}

# watch_log WHAT LOG PROCESS : until PROCESS ends or this is killed.
watch_log() {
	local pause=15 before='setup: ' after='\n' started=$SECONDS
	[ ! -t 2 ] || { pause=0.5; before='\r\033[Ksetup: '; after=; }
	# The sleep outlives a killed watcher: it may hold neither the lock nor a pipe.
	while sleep "$pause" >/dev/null 2>&1 9>&- && kill -0 "$3" 2>/dev/null; do
		printf "$before%s: %d s: %.60s$after" "$1" $((SECONDS - started)) \
			"$(tail -n 1 "$2" 2>/dev/null | tr -d '\r')" >&2
	done
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

# install TABLE… : the packages of these tables that are missing, if any. A machine
# without apt is left alone: meson names what it misses.
install() {
	local package probe missing=()
	while read -r package probe; do
		[ -z "$package" ] || present "$probe" || missing+=("$package")
	done <<<"$(printf '%s\n' "$@")"
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		say "not found, and no apt-get to install them with: ${missing[*]}"
		return 0
	fi
	say "Debian packages to install: ${missing[*]}"
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y
		-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
	# Stale lists may still do; if not, the installation says so.
	watched 'updating the package lists' as_root "${apt[@]}" update || true
	watched 'installing the packages' as_root "${apt[@]}" install --no-install-recommends \
		"${missing[@]}"
}

# A python3 that a user put in front of the system's (a venv) has none of the packages
# above. If it lacks what tests need, they run with the system's own.
choose_python() {
	local beside=$build_root/build-python
	if ! has_module python3 jsonschema && has_module /usr/bin/python3 jsonschema; then
		say "tests use /usr/bin/python3: $(command -v python3) has no jsonschema"
		mkdir -p "$beside"
		ln -sf /usr/bin/python3 "$beside/python3"
		PATH=$beside:$PATH
	fi
}

# configured FOLDER: it was set up, to the end, for this source tree.
configured() {
	[ -f "$1/build.ninja" ] &&
		grep -qF "\"source\": \"$root\"" "$1/meson-info/meson-info.json" 2>/dev/null
}

# build FOLDER TARGETS [MESON OPTION…] : up to date, or status 1 after saying why.
# TARGETS are words for ninja; empty is everything.
build() {
	local folder=$1 targets=$2
	shift 2
	if ! configured "$folder"; then
		rm -rf "$folder"
		quietly 'meson setup' meson setup "$folder" "$root" "$@" || {
			rm -rf "$folder"
			return 1
		}
	fi
	# shellcheck disable=SC2086
	ninja -n -C "$folder" $targets 2>/dev/null | grep -q 'no work to do' ||
		watched "building $(basename "$folder")" ninja -C "$folder" $targets
}

# One at a time: a second call waits for the first instead of breaking its folders.
lock() {
	exec 9<"$build_root"
	flock 9
}

unlock() {
	exec 9<&-
}

# What a user's shell may have set must not decide a test.
forget_settings() {
	unset CDPATH COLUMNS NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE
	unset ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS MALLOC_PERTURB_
}
