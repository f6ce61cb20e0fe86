# SPDX-License-Identifier: Apache-2.0
"""HTTP/2: real clients, many requests on one connection, peers that misbehave."""
import asyncio
import concurrent.futures
import json
import os
import socket
import struct
import subprocess
import time

import httpx2
import openai
import pytest
import requests
from conftest import SIM_MODELS, Server, asan_server
from h2client import Connection
from hyperframe.frame import (ContinuationFrame, DataFrame, GoAwayFrame, HeadersFrame, PingFrame,
                              PriorityFrame, PushPromiseFrame, RstStreamFrame, SettingsFrame,
                              WindowUpdateFrame)
from test_tls import curl, trust

WORDS = " ".join(f"word{i}" for i in range(40))
CHAT = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "go"}]}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module")
def tls(tmp_path_factory, authority):
    server = Server(asan_server(), tmp_path_factory.mktemp("h2") / "data", SIM_MODELS,
                    certificate=authority.issue("h2"))
    yield server.wait_ready()
    server.stop()


@pytest.fixture(params=["plain", "tls"])
def both(request):
    return request.getfixturevalue("sim" if request.param == "plain" else "tls")


def body_of(value):
    return json.dumps(value).encode()


# ---- clients ----

def test_curl(sim, tls):
    """One port speaks all; what is spoken is agreed upon, or known before."""
    for server, words, version in (
            (sim, ["--http2-prior-knowledge"], "2"), (sim, ["--http1.1"], "1.1"),
            (sim, ["--http2"], "1.1"),  # an offer to upgrade is not taken
            (tls, ["--cacert", tls.ca, "--http2"], "2"), (tls, ["--cacert", tls.ca, "--http1.1"], "1.1"),
            (tls, ["--cacert", tls.ca, "--no-alpn", "--http2-prior-knowledge"], "2")):
        done = curl(server, *words, "-w", " %{http_version} %{http_code}", server.url + "/livez")
        assert done.stdout.split() == ["ok", version, "200"], (words, done)
    big = "x" * 3_000_000
    done = curl(tls, "--cacert", tls.ca, "--http2", "-d", "@-", tls.url + "/_api/cursor", stdin=json.dumps(
        {"query": "RETURN LENGTH(@a)", "bindVars": {"a": big}}))
    assert json.loads(done.stdout)["result"] == [3_000_000]


def test_httpx_in_parallel(both):
    """In one thread: a TLS connection of Python's may not be read and written by two at once."""
    async def work(client, i):
        answer = await client.post(both.url + "/_api/cursor",
                                   json={"query": "FOR i IN 1..@n RETURN i", "bindVars": {"n": i}})
        assert answer.http_version == "HTTP/2"
        assert answer.status_code == 201, answer.text
        return len(answer.json()["result"])

    async def all_of_them():
        async with httpx2.AsyncClient(http1=False, http2=True, verify=trust(both) if both.ca else True,
                                      limits=httpx2.Limits(max_connections=1), timeout=60) as client:
            return await asyncio.gather(*(work(client, i) for i in range(1, 201)))

    assert asyncio.run(all_of_them()) == list(range(1, 201))


def test_openai(both):
    with httpx2.Client(http1=False, http2=True, verify=trust(both) if both.ca else True) as http, \
            openai.OpenAI(base_url=both.url + "/v1", api_key="none", max_retries=0,
                          http_client=http) as client:
        options = {"model": "chat", "messages": [{"role": "user", "content": "go"}], "max_tokens": 30}
        whole = client.chat.completions.create(**options).choices[0].message.content
        pieces = [chunk.choices[0].delta.content or ""
                  for chunk in client.chat.completions.create(**options, stream=True)]
        assert len(pieces) > 2 and "".join(pieces) == whole
        assert len(client.embeddings.create(model="embed", input=["a", "b"]).data) == 2


# ---- bodies in both directions ----

def test_large_bodies(both):
    """Larger than every window: both directions go on as the other side takes."""
    with httpx2.Client(http1=False, http2=True, verify=trust(both) if both.ca else True,
                       timeout=120) as client:
        text = "y" * 12_000_000
        answer = client.post(both.url + "/_api/cursor",
                             json={"query": "RETURN CONCAT(@a, 'z')", "bindVars": {"a": text}})
        assert answer.status_code == 201
        assert answer.json()["result"] == [text + "z"]
        with client.stream("GET", both.url + "/_api/version") as small:
            assert small.status_code == 200


def test_import_stream(both):
    """A body that its handler takes bit by bit, from a client that does not know its length."""
    both.request("POST", "/_api/collection", json={"name": "h2lines"})

    def lines():
        for i in range(4000):
            yield body_of({"_key": f"k{i}", "text": "x" * 1000}) + b"\n"

    with httpx2.Client(http1=False, http2=True, verify=trust(both) if both.ca else True,
                       timeout=120) as client:
        answer = client.post(both.url + "/_api/import?collection=h2lines&type=documents&overwrite=true",
                             content=lines())
        assert answer.status_code == 201, answer.text
        assert answer.json()["created"] == 4000


