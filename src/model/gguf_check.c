/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GGUF file is: magic, version, counts; key-value pairs; tensor descriptions;
 * padding; tensor data. Every count, length and offset is compared with what is
 * left of the file before it is used, so that llama.cpp only sees files whose
 * structure holds. Values of a few keys that its loader trusts are checked too.
 *
 * The reader never allocates by a number from the file.
 */
#include "model/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
    MAX_TENSORS = 1 << 17,
    MAX_PAIRS = 1 << 16,
    MAX_KEY = 1 << 16,
    MAX_TENSOR_NAME = 63,
    MAX_DIMS = 4,
    MAX_LAYERS = 4096,
    DIM_MAX = 1 << 24, /* larger ones count as this */
    ALIGNMENT_MIN = 32,
    POOLING_MAX = 4,
    TYPE_COUNT = 43,
};

/* Types of values in pairs. */
enum { KV_UINT32 = 4, KV_INT32 = 5, KV_FLOAT32 = 6, KV_STRING = 8, KV_ARRAY = 9, KV_COUNT = 13 };

static const uint8_t kv_bytes[KV_COUNT] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* Values per block and bytes of a block of each tensor type; 0 = no such type. */
static const struct {
    uint16_t values, bytes;
} tensor_types[TYPE_COUNT] = {
    [0] = { 1, 4 },      [1] = { 1, 2 },      [2] = { 32, 18 },    [3] = { 32, 20 },
    [6] = { 32, 22 },    [7] = { 32, 24 },    [8] = { 32, 34 },    [9] = { 32, 36 },
    [10] = { 256, 84 },  [11] = { 256, 110 }, [12] = { 256, 144 }, [13] = { 256, 176 },
    [14] = { 256, 210 }, [15] = { 256, 292 }, [16] = { 256, 66 },  [17] = { 256, 74 },
    [18] = { 256, 98 },  [19] = { 256, 50 },  [20] = { 32, 18 },   [21] = { 256, 110 },
    [22] = { 256, 82 },  [23] = { 256, 136 }, [24] = { 1, 1 },     [25] = { 1, 2 },
    [26] = { 1, 4 },     [27] = { 1, 8 },     [28] = { 1, 8 },     [29] = { 256, 56 },
    [30] = { 1, 2 },     [34] = { 256, 54 },  [35] = { 256, 66 },  [39] = { 32, 17 },
    [40] = { 64, 36 },   [41] = { 128, 18 },  [42] = { 64, 18 },
};

/* Numbers of the architecture; of several, the largest. */
struct dims {
    uint64_t kv_heads; /* over all layers, when each has its own number */
    uint32_t layers, heads, kv_heads_each, width, feed_forward, context, key, value, pooling;
};

struct reader {
    FILE *file;
    const char *path;
    uint64_t size, at;
    uint64_t alignment;
    uint64_t token_count, score_count, type_count; /* of the tokeniser */
    bool has_architecture;
    struct dims dims;
    struct error *err;
};

static enum errc bad(struct reader *r, const char *what)
{
    return fail(r->err, ERR_CORRUPT, "%s is not a sound GGUF file: %s at byte %" PRIu64, r->path,
                what, r->at);
}

static enum errc take(struct reader *r, void *out, size_t len)
{
    if (len > r->size - r->at)
        return bad(r, "it ends too early");
    if (fread(out, 1, len, r->file) != len)
        return fail(r->err, ERR_IO, "cannot read %s", r->path);
    r->at += len;
    return OK;
}

static enum errc skip(struct reader *r, uint64_t len)
{
    if (len > r->size - r->at)
        return bad(r, "it ends too early");
    char scratch[4096];
    while (len > 0) {
        size_t n = len < sizeof scratch ? (size_t)len : sizeof scratch;
        if (fread(scratch, 1, n, r->file) != n)
            return fail(r->err, ERR_IO, "cannot read %s", r->path);
        r->at += n;
        len -= n;
    }
    return OK;
}

