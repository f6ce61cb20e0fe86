#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh: builds the fuzz targets with clang (build/fuzz) and lets each search for FUZZ_SECONDS
# (default 60) from its seeds. What it finds stays in build/fuzz/found; a crash becomes a test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${FUZZ_SECONDS:-60}
dir=build/fuzz

mkdir -p $dir/found
if [ ! -f $dir/build.ninja ]; then
    echo "configuring $dir"
    if ! cmake -S . -B $dir -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
        -DCMAKE_BUILD_TYPE=Debug -DTHEMIS_FUZZ=ON \
        -DTHEMIS_SANITIZE="fuzzer-no-link;address;undefined" > $dir/configure.log 2>&1; then
        tail -n 20 $dir/configure.log >&2
        exit 1
    fi
fi

mapfile -t targets < <(ninja -C $dir -t targets all | sed -nE 's/^(fuzz_[a-z0-9_]+): phony$/\1/p')
[ ${#targets[@]} != 0 ] || { echo "fuzz: there are no targets in test/fuzz" >&2; exit 1; }
ninja -C $dir "${targets[@]}" > $dir/ninja.log 2>&1 || {
    grep -E 'error|FAILED|undefined' $dir/ninja.log >&2
    echo "fuzz: $dir does not build, see $dir/ninja.log" >&2
    exit 1
}

failed=()
for target in "${targets[@]}"; do
    name=${target#fuzz_}
    corpus=$dir/corpus/$name
    options=("-max_total_time=$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0
        "-artifact_prefix=$dir/found/$name-")
    [ -f "test/fuzz/$name.dict" ] && options+=("-dict=test/fuzz/$name.dict")
    mkdir -p "$corpus"
    inputs=("$corpus")
    [ -d "test/fuzz/seeds/$name" ] && inputs+=("test/fuzz/seeds/$name")
    echo "fuzz: $name for $seconds s"
    if "$dir/test/fuzz/$target" "${options[@]}" "${inputs[@]}" > "$dir/$name.log" 2>&1; then
        tail -n 1 "$dir/$name.log" | sed 's/^/  /'
    else
        failed+=("$name")
        tail -n 25 "$dir/$name.log" | sed 's/^/  /'
    fi
done

if [ ${#failed[@]} != 0 ]; then
    echo "fuzz: ${failed[*]} failed; the inputs are in $dir/found" >&2
    exit 1
fi
echo "fuzz: ${#targets[@]} targets, nothing found"
