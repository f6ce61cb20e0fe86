# SPDX-License-Identifier: Apache-2.0
"""Nodes of a cluster: joining, seeing each other, ends of nodes, of etcd and of certificates."""
import json
import re
import subprocess

import pytest

from authority import Authority
from cluster import Cluster, wait_for
from conftest import SIM_MODELS, asan_server, cli

NOT_YET = "documents are not distributed yet"


@pytest.fixture(scope="module")
def quad(tmp_path_factory):
    """Four nodes that stay."""
    c = Cluster(tmp_path_factory.mktemp("quad"), 4)
    try:
        for _ in range(4):
            c.add(SIM_MODELS)
        c.wait_whole()
        yield c
    finally:
        c.stop()


@pytest.fixture
def make(tmp_path):
    """make(nodes, ...) -> Cluster whose nodes may come and go."""
    made = []

    def start(size, models=None, **options):
        c = Cluster(tmp_path, size + 1)
        made.append(c)
        for _ in range(size):
            c.add(models, **options)
        c.wait_whole()
        return c

    yield start
    for c in made:
        c.stop()


# ---- joining ----

def test_every_node_sees_every_other(quad):
    epochs = set()
    boots = {n.id: n.status()["boot"] for n in quad.nodes}
    assert len(set(boots.values())) == 4
    for node in quad.nodes:
        status = node.status()
        assert status["cluster"] == "test" and status["node"] == node.id and status["etcd"]
        assert [n["id"] for n in status["nodes"]] == ["n1", "n2", "n3", "n4"]
        assert [n["number"] for n in status["nodes"]] == [1, 2, 3, 4]
        assert [n["slots"] for n in status["nodes"]] == [1024] * 4
        for other in status["nodes"]:
            assert other["state"] == ("self" if other["id"] == node.id else "up")
            assert other["registered"] and other["boot"] == boots[other["id"]]
            assert sorted(other["models"]) == ["chat", "embed"]
        epochs.add(status["epoch"])
    assert len(epochs) == 1


def test_the_shell_shows_the_nodes(quad):
    shown = cli(quad.nodes[1].server, "cluster", "status").stdout
    assert "seen from n2" in shown and "etcd reachable" in shown
    assert [line.split()[:3] for line in shown.splitlines()[2:]] == [
        ["n1", "up", "1024"], ["n2", "self", "1024"], ["n3", "up", "1024"], ["n4", "up", "1024"]]
    raw = json.loads(cli(quad.nodes[0].server, "--json", "cluster", "status").stdout)
    assert len(raw["nodes"]) == 4


def test_a_node_alone_says_so(start):
    server = start()
    answer = server.request("GET", "/_admin/cluster")
    assert answer.status_code == 404 and "--cluster" in answer.json()["errorMessage"]
    answer = server.request("POST", "/v1/chat/completions", headers={"x-themis-shard": "n1"},
                            json={"messages": [{"role": "user", "content": "x"}]})
    assert answer.status_code == 400 and "alone" in answer.json()["error"]["message"]


GOOD = {"--cluster": "test", "--node-id": "n1", "--etcd": "http://127.0.0.1:9",
        "--cluster-listen": "127.0.0.1:0", "--certs": "CERTS/n1"}


