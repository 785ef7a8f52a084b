// SPDX-License-Identifier: GPL-2.0
/*
 * The hardware below amdgpu's queue manager, and what else of amdgpu the queue manager calls.  Firmware of the
 * scheduler has two kinds, which amdgpu knows apart by enable_mes.  One kind reads packets (HWS), and executes the
 * queues that the last runlist names until it is told to unmap them.  The other kind is told of each queue (MES).
 *
 * An address of the GPU is one of the kernel here.  A queue's is that of its MQD.
 */

#define LATEST 64	/* dwords of a packet, at most */

struct card {
	struct kfd_dev kfd;
	struct amdgpu_device *adev;
	struct device dev;
	struct list_head mqds;		/* of mqd.node; with hardware_lock held, as the rest */
	u32 packet[LATEST];
	unsigned int length;		/* of the packet that is being written */
	bool hangs;			/* the firmware does nothing until the next reset */
	u64 *fence, value;		/* to be written when time is over */
	struct timer_list late;
	struct mutex reset_lock;	/* one reset at a time */
	bool there;			/* changes with cards_sem held to write */
	int computing;
};

struct mqd {
	struct kfd_mem_obj obj;		/* first */
	struct list_head node;
	struct card *card;
	bool mapped;
};

static DEFINE_SPINLOCK(hardware_lock);
static uint fail;			/* so many of the next times that queues are to be unmapped, the firmware hangs */
module_param(fail, uint, 0644);
static uint late_ms;			/* it takes so long to unmap queues */
module_param(late_ms, uint, 0644);
static uint updates;			/* lists of queues that HWS was told to unmap */
module_param(updates, uint, 0444);
static uint calls;			/* of MES */
module_param(calls, uint, 0444);
static uint resets;			/* that are over */
module_param_named(resets_done, resets, uint, 0444);

int max_num_of_queues_per_device = 4096;
int queue_preemption_timeout_ms = 60;
int sched_policy = KFD_SCHED_POLICY_HWS;
int halt_if_hws_hang;
bool debug_evictions;
module_param(sched_policy, int, 0444);
const struct packet_manager_funcs kfd_vi_pm_funcs;

static struct card *card_of(struct kfd_dev *kfd)
{
	return container_of(kfd, struct card, kfd);
}

/* With hardware_lock held. */
static struct mqd *find_mqd(struct card *card, u64 address)
{
	struct mqd *mqd;

	list_for_each_entry(mqd, &card->mqds, node)
		if ((u64)(uintptr_t)mqd == address)
			return mqd;
	return NULL;
}

/* With hardware_lock held. */
static void unmap_all(struct card *card)
{
	struct mqd *mqd;

	list_for_each_entry(mqd, &card->mqds, node)
		mqd->mapped = false;
}

/* With hardware_lock held. */
static void map(struct card *card, u64 address)
{
	struct mqd *mqd = find_mqd(card, address);

	if (!mqd || mqd->mapped)
		wrong("%s: a queue is mapped that %s", dev_name(&card->dev), mqd ? "is mapped" : "does not exist");
	else
		mqd->mapped = true;
}

/* With hardware_lock held.  One that is too long chains back to its beginning. */
static void read_runlist(struct card *card, const u32 *list, const u32 *end)
{
	unsigned int processes = 0;

	while (list < end) {
		const union PM4_MES_TYPE_3_HEADER *header = (const void *)list;
		const struct pm4_mes_map_queues *queue = (const void *)list;

		if (header->opcode == IT_RUN_LIST)
			return;
		if (header->opcode == IT_MAP_PROCESS)
			processes++;
		else if (header->opcode == IT_MAP_QUEUES && processes)
			map(card, (u64)queue->mqd_addr_hi << 32 | queue->mqd_addr_lo);
		else if (header->opcode || header->type)
			wrong("%s: packet %x in a runlist", dev_name(&card->dev), header->u32All);
		list += header->type == 3 ? header->count + 2 : 1;
	}
}

/* With hardware_lock held. */
static void start_runlist(struct card *card, const struct pm4_mes_runlist *packet)
{
	const u32 *list = (const u32 *)(uintptr_t)((u64)packet->ib_base_hi << 32 | packet->ordinal2);
	struct mqd *mqd;

	list_for_each_entry(mqd, &card->mqds, node)
		if (mqd->mapped)
			wrong("%s: a runlist comes while queues are mapped", dev_name(&card->dev));
	read_runlist(card, list, list + packet->bitfields4.ib_size);
}

static void write_late(struct timer_list *timer)
{
	struct card *card = from_timer(card, timer, late);

	WRITE_ONCE(*card->fence, card->value);
}

/* With hardware_lock held. */
static void answer(struct card *card, const struct pm4_mes_query_status *packet)
{
	card->fence = (u64 *)(uintptr_t)((u64)packet->addr_hi << 32 | packet->addr_lo);
	card->value = (u64)packet->data_hi << 32 | packet->data_lo;
	if (late_ms)
		mod_timer(&card->late, jiffies + msecs_to_jiffies(late_ms));
	else
		WRITE_ONCE(*card->fence, card->value);
}

