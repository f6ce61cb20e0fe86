/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every case of test/aql, each directly and with its plan encoded and
 * decoded, then also with two rows a batch, so that each operator meets the end of one, and with
 * sorts and groups that go to disk after a few rows. GOLDEN_UPDATE=1 rewrites what was expected; GOLDEN=text runs only files
 * whose name contains the text. A file is sections:
 *
 *   == setup     {"collection": [documents]} or {"collection": {"type": "edge",
 *                "indexes": [...], "schema": {...}, "computedValues": [...], "docs": [...]}};
 *                a fresh store from here on
 *   == query     starts a case in a transaction that is rolled back at its end
 *   == bind      an object
 *   == rows      one JSON value a line
 *   == error     errorNum, and text that the message contains
 *   == warnings  the same, one a line; without the section there must be none
 *   == stats     name and number, one a line
 *   == plan      types of the nodes
 *   == explain   the plan as people read it: a line for each node, then the rules
 *   == then      another query in the same transaction, with its own sections
 *
 * A query may begin with a comment that says how to run it: fullCount, or names of
 * rules to switch off, such as -all.
 */
#include "base/log.h"
#include "base/val_text.h"
#include "query/computed.h"
#include "query/query.h"
#include "query/spill.h"
#include "store/doc.h"
#include "store/store.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

enum { SECTIONS_MAX = 400, FILES_MAX = 400 };

struct section {
    struct slice name, text;
};

struct file {
    char path[300];
    struct arena *arena;
    struct section sections[SECTIONS_MAX];
    size_t count;
};

struct world {
    struct settings settings;
    struct store *store;
    struct txn *txn;
    struct arena *arena;
    struct spill_space spill;
    const char *path; /* of the file, for messages */
    bool through_codec, updates;
    unsigned failures, cases;
};

/* ---- scripted models ---- */

/* INFER answers "model:prompt", a third argument as JSON behind it; EMBED [length, 1]. */
static enum errc answer(const struct batch_call *call, struct call_batch *b, struct error *err)
{
    (void)err;
    for (size_t i = 0; i < b->count; i++) {
        struct call_row *r = &b->rows[i];
        struct val_builder *v = val_builder_new(0);
        struct val out;
        struct buf text;
        buf_init(&text, 0);
        if (strcmp(call->name, "EMBED") == 0) {
            val_open_array(v);
            val_put_int(v, (int64_t)val_string(r->args[1]).len);
            val_put_int(v, 1);
            val_close(v);
        } else {
            buf_add_slice(&text, val_string(r->args[0]));
            buf_add_char(&text, ':');
            buf_add_slice(&text, val_string(r->args[1]));
            if (val_type(r->args[2]) == VAL_OBJECT)
                val_print(r->args[2], &text);
            val_put_string(v, buf_slice(&text));
        }
        assert_int_equal(val_finish(v, &out, NULL), OK);
        buf_add_slice(&r->result, val_bytes(out));
        buf_release(&text);
        val_builder_free(v);
    }
    b->done(b);
    return OK;
}

static const struct batch_call infer = {
    .name = "INFER", .min_args = 2, .max_args = 3, .max_rows = 4, .start = answer
};
static const struct batch_call embed = {
    .name = "EMBED", .min_args = 2, .max_args = 2, .max_rows = 4, .start = answer
};

/* ---- files ---- */

static void file_read(struct file *f)
{
    char *text = NULL;
    size_t room = 0;
    FILE *in = fopen(f->path, "r");

    assert_non_null(in);
    ssize_t len = getdelim(&text, &room, EOF, in);
    fclose(in);
    assert_true(len > 0);
    struct slice all = arena_copy(f->arena, slice_of(text, (size_t)len));
    free(text);
    struct section *s = &f->sections[f->count++];
    *s = (struct section){ .text = { all.ptr, 0 } };
    for (const char *at = all.ptr, *end = all.ptr + all.len; at < end;) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        size_t n = eol ? (size_t)(eol - at) + 1 : (size_t)(end - at);
        if (n > 3 && memcmp(at, "== ", 3) == 0) {
            assert_true(f->count < SECTIONS_MAX);
            s = &f->sections[f->count++];
            s->name = slice_of(at + 3, n - 3 - (eol != NULL));
            s->text = slice_of(at + n, 0);
        } else {
            s->text.len += n;
        }
        at += n;
    }
}

