# SPDX-License-Identifier: Apache-2.0
"""ArangoDB's HTTP API row by row: parameters, status codes, headers. Under ASan, without a driver."""
import json

import pytest


@pytest.fixture
def c(sim):
    """An empty collection; c("GET", "/key", ...) calls below /_api/document/things."""
    made = sim.request("POST", "/_api/collection", json={"name": "things"})
    assert made.status_code == 200, made.text

    def call(method, path="", **options):
        return sim.request(method, "/_api/document/things" + path, **options)

    yield call
    assert sim.request("DELETE", "/_api/collection/things").status_code == 200


def refused(answer, status, num, *words):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["error"], body["code"], body["errorNum"]) == (True, status, num), body
    for word in words:
        assert word in body["errorMessage"], body
    return body


def etag(answer):
    return answer.headers["ETag"].strip('"')


# ---- parameters ----

def test_parameters_that_nobody_reads_are_refused(sim, c):
    refused(c("POST", "?retrunNew=true", json={}), 400, 10, "retrunNew")
    refused(c("GET", "/a?returnNew=true"), 400, 10, "returnNew")
    refused(c("POST", "?returnNew=maybe", json={}), 400, 10, "returnNew", "maybe")
    refused(c("POST", "?overwriteMode=sometimes", json={}), 400, 10, "overwriteMode")
    refused(sim.request("GET", "/_api/collection?all=true"), 400, 10, "all")
    assert c("POST", "?returnNew=1&silent=0&&waitForSync=true", json={}).status_code == 201


# ---- one document ----

def test_insert_answers_with_its_place(c):
    made = c("POST", json={"_key": "a:b", "n": 1})
    assert made.status_code == 202
    body = made.json()
    assert set(body) == {"_id", "_key", "_rev"} and body["_id"] == "things/a:b"
    assert etag(made) == body["_rev"]
    assert made.headers["Location"] == "/_db/_system/_api/document/things/a%3Ab"
    assert c("GET", "/a%3Ab").json()["n"] == 1
    assert c("POST", "?waitForSync=true", json={}).status_code == 201
    assert c("POST", "?silent=true", json={"n": 2}).json() == {}
    new = c("POST", "?returnNew=true&returnOld=true", json={"n": 3}).json()
    assert new["new"]["n"] == 3 and "old" not in new


@pytest.mark.parametrize("mode, after, shown", [
    ("ignore", {"a": 1, "o": {"x": 1}}, False),
    ("replace", {"o": {"y": 2}}, True),
    ("update", {"a": 1, "o": {"x": 1, "y": 2}}, True),
])
def test_overwrite_modes(c, mode, after, shown):
    first = c("POST", json={"_key": "k", "a": 1, "o": {"x": 1}}).json()
    again = c("POST", f"?overwriteMode={mode}&returnNew=true&returnOld=true",
              json={"_key": "k", "o": {"y": 2}})
    assert again.status_code == 202, again.text
    assert {k: v for k, v in c("GET", "/k").json().items() if k[0] != "_"} == after
    assert (again.json()["_rev"] != first["_rev"]) == shown
    if shown:
        assert again.json()["_oldRev"] == first["_rev"]
        assert again.json()["old"]["a"] == 1


def test_overwrite_details(c):
    c("POST", json={"_key": "k", "a": 1, "o": {"x": 1}})
    refused(c("POST", json={"_key": "k"}), 409, 1210)
    refused(c("POST", "?overwriteMode=conflict", json={"_key": "k"}), 409, 1210)
    assert c("POST", "?overwrite=true", json={"_key": "k", "b": 1}).status_code == 202
    assert "a" not in c("GET", "/k").json()
    c("POST", "?overwriteMode=update&keepNull=false", json={"_key": "k", "b": None, "o": {"x": 1}})
    assert "b" not in c("GET", "/k").json()
    c("POST", "?overwriteMode=update&mergeObjects=false", json={"_key": "k", "o": {"y": 1}})
    assert c("GET", "/k").json()["o"] == {"y": 1}


