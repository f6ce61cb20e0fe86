/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted engine that sleeps. It stands for hardware this machine lacks and
 * runs under sanitizers, where real models are too slow.
 *
 * Tokens: 256 single bytes, three control tokens, and words that are given ids
 * as they are met (a leading space belongs to the word, as in real
 * vocabularies). Characters beyond ASCII are several byte tokens, so streams
 * split them, as real ones do.
 *
 * A chat lane remembers the tokens of each sequence, counts cells as llama.cpp
 * does (shared ones once) and refuses positions with holes: tests of the
 * scheduler see its mistakes. The answer is a function of the prompt alone: the
 * script, or the key words of the last user message.
 *
 * A vector is the sum of one pseudo-random vector per word, so texts that share
 * words are near each other, in every process alike.
 */
#include "model/engine.h"

#include "base/env.h"
#include "base/hash.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SIM_VOCAB = 32768,
    TOKEN_START = 256, /* <|im_start|> */
    TOKEN_END = 257,   /* <|im_end|>, ends an answer */
    TOKEN_CUT = 258,   /* [SEP] of embedding models */
    FIRST_WORD = 259,
    WORD_BYTES = 16,
    TABLE = 2 * SIM_VOCAB,
    SCRIPT_BYTES = 4096,
    KEYWORDS_MAX = 32,
    NAP_US = 2000,
    DIM_MAX = 4096,
};

static const char *const control_texts[] = { "<|im_start|>", "<|im_end|>", "[SEP]" };

struct engine_sim {
    struct engine base;
    double prefill, decode; /* tokens per second; 0 = no sleep */
    char script[SCRIPT_BYTES];
    pthread_mutex_t lock; /* over the words */
    uint32_t word_count;
    struct {
        char text[WORD_BYTES];
        uint8_t len;
    } words[SIM_VOCAB];
    uint16_t table[TABLE]; /* id of a word by hash; 0 = empty */
};

struct sim_seq {
    int32_t *tokens; /* owned */
    uint32_t *cells; /* owned; cell of each position */
    uint32_t len, cap;
    int32_t *answer; /* owned; what it will say, once a logit was asked for */
    uint32_t answer_start, answer_len;
};

struct lane_sim {
    struct engine_lane base;
    struct engine_sim *engine;
    struct engine_lane_options opt;
    struct sim_seq seqs[ENGINE_SEQ_MAX];
    uint16_t *cell_users; /* owned; per cell, sequences that use it */
    uint32_t *free_cells; /* owned; a stack */
    uint32_t free_count;
    int32_t *next; /* owned; per token of the last batch, what comes next or -1 */
    float *logits; /* owned; all low but one */
    int32_t hot;
    float *vectors; /* owned; embeddings by sequence */
};

/* ---- vocabulary ---- */

static void sim_free(struct engine *base)
{
    struct engine_sim *e = CONTAINER_OF(base, struct engine_sim, base);
    pthread_mutex_destroy(&e->lock);
    mem_free(e);
}

