/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A card for RM, in a process: attached as the driver attaches one, with a firmware (GSP) made for tests behind RM's
 * calls of it.  The constructors of groups and channels are here too, because the real ones need memory of the card.
 */
#include <nv.h>
#include <nv-priv.h>
#include <osapi.h>
#include "class/cl0080.h"
#include "class/cl2080.h"
#include "class/cl5080.h"
#include "class/cla06c.h"
#include "class/clc56f.h"
#include "core/locks.h"
#include "core/system.h"
#include "core/thread_state.h"
#include "ctrl/ctrl5080.h"
#include "ctrl/ctrl906f.h"
#include "ctrl/ctrla06c.h"
#include "ctrl/ctrla06f.h"
#include "gpu/device/device.h"
#include "gpu/gpu.h"
#include "gpu/subdevice/subdevice.h"
#include "gpu_mgr/gpu_mgr.h"
#include "gpu/conf_compute/conf_compute.h"
#include "gpu/rpc/objrpc.h"
#include "kernel/gpu/gsp/message_queue.h"
#include "kernel/gpu/mig_mgr/kernel_mig_manager.h"
#include "kernel/gpu/gsp/kernel_gsp.h"
#include "kernel/gpu/rc/kernel_rc.h"
#include "kernel/gpu/fifo/channel_descendant.h"
#include "kernel/gpu/fifo/kernel_channel.h"
#include "kernel/gpu/fifo/kernel_channel_group.h"
#include "kernel/gpu/fifo/kernel_channel_group_api.h"
#include "kernel/gpu/fifo/kernel_fifo.h"
#include "kernel/gpu/fifo/kernel_fifo_gpurt.h"
#include "rmapi/client.h"
#include "rmapi/rmapi.h"
#include "rmapi/rs_utils.h"
#include "vgpu/rpc.h"
#define RPC_STRUCTURES
#define RPC_GENERIC_UNION
#include "g_rpc-structures.h"
#define RPC_MESSAGE_STRUCTURES
#define RPC_MESSAGE_GENERIC_UNION
#include "g_rpc-message-header.h"

NV_STATUS NV_API_CALL rm_gpurt_commit(nvidia_stack_t *sp, nv_state_t *nv, NvBool resend);
const char *NV_API_CALL rm_gpurt_refused(nvidia_stack_t *sp, nv_state_t *nv);

int printf(const char *format, ...);
int fflush(void *file);
void *aligned_alloc(unsigned long alignment, unsigned long size);
void free(void *p);
void abort(void);

/* Of system.c. */
extern __thread void *caller;
extern _Bool strict;
_Bool other_waits(void (*what)(void));
void join_other(void);

#define MUST(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); fflush(NULL); abort(); } } while (0)
#define MUST_BE(what, wanted) do { NV_STATUS is_ = (what); \
	if (is_ != (wanted)) { printf("line %d: status 0x%x of %s\n", __LINE__, is_, #what); fflush(NULL); \
		abort(); } } while (0)
#define MUST_OK(what) MUST_BE(what, NV_OK)

/* ---- memory and access ---- */

NV_STATUS nv_alloc_pages(nv_state_t *nv, NvU32 count, NvU64 size, NvBool contiguous, NvU32 cache, NvBool zeroed,
			 NvBool unencrypted, NvS32 node, NvU64 *addresses, void **memory)
{
	char *p = aligned_alloc(4096, (NvU64)count * 4096);
	NvU32 i;

	MUST(p);
	portMemSet(p, 0, (NvU64)count * 4096);
	for (i = 0; i < (contiguous ? 1 : count); i++)
		addresses[i] = (NvUPtr)p + i * 4096;
	*memory = p;
	return NV_OK;
}

NV_STATUS nv_free_pages(nv_state_t *nv, NvU32 count, NvBool contiguous, NvU32 cache, void *memory)
{
	free(memory);
	return NV_OK;
}

