# SPDX-License-Identifier: GPL-2.0
"""A host's state, and what a judge counts, as metrics of Prometheus.

The sets of labels are bounded: GPUs, causes, kinds of findings, tasks of a file, and a limited number of client names.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from gpurt.enums import Cause, State
from gpurt.errors import GpurtError
from gpurt.text import visible
from pycontrol.link.control import ClientInfo, Control, GpuStatus
from pycontrol.link.membership import Home, group_of
from pycontrol.machine import procs
from pycontrol.observe.judge.finding import What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.distributions import host_distributions

#: The name of clients that have no name of their own here.
OTHER_NAME = "other"
#: How long a host may take for an answer before it is told to be down, seconds: Prometheus gives a scrape 10.
ANSWER_LIMIT_S = 4.0
#: The values of clients that are added up, by the metric's name, and their explanations.
SUMS: dict[str, tuple[Callable[[ClientInfo], float], str]] = {
    "gpurt_client_segments": (lambda one: one.segments, "GPU segments that clients began"),
    "gpurt_client_preemptions": (lambda one: one.preemptions, "how often clients were preempted"),
    "gpurt_client_owned_seconds": (lambda one: one.held_ns / 1e9, "how long clients owned the GPU"),
    "gpurt_client_overruns": (lambda one: one.overruns, "how often clients used their budget up"),
    "gpurt_client_copies": (lambda one: one.copies, "how often clients were given the bus"),
}


class Naming(str, Enum):
    """The processes whose names are told to every reader of the metrics."""

    NONE = "none"
    OWN = "own"
    ALL = "all"


@dataclass
class _Known:
    """A client: its name, its last state, and its counts before it had that name."""

    name: str
    last: ClientInfo
    before: dict[str, float]

    def values(self) -> dict[str, float]:
        """The counts of the client in all, by metric."""
        return {metric: value(self.last) for metric, (value, _) in SUMS.items()}

    def may_be(self, one: ClientInfo) -> bool:
        """Whether ``one`` is this client.  A restarted host reuses the numbers, also for the same process, but then the
        client's counts are smaller.  The time that it owned the GPU says nothing, see `update`.
        """
        before, now = ((each.segments, each.preemptions, each.overruns, each.copies) for each in (self.last, one))
        return self.last.pid == one.pid and all(was <= count for was, count in zip(before, now, strict=True))

    def update(self, one: ClientInfo) -> None:
        """Takes what is known now.

        A host adds the time since its last decision for the client that owns the GPU.  The host takes that time back if
        the GPU was suspended or reset meanwhile.  The module does not stop its scheduler to read the time (held() in
        calls/netlink_get.c).
        """
        self.last = replace(one, held_ns=max(one.held_ns, self.last.held_ns))

    def leave(self, totals: dict[tuple[str, int, str], float]) -> None:
        """Adds what was counted under its name."""
        for metric, value in self.values().items():
            key = metric, self.last.gpu, self.name
            totals[key] = totals.get(key, 0.0) + value - self.before.get(metric, 0.0)


class HostCollector:
    """A collector of prometheus_client: asks the host at each scrape.

    Args:
        connect: makes a connection to the host, with patience ANSWER_LIMIT_S; raises GpurtError if there is none.
        naming: whose processes are named; others are OTHER_NAME, unless `task_of` knows their task.
        most: how many different names of processes there are at most; tasks have theirs besides.
        task_of: the task of a client's process; None: it is none's, or no file is known.
    """

    def __init__(
        self, connect: Callable[[], Control], naming: Naming, most: int,
        task_of: Callable[[ClientInfo], str | None] = lambda _client: None,
    ) -> None:  # fmt: skip
        self._connect, self._naming, self._most, self._task_of = connect, naming, most, task_of
        self._lock = threading.Lock()
        self._names: dict[str, None] = {}
        self._live: dict[tuple[int, int], _Known] = {}
        self._past: dict[tuple[str, int, str], float] = {}

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        found: list[Metric] = []
        if self._lock.acquire(timeout=ANSWER_LIMIT_S):  # other scrapes may wait for a host that hangs
            try:
                found = list(self._of_host())
            except (GpurtError, OSError):
                pass
            finally:
                self._lock.release()
        up = GaugeMetricFamily("gpurt_host_up", "whether the host answers")
        up.add_metric([], float(bool(found)))
        yield up
        yield from found

    def _of_host(self) -> Iterator[Metric]:
        with self._connect() as control:
            gpus, clients = control.status(), control.clients()
            latencies, buses = control.latency(), control.buses()
        info = InfoMetricFamily("gpurt_gpu", "a GPU of the host", labels=["gpu"])
        for gpu in gpus:
            info.add_metric([str(gpu.gpu)], {"driver": visible(gpu.driver), "device": visible(gpu.device),
                                             "tier": gpu.tier.word,
                                             "policy": gpu.unit_policy or gpu.policy.word})  # fmt: skip
        yield info
        yield _of_gpus(CounterMetricFamily, "gpurt_failed_updates", "runlist updates that failed",
                       ((one.gpu, one.faults) for one in gpus))  # fmt: skip
        yield _of_gpus(CounterMetricFamily, "gpurt_refused_agents", "agents refused, whose processes are unmanaged",
                       ((one.gpu, one.refused) for one in gpus))  # fmt: skip
        yield _of_gpus(GaugeMetricFamily, "gpurt_late_agents", "processes that have not left the GPU in time",
                       ((one.gpu, one.late) for one in gpus))  # fmt: skip
        yield _of_gpus(CounterMetricFamily, "gpurt_stuck_owners", "how often an owner slept while others waited",
                       ((one.gpu, one.stuck_count) for one in gpus))  # fmt: skip
        yield _of_gpus(GaugeMetricFamily, "gpurt_stuck_seconds", "for how long the owner has slept while others wait",
                       ((one.gpu, one.stuck_ns / 1e9) for one in gpus))  # fmt: skip
        yield _unit_jobs(gpus)
        yield _of_gpus(GaugeMetricFamily, "gpurt_overdue_unit_jobs", "jobs that hold units for longer than planned",
                       ((one.gpu, one.jobs_overdue) for one in gpus))  # fmt: skip
        updates = CounterMetricFamily("gpurt_runlist_updates", "runlist updates", labels=["gpu", "cause"])
        causes = [(one, one.cause.word) for one in latencies if one.cause is not Cause.RAISE]
        for one, cause in causes:
            updates.add_metric([str(one.gpu), cause], one.count)
        yield updates
        yield host_distributions("gpurt_runlist_update_seconds", "how long runlist updates took", "cause", causes)
        raises = [(one, "") for one in latencies if one.cause is Cause.RAISE]
        yield host_distributions("gpurt_raise_seconds", "how long the host took to raise or lower threads", "", raises)
        waits = [(one, "") for one in buses]
        yield host_distributions("gpurt_bus_wait_seconds", "how long copies waited for the bus", "", waits)
        yield _states([one.gpu for one in gpus], clients)
        yield self._members(clients)
        yield from self._sums(clients)

    def _sums(self, clients: Iterable[ClientInfo]) -> Iterator[Metric]:
        """The work of clients that have gone still counts, under the name that they had: counters never go back."""
        found = {(one.gpu, one.client): one for one in clients}
        for key in self._live.keys() - found.keys():
            self._live.pop(key).leave(self._past)
        for key, one in found.items():
            known = self._live.get(key)
            if known and not known.may_be(one):
                self._live.pop(key).leave(self._past)
                known = None
            name = self._name(one, known)
            if known is None:
                self._live[key] = known = _Known(name, one, {})
            elif known.name != name:
                known.leave(self._past)
                self._live[key] = known = _Known(name, known.last, known.values())
            known.update(one)
        totals = dict(self._past)
        for known in self._live.values():
            known.leave(totals)
        for metric, (_, text) in SUMS.items():
            family = CounterMetricFamily(metric, text, labels=["gpu", "client"])
            for (which, gpu, name), value in sorted(totals.items()):
                if which == metric:
                    family.add_metric([str(gpu), name], value)
            yield family

    def _members(self, clients: Iterable[ClientInfo]) -> Metric:
        """How many members groups have, by their users and names as far as those of their processes may be told."""
        told = Counter((one.gpu, *self._group_of(one)) for one in clients if one.group)
        labels = ["gpu", "group", "user"]
        family = GaugeMetricFamily("gpurt_group_members", "clients that own the GPU together", labels=labels)
        for (gpu, group, user), count in sorted(told.items()):
            family.add_metric([str(gpu), visible(group), user], count)
        return family

    def _group_of(self, one: ClientInfo) -> Home:
        return group_of(one.group, one.pid) if self._may_name(one) else (OTHER_NAME, "")

    def _name(self, one: ClientInfo, known: _Known | None) -> str:
        """A client keeps its name; a client without one gets it as soon as it reports a job of a task."""
        if known and known.name != OTHER_NAME:
            return known.name
        if task := self._task_of(one):
            return task
        if not one.comm or not self._may_name(one):
            return OTHER_NAME
        name = visible(one.comm)
        if name not in self._names and len(self._names) >= self._most:
            return OTHER_NAME
        self._names[name] = None
        return name

    def _may_name(self, one: ClientInfo) -> bool:
        if self._naming is Naming.OWN:
            return procs.user(one.pid) == str(os.geteuid())
        return self._naming is Naming.ALL


def _of_gpus(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily], name: str, text: str, values: Iterable[tuple[int, float]]
) -> Metric:
    family = kind(name, text, labels=["gpu"])
    for gpu, value in values:
        family.add_metric([str(gpu)], value)
    return family


def _unit_jobs(gpus: Iterable[GpuStatus]) -> Metric:
    """How jobs that own units of GPUs ended; each GPU tells those of all."""
    family = CounterMetricFamily(
        "gpurt_unit_jobs", "jobs that own units of GPUs, by how they ended", labels=["outcome"]
    )
    for one in [*gpus][:1]:
        for outcome, count in (("in-time", one.jobs_done - one.jobs_late), ("late", one.jobs_late),
                               ("skipped", one.jobs_skipped), ("lost", one.jobs_lost)):  # fmt: skip
            family.add_metric([outcome], count)
    return family


def _states(gpus: Iterable[int], clients: Iterable[ClientInfo]) -> Metric:
    """How many clients are in each state; pending ones wait for the GPU."""
    counts = Counter((one.gpu, one.state) for one in clients)
    family = GaugeMetricFamily("gpurt_clients", "clients by what they do", labels=["gpu", "state"])
    for gpu in gpus:
        for state in State:
            family.add_metric([str(gpu), state.word], counts[gpu, state])
    return family


class JudgeCollector:
    """The counts of a judge; ``running``: whether the judge still gets events."""

    def __init__(self, judge: Judge, running: Callable[[], bool]) -> None:
        self._judge, self._running = judge, running

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        judge = self._judge
        yield GaugeMetricFamily("gpurt_watching", "whether the host's events are read", float(self._running()))
        findings = CounterMetricFamily("gpurt_findings", "what was found wrong", labels=["kind", "sort", "task"])
        tasks = ["", *(one.name for one in judge.file.taskset)]
        found = {**{(what, task): 0 for what in What for task in tasks}, **judge.counts}
        for (what, task), count in found.items():  # also none: a first one is an increase only then
            findings.add_metric([what.value, what.sort.value, task], count)
        yield findings
        jobs = CounterMetricFamily("gpurt_jobs", "jobs that ended", labels=["task"])
        misses = CounterMetricFamily("gpurt_deadline_misses", "jobs not done by their deadline", labels=["task"])
        bounds = GaugeMetricFamily("gpurt_bound_seconds", "bounds of response times", labels=["task"])
        deadlines = GaugeMetricFamily("gpurt_deadline_seconds", "relative deadlines", labels=["task"])
        mort = GaugeMetricFamily("gpurt_longest_response_seconds", "longest response time of a job", labels=["task"])
        longest = GaugeMetricFamily("gpurt_longest_segment_seconds", "longest ownership in a segment", labels=["task"])
        waited = CounterMetricFamily("gpurt_waiting_seconds", "how long segments waited for the GPU", labels=["task"])
        owned = CounterMetricFamily("gpurt_owned_seconds", "how long segments owned the GPU", labels=["task"])
        for one in judge.file.taskset:
            seen = judge.tally(one.name)
            jobs.add_metric([one.name], seen.jobs)
            misses.add_metric([one.name], seen.misses)
            if seen.mort is not None:
                mort.add_metric([one.name], seen.mort / 1e9)
            longest.add_metric([one.name], seen.longest / 1e9)
            waited.add_metric([one.name], seen.waited / 1e9)
            owned.add_metric([one.name], seen.owned / 1e9)
            deadlines.add_metric([one.name], one.deadline / 1e9)
            if one.name in judge.bounds:
                bounds.add_metric([one.name], judge.bounds[one.name] / 1e9)
        yield from (jobs, misses, mort, longest, waited, owned, deadlines, bounds)
