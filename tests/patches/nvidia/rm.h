/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Enough of NVIDIA's driver, RM and around it, for the files that the patches add to run in user space.  The numbers and
 * layouts that GSP knows are held against NVIDIA's own headers by test_nvidia_alone.py.
 */
#include "../linux.h"

/* Types and constants as both sides call them. */
typedef uint8_t NvU8, NvBool;
typedef uint32_t NvU32, NvHandle, NV_STATUS;
typedef struct nv_state {
	NvU32 flags;
	struct OBJGPU *gpu;
	NvBool gpurt_lost, gpurt_resets;	/* in truth of what is around it */
} nv_state_t, OS_GPU_INFO;
#define NV_GET_NVL_FROM_NV_STATE(nv) (nv)
typedef struct nvidia_stack nvidia_stack_t;
#define NV_TRUE 1
#define NV_FALSE 0
#define NV_API_CALL
#define NVBIT(n) (1U << (n))
#define NV_OK 0
#define NV_ERR_INSUFFICIENT_PERMISSIONS 0x1b
#define NV_ERR_INVALID_ARGUMENT 0x1f
#define NV_ERR_INVALID_CLIENT 0x23
#define NV_ERR_NOT_SUPPORTED 0x56
#define NV_ERR_OBJECT_NOT_FOUND 0x57
#define NV_ERR_TIMEOUT 0x65
#define NV_WARN_MORE_PROCESSING_REQUIRED 0x10005

/* GSP's. */
#define NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES 0x80170f
#define NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION 0x2080111a
#define NV2080_CTRL_CMD_GR_CTXSW_PM_BIND 0x20801209
#define NV2080_CTRL_CMD_GR_CTXSW_PM_MODE 0x20801207
#define NV2080_CTRL_CMD_GR_CTXSW_PREEMPTION_BIND 0x20801211
#define NV2080_CTRL_CMD_GR_CTXSW_SETUP_BIND 0x2080123a
#define NV2080_CTRL_CMD_GR_CTXSW_SMPC_MODE 0x2080120e
#define NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND 0x20801208
#define NV2080_CTRL_CMD_GR_CTXSW_ZCULL_MODE 0x20801205
#define NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE 0x20801210
#define NV506F_CTRL_CMD_RESET_ISOLATED_CHANNEL 0x506f0105
#define NV5080_CTRL_CMD_DEFERRED_API 0x50800101
#define NV5080_CTRL_CMD_DEFERRED_API_V2 0x50800103
#define NV83DE_CTRL_CMD_DEBUG_RESUME_CONTEXT 0x83de0318
#define NV906F_CTRL_CMD_RESET_CHANNEL 0x906f0102
#define NVA06C_CTRL_CMD_PREEMPT 0xa06c0105
#define NVA06C_CTRL_CMD_SET_TIMESLICE 0xa06c0103
#define NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS 0x2080110b
#define NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES 64
typedef struct {
	NvBool bDisable;
	NvU32 numChannels;
	NvBool bOnlyDisableScheduling, bRewindGpPut;
	uint64_t pRunlistPreemptEvent;
	NvHandle hClientList[NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES];
	NvHandle hChannelList[NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES];
} NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
typedef struct {
	NvHandle hApiHandle;
	NvU32 cmd;
} NV5080_CTRL_DEFERRED_API_PARAMS, NV5080_CTRL_DEFERRED_API_V2_PARAMS;
#define NVOS54_FLAGS_FINN_SERIALIZED 4	/* what it is does not matter here */
typedef struct {
	NvU32 cmd, flags;
	void *pParams;
} RS_RES_CONTROL_PARAMS_INTERNAL;

