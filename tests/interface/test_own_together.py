# SPDX-License-Identifier: GPL-2.0
"""Groups on a host: who joins, who owns together, what is told, and what becomes of a group whose members go."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path

import pytest
from actors import Actor, call_method
from links import MS, PATIENCE, PENDING, RUNNING, client_of, eventually

from gpurt._gpurt import lib
from gpurt.enums import EventKind, Overrun
from gpurt.errors import RefusedError
from pycontrol.link.control import Control, EventRecord
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

FOREVER = lib.GPURT_FOREVER
SHAPE = {"gpus": 2, "stuck_bound": 100 * MS}


@pytest.fixture
def host(start_host: Callable[..., Path]) -> Path:
    """A host with two GPUs that has groups."""
    made = start_host(**SHAPE)
    with client_of(made) as client:
        if not client.call(lib.GPURT_IOC_QUERY)[1].caps & lib.GPURT_CAP_GROUPS:
            assert client.join("test") == -errno.EOPNOTSUPP
            pytest.skip("this host has no groups, and says so")
    return made


@pytest.fixture
def spawn(spawn: Callable[..., Actor], plane: Control) -> Callable[..., Actor]:
    """Makes processes that are clients of both GPUs, in a group if one is given; it, or its group, gets that level."""

    def one(group: str = "", level: int | None = None) -> Actor:
        made = spawn()
        for gpu in (0, 1):
            made.do("tsg", gpu=gpu)
        assert not group or made.do("join", group=group) == 0
        if level is not None:
            plane.set_priority(made.pid, level)
        return made

    return one


def has(actor: Actor, gpu: int = 0) -> bool:
    """Whether it has the GPU now, in its segment: an owner's wait for it ends at once."""
    return bool(actor.do("code", code=lib.GPURT_IOC_WAIT, gpu=gpu, what=lib.GPURT_WAIT_GRANT, timeout_ns=0) == 0)


def until(events: Iterator[EventRecord], kind: EventKind) -> EventRecord:
    return next(event for event in events if event.kind is kind)


def test_an_urgent_member_waits_inside_for_what_a_less_urgent_one_computes(spawn: Callable[..., Actor]) -> None:
    urgent, helper, other = spawn("llm", 10), spawn("llm"), spawn(level=7)
    assert urgent.do("begin") == RUNNING
    assert other.do("begin") == PENDING
    assert helper.do("begin") == RUNNING
    helper.do("finished", tsg=0, work=helper.do("submit", tsg=0, duration=MS))
    helper.do("end")
    assert not has(other)
    urgent.do("end")
    assert has(other)


def test_who_joins_the_owner_with_work_has_it_executed(spawn: Callable[..., Actor]) -> None:
    """As the proxy thread of a communication library: it is in no segment."""
    inside, proxy = spawn("llm", 10), spawn()
    assert inside.do("begin") == RUNNING
    before = proxy.do("submit", tsg=0, duration=MS)
    assert proxy.do("join", group="llm") == 0
    proxy.do("finished", tsg=0, work=before)
    proxy.do("finished", tsg=0, work=proxy.do("submit", tsg=0, duration=MS))


def test_two_groups_that_cross_on_two_gpus_end(spawn: Callable[..., Actor]) -> None:
    (a, b), (c, d) = (spawn("p", 5), spawn("p")), (spawn("q", 5), spawn("q"))
    assert a.do("begin", gpu=0) == d.do("begin", gpu=1) == RUNNING
    assert b.do("begin", gpu=1) == RUNNING  # the tenure of p began first, on both GPUs
    assert c.do("begin", gpu=0) == PENDING
    assert not has(d, gpu=1)
    a.do("end", gpu=0)
    b.do("end", gpu=1)
    assert (has(c, gpu=0), has(d, gpu=1)) == (True, True)


def test_who_may_not_join(spawn: Callable[..., Actor], host: Path) -> None:
    client, member = spawn(), spawn("llm")
    client.do("begin", gpu=1)
    assert client.do("join", group="llm") == -errno.EBUSY
    client.do("end", gpu=1)
    assert client.do("join", group="llm") == client.do("join", group="llm") == 0
    assert client.do("join", group="other") == -errno.EBUSY
    with ExitStack() as stack:
        first, *more = (stack.enter_context(client_of(host)) for _ in range(lib.GPURT_MAX_MEMBERS - 1))
        assert [one.join("llm") for one in (first, *more)] == [0] * (lib.GPURT_MAX_MEMBERS - 2) + [-errno.EDQUOT]
        first.close()
        member.do("begin")
        eventually(lambda: more[-1].join("llm") == 0)


