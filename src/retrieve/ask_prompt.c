/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two forms. Models of some size get numbered sources, worst first, so that the
 * best one stands right before the question, which is the last thing read.
 *
 * Small models lose the thread in that. They get the few sentences that matter,
 * as notes under their headings, after an example: of 13 questions on the
 * samples a model of 135 million parameters answered 4 to 5 from whole chunks,
 * however it was told, and 8 to 10 this way. The example is the same each time, so
 * its tokens are computed once.
 */
#include "retrieve/ask_prompt.h"

#include "base/buf.h"

enum {
    TEMPLATE_TOKENS = 64,             /* what the chat template adds, at most */
    SMALL_PARAMETERS_MILLIONS = 1000, /* below this a model is small */
};

const char ask_prompt_unknown[] = "The documents do not answer this question.";

static const char system_text[] =
    "You answer questions from the numbered sources that the user gives. Answer in one or two "
    "short sentences with the facts of the sources and nothing else. If the sources do not contain "
    "the answer, say: The documents do not answer this question.";

static const char notes_system_text[] =
    "Answer the question with the facts of the notes, in one short sentence.";
static const char notes_example[] =
    "Notes:\nOpening hours: The museum is open from 10:00 to 17:00.\n"
    "Tickets: A ticket for adults costs 12 euros, for children 5 euros.\n\n"
    "Question: What does a child pay?";
static const char notes_example_answer[] = "A ticket for children costs 5 euros.";

bool ask_prompt_wants_focus(const struct model_info *model)
{
    return model->parameters < (uint64_t)SMALL_PARAMETERS_MILLIONS * 1000000;
}

static void add_source(struct buf *out, size_t number, const struct corpus_hit *h,
                       struct slice text)
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

/* One line: white space of the source is that of its page. */
static void add_flat(struct buf *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool is_break = text.ptr[i] == '\n' || text.ptr[i] == '\r' || text.ptr[i] == '\t';
        buf_add_char(out, is_break ? ' ' : text.ptr[i]);
    }
}

static void write_notes(const struct ask_prompt_options *opt, size_t used, struct buf *out)
{
    buf_clear(out);
    buf_add_str(out, "Notes:\n");
    for (size_t i = used; i > 0; i--) {
        const struct passage *p = &opt->focus->passages.items[i - 1];
        if (p->label.len > 0) {
            add_flat(out, p->label);
            buf_add_str(out, ": ");
        }
        if (p->header.len > 0) {
            add_flat(out, p->header);
            buf_add_char(out, ' ');
        }
        add_flat(out, p->text);
        buf_add_char(out, '\n');
    }
    buf_printf(out, "\nQuestion: %.*s", SLICE_ARG(opt->question));
}

/* Tokens that the user's message may have. */
static enum errc user_budget(struct generator *g, const struct ask_prompt_options *opt,
                             size_t *budget, struct error *err)
{
    enum errc rc = OK;
    size_t taken;

    TRY(g->count_tokens(g, slice_str(opt->model->name), slice_str(system_text), &taken, err));
    if (opt->focus)
        taken *= 2; /* the example is about as long as the instruction it replaces */
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

static enum errc finish(bool is_notes, struct slice user, struct arena *arena, struct val *messages,
                        struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    enum errc rc;

    val_open_array(b);
    add_message(b, "system", slice_str(is_notes ? notes_system_text : system_text));
    if (is_notes) {
        add_message(b, "user", slice_str(notes_example));
        add_message(b, "assistant", slice_str(notes_example_answer));
    }
    add_message(b, "user", user);
    val_close(b);
    rc = val_finish_in(b, arena, messages, err);
    val_builder_free(b);
    return rc;
}

static enum errc too_long(const struct ask_prompt_options *opt, size_t tokens, size_t budget,
                          struct error *err)
{
    return fail(err, ERR_INVALID,
                "the question is too long: %zu tokens, model '%s' has room for %zu", tokens,
                opt->model->name, budget);
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
        return too_long(opt, rest, budget, err);
    TRY(g->fit_tokens(g, slice_str(opt->model->name), opt->hits[0].hit.text, budget - rest, &bytes,
                      err));
    write_user(opt, 1, bytes, user);
out:
    return rc;
}

static enum errc build_from_hits(struct generator *g, const struct ask_prompt_options *opt,
                                 size_t budget, struct buf *user, size_t *used, struct error *err)
{
    enum errc rc = OK;
    size_t tokens;

    for (size_t n = opt->hit_count;; n--) {
        *used = n;
        write_user(opt, n, SIZE_MAX, user);
        TRY(g->count_tokens(g, slice_str(opt->model->name), buf_slice(user), &tokens, err));
        if (tokens <= budget)
            break;
        if (n <= 1)
            return cut_best(g, opt, budget, user, err);
    }
out:
    return rc;
}

static enum errc build_from_notes(struct generator *g, const struct ask_prompt_options *opt,
                                  size_t budget, struct buf *user, struct error *err)
{
    enum errc rc = OK;
    size_t tokens;

    for (size_t n = opt->focus->passages.count;; n--) {
        write_notes(opt, n, user);
        TRY(g->count_tokens(g, slice_str(opt->model->name), buf_slice(user), &tokens, err));
        if (tokens <= budget)
            break;
        if (n == 0)
            return too_long(opt, tokens, budget, err);
    }
out:
    return rc;
}

enum errc ask_prompt_build(struct generator *g, const struct ask_prompt_options *opt,
                           struct arena *arena, struct val *messages, size_t *used,
                           struct error *err)
{
    enum errc rc = OK;
    size_t budget;
    struct buf user;

    buf_init(&user, 0);
    TRY(user_budget(g, opt, &budget, err));
    *used = opt->focus ? opt->focus->hit_count : 0;
    if (opt->focus)
        TRY(build_from_notes(g, opt, budget, &user, err));
    else
        TRY(build_from_hits(g, opt, budget, &user, used, err));
    TRY(finish(opt->focus != NULL, buf_slice(&user), arena, messages, err));
out:
    buf_release(&user);
    return rc;
}
