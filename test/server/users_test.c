/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/val_text.h"
#include "server/auth.h"
#include "store/doc.h"
#include <stdio.h>
#include <stdlib.h>

struct fixture {
    struct settings settings;
    struct store *store;
    struct users *users;
    struct auth *auth;
    struct arena *arena;
    struct error err;
};

#define MUST(f, call)                                                                              \
    do {                                                                                           \
        if ((call) != OK)                                                                          \
            fail_msg("%s", (f)->err.text);                                                         \
    } while (0)

static void open_users(struct fixture *f)
{
    MUST(f, users_open(&f->users, f->store, &f->err));
    MUST(f, auth_open(&f->auth, &f->settings, f->users, &f->err));
}

static void close_users(struct fixture *f)
{
    auth_close(f->auth);
    users_close(f->users);
}

static int setup(void **out)
{
    struct fixture *f = mem_zalloc(sizeof *f);

    unsetenv("THEMIS_ROOT_PASSWORD");
    log_set_level(LOG_ERROR);
    settings_init(&f->settings);
    f->arena = arena_new(0);
    MUST(f, store_open(&f->store, &(struct store_options){ .settings = &f->settings }, &f->err));
    open_users(f);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    struct fixture *f = *out;

    close_users(f);
    store_close(f->store);
    arena_free(f->arena);
    mem_free(f);
    return 0;
}

static void create(struct fixture *f, const char *name, const char *password)
{
    struct slice text = slice_str(password);
    struct user_change change = { .password = &text };

    MUST(f, users_create(f->users, slice_str(name), &change, &f->err));
}

static void grant(struct fixture *f, const char *name, const char *db, const char *collection,
                  enum access_level level)
{
    MUST(f, users_grant(f->users, slice_str(name), slice_str(db), slice_str(collection), &level,
                        &f->err));
}

/* Proves what must be proven; the state that follows. */
static enum errc log_in(struct fixture *f, const char *header, enum auth_state *before)
{
    struct identity who;
    enum errc rc = auth_check(f->auth, slice_str(header), true, &who, NULL);

    *before = who.state;
    if (rc == OK && who.state == AUTH_UNPROVEN)
        rc = auth_prove(f->auth, &who, NULL);
    identity_release(&who);
    return rc;
}

static const char *basic(const char *pair)
{
    static char text[2048];
    struct buf out;

    buf_init(&out, 0);
    base64_encode(slice_str(pair), false, &out);
    snprintf(text, sizeof text, "Basic %s", buf_cstr(&out));
    buf_release(&out);
    return text;
}

static enum errc try(struct fixture *f, const char *pair)
{
    enum auth_state before;

    return log_in(f, basic(pair), &before);
}

static void a_password_is_proven_once_and_again_after_a_change(void **out)
{
    struct fixture *f = *out;
    enum auth_state before;
    struct slice other = slice_str("other");
    bool is_active = false;

    create(f, "ann", "pw");
    assert_int_equal(log_in(f, basic("ann:pw"), &before), OK);
    assert_int_equal(before, AUTH_UNPROVEN);
    assert_int_equal(log_in(f, basic("ann:pw"), &before), OK);
    assert_int_equal(before, AUTH_KNOWN);
    assert_int_equal(try(f, "ann:p"), ERR_UNAUTHORIZED);
    assert_int_equal(try(f, "ann:"), ERR_UNAUTHORIZED);
    assert_int_equal(try(f, "bob:pw"), ERR_UNAUTHORIZED);
    assert_int_equal(try(f, "root:"), OK);
    assert_int_equal(try(f, "root:x"), ERR_UNAUTHORIZED);
    MUST(f, users_change(f->users, slice_str("ann"), &(struct user_change){ .password = &other },
                         &f->err));
    assert_int_equal(try(f, "ann:pw"), ERR_UNAUTHORIZED);
    assert_int_equal(try(f, "ann:other"), OK);
    MUST(f, users_change(f->users, slice_str("ann"),
                         &(struct user_change){ .is_active = &is_active }, &f->err));
    assert_int_equal(try(f, "ann:other"), ERR_UNAUTHORIZED);
}

