# SPDX-License-Identifier: Apache-2.0
"""Schemas and computed values of collections, on every way in and through the driver."""
import json
import random
import uuid

import pytest
from arango import ArangoClient
from arango.exceptions import (AQLQueryExecuteError, CollectionConfigureError, CollectionCreateError,
                               DocumentInsertError, DocumentReplaceError, DocumentUpdateError)
from conftest import cli
from jsonschema import Draft4Validator

RULE = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0}}, "required": ["n"]}
SCHEMA = {"rule": RULE, "level": "strict", "message": "n must be a number from 0", "type": "json"}
FULL = {"name": "twice", "expression": "RETURN @doc.n * 2", "computeOn": ["insert", "update", "replace"],
        "overwrite": True, "failOnWarning": False, "keepNull": True}


@pytest.fixture(scope="module")
def client(sim):
    client = ArangoClient(hosts=sim.url)
    yield client
    client.close()


@pytest.fixture
def db(client):
    system = client.db("_system", username="root", password="")
    name = "rules_" + uuid.uuid4().hex[:8]
    system.create_database(name)
    yield client.db(name, username="root", password="")
    system.delete_database(name)


def post(sim, db, path, status, **options):
    answer = sim.request("POST", f"/_db/{db.name}{path}", **options)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(error, call, *arguments, number=1620, **options):
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    assert caught.value.error_code == number, caught.value
    assert caught.value.http_code == 400
    return caught.value.error_message


# ---- the driver ----

def test_a_schema_through_the_driver(sim, db):
    c = db.create_collection("c", schema=SCHEMA)
    assert c.properties()["schema"] == SCHEMA
    c.insert({"_key": "a", "n": 1})
    assert "n must be a number" in refused(DocumentInsertError, c.insert, {"n": -1})
    refused(DocumentUpdateError, c.update, {"_key": "a", "n": "x"})
    refused(DocumentReplaceError, c.replace, {"_key": "a"})
    refused(AQLQueryExecuteError, db.aql.execute, "INSERT {n: 'x'} INTO c")
    many = c.insert_many([{"n": 1}, {"n": "x"}, {"_key": "a", "n": 1}, {"n": 2}])
    assert [getattr(one, "error_code", 0) for one in many] == [0, 1620, 1210, 0]
    for nothing in (None, {}):
        answer = sim.request("PUT", f"/_db/{db.name}/_api/collection/c/properties", json={"schema": nothing})
        assert answer.json()["schema"] is None and c.properties()["schema"] is None
    c.insert({"n": "x"})
    assert c.configure(schema={"rule": RULE, "level": "moderate"})["schema"] == {
        "rule": RULE, "level": "moderate", "message": "", "type": "json"}
    bad = db.aql.execute("FOR d IN c FILTER d.n == 'x' RETURN d").next()
    c.update({"_key": bad["_key"], "n": "y"})
    assert "schema validation failed" in refused(DocumentUpdateError, c.update, {"_key": "a", "n": "y"})
    assert next(db.aql.execute("RETURN SCHEMA_GET('c').level")) == "moderate"


def test_computed_values_through_the_driver(db):
    c = db.create_collection("c", computedValues=[{"name": "twice", "expression": "RETURN @doc.n * 2", "overwrite": True}])
    assert c.properties()["computedValues"] == [FULL]
    assert c.insert({"_key": "a", "n": 4}, return_new=True)["new"]["twice"] == 8
    assert c.update({"_key": "a", "n": 5}, return_new=True)["new"]["twice"] == 10
    assert c.replace({"_key": "a", "n": 6}, return_new=True)["new"]["twice"] == 12
    assert c.configure(computed_values=[]).get("computedValues") is None
    assert c.update({"_key": "a", "n": 7}, return_new=True)["new"]["twice"] == 12
    stamped = c.configure(computed_values=[{"name": "at", "expression": "RETURN DATE_NOW()", "overwrite": True,
                                            "computeOn": ["insert"]}])
    assert stamped["computedValues"][0]["computeOn"] == ["insert"]
    assert c.insert({}, return_new=True)["new"]["at"] > 1_700_000_000_000


