// SPDX-License-Identifier: GPL-2.0
/*
 * RM (nv-kernel.o) with the patches, in a process; card.h is the card.  Processes ask RM by its own interface, with
 * its own locks.  Tests see whose channels the firmware then executes.
 */
#include "card.h"

static const API_SECURITY_INFO unprivileged = {
	.privLevel = RS_PRIV_LEVEL_USER, .paramLocation = PARAM_LOCATION_KERNEL,
};

static NV_STATUS open_object(struct process *who, NvHandle client, NvHandle parent, NvHandle *object, NvU32 class,
			     void *params, NvU32 size)
{
	RM_API *api = rmapiGetInterface(RMAPI_EXTERNAL);
	API_SECURITY_INFO info = unprivileged;
	THREAD_STATE_NODE state;
	NV_STATUS status;

	caller = who;
	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	status = api->AllocWithSecInfo(api, client, parent, object, class, NV_PTR_TO_NvP64(params), size, 0, NvP64_NULL,
				       &info);
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	return status;
}

static NV_STATUS ask(struct process *who, NvHandle client, NvHandle object, NvU32 command, void *params, NvU32 size)
{
	RM_API *api = rmapiGetInterface(RMAPI_EXTERNAL);
	API_SECURITY_INFO info = unprivileged;
	THREAD_STATE_NODE state;
	NV_STATUS status;

	caller = who;
	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	status = api->ControlWithSecInfo(api, client, object, command, NV_PTR_TO_NvP64(params), size, 0, &info);
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	return status;
}

/* A process with a client; all clients use the same handles. */
struct user {
	struct process process;
	NvHandle client;
};

#define DEVICE		0x80
#define SUBDEVICE	0x2080
#define GROUP		0xa0
#define FIRST		0x100	/* channel */

static struct user a, b;

static void open_user(struct user *u)
{
	NV0080_ALLOC_PARAMETERS device = { 0 };
	NV2080_ALLOC_PARAMETERS subdevice = { 0 };
	NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group = { 0 };
	NvHandle handles[] = { DEVICE, SUBDEVICE, GROUP };

	portMemSet(u, 0, sizeof(*u));
	u->process.may_run = NV_TRUE;
	MUST_OK(open_object(&u->process, 0, 0, &u->client, NV01_ROOT, &u->client, sizeof(u->client)));
	MUST_OK(open_object(&u->process, u->client, u->client, &handles[0], NV01_DEVICE_0, &device, sizeof(device)));
	MUST_OK(open_object(&u->process, u->client, DEVICE, &handles[1], NV20_SUBDEVICE_0, &subdevice,
			    sizeof(subdevice)));
	MUST_OK(open_object(&u->process, u->client, DEVICE, &handles[2], KEPLER_CHANNEL_GROUP_A, &group,
			    sizeof(group)));
}

static void open_channels(struct user *u, NvHandle group, NvHandle first, int count)
{
	static NV_CHANNEL_ALLOC_PARAMS params;
	NvHandle handle;

	for (handle = first; handle < first + count; handle++) {
		gsp.channels[gsp.count++] = (struct channel){
			.process = &u->process, .client = u->client, .group = group, .handle = handle };
		portMemSet(&params, 0, sizeof(params));
		MUST_OK(open_object(&u->process, u->client, group, &handle, AMPERE_CHANNEL_GPFIFO_A, &params,
				    sizeof(params)));
	}
}

static void close_object(struct user *u, NvHandle handle)
{
	RM_API *api = rmapiGetInterface(RMAPI_EXTERNAL_KERNEL);
	THREAD_STATE_NODE state;
	struct channel *c = find(u->client, handle);

	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	MUST_OK(api->Free(api, u->client, handle));
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	if (c)
		*c = gsp.channels[--gsp.count];
}

static void close_users(void)
{
	close_object(&a, a.client);
	close_object(&b, b.client);
	MUST(a.process.channels == 0 && b.process.channels == 0);
	MUST(GPU_GET_KERNEL_FIFO(gpu)->pGpurtChannels == NULL);
}

/* The firmware knows nothing, and RM has to find out anew what it can do. */
static void start(void)
{
	portMemSet(&gsp, 0, sizeof(gsp));
	gsp.fails_after = -1;
	recommits = 0;
	joins = NV_FALSE;
	GPU_GET_KERNEL_FIFO(gpu)->bGpurtDecided = NV_FALSE;
	GPU_GET_KERNEL_FIFO(gpu)->bGpurtTogether = NV_FALSE;
	open_user(&a);
	open_user(&b);
}

