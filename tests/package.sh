#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# package.sh : a release can be made of what is committed. Each part tries itself.

set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
[ -e "$root/.git" ] || { echo 'not a repository'; exit 77; }
for needed in nasm dpkg-buildpackage lintian dh; do
	command -v "$needed" >/dev/null || { echo "no $needed: scripts/package installs it"; exit 77; }
done
folder=$(mktemp -d "${TMPDIR:-/tmp}/fsdp-inspect-release.XXXXXX")
trap 'rm -rf "$folder"' EXIT
"$root/scripts/package" "$folder"
size=$(tar -xOzf "$folder"/fsdp-inspect-*-linux-*.tar.gz --wildcards '*/bin/fsdp-inspect' | wc -c)
echo "the static command has $size bytes"
[ "$size" -lt 4000000 ]
