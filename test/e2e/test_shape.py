# SPDX-License-Identifier: Apache-2.0
"""Answers of a given shape: the openai client's JSON mode and JSON schemas, and GBNF as llama-server
has it, with the small model. Whatever is asked for, other requests do not notice."""
import json
import random
import re
import threading
from typing import Annotated

import openai
import pytest
import requests

MESSAGES = [{"role": "user", "content": "Describe a person as JSON."}]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "colour": {"enum": ["red", "green", "blue"]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,8}$"},
                 "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "colour", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(real):
    with openai.OpenAI(base_url=real.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def of_schema(schema, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


def check_person(text):
    person = json.loads(text)
    assert list(person) == ["name", "age", "colour", "tags"]
    assert 1 <= len(person["name"]) <= 20
    assert isinstance(person["age"], int) and 18 <= person["age"] <= 99
    assert person["colour"] in ("red", "green", "blue")
    assert 1 <= len(person["tags"]) <= 3
    assert all(re.fullmatch("[a-z]{2,8}", tag) for tag in person["tags"])


@pytest.mark.parametrize("temperature", [0, 1])
def test_json_schema(client, temperature):
    for seed in range(4 if temperature else 1):
        answer = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=300, seed=seed,
                                                temperature=temperature, response_format=of_schema(PERSON))
        assert answer.choices[0].finish_reason == "stop"
        check_person(answer.choices[0].message.content)


def test_json_schema_in_a_stream(client):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 300, "temperature": 0,
               "response_format": of_schema(PERSON)}
    whole = client.chat.completions.create(**options).choices[0].message.content
    chunks = [c.choices[0] for c in client.chat.completions.create(**options, stream=True) if c.choices]
    assert "".join(c.delta.content or "" for c in chunks) == whole
    assert [c.finish_reason for c in chunks if c.finish_reason] == ["stop"]
    check_person(whole)


def test_a_model_class_of_the_client(client):
    """The client makes a strict schema of a pydantic class, with references."""
    pydantic = pytest.importorskip("pydantic")
    Short = Annotated[str, pydantic.Field(max_length=12)]

    class Step(pydantic.BaseModel):
        done: bool
        hours: int

    class Plan(pydantic.BaseModel):
        title: Short
        first: Step
        others: Annotated[list[Step], pydantic.Field(max_length=2)]
        note: Short | None

    answer = client.chat.completions.parse(model="chat", messages=MESSAGES, max_tokens=400, temperature=0,
                                           response_format=Plan)
    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(answer.choices[0].message.parsed, Plan)


def test_json_object(client):
    answer = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=300, temperature=0,
                                            response_format={"type": "json_object"})
    text = answer.choices[0].message.content
    assert text.startswith("{")
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    cut = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=4, temperature=0,
                                         response_format={"type": "json_object"}).choices[0]
    assert cut.finish_reason == "length" and text.startswith(cut.message.content)


def test_grammar(client):
    grammar = 'root ::= ("yes" | "no") " because " [a-z ]{5,30} "."'
    for call in (lambda body: client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=60,
                                                             temperature=0, extra_body=body)
                 .choices[0].message.content,
                 lambda body: client.completions.create(model="chat", prompt="Is water wet?", max_tokens=60,
                                                        temperature=0, extra_body=body).choices[0].text):
        assert re.fullmatch(r"(yes|no) because [a-z ]{5,30}\.", call({"grammar": grammar}))
        assert json.loads(call({"json_schema": {"enum": [1, 2, 3]}})) in (1, 2, 3)


def test_characters_that_are_several_tokens(client):
    text = "Grüße, 東京 🙂"
    grammar = f'root ::= "{text}" "!"{{3}}'
    answer = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=60,
                                            extra_body={"grammar": grammar}).choices[0]
    assert answer.message.content == text + "!!!" and answer.finish_reason == "stop"


def test_shape_with_bias_logprobs_and_stop(client):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 50, "temperature": 0}
    answer = client.chat.completions.create(**options, logprobs=True, logit_bias={"2": 100},
                                            response_format=of_schema({"enum": ["one", "two"]})).choices[0]
    assert answer.message.content in ('"one"', '"two"')
    assert "".join(t.token for t in answer.logprobs.content) == answer.message.content
    cut = client.chat.completions.create(**options, stop='"', extra_body={"grammar": 'root ::= "abc\\"def"'})
    assert cut.choices[0].message.content == "abc" and cut.choices[0].finish_reason == "stop"


