/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/child.h"

#include "base/env.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COMPLAINT_BYTES_MAX = 400,
    STATUS_NO_PROGRAM = 127,
    NAP_MS = 10,
    FILES_MAX = 16, /* descriptors of the child */
};

struct child {
    pid_t pid;
    int out, complaints; /* read ends; -1 after the end of the stream */
    uint64_t end_ms;
    bool is_late, is_overfull;
};

/* ---- in the child ---- */

static void limit(int what, rlim_t value, rlim_t hard)
{
    const struct rlimit r = { value, hard };

    if (setrlimit((__rlimit_resource_t)what, &r) != 0)
        _exit(STATUS_NO_PROGRAM);
}

static void confine(const struct child_limits *limits)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    limit(RLIMIT_CPU, limits->cpu_s, limits->cpu_s + 1); /* SIGXCPU first: it says why */
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_FSIZE, 0, 0); /* pipes are not counted */
    limit(RLIMIT_NOFILE, FILES_MAX, FILES_MAX);
#ifndef THEMIS_SANITIZED
    limit(RLIMIT_AS, limits->memory_bytes, limits->memory_bytes);
#endif
}

NORETURN static void be_child(const char *const *argv, int input, const struct child_limits *limits,
                              int out, int complaints)
{
    static char *const environment[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
                                         NULL };

    if (dup2(input, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(complaints, STDERR_FILENO) >= 0) {
        closefrom(STDERR_FILENO + 1);
        confine(limits);
        execvpe(argv[0], (char *const *)(uintptr_t)argv, environment);
    }
    _exit(STATUS_NO_PROGRAM);
}

/* ---- in the parent ---- */

static enum errc start(struct child *c, const char *const *argv, int input,
                       const struct child_limits *limits, struct error *err)
{
    int out[2], complaints[2];

    if (pipe2(out, O_CLOEXEC) != 0)
        return fail(err, ERR_IO, "no pipe: %s", strerror(errno));
    if (pipe2(complaints, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return fail(err, ERR_IO, "no pipe: %s", strerror(errno));
    }
    c->pid = fork();
    if (c->pid == 0)
        be_child(argv, input, limits, out[1], complaints[1]);
    close(out[1]);
    close(complaints[1]);
    c->out = out[0];
    c->complaints = complaints[0];
    c->end_ms = env_mono_ms(env_system()) + (uint64_t)limits->wall_s * 1000;
    if (c->pid < 0)
        return fail(err, ERR_IO, "no process: %s", strerror(errno));
    return OK;
}

static int left_ms(const struct child *c)
{
    uint64_t now = env_mono_ms(env_system());
    return now < c->end_ms ? (int)(c->end_ms - now) : 0;
}

/* Takes what there is; at the end of the stream *from becomes -1. */
static void take(int *from, struct buf *to, size_t max)
{
    char part[64 * KIB];
    ssize_t n = read(*from, part, sizeof part);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        close(*from);
        *from = -1;
    } else if (to->len < max) {
        buf_add(to, part, (size_t)n < max - to->len ? (size_t)n : max - to->len);
    }
}

static void read_all(struct child *c, size_t most, struct buf *out, struct buf *complaints)
{
    size_t before = out->len;

    while (c->out >= 0 || c->complaints >= 0) {
        struct pollfd fds[] = { { .fd = c->out, .events = POLLIN },
                                { .fd = c->complaints, .events = POLLIN } };
        int n = poll(fds, ARRAY_LEN(fds), left_ms(c));
        if (n == 0) {
            c->is_late = true;
            return;
        }
        if (n > 0 && fds[0].revents)
            take(&c->out, out, before + most + 1);
        if (n > 0 && fds[1].revents)
            take(&c->complaints, complaints, COMPLAINT_BYTES_MAX);
        if (out->len > before + most) {
            c->is_overfull = true;
            return;
        }
    }
}

/* Its status; kills it when it is late or has written too much. */
static int wait_end(struct child *c)
{
    int status = 0;

    if (c->is_late || c->is_overfull)
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, c->is_late || c->is_overfull ? 0 : WNOHANG) == 0) {
        poll(NULL, 0, NAP_MS);
        if (left_ms(c) == 0) {
            c->is_late = true;
            kill(c->pid, SIGKILL);
        }
    }
    return status;
}

static struct slice first_line(struct slice text)
{
    const char *end;

    while (text.len > 0 && (uint8_t)text.ptr[0] <= ' ')
        text = slice_of(text.ptr + 1, text.len - 1);
    end = memchr(text.len ? text.ptr : "", '\n', text.len);
    return slice_of(text.ptr, end ? (size_t)(end - text.ptr) : text.len);
}

static enum errc judge(const struct child *c, int status, const char *name,
                       const struct child_limits *limits, struct slice complaint, struct error *err)
{
    if (c->is_overfull)
        return fail(err, ERR_LIMIT, "its text is over the limit of %zu bytes",
                    limits->output_bytes);
    if (c->is_late)
        return fail(err, ERR_LIMIT, "%s took more than %u s", name, limits->wall_s);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return fail(err, ERR_LIMIT, "%s took more than %u s of computing", name, limits->cpu_s);
    if (WIFSIGNALED(status))
        return fail(err, ERR_INVALID, "%s crashed (signal %d)", name, WTERMSIG(status));
    if (WEXITSTATUS(status) == STATUS_NO_PROGRAM)
        return fail(err, ERR_INVALID, "%s is not installed", name);
    if (WEXITSTATUS(status) == 0)
        return OK;
    complaint = first_line(complaint);
    if (complaint.len > 0)
        return fail(err, ERR_INVALID, "%.*s", SLICE_ARG(complaint));
    return fail(err, ERR_INVALID, "%s ended with status %d", name, WEXITSTATUS(status));
}

/* What messages call it: themis itself is known as /proc/self/exe only here. */
static const char *name_of(const char *const *argv)
{
    return strcmp(argv[0], "/proc/self/exe") == 0 ? "reading it" : argv[0];
}

enum errc child_run(const char *const *argv, int input, const struct child_limits *limits,
                    struct buf *out, struct error *err)
{
    enum errc rc = OK;
    struct child c = { .pid = -1, .out = -1, .complaints = -1 };
    struct buf complaints;
    int status;

    buf_init(&complaints, COMPLAINT_BYTES_MAX);
    TRY(start(&c, argv, input, limits, err));
    read_all(&c, limits->output_bytes, out, &complaints);
    status = wait_end(&c);
    TRY(judge(&c, status, name_of(argv), limits, buf_slice(&complaints), err));
out:
    if (c.out >= 0)
        close(c.out);
    if (c.complaints >= 0)
        close(c.complaints);
    buf_release(&complaints);
    return rc;
}
