# SPDX-License-Identifier: GPL-2.0
"""The assumptions of bounds, and how far each was checked.  Without a check, none counts as checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from analysis.answers.verdict import slow_turns, unlike_the_file
from analysis.model.platform import ISOLATED
from analysis.rta import Result, Test
from analysis.taskset import TasksetFile
from analysis.taskset.assumed import assumption_lines, of_tests
from analysis.traces.trace import Trace
from gpurt.enums import Policy, Tier
from gpurt.units import exact_ms
from pycontrol.link.control import GpuStatus, UpdateLatency, raised, update_times
from pycontrol.machine.clocks import MachineClocks
from pycontrol.observe.fit.fit import Code, Defeats, Objection, demanded
from pycontrol.observe.judge.finding import Finding, What
from pycontrol.observe.report import runs


class Support(str, Enum):
    """How well an assumption is supported."""

    CHECKED = "checked"
    UNREFUTED = "unrefuted"
    UNCHECKED = "unchecked"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Assumption:
    """``assumption``: the sentence.  ``text``: how it was checked, with the result."""

    assumption: str
    support: Support
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence with which assumptions are checked.

    ``result``: of the test.  ``gpus`` and ``latency``: of the host; empty if none was asked.  ``traces``: by
    name.  ``objections``: to this machine and the host, if they were asked.  ``findings``: of each trace that the
    bounds apply to, by its name.  ``clocks``: of the machine; empty if they were not read.
    """

    file: TasksetFile
    test: Test | None
    result: Result | None = None
    gpus: Sequence[GpuStatus] = ()
    latency: Sequence[UpdateLatency] = ()
    traces: Sequence[tuple[str, Trace]] = ()
    objections: Sequence[Objection] = ()
    findings: Sequence[tuple[str, Sequence[Finding]]] = ()
    clocks: Sequence[MachineClocks] = ()

    def objected(self, *codes: Code) -> str:
        """The objections of these kinds that defeat the bounds; empty if there are none."""
        return "; ".join(one.line() for one in self.objections if one.code in codes and Defeats.BOUNDS in one.defeats)

    @property
    def real_runs(self) -> list[tuple[str, Trace]]:
        """The traces of real runs that the bounds apply to.  A simulation fulfils the assumptions: no evidence."""
        compared = {name for name, _ in self.findings}
        return [(name, one) for name, one in self.traces if name in compared and one.meta.get("clock") != "virtual"]

    def against(self, *kinds: What) -> str:
        """The findings of these kinds, in words; empty if there are none."""
        for name, findings in self.findings:
            if told := [one for one in findings if one.what in kinds]:
                more = f", and {len(told) - 1} more like it" if len(told) > 1 else ""
                return f"{name}: {told[0].line()}{more}"
        return ""


def judged_assumptions(evidence: Evidence) -> list[Assumption]:
    """Every assumption of the bounds, in a fixed order."""
    return [
        _proof(evidence), _subject(evidence), _times(evidence), _clocks(evidence), _releases(evidence),
        _updates(evidence),
        _policy(evidence), _control(evidence), _tasks(evidence), _waits(evidence), *_unstated(evidence),
        _placement(evidence),
        *_partitions(evidence), *_threads(evidence), *_groups(evidence), _outside(evidence),
        _latency(evidence),
        _above(evidence),
    ]  # fmt: skip


def _above(evidence: Evidence) -> Assumption:
    assumed = "Threads above the tasks' priorities, interrupts and the kernel take no time that the file does not have."
    other = evidence.objected(Code.CPU_STRANGER)
    text = other or "the checks of the machine name what is known of it"
    return Assumption(assumed, Support.REFUTED if other else Support.UNCHECKED, text)


def _proof(evidence: Evidence) -> Assumption:
    assumed = "The analysis is right."
    test = evidence.test
    if test is None:
        return Assumption(assumed, Support.UNCHECKED, "there is no analysis")
    if test.sound and test.doubt:
        return Assumption(assumed, Support.REFUTED, f"{test.name}: {test.doubt}")
    if not test.sound:
        return Assumption(assumed, Support.REFUTED, f"{test.name} is unsound: {test.note or 'its bound is exceeded'}")
    text = (
        f"docs/readings.md has the argument; no schedule is known that exceeds a bound of {test.name}, and "
        "docs/soundness.md says how it was attacked"
    )
    return Assumption(assumed, Support.UNREFUTED, text)