def test_what_is_no_schema(db):
    c = db.create_collection("c")
    for bad in ({"rule": 1}, {"level": "new"}, {"rule": {"type": "text"}}, {"rule": {}, "level": "hard"},
                {"rule": {"$ref": "http://example.org/x"}}, {"rule": {"allOf": [{"$ref": "#"}]}}):
        refused(CollectionConfigureError, c.configure, schema=bad, number=1621)
        refused(CollectionCreateError, db.create_collection, "d", schema=bad, number=1621)
    assert c.properties()["schema"] is None and not db.has_collection("d")


FORBIDDEN = ["", "1", "CONCAT(@doc.a)", "RETURN", "RETURN (RETURN 1)", "FOR i IN 1..2 RETURN i", "LET a = 1 RETURN a",
             "RETURN @other", "RETURN @@doc", "RETURN @doc.@a", "RETURN {[@doc.a]: 1, @b: 2}", "RETURN doc", "RETURN c",
             "RETURN CURRENT", "RETURN LENGTH(c)", "RETURN (FOR i IN c RETURN i)", "RETURN @doc.x[* FILTER c]",
             "INSERT {} INTO c", "RETURN DISTINCT @doc", "RETURN 1 RETURN 2",
             "RETURN DOCUMENT('c/a')", "RETURN COLLECTIONS()", "RETURN COLLECTION_COUNT('c')",
             "RETURN CURRENT_DATABASE()", "RETURN CURRENT_USER()", "RETURN VERSION()", "RETURN V8(1)",
             "RETURN CALL('LOWER', 'A')", "RETURN APPLY('LOWER', ['A'])", "RETURN SCHEMA_GET('c')",
             "RETURN SCHEMA_VALIDATE(@doc, {})", "RETURN NEAR('c', 1, 1)", "RETURN WITHIN('c', 1, 1, 1)",
             "RETURN FULLTEXT('c', 'a', 'b')", "RETURN SLEEP(1)", "RETURN INFER('chat', 'x')", "RETURN NO_SUCH(1)",
             "RETURN LOWER()", "RETURN UNIT::TEST(1)", "RETURN 'unfinished"]


@pytest.mark.parametrize("expression", FORBIDDEN)
def test_what_an_expression_may_not_be(db, expression):
    c = db.create_collection("c")
    message = refused(CollectionConfigureError, c.configure, number=10,
                      computed_values=[{"name": "v", "expression": expression, "overwrite": True}])
    assert "invalid 'computedValues' entry 'v'" in message
    assert c.properties().get("computedValues") is None


# ---- other ways in ----

def test_arrays_and_imports(sim, db):
    db.create_collection("c", schema=SCHEMA, computedValues=[FULL])
    answer = sim.request("POST", f"/_db/{db.name}/_api/document/c?returnNew=true",
                         json=[{"_key": "a", "n": 1}, {"n": "x"}, {"n": 2}])
    assert answer.status_code == 202 and answer.headers["X-Arango-Error-Codes"] == "1620:1"
    rows = answer.json()
    assert [row.get("errorNum") for row in rows] == [None, 1620, None]
    assert rows[1]["errorMessage"] == "n must be a number from 0"
    assert [row["new"]["twice"] for row in rows if "new" in row] == [2, 4]
    for method in ("PATCH", "PUT"):
        rows = sim.request(method, f"/_db/{db.name}/_api/document/c", json=[{"_key": "a", "n": -1}, {"_key": "a", "n": 3}]).json()
        assert [row.get("errorNum") for row in rows] == [1620, None]
    lines = '{"n": 1}\n{"n": "x"}\n{"n": 2}\n'
    done = post(sim, db, "/_api/import?collection=c&type=documents&details=true", 201, data=lines)
    assert (done["created"], done["errors"]) == (2, 1) and "n must be" in done["details"][0]
    done = post(sim, db, "/_api/import?collection=c", 201, data='["n"]\n[5]\n["x"]\n')
    assert (done["created"], done["errors"]) == (1, 1)
    failed = post(sim, db, "/_api/import?collection=c&type=documents&complete=true", 400, data=lines)
    assert failed["errorNum"] == 1620
    assert next(db.aql.execute("RETURN SUM(FOR d IN c RETURN d.twice == d.n * 2 ? 0 : 1)")) == 0