def test_reading_with_preconditions(c):
    rev = c("POST", json={"_key": "k"}).json()["_rev"]
    for quoted in (rev, f'"{rev}"'):
        assert c("GET", "/k", headers={"If-Match": quoted}).status_code == 200
        same = c("GET", "/k", headers={"If-None-Match": quoted})
        assert same.status_code == 304 and same.content == b"" and etag(same) == rev
    assert c("GET", "/k", headers={"If-None-Match": "other"}).status_code == 200
    body = refused(c("GET", "/k", headers={"If-Match": "other"}), 412, 1200)
    assert (body["_id"], body["_key"], body["_rev"]) == ("things/k", "k", rev)
    refused(c("GET", "/missing"), 404, 1202)
    head = c("HEAD", "/k")
    assert head.status_code == 200 and head.content == b"" and etag(head) == rev
    assert int(head.headers["Content-Length"]) == len(c("GET", "/k").content)
    assert c("HEAD", "/missing").status_code == 404


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_writing_with_preconditions(c, method):
    rev = c("POST", json={"_key": "k", "n": 1}).json()["_rev"]
    body = None if method == "DELETE" else {"n": 2}
    why = refused(c(method, "/k", json=body, headers={"If-Match": '"other"'}), 412, 1200)
    assert why["_rev"] == rev
    if body:
        refused(c(method, "/k?ignoreRevs=false", json={"_rev": "other"}), 412, 1200)
        assert c(method, "/k?ignoreRevs=true", json={"_rev": "other", "n": 2}).status_code == 202
        rev = c("GET", "/k").json()["_rev"]
    done = c(method, "/k?returnOld=true&waitForSync=true", json=body, headers={"If-Match": rev})
    assert done.status_code == (200 if method == "DELETE" else 201), done.text
    assert done.json()["old"]["_rev"] == rev
    assert ("_oldRev" in done.json()) == (method != "DELETE")
    assert c("GET", "/k").status_code == (404 if method == "DELETE" else 200)
    refused(c(method, "/missing", json=body), 404, 1202)


def test_update_options(c):
    c("POST", json={"_key": "k", "a": 1, "o": {"x": 1}})
    c("PATCH", "/k", json={"o": {"y": 2}, "a": None})
    assert c("GET", "/k").json()["o"] == {"x": 1, "y": 2} and c("GET", "/k").json()["a"] is None
    c("PATCH", "/k?keepNull=false&mergeObjects=false", json={"o": {"z": 3}, "a": None})
    left = c("GET", "/k").json()
    assert left["o"] == {"z": 3} and "a" not in left
    assert c("PATCH", "/k?silent=true", json={"a": 5}).json() == {}
    both = c("PUT", "/k?returnNew=true&returnOld=true", json={"only": 1}).json()
    assert both["old"]["a"] == 5 and both["new"]["only"] == 1 and "a" not in both["new"]


def test_version_attribute_keeps_the_newer(c):
    c("POST", json={"_key": "k", "v": 5, "n": "first"})
    old = c("PATCH", "/k?versionAttribute=v", json={"v": 4, "n": "older"})
    assert old.status_code == 202 and old.json()["_rev"] == old.json()["_oldRev"]
    assert c("GET", "/k").json()["n"] == "first"
    c("PUT", "/k?versionAttribute=v", json={"v": 5, "n": "equal"})
    assert c("GET", "/k").json()["n"] == "first"
    c("PUT", "/k?versionAttribute=v", json={"v": 6, "n": "newer"})
    assert c("GET", "/k").json()["n"] == "newer"
    c("PATCH", "/k?versionAttribute=v", json={"n": "unversioned"})
    assert c("GET", "/k").json()["n"] == "unversioned"
    c("POST", "?overwriteMode=update&versionAttribute=v", json={"_key": "k", "v": 1, "n": "older"})
    c("PATCH", "?versionAttribute=v", json=[{"_key": "k", "v": 2, "n": "older"}])
    assert c("GET", "/k").json()["n"] == "unversioned"
    refused(c("PATCH", "/missing?versionAttribute=v", json={"v": 2}), 404, 1202)


