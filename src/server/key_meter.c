/* SPDX-License-Identifier: Apache-2.0 */
#include "server/key_meter.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/metrics.h"
#include "store/doc.h"

static const char collection_name[] = "_key_usage";

enum { SHELVES = 1024, SPARE_MAX = 4096, SAVE_EVERY_S = 5 };
static const double ROUNDING = 1e-6; /* of many small fillings */
static const uint64_t DAY_US = 86400ull * 1000000;

static struct metric refused_total = METRIC_COUNTER(
    "themis_key_refused_total", "Requests refused by the limits of an access token.");

struct bucket {
    double level;   /* below 0: in debt */
    uint64_t limit; /* a minute; 0 = none */
};

struct key_meter {
    struct gen_payer payer; /* first: its functions cast back */
    struct key_meters *all;
    struct key_meter *next; /* on the shelf */
    size_t refs;
    struct token_facts facts;
    struct bucket requests, tokens;
    uint64_t filled_us;
    uint64_t day, today; /* model tokens of that day */
    bool is_unsaved;
    size_t user_len;
    char user[]; /* not terminated */
};

struct key_meters {
    struct store *store;
    const struct env *env;
    uint64_t db_id;
    pthread_mutex_t saving; /* held over a save */
    pthread_mutex_t lock;   /* of all that follows, a few instructions */
    struct key_meter *shelves[SHELVES];
    size_t count;
    bool is_unsaved;
    uint64_t saved_us;
};

/* ---- the table; lock held ---- */

static struct key_meter **shelf_of(struct key_meters *all, struct slice user, int64_t id)
{
    uint64_t hash = hash_xxh3(user.ptr, user.len) ^ (uint64_t)id * 0x9E3779B97F4A7C15u;
    return &all->shelves[hash % SHELVES];
}

static struct key_meter *find(struct key_meters *all, struct slice user, int64_t id)
{
    struct key_meter *m = *shelf_of(all, user, id);
    while (m && (m->facts.id != id || !slice_eq(slice_of(m->user, m->user_len), user)))
        m = m->next;
    return m;
}

static uint64_t today_of(const struct key_meters *all)
{
    return env_wall_us(all->env) / DAY_US;
}

/* A new one would be the same. */
static bool is_blank(const struct key_meter *m, uint64_t day)
{
    return !m->refs && !m->is_unsaved && (m->day != day || !m->today) &&
           m->requests.level >= (double)m->requests.limit &&
           m->tokens.level >= (double)m->tokens.limit;
}

static void fill_one(struct bucket *b, double minutes)
{
    b->level = fmin(b->level + minutes * (double)b->limit, (double)b->limit);
}

static void fill(struct key_meter *m)
{
    uint64_t now_us = env_mono_us(m->all->env), day = today_of(m->all);
    double minutes = (double)(now_us - m->filled_us) / 60e6;
    fill_one(&m->requests, minutes);
    fill_one(&m->tokens, minutes);
    m->filled_us = now_us;
    if (m->day == day)
        return;
    m->day = day;
    m->today = 0;
}

/* Keys come and go; what tells nothing is not kept. */
static void drop_blank(struct key_meters *all)
{
    uint64_t day = today_of(all);
    for (size_t i = 0; i < SHELVES; i++) {
        struct key_meter **at = &all->shelves[i];
        while (*at) {
            struct key_meter *m = *at;
            if (!m->refs)
                fill(m);
            if (!is_blank(m, day)) {
                at = &m->next;
                continue;
            }
            *at = m->next;
            all->count--;
            mem_free(m);
        }
    }
}

static enum errc admit(struct gen_payer *p, struct error *err);
static void charge(struct gen_payer *p, uint64_t tokens);

static struct key_meter *add(struct key_meters *all, struct slice user, int64_t id)
{
    struct key_meter **shelf = shelf_of(all, user, id);
    if (all->count >= SPARE_MAX && all->count % SPARE_MAX == 0)
        drop_blank(all);
    struct key_meter *m = mem_zalloc(sizeof *m + user.len);
    m->payer = (struct gen_payer){ admit, charge };
    m->all = all;
    m->facts = (struct token_facts){ .id = id, .scopes = SCOPE_ALL };
    m->user_len = user.len;
    memcpy(m->user, user.ptr, user.len);
    m->day = today_of(all);
    m->filled_us = env_mono_us(all->env);
    m->next = *shelf;
    *shelf = m;
    all->count++;
    return m;
}

