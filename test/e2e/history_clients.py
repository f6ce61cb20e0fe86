# SPDX-License-Identifier: Apache-2.0
"""
Clients that leave a history behind for history.py: stream transactions of several operations, and
single queries and requests, over lists, registers and sets that all of them share.

A single query runs under snapshot isolation. So those here read what they write, or only read: then
first-committer-wins makes them serializable too, and one that is not is a fault.
"""
import http.client
import itertools
import json
import random
import threading
import time

from history import Transaction

TRX = "x-arango-trx-id"
KEYS = 4            # of each type in use at a time
VALUES_PER_KEY = 30  # then another key takes its place
COLLECTIONS = ("lists", "registers", "sets")
INDEXES = {"lists": "key", "sets": "group"}
REFUSALS = (28, 1200)  # busy, conflict
IDLE_S = 0.05
UNKNOWN = object()

APPEND = ("UPSERT {_key: @k} INSERT {_key: @k, key: @k, values: [@v]} "
          "UPDATE {values: PUSH(OLD.values, @v)} IN lists")
WRITE = "UPSERT {_key: @k} INSERT {_key: @k, v: @v} UPDATE {v: @v, before: OLD.v} IN registers"
INSERT = "INSERT {group: @k, open: @k, v: @v} INTO sets"
LISTS = ["LET d = DOCUMENT('lists', @k) RETURN d.values",
         "FOR d IN lists FILTER d._key == @k RETURN d.values",
         "FOR d IN lists FILTER d.key == @k RETURN d.values"]
VALUE = "LET d = DOCUMENT('registers', @k) RETURN [d.v, d.before]"
SETS = ["FOR d IN sets FILTER d.group == @k RETURN d.v",
        "FOR d IN sets FILTER d.group >= @k && d.group <= @k RETURN d.v",
        "FOR d IN sets FILTER d.open == @k RETURN d.v"]  # without an index: reads the collection


class Failed(Exception):
    """It was not committed, and never will be."""


class Unknown(Exception):
    """No answer, or one that leaves the outcome open."""


class Objects:
    """The keys in use, and all that ever were."""

    def __init__(self):
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.slots = {kind: [[f"{kind}{n}", 0] for n in range(KEYS)] for kind in ("l", "r", "s")}
        self.next = itertools.count(KEYS)
        self.used = {kind: [key for key, _ in slots] for kind, slots in self.slots.items()}

    def pick(self, kind, chance, is_write):
        """(key, new value or None)"""
        with self.lock:
            slot = chance.choice(self.slots[kind])
            if is_write:
                slot[1] += 1
                if slot[1] > VALUES_PER_KEY:
                    slot[:] = [f"{kind}{next(self.next)}", 1]
                    self.used[kind].append(slot[0])
            return slot[0], next(self.numbers) if is_write else None


