/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router -- from a path to the row that serves it. Pure.
 */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "server/request.h"

/* Tables, each ended by a row without path; router.c lists them. */
extern const struct route api_admin_routes[], api_arango_database_routes[],
    api_arango_user_routes[], api_arango_collection_routes[], api_arango_figures_routes[],
    api_arango_document_routes[], api_arango_import_routes[], api_arango_index_routes[],
    api_arango_graph_routes[], api_arango_graph_data_routes[], api_arango_cursor_routes[],
    api_arango_query_routes[], api_arango_transaction_routes[], api_openai_routes[],
    api_ask_routes[], api_backup_routes[], api_model_routes[], api_mcp_routes[],
    api_changes_routes[], api_snapshot_routes[], api_encryption_routes[], api_cluster_routes[],
    api_token_routes[], api_rerank_routes[];

struct route_match {
    const struct route *route;           /* NULL: no such path, or not with this method */
    unsigned allowed;                    /* methods of the path; 0 = no such path */
    struct slice params[REQUEST_PARAMS]; /* still encoded, into path */
};

void router_find(struct slice path, enum http_method method, struct route_match *out);

/* Is the query parameter one of those that the row names? Others are refused. */
bool router_takes_param(const struct route *row, struct slice name);

/* Splits "/_db/NAME/rest": *db (encoded) and *rest; without the prefix *db is empty. */
bool router_split_db(struct slice path, struct slice *db, struct slice *rest);

/* "GET, POST" */
void router_allow_text(unsigned methods, char *out, size_t size);

/* The i-th row over all tables; NULL at the end. */
const struct route *router_row(size_t i);

#endif
