/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and unloading beneath running requests, and the one budget of memory. */
#include "base/machine.h"
#include "collect.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS = 6, ROUNDS = IS_SANITIZED ? 25 : 60 };

static struct model_unloaded unload(struct models *m, const char *name, uint64_t drain_ms)
{
    struct model_unloaded out;
    struct error err;
    if (models_unload(m, slice_str(name), drain_ms, &out, &err) != OK)
        fail_msg("%s", err.text);
    return out;
}

static void an_unloaded_model_is_not_found_and_can_come_back(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct generator *g = models_generator(m);
    struct model_unloaded gone;
    struct model_info info[4];
    struct collect c;
    struct error err;
    size_t n;
    load(m, "a", "sim:chat,script=first");
    load(m, "b", "sim:chat,script=second");
    assert_int_equal(unload(m, "a", 1000).cancelled, 0);
    assert_int_equal(g->models(g, info, 4), 1);
    assert_string_equal(info[0].name, "b");
    collect_init(&c);
    struct gen_request r = collect_request(&c, "x");
    r.model = slice_str("a");
    assert_int_equal(g->submit(g, &r, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "named a"));
    assert_non_null(strstr(err.text, "b (chat)"));
    assert_int_equal(g->count_tokens(g, slice_str("a"), slice_str("x"), &n, &err), ERR_NOT_FOUND);
    assert_int_equal(models_unload(m, slice_str("a"), 0, &gone, &err), ERR_NOT_FOUND);
    load(m, "a", "sim:chat,script=third");
    submit(m, &r);
    collect_last(&c);
    assert_string_equal(collect_text(&c), "third");
    collect_release(&c);
    models_free(m);
}

struct unloading {
    struct models *m;
    uint64_t drain_ms;
    struct model_unloaded out;
    pthread_t thread;
};

static void *unload_it(void *arg)
{
    struct unloading *u = arg;
    u->out = unload(u->m, "a", u->drain_ms);
    return NULL;
}

static void begin_unload(struct unloading *u, struct models *m, uint64_t drain_ms)
{
    struct generator *g = models_generator(m);
    struct model_info info;
    *u = (struct unloading){ .m = m, .drain_ms = drain_ms };
    pthread_create(&u->thread, NULL, unload_it, u);
    while (g->model(g, slice_str("a"), MODEL_CHAT, &info, NULL) == OK)
        nap_ms(1);
}

static void running_requests_end_before_their_model_goes(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct generator *g = models_generator(m);
    struct unloading u;
    struct model_info info;
    struct collect c, late;
    struct error err;
    load(m, "a", "sim:chat,decode=40,script=one two three four five six seven eight");
    collect_init(&c);
    collect_init(&late);
    struct gen_request r = collect_request(&c, "x"), again = collect_request(&late, "x");
    submit(m, &r);
    collect_events(&c, 2);
    begin_unload(&u, m, 60000);
    assert_int_equal(g->submit(g, &again, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "loaded: none"));
    assert_int_equal(models_load(m, "a", "sim:chat", &err), ERR_EXISTS);
    assert_non_null(strstr(err.text, "being unloaded"));
    assert_int_equal(g->models(g, &info, 1), 1);
    assert_int_equal(info.state, MODEL_LEAVING);
    collect_last(&c);
    assert_int_equal(c.last.finish, GEN_STOP);
    assert_string_equal(collect_text(&c), "one two three four five six seven eight");
    pthread_join(u.thread, NULL);
    assert_int_equal(u.out.cancelled, 0);
    assert_int_equal(g->models(g, &info, 1), 0);
    collect_release(&c);
    collect_release(&late);
    models_free(m);
}

static void the_drain_has_a_limit(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct collect c;
    struct models_stats stats;
    load(m, "a", "sim:chat,decode=5,script=one two three four five six seven eight nine ten");
    collect_init(&c);
    struct gen_request r = collect_request(&c, "x");
    submit(m, &r);
    collect_events(&c, 1);
    assert_int_equal(unload(m, "a", 20).cancelled, 1);
    collect_last(&c);
    assert_int_equal(c.last.finish, GEN_FAILED);
    assert_int_equal(c.err.code, ERR_GONE);
    assert_non_null(strstr(c.err.text, "unloaded"));
    models_stats(m, &stats);
    assert_true(stats.completion_tokens > 0); /* what it did is not forgotten */
    assert_int_equal(stats.memory_bytes, 0);
    collect_release(&c);
    models_free(m);
}

