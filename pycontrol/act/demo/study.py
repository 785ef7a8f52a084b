# SPDX-License-Identifier: GPL-2.0
"""The demonstration: the published case study under every policy, on the virtual GPU and in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from analysis import taskset
from analysis.answers import registry
from analysis.answers.loading import without_workers
from analysis.model import POLICIES, Task, Taskset
from analysis.rta import Failure
from analysis.simulation.simulate import Observed, SimulationError, worst_over_offsets
from analysis.simulation.simulate import Options as Simulated
from analysis.taskset import TasksetFile
from gpurt.errors import DeviceError, FileError, GpurtError, RuntimeFailure, UsageError
from gpurt.text import is_terminal, visible
from pycontrol.act.demo import table as demo_table
from pycontrol.act.demo.boosted import unable_here, within_file
from pycontrol.act.demo.results import SETUPS, Approach, Results, SetupResult, TaskInfo, TaskResult
from pycontrol.act.run import crew, launch
from pycontrol.act.run.emulator import Emulator
from pycontrol.link import control as client
from pycontrol.observe.judge.check import compare_tasks

CASE_STUDY = Path("examples") / "case-study.toml"
#: Number of random first releases with which each set-up is simulated.
OFFSETS = 200
#: The values that `--policy` accepts: policies, or single set-ups.
CHOICES = tuple(dict.fromkeys([*(s.policy for s in SETUPS), *(s.name for s in SETUPS)]))


@dataclass(frozen=True)
class StudyOptions:
    """What to demonstrate.

    ``device``: a host that runs already, None to start an emulator; its policy is changed, and restored at the end.
    ``policies``: some of CHOICES, all if empty.  ``seconds``: for each set-up.  ``out``: folder for the results.
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
            UsageError: one is unknown.
        """
        for name in self.policies:
            if name not in CHOICES:
                raise UsageError(f"there is no set-up {name!r}; choose from {', '.join(CHOICES)}")
        return tuple(s for s in SETUPS if not self.policies or {s.name, s.policy} & set(self.policies))


def case_study() -> Path:
    """The published case study, in the source tree or where the package installed it.

    Raises:
        FileError: it is in neither place.
    """
    places = [Path(__file__).resolve().parents[3] / CASE_STUDY, Path(sys.prefix) / "share" / "gpurt" / CASE_STUDY]
    for place in places:
        if place.is_file():
            return place
    raise FileError(f"{CASE_STUDY} is not installed; run `gpurt demo` from a checkout of gpurt")


def _bound(test: str, tasks: Taskset) -> tuple[dict[str, int | None], dict[str, str]]:
    """The WCRT of each task, ns, and for a task without one the reason in a few words."""
    result = registry.find_test(test).run(tasks)
    why = {name: "no bound" for name, verdict in result.verdicts.items() if isinstance(verdict, Failure)}
    return {task.name: result.wcrt(task.name) for task in tasks}, why


def _simulate(setup: Approach, tasks: Taskset, seed: int) -> dict[str, Observed]:
    try:
        return dict(worst_over_offsets(tasks, Simulated(setup.policy, setup.waiting, seed=seed), OFFSETS).tasks)
    except SimulationError as error:
        raise RuntimeFailure(f"{setup.name} cannot be simulated: {error}") from None


def _analysed(setup: Approach, file: TasksetFile, options: StudyOptions) -> dict[str, TaskResult]:
    """Each task's bound and its response in virtual time; nothing of this machine yet."""
    bounds, why = _bound(setup.test, file.taskset)
    return {
        name: TaskResult(None, 0, 0, None, seen.worst if seen.finished else None, bounds[name], why.get(name, ""))
        for name, seen in _simulate(setup, file.taskset, options.seed).items()
    }


def _run(setup: Approach, file: TasksetFile, options: StudyOptions, device: str, progress: crew.Progress) -> launch.Run:
    how = crew.CrewOptions(
        options.seconds, device, setup.policy, setup.waiting, managed=setup.managed, seed=options.seed
    )
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
    """The results of a set-up, its run, and remarks.  There is no run if this machine or its host cannot do it."""
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
    """A connection to the host.  Restores the policy at the end if ``restore``."""
    with client.connect(device) as control:
        before = control.gpus()[0]
        if not before.emulated:
            raise UsageError(f"{device}: has no virtual GPU, which the demonstration's tasks need")
        try:
            yield control
        finally:
            if restore:
                with suppress(DeviceError):  # the host has gone, which is told already
                    control.set_policy(before.policy, gpu=0)


