/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keyring -- the keys of a key file: which one encrypts from now on, and all that can still
 * decrypt. Immutable; any thread.
 *
 * A line is an id and 64 hexadecimal digits or the base64 of 32 bytes; lines that begin with # and
 * empty ones are skipped. The last key encrypts, unless another is named.
 */
#ifndef BASE_KEYRING_H
#define BASE_KEYRING_H

#include "base/error.h"
#include "base/seal.h"

enum { KEY_ID_MAX = 32, KEYS_MAX = 64, KEY_CHECK_BYTES = 4 };

struct keyring_key {
    char id[KEY_ID_MAX + 1]; /* letters, digits, _ . and - */
    uint8_t bytes[SEAL_KEY_BYTES];
    uint8_t check[KEY_CHECK_BYTES]; /* tells two keys of one id apart, and nothing else */
};

struct keyring;

/*
 * writer: id of the key that encrypts; "" = the last one of the file. ERR_INVALID says what is
 * wrong: no such file, readable by others than its owner, not a key. Returned to the caller.
 */
MUST_CHECK enum errc keyring_load(struct keyring **out, const char *path, const char *writer,
                                  struct error *err);
void keyring_free(struct keyring *r); /* wipes; NULL is allowed */

size_t keyring_count(const struct keyring *r); /* of NULL: 0 */
const struct keyring_key *keyring_at(const struct keyring *r, size_t i);
const struct keyring_key *keyring_find(const struct keyring *r, struct slice id); /* or NULL */
const struct keyring_key *keyring_writer(const struct keyring *r);                /* or NULL */

#endif
