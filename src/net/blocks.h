/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks -- memory that comes and goes in bursts: hundreds of streams at once are more than malloc
 * keeps at hand for a thread. On a thread that lends a stock (a loop's), blocks that came back wait
 * there by their size, up to a limit; with the address sanitizer none does, so that it sees every
 * use after the end. Any thread; a block may come back on another than it was taken.
 */
#ifndef NET_BLOCKS_H
#define NET_BLOCKS_H

#include "base/base.h"

struct blocks;

struct blocks *blocks_new(size_t keep_bytes);
void blocks_free(struct blocks *b); /* with what waits; blocks in use stay valid */
/* This thread's stock from now on, until NULL; borrowed. */
void blocks_use(struct blocks *b);

void *blocks_get(size_t bytes);
void blocks_put(void *ptr); /* NULL is allowed */
void *blocks_resize(void *ptr, size_t bytes);

#endif