static enum errc take_string(struct reader *r, char *out, size_t cap, uint64_t max)
{
    uint64_t len = 0;
    enum errc rc = OK;
    TRY(take(r, &len, sizeof len));
    if (len > max || len > r->size - r->at) {
        rc = bad(r, "a text is too long");
        goto out;
    }
    size_t kept = len < cap - 1 ? (size_t)len : cap - 1;
    TRY(take(r, out, kept));
    out[kept] = 0;
    TRY(skip(r, len - kept));
    if (memchr(out, 0, kept))
        rc = bad(r, "a name holds a zero byte");
out:
    return rc;
}

static enum errc skip_string(struct reader *r)
{
    uint64_t len = 0;
    enum errc rc = take(r, &len, sizeof len);
    return rc == OK ? skip(r, len) : rc;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && memcmp(s + n - m, tail, m) == 0;
}

/* Arrays of the vocabulary must have the types and lengths that the loader indexes by. */
static enum errc note_array(struct reader *r, const char *key, uint32_t type, uint64_t count)
{
    bool is_ok = true;
    if (strcmp(key, "tokenizer.ggml.tokens") == 0) {
        r->token_count = count;
        is_ok = type == KV_STRING && count > 0 && count <= INT32_MAX;
    } else if (strcmp(key, "tokenizer.ggml.scores") == 0) {
        r->score_count = count;
        is_ok = type == KV_FLOAT32;
    } else if (strcmp(key, "tokenizer.ggml.token_type") == 0) {
        r->type_count = count;
        is_ok = type == KV_INT32 || type == KV_UINT32;
    } else if (strcmp(key, "tokenizer.ggml.merges") == 0) {
        is_ok = type == KV_STRING;
    }
    return is_ok ? OK : bad(r, "a list of the vocabulary has the wrong type");
}

