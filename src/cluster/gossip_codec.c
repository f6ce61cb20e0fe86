/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   message  format 1 | type | section | section | section
 *   section  count (2) | count elements       items, claims, digest: always all three
 *   item     length (2) of what is sealed | sealed | length (2) of the seal | seal
 *   sealed   shard (2) | boot (8) | kind (1) | version (4) | payload
 *   claim    shard (2) | boot (8) | beat (4)
 *   digest   shard (2) | boot (8) | version (4) of each kind
 *
 * Numbers are big-endian. The message is checked as a whole before anything of
 * it is used, so that half of a damaged message has no effect.
 */
#include "cluster/gossip_codec.h"
#include "base/key.h"
#include <math.h>

enum {
    FORMAT = 1,
    HEAD_BYTES = 2 + 8 + 1 + 4, /* of an item before its payload */
    CLAIM_BYTES = 2 + 8 + 4,
    DIGEST_BYTES = 2 + 8 + 4 * GOSSIP_KINDS,
    FLAG_DRAINING = 1,
    FLAG_LEAVING = 2,
};

#define LATENCY_MS_MAX 3.6e6
#define SERVICE_MS_MAX (24 * 3600 * 1000u)
enum { REQUESTS_MAX = 1000000 };

/* ---- numbers ---- */

static void add_u32(struct buf *out, uint32_t v)
{
    key_add_u16(out, (uint16_t)(v >> 16));
    key_add_u16(out, (uint16_t)v);
}

static void add_double(struct buf *out, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    key_add_u64(out, bits);
}

static bool take_u8(struct slice *in, uint8_t *out)
{
    struct slice bytes;

    if (!key_take_bytes(in, 1, &bytes))
        return false;
    *out = (uint8_t)bytes.ptr[0];
    return true;
}

static bool take_u16(struct slice *in, uint16_t *out)
{
    struct slice bytes;

    if (!key_take_bytes(in, 2, &bytes))
        return false;
    *out = key_read_u16(bytes.ptr);
    return true;
}

static bool take_u32(struct slice *in, uint32_t *out)
{
    uint16_t high, low;

    if (!take_u16(in, &high) || !take_u16(in, &low))
        return false;
    *out = (uint32_t)high << 16 | low;
    return true;
}

static bool take_double(struct slice *in, double *out)
{
    uint64_t bits;

    if (!key_take_u64(in, &bits))
        return false;
    memcpy(out, &bits, sizeof bits);
    return true;
}

static enum errc damaged(struct error *err, const char *what)
{
    return fail(err, ERR_CORRUPT, "gossip: %s is cut short or has bytes left over", what);
}

/* ---- state ---- */

static enum errc check_adapter(const struct gossip_adapter *a, struct error *err)
{
    struct slice domain = slice_of(a->domain, strnlen(a->domain, sizeof a->domain));

    if (!slice_is_file_name(domain, GOSSIP_DOMAIN_BYTES))
        return fail(err, ERR_INVALID,
                    "gossip: a domain has 1 to %d characters of A-Z a-z 0-9 . _ -",
                    GOSSIP_DOMAIN_BYTES);
    if (!(a->accuracy >= -1 && a->accuracy <= 1))
        return fail(err, ERR_INVALID, "gossip: accuracy %g of domain %s is not within -1 and 1",
                    a->accuracy, a->domain);
    if (!(fabs(a->latency_ms) <= LATENCY_MS_MAX))
        return fail(err, ERR_INVALID, "gossip: latency %g ms of domain %s is beyond an hour",
                    a->latency_ms, a->domain);
    return OK;
}

enum errc gossip_state_check(const struct gossip_state *s, struct error *err)
{
    if (s->model_count > GOSSIP_MODELS_MAX)
        return fail(err, ERR_INVALID, "gossip: %u models, at most %d can be announced",
                    s->model_count, GOSSIP_MODELS_MAX);
    if (s->adapter_count > GOSSIP_ADAPTERS_MAX)
        return fail(err, ERR_INVALID, "gossip: %u adapters, at most %d can be announced",
                    s->adapter_count, GOSSIP_ADAPTERS_MAX);
    for (unsigned i = 0; i < s->adapter_count; i++) {
        const struct gossip_adapter *a = &s->adapters[i];
        enum errc rc = check_adapter(a, err);
        if (rc != OK)
            return rc;
        for (unsigned j = 0; j < i; j++) {
            if (a->model == s->adapters[j].model && !strcmp(a->domain, s->adapters[j].domain))
                return fail(err, ERR_INVALID, "gossip: domain %s is announced twice for one model",
                            a->domain);
        }
    }
    return OK;
}