def test_transactions(db):
    db.create_collection("c", schema=SCHEMA)
    txn = db.begin_transaction(write="c")
    c = txn.collection("c")
    c.insert({"_key": "a", "n": 1})
    refused(DocumentInsertError, c.insert, {"_key": "b", "n": "x"})
    refused(AQLQueryExecuteError, txn.aql.execute, "UPDATE 'a' WITH {n: 'x'} IN c")
    txn.commit_transaction()
    assert [d["n"] for d in db.collection("c")] == [1]


def test_graphs(db):
    graph = db.create_graph("g")
    people = graph.create_vertex_collection("people")
    knows = graph.create_edge_definition("knows", ["people"], ["people"])
    db.collection("people").configure(schema=SCHEMA)
    db.collection("knows").configure(schema={"rule": {"properties": {"w": {"type": "number"}}, "additionalProperties": False}},
                                     computed_values=[{"name": "w", "expression": "RETURN LENGTH(@doc._from)", "overwrite": False}])
    people.insert({"_key": "a", "n": 1})
    refused(DocumentInsertError, people.insert, {"n": "x"})
    refused(DocumentUpdateError, people.update, {"_key": "a", "n": "x"})
    refused(DocumentReplaceError, people.replace, {"_key": "a", "m": 1})
    edge = knows.insert({"_from": "people/a", "_to": "people/a"})
    assert knows.get(edge["_key"])["w"] == len("people/a")
    refused(DocumentInsertError, knows.insert, {"_from": "people/a", "_to": "people/a", "x": 1})


# ---- kept ----

def test_rules_are_kept_backed_up_and_told(start):
    server = start({})

    def call(method, path, body=None):
        answer = server.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    begin = call("GET", "/_api/changes/state")["last"]
    call("POST", "/_api/collection", {"name": "c"})
    call("PUT", "/_api/collection/c/properties", {"schema": SCHEMA})
    call("PUT", "/_api/collection/c/properties", {"computedValues": [FULL]})
    told = [change for one in call("GET", f"/_api/changes?after={begin}")["transactions"] for change in one["changes"]]
    assert [change["type"] for change in told] == ["createCollection", "setCollection", "setCollection"]
    assert told[1]["properties"]["schema"] == SCHEMA and told[2]["properties"]["computedValues"] == [FULL]
    backup = call("POST", "/_admin/backup/create", {"label": "full"})["result"]
    call("PUT", "/_api/collection/c/properties", {"schema": None})
    more = call("POST", "/_admin/backup/create", {"label": "more", "incremental": True})["result"]
    server.kill()
    again = start({}, data=server.data.name)
    properties = again.request("GET", "/_api/collection/c/properties").json()
    assert properties["schema"] is None and properties["computedValues"] == [FULL]
    again.stop()
    for name, schema in ((backup["id"], SCHEMA), (more["id"], None)):
        cli(again, "restore", again.data / "backups" / name, again.data.with_name(name))
        restored = start({}, data=name)
        assert restored.request("GET", "/_api/collection/c/properties").json()["schema"] == schema
        answer = restored.request("POST", "/_api/document/c?returnNew=true", json={"n": -1})
        assert answer.status_code == (400 if schema else 202)
        assert restored.request("POST", "/_api/document/c?returnNew=true", json={"n": 4}).json()["new"]["twice"] == 8


def test_a_schema_wins_against_writers_that_began_before(sim, db):
    db.create_collection("c")
    txn = db.begin_transaction(write="c")
    txn.collection("c").insert({"n": "x"})
    db.collection("c").configure(schema=SCHEMA)
    with pytest.raises(Exception) as caught:
        txn.commit_transaction()
    assert caught.value.error_code == 1200


# ---- another validator ----