static void file_write(const struct file *f)
{
    FILE *out = fopen(f->path, "w");

    assert_non_null(out);
    for (size_t i = 0; i < f->count; i++) {
        const struct section *s = &f->sections[i];
        if (s->name.len)
            fprintf(out, "== %.*s\n", SLICE_ARG(s->name));
        fwrite(s->text.ptr, 1, s->text.len, out);
    }
    fclose(out);
}

static struct slice trimmed(struct slice s)
{
    while (s.len && strchr(" \n", s.ptr[s.len - 1]))
        s.len--;
    return s;
}

/* Takes a line off; false at the end. Empty lines are skipped. */
static bool next_line(struct slice *text, struct slice *line)
{
    while (text->len && *text->ptr == '\n')
        *text = slice_of(text->ptr + 1, text->len - 1);
    if (!text->len)
        return false;
    const char *eol = memchr(text->ptr, '\n', text->len);
    line->ptr = text->ptr;
    line->len = eol ? (size_t)(eol - text->ptr) : text->len;
    *text = slice_of(text->ptr + line->len, text->len - line->len);
    return true;
}

/* ---- setup ---- */

static struct val json(struct world *w, struct slice text)
{
    struct error err = { 0 };
    struct val v;

    if (val_parse(text, w->arena, &v, &err) != OK)
        fail_msg("%s: %s in %.*s", w->path, err.text, SLICE_ARG(text));
    return v;
}

static void open_store(struct world *w)
{
    struct store_options opt = { .settings = &w->settings, .compute = &query_compute };
    struct error err = { 0 };

    store_close(w->store);
    w->store = NULL;
    if (store_open(&w->store, &opt, &err) != OK)
        fail_msg("%s", err.text);
}

static void add_collection(struct world *w, struct slice name, struct val what)
{
    bool is_plain = val_type(what) == VAL_ARRAY;
    struct val docs = is_plain ? what : val_get(what, slice_str("docs"));
    struct val indexes = is_plain ? val_empty_array : val_get(what, slice_str("indexes"));
    bool is_edge = !is_plain && slice_is(val_string(val_get(what, slice_str("type"))), "edge");
    struct collection_options opt = { .name = name,
                                      .type = is_edge ? COLLECTION_EDGE : COLLECTION_DOCUMENT,
                                      .allow_user_keys = true,
                                      .schema = val_get(what, slice_str("schema")),
                                      .computed = val_get(what, slice_str("computedValues")) };
    struct error err = { 0 };
    struct doc_change change;
    struct txn *txn = NULL;
    uint64_t id, index;
    bool is_new;
    enum errc rc = OK;

    TRY(store_create_collection(w->store, 1, &opt, &id, &err));
    for (size_t i = 0; i < val_count(indexes); i++)
        TRY(store_create_index(w->store, id, val_at(indexes, i), &index, &is_new, &err));
    TRY(txn_begin(&txn, w->store, &(struct txn_options){ 0 }, &err));
    for (size_t i = 0; i < val_count(docs); i++)
        TRY(doc_insert(txn, catalog_collection_by_id(txn_catalog(txn), id), val_at(docs, i),
                       &(struct doc_options){ 0 }, w->arena, &change, &err));
    TRY(txn_commit(txn, &err));
out:
    txn_end(txn);
    if (rc != OK)
        fail_msg("%s: setup of %.*s: %s", w->path, SLICE_ARG(name), err.text);
}

static void setup_store(struct world *w, struct slice text)
{
    struct val all = json(w, trimmed(text));

    open_store(w);
    for (size_t i = 0; i < val_count(all); i++)
        add_collection(w, val_name_at(all, i), val_at(all, i));
}

/* ---- comparing ---- */

