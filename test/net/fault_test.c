/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every fault point that a talk with the server passes fails in turn, once. The talk ends as
 * without it, or its connection ends: closed, refused by the client with an error that has a text, or answered with
 * 500 or 503. Another connection lives on, nothing stays open, and the same talk succeeds again.
 *
 * A new fault point needs nothing here unless no talk passes it, which is reported. Small
 * allocations have no points: they abort (docs/STYLE.md).
 */
#include "certs.h"
#include "h2peer.h"

#include "../fault_plan.h"
#include "base/log.h"
#include "net/client.h"
#include "net/tls.h"
#include <dirent.h>
#include <signal.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

static struct certs certs;

/* A node that lives through the faults of a talk, and a connection that must not notice. */
struct rig {
    struct fixture *f;
    int bystander;
    const char *scheme, *ca_file;
};

/* How a talk ends. */
enum ending { WHOLE, CUT };

typedef enum ending (*talk_fn)(struct rig *r);

/* ---- talks over a bare socket ---- */

/* Sends the pieces and reads until what must be in the answers has come so often, or the end. */
static enum ending exchange_bytes(struct rig *r, const char *const *pieces, size_t count,
                                  const char *wanted, size_t times)
{
    struct buf in;
    int fd = dial(r->f);
    bool is_whole = true;

    buf_init(&in, 0);
    for (size_t i = 0; i < count && is_whole; i++)
        is_whole = put(fd, pieces[i]);
    is_whole = get_until(fd, &in, wanted, times) && is_whole;
    if (!is_whole && errno == EAGAIN)
        fail_msg("%s: the connection stays open after: %s", fault_last(), buf_cstr(&in));
    if (is_whole && count_of(&in, " 200 OK") < times)
        fail_msg("%s: %s", fault_last(), buf_cstr(&in));
    close(fd);
    buf_release(&in);
    return is_whole ? WHOLE : CUT;
}

#define EXCHANGE(r, wanted, times, ...)                                                            \
    exchange_bytes(r, (const char *const[]){ __VA_ARGS__ },                                        \
                   ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })), wanted, times)

static enum ending asks_twice(struct rig *r)
{
    return EXCHANGE(r, " 200 OK", 2, GET("/hello"), GET("/pool"));
}

static enum ending sends_a_body(struct rig *r)
{
    return EXCHANGE(r, "\r\n\r\nhalf and half", 1,
                    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\nhalf ",
                    "and half");
}

static enum ending sends_a_stream(struct rig *r)
{
    atomic_store(&r->f->streamed, 0);
    return EXCHANGE(
        r, "\r\n\r\n9", 1,
        "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
        "5\r\nfives\r\n0\r\n\r\n");
}

static enum ending reads_a_stream(struct rig *r)
{
    return EXCHANGE(r, "\r\n0\r\n\r\n", 1, GET("/stream?40"));
}

static enum ending reads_events(struct rig *r)
{
    return EXCHANGE(r, "\r\n0\r\n\r\n", 1, GET("/events"));
}

/* ---- talks of our client ---- */

static enum errc call(struct http_client *c, const char *method, const char *path,
                      struct slice body, const char *wanted, struct error *err)
{
    struct http_reply reply;
    struct http_call request = {
        .method = method, .path = path, .content_type = "text/plain", .body = body
    };
    enum errc rc = http_client_call(c, &request, &reply, err);

    if (rc != OK)
        return rc;
    if (reply.status == 500 || reply.status == 503)
        rc = fail(err, ERR_BUSY, "%d", reply.status);
    else if (reply.status != 200 || !has(&reply.body, wanted))
        fail_msg("%s: %d %s", fault_last(), reply.status, buf_cstr(&reply.body));
    http_reply_release(&reply);
    return rc;
}

/* Several calls over one kept connection, one of them with a body that does not fit a record. */
static enum ending calls(struct rig *r)
{
    enum { BIG = 40 * KIB };
    struct error err = { 0 };
    struct http_client *c = NULL;
    char url[64], big[BIG];
    struct http_client_options opt = { .url = url, .ca_file = r->ca_file };
    enum errc rc = OK;

