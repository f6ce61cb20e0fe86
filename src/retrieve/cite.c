/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every sentence of the hits is a candidate, and so is each pair of neighbours,
 * for answers that draw two together. A candidate's score is the share of the
 * answer sentence's weight that it covers; words of its title and headings
 * count as covered too ("the rent of 14 Alder Lane": the lane is in the title).
 *
 * A number of the answer that neither candidate nor question has rules the
 * candidate out: a wrong number is the mistake that readers must not be led to
 * believe.
 */
#include "retrieve/cite.h"

#include "retrieve/passage.h"
#include "retrieve/terms.h"

enum { PASSAGES_MAX = 2048 }; /* of all hits; more are not looked at */

static const double score_min = 0.5;      /* of the weight of the answer sentence */
static const double own_min = 0.3;        /* of that from the sentence itself, not its headings */
static const double pair_gain_min = 0.15; /* what a second sentence must add */

/* A sentence of the answer: its terms and what each weighs. */
struct claim {
    struct terms terms;
    double *weights;
};

struct citer {
    struct arena *arena;
    const struct corpus_hit *hits;
    struct passages passages;
    struct terms *texts;    /* of each passage */
    struct terms *contexts; /* of its title and headings */
    struct term_weights weights;
    struct terms question;
};

static bool either_has(const struct terms *a, const struct terms *b, uint64_t hash)
{
    return terms_have(a, hash) || (b && terms_have(b, hash));
}

static struct claim claim_of(const struct citer *c, struct slice text)
{
    struct claim claim = { .terms = terms_of(text, c->arena) };

    claim.weights = arena_alloc(c->arena, (claim.terms.count + 1) * sizeof *claim.weights);
    for (size_t i = 0; i < claim.terms.count; i++)
        claim.weights[i] = terms_weight(&c->weights, claim.terms.items[i]);
    return claim;
}

/* Share of the claim that the candidate (and its neighbour, if given) covers; 0 = no support. */
static double support(const struct citer *c, const struct claim *claim, size_t one,
                      const size_t *two)
{
    double all = 0, own = 0, context = 0;

    for (size_t i = 0; i < claim->terms.count; i++) {
        struct term term = claim->terms.items[i];
        double weight = claim->weights[i];
        all += weight;
        if (either_has(&c->texts[one], two ? &c->texts[*two] : NULL, term.hash))
            own += weight;
        else if (terms_have(&c->contexts[one], term.hash))
            context += weight;
        else if (term.is_number && !terms_have(&c->question, term.hash))
            return 0;
    }
    return all > 0 && own >= own_min * all ? (own + context) / all : 0;
}

static void fill_citation(const struct citer *c, size_t from, size_t to, double score,
                          struct rag_citation *out)
{
    const struct passage *first = &c->passages.items[from], *last = &c->passages.items[to];
    const struct rag_source_hit *hit;

    assert(first && last && to < c->passages.count);
    hit = &c->hits[first->hit].hit;
    out->source = (uint32_t)first->hit + 1;
    out->from = hit->from + first->at.from;
    out->to = hit->from + last->at.to;
    out->quote = slice_of(hit->text.ptr + first->at.from, last->at.to - first->at.from);
    out->score = (float)score;
}

/* The best candidate for the claim; false when none is good enough. */
static bool find_support(const struct citer *c, const struct claim *claim, struct rag_citation *out)
{
    double best = 0;
    size_t best_at = 0, best_end = 0;

    for (size_t i = 0; i < c->passages.count; i++) {
        double score = support(c, claim, i, NULL);
        if (score > best + 1e-9) {
            best = score;
            best_at = best_end = i;
        }
    }
    for (size_t i = 0; i + 1 < c->passages.count; i++) {
        size_t next = i + 1;
        double score;
        if (!c->passages.items[i].has_next)
            continue;
        score = support(c, claim, i, &next);
        if (score > best + (best_at == best_end ? pair_gain_min : 1e-9)) {
            best = score;
            best_at = i;
            best_end = i + 1;
        }
    }
    if (best < score_min)
        return false;
    fill_citation(c, best_at, best_end, best, out);
    return true;
}

