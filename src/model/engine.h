/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine -- one loaded model and its lanes, behind a table of functions that
 * llama.cpp and the scripted engine fill. Hides which of them it is.
 *
 * The model half (tokenise, piece, render) may be used by any thread. A lane
 * (a context with its own KV cells) belongs to one thread at a time.
 */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "model/answer_format.h"
#include "model/generator.h"

enum {
    ENGINE_SEQ_MAX = 256, /* sequence ids of one lane: a limit of llama.cpp */
    ENGINE_PIECE_BYTES = 256,
};

struct engine_info {
    enum model_kind kind;
    uint32_t context_tokens; /* what the model was made for */
    uint32_t vocab_size;
    uint32_t dimension; /* of embeddings */
    uint64_t parameters;
    uint64_t file_bytes;
    bool has_tools;     /* the chat template knows tools and their calls */
    bool has_reasoning; /* the chat template tells reasoning from the answer */
    bool can_fork;      /* a range of one sequence may be shared with another, saved and loaded */
    char description[128];
};

struct engine_lane_options {
    uint32_t cells;                 /* KV cells of all sequences together */
    uint32_t seq_max;               /* <= ENGINE_SEQ_MAX */
    uint32_t batch_tokens;          /* of one decode */
    unsigned threads_max;           /* of one step; 0 = 1 */
    bool is_unified;                /* one pool: sharing works, everybody pays for all used cells */
    bool (*should_stop)(void *ctx); /* asked often during a decode; true ends it with ERR_GONE */
    void *ctx;
};

/* One token of a step. want_output: logits, or for embeddings true everywhere. */
struct engine_token {
    int32_t id;
    uint32_t pos;
    uint16_t seq;
    bool want_output;
};

/* A call of a function, in the message of an assistant. */
struct chat_call {
    struct slice id, name;
    struct slice arguments; /* JSON text */
};

/* Who wrote what, for the chat template. */
struct chat_message {
    struct slice role;
    struct slice content;
    struct slice reasoning;        /* of an assistant */
    const struct chat_call *calls; /* of an assistant */
    size_t call_count;
    struct slice name, call_id; /* of a tool's answer */
};

/* A function that may be called. */
struct tool {
    struct slice name, description;
    struct val parameters; /* JSON schema of an object */
    bool is_strict;        /* arguments follow all of the schema, or it is refused */
};

struct toolset {
    struct tool *list;
    size_t count;
    bool is_required, is_parallel;
};

/* How a model writes calls, or its reasoning: what follows from its chat template. */
enum { CHAT_MARKS_MAX = 16 };
struct chat_format {
    struct buf grammar;  /* GBNF; empty = any text */
    struct buf begun;    /* text of the grammar that ends the prompt */
    struct arena *arena; /* borrowed; the following live in it */
    bool is_lazy;        /* the grammar begins at a trigger */
    struct slice triggers[CHAT_MARKS_MAX], stops[CHAT_MARKS_MAX];
    size_t trigger_count, stop_count;
    int32_t spelled[CHAT_MARKS_MAX * 4]; /* control tokens that are part of the text */
    size_t spelled_count;
    struct answer_format *answer; /* the caller's */
};

struct engine;
struct engine_lane;

struct engine_ops {
    void (*free)(struct engine *e);

    /*
     * Writes up to max ids and returns how many the text has. add_special puts
     * the model's start (and end) tokens around; parse_special reads the texts
     * of control tokens as control tokens.
     */
    size_t (*tokenise)(struct engine *e, struct slice text, bool add_special, bool parse_special,
                       int32_t *out, size_t max);
    /* Bytes of a token; control tokens have none. Returns their number. */
    size_t (*piece)(struct engine *e, int32_t id, char out[ENGINE_PIECE_BYTES]);
    /* The same, but control tokens have the bytes of their spelling. */
    size_t (*spell)(struct engine *e, int32_t id, char out[ENGINE_PIECE_BYTES]);
    bool (*is_end)(struct engine *e, int32_t id); /* ends an answer */
    /* The first place at or after from where text spells a control token. */
    bool (*find_control)(struct engine *e, struct slice text, size_t from, size_t *at, size_t *len);
    /*
     * Appends the messages by the model's chat template, ready for the answer. tools: JSON as in
     * OpenAI's API, empty = none; only with info.has_tools.
     */
    enum errc (*render)(struct engine *e, const struct chat_message *messages, size_t count,
                        struct slice tools, struct buf *out, struct error *err);
    /* How answers are written and read. Only with info.has_tools or info.has_reasoning. */
    enum errc (*format)(struct engine *e, const struct toolset *tools, struct chat_format *out,
                        struct error *err);

