/* SPDX-License-Identifier: Apache-2.0 */
#include "net/head.h"
#include <strings.h>
#include <time.h>

static bool same_name(const struct exchange_request *req, const struct header *a,
                      const struct header *b)
{
    return a->name_len == b->name_len &&
           !strncasecmp(req->head.ptr + a->name, req->head.ptr + b->name, a->name_len);
}

/* The value moves to the end of head, followed by those of the later headers of this name. */
static void join_header(struct exchange_request *req, size_t first)
{
    struct header *h = &req->headers[first];
    struct buf *head = &req->head;
    size_t kept = first + 1;
    uint32_t at = (uint32_t)head->len;

    for (size_t i = first; i < req->header_count; i++) {
        struct header one = req->headers[i];
        if (!same_name(req, h, &one)) {
            req->headers[kept++] = one; /* never ahead of i */
            continue;
        }
        if (i > first)
            buf_add_str(head, ", ");
        char *copy = buf_reserve(head, one.value_len);
        memcpy(copy, head->ptr + one.value, one.value_len);
    }
    h->value = at;
    h->value_len = (uint32_t)head->len - at;
    req->header_count = kept;
}

/* False when Host came twice. */
static bool join_headers(struct exchange_request *req)
{
    for (size_t i = 0; i < req->header_count; i++) {
        for (size_t j = i + 1; j < req->header_count; j++) {
            if (!same_name(req, &req->headers[i], &req->headers[j]))
                continue;
            if (req->headers[i].name_len == 4 &&
                !strncasecmp(req->head.ptr + req->headers[i].name, "host", 4))
                return false;
            join_header(req, i);
            break;
        }
    }
    return true;
}

static bool read_method(struct exchange_request *req, struct slice name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = { { "GET", METHOD_GET },        { "HEAD", METHOD_HEAD },
                 { "POST", METHOD_POST },      { "PUT", METHOD_PUT },
                 { "PATCH", METHOD_PATCH },    { "DELETE", METHOD_DELETE },
                 { "OPTIONS", METHOD_OPTIONS } };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (slice_is(name, rows[i].name)) {
            req->method = rows[i].method;
            return true;
        }
    }
    return false;
}

static void split_target(struct exchange_request *req)
{
    const char *target = req->head.ptr + req->target;
    const char *question = req->target_len ? memchr(target, '?', req->target_len) : NULL;

    req->path_len = question ? (size_t)(question - target) : req->target_len;
}

struct protocol_error head_finish(struct exchange *x, struct slice method)
{
    struct exchange_request *req = &x->req;
    struct slice coding, expect;

    split_target(req);
    if (!read_method(req, method))
        return (struct protocol_error){ 501, "this method is not supported" };
    if (!req->target_len || req->head.ptr[req->target] != '/')
        return (struct protocol_error){ 400, "the request target must be a path" };
    if (!join_headers(req))
        return (struct protocol_error){ 400, "the request has two Host headers" };
    if (!req->is_http10 && !exchange_header(x, "host").len)
        return (struct protocol_error){ 400, "the request needs a Host header" };
    coding = exchange_header(x, "transfer-encoding");
    if (coding.len && (coding.len != 7 || strncasecmp(coding.ptr, "chunked", 7) != 0))
        return (struct protocol_error){ 501, "the only Transfer-Encoding understood is chunked" };
    expect = exchange_header(x, "expect");
    if (expect.len && !req->is_http10) {
        if (expect.len != 12 || strncasecmp(expect.ptr, "100-continue", 12) != 0)
            return (struct protocol_error){ 417,
                                            "the only expectation understood is 100-continue" };
        req->is_expecting = true;
    }
    return (struct protocol_error){ 0, NULL };
}

/* ---- replies ---- */

struct slice head_number(uint64_t number, char out[HEAD_DIGITS])
{
    size_t at = HEAD_DIGITS;

    do
        out[--at] = (char)('0' + number % 10);
    while (number /= 10);
    return slice_of(out + at, HEAD_DIGITS - at);
}

const char *head_date(void)
{
    static _Thread_local time_t last;
    static _Thread_local char text[64];
    time_t now = time(NULL);
    struct tm utc;

    if (now != last) {
        gmtime_r(&now, &utc);
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
        last = now;
    }
    return text;
}

bool head_has_no_body(int status)
{
    return status < 200 || status == 204 || status == 304;
}

const char *head_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {
        { 100, "Continue" },
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 410, "Gone" },
        { 411, "Length Required" },
        { 412, "Precondition Failed" },
        { 413, "Payload Too Large" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "Status";
}
