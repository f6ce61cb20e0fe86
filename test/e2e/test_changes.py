# SPDX-License-Identifier: Apache-2.0
"""The change feed: who reads all of it has the database, also when the node is killed in between."""
import json
import random
import socket
import threading
import time

import pytest
import requests
from conftest import Server, SIM_MODELS, asan_server


def get(server, path="", **params):
    options = {k: params.pop(k) for k in ("auth", "headers", "stream", "timeout") if k in params}
    return server.request("GET", "/_api/changes" + path, params=params, **options)


def poll(server, after, **params):
    answer = get(server, after=after, **params)
    assert answer.status_code == 200, answer.text
    return answer.json()


class Copy:
    """A database as a consumer of the feed knows it."""

    def __init__(self):
        self.collections = {}  # name -> {"documents": {}, "indexes": {id: definition}, "type": 2}
        self.at = 0

    def load(self, lines):
        begin = json.loads(next(lines))
        assert begin["type"] == "snapshot"
        self.collections, self.at = {}, begin["sequence"]
        for line in lines:
            row = json.loads(line)
            if row["type"] == "document":
                self.collections[row["collection"]]["documents"][row["document"]["_key"]] = row["document"]
            elif row["type"] == "collection":
                self.create(row)
            else:
                assert row["type"] == "end" and row["collections"] == len(self.collections)
                assert row["documents"] == sum(len(c["documents"]) for c in self.collections.values())
                return begin
        raise AssertionError("the snapshot has no end")

    def create(self, row):
        self.collections[row["collection"]] = {
            "documents": {}, "type": row["properties"]["type"],
            "indexes": {i["id"].split("/")[1]: i["definition"] for i in row.get("indexes", [])}}

    def apply(self, transaction):
        assert transaction["sequence"] > self.at
        for change in transaction["changes"]:
            kind, name = change["type"], change.get("collection")
            if kind == "put":
                assert change["document"]["_id"] == f"{name}/{change['key']}"
                self.collections[name]["documents"][change["key"]] = change["document"]
            elif kind == "remove":
                del self.collections[name]["documents"][change["key"]]
            elif kind == "createCollection":
                assert name not in self.collections
                self.create(change)
            elif kind == "dropCollection":
                del self.collections[name]
            elif kind == "truncateCollection":
                self.collections[name]["documents"] = {}
            elif kind == "renameCollection":
                self.collections[name] = renamed = self.collections.pop(change["oldName"])
                for key, document in renamed["documents"].items():
                    document["_id"] = f"{name}/{key}"
            elif kind == "createIndex":
                self.collections[name]["indexes"][change["index"]["id"].split("/")[1]] = change["index"]["definition"]
            elif kind == "dropIndex":
                self.collections[name]["indexes"].pop(change["index"]["id"].split("/")[1])
            else:
                assert kind == "setCollection", change
        self.at = transaction["sequence"]

    def compare(self, server):
        listed = server.request("GET", "/_api/collection").json()["result"]
        assert {c["name"]: c["type"] for c in listed} == {n: c["type"] for n, c in self.collections.items()}
        for name, mine in self.collections.items():
            theirs = {d["_key"]: d for d in server.rows(f"FOR d IN `{name}` RETURN d")}
            assert theirs == mine["documents"], name
            indexes = server.request("GET", f"/_api/index?collection={name}").json()["indexes"]
            assert ({i["id"].split("/")[1]: i["fields"] for i in indexes if i["type"] not in ("primary", "edge")}
                    == {k: i["fields"] for k, i in mine["indexes"].items()})


