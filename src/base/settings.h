/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings -- every option of the server: name, type, default, unit, range and
 * help text in settings.def; a struct with one field each.
 */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

enum { SETTING_STRING_BYTES = 512 };

struct settings {
#define SETTING_INT(name, def, min, max, unit, help) int64_t name;
#define SETTING_DOUBLE(name, def, min, max, unit, help) double name;
#define SETTING_BOOL(name, def, help) bool name;
#define SETTING_STRING(name, def, help) char name[SETTING_STRING_BYTES];
#include "base/settings.def"
#undef SETTING_INT
#undef SETTING_DOUBLE
#undef SETTING_BOOL
#undef SETTING_STRING
};

void settings_init(struct settings *s); /* defaults */

/* Unknown name, bad value or out of range: ERR_INVALID naming what is allowed. on/off, true/false. */
MUST_CHECK enum errc settings_set(struct settings *s, struct slice name, struct slice value,
                                  struct error *err);
/* "name=value" */
MUST_CHECK enum errc settings_set_pair(struct settings *s, const char *pair, struct error *err);
/* "name = value" lines of less than 200 bytes, # comments, [section] ignored (inih). */
MUST_CHECK enum errc settings_load(struct settings *s, const char *path, struct error *err);
void settings_print_help(struct buf *out);

#endif
