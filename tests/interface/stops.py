# SPDX-License-Identifier: GPL-2.0
"""Calls that wait while their process stands still for a time: what each waits for, and what it answers then.

test_stops.py of this folder stops the process; tests/kernel/guest/test_frozen.py freezes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from actors import Actor, of
from links import MS, PENDING, RUNNING, Call, Client, client_of, eventually

from gpurt._gpurt import lib
from gpurt.enums import State
from pycontrol.link.control import Control

#: Has a process stand still, and go on.
Pause = Callable[[int], None]
BEGIN, NEXT, END = lib.GPURT_COPY_BEGIN, lib.GPURT_COPY_NEXT, lib.GPURT_COPY_END

#: In a child: the call that waits.
waiting: list[Call] = []


def start(client: Client, code: int, fields: dict[str, int]) -> bool:
    """In a child: starts a call.  Whether it waits."""
    waiting.append(client.start(code, **fields))
    return not waiting[-1].done()


def outcome(_client: Client) -> tuple[int, dict[str, int]]:
    """In a child: waits for that call.  Returns its result, and what there is of some fields of its structure."""
    result, made = waiting.pop().result()
    return result, {name: int(getattr(made, name)) for name in ("state", "flags", "what") if hasattr(made, name)}


@dataclass
class Scene:
    """A client of this process, which keeps another process waiting."""

    plane: Control
    holder: Client
    actor: Actor
    pause: Pause

    def call(self, code: int, **fields: int) -> None:
        """The process makes a call that waits, stands still and goes on."""
        assert self.actor.run(start, code, fields)
        self.pause(self.actor.pid)

    def answer(self) -> tuple[int, dict[str, int]]:
        """The code and the fields that the call answers with."""
        answer: tuple[int, dict[str, int]] = self.actor.run(outcome)
        return answer

    def waiters(self) -> int:
        """How many wait for the bus."""
        return self.plane.buses()[0].waiters


@contextlib.contextmanager
def scene(host: Path, plane: Control, pause: Pause) -> Iterator[Scene]:
    """Such a scene on a host."""
    with client_of(host) as holder, Actor(host) as actor:
        yield Scene(plane, holder, actor, pause)


def begins(s: Scene) -> None:
    """A begin that waits begins one segment only."""
    s.holder.begin(priority=50)
    s.call(lib.GPURT_IOC_BEGIN, flags=lib.GPURT_BEGIN_WAIT)
    assert (of(s.plane, s.actor.pid).depth, of(s.plane, s.actor.pid).state) == (1, State.PENDING)
    s.holder.end()
    result, made = s.answer()
    assert (result, made["state"], made["flags"]) == (0, RUNNING, lib.GPURT_BEGIN_WAIT)
    assert of(s.plane, s.actor.pid).depth == 1


def waits_without_limit(s: Scene) -> None:
    """A wait for the GPU."""
    s.holder.begin(priority=50)
    assert s.actor.do("begin") == PENDING
    s.call(lib.GPURT_IOC_WAIT, timeout_ns=lib.GPURT_FOREVER)
    s.holder.end()
    assert s.answer()[0] == 0


def waits_with_a_limit(s: Scene) -> None:
    """A wait of which time is left."""
    s.holder.begin(priority=50)
    assert s.actor.do("begin") == PENDING
    s.call(lib.GPURT_IOC_WAIT, timeout_ns=3_600_000 * MS)
    s.holder.end()
    assert s.answer()[0] == 0


def ends(s: Scene) -> None:
    """An end that waits for work ends its segment."""
    s.holder.begin(priority=50)
    tsg = s.actor.do("tsg")
    s.actor.do("begin")
    s.actor.do("submit", tsg=tsg, duration=MS)
    s.call(lib.GPURT_IOC_END, flags=lib.GPURT_END_DRAIN)
    assert of(s.plane, s.actor.pid).depth == 1
    s.holder.end()
    assert s.answer()[0] == 0
    assert of(s.plane, s.actor.pid).depth == 0


def asks_for_the_bus(s: Scene) -> None:
    """A request for the bus is made anew."""
    assert s.holder.code(lib.GPURT_IOC_COPY, what=BEGIN) == 0
    s.call(lib.GPURT_IOC_COPY, what=BEGIN, timeout_ns=lib.GPURT_FOREVER)
    eventually(lambda: s.waiters() == 1)
    assert s.holder.code(lib.GPURT_IOC_COPY, what=END) == 0
    assert s.answer()[0] == 0
    assert s.actor.do("code", code=lib.GPURT_IOC_COPY, what=END) == 0


def goes_on_with_its_copy(s: Scene) -> None:
    """A copy that has let a more urgent one pass goes on after that."""
    # of a priority, for best effort is taken off after a time
    assert s.actor.do("code", code=lib.GPURT_IOC_COPY, what=BEGIN, priority=5) == 0
    urgent = s.holder.start(lib.GPURT_IOC_COPY, what=BEGIN, priority=9, timeout_ns=lib.GPURT_FOREVER)
    eventually(lambda: s.waiters() == 1)
    s.call(lib.GPURT_IOC_COPY, what=NEXT, timeout_ns=lib.GPURT_FOREVER)
    assert urgent.result()[0] == 0
    eventually(lambda: s.waiters() == 1)
    assert s.holder.code(lib.GPURT_IOC_COPY, what=END) == 0
    assert s.answer()[0] == 0
    assert s.actor.do("code", code=lib.GPURT_IOC_COPY, what=END) == 0


SCENES = [begins, waits_without_limit, waits_with_a_limit, ends, asks_for_the_bus, goes_on_with_its_copy]
