#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence; no file names a package registry's host or a machine's path."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LICENSED = {".c", ".h", ".cc", ".re", ".y", ".def", ".py", ".sh", ".cmake", ".test"}
LICENSED_NAMES = {"Makefile", "CMakeLists.txt", "CMakePresets.json", ".clang-format", ".clang-tidy",
                  ".gitignore", "run"}
HOSTS = re.compile(
    r"\b(files\.pythonhosted|pypi|registry\.npmjs|(static\.|index\.)?crates|(proxy|sum)\.golang|"
    r"(deb|ftp|security)\.debian|repo1?\.maven(\.apache)?)\.(org|io|com)\b", re.IGNORECASE)
PATHS = re.compile(r"(?<![\w.])/(work|root|home/\w+)/")


def tracked():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                            check=True, stdout=subprocess.PIPE).stdout.decode()
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def main():
    problems = []
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\0" in data:
            continue
        text = data.decode("utf-8", "replace")
        path = pathlib.Path(name)
        if (path.suffix in LICENSED or path.name in LICENSED_NAMES) and \
                "SPDX-License-Identifier: Apache-2.0" not in text[:1000]:
            problems.append(f"{name}: no line 'SPDX-License-Identifier: Apache-2.0' near the top")
        for number, line in enumerate(text.splitlines(), 1):
            if HOSTS.search(line):
                problems.append(f"{name}:{number}: names the host of a package registry")
            if PATHS.search(line):
                problems.append(f"{name}:{number}: names a path of one machine")
    for problem in problems:
        print("  " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
