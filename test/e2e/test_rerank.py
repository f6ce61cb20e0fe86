# SPDX-License-Identifier: Apache-2.0
"""How near texts are, with the small embedding model, in the forms of Cohere and vLLM."""
import math

import pytest

QUERY = "Where does a cat sleep?"
DOCUMENTS = ["Interest rates rose in May.", "The cat sleeps on the sofa.", "A dog barks at night."]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def vectors(real, texts):
    answer = real.request("POST", "/v1/embeddings", json={"model": "embed", "input": texts}).json()
    return [item["embedding"] for item in answer["data"]]


def test_rerank(real):
    answer = real.request("POST", "/v1/rerank", json={"model": "embed", "query": QUERY, "documents": DOCUMENTS}).json()
    results = answer["results"]
    assert [r["index"] for r in results][0] == 1 and sorted(r["index"] for r in results) == [0, 1, 2]
    scores = [r["relevance_score"] for r in results]
    assert scores == sorted(scores, reverse=True)
    query, *documents = vectors(real, [QUERY, *DOCUMENTS])
    for r in results:
        assert r["relevance_score"] == pytest.approx(cosine(query, documents[r["index"]]), abs=1e-3)
    assert answer["usage"]["total_tokens"] > 20 and answer["model"] == "embed"
    best = real.request("POST", "/v1/rerank", json={"query": QUERY, "documents": [{"text": d} for d in DOCUMENTS],
                                                    "top_n": 1, "return_documents": True}).json()["results"]
    assert len(best) == 1 and best[0]["document"] == {"text": DOCUMENTS[1]}


def test_score(real):
    one = real.request("POST", "/v1/score", json={"model": "embed", "text_1": QUERY, "text_2": DOCUMENTS}).json()["data"]
    assert [d["index"] for d in one] == [0, 1, 2]
    assert max(one, key=lambda d: d["score"])["index"] == 1
    pairs = real.request("POST", "/v1/score", json={"text_1": DOCUMENTS, "text_2": DOCUMENTS}).json()["data"]
    assert all(d["score"] == pytest.approx(1, abs=1e-3) for d in pairs)


@pytest.mark.parametrize("path, body, word", [
    ("/v1/rerank", {"documents": ["a"]}, "'query'"),
    ("/v1/rerank", {"query": "a", "documents": []}, "'documents'"),
    ("/v1/rerank", {"query": "a", "documents": "b"}, "'documents'"),
    ("/v1/rerank", {"query": "a", "documents": ["b", 5]}, "'documents'"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": 0}, "'top_n'"),
    ("/v1/rerank", {"query": "a", "documents": ["b"] * 3000}, "2048"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "extra": 1}, "'extra'"),
    ("/v1/score", {"text_1": ["a", "b"], "text_2": ["c"]}, "'text_1'"),
    ("/v1/score", {"text_1": "a"}, "'text_2'"),
])
def test_bad_requests(sim, path, body, word):
    answer = sim.request("POST", path, json=body)
    assert answer.status_code == 400 and word in answer.json()["error"]["message"], answer.text
    missing = sim.request("POST", path, json={"model": "nothing", "query": "a", "documents": ["b"]}
                          if path.endswith("rerank") else {"model": "nothing", "text_1": "a", "text_2": "b"})
    assert missing.status_code == 404
