# SPDX-License-Identifier: Apache-2.0
"""Clients that are too slow, ask for too much or flood: each has a bounded end, and the node lives."""
import contextlib
import json
import re
import socket
import struct
import threading
import time

import pytest
from conftest import SIM_MODELS, Server, asan_server
from hyperframe.frame import (ContinuationFrame, DataFrame, HeadersFrame, PingFrame, PriorityFrame,
                              RstStreamFrame, SettingsFrame, WindowUpdateFrame)
from test_http2 import GET, PREFACE, frame

SLOW_MS = 1000  # header_timeout_ms and body_timeout_ms of the server
HEAD = b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\n"
BIG = 8_000_000
BIG_BODY = json.dumps({"query": "FOR i IN 1..800 RETURN @a", "batchSize": 800,
                       "bindVars": {"a": "x" * (BIG // 800)}}).encode()
BIG_POST = HEAD + f"Connection: close\r\nContent-Length: {len(BIG_BODY)}\r\n\r\n".encode() + BIG_BODY
CALM = 11  # ENHANCE_YOUR_CALM
CANCEL = 8


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    server = Server(asan_server(), tmp_path_factory.mktemp("strict") / "data", SIM_MODELS,
                    settings=[f"header_timeout_ms={SLOW_MS}", f"body_timeout_ms={SLOW_MS}",
                              "max_header_bytes=8192", "max_streams=10", "gzip_min_bytes=0"])
    yield server.wait_ready()
    server.stop()


@pytest.fixture(autouse=True)
def lives(strict):
    """After each test the same process answers, and nothing of what was tested still runs."""
    yield
    assert strict.is_alive(), strict.log()[-8000:]
    end = time.monotonic() + 20
    while True:
        status = strict.request("GET", "/_admin/status").json()["themis"]
        if status["workers"]["busy"] <= 1:
            return
        assert time.monotonic() < end, status
        time.sleep(0.05)


def read_all(s):
    """Until the server closes; a reset counts."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(65536):
            got += piece
    return got


def drip(s, piece, pause, done):
    """Sends the piece again and again, until the server has had enough."""
    with contextlib.suppress(OSError):
        while not done.is_set():
            s.sendall(piece)
            time.sleep(pause)


def dripping(server, begin, piece, pause=0.1):
    """What the server says to it, and how long it took."""
    done = threading.Event()
    with server.connect() as s:
        s.sendall(begin)
        began = time.monotonic()
        thread = threading.Thread(target=drip, args=(s, piece, pause, done))
        thread.start()
        got = read_all(s)
        took = time.monotonic() - began
        done.set()
        thread.join()
        return got, took


# ---- HTTP/1 ----

def test_slow_headers(strict):
    """A byte now and then does not help: the time is for all of them."""
    for begin, piece in ((b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ", b"y"), (b"G", b"E"),
                         (b"GET /", b"a")):
        got, took = dripping(strict, begin, piece)
        assert got == b"" or got.startswith(b"HTTP/1.1 408 ") or got.startswith(b"HTTP/1.1 400 "), got
        assert took < 10


def test_slow_body(strict):
    """One byte every 100 ms is slower than what is taken, and so is none."""
    for begin, piece in ((HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
                         (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
                         (HEAD.replace(b"cursor", b"import?collection=x&type=documents") +
                          b"Content-Length: 1000\r\n\r\n", b" "),
                         (HEAD + b"Content-Length: 1000\r\n\r\n", b"")):
        got, took = dripping(strict, begin, piece)
        assert got.startswith(b"HTTP/1.1 408 ") or got.startswith(b"HTTP/1.1 404 "), got
        assert SLOW_MS / 1000 * 0.9 < took < 10 or b" 404 " in got


def test_a_body_fast_enough(strict):
    """Three times the longest pause, at a speed that is taken."""
    body = json.dumps({"query": "RETURN 1", "bindVars": {}}).encode().ljust(9000)
    with strict.connect() as s:
        s.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for at in range(0, len(body), 300):
            s.sendall(body[at:at + 300])
            time.sleep(0.1)
        assert read_all(s).startswith(b"HTTP/1.1 201 ")


def big_reply(server):
    """A connection on which a reply of 8 MB has begun to arrive."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(60)
    s.connect(("127.0.0.1", server.port))
    s.sendall(BIG_POST)
    assert s.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 201"
    return s


def test_slow_reader(strict):
    """20 bytes at a time, 20 times a second: dropped, long before the reply would have ended."""
    before = connections(strict)
    done = threading.Event()

    def read_slowly():
        with contextlib.suppress(ConnectionError):
            while not done.is_set() and s.recv(20):
                time.sleep(0.05)

    with big_reply(strict) as s:
        thread = threading.Thread(target=read_slowly)
        thread.start()
        assert connections(strict) > before
        began = time.monotonic()
        while connections(strict) > before:
            assert time.monotonic() < began + 30
            time.sleep(0.1)
        done.set()
        thread.join()
    with big_reply(strict) as s:  # and one that reads gets all
        assert len(read_all(s)) > BIG


def connections(server):
    """Others than the one that asks."""
    text = server.request("GET", "/metrics").text
    return int(re.search(r"^themis_http_connections (\d+)", text, re.M).group(1)) - 1


def test_headers(strict):
    """Too large, too many: 431, and the connection ends."""
    many = b"".join(b"X-%d: y\r\n" % i for i in range(101))
    for head in (b"GET /livez?" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 9000 + b"\r\n\r\n",
                 b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n"):
        with strict.connect() as s:
            s.sendall(head)
            assert read_all(s).startswith(b"HTTP/1.1 431 ")
    few = b"".join(b"X-%d: y\r\n" % i for i in range(98))
    with strict.connect() as s:
        s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + few + b"\r\n")
        assert read_all(s).startswith(b"HTTP/1.1 200 ")


# ---- HTTP/2 ----

def frames_of(got):
    """(type, flags, stream, payload) of each whole frame."""
    at, found = 0, []
    while at + 9 <= len(got):
        length = int.from_bytes(got[at:at + 3], "big")
        found.append((got[at + 3], got[at + 4], int.from_bytes(got[at + 5:at + 9], "big"),
                      got[at + 9:at + 9 + length]))
        at += 9 + length
    return found


def goaway_of(got):
    codes = [struct.unpack(">I", payload[4:8])[0] for kind, _, _, payload in frames_of(got) if kind == 7]
    return codes[-1] if codes else None


def resets_of(got):
    return {stream: struct.unpack(">I", payload)[0] for kind, _, stream, payload in frames_of(got) if kind == 3}


def get(stream):
    return frame(HeadersFrame, stream, ["END_HEADERS", "END_STREAM"], data=GET)


def post(stream, path, flags=("END_HEADERS",)):
    return frame(HeadersFrame, stream, flags, data=b"\x83\x86\x04" + bytes([len(path)]) + path +
                 b"\x01\x09localhost")


FLOODS = {
    # CVE-2023-44487: requests that are taken back at once
    "rapid resets": (b"".join(get(2 * i + 1) + frame(RstStreamFrame, 2 * i + 1, error_code=CANCEL)
                              for i in range(20000)), {CALM, 2}),
    # and such that make the server take them back
    "provoked resets": (b"".join(post(2 * i + 1, b"/_api/cursor") +
                                 frame(WindowUpdateFrame, 2 * i + 1, window_increment=2**31 - 1)
                                 for i in range(2000)), {CALM}),
    # CVE-2024-27316 and its kin: headers without end, with and without content
    "empty continuations": (frame(HeadersFrame, 1, data=GET) + frame(ContinuationFrame, 1, data=b"") * 50000,
                            {CALM, 1, 2}),
    "continuations": (frame(HeadersFrame, 1, data=GET) +
                      frame(ContinuationFrame, 1, data=b"\x00\x01y\x7f\xe4\x06" + b"c" * 995) * 10000, {CALM, 1, 2}),
    # CVE-2019-9512, -9515, -9511, -9518
    "ping": (frame(PingFrame, opaque_data=b"12345678") * 50000, {CALM}),
    "settings": (frame(SettingsFrame, settings={4: 65535}) * 50000, {CALM}),
    "priority": (frame(PriorityFrame, 1, depends_on=0) * 50000, {CALM}),
    "empty data": (post(1, b"/_api/cursor") + frame(DataFrame, 1, data=b"") * 50000, {CALM}),
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("reads", [True, False])
def test_flood(strict, name, reads):
    """Told to calm down and dropped, whether it reads the answers or not."""
    flood, codes = FLOODS[name]
    with strict.connect() as s:
        s.setblocking(False)
        data, at, got = PREFACE + frame(SettingsFrame) + flood, 0, b""
        end = time.monotonic() + 60
        is_over = False
        while not is_over and time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                try:
                    at += s.send(data[at:at + 65536])
                except ConnectionError:
                    is_over = True
            if reads or at == len(data) or is_over:
                try:
                    piece = s.recv(65536)
                    got += piece
                    is_over = is_over or not piece
                except BlockingIOError:
                    time.sleep(0.001)
                except ConnectionError:
                    is_over = True
        assert is_over, "the server takes all of it"
    if reads:
        assert goaway_of(got) in codes, goaway_of(got)


def test_stream_limit(strict):
    """Those above are refused without being begun; a client may ask again."""
    with strict.connect() as s:
        s.settimeout(30)
        s.sendall(PREFACE + frame(SettingsFrame) +
                  b"".join(post(2 * i + 1, b"/_api/cursor") for i in range(25)))
        got = b""
        while len(resets_of(got)) < 15:
            got += s.recv(65536)
        assert all(code == 7 for code in resets_of(got).values())  # REFUSED_STREAM
        assert min(resets_of(got)) == 21


def test_headers_of_http2(strict):
    many = b"".join(b"\x00\x02x%c\x01y" % (97 + i % 26) for i in range(101))
    long = b"\x00\x01x" + b"\x7f" + hpack_rest(9000) + b"y" * 9000
    for extra in (many, long):
        with strict.connect() as s:
            s.settimeout(30)
            s.sendall(PREFACE + frame(SettingsFrame) +
                      frame(HeadersFrame, 1, ["END_HEADERS", "END_STREAM"], data=GET + extra))
            got = b""
            while not any(kind == 1 for kind, *_ in frames_of(got)):
                piece = s.recv(65536)
                assert piece, got
                got += piece
            assert b"too large or too many" in got


def hpack_rest(value):
    """What follows a prefix of seven ones."""
    value -= 127
    out = b""
    while value >= 128:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def big_request(stream):
    data = b""
    for at in range(0, len(BIG_BODY), 16384):
        piece = BIG_BODY[at:at + 16384]
        flags = ["END_STREAM"] if at + 16384 >= len(BIG_BODY) else []
        data += frame(DataFrame, stream, flags, data=piece)
    return post(stream, b"/_api/cursor") + data


@pytest.mark.parametrize("opens", [0, 10])
def test_shut_window(strict, opens):
    """A reply that its client gives no room, or next to none, ends; the connection goes on."""
    with strict.connect() as s:
        s.settimeout(30)
        got, lock, done = [b""], threading.Lock(), threading.Event()

        def read():
            with contextlib.suppress(OSError):
                while piece := s.recv(65536):
                    with lock:
                        got[0] += piece

        def seen():
            with lock:
                return got[0]

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        s.sendall(PREFACE + frame(SettingsFrame, settings={4: 0}) + get(1))
        s.sendall(big_request(3))
        began = time.monotonic()
        if opens:
            threading.Thread(target=drip, daemon=True, args=(
                s, frame(WindowUpdateFrame, 3, window_increment=opens), 0.05, done)).start()
        while not {1, 3} <= set(resets_of(seen())):
            assert time.monotonic() < began + 30, resets_of(seen())
            time.sleep(0.05)
        done.set()
        assert resets_of(seen()) == {1: CANCEL, 3: CANCEL}
        assert sum(len(payload) for kind, _, _, payload in frames_of(seen()) if kind == 0) < 10000
        s.sendall(get(5) + frame(WindowUpdateFrame, 5, window_increment=100))
        while b"ok\n" not in seen():
            assert time.monotonic() < began + 40
            time.sleep(0.05)
        s.shutdown(socket.SHUT_WR)
        thread.join(30)


def test_slow_body_of_http2(strict):
    """408 to a body of one byte every 100 ms."""
    with strict.connect() as s:
        s.settimeout(30)
        done = threading.Event()
        s.sendall(PREFACE + frame(SettingsFrame) + post(1, b"/_api/cursor"))
        began = time.monotonic()
        thread = threading.Thread(target=drip, args=(s, frame(DataFrame, 1, data=b" "), 0.1, done))
        thread.start()
        got = b""
        while b"body did not arrive in time" not in got:
            got += s.recv(65536)
        done.set()
        thread.join()
        assert time.monotonic() - began < 10


def test_headers_of_http2_without_end(strict):
    """One CONTINUATION now and then: the connection ends when the time for headers has."""
    got, took = dripping(strict, PREFACE + frame(SettingsFrame) + frame(HeadersFrame, 1, data=GET),
                         frame(ContinuationFrame, 1, data=b"\x00\x01y\x01z"), pause=0.3)
    assert goaway_of(got) == CALM and took < 10
