/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body -- reading the members of a JSON body: absent or null gives the default,
 * a wrong type or range ERR_INVALID that names the member. Pure.
 */
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "base/error.h"
#include "base/val.h"

/* Every member must be among the known names. */
MUST_CHECK enum errc body_check_names(struct val body, const char *const *known, size_t count,
                                      struct error *err);
MUST_CHECK enum errc body_text(struct val body, const char *name, struct slice *out,
                               struct error *err);
MUST_CHECK enum errc body_bool(struct val body, const char *name, bool *out, struct error *err);
MUST_CHECK enum errc body_number(struct val body, const char *name, double min, double max,
                                 double def, double *out, struct error *err);

#endif