static NV_STATUS schedule(struct user *u, NvHandle group, NvBool enable)
{
	NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS params = { .bEnable = enable };

	return ask(&u->process, u->client, group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &params, sizeof(params));
}

static NV_STATUS commit(NvBool resend)
{
	return rm_gpurt_commit(SP, &nv, resend);
}

static int running(struct user *u, NvHandle first, int count)
{
	int i, n = 0;

	for (i = 0; i < count; i++)
		n += runs(u->client, first + i);
	return n;
}

/* @u asks for the channels of @of. */
static NV_STATUS switch_channels(struct user *u, struct user *of, NvHandle first, NvU32 count, NvBool off)
{
	static NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params;
	NvU32 i;

	portMemSet(&params, 0, sizeof(params));
	params.bDisable = off;
	params.numChannels = count;
	for (i = 0; i < count && i < NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES; i++) {
		params.hClientList[i] = of->client;
		params.hChannelList[i] = first + i;
	}
	return ask(&u->process, u->client, SUBDEVICE, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &params, sizeof(params));
}

/* @u asks for the first channel of both. */
static NV_STATUS switch_both(struct user *u, NvBool off)
{
	NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params = { .bDisable = off, .numChannels = 2 };

	params.hClientList[0] = a.client;
	params.hClientList[1] = b.client;
	params.hChannelList[0] = FIRST;
	params.hChannelList[1] = FIRST;
	return ask(&u->process, u->client, SUBDEVICE, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &params, sizeof(params));
}

/* 131 channels, of two processes; one call has those of both. */
static void test_commit(void)
{
	start();
	open_channels(&a, GROUP, FIRST, 131);
	open_channels(&b, GROUP, FIRST, 2);
	MUST(a.process.channels == 131 && b.process.channels == 2);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST_OK(schedule(&b, GROUP, NV_TRUE));
	MUST_OK(commit(NV_FALSE));
	MUST(gsp.calls == 0 && running(&a, FIRST, 131) == 131);
	a.process.may_run = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	MUST(gsp.calls == 3 && gsp.biggest == 64 && !running(&a, FIRST, 131) && running(&b, FIRST, 2) == 2);
	b.process.may_run = NV_FALSE;
	a.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	MUST(gsp.calls == 7 && running(&a, FIRST, 131) == 131 && !running(&b, FIRST, 2));
	a.process.may_run = NV_FALSE;
	b.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	a.process.may_run = NV_TRUE;
	b.process.may_run = NV_FALSE;
	close_object(&b, FIRST);
	MUST_OK(commit(NV_FALSE));
	MUST(running(&a, FIRST, 131) == 131 && !running(&b, FIRST + 1, 1));
	close_users();
}

/* Both processes' channels are switched by the one call, if the firmware lets one client name all. */
static void test_foreign(NvBool refused)
{
	start();
	gsp.refuses_foreign = refused;
	open_channels(&a, GROUP, FIRST, 2);
	open_channels(&b, GROUP, FIRST, 2);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST_OK(schedule(&b, GROUP, NV_TRUE));
	a.process.may_run = NV_FALSE;
	b.process.may_run = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	MUST(gsp.calls == (refused ? 3 : 1) && !running(&a, FIRST, 2) && !running(&b, FIRST, 2));
	a.process.may_run = NV_TRUE;
	b.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	MUST(gsp.calls == (refused ? 5 : 2) && running(&a, FIRST, 2) == 2 && running(&b, FIRST, 2) == 2);
	close_users();
}

/* There since 595. */
static void rotate_keys(void)
{
#ifdef NV2080_CTRL_CMD_FIFO_ROTATE_KEYS
	static NV2080_CTRL_CMD_FIFO_ROTATE_KEYS_PARAMS params;

	MUST_BE(ask(&a.process, a.client, SUBDEVICE, NV2080_CTRL_CMD_FIFO_ROTATE_KEYS, &params, sizeof(params)),
		NV_ERR_NOT_SUPPORTED);
#endif
}

