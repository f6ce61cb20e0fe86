# SPDX-License-Identifier: Apache-2.0
"""The Model Context Protocol at /mcp: by the public client against a node with the small models, and
message by message under ASan."""
import asyncio
import concurrent.futures
import json
import time

import httpx2
import jsonschema
import pytest
import requests
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from conftest import cli

OLD, NEW = "2025-03-26", "2025-06-18"
BOTH = "application/json, text/event-stream"


def post(server, message, *, version=NEW, accept=BOTH, path="/mcp", **options):
    headers = {"Accept": accept, "MCP-Protocol-Version": version}
    body = message if isinstance(message, (bytes, str)) else json.dumps(message)
    return server.request("POST", path, data=body, headers={
        "Content-Type": "application/json", **{k: v for k, v in headers.items() if v}}, **options)


def request(method, params=None, number=1):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


def result(server, method, params=None, **options):
    answer = post(server, request(method, params, 7), **options)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["jsonrpc"] == "2.0" and body["id"] == 7
    return body["result"]


def call(server, tool, arguments=None, **options):
    params = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
    answer = result(server, "tools/call", params, **options)
    assert [block["type"] for block in answer["content"]] == ["text"]
    if answer["isError"]:
        assert "structuredContent" not in answer
        return answer["content"][0]["text"]
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    return answer["structuredContent"]


def refused(answer, status, code, *words):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["error"]["code"] == code, body
    for word in words:
        assert word.lower() in body["error"]["message"].lower(), body
    return body["id"]


# ---- the public client, real models ----

@pytest.fixture(scope="module")
def imported(real):
    cli(real, "import", "samples/medical", "samples/geospatial")
    return real


def with_client(server, work, headers=None, **options):
    async def run():
        async with httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http:
            transport = streamable_http_client(server.url + "/mcp", http_client=http)
            async with Client(transport, **options) as client:
                return await work(client)
    return asyncio.run(run())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_client_agrees_on_a_version_and_finds_the_tools(imported, mode):
    async def work(client):
        return client.protocol_version, client.server_info, (await client.list_tools()).tools
    version, info, tools = with_client(imported, work, mode=mode)
    assert version == NEW
    assert info.name == "themis"
    assert [tool.name for tool in tools] == ["query", "search", "ask"]
    assert all(tool.description and tool.title for tool in tools)
    assert [tool.annotations.read_only_hint for tool in tools] == [False, True, True]


def test_the_client_asks_and_gets_citations(imported):
    async def work(client):
        return await client.call_tool("ask", {"question": "At which temperature are vaccines stored?"})
    answer = with_client(imported, work)
    assert not answer.is_error
    assert answer.structured_content["answered"] is True
    paths = {c["path"] for c in answer.structured_content["citations"]}
    assert "samples/medical/vaccination-guideline.md" in paths


def test_the_client_searches_and_queries(imported):
    async def work(client):
        found = await client.call_tool("search", {"question": "How high is Beacon Hill?", "top_k": 3})
        rows = await client.call_tool("query", {
            "query": "FOR d IN documents FILTER d.chunks >= @n SORT d.path LIMIT 2 RETURN d.path",
            "bind": {"n": 1}})
        return found.structured_content, rows.structured_content
    found, rows = with_client(imported, work)
    assert found["relevant"] and 1 <= len(found["sources"]) <= 3
    assert "Beacon Hill" in found["sources"][0]["text"]
    assert len(rows["rows"]) == 2 and rows["truncated"] is False


def test_the_client_sees_errors_of_tools_and_of_the_protocol(imported):
    async def work(client):
        wrong = await client.call_tool("query", {"query": "FOR x IN nowhere RETURN x"})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("no_such_tool", {})
        return wrong, unknown.value
    wrong, unknown = with_client(imported, work)
    assert wrong.is_error and "nowhere" in wrong.content[0].text and "1203" in wrong.content[0].text
    assert unknown.error.code == -32602


# ---- the life of a conversation ----

@pytest.fixture(scope="module")
def things(sim):
    sim.request("POST", "/_api/collection", json={"name": "things"})
    sim.request("POST", "/_api/document/things", json=[{"_key": f"k{i}", "n": i} for i in range(150)])
    text = "Tea is grown on the hill. The hill is 300 metres high."
    done = sim.request("POST", "/v1/import", json={"documents": [{"path": "tea.txt", "text": text}]})
    assert done.status_code == 200, done.text
    return sim