# ---- streams ----

def test_events_beside_other_requests(start):
    server = start({"chat": f"sim:chat,decode=30,script={WORDS}"})
    with Connection(server) as c:
        chat = c.ask("POST", "/v1/chat/completions", body=body_of(CHAT))
        stream = c.streams[chat]
        c.until(lambda: b"word3" in stream.body)
        assert not stream.is_over  # the events come as they are made
        assert c.request("GET", "/livez") == (200, b"ok\n")
        assert not stream.is_over
        status, text = c.wait(chat)
        assert status == 200 and text.rstrip().endswith(b"data: [DONE]")
        assert stream.headers["content-type"].startswith("text/event-stream")


def test_reset_stops_the_generation(start):
    server = start({"chat": f"sim:chat,decode=5,script={WORDS}"})

    def running():
        return server.request("GET", "/_admin/status").json()["themis"]["inference"]["running"]

    with Connection(server) as c:
        first = c.ask("POST", "/v1/chat/completions", body=body_of(CHAT))
        second = c.ask("POST", "/v1/chat/completions", body=body_of(CHAT))
        c.until(lambda: b"word1" in c.streams[first].body and b"word1" in c.streams[second].body)
        assert running() == 2
        c.h2.reset_stream(first)
        c.flush()
        end = time.monotonic() + 30
        while running() != 1:
            assert time.monotonic() < end
        assert not c.streams[second].is_over
        assert c.request("GET", "/livez")[0] == 200
    end = time.monotonic() + 30
    while running() != 0:  # and the connection's end stops the other
        assert time.monotonic() < end


def test_drain(start):
    """GOAWAY, and what runs is finished. (The h2 library takes nothing after GOAWAY; curl does.)"""
    server = start({"chat": f"sim:chat,decode=30,script={WORDS}"})
    with Connection(server) as idle, subprocess.Popen(
            ["curl", "-sSN", "--noproxy", "*", "--http2-prior-knowledge", "-d", json.dumps(CHAT),
             server.url + "/v1/chat/completions"], stdout=subprocess.PIPE) as chat:
        assert idle.request("GET", "/livez")[0] == 200
        line = b""
        while b"word1" not in line:
            line = chat.stdout.readline()
            assert line
        server.process.terminate()
        idle.until(lambda: idle.goaway == 0)
        rest = chat.stdout.read()
        assert chat.wait(60) == 0 and b"word39" in rest and rest.rstrip().endswith(b"data: [DONE]")
    server.wait_stopped()


# ---- the same rules as for HTTP/1 ----

def test_authority_and_origin(both):
    with Connection(both) as c:
        assert c.request("GET", "/_api/version", authority="localhost")[0] == 200
        assert c.request("GET", "/_api/version", authority="evil.example")[0] == 403
        status, text = c.request("GET", "/_api/version", authority="evil.example:8765")
        assert status == 403 and b"allowed_hosts" in text
        assert c.request("GET", "/_api/version", headers=[("origin", "http://evil.example")])[0] == 403
        assert c.request("GET", "/_api/version",
                         headers=[("origin", "https://" + c.authority)])[0] == 200
        assert c.request("POST", "/_api/version")[0] == 405
        assert c.request("GET", "/no/such/path")[0] == 404
        assert c.request("GET", "/_api/version", headers=[("authorization", "Basic eDp5")])[0] == 401


def test_limits(start):
    server = start(settings=["max_streams=3", "max_body_bytes=100000", "max_header_bytes=4096",
                             "body_timeout_ms=500", "idle_timeout_ms=1500"])
    with Connection(server) as c:
        c.until(lambda: c.h2.remote_settings.max_concurrent_streams == 3)
        assert c.h2.remote_settings.max_header_list_size == 4096
        assert c.request("POST", "/_api/cursor", body=b"x" * 16000,
                         headers=[("content-length", "200000")], ends=False)[0] in (413, 400)
    with Connection(server) as c:
        assert c.request("GET", "/livez", headers=[("x", "y" * 5000)])[0] == 431
        late = c.ask("POST", "/_api/cursor", body=b"{", ends=False)
        c.until(lambda: ":status" in c.streams[late].headers)
        assert c.streams[late].headers[":status"] == "408"
        c.until(lambda: c.goaway == 0)  # idle


# ---- frames that are wrong ----

def frame(kind, stream=0, flags=(), **fields):
    made = kind(stream, **fields)
    for flag in flags:
        made.flags.add(flag)
    return made.serialize()