void *nv_alloc_kernel_mapping(nv_state_t *nv, void *memory, NvU64 page, NvU32 offset, NvU64 size, void **mapping)
{
	*mapping = memory;
	return (char *)memory + page * 4096 + offset;
}

NvBool nv_is_gpu_accessible(nv_state_t *nv)
{
	return NV_TRUE;
}

/* ---- what the patches have around RM (nv-gpurt.c), which asks gpurt ---- */

struct process {
	int channels, kills;
	NvBool may_run;
};

static int recommits, lost;
static int resets;	/* began, minus those that are over */

void *nv_gpurt_opened(OS_GPU_INFO *info, void *process)
{
	((struct process *)process)->channels++;
	return process;
}

void nv_gpurt_closed(void *owner)
{
	((struct process *)owner)->channels--;
}

NvBool nv_gpurt_may_run(void *owner)
{
	return ((struct process *)owner)->may_run;
}

NvBool nv_gpurt_is_owner(void *owner, void *process)
{
	return owner == process;
}

void nv_gpurt_recommit(OS_GPU_INFO *info)
{
	recommits++;
}

void nv_gpurt_killed(void *owner)
{
	((struct process *)owner)->kills++;
}

void nv_gpurt_lost(OS_GPU_INFO *info)
{
	lost++;
}

void nv_gpurt_reset(OS_GPU_INFO *info, NvBool begins)
{
	resets += begins ? 1 : -1;
}

/* ---- GSP ---- */

#define GSP_CLIENT	0xc0de0001	/* its own; RM knows only the handle */
#define GSP_SUBDEVICE	0xc0de0003

struct channel {
	const struct process *process;
	NvHandle client, group, handle;
	NvBool scheduled, off, stopped;
};

static struct {
	struct channel channels[256];
	int count;
	int calls, biggest;		/* of FIFO_DISABLE_CHANNELS */
	int fails_after;		/* so many of these, one fails half-way, and all that follow if it is negative; -1: none */
	NV_STATUS fails_with;
	NvBool switches_on;		/* SCHEDULE and RESET do */
	NV_STATUS in_the_end;		/* what SMPC_MODE returns, which has enabled all by then */
	NvBool refuses_foreign;		/* a client that names another's channels */
	NvBool immediate;		/* what the last STOP_CHANNEL said */
	int idles;
	int deferred, preemptions;
	void (*beside)(void);		/* somebody does this during the next FIFO_DISABLE_CHANNELS */
} gsp = { .fails_after = -1 };

static struct channel *find(NvHandle client, NvHandle handle)
{
	int i;

	for (i = 0; i < gsp.count; i++)
		if (gsp.channels[i].client == client && gsp.channels[i].handle == handle)
			return &gsp.channels[i];
	return NULL;
}

static NvBool runs(NvHandle client, NvHandle handle)
{
	struct channel *c = find(client, handle);

	MUST(c);
	return c->scheduled && !c->off && !c->stopped;
}

static NV_STATUS gsp_disable(NvHandle client, const NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *p)
{
	NvBool fails = gsp.fails_after == 0;
	struct channel *c;
	NvU32 i;

	if (gsp.beside) {
		void (*what)(void) = gsp.beside;

		gsp.beside = NULL;
		MUST(other_waits(what));
	}
	MUST(p->numChannels >= 1 && p->numChannels <= NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES);
	gsp.calls++;
	if (gsp.biggest < (int)p->numChannels)
		gsp.biggest = p->numChannels;
	if (gsp.fails_after >= 0)
		gsp.fails_after--;
	for (i = 0; i < p->numChannels; i++)
		if (gsp.refuses_foreign && p->hClientList[i] != client)
			return NV_ERR_INVALID_CLIENT;
	for (i = 0; i < (fails ? p->numChannels / 2 : p->numChannels); i++) {
		c = find(p->hClientList[i], p->hChannelList[i]);
		if (!c || c->stopped)
			return NV_ERR_OBJECT_NOT_FOUND;
		c->off = p->bDisable;
	}
	return fails ? gsp.fails_with : NV_OK;
}

