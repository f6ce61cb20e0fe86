/* SPDX-License-Identifier: Apache-2.0 */
/* gzip -- compressing replies for clients that ask for it. Hides zlib. Any thread. */
#ifndef NET_GZIP_H
#define NET_GZIP_H

#include "base/base.h"
#include "base/buf.h"

/* Bodies of this type become smaller: text, JSON and the like. */
bool gzip_suits(const char *content_type);

/* What Accept-Encoding says: gzip is welcome, and not less than the plain bytes. */
bool gzip_is_welcome(struct slice accept_encoding);

/* Adds the compressed bytes to out. False, and nothing is added, when they would not be fewer. */
bool gzip_pack(struct slice in, struct buf *out);

#endif
