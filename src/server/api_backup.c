/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_admin/backup: backups in backup_dir, in the shape of ArangoDB's hot
 * backups. Restoring needs a stopped node: themis restore.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"
#include "server/server.h"
#include "store/backup.h"
#include "store/change_feed.h"

enum { LABEL_MAX = 64, BACKUPS_MAX = 10000 };

/* An id is a time and a label; like a label it names one folder and nothing above it. */
static bool id_is_legal(struct slice id)
{
    return id.len <= 128 && id.len > 21 && id.ptr[20] == '_' &&
           slice_is_file_name(slice_of(id.ptr, 20), LABEL_MAX) &&
           slice_is_file_name(slice_of(id.ptr + 21, id.len - 21), LABEL_MAX);
}

static const char *folder_of(struct request *r, struct slice id)
{
    return arena_printf(r->arena, "%s/%.*s", r->ctx->backup_dir, SLICE_ARG(id));
}

static int is_backup(const struct dirent *d)
{
    return id_is_legal(slice_str(d->d_name)) && !strstr(d->d_name, ".part");
}

/* ---- create ---- */

static const char *new_id(struct request *r, struct slice label)
{
    char when[32];
    struct tm tm;
    time_t now = (time_t)(env_wall_us(env_system()) / 1000000);

    gmtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H.%M.%SZ", &tm);
    return arena_printf(r->arena, "%s_%.*s", when, SLICE_ARG(label));
}

struct wish {
    struct slice label, parent;
    bool is_incremental;
};

/*
 * allowInconsistent, force and timeout are about waiting for writes to stop, which is never
 * needed here.
 */
static enum errc read_wish(struct request *r, struct wish *w, struct error *err)
{
    static const char *const known[] = { "label",   "allowInconsistent", "force",
                                         "timeout", "incremental",       "parent" };
    struct val body;
    enum errc rc = OK;

    TRY(request_json(r, &body, err));
    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    TRY(body_text(body, "label", &w->label, err));
    TRY(body_text(body, "parent", &w->parent, err));
    TRY(body_bool(body, "incremental", &w->is_incremental, err));
    w->is_incremental |= w->parent.len > 0;
    if (w->parent.len && !id_is_legal(w->parent))
        return fail(err, ERR_INVALID, "parent must be the id of a backup, as the list shows it");
    if (!w->label.len)
        w->label = slice_str(
            arena_printf(r->arena, "%016llx", (unsigned long long)env_random_u64(env_system())));
    if (!slice_is_file_name(w->label, LABEL_MAX))
        return fail(err, ERR_INVALID, "a label is 1 to %d of A-Z a-z 0-9 . _ -", LABEL_MAX);
out:
    return rc;
}

static int is_part(const struct dirent *d)
{
    size_t len = strlen(d->d_name), end = strlen(".part");

    return len > end && !strcmp(d->d_name + len - end, ".part") &&
           id_is_legal(slice_of(d->d_name, len - end));
}

/* What crashes left of backups holds files of the store that are gone from it: disk space. */
static void tidy(struct request *r)
{
    struct dirent **names = NULL;
    struct error err;
    int n = scandir(r->ctx->backup_dir, &names, is_part, NULL);

    for (int i = 0; i < n; i++) {
        enum errc rc = store_backup_forget(folder_of(r, slice_str(names[i]->d_name)), &err);
        if (rc == OK)
            log_info("server", "removed the unfinished backup %s", names[i]->d_name);
        else if (rc != ERR_BUSY) /* another node's, under way */
            log_warn("server", "an unfinished backup stays: %s", err.text);
        free(names[i]);
    }
    free(names);
}

static enum errc unknown(struct slice id, struct error *err)
{
    return fail(err, ERR_NOT_FOUND, "there is no backup '%.*s'", SLICE_ARG(id));
}

/* The manifest of a backup of this store's history. */
static bool read_own(struct request *r, struct slice id, struct manifest *m)
{
    struct error ignored;

    return manifest_read(folder_of(r, id), r->arena, m, &ignored) == OK &&
           slice_is(val_string(val_get(m->about, slice_str("history"))),
                    change_history(r->ctx->store));
}

static int64_t last_commit(const struct manifest *m)
{
    return val_int(val_get(m->about, slice_str("lastCommit")));
}

