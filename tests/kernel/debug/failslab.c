// SPDX-License-Identifier: GPL-2.0
/*
 * failslab: does everything the module offers, again and again, until no memory allocation is left to fail.  Each time
 * the next allocation on the way fails.  A call must then fail with ENOMEM (ENOBUFS: netlink's own words for it) or do
 * its work all the same, and afterwards everything must work.  Prints a line for each thing with how many allocations
 * were made to fail; exits 1 when one ended in any other way.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "genl.h"

#define MUST(x) do { \
	if (!(x)) { \
		printf("failslab: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); \
		exit(1); \
	} \
} while (0)

/* The objects that there are; a thing that makes one leaves it to be undone by `after`. */
static int fd = -1, control = -1, family, fail_nth = -1;
static uint32_t tsg;

static int code(int ret)
{
	return ret < 0 ? -errno : 0;
}

static int call(unsigned long request, void *argument)
{
	return code(ioctl(fd, request, argument));
}

static int do_open(void)
{
	fd = open("/dev/gpurt", O_RDWR);
	return code(fd);
}

static void do_close(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}

static int query(void)
{
	struct gpurt_query q = { .size = sizeof(q) };

	return call(GPURT_IOC_QUERY, &q);
}

static int begin(void)
{
	struct gpurt_begin b = { .size = sizeof(b), .priority = 50 };

	return call(GPURT_IOC_BEGIN, &b);
}

static int end(void)
{
	struct gpurt_end e = { .size = sizeof(e) };

	return call(GPURT_IOC_END, &e);
}

static int tsg_open(void)
{
	struct gpurt_tsg t = { .size = sizeof(t) };
	int ret = call(GPURT_IOC_TSG_OPEN, &t);

	tsg = t.tsg;
	return ret;
}

static int tsg_close(void)
{
	struct gpurt_tsg t = { .size = sizeof(t), .tsg = tsg };

	return call(GPURT_IOC_TSG_CLOSE, &t);
}

static int copy(void)
{
	struct gpurt_copy c = { .size = sizeof(c), .what = GPURT_COPY_BEGIN };

	return call(GPURT_IOC_COPY, &c);
}

static int join(void)
{
	struct gpurt_group_join j = { .size = sizeof(j), .name = "failslab" };

	return call(GPURT_IOC_GROUP_JOIN, &j);
}

static int submit(void)
{
	struct gpurt_submit s = { .size = sizeof(s), .tsg = tsg, .duration_ns = 1000 };

	return call(GPURT_IOC_SUBMIT, &s);
}

static int idle(void)
{
	struct gpurt_wait w = { .size = sizeof(w), .what = GPURT_WAIT_IDLE, .timeout_ns = GPURT_FOREVER };

	return call(GPURT_IOC_WAIT, &w);
}

/* One GPU of agents beside the virtual one, or none. */
static int agent_gpus(const char *number)
{
	int file = open("/sys/module/gpurt/parameters/agent_gpus", O_WRONLY);
	int ret = file < 0 ? -errno : code((int)write(file, number, strlen(number)));

	if (file >= 0)
		close(file);
	return ret;
}

static int make_agent_gpu(void) { return agent_gpus("1"); }

static int agent(void)
{
	struct gpurt_agent a = { .size = sizeof(a), .gpu = 1, .tsgs = 1, .driver = "failslab" };

	return call(GPURT_IOC_AGENT, &a);
}

/* Before and after the things below. */

static void must_open(void)
{
	MUST(!do_open());
}

static void must_make_agent_gpu(void)
{
	MUST(!make_agent_gpu());
	must_open();
}

static void drop_agent_gpu(void)
{
	do_close();
	MUST(!agent_gpus("0"));
}

static void must_join(void)
{
	must_open();
	MUST(!join());
}

static void must_open_tsg(void)
{
	must_open();
	MUST(!tsg_open());
}

static void must_begin(void)
{
	must_open_tsg();
	MUST(!begin());
	MUST(!submit());
}

static void must_connect(void)
{
	must_begin();
	control = genl_open();
	MUST(control >= 0);
}

static void do_disconnect(void)
{
	close(control);
	do_close();
}

/* The control plane. */

static int get(uint8_t command, uint16_t flags)
{
	struct genl m;

	genl_start(&m, (uint16_t)family, command, flags);
	return genl_call(control, &m);
}

static int get_status(void) { return get(GPURT_CMD_GET_STATUS, NLM_F_DUMP); }
static int get_clients(void) { return get(GPURT_CMD_GET_CLIENTS, NLM_F_DUMP); }
static int get_latency(void) { return get(GPURT_CMD_GET_LATENCY, NLM_F_DUMP); }
static int get_bus(void) { return get(GPURT_CMD_GET_BUS, NLM_F_DUMP); }
static int get_rules(void) { return get(GPURT_CMD_GET_RULES, NLM_F_DUMP); }

static int set_priority(void)
{
	struct genl m;

	genl_start(&m, (uint16_t)family, GPURT_CMD_SET_PRIORITY, 0);
	genl_add_u32(&m, GPURT_A_PID, (uint32_t)getpid());
	genl_add_u32(&m, GPURT_A_PRIORITY, 60);
	return genl_call(control, &m);
}

static int set_group(void)
{
	struct genl m;

	genl_start(&m, (uint16_t)family, GPURT_CMD_SET_GROUP, 0);
	genl_add(&m, GPURT_A_GROUP, "failslab", sizeof("failslab"));
	genl_add_u32(&m, GPURT_A_PID, (uint32_t)getpid());
	return genl_call(control, &m);
}