/* Where a number of the architecture goes; NULL: nobody asks for it. */
static uint32_t *dim_of(struct dims *d, const char *key)
{
    const struct {
        const char *end;
        uint32_t *to;
    } known[] = {
        { ".block_count", &d->layers },
        { ".attention.head_count", &d->heads },
        { ".attention.head_count_kv", &d->kv_heads_each },
        { ".attention.key_length", &d->key },
        { ".attention.value_length", &d->value },
        { ".embedding_length", &d->width },
        { ".feed_forward_length", &d->feed_forward },
        { ".context_length", &d->context },
        { ".pooling_type", &d->pooling },
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (ends_with(key, known[i].end))
            return known[i].to;
    return NULL;
}

static void note_number(struct reader *r, const char *key, uint32_t type, uint32_t v)
{
    uint32_t *to =
        type == KV_UINT32 || (type == KV_INT32 && v <= INT32_MAX) ? dim_of(&r->dims, key) : NULL;
    v = v < DIM_MAX ? v : DIM_MAX;
    if (to && v > *to)
        *to = v;
}

/* Models whose layers differ have a list where others have a number. */
static enum errc note_list(struct reader *r, const char *key, uint32_t type, uint64_t *count)
{
    bool is_kv = ends_with(key, ".attention.head_count_kv");
    uint64_t sum = 0;
    enum errc rc = OK;
    if ((type != KV_UINT32 && type != KV_INT32) || *count > MAX_LAYERS || !dim_of(&r->dims, key))
        return OK;
    for (; *count > 0; (*count)--) {
        uint32_t v = 0;
        TRY(take(r, &v, sizeof v));
        note_number(r, key, type, v);
        sum += v < DIM_MAX ? v : DIM_MAX;
    }
    if (is_kv && sum > r->dims.kv_heads)
        r->dims.kv_heads = sum;
out:
    return rc;
}

static enum errc check_array(struct reader *r, const char *key)
{
    uint32_t type = 0;
    uint64_t count = 0;
    enum errc rc = OK;
    TRY(take(r, &type, sizeof type));
    TRY(take(r, &count, sizeof count));
    if (type >= KV_COUNT || type == KV_ARRAY) {
        rc = bad(r, "a list has an unknown type");
        goto out;
    }
    TRY(note_array(r, key, type, count));
    uint64_t least = type == KV_STRING ? 8 : kv_bytes[type];
    if (count > (r->size - r->at) / least) {
        rc = bad(r, "a list is longer than the file");
        goto out;
    }
    if (type != KV_STRING) {
        TRY(note_list(r, key, type, &count));
        rc = skip(r, count * least);
        goto out;
    }
    for (uint64_t i = 0; i < count; i++)
        TRY(skip_string(r));
out:
    return rc;
}

/* Values that llama.cpp would divide by, allocate by or assert on. */
static const char *bad_value(struct reader *r, const char *key, uint32_t type, uint32_t v)
{
    float f = 0;
    memcpy(&f, &v, sizeof f);
    if (strcmp(key, "general.alignment") == 0) {
        if (type != KV_UINT32 || v < ALIGNMENT_MIN || v > 65536 || (v & (v - 1)) != 0)
            return "the alignment is not a power of two from 32 on";
        r->alignment = v;
    }
    if (ends_with(key, ".block_count") && (type != KV_UINT32 || v == 0 || v > MAX_LAYERS))
        return "the number of layers is out of range";
    if (ends_with(key, "_epsilon") && !(type == KV_FLOAT32 && f >= 0 && f < 1))
        return "the epsilon of a norm is out of range";
    if (ends_with(key, ".pooling_type") && v > POOLING_MAX)
        return "the pooling type is unknown";
    return NULL;
}

static enum errc check_number(struct reader *r, const char *key, uint32_t type)
{
    uint8_t raw[8] = { 0 };
    uint32_t v = 0;
    enum errc rc = take(r, raw, kv_bytes[type]);
    if (rc != OK)
        return rc;
    memcpy(&v, raw, sizeof v);
    const char *what = bad_value(r, key, type, v);
    if (what)
        return bad(r, what);
    note_number(r, key, type, v);
    return OK;
}

static enum errc check_pair(struct reader *r)
{
    char key[128];
    char text[128];
    uint32_t type = 0;
    enum errc rc = OK;
    TRY(take_string(r, key, sizeof key, MAX_KEY));
    TRY(take(r, &type, sizeof type));
    if (type >= KV_COUNT) {
        rc = bad(r, "a value has an unknown type");
    } else if (type == KV_ARRAY) {
        rc = check_array(r, key);
    } else if (type != KV_STRING) {
        rc = check_number(r, key, type);
    } else if (strcmp(key, "general.architecture") == 0) {
        r->has_architecture = true;
        rc = take_string(r, text, sizeof text, 64);
    } else {
        rc = skip_string(r);
    }
out:
    return rc;
}

static enum errc tensor_bytes(struct reader *r, uint32_t type, const uint64_t *dims, uint32_t n,
                              uint64_t *bytes)
{
    if (type >= TYPE_COUNT || tensor_types[type].values == 0)
        return bad(r, "a tensor has an unknown type");
    uint64_t values = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (dims[i] == 0 || dims[i] > INT64_MAX || values > (uint64_t)INT64_MAX / dims[i])
            return bad(r, "a tensor has impossible dimensions");
        values *= dims[i];
    }
    uint64_t per_block = tensor_types[type].values;
    if (n == 1 && per_block > 1) /* norms and biases: llama.cpp asserts that they are not */
        return bad(r, "a vector is quantised");
    if ((n ? dims[0] : 1) % per_block != 0)
        return bad(r, "a row of a tensor is not whole blocks");
    if (values / per_block > (uint64_t)INT64_MAX / tensor_types[type].bytes)
        return bad(r, "a tensor has impossible dimensions");
    *bytes = values / per_block * tensor_types[type].bytes;
    return OK;
}

