/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INFER and EMBED over a batch of rows.
 *
 * INFER keeps a window of rows at the generator and refills it whenever one has
 * finished, so a query neither floods the queue nor leaves a lane idle:
 *
 *   rows:  | finished | at the generator (<= WINDOW) | not yet |
 *                                                    ^ next
 *
 * When the generator is full, the batch waits for one of its own rows. A batch
 * that has none there lines up and goes on when any row of any batch finishes; if
 * no INFER runs at all, its rows fail with ERR_BUSY, since nothing would wake it.
 *
 * Nobody calls out with the lock held. Rows of a batch are submitted by one
 * thread at a time: whoever comes second leaves a note for the first. A batch may
 * be freed as soon as the lock is released, unless the caller has a row at the
 * generator, is the one who submits, or has just taken the batch out of the line.
 */
#include "base/env.h"
#include "base/hash.h"
#include "retrieve/infer_options.h"
#include "retrieve/rag.h"

#include <pthread.h>

enum {
    WINDOW = 32,
    INFER_ROWS_MAX = LIMIT_ROWS_PER_BATCH,
    EMBED_ROWS_MAX = 256,
    ANSWER_BYTES_MAX = LIMIT_DOC_BYTES,
};

/* ---- INFER ---- */

struct infer_batch;

struct infer_row {
    struct infer_batch *batch;
    struct buf text;
    size_t same_as;  /* an earlier row with equal arguments, or its own number */
    bool is_skipped; /* null prompt */
};

struct infer_batch {
    struct rag_calls *calls;
    struct call_batch *b;
    struct infer_row *rows;
    uint64_t start_ms;
    /* Under the lock. */
    size_t next, outstanding;
    bool is_pumping, is_noted; /* a pump runs; another was asked for meanwhile */
    bool is_full;              /* the generator had no room */
    bool is_stopping;          /* an error: nothing more is submitted */
    bool is_queued;
    struct infer_batch *behind; /* in the line */
};

/* The line of batches that wait for room: they take it from the same queues of one generator. */
struct rag_calls {
    struct batch_call infer, embed;
    struct generator *generator; /* borrowed */
    pthread_mutex_t lock;
    struct infer_batch *line_head, *line_tail;
    size_t rows_running; /* INFER rows at the generator */
};

static void pump_and_unlock(struct infer_batch *ib);

static void line_push(struct infer_batch *ib)
{
    struct rag_calls *calls = ib->calls;

    ib->behind = NULL;
    ib->is_queued = true;
    if (calls->line_tail)
        calls->line_tail->behind = ib;
    else
        calls->line_head = ib;
    calls->line_tail = ib;
}

static struct infer_batch *line_pop(struct rag_calls *calls)
{
    struct infer_batch *ib = calls->line_head;

    if (ib) {
        calls->line_head = ib->behind;
        if (!calls->line_head)
            calls->line_tail = NULL;
        ib->is_queued = false;
    }
    return ib;
}

static bool is_cancelled(const struct infer_batch *ib)
{
    return ib->b->cancel && atomic_load(ib->b->cancel);
}

static void set_result(struct call_row *row, struct slice text)
{
    struct val_builder *b = val_builder_new(ANSWER_BYTES_MAX);
    struct val v;

    val_put_string(b, text);
    if (val_finish(b, &v, &row->err) == OK)
        buf_add_slice(&row->result, val_bytes(v));
    val_builder_free(b);
}

/* Milliseconds left; false when none are. 0 = no deadline. */
static bool time_left(const struct infer_batch *ib, uint64_t *left_ms)
{
    uint64_t passed = env_mono_ms(env_system()) - ib->start_ms;

    *left_ms = 0;
    if (ib->b->deadline_ms == 0)
        return true;
    if (passed >= ib->b->deadline_ms)
        return false;
    *left_ms = ib->b->deadline_ms - passed;
    return true;
}

/* Frees the batch, gives equal rows their answers and reports. No lock held; last use of ib. */
static void infer_finish(struct infer_batch *ib)
{
    struct call_batch *b = ib->b;

    for (size_t i = 0; i < b->count; i++) {
        const struct call_row *same = &b->rows[ib->rows[i].same_as];
        if (ib->rows[i].same_as != i) {
            buf_add_slice(&b->rows[i].result, buf_slice(&same->result));
            b->rows[i].err = same->err;
        }
        buf_release(&ib->rows[i].text);
    }
    mem_free(ib->rows);
    mem_free(ib);
    b->done(b);
}

