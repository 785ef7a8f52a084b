# SPDX-License-Identifier: GPL-2.0
"""The data plane of the user-space host: each ioctl of uapi/gpurt.h on a connection."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gpurt._gpurt import ffi, lib
from gpurt.enums import Cap, Cause, EventKind, Tier
from gpurt.types import CData
from pycontrol.host.agents import AgentGpu, order_of
from pycontrol.host.gpu import Decision, Gpu, GpuClient, Mark
from pycontrol.host.groups import Groups
from pycontrol.host.units import Space
from pycontrol.host.virtual import VirtualGpu
from pycontrol.host.waiter import Answer, Deadlines, Waiter
from pycontrol.host.wire import Malformed, Refusal, structure

if TYPE_CHECKING:
    from pycontrol.host.connection import Connection

#: The calls (GPURT_IOC_NAME), named like the methods that carry them out; methods of `Space` lack the prefix job_.
NAMES = ("query", "begin", "end", "wait", "copy", "group_join", "tsg_open", "tsg_close", "submit", "tsg_shape", "agent",
         "order", "job_mark")  # fmt: skip
UNIT_NAMES = ("job_ready", "job_wait", "job_run", "job_kernel_done", "job_done")
#: The structures that several calls share; each other call has the structure of its own name.
SHARED = {"tsg_open": "tsg", "tsg_close": "tsg", "job_kernel_done": "job_done"}
CODES = {name: int(getattr(lib, f"GPURT_IOC_{name.upper()}")) for name in (*NAMES, *UNIT_NAMES)}
#: The structure of each call; core/calls.c states its size and its rules.
KINDS = {code: f"struct gpurt_{SHARED.get(name, name)}" for name, code in CODES.items()}


class Call:
    """A call under way.  Calling this object with the result answers the call."""

    def __init__(self, answer: Callable[[int, CData], None], made: CData, posted: bool) -> None:
        """`answer` gets the result and the structure; `posted`: nobody waits for the answer."""
        self._answer, self._made, self.posted = answer, made, posted
        self._waiter: Waiter | None = None
        self._interrupted = False

    def __call__(self, result: int) -> None:
        """Answers the call."""
        self._answer(result, self._made)

    def waits(self, answer: Answer) -> Waiter:
        """Makes the call wait: `answer` is called when the event happens, or with EINTR after a signal."""
        self._waiter = Waiter(answer)
        if self._interrupted:
            self._waiter.finish(-errno.EINTR)
        return self._waiter

    def forget(self) -> None:
        """Drops the answer: the caller no longer waits."""
        if self._waiter:
            self._waiter.forget()

    def interrupt(self) -> None:
        """A signal came to the thread that waits for the answer."""
        self._interrupted = True
        if self._waiter:
            self._waiter.finish(-errno.EINTR)


def is_post(code: int, cookie: int, payload: bytes) -> bool:
    """Whether the call needs no answer: a begin with GPURT_BEGIN_POST, or an end without flags.

    No limit refuses it: a lost end would leave its segment open for ever.  The GPU keeps two decisions for all posts.
    """
    flags = int.from_bytes(payload[8:12], sys.byteorder)
    if code == lib.GPURT_IOC_BEGIN:
        return not cookie and bool(flags & lib.GPURT_BEGIN_POST)
    return not cookie and code == lib.GPURT_IOC_END and not flags


def granted(gpu: Gpu, made: CData, answer: Call) -> Answer:
    """Answers a waiting begin when its client has the GPU, or when a signal comes first."""
    post = lib.GPURT_BEGIN_POST if gpu.takes_posts else 0

    def happened(outcome: int, _when: int) -> None:
        if outcome == -errno.EINTR:
            made.flags |= lib.GPURT_BEGIN_BEGUN
        elif not outcome:
            made.state, made.flags = lib.GPURT_STATE_RUNNING, made.flags & ~lib.GPURT_BEGIN_BEGUN | post
        answer(outcome)

    return happened


class Calls:
    """Carries out calls; `deadlines` gets those with a time limit.  `space`: None if GPUs are not shared in units."""

    def __init__(
        self, gpus: Sequence[Gpu], clock: Callable[[], int], deadlines: Deadlines, groups: Groups,
        space: Space | None = None,
    ) -> None:  # fmt: skip
        self.gpus = gpus
        self.clock = clock
        self.deadlines = deadlines
        self.groups = groups
        self.space = space
        self._handlers = {CODES[name]: getattr(self, name) for name in NAMES} | {
            CODES[name]: getattr(space, name.removeprefix("job_")) if space else no_units for name in UNIT_NAMES
        }  # fmt: skip

    def call(
        self, caller: Connection, code: int, payload: bytes, answer: Callable[[int, CData], None],
        posted: bool = False,
    ) -> Call:  # fmt: skip
        """Carries out one call and answers it, now or later, with the result and the structure.

        `posted`: nobody waits for the answer, and the call counts against no limit: see `is_post`.

        Raises:
            Malformed: there is no such call, or the structure breaks the rules.
            Refusal: the call cannot be carried out.
        """
        known = lib.gpurt_call_find(code)
        if not known:
            raise Malformed(f"no such call: {code:#x}", errno.ENOTTY)
        made = structure(known, KINDS[known.code], payload)
        if lib.gpurt_call_check(known, ffi.cast("union gpurt_argument *", made)):
            raise Refusal(errno.EINVAL, "a field, flag or padding that must not be set, or is out of range")
        call = Call(answer, made, posted)
        self._handlers[known.code](caller, made, call)
        return call

    def gpu(self, made: CData) -> Gpu:
        """The GPU that a structure names.  Raises Refusal ENODEV."""
        index = int(made.gpu)
        if index >= len(self.gpus):
            raise Refusal(errno.ENODEV, f"no GPU {index}")
        return self.gpus[index]

    def query(self, _caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_QUERY."""
        gpu = self.gpu(made)
        made.version, made.gpus = lib.GPURT_VERSION, len(self.gpus)
        facts = gpu.facts()
        made.caps = facts.caps | (Cap.RAISES if gpu.band.able else 0) | (Cap.UNITS if self.space else 0)
        made.caps |= Cap.GROUPS if self.groups.able else 0
        made.policy, made.tier, made.device = gpu.sched.policy, facts.tier, facts.device.encode()
        raised = gpu.latency[Cause.RAISE].max
        made.epsilon_ns = max(one.max for cause, one in gpu.latency.items() if cause is not Cause.RAISE) + raised
        answer(0)

    def begin(self, caller: Connection, made: CData, answer: Call) -> None:
        """GPURT_IOC_BEGIN."""
        if made.flags & lib.GPURT_BEGIN_POST:
            self._begin_posted(self.gpu(made), caller, made, answer)
            return
        if made.flags & lib.GPURT_BEGIN_BEGUN:
            self._goes_on(self.gpu(made), caller, made, answer)
            return
        gpu, thread = self.gpu(made), caller.thread()
        scheduling, at_once = caller.scheduling(thread), True
        own = scheduling.own
        if made.priority > own and not caller.peer.may_have(made.priority):
            raise Refusal(errno.EPERM, f"priority {made.priority} is above what process {caller.peer.pid} may take")
        if made.flags & lib.GPURT_BEGIN_FENCE and not gpu.sees_work:
            raise Refusal(errno.EOPNOTSUPP, "form fence: the host does not see the work of this GPU")
        client = caller.client(gpu)
        client.hint = client.hint if gpu.open_segments(client) else int(made.priority)

        def ask(now: int) -> int:
            nonlocal own
            # thread.own() makes three system calls
            has = scheduling if at_once else thread.own()
            result, own = client.boost.begin(gpu.sched, thread, has, made, now)
            return result

        def decide(now: int) -> int:
            return gpu.begin(client, own, int(made.priority), int(made.flags), now)

        def begun(result: int) -> None:
            made.state = gpu.state(client)
            waits = made.flags & lib.GPURT_BEGIN_WAIT and made.state != lib.GPURT_STATE_RUNNING
            if waits and not result and not client.gone:
                gpu.wait_grant(client, answer.waits(granted(gpu, made, answer)))
            else:
                made.flags |= lib.GPURT_BEGIN_POST if gpu.takes_posts else 0
                answer(result)

        def level() -> int:
            return int(lib.gpurt_client_begin_level(client.core, own, made.priority))

        def outdated() -> bool:
            return client.boost.outdated(gpu.sched, own, made)

        gpu.update(Decision(decide, begun, level, client, call=True, ask=ask, outdated=outdated))
        at_once = False

    def _begin_posted(self, gpu: Gpu, caller: Connection, made: CData, answer: Call) -> None:
        """Begins a segment without an answer.  The thread may have ended since it posted the begin."""
        if not answer.posted:
            raise Refusal(errno.EINVAL, "GPURT_BEGIN_POST is of a packet that asks for no answer")
        own, client = int(made.raised), caller.client(gpu)
        if own and not caller.peer.may_have(own):
            has = 0
            with suppress(Refusal):
                thread = caller.thread()
                has = caller.scheduling(thread).own
            own = min(own, max(has, caller.peer.right))
        client.hint = client.hint if gpu.open_segments(client) else 0
        gpu.begin_posted(client, own, made.flags & (lib.GPURT_BEGIN_OWNER | lib.GPURT_BEGIN_YIELD))
        answer(0)

    def _goes_on(self, gpu: Gpu, caller: Connection, made: CData, answer: Call) -> None:
        """A begin waits again after a signal interrupted it."""
        client = caller.client(gpu)
        if not client.core.depth:
            raise Refusal(errno.ENOENT, "no segment is open")
        gpu.wait_grant(client, answer.waits(granted(gpu, made, answer)))

    def end(self, caller: Connection, made: CData, answer: Call) -> None:
        """GPURT_IOC_END."""
        gpu = self.gpu(made)
        client = caller.client(gpu)
        drain = made.flags & lib.GPURT_END_DRAIN
        if drain and not client.core.depth:
            raise Refusal(errno.ENOENT, "no segment is open")

        def drained(result: int, _when: int) -> None:
            if result == -errno.EINTR:
                answer(result)
                return
            gpu.end(client, answer)

        if answer.posted:
            gpu.end_posted(client)
            answer(0)
        elif drain:
            virtual(gpu).wait_idle(client, answer.waits(drained))
        else:
            drained(0, 0)

    def wait(self, caller: Connection, made: CData, answer: Call) -> None:
        """GPURT_IOC_WAIT."""
        gpu = self.gpu(made)
        client = caller.client(gpu)
        fenced = made.what != lib.GPURT_WAIT_GRANT and client.boost.is_fenced(caller.thread)

        def happened(result: int, when: int) -> None:
            made.completed_ns = when
            answer(result)

        waiter = answer.waits(happened)
        if made.what == lib.GPURT_WAIT_WORK:
            virtual(gpu).wait_work(client, made.tsg, made.work, waiter)
        elif made.what == lib.GPURT_WAIT_IDLE:
            virtual(gpu).wait_idle(client, waiter)
        elif not gpu.open_segments(client):
            raise Refusal(errno.ENOENT, "no segment is open")
        else:
            gpu.wait_grant(client, waiter)
        if fenced and not waiter.answered:
            virtual(gpu).spins(client, (made.tsg, made.work) if made.what == lib.GPURT_WAIT_WORK else None)
        self.deadlines.limit(made.timeout_ns, self.clock(), waiter)

    def copy(self, caller: Connection, made: CData, answer: Call) -> None:
        """GPURT_IOC_COPY."""
        gpu = self.gpu(made)
        client = caller.client(gpu)
        copier = client.copier

        def happened(result: int, when: int) -> None:
            if result in (-errno.ETIMEDOUT, -errno.EINTR):
                gpu.bus.release(copier)
            made.granted_ns = 0 if result else when
            answer(result)

        waiter = answer.waits(happened)
        if made.what == lib.GPURT_COPY_BEGIN:
            self._ask_for_bus(caller, gpu, client, made, waiter)
        elif made.what == lib.GPURT_COPY_NEXT:
            result = gpu.bus.next(copier, waiter)
            if result:
                waiter.finish(result)
            else:
                copier.request = made.request
        else:
            another = made.request not in (0, copier.request)
            waiter.finish(-errno.ENOENT if another else gpu.bus.release(copier))
        self.deadlines.limit(made.timeout_ns, self.clock(), waiter)

    def _ask_for_bus(self, caller: Connection, gpu: Gpu, client: GpuClient, made: CData, waiter: Waiter) -> None:
        """GPURT_COPY_BEGIN."""
        copier, thread, priority = client.copier, caller.thread(), int(made.priority)
        own = caller.scheduling(thread).own
        if priority > own and not caller.peer.may_have(priority):
            raise Refusal(errno.EPERM, f"priority {priority} is above what process {caller.peer.pid} may take")
        if copier.node.state != lib.GPURT_STATE_IDLE:
            raise Refusal(errno.EBUSY, "the client copies already, or waits to")
        level = int(lib.gpurt_client_begin_level(client.core, own, priority))
        refused = 0
        if gpu.sched.policy == lib.GPURT_POLICY_BOOSTED:
            refused = gpu.bus.admit(copier, thread, level, caller.peer, client.boost.barred)
        if refused:
            waiter.finish(refused)
            return
        copier.own, copier.hint, copier.request = own, priority, made.request
        gpu.bus.request(copier, level, waiter)

    def group_join(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_GROUP_JOIN."""
        name = ffi.string(made.name).decode("ascii")
        thread = caller.thread()
        own = caller.scheduling(thread).own
        every = bool(made.flags & lib.GPURT_GROUP_ALL)
        right = caller.peer.right if every else 0
        if every:
            barred = any(client.boost.barred for client in caller.clients.values())
            self.gpus[0].band.check_kept(own, right, barred)

        def joined(result: int) -> None:
            if every and not result:
                caller.kept = True
                for client in caller.clients.values():
                    client.boost.keeps(thread, right)
            answer(result)

        self.groups.join(caller, name, own, False, joined, every)

    def tsg_open(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_TSG_OPEN."""
        gpu = virtual(self.gpu(made))

        def opened(number: int) -> None:
            made.tsg = number
            answer(0)

        gpu.open_tsg(caller.client(gpu), opened)

    def tsg_close(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_TSG_CLOSE."""
        gpu = virtual(self.gpu(made))
        gpu.close_tsg(caller.client(gpu), made.tsg, answer)

    def submit(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_SUBMIT."""
        gpu = virtual(self.gpu(made))
        made.work = gpu.submit(caller.client(gpu), made)
        answer(0)

    def tsg_shape(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_TSG_SHAPE."""
        gpu, thread = virtual(self.gpu(made)), caller.thread()
        client = caller.client(gpu)
        real_time = caller.scheduling(thread).own > 0 or caller.peer.may_have(1)
        gpu.shape_tsg(client, made.tsg, made.slice_ns, made.level, real_time)
        answer(0)

    def agent(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_AGENT."""
        driver = ffi.string(made.driver)
        client = caller.client(self.gpu(made))  # like the module, also for a driver that needs no agents
        gpu = by_agents(self.gpu(made))

        def registered(result: int, on: int, sequence: int) -> None:
            made.on, made.sequence = on, sequence
            answer(result)

        channels = [(made.channels.clients[i], made.channels.channels[i]) for i in range(made.channels.count)]
        tier = Tier(made.tier)
        gpu.register(client, driver.decode("ascii"), tier, made.tsgs, registered, made.flags, made.set, channels)

    def order(self, caller: Connection, made: CData, answer: Call) -> None:
        """GPURT_IOC_ORDER."""
        gpu = by_agents(self.gpu(made))
        client = caller.client(gpu)
        gpu.answer(client, made.answered, made.result, made.flags)

        def happened(result: int, _when: int) -> None:
            made.flags = 0
            made.on, made.sequence, made.set = order_of(client.own), client.own.raw.sequence, client.own.taken[0]
            others = gpu.channels_of_others(client.own) if made.on & lib.GPURT_ORDER_MANY else []
            made.channels.count = len(others)
            for i, (owner, channel) in enumerate(others):
                made.channels.clients[i], made.channels.channels[i] = owner, channel
            answer(result)

        waiter = answer.waits(happened)
        gpu.next_order(client, made.answered, waiter)
        self.deadlines.limit(made.timeout_ns, self.clock(), waiter)

    def job_mark(self, caller: Connection, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_JOB_MARK."""
        gpu, now = self.gpu(made), self.clock()
        when = made.when_ns or now
        if not made.release_ns <= when <= now:
            raise Refusal(errno.EINVAL, f"job {made.job} is not released yet, or the time is yet to come")
        kind = EventKind.JOB_BEGIN if made.what == lib.GPURT_MARK_BEGIN else EventKind.JOB_END
        task = ffi.string(made.task).decode("ascii")
        client = caller.client(gpu)
        whole = int(lib.gpurt_mark_take(client.marks, made.what, now))
        if whole:
            client.marks = whole
            gpu.tell(gpu, client, kind, when, None, when - made.release_ns, Mark(task, made.job, made.cpu_ns))
        else:
            gpu.marks_lost[client] = gpu.marks_lost.get(client, 0) + 1
        answer(0)


def no_units(_caller: Connection, _made: CData, _answer: Callable[[int], None]) -> None:
    """Refuses a call about jobs, since GPUs are not shared in units.  Raises Refusal EOPNOTSUPP."""
    raise Refusal(errno.EOPNOTSUPP, "this host does not share units: start it with --policy sbeet --taskset FILE")


def virtual(gpu: Gpu) -> VirtualGpu:
    """The virtual GPU that a call needs.  Raises Refusal EOPNOTSUPP for a real GPU."""
    if not isinstance(gpu, VirtualGpu):
        raise Refusal(errno.EOPNOTSUPP, "the host does not see the work of this GPU")
    return gpu


def by_agents(gpu: Gpu) -> AgentGpu:
    """The GPU, which agents must serve.  Raises Refusal EOPNOTSUPP for a GPU without agents."""
    if not isinstance(gpu, AgentGpu):
        raise Refusal(errno.EOPNOTSUPP, "this GPU needs no agents")
    return gpu
