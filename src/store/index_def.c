/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/catalog_private.h"

enum { MIN_LENGTH_DEFAULT = 2, MIN_LENGTH_MAX = 40 };
enum { DIMENSION_MAX = 16384, LINKS_DEFAULT = 32, LINKS_MIN = 4, LINKS_MAX = 128 };

/* What may be asked for; supported types have a kind. */
static const struct index_type {
    const char *name;
    enum index_kind kind;
    bool is_known_only; /* ArangoDB has it, we do not yet */
} types[] = {
    { "persistent", INDEX_PERSISTENT, false },
    { "hash", INDEX_PERSISTENT, false },
    { "skiplist", INDEX_PERSISTENT, false },
    { "vector", INDEX_VECTOR, false },
    { "primary", INDEX_PRIMARY, false },
    { "edge", INDEX_EDGE, false },
    { "geo", INDEX_GEO, false },
    { "fulltext", INDEX_FULLTEXT, false },
    { "ttl", INDEX_PERSISTENT, false },
    { "inverted", INDEX_PERSISTENT, true },
    { "mdi", INDEX_PERSISTENT, true },
    { "mdi-prefixed", INDEX_PERSISTENT, true },
    { "zkd", INDEX_PERSISTENT, true },
};

static const struct metric_name {
    const char *name;
    enum vector_metric metric;
} metric_names[] = {
    { "cosine", VECTOR_COSINE },
    { "l2", VECTOR_L2 },
    { "innerProduct", VECTOR_INNER_PRODUCT },
};

static struct val get(struct val v, const char *name)
{
    return val_get(v, slice_str(name));
}

static enum errc parse_type(struct index_def *out, struct val def, struct error *err)
{
    struct val type = get(def, "type");
    if (val_type(type) != VAL_STRING)
        return fail(err, ERR_INVALID, "an index needs a type, such as \"persistent\"");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (!slice_is(val_string(type), types[i].name))
            continue;
        if (types[i].is_known_only)
            return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: index type '%s'",
                        types[i].name);
        out->type = types[i].name;
        out->kind = types[i].kind;
        return OK;
    }
    return fail(err, ERR_INVALID, "unknown index type '%.*s'", SLICE_ARG(val_string(type)));
}

static enum errc parse_bool(bool *out, struct val def, const char *name, bool otherwise,
                            struct error *err)
{
    struct val v = get(def, name);
    *out = otherwise;
    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_BOOL)
        return fail(err, ERR_INVALID, "index option '%s' must be true or false", name);
    *out = val_bool(v);
    return OK;
}

/* ---- fields ---- */

enum errc field_path_parse(struct field_path *out, struct slice text, struct arena *arena,
                           struct error *err)
{
    static const char star[] = "[*]";
    size_t cap = 1, n = 0;
    for (size_t i = 0; i < text.len; i++)
        cap += text.ptr[i] == '.';
    struct slice *names = arena_alloc(arena, cap * sizeof *names);
    *out = (struct field_path){ .text = arena_copy(arena, text), .names = names };
    struct slice rest = out->text;
    if (rest.len > 3 && memcmp(rest.ptr + rest.len - 3, star, 3) == 0) {
        out->is_expanded = true;
        rest.len -= 3;
    }
    for (size_t start = 0, i = 0; i <= rest.len; i++) {
        if (i < rest.len && rest.ptr[i] != '.')
            continue;
        names[n++] = slice_of(rest.ptr + start, i - start);
        start = i + 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (names[i].len == 0 || names[i].len > LIMIT_NAME_BYTES)
            return fail_num(err, 1220, "'%.*s' is not an attribute path", SLICE_ARG(text));
        if (memchr(names[i].ptr, '[', names[i].len))
            return fail(err, ERR_NOT_IMPLEMENTED,
                        "not implemented: [*] is only possible at the end, in '%.*s'",
                        SLICE_ARG(text));
    }
    out->count = n;
    return OK;
}

