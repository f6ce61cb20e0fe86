/* SPDX-License-Identifier: Apache-2.0 */
/* geo_math -- vectors on the unit sphere; for the files of geo. */
#ifndef BASE_GEO_MATH_H
#define BASE_GEO_MATH_H

#include "base/geo.h"
#include <math.h>

static inline double vec_dot(struct geo_vec a, struct geo_vec b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct geo_vec vec_add(struct geo_vec a, struct geo_vec b, double times)
{
    return (struct geo_vec){ a.x + times * b.x, a.y + times * b.y, a.z + times * b.z };
}

static inline double vec_length(struct geo_vec a)
{
    return sqrt(vec_dot(a, a));
}

static inline struct geo_vec vec_unit(struct geo_vec a)
{
    double n = vec_length(a);
    return n > 0 ? (struct geo_vec){ a.x / n, a.y / n, a.z / n } : a;
}

static inline struct geo_vec vec_plain_cross(struct geo_vec a, struct geo_vec b)
{
    return (struct geo_vec){ a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x };
}

/* Twice the cross product, exact also for points that are close together. */
static inline struct geo_vec vec_cross(struct geo_vec a, struct geo_vec b)
{
    return vec_plain_cross(vec_add(b, a, 1), vec_add(b, a, -1));
}

static inline bool vec_equal(struct geo_vec a, struct geo_vec b)
{
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

/* The end of the edge that begins at i. */
static inline struct geo_vec ring_next(const struct geo_chain *r, size_t i)
{
    return r->at[i + 1 == r->count ? 0 : i + 1];
}

/* Do the edges cross at a point that is inside both? */
bool geo_edges_cross(struct geo_vec a, struct geo_vec b, struct geo_vec c, struct geo_vec d);
/* Area to the left of the ring, on the unit sphere: above 0, up to 4 pi. */
double geo_ring_area(const struct geo_chain *ring);
/* Is the point to the left of the ring? */
bool geo_ring_has(const struct geo_chain *ring, struct geo_vec p);

#endif
