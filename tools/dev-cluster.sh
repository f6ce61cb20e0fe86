#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# dev-cluster.sh: a cluster on this machine, in one terminal, until Ctrl-C.
#
#   N=4            nodes
#   MODEL=file     a chat model (GGUF) for each node; without it a simulated one
#
# Starts an etcd of its own, makes certificates, starts the nodes and shows their state. Everything is
# under build/cluster and is made anew each time; all ports are on 127.0.0.1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${N:-4}
case $count in
'' | *[!0-9]* | 0) echo "dev-cluster: N must be a whole number from 1, not '$count'" >&2; exit 2 ;;
esac
[ "$count" -le 64 ] || { echo "dev-cluster: N is at most 64 on one machine" >&2; exit 2; }
model=${MODEL:-sim:chat,decode=50}
dir=build/cluster
start_limit_s=120
stop_limit_s=60
pids=() names=()

say() { echo "dev-cluster: $1"; }

die() {
    echo "dev-cluster: $1" >&2
    exit 1
}

is_free() { ! (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

# next_port VARIABLE FIRST: the first free port from there.
next_port() {
    local port=$2
    while ! is_free "$port"; do
        port=$((port + 1))
    done
    printf -v "$1" %s "$port"
}

# end PID...: asks them to, waits, and kills what is left.
end() {
    local pid waited alive
    [ $# -gt 0 ] || return 0
    kill -TERM "$@" 2> /dev/null || true
    for ((waited = 0; waited < stop_limit_s * 10; waited++)); do
        alive=()
        for pid in "$@"; do
            ! kill -0 "$pid" 2> /dev/null || alive+=("$pid")
        done
        [ ${#alive[@]} -gt 0 ] || return 0
        sleep 0.1
    done
    echo "dev-cluster: ${alive[*]} did not end within $stop_limit_s s and are killed" >&2
    kill -KILL "${alive[@]}" 2> /dev/null || true
}

# Nodes leave while there is an etcd to leave. (An entry of a process that has ended is empty.)
stop_all() {
    trap - EXIT INT TERM
    say "ending"
    # shellcheck disable=SC2086
    end ${pids[*]:1}
    # shellcheck disable=SC2086
    end ${pids[0]:-}
    wait
    say "ended; logs are in $dir"
}

# start NAME COMMAND...: in a process group of its own, so that Ctrl-C reaches this script alone.
start() {
    local name=$1
    shift
    setsid "$@" > "$dir/$name.log" 2>&1 < /dev/null &
    pids+=("$!")
    names+=("$name")
}

# wait_for INDEX WHAT TEST...: until the test succeeds, while the process lives.
wait_for() {
    local i=$1 what=$2 waited
    shift 2
    for ((waited = 0; waited < start_limit_s * 10; waited++)); do
        "$@" && return 0
        if ! kill -0 "${pids[i]}" 2> /dev/null; then
            tail -n 15 "$dir/${names[i]}.log" | sed 's/^/    /' >&2
            die "${names[i]} ended; its log is $dir/${names[i]}.log"
        fi
        sleep 0.1
    done
    die "$what did not come about within $start_limit_s s; see $dir/${names[i]}.log"
}

etcd_answers() { ! is_free "$etcd_port"; }
is_ready() { grep -sq " listens on http" "$dir/n$1.log"; }
are_all_up() {
    [ "$("$bin/themis" --url "http://127.0.0.1:$first_port" cluster status 2> /dev/null |
        grep -cE '^n[0-9]+ +(up|self) ')" = "$count" ]
}

tools/deps.sh cluster
[ -x build/themisd ] && [ -x build/themis ] || tools/build.sh release
bin=$PWD/build
command -v etcd > /dev/null || die "etcd is missing (Debian: etcd-server)"

rm -rf "$dir"
mkdir -p "$dir"
trap stop_all EXIT
trap 'exit 0' INT TERM

next_port etcd_port 23790
next_port etcd_peer $((etcd_port + 1))
start etcd etcd --name dev --data-dir "$dir/etcd" \
    --listen-client-urls "http://127.0.0.1:$etcd_port" \
    --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$etcd_peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$etcd_peer" \
    --initial-cluster "dev=http://127.0.0.1:$etcd_peer"
wait_for 0 "an answer of etcd" etcd_answers
say "etcd at http://127.0.0.1:$etcd_port"
"$bin/themis" cluster certs "$dir/certs" --nodes "$count"

port=8770
for ((i = 1; i <= count; i++)); do
    next_port port "$port"
    [ "$i" -gt 1 ] || first_port=$port
    start "n$i" "$bin/themisd" --data "$dir/data$i" --listen "127.0.0.1:$port" \
        --model "chat=$model" --cluster dev --node-id "n$i" --etcd "http://127.0.0.1:$etcd_port" \
        --cluster-listen 127.0.0.1:0 --certs "$dir/certs/n$i"
    wait_for "$i" "the start of n$i" is_ready "$i"
    port=$((port + 1))
done
wait_for 1 "that n1 sees all nodes" are_all_up

echo
"$bin/themis" --url "http://127.0.0.1:$first_port" cluster status
cat << END

Any node answers, and passes on to the one that owns the slot of the conversation:
    curl -i http://127.0.0.1:$first_port/v1/chat/completions -d '{"messages":[{"role":"user","content":"one two three"}]}'
    build/themis --url http://127.0.0.1:$first_port cluster status
Try: kill -9 ${pids[$((count > 1 ? 2 : 1))]} (${names[$((count > 1 ? 2 : 1))]}). Ctrl-C ends everything.
END

[ "${model#sim:}" = "$model" ] || echo "The model is simulated, its answers are scripted; MODEL=FILE.gguf takes a real one."

# Until Ctrl-C; a node that ends by itself is told of.
while :; do
    sleep 1 &
    wait $! || true
    for i in "${!pids[@]}"; do
        if [ -n "${pids[i]}" ] && ! kill -0 "${pids[i]}" 2> /dev/null; then
            say "${names[i]} has ended; its log is $dir/${names[i]}.log"
            pids[i]=
        fi
    done
done
