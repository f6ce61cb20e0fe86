/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/topology.h"
#include "base/val_text.h"
#include <stdio.h>

enum { FORMAT = 1 };

struct topology *topology_ref(struct topology *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void topology_unref(struct topology *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    mem_free(t->nodes);
    mem_free(t);
}

static struct topology *topology_new(size_t node_count)
{
    struct topology *t = mem_zalloc(sizeof *t);

    t->refs = 1;
    t->node_count = node_count;
    t->nodes = mem_zalloc((node_count + 1) * sizeof *t->nodes);
    return t;
}

bool node_id_is_valid(struct slice id)
{
    if (!id.len || id.len >= NODE_ID_BYTES || id.ptr[0] == '-' || id.ptr[id.len - 1] == '-')
        return false;
    for (size_t i = 0; i < id.len; i++)
        if (!((id.ptr[i] >= 'a' && id.ptr[i] <= 'z') || (id.ptr[i] >= '0' && id.ptr[i] <= '9') ||
              id.ptr[i] == '-'))
            return false;
    return true;
}

long topology_find(const struct topology *t, struct slice id)
{
    for (size_t i = 0; i < t->node_count; i++)
        if (slice_is(id, t->nodes[i].id))
            return (long)i;
    return -1;
}

size_t topology_slots(const struct topology *t, size_t node)
{
    size_t n = 0;

    for (size_t slot = 0; slot < SLOT_COUNT; slot++)
        n += t->owners[slot] == node;
    return n;
}

/* ---- changes ---- */

/* Moves slots to one node until it has its share, each from who has most then. */
static void take_share(struct topology *t, size_t to)
{
    size_t counts[TOPOLOGY_NODES_MAX] = { 0 }, share = SLOT_COUNT / t->node_count;

    for (size_t slot = 0; slot < SLOT_COUNT; slot++)
        counts[t->owners[slot]]++;
    for (size_t taken = counts[to]; taken < share; taken++) {
        size_t from = 0, slot = SLOT_COUNT;
        for (size_t i = 1; i < t->node_count; i++)
            if (counts[i] > counts[from])
                from = i;
        while (t->owners[--slot] != from)
            ;
        t->owners[slot] = (uint16_t)to;
        counts[from]--;
    }
}

/* The lowest that is free, and where a node of that number belongs. */
static uint16_t free_number(const struct topology *t, size_t *at)
{
    *at = 0;
    while (*at < t->node_count && t->nodes[*at].number == *at + 1)
        ++*at;
    return (uint16_t)(*at + 1);
}

static struct topology *with_new(const struct topology *t, const struct topology_node *node)
{
    size_t at, count = t->node_count;
    uint16_t number = free_number(t, &at);
    struct topology *next = topology_new(count + 1);

    for (size_t i = 0; i < count; i++)
        next->nodes[i + (i >= at)] = t->nodes[i];
    next->nodes[at] = *node;
    next->nodes[at].number = number;
    for (size_t slot = 0; slot < SLOT_COUNT; slot++)
        next->owners[slot] =
            (uint16_t)(count ? t->owners[slot] + (size_t)(t->owners[slot] >= at) : at);
    take_share(next, at);
    return next;
}

struct topology *topology_with(const struct topology *t, const struct topology_node *node,
                               struct error *err)
{
    static const struct topology none = { .nodes = NULL };
    struct topology *next;

    long known = t ? topology_find(t, slice_str(node->id)) : -1;
    if (!t)
        t = &none;
    if (known >= 0 && !strcmp(t->nodes[known].cluster, node->cluster) &&
        !strcmp(t->nodes[known].public_url, node->public_url))
        return NULL;
    if (known >= 0) {
        next = topology_new(t->node_count);
        memcpy(next->nodes, t->nodes, t->node_count * sizeof *t->nodes);
        memcpy(next->owners, t->owners, sizeof t->owners);
        uint16_t number = next->nodes[known].number;
        next->nodes[known] = *node;
        next->nodes[known].number = number;
    } else if (t->node_count == TOPOLOGY_NODES_MAX) {
        (void)fail(err, ERR_LIMIT, "the cluster has %d nodes already", TOPOLOGY_NODES_MAX);
        return NULL;
    } else {
        next = with_new(t, node);
    }
    next->epoch = t->epoch + 1;
    return next;
}

/* ---- text ---- */

void topology_print(const struct topology *t, struct buf *out)
{
    buf_printf(out, "{\"format\":%d,\"epoch\":%llu,\"nodes\":[", FORMAT,
               (unsigned long long)t->epoch);
    for (size_t i = 0; i < t->node_count; i++) {
        const struct topology_node *n = &t->nodes[i];
        buf_printf(out, "%s{\"id\":\"%s\",\"number\":%u,\"cluster\":", i ? "," : "", n->id,
                   n->number);
        val_print_string(slice_str(n->cluster), out);
        buf_add_str(out, ",\"public\":");
        val_print_string(slice_str(n->public_url), out);
        buf_add_char(out, '}');
    }
    buf_add_str(out, "],\"slots\":[");
    for (size_t slot = 0, run; slot < SLOT_COUNT; slot += run) {
        for (run = 1; slot + run < SLOT_COUNT && t->owners[slot + run] == t->owners[slot]; run++)
            ;
        buf_printf(out, "%s[%zu,%u]", slot ? "," : "", run, t->nodes[t->owners[slot]].number);
    }
    buf_add_str(out, "]}");
}

static bool copy_text(struct val v, const char *name, char *out, size_t size)
{
    struct slice text = val_string(val_get(v, slice_str(name)));

    if (text.len >= size || memchr(text.ptr, 0, text.len))
        return false;
    memcpy(out, text.ptr, text.len);
    out[text.len] = 0;
    return true;
}

static enum errc read_nodes(struct topology *t, struct val list, struct error *err)
{
    for (size_t i = 0; i < t->node_count; i++) {
        struct topology_node *n = &t->nodes[i];
        struct val v = val_at(list, i);
        int64_t number = val_int(val_get(v, slice_str("number")));
        struct slice id = val_string(val_get(v, slice_str("id")));
        if (!node_id_is_valid(id) || number < 1 || number > TOPOLOGY_NODES_MAX ||
            (i && number <= t->nodes[i - 1].number) || topology_find(t, id) >= 0 ||
            !copy_text(v, "id", n->id, sizeof n->id) ||
            !copy_text(v, "cluster", n->cluster, sizeof n->cluster) ||
            !copy_text(v, "public", n->public_url, sizeof n->public_url))
            return fail(err, ERR_CORRUPT, "node %zu of the topology is not one", i);
        n->number = (uint16_t)number;
    }
    return OK;
}

static enum errc read_slots(struct topology *t, struct val runs, struct error *err)
{
    size_t slot = 0;

    for (size_t i = 0; i < val_count(runs); i++) {
        int64_t count = val_int(val_at(val_at(runs, i), 0));
        int64_t number = val_int(val_at(val_at(runs, i), 1));
        size_t owner = 0;
        while (owner < t->node_count && t->nodes[owner].number != number)
            owner++;
        if (count < 1 || count > (int64_t)(SLOT_COUNT - slot) || owner == t->node_count)
            return fail(err, ERR_CORRUPT, "run %zu of the topology's slots is not one", i);
        while (count--)
            t->owners[slot++] = (uint16_t)owner;
    }
    if (slot != SLOT_COUNT)
        return fail(err, ERR_CORRUPT, "the topology has %zu slots", slot);
    return OK;
}

enum errc topology_parse(struct slice text, struct topology **out, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct topology *t = NULL;
    struct val v;
    enum errc rc = OK;

    if (val_parse(text, arena, &v, err) != OK)
        TRY(fail(err, ERR_CORRUPT, "the topology is not JSON"));
    struct val nodes = val_get(v, slice_str("nodes"));
    if (val_int(val_get(v, slice_str("format"))) != FORMAT)
        TRY(fail(err, ERR_CORRUPT, "the topology has a format that this version does not know"));
    if (!val_count(nodes) || val_count(nodes) > TOPOLOGY_NODES_MAX)
        TRY(fail(err, ERR_CORRUPT, "the topology has %zu nodes", val_count(nodes)));
    t = topology_new(val_count(nodes));
    t->epoch = (uint64_t)val_int(val_get(v, slice_str("epoch")));
    TRY(read_nodes(t, nodes, err));
    TRY(read_slots(t, val_get(v, slice_str("slots")), err));
    *out = t;
    t = NULL;
out:
    topology_unref(t);
    arena_free(arena);
    return rc;
}