    memset(big, 'x', BIG);
    snprintf(url, sizeof url, "%s://127.0.0.1:%u", r->scheme, r->f->port);
    TRY(http_client_new(&c, &opt, &err));
    TRY(call(c, "GET", "/hello", slice_str(""), "hello", &err));
    TRY(call(c, "POST", "/echo", slice_of(big, BIG), "xxxx", &err));
    TRY(call(c, "GET", "/stream?20", slice_str(""), "aaaa", &err));
out:
    http_client_free(c);
    if (rc != OK && (err.code != rc || !err.text[0]))
        fail_msg("%s: %s: %s", fault_last(), errc_name(rc), err.text);
    return rc == OK ? WHOLE : CUT;
}

/* Three requests side by side on one connection. */
static enum ending streams(struct rig *r)
{
    struct h2_peer *p = mem_zalloc(sizeof *p);
    enum ending ending = WHOLE;

    h2_open(p, r->f);
    h2_get(p, "/hello");
    h2_post(p, "/echo", 20000);
    h2_get(p, "/stream?20");
    h2_until(p, p->closed == p->count);
    if (!p->is_gone && p->closed < p->count)
        fail_msg("%s: a stream does not end", fault_last());
    for (size_t i = 0; i < p->count; i++) {
        const struct h2_answer *a = &p->answers[i];
        if (a->is_closed && a->status != 200 && a->status != 500 && a->status != 503)
            fail_msg("%s: %d", fault_last(), a->status);
        if (!a->is_closed || a->code || a->status != 200)
            ending = CUT;
    }
    h2_close(p);
    mem_free(p);
    return ending;
}

/* ---- failing in turn ---- */

static size_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Connections end in the loop's own time. */
static void wait_for_rest(struct rig *r)
{
    size_t rest = r->bystander >= 0 ? 1000 : 0;

    for (int i = 0; i < 3000; i++) {
        in_loop(r->f, count_in_loop);
        if (atomic_load(&r->f->active) == rest)
            return;
        sleep_ms(1);
    }
    fail_msg("%s: exchanges or connections stay: %zu", fault_last(), atomic_load(&r->f->active));
}

static void ask_bystander(struct rig *r)
{
    struct buf in;

    buf_init(&in, 0);
    if (!put(r->bystander, GET("/hello")) || !get_until(r->bystander, &in, "\r\n\r\nhello", 1))
        fail_msg("%s: another connection has ended", fault_last());
    buf_release(&in);
}

static void rig_open(struct rig *r, struct tls_config *tls)
{
    *r = (struct rig){ .f = fixture_new_tls(default_limits(), tls), .bystander = -1 };
    r->scheme = tls ? "https" : "http";
    r->ca_file = tls ? certs_path(&certs, "ca.pem") : NULL;
    if (tls)
        return;
    r->bystander = dial(r->f);
    ask_bystander(r);
}

static void rig_close(struct rig *r)
{
    if (r->bystander >= 0)
        close(r->bystander);
    fixture_free(r->f);
}

/* One hit of one point fails. */
static void fail_one(struct rig *r, talk_fn run, struct fault_plan *plan, size_t files)
{
    enum ending ending = run(r);

    fault_plan_note(plan);
    if (!fault_last())
        assert_int_equal(ending, WHOLE);
    wait_for_rest(r);
    if (r->bystander >= 0)
        ask_bystander(r);
    if (run(r) != WHOLE)
        fail_msg("%s: the next talk fails, too", fault_last());
    wait_for_rest(r);
    if (open_files() != files)
        fail_msg("%s: %zu open files instead of %zu", fault_last(), open_files(), files);
}

static void fail_each(struct rig *r, talk_fn run, const char *name)
{
    struct fault_plan plan;

    fault_arm("", 0);
    assert_int_equal(run(r), WHOLE);
    wait_for_rest(r);
    fault_plan_init(&plan);
    for (size_t files = open_files(); fault_plan_arm(&plan);)
        fail_one(r, run, &plan, files);
    printf("%s: %u faults\n", name, plan.failed);
    assert_true(plan.failed > 0);
}

