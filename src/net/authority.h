/* SPDX-License-Identifier: Apache-2.0 */
/*
 * authority -- makes certificates for the nodes of a cluster, and the authority
 * that signs them. Hides OpenSSL. For trying out and for tests: whoever has an
 * authority already signs the certificates of the nodes with that.
 */
#ifndef NET_AUTHORITY_H
#define NET_AUTHORITY_H

#include "base/base.h"
#include "base/error.h"

struct authority;

/* Reads DIR/ca.crt and DIR/ca.key, or makes both, and DIR, when there is no key. */
MUST_CHECK enum errc authority_open(struct authority **out, const char *dir, bool *is_new,
                                    struct error *err);
void authority_close(struct authority *a); /* NULL is allowed */

/*
 * Makes DIR/NAME with ca.crt, node.crt and node.key, replacing what is there: a certificate for
 * both roles of TLS, whose one name is NAME.
 */
MUST_CHECK enum errc authority_issue(struct authority *a, const char *name, struct error *err);

#endif