def test_all_descriptors_of_a_process_are_moved_or_none(spawn: Callable[..., Actor], host: Path) -> None:
    """Each of them is a member, also one that is a client of two GPUs; one more than there is room for."""
    spawn("llm")
    with ExitStack() as stack, control(str(host)) as plane:
        mine = [stack.enter_context(client_of(host)) for _ in range(lib.GPURT_MAX_MEMBERS)]
        for one in mine:
            one.tsg()
        mine[1].tsg(gpu=1)

        def joined() -> int:
            return sum(one.group == "llm" for one in plane.clients(0) if one.pid == os.getpid())

        with pytest.raises(RefusedError):
            plane.set_group(os.getpid(), "llm")
        assert joined() == 0
        mine[0].close()
        eventually(lambda: sum(one.pid == os.getpid() for one in plane.clients(0)) == len(mine) - 1)
        plane.set_group(os.getpid(), "llm")
        assert joined() == len(mine) - 1
        plane.set_group(os.getpid(), "llm")  # all are members: there is nothing to do


def test_a_user_has_so_many_groups(host: Path) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(client_of(host)) for _ in range(lib.GPURT_MAX_USER_GROUPS + 1)]
        found = [one.join(f"g{number}") for number, one in enumerate(made)]
        assert found == [0] * lib.GPURT_MAX_USER_GROUPS + [-errno.EDQUOT]
        made[0].close()
        eventually(lambda: made[-1].join("one more") == 0)


def test_a_client_that_comes_to_a_gpu_later_is_a_member_there(host: Path, plane: Control) -> None:
    with Actor(host) as first, Actor(host) as second, Actor(host) as other:
        assert first.do("join", group="llm") == second.do("join", group="llm") == 0
        for one in (first, other):
            one.do("tsg", gpu=1)
        plane.set_priority(first.pid, 9)
        plane.set_priority(other.pid, 8)
        first.do("begin", gpu=1)
        assert other.do("begin", gpu=1) == PENDING
        assert second.do("begin", gpu=1) == RUNNING
        told = {(one.pid, one.gpu, one.group, one.priority, one.depth) for one in plane.clients()}
        assert told == {(first.pid, 1, "llm", 9, 1), (second.pid, 1, "llm", 9, 1), (other.pid, 1, "", 8, 1)}


def test_the_time_for_which_a_client_owned_the_gpu_does_not_go_back_when_it_joins(
    spawn: Callable[..., Actor], plane: Control
) -> None:
    def held(actor: Actor) -> int:
        return next(one.held_ns for one in plane.clients(0) if one.pid == actor.pid)

    early, late = spawn(level=10), spawn(level=9)
    for one in (early, late):
        one.do("begin")
        one.do("end")
    alone = held(early), held(late)
    assert min(alone) > 0
    assert early.do("join", group="llm") == 0
    early.do("begin")
    early.do("end")
    before = held(early)
    assert before > alone[0]
    assert late.do("join", group="llm") == 0
    assert (held(early), held(late)) == (before, alone[1])
    late.do("begin")
    late.do("end")
    assert held(early) - before == held(late) - alone[1] > 0


def test_what_a_segment_asks_for_does_not_count_and_what_is_set_is_the_groups(
    spawn: Callable[..., Actor], plane: Control
) -> None:
    member, other = spawn("llm", 5), spawn()
    member.do("begin", priority=60)
    assert other.do("begin", priority=7) == RUNNING
    plane.set_priority(member.pid, 8)
    assert not has(other)
    told = [(one.priority, one.set_priority) for one in plane.clients(0) if one.pid == member.pid]
    assert told == [(8, 8)]
    plane.set_priority(member.pid, None)
    assert has(other)


def test_the_cure_of_an_owner_that_waits(spawn: Callable[..., Actor], host: Path) -> None:
    owner, helper = spawn(level=10), spawn(level=5)
    with control(str(host)) as events, control(str(host)) as plane:
        told = events.events(PATIENCE)
        owner.do("begin")
        assert helper.do("begin") == PENDING
        assert f"gpurt set group NAME {owner.pid} {helper.pid}" in until(told, EventKind.STUCK).detail
        for one in (owner, helper):
            plane.set_group(one.pid, "cure")
        grant = until(told, EventKind.GRANT)
        assert (grant.pid, grant.group) == (helper.pid, "cure")
        assert [one.state for one in plane.clients(0)] == [RUNNING, RUNNING]
        helper.do("end")
        owner.do("end")
        with pytest.raises(RefusedError, match=r"is in (another group|group cure)"):
            plane.set_group(owner.pid, "another")
        with pytest.raises(RefusedError, match="no client"):
            plane.set_group(os.getpid(), "cure")


