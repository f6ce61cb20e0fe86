# SPDX-License-Identifier: Apache-2.0
"""Access tokens with scopes and limits, as bearer keys of the clients, under ASan with auth on."""
import time

import openai
import pytest
import requests

ROOT = "root password"
ADMIN = ("root", ROOT)
HOUR = 3600


def start_server(folder):
    from conftest import Server, SIM_MODELS, asan_server
    (folder / "password").write_text(ROOT)
    return Server(asan_server(), folder / "data", SIM_MODELS,
                  settings=["auth=true", f"root_password_file={folder}/password"]).wait_ready()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("keys"))
    answer = requests.post(server.url + "/_api/user", auth=ADMIN, timeout=30,
                           json={"user": "ann", "passwd": "pw"})
    assert answer.status_code == 201, answer.text
    for path in ("_system", "_system/*"):
        answer = requests.put(server.url + "/_api/user/ann/database/" + path, auth=ADMIN, timeout=30,
                              json={"grant": "rw"})
        assert answer.status_code == 200, answer.text
    answer = requests.post(server.url + "/_api/collection", auth=ADMIN, timeout=30, json={"name": "things"})
    assert answer.status_code == 200, answer.text
    yield server
    server.stop()


def new_key(server, name, user="ann", **more):
    answer = requests.post(f"{server.url}/_api/token/{user}", auth=ADMIN, timeout=30,
                           json={"name": name, "valid_until": int(time.time()) + HOUR, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def call(server, key, method, path, body=None):
    return requests.request(method, server.url + path, json=body, timeout=60,
                            headers={"Authorization": "Bearer " + key["token"]})


CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}

# What each scope opens, and a request that needs it.
NEEDS = {
    "infer": [("POST", "/v1/chat/completions", CHAT),
              ("POST", "/v1/embeddings", {"model": "embed", "input": "a text"}),
              ("POST", "/v1/tokenize", {"model": "chat", "content": "a text"})],
    "data": [("POST", "/_api/document/things", {"a": 1}),
             ("POST", "/_api/cursor", {"query": "FOR t IN things RETURN t"}),
             ("POST", "/v1/search", {"question": "what?"}),
             ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
             ("GET", "/_api/collection", None)],
    "admin": [("GET", "/_api/user", None), ("GET", "/_api/token/ann", None), ("GET", "/_admin/options", None),
              ("POST", "/_api/token/ann", {"name": "more", "valid_until": int(time.time()) + HOUR})],
}


@pytest.mark.parametrize("scope", NEEDS)
def test_a_scope_opens_its_routes_and_no_other(server, scope):
    key = new_key(server, f"only {scope}", scopes=[scope])
    assert key["scopes"] == [scope] and "limits" not in key
    for needed, wanted in NEEDS.items():
        for method, path, body in wanted:
            answer = call(server, key, method, path, body)
            if needed == scope:
                assert answer.status_code not in (401, 403), (path, answer.text)
            else:
                assert answer.status_code == 403, (path, answer.status_code, answer.text)
                assert f"no scope '{needed}'" in answer.text, answer.text
    assert call(server, key, "GET", "/v1/models").status_code == 200


def test_a_scope_gives_no_rights_that_the_user_lacks(server):
    answer = requests.post(server.url + "/_api/user", auth=ADMIN, timeout=30, json={"user": "bob", "passwd": "pw"})
    assert answer.status_code == 201
    key = new_key(server, "all", user="bob", scopes=["admin", "data", "infer"])
    assert call(server, key, "GET", "/_api/user").status_code == 403
    assert call(server, key, "POST", "/_api/document/things", {"a": 1}).status_code in (401, 403)
    assert call(server, key, "POST", "/v1/chat/completions", CHAT).status_code == 200


@pytest.mark.parametrize("query", ["RETURN INFER('chat', 'hi')", "RETURN EMBED('embed', 'a text')"])
def test_queries_ask_models_only_with_the_scope(server, query):
    data = new_key(server, "data " + query, scopes=["data"])
    answer = call(server, data, "POST", "/_api/cursor", {"query": query})
    assert answer.status_code == 403 and "no scope 'infer'" in answer.text, answer.text
    both = new_key(server, "both " + query, scopes=["data", "infer"])
    assert call(server, both, "POST", "/_api/cursor", {"query": query}).status_code == 201


def test_answers_from_documents_need_both(server):
    infer = new_key(server, "chat over documents", scopes=["infer"])
    answer = call(server, infer, "POST", "/v1/chat/completions", {**CHAT, "retrieval": {"top_k": 2}})
    assert answer.status_code == 403 and "no scope 'data'" in answer.text, answer.text


def test_a_bounded_key_makes_no_other(server):
    for more in ({"scopes": ["data"]}, {"limits": {"requests_per_minute": 100}}):
        key = new_key(server, f"makes none {more}", **more)
        answer = requests.post(server.url + "/_open/auth", timeout=30,
                               json={"username": "ann", "password": key["token"]})
        assert answer.status_code == 403 and "no other token" in answer.text, answer.text
        assert call(server, key, "POST", "/_open/auth/renew", {}).status_code == 403
    whole = new_key(server, "makes one")
    answer = requests.post(server.url + "/_open/auth", timeout=30, json={"username": "ann", "password": whole["token"]})
    assert answer.status_code == 200 and answer.json()["jwt"]


@pytest.mark.parametrize("user", ["ann", "root"])
def test_no_way_around_to_accounts(server, user):
    """By reading hashes, by writing rights or use, by another token."""
    key = new_key(server, "data only", user=user, scopes=["data"], limits={"requests_per_minute": 1000})
    for query in ("FOR u IN _users RETURN u", "FOR u IN _key_usage RETURN u", "RETURN DOCUMENT('_users/x')",
                  "FOR u IN _users UPDATE u WITH {tokens: []} IN _users", "INSERT {a: 1} INTO _users",
                  "REMOVE 'x' IN _key_usage"):
        answer = call(server, key, "POST", "/_api/cursor", {"query": query})
        assert answer.status_code == 403 and "no scope 'admin'" in answer.text, (query, answer.text)
    for path in ("/_api/document/_users/x", "/_api/collection/_users/count"):
        assert call(server, key, "GET", path).status_code == 403
    limited = new_key(server, "limits only", user=user, limits={"requests_per_minute": 1000})
    for method, path, body in (("POST", f"/_api/token/{user}", {"name": "x", "valid_until": int(time.time()) + HOUR}),
                               ("DELETE", f"/_api/token/{user}/1", None),
                               ("PATCH", f"/_api/user/{user}", {"passwd": "mine"})):
        answer = call(server, limited, method, path, body)
        assert answer.status_code == 403 and "with limits" in answer.text, (path, answer.text)
    assert call(server, limited, "GET", f"/_api/token/{user}").status_code == 200


@pytest.mark.parametrize("collection", ["_users", "_key_usage"])
def test_what_the_server_owns_is_written_by_nobody(server, collection):
    key = new_key(server, "makes use " + collection, limits={"tokens_per_day": 1000000})
    assert call(server, key, "POST", "/v1/chat/completions", CHAT).status_code == 200
    for _ in range(300):  # it is made when the first use is written
        if requests.get(f"{server.url}/_api/collection/{collection}", auth=ADMIN, timeout=30).ok:
            break
        time.sleep(0.2)
    for user in (ADMIN, ("ann", "pw")):
        for query in (f"INSERT {{user: 'eve'}} INTO {collection}", f"FOR u IN {collection} REMOVE u IN {collection}",
                      f"FOR u IN {collection} UPDATE u WITH {{active: true}} IN {collection}"):
            answer = requests.post(server.url + "/_api/cursor", auth=user, json={"query": query}, timeout=30)
            assert answer.status_code == 403 and "by the server only" in answer.text, (query, answer.text)
        answer = requests.post(f"{server.url}/_api/import?collection={collection}&type=documents", auth=user,
                               data='{"user": "eve"}\n', timeout=30)
        assert answer.status_code == 403 or answer.json().get("created") == 0, answer.text
        assert requests.delete(f"{server.url}/_api/collection/{collection}", auth=user, timeout=30).status_code == 403
    answer = requests.post(server.url + "/_api/cursor", auth=ADMIN, timeout=30,
                           json={"query": f"FOR u IN {collection} LIMIT 1 RETURN 1"})
    assert answer.status_code == 201, answer.text
    graph = {"name": "g" + collection, "edgeDefinitions": [], "orphanCollections": [collection]}
    assert requests.post(server.url + "/_api/gharial", auth=ADMIN, json=graph, timeout=30).status_code in (201, 202)
    answer = requests.delete(f"{server.url}/_api/gharial/{graph['name']}?dropCollections=true", auth=ADMIN, timeout=30)
    assert answer.status_code == 403, answer.text
    assert requests.get(server.url + "/_api/collection/" + collection, auth=ADMIN, timeout=30).status_code == 200


def test_the_key_as_a_password_is_bound_too(server):
    key = new_key(server, "as password", scopes=["infer"])
    answer = requests.get(server.url + "/_api/collection", auth=("ann", key["token"]), timeout=30)
    assert answer.status_code == 403 and "no scope 'data'" in answer.text


def test_requests_per_minute(server):
    key = new_key(server, "slow", limits={"requests_per_minute": 3})
    codes = [call(server, key, "GET", "/_api/version").status_code for _ in range(4)]
    assert codes == [200, 200, 200, 429]
    answer = call(server, key, "GET", "/_api/version")
    assert answer.json()["errorNum"] == 429 and "3 requests a minute" in answer.text
    assert 1 <= int(answer.headers["Retry-After"]) <= 20
    assert call(server, new_key(server, "another"), "GET", "/_api/version").status_code == 200


def test_tokens_by_the_openai_client(server):
    key = new_key(server, "few tokens", limits={"tokens_per_minute": 60})
    with openai.OpenAI(base_url=server.url + "/v1", api_key=key["token"], max_retries=0) as client:
        used = 0
        with pytest.raises(openai.RateLimitError) as refused:
            for _ in range(60):
                used += client.chat.completions.create(**CHAT).usage.total_tokens
        assert used >= 60
        assert refused.value.status_code == 429 and refused.value.type == "rate_limit_error"
        assert "60 tokens of models a minute" in refused.value.message
        with pytest.raises(openai.RateLimitError):
            client.embeddings.create(model="embed", input="a text")
    answer = call(server, key, "POST", "/_api/cursor", {"query": "RETURN INFER('chat', 'hi')"})
    assert answer.status_code == 429, answer.text
    assert call(server, key, "POST", "/_api/cursor", {"query": "RETURN 1"}).status_code == 201


def today(server, key, user="ann"):
    rows = requests.get(server.url + "/_api/token/" + user, auth=ADMIN, timeout=30).json()["tokens"]
    return next(row["model_tokens_today"] for row in rows if row["id"] == key["id"])


def test_streams_and_queries_are_counted(server):
    key = new_key(server, "counted", limits={"tokens_per_day": 1000000})
    with openai.OpenAI(base_url=server.url + "/v1", api_key=key["token"]) as client:
        chunks = list(client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True}))
        used = chunks[-1].usage.total_tokens
        assert used and today(server, key) == used
        used += client.embeddings.create(model="embed", input=["a text", "another"]).usage.total_tokens
        assert today(server, key) == used
    answer = call(server, key, "POST", "/_api/cursor",
                  {"query": "FOR i IN 1..5 RETURN INFER('chat', CONCAT('word ', i), {max_tokens: 3})"})
    assert answer.status_code == 201, answer.text
    assert today(server, key) >= used + 5 * 4


