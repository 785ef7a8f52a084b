# SPDX-License-Identifier: GPL-2.0
"""The choice of a policy and of each task's waiting mode that makes a taskset schedulable with the most slack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import cycle, product
from typing import TypeAlias

from analysis import rta
from analysis.answers import compiled, registry
from analysis.answers.verdict import beyond, lacks_theta, proved, stated, thread_moves
from analysis.model import Taskset, Waiting
from analysis.model.conflicts import under
from analysis.rta import Bound, Result, Test
from gpurt.enums import Policy

#: How good a way is (`Choice.merit`).
Merit: TypeAlias = tuple[bool, list[Fraction]]
#: Each task's waiting mode by its name.
Modes: TypeAlias = Mapping[str, Waiting]
#: The policies that are compared.  MPCP and FMLP+ are left out: no host has them.
COMPARED = tuple(Policy.words())
MIXED_TESTS = ("gcaps-mixed", "boosted-mixed")
#: The modes that are combined.
COMBINED = (Waiting.BUSY, Waiting.SUSPEND)
#: If more tasks use the GPU, not every combination of modes is tried.
MOST_COMBINED = 8
#: If more tasks use the GPU, no combination is tried under a test without a compiled formula.
MAX_USERS_READABLE = 24


@dataclass(frozen=True)
class Choice:
    """One way to run the taskset, and the verdict of its test.

    ``modes``: the waiting mode of each real-time task that uses the GPU.  ``slack``: the least (D - R) / D of all
    real-time tasks, None if a task has no bound.  ``priorities``: the GPU priorities to assign; empty if the file's own
    priorities pass.
    """

    test: str
    policy: str
    modes: Mapping[str, Waiting]
    result: Result
    slack: Fraction | None
    priorities: Mapping[str, int]

    @property
    def schedulable(self) -> bool:
        """Whether every real-time task has a bound within its deadline."""
        return self.slack is not None

    @cached_property
    def merit(self) -> Merit:
        """How good the choice is.  A schedulable one is better the larger its least slack, then its second least, etc.

        Any other is better the fewer tasks have no bound.
        """
        return self.schedulable, sorted(slacks(self.result)) or [Fraction(-len(self.result.failures))]


def choice_steps() -> int:
    """The number of steps that `choices` counts."""
    return len(registry.TESTS) + len(MIXED_TESTS)


def choices(
    taskset: Taskset, progress: Callable[[int], None] = lambda steps: None,
    interrupted: Callable[[list[Choice]], None] = lambda found: None,
) -> list[Choice]:  # fmt: skip
    """Every way to run the taskset, the best one first (`Choice.merit`); equals are in the order of the registry.

    A way whose test assigns GPU priorities is listed only if the file's own priorities fail and others pass.  The best
    combination of waiting modes is listed only if tasks differ in them.  ``progress`` is called with each step.  At
    Ctrl-C, ``interrupted`` is called with the ways found so far.
    """
    systems = {policy: system for policy in COMPARED if (system := under(taskset, policy)) is not None}
    found: list[Choice] = []
    try:
        for test in registry.TESTS.values():
            if test.waiting is not None and (system := systems.get(test.policy)) and _eligible(test, system):
                found += _choices(test, system)
            progress(1)
        for test in map(registry.find_test, MIXED_TESTS):
            if _about(test, systems[test.policy]):
                found += _combined(systems[test.policy], test.name)
            progress(1)
    except KeyboardInterrupt:
        interrupted(_ranked(found))
        raise
    return _ranked(found)


def _ranked(found: list[Choice]) -> list[Choice]:
    return sorted(found, key=lambda choice: choice.merit, reverse=True)


def passing(taskset: Taskset) -> bool:
    """Whether one of the `choices` holds, in one waiting mode and with the file's GPU priorities."""
    for test in registry.TESTS.values():
        if test.waiting is None or test.assigns or test.policy not in COMPARED:
            continue
        if (system := under(taskset, test.policy)) and _eligible(test, system) and proved(test, system):
            return True
    return False


def with_modes(taskset: Taskset, modes: Mapping[str, Waiting]) -> Taskset:
    """The taskset with these tasks' waiting modes changed, and with the forms that follow from the modes."""
    return replace(taskset, tasks=tuple(
        t if modes.get(t.name) in (None, t.waiting if t.form is None else None)
        else replace(t, waiting=modes[t.name], form=None) for t in taskset
    ))  # fmt: skip


def _eligible(test: Test, system: Taskset) -> bool:
    """Whether a file can describe the system of a test, in one waiting mode, on this machine."""
    usable = stated(test) and test.usual and _about(test, system)
    return usable and not thread_moves(test, system) and not lacks_theta(test, system)