/* Room has been made: the first in the line may go on. */
static void wake_one(struct rag_calls *calls)
{
    struct infer_batch *ib;

    pthread_mutex_lock(&calls->lock);
    ib = line_pop(calls);
    if (ib)
        pump_and_unlock(ib);
    else
        pthread_mutex_unlock(&calls->lock);
}

/* Nothing runs that would wake the line: lets every batch in it try once more. */
static void drain_line(struct rag_calls *calls)
{
    struct infer_batch *ib;

    for (;;) {
        pthread_mutex_lock(&calls->lock);
        ib = calls->rows_running == 0 ? line_pop(calls) : NULL;
        if (!ib)
            break;
        pump_and_unlock(ib);
    }
    pthread_mutex_unlock(&calls->lock);
}

static void on_event(void *ctx, const struct gen_event *e)
{
    struct infer_row *r = ctx;
    struct infer_batch *ib = r->batch;
    struct rag_calls *calls = ib->calls; /* outlives ib */
    struct call_row *row = &ib->b->rows[r - ib->rows];

    buf_add_slice(&r->text, e->text);
    if (!e->is_last)
        return;
    if (e->finish == GEN_CANCELLED)
        (void)fail(&row->err, ERR_GONE, "INFER was cancelled");
    else if (e->finish == GEN_FAILED && e->err)
        row->err = *e->err;
    else if (e->finish == GEN_FAILED)
        (void)fail(&row->err, ERR_INTERNAL, "INFER: the model failed");
    else
        set_result(row, buf_slice(&r->text));
    buf_release(&r->text);

    wake_one(calls); /* before this batch takes the room itself: others must not starve */
    pthread_mutex_lock(&calls->lock);
    ib->outstanding--;
    ib->is_full = false;
    ib->is_stopping |= row->err.code != OK;
    calls->rows_running--;
    pump_and_unlock(ib);
    drain_line(calls);
}

/* Submits one row. No lock held. ERR_BUSY: try again later. */
static enum errc submit_row(struct infer_batch *ib, size_t i)
{
    struct call_row *row = &ib->b->rows[i];
    struct infer_row *r = &ib->rows[i];
    struct generator *g = ib->calls->generator;
    struct arena *arena = NULL;
    struct gen_request req = {
        .payer = ib->b->payer, .cancel = ib->b->cancel, .on_event = on_event, .ctx = r
    };
    struct error err;
    enum errc rc = OK;

    if (is_cancelled(ib))
        TRY(fail(&err, ERR_GONE, "INFER was cancelled"));
    if (!time_left(ib, &req.deadline_ms))
        TRY(fail_num(&err, 1500, "INFER: the query ran out of time"));
    arena = arena_new(0);
    TRY(infer_options_read(row->args[0], row->args[1], row->args[2], arena, &req, &err));
    buf_init(&r->text, ANSWER_BYTES_MAX);
    TRY(g->submit(g, &req, &err));
out:
    if (rc != OK && rc != ERR_BUSY)
        row->err = err;
    arena_free(arena);
    return rc;
}

/* Rows that need no generator: null prompts and repetitions. Lock held. */
static void skip_rows(struct infer_batch *ib)
{
    while (ib->next < ib->b->count &&
           (ib->rows[ib->next].is_skipped || ib->rows[ib->next].same_as != ib->next))
        ib->next++;
}

static bool wants_more(const struct infer_batch *ib)
{
    return ib->next < ib->b->count && !ib->is_stopping && !ib->is_full && ib->outstanding < WINDOW;
}

/* After ERR_BUSY for row i. Lock held. */
static void wait_for_room(struct infer_batch *ib, size_t i)
{
    ib->next = i;
    if (ib->is_noted) {
        ib->is_noted = false; /* one of its own has finished meanwhile: try again at once */
    } else if (ib->outstanding > 0) {
        ib->is_full = true; /* until one of its own rows finishes */
    } else if (ib->calls->rows_running > 0) {
        ib->is_full = true;
        line_push(ib);
    } else {
        (void)fail(&ib->b->rows[i].err, ERR_BUSY, "INFER: the model's queue is full");
        ib->is_stopping = true;
    }
}

/* Lock held; drops it around submit. */
static void submit_some(struct infer_batch *ib)
{
    struct rag_calls *calls = ib->calls;

    for (skip_rows(ib); wants_more(ib); skip_rows(ib)) {
        size_t i = ib->next++;
        enum errc rc;

        ib->outstanding++;
        calls->rows_running++;
        pthread_mutex_unlock(&calls->lock);
        rc = submit_row(ib, i);
        pthread_mutex_lock(&calls->lock);
        if (rc == OK)
            continue;
        ib->outstanding--;
        calls->rows_running--;
        if (rc == ERR_BUSY && !ib->is_stopping)
            wait_for_room(ib, i);
        else
            ib->is_stopping = true;
    }
}

