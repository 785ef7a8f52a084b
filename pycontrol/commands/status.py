# SPDX-License-Identifier: GPL-2.0
"""The command that shows what a running host does: status."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from analysis.model import DEFAULT_POLICY, POLICIES
from gpurt._gpurt import lib
from gpurt.enums import Begin, Form, Image, Tier
from gpurt.errors import DeviceError
from gpurt.text import visible
from gpurt.types import Document
from pycontrol.commands.options import GPU, JSON, command
from pycontrol.link import patched, placed, stuck
from pycontrol.link.control import (
    HOST_WITHOUT_GPU,
    BusStatus,
    ClientInfo,
    Control,
    GpuStatus,
    RuleInfo,
    connect,
    raised,
    told_fields,
    update_times,
)
from pycontrol.link.patched import PatchedGpu
from pycontrol.observe import clients as shown
from pycontrol.observe import documents
from pycontrol.output import render
from pycontrol.output.render import bound, ms


def _gpus(control: Control, gpu: int | None) -> tuple[Document, str]:
    """The GPUs: their policies, clients and owners."""
    gpus = [one for one in control.status() if gpu in (None, one.gpu)]
    drivers, buses = _patched(control.device), control.buses(gpu)
    found = control.clients(gpu) if gpus else []
    homes = placed.clients_by_partition(found)
    troubles = [one.trouble for one in drivers if one.trouble]
    troubles += stuck.stuck_lines(gpus, found)
    text = "\n".join([_gpus_table(gpus, found), *_homes(homes), *_bus_lines(buses), *troubles])
    data = {
        "gpus": list(map(told_fields, gpus)), "patched": list(map(asdict, drivers)),
        "buses": list(map(documents.bus, buses)), "stuck": stuck.documents(gpus, found),
        "partitions": [{"name": name, "pids": list(there)} for name, there in homes.items()],
    }  # fmt: skip
    return data, text


def _latency(control: Control, gpu: int | None) -> tuple[Document, str]:
    """How long runlist updates took, by cause: extremes and histogram."""
    control.gpus()  # raises DeviceError
    times = control.latency(gpu)
    timed = [
        (str(one.gpu), one.cause.word, str(one.count), ms(one.minimum), ms(one.mean), ms(one.percentile(0.99)),
         ms(one.maximum)) for one in times
    ]  # fmt: skip
    text = render.table(("GPU", "cause", "count", "min ms", "mean ms", "p99 ms", "max ms"), timed)
    if times:
        for one in times:
            counts = ", ".join(f"{count} up to {bound(edge)} ms" for edge, count in one.octaves().items())
            text += f"\nGPU {one.gpu}, {one.cause.word}: {counts}"
        raising = raised(times)
        text += f"\nepsilon is at least {bound(update_times(times)[1])} ms plus the context switch"
        text += f", and under policy boosted {bound(raising)} ms more to raise threads" if raising else ""
    return {"latency": list(map(documents.latency, times))}, text


def _homes(homes: dict[str, dict[int, str]]) -> list[str]:
    """A line for each partition that a client is in."""
    return [
        f"partition {visible(home)}: {', '.join(f'{pid} ({visible(name)})' for pid, name in there.items())}"
        for home, there in homes.items()
    ]


def _patched(device: str) -> list[PatchedGpu]:
    """GPUs of patched drivers; none if the host is not the kernel module."""
    if not Path(device).is_char_device():
        return []
    try:
        return patched.read_patched()
    except (OSError, ValueError) as error:
        raise DeviceError(str(error)) from None


def _on_runlist(one: GpuStatus) -> str:
    if one.runner_pid:
        return str(one.runner_pid)
    return "everyone" if one.image is Image.ALL else "another user's"


def _forms(clients: list[ClientInfo]) -> str:
    """How many clients have stated each form, in words; empty if none has."""
    stated = [one.form for one in clients if one.segments]
    counts = [f"{stated.count(form)} {form.word}" for form in Form if form in stated]
    return ", ".join(counts)


def _partition(one: GpuStatus) -> str:
    """The words about a virtual GPU that is a partition: the GPU that it is part of, and its compute units."""
    units = f"{one.partition_units} compute unit{'s' if one.partition_units != 1 else ''}"
    text = f"a partition of virtual GPU {one.partition_of}, with {units}"
    if (cross := one.cross_thousandths) > lib.GPURT_FACTOR_ONE:
        text += f"; memory-intensive work beside such of another partition takes {cross / 1000:g} times as long"
    return text


#: How programs keep to their units, if one word does not say it.
KEPT = {"virtual": "the GPU is virtual", "none": "nothing keeps a program to units (T0), so a job gets them all"}


def _name(one: GpuStatus) -> str:
    """The driver, and which of its GPUs it is, if known."""
    return f"{one.driver} {visible(one.device)}" if one.device else one.driver


def _beside(one: GpuStatus) -> str:
    """How many other processes may be on the GPU when the most urgent one begins by yield, and how many at a time."""
    now = "no process can do so now" if one.ready is None else f"m = {one.ready}, so many less urgent ones"
    if one.at_once is not None:
        now += f"; best-effort ones of these take turns, at once there are {one.at_once}"
    return now


def _gpus_table(gpus: list[GpuStatus], clients: list[ClientInfo]) -> str:
    """A line for each GPU, a line about raised threads under policy boosted, and a line for each trouble."""
    if not gpus:
        return HOST_WITHOUT_GPU
    rows = [
        (str(one.gpu), _name(one), one.tier.word, one.unit_policy or one.policy.word, str(one.client_count),
         str(one.tsgs), _on_runlist(one), str(one.updates), str(one.faults), str(one.late))
        for one in gpus
    ]  # fmt: skip
    headers = ("GPU", "driver", "tier", "policy", "clients", "TSGs", "on the runlist", "updates", "failed", "late")
    lines = [render.table(headers, rows)]
    if others := [str(one.gpu) for one in gpus if not one.unit_policy and one.policy.word != DEFAULT_POLICY]:
        lines.append(
            f"GPU {', '.join(others)}: not policy {DEFAULT_POLICY}, which taskset files are for that name none "
            "(`gpurt set policy`, or `policy` in the file)"
        )
    for one in gpus:
        if POLICIES[one.policy.word].raises:
            normal = one.normal_priorities
            raised = f"{normal + 1} to {2 * normal}"
            lines.append(f"GPU {one.gpu}: threads execute at priorities 1 to {normal}, raised ones at {raised}")
            if forms := _forms([client for client in clients if client.gpu == one.gpu]):
                lines.append(f"GPU {one.gpu}: clients by form: {forms} (`gpurt status clients`)")
            if one.barred_count:
                barred = f"{one.barred_count} clients are barred from being raised"
                lines.append(f"GPU {one.gpu}: {barred} (`gpurt status clients`)")
        if one.begin is not Begin.ISOLATED:
            how = "the most urgent process begins beside others"
            lines.append(f"GPU {one.gpu}: begin {one.begin.word}: {how}; {_beside(one)}")
        if one.partition_of is not None:
            lines.append(f"GPU {one.gpu}: {_partition(one)}")
        if one.unit_policy:
            how = KEPT.get(one.mechanism, f"programs keep to them by {one.mechanism}")
            held = f"{one.units_held} of {one.units} units held by {one.jobs} job{'s' if one.jobs != 1 else ''}"
            lines.append(f"GPU {one.gpu}: {held}; clients that announce jobs: {one.unit_clients}; {how}")
            if one.jobs_overdue:
                lines.append(
                    f"GPU {one.gpu}: {one.jobs_overdue} of them overdue: their programs have not said that the "
                    "kernel has ended, hang, or the file's times are too short; nothing preempts them"
                )
        if one.tier is Tier.HINTS:
            lines.append(f"GPU {one.gpu}: tier T0: a process's work is not preempted; the process says why on stderr")
        if one.late:
            lines.append(f"GPU {one.gpu}: {one.late} late: processes that have not left the GPU; isolation is lost")
        if one.refused:
            lines.append(
                f"GPU {one.gpu}: {one.refused} agents refused (agent_limit): their processes ran, or run, unmanaged; "
                "isolation is lost while they do"
            )
        if one.faults:
            lines.append(f"GPU {one.gpu}: {one.faults} updates failed and were tried again")
    if first := next((one for one in gpus if one.unit_policy), None):
        lines.append(
            f"jobs on all GPUs: {first.jobs_done} done, {first.jobs_late} of them late; {first.jobs_skipped} skipped "
            f"at their deadline; {first.jobs_lost} lost with their program"
        )
    if refused := max((one.malformed for one in gpus), default=0):
        lines.append(f"{refused} malformed calls were refused: a client is broken, or of another version")
    return "\n".join(lines)


def _bus_lines(buses: list[BusStatus]) -> Iterator[str]:
    """A line for each GPU whose bus was requested, and a line for each bus that a client has now."""
    for one in buses:
        if one.count:
            yield (
                f"GPU {one.gpu}: bus: copies {one.count}, waits {ms(one.mean)} ms on average, "
                f"{ms(one.maximum)} ms at most"
            )
        if one.client:
            whose = f"process {one.pid} ({one.comm})" if one.pid else "another user's process"
            yield (
                f"GPU {one.gpu}: bus: {whose} has copied at priority {one.priority} for {ms(one.held_ns)} ms; "
                f"{one.waiters} wait"
            )


def _clients(control: Control, gpu: int | None) -> tuple[Document, str]:
    """The processes that use the GPU through gpurt."""
    found = control.clients(gpu)
    return {"clients": list(map(documents.client, found))}, shown.clients_table(found)


def _rules(control: Control, gpu: int | None) -> tuple[Document, str]:
    """The settings of `gpurt set`: budgets of clients, and rules that exempt or bar processes."""
    found, clients = control.rules(), control.clients(gpu)
    budgets = [one for one in clients if one.budget_ns]
    lines = [render.table(("effect", "processes", "since"), [_ruled(one) for one in found]) if found else "no rule"]
    for word in ("exempt", "barred"):
        lines.append(f"{word} clients now: {shown.listed([one for one in clients if getattr(one, word)])}")
    lines += ["", shown.budgets(budgets)]
    data = {
        "rules": list(map(documents.rule, found)),
        "budgets": [{"pid": one.pid, "budget_ns": one.budget_ns, "period_ns": one.period_ns,
                     "on_overrun": one.on_overrun} for one in budgets],
        "clients": [documents.client(one) for one in clients if one.exempt or one.barred or one.budget_ns],
    }  # fmt: skip
    return data, "\n".join(lines)


def _ruled(one: RuleInfo) -> tuple[str, str, str]:
    """A rule's effect, the processes that it is for, and its time by this machine's clock."""
    effect = "exempt" if one.exempt else "bar"
    made = time.time() - (time.monotonic_ns() - one.since_ns) / 1e9
    return effect, _processes(one), time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(made))


def _processes(one: RuleInfo) -> str:
    if one.pid is not None:
        return f"process {one.pid}" if one.pid else "another user's process"
    if one.comm is not None:
        return f"processes named {one.comm}" if one.comm else "processes of a name that only root is told"
    return f"processes of cgroup {one.cgroup}" if one.cgroup else "processes of a cgroup that only root is told"


#: The parts that the command can show, by the argument's word.
SHOWN = {"gpus": _gpus, "latency": _latency, "clients": _clients, "rules": _rules}


@command(
    epilog="""\b
Examples:
  gpurt status                        the GPUs, who owns them, and what goes wrong
  gpurt status latency                how long runlist updates took: epsilon on your board
  gpurt status clients --json         the processes that use the GPU through gpurt
  gpurt status rules                  budgets, and rules that exempt or bar processes, later ones too
  watch -n 1 gpurt status clients     again and again

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 no such GPU."""
)
@click.argument("what", type=click.Choice([*SHOWN]), default="gpus", metavar=f"[{'|'.join(SHOWN)}]")
@GPU
@JSON
@click.pass_obj
def status_command(device: str | None, what: str, gpu: int | None, as_json: bool) -> int:
    """Show the host's GPUs, how long its updates took, its clients, or its rules; the GPUs unless named."""
    with connect(device) as control:
        data, text = SHOWN[what](control, gpu)
    render.emit(data, as_json, text)
    return 0
