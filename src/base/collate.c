/* SPDX-License-Identifier: Apache-2.0 */
#include "base/collate.h"
#include "base/fault.h"
#include <stdio.h>
#include <unicode/ucasemap.h>
#include <unicode/ucol.h>
#include <unicode/uiter.h>
#include <unicode/ustring.h>

struct collator {
    UCollator *ucol;
    char version[64];
};

enum errc collator_open(struct collator **out, const char *locale, struct error *err)
{
    UErrorCode status = U_ZERO_ERROR;
    UVersionInfo collator_info, uca_info;

    *out = NULL;
    if (!strcmp(locale, "binary"))
        return OK;
    if (fault_hit("base.collator"))
        status = U_FILE_ACCESS_ERROR; /* which the library passes on */
    UCollator *ucol = ucol_open(strcmp(locale, "und") ? locale : "", &status);
    if (U_FAILURE(status))
        return fail(err, ERR_INVALID, "collation '%s' is not known: %s", locale,
                    u_errorName(status));
    ucol_setStrength(ucol, UCOL_TERTIARY);
    ucol_getVersion(ucol, collator_info);
    ucol_getUCAVersion(ucol, uca_info);
    struct collator *c = mem_zalloc(sizeof *c);
    c->ucol = ucol;
    snprintf(c->version, sizeof c->version, "%s %u.%u.%u.%u uca %u.%u", locale, collator_info[0],
             collator_info[1], collator_info[2], collator_info[3], uca_info[0], uca_info[1]);
    *out = c;
    return OK;
}

void collator_close(struct collator *c)
{
    if (!c)
        return;
    ucol_close(c->ucol);
    mem_free(c);
}

int collator_compare(const struct collator *c, struct slice a, struct slice b)
{
    UErrorCode status = U_ZERO_ERROR;
    UCollationResult r = ucol_strcollUTF8(c->ucol, a.len ? a.ptr : "", (int32_t)a.len,
                                          b.len ? b.ptr : "", (int32_t)b.len, &status);

    return r == UCOL_LESS ? -1 : r == UCOL_GREATER;
}

void collator_sort_key(const struct collator *c, struct slice text, struct buf *out)
{
    UErrorCode status = U_ZERO_ERROR;
    UCharIterator iter;
    uint32_t state[2] = { 0, 0 };
    uint8_t part[256];
    int32_t n;

    uiter_setUTF8(&iter, text.len ? text.ptr : "", (int32_t)text.len);
    do {
        n = ucol_nextSortKeyPart(c->ucol, &iter, state, part, sizeof part, &status);
        if (U_FAILURE(status))
            BUG("sort key: %s", u_errorName(status));
        buf_add(out, part, (size_t)n);
    } while (n == (int32_t)sizeof part);
}

const char *collator_version(const struct collator *c)
{
    return c ? c->version : "binary";
}

void text_change_case(struct slice text, bool is_upper, struct buf *out)
{
    UErrorCode status = U_ZERO_ERROR;
    UCaseMap *map = ucasemap_open("", 0, &status);
    int32_t room = (int32_t)text.len + 16;

    if (U_FAILURE(status))
        BUG("case map: %s", u_errorName(status));
    for (;;) {
        char *to = mem_alloc((size_t)room);
        status = U_ZERO_ERROR;
        int32_t n = (is_upper ? ucasemap_utf8ToUpper : ucasemap_utf8ToLower)(
            map, to, room, text.len ? text.ptr : "", (int32_t)text.len, &status);
        if (status != U_BUFFER_OVERFLOW_ERROR && U_FAILURE(status))
            BUG("case map: %s", u_errorName(status));
        bool fits = n <= room && status != U_BUFFER_OVERFLOW_ERROR;
        if (fits)
            buf_add(out, to, (size_t)n);
        mem_free(to);
        if (fits)
            break;
        room = n + 1;
    }
    ucasemap_close(map);
}
