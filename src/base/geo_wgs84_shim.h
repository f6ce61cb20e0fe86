/* SPDX-License-Identifier: Apache-2.0 */
/* geo_wgs84_shim -- C door to GeographicLib: the ellipsoid of WGS 84. NaN when it fails. */
#ifndef BASE_GEO_WGS84_SHIM_H
#define BASE_GEO_WGS84_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wgs84_point {
    double lat_deg, lng_deg;
};

/* Metres of the shortest way. */
double wgs84_metres(struct wgs84_point a, struct wgs84_point b);
/* Square metres to the left of a ring. */
double wgs84_ring_area(const struct wgs84_point *ring, size_t count);
double wgs84_earth_area(void);

#ifdef __cplusplus
}
#endif

#endif