/* Id of a word; -1 when the vocabulary is full. */
static int32_t word_id(struct engine_sim *e, struct slice w)
{
    int32_t id = -1;
    uint64_t at = hash_xxh3(w.ptr, w.len);
    pthread_mutex_lock(&e->lock);
    for (;; at++) {
        uint16_t *cell = &e->table[at % TABLE];
        if (*cell == 0) {
            if (e->word_count < SIM_VOCAB) {
                id = (int32_t)e->word_count++;
                memcpy(e->words[id].text, w.ptr, w.len);
                e->words[id].len = (uint8_t)w.len;
                *cell = (uint16_t)id;
            }
            break;
        }
        if (slice_eq(slice_of(e->words[*cell].text, e->words[*cell].len), w)) {
            id = *cell;
            break;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return id;
}

static size_t piece(struct engine *base, int32_t id, char out[ENGINE_PIECE_BYTES])
{
    struct engine_sim *e = CONTAINER_OF(base, struct engine_sim, base);
    if (id >= 0 && id < 256) {
        out[0] = (char)id;
        return 1;
    }
    if (id < FIRST_WORD || id >= SIM_VOCAB)
        return 0;
    pthread_mutex_lock(&e->lock);
    size_t len = e->words[id].len;
    memcpy(out, e->words[id].text, len);
    pthread_mutex_unlock(&e->lock);
    return len;
}

static size_t spell(struct engine *base, int32_t id, char out[ENGINE_PIECE_BYTES])
{
    if (id < TOKEN_START || id > TOKEN_CUT)
        return piece(base, id, out);
    const char *text = control_texts[id - TOKEN_START];
    memcpy(out, text, strlen(text));
    return strlen(text);
}

static bool is_end(struct engine *base, int32_t id)
{
    (void)base;
    return id == TOKEN_END;
}

static int control_at(struct slice text, size_t i)
{
    for (int k = 0; k < (int)ARRAY_LEN(control_texts); k++) {
        if (slice_starts(slice_of(text.ptr + i, text.len - i), control_texts[k]))
            return k;
    }
    return -1;
}

static bool find_control(struct engine *base, struct slice text, size_t from, size_t *at,
                         size_t *len)
{
    (void)base;
    for (size_t i = from; i < text.len; i++) {
        int k = control_at(text, i);
        if (k >= 0) {
            *at = i;
            *len = strlen(control_texts[k]);
            return true;
        }
    }
    return false;
}

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) && (unsigned char)c < 0x80;
}

struct ids {
    int32_t *out;
    size_t max, count;
};

static void put_id(struct ids *ids, int32_t id)
{
    if (ids->count < ids->max)
        ids->out[ids->count] = id;
    ids->count++;
}

/* Length of the word at i with its leading space; 1 for a single byte. */
static size_t word_len(struct slice text, size_t i)
{
    size_t n = text.ptr[i] == ' ' ? 1 : 0;
    size_t begin = n;
    while (i + n < text.len && n < WORD_BYTES && is_word_byte(text.ptr[i + n]))
        n++;
    return n > begin ? n : 1;
}

static size_t tokenise(struct engine *base, struct slice text, bool add_special, bool parse_special,
                       int32_t *out, size_t max)
{
    struct engine_sim *e = CONTAINER_OF(base, struct engine_sim, base);
    struct ids ids = { out, max, 0 };
    for (size_t i = 0; i < text.len;) {
        int k = parse_special ? control_at(text, i) : -1;
        if (k >= 0) {
            put_id(&ids, TOKEN_START + k);
            i += strlen(control_texts[k]);
            continue;
        }
        size_t n = word_len(text, i);
        int32_t id = n > 1 ? word_id(e, slice_of(text.ptr + i, n)) : -1;
        for (size_t j = 0; id < 0 && j < n; j++)
            put_id(&ids, (unsigned char)text.ptr[i + j]);
        if (id >= 0)
            put_id(&ids, id);
        i += n;
    }
    if (add_special && base->info.kind == MODEL_EMBEDDING)
        put_id(&ids, TOKEN_CUT);
    return ids.count;
}

static enum errc render(struct engine *base, const struct chat_message *messages, size_t count,
                        struct slice tools, struct buf *out, struct error *err)
{
    (void)base;
    (void)tools;
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "<|im_start|>%.*s\n", SLICE_ARG(messages[i].role));
        buf_add_slice(out, messages[i].content);
        buf_add_str(out, "<|im_end|>\n");
    }
    buf_add_str(out, "<|im_start|>assistant\n");
    return buf_check(out, "prompt", err);
}

/* ---- answers ---- */

static void add_pieces(struct engine *base, const int32_t *tokens, size_t n, struct buf *out)
{
    char bytes[ENGINE_PIECE_BYTES];
    for (size_t i = 0; i < n; i++)
        buf_add(out, bytes, piece(base, tokens[i], bytes));
}

/* The tokens of the last message that is not the opened answer; all when there are no messages. */
static void last_message(const int32_t *tokens, size_t n, size_t *begin, size_t *end)
{
    size_t starts[2] = { n, n };
    size_t found = 0;
    for (size_t i = n; i-- > 0 && found < 2;) {
        if (tokens[i] == TOKEN_START)
            starts[found++] = i;
    }
    *begin = found == 2 ? starts[1] + 1 : 0;
    *end = found == 2 ? starts[0] : n;
    for (size_t i = *begin; found == 2 && i < *end; i++) {
        if (tokens[i] == '\n') { /* behind the role */
            *begin = i + 1;
            break;
        }
    }
}

