#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs.sh: writes the reference and the manual pages, which are generated from the tables in the
# source, to build/reference/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/deps.sh build
tools/build.sh release reference
mkdir -p build/reference
for page in settings functions routes errors; do
    build/release/src/reference "$page" > "build/reference/$page.md"
done
for page in themis.1 themisd.8; do
    build/release/src/reference "$page" > "build/reference/$page"
done
echo "wrote build/reference/{settings,functions,routes,errors}.md, build/reference/{themis.1,themisd.8}"
