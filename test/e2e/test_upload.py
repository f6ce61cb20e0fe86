# SPDX-License-Identifier: Apache-2.0
"""Models sent to a node: kept over a restart, and a broken-off upload leaves nothing behind."""
import hashlib
import time

import pytest

from conftest import model_file


def put(server, name, data):
    return server.request("PUT", f"/v1/models/{name}", data=data)


def begin(server, name, data):
    """An upload that stops in the middle; returns when its first bytes are on the disk."""
    s = server.connect()
    s.sendall(f"PUT /v1/models/{name} HTTP/1.1\r\nHost: localhost\r\n"
              f"Content-Length: {len(data)}\r\n\r\n".encode() + data[:100000])
    part = server.data / f"models/.{name}.part"
    end = time.monotonic() + 30
    while not part.exists() or not part.stat().st_size:
        assert time.monotonic() < end
        time.sleep(0.01)
    return s, part


def loaded(server):
    return [model["id"] for model in server.request("GET", "/v1/models").json()["data"]]


@pytest.fixture(scope="module")
def model():
    return model_file("*MiniLM*.gguf").read_bytes()


def test_upload_is_kept(start, model):
    server = start({})
    assert put(server, "one", model).status_code == 201
    assert put(server, "one", model).status_code == 409
    assert loaded(server) == ["one"]
    server.kill()
    again = start({})
    assert loaded(again) == ["one"]
    files = sorted((again.data / "models").iterdir())
    assert [file.name for file in files] == ["one.gguf", "one.gguf.sha256"]
    assert files[0].stat().st_mode & 0o777 == 0o440  # nobody edits it in place by mistake
    assert files[1].read_text() == f"{hashlib.sha256(model).hexdigest()}  one.gguf\n"


def test_upload_after_a_crash(start, model):
    server = start({})
    half, part = begin(server, "one", model)
    server.kill()
    half.close()
    assert part.exists()
    again = start({})
    assert not part.exists()
    assert loaded(again) == []
    assert put(again, "one", model).status_code == 201


def test_two_uploads_of_one_name(start, model):
    server = start({})
    half, part = begin(server, "one", model)
    answer = put(server, "one", model)
    assert answer.status_code == 503 and "under way" in answer.text
    assert put(server, "two", model).status_code == 201
    half.close()
    end = time.monotonic() + 30
    while part.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert put(server, "one", model).status_code == 201
    assert sorted(loaded(server)) == ["one", "two"]


def test_bad_file_is_not_kept(start, model):
    """Nor does it take the place of a file that could not be loaded at the start."""
    server = start({})
    for data in (b"", b"GGUF", model[:1000000], b"x" * 100000):
        answer = put(server, "one", data)
        assert answer.status_code == 400, answer.text
    assert not list((server.data / "models").glob("*")) + list((server.data / "models").glob(".*"))
    server.stop()
    old = server.data / "models/one.gguf"
    old.write_bytes(b"not yet readable")
    again = start({})
    assert "starts without it" in again.log()
    assert put(again, "one", b"GGUF").status_code == 400
    assert old.read_bytes() == b"not yet readable"
    assert put(again, "one", model).status_code == 201
    assert old.read_bytes() == model
