// SPDX-License-Identifier: GPL-2.0
/*
 * The operating system that RM (nv-kernel.o) asks, for a process with one thread, or for a time two.  NVIDIA's
 * os-interface.h says how these functions are called; it is not included here, because RM's headers and the C
 * library's do not go together.  Functions that are not here do nothing, and return 0.  A wait that would never end,
 * and an assertion of RM that fails, end the process.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUSY		0x53	/* NV_ERR_STATE_IN_USE */
#define NO_MEMORY	0x51
#define NOT_PERMITTED	0x1b
#define UNSUPPORTED	0x56

uint64_t os_page_size = 4096, os_max_page_size = 4096, os_page_mask = ~4095UL;
uint8_t os_page_shift = 12;
uint8_t os_cc_enabled, os_cc_sev_snp_enabled, os_cc_sme_enabled, os_cc_snp_vtom_enabled, os_cc_tdx_enabled;
uint8_t os_dma_buf_enabled, os_imex_channel_is_supported;
void *nvidia_caps_root;

__thread void *caller;	/* the process that calls RM */
bool strict;		/* the card is there: from now on RM has nothing to complain of */

static void bug(const char *what)
{
	fprintf(stderr, "BUG: %s\n", what);
	abort();
}

uint32_t os_alloc_mem(void **p, uint64_t size)
{
	*p = malloc(size);
	return *p ? 0 : NO_MEMORY;
}

void os_free_mem(void *p)
{
	free(p);
}

uint64_t os_get_monotonic_time_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t os_get_monotonic_time_ns_hr(void)
{
	return os_get_monotonic_time_ns();
}

uint64_t os_get_monotonic_tick_resolution_ns(void)
{
	return 1000000;
}

uint32_t os_get_system_time(uint32_t *s, uint32_t *us)
{
	*s = (uint32_t)time(NULL);
	*us = 0;
	return 0;
}

uint64_t os_get_cpu_frequency(void)
{
	return 1000000000;
}

uint32_t os_get_cpu_count(void)
{
	return 1;
}

uint32_t os_get_current_process(void)
{
	return 1;
}

void os_get_current_process_name(char *p, uint32_t size)
{
	snprintf(p, size, "harness");
}

uint32_t os_get_current_thread(uint64_t *id)
{
	*id = (uint64_t)pthread_self();
	return 0;
}

void *os_get_pid_info(void)
{
	return caller;
}

uint32_t os_check_access(uint32_t right)
{
	(void)right;
	return NOT_PERMITTED;
}

uint8_t os_is_init_ns(void)
{
	return 1;
}

uint64_t os_get_max_user_va(void)
{
	return 1UL << 47;
}

uint8_t os_semaphore_may_sleep(void)
{
	return 1;
}

uint32_t os_get_is_openrm(uint8_t *is)
{
	*is = 1;
	return 0;
}

char *os_string_copy(char *to, const char *from)
{
	return strcpy(to, from);
}

uint32_t os_string_length(const char *s)
{
	return (uint32_t)strlen(s);
}

int32_t os_string_compare(const char *a, const char *b)
{
	return strcmp(a, b);
}

uint32_t os_strtoul(const char *s, char **end, uint32_t base)
{
	return (uint32_t)strtoul(s, end, (int)base);
}

void *os_mem_copy(void *to, const void *from, uint32_t size)
{
	return memcpy(to, from, size);
}

void *os_mem_set(void *to, uint8_t value, uint32_t size)
{
	return memset(to, value, size);
}

int32_t os_mem_cmp(const void *a, const void *b, uint32_t size)
{
	return memcmp(a, b, size);
}

int32_t os_snprintf(char *to, uint32_t size, const char *format, ...)
{
	va_list list;
	int ret;

	va_start(list, format);
	ret = vsnprintf(to, size, format, list);
	va_end(list);
	return ret;
}

int nv_printf(uint32_t level, const char *format, ...)
{
	static char line[4096];
	va_list list;

	(void)level;
	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (getenv("VERBOSE"))
		fputs(line, stderr);
	if (strict && strstr(line, "ssertion failed"))
		bug(line);
	return 0;
}

/* All locks are of this kind. */
struct lock {
	int readers;
	bool held;
	uint32_t free;		/* of a semaphore */
};

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;	/* of what follows, and of all locks */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int threads = 1, waiting;

static void *new_lock(uint32_t free)
{
	struct lock *l = calloc(1, sizeof(*l));

	if (!l)
		bug("no memory");
	l->free = free;
	return l;
}

static bool take_write(struct lock *l)
{
	if (l->held || l->readers)
		return false;
	l->held = true;
	return true;
}

