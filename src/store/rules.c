/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computed values first, then the schema, which sees them. An expression sees the document without
 * what the others compute.
 *
 * Two writers may compile the same rules at once; the second finds the first one's and frees its
 * own.
 */
#include "store/rules.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/validator.h"
#include "store/compute.h"

static struct metric refused =
    METRIC_COUNTER("themis_schema_refused_total", "Documents that a schema refused.");
static struct metric warnings =
    METRIC_COUNTER("themis_computed_warnings_total", "Warnings of expressions of computed values.");

struct computed {
    struct slice name;
    struct slice expression;
    unsigned events;
    bool overwrites, fails_on_warning, keeps_null;
    void *program; /* owned; NULL in a definition */
};

struct compiled {
    struct validator *schema; /* owned; NULL without, or with level none */
    struct validator_def def;
    struct computed *computed; /* owned */
    size_t count;
    unsigned events;               /* of any of them */
    const struct compute *compute; /* frees the programs */
};

struct rules {
    struct val schema, computed;
    struct compiled *_Atomic compiled; /* owned; NULL before the first write */
    atomic_bool has_warned;
};

static const struct {
    const char *name;
    enum rules_event event;
} events[] = { { "insert", RULES_INSERT },
               { "update", RULES_UPDATE },
               { "replace", RULES_REPLACE } };

static bool is_none(struct val v)
{
    return val_is_null(v) || (val_type(v) >= VAL_ARRAY && !val_count(v));
}

/* ---- definitions ---- */

enum errc rules_read_schema(struct val given, struct arena *arena, struct val *out,
                            struct error *err)
{
    struct validator_def def;
    struct validator *schema = NULL;

    *out = val_null;
    if (val_is_null(given) || (val_type(given) == VAL_OBJECT && !val_count(given)))
        return OK;
    enum errc rc = validator_def_read(&def, given, err);
    if (rc == OK)
        rc = validator_new(&schema, def.rule, err);
    validator_free(schema);
    if (rc == OK)
        *out = validator_def_show(&def, arena);
    return rc;
}

static enum errc fail_entry(struct error *err, struct slice name, const char *what)
{
    return fail(err, ERR_INVALID, "invalid 'computedValues' entry '%.*s': %s",
                name.len > 60 ? 60 : (int)name.len, name.len ? name.ptr : "", what);
}

static enum errc check_known(struct val entry, struct slice name, struct error *err)
{
    static const char *const known[] = { "name",      "expression",    "overwrite",
                                         "computeOn", "failOnWarning", "keepNull" };

    for (size_t i = 0; i < val_count(entry); i++) {
        size_t k = 0;
        while (k < ARRAY_LEN(known) && !slice_is(val_name_at(entry, i), known[k]))
            k++;
        if (k == ARRAY_LEN(known))
            return fail_entry(err, name, "it has an unknown attribute");
    }
    return OK;
}

static enum errc read_flag(struct val entry, const char *flag, bool otherwise, struct slice name,
                           bool *out, struct error *err)
{
    struct val v;

    *out = otherwise;
    if (!val_find(entry, slice_str(flag), &v))
        return OK;
    *out = val_bool(v);
    return val_type(v) == VAL_BOOL
               ? OK
               : fail_entry(err, name, "'failOnWarning' and 'keepNull' must be true or false");
}

static enum errc read_events(struct val entry, struct computed *out, struct error *err)
{
    struct val on;

    if (!val_find(entry, slice_str("computeOn"), &on)) {
        out->events = RULES_INSERT | RULES_UPDATE | RULES_REPLACE;
        return OK;
    }
    for (size_t i = 0; i < val_count(on); i++) {
        size_t k = 0;
        while (k < ARRAY_LEN(events) && !slice_is(val_string(val_at(on, i)), events[k].name))
            k++;
        if (k == ARRAY_LEN(events))
            return fail_entry(err, out->name, "'computeOn' has insert, update and replace");
        out->events |= events[k].event;
    }
    if (val_type(on) != VAL_ARRAY || !out->events)
        return fail_entry(err, out->name, "'computeOn' must be an array that is not empty");
    return OK;
}

