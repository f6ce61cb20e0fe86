# SPDX-License-Identifier: Apache-2.0
"""Stores of older programs open, hold what they held, and go on. How they are made: store_fixture.py."""
import json
import subprocess
import tarfile

import pytest
from conftest import cli, program
from store_fixture import FOLDER, read

STORES = sorted(path.name.removesuffix(".tar.gz") for path in FOLDER.glob("*.tar.gz"))


def sound(data):
    done = subprocess.run([program("THEMIS", "build/themis"), "check", data], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def caller(server):
    def call(method, path, body=None):
        answer = server.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()
    return call


def test_there_are_some():
    assert "format1" in STORES


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_then(start, tmp_path, name):
    with tarfile.open(FOLDER / f"{name}.tar.gz") as tar:
        tar.extractall(tmp_path)
    want = json.loads((FOLDER / f"{name}.json").read_text())
    server = start()
    call = caller(server)
    assert read(call) == want
    keys = {row["_key"] for row in want["_system/things"]["rows"]}
    revs = {row["_rev"] for state in want.values() if "rows" in state for row in state["rows"]}
    made = call("POST", "/_api/document/things", {"u": 1000, "e": [1, 2, 3]})
    assert made["_key"] not in keys and int(made["_key"]) > max(map(int, keys)) and made["_rev"] not in revs
    assert server.request("POST", "/_api/document/things", json={"u": 33, "e": [1, 2, 3]}).status_code == 409
    assert call("POST", "/_api/collection", {"name": "new"})["id"] not in {s["id"] for s in want.values() if "id" in s}
    call("DELETE", f"/_api/document/things/{made['_key']}")
    call("DELETE", "/_api/collection/new")
    begin = call("GET", "/_api/changes/state")["last"]
    backup = call("POST", "/_admin/backup/create", {"label": "full"})["result"]
    call("PUT", "/_api/document/values/v0", {"v": "now"})
    assert call("GET", f"/_api/changes?after={begin}")["transactions"][0]["changes"][0]["key"] == "v0"
    last = call("POST", "/_admin/backup/create", {"label": "more", "incremental": True})["result"]
    assert last["parent"] == backup["id"]
    server.kill()
    sound(tmp_path / "data")
    cli(server, "restore", tmp_path / "data/backups" / last["id"], tmp_path / "restored")
    sound(tmp_path / "restored")
    restored = start(data="restored")
    now = read(caller(restored))
    rows = {row["_key"]: row for row in now["_system/values"]["rows"]}
    assert rows.pop("v0")["v"] == "now"
    assert list(rows.values()) == [row for row in want["_system/values"]["rows"] if row["_key"] != "v0"]
    assert {k: v for k, v in now.items() if k not in ("_system/values", "queries")} == {
        k: v for k, v in want.items() if k not in ("_system/values", "queries")}
