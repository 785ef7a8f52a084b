// SPDX-License-Identifier: GPL-2.0
/*
 * The adapter of patched drivers (kmod/drv/port*.c, as adapter.inc) between a driver and a scheduler that are a few lines
 * each.  Whatever a hook of the driver does while it holds a mutex is counted: drivers wait for it.
 */
#include <sys/resource.h>

#include "../random.h"
#include "shim.h"
#include "adapter.inc"

#define MOST 20		/* clients or processes that a mutex may be held for */
#define PROCESSES 5
#define CROWD 1000

/* gpurt. */
struct gpurt_client {
	struct port_client *ctx;	/* NULL: closed */
	int process, tsgs;
	bool due;			/* its work was killed, and it is not told */
};
struct gpurt_gpu {
	struct gpurt_driver_ops ops;
	void *driver;
	int resets, suspends;
};
static struct pid pids[CROWD];
static bool by_rule[CROWD];		/* processes that are exempt by the rules */
static struct gpurt_gpu *registered;
static int register_error, told;

void gpurt_client_tsgs_changed(struct gpurt_client *client, int delta)
{
	assert(client->ctx != (void *)-1 && ++in_hold <= MOST);
	client->tsgs += delta;
	told++;
}

void gpurt_client_killed(struct gpurt_client *client)
{
	assert(client->due && ++in_hold <= MOST);
	client->due = false;
	told++;
}

bool gpurt_process_is_exempt(struct pid *tgid)
{
	assert(tgid->references > 0 && ++in_hold <= MOST);
	return by_rule[tgid->number];
}

bool gpurt_process_may_run(struct gpurt_gpu *gpu, const struct pid *tgid)
{
	return false;
}

int gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver, struct gpurt_gpu **gpu)
{
	*gpu = register_error ? NULL : allocate(sizeof(**gpu), true);
	if (!*gpu)
		return register_error ?: -ENOMEM;
	(*gpu)->ops = *ops;
	(*gpu)->driver = driver;
	registered = *gpu;
	return 0;
}

void gpurt_gpu_unregister(struct gpurt_gpu *gpu)
{
	struct gpurt_commit everyone = { .only = NULL };

	gpu->ops.commit(gpu->driver, &everyone);
	registered = NULL;
	free(gpu);
}

/* One GPU is there at a time. */
u32 gpurt_gpu_number(const struct gpurt_gpu *gpu)
{
	assert(gpu == registered);
	return 0;
}

/* Another CPU may tell of the end of a reset meanwhile, or of another reset: that comes before or after. */
void gpurt_gpu_reset_begin(struct gpurt_gpu *gpu)
{
	assert(raw_spinning);
	gpu->resets++;
}

void gpurt_gpu_reset_done(struct gpurt_gpu *gpu)
{
	assert(raw_spinning);
	gpu->resets--;
}

void gpurt_gpu_suspend(struct gpurt_gpu *gpu)
{
	gpu->suspends++;
}

void gpurt_gpu_resume(struct gpurt_gpu *gpu)
{
	gpu->suspends--;
}

/* The driver. */
static struct module module;
static const struct gpurt_hooks *attached;
static int attach_error, commit_error, commits, looked_up;
static u32 port_version = GPURT_PORT_VERSION;
static bool loaded;

static int driver_attach(const struct gpurt_hooks *hooks)
{
	assert(!attached);
	if (!attach_error)
		attached = hooks;
	return attach_error;
}

static void driver_detach(void)
{
	attached = NULL;
}

static int driver_commit(void *gpu)
{
	assert(!raw_spinning);
	commits++;
	return commit_error;
}

static struct gpurt_port the_port = {
	.owner = &module, .attach = driver_attach, .detach = driver_detach, .commit = driver_commit,
};

static void *__symbol_get(const char *symbol)
{
	looked_up++;
	the_port.version = port_version;
	return loaded && !strcmp(symbol, "amdgpu_gpurt_port") ? &the_port : NULL;
}

/* Processes and their clients. */
static struct port_processes all;
static struct gpurt_client clients[CROWD];
static int tsgs[CROWD];			/* of a process, as the driver told */
static bool exempt[CROWD];		/* model: by the rules that counted */

