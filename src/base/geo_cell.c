/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell of level L is a square of a grid of 2^L by 2^L; x from west to east, y from
 * south to north, bits in turns, x first:
 *
 *     number = bits of level 1..L | 1 | zeros     of 61 bits
 *
 * A covering begins with the whole world and halves what is partly covered, a level at a
 * time, while there is room for more cells.
 */
#include "base/geo_cell.h"
#include "base/geo_math.h"
#include <stdlib.h>

struct square {
    uint32_t x, y;
    int level;
};

/* Of the finest grid, ends included; x may pass the date line: west > east. */
struct bounds {
    uint32_t west, east, south, north;
};

static uint32_t grid(double part)
{
    double n = floor(part * (1u << GEO_LEVELS));

    return n <= 0 ? 0 : n >= (1u << GEO_LEVELS) ? (1u << GEO_LEVELS) - 1 : (uint32_t)n;
}

static uint32_t grid_lng(double lng_deg)
{
    return grid((lng_deg + 180) / 360);
}

static uint32_t grid_lat(double lat_deg)
{
    return grid((lat_deg + 90) / 180);
}

static uint64_t number(struct square s)
{
    uint64_t bits = 0;

    for (int i = s.level - 1; i >= 0; i--)
        bits = bits << 2 | (uint64_t)(s.x >> i & 1) << 1 | (s.y >> i & 1);
    return (bits << 1 | 1) << 2 * (GEO_LEVELS - s.level);
}

uint64_t geo_cell(struct geo_vec at)
{
    return number((struct square){ grid_lng(geo_lng(at)), grid_lat(geo_lat(at)), GEO_LEVELS });
}

/* ---- covering ---- */

static bool overlaps(uint32_t a, uint32_t b, uint32_t low, uint32_t high)
{
    return low <= high ? a <= high && b >= low : a <= high || b >= low;
}

static bool is_within(uint32_t a, uint32_t b, uint32_t low, uint32_t high)
{
    return low <= high ? a >= low && b <= high : a >= low || b <= high;
}

static void ends(struct square s, struct bounds *out)
{
    int shift = GEO_LEVELS - s.level;

    *out = (struct bounds){ s.x << shift, (s.x << shift) + (uint32_t)((1u << shift) - 1),
                            s.y << shift, (s.y << shift) + (uint32_t)((1u << shift) - 1) };
}

static bool square_overlaps(struct square s, const struct bounds *b)
{
    struct bounds e;

    ends(s, &e);
    return overlaps(e.west, e.east, b->west, b->east) &&
           overlaps(e.south, e.north, b->south, b->north);
}

static bool square_is_within(struct square s, const struct bounds *b)
{
    struct bounds e;

    ends(s, &e);
    return is_within(e.west, e.east, b->west, b->east) &&
           is_within(e.south, e.north, b->south, b->north);
}

static struct bounds bounds_of(struct geo_cap cap)
{
    double angle = (cap.angle + GEO_ANGLE_ERROR) * 180 / M_PI, lat = geo_lat(cap.centre);
    double lng = geo_lng(cap.centre), half = 180;
    struct bounds b = { 0, (1u << GEO_LEVELS) - 1, grid_lat(lat - angle), grid_lat(lat + angle) };

    if (lat - angle > -90 && lat + angle < 90) /* no pole inside */
        half = asin(fmin(1, sin(angle * M_PI / 180) / cos(lat * M_PI / 180))) * 180 / M_PI + 1e-9;
    if (half < 179.9) {
        b.west = grid_lng(lng - half < -180 ? lng - half + 360 : lng - half);
        b.east = grid_lng(lng + half > 180 ? lng + half - 360 : lng + half);
    }
    return b;
}

/* The quarters that are needed, at out; returns how many. */
static size_t quarter(struct square s, const struct bounds *b, struct square *out)
{
    size_t n = 0;

    for (uint32_t i = 0; i < 4; i++) {
        struct square q = { s.x * 2 + (i >> 1), s.y * 2 + (i & 1), s.level + 1 };
        if (square_overlaps(q, b))
            out[n++] = q;
    }
    return n;
}

size_t geo_cover(struct geo_cap cap, size_t max, uint64_t *out)
{
    struct bounds b = bounds_of(cap);
    struct square now[GEO_COVER_MAX] = { { 0, 0, 0 } }, next[GEO_COVER_MAX * 4];
    size_t count = 1;

    for (bool has_changed = true; has_changed;) {
        size_t n = 0;
        has_changed = false;
        for (size_t i = 0; i < count; i++) {
            if (now[i].level == GEO_LEVELS || square_is_within(now[i], &b)) {
                next[n++] = now[i];
            } else {
                n += quarter(now[i], &b, next + n);
                has_changed = true;
            }
        }
        if (n > max)
            break;
        memcpy(now, next, n * sizeof *now);
        count = n;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = number(now[i]);
    return count;
}

/* ---- ranges ---- */

static int compare_ranges(const void *a, const void *b)
{
    const struct geo_range *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static void add_larger(const uint64_t *cells, size_t count, struct geo_range *out, size_t *n)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t low = cells[i] & -cells[i], cell = cells[i];
        while (low < UINT64_C(1) << 2 * GEO_LEVELS && *n < GEO_RANGES_MAX) {
            cell = (cell & ~(low | low << 1 | low << 2)) | low << 2;
            low <<= 2;
            size_t known = count;
            while (known < *n && out[known].first != cell)
                known++;
            if (known < *n)
                break; /* and all around it */
            out[(*n)++] = (struct geo_range){ cell, cell };
        }
    }
}

size_t geo_ranges(const uint64_t *cells, size_t count, bool has_larger, struct geo_range *out)
{
    size_t n = count, kept = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t low = cells[i] & -cells[i];
        out[i] = (struct geo_range){ cells[i] - low + 1, cells[i] + low - 1 };
    }
    if (has_larger)
        add_larger(cells, count, out, &n);
    qsort(out, n, sizeof *out, compare_ranges);
    for (size_t i = 1; i < n; i++) {
        if (out[i].first <= out[kept].last + 1)
            out[kept].last = out[i].last > out[kept].last ? out[i].last : out[kept].last;
        else
            out[++kept] = out[i];
    }
    return n ? kept + 1 : 0;
}
