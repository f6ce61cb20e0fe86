# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it.

# A Debian 12 with what apt needs here, in the folder $1; kept when it is there. MIRROR: of Debian.
make_root() {
    if [ ! -x "$1/usr/bin/apt-get" ]; then
        echo "packaging: debootstrap into $1"
        mkdir -p "${1%/*}"
        debootstrap --variant=minbase bookworm "$1" ${MIRROR:+"$MIRROR"} > "$1.log" 2>&1 || return 1
        cp /etc/apt/sources.list "$1/etc/apt/" 2> /dev/null || true
        cp -r /etc/apt/sources.list.d /etc/apt/apt.conf.d "$1/etc/apt/" 2> /dev/null || true
    fi
    cp /etc/resolv.conf "$1/etc/resolv.conf"
}
