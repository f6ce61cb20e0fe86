#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: long tests of what must survive: kill -9, concurrent clients, damaged files, a full disk,
# other model files. ONLY=words runs those tests whose names fit (pytest -k).
#
#   ROUNDS=50   kills with all kinds of writers
#   DAMAGES=20  damaged copies of a store, of each kind
#   HISTORY=300 seconds of transactions that are checked for serializability, without and with kills
#   SEED=n      the same order of events again
#
# The full disk is a small tmpfs in a mount namespace of its own, which ends with this program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools/deps.sh test
tools/build.sh release

export THEMISD=$PWD/build/themisd THEMIS=$PWD/build/themis THEMISD_ASAN=$PWD/build/themisd
export THEMIS_MODELS=$PWD/build/models PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/test/e2e
export THEMIS_CRASH_ROUNDS=${ROUNDS:-50} THEMIS_DAMAGES=${DAMAGES:-20}
export THEMIS_HISTORY_SECONDS=${HISTORY:-300}
export THEMIS_START_LIMIT_S=600 # hours of it may meet a busy machine; a start that hangs is found all the same
[ -z "${SEED:-}" ] || export THEMIS_CRASH_SEED=$SEED THEMIS_HISTORY_SEED=$SEED

namespace=(unshare --mount)
[ "$(id -u)" = 0 ] || namespace+=(--map-root-user)
exec "${namespace[@]}" build/deps/venv-test/bin/python -m pytest -v -s -p no:cacheprovider -p conftest \
    ${ONLY:+-k "$ONLY"} test/e2e/test_crash.py test/e2e/test_history.py test/soak
