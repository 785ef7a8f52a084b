# SPDX-License-Identifier: GPL-2.0
"""The command that gives running processes the priorities of a taskset file: apply."""

from __future__ import annotations

from pathlib import Path

import click

from pycontrol.commands import render
from pycontrol.commands.options import FILE, JSON, analysable, connect, outside, unlike


@click.command(
    epilog="""\b
Examples:
  gpurt apply set.toml

\b
Exit codes: 0 every real-time GPU task was found and set; 1 some were not running, or nothing was set: the taskset is
not schedulable, or the host runs another policy than the file's; 2 wrong usage; 3 the file is wrong; 4 no host;
5 not permitted."""
)
@FILE
@click.option("--force", is_flag=True,
              help="Also if it is not proved that every deadline holds under the host's policy.")  # fmt: skip
@JSON
@click.pass_obj
def apply(device: str | None, file: Path, force: bool, as_json: bool) -> int:
    """Give running processes the GPU priorities of a taskset file, matched by the task's command or name."""
    from analysis import taskset
    from analysis.verdict import answer
    from pycontrol import procs

    loaded = taskset.load(file) if force else analysable(file)
    verdict = answer(loaded.taskset)
    why = f"under policy {verdict.policy}, {verdict.why}" if verdict.why else ""
    if why and not force:
        return _refuse(file, verdict.policy, verdict.why, f"not applied: {why}", as_json)
    rows, data, complete = [], {}, True
    with connect(device) as control:
        gpus = control.gpus()
        other = unlike(verdict.policy, gpus) or outside(verdict.policy, loaded.taskset, gpus)
        if other and not force:
            return _refuse(file, verdict.policy, other, f"not applied: {other}", as_json)
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
    lines = [render.table(("task", "GPU priority", "pid"), rows) if rows else "no task uses the GPU: nothing to set"]
    lines += [f"applied by force, without a proof: {reason}" for reason in (why, other) if reason]
    whole = {"schedulable": not (why or other), "why": verdict.why or other or None, "applied": True, "tasks": data}
    render.emit({"file": file, "policy": verdict.policy, **whole}, as_json, "\n".join(lines))
    return 0 if complete else 1


def _refuse(file: Path, policy: str, why: str, text: str, as_json: bool) -> int:
    """Says why nothing was applied; the exit code."""
    whole = {"schedulable": False, "why": why, "applied": False, "tasks": {}}
    render.emit({"file": file, "policy": policy, **whole}, as_json, f"{text}\nuse --force to apply it anyway")
    return 1