/* Same types, members and order of elements; the order of members does not count. */
static bool same(struct val a, struct val b)
{
    struct val other;

    if (val_type(a) != val_type(b) || val_count(a) != val_count(b))
        return false;
    if (val_type(a) != VAL_ARRAY && val_type(a) != VAL_OBJECT)
        return val_equal(a, b);
    for (size_t i = 0; i < val_count(a); i++) {
        if (val_type(a) == VAL_ARRAY)
            other = val_at(b, i);
        else if (!val_find(b, val_name_at(a, i), &other))
            return false;
        if (!same(val_at(a, i), other))
            return false;
    }
    return true;
}

/* "number text": the text must contain the expected one. */
static bool message_fits(struct slice expected, int num, const char *text)
{
    char want[400];

    snprintf(want, sizeof want, "%.*s", SLICE_ARG(expected));
    char *rest = want;
    if (strtol(want, &rest, 10) != num)
        return false;
    while (*rest == ' ')
        rest++;
    return strstr(text, rest) != NULL;
}

struct result {
    struct query *q; /* NULL after an error */
    struct error err;
    struct arena *arena;
};

static bool rows_fit(struct world *w, struct slice text, const struct result *r)
{
    struct slice line;
    size_t n = 0, count = r->q ? query_row_count(r->q) : 0;

    while (next_line(&text, &line)) {
        if (n >= count || !same(json(w, line), query_row(r->q, n)))
            return false;
        n++;
    }
    return r->q && n == count;
}

static bool warnings_fit(struct slice text, const struct result *r)
{
    struct slice line;
    size_t n = 0, count = r->q ? query_warning_count(r->q) : 0;

    while (next_line(&text, &line)) {
        if (n >= count)
            return false;
        const struct query_warning *one = query_warning(r->q, n++);
        if (!message_fits(line, one->num, one->text))
            return false;
    }
    return n == count;
}

static void print_stats(const struct query *q, struct buf *out)
{
    const struct query_stats *s = query_stats(q);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "writesExecuted", s->writes_executed },
        { "writesIgnored", s->writes_ignored },
        { "scannedFull", s->scanned_full },
        { "scannedIndex", s->scanned_index },
        { "documentLookups", s->document_lookups },
        { "filtered", s->filtered },
        { "fullCount", s->full_count },
        { "calls", s->calls },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value)
            buf_printf(out, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
}

static void print_plan(const struct result *r, struct buf *out)
{
    struct val explained;
    struct error err = { 0 };

    if (query_explain(r->q, r->arena, &explained, &err) != OK)
        fail_msg("explain: %s", err.text);
    struct val plan = val_get(explained, slice_str("plan"));
    struct val nodes = val_get(val_is_null(plan) ? explained : plan, slice_str("nodes"));
    for (size_t i = 0; i < val_count(nodes); i++)
        buf_printf(out, "%s%.*s", i ? " " : "",
                   SLICE_ARG(val_string(val_get(val_at(nodes, i), slice_str("type")))));
    buf_add_char(out, '\n');
}

static void print_lines(struct val nodes, unsigned depth, struct buf *out)
{
    for (size_t i = 0; i < val_count(nodes); i++) {
        struct val n = val_at(nodes, i);
        for (unsigned d = 0; d < depth; d++)
            buf_add_str(out, "  ");
        buf_add_slice(out, val_string(val_get(n, slice_str("text"))));
        buf_add_char(out, '\n');
        print_lines(val_get(val_get(n, slice_str("subquery")), slice_str("nodes")), depth + 1, out);
    }
}

static void print_explain(const struct result *r, struct buf *out)
{
    struct val explained;
    struct error err = { 0 };

    if (query_explain(r->q, r->arena, &explained, &err) != OK)
        fail_msg("explain: %s", err.text);
    print_lines(val_get(explained, slice_str("nodes")), 0, out);
    struct val rules = val_get(explained, slice_str("rules"));
    for (size_t i = 0; i < val_count(rules); i++)
        buf_printf(out, "%s%.*s", i ? ", " : "rules: ", SLICE_ARG(val_string(val_at(rules, i))));
    buf_add_char(out, '\n');
}

