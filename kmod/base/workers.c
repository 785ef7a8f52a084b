// SPDX-License-Identifier: GPL-2.0
#include "base/workers.h"

struct workqueue_struct *gpurt_orders, *gpurt_updates, *gpurt_workers;

/* Called before the module queues work.  0 or -ENOMEM. */
int gpurt_workers_start(void)
{
	gpurt_orders = alloc_workqueue("gpurt_orders", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	gpurt_updates = alloc_workqueue("gpurt_updates", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	gpurt_workers = alloc_workqueue("gpurt_workers", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (gpurt_orders && gpurt_updates && gpurt_workers)
		return 0;
	gpurt_workers_stop();
	return -ENOMEM;
}

/* Called when the module no longer queues work. */
void gpurt_workers_stop(void)
{
	if (gpurt_workers)
		destroy_workqueue(gpurt_workers);
	if (gpurt_updates)
		destroy_workqueue(gpurt_updates);
	if (gpurt_orders)
		destroy_workqueue(gpurt_orders);
}
