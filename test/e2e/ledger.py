# SPDX-License-Identifier: Apache-2.0
"""
Writers whose ledger outlives the server: what was acknowledged, and what was under way.

Every writer owns its documents, so it alone knows what they must be. It has one request under way at
a time. After a crash each of its documents must be as last acknowledged, with that very revision, or
all of them as the request under way would have left them: a request is one transaction.
"""
import json
import random
import threading

import requests

DIGITS = "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
GONE = None  # what a removed document is in a ledger
SYSTEM = ("_id", "_rev")


def revision(text):
    """As a number: later is higher."""
    value = 0
    for digit in text:
        value = value * 64 + DIGITS.index(digit)
    return value


class Wrong(AssertionError):
    """The store broke a promise."""


class Refused(Exception):
    """The server answered, and nothing was written."""


class Unknown(Exception):
    """No answer, or one that leaves the outcome open."""


class Writer:
    """One thread; step() is called until the server is gone."""

    collections = {"things": 2}

    def __init__(self, name, seed):
        self.name = name
        self.random = random.Random(seed)
        self.documents = {}  # (collection, key) -> document with _rev
        self.pending = {}    # the same, without _rev, or GONE
        self.count = 0
        self.done = 0
        self.url = None
        self.session = None
        self.transaction = None
        self.error = None

    # ---- requests ----

    def call(self, method, path, body=None):
        """The answer's JSON. A crash of the server leaves pending as it is."""
        headers = {"x-arango-trx-id": self.transaction} if self.transaction else {}
        try:
            answer = self.session.request(method, self.url + path, json=body, headers=headers, timeout=120)
        except requests.RequestException as error:
            raise Unknown(str(error)) from None
        if answer.status_code >= 500 and "unknown" in answer.text:
            raise Unknown(answer.text)
        if answer.status_code >= 300:
            raise Refused(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def aql(self, text, **bind):
        return self.call("POST", "/_api/cursor", {"query": text, "bindVars": bind, "batchSize": 100000})["result"]

    # ---- the ledger ----

    def is_there(self, collection, key):
        return (collection, key) in self.documents

    def write(self, changes, send, is_retried=True):
        """
        changes: (collection, key) -> document or GONE. send() makes the request and returns the new
        revisions by (collection, key); a conflict with an index build or truncation is tried again.
        """
        self.pending = changes
        while True:
            try:
                revisions = send()
                break
            except Refused as refusal:
                if not is_retried or '"errorNum":1200' not in str(refusal):
                    self.pending = {}
                    raise
        for where, document in changes.items():
            if document is GONE:
                self.documents.pop(where, None)
            else:
                self.documents[where] = {**document, "_rev": revisions[where]}
        self.pending = {}
        self.done += 1

    def run(self, url, is_over):
        self.url = url
        self.session = requests.Session()
        self.transaction = None
        try:
            while not is_over.is_set():
                self.step()
        except Unknown:
            pass
        except Exception as error:  # reported by the main thread
            self.error = error
        finally:
            self.session.close()

    def step(self):
        raise NotImplementedError

    # ---- after the crash ----

    def check(self, store):
        """store: (collection, key) -> document, of all that is in the store."""
        mine = {where: document for where, document in store.items() if self.owns(*where)}
        if self.matches(mine, {}):
            self.pending = {}
        elif self.pending and self.matches(mine, self.pending):
            self.settle(mine)
        else:
            raise Wrong(f"{self.name}: {self.difference(mine)}")

    def owns(self, collection, key):
        return collection in self.collections and key.startswith(self.name + "-")

    def matches(self, mine, pending):
        expected = {where: document for where, document in {**self.documents, **pending}.items()
                    if document is not GONE}
        if expected.keys() != mine.keys():
            return False
        for where, document in expected.items():
            found = mine[where]
            old = self.documents.get(where)
            if where in pending:
                if plain(found) != plain(document):
                    return False
                if old and revision(found["_rev"]) <= revision(old["_rev"]):
                    return False
            elif plain(found) != plain(document) or found["_rev"] != document["_rev"]:
                return False
        return True

    def settle(self, mine):
        self.documents = dict(mine)
        self.pending = {}

    def difference(self, mine):
        lines = []
        for where in sorted(self.documents.keys() | mine.keys() | self.pending.keys()):
            expected, found = self.documents.get(where), mine.get(where)
            same = expected and found and plain(expected) == plain(found) and expected["_rev"] == found["_rev"]
            if not same and not (expected is None and found is None):
                lines.append(f"{where}: acknowledged {expected}, found {found}"
                             + (f", under way {self.pending[where]}" if where in self.pending else ""))
        return "\n".join(lines[:10]) or "not all of the request under way, nor none of it"


def plain(document):
    return {name: value for name, value in document.items() if name not in SYSTEM}


# ---- the writers ----

class Documents(Writer):
    """Inserts, patches, replaces and removes single documents."""

    KEYS = 60

    def make(self, key):
        self.count += 1
        n = self.count
        return {"_key": key, "n": n % 13, "u": f"{key}/{n}", "tags": [f"t{n % 5}", f"t{n % 7}", self.name],
                "v": [float(n % 17), 1.0, float(n % 3)], "text": "x" * (n % 200)}

    def step(self):
        key = f"{self.name}-{self.random.randrange(self.KEYS)}"
        where = ("things", key)
        path = f"/_api/document/things/{key}"
        document = self.make(key)
        if not self.is_there(*where):
            self.write({where: document}, lambda: self.revs([self.call("POST", "/_api/document/things", document)]))
            return
        choice = self.random.randrange(4)
        if choice == 0:
            self.write({where: GONE}, lambda: self.call("DELETE", path))
        elif choice == 1:
            self.write({where: document}, lambda: self.revs([self.call("PUT", path, document)]))
        else:
            patch = {"n": document["n"], "u": document["u"], "patched": self.count}
            merged = {**plain(self.documents[where]), **patch}
            self.write({where: merged}, lambda: self.revs([self.call("PATCH", path, patch)]))

    @staticmethod
    def revs(answers):
        return {tuple(answer["_id"].split("/", 1)): answer["_rev"] for answer in answers}


class Arrays(Documents):
    """Twenty documents by one request."""

    KEYS = 20

    def step(self):
        keys = [f"{self.name}-{i}" for i in range(self.KEYS)]
        if self.documents and self.random.randrange(5) == 0:
            self.write({("things", key): GONE for key in keys},
                       lambda: self.all_well(self.call("DELETE", "/_api/document/things", keys)))
            return
        documents = [self.make(key) for key in keys]
        self.write({("things", document["_key"]): document for document in documents},
                   lambda: self.revs(self.all_well(
                       self.call("POST", "/_api/document/things?overwriteMode=replace", documents))))

    @staticmethod
    def all_well(answers):
        for answer in answers:
            if answer.get("error"):
                raise Refused(json.dumps(answer, separators=(",", ":")))
        return answers


class Queries(Documents):
    """Ten documents by one query: upsert, update, remove."""

    KEYS = 10

    def step(self):
        keys = [f"{self.name}-{i}" for i in range(self.KEYS)]
        if not self.documents or self.random.randrange(3) == 0:
            documents = [self.make(key) for key in keys]
            self.change(documents, "FOR d IN @documents UPSERT {_key: d._key} INSERT d REPLACE d IN things "
                                   "RETURN NEW", documents=documents)
        elif self.random.randrange(4) == 0:
            self.write({("things", key): GONE for key in keys},
                       lambda: self.aql("FOR k IN @keys REMOVE k IN things", keys=keys))
        else:
            self.count += 1
            documents = [{**plain(self.documents[("things", key)]), "n": self.count % 13,
                          "u": f"{key}/q{self.count}"} for key in keys]
            self.change(documents, "FOR k IN @keys UPDATE k WITH {n: @n, u: CONCAT(k, @u)} IN things RETURN NEW",
                        keys=keys, n=self.count % 13, u=f"/q{self.count}")

    def change(self, written, query, **bind):
        self.write({("things", document["_key"]): document for document in written},
                   lambda: self.revs(self.aql(query, **bind)))


class Transactions(Documents):
    """A document and the edge to it by one stream transaction; they come and go together."""

    KEYS = 30
    collections = {"things": 2, "links": 3}

    def step(self):
        key = f"{self.name}-{self.random.randrange(self.KEYS)}"
        thing, link = ("things", key), ("links", key)
        if self.is_there(*thing) and self.random.randrange(2):
            self.write({thing: GONE, link: GONE}, lambda: self.commit(
                lambda: [self.call("DELETE", f"/_api/document/{name}/{key}") for name, _ in (thing, link)]))
            return
        document = self.make(key)
        edge = {"_key": key, "_from": f"things/{self.name}-{self.count % self.KEYS}", "_to": f"things/{key}",
                "n": self.count}
        self.write({thing: document, link: edge}, lambda: self.revs(self.commit(
            lambda: [self.call("POST", "/_api/document/things?overwriteMode=replace", document),
                     self.call("POST", "/_api/document/links?overwriteMode=replace", edge)])))

    def commit(self, operations):
        begun = self.call("POST", "/_api/transaction/begin", {"collections": {"write": ["things", "links"]}})
        self.transaction = begun["result"]["id"]
        try:
            answers = operations()
        except Refused:
            transaction, self.transaction = self.transaction, None
            self.call("DELETE", f"/_api/transaction/{transaction}")
            raise
        transaction, self.transaction = self.transaction, None
        self.call("PUT", f"/_api/transaction/{transaction}")
        return answers


class Accounts(Writer):
    """
    Moves amounts between accounts that all writers of this kind share; the sum stays. Each keeps a
    record of its own in the same transaction.
    """

    collections = {"records": 2}
    ACCOUNTS = 8
    SUM = 1000 * ACCOUNTS

    @staticmethod
    def prepare(writer):
        writer.aql("FOR i IN 0..@last INSERT {_key: TO_STRING(i), amount: 1000} INTO accounts",
                   last=Accounts.ACCOUNTS - 1)

    def step(self):
        self.count += 1
        one, other = self.random.sample(range(self.ACCOUNTS), 2)
        record = {"_key": f"{self.name}-record", "n": self.count, "from": one, "to": other}
        self.write({("records", record["_key"]): record}, lambda: Documents.revs(self.move(record)))

    def move(self, record):
        query = """
            LET moved = (FOR a IN accounts FILTER a._key IN [@one, @other]
                         UPDATE a WITH {amount: a.amount + (a._key == @one ? -@amount : @amount)} IN accounts)
            INSERT @record INTO records OPTIONS {overwriteMode: "replace"}
            RETURN NEW"""
        return self.aql(query, one=str(record["from"]), other=str(record["to"]),
                        amount=self.random.randrange(100), record=record)


class Truncations(Documents):
    """A collection of its own, filled and truncated."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.collection = f"scratch_{name}"
        self.collections = {self.collection: 2}

    def step(self):
        if self.documents and self.random.randrange(6) == 0:
            self.write({where: GONE for where in self.documents},
                       lambda: self.call("PUT", f"/_api/collection/{self.collection}/truncate"))
            return
        documents = [self.make(f"{self.name}-{self.count + 1}") for _ in range(5)]
        self.write({(self.collection, document["_key"]): document for document in documents},
                   lambda: self.revs(Arrays.all_well(
                       self.call("POST", f"/_api/document/{self.collection}", documents))))


class Imports(Writer):
    """Texts that are split and embedded; each with its chunks is one transaction."""

    collections = {"documents": 2, "chunks": 2}
    PATHS = 6

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.versions = {}  # path -> acknowledged text
        self.sent = {}      # path -> text under way

    def step(self):
        self.count += 1
        paths = [f"{self.name}/{self.random.randrange(self.PATHS)}.md" for _ in range(2)]
        self.sent = {path: "\n\n".join(f"# Part {i}\n\n{path} of version {self.count} says {i}. " + "word " * 80
                                       for i in range(self.random.randrange(1, 5))) for path in paths}
        self.call("POST", "/v1/import", {"documents": [
            {"path": path, "text": text, "format": "markdown"} for path, text in self.sent.items()]})
        self.versions.update(self.sent)
        self.sent = {}
        self.done += 1

    def check(self, store):
        documents = {document["path"]: document for (name, _), document in store.items()
                     if name == "documents" and document["path"].startswith(self.name + "/")}
        for path in self.versions.keys() | self.sent.keys() | documents.keys():
            self.check_path(path, documents.get(path), store)
        self.sent = {}

    def check_path(self, path, document, store):
        chunks = sorted((chunk for (name, _), chunk in store.items()
                         if name == "chunks" and chunk["path"] == path), key=lambda chunk: chunk["n"])
        possible = [text for text in (self.versions.get(path), self.sent.get(path)) if text is not None]
        if document is None:
            if path in self.versions or chunks:
                raise Wrong(f"import of {path}: lost, with {len(chunks)} chunks")
            return
        sizes = [text for text in possible if len(text.encode()) == document["bytes"]]
        text = next((text for text in sizes if all(
            text.encode()[chunk["from"]:chunk["to"]].decode() == chunk["text"] for chunk in chunks)), None)
        if text is None or document["chunks"] != len(chunks) or [c["n"] for c in chunks] != list(range(len(chunks))):
            raise Wrong(f"import of {path}: {document} has {len(chunks)} chunks, of other texts or not all")
        self.versions[path] = text


class Indexes(Writer):
    """Creates and drops indexes while others write."""

    DEFINITIONS = [
        ("things", {"type": "persistent", "name": "by_n", "fields": ["n"]}),
        ("things", {"type": "persistent", "name": "by_u", "fields": ["u"], "unique": True}),
        ("things", {"type": "persistent", "name": "by_tag", "fields": ["tags[*]"]}),
        ("things", {"type": "vector", "name": "by_v", "fields": ["v"], "sparse": True,
                    "params": {"metric": "l2", "dimension": 3}}),
        ("links", {"type": "persistent", "name": "by_n", "fields": ["n"]}),
        ("big", {"type": "persistent", "name": "by_n", "fields": ["n"]}),
        ("big", {"type": "persistent", "name": "by_u", "fields": ["u"], "unique": True}),
        ("big", {"type": "vector", "name": "by_v", "fields": ["v"],
                 "params": {"metric": "cosine", "dimension": 4}}),
    ]
    BIG = 15000

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.there = {}  # (collection, name) -> id
        self.building = threading.Event()

    @staticmethod
    def prepare(writer):
        writer.aql("FOR i IN 1..@count INSERT {_key: TO_STRING(i), n: i % 97, u: CONCAT('u', i), "
                   "v: [i % 11, i % 7, i % 5, 1]} INTO big", count=Indexes.BIG)

    def step(self):
        collection, definition = self.random.choice(self.DEFINITIONS)
        where = (collection, definition["name"])
        self.pending = {where: None}
        if where in self.there:
            self.call("DELETE", f"/_api/index/{self.there[where]}")
            del self.there[where]
        else:
            if collection == "big":
                self.building.set()
            self.there[where] = self.call("POST", f"/_api/index?collection={collection}", definition)["id"]
            self.building.clear()
        self.pending = {}
        self.done += 1

    def check(self, store):
        pass

    def check_indexes(self, found):
        """found: (collection, name) -> id of each index that is there and complete."""
        for where in self.there.keys() ^ found.keys():
            if where not in self.pending:
                raise Wrong(f"index {where} is {'there' if where in found else 'gone'}, against what was acknowledged")
        self.there = dict(found)
        self.pending = {}
        self.building.clear()


class Collections(Writer):
    """Creates collections with a few documents, and drops them."""

    NAMES = 5

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.there = {}  # name -> documents

    def step(self):
        self.count += 1
        name = f"tmp_{self.name}_{self.random.randrange(self.NAMES)}"
        if name in self.there:
            self.pending = {name: (self.there[name], None)}
            self.call("DELETE", f"/_api/collection/{name}")
            del self.there[name]
        else:
            self.pending = {name: (None, 0)}
            self.call("POST", "/_api/collection", {"name": name})
            self.there[name] = 0
            self.pending = {name: (0, 20)}
            self.aql(f"FOR i IN 1..20 INSERT {{n: i}} INTO {name}")
            self.there[name] = 20
        self.pending = {}
        self.done += 1

    def check(self, store):
        pass

    def check_collections(self, found):
        """found: name -> count of each collection that begins with tmp_ and this writer's name."""
        mine = {name: count for name, count in found.items() if name.startswith(f"tmp_{self.name}_")}
        for name in self.there.keys() | mine.keys():
            possible = self.pending.get(name, (self.there.get(name),))
            if mine.get(name) not in possible:
                raise Wrong(f"collection {name}: {mine.get(name)} documents, not one of {possible}")
        self.there = mine
        self.pending = {}


class Backups(Writer):
    """Makes backups while the others write, and deletes old ones."""

    collections = {"backups": 2}
    KEPT = 2

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.there = {}        # id -> what the document was before it was asked for
        self.creating = None   # (label, the same) under way
        self.deleting = None   # id

    def step(self):
        self.count += 1
        document = {"_key": f"{self.name}-made", "n": self.count}
        self.write({("backups", document["_key"]): document}, lambda: Documents.revs(
            [self.call("POST", "/_api/document/backups?overwriteMode=replace", document)]))
        self.creating = (f"{self.name}-{self.count}", self.count)
        made = self.call("POST", "/_admin/backup/create", {"label": self.creating[0]})
        self.there[made["result"]["id"]] = self.count
        self.creating = None
        while len(self.there) > self.KEPT:
            self.deleting = next(iter(self.there))
            self.call("POST", "/_admin/backup/delete", {"id": self.deleting})
            del self.there[self.deleting]
            self.deleting = None
        self.done += 1

    def check_backups(self, found):
        """found: id -> entry of the list. What a crash left half done must not be in it."""
        for id_ in self.there.keys() - found.keys() - {self.deleting}:
            raise Wrong(f"backup {id_} is gone")
        for id_ in found.keys() - self.there.keys():
            if not self.creating or not id_.endswith("_" + self.creating[0]):
                raise Wrong(f"backup {id_} is there, against what was acknowledged")
            self.there[id_] = self.creating[1]
        for id_, entry in found.items():
            if not entry["available"]:
                raise Wrong(f"backup {id_} is listed and cannot be used: {entry}")
        self.there = {id_: n for id_, n in self.there.items() if id_ in found}
        self.creating = self.deleting = None
