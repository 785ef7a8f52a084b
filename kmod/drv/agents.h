/* SPDX-License-Identifier: GPL-2.0 */
/* Real GPUs on unmodified drivers, whose TSGs are switched by agents in the processes. */
#ifndef GPURT_DRV_AGENTS_H
#define GPURT_DRV_AGENTS_H

int gpurt_agents_start(void);
void gpurt_agents_stop(void);

#endif
