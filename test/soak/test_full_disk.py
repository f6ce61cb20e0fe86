# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up: clear errors, reads and removals go on, nothing acknowledged is lost."""
import os
import subprocess

import pytest

from conftest import Server, release_server

SETTINGS = ["memtables_mb=8", "block_cache_mb=8"]
DISK_MB = 160
TEXT = os.urandom(50000).hex()


@pytest.fixture
def disk(tmp_path):
    """Small, and only in the mount namespace that run.sh makes."""
    here, outside = (os.readlink(f"/proc/{pid}/ns/mnt") for pid in ("self", os.getppid()))
    assert here != outside, "run this by test/soak/run.sh"
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def start(disk):
    server = Server(release_server(), disk / "data", {}, settings=SETTINGS)
    return server.wait_ready()


def fill_up(server, known):
    """Inserts until it is refused; returns the refusal."""
    for _ in range(DISK_MB * 20):
        key = f"k{len(known)}"
        answer = server.request("POST", "/_api/document/things", json={"_key": key, "text": TEXT})
        if answer.status_code not in (201, 202):
            return answer
        known[key] = answer.json()["_rev"]
    raise AssertionError("the disk never filled up")


def check_all(server, known):
    found = {row[0]: row[1] for row in server.rows("FOR t IN things RETURN [t._key, t._rev]")}
    assert found == known


def test_full_disk(disk):
    server, known = start(disk), {}
    server.request("POST", "/_api/collection", json={"name": "things"})
    refusal = fill_up(server, known)
    assert refusal.json()["errorNum"] == 32 and "disk is full" in refusal.text, refusal.text
    assert server.request("GET", "/readyz").status_code == 503
    check_all(server, known)
    gone = list(known)[:5]
    for key in gone:
        assert server.request("DELETE", f"/_api/document/things/{key}").status_code in (200, 202)
        del known[key]
    server.kill()

    server = start(disk)  # as full as before
    check_all(server, known)
    # Somebody else takes the rest: kill and start may fail then, but only with words.
    (disk / "ballast").write_bytes(b"x" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - 4096))
    assert server.request("POST", "/_api/document/things", json={"_key": "none"}).status_code >= 500
    check_all(server, known)
    server.kill()
    late = Server(release_server(), disk / "data", {}, settings=SETTINGS)
    try:
        late.process.wait(10)
        assert late.process.returncode == 1 and "themisd: " in late.log(), late.log()
    except subprocess.TimeoutExpired:
        late.wait_ready()
        check_all(late, known)
    late.kill()

    (disk / "ballast").unlink()
    server = start(disk)
    check_all(server, known)
    server.stop()
    done = subprocess.run([release_server(), "--check", "--data", disk / "data"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
