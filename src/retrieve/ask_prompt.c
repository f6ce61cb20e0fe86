/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written for models that follow at most one instruction: the sources come
 * worst first, so that the best one stands right before the question, and the
 * question is the last thing read. Small models see fewer sources, because they
 * are led astray by text that does not matter more than they gain from it.
 */
#include "retrieve/ask_prompt.h"

#include "base/buf.h"

enum {
    TEMPLATE_TOKENS = 64,              /* what the chat template adds, at most */
    SMALL_PARAMETERS_MILLIONS = 1000,  /* below this a model sees few sources */
    SMALL_SOURCES = 2,
};

const char ask_prompt_unknown[] = "The documents do not answer this question.";

static const char system_text[] =
    "You answer questions from the numbered sources that the user gives. Answer in one or two "
    "short sentences with the facts of the sources and nothing else. If the sources do not contain "
    "the answer, say: The documents do not answer this question.";

static void add_source(struct buf *out, size_t number, const struct corpus_hit *h, struct slice text)
{
    struct slice name = h->heading.len ? h->heading : h->hit.title;

    buf_printf(out, "[%zu] ", number);
    if (name.len > 0)
        buf_printf(out, "%.*s\n", SLICE_ARG(name));
    buf_add_slice(out, text);
    buf_add_str(out, "\n\n");
}

static void write_user(const struct ask_prompt_options *opt, size_t used, size_t best_bytes,
                       struct buf *out)
{
    buf_clear(out);
    buf_add_str(out, "Sources:\n\n");
    for (size_t i = used; i > 0; i--) {
        struct slice text = opt->hits[i - 1].hit.text;
        if (i == 1 && text.len > best_bytes)
            text.len = best_bytes;
        add_source(out, i, &opt->hits[i - 1], text);
    }
    buf_printf(out, "Question: %.*s", SLICE_ARG(opt->question));
}

/* Tokens that the user's message may have. */
static enum errc user_budget(struct generator *g, const struct ask_prompt_options *opt,
                             size_t *budget, struct error *err)
{
    enum errc rc = OK;
    size_t taken;

    TRY(g->count_tokens(g, slice_str(opt->model->name), slice_str(system_text), &taken, err));
    taken += TEMPLATE_TOKENS + opt->max_tokens;
    *budget = opt->model->context_tokens > taken ? opt->model->context_tokens - taken : 0;
out:
    return rc;
}

static void add_message(struct val_builder *b, const char *role, struct slice content)
{
    val_open_object(b);
    val_put_name(b, slice_str("role"));
    val_put_string(b, slice_str(role));
    val_put_name(b, slice_str("content"));
    val_put_string(b, content);
    val_close(b);
}

static enum errc finish(struct slice user, struct arena *arena, struct val *messages,
                        struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    enum errc rc;

    val_open_array(b);
    add_message(b, "system", slice_str(system_text));
    add_message(b, "user", user);
    val_close(b);
    rc = val_finish_in(b, arena, messages, err);
    val_builder_free(b);
    return rc;
}

/* The single best source is too long for the context: keeps the beginning that fits. */
static enum errc cut_best(struct generator *g, const struct ask_prompt_options *opt, size_t budget,
                          struct buf *user, struct error *err)
{
    enum errc rc = OK;
    size_t rest, bytes;

    write_user(opt, 1, 0, user);
    TRY(g->count_tokens(g, slice_str(opt->model->name), buf_slice(user), &rest, err));
    if (rest >= budget)
        return fail(err, ERR_INVALID,
                    "the question is too long: %zu tokens with instructions, model '%s' has room for %zu",
                    rest, opt->model->name, budget);
    TRY(g->fit_tokens(g, slice_str(opt->model->name), opt->hits[0].hit.text, budget - rest, &bytes,
                      err));
    write_user(opt, 1, bytes, user);
out:
    return rc;
}

enum errc ask_prompt_build(struct generator *g, const struct ask_prompt_options *opt,
                           struct arena *arena, struct val *messages, size_t *used,
                           struct error *err)
{
    enum errc rc = OK;
    size_t budget, tokens, n = opt->hit_count;
    bool is_small = opt->model->parameters < (uint64_t)SMALL_PARAMETERS_MILLIONS * 1000000;
    struct buf user;

    buf_init(&user, 0);
    if (is_small && n > SMALL_SOURCES)
        n = SMALL_SOURCES;
    TRY(user_budget(g, opt, &budget, err));
    for (;; n--) {
        write_user(opt, n, SIZE_MAX, &user);
        TRY(g->count_tokens(g, slice_str(opt->model->name), buf_slice(&user), &tokens, err));
        if (tokens <= budget)
            break;
        if (n <= 1) {
            TRY(cut_best(g, opt, budget, &user, err));
            break;
        }
    }
    *used = n;
    TRY(finish(buf_slice(&user), arena, messages, err));
out:
    buf_release(&user);
    return rc;
}