@pytest.mark.parametrize("asked, given", [(OLD, OLD), (NEW, NEW), ("2024-11-05", NEW), ("2030-01-01", NEW)])
def test_versions_are_negotiated(sim, asked, given):
    answer = result(sim, "initialize", {"protocolVersion": asked, "capabilities": {},
                                        "clientInfo": {"name": "t", "version": "1"}}, version=None)
    assert answer["protocolVersion"] == given
    assert answer["capabilities"] == {"tools": {"listChanged": False}}
    assert answer["serverInfo"]["name"] == "themis" and answer["instructions"]


def test_initialize_ignores_a_version_that_it_is_to_negotiate(sim):
    answer = result(sim, "initialize", {"protocolVersion": "2030-01-01"}, version="2030-01-01")
    assert answer["protocolVersion"] == NEW


def test_no_session_is_given(sim):
    answer = post(sim, request("initialize", {"protocolVersion": NEW}))
    assert "Mcp-Session-Id" not in answer.headers
    assert answer.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("message", [
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}},
    {"jsonrpc": "2.0", "method": "notifications/of/tomorrow"},
    {"jsonrpc": "2.0", "id": 3, "result": {}},
    {"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}},
])
def test_what_needs_no_answer_gets_202(sim, message):
    answer = post(sim, message)
    assert answer.status_code == 202 and answer.content == b""


def test_ping(sim):
    assert result(sim, "ping") == {}
    answer = post(sim, {"jsonrpc": "2.0", "id": "a string", "method": "ping"}).json()
    assert answer == {"jsonrpc": "2.0", "id": "a string", "result": {}}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_of_the_server_and_no_session_to_delete(sim, method):
    answer = sim.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 405 and answer.headers["Allow"] == "POST"


# ---- messages that are wrong ----

@pytest.mark.parametrize("body, code, words", [
    (b"", -32700, ["empty"]),
    (b"{", -32700, []),
    (b"\xff\xfe", -32700, []),
    (b"[" * 100000, -32700, []),
    (b"null", -32600, ["object"]),
    (b'"ping"', -32600, ["object"]),
    (b'{"id":1,"method":"ping"}', -32600, ["jsonrpc"]),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, ["jsonrpc"]),
    (b'{"jsonrpc":"2.0","id":1}', -32600, ["method"]),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, ["method"]),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, ["id"]),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, ["id"]),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, ["id"]),
])
def test_what_is_no_message_gets_400(sim, body, code, words):
    refused(post(sim, body), 400, code, *words)


@pytest.mark.parametrize("method, params, code, words", [
    ("tools/burn", None, -32601, ["tools/burn"]),
    ("resources/list", None, -32601, ["resources/list"]),
    ("ping", [1], -32602, ["params"]),
    ("initialize", {}, -32602, ["protocolVersion"]),
    ("tools/list", {"cursor": "x"}, -32602, ["cursor"]),
    ("tools/call", None, -32602, ["tool"]),
    ("tools/call", {"name": "burn"}, -32602, ["burn"]),
    ("tools/call", {"name": "query", "arguments": "RETURN 1"}, -32602, ["arguments"]),
])
def test_errors_of_the_protocol(sim, method, params, code, words):
    assert refused(post(sim, request(method, params, 9)), 200, code, *words) == 9


@pytest.mark.parametrize("version", ["2024-11-05", "2026-07-28", "x", "2025-06-18, 2025-06-18"])
def test_other_versions_in_the_header_are_refused(sim, version):
    refused(post(sim, request("ping"), version=version), 400, -32600, OLD, NEW)


def test_accept_must_allow_json(sim):
    refused(post(sim, request("ping"), accept="text/event-stream"), 406, -32600, "application/json")
    refused(post(sim, request("ping"), accept="application/jsonx, text/html"), 406, -32600)
    for accept in (BOTH, "text/event-stream, Application/JSON;q=0.5", "*/*", "application/*"):
        assert post(sim, request("ping"), accept=accept).status_code == 200, accept