@pytest.mark.parametrize("change,message", [
    ({"--node-id": None}, "--cluster needs --node-id"),
    ({"--etcd": None}, "--cluster needs --etcd"),
    ({"--certs": None}, "--cluster needs --certs"),
    ({"--cluster": None}, "is for nodes of a cluster"),
    ({"--node-id": "N1"}, "--node-id takes"),
    ({"--cluster": "a/b"}, "--cluster takes"),
    ({"--cluster-listen": "127.0.0.1"}, "--cluster-listen takes HOST:PORT"),
    ({"--advertise": "host:0"}, "--advertise takes HOST:PORT"),
    ({"--public-url": "ftp://x"}, "--public-url takes a URL"),
    ({"--etcd": "127.0.0.1:2379"}, "must begin with http"),
    ({"--etcd": "http://203.0.113.1:2379"}, "plain HTTP on another machine"),
    ({"--node-id": "n2"}, "is for the node 'n1', not for 'n2'"),
    ({"--certs": "/nowhere"}, "/nowhere/node.crt cannot be used"),
    ({"--cluster-listen": "0.0.0.0:0"}, "--advertise must say"),
    ({"--set": "cluster_data=remote"}, "cluster_data must be off or local"),
])
def test_wrong_flags_end_the_start(tmp_path, quad, change, message):
    flags = {**GOOD, **change}
    words = [w for name, value in flags.items() if value
             for w in (name, value.replace("CERTS", str(quad.certs)))]
    done = subprocess.run([asan_server(), "--data", tmp_path / "data", "--listen", "127.0.0.1:0",
                           *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


def test_a_second_node_of_an_id_is_refused(quad, tmp_path):
    done = subprocess.run(
        [asan_server(), "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--cluster", "test",
         "--node-id", "n1", "--etcd", quad.etcd.url, "--cluster-listen", "127.0.0.1:0", "--certs",
         quad.certs / "n1"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "a node n1 runs already at" in done.stderr


def test_without_etcd_a_node_does_not_start(quad, tmp_path):
    done = subprocess.run(
        [asan_server(), "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--cluster", "test",
         "--node-id", "n1", "--etcd", "http://127.0.0.1:9", "--cluster-listen", "127.0.0.1:0",
         "--certs", quad.certs / "n1", "--set", "cluster_join_ms=500"],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "cannot join the cluster test" in done.stderr and "is etcd running?" in done.stderr


# ---- who may speak to whom ----

def curl(node, path, *words, name=None):
    """The status and the body of a call to the port of the cluster."""
    port = node.cluster_port
    done = subprocess.run(
        ["curl", "-sS", "--http2", "--cacert", node.cluster.certs / "ca.crt", "--resolve",
         f"{node.id}:{port}:127.0.0.1", "-w", "\n%{http_code}", *map(str, words),
         f"https://{name or node.id}:{port}{path}"], capture_output=True, text=True, errors="replace", timeout=60)
    body, _, status = done.stdout.rpartition("\n")
    return done.returncode, int(status or 0), body


def own_certificate(node):
    own = node.cluster.certs / node.id
    return "--cert", own / "node.crt", "--key", own / "node.key"


def test_the_port_of_the_cluster_knows_nodes_only(quad, tmp_path):
    n1, n2 = quad.nodes[:2]
    call = ("-X", "POST", "-H", "themis-cluster: test", "-d", "")
    assert curl(n1, "/rpc/hello", *own_certificate(n2), *call)[1] == 200
    # nobody, somebody of another authority, and one of ours that is no node
    assert curl(n1, "/rpc/hello", *call)[0] != 0
    stranger = Authority(tmp_path).issue("n2", names="DNS:n2")
    assert curl(n1, "/rpc/hello", "--cert", stranger.cert, "--key", stranger.key, *call)[0] != 0
    quad.make_certs(5)
    fifth = quad.certs / "n5"
    rc, status, body = curl(n1, "/rpc/hello", "--cert", fifth / "node.crt", "--key",
                            fifth / "node.key", *call)
    assert (rc, status) == (0, 403) and "no node 'n5'" in body
    rc, status, body = curl(n1, "/rpc/hello", *own_certificate(n2), "-H", "themis-cluster: other",
                            "-d", "")
    assert (rc, status) == (0, 403) and "other" in body
    log = n1.server.log()
    assert "warn cluster refused 127.0.0.1" in log
    metrics = n1.server.request("GET", "/metrics").text
    assert int(re.search(r"^themis_cluster_refused_total (\d+)$", metrics, re.M)[1]) >= 4


def test_no_public_route_there_and_no_call_here(quad):
    n1, n2 = quad.nodes[:2]
    for path in ("/_api/version", "/", "/metrics", "/v1/models", "/_admin/cluster"):
        assert curl(n1, path, *own_certificate(n2), "-H", "themis-cluster: test")[1] == 404
    assert curl(n1, "/rpc/hello", *own_certificate(n2), "-H", "themis-cluster: test")[1] == 405
    for path in ("/rpc/hello", "/rpc/generate"):
        assert n1.server.request("POST", path).status_code == 404


def test_a_new_certificate_needs_no_start(make):
    c = make(2, settings=("cluster_ping_ms=200",))
    c.make_certs(2)
    for node in c.nodes:
        wait_for(lambda: "node.crt was read again" in node.server.log(), "the certificate is read")
    c.nodes[1].kill()
    wait_for(lambda: c.nodes[0].sees(c.nodes[1])["state"] == "down", "n2 is down")
    c.nodes[1].start()
    c.wait_whole()


# ---- data ----

DATA_REQUESTS = [
    ("POST", "/_api/collection", {"name": "c"}),
    ("GET", "/_api/collection", None),
    ("POST", "/_api/document/c", {}),
    ("GET", "/_api/document/c/1", None),
    ("GET", "/_api/index?collection=c", None),
    ("POST", "/_api/gharial", {"name": "g"}),
    ("POST", "/_api/import?collection=c&type=documents", None),
    ("POST", "/_api/transaction/begin", {"collections": {}}),
    ("POST", "/_api/database", {"name": "d"}),
    ("POST", "/_api/user", {"user": "u"}),
    ("GET", "/_api/changes", None),
    ("POST", "/_admin/backup/create", {}),
    ("POST", "/v1/ask", {"question": "?"}),
    ("POST", "/v1/import", {"documents": []}),
    ("POST", "/mcp", {}),
    ("POST", "/_api/cursor", {"query": "FOR d IN c RETURN d"}),
    ("POST", "/_api/cursor", {"query": "FOR d IN @@c RETURN d", "bindVars": {"@c": "c"}}),
    ("POST", "/_api/cursor", {"query": "INSERT {} INTO c"}),
    ("POST", "/_api/explain", {"query": "FOR d IN c RETURN d"}),
]


@pytest.mark.parametrize("method,path,body", DATA_REQUESTS,
                         ids=[f"{m} {p} {i}" for i, (m, p, _) in enumerate(DATA_REQUESTS)])
def test_data_are_refused_as_long_as_they_are_not_distributed(quad, method, path, body):
    answer = quad.nodes[0].server.request(method, path, json=body)
    assert answer.status_code == 501, answer.text
    if path.startswith("/v1/"):
        assert answer.json()["error"]["message"] == NOT_YET
    else:
        assert answer.json()["errorNum"] == 9 and answer.json()["errorMessage"] == NOT_YET
    assert "x-themis-data" not in answer.headers


def test_what_needs_no_documents_is_answered(quad):
    server = quad.nodes[2].server
    assert server.rows("FOR i IN 1..3 RETURN i") == [1, 2, 3]
    assert server.rows("RETURN INFER('chat', 'one two three', {max_tokens: 3})")
    assert server.request("GET", "/_api/database/current").status_code == 200
    answer = server.request("POST", "/v1/embeddings", json={"input": "x"})
    assert answer.status_code == 200
    answer = server.request("POST", "/v1/chat/completions", json={
        "messages": [{"role": "user", "content": "x"}], "retrieval": True})
    assert answer.status_code == 501


def test_local_data_are_answered_and_marked(make):
    c = make(1, settings=("cluster_data=local",))
    server = c.nodes[0].server
    made = server.request("POST", "/_api/collection", json={"name": "c"})
    assert made.status_code == 200 and made.headers["x-themis-data"] == "local"
    done = server.request("POST", "/_api/cursor", json={"query": "INSERT {a: 1} INTO c RETURN NEW.a"})
    assert done.json()["result"] == [1] and done.headers["x-themis-data"] == "local"
    missing = server.request("GET", "/_api/document/c/none")
    assert missing.status_code == 404 and missing.headers["x-themis-data"] == "local"
    assert "x-themis-data" not in server.request("GET", "/_api/version").headers


# ---- nodes that end ----

def test_a_killed_node_is_seen_and_comes_back_as_another(make):
    c = make(3)
    first, gone = c.nodes[0], c.nodes[2]
    boot, epoch = first.sees(gone)["boot"], first.status()["epoch"]
    gone.kill()
    for node in c.nodes[:2]:
        wait_for(lambda: node.sees(gone)["state"] == "down", f"{node.id} sees that n3 is down")
        assert node.sees(gone)["why"]
    assert first.status()["epoch"] == epoch  # its slots stay with it
    gone.start()
    c.wait_whole()
    assert first.sees(gone)["boot"] not in ("", boot)
    assert first.sees(gone)["boot"] == gone.status()["boot"]
    assert first.status()["epoch"] == epoch
    assert "has started again" in first.server.log()


def test_a_silent_node_is_seen(make):
    c = make(2)
    first, silent = c.nodes
    silent.pause()
    seen = wait_for(lambda: first.sees(silent)["state"] == "down" and first.sees(silent),
                    "n2 is down")
    assert "PING" in seen["why"]
    silent.resume()
    c.wait_whole()


def test_a_node_that_ends_leaves(make):
    c = make(2)
    first, leaver = c.nodes
    leaver.server.stop()
    wait_for(lambda: not first.sees(leaver)["registered"], "n2 is not registered any more")
    assert first.sees(leaver)["state"] == "down"


# ---- etcd that ends ----

def test_without_etcd_the_last_topology_serves(make):
    c = make(2, settings=("cluster_lease_s=2",))
    first, second = c.nodes
    epoch = first.status()["epoch"]
    c.etcd.stop()
    for node in c.nodes:
        wait_for(lambda: not node.status()["etcd"], f"{node.id} misses etcd")
    assert first.sees(second)["state"] == "up" and first.status()["epoch"] == epoch
    assert first.chat("one two", shard=second).headers["x-themis-shard"] == "n2"
    assert c.etcd.start()
    for node in c.nodes:
        wait_for(lambda: node.status()["etcd"], f"{node.id} has etcd again")
        wait_for(lambda: all(n["registered"] for n in node.status()["nodes"]), "both are registered")
    c.add()
    c.wait_whole()
    assert first.status()["epoch"] == epoch + 1


def test_an_emptied_etcd_gets_the_topology_back(make):
    c = make(2, settings=("cluster_lease_s=2",))
    first = c.nodes[0]
    c.etcd.stop()
    c.etcd.empty()
    assert c.etcd.start()
    for node in c.nodes:
        wait_for(lambda: node.status()["etcd"] and
                 all(n["registered"] for n in node.status()["nodes"]), "both are registered again")
    slots = [n["slots"] for n in first.status()["nodes"]]
    c.add()
    c.wait_whole()
    assert slots == [2048, 2048]
    assert sorted(n["slots"] for n in first.status()["nodes"]) == [1365, 1365, 1366]
