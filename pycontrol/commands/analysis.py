# SPDX-License-Identifier: GPL-2.0
"""Commands that need nothing but a file: analyze, assign, simulate, check, plot, schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pycontrol import render
from pycontrol.errors import UsageError
from pycontrol.render import ms

FILE = click.argument("file", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _tests(names: tuple[str, ...]) -> list[Any]:
    from analysis import rta

    try:
        return [rta.find(name) for name in names] or [test for test in rta.TESTS.values() if test.sound]
    except ValueError as error:
        raise UsageError(f"--test: {error}") from None


@click.command(
    epilog="""\b
Examples:
  gpurt analyze examples/case-study.toml
  gpurt analyze examples/case-study.toml --test gcaps-busy --explain dxtc
  gpurt analyze examples/case-study.toml --region 400us
  gpurt analyze robot.toml --measured               with what updates cost on this machine
\b
Exit codes: 0 schedulable under at least one of the tests; 1 under none; 2 wrong usage; 3 the file is wrong;
4 no host, or one that has measured nothing."""
)
@FILE
@click.option("--test", "names", multiple=True, metavar="NAME", help="A test; may be repeated. All sound ones if none.")
@click.option("--explain", metavar="TASK", help="Show what a task's bound is made of, and the lemma of each part.")
@click.option("--region", metavar="TIME", help="The longest thread block or copy chunk, which every preemption of the "
              "GPU may have to wait for; none unless given.")  # fmt: skip
@click.option("--measured", is_flag=True, help="The longest runlist update that the host has seen, instead of alpha.")
@JSON
@click.pass_obj
def analyze(
    device: str | None, file: Path, names: tuple[str, ...], explain: str | None, region: str | None, measured: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Bound every task's worst-case response time, and say whether every deadline holds."""
    from analysis import fast
    from pycontrol import taskset

    loaded = taskset.load(file)
    tests = _tests(names)
    if explain is not None and explain not in {t.name for t in loaded.taskset}:
        raise UsageError(f"--explain: {file} has no task {explain!r}")
    system, notes = _with_region(loaded.taskset, region), list(loaded.notes)
    if measured:
        system, note = _with_measured(system, device)
        notes.append(note)
    data, passed = [], False
    if not as_json:
        for note in notes:
            click.echo(f"note: {note}", err=True)
    for test in tests:
        result = fast.run(test, system)
        passed = passed or result.schedulable
        if as_json:
            data.append(_result(test, result))
        else:  # as they come: a large taskset takes some tests minutes
            click.echo(_explained(test, result, explain) if explain else _tabulated(test, result))
            click.echo()
    if as_json:
        click.echo(json.dumps({"file": str(file), "notes": notes, "tests": data}, indent=2))
    return 0 if passed else 1


def _with_measured(system: Any, device: str | None) -> tuple[Any, str]:
    """The taskset with alpha as the host has measured it, and a line that says so."""
    from dataclasses import replace

    from pycontrol import client
    from pycontrol.errors import DeviceError

    with client.connect(device) as control:
        seen = control.latency()
        theta = max(status.theta_ns for status in control.status())
    if not seen:
        raise DeviceError("the host has carried out no runlist update yet: let the programs run first")
    longest, count = max(one.maximum for one in seen), sum(one.count for one in seen)
    theta = max(theta, system.platform.theta)
    changed = replace(system, platform=replace(system.platform, alpha=longest, theta=theta))
    text = f"alpha is {ms(longest)} ms, the longest of {count} runlist updates that the host has seen"
    return changed, f"{text}; theta is {ms(theta)} ms. What was seen is no proof: add a margin"


def _with_region(loaded: Any, region: str | None) -> Any:
    from analysis.rta.regions import with_region
    from pycontrol.units import parse_time

    try:
        return with_region(loaded, parse_time(region)) if region else loaded
    except ValueError as error:
        raise UsageError(f"--region: {error}") from None


def _tabulated(test: Any, result: Any) -> str:
    from analysis.rta import Bound, Failure

    rows = []
    for name, verdict in result.verdicts.items():
        if isinstance(verdict, Bound):
            rows.append((name, ms(verdict.wcrt), ms(verdict.deadline), ms(verdict.slack), "yes"))
        elif isinstance(verdict, Failure):
            rows.append((name, "-", ms(verdict.deadline), "-", "NO"))
        else:
            rows.append((name, "-", "-", "-", "best effort"))
    lines = [
        f"{test.name} ({test.title}; {test.source}): " + ("schedulable" if result.schedulable else "NOT SCHEDULABLE")
    ]
    if not test.sound:
        lines.append(f"  UNSOUND, do not rely on it: {test.note}")
    lines.append(render.table(("task", "WCRT ms", "deadline ms", "slack ms", "in time"), rows))
    lines += [f"  {failure}" for failure in result.failures]
    return "\n".join(lines)


