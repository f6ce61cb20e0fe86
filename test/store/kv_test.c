/* SPDX-License-Identifier: Apache-2.0 */
/* Every test runs over both engines. */
#include "fixture.h"

#include "base/fault.h"
#include "store/kv.h"

struct state {
    struct kv *kv;
    struct arena *arena;
    char path[64];
    struct error err;
};

static void open_kv(struct state *s)
{
    struct kv_options opt = { .path = s->path[0] ? s->path : NULL, .memtable_bytes = 8 * MIB };
    OK_OR_FAIL(kv_open(&s->kv, &opt, &s->err), &s->err);
}

static int setup(void **out, bool on_disk)
{
    struct state *s = calloc(1, sizeof *s);
    log_set_level(LOG_ERROR);
    s->arena = arena_new(0);
    if (on_disk) {
        snprintf(s->path, sizeof s->path, "/tmp/themis-kv-XXXXXX");
        assert_non_null(mkdtemp(s->path));
    }
    open_kv(s);
    *out = s;
    return 0;
}

static int setup_mem(void **out)
{
    return setup(out, false);
}

static int setup_rocks(void **out)
{
    return setup(out, true);
}

static int teardown(void **out)
{
    struct state *s = *out;
    char command[100];
    kv_close(s->kv);
    arena_free(s->arena);
    snprintf(command, sizeof command, "rm -rf %s", s->path);
    int rc = s->path[0] ? system(command) : 0;
    free(s);
    return rc;
}

static void add(struct kv_batch *b, enum kv_op op, enum kv_family f, const char *key,
                const char *value)
{
    kv_batch_add(b, &(struct kv_record){
                        .op = op, .family = f, .key = slice_str(key), .value = slice_str(value) });
}

static void write_with(struct state *s, enum kv_op op, enum kv_family f, const char *key,
                       const char *value, bool is_synced)
{
    struct kv_batch b;
    kv_batch_init(&b);
    add(&b, op, f, key, value);
    OK_OR_FAIL(kv_write(s->kv, &b, is_synced, &s->err), &s->err);
    kv_batch_release(&b);
}

static void write_one(struct state *s, enum kv_op op, enum kv_family f, const char *key,
                      const char *value)
{
    write_with(s, op, f, key, value, true);
}

static const char *read_one(struct state *s, const struct kv_snapshot *at, enum kv_family f,
                            const char *key)
{
    struct slice value;
    enum errc rc = kv_get(s->kv, at, f, slice_str(key), s->arena, &value, &s->err);
    if (rc == ERR_NOT_FOUND)
        return NULL;
    OK_OR_FAIL(rc, &s->err);
    return arena_copy(s->arena, value).ptr;
}