/* A bucket begins full; a limit that is met for the first time makes one. */
static void set_limit(struct bucket *b, uint64_t limit)
{
    if (b->limit == limit)
        return;
    b->limit = limit;
    b->level = (double)limit;
}

/* Another token has the id now. */
static void begin_again(struct key_meter *m)
{
    m->today = 0;
    m->requests.level = (double)m->requests.limit;
    m->tokens.level = (double)m->tokens.limit;
}

struct key_meter *key_meter_get(struct key_meters *all, struct slice user,
                                const struct token_facts *facts)
{
    pthread_mutex_lock(&all->lock);
    struct key_meter *m = find(all, user, facts->id);
    if (!m)
        m = add(all, user, facts->id);
    if (m->facts.created_s != facts->created_s && m->facts.created_s)
        begin_again(m);
    m->facts = *facts;
    set_limit(&m->requests, facts->limits.requests_per_minute);
    set_limit(&m->tokens, facts->limits.tokens_per_minute);
    m->refs++;
    pthread_mutex_unlock(&all->lock);
    return m;
}

void key_meter_unref(struct key_meter *m)
{
    if (!m)
        return;
    struct key_meters *all = m->all;
    pthread_mutex_lock(&all->lock);
    m->refs--;
    pthread_mutex_unlock(&all->lock);
}

/* ---- using ---- */

static enum errc refused(struct error *err, const char *what, uint64_t limit, const char *span)
{
    metric_add(&refused_total, 1);
    return fail(err, ERR_TOO_MANY, "this access token may use %llu %s %s",
                (unsigned long long)limit, what, span);
}

enum errc key_meter_take(struct key_meter *m, struct error *err)
{
    pthread_mutex_lock(&m->all->lock);
    uint64_t limit = m->requests.limit;
    fill(m);
    bool is_empty = limit && m->requests.level < 1 - ROUNDING;
    if (limit && !is_empty)
        m->requests.level -= 1;
    pthread_mutex_unlock(&m->all->lock);
    return is_empty ? refused(err, "requests", limit, "a minute") : OK;
}

static enum errc admit(struct gen_payer *p, struct error *err)
{
    struct key_meter *m = (struct key_meter *)p;
    pthread_mutex_lock(&m->all->lock);
    struct token_facts facts = m->facts;
    fill(m);
    bool is_empty = facts.limits.tokens_per_minute && m->tokens.level < ROUNDING;
    bool is_spent = facts.limits.tokens_per_day && m->today >= facts.limits.tokens_per_day;
    pthread_mutex_unlock(&m->all->lock);
    if (!(facts.scopes & SCOPE_INFER))
        return fail(err, ERR_FORBIDDEN, "this access token has no scope 'infer'");
    if (is_spent)
        return refused(err, "tokens of models", facts.limits.tokens_per_day, "a day (UTC)");
    return is_empty ? refused(err, "tokens of models", facts.limits.tokens_per_minute, "a minute")
                    : OK;
}

static void charge(struct gen_payer *p, uint64_t tokens)
{
    struct key_meter *m = (struct key_meter *)p;
    pthread_mutex_lock(&m->all->lock);
    fill(m);
    if (m->tokens.limit)
        m->tokens.level -= (double)tokens;
    m->today += tokens;
    m->is_unsaved = true;
    m->all->is_unsaved = true;
    pthread_mutex_unlock(&m->all->lock);
}

struct gen_payer *key_meter_payer(struct key_meter *m)
{
    return &m->payer;
}

static double wait_of(const struct bucket *b, double needed)
{
    return b->limit && b->level < needed - ROUNDING ? (needed - b->level) * 60 / (double)b->limit
                                                    : 0;
}

