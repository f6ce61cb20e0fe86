#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: the first answer. Installs, builds, starts a node, imports documents and asks a question.
#
#   DOCS=folder    text or Markdown files instead of samples/
#   QUESTION=text  instead of the sample question
#   KEEP=1         leave the node running
#   MODEL=file     a better chat model (GGUF) than the demonstration model
#
# Data, log and pid are under build/run, those of each folder of documents by themselves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

docs=${DOCS:-samples}
chat=${MODEL:-build/models/SmolLM2-135M-Instruct.Q4_1.gguf}
embed=build/models/all-MiniLM-L6-v2.F16.gguf
start_limit_s=180
stop_limit_s=60
node=
log=
pid_file=

die() {
    echo "run: $1" >&2
    exit 1
}

show_log() {
    [ -s "$log" ] || return 0
    echo "last lines of $log:" >&2
    tail -n 15 "$log" | sed 's/^/    /' >&2
}

stop_node() {
    local waited=0
    [ -n "$node" ] && kill -0 "$node" 2> /dev/null || return 0
    echo "Stopping the node (SIGTERM to process $node) ..."
    kill -TERM "$node"
    while kill -0 "$node" 2> /dev/null; do
        if [ $waited -ge $((stop_limit_s * 10)) ]; then
            kill -KILL "$node"
            node=
            die "the node did not stop within $stop_limit_s s and was killed; see $log"
        fi
        sleep 0.1
        waited=$((waited + 1))
    done
    wait "$node" 2> /dev/null || echo "run: the node ended with status $?; see $log" >&2
    node=
}

is_free() { ! (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

choose_port() {
    for port in $(seq 8765 8799); do
        if is_free "$port"; then
            [ "$port" = 8765 ] || echo "Port 8765 is taken; using $port."
            return 0
        fi
    done
    die "no free port between 8765 and 8799"
}

health() { curl -fs --noproxy '*' -m 2 "$url/health" > /dev/null 2>&1; }

start_node() {
    local waited=0
    echo "Starting a node on $url (data in $data, log in $log), loading two models ..."
    setsid build/themisd --data "$data" --listen "127.0.0.1:$port" --model "chat=$chat" \
        --model "embed=$embed" > "$log" 2>&1 < /dev/null &
    node=$!
    echo "$node" > "$pid_file"
    until health; do
        if ! kill -0 "$node" 2> /dev/null; then
            node=
            show_log
            die "the node ended while it started; the reason is above"
        fi
        if [ $waited -ge $((start_limit_s * 5)) ]; then
            show_log
            die "the node did not become ready within $start_limit_s s"
        fi
        sleep 0.2
        waited=$((waited + 1))
        [ $((waited % 25)) = 0 ] && echo "  still starting, $((waited / 5)) s"
    done
    echo "The node is ready."
}

# The same documents, model and data directory need no second import.
import_docs() {
    local state stamp=$data.imported paths=("$docs")
    # The README of the samples holds the questions with their answers.
    if [ "$docs" = samples ]; then
        paths=(samples/*/)
        paths=("${paths[@]%/}")
    fi
    state=$(find "${paths[@]}" -type f -print0 | sort -z | xargs -0 -r sha256sum | sha256sum)
    state="$state $(sha256sum < "$embed.pin")"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
        echo "The documents in $docs are imported already."
        return 0
    fi
    rm -f "$stamp"
    echo "Importing the documents in $docs ..."
    build/themis --url "$url" import "${paths[@]}" ||
        die "the import failed; if the log in $log does not help, remove $data and try again"
    echo "$state" > "$stamp"
}

[ -d "$docs" ] || die "DOCS=$docs is not a folder"
if [ -n "${QUESTION:-}" ]; then
    question=$QUESTION
elif [ "$docs" = samples ]; then
    question="At which temperature are vaccines stored?"
else
    question="What are these documents about?"
fi

tools/deps.sh run
tools/build.sh release
for program in build/themisd build/themis; do
    [ -x $program ] || die "not available yet: $program (the source does not build it)"
done
[ -f "$chat" ] || die "MODEL=$chat does not exist"

mkdir -p build/run
if [ "$docs" = samples ]; then
    data=build/run/data
else # documents of another folder are a store of their own
    data=build/run/data-$(realpath "$docs" | sha256sum | cut -c1-8)
fi
log=$data.log
pid_file=$data.pid
if [ -s "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2> /dev/null &&
    [ "$(cat "/proc/$(cat "$pid_file")/comm" 2> /dev/null)" = themisd ]; then
    die "a node with these documents runs already (process $(cat "$pid_file"), log $log); stop it with: kill $(cat "$pid_file")"
fi
choose_port
url=http://127.0.0.1:$port

trap stop_node EXIT
trap 'exit 130' INT TERM
start_node
import_docs

echo
echo "Question: $question"
echo
build/themis --url "$url" ask "$question" || die "the question was not answered; see $log"
echo
if [ -z "${MODEL:-}" ]; then
    cat << END
This answer was written by SmolLM2-135M, a model small enough for a demonstration and often wrong.
For real use bring a better instruction-tuned model as a GGUF file:

    make run MODEL=FILE.gguf
    build/themisd --data DIR --model chat=FILE.gguf --model embed=$embed

END
fi

if [ "${KEEP:-}" = 1 ]; then
    trap - EXIT
    echo "The node keeps running as process $node: open $url/ or"
    echo "  build/themis --url $url ask 'your question'"
    echo "Stop it with: kill $node"
fi