/* What the section would say now. */
static void print_section(const struct result *r, struct slice name, struct buf *out)
{
    if (slice_is(name, "error") && !r->q)
        buf_printf(out, "%d %s\n", error_num(&r->err), r->err.text);
    if (!r->q)
        return;
    for (size_t i = 0; slice_is(name, "rows") && i < query_row_count(r->q); i++) {
        val_print(query_row(r->q, i), out);
        buf_add_char(out, '\n');
    }
    for (size_t i = 0; slice_is(name, "warnings") && i < query_warning_count(r->q); i++)
        buf_printf(out, "%d %s\n", query_warning(r->q, i)->num, query_warning(r->q, i)->text);
    if (slice_is(name, "stats"))
        print_stats(r->q, out);
    if (slice_is(name, "plan"))
        print_plan(r, out);
    if (slice_is(name, "explain"))
        print_explain(r, out);
}

static bool section_fits(struct world *w, const struct section *s, const struct result *r)
{
    struct buf now;

    if (slice_is(s->name, "rows"))
        return rows_fit(w, s->text, r);
    if (slice_is(s->name, "error"))
        return !r->q && message_fits(trimmed(s->text), error_num(&r->err), r->err.text);
    if (slice_is(s->name, "warnings"))
        return warnings_fit(s->text, r);
    buf_init(&now, 0);
    print_section(r, s->name, &now);
    bool fits = r->q && slice_eq(trimmed(buf_slice(&now)), trimmed(s->text));
    buf_release(&now);
    return fits;
}

static void report(struct world *w, const struct section *query, const struct section *s,
                   const struct result *r)
{
    struct buf now;

    buf_init(&now, 0);
    print_section(r, s->name, &now);
    if (!r->q && !slice_is(s->name, "error"))
        buf_printf(&now, "error %d %s\n", error_num(&r->err), r->err.text);
    print_error("%s (%s): %.*s\n  %.*s expected:\n%.*s\n  is:\n%s\n", w->path,
                w->through_codec ? "codec" : "direct", SLICE_ARG(trimmed(query->text)),
                SLICE_ARG(s->name), SLICE_ARG(trimmed(s->text)), buf_cstr(&now));
    buf_release(&now);
    w->failures++;
}

/* ---- one case ---- */

/* Names of rules in the comment that the query begins with. */
static struct val query_rules(struct world *w, struct slice text)
{
    struct val words[8];
    size_t count = 0;
    char *copy = mem_strndup(text), *end = strstr(copy, "*/"), *rest = NULL;

    if (slice_starts(text, "/*") && end) {
        *end = 0;
        for (char *at = strtok_r(copy + 2, " ", &rest); at && count < 8;
             at = strtok_r(NULL, " ", &rest)) {
            if (*at == '-' || *at == '+')
                words[count++] = val_new_string(w->arena, slice_str(at));
        }
    }
    mem_free(copy);
    return val_new_array(w->arena, words, count);
}

static void run_query(struct world *w, struct slice text, struct val bind, struct result *r)
{
    struct query_env env = { .store = w->store,
                             .calls = { &infer, &embed },
                             .env = env_system(),
                             .spill = w->through_codec ? &w->spill : NULL };
    struct query_options opt = { .db_id = 1,
                                 .txn = w->txn,
                                 .memory_limit = 64 * MIB,
                                 .full_count = slice_starts(text, "/*fullCount*/"),
                                 .rules = query_rules(w, text),
                                 .through_codec = w->through_codec,
                                 .batch_rows = w->through_codec ? 2 : 0 };
    enum query_state state = QUERY_DONE;
    enum errc rc = query_new(&r->q, &env, text, bind, &opt, &r->err);

    if (rc != OK) {
        r->q = NULL;
        return;
    }
    rc = query_run(r->q, &state, &r->err);
    if (rc == OK && state == QUERY_DONE)
        return;
    query_free(r->q);
    r->q = NULL;
}

static bool begins_case(struct slice name)
{
    return slice_is(name, "query") || slice_is(name, "then") || slice_is(name, "setup");
}

