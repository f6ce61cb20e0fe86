/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"

enum { FILE_MAX = 64 * KIB };

struct keyring {
    size_t count, writer;
    struct keyring_key keys[KEYS_MAX];
};

/* ---- the file ---- */

static enum errc check_file(int fd, const char *path, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_os(err, "read", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_INVALID, "the key file %s is not a file", path);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return fail(err, ERR_INVALID,
                    "the key file %s has mode %03o: only its owner may read it (chmod 600 %s)",
                    path, (unsigned)(st.st_mode & 0777), path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return fail(err, ERR_INVALID, "the key file %s belongs to another user (%u)", path,
                    (unsigned)st.st_uid);
    return OK;
}

/* Into room for FILE_MAX and one byte more. */
static enum errc read_all(int fd, const char *path, char *to, size_t *len, struct error *err)
{
    for (*len = 0; *len <= FILE_MAX;) {
        ssize_t n = read(fd, to + *len, FILE_MAX + 1 - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_os(err, "read", path);
        if (n == 0)
            return OK;
        *len += (size_t)n;
    }
    return fail(err, ERR_INVALID, "the key file %s has more than %d bytes", path, FILE_MAX);
}

/* ---- its lines ---- */

static struct slice trim(struct slice s)
{
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len && memchr(" \t\r", s.ptr[s.len - 1], 3))
        s.len--;
    return s;
}

static bool is_id(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '.' || c == '-'))
            return false;
    }
    return s.len >= 1 && s.len <= KEY_ID_MAX;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct slice text, uint8_t *out)
{
    if (text.len != 2 * SEAL_KEY_BYTES)
        return false;
    for (size_t i = 0; i < SEAL_KEY_BYTES; i++) {
        int high = hex_digit(text.ptr[2 * i]), low = hex_digit(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_base64(struct slice text, uint8_t *out)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    bool is_right = base64_decode(text, false, &bytes) == SEAL_KEY_BYTES;
    if (is_right)
        memcpy(out, bytes.ptr, SEAL_KEY_BYTES);
    if (bytes.ptr)
        seal_wipe(bytes.ptr, bytes.cap);
    buf_release(&bytes);
    return is_right;
}

static void make_check(struct keyring_key *k)
{
    uint8_t mac[32];
    hash_hmac_sha256(slice_of(k->bytes, sizeof k->bytes), slice_str("themis key check 1"), mac);
    memcpy(k->check, mac, sizeof k->check);
}

static enum errc add_line(struct keyring *r, struct slice line, const char *path, unsigned number,
                          struct error *err)
{
    size_t at = 0;
    while (at < line.len && line.ptr[at] != ' ' && line.ptr[at] != '\t')
        at++;
    struct slice id = slice_of(line.ptr, at), key = trim(slice_of(line.ptr + at, line.len - at));
    if (r->count == KEYS_MAX)
        return fail(err, ERR_INVALID, "the key file %s has more than %d keys", path, KEYS_MAX);
    struct keyring_key *k = &r->keys[r->count];
    if (!is_id(id) || !(read_hex(key, k->bytes) || read_base64(key, k->bytes)))
        return fail(
            err, ERR_INVALID,
            "line %u of the key file %s is no key: it takes an id of up to %d letters, "
            "digits, _ . or -, a space, and 64 hexadecimal digits or the base64 of 32 bytes",
            number, path, KEY_ID_MAX);
    if (keyring_find(r, id))
        return fail(err, ERR_INVALID, "line %u of the key file %s names the key '%.*s' again",
                    number, path, SLICE_ARG(id));
    memcpy(k->id, id.ptr, id.len);
    make_check(k);
    r->count++;
    return OK;
}

static enum errc parse(struct keyring *r, struct slice text, const char *path, struct error *err)
{
    unsigned number = 0;
    while (text.len) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        struct slice line = trim(slice_of(text.ptr, len));
        number++;
        len += end != NULL;
        text = slice_of(text.ptr + len, text.len - len);
        if (!line.len || line.ptr[0] == '#')
            continue;
        enum errc rc = add_line(r, line, path, number, err);
        if (rc != OK)
            return rc;
    }
    return r->count ? OK : fail(err, ERR_INVALID, "the key file %s has no key", path);
}

static enum errc choose_writer(struct keyring *r, const char *writer, const char *path,
                               struct error *err)
{
    r->writer = r->count - 1;
    if (!*writer)
        return OK;
    const struct keyring_key *k = keyring_find(r, slice_str(writer));
    if (!k)
        return fail(err, ERR_INVALID,
                    "encryption_key_id names the key '%s', which the key file %s does not have",
                    writer, path);
    r->writer = (size_t)(k - r->keys);
    return OK;
}

enum errc keyring_load(struct keyring **out, const char *path, const char *writer,
                       struct error *err)
{
    enum errc rc = OK;
    struct keyring *r = mem_zalloc(sizeof *r);
    char *text = mem_alloc(FILE_MAX + 1);
    size_t len = 0;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        TRY(fail(err, ERR_INVALID, "the key file %s cannot be read: %s", path, strerror(errno)));
    TRY(check_file(fd, path, err));
    TRY(read_all(fd, path, text, &len, err));
    TRY(parse(r, slice_of(text, len), path, err));
    TRY(choose_writer(r, writer, path, err));
    *out = r;
    r = NULL;
out:
    seal_wipe(text, len);
    mem_free(text);
    if (fd >= 0)
        close(fd);
    keyring_free(r);
    return rc;
}

void keyring_free(struct keyring *r)
{
    if (!r)
        return;
    seal_wipe(r, sizeof *r);
    mem_free(r);
}

size_t keyring_count(const struct keyring *r)
{
    return r ? r->count : 0;
}

const struct keyring_key *keyring_at(const struct keyring *r, size_t i)
{
    return &r->keys[i];
}

const struct keyring_key *keyring_find(const struct keyring *r, struct slice id)
{
    for (size_t i = 0; r && i < r->count; i++)
        if (slice_is(id, r->keys[i].id))
            return &r->keys[i];
    return NULL;
}

const struct keyring_key *keyring_writer(const struct keyring *r)
{
    return r ? &r->keys[r->writer] : NULL;
}
