/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine -- its memory, and how much of it this process holds. Any thread.
 */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include "base/base.h"

/* Main memory, or the limit of the process's control group (v2) when that is less. */
uint64_t machine_memory_bytes(void);

/* Resident; 0 when the system does not tell. */
uint64_t process_memory_bytes(void);

/* Hands what the allocator keeps unused back to the system. Milliseconds: after large frees only. */
void process_memory_give_back(void);

#endif
