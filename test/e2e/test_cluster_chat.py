# SPDX-License-Identifier: Apache-2.0
"""Generations that another node answers: token by token, cancelled, lost, retried."""
import json

import pytest

from cluster import Cluster, wait_for
from conftest import cli

SLOW = {"chat": "sim:chat,decode=20"}
WORDS = " ".join(f"word{i}" for i in range(40))


@pytest.fixture
def make(tmp_path):
    made = []

    def start(size, models=None, **options):
        c = Cluster(tmp_path, size)
        made.append(c)
        for _ in range(size):
            c.add(models, **options)
        c.wait_whole()
        return c

    yield start
    for c in made:
        c.stop()


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    c = Cluster(tmp_path_factory.mktemp("trio"), 3)
    try:
        for _ in range(3):
            c.add()
        c.wait_whole()
        yield c
    finally:
        c.stop()


def events(answer):
    for line in answer.iter_lines():
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            yield json.loads(line[6:])


def text_of(answer):
    return answer.json()["choices"][0]["message"]["content"]


def test_each_node_answers_for_each(trio):
    texts = set()
    for entry in trio.nodes:
        for target in trio.nodes:
            answer = entry.chat("green ideas sleep", shard=target)
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-themis-shard"] == target.id
            assert answer.headers["x-themis-route"] == "named"
            assert answer.json()["usage"]["completion_tokens"] > 0
            texts.add(text_of(answer))
    assert len(texts) == 1  # here and there the same


def test_a_conversation_stays_with_the_owner_of_its_slot(trio):
    shards = set()
    for i in range(24):
        one, other = (node.chat(f"question {i}") for node in trio.nodes[:2])
        assert one.headers["x-themis-route"] == other.headers["x-themis-route"] == "slot"
        assert one.headers["x-themis-shard"] == other.headers["x-themis-shard"]
        shards.add(one.headers["x-themis-shard"])
    assert shards == {"n1", "n2", "n3"}


def test_a_domain_has_one_owner(trio):
    shards = {trio.nodes[i % 3].chat(f"text {i}", domain="legal").headers["x-themis-shard"]
              for i in range(6)}
    assert len(shards) == 1


def test_options_travel(trio):
    n1, _, n3 = trio.nodes
    for options in ({"max_tokens": 2}, {"stop": ["two"]}, {"seed": 7, "temperature": 1},
                    {"logprobs": True, "top_logprobs": 2}, {"logit_bias": {"5": -100}}):
        here, there = (n1.chat("one two three four", shard=n, **options).json() for n in (n1, n3))
        assert here["choices"] == there["choices"], options
        assert here["usage"] == there["usage"]


def test_mistakes_are_told(trio):
    n1, n2, _ = trio.nodes
    answer = n1.chat("x", shard=type("Unknown", (), {"id": "n9"}))
    assert answer.status_code == 404 and "n9" in answer.json()["error"]["message"]
    body = {"model": "none", "messages": [{"role": "user", "content": "x"}]}
    answer = n1.server.request("POST", "/v1/chat/completions", json=body,
                               headers={"x-themis-shard": "n2"})
    assert answer.status_code == 404
    answer = n1.chat("x " * 20000, shard=n2)  # longer than the context; said by the other node
    assert answer.status_code == 400 and "context" in answer.json()["error"]["message"]
    assert answer.headers["x-themis-shard"] == "n2"


