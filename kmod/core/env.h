/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The seam between core/ and its environment.  In the kernel it is the kernel's own headers.  In user space it is
 * stdint and the few list and bit operations that core/ uses, with the kernel's names and meaning.  Files of core/
 * include nothing else.
 */
#ifndef GPURT_CORE_ENV_H
#define GPURT_CORE_ENV_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#define gpurt_check(invariant) WARN_ON_ONCE(!(invariant))
#elif !defined(GPURT_CDEF)
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define noinline
#define gpurt_check(invariant) ((invariant) ? (void)0 : __builtin_trap())
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
struct list_head { struct list_head *next, *prev; };
#define list_entry(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)

static inline void INIT_LIST_HEAD(struct list_head *h) { h->next = h->prev = h; }
static inline bool list_empty(const struct list_head *h) { return h->next == h; }
static inline void list_add(struct list_head *n, struct list_head *h)
{
	n->next = h->next;
	n->prev = h;
	h->next->prev = n;
	h->next = n;
}
static inline void list_add_tail(struct list_head *n, struct list_head *h) { list_add(n, h->prev); }
static inline void list_del_init(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	INIT_LIST_HEAD(n);
}
static inline void list_move_tail(struct list_head *n, struct list_head *h)
{
	list_del_init(n);
	list_add_tail(n, h);
}
static inline int fls64(u64 w) { return w ? 64 - __builtin_clzll(w) : 0; }
#endif
#endif
