/* SPDX-License-Identifier: Apache-2.0 */
/* themis check: verifies a store that no node has open, by the themisd beside this program. */
#include "cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static int run(struct cli *c, int argc, char **argv)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    const char *keys = cli_option(&argc, argv, "--key-file");
    cli_no_options(argc, argv);
    if (argc != 1)
        return cli_misuse_of(&command_check);
    if (len < 0)
        return cli_fail("cannot find this program: %s", strerror(errno));
    self[len] = 0;
    const char *program =
        arena_printf(c->arena, "%.*sthemisd", (int)(strrchr(self, '/') + 1 - self), self);
    if (keys)
        execl(program, program, "--check", "--data", argv[0], "--set",
              arena_printf(c->arena, "encryption_key_file=%s", keys), (char *)NULL);
    else
        execl(program, program, "--check", "--data", argv[0], (char *)NULL);
    return cli_fail("cannot run %s: %s", program, strerror(errno));
}

static const struct command_option options[] = {
    { "--key-file", "FILE",
      "Decrypts encrypted values with these keys, to see that they are whole." },
    { NULL, NULL, NULL },
};

const struct command command_check = {
    .name = "check",
    .arguments = "DIR",
    .help = "Verifies the store of a node that does not run.",
    .run = run,
    .options = options,
    .about =
        "Reads everything, changes nothing; status 1 when something is wrong. Without --key-file "
        "encrypted values are counted by key, not decrypted.",
};