def test_tokens_come_one_by_one(make):
    c = make(2, SLOW)
    answer = c.nodes[0].chat(WORDS, shard=c.nodes[1], stream=True, max_tokens=20)
    assert answer.headers["x-themis-shard"] == "n2"
    pieces = []
    for event in events(answer):
        text = event["choices"][0]["delta"].get("content")
        if text and not pieces:
            assert c.nodes[1].running() == 1  # it goes on there
        pieces += [text] if text else []
    assert len(pieces) >= 5


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_the_work_there(make, stream):
    c = make(2, {"chat": "sim:chat,decode=5"})
    first, second = c.nodes
    if stream:
        answer = first.chat(WORDS, shard=second, stream=True)
        next(events(answer))
        answer.close()
    else:
        with first.server.connect() as s:
            body = json.dumps({"messages": [{"role": "user", "content": WORDS}]})
            s.sendall((f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                       f"x-themis-shard: n2\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
            wait_for(lambda: second.running() == 1, "n2 generates")
    wait_for(lambda: second.running() == 0, "n2 has stopped", limit_s=60)
    log = second.server.request("GET", "/metrics").text
    assert "themis_http_cancelled_total 1" in log


def test_the_model_may_be_elsewhere_only(make):
    cluster = make(1, {})
    cluster.make_certs(2)
    cluster.add({"chat": "sim:chat"})
    cluster.wait_whole()
    first = cluster.nodes[0]
    wait_for(lambda: "chat" in first.sees(cluster.nodes[1]).get("models", []), "the model is known")
    answer = first.chat("one two")
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-themis-shard"] == "n2" and text_of(answer)


def owner_of(node, text):
    return node.chat(text, max_tokens=1).headers["x-themis-shard"]


def question_owned_by(node, owner):
    return next(text for text in (f"{WORDS} {i}" for i in range(1000))
                if owner_of(node, text) == owner.id)


def test_before_the_first_token_another_node_is_asked(make):
    c = make(2)
    first, second = c.nodes
    text = question_owned_by(first, second)
    expected = text_of(first.chat(text, shard=first))
    second.pause()  # it takes the request and says nothing
    answer = first.chat(text)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-themis-shard"] == "n1"
    assert answer.headers["x-themis-route"] == "fallback"
    assert text_of(answer) == expected
    metrics = first.server.request("GET", "/metrics").text
    assert "themis_cluster_retries_total 1" in metrics
    named = first.chat(text, shard=second)  # who names a node gets that one or none
    assert named.status_code == 503 and "n2" in named.json()["error"]["message"]


def test_after_the_first_token_the_answer_ends_with_an_error(make):
    c = make(2, {"chat": "sim:chat,decode=5"})
    first, second = c.nodes
    answer = first.chat(WORDS, shard=second, stream=True)
    got = []
    for event in events(answer):
        got.append(event)
        if len(got) == 3:
            second.kill()
    assert "error" in got[-1] and "broke off" in got[-1]["error"]["message"]
    assert "n2" in got[-1]["error"]["message"]


def test_a_running_answer_survives_the_drain(make):
    c = make(2, SLOW)
    first, second = c.nodes
    answer = first.chat(WORDS, shard=second, stream=True, max_tokens=30)
    stream = events(answer)
    next(stream)
    second.server.process.terminate()
    finish = [e["choices"][0]["finish_reason"] for e in stream][-1]
    assert finish in ("stop", "length")
    second.server.wait_stopped()
    assert first.chat("x", shard=second).status_code == 503


def test_a_node_that_fails_every_call_is_left_alone_for_a_while(make):
    # PING is patient here: the node is there, and does not do its work
    c = make(2, settings=("failure_threshold=1", "breaker_open_ms=3000", "request_timeout_ms=500",
                          "cluster_ping_misses=100"))
    first, second = c.nodes
    second.pause()
    assert first.chat("x", shard=second).status_code == 408
    assert wait_for(lambda: first.sees(second)["breaker"] == "open", "the breaker is open")
    assert "its circuit breaker is open" in cli(first.server, "cluster", "status").stdout
    refused = first.chat("x", shard=second)
    assert refused.status_code == 503
    second.resume()
    c.wait_whole()
    wait_for(lambda: first.chat("x", shard=second).status_code == 200, "a call got through")
    assert first.sees(second)["breaker"] == "closed"


def test_tools_and_schemas_are_answered_where_they_arrive(trio):
    n1, n2, _ = trio.nodes
    shape = {"response_format": {"type": "json_object"}}
    away = n1.chat("x", shard=n2, **shape)
    assert away.status_code == 501 and "another node" in away.json()["error"]["message"]
    here = n1.chat("x", **shape)
    assert here.status_code == 200, here.text
    assert here.headers["x-themis-shard"] == "n1" and here.headers["x-themis-route"] == "local"