static bool is_key_word(struct slice w)
{
    static const char *const common[] = { "about", "does", "from", "have", "that", "their",
                                          "there", "they", "this", "what", "when", "where",
                                          "which", "with", "your", "user", "were", "will" };
    if (w.len < 4)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(common); i++) {
        if (w.len == strlen(common[i]) && strncasecmp(w.ptr, common[i], w.len) == 0)
            return false;
    }
    return true;
}

/* The last ones: a question follows what it is about. */
static void add_key_words(struct slice text, struct buf *out)
{
    struct slice words[KEYWORDS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < text.len;) {
        size_t n = 0;
        while (i + n < text.len &&
               (is_word_byte(text.ptr[i + n]) || (unsigned char)text.ptr[i + n] >= 0x80))
            n++;
        if (is_key_word(slice_of(text.ptr + i, n)))
            words[count++ % KEYWORDS_MAX] = slice_of(text.ptr + i, n);
        i += n + 1;
    }
    buf_add_str(out, "You asked about");
    for (size_t i = count < KEYWORDS_MAX ? 0 : count - KEYWORDS_MAX; i < count; i++) {
        buf_add_char(out, ' ');
        buf_add_slice(out, words[i % KEYWORDS_MAX]);
    }
    buf_add_char(out, '.');
}

/* What the sequence will say, and the end token. */
static void write_answer(struct lane_sim *lane, struct sim_seq *s)
{
    struct engine *base = &lane->engine->base;
    size_t begin = 0, end = 0;
    struct buf prompt, text;
    buf_init(&prompt, 0);
    buf_init(&text, 0);
    if (lane->engine->script[0]) {
        buf_add_str(&text, lane->engine->script);
    } else {
        last_message(s->tokens, s->len, &begin, &end);
        add_pieces(base, s->tokens + begin, end - begin, &prompt);
        add_key_words(buf_slice(&prompt), &text);
    }
    s->answer = mem_alloc((text.len + 1) * sizeof *s->answer);
    s->answer_len = (uint32_t)tokenise(base, buf_slice(&text), false, false, s->answer, text.len);
    s->answer[s->answer_len++] = TOKEN_END;
    s->answer_start = s->len;
    buf_release(&prompt);
    buf_release(&text);
}

static int32_t next_token(struct lane_sim *lane, struct sim_seq *s)
{
    if (!s->answer)
        write_answer(lane, s);
    uint32_t at = s->len - s->answer_start;
    return at < s->answer_len ? s->answer[at] : TOKEN_END;
}

/* ---- lanes ---- */

static void forget_answer(struct sim_seq *s)
{
    mem_free(s->answer);
    s->answer = NULL;
}

static void seq_room(struct sim_seq *s, uint32_t len)
{
    if (len <= s->cap)
        return;
    s->cap = len < 256 ? 256 : len * 2;
    s->tokens = mem_realloc(s->tokens, s->cap * sizeof *s->tokens);
    s->cells = mem_realloc(s->cells, s->cap * sizeof *s->cells);
}

static void lane_seq_cut(struct engine_lane *base, uint16_t seq, uint32_t from)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    struct sim_seq *s = &lane->seqs[seq];
    while (s->len > from) {
        uint32_t cell = s->cells[--s->len];
        if (--lane->cell_users[cell] == 0)
            lane->free_cells[lane->free_count++] = cell;
    }
    if (s->answer && s->len < s->answer_start)
        forget_answer(s);
}

static void lane_fork(struct engine_lane *base, uint16_t from, uint16_t to, uint32_t n)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    struct sim_seq *a = &lane->seqs[from], *b = &lane->seqs[to];
    if (b->len != 0 || n > a->len || from >= lane->opt.seq_max || to >= lane->opt.seq_max)
        BUG("fork of %u tokens of sequence %u (%u) into %u (%u)", n, from, a->len, to, b->len);
    seq_room(b, n);
    memcpy(b->tokens, a->tokens, n * sizeof *b->tokens);
    memcpy(b->cells, a->cells, n * sizeof *b->cells);
    for (uint32_t i = 0; i < n; i++)
        lane->cell_users[b->cells[i]]++;
    b->len = n;
}

