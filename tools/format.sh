#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# format.sh FILE...: rewrites C and C++ files in the house style (.clang-format).
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: tools/format.sh FILE..." >&2; exit 2; }
exec clang-format -i "$@"
