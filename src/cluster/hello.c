/* SPDX-License-Identifier: Apache-2.0 */
/* What a node says of itself, as a value. */
#include "cluster/peers.h"
#include <stdio.h>

static void put_text(struct val_builder *b, const char *name, const char *text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, slice_str(text));
}

static void put_int(struct val_builder *b, const char *name, uint64_t n)
{
    val_put_name(b, slice_str(name));
    val_put_int(b, (int64_t)n);
}

void hello_print(const struct hello *h, struct val_builder *b)
{
    val_open_object(b);
    put_text(b, "cluster", h->cluster);
    put_text(b, "node", h->node);
    put_text(b, "boot", h->boot);
    put_int(b, "epoch", h->epoch);
    val_put_name(b, slice_str("draining"));
    val_put_bool(b, h->is_draining);
    put_int(b, "running", h->running);
    put_int(b, "waiting", h->waiting);
    val_put_name(b, slice_str("models"));
    val_open_array(b);
    for (uint32_t i = 0; i < h->model_count; i++) {
        const struct peer_model *m = &h->models[i];
        val_open_object(b);
        put_text(b, "name", m->name);
        put_text(b, "kind", model_kind_name(m->kind));
        put_int(b, "context", m->context_tokens);
        put_int(b, "dimension", m->dimension);
        val_close(b);
    }
    val_close(b);
    val_close(b);
}

static bool read_text(struct val v, const char *name, char *out, size_t size)
{
    struct slice text = val_string(val_get(v, slice_str(name)));

    if (!text.len || text.len >= size)
        return false;
    snprintf(out, size, "%.*s", SLICE_ARG(text));
    return true;
}

static uint64_t read_int(struct val v, const char *name)
{
    int64_t n = val_int(val_get(v, slice_str(name)));

    return n > 0 ? (uint64_t)n : 0;
}

static bool read_model(struct val v, struct peer_model *out)
{
    out->kind = slice_is(val_string(val_get(v, slice_str("kind"))), "embedding") ? MODEL_EMBEDDING
                                                                                 : MODEL_CHAT;
    out->context_tokens = (uint32_t)read_int(v, "context");
    out->dimension = (uint32_t)read_int(v, "dimension");
    return read_text(v, "name", out->name, sizeof out->name);
}

enum errc hello_read(struct val v, struct hello *out, struct error *err)
{
    struct val models = val_get(v, slice_str("models"));

    memset(out, 0, sizeof *out);
    bool is_ok = read_text(v, "cluster", out->cluster, sizeof out->cluster) &&
                 read_text(v, "node", out->node, sizeof out->node) &&
                 read_text(v, "boot", out->boot, sizeof out->boot) &&
                 val_count(models) <= PEER_MODELS_MAX;
    out->epoch = read_int(v, "epoch");
    out->is_draining = val_bool(val_get(v, slice_str("draining")));
    out->running = (uint32_t)read_int(v, "running");
    out->waiting = (uint32_t)read_int(v, "waiting");
    for (size_t i = 0; is_ok && i < val_count(models); i++)
        is_ok = read_model(val_at(models, i), &out->models[out->model_count++]);
    return is_ok ? OK : fail(err, ERR_CORRUPT, "what it says of itself cannot be read");
}
