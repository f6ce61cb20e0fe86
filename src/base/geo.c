/* SPDX-License-Identifier: Apache-2.0 */
/* Reading shapes. */
#include "base/geo_math.h"
#include <strings.h>

enum { POSITION_MAX = 4 }; /* numbers of a GeoJSON position: a height may follow */

/* ---- points ---- */

struct geo_vec geo_at(double lng_deg, double lat_deg)
{
    double lng = lng_deg * M_PI / 180, lat = lat_deg * M_PI / 180;

    return (struct geo_vec){ cos(lat) * cos(lng), cos(lat) * sin(lng), sin(lat) };
}

double geo_lng(struct geo_vec v)
{
    return atan2(v.y, v.x) * 180 / M_PI;
}

double geo_lat(struct geo_vec v)
{
    return atan2(v.z, hypot(v.x, v.y)) * 180 / M_PI;
}

double geo_angle(struct geo_vec a, struct geo_vec b)
{
    return atan2(vec_length(vec_cross(a, b)) / 2, vec_dot(a, b));
}

/* ---- reading ---- */

struct reader {
    struct arena *arena;
    struct geo_shape *out;
    struct error *err;
    size_t points, chain_room;
};

static enum errc read_position(struct reader *r, struct val v, struct geo_vec *out)
{
    size_t n = val_count(v);
    bool is_ok = val_type(v) == VAL_ARRAY && n >= 2 && n <= POSITION_MAX;

    for (size_t i = 0; is_ok && i < n; i++)
        is_ok = val_type(val_at(v, i)) == VAL_NUMBER;
    if (!is_ok)
        return fail(r->err, ERR_INVALID,
                    "a position must be an array [longitude, latitude] of two numbers");
    double lng = val_double(val_at(v, 0)), lat = val_double(val_at(v, 1));
    if (!(lat >= -90 && lat <= 90) || !(lng >= -180 && lng <= 180))
        return fail(r->err, ERR_INVALID,
                    "the position [%.10g, %.10g] is not within longitude -180 to 180 and latitude "
                    "-90 to 90",
                    lng, lat);
    *out = geo_at(lng, lat);
    return OK;
}

static struct geo_chain *add_chain(struct reader *r)
{
    struct geo_shape *s = r->out;

    if (s->chain_count == r->chain_room) {
        size_t room = r->chain_room ? r->chain_room * 2 : 2;
        struct geo_chain *more = arena_alloc(r->arena, room * sizeof *more);
        if (s->chain_count)
            memcpy(more, s->chains, s->chain_count * sizeof *more);
        s->chains = more;
        r->chain_room = room;
    }
    s->chains[s->chain_count] = (struct geo_chain){ 0 };
    return &s->chains[s->chain_count++];
}

static enum errc read_points(struct reader *r, struct val v, size_t min, const char *what)
{
    enum errc rc = OK;
    size_t n = val_count(v);

    if (val_type(v) != VAL_ARRAY || n < min)
        return fail(r->err, ERR_INVALID, "%s needs an array of at least %zu positions", what, min);
    r->points += n;
    if (r->points > GEO_POINTS_MAX)
        return fail(r->err, ERR_INVALID, "a shape has at most %d positions", GEO_POINTS_MAX);
    struct geo_chain *c = add_chain(r);
    c->at = arena_alloc(r->arena, n * sizeof *c->at);
    for (size_t i = 0; rc == OK && i < n; i++)
        rc = read_position(r, val_at(v, i), &c->at[i]);
    c->count = n;
    return rc;
}

/* Positions that follow each other twice are one; the end is the start. */
static enum errc close_ring(struct reader *r, struct geo_chain *c)
{
    size_t kept = 0;

    if (!vec_equal(c->at[0], c->at[c->count - 1]))
        return fail(r->err, ERR_INVALID, "a ring must end where it begins");
    for (size_t i = 0; i + 1 < c->count; i++)
        if (!kept || !vec_equal(c->at[kept - 1], c->at[i]))
            c->at[kept++] = c->at[i];
    while (kept > 1 && vec_equal(c->at[kept - 1], c->at[0]))
        kept--;
    c->count = kept;
    return kept < 3 ? fail(r->err, ERR_INVALID, "a ring needs at least three different positions")
                    : OK;
}

/* A hole's smaller side is outside of the polygon, whichever way it was written. */
static void turn_hole(struct geo_chain *c)
{
    if (geo_ring_area(c) > 2 * M_PI)
        return;
    for (size_t i = 0, j = c->count - 1; i < j; i++, j--) {
        struct geo_vec swap = c->at[i];
        c->at[i] = c->at[j];
        c->at[j] = swap;
    }
}

static enum errc read_polygon(struct reader *r, struct val v, uint32_t number)
{
    enum errc rc = OK;

    if (val_type(v) != VAL_ARRAY || !val_count(v))
        return fail(r->err, ERR_INVALID, "a polygon needs an array of at least one ring");
    for (size_t i = 0; rc == OK && i < val_count(v); i++) {
        rc = read_points(r, val_at(v, i), 4, "a ring");
        if (rc != OK)
            break;
        struct geo_chain *c = &r->out->chains[r->out->chain_count - 1];
        rc = close_ring(r, c);
        c->polygon = number;
        c->is_hole = i > 0;
        if (rc == OK && c->is_hole)
            turn_hole(c);
    }
    return rc;
}

static enum errc read_many(struct reader *r, struct val v, bool is_polygon)
{
    enum errc rc = OK;

