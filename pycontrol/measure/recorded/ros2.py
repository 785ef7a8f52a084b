# SPDX-License-Identifier: GPL-2.0
"""Reads CTF traces of ros2_tracing: the callbacks of each thread, their releases and their times.

A message links two callbacks only where its stamp proves that: the one that published it, and the one that took it.
Handles are unique in a process only.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

from analysis.taskset import task_name
from gpurt.errors import FileError
from gpurt.text import filename, visible
from gpurt.units import UNKNOWN_TIME, format_time
from pycontrol.measure.entry import percent
from pycontrol.measure.recorded.account import SPAN
from pycontrol.measure.summary import enlarged
from pycontrol.output import render

#: A process and a handle of it.
Key = tuple[int, int]
#: Kinds of callbacks, in the order in which an executor of ROS 2 looks for them.
CALLBACK_KINDS = ("timer", "subscription", "service", "unknown")


class RosEvent(NamedTuple):
    """An event at ``time`` ns; ``values`` has its fields and those of its context."""

    name: str
    time: int
    values: Mapping[str, object]

    def number(self, key: str) -> int:
        """A field that is a number.  Raises FileError if there is none."""
        value = self.values.get(key)
        if not isinstance(value, int):
            raise FileError(f"event {self.name} lacks {key}, a number; record with the context vpid and vtid")
        return int(value)


@dataclass(slots=True)
class RosCallback:
    """A callback: what releases it, and the jobs that ended.

    ``about``: the topic or service.  ``period``: of its timer, ns.  ``walls``, ``cpus``: the longest and the shortest
    time from begin to end, and the CPU time of its thread; ns.  ``takes``: how many messages it took, and ``sources``:
    from which callback these are, as far as stamps prove that.
    """

    symbol: str = ""
    kind: str = "unknown"
    about: str = ""
    period: int | None = None
    begins: array[int] = field(default_factory=lambda: array("q"))
    walls: tuple[int, int] = (0, 2**62)
    cpus: tuple[int, int] = (0, 2**62)
    threads: set[int] = field(default_factory=set)
    takes: int = 0
    sources: Counter[Key] = field(default_factory=Counter)


class Executors:
    """Threads and their callbacks, from the events of a trace.

    ``switches``: whether the kernel's scheduler was recorded; without it times are wall time.  ``waits``: threads whose
    executor waits for work as a wait set does.  ``nested``: callbacks that began inside another, or did not end.
    """

    def __init__(self, events: Iterable[RosEvent]) -> None:
        self.callbacks: dict[Key, RosCallback] = defaultdict(RosCallback)
        self.names: dict[int, str] = {}
        self.switches = self.nested = self.count = 0
        self.waits = set[int]()
        self._owners: dict[tuple[str, int, int], tuple[str, str, int | None]] = {}
        self._links: dict[tuple[str, int, int], int] = {}
        self._published: dict[int, Key | None] = {}
        self._taken: list[tuple[int, int, int]] = []
        self._here: dict[int, tuple[Key, int, int]] = {}
        self._on: dict[int, int] = {}
        self._spent: dict[int, int] = defaultdict(int)
        for event in events:
            self.count += 1
            if event.name == "sched_switch":
                self._switch(event)
            elif event.name.startswith("ros2:"):
                self._take(event.name.removeprefix("ros2:"), event)
        self._link()

    def _switch(self, event: RosEvent) -> None:
        self.switches += 1
        before, after = event.number("prev_tid"), event.number("next_tid")
        if (since := self._on.pop(before, None)) is not None:
            self._spent[before] += event.time - since
        self._on[after] = event.time

    def _cpu(self, thread: int, time: int) -> int:
        """The CPU time that a thread has used.  One that tells of an event executes."""
        return self._spent[thread] + time - self._on.setdefault(thread, time)

    def _take(self, name: str, event: RosEvent) -> None:
        process, thread, number = event.number("vpid"), event.number("vtid"), event.number
        self.names.setdefault(process, str(event.values.get("procname", "")))
        if name == "callback_start":
            self.nested += thread in self._here
            key = process, number("callback")
            self._here[thread] = key, event.time, self._cpu(thread, event.time)
            self.callbacks[key]  # known also if it never ends and was made before the recording
        elif name == "callback_end":
            self._end(process, thread, event)
        elif name == "rclcpp_callback_register":
            self.callbacks[process, number("callback")].symbol = str(event.values.get("symbol", ""))
        elif name == "rclcpp_executor_wait_for_work":
            self.waits.add(thread)
        elif name == "rcl_timer_init":
            self._owners["timer", process, number("timer_handle")] = "timer", "", number("period")
        elif name in ("rcl_subscription_init", "rcl_service_init"):
            kind = name.split("_")[1]
            topic = str(event.values.get("topic_name", event.values.get("service_name", "")))
            self._owners[kind, process, number(f"{kind}_handle")] = kind, topic, None
            if kind == "subscription":
                self._links["rmw", process, number("rmw_subscription_handle")] = number("subscription_handle")
        elif name == "rclcpp_subscription_init":
            self._links["rclcpp", process, number("subscription")] = number("subscription_handle")
        elif name.endswith("_callback_added"):
            kind = name.split("_")[1]
            handle = number("subscription" if kind == "subscription" else f"{kind}_handle")
            handle = self._links.get(("rclcpp", process, handle), handle)
            self._links["callback of " + kind, process, handle] = number("callback")
        elif name == "rmw_publish" and isinstance(stamp := event.values.get("timestamp"), int):
            here = self._here[thread][0] if thread in self._here else None
            self._published[stamp] = here if stamp not in self._published else None  # two have it: it proves nothing
        elif name == "rmw_take" and number("taken"):
            self._taken.append((process, number("rmw_subscription_handle"), number("source_timestamp")))

    def _end(self, process: int, thread: int, event: RosEvent) -> None:
        begun = self._here.pop(thread, None)
        if begun is None or begun[0] != (process, event.number("callback")):
            return  # it began before the recording
        one = self.callbacks[begun[0]]
        wall, cpu = event.time - begun[1], self._cpu(thread, event.time) - begun[2]
        one.begins.append(begun[1])
        one.walls = max(one.walls[0], wall), min(one.walls[1], wall)
        one.cpus = max(one.cpus[0], cpu), min(one.cpus[1], cpu)
        one.threads.add(thread)

    def _link(self) -> None:
        """Tells callbacks what releases them."""
        for (kind, process, handle), (word, about, period) in self._owners.items():
            if (callback := self._links.get((f"callback of {kind}", process, handle))) is not None:
                one = self.callbacks[process, callback]
                one.kind, one.about, one.period = word, about, period
        for process, handle, stamp in self._taken:
            owner = self._links.get(("rmw", process, handle))
            callback = None if owner is None else self._links.get(("callback of subscription", process, owner))
            if callback is not None:
                one = self.callbacks[process, callback]
                one.takes += 1
                if (source := self._published.get(stamp)) is not None:
                    one.sources[source] += 1

    def threads(self) -> dict[tuple[int, int], list[Key]]:
        """By process and thread, the callbacks that it served."""
        found: dict[tuple[int, int], list[Key]] = defaultdict(list)
        for key, one in self.callbacks.items():
            for thread in one.threads:
                found[key[0], thread].append(key)
        return {where: sorted(keys, key=lambda key: (CALLBACK_KINDS.index(self.callbacks[key].kind), key))
                for where, keys in sorted(found.items())}  # fmt: skip


def events(path: Path) -> Iterator[RosEvent]:
    """The events of a CTF trace, in order of time.  Raises FileError if it cannot be read, or if events were lost."""
    try:
        import bt2
    except ImportError:
        cure = "install Debian's python3-bt2, and use Debian's Python"
        raise FileError(f"{filename(path)}: is a folder; to read CTF traces, {cure}") from None
    try:
        for message in bt2.TraceCollectionMessageIterator(str(path)):
            if type(message) in (bt2._DiscardedEventsMessageConst, bt2._DiscardedPacketsMessageConst):
                raise FileError(f"{filename(path)}: the tracer lost events; record with larger buffers")
            if type(message) is bt2._EventMessageConst:
                yield _event(message.event, message.default_clock_snapshot.ns_from_origin)
    except (bt2._Error, RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[-1]
        raise FileError(f"{filename(path)}: cannot be read as a CTF trace: {visible(why)[:100]}") from None


def _event(event: Mapping[str, object], time: int) -> RosEvent:
    """An event as Python has it."""
    values: dict[str, object] = {}
    for part in ("common_context_field", "payload_field"):
        for key, value in (getattr(event, part) or {}).items():
            values[str(key)] = int(value) if isinstance(value, Integral) else str(value)
    return RosEvent(str(getattr(event, "name", "")), time, values)


class Names:
    """A name of a task for each callback, used once."""

    def __init__(self, found: Executors) -> None:
        self.of: dict[Key, str] = {}
        for key, one in found.callbacks.items():
            word = one.symbol.partition("(")[0].rpartition("::")[2] or one.kind
            name = task_name(word if word.isidentifier() else one.about.strip("/") or one.kind)
            self.of[key] = name if name not in self.of.values() else f"{name[:50]}-{len(self.of)}"


def report(path: Path, margin: Fraction, found: Executors) -> tuple[str, list[str]]:
    """The report on a trace, and the entries of its threads and callbacks."""
    names = Names(found)
    lines = [f"{filename(path)}: ros2_tracing; {found.count} events"]
    how = "CPU time" if found.switches else "wall time, for the scheduler was not recorded (ros2 trace -k sched_switch)"
    tasks = []
    for (process, thread), keys in found.threads().items():
        those = [found.callbacks[key] for key in keys]
        shared = [names.of[key] for key, one in zip(keys, those, strict=True) if len(one.threads) > 1]
        name = visible(found.names[process])
        lines += ["", f"process {process} ({name}), thread {thread}; times are {how}", render.table(
            ("callback", "kind", "of", "jobs", "longest ms", "shortest ms", "timer ms", "released by"), (
                (names.of[key], one.kind, one.about, str(len(one.begins)), *map(render.ms, _times(found, one)),
                 render.ms(one.period), _released(one, names))
                for key, one in zip(keys, those, strict=True)))]  # fmt: skip
        if shared:
            lines.append(f"NO TASKS: several threads serve {', '.join(shared)}: such an executor has no bound")
        elif found.nested:
            lines.append("NO TASKS: callbacks begin inside others, or events of their ends are missing")
        else:
            tasks.append("\n\n".join(_thread(found, process, thread, keys, names, margin)))
    return "\n".join(lines), tasks


def _times(found: Executors, one: RosCallback) -> tuple[int, int]:
    return one.cpus if found.switches else one.walls


def _released(one: RosCallback, names: Names) -> str:
    if one.kind != "subscription":
        return "-"
    proved = ", ".join(f"{names.of[key]} ({many} of {one.takes})" for key, many in one.sources.most_common())
    return proved or UNKNOWN_TIME


def _thread(
    found: Executors, process: int, thread: int, keys: Sequence[Key], names: Names, margin: Fraction
) -> Iterator[str]:
    """The [[thread]], and the [[task]]s that it serves."""
    called = task_name(f"{found.names[process]}-{thread}")
    unknown = f'"{UNKNOWN_TIME}"'
    order = '"ros2"  # its executor waits with a wait set' if thread in found.waits else f"{unknown}  # ros2, or fifo"
    several = sum(one == process for one, _ in found.threads()) > 1
    home = f'\nprocess = "{task_name(f"{found.names[process]}-{process}")}"  # several of its threads have callbacks'
    yield (f'[[thread]]  # process {process} ({visible(found.names[process])}), thread {thread}\nname = "{called}"\n'
           f"cpu = {unknown}\npriority = {unknown}\norder = {order}{home if several else ''}")  # fmt: skip
    for key in keys:
        one = found.callbacks[key]
        span = SPAN.format(format_time(enlarged(_times(found, one)[0], margin)))
        time, jobs = "CPU time" if found.switches else "wall time", len(one.begins)
        period = f'"{format_time(one.period)}"  # of its timer' if one.period else (
            f'"{UNKNOWN_TIME}"  # released by {_released(one, names)}; {visible(one.about)}')  # fmt: skip
        yield "\n".join([
            f"[[task]]  # {visible(one.symbol)[:100]}", f'name = "{names.of[key]}"', f'thread = "{called}"',
            f'rank = "{UNKNOWN_TIME}"  # its place in the executor: timers, subscriptions, services',
            f'kind = "{UNKNOWN_TIME if one.kind == "unknown" else one.kind}"', f"period = {period}",
            f'deadline = "{UNKNOWN_TIME}"',
            f"segments = [{{ cpu = {span} }}]  # {time}, GPU work included; {jobs} jobs and {percent(margin)}",
        ])  # fmt: skip