/* It sleeps: threads make nothing faster. */
static void lane_set_threads(struct engine_lane *base, unsigned threads)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    if (threads == 0 || threads > (lane->opt.threads_max ? lane->opt.threads_max : 1))
        BUG("%u threads of %u", threads, lane->opt.threads_max);
}

static size_t lane_save_size(struct engine_lane *base, uint16_t seq)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    return lane->seqs[seq].len * sizeof(int32_t);
}

static void lane_save(struct engine_lane *base, uint16_t seq, void *out, size_t size)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    memcpy(out, lane->seqs[seq].tokens, size);
}

/* Sleeps in naps, so that a stop is seen. */
static enum errc sleep_us(struct lane_sim *lane, double us, struct error *err)
{
    const struct env *env = env_system();
    uint64_t until = env_mono_us(env) + (uint64_t)us;
    for (;;) {
        if (lane->opt.should_stop && lane->opt.should_stop(lane->opt.ctx))
            return fail(err, ERR_GONE, "the step was stopped");
        uint64_t now = env_mono_us(env);
        if (now >= until)
            return OK;
        uint64_t nap = until - now < NAP_US ? until - now : NAP_US;
        struct timespec ts = { 0, (long)nap * 1000 };
        nanosleep(&ts, NULL);
    }
}

/* Prompt tokens one after the other; the decoding sequences all at once. */
static double step_us(const struct lane_sim *lane, const struct engine_token *tokens, size_t count)
{
    size_t decodes = 0;
    for (size_t i = 0; i < count; i++)
        decodes += lane->seqs[tokens[i].seq].answer != NULL;
    double us = 0;
    if (lane->engine->prefill > 0)
        us += (double)(count - decodes) * 1e6 / lane->engine->prefill;
    if (lane->engine->decode > 0 && decodes > 0)
        us += 1e6 / lane->engine->decode;
    return us;
}

static void add_word_vector(struct slice word, float *out, uint32_t dim)
{
    char low[WORD_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < word.len && n < sizeof low; i++) {
        if (word.ptr[i] != ' ')
            low[n++] = (char)tolower((unsigned char)word.ptr[i]);
    }
    if (n > 3 && low[n - 1] == 's') /* plurals are near enough */
        n--;
    if (n == 0)
        return;
    float weight = n < 4 ? 0.3f : 1;
    uint64_t x = hash_xxh3(low, n);
    for (uint32_t i = 0; i < dim; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] += weight * ((float)(x >> 40) / 8388608.0f - 1);
    }
}

static void embed_token(struct lane_sim *lane, const struct engine_token *t)
{
    uint32_t dim = lane->engine->base.info.dimension;
    float *v = lane->vectors + (size_t)t->seq * dim;
    char bytes[ENGINE_PIECE_BYTES];
    if (t->pos == 0) {
        memset(v, 0, dim * sizeof *v);
        v[0] = 1e-3f; /* an empty text has a direction too */
    }
    if (t->id >= FIRST_WORD || (t->id < 256 && is_word_byte((char)t->id)))
        add_word_vector(slice_of(bytes, piece(&lane->engine->base, t->id, bytes)), v, dim);
}

static enum errc store_token(struct lane_sim *lane, const struct engine_token *t, struct error *err)
{
    struct sim_seq *s = &lane->seqs[t->seq];
    if (t->seq >= lane->opt.seq_max || t->pos != s->len)
        BUG("token at %u of sequence %u, which has %u", t->pos, t->seq, s->len);
    if (lane->free_count == 0)
        return fail(err, ERR_LIMIT, "no KV cell for sequence %u", t->seq);
    seq_room(s, s->len + 1);
    uint32_t cell = lane->free_cells[--lane->free_count];
    lane->cell_users[cell] = 1;
    s->cells[s->len] = cell;
    s->tokens[s->len++] = t->id;
    return OK;
}

