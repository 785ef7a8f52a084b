# SPDX-License-Identifier: GPL-2.0
"""The agents' protocol, one suite for both hosts: `gpurt serve` and the module with agent_gpus=1."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from actors import nothing
from agent_actors import (
    BRIEFLY,
    PARKED,
    Make,
    Order,
    begin,
    begun,
    come_again,
    comes,
    end,
    enlist,
    execute,
    granted,
    leave,
    log_of,
    look,
    ordinary,
    park,
    ready,
    segments,
    serve,
    shortly,
    strike,
    takes,
    waited,
)
from hosts import Hosts
from links import MS, PATIENCE, PENDING, RUNNING, client_of, eventually, is_device

from gpurt._gpurt import lib
from gpurt.enums import EventKind, Policy, Tier
from pycontrol.link.control import Control, connect


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
    (status,) = patient.status()
    assert (status.late, status.faults, status.runner_pid, status.tsgs) == (0, 0, high.pid, 3)
    assert (status.tier, status.driver) == (Tier.UNPATCHED, "test")


def test_everyone_is_ordered_on_without_waiting(patient: Control, make: Make) -> None:
    owner, others = ready(make), [ready(make) for _ in range(3)]
    owner.run(begin, 10)
    for other in others:
        assert other.run(park, comes(other).sequence) is PARKED
    assert comes(owner, begun) == RUNNING
    owner.run(end)
    assert not waited(patient)
    assert [comes(other) for other in others] == [Order(0, 3, 1)] * 3


#: More agents than a host wakes in one go.
MANY = 12
#: How many do so for a while; an emulated machine starts few of them a second.
CROWD = 24 if os.environ.get("GPURT_TEST_KERNEL") else 64


def real_time() -> None:
    """From now on all threads of the process are, if that is permitted."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


@pytest.mark.parametrize("first", [nothing, real_time])
def test_however_many_agents_there_are_each_gets_every_order(
    patient: Control, make: Make, first: Callable[[], None]
) -> None:
    owner, others = ready(make), [ready(make, first=first) for _ in range(MANY)]
    for number in (2, 4):
        owner.run(begin, 10, number > 2)
        for other in others:
            assert comes(other) == Order(0, number, 0)
            assert other.run(park, number) is PARKED
        assert comes(owner, begun) == RUNNING
        owner.run(end)
        for other in others:
            assert comes(other) == Order(0, number + 1, 1)
            assert other.run(park, number + 1) is PARKED
    assert patient.status()[0].late == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_user_may_have_so_many_agents_and_no_more(few: Control, hosts: Hosts, make: Make) -> None:
    hosts.latest.chmod(0o666)
    users = [make(ordinary) for _ in range(4)]
    assert [user.run(enlist).code for user in users] == [0, 0, -errno.EDQUOT, -errno.EDQUOT]
    assert users[0].run(enlist, 2).code == 0  # no new one
    assert users[2].do("code", code=lib.GPURT_IOC_ORDER) == -errno.ENOENT
    assert (few.status()[0].tsgs, few.status()[0].refused) == (3, 2)
    for _ in range(3):
        ready(make)  # this process may have any number
    strike(users[1])
    eventually(lambda: users[2].run(enlist).code == 0)
    assert users[3].run(enlist).code == -errno.EDQUOT


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


def test_a_client_that_loses_its_last_tsg_loses_its_segment(patient: Control, make: Make) -> None:
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
    assert (patient.status()[0].faults, patient.status()[0].late) == (0, 0)  # no update failed


def test_a_process_that_dies_is_not_waited_for(patient: Control, make: Make) -> None:
    owner, victim, closer = ready(make), ready(make), ready(make)
    victim.run(begin, 5)
    for other in (owner, closer):
        assert other.run(park, comes(other).sequence) is PARKED
    owner.run(begin, 10)
    assert comes(victim) == Order(0, 2, 0)
    strike(victim)
    assert comes(owner) == Order(0, 3, 1)
    assert owner.run(park, 3) is PARKED
    assert comes(owner, begun) == RUNNING
    assert not waited(patient)
    assert patient.status()[0].late == 0


def test_driver_and_tier_are_the_agents(patient: Control, make: Make) -> None:
    assert (patient.status()[0].driver, patient.status()[0].tier) == ("none", Tier.UNPATCHED)
    first, second, third = make(), make(), make()
    agents = ((first, b"rm", Tier.PATCHED), (second, b"kfd", Tier.UNPATCHED), (third, b"rm", Tier.HINTS))
    for actor, driver, tier in agents:
        assert actor.run(enlist, 1, 0, driver, int(tier)).code == 0
    assert (patient.status()[0].driver, patient.status()[0].tier) == ("kfd+rm", Tier.HINTS)
    third.kill()
    second.kill()
    eventually(lambda: patient.status()[0].driver == "rm")
    assert patient.status()[0].tier == Tier.PATCHED
    assert first.run(tier_of) == Tier.PATCHED


