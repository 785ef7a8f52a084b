# SPDX-License-Identifier: GPL-2.0
"""The host of a trace: its known facts during the recording, for the judge of the trace."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import TypeVar

from analysis.model import Waiting
from analysis.taskset import TasksetFile
from analysis.traces.trace import HOST, Kind, Trace
from gpurt.enums import Words
from gpurt.types import DocumentView
from pycontrol.link.control import FIELDS, ClientInfo, GpuStatus, UpdateLatency
from pycontrol.machine.clocks import Clock, MachineClocks, distinct_looks
from pycontrol.machine.placement import DEFAULT_CLASS, FOLDED
from pycontrol.observe.fit.host import Host, Ran, Threads
from pycontrol.observe.judge.seen import commands_of, meaning

_Kind = TypeVar("_Kind", GpuStatus, ClientInfo, UpdateLatency)


def joined_looks(before: Host, after: Host) -> Host:
    """Joins two looks at a host: the clients of both, the GPUs' later status, and the troubles of both.

    ``policy`` is a policy that a GPU had before and no longer has.
    """
    first = {one.gpu: one for one in before.gpus}
    had = {one.gpu: one.policy.word for one in before.gpus}
    others = [had[one.gpu] for one in after.gpus if had.get(one.gpu, one.policy.word) != one.policy.word]
    others_threads = _both(*({pid: one[2] for pid, one in look.strangers.items()} for look in (before, after)))
    clients = {_judged_of(one): one for one in (*before.clients, *after.clients)}
    gpus = [(one, first.get(one.gpu, one)) for one in after.gpus]
    return replace(
        after,
        gpus=[replace(one, late=max(one.late, was.late), ready=_more(one.ready, was.ready),
                      at_once=_more(one.at_once, was.at_once)) for one, was in gpus],
        clients=list(clients.values()), policy=before.policy or next(iter(others), None),
        raises=after.raises if before.raises is None else before.raises,
        troubles=list(dict.fromkeys([*before.troubles, *after.troubles])),
        programs={**before.programs, **after.programs}, homes={**before.homes, **after.homes},
        users={**before.users, **after.users}, threads=_both(before.threads, after.threads),
        strangers={pid: (*one[:2], others_threads[pid])
                   for pid, one in {**before.strangers, **after.strangers}.items()},
        exempted=list(dict.fromkeys([*before.exempted, *after.exempted])),
        clocks=distinct_looks([*before.clocks, *after.clocks]),
    )  # fmt: skip


def _more(one: int | None, other: int | None) -> int | None:
    return max((number for number in (one, other) if number is not None), default=None)


def _both(before: Mapping[int, Threads], after: Mapping[int, Threads]) -> dict[int, Threads]:
    """The threads of processes at either look: of each priority and set of CPUs, the larger number of the two looks."""
    looks = [{pid: Counter((priority, tuple(cpus)) for priority, cpus in threads) for pid, threads in look.items()}
             for look in (before, after)]  # fmt: skip
    either = {pid: looks[0].get(pid, Counter()) | looks[1].get(pid, Counter()) for pid in {**before, **after}}
    return {pid: [(priority, list(cpus)) for priority, cpus in found.elements()] for pid, found in either.items()}


def _judged_of(one: ClientInfo) -> tuple[object, ...]:
    """The facts for which a client may be objected to: looks that differ in them are kept."""
    return (one.gpu, one.client, one.priority, one.own_priority, one.form, one.group, one.kept, one.yields, one.exempt,
            one.demoted, one.barred, one.on_overrun, one.budget_ns < one.period_ns)  # fmt: skip


def saved(host: Host) -> str:
    """A host as text for a trace's ``meta``; `of_trace` reads it."""
    kept = {
        "gpus": [asdict(one) for one in host.gpus], "clients": [asdict(one) for one in host.clients],
        "latency": [asdict(replace(one, buckets=())) for one in host.latency], "raises": host.raises,
        "thread_stays": host.thread_stays, "sleeps": host.sleeps, "troubles": list(host.troubles),
        "cpus": None if host.cpus is None else sorted(host.cpus), "names": host.names, "homes": host.homes,
        "programs": host.programs, "users": host.users, "had": host.policy,
        "threads": host.threads, "exempted": host.exempted, "strangers": host.strangers,
        "unseen": host.unseen, "siblings": host.siblings, "instances": host.instances,
        "clocks": [asdict(one) for one in host.clocks],
    }  # fmt: skip
    return json.dumps(kept, separators=(",", ":"))


