/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relations of shapes, by signs of triple products.
 *
 * Is p to the left of a ring? The midpoint m of one of its edges is on the boundary, and
 * the arc from p arrives there from the side of the edge that p is on. Each other edge
 * that the arc crosses changes sides once. A corner on the arc counts to one side of it,
 * always the same one, so an arc through a corner crosses an odd number of its two edges
 * when it changes sides there, and an even number when it does not.
 */
#include "base/geo_math.h"
#include "base/geo_wgs84_shim.h"

/* Below it a point counts as on the great circle of an edge, and another edge is asked. */
#define ON_CIRCLE 1e-14

/* ---- edges ---- */

bool geo_edges_cross(struct geo_vec a, struct geo_vec b, struct geo_vec c, struct geo_vec d)
{
    if (vec_equal(a, c) || vec_equal(a, d) || vec_equal(b, c) || vec_equal(b, d))
        return false;
    struct geo_vec ab = vec_cross(a, b), cd = vec_cross(c, d);
    double acb = -vec_dot(ab, c), bda = vec_dot(ab, d), cbd = -vec_dot(cd, b), dac = vec_dot(cd, a);

    return acb * bda > 0 && acb * cbd > 0 && acb * dac > 0;
}

/* The same where a zero counts as below it: for counting sides. */
static bool arc_crosses(struct geo_vec p, struct geo_vec m, struct geo_vec pm, struct geo_vec a,
                        struct geo_vec b)
{
    struct geo_vec ab = vec_cross(a, b);
    bool acb = -vec_dot(pm, a) >= 0, bda = vec_dot(pm, b) > 0;
    bool cbd = -vec_dot(ab, m) >= 0, dac = vec_dot(ab, p) > 0;

    return acb == bda && acb == cbd && acb == dac;
}

/* ---- rings ---- */

/* An edge whose great circle p is not on and whose midpoint is not opposite of p. */
static bool find_edge(const struct geo_chain *r, struct geo_vec p, size_t *edge, double *side)
{
    for (size_t i = 0; i < r->count; i++) {
        struct geo_vec n = vec_unit(vec_cross(r->at[i], ring_next(r, i)));
        *side = vec_dot(n, p);
        if (fabs(*side) < ON_CIRCLE ||
            vec_dot(vec_unit(vec_add(r->at[i], ring_next(r, i), 1)), p) < -0.99999)
            continue;
        *edge = i;
        return true;
    }
    return false;
}

bool geo_ring_has(const struct geo_chain *r, struct geo_vec p)
{
    size_t edge;
    double side;

    if (!find_edge(r, p, &edge, &side))
        return false;
    struct geo_vec m = vec_unit(vec_add(r->at[edge], ring_next(r, edge), 1));
    struct geo_vec pm = vec_cross(p, m);
    bool is_left = side > 0;
    for (size_t i = 0; i < r->count; i++)
        if (i != edge && arc_crosses(p, m, pm, r->at[i], ring_next(r, i)))
            is_left = !is_left;
    return is_left;
}

/* Signed area of a triangle, exact also when it is small. */
static double triangle_area(struct geo_vec a, struct geo_vec b, struct geo_vec c)
{
    double volume = vec_dot(a, vec_plain_cross(vec_add(b, a, -1), vec_add(c, a, -1)));

    return 2 * atan2(volume, 1 + vec_dot(a, b) + vec_dot(b, c) + vec_dot(c, a));
}

double geo_ring_area(const struct geo_chain *r)
{
    double area = 0;

    for (size_t i = 1; i + 1 < r->count; i++)
        area += triangle_area(r->at[0], r->at[i], r->at[i + 1]);
    area = fmod(area, 4 * M_PI);
    return area <= 0 ? area + 4 * M_PI : area;
}

/* ---- shapes ---- */

bool geo_is_area(const struct geo_shape *s)
{
    return s->kind == GEO_POLYGON || s->kind == GEO_MULTI_POLYGON;
}

static bool is_points(const struct geo_shape *s)
{
    return s->kind == GEO_POINT || s->kind == GEO_MULTI_POINT;
}

bool geo_has_point(const struct geo_shape *area, struct geo_vec p)
{
    bool is_in = false;

    for (size_t i = 0; i < area->chain_count;) {
        uint32_t polygon = area->chains[i].polygon;
        bool is_in_this = true;
        for (; i < area->chain_count && area->chains[i].polygon == polygon; i++)
            is_in_this = is_in_this && geo_ring_has(&area->chains[i], p);
        is_in ^= is_in_this; /* a polygon in another one is a hole of it */
    }
    return is_in;
}

