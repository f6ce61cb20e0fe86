/* SPDX-License-Identifier: Apache-2.0 */
#include "aql_sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aql_data.h"
#include "base/val_text.h"
#include "bench_clients.h"

enum { CHECKS = 3, PIECE = 64 * KIB, COPY_BYTES = MIB, MANY = 8 };

static void values_init(struct aql_values *v)
{
    for (size_t i = 0; i < AQL_VALUES_MAX; i++)
        buf_init(&v->text[i], 0);
}

static void values_release(struct aql_values *v)
{
    for (size_t i = 0; i < AQL_VALUES_MAX; i++)
        buf_release(&v->text[i]);
}

static void values_choose(struct aql_values *v, const struct aql_row *row, uint64_t chance)
{
    for (size_t i = 0; i < AQL_VALUES_MAX; i++)
        buf_clear(&v->text[i]);
    if (row->choose)
        row->choose(chance, v);
}

/* ---- themisd ---- */

struct http_conn {
    int fd;
    struct buf request, reply;
    size_t head; /* bytes of the reply before its body */
};

static void http_open(struct http_conn *c, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1;
    buf_init(&c->request, 0);
    buf_init(&c->reply, 0);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to))
        bench_fail("cannot connect to port %u: %s", port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void http_close(struct http_conn *c)
{
    close(c->fd);
    buf_release(&c->request);
    buf_release(&c->reply);
}

/* The texts of queries have no quotes and no newlines of their own. */
static void write_request(struct http_conn *c, const struct aql_row *row,
                          const struct aql_values *values)
{
    struct buf body;
    buf_init(&body, 0);
    buf_printf(&body, "{\"query\":\"%s\",\"batchSize\":10000000,\"bindVars\":{", row->aql);
    for (size_t i = 0; row->kinds && row->kinds[i]; i++) {
        const char *quote = row->kinds[i] == 's' ? "\"" : "";
        buf_printf(&body, "%s\"%c\":%s", i ? "," : "", (char)('a' + (int)i), quote);
        buf_add_slice(&body, buf_slice(&values->text[i]));
        buf_add_str(&body, quote);
    }
    buf_add_str(&body, "}}");
    buf_clear(&c->request);
    bench_http_post(&c->request, "/_api/cursor", buf_cstr(&body));
    buf_release(&body);
}

static void send_request(struct http_conn *c)
{
    for (size_t sent = 0; sent < c->request.len;) {
        ssize_t n = send(c->fd, c->request.ptr + sent, c->request.len - sent, MSG_NOSIGNAL);
        if (n <= 0)
            bench_fail("cannot send a request: %s", strerror(errno));
        sent += (size_t)n;
    }
}

/* Bytes of the whole reply, once its head is there; else 0. */
static size_t reply_bytes(struct http_conn *c)
{
    static const char length[] = "\r\nContent-Length:";
    const char *text = buf_cstr(&c->reply);
    const char *end = strstr(text, "\r\n\r\n"), *at = strcasestr(text, length);
    if (!end)
        return 0;
    if (!at || at > end)
        bench_fail("a reply without length: %.200s", text);
    c->head = (size_t)(end + 4 - text);
    return c->head + strtoul(at + strlen(length), NULL, 10);
}

static void read_reply(struct http_conn *c)
{
    static _Thread_local char piece[PIECE];
    size_t want = 0;
    buf_clear(&c->reply);
    while (!want || c->reply.len < want) {
        ssize_t n = recv(c->fd, piece, sizeof piece, 0);
        if (n <= 0)
            bench_fail("the server closed a connection: %s", strerror(errno));
        buf_add(&c->reply, piece, (size_t)n);
        want = want ? want : reply_bytes(c);
    }
}

/* False: another transaction won, and the call is to be made again. */
static bool http_call(struct http_conn *c, const struct aql_row *row,
                      const struct aql_values *values)
{
    write_request(c, row, values);
    send_request(c);
    read_reply(c);
    if (strncmp(buf_cstr(&c->reply), "HTTP/1.1 409", 12) == 0)
        return false;
    if (strncmp(buf_cstr(&c->reply), "HTTP/1.1 201", 12) != 0)
        bench_fail("%s: %.600s", row->what, buf_cstr(&c->reply));
    return true;
}

/* Rows that were answered, or documents that were written. */
static uint64_t http_rows(const struct http_conn *c, const struct aql_row *row)
{
    struct arena *arena = arena_new(0);
    struct error err;
    struct val reply;
    struct slice body = slice_of(c->reply.ptr + c->head, c->reply.len - c->head);
    bench_must(val_parse(body, arena, &reply, &err), &err, "reading a reply");
    uint64_t rows = val_count(val_get(reply, slice_str("result")));
    if (row->is_write)
        rows = (uint64_t)val_int(
            val_get(val_get(val_get(reply, slice_str("extra")), slice_str("stats")),
                    slice_str("writesExecuted")));
    arena_free(arena);
    return rows;
}

/* ---- PostgreSQL ---- */

static PGconn *pg_open(const struct aql_sides *s)
{
    char address[600];
    snprintf(address, sizeof address, "host=%s user=bench dbname=postgres", s->theirs.dir);
    PGconn *conn = PQconnectdb(address);
    if (PQstatus(conn) != CONNECTION_OK)
        bench_fail("cannot connect to PostgreSQL: %s", PQerrorMessage(conn));
    return conn;
}

static void pg_do(PGconn *conn, const char *sql)
{
    PGresult *r = PQexec(conn, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        bench_fail("'%s': %s", sql, PQerrorMessage(conn));
    PQclear(r);
}

static void pg_prepare(PGconn *conn, const struct aql_row *row, unsigned parallel)
{
    char set[80];
    snprintf(set, sizeof set, "SET max_parallel_workers_per_gather = %u", parallel);
    pg_do(conn, set);
    PGresult *r = PQprepare(conn, "row", row->sql, 0, NULL);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        bench_fail("'%s': %s", row->sql, PQerrorMessage(conn));
    PQclear(r);
}

static uint64_t pg_call(PGconn *conn, const struct aql_row *row, struct aql_values *values)
{
    const char *texts[AQL_VALUES_MAX];
    int count = row->kinds ? (int)strlen(row->kinds) : 0;
    for (int i = 0; i < count; i++)
        texts[i] = buf_cstr(&values->text[i]);
    PGresult *r = PQexecPrepared(conn, "row", count, texts, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        bench_fail("%s: %s", row->what, PQerrorMessage(conn));
    uint64_t rows = row->is_write ? strtoull(PQcmdTuples(r), NULL, 10) : (uint64_t)PQntuples(r);
    PQclear(r);
    return rows;
}

static void pg_copy(PGconn *conn, const struct aql_table *table)
{
    char sql[100];
    struct buf lines;
    buf_init(&lines, 0);
    snprintf(sql, sizeof sql, "COPY %s FROM STDIN", table->name);
    PGresult *r = PQexec(conn, sql);
    if (PQresultStatus(r) != PGRES_COPY_IN)
        bench_fail("'%s': %s", sql, PQerrorMessage(conn));
    PQclear(r);
    for (uint64_t i = 0; i < table->count; i++) {
        table->copy_line(i, &lines);
        if (lines.len < COPY_BYTES && i + 1 < table->count)
            continue;
        if (PQputCopyData(conn, lines.ptr, (int)lines.len) != 1)
            bench_fail("COPY: %s", PQerrorMessage(conn));
        buf_clear(&lines);
    }
    if (PQputCopyEnd(conn, NULL) != 1)
        bench_fail("COPY: %s", PQerrorMessage(conn));
    r = PQgetResult(conn);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        bench_fail("COPY: %s", PQerrorMessage(conn));
    PQclear(r);
    while ((r = PQgetResult(conn)) != NULL)
        PQclear(r);
    buf_release(&lines);
}

static void pg_fill(const struct aql_sides *s, const unsigned *tables, size_t count)
{
    PGconn *conn = pg_open(s);
    for (size_t i = 0; i < count; i++) {
        const struct aql_table *table = aql_table(tables[i]);
        pg_do(conn, table->create);
        if (table->count)
            pg_copy(conn, table);
        if (table->create_indexes)
            pg_do(conn, table->create_indexes);
    }
    pg_do(conn, "VACUUM ANALYZE");
    pg_do(conn, "CHECKPOINT");
    PQfinish(conn);
}

/* ---- both ---- */

void aql_sides_start(struct aql_sides *s, const char *name, const unsigned *tables, size_t count)
{
    static const char *const arguments[] = { "--set", "block_cache_mb=512", NULL };
    struct bench_store store;
    aql_fill_store(&store, name, tables, count);
    bench_server_start(&s->ours, store.path, arguments);
    bench_postgres_start(&s->theirs, "SELECT 1");
    pg_fill(s, tables, count);
    bench_postgres_ask(&s->theirs,
                       "SELECT string_agg(name || '=' || setting, ' ') FROM pg_settings WHERE name "
                       "IN ('synchronous_commit', 'fsync', 'shared_buffers', 'work_mem', 'jit', "
                       "'effective_cache_size', 'random_page_cost', 'server_version_num')",
                       s->settings, sizeof s->settings);
}

void aql_sides_stop(struct aql_sides *s)
{
    bench_postgres_stop(&s->theirs);
    bench_server_stop(&s->ours);
}

struct comparison {
    struct aql_sides *sides;
    const struct aql_row *row;
    unsigned clients, parallel;
    uint64_t refused;
};

static void client_ours(struct bench_client *c)
{
    const struct comparison *cmp = c->ctx;
    struct aql_values values;
    struct http_conn conn;
    values_init(&values);
    http_open(&conn, cmp->sides->ours.port);
    bench_client_ready(c);
    while (bench_client_goes_on(c)) {
        values_choose(&values, cmp->row, bench_client_random(c));
        if (http_call(&conn, cmp->row, &values))
            c->done++;
        else
            c->refused++;
    }
    http_close(&conn);
    values_release(&values);
}

static void client_theirs(struct bench_client *c)
{
    const struct comparison *cmp = c->ctx;
    struct aql_values values;
    PGconn *conn = pg_open(cmp->sides);
    values_init(&values);
    pg_prepare(conn, cmp->row, cmp->parallel);
    bench_client_ready(c);
    while (bench_client_goes_on(c)) {
        values_choose(&values, cmp->row, bench_client_random(c));
        (void)pg_call(conn, cmp->row, &values);
        c->done++;
    }
    PQfinish(conn);
    values_release(&values);
}

static double run(struct comparison *cmp, double seconds, void (*body)(struct bench_client *c))
{
    struct bench_client clients[MANY];
    double rate = bench_clients_run(clients, cmp->clients, seconds, body, cmp);
    for (unsigned i = 0; i < cmp->clients; i++)
        cmp->refused += clients[i].refused;
    return rate * (cmp->row->units ? cmp->row->units : 1);
}

static double ours(void *ctx, double seconds)
{
    return run(ctx, seconds, client_ours);
}

static double theirs(void *ctx, double seconds)
{
    return run(ctx, seconds, client_theirs);
}

static void add_facts(void *ctx, struct bench_line *line)
{
    const struct comparison *cmp = ctx;
    if (cmp->row->is_write)
        bench_number(line, "refused", (double)cmp->refused);
    bench_facts(line, cmp->sides->settings);
}

/* The same values give as many rows on both sides. */
static void check(struct aql_sides *s, const struct aql_row *row)
{
    struct aql_values values;
    struct http_conn http;
    PGconn *pg = pg_open(s);
    values_init(&values);
    http_open(&http, s->ours.port);
    pg_prepare(pg, row, 0);
    for (uint64_t i = 0; i < CHECKS; i++) {
        values_choose(&values, row, aql_mixed(i));
        if (!http_call(&http, row, &values))
            bench_fail("%s: refused without anybody else", row->what);
        uint64_t a = http_rows(&http, row), b = pg_call(pg, row, &values);
        if (a != b || !a)
            bench_fail("%s: %llu rows from themis, %llu from PostgreSQL", row->what,
                       (unsigned long long)a, (unsigned long long)b);
    }
    http_close(&http);
    PQfinish(pg);
    values_release(&values);
}

static void compare(struct aql_sides *s, const struct aql_row *row, unsigned clients,
                    unsigned parallel)
{
    struct comparison cmp = { .sides = s, .row = row, .clients = clients, .parallel = parallel };
    char facts[128];
    snprintf(facts, sizeof facts, "clients=%u documents=%llu parallel_workers=%u", clients,
             (unsigned long long)aql_docs(), parallel);
    bench_compare(&(struct bench_pair){ .name = "aql",
                                        .what = row->what,
                                        .facts = facts,
                                        .unit = row->unit ? row->unit : "queries/s",
                                        .opponent = row->sql,
                                        .target = row->target > 0 ? row->target : 1,
                                        .seconds = 1,
                                        .rounds = 5,
                                        .ours = ours,
                                        .theirs = theirs,
                                        .add = add_facts,
                                        .ctx = &cmp });
}

void aql_sides_compare(struct aql_sides *s, const struct aql_row *row)
{
    check(s, row);
    compare(s, row, 1, 0);
    if (row->is_parallel)
        compare(s, row, 1, 2);
    if (row->is_short)
        compare(s, row, MANY, 0);
}