/*
 * Refills the window; ends the batch when nothing is left. Lock held, released on
 * return; may free ib.
 */
static void pump_and_unlock(struct infer_batch *ib)
{
    struct rag_calls *calls = ib->calls;
    bool is_finished;

    if (ib->is_pumping) {
        ib->is_noted = true;
        pthread_mutex_unlock(&calls->lock);
        return;
    }
    ib->is_pumping = true;
    do {
        ib->is_noted = false;
        ib->is_full = false;
        submit_some(ib);
    } while (ib->is_noted && !ib->is_queued);
    ib->is_pumping = false;
    is_finished =
        ib->outstanding == 0 && !ib->is_queued && (ib->is_stopping || ib->next == ib->b->count);
    pthread_mutex_unlock(&calls->lock);
    if (is_finished)
        infer_finish(ib);
}

static bool is_greedy(struct val options)
{
    return val_double(val_get(options, slice_str("temperature"))) == 0;
}

static uint64_t row_hash(const struct call_row *row)
{
    uint64_t h[CALL_ARGS_MAX];

    for (size_t i = 0; i < CALL_ARGS_MAX; i++)
        h[i] = val_hash(row->args[i]);
    return hash_xxh3(h, sizeof h);
}

static bool rows_equal(const struct call_row *a, const struct call_row *b)
{
    return val_equal(a->args[0], b->args[0]) && val_equal(a->args[1], b->args[1]) &&
           val_equal(a->args[2], b->args[2]);
}

/* Finds equal greedy rows by an open hash table of row numbers + 1. */
static void find_same(struct infer_batch *ib)
{
    size_t size = 16, at;
    uint32_t *table;

    while (size < ib->b->count * 2)
        size *= 2;
    table = mem_zalloc(size * sizeof *table);
    for (size_t i = 0; i < ib->b->count; i++) {
        const struct call_row *row = &ib->b->rows[i];
        ib->rows[i].same_as = i;
        if (ib->rows[i].is_skipped || !is_greedy(row->args[2]))
            continue;
        for (at = row_hash(row) & (size - 1); table[at]; at = (at + 1) & (size - 1))
            if (rows_equal(&ib->b->rows[table[at] - 1], row))
                break;
        if (table[at])
            ib->rows[i].same_as = table[at] - 1;
        else
            table[at] = (uint32_t)i + 1;
    }
    mem_free(table);
}

static enum errc infer_start(const struct batch_call *call, struct call_batch *b, struct error *err)
{
    struct infer_batch *ib = mem_zalloc(sizeof *ib);
    struct rag_calls *calls = call->ctx;

    (void)err;
    ib->calls = calls;
    ib->b = b;
    ib->rows = mem_zalloc((b->count + 1) * sizeof *ib->rows);
    ib->start_ms = env_mono_ms(env_system());
    for (size_t i = 0; i < b->count; i++) {
        ib->rows[i].batch = ib;
        ib->rows[i].is_skipped = val_is_null(b->rows[i].args[1]);
    }
    find_same(ib);
    pthread_mutex_lock(&calls->lock);
    pump_and_unlock(ib);
    drain_line(calls);
    return OK;
}

/* ---- EMBED ---- */

/* The rows of one model. */
struct embed_group {
    struct embed_batch *batch;
    struct slice model;
    size_t *rows;
    struct slice *texts;
    size_t count;
};

struct embed_batch {
    struct generator *generator;
    struct call_batch *b;
    struct arena *arena;
    struct embed_group *groups;
    size_t group_count;
    atomic_size_t open; /* groups without an answer, and one for start */
};

/* The last to leave frees the batch and reports. */
static void embed_leave(struct embed_batch *eb)
{
    struct call_batch *b = eb->b;

    if (atomic_fetch_sub(&eb->open, 1) != 1)
        return;
    arena_free(eb->arena);
    mem_free(eb);
    b->done(b);
}

static void set_vector(struct call_row *row, const float *vector, uint32_t dimension)
{
    struct val_builder *b = val_builder_new(0);
    struct val v;

    val_put_floats(b, vector, dimension);
    if (val_finish(b, &v, &row->err) == OK)
        buf_add_slice(&row->result, val_bytes(v));
    val_builder_free(b);
}

