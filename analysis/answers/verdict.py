# SPDX-License-Identifier: GPL-2.0
"""The one answer about a system: does every deadline hold under the policy and waiting modes that its file names?"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.answers import compiled, registry
from analysis.chains.bounds import bound_of
from analysis.model import MS, POLICIES, Taskset, Waiting
from analysis.model.platform import ISOLATED
from analysis.rta import Result, Test, boosted
from analysis.rta.kernel_thread import THREAD_CPU

#: Why a test that needs theta proves nothing without it.
NO_THETA = '{} needs theta in [platform], what a context switch of the GPU costs; if that is nothing, say theta = "0ns"'
#: Why a test for one GPU proves nothing of a file whose partitions execute at the same time.
PARTITIONED = "{} is for one task at a time on the GPU, and the file has several partitions"
#: Why a test proves nothing of a file whose TSGs take turns in another way.
OTHER_TURNS = "{} is about other slices, levels and shared TSGs than the file's"
#: Why the answer about a taskset without a real-time task is no.
NOTHING_PROVED = "there is no real-time task, so nothing was proved"


@dataclass(frozen=True)
class Answer:
    """The verdict on a taskset.

    The answer rests on ``test`` and its ``result``; they are None if no sound test covers the system.  ``why`` says why
    the answer is no; it is empty if the answer is yes.
    """

    policy: str
    test: Test | None
    result: Result | None
    why: str

    @property
    def schedulable(self) -> bool:
        """Whether it is proved that every real-time task meets every deadline."""
        return not self.why


def stated(test: Test) -> bool:
    """Whether the test is sound and an attack on it is recorded."""
    return test.sound and test.attacked


def thread_moves(test: Test, taskset: Taskset) -> bool:
    """Whether the test assumes that a host's thread stays on CPU 0, and the file does not say that it does.

    Updates execute on the thread's CPU, and the bounds charge them only to the tasks of CPU 0.
    """
    platform = taskset.platform
    return (
        test.rules.jobs and platform.alpha > 0 and platform.thread_cpu != THREAD_CPU
        and any(task.uses_gpu for task in taskset.real_time)
    )  # fmt: skip


def lacks_theta(test: Test, taskset: Taskset) -> bool:
    """Whether the test's bounds depend on theta by itself, and the file gives only epsilon, the sum of alpha and theta.

    Zero is no default: these bounds would be too small.  Bounds of other policies depend on epsilon and on alpha.
    Bounds of `boosted` also depend on theta where tasks wait busily; without theta they use epsilon for it, which is at
    least theta.
    """
    uses_gpu = any(task.uses_gpu for task in taskset.real_time)
    return (test.rules.turns or test.rules.locks) and uses_gpu and not taskset.platform.theta_known


def covering(taskset: Taskset, policy: str | None = None) -> list[Test]:
    """The sound tests whose bounds hold for the taskset as its file describes it, in the order of the registry.

    ``policy``: replaces the file's.  Tests that assign GPU priorities are left out, for they prove something about
    another system.  If no real-time task uses the GPU, tests for any waiting mode count.
    """
    wanted = {policy} if policy else set(taskset.policies)
    if all(POLICIES[one].units for one in wanted):
        return _of_units(taskset)
    modes = {task.waiting for task in taskset.real_time if task.uses_gpu}
    mode = next(iter(modes)) if len(modes) == 1 else None
    return [
        test
        for test in registry.TESTS.values()
        if stated(test) and not test.assigns and wanted == {test.policy} and (test.waiting is mode or not modes)
        and (test.yields or taskset.platform.begin == ISOLATED)
        and test.fits(taskset) and test.divides(taskset) and not thread_moves(test, taskset)
    ]  # fmt: skip


def _of_units(taskset: Taskset) -> list[Test]:
    """The tests of tasks that own units and wait as the file's; first the test that `gpurt plan units` uses."""
    modes = {task.waiting for task in taskset.real_time if task.uses_gpu} or {Waiting.SUSPEND}
    found = [registry.UNITS[name] for name in ("rtgpu", "rtgpu-tight", "stgm")]
    return [test for test in found if {test.waiting} == modes and test.attacked]


def answer(taskset: Taskset) -> Answer:
    """The verdict by the first covering test that passes; if none passes, by the first one."""
    policy = " and ".join(taskset.policies)
    if not taskset.real_time:
        return Answer(policy, None, None, NOTHING_PROVED)
    first: Answer | None = None
    for test in covering(taskset):
        if lacks_theta(test, taskset):
            return Answer(policy, None, None, NO_THETA.format(test.name))
        result = compiled.run_compiled(test, taskset)
        why = result.why or beyond(test, taskset, result)
        if not why:
            return Answer(policy, test, result, "")
        first = first or Answer(policy, test, result, why)
    return first or Answer(policy, None, None, _uncovered(taskset))


def passed(taskset: Taskset) -> Test | None:
    """The test on which a yes of `answer` rests; None if the answer is no."""
    for test in covering(taskset) if taskset.real_time else []:
        if lacks_theta(test, taskset):
            return None
        if proved(test, taskset):
            return test
    return None


def proved(test: Test, taskset: Taskset) -> bool:
    """Whether the test passes and `beyond` has no objection; gives no reasons."""
    if not (_turns_matter(test, taskset) or any(chain.limits for chain in taskset.chains)):
        return compiled.passes(test, taskset)
    result = compiled.run_compiled(test, taskset)
    return result.schedulable and not beyond(test, taskset, result)