    enum errc (*lane_open)(struct engine *e, struct engine_lane **out,
                           const struct engine_lane_options *opt, struct error *err);
};

struct engine_lane_ops {
    void (*close)(struct engine_lane *lane);
    /*
     * Computes one step. Positions of a sequence continue where it ends. After
     * an error the sequences of the batch hold an unknown part of it: cut them
     * back with seq_cut before going on.
     */
    enum errc (*decode)(struct engine_lane *lane, const struct engine_token *tokens, size_t count,
                        struct error *err);
    /* Logits of the i-th token of the last decode; vocab_size floats, until the next decode. */
    const float *(*logits)(struct engine_lane *lane, size_t i);
    /* Pooled, not normalised vector of a sequence of the last decode. */
    const float *(*embedding)(struct engine_lane *lane, uint16_t seq);
    /* Forgets the tokens of seq at positions >= from. */
    void (*seq_cut)(struct engine_lane *lane, uint16_t seq, uint32_t from);
    /* Steps from now on use so many threads, at most threads_max; one after the opening. */
    void (*set_threads)(struct engine_lane *lane, unsigned threads);
    /* Sequence to, which must be empty, becomes the first n tokens of from. Copies nothing. */
    void (*fork)(struct engine_lane *lane, uint16_t from, uint16_t to, uint32_t n);
    /*
     * The computed tokens of a sequence as bytes, for the lanes of this engine in this process.
     * save writes exactly save_size bytes. load fills an empty sequence; ERR_LIMIT: no cells,
     * and the sequence holds an unknown part.
     */
    size_t (*save_size)(struct engine_lane *lane, uint16_t seq);
    void (*save)(struct engine_lane *lane, uint16_t seq, void *out, size_t size);
    enum errc (*load)(struct engine_lane *lane, uint16_t seq, struct slice state,
                      struct error *err);
};

struct engine {
    const struct engine_ops *ops;
    struct engine_info info;
};

struct engine_lane {
    const struct engine_lane_ops *ops;
};

static inline void engine_free(struct engine *e)
{
    if (e)
        e->ops->free(e);
}

static inline void engine_lane_close(struct engine_lane *lane)
{
    if (lane)
        lane->ops->close(lane);
}

/*
 * Shares the first n tokens of a sequence with an empty one. Only for a lane
 * that was opened unified on an engine that can fork (llama.cpp aborts the
 * process on other pools); ids stay below the lane's seq_max.
 */
static inline void engine_fork(struct engine_lane *lane, uint16_t from, uint16_t to, uint32_t n)
{
    lane->ops->fork(lane, from, to, n);
}

/*
 * Opens a GGUF file, after a check of its own. progress (may be NULL) is asked now and then whether
 * to go on: false ends the loading with ERR_GONE.
 */
MUST_CHECK enum errc engine_llama_open(struct engine **out, const char *path,
                                       bool (*progress)(void *ctx, double done), void *ctx,
                                       struct error *err);

/* spec: "chat,prefill=4000,decode=100,ctx=4096,memory=MIB,script=TEXT" or "embed,dim=384". */
MUST_CHECK enum errc engine_sim_open(struct engine **out, const char *spec, struct error *err);

/* What a file says of the model in it: enough to know what loading it will take. */
struct model_shape {
    enum model_kind kind;
    uint64_t file_bytes;
    uint64_t kv_values; /* kept per token, over all layers */
    uint32_t context_tokens, vocab_size, heads, width, feed_forward; /* 0 = it does not say */
};

/* Of what engine_sim_open takes; file_bytes is its option memory=MIB. */
MUST_CHECK enum errc engine_sim_shape(const char *spec, struct model_shape *out, struct error *err);

/* Checks a GGUF file so far that no count or offset in it leaves the file. */
MUST_CHECK enum errc gguf_check(const char *path, struct model_shape *out, struct error *err);

#endif
