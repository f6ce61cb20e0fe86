/* SPDX-License-Identifier: Apache-2.0 */
/* The check of GGUF files: a small sound file passes, damaged ones are named. */
#include "model/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNTS_AT = 8, ALIGNMENT = 32 };

struct file {
    struct buf bytes;
    size_t tensor_type_at, tensor_offset_at, tensor_dims_at, layers_at;
};

static void u32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof v);
}

static void u64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof v);
}

static void text(struct buf *b, const char *s)
{
    u64(b, strlen(s));
    buf_add_str(b, s);
}

/* One tensor of 64 x 2 float32, a vocabulary of two tokens. */
static void make(struct file *f)
{
    struct buf *b = &f->bytes;
    buf_init(b, 0);
    buf_add_str(b, "GGUF");
    u32(b, 3);
    u64(b, 1);
    u64(b, 4);
    text(b, "general.architecture");
    u32(b, 8);
    text(b, "llama");
    text(b, "llama.block_count");
    u32(b, 4);
    f->layers_at = b->len;
    u32(b, 2);
    text(b, "tokenizer.ggml.tokens");
    u32(b, 9);
    u32(b, 8);
    u64(b, 2);
    text(b, "a");
    text(b, "b");
    text(b, "tokenizer.ggml.scores");
    u32(b, 9);
    u32(b, 6);
    u64(b, 2);
    u32(b, 0);
    u32(b, 0);
    text(b, "output.weight");
    u32(b, 2);
    f->tensor_dims_at = b->len;
    u64(b, 64);
    u64(b, 2);
    f->tensor_type_at = b->len;
    u32(b, 0);
    f->tensor_offset_at = b->len;
    u64(b, 0);
    while (b->len % ALIGNMENT)
        buf_add_char(b, 0);
    for (int i = 0; i < 128; i++)
        u32(b, 0);
}

static enum errc check(const struct buf *b, struct error *err)
{
    char path[] = "/tmp/gguf_check_XXXXXX";
    struct model_shape shape;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b->ptr, b->len), (ssize_t)b->len);
    close(fd);
    enum errc rc = gguf_check(path, &shape, err);
    unlink(path);
    return rc;
}

static void a_sound_file_passes(void **state)
{
    (void)state;
    struct file f;
    struct error err;
    make(&f);
    assert_int_equal(check(&f.bytes, &err), OK);
    buf_release(&f.bytes);
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    struct file f;
    struct error err;
    make(&f);
    for (size_t n = f.bytes.len - 1; n < f.bytes.len; n--) {
        f.bytes.len = n;
        assert_int_equal(check(&f.bytes, &err), ERR_CORRUPT);
    }
    buf_release(&f.bytes);
}

static void damaged(size_t (*at)(const struct file *f), uint64_t value, size_t len,
                    const char *what)
{
    struct file f;
    struct error err;
    make(&f);
    memcpy(f.bytes.ptr + at(&f), &value, len);
    if (check(&f.bytes, &err) != ERR_CORRUPT)
        fail_msg("damage \"%s\" was not seen", what);
    if (!strstr(err.text, what))
        fail_msg("%s does not say %s", err.text, what);
    buf_release(&f.bytes);
}

static size_t at_magic(const struct file *f)
{
    (void)f;
    return 0;
}
static size_t at_version(const struct file *f)
{
    (void)f;
    return 4;
}
static size_t at_tensors(const struct file *f)
{
    (void)f;
    return COUNTS_AT;
}
static size_t at_pairs(const struct file *f)
{
    (void)f;
    return COUNTS_AT + 8;
}
static size_t at_key_length(const struct file *f)
{
    (void)f;
    return COUNTS_AT + 16;
}
static size_t at_layers(const struct file *f)
{
    return f->layers_at;
}
static size_t at_dims(const struct file *f)
{
    return f->tensor_dims_at;
}
static size_t at_dim_count(const struct file *f)
{
    return f->tensor_dims_at - 4;
}
static size_t at_type(const struct file *f)
{
    return f->tensor_type_at;
}
static size_t at_offset(const struct file *f)
{
    return f->tensor_offset_at;
}

static void each_damage_is_named(void **state)
{
    (void)state;
    damaged(at_magic, 0x47475546, 4, "not a GGUF file");
    damaged(at_version, 7, 4, "version 7");
    damaged(at_version, 0x03000000, 4, "version"); /* the other byte order */
    damaged(at_tensors, 0, 8, "number of tensors");
    damaged(at_tensors, UINT64_MAX, 8, "number of tensors");
    damaged(at_tensors, 2, 8, "no name"); /* zeros behind the last one */
    damaged(at_pairs, UINT64_MAX / 2, 8, "number of tensors or pairs");
    damaged(at_key_length, UINT64_MAX, 8, "too long");
    damaged(at_layers, 1u << 31, 4, "layers");
    damaged(at_dims, UINT64_MAX, 8, "dimensions");
    damaged(at_dims, (uint64_t)1 << 62, 8, "dimensions");
    damaged(at_dims, 0, 8, "dimensions");
    damaged(at_dims, 128, 8, "outside");
    damaged(at_dim_count, 5, 4, "too many dimensions");
    damaged(at_type, 4, 4, "unknown type");
    damaged(at_type, 0xffffffff, 4, "unknown type");
    damaged(at_dim_count, 1, 4, ""); /* shifts what follows */
    damaged(at_offset, 16, 8, "outside");
    damaged(at_offset, UINT64_MAX - 31, 8, "outside");
}

/* Must end without a crash, whatever the verdict: the sanitizers are the judges. */
static void random_damage_does_no_harm(void **state)
{
    (void)state;
    srand(5);
    for (int round = 0; round < 5000; round++) {
        struct file f;
        struct error err;
        make(&f);
        for (int i = rand() % 4; i >= 0; i--)
            f.bytes.ptr[rand() % (int)f.bytes.len] = (char)(rand() % 3 ? rand() : 0xff);
        enum errc rc = check(&f.bytes, &err);
        assert_true(rc == OK || rc == ERR_CORRUPT);
        buf_release(&f.bytes);
    }
}

static void what_is_not_a_file_is_refused(void **state)
{
    (void)state;
    struct model_shape shape;
    struct error err;
    assert_int_equal(gguf_check("/nonexistent", &shape, &err), ERR_NOT_FOUND);
    assert_int_equal(gguf_check("/tmp", &shape, &err), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_file_passes),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(each_damage_is_named),
        cmocka_unit_test(random_damage_does_no_harm),
        cmocka_unit_test(what_is_not_a_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
