# SPDX-License-Identifier: GPL-2.0
"""The judge's part that reports clients that use the GPU and are no task of the file."""

from __future__ import annotations

from collections.abc import Collection

from analysis.model import PolicyFacts
from analysis.traces.trace import Event
from gpurt.text import visible
from pycontrol.observe.judge.finding import Log, What

#: The most names that are reported one by one; all others share a report.
MAX_STRANGERS = 1000


class Strangers:
    """Reports clients that use the GPU although no task has their name.

    A client is no stranger if its process reports jobs of the file's tasks: its segment began before that report.
    ``tellers``: the processes that are known to report such jobs.
    """

    def __init__(self, policy: PolicyFacts, log: Log, tellers: Collection[str] = ()) -> None:
        self.told: set[str] = set()
        self._policy, self._log, self._tellers = policy, log, set(tellers)
        self._there: Collection[str] = ()
        self._until = 0
        self._unsaid: dict[str, tuple[Event, int | None]] = {}

    def there(self, names: Collection[str], until: int) -> None:
        """These clients existed before the first event, maybe inside a job.  By ``until`` it is known what they are."""
        self._there, self._until = names, until

    def tells(self, name: str) -> None:
        """A process reports a job of one of the tasks."""
        if name in self._there:
            self._tellers.add(name)
            self._unsaid.pop(name, None)

    def expire(self, now: int) -> None:
        """Reports the clients that have reported no job by ``until``: they are no tasks."""
        if self._there and now > self._until:
            self._there = ()
            for event, priority in self._unsaid.values():
                self.uses(event, priority)
            self._unsaid.clear()

    def rest(self) -> None:
        """Reports the rest: no more events come."""
        for name, (event, _) in self._unsaid.items():
            text = f"{visible(name)} uses the GPU, and no job of it was seen: it may be no task of the file"
            self._log.add(event.time, What.UNDECLARED, "", text)
        self._unsaid.clear()

    def uses(self, event: Event, priority: int | None) -> None:
        """Reports a client, but not a best-effort one if real-time clients have the GPU alone and hold no lock."""
        if priority == 0 and self._policy.ranked and not self._policy.locks:
            return
        if event.task in self._tellers or event.task in self.told or len(self.told) >= MAX_STRANGERS:
            return
        if event.task in self._there:
            self._unsaid.setdefault(event.task, (event, priority))
            return
        self.told.add(event.task)
        if len(self.told) == MAX_STRANGERS:
            text = f"{MAX_STRANGERS} clients are no task of the file; more are not named"
        else:
            name = visible(event.task) or "a process that this user may not know"
            how = f" at GPU priority {priority}" if priority else ""
            text = f"{name} uses the GPU{how}, and no task of the file is it"
        self._log.add(event.time, What.UNDECLARED, "", text)
