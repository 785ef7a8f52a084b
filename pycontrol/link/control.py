# SPDX-License-Identifier: GPL-2.0
"""The control plane as a typed Python interface, the same for the kernel module and the user-space host."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from gpurt._gpurt import ffi, lib
from gpurt.enums import Begin, Cause, Command, EventKind, Form, Image, Notice, Overrun, Policy, State, Tier, Words
from gpurt.errors import DeviceError, UsageError
from gpurt.segments import explain
from gpurt.types import Document
from pycontrol.link import stuck
from pycontrol.link.netlink import HOST_PATIENCE_S, LATER, GenericTransport, Link, Message, SocketTransport, Value
from pycontrol.machine import drivers, procs

_Known = TypeVar("_Known", bound=Words)
_Record = TypeVar("_Record")

#: The pid that a host reports if an event is about no single process.
NO_PID = 0
#: What a user should do about a host without a GPU.  The module has a GPU only if a parameter asks for one.
HOST_WITHOUT_GPU = "the host has no GPU; load gpurt-vgpu.ko, or gpurt.ko with agent_gpus=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStatus:
    """One GPU.  GPURT_STATUS_ATTRIBUTES in kmod/uapi/gpurt.h states the meaning of each field.  Times in ns.

    A field has a default if a host may have no value of it; JSON documents have null then.
    """

    gpu: int
    device: str = ""
    driver: str
    tier: Tier
    policy: Policy
    notice: Notice
    poll_ns: int
    client_count: int
    tsgs: int
    image: Image
    runner_pid: int = 0
    updates: int
    faults: int
    late: int
    malformed: int
    alpha_ns: int
    theta_ns: int
    slice_ns: int
    refused: int
    normal_priorities: int = 0
    barred_count: int
    unit_policy: str = ""
    mechanism: str = ""
    units: int = 0
    units_held: int
    jobs: int
    unit_clients: int
    jobs_done: int
    jobs_late: int
    jobs_skipped: int
    jobs_lost: int
    jobs_overdue: int
    partition_of: int | None = None
    partition_units: int = 0
    cross_thousandths: int = 0
    stuck_bound_ns: int = 0
    stuck_ns: int = 0
    stuck_count: int
    begin: Begin = Begin.ISOLATED
    ready: int | None = None
    at_once: int | None = None

    @property
    def emulated(self) -> bool:
        """Whether it is a virtual GPU."""
        return self.tier is Tier.VIRTUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """One client of one GPU, as GpuStatus; ``set_priority`` is None if the control plane has set no priority.

    ``pid`` is 0, and ``comm`` and ``group`` are empty, if this process may not know the client's
    process.  ``on_overrun``: what happens when the client's budget is used up.
    """

    gpu: int
    client: int
    pid: int
    comm: str
    state: State
    priority: int
    own_priority: int
    set_priority: int | None
    depth: int
    tsgs: int
    exempt: bool
    demoted: bool
    segments: int
    preemptions: int
    held_ns: int
    budget_ns: int = 0
    period_ns: int = 0
    on_overrun: Overrun | None = None
    overruns: int
    form: Form
    raised: int = 0
    barred: bool
    copy: State
    copies: int
    group: str = ""
    kept: bool
    yields: bool | None = None


@dataclass(frozen=True, slots=True)
class Durations:
    """How long an action or a wait took each time, ns."""

    gpu: int
    count: int
    minimum: int
    total: int
    maximum: int
    buckets: tuple[int, ...]

    @property
    def mean(self) -> int:
        """Arithmetic mean, ns."""
        return self.total // self.count if self.count else 0

    def percentile(self, share: float) -> int:
        """The time that this share of the durations did not exceed, ns: the upper edge of a histogram bucket."""
        wanted = share * self.count
        seen = 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if seen >= wanted and seen:
                return min(int(lib.gpurt_hist_floor(bucket + 1)), self.maximum)
        return self.maximum

    def octaves(self) -> dict[int, int]:
        """The number of durations by power of two: those of at most that many ns, and of more than half of it."""
        found: dict[int, int] = {}
        for bucket, count in enumerate(self.buckets):
            if count:
                edge = 1 << (int(lib.gpurt_hist_floor(bucket + 1)) - 1).bit_length()
                found[edge] = found.get(edge, 0) + count
        return found


@dataclass(frozen=True, slots=True)
class UpdateLatency(Durations):
    """How long runlist updates of one cause took."""

    cause: Cause


def update_times(latency: Iterable[UpdateLatency]) -> tuple[int, int]:
    """The number of runlist updates that were timed, and the longest time, ns."""
    timed = [one for one in latency if one.cause is not Cause.RAISE]
    return sum(one.count for one in timed), max((one.maximum for one in timed), default=0)


def raised(latency: Iterable[UpdateLatency], policies: Collection[str | None] = (Policy.BOOSTED.word,)) -> int:
    """The longest time from a decision until the host raised or lowered a thread, ns; 0: these policies raise none."""
    if Policy.BOOSTED.word not in policies:
        return 0
    return max((one.maximum for one in latency if one.cause is Cause.RAISE), default=0)


@dataclass(frozen=True, slots=True)
class BusStatus(Durations):
    """The bus of one GPU, and how long clients waited for it.

    ``client`` is the client that has the bus, or None; ``held_ns``: for how long it has had the bus.  ``pid`` is 0 and
    ``comm`` empty if this process may not know the client's process.
    """

    waiters: int
    client: int | None
    pid: int
    comm: str
    priority: int
    held_ns: int


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event; ``pid`` is 0 if it is about no single process, or about a process that this one may not know.

    ``task``, ``job``, ``cpu_ns``: what a program says of its job; ``task`` is empty if this process may not know it.
    ``group``: as in ClientInfo.
    ``lost``: how many events this reader missed (LOST), or how many earlier marks of the client no reader was told.
    ``detail``: for STUCK, what this process found out when the event came.  ``user``: the number of the group's user.
    """

    kind: EventKind
    time_ns: int
    gpu: int
    client: int
    pid: int
    comm: str
    priority: int
    cause: Cause | None
    latency_ns: int
    lost: int
    task: str = ""
    job: int | None = None
    cpu_ns: int = 0
    group: str = ""
    detail: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule of the administrator: it exempts processes, or it bars them from being raised.

    One of ``pid``, ``comm`` and ``cgroup`` names the processes; the others are None.  It is 0 or empty if this process
    may not know the name.  ``since_ns``: when the rule was made, CLOCK_MONOTONIC.
    """

    exempt: bool
    pid: int | None
    comm: str | None
    cgroup: str | None
    since_ns: int


class Control:
    """A connection to a host's control plane; a context manager."""

    def __init__(self, link: Link, device: str) -> None:
        self._link = link
        self._processes: dict[int, tuple[int, str]] = {}  # of clients, for events without pid and comm
        self._users: dict[int, str] = {}  # of clients in groups
        self.device = device

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._link.close()

    def status(self) -> list[GpuStatus]:
        """Every GPU of the host; the list may be empty."""
        return [_read(GpuStatus, message) for message in self._link.request(Command.GET_STATUS, {})]

    def gpus(self) -> list[GpuStatus]:
        """Every GPU of the host, at least one.

        Raises:
            DeviceError: the host has no GPU.
        """
        found = self.status()
        if not found:
            raise DeviceError(HOST_WITHOUT_GPU)
        return found

    def clients(self, gpu: int | None = None) -> list[ClientInfo]:
        """All clients, or those of one GPU."""
        return [_client(message) for message in self._link.request(Command.GET_CLIENTS, _gpu(gpu))]

    def latency(self, gpu: int | None = None) -> list[UpdateLatency]:
        """Runlist update times by GPU and cause."""
        found = self._link.request(Command.GET_LATENCY, _gpu(gpu))
        return [_read(UpdateLatency, message, **_times(message)) for message in found]

    def buses(self, gpu: int | None = None) -> list[BusStatus]:
        """The bus of every GPU, or of one."""
        return [_bus(message) for message in self._link.request(Command.GET_BUS, _gpu(gpu))]

    def set_priority(self, pid: int, priority: int | None, gpu: int | None = None) -> None:
        """Sets the GPU priority of a process's clients.  None undoes that: the task's own priority counts again.

        Raises:
            RefusedError: not permitted, no such client, or no such priority.
        """
        value = lib.GPURT_PRIORITY_OWN if priority is None else priority
        self._link.request(Command.SET_PRIORITY, {"PID": pid, "PRIORITY": value, **_gpu(gpu)})

    def set_policy(
        self, policy: Policy | str, gpu: int | None = None, notice: Notice | None = None, poll_ns: int | None = None
    ) -> str:
        """Changes the policy of one GPU, or of all, and returns the host's remark about it; empty if there is none.

        Raises:
            RefusedError: the caller may not, or the host does not support the policy.
            UsageError: no policy has that name.
        """
        if isinstance(policy, str):
            try:
                policy = Policy(Policy.parse(policy))
            except ValueError as error:
                raise UsageError(f"policy {error}") from None
        attributes: dict[str, Value] = {"POLICY": int(policy), **_gpu(gpu)}
        if notice is not None:
            attributes["NOTICE"] = int(notice)
        if poll_ns is not None:
            attributes["POLL_NS"] = poll_ns
        self._link.request(Command.SET_POLICY, attributes)
        return self._link.remark

    def set_budget(
        self,
        of: int | str,
        budget_ns: int,
        period_ns: int,
        overrun: Overrun = Overrun.REPORT,
        gpu: int | None = None,
    ) -> None:
        """Limits how long a process and its descendants, or a cgroup, own the GPU in each period; times in ns.

        ``of`` is a pid, or a cgroup's path; a ``budget_ns`` of 0 means no limit.

        Raises:
            RefusedError: the caller may not, there is no such process, or the budget exceeds the period.
        """
        named: dict[str, Value] = {"PID": of} if isinstance(of, int) else {"CGROUP": of}
        budget = {"BUDGET_NS": budget_ns, "PERIOD_NS": period_ns, "OVERRUN": int(overrun)}
        self._link.request(Command.SET_BUDGET, {**named, **budget, **_gpu(gpu)})

    def set_exempt(
        self, exempt: bool, *, pid: int | None = None, comm: str | None = None, cgroup: str | None = None
    ) -> None:
        """Exempts a process, all processes of a name, or a cgroup: they stay on every runlist.  False undoes it.

        Raises:
            RefusedError: the caller may not, or not exactly one of the three is given.
        """
        self._link.request(Command.SET_EXEMPT, {"EXEMPT": int(exempt), **_process(pid, comm, cgroup)})

    def set_barred(
        self, barred: bool, *, pid: int | None = None, comm: str | None = None, cgroup: str | None = None
    ) -> None:
        """Bars a process, all processes of a name, or all of a cgroup from being raised.  False undoes it.

        Raises:
            RefusedError: the caller may not, or not exactly one of the three is given.
        """
        self._link.request(Command.SET_BARRED, {"BARRED": int(barred), **_process(pid, comm, cgroup)})

    def set_group(self, pid: int, group: str) -> None:
        """Makes a process a member of a group of its user, even in the middle of a segment.

        Raises:
            RefusedError: the caller may not, there is no such client, or it cannot join.
        """
        self._link.request(Command.SET_GROUP, {"PID": pid, "GROUP": group})

    def rules(self) -> list[RuleInfo]:
        """The rules in force of `set_exempt` and `set_barred`, in the order in which they were made."""
        return [_rule(message) for message in self._link.request(Command.GET_RULES, {})]

    def events(self, timeout: float | None = None) -> Iterator[EventRecord]:
        """Subscribes at once; yields events, and stops after `timeout` seconds without an event."""
        return map(self._named, self._link.events(timeout))

    def more(self, timeout: float | None = None) -> Iterator[EventRecord]:
        """Yields the events after those of `events`; stops after `timeout` seconds without an event."""
        return map(self._named, self._link.more(timeout))

    def _named(self, message: Message) -> EventRecord:
        """The event, with the process, the group's user and the details that this process looks up."""
        record = self._of_user(self._of_process(_event(message)))
        if record.kind is not EventKind.STUCK:
            return record
        clients = self.clients(None if record.group else record.gpu)  # a group's members may be on any GPU
        owner = stuck.stuck_owner(clients, record.client, record.pid, record.comm, record.group)
        return replace(record, detail=stuck.stuck_text(record.gpu, owner, record.latency_ns, clients))

    def _of_user(self, record: EventRecord) -> EventRecord:
        """The event with its group's user, since users may have groups of one name.  Looked up once for each client."""
        if not record.group:
            return record
        if record.client not in self._users:
            self._users[record.client] = procs.user(record.pid)
        user = self._users[record.client]
        if record.kind is EventKind.GONE:
            del self._users[record.client]
        return replace(record, user=user)

    def _of_process(self, record: EventRecord) -> EventRecord:
        """The event with its client's process, which is looked up once for each client if no event names it."""
        if not record.client or record.pid != NO_PID:
            return record
        if record.client not in self._processes:
            self._processes |= {one.client: (one.pid, one.comm) for one in self.clients()}
        pid, comm = self._processes.setdefault(record.client, (NO_PID, ""))
        return replace(record, pid=pid, comm=comm)

    def fileno(self) -> int:
        """A descriptor that is readable when an event has arrived."""
        return self._link.fileno()


