# SPDX-License-Identifier: GPL-2.0
"""The command that writes a first taskset file: init."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gpurt.errors import DeviceError, RefusedError, UsageError
from gpurt.files import check_writable, written
from gpurt.text import visible
from pycontrol.act.run.first_file import look_at_process, text_of
from pycontrol.commands.options import GPU, JSON, Output, Pid, command
from pycontrol.link.control import connect
from pycontrol.output import render


@command(
    extra="the file to write is -o FILE",
    epilog="""\b
Examples:
  gpurt init -o robot.toml            from the host's clients
  gpurt init --pid 1234 --pid 1240    from these processes; a host need not run

\b
Exit codes: 0 done; 2 wrong usage, or the file is there already; 3 a file is
wrong or cannot be written; 4 no host, or one without clients; 5 no such process."""
)
@click.option("--pid", "pids", multiple=True, type=Pid(1), help="A process to make a task of; may be repeated.")
@click.option("-o", "--output", type=Output(), help="Write the file here instead of to stdout.")
@GPU
@JSON
@click.pass_obj
def init_command(
    device: str | None, pids: tuple[int, ...], output: Path | None, gpu: int | None, as_json: bool
) -> int:  # fmt: skip
    """Write a first taskset file from running processes.

    Each "?" in the file stands for a value that nobody has measured.  No command takes the file before each "?" is
    replaced.
    """
    if output and os.path.lexists(output) and output.is_file():
        raise UsageError(f"{visible(output)}: is there already; name another file with -o")
    if output:
        check_writable(output)
    clients, policy, latency, notes = [], None, [], []
    try:
        with connect(device) as control:
            clients, latency = control.clients(gpu), control.latency(gpu)
            policy = next(one.policy.word for one in control.gpus() if gpu is None or one.gpu == gpu)
    except DeviceError as error:
        if not pids:
            raise
        notes.append(f"{error}; the file lacks what a host knows")
    if hidden := sum(not one.pid for one in clients):
        notes.append(f"{hidden} clients of other users are left out; run this as root")
    wanted = list(dict.fromkeys(pids or (one.pid for one in clients if one.pid)))
    found = [look_at_process(pid, clients) for pid in wanted]
    if missing := [pid for pid, one in zip(wanted, found, strict=True) if one is None and pid in pids]:
        raise RefusedError(f"no process with pid {missing[0]}; nothing was written")
    processes = [one for one in found if one]
    if not processes:
        raise DeviceError("the host has no client: start the programs, or name processes with --pid")
    text = text_of(processes, policy, [one for one in latency if one.count])
    if output:
        with written(output) as file:
            file.write(text.encode())
    render.note(*notes, as_json=as_json)
    data = {"taskset": text, "pids": [one.pid for one in processes], "files": [output] if output else [],
            "notes": notes}  # fmt: skip
    blanks = f'{output}: {len(processes)} tasks; replace each "?" before gpurt can read it'
    if as_json or not output or output.is_file():  # otherwise stdout may be the file itself
        render.emit(data, as_json, blanks if output else text.rstrip("\n"))
    return 0
