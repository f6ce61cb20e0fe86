/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template engine keeps state while it runs, so calls take turns; one takes
 * about a millisecond, with tools some.
 */
#include "model/chat_shim.h"

#include "chat.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct chat_shim {
    common_chat_templates_ptr templates;
    std::mutex lock;
};

struct chat_shim_format {
    common_chat_parser_params params;
};

template <class F> static int guard(char *err, size_t n, F body)
{
    try {
        body();
        return 0;
    } catch (const std::exception &e) {
        snprintf(err, n, "%s", e.what());
    } catch (...) {
        snprintf(err, n, "unknown error");
    }
    return -1;
}

static std::string string_of(struct chat_shim_text text)
{
    return text.len ? std::string(text.ptr, text.len) : std::string();
}

static std::vector<common_chat_tool> tools_of(struct chat_shim_text tools)
{
    if (tools.len == 0)
        return {};
    return common_chat_tools_parse_oaicompat(common_json::parse(string_of(tools)));
}

int chat_shim_open(const struct llama_model *model, struct chat_shim **out,
                   struct chat_shim_abilities *abilities, char *err, size_t n)
{
    *out = nullptr;
    *abilities = { false, false };
    return guard(err, n, [&] {
        auto shim = std::make_unique<chat_shim>();
        shim->templates = common_chat_templates_init(model, "");
        auto caps = common_chat_templates_get_caps(shim->templates.get());
        abilities->has_tools = caps["supports_tools"] && caps["supports_tool_calls"];
        try {
            abilities->has_reasoning =
                common_chat_templates_support_enable_thinking(shim->templates.get());
        } catch (const std::exception &) {
            /* a template that wants other messages than the probe's: no reasoning is known */
        }
        *out = shim.release();
    });
}

void chat_shim_close(struct chat_shim *shim)
{
    delete shim;
}

static common_chat_msg message_of(const struct chat_shim_message *m)
{
    common_chat_msg msg;
    msg.role = string_of(m->role);
    msg.content = string_of(m->content);
    msg.reasoning_content = string_of(m->reasoning);
    msg.tool_name = string_of(m->name);
    msg.tool_call_id = string_of(m->call_id);
    for (size_t i = 0; i < m->call_count; i++)
        msg.tool_calls.push_back({ string_of(m->calls[i].name), string_of(m->calls[i].arguments),
                                   string_of(m->calls[i].id) });
    return msg;
}

int chat_shim_render(struct chat_shim *shim, const struct chat_shim_message *messages, size_t count,
                     struct chat_shim_text tools,
                     void (*add)(void *ctx, const char *text, size_t len), void *ctx, char *err,
                     size_t n)
{
    return guard(err, n, [&] {
        common_chat_templates_inputs in;
        for (size_t i = 0; i < count; i++)
            in.messages.push_back(message_of(&messages[i]));
        in.tools = tools_of(tools);
        in.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE; /* no grammar: chat_shim_format makes it */
        std::lock_guard<std::mutex> turn(shim->lock);
        auto params = common_chat_templates_apply(shim->templates.get(), in);
        add(ctx, params.prompt.data(), params.prompt.size());
    });
}

static void add_string(void (*add)(void *ctx, enum chat_shim_part part, const char *text,
                                   size_t len),
                       void *ctx, enum chat_shim_part part, const std::string &text)
{
    add(ctx, part, text.data(), text.size());
}

int chat_shim_format_new(struct chat_shim *shim, const struct chat_shim_wish *wish,
                         struct chat_shim_format **out, bool *is_lazy,
                         void (*add)(void *ctx, enum chat_shim_part part, const char *text,
                                     size_t len),
                         void *ctx, char *err, size_t n)
{
    *out = nullptr;
    return guard(err, n, [&] {
        common_chat_templates_inputs in;
        common_chat_msg msg;
        msg.role = "user";
        msg.content = "x";
        in.messages.push_back(msg);
        in.tools = tools_of(wish->tools);
        in.tool_choice =
            wish->is_required ? COMMON_CHAT_TOOL_CHOICE_REQUIRED : COMMON_CHAT_TOOL_CHOICE_AUTO;
        in.parallel_tool_calls = wish->is_parallel;
        in.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
        std::lock_guard<std::mutex> turn(shim->lock);
        auto params = common_chat_templates_apply(shim->templates.get(), in);
        auto format = std::make_unique<chat_shim_format>();
        format->params = common_chat_parser_params(params);
        format->params.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
        if (!params.parser.empty())
            format->params.parser.load(params.parser);
        *is_lazy = params.grammar_lazy;
        add_string(add, ctx, CHAT_SHIM_GRAMMAR, params.grammar);
        add_string(add, ctx, CHAT_SHIM_BEGUN, params.generation_prompt);
        for (const auto &trigger : params.grammar_triggers) {
            if (trigger.type != COMMON_GRAMMAR_TRIGGER_TYPE_WORD)
                throw std::runtime_error("calls begin with a pattern, which is not supported");
            add_string(add, ctx, CHAT_SHIM_TRIGGER, trigger.value);
        }
        for (const auto &stop : params.additional_stops)
            add_string(add, ctx, CHAT_SHIM_STOP, stop);
        for (const auto &token : params.preserved_tokens)
            add_string(add, ctx, CHAT_SHIM_SPELLED, token);
        *out = format.release();
    });
}

void chat_shim_format_free(struct chat_shim_format *format)
{
    delete format;
}

int chat_shim_read(const struct chat_shim_format *format, struct chat_shim_text text,
                   bool is_partial,
                   void (*add)(void *ctx, enum chat_shim_part part, const char *text, size_t len),
                   void *ctx, char *err, size_t n)
{
    return guard(err, n, [&] {
        auto msg = common_chat_parse(string_of(text), is_partial, format->params);
        add_string(add, ctx, CHAT_SHIM_CONTENT, msg.render_content());
        add_string(add, ctx, CHAT_SHIM_REASONING, msg.reasoning_content);
        for (const auto &call : msg.tool_calls) {
            add_string(add, ctx, CHAT_SHIM_NAME, call.name);
            add_string(add, ctx, CHAT_SHIM_ARGUMENTS, call.arguments);
        }
    });
}
