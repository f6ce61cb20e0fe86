/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published states. The list holds those that somebody reads and the current
 * one; the oldest says how far back the conflict window must reach and which
 * dead rows nobody can see any more.
 */
#include "store/commit_private.h"

void view_free(struct committer *c, struct view *v)
{
    if (!v)
        return;
    kv_snapshot_free(c->parts.kv, v->snapshot);
    catalog_unref(v->catalog);
    mem_free(v);
}

struct view *view_new(struct committer *c, struct catalog *catalog)
{
    struct view *v = mem_zalloc(sizeof *v);
    v->snapshot = kv_snapshot_new(c->parts.kv);
    v->seq = c->seq;
    v->position = trail_end(c->trail);
    v->catalog = catalog_ref(catalog);
    return v;
}

/* Takes a view off the list when nobody can get at it any more. Lock held. */
static struct view *view_take_unused(struct committer *c, struct view *v)
{
    if (!v || v->refs || v == c->current)
        return NULL;
    if (v->older)
        v->older->newer = v->newer;
    else
        c->oldest = v->newer;
    v->newer->older = v->older;
    c->view_count--;
    return v;
}

struct view *view_publish(struct committer *c, struct view *v)
{
    struct view *before = c->current;
    v->older = before;
    if (before)
        before->newer = v;
    else
        c->oldest = v;
    c->current = v;
    c->view_count++;
    return view_take_unused(c, before);
}

struct view *committer_view(struct committer *c)
{
    pthread_mutex_lock(&c->lock);
    struct view *v = c->current;
    v->refs++;
    pthread_mutex_unlock(&c->lock);
    return v;
}

void committer_release(struct committer *c, struct view *view)
{
    pthread_mutex_lock(&c->lock);
    view->refs--;
    struct view *unused = view_take_unused(c, view);
    if (unused && garbage_is_ready(c->parts.garbage, c->oldest->seq))
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    view_free(c, unused);
}