static void encode_adapter(const struct gossip_adapter *a, struct buf *out)
{
    size_t len = strlen(a->domain);

    key_add_u8(out, (uint8_t)len);
    buf_add(out, a->domain, len);
    key_add_u64(out, a->model);
    add_double(out, a->accuracy);
    add_double(out, a->latency_ms);
    add_u32(out, a->samples);
    add_u32(out, a->round);
    key_add_u64(out, a->announced_ms);
}

static bool decode_adapter(struct slice *in, struct gossip_adapter *a)
{
    struct slice domain;
    uint8_t len;

    memset(a, 0, sizeof *a);
    if (!take_u8(in, &len) || len > GOSSIP_DOMAIN_BYTES || !key_take_bytes(in, len, &domain) ||
        !slice_is_file_name(domain, GOSSIP_DOMAIN_BYTES))
        return false;
    memcpy(a->domain, domain.ptr, domain.len);
    return key_take_u64(in, &a->model) && take_double(in, &a->accuracy) &&
           take_double(in, &a->latency_ms) && take_u32(in, &a->samples) &&
           take_u32(in, &a->round) && key_take_u64(in, &a->announced_ms);
}

void gossip_state_encode(const struct gossip_state *s, struct buf *out)
{
    key_add_u8(
        out, (uint8_t)((s->is_draining ? FLAG_DRAINING : 0) | (s->is_leaving ? FLAG_LEAVING : 0)));
    key_add_u8(out, (uint8_t)s->model_count);
    for (unsigned i = 0; i < s->model_count; i++)
        key_add_u64(out, s->models[i]);
    key_add_u8(out, (uint8_t)s->adapter_count);
    for (unsigned i = 0; i < s->adapter_count; i++)
        encode_adapter(&s->adapters[i], out);
}

enum errc gossip_state_decode(struct slice in, struct gossip_state *s, struct error *err)
{
    struct gossip_adapter *adapters = s->adapters;
    uint8_t flags, models, count;

    *s = (struct gossip_state){ .adapters = adapters };
    if (!take_u8(&in, &flags) || flags > (FLAG_DRAINING | FLAG_LEAVING) || !take_u8(&in, &models) ||
        models > GOSSIP_MODELS_MAX)
        return damaged(err, "a state");
    s->is_draining = flags & FLAG_DRAINING;
    s->is_leaving = flags & FLAG_LEAVING;
    for (; s->model_count < models; s->model_count++) {
        if (!key_take_u64(&in, &s->models[s->model_count]))
            return damaged(err, "a state");
    }
    if (!take_u8(&in, &count) || count > GOSSIP_ADAPTERS_MAX)
        return damaged(err, "a state");
    for (; s->adapter_count < count; s->adapter_count++) {
        if (!decode_adapter(&in, &adapters[s->adapter_count]))
            return damaged(err, "an adapter");
    }
    if (in.len)
        return damaged(err, "a state");
    return gossip_state_check(s, err);
}

/* ---- load ---- */

enum errc gossip_load_check(const struct gossip_load *l, struct error *err)
{
    if (l->pending > REQUESTS_MAX || l->slots > REQUESTS_MAX)
        return fail(err, ERR_INVALID, "gossip: %u requests in %u slots, at most %d each",
                    l->pending, l->slots, REQUESTS_MAX);
    if (l->service_ms > SERVICE_MS_MAX || l->queue_ms > SERVICE_MS_MAX)
        return fail(err, ERR_INVALID, "gossip: a request of %u ms or a wait of %u ms is over a day",
                    l->service_ms, l->queue_ms);
    return OK;
}

