#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the CTestTestfile.cmake that joins all tests under one summary (see tools/test.sh).

Names: LAYER.NAME from build/dev, release.LAYER.NAME from build/release, e2e.NAME for each
test/e2e/test_NAME.py.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
E2E_TIMEOUT_S = 600


def quote(text):
    return "[==[" + str(text) + "]==]"


def entry(name, command, properties):
    words = " ".join(map(quote, [name, *command]))
    pairs = " ".join(f"{key} {quote(value)}" for key, value in properties.items())
    return f"add_test({words})\nset_tests_properties({quote(name)} PROPERTIES {pairs})\n"


def built(directory, prefix):
    """The tests that one build directory registers."""
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=directory, check=True,
                           stdout=subprocess.PIPE)
    for test in json.loads(shown.stdout)["tests"]:
        if "command" not in test:
            sys.exit(f"{directory}: the program of test {test['name']} was not built")
        properties = {}
        for item in test.get("properties", []):
            value = item["value"]
            properties[item["name"]] = ";".join(value) if isinstance(value, list) else value
        properties.setdefault("TIMEOUT", 600)
        yield entry(prefix + test["name"], test["command"], properties)


def end_to_end():
    python = ROOT / "build/deps/venv-test/bin/python"
    environment = ";".join([
        f"THEMISD={ROOT}/build/themisd",
        f"THEMIS={ROOT}/build/themis",
        f"THEMISD_ASAN={ROOT}/build/dev/src/themisd",
        f"THEMIS_MODELS={ROOT}/build/models",
        "PYTHONDONTWRITEBYTECODE=1",
    ])
    for file in sorted((ROOT / "test/e2e").glob("test_*.py")):
        yield entry("e2e." + file.stem[len("test_"):],
                    [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
                    {"WORKING_DIRECTORY": ROOT, "TIMEOUT": E2E_TIMEOUT_S, "RUN_SERIAL": "TRUE",
                     "ENVIRONMENT": environment})


print("# SPDX-License-Identifier: Apache-2.0")
for source in (built(ROOT / "build/dev", ""), built(ROOT / "build/release", "release."),
               end_to_end()):
    for text in source:
        print(text, end="")
