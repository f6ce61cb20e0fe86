/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generator -- "answer this prompt somewhere" and "embed these texts": the
 * seam between those who ask (retrieve, server) and those who serve. The model
 * layer fills it locally; the cluster layer wraps it with routing.
 *
 * submit and embed return at once; events and results arrive on a thread of
 * the model layer. A callback must not block: copy, post, return.
 */
#ifndef MODEL_GENERATOR_H
#define MODEL_GENERATOR_H

#include "base/arena.h"
#include "base/base.h"
#include "base/error.h"
#include "base/val.h"
#include <stdatomic.h>

/* Added to the logit of a token; -100 forbids it. */
struct gen_bias {
    int32_t id;
    float bias;
};

enum { GEN_BIAS_MAX = 1024, GEN_STOPS_MAX = 16 };

struct gen_sampling {
    double temperature;       /* 0 = greedy */
    double top_p;             /* 1 = off */
    double min_p;             /* 0 = off */
    int top_k;                /* 0 = off */
    double repeat_penalty;    /* 1 = off */
    double presence_penalty;  /* 0 = off */
    double frequency_penalty; /* 0 = off */
    uint64_t seed;            /* used when has_seed, else random */
    bool has_seed;
    const struct gen_bias *bias; /* borrowed during submit */
    size_t bias_count;           /* at most GEN_BIAS_MAX */
};
/* OpenAI's defaults: temperature 1, top_p 1, all else off. */
struct gen_sampling gen_sampling_default(void);

/* What the answer's text must be. */
enum gen_shape_kind {
    GEN_FREE,
    GEN_JSON,    /* a JSON object */
    GEN_SCHEMA,  /* JSON that the schema allows */
    GEN_GRAMMAR, /* what the GBNF grammar says */
};

struct gen_shape {
    enum gen_shape_kind kind;
    struct val schema;
    struct slice grammar;
};

/* Functions that the model may ask to be called. */
enum gen_tool_choice { GEN_TOOLS_AUTO, GEN_TOOLS_NONE, GEN_TOOLS_REQUIRED };
struct gen_tools {
    struct val list; /* OpenAI's "tools"; null = none */
    enum gen_tool_choice choice;
    struct slice only; /* the function to call; empty = any */
    bool is_parallel;  /* more than one call in an answer */
};

enum gen_finish { GEN_STOP, GEN_LENGTH, GEN_CANCELLED, GEN_FAILED };
const char *gen_finish_name(enum gen_finish f); /* "stop" "length" "cancelled" "error" */

/* A token of an answer, and how probable it was. */
struct gen_token {
    int32_t id;
    float logprob;
    struct slice bytes;    /* of its text; a part of a character is possible */
    uint32_t alternatives; /* the most probable tokens of its place are the next so many */
};
/* Takes one off the tokens of an event. False at the end. */
bool gen_token_next(struct slice *rest, struct gen_token *out);
/* For bytes from outside: gen_token_next takes them off, one after the other, to their end. */
MUST_CHECK bool gen_tokens_are_whole(struct slice tokens);

/* Which node of a cluster answers, and why that one. */
struct gen_place {
    const char *node, *reason;
};

/* One event; borrowed for the call. The last one has is_last set. */
struct gen_event {
    struct slice text;   /* whole UTF-8 characters; may be empty */
    struct slice tokens; /* that it is made of, for gen_token_next; when they were asked for */
    bool is_last;
    enum gen_finish finish;  /* when is_last */
    const struct error *err; /* when finish is GEN_FAILED */
    uint32_t prompt_tokens;
    uint32_t cached_tokens;     /* of the prompt, not computed again */
    uint32_t completion_tokens; /* so far */
    uint64_t queue_us;          /* waited for a place */
    uint64_t prefill_us;
    uint64_t decode_us;
    const struct gen_place *place; /* NULL without a cluster */
};

/*
 * Who pays for what is computed; lives until the request's last event. Neither
 * function blocks. admit: any thread, before anything is queued; its error is
 * that of the submit. charge: once for what was computed, on a thread of the
 * model layer; tokens read (cached ones too) and written.
 */
struct gen_payer {
    enum errc (*admit)(struct gen_payer *p, struct error *err);
    void (*charge)(struct gen_payer *p, uint64_t tokens);
};

/*
 * A request is borrowed during submit: what is needed later is copied. cancel
 * must stay valid until the last event, which always comes after a submit
 * that returned OK, exactly once.
 */
