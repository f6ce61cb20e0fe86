/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are answered by a valid value or an error with a text; what a value
 * prints reads back as an equal one that prints the same.
 */
#include "base/val.h"
#include "base/val_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_value(struct val v, struct arena *arena)
{
    struct buf once, twice;
    struct error err;
    struct val again;

    buf_init(&once, 0);
    buf_init(&twice, 0);
    if (val_validate(val_bytes(v), &v, &err) != OK)
        BUG("%s", err.text);
    val_print(v, &once);
    if (val_parse(buf_slice(&once), arena, &again, &err) != OK)
        BUG("%s in %s", err.text, buf_cstr(&once));
    val_print(again, &twice);
    if (!val_equal(v, again) || !slice_eq(buf_slice(&once), buf_slice(&twice)))
        BUG("printed as %s and as %s", buf_cstr(&once), buf_cstr(&twice));
    buf_release(&once);
    buf_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new(64 * MIB);
    struct error err = { 0 };
    struct val v;

    enum errc rc = val_parse(slice_of(data, size), arena, &v, &err);
    if (rc == OK)
        check_value(v, arena);
    else if (err.code != rc || !err.text[0] || !utf8_check(slice_str(err.text), NULL))
        BUG("an error without a text");
    arena_free(arena);
    return 0;
}
