/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Enough of amdgpu beside kfd_device_queue_manager.c for the functions that the patches change to run in user space.
 * Those functions are of 6.1 to 7.3, so structures have the members of all.
 */
#include "../linux.h"

static bool dqm_held;

static bool may_take_a_mutex(void)
{
	return !dqm_held;
}

#define down_read_trylock(sem) (!resetting)
#define up_read(sem) ((void)0)
static bool resetting;

/* The driver. */
enum kfd_queue_type {
	KFD_QUEUE_TYPE_COMPUTE,
	KFD_QUEUE_TYPE_SDMA,
	KFD_QUEUE_TYPE_DIQ,
	KFD_QUEUE_TYPE_SDMA_XGMI,
	KFD_QUEUE_TYPE_SDMA_BY_ENG_ID
};
enum kfd_unmap_queues_filter {
	KFD_UNMAP_QUEUES_FILTER_ALL_QUEUES,
	KFD_UNMAP_QUEUES_FILTER_DYNAMIC_QUEUES,
	KFD_UNMAP_QUEUES_FILTER_BY_PASID
};
enum { KFD_MQD_TYPE_HIQ, KFD_MQD_TYPE_CP, KFD_MQD_TYPE_MAX };
enum { KFD_SCHED_POLICY_HWS, KFD_SCHED_POLICY_NO_HWS };
enum { KFD_FENCE_INIT, KFD_FENCE_COMPLETED };
#define USE_DEFAULT_GRACE_PERIOD 0xffffffff
#define EC_MASK(x) 0
#define KFD_EC_MASK(x) 0
#define EC_DEVICE_QUEUE_DELETE 0

struct amdgpu_device {
	void *dev;
	struct {
		int sem;
	} *reset_domain;
	int userq_doorbell_xa;		/* how many user queues of the graphics driver there are */
};
#define IS_ENABLED(option) 1
#define xa_empty(queues) (!*(queues))
#define kfd_node kfd_dev
struct kfd_dev {
	struct amdgpu_device *adev;
	struct kfd_dev *kfd;		/* 6.12: itself */
	unsigned int num_nodes, node_id;
	struct {
		int (*hqd_sdma_get_counter)(struct amdgpu_device *adev, void *mqd, int queues, uint64_t *value);
	} *kfd2kgd;
	struct {
		int num_sdma_queues_per_engine;
	} device_info;
	struct {
		bool enable_mes;
	} shared_resources;
};
struct queue_properties {
	enum kfd_queue_type type;
	unsigned int queue_id;
	uint32_t queue_percent;
	void *read_ptr;
	bool is_evicted, is_suspended, is_being_destroyed, is_active, is_gws, is_dbg_wa;
	uint64_t tba_addr, tma_addr;
};
#define QUEUE_IS_ACTIVE(q) ((q).queue_percent > 0 && !(q).is_evicted && !(q).is_suspended)

struct kfd_process {
	struct task_struct *lead_thread;
	unsigned int pasid;
	bool debug_trap_enabled;
	struct mutex mutex;
};
struct queue {
	struct list_head list;
	void *mqd, *mqd_mem_obj;
	bool needs_mqd_repin;
	uint64_t gart_mqd_addr;
	struct queue_properties properties;
	unsigned int sdma_id, doorbell_id;
	struct kfd_process *process;
	struct kfd_dev *device;
};
struct kernel_queue {
	struct list_head list;
	struct queue *queue;
};
struct kfd_criu_queue_priv_data {
	uint32_t sdma_id, doorbell_id, ctl_stack_size;
};
struct mqd_manager {
	struct kfd_dev *dev;
	void *(*allocate_mqd)(void *owner, struct queue_properties *properties);
	void (*init_mqd)(struct mqd_manager *mgr, void **mqd, void *obj, uint64_t *addr, struct queue_properties *q);
	void (*restore_mqd)(struct mqd_manager *mgr, void **mqd, void *obj, uint64_t *addr, struct queue_properties *q,
			    const void *data, const void *stack, uint32_t size);
	void (*free_mqd)(struct mqd_manager *mgr, void *mqd, void *obj);
	bool (*read_doorbell_id)(void *mqd);
	bool (*check_preemption_failed)(struct mqd_manager *mgr, void *mqd);
};
struct packet_manager {
	struct kernel_queue *priv_queue;
};
struct process_queue_manager {
	struct kfd_process *process;
};
struct qcm_process_device {
	struct process_queue_manager *pqm;
	struct list_head queues_list, priv_queue_list;
	unsigned int queue_count, evicted;
	bool is_debug, reset_wavefronts, mapped_gws_queue;
	bool off;
	struct pid *owner;
	struct list_head owner_entry;
	uint64_t page_table_base, tba_addr, tma_addr;
};
struct device_queue_manager {
	struct {
		int (*update_qpd)(struct device_queue_manager *dqm, struct qcm_process_device *qpd);
		void (*init_sdma_vm)(struct device_queue_manager *dqm, struct queue *q, struct qcm_process_device *qpd);
	} asic_ops;
	struct mqd_manager *mqd_mgrs[KFD_MQD_TYPE_MAX];
	struct packet_manager packet_mgr;
	struct kfd_dev *dev;
	struct list_head queues;
	int processes_count, active_queue_count, active_cp_queue_count, gws_queue_count, total_queue_count;
	uint64_t fence_gpu_addr, *fence_addr;
	bool active_runlist, is_hws_hang, is_resetting, sched_running, sched_halt;
	int sched_policy, destroy_wait;
	struct list_head gpurt_entry, owners;
	bool stale;
};
struct device_process_node {
	struct qcm_process_device *qpd;
	struct list_head list;
};
struct kfd_process_device {
	struct kfd_process *process;
	struct qcm_process_device qpd;
	void *drm_priv, *drm_file;
	uint64_t last_evict_timestamp, evict_duration_counter, sdma_past_activity_counter;
};