class Busy(threading.Thread):
    """Writes of all kinds, until stopped; errors of a node that is killed are taken."""

    def __init__(self, where, seed):
        super().__init__(daemon=True)
        self.where, self.random, self.stop, self.count = where, random.Random(seed), threading.Event(), 0

    def call(self, method, path, body=None, **headers):
        return requests.request(method, self.where["url"] + path, json=body, timeout=60,
                                headers={k.replace("_", "-"): v for k, v in headers.items()}).json()

    def run(self):
        while not self.stop.is_set():
            try:
                self.step(self.random.randrange(10))
                self.count += 1
            except requests.RequestException:
                time.sleep(0.05)

    def step(self, kind):
        key, n = f"k{self.random.randrange(40)}", self.random.randrange(1000)
        mine = f"own_{self.name}"
        if kind < 3:
            self.call("POST", "/_api/document/pairs?overwriteMode=replace", {"_key": key, "n": n, "text": "x" * n})
        elif kind == 3:
            self.call("DELETE", f"/_api/document/pairs/{key}")
        elif kind == 4:  # left and right are equal in every state that a client may see
            self.call("POST", "/_api/cursor", {"query": "FOR s IN ['left', 'right'] INSERT {_key: s, n: @n} INTO twins "
                                               "OPTIONS {overwriteMode: 'replace'}", "bindVars": {"n": n}})
        elif kind == 5:
            self.call("POST", "/_api/document/links?overwriteMode=replace",
                      {"_key": key, "_from": f"pairs/{n % 9}", "_to": f"pairs/{n % 7}"})
        elif kind == 6:
            self.call("DELETE", f"/_api/document/links/{key}")
        elif kind == 7:
            self.call("POST", "/_api/collection", {"name": mine})
            self.call("POST", f"/_api/document/{mine}", [{"n": i} for i in range(5)])
            self.call("POST", f"/_api/index?collection={mine}", {"type": "persistent", "fields": ["n", f"f{n % 3}"]})
        elif kind == 8:
            self.call("PUT", f"/_api/collection/{mine}/truncate")
            for index in self.call("GET", f"/_api/index?collection={mine}").get("indexes", []):
                if index["type"] == "persistent" and n % 2:
                    self.call("DELETE", f"/_api/index/{index['id']}")
        elif n % 3 == 0:
            self.call("PUT", f"/_api/collection/{mine}/rename", {"name": f"{mine}_{n}"})
        else:
            names = [c["name"] for c in self.call("GET", "/_api/collection")["result"]]
            for name in names:
                if name.startswith(mine):
                    self.call("DELETE", f"/_api/collection/{name}")


class Follower(threading.Thread):
    """Keeps a copy by long poll, over deaths of the node."""

    def __init__(self, where, copy):
        super().__init__(daemon=True)
        self.where, self.copy, self.stop, self.wrong = where, copy, threading.Event(), None

    def run(self):
        while not self.stop.is_set():
            try:
                answer = requests.get(self.where["url"] + "/_api/changes", timeout=60, params={
                    "after": self.copy.at, "wait_ms": 500, "max_bytes": 20000, "history": self.where["history"]})
                assert answer.status_code == 200, answer.text
                self.take(answer.json())
            except requests.RequestException:
                time.sleep(0.02)
            except Exception as error:  # pylint: disable=broad-except
                self.wrong = error
                return

    def take(self, page):
        for transaction in page["transactions"]:
            self.copy.apply(transaction)
            twins = self.copy.collections.get("twins", {"documents": {}})["documents"]
            assert {d["n"] for d in twins.values()} == {d["n"] for d in list(twins.values())[:1]}, "half a transaction"
            assert len(twins) in (0, 2)
        assert page["sequence"] >= self.copy.at
        self.copy.at = page["sequence"]


def test_a_copy_follows_over_kills(start):
    server = start()
    for name, kind in (("pairs", 2), ("twins", 2), ("links", 3)):
        server.request("POST", "/_api/collection", json={"name": name, "type": kind})
    where = {"url": server.url, "history": get(server, "/state").json()["history"]}
    late, copy = Copy(), Copy()
    follower = Follower(where, copy)
    follower.start()
    busy = [Busy(where, seed) for seed in range(4)]
    for thread in busy:
        thread.start()
    for round_ in range(3):
        time.sleep(2.5)
        if round_ == 1:  # a second one begins in the middle
            answer = get(server, "/snapshot", stream=True)
            late.load(answer.iter_lines())
        server.kill()
        server = start()
        where["url"] = server.url
        assert get(server, "/state").json()["history"] == where["history"]
    time.sleep(1)
    for thread in busy:
        thread.stop.set()
    for thread in busy:
        thread.join()
    assert sum(thread.count for thread in busy) > 100
    last = get(server, "/state").json()["last"]
    end = time.monotonic() + 60
    while copy.at < last and not follower.wrong and time.monotonic() < end:
        time.sleep(0.05)
    follower.stop.set()
    follower.join()
    assert not follower.wrong, repr(follower.wrong)
    assert copy.at == last
    copy.compare(server)
    for transaction in poll(server, late.at, max_bytes=1 << 26)["transactions"]:
        late.apply(transaction)
    late.compare(server)


