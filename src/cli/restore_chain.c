/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/restore_chain.h"

#include <ctype.h>
#include <stdlib.h>
#include <time.h>

static struct slice text_of(const struct manifest *m, const char *name)
{
    return val_string(val_get(m->about, slice_str(name)));
}

static int64_t number_of(const struct manifest *m, const char *name)
{
    return val_int(val_get(m->about, slice_str(name)));
}

/* "/backups/b" and "a" is "/backups/a". */
static const char *beside(const char *dir, struct slice id, struct arena *arena)
{
    const char *slash = strrchr(dir, '/');

    return slash ? arena_printf(arena, "%.*s/%.*s", (int)(slash - dir), dir, SLICE_ARG(id))
                 : arena_printf(arena, "%.*s", SLICE_ARG(id));
}

static enum errc check_parent(const struct chain_link *child, const struct chain_link *parent,
                              struct error *err)
{
    char digest[65];
    enum errc rc = manifest_digest(parent->dir, digest, err);

    if (rc != OK)
        return rc;
    if (!slice_is(text_of(&child->manifest, "parentDigest"), digest) ||
        number_of(&parent->manifest, "lastCommit") != number_of(&child->manifest, "afterCommit"))
        return fail(err, ERR_CORRUPT,
                    "%s is not the backup that %s goes on from: its manifest is another one",
                    parent->dir, child->dir);
    return OK;
}

static enum errc read_parent(const struct chain_link *child, struct chain_link *out,
                             struct arena *arena, struct error *err)
{
    struct slice id = text_of(&child->manifest, "parent");

    if (!slice_is_file_name(id, 255))
        return fail(err, ERR_CORRUPT, "%s goes on from a backup without a proper id", child->dir);
    out->dir = beside(child->dir, id, arena);
    enum errc rc = manifest_read(out->dir, arena, &out->manifest, err);
    if (rc == ERR_NOT_FOUND)
        return fail(err, ERR_CORRUPT,
                    "the chain is incomplete: %s goes on from %.*s, which is not in %s", child->dir,
                    SLICE_ARG(id), out->dir);
    return rc == OK ? check_parent(child, out, err) : rc;
}

enum errc chain_read(struct chain *out, const char *dir, struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    struct chain_link *all = arena_alloc(arena, CHAIN_MAX * sizeof *all);
    size_t n = 1;

    all[0].dir = dir;
    TRY(manifest_read(dir, arena, &all[0].manifest, err));
    for (; text_of(&all[n - 1].manifest, "parent").len; n++) {
        if (n == CHAIN_MAX)
            return fail(err, ERR_CORRUPT, "the chain of %s has more than %d backups", dir,
                        CHAIN_MAX);
        TRY(read_parent(&all[n - 1], &all[n], arena, err));
    }
    out->links = arena_alloc(arena, n * sizeof *out->links);
    out->count = n;
    for (size_t i = 0; i < n; i++) {
        out->links[i] = all[n - 1 - i];
        TRY(manifest_check(out->links[i].dir, &out->links[i].manifest, err));
    }
out:
    return rc;
}

/* ".5Z" is 500000, "Z" is 0. */
static bool parse_fraction(const char *text, uint64_t *us)
{
    uint64_t unit = 100000;

    *us = 0;
    if (*text == '.') {
        if (!isdigit((unsigned char)*++text))
            return false;
        for (; isdigit((unsigned char)*text); text++, unit /= 10)
            *us += unit * (uint64_t)(*text - '0');
    }
    return text[0] == 'Z' && !text[1];
}

bool restore_point_parse(const char *text, struct restore_point *out)
{
    struct tm tm = { 0 };
    uint64_t us;

    *out = (struct restore_point){ 0 };
    if (slice_to_u64(slice_str(text), &out->seq))
        return out->seq > 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    time_t seconds = rest ? timegm(&tm) : -1;
    if (seconds < 0 || !parse_fraction(rest, &us))
        return false;
    out->time_us = (uint64_t)seconds * 1000000 + us;
    return out->time_us > 0;
}
