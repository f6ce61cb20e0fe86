/* SPDX-License-Identifier: Apache-2.0 */
/* themisd: command line, then the server. */
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "server/model_quantise.h"
#include "server/notify.h"
#include "server/server.h"
#include "store/backup_log.h"
#include "store/check.h"
#include "store/vector.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name, *value, *help;
} flags[] = {
#define FLAG(name, value, help) { name, value, help },
#include "server/flags.def"
#undef FLAG
};

static void print_usage(void)
{
    puts("usage: themisd --data DIR [OPTION]...\n");
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        printf("  %s %-*s %s\n", flags[i].name, 20 - (int)strlen(flags[i].name), flags[i].value,
               flags[i].help);
}

static bool is_check;
static struct replay_options replay;

#ifdef THEMIS_CPU
/* Before any code of the libraries that were built for it: their first instruction could be unknown. */
__attribute__((constructor(101))) static void check_cpu(void)
{
    static const char text[] = "themisd: this program needs a CPU of the level " THEMIS_CPU
                               "; build it on the machine itself (make)\n";

    __builtin_cpu_init();
    if (__builtin_cpu_supports(THEMIS_CPU))
        return;
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(n ? 1 : 2);
}
#endif

static NORETURN void misuse(const char *fmt, const char *arg)
{
    fprintf(stderr, "themisd: ");
    fprintf(stderr, fmt, arg);
    fprintf(stderr, "\nTry 'themisd --help'.\n");
    exit(2);
}

/* Works on a copy, which lives as long as the process: ps shows what was typed. */
static void parse_listen(struct server_options *opt, const char *given)
{
    char *text = mem_strdup(given);
    char *colon = strrchr(text, ':'), *end;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;

    if (!colon || colon == text || !colon[1] || *end || port < 0 || port > 65535)
        misuse("--listen takes HOST:PORT, for example 127.0.0.1:8765 (got '%s')", given);
    *colon = 0;
    if (text[0] == '[' && colon[-1] == ']') {
        colon[-1] = 0;
        text++;
    }
    opt->host = text;
    opt->port = (uint16_t)port;
}

static void parse_model(struct server_options *opt, const char *given)
{
    char *text = mem_strdup(given);
    char *equals = strchr(text, '=');

    if (!equals || equals == text || !equals[1])
        misuse("--model takes NAME=FILE.gguf (got '%s')", text);
    if (opt->model_count == SERVER_MODELS_MAX)
        misuse("too many models at '%s'", text);
    *equals = 0;
    opt->models[opt->model_count++] = (struct server_model){ text, equals + 1 };
}

static void print_settings(void)
{
    struct buf text;

    buf_init(&text, 0);
    settings_print_help(&text);
    fwrite(text.ptr, 1, text.len, stdout);
    exit(0);
}

static uint64_t parse_u64(const char *flag, struct slice text)
{
    uint64_t n;

    if (!slice_to_u64(text, &n))
        misuse("%s takes a number", flag);
    return n;
}

static void parse_ids(const char *value)
{
    const char *comma = strchr(value, ',');

    if (!comma)
        misuse("--ids takes NEXT,CLOCK (got '%s')", value);
    replay.ids[0] = parse_u64("--ids", slice_of(value, (size_t)(comma - value)));
    replay.ids[1] = parse_u64("--ids", slice_str(comma + 1));
}

static void add_replay(const char *dir)
{
    static const char **dirs;

    dirs = mem_realloc(dirs, (replay.dir_count + 1) * sizeof *dirs); /* as long as the process */
    dirs[replay.dir_count++] = dir;
    replay.dirs = dirs;
}

static bool parse_cluster(struct cluster_flags *f, const char *flag, const char *value)
{
    const struct {
        const char *flag;
        const char **out;
    } all[] = {
        { "--cluster", &f->name },
        { "--node-id", &f->node_id },
        { "--etcd", &f->etcd },
        { "--etcd-certs", &f->etcd_certs },
        { "--cluster-listen", &f->listen },
        { "--advertise", &f->advertise },
        { "--public-url", &f->public_url },
        { "--certs", &f->certs },
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (strcmp(flag, all[i].flag) != 0)
            continue;
        *all[i].out = value;
        return true;
    }
    return false;
}

static void parse_one(struct server_options *opt, const char *flag, char *value)
{
    struct error err = { 0 };

    if (!strcmp(flag, "--data"))
        opt->data = value;
    else if (!strcmp(flag, "--listen"))
        parse_listen(opt, value);
    else if (!strcmp(flag, "--model"))
        parse_model(opt, value);
    else if (!strcmp(flag, "--replay"))
        add_replay(value);
    else if (!strcmp(flag, "--until"))
        replay.until_seq = parse_u64(flag, slice_str(value));
    else if (!strcmp(flag, "--until-us"))
        replay.until_us = parse_u64(flag, slice_str(value));
    else if (!strcmp(flag, "--ids"))
        parse_ids(value);
    else if (parse_cluster(&opt->cluster, flag, value))
        return;
    else if (!strcmp(flag, "--set") && settings_set_pair(&opt->settings, value, &err) != OK)
        misuse("%s", err.text);
}