def _run_all(
    setups: Sequence[Approach], file: TasksetFile, options: StudyOptions, device: str, console: Console
) -> tuple[list[SetupResult], bool, list[str], BaseException | None]:
    """The results of each set-up, whether they are comparable, remarks, and what ended it early.

    A set-up that fails ends it; what was seen before is kept.  Raises what ended the first one.
    """
    results: list[SetupResult] = []
    notes: dict[str, None] = {}
    comparable = True
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    shown = bar.add_task("", total=options.seconds * len(setups))
    with _policies(device, options.device is not None) as control, bar:
        for number, setup in enumerate(setups):
            name = f"{setup.policy}, {setup.waiting.value}"
            bar.update(shown, description=f"[{number + 1}/{len(setups)}] {name}")
            if not console.is_terminal:
                console.print(f"[{number + 1}/{len(setups)}] {name}: {options.seconds:g} s", markup=False)
            done = number * options.seconds

            def advance(seconds: float, done: float = done) -> None:
                bar.update(shown, completed=done + seconds)

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


def demonstrate(options: StudyOptions, console: Console) -> Results:
    """Runs the case study under every set-up and writes results, picture and traces; prints progress.

    If a later set-up fails, or Ctrl-C comes, the results of those before it are written (``Results.ended``).

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
        found, comparable, notes, ended = _run_all(setups, file, options, device, console)
        notes = [*_circumstances(options, emulator), *notes]
    results = Results(
        file.path.name.removesuffix(".toml"), tuple(map(_info, file.taskset)), tuple(found), options.seconds,
        OFFSETS, comparable, tuple(notes), ended,
    )  # fmt: skip
    results.save(options.out / "results.json")
    return results


class Output(Console):
    """Stdout.  If its reader has gone, rich itself would exit with 1, the code for "no"."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError."""
        raise BrokenPipeError


def progress_console() -> Console:
    """A console that shows progress on a terminal, and nothing on stdout."""
    return Console(stderr=True, quiet=not is_terminal(sys.stderr))


def draw_study(results: Results, options: StudyOptions) -> list[Path]:
    """Draws the picture; returns the names of all files of the demonstration.

    Raises:
        FileError: the picture cannot be written.
    """
    from pycontrol.act.demo import plot

    pictures = plot.save_plot(results, options.out / results.taskset, _footer(results))
    return [*pictures, options.out / "results.json", *(one.trace for one in results.setups if one.trace)]


def claim(results: Results) -> str:
    """The verdict of virtual time on the bounds."""
    verdict = "do NOT hold" if results.unsound else f"hold, over {results.offsets} random offsets for each policy"
    return f"Bounds are claims for the system in the file, in virtual time: there they {verdict}"


def conclude(results: Results, options: StudyOptions, console: Console) -> None:
    """Draws the picture, and prints the tables, the circumstances and the names of the files written.

    Raises:
        FileError: the picture cannot be written.
        RuntimeFailure: a bound was exceeded in virtual time.  Raised after everything was printed, as is what ended the
            demonstration early.
    """
    files = draw_study(results, options)
    console.print(demo_table.virtual_time(results))
    console.print(f"- {claim(results)}\n", markup=False, highlight=False)
    console.print(demo_table.this_machine(results))
    for note in results.notes:
        console.print(f"- {visible(note)}", markup=False, highlight=False)
    for path in files:
        console.print(f"wrote {visible(path)}", markup=False, highlight=False, soft_wrap=True)
    if results.ended:
        raise results.ended
    if results.unsound:
        raise RuntimeFailure("a bound is exceeded in virtual time: " + "; ".join(results.unsound))


def run_study(options: StudyOptions, console: Console | None = None) -> Results:
    """The whole demonstration, as `gpurt demo` shows it: tables, circumstances, picture, files.

    Raises:
        GpurtError: as `demonstrate` and `conclude` do.
    """
    console = console or Output()
    results = demonstrate(options, console)
    conclude(results, options, console)
    return results