    if (val_type(v) != VAL_ARRAY || !val_count(v))
        return fail(r->err, ERR_INVALID, "%s needs an array of at least one %s",
                    is_polygon ? "a MultiPolygon" : "a MultiLineString",
                    is_polygon ? "polygon" : "line");
    for (size_t i = 0; rc == OK && i < val_count(v); i++)
        rc = is_polygon ? read_polygon(r, val_at(v, i), (uint32_t)i)
                        : read_points(r, val_at(v, i), 2, "a line");
    return rc;
}

static enum errc read_one_point(struct reader *r, struct val v)
{
    struct geo_vec at;
    enum errc rc = read_position(r, v, &at);

    if (rc == OK)
        geo_point(r->out, r->arena, at);
    return rc;
}

enum errc geo_parse(struct val v, struct arena *arena, struct geo_shape *out, struct error *err)
{
    static const char *const names[] = {
        [GEO_POINT] = "Point",     [GEO_MULTI_POINT] = "MultiPoint",
        [GEO_LINE] = "LineString", [GEO_MULTI_LINE] = "MultiLineString",
        [GEO_POLYGON] = "Polygon", [GEO_MULTI_POLYGON] = "MultiPolygon",
    };
    struct reader r = { .arena = arena, .out = out, .err = err };
    struct val type = val_get(v, slice_str("type")), at = val_get(v, slice_str("coordinates"));

    *out = (struct geo_shape){ 0 };
    if (val_type(v) == VAL_ARRAY)
        return read_one_point(&r, v);
    if (val_type(v) != VAL_OBJECT || val_type(type) != VAL_STRING)
        return fail(err, ERR_INVALID,
                    "a GeoJSON geometry or an array [longitude, latitude] is needed");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct slice t = val_string(type);
        if (t.len != strlen(names[i]) || strncasecmp(t.ptr, names[i], t.len))
            continue;
        out->kind = (enum geo_kind)i;
        switch (out->kind) {
        case GEO_POINT:
            return read_one_point(&r, at);
        case GEO_MULTI_POINT:
            return read_points(&r, at, 1, "a MultiPoint");
        case GEO_LINE:
            return read_points(&r, at, 2, "a LineString");
        case GEO_POLYGON:
            return read_polygon(&r, at, 0);
        case GEO_MULTI_LINE:
        case GEO_MULTI_POLYGON:
            return read_many(&r, at, out->kind == GEO_MULTI_POLYGON);
        }
    }
    return fail(err, ERR_INVALID,
                "the GeoJSON type '%.*s' is not one of Point, MultiPoint, LineString, "
                "MultiLineString, Polygon, MultiPolygon",
                SLICE_ARG(val_string(type)));
}

void geo_point(struct geo_shape *out, struct arena *arena, struct geo_vec at)
{
    struct geo_chain *c = ARENA_NEW(arena, struct geo_chain);

    c->at = arena_alloc(arena, sizeof *c->at);
    c->at[0] = at;
    c->count = 1;
    *out = (struct geo_shape){ .kind = GEO_POINT, .chains = c, .chain_count = 1 };
}

/* ---- checking ---- */

static bool edges_meet(const struct geo_chain *a, size_t i, const struct geo_chain *b, size_t j)
{
    struct geo_vec from = a->at[i], to = ring_next(a, i);
    struct geo_vec other = b->at[j], end = ring_next(b, j);

    return geo_edges_cross(from, to, other, end) ||
           (vec_equal(from, other) && vec_equal(to, end)) ||
           (vec_equal(from, end) && vec_equal(to, other));
}

static enum errc check_rings(const struct geo_chain *a, const struct geo_chain *b,
                             struct error *err)
{
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = a == b ? i + 1 : 0; j < b->count; j++) {
            if (edges_meet(a, i, b, j))
                return fail(err, ERR_INVALID,
                            "edges of a polygon cross or are shared, near [%.6f, %.6f]",
                            geo_lng(a->at[i]), geo_lat(a->at[i]));
            if (a == b && vec_equal(a->at[i], b->at[j]))
                return fail(err, ERR_INVALID, "a ring comes twice to [%.6f, %.6f]",
                            geo_lng(a->at[i]), geo_lat(a->at[i]));
        }
    }
    return OK;
}

enum errc geo_check(const struct geo_shape *s, struct error *err)
{
    size_t points = 0;
    const struct geo_chain *outer = s->chains;

    for (size_t i = 0; i < s->chain_count; i++)
        points += s->chains[i].count;
    if (!geo_is_area(s))
        return OK;
    if (points > GEO_CHECK_POINTS_MAX)
        return fail(err, ERR_INVALID, "polygons of more than %d positions are not checked",
                    GEO_CHECK_POINTS_MAX);
    for (size_t i = 0; i < s->chain_count; i++) {
        const struct geo_chain *c = &s->chains[i];
        outer = c->is_hole ? outer : c;
        for (size_t j = i; j < s->chain_count; j++) {
            enum errc rc = check_rings(c, &s->chains[j], err);
            if (rc != OK)
                return rc;
        }
        bool is_inside = !c->is_hole;
        for (size_t j = 0; !is_inside && j < c->count; j++) /* a corner may touch the ring */
            is_inside = geo_ring_has(outer, c->at[j]);
        if (!is_inside)
            return fail(err, ERR_INVALID, "a hole is outside of its polygon's first ring");
    }
    return OK;
}
