/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass finds the largest logits, a second the sum for log-softmax. Entries
 * are encoded one after the other: id, logarithm, number of alternatives, length,
 * bytes; the alternatives follow as entries of their own.
 */
#include "model/logprob.h"

#include <math.h>

struct logprob_mark {
    uint64_t text_at; /* where its text begins, in bytes of the answer */
    size_t len;       /* of its entries */
};

struct best {
    int32_t id;
    float logit;
};

struct entry {
    int32_t id;
    float logprob;
    uint32_t alternatives, len;
};

void logprobs_init(struct logprobs *l, bool is_on, unsigned top)
{
    *l =
        (struct logprobs){ .is_on = is_on, .top = top < LOGPROBS_TOP_MAX ? top : LOGPROBS_TOP_MAX };
    buf_init(&l->held, 0);
    buf_init(&l->ready, 0);
}

void logprobs_release(struct logprobs *l)
{
    buf_release(&l->held);
    buf_release(&l->ready);
    mem_free(l->marks);
    *l = (struct logprobs){ 0 };
}

/* Best first; of equal ones the lower id. Returns how many there are. */
static unsigned find_best(const float *logits, uint32_t n, unsigned max, struct best *out)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < n && max > 0; i++) {
        if (!(logits[i] > -INFINITY) || (count == max && logits[i] <= out[count - 1].logit))
            continue;
        unsigned at = count < max ? count++ : count - 1;
        for (; at > 0 && out[at - 1].logit < logits[i]; at--)
            out[at] = out[at - 1];
        out[at] = (struct best){ (int32_t)i, logits[i] };
    }
    return count;
}

static double log_sum(const float *logits, uint32_t n)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += logits[i] > -INFINITY ? exp(logits[i] - max) : 0;
    return max + log(sum);
}

static void put_entry(struct logprobs *l, struct engine *e, int32_t id, double logprob,
                      uint32_t alternatives)
{
    char piece[ENGINE_PIECE_BYTES];
    struct entry entry = { id, (float)logprob, alternatives,
                           (uint32_t)e->ops->spell(e, id, piece) };
    buf_add(&l->held, &entry, sizeof entry);
    buf_add(&l->held, piece, entry.len);
}

void logprobs_add(struct logprobs *l, struct engine *e, const float *logits, int32_t id)
{
    struct best best[LOGPROBS_TOP_MAX];
    char piece[ENGINE_PIECE_BYTES];
    uint32_t n = e->info.vocab_size;
    size_t before = l->held.len;
    unsigned count = find_best(logits, n, l->top, best);
    double norm = log_sum(logits, n);
    put_entry(l, e, id, logits[id] - norm, count);
    for (unsigned i = 0; i < count; i++)
        put_entry(l, e, best[i].id, best[i].logit - norm, 0);
    if (l->mark_count == l->mark_cap) {
        l->mark_cap = l->mark_cap ? l->mark_cap * 2 : 16;
        l->marks = mem_realloc(l->marks, l->mark_cap * sizeof *l->marks);
    }
    l->marks[l->mark_count++] = (struct logprob_mark){ l->text_bytes, l->held.len - before };
    l->text_bytes += e->ops->piece(e, id, piece);
}

struct slice logprobs_take(struct logprobs *l, uint64_t shown)
{
    size_t n = 0, len = 0;
    while (n < l->mark_count && l->marks[n].text_at < shown)
        len += l->marks[n++].len;
    buf_clear(&l->ready);
    if (n == 0)
        return buf_slice(&l->ready);
    buf_add(&l->ready, l->held.ptr, len);
    buf_drop(&l->held, len);
    l->mark_count -= n;
    memmove(l->marks, l->marks + n, l->mark_count * sizeof *l->marks);
    return buf_slice(&l->ready);
}

bool gen_token_next(struct slice *rest, struct gen_token *out)
{
    struct entry entry;
    if (rest->len < sizeof entry)
        return false;
    memcpy(&entry, rest->ptr, sizeof entry);
    *out = (struct gen_token){ .id = entry.id,
                               .logprob = entry.logprob,
                               .alternatives = entry.alternatives,
                               .bytes = slice_of(rest->ptr + sizeof entry, entry.len) };
    size_t used = sizeof entry + entry.len;
    *rest = slice_of(rest->ptr + used, rest->len - used);
    return true;
}

bool gen_tokens_are_whole(struct slice tokens)
{
    struct entry entry;

    while (tokens.len >= sizeof entry) {
        memcpy(&entry, tokens.ptr, sizeof entry);
        if (entry.len > tokens.len - sizeof entry)
            return false;
        size_t used = sizeof entry + entry.len;
        tokens = slice_of(tokens.ptr + used, tokens.len - used);
    }
    return !tokens.len;
}