def test_too_late_and_of_another_history(start):
    server = start(settings=["change_log_mb=1"])
    server.request("POST", "/_api/collection", json={"name": "c"})
    state = get(server, "/state").json()
    assert state["isOn"] and state["first"] == 1 and state["last"] >= 1
    server.aql("FOR i IN 1..30 INSERT {_key: TO_STRING(i)} INTO c")
    for i in range(25):
        server.request("PUT", "/_api/document/c/1", json={"text": f"{i}" + random.Random(i).randbytes(60000).hex()})
    answer = get(server, after=0)
    assert answer.status_code == 410
    assert answer.json()["errorNum"] == 1415
    assert "/_api/changes/snapshot" in answer.json()["errorMessage"] and "after=" in answer.json()["errorMessage"]
    with get(server, "/snapshot", stream=True) as answer:
        copy = Copy()
        begin = copy.load(answer.iter_lines())
    server.aql("FOR d IN c FILTER d._key > '20' REMOVE d IN c")
    for transaction in poll(server, begin["sequence"], history=begin["history"])["transactions"]:
        copy.apply(transaction)
    copy.compare(server)
    for after, history in ((1 << 40, begin["history"]), (begin["sequence"], "0123456789abcdef")):
        answer = get(server, after=after, history=history)
        assert answer.status_code == 410 and answer.json()["errorNum"] == 1415, answer.text


def test_pages_and_filters(sim):
    for name in ("one", "two"):
        sim.request("POST", "/_api/collection", json={"name": name})
    begin = get(sim, "/state").json()["last"]
    for i in range(20):
        sim.request("POST", f"/_api/document/{'one' if i % 2 else 'two'}", json={"i": i, "text": "y" * 2000})
    seen, at, pages = [], begin, 0
    while True:
        page = poll(sim, at, max_bytes=5000)
        if not page["transactions"]:
            break
        pages += 1
        assert len(page["transactions"]) <= 3
        seen += [c["document"]["i"] for t in page["transactions"] for c in t["changes"]]
        at = page["sequence"]
    assert seen == list(range(20)) and pages >= 7
    only = poll(sim, begin, collections="one")
    assert [c["document"]["i"] for t in only["transactions"] for c in t["changes"]] == list(range(1, 20, 2))
    assert only["sequence"] == at
    assert all(t["time"].endswith("Z") for t in only["transactions"])
    none = poll(sim, begin, collections="nothing")
    assert none["transactions"] == [] and none["sequence"] == at
    assert poll(sim, at)["transactions"] == []
    assert get(sim).json()["sequence"] == at  # without a position: from now on


def test_one_large_transaction_is_whole(sim):
    sim.request("POST", "/_api/collection", json={"name": "large"})
    begin = get(sim, "/state").json()["last"]
    sim.aql("FOR i IN 1..20000 INSERT {_key: TO_STRING(i), text: REPEAT('z', 500)} INTO large"
            .replace("REPEAT('z', 500)", "CONCAT('" + "z" * 500 + "', i)"))
    page = poll(sim, begin, max_bytes=1)
    assert len(page["transactions"]) == 1 and len(page["transactions"][0]["changes"]) == 20000
    keys = {int(c["key"]) for c in page["transactions"][0]["changes"]}
    assert keys == set(range(1, 20001))


def test_a_poll_waits_for_a_commit(sim):
    sim.request("POST", "/_api/collection", json={"name": "waited"})
    at = get(sim, "/state").json()["last"]
    begin = time.monotonic()
    assert poll(sim, at, wait_ms=700)["transactions"] == []
    assert 0.6 < time.monotonic() - begin < 5
    answers = []
    thread = threading.Thread(target=lambda: answers.append(poll(sim, at, wait_ms=30000)))
    thread.start()
    time.sleep(0.5)
    assert not answers
    begin = time.monotonic()
    sim.request("POST", "/_api/document/waited", json={"_key": "k"})
    thread.join()
    assert time.monotonic() - begin < 5
    assert answers[0]["transactions"][0]["changes"][0]["key"] == "k"


def events(lines):
    event = {}
    for line in lines:
        line = line.decode()
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name] = json.loads(value) if name == "data" else value


def test_events_and_resuming_them(sim):
    sim.request("POST", "/_api/collection", json={"name": "events"})
    at = get(sim, "/state").json()["last"]
    accept = {"Accept": "text/event-stream"}
    with get(sim, after=at, headers=accept, stream=True) as answer:
        assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        stream = events(answer.iter_lines(chunk_size=1))
        first = next(stream)
        assert first["event"] == "position" and first["data"]["sequence"] == at
        for i in range(3):
            sim.request("POST", "/_api/document/events", json={"i": i})
            event = next(stream)
            assert event["event"] == "transaction" and event["data"]["sequence"] == int(event["id"])
            assert event["data"]["changes"][0]["document"]["i"] == i
    for i in range(3, 6):
        sim.request("POST", "/_api/document/events", json={"i": i})
    with get(sim, after=0, headers={**accept, "Last-Event-ID": event["id"]}, stream=True) as answer:
        stream = (e for e in events(answer.iter_lines(chunk_size=1)) if e["event"] == "transaction")
        assert [next(stream)["data"]["changes"][0]["document"]["i"] for _ in range(3)] == [3, 4, 5]