struct gen_request {
    struct slice model;    /* empty = the default chat model */
    struct val messages;   /* [{role, content}], by the model's chat template; or */
    struct slice prompt;   /* text as it is, when messages is null; or */
    const int32_t *tokens; /* ready token ids, when token_count > 0 */
    size_t token_count;
    struct gen_sampling sampling;
    uint32_t max_tokens;       /* 0 = setting default_max_tokens, capped by the context */
    bool ignores_end;          /* the model's end tokens end nothing: max_tokens or a stop does */
    const struct slice *stops; /* texts that end the answer; they are not part of it */
    size_t stop_count;
    struct gen_shape shape; /* borrowed during submit; ERR_INVALID when it cannot be followed */
    struct gen_tools tools; /* the same; with messages only */
    /*
     * If not NULL: how the answer's text is read, to be freed with answer_format_free; NULL when
     * all of it is content. It stays good when the model is unloaded.
     */
    struct answer_format **format;
    bool wants_logprobs;
    unsigned top_logprobs; /* alternatives of each token, at most 20 */
    struct slice domain;   /* placement hints for the cluster */
    struct slice node;     /* that must answer; empty = whoever */
    struct slice adapter;
    uint64_t deadline_ms;      /* from now; 0 = setting request_timeout_ms */
    struct slice tenant;       /* salts shared prefixes */
    struct gen_payer *payer;   /* NULL = nobody */
    const atomic_bool *cancel; /* may be NULL */
    void (*on_event)(void *ctx, const struct gen_event *e);
    void *ctx;
};

struct embed_result {
    const float *vectors;
    size_t count;
    uint32_t dimension;
    uint32_t tokens;
    const bool *truncated;
    const struct error *err;
};

/* All texts of one call are embedded in as few steps as fit. */
struct embed_request {
    struct slice model; /* empty = the default embedding model */
    const struct slice *texts;
    size_t count;
    struct gen_payer *payer;   /* NULL = nobody */
    const atomic_bool *cancel; /* may be NULL */
    /*
     * Once, unless embed itself failed. vectors: count x dimension float32,
     * row after row, L2-normalised, borrowed; NULL with err. tokens: in all.
     * truncated[i]: text i was longer than the model's window.
     */
    void (*on_done)(void *ctx, const struct embed_result *result);
    void *ctx;
};
enum model_kind { MODEL_CHAT, MODEL_EMBEDDING };
const char *model_kind_name(enum model_kind kind); /* "chat" "embedding" */

/* Only ready ones are found by name. */
enum model_state { MODEL_LOADING, MODEL_READY, MODEL_LEAVING };

enum { MODELS_MAX = 32 };

struct model_info {
    char name[128];
    enum model_kind kind;
    uint32_t context_tokens; /* of one request */
    uint32_t dimension;      /* of embeddings */
    uint64_t parameters;
    uint64_t file_bytes;
    uint64_t memory_bytes; /* it takes at most */
    uint64_t created_s;    /* loaded at, seconds since 1970 */
    enum model_state state;
    char sha256[65];       /* of its file; empty for a simulated one */
    char description[128]; /* "SmolLM2 135M Instruct, Q4_1" */
};

struct generator {
    /*
     * ERR_NOT_FOUND: no such model (the text lists the loaded ones); ERR_BUSY: queue full;
     * ERR_INVALID: bad request (too long for the context: says both numbers). Any thread; tokenises.
     */
    enum errc (*submit)(struct generator *g, const struct gen_request *req, struct error *err);
    enum errc (*embed)(struct generator *g, const struct embed_request *req, struct error *err);
    /* Number of tokens of the text for that model. */
    enum errc (*count_tokens)(struct generator *g, struct slice model, struct slice text,
                              size_t *count, struct error *err);
    /* Text of tokens [0, max) of the text: for splitting by tokens. *len = bytes of that prefix. */
    enum errc (*fit_tokens)(struct generator *g, struct slice model, struct slice text, size_t max,
                            size_t *len, struct error *err);
    /*
     * Fills up to max infos, of all states; returns the number. One that is being loaded or
     * unloaded tells its name, state and memory only.
     */
    size_t (*models)(struct generator *g, struct model_info *out, size_t max);
    enum errc (*model)(struct generator *g, struct slice name, enum model_kind kind,
                       struct model_info *out, struct error *err);
};

#endif
