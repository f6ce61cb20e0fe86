/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that the validator takes are safe for every reader, and their JSON
 * text reads back as an equal value.
 */
#include "base/val.h"
#include "base/val_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(struct val v)
{
    float floats[16];

    (void)val_int(v);
    (void)val_double(v);
    (void)val_floats(v, floats, 16);
    for (size_t i = 0; i < val_count(v); i++) {
        struct val member = val_at(v, i);
        if (val_type(v) == VAL_OBJECT && val_get(v, val_name_at(v, i)).at != member.at)
            BUG("a member is not found by its name");
        read_all(member);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new(64 * MIB);
    struct buf text;
    struct val v, again;
    struct error err;

    buf_init(&text, 0);
    if (val_validate(slice_of(data, size), &v, &err) == OK) {
        if (val_size(v) != size || !val_is_within(v, LIMIT_NESTING))
            BUG("size or depth");
        read_all(v);
        val_print(v, &text);
        if (val_parse(buf_slice(&text), arena, &again, &err) != OK)
            BUG("%s in %s", err.text, buf_cstr(&text));
        if (!val_equal(v, again) || val_hash(v) != val_hash(again))
            BUG("%s", buf_cstr(&text));
    }
    buf_release(&text);
    arena_free(arena);
    return 0;
}
