/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes against plane geometry and known figures; coverings against what they must hold. */
#include "base/geo_cell.h"
#include "base/geo_math.h"
#include "base/val_text.h"
#include <stdlib.h>

#include "../check.h"

static uint64_t seed = 5;

static double part(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 33) / 2147483648.0;
}

/* Axes of the plane that touches the globe at a point. */
static void axes(struct geo_vec at, struct geo_vec *x, struct geo_vec *y)
{
    struct geo_vec pole = { 0, 0, 1 };
    *x = vec_plain_cross(pole, at);
    *x = vec_length(*x) > 1e-9 ? vec_unit(*x) : (struct geo_vec){ 1, 0, 0 };
    *y = vec_plain_cross(at, *x);
}

static void a_ring_has_what_its_picture_on_a_plane_has(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        struct geo_vec at[12], x, y, centre = geo_at(part() * 360 - 180, part() * 170 - 85);
        double px[12], py[12], size = pow(10, -floor(part() * 6));
        size_t n = 3 + (size_t)(part() * 8);
        axes(centre, &x, &y);
        for (size_t i = 0; i < n; i++) { /* great circles are straight in this picture */
            double angle = 2 * M_PI * ((double)i + 0.8 * part()) / (double)n;
            double r = size * (0.2 + part());
            px[i] = r * cos(angle);
            py[i] = r * sin(angle);
            at[i] = vec_unit(vec_add(vec_add(centre, x, px[i]), y, py[i]));
        }
        struct geo_chain ring = { .at = at, .count = n };
        for (int k = 0; k < 5; k++) {
            double a = size * (2 * part() - 1), b = size * (2 * part() - 1);
            struct geo_vec p = vec_unit(vec_add(vec_add(centre, x, a), y, b));
            bool is_in = false;
            for (size_t i = 0, j = n - 1; i < n; j = i++)
                if ((py[i] > b) != (py[j] > b) &&
                    a < px[i] + (b - py[i]) / (py[j] - py[i]) * (px[j] - px[i]))
                    is_in = !is_in;
            assert_int_equal(geo_ring_has(&ring, p), is_in);
            assert_false(geo_ring_has(&ring, (struct geo_vec){ -p.x, -p.y, -p.z }));
        }
    }
}

static void a_covering_has_every_point_of_its_cap(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        struct geo_cap cap = { geo_at(part() * 360 - 180, part() * 180 - 90),
                               3 * pow(10, -part() * 7) };
        struct geo_vec x, y;
        uint64_t cells[GEO_COVER_MAX];
        struct geo_range ranges[GEO_RANGES_MAX];
        size_t max = round % 2 ? 8 : 32, count = geo_cover(cap, max, cells);
        assert_in_range(count, 1, max);
        count = geo_ranges(cells, count, round % 3 == 0, ranges);
        axes(cap.centre, &x, &y);
        for (int k = 0; k < 10; k++) {
            double angle = 2 * M_PI * part(), far = cap.angle * part();
            struct geo_vec way =
                vec_add(vec_add((struct geo_vec){ 0 }, x, cos(angle)), y, sin(angle));
            struct geo_vec p = vec_unit(
                vec_add(vec_add((struct geo_vec){ 0 }, cap.centre, cos(far)), way, sin(far)));
            uint64_t cell = geo_cell(p);
            bool is_found = geo_angle(p, cap.centre) > cap.angle;
            for (size_t i = 0; i < count; i++)
                is_found |= cell >= ranges[i].first && cell <= ranges[i].last;
            assert_true(is_found);
        }
        for (size_t i = 1; i < count; i++)
            assert_true(ranges[i].first > ranges[i - 1].last);
    }
}

static void numbers_of_cells_stay_as_they_are(void **state)
{
    (void)state; /* they are on disk; the last bits are rounding */
    assert_int_equal(geo_cell(geo_at(13.4, 52.5)) >> 9, UINT64_C(0x1A18D88DCD8CCC89) >> 9);
    assert_int_equal(geo_cell(geo_at(-180, -90)) >> 9, UINT64_C(0x1) >> 9);
    assert_int_equal(geo_cell(geo_at(0, 0)) >> 9, UINT64_C(0x1800000000000001) >> 9);
    assert_int_equal(geo_cell(geo_at(-73.98, 40.75)) >> 9, UINT64_C(0xCB96FA60C7BA25D) >> 9);
}

static void measures_are_those_of_others(void **state)
{
    struct arena *arena = arena_new(0);
    struct geo_shape s;
    struct error err = { 0 };
    struct val v;

    (void)state;
    assert_true(fabs(geo_distance(geo_at(13.3777, 52.5163), geo_at(6.94, 50.9322)) -
                     476918.89688380965) < 1e-6);
    assert_true(fabs(geo_wgs84_distance(geo_at(0, 0), geo_at(1, 1)) - 156899.568) < 1e-3);
    assert_int_equal(val_parse(slice_str("{\"type\":\"Polygon\",\"coordinates\":[[[0,0],[90,0],"
                                         "[0,90],[0,0]]]}"),
                               arena, &v, &err),
                     OK);
    assert_int_equal(geo_parse(v, arena, &s, &err), OK);
    /* an eighth of the globe */
    assert_true(fabs(geo_area(&s) / (M_PI / 2 * GEO_RADIUS_M * GEO_RADIUS_M) - 1) < 1e-12);
    assert_true(fabs(geo_wgs84_area(&s) - 510065621724088.44 / 8) < 1e3);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_has_what_its_picture_on_a_plane_has),
        cmocka_unit_test(a_covering_has_every_point_of_its_cap),
        cmocka_unit_test(numbers_of_cells_stay_as_they_are),
        cmocka_unit_test(measures_are_those_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