def test_a_group_that_is_stuck_is_told_of_with_all_members(spawn: Callable[..., Actor], host: Path) -> None:
    owner, idle, other = spawn("llm", 10), spawn("llm"), spawn(level=5)
    with control(str(host)) as plane:
        told = plane.events(PATIENCE)
        owner.do("begin")
        other.do("begin")
        event = until(told, EventKind.STUCK)
        assert event.group == "llm"
        assert all(f"-{pid}" in event.detail for pid in (owner.pid, idle.pid, other.pid))
        assert f"gpurt set group llm {other.pid}" in event.detail


def test_a_group_whose_work_executes_on_another_gpu_is_not_stuck(spawn: Callable[..., Actor], host: Path) -> None:
    here, there, other = spawn("llm", 10), spawn("llm"), spawn(level=5)
    with control(str(host)) as plane:
        told = plane.events(PATIENCE)
        work = there.do("begin", gpu=1) and there.do("submit", gpu=1, tsg=0, duration=5 * SHAPE["stuck_bound"])
        here.do("begin")
        other.do("begin")
        there.start(call_method, "finished", {"gpu": 1, "tsg": 0, "work": work})
        seen = [event.kind for event in takewhile(lambda event: event.kind is not EventKind.STUCK, told)]
        assert EventKind.WORK in seen  # GPU 0 had been idle for several times the bound by then


def test_members_die_one_by_one(spawn: Callable[..., Actor], host: Path) -> None:
    victim, survivor, other = spawn("llm", 9), spawn("llm"), spawn(level=5)
    with control(str(host)) as events, control(str(host)) as plane:
        told = events.events(PATIENCE)
        for gpu in (0, 1):
            victim.do("begin", gpu=gpu)
        survivor.do("begin", gpu=1)
        assert other.do("begin", gpu=1) == PENDING
        dead = victim.pid
        victim.kill()
        died = until(told, EventKind.MEMBER_DIED)
        assert (died.pid, died.group) == (dead, "llm")
        survivor.do("begin", gpu=0)
        assert {one.group for one in plane.clients() if one.pid != other.pid} == {"llm"}
        survivor_pid = survivor.pid
        survivor.kill()
        kinds = EventKind.GRANT, EventKind.MEMBER_DIED
        last = next(event for event in told if event.kind in kinds and event.pid not in (dead, survivor_pid))
        assert (last.kind, last.pid) == (EventKind.GRANT, other.pid)
        assert {one.group for one in plane.clients()} == {""}


def test_a_budget_that_ends_in_the_middle_demotes_the_group_on_all_gpus(
    spawn: Callable[..., Actor], plane: Control
) -> None:
    here, there, other = spawn("llm", 9), spawn("llm"), spawn(level=5)
    here.do("begin", gpu=0)
    there.do("begin", gpu=1)
    assert other.do("begin", gpu=1) == PENDING
    plane.set_budget(here.pid, 1, 10**9, Overrun.DEMOTE, gpu=0)
    eventually(lambda: has(other, gpu=1))
    told = {(one.gpu, one.priority, one.demoted) for one in plane.clients() if one.group}
    assert told == {(0, 0, True), (1, 0, True)}
    here.do("end", gpu=0)
    assert not has(there, gpu=1)
    there.do("end", gpu=1)
    there.do("begin", gpu=1)
    assert has(there, gpu=1)  # a new tenure


def test_a_group_has_one_budget(spawn: Callable[..., Actor], plane: Control) -> None:
    first, second = spawn("llm"), spawn()
    plane.set_budget(first.pid, 5 * MS, 10**9)
    plane.set_budget(second.pid, 6 * MS, 10**9)
    assert second.do("join", group="llm") == -errno.EDQUOT
    plane.set_budget(second.pid, 0, 0)
    assert second.do("join", group="llm") == 0
    assert [one.budget_ns for one in plane.clients()] == [5 * MS] * 4
    first.kill()
    eventually(lambda: {one.budget_ns for one in plane.clients()} == {0})


