# SPDX-License-Identifier: GPL-2.0
"""GPUs of the module that agents switch: what only the module can do.  The protocol is in tests/interface/agents."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from actors import Actor
from agent_actors import (
    BRIEFLY,
    NEVER,
    PARKED,
    Make,
    Order,
    begin,
    begun,
    comes,
    enlist,
    look,
    park,
    ready,
    strike,
)
from links import RUNNING, client_of, eventually
from loading import DEVICE, LOADED, load, times_slept, unload
from modules import parameter, remove

from gpurt._gpurt import lib
from pycontrol.link.control import Control, connect

#: How often an agent's driver refuses an order; each time takes a millisecond.
REFUSALS = 40


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes processes; all are killed in the end."""
    made: list[Actor] = []
    with ExitStack() as stack:

        def one() -> Actor:
            made.append(stack.enter_context(Actor(DEVICE)))
            return made[-1]

        yield one
        for actor in made:
            strike(actor)  # all at once, for none of them obeys any more


def loaded(bound_ms: int) -> Iterator[Control]:
    """The module with one GPU of agents and a virtual one."""
    load("agent_gpus=1", f"agent_bound_ms={bound_ms}")
    with connect("/dev/gpurt") as control:
        yield control
    unload()
    load()


@pytest.fixture
def patient() -> Iterator[Control]:
    """Agents have all the time that they need."""
    yield from loaded(NEVER)


@pytest.fixture
def brief() -> Iterator[Control]:
    """Agents are late soon, and no update waits for them then."""
    yield from loaded(BRIEFLY)


def interrupt(client: Any) -> Order:
    """Interrupts the call that waits."""
    client.parked.pending.interrupt()
    client.parked.result()
    order = look(client)
    assert order
    return order


def start(client: Any, code: int, **fields: Any) -> None:
    """Starts a call that waits, by the process's own descriptor."""
    client.started = client.start(code, **fields)


def is_waiting(thread: threading.Thread) -> bool:
    """Whether a thread of this process sleeps in the kernel and only SIGKILL can wake it."""
    task = Path(f"/proc/self/task/{thread.native_id}/stat")
    return task.read_text().rpartition(")")[2].split()[0] == "D"


def test_a_wait_for_an_order_is_interrupted(patient: Control, make: Make) -> None:
    actor = ready(make)
    assert actor.run(interrupt).code == -errno.EINTR
    assert actor.run(park, 1) is PARKED


def test_a_virtual_gpu_has_no_agents(patient: Control, make: Make) -> None:
    actor = make()
    assert actor.run(enlist, 1, 1).code == -errno.EOPNOTSUPP
    assert actor.do("code", code=lib.GPURT_IOC_ORDER, gpu=1) == -errno.EOPNOTSUPP


def test_the_gpu_goes_away_while_an_order_is_waited_for(patient: Control, make: Make) -> None:
    actors = [ready(make) for _ in range(3)]
    before = time.monotonic()
    parameter("agent_gpus").write_text("0")
    assert time.monotonic() - before < NEVER / 1000  # it waited for no agent
    assert [comes(actor).code for actor in actors] == [-errno.ENODEV] * 3
    parameter("agent_gpus").write_text("2")
    assert [status.driver for status in patient.status()] == ["none", "vgpu", "none"]


def test_the_gpu_goes_away_in_the_middle_of_an_update(brief: Control, make: Make) -> None:
    owner, busy = ready(make), ready(make)
    owner.run(begin, 10)
    parameter("agent_gpus").write_text("0")
    assert comes(owner).code == -errno.ENODEV
    assert busy.run(park, 2) == Order(-errno.ENODEV, 0, 0)


