# SPDX-License-Identifier: Apache-2.0
"""Stream transactions over HTTP: the driver's way first, then isolation, limits and misuse."""
import concurrent.futures
import time

import pytest
from arango import ArangoClient
from arango.exceptions import (DocumentInsertError, TransactionCommitError,
                               TransactionExecuteError, TransactionFetchError,
                               TransactionInitError)

TRX = "x-arango-trx-id"


@pytest.fixture
def db(sim):
    client = ArangoClient(hosts=sim.url)
    db = client.db("_system", username="root", password="")
    for name in ("accounts", "other"):
        db.create_collection(name)
    db.collection("accounts").insert_many([{"_key": "a", "n": 100}, {"_key": "b", "n": 100}])
    yield db
    for name in ("accounts", "other"):
        db.delete_collection(name)
    client.close()


class Trx:
    """A transaction over plain HTTP."""

    def __init__(self, server, status=201, **body):
        self.server = server
        body.setdefault("collections", {"write": "accounts"})
        answer = server.request("POST", "/_api/transaction/begin", json=body)
        assert answer.status_code == status, answer.text
        self.answer = answer.json()
        self.id = self.answer["result"]["id"] if status == 201 else None

    def call(self, method, path, **options):
        return self.server.request(method, path, headers={TRX: self.id}, **options)

    def aql(self, text, status=201, **bind):
        answer = self.call("POST", "/_api/cursor", json={"query": text, "bindVars": bind})
        assert answer.status_code == status, answer.text
        return answer.json()["result"] if status == 201 else answer.json()

    def end(self, method="PUT", status=200):
        answer = self.server.request(method, f"/_api/transaction/{self.id}")
        assert answer.status_code == status, answer.text
        return answer.json()

    def state(self):
        return self.server.request("GET", f"/_api/transaction/{self.id}").json()["result"]["status"]


def value(server, key):
    return server.request("GET", f"/_api/document/accounts/{key}").json()["n"]


# ---- the driver ----

def test_commit_with_the_driver(db):
    trx = db.begin_transaction(write="accounts", read="other", sync=True, allow_implicit=False,
                               lock_timeout=5, max_size=1 << 20)
    accounts = trx.collection("accounts")
    accounts.insert({"_key": "c", "n": 1})
    assert accounts.update({"_key": "a", "n": 90})["_key"] == "a"
    assert accounts.get("c")["n"] == 1
    assert db.collection("accounts").get("c") is None
    assert accounts.count() == 3 and db.collection("accounts").count() == 2
    assert list(trx.aql.execute("FOR d IN accounts SORT d._key RETURN d.n")) == [90, 100, 1]
    assert trx.transaction_status() == "running"
    assert trx.transaction_id in [t["id"] for t in db.list_transactions()]
    assert trx.commit_transaction()
    assert db.fetch_transaction(trx.transaction_id).transaction_status() == "committed"
    assert db.collection("accounts").get("a")["n"] == 90
    assert trx.transaction_id not in [t["id"] for t in db.list_transactions()]


def test_abort_with_the_driver(db):
    trx = db.begin_transaction(write=["accounts", "other"])
    trx.collection("accounts").truncate()
    trx.collection("other").insert({"_key": "x"})
    assert trx.collection("accounts").count() == 0
    assert trx.abort_transaction()
    assert trx.transaction_status() == "aborted"
    assert db.collection("accounts").count() == 2
    assert db.collection("other").count() == 0
    with pytest.raises(DocumentInsertError) as failed:
        trx.collection("accounts").insert({})
    assert failed.value.error_code == 1653


def test_truncate_inside_is_committed(db):
    trx = db.begin_transaction(write="accounts")
    trx.collection("accounts").truncate()
    trx.collection("accounts").insert({"_key": "only"})
    trx.commit_transaction()
    assert [d["_key"] for d in db.collection("accounts")] == ["only"]


def test_collections_must_be_declared(db):
    trx = db.begin_transaction(read="accounts")
    with pytest.raises(DocumentInsertError) as failed:
        trx.collection("accounts").insert({})
    assert failed.value.error_code == 1652
    assert trx.collection("other").count() == 0
    trx.abort_transaction()
    with pytest.raises(TransactionInitError) as unknown:
        db.begin_transaction(write="nothing")
    assert unknown.value.error_code == 1203


def test_undeclared_reading_can_be_refused(sim, db):
    trx = Trx(sim, allowImplicit=False)
    failed = trx.aql("FOR d IN other RETURN d", status=400)
    assert failed["errorNum"] == 1652 and "'other'" in failed["errorMessage"]
    assert trx.aql("FOR d IN accounts FILTER d._key == 'a' RETURN d.n") == [100]
    assert trx.call("GET", "/_api/collection/other/count").json()["errorNum"] == 1652
    trx.end("DELETE")


def test_javascript_is_refused(db):
    with pytest.raises(TransactionExecuteError) as failed:
        db.execute_transaction(command="function () { return 1; }", write="accounts")
    assert failed.value.http_code == 501 and "JavaScript" in str(failed.value)


