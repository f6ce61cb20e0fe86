# SPDX-License-Identifier: Apache-2.0
"""Chat templates that know tools or reasoning: the small model with another template in its file, so
that prompt, calls and reading them go the way of llama.cpp's templates."""
import json
import struct

import openai
import pytest

from conftest import Server, model_file, real_models, release_server
from test_tools import MESSAGES, NOW, WEATHER, check_weather, gather

TOOLS = """
{%- if tools %}{{- '<|im_start|>system\\n# Tools\\nYou may call functions:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\\n</tools>\\nAnswer with <tool_call>\\n{"name": <name>, "arguments": <arguments>}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{%- if call.function.arguments is string %}{{- call.function.arguments }}
{%- else %}{{- call.function.arguments | tojson }}{%- endif %}
{{- '}\\n</tool_call>' }}{%- endfor %}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

THINKING = """
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and message.reasoning_content %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}
"""

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def value_end(data, at, kind):
    """Where a GGUF value of this type ends."""
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == ARRAY:
        kind, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if kind in SIZES:
            return at + count * SIZES[kind]
        for _ in range(count):
            at = value_end(data, at, kind)
        return at
    return at + SIZES[kind]


def with_template(source, target, template):
    """A copy of a GGUF file whose chat template is another one."""
    data = source.read_bytes()
    tensors, pairs = struct.unpack_from("<QQ", data, 8)
    head, at = bytearray(data[:24]), 24
    for _ in range(pairs):
        begin, name_end = at, value_end(data, at, STRING)
        kind, = struct.unpack_from("<I", data, name_end)
        at = value_end(data, name_end + 4, kind)
        if data[begin + 8:name_end] == b"tokenizer.chat_template":
            text = template.strip().encode()
            head += data[begin:name_end + 4] + struct.pack("<Q", len(text)) + text
        else:
            head += data[begin:at]
    infos = at
    for _ in range(tensors):
        at = value_end(data, at, STRING)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4 + 8
    head += data[infos:at]
    align = lambda n: (n + 31) // 32 * 32
    target.write_bytes(bytes(head) + bytes(align(len(head)) - len(head)) + data[align(at):])
    return target


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    small = real_models()["chat"]
    models = {name: with_template(small, folder / f"{name}.gguf", text)
              for name, text in (("tools", TOOLS), ("thinking", THINKING))}
    server = Server(release_server(), folder / "data", models, settings=["context_tokens=2048"]).wait_ready()
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=600) as client:
        yield client
    server.stop()


def test_a_call_by_the_template(client):
    options = {"model": "tools", "messages": MESSAGES, "tools": [NOW, WEATHER], "max_tokens": 150,
               "tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "temperature": 0,
               "parallel_tool_calls": False}
    answer = client.chat.completions.create(**options).choices[0]
    assert answer.finish_reason == "tool_calls", answer
    check_weather(answer.message.tool_calls[0])
    calls, text, finish = gather(client.chat.completions.create(**options, stream=True))
    assert finish == "tool_calls" and not text.strip() and len(calls) == 1
    assert json.loads(calls[0]["arguments"]) == json.loads(answer.message.tool_calls[0].function.arguments)


def test_a_conversation_by_the_template(client):
    first = client.chat.completions.create(model="tools", messages=MESSAGES, tools=[WEATHER], max_tokens=150,
                                           tool_choice="required", temperature=0)
    message = first.choices[0].message
    messages = [*MESSAGES, message.model_dump(exclude_none=True)]
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "cold"} for call in message.tool_calls]
    answer = client.chat.completions.create(model="tools", messages=messages, tools=[WEATHER], max_tokens=8,
                                            tool_choice="none", temperature=0).choices[0]
    assert answer.message.content and not answer.message.tool_calls


def test_text_beside_tools(client):
    options = {"model": "tools", "messages": [{"role": "user", "content": "Say hello."}], "tools": [NOW],
               "max_tokens": 12, "temperature": 0}
    answer = client.chat.completions.create(**options).choices[0]
    assert answer.message.content or answer.message.tool_calls
    calls, text, _ = gather(client.chat.completions.create(**options, stream=True))
    assert text.strip() == (answer.message.content or "").strip()


def test_hostile_schemas_do_not_reach_the_template(client):
    deep = {}
    for _ in range(90):
        deep = {"type": "array", "items": deep}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": deep}}}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tools", messages=MESSAGES, tools=[tool])
    assert "deeper" in str(caught.value)


def test_reasoning_is_told_apart(client):
    """The prompt ends inside of the reasoning, and the small model does not end it in so few tokens."""
    options = {"model": "thinking", "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    message = client.chat.completions.create(**options).choices[0].message
    assert message.reasoning_content and not message.content
    reasoning = text = ""
    for chunk in client.chat.completions.create(**options, stream=True):
        if chunk.choices:
            reasoning += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
            text += chunk.choices[0].delta.content or ""
    assert reasoning.strip() == message.reasoning_content.strip() and not text
