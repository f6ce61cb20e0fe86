/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_shim -- the model's own chat template, through the C++ library of
 * llama.cpp: prompts, the form in which the model writes calls, and reading it.
 * Nothing throws across this line.
 *
 * Any thread; a format belongs to one thread at a time and outlives the shim.
 * Guarding against bad messages and schemas is done before; templates come only
 * from model files.
 */
#ifndef MODEL_CHAT_SHIM_H
#define MODEL_CHAT_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct llama_model;
struct chat_shim;
struct chat_shim_format;

struct chat_shim_text {
    const char *ptr;
    size_t len;
};

struct chat_shim_call {
    struct chat_shim_text id, name, arguments;
};

struct chat_shim_message {
    struct chat_shim_text role, content, reasoning, name, call_id;
    const struct chat_shim_call *calls;
    size_t call_count;
};

struct chat_shim_abilities {
    bool has_tools, has_reasoning;
};

/* All return 0, or -1 with a terminated message in err (n bytes). */
int chat_shim_open(const struct llama_model *model, struct chat_shim **out,
                   struct chat_shim_abilities *abilities, char *err, size_t n);
void chat_shim_close(struct chat_shim *shim);

/* tools: JSON as in OpenAI's API; empty = none. Calls add(ctx, text, len) once with the prompt. */
int chat_shim_render(struct chat_shim *shim, const struct chat_shim_message *messages, size_t count,
                     struct chat_shim_text tools,
                     void (*add)(void *ctx, const char *text, size_t len), void *ctx, char *err,
                     size_t n);

enum chat_shim_part {
    CHAT_SHIM_GRAMMAR,
    CHAT_SHIM_BEGUN,   /* the end of the prompt, which the grammar has too */
    CHAT_SHIM_TRIGGER, /* a text that begins the grammar */
    CHAT_SHIM_STOP,    /* a text that ends the answer */
    CHAT_SHIM_SPELLED, /* of a control token that is part of the text */
    CHAT_SHIM_CONTENT,
    CHAT_SHIM_REASONING,
    CHAT_SHIM_NAME,      /* of the next call */
    CHAT_SHIM_ARGUMENTS, /* of the same call */
};

struct chat_shim_wish {
    struct chat_shim_text tools;
    bool is_required, is_parallel;
};

/* Calls add for each part of the format. is_lazy: the grammar begins at a trigger. */
int chat_shim_format_new(struct chat_shim *shim, const struct chat_shim_wish *wish,
                         struct chat_shim_format **out, bool *is_lazy,
                         void (*add)(void *ctx, enum chat_shim_part part, const char *text,
                                     size_t len),
                         void *ctx, char *err, size_t n);
void chat_shim_format_free(struct chat_shim_format *format);

/* Calls add for each part of the answer so far. */
int chat_shim_read(const struct chat_shim_format *format, struct chat_shim_text text,
                   bool is_partial,
                   void (*add)(void *ctx, enum chat_shim_part part, const char *text, size_t len),
                   void *ctx, char *err, size_t n);

#ifdef __cplusplus
}
#endif

#endif