static void gsp_schedule(NvHandle client, NvHandle group, NvHandle handle, NvBool enable)
{
	int i;

	for (i = 0; i < gsp.count; i++) {
		struct channel *c = &gsp.channels[i];

		if (c->client != client || (c->group != group && c->handle != handle))
			continue;
		/* Not for the time between two calls, either. */
		MUST(!enable || gsp.switches_on || c->off || c->process->may_run);
		c->scheduled = enable;
		c->off = c->off && !gsp.switches_on;
	}
}

/* GSP has disabled that group, or all, for what it does: in the end all of it is on. */
static void gsp_enable(NvHandle client, NvHandle group)
{
	int i;

	for (i = 0; i < gsp.count; i++)
		if (gsp.channels[i].client == client && (!group || gsp.channels[i].group == group))
			gsp.channels[i].off = NV_FALSE;
}

static NV_STATUS gsp_control(RM_API *api, NvHandle client, NvHandle object, NvU32 command, void *params, NvU32 size)
{
	MUST(rmDeviceGpuLockIsOwner(0));
	switch (command) {
	case NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS:
		MUST(size == sizeof(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS));
		MUST((client == GSP_CLIENT) == (object == GSP_SUBDEVICE));
		return gsp_disable(client, params);
	case NVA06C_CTRL_CMD_GPFIFO_SCHEDULE:
		gsp_schedule(client, object, 0, ((NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS *)params)->bEnable);
		return NV_OK;
	case NVA06F_CTRL_CMD_GPFIFO_SCHEDULE:
		gsp_schedule(client, 0, object, ((NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *)params)->bEnable);
		return NV_OK;
	case NV906F_CTRL_CMD_RESET_CHANNEL:
		gsp_schedule(client, 0, object, NV_TRUE);
		return NV_OK;
	case NVA06C_CTRL_CMD_PREEMPT:
		gsp.preemptions++;
		gsp_enable(client, object);
		return NV_OK;
	case NV2080_CTRL_CMD_GR_CTXSW_SMPC_MODE:
		gsp_enable(client, 0);
		return gsp.in_the_end;
	case NVA06F_CTRL_CMD_STOP_CHANNEL:
		gsp.immediate = ((NVA06F_CTRL_STOP_CHANNEL_PARAMS *)params)->bImmediate;
		find(client, object)->stopped = NV_TRUE;
		return NV_OK;
	case NV0080_CTRL_CMD_FIFO_IDLE_CHANNELS:
		gsp.idles++;
		return NV_OK;
	case NV5080_CTRL_CMD_DEFERRED_API:
		MUST(((NV5080_CTRL_DEFERRED_API_PARAMS *)params)->cmd != NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS);
		gsp.deferred++;
		return NV_OK;
	case NV5080_CTRL_CMD_DEFERRED_API_INTERNAL:
		MUST(((NV5080_CTRL_DEFERRED_API_V2_PARAMS *)params)->cmd != NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS);
		gsp.deferred++;
		return NV_OK;
	case NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION:
#ifdef NV2080_CTRL_CMD_FIFO_ROTATE_KEYS
	case NV2080_CTRL_CMD_FIFO_ROTATE_KEYS:
#endif
		MUST(!"it is asked for the rotation of keys");
	}
	return NV_ERR_NOT_SUPPORTED;
}

static NV_STATUS gsp_alloc(RM_API *api, NvHandle client, NvHandle parent, NvHandle object, NvU32 class, void *params,
			   NvU32 size)
{
	return NV_OK;
}

static NV_STATUS gsp_free(RM_API *api, NvHandle client, NvHandle object)
{
	return NV_OK;
}

/* ---- constructors: what SCHEDULE and the patches need ---- */