void gossip_load_encode(const struct gossip_load *l, struct buf *out)
{
    add_u32(out, l->pending);
    add_u32(out, l->slots);
    add_u32(out, l->queue_ms);
    add_u32(out, l->service_ms);
    add_u32(out, l->active_adapters);
    add_u32(out, l->free_pages);
}

enum errc gossip_load_decode(struct slice in, struct gossip_load *l, struct error *err)
{
    if (!take_u32(&in, &l->pending) || !take_u32(&in, &l->slots) || !take_u32(&in, &l->queue_ms) ||
        !take_u32(&in, &l->service_ms) || !take_u32(&in, &l->active_adapters) ||
        !take_u32(&in, &l->free_pages) || in.len)
        return damaged(err, "a load");
    return gossip_load_check(l, err);
}

/* ---- prefixes ---- */

void gossip_chains_encode(const struct gossip_chain *chains, unsigned count, struct buf *out)
{
    key_add_u8(out, (uint8_t)count);
    for (unsigned i = 0; i < count; i++) {
        key_add_u64(out, chains[i].key);
        add_u32(out, chains[i].tokens);
    }
}

enum errc gossip_chains_decode(struct slice in, struct gossip_chain *chains, unsigned *count,
                               struct error *err)
{
    uint8_t n;

    *count = 0;
    if (!take_u8(&in, &n) || n > GOSSIP_CHAINS_MAX)
        return damaged(err, "a list of prefixes");
    for (; *count < n; (*count)++) {
        struct gossip_chain *c = &chains[*count];
        if (!key_take_u64(&in, &c->key) || !take_u32(&in, &c->tokens))
            return damaged(err, "a list of prefixes");
    }
    return in.len ? damaged(err, "a list of prefixes") : OK;
}

/* ---- items ---- */

void gossip_item_open(struct buf *out, const struct gossip_item *head)
{
    key_add_u16(out, (uint16_t)(HEAD_BYTES + head->payload.len));
    key_add_u16(out, head->shard);
    key_add_u64(out, head->boot);
    key_add_u8(out, (uint8_t)head->kind);
    add_u32(out, head->version);
    buf_add_slice(out, head->payload);
}

void gossip_item_close(struct buf *out, size_t from, struct slice seal)
{
    assert(out->len - from <= GOSSIP_ITEM_BYTES && seal.len <= GOSSIP_SEAL_BYTES);
    key_add_u16(out, (uint16_t)seal.len);
    buf_add_slice(out, seal);
}

bool gossip_next_item(struct slice *items, struct gossip_item *out)
{
    struct slice at = *items, sealed, in;
    uint16_t len, seal_len;
    uint8_t kind;

    if (!take_u16(&at, &len) || len > GOSSIP_ITEM_BYTES || !key_take_bytes(&at, len, &sealed) ||
        !take_u16(&at, &seal_len) || seal_len > GOSSIP_SEAL_BYTES ||
        !key_take_bytes(&at, seal_len, &out->seal))
        return false;
    in = sealed;
    if (!take_u16(&in, &out->shard) || !key_take_u64(&in, &out->boot) || !take_u8(&in, &kind) ||
        kind >= GOSSIP_KINDS || !take_u32(&in, &out->version))
        return false;
    out->kind = (enum gossip_kind)kind;
    out->payload = in;
    out->sealed = sealed;
    out->bytes = slice_of(items->ptr, items->len - at.len);
    *items = at;
    return true;
}

bool gossip_next_claim(struct slice *claims, struct gossip_claim *out)
{
    return take_u16(claims, &out->shard) && key_take_u64(claims, &out->boot) &&
           take_u32(claims, &out->beat);
}

bool gossip_next_digest(struct slice *digests, struct gossip_digest *out)
{
    if (!take_u16(digests, &out->shard) || !key_take_u64(digests, &out->boot))
        return false;
    for (int k = 0; k < GOSSIP_KINDS; k++) {
        if (!take_u32(digests, &out->versions[k]))
            return false;
    }
    return true;
}

/* ---- writing ---- */

enum { SECTION_ITEMS = 1, SECTION_CLAIMS, SECTION_DIGESTS, SECTION_END };

