# SPDX-License-Identifier: GPL-2.0
"""The commands that change settings of a running host: set priority, set policy and set budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from analysis.model import POLICIES
from gpurt._gpurt import lib
from gpurt.enums import Notice, Overrun
from gpurt.errors import RefusedError, UsageError
from gpurt.units import format_time
from pycontrol.commands.options import GPU, JSON, POLICY_NAME, TIME, clients, command
from pycontrol.link.control import ClientInfo, Control, GpuStatus, connect, told_fields
from pycontrol.link.rules import all_raisable, is_cgroup, possible
from pycontrol.machine import procs
from pycontrol.observe import documents
from pycontrol.observe.clients import budgets
from pycontrol.output import render
from pycontrol.output.render import ms

#: The value for `set priority own`.
OWN = -1


def _clients(control: Control, pids: tuple[int, ...], gpu: int | None) -> list[ClientInfo]:
    """The clients of these processes.  Raises RefusedError if one of the processes is no client."""
    found = [one for one in control.clients(gpu) if one.pid in pids]
    missing = set(pids) - {one.pid for one in found}
    if missing:
        raise RefusedError(f"process {min(missing)} is no client of the GPU; `gpurt status clients` lists them")
    return found


class Priority(click.IntRange):
    """A GPU priority, or the word `own`."""

    name = "priority"

    def __init__(self) -> None:
        super().__init__(0, 99)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The priority; OWN for the word `own`."""
        return OWN if value == "own" else int(super().convert(value, param, ctx))


@command(
    epilog="""\b
Examples:
  gpurt set priority 60 1234 1240
  gpurt set priority 20 perception    each client of that name
  gpurt set priority own 1234         back to the task's SCHED_FIFO priority

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, or no such client: nothing was changed."""
)
@click.argument("value", type=Priority(), metavar="PRIORITY|own")
@clients(required=True)
@GPU
@JSON
@click.pass_obj
def priority_command(device: str | None, value: int, pids: tuple[int, ...], gpu: int | None, as_json: bool) -> int:
    """Set the GPU priority of processes: 1 to 99, 0 for best effort, or "own" for the task's own again."""
    with connect(device) as control:
        found = _clients(control, pids, gpu)
        if value > 0:
            all_raisable(control, gpu, given=[replace(one, priority=value) for one in found])
        for pid in pids:
            control.set_priority(pid, None if value == OWN else value, gpu)
        found = _clients(control, pids, gpu)
    rows = [(str(one.pid), one.comm, str(one.gpu), str(one.priority), str(one.own_priority),
             "-" if one.set_priority is None else str(one.set_priority)) for one in found]  # fmt: skip
    text = render.table(("pid", "name", "GPU", "priority", "own", "set"), rows)
    render.emit({"clients": list(map(documents.client, found))}, as_json, text)
    return 0


def _how(gpu: GpuStatus) -> str:
    """How policy `job` notices jobs on this GPU; empty for other policies."""
    if not POLICIES[gpu.policy.word].jobs:
        return ""
    return f" (poll every {ms(gpu.poll_ns)} ms)" if gpu.notice.word == "poll" else " (notify)"


@command(
    epilog="""\b
Examples:
  gpurt set policy boosted
  gpurt set policy job --notice poll --poll-period 1ms

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, this host cannot do it, or a program that runs lacks the
right to be raised, which boosted needs."""
)
@click.argument("name", type=POLICY_NAME, metavar="POLICY")
@click.option("--notice", type=click.Choice(["poll", "notify"]), help="How policy job notices changes.")
@click.option("--poll-period", "period", type=TIME, metavar="TIME", help="Polling period of policy job.")
@GPU
@JSON
@click.pass_obj
def policy_command(
    device: str | None, name: str, notice: str | None, period: int | None, gpu: int | None, as_json: bool
) -> int:
    """Change the scheduling policy."""
    if (notice or period is not None) and not ((known := POLICIES.get(name)) and known.jobs):
        call = "gpurt set policy job --notice poll --poll-period 1ms"
        raise UsageError(f"--notice and --poll-period go with policy job: {call}")
    how = Notice(Notice.parse(notice)) if notice else None
    if period is not None:
        _check_poll(period, how)
    with connect(device) as control:
        control.gpus()  # raises DeviceError before any change
        all_raisable(control, gpu, name)
        remark = control.set_policy(name, gpu, how, period)
        notes = [remark] if remark else []
        found = [one for one in control.status() if gpu is None or one.gpu == gpu]
    if not found:
        raise RefusedError(f"the host has no GPU {gpu}; `gpurt status` lists those that it has")
    text = "\n".join(f"GPU {one.gpu}: {one.policy.word}{_how(one)}" for one in found)
    render.note(*notes, as_json=as_json)
    render.emit({"gpus": [told_fields(one) for one in found], "notes": notes}, as_json, text)
    return 0


