/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify -- tells the service manager that started this process what it does, by
 * the protocol of sd_notify: a datagram to the socket that NOTIFY_SOCKET names.
 * Nothing happens without one.
 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* state: lines such as "READY=1". Any thread; does not wait, and nobody hears of a failure. */
void notify_manager(const char *state);

#endif
