/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_gate -- what a node of a cluster does not answer as long as documents
 * are not distributed: requests for data, and AQL over collections. With
 * cluster_data=local it does, from its own store, and says so in x-themis-data.
 */
#ifndef SERVER_CLUSTER_GATE_H
#define SERVER_CLUSTER_GATE_H

#include "server/request.h"

/* May the route answer? Loop thread, once for each request. */
MUST_CHECK enum errc gate_route(struct request *r, struct error *err);
/* May a query of this text run? Broken ones may: they say what is wrong with them. */
MUST_CHECK enum errc gate_query(struct request *r, struct slice text, struct error *err);
/* May documents be read at all, by requests that do other things, too? */
MUST_CHECK enum errc gate_data(const struct request *r, struct error *err);
/* For transactions that the request begins; NULL: the gate is open. */
struct access_rights *gate_access(const struct request *r);

#endif
