/* SPDX-License-Identifier: GPL-2.0 */
/* Self-tests at load time (GPURT_DEBUG=y) and KUnit suites (GPURT_KUNIT=y). */
#ifndef GPURT_SELFTEST_H
#define GPURT_SELFTEST_H

#ifdef GPURT_DEBUG
int gpurt_selftest(void);
#else
static inline int gpurt_selftest(void) { return 0; }
#endif

#ifdef GPURT_KUNIT
extern struct kunit_suite gpurt_ring_suite;
void gpurt_kunit_start(void);
void gpurt_kunit_stop(void);
#else
static inline void gpurt_kunit_start(void) { }
static inline void gpurt_kunit_stop(void) { }
#endif

#endif
