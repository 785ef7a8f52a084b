// SPDX-License-Identifier: GPL-2.0
/*
 * GPUs that virtual GPUs are partitions of.  All partitions of a GPU have one lock and one timer, because work on one
 * slows down the others (core/whole.c).  The timer expires when something happens on any of them.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "../compat.h"
#include "devices.h"
#include "vgpu.h"

static uint vgpu_units[GPURT_MAX_GPUS];
static uint vgpu_parts;
module_param_array(vgpu_units, uint, &vgpu_parts, 0444);
MODULE_PARM_DESC(vgpu_units, "compute units of the partitions of a GPU, which so many virtual GPUs in turn are");
static uint vgpu_cross = GPURT_FACTOR_ONE;
module_param(vgpu_cross, uint, 0444);
MODULE_PARM_DESC(vgpu_cross, "thousandths: slow-down of memory intensive work while another partition executes such");

/* The GPUs that have several partitions; accessed with the lock of devices.c held. */
static struct vgpu_whole *divided[GPURT_MAX_GPUS];

/*
 * Any user can make very many events happen on the GPU, and the module computes them with interrupts off.  So it
 * computes at most STEPS events at once, and at most STEPS * ROUNDS in a call.  Interrupts of the timer take at most
 * one part in SHARE of a CPU's time.  A GPU that falls behind these limits stands still for the remaining time.
 */
#define STEPS 16
#define ROUNDS 16
#define SHARE 10

/* Called with the lock held, after every change of what may happen next on the GPU.  @v: a virtual GPU of it. */
static void arm(struct vgpu_whole *whole, const struct gpurt_vgpu *v)
{
	u64 next = max(gpurt_vgpu_next_of_all(v), whole->rest_until);

	if (next == whole->armed)
		return;
	whole->armed = next;
	if (next == U64_MAX)
		hrtimer_try_to_cancel(&whole->timer);
	else
		hrtimer_start(&whole->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_HARD);
}

/*
 * Brings the GPU to the time @at (0: the present) and takes the lock; returns the GPU's time, which may be later than
 * @at.  It enables interrupts from time to time meanwhile.
 */
u64 vgpu_lock_at(struct vgpu *dev, u64 at, unsigned long *flags)
{
	struct vgpu_whole *whole = dev->whole;
	int round;
	u64 now;

	for (round = 0;; round++) {
		raw_spin_lock_irqsave(&whole->lock, *flags);
		/* Another CPU, or the timer, may have advanced the GPU beyond this CPU's present time. */
		now = max(at ?: ktime_get_ns(), dev->core.now);
		if (gpurt_vgpu_catch_up(&dev->core, now, STEPS))
			return now;
		if (round == ROUNDS)
			break;
		raw_spin_unlock_irqrestore(&whole->lock, *flags);
		at = 0;
	}
	gpurt_vgpu_stand_still(&dev->core, now);
	return now;
}

/* The same at present. */
u64 vgpu_lock(struct vgpu *dev, unsigned long *flags)
{
	return vgpu_lock_at(dev, 0, flags);
}

void vgpu_unlock(struct vgpu *dev, unsigned long flags)
{
	arm(dev->whole, &dev->core);
	raw_spin_unlock_irqrestore(&dev->whole->lock, flags);
}

static enum hrtimer_restart vgpu_timer(struct hrtimer *timer)
{
	struct vgpu_whole *whole = container_of(timer, struct vgpu_whole, timer);
	u64 began = ktime_get_ns(), ended;
	unsigned long flags;

	raw_spin_lock_irqsave(&whole->lock, flags);
	whole->armed = U64_MAX;
	if (whole->one) {
		gpurt_vgpu_catch_up(whole->one, began, STEPS);
		ended = ktime_get_ns();
		whole->rest_until = ended + (SHARE - 1) * (ended - began);
		arm(whole, whole->one);
	}
	raw_spin_unlock_irqrestore(&whole->lock, flags);
	return HRTIMER_NORESTART;
}

static struct vgpu_whole *make(u32 number)
{
	struct vgpu_whole *whole = kzalloc(sizeof(*whole), GFP_KERNEL);

	if (!whole)
		return NULL;
	raw_spin_lock_init(&whole->lock);
	compat_hrtimer_setup(&whole->timer, vgpu_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	whole->armed = U64_MAX;
	whole->number = number;
	gpurt_whole_init(&whole->core, vgpu_cross);
	return whole;
}

/* Whether the parameters are valid.  For an invalid one the kernel's log says which values are allowed. */
bool vgpu_whole_valid(void)
{
	u32 i;

	for (i = 0; i < vgpu_parts; i++) {
		if (!vgpu_units[i]) {
			pr_err("gpurt: vgpu_units: partition %u has 0 units: 1 or more\n", i);
			return false;
		}
	}
	if (vgpu_cross < GPURT_FACTOR_ONE || vgpu_cross > GPURT_FACTOR_MAX) {
		pr_err("gpurt: vgpu_cross=%u: %u to %u thousandths\n", vgpu_cross, GPURT_FACTOR_ONE, GPURT_FACTOR_MAX);
		return false;
	}
	return true;
}

/*
 * Makes @dev, the virtual GPU at that place, a partition of the GPU that it belongs to, or a GPU of its own.  A call of
 * vgpu_leave() must follow.
 */
int vgpu_join(struct vgpu *dev, u32 place)
{
	u32 number = vgpu_parts ? place / vgpu_parts : place;
	struct vgpu_whole *whole = divided[number];
	unsigned long flags;

	if (!whole)
		whole = make(number);
	if (!whole)
		return -ENOMEM;
	if (vgpu_parts) {
		divided[number] = whole;
		dev->core.units = vgpu_units[place % vgpu_parts];
	}
	raw_spin_lock_irqsave(&whole->lock, flags);
	whole->parts++;
	if (vgpu_parts)
		gpurt_whole_add(&whole->core, &dev->core);
	whole->one = &dev->core;
	raw_spin_unlock_irqrestore(&whole->lock, flags);
	dev->whole = whole;
	return 0;
}

/* Called when @dev no longer has clients. */
void vgpu_leave(struct vgpu *dev)
{
	struct vgpu_whole *whole = dev->whole;
	unsigned long flags;

	raw_spin_lock_irqsave(&whole->lock, flags);
	gpurt_whole_remove(&dev->core);
	whole->one = list_first_entry_or_null(&whole->core.parts, struct gpurt_vgpu, in_whole);
	whole->parts--;
	raw_spin_unlock_irqrestore(&whole->lock, flags);
	if (whole->parts)
		return;
	hrtimer_cancel(&whole->timer);
	if (divided[whole->number] == whole)
		divided[whole->number] = NULL;
	kfree(whole);
}

/* Stores the GPU that @driver is a partition of, and the partition's size. */
void vgpu_part(void *driver, struct gpurt_driver_part *part)
{
	struct vgpu *dev = driver;

	if (vgpu_parts)
		*part = (struct gpurt_driver_part){ dev->whole->number, dev->core.units, vgpu_cross };
}
