/* SPDX-License-Identifier: Apache-2.0 */
/*
 * salvage -- opens a store whose write-ahead log is damaged, as far as nothing
 * acknowledged is lost by it, or further when that is accepted.
 */
#ifndef STORE_SALVAGE_H
#define STORE_SALVAGE_H

#include "store/kv.h"

struct salvage_options {
    const char *dir;      /* of the store, with the mark of acknowledged commits */
    struct kv_options kv; /* as it could not be opened */
    bool accept_loss;
    const struct error *why; /* what the opening said */
};

/*
 * Looks without changing anything how far the log can be read. Refused with ERR_CORRUPT when that
 * ends before the last acknowledged commit, or nobody knows which one that is, unless accept_loss
 * is set. Else the log's files are linked into damaged-log/ of dir, and the store is opened up to
 * the damage.
 */
MUST_CHECK enum errc salvage_open(struct kv **out, const struct salvage_options *opt,
                                  struct error *err);

#endif
