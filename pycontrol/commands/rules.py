# SPDX-License-Identifier: GPL-2.0
"""Commands that change what a running host does: priority, policy, budget."""

from __future__ import annotations

from typing import Any

import click

from gpurt._gpurt import lib
from gpurt.enums import Notice, Overrun
from gpurt.errors import RefusedError, UsageError
from gpurt.units import format_time
from pycontrol.commands.options import GPU, JSON, PIDS, Pid, time_of
from pycontrol.live.control import connect
from pycontrol.live.rules import possible
from pycontrol.machine import procs
from pycontrol.output import documents, render
from pycontrol.output.render import ms


def _clients(control: Any, pids: tuple[int, ...], gpu: int | None) -> list[Any]:
    """The clients of these processes.  Raises RefusedError if one of the processes is no client."""
    found = [one for one in control.clients(gpu) if one.pid in pids]
    missing = set(pids) - {one.pid for one in found}
    if missing:
        raise RefusedError(f"process {min(missing)} is no client of the GPU; `gpurt clients` lists them")
    return found


@click.command(
    epilog="""\b
Examples:
  gpurt priority 1234                 show
  gpurt priority 1234 1240 --set 60
  gpurt priority 1234 --own           back to the task's SCHED_FIFO priority

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, or no such client: nothing was changed."""
)
@PIDS
@click.option("--set", "value", type=click.IntRange(0, 99), help="GPU priority to set; 0 is best effort.")
@click.option("--own", is_flag=True, help="Undo --set: the task's own priority counts again.")
@GPU
@JSON
@click.pass_obj
def priority(
    device: str | None, pids: tuple[int, ...], value: int | None, own: bool, gpu: int | None, as_json: bool
) -> int:
    """Show or set the GPU priority of processes."""
    if own and value is not None:
        raise UsageError("--set and --own exclude each other")
    with connect(device) as control:
        found = _clients(control, pids, gpu)
        if own or value is not None:
            for pid in pids:
                control.set_priority(pid, value, gpu)
            found = _clients(control, pids, gpu)
    rows = [(str(one.pid), one.comm, str(one.gpu), str(one.priority), str(one.own_priority),
             "-" if one.set_priority is None else str(one.set_priority)) for one in found]  # fmt: skip
    text = render.table(("pid", "name", "GPU", "priority", "own", "set"), rows)
    render.emit({"clients": list(map(documents.client, found))}, as_json, text)
    return 0


def _how(gpu: Any) -> str:
    """How policy `job` notices changes on this GPU; empty for other policies."""
    if gpu.policy.word != "job":
        return ""
    return f" (poll every {ms(gpu.poll_ns)} ms)" if gpu.notice.word == "poll" else " (notify)"


@click.command(
    epilog="""\b
Examples:
  gpurt policy                        show
  gpurt policy boosted
  gpurt policy job --notice poll --period 1ms

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, or this host cannot do it."""
)
@click.argument("name", required=False)
@click.option("--notice", type=click.Choice(["poll", "notify"]), help="How policy job notices changes.")
@click.option("--period", metavar="TIME", help="Polling period of policy job.")
@GPU
@JSON
@click.pass_obj
def policy(
    device: str | None, name: str | None, notice: str | None, period: str | None, gpu: int | None, as_json: bool
) -> int:
    """Show or change the scheduling policy."""
    if name != "job" and (notice or period):
        raise UsageError("--notice and --period go with policy job: gpurt policy job --notice poll --period 1ms")
    how = Notice(Notice.parse(notice)) if notice else None
    poll_ns = _poll(period, how) if period else None
    notes = []
    with connect(device) as control:
        control.gpus()  # raises DeviceError before anything is changed
        if name is not None:
            remark = control.set_policy(name, gpu, how, poll_ns)
            notes = [remark] if remark else []
        found = [one for one in control.status() if gpu is None or one.gpu == gpu]
    if not found:
        raise RefusedError(f"the host has no GPU {gpu}; `gpurt status` lists those that it has")
    text = "\n".join(f"GPU {one.gpu}: {one.policy.word}{_how(one)}" for one in found)
    render.note(*notes, as_json=as_json)
    render.emit({"gpus": [documents.gpu(one) for one in found], "notes": notes}, as_json, text)
    return 0


def _poll(period: str, notice: Any) -> int:
    """A polling period, ns.  Raises UsageError for one that no host accepts, or if the host is not to poll."""
    if notice is Notice.NOTIFY:
        raise UsageError("--period goes with --notice poll: a host that is notified does not poll")
    ns = time_of(period, "--period")
    if not lib.GPURT_POLL_MIN_NS <= ns <= lib.GPURT_POLL_MAX_NS:
        raise UsageError(f"--period: {period} is not within 0.1 ms to 10 s")
    return ns


