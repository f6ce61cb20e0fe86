/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files and directories given, so that its seeds
 * are a test of every build; -random=N adds N inputs of chance, each time the
 * same. With clang, -fsanitize=fuzzer takes this place.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned runs;

enum { RANDOM_BYTES_MAX = 400 };

static void run_random(unsigned long count)
{
    uint64_t chance = 1;

    for (unsigned long i = 0; i < count; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        size_t size = (chance >> 33) % RANDOM_BYTES_MAX;
        uint8_t *data = malloc(size ? size : 1);
        if (!data)
            exit(2);
        for (size_t k = 0; k < size; k++) {
            chance = chance * 6364136223846793005u + 1442695040888963407u;
            data[k] = (uint8_t)(chance >> 56);
        }
        (void)LLVMFuzzerTestOneInput(data, size);
        free(data);
        runs++;
    }
}

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
        if (!strncmp(argv[i], "-random=", 8)) {
            run_random(strtoul(argv[i] + 8, NULL, 10));
            continue;
        }
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
