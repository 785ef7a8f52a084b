# SPDX-License-Identifier: GPL-2.0
"""GPUs whose runlist updates the agents of the processes carry out, one process each."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from actors import Actor
from links import MS, PENDING, RUNNING, Client, client_of, eventually
from loading import DEVICE, PARAMETERS, load, unload

from gpurt._gpurt import lib
from gpurt.enums import EventKind, Tier
from pycontrol.live.control import Control, connect

#: Longer than anything takes that is not waited for, s; an agent's time that never ends, and one that does, ms, but
#: not for who obeys on a slow machine.
SOON, NEVER, BRIEFLY = 15.0, 30_000, 2_000
PARKED = None
Make = Callable[[], Actor]


@dataclass(frozen=True)
class Order:
    """What GPURT_IOC_ORDER or GPURT_IOC_AGENT says; `code` is 0 or -errno."""

    code: int
    sequence: int
    on: int


# What the processes do


def enlist(client: Client, tsgs: int = 1, gpu: int = 0) -> Order:
    """Becomes its process's agent, or says how many TSGs there are now."""
    code, made = client.call(lib.GPURT_IOC_AGENT, gpu=gpu, tier=Tier.UNPATCHED, tsgs=tsgs, driver=b"test")
    return Order(code, int(made.sequence), int(made.on))


def park(client: Any, answered: int = 0, result: int = 0, timeout_ns: int = lib.GPURT_FOREVER) -> Order | None:
    """Answers and starts to wait for the next order, on a thread of its own; see `look`."""
    fields = {"answered": answered, "result": result, "timeout_ns": timeout_ns}
    client.parked = client.start(lib.GPURT_IOC_ORDER, **fields)
    return look(client)


def look(client: Any) -> Order | None:
    """The order that it waits for, if it has come."""
    if not client.parked.done():
        return PARKED
    code, made = client.parked.result()
    return Order(code, int(made.sequence), int(made.on))


def interrupt(client: Any) -> Order:
    """Interrupts the call that waits."""
    client.parked.pending.interrupt()
    client.parked.result()
    order = look(client)
    assert order
    return order


def begin(client: Any, priority: int, again: bool = False) -> None:
    """Begins a segment by another descriptor of the process, on a thread of its own; see `begun`."""
    if not again:
        client.second = client_of(DEVICE)
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
    with client_of(DEVICE) as user:
        for _ in range(rounds):
            assert user.begin(priority=priority, flags=lib.GPURT_BEGIN_WAIT) == RUNNING
            user.end()


def execute(client: Any) -> None:
    """Becomes another program."""
    os.execv("/bin/sleep", ["sleep", "1000"])


# What the tests say


def strike(actor: Actor) -> None:
    """Kills a process without waiting for its end."""
    if actor.pid:
        os.kill(actor.pid, signal.SIGKILL)


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
            strike(actor)  # all at once, for nobody obeys any more


def loaded(bound_ms: int, wait: int = 0) -> Iterator[Control]:
    """The module with one GPU of agents and a virtual one."""
    load("agent_gpus=1", f"agent_bound_ms={bound_ms}", f"agent_wait={wait}")
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
    """Agents are late soon, and nobody waits for them then."""
    yield from loaded(BRIEFLY)


@pytest.fixture
def strict() -> Iterator[Control]:
    """Agents are late soon, and the GPU is withheld from everyone then."""
    yield from loaded(BRIEFLY, wait=1)


def comes(actor: Actor, function: Callable[[Any], Any] = look) -> Any:
    """What the process is told, once it is."""
    found: list[Any] = []

    def there() -> bool:
        found.append(actor.run(function))
        return found[-1] is not None

    eventually(there)
    return found[-1]


def ready(make: Make, on: int = 1) -> Actor:
    """A process whose agent has carried out its first order and waits for the next."""
    actor = make()
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
    """A process takes the GPU from another one, whose agent waits and who obeys."""
    actor.run(begin, priority)
    order = comes(other)
    assert order.on == 0
    assert other.run(park, order.sequence) is PARKED
    assert comes(actor, begun) == RUNNING


# Updates


def test_the_owner_is_ordered_on_when_all_others_have_answered_off(patient: Control, make: Make) -> None:
    low, high, third = ready(make), ready(make), ready(make)
    low.run(begin, 10)
    assert (comes(high).on, comes(third).on) == (0, 0)
    assert high.run(park, 2) is PARKED
    shortly(low, begun)  # the third has not answered
    assert third.run(park, 2) is PARKED
    assert comes(low, begun) == RUNNING
    assert low.run(look) is PARKED  # it ran already, and runs on

    high.run(begin, 20)
    assert comes(low) == Order(0, 2, 0)
    shortly(high)
    assert low.run(park, 2) is PARKED
    assert comes(high) == Order(0, 3, 1)
    shortly(high, begun)  # its own agent has not answered
    assert high.run(park, 3) is PARKED
    assert comes(high, begun) == RUNNING
    assert third.run(look) is PARKED
    (status, _) = patient.status()
    assert (status.late, status.faults, status.runner_pid, status.tsgs) == (0, 0, high.pid, 3)
    assert (status.tier, status.driver) == (Tier.UNPATCHED, "agents")


