/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on shapes. Great circles on a sphere, or WGS 84 where that is asked for. */
#include "base/geo.h"
#include "query/fn_support.h"
#include <strings.h>

/* ---- arguments ---- */

static void warn_shape(struct fn_call *call, int i, const struct error *why)
{
    fn_warn(call, 1542,
            arena_printf(call->arena, "invalid argument type: argument %d: %s", i + 1, why->text));
    call->result = val_null;
}

/* False: warned, null. */
static bool read_shape(struct fn_call *call, int i, struct geo_shape *out)
{
    struct error why = { 0 };

    if (geo_parse(fn_arg(call, i), call->arena, out, &why) == OK)
        return true;
    warn_shape(call, i, &why);
    return false;
}

static bool read_two(struct fn_call *call, struct geo_shape *a, struct geo_shape *b)
{
    return read_shape(call, 0, a) && read_shape(call, 1, b);
}

/* "sphere" when absent. False: warned, null. */
static bool read_ellipsoid(struct fn_call *call, int i, bool *is_wgs84)
{
    struct slice name = val_string(fn_arg(call, i));

    *is_wgs84 = false;
    if (call->count <= i || (name.len == 6 && !strncasecmp(name.ptr, "sphere", 6)))
        return true;
    *is_wgs84 = name.len == 5 && !strncasecmp(name.ptr, "wgs84", 5);
    if (!*is_wgs84)
        fn_bad_arg(call, i, "\"sphere\" or \"wgs84\"");
    return *is_wgs84;
}

static bool read_numbers(struct fn_call *call, int from, int count, double *out)
{
    for (int i = 0; i < count; i++) {
        if (!fn_is(call, from + i, VAL_NUMBER)) {
            fn_bad_arg(call, from + i, "a number");
            return false;
        }
        out[i] = fn_number_arg(call, from + i);
    }
    return true;
}

/* ---- measures ---- */

static enum errc fn_distance(struct fn_call *call)
{
    double n[4];

    if (!read_numbers(call, 0, 4, n))
        return OK;
    return fn_return_double(call, geo_distance(geo_at(n[1], n[0]), geo_at(n[3], n[2])));
}

static enum errc fn_geo_distance(struct fn_call *call)
{
    struct geo_shape a, b;
    bool is_wgs84;

    if (!read_two(call, &a, &b) || !read_ellipsoid(call, 2, &is_wgs84))
        return OK;
    struct geo_vec from = geo_centroid(&a), to = geo_centroid(&b);
    return fn_return_double(call, is_wgs84 ? geo_wgs84_distance(from, to) : geo_distance(from, to));
}

static enum errc fn_geo_in_range(struct fn_call *call)
{
    struct geo_shape a, b;
    double limits[2];

    if (!read_two(call, &a, &b) || !read_numbers(call, 2, 2, limits))
        return OK;
    bool with_low = call->count < 5 || val_truth(call->args[4]);
    bool with_high = call->count < 6 || val_truth(call->args[5]);
    double d = geo_distance(geo_centroid(&a), geo_centroid(&b));
    return fn_return_bool(call, (with_low ? d >= limits[0] : d > limits[0]) &&
                                    (with_high ? d <= limits[1] : d < limits[1]));
}

static enum errc fn_geo_area(struct fn_call *call)
{
    struct geo_shape s;
    bool is_wgs84;

    if (!read_shape(call, 0, &s) || !read_ellipsoid(call, 1, &is_wgs84))
        return OK;
    return fn_return_double(call, is_wgs84 ? geo_wgs84_area(&s) : geo_area(&s));
}

/* ---- relations ---- */

static enum errc fn_geo_contains(struct fn_call *call)
{
    struct geo_shape a, b;

    if (!read_two(call, &a, &b))
        return OK;
    if (!geo_is_area(&a))
        return fn_bad_arg(call, 0, "a Polygon or a MultiPolygon");
    return fn_return_bool(call, geo_contains(&a, &b));
}

static enum errc fn_geo_intersects(struct fn_call *call)
{
    struct geo_shape a, b;

    return read_two(call, &a, &b) ? fn_return_bool(call, geo_intersects(&a, &b)) : OK;
}

static enum errc fn_geo_equals(struct fn_call *call)
{
    struct geo_shape a, b;

    return read_two(call, &a, &b) ? fn_return_bool(call, geo_equals(&a, &b)) : OK;
}

/* ---- IS_IN_POLYGON: a plane of degrees, as it was before GeoJSON ---- */

static bool read_pair(struct val v, bool is_lng_lat, double *lat, double *lng)
{
    *lat = val_double(val_at(v, is_lng_lat));
    *lng = val_double(val_at(v, !is_lng_lat));
    return val_type(v) == VAL_ARRAY && val_count(v) == 2 && val_type(val_at(v, 0)) == VAL_NUMBER &&
           val_type(val_at(v, 1)) == VAL_NUMBER;
}

static enum errc fn_is_in_polygon(struct fn_call *call)
{
    struct val ring = call->args[0];
    double lat, lng, lat1, lng1, lat2, lng2, pair[2];
    bool is_lng_lat = fn_is(call, 1, VAL_ARRAY) && val_truth(fn_arg(call, 2)), is_in = false;
    size_t n = val_count(ring);

