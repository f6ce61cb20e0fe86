/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/hash.h"
#include "server/auth.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct auth *open_with(const char *password, const char *secret)
{
    struct settings s;
    struct auth *a;
    struct error err = { 0 };
    char path[] = "/tmp/themis-secret-XXXXXX";

    settings_init(&s);
    if (password)
        setenv("THEMIS_ROOT_PASSWORD", password, 1);
    else
        unsetenv("THEMIS_ROOT_PASSWORD");
    if (secret) {
        int fd = mkstemp(path);
        assert_true(fd >= 0 && write(fd, secret, strlen(secret)) == (ssize_t)strlen(secret));
        close(fd);
        snprintf(s.jwt_secret_file, sizeof s.jwt_secret_file, "%s", path);
    }
    if (auth_open(&a, &s, NULL, &err) != OK)
        fail_msg("%s", err.text);
    if (secret)
        unlink(path);
    return a;
}

static enum errc check(struct auth *a, const char *header, bool is_on, struct identity *who)
{
    enum errc rc = auth_check(a, slice_str(header), is_on, who, NULL);

    buf_release(&who->password);
    return rc;
}

static const char *basic(const char *pair)
{
    static char text[256];
    struct buf out;

    buf_init(&out, 0);
    base64_encode(slice_str(pair), false, &out);
    snprintf(text, sizeof text, "Basic %s", buf_cstr(&out));
    buf_release(&out);
    return text;
}

static void the_right_password_is_root_and_a_wrong_one_is_refused(void **state)
{
    struct auth *a = open_with("s3cret", NULL);
    struct identity who;

    (void)state;
    assert_int_equal(check(a, basic("root:s3cret"), true, &who), OK);
    assert_string_equal(who.user, "root");
    for (int is_on = 0; is_on < 2; is_on++) {
        assert_int_equal(check(a, basic("root:wrong"), is_on, &who), ERR_UNAUTHORIZED);
        assert_int_equal(check(a, basic("root:"), is_on, &who), ERR_UNAUTHORIZED);
        assert_int_equal(check(a, basic("ann:s3cret"), is_on, &who), ERR_UNAUTHORIZED);
        assert_int_equal(check(a, "Basic !!!", is_on, &who), ERR_UNAUTHORIZED);
        assert_int_equal(check(a, "Digest x", is_on, &who), ERR_UNAUTHORIZED);
    }
    assert_int_equal(check(a, "", true, &who), OK);
    assert_string_equal(who.user, ""); /* nobody */
    auth_close(a);
}

static void the_empty_password_is_right_until_one_is_set(void **state)
{
    struct auth *a = open_with(NULL, NULL);
    struct identity who;

    (void)state;
    assert_false(auth_has_password(a));
    assert_int_equal(check(a, basic("root:"), false, &who), OK);
    assert_int_equal(check(a, basic("root:x"), false, &who), ERR_UNAUTHORIZED);
    auth_close(a);
}

static void a_token_that_was_issued_is_accepted_and_a_changed_one_is_not(void **state)
{
    struct auth *a = open_with("pw", "a secret of some length"),
                *other = open_with("pw", "another secret");
    struct identity who;
    struct buf token;
    char header[1024];

    (void)state;
    buf_init(&token, 0);
    assert_int_equal(auth_issue(a, slice_str("root"), slice_str("no"), &token, NULL),
                     ERR_UNAUTHORIZED);
    assert_int_equal(auth_issue(a, slice_str("root"), slice_str("pw"), &token, NULL), OK);
    snprintf(header, sizeof header, "bearer %s", buf_cstr(&token));
    assert_int_equal(check(a, header, true, &who), OK);
    assert_string_equal(who.user, "root");
    assert_int_equal(check(other, header, true, &who), ERR_UNAUTHORIZED);
    for (size_t i = 7; header[i]; i++) { /* no single character may be changed */
        char before = header[i];
        header[i] = before == 'A' ? 'B' : 'A';
        bool is_last_of_mac = !header[i + 1]; /* its low bits are not part of the digest */
        if (!is_last_of_mac)
            assert_int_equal(check(a, header, true, &who), ERR_UNAUTHORIZED);
        header[i] = before;
    }
    buf_release(&token);
    auth_close(a);
    auth_close(other);
}

static void a_placeholder_key_passes_only_while_auth_is_off(void **state)
{
    struct auth *a = open_with(NULL, NULL);
    struct identity who;

    (void)state;
    assert_int_equal(check(a, "Bearer sk-anything", false, &who), OK);
    assert_string_equal(who.user, "");
    assert_int_equal(check(a, "Bearer sk-anything", true, &who), ERR_UNAUTHORIZED);
    auth_close(a);
}

static enum errc host(const char *h, const char *origin)
{
    return auth_check_host(slice_str(h), slice_str(origin), "10.1.2.3", 8765, "db.example, other",
                           "https://app.example", NULL);
}

static void only_hosts_that_are_ours_are_served(void **state)
{
    static const char *const good[] = { "localhost",  "LOCALHOST:1", "127.0.0.1:8765",
                                        "127.1.2.3",  "[::1]:8765",  "10.1.2.3:8765",
                                        "db.example", "other:9" };
    static const char *const bad[] = { "evil.example",   "localhost.evil.example",
                                       "127.0.0.1.evil", "127.evil",
                                       "10.1.2.4",       "",
                                       "::1.evil" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (host(good[i], "") != OK)
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (host(bad[i], "") != ERR_FORBIDDEN)
            fail_msg("%s is served", bad[i]);
}

static void only_our_own_pages_may_call(void **state)
{
    (void)state;
    assert_int_equal(host("localhost:8765", "http://localhost:8765"), OK);
    assert_int_equal(host("localhost:8765", "https://app.example"), OK);
    assert_int_equal(host("localhost:8765", "http://localhost:9999"), ERR_FORBIDDEN);
    assert_int_equal(host("localhost:8765", "http://evil.example"), ERR_FORBIDDEN);
    assert_int_equal(host("localhost:8765", "null"), ERR_FORBIDDEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_password_is_root_and_a_wrong_one_is_refused),
        cmocka_unit_test(the_empty_password_is_right_until_one_is_set),
        cmocka_unit_test(a_token_that_was_issued_is_accepted_and_a_changed_one_is_not),
        cmocka_unit_test(a_placeholder_key_passes_only_while_auth_is_off),
        cmocka_unit_test(only_hosts_that_are_ours_are_served),
        cmocka_unit_test(only_our_own_pages_may_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
