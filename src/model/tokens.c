/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tokens.h"

#include "model/model_private.h"
#include "model/prompt.h"

#include <stdio.h>

/* More than any text of a request has; a prompt that is only counted need not fit the context. */
enum { COUNTED_MAX = 1 << 26 };

void token_list_release(struct token_list *t)
{
    mem_free(t->ids);
    mem_free(t->ends);
    buf_release(&t->pieces);
    *t = (struct token_list){ 0 };
}

static enum errc from_messages(struct engine *e, struct val messages, struct token_list *out,
                               struct error *err)
{
    struct gen_request req = { .messages = messages };
    uint32_t count = 0;
    if (e->info.kind != MODEL_CHAT)
        return fail(err, ERR_INVALID, "%s makes vectors and has no chat template for messages",
                    out->model);
    enum errc rc = prompt_tokens(e, &req, NULL, COUNTED_MAX, &out->ids, &count, err);
    out->count = count;
    return rc;
}

static enum errc spell(struct engine *e, struct token_list *t, struct error *err)
{
    char piece[ENGINE_PIECE_BYTES];
    t->ends = mem_alloc((t->count + 1) * sizeof *t->ends);
    for (size_t i = 0; i < t->count; i++) {
        if (t->ids[i] < 0 || (uint32_t)t->ids[i] >= e->info.vocab_size)
            return fail(err, ERR_INVALID, "token %d at %zu is not one of the model's %u", t->ids[i],
                        i, e->info.vocab_size);
        buf_add(&t->pieces, piece, e->ops->spell(e, t->ids[i], piece));
        t->ends[i] = t->pieces.len;
    }
    return OK;
}

static enum errc hold(struct models *m, struct slice name, struct model **out,
                      struct token_list *list, struct error *err)
{
    struct model_wish wish = { .name = name, .kind = MODEL_CHAT, .is_any = true };
    enum errc rc = model_ref(m, &wish, out, err);
    buf_init(&list->pieces, 0);
    if (rc != OK)
        return rc;
    list->context_tokens = (*out)->context;
    snprintf(list->model, sizeof list->model, "%s", (*out)->name);
    return OK;
}

enum errc models_tokenise(struct models *m, const struct tokenise_request *q,
                          struct token_list *out, struct error *err)
{
    struct model *model = NULL;
    enum errc rc = OK;
    *out = (struct token_list){ 0 };
    TRY(hold(m, q->model, &model, out, err));
    if (val_is_null(q->messages))
        tokens_append(model->engine, q->text, q->add_special, q->parse_special, &out->ids,
                      &out->count);
    else
        TRY(from_messages(model->engine, q->messages, out, err));
    rc = spell(model->engine, out, err);
out:
    if (model)
        model_unref(model);
    return rc;
}

enum errc models_spell(struct models *m, struct slice name, struct token_list *out,
                       struct error *err)
{
    struct model *model = NULL;
    enum errc rc = hold(m, name, &model, out, err);
    if (rc != OK)
        return rc;
    rc = spell(model->engine, out, err);
    model_unref(model);
    return rc;
}