#define FAIL_EACH(r, talk) fail_each(r, talk, #talk)

static void each_fault_of_a_talk_ends_that_talk_alone(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    FAIL_EACH(&r, asks_twice);
    FAIL_EACH(&r, sends_a_body);
    FAIL_EACH(&r, sends_a_stream);
    FAIL_EACH(&r, reads_a_stream);
    FAIL_EACH(&r, reads_events);
    FAIL_EACH(&r, calls);
    FAIL_EACH(&r, streams);
    rig_close(&r);
}

static void each_fault_of_a_talk_over_tls_ends_that_talk_alone(void **state)
{
    struct tls_config *tls = NULL;
    struct error err;
    struct rig r;

    (void)state;
    assert_int_equal(tls_config_server(&tls, certs_path(&certs, "good.pem"),
                                       certs_path(&certs, "good.key"), &err),
                     OK);
    rig_open(&r, tls);
    FAIL_EACH(&r, calls);
    rig_close(&r);
}

/* ---- starting ---- */

static void ignore_request(void *ctx, struct exchange *x)
{
    (void)ctx, (void)x;
}

static enum errc start_and_stop(struct error *err)
{
    struct http_server_options opt = {
        .host = "127.0.0.1",
        .limits = default_limits(),
        .handler = { .on_headers = ignore_request, .on_request = ignore_request },
    };
    struct http_server *server = NULL;
    struct loop *loop = NULL;
    enum errc rc = OK;

    TRY(loop_new(&loop, err));
    TRY(http_server_new(&server, loop, &opt, err));
    assert_true(http_server_port(server) != 0);
out:
    http_server_free(server);
    loop_free(loop);
    return rc;
}

static enum errc code_of(const char *point)
{
    static const struct {
        const char *point;
        enum errc code;
    } rows[] = {
        { "loop.init", ERR_LIMIT },        { "loop.eventfd", ERR_LIMIT },
        { "loop.poll", ERR_LIMIT },        { "loop.timerfd", ERR_LIMIT },
        { "server.poll", ERR_LIMIT },      { "server.bind", ERR_BUSY },
        { "server.resolve", ERR_INVALID },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!strcmp(rows[i].point, point))
            return rows[i].code;
    return ERR_IO;
}

static void each_fault_of_a_start_is_answered(void **state)
{
    struct error err = { 0 };
    struct fault_plan plan;

    (void)state;
    fault_arm("", 0);
    assert_int_equal(start_and_stop(&err), OK);
    fault_plan_init(&plan);
    for (size_t files = open_files(); fault_plan_arm(&plan);) {
        enum errc rc = start_and_stop(&err);
        fault_plan_note(&plan);
        assert_non_null(fault_last());
        if (rc != code_of(fault_last()) || err.code != rc || !err.text[0])
            fail_msg("%s gave %s: %s", fault_last(), errc_name(rc), err.text);
        assert_int_equal(open_files(), files);
        assert_int_equal(start_and_stop(&err), OK);
        assert_int_equal(open_files(), files);
    }
    assert_true(plan.failed > 0);
}

/* Runs last. */
static void every_point_has_failed(void **state)
{
    static const char *const prefixes[] = { "loop.", "server.", "conn.", "tls.", "wire." };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (fault_untried(prefixes[i]))
            fail_msg("no talk passes the fault point %s", fault_untried(prefixes[i]));
}

static int make_certs(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    signal(SIGPIPE, SIG_IGN); /* of the bare sockets */
    certs_open(&certs);
    certs_add(&certs, "good", "IP:127.0.0.1", 3600);
    return 0;
}

static int remove_certs(void **state)
{
    (void)state;
    certs_close(&certs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_of_a_start_is_answered),
        cmocka_unit_test(each_fault_of_a_talk_ends_that_talk_alone),
        cmocka_unit_test(each_fault_of_a_talk_over_tls_ends_that_talk_alone),
        cmocka_unit_test(every_point_has_failed),
    };

    return cmocka_run_group_tests_name("net faults", tests, make_certs, remove_certs);
}