def test_bad_parameters(sim):
    for params in ({"after": "x"}, {"after": "-1"}, {"wait_ms": "300001"}, {"max_bytes": "1e3"},
                   {"collections": "a,,b"}, {"collections": ",".join(f"c{i}" for i in range(101))},
                   {"since": "1"}):
        answer = get(sim, **params)
        assert answer.status_code == 400 and answer.json()["errorNum"] == 10, params
    assert sim.request("GET", "/_db/nowhere/_api/changes").json()["errorNum"] == 1228
    assert sim.request("POST", "/_api/changes").status_code == 405


def test_the_log_can_be_off(start):
    server = start(settings=["change_log=off"])
    server.request("POST", "/_api/collection", json={"name": "c"})
    answer = get(server, after=0)
    assert answer.status_code == 400 and "change_log" in answer.json()["errorMessage"]
    assert not get(server, "/state").json()["isOn"]
    with get(server, "/snapshot", stream=True) as answer:
        Copy().load(answer.iter_lines())
    answer = server.request("POST", "/_api/document/c", json={"_key": "a"})
    assert answer.status_code == 202
    server.kill()
    server = start(settings=["change_log=on"])
    assert server.rows("FOR d IN c RETURN d._key") == ["a"]
    assert get(server, after=0).status_code == 410


def test_followers_are_limited_and_end_with_the_node(start):
    server = start(settings=["max_change_feeds=2"])
    at = get(server, "/state").json()["last"]
    ends = []

    def follow(accept):
        with get(server, after=at, wait_ms=60000, headers={"Accept": accept}, stream=True) as answer:
            ends.append((answer.status_code, answer.content.decode()))

    threads = [threading.Thread(target=follow, args=(accept,)) for accept in ("application/json", "text/event-stream")]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while "themis_change_feeds 2" not in server.request("GET", "/metrics").text and time.monotonic() < end:
        time.sleep(0.05)
    answer = get(server, after=at)
    assert answer.status_code == 503 and "max_change_feeds" in answer.json()["errorMessage"]
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 15
    for thread in threads:
        thread.join()
    assert [status for status, _ in ends] == [200, 200]
    assert any(json.loads(body)["transactions"] == [] for _, body in ends if body.startswith("{"))


def test_a_client_that_does_not_read(start):
    """It costs its own buffer and no worker: others are served."""
    server = start(settings=["workers=2"])
    server.request("POST", "/_api/collection", json={"name": "c"})
    at = get(server, "/state").json()["last"]
    sockets = []
    for _ in range(6):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(f"GET /_api/changes?after={at} HTTP/1.1\r\nHost: localhost\r\n"
                     "Accept: text/event-stream\r\n\r\n".encode())
        sockets.append(sock)
    for i in range(30):
        answer = server.request("POST", "/_api/document/c", json={"i": i, "text": "w" * 500000}, timeout=30)
        assert answer.status_code == 202
    begin = time.monotonic()
    assert server.rows("RETURN 1") == [1]
    assert time.monotonic() - begin < 10
    for sock in sockets:
        sock.close()


def read_reply(sock):
    """Status and body of a chunked reply, to its end or to that of its first transaction as an event."""
    with sock.makefile("rb") as stream:
        status = stream.readline()
        while stream.readline().strip():
            pass
        body = bytearray()
        while size := int(stream.readline() or b"0", 16):
            body += stream.read(size)
            stream.readline()
            if body.endswith(b"]}\n\n") and b"event: transaction" in body:
                break
        return status, bytes(body)


@pytest.mark.parametrize("path,accept", [("?after={at}", "text/event-stream"), ("?after={at}&max_bytes=67108864", "*/*"),
                                         ("/snapshot", "*/*")])
