#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [ROOT]: the package that `make deb` made, in a Debian 12 of its own: installs it with apt,
# starts the server as its unit does, asks it, upgrades, removes and purges it. Needs root and
# debootstrap; ROOT is kept for the next time. Nothing of this machine is changed.
#
# Then it starts the server as the image of packaging/Containerfile would; container.sh builds that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=${1:-build/deb-root}
package=$(echo build/deb/themis_*.deb)
port=18765
node=

fail() {
    echo "packaging: $1" >&2
    [ ! -f "$root/tmp/log" ] || tail -n 20 "$root/tmp/log" >&2
    exit 1
}

[ -f "$package" ] || fail "no package: make deb comes first"
[ "$(id -u)" = 0 ] || fail "chroot needs root"
. test/packaging/root.sh
make_root "$root" || fail "debootstrap failed, see $root.log"

inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 "$@"; }

mounted=no
clean() {
    [ -z "$node" ] || kill -KILL "$node" 2> /dev/null || true
    [ $mounted = no ] || umount "$root/proc"
}
trap clean EXIT
mount -t proc proc "$root/proc"
mounted=yes

install_package() {
    cp "$package" "$root/tmp/"
    inside apt-get -q -y update > "$root/tmp/apt.log" 2>&1 || fail "apt-get update failed: $(tail -n 3 "$root/tmp/apt.log")"
    inside apt-get -q -y --no-install-recommends install --reinstall "/tmp/${package##*/}" \
        > "$root/tmp/apt.log" 2>&1 || fail "apt-get install failed: $(tail -n 5 "$root/tmp/apt.log")"
}

# The command of the unit, as its user; $1: further arguments.
start() {
    # exec all the way: $! is the server itself
    (exec chroot "$root" setpriv --reuid themis --regid themis --clear-groups \
        /usr/bin/themisd --data /var/lib/themis --config /etc/themis/themis.conf "$@" \
        > "$root/tmp/log" 2>&1) &
    node=$!
    for _ in $(seq 300); do
        ! inside themis --url http://127.0.0.1:$port status --ready > /dev/null 2>&1 || return 0
        kill -0 "$node" 2> /dev/null || fail "the server ended"
        sleep 0.2
    done
    fail "the server did not become ready"
}

stop() {
    kill -TERM "$node"
    wait "$node" || fail "the server ended with status $?"
    node=
}

query() { inside themis --url http://127.0.0.1:$port query "$1"; }

expect() { [ "$1" = "$2" ] || fail "$3: expected '$2', got '$1'"; }

echo "packaging: install"
inside apt-get -q -y purge themis > "$root/tmp/apt.log" 2>&1 || true # of an earlier run
install_package
inside getent passwd themis > /dev/null || fail "no user"
expect "$(inside stat -c '%U %a' /var/lib/themis)" "themis 750" "the data directory"
inside ldd /usr/bin/themisd | grep -q 'not found' && fail "a library is missing"
inside dpkg-query -W -f '${Conffiles}\n' themis | grep -q /etc/themis/themis.conf || fail "the settings are no conffile"
inside test -s /usr/share/man/man8/themisd.8.gz || fail "no manual"
inside bash -c '. /usr/share/bash-completion/completions/themis; complete -p themis' > /dev/null || fail "no completion"

echo "packaging: start"
start --listen 127.0.0.1:$port
[[ $(curl -fs --noproxy '*' http://127.0.0.1:$port/health) == *'"status":"ok"'* ]] || fail "/health"
curl -fs --noproxy '*' http://127.0.0.1:$port/_api/collection -d '{"name": "kept"}' > /dev/null
query 'INSERT {_key: "kept"} INTO kept'
stop

echo "packaging: upgrade keeps settings and data"
echo "log_level = warn" >> "$root/etc/themis/themis.conf"
install_package
grep -q "log_level = warn" "$root/etc/themis/themis.conf" || fail "the settings were replaced"
start --listen 127.0.0.1:$port
expect "$(query 'RETURN DOCUMENT("kept/kept")._key')" '"kept"' "a document"
stop

echo "packaging: as the container starts it"
entry=$(sed -nE 's/^ENTRYPOINT \[(.*)\]$/\1/p' packaging/Containerfile | tr -d '",')
for word in themisd --listen --insecure; do
    [[ $entry == *$word* ]] || fail "the entry point has no $word"
done
echo secret > "$root/tmp/root_password"
chmod 444 "$root/tmp/root_password"
start --listen 0.0.0.0:$port --insecure --set root_password_file=/tmp/root_password
expect "$(curl -s -o /dev/null -w '%{http_code}' --noproxy '*' http://127.0.0.1:$port/_api/version)" 401 "without a password"
expect "$(curl -s -o /dev/null -w '%{http_code}' --noproxy '*' -u root:secret http://127.0.0.1:$port/_api/version)" 200 "with it"
stop

echo "packaging: remove and purge"
inside apt-get -q -y remove themis > "$root/tmp/apt.log" 2>&1 || fail "remove failed"
inside test -d /var/lib/themis || fail "remove took the data"
inside apt-get -q -y purge themis > "$root/tmp/apt.log" 2>&1 || fail "purge failed"
for left in /var/lib/themis /etc/themis /etc/default/themis /usr/bin/themisd; do
    ! inside test -e $left || fail "purge left $left"
done
! inside getent passwd themis > /dev/null || fail "purge left the user"
echo "packaging: all passed"