def _subject(evidence: Evidence) -> Assumption:
    assumed = "The analysis is about the system of the file."
    test, taskset = evidence.test, evidence.file.taskset
    if test is None:
        return Assumption(assumed, Support.UNCHECKED, "there is no analysis")
    if test.policy not in Policy.words():
        text = f"the file cannot say that policy {test.policy} is meant, which no host has"
        return Assumption(assumed, Support.UNCHECKED, text)
    if how := unlike_the_file(test, taskset):
        return Assumption(assumed, Support.REFUTED, f"{test.name} is about {how}")
    if evidence.result and (slow := slow_turns(test, taskset, evidence.result)):
        return Assumption(assumed, Support.REFUTED, slow)
    return Assumption(assumed, Support.CHECKED, "policy, waiting modes and forms are those of the test")


def _outside(evidence: Evidence) -> Assumption:
    resources = evidence.file.taskset.resources
    lock = "a lock that is no [[resource]] of the file" if resources else "a lock"
    other = "another one that is no worker of it" if evidence.file.taskset.forks else "another one"
    assumed = f"Outside its GPU segments no task waits for {other}, for {lock}, or for a device."
    if resources:
        assumed += " No critical section takes longer than the file says, or nests, or sleeps."
    return Assumption(assumed, Support.UNCHECKED, "the file's author states it; gpurt has no check of it")


def _latency(evidence: Evidence) -> Assumption:
    taskset = evidence.file.taskset
    latency = taskset.platform.cpu_latency
    if not latency:
        text = "the file has no cpu_latency; cyclictest measures it"
        return Assumption("A thread executes at once when it wakes.", Support.UNCHECKED, text)
    text = "the file's author states it; cyclictest measures it, and no measurement is a bound"
    return Assumption(f"A wake-up of a thread takes up to {exact_ms(latency)} of its CPU.", Support.UNCHECKED, text)


def _threads(evidence: Evidence) -> list[Assumption]:
    """The further assumptions if threads serve several tasks."""
    unseen = evidence.file.taskset.unseen
    return [Assumption("A thread sees each of its jobs when it is released.", Support.UNCHECKED, unseen)] * bool(unseen)


def _groups(evidence: Evidence) -> list[Assumption]:
    """The further assumptions if tasks have workers."""
    found, other = [], evidence.objected(Code.GROUP)
    for fork in evidence.file.taskset.forks:
        group = evidence.file.launch[fork.task].group
        assumed = (
            f"{fork.task} starts {' and '.join(fork.workers)} once a job, and sleeps until all are done; they are "
            f"group {group} of one GPU, and nobody else is in it."
        )
        text = "the file's author states it; a trace tells of segments in another group"
        found.append(Assumption(assumed, Support.REFUTED if other else Support.UNCHECKED, other or text))
        if fork.hold:
            raised = f"While group {group} owns the GPU, each of these threads is raised, and alpha includes that."
            text = "hosts say which processes have joined with GPURT_GROUP_ALL, not whether those threads do the jobs"
            found.append(Assumption(raised, Support.REFUTED if other else Support.UNCHECKED, other or text))
    return found


def _partitions(evidence: Evidence) -> list[Assumption]:
    """The further assumptions if there are several partitions."""
    if not evidence.file.taskset.partitioned:
        return []
    updates = "The task that begins or ends a segment executes the runlist's update, on its own CPU."
    elsewhere = evidence.objected(Code.ELSEWHERE)
    text = elsewhere or "so it is in the kernel module with virtual GPUs"
    return [
        Assumption(updates, Support.REFUTED if elsewhere else Support.UNCHECKED, text),
        Assumption(
            "Work of one partition slows that of another down no more than the file's times and cross_contention say.",
            Support.UNCHECKED, "the file states them; this report measured none",
        ),
    ]  # fmt: skip


def _times(evidence: Evidence) -> Assumption:
    assumed = "No segment takes longer than the file says."
    if longer := evidence.against(What.SEGMENT, What.CPU_TIME, What.OVERRUN):
        return Assumption(assumed, Support.REFUTED, longer)
    text = "the file states them; this report measured none, and a longest time that was seen would be no bound"
    return Assumption(assumed, Support.UNCHECKED, text)



