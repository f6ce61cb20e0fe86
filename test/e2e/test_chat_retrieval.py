# SPDX-License-Identifier: Apache-2.0
"""The openai client asks the documents: the field `retrieval` of a chat request."""
import json

import openai
import pytest

from conftest import ROOT, cli

NOTICE = "How long is the notice period for the tenant?"
CHESS = "Who won the chess world championship in 1972?"


@pytest.fixture(scope="module")
def client(real):
    done = json.loads(cli(real, "--json", "import", "samples/legal", "samples/medical").stdout)
    assert done["documents"] == 8
    with openai.OpenAI(base_url=real.url + "/v1", api_key="not needed on loopback", max_retries=0,
                       timeout=120) as client:
        yield client


def chat(client, question, retrieval=True, **options):
    messages = options.pop("messages", None) or [{"role": "user", "content": question}]
    return client.chat.completions.create(model="chat", messages=messages,
                                          extra_body={"retrieval": retrieval}, **options)


def test_answer_with_citations(client):
    answer = chat(client, NOTICE)
    assert answer.object == "chat.completion" and answer.model == "chat"
    (choice,) = answer.choices
    assert "three months" in choice.message.content and choice.finish_reason == "stop"
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0
    found = answer.model_extra["retrieval"]
    assert found["answered"] is True and found["relevance"] > 0.35
    assert found["sources"][0]["path"] == "samples/legal/rental-agreement.md"
    assert found["citations"]
    for citation in found["citations"]:
        data = (ROOT / citation["path"]).read_bytes()
        assert data[citation["from"]:citation["to"]].decode() == citation["quote"]
        spoken = choice.message.content.encode()[citation["answer_from"]:citation["answer_to"]]
        assert spoken.decode().strip()


def test_stream(client):
    whole = chat(client, NOTICE)
    chunks = list(chat(client, NOTICE, stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(c.delta.content or "" for c in choices) == whole.choices[0].message.content
    assert [c.finish_reason for c in choices if c.finish_reason] == ["stop"]
    (last,) = [chunk for chunk in chunks if "retrieval" in (chunk.model_extra or {})]
    assert last.choices[0].finish_reason == "stop"
    assert last.model_extra["retrieval"]["citations"] == whole.model_extra["retrieval"]["citations"]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_citations_in_the_text(client):
    for is_streaming in (False, True):
        answer = chat(client, NOTICE, {"in_text": True, "top_k": 3}, stream=is_streaming)
        text = ("".join(chunk.choices[0].delta.content or "" for chunk in answer) if is_streaming
                else answer.choices[0].message.content)
        before, _, sources = text.partition("\n\nSources:\n[")
        assert "three months" in before
        assert "samples/legal/rental-agreement.md, bytes " in sources and "three months" in sources


def test_not_in_the_documents(client):
    answer = chat(client, CHESS)
    found = answer.model_extra["retrieval"]
    assert found["answered"] is False and not found["citations"]
    assert answer.choices[0].message.content == "The documents do not answer this question."
    assert answer.choices[0].finish_reason == "stop" and answer.usage.completion_tokens == 0
    assert chat(client, CHESS, {"min_score": -1}).usage.completion_tokens > 0


def test_the_last_message_of_the_user_is_the_question(client):
    answer = chat(client, None, messages=[
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": CHESS},
        {"role": "assistant", "content": "I do not know."},
        {"role": "user", "content": [{"type": "text", "text": "How long is the notice period"},
                                     {"type": "text", "text": "for the tenant?"}]}])
    assert answer.model_extra["retrieval"]["answered"] is True


def test_off(client):
    for off in (False, None, {}):
        answer = chat(client, "Name a colour.", off, max_tokens=4)
        assert "retrieval" not in (answer.model_extra or {})


def test_sampling_is_kept(client):
    options = {"max_tokens": 2}
    short = chat(client, NOTICE, **options)
    assert short.usage.completion_tokens <= 2 and short.choices[0].finish_reason == "length"
    one, two = (chat(client, NOTICE, temperature=1.5, seed=7).choices[0].message.content for _ in "ab")
    assert one == two


@pytest.mark.parametrize("retrieval, options, status", [
    (5, {}, 400), ({"top_k": 0}, {}, 400), ({"no_such": 1}, {}, 400), ({"min_score": 2}, {}, 400),
    ({"collection": 1}, {}, 400), ({"collection": "nothing"}, {}, 404),
    ({"embedding_model": "nothing"}, {}, 404), (True, {"stop": ["x"]}, 501),
    (True, {"messages": [{"role": "system", "content": "a"}]}, 400),
    (True, {"messages": [{"role": "user", "content": ""}]}, 400),
])
@pytest.mark.parametrize("is_streaming", [False, True])
def test_bad_requests(client, retrieval, options, status, is_streaming):
    with pytest.raises(openai.APIStatusError) as caught:
        list(chat(client, NOTICE, retrieval, stream=is_streaming, **options))
    assert caught.value.status_code == status
