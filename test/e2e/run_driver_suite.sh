#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run_driver_suite.sh PATH [PYTEST OPTION...]: runs the public test suite of python-arango, whose
# sources are in PATH, against the release build. What cannot pass is in driver_suite_skips.txt,
# one test or file a line with the reason. Not part of make test: the sources are not ours.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suite=${1:?"usage: run_driver_suite.sh PATH [PYTEST OPTION...]"}
shift
[ -f "$suite/tests/conftest.py" ] || { echo "$suite/tests/conftest.py does not exist" >&2; exit 2; }

work=$(mktemp -d)
node=
finish() {
    [ -n "$node" ] && kill "$node" 2> /dev/null && wait "$node" 2> /dev/null
    rm -rf "$work"
}
trap finish EXIT

printf 'the secret of this run, long enough' > "$work/secret"
printf 'passwd' > "$work/password"
"${THEMISD:-$root/build/themisd}" --data "$work/data" --listen 127.0.0.1:0 --set auth=true \
    --set jwt_secret_file="$work/secret" --set root_password_file="$work/password" \
    > "$work/log" 2>&1 &
node=$!
port=
for _ in $(seq 200); do
    port=$(sed -nE 's|.*listens on http://[^ ]+:([0-9]+).*|\1|p' "$work/log")
    [ -n "$port" ] && break
    sleep 0.1
done
[ -n "$port" ] || { cat "$work/log" >&2; echo "themisd did not start" >&2; exit 1; }

skips=()
while read -r test _; do
    case $test in '' | '#'*) continue ;; esac
    skips+=(--deselect "tests/$test")
done < "$root/test/e2e/driver_suite_skips.txt"

cd "$suite"
"$root/build/deps/venv-test/bin/python" -m pytest -p no:cacheprovider -q tests "${skips[@]}" \
    --port "$port" --secret "$(cat "$work/secret")" --password passwd "$@" \
    --skip backup batch foxx js-transactions task jwt-secret-keyfile enterprise