def test_every_decision_waits_for_the_update_in_flight(patient: Control, make: Make) -> None:
    owner, other, third = ready(make), ready(make), ready(make)
    owner.run(begin, 10)
    assert comes(third).on == 0
    assert third.run(park, 2) is PARKED
    assert comes(other).on == 0  # the update waits for its answer
    setting = threading.Thread(target=patient.set_priority, args=(third.pid, 50))
    setting.start()
    third.run(begin, 20)
    shortly(owner, begun)
    assert setting.is_alive()
    assert other.run(park, 2) is PARKED
    # the begin goes first, for it is more urgent
    assert comes(owner).on == 0
    assert owner.run(park, 2) is PARKED
    assert comes(third).on == 1
    assert third.run(park, 3) is PARKED
    assert comes(third, begun) == RUNNING
    setting.join(PATIENCE)
    assert not setting.is_alive()
    assert patient.status()[0].runner_pid == third.pid


def test_a_failing_update_holds_up_no_decision(strict: Control, make: Make, hosts: Hosts) -> None:
    owner, late = ready(make), ready(make)
    owner.run(begin, 10)
    assert comes(owner, begun) == PENDING
    strict.set_priority(owner.pid, 20)  # returns, although every update fails
    owner.run(end)
    eventually(lambda: all(one.depth == 0 for one in strict.clients()))
    assert late.run(park, 2) == Order(0, 3, 1)
    eventually(lambda: strict.status()[0].late == 1)  # its answer was to an order that was overtaken
    if (log := hosts.latest.with_suffix(".log")).exists():  # of a host in user space
        told = f"process {late.pid}) has an agent that has not carried out", "the runlist could not be updated"
        eventually(lambda: all(one in log.read_text() for one in told))


def test_an_owner_that_dies_is_not_waited_for(patient: Control, make: Make) -> None:
    other, owner = ready(make), ready(make)
    takes(other, owner, 5)
    owner.run(begin, 10)
    assert comes(other).on == 0
    assert other.run(park, 2) is PARKED
    assert comes(owner) == Order(0, 3, 1)  # which it never answers
    strike(owner)  # its begin has not returned
    assert comes(other) == Order(0, 3, 1)
    assert not waited(patient)


def test_a_late_agent_is_reported_and_the_gpu_given_all_the_same(
    brief: Control, make: Make, hosts: Hosts
) -> None:
    owner, late = ready(make), ready(make)
    with connect(str(hosts.latest)) as listener:
        events = listener.events(timeout=PATIENCE)
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
    eventually(lambda: brief.status()[0].client_count == 2)  # the owner's two
    assert brief.status()[0].late == 0


def test_a_process_that_was_late_is_late_when_it_comes_again(brief: Control, make: Make) -> None:
    owner, late = ready(make), ready(make)
    owner.run(begin, 10)
    assert comes(owner, begun) == RUNNING
    assert comes(late) == Order(0, 2, 0)
    assert brief.status()[0].late == 1
    late.run(leave)
    eventually(lambda: brief.status()[0].client_count == 2)  # the owner's two
    assert brief.status()[0].late == 0
    assert late.run(come_again) == Order(0, 1, 0)
    assert brief.status()[0].late == 1


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


def test_a_grant_is_told_when_the_update_has_succeeded(strict: Control, make: Make, hosts: Hosts) -> None:
    owner, late = ready(make), ready(make)
    with connect(str(hosts.latest)) as listener:
        events = listener.events(timeout=PATIENCE)
        owner.run(begin, 10)
        assert comes(owner, begun) == PENDING
        assert late.run(park, 2) is PARKED
        assert owner.run(granted) == 0
        before = list(itertools.takewhile(lambda one: one.kind is not EventKind.GRANT, events))
    assert sum(one.kind is EventKind.COMMIT for one in before) == strict.status()[0].faults + 1


def test_a_late_agent_that_dies_withholds_nothing(strict: Control, make: Make) -> None:
    owner, late = ready(make), ready(make)
    owner.run(begin, 10)
    assert comes(owner, begun) == PENDING
    strike(late)
    assert owner.run(granted) == 0


def tier_of(client: Any) -> int:
    """The tier that GPURT_IOC_QUERY tells."""
    return int(client.call(lib.GPURT_IOC_QUERY)[1].tier)