/* Whatever RM is asked, a process that may not run does not. */
static void test_doors(NvBool switches_on)
{
	NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS one = { .bEnable = NV_TRUE };
	NV906F_CTRL_CMD_RESET_CHANNEL_PARAMS reset = { 0 };
	NVA06C_CTRL_PREEMPT_PARAMS preempt = { .bWait = NV_TRUE };
	NV2080_CTRL_GR_CTXSW_SMPC_MODE_PARAMS counters = { .hChannel = FIRST };
	static NV2080_CTRL_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION_PARAMS keys;

	start();
	gsp.switches_on = switches_on;
	a.process.may_run = NV_FALSE;
	open_channels(&a, GROUP, FIRST, 2);
	open_channels(&b, GROUP, FIRST, 1);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST_OK(schedule(&b, GROUP, NV_TRUE));
	MUST(!running(&a, FIRST, 2) && running(&b, FIRST, 1) == 1);
	MUST_OK(ask(&a.process, a.client, FIRST, NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, &one, sizeof(one)));
	MUST(!running(&a, FIRST, 2));
	MUST_OK(ask(&a.process, a.client, FIRST, NV906F_CTRL_CMD_RESET_CHANNEL, &reset, sizeof(reset)));
	MUST(!running(&a, FIRST, 2));
	MUST_OK(ask(&a.process, a.client, GROUP, NVA06C_CTRL_CMD_PREEMPT, &preempt, sizeof(preempt)));
	MUST(!running(&a, FIRST, 2) && gsp.preemptions == 0);
	MUST_OK(ask(&b.process, b.client, GROUP, NVA06C_CTRL_CMD_PREEMPT, &preempt, sizeof(preempt)));
	MUST(gsp.preemptions == 1);
	MUST_OK(ask(&a.process, a.client, SUBDEVICE, NV2080_CTRL_CMD_GR_CTXSW_SMPC_MODE, &counters, sizeof(counters)));
	MUST(!running(&a, FIRST, 2));
	gsp.in_the_end = NV_ERR_INVALID_STATE;
	MUST_BE(ask(&a.process, a.client, SUBDEVICE, NV2080_CTRL_CMD_GR_CTXSW_SMPC_MODE, &counters, sizeof(counters)),
		NV_ERR_INVALID_STATE);
	MUST(!running(&a, FIRST, 2));
	MUST_OK(switch_channels(&a, &a, FIRST, 2, NV_FALSE));
	MUST(!running(&a, FIRST, 2));
	MUST_BE(switch_channels(&b, &a, FIRST, 2, NV_FALSE), NV_ERR_INSUFFICIENT_PERMISSIONS);
	MUST(!running(&a, FIRST, 2));
	MUST_BE(switch_channels(&a, &b, FIRST, 1, NV_TRUE), NV_ERR_INSUFFICIENT_PERMISSIONS);
	MUST(running(&b, FIRST, 1) == 1);
	MUST_BE(switch_both(&b, NV_TRUE), NV_ERR_INSUFFICIENT_PERMISSIONS);
	/* GSP gets what is nobody's, and nothing that is off. */
	MUST_BE(switch_channels(&a, &a, FIRST, 3, NV_FALSE), NV_ERR_OBJECT_NOT_FOUND);
	MUST(!running(&a, FIRST, 2) && running(&b, FIRST, 1) == 1);
	MUST_BE(switch_channels(&a, &a, FIRST, 65, NV_FALSE), NV_ERR_INVALID_ARGUMENT);
	MUST_BE(ask(&a.process, a.client, SUBDEVICE, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION, &keys,
		    sizeof(keys)), NV_ERR_NOT_SUPPORTED);
	rotate_keys();
	joins = NV_TRUE;
	open_channels(&a, GROUP, FIRST + 2, 1);
	find(a.client, FIRST + 2)->scheduled = NV_TRUE;
	MUST(!running(&a, FIRST, 3));
	a.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	MUST(running(&a, FIRST, 3) == 3 && recommits == 0);
	close_users();
}

/* Channels that a process has switched off itself are not switched on by gpurt. */
static void test_own_off(void)
{
	start();
	open_channels(&a, GROUP, FIRST, 2);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST_OK(switch_channels(&a, &a, FIRST, 1, NV_TRUE));
	MUST(!running(&a, FIRST, 1) && running(&a, FIRST + 1, 1));
	a.process.may_run = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	a.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	MUST(!running(&a, FIRST, 1) && running(&a, FIRST + 1, 1));
	MUST_OK(switch_channels(&a, &a, FIRST, 1, NV_FALSE));
	MUST_OK(commit(NV_FALSE));
	MUST(running(&a, FIRST, 2) == 2);
	close_users();
}

