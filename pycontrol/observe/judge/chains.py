# SPDX-License-Identifier: GPL-2.0
"""The judge's part for chains: compares reactions and ages with their bounds, and with the file's limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.chains.bounds import bounded_chains
from analysis.chains.observed import MEASURE_KEYS, ChainWatch
from analysis.model import Chain, Taskset
from analysis.taskset import TasksetFile
from analysis.traces.trace import Event
from gpurt.units import exact_ms
from pycontrol.observe.judge.finding import Log, What

#: A remark: how the judge knows the links.
DERIVED = (
    "no event says which value a job of a chain read: a sampled link takes the producer's last job that had ended when "
    "the consumer's started; a triggered one that of the same number, else the last that had started at its release"
)


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """A chain: by key, the longest observed time, its bound, and the file's limit, ns; None: there is none."""

    chain: str
    seen: Mapping[str, int]
    bounds: Mapping[str, int]
    limits: Mapping[str, int]

    @property
    def unseen(self) -> list[str]:
        """The keys that the file limits and that were never observed."""
        return [key for key in self.limits if key not in self.seen]

    @property
    def why_unseen(self) -> str:
        """Why nothing is known of a key that the file limits; empty if each was observed."""
        found = [f"chain {self.chain}: no {key} was seen, for no output with a whole chain behind it was"
                 for key in self.unseen]  # fmt: skip
        return next(iter(found), "")

    @property
    def exceeded(self) -> bool:
        """Whether an observation exceeded a bound or a limit."""
        return any(map(self.above, MEASURE_KEYS))

    @property
    def unsound(self) -> bool:
        """Whether an observation exceeded a bound, whatever the file allows."""
        return any(self.seen[key] > bound for key, bound in self.bounds.items() if key in self.seen)

    def above(self, key: str) -> bool:
        """Whether the observation exceeded the bound or the file's limit."""
        most = [limit[key] for limit in (self.bounds, self.limits) if key in limit]
        return key in self.seen and any(self.seen[key] > one for one in most)


def _bounds(chain: Chain, taskset: Taskset, responses: Mapping[str, int]) -> dict[str, int]:
    """The chain's bounds by key, ns, from its tasks' bounds by name; none if a task has no bound."""
    return {key: one.bound for key, one in bounded_chains(chain, taskset, responses).latencies.items()}


def simulated_chains(
    chain: Chain, longest: Sequence[int], taskset: Taskset, responses: Mapping[str, int]
) -> ChainCheck:
    """A chain's longest times in simulated runs (0: none), with its bounds and the file's limits.

    ``responses``: the bounds of tasks by name, ns.
    """
    seen = {key: time for key, time in zip(MEASURE_KEYS, longest, strict=True) if time}
    return ChainCheck(chain.name, seen, _bounds(chain, taskset, responses), chain.limits)


class _Judged:
    """A chain, its bounds and limits; ``told``: those that the age of the last output has already exceeded."""

    def __init__(self, chain: Chain, taskset: Taskset, bounds: Mapping[str, int]) -> None:
        self.watch = ChainWatch(chain, taskset)
        self.bounds = bounds
        self.limits = chain.limits
        self.told: set[str] = set()

    @property
    def chain(self) -> Chain:
        return self.watch.chain

    def exceeded(self, key: str, value: int) -> list[tuple[str, int]]:
        """The bound or limit that the value exceeds: in words, and its value, ns."""
        whats = (("its bound is", self.bounds), ("the file allows", self.limits))
        return [(what, most[key]) for what, most in whats if key in most and value > most[key]]


class JudgedChains:
    """Judges chains from the events of tasks, in order of arrival.  ``bounds``: tasks' bounds by name, ns."""

    def __init__(self, file: TasksetFile, bounds: Mapping[str, int], log: Log) -> None:
        self._log, taskset = log, file.taskset
        self._all = [_Judged(chain, taskset, _bounds(chain, taskset, bounds)) for chain in taskset.chains]

    def __bool__(self) -> bool:
        return bool(self._all)

    def feed(self, event: Event, task: str) -> None:
        """Takes an event of a task, which has this name in the file."""
        for one in self._all:
            told = one.told
            for key, value in one.watch.feed(event, task).items():
                if key == "max_age":
                    one.told = set()
                for what, most in one.exceeded(key, value):
                    if key != "max_age" or what not in told:
                        self._add(event.time, one.chain, key, what, value, most)

    def advance(self, now: int) -> None:
        """All events before ``now``, ns, have come: the last output gets older if no other output has replaced it."""
        for one, what, age, most in list(self._aged(now)):
            one.told.add(what)
            self._add(now, one.chain, "max_age", what, age, most)

    def suspects(self, now: int) -> bool:
        """Whether ``advance(now)`` would report the age of an output."""
        return any(True for _ in self._aged(now))

    def _aged(self, now: int) -> Iterator[tuple[_Judged, str, int, int]]:
        """Ages of last outputs that no event has reported: chain, limit in words, age, and limit, ns."""
        for one in self._all:
            if (age := one.watch.age(now)) is not None:
                for what, most in one.exceeded("max_age", age):
                    if what not in one.told:
                        yield one, what, age, most

    def forget(self, task: str = "") -> None:
        """Starts the chains of this task, or all chains, anew."""
        for one in self._all:
            if not task or task in one.chain.tasks:
                one.watch.forget()
                one.told.clear()

    def lines(self) -> Sequence[ChainCheck]:
        """The observations of each chain, with its bounds and limits."""
        return [ChainCheck(one.chain.name, dict(one.watch.longest), one.bounds, one.limits) for one in self._all]

    def _add(self, time: int, chain: Chain, key: str, what: str, value: int, most: int) -> None:
        text = f"chain {chain.name}: {key} was {exact_ms(value)}, and {what} {exact_ms(most)}"
        self._log.add(time, What.CHAIN, "", text)