# ---- arrays ----

def test_array_of_inserts(c):
    c("POST", json={"_key": "b"})
    mixed = c("POST", json=[{"_key": "a"}, {"_key": "b"}, 5, {"_key": "no/slash"}, {"_key": "c"}, {"_key": "b"}])
    assert mixed.status_code == 202
    assert mixed.headers["X-Arango-Error-Codes"] == "1210:2,1227:1,1221:1"
    body = mixed.json()
    assert [e.get("_key") or e["errorNum"] for e in body] == ["a", 1210, 1227, 1221, "c", 1210]
    assert body[1]["error"] is True and body[1]["errorMessage"]
    assert c("GET", "/c").status_code == 200
    assert c("POST", json=[]).json() == []
    good = c("POST", "?silent=true&waitForSync=true", json=[{}, {}])
    assert good.status_code == 201 and good.json() == {} and "X-Arango-Error-Codes" not in good.headers
    bad = c("POST", "?silent=true", json=[{"_key": "new"}, {"_key": "a"}])
    assert [e["errorNum"] for e in bad.json()] == [1210]
    assert c("GET", "/new").status_code == 200


def test_arrays_that_change(c):
    revs = {d["_key"]: d["_rev"] for d in c("POST", json=[{"_key": k, "n": 1} for k in "abcd"]).json()}
    done = c("PATCH", "?returnNew=true&ignoreRevs=false",
             json=[{"_key": "a", "n": 2}, {"_key": "b", "_rev": "other", "n": 2},
                   {"_id": "things/c", "_rev": revs["c"], "n": 2}, {"_key": "x", "n": 2}, {"n": 2}])
    assert done.headers["X-Arango-Error-Codes"] == "1200:1,1202:1,1221:1"
    assert [e.get("_key") or e["errorNum"] for e in done.json()] == ["a", 1200, "c", 1202, 1221]
    assert done.json()[0]["new"]["n"] == 2 and done.json()[0]["_oldRev"] == revs["a"]
    assert c("GET", "/b").json()["n"] == 1
    assert c("PUT", json=[{"_key": "b", "m": 1}]).status_code == 202
    assert "n" not in c("GET", "/b").json()
    read = c("PUT", "?onlyget=true", json=["a", {"_key": "b"}, "things/c", "x", "other/a"])
    assert read.status_code == 200
    assert [e.get("_key") or e["errorNum"] for e in read.json()] == ["a", "b", "c", 1202, 1205]
    gone = c("DELETE", "?returnOld=true&ignoreRevs=false",
             json=["a", {"_key": "b", "_rev": "other"}, {"_key": "d", "_rev": revs["d"]}])
    assert gone.headers["X-Arango-Error-Codes"] == "1200:1"
    assert gone.json()[0]["old"]["n"] == 2 and gone.json()[2]["_key"] == "d"
    assert [c("GET", "/" + k).status_code for k in "abcd"] == [404, 200, 200, 404]
    for method in ("PATCH", "PUT", "DELETE"):
        refused(c(method, json={"_key": "a"}), 400, 10)


# ---- import ----

def imported(sim, text, **params):
    return sim.request("POST", "/_api/import", params={"collection": "things", **params}, data=text)


def counts(answer):
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body["error"] is False and body["code"] == 201
    return tuple(body[k] for k in ("created", "errors", "empty", "updated", "ignored"))


