/* SPDX-License-Identifier: Apache-2.0 */
/* collection_reply -- a collection in ArangoDB's shape, shared by the /_api/collection handlers. */
#ifndef SERVER_COLLECTION_REPLY_H
#define SERVER_COLLECTION_REPLY_H

#include "server/reply.h"

/* id, name, status, type, isSystem, globallyUniqueId into the open object. */
void collection_put_basic(struct reply *a, const struct collection *c);
/* The rest of its properties. */
void collection_put_properties(struct reply *a, const struct collection *c);

/*
 * Members of a body that are accepted, kept and shown, and act in a cluster
 * only: numberOfShards, replicationFactor, ... In the request's arena.
 */
struct val collection_kept(struct request *r, struct val body);
bool collection_is_kept(struct slice name);

#endif
