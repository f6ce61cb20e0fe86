/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a closed store, and opening one whose log is damaged. */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/key.h"
#include "store/check.h"
#include "store/kv.h"

enum { DOCUMENTS = 300, PER_COMMIT = 10, REPORT_BYTES = 65536 };

struct report {
    char text[REPORT_BYTES];
    uint64_t problems;
};

static void add_line(void *ctx, bool is_problem, const char *line)
{
    struct report *r = ctx;
    size_t n = strlen(r->text);
    snprintf(r->text + n, sizeof r->text - n, "%s%s\n", is_problem ? "PROBLEM " : "", line);
}

static enum errc check(struct fixture *f, struct report *r)
{
    struct check_options opt = { .path = f->path, .say = add_line, .ctx = r };
    r->text[0] = 0;
    r->problems = 0;
    return store_check(&opt, &r->problems, &f->err);
}

static void expect(struct fixture *f, uint64_t problems, const char *words)
{
    static struct report r;
    OK_OR_FAIL(check(f, &r), &f->err);
    if (r.problems != problems || (words && !strstr(r.text, words)))
        fail_msg("%llu problems with '%s' were expected:\n%s", (unsigned long long)problems,
                 words ? words : "", r.text);
}

static void insert(struct fixture *f, struct txn *t, const char *collection, const char *text)
{
    struct doc_change change;
    OK_OR_FAIL(doc_insert(t, in(f, t, collection), json(f, text), NULL, f->arena, &change, &f->err),
               &f->err);
}

static void insert_some(struct fixture *f, int first)
{
    char text[300];
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (int i = first; i < first + PER_COMMIT; i++) {
        snprintf(text, sizeof text,
                 "{\"_key\":\"k%d\",\"n\":%d,\"u\":\"u%d\",\"tags\":[\"a\",%d,\"a\"],"
                 "\"v\":[%d,1],\"at\":[%d,10],\"body\":\"word%d and more\"}",
                 i, i % 7, i, i % 5, i, i % 180, i % 9);
        insert(f, t, "things", text);
        snprintf(text, sizeof text,
                 "{\"_key\":\"e%d\",\"_from\":\"things/k%d\",\"_to\":\"things/k%d\"}", i, i, i / 2);
        insert(f, t, "links", text);
    }
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
}

/* Documents, edges and every kind of index; closed. */
static int setup(void **out)
{
    struct fixture *f = malloc(sizeof *f);
    fixture_init(f, true);
    uint64_t things = make_collection(f, "things", COLLECTION_DOCUMENT);
    make_collection(f, "links", COLLECTION_EDGE);
    make_index(f, things, "{\"type\":\"persistent\",\"name\":\"by_n\",\"fields\":[\"n\"]}");
    make_index(f, things,
               "{\"type\":\"persistent\",\"name\":\"by_u\",\"fields\":[\"u\"],"
               "\"unique\":true}");
    make_index(f, things, "{\"type\":\"persistent\",\"name\":\"by_tag\",\"fields\":[\"tags[*]\"]}");
    make_index(f, things,
               "{\"type\":\"vector\",\"name\":\"by_v\",\"fields\":[\"v\"],"
               "\"sparse\":true,\"params\":{\"metric\":\"cosine\",\"dimension\":2}}");
    make_index(f, things,
               "{\"type\":\"geo\",\"name\":\"by_at\",\"fields\":[\"at\"],\"geoJson\":true}");
    make_index(f, things, "{\"type\":\"fulltext\",\"name\":\"by_body\",\"fields\":[\"body\"]}");
    for (int i = 0; i < DOCUMENTS; i += PER_COMMIT)
        insert_some(f, i);
    OK_OR_FAIL(take(f, "things", "k1"), &f->err);
    OK_OR_FAIL(take(f, "links", "e1"), &f->err);
    store_close(f->store);
    f->store = NULL;
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    struct fixture *f = *out;
    fixture_release(f);
    free(f);
    return 0;
}

/* ---- tampering ---- */

static struct kv *open_rocks(struct fixture *f)
{
    char path[100];
    struct kv *kv = NULL;
    snprintf(path, sizeof path, "%s/rocks", f->path);
    OK_OR_FAIL(
        kv_open(&kv, &(struct kv_options){ .path = path, .memtable_bytes = 16 * MIB }, &f->err),
        &f->err);
    return kv;
}

