# SPDX-License-Identifier: GPL-2.0
"""Groups of clients in the core (kmod/core/group.h): who joins, which key a tenure has, what members are told."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from gpurt._gpurt import ffi, lib

SEGMENT, BOOSTED, JOB = lib.GPURT_POLICY_SEGMENT, lib.GPURT_POLICY_BOOSTED, lib.GPURT_POLICY_JOB
LOCK = lib.GPURT_POLICY_LOCK_PRIORITY
BEGIN, GRANT, PREEMPT, RESUME = (
    getattr(lib, f"GPURT_EVENT_{name}") for name in ("BEGIN", "GRANT", "PREEMPT", "RESUME")
)
END, GONE, OVERRUN = lib.GPURT_EVENT_END, lib.GPURT_EVENT_GONE, lib.GPURT_EVENT_OVERRUN
RUNNING, PENDING = lib.GPURT_STATE_RUNNING, lib.GPURT_STATE_PENDING
CALLBACK = "void(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64)"


class Machine:
    """GPUs with one host, which carries out whole-group operations in a `settle`."""

    def __init__(self, policy: int = SEGMENT, gpus: int = 2) -> None:
        self.stamps = ffi.new("u64 *")
        self.told: list[tuple[Any, int]] = []
        self.commits: list[tuple[int, Any]] = []
        self.raised: dict[Any, int] = {}
        self.regrouped: list[Any] = []
        self.calls = [
            ffi.callback(CALLBACK, lambda s, c, _cause, now: self.commit(s, c, now)),
            ffi.callback(CALLBACK, lambda _s, c, event, _now: self.told.append((c, event))),
            ffi.callback(CALLBACK, lambda _s, c, level, _now: self.raised.update({c: level})),
            ffi.callback(
                "void(struct gpurt_sched *, struct gpurt_group *, u64)", lambda _s, g, _now: self.regrouped.append(g)
            ),
        ]
        self.ops = ffi.new(
            "struct gpurt_sched_ops *", dict(zip(("commit", "event", "raise", "regroup"), self.calls, strict=True))
        )
        self.gpus = [ffi.new("struct gpurt_sched *") for _ in range(gpus)]
        for s in self.gpus:
            lib.gpurt_sched_init(s, self.ops, ffi.NULL, 0)
            assert lib.gpurt_set_policy(s, policy, 0) == 0

    def commit(self, s: Any, only: Any, now: int) -> None:
        lib.gpurt_updated(s, now, 0)
        self.commits.append((self.gpus.index(s), only))

    def client(self, group: Group | None = None, gpu: int = 0, own: int = 0) -> Any:
        client = ffi.new("struct gpurt_sched_client *")
        lib.gpurt_sched_client_init(client)
        if group:
            assert lib.gpurt_group_add(group.on[gpu], client, own, 0) == 0
        return client

    def begin(self, client: Any, gpu: int = 0, own: int = 0, now: int = 0) -> int:
        return int(lib.gpurt_begin(self.gpus[gpu], client, own, 0, now))

    def end(self, client: Any, gpu: int = 0) -> int:
        return int(lib.gpurt_end(self.gpus[gpu], client, 0))

    def state(self, client: Any, gpu: int = 0) -> int:
        return int(lib.gpurt_state_of(self.gpus[gpu], client))

    def news(self) -> list[tuple[Any, int]]:
        told, self.told = self.told, []
        return told


class Group:
    def __init__(self, machine: Machine) -> None:
        self.raw = ffi.new("struct gpurt_group *")
        lib.gpurt_group_init(self.raw, machine.stamps)
        self.on = [ffi.new("struct gpurt_group_gpu *") for _ in machine.gpus]
        for on, s in zip(self.on, machine.gpus, strict=True):
            lib.gpurt_group_gpu_init(on, self.raw, s)

    @property
    def holds(self) -> bool:
        return all(lib.gpurt_group_holds(on) for on in self.on)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_less_urgent_member_runs_while_a_more_urgent_one_is_inside(machine: Machine) -> None:
    group = Group(machine)
    urgent, helper, other = machine.client(group, own=10), machine.client(group, own=5), machine.client()
    machine.begin(urgent, own=10)
    machine.begin(other, own=7)
    machine.begin(helper, own=5)
    assert [machine.state(c) for c in (urgent, helper, other)] == [RUNNING, RUNNING, PENDING]
    assert machine.commits == [(0, ffi.addressof(group.on[0], "core"))]
    assert machine.news() == [
        (urgent, BEGIN), (ffi.NULL, PREEMPT), (urgent, GRANT), (other, BEGIN), (helper, BEGIN), (helper, GRANT)
    ]  # fmt: skip
    machine.end(urgent)
    assert machine.state(helper) == RUNNING  # at the level of the tenure, 10, above the other's
    machine.end(helper)
    assert machine.state(other) == RUNNING
    assert machine.news() == [(urgent, END), (helper, END), (other, GRANT)]


def test_members_that_are_in_no_segment_are_on_the_runlist_of_the_owner(machine: Machine) -> None:
    group = Group(machine)
    inside, idle, stranger = machine.client(group), machine.client(group), machine.client()
    machine.begin(inside, own=3)
    assert lib.gpurt_on_runlist(machine.gpus[0], idle)
    assert not lib.gpurt_on_runlist(machine.gpus[0], stranger)


def test_the_key_of_a_tenure_is_fixed_on_all_gpus_until_its_last_end(machine: Machine) -> None:
    group = Group(machine)
    first, second = machine.client(group, 0, own=10), machine.client(group, 1, own=10)
    machine.begin(first, 0, own=4)  # lower than it was when it joined: the other member counts
    assert (group.raw.level, group.raw.open) == (10, 1)
    stamp = group.raw.stamp
    machine.begin(second, 1, own=50)
    assert group.on[1].core.level == 10
    assert group.raw.stamp == stamp
    machine.end(first, 0)
    machine.begin(first, 0, own=60)  # the tenure goes on, on the other GPU
    assert (group.on[0].core.level, group.raw.stamp) == (10, stamp)
    machine.end(first, 0)
    machine.end(second, 1)
    assert group.raw.open == 0
    machine.begin(second, 1, own=2)
    assert group.raw.level == 60
    assert group.raw.stamp > stamp
    assert group.holds


@pytest.mark.parametrize("change", ["depth", "level", "stamp", "demoted"])
def test_the_invariant_fails_where_one_part_of_it_is_broken(machine: Machine, change: str) -> None:
    group = Group(machine)
    member = machine.client(group, own=4)
    machine.begin(member, own=4)
    assert group.holds
    broken = group.raw if change == "demoted" else group.on[0].core
    setattr(broken, change, 0 if change == "depth" else getattr(broken, change) + 1)
    assert not group.holds


def test_the_tenure_that_began_first_is_ahead_of_its_equals_on_every_gpu(machine: Machine) -> None:
    early, late = Group(machine), Group(machine)
    a, b = machine.client(early, 0), machine.client(early, 1)
    c, d = machine.client(late, 0), machine.client(late, 1)
    lone = machine.client()
    machine.begin(a, 0, own=5)
    machine.begin(d, 1, own=5)
    machine.begin(lone, 1, own=5)
    assert machine.state(d, 1) == RUNNING
    machine.begin(b, 1, own=5)
    assert [machine.state(one, 1) for one in (b, d, lone)] == [RUNNING, PENDING, PENDING]
    machine.begin(c, 0, own=5)
    assert machine.state(c, 0) == PENDING


def test_an_equal_without_a_group_never_preempts_and_is_not_overtaken_by_a_later_tenure(machine: Machine) -> None:
    lone, group = machine.client(), Group(machine)
    member = machine.client(group)
    machine.begin(lone, own=5)
    machine.begin(member, own=5)
    assert [machine.state(one) for one in (lone, member)] == [RUNNING, PENDING]


def test_nobody_joins_inside_a_segment_or_twice(machine: Machine) -> None:
    group, client = Group(machine), machine.client()
    machine.begin(client, own=5)
    assert lib.gpurt_group_add(group.on[0], client, 5, 0) == -errno.EBUSY
    machine.end(client)
    assert lib.gpurt_group_add(group.on[0], client, 5, 0) == 0
    assert lib.gpurt_group_add(group.on[0], client, 5, 0) == -errno.EBUSY
    assert lib.gpurt_group_add(Group(machine).on[0], client, 5, 0) == -errno.EBUSY
    assert lib.gpurt_group_add(group.on[0], machine.client(), 100, 0) == -errno.EINVAL


def test_who_joins_the_owner_comes_on_the_runlist_by_an_update(machine: Machine) -> None:
    group, late = Group(machine), machine.client()
    machine.begin(machine.client(group), own=5)
    commits = len(machine.commits)
    assert lib.gpurt_group_add(group.on[0], late, 0, 0) == 0
    assert machine.commits[commits:] == [(0, ffi.addressof(group.on[0], "core"))]


@pytest.mark.parametrize("exempt", [False, True])
def test_members_that_wait_own_the_gpu_with_an_owner_that_is_moved_to_them(machine: Machine, exempt: bool) -> None:
    group, owner = Group(machine), machine.client()
    waiting = machine.client(group)
    lib.gpurt_set_exempt(machine.gpus[0], owner, exempt, 0)
    machine.begin(owner, own=10)
    machine.begin(waiting, own=5)
    assert machine.state(waiting) == PENDING
    commits = len(machine.commits)
    machine.news()
    assert lib.gpurt_group_move(group.on[0], owner, 0) == 0
    assert machine.commits[commits:] == [(0, ffi.addressof(group.on[0], "core"))]
    assert machine.news() == [(waiting, GRANT)]
    machine.end(owner)
    machine.end(waiting)
    assert machine.news() == [(owner, END), (waiting, END), (ffi.NULL, RESUME)]


def test_a_member_that_goes_has_owned_the_gpu_for_as_long_as_before(machine: Machine) -> None:
    """Its group had owned it before it joined.  Hosts tell of it until its end is carried out."""
    group = Group(machine)
    early = machine.client(group)
    late = machine.client()
    for client, begins, ends in ((early, 0, 100), (late, 100, 130), (late, 130, 135)):
        machine.begin(client, own=5, now=begins)
        lib.gpurt_end(machine.gpus[0], client, ends)
        if ends == 130:
            assert lib.gpurt_group_add(group.on[0], late, 0, ends) == 0
    assert [lib.gpurt_client_held(one) for one in (early, late)] == [105, 35]
    lib.gpurt_gone(machine.gpus[0], late, 140)
    assert (lib.gpurt_client_held(late), late.held_ns) == (35, 35)


def test_the_priority_of_a_member_is_its_groups(machine: Machine) -> None:
    group = Group(machine)
    member, other = machine.client(group, own=5), machine.client()
    assert lib.gpurt_set_priority(machine.gpus[0], member, 50, 0) == -errno.EOPNOTSUPP
    machine.begin(member, own=5)
    machine.begin(other, own=7)
    assert machine.state(member) == PENDING
    assert lib.gpurt_group_set_level(group.on[0], 8, 0) == 0
    assert machine.state(member) == RUNNING
    assert lib.gpurt_group_set_level(group.on[0], 100, 0) == -errno.EINVAL


def test_a_level_that_is_set_in_a_tenure_follows_on_the_other_gpu(machine: Machine) -> None:
    group = Group(machine)
    here, there, rival = machine.client(group, 0), machine.client(group, 1), machine.client()
    machine.begin(here, 0, own=5)
    machine.begin(there, 1, own=5)
    machine.begin(rival, 1, own=6)
    assert machine.state(there, 1) == PENDING
    lib.gpurt_group_set_level(group.on[0], 9, 0)
    assert machine.regrouped == [group.raw]
    assert group.on[1].unsettled
    lib.gpurt_group_settle(group.on[1], 0)
    assert machine.state(there, 1) == RUNNING
    assert group.holds


def test_a_spent_budget_demotes_the_group_everywhere_until_its_tenure_ends(machine: Machine) -> None:
    group, budget = Group(machine), ffi.new("struct gpurt_budget *")
    here, there, rival = machine.client(group, 0), machine.client(group, 1), machine.client()
    lib.gpurt_join_budget(machine.gpus[0], here, budget, 0)
    assert lib.gpurt_set_budget(machine.gpus[0], budget, 5, 1000, lib.GPURT_OVERRUN_DEMOTE, 0) == 0
    machine.begin(here, 0, own=5)
    machine.begin(there, 1, own=5)
    assert machine.gpus[0].deadline == 5
    lib.gpurt_tick(machine.gpus[0], 5)
    assert (here, OVERRUN) in machine.news()
    assert group.raw.demoted
    assert machine.gpus[0].runner == ffi.NULL
    lib.gpurt_group_settle(group.on[1], 5)
    assert machine.gpus[1].runner == ffi.NULL
    machine.begin(rival, 1, own=1, now=5)
    lib.gpurt_end(machine.gpus[1], there, 5)
    machine.begin(there, 1, own=5, now=5)  # another segment of the same tenure
    assert machine.state(there, 1) == PENDING
    lib.gpurt_end(machine.gpus[1], there, 5)
    lib.gpurt_end(machine.gpus[0], here, 5)
    assert not group.raw.demoted
    machine.begin(there, 1, own=5, now=5)
    assert machine.state(there, 1) == RUNNING


def test_a_demoted_group_is_demoted_on_a_gpu_under_policy_job_too(machine: Machine) -> None:
    """Wherever it begins: there nothing looks at its budget, and segments are queued for the next policy."""
    group, budget = Group(machine), ffi.new("struct gpurt_budget *")
    here, there, rival = machine.client(group, 0), machine.client(group, 1), machine.client()
    assert lib.gpurt_set_policy(machine.gpus[1], JOB, 0) == 0
    lib.gpurt_join_budget(machine.gpus[0], here, budget, 0)
    assert lib.gpurt_set_budget(machine.gpus[0], budget, 5, 1000, lib.GPURT_OVERRUN_DEMOTE, 0) == 0
    machine.begin(here, 0, own=5)
    lib.gpurt_tick(machine.gpus[0], 5)
    assert group.raw.demoted
    machine.begin(there, 1, own=5, now=5)
    assert group.holds
    machine.begin(there, 1, own=5, now=5)
    machine.end(there, 1)
    machine.begin(rival, 1, own=1, now=5)
    assert lib.gpurt_set_policy(machine.gpus[1], SEGMENT, 5) == 0
    assert [machine.state(c, 1) for c in (there, rival)] == [PENDING, RUNNING]
    machine.end(there, 1)
    machine.end(here, 0)
    machine.begin(there, 1, own=5, now=6)
    assert machine.state(there, 1) == RUNNING


def test_a_group_demoted_in_its_segment_stays_so_when_a_job_ends_under_policy_job(machine: Machine) -> None:
    """The policy may change in the middle of a tenure, and a job may end before it does."""
    group, budget = Group(machine), ffi.new("struct gpurt_budget *")
    member, rival, sched = machine.client(group), machine.client(), machine.gpus[0]
    lib.gpurt_set_tsgs(sched, member, 1, 0)
    lib.gpurt_job(sched, member, 5, True, 0)
    lib.gpurt_join_budget(sched, ffi.addressof(group.on[0], "core"), budget, 0)
    assert lib.gpurt_set_budget(sched, budget, 5, 1000, lib.GPURT_OVERRUN_DEMOTE, 0) == 0
    machine.begin(member, own=5)
    lib.gpurt_tick(sched, 5)
    assert group.raw.demoted
    assert lib.gpurt_set_policy(sched, JOB, 5) == 0
    lib.gpurt_job(sched, member, 5, False, 5)
    assert group.holds
    assert lib.gpurt_set_policy(sched, SEGMENT, 5) == 0
    machine.begin(rival, own=1, now=5)
    assert [machine.state(c) for c in (member, rival)] == [PENDING, RUNNING]


def test_only_gpus_on_which_the_group_is_inside_follow_it(machine: Machine) -> None:
    """What a best-effort group does on one GPU makes no work for the threads of others."""
    group, budget = Group(machine), ffi.new("struct gpurt_budget *")
    here, there = machine.client(group, 0), machine.client(group, 1)
    lib.gpurt_join_budget(machine.gpus[0], here, budget, 0)
    assert lib.gpurt_set_budget(machine.gpus[0], budget, 5, 1000, lib.GPURT_OVERRUN_DEMOTE, 0) == 0
    for inside in (False, True):
        machine.begin(here, 0, own=5, now=2000 * inside)
        if inside:
            machine.begin(there, 1, own=5, now=2000)
        lib.gpurt_tick(machine.gpus[0], 2000 * inside + 5)
        assert group.raw.demoted
        assert bool(group.on[1].unsettled) is inside
        if inside:
            machine.end(there, 1)
        machine.end(here, 0)


@pytest.mark.parametrize("level", [0, 5])
def test_a_group_goes_past_those_that_came_since_except_as_best_effort(machine: Machine, level: int) -> None:
    """Best effort owns nothing then, and a user without rights may have any number of clients to go past."""
    group = Group(machine)
    here, there, later = machine.client(group, 0), machine.client(group, 1), machine.client()
    machine.begin(here, 0, own=level)
    machine.begin(later, 1, own=level)
    machine.begin(there, 1, own=level)
    first = machine.gpus[1].segments.level[level].next
    entry = group.on[1].core
    assert first == ffi.addressof(entry if level else later[0], "in_segments")
    assert group.holds


def test_members_are_under_one_budget(machine: Machine) -> None:
    group, one, another = Group(machine), *(ffi.new("struct gpurt_budget *") for _ in range(2))
    first, second = machine.client(), machine.client()
    lib.gpurt_join_budget(machine.gpus[0], first, one, 0)
    lib.gpurt_join_budget(machine.gpus[0], second, another, 0)
    assert lib.gpurt_group_add(group.on[0], first, 0, 0) == 0
    assert group.on[0].core.budget == one
    assert lib.gpurt_group_add(group.on[0], second, 0, 0) == -errno.EDQUOT
    lib.gpurt_gone(machine.gpus[0], first, 0)
    assert group.on[0].core.budget == ffi.NULL


@pytest.mark.parametrize(("policies", "code"), [
    ((LOCK, SEGMENT), -errno.EOPNOTSUPP), ((SEGMENT, LOCK), -errno.EOPNOTSUPP), ((SEGMENT, SEGMENT), 0),
])  # fmt: skip
def test_under_a_lock_policy_a_tenure_stays_on_one_gpu(policies: tuple[int, int], code: int) -> None:
    machine = Machine()
    for s, policy in zip(machine.gpus, policies, strict=True):
        lib.gpurt_set_policy(s, policy, 0)
    group = Group(machine)
    here, beside, there = machine.client(group, 0), machine.client(group, 0), machine.client(group, 1)
    assert machine.begin(here, 0, own=5) == 0
    assert machine.begin(beside, 0, own=5) == 0
    assert machine.begin(there, 1, own=5) == code
    assert there.depth == (not code)
    machine.end(here, 0)
    machine.end(beside, 0)
    assert machine.begin(there, 1, own=5) == 0


def test_no_lock_policy_comes_while_a_tenure_spans_gpus(machine: Machine) -> None:
    group = Group(machine)
    here, there = machine.client(group, 0), machine.client(group, 1)
    machine.begin(here, 0, own=5)
    assert lib.gpurt_set_policy(machine.gpus[0], LOCK, 0) == 0
    assert lib.gpurt_set_policy(machine.gpus[0], SEGMENT, 0) == 0
    machine.begin(there, 1, own=5)
    assert lib.gpurt_set_policy(machine.gpus[0], LOCK, 0) == -errno.EBUSY
    machine.end(there, 1)
    assert lib.gpurt_set_policy(machine.gpus[0], LOCK, 0) == 0


def test_a_member_that_dies_takes_its_segments_along(machine: Machine) -> None:
    group = Group(machine)
    victim, survivor, other = machine.client(group), machine.client(group), machine.client()
    machine.begin(victim, own=9)
    machine.begin(victim, own=9)
    machine.begin(survivor, own=5)
    machine.begin(other, own=7)
    assert lib.gpurt_stuck_leaves(victim, 0)
    lib.gpurt_gone(machine.gpus[0], victim, 0)
    assert (group.raw.open, group.on[0].core.depth, group.on[0].members) == (1, 1, 1)
    assert machine.state(survivor) == RUNNING
    assert not lib.gpurt_stuck_leaves(survivor, 0)
    lib.gpurt_gone(machine.gpus[0], survivor, 0)
    assert machine.state(other) == RUNNING
    assert (group.raw.open, group.on[0].members) == (0, 0)
    assert [event for _, event in machine.news()].count(GONE) == 2


@pytest.mark.parametrize("exempt", [False, True])
def test_what_a_member_of_the_owner_leaves_behind_comes_off_by_an_update(machine: Machine, exempt: bool) -> None:
    group = Group(machine)
    victim, survivor, last = machine.client(group), machine.client(group), machine.client()
    machine.begin(survivor, own=9)
    if exempt:
        lib.gpurt_set_exempt(machine.gpus[0], victim, True, 0)
    before = len(machine.commits)
    lib.gpurt_gone(machine.gpus[0], victim, 0)
    assert machine.commits[before:] == ([] if exempt else [(0, ffi.addressof(group.on[0], "core"))])
    lib.gpurt_gone(machine.gpus[0], last, 0)
    assert len(machine.commits) == before + (not exempt)


def test_under_policy_job_a_group_has_a_job_while_any_member_has_one() -> None:
    machine = Machine(JOB, 1)
    group = Group(machine)
    a, b, rival = machine.client(group, own=5), machine.client(group, own=8), machine.client()
    for client in (a, b, rival):
        lib.gpurt_tsg_opened(machine.gpus[0], client, 0)
    lib.gpurt_job(machine.gpus[0], a, 5, True, 0)
    lib.gpurt_job(machine.gpus[0], rival, 6, True, 0)
    assert [machine.state(c) for c in (a, rival)] == [RUNNING, PENDING]  # at the level of b's thread
    lib.gpurt_job(machine.gpus[0], b, 8, True, 0)
    lib.gpurt_job(machine.gpus[0], a, 5, False, 0)
    assert [machine.state(c) for c in (b, rival)] == [RUNNING, PENDING]
    lib.gpurt_job(machine.gpus[0], b, 8, False, 0)
    assert machine.state(rival) == RUNNING


def test_boosted_raises_the_members_that_are_inside_while_the_group_owns() -> None:
    machine = Machine(BOOSTED, 1)
    group, s = Group(machine), machine.gpus[0]
    a, b, idle = (machine.client(group, own=5) for _ in range(3))
    for client in (a, b):
        assert lib.gpurt_boost_form(client, lib.GPURT_FORM_OWNER) == 0
        machine.begin(client, own=5)
    assert machine.raised.get(a, 0) == machine.raised.get(b, 0) == 0
    lib.gpurt_boost_over(s, ffi.NULL, 0)
    assert [machine.raised.get(c, 0) for c in (a, b, idle)] == [5, 5, 0]
    machine.end(a)
    assert [machine.raised.get(c, 0) for c in (a, b)] == [0, 5]
    rival = machine.client()
    machine.begin(rival, own=9)
    assert machine.raised[b] == 0  # from the start of the update that takes the GPU away


def test_who_is_moved_in_the_middle_of_a_segment_is_never_seen_outside_of_it() -> None:
    """A thread of a host looks at any time: it would take a segment for ended, and lower its thread for good."""
    machine = Machine(BOOSTED, 1)
    group, s = Group(machine), machine.gpus[0]
    group.raw.all = True
    mate, moved = machine.client(group, own=5), machine.client()
    lib.gpurt_boost_ask(s, moved, 3, 0)
    machine.begin(moved, own=3)
    lib.gpurt_boost_over(s, moved, 0)
    seen = []
    note = ffi.callback(CALLBACK, lambda _s, c, level, _now: seen.append((c == moved and c.depth, level)))
    machine.ops.__setattr__("raise", note)
    assert machine.raised[moved] == 3
    assert lib.gpurt_group_move(group.on[0], moved, 0) == 0
    lib.gpurt_boost_over(s, ffi.NULL, 0)
    assert (1, 5) in seen
    assert (0, 0) not in seen
    assert not mate.depth


def test_who_is_moved_in_the_middle_of_a_job_is_never_seen_without_one() -> None:
    """A thread of a host compares that with what the task does: it would miss that the task has stopped."""
    machine = Machine(JOB, 1)
    group, s = Group(machine), machine.gpus[0]
    member, moved = machine.client(group, own=5), machine.client()
    for client, own in ((member, 5), (moved, 9)):
        lib.gpurt_set_tsgs(s, client, 1, 0)
        lib.gpurt_job(s, client, own, True, 0)
    seen = []
    note = ffi.callback(CALLBACK, lambda _s, c, _event, _now: seen.append((c == member, moved.runnable)))
    machine.ops.event = note
    assert machine.state(moved) == RUNNING
    assert lib.gpurt_group_move(group.on[0], moved, 0) == 0
    assert (True, True) in seen
    assert all(runnable for _, runnable in seen)


@pytest.mark.parametrize("member", [False, True])
def test_a_client_that_dies_at_the_gate_is_lowered(member: bool) -> None:
    """It has asked, and has the gate, but is in no segment."""
    m = Machine(BOOSTED)
    client = m.client(Group(m) if member else None)
    assert lib.gpurt_boost_form(client, lib.GPURT_FORM_OWNER) == 0
    lib.gpurt_boost_ask(m.gpus[0], client, 7, 0)
    lib.gpurt_boost_turn(m.gpus[0], client, True, 0)
    assert m.raised[client] == lib.GPURT_RAISED_TOP
    lib.gpurt_gone(m.gpus[0], client, 0)
    lib.gpurt_boost_over(m.gpus[0], client, 0)
    assert m.raised[client] == 0


def test_the_administrator_moves_clients_that_are_inside(machine: Machine) -> None:
    """The owner waits for who waits for it: both have the GPU as soon as both are members."""
    group, owner, helper, other = Group(machine), machine.client(), machine.client(), machine.client()
    for client, level in ((owner, 10), (owner, 10), (helper, 5), (other, 10)):
        machine.begin(client, own=level)
    machine.news()
    assert lib.gpurt_group_move(group.on[0], owner, 0) == 0
    assert (group.raw.open, group.raw.level, group.on[0].core.depth) == (2, 10, 2)
    # its tenure begins now, so an equal that had come before it is ahead
    assert [machine.state(c) for c in (owner, helper, other)] == [PENDING, PENDING, RUNNING]
    machine.end(other)
    machine.news()
    assert lib.gpurt_group_move(group.on[0], helper, 0) == 0
    assert [machine.state(c) for c in (owner, helper)] == [RUNNING, RUNNING]
    assert machine.news() == [(helper, GRANT)]
    assert machine.commits[-1] == (0, ffi.addressof(group.on[0], "core"))
    assert group.holds
    assert lib.gpurt_group_move(group.on[0], helper, 0) == -errno.EBUSY
    machine.end(owner)
    machine.end(helper)
    machine.end(owner)
    assert (group.raw.open, group.on[0].core.depth, machine.gpus[0].runner) == (0, 0, ffi.NULL)


def test_an_owner_that_is_moved_keeps_the_gpu_without_a_word(machine: Machine) -> None:
    group, owner = Group(machine), machine.client()
    machine.begin(owner, own=10)
    machine.news()
    assert lib.gpurt_group_move(group.on[0], owner, 0) == 0
    assert machine.state(owner) == RUNNING
    assert machine.news() == []


def test_who_is_moved_inside_spans_no_gpus_under_a_lock_policy(machine: Machine) -> None:
    group, there = Group(machine), machine.client(gpu=1)
    machine.begin(machine.client(group, 0), 0, own=5)
    machine.begin(there, 1, own=5)
    assert lib.gpurt_set_policy(machine.gpus[0], LOCK, 0) == 0
    assert lib.gpurt_group_move(group.on[1], there, 0) == -errno.EOPNOTSUPP
    assert (there.depth, group.raw.open) == (1, 1)


def test_what_was_set_for_a_client_is_its_groups(machine: Machine) -> None:
    group, client, second = Group(machine), machine.client(), machine.client()
    for one, level in ((client, 40), (second, 50)):
        assert lib.gpurt_set_priority(machine.gpus[0], one, level, 0) == 0
        assert lib.gpurt_group_add(group.on[0], one, 3, 0) == 0
    machine.begin(second, own=3)
    assert group.raw.level == 40


def test_the_level_that_a_begin_would_have(machine: Machine) -> None:
    group = Group(machine)
    first, second = machine.client(group, own=5), machine.client(group, own=3)
    assert [lib.gpurt_client_begin_level(second, own, 60) for own in (3, 9)] == [5, 9]
    machine.begin(first, own=5)
    assert [lib.gpurt_client_begin_level(second, 9, 60), lib.gpurt_client_level(second)] == [5, 5]
