/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a title's line and UTF-8 text, or an error with a text. */
#include "base/val_text.h"
#include "cli/html.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = { 0 };
    struct buf out;

    buf_init(&out, 0);
    if (html_to_markdown(slice_of(data, size), &out, &err) != OK) {
        if (!err.text[0])
            BUG("an error without a text");
    } else if (!memchr(out.ptr, '\n', out.len)) {
        BUG("no line for the title");
    } else if (!utf8_check(buf_slice(&out), NULL)) {
        BUG("not UTF-8: %.*s", SLICE_ARG(buf_slice(&out)));
    }
    buf_release(&out);
    return 0;
}
