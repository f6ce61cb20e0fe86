# SPDX-License-Identifier: Apache-2.0
"""The shell against a node with the small models: import, ask, and the other commands."""
import json
import os
import re
import subprocess

import pytest
import requests

from conftest import ROOT, cli, model_file, program


@pytest.fixture(scope="module")
def imported(real):
    answer = json.loads(cli(real, "--json", "import", "samples").stdout)
    files = [path for path in (ROOT / "samples").rglob("*") if path.is_file()]
    assert answer["documents"] == len(files)
    assert answer["chunks"] > len(files)
    assert answer["skipped"] == 0 and answer["unchanged"] == 0
    return real


def ask(server, question):
    return json.loads(cli(server, "--json", "ask", question).stdout)


def questions():
    """The table of samples/README.md."""
    rows = re.findall(r"^\| (.+\?) \| (.+?) \| (\S+) \|$", (ROOT / "samples/README.md").read_text(), re.M)
    assert len(rows) >= 10
    return rows


@pytest.mark.parametrize("question, fact, path", questions(), ids=lambda value: value[:24])
def test_right_file(imported, question, fact, path):
    """The passages put before the model; the README is a document too and repeats the questions."""
    answer = imported.request("POST", "/v1/search", json={"question": question, "top_k": 4}).json()
    paths = [source["path"] for source in answer["sources"]]
    assert f"samples/{path}" in paths, (fact, paths)


def test_answer_cites(imported):
    answer = ask(imported, "At which temperature are vaccines stored?")
    assert answer["answered"] is True
    assert answer["answer"].strip()
    assert answer["citations"], answer
    assert "samples/medical/vaccination-guideline.md" in {c["path"] for c in answer["citations"]}
    assert answer["usage"]["completion_tokens"] > 0


def test_citations_cut_whole_sentences_out_of_the_file(imported):
    count = 0
    for question, _, _ in questions():
        answer = ask(imported, question)
        by_number = {source["number"]: source for source in answer["sources"]}
        for citation in answer["citations"]:
            count += 1
            source = by_number[citation["source"]]
            assert citation["path"] == source["path"]
            assert source["from"] <= citation["from"] < citation["to"] <= source["to"]
            file = (ROOT / citation["path"]).read_bytes()
            assert file[citation["from"]:citation["to"]].decode() == citation["quote"]
            before = file[:citation["from"]].decode()
            after = file[citation["to"]:].decode()
            assert re.search(r"(^|[.!?:]['\")]*\s+|\n)[ \t]*$", before), citation
            assert re.match(r"\s|$", after), citation
            spoken = answer["answer"].encode()[citation["answer_from"]:citation["answer_to"]]
            assert spoken.decode().strip()
    assert count >= 8


def test_streamed_and_printed(imported):
    out = cli(imported, "ask", "At which temperature are vaccines stored?").stdout
    assert "Sources:" in out
    assert "samples/medical/vaccination-guideline.md" in out
    with requests.post(imported.url + "/v1/ask", stream=True, timeout=60,
                       json={"question": "At which temperature are vaccines stored?",
                             "stream": True}) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = [line[6:] for line in answer.iter_lines() if line.startswith(b"data: ")]
    assert lines[-1] == b"[DONE]"
    parts = [json.loads(line) for line in lines[:-1]]
    assert [part["type"] for part in parts[:-1]] == ["text"] * (len(parts) - 1)
    assert parts[-1]["type"] == "done"
    assert "".join(part["text"] for part in parts[:-1]).strip() == parts[-1]["answer"].strip()


def test_not_in_the_documents(imported):
    question = "How do I bake sourdough bread?"  # unlike the one in the README, which is imported too
    answer = ask(imported, question)
    assert answer["answered"] is False
    assert not answer["citations"]
    assert "The documents do not answer this." in cli(imported, "ask", question).stdout


def test_second_import_is_unchanged(imported):
    before = imported.rows("FOR c IN chunks COLLECT WITH COUNT INTO n RETURN n")
    answer = json.loads(cli(imported, "--json", "import", "samples").stdout)
    assert answer["documents"] == answer["chunks"] == 0
    assert answer["unchanged"] > 0
    assert imported.rows("FOR c IN chunks COLLECT WITH COUNT INTO n RETURN n") == before


def test_changed_file_is_an_update(real, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Zebra\n\nThe zebra Zora lives in the house of Otto.\n")
    (folder / "b.bin").write_bytes(b"\xff\xfe\0")
    (folder / ".hidden.md").write_text("secret")
    first = json.loads(cli(real, "--json", "import", folder).stdout)
    assert (first["documents"], first["skipped"]) == (1, 1)
    (folder / "a.md").write_text("# Zebra\n\nThe zebra Zora lives in the house of Emma.\n")
    second = json.loads(cli(real, "--json", "import", folder).stdout)
    assert (second["documents"], second["unchanged"]) == (1, 0)
    texts = real.rows("FOR c IN chunks FILTER CONTAINS(c.text, 'Zora') RETURN c.text")
    assert len(texts) == 1 and "Emma" in texts[0]
    path = real.rows("FOR d IN documents FILTER CONTAINS(d.path, 'docs/a.md') RETURN d.path")[0]
    assert real.request("DELETE", "/v1/import", params={"path": path}).status_code == 200
    assert real.rows("FOR c IN chunks FILTER CONTAINS(c.text, 'Zora') RETURN 1") == []


def test_rows(real, tmp_path):
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps({"_key": str(i), "n": i}) + "\n" for i in range(2500)))
    assert json.loads(cli(real, "--json", "import", lines, "--collection", "nums").stdout)["rows"] == 2500
    array = tmp_path / "rows.json"
    array.write_text(json.dumps([{"_key": "1", "n": -1}, {"n": 5000}]))
    cli(real, "import", array, "--collection=nums")
    assert real.request("GET", "/_api/collection/nums/count").json()["count"] == 2501
    assert real.request("GET", "/_api/document/nums/1").json()["n"] == -1
    assert "--collection" in cli(real, "import", lines, status=1).stderr
    cli(real, "import", tmp_path / "missing", status=1)