/* The n-th call fails half-way, or times out; the next commit repairs it. */
static void test_failures(void)
{
	static const NV_STATUS with[] = { NV_ERR_TIMEOUT, NV_ERR_GPU_IS_LOST, NV_ERR_INVALID_STATE };
	int n, i;

	for (i = 0; i < 3; i++) {
		for (n = 0; n < 4; n++) {
			start();
			open_channels(&a, GROUP, FIRST, 131);
			open_channels(&b, GROUP, FIRST, 2);
			MUST_OK(schedule(&a, GROUP, NV_TRUE));
			MUST_OK(schedule(&b, GROUP, NV_TRUE));
			b.process.may_run = NV_FALSE;
			MUST_OK(commit(NV_FALSE));
			a.process.may_run = NV_FALSE;
			b.process.may_run = NV_TRUE;
			gsp.fails_after = n;
			gsp.fails_with = with[i];
			MUST_BE(commit(NV_FALSE), with[i]);
			MUST_OK(commit(NV_FALSE));
			MUST(!running(&a, FIRST, 131) && running(&b, FIRST, 2) == 2);
			close_users();
		}
	}
}

/* A schedule that cannot be kept off has gpurt commit anew. */
static void test_schedule_fails(void)
{
	start();
	gsp.switches_on = NV_TRUE;
	a.process.may_run = NV_FALSE;
	open_channels(&a, GROUP, FIRST, 1);
	gsp.fails_after = 1;
	gsp.fails_with = NV_ERR_TIMEOUT;
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST(recommits == 1 && running(&a, FIRST, 1) == 1);
	MUST_OK(commit(NV_FALSE));
	MUST(!running(&a, FIRST, 1));
	close_users();
}

/* After a sleep the firmware has all of them on. */
static void test_resume(void)
{
	start();
	open_channels(&a, GROUP, FIRST, 3);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	a.process.may_run = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	find(a.client, FIRST)->off = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	MUST(running(&a, FIRST, 3) == 1);
	MUST_OK(commit(NV_TRUE));
	MUST(!running(&a, FIRST, 3));
	close_users();
}

/* A call that GSP would carry out later, when a channel says so. */
static void test_deferred(void)
{
	static NV5080_CTRL_DEFERRED_API_PARAMS params;
	static NV5080_CTRL_DEFERRED_API_V2_PARAMS second;
	NvHandle object = 0x5080;

	start();
	open_channels(&a, GROUP, FIRST, 1);
	MUST_OK(open_object(&a.process, a.client, FIRST, &object, NV50_DEFERRED_API_CLASS, NULL, 0));
	params.hApiHandle = second.hApiHandle = 1;
	params.cmd = second.cmd = NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS;
	MUST_BE(ask(&a.process, a.client, object, NV5080_CTRL_CMD_DEFERRED_API, &params, sizeof(params)),
		NV_ERR_NOT_SUPPORTED);
	MUST_BE(ask(&a.process, a.client, object, NV5080_CTRL_CMD_DEFERRED_API_V2, &second, sizeof(second)),
		NV_ERR_NOT_SUPPORTED);
	MUST(gsp.deferred == 0);
	params.cmd = second.cmd = NV2080_CTRL_CMD_GR_CTXSW_PM_BIND;
	MUST_OK(ask(&a.process, a.client, object, NV5080_CTRL_CMD_DEFERRED_API, &params, sizeof(params)));
	MUST_OK(ask(&a.process, a.client, object, NV5080_CTRL_CMD_DEFERRED_API_V2, &second, sizeof(second)));
	MUST(gsp.deferred == 2);
	close_users();
}

static void close_first(void)
{
	close_object(&b, FIRST);
}

static void schedule_again(void)
{
	MUST_OK(schedule(&b, GROUP, NV_TRUE));
}

/* Calls of others during a commit wait for its end. */
static void test_beside(void (*what)(void), NvBool switches_on)
{
	start();
	gsp.switches_on = switches_on;
	open_channels(&a, GROUP, FIRST, 65);
	open_channels(&b, GROUP, FIRST, 66);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST_OK(schedule(&b, GROUP, NV_TRUE));
	b.process.may_run = NV_FALSE;
	gsp.beside = what;
	MUST_OK(commit(NV_FALSE));
	join_other();
	MUST(b.process.channels == (what == close_first ? 65 : 66));
	MUST(running(&a, FIRST, 65) == 65 && !running(&b, FIRST + 1, 65) && recommits == 0);
	close_users();
}