static bool open_client(struct gpurt_client *c, int process)
{
	*c = (struct gpurt_client){ .process = process };
	c->ctx = port_client_make(&all, &pids[process], c);
	return c->ctx;
}

static void close_client(struct gpurt_client *c)
{
	port_client_free(&all, c->ctx);
	c->ctx = NULL;
}

static void change_tsgs(int process, int change)
{
	get_pid(&pids[process]);	/* the driver has one meanwhile */
	if (!tsgs[process])
		exempt[process] = by_rule[process];
	tsgs[process] += change;
	port_processes_tsgs(&all, &pids[process], change);
	put_pid(&pids[process]);
}

static void kill_process(int process)
{
	int i;

	for (i = 0; i < CROWD; i++)
		if (clients[i].ctx && clients[i].process == process)
			clients[i].due = true;
	port_processes_killed(&all, &pids[process]);
}

static void change_rules(void)
{
	int i;

	port_processes_exemptions(&all);
	for (i = 0; i < CROWD; i++)
		if (tsgs[i])
			exempt[i] = by_rule[i];
}

static bool run_a_worker(void)
{
	if (list_empty(&works))
		return false;
	flush_work(list_first_entry(&works, struct work_struct, node));
	return true;
}

static void check_told(void)
{
	int i;

	while (run_a_worker())
		;
	for (i = 0; i < CROWD; i++) {
		assert(!clients[i].ctx || (clients[i].tsgs == tsgs[clients[i].process] && !clients[i].due));
		assert(port_processes_is_exempt(&all, &pids[i]) == (tsgs[i] && exempt[i]) || !tsgs[i]);
	}
}

static void start(void)
{
	int i;

	memset(clients, 0, sizeof(clients));
	memset(tsgs, 0, sizeof(tsgs));
	memset(by_rule, 0, sizeof(by_rule));
	memset(exempt, 0, sizeof(exempt));
	for (i = 0; i < CROWD; i++)
		pids[i] = (struct pid){ .number = i };
	memset(&all, 0, sizeof(all));
	port_processes_init(&all);
}

/* TSGs may be left: a GPU may go while there are some. */
static void stop(void)
{
	int i;

	for (i = 0; i < CROWD; i++)
		if (clients[i].ctx)
			close_client(&clients[i]);
	port_processes_stop(&all);
	assert(list_empty(&works));
	for (i = 0; i < CROWD; i++)
		assert(!pids[i].references);
}

/* Defect 24: one process with very many clients, whose TSGs come, go, and are killed. */
static void test_many_clients(void)
{
	int i, workers;

	start();
	for (i = 0; i < CROWD; i++)
		assert(open_client(&clients[i], 0));
	port_client_alone(&all, clients[CROWD / 2].ctx);
	told = 0;
	change_tsgs(0, 1);
	assert(told && told <= MOST && clients[CROWD / 2].tsgs == 1);
	for (workers = 0; run_a_worker(); workers++)
		;
	assert(workers >= CROWD / MOST && told == CROWD);
	check_told();
	change_tsgs(0, 2);
	change_tsgs(0, -3);		/* the worker finds the last number only */
	told = 0;
	kill_process(0);
	assert(told == 1 && !clients[CROWD / 2].due);
	check_told();
	stop();
}

/* Many processes; the rules change. */
static void test_many_processes(void)
{
	int i;

	start();
	for (i = 0; i < CROWD; i++)
		change_tsgs(i, 1);
	for (i = 0; i < CROWD; i++)
		by_rule[i] = i % 2;
	change_rules();
	check_told();
	assert(port_processes_is_exempt(&all, &pids[1]) && !port_processes_is_exempt(&all, &pids[2]));
	stop();
}

static void test_allocations(void)
{
	int nth;

	for (nth = 1; nth <= 2; nth++) {
		start();
		change_tsgs(1, 1);
		fail_nth = nth;
		assert(!open_client(&clients[0], 0) && !fail_nth);
		fail_nth = nth;
		assert(!open_client(&clients[0], 1) && !fail_nth);
		fail_nth = nth;
		change_tsgs(2, 1);	/* the driver tells it once */
		fail_nth = 0;
		assert(open_client(&clients[0], 2) && clients[0].tsgs == 1);
		stop();
	}
}