static void change(struct fixture *f, const struct kv_record *record)
{
    struct kv *kv = open_rocks(f);
    struct kv_batch b;
    kv_batch_init(&b);
    kv_batch_add(&b, record);
    OK_OR_FAIL(kv_write(kv, &b, true, &f->err), &f->err);
    kv_batch_release(&b);
    kv_close(kv);
}

/* The first record of a family whose key or value contains the text. */
static struct kv_record find(struct fixture *f, enum kv_family family, const char *text)
{
    struct kv *kv = open_rocks(f);
    struct kv_iter *it = NULL;
    struct kv_record r = { .family = family };
    OK_OR_FAIL(kv_iter_new(&it, kv, NULL, family, &(struct kv_scan){ 0 }, &f->err), &f->err);
    for (; kv_iter_valid(it) && !r.key.len; kv_iter_next(it)) {
        struct slice key = kv_iter_key(it), value = kv_iter_value(it);
        if (memmem(key.ptr, key.len, text, strlen(text)) ||
            memmem(value.ptr, value.len, text, strlen(text))) {
            r.key = arena_copy(f->arena, key);
            r.value = arena_copy(f->arena, value);
        }
    }
    assert_int_not_equal(r.key.len, 0);
    kv_iter_free(it);
    kv_close(kv);
    return r;
}

static void a_sound_store_has_no_problem(void **out)
{
    struct fixture *f = *out;
    expect(f, 0, "_system/things: 299 documents, 7 indexes, sound");
    expect(f, 0, "_system/links: 299 documents, 2 indexes, sound");
    fixture_open(f); /* and it was not changed */
    assert_int_equal(count_of(f, "things"), DOCUMENTS - 1);
}

static void what_is_not_a_store_is_said(void **out)
{
    struct fixture *f = *out;
    static struct report r;
    struct check_options opt = { .path = "/no/such", .say = add_line, .ctx = &r };
    assert_int_equal(store_check(&opt, &r.problems, &f->err), ERR_NOT_FOUND);
    assert_non_null(strstr(f->err.text, "no store in /no/such"));
}

static void a_missing_entry_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_INDEX, "u42"); /* by_u holds it in its key */
    r.op = KV_DELETE;
    change(f, &r);
    expect(f, 2, "things: index by_u has no entry for document 'k42'");
    expect(f, 2, "things: index by_u has 298 entries, its documents make 299");
}

static void an_entry_too_many_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_INDEX, "u42");
    struct buf key;
    buf_init(&key, 0);
    buf_add_slice(&key, r.key);
    key.ptr[key.len - 2]++; /* before the end of the text */
    r.op = KV_PUT;
    r.key = buf_slice(&key);
    change(f, &r);
    buf_release(&key);
    expect(f, 1, "index by_u has 300 entries, its documents make 299");
}

static void another_entry_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_INDEX, "things/k7"); /* the edge index, side _from */
    char value[200];
    r.op = KV_PUT;
    memcpy(value, r.value.ptr, r.value.len);
    value[r.value.len - 1]++;
    r.value = slice_of(value, r.value.len);
    change(f, &r);
    expect(f, 1, "links: index edge has another entry for document 'e");
}

static void a_lost_document_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_DOC, "k42");
    r.op = KV_DELETE;
    change(f, &r);
    expect(f, 7, "things: 298 documents are there, 299 are counted"); /* and six indexes */
}

static void a_damaged_document_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_DOC, "e42");
    char value[400];
    r.op = KV_PUT;
    memcpy(value, r.value.ptr, r.value.len);
    value[1] ^= 1; /* its size */
    r.value = slice_of(value, r.value.len);
    change(f, &r);
    expect(f, 3, "links: document 'e42' is damaged"); /* and two indexes have too many */
}

static void a_document_in_a_wrong_place_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_DOC, "k42");
    char key[100];
    memcpy(key, r.key.ptr, r.key.len);
    key[r.key.len - 1] = '3';
    r.op = KV_PUT;
    r.key = slice_of(key, r.key.len);
    change(f, &r); /* over k43 */
    static struct report report;
    OK_OR_FAIL(check(f, &report), &f->err);
    assert_non_null(strstr(report.text, "document 'k43' has other system attributes"));
}

