// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-ring; part of events.c. */
#include <kunit/test.h>

/* Nobody listens, or somebody else would take what is put in here. */
static void ring_keeps_order_and_counts_what_is_lost(struct kunit *test)
{
	struct gpurt_record r = { .event = GPURT_EVENT_BEGIN };
	int i;

	KUNIT_ASSERT_FALSE(test, gpurt_netlink_heard());
	for (i = 0; i < RING + 5; i++) {
		r.time = i;
		put(&r);
	}
	for (i = 0; i < RING; i++) {
		KUNIT_ASSERT_TRUE(test, take(&r));
		KUNIT_ASSERT_EQ(test, r.time, (u64)i);
	}
	KUNIT_ASSERT_TRUE(test, take(&r));
	KUNIT_EXPECT_EQ(test, r.event, (u32)GPURT_EVENT_LOST);
	KUNIT_EXPECT_EQ(test, r.latency, 5ULL);
	KUNIT_EXPECT_FALSE(test, take(&r));
}

/* The counters of writes and reads are compared by difference. */
static void ring_survives_the_wrap_of_its_counters(struct kunit *test)
{
	struct gpurt_record r = { .event = GPURT_EVENT_BEGIN };
	int i;

	head = -3;
	tail = -3;
	for (i = 0; i < 2 * RING; i++) {
		r.time = i;
		put(&r);
		KUNIT_ASSERT_TRUE(test, take(&r));
		KUNIT_ASSERT_EQ(test, r.time, (u64)i);
	}
	KUNIT_EXPECT_FALSE(test, take(&r));
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_keeps_order_and_counts_what_is_lost),
	KUNIT_CASE(ring_survives_the_wrap_of_its_counters),
	{}
};

struct kunit_suite gpurt_ring_suite = {
	.name = "gpurt-ring",
	.test_cases = ring_cases,
};
