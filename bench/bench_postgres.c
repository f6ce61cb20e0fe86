/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIN "/usr/lib/postgresql/15/bin/"

enum { START_LIMIT_S = 60, COMMAND_BYTES = 2048 };

/* What PostgreSQL's documentation advises for many small commits on a machine of its own. */
static const char configuration[] = "listen_addresses = ''\n"
                                    "max_connections = 100\n"
                                    "fsync = on\n"
                                    "synchronous_commit = on\n"
                                    "full_page_writes = on\n"
                                    "shared_buffers = 512MB\n"
                                    "wal_buffers = 16MB\n"
                                    "max_wal_size = 4GB\n"
                                    "checkpoint_timeout = 15min\n";

static const struct passwd *server_user(void)
{
    const struct passwd *user = getpwnam("postgres");
    if (!user)
        bench_fail("there is no user 'postgres': install Debian's postgresql-15");
    return user;
}

static void become_server_user(void)
{
    if (geteuid() == 0) {
        const struct passwd *user = server_user();
        if (setgroups(0, NULL) || setgid(user->pw_gid) || setuid(user->pw_uid))
            _exit(126);
    }
    prctl(PR_SET_PDEATHSIG, SIGQUIT); /* after the change of user, which clears it */
}

/* Runs a program as the server's user, its output in dir/log. Returns its process. */
static pid_t start(const struct bench_postgres *p, const char *const *arguments)
{
    char log[600];
    snprintf(log, sizeof log, "%s/log", p->dir);
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("cannot start a process: %s", strerror(errno));
    if (pid)
        return pid;
    become_server_user();
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        _exit(127);
    execv(arguments[0], (char *const *)arguments);
    fprintf(stderr, "cannot run %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

/* The directory belongs to the server's user, who must be able to reach it. */
static void make_dir(struct bench_postgres *p)
{
    static unsigned servers;
    char *base = realpath(bench_dir(), NULL);
    if (!base || snprintf(p->dir, sizeof p->dir, "%s/pg%u", base, ++servers) > 90)
        bench_fail("the path of a socket has about 100 bytes: set TMPDIR to a shorter directory");
    if (mkdir(p->dir, 0755))
        bench_fail("cannot make %s: %s", p->dir, strerror(errno));
    if (geteuid() == 0 && (chmod(base, 0711) || chown(p->dir, server_user()->pw_uid, (gid_t)-1)))
        bench_fail("cannot give %s to PostgreSQL's user: %s", p->dir, strerror(errno));
    free(base);
}

static void make_database(const struct bench_postgres *p)
{
    char data[600], path[700];
    int status;
    snprintf(data, sizeof data, "%s/data", p->dir);
    const char *const arguments[] = { BIN "initdb",      "-D", data,    "-A",
                                      "trust",           "-U", "bench", "--locale=C",
                                      "--encoding=UTF8", NULL };
    pid_t pid = start(p, arguments);
    if (waitpid(pid, &status, 0) != pid || status)
        bench_fail("initdb failed; %s/log says why", p->dir);
    snprintf(path, sizeof path, "%s/postgresql.conf", data);
    FILE *f = fopen(path, "a");
    if (!f || fputs(configuration, f) < 0 || fclose(f))
        bench_fail("cannot write %s: %s", path, strerror(errno));
}

static void wait_until_ready(const struct bench_postgres *p)
{
    char command[COMMAND_BYTES];
    int status;
    snprintf(command, sizeof command, BIN "pg_isready -q -h %s", p->dir);
    for (double end = bench_seconds() + START_LIMIT_S; system(command) != 0;) {
        if (waitpid(p->pid, &status, WNOHANG) == p->pid)
            bench_fail("postgres ended while it started; %s/log says why", p->dir);
        if (bench_seconds() > end)
            bench_fail("postgres does not answer after %d s", START_LIMIT_S);
        bench_sleep(0.05);
    }
}

void bench_postgres_ask(const struct bench_postgres *p, const char *sql, char *out, size_t max)
{
    char command[COMMAND_BYTES];
    struct buf answer;
    buf_init(&answer, 0);
    snprintf(command, sizeof command,
             BIN "psql -X -q -A -t -v ON_ERROR_STOP=1 -h %s -U bench -d postgres -c \"%s\"", p->dir,
             sql);
    bench_capture(command, &answer);
    snprintf(out, max, "%.*s", (int)strcspn(buf_cstr(&answer), "\n"), buf_cstr(&answer));
    buf_release(&answer);
}

void bench_postgres_start(struct bench_postgres *p, const char *sql)
{
    char data[600], nothing[8];
    memset(p, 0, sizeof *p);
    if (access(BIN "postgres", X_OK))
        bench_fail("there is no " BIN "postgres: install Debian's postgresql-15");
    make_dir(p);
    make_database(p);
    snprintf(data, sizeof data, "%s/data", p->dir);
    const char *const arguments[] = { BIN "postgres", "-D", data, "-k", p->dir, NULL };
    p->pid = start(p, arguments);
    wait_until_ready(p);
    bench_load_add(p->pid);
    bench_postgres_ask(p, sql, nothing, sizeof nothing);
    bench_postgres_ask(p,
                       "SELECT string_agg(name || '=' || setting, ' ') FROM pg_settings WHERE name "
                       "IN ('synchronous_commit', 'fsync', 'wal_sync_method', 'full_page_writes', "
                       "'commit_delay', 'server_version_num')",
                       p->settings, sizeof p->settings);
}

void bench_postgres_stop(struct bench_postgres *p)
{
    int status;
    bench_load_remove(p->pid);
    if (kill(p->pid, SIGINT) || waitpid(p->pid, &status, 0) != p->pid)
        bench_fail("postgres is gone already");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("postgres ended with status %d; %s/log says why", status, p->dir);
    p->pid = 0;
}

/* ---- pgbench ---- */

void bench_postgres_command(const struct bench_postgres *p, const struct bench_postgres_load *load,
                            char *out, size_t max)
{
    unsigned seconds = load->seconds < 1 ? 1 : (unsigned)(load->seconds + 0.5);
    snprintf(
        out, max,
        BIN "pgbench -n -M prepared -c %u -j %u -T %u -h %s -U bench -f %s/../pgbench.sql postgres",
        load->clients, load->clients < 2 ? 1 : 2, seconds, p->dir, p->dir);
}

/* Rows "client transaction ...": a client's last number is how many it did. */
static void read_counts(const char *prefix, const struct bench_postgres_load *load)
{
    char command[COMMAND_BYTES];
    struct buf rows;
    buf_init(&rows, 0);
    snprintf(command, sizeof command,
             "awk '{n[$1]++} END {for (c in n) print c, n[c]}' %s.*; rm %s.*", prefix, prefix);
    bench_capture(command, &rows);
    memset(load->done_per_client, 0, load->clients * sizeof *load->done_per_client);
    for (const char *at = buf_cstr(&rows); *at; at = strchr(at, '\n') + 1) {
        unsigned client;
        unsigned long long n;
        if (sscanf(at, "%u %llu", &client, &n) != 2 || client >= load->clients)
            bench_fail("pgbench's log is not as expected: %.60s", at);
        load->done_per_client[client] = n;
    }
    buf_release(&rows);
}

double bench_postgres_run(const struct bench_postgres *p, const struct bench_postgres_load *load)
{
    char pgbench[COMMAND_BYTES / 2], script[600], prefix[600], command[COMMAND_BYTES];
    static const char key[] = "\ntps = ";
    struct buf out;
    buf_init(&out, 0);
    snprintf(script, sizeof script, "%s/../pgbench.sql", p->dir);
    snprintf(prefix, sizeof prefix, "%s/../pgbench.log", p->dir);
    FILE *f = fopen(script, "w");
    if (!f || fprintf(f, "%s\n", load->script) < 0 || fclose(f))
        bench_fail("cannot write %s: %s", script, strerror(errno));
    bench_postgres_command(p, load, pgbench, sizeof pgbench);
    snprintf(command, sizeof command, "%s %s%s 2>&1", pgbench,
             load->done_per_client ? "-l --log-prefix=" : "", load->done_per_client ? prefix : "");
    bench_capture(command, &out);
    const char *at = strstr(buf_cstr(&out), key);
    if (!at)
        bench_fail("'%s' printed no tps: %.400s", command, buf_cstr(&out));
    double rate = strtod(at + strlen(key), NULL);
    buf_release(&out);
    if (load->done_per_client)
        read_counts(prefix, load);
    return rate;
}
