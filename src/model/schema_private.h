/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_private -- a schema on its way to a grammar: what the writers of the types share.
 */
#ifndef MODEL_SCHEMA_PRIVATE_H
#define MODEL_SCHEMA_PRIVATE_H

#include "model/schema.h"

enum { REFS_MAX = 1024, REPEATS_MAX = 10000 };

struct ref {
    const uint8_t *target;
    uint32_t rule;
};

struct schema_writer {
    struct buf *out;
    struct val root;
    struct arena *arena;
    struct buf path; /* of the schema at hand: "#/properties/a" */
    struct ref refs[REFS_MAX];
    size_t ref_count;
    uint32_t rules, nodes;
    unsigned depth;
    bool is_lenient, is_too_large; /* a limit was met: refused also when lenient */
    struct error *err;
};

/* ERR_INVALID with the place in the schema in front. */
enum errc schema_refuse(struct schema_writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

struct val schema_get(struct val s, const char *name);
bool schema_has(struct val s, const char *name);
/* A number of characters or items; def when it is absent. */
MUST_CHECK enum errc schema_size(struct schema_writer *w, struct val s, const char *name,
                                 uint32_t def, uint32_t *out);
/* The value as compact JSON, as a literal. */
void schema_put_value(struct schema_writer *w, struct val v);

/* Writes the schema at path/step/name (step may be NULL) or path/step/i; its rule is s*rule. */
MUST_CHECK enum errc schema_inner(struct schema_writer *w, const char *step, struct slice name,
                                  struct val s, uint32_t *rule);
MUST_CHECK enum errc schema_item(struct schema_writer *w, const char *step, size_t i, struct val s,
                                 uint32_t *rule);

/* The rule s<rule> for a schema of this type. */
MUST_CHECK enum errc schema_write_number(struct schema_writer *w, struct val s, bool is_whole,
                                         uint32_t rule);
MUST_CHECK enum errc schema_write_string(struct schema_writer *w, struct val s, uint32_t rule);
MUST_CHECK enum errc schema_write_array(struct schema_writer *w, struct val s, uint32_t rule);
MUST_CHECK enum errc schema_write_object(struct schema_writer *w, struct val s, uint32_t rule);

#endif