def test_unknown_ids(sim, db):
    with pytest.raises(TransactionFetchError) as failed:
        db.fetch_transaction("123456789")
    assert failed.value.error_code == 1655 and failed.value.http_code == 404
    assert sim.request("GET", "/_api/document/accounts/a", headers={TRX: "99999"}).status_code == 404
    for bad in ("abc", "0", "-1", "99999999999999999999999"):
        answer = sim.request("GET", "/_api/document/accounts/a", headers={TRX: bad})
        assert answer.status_code == 400, bad
        assert TRX in answer.json()["errorMessage"]


# ---- isolation ----

def test_the_second_writer_loses(sim, db):
    one, two = Trx(sim), Trx(sim)
    for trx, n in ((one, 1), (two, 2)):
        trx.aql("UPDATE 'a' WITH {n: @n} IN accounts", n=n)
    one.end()
    failed = two.end(status=409)
    assert failed["errorNum"] == 1200 and "accounts/a" in failed["errorMessage"]
    assert two.state() == "aborted"
    assert two.end("DELETE")["result"]["status"] == "aborted"
    assert value(sim, "a") == 1


def skew(server, **options):
    """Each takes 150 from its own account if both together hold 200."""
    trxs = [Trx(server, **options) for _ in range(2)]
    for trx, key in zip(trxs, "ab"):
        assert trx.aql("RETURN SUM(FOR d IN accounts RETURN d.n)") == [200]
        trx.aql("UPDATE @k WITH {n: -50} IN accounts", k=key)
    return [trx.server.request("PUT", f"/_api/transaction/{trx.id}").status_code for trx in trxs]


def test_write_skew_is_refused(sim, db):
    assert skew(sim) == [200, 409]
    assert value(sim, "a") + value(sim, "b") == 50


def test_write_skew_happens_at_snapshot(sim, db):
    assert skew(sim, isolation="snapshot") == [200, 200]
    assert value(sim, "a") + value(sim, "b") == -100


def test_phantoms_are_refused(sim, db):
    trx = Trx(sim)
    assert trx.aql("FOR d IN accounts FILTER d.n > 500 COLLECT WITH COUNT INTO c RETURN c") == [0]
    trx.aql("INSERT {_key: 'none over 500'} INTO accounts".replace(" over ", "-"))
    sim.request("POST", "/_api/document/accounts", json={"n": 1000})
    assert trx.end(status=409)["errorNum"] == 1200


def test_reading_never_fails(sim, db):
    trx = Trx(sim, collections={"read": "accounts"})
    before = trx.aql("FOR d IN accounts SORT d._key RETURN d.n")
    sim.aql("FOR d IN accounts UPDATE d WITH {n: 0} IN accounts")
    assert trx.aql("FOR d IN accounts SORT d._key RETURN d.n") == before
    trx.end()


def test_exclusive_use(sim, db):
    trx = Trx(sim, collections={"exclusive": ["accounts"]}, isolation="snapshot")
    trx.aql("INSERT {_key: 'x'} INTO accounts")
    sim.request("POST", "/_api/document/accounts", json={"_key": "meanwhile"})
    assert trx.end(status=409)["errorNum"] == 1200


def test_exclusive_use_by_a_query(sim, db):
    for option, status in (("false", 200), ("true", 409)):
        trx = Trx(sim, isolation="snapshot")
        trx.aql(f"INSERT {{}} INTO accounts OPTIONS {{exclusive: {option}, waitForSync: true}}")
        sim.request("POST", "/_api/document/accounts", json={})
        trx.end(status=status)


def test_a_failed_statement_undoes_itself_only(sim, db):
    trx = Trx(sim)
    trx.aql("INSERT {_key: 'first'} INTO accounts")
    failed = trx.aql("FOR k IN ['second', 'a'] INSERT {_key: k} INTO accounts", status=409)
    assert failed["errorNum"] == 1210
    assert trx.call("POST", "/_api/document/accounts", json={"_key": "b"}).status_code == 409
    assert trx.aql("FOR d IN accounts SORT d._key RETURN d._key") == ["a", "b", "first"]
    trx.end()
    assert sim.rows("FOR d IN accounts SORT d._key RETURN d._key") == ["a", "b", "first"]


def test_money_stays(sim, db):
    """Transfers in both directions, repeated when refused; what is read inside always adds up."""
    def transfer(seed):
        done = 0
        while done < 5:
            trx = Trx(sim)
            n = trx.aql("FOR d IN accounts SORT d._key RETURN d.n")
            assert sum(n) == 200
            step = seed + done
            trx.aql("UPDATE 'a' WITH {n: @n} IN accounts", n=n[0] - step)
            trx.aql("UPDATE 'b' WITH {n: @n} IN accounts", n=n[1] + step)
            status = sim.request("PUT", f"/_api/transaction/{trx.id}").status_code
            assert status in (200, 409)
            done += status == 200

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(transfer, range(4)))
    moved = sum(seed + i for seed in range(4) for i in range(5))
    assert (value(sim, "a"), value(sim, "b")) == (100 - moved, 100 + moved)


# ---- limits and misuse ----

