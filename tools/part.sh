#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# part.sh SCRIPT WHAT: runs SCRIPT, or says plainly that this part does not exist yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ ! -x "$1" ]; then
    echo "not available yet: $2 ($1 does not exist)" >&2
    exit 1
fi
exec "$1"
