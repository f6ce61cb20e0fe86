/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of an HTTP/2 client through a real connection, behind a preface that is right. */
#include "conn_fuzz.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const char settings[] = "\0\0\0\4\0\0\0\0\0";

/* Frames, the first of which are the server's settings; the last may be cut where the client left. */
static void check_frames(void)
{
    if (!fuzz.got.len)
        return;
    const uint8_t *at = (const uint8_t *)fuzz.got.ptr, *end = at + fuzz.got.len;
    if (fuzz.got.len >= 9 && at[3] != 4)
        abort();
    while (end - at >= 9) {
        size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        if (len > 16384 || at[3] > 9)
            abort();
        if ((size_t)(end - at - 9) < len)
            break;
        at += 9 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct buf begin;

    if (!len)
        return 0;
    buf_init(&begin, 0);
    buf_add(&begin, preface, sizeof preface - 1);
    if (!(bytes[0] & 128)) /* else the input brings its own, or not */
        buf_add(&begin, settings, sizeof settings - 1);
    fuzz_talk(bytes[0], buf_slice(&begin), slice_of((const char *)bytes + 1, len - 1));
    buf_release(&begin);
    check_frames();
    return 0;
}