def test_import_forms(sim, c):
    lines = '{"_key":"a","n":1}\n\n  \r\n{"_key":"b"}\n'
    assert counts(imported(sim, lines, type="documents")) == (2, 0, 2, 0, 0)
    assert counts(imported(sim, '[{"_key":"c"},{"_key":"d"}]', type="list")) == (2, 0, 0, 0, 0)
    assert counts(imported(sim, '[{"_key":"e"}]', type="array")) == (1, 0, 0, 0, 0)
    assert counts(imported(sim, '[{"_key":"f"}]', type="auto")) == (1, 0, 0, 0, 0)
    assert counts(imported(sim, '{"_key":"g"}', type="auto")) == (1, 0, 0, 0, 0)
    table = '["_key","n"]\n["h",1]\n\n["i",2]'
    assert counts(imported(sim, table)) == (2, 0, 1, 0, 0)
    assert c("GET", "/i").json()["n"] == 2
    assert counts(imported(sim, "")) == (0, 0, 0, 0, 0)
    refused(imported(sim, "[]", type="table"), 400, 10, "table")
    refused(imported(sim, "[1", type="array"), 400, 600)
    refused(imported(sim, '{"a":1}', type="array"), 400, 10)
    refused(imported(sim, '["a","a"]\n[1,2]'), 400, 10)
    refused(imported(sim, '"a"\n[1]'), 400, 10)
    refused(sim.request("POST", "/_api/import", data=""), 400, 1204)
    refused(sim.request("POST", "/_api/import?collection=none&type=list", data="[]"), 404, 1203)


def test_import_failures_are_counted(sim, c):
    c("POST", json={"_key": "a"})
    text = '{"_key":"a"}\n5\n{"_key":\n{"_key":"b"}\n{"_key":"/"}'
    body = imported(sim, text, type="documents", details=True).json()
    assert (body["created"], body["errors"]) == (1, 4)
    assert [d.split(":")[0] for d in body["details"]] == [f"at position {i}" for i in (1, 2, 3, 5)]
    assert "offending document: 5" in body["details"][1]
    assert "details" not in imported(sim, text, type="documents").json()
    short = imported(sim, '["_key","n"]\n["x"]\n["y",1,2]\n["z",1]\n{"_key":"w"}', details=1).json()
    assert (short["created"], short["errors"]) == (1, 3)
    assert counts(imported(sim, '["_key","n"]\n["x"]', ignoreMissing=True))[0] == 1


def test_complete_import_is_all_or_nothing(sim, c):
    c("POST", json=[{"_key": "a"}, {"_key": "old"}])
    refused(imported(sim, '[{"_key":"b"},{"_key":"a"}]', type="list", complete=True), 409, 1210, "position 2")
    refused(imported(sim, '{"_key":"b"}\n{', type="documents", complete=True), 400, 600, "position 2")
    refused(imported(sim, '[{"_key":"b"},7]', type="list", complete=True, overwrite=True), 400, 1227)
    assert c("GET", "/b").status_code == 404 and c("GET", "/old").status_code == 200
    assert counts(imported(sim, '[{"_key":"b"}]', type="list", complete=True, overwrite=True)) == (1, 0, 0, 0, 0)
    assert [c("GET", "/" + k).status_code for k in ("a", "b", "old")] == [404, 200, 404]


def test_import_on_duplicate(sim, c):
    c("POST", json={"_key": "a", "n": 1})
    two = '[{"_key":"a","m":2},{"_key":"%s"}]'
    assert counts(imported(sim, two % "b", type="list", onDuplicate="error")) == (1, 1, 0, 0, 0)
    assert counts(imported(sim, two % "c", type="list", onDuplicate="ignore")) == (1, 0, 0, 0, 1)
    assert "m" not in c("GET", "/a").json()
    assert counts(imported(sim, two % "d", type="list", onDuplicate="update")) == (1, 0, 0, 1, 0)
    assert c("GET", "/a").json()["n"] == 1 and c("GET", "/a").json()["m"] == 2
    assert counts(imported(sim, two % "e", type="list", onDuplicate="replace")) == (1, 0, 0, 1, 0)
    assert "n" not in c("GET", "/a").json()
    refused(imported(sim, "[]", type="list", onDuplicate="maybe"), 400, 10)