static enum errc read_name(struct val entry, struct computed *out, struct error *err)
{
    static const char *const system[] = { "_key", "_id", "_rev", "_from", "_to" };

    out->name = val_string(val_get(entry, slice_str("name")));
    if (!out->name.len || out->name.len > LIMIT_NAME_BYTES)
        return fail_entry(err, out->name, "'name' must be a string of 1 to 256 bytes");
    for (size_t i = 0; i < ARRAY_LEN(system); i++)
        if (slice_is(out->name, system[i]))
            return fail_entry(err, out->name, "this attribute cannot be computed");
    return OK;
}

static enum errc read_entry(struct val entry, struct computed *out, struct error *err)
{
    enum errc rc = OK;
    struct val expression = val_get(entry, slice_str("expression"));
    struct val overwrite = val_get(entry, slice_str("overwrite"));

    *out = (struct computed){ .overwrites = val_bool(overwrite),
                              .expression = val_string(expression) };
    if (val_type(entry) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "an entry of 'computedValues' must be an object");
    TRY(read_name(entry, out, err));
    TRY(check_known(entry, out->name, err));
    if (val_type(overwrite) != VAL_BOOL)
        return fail_entry(err, out->name, "'overwrite' must be true or false");
    TRY(read_events(entry, out, err));
    if (val_type(expression) != VAL_STRING || out->expression.len > COMPUTED_TEXT_MAX)
        return fail_entry(err, out->name, "'expression' must be a string of at most 64 KiB");
    TRY(read_flag(entry, "failOnWarning", false, out->name, &out->fails_on_warning, err));
    TRY(read_flag(entry, "keepNull", true, out->name, &out->keeps_null, err));
out:
    return rc;
}

static enum errc compile_entry(const struct compute *compute, const struct store *s,
                               struct computed *c, struct error *err)
{
    enum errc rc = compute->compile(c->expression, s->collator, s->env, &c->program, err);

    return rc == OK ? OK
                    : wrap(err, "invalid 'computedValues' entry '%.*s'",
                           c->name.len > 60 ? 60 : (int)c->name.len, c->name.ptr);
}

/* Fills list, which has room for all; compiles each. */
static enum errc read_entries(struct store *s, struct val given, struct computed *list,
                              struct error *err)
{
    enum errc rc = OK;

    if (!s->compute)
        return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: computedValues without queries");
    for (size_t i = 0; rc == OK && i < val_count(given); i++) {
        rc = read_entry(val_at(given, i), &list[i], err);
        for (size_t k = 0; rc == OK && k < i; k++)
            if (slice_eq(list[k].name, list[i].name))
                rc = fail_entry(err, list[i].name, "there is another one with this name");
        if (rc == OK)
            rc = compile_entry(s->compute, s, &list[i], err);
    }
    return rc;
}

static struct val show_events(const struct computed *c, struct arena *arena)
{
    struct val items[ARRAY_LEN(events)];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (c->events & events[i].event)
            items[n++] = val_new_string(arena, slice_str(events[i].name));
    return val_new_array(arena, items, n);
}

static struct val show_entry(const struct computed *c, struct arena *arena)
{
    struct slice names[] = { slice_str("name"),          slice_str("expression"),
                             slice_str("computeOn"),     slice_str("overwrite"),
                             slice_str("failOnWarning"), slice_str("keepNull") };
    struct val values[] = { val_new_string(arena, c->name),
                            val_new_string(arena, c->expression),
                            show_events(c, arena),
                            val_new_bool(c->overwrites),
                            val_new_bool(c->fails_on_warning),
                            val_new_bool(c->keeps_null) };

    return val_new_object(arena, names, values, ARRAY_LEN(names));
}

static void free_programs(const struct compute *compute, struct computed *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].program)
            compute->release(list[i].program);
}

enum errc rules_read_computed(struct store *s, struct val given, struct arena *arena,
                              struct val *out, struct error *err)
{
    size_t count = val_count(given);

