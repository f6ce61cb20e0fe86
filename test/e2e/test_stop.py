# SPDX-License-Identifier: Apache-2.0
"""
A stop at any moment: while it starts, with every kind of work under way, with clients that have
left, with time for running requests and without. Always status 0, no report of a sanitizer.
"""
import contextlib
import json
import re
import signal
import socket
import struct
import threading
import time

import pytest
import requests

from conftest import SIM_MODELS, model_file, real_models

WORDS = " ".join(f"word{i}" for i in range(60))
TEXT = "\n\n".join(f"Paragraph {i} is about hill {i}, which is {7 * i} metres high." for i in range(200))
MODELS = {"chat": f"sim:chat,decode=5,script={WORDS}", "embed": "sim:embed,dim=64,prefill=300"}
CHAT = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "go"}]}
WAIT_S = 60


class Work:
    """Requests under way, each on a thread; what becomes of them is not looked at."""

    def __init__(self, server):
        self.server = server
        self.threads = []
        self.sockets = []

    def post(self, path, body, times=1, data=None, method="POST"):
        def run():
            with contextlib.suppress(requests.RequestException):
                self.server.request(method, path, json=body, data=data, timeout=WAIT_S)

        for _ in range(times):
            self.threads.append(threading.Thread(target=run, daemon=True))
            self.threads[-1].start()

    def raw(self, path, body, method="POST", sent=None):
        """A request on a socket; sent limits the bytes of the body that go out."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        s = self.server.connect()
        self.sockets.append(s)
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                  .encode() + body[:sent])
        return s

    def until(self, condition):
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, "the work never began"
            time.sleep(0.01)

    def status(self):
        return self.server.request("GET", "/_admin/status").json()["themis"]

    def metric(self, name):
        found = re.search(rf"^{name} (\S+)$", self.server.request("GET", "/metrics").text, re.M)
        return float(found.group(1)) if found else 0

    def end(self):
        for s in self.sockets:
            s.close()
        for thread in self.threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a request had no end"


# ---- what may be under way; each function returns when it is ----

def nothing(work):
    work.server.request("GET", "/_api/version")


def idle_connections(work):
    for _ in range(5):
        s = work.server.connect()
        s.sendall(b"GET /_api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
        work.sockets.append(s)


def half_requests(work):
    s = work.server.connect()
    s.sendall(b"POST /_api/cursor HTTP/1.1\r\nHost: loc")
    work.sockets.append(s)
    work.raw("/_api/cursor", {"query": "RETURN 1"}, sent=5)
    work.raw("/v1/models/new", b"GGUF" * 1000, method="PUT", sent=2000)
    time.sleep(0.1)


def streams(work):
    for _ in range(3):
        assert work.raw("/v1/chat/completions", CHAT).recv(10)


def answers(work):
    work.post("/v1/chat/completions", {**CHAT, "stream": False}, times=5)
    work.until(lambda: work.status()["inference"]["running"] >= 5)


def queries_that_wait(work):
    """More calls than places, so some are in the queue of the models."""
    for i in range(8):
        work.post("/_api/cursor", {"query": f"FOR i IN 1..40 RETURN INFER('chat', CONCAT('{i} ', i))"})
    work.until(lambda: work.status()["inference"]["waiting"] > 0)


def queries_of_both_models(work):
    """The answers of one model are arguments for the other."""
    work.post("/_api/cursor", {"query": "FOR i IN 1..9 RETURN INFER('chat', TO_STRING("
                                        "LENGTH(EMBED('embed', CONCAT('hill ', i)))))"}, times=4)
    work.until(lambda: work.metric("themis_pending_embedding_requests") > 0)


def embeddings(work):
    work.post("/v1/embeddings", {"model": "embed", "input": [TEXT[:2000]] * 20}, times=4)
    work.until(lambda: work.metric("themis_pending_embedding_requests") > 0)


def imports(work):
    documents = [{"path": f"{i}.md", "format": "markdown", "text": TEXT + str(i)} for i in range(20)]
    work.post("/v1/import", {"documents": documents}, times=2)
    work.until(lambda: work.metric("themis_pending_embedding_requests") > 0)


def questions(work):
    work.server.request("POST", "/v1/import", json={"documents": [{"path": "a.txt", "text": TEXT[:400]}]})
    work.post("/v1/ask", {"question": "How high is hill 3?", "stream": True, "min_score": -1}, times=5)
    work.until(lambda: work.status()["inference"]["running"] > 0)


def full_queue(work):
    """Requests of all kinds behind a long query that holds the only worker; some take long to read."""
    work.raw("/_api/cursor", {"query": "FOR i IN 1..1000000000 FILTER i < 0 RETURN i"})
    time.sleep(0.2)
    long_chat = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "go " * 500000}]})
    for _ in range(5):
        work.raw("/v1/chat/completions", long_chat.encode())
        work.raw("/v1/chat/completions", CHAT)
        work.raw("/v1/embeddings", {"model": "embed", "input": "x"})
        work.raw("/v1/ask", {"question": "How high is hill 3?"})
        work.raw("/v1/import", {"documents": [{"path": "a.txt", "text": TEXT}]})
        work.raw("/_api/cursor", {"query": "RETURN INFER('chat', 'x')"})
        work.raw("/_admin/status", b"", method="GET")
        work.raw("/v1/models", b"", method="GET")
    time.sleep(0.5)


def clients_that_left(work):
    """With and without a reset, before and after the first byte."""
    bodies = {"/v1/chat/completions": CHAT,
              "/v1/ask": {"question": "How high is hill 3?", "stream": True},
              "/_api/cursor": {"query": "FOR i IN 1..40 RETURN INFER('chat', CONCAT('x', i))"},
              "/v1/import": {"documents": [{"path": "gone.txt", "text": TEXT}]}}
    work.server.request("POST", "/v1/import", json={"documents": [{"path": "a.txt", "text": TEXT[:400]}]})
    for path, body in bodies.items():
        for has_reset in (False, True):
            s = work.raw(path, body)
            time.sleep(0.05)
            if has_reset:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
    streams(work)
    while work.sockets:
        work.sockets.pop().close()


def unread_replies(work):
    for _ in range(3):
        work.raw("/_api/cursor", {"query": "FOR i IN 1..8 RETURN REPEAT('x', 1000000)"})
    time.sleep(0.5)


def open_cursors(work):
    for _ in range(3):
        assert work.server.aql("FOR i IN 1..100 RETURN i", batchSize=10)["hasMore"]


def make_things(server, count):
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.aql(f"FOR i IN 1..{count} INSERT {{n: i % 1000, text: REPEAT('x', 100)}} INTO things")


def index_build(work):
    make_things(work.server, 30000)
    commits = work.metric("themis_commits_total")
    work.post("/_api/index?collection=things", {"type": "persistent", "fields": ["n"], "name": "by_n"})
    work.until(lambda: work.metric("themis_commits_total") > commits + 2)


def loading_model(work):
    data = model_file("*MiniLM*.gguf").read_bytes()
    part = work.server.data / "models/.new.part"
    work.post("/v1/models/new", None, data=data, method="PUT")
    work.until(lambda: part.exists() and part.stat().st_size == len(data))


STAGES = [nothing, idle_connections, half_requests, streams, answers, queries_that_wait,
          queries_of_both_models, embeddings, imports, questions, full_queue, clients_that_left,
          unread_replies, open_cursors, index_build, loading_model]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("settings, signals", [
    (["drain_timeout_ms=0", "workers=1"], [signal.SIGTERM]),
    (["drain_timeout_ms=300", "workers=3"], [signal.SIGINT, signal.SIGTERM, signal.SIGTERM]),
], ids=["at_once", "after_a_while"])
def test_stop(start, stage, settings, signals):
    server = start(MODELS, settings=settings)
    work = Work(server)
    stage(work)
    for which in signals:
        if server.is_alive():
            server.process.send_signal(which)
            time.sleep(0.1 if len(signals) > 1 else 0)
    server.wait_stopped()
    assert "stopped" in server.log().splitlines()[-1]
    work.end()


# ---- while it starts ----

def wait_handled(server):
    """Until themisd takes care of the signal."""
    end = time.monotonic() + WAIT_S
    while True:
        status = open(f"/proc/{server.process.pid}/status").read()
        if int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) & 1 << signal.SIGTERM - 1:
            return
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("models", [SIM_MODELS, None], ids=["sim", "real"])
@pytest.mark.parametrize("delay_s", [0, 0.05, 0.3])
def test_stop_while_it_starts(start, models, delay_s):
    server = start(models or real_models(), is_ready=False)
    wait_handled(server)
    time.sleep(delay_s)
    server.process.terminate()
    server.wait_stopped()
    last = server.log().splitlines()[-1]
    assert last.endswith("stopped before it was ready" if delay_s == 0 else ("ready", "stopped")), last


def by_index(server):
    plan = server.request("POST", "/_api/explain", json={"query": COUNT_BY_N}).json()["plan"]
    return any(node["type"] == "IndexNode" for node in plan["nodes"])


COUNT_BY_N = "FOR t IN things FILTER t.n == 7 COLLECT WITH COUNT INTO c RETURN c"


def test_stop_during_recovery(start):
    """An index that a crash left unfinished is built at the start; a stop leaves it for the next one."""
    is_stopped = False
    for delay_s in (0.2, 0.1, 0.05, 0.3, 0.15):
        data = f"data{delay_s}"
        server = start({}, data=data)
        make_things(server, 30000)
        work = Work(server)
        work.post("/_api/index?collection=things", {"type": "persistent", "fields": ["n"]})
        time.sleep(delay_s)
        server.kill()
        work.end()
        second = start({}, data=data, is_ready=False)
        end = time.monotonic() + WAIT_S
        while not re.search("building index|listens", second.log()):
            assert time.monotonic() < end
            time.sleep(0.001)
        second.process.terminate()
        second.wait_stopped()
        is_stopped = "stopped before it was ready" in second.log()
        third = start({}, data=data)
        assert third.rows(COUNT_BY_N) == [30]
        if is_stopped:
            assert by_index(third), "the index was not built"
        third.stop()
        if is_stopped:
            break
    assert is_stopped, "no round was stopped while it built"