static void on_embedded(void *ctx, const struct embed_result *r)
{
    struct embed_group *g = ctx;
    struct call_row *rows = g->batch->b->rows;

    for (size_t i = 0; i < g->count; i++) {
        struct call_row *row = &rows[g->rows[i]];
        if (r->err)
            row->err = *r->err;
        else if (i < r->count)
            set_vector(row, r->vectors + i * r->dimension, r->dimension);
        else
            (void)fail(&row->err, ERR_INTERNAL, "EMBED: the model gave too few vectors");
    }
    embed_leave(g->batch);
}

static struct embed_group *group_of(struct embed_batch *eb, struct slice model)
{
    struct embed_group *g;

    for (size_t i = 0; i < eb->group_count; i++)
        if (slice_eq(eb->groups[i].model, model))
            return &eb->groups[i];
    g = &eb->groups[eb->group_count++];
    *g = (struct embed_group){ .batch = eb, .model = model };
    g->rows = arena_alloc(eb->arena, eb->b->count * sizeof *g->rows);
    g->texts = arena_alloc(eb->arena, eb->b->count * sizeof *g->texts);
    return g;
}

static void add_embed_row(struct embed_batch *eb, size_t i)
{
    struct call_row *row = &eb->b->rows[i];
    struct val model = row->args[0], text = row->args[1];
    struct embed_group *g;

    if (!val_is_null(model) && val_type(model) != VAL_STRING) {
        (void)fail_num(&row->err, 1542, "EMBED: the model must be a string, not %s",
                       val_type_name(val_type(model)));
    } else if (val_is_null(text)) {
        return; /* null of null */
    } else if (val_type(text) != VAL_STRING) {
        (void)fail_num(&row->err, 1542, "EMBED: the text must be a string, not %s",
                       val_type_name(val_type(text)));
    } else {
        g = group_of(eb, val_string(model));
        g->rows[g->count] = i;
        g->texts[g->count++] = val_string(text);
    }
}

static void start_group(struct embed_batch *eb, struct embed_group *g)
{
    struct embed_request req = { .model = g->model,
                                 .texts = g->texts,
                                 .count = g->count,
                                 .payer = eb->b->payer,
                                 .cancel = eb->b->cancel,
                                 .on_done = on_embedded,
                                 .ctx = g };
    struct error err;

    atomic_fetch_add(&eb->open, 1);
    if (eb->generator->embed(eb->generator, &req, &err) == OK)
        return;
    eb->b->rows[g->rows[0]].err = err;
    embed_leave(eb);
}

static enum errc embed_start(const struct batch_call *call, struct call_batch *b, struct error *err)
{
    struct embed_batch *eb = mem_zalloc(sizeof *eb);

    (void)err;
    eb->generator = ((struct rag_calls *)call->ctx)->generator;
    eb->b = b;
    eb->arena = arena_new(0);
    eb->groups = arena_zalloc(eb->arena, (b->count + 1) * sizeof *eb->groups);
    atomic_init(&eb->open, 1);
    for (size_t i = 0; i < b->count; i++)
        add_embed_row(eb, i);
    for (size_t i = 0; i < eb->group_count; i++)
        start_group(eb, &eb->groups[i]);
    embed_leave(eb);
    return OK;
}

struct rag_calls *rag_calls_new(struct generator *generator)
{
    struct rag_calls *calls = mem_zalloc(sizeof *calls);

    calls->generator = generator;
    pthread_mutex_init(&calls->lock, NULL);
    calls->infer = (struct batch_call){ .name = "INFER",
                                        .min_args = 2,
                                        .max_args = 3,
                                        .max_rows = INFER_ROWS_MAX,
                                        .start = infer_start,
                                        .ctx = calls };
    calls->embed = (struct batch_call){ .name = "EMBED",
                                        .min_args = 2,
                                        .max_args = 2,
                                        .max_rows = EMBED_ROWS_MAX,
                                        .start = embed_start,
                                        .ctx = calls };
    return calls;
}

void rag_calls_free(struct rag_calls *calls)
{
    if (!calls)
        return;
    if (calls->rows_running > 0 || calls->line_head)
        BUG("INFER freed while %zu rows run", calls->rows_running);
    pthread_mutex_destroy(&calls->lock);
    mem_free(calls);
}

const struct batch_call *rag_calls_infer(const struct rag_calls *calls)
{
    return &calls->infer;
}

const struct batch_call *rag_calls_embed(const struct rag_calls *calls)
{
    return &calls->embed;
}
