/* SPDX-License-Identifier: Apache-2.0 */
/* io -- what reading and writing a non-blocking stream answer, besides a count of bytes. */
#ifndef NET_IO_H
#define NET_IO_H

enum {
    IO_AGAIN = 0, /* not now: wait for the socket */
    IO_GONE = -1, /* the stream is broken */
    IO_EOF = -2,  /* the other side has ended it */
};

#endif