static enum errc lane_load(struct engine_lane *base, uint16_t seq, struct slice state,
                           struct error *err)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    enum errc rc = OK;
    for (uint32_t i = 0; rc == OK && i < state.len / sizeof(int32_t); i++) {
        struct engine_token t = { .pos = i, .seq = seq };
        memcpy(&t.id, state.ptr + i * sizeof t.id, sizeof t.id);
        rc = store_token(lane, &t, err);
    }
    return rc;
}

static enum errc lane_decode(struct engine_lane *base, const struct engine_token *tokens,
                             size_t count, struct error *err)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    enum errc rc = OK;
    if (count == 0 || count > lane->opt.batch_tokens)
        BUG("a batch of %zu tokens", count);
    TRY(sleep_us(lane, step_us(lane, tokens, count), err));
    for (size_t i = 0; i < count; i++) {
        if (lane->vectors) {
            embed_token(lane, &tokens[i]);
            continue;
        }
        TRY(store_token(lane, &tokens[i], err));
        lane->next[i] = tokens[i].want_output ? next_token(lane, &lane->seqs[tokens[i].seq]) : -1;
    }
out:
    return rc;
}

static const float *lane_logits(struct engine_lane *base, size_t i)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    if (lane->next[i] < 0)
        return NULL;
    lane->logits[lane->hot] = -100;
    lane->hot = lane->next[i];
    lane->logits[lane->hot] = 30;
    return lane->logits;
}

static const float *lane_embedding(struct engine_lane *base, uint16_t seq)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    return lane->vectors + (size_t)seq * lane->engine->base.info.dimension;
}

static void lane_close(struct engine_lane *base)
{
    struct lane_sim *lane = CONTAINER_OF(base, struct lane_sim, base);
    for (size_t i = 0; i < ENGINE_SEQ_MAX; i++) {
        forget_answer(&lane->seqs[i]);
        mem_free(lane->seqs[i].tokens);
        mem_free(lane->seqs[i].cells);
    }
    mem_free(lane->cell_users);
    mem_free(lane->free_cells);
    mem_free(lane->next);
    mem_free(lane->logits);
    mem_free(lane->vectors);
    mem_free(lane);
}

static const struct engine_lane_ops lane_ops = {
    .close = lane_close,
    .decode = lane_decode,
    .logits = lane_logits,
    .embedding = lane_embedding,
    .seq_cut = lane_seq_cut,
    .set_threads = lane_set_threads,
    .fork = lane_fork,
    .save_size = lane_save_size,
    .save = lane_save,
    .load = lane_load,
};

static enum errc lane_open(struct engine *base, struct engine_lane **out,
                           const struct engine_lane_options *opt, struct error *err)
{
    (void)err;
    struct lane_sim *lane = mem_zalloc(sizeof *lane);
    lane->base.ops = &lane_ops;
    lane->engine = CONTAINER_OF(base, struct engine_sim, base);
    lane->opt = *opt;
    if (base->info.kind == MODEL_EMBEDDING) {
        lane->vectors = mem_zalloc(opt->seq_max * base->info.dimension * sizeof(float));
    } else {
        lane->cell_users = mem_zalloc(opt->cells * sizeof *lane->cell_users);
        lane->free_cells = mem_alloc(opt->cells * sizeof *lane->free_cells);
        for (uint32_t i = 0; i < opt->cells; i++)
            lane->free_cells[lane->free_count++] = opt->cells - 1 - i;
        lane->next = mem_zalloc(opt->batch_tokens * sizeof *lane->next);
        lane->logits = mem_alloc(SIM_VOCAB * sizeof *lane->logits);
        for (size_t i = 0; i < SIM_VOCAB; i++)
            lane->logits[i] = -100;
    }
    *out = &lane->base;
    return OK;
}

static const struct engine_ops ops = {
    .free = sim_free,
    .tokenise = tokenise,
    .piece = piece,
    .spell = spell,
    .is_end = is_end,
    .find_control = find_control,
    .render = render,
    .lane_open = lane_open,
};

/* ---- opening ---- */

