# SPDX-License-Identifier: Apache-2.0
"""Users, grants, tokens and access by python-arango, under ASan with auth on."""
import base64
import json
import time

import jwt
import pytest
import requests
from arango import ArangoClient
from arango.exceptions import (AccessTokenCreateError, AQLQueryExecuteError, CollectionCreateError,
                               CollectionListError, DocumentGetError, DocumentInsertError,
                               IndexCreateError, JWTAuthError, ServerConnectionError, UserCreateError,
                               UserDeleteError, UserGetError, UserUpdateError)

SECRET = "a secret of the test that is long enough"
ROOT = "root password"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from conftest import Server, SIM_MODELS, asan_server
    folder = tmp_path_factory.mktemp("users")
    (folder / "secret").write_text(SECRET + "\n")
    (folder / "password").write_text(ROOT)
    server = Server(asan_server(), folder / "data", SIM_MODELS, settings=[
        "auth=true", f"jwt_secret_file={folder}/secret", f"root_password_file={folder}/password"])
    yield server.wait_ready()
    server.stop()


@pytest.fixture(scope="module")
def client(server):
    client = ArangoClient(hosts=server.url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def system(client):
    return client.db("_system", username="root", password=ROOT, verify=True)


@pytest.fixture(scope="module")
def shop(system):
    """A database with ann, who may write to it."""
    assert system.create_database("shop", users=[{"username": "ann", "password": "pw", "active": True}])
    return "shop"


def as_user(client, name, password="pw", db="shop", **more):
    return client.db(db, username=name, password=password, **more)


def test_nothing_without_credentials(server):
    for method, path in (("GET", "/_api/version"), ("GET", "/_api/user"), ("POST", "/_api/cursor"),
                         ("GET", "/v1/models"), ("POST", "/_open/auth/renew")):
        answer = requests.request(method, server.url + path, timeout=30)
        assert answer.status_code == 401, path
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
    assert requests.get(server.url + "/_api/version", auth=("root", "x"), timeout=30).json()["errorNum"] == 11


def test_accounts(system):
    made = system.create_user("eve", "pw", active=True, extra={"a": 1})
    assert made == {"username": "eve", "active": True, "extra": {"a": 1}}
    with pytest.raises(UserCreateError) as twice:
        system.create_user("eve", "pw")
    assert twice.value.error_code == 1702 and twice.value.http_code == 409
    assert system.update_user("eve", "pw", active=False, extra={"b": 2})["extra"] == {"a": 1, "b": 2}
    assert system.replace_user("eve", "pw", active=True, extra={"c": 3})["extra"] == {"c": 3}
    assert {"root", "eve"} <= {u["username"] for u in system.users()}
    assert system.delete_user("eve")
    with pytest.raises(UserGetError) as gone:
        system.user("eve")
    assert gone.value.error_code == 1703
    with pytest.raises(UserDeleteError):
        system.delete_user("root")
    with pytest.raises(UserUpdateError) as fixed:
        system.update_user("root", "other")
    assert fixed.value.http_code == 403
    with pytest.raises(UserCreateError):
        system.create_user("a:b", "pw")


def test_hashes_are_not_shown(client, system, shop):
    rows = list(system.aql.execute("FOR u IN _users RETURN u"))
    assert rows and all("pw" not in json.dumps(r) for r in rows)
    system.update_permission("ann", "ro", "_system")
    ann = as_user(client, "ann", db="_system")
    for read in (lambda: list(ann.aql.execute("FOR u IN _users RETURN u")),
                 lambda: list(ann.aql.execute("RETURN DOCUMENT('_users/x')"))):
        with pytest.raises(AQLQueryExecuteError) as refused:
            read()
        assert refused.value.http_code == 403
    with pytest.raises(DocumentGetError):
        ann.collection("_users").get("x")
    with pytest.raises(DocumentInsertError) as direct:
        system.collection("_users").insert({"user": "mallory"})
    assert direct.value.http_code == 403
    assert system.reset_permission("ann", "_system")


def test_inactive_and_removed_users_are_out_at_once(client, system, shop):
    system.create_user("tim", "pw")
    system.update_permission("tim", "rw", shop)
    tim = as_user(client, "tim")
    token = as_user(client, "tim", auth_method="jwt")
    assert tim.properties() and token.properties()
    system.update_user("tim", active=False)
    for db in (tim, token):
        with pytest.raises((CollectionListError, JWTAuthError)) as out:
            db.collections()
        assert out.value.http_code == 401
    system.update_user("tim", active=True)
    assert tim.properties()
    assert system.delete_user("tim")
    with pytest.raises(CollectionListError):
        tim.collections()


def test_levels_of_a_database(client, system, shop):
    ann = as_user(client, "ann")
    assert ann.databases_accessible_to_user() == [shop]
    assert ann.create_collection("goods").insert({"_key": "a"})
    assert system.update_permission("ann", "ro", shop)
    with pytest.raises(CollectionCreateError) as refused:
        ann.create_collection("more")
    assert refused.value.http_code == 403 and refused.value.error_code == 11
    with pytest.raises(IndexCreateError):
        ann.collection("goods").add_index({"type": "persistent", "fields": ["a"]})
    assert ann.collection("goods").insert({})  # the collections are still rw
    assert system.update_permission("ann", "none", shop)
    with pytest.raises(CollectionListError) as none:
        ann.collections()
    assert none.value.http_code == 401
    assert system.update_permission("ann", "rw", shop)
    with pytest.raises(ServerConnectionError):
        as_user(client, "ann", db="_system", verify=True)


def test_levels_of_a_collection_hold_in_queries_too(client, system, shop):
    ann = as_user(client, "ann")
    for name in ("open", "closed", "shown"):
        ann.create_collection(name).insert({"_key": "k", "secret": name})
    ann.create_collection("edges", edge=True).insert({"_from": "closed/k", "_to": "open/k"})
    assert system.update_permission("ann", "none", shop, "closed")
    assert system.update_permission("ann", "ro", shop, "shown")
    assert system.permission("ann", shop, "closed") == "none"
    assert {c["name"] for c in ann.collections()} >= {"open", "shown", "edges"}
    assert "closed" not in {c["name"] for c in ann.collections()}
    for text in ("FOR d IN closed RETURN d", "RETURN DOCUMENT('closed/k')", "RETURN DOCUMENT('closed', 'k')",
                 "RETURN LENGTH(FOR d IN closed RETURN 1)", "FOR d IN closed FILTER d._key == 'k' RETURN d",
                 "FOR d IN open LET x = (FOR c IN closed RETURN c) RETURN x",
                 "INSERT {} INTO closed", "INSERT {} INTO shown", "REMOVE 'k' IN shown",
                 "UPDATE 'k' WITH {a: 1} IN shown", "UPSERT {_key: 'k'} INSERT {} UPDATE {a: 1} IN shown"):
        with pytest.raises(AQLQueryExecuteError) as refused:
            list(ann.aql.execute(text))
        assert (refused.value.http_code, refused.value.error_code) == (403, 11), text
    assert list(ann.aql.execute("FOR d IN shown RETURN d.secret")) == ["shown"]
    assert list(ann.aql.execute("FOR d IN open UPDATE d WITH {a: 1} IN open RETURN NEW.a")) == [1]
    with pytest.raises(DocumentInsertError):
        ann.collection("shown").insert_many([{}])
    with pytest.raises(DocumentInsertError):
        ann.collection("shown").import_bulk([{}])
    assert system.reset_permission("ann", shop, "closed")
    assert list(ann.aql.execute("FOR d IN closed RETURN d.secret")) == ["closed"]
    permissions = system.permissions("ann")[shop]
    assert permissions["permission"] == "rw"
    assert permissions["collections"]["shown"] == "ro" and permissions["collections"]["open"] == "undefined"


def test_only_administrators_administer(client, system, shop, server):
    ann = as_user(client, "ann")
    for call in (lambda: ann.create_user("x", "y"), lambda: ann.delete_user("ann")):
        with pytest.raises((UserCreateError, UserDeleteError)) as refused:
            call()
        assert refused.value.http_code == 403
    url = f"{server.url}/_db/shop/_api/user"
    ask = lambda method, path, **more: requests.request(method, url + path, auth=("ann", "pw"), timeout=30, **more)
    assert ask("GET", "").status_code == 403
    assert ask("GET", "/root").status_code == 403
    assert ask("GET", "/ann").json()["user"] == "ann"
    assert ask("PATCH", "/ann", json={"active": False}).status_code == 403
    assert ask("PUT", "/ann/database/_system", json={"grant": "rw"}).status_code == 403
    assert ask("GET", "/ann/database").json()["result"] == {"shop": "rw"}
    assert ask("PATCH", "/ann", json={"passwd": "new", "extra": {"own": True}}).status_code == 200
    assert ask("GET", "/ann").status_code == 401
    system.update_user("ann", "pw")
    assert ask("GET", "/ann").json()["extra"] == {"own": True}
    for path, body, status, num in (("/ann/database/nowhere", {"grant": "rw"}, 404, 1228),
                                    ("/ann/database/shop/nothing", {"grant": "rw"}, 404, 1203),
                                    ("/ann/database/shop", {"grant": "all"}, 400, 10),
                                    ("/ann/database/shop", {"grnat": "rw"}, 400, 10),
                                    ("/nobody/database/shop", {"grant": "rw"}, 404, 1703)):
        answer = requests.put(f"{server.url}/_api/user{path}", json=body, auth=("root", ROOT), timeout=30)
        assert (answer.status_code, answer.json()["errorNum"]) == (status, num), path
    assert requests.put(server.url + "/v1/models/m", data=b"x", auth=("ann", "pw"), timeout=30).status_code == 403


def test_tokens(client, system, shop, server):
    def get(token, path="/_db/shop/_api/version"):
        return requests.get(server.url + path, headers={"Authorization": "bearer " + token}, timeout=30)

    issued = requests.post(server.url + "/_open/auth", json={"username": "ann", "password": "pw"}, timeout=30).json()["jwt"]
    claims = jwt.decode(issued, SECRET, algorithms=["HS256"])
    assert claims["preferred_username"] == "ann" and claims["iss"] == "arangodb"
    assert get(issued).status_code == 200
    renewed = requests.post(server.url + "/_open/auth/renew", headers={"Authorization": "bearer " + issued},
                            timeout=30).json()["jwt"]
    assert jwt.decode(renewed, SECRET, algorithms=["HS256"])["exp"] >= claims["exp"]
    assert requests.post(server.url + "/_open/auth", json={"username": "ann", "password": "x"},
                         timeout=30).json()["errorNum"] == 401
    now = int(time.time())
    make = lambda **c: jwt.encode({"iss": "arangodb", "iat": now, "exp": now + 60, **c}, SECRET)
    assert get(make(server_id="client"), "/_api/user").status_code == 200  # superuser
    assert get(make(preferred_username="ann")).status_code == 200
    for bad in (make(preferred_username="nobody"), make(), make(server_id="x", exp=now - 1),
                jwt.encode({"server_id": "x", "exp": now + 60}, "another secret that is long enough"),
                jwt.encode({"server_id": "x"}, None, algorithm="none"),
                issued[:-2] + "xx", "v1.7b7d"):
        assert get(bad).status_code == 401, bad


def test_access_tokens(client, system, shop, server):
    ann = as_user(client, "ann")
    token = ann.create_access_token("ann", "laptop", int(time.time()) + 3600)
    assert token["active"] and token["token"].startswith("v1.")
    with pytest.raises(AccessTokenCreateError) as twice:
        ann.create_access_token("ann", "laptop", int(time.time()) + 3600)
    assert twice.value.http_code == 409
    assert as_user(client, "ann", token["token"], verify=True).properties()
    bearer = {"Authorization": "Bearer " + token["token"]}
    assert requests.get(server.url + "/v1/models", headers=bearer, timeout=30).status_code == 200
    listed = ann.list_access_tokens("ann")
    assert [t["name"] for t in listed] == ["laptop"]
    assert token["token"] not in json.dumps(listed) and "hash" not in listed[0]
    ann.delete_access_token("ann", token["id"])
    assert requests.get(server.url + "/v1/models", headers=bearer, timeout=30).status_code == 401


def test_a_large_first_request_waits_for_its_password(server, system, shop):
    """Its body arrives while a worker compares the password."""
    system.create_user("big", "pw")
    system.update_permission("big", "rw", shop)
    system.update_permission("big", "rw", shop, "*")
    documents = [{"text": "x" * 1000} for _ in range(3000)]
    url = f"{server.url}/_db/shop/_api/document/goods?silent=true"
    for password, status in (("wrong", 401), ("pw", 202), ("pw", 202)):
        answer = requests.post(url, json=documents, auth=("big", password), timeout=60)
        assert answer.status_code == status, answer.text
    system.create_user("big2", "pw")
    system.update_permission("big2", "rw", shop)
    body = b'{"query":"' + b"x" * (65 * 1024 * 1024) + b'"}'
    try:
        answer = requests.post(f"{server.url}/_db/shop/_api/cursor", data=body, auth=("big2", "pw"), timeout=60)
        assert answer.status_code == 413
    except requests.ConnectionError:
        pass  # closed while the body was still sent


def test_cursors_belong_to_their_user(client, system, shop, server):
    """For another user they do not exist, and their ids tell nothing about each other."""
    assert system.create_user("ben", "pw", active=True)
    assert system.update_permission("ben", "rw", shop)
    url = server.url + "/_db/shop/_api/cursor"

    def ask(method, path, user, **more):
        return requests.request(method, url + path, auth=(user, "pw"), timeout=30, **more)

    ids = []
    for _ in range(8):
        made = ask("POST", "", "ann", json={"query": "FOR i IN 1..5 RETURN i", "batchSize": 2}).json()
        ids.append(int(made["id"]))
    assert len(set(ids)) == 8 and min(abs(a - b) for a in ids for b in ids if a != b) > 1000
    for method, path in (("POST", f"/{ids[0]}"), ("PUT", f"/{ids[0]}"), ("POST", f"/{ids[0]}/2"),
                         ("DELETE", f"/{ids[0]}")):
        answer = ask(method, path, "ben")
        assert (answer.status_code, answer.json()["errorNum"]) == (404, 1600), (method, path)
    other = requests.post(f"{server.url}/_api/cursor/{ids[0]}", auth=("root", ROOT), timeout=30)
    assert (other.status_code, other.json()["errorNum"]) == (404, 1600)
    assert ask("POST", f"/{ids[0]}", "ann").json()["result"] == [3, 4]
    assert ask("DELETE", f"/{ids[1]}", "ann").status_code == 202
    assert ask("POST", f"/{ids[0]}", "ann").json() | {"extra": 0} == {
        "result": [5], "hasMore": False, "cached": False, "extra": 0, "error": False, "code": 200}


def test_graphs_name_what_their_user_may_read(client, system, shop, server):
    """A new graph, and a new definition or vertex collection of one."""
    ann = as_user(client, "ann")
    for name, is_edge in (("g_hidden", False), ("g_open", False), ("g_edges", True), ("g_hidden_edges", True)):
        ann.create_collection(name, edge=is_edge)
    for name in ("g_hidden", "g_hidden_edges"):
        assert system.update_permission("ann", "none", shop, name)
    url = server.url + "/_db/shop/_api/gharial"

    def ask(method, path, body):
        return requests.request(method, url + path, auth=("ann", "pw"), json=body, timeout=30)

    def edges(collection="g_edges", a="g_open", b="g_open"):
        return {"collection": collection, "from": [a], "to": [b]}

    def refused(answer):
        assert (answer.status_code, answer.json()["errorNum"]) == (403, 11), answer.text
        assert "g_hidden" in answer.json()["errorMessage"]

    for wrong in (edges("g_hidden_edges"), edges(a="g_hidden"), edges(b="g_hidden")):
        refused(ask("POST", "", {"name": "g", "edgeDefinitions": [wrong]}))
    refused(ask("POST", "", {"name": "g", "orphanCollections": ["g_hidden"]}))
    assert ask("GET", "/g", None).status_code == 404
    assert ask("POST", "", {"name": "g", "edgeDefinitions": [edges()]}).status_code == 202
    refused(ask("POST", "/g/vertex", {"collection": "g_hidden"}))
    refused(ask("POST", "/g/edge", edges("g_hidden_edges")))
    refused(ask("POST", "/g/edge", edges("g_new", "g_hidden")))
    refused(ask("PUT", "/g/edge/g_edges", edges(b="g_hidden")))
    assert ask("POST", "/g/vertex", {"collection": "g_made"}).status_code == 202
    # A wish that is not fulfilled is not ignored.
    answer = ask("PUT", "/g/edge/g_edges?dropCollections=true", edges(b="g_made"))
    assert (answer.status_code, answer.json()["errorNum"]) == (501, 9) and "dropCollections" in answer.text
    assert ask("PUT", "/g/edge/g_edges?dropCollections=maybe", edges(b="g_made")).status_code == 400
    assert ask("PUT", "/g/edge/g_edges?dropCollections=false", edges(b="g_made")).status_code == 202
    assert ask("GET", "/g", None).json()["graph"]["edgeDefinitions"] == [edges(b="g_made")]


def test_clients_that_leave_while_the_password_is_compared(server):
    for i in range(40):
        with server.connect() as s:
            pair = base64.b64encode(f"ann:wrong{i}".encode()).decode()
            s.sendall(f"POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {pair}\r\n"
                      f"Content-Length: 10\r\n\r\n{'12345' if i % 2 else ''}".encode())
    assert requests.get(server.url + "/livez", timeout=30).status_code == 200


def test_chat_and_documents_follow_the_rights_too(client, system, shop, server):
    ann = ("ann", "pw")
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    assert requests.post(server.url + "/v1/chat/completions", json=body, auth=ann, timeout=60).status_code == 200
    text = {"documents": [{"path": "a.txt", "text": "The sky is blue."}]}
    assert requests.post(server.url + "/v1/import", json=text, auth=ann, timeout=60).status_code == 403
    assert requests.post(server.url + "/_db/shop/v1/import", json=text, auth=ann, timeout=60).status_code == 200
    ask = {"question": "What is blue?"}
    assert requests.post(server.url + "/_db/shop/v1/search", json=ask, auth=ann, timeout=60).status_code == 200
    assert requests.post(server.url + "/v1/search", json=ask, auth=ann, timeout=60).status_code == 403
    assert requests.post(server.url + "/_db/shop/v1/ask", json=ask, auth=ann, timeout=60).status_code == 200
    assert requests.post(server.url + "/v1/ask", json=ask, auth=ann, timeout=60).status_code == 403
    keep = {"keep": ["a.txt"], "prefix": "a"}
    prune = "/v1/import/prune"
    assert requests.post(server.url + "/_db/shop" + prune, json=keep, auth=ann, timeout=60).status_code == 200
    assert requests.post(server.url + prune, json=keep, auth=ann, timeout=60).status_code == 403
    known, asked = "/v1/import/known", {"documents": [{"path": "a.txt", "source_digest": "d"}]}
    assert requests.post(server.url + "/_db/shop" + known, json=asked, auth=ann, timeout=60).status_code == 200
    assert requests.post(server.url + known, json=asked, auth=ann, timeout=60).status_code == 403
    chat = {**body, "retrieval": True}
    system.update_permission("ann", "none", shop, "chunks")
    for path, what in (("/v1/search", ask), ("/v1/ask", ask), ("/v1/ask", {**ask, "stream": True}),
                       ("/v1/chat/completions", chat), (prune, keep), (prune, {"keep": [], "prefix": "a"})):
        answer = requests.post(server.url + "/_db/shop" + path, json=what, auth=ann, timeout=60)
        assert answer.status_code == 403 and "chunks" in answer.text, (path, answer.text)
    for level, status in (("ro", 403), ("rw", 200)):  # reading is not enough to remove
        system.update_permission("ann", level, shop, "chunks")
        answer = requests.post(server.url + "/_db/shop" + prune, json=keep, auth=ann, timeout=60)
        assert answer.status_code == status, answer.text
        assert requests.post(server.url + "/_db/shop/v1/ask", json=ask, auth=ann, timeout=60).status_code == 200
    system.update_permission("ann", "ro", shop, "documents")
    assert requests.post(server.url + "/_db/shop" + prune, json=keep, auth=ann, timeout=60).status_code == 403