def test_repeated_ends(sim, db):
    trx = Trx(sim)
    trx.aql("INSERT {_key: 'x'} INTO accounts")
    trx.end()
    assert trx.end()["result"]["status"] == "committed"
    assert trx.end("DELETE", status=400)["errorNum"] == 1653


def test_bad_begins(sim, db):
    for body, word in (({"collections": 5}, "collections"),
                       ({"collections": {"write": [1]}}, "collections.write"),
                       ({"collections": {"wriet": "accounts"}}, "wriet"),
                       ({"isolation": "sloppy"}, "isolation"),
                       ({"allowImplicit": "yes"}, "allowImplicit"),
                       ({"maxTransactionSize": -1}, "maxTransactionSize"),
                       ({"colour": 1}, "colour")):
        refused = Trx(sim, status=400, **body)
        assert word in refused.answer["errorMessage"], body


def test_changes_of_the_catalog_are_refused_inside(sim, db):
    trx = Trx(sim)
    for method, path, body in (("POST", "/_api/collection", {"name": "inside"}),
                               ("DELETE", "/_api/collection/other", None),
                               ("POST", "/_api/index?collection=accounts",
                                {"type": "persistent", "fields": ["n"]})):
        answer = trx.call(method, path, json=body)
        assert (answer.status_code, answer.json()["errorNum"]) == (400, 1653), path
    trx.end("DELETE")


def test_size_limit(sim, db):
    trx = Trx(sim, maxTransactionSize=10_000)
    assert trx.call("POST", "/_api/document/accounts", json={"text": "x" * 5_000}).status_code == 202
    answer = trx.call("POST", "/_api/document/accounts", json={"text": "x" * 20_000})
    answer = trx.call("POST", "/_api/document/accounts", json={}) if answer.ok else answer
    assert answer.json()["errorNum"] == 32
    trx.end("DELETE")


def test_one_request_at_a_time(start):
    server = start({"chat": "sim:chat,decode=10,script=one two three four five six seven eight"})
    server.request("POST", "/_api/collection", json={"name": "accounts"})
    trx = Trx(server)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(trx.aql, "RETURN INFER('chat', 'x')")
        end = time.monotonic() + 20
        while server.request("GET", "/_admin/status").json()["themis"]["inference"]["running"] == 0:
            assert time.monotonic() < end
        answer = trx.call("GET", "/_api/document/accounts/a")
        assert (answer.status_code, answer.json()["errorNum"]) == (503, 28)
        assert trx.end(status=503)["errorNum"] == 28
        assert slow.result()[0].startswith("one")
    trx.end()


def test_idle_ones_end(start):
    server = start(settings=["transaction_idle_timeout_ms=1500", "max_transactions=2"])
    server.request("POST", "/_api/collection", json={"name": "accounts"})
    trx, second = Trx(server), Trx(server)
    trx.aql("INSERT {_key: 'x'} INTO accounts")
    refused = Trx(server, status=500).answer
    assert refused["errorNum"] == 32 and "max_transactions" in refused["errorMessage"]
    end = time.monotonic() + 30
    while second.state() == "running":
        assert time.monotonic() < end
        time.sleep(0.1)
    Trx(server).end("DELETE")
    assert server.request("GET", "/_api/document/accounts/x").status_code == 404
    assert "themis_stream_transactions_expired_total" in server.request("GET", "/metrics").text


def test_a_restart_aborts(start):
    server = start()
    server.request("POST", "/_api/collection", json={"name": "accounts"})
    trx = Trx(server)
    trx.aql("INSERT {_key: 'x'} INTO accounts")
    server.stop()
    server = start()
    assert server.rows("FOR d IN accounts RETURN d") == []
    assert server.request("GET", f"/_api/transaction/{trx.id}").status_code == 404


def test_a_client_that_leaves_gives_the_transaction_back(start):
    server = start({"chat": "sim:chat,decode=5,script=" + "word " * 400})
    server.request("POST", "/_api/collection", json={"name": "accounts"})
    trx = Trx(server)
    body = b'{"query": "INSERT {_key: INFER(\'chat\', \'x\')} INTO accounts"}'
    with server.connect() as s:
        s.sendall(f"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\n{TRX}: {trx.id}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while server.request("GET", "/_admin/status").json()["themis"]["inference"]["running"] == 0:
            time.sleep(0.01)
    end = time.monotonic() + 20
    while trx.call("GET", "/_api/collection/accounts/count").status_code == 503:
        assert time.monotonic() < end
        time.sleep(0.05)
    trx.end()
    assert server.rows("FOR d IN accounts RETURN d") == []


def test_users_and_databases_do_not_see_each_other(sim, db):
    trx = Trx(sim)
    sim.request("POST", "/_api/database", json={"name": "elsewhere"})
    try:
        answer = sim.request("GET", f"/_db/elsewhere/_api/transaction/{trx.id}")
        assert answer.json()["errorNum"] == 1655
        assert sim.request("GET", "/_db/elsewhere/_api/transaction").json()["transactions"] == []
    finally:
        sim.request("DELETE", "/_api/database/elsewhere")
    trx.end("DELETE")
    with pytest.raises(TransactionCommitError):
        db.fetch_transaction(trx.id).commit_transaction()