static void rows_of_nothing_are_found(void **out)
{
    struct fixture *f = *out;
    char key[30];
    memset(key, 0x11, sizeof key);
    for (int family = KV_DOC; family <= KV_INDEX; family++)
        change(f, &(struct kv_record){ .op = KV_PUT,
                                       .family = (enum kv_family)family,
                                       .key = slice_of(key, sizeof key) });
    expect(f, 2, "index entries of object 1229782938247303441, which is in no collection");
}

static void a_missing_commit_is_found(void **out)
{
    struct fixture *f = *out;
    struct kv *kv = open_rocks(f);
    struct kv_iter *it = NULL;
    OK_OR_FAIL(kv_iter_new(&it, kv, NULL, KV_LOG, &(struct kv_scan){ .is_reverse = true }, &f->err),
               &f->err);
    struct kv_record r = { .op = KV_DELETE,
                           .family = KV_LOG,
                           .key = arena_copy(f->arena, kv_iter_key(it)) };
    unsigned long long seq = key_read_u64(r.key.ptr);
    char words[100];
    kv_iter_free(it);
    kv_close(kv);
    change(f, &r);
    snprintf(words, sizeof words, "acknowledged commits %llu to %llu are missing", seq, seq);
    expect(f, 1, words);
}

static void many_problems_are_counted_not_listed(void **out)
{
    struct fixture *f = *out;
    struct kv_record r = find(f, KV_DOC, "k42");
    char from[8], to[9] = "";
    memcpy(from, r.key.ptr, 8);
    memcpy(to, r.key.ptr, 8);
    to[7]++;
    change(f, &(struct kv_record){ .op = KV_DELETE_RANGE,
                                   .family = KV_INDEX,
                                   .key = slice_of("\0", 1),
                                   .value = slice_of("\xff", 1) });
    static struct report report;
    OK_OR_FAIL(check(f, &report), &f->err);
    assert_true(report.problems > 1000);
    assert_non_null(strstr(report.text, "things: and "));
    assert_true(strlen(report.text) < 4000);
}

/* ---- damaged files ---- */

static void flip(const char *path, long from_end, size_t bytes)
{
    int fd = open(path, O_RDWR);
    char piece[100];
    assert_true(fd >= 0 && bytes <= sizeof piece);
    off_t at = lseek(fd, 0, SEEK_END) - from_end;
    assert_int_equal(pread(fd, piece, bytes, at), bytes);
    for (size_t i = 0; i < bytes; i++)
        piece[i] ^= 0x55;
    assert_int_equal(pwrite(fd, piece, bytes, at), bytes);
    close(fd);
}

/* The largest file in rocks/ with this end. */
static long find_file(struct fixture *f, const char *end, char *path, size_t size)
{
    char dir[100];
    long most = -1;
    snprintf(dir, sizeof dir, "%s/rocks", f->path);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char one[400];
        size_t n = strlen(e->d_name);
        if (n <= strlen(end) || strcmp(e->d_name + n - strlen(end), end))
            continue;
        snprintf(one, sizeof one, "%s/%s", dir, e->d_name);
        int fd = open(one, O_RDONLY);
        long bytes = lseek(fd, 0, SEEK_END);
        close(fd);
        if (bytes > most) {
            most = bytes;
            snprintf(path, size, "%s", one);
        }
    }
    closedir(d);
    assert_true(most > 0);
    return most;
}

static void a_damaged_block_is_found(void **out)
{
    struct fixture *f = *out;
    char path[400];
    /* Opening to write moves what the log holds to a table. */
    kv_close(open_rocks(f));
    kv_close(open_rocks(f));
    long bytes = find_file(f, ".sst", path, sizeof path);
    flip(path, bytes / 2, 8);
    static struct report report;
    OK_OR_FAIL(check(f, &report), &f->err);
    assert_true(report.problems >= 2);
    assert_non_null(strstr(report.text, strrchr(path, '/') + 1));
    assert_non_null(strstr(report.text, "is damaged: Corruption: block checksum mismatch"));
}

