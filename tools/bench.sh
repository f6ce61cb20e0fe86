#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh: runs bench/$NAME (a script, or the program built from bench/$NAME.c); lists them
# when NAME is empty.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shopt -s nullglob
names=()
for file in bench/*; do
    name=$(basename "$file")
    [ -f "$file" ] && [ "${name##*.}" != md ] && [ "$name" != CMakeLists.txt ] &&
        names+=("${name%.*}")
done

if [ ${#names[@]} = 0 ]; then
    echo "not available yet: benchmarks (bench/ has none)" >&2
    exit 1
fi
if [ -z "${NAME:-}" ]; then
    echo "usage: make bench NAME=x, where x is one of:"
    printf '  %s\n' "${names[@]}" | sort -u
    exit 0
fi

tools/deps.sh run
tools/build.sh release
for program in "build/release/bench/$NAME" "bench/$NAME" "bench/$NAME.sh" "bench/$NAME.py"; do
    [ -x "$program" ] && exec "$program"
done
echo "bench: there is no bench/$NAME; 'make bench' lists them" >&2
exit 1
