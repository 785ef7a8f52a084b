# SPDX-License-Identifier: GPL-2.0
"""A measured task as an entry of a taskset file.  A value that was not measured is a `?`, which no command takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median_low

from analysis.taskset import task_name
from analysis.taskset.clocks import shown
from gpurt.enums import Policy
from gpurt.text import visible
from gpurt.units import UNKNOWN_TIME, US, format_time
from pycontrol.machine.clocks import UNKNOWN_CLOCKS, Clock, MachineClocks, told
from pycontrol.measure.conditions import Condition, Here, about, left_out
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileResult
from pycontrol.measure.summary import MeasuredTime, chances, reduced

#: The beginning of an entry.
ENTRY_MARK = "Measured by gpurt measure times: "
#: A thread sleeps if it slept for at least the first share of its GPU work, and spins if for at most the second.
SLEPT, SPUN = 0.9, 0.5


@dataclass(frozen=True, slots=True)
class Account:
    """How a task was measured.

    ``period``: as the user said, ns; None: from the releases.  ``without``: the omitted conditions, with
    reasons.  ``after``: the clocks after the runs.  ``nvidia``: nvidia-smi's words about them.
    """

    name: str
    period: int | None
    command: Sequence[str]
    plan: Sequence[Planned]
    results: Sequence[ProfileResult]
    stopped: str
    margin: Fraction
    here: Here
    without: Mapping[Condition, str]
    after: MachineClocks = UNKNOWN_CLOCKS
    nvidia: Sequence[str] = ()

    @property
    def clocks(self) -> Measured:
        """The clocks at which the times were measured."""
        virtual = bool(self.here.gpus) and all(gpu.emulated for gpu in self.here.gpus)
        return Measured(self.here.clocks, self.after, self.nvidia, virtual)


def percent(share: Fraction) -> str:
    """A share in the user's notation: 1/5 is "20%"."""
    return f"{float(share * 100):g}%"


def entry(account: Account, times: Sequence[MeasuredTime]) -> str:
    """The [[task]] entry in TOML."""
    priority = account.here.priority
    head = [visible(line) for line in _account(account, times)]
    return "\n".join([
        *(f"# {line}" for line in head),
        "[[task]]",
        f'name = "{task_name(account.name)}"',
        *_process(account),
        f'cpu = "{UNKNOWN_TIME}"  # not measured',
        f"priority = {priority}" if priority else f'priority = "{UNKNOWN_TIME}"  # not measured',
        _period(account),
        _waiting(account),
        *account.clocks.key(),
        "segments = [",
        *_segments(account, times),
        "]",
    ])  # fmt: skip


def _process(account: Account) -> list[str]:
    """The key `process` if the program also reported jobs of other tasks: one client has the GPU for all of them."""
    beside = sorted({name for one in account.results for name in one.jobs.beside})
    if not beside:
        return []
    how = "some at the same time: threads of one process"
    if not any(one.jobs.at_once for one in account.results):
        how = "never at the same time: if one thread does both, they are of one [[thread]] (docs/manual/callbacks.md)"
    named = ", ".join(map(visible, beside))
    return [f'process = "{task_name(Path(account.command[0]).name)}"  # it told of jobs of {named}, too, {how}']


def _period(account: Account) -> str:
    """The period: as the user said, or the least distance of releases without the margin, in whole us."""
    if account.period is not None:
        return f'period = "{format_time(account.period)}"  # as --period says'
    seen = [one.jobs.apart for one in account.results if one.jobs.apart is not None]
    count = sum(one.jobs.distances for one in account.results)
    if not seen or not (least := reduced(min(seen), account.margin)):
        return f'period = "{UNKNOWN_TIME}"  # not measured, for the program announced no two jobs in a row'
    return (
        f'period = "{format_time(least)}"  # the least distance of {count} between releases, {format_time(min(seen))}, '
        f"less {percent(account.margin)}; no bound"
    )


def _waiting(account: Account) -> str:
    """What the threads did while their GPU work executed; "?" if that is not known.

    A thread may also be off its CPU because it was preempted.  So a single job that hardly slept proves more than jobs
    that slept, and most jobs must have slept inside their segments.
    """
    jobs = [job for run in account.results for job in run.jobs.jobs if job.segments]
    shares = [job.slept for job in jobs]
    if not shares or None in shares:
        return f'waiting = "{UNKNOWN_TIME}"  # not measured, for the program said no CPU time of its jobs'
    least = min(share for share in shares if share is not None)
    sure = median_low(job.surely_slept or 0 for job in jobs)
    seen = all(part.misc is not None for run in account.results for part in run.segments)
    busy = least <= (SPUN if seen else 1 - SLEPT)
    word = "suspend" if min(least, sure) >= SLEPT else "busy" if busy else UNKNOWN_TIME
    return f'waiting = "{word}"  # in each job its thread was on no CPU for {least:.0%} of its GPU work at least'


