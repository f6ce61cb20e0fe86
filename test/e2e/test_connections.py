# SPDX-License-Identifier: Apache-2.0
"""Very many connections, more than are allowed, and more than there are files."""
import contextlib
import os
import re
import resource
import socket
import ssl
import subprocess
import time

import pytest
from conftest import release_server
from hyperframe.frame import HeadersFrame, SettingsFrame
from test_http2 import GET, PREFACE, frame
from test_tls import trust

IDLE = 5000
# How many of each kind, and KiB of the server's memory for one: above what is measured (see
# docs/operations.md), below what a kept buffer would cost.
KINDS = {"http1": (IDLE, 4), "http2": (IDLE, 24), "tls-http1": (1000, 24), "tls-http2": (IDLE, 56)}
REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def many_files():
    """The tests hold as many sockets as the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"the hard limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def figure(server, name):
    text = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(rf"^{name}:\s+(\d+)", text, re.M).group(1))


def cpu_s(server):
    """Seconds of CPU time so far."""
    words = open(f"/proc/{server.process.pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def read_until(s, text):
    got = b""
    while text not in got:
        piece = s.recv(65536)
        assert piece, got
        got += piece
    return got


def ask_http1(s):
    s.sendall(REQUEST)
    assert read_until(s, b"ok\n").startswith(b"HTTP/1.1 200 ")


def ask_http2(s, stream):
    s.sendall(frame(HeadersFrame, stream, ["END_HEADERS", "END_STREAM"], data=GET))
    read_until(s, b"ok\n")


def connect(server, kind, context):
    """A connection that has been used once."""
    s = server.connect()
    if kind.startswith("tls"):
        s = context.wrap_socket(s, server_hostname="127.0.0.1")
    if kind.endswith("http2"):
        s.sendall(PREFACE + frame(SettingsFrame) + frame(SettingsFrame, 0, ["ACK"]))
        ask_http2(s, 1)
    else:
        ask_http1(s)
    return s


@pytest.mark.parametrize("kind", KINDS)
def test_idle(start, authority, kind):
    """They cost little, and others are answered at once."""
    wanted, most = KINDS[kind]
    certificate = authority.issue("idle") if kind.startswith("tls") else None
    server = start({}, binary=release_server(), certificate=certificate,
                   settings=[f"max_connections={wanted + 100}", "idle_timeout_ms=600000"])
    context = None
    if certificate:
        context = trust(server)
        context.set_alpn_protocols(["h2" if kind.endswith("http2") else "http/1.1"])
    with contextlib.ExitStack() as stack:
        for _ in range(50):  # what the first ones cost is not theirs
            stack.enter_context(connect(server, kind, context))
        time.sleep(1.5)
        before = figure(server, "VmRSS")
        idle = [stack.enter_context(connect(server, kind, context)) for _ in range(wanted)]
        time.sleep(1.5)  # buffers are given back after a second
        each = (figure(server, "VmRSS") - before) / wanted
        began, used = time.monotonic(), cpu_s(server)
        time.sleep(2)
        load = (cpu_s(server) - used) / (time.monotonic() - began)
        other = stack.enter_context(connect(server, kind, context))
        waits = []
        for i in range(200):
            began = time.monotonic()
            ask_http2(other, 2 * i + 3) if kind.endswith("http2") else ask_http1(other)
            waits.append(time.monotonic() - began)
        waits.sort()
        print(f"{kind}: {each:.1f} KiB for each of {wanted} idle connections, {100 * load:.1f} % of a core; "
              f"a request meanwhile: median {1e6 * waits[100]:.0f} us, 99 % {1e6 * waits[198]:.0f} us")
        assert each < most
        assert load < 0.2
        assert waits[100] < 0.05 and waits[198] < 0.5
        for s in idle[::97]:  # none was lost
            ask_http2(s, 3) if kind.endswith("http2") else ask_http1(s)
        assert open_connections(server, other, kind) == wanted + 51


def open_connections(server, s, kind):
    """Asked over the connection at hand where that is easy: a further one counts, too."""
    if kind.endswith("http2"):
        text, own = server.request("GET", "/metrics").text, 1
    else:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text, own = read_until(s, b"\nthemis_http_turned_away_total ").decode(), 0
    return int(re.search(r"^themis_http_connections (\d+)", text, re.M).group(1)) - own


def test_too_many(start):
    """503 for those beyond the limit, whole; the others go on; a place that is left is taken."""
    server = start({}, settings=["max_connections=20"])
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(connect(server, "http1", None)) for _ in range(20)]
        crowd = []
        for _ in range(300):
            crowd.append(stack.enter_context(server.connect()))
            crowd[-1].sendall(REQUEST)
        for s in crowd:
            got = b""
            while piece := s.recv(65536):
                got += piece
            assert got.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1\r\n" in got, got
            assert b"max_connections" in got
            s.close()
        for s in inside:
            ask_http1(s)
        inside.pop().close()
        end = time.monotonic() + 30  # a place is free when the server has seen the connection end
        while (answer := server.request("GET", "/metrics")).status_code != 200:
            assert time.monotonic() < end
        count = re.search(r"^themis_http_turned_away_total (\d+)", answer.text, re.M)
        assert int(count.group(1)) >= 300


def test_too_many_over_tls(start, authority):
    """They are closed before the handshake, which would cost more than an answer is worth."""
    server = start({}, settings=["max_connections=3"], certificate=authority.issue("full"))
    context = trust(server)
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(connect(server, "tls-http1", context)) for _ in range(3)]
        for _ in range(20):
            with server.connect() as s, pytest.raises((ssl.SSLEOFError, ssl.SSLZeroReturnError)):
                context.wrap_socket(s, server_hostname="127.0.0.1")
        for s in inside:
            ask_http1(s)


def with_files(tmp_path, hard):
    """The server's program with a limit of open files."""
    from conftest import asan_server
    script = tmp_path / f"files-{hard}"
    script.write_text(f"#!/bin/sh\nulimit -n {hard}\nexec {asan_server()} \"$@\"\n")
    script.chmod(0o755)
    return script


def test_limit_of_files(start, tmp_path):
    """It decides how many connections fit, and says so; far too low, the start is refused."""
    server = start({}, binary=with_files(tmp_path, 400))
    assert "leaves room for 108 connections, not for max_connections=5000" in server.log()
    with contextlib.ExitStack() as stack:
        for _ in range(108):
            stack.enter_context(connect(server, "http1", None))
        assert server.request("GET", "/livez").status_code == 503
    done = subprocess.run([with_files(tmp_path, 200), "--data", tmp_path / "none"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2
    assert "200" in done.stderr and "320" in done.stderr and "LimitNOFILE" in done.stderr
    assert not (tmp_path / "none").exists()


def test_no_file_left(start):
    """accept fails: those inside are served, those outside wait, and the loop does not spin."""
    server = start({}, binary=release_server())
    pid = server.process.pid
    with connect(server, "http1", None) as inside:
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        open_now = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 30))
                       for _ in range(20)]
            for s in waiting:
                s.sendall(REQUEST)
            began, used = time.monotonic(), cpu_s(server)
            while time.monotonic() < began + 2:
                ask_http1(inside)
                time.sleep(0.1)
            assert (cpu_s(server) - used) / 2 < 0.25
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            for s in waiting:
                assert read_until(s, b"ok\n").startswith(b"HTTP/1.1 200 ")
    assert "accept: Too many open files" in server.log()