def administer(command: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Gives a command on a thread of its own.  Returns when its decision waits."""
    thread = threading.Thread(target=command, args=arguments)
    thread.start()
    eventually(lambda: is_waiting(thread))
    return thread


def start_of(actor: Actor, code: int, **fields: Any) -> None:
    """Makes a process start a call that waits."""
    actor.run(partial(start, code=code, **fields))


def test_no_update_waits_for_an_agent_that_was_killed_while_it_registered(patient: Control, make: Make) -> None:
    """Three decisions wait for an update, in this order: it registers, another one gets the GPU, it begins."""
    other, owner, killed = ready(make), make(), make()
    start_of(other, lib.GPURT_IOC_BEGIN, priority=5)
    owner.run(begin, 10)
    off = comes(other)
    start_of(killed, lib.GPURT_IOC_AGENT, tsgs=1, driver=b"test")
    administrator = administer(patient.set_priority, other.pid, 50)
    killed.run(begin, 0)  # its thread keeps the process from ending
    strike(killed)
    before = time.monotonic()
    assert other.run(park, off.sequence) in (PARKED, Order(0, off.sequence + 1, 1))
    assert comes(other).on == 1
    assert time.monotonic() - before < NEVER / 1000  # it waited for no agent
    assert other.run(park, off.sequence + 1) is PARKED
    administrator.join()


def refuse(client: Any, sequence: int, times: int) -> int:
    """Refuses its order so many times, each time it is given again; the number of the last one."""
    for _ in range(times):
        fields = {"answered": sequence, "result": -errno.EIO, "timeout_ns": lib.GPURT_FOREVER}
        code, made = client.call(lib.GPURT_IOC_ORDER, **fields)
        assert (code, made.sequence, made.on) == (0, sequence + 1, 0)
        sequence = int(made.sequence)
    return sequence


def test_the_gpus_thread_does_nothing_for_agents_that_refuse(make: Make) -> None:
    """In an update, which waits for the agent, and between updates."""
    load("agent_gpus=1", "vgpus=0", f"agent_bound_ms={BRIEFLY}")
    owner, other = ready(make), ready(make)
    owner.run(begin, 10)
    off = comes(other)
    before = times_slept("gpurt")
    last = other.run(refuse, off.sequence, REFUSALS)
    assert times_slept("gpurt") - before < REFUSALS // 2
    assert other.run(park, last) is PARKED
    assert comes(owner, begun) == RUNNING


def test_two_administrators_exempt_the_same_process_at_once(patient: Control, make: Make) -> None:
    other, owner = ready(make), make()
    owner.run(begin, 10)
    off = comes(other)
    with connect("/dev/gpurt") as second:
        threads = [administer(partial(plane.set_exempt, True, pid=owner.pid)) for plane in (patient, second)]
        assert other.run(park, off.sequence) is PARKED
        for thread in threads:
            thread.join()
    assert [client.exempt for client in patient.clients() if client.pid == owner.pid] == [True]
    patient.set_exempt(False, pid=owner.pid)


def test_the_module_is_removed_after_all_this() -> None:
    load("agent_gpus=1", "vgpus=0")
    with Actor(DEVICE) as actor:
        assert actor.run(enlist) == Order(0, 1, 1)
        assert actor.run(park, 1) is PARKED
        assert not remove("gpurt")
    unload()
    load("agent_gpus=2", "vgpus=0")
    with connect("/dev/gpurt") as control:
        assert [status.driver for status in control.status()] == ["none"] * 2
    load()


def test_bad_parameters_are_refused() -> None:
    unload()
    # the last: there is no number left for the virtual GPU
    for option in ("agent_gpus=17", "agent_gpus=x", "agent_bound_ms=0", "agent_bound_ms=60001", "agent_gpus=16"):
        with pytest.raises(OSError, match="gpurt"):
            load(option)
        assert not LOADED.exists()
    load()


def test_what_the_host_does_not_see_is_not_supported(patient: Control) -> None:
    with client_of(DEVICE) as client:
        client.begin()
        for code, fields in {
            lib.GPURT_IOC_END: {"flags": lib.GPURT_END_DRAIN},
            lib.GPURT_IOC_TSG_OPEN: {},
            lib.GPURT_IOC_TSG_CLOSE: {},
            lib.GPURT_IOC_SUBMIT: {"duration_ns": 1_000},
            lib.GPURT_IOC_WAIT: {"what": lib.GPURT_WAIT_IDLE},
        }.items():
            assert client.code(code, **fields) == -errno.EOPNOTSUPP
        assert client.call(lib.GPURT_IOC_QUERY)[1].caps & lib.GPURT_CAP_AGENTS
        client.end()