static void end_process(int process)
{
	int i;

	for (i = 0; i < CROWD; i++)
		if (clients[i].ctx && clients[i].process == process)
			close_client(&clients[i]);
	if (tsgs[process])
		change_tsgs(process, -tsgs[process]);
}

/* Half of the clients are of one process. */
static void step(void)
{
	struct gpurt_client *c = &clients[below(40)];
	int process = below(2) ? below(PROCESSES) : 0;

	switch (below(9)) {
	case 0:
	case 1:
		fail_nth = below(10);
		if (!c->ctx)
			open_client(c, process);
		else if (!below(3))
			close_client(c);
		fail_nth = 0;
		break;
	case 2:
		change_tsgs(process, 1 + below(3));
		break;
	case 3:
		if (tsgs[process])
			change_tsgs(process, -1 - below(tsgs[process]));
		break;
	case 4:
		kill_process(process);
		break;
	case 5:
		port_client_alone(&all, c->ctx);
		break;
	case 6:
		run_a_worker();
		break;
	case 7:
		by_rule[process] = below(2);
		if (!below(3))
			change_rules();
		break;
	case 8:
		if (!below(4))
			end_process(process);
		break;
	}
	if (!below(20))
		check_told();
}

static void test_random(int rounds)
{
	int round, i;

	for (round = 1; round <= rounds; round++) {
		seed = (uint32_t)round * 2654435761u;
		start();
		for (i = 0; i < 300; i++)
			step();
		check_told();
		stop();
	}
}

/* GPUs. */
static const struct port_driver driver_of_gpus = { .name = "amdgpu", .port = &the_port, .owner = &module };
static int handles[100];

static char *described(void)
{
	static char page[PAGE_SIZE];
	int before = mutexes;

	assert(describe(page, NULL) == (int)strlen(page) && strlen(page) < PAGE_SIZE - 1);
	assert(mutexes == before);	/* any process may have it told */
	return page;
}

static void add(int gpu, const char *refused)
{
	char name[40];

	snprintf(name, sizeof(name), "0000:%02x:00.0", gpu);
	port_gpu_added(&driver_of_gpus, &handles[gpu], name, refused);
}

static int commit(void *only)
{
	return registered->ops.commit(registered->driver, &(struct gpurt_commit){ .only = only });
}

/* Whatever fails, the driver may go on as if gpurt were not there. */
static void test_a_gpu_that_cannot_be_added(void)
{
	static const struct {
		int nth, error;
		const char *refused, *said;
	} cases[] = {
		{ 1, 0, NULL, "" }, { 2, 0, NULL, "could not register it" }, { 0, -ENOSPC, NULL, "as many GPUs as it can" },
		{ 0, 0, "why not", "reason=why not" },
	};
	struct pid pid = { .references = 1 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fail_nth = cases[i].nth;
		register_error = cases[i].error;
		add(0, cases[i].refused);
		register_error = 0;
		assert(!registered && !fail_nth && strstr(described(), cases[i].said));
		assert(port_gpu_may_run(&handles[0], &pid));
		port_gpu_tsgs(&handles[0], &pid, 1);
		port_gpu_killed(&handles[0], &pid);
		port_gpu_reset(&handles[0], true);
		port_gpus_sleep(true);
		port_gpus_sleep(false);
		port_gpu_removed(&handles[0]);
		assert(!*described() && pid.references == 1);
	}
	port_gpu_removed(&handles[1]);	/* was never added */
}

/* A GPU that stayed would have the driver's commit() called when its module has gone. */
static void test_a_gpu_that_is_added_twice(void)
{
	const struct gpurt_gpu *first;

	logged = 0;
	add(0, NULL);
	first = registered;
	add(0, NULL);
	assert(registered == first && logged == 1);
	port_gpu_removed(&handles[0]);
	assert(!registered && !*described());
	logged = 0;
}

