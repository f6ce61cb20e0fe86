/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "server/router.h"
#include <stdio.h>

static struct route_match find(const char *path, enum http_method method)
{
    struct route_match m;

    router_find(slice_str(path), method, &m);
    return m;
}

static void a_path_finds_its_row_and_captures_its_segments(void **state)
{
    struct route_match m = find("/_api/document/people/ann", METHOD_GET);

    (void)state;
    assert_non_null(m.route);
    assert_string_equal(m.route->path, "/_api/document/{collection}/{key}");
    assert_true(slice_is(m.params[0], "people"));
    assert_true(slice_is(m.params[1], "ann"));
    m = find("/_api/cursor/17/2", METHOD_POST);
    assert_true(slice_is(m.params[0], "17"));
    assert_true(slice_is(m.params[1], "2"));
}

static void a_trailing_slash_changes_nothing(void **state)
{
    (void)state;
    assert_ptr_equal(find("/_api/collection/", METHOD_GET).route,
                     find("/_api/collection", METHOD_GET).route);
    assert_non_null(find("/", METHOD_GET).route);
}

static void a_known_path_with_another_method_says_what_is_allowed(void **state)
{
    char text[64];
    struct route_match m = find("/v1/chat/completions", METHOD_GET);

    (void)state;
    assert_null(m.route);
    router_allow_text(m.allowed, text, sizeof text);
    assert_string_equal(text, "POST");
    m = find("/v1/models/chat", METHOD_PATCH);
    assert_null(m.route);
    router_allow_text(m.allowed, text, sizeof text);
    assert_string_equal(text, "GET, PUT, DELETE");
}

static void an_unknown_path_allows_nothing(void **state)
{
    static const char *const paths[] = { "/nothing",
                                         "/_api",
                                         "/_api/document",
                                         "/_api/document/",
                                         "/v1",
                                         "/_api//collection",
                                         "/_api/documents/a/b",
                                         "/livez/more" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(find(paths[i], METHOD_GET).allowed, 0);
}

static void the_database_prefix_is_split_off(void **state)
{
    struct slice db, rest;

    (void)state;
    assert_true(router_split_db(slice_str("/_db/my%20db/_api/version"), &db, &rest));
    assert_true(slice_is(db, "my%20db") && slice_is(rest, "/_api/version"));
    assert_true(router_split_db(slice_str("/_api/version"), &db, &rest));
    assert_true(db.len == 0 && slice_is(rest, "/_api/version"));
    assert_false(router_split_db(slice_str("/_db//x"), &db, &rest));
}

static void every_row_is_complete_and_reachable(void **state)
{
    size_t i = 0;

    (void)state;
    for (const struct route *row; (row = router_row(i)); i++) {
        assert_non_null(row->handler);
        assert_true(row->methods && row->help && row->path[0] == '/');
        if (strchr(row->path, '{'))
            continue;
        char path[128];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(row->path, "?"), row->path);
        for (unsigned m = METHOD_GET; m <= METHOD_OPTIONS; m <<= 1)
            if (row->methods & m)
                assert_ptr_equal(find(path, (enum http_method)m).route, row);
    }
    assert_true(i > 40);
}

static void a_row_takes_only_the_parameters_it_names(void **state)
{
    const struct route *row = find("/_api/collection/c/checksum", METHOD_GET).route;
    static const char *const no[] = { "", "with", "withDat", "withDataX",
                                      "withRevisions&withData" };

    (void)state;
    assert_true(router_takes_param(row, slice_str("withRevisions")));
    assert_true(router_takes_param(row, slice_str("withData")));
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        assert_false(router_takes_param(row, slice_str(no[i])));
    row = find("/_api/collection/c/count", METHOD_GET).route;
    assert_false(router_takes_param(row, slice_str("withData")));
    assert_false(router_takes_param(row, slice_str("")));
}

/* Every route but health, metrics, the page, the token and the description of them needs a user. */
static void routes_are_closed_by_default(void **state)
{
    static const char *const open[] = { "/",           "/livez",
                                        "/readyz",     "/health",
                                        "/metrics",    "/_admin/server/availability",
                                        "/_open/auth", "/openapi.json" };

    (void)state;
    for (size_t i = 0; router_row(i); i++) {
        bool is_open = false;
        for (size_t k = 0; k < ARRAY_LEN(open); k++)
            is_open |= !strcmp(open[k], router_row(i)->path);
        assert_int_equal(router_row(i)->role == ROLE_NONE, is_open);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_finds_its_row_and_captures_its_segments),
        cmocka_unit_test(a_trailing_slash_changes_nothing),
        cmocka_unit_test(a_known_path_with_another_method_says_what_is_allowed),
        cmocka_unit_test(an_unknown_path_allows_nothing),
        cmocka_unit_test(the_database_prefix_is_split_off),
        cmocka_unit_test(every_row_is_complete_and_reachable),
        cmocka_unit_test(a_row_takes_only_the_parameters_it_names),
        cmocka_unit_test(routes_are_closed_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