def connect(device: str | None = None, patience: float = HOST_PATIENCE_S) -> Control:
    """Connects to a host: `device`, else GPURT_DEVICE, else /dev/gpurt, else the usual sockets.

    ``patience``: after how many seconds without an answer the host counts as hung.

    Raises:
        DeviceError: there is no host, or the host does not answer.
    """
    for place in places(device):
        try:
            mode = place.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise DeviceError(explain(str(place), -(error.errno or 0))) from None
        if stat.S_ISCHR(mode):
            return Control(Link(GenericTransport(_string(lib.GPURT_GENL_NAME)), patience), str(place))
        if stat.S_ISSOCK(mode):
            return Control(Link(SocketTransport(str(place), patience), patience), str(place))
        raise DeviceError(f"{place}: is neither gpurt's device nor a host's socket")
    tried = ", ".join(map(str, places(device)))
    raise DeviceError(f"no host (tried {tried}); {drivers.first_host()}; or name a host with --device")


def places(device: str | None = None) -> list[Path]:
    """Where a host may be: at ``device``, else where GPURT_DEVICE says, else at the usual places."""
    named = device or os.environ.get("GPURT_DEVICE")
    if named:
        return [Path(named)]
    system = Path(_string(lib.GPURT_DEFAULT_SOCKET))
    places = [Path(_string(lib.GPURT_DEFAULT_DEVICE)), system]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [*places, Path(runtime) / "gpurt" / system.name] if runtime else places