@click.command(
    epilog="""\b
Examples:
  gpurt budget                        show
  gpurt budget 1234 --time 20ms --period 100ms --on-overrun demote
  gpurt budget --cgroup /user.slice --time 5ms --period 50ms --on-overrun demote
  gpurt budget 1234 --time 0ns        remove the budget

Without --time it shows the budgets of clients, or of those named; rules that no client is under yet are not shown.
Each process and each cgroup that is named has a budget of its own.  It also holds for processes that the process
makes, and for cgroups below.  A process whose makers have ended is found no more: programs that you do not trust
belong into a cgroup.

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, no such process, or longer than the period: nothing
was changed."""
)
@click.argument("pids", nargs=-1, type=Pid(1), metavar="[PID]...")
@click.option("--cgroup", "cgroups", multiple=True, metavar="PATH", help="A cgroup v2 path.")
@click.option("--time", "limit", metavar="TIME", help="How long they may own the GPU in each period.")
@click.option("--period", metavar="TIME", help="The period; at least 1 ms.")
@click.option("--on-overrun", type=click.Choice(["report", "demote"]),
              help="What to do when it is used up: report an event, or make their segments best effort as well until "
              "the period ends.  [default: report]")  # fmt: skip
@GPU
@JSON
@click.pass_obj
def budget(
    device: str | None,
    pids: tuple[int, ...],
    cgroups: tuple[str, ...],
    limit: str | None,
    period: str | None,
    on_overrun: str | None,
    gpu: int | None,
    as_json: bool,
) -> int:
    """Show or limit how long processes may own the GPU in each period."""
    if limit is None:
        return _show_budgets(device, pids, (cgroups, period, on_overrun), gpu, as_json)
    if not pids and not cgroups:
        raise UsageError("name a process or a --cgroup")
    ns, period_ns = time_of(limit, "--time"), time_of(period, "--period") if period else 0
    if not ns and (on_overrun or period):
        option = "--on-overrun" if on_overrun else "--period"
        raise UsageError(f"{option} goes with a budget; --time 0ns removes the budget")
    if ns and not period:
        raise UsageError("--time needs a --period: so much in each period")
    for path in cgroups:
        possible(None, path, adding=bool(ns))
    overrun = Overrun(Overrun.parse(on_overrun or "report"))
    with connect(device) as control:
        _alive(pids)
        both: list[int | str] = [*pids, *cgroups]
        for of in both:
            control.set_budget(of, ns, period_ns, overrun, gpu)
        found = [one for one in control.clients(gpu) if one.pid in pids or one.budget_ns]
    said = f"{format_time(ns)} in each {format_time(period_ns)}, {overrun.word}" if ns else "no budget any more"
    lines = [*(f"process {pid}: {said}" for pid in pids), *(f"cgroup {path}: {said}" for path in cgroups)]
    lines.append(_budgets(found))
    now = {"budget_ns": ns or None, "period_ns": period_ns or None, "on_overrun": overrun if ns else None}
    budgets = [*({"pid": pid, **now} for pid in pids), *({"cgroup": path, **now} for path in cgroups)]
    render.emit({"budgets": budgets, "clients": list(map(documents.client, found))}, as_json, "\n".join(lines))
    return 0


def _show_budgets(
    device: str | None, pids: tuple[int, ...], others: tuple[object, ...], gpu: int | None, as_json: bool
) -> int:
    """The clients that have a budget.  ``others``: options that go with --time."""
    if any(others):
        raise UsageError("--cgroup, --period and --on-overrun go with --time")
    with connect(device) as control:
        found = [one for one in _clients(control, pids, gpu) if one.budget_ns] if pids else \
                [one for one in control.clients(gpu) if one.budget_ns]  # fmt: skip
    budgets = [{"pid": one.pid, "budget_ns": one.budget_ns, "period_ns": one.period_ns, "on_overrun": one.on_overrun}
               for one in found]  # fmt: skip
    text = _budgets(found) if found else "no client has a budget"
    render.emit({"budgets": budgets, "clients": list(map(documents.client, found))}, as_json, text)
    return 0


def _budgets(clients: list[Any]) -> str:
    rows = [
        (str(one.pid), one.comm, str(one.gpu), ms(one.budget_ns or None), ms(one.period_ns or None),
         one.on_overrun.word if one.on_overrun is not None else "-", str(one.overruns))
        for one in clients
    ]  # fmt: skip
    return render.table(("pid", "name", "GPU", "budget ms", "period ms", "on overrun", "overruns"), rows)


def _alive(pids: tuple[int, ...]) -> None:
    """Raises RefusedError unless there are such processes: all of them get a budget, or none does."""
    for pid in pids:
        if procs.stat(pid) is None:
            raise RefusedError(f"no process with pid {pid}; nothing was changed")
