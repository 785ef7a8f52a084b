# SPDX-License-Identifier: GPL-2.0
"""Gives running processes the priorities and groups of a file, if all its deadlines are proved to hold on this host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from analysis.answers.loading import refuse_file
from analysis.answers.verdict import answer
from analysis.model import Assumed, Task
from analysis.taskset import TasksetFile
from analysis.taskset.assumed import of_tests
from gpurt.errors import FileError
from gpurt.text import filename
from pycontrol.link import applied
from pycontrol.link.control import connect
from pycontrol.link.hints import HintLevel, SchedNode
from pycontrol.link.tegra import Setting, whole_us
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.objection import Objection
from pycontrol.observe.fit.turns import turns


@dataclass(frozen=True)
class Given:
    """What was set, or why nothing was set.

    ``proof``: why the file's deadlines are not proved to hold; ``other``: properties of the host that defeat the
    bounds; both empty: they hold.  ``done``: whether it was set.  ``pids``: the processes of each task that uses the
    GPU.  ``assumes``: facts that the file omits, and that a proof may wrongly assume.
    """

    policy: str
    proof: str
    other: str
    done: bool
    objections: Sequence[Objection] = ()
    pids: Mapping[str, Sequence[int]] | None = None
    assumes: Sequence[Assumed] = ()

    @property
    def doubts(self) -> list[str]:
        """Why not all deadlines are proved to hold, one text for each reason."""
        unproved = f"under policy {self.policy}, {self.proof}" if self.proof else ""
        return [text for text in (unproved, self.other) if text]

    def missing(self, users: Sequence[Task]) -> bool:
        """Whether a real-time task has no process."""
        return not all((self.pids or {}).get(task.name) for task in users if not task.best_effort)


def give(device: str | None, loaded: TasksetFile, force: bool) -> Given:
    """Sets the GPU priorities of a file, and on a Tegra slices and levels: all of them, or nothing.

    Processes of workers and of tasks in a group join the group first, except if the group must raise all threads.

    Args:
        device: the host's device; None: the usual search.
        loaded: the file.
        force: sets them even if it is not proved that every deadline holds on this host.

    Raises:
        TasksetError: the file lacks what its analysis needs, unless forced.
        DeviceError: there is no host, or nvgpu's node is missing.
        RefusedError: something is refused.
    """
    if not force:
        refuse_file(loaded, workers=True)
    verdict = answer(loaded.taskset)
    assumes = of_tests(loaded.taskset, [verdict.test.waiting if verdict.test else None])
    proof = verdict.why
    if not proof and loaded.unmodelled:  # forced
        proof = loaded.unmodelled[0].message
    if proof and not force:
        return Given(verdict.policy, proof, "", False, assumes=assumes)
    with connect(device) as control, ExitStack() as stack:
        host = fit.ask(control, loaded)
        matched = fit.matched(loaded, host)
        priorities = {pid: loaded.gpu_priorities[task.name] for pid, task in matched.items()}
        groups = _joining(loaded, host, matched)
        settings = [] if all(gpu.emulated for gpu in host.gpus) else list(_settings_of(loaded.path, matched))
        node = stack.enter_context(SchedNode()) if settings else None
        found = fit.objections(loaded, host.given(priorities, groups))
        if node and any(policy.turns for policy in loaded.taskset.rules):
            found += turns(node.everything(), matched)
        other = fit.against(found)
        if other and not force:
            return Given(verdict.policy, "", other, False, found, assumes=assumes)
        applied.apply_settings(control, host.clients, priorities, settings, node, groups=groups)
    pids = {
        task.name: sorted(pid for pid, one in matched.items() if one in loaded.taskset.beside(task))
        for task in loaded.taskset
    }
    return Given(verdict.policy, proof, other, True, found, pids, assumes)


def _joining(loaded: TasksetFile, host: fit.Host, matched: Mapping[int, Task]) -> dict[int, str]:
    """The groups that processes without a group join, by pid.

    Omits a task that holds a segment while its workers execute: its threads have to join by themselves.
    """
    alone = {one.pid for one in host.clients if not one.group}
    held = loaded.taskset.held
    homes = {one.name: group for group, members in loaded.groups.items() for one in members if one.name not in held}
    return {pid: homes[task.name] for pid, task in matched.items() if task.name in homes and pid in alone}


def _settings_of(file: Path, tasks: Mapping[int, Task]) -> Iterator[Setting]:
    """Slices and levels of processes in partitions that have them.  Raises FileError if no Tegra has such a slice."""
    for pid, task in tasks.items():
        part = task.partition
        if part is None or (part.slice, part.interleave) == (None, None):
            continue
        try:
            slice_us = None if part.slice is None else whole_us(part.slice)
        except ValueError as error:
            raise FileError(f"{filename(file)}: partition {part.name}: slice is {error}, as nvgpu takes it") from None
        yield Setting(pid, slice_us, None if part.interleave is None else HintLevel[part.interleave.upper()])