def _string(raw: object) -> str:
    return bytes(ffi.string(raw)).decode()


def _gpu(gpu: int | None) -> dict[str, Value]:
    return {} if gpu is None else {"GPU": gpu}


def _process(pid: int | None, comm: str | None, cgroup: str | None) -> dict[str, Value]:
    """The attribute that names a rule's processes."""
    named: dict[str, Value | None] = {"PID": pid, "COMM": comm, "CGROUP": cgroup}
    return {key: value for key, value in named.items() if value is not None}


def _number(message: Message, name: str, default: int = 0) -> int:
    value = message.attributes.get(name, default)
    assert isinstance(value, int)
    return value


def _known(message: Message, name: str, members: type[_Known]) -> _Known:
    """The enumeration's member for an attribute's number.  Raises DeviceError for a number of a later release."""
    number = _number(message, name)
    try:
        return members(number)
    except ValueError:
        raise DeviceError(f"the host sends {name.lower()} {number}, {LATER}") from None


def _field(one: Field[Any], kind: Any) -> tuple[type[Any], Any]:
    """The type of a field, of its value if that may be None, and the field's default."""
    return next(iter(get_args(kind)), kind), one.default


#: The fields of the answers' dataclasses by name: type and default of each.
FIELDS: dict[type[Any], dict[str, tuple[type[Any], Any]]] = {
    record: {one.name: _field(one, get_type_hints(record)[one.name]) for one in fields(record)}
    for record in (GpuStatus, ClientInfo, UpdateLatency, BusStatus)
}


