# SPDX-License-Identifier: Apache-2.0
"""Verifying a store from outside, and starting one that lost acknowledged commits."""
import subprocess

import pytest

from conftest import asan_server, program


def check(data):
    """The check by both programs, which must agree."""
    done = subprocess.run([asan_server(), "--check", "--data", data], capture_output=True, text=True,
                          timeout=120)
    shell = subprocess.run([program("THEMIS", "build/themis"), "check", data], capture_output=True,
                           text=True, timeout=120)
    assert (shell.returncode, shell.stdout) == (done.returncode, done.stdout)
    assert "Sanitizer" not in done.stderr, done.stderr
    return done


def fill(server, count):
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.request("POST", "/_api/index?collection=things", json={"type": "persistent", "fields": ["n"]})
    for i in range(count):
        answer = server.request("POST", "/_api/document/things?waitForSync=true",
                                json={"_key": f"k{i}", "n": i, "text": "x" * 1000})
        assert answer.status_code == 201, answer.text


def logs(server):
    return sorted((server.data / "rocks").glob("*.log"))


def flip(path):
    """Damage in the middle."""
    content = bytearray(path.read_bytes())
    for i in range(len(content) // 2, len(content) // 2 + 8):
        content[i] ^= 0x55
    path.write_bytes(content)


@pytest.mark.parametrize("is_killed", [False, True])
def test_sound_store(start, is_killed):
    server = start({})
    fill(server, 20)
    busy = check(server.data)
    assert busy.returncode == 1 and "in use" in busy.stderr, busy
    server.kill() if is_killed else server.stop()
    done = check(server.data)
    assert done.returncode == 0, done.stdout
    assert "_system/things: 20 documents, 2 indexes, sound" in done.stdout
    assert done.stdout.endswith("0 problems found\n")


def test_no_store(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 1 and "no store" in done.stderr, done
    assert not list(tmp_path.iterdir())
    misuse = subprocess.run([program("THEMIS", "build/themis"), "check"], capture_output=True, timeout=60)
    assert misuse.returncode == 2


def test_accept_loss(start):
    server = start({})
    fill(server, 100)
    server.kill()
    flip(logs(server)[-1])
    done = check(server.data)
    assert done.returncode == 1 and "write-ahead log: damaged" in done.stdout, done.stdout
    assert "acknowledged commits" in done.stdout

    refused = start({}, is_ready=False)
    assert refused.process.wait(60) == 1
    assert "acknowledged commits" in refused.log() and "--accept-loss" in refused.log(), refused.log()

    lossy = start({}, flags=["--accept-loss"])
    left = lossy.rows("FOR t IN things SORT t.n RETURN t.n")
    assert left == list(range(len(left))) and 10 < len(left) < 100
    assert len(lossy.rows("FOR t IN things FILTER t.n >= 0 RETURN 1")) == len(left)
    assert list((server.data / "damaged-log").glob("*.log"))
    assert lossy.request("POST", "/_api/document/things", json={"n": -1}).status_code == 202
    lossy.stop()
    assert check(server.data).returncode == 0

    usual = start({})
    assert len(usual.rows("FOR t IN things RETURN 1")) == len(left) + 1


def test_log_cut_short(start):
    """A cut in front of the last acknowledged commits is no torn tail."""
    server = start({})
    fill(server, 50)
    server.stop()
    log = logs(server)[-1]
    log.write_bytes(log.read_bytes()[:-20000])
    refused = start({}, is_ready=False)
    assert refused.process.wait(60) == 1
    assert "acknowledged commits" in refused.log(), refused.log()
    lossy = start({}, flags=["--accept-loss"])
    assert 10 < len(lossy.rows("FOR t IN things RETURN 1")) < 50
