/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Functions that nvgpu_tsg.c and nvgpu_domain.c share. */
#ifndef GPURT_PRELOAD_NVGPU_H
#define GPURT_PRELOAD_NVGPU_H

#include <stdbool.h>

#define TSG_DOMAIN		16	/* of a group, type 'T': puts it into a scheduling domain; from L4T r35.1 on */

/* Puts a group that has no channel yet into the domain of GPURT_DOMAIN.  If that fails, ends the process. */
void domain_join(int fd);
/* Whether the program's own call that changes a group's domain is refused, because GPURT_DOMAIN is set. */
bool domain_keeps(unsigned long request);

#endif
