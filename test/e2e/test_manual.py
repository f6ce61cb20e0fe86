# SPDX-License-Identifier: Apache-2.0
"""The manual pages that are made from the tables of the programs: well-formed, and complete."""
import re
import subprocess

import pytest

from conftest import program

PAGES = ["themis.1", "themisd.8"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    for page in PAGES:
        done = subprocess.run([program("REFERENCE", "build/release/src/reference"), page],
                              capture_output=True, text=True, check=True)
        (folder / page).write_text(done.stdout)
    return folder


def shown(pages, page):
    """The page as a reader sees it, without line breaks."""
    done = subprocess.run(["mandoc", "-Tutf8", pages / page], capture_output=True, text=True, check=True)
    return " ".join(re.sub(r".\x08", "", done.stdout).replace("\u2010", "-").split())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_well_formed(pages, page):
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page], capture_output=True, text=True, cwd=pages)
    # The date of a page would be that of its making.
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


def test_the_page_of_the_shell_has_what_its_help_has(pages):
    page = shown(pages, "themis.1")
    themis = program("THEMIS", "build/themis")
    usage = subprocess.run([themis, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) +[A-Z]", usage, re.M)
    assert len(commands) >= 11
    for name in commands:
        text = subprocess.run([themis, name, "--help"], capture_output=True, text=True, check=True).stdout
        assert " ".join(text.splitlines()[0].split()[2:]) in page
        assert " ".join(text.splitlines()[1].split()) in page


def test_the_page_of_the_server_has_its_flags_and_settings(pages):
    page = shown(pages, "themisd.8")
    themisd = program("THEMISD", "build/themisd")
    for flag, kind in (("--help", r"^  (--[a-z-]+)"), ("--help-settings", r"^(?:  )?([a-z]\w+) ")):
        text = subprocess.run([themisd, flag], capture_output=True, text=True, check=True).stdout
        names = re.findall(kind, text, re.M)
        assert len(names) >= 11, text
        for name in names:
            assert name in page, name