def beyond(test: Test, taskset: Taskset, result: Result) -> str:
    """Why the answer is no although the test bounds every task within its deadline; empty if it is yes.

    The hosts may not meet the conditions of the bounds, or a chain may exceed its limit of reaction or age.
    """
    if not result.schedulable:
        return ""
    objections = (bound_of(chain, taskset, result).objection for chain in taskset.chains)
    return slow_turns(test, taskset, result) or next(filter(None, objections), "")


def _turns_matter(test: Test, taskset: Taskset) -> bool:
    """Whether the test's bounds hold only if threads spin for their turns at the update lock."""
    return test.rules.raises and any(task.spins(test.waiting) for task in taskset.real_time)


def slow_turns(test: Test, taskset: Taskset, result: Result) -> str:
    """Why a yes of a test of `boosted` would need threads to spin longer than the hosts let them; else empty."""
    if not result.schedulable or not _turns_matter(test, taskset):
        return ""
    taskset = _assigned(test, taskset)
    responses = {task.name: result.wcrt(task.name) or task.deadline for task in taskset.real_time}
    for task in taskset.real_time:
        if task.spins(test.waiting) and boosted.longest_turn(task, taskset, responses) is None:
            return (
                f"{task.name} may wait longer than {boosted.MAX_SPIN_NS // MS} ms for its turn at the update lock; its "
                "thread sleeps then, which the bounds for tasks that wait busily do not allow (docs/boosted.md)"
            )
    return ""


def _assigned(test: Test, taskset: Taskset) -> Taskset:
    """The taskset with the GPU priorities behind the test's result: assigned ones if the file's own fail."""
    if not test.assigns or compiled.passes(registry.find_test(test.base), taskset):
        return taskset
    found = test.assign(taskset).priorities
    return taskset.with_gpu_priorities(found) if found else taskset


def no_proof(test: Test, taskset: Taskset) -> str:
    """Why passing this test would prove nothing about the taskset; empty if it is a proof."""
    if not taskset.real_time:
        return NOTHING_PROVED
    if not test.rules.units and taskset.partitioned and not test.divides(taskset):
        return PARTITIONED.format(test.name)
    if not test.fits_turns(taskset) and not test.rules.units:
        return OTHER_TURNS.format(test.name)
    if lacks_theta(test, taskset):
        return NO_THETA.format(test.name)
    if not test.sound:
        return f"{test.name} is unsound: its bound can be exceeded"
    return "" if test.attacked else f"{test.name} is a draft: no attack on its bounds is recorded"


def unlike_the_file(test: Test, taskset: Taskset) -> str:
    """The properties of the test's system that the file's system lacks; empty if the two systems are the same."""
    other = [f"policy {test.policy}"] if taskset.policies != (test.policy,) else []
    users = [task for task in taskset.real_time if task.uses_gpu]
    if test.waiting and any(task.waiting is not test.waiting for task in users):
        other.append(f"tasks that all wait in mode {test.waiting.value}")
    if test.assigns:
        other.append("GPU priorities that `gpurt plan priorities` finds where the file's fail")
    if taskset.platform.begin != ISOLATED and not (test.yields and not test.assigns):
        other.append("segments that begin isolated")
    if thread_moves(test, taskset):
        other.append("a thread that stays on CPU 0")
    if not test.rules.units and not test.fits(taskset):
        other.append("one slice and level for every TSG" if taskset.time_partitioned else "tasks of other forms")
    return ", ".join(other)


def _uncovered(taskset: Taskset) -> str:
    """Why no sound test covers the taskset."""
    policy = " and ".join(taskset.policies)
    if len(taskset.policies) > 1:
        return f"partitions have policies {policy}, and no test is about several; give all of them one"
    rules = taskset.rules[0]
    if taskset.partitioned and (rules.jobs or rules.turns):
        return f"no test is known for several partitions under policy {policy}; boosted and segment have some"
    if taskset.partitioned and not rules.parts:
        return (
            f"several partitions share CPUs, and bounds of that are known for policy segment only, not for {policy}; "
            'say policy = "segment" in [platform], or in each [[partition]]'
        )
    if not rules.turns and (order := _sharing(taskset)):
        return (
            f'tasks share a TSG (shared = "{order}" in a [[partition]]), and bounds of that are known for policy '
            f"timesliced only, not for {policy}"
        )
    modes = sorted({task.waiting.value for task in taskset.real_time if task.uses_gpu})
    forms = sorted({task.form_in(task.waiting) for task in taskset.real_time if task.uses_gpu})
    if rules.raises and len(forms) > 1:
        return f"no sound test is known for tasks of forms {' and '.join(form.word for form in forms)} together"
    if rules.jobs and modes and all(Waiting(mode).spins for mode in modes):
        return (
            "the bounds for policy job are for a host's thread that stays on CPU 0; where it does (gpurt.ko with "
            "thread_cpu=0), say so in [platform]: thread_cpu = 0"
        )
    if not modes:
        return f"no sound test is known for tasks without GPU work beside the TSGs of this file under policy {policy}"
    if len(modes) > 1:
        return f"no sound test is known for tasks of which some suspend and some wait busily under policy {policy}"
    return f"no sound test is known for tasks that wait in mode {modes[0]} under policy {policy}"


def _sharing(taskset: Taskset) -> str:
    """The order in which tasks share a TSG; empty if none do."""
    orders = {t.partition.shared.value for t in taskset if t.uses_gpu and t.partition and t.partition.shared}
    return " and ".join(sorted(orders))
