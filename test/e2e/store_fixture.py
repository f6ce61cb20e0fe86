#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stores written by older programs, kept in test/fixtures/stores: NAME.tar.gz and what is in it, NAME.json.

    store_fixture.py THEMISD NAME

writes a pair with that program, before the bytes on disk change. The store is left as kill -9 leaves it, with commits
that are only in the write-ahead log. test_upgrade.py opens each one.
"""
import io
import json
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import requests

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "fixtures/stores"
VALUES = [None, True, False, 0, -1, 15, 16, 1 << 40, -(1 << 62), 0.5, -1e300, "", "ä", "a" * 200, [], [1, "a", [None]],
          [0.5, 0.25, 1.5, 2.5, 3.5], {}, {"a": {"b": [1]}}]


class Node:
    def __init__(self, binary, data):
        self.log = data.with_name(data.name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([binary, "--data", data, "--listen", "127.0.0.1:0", "--set", "memtables_mb=8"],
                                            stdout=log, stderr=log)
        while " listens on " not in self.log.read_text().split("stopped\n")[-1]:
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.url = "http" + self.log.read_text().split(" listens on http")[-1].split(",")[0]

    def call(self, method, path, body=None):
        answer = requests.request(method, self.url + path, json=body, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json()


def fill(call):
    call("POST", "/_api/collection", {"name": "values"})
    call("POST", "/_api/document/values", [{"_key": f"v{i}", "v": v} for i, v in enumerate(VALUES)])
    call("POST", "/_api/index?collection=values", {"type": "persistent", "fields": ["v"], "name": "by_v"})
    call("POST", "/_api/collection", {"name": "things", "keyOptions": {"type": "autoincrement", "offset": 7}})
    call("POST", "/_api/document/things", [{"n": i % 5, "u": i, "tags": [f"t{i % 3}", f"t{i % 4}"],
                                            "e": [i % 7, i % 3, 1.0]} for i in range(60)])
    for index in ({"type": "persistent", "fields": ["u"], "unique": True, "name": "by_u"},
                  {"type": "persistent", "fields": ["tags[*]"], "name": "by_tag"},
                  {"type": "persistent", "fields": ["n", "u"], "sparse": True, "storedValues": ["tags"], "name": "by_n"},
                  {"type": "vector", "fields": ["e"], "name": "by_e", "params": {"metric": "l2", "dimension": 3}}):
        call("POST", "/_api/index?collection=things", index)
    call("POST", "/_api/collection", {"name": "links", "type": 3})
    call("POST", "/_api/document/links", [{"_from": f"values/v{i}", "_to": f"things/{i + 7}", "n": i} for i in range(19)])
    call("POST", "/_api/gharial", {"name": "net", "edgeDefinitions": [
        {"collection": "links", "from": ["values"], "to": ["things"]}]})
    call("POST", "/_api/collection", {"name": "before"})
    call("POST", "/_api/document/before", [{"_key": f"r{i}"} for i in range(5)])
    call("PUT", "/_api/collection/before/rename", {"name": "after"})
    call("POST", "/_api/database", {"name": "other"})
    call("POST", "/_db/other/_api/collection", {"name": "c"})
    call("POST", "/_db/other/_api/document/c", {"_key": "x", "in": "other"})
    call("POST", "/_api/user", {"user": "ann", "passwd": "pw", "active": True})


def fill_more(call):
    call("POST", "/_api/collection", {"name": "cut"})
    call("POST", "/_api/document/cut", [{} for _ in range(10)])
    call("PUT", "/_api/collection/cut/truncate")
    call("POST", "/_api/collection", {"name": "dropped"})
    call("DELETE", "/_api/collection/dropped")
    call("POST", "/_api/document/after", {"_key": "r9"})
    call("DELETE", "/_api/document/values/v3")
    call("PATCH", "/_api/document/things/7", {"late": True})


QUERIES = {
    "unique": "FOR d IN things FILTER d.u == 33 RETURN d",
    "array": "FOR d IN things FILTER 't2' IN d.tags SORT d.u RETURN d._key",
    "range": "FOR d IN things FILTER d.n == 3 AND d.u > 20 SORT d.u RETURN [d.u, d.tags]",
    "mixed": "FOR d IN values FILTER d.v > 'a' SORT d.v, d._key RETURN d._key",
    "near": "FOR d IN things SORT APPROX_NEAR_L2(d.e, [3, 1, 1]) LIMIT 1 RETURN d.e",
    "walk": "FOR v, e IN 1..1 OUTBOUND 'values/v5' GRAPH 'net' RETURN [v._id, e.n]",
    "renamed": "FOR d IN after SORT d._key RETURN d._id",
}


def read(call):
    """All that clients see: the expectation, and what an upgraded store must answer."""
    state = {"queries": {name: call("POST", "/_api/cursor", {"query": text, "batchSize": 1000})["result"]
                         for name, text in QUERIES.items()}}
    for db in sorted(call("GET", "/_api/database")["result"]):
        base = f"/_db/{db}"
        for c in call("GET", base + "/_api/collection")["result"]:
            name = c["name"]
            rows = call("POST", base + "/_api/cursor", {"query": f"FOR d IN `{name}` SORT d._key RETURN d",
                                                        "batchSize": 1000})["result"]
            indexes = call("GET", f"{base}/_api/index?collection={name}")["indexes"]
            state[f"{db}/{name}"] = {
                "id": c["id"], "type": c["type"], "rows": rows,
                "count": call("GET", f"{base}/_api/collection/{name}/count")["count"],
                "indexes": [{k: i[k] for k in ("id", "type", "name", "fields", "unique", "sparse")} for i in indexes]}
    return state


def pack(data, target):
    """Without what no store needs: RocksDB's own log and lock."""
    with tarfile.open(target, "w:gz", compresslevel=9) as tar:
        for path in sorted(data.rglob("*")):
            name = path.relative_to(data)
            if not path.is_file() or name.name.startswith(("LOG", "LOCK", "OPTIONS")):
                continue
            row = tarfile.TarInfo(f"data/{name}")
            row.size = path.stat().st_size
            tar.addfile(row, io.BytesIO(path.read_bytes()))


def make(binary, name):
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        node = Node(binary, data)
        fill(node.call)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(60) == 0
        node = Node(binary, data)
        fill_more(node.call)
        state = read(node.call)
        node.process.kill()
        node.process.wait()
        FOLDER.mkdir(exist_ok=True)
        pack(data, FOLDER / f"{name}.tar.gz")
        (FOLDER / f"{name}.json").write_text(json.dumps(state, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    make(*sys.argv[1:])
