# SPDX-License-Identifier: Apache-2.0
"""Models loaded and unloaded while the node serves, under one budget of memory."""
import hashlib
import os
import shutil
import threading
import time

import pytest
import requests

from conftest import cli, model_file, release_server

SLOW = "sim:chat,decode=20,script=" + " ".join(f"w{n}" for n in range(60))


def post(server, path, **options):
    return server.request("POST", path, **options)


def models(server, query=""):
    return {m["id"]: m for m in server.request("GET", "/v1/models" + query).json()["data"]}


def wait_until(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def chat(server, model, **options):
    return post(server, "/v1/chat/completions", json={
        "model": model, "messages": [{"role": "user", "content": "Where is Ankara?"}], **options})


def test_unload_and_load(start):
    server = start({"one": "sim:chat,script=from one", "two": "sim:chat,script=from two"})
    assert sorted(models(server)) == ["one", "two"]
    answer = post(server, "/v1/models/one/unload")
    assert answer.status_code == 200, answer.text
    assert answer.json() | {"returned_bytes": 0} == {
        "id": "one", "object": "model", "status": "unloaded", "cancelled": 0, "memory_bytes": 0,
        "returned_bytes": 0}
    refused = chat(server, "one")
    assert refused.status_code == 404
    assert "named one" in refused.text and "two (chat)" in refused.text
    assert chat(server, "two").status_code == 200
    assert post(server, "/v1/models/one/unload").status_code == 404
    again = post(server, "/v1/models/one/load")
    assert again.status_code == 200 and again.json()["status"] == "loaded", again.text
    assert chat(server, "one").json()["choices"][0]["message"]["content"] == "from one"
    assert post(server, "/v1/models/one/load").status_code == 409


def test_names_stay_in_models_dir(start, tmp_path):
    server = start({})
    outside = tmp_path / "outside.gguf"
    outside.write_bytes(b"GGUF")
    folder = server.data / "models"
    folder.mkdir()
    (folder / "link.gguf").symlink_to(outside)
    for name, status in (("..%2Foutside", 400), ("%2Fetc%2Fpasswd", 400), ("..", 404), ("link", 403),
                         ("missing", 404), ("a" * 65, 400)):
        answer = post(server, f"/v1/models/{name}/load")
        assert answer.status_code == status, (name, answer.text)
    assert server.request("DELETE", "/v1/models/link").status_code == 403
    assert outside.exists()
    for bad in ("-1", "x", "", "99999999999", "1.5"):
        assert post(server, f"/v1/models/chat/unload?drain_ms={bad}").status_code == 400
    assert post(server, "/v1/models/chat/unload?dry_run=1").status_code == 400


def stream(server, model, out):
    with requests.post(server.url + "/v1/chat/completions", stream=True, timeout=60, json={
            "model": model, "stream": True, "messages": [{"role": "user", "content": "go"}]}) as answer:
        assert answer.status_code == 200
        try:
            out.extend(line.decode() for line in answer.iter_lines() if line)
        except requests.RequestException:
            pass  # the server stopped


def begin_stream(server, model):
    lines = []
    thread = threading.Thread(target=stream, args=(server, model, lines))
    thread.start()
    end = time.monotonic() + 30
    while len(lines) < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    return thread, lines


def test_running_streams_finish(start):
    server = start({"slow": SLOW})
    thread, lines = begin_stream(server, "slow")
    answer = post(server, "/v1/models/slow/unload?drain_ms=60000")
    assert answer.json()["cancelled"] == 0, answer.text
    thread.join()
    assert lines[-1] == "data: [DONE]" and any("w59" in line for line in lines)


def test_drain_limit_breaks_streams_off(start):
    server = start({"slow": SLOW})
    thread, lines = begin_stream(server, "slow")
    answer = post(server, "/v1/models/slow/unload?drain_ms=50")
    assert answer.json()["cancelled"] == 1, answer.text
    thread.join()
    assert any("unloaded before this request was finished" in line for line in lines), lines[-3:]
    assert not any("w59" in line for line in lines)


def test_a_stop_ends_a_drain(start):
    server = start({"slow": SLOW}, settings=["drain_timeout_ms=200"])
    thread, _ = begin_stream(server, "slow")
    waiting = threading.Thread(target=lambda: pytest.raises(requests.RequestException, post, server,
                                                            "/v1/models/slow/unload?drain_ms=3600000"))
    waiting.start()
    time.sleep(0.2)
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 20
    thread.join()
    waiting.join()


def test_budget(start):
    server = start({"first": "sim:chat,memory=300", "second": "sim:chat,memory=400"},
                   settings=["model_memory_mb=1000"])
    assert models(server)["first"]["memory_bytes"] == 300 << 20
    status = server.request("GET", "/_admin/status").json()["themis"]["inference"]
    assert status["memoryBytes"] == 700 << 20 and status["memoryLimitBytes"] == 1000 << 20
    server.stop()
    refused = start({"first": "sim:chat,memory=300", "second": "sim:chat,memory=800"}, data="other",
                    settings=["model_memory_mb=1000"], is_ready=False)
    assert refused.process.wait(60) == 1
    assert "needs 800 MiB" in refused.log() and "first 300 MiB" in refused.log()


def test_load_beyond_the_budget(start):
    """The real estimate: the embedding model fits, the chat model beside it does not."""
    server = start({}, settings=["model_memory_mb=150", "lanes=1"])
    folder = server.data / "models"
    folder.mkdir()
    shutil.copy(model_file("*MiniLM*.gguf"), folder / "embed.gguf")
    shutil.copy(model_file("SmolLM2*.gguf"), folder / "chat.gguf")
    assert post(server, "/v1/models/embed/load").status_code == 200
    begin = time.monotonic()
    refused = post(server, "/v1/models/chat/load")
    assert refused.status_code == 507
    assert time.monotonic() - begin < 5
    text = refused.json()["error"]["message"]
    assert "model chat" in text and "needs" in text and "KV 436" in text and "embed" in text, text


def test_digest(start):
    server = start({})
    folder = server.data / "models"
    folder.mkdir()
    data = model_file("*MiniLM*.gguf").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    (folder / "embed.gguf").write_bytes(data)
    assert models(server) == {}
    assert models(server, "?all=true")["embed"]["status"] == "unloaded"
    assert post(server, "/v1/models/embed/load").json()["sha256"] == digest
    assert (folder / "embed.gguf.sha256").read_text() == f"{digest}  embed.gguf\n"
    assert models(server)["embed"]["sha256"] == digest
    assert post(server, "/v1/models/embed/unload").status_code == 200
    assert models(server, "?all=true")["embed"]["sha256"] == digest

    (folder / "embed.gguf").write_bytes(data[:20_000_000] + b"x" + data[20_000_001:])
    refused = post(server, "/v1/models/embed/load")
    assert refused.status_code == 500 and "SHA-256" in refused.text and digest in refused.text
    (folder / "embed.gguf.sha256").write_text("nonsense\n")
    assert "does not begin with a SHA-256" in post(server, "/v1/models/embed/load").text

    wrong = server.request("PUT", f"/v1/models/sent?sha256={'0' * 64}", data=data)
    assert wrong.status_code == 400 and "SHA-256" in wrong.text
    assert server.request("PUT", "/v1/models/sent?sha256=abc", data=data).status_code == 400
    assert server.request("PUT", f"/v1/models/sent?sha256={digest}", data=data).status_code == 201
    assert server.request("DELETE", "/v1/models/sent").status_code == 409
    assert post(server, "/v1/models/sent/unload").status_code == 200
    assert server.request("DELETE", "/v1/models/sent").json()["deleted"] is True
    assert not list(folder.glob("sent*"))


def test_a_vector_index_waits_for_its_model(start):
    server = start({"embed": "sim:embed,dim=8"})
    assert post(server, "/_api/collection", json={"name": "texts"}).status_code == 200
    made = post(server, "/_api/index?collection=texts", json={
        "type": "vector", "fields": ["v"], "params": {"metric": "cosine", "dimension": 8,
                                                      "source": ["t"], "model": "embed"}})
    assert made.status_code == 201, made.text
    index = made.json()["id"]

    def figures():
        return server.request("GET", f"/_api/index/{index}").json().get("figures", {})

    def found(word):
        rows = server.aql("LET q = EMBED 'embed' @w FOR t IN texts "
                          "SORT APPROX_NEAR_COSINE(t.v, q) DESC LIMIT 1 RETURN t.t",
                          bindVars={"w": word})["result"]
        return rows == [word]

    def wait_for(what):
        end = time.monotonic() + 20
        while not what():
            assert time.monotonic() < end, figures()
            time.sleep(0.05)

    server.aql("INSERT {t: 'apples'} INTO texts")
    wait_for(lambda: found("apples"))
    assert post(server, "/v1/models/embed/unload").status_code == 200
    server.aql("INSERT {t: 'pears'} INTO texts")
    wait_for(lambda: "named embed" in figures().get("embeddingError", ""))
    asked = server.request("POST", "/_api/cursor", json={"query": "RETURN EMBED 'embed' 'pears'"})
    assert asked.status_code == 404 and "named embed" in asked.text
    assert server.rows("FOR t IN texts FILTER t.t == 'pears' RETURN t.t") == ["pears"]
    time.sleep(2)  # by now the pause between two tries is long
    assert post(server, "/v1/models/embed/load").status_code == 200
    wait_for(lambda: found("pears"))
    assert not figures().get("embeddingError")


def test_load_and_unload_beneath_streams(start):
    """Real requests all the time; each ends well, is refused with 404 or broken off with 410."""
    server = start({"chat": "sim:chat,decode=2000,script=all of the answer"})
    is_over = threading.Event()
    wrong, ends = [], {"good": 0, "refused": 0, "broken": 0}

    def ask():
        while not is_over.is_set():
            answer = chat(server, "chat")
            if answer.status_code == 200:
                ends["good"] += 1
                if answer.json()["choices"][0]["message"]["content"] != "all of the answer":
                    wrong.append(answer.text)
            elif answer.status_code == 404:
                ends["refused"] += 1
            elif answer.status_code == 410 and "unloaded" in answer.text:
                ends["broken"] += 1
            else:
                wrong.append(answer.text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(20):
        time.sleep(0.1)
        assert post(server, f"/v1/models/chat/unload?drain_ms={(0, 2000)[n % 2]}").status_code == 200
        assert post(server, "/v1/models/chat/load").status_code == 200
    is_over.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert ends["good"] and ends["refused"], ends


def test_cli(start, tmp_path):
    server = start({}, settings=["lanes=1", "context_tokens=1024"])
    folder = tmp_path / "gguf"
    folder.mkdir()
    shutil.copy(model_file("*MiniLM*.gguf"), folder / "a.gguf")
    (folder / "b.gguf").write_bytes(b"no model at all")
    shutil.copy(model_file("*MiniLM*.gguf"), folder / "c.gguf")
    (folder / "notes.txt").write_text("not a model")
    done = cli(server, "model", "add", folder, status=1)
    assert "2 added, 1 refused" in done.stdout
    assert "b.gguf: " in done.stderr and "not a GGUF file" in done.stderr
    digest = hashlib.sha256((folder / "a.gguf").read_bytes()).hexdigest()
    listed = cli(server, "model", "list").stdout
    assert listed.count("loaded") == 2 and digest[:12] in listed and "MiB" in listed
    assert '"unloaded"' in cli(server, "model", "unload", "a", "--drain-ms", "100").stdout
    assert " unloaded " in cli(server, "model", "list").stdout
    assert "loaded already" in cli(server, "model", "load", "c", status=1).stderr
    assert '"loaded"' in cli(server, "model", "load", "a").stdout
    assert "unload it first" in cli(server, "model", "remove", "a", status=1).stderr
    cli(server, "model", "unload", "a")
    assert '"deleted":true' in cli(server, "model", "remove", "a").stdout
    for words in (("add",), ("load",), ("unload", "a", "--drain-ms", "soon"), ("add", folder, "--name", "x"),
                  ("list", "--name", "x"), ("sing",)):
        cli(server, "model", *words, status=2)
    cli(server, "model", "add", folder / "a.gguf", "--name", "other")
    assert sorted(models(server)) == ["c", "other"]
    assert os.stat(server.data / "models/other.gguf").st_mode & 0o777 == 0o440


def test_quantize(real):
    """Q4_1 as shipped becomes Q8_0: larger, faster, and it still answers."""
    data = model_file("SmolLM2*.gguf").read_bytes()
    folder = real.data / "models"
    digest = hashlib.sha256(data).hexdigest()
    made = real.request("PUT", f"/v1/models/eight?sha256={digest}&quantize=Q8_0", data=data, timeout=300)
    assert made.status_code == 201, made.text
    info = made.json()
    assert info["file_bytes"] > len(data) * 1.3 and "Q8_0" in info["description"]
    assert info["sha256"] == hashlib.sha256((folder / "eight.gguf").read_bytes()).hexdigest() != digest
    assert sorted(f.name for f in folder.iterdir()) == ["eight.gguf", "eight.gguf.sha256"]
    answer = chat(real, "eight", max_tokens=8, temperature=0)
    assert answer.json()["choices"][0]["message"]["content"], answer.text
    assert post(real, "/v1/models/eight/unload").status_code == 200
    assert real.request("DELETE", "/v1/models/eight").status_code == 200

    bad = real.request("PUT", "/v1/models/bad?quantize=Q9", data=data)
    assert bad.status_code == 400 and "Q8_0, Q6_K" in bad.text
    wrong = real.request("PUT", f"/v1/models/bad?sha256={'0' * 64}&quantize=Q8_0", data=data)
    assert wrong.status_code == 400 and "SHA-256" in wrong.text
    for broken in (b"no model", data[:1_000_000]):
        refused = real.request("PUT", "/v1/models/bad?quantize=Q8_0", data=broken)
        assert refused.status_code == 400 and "quantising failed" in refused.text, refused.text
    assert not list(folder.iterdir())


def test_quantizing_ends_with_its_client(start):
    """IQ types are not offered, so the slowest is taken; the client leaves in the middle."""
    data = model_file("SmolLM2*.gguf").read_bytes()
    server = start({}, binary=release_server())
    s = server.connect()
    s.sendall(b"PUT /v1/models/gone?quantize=Q4_K_M HTTP/1.1\r\nHost: localhost\r\n"
              b"Content-Length: %d\r\n\r\n" % len(data) + data)
    folder = server.data / "models"
    wait_until(lambda: (folder / ".gone~made.part").exists())
    s.close()
    wait_until(lambda: not list(folder.iterdir()) or (folder / "gone.gguf").exists())
    assert not list(folder.iterdir())
    assert server.request("GET", "/v1/models?all=true").json()["data"] == []