NV_STATUS kchangrpapiConstruct_IMPL(KernelChannelGroupApi *pApi, CALL_CONTEXT *pContext,
				    RS_RES_ALLOC_PARAMS_INTERNAL *pParams)
{
	OBJGPU *pGpu = GPU_RES_GET_GPU(pApi);
	KernelChannelGroup *pGroup;
	RsShared *pShared = NULL;

	if (RS_IS_COPY_CTOR(pParams)) {
		pApi->pKernelChannelGroup =
			dynamicCast(pParams->pSrcRef->pResource, KernelChannelGroupApi)->pKernelChannelGroup;
		return NV_OK;
	}
	MUST_OK(serverAllocShareWithHalspecParent(&g_resServ, classInfo(KernelChannelGroup), &pShared,
						  staticCast(pGpu, Object)));
	pGroup = dynamicCast(pShared, KernelChannelGroup);
	pGroup->gfid = 1;	/* its channels have no address space, which RM does not look for then */
	MUST_OK(kfifoChannelListCreate(pGpu, GPU_GET_KERNEL_FIFO(pGpu), &pGroup->pChanList));
	pApi->pKernelChannelGroup = pGroup;
	return NV_OK;
}

void kchangrpapiDestruct_IMPL(KernelChannelGroupApi *pApi)
{
}

static NvBool joins;	/* the next channels are opened without DELAY_CHANNEL_SCHEDULING */

NV_STATUS kchannelConstruct_IMPL(KernelChannel *p, CALL_CONTEXT *pContext, RS_RES_ALLOC_PARAMS_INTERNAL *pParams)
{
	OBJGPU *pGpu = GPU_RES_GET_GPU(p);

	p->refCount = 1;
	p->pKernelChannelGroupApi = dynamicCast(pContext->pResourceRef->pParentRef->pResource, KernelChannelGroupApi);
	MUST_OK(rmDeviceGpuLocksAcquire(pGpu, GPUS_LOCK_FLAGS_NONE, RM_LOCK_MODULES_FIFO));
	MUST_OK(kfifoChannelListAppend(pGpu, GPU_GET_KERNEL_FIFO(pGpu), p,
				       p->pKernelChannelGroupApi->pKernelChannelGroup->pChanList));
	kchannelSetRunlistSet(pGpu, p, NV_TRUE);
	gpurtChannelAdded(pGpu, p);
	if (joins)
		gpurtChannelJoins(pGpu, p);
	rmDeviceGpuLocksRelease(pGpu, GPUS_LOCK_FLAGS_NONE, NULL);
	return NV_OK;
}

void kchannelDestruct_IMPL(KernelChannel *p)
{
	OBJGPU *pGpu = GPU_RES_GET_GPU(p);

	MUST(rmDeviceGpuLockIsOwner(0));
	gpurtChannelRemoved(pGpu, p);
	MUST_OK(kfifoChannelListRemove(pGpu, GPU_GET_KERNEL_FIFO(pGpu), p,
				       p->pKernelChannelGroupApi->pKernelChannelGroup->pChanList));
}

NV_STATUS chandesConstruct_IMPL(ChannelDescendant *p, CALL_CONTEXT *pContext, RS_RES_ALLOC_PARAMS_INTERNAL *pParams,
				PARAM_TO_ENGDESC_FUNCTION *pEngine)
{
	p->pKernelChannel = dynamicCast(pContext->pResourceRef->pParentRef->pResource, KernelChannel);
	MUST(p->pKernelChannel);
	return NV_OK;
}

void chandesDestruct_IMPL(ChannelDescendant *p)
{
}

/* ---- the messages that RM and GSP send each other by themselves ---- */

static OBJRPC rpc;
static KernelChannel *failed;	/* GSP has stopped it, and has yet to say so */

OBJRPC *gpuGetRpc(OBJGPU *pGpu)
{
	return &rpc;
}

static NV_STATUS gsp_idle(OBJGPU *pGpu, OBJRPC *pRpc, NvHandle *clients, NvHandle *devices, NvHandle *channels,
			  NvU32 count, NvU32 flags, NvU32 timeout)
{
	MUST(rmDeviceGpuLockIsOwner(0));
	gsp.idles++;
	return NV_OK;
}

