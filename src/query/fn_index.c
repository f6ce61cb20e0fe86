/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are asked of an index: FULLTEXT, NEAR, WITHIN, WITHIN_RECTANGLE. They give
 * arrays of documents, so the memory of the query limits them.
 */
#include "base/geo.h"
#include "base/words.h"
#include "query/fn_support.h"
#include "store/index.h"
#include <math.h>
#include <stdlib.h>

enum { TERMS_MAX = 100, NEAR_DEFAULT = 100 };

static const struct collection *find_collection(struct fn_call *call, enum errc *rc)
{
    struct slice name = fn_text_arg(call, 0);
    const struct collection *c =
        call->txn ? catalog_collection(txn_catalog(call->txn), call->db_id, name) : NULL;

    *rc = c ? OK : fail_num(call->err, 1203, "collection or view not found: %.*s", SLICE_ARG(name));
    return c;
}

/* ---- FULLTEXT ---- */

/* Keys of documents, each once, and whether a later term had them too. */
struct keys {
    struct slice *at;
    size_t count, cap;
};

static void keys_add(struct keys *k, struct arena *arena, struct slice key)
{
    if (k->count == k->cap) {
        size_t cap = k->cap ? k->cap * 2 : 64;
        struct slice *more = arena_alloc(arena, cap * sizeof *more);
        if (k->count)
            memcpy(more, k->at, k->count * sizeof *more);
        k->at = more;
        k->cap = cap;
    }
    k->at[k->count++] = arena_copy(arena, key);
}

static int compare_keys(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Both sorted; op '+' common ones, '|' all of them, '-' those that only a has. */
static void combine(struct keys *a, const struct keys *b, char op, struct arena *arena)
{
    struct keys out = { 0 };
    size_t i = 0, j = 0;

    while (i < a->count || j < b->count) {
        int c = i == a->count ? 1 : j == b->count ? -1 : slice_cmp(a->at[i], b->at[j]);
        if ((c < 0 && op != '+') || (c == 0 && op != '-'))
            keys_add(&out, arena, a->at[i]);
        else if (c > 0 && op == '|')
            keys_add(&out, arena, b->at[j]);
        i += c <= 0;
        j += c >= 0;
    }
    *a = out;
}

struct term {
    char op;
    bool is_prefix;
    struct slice word;
};

static void strip(struct slice *s)
{
    while (s->len && s->ptr[0] == ' ')
        *s = slice_of(s->ptr + 1, s->len - 1);
    while (s->len && s->ptr[s->len - 1] == ' ')
        s->len--;
}

/* "[+|-][prefix:|complete:]word"; false when no word is there. */
static bool read_term(struct fn_call *call, struct slice s, struct term *t)
{
    static const char prefix[] = "prefix:", complete[] = "complete:";
    struct buf word;

    *t = (struct term){ .op = '+' };
    strip(&s);
    if (s.len && strchr("+|-", s.ptr[0])) {
        t->op = s.ptr[0];
        s = slice_of(s.ptr + 1, s.len - 1);
        strip(&s);
    }
    t->is_prefix = slice_starts(s, prefix);
    if (t->is_prefix || slice_starts(s, complete)) {
        size_t skip = t->is_prefix ? sizeof prefix - 1 : sizeof complete - 1;
        s = slice_of(s.ptr + skip, s.len - skip);
        strip(&s);
    }
    buf_init(&word, 0);
    words_fold(s, &word);
    t->word = arena_copy(call->arena, buf_slice(&word));
    buf_release(&word);
    return t->word.len > 0;
}

static enum errc find_word(struct fn_call *call, const struct collection *c,
                           const struct index_def *index, const struct term *t, struct keys *out)
{
    struct index_iter *it;
    struct slice key;
    enum errc rc = index_scan_words(&it, call->txn, c, index, t->word, t->is_prefix, call->err);

    if (rc != OK)
        return rc;
    while (rc == OK && index_iter_next(it, &key)) {
        keys_add(out, call->arena, key);
        if (out->count % 1024 == 0)
            rc = arena_check(call->arena, call->err);
    }
    if (rc == OK)
        rc = index_iter_check(it, call->err);
    index_iter_free(it);
    if (out->count)
        qsort(out->at, out->count, sizeof *out->at, compare_keys);
    return rc;
}

static enum errc search(struct fn_call *call, const struct collection *c,
                        const struct index_def *index, struct slice text, struct keys *out)
{
    enum errc rc = OK;
    int terms = 0;

    for (size_t from = 0, i = 0; rc == OK && i <= text.len; i++) {
        struct term t;
        struct keys found = { 0 };
        if (i < text.len && text.ptr[i] != ',')
            continue;
        struct slice part = slice_of(text.ptr + from, i - from);
        bool is_term = read_term(call, part, &t);
        from = i + 1;
        strip(&part);
        if (!is_term && part.len)
            return fail_num(call->err, 10, "'%.*s' in a fulltext query has no word",
                            SLICE_ARG(part));
        if (!is_term)
            continue;
        if (++terms > TERMS_MAX)
            return fail_num(call->err, 10, "a fulltext query has at most %d words", TERMS_MAX);
        rc = find_word(call, c, index, &t, &found);
        if (rc == OK)
            combine(out, &found, terms == 1 ? '|' : t.op, call->arena);
        if (rc == OK)
            rc = arena_check(call->arena, call->err);
    }
    return rc;
}

static enum errc fetch(struct fn_call *call, const struct collection *c, const struct slice *keys,
                       size_t count)
{
    struct val *items = fn_room(call, count);
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        enum errc rc = doc_get(call->txn, c, keys[i], call->arena, &items[n], call->err);
        if (rc != OK && rc != ERR_NOT_FOUND)
            return rc;
        n += rc == OK;
        rc = arena_check(call->arena, call->err);
        if (rc != OK)
            return rc;
    }
    return fn_return(call, val_new_array(call->arena, items, n));
}