def raw(length, kind, flags, stream, payload):
    return struct.pack(">I", length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


GET = b"\x82\x86\x04\x06/livez\x01\x09localhost"  # HPACK without a table
BROKEN = {
    "nothing": b"",
    "bad preface": None,
    "data without stream": frame(DataFrame, 1, data=b"x"),
    "data of stream 0": raw(1, 0, 0, 0, b"x"),
    "even stream": frame(HeadersFrame, 2, ["END_HEADERS"], data=GET),
    "streams backwards": frame(HeadersFrame, 5, ["END_HEADERS", "END_STREAM"], data=GET) +
                         frame(HeadersFrame, 3, ["END_HEADERS", "END_STREAM"], data=GET),
    "broken compression": frame(HeadersFrame, 1, ["END_HEADERS"], data=b"\xff" * 20),
    "upper case": frame(HeadersFrame, 1, ["END_HEADERS", "END_STREAM"], data=GET + b"\x00\x01X\x01y"),
    "continuation alone": frame(ContinuationFrame, 1, data=GET),
    "continuation of another": frame(HeadersFrame, 1, data=GET) + frame(ContinuationFrame, 3, data=b""),
    "ping inside headers": frame(HeadersFrame, 1, data=GET) + frame(PingFrame, opaque_data=b"12345678"),
    "push": frame(PushPromiseFrame, 1, promised_stream_id=2, data=GET),
    "reset of nothing": frame(RstStreamFrame, 1, error_code=8),
    "window of nothing": raw(4, 8, 0, 0, b"\0\0\0\0"),
    "window too large": frame(WindowUpdateFrame, 0, window_increment=2**31 - 1) * 2,
    "settings of a stream": raw(0, 4, 0, 1, b""),
    "settings too short": raw(5, 4, 0, 0, b"12345"),
    "too large": raw(100000, 0, 0, 1, b"x" * 100000),
    "priority on itself": frame(PriorityFrame, 1, depends_on=1),
    "goaway too short": raw(2, 7, 0, 0, b"xx"),
    "goaway, then a request": frame(GoAwayFrame, 0) +
                              frame(HeadersFrame, 1, ["END_HEADERS", "END_STREAM"], data=GET),
    "length that lies": raw(1000, 1, 4, 1, GET),
    "HTTP/1 inside": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames(sim, name):
    begin = PREFACE + frame(SettingsFrame) if BROKEN[name] is not None else b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"
    for step in (None, 7):
        with sim.connect() as s:
            s.settimeout(60)
            data = begin + (BROKEN[name] or b"")
            try:
                for at in range(0, len(data), step or len(data)):
                    s.sendall(data[at:at + (step or len(data))])
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except ConnectionError:
                pass
    assert sim.request("GET", "/livez").status_code == 200


def test_floods(sim):
    """Each ends its connection only, and leaves no memory behind."""
    reset = b"".join(frame(HeadersFrame, 2 * i + 1, ["END_HEADERS", "END_STREAM"], data=GET) +
                     frame(RstStreamFrame, 2 * i + 1, error_code=8) for i in range(20000))
    for flood in (reset, frame(PingFrame, opaque_data=b"12345678") * 50000, frame(SettingsFrame) * 50000,
                  frame(PriorityFrame, 1) * 50000,
                  frame(HeadersFrame, 1, data=GET) + frame(ContinuationFrame, 1, data=b"") * 50000):
        with sim.connect() as s:
            s.settimeout(60)
            try:
                s.sendall(PREFACE + frame(SettingsFrame) + flood)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except ConnectionError:
                pass
    assert sim.request("GET", "/livez").status_code == 200
    floods = sim.request("GET", "/metrics").text.split("\nthemis_http2_floods_total ")[1].split()[0]
    assert int(floods) >= 3


def test_random_frames(sim):
    for _ in range(200):
        with sim.connect() as s:
            data = PREFACE + frame(SettingsFrame)
            for i in range(10):
                payload = os.urandom(os.urandom(1)[0])
                data += raw(len(payload), os.urandom(1)[0] % 12, os.urandom(1)[0], 2 * (i % 4) + 1, payload)
            try:
                s.sendall(data)
            except ConnectionError:
                pass
    assert sim.request("GET", "/livez").status_code == 200


def test_many_connections_at_once(sim):
    def work(i):
        with Connection(sim) as c:
            numbers = [c.ask("GET", "/livez") for _ in range(20)]
            chat = c.ask("POST", "/v1/chat/completions", body=body_of(CHAT)) if i % 4 == 0 else None
            if i % 5 == 0:
                return True  # leaves in the middle
            assert all(c.wait(number) == (200, b"ok\n") for number in numbers)
            return chat is None or c.wait(chat)[0] == 200

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(100)))


def test_h2load(sim):
    """The load generator of nghttp2 finds no fault."""
    done = subprocess.run(["h2load", "-n", "3000", "-c", "10", "-m", "20", sim.url + "/livez"],
                          capture_output=True, text=True, timeout=120)
    assert "3000 succeeded, 0 failed, 0 errored" in done.stdout, done.stdout
    assert requests.get(sim.url + "/livez", timeout=30).text == "ok\n"