/* *end = where the data of this tensor end, counted from the start of all data. */
static enum errc check_tensor(struct reader *r, uint64_t *end)
{
    char name[MAX_TENSOR_NAME + 1];
    uint64_t dims[MAX_DIMS] = { 0 };
    uint32_t n = 0, type = 0;
    uint64_t offset = 0, bytes = 0;
    enum errc rc = OK;
    TRY(take_string(r, name, sizeof name, MAX_TENSOR_NAME));
    TRY(take(r, &n, sizeof n));
    if (!name[0]) {
        rc = bad(r, "a tensor has no name");
        goto out;
    }
    if (n > MAX_DIMS) {
        rc = bad(r, "a tensor has too many dimensions");
        goto out;
    }
    TRY(take(r, dims, n * sizeof dims[0]));
    TRY(take(r, &type, sizeof type));
    TRY(take(r, &offset, sizeof offset));
    TRY(tensor_bytes(r, type, dims, n, &bytes));
    if (offset % r->alignment != 0 || offset > r->size || bytes > r->size - offset)
        rc = bad(r, "the data of a tensor lie outside");
    *end = offset + bytes;
out:
    return rc;
}

static enum errc check_vocabulary(struct reader *r)
{
    if (!r->has_architecture)
        return bad(r, "it names no architecture");
    bool is_ok = (r->score_count == 0 || r->score_count >= r->token_count) &&
                 (r->type_count == 0 || r->type_count >= r->token_count);
    return is_ok ? OK : bad(r, "the lists of the vocabulary differ in length");
}

static enum errc check_all(struct reader *r)
{
    uint32_t magic_version[2] = { 0 };
    uint64_t counts[2] = { 0 };
    uint64_t end = 0, most = 0;
    enum errc rc = OK;
    TRY(take(r, magic_version, sizeof magic_version));
    if (memcmp(magic_version, "GGUF", 4) != 0) {
        rc = fail(r->err, ERR_CORRUPT, "%s is not a GGUF file", r->path);
        goto out;
    }
    if (magic_version[1] != 2 && magic_version[1] != 3) {
        rc = fail(r->err, ERR_CORRUPT, "%s has GGUF version %u; 2 and 3 are known", r->path,
                  magic_version[1]);
        goto out;
    }
    TRY(take(r, counts, sizeof counts));
    if (counts[0] == 0 || counts[0] > MAX_TENSORS || counts[1] > MAX_PAIRS) {
        rc = bad(r, "the number of tensors or pairs is out of range");
        goto out;
    }
    for (uint64_t i = 0; i < counts[1]; i++)
        TRY(check_pair(r));
    TRY(check_vocabulary(r));
    for (uint64_t i = 0; i < counts[0]; i++) {
        TRY(check_tensor(r, &end));
        most = end > most ? end : most;
    }
    uint64_t data = (r->at + r->alignment - 1) / r->alignment * r->alignment;
    if (data > r->size || most > r->size - data)
        rc = fail(r->err, ERR_CORRUPT,
                  "%s is cut off: it has %" PRIu64 " bytes of %" PRIu64 "; download it again",
                  r->path, r->size, data + most);
out:
    return rc;
}

static void tell_shape(const struct reader *r, struct model_shape *out)
{
    const struct dims *d = &r->dims;
    uint32_t heads = d->heads ? d->heads : 1;
    uint64_t each = d->kv_heads_each ? d->kv_heads_each : heads;
    uint64_t kv_heads = d->kv_heads ? d->kv_heads : each * d->layers;
    uint64_t key = d->key ? d->key : d->width / heads;
    uint64_t value = d->value ? d->value : d->width / heads;
    *out = (struct model_shape){
        .kind = d->pooling ? MODEL_EMBEDDING : MODEL_CHAT,
        .file_bytes = r->size,
        .kv_values = kv_heads * (key + value),
        .context_tokens = d->context,
        .vocab_size = (uint32_t)r->token_count,
        .heads = heads,
        .width = d->width,
        .feed_forward = d->feed_forward,
    };
}

enum errc gguf_check(const char *path, struct model_shape *out, struct error *err)
{
    struct reader r = { .path = path, .alignment = 32, .err = err };
    struct stat st;
    enum errc rc = OK;
    r.file = fopen(path, "rb");
    if (!r.file)
        return fail(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "cannot open the model %s: %s",
                    path, strerror(errno));
    if (fstat(fileno(r.file), &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = fail(err, ERR_INVALID, "the model %s is not a file", path);
        goto out;
    }
    r.size = (uint64_t)st.st_size;
    TRY(check_all(&r));
    tell_shape(&r, out);
out:
    fclose(r.file);
    return rc;
}
