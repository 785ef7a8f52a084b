// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that the patches change in amdgpu, cut out of the patched source (driver.inc), on hardware that is a
 * set of mapped queues.  After each step the set is compared with what a model of a few lines says.
 */
#include "../random.h"
#include "shim.h"
#include "driver.inc"

#define PROCESSES 5
#define QUEUES 3

static struct device_queue_manager dqm;
static struct test_process processes[PROCESSES];
static bool mapped[PROCESSES * QUEUES];		/* the hardware */
static bool allowed[PROCESSES];			/* what gpurt answers */
static bool off[PROCESSES];			/* model: what it answered when it counted */
static int updates, calls, failures, added, removed;

static int number_of(void *mqd)
{
	return (int)(intptr_t)mqd - 1;
}

static int pm_send_runlist(struct packet_manager *pm, struct list_head *queues)
{
	struct device_process_node *node;
	struct queue *q;

	assert(dqm_held);
	list_for_each_entry(node, queues, list)
		list_for_each_entry(q, &node->qpd->queues_list, list)
			mapped[number_of(q->mqd)] = q->properties.is_active;
	return 0;
}

static int pm_send_unmap_queue(struct packet_manager *pm, enum kfd_unmap_queues_filter filter, uint32_t param, bool reset)
{
	assert(dqm_held);
	updates++;
	if (failures && failures--)
		return -ETIME;
	memset(mapped, 0, sizeof(mapped));
	return 0;
}

static int pm_send_query_status(struct packet_manager *pm, uint64_t address, uint32_t value)
{
	return 0;
}

static int add_queue_mes(struct device_queue_manager *manager, struct queue *q, struct qcm_process_device *qpd)
{
	assert(dqm_held && !mapped[number_of(q->mqd)]);
	calls++;
	if (failures && failures--)
		return -EIO;
	mapped[number_of(q->mqd)] = true;
	return 0;
}

static int remove_queue_mes(struct device_queue_manager *manager, struct queue *q, struct qcm_process_device *qpd)
{
	assert(dqm_held && mapped[number_of(q->mqd)]);
	calls++;
	if (failures && failures--)
		return -EIO;
	mapped[number_of(q->mqd)] = false;
	return 0;
}

static void *allocate_mqd(void *owner, struct queue_properties *properties)
{
	return (void *)(intptr_t)(properties->queue_id + 1);
}

static void init_mqd(struct mqd_manager *mgr, void **mqd, void *obj, uint64_t *addr, struct queue_properties *q)
{
	*mqd = obj;
	q->is_active = QUEUE_IS_ACTIVE(*q);
}

/* Memory that the hardware still uses would be given away. */
static void free_mqd(struct mqd_manager *mgr, void *mqd, void *obj)
{
	assert(!mapped[number_of(mqd)] && !dqm_held);
}

static bool preempted(void *mqd)
{
	return false;
}

static bool preemption_failed(struct mqd_manager *mgr, void *mqd)
{
	return false;
}

static int update_qpd(struct device_queue_manager *manager, struct qcm_process_device *qpd)
{
	return 0;
}

/* gpurt. */
static const char *own_name = "card";

static void gpu_added(void *gpu, const char *name, const char *refused)
{
	assert(gpu == &dqm && !strcmp(name, own_name) && !!refused == (dqm.sched_policy == KFD_SCHED_POLICY_NO_HWS));
	assert(!dqm_held && !spinning);
	added++;
}

static void gpu_removed(void *gpu)
{
	assert(!dqm_held && !spinning);
	removed++;
}

static void tsgs(void *gpu, struct pid *tgid, int change)
{
	assert(added > removed && !dqm_held && !spinning);
	container_of(tgid, struct test_process, pid)->tsgs += change;
}

static bool may_run(void *gpu, struct pid *tgid)
{
	assert(dqm_held && tgid->references > 0);
	return allowed[tgid->number];
}

static int kills, resets;

static void killed(void *gpu, struct pid *tgid)
{
	assert(tgid->references > 0);
	kills++;
}

static void reset(void *gpu, bool begins)
{
	resets += begins ? 1 : -1;
}

static const struct gpurt_hooks ours = {
	.version = GPURT_PORT_VERSION, .added = gpu_added, .removed = gpu_removed, .tsgs = tsgs, .may_run = may_run,
	.killed = killed, .reset = reset,
};

/* What processes do. */
static bool has_queues(int i)
{
	return !list_empty(&processes[i].pdd.qpd.queues_list);
}

static void create(int i, int slot)
{
	struct test_process *p = &processes[i];
	struct queue *q = calloc(1, sizeof(*q));

	q->process = &p->process;
	q->properties.queue_id = i * QUEUES + slot;
	q->properties.queue_percent = 100;
	if (!has_queues(i)) {
		off[i] = hooks && dqm.sched_policy != KFD_SCHED_POLICY_NO_HWS && !allowed[i];
		assert(!register_process(&dqm, &p->pdd.qpd));
	}
	assert(!create_queue_cpsch(&dqm, q, &p->pdd.qpd, NULL, NULL, NULL));
	p->queues[slot] = q;
}