def test_errors(patient: Control, make: Make) -> None:
    agent, other = ready(make), make()
    second, order = agent.run(wrong_calls), lib.GPURT_IOC_ORDER
    assert second == {"agent": -errno.EBUSY, "order": -errno.EBUSY, "stranger": -errno.ENOENT}
    assert other.do("code", code=order) == -errno.ENOENT
    assert other.run(enlist) == Order(0, 1, 1)
    assert other.do("code", code=order, answered=2) == -errno.EINVAL
    assert other.do("code", code=order, answered=2**64 - 1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, result=1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, flags=lib.GPURT_ORDER_FLAGS + 1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, pad=1) == -errno.EINVAL
    assert other.do("code", code=order, answered=1, timeout_ns=MS) == -errno.ETIMEDOUT
    assert other.do("code", code=order, answered=1) == -errno.ETIMEDOUT
    assert other.do("code", code=order, answered=0) == 0  # it is told again what holds
    assert other.run(enlist, 65537).code == -errno.EINVAL
    assert other.run(enlist, 1, 2).code == -errno.ENODEV
    assert other.do("code", code=order, gpu=2) == -errno.ENODEV
    assert other.run(park, 1) is PARKED


@pytest.mark.parametrize("how", ["killed", "executes", "closes", "several"])
def test_processes_end_while_they_wait_for_an_order(patient: Control, make: Make, how: str) -> None:
    actors = [ready(make) for _ in range(5 if how == "several" else 1)]
    for actor in actors:
        if how == "executes":
            actor.start(execute)
        elif how == "closes":
            actor.do("close")
        else:
            strike(actor)
    eventually(lambda: patient.status()[0].client_count == 0)
    assert not waited(patient)


def test_many_processes_never_run_side_by_side(patient: Control, make: Make) -> None:
    floor, actors = make(), [make() for _ in range(CROWD)]
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
    (status,) = patient.status()
    assert (status.late, status.faults) == (0, 0)
    held = sorted(span for actor in actors for span in spans(actor.run(log_of)))
    assert len(held) >= CROWD * 3
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(held))


def wrong_calls(client: Any) -> dict[str, int]:
    """The errors of calls that a process must not make while its agent waits for an order."""
    with client_of(client.host) as stranger:
        return {
            "agent": enlist(stranger).code,
            "order": client.code(lib.GPURT_IOC_ORDER, answered=1),
            "stranger": stranger.code(lib.GPURT_IOC_ORDER, answered=1),
        }


def spans(log: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """From when to when a process ran, at least, between its first and its last order off."""
    assert [number for _, number, _ in log] == sorted({number for _, number, _ in log})
    return [(since, until) for (since, _, on), (until, _, _) in itertools.pairwise(log[1:]) if on]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give threads real-time priorities")
def test_under_boosted_an_owner_is_raised_when_all_agents_have_answered(
    patient: Control, make: Make, hosts: Hosts
) -> None:
    if is_device(hosts.latest):
        pytest.skip("the thread of a call that blocks ends with the call here")
    patient.set_policy(Policy.BOOSTED)
    normal = patient.status()[0].normal_priorities
    owner, other = ready(make), ready(make)
    os.sched_setscheduler(owner.pid, os.SCHED_FIFO, os.sched_param(5))
    owner.run(begin_as_owner)
    assert comes(other).on == 0
    assert os.sched_getparam(owner.pid).sched_priority == 2 * normal + 1  # it takes its decision
    assert other.run(park, 2) is PARKED
    assert comes(owner, begun) == RUNNING
    assert os.sched_getparam(owner.pid).sched_priority == normal + 5
    assert owner.do("code", code=lib.GPURT_IOC_BEGIN, flags=lib.GPURT_BEGIN_FENCE) == -errno.EOPNOTSUPP
    strike(other)
    owner.run(end)
    eventually(lambda: os.sched_getparam(owner.pid).sched_priority == 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give threads real-time priorities")
def test_under_boosted_nobody_is_raised_while_updates_fail(strict: Control, make: Make) -> None:
    strict.set_policy(Policy.BOOSTED)
    normal = strict.status()[0].normal_priorities
    owner, late = ready(make), ready(make)
    os.sched_setscheduler(owner.pid, os.SCHED_FIFO, os.sched_param(5))
    assert owner.run(begin_itself) == PENDING
    eventually(lambda: strict.status()[0].faults >= 3)
    assert os.sched_getparam(owner.pid).sched_priority == 5
    assert late.run(park, 2) is PARKED
    eventually(lambda: os.sched_getparam(owner.pid).sched_priority == normal + 5)
    owner.run(end)
    assert os.sched_getparam(owner.pid).sched_priority == 5


def begin_itself(client: Any) -> int:
    """As `begin_as_owner`, by the process's first thread; the state."""
    client.second = client_of(client.host)
    return int(client.second.begin(flags=lib.GPURT_BEGIN_OWNER))


def begin_as_owner(client: Any) -> None:
    """Begins a segment of form owner by another descriptor of the process."""
    client.second = client_of(client.host)
    client.beginning = client.second.start(lib.GPURT_IOC_BEGIN, flags=lib.GPURT_BEGIN_OWNER)
