/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geo_cell -- numbers for places, so that places near each other are ranges of
 * numbers: the order of geo indexes.
 *
 * Longitude and latitude are halved GEO_LEVELS times, in turns; a cell is a rectangle
 * of them. Its number begins with the bits of its halvings, then a one, then zeros: the
 * cells inside a cell are a range around it. The numbers are kept on disk
 * (docs/formats.md).
 */
#ifndef BASE_GEO_CELL_H
#define BASE_GEO_CELL_H

#include "base/geo.h"

enum { GEO_LEVELS = 30, GEO_COVER_MAX = 64, GEO_RANGES_MAX = GEO_COVER_MAX * 2 + 64 };

/* The smallest cell that has the point; never 0. */
uint64_t geo_cell(struct geo_vec at);

/* At most max (up to GEO_COVER_MAX) cells that hold the cap; returns how many. */
size_t geo_cover(struct geo_cap cap, size_t max, uint64_t *out);

/* First and last number, both included. */
struct geo_range {
    uint64_t first, last;
};
/*
 * All numbers of cells that share a point with one of these: smaller ones, and, with
 * has_larger, those around. Sorted, without overlap; room for GEO_RANGES_MAX.
 */
size_t geo_ranges(const uint64_t *cells, size_t count, bool has_larger, struct geo_range *out);

#endif
