# SPDX-License-Identifier: Apache-2.0
"""Compressed replies to real clients; compressed requests get a clear answer."""
import gzip
import json

import requests
from arango import ArangoClient
from test_tls import curl

QUERY = {"query": "FOR i IN 1..2000 RETURN {i, text: 'some words that repeat'}", "batchSize": 5000}


def test_requests(sim):
    """requests asks for gzip by itself, and unpacks."""
    packed = sim.request("POST", "/_api/cursor", json=QUERY)
    plain = sim.request("POST", "/_api/cursor", json=QUERY, headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert packed.json()["result"] == plain.json()["result"] and len(plain.json()["result"]) == 2000
    assert int(packed.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 5
    small = sim.request("GET", "/_api/version")
    assert "Content-Encoding" not in small.headers
    assert sim.request("GET", "/metrics").headers["Content-Encoding"] == "gzip"


def test_curl(sim):
    for words in ([], ["--http2-prior-knowledge"]):
        done = curl(sim, *words, "--compressed", "-D", "/dev/stderr", "-d", json.dumps(QUERY),
                    sim.url + "/_api/cursor")
        assert len(json.loads(done.stdout)["result"]) == 2000
        assert "content-encoding: gzip" in done.stderr.lower()


def test_python_arango(sim):
    client = ArangoClient(hosts=sim.url)
    db = client.db("_system", username="root", password="")
    assert sum(1 for _ in db.aql.execute("FOR i IN 1..5000 RETURN {i}", batch_size=1000)) == 5000
    client.close()


def test_events_are_not_packed(sim):
    with sim.request("POST", "/v1/chat/completions", stream=True,
                     json={"model": "chat", "stream": True,
                           "messages": [{"role": "user", "content": "go"}]}) as answer:
        assert "Content-Encoding" not in answer.headers
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert "[DONE]" in answer.text


def test_packed_request(sim):
    body = gzip.compress(json.dumps({"query": "RETURN 1"}).encode())
    answer = sim.request("POST", "/_api/cursor", data=body, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert "Content-Encoding" in answer.json()["errorMessage"]
    assert answer.headers["Accept-Encoding"] == "identity"
    assert requests.get(sim.url + "/livez", timeout=30).status_code == 200


def test_off(start):
    server = start(settings=["gzip_min_bytes=0"])
    answer = server.request("POST", "/_api/cursor", json=QUERY)
    assert "Content-Encoding" not in answer.headers and "Vary" not in answer.headers
