/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "How many beds does St Brannoc Hospital have?" is near to every sentence about
 * that hospital, whether or not one of them speaks of beds: the name outweighs
 * what is asked. Words name the subject when they are in the title, or in half of
 * the document's chunks that the search has found.
 */
#include "retrieve/subject.h"

#include "base/buf.h"
#include "retrieve/terms.h"

enum { CHUNKS_MIN = 3 }; /* of one document; what fewer have in common says nothing */

struct subject {
    struct terms title;
    struct terms *chunks;
    size_t count;
};

static struct subject subject_of(const struct corpus_hit *hits, size_t count, struct arena *arena)
{
    struct subject s = { .chunks = arena_alloc(arena, (count + 1) * sizeof *s.chunks) };

    s.title = terms_of(count > 0 ? hits[0].hit.title : slice_of(NULL, 0), arena);
    for (size_t i = 0; i < count; i++)
        if (slice_eq(hits[i].hit.path, hits[0].hit.path))
            s.chunks[s.count++] = terms_of(corpus_hit_text(&hits[i], arena), arena);
    return s;
}

static bool subject_has(const struct subject *s, struct term term)
{
    size_t found = 0;

    if (terms_have(&s->title, term.hash))
        return true;
    for (size_t i = 0; i < s->count; i++)
        found += terms_have(&s->chunks[i], term.hash);
    return s->count >= CHUNKS_MIN && found * 2 >= s->count;
}

struct slice subject_leave_out(struct slice question, const struct corpus_hit *hits, size_t count,
                               struct arena *arena)
{
    struct subject subject = subject_of(hits, count, arena);
    struct slice word, out;
    struct term term;
    struct buf text;
    size_t at = 0, copied = 0, kept = 0;

    buf_init(&text, 0);
    while (terms_next(question, &at, &word, &term)) {
        size_t from = (size_t)(word.ptr - question.ptr);
        if (!subject_has(&subject, term)) {
            kept++;
            continue;
        }
        buf_add(&text, question.ptr + copied, from - copied);
        copied = from + word.len;
    }
    buf_add(&text, question.ptr + copied, question.len - copied);
    out = kept > 0 ? arena_copy(arena, buf_slice(&text)) : question;
    buf_release(&text);
    return out;
}
