# SPDX-License-Identifier: GPL-2.0
"""The parts of a schedulability test: a formula, and the facts about the test that the registry states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.model import POLICIES, PolicyFacts, Sharing, Taskset, Waiting
from analysis.model.conflicts import UNKNOWN_TIMES, under
from analysis.model.fold import parts_apart
from analysis.rta import forkjoin, processes, triggered, wakeups, yielding
from analysis.rta.analyse import analyse
from analysis.rta.attacks import ATTACKS
from analysis.rta.audsley import Assignment, assign
from analysis.rta.order import Equals, equals_that_wait, one_sided
from analysis.rta.partition_order import locked, not_isolated, on_one_bus, out_of_order, without_turns
from analysis.rta.regions import whole_segments, whole_systems
from analysis.rta.result import BestEffort, Failure, Reason, Result, Verdict
from analysis.rta.separate import separate
from analysis.rta.system import Demands
from gpurt.enums import Form

#: The suffix in the name of each test that assigns GPU priorities.
SUFFIX = "+gpu-priority"


@dataclass(frozen=True)
class Test:
    """A named schedulability test.  The fields, apart from ``assigns``, are a row of the registry.

    Its scope:
        ``policy``: the policy that the bound is for; the attack simulates it, and ``analysis.answers.choose`` proposes
        it if it ships.  ``waiting``: how tasks wait for the GPU; None: each task in its own mode.
        ``poll``: how often policy
        `job` looks, ns.  ``periodic``: the bound holds for strictly periodic releases only, not for sporadic ones.
        ``forms``: the forms that tasks may have under `boosted`; None: the form that follows from each task's waiting
        mode.  ``any_order``: it also holds for GPU priorities that contradict CPU priorities.  ``sharing``: it holds
        where TSGs have slices and interleave levels of their own, or where tasks share a TSG in that order.
        ``partitions``: it holds where tasks of several partitions share CPUs.  ``threads``: where a thread serves
        several tasks.  ``pending``: where several jobs of a task are pending, because of release jitter or deadlines
        beyond periods.  ``latency``: where wake-ups take time.  ``resources``: where tasks hold resources on CPUs.
        ``processes``: where several threads of a process use the GPU.  ``yields``: also where GPU segments begin by
        yield.  ``paths``: the formula of tasks with workers.  A test without one of these facts refuses such tasksets.
    Its standing:
        ``source``: the paper and its lemmas.  ``sound``: what proof and attack say today; ``note``: the reason if
        unsound.  ``attacked``: whether an attack on its formula is recorded; other tests run by name, and prove
        nothing.
    Its formulas:
        ``demands``: the readable formula.  ``ends``: the formula of a job up to the end of its last GPU segment, if
        other tasks' bounds use that end.  ``instead``: another formula, which counts where the first has no bound.
        ``compiled``: the name of its formula in analysis/native/rta_formulas.c; None if it has none.  ``analysis``
        replaces ``demands`` and all that follows from them, in tests whose bounds are no sums of demands, such as those
        of tasks that own units of the GPU.
    How it is used:
        ``assignable``: whether the registry also has it with ``+gpu-priority``.  ``free``: the experiments run it where
        updates and context switches cost nothing, as the papers do.
    """

    name: str
    title: str
    source: str
    policy: str
    waiting: Waiting | None
    demands: Demands
    ends: Demands | None = None
    instead: Demands | None = None
    compiled: str | None = None
    analysis: Callable[[Taskset], Result] | None = None
    sound: bool = field(kw_only=True)
    note: str = ""
    poll: int = 0
    periodic: bool = False
    forms: tuple[Form | None, ...] = (None,)
    any_order: bool = False
    sharing: Sharing | None = None
    partitions: bool = False
    assignable: bool = False
    free: bool = False
    threads: bool = False
    pending: bool = False
    latency: bool = False
    resources: bool = False
    paths: forkjoin.Paths | None = None
    processes: bool = False
    yields: bool = False
    assigns: bool = False

    @property
    def rules(self) -> PolicyFacts:
        """The facts of its policy."""
        return POLICIES[self.policy]

    @property
    def base(self) -> str:
        """Its name without ``+gpu-priority``."""
        return self.name.removesuffix(SUFFIX)

    def with_assignment(self) -> Test:
        """The test that also assigns GPU priorities."""
        title = f"{self.title}, GPU priorities assigned"
        return replace(self, name=self.name + SUFFIX, title=title, assigns=True)

    @property
    def attacked(self) -> bool:
        """Whether a recorded attack on it broke no bound."""
        return self.name in ATTACKS

    @property
    def doubt(self) -> str:
        """Why nobody may rely on its bounds; empty if no reason is known."""
        if not self.sound:
            return f"UNSOUND, do not rely on it: {self.note}"
        return "" if self.attacked else "A DRAFT, do not rely on it: no attack on its bounds is recorded"

    @property
    def usual(self) -> bool:
        """Whether the bound holds for the forms that follow from waiting modes."""
        return None in self.forms or (self.waiting or Waiting.SUSPEND).forms[0] in self.forms

    def forms_of(self, taskset: Taskset) -> tuple[Form | None, ...]:
        """The forms in which the bounds of the taskset hold."""
        woken = taskset.platform.cpu_latency or taskset.platform.woken or taskset.resources
        return tuple(form for form in self.forms if form is not Form.OWNER) if woken else self.forms

    def fits(self, taskset: Taskset) -> bool:
        """Whether the bound holds for these tasks: their forms under `boosted`, their TSGs under `timesliced`."""
        if not self.fits_turns(taskset):
            return False
        forms = ((t.form_in(t.waiting), t.waiting.forms[0]) for t in taskset.real_time if t.uses_gpu)
        return not self.rules.raises or all(
            form in self.forms or (None in self.forms and form is natural) for form, natural in forms
        )

    def fits_turns(self, taskset: Taskset) -> bool:
        """Whether the bound holds for the slices, levels and shared TSGs of these tasks, in any form and mode.

        If TSGs take turns, the order in which best-effort tasks alone share a TSG does not matter.
        """
        users = [t for t in (taskset.real_time if self.sharing else taskset) if t.uses_gpu]
        orders = {t.partition.shared for t in users if t.partition and t.partition.shared}
        one_slice = self.rules.turns and self.sharing is None
        return orders <= {self.sharing} and not (one_slice and taskset.time_partitioned)

    @property
    def ordered(self) -> bool:
        """Whether GPU priorities must not contradict CPU priorities; in the driver's round robin they do nothing."""
        return not self.rules.turns and not self.any_order

    def equals(self, spins: bool) -> Equals:
        """The condition under which tasks of equal priority have a bound; ``spins``: whether some task waits busily."""
        if self.rules.jobs or (self.partitions and spins):
            return Equals.UNBOUNDED
        if self.rules.raises or self.rules.locks or self.rules.turns or not spins:
            return Equals.BOUNDED
        return Equals.UNBOUNDED if self.waiting is None else Equals.CONTENDED

    def run(self, taskset: Taskset, brief: bool = False) -> Result:
        """The verdicts on all tasks; with ``brief``, those up to the first failure, if only schedulability counts.

        A ``+gpu-priority`` test keeps the file's priorities if they pass, and otherwise assigns others.
        """
        if refused := self._unserved(taskset):
            return refused
        if taskset.triggers:
            return triggered.holistic(taskset, lambda one: self.run(one, brief), self.name)
        if self.analysis is not None:
            return self.analysis(taskset)
        if systems := self.systems(taskset):
            return self.together(taskset, [self.run(one) for one in systems])
        if unseen := self.unseen(taskset):
            return unseen
        taskset = self.seen(taskset)
        result = self.refusal(taskset) or self._analyse(taskset, brief=brief)
        if not self.assigns or result.schedulable:
            return result
        try:
            assignment = self.assign(taskset)
        except ValueError:  # more users of the GPU than priorities: nothing can be assigned
            return result
        if assignment.priorities is None:
            return result
        changed = taskset.with_gpu_priorities(assignment.priorities)
        return self.refusal(changed) or self._analyse(changed, assume=True)

    def _analyse(self, taskset: Taskset, assume: bool = False, brief: bool = False) -> Result:
        ends, instead = (None, None) if assume else (self.ends, self.instead)
        taskset = forkjoin.with_holds(forkjoin.with_switches(taskset))
        if taskset.forks or taskset.resources or (any(taskset.platform.woken) and wakeups.contended(taskset)):
            instead = None  # its proof covers no workers, no holders of resources, and no wake-ups at the update lock
        demands = processes.demands_of_threads(self.demands) if taskset.processes else self.demands
        return analyse(
            self.name, demands, taskset, assume_deadlines=assume, end_of=ends, brief=brief, pending=self.pending,
            instead=instead, paths=self.paths,
        )  # fmt: skip

    def systems(self, taskset: Taskset) -> list[Taskset]:
        """The systems of one GPU each, if partitions share no CPUs; empty if the tasks make up one system."""
        return [] if self.partitions or self.analysis is not None else separate(taskset)

    def divides(self, taskset: Taskset) -> bool:
        """Whether the test's GPU is divided in the same way as the taskset's."""
        return self.partitions == taskset.partitioned or bool(self.systems(taskset))

    def together(self, taskset: Taskset, results: Sequence[Result]) -> Result:
        """The verdicts on a taskset's systems, in the order of its tasks."""
        found = {name: verdict for result in results for name, verdict in result.verdicts.items()}
        return Result(self.name, {task.name: found[task.name] for task in taskset})

    def unseen(self, taskset: Taskset) -> Result | None:
        """A failure for every task if the formula would miss a cause of delay; otherwise None."""
        if refused := self._unserved(taskset):
            return refused
        reason = on_one_bus(taskset) if self.analysis is None else None
        return self._refused(taskset, Reason.PARTITIONS, reason) if reason else None

    def _unserved(self, taskset: Taskset) -> Result | None:
        """A failure for every task if the test does not cover some feature that the taskset uses; otherwise None.

        Features: begin by yield, turns, workers, processes, threads of several tasks, pending jobs, and wake-ups.
        """
        if why := yielding.refusal(self.name, taskset, self.yields and not self.assigns):
            return self._refused(taskset, Reason.BEGIN, why)
        if self.rules.turns and (why := without_turns(taskset)):
            return self._refused(taskset, Reason.PARTITIONS, why)
        able = self.paths is not None
        if why := forkjoin.refusal_of_workers(
            self.name, taskset, able=able, holds=self.rules.raises, assigns=self.assigns
        ):
            return self._refused(taskset, Reason.WORKERS, why)
        if why := processes.refusal_of_threads(self.name, taskset, able=self.processes, assigns=self.assigns):
            return self._refused(taskset, Reason.PROCESS, why)
        if why := self._unknown_thread(taskset):
            return self._refused(taskset, Reason.THREAD, why)
        if why := self._unknown_pending(taskset):
            return self._refused(taskset, Reason.PENDING, why)
        why = wakeups.refusal_of_wakeups(self.name, self.rules, taskset, latency=self.latency, resources=self.resources)
        return self._refused(taskset, Reason.LATENCY, why) if why else None

    def _unknown_pending(self, taskset: Taskset) -> str | None:
        for name, producers in taskset.triggers.items():
            if not self.pending:
                return f"{self.name} has no bound for a task that another one releases, as {producers[0]} does {name}"
        for task in taskset.pending:
            if not self.pending:
                return f"{self.name} has no bound for {task.why_pends}, which {task.name} has"
        return None

    def _unknown_thread(self, taskset: Taskset) -> str | None:
        for name, tasks in taskset.threads.items():
            if tasks[0].best_effort:
                continue
            if not self.threads:
                return f"{self.name} has no bound for a thread that serves several tasks, as {name} does"
            if len({t.partition for t in tasks if t.uses_gpu}) > 1:
                return f"tasks of thread {name} use several partitions"
        return None

    def seen(self, taskset: Taskset) -> Taskset:
        """The taskset as the formula sees it: the simulated one, with wake-ups and waits as parts of segments."""
        return wakeups.with_wakeups(yielding.contained(self.simulated(taskset)), self.waiting)

    def simulated(self, taskset: Taskset) -> Taskset:
        """The taskset that a simulation of the test's system gets: copies and kernels are GPU segments.

        Where TSGs take turns, each copy and kernel stays a segment of its own; not for unsound tests, which are as
        printed.  Best effort slows tasks down under turns.
        """
        if self.rules.turns:
            taskset = under(taskset, self.policy, everywhere=True) or taskset
        if systems := self.systems(taskset):
            return whole_systems(taskset, systems)
        return whole_segments(parts_apart(taskset) if self.rules.turns and self.sound else taskset)

    def refusal(self, taskset: Taskset) -> Result | None:
        """A failure for every task if no bound can hold, because of partitions or priorities; otherwise None.

        The argument is a taskset that ``seen`` returned.
        """
        if self.rules.turns and taskset.platform.policy != self.policy:
            return self._refused(taskset, Reason.PARTITIONS, UNKNOWN_TIMES)
        if not self.partitions and taskset.partitioned:
            return self._refused(taskset, Reason.PARTITIONS, f"{self.name} is for a GPU that is one partition")
        if self.partitions and (reason := not_isolated(taskset) or locked(taskset)):
            return self._refused(taskset, Reason.PARTITIONS, reason)
        spins = any(t.spins(self.waiting) for t in taskset)
        reason = self._disorder(taskset, spins) or equals_that_wait(taskset, self.equals(spins))
        return self._refused(taskset, Reason.GPU_ORDER, reason) if reason else None

    def _disorder(self, taskset: Taskset, spins: bool) -> str | None:
        """Why priorities let tasks wait for each other for ever; None if they do not."""
        if self.rules.turns:
            return None
        if self.partitions:
            return out_of_order(taskset, spins)
        return one_sided(taskset) or (processes.disorder_of_threads(taskset) if self.ordered else None)

    def _refused(self, taskset: Taskset, reason: Reason, why: str) -> Result:
        """No bound for any task, except those that no order of GPU priorities can delay."""
        apart = self._apart(taskset) if reason is Reason.GPU_ORDER else {}
        verdicts: dict[str, Verdict] = {
            t.name: BestEffort(t.name) if t.best_effort else Failure(t.name, reason, t.deadline, culprit=why)
            for t in taskset
        }
        return Result(self.name, {**verdicts, **apart})

    def _apart(self, taskset: Taskset) -> Mapping[str, Verdict]:
        """The verdicts on tasks of CPUs where no task uses the GPU; none under `job`, whose thread may execute there.

        Also none if no real-time task uses the GPU: a refused taskset never passes.
        """
        if self.rules.jobs or not any(t.uses_gpu for t in taskset.real_time):
            return {}
        with_gpu = {t.cpu for t in taskset if t.uses_gpu or t.name in taskset.forked}  # a task waits for its workers
        alone = replace(taskset, tasks=tuple(t for t in taskset if t.cpu not in with_gpu), forks=())
        return analyse(self.name, self.demands, alone, pending=self.pending).verdicts

    def assign(self, taskset: Taskset) -> Assignment:
        """GPU priorities by Audsley's method (ECRTS'24, sections 5.3 and 6.4) under this test; none if it refuses.

        Raises ValueError if more tasks use the GPU than there are priorities.
        """
        if refused := self.unseen(taskset):
            return Assignment(None, 1, tuple(refused.failures))
        return assign(self.demands, self.waiting, self.seen(taskset), any_order=self.any_order, pending=self.pending)
