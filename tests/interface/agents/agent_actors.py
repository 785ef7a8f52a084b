# SPDX-License-Identifier: GPL-2.0
"""Processes with agents that do what they are told, and no more; on either host."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors import Actor
from links import MS, RUNNING, Client, client_of, eventually

from gpurt._gpurt import lib
from gpurt.enums import Tier
from pycontrol.link.control import Control

#: An agent's time that never ends, and one that does, ms, but not for an agent that obeys on a slow machine.
NEVER, BRIEFLY = lib.GPURT_AGENT_BOUND_MAX_NS // MS, 2_000
PARKED = None
#: Makes a process; its first argument is what the process does before it connects.
Make = Callable[..., Actor]
NOBODY = 65534


@dataclass(frozen=True)
class Order:
    """The answer of GPURT_IOC_ORDER or GPURT_IOC_AGENT; `code` is 0 or -errno."""

    code: int
    sequence: int
    on: int


def ordinary() -> None:
    """Becomes an ordinary user."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def enlist(
    client: Client, tsgs: int = 1, gpu: int = 0, driver: bytes = b"test", tier: int = Tier.UNPATCHED
) -> Order:
    """Becomes its process's agent, or says how many TSGs there are now."""
    code, made = client.call(lib.GPURT_IOC_AGENT, gpu=gpu, tier=tier, tsgs=tsgs, driver=driver)
    return Order(code, int(made.sequence), int(made.on))


def park(client: Any, answered: int = 0, result: int = 0, timeout_ns: int = lib.GPURT_FOREVER) -> Order | None:
    """Answers and starts to wait for the next order, on a thread of its own; see `look`."""
    fields = {"answered": answered, "result": result, "timeout_ns": timeout_ns}
    client.parked = client.start(lib.GPURT_IOC_ORDER, **fields)
    client.call(lib.GPURT_IOC_QUERY)  # an answer that comes at once has come by then
    return look(client)


def look(client: Any) -> Order | None:
    """The order that it waits for, if it has come."""
    if not client.parked.done():
        return PARKED
    code, made = client.parked.result()
    return Order(code, int(made.sequence), int(made.on))


def begin(client: Any, priority: int, again: bool = False) -> None:
    """Begins a segment by another descriptor of the process, on a thread of its own; see `begun`."""
    if not again:
        client.second = client_of(client.host)
    client.beginning = client.second.start(lib.GPURT_IOC_BEGIN, priority=priority)


def begun(client: Any) -> int | None:
    """The state after `begin`, if it has returned."""
    if not client.beginning.done():
        return None
    code, made = client.beginning.result()
    assert code == 0, os.strerror(-code)
    return int(made.state)


def granted(client: Any) -> int:
    """Waits for the segment that `begin` began."""
    result, _ = client.second.granted().result()
    return int(result)


def end(client: Any) -> None:
    """Ends what `begin` began."""
    client.second.end()


def serve(client: Any) -> None:
    """Obeys every order at once, on a thread of its own, and remembers when."""
    client.log = []

    def obey() -> None:
        answered = 0
        while True:
            code, made = client.call(lib.GPURT_IOC_ORDER, answered=answered, timeout_ns=lib.GPURT_FOREVER)
            if code:
                return
            answered = int(made.sequence)
            client.log.append((time.monotonic_ns(), answered, int(made.on)))

    threading.Thread(target=obey, daemon=True).start()


def log_of(client: Any) -> list[tuple[int, int, int]]:
    """What `serve` remembers."""
    return list(client.log)


def segments(client: Any, priority: int, rounds: int) -> None:
    """Holds the GPU again and again."""
    with client_of(client.host) as user:
        for _ in range(rounds):
            assert user.begin(priority=priority, flags=lib.GPURT_BEGIN_WAIT) == RUNNING
            user.end()


def leave(client: Any) -> None:
    """Closes the process's only descriptor."""
    client.close()


def come_again(client: Any) -> Order:
    """Becomes the agent again by another descriptor."""
    client.again = client_of(client.host)
    return enlist(client.again)


def execute(client: Any) -> None:
    """Becomes another program."""
    os.execv("/bin/sleep", ["sleep", "1000"])


# What the tests say


def strike(actor: Actor) -> None:
    """Kills a process without waiting for its end."""
    if actor.pid:
        os.kill(actor.pid, signal.SIGKILL)


def comes(actor: Actor, function: Callable[[Any], Any] = look) -> Any:
    """The first answer of `function` in the process that is not None."""
    found: list[Any] = []

    def there() -> bool:
        found.append(actor.run(function))
        return found[-1] is not None

    eventually(there)
    return found[-1]


def ready(make: Make, on: int = 1, first: Callable[[], None] | None = None) -> Actor:
    """A process whose agent has carried out its first order and waits for the next."""
    actor = make(first) if first else make()
    assert actor.run(enlist) == Order(0, 1, on)
    assert actor.run(park) == Order(0, 1, on)
    assert actor.run(park, 1) is PARKED
    return actor


def shortly(actor: Actor, function: Callable[[Any], Any] = look) -> None:
    """Nothing comes."""
    for _ in range(10):
        assert actor.run(function) is None
        time.sleep(0.01)


def takes(actor: Actor, other: Actor, priority: int) -> None:
    """A process takes the GPU from another one, whose agent waits and obeys."""
    actor.run(begin, priority)
    order = comes(other)
    assert order.on == 0
    assert other.run(park, order.sequence) is PARKED
    assert comes(actor, begun) == RUNNING


def waited(plane: Control) -> bool:
    """Whether an update waited until an agent's time was over, where that never ends."""
    return any(one.maximum >= NEVER * MS for one in plane.latency())
