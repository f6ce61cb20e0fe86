/* SPDX-License-Identifier: Apache-2.0 */
#include "vector_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "store/faiss_shim.h"
#include "store/vector_file.h"

/* ---- one file ---- */

struct files {
    char dir[64];
    _Atomic int64_t charge;
    struct vector_file file;
    struct error err;
};

static int make_dir(void **out)
{
    struct files *f = calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/themis-vectors-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->file = (struct vector_file){
        .dir = f->dir, .object_id = 70, .number = 9, .metric = 1, .dimension = DIMENSION
    };
    random_state = 21;
    *out = f;
    return 0;
}

static int remove_dir(void **out)
{
    struct files *f = *out;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

/* More than one block of the file. */
enum { ROWS = 24000 };

static struct vector_rows *make_segment(struct files *f)
{
    struct hnsw *graph = NULL;
    float *vectors = calloc(ROWS * DIMENSION, sizeof *vectors);
    struct vector_rows *rows = vector_rows_new(DIMENSION, ROWS, false, &f->charge);
    struct hnsw_options opt = { .dimension = DIMENSION, .links = 4, .build_effort = 8 };
    OK_OR_FAIL(hnsw_new(&graph, &opt, &f->err), &f->err);
    for (int i = 0; i < ROWS; i++) {
        char id[300];
        memset(id, 'x', sizeof id);
        int len = snprintf(id, sizeof id, "..%d", i);
        random_vector(vectors + i * DIMENSION);
        size_t id_len = i % 100 ? (size_t)len : 2 + LIMIT_KEY_BYTES;
        assert_true(vector_rows_add(rows, slice_of(id, id_len), 0, VECTOR_ALIVE, NULL));
    }
    OK_OR_FAIL(hnsw_add(graph, vectors, ROWS, &f->err), &f->err);
    vector_rows_set_graph(rows, graph);
    free(vectors);
    return rows;
}

static enum errc read_back(struct files *f, struct vector_rows **out)
{
    return vector_file_read(&f->file, INT64_MAX, &f->charge, out, &f->err);
}

static void a_segment_survives_its_file(void **out)
{
    struct files *f = *out;
    struct vector_rows *made = make_segment(f), *back = NULL;
    OK_OR_FAIL(vector_file_write(&f->file, made, &f->err), &f->err);
    OK_OR_FAIL(read_back(f, &back), &f->err);
    assert_int_equal(vector_rows_count(back), ROWS);
    assert_int_equal(back->file_number, 9);
    for (size_t i = 0; i < ROWS; i++) {
        struct slice one = vector_entry_id(vector_rows_entry(made, i));
        struct slice two = vector_entry_id(vector_rows_entry(back, i));
        assert_true(slice_eq(one, two));
        assert_memory_equal(vector_rows_vector(made, i), vector_rows_vector(back, i),
                            DIMENSION * sizeof(float));
    }
    vector_rows_unref(made);
    vector_rows_unref(back);
    assert_int_equal(f->charge, 0);
}

static void path_of(const struct files *f, char *out, size_t size)
{
    snprintf(out, size, "%s/%016x-%016x.seg", f->dir, 70, 9);
}

static void flip(const char *path, off_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void every_damage_is_noticed(void **out)
{
    struct files *f = *out;
    struct stat st;
    char path[200];
    struct vector_rows *made = make_segment(f), *back = NULL;
    path_of(f, path, sizeof path);
    assert_int_equal(read_back(f, &back), ERR_NOT_FOUND);
    OK_OR_FAIL(vector_file_write(&f->file, made, &f->err), &f->err);
    vector_rows_unref(made);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 2 * MIB);
    for (int i = 0; i < 40; i++) { /* header, ids, graph, sums */
        off_t at = i < 20 ? (off_t)i * 3 : st.st_size - 1 - (off_t)(i - 20) * (st.st_size / 21);
        flip(path, at);
        assert_int_equal(read_back(f, &back), ERR_CORRUPT);
        assert_null(back);
        flip(path, at);
    }
    OK_OR_FAIL(read_back(f, &back), &f->err);
    vector_rows_unref(back);
    for (off_t cut = 1; cut < st.st_size; cut *= 7) {
        assert_int_equal(truncate(path, st.st_size - cut), 0);
        assert_int_equal(read_back(f, &back), ERR_CORRUPT);
    }
    assert_int_equal(truncate(path, st.st_size), 0); /* zeroes instead of the end */
    assert_int_equal(read_back(f, &back), ERR_CORRUPT);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(read_back(f, &back), ERR_CORRUPT);
    vector_file_remove(&f->file);
    assert_int_equal(read_back(f, &back), ERR_NOT_FOUND);
    assert_int_equal(f->charge, 0);
}

static void a_file_of_another_index_is_refused(void **out)
{
    struct files *f = *out;
    struct vector_rows *made = make_segment(f), *back = NULL;
    char from[200], to[200];
    OK_OR_FAIL(vector_file_write(&f->file, made, &f->err), &f->err);
    vector_rows_unref(made);
    path_of(f, from, sizeof from);
    f->file.object_id = 71;
    snprintf(to, sizeof to, "%s/%016x-%016x.seg", f->dir, 71, 9);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(read_back(f, &back), ERR_CORRUPT);
    assert_non_null(strstr(f->err.text, "belongs to another index"));
    assert_int_equal(rename(to, from), 0);
    f->file.object_id = 70;
    f->file.metric = 2;
    assert_int_equal(read_back(f, &back), ERR_CORRUPT);
    f->file.metric = 1;
    assert_int_equal(vector_file_read(&f->file, 1000, &f->charge, &back, &f->err), ERR_LIMIT);
}

static bool keeps_nine(void *ctx, uint64_t object_id, uint64_t number)
{
    (void)ctx;
    return object_id == 70 && number == 9;
}

static void only_segments_without_owner_are_tidied(void **out)
{
    static const char *const names[] = { "0000000000000046-0000000000000009.seg",
                                         "0000000000000046-000000000000000a.seg",
                                         "0000000000000046-0000000000000009.seg.new", "notes.txt" };
    struct files *f = *out;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    vector_files_tidy(f->dir, keeps_nine, NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        assert_int_equal(access(path, F_OK) == 0, i == 0 || i == 3);
    }
}

/* ---- a store with damaged files ---- */

enum { HEAD = 64, DOCUMENTS = 1500 };

static void first_segment(const struct fixture *f, char *out, size_t size)
{
    char dir[100];
    struct dirent *e;
    snprintf(dir, sizeof dir, "%s/vectors", f->path);
    DIR *d = opendir(dir);
    assert_non_null(d);
    out[0] = 0;
    while ((e = readdir(d)))
        if (strstr(e->d_name, ".seg"))
            snprintf(out, size, "%s/%s", dir, e->d_name);
    closedir(d);
    assert_true(out[0]);
}

static void flip_middle(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    flip(path, st.st_size / 2);
}

static void flip_header(const char *path)
{
    flip(path, 40);
}

static void cut(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 3), 0);
}

