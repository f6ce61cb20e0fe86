#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# container.sh [ROOT]: the image of packaging/Containerfile, built by buildah from the package that
# `make deb` made, on a base image made of a Debian 12 by debootstrap: no registry, no daemon. Then
# it is used as its entry point says: password, document, health, stop, the same volume again. Needs
# root, debootstrap, buildah, curl, iproute2; ROOT is kept for the next time. The image runs in a
# network namespace of its own, so its port is free.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=${1:-build/container-root}
work=build/container
url=http://127.0.0.1:8765
node=

fail() {
    echo "container: $1" >&2
    [ ! -f $work/log ] || tail -n 20 $work/log >&2
    exit 1
}

expect() { [ "$1" = "$2" ] || fail "$3: expected '$2', got '$1'"; }

# Images and containers are files below $work; chroot needs no more than root.
image_tool() {
    BUILDAH_ISOLATION=chroot buildah --root "$PWD/$work/storage" --runroot "$PWD/$work/run" \
        --storage-driver vfs "$@"
}

clean() {
    [ -z "$node" ] || kill -KILL "$(server_pid)" 2> /dev/null || true
    image_tool rm --all > /dev/null 2>&1 || true
    image_tool rmi --all --force > /dev/null 2>&1 || true
    rm -rf $work/storage $work/run $work/data
}

[ "$(id -u)" = 0 ] || fail "chroot needs root"
command -v buildah > /dev/null || fail "no buildah"
[ -f "$(echo build/deb/themis_*.deb)" ] || fail "no package: make deb comes first"
. test/packaging/root.sh
make_root "$root" || fail "debootstrap failed, see $root.log"
rm -rf $work
mkdir -p $work
trap clean EXIT

echo "container: base image"
base=$(image_tool from scratch)
image_tool add --quiet "$base" "$root" / > $work/log 2>&1 || fail "the base image cannot be filled"
image_tool commit --quiet "$base" localhost/debian:12-local >> $work/log 2>&1 || fail "no base image"
image_tool rm "$base" > /dev/null

echo "container: build"
image_tool build --format docker --build-arg BASE=localhost/debian:12-local \
    -f packaging/Containerfile -t themis build/deb > $work/log 2>&1 || fail "the image cannot be built"

of_image() { image_tool inspect --type image --format "{{$1}}" themis | tr -d '[]'; }
expect "$(of_image .Docker.Config.User)" themis "the image's user"
expect "$(of_image .Docker.Config.StopSignal)" SIGTERM "the image's signal"
[[ $(of_image .Docker.Config.ExposedPorts) == *8765/tcp* ]] || fail "the port is not exposed"
[[ $(of_image .Docker.Config.Volumes) == */var/lib/themis* ]] || fail "no volume"
health=$(of_image .Docker.Config.Healthcheck.Test)
expect "${health%% *}" CMD "the kind of health check"
read -r -a health <<< "${health#CMD }"
read -r -a command <<< "$(of_image .Docker.Config.Entrypoint) $(of_image .Docker.Config.Cmd)"

container=$(image_tool from --pull-never themis)
version=$(image_tool run "$container" -- themisd --version)
[[ $version == themis* ]] || fail "themisd --version says '$version'"
expect "$(image_tool run "$container" -- id -un)" themis "who runs"
data_owner=$(image_tool run "$container" -- stat -c '%u:%g' /var/lib/themis)

mkdir $work/data
chown "$data_owner" $work/data
echo secret > $work/password
chmod 444 $work/password

within() { nsenter --net=/proc/$node/ns/net "$@"; }
ask() { within curl -s --noproxy '*' "$@"; }

# The server is where the image was started, below its tools.
server_pid() {
    local p
    for p in /proc/[0-9]*; do
        if [ "$(cat "$p/comm" 2> /dev/null)" = themisd ] &&
            [ "$(readlink "$p/ns/net")" = "$(readlink /proc/$node/ns/net)" ]; then
            echo "${p#/proc/}"
            return
        fi
    done
}

start() {
    export -f image_tool
    work=$work container=$container unshare --net bash -c 'ip link set lo up && image_tool run \
        --volume "$PWD/$work/data:/var/lib/themis" \
        --volume "$PWD/$work/password:/run/secrets/root_password:ro" "$container" -- "$@"' \
        start "${command[@]}" > $work/log 2>&1 &
    node=$!
    for _ in $(seq 600); do
        [ "$(ask -o /dev/null -w '%{http_code}' $url/readyz 2> /dev/null)" != 200 ] || return 0
        kill -0 $node 2> /dev/null || fail "the image ended"
        sleep 0.2
    done
    fail "the image did not become ready"
}

stop() {
    kill -TERM "$(server_pid)"
    wait $node || fail "the image ended with status $?"
    node=
}

echo "container: start"
start
[[ $(ask $url/readyz) == *'"status":"ready"'* ]] || fail "/readyz"
expect "$(ask -o /dev/null -w '%{http_code}' $url/_api/version)" 401 "without a password"
expect "$(ask -o /dev/null -w '%{http_code}' -u root:secret $url/_api/collection -d '{"name": "kept"}')" 200 "a collection"
expect "$(ask -o /dev/null -w '%{http_code}' -u root:secret $url/_api/document/kept -d '{"_key": "k", "n": 7}')" 202 "a document"
within bash -c "$(declare -f image_tool); work=$work; image_tool run $container -- ${health[*]}" > /dev/null ||
    fail "the health check of the image"
stop

echo "container: another one on the same volume"
image_tool rm "$container" > /dev/null
container=$(image_tool from --pull-never themis)
start
[[ $(ask -u root:secret $url/_api/document/kept/k) == *'"n":7'* ]] || fail "the document is gone"
stop
echo "container: all passed ($version)"