NAMES = ["a", "b", "c", "name", "x1", "long_name"]
VALUES = [None, True, False, 0, 1, 2, -1, 3.5, 7, "", "a", "ab", "äöü", "abcd", [], [1], [1, "a"], [[]], {}, {"a": 1}]


def random_value(r, depth=3):
    kind = r.random()
    if depth == 0 or kind < 0.5:
        return r.choice(VALUES)
    if kind < 0.7:
        return [random_value(r, depth - 1) for _ in range(r.randrange(5))]
    return {name: random_value(r, depth - 1) for name in r.sample(NAMES, r.randrange(5))}


def random_rule(r, depth=3):
    def sub():
        return random_rule(r, depth - 1)

    keywords = {
        "type": lambda: r.choice([r.choice(["null", "boolean", "number", "string", "array", "object", "integer"]),
                                  r.sample(["null", "boolean", "number", "string", "array", "object"], r.randrange(1, 4))]),
        "enum": lambda: r.sample(VALUES, r.randrange(1, 6)),
        "minimum": lambda: r.choice([-1, 0, 1, 2.5]), "maximum": lambda: r.choice([0, 1, 3, 6.5]),
        "multipleOf": lambda: r.choice([1, 2, 0.5]),
        "minLength": lambda: r.randrange(3), "maxLength": lambda: r.randrange(4),
        "pattern": lambda: r.choice(["a", "^a", "b$", "^[a-c]*$", "."]),
        "minItems": lambda: r.randrange(3), "maxItems": lambda: r.randrange(4), "uniqueItems": lambda: r.random() < 0.7,
        "minProperties": lambda: r.randrange(3), "maxProperties": lambda: r.randrange(5),
        "required": lambda: r.sample(NAMES, r.randrange(1, 3)),
        "unknown": lambda: 1,
    }
    nested = {
        "items": lambda: sub() if r.random() < 0.5 else [sub() for _ in range(r.randrange(1, 4))],
        "additionalItems": lambda: r.choice([True, False, sub()]),
        "properties": lambda: {name: sub() for name in r.sample(NAMES, r.randrange(4))},
        "patternProperties": lambda: {r.choice(["^x", "a", "name$", "1"]): sub()},
        "additionalProperties": lambda: r.choice([True, False, sub()]),
        "dependencies": lambda: {r.choice(NAMES): r.choice([r.sample(NAMES, 2), sub()])},
        "allOf": lambda: [sub() for _ in range(r.randrange(1, 3))], "anyOf": lambda: [sub() for _ in range(r.randrange(1, 4))],
        "oneOf": lambda: [sub() for _ in range(r.randrange(1, 4))], "not": sub,
    }
    table = keywords if depth == 0 else {**keywords, **nested}
    rule = {name: table[name]() for name in r.sample(sorted(table), r.choice([0, 1, 1, 2, 2, 3]))}
    for limit in ("minimum", "maximum"):
        if limit in rule and r.random() < 0.3:
            rule["exclusive" + limit.title()] = r.random() < 0.7
    if depth == 3 and r.random() < 0.3:
        rule["definitions"] = {"d": sub()}
        rule.setdefault("properties", {})[r.choice(NAMES)] = {"$ref": r.choice(["#/definitions/d", "#"])}
    return rule


def test_another_validator_says_the_same(sim):
    """Random schemas and documents; whole doubles are left out, which are integers only there."""
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    query = "FOR d IN @docs RETURN SCHEMA_VALIDATE(d, {rule: @rule}).valid"
    verdicts = {True: 0, False: 0}
    for _ in range(1500):
        rule = random_rule(r)
        Draft4Validator.check_schema(rule)
        docs = [{name: random_value(r) for name in r.sample(NAMES, r.randrange(5))} for _ in range(12)]
        got = sim.aql(query, bindVars={"docs": docs, "rule": rule}, batchSize=100)["result"]
        validator = Draft4Validator(rule)
        for doc, valid in zip(docs, got, strict=True):
            verdicts[valid] += 1
            assert valid == validator.is_valid(doc), f"seed {seed}: {json.dumps(rule)} of {json.dumps(doc)}"
    assert min(verdicts.values()) > 1000, verdicts
