/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files and directories given, so that its seeds
 * are a test of every build. With clang, -fsanitize=fuzzer takes this place.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned runs;

/* The input lies in a block of its exact size, so that a sanitizer sees every read outside. */
static void run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;

    if (!f || fstat(fileno(f), &st)) {
        perror(path);
        exit(2);
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size) {
        perror(path);
        exit(2);
    }
    fclose(f);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    runs++;
}

static void run_directory(DIR *dir, const char *path)
{
    char name[4096];

    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        run_file(name);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            run_file(argv[i]);
            continue;
        }
        run_directory(dir, argv[i]);
        closedir(dir);
    }
    printf("%u inputs\n", runs);
    return runs ? 0 : 2;
}