NV_STATUS GspMsgQueueReceiveStatus(MESSAGE_QUEUE_INFO *pQueue, OBJGPU *pGpu)
{
	static NvU32 buffer[1024];
	rpc_message_header_v *message = (rpc_message_header_v *)buffer;

	if (!rpc.message_buffer && failed) {
		message->function = NV_VGPU_MSG_EVENT_RC_TRIGGERED;
		rpc.message_buffer = buffer;
		return NV_OK;
	}
	rpc.message_buffer = NULL;
	return NV_WARN_NOTHING_TO_DO;
}

NV_STATUS kfifoGetChidMgrFromType_IMPL(OBJGPU *pGpu, KernelFifo *pKernelFifo, NvU32 type, NvU32 value,
				       CHID_MGR **ppManager)
{
	return NV_OK;
}

KernelChannel *kfifoChidMgrGetKernelChannel_IMPL(OBJGPU *pGpu, KernelFifo *pKernelFifo, CHID_MGR *pManager, NvU32 id)
{
	return failed;
}

NV_STATUS krcCheckBusError_KERNEL(OBJGPU *pGpu, KernelRc *pKernelRc)
{
	return NV_OK;
}

static NvBool is_alive(OBJGPU *pGpu, KernelGsp *pKernelGsp)
{
	return NV_TRUE;
}

static void gsp_reports(OBJGPU *pGpu, KernelChannel *p)
{
	failed = p;
	GPU_GET_KERNEL_GSP(pGpu)->__kgspHealthCheck__ = is_alive;
	kgspRpcRecvEvents(pGpu, GPU_GET_KERNEL_GSP(pGpu));
	failed = NULL;
}

/* ---- modes in which channels cannot be switched ---- */

static NvBool vgpu_host, mig;

NvBool hypervisorIsVgxHyper_IMPL(void)
{
	return vgpu_host;
}

NvBool kmigmgrIsMIGEnabled_IMPL(OBJGPU *pGpu, KernelMIGManager *pManager)
{
	return mig;
}

/* ---- what RM does to all channels when GSP has crashed, without their registers and notifiers ---- */

static KernelChannel *next_channel;

void kfifoGetChannelIterator_IMPL(OBJGPU *pGpu, KernelFifo *pKernelFifo, CHANNEL_ITERATOR *pIt, NvU32 runlist)
{
	next_channel = pKernelFifo->pGpurtChannels;
}

NV_STATUS kfifoGetNextKernelChannel_IMPL(OBJGPU *pGpu, KernelFifo *pKernelFifo, CHANNEL_ITERATOR *pIt,
					 KernelChannel **ppChannel)
{
	*ppChannel = next_channel;
	if (!next_channel)
		return NV_ERR_OBJECT_NOT_FOUND;
	next_channel = next_channel->pGpurtNext;
	return NV_OK;
}

NV_STATUS krcErrorSetNotifier_IMPL(OBJGPU *pGpu, KernelRc *pKernelRc, KernelChannel *p, NvU32 type,
				   RM_ENGINE_TYPE engine, RC_NOTIFIER_SCOPE scope)
{
	return NV_OK;
}

NV_STATUS krcErrorSendEventNotifications_KERNEL(OBJGPU *pGpu, KernelRc *pKernelRc, KernelChannel *p,
						RM_ENGINE_TYPE engine, NvU32 level, NvU32 type, RC_NOTIFIER_SCOPE scope,
						NvU16 partition, NvBool accounted)
{
	return NV_OK;
}

static void halt(OBJGPU *pGpu, KernelFifo *pKernelFifo, KernelChannel *p)
{
}

static void halted(OBJGPU *pGpu, KernelFifo *pKernelFifo, KernelChannel *p, RMTIMEOUT *pTimeout)
{
}