static bool is_corner(const struct geo_shape *s, struct geo_vec p)
{
    for (size_t i = 0; i < s->chain_count; i++)
        for (size_t k = 0; k < s->chains[i].count; k++)
            if (vec_equal(s->chains[i].at[k], p))
                return true;
    return false;
}

/* Edges of a chain: a line has one less than points. */
static size_t edge_count(const struct geo_shape *s, const struct geo_chain *c)
{
    return is_points(s) ? 0 : geo_is_area(s) ? c->count : c->count - 1;
}

static bool any_edges_cross(const struct geo_shape *a, const struct geo_shape *b)
{
    for (size_t i = 0; i < a->chain_count; i++)
        for (size_t k = 0; k < edge_count(a, &a->chains[i]); k++)
            for (size_t j = 0; j < b->chain_count; j++)
                for (size_t n = 0; n < edge_count(b, &b->chains[j]); n++)
                    if (geo_edges_cross(a->chains[i].at[k], ring_next(&a->chains[i], k),
                                        b->chains[j].at[n], ring_next(&b->chains[j], n)))
                        return true;
    return false;
}

/* Has the area a corner of the other, or all of them? Common corners say nothing. */
static bool has_corners(const struct geo_shape *area, const struct geo_shape *other, bool wants_all)
{
    for (size_t i = 0; i < other->chain_count; i++)
        for (size_t k = 0; k < other->chains[i].count; k++) {
            struct geo_vec p = other->chains[i].at[k];
            if (!is_points(other) && is_corner(area, p))
                continue;
            if (geo_has_point(area, p) != wants_all)
                return !wants_all;
        }
    return wants_all;
}

/* The middles of edges decide where corners are common. */
static bool has_middles(const struct geo_shape *area, const struct geo_shape *other)
{
    for (size_t i = 0; i < other->chain_count; i++)
        for (size_t k = 0; k < edge_count(other, &other->chains[i]); k++) {
            struct geo_vec a = other->chains[i].at[k], b = ring_next(&other->chains[i], k);
            if (is_corner(area, a) && is_corner(area, b) &&
                !geo_has_point(area, vec_unit(vec_add(a, b, 1))))
                return false;
        }
    return true;
}

bool geo_contains(const struct geo_shape *area, const struct geo_shape *other)
{
    if (!geo_is_area(area))
        return false;
    if (geo_equals(area, other))
        return true;
    if (!has_corners(area, other, true) || any_edges_cross(area, other))
        return false;
    if (is_points(other))
        return true;
    /* What the area lacks must not be inside of the other one. */
    return has_middles(area, other) && (!geo_is_area(other) || !has_corners(other, area, false));
}

/* A point on a line, within the precision of a coordinate. */
static bool line_has(const struct geo_shape *line, struct geo_vec p)
{
    for (size_t i = 0; i < line->chain_count; i++)
        for (size_t k = 0; k < edge_count(line, &line->chains[i]); k++) {
            struct geo_vec a = line->chains[i].at[k], b = ring_next(&line->chains[i], k);
            if (geo_angle(a, p) + geo_angle(p, b) - geo_angle(a, b) < 1e-15)
                return true;
        }
    return false;
}

static bool points_meet(const struct geo_shape *points, const struct geo_shape *other)
{
    for (size_t i = 0; i < points->chains[0].count; i++) {
        struct geo_vec p = points->chains[0].at[i];
        if (geo_is_area(other) ? geo_has_point(other, p)
            : is_points(other) ? is_corner(other, p)
                               : line_has(other, p))
            return true;
    }
    return false;
}

bool geo_intersects(const struct geo_shape *a, const struct geo_shape *b)
{
    if (is_points(a) || is_points(b))
        return is_points(a) ? points_meet(a, b) : points_meet(b, a);
    if (any_edges_cross(a, b) || geo_equals(a, b))
        return true;
    if (geo_is_area(a) && has_corners(a, b, false))
        return true;
    if (geo_is_area(b) && has_corners(b, a, false))
        return true;
    if (geo_is_area(a) || geo_is_area(b))
        return false;
    for (size_t i = 0; i < a->chain_count; i++) /* lines that touch at a corner */
        for (size_t k = 0; k < a->chains[i].count; k++)
            if (is_corner(b, a->chains[i].at[k]))
                return true;
    return false;
}

