# SPDX-License-Identifier: GPL-2.0
"""Time slices and interleave levels of several processes on a Tegra at once: sets all of them, or none.

Source of the driver's behaviour: nvgpu in L4T r35.1, r35.6, r36.2, r36.4 (os/linux/sched.c, common/fifo/tsg.c).
Nothing here has run on hardware.

- A call that changes a TSG stores the new value first and then reloads the runlist.  If the reload fails, the call
  fails and the value stays.  So this file also puts the TSG of a failed call back.
- The number of a closed TSG is free at once.  So this file holds each TSG (GET_TSG) from before it looks at it
  until all is done: no number can get another TSG in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from gpurt.errors import RefusedError
from gpurt.units import US
from pycontrol.link.hints import SLICE_LIMITS, HintLevel, Hints, SchedNode

#: How often a process is asked for TSGs that it has opened meanwhile.
MAX_QUESTIONS = 4


@dataclass(frozen=True, slots=True)
class Setting:
    """The slice and the level that all TSGs of a process are to have; None: no change."""

    pid: int
    slice_us: int | None = None
    level: HintLevel | None = None


def whole_us(ns: int) -> int:
    """A slice as the node takes it, us.  Raises ValueError if the driver takes no such slice."""
    low, high = SLICE_LIMITS
    if ns % US or not low <= ns // US <= high:
        raise ValueError(f"not a whole number of microseconds from {low} to {high}")
    return ns // US


def apply(node: SchedNode, settings: Sequence[Setting]) -> list[Hints]:
    """Sets slices and levels of all TSGs of these processes.  Returns the TSGs' former settings.

    TSGs that a process opens during this call are set as well.  Later TSGs have the driver's defaults.

    Raises:
        RefusedError: a process has no TSGs, or the driver refuses something.  Everything is as it was before, or the
            text says what is not.
    """
    done: list[tuple[Hints, Setting]] = []
    with _held(node) as hold, _restored(node, done):
        found = [(hints, one) for one in settings for hints in hold(one.pid)]
        for _ in range(MAX_QUESTIONS):
            for hints, one in found:
                done.append((hints, one))  # first, since a failing call may have changed the TSG
                _set(node, hints.tsg, one.slice_us, one.level)
            known = {hints.tsg for hints, _ in done}
            found = [(hints, one) for one in settings for hints in hold(one.pid) if hints.tsg not in known]
            if not found:
                return [hints for hints, _ in done]
        raise RefusedError(f"process {found[0][1].pid} opens time-slice groups faster than they can be set")


def _set(node: SchedNode, tsg: int, slice_us: int | None, level: HintLevel | None) -> None:
    if slice_us is not None:
        node.set_slice(tsg, slice_us)
    if level is not None:
        node.set_level(tsg, level)


@contextmanager
def _held(node: SchedNode) -> Iterator[Callable[[int], list[Hints]]]:
    """Yields a function that holds a process's TSGs and returns their settings; lets all go at the end."""
    held: set[int] = set()

    def hold(pid: int) -> list[Hints]:
        found = []
        for tsg in node.tsgs(pid):
            if tsg not in held:
                node.hold(tsg)
                held.add(tsg)
            hints = node.hints_of(tsg)
            if hints.pid == pid:  # else it was closed, and its number reused, before it was held
                found.append(hints)
        return found

    try:
        yield hold
    finally:
        for tsg in held:
            with suppress(RefusedError):  # closing the node lets all others go
                node.let_go(tsg)


@contextmanager
def _restored(node: SchedNode, done: Sequence[tuple[Hints, Setting]]) -> Iterator[None]:
    """If anything goes wrong, puts back what was changed, latest first.  Raises RefusedError if that fails, too."""
    try:
        yield
    except BaseException as error:
        lost = []
        for old, one in reversed(done):
            for what, slice_us, level in (("level", None, old.level), ("slice", old.slice_us, None)):
                if (one.level if slice_us is None else one.slice_us) is None:
                    continue
                try:
                    _set(node, old.tsg, slice_us, level)
                except RefusedError:
                    lost.append(f"the {what} of TSG {old.tsg} of process {old.pid}")
        if lost:
            raise RefusedError(f"{error}; not put back: {', '.join(lost)}") from error
        raise
