#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test.sh [CTEST OPTION...]: builds, then runs every test with one CTest summary at the end:
# unit tests under ASan and UBSan (build/dev), the same in the release build, where the real models
# are used, and the end-to-end tests against the release binaries.
#
# For example `tools/test.sh -R store` runs a part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/build.sh release
tools/build.sh dev

mkdir -p build/test
build/deps/venv-test/bin/python tools/ctest_file.py > build/test/CTestTestfile.cmake.new
mv build/test/CTestTestfile.cmake.new build/test/CTestTestfile.cmake

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
cd build/test
exec ctest --output-on-failure --no-tests=error -j "$(nproc)" "$@"
