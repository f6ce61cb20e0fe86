/* SPDX-License-Identifier: Apache-2.0 */
/* fn_date_arg -- dates, units and time zones as arguments and results of functions. */
#ifndef QUERY_FN_DATE_ARG_H
#define QUERY_FN_DATE_ARG_H

#include "base/calendar.h"
#include "query/fn_support.h"

struct zone;

/* A number or a text; false: a warning 1572 was given and the result is null. */
bool fn_date_arg(struct fn_call *call, int i, int64_t *ms);
/* The same as time of the zone that argument zone_at names, when there is one. */
MUST_CHECK enum errc fn_local_date_arg(struct fn_call *call, int i, int zone_at, int64_t *ms,
                                       bool *is_date);
/* Reads argument i as a unit; false: warned, null. */
bool fn_unit_arg(struct fn_call *call, int i, enum date_unit *out);

/* An ISO text in UTC; out of range: a warning 1572 and null. */
enum errc fn_return_date(struct fn_call *call, int64_t ms);
/* A local time of the zone that argument zone_at names, in UTC. */
enum errc fn_return_local_date(struct fn_call *call, int64_t ms, int zone_at);

#endif
