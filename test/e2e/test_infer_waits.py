# SPDX-License-Identifier: Apache-2.0
"""Queries that wait for a model hold no worker: two workers serve 64 of them and others too."""
import concurrent.futures
import time

QUERIES = 64
CALLS = 4
WORDS = "one two three four five six seven eight nine ten"


def test_waiting_queries_hold_no_worker(start):
    server = start({"chat": f"sim:chat,decode=100,script={WORDS}"}, settings=["workers=2"])
    server.request("POST", "/_api/collection", json={"name": "things"})
    server.request("POST", "/_api/document/things", json={"_key": "a", "n": 1})
    query = f'FOR i IN 1..{CALLS} RETURN INFER("chat", CONCAT("x", i))'

    slowest, busiest, most_running, polls = 0, 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(QUERIES) as pool:
        jobs = [pool.submit(server.request, "POST", "/_api/cursor", json={"query": query}, timeout=120)
                for _ in range(QUERIES)]
        while not all(job.done() for job in jobs):
            began = time.monotonic()
            answer = server.request("GET", "/_api/document/things/a")
            slowest = max(slowest, time.monotonic() - began)
            assert answer.status_code == 200
            themis = server.request("GET", "/_admin/status").json()["themis"]
            assert themis["workers"]["threads"] == 2
            inference = themis["inference"]["running"] + themis["inference"]["waiting"]
            if inference > CALLS:
                polls += 1
                most_running = max(most_running, inference)
                busiest += themis["workers"]["busy"] - 1  # without the one that answers this
            time.sleep(0.02)
        answers = [job.result() for job in jobs]

    for answer in answers:
        assert answer.status_code == 201, answer.text
        assert answer.json()["result"] == [WORDS] * CALLS
        assert answer.json()["extra"]["stats"]["modelCalls"] == CALLS
    assert most_running > 2, "the calls never ran together: the test shows nothing"
    assert slowest < 2, f"a document took {slowest:.1f} s"
    assert busiest < polls, f"the workers were busy in {busiest} of {polls} looks"


def test_client_leaves_a_waiting_query(start):
    """The generation ends with its client."""
    server = start({"chat": "sim:chat,decode=5,script=" + "word " * 400}, settings=["workers=2"])
    body = b'{"query": "RETURN INFER(\'chat\', \'x\')"}'
    with server.connect() as s:
        s.sendall(f"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_running(server, 1)
    wait_running(server, 0)


def wait_running(server, count):
    end = time.monotonic() + 20
    while True:
        inference = server.request("GET", "/_admin/status").json()["themis"]["inference"]
        if inference["running"] + inference["waiting"] == count:
            return
        assert time.monotonic() < end, inference
        time.sleep(0.02)