/* The end of a process that is off: its channels stop at once, and nobody waits for them to get idle. */
static void test_end(void)
{
	NVA06F_CTRL_STOP_CHANNEL_PARAMS stop = { .bImmediate = NV_FALSE };
	static NV0080_CTRL_FIFO_IDLE_CHANNELS_PARAMS idle;
	NV0000_CTRL_GPU_IDLE_CHANNELS_PARAMS older = {
		.hDevice = DEVICE, .hChannel = FIRST, .flags = DRF_DEF(OS30, _FLAGS, _CHANNEL, _SINGLE) };

	start();
	open_channels(&a, GROUP, FIRST, 2);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	a.process.may_run = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	idle.numChannels = 1;
	idle.hChannels[0] = FIRST;
	MUST_BE(ask(&a.process, a.client, DEVICE, NV0080_CTRL_CMD_FIFO_IDLE_CHANNELS, &idle, sizeof(idle)),
		NV_ERR_TIMEOUT);
	MUST_BE(ask(&a.process, a.client, a.client, NV0000_CTRL_CMD_IDLE_CHANNELS, &older, sizeof(older)),
		NV_ERR_TIMEOUT);
	MUST(gsp.idles == 0);
	MUST_OK(ask(&a.process, a.client, FIRST, NVA06F_CTRL_CMD_STOP_CHANNEL, &stop, sizeof(stop)));
	MUST(gsp.immediate);
	a.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	a.process.may_run = NV_FALSE;
	MUST_OK(commit(NV_FALSE));
	close_object(&a, FIRST);
	MUST(a.process.channels == 1);
	MUST_OK(commit(NV_FALSE));
	a.process.may_run = NV_TRUE;
	MUST_OK(commit(NV_FALSE));
	MUST(running(&a, FIRST + 1, 1) == 1);
	stop.bImmediate = NV_FALSE;
	MUST_OK(ask(&a.process, a.client, FIRST + 1, NVA06F_CTRL_CMD_STOP_CHANNEL, &stop, sizeof(stop)));
	MUST(!gsp.immediate);
	MUST_OK(ask(&a.process, a.client, DEVICE, NV0080_CTRL_CMD_FIFO_IDLE_CHANNELS, &idle, sizeof(idle)));
	older.hChannel = FIRST + 1;
	MUST_OK(ask(&a.process, a.client, a.client, NV0000_CTRL_CMD_IDLE_CHANNELS, &older, sizeof(older)));
	MUST(gsp.idles == 2);
	close_users();
}

/* A reset is told, and so is the death of all channels, once and without a look at the list. */
static void test_reset(void)
{
	THREAD_STATE_NODE state;

	start();
	open_channels(&a, GROUP, FIRST, 1);
	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	MUST_OK(rmapiLockAcquire(RMAPI_LOCK_FLAGS_NONE, RM_LOCK_MODULES_INIT));
	MUST_OK(gpuMarkDeviceForReset(gpu));
	MUST(resets == 1);
	MUST_OK(rmDeviceGpuLocksAcquire(gpu, GPUS_LOCK_FLAGS_NONE, RM_LOCK_MODULES_FIFO));
	lost = 0;
	gsp_crashes(gpu);
	rmDeviceGpuLocksRelease(gpu, GPUS_LOCK_FLAGS_NONE, NULL);
	MUST(lost == 1 && a.process.kills == 0);
	MUST_OK(gpuUnmarkDeviceForReset(gpu));
	MUST(resets == 0);
	rmapiLockRelease();
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	close_users();
}

static KernelChannel *channel_of(struct user *u)
{
	KernelChannel *p = GPU_GET_KERNEL_FIFO(gpu)->pGpurtChannels;

	while (p->pGpurtOwner != &u->process)
		p = p->pGpurtNext;
	return p;
}

