# SPDX-License-Identifier: Apache-2.0
"""AQL functions that need a server: SLEEP waits without a worker, CURRENT_USER knows who asks."""
import concurrent.futures
import time

import requests


def test_sleeping_queries_hold_no_worker(start):
    server = start({}, settings=["workers=2"])
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(server.aql, "FOR i IN 1..2 RETURN SLEEP(2)") for _ in range(16)]
        time.sleep(0.3)
        assert server.rows("RETURN 1") == [1]
        assert not any(job.done() for job in jobs), "the workers were held until the sleep was over"
        answers = [job.result() for job in jobs]
    took = time.monotonic() - began
    # Two workers that slept themselves would need 32 seconds.
    assert 4 <= took < 20, f"16 queries of four seconds took {took:.1f} s"
    for answer in answers:
        assert answer["result"] == [None, None]
        assert answer["extra"]["stats"].get("modelCalls", 0) == 0


def test_sleep_ends_with_its_limits(start):
    server = start({}, settings=["workers=2"])
    began = time.monotonic()
    answer = server.request("POST", "/_api/cursor",
                            json={"query": "RETURN SLEEP(30)", "options": {"maxRuntime": 0.3}})
    assert answer.json()["errorNum"] == 1500, answer.text
    assert time.monotonic() - began < 10
    for text, number in (("RETURN SLEEP(-1)", 1542), ("RETURN SLEEP('x')", 1542),
                         ("RETURN SLEEP(1e9)", 10)):
        assert server.request("POST", "/_api/cursor",
                              json={"query": text}).json()["errorNum"] == number
    assert server.rows("RETURN false && SLEEP(20)") == [False]
    # The server stops at once although somebody still sleeps.
    with server.connect() as s:
        body = b'{"query": "RETURN SLEEP(600)"}'
        s.sendall(b"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                  % len(body) + body)
        time.sleep(0.2)


def test_current_user(start):
    server = start({}, settings=["auth=on"], env={"THEMIS_ROOT_PASSWORD": "secret"})
    answer = requests.post(server.url + "/_api/cursor", json={"query": "RETURN CURRENT_USER()"},
                           auth=("root", "secret"), timeout=30)
    assert answer.json()["result"] == ["root"]


def test_current_user_is_null_when_nobody_is_asked(start):
    assert start({}).rows("RETURN CURRENT_USER()") == [None]
