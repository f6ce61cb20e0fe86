/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files and directories given, so that its seeds
 * are a test of every build; -random=N adds N inputs of chance, each time the
 * same, and -seconds=N goes on with them for so long. With clang, -fsanitize=fuzzer takes this place.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned runs;

enum { RANDOM_BYTES_MAX = 400 };

static uint64_t chance = 1;

static void run_random(void)
{
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

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void run_randoms(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        run_random();
}

static void run_for(double seconds)
{
    for (double end = now_s() + seconds; now_s() < end;)
        run_random();
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
            run_randoms(strtoul(argv[i] + 8, NULL, 10));
            continue;
        }
        if (!strncmp(argv[i], "-seconds=", 9)) {
            run_for(strtod(argv[i] + 9, NULL));
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
