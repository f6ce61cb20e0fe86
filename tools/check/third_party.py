#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/third-party.md has a row with version, checksum and licence for everything that is used:
each pin of tools/pins.txt, each package of tools/test-requirements.txt, each library that
tools/deps.sh installs from Debian.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


def rows():
    """name -> cells, of all tables in the document: name, version, checksum, licence, what for."""
    found = {}
    for line in (ROOT / "docs/third-party.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and not set(cells[0]) <= set("-: "):
            found[cells[0].lower()] = cells
    return found


def wanted():
    """(name, version or None, allowed checksums or None, licence or None)."""
    for line in (ROOT / "tools/pins.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            _, name, version, checksum, licence, _ = line.split(None, 5)
            yield name, version, {checksum}, licence
    text = (ROOT / "tools/test-requirements.txt").read_text(encoding="utf-8")
    for name, version, hashes in re.findall(r"^([\w.-]+)==(\S+)((?:\s*\\\n[^\\\n]*)*)", text, re.M):
        yield name, version, set(SHA256.findall(hashes)), None
    script = (ROOT / "tools/deps.sh").read_text(encoding="utf-8")
    for group in re.findall(r"^packages_\w+=\(([^)]*)\)", script, re.M):
        for package in group.split():
            if package.endswith("-dev") or package in ("re2c", "lemon"):
                yield package, None, None, None


def main():
    table, problems, names = rows(), [], set()
    for name, version, checksums, licence in wanted():
        names.add(name.lower())
        row = table.get(name.lower())
        if not row:
            problems.append(f"no row for {name}")
        elif version and row[1] != version:
            problems.append(f"{name}: version {row[1]}, but {version} is used")
        elif checksums and row[2] not in checksums:
            problems.append(f"{name}: not the checksum that is used")
        elif checksums is None and row[2] != "Debian 12":
            problems.append(f"{name}: the checksum column must say 'Debian 12'")
        elif not row[3] or (licence and row[3] != licence):
            problems.append(f"{name}: licence '{row[3]}', expected {licence or 'a name'}")
    for name in sorted(set(table) - names - {"name"}):
        problems.append(f"{name} has a row but is not used")
    for problem in problems:
        print("  docs/third-party.md: " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