def _check_poll(period: int, notice: Notice | None) -> None:
    """Raises UsageError for a polling period, ns, that no host accepts, or if the host does not poll."""
    if notice is Notice.NOTIFY:
        raise UsageError("--poll-period goes with --notice poll: a host that is notified does not poll")
    if not lib.GPURT_POLL_MIN_NS <= period <= lib.GPURT_POLL_MAX_NS:
        raise UsageError(f"--poll-period: {format_time(period)} is not within 0.1 ms to 10 s")


@command(
    epilog="""\b
Examples:
  gpurt set budget 1234 --time 20ms --period 100ms --on-overrun demote
  gpurt set budget --cgroup /user.slice --time 5ms --period 50ms --on-overrun demote
  gpurt set budget 1234 --time 0ns        remove the budget

Each process and each cgroup that is named has a budget of its own.  It also holds for processes that the process
makes, and for cgroups below.  gpurt cannot find a process whose makers have ended: put programs that you do not trust
into a cgroup.

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, no such process, or longer than the period: nothing
was changed."""
)
@clients(required=False)
@click.option("--cgroup", "cgroups", multiple=True, metavar="PATH", help="A cgroup v2 path.")
@click.option("--time", "ns", type=TIME, metavar="TIME", required=True,
              help="How long they may own the GPU in each period.")  # fmt: skip
@click.option("--period", "period_ns", type=TIME, metavar="TIME", default=0, help="The period; at least 1 ms.")
@click.option("--on-overrun", type=click.Choice(["report", "demote"]),
              help="What to do when it is used up: report an event, or make their segments best effort as well until "
              "the period ends.  [default: report]")  # fmt: skip
@GPU
@JSON
@click.pass_obj
def budget_command(
    device: str | None, pids: tuple[int, ...], cgroups: tuple[str, ...], ns: int, period_ns: int,
    on_overrun: str | None, gpu: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Limit how long processes may own the GPU in each period."""
    if not pids and not cgroups:
        raise UsageError("name a process or a --cgroup")
    if not ns and (on_overrun or period_ns):
        option = "--on-overrun" if on_overrun else "--period"
        raise UsageError(f"{option} goes with a budget; --time 0ns removes the budget")
    if ns and not period_ns:
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
    said = f"{format_time(ns)} in each {format_time(period_ns)}, {overrun.word}" if ns else "no budget"
    lines = [*(f"process {pid}: {said}" for pid in pids), *(f"cgroup {path}: {said}" for path in cgroups)]
    gone = [path for path in cgroups if not is_cgroup(path)]
    notes = [f"there is no cgroup {path} now; if that is a slip, the right one's budget still holds" for path in gone]
    lines += [*notes, budgets(found)]
    now = {"budget_ns": ns or None, "period_ns": period_ns or None, "on_overrun": overrun if ns else None}
    told = [*({"pid": pid, **now} for pid in pids), *({"cgroup": path, **now} for path in cgroups)]
    data = {"budgets": told, "clients": list(map(documents.client, found)), "notes": notes}
    render.emit(data, as_json, "\n".join(lines))
    return 0


def _alive(pids: tuple[int, ...]) -> None:
    """Raises RefusedError unless all these processes exist: all get a budget, or none does."""
    for pid in pids:
        if procs.stat(pid) is None:
            raise RefusedError(f"no process with pid {pid}; nothing was changed")