    *out = val_null;
    if (val_is_null(given) || (val_type(given) == VAL_ARRAY && !count))
        return OK;
    if (val_type(given) != VAL_ARRAY)
        return fail(err, ERR_INVALID, "'computedValues' must be an array, not %s",
                    val_type_name(val_type(given)));
    if (count > COMPUTED_MAX)
        return fail(err, ERR_INVALID, "'computedValues' has more than %d entries", COMPUTED_MAX);
    struct computed *list = arena_zalloc(arena, count * sizeof *list);
    struct val *shown = arena_alloc(arena, count * sizeof *shown);
    enum errc rc = read_entries(s, given, list, err);
    for (size_t i = 0; rc == OK && i < count; i++)
        shown[i] = show_entry(&list[i], arena);
    free_programs(s->compute, list, count);
    if (rc == OK)
        *out = val_new_array(arena, shown, count);
    return rc;
}

/* ---- compiling ---- */

struct rules *rules_new(struct val schema, struct val computed)
{
    if (is_none(schema) && is_none(computed))
        return NULL;
    struct rules *r = mem_zalloc(sizeof *r);
    r->schema = schema;
    r->computed = computed;
    return r;
}

static void compiled_free(struct compiled *k)
{
    if (!k)
        return;
    free_programs(k->compute, k->computed, k->count);
    mem_free(k->computed);
    validator_free(k->schema);
    mem_free(k);
}

void rules_free(struct rules *r)
{
    if (!r)
        return;
    compiled_free(atomic_load(&r->compiled));
    mem_free(r);
}

static enum errc compile(const struct rules *r, struct store *s, struct compiled *k,
                         struct error *err)
{
    enum errc rc = OK;

    k->compute = s->compute;
    if (!is_none(r->schema)) {
        TRY(validator_def_read(&k->def, r->schema, err));
        if (k->def.level != VALIDATOR_NONE)
            TRY(validator_new(&k->schema, k->def.rule, err));
    }
    if (is_none(r->computed))
        return OK;
    k->count = val_count(r->computed);
    k->computed = mem_zalloc(k->count * sizeof *k->computed);
    TRY(read_entries(s, r->computed, k->computed, err));
    for (size_t i = 0; i < k->count; i++)
        k->events |= k->computed[i].events;
out:
    return rc;
}

/* What cannot be compiled any more refuses all writes: it was accepted once, and still counts. */
static enum errc compiled_rules(struct rules *r, struct store *s, const struct collection *c,
                                const struct compiled **out, struct error *err)
{
    struct compiled *ready = atomic_load(&r->compiled), *expected = NULL;

    if (!ready) {
        ready = mem_zalloc(sizeof *ready);
        enum errc rc = compile(r, s, ready, err);
        if (rc != OK) {
            compiled_free(ready);
            return wrap(err, "the rules of collection '%.*s'", SLICE_ARG(c->name));
        }
        if (!atomic_compare_exchange_strong(&r->compiled, &expected, ready)) {
            compiled_free(ready);
            ready = expected;
        }
    }
    *out = ready;
    return OK;
}

/* ---- computed values ---- */

struct evaluation {
    struct rules *rules;
    const struct collection *collection;
    const struct computed *value;
    int num; /* of the first warning that counts as an error */
    char text[160];
};

static void on_warning(void *ctx, int num, const char *text)
{
    struct evaluation *e = ctx;

    if (e->value->fails_on_warning) {
        if (!e->num)
            snprintf(e->text, sizeof e->text, "%s", text);
        e->num = e->num ? e->num : num;
        return;
    }
    metric_add(&warnings, 1);
    if (!atomic_exchange(&e->rules->has_warned, true))
        log_warn("store",
                 "the computed value for attribute '%.*s' of collection '%.*s': %s "
                 "(further warnings of this collection are only counted)",
                 SLICE_ARG(e->value->name), SLICE_ARG(e->collection->name), text);
}

static enum errc evaluate(struct txn *t, struct evaluation *e, const struct compute *compute,
                          struct val doc, struct val *out, struct error *err)
{
    struct compute_call call = { .doc = doc,
                                 .collator = t->store->collator,
                                 .env = t->store->env,
                                 .arena = txn_scratch(t),
                                 .warn = on_warning,
                                 .ctx = e };
    enum errc rc = compute->run(e->value->program, &call, out, err);

