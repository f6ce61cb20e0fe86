/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu -- the cores of the machine and who wants them. Any thread.
 */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include "base/base.h"

/* Cores this process may run on; at least 1. */
unsigned cpu_cores(void);

/*
 * Threads of the whole machine that run or wait for a core at this moment, the
 * caller's included. Microseconds. UINT_MAX when the system does not tell.
 */
unsigned cpu_runnable(void);

/* "AMD EPYC 9354P", as the system names it; "" when it does not. */
void cpu_name(char *out, size_t size);

#endif