/* Keys of a scan, joined by spaces. */
static const char *scan(struct state *s, const struct kv_snapshot *at, const char *from,
                        const char *to, bool is_reverse)
{
    struct kv_iter *it = NULL;
    struct buf out;
    buf_init(&out, 0);
    struct kv_scan range = { .from = slice_str(from),
                             .to = slice_str(to),
                             .is_reverse = is_reverse };
    OK_OR_FAIL(kv_iter_new(&it, s->kv, at, KV_DOC, &range, &s->err), &s->err);
    for (; kv_iter_valid(it); kv_iter_next(it)) {
        if (out.len)
            buf_add_char(&out, ' ');
        buf_add_slice(&out, kv_iter_key(it));
    }
    OK_OR_FAIL(kv_iter_check(it, &s->err), &s->err);
    kv_iter_free(it);
    const char *text = arena_copy(s->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return text;
}

static void a_batch_is_applied_whole(void **out)
{
    struct state *s = *out;
    struct kv_batch b;
    kv_batch_init(&b);
    add(&b, KV_PUT, KV_DOC, "a", "1");
    add(&b, KV_PUT, KV_INDEX, "a", "2");
    add(&b, KV_PUT, KV_DOC, "b", "");
    add(&b, KV_DELETE, KV_DOC, "a", "");
    OK_OR_FAIL(kv_write(s->kv, &b, false, &s->err), &s->err);
    kv_batch_release(&b);
    assert_null(read_one(s, NULL, KV_DOC, "a"));
    assert_string_equal(read_one(s, NULL, KV_INDEX, "a"), "2");
    assert_string_equal(read_one(s, NULL, KV_DOC, "b"), "");
    assert_null(read_one(s, NULL, KV_META, "b"));
}

static void a_snapshot_does_not_change(void **out)
{
    struct state *s = *out;
    write_one(s, KV_PUT, KV_DOC, "a", "1");
    write_one(s, KV_PUT, KV_DOC, "b", "1");
    struct kv_snapshot *at = kv_snapshot_new(s->kv);
    write_one(s, KV_PUT, KV_DOC, "a", "2");
    write_one(s, KV_DELETE, KV_DOC, "b", "");
    write_one(s, KV_PUT, KV_DOC, "c", "2");
    assert_string_equal(read_one(s, at, KV_DOC, "a"), "1");
    assert_string_equal(scan(s, at, "", "", false), "a b");
    assert_string_equal(scan(s, NULL, "", "", false), "a c");
    kv_snapshot_free(s->kv, at);
}

static void a_scan_keeps_its_bounds_in_both_directions(void **out)
{
    struct state *s = *out;
    const char *keys[] = { "a", "b", "ba", "c", "d" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        write_one(s, KV_PUT, KV_DOC, keys[i], "");
    assert_string_equal(scan(s, NULL, "b", "d", false), "b ba c");
    assert_string_equal(scan(s, NULL, "b", "d", true), "c ba b");
    assert_string_equal(scan(s, NULL, "", "", true), "d c ba b a");
    assert_string_equal(scan(s, NULL, "bb", "c", false), "");
    assert_string_equal(scan(s, NULL, "x", "y", true), "");
    assert_string_equal(scan(s, NULL, "a", "a", false), "");
}

static void seek_goes_both_ways(void **out)
{
    struct state *s = *out;
    struct kv_iter *it = NULL;
    const char *keys[] = { "a", "c", "e", "g" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        write_one(s, KV_PUT, KV_DOC, keys[i], "");
    struct kv_scan range = { .from = slice_str("b"), .to = slice_str("f") };
    OK_OR_FAIL(kv_iter_new(&it, s->kv, NULL, KV_DOC, &range, &s->err), &s->err);
    kv_iter_seek(it, slice_str("d"));
    assert_true(slice_is(kv_iter_key(it), "e"));
    kv_iter_seek(it, slice_str("a"));
    assert_true(slice_is(kv_iter_key(it), "c"));
    kv_iter_seek(it, slice_str("f"));
    assert_false(kv_iter_valid(it));
    kv_iter_free(it);
    range.is_reverse = true;
    OK_OR_FAIL(kv_iter_new(&it, s->kv, NULL, KV_DOC, &range, &s->err), &s->err);
    kv_iter_seek(it, slice_str("e"));
    assert_true(slice_is(kv_iter_key(it), "c"));
    kv_iter_next(it);
    assert_false(kv_iter_valid(it));
    kv_iter_free(it);
}

static void a_range_is_deleted_without_its_end(void **out)
{
    struct state *s = *out;
    const char *keys[] = { "a", "b", "ba", "c", "d" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        write_one(s, KV_PUT, KV_DOC, keys[i], "");
    struct kv_snapshot *at = kv_snapshot_new(s->kv);
    write_one(s, KV_DELETE_RANGE, KV_DOC, "b", "c");
    write_one(s, KV_DELETE_RANGE, KV_DOC, "d", "a"); /* nothing lies between */
    assert_string_equal(scan(s, NULL, "", "", false), "a c d");
    assert_string_equal(scan(s, at, "", "", false), "a b ba c d");
    kv_snapshot_free(s->kv, at);
}

static void an_iterator_keeps_its_state_while_others_write(void **out)
{
    struct state *s = *out;
    struct kv_iter *it = NULL;
    write_one(s, KV_PUT, KV_DOC, "a", "1");
    write_one(s, KV_PUT, KV_DOC, "b", "1");
    OK_OR_FAIL(
        kv_iter_new(&it, s->kv, NULL, KV_DOC, &(struct kv_scan){ .from = slice_str("a") }, &s->err),
        &s->err);
    write_one(s, KV_DELETE_RANGE, KV_DOC, "a", "z");
    kv_iter_next(it);
    assert_true(slice_is(kv_iter_key(it), "b"));
    assert_true(slice_is(kv_iter_value(it), "1"));
    kv_iter_free(it);
}

/* Random writes against a plain array of 300 keys. */
static void random_operations_agree_with_a_model(void **out)
{
    struct state *s = *out;
    enum { KEYS = 300 };
    int model[KEYS] = { 0 };
    uint64_t seed = 42;
    char key[16], end[16], value[16];
    for (int step = 1; step < 3000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int k = (int)((seed >> 33) % KEYS), op = (int)((seed >> 20) % 10);
        snprintf(key, sizeof key, "%03d", k);
        if (op < 6) {
            snprintf(value, sizeof value, "%d", step);
            write_with(s, KV_PUT, KV_DOC, key, value, false);
            model[k] = step;
        } else if (op < 9) {
            write_with(s, KV_DELETE, KV_DOC, key, "", false);
            model[k] = 0;
        } else {
            int to = k + 5 < KEYS ? k + 5 : KEYS;
            snprintf(end, sizeof end, "%03d", to);
            write_with(s, KV_DELETE_RANGE, KV_DOC, key, end, false);
            memset(model + k, 0, (size_t)(to - k) * sizeof *model);
        }
    }
    struct buf want, back;
    buf_init(&want, 0);
    buf_init(&back, 0);
    for (int k = 0; k < KEYS; k++)
        if (model[k])
            buf_printf(&want, "%s%03d", want.len ? " " : "", k);
    for (int k = KEYS - 1; k >= 0; k--)
        if (model[k])
            buf_printf(&back, "%s%03d", back.len ? " " : "", k);
    assert_string_equal(scan(s, NULL, "", "", false), buf_cstr(&want));
    assert_string_equal(scan(s, NULL, "", "", true), buf_cstr(&back));
    for (int k = 0; k < KEYS; k++) {
        snprintf(key, sizeof key, "%03d", k);
        const char *got = read_one(s, NULL, KV_DOC, key);
        assert_int_equal(got ? atoi(got) : 0, model[k]);
    }
    buf_release(&want);
    buf_release(&back);
}

static void faults_are_reported(void **out)
{
    struct state *s = *out;
    struct kv_batch b;
    struct kv_iter *it = NULL;
    struct slice value;
    kv_batch_init(&b);
    add(&b, KV_PUT, KV_DOC, "a", "1");
    fault_arm("kv.write", 1);
    assert_int_equal(kv_write(s->kv, &b, true, &s->err), ERR_IO);
    fault_arm("kv.sync", 1);
    assert_int_equal(kv_write(s->kv, &b, true, &s->err), ERR_IO);
    fault_arm("kv.get", 1);
    assert_int_equal(kv_get(s->kv, NULL, KV_DOC, slice_str("a"), s->arena, &value, &s->err),
                     ERR_IO);
    fault_arm("kv.iter", 1);
    assert_int_equal(kv_iter_new(&it, s->kv, NULL, KV_DOC, &(struct kv_scan){ 0 }, &s->err),
                     ERR_IO);
    OK_OR_FAIL(kv_iter_new(&it, s->kv, NULL, KV_DOC, &(struct kv_scan){ 0 }, &s->err), &s->err);
    fault_arm("kv.iter", 1);
    kv_iter_next(it);
    assert_false(kv_iter_valid(it));
    assert_int_equal(kv_iter_check(it, &s->err), ERR_IO);
    fault_disarm();
    kv_iter_free(it);
    kv_batch_release(&b);
}

static void a_reopened_store_has_everything(void **out)
{
    struct state *s = *out;
    if (!s->path[0])
        skip();
    write_one(s, KV_PUT, KV_LOG, "a", "1");
    write_one(s, KV_PUT, KV_META, "b", "2");
    kv_close(s->kv);
    open_kv(s);
    assert_string_equal(read_one(s, NULL, KV_LOG, "a"), "1");
    assert_string_equal(read_one(s, NULL, KV_META, "b"), "2");
}

static void a_second_process_is_told_that_the_store_is_in_use(void **out)
{
    struct state *s = *out;
    struct kv *other = NULL;
    if (!s->path[0])
        skip();
    assert_int_equal(kv_open(&other, &(struct kv_options){ .path = s->path }, &s->err), ERR_BUSY);
    assert_non_null(strstr(s->err.text, "in use by another process"));
}

static void a_power_cut_takes_unsynced_writes(void **out)
{
    struct state *s = *out;
    struct kv_batch b;
    if (s->path[0])
        skip();
    write_one(s, KV_PUT, KV_DOC, "a", "1");
    kv_batch_init(&b);
    add(&b, KV_PUT, KV_DOC, "b", "1");
    add(&b, KV_DELETE, KV_DOC, "a", "");
    OK_OR_FAIL(kv_write(s->kv, &b, false, &s->err), &s->err);
    kv_batch_release(&b);
    assert_string_equal(scan(s, NULL, "", "", false), "b");
    kv_mem_crash(s->kv);
    assert_string_equal(scan(s, NULL, "", "", false), "a");
}

/* ---- the encoding ---- */

static void batch_bytes_are_fixed(void **out)
{
    (void)out;
    static const char want[] = "\x01\x01\x02kvv" /* put doc */
                               "\x12\x01k"       /* delete index */
                               "\x23\x01\x01"
                               "az"; /* delete range log */
    struct kv_batch b;
    kv_batch_init(&b);
    add(&b, KV_PUT, KV_DOC, "k", "vv");
    add(&b, KV_DELETE, KV_INDEX, "k", "");
    add(&b, KV_DELETE_RANGE, KV_LOG, "a", "z");
    assert_int_equal(b.bytes.len, sizeof want - 1);
    assert_memory_equal(b.bytes.ptr, want, sizeof want - 1);
    assert_int_equal(b.count, 3);
    kv_batch_release(&b);
}

static void damaged_batches_end_early(void **out)
{
    (void)out;
    struct kv_batch b;
    struct kv_record r;
    kv_batch_init(&b);
    add(&b, KV_PUT, KV_DOC, "key", "value");
    add(&b, KV_DELETE, KV_DOC, "key", "");
    for (size_t len = 1; len < b.bytes.len; len++) {
        size_t at = 0;
        while (kv_batch_next(slice_of(b.bytes.ptr, len), &at, &r))
            ;
        assert_true(at < len || at == 11); /* the first record is 11 bytes long */
    }
    for (unsigned byte = 0x30; byte < 256; byte++) { /* unknown operations */
        char bad[4] = { (char)byte, 0, 0, 0 };
        size_t at = 0;
        assert_false(kv_batch_next(slice_of(bad, 4), &at, &r));
        assert_int_equal(at, 0);
    }
    size_t at = 0;
    assert_false(kv_batch_next(slice_of("\x01\xff\xff\xff\xff\xff\x01", 7), &at, &r));
    kv_batch_release(&b);
}

#define BOTH(test)                                                                                 \
    { #test " (memory)", test, setup_mem, teardown, NULL },                                        \
    {                                                                                              \
#test " (disk)", test, setup_rocks, teardown, NULL                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_batch_is_applied_whole),
        BOTH(a_snapshot_does_not_change),
        BOTH(a_scan_keeps_its_bounds_in_both_directions),
        BOTH(seek_goes_both_ways),
        BOTH(a_range_is_deleted_without_its_end),
        BOTH(an_iterator_keeps_its_state_while_others_write),
        BOTH(random_operations_agree_with_a_model),
        BOTH(faults_are_reported),
        BOTH(a_reopened_store_has_everything),
        BOTH(a_second_process_is_told_that_the_store_is_in_use),
        BOTH(a_power_cut_takes_unsynced_writes),
        cmocka_unit_test(batch_bytes_are_fixed),
        cmocka_unit_test(damaged_batches_end_early),
    };
    return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