static void destroy(int i, int slot)
{
	struct test_process *p = &processes[i];

	assert(!destroy_queue_cpsch(&dqm, &p->pdd.qpd, p->queues[slot]));
	free(p->queues[slot]);
	p->queues[slot] = NULL;
	if (!has_queues(i)) {
		assert(!unregister_process(&dqm, &p->pdd.qpd));
		off[i] = false;
		assert(p->pdd.qpd.evicted == (unsigned int)p->evictions);
	}
}

/* Memory pressure, SVM, CRIU, a reset: they nest.  Under MES each needs a flush before the memory is given away. */
static void evict(int i)
{
	int before = flushes;

	assert(!evict_process_queues_cpsch(&dqm, &processes[i].pdd.qpd));
	assert(flushes - before == (FLUSHES && dqm.dev->shared_resources.enable_mes && processes[i].pdd.drm_priv));
	processes[i].evictions++;
}

static void restore(int i)
{
	assert(!restore_process_queues_cpsch(&dqm, &processes[i].pdd.qpd));
	processes[i].evictions--;
}

static void born(int i)
{
	struct test_process *p = &processes[i];

	memset(p, 0, sizeof(*p));
	p->pid.number = i;
	p->leader.pid = &p->pid;
	p->process.lead_thread = &p->leader;
	p->pqm.process = &p->process;
	p->pdd.process = &p->process;
	p->pdd.drm_priv = p->pdd.drm_file = p;
	p->pdd.qpd.pqm = &p->pqm;
	INIT_LIST_HEAD(&p->pdd.qpd.queues_list);
	INIT_LIST_HEAD(&p->pdd.qpd.priv_queue_list);
}

static void die(int i)
{
	struct test_process *p = &processes[i];
	int slot;

	assert(!process_termination_cpsch(&dqm, &p->pdd.qpd));
	for (slot = 0; slot < QUEUES; slot++)
		free(p->queues[slot]);
	assert(!p->pid.references && !p->tsgs);
	off[i] = false;
	born(i);
}

static void commit_now(int wanted)
{
	int i, before = updates, flushed = flushes;

	assert(amdgpu_gpurt_port.commit(&dqm) == wanted);
	assert(updates - before <= 1 && flushes == flushed);
	for (i = 0; i < PROCESSES; i++)
		off[i] = has_queues(i) && hooks && !allowed[i];
}

/* The hardware has what the model says. */
static void check(void)
{
	int i, slot;

	for (i = 0; i < PROCESSES; i++) {
		for (slot = 0; slot < QUEUES; slot++)
			assert(mapped[i * QUEUES + slot] ==
			       (processes[i].queues[slot] && dqm.sched_running && !off[i] && !processes[i].evictions));
		assert(processes[i].tsgs == (hooks && has_queues(i)));
		assert(processes[i].pid.references == has_queues(i));
	}
	assert(!dqm_held && !spinning && !failures);
}

static void allow_only(int alone)
{
	int i;

	for (i = 0; i < PROCESSES; i++)
		allowed[i] = alone < 0 || i == alone;
}

static void start(bool mes)
{
	static struct mqd_manager mgr = {
		.allocate_mqd = allocate_mqd, .init_mqd = init_mqd, .free_mqd = free_mqd, .read_doorbell_id = preempted,
		.check_preemption_failed = preemption_failed,
	};
	static struct amdgpu_device adev;
	static struct kfd_dev dev = { .adev = &adev };
	static struct queue hiq;
	static struct kernel_queue hiq_queue = { .queue = &hiq };
	static uint64_t fence;
	int i;

	memset(&dqm, 0, sizeof(dqm));
	memset(mapped, 0, sizeof(mapped));
	memset(off, 0, sizeof(off));
	adev.reset_domain = (void *)&adev;
	dev.kfd = &dev;
	dev.shared_resources.enable_mes = mes;
	dqm.dev = &dev;
	dqm.mqd_mgrs[KFD_MQD_TYPE_CP] = dqm.mqd_mgrs[KFD_MQD_TYPE_HIQ] = &mgr;
	dqm.asic_ops.update_qpd = update_qpd;
	dqm.packet_mgr.priv_queue = &hiq_queue;
	dqm.fence_addr = &fence;
	dqm.sched_running = true;
	INIT_LIST_HEAD(&dqm.queues);
	INIT_LIST_HEAD(&dqm.owners);
	allow_only(-1);
	added = removed = resets = kills = 0;
	for (i = 0; i < PROCESSES; i++)
		born(i);
	kfd_gpurt_gpu_added(&dqm);
}

