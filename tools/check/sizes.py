#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists functions, files and headers that are larger than the house style aims for. Never fails.

A function with a comment `/* long: reason */` in or just above it is not listed.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FUNCTION_LINES, FILE_LINES, HEADER_LINES, COLUMNS = 70, 600, 200, 100
NAME = re.compile(r"(\w+)\s*\(")


def functions(lines):
    """(name, first line, length) of each function: a brace at the line's start opens its body."""
    start = None
    for number, line in enumerate(lines):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            head = " ".join(lines[max(0, start - 6):start])
            found = NAME.findall(head.rsplit(";", 1)[-1].rsplit("}", 1)[-1])
            if found and "/* long:" not in "\n".join(lines[max(0, start - 8):number]):
                yield found[0], start + 1, number - start + 1
            start = None


def main():
    over, wide_files = [], []
    for path in sorted((ROOT / "src").glob("*/**/*")):
        if path.suffix not in (".c", ".cc", ".h"):
            continue
        name = path.relative_to(ROOT)
        lines = path.read_text(encoding="utf-8").splitlines()
        limit = HEADER_LINES if path.suffix == ".h" else FILE_LINES
        if len(lines) > limit:
            over.append((len(lines) / limit, f"{name}: {len(lines)} lines (aim: {limit})"))
        for function, first, length in functions(lines):
            if length > FUNCTION_LINES:
                over.append((length / FUNCTION_LINES,
                             f"{name}:{first}: {function} has {length} lines (aim: {FUNCTION_LINES})"))
        wide = sum(len(line) > COLUMNS for line in lines)
        if wide:
            wide_files.append(f"{name} ({wide})")
    for _, text in sorted(over, reverse=True):
        print("  " + text)
    if wide_files:
        print(f"  lines wider than {COLUMNS} columns: " + ", ".join(wide_files))


if __name__ == "__main__":
    main()
