# SPDX-License-Identifier: Apache-2.0
"""Queries that run: listed, ended, profiled; what is kept of slow ones. Documents that expire."""
import concurrent.futures
import re
import time

import requests


def running(server, **options):
    answer = server.request("GET", "/_api/query/current", **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def wait_until(condition, limit_s=20):
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_list_and_kill(start):
    server = start({}, settings=["workers=4"])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        sleeping = pool.submit(server.request, "POST", "/_api/cursor", json={
            "query": "RETURN SLEEP(@s)", "bindVars": {"s": 60}}, timeout=90)
        busy = pool.submit(server.request, "POST", "/_api/cursor", json={
            "query": "FOR i IN 1..10000000 FOR k IN 1..10000000 FILTER i + k < 0 RETURN 1"}, timeout=90)
        listed = wait_until(lambda: [q for q in running(server)] if len(running(server)) == 2 else None)
        by_text = {q["query"]: q for q in listed}
        one = by_text["RETURN SLEEP(@s)"]
        assert one["bindVars"] == {"s": 60} and one["user"] == "root" and one["database"] == "_system"
        assert one["state"] == "executing" and one["runTime"] >= 0
        began = time.monotonic()
        for query in listed:
            assert server.request("DELETE", f"/_api/query/{query['id']}").status_code == 200
        for job in (sleeping, busy):
            answer = job.result()
            assert (answer.status_code, answer.json()["errorNum"]) == (410, 1500), answer.text
        assert time.monotonic() - began < 10
    assert running(server) == []
    answer = server.request("DELETE", "/_api/query/999999")
    assert (answer.status_code, answer.json()["errorNum"]) == (404, 1591)


def test_a_query_ends_with_its_client(start):
    server = start({})
    body = b'{"query": "FOR i IN 1..10000000 FOR k IN 1..10000000 FILTER i + k < 0 RETURN 1"}'
    with server.connect() as s:
        s.sendall(b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                  % len(body) + body)
        wait_until(lambda: running(server))
    wait_until(lambda: not running(server))


def test_slow_queries(start):
    server = start({})
    properties = server.request("GET", "/_api/query/properties").json()
    assert properties["enabled"] and properties["slowQueryThreshold"] == 10
    answer = server.request("PUT", "/_api/query/properties",
                            json={"slowQueryThreshold": 0.2, "maxSlowQueries": 2})
    assert answer.status_code == 200 and answer.json()["maxSlowQueries"] == 2
    for bad in ({"maxSlowQueries": -1}, {"slowQueryThreshold": "x"}, {"maxQueryStringLength": 1}):
        assert server.request("PUT", "/_api/query/properties", json=bad).status_code == 400
    server.rows("RETURN 1")
    for i in range(3):
        server.rows(f"RETURN [{i}, SLEEP(0.3)]")
    slow = server.request("GET", "/_api/query/slow").json()
    assert [q["query"] for q in slow] == ["RETURN [2, SLEEP(0.3)]", "RETURN [1, SLEEP(0.3)]"]
    assert slow[0]["runTime"] >= 0.3 and slow[0]["state"] == "finished"
    assert server.request("DELETE", "/_api/query/slow").status_code == 200
    assert server.request("GET", "/_api/query/slow").json() == []


def test_users_see_their_own_queries(start):
    server = start({}, settings=["auth=on"], env={"THEMIS_ROOT_PASSWORD": "secret"})
    root = ("root", "secret")

    def ask(method, path, auth, **options):
        return requests.request(method, server.url + path, auth=auth, timeout=60, **options)

    ask("POST", "/_api/database", root, json={"name": "d"})
    for name in ("a", "b"):  # rw on _system would make an administrator
        ask("POST", "/_api/user", root, json={"user": name, "passwd": "p"})
        ask("PUT", f"/_api/user/{name}/database/d", root, json={"grant": "rw"})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(ask, "POST", "/_db/d/_api/cursor", ("a", "p"), json={"query": "RETURN SLEEP(30)"})
        query = wait_until(lambda: ask("GET", "/_db/d/_api/query/current", ("a", "p")).json())[0]
        assert query["user"] == "a"
        assert ask("GET", "/_db/d/_api/query/current", ("b", "p")).json() == []
        assert ask("DELETE", f"/_db/d/_api/query/{query['id']}", ("b", "p")).json()["errorNum"] == 1591
        assert ask("GET", "/_db/d/_api/query/current?all=true", ("b", "p")).status_code == 403
        assert len(ask("GET", "/_api/query/current?all=true", root).json()) == 1
        assert ask("DELETE", f"/_api/query/{query['id']}?all=true", root).status_code == 200
        assert job.result().json()["errorNum"] == 1500


def test_profile(sim):
    sim.request("POST", "/_api/collection", json={"name": "profiled"})
    sim.rows("FOR i IN 1..100 INSERT {n: i} INTO profiled")
    text = "FOR d IN profiled FILTER d.n > 40 SORT d.n LIMIT 5 RETURN d.n"
    assert "profile" not in sim.aql(text)["extra"]
    first = sim.aql(text, options={"profile": 1})["extra"]
    assert list(first["profile"]) == ["initializing", "parsing", "optimizing plan",
                                      "instantiating executors", "executing"]
    assert all(seconds >= 0 for seconds in first["profile"].values())
    assert "nodes" not in first["stats"] and "plan" not in first
    second = sim.aql(text, options={"profile": 2})["extra"]
    nodes = {node["id"]: node for node in second["stats"]["nodes"]}
    types = {node["type"]: nodes[node["id"]] for node in second["plan"]["nodes"]}
    assert types["EnumerateCollectionNode"]["items"] == 60
    assert types["LimitNode"]["items"] == 5
    assert types["ReturnNode"]["runtime"] >= types["SortNode"]["runtime"] >= 0
    assert sim.request("POST", "/_api/cursor", json={
        "query": "RETURN 1", "options": {"profile": 3}}).status_code == 400


def test_rules(sim):
    rules = sim.request("GET", "/_api/query/rules").json()
    names = [rule["name"] for rule in rules]
    assert "use-indexes" in names and "use-geo-indexes" in names
    assert all(rule["flags"]["canBeDisabled"] for rule in rules)


def test_rules_are_switched(sim):
    sim.request("POST", "/_api/collection", json={"name": "ruled"})
    sim.request("POST", "/_api/index?collection=ruled", json={"type": "persistent", "fields": ["n"]})
    sim.rows("FOR i IN 1..20 INSERT {n: i} INTO ruled")
    text = "FOR d IN ruled FILTER d.n == 7 RETURN d.n"

    def explain(*rules):
        answer = sim.request("POST", "/_api/explain", json={
            "query": text, "options": {"optimizer": {"rules": list(rules)}}})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def run(*rules):
        return sim.aql(text, options={"optimizer": {"rules": list(rules)}})

    def types(*rules):
        return [node["type"] for node in explain(*rules)["plan"]["nodes"]]

    assert "IndexNode" in types() and "IndexNode" in types("+all")
    assert explain("-all")["plan"]["rules"] == [] and "IndexNode" not in types("-all")
    assert explain("-all", "+move-filters-into-enumerate", "use-indexes")["plan"]["rules"] == [
        "move-filters-into-enumerate", "use-indexes"]
    assert "IndexNode" not in types("-use-indexes") and "IndexNode" in types("-use-indexes", "+all")
    assert run("-all")["extra"]["stats"]["scannedFull"] == 20
    assert run()["extra"]["stats"]["scannedFull"] == 0
    assert run("-all")["result"] == run()["result"] == [7]

    # ArangoDB runs a query that names a rule it does not know; here it is told, too.
    for answer in (explain("-no-such-rule", "+use-indexes"), run("-no-such-rule")["extra"]):
        assert [w["code"] for w in answer["warnings"]] == [1575]
        assert "no-such-rule" in answer["warnings"][0]["message"]
    assert explain("+use-indexes")["warnings"] == []
    for optimizer in ("off", [], {"rules": "-all"}, {"rules": [7]}, {"rules": ["-all"] * 201}):
        for path in ("/_api/cursor", "/_api/explain"):
            answer = sim.request("POST", path, json={"query": text, "options": {"optimizer": optimizer}})
            assert answer.status_code == 400 and "optimizer" in answer.json()["errorMessage"], answer.text


def test_documents_expire(start):
    server = start({}, settings=["ttl_interval_ms=200"])
    server.request("POST", "/_api/collection", json={"name": "t"})
    now = time.time()
    past, future = "2001-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"
    docs = [{"_key": "old", "at": now - 100}, {"_key": "young", "at": now + 3600},
            {"_key": "text", "at": past}, {"_key": "later", "at": future},
            {"_key": "none"}, {"_key": "word", "at": "1 word"}, {"_key": "flag", "at": True}]
    assert server.request("POST", "/_api/document/t", json=docs).status_code == 202
    for bad in ({"fields": ["at"]}, {"fields": ["at"], "expireAfter": -1},
                {"fields": ["a", "b"], "expireAfter": 1}):
        assert server.request("POST", "/_api/index?collection=t",
                              json={"type": "ttl", **bad}).status_code == 400
    answer = server.request("POST", "/_api/index?collection=t",
                            json={"type": "ttl", "fields": ["at"], "expireAfter": 10})
    assert answer.status_code == 201 and answer.json()["expireAfter"] == 10, answer.text
    wait_until(lambda: server.rows("RETURN LENGTH(t)") == [5])
    time.sleep(0.5)
    assert sorted(server.rows("FOR d IN t RETURN d._key")) == ["flag", "later", "none", "word", "young"]
    server.rows(f"INSERT {{_key: 'soon', at: {now - 9}}} INTO t")
    wait_until(lambda: server.rows("RETURN LENGTH(t)") == [5])


def test_wide_ranges_are_scanned(sim):
    sim.request("POST", "/_api/collection", json={"name": "wide"})
    sim.request("POST", "/_api/index?collection=wide", json={
        "type": "persistent", "fields": ["n"], "storedValues": ["s"]})
    sim.rows("FOR i IN 1..3000 INSERT {n: i, s: i % 7, t: 'text'} INTO wide")

    def node(text):
        answer = sim.request("POST", "/_api/explain", json={"query": text})
        assert answer.status_code == 200, answer.text
        return [n["type"] for n in answer.json()["plan"]["nodes"]][1]

    assert node("FOR d IN wide FILTER d.n > 2990 RETURN d.t") == "IndexNode"
    assert node("FOR d IN wide FILTER d.n > 10 RETURN d.t") == "EnumerateCollectionNode"
    assert node("FOR d IN wide FILTER d.n > 10 RETURN d.s") == "IndexNode"  # without documents
    assert node("FOR d IN wide FILTER d.n > 10 SORT d.n LIMIT 3 RETURN d.t") == "IndexNode"
    assert node("FOR d IN wide FILTER d.n > 10 OR d.n < 5 RETURN d.t") == "EnumerateCollectionNode"
    assert node("FOR d IN wide FILTER d.n IN [1, 2, 3] RETURN d.t") == "IndexNode"
    hint = "FOR d IN wide OPTIONS {indexHint: '%s'} FILTER d.n > 10 RETURN d.t"
    name = [i["name"] for i in sim.request("GET", "/_api/index?collection=wide").json()["indexes"]
            if i["type"] == "persistent"][0]
    assert node(hint % name) == "IndexNode"
    for text in ("d.n > 10", "d.n > 2990"):
        assert sim.rows(f"FOR d IN wide FILTER {text} COLLECT WITH COUNT INTO c RETURN c") == [
            3000 - int(text.split()[-1])]


def held_bytes(server):
    return int(re.search(r"^themis_query_memory_bytes (\d+)$", server.request("GET", "/metrics").text, re.M)[1])


def test_running_queries_share_one_limit(start, tmp_path):
    """One that holds much makes room only by its end; what needs next to nothing is served meanwhile."""
    query = ("LET a = (FOR i IN 1..200000 RETURN CONCAT(@x, i)) LET s = SLEEP(@s) "
             "RETURN LENGTH(a) + LENGTH(a[@s])")
    bind = {"x": "x" * 50, "s": 0}
    first = start({})
    peak = first.aql(query, bindVars=bind)["extra"]["stats"]["peakMemoryUsage"]
    first.stop()
    assert peak > 10_000_000
    server = start({}, settings=["workers=4", f"query_total_mb={int(1.25 * peak) >> 20}"], data="small")
    def ask(seconds):
        return server.request("POST", "/_api/cursor", json={"query": query, "bindVars": {**bind, "s": seconds}}, timeout=900)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        held = []
        try:
            for _ in range(4):  # each keeps its array while it sleeps: not all of them fit
                held.append(pool.submit(ask, 600))
                wait_until(lambda: sum(not h.done() for h in held) == len(running(server)) and (
                    held[-1].done() or held_bytes(server) > peak // 3 * len(running(server))), 120)
            refused = [h.result().json() for h in held if h.done()]
            assert 0 < len(refused) < 4
            assert all(r["errorNum"] == 32 and "query_total_mb" in r["errorMessage"] for r in refused), refused
            assert server.rows("FOR i IN 1..1000 RETURN i") == list(range(1, 1001))
        finally:
            for q in running(server):
                server.request("DELETE", f"/_api/query/{q['id']}")
        assert {h.result(timeout=120).status_code for h in held} == {410, 500}
    assert server.aql(query, bindVars=bind)["result"] == [200051]


def test_memory_that_cannot_be(start):
    refused = start({}, settings=["memory_budget_mb=500"], is_ready=False)
    assert refused.process.wait(60) == 2 and "memory_budget_mb=500 is too small" in refused.log(), refused.log()
    server = start({}, settings=["query_total_mb=16000000"])
    assert "query_total_mb" in server.log() and "together, but there are" in server.log()
    server.stop()
    server = start({}, settings=["memory_budget_mb=1000"])
    assert "together, but there are" not in server.log()