/* RM's objects. */
typedef struct RmClient {
	NvHandle handle;
	void *pOsPidInfo;
	bool has_subdevice;
} RmClient, RsClient;
typedef struct {
	NvBool bGpurtScheduled;
} KernelChannelGroup;
typedef struct {
	KernelChannelGroup *pKernelChannelGroup;
} KernelChannelGroupApi;
typedef struct KernelChannel {
	struct KernelChannel *pGpurtNext;
	void *pGpurtOwner;
	NvU8 gpurtState;
	KernelChannelGroupApi *pKernelChannelGroupApi;
	RmClient *client;
	NvHandle handle;
} KernelChannel;
typedef struct {
	KernelChannelGroupApi *group;	/* what it is, or NULL */
	KernelChannel *channel;
} RmResource;
typedef struct {
	KernelChannel *pGpurtChannels;
	NvU32 gpurtCalls;
	NvBool bGpurtTogether, bGpurtDecided;
} KernelFifo;
typedef struct OBJGPU {
	OS_GPU_INFO *pOsGpuInfo;
	KernelFifo *fifo;
	NvHandle hInternalClient, hInternalSubdevice;
	bool virtual_one, no_gsp, mig, secret, linked;
} OBJGPU;
typedef struct {
	NvHandle handle;
} Subdevice;
typedef struct RM_API {
	NV_STATUS (*Control)(struct RM_API *api, NvHandle client, NvHandle object, NvU32 cmd, void *params, NvU32 size);
} RM_API;
typedef struct {
	RsClient *pClient;
	struct {
		int privLevel;
	} secInfo;
} CALL_CONTEXT;
typedef int THREAD_STATE_NODE;
enum { RS_PRIV_LEVEL_USER, RS_PRIV_LEVEL_USER_ROOT, RS_PRIV_LEVEL_KERNEL };
#define dynamicCast(object, type) as_##type(object)
#define as_RmClient(client) (client)
#define as_KernelChannel(resource) (resource)->channel
#define as_KernelChannelGroupApi(resource) (resource)->group
#define RES_GET_CLIENT(channel) ((channel)->client)
#define RES_GET_CLIENT_HANDLE(channel) ((channel)->client->handle)
#define RES_GET_HANDLE(object) ((object)->handle)
#define GPU_RES_GET_DEVICE(channel) NULL
#define GPU_GET_KERNEL_FIFO(gpu) ((gpu)->fifo)
#define NV_GET_NV_PRIV_PGPU(nv) ((nv)->gpu)
#define IS_VIRTUAL(gpu) ((gpu)->virtual_one)
#define IS_GSP_CLIENT(gpu) (!(gpu)->no_gsp)
#define IS_MIG_ENABLED(gpu) ((gpu)->mig)
#define gpuIsCCFeatureEnabled(gpu) ((gpu)->secret)
#define IsSLIEnabled(gpu) ((gpu)->linked)
static bool vgpu_host;
#define hypervisorIsVgxHyper() vgpu_host
#define portMemSet memset
#define NV_ENTER_RM_RUNTIME(sp, fp) ((void)(sp), (void)(fp))
#define NV_EXIT_RM_RUNTIME(sp, fp) ((void)0)
#define threadStateInit(node, flags) ((void)(node))
#define threadStateFree(node, flags) ((void)(node))

/* RM's locks, the outermost first: a call of GSP needs the GPU's.  With the API's for writing nobody else could call. */
static bool api_lock, gpu_lock, gpu_lock_fails;
#define RMAPI_LOCK_FLAGS_READ 2
#define RM_LOCK_MODULES_FIFO 0
#define GPUS_LOCK_FLAGS_NONE 0

static inline NV_STATUS rmapiLockAcquire(NvU32 flags, NvU32 module)
{
	assert(!api_lock && !gpu_lock && !spinning && flags == RMAPI_LOCK_FLAGS_READ);
	api_lock = true;
	return NV_OK;
}

static inline void rmapiLockRelease(void)
{
	assert(api_lock && !gpu_lock);
	api_lock = false;
}

