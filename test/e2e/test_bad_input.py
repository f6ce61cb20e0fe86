# SPDX-License-Identifier: Apache-2.0
"""Requests that are wrong, hostile or cut off: right answer, and the server lives. Under ASan."""
import concurrent.futures
import json
import random
import re
import socket
import struct
import time

import pytest

BIG = 100 * 1024 * 1024


@pytest.fixture(autouse=True)
def lives(sim):
    """After each test the same process answers."""
    yield
    assert sim.is_alive(), sim.log()[-8000:]
    assert sim.request("GET", "/livez").status_code == 200


@pytest.fixture(scope="module")
def things(sim):
    answer = sim.request("POST", "/_api/collection", json={"name": "things"})
    assert answer.status_code == 200, answer.text
    sim.request("POST", "/_api/document/things", json=[{"_key": f"k{i}", "n": i} for i in range(10)])
    return "things"


def check(answer, status, num=None, *words):
    """An error in ArangoDB's form."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["error"] is True
    assert body["code"] == status
    if num is not None:
        assert body["errorNum"] == num, body
    for word in words:
        assert word.lower() in body["errorMessage"].lower(), body
    return body


def check_openai(answer, status, *words):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    for word in words:
        assert word.lower() in error["message"].lower(), error
    return error


def exchange(sim, data, *, half_close=False):
    """Sends bytes, reads until the server closes or 64 KiB."""
    with sim.connect() as s:
        s.settimeout(20)
        try:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        got = b""
        try:
            while len(got) < 65536 and (piece := s.recv(65536)):
                got += piece
        except ConnectionResetError:
            pass
        return got


def status_line(got):
    return int(got.split(b" ", 2)[1]) if got.startswith(b"HTTP/1.1 ") else None


def host(sim):
    return f"Host: 127.0.0.1:{sim.port}\r\n".encode()


# ---- JSON ----

@pytest.mark.parametrize("text", ['{"a":', '{"a" 1}', "{'a':1}", "[1,]", "nul", '{"a":01}', '"\\x"',
                                  '{"a":1}x', "", '{"a":1e}', '["\\ud800"]', "\0"])
def test_broken_json(sim, things, text):
    answer = sim.request("POST", "/_api/cursor", data=text.encode())
    body = check(answer, 400, 600)
    if text:
        assert any(c.isdigit() for c in body["errorMessage"]), body  # where
    if text:
        check(sim.request("POST", "/_api/document/things", data=text.encode()), 400, 600)


def test_position_of_json_error(sim, things):
    text = '{\n  "query": "RETURN 1",\n  "bindVars": oops\n}'
    body = check(sim.request("POST", "/_api/cursor", data=text), 400, 600)
    assert str(text.index("oops")) in body["errorMessage"] or "3" in body["errorMessage"], body


def test_too_deep(sim, things):
    for text in ("[" * 10000 + "]" * 10000, '{"a":' * 10000 + "1" + "}" * 10000, "[" * 10000,
                 "[" * 3_000_000):
        check(sim.request("POST", "/_api/document/things", data=text), 400)
        check(sim.request("POST", "/_api/cursor", data=text), 400)
    deep = json.dumps({"a": 0}).replace("0", "[" * 150 + "]" * 150)
    assert sim.request("POST", "/_api/document/things", data=deep).status_code == 202
    nested = "RETURN " + "(" * 10000 + "1" + ")" * 10000
    check(sim.request("POST", "/_api/cursor", json={"query": nested}), 400, None, "nest")


def test_wrong_types(sim, things):
    cases = [
        ("POST", "/_api/cursor", {"query": 5}, 1502),
        ("POST", "/_api/cursor", {}, 1502),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "bindVars": 5}, None),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "batchSize": -1}, 10),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "batchSize": 0}, 10),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "batchSize": "2"}, 10),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "batchSize": 1e300}, 10),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "ttl": -1}, 10),
        ("POST", "/_api/cursor", {"query": "RETURN 1", "memoryLimit": -5}, 10),
        ("POST", "/_api/cursor", {"query": "FOR d IN @@c RETURN d", "bindVars": {"@c": 5}}, 1553),
        ("POST", "/_api/cursor", [], 600),
        ("POST", "/_api/cursor", "RETURN 1", 600),
        ("POST", "/_api/collection", {"name": 5}, 1208),
        ("POST", "/_api/collection", {"name": "a b/c"}, 1208),
        ("POST", "/_api/collection", {"name": "x" * 5000}, 1208),
        ("POST", "/_api/collection", {"name": "t", "type": 7}, 1218),
        ("POST", "/_api/document/things", 5, 1227),
        ("POST", "/_api/document/things", {"_key": 5}, 1221),
        ("POST", "/_api/document/things", {"_key": "a/b"}, 1221),
        ("POST", "/_api/document/things", {"_key": "x" * 300}, 1221),
        ("POST", "/_api/index?collection=things", {"type": "nothing", "fields": ["a"]}, None),
        ("POST", "/_api/index?collection=things", {"type": "persistent", "fields": "a"}, None),
        ("POST", "/_api/index?collection=things", {"type": "persistent", "fields": []}, None),
        ("POST", "/_api/index?collection=things", {"type": "persistent", "fields": [5]}, None),
        ("POST", "/_api/index", {"type": "persistent", "fields": ["a"]}, 1204),
        ("POST", "/_api/database", {"name": 5}, None),
        ("POST", "/_api/explain", {"query": []}, 1502),
        ("PATCH", "/_api/document/things", {"_key": "k1"}, None),
        ("PATCH", "/_api/document/things/k1", [], None),
    ]
    for method, path, body, num in cases:
        answer = sim.request(method, path, json=body)
        assert answer.status_code == 400, (method, path, body, answer.status_code, answer.text)
        check(answer, 400, num)
    for value in ("maybe", "2", ""):
        check(sim.request("GET", f"/_api/collection?excludeSystem={value}"), 400)


def test_array_with_bad_elements(sim, things):
    answer = sim.request("POST", "/_api/document/things", json=[1, None, {"_key": "k1"}, {"ok": 1}, []])
    assert answer.status_code == 202, answer.text
    assert [bool(one.get("error")) for one in answer.json()] == [True, True, True, False, True]
    assert "1210:1" in answer.headers["X-Arango-Error-Codes"]


# ---- size ----

def test_body_of_100_mb(sim):
    for path in ("/_api/cursor", "/_api/document/things", "/v1/chat/completions"):
        head = (f"POST {path} HTTP/1.1\r\n".encode() + host(sim) +
                f"Content-Length: {BIG}\r\n\r\n".encode())
        got = exchange(sim, head + b"x" * 1000)
        assert status_line(got) == 413, got[:500]


def test_chunked_body_without_end(sim, things):
    """No length is announced, so the limit is met on the way."""
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with sim.connect() as s:
        s.sendall(b"POST /_api/cursor HTTP/1.1\r\n" + host(sim) + b"Transfer-Encoding: chunked\r\n\r\n")
        s.settimeout(30)
        try:
            for _ in range(BIG // 0x10000):
                s.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            got = s.recv(65536)
        except ConnectionResetError:
            got = b""
    assert not got or status_line(got) == 413, got[:500]


def test_header_flood(sim):
    got = exchange(sim, b"GET /livez HTTP/1.1\r\n" + host(sim) +
                   b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(2000)) + b"\r\n")
    assert status_line(got) == 431, got[:500]
    got = exchange(sim, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host(sim) + b"\r\n")
    assert status_line(got) in (414, 431), got[:500]


# ---- text ----

def test_invalid_utf8(sim, things):
    for text in (b'{"query": "RETURN \'\xff\'"}', b'{"query": "RETURN \'\xed\xa0\x80\'"}',
                 b'{"query": "RETURN \'\xc0\xaf\'"}', b'{"\xfe": 1}'):
        check(sim.request("POST", "/_api/cursor", data=text), 400, 600)
        check(sim.request("POST", "/_api/document/things", data=text), 400, 600)
        check_openai(sim.request("POST", "/v1/chat/completions", data=text), 400)
    for path in ("/_api/document/things/%ff", "/_api/document/%ff%fe/a", "/_api/collection/%ff",
                 "/_db/%ff/_api/version", "/_api/document/things/%00", "/_api/document/things/%zz",
                 "/_api/document/things/%e", "/_api/collection?excludeSystem=%ff",
                 "/v1/models/%ff", "/_db//_api/version", "/%ff"):
        got = exchange(sim, f"GET {path} HTTP/1.1\r\n".encode() + host(sim) +
                       b"Connection: close\r\n\r\n")
        status = status_line(got)
        assert status in (400, 404), (path, got[:500])
        json.loads(got.split(b"\r\n\r\n", 1)[1].decode("utf-8"))  # valid UTF-8 in spite of the input
    got = exchange(sim, b"GET /\xff\xfe HTTP/1.1\r\n" + host(sim) + b"Connection: close\r\n\r\n")
    assert status_line(got) in (400, 404), got[:500]


# ---- AQL ----

@pytest.mark.parametrize("text, line, column", [
    ("RETRUN 1", 1, 1),
    ("FOR d IN things\n  FILTER d.n ==\n  RETURN d", 3, 3),
    ("FOR d IN things\nRETURN d.n +* 2", 2, 13),
    ("RETURN 'open", 1, 8),
    ("RETURN 1 ; RETURN 2", 1, 10),
    ("RETURN \"a\" /* open", 1, 12),
])
def test_aql_errors_say_where(sim, things, text, line, column):
    body = check(sim.request("POST", "/_api/cursor", json={"query": text}), 400, 1501)
    assert f"{line}:{column}" in body["errorMessage"], body


def test_aql_errors(sim, things):
    for text, num, status in (("FOR d IN nothing RETURN d", 1203, 404), ("RETURN a", 1512, 400),
                              ("LET a = 1 LET a = 2 RETURN a", 1511, 400),
                              ("RETURN NOTHING()", 1540, 400), ("RETURN LENGTH()", 1541, 400),
                              ("RETURN @x", 1551, 400), ("", 1502, 400), ("   ", 1502, 400),
                              ("INSERT {} INTO nothing", 1203, 404),
                              ("INSERT {_key: 'k1'} INTO things", 1210, 409),
                              ("REMOVE 'missing' IN things", 1202, 404)):
        check(sim.request("POST", "/_api/cursor", json={"query": text}), status, num)
    check(sim.request("POST", "/_api/cursor", json={"query": "RETURN INFER('nothing', 'x')"}), 404,
          None, "nothing")


def test_random_queries(sim, things):
    """Tokens in any order: an answer or an error, never a crash."""
    chance = random.Random(1)
    tokens = ("FOR d IN things RETURN FILTER SORT LIMIT COLLECT INTO LET x = 1 + - * ( ) [ ] { } , . : ? "
              "!= == && || NOT 'a' @a @@b d x things 1.5 null [*] INSERT UPDATE WITH REMOVE INFER "
              "'chat' EMBED OPTIONS AGGREGATE .. LIKE =~ ` \" \\ # \u00fc").split(" ")
    for _ in range(300):
        text = " ".join(chance.choice(tokens) for _ in range(chance.randint(1, 25)))
        answer = sim.request("POST", "/_api/cursor",
                             json={"query": text, "options": {"maxRuntime": 5}})
        assert answer.status_code < 500 or answer.status_code == 501, (text, answer.text)
        answer.json()


def test_memory_and_time_limits(sim):
    answer = sim.request("POST", "/_api/cursor", json={
        "query": "FOR a IN 1..1000000 SORT a DESC RETURN CONCAT(a, 'xxxxxxxxxxxxxxxxxxxx')",
        "memoryLimit": 1000000})
    check(answer, 500, 32)
    answer = sim.request("POST", "/_api/cursor", json={
        "query": "FOR a IN 1..100000 FOR b IN 1..100000 FILTER a + b < 0 RETURN a",
        "options": {"maxRuntime": 0.3}})
    assert answer.status_code in (408, 410), answer.text
    assert answer.json()["errorNum"] == 1500


# ---- names ----

def test_unknown(sim, things):
    check(sim.request("GET", "/_api/document/nothing/a"), 404, 1203, "nothing")
    check(sim.request("GET", "/_api/document/things/missing"), 404, 1202)
    check(sim.request("GET", "/_api/collection/nothing/count"), 404, 1203)
    check(sim.request("GET", "/_db/nothing/_api/collection"), 404, 1228)
    check(sim.request("POST", "/_api/cursor/999", json={}), 404, 1600)
    check(sim.request("GET", "/_api/index/things/99999999"), 404, 1212)
    check(sim.request("GET", "/nothing/here"), 404, 404)
    check_openai(sim.request("GET", "/v1/nothing"), 404)
    answer = sim.request("DELETE", "/_api/version")
    check(answer, 405, 405)
    assert answer.headers["Allow"] == "GET"
    answer = sim.request("DELETE", "/_api/cursor")
    check(answer, 405)
    assert "POST" in answer.headers["Allow"]
    for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
                       ("/v1/completions", {"prompt": "a"}), ("/v1/embeddings", {"input": "a"})):
        error = check_openai(sim.request("POST", path, json={"model": "gpt-9", **body}), 404, "gpt-9")
        assert ("chat" if "input" not in body else "embed") in error["message"], error


def test_chat_fields(sim):
    messages = [{"role": "user", "content": "hello"}]
    for extra in ({"no_such_field": 1}, {"temperature": "hot"}, {"temperature": 3}, {"top_p": -1},
                  {"max_tokens": 0}, {"max_tokens": -5}, {"stream": "yes"}, {"seed": 1.5},
                  {"stop": [""]}, {"stop": ["a"] * 5}, {"stop": {"a": 1}}, {"messages": "a"},
                  {"messages": [1]}, {"messages": [{"role": "user"}]}, {"model": 5},
                  {"messages": [{"content": "a"}]}, {"stream_options": 5}):
        answer = sim.request("POST", "/v1/chat/completions",
                             json={"model": "chat", "messages": messages, "max_tokens": 4, **extra})
        assert answer.status_code == 400, (extra, answer.status_code, answer.text[:500])
        check_openai(answer, 400)
    for body in ({"input": []}, {"input": ""}, {"input": [1]}, {"input": ["a", None]},
                 {"input": "a", "encoding_format": "hex"}, {}):
        check_openai(sim.request("POST", "/v1/embeddings", json={"model": "embed", **body}), 400)
    for body in ({}, {"question": ""}, {"question": 5}, {"question": "a", "top_k": 0},
                 {"question": "a", "what": 1}):
        check_openai(sim.request("POST", "/v1/ask", json=body), 400)
    for body in ({}, {"documents": []}, {"documents": [5]}, {"documents": [{"text": "a"}]},
                 {"documents": [{"path": "a", "text": "b", "format": "pdf"}]}):
        check_openai(sim.request("POST", "/v1/import", json=body), 400)


# ---- who asks ----

def test_foreign_host_and_origin(sim):
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{sim.port}"},
                    {"Host": "127.0.0.1.evil.example"}, {"Origin": "http://evil.example"},
                    {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}):
        for method, path in (("GET", "/_api/version"), ("POST", "/_api/cursor"), ("GET", "/"),
                             ("GET", "/health")):
            answer = sim.request(method, path, headers=headers)
            assert answer.status_code == 403, (headers, path, answer.status_code)
            assert "Access-Control-Allow-Origin" not in answer.headers
    assert sim.request("GET", "/_api/version", headers={"Origin": sim.url}).status_code == 200
    assert sim.request("GET", "/_api/version",
                       headers={"Host": f"localhost:{sim.port}"}).status_code == 200
    got = exchange(sim, b"GET /_api/version HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert status_line(got) in (400, 403), got[:500]


def test_wrong_credentials_on_loopback(sim):
    for header in ("Basic cm9vdDp3cm9uZw==", "Basic !!!", "Basic", "Digest a", "Basic cm9vdA==",
                   "Basic bm9ib2R5Og==", "Bearer eyJhbGciOiJub25lIn0.eyJzZXJ2ZXJfaWQiOiJ4In0.",
                   "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzZXJ2ZXJfaWQiOiJ4In0.AAAA"):
        answer = sim.request("GET", "/_api/version", headers={"Authorization": header})
        check(answer, 401)
        assert "WWW-Authenticate" in answer.headers
    assert sim.request("GET", "/_api/version", auth=("root", "")).status_code == 200
    check(sim.request("POST", "/_open/auth", json={"username": "root", "password": "wrong"}), 401)
    token = sim.request("POST", "/_open/auth", json={"username": "root", "password": ""}).json()["jwt"]
    assert sim.request("GET", "/_api/version",
                       headers={"Authorization": "bearer " + token}).status_code == 200


def test_auth_on(start):
    server = start({}, settings=["auth=on"], env={"THEMIS_ROOT_PASSWORD": "secret"})
    assert server.request("GET", "/_api/version").status_code == 401
    assert server.request("GET", "/livez").status_code == 200
    assert server.request("GET", "/_api/version", auth=("root", "")).status_code == 401
    assert server.request("GET", "/_api/version", auth=("root", "secret")).status_code == 200


# ---- the wire ----

def test_garbage(sim):
    chance = random.Random(2)
    for i in range(100):
        data = bytes(chance.randrange(256) for _ in range(chance.randint(1, 3000)))
        if i % 3 == 0:
            data = b"POST /_api/cursor HTTP/1.1\r\n" + data
        if i % 3 == 1:
            data = b"\x16\x03\x01" + data  # as TLS begins
        got = exchange(sim, data, half_close=True)
        assert status_line(got) in (None, 400, 403, 405, 431, 505), got[:300]


@pytest.mark.parametrize("head", [
    b"GET /livez HTTP/9.9\r\n\r\n", b"FROB /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /livez\r\n\r\n",
    b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nabcde",
    b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nBad Header : a\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
])
def test_bad_framing(sim, head):
    got = exchange(sim, head, half_close=True)
    status = status_line(got)
    assert status is None or 400 <= status < 500 or status in (501, 505), got[:300]
    assert len(re.findall(rb"HTTP/1.1 \d{3} ", got)) <= 1, got  # nothing smuggled


def test_half_closed(sim):
    """A client that has sent all and shut its side still gets the answer, or the connection closes."""
    got = exchange(sim, b"GET /livez HTTP/1.1\r\n" + host(sim) + b"\r\n", half_close=True)
    assert status_line(got) in (None, 200), got
    exchange(sim, b"POST /_api/cursor HTTP/1.1\r\n" + host(sim) + b"Content-Length: 100\r\n\r\n{",
             half_close=True)


def reset(s):
    """Closes with RST."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def test_aborted(sim):
    stream = json.dumps({"model": "chat", "stream": True, "messages": [
        {"role": "user", "content": "many words " * 50}]}).encode()
    query = json.dumps({"query": "FOR a IN 1..2000000 FILTER a < 0 RETURN a"}).encode()
    infer = json.dumps({"query": "FOR i IN 1..3 RETURN INFER('chat', CONCAT('x', i))"}).encode()
    for path, body in (("/v1/chat/completions", stream), ("/_api/cursor", query),
                       ("/_api/cursor", infer)):
        head = (f"POST {path} HTTP/1.1\r\n".encode() + host(sim) +
                f"Content-Length: {len(body)}\r\n\r\n".encode())
        for cut, pause in ((10, 0), (len(head) + 3, 0), (None, 0), (None, 0.02)):
            for ending in (reset, socket.socket.close):
                s = sim.connect()
                s.sendall((head + body)[:cut])
                time.sleep(pause)
                ending(s)
    end = time.monotonic() + 30
    while True:
        themis = sim.request("GET", "/_admin/status").json()["themis"]
        if themis["workers"]["busy"] <= 1 and themis["inference"]["running"] == 0:
            break
        assert time.monotonic() < end, themis
        time.sleep(0.1)


