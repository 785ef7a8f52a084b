# SPDX-License-Identifier: GPL-2.0
"""The demonstration: the published case study under every policy, on the virtual GPU and in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from analysis import taskset
from analysis.answers import registry
from analysis.answers.loading import without_workers
from analysis.model import POLICIES, Task, Taskset
from analysis.rta import Failure
from analysis.simulation.simulate import Observed, SimulationError, worst_over_offsets
from analysis.simulation.simulate import Options as Simulated
from analysis.taskset import TasksetFile
from gpurt.errors import DeviceError, FileError, GpurtError, RuntimeFailure, UsageError
from pycontrol.act.demo.boosted import unable_here, within_file
from pycontrol.act.demo.results import SETUPS, Approach, Results, SetupResult, TaskInfo, TaskResult
from pycontrol.act.run import crew, launch
from pycontrol.act.run.emulator import Emulator
from pycontrol.link import control as client
from pycontrol.observe.judge.check import compare_tasks
from pycontrol.output import render

CASE_STUDY = Path("examples") / "case-study.toml"
#: With how many random first releases each set-up is simulated.
OFFSETS = 200
#: The values of `--policy`: policies, or single set-ups.
CHOICES = tuple(dict.fromkeys([*(s.policy for s in SETUPS), *(s.name for s in SETUPS)]))


@dataclass(frozen=True)
class StudyOptions:
    """The options of the demonstration.

    ``device``: a running host, whose policy is changed and restored at the end; None: start an emulator.  ``policies``:
    some of CHOICES; empty: all.  ``seconds``: for each set-up.  ``out``: the results' folder.
    """

    device: str | None = None
    seconds: float = 12.0
    policies: tuple[str, ...] = ()
    out: Path = Path("demo-results")
    file: Path | None = None
    seed: int = 1

    def setups(self) -> tuple[Approach, ...]:
        """The set-ups that ``policies`` selects.

        Raises:
            UsageError: a name is unknown.
        """
        for name in self.policies:
            if name not in CHOICES:
                raise UsageError(f"there is no set-up {name!r}; choose from {', '.join(CHOICES)}")
        return tuple(s for s in SETUPS if not self.policies or {s.name, s.policy} & set(self.policies))


def case_study() -> Path:
    """The path of the published case study, in the source tree or in the installed package.

    Raises:
        FileError: neither place has it.
    """
    places = [Path(__file__).resolve().parents[3] / CASE_STUDY, Path(sys.prefix) / "share" / "gpurt" / CASE_STUDY]
    for place in places:
        if place.is_file():
            return place
    raise FileError(f"{CASE_STUDY} is not installed; run `gpurt demo` from a checkout of gpurt")


def _bound(test: str, tasks: Taskset) -> tuple[dict[str, int | None], dict[str, str]]:
    """The WCRT of each task, ns, and for each task without a WCRT the reason in a few words."""
    result = registry.find_test(test).run(tasks)
    why = {name: "no bound" for name, verdict in result.verdicts.items() if isinstance(verdict, Failure)}
    return {task.name: result.wcrt(task.name) for task in tasks}, why


def _simulate(setup: Approach, tasks: Taskset, seed: int) -> dict[str, Observed]:
    try:
        return dict(worst_over_offsets(tasks, Simulated(setup.policy, setup.waiting, seed=seed), OFFSETS).tasks)
    except SimulationError as error:
        raise RuntimeFailure(f"{setup.name} cannot be simulated: {error}") from None


def _analysed(setup: Approach, file: TasksetFile, options: StudyOptions) -> dict[str, TaskResult]:
    """Each task's bound and its response in virtual time, without this machine's observations."""
    bounds, why = _bound(setup.test, file.taskset)
    return {
        name: TaskResult(None, 0, 0, None, seen.worst if seen.finished else None, bounds[name], why.get(name, ""))
        for name, seen in _simulate(setup, file.taskset, options.seed).items()
    }


def _run(setup: Approach, file: TasksetFile, options: StudyOptions, device: str, progress: crew.Progress) -> launch.Run:
    how = crew.CrewOptions(options.seconds, device, setup.policy, setup.waiting, managed=setup.managed)
    run = launch.launch(file, how, progress)
    if run.interrupted:
        raise KeyboardInterrupt
    if run.failed:
        run.trace.save(options.out / f"trace-{setup.name}.json")
        raise RuntimeFailure(run.failed)
    if silent := [task.name for task in file.taskset if task.name not in run.reports]:
        raise RuntimeFailure(f"task {silent[0]} reported nothing; was it killed?")
    run.trace.save(options.out / f"trace-{setup.name}.json")
    return run


def _run_one(
    setup: Approach, file: TasksetFile, options: StudyOptions, device: str, host: client.Control,
    progress: crew.Progress,
) -> tuple[SetupResult, launch.Run | None, list[str]]:
    """The results of a set-up, its run, and remarks; no run if this machine or its host cannot execute it."""
    analysed, notes = _analysed(setup, file, options), []
    if POLICIES[setup.policy].raises:
        normal = host.gpus()[0].normal_priorities
        file, remark = within_file(file, normal)
        if why := unable_here(file, normal):
            return SetupResult(setup, analysed, None), None, [f"policy boosted was not run on this machine: {why}"]
        notes = [remark] if remark else []
    host.set_policy(setup.policy, gpu=0)
    run = _run(setup, file, options, device, progress)
    tasks = {
        line.task: replace(
            analysed[line.task], observed=line.mort, jobs=line.jobs, misses=line.misses,
            throughput=line.jobs / run.seconds,
        )
        for line in compare_tasks(run.trace, file)
    }  # fmt: skip
    return SetupResult(setup, tasks, options.out / f"trace-{setup.name}.json"), run, notes


@contextmanager
def _policies(device: str, restore: bool) -> Iterator[client.Control]:
    """A connection to the host.  If ``restore``, the host's policy is restored at the end."""
    with client.connect(device) as control:
        before = control.gpus()[0]
        if not before.emulated:
            raise UsageError(f"{device}: has no virtual GPU, which the demonstration's tasks need")
        try:
            yield control
        finally:
            if restore:
                with suppress(DeviceError):  # the host has gone, which was already reported
                    control.set_policy(before.policy, gpu=0)