static enum errc fn_fulltext(struct fn_call *call)
{
    enum errc rc;
    struct slice field = fn_text_arg(call, 1);
    struct keys keys = { 0 };
    int64_t limit = val_is_null(fn_arg(call, 3)) ? INT64_MAX : fn_int_arg(call, 3);
    const struct index_def *index = NULL;
    const struct collection *c = find_collection(call, &rc);

    if (!c)
        return rc;
    if (!fn_is(call, 2, VAL_STRING))
        return fn_bad_arg(call, 2, "a string of words");
    for (size_t i = 0; !index && i < c->index_count; i++)
        if (c->indexes[i].kind == INDEX_FULLTEXT && c->indexes[i].is_ready &&
            slice_eq(c->indexes[i].fields[0].text, field))
            index = &c->indexes[i];
    if (!index)
        return fail_num(call->err, 1571, "no suitable fulltext index on '%.*s' of '%.*s'",
                        SLICE_ARG(field), SLICE_ARG(c->name));
    rc = search(call, c, index, val_string(call->args[2]), &keys);
    if (rc != OK)
        return rc;
    if (limit < 0)
        return fn_bad_arg(call, 3, "a number of documents");
    return fetch(call, c, keys.at, (size_t)limit < keys.count ? (size_t)limit : keys.count);
}

/* ---- NEAR, WITHIN, WITHIN_RECTANGLE ---- */

struct found {
    double metres;
    struct slice key;
};

struct search_area {
    const struct collection *c;
    const struct index_def *index;
    struct geo_vec centre;
    double metres;
    bool is_rectangle;
    double south, west, north, east;
};

static enum errc find_geo(struct fn_call *call, struct search_area *a)
{
    enum errc rc;

    a->c = find_collection(call, &rc);
    for (size_t i = 0; a->c && !a->index && i < a->c->index_count; i++)
        if (a->c->indexes[i].kind == INDEX_GEO && a->c->indexes[i].is_ready)
            a->index = &a->c->indexes[i];
    if (a->c && !a->index)
        return fail_num(call->err, 1570, "no suitable geo index on '%.*s'", SLICE_ARG(a->c->name));
    return rc;
}

static bool is_in_rectangle(const struct search_area *a, struct geo_vec at)
{
    double lat = geo_lat(at), lng = geo_lng(at);

    return lat >= a->south && lat <= a->north &&
           (a->west <= a->east ? lng >= a->west && lng <= a->east
                               : lng >= a->west || lng <= a->east);
}

/* Is the document there? */
static enum errc look_at(struct fn_call *call, const struct search_area *a, struct slice key,
                         double *metres, bool *is_there)
{
    struct arena_mark mark = arena_mark(call->arena);
    struct geo_shape shape;
    struct val doc;
    enum errc rc = doc_get(call->txn, a->c, key, call->arena, &doc, call->err);

    *is_there = false;
    if (rc == OK && index_geo_shape(a->index, doc, call->arena, &shape)) {
        struct geo_vec at = geo_centroid(&shape);
        *metres = geo_distance(a->centre, at);
        *is_there = a->is_rectangle ? is_in_rectangle(a, at) : *metres <= a->metres;
    }
    arena_rewind(call->arena, mark);
    return rc == ERR_NOT_FOUND ? OK : rc;
}

static enum errc gather(struct fn_call *call, const struct search_area *a, struct arena *kept,
                        struct found **out, size_t *count)
{
    struct geo_cap cap = { a->centre, fmin(a->metres / GEO_RADIUS_M, M_PI) };
    struct index_iter *it;
    struct slice key;
    size_t room = 0;
    bool is_there;
    double metres = 0;
    enum errc rc = index_scan_geo(&it, call->txn, a->c, a->index, cap, false, call->err);

    *count = 0;
    if (rc != OK)
        return rc;
    while (rc == OK && index_iter_next(it, &key)) {
        rc = look_at(call, a, key, &metres, &is_there);
        if (rc != OK || !is_there)
            continue;
        if (*count == room) {
            room = room ? room * 2 : 64;
            struct found *more = arena_alloc(kept, room * sizeof *more);
            if (*count)
                memcpy(more, *out, *count * sizeof *more);
            *out = more;
        }
        (*out)[(*count)++] = (struct found){ metres, arena_copy(kept, key) };
        if (*count % 1024 == 0)
            rc = arena_check(kept, call->err);
    }
    if (rc == OK)
        rc = index_iter_check(it, call->err);
    index_iter_free(it);
    return rc;
}

