// SPDX-License-Identifier: Apache-2.0
// The real openai package against a node. Run by test_openai_node.py with the URLs.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(process.env.NODE_CLIENTS + "/");
const OpenAI = require("openai");

const options = { apiKey: "not needed on loopback", maxRetries: 0, timeout: 60000 };
const client = new OpenAI({ ...options, baseURL: process.env.THEMIS_URL + "/v1" });
const slow = new OpenAI({ ...options, baseURL: process.env.THEMIS_SLOW_URL + "/v1" });
const messages = [{ role: "user", content: "Name a colour." }];
const short = { model: "chat", messages, max_tokens: 12, temperature: 0 };

test("models", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids.sort(), ["chat", "embed"]);
  const one = await client.models.retrieve("chat");
  assert.equal(one.object, "model");
  assert.equal(one.owned_by, "themis");
  assert.equal(typeof one.created, "number");
  assert.match(one.sha256, /^[0-9a-f]{64}$/);
});

test("a chat", async () => {
  const answer = await client.chat.completions.create(short);
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.ok(answer.choices[0].message.content);
  assert.ok(["stop", "length"].includes(answer.choices[0].finish_reason));
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  const again = await client.chat.completions.create(short);
  assert.equal(again.choices[0].message.content, answer.choices[0].message.content);
});

test("a stream says the same", async () => {
  const whole = await client.chat.completions.create(short);
  const stream = await client.chat.completions.create({
    ...short, stream: true, stream_options: { include_usage: true },
  });
  let text = "", finish = null, usage = null;
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test("the stream helper collects a whole answer", async () => {
  const stream = client.chat.completions.stream(short);
  const pieces = [];
  stream.on("content", (delta) => pieces.push(delta));
  const text = await stream.finalContent();
  assert.equal(pieces.join(""), text);
  assert.equal((await client.chat.completions.create(short)).choices[0].message.content, text);
});

test("a completion", async () => {
  const answer = await client.completions.create({
    model: "chat", prompt: "The capital of France is", max_tokens: 5, temperature: 0,
  });
  assert.equal(answer.object, "text_completion");
  assert.ok(answer.choices[0].text);
});

test("embeddings", async () => {
  const input = ["The cat sits on the mat.", "Interest rates rose in May."];
  const packed = await client.embeddings.create({ model: "embed", input }); // base64 on the wire
  const plain = await client.embeddings.create({ model: "embed", input, encoding_format: "float" });
  assert.deepEqual(plain.data.map((d) => d.index), [0, 1]);
  for (let i = 0; i < 2; i++) {
    assert.equal(packed.data[i].embedding.length, 384);
    packed.data[i].embedding.forEach((x, k) => assert.ok(Math.abs(x - plain.data[i].embedding[k]) < 1e-6));
  }
  assert.ok(packed.usage.prompt_tokens > 0);
});

test("errors have their classes", async () => {
  const is = (kind, status) => (e) => {
    assert.ok(e instanceof kind, String(e));
    assert.equal(e.status, status);
    assert.ok(e.message.length > 5);
    return true;
  };
  const missing = is(OpenAI.NotFoundError, 404);
  await assert.rejects(client.models.retrieve("nothing"), missing);
  await assert.rejects(client.chat.completions.create({ ...short, model: "gpt-9" }), missing);
  await assert.rejects(client.chat.completions.create({ ...short, model: "gpt-9", stream: true }), missing);
  await assert.rejects(client.embeddings.create({ model: "chat", input: "a" }), missing);
  const bad = is(OpenAI.BadRequestError, 400);
  await assert.rejects(client.chat.completions.create({ ...short, messages: [] }), bad);
  await assert.rejects(client.chat.completions.create({ ...short, temperature: 9 }), bad);
  await assert.rejects(client.chat.completions.create({ ...short, no_such_field: 1 }), bad);
  await assert.rejects(client.embeddings.create({ model: "embed", input: [] }), bad);
  const refused = new OpenAI({ ...options, apiKey: "x", baseURL: process.env.THEMIS_URL + "/v1",
    defaultHeaders: { Authorization: "Basic " + Buffer.from("root:wrong").toString("base64") } });
  await assert.rejects(refused.models.list(), is(OpenAI.AuthenticationError, 401));
  const nobody = new OpenAI({ ...options, baseURL: "http://127.0.0.1:9/v1" });
  await assert.rejects(nobody.models.list(), OpenAI.APIConnectionError);
});

test("what is missing says so", async () => {
  await assert.rejects(client.chat.completions.create({ ...short, n: 2 }), (e) => e.status === 501);
  const functions = [{ name: "f", parameters: {} }];
  await assert.rejects(client.chat.completions.create({ ...short, functions }), (e) => e.status === 501);
});

test("a required tool is called", async () => {
  const parameters = { type: "object", properties: { on: { type: "boolean" } }, required: ["on"], additionalProperties: false };
  const tools = [{ type: "function", function: { name: "light", parameters } }];
  const answer = await client.chat.completions.create({ ...short, max_tokens: 100, tools, tool_choice: "required" });
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, "tool_calls");
  assert.equal(choice.message.tool_calls[0].function.name, "light");
  assert.equal(typeof JSON.parse(choice.message.tool_calls[0].function.arguments).on, "boolean");
});

test("an abort in mid-stream ends the stream and the work", async () => {
  const ask = { model: "slow", messages, stream: true };
  const stream = await slow.chat.completions.create(ask);
  let chunks = 0;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta?.content && ++chunks === 3) stream.controller.abort();
  }
  assert.ok(chunks >= 3 && chunks < 100, String(chunks));
  const controller = new AbortController();
  const waiting = slow.chat.completions.create({ ...ask, stream: false }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(waiting, OpenAI.APIUserAbortError);
});