static bool take_read(struct lock *l)
{
	if (!l->held)
		l->readers++;
	return !l->held;
}

static bool take_one(struct lock *l)
{
	return l->free && l->free--;
}

static uint32_t try(void *l, bool (*take)(struct lock *l))
{
	uint32_t ret;

	pthread_mutex_lock(&all);
	ret = take(l) ? 0 : BUSY;
	pthread_mutex_unlock(&all);
	return ret;
}

/* With "all" held.  Each thread that waited looks again, and is counted again if it still waits. */
static void something_changed(void)
{
	waiting = 0;
	pthread_cond_broadcast(&changed);
}

static uint32_t must(void *l, bool (*take)(struct lock *l))
{
	pthread_mutex_lock(&all);
	while (!take(l)) {
		if (++waiting == threads)
			bug("waits for a lock for ever");
		pthread_cond_broadcast(&changed);
		pthread_cond_wait(&changed, &all);
	}
	pthread_mutex_unlock(&all);
	return 0;
}

static void release(struct lock *l)
{
	pthread_mutex_lock(&all);
	if (!l->held)
		bug("releases a lock that it does not hold");
	l->held = false;
	something_changed();
	pthread_mutex_unlock(&all);
}

/* ---- another thread ---- */

static pthread_t other;

static void *run_other(void *what)
{
	((void (*)(void))what)();
	pthread_mutex_lock(&all);
	threads--;
	something_changed();
	pthread_mutex_unlock(&all);
	return NULL;
}

/* Whether it waits for a lock that this thread has; if not, it has ended.  Call join_other() then. */
bool other_waits(void (*what)(void))
{
	bool waits;

	pthread_mutex_lock(&all);
	threads++;
	if (pthread_create(&other, NULL, run_other, (void *)what))
		bug("no thread");
	while (!waiting && threads > 1)
		pthread_cond_wait(&changed, &all);
	waits = threads > 1;
	pthread_mutex_unlock(&all);
	return waits;
}

void join_other(void)
{
	pthread_join(other, NULL);
}

uint32_t os_alloc_spinlock(void **p)
{
	*p = new_lock(0);
	return 0;
}

uint64_t os_acquire_spinlock(void *p)
{
	return must(p, take_write);
}

void os_release_spinlock(void *p, uint64_t flags)
{
	(void)flags;
	release(p);
}

uint32_t os_alloc_mutex(void **p)
{
	*p = new_lock(0);
	return 0;
}

uint32_t os_acquire_mutex(void *p)
{
	return must(p, take_write);
}

uint32_t os_cond_acquire_mutex(void *p)
{
	return try(p, take_write);
}

void os_release_mutex(void *p)
{
	release(p);
}

void *os_alloc_semaphore(uint32_t free)
{
	return new_lock(free);
}

uint32_t os_cond_acquire_semaphore(void *p)
{
	return try(p, take_one);
}

uint32_t os_acquire_semaphore(void *p)
{
	return must(p, take_one);
}

uint32_t os_release_semaphore(void *p)
{
	pthread_mutex_lock(&all);
	((struct lock *)p)->free++;
	something_changed();
	pthread_mutex_unlock(&all);
	return 0;
}

void *os_alloc_rwlock(void)
{
	return new_lock(0);
}

uint32_t os_acquire_rwlock_write(void *p)
{
	return must(p, take_write);
}

uint32_t os_cond_acquire_rwlock_write(void *p)
{
	return try(p, take_write);
}

void os_release_rwlock_write(void *p)
{
	release(p);
}

uint32_t os_cond_acquire_rwlock_read(void *p)
{
	return try(p, take_read);
}

uint32_t os_acquire_rwlock_read(void *p)
{
	return must(p, take_read);
}

void os_release_rwlock_read(void *p)
{
	struct lock *l = p;

	pthread_mutex_lock(&all);
	if (l->readers-- < 1)
		bug("releases a lock that it does not hold");
	something_changed();
	pthread_mutex_unlock(&all);
}

/* The card's registers say which chip this is: PMC_BOOT_0 and PMC_BOOT_42 of a GA102. */
void *os_map_kernel_space(uint64_t at, uint64_t size, uint32_t mode)
{
	static uint32_t registers[(16 << 20) / 4] = { [0] = 0xb72000a1, [0xa00 / 4] = 0x172a1000 };

	(void)size;
	(void)mode;
	return (char *)registers + (at & 0xffffff);
}

/* There is nobody who would do it later. */
uint32_t os_queue_work_item(void *queue, void *item)
{
	(void)queue;
	(void)item;
	return UNSUPPORTED;
}

/* An instruction that a process may not execute. */
uint64_t osNv_rdcr4(void)
{
	return 0;
}
