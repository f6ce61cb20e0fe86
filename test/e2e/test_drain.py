# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: what runs is finished, new work is refused, status 0."""
import json
import re
import socket
import subprocess
import threading
import time

import requests
from conftest import release_server

WORDS = " ".join(f"word{i}" for i in range(40))
CHAT = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "go"}]}


def events(answer, started=None):
    for line in answer.iter_lines():
        if line.startswith(b"data: "):
            if started:
                started.set()
            yield line[6:].decode()


def test_stream_finishes_across_sigterm(start):
    server = start({"chat": f"sim:chat,decode=30,script={WORDS}"})
    started, got = threading.Event(), []

    def read():
        with requests.post(server.url + "/v1/chat/completions", json=CHAT, stream=True,
                           timeout=60) as answer:
            got.extend(events(answer, started))

    reader = threading.Thread(target=read)
    reader.start()
    assert started.wait(30)
    server.process.terminate()
    reader.join(60)
    assert got[-1] == "[DONE]"
    chunks = [json.loads(text) for text in got[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == WORDS
    server.wait_stopped()


def test_new_work_is_refused_meanwhile(start):
    """On a connection that was open before; new ones are not accepted."""
    server = start({"chat": f"sim:chat,decode=20,script={WORDS}"})
    with requests.post(server.url + "/v1/chat/completions", json=CHAT, stream=True,
                       timeout=60) as running, server.connect() as kept:
        lines = events(running)
        next(lines)
        # Half a request keeps this connection from being idle, so it stays open.
        kept.sendall(b"GET /_api/version HTTP/1.1\r\nHost: localhost\r\n")
        time.sleep(0.2)
        server.process.terminate()
        end = time.monotonic() + 20
        while True:  # until the listener is closed
            try:
                socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
            except ConnectionRefusedError:
                break
            except ConnectionResetError:
                pass  # it was in the queue of the listener that closed: the next one is refused
            assert time.monotonic() < end
            time.sleep(0.02)
        kept.sendall(b"\r\n")
        kept.settimeout(20)
        got = kept.recv(65536)
        assert got == b"" or (got.startswith(b"HTTP/1.1 503 ") and b"retry-after" in got.lower()), got
        assert list(lines)[-1] == "[DONE]"
    server.wait_stopped()


def test_drain_timeout(start):
    """A stream that does not end in time is cut, and the server ends well."""
    server = start({"chat": "sim:chat,decode=1,script=" + WORDS}, settings=["drain_timeout_ms=300"])
    with requests.post(server.url + "/v1/chat/completions", json=CHAT, stream=True,
                       timeout=60) as running:
        next(events(running))
        began = time.monotonic()
        server.process.terminate()
        server.wait_stopped()
        assert time.monotonic() - began < 20


def test_waiting_query_at_the_end(start):
    """A query that waits for a model when the time is over is let go, without a leak."""
    server = start({"chat": "sim:chat,decode=1,script=" + WORDS}, settings=["drain_timeout_ms=300"])
    body = b'{"query": "FOR i IN 1..9 RETURN INFER(\'chat\', CONCAT(\'x\', i))"}'
    with server.connect() as s:
        s.sendall(f"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        end = time.monotonic() + 20
        while not server.request("GET", "/_admin/status").json()["themis"]["inference"]["running"]:
            assert time.monotonic() < end
        server.process.terminate()
        server.wait_stopped()


BIG = 50_000_000
BIG_QUERY = json.dumps({"query": "FOR i IN 1..500 RETURN @text", "batchSize": 500,
                        "bindVars": {"text": "x" * (BIG // 500)}}).encode()


def test_large_reply_to_a_slow_reader(start):
    """What was answered before SIGTERM leaves whole, as long as the client goes on reading."""
    server = start({}, binary=release_server())
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    s.settimeout(60)
    s.connect(("127.0.0.1", server.port))
    with s:
        s.sendall(f"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Length: {len(BIG_QUERY)}\r\n\r\n".encode() + BIG_QUERY)
        got = s.recv(65536)
        assert got.startswith(b"HTTP/1.1 201 "), got
        head, rest = got.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
        assert length > BIG
        server.process.terminate()
        count, began = len(rest), time.monotonic()
        while piece := s.recv(1_000_000):
            count += len(piece)
            time.sleep(0.002)
        assert count == length
        assert time.monotonic() - began > 0.3  # it was slow, so the stop had to wait
    server.wait_stopped()


def test_large_reply_of_http2_to_a_slow_reader(start):
    server = start({}, binary=release_server())
    with subprocess.Popen(["curl", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "--limit-rate", "25M",
                           "-d", "@-", server.url + "/_api/cursor"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as curl:
        curl.stdin.write(BIG_QUERY)
        curl.stdin.close()
        count = len(curl.stdout.read(1000))
        server.process.terminate()
        while piece := curl.stdout.read(1_000_000):
            count += len(piece)
        assert curl.wait(60) == 0 and count > BIG
    server.wait_stopped()


def test_large_reply_that_is_not_read(start):
    """Not longer than drain_timeout_ms."""
    server = start({}, binary=release_server(), settings=["drain_timeout_ms=700"])
    with server.connect() as s:
        s.sendall(f"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Length: {len(BIG_QUERY)}\r\n\r\n".encode() + BIG_QUERY)
        assert s.recv(12) == b"HTTP/1.1 201"
        began = time.monotonic()
        server.process.terminate()
        server.wait_stopped()
        assert 0.5 < time.monotonic() - began < 20
