# SPDX-License-Identifier: Apache-2.0
"""The real openai client against a node with the small models."""
import base64
import math
import struct
import time

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
    assert caught.value.code == "context_length_exceeded"


def test_logprobs(client):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 12, "temperature": 0,
               "logprobs": True, "top_logprobs": 3}
    answer = client.chat.completions.create(**options)
    choice = answer.choices[0]
    tokens = choice.logprobs.content
    assert len(tokens) == answer.usage.completion_tokens - (choice.finish_reason == "stop")
    assert bytes(b for t in tokens for b in t.bytes).decode() == choice.message.content
    for token in tokens:
        top = token.top_logprobs
        assert len(top) == 3 and top[0].token == token.token  # greedy takes the most probable
        assert 0 >= top[0].logprob >= top[1].logprob >= top[2].logprob
        assert token.logprob == top[0].logprob
        assert sum(math.exp(t.logprob) for t in top) <= 1 + 1e-6
    chunks = list(client.chat.completions.create(**options, stream=True))
    streamed = [t for c in chunks if c.choices and c.choices[0].logprobs
                for t in c.choices[0].logprobs.content]
    assert [(t.token, t.bytes) for t in streamed] == [(t.token, t.bytes) for t in tokens]
    plain = client.chat.completions.create(**{**options, "logprobs": False, "top_logprobs": None})
    assert plain.choices[0].logprobs is None


def test_logprobs_of_completions(client):
    answer = client.completions.create(model="chat", prompt="The capital of France is", max_tokens=6,
                                       temperature=0, logprobs=2)
    choice = answer.choices[0]
    lists = choice.logprobs
    assert "".join(lists.tokens) == choice.text
    assert len(lists.tokens) == len(lists.token_logprobs) == len(lists.top_logprobs) == len(lists.text_offset)
    for token, logprob, top, offset in zip(lists.tokens, lists.token_logprobs, lists.top_logprobs,
                                           lists.text_offset):
        assert top[token] == logprob == max(top.values()) and len(top) == 2
        assert choice.text[offset:].startswith(token)


def test_logprobs_end_with_the_text(client):
    """A stop text inside of tokens: what is not shown has no entry."""
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 12, "temperature": 0, "logprobs": True}
    whole = client.chat.completions.create(**options).choices[0]
    stop = whole.message.content[7:11]
    cut = client.chat.completions.create(**options, stop=stop).choices[0]
    assert cut.finish_reason == "stop" and stop not in cut.message.content
    told = "".join(t.token for t in cut.logprobs.content)
    assert told.startswith(cut.message.content)
    assert len(told) - len(cut.message.content) < len(cut.logprobs.content[-1].token)


def test_logit_bias(client, real):
    options = {"model": "chat", "messages": MESSAGES, "max_tokens": 6, "temperature": 0}
    before = client.chat.completions.create(**options, logprobs=True).choices[0]
    first = before.logprobs.content[0].token
    ids = requests.post(real.url + "/v1/tokenize", json={"content": first}, timeout=30).json()["tokens"]
    assert len(ids) == 1
    after = client.chat.completions.create(**options, logit_bias={ids[0]: -100}, logprobs=True).choices[0]
    assert first not in [t.token for t in after.logprobs.content]
    only = client.chat.completions.create(**options, logit_bias={ids[0]: 100}).choices[0]
    assert only.message.content == first * 6


def test_bad_logprobs_and_bias(client):
    chat = lambda **o: client.chat.completions.create(model="chat", messages=MESSAGES, **o)
    text = lambda **o: client.completions.create(model="chat", prompt="a", **o)
    for call, word in ((lambda: chat(top_logprobs=3), "needs 'logprobs'"),
                       (lambda: chat(logprobs=True, top_logprobs=21), "from 0 to 20"),
                       (lambda: chat(logprobs=True, extra_body={"top_logprobs": 1.5}), "whole number"),
                       (lambda: chat(extra_body={"logprobs": 3}), "true or false"),
                       (lambda: text(logprobs=6), "from 0 to 5"),
                       (lambda: text(extra_body={"top_logprobs": 2}), "for chats"),
                       (lambda: chat(logit_bias={"word": 1}), "not a token id"),
                       (lambda: chat(logit_bias={"-1": 1}), "not a token id"),
                       (lambda: chat(logit_bias={"5": 101}), "between -100 and 100"),
                       (lambda: chat(logit_bias={"49152": 1}), "not one of the model's 49152"),
                       (lambda: chat(logit_bias={str(i): 1 for i in range(1025)}), "at most 1024"),
                       (lambda: chat(extra_body={"logit_bias": [1, 2]}), "must be an object")):
        with pytest.raises(openai.BadRequestError) as caught:
            call()
        assert word in str(caught.value), str(caught.value)


def test_abort_in_mid_stream(client, real):
    def running():
        return real.request("GET", "/_admin/status").json()["themis"]["inference"]["running"]

    stream = client.chat.completions.create(model="chat", stream=True, max_tokens=4000, messages=MESSAGES,
                                            logit_bias={2: -100})  # it would end by itself
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    assert running() == 1
    stream.close()
    end = time.monotonic() + 10
    while running():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_error_classes(client, real):
    with pytest.raises(openai.APIConnectionError):
        openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="x", max_retries=0).models.list()
    wrong = openai.OpenAI(base_url=real.url + "/v1", api_key="x", max_retries=0,
                          default_headers={"Authorization": "Basic cm9vdDp3cm9uZw=="})
    with pytest.raises(openai.AuthenticationError):
        wrong.models.list()
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.001).chat.completions.create(model="chat", messages=MESSAGES)


def test_what_is_missing_says_so(client):
    for options in ({"n": 2}, {"logprobs": True, "extra_body": {"retrieval": True}},
                    {"extra_body": {"best_of": 2}}, {"extra_body": {"echo": True}},
                    {"functions": [{"name": "f"}]}):
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="chat", messages=MESSAGES, **options)
        assert caught.value.status_code == 501
        assert "not implemented" in str(caught.value)