def _clocks(evidence: Evidence) -> Assumption:
    assumed = "Clocks and the power mode are those that the file's times are of."
    if other := evidence.objected(Code.CLOCKS) or evidence.against(What.SPEED):
        return Assumption(assumed, Support.REFUTED, other)
    stated = evidence.file.clocks
    if lacking := [task.name for task in evidence.file.taskset.real_time if task.name not in stated]:
        of = f" of {', '.join(lacking)}" if stated else ""
        return Assumption(assumed, Support.UNCHECKED, f"the file states none{of}; gpurt measure times records them")
    if not evidence.clocks:
        return Assumption(assumed, Support.UNCHECKED, "no machine was looked at")
    if any(one.gpu is not None for one in stated.values()) and any(gpu.emulated for gpu in evidence.gpus):
        return Assumption(assumed, Support.UNCHECKED, "the host has virtual GPUs, which have no clock")
    return Assumption(assumed, Support.UNREFUTED, "so it was when this was looked at; firmware may slow clocks unseen")


def _releases(evidence: Evidence) -> Assumption:
    assumed = "Two jobs of a task are released at least its period apart, and at most as far as a chain rests on."
    seen = [name for name, trace in evidence.real_runs if runs.released(trace)]
    if broken := evidence.against(What.PERIOD):
        return Assumption(assumed, Support.REFUTED, broken)
    if seen:
        return Assumption(assumed, Support.UNREFUTED, f"so it was in {', '.join(seen)}")
    return Assumption(assumed, Support.UNCHECKED, "no trace of a real run that bounds speak of has releases of jobs")


def _updates(evidence: Evidence) -> Assumption:
    platform = demanded(evidence.file.taskset)
    costs = evidence.objected(Code.COSTS, Code.MEASURED, Code.NO_EPSILON, Code.NO_THETA)
    if platform.begin != ISOLATED:
        other = evidence.against(What.EPSILON) or evidence.objected(Code.BEGIN) or costs
        assumed = "Slices, context switches and orders take what the file says where segments begin by " \
                  f"{platform.begin}; every process has an agent, none comes, and no agent is late."  # fmt: skip
        text = "the file's author states it: scripts/probe-nvidia --parts yield measures it"
        return Assumption(assumed, Support.REFUTED if other else Support.UNCHECKED, other or text)
    assumed = f"No runlist update takes longer than alpha, {exact_ms(platform.alpha)}"
    assumed += f", and no context switch longer than theta, {exact_ms(platform.theta)}." if platform.theta_known else \
               " (the file gives no theta of its own)."  # fmt: skip
    if longer := evidence.against(What.EPSILON):
        return Assumption(assumed, Support.REFUTED, longer)
    if costs:
        return Assumption(assumed, Support.REFUTED, costs)
    count, longest = update_times(evidence.latency)
    if not count:
        return Assumption(assumed, Support.UNCHECKED, "no host was asked that has carried out an update")
    text = f"the host has timed {count} updates; the longest took {exact_ms(longest)}"
    if raising := raised(evidence.latency, evidence.file.taskset.policies):
        text += f", and to raise a thread after one {exact_ms(raising)}"
    if any(gpu.emulated for gpu in evidence.gpus):
        return Assumption(assumed, Support.UNCHECKED, f"{text}; but on virtual GPUs, which say nothing of a real one")
    return Assumption(assumed, Support.UNREFUTED, f"{text}; context switches were not timed")


def _policy(evidence: Evidence) -> Assumption:
    policy = evidence.test.policy if evidence.test else " and ".join(evidence.file.taskset.policies)
    assumed = f"The GPU is scheduled by policy {policy}, as the analysis has it."
    if other := evidence.against(What.POLICY, What.PRIORITY):
        return Assumption(assumed, Support.REFUTED, other)
    if not evidence.gpus:
        return Assumption(assumed, Support.UNCHECKED, "no host was asked")
    if why := evidence.objected(
        Code.POLICY, Code.UNITS, Code.POLL, Code.THREAD, Code.CROSS, Code.SHAPES, Code.PRIORITIES, Code.RAISES,
        Code.BEGIN, Code.GPUS, Code.ASLEEP, Code.PARTITIONS, Code.BARRED, Code.FORM,
    ):  # fmt: skip
        return Assumption(assumed, Support.REFUTED, why)
    other_test = evidence.test and evidence.file.taskset.policies != (policy,)
    if other_test and (runs_now := {gpu.policy.word for gpu in evidence.gpus} - {policy}):
        return Assumption(assumed, Support.REFUTED, f"the host runs {' and '.join(sorted(runs_now))}")
    return Assumption(assumed, Support.CHECKED, "the host that was asked runs it now")


