// SPDX-License-Identifier: Apache-2.0
#include "base/geo_wgs84_shim.h"

#include <GeographicLib/Geodesic.hpp>
#include <GeographicLib/PolygonArea.hpp>

#include <exception>

using GeographicLib::Geodesic;
using GeographicLib::PolygonArea;

double wgs84_metres(struct wgs84_point a, struct wgs84_point b)
{
    try {
        double metres = 0;
        Geodesic::WGS84().Inverse(a.lat_deg, a.lng_deg, b.lat_deg, b.lng_deg, metres);
        return metres;
    } catch (const std::exception &) {
        return __builtin_nan("");
    }
}

double wgs84_ring_area(const struct wgs84_point *ring, size_t count)
{
    try {
        PolygonArea polygon(Geodesic::WGS84());
        double perimeter = 0, area = 0;
        for (size_t i = 0; i < count; i++)
            polygon.AddPoint(ring[i].lat_deg, ring[i].lng_deg);
        polygon.Compute(false, false, perimeter, area);
        return area;
    } catch (const std::exception &) {
        return __builtin_nan("");
    }
}

double wgs84_earth_area()
{
    try {
        return Geodesic::WGS84().EllipsoidArea();
    } catch (const std::exception &) {
        return __builtin_nan("");
    }
}
