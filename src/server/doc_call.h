/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doc_call -- one request that reads or writes documents of a collection: its
 * parameters, its transaction, and ArangoDB's shape of what a write did.
 *
 * Worker threads. A call belongs to its request.
 */
#ifndef SERVER_DOC_CALL_H
#define SERVER_DOC_CALL_H

#include "server/request.h"

enum doc_op { DOC_READ, DOC_INSERT, DOC_UPDATE, DOC_REPLACE, DOC_REMOVE };

/* A commit that met another writer is tried again that often. */
enum { DOC_COMMIT_TRIES = 8 };

struct doc_params {
    struct doc_options opt;
    struct slice version_attribute; /* empty = none */
    bool return_new, return_old, is_silent, wait_for_sync;
};

struct doc_call {
    struct request *r;
    struct txn *t;
    const struct collection *c; /* valid until doc_call_end */
    enum doc_op op;
    struct doc_params p;
};

/* Query parameters and If-Match into p. */
MUST_CHECK enum errc doc_call_read(struct doc_call *d, struct error *err);

/* Begins (request_begin) and finds the collection of the path. */
MUST_CHECK enum errc doc_call_begin(struct doc_call *d, struct error *err);
/*
 * Begins, runs the step and commits; on a conflict with another writer from the start again, as
 * often as DOC_COMMIT_TRIES says: the step must not remember anything. A step that writes without
 * having read is not bound by what the other one did. On OK the call is still open (doc_call_end).
 */
MUST_CHECK enum errc doc_call_write(struct doc_call *d,
                                    enum errc (*step)(struct doc_call *d, void *ctx,
                                                      struct error *err),
                                    void *ctx, struct error *err);
/* Rolls back unless there was a request_commit. */
void doc_call_end(struct doc_call *d);

/*
 * The write that op names. key is empty for DOC_INSERT. With a version attribute
 * an existing document that is not older stays, which is no error.
 */
MUST_CHECK enum errc doc_call_apply(struct doc_call *d, struct slice key, struct val body,
                                    struct doc_change *change, struct error *err);

/* {_id, _key, _rev, _oldRev?, old?, new?} in the request's arena. */
struct val doc_call_body(const struct doc_call *d, const struct doc_change *change);
/* 201 or 202; 200 or 202 for a removal. */
int doc_call_status(const struct doc_call *d);
/* {error, errorNum, errorMessage}: an element of an array that failed. */
struct val doc_call_error(struct arena *arena, const struct error *err);
/* True when the whole request must fail with it, not only one document. */
bool doc_error_is_fatal(enum errc rc);

/* The key that a body element names: {_key}, {_id} or a plain string. 1205, 1221. */
MUST_CHECK enum errc doc_element_key(const struct collection *c, struct val v, struct slice *key,
                                     struct error *err);
/* A revision in a header, which may be quoted; empty when absent. */
struct slice doc_header_rev(struct request *r, const char *name);

#endif