unsigned key_meter_wait_s(struct key_meter *m)
{
    uint64_t day_us = env_wall_us(m->all->env) % DAY_US;
    pthread_mutex_lock(&m->all->lock);
    fill(m);
    double wait = fmax(wait_of(&m->requests, 1), wait_of(&m->tokens, 1));
    uint64_t of_day = m->facts.limits.tokens_per_day;
    if (of_day && m->today >= of_day)
        wait = fmax(wait, (double)(DAY_US - day_us) / 1e6);
    pthread_mutex_unlock(&m->all->lock);
    return wait < 1 ? 1 : (unsigned)ceil(wait - ROUNDING);
}

uint64_t key_meter_today(struct key_meters *all, struct slice user, int64_t id)
{
    pthread_mutex_lock(&all->lock);
    struct key_meter *m = find(all, user, id);
    uint64_t today = m && m->day == today_of(all) ? m->today : 0;
    pthread_mutex_unlock(&all->lock);
    return today;
}

size_t key_meters_count(struct key_meters *all)
{
    pthread_mutex_lock(&all->lock);
    size_t count = all->count;
    pthread_mutex_unlock(&all->lock);
    return count;
}

/* ---- the store ---- */

/* The collection is made when there is something to write. */
static enum errc find_collection(struct key_meters *all, bool *is_there, struct error *err)
{
    struct txn_options opt = { .is_read_only = true };
    struct txn *t = NULL;
    enum errc rc = txn_begin(&t, all->store, &opt, err);
    if (rc != OK)
        return rc;
    all->db_id = catalog_database(txn_catalog(t), slice_str("_system"))->id;
    *is_there = catalog_collection(txn_catalog(t), all->db_id, slice_str(collection_name)) != NULL;
    txn_end(t);
    return OK;
}

static enum errc make_collection(struct key_meters *all, struct error *err)
{
    struct collection_options made = { .name = slice_str(collection_name),
                                       .type = COLLECTION_DOCUMENT,
                                       .allow_user_keys = true };
    bool is_there = false;
    enum errc rc = find_collection(all, &is_there, err);
    if (rc == OK && !is_there)
        rc = store_create_collection(all->store, all->db_id, &made, NULL, err);
    return rc;
}

static enum errc begin(struct key_meters *all, struct txn **t, const struct collection **c,
                       struct error *err)
{
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT };
    enum errc rc = txn_begin(t, all->store, &opt, err);
    if (rc != OK)
        return rc;
    *c = catalog_collection(txn_catalog(*t), all->db_id, slice_str(collection_name));
    return *c ? OK : fail_num(err, 1203, "the collection %s is gone", collection_name);
}

/* Of one key; a new day takes the place of the old one. In arena. */
static struct val use_document(const struct key_meter *m, struct arena *arena)
{
    uint8_t digest[32];
    char key[33 + 24], hex[33];
    struct slice user = slice_of(m->user, m->user_len);
    hash_sha256(user.ptr, user.len, digest);
    hash_hex(digest, 16, hex);
    snprintf(key, sizeof key, "%s-%lld", hex, (long long)m->facts.id);
    struct slice names[] = { slice_str("_key"),       slice_str("user"), slice_str("token"),
                             slice_str("created_at"), slice_str("day"),  slice_str("tokens") };
    struct val values[] = {
        val_new_string(arena, slice_str(key)), val_new_string(arena, user),
        val_new_int(arena, m->facts.id),       val_new_int(arena, m->facts.created_s),
        val_new_int(arena, (int64_t)m->day),   val_new_int(arena, (int64_t)m->today)
    };
    return val_new_object(arena, names, values, ARRAY_LEN(names));
}

/* Takes what is not saved. Returns the number. */
static size_t take_unsaved(struct key_meters *all, struct arena *arena, struct val **out)
{
    size_t count = 0;
    pthread_mutex_lock(&all->lock);
    *out = arena_alloc(arena, (all->count + 1) * sizeof **out);
    for (size_t i = 0; all->is_unsaved && i < SHELVES; i++)
        for (struct key_meter *m = all->shelves[i]; m; m = m->next) {
            if (!m->is_unsaved)
                continue;
            (*out)[count++] = use_document(m, arena);
            m->is_unsaved = false;
        }
    all->is_unsaved = false;
    all->saved_us = env_mono_us(all->env);
    pthread_mutex_unlock(&all->lock);
    return count;
}

