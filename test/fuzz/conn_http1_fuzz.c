/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an HTTP/1 client through a real connection: pipelines, bodies, pauses, ends. */
#include "conn_fuzz.h"

/* Each reply begins with a status line, and the first where the bytes begin. */
static void check_replies(void)
{
    if (fuzz.got.len && (fuzz.got.len < 9 || memcmp(fuzz.got.ptr, "HTTP/1.1 ", 9) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!len || (len > 3 && !memcmp(bytes + 1, "PRI", 3))) /* HTTP/2 has its own */
        return 0;
    fuzz_talk(bytes[0], slice_of("", 0), slice_of((const char *)bytes + 1, len - 1));
    check_replies();
    return 0;
}