def test_import_prefixes(sim):
    assert sim.request("POST", "/_api/collection", json={"name": "knows", "type": 3}).status_code == 200
    edges = [{"_key": "1", "_from": "a", "_to": "b"}, {"_key": "2", "_from": "x/a", "_to": "y/b"}]

    def ends(key):
        e = sim.request("GET", f"/_api/document/knows/{key}").json()
        return e["_from"], e["_to"]

    for more, second in ({}, ("x/a", "y/b")), ({"overwriteCollectionPrefix": True}, ("p/a", "q/b")):
        done = sim.request("POST", "/_api/import", data=json.dumps(edges), params={
            "collection": "knows", "type": "list", "fromPrefix": "p", "toPrefix": "q/",
            "onDuplicate": "replace", **more})
        assert done.json()["errors"] == 0, done.text
        assert ends("1") == ("p/a", "q/b") and ends("2") == second
    assert sim.request("DELETE", "/_api/collection/knows").status_code == 200


# ---- collections ----

def test_collection_options(sim):
    def make(**body):
        return sim.request("POST", "/_api/collection", json=body)

    body = make(name="made", type=3, waitForSync=True, cacheEnabled=True, numberOfShards=3,
                replicationFactor=2, shardKeys=["_key"],
                keyOptions={"type": "autoincrement", "increment": 9, "offset": 100}).json()
    assert (body["type"], body["status"], body["isSystem"], body["waitForSync"]) == (3, 3, False, True)
    assert body["keyOptions"] == {"type": "autoincrement", "increment": 9, "offset": 100,
                                  "allowUserKeys": True}
    assert (body["numberOfShards"], body["replicationFactor"], body["shardKeys"]) == (3, 2, ["_key"])
    url = "/_api/collection/made"
    assert sim.request("GET", f"{url}/properties").json()["cacheEnabled"] is True
    changed = sim.request("PUT", f"{url}/properties", json={"waitForSync": False, "cacheEnabled": False})
    assert (changed.json()["waitForSync"], changed.json()["cacheEnabled"]) == (False, False)
    assert changed.json()["numberOfShards"] == 3
    refused(sim.request("PUT", f"{url}/properties", json={"type": 2}), 400, 10, "type")
    refused(make(name="made"), 409, 1207)
    refused(make(), 400, 1208)
    refused(make(name="_made"), 400, 1208)
    refused(make(name="a", isSystem=True), 400, 1208)
    refused(make(name="a", tpye=3), 400, 10, "tpye")
    refused(make(name="a", type=4), 400, 1218)
    refused(make(name="a", waitForSync="yes"), 400, 10)
    refused(make(name="a", schema={"rule": 1}), 400, 1621, "rule")
    refused(make(name="a", computedValues=[{}]), 400, 10, "name")
    refused(make(name="a", isVolatile=True), 501, 9)
    assert make(name="_made", isSystem=True).json()["isSystem"] is True
    names = [e["name"] for e in sim.request("GET", "/_api/collection").json()["result"]]
    assert {"made", "_made"} <= set(names)
    names = [e["name"] for e in sim.request("GET", "/_api/collection?excludeSystem=true").json()["result"]]
    assert "made" in names and "_made" not in names
    refused(sim.request("DELETE", "/_api/collection/_made"), 403, 11)
    assert sim.request("DELETE", "/_api/collection/_made?isSystem=true").status_code == 200
    assert sim.request("DELETE", url).status_code == 200
    refused(sim.request("GET", url), 404, 1203)


