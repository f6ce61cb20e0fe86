# SPDX-License-Identifier: Apache-2.0
"""
Rounds of writing and kill -9, each followed by a check: of every document against the ledger, of
every index against a scan, of counts, of backups, and of the files by themisd --check.
"""
import json
import math
import pathlib
import random
import shutil
import subprocess
import threading
import time

import requests

from conftest import program
from ledger import (Accounts, Arrays, Backups, Collections, Documents, Imports, Indexes, Queries,
                    Transactions, Truncations, Wrong, Writer)

MODELS = {"embed": "sim:embed,dim=16,prefill=20000"}
SETTINGS = ["memtables_mb=16", "block_cache_mb=16", "workers=6"]
SCAN_ONLY = "OPTIONS {disableIndex: true}"
BY_CLIENTS = ("things", "links", "big")
INDEXED = (*BY_CLIENTS, "documents", "chunks")
ENOUGH = 100  # documents from which on the planner must take an index


def writers(seed):
    kinds = [Documents, Documents, Arrays, Arrays, Queries, Queries, Transactions, Transactions, Accounts,
             Accounts, Truncations, Imports, Imports, Indexes, Collections, Backups]
    return [kind(f"w{i}", seed * 100 + i) for i, kind in enumerate(kinds)]


class Crash:
    """start(is_ready) makes a server on the same data each time; start(True, data) on other data."""

    def __init__(self, start, binary, seed):
        self.start = start
        self.binary = binary
        self.random = random.Random(seed)
        self.writers = writers(seed)
        self.indexes = next(writer for writer in self.writers if isinstance(writer, Indexes))
        self.backups = next(writer for writer in self.writers if isinstance(writer, Backups))
        self.builds_hit = 0
        self.restored = 0

    # ---- a round ----

    def prepare(self):
        server = self.start(True)
        for name, kind in {"things": 2, "links": 3, "accounts": 2, "records": 2, "big": 2,
                           **{name: kind for writer in self.writers
                              for name, kind in writer.collections.items()}}.items():
            server.request("POST", "/_api/collection", json={"name": name, "type": kind})
        for kind in (Accounts, Indexes):
            one = Writer("setup", 0)
            one.url = server.url
            one.session = requests.Session()
            kind.prepare(one)
        return server

    def write_and_kill(self, server, seconds, waits_for_build):
        """waits_for_build: kills in the middle of an index build, if there is one in time."""
        is_over = threading.Event()
        self.indexes.building.clear()
        threads = [threading.Thread(target=writer.run, args=(server.url, is_over), daemon=True)
                   for writer in self.writers]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        if waits_for_build and self.indexes.building.wait(5):
            time.sleep(self.random.random() * 0.1)
        self.builds_hit += self.indexes.building.is_set()
        if not server.is_alive():
            server.fail(f"themisd ended by itself, status {server.process.returncode}")
        server.kill()
        is_over.set()
        for thread in threads:
            thread.join(150)
            assert not thread.is_alive(), "a request has no end although the server is dead"
        for writer in self.writers:
            if writer.error:
                raise Wrong(f"{writer.name} ({type(writer).__name__}): {writer.error!r}")

    def kill_while_it_recovers(self):
        server = self.start(False)
        time.sleep(self.random.random() * 0.3)
        server.kill()

    def check_files(self, data):
        done = subprocess.run([self.binary, "--check", "--data", data], capture_output=True, text=True,
                              timeout=300)
        if done.returncode:
            raise Wrong(f"themisd --check: status {done.returncode}\n{done.stdout}{done.stderr}")

    def restore(self, server):
        """A backup that was made while others wrote, perhaps of a server that died since."""
        if not self.backups.there:
            return
        backup, n = self.random.choice(sorted(self.backups.there.items()))
        target = pathlib.Path(server.data).with_name("restored")
        done = subprocess.run([program("THEMIS", "build/themis"), "restore",
                               pathlib.Path(server.data) / "backups" / backup, target],
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Wrong(f"backup {backup} cannot be restored: {done.stderr}")
        self.check_files(target)
        copy = self.start(True, target.name)
        store = self.read_all(copy)
        (made,) = store["backups"].values()
        if made["n"] < n:
            raise Wrong(f"backup {backup} holds {made}, asked for behind the write of {n}")
        self.verify_whole(copy, store)
        copy.kill()
        shutil.rmtree(target)
        self.restored += 1

    def acknowledged(self):
        return sum(writer.done for writer in self.writers)

    # ---- the check ----

    def read_all(self, server):
        """name -> key -> document"""
        collections = server.request("GET", "/_api/collection?excludeSystem=true").json()["result"]
        return {name: self.scan(server, name) for name in (collection["name"] for collection in collections)}

    def verify(self, server):
        """Everything against the ledgers, and against itself."""
        store = self.read_all(server)
        everything = {(name, key): document for name in store for key, document in store[name].items()}
        for writer in self.writers:
            writer.check(everything)
            if isinstance(writer, Collections):
                writer.check_collections({name: len(store[name]) for name in store})
        self.indexes.check_indexes(self.verify_whole(server, store))
        self.backups.check_backups(server.request("POST", "/_admin/backup/list", json={}).json()["result"]["list"])
        self.look_up(server, everything)

    def verify_whole(self, server, store):
        """Counts, sums and indexes, which every moment must have right. (collection, name) -> id of indexes."""
        made = {}
        for name, documents in store.items():
            count = server.request("GET", f"/_api/collection/{name}/count").json()["count"]
            if count != len(documents):
                raise Wrong(f"{name}: {len(documents)} documents, {count} are counted")
            if name in INDEXED:
                made |= {(name, index["name"]): index["id"] for index in self.check_indexes(server, name, documents)}
        if sum(account["amount"] for account in store["accounts"].values()) != Accounts.SUM:
            raise Wrong(f"the sum has changed: {store['accounts']}")
        return {where: id_ for where, id_ in made.items() if where[0] in BY_CLIENTS}

    @staticmethod
    def explain(server, query, **bind):
        answer = server.request("POST", "/_api/explain", json={"query": query, "bindVars": bind})
        assert answer.status_code == 200, answer.text
        return json.dumps(answer.json()["plan"])

    def scan(self, server, name):
        query = f"FOR d IN {name} {SCAN_ONLY} RETURN d"
        plan = self.explain(server, query)
        assert '"EnumerateCollectionNode"' in plan and '"IndexNode"' not in plan, plan
        rows = server.aql(query, batchSize=1000000)["result"]
        documents = {document["_key"]: document for document in rows}
        if len(documents) != len(rows):
            raise Wrong(f"{name}: a key is there twice")
        return documents

    def look_up(self, server, everything):
        for name, key in self.random.sample(sorted(everything), min(20, len(everything))):
            answer = server.request("GET", f"/_api/document/{name}/{key}")
            if answer.status_code != 200 or answer.json() != everything[(name, key)]:
                raise Wrong(f"{name}/{key}: read as {answer.text}, in the scan {everything[(name, key)]}")

    def check_indexes(self, server, name, documents):
        """Those that clients made, each compared with the scan."""
        made = []
        for index in server.request("GET", f"/_api/index?collection={name}").json()["indexes"]:
            if index.get("isBuilding"):
                raise Wrong(f"{name}: index {index['name']} is still being built")
            if index["type"] == "edge":
                for field in ("_from", "_to"):
                    self.check_field(server, name, documents, field, must_use=None)
            elif index["type"] == "vector":
                self.check_vectors(server, name, documents, index)
            elif index["type"] == "persistent":
                self.check_field(server, name, documents, index["fields"][0], must_use=index["name"])
            if index["type"] in ("persistent", "vector"):
                made.append(index)
        return made

    def check_field(self, server, name, documents, field, must_use):
        is_array = field.endswith("[*]")
        attribute = field.removesuffix("[*]")
        values = {}
        for key, document in documents.items():
            for value in set(document[attribute]) if is_array else [document[attribute]]:
                values.setdefault(value, set()).add(key)
        condition = f"x IN d.{attribute}" if is_array else f"d.{attribute} == x"
        query = f"FOR x IN @values FOR d IN {name} FILTER {condition} RETURN [x, d._key]"
        asked = sorted(values)[:300]
        if must_use and not is_array and len(documents) > ENOUGH:
            plan = self.explain(server, query, values=asked)
            assert '"IndexNode"' in plan and f'"{must_use}"' in plan, plan
        rows = server.aql(query, bindVars={"values": asked}, batchSize=1000000)["result"]
        self.compare(f"{name}.{field}", {(x, key) for x in asked for key in values[x]},
                     [tuple(row) for row in rows])
        if not is_array:
            rows = server.aql(f"FOR d IN {name} FILTER d.{attribute} >= @low SORT d.{attribute} RETURN d._key",
                              bindVars={"low": asked[0] if asked else 0}, batchSize=1000000)["result"]
            self.compare(f"{name}.{field} from {asked[:1]} on", set(documents), rows)

    @staticmethod
    def compare(what, expected, found):
        if len(found) != len(set(found)) or set(found) != expected:
            raise Wrong(f"{what}: {len(found)} by the index, {len(expected)} by the scan; missing "
                        f"{sorted(expected - set(found))[:5]}, too many {sorted(set(found) - expected)[:5]}")

    def check_vectors(self, server, name, documents, index):
        """The index may pass over a near one, but what it gives is there and as far as it says."""
        attribute = index["fields"][0]
        there = {key: document[attribute] for key, document in documents.items() if document.get(attribute)}
        if not there:
            return
        metric = index["params"]["metric"]
        function = {"cosine": "APPROX_NEAR_COSINE", "l2": "APPROX_NEAR_L2"}[metric]
        direction = "DESC" if metric == "cosine" else "ASC"
        probe = self.random.choice(sorted(there.items()))[1]
        query = (f"FOR d IN {name} LET s = {function}(d.{attribute}, @probe) SORT s {direction} LIMIT 10 "
                 f"RETURN [d._key, s]")
        rows = server.aql(query, bindVars={"probe": probe})["result"]
        if len(rows) != min(10, len(there)) or len({key for key, _ in rows}) != len(rows):
            raise Wrong(f"{name}.{attribute}: {len(rows)} nearest of {len(there)}: {rows}")
        for key, score in rows:
            if not math.isclose(score, SCORES[metric](there[key], probe), rel_tol=1e-3, abs_tol=1e-3):
                raise Wrong(f"{name}.{attribute}: {key} is {there[key]}, not {score} from {probe}")


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


SCORES = {
    "cosine": lambda a, b: dot(a, b) / (math.sqrt(dot(a, a) * dot(b, b)) or 1),
    "l2": math.dist,
}
