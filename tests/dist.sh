#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# dist.sh BUILD : what `meson dist` packs builds by itself, from what is committed. It is not optimized: that no
# file is missing takes a third of the time then.

set -eu
build=$(cd "$1" && pwd -P)
root=$(cd "$(dirname "$0")/.." && pwd -P)
[ -e "$root/.git" ] || { echo 'not a repository'; exit 77; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/fsdp-inspect-dist.XXXXXX")
trap 'rm -rf "$folder"' EXIT
meson dist -C "$build" --allow-dirty --no-tests --formats gztar >"$folder/log" 2>&1 || {
	cat "$folder/log"
	exit 1
}
tar xzf "$build"/meson-dist/fsdp-inspect-*.tar.gz -C "$folder"
cd "$folder"/fsdp-inspect-*/
meson setup build -Doptimization=0 -Db_lto=false
ninja -C build
build/cli/fsdp-inspect version
