/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- time and chance ---- */

static void the_system_has_clocks_and_chance(void **state)
{
    const struct env *e = env_system();

    (void)state;
    uint64_t before = env_mono_us(e);
    usleep(1000);
    assert_true(env_mono_us(e) >= before + 1000);
    assert_true(env_wall_us(e) > 1600000000000000u);
    assert_true(env_random_u64(e) != env_random_u64(e));
}

static void scripted_time_moves_only_when_told(void **state)
{
    struct env_test a, b;

    (void)state;
    env_test_init(&a, 7);
    env_test_init(&b, 7);
    uint64_t mono = env_mono_us(&a.env), wall = env_wall_us(&a.env);
    assert_true(env_mono_us(&a.env) == mono);
    env_test_advance(&a, 5000);
    assert_true(env_mono_us(&a.env) == mono + 5000);
    assert_true(env_wall_us(&a.env) == wall + 5000);
    for (int i = 0; i < 10; i++)
        assert_true(env_random_u64(&a.env) == env_random_u64(&b.env));
    env_test_init(&b, 8);
    assert_true(env_random_u64(&a.env) != env_random_u64(&b.env));
}

/* ---- faults ---- */

static void nothing_fails_unless_armed(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_false(fault_hit("kv.write"));
}

static void the_nth_hit_of_a_prefix_fails_once(void **state)
{
    (void)state;
    fault_arm("kv.", 3);
    assert_false(fault_hit("kv.write"));
    assert_false(fault_hit("net.send"));
    assert_false(fault_hit("kv.read"));
    assert_null(fault_last());
    assert_true(fault_hit("kv.sync"));
    assert_string_equal(fault_last(), "kv.sync");
    assert_false(fault_hit("kv.sync"));
    assert_int_equal(fault_hits(), 4);
    fault_arm("", 1);
    assert_true(fault_hit("net.send"));
    fault_arm("kv.", 5);
    assert_false(fault_hit("kv.write"));
    assert_int_equal(fault_hits(), 1);
    fault_disarm();
    assert_false(fault_hit("kv.write"));
}

static void hits_are_counted_without_failing(void **state)
{
    (void)state;
    fault_arm("kv.", 0);
    for (int i = 0; i < 5; i++)
        assert_false(fault_hit("kv.write"));
    assert_false(fault_hit("net.send"));
    assert_int_equal(fault_hits(), 5);
    fault_disarm();
}

static void what_broke_stays_broken(void **state)
{
    (void)state;
    fault_arm("kv.", 2);
    fault_for_good("kv.");
    assert_false(fault_hit("kv.write"));
    assert_true(fault_errno("kv.write", EIO));
    assert_int_equal(errno, EIO);
    assert_false(fault_hit("net.send"));
    assert_true(fault_hit("kv.sync"));
    fault_disarm();
    assert_false(fault_hit("kv.sync"));
}

static bool passes_two_points_of_one_name(bool is_first)
{
    return is_first ? fault_hit("untried.both") : fault_hit("untried.both");
}

static void a_point_that_never_failed_is_known(void **state)
{
    (void)state;
    assert_string_equal(fault_untried("untried."), "untried.both");
    fault_arm("untried.", 1);
    assert_true(passes_two_points_of_one_name(true));
    assert_string_equal(fault_untried("untried."), "untried.both"); /* the other one */
    fault_arm("untried.", 1);
    assert_true(passes_two_points_of_one_name(false));
    fault_disarm();
    assert_null(fault_untried("untried."));
    assert_null(fault_untried("no such point"));
}

static void one_place_fails_alone(void **state)
{
    struct fault_point *first = NULL, *second = NULL;

    (void)state;
    fault_arm("", 0);
    (void)passes_two_points_of_one_name(true);
    (void)passes_two_points_of_one_name(true);
    (void)passes_two_points_of_one_name(false);
    fault_disarm();
    for (struct fault_point *p = fault_next(NULL); p; p = fault_next(p)) {
        first = p->hits == 2 ? p : first;
        second = p->hits == 1 ? p : second;
    }
    assert_non_null(first);
    assert_non_null(second);
    fault_arm_point(second, 1);
    assert_false(passes_two_points_of_one_name(true));
    assert_true(passes_two_points_of_one_name(false));
    assert_int_equal(fault_hits(), 1);
    fault_arm_point(first, 2);
    fault_for_good("");
    assert_false(passes_two_points_of_one_name(true));
    assert_false(passes_two_points_of_one_name(false));
    assert_true(passes_two_points_of_one_name(true));
    assert_true(passes_two_points_of_one_name(false));
    fault_disarm();
}