def test_slow_and_pipelined(sim):
    with sim.connect() as s:
        for byte in b"GET /livez HTTP/1.1\r\n" + host(sim) + b"Connection: close\r\n\r\n":
            s.sendall(bytes([byte]))
        got = b""
        while piece := s.recv(4096):
            got += piece
    assert status_line(got) == 200
    one = b"GET /livez HTTP/1.1\r\n" + host(sim) + b"\r\n"
    got = exchange(sim, one * 50 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert got.count(b"HTTP/1.1 200") == 51


def test_many_parallel(sim, things):
    def work(i):
        kind = i % 6
        if kind == 0:
            return sim.request("POST", "/_api/cursor", data="{" * i).status_code == 400
        if kind == 1:
            return sim.rows("FOR d IN things FILTER d.n < @n RETURN d.n", n=3) is not None
        if kind == 2:
            return sim.request("POST", "/_api/document/things", json={"i": i}).status_code == 202
        if kind == 3:
            body = {"model": "chat", "messages": [{"role": "user", "content": f"weather {i}"}]}
            return sim.request("POST", "/v1/chat/completions", json=body).status_code == 200
        if kind == 4:
            return sim.request("POST", "/v1/embeddings",
                               json={"model": "embed", "input": f"t {i}"}).status_code == 200
        with sim.connect() as s:
            s.sendall(b"GET /livez HTTP")
        return True

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert all(pool.map(work, range(360)))


def test_ends_cleanly_after_all(sim):
    """The fixture's end demands status 0 and no report; this says so where it is looked for."""
    assert sim.request("GET", "/readyz").json()["status"] == "ready"
    assert sim.request("GET", "/metrics").text.startswith("# HELP themis_")