static enum errc set_number(struct engine_sim *e, struct slice name, struct slice value,
                            struct error *err)
{
    char text[32] = "", *end = NULL;
    memcpy(text, value.ptr, value.len < sizeof text - 1 ? value.len : sizeof text - 1);
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0 && v <= 1e9))
        return fail(err, ERR_INVALID, "sim: %.*s=%s is not a number", SLICE_ARG(name), text);
    struct engine_info *info = &e->base.info;
    if (slice_is(name, "prefill"))
        e->prefill = v;
    else if (slice_is(name, "decode"))
        e->decode = v;
    else if (slice_is(name, "ctx") && v >= 16 && v <= 1 << 20)
        info->context_tokens = (uint32_t)v;
    else if (slice_is(name, "dim") && v >= 1 && v <= DIM_MAX)
        info->dimension = (uint32_t)v;
    else if (slice_is(name, "memory"))
        info->file_bytes = (uint64_t)v * MIB;
    else if (!slice_is(name, "slots")) /* the settings decide */
        return fail(err, ERR_INVALID,
                    "sim: unknown option %.*s=%s; known are prefill, decode, ctx, dim, memory, "
                    "script",
                    SLICE_ARG(name), text);
    return OK;
}

/* name=value pairs; script is the last, since its text may hold commas. */
static enum errc read_options(struct engine_sim *e, struct slice rest, struct error *err)
{
    while (rest.len > 0) {
        if (slice_starts(rest, "script=")) {
            struct slice text = slice_of(rest.ptr + 7, rest.len - 7);
            if (text.len >= sizeof e->script)
                return fail(err, ERR_INVALID, "sim: the script is longer than %d bytes",
                            SCRIPT_BYTES - 1);
            memcpy(e->script, text.ptr, text.len);
            return OK;
        }
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t n = comma ? (size_t)(comma - rest.ptr) : rest.len;
        const char *equal = memchr(rest.ptr, '=', n);
        if (!equal)
            return fail(err, ERR_INVALID, "sim: %.*s is not name=value", (int)n, rest.ptr);
        size_t name = (size_t)(equal - rest.ptr);
        enum errc rc =
            set_number(e, slice_of(rest.ptr, name), slice_of(equal + 1, n - name - 1), err);
        if (rc != OK)
            return rc;
        size_t used = comma ? n + 1 : n;
        rest = slice_of(rest.ptr + used, rest.len - used);
    }
    return OK;
}

enum errc engine_sim_open(struct engine **out, const char *spec, struct error *err)
{
    struct slice rest = slice_str(spec);
    const char *comma = strchr(spec, ',');
    struct slice kind = slice_of(spec, comma ? (size_t)(comma - spec) : rest.len);
    bool is_chat = slice_is(kind, "chat");
    if (!is_chat && !slice_is(kind, "embed"))
        return fail(err, ERR_INVALID, "sim:%s: the kind must be chat or embed", spec);
    struct engine_sim *e = mem_zalloc(sizeof *e);
    e->base.ops = &ops;
    pthread_mutex_init(&e->lock, NULL);
    e->word_count = FIRST_WORD;
    e->base.info = (struct engine_info){
        .kind = is_chat ? MODEL_CHAT : MODEL_EMBEDDING,
        .context_tokens = is_chat ? 8192 : 256,
        .vocab_size = SIM_VOCAB,
        .dimension = 384,
        .can_fork = is_chat,
    };
    size_t used = comma ? kind.len + 1 : kind.len;
    enum errc rc = read_options(e, slice_of(spec + used, rest.len - used), err);
    if (rc != OK) {
        sim_free(&e->base);
        return rc;
    }
    snprintf(e->base.info.description, sizeof e->base.info.description,
             "simulated %s model (scripted answers)", is_chat ? "chat" : "embedding");
    *out = &e->base;
    return OK;
}

enum errc engine_sim_shape(const char *spec, struct model_shape *out, struct error *err)
{
    struct engine *e = NULL;
    enum errc rc = engine_sim_open(&e, spec, err);
    if (rc != OK)
        return rc;
    *out = (struct model_shape){ .kind = e->info.kind,
                                 .file_bytes = e->info.file_bytes,
                                 .context_tokens = e->info.context_tokens };
    engine_free(e);
    return OK;
}