def _run_all(
    setups: Sequence[Approach], file: TasksetFile, options: StudyOptions, device: str
) -> tuple[list[SetupResult], bool, list[str], BaseException | None]:
    """The results of each set-up, whether they are comparable, remarks, and the error that ended the series early.

    A failing set-up ends the series; earlier results are kept.  If the first set-up fails, raises its error.
    """
    results: list[SetupResult] = []
    notes: dict[str, None] = {}
    comparable = True
    shown = render.progress(int(options.seconds * len(setups)), "running, seconds")
    with _policies(device, options.device is not None) as control, shown as bar:
        for number, setup in enumerate(setups):

            def advance(seconds: float, done: float = number * options.seconds) -> None:
                bar.reach(int(done + seconds))

            try:
                result, run, remarks = _run_one(setup, file, options, device, control, advance)
            except (GpurtError, KeyboardInterrupt) as error:
                if not results:
                    raise
                why = str(error) or "interrupted"
                partial = f"partial: {len(results)} of {len(setups)} policies were run: {why}"
                return results, comparable, [*notes, partial], error
            results.append(result)
            notes |= dict.fromkeys(remarks)
            if run:
                notes |= dict.fromkeys(run.notes)
                comparable = comparable and run.fifo and not run.placement.folded
    return results, comparable, list(notes), None


def _circumstances(options: StudyOptions, emulator: Emulator | None) -> list[str]:
    where = f"the host at {options.device}" if options.device else "an emulator of its own"
    notes = [f"Virtual GPU, on {where}: kernels are waiting times of the right length, everything else is real"]
    return [*notes, *(emulator.remarks() if emulator else [])]


def _info(task: Task) -> TaskInfo:
    return TaskInfo(task.name, task.cpu, task.priority, task.period, task.deadline)


def _footer(results: Results) -> str:
    here = "is as the file says" if results.comparable else "is not the file's: compare bounds with virtual time only"
    return (
        f"virtual time: {results.offsets} random offsets; this machine: {results.seconds:g} s a policy, worst-case "
        f"execution times; it {here}"
    )