def _explained(test: Any, result: Any, task: str) -> str:
    from analysis.rta import Bound, Failure

    verdict = result.verdicts[task]
    if isinstance(verdict, Failure):
        return f"{test.name}: {verdict}"
    if not isinstance(verdict, Bound):
        return f"{test.name}: {task} is best effort: nothing is guaranteed to it"
    rows = [(term.kind.value, term.source or "", ms(term.amount), term.lemma) for term in verdict.terms]
    rows.append(("total", "", ms(verdict.wcrt), f"deadline {ms(verdict.deadline)}, slack {ms(verdict.slack)}"))
    warning = "" if test.sound else f"UNSOUND, do not rely on it: {test.note}\n"
    return f"{test.name}: {task}\n{warning}" + render.table(("part", "caused by", "ms", "from"), rows)


def _result(test: Any, result: Any) -> dict[str, Any]:
    from analysis.rta import Bound, Failure

    tasks = {}
    for name, verdict in result.verdicts.items():
        if isinstance(verdict, Bound):
            terms = [
                {"kind": t.kind.value, "source": t.source, "ns": t.amount, "lemma": t.lemma} for t in verdict.terms
            ]
            tasks[name] = {"wcrt_ns": verdict.wcrt, "deadline_ns": verdict.deadline, "slack_ns": verdict.slack,
                           "in_time": True, "terms": terms}  # fmt: skip
        elif isinstance(verdict, Failure):
            tasks[name] = {"wcrt_ns": None, "deadline_ns": verdict.deadline, "in_time": False,
                           "reason": verdict.reason.value, "why": str(verdict)}  # fmt: skip
        else:
            tasks[name] = {"best_effort": True}
    return {
        "test": test.name, "sound": test.sound, "note": test.note, "schedulable": result.schedulable, "tasks": tasks,
    }  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  gpurt assign set.toml
  gpurt assign set.toml --test gcaps-busy --write
