/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request -- one HTTP request on its way through the server: what handlers
 * read, how they answer, and how they wait without holding a worker.
 *
 * A handler runs on a worker (or on the loop, for ON_LOOP rows). It answers
 * and calls request_done, or it parks: it sets step, starts something that
 * will call request_wake, and returns; step then runs on some worker.
 */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "base/arena.h"
#include "base/pool.h"
#include "base/val.h"
#include "net/http.h"
#include "retrieve/rag.h"
#include "server/context.h"
#include "store/doc.h"
#include "store/txn.h"

struct request;

enum role { ROLE_NONE, ROLE_USER, ROLE_ADMIN };
/*
 * ON_POOL_TRX: on the pool, inside the stream transaction that x-arango-trx-id names, if any; other
 * rows refuse the header. ON_HEADERS: on the loop before the body, which the handler takes as a
 * stream.
 */
enum runs_on { ON_LOOP, ON_POOL, ON_POOL_TRX, ON_HEADERS };
enum api_style { API_ARANGO, API_OPENAI }; /* shape of error bodies */

typedef void (*request_fn)(struct request *r);

/*
 * One row per endpoint. {name} in the path captures one segment, {name*} the rest. After '?' it
 * names the query parameters that the row takes, "/path?a&b": any other is refused with 400.
 */
struct route {
    unsigned methods; /* enum http_method, or-ed */
    const char *path;
    enum role role;
    enum runs_on runs_on;
    size_t body_max; /* bytes; 0 = no body; BODY_MAX = the setting */
    request_fn handler;
    const char *help;
};
#define BODY_MAX ((size_t)-1)

enum { REQUEST_PARAMS = 4, REQUEST_ARENA_MB = 512 };

struct request {
    struct job job;
    struct exchange *x;
    struct server_ctx *ctx;
    const struct route *route;
    struct arena *arena;
    enum api_style style;
    struct slice params[REQUEST_PARAMS]; /* decoded captures, in order */
    struct slice db_name;                /* from /_db/NAME, else _system */
    const char *allow;                   /* methods that the path takes, after ERR_METHOD */
    struct slice user;                   /* authenticated, or "root" while auth is off */
    struct slice claimed;                /* who the credentials name, right or wrong */
    struct user *account;                /* owned; NULL: everything is allowed */
    struct key_meter *meter;             /* owned; NULL: no access token, or one without bounds */
    unsigned scopes;                     /* enum scope, of the credentials */
    struct access_rights *bounded;       /* owned; of a token that does not administer */
    bool is_whole;                       /* the body has arrived; loop thread only */
    struct admission *admission;         /* in the arena */
    struct buf body;                     /* of a request that was held; else it is the exchange's */

    uint64_t stream_id;        /* of x-arango-trx-id; 0 = none */
    struct stream_txn *stream; /* while the request uses it */
    bool is_kept;              /* what it wrote there stays */

    request_fn step;  /* after a park */
    void *state;      /* the handler's */
    _Atomic int gate; /* running, running and woken, parked */
    _Atomic int refs;
};

/* ---- reading ---- */

/* A query parameter, decoded, in the arena; false when absent. */
bool request_param(struct request *r, const char *name, struct slice *out);
/* The same for one of some words; "undefined" is absent: arangojs writes that. */
bool request_word(struct request *r, const char *name, struct slice *out);
/* true/1/on/yes, false/0/off/no; anything else is ERR_INVALID. */
MUST_CHECK enum errc request_flag(struct request *r, const char *name, bool def, bool *out,
                                  struct error *err);
/* As it came; after admission. */
struct slice request_body(const struct request *r);
/* The body as JSON; empty body = null. Broken JSON: errorNum 600. */
MUST_CHECK enum errc request_json(struct request *r, struct val *out, struct error *err);
MUST_CHECK enum errc request_object(struct request *r, struct val *out, struct error *err);

/*
 * The body, or a part of it, as a stream, for ON_HEADERS rows: exchange_want_stream
 * and exchange_on_cancel, also when the body waited for a password to be checked.
 */
void request_take_stream(struct request *r, exchange_piece_fn on_piece, void (*on_gone)(void *ctx),
                         void *ctx);

/* The database of the URL in the catalog of the transaction: 1228 when unknown. */
MUST_CHECK enum errc request_database(struct request *r, const struct catalog *c,
                                      const struct database **out, struct error *err);
/* Its id, from a transaction of its own. */
MUST_CHECK enum errc request_database_id(struct request *r, uint64_t *out, struct error *err);
/*
 * A collection of that database, by name or id: 1203 when unknown, ERR_FORBIDDEN
 * when the user may not read it.
 */
MUST_CHECK enum errc request_collection(struct request *r, struct txn *t, struct slice name,
                                        const struct collection **out, struct error *err);

/*
 * The stream transaction that the request names, or a new one by the options.
 * Ends with request_end; commit is for the writes of a new one, and does
 * nothing but keep them in a stream transaction.
 */
MUST_CHECK enum errc request_begin(struct request *r, const struct txn_options *opt,
                                   struct txn **out, struct error *err);
MUST_CHECK enum errc request_commit(struct request *r, struct txn *t, struct error *err);
/* Without a commit nothing is left of what was written. NULL is allowed. */
void request_end(struct request *r, struct txn *t);
/* The database and user of the request, as stream transactions know them. */
MUST_CHECK enum errc request_owner(struct request *r, struct stream_owner *out, struct error *err);

/*
 * Begins (request_begin) for reading and finds the collection. False: the
 * request has been answered with the error.
 */
bool request_read_collection(struct request *r, struct slice name, struct txn **t,
                             const struct collection **c);

/* ---- what the user may do ---- */

/* For the transactions that the request begins; NULL = everything. */
struct access_rights *request_access(const struct request *r);
enum access_level request_level(const struct request *r, struct slice collection);
/* ERR_FORBIDDEN unless the user may change the structure of the database of the URL. */
MUST_CHECK enum errc request_may_change(const struct request *r, struct error *err);
/* ERR_FORBIDDEN unless the user has that level on the collection of that name. */
MUST_CHECK enum errc request_may_use(const struct request *r, struct slice collection,
                                     enum access_level need, struct error *err);
/* ERR_FORBIDDEN unless the credentials have the scope. */
MUST_CHECK enum errc request_may_scope(const struct request *r, enum scope scope,
                                       struct error *err);
/* For requests to models; NULL = nobody pays. */
struct gen_payer *request_payer(const struct request *r);
/* May administer the server: users, databases, models. */
bool request_is_admin(const struct request *r);

/* ---- answering: each ends the request ---- */

void request_reply(struct request *r, int status, struct val body);
void request_reply_text(struct request *r, int status, const char *type, struct slice body);
void request_reply_headers(struct request *r, int status, struct val body,
                           const struct http_header *headers, size_t count);
void request_fail(struct request *r, const struct error *err);
/* After a streamed answer was finished by hand. */
void request_done(struct request *r);

/* A string of bytes that need not be UTF-8 or are cut at any place; in arena. */
struct val text_clean(struct arena *arena, struct slice text);
/* The JSON body of an error in the API's shape, in arena. */
struct val error_body(struct arena *arena, enum api_style style, const struct error *err);

/* ---- waiting ---- */

/*
 * step runs when request_wake is called, or has been since the last park.
 * Returns to the handler, which must return at once.
 */
void request_park(struct request *r, request_fn step);
/* Any thread, any number of times while the caller holds a reference or the request is parked. */
void request_wake(struct request *r);
void request_ref(struct request *r);
void request_unref(struct request *r);

#endif