def test_everyone_is_ordered_on_without_waiting(patient: Control, make: Make) -> None:
    owner, others = ready(make), [ready(make) for _ in range(3)]
    owner.run(begin, 10)
    for other in others:
        assert other.run(park, comes(other).sequence) is PARKED
    assert comes(owner, begun) == RUNNING
    before = time.monotonic()
    owner.run(end)
    assert time.monotonic() - before < SOON
    assert [comes(other) for other in others] == [Order(0, 3, 1)] * 3


def test_an_order_that_was_overtaken_is_never_delivered(brief: Control, make: Make) -> None:
    owner, busy = ready(make), make()
    assert busy.run(enlist) == Order(0, 1, 1)
    assert busy.do("code", code=lib.GPURT_IOC_ORDER, answered=1, timeout_ns=MS) == -errno.ETIMEDOUT
    # off and on again while it does something else
    owner.run(begin, 10)
    assert comes(owner, begun) == RUNNING
    owner.run(end)
    assert busy.run(park, 1) == Order(0, 3, 1)
    assert busy.run(park, 2) == Order(0, 3, 1)
    assert busy.run(park, 3) is PARKED


def test_a_segment_may_be_begun_by_any_descriptor_of_the_process(patient: Control, make: Make) -> None:
    process, other = ready(make), ready(make)
    process.run(begin, 10)
    assert comes(other) == Order(0, 2, 0)
    assert other.run(park, 2) is PARKED
    assert comes(process, begun) == RUNNING
    assert process.run(look) is PARKED
    assert {one.pid for one in patient.clients()} == {process.pid, other.pid}


def test_an_agent_that_comes_while_it_may_not_run_is_told_so(patient: Control, make: Make) -> None:
    owner = ready(make)
    owner.run(begin, 10)
    assert comes(owner, begun) == RUNNING
    late = ready(make, on=0)
    owner.run(end)
    assert comes(late) == Order(0, 2, 1)


def test_whoever_loses_the_last_tsg_loses_the_segment(patient: Control, make: Make) -> None:
    owner = make()
    assert owner.run(enlist, 65536) == Order(0, 1, 1)
    assert owner.run(park, 1) is PARKED
    assert owner.do("begin", priority=10) == RUNNING
    assert patient.status()[0].tsgs == 65536
    assert owner.run(enlist, 3).code == 0  # while it waits for an order
    assert (patient.status()[0].tsgs, patient.status()[0].runner_pid) == (3, owner.pid)
    assert owner.run(enlist, 0).code == 0
    assert (patient.status()[0].tsgs, patient.status()[0].runner_pid) == (0, 0)
    assert owner.do("code", code=lib.GPURT_IOC_END) == -errno.ENOENT


def test_exempt_processes_stay_on(patient: Control, make: Make) -> None:
    owner, exempt = ready(make), ready(make)
    patient.set_exempt(True, pid=exempt.pid)
    owner.run(begin, 10)
    assert comes(owner, begun) == RUNNING
    assert exempt.run(look) is PARKED
    changing = threading.Thread(target=patient.set_exempt, args=(False,), kwargs={"pid": exempt.pid})
    changing.start()
    assert comes(exempt) == Order(0, 2, 0)
    assert exempt.run(park, 2) is PARKED
    changing.join()


# Agents that refuse, are late, or die


def test_an_order_that_was_refused_is_given_again(patient: Control, make: Make) -> None:
    owner, other = ready(make), ready(make)
    owner.run(begin, 10)
    order = comes(other)
    for _ in range(3):
        other.run(park, order.sequence, -errno.EIO)
        following = comes(other)
        assert (following.on, following.sequence) == (0, order.sequence + 1)
        order = following
        assert owner.run(begun) is None
    assert other.run(park, order.sequence) is PARKED
    assert comes(owner, begun) == RUNNING


def test_a_process_that_dies_is_not_waited_for(patient: Control, make: Make) -> None:
    owner, victim, closer = ready(make), ready(make), ready(make)
    victim.run(begin, 5)
    for other in (owner, closer):
        assert other.run(park, comes(other).sequence) is PARKED
    owner.run(begin, 10)
    assert comes(victim) == Order(0, 2, 0)
    before = time.monotonic()
    strike(victim)
    assert comes(owner) == Order(0, 3, 1)
    assert owner.run(park, 3) is PARKED
    assert comes(owner, begun) == RUNNING
    assert time.monotonic() - before < SOON
    assert patient.status()[0].late == 0


