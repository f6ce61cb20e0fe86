/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"

enum { ROUNDS_DEFAULT = 11, ROUNDS_MAX = 1000, CHILDREN_MAX = 4 };

void bench_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fflush(stdout);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(1); /* other threads may still run */
}

void bench_must(enum errc rc, const struct error *err, const char *what)
{
    if (rc != OK)
        bench_fail("%s: %s", what, err->text);
}

static double clock_at(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double bench_seconds(void)
{
    return clock_at(CLOCK_MONOTONIC);
}

double bench_thread_seconds(void)
{
    return clock_at(CLOCK_THREAD_CPUTIME_ID);
}

void bench_sleep(double seconds)
{
    time_t whole = (time_t)seconds;
    struct timespec t = { whole, (long)((seconds - (double)whole) * 1e9) };
    nanosleep(&t, NULL);
}

/* ---- load ---- */

static pid_t children[CHILDREN_MAX]; /* 0 = free */

static FILE *open_proc(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        bench_fail("cannot read %s: %s", path, strerror(errno));
    return f;
}

static double ticks(double n)
{
    return n / (double)sysconf(_SC_CLK_TCK);
}

static void machine_seconds(double *busy, double *stolen)
{
    double user, nice, system, idle, wait, irq, softirq, steal;
    FILE *f = open_proc("/proc/stat");
    if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &wait, &irq,
               &softirq, &steal) != 8)
        bench_fail("/proc/stat does not have the eight figures expected");
    fclose(f);
    *busy = ticks(user + nice + system + irq + softirq);
    *stolen = ticks(steal);
}

static double usage_seconds(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Of a process that still runs; 0 when it is gone. Waited: of its children that have ended. */
static double process_seconds(const char *pid, pid_t *parent)
{
    char path[64], text[1024];
    double user, system, waited_user, waited_system;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "r");
    size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[len] = 0;
    const char *at = strrchr(text, ')'); /* a name may hold anything */
    if (!at || sscanf(at, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf %lf %lf", parent,
                      &user, &system, &waited_user, &waited_system) != 5)
        return 0;
    return ticks(user + system + waited_user + waited_system);
}

static bool is_child(pid_t pid)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (pid && children[i] == pid)
            return true;
    return false;
}

static double children_seconds(void)
{
    double sum = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        bench_fail("cannot read /proc: %s", strerror(errno));
    for (const struct dirent *e; (e = readdir(proc)) != NULL;) {
        pid_t parent = 0;
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        double seconds = process_seconds(e->d_name, &parent);
        if (is_child((pid_t)atoi(e->d_name)) || is_child(parent))
            sum += seconds;
    }
    closedir(proc);
    return sum;
}

void bench_load_add(pid_t pid)
{
    size_t i = 0;
    while (i < CHILDREN_MAX && children[i])
        i++;
    assert(i < CHILDREN_MAX);
    children[i] = pid;
}

void bench_load_remove(pid_t pid)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (children[i] == pid)
            children[i] = 0;
}

struct bench_load_mark bench_load_begin(void)
{
    struct bench_load_mark m = { .at = bench_seconds() };
    machine_seconds(&m.busy, &m.stolen);
    m.own = usage_seconds(RUSAGE_SELF) + usage_seconds(RUSAGE_CHILDREN);
    m.own += children_seconds();
    return m;
}

struct bench_load bench_load_end(const struct bench_load_mark *begin)
{
    struct bench_load_mark end = bench_load_begin();
    double seconds = end.at - begin->at, own = end.own - begin->own;
    double others = end.busy - begin->busy - own;
    return (struct bench_load){ .others = others > 0 ? others / seconds : 0,
                                .own = own / seconds,
                                .stolen = (end.stolen - begin->stolen) / seconds };
}

/* ---- lines ---- */

void bench_begin(struct bench_line *line, const char *name, const char *what)
{
    buf_init(&line->text, 0);
    buf_printf(&line->text, "bench %s what=%s", name, what);
}

void bench_facts(struct bench_line *line, const char *facts)
{
    if (facts)
        buf_printf(&line->text, " %s", facts);
}

void bench_text(struct bench_line *line, const char *key, const char *value)
{
    const char *quote = strpbrk(value, " \t\"") || !*value ? "\"" : "";
    buf_printf(&line->text, " %s=%s", key, quote);
    for (const char *p = value; *p; p++)
        buf_add_char(&line->text, *p == '"' ? '\'' : *p);
    buf_add_str(&line->text, quote);
}

/* Three digits behind the point where they matter, none for large figures and whole ones. */
void bench_number(struct bench_line *line, const char *key, double value)
{
    double size = value < 0 ? -value : value;
    bool is_whole = size < 1e15 && (double)(int64_t)value == value;
    int digits = is_whole || size >= 1000 ? 0 : size >= 10 ? 1 : 3;
    buf_printf(&line->text, " %s=%.*f", key, digits, value);
}