#: Facts of a GPU that only a host has whose jobs share units.
OF_UNITS = ("units_held", "jobs", "unit_clients", "jobs_done", "jobs_late", "jobs_skipped", "jobs_lost", "jobs_overdue")


def _read(record: type[_Record], message: Message, **given: Any) -> _Record:
    """A dataclass from a message's attributes, which have the fields' names; a missing attribute is 0 or the default.

    Raises:
        DeviceError: an enumeration has no member of that number, or a fact of a GPU or a client is missing.
    """
    for name, (kind, default) in FIELDS[record].items():
        if name not in given:
            there = name.upper() in message.attributes
            if not there and default is MISSING and record in (GpuStatus, ClientInfo) and name not in OF_UNITS:
                raise DeviceError(f"the host does not say {name}: use the host's release")
            if issubclass(kind, Words):
                given[name] = _known(message, name.upper(), kind)
            elif there or default is MISSING:
                given[name] = kind(message.attributes[name.upper()]) if there else kind()
    return record(**given)


def told_fields(record: GpuStatus | ClientInfo) -> Document:
    """The fields by name; None for a fact that the host has no value of."""
    absent = FIELDS[type(record)]
    return {name: None if value == absent[name][1] else value for name, value in asdict(record).items()}


def _client(message: Message) -> ClientInfo:
    chosen = _number(message, "SET_PRIORITY")
    return _read(
        ClientInfo, message, set_priority=None if chosen == lib.GPURT_PRIORITY_OWN else chosen,
        on_overrun=_known(message, "OVERRUN", Overrun) if "OVERRUN" in message.attributes else None,
    )  # fmt: skip