static void test_commits(void)
{
	static const int given[] = { 0, -EIO, -ETIMEDOUT, -EOPNOTSUPP, -EINPROGRESS, -ENOTRECOVERABLE, 1 };
	static const int wanted[] = { 0, -EIO, -ETIMEDOUT, -EOPNOTSUPP, -EIO, -EIO, -EIO };
	struct gpurt_client *client = &clients[0];
	size_t i;

	start();
	add(0, NULL);
	assert(!registered->ops.client_open(registered->driver, &pids[0], client, (void **)&client->ctx));
	for (i = 0; i < ARRAY_SIZE(given); i++) {
		commit_error = given[i];
		assert(commit(client->ctx) == wanted[i]);
	}
	commit_error = -EOPNOTSUPP;
	commit(NULL);
	assert(strstr(described(), "state=unable error=-95"));
	commit_error = 0;
	port_gpu_reset(&handles[0], true);
	port_gpu_reset(&handles[0], true);	/* the first one failed, and has no end */
	assert(registered->resets == 1 && strstr(described(), "state=resetting"));
	port_gpu_reset(&handles[0], false);
	port_gpu_reset(&handles[0], false);
	port_gpus_sleep(true);
	assert(!registered->resets && registered->suspends == 1 && strstr(described(), "state=suspended"));
	port_gpus_sleep(false);
	assert(!registered->suspends);
	find_gpu(&handles[0])->asks.counter = -1;	/* as often as users like */
	assert(strstr(described(), "asks=4294967295\n"));
	registered->ops.client_close(registered->driver, client->ctx);
	client->ctx = NULL;
	port_gpu_removed(&handles[0]);
	assert(!pids[0].references);
}

/* More GPUs than a page has room for: whole lines, and how many are missing. */
static void test_a_page(void)
{
	static const char *const why = "a reason that is as long as the adapter keeps it, which is some eighty characters";
	int number, lines, more;
	char *at, *text;

	for (number = 0; number < 100; number++)
		add(number, why);
	text = described();
	for (lines = 0, at = text; *at; at = strchr(at, '\n') + 1, lines++)
		assert(strchr(at, '\n') && strstr(at, " reason="));
	at = strstr(text, "driver=- device=- gpu=- state=more error=0 asks=0 reason=");
	assert(at && sscanf(strstr(at, "reason="), "reason=%d more", &more) == 1 && lines - 1 + more == 100);
	while (number)
		port_gpu_removed(&handles[--number]);
	assert(!*described());
}

/* Any module that comes or goes has the adapter look for drivers; it says once what is wrong with one. */
static void test_what_is_logged(void)
{
	int i;

	assert(!gpurt_port_start() && looked_up && !logged);
	loaded = true;
	port_version = 77;
	for (i = 0; i < 100; i++)
		module_changes(NULL, MODULE_STATE_LIVE, NULL);
	assert(logged == 1 && !attached && strstr(described(), "its port has version 77, this module needs"));
	loaded = false;
	module_changes(NULL, MODULE_STATE_GOING, &module);
	assert(!*described());
	loaded = true;
	module_changes(NULL, MODULE_STATE_LIVE, &module);
	assert(logged == 2);
	port_version = GPURT_PORT_VERSION;
	attach_error = -EBUSY;
	for (i = 0; i < 100; i++)
		module_changes(NULL, MODULE_STATE_LIVE, NULL);
	assert(logged == 3 && strstr(described(), "error=-16"));
	attach_error = 0;
	module_changes(NULL, MODULE_STATE_LIVE, NULL);
	assert(logged == 3 && attached && !*described());
	gpurt_port_stop();
	assert(!attached);
	module_changes(NULL, MODULE_STATE_LIVE, NULL);
	assert(!attached);
	logged = 0;
}

int main(int argc, char **argv)
{
	setrlimit(RLIMIT_CPU, &(struct rlimit){ 5, 5 });	/* a list that a bug made a ring has no end */
	test_what_is_logged();
	test_many_clients();
	test_many_processes();
	test_allocations();
	test_random(argc > 1 ? atoi(argv[1]) : 500);
	test_a_gpu_that_cannot_be_added();
	test_a_gpu_that_is_added_twice();
	test_commits();
	test_a_page();
	puts("ok");
	return 0;
}
