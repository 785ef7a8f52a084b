# SPDX-License-Identifier: GPL-2.0
"""A chain as events show it: reactions and ages, from the releases, starts and ends of jobs.

No event says which value a job read, so links are derived as docs/readings/chains.md defines them.  A sampled link
leads from the producer's last job that had ended when the consumer's job started.  A triggered link leads from the
producer's job with the consumer's number, if programs pass numbers on.  If not, it leads from the last job that had
started when the consumer's job was released.  A program may tell its consumer before it says that its job is over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from analysis.model import Chain, Taskset
from analysis.traces.trace import Event, Kind, Trace

#: A job's first step, in the simulator's traces.
BEGINS = (Kind.CPU, Kind.UPDATE, Kind.BEGIN)
#: The most jobs of a task that are kept for consumers that have not looked for them yet.
MOST_KEPT = 10_000
#: The measures of a chain, by the file's keys.
MEASURE_KEYS = ("max_reaction", "max_age", "max_age_at_output")


@dataclass(slots=True)
class _Job:
    """A job; times in ns.

    ``number``: by the program's count.  ``before``: when the previous job started.  ``end``: None until it is over.
    ``since``: the earliest stimulus that no earlier job reflects; None: there is none.  ``origin``: the start of the
    first task's job that it reflects; None: the chain behind it is not whole.  Both hold if ``known``.
    """

    number: int | None
    release: int
    start: int
    before: int | None = None
    end: int | None = None
    since: int | None = None
    origin: int | None = None
    known: bool = False


@dataclass
class _Written:
    """The jobs of a task that its consumer has not read yet, in order, and the ``last`` job that it has read.

    ``start``: the latest job's start.
    """

    jobs: deque[_Job] = field(default_factory=deque)
    last: _Job | None = None
    start: int | None = None

    def add(self, number: int | None, release: int, start: int) -> _Job:
        """Adds a job that starts."""
        job = _Job(number, release, start, self.start)
        self.start = start
        self.jobs.append(job)
        if len(self.jobs) > MOST_KEPT:
            self._drop()
        return job

    def _drop(self) -> None:
        """Drops the oldest job; the next job takes over its stimulus."""
        gone = self.jobs.popleft()
        self.jobs[0].since = min((one.since for one in (gone, self.jobs[0]) if one.since is not None), default=None)
        self.last = gone

    def next(self) -> _Job | None:
        """The oldest unread job; a job that never ended, although a later one has, is left out."""
        while len(self.jobs) > 1 and self.jobs[0].end is None and self.jobs[1].end is not None:
            self.jobs.popleft()
        return self.jobs[0] if self.jobs else None


class ChainWatch:
    """Takes the events of a chain's tasks, and measures.

    ``longest``: the longest times so far by key, ns; a key is missing before its first time.  Outputs without a whole
    chain behind them do not count, and reactions without an end do not either.  A task that waits for other tasks than
    its producer may begin to work late.  Reactions to earlier stimuli then do not count: their longest gap is exceeded.
    """

    def __init__(self, chain: Chain, taskset: Taskset) -> None:
        self.chain = chain
        self._awaited = taskset.awaited(chain)
        self.longest: dict[str, int] = {}
        self._seen = {name: _Written() for name in chain.tasks}
        self._open: dict[tuple[str, int | None], _Job] = {}
        self._origin: int | None = None
        self._begun: dict[str, int] = {}

    def forget(self) -> None:
        """The chain begins anew, because jobs under way are unknown."""
        self._seen = {name: _Written() for name in self.chain.tasks}
        self._open.clear()
        self._origin = None

    def feed(self, event: Event, task: str) -> dict[str, int]:
        """Takes an event of a task, by its name in the file, and returns the times that end with it, by key, ns."""
        if task not in self._seen:
            return {}
        if event.kind is Kind.START and event.duration is not None:
            self._begin(task, event.job, event.time - event.duration, event.time)
        elif event.kind in BEGINS and event.job is not None:
            self._begin(task, event.job, None, event.time)
        elif event.kind is Kind.COMPLETE and event.duration is not None:
            return self._end(task, event.job, event.time - event.duration, event.time)
        return {}

    def age(self, now: int) -> int | None:
        """The age at ``now`` of the data behind the last output, ns; None: there is no output."""
        return None if self._origin is None else now - self._origin

    def _begin(self, task: str, number: int | None, release: int | None, start: int) -> None:
        if (task, number) in self._open:
            return
        if task in self._awaited:
            self._begun.setdefault(task, start)
        if len(self._open) > MOST_KEPT:  # and none of them has ended
            self.forget()
        self._open[task, number] = self._seen[task].add(number, start if release is None else release, start)

    def _end(self, task: str, number: int | None, release: int, end: int) -> dict[str, int]:
        self._begin(task, number, release, end)
        job = self._open.pop((task, number))
        job.release, job.end = release, end
        self._know(self.chain.tasks.index(task), job)
        if task != self.chain.tasks[-1]:
            return {}
        self._seen[task].jobs.clear()
        return self._output(job, end)

    def _all_began(self, by: int) -> bool:
        """Whether the tasks that wait for others had begun to work by ``by``."""
        return all(self._begun.get(name, by + 1) <= by for name in self._awaited)

    def _output(self, job: _Job, end: int) -> dict[str, int]:
        found = {}
        if job.since is not None and self._all_began(job.since):
            found["max_reaction"] = end - job.since
        if self._origin is not None:
            found["max_age"] = end - self._origin
        self._origin = job.origin
        if job.origin is not None:
            found["max_age_at_output"] = end - job.origin
        for key, value in found.items():
            self.longest[key] = max(value, self.longest.get(key, 0))
        return found

    def _know(self, place: int, job: _Job) -> None:
        """Finds the input of a job that has started."""
        if job.known:
            return
        job.known = True
        if not place:
            job.since, job.origin = job.release if self.chain.event else job.before, job.start
            return
        producer = self._seen[self.chain.tasks[place - 1]]
        triggered = self.chain.tasks[place] in self.chain.triggered
        stimuli = []
        while (one := producer.next()) and (_released(one, job) if triggered else _read(one, job)):
            self._know(place - 1, one)
            stimuli.append(one.since)
            producer.last = producer.jobs.popleft()
            if triggered and one.number == job.number is not None:
                break
        job.since = min((since for since in stimuli if since is not None), default=None)
        job.origin = producer.last.origin if producer.last else None


def _read(producer: _Job, job: _Job) -> bool:
    """Whether the producer's job was over when the consumer's started."""
    return producer.end is not None and producer.end <= job.start


def _released(producer: _Job, job: _Job) -> bool:
    """Whether the producer's job may have released the consumer's job or an earlier one."""
    return producer.start < job.release or (producer.end is not None and producer.end <= job.release)


@dataclass(frozen=True, slots=True)
class Observed:
    """The longest times seen, ns; None: no such time was seen."""

    max_reaction: int | None = None
    max_age: int | None = None
    max_age_at_output: int | None = None


def observed(chain: Chain, trace: Trace, taskset: Taskset) -> Observed:
    """The longest reaction and ages in a trace that names tasks as the file does, such as the simulator's."""
    watch = ChainWatch(chain, taskset)
    for event in trace.events:
        watch.feed(event, event.task)
    return Observed(**watch.longest)
