/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template engine keeps state while it runs, so calls take turns; one takes
 * about a millisecond.
 */
#include "model/chat_shim.h"

#include "chat.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

struct chat_shim {
    common_chat_templates_ptr templates;
    std::mutex lock;
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

int chat_shim_open(const struct llama_model *model, struct chat_shim **out, char *err, size_t n)
{
    *out = nullptr;
    return guard(err, n, [&] {
        auto shim = std::make_unique<chat_shim>();
        shim->templates = common_chat_templates_init(model, "");
        *out = shim.release();
    });
}

void chat_shim_close(struct chat_shim *shim)
{
    delete shim;
}

int chat_shim_render(struct chat_shim *shim, const struct chat_shim_text *roles,
                     const struct chat_shim_text *contents, size_t count,
                     void (*add)(void *ctx, const char *text, size_t len), void *ctx, char *err,
                     size_t n)
{
    return guard(err, n, [&] {
        common_chat_templates_inputs in;
        for (size_t i = 0; i < count; i++) {
            common_chat_msg msg;
            msg.role.assign(roles[i].ptr, roles[i].len);
            msg.content.assign(contents[i].ptr, contents[i].len);
            in.messages.push_back(std::move(msg));
        }
        std::lock_guard<std::mutex> turn(shim->lock);
        auto params = common_chat_templates_apply(shim->templates.get(), in);
        add(ctx, params.prompt.data(), params.prompt.size());
    });
}
