/* SPDX-License-Identifier: Apache-2.0 */
#include "retrieve/infer_options.h"

#include "base/buf.h"

enum { STOPS_MAX = 16 };

/* What is collected before the request is made. */
struct collected {
    struct gen_request *req;
    struct arena *arena;
    struct slice system;
    bool is_raw;
};

struct option {
    const char *name;
    enum val_type type;
    double min, max; /* of numbers */
    enum errc (*set)(struct collected *c, struct val v, struct error *err);
};

static enum errc set_adapter(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->adapter = val_string(v);
    return OK;
}

static enum errc set_domain(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->domain = val_string(v);
    return OK;
}

static enum errc set_frequency_penalty(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.frequency_penalty = val_double(v);
    return OK;
}

static enum errc set_max_tokens(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->max_tokens = (uint32_t)val_int(v);
    return OK;
}

static enum errc set_min_p(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.min_p = val_double(v);
    return OK;
}

static enum errc set_presence_penalty(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.presence_penalty = val_double(v);
    return OK;
}

static enum errc set_raw(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->is_raw = val_bool(v);
    return OK;
}

static enum errc set_repeat_penalty(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.repeat_penalty = val_double(v);
    return OK;
}

static enum errc set_schema(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->shape = (struct gen_shape){ .kind = GEN_SCHEMA, .schema = v };
    return OK;
}

static enum errc set_seed(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.seed = (uint64_t)val_int(v);
    c->req->sampling.has_seed = true;
    return OK;
}

static enum errc set_stop(struct collected *c, struct val v, struct error *err)
{
    bool is_one = val_type(v) == VAL_STRING;
    size_t n = is_one ? 1 : val_count(v);
    struct slice *stops;

    if (n > STOPS_MAX)
        return fail_num(err, 1504, "INFER: option 'stop' has %zu texts, the limit is %d", n,
                        STOPS_MAX);
    stops = arena_alloc(c->arena, (n + 1) * sizeof *stops);
    for (size_t i = 0; i < n; i++) {
        struct val item = is_one ? v : val_at(v, i);
        if (val_type(item) != VAL_STRING || val_string(item).len == 0)
            return fail_num(err, 1542, "INFER: option 'stop' must be a text or an array of texts");
        stops[i] = val_string(item);
    }
    c->req->stops = stops;
    c->req->stop_count = n;
    return OK;
}

static enum errc set_system(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->system = val_string(v);
    return OK;
}

static enum errc set_temperature(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.temperature = val_double(v);
    return OK;
}

static enum errc set_top_k(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.top_k = (int)val_int(v);
    return OK;
}

static enum errc set_top_p(struct collected *c, struct val v, struct error *err)
{
    (void)err;
    c->req->sampling.top_p = val_double(v);
    return OK;
}

/* Sorted by name. stop is checked by its setter. */
static const struct option options_known[] = {
    { "adapter", VAL_STRING, 0, 0, set_adapter },
    { "domain", VAL_STRING, 0, 0, set_domain },
    { "frequency_penalty", VAL_NUMBER, -2, 2, set_frequency_penalty },
    { "max_tokens", VAL_NUMBER, 1, 1048576, set_max_tokens },
    { "min_p", VAL_NUMBER, 0, 1, set_min_p },
    { "presence_penalty", VAL_NUMBER, -2, 2, set_presence_penalty },
    { "raw", VAL_BOOL, 0, 0, set_raw },
    { "repeat_penalty", VAL_NUMBER, 0.1, 10, set_repeat_penalty },
    { "schema", VAL_OBJECT, 0, 0, set_schema },
    { "seed", VAL_NUMBER, -9.3e18, 9.3e18, set_seed },
    { "stop", VAL_NULL, 0, 0, set_stop },
    { "system", VAL_STRING, 0, 0, set_system },
    { "temperature", VAL_NUMBER, 0, 5, set_temperature },
    { "top_k", VAL_NUMBER, 0, 1000000, set_top_k },
    { "top_p", VAL_NUMBER, 0, 1, set_top_p },
};

static enum errc unknown_option(struct slice name, struct error *err)
{
    struct buf names;
    enum errc rc;

    buf_init(&names, 0);
    for (size_t i = 0; i < ARRAY_LEN(options_known); i++)
        buf_printf(&names, "%s%s", i ? ", " : "", options_known[i].name);
    if (name.len > 40)
        name.len = 40;
    rc = fail_num(err, 10, "INFER: unknown option '%.*s'; allowed are %s", SLICE_ARG(name),
                  buf_cstr(&names));
    buf_release(&names);
    return rc;
}

static enum errc set_option(struct collected *c, struct slice name, struct val v, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(options_known); i++) {
        const struct option *o = &options_known[i];
        if (!slice_is(name, o->name))
            continue;
        if (val_is_null(v))
            return OK; /* as if it were not there */
        if (o->type != VAL_NULL && val_type(v) != o->type)
            return fail_num(err, 1542, "INFER: option '%s' must be a %s, not %s", o->name,
                            val_type_name(o->type), val_type_name(val_type(v)));
        if (o->type == VAL_NUMBER && !(val_double(v) >= o->min && val_double(v) <= o->max))
            return fail_num(err, 1504, "INFER: option '%s' is %g, allowed is %g to %g", o->name,
                            val_double(v), o->min, o->max);
        return o->set(c, v, err);
    }
    return unknown_option(name, err);
}

static void add_message(struct val_builder *b, const char *role, struct slice content)
{
    val_open_object(b);
    val_put_name(b, slice_str("role"));
    val_put_string(b, slice_str(role));
    val_put_name(b, slice_str("content"));
    val_put_string(b, content);
    val_close(b);
}

static enum errc make_messages(const struct collected *c, struct slice prompt, struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    enum errc rc;

    val_open_array(b);
    if (c->system.len > 0)
        add_message(b, "system", c->system);
    add_message(b, "user", prompt);
    val_close(b);
    rc = val_finish_in(b, c->arena, &c->req->messages, err);
    val_builder_free(b);
    return rc;
}

static enum errc check_args(struct val model, struct val prompt, struct val options,
                            struct error *err)
{
    if (!val_is_null(model) && val_type(model) != VAL_STRING)
        return fail_num(err, 1542, "INFER: the model must be a string, not %s",
                        val_type_name(val_type(model)));
    if (val_type(prompt) != VAL_STRING)
        return fail_num(err, 1542, "INFER: the prompt must be a string, not %s",
                        val_type_name(val_type(prompt)));
    if (!val_is_null(options) && val_type(options) != VAL_OBJECT)
        return fail_num(err, 1542, "INFER: options must be an object, not %s",
                        val_type_name(val_type(options)));
    return OK;
}

enum errc infer_options_read(struct val model, struct val prompt, struct val options,
                             struct arena *arena, struct gen_request *req, struct error *err)
{
    enum errc rc = OK;
    struct collected c = { .req = req, .arena = arena };

    TRY(check_args(model, prompt, options, err));
    req->model = val_string(model);
    req->messages = val_null;
    req->sampling = gen_sampling_default();
    req->sampling.temperature = 0;
    for (size_t i = 0; i < val_count(options); i++)
        TRY(set_option(&c, val_name_at(options, i), val_at(options, i), err));
    if (c.is_raw)
        req->prompt = val_string(prompt);
    else
        TRY(make_messages(&c, val_string(prompt), err));
out:
    return rc;
}
