#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How retrieve_min_score was found, to be run again when the embedding model or the score changes.

The corpus is that of the benchmark, the questions are others. Prints how well relevance tells
questions with an answer from those without (the probability that one of the former scores higher
than one of the latter), what each threshold refuses, and the threshold by the rule: the largest
multiple of 0.05 that refuses at most one in forty questions that have an answer.
"""
import math

from retrieval_common import Load, check_questions, print_line, read_questions, running_node

LOST_MAX = 1 / 40
STEP = 0.05


def separation(high, low):
    """Area under the ROC curve."""
    wins = sum((a > b) + 0.5 * (a == b) for a in high for b in low)
    return wins / (len(high) * len(low))


def refused(scores, threshold):
    return sum(1 for score in scores if score < threshold) / len(scores)


def chosen(answerable):
    allowed = sorted(answerable)[math.floor(LOST_MAX * len(answerable))]
    return math.floor(allowed / STEP) * STEP


def main():
    questions = read_questions("calibration.tsv")
    check_questions(questions, is_worded_apart=False)
    with running_node() as node:
        load, scores = Load(node), {"answerable": [], "near": [], "far": []}
        for q in questions:
            found = node.call("POST", "/v1/search", {"question": q.text})
            scores[q.kind].append(found["relevance"])
        print_line("relevance", {kind: len(of) for kind, of in scores.items()} | {
            "separates_near": separation(scores["answerable"], scores["near"]),
            "separates_far": separation(scores["answerable"], scores["far"])}, load)
        best = chosen(scores["answerable"])
        for step in range(5, 11):
            threshold = step * STEP
            print_line("threshold", {
                "min_score": f"{threshold:.2f}",
                **{f"{kind}_refused": refused(of, threshold) for kind, of in scores.items()},
                "chosen": "yes" if abs(threshold - best) < STEP / 2 else "no"}, load)


if __name__ == "__main__":
    main()
