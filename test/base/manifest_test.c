/* SPDX-License-Identifier: Apache-2.0 */
#include "base/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"
#include "base/buf.h"
#include "base/val_text.h"

struct folder {
    char path[64];
    struct arena *arena;
    struct error err;
};

static void put_file(const struct folder *f, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static int setup(void **out)
{
    struct folder *f = calloc(1, sizeof *f);
    char sub[100];
    snprintf(f->path, sizeof f->path, "/tmp/themis-manifest-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->arena = arena_new(0);
    snprintf(sub, sizeof sub, "mkdir %s/sub", f->path);
    assert_int_equal(system(sub), 0);
    put_file(f, "b", "abc");
    put_file(f, "sub/a", "");
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    struct folder *f = *out;
    assert_int_equal(folder_remove(f->path, &f->err), OK);
    assert_int_equal(access(f->path, F_OK), -1);
    arena_free(f->arena);
    free(f);
    return 0;
}

static struct manifest made(struct folder *f)
{
    struct manifest m;
    struct val about;
    assert_int_equal(val_parse(slice_str("{\"x\":1}"), f->arena, &about, &f->err), OK);
    assert_int_equal(manifest_make(f->path, about, f->arena, &m, &f->err), OK);
    return m;
}

static void what_was_written_is_read(void **out)
{
    struct folder *f = *out;
    struct manifest a = made(f), b;
    assert_int_equal(manifest_read(f->path, f->arena, &b, &f->err), OK);
    assert_int_equal(a.count, 2);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.bytes, 3);
    assert_int_equal(val_int(val_get(b.about, slice_str("x"))), 1);
    assert_string_equal(b.files[0].path, "b");
    assert_string_equal(b.files[0].sha256,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(b.files[1].path, "sub/a");
    assert_int_equal(manifest_check(f->path, &b, &f->err), OK);
}

static void changes_are_found(void **out)
{
    struct folder *f = *out;
    struct manifest m = made(f);
    put_file(f, "b", "abd");
    assert_int_equal(manifest_check(f->path, &m, &f->err), ERR_CORRUPT);
    assert_non_null(strstr(f->err.text, "/b is damaged"));
    put_file(f, "b", "abcd");
    assert_int_equal(manifest_check(f->path, &m, &f->err), ERR_CORRUPT);
    assert_non_null(strstr(f->err.text, "4 bytes instead of 3"));
    put_file(f, "b", "abc");
    put_file(f, "sub/new", "");
    assert_int_equal(manifest_check(f->path, &m, &f->err), ERR_CORRUPT);
    assert_non_null(strstr(f->err.text, "/sub/new is not in the manifest"));
}

static void foreign_manifests_are_refused(void **out)
{
    static const char row[] = "{\"format\":1,\"about\":{},\"files\":[{\"path\":\"%s\",\"bytes\":0,"
                              "\"sha256\":\"%064d\"}]}";
    static const char *const bad[] = {
        "", "/etc/x", "..", "../x", "a/../../x", "a//b", "a/", "./a"
    };
    struct folder *f = *out;
    struct manifest m;
    char text[400];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(text, sizeof text, row, bad[i], 0);
        put_file(f, "manifest.json", text);
        assert_int_equal(manifest_read(f->path, f->arena, &m, &f->err), ERR_CORRUPT);
    }
    snprintf(text, sizeof text, row, "a", 0);
    put_file(f, "manifest.json", text);
    assert_int_equal(manifest_read(f->path, f->arena, &m, &f->err), OK);
    for (size_t len = 0; len < strlen(text); len++) {
        char cut[400];
        snprintf(cut, sizeof cut, "%.*s", (int)len, text);
        put_file(f, "manifest.json", cut);
        assert_int_equal(manifest_read(f->path, f->arena, &m, &f->err), ERR_CORRUPT);
    }
    put_file(f, "manifest.json", "{\"format\":2,\"about\":{},\"files\":[]}");
    assert_int_equal(manifest_read(f->path, f->arena, &m, &f->err), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "format 2"));
}

static void links_are_refused(void **out)
{
    struct folder *f = *out;
    struct manifest m;
    char link[100];
    snprintf(link, sizeof link, "%s/link", f->path);
    assert_int_equal(symlink("b", link), 0);
    assert_int_equal(manifest_make(f->path, val_empty_object, f->arena, &m, &f->err), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "/link is not a plain file"));
}

static void absent_folders_are_told(void **out)
{
    struct folder *f = *out;
    struct manifest m;
    assert_int_equal(manifest_read("/tmp/themis-no-such", f->arena, &m, &f->err), ERR_NOT_FOUND);
    assert_int_equal(folder_remove("/tmp/themis-no-such", &f->err), ERR_NOT_FOUND);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_was_written_is_read), T(changes_are_found),       T(foreign_manifests_are_refused),
        T(links_are_refused),        T(absent_folders_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
