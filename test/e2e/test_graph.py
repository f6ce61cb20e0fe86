# SPDX-License-Identifier: Apache-2.0
"""Named graphs through python-arango, and queries over them."""
import uuid

import pytest
from arango import ArangoClient
from arango.exceptions import (DocumentDeleteError, DocumentInsertError, DocumentRevisionError,
                               EdgeDefinitionCreateError, EdgeDefinitionDeleteError,
                               GraphCreateError, GraphDeleteError, VertexCollectionCreateError,
                               VertexCollectionDeleteError)


@pytest.fixture(scope="module")
def db(real):
    client = ArangoClient(hosts=real.url)
    system = client.db("_system", username="root", password="")
    name = "graph_" + uuid.uuid4().hex[:8]
    system.create_database(name)
    yield client.db(name, username="root", password="")
    system.delete_database(name)
    client.close()


@pytest.fixture
def school(db):
    graph = db.create_graph("school", edge_definitions=[{
        "edge_collection": "teaches",
        "from_vertex_collections": ["teachers"],
        "to_vertex_collections": ["lectures"],
    }], orphan_collections=["rooms"])
    yield graph
    db.delete_graph("school", drop_collections=True, ignore_missing=True)


def test_definition(db, school):
    assert db.has_graph("school") and not db.has_graph("other")
    properties = school.properties()
    assert properties["id"] == "_graphs/school" and properties["name"] == "school"
    assert school.vertex_collections() == ["lectures", "rooms", "teachers"]
    assert school.edge_collections() == ["teaches"]
    assert [g["name"] for g in db.graphs()] == ["school"]
    assert db.collection("teaches").properties()["edge"]
    with pytest.raises(GraphCreateError) as error:
        db.create_graph("school")
    assert error.value.error_code == 1925
    with pytest.raises(GraphDeleteError) as error:
        db.delete_graph("other")
    assert error.value.error_code == 1924


def test_changes_of_the_definition(db, school):
    school.create_vertex_collection("floors")
    with pytest.raises(VertexCollectionCreateError) as error:
        school.create_vertex_collection("floors")
    assert error.value.error_code == 1938
    with pytest.raises(VertexCollectionCreateError) as error:
        school.create_vertex_collection("teachers")
    assert error.value.error_code == 1929
    with pytest.raises(VertexCollectionDeleteError) as error:
        school.delete_vertex_collection("teachers")
    assert error.value.error_code == 1928
    school.create_edge_definition("holds", ["floors"], ["rooms"])
    assert "floors" in school.vertex_collections()
    with pytest.raises(EdgeDefinitionCreateError) as error:
        school.create_edge_definition("holds", ["floors"], ["rooms"])
    assert error.value.error_code == 1920
    with pytest.raises(EdgeDefinitionCreateError) as error:
        school.create_edge_definition("teachers", ["floors"], ["rooms"])
    assert error.value.error_code == 1944
    school.replace_edge_definition("holds", ["rooms"], ["desks"])
    definitions = {d["edge_collection"]: d for d in school.edge_definitions()}
    assert definitions["holds"]["to_vertex_collections"] == ["desks"]
    assert "floors" in school.properties()["orphan_collections"]
    with pytest.raises(EdgeDefinitionDeleteError) as error:
        school.delete_edge_definition("nothing")
    assert error.value.error_code == 1930
    assert school.delete_edge_definition("holds", purge=True)
    assert not db.has_collection("holds") and db.has_collection("desks")
    assert school.delete_vertex_collection("floors", purge=True)
    assert not db.has_collection("floors")


def test_an_edge_collection_means_one_thing(db, school):
    with pytest.raises(GraphCreateError) as error:
        db.create_graph("copy", edge_definitions=[{
            "edge_collection": "teaches", "from_vertex_collections": ["teachers"],
            "to_vertex_collections": ["rooms"]}])
    assert error.value.error_code == 1921
    copy = db.create_graph("copy", edge_definitions=[{
        "edge_collection": "teaches", "from_vertex_collections": ["teachers"],
        "to_vertex_collections": ["lectures"]}])
    school.replace_edge_definition("teaches", ["teachers"], ["lectures", "rooms"])
    assert copy.edge_definitions()[0]["to_vertex_collections"] == ["lectures", "rooms"]
    db.delete_graph("copy", drop_collections=True)
    assert db.has_collection("teaches") and db.has_collection("teachers")