/* GSP reports the death of one channel. */
static void test_kill(void)
{
	THREAD_STATE_NODE state;

	start();
	open_channels(&a, GROUP, FIRST, 2);
	open_channels(&b, GROUP, FIRST, 1);
	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	MUST_OK(rmDeviceGpuLocksAcquire(gpu, GPUS_LOCK_FLAGS_NONE, RM_LOCK_MODULES_FIFO));
	gsp_reports(gpu, channel_of(&a));
	MUST(a.process.kills == 1 && b.process.kills == 0);
	rmDeviceGpuLocksRelease(gpu, GPUS_LOCK_FLAGS_NONE, NULL);
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	close_users();
}

static void must_refuse(NvBool is_refused)
{
	MUST(!rm_gpurt_refused(SP, &nv) == !is_refused);
	MUST_BE(commit(NV_FALSE), is_refused ? NV_ERR_NOT_SUPPORTED : NV_OK);
	MUST(gsp.calls == 0);
}

/* With none of these RM sends a thing. */
static void test_refusals(void)
{
	NvBool *modes[] = { &gpu->isVirtual, &vgpu_host, &mig };
	ConfidentialCompute *pCC = GPU_GET_CONF_COMPUTE(gpu);
	unsigned int i;

	start();
	open_channels(&a, GROUP, FIRST, 1);
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	for (i = 0; i < NV_ARRAY_ELEMENTS(modes); i++) {
		must_refuse(NV_FALSE);
		*modes[i] = NV_TRUE;
		a.process.may_run = NV_FALSE;
		must_refuse(NV_TRUE);
		a.process.may_run = NV_TRUE;
		*modes[i] = NV_FALSE;
	}
	MUST(pCC);
	pCC->setProperty(pCC, PDB_PROP_CONFCOMPUTE_CC_FEATURE_ENABLED, NV_TRUE);
	must_refuse(NV_TRUE);
	pCC->setProperty(pCC, PDB_PROP_CONFCOMPUTE_CC_FEATURE_ENABLED, NV_FALSE);
	gpu->isGspClient = NV_FALSE;
	must_refuse(NV_TRUE);
	gpu->isGspClient = NV_TRUE;
	close_users();
}

/* Channels of two processes in a group, as MPS has: each is judged by its owner. */
static void test_shared_group(void)
{
	RM_API *api = rmapiGetInterface(RMAPI_EXTERNAL_KERNEL);
	NVA06C_CTRL_PREEMPT_PARAMS preempt = { .bWait = NV_TRUE };
	NvHandle shared = GROUP + 1;
	THREAD_STATE_NODE state;

	start();
	threadStateInit(&state, THREAD_STATE_FLAGS_NONE);
	MUST_OK(api->DupObject(api, b.client, DEVICE, &shared, a.client, GROUP, 0));
	threadStateFree(&state, THREAD_STATE_FLAGS_NONE);
	open_channels(&a, GROUP, FIRST, 1);
	open_channels(&b, shared, FIRST, 1);
	a.process.may_run = NV_FALSE;
	gsp.switches_on = NV_TRUE;
	find(b.client, FIRST)->scheduled = NV_TRUE;
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST(!running(&a, FIRST, 1) && running(&b, FIRST, 1) == 1);
	a.process.may_run = NV_TRUE;
	b.process.may_run = NV_FALSE;
	MUST_OK(schedule(&a, GROUP, NV_TRUE));
	MUST(running(&a, FIRST, 1) == 1 && !running(&b, FIRST, 1));
	/* What may run is off and on, and no more comes on. */
	gsp.calls = 0;
	MUST_OK(ask(&a.process, a.client, GROUP, NVA06C_CTRL_CMD_PREEMPT, &preempt, sizeof(preempt)));
	MUST(gsp.calls == 2 && !gsp.preemptions && running(&a, FIRST, 1) == 1 && !running(&b, FIRST, 1));
	close_object(&b, b.client);
	close_object(&a, a.client);
}

int main(void)
{
	attach();
	test_commit();
	test_foreign(NV_FALSE);
	test_foreign(NV_TRUE);
	test_doors(NV_FALSE);
	test_doors(NV_TRUE);
	test_own_off();
	test_failures();
	test_schedule_fails();
	test_resume();
	test_deferred();
	test_beside(close_first, NV_FALSE);
	test_beside(schedule_again, NV_FALSE);
	test_beside(schedule_again, NV_TRUE);
	test_end();
	test_reset();
	test_kill();
	test_refusals();
	test_shared_group();
	printf("ok\n");
	return 0;
}