static void gsp_crashes(OBJGPU *pGpu)
{
	GPU_GET_KERNEL_FIFO(pGpu)->__kfifoStartChannelHalt__ = halt;
	GPU_GET_KERNEL_FIFO(pGpu)->__kfifoCompleteChannelHalt__ = halted;
#ifdef krcRcAndNotifyAllChannels
	krcRcAndNotifyAllChannels(pGpu, GPU_GET_KERNEL_RC(pGpu), GSP_ERROR, NV_TRUE);
#else	/* before 590 */
	kgspRcAndNotifyAllChannels(pGpu, GPU_GET_KERNEL_GSP(pGpu), GSP_ERROR, NV_TRUE);
#endif
}

/* ---- the card ---- */

static nv_state_t nv;
static OBJGPU *gpu;
static long stack[4096];	/* unused by RM of this architecture */
#define SP ((nvidia_stack_t *)stack)

/* The steps of osinit.c, in its order, that come before the firmware is loaded. */
static void attach_gpu(void)
{
	GPUATTACHARG arg;
	NvU32 instance, device;

	MUST_OK(gpumgrAllocGpuInstance(&instance));
	MUST_OK(rmGpuLockAlloc(instance));
	MUST_OK(gpumgrCreateDevice(&device, NVBIT(instance), NULL));
	portMemSet(&arg, 0, sizeof(arg));
	arg.fbPhysAddr = nv.fb->cpu_address;
	arg.fbLength = nv.fb->size;
	arg.devPhysAddr = nv.regs->cpu_address;
	arg.regBaseAddr = (GPUHWREG *)nv.regs->map;
	arg.regLength = nv.regs->size;
	arg.iovaspaceId = nv.iovaspace_id;
	arg.nvDomainBusDeviceFunc = gpuEncodeDomainBusDevice(0x42, 0, 1);
	arg.bRequestFwClientRm = NV_TRUE;
	arg.pOsAttachArg = &nv;
	MUST_OK(gpumgrThreadEnableExpandedGpuVisibility());
	MUST_OK(gpumgrAttachGpu(instance, &arg));
	gpu = gpumgrGetGpu(instance);
	sysApplyLockingPolicy(SYS_GET_INSTANCE());
	gpumgrSetParentGPU(gpu, gpu);
	gpu->setProperty(gpu, PDB_PROP_GPU_STATE_INITIALIZED, NV_TRUE);
	gpumgrThreadDisableExpandedGpuVisibility();
}

static void attach(void)
{
	THREAD_STATE_NODE state;

	MUST(rm_init_rm(SP));
	nv.pci_info.vendor_id = 0x10de;
	nv.pci_info.device_id = 0x2204;
	nv.pci_info.domain = 0x42;
	nv.pci_info.slot = 1;
	nv.regs = &nv.bars[NV_GPU_BAR_INDEX_REGS];
	nv.regs->cpu_address = 0x40000000;
	nv.regs->size = 16 << 20;
	nv.fb = &nv.bars[NV_GPU_BAR_INDEX_FB];
	nv.fb->cpu_address = 0x50000000;
	nv.fb->size = 64 << 20;
	nv.request_firmware = NV_TRUE;
	nv.request_fw_client_rm = NV_TRUE;
	MUST(rm_init_private_state(SP, &nv));
	MUST_OK(rm_gpurt_commit(SP, &nv, NV_FALSE));	/* it is closed */
	nv.regs->map = os_map_kernel_space(0, 0, 0);
	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	MUST_OK(rmapiLockAcquire(RMAPI_LOCK_FLAGS_NONE, RM_LOCK_MODULES_INIT));
	attach_gpu();
	rmapiLockRelease();
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	((nv_priv_t *)nv.priv)->pGpu = gpu;
	gpu->physicalRmApi.Control = gsp_control;
	gpu->physicalRmApi.AllocWithHandle = gsp_alloc;
	gpu->physicalRmApi.Free = gsp_free;
	gpu->hInternalClient = GSP_CLIENT;
	gpu->hInternalSubdevice = GSP_SUBDEVICE;
	rpc._hal.rpcIdleChannels = gsp_idle;
	MUST(rm_gpurt_refused(SP, &nv) == NULL);
	strict = 1;
}