def _account(account: Account, times: Sequence[MeasuredTime]) -> list[str]:
    """What was done and seen, line by line."""
    results = account.results
    jobs, size = sum(len(one.jobs.jobs) for one in results), len(results[0].jobs.jobs[0].segments)
    gpus = {f"{one.driver} ({one.tier.word}), policy {one.policy.word}" for one in account.here.gpus}
    runs = Counter(one.planned.condition for one in results)
    return [
        f"{ENTRY_MARK}{len(results)} of {len(account.plan)} runs; "
        f"jobs: {jobs}, GPU segments in each: {size}; on {', '.join(sorted(gpus))}.",
        _command(account.command),
        f"Largest and smallest observed times, with a margin of {percent(account.margin)}; no bounds:",
        f"{chances(len(results))}.",
        f"Clocks: {account.clocks.text()}.",
        *([f"NOT ALL RUNS: {account.stopped}"] if account.stopped else []),
        *(f"Condition {one.value}, {runs[one]} runs: {about(one, account.here)}." for one in Condition if one in runs),
        *(f"Not measured: {one}." for one in left_out(account.without)),
        *(f"Note: {one}." for one in run_remarks(account)),
        *map(_line, times),
        *(f"WARNING: {warning}." for one in times for warning in one.warnings),
    ]


def _command(words: Sequence[str]) -> str:
    return f"Command: {' '.join(words)}"


def run_remarks(account: Account) -> list[str]:
    """Facts about the runs that the user should know, besides their times."""
    results = account.results
    notes = []
    pairs = len({one.condition for one in account.plan}) * len({one.given for one in account.plan})
    seen = len({(one.planned.condition, one.planned.given) for one in results})
    if seen < pairs:
        notes.append(f"{pairs - seen} of {pairs} pairs of input and condition were not measured")
    if outside := sum(one.jobs.outside for one in results):
        notes.append(f"GPU segments of no job, which were left out: {outside}")
    notes += _others(results)
    notes += account.clocks.warnings()
    if any(gpu.policy is Policy.TIMESLICED for gpu in account.here.gpus):
        notes.append("under policy timesliced what else used the GPU counts in the times; measure under another policy")
    elif any(not segment.priority for one in results for segment in one.segments):
        notes.append("some segments were best effort: what else used the GPU counts in their times; give --priority")
    return notes


def _others(results: Sequence[ProfileResult]) -> list[str]:
    """A remark if much CPU time is outside jobs: a job only has the time of the thread that reports it."""
    spent = [job.cpu for one in results for job in one.jobs.jobs if job.cpu is not None]
    used, inside = sum(one.cpu for one in results), sum(spent)
    if not spent or 10 * (used - inside) <= used:
        return []
    return [
        f"of {_whole(used)} of CPU time, threads that announce jobs used {_whole(inside)} in them; the rest is "
        "start-up, other tasks or other threads: what other threads do for a job is in none of its times"
    ]