/* The one that goes furthest: what is new since then is the least. */
static enum errc find_newest(struct request *r, struct slice *id, struct error *err)
{
    struct dirent **names = NULL;
    struct manifest m;
    int64_t last = -1;
    int n = scandir(r->ctx->backup_dir, &names, is_backup, alphasort);

    for (int i = 0; i < n; i++) {
        struct slice name = slice_str(names[i]->d_name);
        if (i < BACKUPS_MAX && read_own(r, name, &m) && last_commit(&m) >= last) {
            last = last_commit(&m);
            *id = arena_copy(r->arena, name);
        }
        free(names[i]);
    }
    free(names);
    return last >= 0
               ? OK
               : fail(err, ERR_NOT_FOUND,
                      "there is no backup of this store to go on from: make a full one first");
}

static enum errc find_parent(struct request *r, const struct wish *w, struct backup_parent *out,
                             struct error *err)
{
    enum errc rc = OK;
    struct slice id = w->parent;
    struct manifest m;
    char *digest = arena_alloc(r->arena, 65);

    if (!id.len)
        TRY(find_newest(r, &id, err));
    rc = manifest_read(folder_of(r, id), r->arena, &m, err);
    if (rc == ERR_NOT_FOUND)
        rc = unknown(id, err);
    if (rc == OK)
        rc = manifest_digest(folder_of(r, id), digest, err);
    *out = (struct backup_parent){ .id = arena_printf(r->arena, "%.*s", SLICE_ARG(id)),
                                   .digest = digest,
                                   .about = m.about };
out:
    return rc;
}

static enum errc make_backup(struct request *r, const struct wish *w, struct manifest *out,
                             struct error *err)
{
    const char *dir = r->ctx->backup_dir, *id = new_id(r, w->label);
    struct backup_parent parent;
    struct backup_options opt = { .dir = folder_of(r, slice_str(id)),
                                  .id = id,
                                  .program = "themis " THEMIS_VERSION };
    enum errc rc = OK;

    if (mkdir(dir, 0750) && errno != EEXIST)
        return fail_os(err, "make", dir);
    if (atomic_exchange(&r->ctx->is_backing_up, true))
        return fail(err, ERR_BUSY, "another backup is being made or deleted");
    tidy(r);
    if (w->is_incremental) {
        rc = find_parent(r, w, &parent, err);
        opt.parent = &parent;
    }
    if (rc == OK)
        rc = store_backup(r->ctx->store, &opt, r->arena, out, err);
    atomic_store(&r->ctx->is_backing_up, false);
    return rc;
}

static void put_backup(struct reply *a, const struct manifest *m)
{
    reply_text(a, "id", val_string(val_get(m->about, slice_str("id"))));
    reply_text(a, "datetime", val_string(val_get(m->about, slice_str("created"))));
    reply_text(a, "version", val_string(val_get(m->about, slice_str("program"))));
    struct slice parent = val_string(val_get(m->about, slice_str("parent")));
    reply_bool(a, "incremental", parent.len > 0);
    if (parent.len)
        reply_text(a, "parent", parent);
    reply_int(a, "lastCommit", val_int(val_get(m->about, slice_str("lastCommit"))));
    reply_int(a, "sizeInBytes", (int64_t)m->bytes);
    reply_int(a, "nrFiles", (int64_t)m->count);
    reply_int(a, "nrDBServers", 1);
    reply_bool(a, "potentiallyInconsistent", false);
}