static int set_budget(void)
{
	struct genl m;

	genl_start(&m, (uint16_t)family, GPURT_CMD_SET_BUDGET, 0);
	genl_add_u32(&m, GPURT_A_PID, (uint32_t)getpid());
	genl_add_u64(&m, GPURT_A_BUDGET_NS, 1000000000);
	genl_add_u64(&m, GPURT_A_PERIOD_NS, 10000000000);
	return genl_call(control, &m);
}

static int exempt(uint32_t on)
{
	struct genl m;

	genl_start(&m, (uint16_t)family, GPURT_CMD_SET_EXEMPT, 0);
	genl_add_u32(&m, GPURT_A_EXEMPT, on);
	genl_add(&m, GPURT_A_COMM, "failslab", sizeof("failslab"));
	return genl_call(control, &m);
}

static int set_exempt(void) { return exempt(1); }

static void unset_exempt(void)
{
	exempt(0);
	do_disconnect();
}

static int policy(uint32_t policy)
{
	struct genl m;

	genl_start(&m, (uint16_t)family, GPURT_CMD_SET_POLICY, 0);
	genl_add_u32(&m, GPURT_A_POLICY, policy);
	genl_add_u32(&m, GPURT_A_NOTICE, GPURT_NOTICE_NOTIFY);
	return genl_call(control, &m);
}

static int set_policy(void) { return policy(GPURT_POLICY_JOB); }

static void unset_policy(void)
{
	MUST(!policy(GPURT_POLICY_SEGMENT));
	do_disconnect();
}

static const struct thing {
	const char *name;
	void (*before)(void);
	int (*what)(void);
	void (*after)(void);
	unsigned int least;	/* so many allocations can fail, for we know of them */
} things[] = {
	{ "open", NULL, do_open, do_close, 2 },
	{ "query", must_open, query, do_close, 0 },
	{ "first begin", must_open, begin, do_close, 2 },
	{ "begin", must_open_tsg, begin, do_close, 0 },
	{ "end", must_begin, end, do_close, 0 },
	{ "first copy", must_open, copy, do_close, 2 },
	{ "copy", must_open_tsg, copy, do_close, 0 },
	{ "first tsg", must_open, tsg_open, do_close, 3 },
	{ "tsg", must_open_tsg, tsg_open, do_close, 1 },
	{ "close tsg", must_open_tsg, tsg_close, do_close, 0 },
	{ "join", must_open, join, do_close, 1 },
	{ "join as a client", must_open_tsg, join, do_close, 2 },
	{ "first tsg of a member", must_join, tsg_open, do_close, 4 },
	{ "submit", must_open_tsg, submit, do_close, 1 },
	{ "wait", must_begin, idle, do_close, 0 },
	{ "status", must_connect, get_status, do_disconnect, 1 },
	{ "clients", must_connect, get_clients, do_disconnect, 1 },
	{ "latency", must_connect, get_latency, do_disconnect, 1 },
	{ "bus", must_connect, get_bus, do_disconnect, 1 },
	{ "rules", must_connect, get_rules, do_disconnect, 1 },
	{ "priority", must_connect, set_priority, do_disconnect, 1 },
	{ "group", must_connect, set_group, do_disconnect, 3 },
	{ "budget", must_connect, set_budget, do_disconnect, 1 },
	{ "exempt", must_connect, set_exempt, unset_exempt, 2 },
	{ "policy", must_connect, set_policy, unset_policy, 2 },
	{ "agent GPU", NULL, make_agent_gpu, drop_agent_gpu, 2 },
	{ "first agent", must_make_agent_gpu, agent, drop_agent_gpu, 3 },
};

static void arm(unsigned int nth)
{
	char text[16];
	int size = snprintf(text, sizeof(text), "%u", nth);

	MUST(pwrite(fail_nth, text, (size_t)size, 0) == size);
}

/* Whether the allocation was reached, hence failed. */
static int disarm(void)
{
	char text[16] = "";

	MUST(pread(fail_nth, text, sizeof(text) - 1, 0) > 0);
	arm(0);
	return atoi(text) == 0;
}

/* How many allocations failed on the way, one at a time. */
static unsigned int fail_each(const struct thing *t)
{
	unsigned int nth;
	int err, failed;

	for (nth = 1;; nth++) {
		if (t->before)
			t->before();
		arm(nth);
		err = t->what();
		failed = disarm();
		if (err && (!failed || (err != -ENOMEM && err != -ENOBUFS))) {
			printf("failslab: %s: allocation %u%s: error %d\n", t->name, nth,
			       failed ? "" : " (none failed)", err);
			exit(1);
		}
		t->after();
		if (!failed)
			return nth - 1;
	}
}

static void set(const char *name, const char *value)
{
	char path[80];
	int file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/failslab/%s", name);
	file = open(path, O_WRONLY);
	MUST(file >= 0 && write(file, value, strlen(value)) > 0);
	close(file);
}

int main(void)
{
	unsigned int i, failed;

	setlinebuf(stdout);
	/* Also allocations that may wait, which are nearly all; and not a word about each. */
	set("ignore-gfp-wait", "N");
	set("verbose", "0");
	fail_nth = open("/proc/self/fail-nth", O_RDWR);
	MUST(fail_nth >= 0);
	control = genl_open();
	family = genl_family(control, NULL);
	MUST(family > 0);
	close(control);
	for (i = 0; i < sizeof(things) / sizeof(*things); i++) {
		failed = fail_each(&things[i]);
		printf("%s %u\n", things[i].name, failed);
		if (failed < things[i].least) {
			printf("failslab: %s: too few: are allocations failing at all?\n", things[i].name);
			return 1;
		}
	}
	return 0;
}
