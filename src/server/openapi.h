/* SPDX-License-Identifier: Apache-2.0 */
/* openapi -- the HTTP interface as OpenAPI 3.1, made from the tables of routes. */
#ifndef SERVER_OPENAPI_H
#define SERVER_OPENAPI_H

#include "base/arena.h"
#include "base/val.h"

/* The whole document; lives in arena. */
struct val openapi_document(struct arena *arena);

#endif
