/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16, FIXED_ARGUMENTS = 5, START_LIMIT_S = 120 };

static const char program[] = "build/release/src/themisd";

static NORETURN void run_server(const char *data, const char *log, const char *const *arguments)
{
    const char *all[FIXED_ARGUMENTS + ARGUMENTS_MAX + 1] = { program, "--data", data, "--listen",
                                                             "127.0.0.1:0" };
    for (size_t i = 0; arguments && arguments[i]; i++) {
        assert(i < ARGUMENTS_MAX);
        all[FIXED_ARGUMENTS + i] = arguments[i];
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        _exit(127);
    execv(program, (char *const *)all);
    fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
    _exit(127);
}

/* The port from the line that says where it listens; 0 while there is none. */
static uint16_t port_in(const char *log)
{
    char row[1024];
    unsigned port = 0;
    FILE *f = fopen(log, "r");
    while (f && !port && fgets(row, sizeof row, f)) {
        char *at = strstr(row, "://127.0.0.1:");
        if (at && strstr(row, "listens on http"))
            sscanf(at, "://127.0.0.1:%u", &port);
    }
    if (f)
        fclose(f);
    return (uint16_t)port;
}

void bench_server_start(struct bench_server *s, const char *data, const char *const *arguments)
{
    char log[600];
    int status;
    snprintf(log, sizeof log, "%s.log", data);
    unlink(log);
    fflush(stdout);
    s->port = 0;
    s->pid = fork();
    if (s->pid < 0)
        bench_fail("cannot start a process: %s", strerror(errno));
    if (s->pid == 0)
        run_server(data, log, arguments);
    for (double end = bench_seconds() + START_LIMIT_S; !(s->port = port_in(log));) {
        if (waitpid(s->pid, &status, WNOHANG) == s->pid)
            bench_fail("%s ended while it started; %s says why", program, log);
        if (bench_seconds() > end)
            bench_fail("%s does not listen after %d s", program, START_LIMIT_S);
        bench_sleep(0.02);
    }
    bench_load_add(s->pid);
}

void bench_server_stop(struct bench_server *s)
{
    int status;
    bench_load_remove(s->pid);
    if (kill(s->pid, SIGTERM) || waitpid(s->pid, &status, 0) != s->pid)
        bench_fail("%s is gone already", program);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("%s ended with status %d", program, status);
    s->pid = 0;
}