static void accounts_are_there_after_reopening_and_passwords_are_not_stored(void **out)
{
    struct fixture *f = *out;
    struct txn *t = NULL;
    struct doc_iter *it = NULL;
    struct val doc;
    struct buf text;
    struct slice root = slice_str("r00t-password");

    assert_false(auth_has_password(f->auth));
    create(f, "zoe", "a-password-in-clear");
    create(f, "ann", "pw");
    MUST(f, users_change(f->users, slice_str("root"), &(struct user_change){ .password = &root },
                         &f->err));
    MUST(f, users_remove(f->users, slice_str("ann"), &f->err));
    close_users(f);
    open_users(f);
    assert_true(auth_has_password(f->auth));
    assert_int_equal(try(f, "zoe:a-password-in-clear"), OK);
    assert_int_equal(try(f, "root:r00t-password"), OK);
    assert_int_equal(try(f, "root:"), ERR_UNAUTHORIZED);
    assert_null(users_find(f->users, slice_str("ann")));

    MUST(f, txn_begin(&t, f->store, NULL, &f->err));
    MUST(f,
         doc_iter_new(&it, t, catalog_collection(txn_catalog(t), 1, slice_str("_users")), &f->err));
    buf_init(&text, 0);
    while (doc_iter_next(it, &doc))
        val_print(doc, &text);
    doc_iter_free(it);
    txn_end(t);
    assert_non_null(strstr(buf_cstr(&text), "scrypt"));
    assert_null(strstr(buf_cstr(&text), "password-in-clear"));
    assert_null(strstr(buf_cstr(&text), "r00t"));
    buf_release(&text);
}

static enum access_level level(struct fixture *f, const char *db, const char *collection)
{
    struct user *u = users_find(f->users, slice_str("ann"));
    enum access_level out = collection
                                ? user_collection_level(u, slice_str(db), slice_str(collection))
                                : user_database_level(u, slice_str(db));

    user_unref(u);
    return out;
}

static void a_grant_is_the_most_particular_one(void **out)
{
    struct fixture *f = *out;

    create(f, "ann", "");
    assert_int_equal(level(f, "db", NULL), ACCESS_NONE);
    grant(f, "ann", "*", "", ACCESS_READ);
    assert_int_equal(level(f, "db", NULL), ACCESS_READ);
    assert_int_equal(level(f, "db", "c"), ACCESS_NONE);
    grant(f, "ann", "*", "*", ACCESS_READ);
    assert_int_equal(level(f, "db", "c"), ACCESS_READ);
    grant(f, "ann", "db", "*", ACCESS_WRITE);
    assert_int_equal(level(f, "db", "c"), ACCESS_WRITE);
    assert_int_equal(level(f, "other", "c"), ACCESS_READ);
    grant(f, "ann", "db", "c", ACCESS_NONE);
    assert_int_equal(level(f, "db", "c"), ACCESS_NONE);
    assert_int_equal(level(f, "db", "d"), ACCESS_WRITE);
    assert_int_equal(level(f, "db", "_graphs"), ACCESS_READ); /* as the database */
    assert_int_equal(level(f, "_system", "_users"), ACCESS_NONE);
    MUST(f,
         users_grant(f->users, slice_str("ann"), slice_str("db"), slice_str("c"), NULL, &f->err));
    assert_int_equal(level(f, "db", "c"), ACCESS_WRITE);
    grant(f, "ann", "db", "", ACCESS_NONE);
    assert_int_equal(level(f, "db", "c"), ACCESS_NONE); /* no database, no collection */
    grant(f, "ann", "_system", "", ACCESS_WRITE);
    assert_int_equal(level(f, "_system", "_users"), ACCESS_WRITE);
}

static void the_store_asks_before_it_touches_a_collection(void **out)
{
    struct fixture *f = *out;
    struct collection_options opt = { .name = slice_str("c"),
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true };
    struct txn *t = NULL;
    struct doc_change change;
    struct doc_iter *it = NULL;
    struct val doc;
    uint64_t count;

    MUST(f, store_create_collection(f->store, 1, &opt, NULL, &f->err));
    create(f, "ann", "");
    grant(f, "ann", "_system", "", ACCESS_READ);
    grant(f, "ann", "_system", "c", ACCESS_READ);
    MUST(f, val_parse(slice_str("{\"_key\":\"k\"}"), f->arena, &doc, &f->err));
    for (enum access_level l = ACCESS_NONE; l <= ACCESS_WRITE; l++) {
        grant(f, "ann", "_system", "c", l);
        struct user *u = users_find(f->users, slice_str("ann"));
        MUST(f,
             txn_begin(&t, f->store, &(struct txn_options){ .access = user_access(u) }, &f->err));
        user_unref(u); /* the transaction has its own */
        const struct collection *c = catalog_collection(txn_catalog(t), 1, slice_str("c"));
        enum errc can_read = l >= ACCESS_READ ? OK : ERR_FORBIDDEN;
        enum errc can_write = l >= ACCESS_WRITE ? OK : ERR_FORBIDDEN;
        assert_int_equal(doc_count(t, c, &count, &f->err), can_read);
        assert_int_equal(doc_iter_new(&it, t, c, &f->err), can_read);
        doc_iter_free(it);
        it = NULL;
        assert_int_equal(doc_get(t, c, slice_str("k"), f->arena, &doc, &f->err),
                         can_read == OK ? ERR_NOT_FOUND : can_read);
        assert_int_equal(doc_insert(t, c, doc, NULL, f->arena, &change, &f->err), can_write);
        assert_int_equal(doc_update(t, c, slice_str("k"), doc, NULL, f->arena, &change, &f->err),
                         can_write);
        assert_int_equal(doc_remove(t, c, slice_str("k"), NULL, f->arena, &change, &f->err),
                         can_write);
        txn_end(t);
    }
}