def test_collection_figures(sim, c):
    url = "/_api/collection/things"
    empty = sim.request("GET", f"{url}/checksum?withData=true&withRevisions=true").json()
    assert empty["checksum"] == "0"
    revision = sim.request("GET", f"{url}/revision").json()["revision"]
    c("POST", json=[{"_key": "a", "n": 1, "m": [1, {"x": 2}]}, {"_key": "b"}])

    def sums():
        return [sim.request("GET", f"{url}/checksum", params=p).json()["checksum"]
                for p in ({}, {"withData": True}, {"withRevisions": True}, {"withData": 1, "withRevisions": 1})]

    first = sums()
    assert len(set(first)) == 4 and sums() == first
    assert sim.request("GET", f"{url}/checksum?withRevision=1").json()["checksum"] == first[2]  # python-arango's name
    c("PUT", "/a", json={"m": [1, {"x": 2}], "n": 1})  # the same data, in another order
    second = sums()
    assert second[:2] == first[:2] and second[2] != first[2]
    c("PATCH", "/a", json={"n": 2})
    third = sums()
    assert third[0] == first[0] and third[1] != first[1]
    assert sim.request("GET", f"{url}/revision").json()["revision"] != revision
    assert sim.request("GET", f"{url}/count").json()["count"] == 2
    figures = sim.request("GET", f"{url}/figures?details=true").json()
    assert figures["count"] == 2 and figures["figures"]["indexes"]["count"] == 1
    assert figures["figures"]["engine"]["documents"] == 2
    assert "engine" not in sim.request("GET", f"{url}/figures").json()["figures"]
    assert sim.request("PUT", f"{url}/recalculateCount").json() == {
        "result": True, "count": 2, "error": False, "code": 200}
    for action in ("load", "unload", "compact", "loadIndexesIntoMemory"):
        assert sim.request("PUT", f"{url}/{action}").status_code == 200
    assert sim.request("PUT", f"{url}/truncate?waitForSync=true&compact=false").status_code == 200
    assert sim.request("GET", f"{url}/count").json()["count"] == 0
    assert sums() == ["0"] * 4
    assert set(sim.request("GET", "/_api/key-generators").json()["keyGenerators"]) == {
        "traditional", "autoincrement", "padded", "uuid"}


def test_renaming(sim):
    assert sim.request("POST", "/_api/collection", json={"name": "before"}).status_code == 200
    sim.request("POST", "/_api/document/before", json=[{"_key": "a", "n": 1}, {"_key": "b", "n": 2}])
    sim.request("POST", "/_api/index?collection=before", json={"type": "persistent", "fields": ["n"]})
    url = "/_api/collection/before/rename"
    refused(sim.request("PUT", url, json={"name": "a/b"}), 400, 1208)
    refused(sim.request("PUT", url, json={"name": "_after"}), 403, 11)
    refused(sim.request("PUT", url, json={"nmae": "after"}), 400, 10)
    assert sim.request("PUT", url, json={"name": "before"}).json()["name"] == "before"
    assert sim.request("POST", "/_api/collection", json={"name": "taken"}).status_code == 200
    refused(sim.request("PUT", url, json={"name": "taken"}), 409, 1207)
    assert sim.request("PUT", url, json={"name": "after"}).json()["name"] == "after"
    refused(sim.request("GET", "/_api/document/before/a"), 404, 1203)
    assert sim.request("GET", "/_api/document/after/a").json()["_id"] == "after/a"
    assert sim.rows("FOR d IN after SORT d.n RETURN d._id") == ["after/a", "after/b"]
    assert sim.rows("FOR d IN after FILTER d.n == 2 RETURN d._id") == ["after/b"]
    assert sim.rows("FOR d IN after FILTER d._id == 'after/b' RETURN d.n") == [2]
    assert sim.rows("RETURN DOCUMENT('after/a')._id") == ["after/a"]
    assert sim.rows("UPDATE 'a' WITH {m: 1} IN after RETURN [OLD._id, NEW._id]") == [["after/a", "after/a"]]
    refused(sim.request("POST", "/_api/index?collection=after",
                        json={"type": "persistent", "fields": ["_id"]}), 400, 10, "_id")
    assert sim.request("DELETE", "/_api/collection/after").status_code == 200


def test_asynchronous_requests_are_refused(sim):
    for wish in ("store", "true"):
        answer = sim.request("GET", "/_api/version", headers={"x-arango-async": wish})
        assert answer.status_code == 501 and "x-arango-async" in answer.text, answer.text
    assert sim.request("GET", "/_api/version", headers={"x-arango-async": "false"}).status_code == 200
