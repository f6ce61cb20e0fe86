/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two JSON texts with a line break between: a schema and a value. The schema is refused with a
 * reason, or says of the value the same again when it is made a second time, and the opposite when
 * it stands behind "not".
 */
#include "base/val_text.h"
#include "base/validator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_answered(struct val rule, struct val v, bool *is_valid)
{
    struct error err = { 0 };
    struct validator *s;

    if (validator_new(&s, rule, &err) != OK) {
        if (error_num(&err) != 1621 || !err.text[0])
            BUG("a schema is refused without a reason");
        return false;
    }
    bool is_done = validator_check(s, v, is_valid, &err) == OK;
    if (!is_done && error_num(&err) != 1620)
        BUG("%s", err.text);
    validator_free(s);
    return is_done;
}

static void check(struct val rule, struct val v, struct arena *arena)
{
    bool first, again, opposite;
    struct slice not_name = slice_str("not");

    if (!is_answered(rule, v, &first))
        return;
    if (!is_answered(rule, v, &again) || first != again)
        BUG("a schema has two opinions");
    /* $ref counts from the beginning of the rule: what has one is another schema inside */
    if (is_answered(val_new_object(arena, &not_name, &rule, 1), v, &opposite) &&
        opposite == first) {
        struct buf text;
        buf_init(&text, 0);
        val_print(rule, &text);
        bool has_ref = strstr(buf_cstr(&text), "$ref") != NULL;
        buf_release(&text);
        if (!has_ref)
            BUG("a schema and its opposite agree");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line = size ? memchr(data, '\n', size) : NULL;
    struct arena *arena = arena_new(16 * MIB);
    struct val rule, v;

    if (line) {
        size_t n = (size_t)(line - (const char *)data);
        if (val_parse(slice_of(data, n), arena, &rule, NULL) == OK &&
            val_parse(slice_of(line + 1, size - n - 1), arena, &v, NULL) == OK)
            check(rule, v, arena);
    }
    arena_free(arena);
    return 0;
}