static unsigned int max_num_of_queues_per_device = 4096, queue_preemption_timeout_ms = 9000, halt_if_hws_hang;

static inline void dqm_lock(struct device_queue_manager *dqm)
{
	assert(!dqm_held && !spinning);
	dqm_held = true;
}

static inline void dqm_unlock(struct device_queue_manager *dqm)
{
	assert(dqm_held);
	dqm_held = false;
}

#define qpd_to_pdd(x) container_of(x, struct kfd_process_device, qpd)
#define kfd_get_process_device_data(dev, p) (&((struct test_process *)(p))->pdd)
#define get_mqd_type_from_queue_type(type) KFD_MQD_TYPE_CP
#define amdgpu_amdkfd_gpuvm_get_process_page_dir(vm) 0
#define allocate_sdma_queue(dqm, q, id) 0
#define deallocate_sdma_queue(dqm, q) ((void)0)
#define allocate_doorbell(qpd, q, id) 0
#define deallocate_doorbell(qpd, q) ((void)0)
#define read_sdma_queue_counter(ptr, val) 0
#define kfd_inc_compute_active(dev) assert(!dqm_held)
#define kfd_dec_compute_active(dev) assert(!dqm_held)
static int flushes;
#define kfd_flush_tlb(pdd, ...) (assert((pdd)->drm_priv), (void)flushes++)
#define kfd_dbg_has_cwsr_workaround(dev) false
#define kfd_dbg_ev_raise(...) ((void)0)
#define dbgdev_wave_reset_wavefronts(dev, p) ((void)0)
#define wait_event_interruptible(queue, condition) 0
#define pm_update_grace_period(pm, period) 0
#define pm_release_ib(pm) ((void)0)
#define amdkfd_fence_wait_timeout(...) 0
#define kfd_hws_hang(dqm) ((void)0)
#define reset_queues_on_hws_hang(dqm, ...) (-ENOTRECOVERABLE)
#define sdma_has_hang(dqm) false
#define pm_config_dequeue_wait_counts(pm, what, value) 0
#define mb() ((void)0)
#define kzalloc_obj(object) calloc(1, sizeof(object))
#define WARN_ON(x) WARN_ON_ONCE(x)
#define strscpy(to, from, size) ((void)snprintf(to, size, "%s", from))

/* A queue's MQD is unpinned for hibernation, and pinned again; 7.3 does it when it evicts and restores. */
static bool hibernates;

static inline void dqm_evict_mqd_bo(struct device_queue_manager *dqm, struct queue *q)
{
	assert(dqm_held);
	if (!hibernates)
		return;
	assert(!q->needs_mqd_repin);
	q->needs_mqd_repin = true;
}

static inline int dqm_repin_mqd_bo(struct device_queue_manager *dqm, struct queue *q)
{
	q->needs_mqd_repin = false;
	return 0;
}

/* The hardware: harness.c. */
static int pm_send_runlist(struct packet_manager *pm, struct list_head *queues);
static int pm_send_unmap_queue(struct packet_manager *pm, enum kfd_unmap_queues_filter filter, uint32_t param, bool reset);
static int pm_send_query_status(struct packet_manager *pm, uint64_t address, uint32_t value);
static int add_queue_mes(struct device_queue_manager *dqm, struct queue *q, struct qcm_process_device *qpd);
static int remove_queue_mes(struct device_queue_manager *dqm, struct queue *q, struct qcm_process_device *qpd);

struct test_process {
	struct kfd_process process;	/* first */
	struct kfd_process_device pdd;
	struct process_queue_manager pqm;
	struct task_struct leader;
	struct pid pid;
	int evictions;			/* other than gpurt's */
	int tsgs;			/* as gpurt was told */
	struct queue *queues[3];
};
