#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the includes under src/ against two tables in docs/ARCHITECTURE.md.

    | layer | may include |            | header prefix | allowed files |
    |---|---|                          |---|---|
    | base | nothing of ours |         | rocksdb/ | store/kv_rocks.c, store/kv_shim.cc |
    | store | base |                   | uv.h | net/*.c |

A layer is a folder of src/. "all" allows every layer; words in parentheses are comments. Allowed
files are relative to src/ and may be patterns. A foreign header without a row is an error: a new
library gets its door first.
"""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SRC = ROOT / "src"
DOCUMENT = ROOT / "docs/ARCHITECTURE.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

STANDARD = set("""
assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h
setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
stdnoreturn.h string.h strings.h tgmath.h threads.h time.h uchar.h wchar.h wctype.h
dirent.h dlfcn.h execinfo.h fcntl.h fnmatch.h fts.h ftw.h getopt.h glob.h grp.h ifaddrs.h langinfo.h
libgen.h malloc.h netdb.h poll.h pthread.h pwd.h sched.h semaphore.h spawn.h syslog.h termios.h
unistd.h immintrin.h arm_neon.h cpuid.h x86intrin.h
algorithm atomic chrono cstdarg cstddef cstdint cstdio cstdlib cstring deque exception functional
map memory mutex new optional set stdexcept string string_view thread unordered_map utility vector
""".split())
STANDARD_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "asm/", "bits/", "sanitizer/")


def table(text, first, second):
    """Rows of the table whose head is | first | second |, or None without such a table."""
    rows = None
    for line in text.splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        if [cell.lower() for cell in cells[:2]] == [first, second]:
            rows = []
        elif rows is not None and not line.strip().startswith("|"):
            break
        elif rows is not None and len(cells) >= 2 and not set(cells[0]) <= set("-: "):
            rows.append((cells[0], cells[1]))
    return rows


def names(cell):
    """The names in a cell, without comments in parentheses."""
    return [name.strip() for name in re.sub(r"\([^)]*\)", "", cell).split(",") if name.strip()]


def layers(rows):
    allowed = {}
    every = {name for cell, _ in rows for name in names(cell)}
    for cell, may in rows:
        listed = names(may)
        if listed and listed[0].startswith("nothing"):
            listed = []
        if "all" in listed:
            listed = list(every)
        unknown = [name for name in listed if name not in every]
        if unknown:
            sys.exit(f"{DOCUMENT.name}: unknown layer {', '.join(unknown)} in the row of {cell}")
        for name in names(cell):
            allowed[name] = {name, *listed}
    return allowed


def is_standard(header):
    return header in STANDARD or header.startswith(STANDARD_FOLDERS)


def check_include(path, header, quoted, allowed, doors):
    """What is wrong with one include, or None."""
    layer = path.relative_to(SRC).parts[0]
    target = header.split("/")[0]
    if quoted and "/" in header and target in allowed:
        if target not in allowed[layer]:
            return f"{layer} must not include {target} ({header})"
        return None
    if is_standard(header):
        return None
    fitting = [(prefix, files) for prefix, files in doors if header.startswith(prefix)]
    if not fitting:
        if quoted and (SRC / layer / header).exists():
            return f'write "{layer}/{header}", with the layer'
        return f"{header} is of no layer, and no row of the foreign libraries' table allows it"
    _, files = max(fitting, key=lambda door: len(door[0]))
    if any(fnmatch.fnmatchcase(str(path.relative_to(SRC)), pattern) for pattern in files):
        return None
    return f"{header} may be included in {', '.join(files)} only"


def main():
    if not DOCUMENT.exists():
        sys.exit("  docs/ARCHITECTURE.md with the layering tables is missing")
    text = DOCUMENT.read_text(encoding="utf-8")
    layer_rows = table(text, "layer", "may include")
    door_rows = table(text, "header prefix", "allowed files")
    if not layer_rows or not door_rows:
        sys.exit("  docs/ARCHITECTURE.md lacks a table | layer | may include | or "
                 "| header prefix | allowed files |")
    allowed = layers(layer_rows)
    doors = [(prefix, names(files)) for cell, files in door_rows for prefix in names(cell)]

    problems = []
    for path in sorted(SRC.glob("*/**/*")):
        if path.suffix not in (".c", ".h", ".cc", ".re", ".y", ".def"):
            continue
        layer = path.relative_to(SRC).parts[0]
        if layer not in allowed:
            problems.append(f"src/{layer} is not a layer of the table")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            wrong = match and check_include(path, match[2], match[1] == '"', allowed, doors)
            if wrong:
                problems.append(f"{path.relative_to(ROOT)}:{number}: {wrong}")
    for problem in dict.fromkeys(problems):
        print("  " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
