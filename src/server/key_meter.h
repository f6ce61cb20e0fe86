/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_meter -- what access tokens with scopes or limits have used and may still
 * use. Two token buckets per key refill all the time, of a minute each:
 * requests, and tokens of models. Tokens are charged when they are known, so
 * that a bucket may be in debt. What a key used today (UTC) is in
 * _system/_key_usage as well, made when there is something to keep: kept across restarts, but for the last seconds
 * before a kill.
 *
 * Any thread; opening and saving write to the store: worker threads.
 */
#ifndef SERVER_KEY_METER_H
#define SERVER_KEY_METER_H

#include "base/env.h"
#include "model/generator.h"
#include "server/users.h"

struct key_meter; /* of one access token */
struct key_meters;

/* Reads what was used today. Borrows the store and env. */
MUST_CHECK enum errc key_meters_open(struct key_meters **out, struct store *s,
                                     const struct env *env, struct error *err);
/* No meter is held any more. What is not saved is lost. NULL is allowed. */
void key_meters_close(struct key_meters *all);

/* With a reference for the caller. */
struct key_meter *key_meter_get(struct key_meters *all, struct slice user,
                                const struct token_facts *facts);
void key_meter_unref(struct key_meter *m); /* NULL is allowed */

/* Takes one request out of the bucket; ERR_TOO_MANY: it is empty. */
MUST_CHECK enum errc key_meter_take(struct key_meter *m, struct error *err);
/* For what asks models; lives as long as m. Refuses with ERR_FORBIDDEN (scope) and ERR_TOO_MANY. */
struct gen_payer *key_meter_payer(struct key_meter *m);
/* Seconds until what was refused may be allowed, at least 1. */
unsigned key_meter_wait_s(struct key_meter *m);
/* Model tokens of today. */
uint64_t key_meter_today(struct key_meters *all, struct slice user, int64_t id);

/* Keys that are remembered: those in use, and those whose buckets are not full again. */
size_t key_meters_count(struct key_meters *all);

/* Is something there to save? */
bool key_meters_are_due(struct key_meters *all);
MUST_CHECK enum errc key_meters_save(struct key_meters *all, struct error *err);

#endif