@pytest.mark.parametrize("more, text", [
    ({"scopes": []}, "'scopes'"), ({"scopes": "data"}, "'scopes'"), ({"scopes": ["all"]}, "'scopes'"),
    ({"scopes": [1]}, "'scopes'"), ({"limits": 5}, "'limits'"), ({"limits": {"words": 5}}, "words"),
    ({"limits": {"tokens_per_day": 0}}, "tokens_per_day"), ({"limits": {"tokens_per_day": 1.5}}, "tokens_per_day"),
    ({"limits": {"requests_per_minute": -1}}, "requests_per_minute"), ({"scope": ["data"]}, "scope"),
])
def test_bad_wishes(server, more, text):
    answer = requests.post(f"{server.url}/_api/token/ann", auth=ADMIN, timeout=30,
                           json={"name": "bad", "valid_until": int(time.time()) + HOUR, **more})
    assert answer.status_code == 400 and text in answer.text, answer.text


def test_a_day_lasts_across_a_restart(tmp_path):
    server = start_server(tmp_path)
    key = new_key(server, "of a day", user="root", limits={"tokens_per_day": 10})
    while (answer := call(server, key, "POST", "/v1/chat/completions", CHAT)).status_code == 200:
        pass
    assert answer.status_code == 429 and "10 tokens of models a day" in answer.text, answer.text
    used = today(server, key, "root")
    assert used >= 10
    server.stop()
    again = start_server(tmp_path)
    assert today(again, key, "root") == used
    answer = call(again, key, "POST", "/v1/chat/completions", CHAT)
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 60 or time.time() % 86400 < 300
    again.stop()
