/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geo -- shapes on the globe: GeoJSON in, relations, distances and areas out.
 *
 * Lines and the edges of polygons are pieces of great circles on a sphere of
 * GEO_RADIUS_M; a polygon's interior is to the left of its first ring. Points on a
 * boundary belong to one side or the other. The ellipsoid of WGS 84 is
 * GeographicLib's. Any thread.
 */
#ifndef BASE_GEO_H
#define BASE_GEO_H

#include "base/val.h"

#define GEO_RADIUS_M 6371000.0
enum { GEO_POINTS_MAX = 100000 }; /* of one shape */

enum geo_kind {
    GEO_POINT,
    GEO_MULTI_POINT,
    GEO_LINE,
    GEO_MULTI_LINE,
    GEO_POLYGON,
    GEO_MULTI_POLYGON
};

/* A point as a unit vector. */
struct geo_vec {
    double x, y, z;
};

/* Points, a line, or a ring without its repeated end, with the interior to its left. */
struct geo_chain {
    struct geo_vec *at;
    size_t count;
    uint32_t polygon; /* number of the polygon that the ring is of */
    bool is_hole;
};

struct geo_shape {
    enum geo_kind kind;
    struct geo_chain *chains; /* points: one chain with all of them */
    size_t chain_count;
};

struct geo_vec geo_at(double lng_deg, double lat_deg);
double geo_lng(struct geo_vec v); /* degrees */
double geo_lat(struct geo_vec v);
double geo_angle(struct geo_vec a, struct geo_vec b); /* radians */
static inline double geo_distance(struct geo_vec a, struct geo_vec b)
{
    return geo_angle(a, b) * GEO_RADIUS_M;
}

/*
 * A GeoJSON geometry, or [longitude, latitude]. Lives in arena. ERR_INVALID says what is
 * wrong. Rings are checked as far as that takes linear time.
 */
MUST_CHECK enum errc geo_parse(struct val v, struct arena *arena, struct geo_shape *out,
                               struct error *err);
/* Edges that meet, holes that are outside: quadratic, so of few points. */
enum { GEO_CHECK_POINTS_MAX = 2000 };
MUST_CHECK enum errc geo_check(const struct geo_shape *s, struct error *err);
/* A point alone. */
void geo_point(struct geo_shape *out, struct arena *arena, struct geo_vec at);

bool geo_is_area(const struct geo_shape *s);
bool geo_has_point(const struct geo_shape *area, struct geo_vec p);
bool geo_contains(const struct geo_shape *area, const struct geo_shape *other);
bool geo_intersects(const struct geo_shape *a, const struct geo_shape *b);
bool geo_equals(const struct geo_shape *a, const struct geo_shape *b);
struct geo_vec geo_centroid(const struct geo_shape *s);
double geo_area(const struct geo_shape *s); /* square metres; 0 of what has none */

/* A disc on the sphere; an angle of pi is everything. */
struct geo_cap {
    struct geo_vec centre;
    double angle; /* radians */
};
#define GEO_ANGLE_ERROR 1e-12 /* of what is computed from coordinates: 6 micrometres */
/* Holds the shape and its centroid. */
struct geo_cap geo_bounds(const struct geo_shape *s);

/* ---- on the ellipsoid ---- */

double geo_wgs84_distance(struct geo_vec a, struct geo_vec b);
double geo_wgs84_area(const struct geo_shape *s);

#endif