static enum errc parse_paths(const struct field_path **out, size_t *count, struct val list,
                             const char *what, struct arena *arena, struct error *err)
{
    size_t n = val_count(list);
    struct field_path *paths = arena_zalloc(arena, (n + 1) * sizeof *paths);
    if (val_type(list) != VAL_ARRAY || n > LIMIT_INDEX_FIELDS)
        return fail(err, ERR_INVALID, "index option '%s' must be an array of up to %d paths", what,
                    LIMIT_INDEX_FIELDS);
    for (size_t i = 0; i < n; i++) {
        struct val v = val_at(list, i);
        if (val_type(v) != VAL_STRING)
            return fail(err, ERR_INVALID, "index option '%s' must hold strings", what);
        enum errc rc = field_path_parse(&paths[i], val_string(v), arena, err);
        if (rc != OK)
            return rc;
        for (size_t j = 0; j < i; j++)
            if (slice_eq(paths[j].text, paths[i].text))
                return fail_num(err, 1232, "index option '%s' names '%.*s' twice", what,
                                SLICE_ARG(paths[i].text));
    }
    *out = paths;
    *count = n;
    return OK;
}

static enum errc parse_fields(struct index_def *out, struct val def, struct arena *arena,
                              struct error *err)
{
    struct val stored = get(def, "storedValues");
    enum errc rc =
        parse_paths(&out->fields, &out->field_count, get(def, "fields"), "fields", arena, err);
    if (rc == OK && !val_is_null(stored))
        rc = parse_paths(&out->stored, &out->stored_count, stored, "storedValues", arena, err);
    if (rc != OK)
        return rc;
    if (out->field_count == 0)
        return fail(err, ERR_INVALID, "an index needs at least one field");
    size_t expanded = 0;
    for (size_t i = 0; i < out->field_count; i++)
        expanded += out->fields[i].is_expanded;
    if (expanded > 1)
        return fail(err, ERR_INVALID, "only one field of an index may be expanded with [*]");
    return OK;
}

/* A whole number of params, or the default. */
static enum errc parse_count(uint32_t *out, struct val params, const char *name, uint32_t otherwise,
                             struct error *err)
{
    struct val v = get(params, name);
    *out = otherwise;
    if (val_is_null(v))
        return OK;
    if (!val_is_int(v) || val_int(v) < 1 || val_int(v) > INT32_MAX)
        return fail(err, ERR_INVALID,
                    "params.%s of a vector index must be a whole number from 1 on", name);
    *out = (uint32_t)val_int(v);
    return OK;
}

/*
 * "HNSW<links>" or "HNSW<links>,Flat" sets the links of a row. What ArangoDB takes, "IVF...", is
 * kept and shown, but the segments are graphs all the same: they need no training.
 */
static enum errc parse_factory(struct index_def *out, struct val params, struct error *err)
{
    struct val v = get(params, "factory");
    struct slice text = val_string(v);
    char copy[32], *end = copy;
    unsigned long links = 0;
    out->links = LINKS_DEFAULT;
    if (val_is_null(v) || slice_starts(text, "IVF"))
        return OK;
    if (text.len < sizeof copy && slice_starts(text, "HNSW")) {
        snprintf(copy, sizeof copy, "%.*s", SLICE_ARG(text));
        links = strtoul(copy + 4, &end, 10);
    }
    if (links < LINKS_MIN || links > LINKS_MAX || (*end && strcmp(end, ",Flat") != 0))
        return fail(err, ERR_INVALID,
                    "params.factory of a vector index must be HNSW%d to HNSW%d, or IVF... as in "
                    "ArangoDB",
                    LINKS_MIN, LINKS_MAX);
    out->links = (uint32_t)links;
    return OK;
}

static enum errc parse_tuning(struct index_def *out, struct val params, struct error *err)
{
    uint32_t unused;
    enum errc rc = parse_count(&unused, params, "nLists", 1, err);
    if (rc == OK)
        rc = parse_count(&unused, params, "trainingIterations", 1, err);
    if (rc == OK)
        rc = parse_count(&out->probes, params, "defaultNProbe", 1, err);
    return rc == OK ? parse_factory(out, params, err) : rc;
}

/* Texts that the vectors are made from, and by which model. */
static enum errc parse_source(struct index_def *out, struct val params, struct arena *arena,
                              struct error *err)
{
    struct val source = get(params, "source"), model = get(params, "model");
    out->model = val_string(model);
    if (!val_is_null(model) && (val_type(model) != VAL_STRING || val_is_null(source)))
        return fail(err, ERR_INVALID,
                    "params.model of a vector index names the model for params.source");
    if (val_is_null(source))
        return OK;
    enum errc rc =
        parse_paths(&out->source, &out->source_count, source, "params.source", arena, err);
    if (rc != OK)
        return rc;
    for (size_t i = 0; i < out->source_count; i++)
        if (out->source[i].is_expanded)
            return fail(err, ERR_INVALID, "params.source names attributes, without [*]");
    return out->source_count
               ? OK
               : fail(err, ERR_INVALID, "params.source of a vector index must name attributes");
}

