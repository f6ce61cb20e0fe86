/* SPDX-License-Identifier: Apache-2.0 */
/* gzip and iconv are run as programs; what they make goes into a file in memory. */
#include "cli/source.h"

#include "base/val_text.h"
#include "cli/child.h"
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct child_limits usual_limits = { .cpu_s = 30,
                                                  .wall_s = 60,
                                                  .memory_bytes = (size_t)256 * MIB };

static bool begins_with(int file, const char *bytes, size_t len)
{
    char found[8];

    return pread(file, found, len, 0) == (ssize_t)len && memcmp(found, bytes, len) == 0;
}

enum errc source_open(struct source *s, const char *path, struct error *err)
{
    size_t len = strlen(path);

    *s = (struct source){ .file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
    buf_init(&s->bytes, 0);
    if (s->file < 0)
        return fail(err, ERR_IO, "%s", strerror(errno));
    s->is_packed = begins_with(s->file, "\x1f\x8b", 2);
    if (s->is_packed && len > 3 && strcasecmp(path + len - 3, ".gz") == 0)
        len -= 3;
    s->name = mem_strdup(path);
    s->name[len] = 0;
    return OK;
}

void source_release(struct source *s)
{
    if (s->file >= 0)
        close(s->file);
    mem_free(s->name);
    buf_release(&s->bytes);
}

/* The file becomes one of these bytes, at its beginning. */
static enum errc replace_file(struct source *s, struct error *err)
{
    int file = memfd_create("source", MFD_CLOEXEC);

    if (file < 0)
        return fail(err, ERR_IO, "no file in memory: %s", strerror(errno));
    close(s->file);
    s->file = file;
    for (size_t done = 0; done < s->bytes.len;) {
        ssize_t n = write(file, s->bytes.ptr + done, s->bytes.len - done);
        if (n < 0 && errno != EINTR)
            return fail(err, ERR_IO, "no file in memory: %s", strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    return OK;
}

/* What the program makes of the file takes its place. */
static enum errc pass_through(struct source *s, const char *const *argv, size_t max,
                              struct error *err)
{
    enum errc rc = OK;
    struct child_limits limits = usual_limits;

    limits.output_bytes = max;
    if (lseek(s->file, 0, SEEK_SET) != 0)
        return fail(err, ERR_IO, "it cannot be read twice");
    buf_release(&s->bytes);
    buf_init(&s->bytes, 0);
    TRY(child_run(argv, s->file, &limits, &s->bytes, err));
    TRY(replace_file(s, err));
out:
    return rc;
}

enum errc source_read(struct source *s, size_t max, struct error *err)
{
    static const char *const unpack[] = { "gzip", "-dc", NULL };

    return s->is_packed ? pass_through(s, unpack, max, err)
                        : cli_read_all(s->file, max, &s->bytes, err);
}

static enum errc decode(struct source *s, const char *charset, size_t max, struct error *err)
{
    const char *const argv[] = { "iconv", "-f", charset, "-t", "UTF-8", NULL };
    enum errc rc = pass_through(s, argv, max, err);

    s->charset = charset;
    if (rc != OK)
        wrap(err, "it is not text in %s", charset);
    return rc;
}

enum errc source_decode(struct source *s, const char *charset, size_t max, struct error *err)
{
    struct slice bytes = buf_slice(&s->bytes);

    if (slice_starts(bytes, "\xff\xfe") || slice_starts(bytes, "\xfe\xff"))
        return decode(s, "UTF-16", max, err);
    return charset && !utf8_check(bytes, NULL) ? decode(s, charset, max, err) : OK;
}

enum errc source_check_charset(const char *charset, struct error *err)
{
    enum errc rc = OK;
    struct source s = { .file = open("/dev/null", O_RDONLY | O_CLOEXEC) };

    buf_init(&s.bytes, 0);
    if (s.file < 0)
        return fail(err, ERR_IO, "/dev/null: %s", strerror(errno));
    if (!*charset ||
        strspn(charset, "-_:.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") !=
            strlen(charset) ||
        decode(&s, charset, 1, err) != OK)
        rc = fail(err, ERR_INVALID, "there is no encoding '%s'; `iconv -l` lists them", charset);
    source_release(&s);
    return rc;
}