/* With hardware_lock held. */
static bool begins_to_hang(struct card *card)
{
	if (fail) {
		fail--;
		card->hangs = true;
	}
	return card->hangs;
}

/* With hardware_lock held. */
static void execute(struct card *card, const u32 *packet)
{
	const union PM4_MES_TYPE_3_HEADER *header = (const void *)packet;

	switch (header->opcode) {
	case IT_SET_RESOURCES:
		break;
	case IT_UNMAP_QUEUES:
		updates++;
		if (!begins_to_hang(card))
			unmap_all(card);
		break;
	case IT_QUERY_STATUS:
		if (!card->hangs)
			answer(card, (const void *)packet);
		break;
	case IT_RUN_LIST:
		start_runlist(card, (const void *)packet);
		break;
	default:
		wrong("%s: packet %x", dev_name(&card->dev), header->u32All);
	}
}

/* The queue of packets, which holds one. */

int kq_acquire_packet_buffer(struct kernel_queue *kq, size_t size, unsigned int **packet)
{
	struct card *card = card_of(kq->dev);

	card->length = size;
	*packet = size <= LATEST ? card->packet : NULL;
	return *packet ? 0 : -ENOMEM;
}

void kq_submit_packet(struct kernel_queue *kq)
{
	struct card *card = card_of(kq->dev);

	spin_lock_irq(&hardware_lock);
	execute(card, card->packet);
	spin_unlock_irq(&hardware_lock);
}

void kq_rollback_packet(struct kernel_queue *kq)
{
}

struct kernel_queue *kernel_queue_init(struct kfd_dev *kfd, enum kfd_queue_type type)
{
	struct kernel_queue *kq = kzalloc(sizeof(*kq), GFP_KERNEL);
	struct queue *queue = kzalloc(sizeof(*queue), GFP_KERNEL);

	if (!kq || !queue) {
		kfree(kq);
		kfree(queue);
		return NULL;
	}
	kq->dev = kfd;
	kq->queue = queue;
	return kq;
}

void kernel_queue_uninit(struct kernel_queue *kq, bool hanging)
{
	kfree(kq->queue);
	kfree(kq);
}

unsigned int pm_build_pm4_header(unsigned int opcode, size_t size)
{
	union PM4_MES_TYPE_3_HEADER header = { .u32All = 0 };

	header.opcode = opcode;
	header.count = size / 4 - 2;
	header.type = 3;
	return header.u32All;
}

/* MES. */

static int add_hw_queue(struct amdgpu_mes *mes, struct mes_add_queue_input *input)
{
	struct card *card = container_of(mes->adev->dev, struct card, dev);

	spin_lock_irq(&hardware_lock);
	calls++;
	map(card, input->mqd_addr);
	spin_unlock_irq(&hardware_lock);
	return 0;
}

static int remove_hw_queue(struct amdgpu_mes *mes, struct mes_remove_queue_input *input)
{
	struct card *card = container_of(mes->adev->dev, struct card, dev);
	struct mqd *mqd;
	int err = 0;

	spin_lock_irq(&hardware_lock);
	calls++;
	mqd = find_mqd(card, input->gang_context_addr);
	if (begins_to_hang(card))
		err = -ETIMEDOUT;
	else if (!mqd || !mqd->mapped)
		wrong("%s: a queue is removed that is not mapped", dev_name(&card->dev));
	else
		mqd->mapped = false;
	spin_unlock_irq(&hardware_lock);
	return err;
}

static const struct amdgpu_mes_funcs mes_functions = {
	.add_hw_queue = add_hw_queue, .remove_hw_queue = remove_hw_queue,
};

/* MQDs. */

static struct kfd_mem_obj *allocate_mqd(struct kfd_dev *kfd, struct queue_properties *properties)
{
	struct mqd *mqd = kzalloc(sizeof(*mqd), GFP_KERNEL);

	if (!mqd)
		return NULL;
	mqd->card = card_of(kfd);
	spin_lock_irq(&hardware_lock);
	list_add(&mqd->node, &mqd->card->mqds);
	spin_unlock_irq(&hardware_lock);
	return &mqd->obj;
}

static void init_mqd(struct mqd_manager *mm, void **mqd, struct kfd_mem_obj *obj, u64 *address, struct queue_properties *q)
{
	*mqd = obj;
	*address = (u64)(uintptr_t)obj;
	q->is_active = QUEUE_IS_ACTIVE(*q);
}

/* Memory that the hardware uses would be given away. */
static void free_mqd(struct mqd_manager *mm, void *object, struct kfd_mem_obj *obj)
{
	struct mqd *mqd = object;

	spin_lock_irq(&hardware_lock);
	if (mqd->mapped && !mqd->card->hangs)
		wrong("%s: the MQD of a queue that is mapped is freed", dev_name(&mqd->card->dev));
	list_del(&mqd->node);
	spin_unlock_irq(&hardware_lock);
	kfree(mqd);
}