static void access_tokens_pass_until_they_end_or_are_removed(void **out)
{
    struct fixture *f = *out;
    struct buf text;
    struct val row;
    enum auth_state before;
    char header[4096], pair[4096], name[USER_NAME_MAX + 1];
    uint64_t now_s = env_wall_us(env_system()) / 1000000;
    struct token_facts facts;
    struct token_wish wish = { slice_str("t"), now_s + 100, val_null, val_null };

    create(f, "ann", "pw");
    create(f, "bob", "pw");
    buf_init(&text, 0);
    MUST(f, users_add_token(f->users, slice_str("ann"), &wish, f->arena, &row, &text, &f->err));
    assert_true(user_of_token(buf_slice(&text), name));
    assert_string_equal(name, "ann");
    snprintf(header, sizeof header, "Bearer %s", buf_cstr(&text));
    assert_int_equal(log_in(f, header, &before), OK);
    assert_int_equal(before, AUTH_KNOWN);
    snprintf(pair, sizeof pair, "ann:%s", buf_cstr(&text));
    assert_int_equal(try(f, pair), OK);
    snprintf(pair, sizeof pair, "bob:%s", buf_cstr(&text));
    assert_int_equal(try(f, pair), ERR_UNAUTHORIZED);
    size_t last = strlen(header) - 6; /* a digit of the secret */
    header[last] = header[last] == '0' ? '1' : '0';
    assert_int_equal(log_in(f, header, &before), ERR_UNAUTHORIZED);

    struct user *u = users_find(f->users, slice_str("ann"));
    assert_true(user_token_is_right(u, buf_slice(&text), now_s + 99, &facts));
    assert_true(facts.id > 0 && token_is_whole(&facts));
    assert_false(user_token_is_right(u, buf_slice(&text), now_s + 100, &facts));
    user_unref(u);
    struct buf again;
    buf_init(&again, 0);
    assert_int_equal(
        users_add_token(f->users, slice_str("ann"), &wish, f->arena, &row, &again, &f->err),
        ERR_EXISTS);
    buf_release(&again);
    int64_t id = val_int(val_get(row, slice_str("id")));
    assert_int_equal(users_remove_token(f->users, slice_str("ann"), id + 1, &f->err),
                     ERR_NOT_FOUND);
    MUST(f, users_remove_token(f->users, slice_str("ann"), id, &f->err));
    snprintf(header, sizeof header, "Bearer %s", buf_cstr(&text));
    assert_int_equal(log_in(f, header, &before), ERR_UNAUTHORIZED);
    buf_release(&text);
}

static void bad_names_and_doubles_are_refused(void **out)
{
    struct fixture *f = *out;
    char longest[USER_NAME_MAX + 2];
    const char *const bad[] = { "", "a:b", "a\n", "\xff", longest };
    struct user_change change = { 0 };

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(users_create(f->users, slice_str(bad[i]), &change, &f->err), ERR_INVALID);
        assert_int_equal(error_num(&f->err), 1700);
    }
    longest[USER_NAME_MAX] = 0;
    create(f, longest, "");
    assert_int_equal(users_create(f->users, slice_str(longest), &change, &f->err), ERR_EXISTS);
    assert_int_equal(error_num(&f->err), 1702);
    assert_int_equal(users_change(f->users, slice_str("no"), &change, &f->err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&f->err), 1703);
    assert_int_equal(users_remove(f->users, slice_str("no"), &f->err), ERR_NOT_FOUND);
    assert_int_equal(users_remove(f->users, slice_str("root"), &f->err), ERR_FORBIDDEN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_password_is_proven_once_and_again_after_a_change),
        TEST(accounts_are_there_after_reopening_and_passwords_are_not_stored),
        TEST(a_grant_is_the_most_particular_one),
        TEST(the_store_asks_before_it_touches_a_collection),
        TEST(access_tokens_pass_until_they_end_or_are_removed),
        TEST(bad_names_and_doubles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