def test_a_large_transaction_and_clients_that_do_not_read(start, path, accept):
    """One commit of 24 MB: while nobody reads it, no worker and no turn to write is held."""
    server = start(settings=["workers=2", "body_timeout_ms=600000", "change_log_mb=256"])
    server.request("POST", "/_api/collection", json={"name": "c"})
    at = get(server, "/state").json()["last"]
    count, text = 6000, "w" * 4000
    server.aql(f"FOR i IN 1..{count} INSERT {{_key: TO_STRING(i), text: @t}} INTO c", bindVars={"t": text})
    sockets = []
    for i in range(6):
        sock = socket.create_connection(("127.0.0.1", server.port))
        if i:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(120)
        sock.sendall(f"GET /_api/changes{path.format(at=at)} HTTP/1.1\r\nHost: localhost\r\n"
                     f"Accept: {accept}\r\n\r\n".encode())
        sockets.append(sock)
    for sock in sockets:
        assert sock.recv(1, socket.MSG_PEEK)  # each has begun
    # whoever reads gets all of it, as often as he likes
    for _ in range(3):
        page = poll(server, at, max_bytes=1, timeout=120)
        assert [c["key"] for c in page["transactions"][0]["changes"]] and len(page["transactions"]) == 1
        assert len(page["transactions"][0]["changes"]) == count
        assert server.rows("RETURN LENGTH(c)") == [count]
    # and one that begins to read now, too: whole and in order
    status, body = read_reply(sockets[0])
    assert b" 200 " in status
    if path == "/snapshot":
        lines = [json.loads(line) for line in body.splitlines()]
        assert lines[-1]["type"] == "end" and lines[-1]["documents"] >= count
        assert sum(line["type"] == "document" and line["collection"] == "c" for line in lines) == count
    else:
        data = next(json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {\"sequence")) \
            if accept.startswith("text") else json.loads(body)["transactions"][0]
        assert sorted(int(c["key"]) for c in data["changes"]) == list(range(1, count + 1))
        assert all(c["document"]["text"] == text for c in data["changes"])
    for sock in sockets:
        sock.close()


def test_rights_hold_for_each_collection_and_moment(tmp_path):
    server = Server(asan_server(), tmp_path / "data", SIM_MODELS, settings=["auth=true"],
                    env={"THEMIS_ROOT_PASSWORD": "root password"}).wait_ready()
    root, ann = ("root", "root password"), ("ann", "pw")

    def call(method, path, body=None, auth=root):
        answer = server.request(method, path, json=body, auth=auth)
        assert answer.status_code < 300, answer.text
        return answer.json()

    try:
        call("POST", "/_api/database", {"name": "shop"})
        call("POST", "/_api/user", {"user": "ann", "passwd": "pw"})
        call("PUT", "/_api/user/ann/database/shop", {"grant": "ro"})
        for name in ("open", "secret"):
            call("POST", "/_db/shop/_api/collection", {"name": name})
        call("PUT", "/_api/user/ann/database/shop/*", {"grant": "ro"})
        call("PUT", "/_api/user/ann/database/shop/secret", {"grant": "none"})
        base = "/_db/shop/_api/changes"
        at = server.request("GET", base + "/state", auth=ann).json()["last"]
        assert server.request("GET", base, auth=("ann", "wrong")).status_code == 401
        assert server.request("GET", "/_api/changes", auth=ann).status_code == 401
        for name in ("open", "secret", "open"):
            call("POST", f"/_db/shop/_api/document/{name}", {"in": name})
        page = server.request("GET", f"{base}?after={at}", auth=ann).json()
        assert [c["collection"] for t in page["transactions"] for c in t["changes"]] == ["open", "open"]
        both = server.request("GET", f"{base}?after={at}", auth=root).json()
        assert [c["collection"] for t in both["transactions"] for c in t["changes"]] == ["open", "secret", "open"]
        assert server.request("GET", f"{base}?collections=secret", auth=ann).status_code == 403
        lines = server.request("GET", base + "/snapshot", auth=ann).text
        assert '"open"' in lines and "secret" not in lines
        with server.request("GET", f"{base}?after={at}", auth=ann, stream=True,
                            headers={"Accept": "text/event-stream"}) as answer:
            stream = events(answer.iter_lines(chunk_size=1))
            got = [next(stream) for _ in range(2)]
            assert [e["event"] for e in got] == ["transaction", "transaction"]
            call("PUT", "/_api/user/ann/database/shop/secret", {"grant": "ro"})
            call("PUT", "/_api/user/ann/database/shop/open", {"grant": "none"})
            call("POST", "/_db/shop/_api/document/open", {"in": "hidden"})
            call("POST", "/_db/shop/_api/document/secret", {"in": "shown"})
            event = next(e for e in stream if e["event"] == "transaction")
            assert event["data"]["changes"][0]["document"]["in"] == "shown"
            call("PUT", "/_api/user/ann/database/shop", {"grant": "none"})
            call("POST", "/_db/shop/_api/document/secret", {"in": "later"})
            event = next(e for e in stream if e["event"] != "position")
            assert event["event"] == "error" and event["data"]["code"] == 401
    finally:
        server.stop()
