#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does retrieval find what was asked for in other words? Does it say so when nothing answers?

A node with the two small models imports the sample documents among Debian's documentation, about
two thousand chunks. 60 questions, each of which shares at most two content words with the whole
document that answers it, and ten without an answer are put to it through the public API:

  search     the source among the first five hits, the mean reciprocal rank, and the same for the
             chunk that holds the answer; "vectors" is the order before sentences are weighed
  refusal    questions without an answer that are refused, and those with one that are
  citations  answers with a citation, citations that point into the source, and into the sentence

`-v` lists every question that misses; `--data DIR` keeps the store for the next run.
"""
import sys

from retrieval_common import (ROOT, Load, check_questions, flat, print_line, read_questions,
                              running_node)

TOP = 5
DEEPEST = 20  # ranks beyond count as not found

is_verbose = "-v" in sys.argv[1:]


def note(text):
    if is_verbose:
        print("  " + text, file=sys.stderr, flush=True)


def rank(hits, fits):
    return next((i + 1 for i, hit in enumerate(hits) if fits(hit)), None)


def share(ranks, most):
    return sum(1 for r in ranks if r and r <= most) / len(ranks)


def reciprocal(ranks):
    return sum(1 / r for r in ranks if r) / len(ranks)


def measure_search(node, questions, what, is_reranked):
    load, documents, chunks = Load(node), [], []
    for q in questions:
        body = {"question": q.text, "top_k": DEEPEST, "rerank": is_reranked}
        hits = node.call("POST", "/v1/search", body)["sources"]
        documents.append(rank(hits, lambda h: h["path"] == q.source))
        chunks.append(rank(hits, lambda h: h["path"] == q.source and flat(q.span) in flat(h["text"])))
        if is_reranked and (documents[-1] or TOP + 1) > TOP:
            note(f"rank {documents[-1]}: {q.text} ({q.source})")
    print_line(what, {
        "questions": len(questions), "top5": share(documents, TOP), "target": 0.85,
        "met": "yes" if share(documents, TOP) >= 0.85 else "no", "top1": share(documents, 1),
        "mrr": reciprocal(documents), "chunk_top5": share(chunks, TOP),
        "chunk_mrr": reciprocal(chunks)}, load)


def ask_all(node, questions):
    return [(q, node.call("POST", "/v1/ask", {"question": q.text})) for q in questions]


def report_refusal(answers, load):
    refused = {kind: [q for q, a in answers if q.kind == kind and not a["answered"]]
               for kind in ("answerable", "near", "far")}
    count = {kind: sum(1 for q, _ in answers if q.kind == kind) for kind in refused}
    right = len(refused["near"]) + len(refused["far"])
    for q, a in answers:
        if a["answered"] != (q.kind == "answerable"):
            note(f"{'answered' if a['answered'] else 'refused'} ({q.kind}): {q.text}")
    print_line("refusal", {
        "unanswerable": count["near"] + count["far"], "refused": right, "target": 7,
        "met": "yes" if right >= 7 else "no", "near": f"{len(refused['near'])}/{count['near']}",
        "far": f"{len(refused['far'])}/{count['far']}",
        "answerable_refused": f"{len(refused['answerable'])}/{count['answerable']}"}, load)


def cut(citation):
    """The bytes of the source that a citation names; its quote must be they."""
    path = ROOT / "samples" / citation["path"]
    if not path.exists():
        return citation["quote"]
    text = path.read_bytes()[citation["from"]:citation["to"]].decode()
    if text != citation["quote"]:
        sys.exit(f"bench: {citation['path']} {citation['from']}-{citation['to']} is not the quote")
    return text


def report_citations(answers, load):
    answered = [(q, a) for q, a in answers if q.kind == "answerable" and a["answered"]]
    pairs = [(q, c) for q, a in answered for c in a["citations"]]
    inside = [(q, c) for q, c in pairs if c["path"] == q.source]
    exact = [1 for q, c in inside if flat(q.span) in flat(cut(c))]
    for q, c in pairs:
        if c["path"] != q.source:
            note(f"cites {c['path']}: {q.text}")
    within = len(inside) / len(pairs) if pairs else 0.0
    print_line("citations", {
        "answers": len(answered), "cited": sum(1 for _, a in answered if a["citations"]),
        "citations": len(pairs), "in_source": within, "target": 0.8,
        "met": "yes" if within >= 0.8 else "no",
        "in_sentence": len(exact) / len(pairs) if pairs else 0.0}, load)


def main():
    questions = read_questions("questions.tsv")
    answerable = [q for q in questions if q.source]
    check_questions(questions, is_worded_apart=True)
    with running_node() as node:
        measure_search(node, answerable, "vectors", is_reranked=False)
        measure_search(node, answerable, "search", is_reranked=True)
        load = Load(node)
        answers = ask_all(node, questions)
        report_refusal(answers, load)
        report_citations(answers, load)


if __name__ == "__main__":
    main()