static void make_empty(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

static void take_away(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void make_directory(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void a_start_survives_every_damage_and_builds_again(void **out)
{
    static void (*const damages[])(const char *path) = { flip_middle, flip_header, cut,
                                                         make_empty,  take_away,   make_directory };
    struct fixture f;
    (void)out;
    fixture_init(&f, true);
    store_close(f.store);
    f.settings.vector_head_rows = HEAD;
    fixture_open(&f);
    random_state = 5;
    make_vector_index(&f, make_collection(&f, "c", COLLECTION_DOCUMENT), "l2");
    put_many(&f, 0, DOCUMENTS);
    vector_settle(f.store);
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        char path[300];
        store_close(f.store);
        first_segment(&f, path, sizeof path);
        damages[i](path);
        fixture_open(&f);
        struct txn *t = begin(&f, ISOLATION_SNAPSHOT);
        assert_int_equal(check_answer(&f, t, (float[DIMENSION]){ 0.1f }, 10, NULL), 10);
        vector_settle(f.store);
        assert_true(recall_of(&f, t, 10, 10, NULL) >= 95);
        txn_end(t);
        struct vector_figures figures = figures_of(&f);
        assert_string_equal(figures.state, "warm");
        assert_int_equal(figures.rebuilds, 1);
        assert_int_equal(figures.segment_rows + figures.head_rows, DOCUMENTS);
        assert_true(figures.segment_rows > 0);
        fixture_reopen(&f);
        vector_settle(f.store);
        assert_int_equal(figures_of(&f).rebuilds, 0); /* what was built is on disk */
        put_many(&f, 0, 40);
    }
    fixture_release(&f);
}

static void a_store_without_its_vectors_directory_starts(void **out)
{
    struct fixture f;
    char command[120];
    (void)out;
    fixture_init(&f, true);
    random_state = 6;
    make_vector_index(&f, make_collection(&f, "c", COLLECTION_DOCUMENT), "l2");
    put_many(&f, 0, 200);
    store_close(f.store);
    snprintf(command, sizeof command, "rm -r %s/vectors", f.path);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "touch %s/vectors", f.path); /* in its place a file */
    assert_int_equal(system(command), 0);
    fixture_open(&f);
    vector_settle(f.store);
    struct txn *t = begin(&f, ISOLATION_SNAPSHOT);
    vector_merge(f.store, vector_index_of(&f, t));
    vector_settle(f.store);
    must_be_exact(&f, t, NULL);
    txn_end(t);
    fixture_release(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_segment_survives_its_file),
        TEST(every_damage_is_noticed),
        TEST(a_file_of_another_index_is_refused),
        TEST(only_segments_without_owner_are_tidied),
        cmocka_unit_test(a_start_survives_every_damage_and_builds_again),
        cmocka_unit_test(a_store_without_its_vectors_directory_starts),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests_name("vector_file", tests, NULL, NULL);
}
