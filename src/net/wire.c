/* SPDX-License-Identifier: Apache-2.0 */
#include "net/wire.h"
#include "base/fault.h"
#include "net/tls.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CANCEL_STEP_MS = 100 };

struct wire {
    struct wire_options opt;
    int fd; /* -1 = none */
    struct tls *tls;
};

struct wire *wire_new(const struct wire_options *opt)
{
    struct wire *w = mem_zalloc(sizeof *w);

    w->opt = *opt;
    w->fd = -1;
    return w;
}

void wire_free(struct wire *w)
{
    if (w)
        wire_close(w);
    mem_free(w);
}

bool wire_is_open(const struct wire *w)
{
    return w->fd >= 0;
}

void wire_close(struct wire *w)
{
    if (w->tls)
        tls_end(w->tls);
    tls_free(w->tls);
    w->tls = NULL;
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

bool wire_is_stale(struct wire *w)
{
    struct pollfd p = { .fd = w->fd, .events = POLLIN };

    if (w->fd < 0 || poll(&p, 1, 0) <= 0)
        return false;
    return !w->tls || tls_is_readable(w->tls);
}

static bool is_cancelled(const struct wire *w)
{
    return w->opt.cancel && atomic_load(w->opt.cancel);
}

/* Looks at the flag between short waits: a signal may set it just before one begins. */
static enum errc wait_for(struct wire *w, short events, uint64_t ms, short *got, struct error *err)
{
    struct pollfd p = { .fd = w->fd, .events = events };
    uint64_t step = w->opt.cancel ? CANCEL_STEP_MS : INT32_MAX, left = ms;
    int n = 0;

    while (n == 0 && left && !is_cancelled(w)) {
        uint64_t now = left < step ? left : step;
        do
            n = fault_errno("wire.poll", ENOMEM) ? -1 : poll(&p, 1, (int)now);
        while (n < 0 && errno == EINTR && !is_cancelled(w));
        left -= now;
    }
    if (got)
        *got = p.revents;
    if (is_cancelled(w))
        return fail(err, ERR_GONE, "interrupted");
    if (n > 0)
        return OK;
    if (n < 0)
        return fail(err, ERR_IO, "waiting for %s failed: %s", w->opt.url, strerror(errno));
    return fail(err, ERR_TIMEOUT, "%s did not answer within %llu ms", w->opt.url,
                (unsigned long long)ms);
}

/* ---- opening ---- */

static enum errc connect_to(struct wire *w, const struct addrinfo *a, struct error *err)
{
    int why = 0, one = 1;
    socklen_t len = sizeof why;

    w->fd = fault_errno("wire.socket", EMFILE)
                ? -1
                : socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (w->fd < 0)
        return fail(err, ERR_IO, "cannot make a socket: %s", strerror(errno));
    if (fault_errno("wire.connect", ENETUNREACH) ||
        (connect(w->fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS))
        why = errno;
    else if (wait_for(w, POLLOUT, w->opt.connect_ms, NULL, err) != OK)
        why = ETIMEDOUT;
    else
        getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &why, &len);
    if (!why) {
        setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return OK;
    }
    wire_close(w);
    if (why == ECONNREFUSED)
        return fail(err, ERR_IO, "cannot connect to %s: %s; is %s running?", w->opt.url,
                    strerror(why), w->opt.program);
    return fail(err, ERR_IO, "cannot connect to %s: %s", w->opt.url, strerror(why));
}

static enum errc connect_any(struct wire *w, struct error *err)
{
    struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found;
    int rc = fault_hit("wire.resolve") ? EAI_AGAIN
                                       : getaddrinfo(w->opt.host, w->opt.port, &want, &found);
    enum errc code = ERR_IO;

    if (rc)
        return fail(err, ERR_IO, "cannot find %s: %s", w->opt.host, gai_strerror(rc));
    for (struct addrinfo *a = found; a && code != OK; a = a->ai_next)
        code = connect_to(w, a, err);
    freeaddrinfo(found);
    return code;
}

static enum errc greet(struct wire *w, struct error *err)
{
    int rc;

    w->tls = tls_connect(w->opt.tls, w->fd, w->opt.host);
    while (!(rc = tls_handshake(w->tls))) {
        short events = tls_has_more(w->tls) ? POLLOUT : POLLIN;
        enum errc waited = wait_for(w, events, w->opt.connect_ms, NULL, err);
        if (waited != OK)
            return waited;
    }
    if (rc == 1)
        return OK;
    if (tls_is_distrusted(w->tls))
        return fail(err, ERR_IO,
                    "%s is not trusted: %s; if it is yours, name the certificate of its authority "
                    "with --cacert FILE or THEMIS_CACERT",
                    w->opt.url, tls_why(w->tls));
    return fail(err, ERR_IO, "%s does not speak TLS with us: %s", w->opt.url, tls_why(w->tls));
}

enum errc wire_open(struct wire *w, struct error *err)
{
    enum errc rc = connect_any(w, err);

    if (rc == OK && w->opt.tls)
        rc = greet(w, err);
    if (rc != OK)
        wire_close(w);
    return rc;
}

/* ---- bytes ---- */

static ssize_t write_some(struct wire *w, struct slice bytes, bool has_more)
{
    if (w->tls)
        return tls_write(w->tls, bytes.ptr, bytes.len);
    if (fault_hit("wire.write"))
        shutdown(w->fd, SHUT_RDWR); /* a dead socket fails by itself, now and later */
    ssize_t n = fault_errno("wire.write", EAGAIN)
                    ? -1
                    : send(w->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL | (has_more ? MSG_MORE : 0));
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_GONE;
}

static const char *why(const struct wire *w)
{
    return w->tls ? tls_why(w->tls) : strerror(errno);
}

/* Waits for room; the server may answer first. */
static enum errc wait_for_room(struct wire *w, bool *is_early, struct error *err)
{
    bool reads = w->tls && tls_write_waits_to_read(w->tls);
    short got = 0;
    enum errc rc = wait_for(w, reads ? POLLIN : POLLIN | POLLOUT, w->opt.read_ms, &got, err);

    /* What TLS says on its own is no answer. */
    *is_early = got & POLLIN && (!w->tls || tls_is_readable(w->tls));
    return rc;
}

enum errc wire_send(struct wire *w, struct slice bytes, bool has_more, bool *is_early,
                    struct error *err)
{
    while (bytes.len && !*is_early) {
        ssize_t n = write_some(w, bytes, has_more);
        if (n > 0) {
            bytes = slice_of(bytes.ptr + n, bytes.len - (size_t)n);
        } else if (n == IO_AGAIN) {
            enum errc rc = wait_for_room(w, is_early, err);
            if (rc != OK)
                return rc;
        } else {
            return fail(err, ERR_IO, "sending to %s failed: %s", w->opt.url, why(w));
        }
    }
    return OK;
}

static ssize_t read_some(struct wire *w, void *bytes, size_t size)
{
    if (w->tls)
        return tls_read(w->tls, bytes, size);
    bool fails = fault_errno("wire.read", ECONNRESET) || fault_errno("wire.read", EAGAIN);
    ssize_t n = fails ? -1 : recv(w->fd, bytes, size, 0);
    if (n > 0)
        return n;
    if (n == 0)
        return IO_EOF;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_GONE;
}

enum errc wire_receive(struct wire *w, void *bytes, size_t size, size_t *got, bool *is_clean,
                       struct error *err)
{
    for (;;) {
        ssize_t n = read_some(w, bytes, size);
        if (n != IO_AGAIN) {
            *got = n > 0 ? (size_t)n : 0;
            *is_clean = n == IO_EOF;
            return OK;
        }
        short events = w->tls && tls_has_more(w->tls) ? POLLOUT : POLLIN;
        enum errc rc = wait_for(w, events, w->opt.read_ms, NULL, err);
        if (rc != OK)
            return rc;
    }
}