def test_a_page_of_another_origin_is_refused(sim):
    answer = sim.request("POST", "/mcp", json=request("ping"), headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


def test_a_body_beyond_the_limit_is_refused(sim):
    answer = post(sim, b'"' + b"x" * (4 << 20) + b'"')
    assert answer.status_code == 413


# ---- batches ----

def test_the_old_revision_has_batches_in_order(things):
    batch = [request("ping", None, 1),
             {"jsonrpc": "2.0", "method": "notifications/initialized"},
             request("tools/call", {"name": "query", "arguments": {"query": "RETURN 1 + 1"}}, "q"),
             request("tools/call", {"name": "ask", "arguments": {"question": "How high is it?"}}, "a"),
             request("tools/call", {"name": "query", "arguments": {"query": "RETURN 1 +"}}, "e"),
             request("initialize", {"protocolVersion": OLD}, 2),
             17,
             request("no/such", None, 3)]
    for version in (OLD, None):
        answer = post(things, batch, version=version)
        assert answer.status_code == 200, answer.text
        bodies = answer.json()
        assert [body["id"] for body in bodies] == [1, "q", "a", "e", 2, None, 3]
        assert bodies[1]["result"]["structuredContent"]["rows"] == [2]
        assert bodies[2]["result"]["isError"] is False
        assert bodies[3]["result"]["isError"] is True
        assert [body["error"]["code"] for body in bodies[4:]] == [-32600, -32600, -32601]


def test_a_batch_of_the_longest_length_and_beyond(things):
    many = [request("tools/call", {"name": "ask", "arguments": {"question": f"How high is hill {i}?"}}, i)
            for i in range(20)]
    answer = post(things, many, version=OLD).json()
    assert [body["id"] for body in answer] == list(range(20))
    assert not any(body["result"]["isError"] for body in answer)
    refused(post(things, [*many, request("ping")], version=OLD), 400, -32600, "20")
    refused(post(things, [], version=OLD), 400, -32600, "batch")
    answer = post(things, [{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 3, version=OLD)
    assert answer.status_code == 202 and answer.content == b""


def test_the_new_revision_has_no_batches(sim):
    refused(post(sim, [request("ping")], version=NEW), 400, -32600, "batch")


# ---- tools ----

def test_schemas_are_what_the_tools_take(things):
    """Each name of a schema is read, a wrong type of it is an error that names it, others are refused."""
    right = {"query": {"query": "RETURN 1"}, "search": {"question": "tea?"}, "ask": {"question": "tea?"}}
    for tool in result(things, "tools/list")["tools"]:
        name, schema = tool["name"], tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        jsonschema.validate(right[name], schema)
        jsonschema.validate(call(things, name, right[name]), tool["outputSchema"])
        for member in schema["properties"]:
            wrong = {**right[name], member: ["a list is never right"]}
            assert f"'{member}'" in call(things, name, wrong)
        assert "surplus" in call(things, name, {**right[name], "surplus": 1})
        for member in schema["required"]:
            less = {k: v for k, v in right[name].items() if k != member}
            assert f"'{member}'" in call(things, name, less)
        assert isinstance(call(things, name), str)


def test_query_returns_rows_warnings_and_what_was_cut(things):
    answer = call(things, "query", {"query": "FOR t IN things SORT t.n RETURN t.n"})
    assert answer["rows"] == list(range(100)) and answer["count"] == 150 and answer["truncated"]
    answer = call(things, "query", {"query": "FOR t IN things SORT t.n RETURN t.n", "limit": 150})
    assert len(answer["rows"]) == 150 and not answer["truncated"]
    answer = call(things, "query", {"query": "RETURN 1 / 0"})
    assert answer["rows"] == [None] and "division" in answer["warnings"][0]
    answer = call(things, "query", {"query": "FOR i IN 1..100 RETURN REPEAT('x', 100000)"})
    assert answer["truncated"] and 0 < len(answer["rows"]) < 12 and answer["count"] == 100
    assert call(things, "query", {"query": "RETURN @a", "bind": {"a": [1]}})["rows"] == [[1]]


def test_query_writes_only_when_told(things):
    insert = "INSERT {_key: 'from-mcp'} INTO things"
    assert '"write": true' in call(things, "query", {"query": insert})
    assert '"write": true' in call(things, "query", {"query": insert, "write": False})
    assert things.rows("RETURN DOCUMENT('things/from-mcp')") == [None]
    assert call(things, "query", {"query": insert, "write": True})["written"] == 1
    assert things.rows("RETURN DOCUMENT('things/from-mcp')._key") == ["from-mcp"]


def test_errors_of_a_query_are_results(things):
    for query, words in (("RETURN", "error 15"), ("FOR x IN nothing RETURN x", "nothing"),
                         ("RETURN @missing", "missing"), ("RETURN NOSUCH(1)", "NOSUCH")):
        assert words in call(things, "query", {"query": query}), query


def test_a_query_that_asks_a_model(things):
    answer = call(things, "query", {"query": "FOR i IN 1..3 RETURN INFER 'chat' CONCAT('say ', i)"})
    assert len(answer["rows"]) == 3 and all(isinstance(row, str) for row in answer["rows"])


def test_a_database_of_its_own(things):
    assert things.request("POST", "/_api/database", json={"name": "shelf"}).status_code == 201
    assert "things" in call(things, "query", {"query": "FOR t IN things RETURN t"}, path="/_db/shelf/mcp")
    answer = post(things, request("tools/call", {"name": "query", "arguments": {"query": "RETURN 1"}}),
                  path="/_db/nowhere/mcp").json()
    assert answer["result"]["isError"] and "nowhere" in answer["result"]["content"][0]["text"]


def test_credentials_and_rights(start):
    server = start(settings=["auth=on"], env={"THEMIS_ROOT_PASSWORD": "secret"})
    root = ("root", "secret")
    assert post(server, request("ping")).status_code == 401
    assert post(server, request("ping"), auth=("root", "wrong")).status_code == 401
    assert post(server, request("ping"), auth=root).status_code == 200
    for name in ("open", "closed"):
        server.request("POST", "/_api/collection", json={"name": name}, auth=root)
    server.request("POST", "/_api/user", json={"user": "ann", "passwd": "pw"}, auth=root)
    ann = ("ann", "pw")
    assert post(server, request("ping"), auth=ann).status_code == 401  # no database yet
    for path, grant in (("_system", "ro"), ("_system/open", "ro"), ("_system/closed", "none")):
        server.request("PUT", f"/_api/user/ann/database/{path}", json={"grant": grant}, auth=root)
    assert call(server, "query", {"query": "FOR o IN open RETURN o"}, auth=ann)["rows"] == []
    assert "closed" in call(server, "query", {"query": "FOR c IN closed RETURN c"}, auth=ann)
    assert "open" in call(server, "query", {"query": "INSERT {} INTO open", "write": True}, auth=ann)
    assert "chunks" in call(server, "ask", {"question": "Is it?", "collection": "chunks"}, auth=ann)

    key = server.request("POST", "/_api/token/ann", json={"name": "agent"}, auth=root).json()["token"]

    async def work(client):
        return await client.call_tool("query", {"query": "RETURN 2"})
    answer = with_client(server, work, headers={"Authorization": f"Bearer {key}"})
    assert answer.structured_content["rows"] == [2]


def test_calls_that_wait_for_a_model_hold_no_worker(start):
    """Six slow asks and queries at two workers: others are answered meanwhile."""
    server = start({"chat": "sim:chat,decode=30,script=" + "word " * 60, "embed": "sim:embed,dim=384"},
                   settings=["workers=2"])
    text = "The hill is 300 metres high. It is made of chalk."
    server.request("POST", "/v1/import", json={"documents": [{"path": "hill.txt", "text": text}]})
    slow = [("query", {"query": "RETURN INFER 'chat' 'a long story'"}),
            ("ask", {"question": "How high is the hill?", "min_score": -1})] * 3
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        running = [threads.submit(call, server, *one) for one in slow]
        time.sleep(0.5)
        begun = time.monotonic()
        assert call(server, "query", {"query": "RETURN 1"})["rows"] == [1]
        assert time.monotonic() - begun < 2
        assert not any(one.done() for one in running)
        assert all("word word" in str(one.result()) for one in running)


def test_a_client_that_leaves_ends_its_call(start):
    server = start({"chat": "sim:chat,decode=5,script=" + "word " * 400})

    def inference():
        status = server.request("GET", "/_admin/status").json()["themis"]["inference"]
        return status["running"] + status["waiting"]
    with pytest.raises(requests.exceptions.ReadTimeout):
        call(server, "query", {"query": "RETURN INFER 'chat' 'a long story'"}, timeout=1)
    end = time.monotonic() + 20
    while inference():
        assert time.monotonic() < end, "the generation still runs"
        time.sleep(0.05)