def demonstrate(options: StudyOptions) -> Results:
    """Runs the case study under every set-up and writes results and traces; shows progress.

    If a later set-up fails, or at Ctrl-C, the results of earlier set-ups are written (``Results.ended``).

    Raises:
        FileError: results cannot be written, or the case study cannot be read.
        RuntimeFailure: a task or the emulator failed.
        UsageError: an option is wrong.
    """
    setups = options.setups()
    crew.CrewOptions(options.seconds)  # raises UsageError before anything runs
    file = without_workers(taskset.load(options.file or case_study()))
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{options.out}: {error.strerror}; name another directory with -o") from None
    if not file.taskset.tasks:
        raise UsageError(f"{file.path}: has no tasks to demonstrate")
    with nullcontext() if options.device else Emulator(file.taskset.platform) as emulator:
        device = options.device or str(emulator.socket if emulator else "")
        found, comparable, notes, ended = _run_all(setups, file, options, device)
        notes = [*_circumstances(options, emulator), *notes]
    results = Results(
        file.path.name.removesuffix(".toml"), tuple(map(_info, file.taskset)), tuple(found), options.seconds,
        OFFSETS, comparable, tuple(notes), ended,
    )  # fmt: skip
    results.save(options.out / "results.json")
    return results


def draw_study(results: Results, options: StudyOptions) -> list[Path]:
    """Draws the picture; returns the names of all files of the demonstration.

    Raises:
        FileError: the picture cannot be written.
    """
    from pycontrol.act.demo import plot

    pictures = plot.save_plot(results, options.out / results.taskset, _footer(results))
    return [*pictures, options.out / "results.json", *(one.trace for one in results.setups if one.trace)]


def claim(results: Results) -> str:
    """What virtual time shows about the bounds."""
    verdict = "do NOT hold" if results.unsound else f"hold, over {results.offsets} random offsets for each policy"
    return f"Bounds are claims for the system in the file, in virtual time: there they {verdict}"


def text_of(results: Results, files: Sequence[Path]) -> str:
    """The results as a table with a line for each task under each set-up, and the names of the files."""
    shown = list[tuple[str, ...]]()
    for task in results.tasks:
        due = "-" if task.best_effort else short_ms(task.deadline)
        for one in results.setups:
            cells = _cells(task, one.tasks[task.name], results.comparable)
            shown.append((task.name, one.setup.policy, one.setup.waiting.value, due, *cells))
    headers = ("task", "policy", "waits", "due", "MORT", "WCRT", "here", "missed")
    other = "" if results.comparable else "; this machine is not the file's: no bound speaks of it"
    legend = (
        "Times in ms. MORT: the longest response time of simulated runs; WCRT: the bound by analysis;\n"
        f"here: the longest on this machine{other}.\n"
        "! is late, > above its bound. missed: jobs that were late here, of all; of a best-effort task jobs per second."
    )
    return "\n".join([render.table(headers, shown, blocks=False), legend, *(f"wrote {path}" for path in files)])


def _cells(task: TaskInfo, one: TaskResult, comparable: bool) -> tuple[str, str, str, str]:
    """Observations in virtual time, bounds, and observations on this machine."""
    limit = None if task.best_effort else task.deadline
    proved = one.why_no_bound if one.bound is None and one.why_no_bound else short_ms(one.bound)
    missed = "-" if one.throughput is None else f"{one.misses}/{one.jobs}"
    if task.best_effort:
        proved = "-"
        missed = "-" if one.throughput is None else f"{one.throughput:.1f}/s"
    here = short_ms(one.observed) + _mark(one.observed, limit, comparable and one.above_bound)
    return short_ms(one.simulated) + _mark(one.simulated, limit, one.unsound), proved, here, missed


def _mark(time: int | None, limit: int | None, above: bool) -> str:
    late = limit is not None and time is not None and time > limit
    return ("!" if late else "") + (">" if above else "")


def short_ms(time: int | None) -> str:
    """A time in ms with four digits, so that the table's columns fit into 80 characters."""
    if time is None:
        return "-"
    value = time / 1e6
    return f"{value:.{2 if value < 99.995 else 1 if value < 999.95 else 0}f}"
