/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed_writes -- vectors for documents whose index has a source: fills the
 * store's seam with the embedding models of this node.
 */
#ifndef RETRIEVE_EMBED_WRITES_H
#define RETRIEVE_EMBED_WRITES_H

#include "model/generator.h"
#include "store/vector.h"

/* Borrows the generator while the store has the embedder. */
struct vector_embedder embed_writes(struct generator *g);

#endif