static void embeddings_end_or_finish_too(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct generator *g = models_generator(m);
    struct slice text = slice_str("some words to embed");
    struct vectors v;
    struct error err;
    load(m, "v", "sim:embed,dim=8,prefill=20");
    vectors_init(&v);
    struct embed_request r = { .texts = &text, .count = 1, .on_done = vectors_done, .ctx = &v };
    ok(g->embed(g, &r, &err), &err);
    assert_int_equal(unload(m, "v", 60000).cancelled, 0);
    vectors_wait(&v);
    assert_false(v.has_failed);
    assert_int_equal(g->embed(g, &r, &err), ERR_NOT_FOUND);
    vectors_release(&v);

    load(m, "v", "sim:embed,dim=8,prefill=1");
    vectors_init(&v);
    r.ctx = &v;
    ok(g->embed(g, &r, &err), &err);
    assert_int_equal(unload(m, "v", 10).cancelled, 1);
    vectors_wait(&v);
    assert_int_equal(v.err.code, ERR_GONE);
    assert_non_null(strstr(v.err.text, "unloaded"));
    vectors_release(&v);
    models_free(m);
}

static void a_stop_does_not_wait_for_a_drain(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct unloading u;
    struct collect c;
    struct timespec begin, end;
    load(m, "a", "sim:chat,decode=1,script=one two three four five six seven eight nine ten");
    collect_init(&c);
    struct gen_request r = collect_request(&c, "x");
    submit(m, &r);
    begin_unload(&u, m, 3600000);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    models_stop(m);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < 20);
    collect_last(&c);
    pthread_join(u.thread, NULL);
    collect_release(&c);
    models_free(m);
}

/* ---- the budget ---- */

static void a_model_that_does_not_fit_is_refused_with_the_figures(void **state)
{
    (void)state;
    static const char *const conf[] = { "model_memory_mb=1000", NULL };
    struct models *m = models_with(conf);
    struct error err;
    struct models_stats stats;
    load(m, "small", "sim:chat,memory=300");
    assert_int_equal(models_load(m, "large", "sim:chat,memory=701", &err), ERR_LIMIT);
    assert_int_equal(error_http(&err), 507);
    assert_non_null(strstr(err.text, "large"));
    assert_non_null(strstr(err.text, "needs 701 MiB (weights 701,"));
    assert_non_null(strstr(err.text, "700 of 1000 MiB"));
    assert_non_null(strstr(err.text, "small 300 MiB"));
    models_stats(m, &stats);
    assert_int_equal(stats.memory_bytes, 300 * MIB);
    assert_int_equal(stats.memory_limit_bytes, 1000 * MIB);
    load(m, "exact", "sim:embed,memory=700");
    unload(m, "small", 0);
    load(m, "again", "sim:chat,memory=300");
    models_free(m);
}

struct racer {
    struct models *m;
    char name[16];
    enum errc rc;
    pthread_t thread;
};

static void *load_it(void *arg)
{
    struct racer *r = arg;
    struct error err;
    r->rc = models_load(r->m, r->name, "sim:embed,memory=100", &err);
    return NULL;
}

/* Room for three: eight that load at once are not all let in by the same free memory. */
static void loads_at_once_share_the_budget(void **state)
{
    (void)state;
    static const char *const conf[] = { "model_memory_mb=399", NULL };
    struct models *m = models_with(conf);
    struct racer racers[8];
    int loaded = 0;
    for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
        racers[i] = (struct racer){ .m = m };
        snprintf(racers[i].name, sizeof racers[i].name, "m%zu", i);
        pthread_create(&racers[i].thread, NULL, load_it, &racers[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
        pthread_join(racers[i].thread, NULL);
        loaded += racers[i].rc == OK;
        assert_true(racers[i].rc == OK || racers[i].rc == ERR_LIMIT);
    }
    assert_int_equal(loaded, 3);
    models_free(m);
}

static void a_load_that_fails_gives_its_memory_back(void **state)
{
    (void)state;
    static const char *const conf[] = { "model_memory_mb=100", NULL };
    char path[] = "/tmp/models_test_XXXXXX";
    struct models *m = models_with(conf);
    struct models_stats stats;
    struct error err;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "no model", 8), 8);
    close(fd);
    assert_int_equal(models_load(m, "bad", path, &err), ERR_CORRUPT);
    models_stats(m, &stats);
    assert_int_equal(stats.memory_bytes, 0);
    load(m, "good", "sim:chat,memory=100");
    unlink(path);
    models_free(m);
}

