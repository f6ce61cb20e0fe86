#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh: runs bench/$NAME (a script, or the program built from bench/$NAME.c) with the words of
# $PART as arguments; lists them when NAME is empty. docs/benchmarks.md says what each measures.
#
# Sets BENCH_DIR, a directory for the run's files that is removed afterwards (under TMPDIR, else
# under build: a store belongs on a real disk), and BENCH_COMMIT, what is measured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A file with an underscore in its name is a part of a benchmark; bench.c and bench.h are of all.
list() {
    local file name
    for file in bench/*.c bench/*.sh bench/*.py; do
        name=$(basename "${file%.*}")
        if [ -f "$file" ] && [[ $name != *_* ]] && [ "$name" != bench ]; then
            echo "$name"
        fi
    done | sort -u
}

if [ -z "${NAME:-}" ]; then
    echo "usage: make bench NAME=x [PART=...], where x is one of:"
    list | sed 's/^/  /'
    exit 0
fi
if ! list | grep -qxF "$NAME"; then
    echo "bench: there is no bench/$NAME; 'make bench' lists them" >&2
    exit 1
fi

tools/deps.sh bench
tools/build.sh release
program=build/release/bench/$NAME
for script in "bench/$NAME.sh" "bench/$NAME.py"; do
    [ -x "$script" ] && program=$script
done
# What it is linked with may have been installed just now.
if [ ! -x "$program" ]; then
    cmake build/release > build/release/configure.log
    tools/build.sh release
fi

BENCH_COMMIT=$(git describe --always --dirty --exclude '*' 2> /dev/null || echo unknown)
BENCH_DIR=$(mktemp -d "${TMPDIR:-build}/bench.XXXXXX")
export BENCH_COMMIT BENCH_DIR
trap 'rm -rf "$BENCH_DIR"' EXIT
# shellcheck disable=SC2086
"$program" ${PART:-}