static int compare_found(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->metres < y->metres ? -1 : x->metres > y->metres ? 1 : slice_cmp(x->key, y->key);
}

/* The documents in order, with their distances when an attribute is named for them. */
static enum errc answer(struct fn_call *call, const struct search_area *a, struct found *found,
                        size_t count, int name_at)
{
    struct slice name = name_at ? fn_text_arg(call, name_at) : slice_str("");
    struct val *items = fn_room(call, count);

    for (size_t i = 0; i < count; i++) {
        struct val metres = val_new_double(call->arena, found[i].metres);
        enum errc rc = doc_get(call->txn, a->c, found[i].key, call->arena, &items[i], call->err);
        if (rc == OK && name.len)
            items[i] =
                val_merge(call->arena, items[i], val_new_object(call->arena, &name, &metres, 1));
        if (rc == OK)
            rc = arena_check(call->arena, call->err);
        if (rc != OK)
            return rc;
    }
    return fn_return(call, val_new_array(call->arena, items, count));
}

static bool read_numbers(struct fn_call *call, int count, double *out)
{
    for (int i = 0; i < count; i++) {
        if (!fn_is(call, i + 1, VAL_NUMBER)) {
            fn_bad_arg(call, i + 1, "a number");
            return false;
        }
        out[i] = fn_number_arg(call, i + 1);
    }
    return true;
}

/* Everything in the area, nearest first, at most limit. */
static enum errc around(struct fn_call *call, struct search_area *a, size_t limit, int name_at)
{
    struct arena *kept = arena_child(call->arena);
    struct found *found = NULL;
    size_t count;
    enum errc rc = gather(call, a, kept, &found, &count);

    if (rc == OK && count)
        qsort(found, count, sizeof *found, compare_found);
    if (rc == OK)
        rc = answer(call, a, found, count < limit ? count : limit, name_at);
    arena_free(kept);
    return rc;
}

static enum errc fn_near_point(struct fn_call *call)
{
    struct search_area a = { .metres = M_PI * GEO_RADIUS_M };
    double n[2];
    enum errc rc = find_geo(call, &a);
    int64_t limit = val_is_null(fn_arg(call, 3)) ? NEAR_DEFAULT : fn_int_arg(call, 3);

    if (rc != OK || !read_numbers(call, 2, n))
        return rc;
    if (limit < 0)
        return fn_bad_arg(call, 3, "a number of documents");
    a.centre = geo_at(n[1], n[0]);
    return around(call, &a, (size_t)limit, 4);
}

static enum errc fn_within(struct fn_call *call)
{
    struct search_area a = { 0 };
    double n[3];
    enum errc rc = find_geo(call, &a);

    if (rc != OK || !read_numbers(call, 3, n))
        return rc;
    a.centre = geo_at(n[1], n[0]);
    a.metres = fmax(n[2], 0);
    return around(call, &a, SIZE_MAX, 4);
}

static enum errc fn_within_rectangle(struct fn_call *call)
{
    struct search_area a = { .is_rectangle = true, .metres = M_PI * GEO_RADIUS_M };
    double n[4];
    enum errc rc = find_geo(call, &a);

    if (rc != OK || !read_numbers(call, 4, n))
        return rc;
    a.south = fmin(n[0], n[2]);
    a.north = fmax(n[0], n[2]);
    a.west = n[1];
    a.east = n[3];
    double width = a.east < a.west ? a.east - a.west + 360 : a.east - a.west;
    a.centre = geo_at(a.west + width / 2, (a.south + a.north) / 2);
    if (width < 180) /* a disc around all corners; parallels bulge towards the poles */
        a.metres = 0;
    for (int i = 0; i < 6 && width < 180; i++) {
        struct geo_vec corner = geo_at(a.west + width * (i % 3) / 2, i < 3 ? a.south : a.north);
        a.metres = fmax(a.metres, geo_distance(a.centre, corner) * 1.001 + 1);
    }
    return around(call, &a, SIZE_MAX, 0);
}

const struct fn fn_index[] = {
    { "FULLTEXT", 3, 4, "", FN_READS | FN_NAMES, fn_fulltext,
      "Documents with words, by a fulltext index: \"a,prefix:b,|c,-d\"." },
    { "NEAR", 3, 5, "", FN_READS | FN_NAMES, fn_near_point,
      "Documents nearest to a latitude and longitude, by a geo index." },
    { "WITHIN", 4, 5, "", FN_READS | FN_NAMES, fn_within,
      "Documents within so many metres, by a geo index." },
    { "WITHIN_RECTANGLE", 5, 5, "", FN_READS | FN_NAMES, fn_within_rectangle,
      "Documents between two latitudes and longitudes, by a geo index." },
    { 0 },
};
