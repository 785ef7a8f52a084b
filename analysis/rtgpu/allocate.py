# SPDX-License-Identifier: GPL-2.0
"""The number of units of each task (RTGPU section 5.5; docs/readings/rtgpu.md, "Least allocation").

``least_units`` gives each task, by descending priority, the fewest units.  If an allocation exists, this finds one,
provided that a task's units never help others (``Method.exact_least``) and no kernel's bounds grow with units.
``search`` is exact for every method: depth first, in the order of priorities.
An allocation is a tuple of units by task, most urgent first; 0 for a task without kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import comb
from typing import TypeAlias

from analysis.rta.result import Bound, Failure, Reason, Result
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.method import Response

Allocation: TypeAlias = tuple[int, ...]

#: Beyond this number of allocations, ``most_slack`` improves one task at a time instead of a search.
MAX_ALLOCATIONS_SEARCHED = 500
#: The most responses that one search computes, which take up to half a minute.
MOST_TRIED = 20_000


class Endless(ValueError):
    """A search for an allocation gave up."""

    def __init__(self) -> None:
        super().__init__("the search for an allocation did not end: give each task with a kernel a partition")


def find_allocation(system: System, units: Units) -> Allocation | None:
    """An allocation under which every task has a bound, by the cheapest exact method; None if there is none."""
    return least_units(system, units) if exact_least(system, units) else next(search(system, units), None)


def exact_least(system: System, units: Units) -> bool:
    """Whether ``least_units`` finds an allocation whenever one exists."""
    return system.method.exact_least and not system.ties and system.monotone(units.total)


def run_allocation(system: System, units: Units) -> Result:
    """The verdicts on the result of ``find_allocation``; if it finds none, failures that name the first stuck task."""
    reason = system.no_search()
    if reason is not None:
        return failed(system, Reason.GPU_ORDER, reason)
    try:
        found = find_allocation(system, units)
    except Endless as error:
        return failed(system, Reason.NO_UNITS, str(error))
    if found is not None:
        return on_units(system, named_allocation(system, found))
    return _stuck(system, units)


def _stuck(system: System, units: Units) -> Result:
    """Verdicts that show the most urgent task that has no bound on any number of the units left."""
    needed = _reserve(system, 0, units)
    if needed > units.total:
        text = f"{sum(system.users)} tasks have kernels and need {needed} units of the GPU, and there are {units.total}"
        return failed(system, Reason.NO_UNITS, text)
    given = _down(system, units)
    index = len(given)
    if index == len(system.tasks):
        return _shown(system, units, given, index - 1)
    most = _options(system, index, units, units.total - sum(given))[-1]
    return _shown(system, units, [*given, most], index)


def _shown(system: System, units: Units, given: Sequence[int], index: int) -> Result:
    """Verdicts in which the tasks after ``given`` have the fewest units."""
    task, smallest = system.tasks[index], _smallest(units)
    rest = [smallest if user else 0 for user in system.users[len(given) :]]
    result = on_units(system, named_allocation(system, [*given, *rest]))
    if result.schedulable or isinstance(result.verdicts[task.name], Bound):
        text = f"no allocation of {units.total} units lets every task meet its deadline"
        return failed(system, Reason.NO_UNITS, text)
    assert isinstance(result.verdicts[task.name], Failure)
    return result


def least_units(system: System, units: Units) -> Allocation | None:
    """The fewest units that each task needs, by descending priority (readings: least allocation); None if one fails."""
    if _reserve(system, 0, units) > units.total:
        return None
    given = _down(system, units)
    return tuple(given) if len(given) == len(system.tasks) else None


def _down(system: System, units: Units) -> list[int]:
    """The units of each task, down to the first task that has no bound on any number of the remaining units.

    A task's own units never make its response longer, so bisection finds the least number.
    """
    given: list[int] = []
    known: dict[str, int] = {}
    for index, task in enumerate(system.tasks):
        options = _options(system, index, units, units.total - sum(given))
        tried: dict[int, Response] = {}

        def passes_with(at: int) -> bool:
            tried[at] = _response(system, index, [*given, options[at]], known, units)  # noqa: B023
            return tried[at].solved  # noqa: B023

        least_at = _first(passes_with, len(options))
        if least_at is None:
            break
        given.append(options[least_at])
        known[task.name] = tried[least_at].value
    return given


def _first(passes_at: Callable[[int], bool], count: int) -> int | None:
    """The first of ``count`` places that passes, if all later ones pass; None: none.  Most tasks need few units."""
    if passes_at(0):
        return 0
    if count == 1 or not passes_at(count - 1):
        return None
    low, high = 0, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes_at(middle) else (middle, high)
    return high


def search(system: System, units: Units, floor: Sequence[int] = ()) -> Iterator[Allocation]:
    """All allocations under which every task has a bound, in lexicographic order.

    A branch ends at the first task without a bound, unless tasks of equal priority delay each other.  ``floor``: the
    least that each task gets, if known.  Raises Endless after MOST_TRIED responses.
    """
    if _reserve(system, 0, units) > units.total:  # a task has no response if a later one has kernels and no units
        return
    tried = 0

    def below(given: tuple[int, ...], known: Mapping[str, int], left: int) -> Iterator[Allocation]:
        nonlocal tried
        index = len(given)
        if index == len(system.tasks):
            if not (system.ties or system.method.looks_down) or allocation_passes(system, given):
                yield given
            return
        task = system.tasks[index]
        for option in _options(system, index, units, left):
            if floor and option < floor[index]:
                continue
            tried += 1
            if tried > MOST_TRIED:
                raise Endless
            response = _response(system, index, (*given, option), known, units)
            if response.solved or system.ties:
                yield from below((*given, option), {**known, task.name: response.value}, left - option)

    yield from below((), {}, units.total)


def most_slack(system: System, units: Units, found: Allocation | None = None) -> Allocation | None:
    """The allocation with the largest least slack, (D - R) / D; of several, one with the fewest units.

    ``found``: the result of ``find_allocation``, if known. The result is exact if at most MAX_ALLOCATIONS_SEARCHED
    allocations exist; they are searched depth first, least first. Otherwise the task with the least slack gets units,
    one step at a time, while that enlarges the least slack.
    """
    found = found or find_allocation(system, units)
    if found is None:
        return None
    floor = found if exact_least(system, units) else ()
    users = sum(system.users)
    spare = (units.total - (sum(floor) if floor else _reserve(system, 0, units))) // units.step
    if comb(spare + users, users) <= MAX_ALLOCATIONS_SEARCHED:
        return max(search(system, units, floor), key=lambda given: (slack(system, given), -sum(given)))
    best, merit = found, slack(system, found)
    while sum(best) + units.step <= units.total:
        result = on_units(system, named_allocation(system, best))
        tightest = min(range(len(best)), key=lambda i: _share(result, system.tasks[i].name))
        if not system.users[tightest]:
            break
        trial = tuple(g + units.step * (i == tightest) for i, g in enumerate(best))
        if not allocation_passes(system, trial) or slack(system, trial) <= merit:
            break
        best, merit = trial, slack(system, trial)
    return best


def slack(system: System, given: Sequence[int]) -> Fraction:
    """The least (D - R) / D of an allocation; -1 if a task has no bound."""
    result = on_units(system, named_allocation(system, given))
    return min((_share(result, task.name) for task in system.tasks), default=Fraction(1))


def _share(result: Result, name: str) -> Fraction:
    verdict = result.verdicts[name]
    return Fraction(verdict.slack, verdict.deadline) if isinstance(verdict, Bound) else Fraction(-1)


def allocation_passes(system: System, given: Sequence[int]) -> bool:
    """Whether every task has a bound under this allocation."""
    return on_units(system, named_allocation(system, given)).schedulable


def of(system: System, result: Result) -> Allocation:
    """The allocation in a result."""
    return tuple((result.units or {}).get(task.name, 0) for task in system.tasks)


def named_allocation(system: System, given: Sequence[int]) -> dict[str, int]:
    """The allocation by task name."""
    return {task.name: count for task, count in zip(system.tasks, given, strict=True)}


def _smallest(units: Units) -> int:
    return units.choices(units.total).start


def _reserve(system: System, index: int, units: Units) -> int:
    """The least number of units that the tasks from ``index`` on need."""
    return sum(system.users[index:]) * _smallest(units)


def _options(system: System, index: int, units: Units, left: int) -> Sequence[int]:
    if not system.users[index]:
        return (0,)
    return units.choices(left - _reserve(system, index + 1, units))


def _response(
    system: System, index: int, given: Sequence[int], known: Mapping[str, int], units: Units
) -> Response:  # fmt: skip
    """The response of a task if the tasks after it have the numbers of units with which they delay it least.

    Under most methods these tasks do not matter.  Where they do, as users of the one resource, more units make their
    requests shorter; so this is a lower bound.
    """
    later = [units.total if user else 0 for user in system.users[len(given) :]]
    return system.respond(index, [*given, *later], known)