static inline NV_STATUS rmDeviceGpuLocksAcquire(OBJGPU *gpu, NvU32 flags, NvU32 module)
{
	assert(api_lock && !gpu_lock && !spinning);
	gpu_lock = !gpu_lock_fails;
	return gpu_lock ? NV_OK : NV_ERR_TIMEOUT;
}

static inline void rmDeviceGpuLocksRelease(OBJGPU *gpu, NvU32 flags, void *dpc)
{
	assert(gpu_lock);
	gpu_lock = false;
}

static Subdevice the_subdevice = { 7 };

static inline NV_STATUS subdeviceGetByDeviceAndGpu(RsClient *client, void *device, OBJGPU *gpu, Subdevice **found)
{
	*found = &the_subdevice;
	return client->has_subdevice ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
}

/* The call that is carried out; NULL: RM's own, or none. */
static CALL_CONTEXT context, *around = &context;
#define resservGetTlsCallContext() around

static inline NV_STATUS resservSwapTlsCallContext(CALL_CONTEXT **old, CALL_CONTEXT *new)
{
	*old = around;
	around = new;
	return NV_OK;
}

static inline NV_STATUS resservRestoreTlsCallContext(CALL_CONTEXT *old)
{
	around = old;
	return NV_OK;
}

static RM_API gsp;	/* of the harness */
#define GPU_GET_PHYSICAL_RMAPI(gpu) (&gsp)

/* Around RM. */
#define NV_FLAG_INITIALIZED 1
#define NV_FLAG_OPEN 1
#define NV_FLAG_PERSISTENT_SW_STATE 2
#define NV_DYNAMIC_PM_FINE 0
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define xchg(p, value) ({ typeof(*(p)) old = *(p); *(p) = (value); old; })
#define __GFP_NOFAIL 0
#define pr_warn_ratelimited(...) ((void)0)
#define PF_KTHREAD 1

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline void strscpy(char *to, const char *from, size_t size)
{
	snprintf(to, size, "%s", from);
}

struct work_struct {
	void (*function)(struct work_struct *work);
	bool pending;
};
#define DECLARE_WORK(name, f) struct work_struct name = { .function = f }
#define schedule_work(work) ((void)((work)->pending = true))

static inline void flush_work(struct work_struct *work)
{
	assert(!api_lock && !gpu_lock && !spinning);
	while (work->pending) {
		work->pending = false;
		work->function(work);
	}
}

static bool pm_lock_taken;
static int pm_readers, power, stacks;
static int nv_system_pm_lock;
static bool no_power, no_stack;
#define down_read_trylock(lock) (pm_lock_taken ? false : (pm_readers++, true))
#define down_read(lock) ((void)pm_readers++)
#define up_read(lock) ((void)pm_readers--)
#define rm_ref_dynamic_power(sp, nv, mode) (no_power ? NV_ERR_TIMEOUT : (power++, NV_OK))
#define rm_unref_dynamic_power(sp, nv, mode) ((void)power--)

static inline int nv_kmem_cache_alloc_stack(nvidia_stack_t **sp)
{
	if (no_stack)
		return -ENOMEM;
	*sp = malloc(1);
	stacks++;
	return 0;
}

static inline void nv_kmem_cache_free_stack(nvidia_stack_t *sp)
{
	free(sp);
	stacks--;
}

struct kthread {
	unsigned int flags;
	struct pid *tgid;
};
static struct kthread the_thread = { PF_KTHREAD }, another_thread = { PF_KTHREAD };
static struct kthread *current = &the_thread;
#define task_tgid(thread) ((thread)->tgid)
#define rt_mutex_lock mutex_lock
#define rt_mutex_unlock mutex_unlock
#define DEFINE_RT_MUTEX DEFINE_MUTEX
typedef int64_t ktime_t;
static ktime_t now;	/* us */
static int naps;
#define task_struct kthread
#define ktime_get() now
#define ktime_us_delta(a, b) ((a) - (b))
#define NV_MAY_SLEEP() (!spinning)
#define usleep_range(from, to) ((void)(assert(!spinning), naps++, now += (from)))
