/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench -- two ways of doing the same work, measured side by side in short
 * alternating rounds, and one line of figures for each comparison.
 *
 * A comparison prints the median of both sides, the median and the quartiles of
 * the ratio of each round, and the conditions: commit, CPU, cores, how much of
 * the machine others used meanwhile. Ratios are what counts; when others load
 * the machine, they load both sides of a round.
 *
 * bench_fail and what it serves end the program: a benchmark that cannot do its
 * work has no result. Everything here is for one thread, except bench_fail.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <sys/types.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

/* Says why on standard error and ends the program with status 1. */
NORETURN void bench_fail(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* The same unless rc is OK; what: the sentence's beginning. */
void bench_must(enum errc rc, const struct error *err, const char *what);

double bench_seconds(void);        /* monotonic clock */
double bench_thread_seconds(void); /* CPU time of this thread */
void bench_sleep(double seconds);

/* ---- the conditions of a measurement ---- */

/* What the whole machine did between two moments, in cores: 1.5 = one and a half were busy. */
struct bench_load {
    double others; /* busy with anything but this program and its processes; kernel threads too */
    double own;
    double stolen; /* taken by the host of a virtual machine */
};
struct bench_load_mark {
    double at, busy, stolen, own;
};
struct bench_load_mark bench_load_begin(void);
struct bench_load bench_load_end(const struct bench_load_mark *begin);

/* A child that still runs, at most four at a time: its CPU time and its own children's is ours. */
void bench_load_add(pid_t pid);
void bench_load_remove(pid_t pid); /* before it ends */

/* ---- lines ---- */

/*
 * "bench NAME what=WHAT key=value ...". bench_end adds the conditions and ends
 * the line. Values with blanks are put in quotes; facts: ready-made words.
 */
struct bench_line {
    struct buf text;
};
void bench_begin(struct bench_line *line, const char *name, const char *what);
void bench_facts(struct bench_line *line, const char *facts); /* NULL = nothing */
void bench_text(struct bench_line *line, const char *key, const char *value);
void bench_number(struct bench_line *line, const char *key, double value);
void bench_end(struct bench_line *line, const struct bench_load *load);

/* ---- comparisons ---- */

/*
 * Both sides work for about `seconds` and return units per second (more is
 * better). They run turn by turn; which one begins changes from round to round.
 */
struct bench_pair {
    const char *name, *what;
    const char *facts;    /* "clients=8 bytes=400"; may be NULL */
    const char *unit;     /* of the rates: "gets/s" */
    const char *opponent; /* what theirs is: a call, or a command line */
    double target;        /* the least ratio aimed at; 0 = none */
    double seconds;       /* of one side of a round; 0 = 1 */
    unsigned rounds;      /* 0 = 11 */
    double (*ours)(void *ctx, double seconds);
    double (*theirs)(void *ctx, double seconds);
    void (*add)(void *ctx, struct bench_line *line); /* further figures; may be NULL */
    void *ctx;
};
/*
 * One round is run and thrown away first. BENCH_ROUNDS and BENCH_SECONDS in the
 * environment replace rounds and seconds. Returns the median ratio.
 */
double bench_compare(const struct bench_pair *p);

/* Of n values, which it sorts; q in [0, 1]. */
double bench_quantile(double *values, size_t n, double q);

/* ---- parts ---- */

struct bench_part {
    const char *name;
    void (*run)(void);
};
/* The main of a benchmark with parts: runs those that the command line names, or all. */
int bench_main(int argc, char **argv, const struct bench_part *parts, size_t count);

/* ---- surroundings ---- */

/* The directory for files of this run (BENCH_DIR); the script that made it removes it. */
const char *bench_dir(void);
/* Runs a shell command and returns what it printed; ends the program when it fails. */
void bench_capture(const char *command, struct buf *out);

#endif
