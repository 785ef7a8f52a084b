# SPDX-License-Identifier: GPL-2.0
"""The command that watches a running system against its analysis: watch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import click
from click.core import ParameterSource

from analysis.answers.chosen import covering_test
from analysis.answers.loading import analysable
from analysis.rta import Test
from gpurt.errors import DeviceError, RuntimeFailure, UsageError
from gpurt.units import parse_time
from pycontrol.commands.options import JSON, TEST, Parsed, command
from pycontrol.ending import asked
from pycontrol.link.control import connect
from pycontrol.machine.programs import command_of
from pycontrol.observe import documents, observed
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.objection import Objection
from pycontrol.observe.judge.check import Judged, task_lines, unbounded_tasks, why_no
from pycontrol.observe.judge.finding import Finding, What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.listening import HOST, INSTALL_CURE, PORT
from pycontrol.observe.watch.mismatch import bounds_by_task, lasting, mismatch
from pycontrol.observe.watch.watch import EVENT_PATIENCE_NS, Watcher
from pycontrol.output import render

#: When to end: a time, ns, or the word for the first finding.
FINDING = "finding"
UNTIL = Parsed("time", lambda text: text if text == FINDING else parse_time(text))
#: Findings of one kind about one task, or with the same words about none, are printed at least this far apart, seconds.
APART_S = 10


@command(
    epilog="""\b
Examples:
  gpurt watch robot.toml
  gpurt watch robot.toml --until 600s --json >> findings.jsonl
  gpurt watch robot.toml --until finding && echo never reached
  gpurt watch robot.toml | logger -t gpurt          the system's log; systemd does so by itself
  gpurt watch --metrics
  gpurt watch robot.toml --metrics --listen 127.0.0.1:9100

\b
Ctrl-C, SIGTERM and SIGHUP end it.  Exit codes: 0 nothing was found, and jobs of every real-time task were seen;
1 otherwise, or the test of --test has no bound of one; 2 wrong usage; 3 the file is wrong; 4 no host, or it has gone.
With --metrics: 0 ended so; 6 the address is taken, or prometheus-client is missing
(pip install 'gpurt[metrics]').""",
)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="FILE")
@TEST
@click.option("--until", type=UNTIL, metavar="WHEN",
              help='End after this time, such as 10s, or at the first "finding".')  # fmt: skip
@click.option("--metrics", is_flag=True, help="Serve counters and histograms to Prometheus; FILE may be left out.")
@click.option(
    "--listen",
    default=f"{HOST}:{PORT}",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="With --metrics: where.  Addresses that are not loopback are open to everyone who reaches them.",
)
@JSON
@click.pass_obj
def watch_command(
    device: str | None, file: Path | None, name: str | None, until: int | str | None, metrics: bool, listen: str,
    as_json: bool,
) -> int:  # fmt: skip
    """Watch a running system against its analysis, and tell within a period what does not hold.

    It compares response times with bounds and deadlines, and checks the assumptions of the analysis: lengths of
    segments, CPU times, periods, priorities, the cost of updates, clients.  It knows the jobs that programs report
    (docs/watching.md).  With --metrics, serve the counts to Prometheus instead.
    """
    _check_options(file, name, metrics)
    if metrics:
        try:
            from pycontrol.observe.watch import serving
        except ImportError:
            raise RuntimeFailure(f"prometheus-client is missing: {INSTALL_CURE}") from None
        serving.serve(device, listen, analysable(file, workers=True) if file else None, name)
        return 0
    assert file
    return _watch(device, file, name, until, as_json)


def _check_options(file: Path | None, name: str | None, metrics: bool) -> None:
    """Raises UsageError for an option that requires or excludes --metrics."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and metrics and option.name in ("until", "as_json"):
            raise UsageError(f"{option.opts[0]} does not go with --metrics")
        if given and not metrics and option.name == "listen":
            raise UsageError("--listen goes with --metrics")
    if not file and not metrics:
        raise UsageError("name a taskset file, or give --metrics")
    if name and not file:
        raise UsageError("--test goes with a taskset file")