static enum errc parse_vector(struct index_def *out, struct val def, struct arena *arena,
                              struct error *err)
{
    struct val params = get(def, "params"), dimension = get(params, "dimension");
    struct slice name = val_string(get(params, "metric"));
    bool is_metric = false;
    if (out->field_count != 1 || out->fields[0].is_expanded)
        return fail(err, ERR_INVALID, "a vector index has exactly one field");
    if (out->is_unique)
        return fail(err, ERR_INVALID, "a vector index cannot be unique");
    for (size_t i = 0; i < ARRAY_LEN(metric_names); i++) {
        if (slice_is(name, metric_names[i].name)) {
            out->metric = metric_names[i].metric;
            is_metric = true;
        }
    }
    if (!is_metric)
        return fail(err, ERR_INVALID,
                    "params.metric of a vector index must be cosine, l2 or innerProduct");
    if (!val_is_int(dimension) || val_int(dimension) < 1 || val_int(dimension) > DIMENSION_MAX)
        return fail(err, ERR_INVALID, "params.dimension of a vector index must be 1 to %d",
                    DIMENSION_MAX);
    out->dimension = (uint32_t)val_int(dimension);
    enum errc rc = parse_tuning(out, params, err);
    return rc == OK ? parse_source(out, params, arena, err) : rc;
}

/* "ttl": over one field, without documents that lack it. */
static enum errc parse_expiry(struct index_def *out, struct val def, struct error *err)
{
    struct val after = get(def, "expireAfter");
    if (out->field_count != 1 || out->fields[0].is_expanded || out->is_unique || out->stored_count)
        return fail(err, ERR_INVALID,
                    "a ttl index has exactly one field, without [*], unique and storedValues");
    if (val_type(after) != VAL_NUMBER || !(val_double(after) >= 0 && val_double(after) <= 1e11))
        return fail(err, ERR_INVALID,
                    "expireAfter of a ttl index must be a number of seconds from 0 on");
    out->is_sparse = true;
    out->expires = true;
    out->expire_after_s = val_double(after);
    return OK;
}

/* Places and words: neither unique nor expanded, and never asked whether they are sparse. */
static enum errc parse_place(struct index_def *out, struct val def, struct error *err)
{
    bool is_geo = out->kind == INDEX_GEO;
    struct val min = get(def, "minLength");
    if (out->field_count > (is_geo ? 2 : 1) || out->fields[0].is_expanded ||
        out->fields[out->field_count - 1].is_expanded || out->stored_count)
        return fail(err, ERR_INVALID, "a %s index has %s, without [*] and storedValues",
                    is_geo ? "geo" : "fulltext",
                    is_geo ? "one field, or two: latitude and longitude" : "exactly one field");
    if (out->is_unique)
        return fail(err, ERR_INVALID, "a %s index cannot be unique", out->type);
    out->is_sparse = true;
    enum errc rc = parse_bool(&out->is_geo_json, def, "geoJson", false, err);
    if (rc != OK)
        return rc;
    if (out->is_geo_json && (!is_geo || out->field_count == 2))
        return fail(err, ERR_INVALID, "geoJson is for a geo index over one field");
    if (!is_geo && !val_is_null(min) &&
        (!val_is_int(min) || val_int(min) < 1 || val_int(min) > MIN_LENGTH_MAX))
        return fail(err, ERR_INVALID, "minLength of a fulltext index must be 1 to %d",
                    MIN_LENGTH_MAX);
    out->min_length = val_is_null(min) ? MIN_LENGTH_DEFAULT : (uint32_t)val_int(min);
    return OK;
}

enum errc index_def_parse(struct index_def *out, struct val def, struct arena *arena,
                          struct error *err)
{
    enum errc rc = OK;
    struct val name = get(def, "name");
    *out = (struct index_def){ .def = def };
    if (val_type(def) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "the definition of an index must be an object");
    TRY(parse_type(out, def, err));
    TRY(parse_bool(&out->is_unique, def, "unique", false, err));
    TRY(parse_bool(&out->is_sparse, def, "sparse", false, err));
    TRY(parse_bool(&out->deduplicate, def, "deduplicate", true, err));
    TRY(parse_fields(out, def, arena, err));
    if (out->kind == INDEX_VECTOR)
        TRY(parse_vector(out, def, arena, err));
    if (strcmp(out->type, "ttl") == 0)
        TRY(parse_expiry(out, def, err));
    if (out->kind == INDEX_GEO || out->kind == INDEX_FULLTEXT)
        TRY(parse_place(out, def, err));
    if (!val_is_null(name) && (val_type(name) != VAL_STRING || !name_is_index(val_string(name))))
        rc = fail_num(err, 1208, "an index name is 1 to %d letters, digits, _ or -, letter first",
                      LIMIT_NAME_BYTES);
    else
        out->name = val_string(name);
out:
    return rc;
}

