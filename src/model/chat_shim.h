/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_shim -- the model's own chat template, through the C++ library of
 * llama.cpp. Nothing throws across this line.
 *
 * Any thread. Guarding against bad messages is done before; templates come
 * only from model files.
 */
#ifndef MODEL_CHAT_SHIM_H
#define MODEL_CHAT_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct llama_model;
struct chat_shim;

struct chat_shim_text {
    const char *ptr;
    size_t len;
};

/* All return 0, or -1 with a terminated message in err (n bytes). */
int chat_shim_open(const struct llama_model *model, struct chat_shim **out, char *err, size_t n);
void chat_shim_close(struct chat_shim *shim);

/* Calls add(ctx, text, len) once with the prompt of the messages. */
int chat_shim_render(struct chat_shim *shim, const struct chat_shim_text *roles,
                     const struct chat_shim_text *contents, size_t count,
                     void (*add)(void *ctx, const char *text, size_t len), void *ctx, char *err,
                     size_t n);

#ifdef __cplusplus
}
#endif

#endif