BAD = [
    ({"response_format": {"type": "xml"}}, "text, json_object or json_schema"),
    ({"response_format": "json"}, "must be an object"),
    ({"response_format": {"type": "json_object", "extra": 1}}, "unknown field 'extra'"),
    ({"response_format": {"type": "json_schema"}}, "must be an object"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "must be a JSON schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}, "name"),
    ({"response_format": {"type": "text"}, "grammar": ""}, "empty"),
    ({"response_format": {"type": "json_object"}, "grammar": 'root ::= "a"'}, "only one of"),
    ({"json_schema": {}, "grammar": 'root ::= "a"'}, "only one of"),
    ({"grammar": "root ::= root"}, "begins with itself"),
    ({"grammar": "root ::= nope"}, "'nope' is not defined"),
    ({"grammar": 'root ::= "a'}, "does not end"),
    ({"grammar": 'root ::= "a"{100000}'}, "repetitions"),
    ({"grammar": "root ::= " + "(" * 5000}, "parentheses"),
    ({"grammar": 5}, "must be a string"),
]
BAD += [({"response_format": of_schema(schema)}, word) for schema, word in [
    ({"type": "number", "multipleOf": 2}, "'multipleOf'"),
    ({"type": "object", "properties": {"a": {"not": {}}}}, "#/properties/a: the keyword 'not'"),
    ({"type": "string", "pattern": "(?!x)"}, "looks around"),
    ({"type": "string", "format": "regex"}, "'format'"),
    ({"$ref": "http://example.org/"}, "'$ref'"),
    ({"$ref": "#"}, "begins with itself"),
    ({"type": "array", "minItems": 1e9, "maxItems": 1e9}, "10000"),
]]


@pytest.mark.parametrize("body, word", BAD)
def test_what_cannot_be_followed_is_refused(client, body, word):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="chat", messages=MESSAGES, stream=stream, extra_body=body)
        assert word in str(caught.value), str(caught.value)


def deep_schema(depth):
    schema = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def hostile_bodies(rng):
    """Grammars and schemas that are broken, deep, large, or ambiguous without end; some are fine."""
    words = ["root", "::=", '"a"', "|", "(", ")", "*", "+", "?", "{2,3}", "{0,1000}", "[^a]", "[", "]", "\n", "x",
             "\\", '"', ".", "{", "}", "é", "\x00", "<[1]>"]
    keywords = ["type", "properties", "items", "enum", "anyOf", "allOf", "$ref", "pattern", "minLength", "not",
                "required", "additionalProperties", "const", "minimum", "maximum", "format", "prefixItems"]

    texts = ["^(a{1,50}){1,50}$", "((((a*)*)*)*)*", "object", "array", "string", "[", "\\b", "#", "#/$defs/x"]

    def value(depth):
        kind = rng.randrange(8 if depth < 5 else 4)
        if kind < 2:
            return rng.choice(texts)
        if kind < 4:
            return rng.choice([None, True, False, 0, -1, 1e300, 2**62, 0.5])
        if kind == 4:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        members = {rng.choice(keywords): value(depth + 1) for _ in range(rng.randrange(4))}
        return {"type": rng.choice(["object", "array", "string"]), **members} if kind == 5 else members

    yield {"grammar": 'root ::= "a" root "b" | "a" root "c" | "d"'}
    yield {"grammar": 'root ::= ((("a"{0,100}){0,100}){0,100}){0,100} "b"'}
    yield {"grammar": 'root ::= [a-z ]+ [a-z ]+ [a-z ]+ [a-z ]+ [a-z ]+ "\\x01"'}
    yield {"json_schema": deep_schema(60)}
    yield {"json_schema": deep_schema(150)}
    yield {"json_schema": {"enum": [str(i) * 20 for i in range(4000)]}}
    yield {"json_schema": {"type": "string", "pattern": "^((((a*)*)*)*)*b$"}}
    while True:
        if rng.random() < 0.5:
            yield {"grammar": "root ::= " + " ".join(rng.choice(words) for _ in range(rng.randrange(1, 30)))}
        else:
            yield {"json_schema": value(0)}