    if (fn_is(call, 1, VAL_ARRAY)) {
        if (!read_pair(call->args[1], is_lng_lat, &lat, &lng))
            return fn_bad_arg(call, 1, "an array of two numbers");
    } else {
        if (!read_numbers(call, 1, 2, pair))
            return OK;
        lat = pair[0];
        lng = pair[1];
    }
    if (n < 3)
        return fn_bad_arg(call, 0, "an array of at least three positions");
    for (size_t i = 0; i < n; i++) {
        if (!read_pair(val_at(ring, i), is_lng_lat, &lat1, &lng1) ||
            !read_pair(val_at(ring, i + 1 == n ? 0 : i + 1), is_lng_lat, &lat2, &lng2))
            return fn_bad_arg(call, 0, "an array of pairs of numbers");
        if ((lat1 > lat) != (lat2 > lat) &&
            lng < lng1 + (lat - lat1) / (lat2 - lat1) * (lng2 - lng1))
            is_in = !is_in;
    }
    return fn_return_bool(call, is_in);
}

/* ---- making GeoJSON ---- */

static struct val geo_json(struct fn_call *call, const char *type, struct val coordinates)
{
    struct slice names[] = { slice_str("type"), slice_str("coordinates") };
    struct val values[] = { val_new_string(call->arena, slice_str(type)), coordinates };

    return val_new_object(call->arena, names, values, 2);
}

/* The shape when it can be read and its rings are well made; else warned, null. */
static enum errc make(struct fn_call *call, const char *type, struct val coordinates)
{
    struct error why = { 0 };
    struct geo_shape s;
    struct val v = geo_json(call, type, coordinates);

    if (geo_parse(v, call->arena, &s, &why) != OK || geo_check(&s, &why) != OK) {
        warn_shape(call, 0, &why);
        return OK;
    }
    return fn_return(call, v);
}

static enum errc fn_geo_point(struct fn_call *call)
{
    return make(call, "Point", val_new_array(call->arena, call->args, 2));
}

static enum errc make_many(struct fn_call *call, const char *type)
{
    if (val_count(call->args[0]) < 2)
        return fn_bad_arg(call, 0, "an array of at least two elements");
    return make(call, type, call->args[0]);
}

static enum errc fn_geo_multipoint(struct fn_call *call)
{
    return make_many(call, "MultiPoint");
}

static enum errc fn_geo_linestring(struct fn_call *call)
{
    return make_many(call, "LineString");
}

static enum errc fn_geo_multilinestring(struct fn_call *call)
{
    return make_many(call, "MultiLineString");
}

/* Positions of one ring, or rings. */
static enum errc fn_geo_polygon(struct fn_call *call)
{
    struct val v = call->args[0], first = val_at(val_at(v, 0), 0);

    if (val_type(first) == VAL_NUMBER)
        v = val_new_array(call->arena, &v, 1);
    return make(call, "Polygon", v);
}

static enum errc fn_geo_multipolygon(struct fn_call *call)
{
    return make_many(call, "MultiPolygon");
}

const struct fn fn_geo[] = {
    { "DISTANCE", 4, 4, "", FN_PURE, fn_distance,
      "Metres between two latitudes and longitudes, on a sphere of 6371 km." },
    { "GEO_DISTANCE", 2, 3, "", FN_PURE, fn_geo_distance,
      "Metres between the centroids of two shapes; \"wgs84\" measures on the ellipsoid." },
    { "GEO_IN_RANGE", 4, 6, "", FN_PURE, fn_geo_in_range, "Is that distance within limits?" },
    { "GEO_AREA", 1, 2, "", FN_PURE, fn_geo_area, "Square metres of a polygon." },
    { "GEO_CONTAINS", 2, 2, "", FN_PURE, fn_geo_contains, "Is the second shape in the first?" },
    { "GEO_INTERSECTS", 2, 2, "", FN_PURE, fn_geo_intersects, "Have two shapes a common point?" },
    { "GEO_EQUALS", 2, 2, "", FN_PURE, fn_geo_equals, "Are two shapes the same?" },
    { "IS_IN_POLYGON", 2, 3, "a.", FN_PURE, fn_is_in_polygon,
      "Is a position in a ring, with latitude first? On a plane of degrees." },
    { "GEO_POINT", 2, 2, "", FN_PURE, fn_geo_point, "A GeoJSON Point of longitude and latitude." },
    { "GEO_MULTIPOINT", 1, 1, "a", FN_PURE, fn_geo_multipoint, "A GeoJSON MultiPoint." },
    { "GEO_LINESTRING", 1, 1, "a", FN_PURE, fn_geo_linestring, "A GeoJSON LineString." },
    { "GEO_MULTILINESTRING", 1, 1, "a", FN_PURE, fn_geo_multilinestring,
      "A GeoJSON MultiLineString." },
    { "GEO_POLYGON", 1, 1, "a", FN_PURE, fn_geo_polygon,
      "A GeoJSON Polygon; its rings are checked." },
    { "GEO_MULTIPOLYGON", 1, 1, "a", FN_PURE, fn_geo_multipolygon,
      "A GeoJSON MultiPolygon; its rings are checked." },
    { 0 },
};