static void update(struct file *f, struct section *s, const struct result *r)
{
    struct buf now;

    buf_init(&now, 0);
    if (slice_is(s->name, "rows") && !r->q)
        s->name = slice_str("error");
    else if (slice_is(s->name, "error") && r->q)
        s->name = slice_str("rows");
    print_section(r, s->name, &now);
    buf_add_char(&now, '\n');
    s->text = arena_copy(f->arena, buf_slice(&now));
    buf_release(&now);
}

/* Section at is the query; returns the first one behind its case. */
static size_t run_case(struct world *w, struct file *f, size_t at)
{
    struct result r = { .arena = w->arena };
    struct val bind = val_null;
    size_t end = at + 1;
    bool has_warnings = false;

    while (end < f->count && !begins_case(f->sections[end].name)) {
        if (slice_is(f->sections[end].name, "bind"))
            bind = json(w, trimmed(f->sections[end].text));
        has_warnings |= slice_is(f->sections[end].name, "warnings");
        end++;
    }
    w->cases++;
    run_query(w, trimmed(f->sections[at].text), bind, &r);
    for (size_t i = at + 1; i < end; i++) {
        struct section *s = &f->sections[i];
        if (slice_is(s->name, "bind"))
            continue;
        if (w->updates)
            update(f, s, &r);
        else if (!section_fits(w, s, &r))
            report(w, &f->sections[at], s, &r);
    }
    struct section none = { slice_str("warnings"), slice_str("") };
    if (!has_warnings && !warnings_fit(none.text, &r))
        report(w, &f->sections[at], &none, &r);
    query_free(r.q);
    return end;
}

static void run_file(struct world *w, struct file *f)
{
    struct error err = { 0 };

    w->path = f->path;
    w->arena = arena_new(0);
    open_store(w);
    for (size_t i = 1; i < f->count;) {
        if (slice_is(f->sections[i].name, "setup")) {
            setup_store(w, f->sections[i++].text);
            continue;
        }
        if (txn_begin(&w->txn, w->store, &(struct txn_options){ 0 }, &err) != OK)
            fail_msg("%s", err.text);
        i = run_case(w, f, i);
        while (i < f->count && slice_is(f->sections[i].name, "then"))
            i = run_case(w, f, i);
        txn_end(w->txn);
        w->txn = NULL;
    }
    store_close(w->store);
    w->store = NULL;
    arena_free(w->arena);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t list_files(char names[][300])
{
    const char *only = getenv("GOLDEN");
    DIR *dir = opendir("test/aql");
    size_t count = 0;
    struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir))) {
        size_t len = strlen(e->d_name);
        if (len < 6 || strcmp(e->d_name + len - 5, ".test") != 0 ||
            (only && !strstr(e->d_name, only)))
            continue;
        assert_true(count < FILES_MAX);
        snprintf(names[count++], 300, "test/aql/%s", e->d_name);
    }
    closedir(dir);
    qsort(names, count, 300, by_name);
    return count;
}

static void all_golden_cases_hold(void **state)
{
    static char names[FILES_MAX][300];
    static struct file f;
    struct world w = { .updates = getenv("GOLDEN_UPDATE") != NULL };
    size_t count = list_files(names);
    char dir[] = "/tmp/themis-golden-XXXXXX";
    struct error err = { 0 };

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(spill_space_open(&w.spill, dir, &err), OK);
    w.spill.memory_bytes = 4096;
    w.spill.max_bytes = 64 * MIB;
    log_set_level(LOG_ERROR);
    settings_init(&w.settings);
    for (size_t i = 0; i < count; i++) {
        for (int codec = 0; codec < (w.updates ? 1 : 2); codec++) {
            memset(&f, 0, sizeof f);
            memcpy(f.path, names[i], sizeof f.path);
            f.arena = arena_new(0);
            w.through_codec = codec;
            file_read(&f);
            run_file(&w, &f);
            if (w.updates)
                file_write(&f);
            arena_free(f.arena);
        }
    }
    assert_int_equal(atomic_load(&w.spill.used_bytes), 0);
    assert_int_equal(rmdir(dir), 0); /* files have no names, or are gone */
    print_message("%zu files, %u cases run\n", count, w.cases);
    if (w.failures)
        fail_msg("%u expectations failed", w.failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_golden_cases_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