def test_hostile_shapes_do_not_disturb_others(client, real):
    """Beside a stream with greedy tokens, whose text must stay what it is alone."""
    options = {"model": "chat", "messages": [{"role": "user", "content": "Count to one hundred in words."}],
               "max_tokens": 60, "temperature": 0}
    alone = client.chat.completions.create(**options).choices[0].message.content
    texts, done = [], threading.Event()

    def neighbour():
        with openai.OpenAI(base_url=real.url + "/v1", api_key="none", max_retries=0, timeout=600) as own:
            while not done.is_set():
                texts.append("".join(c.choices[0].delta.content or ""
                                     for c in own.chat.completions.create(**options, stream=True) if c.choices))

    thread = threading.Thread(target=neighbour)
    thread.start()
    rng = random.Random(8)
    statuses = {}
    try:
        for body, _ in zip(hostile_bodies(rng), range(150)):
            answer = real.request("POST", "/v1/completions", timeout=600,
                                  json={"model": "chat", "prompt": "aaaa", "max_tokens": 24, "seed": 1, **body})
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code in (200, 400), (body, answer.text)
            if answer.status_code == 400:
                assert answer.json()["error"]["message"]
    finally:
        done.set()
        thread.join()
    assert statuses[400] > 20 and statuses[200] >= 2, statuses
    assert texts and all(text == alone for text in texts)


def test_an_ambiguous_grammar_ends_its_request_only(client, real):
    answer = real.request("POST", "/v1/completions",
                          json={"model": "chat", "prompt": "a", "max_tokens": 200,
                                "grammar": 'root ::= "a" root "b" | "a" root "c" | "d"', "logit_bias": {}})
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert "ambiguous" in answer.text
    assert client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=3).choices


def test_shapes_under_sanitizers(sim):
    """The scripted model says other words; the grammar makes it say what it must."""
    body = {"model": "chat", "messages": MESSAGES, "max_tokens": 400}
    answer = sim.request("POST", "/v1/chat/completions", json={**body, "grammar": 'root ::= "yes" | "no"'})
    assert answer.json()["choices"][0]["message"]["content"] in ("yes", "no")
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0},
                                               "b": {"enum": [True, False]}}, "required": ["a", "b"]}
    answer = sim.request("POST", "/v1/chat/completions", json={**body, "response_format": of_schema(schema)})
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    if choice["finish_reason"] == "stop":
        assert set(json.loads(choice["message"]["content"])) == {"a", "b"}
    rng = random.Random(3)
    for shape, _ in zip(hostile_bodies(rng), range(300)):
        answer = sim.request("POST", "/v1/completions",
                             json={"model": "chat", "prompt": "aaaa", "max_tokens": 16, **shape})
        assert answer.status_code in (200, 400), (shape, answer.text)


def test_the_cache_of_grammars(client, real):
    def hits():
        found = re.search(r"^themis_grammar_cache_hits_total (\d+)", real.request("GET", "/metrics").text, re.M)
        return int(found.group(1))

    schema = of_schema({"enum": ["cached", "shape"]})
    ask = lambda: client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=20,
                                                 response_format=schema).choices[0].message.content
    ask()
    before = hits()
    assert ask() in ('"cached"', '"shape"')
    assert hits() == before + 1


def test_infer_with_a_schema(real):
    """In AQL, over rows; JSON_PARSE makes values of the texts."""
    rows = real.rows("FOR word IN ['sky', 'grass'] RETURN JSON_PARSE(INFER('chat', CONCAT('Colour of ', word, '?'), "
                     "{max_tokens: 40, schema: @schema}))",
                     schema={"type": "object", "properties": {"colour": {"enum": ["blue", "green"]}},
                             "required": ["colour"]})
    assert len(rows) == 2 and all(row["colour"] in ("blue", "green") for row in rows)
    error = real.aql("RETURN INFER('chat', 'x', {schema: {`not`: {}}})", status=400)
    assert "'not'" in error["errorMessage"]
