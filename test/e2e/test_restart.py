# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged survives kill -9; a store of a newer format or in use is refused."""
import struct
import subprocess

import pytest

from conftest import asan_server

DOCUMENTS = 300

REV_DIGITS = "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def rev_order(document):
    """What to compare of two revisions: ArangoDB's digits do not rise as their ASCII codes do."""
    return [len(document["_rev"]), *map(REV_DIGITS.index, document["_rev"])]


def test_kill_9(start):
    server = start({})
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.request("POST", "/_api/collection", json={"name": "links", "type": 3})
    server.request("POST", "/_api/index?collection=things",
                   json={"type": "persistent", "fields": ["n"], "unique": True})
    for i in range(DOCUMENTS):
        answer = server.request("POST", "/_api/document/things?waitForSync=true",
                                json={"_key": f"k{i}", "n": i})
        assert answer.status_code == 201, answer.text
    server.aql("FOR i IN 1..50 INSERT {_from: CONCAT('things/k', i), _to: 'things/k0'} INTO links")
    server.aql("FOR t IN things FILTER t.n < 10 REMOVE t IN things")
    before = server.rows("FOR t IN things SORT t.n RETURN t")
    assert len(before) == DOCUMENTS - 10
    server.kill()

    again = start({})
    assert again.rows("FOR t IN things SORT t.n RETURN t") == before
    assert again.request("GET", "/_api/collection/things/count").json()["count"] == DOCUMENTS - 10
    assert again.rows("FOR t IN things FILTER t.n == 42 RETURN t._key") == ["k42"]
    assert len(again.rows("FOR l IN links FILTER l._to == 'things/k0' RETURN 1")) == 50
    answer = again.request("POST", "/_api/document/things", json={"n": 42})
    assert answer.status_code == 409 and answer.json()["errorNum"] == 1210
    answer = again.request("POST", "/_api/document/things", json={"n": -1})
    assert answer.status_code == 202
    assert rev_order(answer.json()) > max(map(rev_order, before))
    again.stop()

    third = start({})
    assert third.request("GET", "/_api/collection/things/count").json()["count"] == DOCUMENTS - 9
    third.stop()


def test_second_process_on_the_same_data(start):
    first = start({})
    second = start({}, is_ready=False)
    assert second.process.wait(30) == 1
    assert "lock" in second.log().lower() or "in use" in second.log().lower(), second.log()
    assert len(second.log().splitlines()) <= 3, second.log()
    assert first.request("GET", "/livez").status_code == 200


# ---- a newer store ----

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def raise_format(path):
    """
    Sets each format version in RocksDB's write-ahead log, with a right checksum. A record is checksum
    (4 bytes, masked), length (2), type (1), and for types from 5 a log number (4), then the payload.
    """
    log = bytearray(path.read_bytes())
    at, found = -1, False
    while (at := log.find(b"\x06format\x08", at + 1)) >= 0:
        found = True
        value = at + 8
        record = 0
        while True:
            size, kind = struct.unpack_from("<HB", log, record + 4)
            head = 11 if kind >= 5 and kind <= 8 else 7
            end = record + head + size
            if record <= at < end:
                break
            record = end
        assert value + 8 <= end
        log[value:value + 8] = struct.pack(">Q", 999)
        crc = crc32c(bytes(log[record + 6:end]))
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        struct.pack_into("<I", log, record, masked)
    path.write_bytes(log)
    return found


def test_newer_format(start):
    server = start({})
    server.kill()
    logs = sorted(server.data.rglob("*.log"))
    assert any([raise_format(log) for log in logs]), f"no format version in {logs}"
    newer = start({}, is_ready=False)
    assert newer.process.wait(60) != 0
    assert "format 999" in newer.log() and "newer" in newer.log(), newer.log()
    assert "Sanitizer" not in newer.log(), newer.log()


# ---- the command line ----

@pytest.mark.parametrize("words, status, text", [
    ([], 2, "--data is required"),
    (["--data"], 2, "--data needs a value"),
    (["--data", "{data}", "--no-such"], 2, "--no-such"),
    (["--data", "{data}", "--set", "no_such=1"], 2, "no_such"),
    (["--data", "{data}", "--set", "workers=many"], 2, "workers"),
    (["--data", "{data}", "--set", "log_level=loud"], 2, "log_level"),
    (["--data", "{data}", "--listen", "nowhere"], 2, "--listen"),
    (["--data", "{data}", "--listen", "0.0.0.0:0"], 2, "password"),
    (["--data", "{data}", "--model", "chat"], 2, "--model"),
    (["--data", "{data}", "--model", "chat=/no/such.gguf"], 1, "/no/such.gguf"),
    (["--data", "{data}", "--config", "/no/such.conf"], 2, "/no/such.conf"),
    (["--data", "/dev/null/a"], 1, "/dev/null/a"),
    (["--help"], 0, "usage"),
    (["--version"], 0, "themisd"),
    (["--help-settings"], 0, "max_body_bytes"),
])
def test_command_line(tmp_path, words, status, text):
    words = [word.replace("{data}", str(tmp_path / "data")) for word in words]
    done = subprocess.run([asan_server(), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert text in done.stdout + done.stderr
    if status:
        assert not done.stdout
        assert len(done.stderr.splitlines()) <= 4, done.stderr  # one clear line, and a hint


def test_broken_model_file(tmp_path):
    bad = tmp_path / "bad.gguf"
    for content in (b"", b"GGUF", b"GGUF\3\0\0\0" + b"\xff" * 64, b"not a model" * 1000):
        bad.write_bytes(content)
        done = subprocess.run([asan_server(), "--data", tmp_path / "data", "--model", f"chat={bad}"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode in (1, 2), (done.returncode, done.stderr)
        assert "bad.gguf" in done.stderr
