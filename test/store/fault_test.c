/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every fault point that a step passes fails in turn: once, and for good where a step writes
 * several times. The step answers with the right code or does what it promises. Nothing else
 * changes: the store goes on with the state before, or, when the outcome is unknown, ends and is
 * found before or behind the step at the next start; documents, counts and indexes agree; then the
 * same step succeeds.
 *
 * The steps build on each other. A new fault point needs nothing here unless no step passes it,
 * which is reported. Small allocations have no points: they abort (docs/STYLE.md).
 */
#include "fault_steps.h"

#include "../fault_plan.h"

#include <sys/statvfs.h>

/* ---- failing in turn ---- */

static void note_fatal(void *ctx, const struct error *err)
{
    (void)err;
    ++*(int *)ctx;
}

static void shell(const char *fmt, ...)
{
    char command[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

/* The state before the step, once more. */
static void rewind_to_before(struct rig *r, const struct step *s)
{
    shell("rm -rf %s && cp -r %s/before %s", r->f.path, r->root, r->f.path);
    r->fatals = 0;
    arena_free(r->f.arena);
    r->f.arena = arena_new(0);
    if (s->opens)
        return;
    OK_OR_FAIL(open_store(r, &r->f.err), &r->f.err);
    store_on_fatal(r->f.store, note_fatal, &r->fatals);
}

static enum errc run(struct rig *r, const struct step *s, struct error *err)
{
    buf_clear(&r->answer);
    enum errc rc = s->run(r, err);
    if (rc != OK && s->opens)
        assert_null(r->f.store);
    return rc;
}

/* What the store holds; opened when it is closed. */
static const char *state_now(struct rig *r)
{
    if (!r->f.store)
        OK_OR_FAIL(open_store(r, &r->f.err), &r->f.err);
    describe_store(&r->f, &r->now);
    return buf_cstr(&r->now);
}

#define assert_state(r, s, wanted, what)                                                           \
    do {                                                                                           \
        if (strcmp(state_now(r), buf_cstr(wanted)))                                                \
            fail_msg("%s, %s at %s: %s instead of %s", (s)->name, what, fault_last(),              \
                     buf_cstr(&(r)->now), buf_cstr(wanted));                                       \
    } while (0)

static enum errc code_of(const char *point)
{
    static const struct {
        const char *point;
        enum errc code;
    } rows[] = {
        { "kv.full", ERR_LIMIT },         { "store.space", ERR_LIMIT },
        { "store.thread", ERR_LIMIT },    { "kv.shim", ERR_INTERNAL },
        { "base.collator", ERR_INVALID },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!strcmp(rows[i].point, point))
            return rows[i].code;
    return ERR_IO;
}

/* The outcome of a commit is unknown and the store takes no more. */
static bool has_ended(struct rig *r)
{
    struct error err;
    return r->fatals || (r->f.store && store_check_writable(r->f.store, &err) == ERR_IO);
}

/* It has done all that it promises, also after the next start. */
static void check_done(struct rig *r, const struct step *s)
{
    if (!has_ended(r))
        assert_state(r, s, &r->after, "done");
    close_after(r, OK);
    assert_state(r, s, &r->after, "done and reopened");
}

/* The failure was answered and nothing has changed; the same step succeeds. */
static void check_failed(struct rig *r, const struct step *s)
{
    struct error err;
    if (!s->opens)
        assert_state(r, s, &r->before, "failed");
    if (!strcmp(fault_last(), "store.space"))
        usleep(120 * 1000); /* then it is asked again */
    OK_OR_FAIL(run(r, s, &err), &err);
    check_done(r, s);
}

/* The store has ended; the next start finds all of the step or nothing of it. */
static void check_unknown(struct rig *r, const struct step *s)
{
    close_after(r, OK);
    r->fatals = 0;
    if (strcmp(state_now(r), buf_cstr(&r->after)))
        check_failed(r, s);
}

/* One hit of one point fails. */
static void fail_once(struct rig *r, const struct step *s, struct fault_plan *plan,
                      const char *answer)
{
    struct error err = { 0 };
    enum errc rc = run(r, s, &err);
    fault_plan_note(plan);
    if (rc == OK) {
        assert_string_equal(buf_cstr(&r->answer), answer);
        check_done(r, s);
    } else if (!fault_last() || rc != code_of(fault_last()) || err.code != rc || !err.text[0]) {
        fail_msg("%s: %s gave %s: %s", s->name, fault_last(), errc_name(rc), err.text);
    } else if (has_ended(r)) {
        check_unknown(r, s);
    } else {
        check_failed(r, s);
    }
    close_after(r, OK);
}

/* That hit and everything behind it fails. The next start finds all of the step or nothing of it. */
static void fail_for_good(struct rig *r, const struct step *s, const struct fault_plan *plan)
{
    struct error err = { 0 };
    rewind_to_before(r, s);
    fault_arm_point(plan->at, plan->nth);
    fault_for_good("");
    enum errc rc = run(r, s, &err);
    close_after(r, OK);
    fault_disarm();
    if (rc != OK && (err.code != rc || !err.text[0]))
        fail_msg("%s: %s: %s", s->name, errc_name(rc), err.text);
    if (strcmp(state_now(r), buf_cstr(&r->after)) && rc == OK)
        assert_state(r, s, &r->after, "done for good");
    else if (strcmp(buf_cstr(&r->now), buf_cstr(&r->after)))
        assert_state(r, s, &r->before, "failed for good");
    close_after(r, OK);
}

/* What opening finds is seen by opening: it has no state before. */
static void note_before(struct rig *r, const struct step *s)
{
    buf_clear(&r->before);
    if (!s->opens)
        buf_add_str(&r->before, state_now(r));
}

static void note_after(struct rig *r)
{
    buf_clear(&r->after);
    buf_add_str(&r->after, state_now(r));
}

/* Once without a fault, counting; then with each. What it leaves is what the next step finds. */
static void try_step(struct rig *r, const struct step *s)
{
    struct error err;
    struct fault_plan plan;
    rewind_to_before(r, s);
    note_before(r, s);
    fault_arm("", 0);
    OK_OR_FAIL(run(r, s, &err), &err);
    fault_plan_init(&plan);
    char *answer = strdup(buf_cstr(&r->answer));
    note_after(r);
    close_after(r, OK);
    shell("cp -r %s %s/next", r->f.path, r->root);
    rewind_to_before(r, s);
    while (fault_plan_arm(&plan)) {
        fail_once(r, s, &plan, answer);
        if (s->has_parts)
            fail_for_good(r, s, &plan);
        rewind_to_before(r, s);
    }
    close_after(r, OK);
    free(answer);
    printf("%s: %u faults\n", s->name, plan.failed);
    assert_true(plan.failed > 0);
    shell("rm -rf %s/before && mv %s/next %s/before", r->root, r->root, r->root);
}

/* An index that could neither be built nor be taken back: the next start builds it. */
static void spoil_an_index(struct rig *r, const struct step *s)
{
    struct error err;
    rewind_to_before(r, s);
    fault_arm("kv.full", 2); /* the first puts it into the catalog */
    fault_for_good("kv.full");
    assert_int_equal(add_index(r, "c", "{\"type\":\"persistent\",\"fields\":[\"n\",\"s\"]}", &err),
                     ERR_LIMIT);
    fault_disarm();
    assert_non_null(strstr(state_now(r), "not ready"));
    close_after(r, OK);
    shell("rm -rf %s/before && mv %s %s/before", r->root, r->f.path, r->root);
}

/* Hundreds of stores are opened: in memory when there is room. */
static const char *choose_directory(void)
{
    struct statvfs s;
    bool has_room = !statvfs("/dev/shm", &s) && s.f_bavail * s.f_frsize > 512 * (uint64_t)MIB;
    return has_room && !access("/dev/shm", W_OK) ? "/dev/shm" : "/tmp";
}

static int setup(void **out)
{
    struct rig *r = calloc(1, sizeof *r);
    log_set_level(LOG_ERROR);
    settings_init(&r->f.settings);
    r->f.settings.memtables_mb = 8;
    r->f.settings.block_cache_mb = 8;
    r->f.db = 1;
    r->f.arena = arena_new(0);
    snprintf(r->root, sizeof r->root, "%s/themis-fault-XXXXXX", choose_directory());
    assert_non_null(mkdtemp(r->root));
    snprintf(r->f.path, sizeof r->f.path, "%s/now", r->root);
    shell("mkdir %s/before", r->root);
    *out = r;
    return 0;
}

static int teardown(void **out)
{
    struct rig *r = *out;
    shell("rm -rf %s", r->root);
    arena_free(r->f.arena);
    buf_release(&r->answer);
    buf_release(&r->before);
    buf_release(&r->after);
    buf_release(&r->now);
    free(r);
    return 0;
}

static void each_fault_of_each_step_is_clean(void **out)
{
    struct rig *r = *out;
    static const struct step opens = { "opens_and_builds_an_index", open_store, .opens = true,
                                       .has_parts = true };
    for (size_t i = 0; i < ARRAY_LEN(life); i++)
        try_step(r, &life[i]);
    spoil_an_index(r, &life[1]);
    try_step(r, &opens);
    static const char *const prefixes[] = { "kv.", "store.", "base." };
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (fault_untried(prefixes[i]))
            fail_msg("no step passes the fault point %s", fault_untried(prefixes[i]));
}

/* ---- what a full disk must not leave behind ---- */

static void ids_are_covered_after_a_full_disk(void **out)
{
    struct rig *r = *out;
    struct error err;
    OK_OR_FAIL(open_store(r, &err), &err);
    OK_OR_FAIL(creates_a_collection(r, &err), &err);
    uint64_t last = 0;
    for (int i = 0; i < 100000; i++) /* past what is on disk */
        last = store_new_id(r->f.store);
    fault_arm("kv.full", 1);
    assert_int_equal(inserts_documents(r, &err), ERR_LIMIT);
    fault_disarm();
    OK_OR_FAIL(inserts_documents(r, &err), &err);
    close_after(r, OK);
    OK_OR_FAIL(open_store(r, &err), &err);
    assert_true(store_new_id(r->f.store) > last);
    close_after(r, OK);
}

static void an_unsynced_commit_is_synced_when_there_is_room_again(void **out)
{
    struct rig *r = *out;
    struct error err;
    OK_OR_FAIL(open_store(r, &err), &err);
    OK_OR_FAIL(creates_a_collection(r, &err), &err);
    static const struct edit one[] = { { 'i', "c", NULL, "{\"_key\":\"w\",\"n\":40}" } };
    fault_arm("kv.full", 2); /* the commit, then its sync */
    OK_OR_FAIL(edit(r, &(struct txn_options){ .no_sync = true }, one, 1, &err), &err);
    for (int i = 0; i < 1000 && fault_hits() < 3; i++)
        usleep(10 * 1000);
    assert_true(fault_hits() >= 3);
    fault_disarm();
    OK_OR_FAIL(store_check_writable(r->f.store, &err), &err);
    close_after(r, OK);
}

/* Or acknowledged commits could be missing without a word. */
static void a_mark_that_cannot_be_read_refuses_the_start(void **out)
{
    struct rig *r = *out;
    struct error err;
    OK_OR_FAIL(open_store(r, &err), &err);
    close_after(r, OK);
    fault_arm("store.mark", 2); /* opened, then read */
    assert_int_equal(open_store(r, &err), ERR_IO);
    fault_disarm();
    assert_non_null(strstr(err.text, "cannot read"));
    OK_OR_FAIL(open_store(r, &err), &err);
    close_after(r, OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_fault_of_each_step_is_clean),
        TEST(ids_are_covered_after_a_full_disk),
        TEST(an_unsynced_commit_is_synced_when_there_is_room_again),
        TEST(a_mark_that_cannot_be_read_refuses_the_start),
    };
    return cmocka_run_group_tests_name("store faults", tests, NULL, NULL);
}
