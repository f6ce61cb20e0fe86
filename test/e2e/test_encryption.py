# SPDX-License-Identifier: Apache-2.0
"""Encrypted attributes: clear text for those who may read, and nowhere on the disk."""
import concurrent.futures
import json
import pathlib
import secrets
import signal
import subprocess
import time

import pytest
from conftest import cli, program

SECRET = "Geheimnis-4711-quux"
PLAIN = "Klartext-0815-plugh"  # what a search must find, or it finds nothing at all


def write_keys(path, *ids, keys={}):  # pylint: disable=dangerous-default-value
    path.write_text("# keys of the test\n" + "".join(
        f"{i} {keys.setdefault((str(path), i), secrets.token_hex(32))}\n" for i in ids))
    path.chmod(0o600)
    return path


@pytest.fixture
def keys(tmp_path):
    """keys("k1", "k2") writes a key file with these; an id has one key for the whole test."""
    return lambda *ids: write_keys(tmp_path / "keys", *ids)


@pytest.fixture
def node(start, tmp_path, keys):
    keys("k1")

    def make(*settings, **options):
        return start(settings=[f"encryption_key_file={tmp_path / 'keys'}", *settings], **options)

    return make


def call(server, method, path, body=None, status=None):
    answer = server.request(method, path, json=body)
    assert answer.status_code == status if status else answer.status_code < 300, answer.text
    return answer.json()


def create(server, name="people", fields=("ssn", "address.street"), **more):
    return call(server, "POST", "/_api/collection", {"name": name, "encryptedFields": list(fields), **more})


def holders(folder, text):
    """Files below that have the text."""
    found = [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and text.encode() in p.read_bytes()]
    return [str(p.relative_to(folder)) for p in found]


def reload(server, text="the key file was read again"):
    before = server.log().count(text)
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60
    while server.log().count(text) == before:
        assert time.monotonic() < end, server.log()
        time.sleep(0.02)


def usage(server):
    state = call(server, "GET", "/_admin/encryption?count=true")
    return {k["id"]: k["values"] for k in state["keys"]}, {c["name"]: c for c in state["collections"]}


def rewrite(server, **body):
    """Until nothing is left; other writers may be in the way."""
    written = 0
    for _ in range(100):
        answer = call(server, "POST", "/_admin/encryption/rewrite", body)
        written += answer["rewritten"]
        if answer["isDone"]:
            return written
    raise AssertionError(answer)


# ---- reading and writing ----

def test_documents_and_queries_are_clear_text(node):
    server = node()
    made = create(server)
    assert made["encryptedFields"] == ["ssn", "address.street"]
    person = {"_key": "anna", "ssn": SECRET, "age": 30, "address": {"street": [SECRET], "zip": PLAIN}}
    answer = call(server, "POST", "/_api/document/people?returnNew=true", person)
    assert answer["new"]["ssn"] == SECRET
    got = call(server, "GET", "/_api/document/people/anna")
    assert {k: v for k, v in got.items() if k not in ("_id", "_rev")} == person
    assert server.rows("FOR p IN people RETURN p.ssn") == [SECRET]
    assert server.rows("FOR p IN people FILTER p.age == 30 RETURN [p.address, UPPER(p.ssn)]") == [
        [person["address"], SECRET.upper()]]
    assert server.rows("RETURN DOCUMENT('people/anna').ssn") == [SECRET]
    assert server.rows("FOR p IN people UPDATE p WITH {address: {street: 'x'}} IN people RETURN [OLD.ssn, NEW.address]") == [
        [SECRET, {"street": "x", "zip": PLAIN}]]
    patched = call(server, "PATCH", "/_api/document/people/anna?returnOld=true&returnNew=true", {"age": 31})
    assert patched["old"]["age"] == 30 and patched["old"]["ssn"] == patched["new"]["ssn"] == SECRET
    replaced = call(server, "PUT", "/_api/document/people/anna?returnOld=true", {"ssn": None})
    assert replaced["old"]["ssn"] == SECRET
    assert call(server, "GET", "/_api/document/people/anna")["ssn"] is None
    assert "encryptedFields" not in call(server, "POST", "/_api/collection", {"name": "plain"})


