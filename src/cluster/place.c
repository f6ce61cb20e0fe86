/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/place.h"

enum { BEGIN_BYTES = 4096 };

const char *place_reason_name(enum place_reason r)
{
    static const char *const names[] = { "named", "slot", "fallback" };

    return names[r];
}

static bool serves(const struct peer_view *n, struct slice model)
{
    for (uint32_t i = 0; i < n->hello.model_count; i++)
        if (n->hello.models[i].kind == MODEL_CHAT &&
            (!model.len || slice_is(model, n->hello.models[i].name)))
            return true;
    return false;
}

static bool is_ready(const struct peer_view *n)
{
    return (n->state == PEER_UP || n->state == PEER_SELF) && !n->hello.is_draining && !n->is_barred;
}

static bool can_answer(const struct peer_view *n, struct slice model)
{
    return is_ready(n) && serves(n, model);
}

static enum errc choose_named(const struct peer_view *nodes, size_t count,
                              const struct place_wish *wish, struct place_choice *out,
                              struct error *err)
{
    size_t at = 0;

    while (at < count && !slice_is(wish->node, nodes[at].node.id))
        at++;
    if (at == count)
        return fail(err, ERR_NOT_FOUND, "no node '%.*s' is in the cluster",
                    (int)(wish->node.len < NODE_ID_BYTES ? wish->node.len : NODE_ID_BYTES),
                    wish->node.ptr);
    if (nodes[at].is_barred)
        return fail(err, ERR_BUSY, "node %s has failed too often lately: its circuit breaker is %s",
                    nodes[at].node.id, breaker_state_name(nodes[at].breaker));
    if (!is_ready(&nodes[at]) || (wish->tried && wish->tried[at]))
        return fail(err, ERR_BUSY, "node %s cannot answer now: it is %s%s%s", nodes[at].node.id,
                    wish->tried && wish->tried[at] ? "lost" : peer_state_name(nodes[at].state),
                    nodes[at].why[0] ? ", " : "", nodes[at].why);
    if (!serves(&nodes[at], wish->model))
        return fail(err, ERR_NOT_FOUND, "node %s does not serve the model '%.*s'",
                    nodes[at].node.id, SLICE_ARG(wish->model));
    *out = (struct place_choice){ at, PLACE_NAMED };
    return OK;
}

/* Nobody can: is it that nobody serves it, or that whoever does is away? */
static enum errc refuse(const struct peer_view *nodes, size_t count, const struct place_wish *wish,
                        struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (serves(&nodes[i], wish->model))
            return fail(err, ERR_BUSY, "no node that serves the model '%.*s' can answer now",
                        SLICE_ARG(wish->model));
    return fail(err, ERR_NOT_FOUND, "no node of the cluster serves the model '%.*s'",
                SLICE_ARG(wish->model));
}

enum errc place_choose(const struct peer_view *nodes, size_t count, size_t owner,
                       const struct place_wish *wish, struct place_choice *out, struct error *err)
{
    if (wish->node.len)
        return choose_named(nodes, count, wish, out, err);
    if (owner < count && can_answer(&nodes[owner], wish->model) &&
        !(wish->tried && wish->tried[owner])) {
        *out = (struct place_choice){ owner, PLACE_SLOT };
        return OK;
    }
    for (int only_self = 1; only_self >= 0; only_self--) {
        for (size_t i = 1; i <= count; i++) {
            size_t at = (owner + i) % count;
            if (only_self && nodes[at].state != PEER_SELF)
                continue;
            if (can_answer(&nodes[at], wish->model) && !(wish->tried && wish->tried[at])) {
                *out = (struct place_choice){ at, PLACE_FALLBACK };
                return OK;
            }
        }
    }
    return refuse(nodes, count, wish, err);
}

/* ---- slots ---- */

static void add(struct buf *out, struct slice bytes)
{
    size_t room = BEGIN_BYTES - out->len;

    buf_add(out, bytes.ptr, bytes.len < room ? bytes.len : room);
}

/* Up to what the user said first. */
static void add_messages(struct buf *out, struct val messages)
{
    for (size_t i = 0; i < val_count(messages); i++) {
        struct val m = val_at(messages, i);
        struct slice role = val_string(val_get(m, slice_str("role")));
        struct val content = val_get(m, slice_str("content"));
        add(out, role);
        add(out, val_bytes(val_is_null(content) ? val_null : content));
        if (slice_is(role, "user"))
            return;
    }
}

uint16_t place_slot(const struct gen_request *req)
{
    struct buf key;

    if (req->domain.len)
        return hash_slot(req->domain);
    buf_init(&key, 0);
    add(&key, req->tenant);
    if (req->token_count)
        add(&key, slice_of(req->tokens, req->token_count * sizeof *req->tokens));
    else if (!val_is_null(req->messages))
        add_messages(&key, req->messages);
    else
        add(&key, req->prompt);
    uint16_t slot = hash_slot(buf_slice(&key));
    buf_release(&key);
    return slot;
}
