#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh: the fast checks. Runs all of them and says at the end which failed. Static analysis
# looks at the files changed since the branch left origin/main (or in the last commit) and in the
# work tree; ALL=1 looks at every file. docs/ARCHITECTURE.md holds the layering tables.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

failed=()
jobs=$(nproc)

# check NAME COMMAND...: runs one check, shows its output when it has any.
check() {
    local name=$1 start=$SECONDS
    shift
    echo "check: $name"
    if ! "$@"; then
        failed+=("$name")
    fi
    [ $((SECONDS - start)) -lt 20 ] || echo "  took $((SECONDS - start)) s"
}

# Files under git or new, not ignored, that exist.
sources() {
    git ls-files -co --exclude-standard -- "$@" | sort -u | while read -r file; do
        [ -f "$file" ] && echo "$file"
    done
}

changed() {
    local base
    base=$(git merge-base HEAD origin/main 2> /dev/null || true)
    if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
        base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
    fi
    {
        git diff --name-only --diff-filter=d "$base" -- "$@"
        git ls-files -o --exclude-standard -- "$@"
    } | sort -u
}

format() {
    local files
    mapfile -t files < <(sources 'src/*.[ch]' 'src/*.cc' 'test/*.[ch]' 'bench/*.[ch]')
    [ ${#files[@]} = 0 ] && return 0
    printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 16 sh -c '
        found=$(clang-format --dry-run -Werror "$@" 2>&1) || printf "%s\n" "$found"
    ' sh > build/format.log
    if [ -s build/format.log ]; then
        grep 'error:' build/format.log | cut -d: -f1 | sort | uniq -c |
            awk '{ printf "  %s: %s places\n", $2, $1 }'
        echo "  tools/format.sh FILE... puts them right"
        return 1
    fi
}

headers() {
    local include="-Isrc -Ibuild/release/gen -isystem build/deps/src/yyjson \
        -isystem build/deps/src/llhttp/include -isystem build/deps/llama/include"
    # shellcheck disable=SC2016
    sources 'src/*.h' | INCLUDE=$include xargs -r -P "$jobs" -I{} sh -c '
        printf "#include \"%s\"\n" "${1#src/}" |
            gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function \
                -fsyntax-only -x c $INCLUDE - || { echo "  $1 does not compile alone"; exit 1; }
    ' sh {}
}

analysis() {
    local files
    if [ -n "${ALL:-}" ]; then
        mapfile -t files < <(sources 'src/*.c' 'src/*.cc')
    else
        mapfile -t files < <(changed 'src/*.c' 'src/*.cc')
    fi
    [ ${#files[@]} = 0 ] && return 0
    if [ ! -f build/release/compile_commands.json ]; then
        cmake --preset release > build/configure.log 2>&1 || {
            tail -n 20 build/configure.log
            return 1
        }
    fi
    ninja -C build/release -t targets all 2> /dev/null | sed -nE 's/^(gen\/[^:]*): .*/\1/p' |
        xargs -r ninja -C build/release > build/generate.log 2>&1 || {
        tail -n 20 build/generate.log
        return 1
    }
    echo "  clang-tidy over ${#files[@]} files"
    # error.c defines the functions that analyzer.h describes.
    printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 1 sh -c '
        case $1 in
        *.cc) set -- "$1" "--extra-arg=-isystem$PWD/tools/check/include" ;;
        src/base/error.c) set -- "$1" ;;
        *) set -- "$1" "--extra-arg=-include$PWD/tools/check/analyzer.h" \
            "--extra-arg=-I$PWD/src" ;;
        esac
        clang-tidy -p build/release --quiet "$@" 2> /dev/null
    ' sh
}

shell_scripts() {
    local scripts
    mapfile -t scripts < <(sources 'tools/*.sh' '.ci/run' 'test/*.sh' 'bench/*.sh')
    for script in "${scripts[@]}"; do
        bash -n "$script" || return 1
    done
    command -v shellcheck > /dev/null || return 0
    shellcheck -S warning "${scripts[@]}"
}

mkdir -p build
python=python3
check "format" format
check "layering and one door per foreign library" $python tools/check/layering.py
check "each header compiles alone" headers
check "licence lines, host names, paths of a machine" $python tools/check/texts.py
check "third-party table" $python tools/check/third_party.py
check "shell scripts" shell_scripts
check "static analysis" analysis
check "sizes (a report)" $python tools/check/sizes.py

echo
if [ ${#failed[@]} != 0 ]; then
    echo "check: ${#failed[@]} failed:"
    printf '  %s\n' "${failed[@]}"
    exit 1
fi
echo "check: all passed"
