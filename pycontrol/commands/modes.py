# SPDX-License-Identifier: GPL-2.0
"""The command that finds a policy and waiting modes: plan modes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click

from analysis.answers.beside import Beside
from analysis.answers.choose import (
    MAX_USERS_READABLE,
    MIXED_TESTS,
    Choice,
    choice_steps,
    choices,
    unsearched,
    with_modes,
)
from analysis.answers.chosen import beside_of, covering_test
from analysis.answers.loading import rewritable
from analysis.answers.registry import TESTS
from analysis.answers.verdict import lacks_theta
from analysis.model import POLICIES, Taskset, Waiting
from analysis.taskset.file import assumptions
from analysis.taskset.write import write_values
from gpurt.enums import Form, Tier
from gpurt.errors import GpurtError, UsageError
from gpurt.text import filename
from gpurt.types import Document
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.link.control import connect
from pycontrol.output import render

NO_WAY = "no policy, waiting modes and GPU priorities are known that hold all deadlines"


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan modes set.toml
  gpurt plan modes set.toml --write
  gpurt plan modes set.toml --host agents

\b
Exit codes: 0 a policy of the hosts runs the taskset in time; 1 none is known; 2 wrong usage; 3 the file is wrong;
4 no host at --device."""
)
@FILE
@click.option("--write", is_flag=True, help="Write policy, waiting modes and GPU priorities of the best into the file.")
@click.option("--host", "kind", type=click.Choice(("agents", "module", "virtual")),
              help="Propose only what such a host can do; the connected one, if any, unless given.")  # fmt: skip
@JSON
@click.pass_obj
def modes_command(device: str | None, file: Path, write: bool, kind: str | None, as_json: bool) -> int:
    """Find the policy and each task's waiting mode that leave the most slack.

    Slack is the smallest (D - WCRT) / D of all tasks; of equals, the second smallest counts, and so on.
    """
    loaded = rewritable(file, write).taskset
    if not loaded.real_time:
        why = "there is no real-time task, so there is nothing to choose"
        render.emit(_choice(file, why, _beside(loaded, why)), as_json, f"NOT PROVED: {why}")
        return 1
    with render.progress(choice_steps(), "comparing") as bar:
        kind = kind or _connected(device)
        every = choices(loaded, bar.update, lambda known: _interrupted(known, as_json))
        left_out = {_unable(kind, one.policy, one.modes.values()) for one in every} - {""} if kind else set[str]()
        found = [one for one in every if not kind or not _unable(kind, one.policy, one.modes.values())]
        if not every:
            raise UsageError(f"{filename(file)}: {_no_choice(loaded)}")
        if not found:
            why = f"a host of kind {kind} can have none of the ways: {'; '.join(sorted(left_out))}"
            known = _beside(loaded, why)
            render.emit(_choice(file, why, known), as_json, "\n".join([f"NOT PROVED: {why}", *known.lines()]))
            return 1
    best = found[0]
    notes = [*_conditions(loaded, best), *(f"not for a host of kind {kind}: {why}" for why in sorted(left_out))]
    render.note(*notes, as_json=as_json)
    written = write and best.schedulable
    if written:
        _write(file, loaded, best)
    why = "" if best.schedulable else NO_WAY
    known = _beside(loaded, why)
    data = _choice(file, why, known, found, written, notes)
    lines = [_verdict(best), _ways(found)]
    if not best.schedulable:
        lines += ["gpurt analyze says which task or chain fails, and why", *known.lines()]
    elif written:
        lines.append(f"written to {filename(file)}; give it to a running host with: gpurt set policy {best.policy}")
    else:
        lines.append("--write puts the first line of the table into the file")
    render.emit(data, as_json, "\n".join(lines))
    return 0 if best.schedulable else 1


def _interrupted(found: list[Choice], as_json: bool) -> None:
    """Shows what was compared until Ctrl-C; with --json, only the error is shown."""
    if found and not as_json:
        render.say(f"interrupted; {len(found)} ways were compared, others may be better:\n{_ways(found)}")


def _beside(loaded: Taskset, why: str) -> Beside:
    """The facts about the file as it stands, if no way is proved."""
    return beside_of(loaded, covering_test(loaded, None).test if why else None, why, None, "plan modes")


def _connected(device: str | None) -> str | None:
    """The kind of the running host, or None."""
    try:
        with connect(device) as control:
            gpus = control.gpus()
            if Path(control.device).is_char_device():
                return "module"
    except GpurtError:
        return None
    return "virtual" if all(gpu.tier is Tier.VIRTUAL for gpu in gpus) else "agents"


