#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh: build/deb/themis_VERSION_ARCH.deb, for any machine with the package's baseline (x86-64-v3,
# or ARM64), not only for this one: llama.cpp and FAISS are built for that first.
# packaging/debian has what stands in it; lintian must find no error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/deps.sh package
tools/build.sh package themisd themis reference

version=$(sed -nE 's/^project\(themis VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
tree=build/deb/themis-$version
rm -rf build/deb
mkdir -p "$tree/bin" "$tree/man" "$tree/completion"
cp -r packaging/debian "$tree/debian"
cp packaging/themis.service "$tree/debian/themis.service"
cp packaging/themis.conf README.md "$tree/"
mkdir "$tree/docs"
cp docs/operations.md docs/durability.md docs/third-party.md "$tree/docs/"
cp build/package/src/themisd build/package/src/themis "$tree/bin/"
for page in themis.1 themisd.8; do
    build/package/src/reference $page > "$tree/man/$page"
done
build/package/src/themis --completion bash > "$tree/completion/themis"
build/package/src/themis --completion zsh > "$tree/completion/_themis"
cat > "$tree/debian/changelog" << END
themis ($version) unstable; urgency=medium

  * See CHANGELOG.md of the source.

 -- themis maintainers <maintainers@themis.invalid>  $(git log -1 --format=%cD)
END

if ! (cd "$tree" && dpkg-buildpackage -b -us -uc) > build/deb/build.log 2>&1; then
    tail -n 30 build/deb/build.log >&2
    echo "deb: packing failed, see above and build/deb/build.log" >&2
    exit 1
fi
package=$(echo build/deb/themis_*.deb)
lintian --fail-on error "$package" || {
    echo "deb: lintian finds errors in $package" >&2
    exit 1
}
echo "wrote $package, for $(dpkg --print-architecture) $(dpkg-deb -f "$package" Version)"
