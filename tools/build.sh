#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET [TARGET...]: configures when needed and builds; the release binaries are linked
# to build/themisd and build/themis. Lines of progress come from ninja.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
shift
dir=build/$preset

if [ ! -f "$dir/build.ninja" ] || [ CMakePresets.json -nt "$dir/build.ninja" ]; then
    echo "configuring $dir"
    mkdir -p "$dir"
    if ! cmake --preset "$preset" > "$dir/configure.log" 2>&1; then
        tail -n 25 "$dir/configure.log" >&2
        echo "build: configuring $dir failed, see above and $dir/configure.log;" >&2
        echo "build: 'make clean' and trying again helps when another CMake or compiler was used" >&2
        exit 1
    fi
fi

# A terminal gets ninja's one line; a log gets only what goes wrong and the end.
if [ -t 1 ]; then
    ninja -C "$dir" "$@"
else
    ninja -C "$dir" "$@" > "$dir/ninja.log" 2>&1 || {
        grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating|Re-)|^-- |^ninja: Ent' "$dir/ninja.log" |
            head -n 120 >&2
        echo "build: $dir does not build, see above and $dir/ninja.log" >&2
        exit 1
    }
    echo "$dir: $(tail -n 1 "$dir/ninja.log")"
fi

if [ "$preset" = release ]; then
    for program in themisd themis; do
        [ -x "$dir/src/$program" ] && ln -sf "release/src/$program" "build/$program"
    done
    true
fi