def _whole(time: int) -> str:
    """A time in whole microseconds."""
    return format_time(time // US * US)


def _line(one: MeasuredTime) -> str:
    """The line about a time and its observations."""
    where = f"run {one.run.number} ({one.run.condition.value}{_given(one.run)})"
    each = ", ".join(f"{condition.value} {format_time(time)}" for condition, time in one.by_condition.items())
    return (
        f"Observed {one.name}: at most {format_time(one.worst)}, at least {format_time(one.best)}, in {one.count}; "
        f"the largest in {where}; largest by condition: {each}."
    )


def _given(planned: Planned) -> str:
    return "" if planned.given is None else f", input {planned.given}"


def _segments(account: Account, times: Sequence[MeasuredTime]) -> list[str]:
    by_place = {(one.segment, one.what): one for one in times}
    size = len(account.results[0].jobs.jobs[0].segments)
    return [
        _cpu(account, by_place.get((0, "cpu"))),
        *(_gpu(by_place.get((at, "misc")), by_place[at, "gpu"]) for at in range(1, size + 1)),
    ]


def _cpu(account: Account, known: MeasuredTime | None) -> str:
    """The CPU segment, with a job's CPU time if the program reports it."""
    if known is not None:
        return f"  {{ cpu = {_span(known)} }},  # of the thread that announces the job, also inside its GPU segments"
    jobs = sum(len(one.jobs.jobs) for one in account.results)
    mean = format_time(sum(one.cpu for one in account.results) // jobs // 1000 * 1000)
    return (
        f'  {{ cpu = "{UNKNOWN_TIME}" }},  # not measured, for the program announces no jobs with CPU times; its start '
        f"included, it used {mean} of CPU time per job in the mean"
    )


def _gpu(misc: MeasuredTime | None, gpu: MeasuredTime) -> str:
    if misc is None:
        return (
            f'  {{ misc = "{UNKNOWN_TIME}", gpu = {_span(gpu)} }},  # gpu: all the time with the GPU, for this host '
            "sees no work; misc: how much of that is CPU work"
        )
    return f"  {{ misc = {_span(misc)}, gpu = {_span(gpu)} }},"


def _span(time: MeasuredTime) -> str:
    worst, best = time.written
    return f'{{ worst = "{format_time(worst)}", best = "{format_time(best)}" }}'


def settings(seen: MachineClocks) -> list[str]:
    """The settings of clocks, in words: times measured under other settings have no common worst case."""
    return [*(f"{one.name} {one.text}" for one in (*seen.cpus, *seen.gpus)), f"power mode {seen.power_mode}"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Two looks at the machine.  ``nvidia``: nvidia-smi's words.  ``virtual``: the GPUs have no clock."""

    before: MachineClocks
    after: MachineClocks
    nvidia: Sequence[str] = ()
    virtual: bool = False

    @property
    def changed(self) -> bool:
        """Whether settings have changed between the looks: then the settings of each run are not known."""
        return settings(self.before) != settings(self.after)

    @property
    def temperature(self) -> int | None:
        """The higher temperature of the two looks, degrees Celsius."""
        return max((one.temperature for one in (self.before, self.after) if one.temperature is not None), default=None)

    @property
    def _gpus(self) -> Sequence[Clock]:
        return () if self.virtual else self.after.gpus

    def key(self) -> list[str]:
        """The entry's line with the held clocks, where all CPUs or GPUs have the same; none if nothing is known."""
        if self.changed:
            return []
        speeds, governors = {one.hertz for one in self.after.cpus}, {one.governor for one in self.after.cpus}
        values: list[tuple[str, int | str | None]] = [
            ("cpu", _only(speeds)), ("governor", _only(governors)), ("gpu", _only({one.hertz for one in self._gpus})),
            ("power_mode", self.after.power_mode),
        ]  # fmt: skip
        pairs = [f"{key} = {_quoted(value)}" for key, value in values if value is not None]
        pairs += [] if self.temperature is None else [f"temperature = {self.temperature}"]
        return [f"clocks = {{ {', '.join(pairs)} }}"] if pairs else []

    def text(self) -> str:
        """The clocks in words."""
        pieces = [*told([*self.after.cpus, *self._gpus]), *self.nvidia]
        pieces += [f"power mode {self.after.power_mode}"] if self.after.power_mode else []
        pieces += [] if self.temperature is None else [f"up to {self.temperature} degrees Celsius"]
        if self.changed:
            pieces.append("they have CHANGED during the measurement, from " + ", ".join(settings(self.before)))
        lacking = [what for what, there in (("the CPUs'", self.after.cpus), ("the GPU's", self._gpus or self.virtual))
                   if not there]  # fmt: skip
        return "; ".join([*pieces, *(f"{what} unknown, for nothing here tells it" for what in lacking)])

    def warnings(self) -> list[str]:
        """Why the times may have been measured at different clocks."""
        if self.changed:
            return ["the settings of clocks have changed during the measurement: measure again"]
        loose = [one for one in (*self.after.cpus, *self._gpus) if one.hertz is None]
        if not loose:
            return []
        return [f"{loose[0].name} is {loose[0].text}; times at a lower clock are longer (docs/manual/clocks.md)"]


def _only(values: set[int | None] | set[str | None]) -> int | str | None:
    return next(iter(values)) if len(values) == 1 else None


def _quoted(value: int | str) -> str:
    return f'"{shown(value)}"' if isinstance(value, int) else shown(value)
