# SPDX-License-Identifier: Apache-2.0
"""The audit log: who did or tried what, without secrets; rotation, reopening, a disk that takes nothing."""
import json
import os
import signal
import stat
import time

import pytest
from conftest import Server, SIM_MODELS, asan_server

ROOT = ("root", "root password")


@pytest.fixture
def audited(tmp_path):
    servers = []

    def make(*settings):
        server = Server(asan_server(), tmp_path / "data", SIM_MODELS, env={"THEMIS_ROOT_PASSWORD": ROOT[1]},
                        settings=["auth=true", *settings])
        servers.append(server)
        return server.wait_ready()

    yield make
    for server in servers:
        if server.is_alive():
            server.stop()


def lines(path, count, timeout=10):
    """When there are so many."""
    end = time.monotonic() + timeout
    while True:
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if len(found) >= count or time.monotonic() > end:
            return found
        time.sleep(0.02)


def test_who_did_what(audited, tmp_path):
    path = tmp_path / "audit.log"
    path.write_text("")
    path.chmod(0o644)
    server = audited(f"audit_log={path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def call(method, where, body=None, auth=ROOT, **more):
        return server.request(method, where, json=body, auth=auth, **more).status_code

    asked = [
        (call("POST", "/_api/user", {"user": "ann", "passwd": "secret of ann"}), "admin", "root", "/_api/user"),
        (call("PUT", "/_api/user/ann/database/_system", {"grant": "ro"}), "admin", "root",
         "/_api/user/ann/database/_system"),
        (call("POST", "/_api/collection", {"name": "c"}), "admin", "root", "/_api/collection"),
        (call("POST", "/_api/collection", {"name": "c"}), "admin", "root", "/_api/collection"),
        (call("POST", "/_api/collection", {"name": "d"}, auth=("ann", "secret of ann")), "denied", "ann",
         "/_api/collection"),
        (call("GET", "/_api/version", auth=("ann", "secret of eve")), "denied", None, "/_api/version"),
        (call("GET", "/_api/version", auth=None), "denied", None, "/_api/version"),
        (call("GET", "/_api/version", headers={"Origin": "http://evil.example"}), "denied", None, "/_api/version"),
        (call("POST", "/_open/auth", {"username": "ann", "password": "secret of eve"}, auth=None), "denied", None,
         "/_open/auth"),
        (call("POST", "/_api/index?collection=c", {"type": "persistent", "fields": ["n"]}), "admin", "root",
         "/_api/index"),
        (call("DELETE", "/_api/user/ann"), "admin", "root", "/_api/user/ann"),
    ]
    assert call("POST", "/_api/document/c", {"n": 1}) == 202  # data and reading are not told
    assert call("GET", "/_api/user") == 200
    assert call("POST", "/_api/cursor", {"query": "RETURN 1"}) == 201
    assert [status for status, *_ in asked] == [201, 200, 200, 409, 403, 401, 401, 403, 401, 201, 202]
    found = lines(path, len(asked) + 1, timeout=1)
    assert [(e["status"], e["event"], e["user"], e["path"]) for e in found] == asked
    assert found[5]["claimed"] == "ann" and "claimed" not in found[6]
    assert all(e["peer"].startswith("127.0.0.1:") and e["time"].endswith("Z") and e["database"] == "_system"
               for e in found)
    text = path.read_text()
    for secret in ("secret of", "root password", "Basic", "fields"):
        assert secret not in text
    assert f"themis_audit_lines_total {len(asked)}" in server.request("GET", "/metrics", auth=ROOT).text


def test_it_is_rotated_and_opened_again(audited, tmp_path):
    path = tmp_path / "audit.log"
    server = audited(f"audit_log={path}", "audit_log_mb=1", "audit_log_files=2")
    long = "x" * 900
    count = 0
    for _ in range(5):
        for _ in range(700):
            assert server.request("GET", f"/_api/{long}{count}", headers={"Host": "evil.example"}).status_code == 403
            count += 1
            if path.with_name("audit.log.2").exists():
                break
        if path.with_name("audit.log.2").exists():
            break
    end = time.monotonic() + 10
    while not path.with_name("audit.log.2").exists() and time.monotonic() < end:
        time.sleep(0.05)
    files = [path.with_name("audit.log.2"), path.with_name("audit.log.1"), path]
    time.sleep(0.3)
    found = [e for file in files for e in lines(file, 0)]
    assert len(found) == count and [int(e["path"].split("x")[-1]) for e in found] == list(range(count))
    assert all(file.stat().st_size <= 1 << 20 and stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    moved = path.with_name("moved")
    path.rename(moved)
    before = len(lines(moved, 0))
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 10
    while not path.exists() and time.monotonic() < end:
        server.request("GET", "/_api/version")
        time.sleep(0.1)
    assert lines(path, 1) and len(lines(moved, 0)) >= before


def test_a_file_that_cannot_be_used(audited, tmp_path):
    for bad in (tmp_path, tmp_path / "missing" / "audit.log"):
        server = Server(asan_server(), tmp_path / "data", SIM_MODELS, settings=[f"audit_log={bad}"])
        assert server.process.wait(60) != 0 and "audit" in server.log()
    (tmp_path / "link").symlink_to("/dev/null")
    server = Server(asan_server(), tmp_path / "data", SIM_MODELS, settings=[f"audit_log={tmp_path}/link"])
    assert server.process.wait(60) != 0


def test_nobody_waits_for_a_full_disk(audited, tmp_path):
    """A pipe that nobody reads would hang, a full device fails: lines are lost, requests are not."""
    path = tmp_path / "audit.log"
    server = audited(f"audit_log={path}")
    path.rename(tmp_path / "old")
    os.mkfifo(path)  # at SIGHUP the name is no plain file: nothing can be written
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    begin = time.monotonic()
    for _ in range(20):
        assert server.request("GET", "/_api/version").status_code == 401
    assert time.monotonic() - begin < 20
    assert "the audit log loses lines" in server.log()
    path.unlink()
    for _ in range(2):
        server.request("GET", "/_api/version")
        time.sleep(0.2)
    found = lines(path, 2)
    assert "denied" in [e["event"] for e in found]
    assert sum(e.get("lines", 0) for e in found if e["event"] == "dropped") >= 1


def test_among_the_log_lines(audited):
    server = audited("audit_log=log")
    server.request("GET", "/_api/version")
    end = time.monotonic() + 10
    while " info audit {" not in server.log() and time.monotonic() < end:
        time.sleep(0.05)
    line = next(line for line in server.log().splitlines() if " info audit {" in line)
    assert json.loads(line.split(" info audit ")[1])["event"] == "denied"