    if (rc == OK)
        rc = arena_check(call.arena, err);
    if (rc == OK && e->num)
        rc = fail_num(err, e->num, "%s", e->text);
    return rc == OK ? OK
                    : wrap(err, "the computed value for attribute '%.*s' of collection '%.*s'",
                           SLICE_ARG(e->value->name), SLICE_ARG(e->collection->name));
}

/* Which values come into the document: list has room for all, VAL_NONE where one does not. */
static enum errc compute_all(struct txn *t, const struct collection *c, const struct compiled *k,
                             enum rules_event event, struct val doc, struct val *list,
                             bool *changes, struct error *err)
{
    struct val unused;

    *changes = false;
    for (size_t i = 0; i < k->count; i++) {
        const struct computed *value = &k->computed[i];
        list[i] = VAL_NONE;
        if (!(value->events & event) || (!value->overwrites && val_find(doc, value->name, &unused)))
            continue;
        struct evaluation e = { .rules = c->rules, .collection = c, .value = value };
        enum errc rc = evaluate(t, &e, k->compute, doc, &list[i], err);
        if (rc != OK)
            return rc;
        if (!list[i].at)
            list[i] = val_null;
        *changes = true;
    }
    return OK;
}

static const struct computed *overwriting(const struct compiled *k, const struct val *list,
                                          struct slice name)
{
    for (size_t i = 0; i < k->count; i++)
        if (list[i].at && slice_eq(k->computed[i].name, name))
            return &k->computed[i];
    return NULL;
}

static enum errc add_computed(struct txn *t, const struct collection *c, const struct compiled *k,
                              enum rules_event event, struct arena *arena, struct val *doc,
                              struct error *err)
{
    struct val list[COMPUTED_MAX];
    bool changes;
    enum errc rc = compute_all(t, c, k, event, *doc, list, &changes, err);

    if (rc != OK || !changes)
        return rc;
    struct val_builder *b = txn_builder(t);
    val_open_object(b);
    for (size_t i = 0; i < val_count(*doc); i++) {
        if (overwriting(k, list, val_name_at(*doc, i)))
            continue;
        val_put_name(b, val_name_at(*doc, i));
        val_put(b, val_at(*doc, i));
    }
    for (size_t i = 0; i < k->count; i++) {
        if (!list[i].at || (val_is_null(list[i]) && !k->computed[i].keeps_null))
            continue;
        val_put_name(b, k->computed[i].name);
        val_put(b, list[i]);
    }
    val_close(b);
    rc = val_finish_in(b, arena, doc, err);
    return rc == OK ? doc_check_limits(*doc, err) : rc;
}

/* ---- the schema ---- */

static enum errc check_schema(const struct compiled *k, enum rules_event event, struct val old,
                              struct val doc, struct error *err)
{
    bool is_valid, was_valid;
    struct error unused;

    if (!k->schema || (k->def.level == VALIDATOR_NEW && event != RULES_INSERT))
        return OK;
    enum errc rc = validator_check(k->schema, doc, &is_valid, err);
    if (rc != OK || is_valid)
        return rc;
    if (k->def.level == VALIDATOR_MODERATE && event != RULES_INSERT &&
        validator_check(k->schema, old, &was_valid, &unused) == OK && !was_valid)
        return OK;
    metric_add(&refused, 1);
    struct slice message = k->def.message;
    if (!message.len)
        message = slice_str(errnum_text(1620));
    return fail_num(err, 1620, "%.*s", SLICE_ARG(message));
}

enum errc rules_apply(struct txn *t, const struct collection *c, enum rules_event event,
                      struct val old, struct arena *arena, struct val *doc, struct error *err)
{
    const struct compiled *k = NULL;

    if (!c->rules)
        return OK;
    enum errc rc = compiled_rules(c->rules, t->store, c, &k, err);
    if (rc == OK && (k->events & event))
        rc = add_computed(t, c, k, event, arena, doc, err);
    return rc == OK ? check_schema(k, event, old, *doc, err) : rc;
}