def test_no_member_is_under_another_budget_than_its_group(
    spawn: Callable[..., Actor], host: Path, plane: Control
) -> None:
    """Else a program would leave its budget for a larger one by joining who has that."""
    first, second = spawn("llm"), spawn("llm")
    with Actor(host) as late:
        assert late.do("join", group="llm") == 0  # before it uses a GPU
        plane.set_budget(first.pid, 9 * MS, 10 * MS)
        plane.set_budget(late.pid, 1 * MS, 10 * MS)
        assert late.do("code", code=lib.GPURT_IOC_TSG_OPEN, gpu=0) == -errno.EDQUOT
        with pytest.raises(RefusedError, match=r"members of (a group|group llm) would be under two budgets"):
            plane.set_budget(second.pid, 1 * MS, 10 * MS)
        plane.set_budget(first.pid, 8 * MS, 10 * MS)
        assert {one.budget_ns for one in plane.clients()} == {8 * MS}
        plane.set_budget(first.pid, 0, 0)
        plane.set_budget(second.pid, 1 * MS, 10 * MS)
        assert {one.budget_ns for one in plane.clients()} == {1 * MS}


def test_all_members_change_to_another_budget_together(spawn: Callable[..., Actor], plane: Control) -> None:
    """That of their parent, which goes before their cgroup's, and back."""
    if not (cgroup := procs.cgroup(os.getpid())):
        pytest.skip("needs cgroup v2")
    for _ in range(2):
        spawn("llm")
    for of, budget, seen in (
        (cgroup, 7 * MS, 7 * MS), (os.getpid(), 3 * MS, 3 * MS), (cgroup, 6 * MS, 3 * MS), (os.getpid(), 0, 6 * MS),
        (os.getpid(), 2 * MS, 2 * MS), (cgroup, 0, 2 * MS), (os.getpid(), 0, 0),
    ):  # fmt: skip
        plane.set_budget(of, budget, 10 * MS)
        assert {one.budget_ns for one in plane.clients()} == {seen}, (of, budget)


def test_under_a_lock_policy_a_tenure_stays_on_one_gpu(spawn: Callable[..., Actor], plane: Control) -> None:
    here, there = spawn("llm", 5), spawn("llm")
    here.do("begin", gpu=0)
    there.do("begin", gpu=1)
    with pytest.raises(RefusedError, match=r"(a group|group llm) is in segments on several GPUs"):
        plane.set_policy("lock-fifo")
    there.do("end", gpu=1)
    plane.set_policy("lock-fifo")
    assert there.do("code", code=lib.GPURT_IOC_BEGIN, gpu=1) == -errno.EOPNOTSUPP
    assert there.do("code", code=lib.GPURT_IOC_BEGIN, gpu=0) == 0


def copies(plane: Control, gpu: int = 0) -> int:
    """The priority at which a client has the GPU's bus."""
    (bus,) = plane.buses(gpu)
    assert bus.client is not None
    return bus.priority


def test_a_copy_has_the_priority_of_its_group_which_another_member_may_change(
    spawn: Callable[..., Actor], host: Path, plane: Control
) -> None:  # fmt: skip
    other = spawn("llm", 9)
    with client_of(host) as client:
        assert client.join("llm") == 0
        for gpu in (0, 1):
            assert client.code(lib.GPURT_IOC_COPY, gpu=gpu, what=lib.GPURT_COPY_BEGIN) == 0
        assert [copies(plane, gpu) for gpu in (0, 1)] == [9, 9]
        plane.set_priority(other.pid, 7)
        assert [copies(plane, gpu) for gpu in (0, 1)] == [7, 7]


def test_who_waits_to_copy_comes_before_others_when_its_group_becomes_urgent(
    spawn: Callable[..., Actor], host: Path, plane: Control
) -> None:  # fmt: skip
    other = spawn("llm", 0)
    with client_of(host) as client, client_of(host) as holder, client_of(host) as rival:
        assert client.join("llm") == 0
        for one, priority in ((holder, 1), (rival, 3)):
            waits = one.start(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, priority=priority, timeout_ns=FOREVER)
            assert one is rival or waits.result()[0] == 0
        asks = client.start(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, timeout_ns=FOREVER)
        eventually(lambda: plane.buses(0)[0].waiters == 2)
        plane.set_priority(other.pid, 5)
        assert holder.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_END) == 0
        assert asks.result()[0] == 0
        assert copies(plane) == 5
        assert client.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_END) == 0
        assert waits.result()[0] == 0


def test_who_joins_a_group_in_the_middle_of_a_copy_brings_it_along(
    spawn: Callable[..., Actor], host: Path, plane: Control
) -> None:  # fmt: skip
    other = spawn("llm", 9)
    assert other.do("begin") == RUNNING
    with client_of(host) as client:
        assert client.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN) == 0
        assert copies(plane) == 0
        assert client.join("llm") == 0
        assert copies(plane) == 9
