# SPDX-License-Identifier: GPL-2.0
"""Commands that talk to a running host: apply, priority, policy, budget, exempt, status, clients, top, trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gpurt.errors import RefusedError, UsageError
from pycontrol.commands import documents, render
from pycontrol.commands.options import FILE, GPU, JSON, PIDS
from pycontrol.commands.render import ms


def _connect(device: str | None) -> Any:
    from pycontrol.live.control import connect

    return connect(device)


def _time(text: str, option: str) -> int:
    from gpurt.units import parse_time

    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


@click.command(
    epilog="""\b
Examples:
  gpurt priority 1234                 show
  gpurt priority 1234 1240 --set 60
  gpurt priority 1234 --own           back to the task's SCHED_FIFO priority

\b
Exit codes: 0 done; 4 no host; 5 not permitted, or no such client."""
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
    with _connect(device) as control:
        if own or value is not None:
            for pid in pids:
                control.set_priority(pid, value, gpu)
        found = [one for one in control.clients(gpu) if one.pid in pids]
    missing = set(pids) - {one.pid for one in found}
    if missing:
        raise RefusedError(f"process {min(missing)} is no client of the GPU; `gpurt clients` lists them")
    rows = [(str(one.pid), one.comm, str(one.gpu), str(one.priority), str(one.own_priority),
             "-" if one.set_priority is None else str(one.set_priority)) for one in found]  # fmt: skip
    text = render.table(("pid", "name", "GPU", "priority", "own", "set"), rows)
    render.emit({"clients": [documents.client(one) for one in found]}, as_json, text)
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
  gpurt policy segment
  gpurt policy job --notice poll --period 1ms

\b
Exit codes: 0 done; 2 no such policy; 4 no host; 5 not permitted, or this host cannot do it."""
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
    from gpurt.enums import Notice

    if name is None and (notice or period):
        raise UsageError("--notice and --period go with a policy: gpurt policy job ...")
    notes = []
    with _connect(device) as control:
        if name is not None:
            how = Notice(Notice.parse(notice)) if notice else None
            remark = control.set_policy(name, gpu, how, _time(period, "--period") if period else None)
            notes = [remark] if remark else []
        found = [one for one in control.status() if gpu is None or one.gpu == gpu]
    text = "\n".join(f"GPU {one.gpu}: {one.policy.word}{_how(one)}" for one in found)
    render.note(*notes, as_json=as_json)
    render.emit({"gpus": [documents.gpu(one) for one in found], "notes": notes}, as_json, text)
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt budget 1234 --time 20ms --on-overrun demote
  gpurt budget 1234 --time 0ns        remove the budget

\b
Exit codes: 0 done; 4 no host; 5 not permitted, or no such client."""
)
@PIDS
@click.option("--time", "limit", required=True, metavar="TIME", help="How long a segment may own the GPU.")
@click.option("--on-overrun", type=click.Choice(["report", "demote"]), default="report", show_default=True)
@GPU
@click.pass_obj
def budget(device: str | None, pids: tuple[int, ...], limit: str, on_overrun: str, gpu: int | None) -> int:
    """Limit how long each GPU segment of a process may own the GPU."""
    from gpurt.enums import Overrun

    ns = _time(limit, "--time")
    with _connect(device) as control:
        for pid in pids:
            control.set_budget(pid, ns, Overrun(Overrun.parse(on_overrun)), gpu)
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt exempt --pid 1234
  gpurt exempt --name Xorg
  gpurt exempt --cgroup /system.slice/display-manager.service
  gpurt exempt --name Xorg --off

\b
Exit codes: 0 done; 2 not exactly one of the three; 4 no host; 5 not permitted."""
)
@click.option("--pid", type=click.IntRange(1), help="A process.")
@click.option("--name", "comm", help="All processes of that name, later ones too.")
@click.option("--cgroup", metavar="PATH", help="All processes of a cgroup v2 path and below, later ones too.")
@click.option("--off", is_flag=True, help="End the exemption.")
@click.pass_obj
def exempt(device: str | None, pid: int | None, comm: str | None, cgroup: str | None, off: bool) -> int:
    """Exempt processes, such as the display server: they stay on the runlist whichever task runs."""
    if sum(value is not None for value in (pid, comm, cgroup)) != 1:
        raise UsageError("name exactly one of --pid, --name and --cgroup")
    with _connect(device) as control:
        control.set_exempt(not off, pid=pid, comm=comm, cgroup=cgroup)
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt status
  gpurt status --latency              measure epsilon on your board