def of_trace(recorded: Trace, file: TasksetFile) -> Host:
    """The host that a trace was recorded on, and how its tasks ran.  A simulated host has only a policy.

    A process counts as the task of its program, else as the task whose jobs it reports in the trace.
    """
    meta = recorded.meta
    modes = {mode.value: mode for mode in Waiting}
    ran = Ran(modes.get(meta.get("waiting", "")), meta.get("placement") == FOLDED, "slices" not in meta)
    fifo = meta.get("scheduling") != DEFAULT_CLASS
    try:
        kept = json.loads(meta[HOST])
        host = Host(
            [_known(GpuStatus, one) for one in kept["gpus"]], [_known(ClientInfo, one) for one in kept["clients"]],
            [_known(UpdateLatency, one) for one in kept["latency"]], kept["had"], len(kept["gpus"]), kept["raises"],
            kept["thread_stays"], kept["sleeps"], kept["troubles"],
            None if kept["cpus"] is None else frozenset(kept["cpus"]), fifo,
            {int(pid): (str(name), str(command)) for pid, (name, command) in kept["programs"].items()},
            {int(pid): tuple(names) for pid, names in kept["names"].items()},
            {int(pid): home for pid, home in kept["homes"].items()},
            {int(pid): user for pid, user in kept["users"].items()}, ran,
            clocks=tuple(map(_clocks, kept["clocks"])),
            threads={int(pid): [(priority, cpus) for priority, cpus in of] for pid, of in kept["threads"].items()},
            exempted=[str(one) for one in kept["exempted"]],
            strangers={int(pid): (str(name), str(command), [(priority, cpus) for priority, cpus in of])
                       for pid, (name, command, of) in kept["strangers"].items()},
            unseen=str(kept["unseen"]), siblings=[list(map(int, one)) for one in kept["siblings"]],
            instances=list(map(int, kept["instances"])),
        ).named(file)  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        count, simulated = meta.get("gpus", ""), meta.get("clock") == "virtual"
        return Host(policy=meta.get("policy", ""), count=int(count) if count.isdecimal() else 0, fifo=fifo, ran=ran,
                    known=simulated)  # fmt: skip
    said = _said(recorded, file)
    return replace(host, names={**host.names, **{pid: said[pid] for pid in said if not host.names.get(pid)}})


def _said(recorded: Trace, file: TasksetFile) -> dict[int, tuple[str, ...]]:
    """The task whose jobs each process reported, by pid; a thread's first task stands for all tasks that it serves."""
    tasks = {task.name: task for task in file.taskset}
    found: dict[int, set[str]] = {}
    command_of = commands_of(recorded)
    for event in recorded.events:
        told = event.kind is Kind.START and event.process.isdecimal()
        if told and (name := meaning(file, event.task, command_of)):
            found.setdefault(int(event.process), set()).add(file.taskset.beside(tasks[name])[0].name)
    return {pid: tuple(names) for pid, names in found.items() if len(names) == 1}


def _clocks(values: DocumentView) -> MachineClocks:
    """A look at clocks from its fields.  Raises TypeError or KeyError if they are not those of this release."""
    names = [one.name for one in fields(Clock)]
    cpus, gpus = (tuple(Clock(*(one[name] for name in names)) for one in values[kind]) for kind in ("cpus", "gpus"))
    return MachineClocks(cpus, gpus, values["power_mode"], values["temperature"])


def _known(kind: type[_Kind], values: DocumentView) -> _Kind:
    """A status from its fields.  Raises TypeError, ValueError or KeyError if they are not those of this release."""
    made = {one.name: values[one.name] for one in fields(kind)}
    of = {name: kind for name, (kind, _) in FIELDS[kind].items()}
    made |= {name: of[name](value) for name, value in made.items() if issubclass(of[name], Words) and value is not None}
    return kind(**made)