def _control(evidence: Evidence) -> Assumption:
    assumed = "All work on the GPU runs when the scheduler says so, and only then."
    if lost := evidence.against(What.LATE, What.RESET):
        return Assumption(assumed, Support.REFUTED, lost)
    if not evidence.gpus:
        return Assumption(assumed, Support.UNCHECKED, "no host was asked")
    if wrong := evidence.objected(Code.ISOLATION, Code.TIER, Code.DRIVER, Code.EXEMPT):
        return Assumption(assumed, Support.REFUTED, wrong)
    tiers = sorted({gpu.tier for gpu in evidence.gpus}, key=lambda tier: tier.value)
    if tiers == [Tier.VIRTUAL]:
        return Assumption(assumed, Support.UNCHECKED, "the host has virtual GPUs only, which say nothing of a real one")
    ways = ", ".join(tier.word for tier in tiers)
    return Assumption(assumed, Support.UNCHECKED, f"the host reports no failure now (tier {ways}), but no proof of it")


def _tasks(evidence: Evidence) -> Assumption:
    assumed = (
        "Only tasks of the file delay each other on the GPU, each on the thread that the file says, and none ends in "
        "the middle of a job."
    )
    if other := evidence.against(What.UNDECLARED, What.ENDED, What.THREAD):
        return Assumption(assumed, Support.REFUTED, other)
    if there := evidence.objected(Code.STRANGER, Code.AMBIGUOUS, Code.DEMOTED, Code.GROUP, Code.GPU_PRIORITY):
        return Assumption(assumed, Support.REFUTED, there)
    seen = [name for name, _ in evidence.real_runs]
    if seen:
        return Assumption(assumed, Support.UNREFUTED, f"so it was in {', '.join(seen)}")
    return Assumption(assumed, Support.UNCHECKED, "no trace that was given is of such a run")


def _waits(evidence: Evidence) -> Assumption:
    assumed = "Inside a GPU segment no task waits for what a less urgent one has to do first."
    if stuck := evidence.against(What.STUCK):
        return Assumption(assumed, Support.REFUTED, stuck)
    for gpu in evidence.gpus:
        if gpu.stuck_count:
            times = f"the host has told {gpu.stuck_count} times"
            text = f"{times} that the owner of GPU {gpu.gpu} slept while others waited"
            return Assumption(assumed, Support.REFUTED, f"{text} and the GPU executed nothing")
    return Assumption(assumed, Support.UNCHECKED, "the file's author states it; a host tells only of waits that last")


def _unstated(evidence: Evidence) -> Iterator[Assumption]:
    """Says that tasks wait as the file says, if a run refutes it; and lists defaults of keys that the file omits."""
    if otherwise := evidence.against(What.WAITING):
        yield Assumption("Each task waits for its GPU work as the file says.", Support.REFUTED, otherwise)
    modes = [evidence.test.waiting] if evidence.test else [None]
    elsewhere = ("cpu_latency", "clocks")
    for line in assumption_lines([one for one in of_tests(evidence.file.taskset, modes) if one.key not in elsewhere]):
        text = "the file's author may state it"
        yield Assumption(line[0].upper() + line[1:] + ".", Support.UNCHECKED, text)


def _placement(evidence: Evidence) -> Assumption:
    assumed = "Each task stays on its CPU, at its SCHED_FIFO priority."
    if lacking := evidence.objected(Code.CPUS):
        return Assumption(assumed, Support.REFUTED, f"{lacking}: make the report there, or give --elsewhere")
    if other := evidence.objected(Code.CPU_PRIORITY):
        return Assumption(assumed, Support.REFUTED, other)
    seen = [name for name, trace in evidence.real_runs if runs.placed_by_run(trace)]
    if seen:
        return Assumption(assumed, Support.UNREFUTED, f"gpurt run started them so in {', '.join(seen)}")
    return Assumption(assumed, Support.UNCHECKED, "no trace that was given is of tasks that gpurt run started so")