def _no_choice(loaded: Taskset) -> str:
    """Why no one policy for all tasks is possible."""
    if any(task.partition and task.partition.shared for task in loaded):
        return (
            "TSGs are shared, and no test covers them; those for policy timesliced need theta in [platform] and one "
            "order for all of them"
        )
    return (
        "its partitions have policies of their own; where several share CPUs, bounds are known for policy segment only"
    )


def _conditions(loaded: Taskset, best: Choice) -> list[str]:
    """The evidence for the answer, and what it omits."""
    notes = []
    if any(lacks_theta(test, loaded) for test in TESTS.values()):
        notes.append("theta is missing in [platform]: what needs it to be bounded was left out")
    for name in MIXED_TESTS:
        if unsearched(loaded, name):
            many = f"more than {MAX_USERS_READABLE} tasks use the GPU"
            notes.append(f"{many}: mixed waiting modes under {name} were left out")
    if best.schedulable:
        chosen = with_modes(loaded, best.modes).with_gpu_priorities(dict(best.priorities))
        notes += assumptions(replace(chosen, platform=replace(loaded.platform, policy=best.policy)))
    return notes


def _write(file: Path, loaded: Taskset, best: Choice) -> None:
    """Writes policy, waiting modes, matching forms and GPU priorities into the file.  Raises FileError."""
    modes = {name: mode.value for name, mode in best.modes.items()}
    # Form `owner` fits both modes, and the bounds of both.
    stated = {one.name for one in loaded if one.form not in (None, Form.OWNER)}
    forms = {name: mode.forms[0].word for name, mode in best.modes.items() if name in stated}
    write_values(file, {"waiting": modes, "form": forms, "gpu_priority": dict(best.priorities)}, best.policy)


def _choice(
    file: Path, why: str, known: Beside, ways: Sequence[Choice] = (), written: bool = False, notes: Sequence[str] = ()
) -> Document:
    """The JSON document; ``why``: why no way is proved."""
    return {
        "file": file, "schedulable": not why, "why": why or None, "ways": [_data(one) for one in ways],
        "files": [file] if written else [], "notes": notes, **known.data(),
    }  # fmt: skip


def _ways(found: Sequence[Choice]) -> str:
    """The policies and waiting modes, best first."""
    rows = [(one.policy, one.test, _percent(one.slack), _modes(one),
             "assigned" if one.priorities else "as in the file") for one in found]  # fmt: skip
    return render.table(("policy", "test", "least slack", "tasks wait", "GPU priorities"), rows)


def _verdict(best: Choice) -> str:
    """The answer in one line."""
    if not best.schedulable:
        return f"NOT PROVED: {NO_WAY}"
    waiting = f" if tasks wait so: {_modes(best)}" if best.modes else ""
    return f"schedulable under policy {best.policy}{waiting}; least slack {_percent(best.slack)} of a deadline"


def _percent(slack: Fraction | None) -> str:
    return "-" if slack is None else f"{float(100 * slack):.1f} %"


def _modes(choice: Choice) -> str:
    modes = set(choice.modes.values())
    if len(modes) < 2:
        return f"all {modes.pop().value}" if modes else "-"
    text = ", ".join(f"{name} {mode.value}" for name, mode in choice.modes.items())
    busy = sum(mode.spins for mode in choice.modes.values())
    return text if len(text) <= 60 else f"{busy} of {len(choice.modes)} busy"


def _data(choice: Choice) -> Document:
    return {
        "policy": choice.policy, "test": choice.test, "schedulable": choice.schedulable,
        "slack": choice.slack,
        "tasks": {name: {"waiting": mode, "gpu_priority": choice.priorities.get(name)}
                  for name, mode in choice.modes.items()},
    }  # fmt: skip


def _unable(host: str, policy: str, modes: Iterable[Waiting]) -> str:
    """Why this kind of host cannot meet the bounds under this policy and waiting mode; empty if it can.

    ``host``: agents of programs (`gpurt serve`), the kernel module, or virtual GPUs in user space (`emulate`).
    """
    if POLICIES[policy].jobs and host != "module":
        return "policy job has bounds for a host's thread that stays on its CPU, which gpurt.ko alone has"
    if host == "agents" and POLICIES[policy].raises and any(mode.spins for mode in modes):
        return "updates by agents sleep: no bound of policy boosted holds then for tasks that wait busily"
    return ""
