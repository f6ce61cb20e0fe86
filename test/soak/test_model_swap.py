# SPDX-License-Identifier: Apache-2.0
"""Other bytes in the place of a model's file, while it serves and between two runs."""
import os
import shutil

from conftest import model_file, release_server

TEXT = {"model": "embed", "input": "a sentence"}


def vector(server):
    return server.request("POST", "/v1/embeddings", json=TEXT).json()["data"][0]["embedding"]


def put(content, path):
    """As a package manager does: under another name first."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.rename(new, path)


def test_swapped_while_it_serves(start, tmp_path):
    file = tmp_path / "embed.gguf"
    shutil.copy(model_file("*MiniLM*.gguf"), file)
    server = start({"embed": file}, binary=release_server())
    before = vector(server)
    for content in (b"", b"GGUF", os.urandom(100000), model_file("SmolLM2*.gguf").read_bytes()):
        put(content, file)
        assert vector(server) == before
    file.unlink()
    assert vector(server) == before
    server.stop()


def test_swapped_between_two_runs(start, tmp_path):
    file = tmp_path / "embed.gguf"
    good = model_file("*MiniLM*.gguf").read_bytes()
    put(good, file)
    server = start({"embed": file}, binary=release_server())
    answer = server.request("POST", "/v1/import", json={"documents": [{"path": "a.txt", "text": "Some words."}]})
    assert answer.status_code == 200, answer.text
    server.stop()

    for content in (b"", b"GGUF", os.urandom(100000), good[:len(good) // 2]):
        put(content, file)
        refused = start({"embed": file}, binary=release_server(), is_ready=False)
        assert refused.process.wait(60) == 1 and "embed.gguf" in refused.log(), refused.log()

    # A model of another length of vector: what is stored stays, and is not mixed with it.
    other = start({"embed": "sim:embed,dim=64"}, binary=release_server())
    answer = other.request("POST", "/v1/import", json={"documents": [{"path": "b.txt", "text": "Other words."}]})
    assert answer.status_code >= 400 and answer.json()["error"]["message"], answer.text
    other.stop()
    put(good, file)
    again = start({"embed": file}, binary=release_server())
    hits = again.request("POST", "/v1/search", json={"question": "some words", "min_score": -1}).json()["sources"]
    assert [hit["path"] for hit in hits] == ["a.txt"]


def test_added_model_gone_bad(start):
    server = start({}, binary=release_server())
    data = model_file("*MiniLM*.gguf").read_bytes()
    assert server.request("PUT", "/v1/models/one", data=data).status_code == 201
    server.stop()
    put(data[:1000], server.data / "models/one.gguf")
    again = start({}, binary=release_server())
    assert "starts without it" in again.log()
    assert again.request("GET", "/v1/models").json()["data"] == []