/* Where the words of the sentence begin: behind "[2] ", "1. ", "- ". */
static size_t skip_marks(struct slice s)
{
    size_t at = 0, i;

    for (;;) {
        for (i = at; i < s.len &&
                     (s.ptr[i] == ' ' || s.ptr[i] == '-' || s.ptr[i] == '*' || s.ptr[i] == '[');
             i++)
            ;
        size_t digits = i;
        while (i < s.len && i - digits < 3 && s.ptr[i] >= '0' && s.ptr[i] <= '9')
            i++;
        if (i == digits || i + 1 >= s.len ||
            (s.ptr[i] != ']' && s.ptr[i] != ')' && s.ptr[i] != '.') ||
            (s.ptr[i] == '.' && s.ptr[i + 1] != ' '))
            return at;
        at = i + 1;
    }
}

/* The sentence without source numbers in brackets, which are no facts. */
static struct slice without_marks(struct slice s, struct arena *arena)
{
    char *out = arena_alloc(arena, s.len + 1);
    size_t n = 0, i = skip_marks(s);

    while (i < s.len) {
        size_t end = i + 1;
        while (s.ptr[i] == '[' && end < s.len && s.ptr[end] >= '0' && s.ptr[end] <= '9')
            end++;
        if (s.ptr[i] == '[' && end > i + 1 && end < s.len && s.ptr[end] == ']')
            i = end + 1;
        else
            out[n++] = s.ptr[i++];
    }
    return slice_of(out, n);
}

static void citer_init(struct citer *c, struct slice question, const struct corpus_hit *hits,
                       size_t hit_count, struct arena *arena)
{
    *c = (struct citer){ .arena = arena, .hits = hits };
    c->question = terms_of(question, arena);
    c->passages = passages_of(hits, hit_count, PASSAGES_MAX, arena);
    c->texts = arena_alloc(arena, (c->passages.count + 1) * sizeof *c->texts);
    c->contexts = arena_alloc(arena, (c->passages.count + 1) * sizeof *c->contexts);
    for (size_t i = 0; i < c->passages.count; i++) {
        const struct passage *p = &c->passages.items[i];
        const struct corpus_hit *h = &hits[p->hit];
        char *context =
            arena_printf(arena, "%.*s %.*s %.*s %.*s", SLICE_ARG(h->hit.title),
                         SLICE_ARG(h->heading), SLICE_ARG(p->label), SLICE_ARG(p->header));
        c->texts[i] = terms_of(p->text, arena);
        c->contexts[i] = terms_of(slice_str(context), arena);
    }
    c->weights = (struct term_weights){ .texts = c->texts, .count = c->passages.count };
}

struct rag_citation *cite_answer(struct slice answer, struct slice question,
                                 const struct corpus_hit *hits, size_t hit_count,
                                 struct arena *arena, size_t *count)
{
    struct citer c;
    struct rag_citation *out;
    struct span s;
    size_t at = 0, most = 0, n = 0;

    while (sentence_next(answer, &at, &s))
        most++;
    out = arena_zalloc(arena, (most + 1) * sizeof *out);
    citer_init(&c, question, hits, hit_count, arena);
    at = 0;
    while (n < most && sentence_next(answer, &at, &s)) {
        struct slice text = slice_of(answer.ptr + s.from, s.to - s.from);
        struct claim claim = claim_of(&c, without_marks(text, arena));
        if (claim.terms.count == 0 || !find_support(&c, &claim, &out[n]))
            continue;
        out[n].answer_from = s.from;
        out[n].answer_to = s.to;
        n++;
    }
    *count = n;
    return out;
}

/* ---- not known ---- */

static bool contains(struct slice text, const char *lower)
{
    size_t n = strlen(lower);

    for (size_t i = 0; i + n <= text.len; i++) {
        size_t j = 0;
        while (j < n && (text.ptr[i + j] |
                         (text.ptr[i + j] >= 'A' && text.ptr[i + j] <= 'Z' ? 32 : 0)) == lower[j])
            j++;
        if (j == n)
            return true;
    }
    return false;
}

bool cite_says_unknown(struct slice answer)
{
    static const char *const phrases[] = {
        "not in the documents", "not in the sources", "do not say",       "does not say",
        "don't know",           "do not know",        "no information",   "not mentioned",
        "does not mention",     "do not mention",     "does not contain", "do not contain",
        "cannot answer",        "can't answer",       "unable to answer", "not provided",
        "does not provide",     "do not provide",     "not specified",    "does not specify",
        "do not answer",        "does not answer",
    };
    struct span first;
    size_t at = 0;

    if (!sentence_next(answer, &at, &first))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
        if (contains(slice_of(answer.ptr + first.from, first.to - first.from), phrases[i]))
            return true;
    return false;
}
