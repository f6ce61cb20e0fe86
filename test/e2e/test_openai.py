# SPDX-License-Identifier: Apache-2.0
"""The real openai client against a node with the small models."""
import base64
import math
import struct

import openai
import pytest
import requests

MESSAGES = [{"role": "user", "content": "Name a colour."}]


@pytest.fixture(scope="module")
def client(real):
    with openai.OpenAI(base_url=real.url + "/v1", api_key="not needed on loopback", max_retries=0,
                       timeout=60) as client:
        yield client


def test_models(client):
    assert sorted(model.id for model in client.models.list()) == ["chat", "embed"]
    assert client.models.retrieve("chat").owned_by == "themis"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_chat(client):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    answer = client.chat.completions.create(**options)
    assert answer.object == "chat.completion"
    assert answer.model == "chat"
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert 0 < answer.usage.completion_tokens <= 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    again = client.chat.completions.create(**options)
    assert again.choices[0].message.content == choice.message.content


def test_chat_stream(client):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**options)
    chunks = list(client.chat.completions.create(**options, stream=True,
                                                 stream_options={"include_usage": True}))
    assert all(chunk.object == "chat.completion.chunk" for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1
    with_choice = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert with_choice[0].delta.role == "assistant"
    text = "".join(choice.delta.content or "" for choice in with_choice)
    assert text == whole.choices[0].message.content
    assert [c.finish_reason for c in with_choice if c.finish_reason] == [whole.choices[0].finish_reason]
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_chat_system_and_parts(client):
    answer = client.chat.completions.create(
        model="chat", max_completion_tokens=4,
        messages=[{"role": "system", "content": "Be short."},
                  {"role": "user", "content": [{"type": "text", "text": "Hello"}]}])
    assert answer.choices[0].message.content is not None


def test_stop_and_seed(client):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 16, "seed": 7, "temperature": 1.0}
    one, two = (client.chat.completions.create(**options).choices[0].message.content for _ in "ab")
    assert one == two
    word = one.split()[-1]
    cut = client.chat.completions.create(**options, stop=word).choices[0]
    assert word not in cut.message.content
    assert cut.finish_reason == "stop"


def test_completion(client):
    answer = client.completions.create(model="chat", prompt="The capital of France is", max_tokens=5,
                                       temperature=0)
    assert answer.object == "text_completion"
    assert answer.choices[0].text
    text = "".join(chunk.choices[0].text for chunk in
                   client.completions.create(model="chat", prompt="The capital of France is",
                                             max_tokens=5, temperature=0, stream=True))
    assert text == answer.choices[0].text


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def test_embeddings(client, real):
    texts = ["The cat sits on the mat.", "A cat is sitting on a rug.", "Interest rates rose in May."]
    packed = client.embeddings.create(model="embed", input=texts)  # base64 on the wire
    plain = client.embeddings.create(model="embed", input=texts, encoding_format="float")
    assert [item.index for item in plain.data] == [0, 1, 2]
    assert packed.usage.prompt_tokens == plain.usage.prompt_tokens > 0
    for one, two in zip(packed.data, plain.data):
        assert len(one.embedding) == len(two.embedding) == 384
        assert one.embedding == pytest.approx(two.embedding, abs=1e-6)
        assert math.sqrt(sum(x * x for x in two.embedding)) == pytest.approx(1, abs=1e-3)
    cat, rug, rates = (item.embedding for item in plain.data)
    assert cosine(cat, rug) > 0.5 > cosine(cat, rates)

    raw = requests.post(real.url + "/v1/embeddings", timeout=30,
                        json={"model": "embed", "input": texts[0], "encoding_format": "base64"}).json()
    text = raw["data"][0]["embedding"]
    assert isinstance(text, str)
    assert struct.unpack("<384f", base64.b64decode(text)) == pytest.approx(cat, abs=1e-3)  # alone in its batch


def test_unknown_model(client):
    for call in (lambda: client.chat.completions.create(model="gpt-9", messages=MESSAGES),
                 lambda: client.chat.completions.create(model="gpt-9", messages=MESSAGES, stream=True),
                 lambda: client.embeddings.create(model="gpt-9", input="a")):
        with pytest.raises(openai.NotFoundError) as caught:
            call()
        assert "gpt-9" in str(caught.value)
        assert "chat" in str(caught.value) or "embed" in str(caught.value)


def test_bad_requests(client):
    for options in ({"messages": []},
                    {"messages": MESSAGES, "temperature": 9},
                    {"messages": MESSAGES, "max_tokens": -1},
                    {"messages": MESSAGES, "extra_body": {"no_such_field": 1}},
                    {"messages": [{"role": "nobody", "content": "a"}]},
                    {"messages": [{"role": "user", "content": 5}]}):
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model="chat", **options)
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="embed", input=[])


def test_prompt_too_long(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="chat", max_tokens=4,
                                       messages=[{"role": "user", "content": "word " * 20000}])
    assert "token" in str(caught.value)


def test_what_is_missing_says_so(client):
    for options in ({"n": 2}, {"logprobs": True},
                    {"tools": [{"type": "function", "function": {"name": "f"}}]}):
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="chat", messages=MESSAGES, **options)
        assert caught.value.status_code == 501
        assert "not implemented" in str(caught.value)
