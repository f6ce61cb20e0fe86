/* SPDX-License-Identifier: Apache-2.0 */
#include "server/model_quantise.h"

#include "base/buf.h"
#include "base/env.h"
#include "model/quantise.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIME_MAX_MS = 3600 * 1000, LOOK_MS = 50, COMPLAINT_BYTES = 4096, GROWTH_MAX = 8, NICE = 10 };

/* ---- in the child ---- */

static void limit(int what, rlim_t value)
{
    const struct rlimit r = { value, value };

    if (setrlimit((__rlimit_resource_t)what, &r) != 0)
        _exit(1);
}

static void confine(const char *in)
{
    struct stat st;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    /* Behind the lanes, but not starved by them as with SCHED_IDLE: somebody waits for the end. */
    setpriority(PRIO_PROCESS, 0, NICE);
    limit(RLIMIT_CORE, 0);
    if (stat(in, &st) == 0) /* F16 of four bits is the largest growth */
        limit(RLIMIT_FSIZE, (rlim_t)st.st_size * GROWTH_MAX);
#ifndef THEMIS_SANITIZED
    limit(RLIMIT_DATA, (rlim_t)4 * 1024 * MIB);
#endif
}

int model_quantise_main(const char *in, const char *out, const char *type)
{
    struct error err = { 0 };

    confine(in);
    if (quantise_file(in, out, type, &err) == OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

/* ---- in the node ---- */

struct child {
    pid_t pid;
    int complaints;
    struct buf text;
};

static enum errc start(struct child *c, const char *in, const char *out, const char *type,
                       struct error *err)
{
    static char *const environment[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
                                         NULL };
    const char *argv[] = { "themisd", "--quantise-child", in, out, type, NULL };
    posix_spawn_file_actions_t actions;
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return fail(err, ERR_IO, "no pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    int why = posix_spawn(&c->pid, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)argv,
                          environment);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    c->complaints = pipes[0];
    if (why == 0)
        return OK;
    close(pipes[0]);
    return fail(err, ERR_IO, "cannot start the process that quantises: %s", strerror(why));
}

/* Waits a little for what it says. False at the end of that. */
static bool listen_to(struct child *c)
{
    struct pollfd p = { .fd = c->complaints, .events = POLLIN };
    char part[1024];

    if (poll(&p, 1, LOOK_MS) <= 0)
        return true;
    ssize_t n = read(c->complaints, part, sizeof part);
    if (n > 0 && c->text.len < COMPLAINT_BYTES)
        buf_add(&c->text, part, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* The last line that is not empty. */
static struct slice last_line(const struct buf *text)
{
    size_t end = text->len, begin;

    while (end > 0 && text->ptr[end - 1] == '\n')
        end--;
    for (begin = end; begin > 0 && text->ptr[begin - 1] != '\n'; begin--)
        ;
    return slice_of(text->ptr + begin, end - begin);
}

static enum errc judge(const struct child *c, int status, struct error *err)
{
    struct slice line = last_line(&c->text);

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return OK;
    if (WIFSIGNALED(status))
        return fail(err, ERR_CORRUPT, "quantising ended with signal %d%s", WTERMSIG(status),
                    WTERMSIG(status) == SIGXFSZ ? ": the result is too large" : "");
    return fail(err, ERR_CORRUPT, "quantising failed: %.*s", (int)(line.len < 160 ? line.len : 160),
                line.len ? line.ptr : "");
}

enum errc model_quantise(const char *in, const char *out, const char *type,
                         bool (*should_stop)(void *ctx), void *ctx, struct error *err)
{
    struct child c = { 0 };
    uint64_t end = env_mono_ms(env_system()) + TIME_MAX_MS;
    bool is_stopped = false, is_late = false;
    enum errc rc = OK;
    int status = 0;

    buf_init(&c.text, 0);
    TRY(start(&c, in, out, type, err));
    while (listen_to(&c)) {
        is_stopped = should_stop(ctx);
        is_late = env_mono_ms(env_system()) > end;
        if (is_stopped || is_late)
            break;
    }
    if (is_stopped || is_late)
        kill(c.pid, SIGKILL);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(c.complaints);
    if (is_stopped)
        rc = fail(err, ERR_GONE, "quantising was stopped");
    else if (is_late)
        rc = fail(err, ERR_TIMEOUT, "quantising took more than %d s", TIME_MAX_MS / 1000);
    else
        rc = judge(&c, status, err);
out:
    buf_release(&c.text);
    return rc;
}