void gossip_write_begin(struct gossip_writer *w, struct buf *out, enum gossip_type type)
{
    buf_clear(out);
    key_add_u8(out, FORMAT);
    key_add_u8(out, (uint8_t)type);
    *w = (struct gossip_writer){ .out = out };
}

/* Closes the sections before this one. */
static void enter(struct gossip_writer *w, unsigned section)
{
    assert(w->section <= section);
    while (w->section < section) {
        if (w->section) {
            w->out->ptr[w->count_at] = (char)(w->count >> 8);
            w->out->ptr[w->count_at + 1] = (char)w->count;
        }
        w->section++;
        w->count = 0;
        if (w->section < SECTION_END) {
            w->count_at = w->out->len;
            key_add_u16(w->out, 0);
        }
    }
}

/* Room for so many bytes and for the counts of the sections that follow. */
static bool has_room(const struct gossip_writer *w, size_t bytes)
{
    return w->count < UINT16_MAX && w->out->len + bytes + 6 <= GOSSIP_MESSAGE_BYTES;
}

bool gossip_write_item(struct gossip_writer *w, struct slice item_bytes)
{
    enter(w, SECTION_ITEMS);
    if (!has_room(w, item_bytes.len))
        return false;
    buf_add_slice(w->out, item_bytes);
    w->count++;
    w->total++;
    return true;
}

bool gossip_write_claim(struct gossip_writer *w, const struct gossip_claim *claim)
{
    enter(w, SECTION_CLAIMS);
    if (!has_room(w, CLAIM_BYTES))
        return false;
    key_add_u16(w->out, claim->shard);
    key_add_u64(w->out, claim->boot);
    add_u32(w->out, claim->beat);
    w->count++;
    w->total++;
    return true;
}

bool gossip_write_digest(struct gossip_writer *w, const struct gossip_digest *digest)
{
    enter(w, SECTION_DIGESTS);
    if (!has_room(w, DIGEST_BYTES))
        return false;
    key_add_u16(w->out, digest->shard);
    key_add_u64(w->out, digest->boot);
    for (int k = 0; k < GOSSIP_KINDS; k++)
        add_u32(w->out, digest->versions[k]);
    w->count++;
    w->total++;
    return true;
}

bool gossip_write_end(struct gossip_writer *w)
{
    enter(w, SECTION_END);
    return w->total > 0;
}

/* ---- reading ---- */

static bool take_items(struct slice *in, unsigned count, struct slice *section)
{
    struct slice at = *in;
    struct gossip_item item;

    for (unsigned i = 0; i < count; i++) {
        if (!gossip_next_item(&at, &item))
            return false;
    }
    *section = slice_of(in->ptr, in->len - at.len);
    *in = at;
    return true;
}

enum errc gossip_message_decode(struct slice in, struct gossip_message *out, struct error *err)
{
    uint8_t format, type;
    uint16_t items, claims, digests;

    if (in.len > GOSSIP_MESSAGE_BYTES)
        return fail(err, ERR_CORRUPT, "gossip: a message of %zu bytes, at most %d are allowed",
                    in.len, GOSSIP_MESSAGE_BYTES);
    if (!take_u8(&in, &format) || format != FORMAT)
        return fail(err, ERR_CORRUPT, "gossip: the message is not of format %d", FORMAT);
    if (!take_u8(&in, &type) || type < GOSSIP_NEWS || type > GOSSIP_ACK)
        return fail(err, ERR_CORRUPT, "gossip: a message of unknown type");
    if (!take_u16(&in, &items) || !take_items(&in, items, &out->items))
        return damaged(err, "an item");
    if (!take_u16(&in, &claims) ||
        !key_take_bytes(&in, (uint64_t)claims * CLAIM_BYTES, &out->claims))
        return damaged(err, "a claim");
    if (!take_u16(&in, &digests) ||
        !key_take_bytes(&in, (uint64_t)digests * DIGEST_BYTES, &out->digests) || in.len)
        return damaged(err, "a digest");
    out->type = (enum gossip_type)type;
    out->item_count = items;
    out->claim_count = claims;
    out->digest_count = digests;
    return OK;
}
