/* SPDX-License-Identifier: Apache-2.0 */
/*
 * themis convert: a web page or a table on standard input as the Markdown that
 * import makes of it; the first line for a page is its title. It talks to no server.
 */
#include "cli/cli.h"
#include "cli/csv.h"
#include "cli/html.h"
#include "cli/import.h"
#include <stdio.h>
#include <unistd.h>

static enum errc convert(const char *kind, struct buf *out, struct error *err)
{
    enum errc rc = OK;
    struct buf in;

    buf_init(&in, 0);
    TRY(cli_read_all(STDIN_FILENO, IMPORT_FILE_MAX, &in, err));
    if (!strcmp(kind, "html"))
        TRY(html_to_markdown(buf_slice(&in), out, err));
    else
        TRY(csv_to_markdown(buf_slice(&in), out, err));
    TRY(buf_check(out, "its text", err));
out:
    buf_release(&in);
    return rc;
}

static int run(struct cli *c, int argc, char **argv)
{
    struct error err = { 0 };
    struct buf out;
    bool is_ok;

    (void)c;
    cli_no_options(argc, argv);
    if (argc != 1 || (strcmp(argv[0], "html") != 0 && strcmp(argv[0], "csv") != 0))
        return cli_misuse_of(&command_convert);
    buf_init(&out, IMPORT_FILE_MAX);
    is_ok = convert(argv[0], &out, &err) == OK;
    if (is_ok)
        is_ok = fwrite(out.ptr, 1, out.len, stdout) == out.len && fflush(stdout) == 0;
    else
        fprintf(stderr, "%s\n", err.text);
    buf_release(&out);
    return is_ok ? EXIT_DONE : EXIT_FAILED;
}

const struct command command_convert = {
    .name = "convert",
    .arguments = "html|csv",
    .help = "Prints a page or a table from standard input as import reads it.",
    .run = run,
    .words = "html csv",
};
