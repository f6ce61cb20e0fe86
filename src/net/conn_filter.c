/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between the socket and the protocol: nothing, or TLS. */
#include "base/fault.h"
#include "base/log.h"
#include "net/conn_private.h"
#include "net/tls.h"
#include <errno.h>
#include <sys/socket.h>
#include <uv.h>

/* ---- plain ---- */

static ssize_t plain_read(struct conn *c, void *bytes, size_t len)
{
    bool fails = fault_errno("conn.read", ECONNRESET) || fault_errno("conn.read", EAGAIN);
    ssize_t n = fails ? -1 : recv(c->fd, bytes, len, 0);

    if (n > 0)
        return n;
    if (n == 0)
        return IO_EOF;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_GONE;
}

static ssize_t plain_write(struct conn *c, const void *bytes, size_t len)
{
    bool fails = fault_errno("conn.write", EPIPE) || fault_errno("conn.write", EAGAIN);
    ssize_t n = fails ? -1 : send(c->fd, bytes, len, MSG_NOSIGNAL);

    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_GONE;
}

static int plain_want(struct conn *c, int events)
{
    (void)c;
    return events;
}

static bool plain_has_more(struct conn *c)
{
    (void)c;
    return false;
}

static void plain_end(struct conn *c)
{
    (void)c;
}

const struct conn_filter conn_filter_plain = {
    .read = plain_read,
    .write = plain_write,
    .want = plain_want,
    .has_more = plain_has_more,
    .end = plain_end,
};

/* ---- TLS ---- */

/*
 * A client that does not know that this port speaks TLS begins with a method,
 * and TLS never with a letter. It is told so in its own language.
 */
static bool is_plain_text(struct conn *c)
{
    char first;

    return recv(c->fd, &first, 1, MSG_PEEK) == 1 && first >= 'A' && first <= 'Z';
}

static void note_broken(const struct conn *c)
{
    const struct http_server_options *opt = server_opt(c->server);

    log_debug("net", "TLS with %s: %s", c->peer, tls_why(c->tls));
    if (opt->on_refused && !tls_is_up(c->tls))
        opt->on_refused(opt->handler.ctx, c->peer, tls_why(c->tls));
}

static ssize_t tls_filter_read(struct conn *c, void *bytes, size_t len)
{
    if (!c->is_greeted && is_plain_text(c)) {
        c->filter = &conn_filter_plain;
        conn_speak_http1(c);
        conn_fail_request(c, 400, "this port speaks TLS: the URL must begin with https://");
        return IO_AGAIN;
    }
    ssize_t n = tls_read(c->tls, bytes, len);
    c->is_greeted = true;
    if (n == IO_GONE)
        note_broken(c);
    return n;
}

static ssize_t tls_filter_write(struct conn *c, const void *bytes, size_t len)
{
    return tls_write(c->tls, bytes, len);
}

/*
 * Being ready for writing lets a poll return at once: so a read is asked for
 * that needs no new bytes.
 */
static int tls_filter_want(struct conn *c, int events)
{
    if (events & UV_WRITABLE && tls_write_waits_to_read(c->tls))
        events = (events & ~UV_WRITABLE) | UV_READABLE;
    if (events & UV_READABLE && tls_has_more(c->tls))
        events |= UV_WRITABLE;
    return events;
}

static bool tls_filter_has_more(struct conn *c)
{
    return tls_has_more(c->tls);
}

static void tls_filter_end(struct conn *c)
{
    tls_end(c->tls);
}

const struct conn_filter conn_filter_tls = {
    .read = tls_filter_read,
    .write = tls_filter_write,
    .want = tls_filter_want,
    .has_more = tls_filter_has_more,
    .end = tls_filter_end,
};
