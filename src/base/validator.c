/* SPDX-License-Identifier: Apache-2.0 */
#include "base/validator.h"

#include "base/validator_make.h"

enum errc validator_new(struct validator **out, struct val rule, struct error *err)
{
    *out = NULL;
    if (val_type(rule) != VAL_OBJECT)
        return fail_num(err, 1621, "a schema must be an object, not %s",
                        val_type_name(val_type(rule)));
    if (val_size(rule) > VALIDATOR_BYTES_MAX)
        return fail_num(err, 1621, "the schema is larger than %d bytes", VALIDATOR_BYTES_MAX);
    struct validator *s = mem_zalloc(sizeof *s);
    s->arena = arena_new(0);
    s->rule = val_copy(s->arena, rule);
    struct maker m = { .schema = s, .err = err };
    enum errc rc = validator_make(&m);
    if (rc == OK)
        *out = s;
    else
        validator_free(s);
    return rc;
}

void validator_free(struct validator *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->pattern_count; i++)
        pattern_free(s->patterns[i]);
    arena_free(s->arena);
    mem_free(s);
}

struct val validator_rule(const struct validator *s)
{
    return s->rule;
}

/* ---- the property of a collection ---- */

static const char *const level_names[] = { "none", "new", "moderate", "strict" };

static enum errc read_level(enum validator_level *out, struct val v, struct error *err)
{
    *out = VALIDATOR_STRICT;
    if (val_is_null(v))
        return OK;
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (val_type(v) == VAL_STRING && slice_is(val_string(v), level_names[i])) {
            *out = (enum validator_level)i;
            return OK;
        }
    }
    return fail_num(err, 1621, "level of a schema must be none, new, moderate or strict");
}

enum errc validator_def_read(struct validator_def *out, struct val def, struct error *err)
{
    static const char *const known[] = { "rule", "level", "message", "type" };
    struct val message = val_get(def, slice_str("message"));
    struct val type = val_get(def, slice_str("type"));

    if (val_type(def) != VAL_OBJECT)
        return fail_num(err, 1621, "schema must be an object with a rule, not %s",
                        val_type_name(val_type(def)));
    for (size_t i = 0; i < val_count(def); i++) {
        size_t k = 0;
        while (k < ARRAY_LEN(known) && !slice_is(val_name_at(def, i), known[k]))
            k++;
        if (k == ARRAY_LEN(known))
            return fail_num(err, 1621, "a schema has rule, level, message and type, not '%.*s'",
                            SLICE_ARG(val_name_at(def, i)));
    }
    *out = (struct validator_def){ .rule = val_get(def, slice_str("rule")),
                                   .message = val_string(message) };
    if (val_type(out->rule) != VAL_OBJECT)
        return fail_num(err, 1621, "rule of a schema must be an object, not %s",
                        val_type_name(val_type(out->rule)));
    if (!val_is_null(message) && val_type(message) != VAL_STRING)
        return fail_num(err, 1621, "message of a schema must be a string");
    if (!val_is_null(type) && !slice_is(val_string(type), "json"))
        return fail_num(err, 1621, "type of a schema must be \"json\"");
    return read_level(&out->level, val_get(def, slice_str("level")), err);
}

struct val validator_def_show(const struct validator_def *def, struct arena *arena)
{
    struct slice names[] = { slice_str("message"), slice_str("level"), slice_str("type"),
                             slice_str("rule") };
    struct val values[] = { val_new_string(arena, def->message),
                            val_new_string(arena, slice_str(level_names[def->level])),
                            val_new_string(arena, slice_str("json")), def->rule };

    return val_new_object(arena, names, values, ARRAY_LEN(names));
}
