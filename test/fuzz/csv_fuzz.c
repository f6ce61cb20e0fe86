/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are rows or an error with a text; as Markdown they are list items of one line each. */
#include "cli/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_items(struct slice text)
{
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        if (!slice_starts(text, "- ") || !end)
            BUG("not an item: %.*s", SLICE_ARG(text));
        for (const char *c = text.ptr; c < end; c++)
            if ((uint8_t)*c < ' ')
                BUG("a control character in an item");
        text = slice_of(end + 1, text.len - (size_t)(end + 1 - text.ptr));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = { 0 };
    struct buf out;

    buf_init(&out, 0);
    if (csv_to_markdown(slice_of(data, size), &out, &err) == OK)
        check_items(buf_slice(&out));
    else if (!err.text[0])
        BUG("an error without a text");
    buf_release(&out);
    return 0;
}
