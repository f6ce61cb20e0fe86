# SPDX-License-Identifier: Apache-2.0
"""The real python-arango against a node."""
import uuid

import pytest
from arango import ArangoClient
from arango.exceptions import (AQLQueryExecuteError, CollectionCreateError, CursorNextError,
                               DocumentGetError, DocumentInsertError, DocumentRevisionError,
                               DocumentUpdateError, ServerConnectionError)


@pytest.fixture(scope="module")
def client(real):
    client = ArangoClient(hosts=real.url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def db(client):
    """A database of this run."""
    system = client.db("_system", username="root", password="", verify=True)
    name = "e2e_" + uuid.uuid4().hex[:8]
    assert system.create_database(name)
    assert name in system.databases()
    assert system.has_database(name)
    db = client.db(name, username="root", password="", verify=True)
    yield db
    assert system.delete_database(name)
    assert not system.has_database(name)


@pytest.fixture
def people(db):
    """A collection with ten documents."""
    people = db.create_collection("people")
    answers = people.insert_many([{"_key": f"p{i}", "name": f"name {i}", "age": 20 + i}
                                  for i in range(10)])
    assert [a["_key"] for a in answers] == [f"p{i}" for i in range(10)]
    yield people
    assert db.delete_collection("people")
    assert not db.has_collection("people")


def test_version(db):
    assert db.version().startswith("3.12.")
    details = db.version(details=True)
    assert details["server"] == "arango"
    assert details["details"]["name"] == "themis"


def test_token_of_the_driver(client):
    assert client.db("_system", username="root", password="", auth_method="jwt", verify=True).version()


def test_wrong_password(client):
    with pytest.raises(ServerConnectionError):
        client.db("_system", username="root", password="wrong", verify=True)


def test_unknown_database(client):
    with pytest.raises(ServerConnectionError):
        client.db("nowhere", username="root", password="", verify=True)


def test_documents(people):
    assert people.count() == 10
    assert len(people) == 10
    document = people.get("p3")
    assert document["name"] == "name 3" and document["age"] == 23
    assert document["_id"] == "people/p3"
    assert people.get("missing") is None
    assert people.has("p3") and not people.has("missing")
    assert "p4" in people
    assert [d["_key"] for d in people.get_many(["p1", "p2"])] == ["p1", "p2"]

    with pytest.raises(DocumentInsertError) as caught:
        people.insert({"_key": "p3"})
    assert caught.value.error_code == 1210
    assert caught.value.http_code == 409

    mixed = people.insert_many([{"_key": "p3"}, {"_key": "fresh"}])
    assert isinstance(mixed[0], DocumentInsertError) and mixed[0].error_code == 1210
    assert mixed[1]["_key"] == "fresh"
    assert people.count() == 11

    assert people.insert({"name": "no key"})["_key"]
    values = {"_key": "v", "big": 9007199254740993, "min": -9223372036854775808, "real": 0.1,
              "text": "Grüße 😀 \u0001\"\\", "null": None, "list": [1, [2, {"a": []}]], "yes": True}
    people.insert(values)
    stored = people.get("v")
    assert {name: stored[name] for name in values} == values


def test_generated_keys_meet_no_chosen_ones(db):
    """Both are numbers; with overwrite_mode a meeting would lose a document."""
    numbers = db.create_collection("numbers")
    numbers.insert_many([{"_key": str(i)} for i in range(3000)])
    made = numbers.insert_many([{"made": True}] * 20, overwrite_mode="replace")
    assert not {document["_key"] for document in made} & {str(i) for i in range(3000)}
    assert numbers.insert({"made": True})["_key"]
    assert numbers.count() == 3021
    assert db.delete_collection("numbers")


def test_update_and_revisions(people):
    first = people.get("p1")
    changed = people.update({"_key": "p1", "age": 99}, return_new=True, return_old=True)
    assert changed["_old_rev"] == first["_rev"]
    assert changed["new"]["age"] == 99 and changed["new"]["name"] == "name 1"
    assert changed["old"]["age"] == 21

    with pytest.raises(DocumentRevisionError) as caught:
        people.update({"_key": "p1", "_rev": first["_rev"], "age": 1}, check_rev=True)
    assert caught.value.http_code == 412
    assert caught.value.error_code == 1200
    with pytest.raises(DocumentRevisionError):
        people.replace({"_key": "p1", "_rev": first["_rev"]}, check_rev=True)
    with pytest.raises(DocumentRevisionError):
        people.delete({"_key": "p1", "_rev": first["_rev"]}, check_rev=True)
    assert people.get("p1")["age"] == 99

    now = people.get("p1")
    people.update({"_key": "p1", "_rev": now["_rev"], "age": 100}, check_rev=True)
    people.update({"_key": "p1", "_rev": "stale", "age": 101}, check_rev=False)
    assert people.get("p1")["age"] == 101
    people.update({"_key": "p1", "age": None}, keep_none=False)
    assert "age" not in people.get("p1")

    with pytest.raises(DocumentUpdateError) as missing:
        people.update({"_key": "missing", "a": 1})
    assert missing.value.error_code == 1202


def test_replace_and_delete(people):
    people.replace({"_key": "p2", "only": 1})
    assert {k for k in people.get("p2") if k[0] != "_"} == {"only"}
    gone = people.delete("p2", return_old=True)
    assert gone["old"]["only"] == 1
    assert people.get("p2") is None
    assert people.delete("p2", ignore_missing=True) is False
    people.delete_many(["p3", "p4"])
    assert people.count() == 7
    people.update_many([{"_key": "p5", "seen": True}, {"_key": "p6", "seen": True}])
    people.replace_many([{"_key": "p7", "seen": True}])
    assert sorted(d["_key"] for d in people.get_many(["p5", "p6", "p7"]) if d["seen"]) == ["p5", "p6", "p7"]
    assert people.truncate()
    assert people.count() == 0


def test_query(db, people):
    cursor = db.aql.execute(
        "FOR p IN @@where FILTER p.age >= @age SORT p.age DESC RETURN p.name",
        bind_vars={"@where": "people", "age": 25}, batch_size=2, count=True)
    assert cursor.count() == 5
    assert cursor.has_more()
    assert list(cursor) == [f"name {i}" for i in (9, 8, 7, 6, 5)]
    assert cursor.statistics()["scanned_full"] + cursor.statistics().get("scanned_index", 0) > 0

    written = db.aql.execute(
        "FOR p IN people FILTER p.age < 23 UPDATE p WITH { young: true } IN people RETURN NEW.young")
    assert list(written) == [True, True, True]
    grouped = db.aql.execute("FOR p IN people COLLECT young = p.young WITH COUNT INTO n RETURN [young, n]")
    assert sorted(grouped, key=str) == [[None, 7], [True, 3]]
    assert list(db.aql.execute("FOR i IN 1..3 RETURN i * @f", bind_vars={"f": 2.5})) == [2.5, 5, 7.5]


def test_cursor_ends_early(db, people):
    cursor = db.aql.execute("FOR p IN people RETURN p._key", batch_size=3)
    assert cursor.has_more()
    assert cursor.close()
    with pytest.raises(CursorNextError) as caught:
        while True:
            cursor.next()
    assert caught.value.error_code == 1600


def test_query_errors(db, people):
    for text, bind, num, status in (
            ("FOR p IN people RETRUN p", {}, 1501, 400),
            ("FOR p IN nothing RETURN p", {}, 1203, 404),
            ("RETURN x", {}, 1512, 400),
            ("RETURN @a", {}, 1551, 400),
            ("RETURN 1", {"a": 1}, 1552, 400),
            ("RETURN NO_SUCH_FUNCTION(1)", {}, 1540, 400),
            ("", {}, 1502, 400)):
        with pytest.raises(AQLQueryExecuteError) as caught:
            db.aql.execute(text, bind_vars=bind)
        assert (caught.value.error_code, caught.value.http_code) == (num, status), text


def test_explain_and_validate(db, people):
    plan = db.aql.explain("FOR p IN people FILTER p.age == 21 RETURN p")
    assert plan["nodes"][0]["type"] == "SingletonNode"
    parsed = db.aql.validate("FOR p IN people FILTER p.age == @a RETURN p")
    assert parsed["collections"] == ["people"]
    assert "a" in parsed[next(name for name in ("bind_vars", "bindVars", "bind_parameters")
                              if name in parsed)]


def test_indexes(db, people):
    made = people.add_index({"type": "persistent", "fields": ["name"], "unique": True,
                             "name": "by_name"})
    assert made["name"] == "by_name"
    assert {i["type"] for i in people.indexes()} >= {"primary", "persistent"}
    with pytest.raises(DocumentInsertError) as caught:
        people.insert({"name": "name 5"})
    assert caught.value.error_code == 1210
    with pytest.raises(DocumentUpdateError) as updated:
        people.update({"_key": "p1", "name": "name 5"})
    assert updated.value.error_code == 1210
    nodes = db.aql.explain("FOR p IN people FILTER p.name == 'name 5' RETURN p")["nodes"]
    assert any(n["type"] == "IndexNode" for n in nodes), nodes
    assert list(db.aql.execute("FOR p IN people FILTER p.name == 'name 5' RETURN p._key")) == ["p5"]
    assert people.delete_index(made["id"])
    assert people.insert({"name": "name 5"})


def test_unknown_collection(db):
    with pytest.raises(DocumentGetError) as caught:
        db.collection("nothing").get("a")
    assert caught.value.error_code == 1203
    assert caught.value.http_code == 404


def test_collection_names(db, people):
    with pytest.raises(CollectionCreateError) as twice:
        db.create_collection("people")
    assert twice.value.error_code == 1207
    with pytest.raises(CollectionCreateError) as bad:
        db.create_collection("no/slash")
    assert bad.value.error_code == 1208
    assert "people" in [c["name"] for c in db.collections()]
    assert people.properties()["name"] == "people"


def test_edges(db):
    knows = db.create_collection("knows", edge=True)
    assert knows.properties()["edge"]
    edge = knows.insert({"_from": "people/a", "_to": "people/b", "since": 2001})
    stored = knows.get(edge["_key"])
    assert (stored["_from"], stored["_to"]) == ("people/a", "people/b")
    with pytest.raises(DocumentInsertError) as caught:
        knows.insert({"since": 2001})
    assert caught.value.error_code == 1233
    assert list(db.aql.execute("FOR e IN knows FILTER e._from == 'people/a' RETURN e._to")) == ["people/b"]
    assert "edge" in {i["type"] for i in knows.indexes()}
    assert db.delete_collection("knows")
