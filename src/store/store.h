/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store -- the database of this node: opens the files, owns the committer and
 * the catalog, hands out transactions.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/env.h"
#include "base/settings.h"
#include "store/catalog.h"

struct store;
struct txn;
struct compute;

struct store_options {
    const char *path; /* NULL = in memory, gone at close */
    const struct settings *settings;
    const struct env *env;         /* NULL = env_system() */
    const char *locale;            /* collation of new databases; NULL = "und" */
    uint16_t node;                 /* number of this node; 0 alone */
    const struct compute *compute; /* evaluates computed values; NULL: there can be none (9) */
    bool accept_loss;              /* open although acknowledged commits are missing */
    /*
     * Asked now and then by index builds, also by those of the opening: true ends them with
     * ERR_GONE. Any thread. May be NULL.
     */
    bool (*should_stop)(void *ctx);
    void *ctx;
};

/*
 * Creates the directory and the _system database when missing. Refuses a store
 * written by a newer format (ERR_INVALID says both versions) and one that
 * another process holds (ERR_BUSY).
 */
MUST_CHECK enum errc store_open(struct store **out, const struct store_options *opt,
                                struct error *err);
/* No transaction may be open. Flushes. NULL is allowed. */
void store_close(struct store *s);

/* OK when writes are accepted; else why not (disk full, failed sync). */
MUST_CHECK enum errc store_check_writable(struct store *s, struct error *err);

struct store_stats {
    uint64_t commits, conflicts, groups, views, window_bytes, last_seq, disk_bytes;
};
void store_stats(struct store *s, struct store_stats *out);

/*
 * A write to the log that failed leaves the outcome unknown: waiting commits are
 * answered so, then fn runs on the committer's thread. The default ends the
 * process; when fn returns, all later commits are refused.
 */
void store_on_fatal(struct store *s, void (*fn)(void *ctx, const struct error *err), void *ctx);

/* Never given twice on this node: for cursors, transactions and generated keys. */
uint64_t store_new_id(struct store *s);

const struct collator *store_collator(const struct store *s);
const struct env *store_env(const struct store *s);

/* ---- changes of the catalog: each is one transaction, serialised, durable on return ---- */

/* names: database 1-64 [A-Za-z0-9_-], collection 1-256 by ArangoDB's rules (1208, 1229). */
MUST_CHECK enum errc store_create_database(struct store *s, struct slice name, struct error *err);
MUST_CHECK enum errc store_drop_database(struct store *s, struct slice name, struct error *err);

struct collection_options {
    struct slice name;
    enum collection_type type;
    bool wait_for_sync;
    bool allow_user_keys;   /* default true: set it */
    struct val key_options; /* ArangoDB's keyOptions or null */
    struct val extra;       /* kept and shown: numberOfShards, replicationFactor, ... */
    struct val schema;      /* ArangoDB's schema and computedValues; null or empty: none */
    struct val computed;
    struct val encrypted_fields; /* attribute paths, or null */
};
/* Also errors of the rules: 1621 for the schema, 10 for the computed values. */
MUST_CHECK enum errc store_create_collection(struct store *s, uint64_t db_id,
                                             const struct collection_options *opt, uint64_t *id,
                                             struct error *err);
MUST_CHECK enum errc store_drop_collection(struct store *s, uint64_t db_id, uint64_t id,
                                           struct error *err);
/* What is to be different. VAL_NONE: as it is; null or empty: none. */
struct collection_change {
    bool wait_for_sync;
    struct val extra; /* the members that change; others stay */
    struct val schema, computed;
};
/* Writers that began before other rules get 1200: their documents did not meet them. */
MUST_CHECK enum errc store_set_collection(struct store *s, uint64_t id,
                                          const struct collection_change *to, struct error *err);
/*
 * From now on exactly these attributes are encrypted when a document is written; what is stored
 * stays as it is, and readable, until then (store_rewrite). Writers that began before get 1200.
 * Errors: 10, says what; 1203.
 */
MUST_CHECK enum errc store_set_encrypted_fields(struct store *s, uint64_t id, struct val fields,
                                                struct error *err);
/* Reads the key file again, as at opening (ERR_INVALID: the keys stay as they are). */
MUST_CHECK enum errc store_reload_keys(struct store *s, struct error *err);
/*
 * Constant time (ADR 0012): ids of documents follow at once. Writers that began before get 1200;
 * edges keep the old name in _from and _to, as in ArangoDB. Errors: 1203, 1207, 1208.
 */
MUST_CHECK enum errc store_rename_collection(struct store *s, uint64_t db_id, uint64_t id,
                                             struct slice name, struct error *err);
/* Constant time: the collection gets a new internal id, the old rows go in the background. */
MUST_CHECK enum errc store_truncate_collection(struct store *s, uint64_t id, struct error *err);

/*
 * Builds the index over what is there, without losing writes that come
 * meanwhile. An equal index that exists is answered with *is_new = false.
 * def: ArangoDB's body {type, fields, unique, sparse, name, storedValues, params, ...}.
 * Errors: 10 (bad definition, says what), 1210 (existing documents clash: names both keys), 9.
 */
MUST_CHECK enum errc store_create_index(struct store *s, uint64_t collection_id, struct val def,
                                        uint64_t *id, bool *is_new, struct error *err);
MUST_CHECK enum errc store_drop_index(struct store *s, uint64_t collection_id, uint64_t index_id,
                                      struct error *err);

#endif
