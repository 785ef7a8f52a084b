# SPDX-License-Identifier: GPL-2.0
"""Feeds a running host's events to the judge of observed jobs and segments (pycontrol/observe/judge/judge.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

from analysis.taskset import Launch
from analysis.traces.trace import Event, Kind
from gpurt.enums import EventKind
from gpurt.text import visible
from pycontrol.link.control import ClientInfo, Control, EventRecord
from pycontrol.link.events import LINGER, Names, rest, to_events
from pycontrol.link.sleep import Sleep
from pycontrol.machine import procs
from pycontrol.machine.clocks import look as machine_clocks
from pycontrol.machine.programs import command_of, tasks_of
from pycontrol.observe.fit import host as of_host
from pycontrol.observe.fit.clients import client_objections, groups, strangers
from pycontrol.observe.fit.clocks import clocks
from pycontrol.observe.fit.costs import failures
from pycontrol.observe.fit.host import Host, exempted
from pycontrol.observe.fit.objection import Code
from pycontrol.observe.fit.policy import begins, policies
from pycontrol.observe.host_cpu import urgent_threads
from pycontrol.observe.judge.finding import Finding, What
from pycontrol.observe.judge.judge import JUMP, Judge
from pycontrol.observe.judge.seen import meaning
from pycontrol.observe.judge.strangers import MAX_STRANGERS

#: The most clients that are remembered.
MAX_CLIENTS_KNOWN = 10_000
NS = 1_000_000_000
#: How long after it happened an event may come before a job without an end counts as late, ns.  The module sends events
#: once a tick; a host of ordinary priority sends them when it has a CPU.
EVENT_PATIENCE_NS = 50_000_000
#: How often events are read, seconds: a wake-up for each event would cost more than all other work.
TICK = 0.01
#: The time between two looks at all clients, ns, and the number of events after which findings are yielded.
LOOK, MOST = NS, 1000
#: Objections to the host that are checked again and again, and the assumption that each of them breaks.
CHANGING = {
    Code.POLICY: What.POLICY, Code.BEGIN: What.POLICY, Code.ISOLATION: What.LATE, Code.CLOCKS: What.SPEED,
    Code.CPU_PRIORITY: What.PRIORITY, Code.FORM: What.POLICY, Code.BARRED: What.POLICY,
    Code.EXEMPT: What.UNDECLARED, Code.AMBIGUOUS: What.UNDECLARED, Code.GROUP: What.PRIORITY,
    Code.CPU_STRANGER: What.PRIORITY,
}  # fmt: skip
LOOKS = (policies, begins, failures, clocks, client_objections, groups, strangers)


class Watcher:
    """Watches one host with a judge, which must have been made with ``patience`` EVENT_PATIENCE_NS.

    ``control`` gets the events; ``asks`` is a second connection, for requests.  A host closes a connection that leaves
    answers unread.  If a connection only leaves events unread, the host drops events and says so.
    """

    def __init__(self, control: Control, asks: Control, judge: Judge) -> None:
        self.control, self.asks, self.judge = control, asks, judge
        self.events = 0
        self._names = Names({})
        self._sleep = Sleep()
        self._told: set[object] = set()
        self._owners = Owners(judge.file.launch)

    def findings(self, stop: threading.Event, until: int | None = None) -> Iterator[list[Finding]]:
        """Yields new findings, perhaps none, every TICK seconds, until ``stop`` is set or the time ``until``, ns.

        The first list has what is wrong at the beginning; from then on the subscription holds.

        Raises:
            DeviceError: the host is gone.
        """
        stream, asked = self.control.events(0), time.monotonic_ns()
        self._find_present()
        yield self._look()
        looked = now = time.monotonic_ns()
        while not stop.is_set() and (until is None or now < until):
            found: list[Finding] = []
            for count, record in enumerate(stream, 1):
                found += self._take(record)
                if count == MOST:
                    break
            else:  # all events from before `asked` have been read, however long this process waited
                found += self._check_sleep(asked)
                found += self._advance(asked)
                stop.wait(TICK)
                stream, asked = self.control.more(0), time.monotonic_ns()
            now = time.monotonic_ns()
            if now >= looked + LOOK:
                looked = now
                found += self._look()
            yield found
        yield self._rest(stream)

    def _advance(self, now: int) -> list[Finding]:
        """Judges late jobs.  A host of ordinary priority may not have read their ends yet, so it is asked first.

        The host answers in turn: its second answer comes after all that programs had sent before the first request.
        """
        found: list[Finding] = []
        if self.judge.suspects(now):
            for _ in range(2):
                found += [one for record in rest(self.control) for one in self._take(record)]
        return found + self.judge.advance(now)

    def _rest(self, stream: Iterator[EventRecord]) -> list[Finding]:
        """The findings from events that were unread at the end: the watch may be late, and overlook a late job."""
        over, found = time.monotonic_ns(), []
        time.sleep(EVENT_PATIENCE_NS / NS)  # the host may send events this much later
        end = time.monotonic() + LINGER
        for record in stream:  # of the last list
            found += self._take(record)
        self.control.status()  # the host answers after these events, on the same socket
        for record in self.control.more(0):
            found += self._take(record)
            if time.monotonic() > end:  # later events come as well
                text = "the watch ended before it had read all events"
                found += self.judge.report(time.monotonic_ns(), What.LOST, "", text)
                break
        self.judge.strangers.rest()
        return [*found, *self._check_sleep(over), *self._advance(over + EVENT_PATIENCE_NS), *self._look()]

    def _find_present(self) -> None:
        """Tells the judge of present clients: they may be inside jobs that began before the first event."""
        file, clients, now = self.judge.file, self.asks.clients(), time.monotonic_ns()
        longest = max((task.period + task.deadline for task in file.taskset), default=0)
        names = [f"{client.comm}-{client.pid}" if client.pid else "" for client in clients]
        self.judge.strangers.there({*names} - {""}, now + longest)
        for name, client in zip(names, clients, strict=True):
            command = command_of(str(client.pid)) if client.pid else ""
            if client.priority and not tasks_of(file, client.comm, command):
                self.judge.strangers.uses(Event(now, Kind.BEGIN, name, gpu=client.gpu), client.priority)

    def _take(self, record: EventRecord) -> list[Finding]:
        self.events += 1
        name = self._names.of(record)
        found: list[Finding] = []
        if record.time_ns > time.monotonic_ns() + JUMP:
            text = "the host's clock is ahead of this machine's; its events are left out"
            return self._once("clock", What.CLOCK, text)
        found += self._check_owner(record, name)
        for event in to_events(record, name):
            found += self.judge.feed(event, record.priority if record.client else None)
        return found

    def _check_owner(self, record: EventRecord, name: str) -> list[Finding]:
        """Checks a program's claim of a task by its user and cgroup, which the kernel states."""
        if not self._owners.new(record, name) or (task := meaning(self.judge.file, name, command_of)) is None:
            return []
        doubts = self._owners.doubts(record, task)
        return [one for key, text in doubts for one in self._once((task, key), What.UNDECLARED, text)]

    def _once(self, key: object, what: What, text: str) -> list[Finding]:
        """Reports a lasting state when it is first seen."""
        if key in self._told or len(self._told) > MAX_STRANGERS:
            return []
        if len(self._told) == MAX_STRANGERS:
            text = f"{MAX_STRANGERS} such things were found; more of them are not told"
        self._told.add(key)
        return self.judge.report(time.monotonic_ns(), what, "", text)

    def _check_sleep(self, now: int) -> list[Finding]:
        """Tells the judge of a suspension, during which CLOCK_MONOTONIC stands still."""
        slept = self._sleep.since()
        return self.judge.blind(now, f"{slept}; what was under way is left out") if slept else []

    def _look(self) -> list[Finding]:
        """The findings that no event shows: the host's policy, and clients that never began a segment."""
        found: list[Finding] = []
        file = self.judge.file
        clients = self.asks.clients()
        names = {client.pid: (task,) for client in clients if client.pid and (task := self.task_of(client))}
        gpus, pids = self.asks.status(), {client.pid for client in clients}
        host = Host(gpus, clients, clocks=[machine_clocks()] if file.clocks else (), names=names,
                    users={pid: procs.user(pid) for pid in names},
                    threads=urgent_threads(names), exempted=exempted(self.asks),
                    strangers=of_host.strangers(self.asks, pids, gpus))  # fmt: skip
        for one in (q for question in LOOKS for q in question(file, host)):
            if one.code in CHANGING and one.defeats:
                found += self._once(one, CHANGING[one.code], one.text)
        for client in clients:
            if client.tsgs and self._interferes(client) and self.task_of(client) is None:
                name = visible(f"{client.comm}-{client.pid}") if client.pid else "a process of another user"
                text = f"{name} has TSGs that are not taken off the GPU, and no task of the file is it"
                found += self._once((client.gpu, client.client), What.UNDECLARED, text)
        return found

    def _interferes(self, client: ClientInfo) -> bool:
        """Whether the client's TSGs take time from real-time tasks without a segment."""
        policy = self.judge.policy
        return client.exempt or policy.turns or (policy.jobs and client.priority > 0)

    def task_of(self, client: ClientInfo) -> str | None:
        """The client's task, from its reports or from its process."""
        record = EventRecord(EventKind.WORK, 0, client.gpu, client.client, client.pid, client.comm, 0, None, 0, 0)
        return meaning(self.judge.file, self._names.of(record), command_of)