static enum errc try_open(struct fixture *f, bool accept_loss)
{
    struct store_options opt = { .path = f->path,
                                 .settings = &f->settings,
                                 .accept_loss = accept_loss };
    return store_open(&f->store, &opt, &f->err);
}

static bool log_is_kept(struct fixture *f)
{
    char path[100];
    snprintf(path, sizeof path, "%s/damaged-log", f->path);
    return access(path, F_OK) == 0;
}

static void damage_in_the_log_is_refused_unless_accepted(void **out)
{
    struct fixture *f = *out;
    char path[400];
    static struct report report;
    flip(path, find_file(f, ".log", path, sizeof path) / 2, 8);
    OK_OR_FAIL(check(f, &report), &f->err);
    assert_non_null(strstr(report.text, "write-ahead log: damaged"));
    assert_non_null(strstr(report.text, "are missing"));
    for (int i = 0; i < 2; i++) { /* a refusal changes nothing */
        assert_int_equal(try_open(f, false), ERR_CORRUPT);
        assert_non_null(strstr(f->err.text, "acknowledged commits "));
        assert_non_null(strstr(f->err.text, "--accept-loss"));
        assert_false(log_is_kept(f));
    }
    OK_OR_FAIL(try_open(f, true), &f->err);
    assert_true(log_is_kept(f));
    uint64_t left = count_of(f, "things");
    assert_true(left > DOCUMENTS / 4 && left < DOCUMENTS - 1);
    must_put(f, "things", "{\"_key\":\"new\",\"u\":\"new\"}");
    fixture_reopen(f);
    assert_int_equal(count_of(f, "things"), left + 1);
    store_close(f->store);
    f->store = NULL;
    expect(f, 0, NULL);
}

static void damage_behind_all_that_was_acknowledged_is_no_loss(void **out)
{
    struct fixture *f = *out;
    char path[400];
    find_file(f, ".log", path, sizeof path);
    int fd = open(path, O_WRONLY | O_APPEND);
    char junk[200];
    memset(junk, 0x5a, sizeof junk);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    close(fd);
    OK_OR_FAIL(try_open(f, false), &f->err);
    assert_int_equal(count_of(f, "things"), DOCUMENTS - 1);
}

static void without_the_mark_damage_must_be_accepted(void **out)
{
    struct fixture *f = *out;
    char path[400];
    flip(path, find_file(f, ".log", path, sizeof path) / 2, 8);
    snprintf(path, sizeof path, "%s/acknowledged", f->path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_open(f, false), ERR_CORRUPT);
    assert_non_null(strstr(f->err.text, "is not known"));
    OK_OR_FAIL(try_open(f, true), &f->err);
}

static void the_mark_follows_without_another_commit(void **out)
{
    struct fixture *f = *out;
    char path[100];
    uint8_t mark[16];
    fixture_open(f);
    must_put(f, "things", "{\"_key\":\"x\",\"u\":\"x\"}");
    must_put(f, "things", "{\"_key\":\"y\",\"u\":\"y\"}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t seq = txn_view_seq(t), marked = 0;
    txn_end(t);
    snprintf(path, sizeof path, "%s/acknowledged", f->path);
    for (int i = 0; i < 1000 && marked != seq; i++) {
        int fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, mark, sizeof mark), sizeof mark);
        close(fd);
        marked = key_read_u64((const char *)mark);
        usleep(10000);
    }
    assert_int_equal(marked, seq);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_sound_store_has_no_problem),
        TEST(what_is_not_a_store_is_said),
        TEST(a_missing_entry_is_found),
        TEST(an_entry_too_many_is_found),
        TEST(another_entry_is_found),
        TEST(a_lost_document_is_found),
        TEST(a_damaged_document_is_found),
        TEST(a_document_in_a_wrong_place_is_found),
        TEST(rows_of_nothing_are_found),
        TEST(a_missing_commit_is_found),
        TEST(many_problems_are_counted_not_listed),
        TEST(a_damaged_block_is_found),
        TEST(damage_in_the_log_is_refused_unless_accepted),
        TEST(damage_behind_all_that_was_acknowledged_is_no_loss),
        TEST(without_the_mark_damage_must_be_accepted),
        TEST(the_mark_follows_without_another_commit),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