\b
Exit codes: 0 the taskset is schedulable, with the priorities printed if any; 1 no assignment makes it so."""
)
@FILE
@click.option("--test", "name", default="gcaps-suspend", show_default=True, metavar="NAME", help="The test to pass.")
@click.option("--write", is_flag=True, help="Write the priorities into the file; nothing else in it changes.")
@JSON
def assign(file: Path, name: str, write: bool, as_json: bool) -> int:
    """Find GPU priorities by Audsley's method where the file's own fail the test."""
    from pycontrol import taskset
    from pycontrol.taskset_write import write_values

    loaded = taskset.load(file)
    (test,) = _tests((name.removesuffix("+gpu-priority"),))
    if test.policy != "segment":
        raise UsageError(f"--test: {name} knows no GPU priorities; use gcaps-suspend or gcaps-busy")
    if test.run(loaded.taskset).schedulable:
        render.emit(
            {"schedulable": True, "assigned": {}}, as_json, f"schedulable under {test.name} as it is; nothing to assign"
        )
        return 0
    try:
        assignment = test.assign(loaded.taskset)
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None
    if assignment.priorities is None:
        render.emit({"schedulable": False, "why": str(assignment)}, as_json, f"not schedulable: {assignment}")
        return 1
    if write:
        write_values(file, {"gpu_priority": assignment.priorities})
    rows = [(task.name, str(task.priority), str(assignment.priorities[task.name]))
            for task in loaded.taskset if task.name in assignment.priorities]  # fmt: skip
    text = render.table(("task", "priority", "GPU priority"), rows) + (f"\nwritten to {file}" if write else "")
    render.emit({"schedulable": True, "assigned": assignment.priorities}, as_json, text)
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt simulate examples/case-study.toml --policy segment --waiting busy
  gpurt simulate set.toml --offsets 1 --trace run.json && gpurt plot run.json
\b
Exit codes: 0 no real-time task missed a deadline; 1 one did; 6 a sound bound was exceeded, which is a bug."""
)
@FILE
@click.option("--policy", default="segment", show_default=True, metavar="NAME", help="Scheduling policy.")
@click.option("--waiting", type=click.Choice(["busy", "suspend"]), help="Every task's waiting mode, not the file's.")
@click.option(
    "--offsets", default=1000, show_default=True, type=click.IntRange(1, 10**7), help="Runs from other first releases."
)
@click.option("--execution", type=click.Choice(["worst", "best", "random"]), default="worst", show_default=True)
@click.option("--sporadic", is_flag=True, help="Releases come up to a tenth of the period late.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same runs.")
@click.option("--trace", "trace_path", type=click.Path(path_type=Path), help="Write the first run as a trace.")
@JSON
def simulate(
    file: Path, policy: str, waiting: str | None, offsets: int, execution: str, sporadic: bool, seed: int,
    trace_path: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the taskset in virtual time on the scheduler that ships, from many first releases."""
    from analysis.model import Waiting
    from analysis.simulate import Options, SimulationError, simulate, worst_over_offsets
    from pycontrol import taskset

    loaded = taskset.load(file).taskset
    options = Options(policy, Waiting(waiting) if waiting else None, execution, sporadic, seed=seed)
    try:
        with render.progress(offsets, "simulating") as bar:
            done = [0]

            def step(runs: int) -> None:
                bar.update(runs - done[0])
                done[0] = runs

            seen = worst_over_offsets(loaded, options, offsets, step)
        if trace_path:
            trace = simulate(loaded, options, events=1_000_000).trace
            assert trace is not None
            trace.save(trace_path)
    except SimulationError as error:
        raise UsageError(str(error)) from None
    bounds = _bounds(loaded, policy, waiting)
    rows, data, code = [], {}, 0
    for task in loaded:
        observed, bound = seen.tasks[task.name], bounds.get(task.name)
        above = bound is not None and observed.worst > bound
        if not task.best_effort:
            code = max(code, 6 if above else 1 if observed.misses else 0)
        rows.append((task.name, str(observed.jobs), ms(observed.worst), ms(bound), ms(task.deadline),
                     str(observed.misses), "ABOVE ITS BOUND" if above else ""))  # fmt: skip
        data[task.name] = {"jobs": observed.jobs, "mort_ns": observed.worst, "wcrt_ns": bound,
                           "deadline_ns": task.deadline, "misses": observed.misses}  # fmt: skip
    text = render.table(("task", "jobs", "MORT ms", "WCRT ms", "deadline ms", "misses", ""), rows)
    render.emit({"policy": policy, "runs": offsets, "tasks": data}, as_json, text)
    return code


def _bounds(loaded: Any, policy: str, waiting: str | None) -> dict[str, int]:
    """Bounds that hold for what was simulated; none where no test knows the policy in these waiting modes."""
    from analysis import rta

    modes = {waiting} if waiting else {t.waiting.value for t in loaded if t.uses_gpu} or {"suspend"}
    wanted = modes.pop() if len(modes) == 1 else None
    for test in rta.TESTS.values():
        mode = test.waiting.value if test.waiting else None
        if test.sound and not test.assigns and test.policy == policy and mode == wanted:
            result = test.run(loaded)
            return {name: wcrt for name in result.verdicts if (wcrt := result.wcrt(name)) is not None}
    return {}


@click.command(
    epilog="""\b
Examples:
  gpurt check run.json examples/case-study.toml --test gcaps-suspend
\b
Exit codes: 0 every job met its deadline; 1 one did not, or exceeded its bound; 3 a file is wrong."""
)
@click.argument("trace", type=click.Path(path_type=Path))
@FILE
@click.option("--test", "name", metavar="NAME", help="Compare with this test's bounds too.")
@JSON
def check(trace: Path, file: Path, name: str | None, as_json: bool) -> int:
    """Hold a trace's response times against the deadlines, and against a test's bounds."""
    from pycontrol import taskset
    from pycontrol.check import compare

    loaded = taskset.load(file)
    test = _tests((name,))[0] if name else None
    lines = compare(trace, loaded.taskset, test)
    rows = [
        (one.task, str(one.jobs), ms(one.mort), ms(one.bound), ms(one.deadline), str(one.misses), one.verdict)
        for one in lines
    ]
    data = [
        {"task": one.task, "jobs": one.jobs, "mort_ns": one.mort, "wcrt_ns": one.bound,
         "deadline_ns": one.deadline, "misses": one.misses, "verdict": one.verdict}
        for one in lines
    ]  # fmt: skip
    headers = ("task", "jobs", "MORT ms", "WCRT ms", "deadline ms", "misses", "verdict")
    render.emit(data, as_json, render.table(headers, rows))
    return 1 if any(line.failed for line in lines) else 0


@click.command(
    epilog="""\b
Examples:
  gpurt plot run.json                       run.png
  gpurt plot run.json -o run.svg --from 100ms --to 300ms
  gpurt plot run.json --kind responses
\b
Exit codes: 0 done; 2 wrong usage; 3 not a trace."""
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="PNG, SVG or PDF; the trace's name with .png.")
@click.option("--kind", type=click.Choice(["gantt", "responses"]), default="gantt", show_default=True)
@click.option("--from", "start", metavar="TIME", help='Begin of the window, such as "100ms".')
@click.option("--to", "end", metavar="TIME", help="End of the window; 300ms after its begin.")
def plot(trace: Path, output: Path | None, kind: str, start: str | None, end: str | None) -> int:
    """Draw a trace: who executed where, or how response times are distributed."""
    from analysis.trace import load
    from pycontrol.plot import gantt, responses
    from pycontrol.units import parse_time

    try:
        window = (parse_time(start) if start else None, parse_time(end) if end else None)
    except ValueError as error:
        raise UsageError(str(error)) from None
    loaded = load(trace)
    output = output or trace.with_suffix(".png")
    if kind == "gantt":
        gantt(loaded, output, *window)
    else:
        responses(loaded, output)
    click.echo(output)
    return 0


@click.command(epilog="\b\nExamples:\n  gpurt schema > taskset.schema.json\n\b\nExit codes: 0.")
def schema() -> int:
    """Print the JSON Schema of taskset files."""
    from pycontrol.taskset import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return 0