def _about(test: Test, system: Taskset) -> bool:
    """Whether a test has bounds for the system's policies, partitions and TSGs.

    Partitions may have policies of their own, which the choice does not change.
    """
    return system.policies == (test.policy,) and test.divides(system) and test.fits_turns(system)


def _users(taskset: Taskset) -> list[str]:
    return [t.name for t in taskset.real_time if t.uses_gpu]


def _choices(test: Test, taskset: Taskset) -> Iterator[Choice]:
    """The choice that a test stands for; none if it assigns GPU priorities without need or without success."""
    modes = dict.fromkeys(_users(taskset), test.waiting or Waiting.SUSPEND)
    if not test.assigns:
        result = compiled.run_compiled(test, taskset)
        yield Choice(test.name, test.policy, modes, result, _slack(test, taskset, result), {})
        return
    if compiled.passes(registry.find_test(test.base), taskset):
        return
    assigned = _assigned(test, taskset, modes)
    if assigned:
        yield assigned


def _assigned(test: Test, taskset: Taskset, modes: Mapping[str, Waiting]) -> Choice | None:
    """The choice with GPU priorities that the test assigns; None if no assignment passes.

    The choice has the bounds that `gpurt analyze` prints for a file with these priorities.  The bounds during the
    assignment are larger: they use deadlines instead of responses.
    """
    try:
        priorities = test.assign(taskset).priorities
    except ValueError:
        return None
    if not priorities:
        return None
    changed = taskset.with_gpu_priorities(priorities)
    result = compiled.run_compiled(registry.find_test(test.base), changed)
    left = _slack(test, changed, result)
    return None if left is None else Choice(test.name, test.policy, modes, result, left, priorities)


def _combined(taskset: Taskset, test: str) -> list[Choice]:
    """The best combination of modes under a test of MIXED_TESTS; none if all tasks wait in the same mode."""
    users = _users(taskset)
    if len(users) < 2 or unsearched(taskset, test):
        return []

    def merit(modes: Modes) -> Merit:
        return _mixed(taskset, modes, test).merit

    if len(users) <= MOST_COMBINED:
        found = (dict(zip(users, modes, strict=True)) for modes in product(COMBINED, repeat=len(users)))
    else:
        found = (_climbed(dict.fromkeys(users, mode), merit) for mode in COMBINED)
    best = max(found, key=merit)
    return [_mixed(taskset, best, test)] if len(set(best.values())) > 1 else []


def unsearched(taskset: Taskset, test: str) -> bool:
    """Whether combinations of waiting modes are not searched under this test, because there are too many."""
    return registry.find_test(test).compiled is None and len(_users(taskset)) > MAX_USERS_READABLE


def _mixed(taskset: Taskset, modes: Mapping[str, Waiting], name: str) -> Choice:
    """The choice of these modes, with GPU priorities assigned if the file's own fail."""
    changed, test = with_modes(taskset, modes), registry.find_test(name)
    result = compiled.run_compiled(test, changed)
    choice = Choice(test.name, test.policy, modes, result, _slack(test, changed, result), {})
    if choice.schedulable:
        return choice
    return _assigned(registry.find_test(name + rta.SUFFIX), changed, modes) or choice


def _climbed(modes: dict[str, Waiting], merit: Callable[[Modes], Merit]) -> dict[str, Waiting]:
    """The modes after changing one task's at a time, in turn, as long as some change improves the choice."""
    best, unchanged = merit(modes), 0
    for name in cycle(modes):
        (other,) = (mode for mode in COMBINED if mode is not modes[name])
        trial = {**modes, name: other}
        if (value := merit(trial)) > best:
            modes, best, unchanged = trial, value, 0
        else:
            unchanged += 1
        if unchanged >= len(modes):
            break
    return modes


def _slack(test: Test, taskset: Taskset, result: Result) -> Fraction | None:
    """The least slack; None if a task has no bound, or if ``beyond`` objects to a yes."""
    return None if beyond(test, taskset, result) else slack(result)


def slack(result: Result) -> Fraction | None:
    """The least (D - R) / D over the tasks with a deadline; 1 if there are none, None if a task has no bound."""
    return min(slacks(result), default=Fraction(1)) if result.schedulable else None


def slacks(result: Result) -> list[Fraction]:
    """(D - R) / D of each task with a deadline; empty if a task has no bound."""
    bounds = [v for v in result.verdicts.values() if isinstance(v, Bound)]
    return [Fraction(v.slack, v.deadline) for v in bounds] if result.schedulable else []