\b
Exit codes: 0; 4 no host."""
)
@click.option("--latency", is_flag=True, help="How long runlist updates took, by cause.")
@JSON
@click.pass_obj
def status(device: str | None, latency: bool, as_json: bool) -> int:
    """Show the GPUs of the host: policy, clients, the process that owns the GPU, cost of updates."""
    with _connect(device) as control:
        gpus = control.status()
        times = control.latency() if latency else []
    rows = [
        (str(one.gpu), one.driver, one.tier.word, one.policy.word, str(one.clients), str(one.tsgs),
         str(one.runner_pid) if one.runner_pid else "everyone", str(one.commits), str(one.malformed))
        for one in gpus
    ]  # fmt: skip
    text = render.table(
        ("GPU", "driver", "tier", "policy", "clients", "TSGs", "on the runlist", "updates", "malformed"), rows
    )
    if latency:
        timed = [
            (str(one.gpu), one.cause.word, str(one.count), ms(one.minimum), ms(one.mean), ms(one.percentile(0.99)),
             ms(one.maximum)) for one in times
        ]  # fmt: skip
        headers = ("GPU", "cause", "updates", "min ms", "mean ms", "p99 ms", "max ms")
        text += "\n\n" + render.table(headers, timed)
        if times:
            text += f"\nepsilon is at least {ms(max(one.maximum for one in times))} ms plus the context switch"
    data = {"gpus": list(map(documents.gpu, gpus)), "latency": list(map(documents.latency, times))}
    render.emit(data, as_json, text)
    return 0


def _clients_table(found: list[Any]) -> str:
    rows = [
        (str(one.gpu), str(one.pid), one.comm, one.state.word, str(one.priority), str(one.depth), str(one.tsgs),
         str(one.segments), str(one.preemptions), ms(one.held_ns),
         " ".join(word for word, holds in (("exempt", one.exempt), ("demoted", one.demoted)) if holds))
        for one in found
    ]  # fmt: skip
    headers = ("GPU", "pid", "name", "state", "priority", "depth", "TSGs", "segments", "preempted", "owned ms", "")
    return render.table(headers, rows)


@click.command(epilog="\b\nExamples:\n  gpurt clients\n  gpurt clients --json\n\n\b\nExit codes: 0; 4 no host.")
@GPU
@JSON
@click.pass_obj
def clients(device: str | None, gpu: int | None, as_json: bool) -> int:
    """List the processes that use the GPU through gpurt."""
    with _connect(device) as control:
        found = control.clients(gpu)
    render.emit({"clients": list(map(documents.client, found))}, as_json, _clients_table(found))
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt top
  gpurt top --once

\b
Ctrl-C ends it.  Exit codes: 0; 4 no host."""
)
@click.option("--interval", default=1.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Seconds.")
@click.option("--once", is_flag=True, help="Show once and end.")
@click.pass_obj
def top(device: str | None, interval: float, once: bool) -> int:
    """Watch the clients: which of them owns the GPU, how often and for how long."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def screen(control: Any, before: dict[tuple[int, int], int], seconds: float) -> tuple[str, dict[Any, int]]:
        found = control.clients()
        held = {(one.gpu, one.client): one.held_ns for one in found}
        used = [(one, held[one.gpu, one.client] - before.get((one.gpu, one.client), 0)) for one in found]
        used.sort(key=lambda pair: -pair[1])
        gpus = ", ".join(f"GPU {one.gpu} {one.policy.word}" for one in control.status())
        share = [f"{100 * ns / (seconds * 1e9):5.1f}%" if before else "" for _, ns in used]
        rows = _clients_table([one for one, _ in used]).splitlines()
        marked = [rows[0] + "  owned", *rows[1:2], *(f"{r}  {s}" for r, s in zip(rows[2:], share, strict=True))]
        return f"{gpus}; {len(found)} clients\n" + "\n".join(marked), held

    with _connect(device) as control:
        text, held = screen(control, {}, interval)
        if once:
            click.echo(text)
            return 0
        with Live(Text(text), console=Console(), screen=False, auto_refresh=False) as live:
            while True:
                try:
                    time.sleep(interval)
                except KeyboardInterrupt:
                    return 0
                text, held = screen(control, held, interval)
                live.update(Text(text), refresh=True)


@click.command(
    epilog="""\b
Examples:
  gpurt trace -o run.json             until Ctrl-C
  gpurt trace -o run.json --duration 5s && gpurt plot run.json

\b
ui.perfetto.dev opens the file too.  Exit codes: 0 done, also after Ctrl-C; 3 cannot be written; 4 no host."""
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="File to write the trace to.")
@click.option("--duration", metavar="TIME", help="Length of the recording; until Ctrl-C unless given.")
@click.option("--tracepoints", is_flag=True, help="Read the module's tracepoints through tracefs, as root.")
@click.pass_obj
def trace(device: str | None, output: Path, duration: str | None, tracepoints: bool) -> int:
    """Record the host's events as a Chrome/Perfetto trace."""
    from pycontrol.live.record import record

    seconds = _time(duration, "--duration") / 1e9 if duration else None
    begun = False

    def progress(_count: int) -> None:
        nonlocal begun
        if not begun:
            click.echo("recording" if duration else "recording; Ctrl-C ends it", err=True)
            begun = True

    found = record(device, seconds, progress, tracepoints=tracepoints)
    found.save(output)
    click.echo(f"{len(found.events)} events in {output}")
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt apply set.toml

\b
Exit codes: 0 every real-time GPU task was found and set; 1 some were not running, or the taskset is not schedulable and
nothing was set; 3 the file is wrong; 4 no host; 5 not permitted."""
)
@FILE
@click.option("--force", is_flag=True, help="Also if it is not proved that every deadline holds.")
@JSON
@click.pass_obj
def apply(device: str | None, file: Path, force: bool, as_json: bool) -> int:
    """Give running processes the GPU priorities of a taskset file, matched by the task's command or name."""
    from analysis import taskset
    from analysis.verdict import answer
    from pycontrol import procs

    loaded = taskset.load(file)
    verdict = answer(loaded.taskset)
    if not verdict.schedulable and not force:
        text = f"not applied: under policy {verdict.policy}, {verdict.why}\nuse --force to apply it anyway"
        render.emit(_applied(file, verdict, {}, applied=False), as_json, text)
        return 1
    rows, data, complete = [], {}, True
    with _connect(device) as control:
        running = {one.pid: one.comm for one in control.clients()}
        for task in loaded.taskset:
            command = loaded.launch[task.name].command
            name = Path(command[0]).name[:15] if command else task.name[:15]
            wanted = list(command) if command else None
            pids = sorted(
                pid for pid, comm in running.items() if comm == name or (wanted and procs.command(pid) == wanted)
            )
            for pid in pids:
                control.set_priority(pid, task.segment_priority)
            found = ", ".join(map(str, pids)) if pids else "not running"
            if task.uses_gpu:
                complete = complete and (bool(pids) or task.best_effort)
                rows.append((task.name, str(task.segment_priority), found))
                data[task.name] = {"gpu_priority": task.segment_priority, "pids": pids}
    text = render.table(("task", "GPU priority", "pid"), rows)
    render.emit(_applied(file, verdict, data, applied=True), as_json, text)
    return 0 if complete else 1


def _applied(file: Path, verdict: Any, tasks: dict[str, Any], *, applied: bool) -> dict[str, Any]:
    return {
        "file": file, "policy": verdict.policy, "schedulable": verdict.schedulable, "why": verdict.why or None,
        "applied": applied, "tasks": tasks,
    }  # fmt: skip