static void stop(void)
{
	int i;

	for (i = 0; i < PROCESSES; i++)
		if (has_queues(i))
			die(i);
	if (hooks)
		amdgpu_gpurt_port.detach();
	kfd_gpurt_gpu_removed(&dqm);
	assert(added == removed && list_empty(&dqm.owners));
}

static void attach_ours(void)
{
	assert(!amdgpu_gpurt_port.attach(&ours));
}

/* gpurt comes and goes while there are queues: others' versions and a second one are refused. */
static void test_attach(bool mes)
{
	struct gpurt_hooks other = ours;

	start(mes);
	create(0, 0);
	create(1, 0);
	create(1, 1);
	check();
	other.version++;
	assert(amdgpu_gpurt_port.attach(&other) == -EINVAL && !hooks);
	attach_ours();
	assert(amdgpu_gpurt_port.attach(&ours) == -EBUSY && added == 1);
	check();
	allow_only(1);
	commit_now(0);
	assert(!mapped[0] && mapped[QUEUES]);
	check();
	amdgpu_gpurt_port.detach();
	assert(removed == 1 && mapped[0]);
	memset(off, 0, sizeof(off));
	processes[0].tsgs = processes[1].tsgs = 0;	/* gpurt forgets them with the GPU */
	check();
	stop();
}

/* One update for all processes; none if nothing has changed. */
static void test_one_update(bool mes)
{
	int i, before;

	start(mes);
	attach_ours();
	for (i = 0; i < PROCESSES; i++)
		create(i, i % QUEUES);
	allow_only(2);
	before = mes ? calls : updates;
	commit_now(0);
	assert((mes ? calls : updates) - before == (mes ? PROCESSES - 1 : 1));
	check();
	before = updates + calls;
	commit_now(0);
	assert(updates + calls == before);
	stop();
}

#if USER_QUEUES
/* None is made while gpurt is attached; with older ones nothing is switched, and gpurt is told. */
static void test_user_queues(bool mes)
{
	start(mes);
	assert(!kfd_gpurt_attached());
	attach_ours();
	assert(kfd_gpurt_attached());
	create(0, 0);
	create(1, 0);
	allow_only(0);
	dqm.dev->adev->userq_doorbell_xa = 1;
	assert(amdgpu_gpurt_port.commit(&dqm) == -EOPNOTSUPP && mapped[QUEUES]);
	dqm.dev->adev->userq_doorbell_xa = 0;
	commit_now(0);
	assert(!mapped[QUEUES]);
	check();
	stop();
}
#endif

/* A process or queue that comes while somebody has the GPU is off; and a queue that is off can be destroyed. */
static void test_born_off(bool mes)
{
	start(mes);
	attach_ours();
	create(0, 0);
	create(1, 0);
	allow_only(0);
	commit_now(0);
	create(1, 1);
	create(2, 0);
	check();
	assert(!mapped[QUEUES + 1] && !mapped[2 * QUEUES]);
	destroy(1, 0);
	destroy(2, 0);
	check();
	create(2, 0);
	evict(2);
	evict(1);
	allow_only(-1);
	commit_now(0);
	check();
	assert(!mapped[2 * QUEUES] && !mapped[QUEUES + 1]);
	restore(1);
	restore(2);
	check();
	assert(mapped[2 * QUEUES] && mapped[QUEUES + 1]);
	stop();
}

/* A failure says that it is not known what executes; with HWS the next commit updates the runlist, with MES the reset. */
static void test_failure(bool mes)
{
	start(mes);
	attach_ours();
	create(0, 0);
	create(1, 0);
	allow_only(0);
	failures = 1;
	commit_now(-ETIMEDOUT);
	assert(!failures && mapped[QUEUES]);
	if (!mes) {
		commit_now(0);
		check();
	} else {
		unsigned int before = calls;

		allow_only(1);
		commit_now(-ETIMEDOUT);
		assert(calls == before);	/* what MES does not add it would be asked to remove after the reset */
		allow_only(0);
		kfd_gpurt_reset(&dqm, true);
		assert(resets == 1 && kills == 2);
		memset(mapped, 0, sizeof(mapped));
		kfd_gpurt_reset(&dqm, false);
		assert(!resets);
		commit_now(0);
		assert(!mapped[QUEUES]);
		mapped[0] = true;	/* as before the reset, for what follows */
	}
	stop();
}

/* While the GPU is being reset nothing can be updated; afterwards it is. */
static void test_resetting(bool mes)
{
	start(mes);
	attach_ours();
	create(0, 0);
	create(1, 0);
	allow_only(0);
	dqm.is_resetting = dqm.is_hws_hang = resetting = true;
	if (!mes) {
		commit_now(-ETIMEDOUT);
		assert(mapped[QUEUES]);
	}
	dqm.is_resetting = dqm.is_hws_hang = resetting = false;
	commit_now(0);
	check();
	stop();
}