class Owners:
    """Compares a process's user with its task's previous user, and its cgroup with the file's (``launch``, by task)."""

    def __init__(self, launch: Mapping[str, Launch]) -> None:
        self._launch = launch
        self._seen: dict[int, str] = {}
        self._users: dict[str, str] = {}

    def new(self, record: EventRecord, name: str) -> bool:
        """Whether an event's client is called ``name`` for the first time, and its process is known."""
        if not record.pid or self._seen.get(record.client) == name:
            return False
        if record.kind is EventKind.GONE:
            self._seen.pop(record.client, None)
            return False
        if len(self._seen) >= MAX_CLIENTS_KNOWN:
            self._seen.clear()
        self._seen[record.client] = name
        return bool(record.client)

    def doubts(self, record: EventRecord, task: str) -> Iterator[tuple[str, str]]:
        """Why the event's process is not the task that it claims to be: the difference, and a sentence about it."""
        user, cgroup = "".join(procs.status(record.pid, "Uid")[1:2]), procs.cgroup(record.pid)
        if not user:
            return  # the process is gone, or hidden
        who = visible(f"{record.comm}-{record.pid}")
        first = self._users.setdefault(task, user)
        if user != first:
            yield f"user {user}", f"{who} of user {user} passes for {task}, and before it a process of user {first} did"
        wanted = self._launch[task].cgroup
        if wanted and cgroup and not procs.in_cgroup(cgroup, wanted):
            where = f"cgroup {visible(cgroup)}"
            yield where, f"{who} passes for {task} in {where}, and the file has it in {visible(wanted)}"
