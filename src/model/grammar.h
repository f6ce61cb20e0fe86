/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar -- a set of texts described in GBNF, llama.cpp's notation: read and checked once, then
 * shared; and how far a text has followed it, byte by byte.
 *
 * Pure. A grammar is immutable and may be used by any thread; a run belongs to one thread at a
 * time. Nothing that a grammar says makes a run take more than its limits: it is given up instead.
 */
#ifndef MODEL_GRAMMAR_H
#define MODEL_GRAMMAR_H

#include "base/base.h"
#include "base/error.h"

enum {
    GRAMMAR_BYTES_MAX = 512 * KIB, /* of the text */
    GRAMMAR_RULES_MAX = 16384,     /* groups and repeated items count too */
    GRAMMAR_ELEMENTS_MAX = 262144, /* characters, classes, references */
    GRAMMAR_DEPTH_MAX = 64,        /* parentheses in each other */
    GRAMMAR_REPEAT_MAX = 10000,    /* of an item */
};

struct grammar;

/*
 * One reference is the caller's. ERR_INVALID says what is wrong and in which line: syntax, a limit,
 * an undefined rule, a rule that begins with itself, or one that cannot end.
 */
MUST_CHECK enum errc grammar_parse(struct grammar **out, struct slice text, struct error *err);
struct grammar *grammar_ref(struct grammar *g);
void grammar_unref(struct grammar *g);         /* NULL is allowed */
size_t grammar_bytes(const struct grammar *g); /* that it takes */

/*
 * How far texts have come: a state is a number of the run, GRAMMAR_DEAD where no text can be
 * continued. States stay valid until grammar_run_keep.
 */
enum { GRAMMAR_DEAD = -1 };
struct grammar_run;

struct grammar_run *grammar_run_new(struct grammar *g); /* keeps a reference of its own */
void grammar_run_free(struct grammar_run *run);         /* NULL is allowed */
int grammar_run_begin(struct grammar_run *run);
int grammar_run_next(struct grammar_run *run, int state, uint8_t byte);
int grammar_run_text(struct grammar_run *run, int state, struct slice text);
bool grammar_run_may_end(const struct grammar_run *run, int state);
/* The text is complete: nothing can follow. */
bool grammar_run_must_end(const struct grammar_run *run, int state);
/* Forgets all states but this one, when there are many. Returns its new number. */
int grammar_run_keep(struct grammar_run *run, int state);
/*
 * The grammar is so ambiguous that following it takes more than the limits, or more than
 * a fixed number of steps since grammar_run_keep; the answers are GRAMMAR_DEAD since then.
 */
bool grammar_run_is_over(const struct grammar_run *run);

#endif
