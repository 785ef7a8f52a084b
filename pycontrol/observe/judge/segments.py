# SPDX-License-Identifier: GPL-2.0
"""The judge's part that follows tasks through their GPU segments, and reports what the file rules out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from analysis.model import PolicyFacts, Task
from analysis.traces.trace import Event
from gpurt.text import visible
from pycontrol.observe.judge.finding import Log, What
from pycontrol.observe.judge.limits import Limits
from pycontrol.observe.judge.seen import MOST_OPEN, Held, OpenJob, SeenTask


class Segments:
    """Takes the events of segments in order of arrival, each with its task's state."""

    def __init__(
        self, policy: PolicyFacts, limits: Limits, log: Log, levels: Mapping[str, int], homes: Mapping[str, str]
    ) -> None:  # fmt: skip
        """``levels``: the GPU priorities of segments, by task.

        ``homes``: the groups of workers and of tasks with workers: their bounds are for members of one group.
        """
        self._policy, self._limits, self._log, self._levels, self._homes = policy, limits, log, levels, homes
        self._users: dict[str, str] = {}  # the users of those groups: of the first member seen

    def begin(self, seen: SeenTask, event: Event, priority: int | None) -> None:
        """A segment begins; ``priority``: its client's GPU priority if known."""
        self._check_priority(seen.task, event, priority)
        self._check_home(seen.task, event)
        job = seen.current()
        self._check_single(seen, event, job)
        if not seen.told:  # else only its next job shows that the previous job has ended
            seen.lost = False
        if len(seen.held) >= MOST_OPEN:  # each of these was reported
            del seen.held[next(iter(seen.held))]
        place = 0
        if job:
            place, job.begun = job.begun, job.begun + 1
        seen.held[event.task] = Held(job, place if job else -1, event.time, event.time)

    def grant(self, seen: SeenTask, event: Event) -> None:
        """The segment's client gets the GPU, for the first time or again."""
        if held := seen.held.get(seen.holder(event.task)):
            if held.asked is not None:
                seen.tally.waited += max(0, event.time - held.asked)
            held.asked, held.since = None, event.time

    def preempt(self, seen: SeenTask, event: Event) -> None:
        """The segment's client loses the GPU."""
        if (held := seen.held.get(seen.holder(event.task))) and held.since is not None:
            held.total, held.since = held.total + event.time - held.since, None
            held.asked = event.time
            held.updates += 1

    def end(self, seen: SeenTask, event: Event) -> None:
        """A segment ends."""
        seen.tally.segments += 1
        if held := self.drop(seen, event):
            self._check_length(seen, held, event.time)

    def drop(self, seen: SeenTask, event: Event) -> Held | None:
        """Removes and returns the segment of the event's client, if there is one."""
        return seen.held.pop(seen.holder(event.task), None)

    def check_held(self, tasks: Iterable[SeenTask], now: int) -> None:
        """Checks the segments of these tasks that have not ended by ``now``: one may have taken too long already."""
        for seen in tasks:
            for held in seen.held.values():
                self._judge_length(seen.task, held, held.owned(now), now)

    def _check_priority(self, task: Task, event: Event, priority: int | None) -> None:
        if priority is None or not self._policy.ranked:
            return
        wanted = self._levels[task.name]
        if priority != wanted:
            text = f"its segment has GPU priority {priority}, the file says {wanted}"
            self._log.add(event.time, What.PRIORITY, task.name, text)

    def _check_home(self, task: Task, event: Event) -> None:
        """Checks the group: a host's event names it; a simulator's event, which names no GPU, does not."""
        home = self._homes.get(task.name)
        if not home or event.gpu is None:
            return
        user = event.user or ""
        if event.group != home:
            there = f"group {visible(event.group)}" if event.group else "no group"
        elif user and user != self._users.setdefault(home, user):  # the user of a process that has ended is not known
            there = f"user {visible(user)}'s group of that name, as others are not"
        else:
            return
        text = f"its segment is one of {there}, the file says group {home}, and its bound is for that"
        self._log.add(event.time, What.PRIORITY, task.name, text)

    def _check_single(self, seen: SeenTask, event: Event, job: OpenJob | None) -> None:
        """Checks that segments are inside jobs, if the task reports jobs, and that they come one after the other."""
        task, text = seen.task, ""
        if not task.eta:
            text = "began a GPU segment, the file declares none"
        elif seen.held:
            text = "began a GPU segment inside another one of it: several clients do its jobs, and the bound is for one"
        elif seen.tells and job is None:
            text = "began a GPU segment outside its jobs, which no bound has"
        if text and not task.best_effort:
            self._log.add(event.time, What.SEGMENT, task.name, text)

    def _check_length(self, seen: SeenTask, held: Held, now: int) -> None:
        owned = held.owned(now)
        seen.tally.longest = max(seen.tally.longest, owned)
        seen.tally.owned += owned
        if held.job:
            held.job.owned += owned
            held.job.inside += max(0, now - held.begin)
        self._judge_length(seen.task, held, owned, now)

    def _judge_length(self, task: Task, held: Held, owned: int, now: int) -> None:
        """Reports a client that owned the GPU longer than its segment, updates, and delays by other tasks can take."""
        if held.told:
            return
        if (limits := self._limits.segment(task, held, owned)) and owned > limits[1]:
            text = f"a GPU segment of {limits[0] / 1e6:.3f} ms at most owned the GPU for longer than it can"
            self._log.add(now, What.SEGMENT, task.name, text, held.job.number if held.job else None, owned, limits[1])
            held.told = True
