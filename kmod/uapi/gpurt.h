/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * gpurt: real-time priorities for GPU work.  This file is the whole interface and its manual.
 *
 * Two planes
 * ----------
 * The data plane is for the programs that use the GPU: ioctls on /dev/gpurt.  The control plane is for
 * the administrator: generic netlink family "gpurt".  The user-space host (`gpurt emulate`) offers both
 * as packets on one Unix SOCK_SEQPACKET socket; see struct gpurt_packet.
 *
 * A caller can act for itself only.  The host believes no process id in a structure: the caller is the process that
 * opened the descriptor (or connected the socket).  One open descriptor is one *client* on every GPU it names.  A
 * program that wants several clients (say one a thread) opens several descriptors.  The client is gone when the
 * descriptor closes, or when its process executes another program or dies.  Then its segments end, its TSGs close, and
 * the host drops its work.
 *
 * Structures that grow
 * --------------------
 * Every ioctl structure begins with its own size in bytes, as the caller knows it.  EINVAL: the structure is shorter
 * than the first published version.  E2BIG: it is longer than the host's version and not zero beyond, or has more than
 * GPURT_MAX_STRUCT bytes.  Padding and unused fields must be zero and unknown flags unset: EINVAL.  EFAULT: the host
 * cannot read the structure, and did nothing; or it cannot write the answer.  In the second case it carried out the
 * call all the same: a begin has begun its segment.
 *
 * Data plane
 * ----------
 * GPURT_IOC_QUERY	struct gpurt_query
 *	Returns the host's interface version, capabilities (GPURT_CAP_*) and number of GPUs, and policy, tier and device
 *	of the GPU `gpu`.  Numbers of a patched driver's GPUs follow their addresses, but a program that knows which GPU
 *	it uses looks for its `device`.  ENODEV: no such GPU.
 *
 * GPURT_IOC_BEGIN	struct gpurt_begin
 *	Begin a GPU segment.  Returns at once; `state` says whether the caller holds the GPU (GPURT_STATE_RUNNING) or
 *	its work waits (GPURT_STATE_PENDING).  With GPURT_BEGIN_WAIT the call blocks until the caller holds the GPU.
 *	EINTR: a signal came first, and the segment stays begun.  The host has then set GPURT_BEGIN_BEGUN in `flags`:
 *	the same call goes on waiting, and begins nothing.  ENOENT, EIO: that segment is over, as for GPURT_IOC_WAIT.
 *	Segments nest by counting; the first begin fixes the priority.  `priority` 1..99 asks for a priority other than
 *	the caller's own SCHED_FIFO/SCHED_RR priority, 0 for the caller's own.  EPERM: higher than the caller could give
 *	itself with sched_setscheduler(2).  EOVERFLOW: nested too deeply.  The outermost begin states the client's form,
 *	and has more errors: see "Raised threads".
 *
 * GPURT_IOC_END	struct gpurt_end
 *	End the innermost segment.  With GPURT_END_DRAIN the GPU is handed on only once the caller's submitted work has
 *	completed; the call blocks until then.  ENOENT: no segment is open.  EIO: the driver killed the caller's work,
 *	and with it the segment; GPURT_IOC_WAIT also returns EIO, until the next begin.  If the host sets
 *	GPURT_BEGIN_POST in the `flags` of its answer to a begin, the caller may post the segment's end, as a packet
 *	with cookie 0, without flags.  Limits do not apply to this packet.  The host takes it before all that the
 *	connection sends later, and before the client is gone.  The user-space host permits it under policy `segment`
 *	where agents carry out commits.  A posted end without an open segment does nothing.  A process that may begin
 *	without asking (GPURT_ORDER_FREE) posts its outermost begin likewise, with GPURT_BEGIN_POST.  A posted begin has
 *	no `priority`; `raised` is the thread's own priority.  The host believes it if the process has the right to it,
 *	or the thread has it.  With GPURT_BEGIN_YIELD (GPURT_ORDER_YIELD) the host takes others off a millisecond later,
 *	unless the segment ends before.  After a segment that lasted longer, the host takes them off at once.  A begin
 *	by a call may also have that flag: then a more urgent process with GPURT_ORDER_FREE may stay on.  Before any
 *	other begin, and before a GPURT_IOC_WAIT for the GPU, the host takes all others off.
 *
 * GPURT_IOC_WAIT	struct gpurt_wait
 *	Block until `what` holds.  GPURT_WAIT_GRANT: the caller holds the GPU.  GPURT_WAIT_WORK: the work item `work` of
 *	TSG `tsg` has completed.  GPURT_WAIT_IDLE: all submitted work has completed.  `timeout_ns` is relative, or
 *	GPURT_TIMEOUT_AT and a time (CLOCK_MONOTONIC); GPURT_FOREVER waits without limit; see "Signals".  ETIMEDOUT,
 *	EINTR, ENOENT (no open segment, or no such TSG, or work that was never submitted).  On return `completed_ns` is
 *	the time (CLOCK_MONOTONIC) at which the awaited work completed or the host gave the grant.  For work that is not
 *	among the last GPURT_REMEMBERED items of its TSG, it is the time of the client's latest completion.
 *
 * GPURT_IOC_COPY	struct gpurt_copy
 *	The bus between memory and a GPU carries one copy at a time, the most urgent request first.  A copy is not
 *	preempted.  GPURT_COPY_BEGIN asks for the bus and returns when the caller has it; `granted_ns` is the time of
 *	that, and `priority` is as for GPURT_IOC_BEGIN.  GPURT_COPY_NEXT, between two chunks of a copy, asks again
 *	before it gives the bus back.  A waiting request comes first if it is more urgent, or as urgent.  Both calls
 *	wait as GPURT_IOC_WAIT does (0: not at all).  ETIMEDOUT, EINTR: the caller neither has the bus nor waits for it,
 *	and has nothing to end.  GPURT_COPY_END gives the bus back; from another thread it also withdraws a waiting
 *	request, which returns ECANCELED.  With a `request`, GPURT_COPY_END ends only the copy that the BEGIN or NEXT of
 *	that number asked for last.  So a thread that gives up a call cannot end another thread's copy.  A client has
 *	one copy at a time: EBUSY.  ENOENT: the client does not hold the bus, or not by that request.  EPERM: as for
 *	GPURT_IOC_BEGIN.  Copies need no segment.  A budget does not count copies, and the driver does not learn of
 *	them.  The program makes the copy, and waits for its end before it calls again.  A client that has the bus and
 *	dies, or closes its descriptor, has given the bus back.  A best-effort client that has kept the bus for
 *	GPURT_COPY_BOUND_NS while a real-time client waits loses it (GPURT_EVENT_OVERRUN).  Under policy `boosted` the
 *	host raises the copying thread, like a thread of form `self`, with the errors of "Raised threads".  The thread
 *	is raised from before it asks for the bus until it has given the bus back.  A user-space host without
 *	GPURT_CAP_RAISES refuses copies under `boosted`: EOPNOTSUPP.
 *
 * GPURT_IOC_GROUP_JOIN	struct gpurt_group_join			(GPURT_CAP_GROUPS only)
 *	Makes the client a member of the group called `name` on every GPU, until the client is gone (see "Groups").
 *	Groups of different users are different, whatever their names.  The first member makes the group, and the group
 *	ends with its last member.  To join again does nothing, unless GPURT_GROUP_ALL is given.  With that flag the
 *	group raises all its threads; for this client, from now on, the calling thread: see "Groups".  EBUSY: the client
 *	is in a segment or in another group, or the flag is given and the group does not raise all its threads.  EBUSY
 *	also: another descriptor of the process is in another group, on a GPU that switches whole processes.
 *	EOPNOTSUPP: the host has no groups, or one of the client's GPUs does not support them.  The client's first call
 *	for another GPU may also return these errors.  EDQUOT: the user has GPURT_MAX_USER_GROUPS groups, or the group
 *	has GPURT_MAX_MEMBERS members, or client and group are under different budgets.
 *
 * GPURT_IOC_TSG_OPEN, GPURT_IOC_TSG_CLOSE	struct gpurt_tsg		(GPURT_CAP_VGPU only)
 *	Open a time-slice group on a virtual GPU; `tsg` is its number among the client's TSGs.  To close a TSG drops its
 *	work; to close the last TSG while in a segment ends the segment.  EMFILE: the client already has
 *	GPURT_MAX_CLIENT_TSGS.  ENOENT: the client has no TSG of that number.
 *
 * GPURT_IOC_SUBMIT	struct gpurt_submit				(GPURT_CAP_VGPU only)
 *	Queue work of `duration_ns` on engine `engine` of a TSG; `work` is its number, counting from 1 in each TSG.
 *	Engines of one TSG work side by side, each in submission order.  With GPURT_SUBMIT_FENCE the item starts only
 *	when everything submitted before it to this TSG has completed.  On the execution engine, work may be
 *	GPURT_SUBMIT_MEMORY or GPURT_SUBMIT_COMPUTE intensive.  While another client also has such work queued on the
 *	GPU, the item takes `conflict` thousandths of its time (1,000 to GPURT_MAX_CONFLICT; 0: 1,000).  If the GPU is a
 *	partition, memory-intensive work in other partitions also slows memory-intensive work down, by the host's
 *	factor.  With GPURT_SUBMIT_PARALLEL the duration is the time on one unit of the GPU; the GPU's partition has
 *	several.  A kernel with a serial part is two items.  EINVAL: less than GPURT_MIN_WORK_NS on the GPU's units, or
 *	a duration of more than GPURT_MAX_WORK_NS.  ENOBUFS: GPURT_MAX_QUEUED items of the TSG, or
 *	GPURT_MAX_CLIENT_QUEUED items of the client, have not completed.
 *
 * GPURT_IOC_TSG_SHAPE	struct gpurt_tsg_shape				(GPURT_CAP_VGPU only)
 *	Gives a TSG an interleave level (enum gpurt_interleave_level) and a time slice of its own (0: the GPU's slice).
 *	Both hold from the TSG's next turn on, and count while all TSGs are on the runlist.  EINVAL: a slice that is not
 *	0 and less than GPURT_MIN_SLICE_NS or more than GPURT_MAX_SLICE_NS.  EPERM: a level above GPURT_INTERLEAVE_LOW,
 *	or a slice longer than the GPU's, for a caller that GPURT_IOC_BEGIN would refuse priority 1.
 *
 * GPURT_IOC_AGENT	struct gpurt_agent				(GPURT_CAP_AGENTS only)
 *	An agent of the caller's process switches that process's TSGs on an unmodified driver.  The call says how many
 *	TSGs there are now, through which backend (`driver`) and at which tier.  The agent calls before the first TSG
 *	can be used, and whenever the number changes.  A call with 0 says that no TSG is left: an open segment ends.
 *	EBUSY: the process already has an agent on that GPU.  EDQUOT: the user has as many agents on that GPU as the
 *	host permits.  This limit does not hold for processes with CAP_SYS_NICE, nor, on the user-space host, for
 *	processes of root and of the host's own user.  The call returns the present order in `on` and `sequence`, as
 *	GPURT_IOC_ORDER would deliver it.
 *
 * GPURT_IOC_ORDER	struct gpurt_order				(GPURT_CAP_AGENTS only)
 *	Says that order `answered` (0: none yet) has been carried out, or failed with `result` (-errno).  Blocks until
 *	there is a newer order.  `on` is 1 if the process's TSGs may run, 0 if they must be off the GPU before the agent
 *	answers.  The host does not deliver an order after a later order has replaced it.  It gives a GPU to a client
 *	only when the agents of all other clients have answered that their TSGs are off.  With GPURT_ORDER_FREE in `on`
 *	the process may begin without asking, because no other process has an agent.  Its agent has registered with
 *	GPURT_AGENT_FREE, and stops such begins before it answers an order without this flag.  The policy is `segment`,
 *	and the process has no budget, group or exemption.  With GPURT_ORDER_MANY the agent of the process that is to
 *	have the GPU takes the `channels` of other processes off by one call.  These processes have the order
 *	GPURT_ORDER_TAKEN.  An agent whose channels are still the channels of `set` answers at once.  Any other agent
 *	carries the order out itself.  If the call failed, as `result` says, these processes get the order again, with
 *	GPURT_ORDER_ANEW: the call may have taken them off, or not.  The host reports an agent that does not answer
 *	within the host's bound (GPURT_EVENT_LATE).  With GPURT_ORDER_YIELD beside GPURT_ORDER_FREE other processes are
 *	there: the process begins with GPURT_BEGIN_YIELD, and only segments that have one stream and only kernels.  An
 *	agent with GPURT_AGENT_SINGLE sets the slice of its process's group for kernels as the order says.  If the
 *	driver refuses the slice, the agent answers with GPURT_ORDER_UNCUT.  ENOENT: not an agent.  EBUSY: the agent
 *	already waits.  EINVAL: no such order.  ETIMEDOUT, EINTR.
 *
 * GPURT_IOC_JOB_READY	struct gpurt_job_ready			(GPURT_CAP_UNITS only)
 *	Announces a job of the task called `task` in the host's file, released at `release_ns` (CLOCK_MONOTONIC; 0:
 *	now).  The release is at the earliest a period after that of the task's last job.  The call returns the job's
 *	number and its deadline at once.  A task is the caller's from its first job until the caller is gone.  ENOENT:
 *	no such task.  EBUSY: the task is another client's, or has a job that still waits for units.  EINVAL: the
 *	release is more than GPURT_MAX_AHEAD_NS ahead.
 *
 * GPURT_IOC_JOB_WAIT	struct gpurt_job_wait			(GPURT_CAP_UNITS only)
 *	Block until `what` holds.  GPURT_JOB_GRANT: the job has got units.  GPURT_JOB_KERNEL: the kernel that the job
 *	runs on the virtual GPU has ended.  `timeout_ns` as for GPURT_IOC_WAIT.  ETIME: the job was pending at its
 *	deadline and is skipped.  ENOENT: the caller has no such job, or the job runs no kernel.  ETIMEDOUT, EINTR: the
 *	job waits on, and the caller may call again.  See "Units" for the answer.
 *
 * GPURT_IOC_JOB_RUN	struct gpurt_job_run			(GPURT_CAP_UNITS and GPURT_CAP_VGPU)
 *	Has the virtual GPU execute the job's copy in and its kernel.  The kernel takes `duration_ns` on `units` of the
 *	units that the job holds.  `duration_ns` 0 is the worst case of the host's file; `units` 0 is all.  Returns at
 *	once.  ENOENT: no such job, or it holds no units.  EINVAL: more units than the job holds; a duration that
 *	GPURT_IOC_SUBMIT would refuse.  EBUSY: the job has already run its kernel.
 *
 * GPURT_IOC_JOB_KERNEL_DONE, GPURT_IOC_JOB_DONE	struct gpurt_job_done	(GPURT_CAP_UNITS only)
 *	KERNEL_DONE says that the job's kernel has ended; its units go to others.  DONE says that the job and its copies
 *	out are done.  ENOENT: the caller has no such job, the job holds no units, or the caller said this before.
 *	EBUSY: the kernel still executes (on a virtual GPU), or the caller has not said that it has ended.
 *
 * GPURT_IOC_JOB_MARK	struct gpurt_job_mark
 *	Tells the readers of events about job number `job` of task `task`, released at `release_ns` (CLOCK_MONOTONIC).
 *	GPURT_MARK_BEGIN: the job begins.  GPURT_MARK_END: the job is over, and its threads have executed for `cpu_ns`
 *	on CPUs (0: not known).  `when_ns` is the time of the job's begin or end (CLOCK_MONOTONIC; 0: now): a busy host
 *	takes the call later.  Every host takes marks under every policy, also of a task that uses no GPU.  A mark does
 *	not change decisions, and the host does not keep it.  The host does not check what a mark says.  EINVAL:
 *	`when_ns` is yet to come, or before the release; `cpu_ns` at a begin.  Readers get one mark of a client in
 *	GPURT_MARK_NS, and up to GPURT_MARKS at once, half of them at most begins.  They do not get more marks, although
 *	the call succeeds.  The next mark of that client that readers get, or its GPURT_EVENT_GONE, says in LOST how
 *	many they missed.  Tracepoints have all marks.
 *
 * Where agents carry out commits the host does not see the work: GPURT_END_DRAIN, GPURT_WAIT_WORK and GPURT_WAIT_IDLE
 * return EOPNOTSUPP there; synchronise before the end instead.
 *
 * poll(2) on the descriptor: POLLOUT while the client holds the GPU, POLLIN when work completed since the last
 * GPURT_IOC_WAIT.  The time until the host wakes a caller of poll() has no bound.  A worker of ordinary priority wakes
 * the callers of a best-effort client, and those of a real-time client beyond the 8 that began to wait last.  A
 * real-time thread that needs a bound waits with GPURT_BEGIN_WAIT or in GPURT_IOC_WAIT.
 *
 * Raised threads (policy `boosted`)
 * ---------------------------------
 * Under policy `boosted` the client that owns the GPU also has its CPU.  The client's thread is the thread that called
 * the outermost GPURT_IOC_BEGIN.  Its form says when the host raises it:
 *
 *	no flag form `self`: from before its begin until after its end.  Right only for a thread that never spins inside
 *				a segment, but sleeps while it waits for the GPU or for its work.
 *	GPURT_BEGIN_OWNER	form `owner`: while its client owns the GPU.  For threads that spin.
 *	GPURT_BEGIN_FENCE	form `fence`: as `owner`, except from GPURT_IOC_WAIT for GPURT_WAIT_WORK or
 *				GPURT_WAIT_IDLE until that work has completed.  A thread that spins calls GPURT_IOC_WAIT
 *				with a timeout of 0 when it begins to spin.  EOPNOTSUPP: the GPU's driver does not
 *				report completion.
 *
 * The host divides the CPU priorities (SCHED_FIFO and SCHED_RR).  NORMAL = N is GPURT_NORMAL_DEFAULT unless the
 * administrator says otherwise.  Threads execute by themselves at 1 to N.  Raised threads have N + 1 to 2 N, in order
 * of GPU priority: a thread of GPU priority p has N + p.  A thread that takes its decision about the GPU may have 2 N +
 * 1.  Threaded interrupts have 50, and at the default all these priorities are below 50.  So a raised thread that spins
 * does not keep back the interrupt that it waits for.
 *
 * Under policy `boosted` the outermost begin can return these errors, and then begins nothing.  EPERM: the caller has
 * neither CAP_SYS_NICE nor an RLIMIT_RTPRIO of N + p (form `self`) or 2 N + 1 (forms `owner` and `fence`).  Also EPERM:
 * the administrator has barred the caller (GPURT_CMD_SET_BARRED), so the host may not raise its thread.  A refusal is
 * better than a bound that silently does not hold.  ERANGE: the GPU priority or the caller's own is above N, or the
 * caller has a GPU priority but is not SCHED_FIFO or SCHED_RR.  GPURT_CMD_SET_PRIORITY above N returns ERANGE too.  The
 * host never raises a best-effort client.
 *
 * The host lowers a thread to the policy and priority that the thread had before.  If the thread itself changed them
 * meanwhile, its change stays, and the host does not lower it.  Threads and processes that a raised thread makes are
 * not raised: SCHED_RESET_ON_FORK makes them SCHED_OTHER, unless the thread raised itself.  With a budget of
 * GPURT_OVERRUN_DEMOTE the host lowers a thread that loops when the budget is used up, unless the thread raised itself.
 *
 * A thread of form `owner` or `fence` keeps its CPU from less urgent threads while it waits for its turn to take a
 * decision.  With GPURT_BEGIN_WAIT it sleeps instead, like a thread of form `self`.
 *
 * A host with GPURT_CAP_RAISES raises threads, in all forms.  On a host without that capability (a user-space host that
 * lacks CAP_SYS_NICE) threads raise themselves.  There `owner` and `fence` return EOPNOTSUPP under policy `boosted`.
 * If the thread is not at the priority that its outermost begin needs, the begin returns EAGAIN, with this priority in
 * `raised`.  The caller gives its thread the priority and calls again.  libgpurt does so, and lowers the thread after
 * the end.
 *
 * Programs that wait for one another
 * ----------------------------------
 * A program waits for ever if it waits, inside its segment, for a result that a less urgent program computes on the
 * GPU.  The less urgent program gets the GPU only when the segment ends.  The host cannot know that one program waits
 * for the other.  Once a segment, GPURT_EVENT_STUCK says what the host sees: the GPU executes nothing while others wait
 * for it.  Its owner (CLIENT) is inside a segment, and no thread of the owner's process executes or is ready to.  All
 * this has lasted for longer than the host's bound.  The bound is the module's parameter stuck_ms, and 1 s by default.
 * LATENCY_NS says how long it has lasted.  The host takes nothing from the owner.  It sends the event only for GPUs
 * whose work it sees.
 *
 * GPURT_EVENT_MEMBER_DIED follows GPURT_EVENT_GONE of a client whose process died.  Then other members of its group, or
 * other clients under the same budget, are inside segments: they may wait for it.
 *
 * Groups
 * ------
 * Programs that need one another join a group, and own a GPU together.  While the group owns a GPU, the TSGs of all
 * members are on the runlist, also TSGs of members that are in no segment.  A tenure of the group lasts from the first
 * begin of a member on any GPU to the last end, and has one level.  The level is the priority that
 * GPURT_CMD_SET_PRIORITY set for a member, also before it joined.  Otherwise it is the highest known priority of the
 * members' threads when the tenure began.  The priority that a segment asks for does not count.  All GPUs order groups
 * alike, by level, and among equals by the begin of their tenures.  So two groups never wait for each other, on one GPU
 * or on several.  Inside a segment, a member may wait for its own group and for groups of higher levels, and for nobody
 * else.  A group has one budget on each GPU.  When a budget that demotes is used up, the group is best effort on all
 * GPUs until its tenure ends.  Under policy `boosted` the host raises each member's thread like the thread of a client
 * without a group.  A group whose first member joined with GPURT_GROUP_ALL raises its threads while it owns a GPU, in
 * and out of segments.  So one thread may hold a segment while others compute.  The group raises one thread of each
 * member: the last thread that joined with the flag.  On a GPU that the member uses later, it raises the thread of the
 * first call there.  These joins and first calls have the errors of an outermost begin of form `owner` ("Raised
 * threads"), under any policy, and EOPNOTSUPP where the host cannot raise threads.  A begin of a member has form
 * `owner`, whatever it states.  The host checks the right to be raised at the join: bar a process that loses it later.
 * The host cannot raise a SCHED_OTHER thread, such as a thread that a raised thread makes: make threads before.  Under
 * the lock policies a tenure stays on one GPU.  A begin on another GPU returns EOPNOTSUPP.
 *
 * Units
 * -----
 * A host with GPURT_CAP_UNITS (the user-space host, with policy sbeet and the like) shares its GPUs in space.  A job is
 * a copy to the GPU, one kernel, and a copy back.  The host has a file of tasks, with the times of their kernels by
 * number of units (SMs, CUs).  A program announces each job, waits until it gets units, launches its kernel on these
 * units only, and says when the kernel has ended and when the job is done:
 *
 *	JOB_READY -> JOB_WAIT -> copy in, kernel -> JOB_KERNEL_DONE -> copy out -> JOB_DONE
 *
 * Jobs are not preempted.  A job holds `units` units, from unit `first` on, of GPU `gpu`, the GPU's place in the file.
 * One of two jobs on a GPU has units from the bottom, the other from the top.  The host gives units in multiples of the
 * granularity g that the file states for the GPU.  So there are 2 L / g different sets of units, with the GPU's limit
 * L.  `partition` is the number of the job's set: units / g - 1 at the bottom, L / g more at the top.  A program may
 * make its partitions (green contexts, queues with a mask) when it starts, with these numbers.  The host does not see
 * where a kernel executes: on a real GPU it relies on programs to keep to their units.  A task may have a pending job
 * while another job of it runs.  When a client is gone, its jobs are gone too, and their units go to others.  Segments,
 * TSGs and work of other programs share the GPU in time, as under policy `timesliced`.
 *
 * Signals
 * -------
 * A call that waits goes on waiting when its process was stopped and continues (SIGSTOP, SIGTSTP).  The call also goes
 * on when the process was frozen (a cgroup, system suspend), and after a signal that has no handler.  If a handler of
 * the program executes meanwhile, the call returns EINTR, also with SA_RESTART, as poll(2) does.  The kernel module has
 * then prepared the structure for the next call: `timeout_ns` is the time at which the wait is over, and
 * GPURT_COPY_NEXT has become GPURT_COPY_BEGIN.  So time in which the process is stopped counts.
 *
 * Control plane
 * -------------
 * Generic netlink family GPURT_GENL_NAME, version GPURT_GENL_VERSION; attributes enum gpurt_attr.  Reading
 * needs no privilege.  Every SET command needs CAP_SYS_NICE (EPERM); each refusal carries an extack text.
 *
 * The host tells PID and COMM of a client to readers of the same user as the client's process, and to readers with
 * CAP_NET_ADMIN in the initial user namespace.  Other readers find PID (and RUNNER_PID) 0 and COMM empty.  Events go to
 * many readers at once.  Group GPURT_GENL_EVENTS, which anyone may join, gets them without PID and COMM.  Group
 * GPURT_GENL_NAMED_EVENTS gets them with both, and needs CAP_NET_ADMIN to join.  Kernels that cannot restrict a group
 * (before 5.10.204, 5.15.143, 6.1.68, 6.6.7 and 6.7) do not have the second group.  A reader of the first group looks
 * CLIENT up in GPURT_CMD_GET_CLIENTS to learn whose the event is, if it may know.  The user-space host tells each
 * reader of its socket what that reader may know; its own user may know all.  PID of a rule is treated like PID of a
 * client.  COMM and CGROUP of a rule may name anyone's processes: only readers with CAP_NET_ADMIN get them, others find
 * them empty.
 *
 * GPURT_CMD_GET_STATUS	  GPU (optional: all)  ->  one message a GPU: GPU, POLICY, NOTICE, POLL_NS, and the
 *			  GPURT_STATUS_ATTRIBUTES for which the host has a value.
 * GPURT_CMD_GET_CLIENTS  GPU (optional)  ->  dump, one message a client: GPU, CLIENT, PID, COMM, STATE,
 *			  PRIORITY, OWN_PRIORITY, SET_PRIORITY, DEPTH, TSGS, EXEMPT, DEMOTED, SEGMENTS,
 *			  PREEMPTIONS, HELD_NS, BUDGET_NS, PERIOD_NS, OVERRUN, OVERRUNS, FORM, RAISED,
 *			  BARRED, COPY, COPIES, GROUP.
 *			  GROUP is there for members of a group, for readers who get PID.
 *			  PRIORITY, DEMOTED and the budget of a member are its group's; so is HELD_NS
 *			  after the join.
 *			  BUDGET_NS, PERIOD_NS and OVERRUN describe the client's budget.  A client
 *			  without a budget has 0 and 0, and no OVERRUN.
 *			  RAISED is the raised CPU priority of the client's thread; 0: it is not raised.
 *			  COPY is the client's state on the bus (enum gpurt_state).  COPIES says how
 *			  often the client got the bus.
 * GPURT_CMD_SET_PRIORITY PID, PRIORITY (0..99, or GPURT_PRIORITY_OWN to undo), GPU (optional)
 *			  The priority of a group's member is its group's.
 *			  ESRCH: no client with that pid.  ERANGE: see "Raised threads".
 * GPURT_CMD_SET_GROUP	  GROUP, PID.  The process's clients join that group of its user, as by
 *			  GPURT_IOC_GROUP_JOIN, but also in the middle of a segment.  It is the cure where one
 *			  program waits for another (GPURT_EVENT_STUCK).  Later clients join by themselves
 *			  or not at all.  The host checks all clients first.  If something changes meanwhile,
 *			  only some may be members after an error; the same command again goes on.
 *			  ESRCH: no client with that pid.  EINVAL: no name.  Others as GPURT_IOC_GROUP_JOIN;
 *			  EOPNOTSUPP also where a tenure would span several GPUs, one with a lock policy.
 * GPURT_CMD_SET_POLICY	  POLICY, GPU (optional), NOTICE and POLL_NS (optional, policy `job`;
 *			  GPURT_POLL_MIN_NS to GPURT_POLL_MAX_NS).  EOPNOTSUPP: `boosted`, where the host cannot do it;
 *			  any policy, on a host with GPURT_CAP_UNITS.
 * GPURT_CMD_SET_BUDGET	  BUDGET_NS (0: none), PERIOD_NS (unless none), one of PID and CGROUP, OVERRUN (optional), GPU
 *			  (optional).  In each period all clients of the process, and of processes that it
 *			  made, together may own the GPU for BUDGET_NS.  With CGROUP these are the clients of
 *			  the cgroup and of the cgroups below it.  Later clients share the budget too.
 *			  GPURT_OVERRUN_DEMOTE makes clients best effort when the budget is used up,
 *			  until their segment ends.  Segments that begin before the period is over are
 *			  best effort as well.  If more than GPURT_MAX_BUDGET_CLIENTS segments are open at once, the
 *			  further segments are best effort until they end.  Updates that the clients cause count
 *			  like ownership.  A client has one budget: its process's, else that of the nearest process
 *			  above it, else that of the nearest cgroup.  EINVAL: the budget is longer than the period,
 *			  or the period is not GPURT_MIN_BUDGET_PERIOD_NS to GPURT_MAX_BUDGET_PERIOD_NS.  ESRCH: no
 *			  such process.  ENOBUFS: GPURT_MAX_RULES budgets exist.  EDQUOT: members of a group would
 *			  have two budgets.
 * GPURT_CMD_SET_EXEMPT	  EXEMPT (0 or 1), and one of PID, COMM, CGROUP.  The host never takes an exempt
 *			  client's TSGs off the runlist.  ENOBUFS: GPURT_MAX_RULES exemptions exist.
 *			  EOPNOTSUPP: CGROUP, but the machine has no cgroups of version 2.  ESRCH: PID names no
 *			  process, for example a thread.
 * GPURT_CMD_SET_BARRED	  BARRED (0 or 1), and one of PID, COMM, CGROUP.  Policy `boosted` does not raise the threads of
 *			  a barred client: see "Raised threads".  The host lowers a raised thread.
 *			  Errors as for GPURT_CMD_SET_EXEMPT.
 * GPURT_CMD_GET_RULES	  ->  dump, one message a rule, in the order in which the rules were made: EXEMPT or
 *			  BARRED (1), one of PID, COMM and CGROUP, and TIME_NS, the time of its making.
 *			  The dump leaves out rules of processes that have ended.  It has every other rule
 *			  once, but may miss rules that are made or removed while the kernel answers.
 *			  Messages after such a change, and NLMSG_DONE, then have NLM_F_DUMP_INTR: ask again.
 * GPURT_CMD_GET_LATENCY  GPU (optional)  ->  one message a GPU and cause: GPU, CAUSE, COUNT, MIN_NS, SUM_NS,
 *			  MAX_NS, HISTOGRAM (array of u64 counts; bucket b of a log-linear histogram with
 *			  GPURT_HIST_SUB sub-buckets an octave, see gpurt_hist_floor())
 * GPURT_CMD_GET_BUS	  GPU (optional)  ->  one message a GPU: GPU, WAITERS (requests that wait for the bus), COUNT,
 *			  MIN_NS, SUM_NS, MAX_NS and HISTOGRAM of the waits of requests that got the bus; and
 *			  while a client has the bus, CLIENT, PID, COMM, PRIORITY, and HELD_NS: for how long so far
 * GPURT_CMD_EVENT	  sent to multicast groups: EVENT, TIME_NS, GPU, CLIENT, PID, COMM,
 *			  PRIORITY.  Commits have CAUSE and LATENCY_NS.  Completed work has LATENCY_NS since its
 *			  submission, COPY_BEGIN since the client asked for the bus.  Lost events have LOST.
 *			  Members of a group have GROUP, for readers who get PID.  JOB_BEGIN and JOB_END have
 *			  JOB, LATENCY_NS since the job's release, CPU_NS if it is known, LOST
 *			  (GPURT_IOC_JOB_MARK) and TASK, which is empty in group GPURT_GENL_EVENTS.
 */
#ifndef _UAPI_GPURT_H
#define _UAPI_GPURT_H

#ifndef GPURT_CDEF
#include <linux/ioctl.h>
#include <linux/types.h>
#endif

#define GPURT_VERSION		1
#define GPURT_DEVICE_NAME	"gpurt"
#define GPURT_DEFAULT_DEVICE	"/dev/gpurt"
#define GPURT_DEFAULT_SOCKET	"/run/gpurt/host.sock"
#define GPURT_GENL_NAME		"gpurt"
#define GPURT_GENL_VERSION	1
#define GPURT_GENL_EVENTS	"events"
#define GPURT_GENL_NAMED_EVENTS	"named-events"

#define GPURT_MAX_GPUS		16
#define GPURT_MAX_PRIORITY	99
#define GPURT_PRIORITY_OWN	255
#define GPURT_NORMAL_DEFAULT	24
#define GPURT_NORMAL_MAX	49
#define GPURT_MAX_STRUCT	4096
#define GPURT_MAX_DEPTH		65535
#define GPURT_MAX_TSGS		65536
#define GPURT_MAX_CLIENT_TSGS	256
#define GPURT_MAX_QUEUED	4096
#define GPURT_MAX_CLIENT_QUEUED	8192
#define GPURT_REMEMBERED	256
#define GPURT_MIN_WORK_NS	1000ULL
#define GPURT_MAX_WORK_NS	3600000000000ULL
#define GPURT_MAX_CONFLICT	64000		/* thousandths */
#define GPURT_MIN_SLICE_NS	100000ULL
#define GPURT_MAX_SLICE_NS	50000000ULL
#define GPURT_POLL_DEFAULT_NS	1000000ULL
#define GPURT_POLL_MIN_NS	100000ULL
#define GPURT_POLL_MAX_NS	10000000000ULL
#define GPURT_MAX_RULES		4096
#define GPURT_MIN_BUDGET_PERIOD_NS	1000000ULL
#define GPURT_MAX_BUDGET_PERIOD_NS	1000000000000000000ULL
#define GPURT_MAX_BUDGET_CLIENTS	64
#define GPURT_MAX_MEMBERS	32
#define GPURT_MAX_USER_GROUPS	64
#define GPURT_COPY_BOUND_NS	1000000000ULL
#define GPURT_FOREVER		0xffffffffffffffffULL
#define GPURT_TIMEOUT_AT	0x8000000000000000ULL	/* in a timeout: the rest is a time, not a duration */
#define GPURT_COMM_LEN		16
#define GPURT_NAME_LEN		32
#define GPURT_CGROUP_LEN	256
#define GPURT_TASK_LEN		72
#define GPURT_MARK_NS		40000ULL
#define GPURT_MARKS		512
#define GPURT_MAX_AHEAD_NS	3600000000000ULL
#define GPURT_HIST_SUB		4
#define GPURT_HIST_BUCKETS	160

enum gpurt_caps {
	GPURT_CAP_VGPU		= 1 << 0,	/* TSG_OPEN, TSG_CLOSE and SUBMIT work */
	GPURT_CAP_EMULATED	= 1 << 1,	/* a user-space host answers */
	GPURT_CAP_NOTIFY	= 1 << 2,	/* policy `job` can notice by `notify` */
	GPURT_CAP_AGENTS	= 1 << 3,	/* agents in the programs carry out commits */
	GPURT_CAP_RAISES	= 1 << 4,	/* policy `boosted`: the host raises threads */
	GPURT_CAP_UNITS		= 1 << 5,	/* JOB_* calls work */
	GPURT_CAP_GROUPS	= 1 << 6,	/* GROUP_JOIN works */
};

enum gpurt_policy {
	GPURT_POLICY_TIMESLICED,
	GPURT_POLICY_SEGMENT,
	GPURT_POLICY_JOB,
	GPURT_POLICY_LOCK_PRIORITY,
	GPURT_POLICY_LOCK_FIFO,
	GPURT_POLICY_BOOSTED,
	GPURT_POLICY_COUNT,
};

enum gpurt_notice {
	GPURT_NOTICE_POLL,
	GPURT_NOTICE_NOTIFY,
	GPURT_NOTICE_COUNT,
};

enum gpurt_tier {
	GPURT_TIER_HINTS,		/* T0: time slices and levels only */
	GPURT_TIER_UNPATCHED,		/* T1: preemption on an unmodified driver */
	GPURT_TIER_PATCHED,		/* T2: runlist hook in the driver */
	GPURT_TIER_VIRTUAL,		/* T3: no hardware */
	GPURT_TIER_COUNT,
};

enum gpurt_state {
	GPURT_STATE_IDLE,		/* in no segment */
	GPURT_STATE_PENDING,		/* in a segment, off the runlist */
	GPURT_STATE_RUNNING,		/* in a segment, on the runlist */
	GPURT_STATE_COUNT,
};

enum gpurt_image {
	GPURT_IMAGE_ALL,		/* all TSGs are on the runlist, time-sliced */
	GPURT_IMAGE_ONE,		/* only one client's TSGs, and exempt TSGs, are */
	GPURT_IMAGE_COUNT,
};

/* Policy `boosted`: when the host raises a client's thread. */
enum gpurt_form {
	GPURT_FORM_SELF,
	GPURT_FORM_OWNER,
	GPURT_FORM_FENCE,
	GPURT_FORM_COUNT,
};

enum gpurt_overrun {
	GPURT_OVERRUN_REPORT,		/* report only */
	GPURT_OVERRUN_DEMOTE,		/* and make the clients best effort */
	GPURT_OVERRUN_COUNT,
};

/* Why a runlist was updated.  RAISE is no update, but the time from a decision until a thread was raised or lowered. */
enum gpurt_cause {
	GPURT_CAUSE_BEGIN,
	GPURT_CAUSE_END,
	GPURT_CAUSE_GONE,
	GPURT_CAUSE_JOB,		/* a task's state changed, policy `job` */
	GPURT_CAUSE_PRIORITY,
	GPURT_CAUSE_POLICY,
	GPURT_CAUSE_BUDGET,
	GPURT_CAUSE_TSG,
	GPURT_CAUSE_EXEMPT,
	GPURT_CAUSE_RESET,		/* the GPU was reset, or resumed */
	GPURT_CAUSE_RAISE,
	GPURT_CAUSE_COUNT,
};

enum gpurt_event {
	GPURT_EVENT_BEGIN,
	GPURT_EVENT_GRANT,		/* the client holds the GPU for the first time in this segment */
	GPURT_EVENT_PREEMPT,
	GPURT_EVENT_RESUME,
	GPURT_EVENT_END,
	GPURT_EVENT_OVERRUN,
	GPURT_EVENT_GONE,
	GPURT_EVENT_COMMIT,
	GPURT_EVENT_WORK,		/* a work item completed (virtual GPU) */
	GPURT_EVENT_LOST,		/* this reader was too slow; LOST: the number of missed events */
	GPURT_EVENT_LATE,		/* an agent has not carried out an order in time */
	GPURT_EVENT_COPY_ASK,		/* the client asks for the bus */
	GPURT_EVENT_COPY_BEGIN,		/* the client has the bus; LATENCY_NS: since it asked */
	GPURT_EVENT_COPY_END,		/* the client has given the bus back, or its request is over */
	GPURT_EVENT_JOB_BEGIN,		/* a program says that a job begins; LATENCY_NS: since the release */
	GPURT_EVENT_JOB_END,		/* a program says that a job is over; LATENCY_NS: since the release */
	GPURT_EVENT_STUCK,		/* the owner sleeps while others wait; LATENCY_NS: for how long */
	GPURT_EVENT_MEMBER_DIED,	/* a process died; others of its group or budget are in segments */
	GPURT_EVENT_COUNT,
};

enum gpurt_engine {
	GPURT_ENGINE_EXEC,
	GPURT_ENGINE_COPY,
	GPURT_ENGINE_COUNT,
};

enum gpurt_begin_flags {
	GPURT_BEGIN_WAIT	= 1 << 0,
	GPURT_BEGIN_OWNER	= 1 << 1,	/* form `owner`; not with FENCE: EINVAL */
	GPURT_BEGIN_FENCE	= 1 << 2,	/* form `fence` */
	GPURT_BEGIN_BEGUN	= 1 << 3,	/* with WAIT: the segment has begun; the host sets it at EINTR */
	GPURT_BEGIN_POST	= 1 << 4,	/* the begin is posted; from the host: the end may be posted */
	GPURT_BEGIN_YIELD	= 1 << 5,	/* the caller need not be alone; not with WAIT */
	GPURT_BEGIN_FLAGS	= (1 << 6) - 1,
};

enum gpurt_agent_flags {
	GPURT_AGENT_FREE	= 1 << 0,	/* the agent knows GPURT_ORDER_FREE */
	GPURT_AGENT_MANY	= 1 << 1,	/* the agent knows GPURT_ORDER_MANY, _TAKEN and _ANEW */
	GPURT_AGENT_SINGLE	= 1 << 2,	/* the agent sets its one group's slice for kernels, or has no group */
	GPURT_AGENT_AUTOMATIC	= 1 << 3,	/* all its process's work is in segments that the library begins */
	GPURT_AGENT_FLAGS	= (1 << 4) - 1,
};

enum gpurt_order_on {
	GPURT_ORDER_ON		= 1 << 0,	/* the process's TSGs may run */
	GPURT_ORDER_FREE	= 1 << 1,	/* the process may begin without asking */
	GPURT_ORDER_MANY	= 1 << 2,	/* take other processes' channels off the GPU */
	GPURT_ORDER_TAKEN	= 1 << 3,	/* another agent takes its channels off, if `set` is still right */
	GPURT_ORDER_ANEW	= 1 << 4,	/* the other agent's call may have failed: switch all again */
	GPURT_ORDER_YIELD	= 1 << 5,	/* with FREE: beside others, for kernels of one stream */
	GPURT_ORDER_SHORT	= 1 << 6,	/* the slice is GPURT_SLICE_SHORT_US, */
	GPURT_ORDER_LONG	= 1 << 7,	/* or GPURT_SLICE_LONG_US; without both, the process's own slice */
};

#define GPURT_SLICE_SHORT_US	500
#define GPURT_SLICE_LONG_US	20000

/* How the most urgent process begins where agents switch the GPU (`gpurt serve --begin`). */
enum gpurt_begin_way {
	GPURT_BEGINS_ISOLATED,		/* all others are off before the process has the GPU */
	GPURT_BEGINS_YIELD,		/* beside others, if possible (GPURT_ORDER_YIELD) */
	GPURT_BEGINS_TURNS,		/* by yield, and best-effort processes take turns */
};

/* In `flags` of struct gpurt_order. */
enum gpurt_order_flags {
	GPURT_ORDER_UNCUT	= 1 << 0,	/* the slice is not as the order says */
	GPURT_ORDER_FLAGS	= (1 << 1) - 1,
};

#define GPURT_MAX_CHANNELS	64	/* in one call of the driver that takes channels off the GPU */

enum gpurt_end_flags {
	GPURT_END_DRAIN		= 1 << 0,
	GPURT_END_FLAGS		= (1 << 1) - 1,
};

enum gpurt_submit_flags {
	GPURT_SUBMIT_FENCE	= 1 << 0,
	GPURT_SUBMIT_MEMORY	= 1 << 1,
	GPURT_SUBMIT_COMPUTE	= 1 << 2,
	GPURT_SUBMIT_PARALLEL	= 1 << 3,
	GPURT_SUBMIT_FLAGS	= (1 << 4) - 1,
};

enum gpurt_interleave_level {
	GPURT_INTERLEAVE_LOW,
	GPURT_INTERLEAVE_MEDIUM,
	GPURT_INTERLEAVE_HIGH,
	GPURT_INTERLEAVE_COUNT,
};

enum gpurt_wait_what {
	GPURT_WAIT_GRANT,
	GPURT_WAIT_WORK,
	GPURT_WAIT_IDLE,
	GPURT_WAIT_COUNT,
};

enum gpurt_job_what {
	GPURT_JOB_GRANT,
	GPURT_JOB_KERNEL,
	GPURT_JOB_WHATS,
};

enum gpurt_mark_what {
	GPURT_MARK_BEGIN,
	GPURT_MARK_END,
	GPURT_MARK_COUNT,
};

enum gpurt_copy_what {
	GPURT_COPY_BEGIN,
	GPURT_COPY_NEXT,
	GPURT_COPY_END,
	GPURT_COPY_COUNT,
};

struct gpurt_query {
	__u32 size;
	__u32 gpu;			/* in */
	__u32 version;			/* out, as is everything below */
	__u32 caps;
	__u32 gpus;
	__u32 policy;
	__u32 tier;
	__u32 pad;
	__u64 epsilon_ns;		/* longest runlist update seen plus longest RAISE; 0 if none yet */
	char device[GPURT_NAME_LEN];	/* the GPU's PCI address, such as 0000:c1:00.0, if its driver says it */
};

struct gpurt_begin {
	__u32 size;
	__u32 gpu;
	__u32 flags;
	__u32 priority;
	__u32 state;			/* out */
	__u32 raised;			/* out, with EAGAIN; in, with GPURT_BEGIN_POST: the thread's own priority */
};

struct gpurt_end {
	__u32 size;
	__u32 gpu;
	__u32 flags;
	__u32 pad;
};

struct gpurt_wait {
	__u32 size;
	__u32 gpu;
	__u32 what;
	__u32 tsg;
	__u64 work;
	__u64 timeout_ns;
	__u64 completed_ns;		/* out */
};

struct gpurt_copy {
	__u32 size;
	__u32 gpu;
	__u32 what;			/* enum gpurt_copy_what */
	__u32 flags;			/* none yet */
	__u32 priority;			/* of BEGIN, else 0 */
	__u32 request;			/* the program's number for it; of END: the one to end, 0: any */
	__u64 timeout_ns;		/* of BEGIN and NEXT, else 0 */
	__u64 granted_ns;		/* out of BEGIN and NEXT, CLOCK_MONOTONIC */
};

enum gpurt_group_flags {
	GPURT_GROUP_ALL		= 1 << 0,	/* policy `boosted`: members are raised in and out of segments */
	GPURT_GROUP_FLAGS	= GPURT_GROUP_ALL,
};

struct gpurt_group_join {
	__u32 size;
	__u32 flags;			/* GPURT_GROUP_ALL */
	char name[GPURT_NAME_LEN];	/* NUL-terminated */
};

struct gpurt_tsg {
	__u32 size;
	__u32 gpu;
	__u32 tsg;			/* out of OPEN, in to CLOSE */
	__u32 flags;			/* none yet */
};

struct gpurt_submit {
	__u32 size;
	__u32 gpu;
	__u32 tsg;
	__u32 engine;
	__u32 flags;
	__u32 conflict;
	__u64 duration_ns;
	__u64 work;			/* out */
};

struct gpurt_tsg_shape {
	__u32 size;
	__u32 gpu;
	__u32 tsg;
	__u32 level;			/* enum gpurt_interleave_level */
	__u64 slice_ns;
};

/* Channels of the driver, by the handles of its calls. */
struct gpurt_channels {
	__u32 count;			/* 0: none, or one call cannot switch them */
	__u32 pad;
	__u32 clients[GPURT_MAX_CHANNELS];
	__u32 channels[GPURT_MAX_CHANNELS];
};

struct gpurt_agent {
	__u32 size;
	__u32 gpu;
	__u32 flags;			/* enum gpurt_agent_flags */
	__u32 tier;			/* enum gpurt_tier */
	__u32 tsgs;
	__u32 on;			/* out, enum gpurt_order_on */
	__u64 sequence;			/* out */
	char driver[GPURT_NAME_LEN];	/* NUL-terminated */
	__u64 set;			/* number of this state of the process's channels */
	struct gpurt_channels channels;
};

struct gpurt_order {
	__u32 size;
	__u32 gpu;
	__u32 flags;			/* enum gpurt_order_flags */
	__s32 result;
	__u64 answered;
	__u64 timeout_ns;
	__u64 sequence;			/* out */
	__u32 on;			/* out, enum gpurt_order_on */
	__u32 pad;
	__u64 set;			/* out, with GPURT_ORDER_TAKEN */
	struct gpurt_channels channels;	/* out, with GPURT_ORDER_MANY */
};

struct gpurt_job_ready {
	__u32 size;
	__u32 flags;			/* none yet */
	__u64 release_ns;
	__u64 job;			/* out: its number */
	__u64 deadline_ns;		/* out, CLOCK_MONOTONIC */
	char task[GPURT_TASK_LEN];	/* NUL-terminated */
};

struct gpurt_job_wait {
	__u32 size;
	__u32 what;
	__u64 job;
	__u64 timeout_ns;
	__u64 when_ns;			/* out, as is everything below: CLOCK_MONOTONIC */
	__u64 deadline_ns;
	__u64 kernel_ns;		/* the kernel's worst case */
	__u32 gpu;
	__u32 first;			/* unit */
	__u32 units;
	__u32 partition;
};

struct gpurt_job_run {
	__u32 size;
	__u32 units;
	__u64 job;
	__u64 duration_ns;
};

struct gpurt_job_done {
	__u32 size;
	__u32 flags;			/* none yet */
	__u64 job;
};

struct gpurt_job_mark {
	__u32 size;
	__u32 gpu;
	__u32 what;			/* enum gpurt_mark_what */
	__u32 flags;			/* none yet */
	__u64 job;
	__u64 release_ns;		/* CLOCK_MONOTONIC */
	__u64 cpu_ns;			/* of END */
	__u64 when_ns;			/* CLOCK_MONOTONIC */
	char task[GPURT_TASK_LEN];	/* NUL-terminated */
};

#define GPURT_IOC_MAGIC		0xB7
#define GPURT_IOC_QUERY		_IOWR(GPURT_IOC_MAGIC, 0x00, struct gpurt_query)
#define GPURT_IOC_BEGIN		_IOWR(GPURT_IOC_MAGIC, 0x01, struct gpurt_begin)
#define GPURT_IOC_END		_IOWR(GPURT_IOC_MAGIC, 0x02, struct gpurt_end)
#define GPURT_IOC_WAIT		_IOWR(GPURT_IOC_MAGIC, 0x03, struct gpurt_wait)
#define GPURT_IOC_COPY		_IOWR(GPURT_IOC_MAGIC, 0x04, struct gpurt_copy)
#define GPURT_IOC_GROUP_JOIN	_IOWR(GPURT_IOC_MAGIC, 0x05, struct gpurt_group_join)
#define GPURT_IOC_TSG_OPEN	_IOWR(GPURT_IOC_MAGIC, 0x10, struct gpurt_tsg)
#define GPURT_IOC_TSG_CLOSE	_IOWR(GPURT_IOC_MAGIC, 0x11, struct gpurt_tsg)
#define GPURT_IOC_SUBMIT	_IOWR(GPURT_IOC_MAGIC, 0x12, struct gpurt_submit)
#define GPURT_IOC_TSG_SHAPE	_IOWR(GPURT_IOC_MAGIC, 0x13, struct gpurt_tsg_shape)
#define GPURT_IOC_AGENT		_IOWR(GPURT_IOC_MAGIC, 0x20, struct gpurt_agent)
#define GPURT_IOC_ORDER		_IOWR(GPURT_IOC_MAGIC, 0x21, struct gpurt_order)
#define GPURT_IOC_JOB_READY	_IOWR(GPURT_IOC_MAGIC, 0x30, struct gpurt_job_ready)
#define GPURT_IOC_JOB_WAIT	_IOWR(GPURT_IOC_MAGIC, 0x31, struct gpurt_job_wait)
#define GPURT_IOC_JOB_RUN	_IOWR(GPURT_IOC_MAGIC, 0x32, struct gpurt_job_run)
#define GPURT_IOC_JOB_KERNEL_DONE	_IOWR(GPURT_IOC_MAGIC, 0x33, struct gpurt_job_done)
#define GPURT_IOC_JOB_DONE	_IOWR(GPURT_IOC_MAGIC, 0x34, struct gpurt_job_done)
#define GPURT_IOC_JOB_MARK	_IOWR(GPURT_IOC_MAGIC, 0x35, struct gpurt_job_mark)

/* Control plane. */
enum gpurt_cmd {
	GPURT_CMD_UNSPEC,
	GPURT_CMD_GET_STATUS,
	GPURT_CMD_GET_CLIENTS,
	GPURT_CMD_SET_PRIORITY,
	GPURT_CMD_SET_POLICY,
	GPURT_CMD_SET_BUDGET,
	GPURT_CMD_SET_EXEMPT,
	GPURT_CMD_GET_LATENCY,
	GPURT_CMD_EVENT,
	GPURT_CMD_SET_BARRED,
	GPURT_CMD_GET_BUS,
	GPURT_CMD_GET_RULES,
	GPURT_CMD_SET_GROUP,
	GPURT_CMD_COUNT,
};

/*
 * The attributes: A(name, type, size, meaning).  A number has exactly this size.  A string has at most this size, its
 * NUL included.  All else about attributes follows from these tables.
 */
#define GPURT_REQUEST_ATTRIBUTES(A) \
	A(GPU, U32, sizeof(__u32), "") \
	A(POLICY, U32, sizeof(__u32), "enum gpurt_policy") \
	A(NOTICE, U32, sizeof(__u32), "enum gpurt_notice: how policy `job` notices that a task's state changed") \
	A(POLL_NS, U64, sizeof(__u64), "polling period of policy `job`, as the host holds it") \
	A(PID, U32, sizeof(__u32), "of a process") \
	A(COMM, STRING, GPURT_COMM_LEN, "name of a process") \
	A(CGROUP, STRING, GPURT_CGROUP_LEN, "path of a cgroup") \
	A(GROUP, STRING, GPURT_NAME_LEN, "name of a group") \
	A(PRIORITY, U32, sizeof(__u32), "the GPU priority that decides now") \
	A(BUDGET_NS, U64, sizeof(__u64), "ownership of the GPU in each period; 0: no limit") \
	A(PERIOD_NS, U64, sizeof(__u64), "of a budget") \
	A(OVERRUN, U32, sizeof(__u32), "enum gpurt_overrun") \
	A(EXEMPT, U32, sizeof(__u32), "0 or 1") \
	A(BARRED, U32, sizeof(__u32), "0 or 1: from being raised, by the administrator")

/* A GPU's attributes, with GPU, POLICY, NOTICE, POLL_NS; GpuStatus of Python and JSON documents have these names. */
#define GPURT_STATUS_ATTRIBUTES(A) \
	A(TIER, U32, sizeof(__u32), "enum gpurt_tier; with agents the lowest that one reached") \
	A(DRIVER, STRING, GPURT_NAME_LEN, "with agents the names of their backends, sorted and joined by '+'") \
	A(DEVICE, STRING, GPURT_NAME_LEN, \
	  "with a patched driver the GPU's PCI address or device-tree name, and after '/' its partition") \
	A(CLIENT_COUNT, U32, sizeof(__u32), "clients of the GPU; none that only announced jobs") \
	A(TSGS, U32, sizeof(__u32), "time-slice groups of its clients") \
	A(IMAGE, U32, sizeof(__u32), "enum gpurt_image") \
	A(RUNNER_PID, U32, sizeof(__u32), "the process that the GPU is for alone; 0: the reader may not know it") \
	A(UPDATES, U64, sizeof(__u64), "runlist updates") \
	A(FAULTS, U64, sizeof(__u64), "updates that failed and were tried again") \
	A(LATE, U32, sizeof(__u32), \
	  "processes with an order that their agent has not carried out in time: isolation is lost") \
	A(REFUSED, U64, sizeof(__u64), \
	  "how often an agent was refused because its user has too many; its process runs at any time") \
	A(MALFORMED, U64, sizeof(__u64), "malformed calls and messages") \
	A(NORMAL_PRIORITIES, U32, sizeof(__u32), \
	  "highest CPU priority of threads that are not raised, where `boosted` is possible") \
	A(BARRED_COUNT, U32, sizeof(__u32), "clients that are barred from being raised") \
	A(ALPHA_NS, U64, sizeof(__u64), "duration of a runlist update, without the context switch; 0: not known") \
	A(THETA_NS, U64, sizeof(__u64), "context switch; 0: not known") \
	A(SLICE_NS, U64, sizeof(__u64), "time slice; 0: not known") \
	A(PARTITION_OF, U32, sizeof(__u32), \
	  "of a virtual GPU that is a partition: the number of the GPU that is divided, from 0 on") \
	A(PARTITION_UNITS, U32, sizeof(__u32), "compute units of the partition") \
	A(CROSS_THOUSANDTHS, U32, sizeof(__u32), \
	  "how slow its memory-intensive work is while another partition executes such work") \
	A(STUCK_BOUND_NS, U64, sizeof(__u64), \
	  "the host calls an owner stuck after this time, where it sees the GPU's work") \
	A(STUCK_NS, U64, sizeof(__u64), \
	  "for how long the owner has been stuck, if the host has said that it is") \
	A(STUCK_COUNT, U64, sizeof(__u64), "how often the host has said that an owner was stuck") \
	A(BEGIN, U32, sizeof(__u32), "enum gpurt_begin_way, where agents switch the GPU") \
	A(READY, U32, sizeof(__u32), "how many others stay on when the most urgent process begins by yield") \
	A(AT_ONCE, U32, sizeof(__u32), "how many of these are on at once, where they take turns") \
	A(UNIT_POLICY, STRING, GPURT_NAME_LEN, "by which units are shared; with GPURT_CAP_UNITS, as all below") \
	A(MECHANISM, STRING, GPURT_NAME_LEN, "how programs keep to units") \
	A(UNITS, U32, sizeof(__u32), "that jobs may hold") \
	A(UNITS_HELD, U32, sizeof(__u32), "that jobs hold now") \
	A(JOBS, U32, sizeof(__u32), "that hold units now") \
	A(UNIT_CLIENTS, U32, sizeof(__u32), "clients that have announced jobs, on all GPUs") \
	A(JOBS_DONE, U64, sizeof(__u64), "on all GPUs since the host started") \
	A(JOBS_LATE, U64, sizeof(__u64), "done, but after their deadline; likewise") \
	A(JOBS_SKIPPED, U64, sizeof(__u64), "given up at their deadline; likewise") \
	A(JOBS_LOST, U64, sizeof(__u64), "whose client was gone while they ran; likewise") \
	A(JOBS_OVERDUE, U32, sizeof(__u32), "that hold units of this GPU for longer than in the worst case")

#define GPURT_CLIENT_ATTRIBUTES(A) \
	A(CLIENT, U64, sizeof(__u64), "unique while the host runs") \
	A(STATE, U32, sizeof(__u32), "enum gpurt_state") \
	A(OWN_PRIORITY, U32, sizeof(__u32), "the task's own") \
	A(SET_PRIORITY, U32, sizeof(__u32), "GPURT_PRIORITY_OWN where the control plane has set none") \
	A(DEPTH, U32, sizeof(__u32), "segments that the client is in") \
	A(DEMOTED, U32, sizeof(__u32), "0 or 1: best effort, for its budget is used up") \
	A(SEGMENTS, U64, sizeof(__u64), "that the client has begun") \
	A(PREEMPTIONS, U64, sizeof(__u64), "how often the client was preempted") \
	A(HELD_NS, U64, sizeof(__u64), "how long the client has owned the GPU or the bus") \
	A(OVERRUNS, U64, sizeof(__u64), "how often its budget was used up") \
	A(FORM, U32, sizeof(__u32), "enum gpurt_form") \
	A(RAISED, U32, sizeof(__u32), "the CPU priority that a thread of the client is raised to; 0: none is") \
	A(COPY, U32, sizeof(__u32), "enum gpurt_state: of the client on the bus") \
	A(COPIES, U64, sizeof(__u64), "how often the client was given the bus") \
	A(KEPT, U32, sizeof(__u32), "0 or 1: has a thread that its group raises (GPURT_GROUP_ALL)") \
	A(YIELDS, U32, sizeof(__u32), "0 or 1: its process can begin by yield, if it is the most urgent")

#define GPURT_OTHER_ATTRIBUTES(A) \
	A(CAUSE, U32, sizeof(__u32), "enum gpurt_cause") \
	A(COUNT, U64, sizeof(__u64), "how many were timed") \
	A(MIN_NS, U64, sizeof(__u64), "the shortest") \
	A(SUM_NS, U64, sizeof(__u64), "all together") \
	A(MAX_NS, U64, sizeof(__u64), "the longest") \
	A(HISTOGRAM, BINARY, GPURT_HIST_BUCKETS * sizeof(__u64), "array of u64 counts, see gpurt_hist_floor()") \
	A(WAITERS, U32, sizeof(__u32), "requests for the bus that wait") \
	A(EVENT, U32, sizeof(__u32), "enum gpurt_event") \
	A(TIME_NS, U64, sizeof(__u64), "CLOCK_MONOTONIC") \
	A(LATENCY_NS, U64, sizeof(__u64), "of an event") \
	A(LOST, U64, sizeof(__u64), "events that the reader missed, or marks of its client that nobody was told") \
	A(TASK, STRING, GPURT_TASK_LEN, "whose job it is") \
	A(JOB, U64, sizeof(__u64), "number of the job") \
	A(CPU_NS, U64, sizeof(__u64), "how long the job executed on CPUs")

#define GPURT_ATTRIBUTES(A) \
	GPURT_REQUEST_ATTRIBUTES(A) GPURT_STATUS_ATTRIBUTES(A) GPURT_CLIENT_ATTRIBUTES(A) GPURT_OTHER_ATTRIBUTES(A)
#define GPURT_ATTRIBUTE_NUMBER(name, type, size, meaning) GPURT_A_##name,

enum gpurt_attr {
	GPURT_A_UNSPEC,
	GPURT_A_PAD,
	GPURT_ATTRIBUTES(GPURT_ATTRIBUTE_NUMBER)
	GPURT_A_END,
};

/*
 * The user-space host.  Each packet begins with this header.  GPURT_PACKET_IOCTL carries one of the ioctl structures;
 * `code` is the ioctl number.  The answer is GPURT_PACKET_REPLY with the same code and cookie, the result (0 or -errno)
 * and the structure.  The host answers a request that blocks when it is done; a client may have several in flight.  It
 * does not answer a request with cookie 0.  In a request `result` is the calling thread's id as gettid(2) returns it,
 * or 0 for the process's main thread; an id of another process's thread is EPERM.  GPURT_PACKET_NETLINK carries one
 * netlink message, both ways; `code` and `cookie` are zero.  The host answers every netlink request by its messages,
 * then NLMSG_DONE (dumps) or NLMSG_ERROR (acknowledgement, with extack).  GPURT_PACKET_INTERRUPT (no payload) ends the
 * wait of the request with that cookie, as a signal does in the kernel.  The host answers the request as usual, or with
 * EINTR if the request waits; EINTR means the same as in the kernel.  GPURT_PACKET_SUBSCRIBE (no payload) joins the
 * multicast group.  The host sends an event after the decision, when nothing more urgent is to do, but before it
 * answers a later request on that connection.
 *
 * The host first reads the packet of the connection whose thread has the highest GPU priority.  If the host does not
 * serve a connection, it sends a GPURT_PACKET_REPLY with cookie 0, and closes the connection.  EDQUOT: the user has as
 * many connections as the host permits.  ESRCH: the host does not see the process.  EMFILE, ENFILE: the host has no
 * free descriptor to look at the process; a call can return the same error.  A call returns EDQUOT if the user has as
 * many calls under way, or as much memory in TSGs, work and unread answers, as the host permits.  It also returns
 * EDQUOT if the connection has 256 calls under way.
 */
enum gpurt_packet_type {
	GPURT_PACKET_IOCTL = 1,
	GPURT_PACKET_REPLY,
	GPURT_PACKET_NETLINK,
	GPURT_PACKET_SUBSCRIBE,
	GPURT_PACKET_INTERRUPT,
};

struct gpurt_packet {
	__u32 type;
	__u32 code;
	__u32 cookie;
	__s32 result;
};

#define GPURT_MAX_PACKET	8192

#endif /* _UAPI_GPURT_H */