/* Rings may begin anywhere. */
static bool chains_equal(const struct geo_chain *a, const struct geo_chain *b, bool is_ring)
{
    if (a->count != b->count)
        return false;
    for (size_t shift = 0; shift < (is_ring ? b->count : 1); shift++) {
        size_t i = 0;
        while (i < a->count && vec_equal(a->at[i], b->at[(i + shift) % b->count]))
            i++;
        if (i == a->count)
            return true;
    }
    return false;
}

bool geo_equals(const struct geo_shape *a, const struct geo_shape *b)
{
    if (a->kind != b->kind || a->chain_count != b->chain_count)
        return false;
    for (size_t i = 0; i < a->chain_count; i++)
        if (!chains_equal(&a->chains[i], &b->chains[i], geo_is_area(a)))
            return false;
    return true;
}

/* ---- measures ---- */

/* The integral over a line, or over the area to the left of an edge's ring. */
static struct geo_vec edge_moment(struct geo_vec a, struct geo_vec b, bool is_area)
{
    if (is_area)
        return vec_add((struct geo_vec){ 0 }, vec_unit(vec_cross(a, b)), geo_angle(a, b) / 2);
    struct geo_vec sum = vec_add(a, b, 1), difference = vec_add(a, b, -1);
    double weight = vec_length(difference) / vec_length(sum);
    return vec_add((struct geo_vec){ 0 }, sum, isfinite(weight) ? weight : 0);
}

struct geo_vec geo_centroid(const struct geo_shape *s)
{
    struct geo_vec sum = { 0 };

    if (s->kind == GEO_POINT)
        return s->chains[0].at[0];
    for (size_t i = 0; i < s->chain_count; i++) {
        const struct geo_chain *c = &s->chains[i];
        for (size_t k = 0; k < (is_points(s) ? c->count : edge_count(s, c)); k++)
            sum = vec_add(sum,
                          is_points(s) ? c->at[k]
                                       : edge_moment(c->at[k], ring_next(c, k), geo_is_area(s)),
                          1);
    }
    return vec_length(sum) > 0 ? vec_unit(sum) : s->chains[0].at[0];
}

double geo_area(const struct geo_shape *s)
{
    double area = 0;

    for (size_t i = 0; geo_is_area(s) && i < s->chain_count; i++)
        area += geo_ring_area(&s->chains[i]) - (s->chains[i].is_hole ? 4 * M_PI : 0);
    return area * GEO_RADIUS_M * GEO_RADIUS_M;
}

/* ---- on the ellipsoid ---- */

static struct wgs84_point wgs84_of(struct geo_vec v)
{
    return (struct wgs84_point){ geo_lat(v), geo_lng(v) };
}

double geo_wgs84_distance(struct geo_vec a, struct geo_vec b)
{
    return wgs84_metres(wgs84_of(a), wgs84_of(b));
}

double geo_wgs84_area(const struct geo_shape *s)
{
    double area = 0;

    for (size_t i = 0; geo_is_area(s) && i < s->chain_count; i++) {
        const struct geo_chain *c = &s->chains[i];
        struct wgs84_point *ring = mem_alloc(c->count * sizeof *ring);
        for (size_t k = 0; k < c->count; k++)
            ring[k] = wgs84_of(c->at[k]);
        area += wgs84_ring_area(ring, c->count) - (c->is_hole ? wgs84_earth_area() : 0);
        mem_free(ring);
    }
    return area;
}

/* ---- bounds ---- */

struct geo_cap geo_bounds(const struct geo_shape *s)
{
    struct geo_cap cap = { geo_centroid(s), 0 };
    struct geo_vec opposite = vec_add((struct geo_vec){ 0 }, cap.centre, -1);

    for (size_t i = 0; i < s->chain_count; i++)
        for (size_t k = 0; k < s->chains[i].count; k++)
            cap.angle = fmax(cap.angle, geo_angle(cap.centre, s->chains[i].at[k]));
    cap.angle += GEO_ANGLE_ERROR;
    /* Less than a hemisphere is convex: it has an edge when it has both ends. */
    if (cap.angle >= M_PI / 2 || (geo_is_area(s) && geo_has_point(s, opposite)))
        cap.angle = M_PI;
    return cap;
}