def test_vertices_and_edges(db, school):
    teachers, lectures = school.vertex_collection("teachers"), school.vertex_collection("lectures")
    edges = school.edge_collection("teaches")
    made = teachers.insert({"_key": "jon", "name": "Jon"}, return_new=True)
    assert made["vertex"]["_key"] == "jon" and made["new"]["name"] == "Jon"
    lectures.insert({"_key": "CS1"})
    lectures.insert({"_key": "CS2"})
    edges.insert({"_key": "a", "_from": "teachers/jon", "_to": "lectures/CS1"})
    edges.link("teachers/jon", "lectures/CS2", data={"_key": "b"})
    assert edges.get("a")["_to"] == "lectures/CS1"
    for bad, number in [({"_from": "teachers/jon", "_to": "lectures/none"}, 1202),
                        ({"_from": "teachers/jon", "_to": "elsewhere/1"}, 1947),
                        ({"_from": "lectures/CS1", "_to": "lectures/CS2"}, 1906),
                        ({"_from": "teachers/jon"}, 1233)]:
        with pytest.raises(DocumentInsertError) as error:
            edges.insert(bad)
        assert error.value.error_code == number
    changed = edges.update({"_key": "a", "online": True}, return_old=True)
    assert "online" not in changed["old"] and changed["edge"]["_old_rev"]
    with pytest.raises(DocumentRevisionError):
        teachers.get("jon", rev="stale")
    with pytest.raises(DocumentRevisionError):
        teachers.replace({"_key": "jon", "_rev": "stale"})
    found = edges.edges("teachers/jon", direction="out")
    assert sorted(e["_key"] for e in found["edges"]) == ["a", "b"]
    assert edges.edges("teachers/jon", direction="in")["edges"] == []

    assert lectures.delete("CS1")
    assert edges.get("a") is None and edges.get("b")
    with pytest.raises(DocumentDeleteError) as error:
        lectures.delete("CS1")
    assert error.value.error_code == 1202
    assert lectures.delete("CS1", ignore_missing=True) is False
    assert teachers.delete("jon", return_old=True)["old"]["name"] == "Jon"
    assert len(db.collection("teaches")) == 0


def test_a_vertex_in_a_stream_transaction(db, school):
    school.vertex_collection("teachers").insert({"_key": "t"})
    school.vertex_collection("lectures").insert({"_key": "l"})
    school.edge_collection("teaches").insert({"_from": "teachers/t", "_to": "lectures/l"})
    txn = db.begin_transaction(write=["teachers", "lectures", "teaches"])
    txn.graph("school").vertex_collection("teachers").delete("t")
    assert len(db.collection("teaches")) == 1
    assert len(txn.collection("teaches")) == 0
    txn.abort_transaction()
    assert school.vertex_collection("teachers").has("t")


def test_queries_over_the_graph(db, school):
    for key in "ab":
        school.vertex_collection("teachers").insert({"_key": key})
    for key in "xyz":
        school.vertex_collection("lectures").insert({"_key": key})
    for a, b in ["ax", "ay", "by", "bz"]:
        school.edge_collection("teaches").link(f"teachers/{a}", f"lectures/{b}")

    def rows(query, **bind):
        return list(db.aql.execute(query, bind_vars=bind))

    assert rows("FOR v IN OUTBOUND 'teachers/a' GRAPH 'school' SORT v._key RETURN v._key") == ["x", "y"]
    assert rows("FOR v IN ANY SHORTEST_PATH 'lectures/x' TO 'lectures/z' GRAPH @g RETURN v._key",
                g="school") == ["x", "a", "y", "b", "z"]
    assert rows("FOR p IN ANY K_SHORTEST_PATHS 'lectures/x' TO 'lectures/z' GRAPH 'school' LIMIT 1 "
                "RETURN p.weight") == [4]
    assert rows("FOR v, e, p IN 1..4 ANY 'lectures/x' teaches OPTIONS {order: 'bfs', "
                "uniqueVertices: 'global'} RETURN LENGTH(p.edges)") == [1, 2, 3, 4]