static void post_create(struct request *r)
{
    struct error err = { 0 };
    struct manifest m;
    struct wish wish = { .is_incremental = false };
    struct reply a;
    enum errc rc = read_wish(r, &wish, &err);

    if (rc == OK)
        rc = make_backup(r, &wish, &m, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_open(&a, "result");
    put_backup(&a, &m);
    reply_close(&a);
    reply_send(&a, 201);
}

/* ---- list and delete ---- */

static enum errc read_id(struct request *r, struct slice *id, bool is_needed, struct error *err)
{
    static const char *const known[] = { "id" };
    struct val body;
    enum errc rc = request_json(r, &body, err);

    if (rc == OK)
        rc = body_check_names(body, known, ARRAY_LEN(known), err);
    if (rc == OK)
        rc = body_text(body, "id", id, err);
    if (rc == OK && (is_needed || id->len) && !id_is_legal(*id))
        rc = fail(err, ERR_INVALID, "id must be the id of a backup, as the list shows it");
    return rc;
}

/* One whose manifest cannot be read is shown as not available. */
static void put_entry(struct reply *a, const char *name)
{
    struct error err = { 0 };
    struct manifest m;
    enum errc rc = manifest_read(folder_of(a->r, slice_str(name)), a->r->arena, &m, &err);

    reply_open(a, name);
    if (rc == OK)
        put_backup(a, &m);
    else
        reply_str(a, "message", arena_printf(a->r->arena, "%s", err.text));
    reply_bool(a, "available", rc == OK);
    reply_close(a);
}

static void post_list(struct request *r)
{
    struct error err = { 0 };
    struct slice id;
    struct dirent **names = NULL;
    struct reply a;
    bool is_found = false;

    if (read_id(r, &id, false, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    int n = scandir(r->ctx->backup_dir, &names, is_backup, alphasort);
    reply_begin(&a, r);
    reply_open(&a, "result");
    reply_open(&a, "list");
    for (int i = 0; i < n; i++) {
        if (i < BACKUPS_MAX && (!id.len || slice_is(id, names[i]->d_name))) {
            is_found = true;
            put_entry(&a, arena_printf(r->arena, "%s", names[i]->d_name));
        }
        free(names[i]);
    }
    free(names);
    if (id.len && !is_found) {
        reply_drop(&a);
        unknown(id, &err);
        request_fail(r, &err);
        return;
    }
    reply_close(&a);
    reply_close(&a);
    reply_send(&a, 200);
}

/* Others that go on from it would be lost with it. */
static enum errc check_unused(struct request *r, struct slice id, struct error *err)
{
    struct error ignored;
    struct dirent **names = NULL;
    struct manifest m;
    enum errc rc = OK;
    int n = scandir(r->ctx->backup_dir, &names, is_backup, alphasort);

    for (int i = 0; i < n; i++) {
        struct slice name = slice_str(names[i]->d_name);
        if (rc == OK && i < BACKUPS_MAX &&
            manifest_read(folder_of(r, name), r->arena, &m, &ignored) == OK &&
            slice_eq(val_string(val_get(m.about, slice_str("parent"))), id))
            rc = fail(err, ERR_CONFLICT, "backup '%.*s' goes on from it: delete that one first",
                      SLICE_ARG(name));
        free(names[i]);
    }
    free(names);
    return rc;
}

/* Under another name first, so that a half deleted one is never taken for a backup. */
static enum errc delete_backup(struct request *r, struct slice id, struct error *err)
{
    const char *dir = folder_of(r, id), *part = arena_printf(r->arena, "%s.part", dir);

    if (atomic_exchange(&r->ctx->is_backing_up, true))
        return fail(err, ERR_BUSY, "another backup is being made or deleted");
    enum errc rc = check_unused(r, id, err);
    if (rc == OK)
        rc = store_backup_forget(part, err);
    if (rc == OK && rename(dir, part))
        rc = errno == ENOENT ? unknown(id, err)
                             : fail(err, ERR_IO, "cannot delete %s: %s", dir, strerror(errno));
    if (rc == OK)
        rc = folder_remove(part, err);
    atomic_store(&r->ctx->is_backing_up, false);
    return rc;
}

static void post_delete(struct request *r)
{
    struct error err = { 0 };
    struct slice id;
    struct reply a;
    enum errc rc = read_id(r, &id, true, &err);

    if (rc == OK)
        rc = delete_backup(r, id, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_open(&a, "result");
    reply_close(&a);
    reply_send(&a, 200);
}

static void post_restore(struct request *r)
{
    struct error err = { 0 };

    fail(&err, ERR_NOT_IMPLEMENTED,
         "a running node is not restored: stop it and use 'themis restore BACKUP DATA'");
    request_fail(r, &err);
}

const struct route api_backup_routes[] = {
    { METHOD_POST, "/_admin/backup/create", ROLE_ADMIN, ON_POOL, MIB, post_create,
      "Makes a backup." },
    { METHOD_POST, "/_admin/backup/list", ROLE_ADMIN, ON_POOL, MIB, post_list, "All backups." },
    { METHOD_POST, "/_admin/backup/delete", ROLE_ADMIN, ON_POOL, MIB, post_delete, "Deletes one." },
    { METHOD_POST, "/_admin/backup/restore", ROLE_ADMIN, ON_POOL, MIB, post_restore,
      "Refused: it is done with the node stopped." },
    { 0 },
};