def test_an_owner_that_dies_is_not_waited_for(patient: Control, make: Make) -> None:
    other, owner = ready(make), ready(make)
    takes(other, owner, 5)
    owner.run(begin, 10)
    assert comes(other).on == 0
    assert other.run(park, 2) is PARKED
    assert comes(owner) == Order(0, 3, 1)  # which it never answers
    before = time.monotonic()
    strike(owner)  # its begin has not returned
    assert comes(other) == Order(0, 3, 1)
    assert time.monotonic() - before < SOON


def test_a_late_agent_is_reported_and_the_gpu_given_all_the_same(brief: Control, make: Make) -> None:
    owner, late = ready(make), ready(make)
    with connect("/dev/gpurt") as listener:
        events = listener.events(timeout=SOON)
        owner.run(begin, 10)
        assert comes(owner, begun) == RUNNING
        event = next(one for one in events if one.kind is EventKind.LATE)
    assert event.pid == late.pid
    assert event.latency_ns is not None
    assert event.latency_ns >= BRIEFLY * MS
    assert (brief.status()[0].late, brief.status()[0].faults) == (1, 0)
    order = late.run(look)
    assert order == Order(0, 2, 0)
    assert late.run(park, 2) is PARKED
    assert brief.status()[0].late == 0


def test_a_late_agent_that_dies_is_forgotten(brief: Control, make: Make) -> None:
    owner, late = ready(make), ready(make)
    owner.run(begin, 10)
    assert comes(owner, begun) == RUNNING
    assert brief.status()[0].late == 1
    late.kill()
    eventually(lambda: brief.status()[0].clients == 2)  # the owner's two
    assert brief.status()[0].late == 0


def test_an_agent_that_is_late_to_switch_on_is_reported(brief: Control, make: Make) -> None:
    owner, other = ready(make), ready(make)
    takes(owner, other, 10)
    owner.run(end)
    assert comes(other) == Order(0, 3, 1)
    eventually(lambda: brief.status()[0].late == 1)
    assert other.run(park, 3) is PARKED
    assert brief.status()[0].late == 0


def test_an_owner_that_is_late_itself_has_the_gpu(strict: Control, make: Make) -> None:
    other, owner = ready(make), ready(make)
    takes(other, owner, 5)
    owner.run(begin, 10)
    assert comes(other).on == 0
    assert other.run(park, 2) is PARKED
    assert comes(owner, begun) == RUNNING
    assert (strict.status()[0].late, strict.status()[0].faults) == (1, 0)


def test_a_late_agent_withholds_the_gpu_if_so_wished(strict: Control, make: Make) -> None:
    owner, late, newcomer = ready(make), ready(make), make()
    owner.run(begin, 10)
    assert comes(owner, begun) == PENDING
    assert strict.status()[0].late == 1
    eventually(lambda: strict.status()[0].faults >= 3)
    assert owner.run(look) is PARKED
    assert newcomer.run(enlist) == Order(0, 1, 0)
    assert newcomer.run(park, 1) is PARKED
    assert late.run(park, 2) is PARKED
    assert owner.run(granted) == 0
    assert strict.status()[0].late == 0


def test_a_late_agent_that_dies_withholds_nothing(strict: Control, make: Make) -> None:
    owner, late = ready(make), ready(make)
    owner.run(begin, 10)
    assert comes(owner, begun) == PENDING
    strike(late)
    assert owner.run(granted) == 0


# The calls


def test_errors(patient: Control, make: Make) -> None:
    agent, other = ready(make), make()
    second, order = agent.run(wrong_calls), lib.GPURT_IOC_ORDER
    assert second == {"agent": -errno.EBUSY, "order": -errno.EBUSY, "stranger": -errno.ENOENT}
    assert other.do("code", code=order) == -errno.ENOENT
    assert other.run(enlist) == Order(0, 1, 1)
    assert other.do("code", code=order, answered=2) == -errno.EINVAL
    assert other.do("code", code=order, answered=2**64 - 1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, result=1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, flags=1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, pad=1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, timeout_ns=MS) == -errno.ETIMEDOUT
    assert other.do("code", code=order, answered=1) == -errno.ETIMEDOUT
    assert other.do("code", code=order, answered=0) == 0  # it is told again what holds
    assert other.run(enlist, 65537).code == -errno.EINVAL
    assert other.run(enlist, 1, 1).code == -errno.EOPNOTSUPP
    assert other.do("code", code=order, gpu=1) == -errno.EOPNOTSUPP
    assert other.run(enlist, 1, 2).code == -errno.ENODEV
    assert other.run(park, 1) is PARKED
    assert other.run(interrupt).code == -errno.EINTR
    assert other.run(park, 1) is PARKED