def _watch(device: str | None, file: Path, name: str | None, until: int | str | None, as_json: bool) -> int:
    """Watches until the watch is ended; returns the exit code."""
    loaded = analysable(file, workers=True)
    chosen = covering_test(loaded.taskset, name)
    bounds = bounds_by_task(chosen.test, loaded.taskset)
    with connect(device) as control, connect(device) as asks, asked() as stop:
        host = fit.ask(asks, loaded)
        objections = lasting(fit.objections(loaded, host))
        judge = Judge(loaded, bounds, policy=loaded.taskset.platform.policy, patience=EVENT_PATIENCE_NS,
                      gpus=len(host.gpus), command_of=command_of)  # fmt: skip
        watcher, teller = Watcher(control, asks, judge), Teller(as_json)
        wrong = mismatch(judge, objections, chosen.why if name else "")
        lacking = unbounded_tasks(task_lines(judge, {}), chosen.test) if chosen.test else ""
        remarks = [*loaded.notes, *chosen.notes, *filter(None, [chosen.why, lacking]), *fit.lines(objections)]
        end = time.monotonic_ns() + until if isinstance(until, int) else None
        batches = watcher.findings(stop, end)
        found = next(batches)
        teller.begin(loaded.path, chosen.test, bounds, objections, remarks)
        teller.tell([*wrong, *found])
        try:
            for found in batches:
                teller.tell(found)
                if until == FINDING and teller.counts:
                    break
        except DeviceError as error:  # still report what was seen until then
            now = time.monotonic_ns()
            teller.tell(judge.report(now, What.LOST, "", "the host has gone: what it did after that was not seen"))
            teller.end(judge, watcher.events, "")
            raise error from None
        return teller.end(judge, watcher.events, lacking if name else "")


class Teller:
    """Prints findings, or JSON documents."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.counts: Counter[What] = Counter()
        self._next: dict[tuple[What, str], float] = {}
        self._held: Counter[tuple[What, str]] = Counter()

    def begin(
        self, file: Path, test: Test | None, bounds: dict[str, int], objections: Sequence[Objection], notes: list[str]
    ) -> None:
        """Prints that the watch has begun."""
        if self.as_json:
            begun = {"event": "begin", "file": file, "test": test.name if test else None}
            render.emit_line({**begun, "objections": fit.data(objections), "notes": notes})
            return
        render.note(*notes, as_json=False)
        compared = f"the bounds of {test.name}" if bounds and test else "deadlines only"
        render.say(f"watching: {compared}; Ctrl-C ends it", err=True)

    def tell(self, findings: Iterable[Finding]) -> None:
        """Prints findings, and how many findings of a kind it has held back."""
        now = time.monotonic()
        for finding in findings:
            key = finding.what, finding.task or finding.text
            self.counts[finding.what] += 1
            if now < self._next.get(key, 0):
                self._held[key] += 1
            else:
                self._next[key] = now + APART_S
                self._say(finding, self._held.pop(key, 0))

    def _say(self, finding: Finding, more: int) -> None:
        also = f" ({more} more like it before)" if more else ""
        line = f"{finding.what.sort.value}: {finding.what.value}: {finding.line()}{also}"
        if self.as_json:
            render.emit_line({"event": "finding", **documents.finding(finding), "more": more})
        else:
            now = datetime.fromtimestamp((time.time_ns() - time.monotonic_ns() + finding.time) / 1e9)  # local time
            render.say(f"{now.isoformat(' ', 'milliseconds')}  {line}")

    def end(self, judge: Judge, events: int, lacking: str) -> int:
        """Prints the summary and returns the exit code.  ``lacking``: the tasks that the named test does not bound."""
        lines = task_lines(judge, {})
        counts = {what.value: count for what, count in self.counts.items()}
        found = ", ".join(f"{what} {count}" for what, count in counts.items())
        why = why_no(Judged(lines, (), judge.chains)) or (f"found {found}" if found else lacking)
        held = sum(self._held.values())
        if self.as_json:
            render.emit_line({
                "event": "end", "file": judge.file.path, "in_time": not why, "why": why or None,
                "events": events, "found": counts, "tasks": observed.observed_data(lines),
                "chains": observed.chains_data(judge.chains),
            })  # fmt: skip
            return 1 if why else 0
        if held:
            render.say(f"{held} more of these kinds {'was' if held == 1 else 'were'} not printed")
        if judge.chains:
            render.say(observed.chains_text(judge.chains))
        render.say(
            observed.observed_text(lines, bounds=bool(judge.bounds)) + f"\n{events} events; {found or 'nothing found'}"
        )
        if why:
            render.say(f"NO: {why}")
        return 1 if why else 0
