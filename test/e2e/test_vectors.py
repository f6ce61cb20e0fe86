# SPDX-License-Identifier: Apache-2.0
"""Vector indexes through python-arango: own vectors, and texts that the node embeds."""
import time
import uuid

import pytest
from arango import ArangoClient

NEAR = """FOR d IN @@c FILTER d.group == @group LET s = APPROX_NEAR_COSINE(d.v, @q)
          SORT s DESC LIMIT 3 RETURN {k: d._key, s: s}"""
NEAR_TEXT = """LET q = EMBED 'embed' @text FOR d IN @@c
               SORT APPROX_NEAR_COSINE(d.v, q) DESC LIMIT 1 RETURN d._key"""


@pytest.fixture
def collection(real):
    client = ArangoClient(hosts=real.url)
    db = client.db("_system", username="root", password="")
    name = "v" + uuid.uuid4().hex[:8]
    yield db, db.create_collection(name)
    db.delete_collection(name)
    client.close()


def figures(real, collection):
    answer = real.request("GET", "/_api/index", params={"collection": collection.name})
    return next(i for i in answer.json()["indexes"] if i["type"] == "vector")["figures"]


def test_nearest_of_a_group(collection):
    db, c = collection
    c.insert_many([{"_key": f"k{i}", "group": i % 2, "v": [1.0, i / 10]} for i in range(40)])
    c.add_index({"type": "vector", "fields": ["v"],
                 "params": {"metric": "cosine", "dimension": 2, "nLists": 2}})
    c.add_index({"type": "persistent", "fields": ["group"]})
    rows = list(db.aql.execute(NEAR, bind_vars={"@c": c.name, "group": 1, "q": [1, 0]}))
    assert [r["k"] for r in rows] == ["k1", "k3", "k5"]
    assert rows[0]["s"] == pytest.approx(0.995, abs=0.001)


def test_vectors_follow_texts(real, collection):
    db, c = collection
    c.add_index({"type": "vector", "fields": ["v"],
                 "params": {"metric": "cosine", "dimension": 384, "model": "embed",
                            "source": ["title", "text"]}})
    c.insert_many([{"_key": "ship", "title": "Harbour", "text": "The boat leaves at noon."},
                   {"_key": "bread", "title": "Bakery", "text": "Flour, water, salt and yeast."}])

    def nearest(text):
        deadline = time.monotonic() + 60
        while figures(real, c)["pendingTexts"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert figures(real, c)["embeddingError"] == ""
        return list(db.aql.execute(NEAR_TEXT, bind_vars={"@c": c.name, "text": text}))

    assert nearest("when does the ferry sail?") == ["ship"]
    assert nearest("how is a loaf made?") == ["bread"]
    c.update({"_key": "ship", "title": "Oven", "text": "Knead the dough, then bake the loaf."})
    db.aql.execute("REMOVE 'bread' IN @@c", bind_vars={"@c": c.name})
    assert nearest("how is a loaf made?") == ["ship"]


def test_texts_wait_for_a_missing_model(real, collection):
    _, c = collection
    c.add_index({"type": "vector", "fields": ["v"],
                 "params": {"metric": "cosine", "dimension": 384, "model": "elsewhere",
                            "source": ["text"]}})
    c.insert({"_key": "a", "text": "some words"})
    deadline = time.monotonic() + 30
    while not figures(real, c)["embeddingError"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "elsewhere" in figures(real, c)["embeddingError"]
    assert figures(real, c)["pendingTexts"] == 1