void bench_end(struct bench_line *line, const struct bench_load *load)
{
    char cpu[256];
    const char *commit = getenv("BENCH_COMMIT");
    cpu_name(cpu, sizeof cpu);
    bench_number(line, "others", load->others);
    bench_number(line, "own", load->own);
    bench_number(line, "stolen", load->stolen);
    bench_text(line, "commit", commit ? commit : "unknown");
    bench_number(line, "cores", cpu_cores());
    bench_text(line, "cpu", cpu);
    puts(buf_cstr(&line->text));
    fflush(stdout);
    buf_release(&line->text);
}

/* ---- comparisons ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t n, double q)
{
    assert(n > 0);
    qsort(values, n, sizeof *values, by_value);
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    double rest = at - (double)i;
    return i + 1 < n ? values[i] + rest * (values[i + 1] - values[i]) : values[i];
}

/* A figure of the environment, or the one given. */
static double chosen(const char *name, double otherwise, double max)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return otherwise;
    double value = strtod(text, &end);
    if (*end || !(value > 0) || value > max)
        bench_fail("%s must be a number above 0 and up to %.0f (got '%s')", name, max, text);
    return value;
}

static void run_round(const struct bench_pair *p, double seconds, unsigned number, double *ours,
                      double *theirs)
{
    if (number % 2 == 0)
        *ours = p->ours(p->ctx, seconds);
    *theirs = p->theirs(p->ctx, seconds);
    if (number % 2 != 0)
        *ours = p->ours(p->ctx, seconds);
    if (!(*ours > 0) || !(*theirs > 0))
        bench_fail("%s %s: a side did nothing (%f, %f)", p->name, p->what, *ours, *theirs);
}

double bench_compare(const struct bench_pair *p)
{
    static double ours[ROUNDS_MAX], theirs[ROUNDS_MAX], ratios[ROUNDS_MAX];
    struct bench_line line;
    double seconds = chosen("BENCH_SECONDS", p->seconds > 0 ? p->seconds : 1, 3600);
    unsigned rounds =
        (unsigned)chosen("BENCH_ROUNDS", p->rounds ? p->rounds : ROUNDS_DEFAULT, ROUNDS_MAX);
    run_round(p, seconds / 2, 0, &ours[0], &theirs[0]); /* caches, branch predictors, frequency */
    struct bench_load_mark begin = bench_load_begin();
    for (unsigned i = 0; i < rounds; i++) {
        run_round(p, seconds, i, &ours[i], &theirs[i]);
        ratios[i] = ours[i] / theirs[i];
    }
    struct bench_load load = bench_load_end(&begin);

    double ratio = bench_quantile(ratios, rounds, 0.5);
    bench_begin(&line, p->name, p->what);
    bench_facts(&line, p->facts);
    bench_number(&line, "ours", bench_quantile(ours, rounds, 0.5));
    bench_number(&line, "theirs", bench_quantile(theirs, rounds, 0.5));
    bench_text(&line, "unit", p->unit);
    bench_number(&line, "ratio", ratio);
    bench_number(&line, "q1", bench_quantile(ratios, rounds, 0.25));
    bench_number(&line, "q3", bench_quantile(ratios, rounds, 0.75));
    if (p->target > 0) {
        bench_number(&line, "target", p->target);
        bench_text(&line, "met", ratio >= p->target ? "yes" : "no");
    }
    if (p->add)
        p->add(p->ctx, &line);
    bench_number(&line, "rounds", rounds);
    bench_number(&line, "seconds", seconds);
    bench_text(&line, "opponent", p->opponent);
    bench_end(&line, &load);
    return ratio;
}

/* ---- surroundings ---- */

const char *bench_dir(void)
{
    const char *dir = getenv("BENCH_DIR");
    if (!dir || !*dir)
        bench_fail("BENCH_DIR names no directory: run this by 'make bench NAME=...'");
    return dir;
}

void bench_capture(const char *command, struct buf *out)
{
    char piece[4096];
    size_t n;
    FILE *f = popen(command, "r");
    if (!f)
        bench_fail("cannot run '%s': %s", command, strerror(errno));
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        buf_add(out, piece, n);
    int status = pclose(f);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("'%s' failed", command);
}

static const struct bench_part *find_part(const struct bench_part *parts, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(parts[i].name, name))
            return &parts[i];
    fprintf(stderr, "parts:");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s", parts[i].name);
    fputc('\n', stderr);
    bench_fail("there is no part '%s'", name);
}

int bench_main(int argc, char **argv, const struct bench_part *parts, size_t count)
{
    log_set_level(LOG_ERROR);
    for (int i = 1; i < argc; i++)
        (void)find_part(parts, count, argv[i]);
    for (int i = 1; i < argc; i++)
        find_part(parts, count, argv[i])->run();
    for (size_t i = 0; argc < 2 && i < count; i++)
        parts[i].run();
    return 0;
}