class Client:
    """One thread with one connection."""

    def __init__(self, cluster, number, seed):
        self.cluster = cluster
        self.random = random.Random(f"{seed}/{number}")
        self.history = []
        self.error = None
        self.connection = None
        self.port = None
        self.transaction = None

    # ---- requests ----

    def call(self, method, path, body=None):
        """(status, JSON)"""
        headers = {"content-type": "application/json"}
        if self.transaction:
            headers[TRX] = self.transaction
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.disconnect()
            raise Unknown(repr(error)) from None

    def disconnect(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def must(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        if status < 300:
            return answer
        if status >= 500 and "unknown" in json.dumps(answer):
            raise Unknown(answer)
        if status == 404 and answer.get("errorNum") == 1202:
            return None  # no such document
        if answer.get("errorNum") in REFUSALS or status == 503:
            raise Failed(answer)
        raise AssertionError(f"{method} {path} {body}: {status} {answer}")

    def query(self, text, **bind):
        return self.must("POST", "/_api/cursor", {"query": text, "bindVars": bind, "batchSize": 10000})["result"]

    # ---- operations: each adds to ops what it did ----

    def append(self, ops):
        key, value = self.cluster.objects.pick("l", self.random, True)
        self.note(ops, "append", key, value, lambda: self.query(APPEND, k=key, v=value))

    def list(self, ops):
        key, _ = self.cluster.objects.pick("l", self.random, False)
        self.read_list(ops, key)

    def read_list(self, ops, key):
        way = self.random.randrange(len(LISTS) + 1)
        if way == len(LISTS):
            document = self.must("GET", f"/_api/document/lists/{key}")
            found = [document["values"]] if document else []
        else:
            found = [values for values in self.query(LISTS[way], k=key) if values is not None]
        ops.append(("list", key, found[0] if found else []))

    def value(self, ops):
        key, _ = self.cluster.objects.pick("r", self.random, False)
        self.read_value(ops, key)

    def read_value(self, ops, key):
        ops.append(("value", key, self.cluster.saw(key, *self.query(VALUE, k=key)[0])))

    def write(self, ops):
        key, value = self.cluster.objects.pick("r", self.random, True)
        self.read_value(ops, key)
        self.note(ops, "write", key, value, lambda: self.query(WRITE, k=key, v=value))

    def insert(self, ops):
        key, value = self.cluster.objects.pick("s", self.random, True)
        self.note(ops, "insert", key, value, lambda: self.query(INSERT, k=key, v=value))

    def set(self, ops):
        key, _ = self.cluster.objects.pick("s", self.random, False)
        way = self.random.choices(range(len(SETS)), [10, 5, 1])[0]
        ops.append(("set", key, self.query(SETS[way], k=key)))

    @staticmethod
    def note(ops, kind, key, value, send):
        """Before the answer: what was sent may have been done."""
        ops.append((kind, key, value))
        send()

    # ---- transactions ----

    def stream(self, ops):
        self.transaction = self.must("POST", "/_api/transaction/begin", {
            "collections": {"write": list(COLLECTIONS)}, "isolation": self.cluster.isolation})["result"]["id"]
        try:
            for _ in range(self.random.randrange(1, 5)):
                self.random.choice((self.append, self.append, self.list, self.value, self.write, self.insert,
                                    self.set, self.set))(ops)
        except Unknown as error:
            raise Failed(str(error)) from None  # was never asked to commit
        except Failed:
            transaction, self.transaction = self.transaction, None
            self.call("DELETE", f"/_api/transaction/{transaction}")
            raise
        finally:
            transaction, self.transaction = self.transaction, None
        self.must("PUT", f"/_api/transaction/{transaction}")

    def append_two(self, ops):
        """One query that writes two lists."""
        pairs = dict(self.cluster.objects.pick("l", self.random, True) for _ in range(2))
        for key, value in pairs.items():
            ops.append(("append", key, value))
        self.query("FOR p IN @pairs UPSERT {_key: p[0]} INSERT {_key: p[0], key: p[0], values: [p[1]]} "
                   "UPDATE {values: PUSH(OLD.values, p[1])} IN lists", pairs=list(pairs.items()))

    def exchange(self, ops):
        """Reads a register and sets it; without an answer others will tell what it read."""
        key, value = self.cluster.objects.pick("r", self.random, True)
        ops += [("value", key, UNKNOWN), ("write", key, value)]
        (old,) = self.query(f"{WRITE} RETURN [OLD.v, OLD.before]", k=key, v=value)
        ops[0] = ("value", key, self.cluster.saw(key, *old))

    def look(self, ops):
        """A query that reads objects of all types at one moment."""
        lists = [self.cluster.objects.pick("l", self.random, False)[0] for _ in range(2)]
        register, _ = self.cluster.objects.pick("r", self.random, False)
        group, _ = self.cluster.objects.pick("s", self.random, False)
        (seen,) = self.query(
            "LET lists = (FOR k IN @lists RETURN DOCUMENT('lists', k).values) "
            "LET rows = (FOR d IN sets FILTER d.group == @group RETURN d.v) "
            "LET r = DOCUMENT('registers', @register) RETURN [lists, [r.v, r.before], rows]", lists=lists, register=register, group=group)
        ops += [("list", key, values or []) for key, values in zip(lists, seen[0])]
        ops += [("value", register, self.cluster.saw(register, *seen[1])), ("set", group, seen[2])]

    def step(self):
        ops, status, begin = [], "ok", time.monotonic_ns()
        action = self.random.choice((self.stream, self.stream, self.stream, self.append, self.append_two, self.insert,
                                     self.exchange, self.list, self.look))
        try:
            action(ops)
        except Failed:
            status = "fail"
        except Unknown:
            status = "info"
        if ops:
            self.history.append(Transaction(ops, status, begin, time.monotonic_ns()))
        return status

    def run(self):
        try:
            while not self.cluster.is_over.is_set():
                self.port = self.cluster.port
                if self.step() == "info" or self.connection is None:
                    time.sleep(IDLE_S)
        except Exception as error:  # reported by the main thread
            self.error = error
        finally:
            self.disconnect()


class Clients:
    """start(), perhaps with kills and restarts in between, stop(), history."""

    def __init__(self, server, count, seed, isolation="serializable"):
        self.objects = Objects()
        self.isolation = isolation
        self.before = {}  # (register, value) -> the value that it replaced
        self.port = server.port
        self.is_over = threading.Event()
        self.clients = [Client(self, n, seed) for n in range(count)]
        for name in COLLECTIONS:
            server.request("POST", "/_api/collection", json={"name": name})
        for name, field in INDEXES.items():
            server.request("POST", f"/_api/index?collection={name}", json={"type": "persistent", "fields": [field]})

    def start(self):
        self.threads = [threading.Thread(target=client.run, daemon=True) for client in self.clients]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a request has no end"
        for client in self.clients:
            if client.error:
                raise client.error

    def read_all(self, server):
        """Every object once more, at the end: what was acknowledged must be there."""
        reader = Client(self, "reader", 0)
        reader.port = server.port
        for key in self.objects.used["l"]:
            self.read(reader, lambda ops, key=key: reader.read_list(ops, key))
        for key in self.objects.used["r"]:
            self.read(reader, lambda ops, key=key: reader.read_value(ops, key))
        for key in self.objects.used["s"]:
            self.read(reader, lambda ops, key=key: ops.append(("set", key, reader.query(SETS[0], k=key))))
        reader.disconnect()
        self.clients.append(reader)

    @staticmethod
    def read(reader, action):
        ops, begin = [], time.monotonic_ns()
        action(ops)
        reader.history.append(Transaction(ops, "ok", begin, time.monotonic_ns()))

    def saw(self, key, value, before):
        self.before[(key, value)] = before
        return value

    @property
    def history(self):
        everything = [t for client in self.clients for t in client.history]
        for t in everything:
            if t.ops[0][2] is UNKNOWN:
                (_, key, _), write = t.ops
                seen = (key, write[2])
                t.ops = [("value", key, self.before[seen]), write] if seen in self.before else [write]
        return everything


def summary(history):
    counts = {status: sum(1 for t in history if t.status == status) for status in ("ok", "fail", "info")}
    operations = sum(len(t.ops) for t in history if t.status == "ok")
    return f"{counts['ok']} committed with {operations} operations, {counts['fail']} refused, {counts['info']} unknown"
