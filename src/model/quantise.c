/* SPDX-License-Identifier: Apache-2.0 */
#include "model/quantise.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "model/engine.h"

#include "llama.h"

#include <stdio.h>

/* Types that decode fast on CPUs or keep quality; the smallest ones need data that nobody sends. */
static const struct {
    const char *name;
    enum llama_ftype type;
} types[] = {
    { "Q8_0", LLAMA_FTYPE_MOSTLY_Q8_0 },     { "Q6_K", LLAMA_FTYPE_MOSTLY_Q6_K },
    { "Q5_K_M", LLAMA_FTYPE_MOSTLY_Q5_K_M }, { "Q5_0", LLAMA_FTYPE_MOSTLY_Q5_0 },
    { "Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M }, { "Q4_0", LLAMA_FTYPE_MOSTLY_Q4_0 },
    { "Q4_1", LLAMA_FTYPE_MOSTLY_Q4_1 },     { "F16", LLAMA_FTYPE_MOSTLY_F16 },
};

enum { ROWS_MAX_BYTES = 256 * MIB };

static int find_type(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (slice_is(name, types[i].name))
            return (int)i;
    return -1;
}

enum errc quantise_check_type(struct slice type, struct error *err)
{
    char list[80] = "";
    size_t len = 0;
    if (find_type(type) >= 0)
        return OK;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        len +=
            (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", types[i].name);
    return fail(err, ERR_INVALID, "a model can be quantised to %s, not '%.*s'", list,
                (int)(type.len < 32 ? type.len : 32), type.ptr);
}

static void to_stderr(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

enum errc quantise_file(const char *in, const char *out, const char *type, struct error *err)
{
    struct model_shape shape;
    enum errc rc = OK;
    TRY(quantise_check_type(slice_str(type), err));
    TRY(gguf_check(in, &shape, err));
    llama_log_set(to_stderr, NULL);
    llama_backend_init();
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    p.ftype = types[find_type(slice_str(type))].type;
    p.nthread = (int32_t)cpu_cores();
    p.allow_requantize = true; /* the files that people have are quantised already */
    p.max_buf_size = ROWS_MAX_BYTES;
    if (llama_model_quantize(in, out, &p) != 0)
        rc = fail(err, ERR_CORRUPT, "llama.cpp cannot quantise it to %s", type);
out:
    return rc;
}