/* ---- log ---- */

/* Standard error goes to a file while a test writes lines. */
static int saved;
static char log_path[] = "/tmp/log_test_XXXXXX";

static void capture(void)
{
    int fd = mkstemp(log_path);

    fflush(stderr);
    saved = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static size_t captured(char *out, size_t room)
{
    FILE *f = fopen(log_path, "r");

    dup2(saved, STDERR_FILENO);
    close(saved);
    size_t n = fread(out, 1, room - 1, f);
    out[n] = 0;
    fclose(f);
    unlink(log_path);
    memcpy(log_path + strlen(log_path) - 6, "XXXXXX", 6);
    return n;
}

static void a_line_has_time_level_and_module(void **state)
{
    char text[8192];

    (void)state;
    capture();
    log_info("store", "opened %s", "/data");
    log_debug("store", "not shown");
    log_write(LOG_ERROR, "net", "two\nlines");
    captured(text, sizeof text);
    unsigned year, ms;
    int end = 0;
    assert_int_equal(sscanf(text, "%4u-%*2u-%*2uT%*2u:%*2u:%*2u.%3uZ info store opened /data\n%n",
                            &year, &ms, &end),
                     2);
    assert_true(end > 0 && text[23] == 'Z');
    assert_non_null(strstr(text, "Z error net two lines\n"));
    assert_null(strstr(text, "not shown"));
}

static void the_level_decides_what_is_written(void **state)
{
    enum log_level level;
    char text[8192];

    (void)state;
    assert_true(log_parse_level("warn", &level) && level == LOG_WARN);
    assert_false(log_parse_level("loud", &level));
    log_set_level(LOG_WARN);
    assert_false(log_is_on(LOG_INFO));
    capture();
    log_info("a", "hidden");
    log_warn("a", "shown");
    captured(text, sizeof text);
    log_set_level(LOG_INFO);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "shown"));
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info("thread", "%s", (const char *)arg);
    return NULL;
}

static void lines_of_many_threads_stay_whole(void **state)
{
    static char words[4][300], text[400000];
    pthread_t threads[4];
    unsigned lines = 0;

    (void)state;
    capture();
    for (size_t i = 0; i < 4; i++) {
        memset(words[i], 'a' + (int)i, sizeof words[i] - 1);
        pthread_create(&threads[i], NULL, write_lines, words[i]);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    captured(text, sizeof text);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        char *word = strstr(line, " thread ") + 8;
        assert_int_equal(end - word, 299);
        assert_int_equal(strspn(word, (char[]){ *word, 0 }), 299);
        lines++;
    }
    assert_int_equal(lines, 800);
}

static void a_line_too_long_is_cut(void **state)
{
    static char word[10000], text[20000];

    (void)state;
    memset(word, 'x', sizeof word - 1);
    capture();
    log_info("a", "%s", word);
    size_t n = captured(text, sizeof text);
    assert_in_range(n, 1000, 2048);
    assert_int_equal(text[n - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_has_clocks_and_chance),
        cmocka_unit_test(scripted_time_moves_only_when_told),
        cmocka_unit_test(nothing_fails_unless_armed),
        cmocka_unit_test(the_nth_hit_of_a_prefix_fails_once),
        cmocka_unit_test(hits_are_counted_without_failing),
        cmocka_unit_test(what_broke_stays_broken),
        cmocka_unit_test(a_point_that_never_failed_is_known),
        cmocka_unit_test(one_place_fails_alone),
        cmocka_unit_test(a_line_has_time_level_and_module),
        cmocka_unit_test(the_level_decides_what_is_written),
        cmocka_unit_test(lines_of_many_threads_stay_whole),
        cmocka_unit_test(a_line_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