/* A process whose leader was reaped already has no owner: it runs. */
static void test_no_owner(bool mes)
{
	start(mes);
	attach_ours();
	processes[3].leader.pid = NULL;
	allow_only(0);
	create(3, 0);
	assert(mapped[3 * QUEUES] && !processes[3].tsgs);
	commit_now(0);
	assert(mapped[3 * QUEUES]);
	stop();
}

/* A process that has /dev/kfd open, and no VM on this GPU, is evicted and restored there like all others. */
static void test_no_vm(bool mes)
{
	start(mes);
	attach_ours();
	processes[0].pdd.drm_priv = processes[0].pdd.drm_file = NULL;
	evict(0);
	evict(0);
	restore(0);
	restore(0);
	check();
	stop();
}

/* Without the hardware scheduler nobody is ever off, whatever is asked. */
static void test_no_hws(void)
{
	start(false);
	dqm.sched_policy = KFD_SCHED_POLICY_NO_HWS;
	attach_ours();
	allow_only(0);
	create(1, 0);
	assert(mapped[QUEUES]);
	assert(!amdgpu_gpurt_port.commit(&dqm) && mapped[QUEUES]);
	stop();
}

static void step(bool mes)
{
	int i = below(PROCESSES), slot = below(QUEUES);
	struct test_process *p = &processes[i];

	switch (below(8)) {
	case 0:
	case 1:
		if (p->queues[slot])
			destroy(i, slot);
		else
			create(i, slot);
		break;
	case 2:
		evict(i);
		break;
	case 3:
		if (p->evictions)
			restore(i);
		break;
	case 4:
		if (has_queues(i) || p->evictions)
			die(i);
		break;
	case 5:
		allow_only(below(PROCESSES + 1) - 1);
		break;
	case 6:
		if (!mes && !below(4)) {
			int before = updates;

			allow_only(below(PROCESSES + 1) - 1);
			failures = 1;
			if (amdgpu_gpurt_port.commit(&dqm))
				assert(updates == before + 1);
			failures = 0;
		}
		commit_now(0);
		break;
	case 7:
		if (hooks) {
			amdgpu_gpurt_port.detach();
			memset(off, 0, sizeof(off));
			for (i = 0; i < PROCESSES; i++)
				processes[i].tsgs = 0;
		} else {
			attach_ours();
		}
		break;
	}
	check();
}

/* Partitions of one device have names of their own, from 6.12 on. */
static void test_partitions(void)
{
	start(false);
	dqm.dev->num_nodes = 8;
	dqm.dev->node_id = 3;
	own_name = PARTITIONS ? "card/3" : "card";
	attach_ours();
	own_name = "card";
	dqm.dev->num_nodes = dqm.dev->node_id = 0;
	stop();
}

static bool unpinned(int i, int slot)
{
	return processes[i].queues[slot]->needs_mqd_repin;
}

/* All is evicted for hibernation.  A process that is off is no exception, whatever else it was evicted for. */
static void test_hibernation(bool mes)
{
	int i;

	start(mes);
	attach_ours();
	for (i = 0; i < 3; i++)
		create(i, 0);
	evict(2);
	allow_only(0);
	commit_now(0);
	assert(!unpinned(0, 0) && !unpinned(1, 0) && !unpinned(2, 0));
	restore(2);
	hibernates = true;
	for (i = 0; i < 3; i++)
		evict(i);
	assert(!HIBERNATES || (unpinned(0, 0) && unpinned(1, 0) && unpinned(2, 0)));
	hibernates = false;
	for (i = 0; i < 3; i++)
		restore(i);
	check();
	allow_only(1);
	commit_now(0);
	check();
	assert(!unpinned(0, 0) && !unpinned(1, 0));
	stop();
}

static void test_random(bool mes, int rounds)
{
	int round, i;

	for (round = 1; round <= rounds; round++) {
		seed = (uint32_t)round * 2654435761u;
		start(mes);
		attach_ours();
		for (i = 0; i < 200; i++)
			step(mes);
		stop();
	}
}

int main(int argc, char **argv)
{
	int mes;

	for (mes = 0; mes < 2; mes++) {
		test_attach(mes);
		test_one_update(mes);
#if USER_QUEUES
		test_user_queues(mes);
#endif
		test_born_off(mes);
		test_failure(mes);
		test_resetting(mes);
		test_no_owner(mes);
		test_no_vm(mes);
		test_hibernation(mes);
		test_random(mes, argc > 1 ? atoi(argv[1]) : 500);
	}
	test_no_hws();
	test_partitions();
	printf("%d updates of the runlist, %d calls of the firmware\n", updates, calls);
	return 0;
}