/* ---- under load ---- */

struct stream {
    struct models *m;
    const char *model;
    atomic_bool *is_over;
    int answers, refused, broken;
    bool is_wrong;
    pthread_t thread;
};

static bool is_known_end(struct stream *s, const struct collect *c)
{
    if (c->last.finish == GEN_FAILED) {
        s->broken++;
        return c->err.code == ERR_GONE;
    }
    s->answers++;
    return c->last.finish == GEN_STOP &&
           strcmp(buf_cstr((struct buf *)&c->text), "one two three four") == 0;
}

/* Long enough that a model often leaves while it is tokenised. */
static char long_text[200 * 1000];

static void *ask_on(void *arg)
{
    struct stream *s = arg;
    struct slice text = slice_of(long_text, sizeof long_text);
    struct generator *g = models_generator(s->m);
    while (!atomic_load(s->is_over)) {
        struct collect c;
        struct error err;
        size_t n;
        collect_init(&c);
        struct gen_request r = collect_request(&c, "what is there to say about it");
        r.model = slice_str(s->model);
        enum errc rc = g->submit(g, &r, &err);
        if (rc == OK) {
            collect_last(&c);
            s->is_wrong |= !is_known_end(s, &c);
        } else {
            s->refused++;
            s->is_wrong |= rc != ERR_NOT_FOUND;
            nap_ms(1);
        }
        rc = g->count_tokens(g, slice_str(s->model), text, &n, &err);
        s->is_wrong |= rc == OK ? n == 0 : rc != ERR_NOT_FOUND;
        collect_release(&c);
    }
    return NULL;
}

static void streams_survive_loading_and_unloading_beneath_them(void **state)
{
    (void)state;
    struct models *m = models_with((const char *const[]){ "lanes=2", NULL });
    struct stream streams[STREAMS];
    atomic_bool is_over = false;
    int answers = 0, refused = 0, broken = 0;
    for (size_t i = 0; i < sizeof long_text; i++)
        long_text[i] = i % 7 ? 'a' : ' ';
    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = (struct stream){ .m = m, .model = i % 2 ? "a" : "b", .is_over = &is_over };
        pthread_create(&streams[i].thread, NULL, ask_on, &streams[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        load(m, "a", "sim:chat,decode=2000,script=one two three four");
        if (i % 2 == 0)
            load(m, "b", "sim:chat,decode=2000,script=one two three four");
        nap_ms(10);
        unload(m, "a", i % 3 ? 1000 : 0);
        if (i % 2 == 1)
            unload(m, "b", i % 4 == 1 ? 1000 : 0);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < STREAMS; i++) {
        pthread_join(streams[i].thread, NULL);
        assert_false(streams[i].is_wrong);
        answers += streams[i].answers;
        refused += streams[i].refused;
        broken += streams[i].broken;
    }
    print_message("%d answers, %d refused, %d broken off\n", answers, refused, broken);
    assert_true(answers > 0 && refused > 0);
    models_free(m);
}

/* ---- real files ---- */

/* A copy that a test may damage; NULL: there is no such model here. */
static const char *copy_of_model(const char *pattern, char path[64])
{
    const char *dir = getenv("THEMIS_MODELS");
    char command[512];
    snprintf(path, 64, "/tmp/models_test_%d.gguf", (int)getpid());
    snprintf(command, sizeof command, "cp %s/%s %s 2> /dev/null", dir ? dir : "build/models",
             pattern, path);
    return system(command) == 0 ? path : NULL;
}

static void a_file_cut_while_it_serves_changes_nothing(void **state)
{
    (void)state;
    char path[64];
    struct collect before, after;
    if (IS_SANITIZED || !copy_of_model("SmolLM2*.gguf", path))
        skip();
    struct models *m = models_with((const char *const[]){ "lanes=1", NULL });
    load(m, "a", path);
    assert_int_equal(truncate(path, 100), 0); /* in place: a mapping of it would raise SIGBUS */
    collect_init(&before);
    struct gen_request r = collect_request(&before, "The capital of France is");
    r.max_tokens = 8;
    submit(m, &r);
    collect_last(&before);
    assert_int_equal(before.last.completion_tokens, 8);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "GGUF", 4), 4);
    close(fd);
    collect_init(&after);
    r.on_event = collect_event;
    r.ctx = &after;
    r.cancel = &after.cancel;
    submit(m, &r);
    collect_last(&after);
    assert_string_equal(collect_text(&after), collect_text(&before));
    collect_release(&before);
    collect_release(&after);
    unlink(path);
    models_free(m);
}

