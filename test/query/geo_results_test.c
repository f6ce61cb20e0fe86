/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random shapes, near the poles, the date line and each other: a query gives the same rows
 * with a geo index and without one.
 */
#include "random_world.h"
#include <math.h>

enum { DOCS = 250, ROUNDS = 60 };

static double part(struct world *w)
{
    return chance(w, 1000001) / 1e6;
}

/* Degrees: anywhere, or at one of the places where a grid is odd. */
static void place(struct world *w, double *lng, double *lat)
{
    static const double centres[][2] = { { 0, 0 }, { 180, 0 }, { 13, 52 }, { 0, 90 }, { 45, -90 } };

    if (chance(w, 3)) {
        const double *c = centres[chance(w, ARRAY_LEN(centres))];
        *lng = remainder(c[0] + (part(w) - 0.5) * 20, 360);
        *lat = fmin(fmax(c[1] + (part(w) - 0.5) * 20, -90), 90);
    } else {
        *lng = part(w) * 360 - 180;
        *lat = part(w) * 180 - 90;
    }
}

static void add_pair(struct buf *out, double lng, double lat)
{
    lng = remainder(lng, 360);
    buf_printf(out, "[%.6f, %.6f]", fmin(fmax(lng, -180), 180), fmin(fmax(lat, -90), 90));
}

/* A star around a centre, so that edges never cross. */
static void add_ring(struct world *w, struct buf *out, double lng, double lat)
{
    unsigned n = 3 + chance(w, 5);
    double size = pow(10, -(double)chance(w, 3)) * 8, x[8], y[8];

    lat = fmin(fmax(lat, -75), 75);
    for (unsigned i = 0; i < n; i++) {
        double angle = 2 * M_PI * i / n, r = size * (0.3 + part(w));
        x[i] = lng + r * cos(angle);
        y[i] = lat + r * sin(angle) * 0.7;
    }
    buf_add_str(out, "[[");
    for (unsigned i = 0; i <= n; i++) {
        add_pair(out, x[i % n], y[i % n]);
        buf_add_str(out, i < n ? ", " : "]]");
    }
}

static void add_shape(struct world *w, struct buf *out)
{
    double lng, lat, size = 5;

    place(w, &lng, &lat);
    switch (chance(w, 6)) {
    case 0:
        buf_add_str(out, "{type: 'Polygon', coordinates: ");
        add_ring(w, out, lng, lat);
        buf_add_char(out, '}');
        return;
    case 1:
        buf_add_str(out, "{type: 'LineString', coordinates: [");
        add_pair(out, lng, lat);
        buf_add_str(out, ", ");
        add_pair(out, lng + size * part(w), lat + size * (part(w) - 0.5));
        buf_add_str(out, "]}");
        return;
    case 2:
        buf_add_str(out, "{type: 'MultiPoint', coordinates: [");
        add_pair(out, lng, lat);
        buf_add_str(out, ", ");
        add_pair(out, lng + size * part(w), lat - size * part(w));
        buf_add_str(out, "]}");
        return;
    default:
        add_pair(out, lng, lat);
    }
}

static void compare(struct world *w, const char *condition)
{
    static char a[4000], b[4000];

    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} FILTER %s SORT d._key RETURN d._key",
             condition);
    snprintf(b, sizeof b, "FOR d IN c FILTER %s SORT d._key RETURN d._key", condition);
    must_equal(w, a, b);
}

static void compare_nearest(struct world *w, const char *shape, unsigned count)
{
    static char a[4000], b[4000];
    static const char *const filters[] = { "", "FILTER d.n < 20", "FILTER d.n == 'none'" };
    const char *filter = filters[chance(w, ARRAY_LEN(filters))];

    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} %s SORT GEO_DISTANCE(%s, d.at) LIMIT %u "
             "RETURN GEO_DISTANCE(%s, d.at)",
             filter, shape, count, shape);
    snprintf(b, sizeof b, "FOR d IN c %s LET m = GEO_DISTANCE(%s, d.at) SORT m LIMIT %u RETURN m",
             filter, shape, count);
    must_equal(w, a, b);
}

static void indexes_agree(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    struct buf text, shape, rows;
    struct collection_options c = { .name = slice_str("c"),
                                    .type = COLLECTION_DOCUMENT,
                                    .allow_user_keys = true };
    uint64_t id;

    assert_int_equal(store_create_collection(w->store, 1, &c, &id, &err), OK);
    add_index(w, id, "{\"type\":\"geo\",\"fields\":[\"at\"],\"geoJson\":true}");
    assert_int_equal(txn_begin(&w->txn, w->store, &(struct txn_options){ 0 }, &err), OK);
    buf_init(&text, 0);
    buf_init(&shape, 0);
    buf_init(&rows, 0);
    for (int i = 0; i < DOCS; i++) {
        buf_clear(&text);
        buf_printf(&text, "INSERT {_key: '%d', n: %u, at: ", i, chance(w, 40));
        if (chance(w, 25))
            add_shape(w, &text);
        else
            buf_add_str(&text, "null");
        buf_add_str(&text, "} INTO c");
        run(w, buf_cstr(&text), PLAIN, &rows);
    }
    for (int i = 0; i < ROUNDS; i++) {
        double metres = pow(10, 2 + part(w) * 5.4);
        buf_clear(&shape);
        add_shape(w, &shape);
        const char *s = buf_cstr(&shape);
        buf_clear(&text);
        buf_printf(&text, "GEO_DISTANCE(%s, d.at) %s %.3f", s, chance(w, 2) ? "<" : "<=", metres);
        compare(w, buf_cstr(&text));
        buf_clear(&text);
        buf_printf(&text, "GEO_INTERSECTS(d.at, %s)", s);
        compare(w, buf_cstr(&text));
        buf_clear(&text);
        buf_printf(&text, "%.3f >= GEO_DISTANCE(d.at, %s) AND d.n > 10", metres, s);
        compare(w, buf_cstr(&text));
        if (strstr(s, "Polygon")) {
            buf_clear(&text);
            buf_printf(&text, "GEO_CONTAINS(%s, d.at)", s);
            compare(w, buf_cstr(&text));
        }
        compare_nearest(w, s, 1 + chance(w, 30));
    }
    buf_release(&text);
    buf_release(&shape);
    buf_release(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(indexes_agree, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