def test_query(real):
    out = cli(real, "--json", "query", "FOR i IN 1..3 RETURN {i, twice: i * 2}").stdout
    assert [json.loads(line) for line in out.splitlines()] == [{"i": i, "twice": 2 * i} for i in (1, 2, 3)]
    table = cli(real, "query", "FOR i IN 1..2 RETURN {name: CONCAT('n', i), i}").stdout.splitlines()
    assert table[0].split() == ["name", "i"] or sorted(table[0].split()) == ["i", "name"]
    assert len(table) == 4
    assert cli(real, "query", "RETURN @a", "--bind", '{"a": [1, "x"]}').stdout == '[1,"x"]\n'
    assert cli(real, "query", stdin="RETURN 42").stdout == "42\n"
    out = cli(real, "--json", "query", "FOR i IN 1..2500 RETURN i").stdout.split()
    assert out == [str(i) for i in range(1, 2501)]
    failed = cli(real, "query", "FOR d IN\n nothing RETRUN d", status=1)
    assert "2:" in failed.stderr and not failed.stdout


def test_status_and_models(real):
    status = json.loads(cli(real, "status", "--json").stdout)
    assert {m["name"] for m in status["themis"]["models"]} == {"chat", "embed"}
    text = cli(real, "status").stdout
    assert "chat" in text and "workers" in text
    assert "chat" in cli(real, "model", "list").stdout
    listed = json.loads(cli(real, "model", "list", "--json").stdout)
    assert sorted(m["id"] for m in listed["data"]) == ["chat", "embed"]


def test_chat_and_embed(real):
    assert cli(real, "chat", "Name a colour.", "--max-tokens", "8").stdout.strip()
    turns = cli(real, "--json", "chat", "--max-tokens=4", stdin="Hello\nAnd now?\n").stdout.splitlines()
    assert [json.loads(turn)["role"] for turn in turns] == ["assistant", "assistant"]
    assert "nothing" in cli(real, "chat", "a", "--model", "nothing", status=1).stderr
    lines = cli(real, "embed", "one text", "another").stdout.splitlines()
    assert [len(json.loads(line)) for line in lines] == [384, 384]
    assert len(json.loads(cli(real, "--json", "embed", "a").stdout)["data"]) == 1


def test_model_add(real, tmp_path):
    """The bytes are uploaded; the model answers at once and is checked first."""
    cli(real, "model", "add", model_file("*MiniLM*.gguf"), "--name", "second")
    listed = json.loads(cli(real, "--json", "model", "list").stdout)
    assert "second" in [m["id"] for m in listed["data"]]
    assert len(cli(real, "embed", "a", "--model", "second").stdout) > 1000
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 100)
    cli(real, "model", "add", bad, status=1)
    for name in ("../up", "a/b", "", "."):
        cli(real, "model", "add", bad, f"--name={name}" if name else "--name=", status=1)
    cli(real, "model", "add", tmp_path / "missing.gguf", status=1)
    listed = json.loads(cli(real, "--json", "model", "list").stdout)
    assert sorted(m["id"] for m in listed["data"]) == ["chat", "embed", "second"]


@pytest.mark.parametrize("words", [
    [], ["nothing"], ["query", "RETURN 1", "RETURN 2"], ["query", "--nothing"], ["query", "--bind"],
    ["query", "RETURN 1", "--bind", "{"], ["import"], ["ask"], ["ask", "a", "b"], ["embed"],
    ["chat", "a", "b"], ["model", "add"], ["model", "nothing"], ["status", "a"], ["--nothing", "status"],
])
def test_misuse(real, words):
    done = cli(real, *words, status=2)
    assert done.stderr and not done.stdout


def test_help():
    for words in (["--help"], ["help"], ["ask", "--help"], ["--version"]):
        done = subprocess.run([program("THEMIS", "build/themis"), *words], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout and not done.stderr


def test_no_server(real):
    done = subprocess.run([program("THEMIS", "build/themis"), "--url", "http://127.0.0.1:1", "status"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr
    wrong = subprocess.run([program("THEMIS", "build/themis"), "status"], capture_output=True, text=True,
                           env={**os.environ, "THEMIS_URL": real.url, "THEMIS_USER": "root",
                                "THEMIS_PASSWORD": "wrong"}, timeout=30)
    assert wrong.returncode == 1 and "password" in wrong.stderr
