/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema -- from JSON Schema to GBNF: a grammar whose texts are JSON that the schema allows.
 *
 * Pure. What cannot be said in a grammar is refused with the keyword and its place in the schema;
 * nothing is ignored but annotations (title, description, default, examples, ...). Objects have
 * their members in the order of "properties"; members that are not listed appear only with
 * additionalProperties. Text between values is short, so that a model does not get lost in it.
 */
#ifndef MODEL_SCHEMA_H
#define MODEL_SCHEMA_H

#include "base/buf.h"
#include "base/val.h"

enum {
    SCHEMA_NODES_MAX = 4096,      /* schemas in a schema */
    SCHEMA_DEPTH_MAX = 64,        /* in each other, references followed */
    SCHEMA_VALUES_MAX = 4096,     /* of one enum */
    SCHEMA_BYTES_MAX = 256 * KIB, /* of the schema as a value */
};

/*
 * Several schemas in one grammar. Each becomes a rule, whose name schema_write gives. is_lenient:
 * what cannot be said is left out instead of refused (the limits hold), so that the grammar allows
 * more than the schema does. schema_writer_end adds the rules that all of them use.
 */
enum { SCHEMA_RULE_BYTES = 16 };
struct schema_writer;
struct schema_writer *schema_writer_new(struct buf *out); /* borrows out until it is freed */
void schema_writer_free(struct schema_writer *w);
MUST_CHECK enum errc schema_write(struct schema_writer *w, struct val schema, bool is_lenient,
                                  char rule[SCHEMA_RULE_BYTES], struct error *err);
void schema_writer_end(struct schema_writer *w);

/* Appends the grammar; its root is the rule "root". ERR_INVALID names the keyword and the place. */
MUST_CHECK enum errc schema_grammar(struct val schema, struct buf *out, struct error *err);

/* Appends the grammar of any JSON object. */
void schema_any_object(struct buf *out);

/*
 * An ECMAScript pattern as a GBNF expression for the text of a JSON string, without its quotes.
 * ERR_INVALID says what a grammar cannot do.
 */
MUST_CHECK enum errc schema_pattern(struct slice pattern, struct buf *out, struct error *err);

/* text as a GBNF literal, with its quotes. */
void schema_literal(struct slice text, struct buf *out);

#endif
