/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of the driver that nvgpu's runlists use, where nothing depends on them.  Locks are those of the harness. */
#ifndef PATCHES_STUBS_H
#define PATCHES_STUBS_H

#include <assert.h>
#include <stdlib.h>

#include <nvgpu/gk20a.h>

bool nvgpu_test_bit(unsigned int bit, const volatile unsigned long *map)
{
	return (map[bit / 64] >> (bit % 64)) & 1;
}

void nvgpu_set_bit(unsigned int bit, volatile unsigned long *map)
{
	map[bit / 64] |= 1UL << (bit % 64);
}

void nvgpu_clear_bit(unsigned int bit, volatile unsigned long *map)
{
	map[bit / 64] &= ~(1UL << (bit % 64));
}

bool nvgpu_test_and_set_bit(unsigned int bit, volatile unsigned long *map)
{
	bool was = nvgpu_test_bit(bit, map);

	nvgpu_set_bit(bit, map);
	return was;
}

bool nvgpu_test_and_clear_bit(unsigned int bit, volatile unsigned long *map)
{
	bool was = nvgpu_test_bit(bit, map);

	nvgpu_clear_bit(bit, map);
	return was;
}

unsigned long find_next_bit(const unsigned long *map, unsigned long n, unsigned long from)
{
	while (from < n && !nvgpu_test_bit((unsigned int)from, map))
		from++;
	return from;
}

unsigned long find_first_bit(const unsigned long *map, unsigned long n)
{
	return find_next_bit(map, n, 0);
}

static int pmu_locked;

int nvgpu_pmu_lock_acquire(struct gk20a *gpu, struct nvgpu_pmu *pmu, u32 id, u32 *token)
{
	assert(!pmu_locked++);
	return 0;
}

int nvgpu_pmu_lock_release(struct gk20a *gpu, struct nvgpu_pmu *pmu, u32 id, u32 *token)
{
	assert(pmu_locked--);
	return 0;
}

void *nvgpu_kzalloc_impl(struct gk20a *gpu, size_t size, void *ip)
{
	return calloc(1, size);
}

void nvgpu_kfree_impl(struct gk20a *gpu, void *p)
{
	free(p);
}

int nvgpu_dma_alloc_flags_sys(struct gk20a *gpu, unsigned long flags, size_t size, struct nvgpu_mem *mem)
{
	mem->cpu_va = calloc(1, size);
	return 0;
}

void nvgpu_dma_free(struct gk20a *gpu, struct nvgpu_mem *mem)
{
	free(mem->cpu_va);
}

u64 nvgpu_mem_get_addr(struct gk20a *gpu, struct nvgpu_mem *mem)
{
	return (u64)(uintptr_t)mem->cpu_va;
}

int nvgpu_ptimer_scale(struct gk20a *gpu, u32 timeout, u32 *scaled)
{
	*scaled = timeout;
	return 0;
}

void nvgpu_spinlock_init(struct nvgpu_spinlock *lock) {}
void nvgpu_spinlock_acquire(struct nvgpu_spinlock *lock) {}
void nvgpu_spinlock_release(struct nvgpu_spinlock *lock) {}
void nvgpu_rwsem_down_read(struct nvgpu_rwsem *sem) {}
void nvgpu_rwsem_up_read(struct nvgpu_rwsem *sem) {}

void nvgpu_posix_bug(const char *msg, int line)
{
	abort();
}

void nvgpu_log_dbg_impl(struct gk20a *gpu, u64 mask, const char *func, int line, const char *fmt, ...) {}
void nvgpu_log_msg_impl(struct gk20a *gpu, const char *func, int line, enum nvgpu_log_type type, const char *fmt, ...) {}

/* Called for WARN_ON() whatever its condition. */
bool nvgpu_posix_warn(const char *func, int line, bool cond, const char *fmt, ...)
{
	assert(!cond);
	return cond;
}

#endif