/* The next save takes all of them again. */
static void mark_unsaved(struct key_meters *all)
{
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < SHELVES; i++)
        for (struct key_meter *m = all->shelves[i]; m; m = m->next)
            m->is_unsaved |= m->today > 0;
    all->is_unsaved = true;
    pthread_mutex_unlock(&all->lock);
}

static enum errc write_all(struct key_meters *all, const struct val *docs, size_t count,
                           struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *c;
    struct doc_options opt = { .overwrite = OVERWRITE_REPLACE };
    struct doc_change change;
    TRY(make_collection(all, err));
    TRY(begin(all, &t, &c, err));
    for (size_t i = 0; i < count; i++)
        TRY(doc_insert(t, c, docs[i], &opt, arena, &change, err));
    rc = txn_commit(t, err);
out:
    txn_end(t);
    return rc;
}

enum errc key_meters_save(struct key_meters *all, struct error *err)
{
    enum errc rc = OK;
    struct arena *arena = arena_new(0);
    struct val *docs;
    pthread_mutex_lock(&all->saving);
    size_t count = take_unsaved(all, arena, &docs);
    if (count)
        rc = write_all(all, docs, count, arena, err);
    if (rc != OK)
        mark_unsaved(all);
    pthread_mutex_unlock(&all->saving);
    arena_free(arena);
    return rc;
}

bool key_meters_are_due(struct key_meters *all)
{
    pthread_mutex_lock(&all->lock);
    bool is_due = all->is_unsaved &&
                  env_mono_us(all->env) - all->saved_us >= (uint64_t)SAVE_EVERY_S * 1000000;
    pthread_mutex_unlock(&all->lock);
    return is_due;
}

static void load_one(struct key_meters *all, struct val doc)
{
    struct slice user = val_string(val_get(doc, slice_str("user")));
    int64_t id = val_int(val_get(doc, slice_str("token")));
    int64_t day = val_int(val_get(doc, slice_str("day")));
    int64_t tokens = val_int(val_get(doc, slice_str("tokens")));
    if (!user.len || user.len > USER_NAME_MAX || id <= 0 || tokens <= 0 ||
        (uint64_t)day != today_of(all))
        return;
    struct key_meter *m = find(all, user, id);
    if (!m)
        m = add(all, user, id);
    m->today = (uint64_t)tokens;
    m->facts.created_s = val_int(val_get(doc, slice_str("created_at")));
}

static enum errc load_all(struct key_meters *all, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *c;
    struct doc_iter *it = NULL;
    struct val doc;
    bool is_there = false;
    TRY(find_collection(all, &is_there, err));
    if (!is_there)
        return OK;
    TRY(begin(all, &t, &c, err));
    TRY(doc_iter_new(&it, t, c, err));
    while (doc_iter_next(it, &doc))
        load_one(all, doc);
    rc = doc_iter_check(it, err);
out:
    doc_iter_free(it);
    txn_end(t);
    return rc;
}

enum errc key_meters_open(struct key_meters **out, struct store *s, const struct env *env,
                          struct error *err)
{
    enum errc rc = OK;
    struct key_meters *all = mem_zalloc(sizeof *all);
    all->store = s;
    all->env = env;
    pthread_mutex_init(&all->saving, NULL);
    pthread_mutex_init(&all->lock, NULL);
    metric_register(&refused_total);
    TRY(load_all(all, err));
    *out = all;
    all = NULL;
out:
    key_meters_close(all);
    return rc;
}

void key_meters_close(struct key_meters *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < SHELVES; i++)
        for (struct key_meter *m = all->shelves[i], *next; m; m = next) {
            next = m->next;
            mem_free(m);
        }
    pthread_mutex_destroy(&all->lock);
    pthread_mutex_destroy(&all->saving);
    mem_free(all);
}
