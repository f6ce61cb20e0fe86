/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone -- time zones by their IANA names, with their history. Hides ICU.
 *
 * Times are milliseconds since 1970; a local time is counted as if it were UTC.
 * Any thread. Opening costs some microseconds.
 */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include "base/base.h"
#include "base/error.h"

struct zone;

/* Unknown names: errorNum 10. Returned to the caller, who must zone_close() it. */
MUST_CHECK enum errc zone_open(struct zone **out, struct slice name, struct error *err);
void zone_close(struct zone *z);

/* What held at a moment in UTC. */
struct zone_rule {
    int64_t offset_ms; /* to add to UTC */
    bool is_dst, has_begin, has_end;
    int64_t begin_ms, end_ms; /* when it began and when the next one begins, in UTC */
    char name[32];            /* short, such as "CET" or "GMT+1" */
};
void zone_at(struct zone *z, int64_t utc_ms, struct zone_rule *out);

int64_t zone_to_local(struct zone *z, int64_t utc_ms);
/* A local time that occurs twice is the first; one that is skipped is the moment of the change. */
int64_t zone_to_utc(struct zone *z, int64_t local_ms);

/* Calls fn for each known name, in the library's order. */
void zone_each(void (*fn)(void *ctx, struct slice name), void *ctx);
/* Name of the machine's zone, at most room - 1 bytes. */
void zone_system(char *out, size_t room);
const char *zone_version(void); /* of the data, such as "2024a" */

#endif