static bool takes_value(const char *flag)
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (!strcmp(flag, flags[i].name))
            return *flags[i].value;
    return false;
}

static bool is_flag(struct server_options *opt, const char *flag)
{
    if (!strcmp(flag, "--insecure"))
        opt->is_insecure = true;
    else if (!strcmp(flag, "--accept-loss"))
        opt->accepts_loss = true;
    else if (!strcmp(flag, "--check"))
        is_check = true;
    else
        return false;
    return true;
}

/* The file comes before --set, wherever it stands on the line. */
static void load_config(struct server_options *opt, int argc, char **argv)
{
    struct error err = { 0 };

    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--config") && settings_load(&opt->settings, argv[i + 1], &err) != OK)
            misuse("%s", err.text);
}

static void parse(struct server_options *opt, int argc, char **argv)
{
    load_config(opt, argc, argv);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            print_usage();
            exit(0);
        } else if (!strcmp(argv[i], "--version")) {
            printf("themisd %s (%s)\n", THEMIS_VERSION, vector_engine());
            exit(0);
        } else if (!strcmp(argv[i], "--help-settings")) {
            print_settings();
        } else if (is_flag(opt, argv[i])) {
            continue;
        } else if (!takes_value(argv[i])) {
            misuse("unknown option '%s'", argv[i]);
        } else if (i + 1 == argc) {
            misuse("%s needs a value", argv[i]);
        } else {
            parse_one(opt, argv[i], argv[i + 1]);
            i++;
        }
    }
    if (!opt->data)
        misuse("%s is required", "--data");
    struct error err = { 0 };
    if (cluster_check_flags(&opt->cluster, &err) != OK)
        misuse("%s", err.text);
}

static void print_line(void *ctx, bool is_problem, const char *line)
{
    (void)ctx;
    printf("%s%s\n", is_problem ? "PROBLEM " : "", line);
    fflush(stdout);
}

static int check_store(const char *data, const struct settings *settings)
{
    struct check_options opt = { .path = data, .settings = settings, .say = print_line };
    struct error err = { 0 };
    uint64_t problems = 0;

    if (store_check(&opt, &problems, &err) != OK) {
        fprintf(stderr, "themisd: %s\n", err.text);
        return 1;
    }
    printf("%s: %llu problems found\n", data, (unsigned long long)problems);
    return problems ? 1 : 0;
}

static int replay_commits(const char *data)
{
    struct error err = { 0 };
    struct replay_result done;

    replay.path = data;
    if (backup_log_replay(&replay, &done, &err) != OK) {
        fprintf(stderr, "themisd: %s\n", err.text);
        return 1;
    }
    printf("{\"before\":%llu,\"lastCommit\":%llu,\"timeUs\":%llu}\n",
           (unsigned long long)done.before, (unsigned long long)done.last,
           (unsigned long long)done.last_us);
    return 0;
}

int main(int argc, char **argv)
{
    static struct server_options opt = { .host = "127.0.0.1", .port = 8765 };
    struct server *server = NULL;
    struct error err = { 0 };
    enum log_level level;

    if (argc == 5 && !strcmp(argv[1], "--quantise-child"))
        return model_quantise_main(argv[2], argv[3], argv[4]);
    settings_init(&opt.settings);
    parse(&opt, argc, argv);
    if (!log_parse_level(opt.settings.log_level, &level))
        misuse("log_level must be error, warn, info or debug (got '%s')", opt.settings.log_level);
    log_set_level(level);
    enum errc rc = files_raise(&err);
    if (rc == OK && is_check)
        return check_store(opt.data, &opt.settings);
    if (rc == OK && (replay.dir_count || replay.until_seq || replay.until_us))
        return replay_commits(opt.data);
    if (rc == OK)
        rc = server_open(&server, &opt, &err);
    if (rc == ERR_GONE) {
        log_info("server", "stopped before it was ready");
        return 0;
    }
    if (rc != OK) {
        fprintf(stderr, "themisd: %s\n", err.text);
        return rc == ERR_INVALID ? 2 : 1;
    }
    log_info("server", "themis %s listens on %s://%s:%u, data in %s", THEMIS_VERSION,
             server_has_tls(server) ? "https" : "http", opt.host, server_port(server), opt.data);
    notify_manager("READY=1");
    server_run(server);
    server_close(server);
    log_info("server", "stopped");
    return 0;
}
