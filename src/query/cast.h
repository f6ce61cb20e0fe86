/* SPDX-License-Identifier: Apache-2.0 */
/* cast -- AQL's implicit conversions (TO_NUMBER, TO_STRING, TO_ARRAY). */
#ifndef QUERY_CAST_H
#define QUERY_CAST_H

#include "base/arena.h"
#include "base/val.h"

/* null, false, text that is no number, [], objects: 0; true: 1; [x]: cast of x. */
struct val cast_number(struct arena *arena, struct val v);
/* null: "", numbers as they print, arrays and objects as JSON. */
struct val cast_string(struct arena *arena, struct val v);
/* null: [], scalars: [v], objects: their values. */
struct val cast_array(struct arena *arena, struct val v);

#endif