def wrong_calls(client: Any) -> dict[str, int]:
    """Of a process whose agent waits for an order."""
    with client_of(DEVICE) as stranger:
        return {
            "agent": enlist(stranger).code,
            "order": client.code(lib.GPURT_IOC_ORDER, answered=1),
            "stranger": stranger.code(lib.GPURT_IOC_ORDER, answered=1),
        }


def test_what_the_host_does_not_see_is_not_supported(patient: Control) -> None:
    with client_of(DEVICE) as client:
        client.begin()
        for code, fields in {
            lib.GPURT_IOC_END: {"flags": lib.GPURT_END_DRAIN},
            lib.GPURT_IOC_TSG_OPEN: {},
            lib.GPURT_IOC_TSG_CLOSE: {},
            lib.GPURT_IOC_SUBMIT: {"duration_ns": 1},
            lib.GPURT_IOC_WAIT: {"what": lib.GPURT_WAIT_IDLE},
        }.items():
            assert client.code(code, **fields) == -errno.EOPNOTSUPP
        assert client.call(lib.GPURT_IOC_QUERY)[1].caps & lib.GPURT_CAP_AGENTS
        client.end()


# Ends while an order is waited for


def test_the_gpu_goes_away_while_an_order_is_waited_for(patient: Control, make: Make) -> None:
    actors = [ready(make) for _ in range(3)]
    before = time.monotonic()
    (PARAMETERS / "agent_gpus").write_text("0")
    assert time.monotonic() - before < SOON
    assert [comes(actor).code for actor in actors] == [-errno.ENODEV] * 3
    (PARAMETERS / "agent_gpus").write_text("2")
    assert [status.driver for status in patient.status()] == ["agents", "vgpu", "agents"]


def test_the_gpu_goes_away_in_the_middle_of_an_update(brief: Control, make: Make) -> None:
    owner, busy = ready(make), ready(make)
    owner.run(begin, 10)
    before = time.monotonic()
    (PARAMETERS / "agent_gpus").write_text("0")
    assert time.monotonic() - before < SOON
    assert comes(owner).code == -errno.ENODEV
    assert busy.run(park, 2) == Order(-errno.ENODEV, 0, 0)


@pytest.mark.parametrize("how", ["killed", "executes", "closes", "several"])
def test_processes_end_while_they_wait_for_an_order(patient: Control, make: Make, how: str) -> None:
    actors = [ready(make) for _ in range(5 if how == "several" else 1)]
    before = time.monotonic()
    for actor in actors:
        if how == "executes":
            actor.start(execute)
        elif how == "closes":
            actor.do("close")
        else:
            strike(actor)
    eventually(lambda: patient.status()[0].clients == 0)
    assert time.monotonic() - before < SOON


def test_the_module_is_removed_after_all_this() -> None:
    load("agent_gpus=1", "vgpus=0")
    with Actor(DEVICE) as actor:
        assert actor.run(enlist) == Order(0, 1, 1)
        assert actor.run(park, 1) is PARKED
        refused = subprocess.run(["rmmod", "gpurt"], capture_output=True, text=True, check=False)
        assert "in use" in refused.stderr
    unload()
    load("agent_gpus=2", "vgpus=0")
    with connect("/dev/gpurt") as control:
        assert [status.driver for status in control.status()] == ["agents"] * 2
    load()


def test_bad_parameters_are_refused() -> None:
    unload()
    # the last: there is no number left for the virtual GPU
    for option in ("agent_gpus=17", "agent_gpus=x", "agent_bound_ms=0", "agent_bound_ms=60001", "agent_gpus=16"):
        with pytest.raises(subprocess.CalledProcessError):
            load(option)
        assert not PARAMETERS.exists()
    load()


# Many


def test_sixty_four_processes_never_run_side_by_side(patient: Control, make: Make) -> None:
    floor, actors = make(), [make() for _ in range(64)]
    for actor in (floor, *actors):
        assert actor.run(enlist).code == 0
        actor.run(serve)
    floor.run(begin, 1)  # from now on the GPU is never everyone's
    assert comes(floor, begun) == RUNNING
    for number, actor in enumerate(actors):
        actor.start(segments, 2 + number, 3)
    for actor in actors:
        actor.answer()
    floor.run(end)
    (status, _) = patient.status()
    assert (status.late, status.faults) == (0, 0)
    held = sorted(span for actor in actors for span in spans(actor.run(log_of)))
    assert len(held) >= 64 * 3
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(held))


def spans(log: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """From when to when a process ran, at least, between its first and its last order off."""
    assert [number for _, number, _ in log] == sorted({number for _, number, _ in log})
    return [(since, until) for (since, _, on), (until, _, _) in itertools.pairwise(log[1:]) if on]