static u32 read_doorbell_id(void *mqd)
{
	return 0;
}

static struct mqd_manager *mqd_manager_init(enum KFD_MQD_TYPE type, struct kfd_dev *kfd)
{
	struct mqd_manager *mm = kzalloc(sizeof(*mm), GFP_KERNEL);

	if (!mm)
		return NULL;
	mm->allocate_mqd = allocate_mqd;
	mm->init_mqd = init_mqd;
	mm->free_mqd = free_mqd;
	mm->read_doorbell_id = read_doorbell_id;
	mm->dev = kfd;
	return mm;
}

static int update_qpd(struct device_queue_manager *dqm, struct qcm_process_device *qpd)
{
	return 0;
}

/* The cards are of this generation. */
void device_queue_manager_init_v9(struct device_queue_manager_asic_ops *ops)
{
	ops->update_qpd = update_qpd;
	ops->mqd_manager_init = mqd_manager_init;
}

/* Other cards are not there. */
void device_queue_manager_init_cik(struct device_queue_manager_asic_ops *ops) {}
void device_queue_manager_init_cik_hawaii(struct device_queue_manager_asic_ops *ops) {}
void device_queue_manager_init_vi(struct device_queue_manager_asic_ops *ops) {}
void device_queue_manager_init_vi_tonga(struct device_queue_manager_asic_ops *ops) {}
void device_queue_manager_init_v10_navi10(struct device_queue_manager_asic_ops *ops) {}
void device_queue_manager_init_v11(struct device_queue_manager_asic_ops *ops) {}

/* Memory, and the rest of amdgpu. */

int kfd_gtt_sa_allocate(struct kfd_dev *kfd, unsigned int size, struct kfd_mem_obj **object)
{
	struct kfd_mem_obj *obj = kzalloc(sizeof(*obj), GFP_KERNEL);

	if (!obj)
		return -ENOMEM;
	obj->cpu_ptr = kzalloc(size, GFP_KERNEL);
	obj->gpu_addr = (u64)(uintptr_t)obj->cpu_ptr;
	if (size && !obj->cpu_ptr) {
		kfree(obj);
		return -ENOMEM;
	}
	*object = obj;
	return 0;
}

int kfd_gtt_sa_free(struct kfd_dev *kfd, struct kfd_mem_obj *obj)
{
	if (obj && obj->gpu_addr == (u64)(uintptr_t)card_of(kfd)->fence)
		del_timer_sync(&card_of(kfd)->late);
	if (obj)
		kfree(obj->cpu_ptr);
	kfree(obj);
	return 0;
}

int amdgpu_amdkfd_alloc_gtt_mem(struct amdgpu_device *adev, size_t size, void **object, u64 *address, void **cpu, bool mqd)
{
	*object = NULL;
	return 0;
}

void amdgpu_amdkfd_free_gtt_mem(struct amdgpu_device *adev, void **object)
{
}

int amdgpu_amdkfd_submit_ib(struct amdgpu_device *adev, enum kgd_engine_type engine, u32 vmid, u64 address, u32 *ib, u32 size)
{
	return -EINVAL;
}

int amdgpu_queue_mask_bit_to_set_resource_bit(struct amdgpu_device *adev, int bit)
{
	return bit;
}

u64 amdgpu_amdkfd_gpuvm_get_process_page_dir(void *vm)
{
	return 0x1000;
}

u64 amdgpu_bo_gpu_offset(struct amdgpu_bo *bo)
{
	return 0;
}

unsigned int kfd_get_num_sdma_engines(struct kfd_dev *kfd)
{
	return 0;
}

unsigned int kfd_get_num_xgmi_sdma_engines(struct kfd_dev *kfd)
{
	return 0;
}

unsigned int kfd_get_doorbell_dw_offset_in_bar(struct kfd_dev *kfd, struct kfd_process_device *pdd, unsigned int id)
{
	return id;
}

void kfd_flush_tlb(struct kfd_process_device *pdd, enum TLB_FLUSH_TYPE type)
{
}

void kfd_inc_compute_active(struct kfd_dev *kfd)
{
	card_of(kfd)->computing++;
}

void kfd_dec_compute_active(struct kfd_dev *kfd)
{
	card_of(kfd)->computing--;
}

struct kfd_process *kfd_lookup_process_by_pasid(u32 pasid)
{
	return NULL;
}

void kfd_unref_process(struct kfd_process *p)
{
}

static int init_interrupts_of(struct amdgpu_device *adev, u32 pipe)
{
	return 0;
}

/* No wave is left: what is asked for after a hang. */
static bool get_vmid_pasid(struct amdgpu_device *adev, u8 vmid, u16 *pasid)
{
	return false;
}

static const struct kfd2kgd_calls kgd_calls = {
	.init_interrupts = init_interrupts_of, .get_atc_vmid_pasid_mapping_info = get_vmid_pasid,
};