static void memory_of_a_real_model_is_bounded_and_given_back(void **state)
{
    (void)state;
    char path[64];
    struct models_stats stats;
    struct collect c;
    if (IS_SANITIZED || !copy_of_model("SmolLM2*.gguf", path))
        skip();
    struct models *m = models_with((const char *const[]){ "lanes=2", NULL });
    process_memory_give_back();
    uint64_t before = process_memory_bytes();
    for (int round = 0; round < 3; round++) {
        load(m, "a", path);
        collect_init(&c);
        struct gen_request r = collect_request(&c, "The capital of France is");
        r.max_tokens = 8;
        submit(m, &r);
        collect_last(&c);
        collect_release(&c);
        models_stats(m, &stats);
        uint64_t loaded = process_memory_bytes() - before;
        struct model_unloaded gone = unload(m, "a", 1000);
        int64_t left = (int64_t)process_memory_bytes() - (int64_t)before;
        print_message("footprint %llu MiB, resident %llu MiB, left after unloading %lld MiB\n",
                      (unsigned long long)(stats.memory_bytes / MIB),
                      (unsigned long long)(loaded / MIB), (long long)(left / (int64_t)MIB));
        assert_true(loaded > 90 * MIB && loaded <= stats.memory_bytes);
        assert_true(gone.returned_bytes > 90 * MIB);
        assert_true(left < (int64_t)(40 * MIB));
    }
    unlink(path);
    models_free(m);
}

static void a_file_with_another_digest_is_refused(void **state)
{
    (void)state;
    char path[64];
    struct error err;
    struct model_info info;
    if (IS_SANITIZED || !copy_of_model("*MiniLM*.gguf", path))
        skip();
    struct models *m = models_with(NULL);
    struct generator *g = models_generator(m);
    struct model_source src = { .name = "v", .path = path };
    ok(models_load_source(m, &src, &err), &err);
    ok(g->model(g, slice_str("v"), MODEL_EMBEDDING, &info, &err), &err);
    assert_int_equal(strlen(info.sha256), 64);
    unload(m, "v", 0);
    src.sha256 = info.sha256;
    ok(models_load_source(m, &src, &err), &err);
    unload(m, "v", 0);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 20 * (off_t)MIB), 1); /* a weight: the structure holds */
    close(fd);
    assert_int_equal(models_load_source(m, &src, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.text, "SHA-256"));
    unlink(path);
    models_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unloaded_model_is_not_found_and_can_come_back),
        cmocka_unit_test(running_requests_end_before_their_model_goes),
        cmocka_unit_test(the_drain_has_a_limit),
        cmocka_unit_test(embeddings_end_or_finish_too),
        cmocka_unit_test(a_stop_does_not_wait_for_a_drain),
        cmocka_unit_test(a_model_that_does_not_fit_is_refused_with_the_figures),
        cmocka_unit_test(loads_at_once_share_the_budget),
        cmocka_unit_test(a_load_that_fails_gives_its_memory_back),
        cmocka_unit_test(streams_survive_loading_and_unloading_beneath_them),
        cmocka_unit_test(a_file_cut_while_it_serves_changes_nothing),
        cmocka_unit_test(memory_of_a_real_model_is_bounded_and_given_back),
        cmocka_unit_test(a_file_with_another_digest_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
