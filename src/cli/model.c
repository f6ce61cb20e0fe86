/* SPDX-License-Identifier: Apache-2.0 */
/* themis model: list what is loaded, add a GGUF file to the node. */
#include "cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 * KIB };

static int list(struct cli *c)
{
    struct val answer;

    if (!cli_call(c, "GET", "/v1/models", VAL_NONE, &answer))
        return EXIT_FAILED;
    if (c->is_json)
        cli_print_val(answer, true);
    else
        cli_print_rows(c, val_get(answer, slice_str("data")));
    return EXIT_DONE;
}

struct upload {
    FILE *file;
    char piece[PIECE_BYTES];
    uint64_t sent, size;
    bool is_shown;
};

static struct slice next_piece(void *ctx)
{
    struct upload *u = ctx;
    size_t n = fread(u->piece, 1, sizeof u->piece, u->file);

    u->sent += n;
    if (u->is_shown)
        fprintf(stderr, "\ruploading: %3.0f %%%s", 100.0 * (double)u->sent / (double)u->size,
                n ? "" : "\n");
    return slice_of(u->piece, n);
}

/* NAME from "path/NAME.gguf". */
static struct slice base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct slice name = slice_str(slash ? slash + 1 : path);

    if (name.len > 5 && !memcmp(name.ptr + name.len - 5, ".gguf", 5))
        name.len -= 5;
    return name;
}

static int add(struct cli *c, const char *path, const char *name)
{
    static struct upload u;
    struct error err = { 0 };
    struct http_reply reply;
    struct stat st;
    struct buf url;
    int code = EXIT_FAILED;

    u = (struct upload){ .file = fopen(path, "rb"), .is_shown = isatty(STDERR_FILENO) };
    if (!u.file || fstat(fileno(u.file), &st))
        return cli_fail("cannot read %s: %s", path, strerror(errno));
    u.size = (uint64_t)st.st_size ? (uint64_t)st.st_size : 1;
    buf_init(&url, 0);
    buf_add_str(&url, "/v1/models/");
    url_encode(name ? slice_str(name) : base_name(path), &url);
    struct http_call call = { .method = "PUT",
                              .path = buf_cstr(&url),
                              .content_type = "application/octet-stream",
                              .next_piece = next_piece,
                              .body_ctx = &u };
    if (http_client_call(c->client, &call, &reply, &err) != OK) {
        cli_fail("%s", err.text);
    } else {
        struct slice body = buf_slice(&reply.body);
        if (reply.status >= 400)
            cli_fail("%s", cli_error_text(c, reply.status, body));
        else
            printf("%.*s\n", SLICE_ARG(body)), code = EXIT_DONE;
        http_reply_release(&reply);
    }
    buf_release(&url);
    fclose(u.file);
    return code;
}

static int run(struct cli *c, int argc, char **argv)
{
    const char *name = cli_option(&argc, argv, "--name");

    cli_no_options(argc, argv);
    if (argc == 0 || (argc == 1 && !strcmp(argv[0], "list")))
        return list(c);
    if (argc == 2 && !strcmp(argv[0], "add"))
        return add(c, argv[1], name);
    return cli_misuse_of(&command_model);
}

static const struct command_option options[] = {
    { "--name", "NAME", "What it is called; from the name of the file unless given." },
    { NULL, NULL, NULL },
};

const struct command command_model = {
    .name = "model",
    .arguments = "[list | add FILE.gguf]",
    .help = "Shows the loaded models, or adds one to the node.",
    .run = run,
    .options = options,
    .words = "list add",
    .about = "An added model is kept by the server and loaded again when it starts.",
};
