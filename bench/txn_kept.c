/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeping more, or keeping it encrypted, costs a durable insert: two stores in one process, turn
 * by turn. The first side has it, the second has not, so a ratio of 0.9 is a cost of a tenth.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "bench_commit.h"
#include "bench_store.h"
#include "txn.h"

struct sides {
    struct bench_store with, without;
    unsigned clients;
};

static double with(void *ctx, double seconds)
{
    struct sides *s = ctx;
    return bench_commit_ours(&s->with, s->clients, seconds);
}

static double without(void *ctx, double seconds)
{
    struct sides *s = ctx;
    return bench_commit_ours(&s->without, s->clients, seconds);
}

static void compare(struct sides *s, const char *what, const char *opponent)
{
    static const unsigned clients[] = { 1, 8, 64 };
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        char facts[64];
        s->clients = clients[i];
        snprintf(facts, sizeof facts, "clients=%u", s->clients);
        bench_compare(&(struct bench_pair){ .name = "txn",
                                            .what = what,
                                            .facts = facts,
                                            .unit = "commits/s",
                                            .opponent = opponent,
                                            .ours = with,
                                            .theirs = without,
                                            .ctx = s });
    }
    bench_store_close(&s->with);
    bench_store_close(&s->without);
}

void txn_change_log(void)
{
    struct sides s = { .clients = 0 };
    bench_store_open_with(&s.with, "log-on", (const char *const[]){ "change_log=on", NULL });
    bench_store_open_with(&s.without, "log-off", (const char *const[]){ "change_log=off", NULL });
    compare(&s, "change_log", "the same with change_log=off");
}

/* Two of the nine attributes of a document, the longest text among them. */
static void encrypt(struct bench_store *s)
{
    struct error err;
    struct txn *t;
    struct arena *arena = arena_new(0);
    const struct val names[] = { val_new_string(arena, slice_str("name")),
                                 val_new_string(arena, slice_str("note")) };
    bench_must(txn_begin(&t, s->store, &(struct txn_options){ .is_read_only = true }, &err), &err,
               "beginning");
    uint64_t id = catalog_collection(txn_catalog(t), s->db_id, slice_str("d"))->id;
    txn_end(t);
    bench_must(store_set_encrypted_fields(s->store, id, val_new_array(arena, names, 2), &err), &err,
               "encrypting");
    arena_free(arena);
}

void txn_encrypted(void)
{
    static const char key[] = "k 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    struct sides s = { .clients = 0 };
    char path[512], setting[600];
    snprintf(path, sizeof path, "%s/keys", bench_dir());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, key, sizeof key - 1) != sizeof key - 1)
        bench_fail("cannot write %s", path);
    close(fd);
    snprintf(setting, sizeof setting, "encryption_key_file=%s", path);
    bench_store_open_with(&s.with, "encrypted", (const char *const[]){ setting, NULL });
    bench_store_open(&s.without, "clear");
    encrypt(&s.with);
    compare(&s, "encrypted", "the same without encryptedFields");
}
