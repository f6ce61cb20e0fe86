#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real documents of all kinds through `themis import`: nothing stumbles, and what it costs.

A release node with the small models imports a folder of two thousand files as they are found in
the world: text, HTML and PDF, packed and not, in two languages, with pictures, archives and links. The documentation of Debian packages by default (fetched with apt-get download, not
installed), or DOCS=folder. Printed:

  import   files, what became of them, chunks per second, and the share of the time in which the
           server waited for the embedding model
  skipped  how many files were left out for each reason; '-v' lists them
  again    the same once more: every document is unchanged

It fails when a file is neither imported nor listed, when a reader crashed, or when the node did.
"""
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import bench_node
from bench_node import ROOT, Load, die

# Versions of Debian 12 itself, which stay in the archive.
PACKAGES = """
    apt-doc=2.6.2 aptitude-doc-en=0.8.13-5 aptitude-doc-fr=0.8.13-5 dblatex-doc=0.3.12py3-2
    debian-faq=11.1 docbook-xsl-doc-html=1.79.1-1 iproute2-doc=6.1.0-3 maint-guide=1.2.53
""".split()
CACHE = ROOT / "build/bench-docs"

is_verbose = "-v" in sys.argv[1:]


def run(*command, cwd=None):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        die(f"{' '.join(map(str, command))}: {done.stderr.strip()[-1000:]}")


def fetch_packages():
    """Unpacks what is not there yet; returns the folder."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        name, version = package.split("=")
        target = CACHE / f"{name}_{version}"
        if target.exists():
            continue
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as work:
            print(f"bench: fetching {package}", file=sys.stderr)
            run("apt-get", "-q", "-o", "Acquire::Retries=3", "download", package, cwd=work)
            (archive,) = pathlib.Path(work).glob("*.deb")
            run("dpkg-deb", "-x", archive, pathlib.Path(work) / "tree")
            (pathlib.Path(work) / "tree").rename(target)
    return CACHE


def count_files(folder):
    """As the shell looks for them: links to files are followed, links to folders are not."""
    found = 0
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "."]
        found += sum(1 for name in files if name[0] != "."
                     and (os.path.islink(os.path.join(where, name)) or os.path.isfile(os.path.join(where, name))))
    return found


def reason_of(failure):
    """Without what differs from file to file."""
    return re.sub(r"\s+", " ", re.sub(r"\d+|'[^']*'", "N", failure["reason"])).strip()


def check_all_accounted(files, done):
    if done["documents"] + done["unchanged"] + done["linked"] + done["skipped"] != files:
        die(f"{files} files are there, accounted for are {done}")
    crashed = [failure for failure in done["failed"] if "crashed" in failure["reason"]]
    if crashed:
        die(f"a reader crashed: {crashed}")


def report(node, files, done, load, seconds):
    bench_node.print_line("import", "import", {
        "files": files, "documents": done["documents"], "linked": done["linked"], "skipped": done["skipped"], "chunks": done["chunks"],
        "truncated": done["truncated"], "import_seconds": seconds, "files_per_s": files / seconds,
        "chunks_per_s": done["chunks"] / seconds, "embedding_share": done["embed_seconds"] / seconds}, load)
    reasons = collections.Counter(map(reason_of, done["failed"]))
    for reason, count in reasons.most_common():
        bench_node.print_line("import", "skipped", {"count": count, "reason": reason}, load)
    if is_verbose:
        for failure in done["failed"]:
            print(f"  {failure['path']}: {failure['reason']}", file=sys.stderr)


def check_node(node, done):
    (found,) = node.aql("RETURN [LENGTH(documents), LENGTH(chunks)]")
    if found != [done["documents"], done["chunks"]]:
        die(f"the node has {found} documents and chunks, the shell counted {done}")
    if not node.call("POST", "/v1/search", {"question": "How is a package built?"})["sources"]:
        die("a search finds nothing")


def measure(node, folder, name):
    files = count_files(folder / name)
    load, begin = Load(node), time.monotonic()
    done = node.import_folders(folder, [name])
    check_all_accounted(files, done)
    report(node, files, done, load, time.monotonic() - begin)
    check_node(node, done)
    load, begin = Load(node), time.monotonic()
    again = node.import_folders(folder, [name])
    seconds = time.monotonic() - begin
    check_all_accounted(files, again)
    if again["documents"] or again["unchanged"] != done["documents"]:
        die(f"the second import changed something: {again}")
    bench_node.print_line("import", "again", {"files": files, "unchanged": again["unchanged"],
                                              "import_seconds": seconds, "files_per_s": files / seconds}, load)


def main():
    folder = pathlib.Path(os.environ["DOCS"]).absolute() if os.environ.get("DOCS") else fetch_packages()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"), prefix="import-") as work:
        node = bench_node.start_node(pathlib.Path(work), pathlib.Path(work) / "data")
        try:
            measure(node, folder.parent, folder.name)
        finally:
            node.process.send_signal(signal.SIGTERM)
            status = node.process.wait()
    if status != 0:
        die(f"the node ended with status {status}")


main()
