# SPDX-License-Identifier: GPL-2.0
"""A host's state, and a judge's counts, as metrics of Prometheus.

The sets of labels are bounded: GPUs, causes, kinds of findings, and tasks of a file.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from gpurt.enums import Cause, State
from gpurt.errors import GpurtError
from gpurt.text import visible
from pycontrol.link.control import ClientInfo, Control, GpuStatus
from pycontrol.observe.judge.finding import What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.distributions import host_distributions

#: A host that does not answer within this time is reported as down, seconds: Prometheus gives a scrape 10.
ANSWER_LIMIT_S = 4.0


class HostCollector:
    """A collector for prometheus_client: asks the host at each scrape.

    Args:
        connect: makes a connection to the host, with patience ANSWER_LIMIT_S; raises GpurtError if there is none.
    """

    def __init__(self, connect: Callable[[], Control]) -> None:
        self._connect = connect
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        found: list[Metric] = []
        if self._lock.acquire(timeout=ANSWER_LIMIT_S):  # other scrapes may wait for a hanging host
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


def _of_gpus(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily], name: str, text: str, values: Iterable[tuple[int, float]]
) -> Metric:
    family = kind(name, text, labels=["gpu"])
    for gpu, value in values:
        family.add_metric([str(gpu)], value)
    return family


def _unit_jobs(gpus: Iterable[GpuStatus]) -> Metric:
    """How jobs that own units of GPUs ended; each GPU reports the jobs of all."""
    family = CounterMetricFamily(
        "gpurt_unit_jobs", "jobs that own units of GPUs, by how they ended", labels=["outcome"]
    )
    for one in [*gpus][:1]:
        for outcome, count in (("in-time", one.jobs_done - one.jobs_late), ("late", one.jobs_late),
                               ("skipped", one.jobs_skipped), ("lost", one.jobs_lost)):  # fmt: skip
            family.add_metric([outcome], count)
    return family


def _states(gpus: Iterable[int], clients: Iterable[ClientInfo]) -> Metric:
    """The number of clients in each state; pending clients wait for the GPU."""
    counts = Counter((one.gpu, one.state) for one in clients)
    family = GaugeMetricFamily("gpurt_clients", "clients by what they do", labels=["gpu", "state"])
    for gpu in gpus:
        for state in State:
            family.add_metric([str(gpu), state.word], counts[gpu, state])
    return family


class JudgeCollector:
    """A judge's counts; ``running``: whether the judge still gets events."""

    def __init__(self, judge: Judge, running: Callable[[], bool]) -> None:
        self._judge, self._running = judge, running

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        judge = self._judge
        yield GaugeMetricFamily("gpurt_watching", "whether the host's events are read", float(self._running()))
        findings = CounterMetricFamily("gpurt_findings", "what was found wrong", labels=["kind", "sort", "task"])
        tasks = ["", *(one.name for one in judge.file.taskset)]
        found = {**{(what, task): 0 for what in What for task in tasks}, **judge.counts}
        for (what, task), count in found.items():  # also 0: only then Prometheus sees the first one as an increase
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