REFUSED = [
    "FOR p IN people FILTER p.ssn == @s RETURN p",
    "FOR p IN people FILTER p['ssn'] == @s RETURN p",
    "FOR p IN people FILTER p.age > 3 AND LENGTH(p.ssn) > 3 RETURN p.age + LENGTH(@s)",
    "FOR p IN people FILTER p.address.street.no == @s RETURN p",
    "FOR p IN people LET s = p.ssn FILTER s == @s RETURN p",
    "FOR p IN people LET s = LOWER(p.ssn) FILTER s == @s RETURN p",
    "FOR p IN people LET a = p.address FILTER a.street == @s RETURN p",
    "FOR p IN people LET hit = p.ssn == @s FILTER hit RETURN p",
    "FOR p IN people FOR x IN p.ssn FILTER x == @s RETURN p",
    "FOR p IN people SORT p.ssn RETURN CONCAT(@s, p._key)",
    "FOR p IN people COLLECT s = p.ssn RETURN [@s, s]",
    "FOR p IN people COLLECT AGGREGATE s = MAX(p.ssn) RETURN [@s, s]",
    "FOR p IN people RETURN DISTINCT p.ssn == @s",
    "FOR p IN people FOR q IN people FILTER p.age == q.age AND p.ssn == q.ssn RETURN @s",
    "FOR i IN 1..2 LET l = (FOR p IN people FILTER p.ssn == @s RETURN p) RETURN l",
    "UPSERT {ssn: @s} INSERT {a: 1} UPDATE {a: 2} IN people",
    "FOR p IN people UPDATE p WITH {age: 1} IN people FILTER NEW.ssn == @s RETURN NEW",
]


def test_what_compares_one_is_refused(node):
    server = node()
    create(server)
    call(server, "POST", "/_api/document/people", {"_key": "a", "ssn": SECRET, "age": 1, "address": {"street": "s"}})
    for query in REFUSED:
        for rules in ([], ["-all"]):
            answer = server.aql(query, 400, bindVars={"s": SECRET}, options={"optimizer": {"rules": rules}})
            assert answer["errorNum"] == 10 and "encrypted attribute" in answer["errorMessage"], (query, answer)
    for query in ("FOR p IN people FILTER HAS(p, 'ssn') RETURN 1", "FOR p IN people FILTER p != null RETURN 1",
                  "FOR p IN people LET o = {s: p.ssn, a: p.age} FILTER o.a == 1 RETURN 1",
                  "FOR p IN people SORT p.age LET s = p.ssn RETURN LENGTH(s) > 0",
                  "FOR p IN people FILTER p.address.zip == null RETURN 1"):
        assert server.rows(query) in ([1], [True]), query
    definition = {"type": "persistent", "fields": ["ssn"]}
    answer = call(server, "POST", "/_api/index?collection=people", definition, 400)
    assert answer["errorNum"] == 10 and "'ssn' is encrypted" in answer["errorMessage"]
    call(server, "POST", "/_api/index?collection=people", {"type": "persistent", "fields": ["age"]})
    answer = call(server, "PUT", "/_api/collection/people/properties", {"encryptedFields": ["age"]}, 400)
    assert answer["errorNum"] == 10 and "index" in answer["errorMessage"]
    assert call(server, "GET", "/_api/collection/people/properties")["encryptedFields"] == ["ssn", "address.street"]


@pytest.mark.parametrize("fields", ["ssn", [1], ["_key"], ["a", "a.b"], ["a[*]"], [""], {"a": 1}])
def test_fields_that_cannot_be(node, fields):
    server = node()
    answer = server.request("POST", "/_api/collection", json={"name": "c", "encryptedFields": fields})
    assert answer.status_code == 400 and answer.json()["errorNum"] in (10, 1220), answer.text


# ---- nowhere on the disk ----