def _buckets(message: Message) -> tuple[int, ...]:
    raw = message.attributes.get("HISTOGRAM", b"")
    data = raw if isinstance(raw, bytes) else b""
    return struct.unpack(f"={len(data) // 8}Q", data[: len(data) // 8 * 8])


def _times(message: Message) -> dict[str, Any]:
    named = {"minimum": "MIN_NS", "total": "SUM_NS", "maximum": "MAX_NS"}
    return {"buckets": _buckets(message), **{field: _number(message, name) for field, name in named.items()}}


def _bus(message: Message) -> BusStatus:
    return _read(BusStatus, message, client=_number(message, "CLIENT") or None, **_times(message))


def _rule(message: Message) -> RuleInfo:
    get: Any = message.attributes.get
    return RuleInfo("EXEMPT" in message.attributes, get("PID"), get("COMM"), get("CGROUP"), _number(message, "TIME_NS"))


_EVENT_KINDS = {int(kind): kind for kind in EventKind}
_CAUSES = {int(cause): cause for cause in Cause}


def _event(message: Message) -> EventRecord:
    get: Any = message.attributes.get
    kind = _EVENT_KINDS.get(get("EVENT", 0))
    if kind is None:
        raise DeviceError(f"the host sends event {get('EVENT')}, {LATER}")
    cause = _CAUSES.get(get("CAUSE", -1))
    if cause is None and "CAUSE" in message.attributes:
        raise DeviceError(f"the host sends cause {get('CAUSE')}, {LATER}")
    return EventRecord(
        kind, get("TIME_NS", 0), get("GPU", 0), get("CLIENT", 0), get("PID", NO_PID),
        get("COMM", ""), get("PRIORITY", 0), cause, get("LATENCY_NS", 0), get("LOST", 0),
        get("TASK", ""), get("JOB"), get("CPU_NS", 0), get("GROUP", ""),
    )  # fmt: skip