/* ---- making ---- */

static void put_paths(struct val_builder *b, const char *name, const struct field_path *paths,
                      size_t count)
{
    val_put_name(b, slice_str(name));
    val_open_array(b);
    for (size_t i = 0; i < count; i++)
        val_put_string(b, paths[i].text);
    val_close(b);
}

static void put_bool(struct val_builder *b, const char *name, bool is_true)
{
    val_put_name(b, slice_str(name));
    val_put_bool(b, is_true);
}

static void put_rest(struct val_builder *b, const struct index_def *index)
{
    if (index->kind == INDEX_PERSISTENT)
        put_bool(b, "deduplicate", index->deduplicate);
    if (index->expires) {
        val_put_name(b, slice_str("expireAfter"));
        val_put(b, get(index->def, "expireAfter"));
    }
    if (index->kind == INDEX_GEO)
        put_bool(b, "geoJson", index->is_geo_json);
    if (index->kind == INDEX_FULLTEXT) {
        val_put_name(b, slice_str("minLength"));
        val_put_int(b, index->min_length);
    }
    if (index->stored_count)
        put_paths(b, "storedValues", index->stored, index->stored_count);
    if (index->kind == INDEX_VECTOR) {
        val_put_name(b, slice_str("params"));
        val_put(b, get(index->def, "params"));
    }
}

enum errc index_def_finish(struct index_def *index, struct arena *arena, struct error *err)
{
    if (index->name.len == 0)
        index->name = slice_str(arena_printf(arena, "idx_%" PRIu64, index->id));
    struct val_builder *b = val_builder_new(0);
    val_open_object(b);
    val_put_name(b, slice_str("type"));
    val_put_string(b, slice_str(index->type));
    val_put_name(b, slice_str("name"));
    val_put_string(b, index->name);
    put_paths(b, "fields", index->fields, index->field_count);
    put_bool(b, "unique", index->is_unique);
    put_bool(b, "sparse", index->is_sparse);
    put_rest(b, index);
    val_close(b);
    enum errc rc = val_finish_in(b, arena, &index->def, err);
    val_builder_free(b);
    return rc;
}

enum errc index_def_builtin(struct index_def *out, enum index_kind kind, struct arena *arena,
                            struct error *err)
{
    static const char *const primary_fields[] = { "_key" };
    static const char *const edge_fields[] = { "_from", "_to" };
    bool is_edge = kind == INDEX_EDGE;
    const char *const *texts = is_edge ? edge_fields : primary_fields;
    size_t count = is_edge ? 2 : 1;
    struct field_path *fields = arena_zalloc(arena, count * sizeof *fields);
    for (size_t i = 0; i < count; i++) {
        enum errc rc = field_path_parse(&fields[i], slice_str(texts[i]), arena, err);
        if (rc != OK)
            return rc;
    }
    *out = (struct index_def){ .id = is_edge ? 1 : 0,
                               .name = slice_str(is_edge ? "edge" : "primary"),
                               .kind = kind,
                               .type = is_edge ? "edge" : "primary",
                               .fields = fields,
                               .field_count = count,
                               .is_unique = !is_edge,
                               .deduplicate = true,
                               .is_ready = true };
    return index_def_finish(out, arena, err);
}

bool index_def_equal(const struct index_def *a, const struct index_def *b)
{
    if (a->kind != b->kind || a->is_unique != b->is_unique || a->is_sparse != b->is_sparse ||
        a->field_count != b->field_count || a->metric != b->metric ||
        a->is_geo_json != b->is_geo_json || a->expires != b->expires ||
        a->min_length != b->min_length || a->dimension != b->dimension || a->links != b->links ||
        a->source_count != b->source_count || !slice_eq(a->model, b->model))
        return false;
    for (size_t i = 0; i < a->source_count; i++)
        if (!slice_eq(a->source[i].text, b->source[i].text))
            return false;
    for (size_t i = 0; i < a->field_count; i++)
        if (!slice_eq(a->fields[i].text, b->fields[i].text))
            return false;
    return true;
}