def test_nothing_of_it_is_on_the_disk(node, tmp_path):
    audit = tmp_path / "data/audit"
    audit.parent.mkdir()
    server = node("memtables_mb=8", "spill_memory_mb=1", f"audit_log={audit}", "vector_head_rows=16")
    create(server)
    call(server, "POST", "/_api/collection", {"name": "graph", "type": 3, "encryptedFields": ["note"]})
    call(server, "POST", "/_api/index?collection=people",
         {"type": "vector", "fields": ["v"], "params": {"metric": "l2", "dimension": 2}})
    call(server, "POST", "/_api/index?collection=people", {"type": "fulltext", "fields": ["about"]})
    call(server, "POST", "/_api/index?collection=people", {"type": "persistent", "fields": ["age"]})
    server.aql("FOR i IN 1..3000 INSERT {_key: CONCAT('p', i), ssn: CONCAT(@s, i), age: i, v: [i, 1], about: 'some words', "
               "address: {street: {name: @s}, zip: @p}} INTO people", bindVars={"s": SECRET, "p": PLAIN})
    call(server, "POST", "/_api/document/graph", {"_from": "people/p1", "_to": "people/p2", "note": SECRET})
    call(server, "POST", "/_api/document/people", {"_key": "large", "ssn": SECRET * 100000, "v": [0, 1]})
    trx = call(server, "POST", "/_api/transaction/begin", {"collections": {"write": ["people"]}})["result"]["id"]
    answer = server.request("POST", "/_api/document/people", json={"ssn": SECRET, "v": [0, 2]}, headers={"x-arango-trx-id": trx})
    assert answer.status_code == 202
    call(server, "PUT", f"/_api/transaction/{trx}")
    # more rows than memory: sorted by another attribute, the encrypted one beside it, files open meanwhile
    answer = server.request("POST", "/_api/cursor", json={
        "query": "FOR p IN people FILTER p.age != null FOR i IN 1..4 SORT p.age % 7, p._key, i RETURN [p.ssn, p.address]",
        "batchSize": 1000000})
    assert answer.status_code == 201 and len(answer.json()["result"]) == 12000
    assert "themis_query_spilled_bytes_total 0" not in server.request("GET", "/metrics").text
    full = call(server, "POST", "/_admin/backup/create", {"label": "full"})["result"]
    call(server, "PATCH", "/_api/document/people/p7", {"ssn": SECRET + "again"})
    more = call(server, "POST", "/_admin/backup/create", {"label": "more", "incremental": True})["result"]
    data = server.data
    assert holders(data, PLAIN), "the search finds nothing at all"
    assert holders(data, SECRET) == []
    server.stop()  # flushes
    assert holders(data, PLAIN) and holders(data, SECRET) == []
    assert {p.split("/")[0] for p in holders(data, "people")} >= {"rocks", "backups"}
    # a backup restored beside the key file reads as before
    cli(server, "restore", data / "backups" / more["id"], tmp_path / "restored")
    assert holders(tmp_path / "restored", SECRET) == []
    restored = node(data="restored")
    assert restored.rows("RETURN [DOCUMENT('people/p7').ssn, DOCUMENT('people/p9').ssn]") == [[SECRET + "again", SECRET + "9"]]
    restored.stop()
    done = subprocess.run([program("THEMIS", "build/themis"), "check", tmp_path / "restored", "--key-file", tmp_path / "keys"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "6002 values are encrypted with the key 'k1'\n" in done.stdout, done.stdout
    assert full["id"] != more["id"]


def spilled(server):
    """What is in the temporary files that the process has open."""
    found = b""
    for fd in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            if str(fd.readlink()).startswith(str(server.data / "tmp")):
                found += fd.read_bytes()
        except OSError:
            pass
    return found


def test_spilled_rows_are_encrypted_and_come_back(node):
    """The files have no name: they are read through the process's own descriptors, while a sort holds them."""
    server = node("spill_memory_mb=1")
    create(server)
    server.aql("FOR i IN 1..4000 INSERT {ssn: CONCAT(@s, i), n: i, pad: CONCAT(@p, 'x')} INTO people",
               bindVars={"s": SECRET, "p": PLAIN})
    query = ("FOR p IN people FOR i IN 1..3 SORT p.n % 11, p.n, i LET wait = (p.n == 11 AND i == 1) ? SLEEP(5) : 0 "
             "RETURN [p.ssn, p.pad]")
    seen = b""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.rows, query)
        while not answer.done():
            seen = max(seen, spilled(server), key=len)
            time.sleep(0.01)
        rows = answer.result()
    assert len(rows) == 12000 and all(ssn.startswith(SECRET) and pad == PLAIN + "x" for ssn, pad in rows)
    assert len(seen) > 100000 and SECRET.encode() not in seen and PLAIN.encode() not in seen


# ---- keys ----

def test_a_node_without_the_key_starts_and_says_so(node, keys, tmp_path):
    server = node()
    create(server)
    call(server, "POST", "/_api/document/people", {"_key": "a", "ssn": SECRET, "age": 1})
    call(server, "POST", "/_api/document/people", {"_key": "b", "age": 2})
    begin = call(server, "GET", "/_api/changes/state")["last"]
    call(server, "POST", "/_api/document/people", {"_key": "c", "age": 3})
    call(server, "POST", "/_api/document/people", {"_key": "d", "ssn": SECRET})
    server.stop()
    keys("k2")
    server = node()
    for path in ("/_api/document/people/a",):
        answer = call(server, "GET", path, status=500)
        assert "'k1'" in answer["errorMessage"] and "'ssn'" in answer["errorMessage"] and "people/a" in answer["errorMessage"]
    answer = server.aql("FOR p IN people RETURN p", 500)
    assert "'k1'" in answer["errorMessage"]
    assert sorted(server.rows("FOR p IN people FILTER p.age > 0 AND p.age < 3 RETURN p.age")) == [1, 2]  # what does not look at it goes on
    assert call(server, "GET", "/_api/document/people/b")["age"] == 2
    assert "'k1'" in call(server, "PATCH", "/_api/document/people/a", {"age": 5}, 500)["errorMessage"]
    page = call(server, "GET", f"/_api/changes?after={begin}")  # up to what cannot be told
    assert [t["changes"][0]["key"] for t in page["transactions"]] == ["c"]
    answer = call(server, "GET", f"/_api/changes?after={page['sequence']}", status=500)
    assert "'k1'" in answer["errorMessage"] and "people/d" in answer["errorMessage"]
    assert "'k1'" in call(server, "POST", "/_admin/encryption/rewrite", {}, 500)["errorMessage"]
    assert call(server, "GET", "/_admin/encryption?count=true")["collections"][0]["valuesByKey"] == {"k1": 2}
    call(server, "DELETE", "/_api/document/people/d")
    assert server.is_alive()
    keys("k1", "k2")  # the key comes back while the node runs
    reload(server)
    assert call(server, "GET", "/_api/document/people/a")["ssn"] == SECRET
    server.stop()
    (tmp_path / "keys").chmod(0o640)
    refused = node(is_ready=False)
    assert refused.process.wait(60) == 2 and "mode 640" in refused.log(), refused.log()


def test_a_wrong_key_is_not_taken_for_the_right_one(node, tmp_path):
    server = node()
    create(server)
    call(server, "POST", "/_api/document/people", {"_key": "a", "ssn": SECRET})
    (tmp_path / "keys").write_text(f"k1 {secrets.token_hex(32)}\n")
    reload(server)
    answer = call(server, "GET", "/_api/document/people/a", status=500)
    assert "another key under this id" in answer["errorMessage"] and "'k1'" in answer["errorMessage"]
    (tmp_path / "keys").write_text("nonsense\n")
    reload(server, "the keys stay as they are")
    assert "another key" in call(server, "GET", "/_api/document/people/a", status=500)["errorMessage"]


def test_keys_are_rotated_while_others_write(node, keys):
    server = node()
    create(server)
    server.aql("FOR i IN 1..2000 INSERT {_key: CONCAT('p', i), ssn: CONCAT(@s, i)} INTO people", bindVars={"s": SECRET})
    assert usage(server)[0] == {"k1": 2000}
    keys("k1", "k2")
    reload(server)
    assert [(k["id"], k["encrypts"]) for k in call(server, "GET", "/_admin/encryption")["keys"]] == [
        ("k1", False), ("k2", True)]
    call(server, "PATCH", "/_api/document/people/p5", {"n": 1})  # a write takes the new key
    assert usage(server)[0] == {"k1": 1999, "k2": 1}
    revs = server.rows("FOR p IN people SORT p._key RETURN p._rev")
    first = call(server, "POST", "/_admin/encryption/rewrite", {"collection": "people", "limit": 500})
    assert not first["isDone"] and first["rewritten"] == 500
    assert usage(server)[0] == {"k1": 1499, "k2": 501}
    assert rewrite(server) == 1499
    values, collections = usage(server)
    assert values == {"k1": 0, "k2": 2000} and collections["people"]["staleDocuments"] == 0
    assert server.rows("FOR p IN people SORT p._key RETURN p._rev") == revs
    keys("k2")  # the old one can go
    reload(server)
    server.kill()
    server = node()
    assert sorted(server.rows("FOR p IN people RETURN p.ssn")) == sorted(f"{SECRET}{i}" for i in range(1, 2001))


def test_the_setting_names_the_key_that_encrypts(node, keys):
    keys("k1", "k2")
    server = node("encryption_key_id=k1")
    create(server)
    call(server, "POST", "/_api/document/people", {"ssn": 1})
    assert usage(server)[0] == {"k1": 1, "k2": 0}
    server.stop()
    refused = node("encryption_key_id=k3", is_ready=False)
    assert refused.process.wait(60) == 2 and "'k3'" in refused.log(), refused.log()


def test_without_a_key_file_there_is_no_encryption(start):
    server = start()
    answer = server.request("POST", "/_api/collection", json={"name": "c", "encryptedFields": ["a"]})
    assert answer.status_code == 400 and "encryption_key_file" in answer.json()["errorMessage"]
    assert call(server, "GET", "/_admin/encryption") == {
        "collections": [], "keys": [], "error": False, "code": 200}


# ---- attributes of collections that have documents ----

def test_existing_documents_become_encrypted(node):
    server = node("change_log_mb=1")
    call(server, "POST", "/_api/collection", {"name": "people"})
    server.aql("FOR i IN 1..1000 INSERT {_key: CONCAT('p', i), ssn: CONCAT(@s, i)} INTO people", bindVars={"s": SECRET})
    at = call(server, "GET", "/_api/changes/state")["last"]
    set_to = call(server, "PUT", "/_api/collection/people/properties", {"encryptedFields": ["ssn"]})
    assert set_to["encryptedFields"] == ["ssn"]
    told = call(server, "GET", f"/_api/changes?after={at}")["transactions"][0]["changes"][0]
    assert told["type"] == "setCollection" and told["properties"]["encryptedFields"] == ["ssn"]
    call(server, "POST", "/_api/document/people", {"_key": "new", "ssn": SECRET})
    state = usage(server)[1]["people"]
    assert (state["clearValues"], state["staleDocuments"], state["valuesByKey"]) == (1000, 1000, {"k1": 1})
    assert len(server.rows("FOR p IN people RETURN p.ssn")) == 1001
    assert rewrite(server) == 1000
    assert usage(server)[1]["people"]["clearValues"] == 0
    for i in range(40):  # the change log leaves the old commits behind
        call(server, "PUT", "/_api/document/people/filler", {"x": secrets.token_hex(30000)}) if i else \
            call(server, "POST", "/_api/document/people", {"_key": "filler"})
    call(server, "PUT", "/_api/collection/people/properties", {"encryptedFields": []})
    assert "encryptedFields" not in call(server, "GET", "/_api/collection/people/properties")
    assert usage(server)[1]["people"]["formerFields"] == ["ssn"]
    assert rewrite(server, collection="people") == 1001
    assert usage(server)[1] == {}
    assert server.rows("FOR p IN people FILTER p.ssn == @s RETURN p._key", s=SECRET + "7") == ["p7"]


# ---- damage ----

def test_tampered_values_are_found(node, tmp_path):
    server = node()
    create(server)
    call(server, "POST", "/_api/document/people", {"_key": "a", "ssn": SECRET})
    server.kill()
    log = sorted((server.data / "rocks").glob("*.log"))[-1]
    assert SECRET.encode() not in log.read_bytes()
    # values are checked by the check, with the key and without it
    themis = program("THEMIS", "build/themis")
    done = subprocess.run([themis, "check", server.data], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1 values are encrypted with the key 'k1', which was not given" in done.stdout, done.stdout
    (tmp_path / "other").write_text(f"k2 {secrets.token_hex(32)}\n")
    (tmp_path / "other").chmod(0o600)
    done = subprocess.run([themis, "check", server.data, "--key-file", tmp_path / "other"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "PROBLEM _system/people" in done.stdout and "'k1'" in done.stdout, done.stdout


def test_the_feed_and_a_snapshot_are_clear_text(node):
    server = node()
    create(server)
    at = call(server, "GET", "/_api/changes/state")["last"]
    call(server, "POST", "/_api/document/people", {"_key": "a", "ssn": SECRET})
    page = call(server, "GET", f"/_api/changes?after={at}")
    assert page["transactions"][0]["changes"][0]["document"]["ssn"] == SECRET
    lines = [json.loads(line) for line in server.request("GET", "/_api/changes/snapshot").text.splitlines()]
    assert [l["document"]["ssn"] for l in lines if l["type"] == "document" and l["collection"] == "people"] == [SECRET]
