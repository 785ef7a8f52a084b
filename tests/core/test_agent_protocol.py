"""The agents' protocol against its model: chosen cases, random sequences, and every sequence to a fixed depth."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from agents_model import AGAIN, LIMIT, LONG, SHORT
from agents_model import DRIVERS as OWN
from agents_pair import DRIVERS, Pair, Saved
from effort import everything, tries
from hypothesis import given, settings
from hypothesis import strategies as st

from gpurt._gpurt import ffi, lib

BOUND = 3 * AGAIN
TRUST, SOON, USERS = lib.GPURT_AGENT_TRUST_NS, lib.GPURT_AGENT_SOON, lib.GPURT_AGENT_USERS
LAZY = lib.GPURT_AGENT_LAZY_NS
Event = tuple[Any, ...]


def do(pair: Pair, *events: Event) -> list[tuple[object, ...]]:
    """Has it all happen; what the host was told by the last event."""
    said: list[tuple[object, ...]] = []
    for name, *arguments in events:
        getattr(pair, name)(*arguments)
        said = list(pair.said)
        pair.check()
    return said


def ready(processes: int, wait: bool = False, bound: int = BOUND, limit: int = LIMIT, yields: bool = False) -> Pair:
    """A GPU whose agents have all carried out their first order."""
    pair = Pair(processes + 1, bound, wait, limit, yields)
    for name in range(processes):
        do(pair, ("join", name), ("register", name), ("answer", name, True))
    return pair


def test_the_owner_is_ordered_on_when_all_others_have_answered_off() -> None:
    pair = ready(3)
    assert do(pair, ("commit", 0)) == [("order", 1, False, 2), ("order", 2, False, 2)]
    assert do(pair, ("answer", 1, True)) == []
    assert do(pair, ("answer", 2, True)) == [("finished", 0)]  # it ran already, and runs on
    assert do(pair, ("commit", 1)) == [("order", 0, False, 2)]
    assert do(pair, ("answer", 0, True)) == [("order", 1, True, 3)]
    assert do(pair, ("answer", 1, True)) == [("finished", 0)]
    assert do(pair, ("commit", None)) == [("order", 2, True, 3), ("finished", 0)]
    assert do(pair, ("answer", 2, True)) == [("order", 0, True, 3)]


def test_an_agent_that_is_late_stays_late_until_it_answers() -> None:
    pair = ready(2)
    do(pair, ("commit", 0))
    assert do(pair, ("tick", BOUND)) == [("late", 1), ("finished", 0)]
    for _ in range(3):  # it is waited for no more, whatever is ordered, and a new agent inherits that
        assert do(pair, ("commit", None))[-1] == ("finished", 0)
        assert do(pair, ("resign", 1), ("register", 1), ("commit", 0))[-1] == ("finished", 0)
    assert pair.find(1).late
    assert do(pair, ("leave", 1), ("join", 1), ("register", 1), ("commit", None), ("commit", 0))[-1] == ("finished", 0)
    do(pair, ("answer", 1, True), ("tick", TRUST))
    assert do(pair, ("commit", None), ("commit", 0)) == [("order", 1, False, 5)]


def fresh_and_late(pair: Pair, late: int = 0) -> bool:
    """A new process of user 1000 has to be off and does not answer for so long.  Whether the update waited for it."""
    do(pair, ("commit", None), ("leave", 1), ("join", 1), ("register", 1), ("answer", 1, True))
    waits = ("finished", 0) not in do(pair, ("commit", 0))
    do(pair, ("tick", late))
    return waits


def test_a_user_who_was_late_is_not_waited_for_by_forking() -> None:
    """Until the user's agents have been in time for a while, and for twice that when they are late again soon."""
    pair = ready(4)  # 0, 1 and 3 are user 1000's
    pair.late = frozenset()
    assert fresh_and_late(pair, BOUND)
    assert [fresh_and_late(pair) for _ in range(3)] == [False] * 3
    do(pair, ("answer", 1, True), ("tick", TRUST // 2))
    assert not fresh_and_late(pair, BOUND)  # late once more: a second from now on
    do(pair, ("answer", 1, True), ("tick", TRUST - 1))
    assert not fresh_and_late(pair)
    do(pair, ("answer", 1, True), ("tick", 1))
    assert fresh_and_late(pair, BOUND)
    do(pair, ("answer", 1, True), ("tick", TRUST))
    assert not fresh_and_late(pair)
    do(pair, ("answer", 1, True), ("tick", TRUST))
    assert fresh_and_late(pair, BOUND)
    do(pair, ("answer", 1, True), ("tick", (4 + SOON * 4) * TRUST + 1))  # that is forgotten
    assert fresh_and_late(pair, BOUND)
    do(pair, ("answer", 1, True), ("tick", TRUST))
    assert fresh_and_late(pair)


def test_the_users_who_were_late_last_are_remembered() -> None:
    pair = ready(3)
    for user in range(USERS + 1):
        lib.gpurt_agents_leave(pair.raw, pair.array + 1, pair.now)
        lib.gpurt_agents_join(pair.raw, pair.array + 1, False)
        lib.gpurt_agents_register(pair.raw, pair.array + 1, user, b"x", 1, pair.now)
        lib.gpurt_agents_answer(pair.raw, pair.array + 1, 1, 0, pair.now)
        lib.gpurt_agents_answer(pair.raw, pair.array + 1, 1, -1, pair.now)
        pair.now += 1
    assert sorted(one.user for one in pair.raw.users) == list(range(1, USERS + 1))


def test_an_agent_that_takes_back_its_answer_is_late_at_once() -> None:
    """Otherwise it could hold up each update for as long as an honest one may take."""
    pair = ready(2, wait=True)
    do(pair, ("commit", 0), ("answer", 1, True))
    assert do(pair, ("answer", 1, False)) == [("late", 1)]
    for _ in range(3):
        assert do(pair, ("commit", 0)) == [("finished", -errno.ETIMEDOUT)]
        assert do(pair, ("answer", 1, True)) == [("retry",)]
        assert do(pair, ("answer", 1, False)) == [("late", 1)]


def test_with_wait_an_update_fails_until_the_late_agent_answers() -> None:
    pair = ready(2, wait=True)
    assert do(pair, ("commit", 0), ("tick", BOUND)) == [("late", 1), ("finished", -errno.ETIMEDOUT)]
    assert do(pair, ("commit", 0)) == [("finished", -errno.ETIMEDOUT)]
    assert do(pair, ("answer", 1, True)) == [("retry",)]
    assert do(pair, ("commit", 0)) == [("finished", 0)]


def test_an_owner_that_is_late_itself_fails_nothing() -> None:
    pair = ready(2, wait=True)
    do(pair, ("commit", 0), ("answer", 1, True), ("commit", 1), ("answer", 0, True))
    assert do(pair, ("tick", BOUND)) == [("late", 1), ("finished", 0)]


def test_a_refused_order_is_given_again_with_a_new_number() -> None:
    pair = ready(2)
    do(pair, ("commit", 0), ("answer", 1, False))
    assert pair.raw.deadline == AGAIN
    assert do(pair, ("wait",)) == [("order", 1, False, 3)]
    assert do(pair, ("answer", 1, False), ("wait",)) == [("order", 1, False, 4)]
    assert do(pair, ("answer", 1, True)) == [("finished", 0)]


def test_an_agent_can_be_reminded_of_what_its_driver_refused() -> None:
    """A host that reminds each agent needs a tick for late ones only."""
    pair = ready(2)
    do(pair, ("commit", 0), ("answer", 1, False))
    assert (pair.raw.deadline, pair.raw.overdue) == (AGAIN, BOUND)
    other = pair.array[1]
    for now, number in ((AGAIN - 1, 2), (AGAIN, 3), (2 * AGAIN, 3)):
        lib.gpurt_agents_remind(pair.raw, pair.array + 1, now)
        assert other.sequence == number
    lib.gpurt_agents_answer(pair.raw, pair.array + 1, 3, 0, 2 * AGAIN)
    lib.gpurt_agents_remind(pair.raw, pair.array + 1, 10 * AGAIN)
    assert (other.sequence, other.answered) == (3, 3)


def test_the_processes_of_a_group_own_the_gpu_together() -> None:
    """The update is over when all of them are on, or late."""
    pair = ready(4)
    do(pair, ("unite", 0), ("unite", 1), ("commit", 3), *[("answer", name, True) for name in range(3)])
    assert do(pair, ("commit", None, 0)) == [("order", 3, False, 2)]
    assert do(pair, ("answer", 3, True)) == [("order", 0, True, 3), ("order", 1, True, 3)]
    assert do(pair, ("answer", 1, True)) == []
    assert do(pair, ("answer", 0, True)) == [("finished", 0)]
    assert do(pair, ("unite", 1, None)) == [("order", 1, False, 4)]  # its client that had joined is gone
    assert do(pair, ("answer", 1, True), ("commit", 1)) == [("order", 0, False, 4)]  # by a client without a group


def test_who_joins_the_owner_in_the_middle_is_ordered_on() -> None:
    """The administrator's cure of a process that waits for another one, which is off."""
    pair = ready(3)
    do(pair, ("commit", 0), ("answer", 1, True), ("answer", 2, True))
    assert do(pair, ("unite", 0), ("commit", None, 0)) == [("finished", 0)]  # the owner is a group of one now
    assert do(pair, ("unite", 1)) == []
    assert do(pair, ("commit", None, 0)) == [("order", 1, True, 3)]  # for the host asks for an update then
    assert do(pair, ("answer", 1, True)) == [("finished", 0)]
    assert do(pair, ("unite", 2, 1)) == []  # another group
    do(pair, ("commit", None, 1), ("answer", 0, True))
    assert do(pair, ("answer", 1, True)) == [("order", 2, True, 3)]


def test_who_joins_another_group_takes_the_gpu_from_nobody() -> None:
    """A process that was of the owner's group and is of none any more; a dead group's number means nothing."""
    pair = ready(3)
    do(pair, ("unite", 0), ("unite", 1), ("unite", 2, 1), ("commit", None, 0), ("answer", 2, True))
    assert do(pair, ("unite", 0, None)) == [("order", 0, False, 2)]
    assert do(pair, ("unite", 0, 1)) == []
    assert pair.array[1].on
    assert not pair.array[2].on


def test_agents_that_come_in_the_middle_of_a_step_do_not_prolong_it() -> None:
    pair = ready(3)
    do(pair, ("commit", 0), ("tick", BOUND - 1), ("resign", 1), ("register", 1))
    assert not pair.array[1].on
    assert do(pair, ("tick", 1)) == [("late", 2), ("late", 1), ("finished", 0)]


def test_a_process_that_is_alone_may_begin_without_asking() -> None:
    """The host takes that back before it registers another one, and waits until that is answered or late."""
    pair = ready(1)
    assert do(pair, ("plain", 0)) == [("order", 0, True, 2)]
    do(pair, ("answer", 0, True))
    assert do(pair, ("commit", 0)) == [("finished", 0)]  # nobody has to be ordered anything
    assert do(pair, ("recall",)) == [("order", 0, True, 3)]
    assert (pair.array[0].free, pair.raw.holders) == (False, 1)
    do(pair, ("answer", 0, True, 1))  # of the order that gave it
    assert pair.raw.holders == 1
    do(pair, ("answer", 0, True))
    assert pair.raw.holders == 0
    do(pair, ("join", 1), ("register", 1), ("plain", 1))
    assert do(pair, ("recall", True)) == []
    assert do(pair, ("resign", 1)) == [("order", 0, True, 4)]
    assert do(pair, ("recall",), ("tick", BOUND)) == [("late", 0)]
    assert pair.raw.holders == 0
    assert do(pair, ("recall", True)) == []  # nor has a late one, until it answers
    assert do(pair, ("answer", 0, True)) == []  # nor has one of a user who is doubted
    assert do(pair, ("tick", TRUST)) == [("order", 0, True, 6)]  # without an update: best effort may be in none
    assert do(pair, ("commit", None)) == [("finished", 0)]


def many(processes: int) -> Pair:
    """Process 2, an administrator's, is to be alone; the others have channels that one call takes off."""
    pair = ready(processes)
    do(pair, *[("channels", name) for name in range(processes)])
    return pair


def test_the_owners_agent_takes_all_others_off_by_one_call() -> None:
    """The update waits for that call, and for each of them to know of it."""
    pair = many(4)
    orders = [("order", 0, False, 2), ("order", 1, False, 2), ("order", 3, False, 2)]
    assert do(pair, ("commit", 2)) == [("order", 2, True, 2), *orders]
    assert [bool(pair.array[name].taken) for name in range(4)] == [True, True, False, True]
    do(pair, ("answer", 0, True), ("answer", 1, True), ("answer", 3, True))
    assert do(pair, ("answer", 2, True)) == [("finished", 0)]
    assert not any(one.taker for one in pair.array)


@pytest.mark.parametrize("happens", [("answer", 2, False), ("resign", 2), ("tick", BOUND // 2)])
def test_if_the_call_fails_each_agent_takes_its_own_process_off(happens: Event) -> None:
    pair = many(4)
    do(pair, ("commit", 2), ("answer", 0, True), ("answer", 1, True), ("answer", 3, True))
    assert do(pair, happens)[:3] == [("order", name, False, 3) for name in (0, 1, 3)]
    assert all(pair.array[name].anew for name in (0, 1, 3))
    do(pair, ("answer", 0, True), ("answer", 1, True))
    last = do(pair, ("answer", 3, True))
    if happens[0] == "answer":  # its own process may have been what failed
        assert last + do(pair, ("tick", AGAIN)) == [("order", 2, True, 3)]
        last = do(pair, ("answer", 2, True))
    if happens[0] != "tick":
        assert last[-1] == ("finished", 0)
        return
    assert do(pair, ("tick", BOUND // 2)) == [("late", 2), ("finished", 0)]
    # the call that was given up may still be carried out, and so after the next orders
    do(pair, ("commit", None), *[("answer", name, True) for name in (0, 1, 3)])
    assert do(pair, ("answer", 2, True)) == [("order", name, True, 5) for name in (0, 1, 3)]


def test_they_come_on_one_after_the_other_and_who_has_waited_longest_first() -> None:
    """A begin that comes meanwhile finds few on, and next time the others come first."""
    pair = ready(4)
    do(pair, ("commit", 3), *[("answer", name, True) for name in range(4)])
    assert do(pair, ("commit", None)) == [("order", 0, True, 3), ("finished", 0)]
    assert do(pair, ("answer", 0, True)) == [("order", 1, True, 3)]
    assert do(pair, ("commit", 3)) == [("order", 0, False, 4), ("order", 1, False, 4)]
    do(pair, ("answer", 0, True), ("answer", 1, True))
    assert do(pair, ("commit", None)) == [("order", 2, True, 3), ("finished", 0)]
    assert do(pair, ("answer", 2, True)) == [("order", 0, True, 5)]
    assert do(pair, ("answer", 0, True)) == [("order", 1, True, 5)]


def test_nobody_waits_to_come_on_for_one_that_is_late() -> None:
    pair = ready(4)
    do(pair, ("commit", 3), *[("answer", name, True) for name in range(4)], ("commit", None), ("answer", 0, True))
    assert not pair.array[2].on
    assert do(pair, ("answer", 0, False)) == [("late", 0), ("order", 2, True, 3)]  # 1 is the same user's


def test_strangers_that_a_call_failed_for_are_in_the_next_one_when_their_channels_are_others() -> None:
    pair = many(5)
    do(pair, ("commit", 2), ("answer", 2, False), ("tick", AGAIN), *[("answer", name, True) for name in range(5)])
    do(pair, ("commit", None), *[("answer", name, True) for name in range(5)], ("channels", 0), ("channels", 3))
    do(pair, ("commit", 2))
    assert [bool(one.taken) for one in pair.array] == [True, False, False, True, False, False]


def test_one_call_is_for_two_or_more_whose_users_permit_it_and_for_what_fits() -> None:
    pair = many(3)
    do(pair, ("commit", 0), ("answer", 1, True))
    assert not pair.raw.owing[1] or not any(one.many for one in pair.array)  # process 2 is another user's
    pair = many(4)
    do(pair, ("channels", 0, True, 60), ("channels", 1, True, 5), ("commit", 2))
    assert [bool(pair.array[name].taken) for name in range(4)] == [True, False, False, True]
    pair = many(4)
    do(pair, ("channels", 2, False), ("commit", 2))
    assert not any(one.taken for one in pair.array)


def test_a_user_has_no_more_agents_than_the_limit() -> None:
    """Processes 0, 1, 3 and 4 have the same user, who may have two.  Process 2 has one who may have any number."""
    pair = Pair(6, BOUND, False, limit=2)
    for name in range(6):
        do(pair, ("join", name), ("register", name))
    assert [bool(pair.array[name].registered) for name in range(6)] == [True, True, True, False, False, True]
    assert do(pair, ("register", 0), ("answer", 0, True), ("register", 3)) == []  # to say something new is no new agent
    assert not pair.array[3].registered
    assert do(pair, ("resign", 1), ("register", 3), ("commit", 2)) == [("order", n, False, 2) for n in (0, 5, 3)]
    assert (pair.array[1].registered, pair.array[3].registered) == (False, True)


def test_the_names_of_drivers_are_sorted_and_cut() -> None:
    pair = Pair(4, BOUND, False)
    facts = ffi.new("struct gpurt_agents_facts *")
    for name, driver in enumerate((3, 1, 3, 2)):
        do(pair, ("join", name), ("register", name, driver, 2))
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert ffi.string(facts.driver).decode() == f"{DRIVERS[2]}"
    do(pair, ("resign", 3), ("register", 2, 0))
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert ffi.string(facts.driver).decode() == "kfd-queue+nvidia-rm+x"


def test_names_that_are_neighbours_in_the_alphabet_are_all_told_of() -> None:
    pair, facts = Pair(4, BOUND, False), ffi.new("struct gpurt_agents_facts *")
    for name, driver in enumerate((b"b", b"a", b"ab", b"c")):
        lib.gpurt_agents_join(pair.raw, pair.array + name, False)
        assert lib.gpurt_agents_register(pair.raw, pair.array + name, 7, driver, 2, 0) == 0
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert ffi.string(facts.driver).decode() == "a+ab+b+c"


def test_the_limit_is_that_of_the_user_who_registers_the_agent() -> None:
    """A process whose earlier agent was an administrator's has no right to another one from that."""
    pair, facts = Pair(2, BOUND, False, limit=1), ffi.new("struct gpurt_agents_facts *")

    def register(name: int, user: int) -> int:
        return int(lib.gpurt_agents_register(pair.raw, pair.array + name, user, b"x", 1, 0))

    for name in range(2):
        lib.gpurt_agents_join(pair.raw, pair.array + name, False)
    assert [register(0, 1000), register(1, lib.GPURT_AGENT_UNLIMITED)] == [0, 0]
    lib.gpurt_agents_resign(pair.raw, pair.array + 1, 0)
    assert register(1, 1000) == -errno.EDQUOT
    lib.gpurt_agents_resign(pair.raw, pair.array, 0)
    assert [register(1, 1000), register(1, 1000), register(0, 1000)] == [0, 0, -errno.EDQUOT]
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert facts.refused == 2


def test_more_names_of_drivers_than_fit_do_no_harm() -> None:
    """Names that came first are told of, also when others have gone."""
    most, unlimited = lib.GPURT_AGENT_NAMES, lib.GPURT_AGENT_UNLIMITED
    pair, facts = Pair(most + 2, BOUND, False), ffi.new("struct gpurt_agents_facts *")
    for name in range(most + 2):
        lib.gpurt_agents_join(pair.raw, pair.array + name, False)
        lib.gpurt_agents_register(pair.raw, pair.array + name, unlimited, bytes([ord("z") - name]), 1, 0)
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert ffi.string(facts.driver).decode() == "+".join(chr(ord("z") - name) for name in reversed(range(most)))
    for name in range(most + 1):
        lib.gpurt_agents_leave(pair.raw, pair.array + name, 0)
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert ffi.string(facts.driver) == b"none"
    lib.gpurt_agents_register(pair.raw, pair.array + most + 1, unlimited, b"last", 1, 0)
    lib.gpurt_agents_facts(ffi.addressof(pair.raw[0], "kept"), facts)
    assert ffi.string(facts.driver) == b"last"


def yielding(processes: int) -> Pair:
    """Process 0 is real-time; all have one group for kernels, and have answered how long their slices are."""
    pair = ready(processes, yields=True)
    do(pair, *[("single", name) for name in range(processes)], ("plain", 0), ("rank", 0))
    do(pair, *[("answer", name, True) for name in (*range(processes), 0)])
    return pair


def slices(pair: Pair) -> list[int]:
    return [one.slice for one in pair.array[0 : pair.size - 1]]


def test_the_most_urgent_process_begins_beside_those_whose_slices_are_short() -> None:
    """No order is given where its segment is over in time."""
    pair = ready(3, yields=True)
    do(pair, *[("single", name) for name in range(3)], ("plain", 1))
    assert do(pair, ("rank", 1)) == [("order", 0, True, 2), ("order", 2, True, 2), ("order", 1, True, 2)]
    assert slices(pair) == [SHORT, LONG, SHORT]
    assert do(pair, ("answer", 1, True), ("answer", 0, True)) == []
    assert not pair.array[1].free
    assert do(pair, ("answer", 2, True)) == [("order", 1, True, 3)]
    assert pair.array[1].yields
    do(pair, ("answer", 1, True))
    for _ in range(3):
        assert do(pair, ("commit", 1, None, "YIELD")) == [("finished", 0)]
        assert pair.raw.deadline <= pair.now + LAZY
        assert do(pair, ("tick", LAZY - 1)) == []
        assert do(pair, ("commit", None)) == [("finished", 0)]
        assert pair.raw.deadline > pair.now + 1  # the host is not woken for nothing
    orders = [("order", 0, False, 3), ("order", 2, False, 3)]
    assert do(pair, ("commit", 1, None, "YIELD"), ("tick", LAZY)) == orders
    assert do(pair, ("answer", 0, True)) == []
    assert do(pair, ("answer", 2, True)) == [("finished", 0)]
    assert do(pair, ("commit", None)) == [("order", 0, True, 4), ("finished", 0)]
    assert do(pair, ("answer", 0, True)) == [("order", 2, True, 4)]


def test_who_outlasted_that_has_the_others_taken_off_at_its_next_begin() -> None:
    """Until a segment is over sooner."""
    pair = yielding(2)
    do(pair, ("commit", 0, None, "YIELD"), ("tick", LAZY), ("answer", 1, True), ("commit", None), ("answer", 1, True))
    off = [("finished", 0), ("order", 1, False, 5)]
    assert do(pair, ("commit", 0, None, "YIELD")) == off
    assert not pair.raw.lazy
    assert do(pair, ("answer", 1, True)) == [("finished", 0)]
    do(pair, ("commit", 0), ("tick", LAZY - 1), ("commit", None), ("answer", 1, True))
    assert do(pair, ("commit", 0, None, "YIELD")) == [("finished", 0)]
    assert do(pair, ("tick", LAZY - 1), ("commit", None)) == [("finished", 0)]
    do(pair, ("commit", 0), ("tick", LAZY), ("answer", 1, True), ("commit", None), ("answer", 1, True))
    assert do(pair, ("commit", 0, None, "YIELD")) == [("finished", 0)]  # how long others last says nothing of these


def test_the_most_urgent_process_stays_on_beside_one_that_need_not_be_alone() -> None:
    pair = yielding(3)
    assert do(pair, ("commit", 1, None, "BESIDE")) == [("order", 2, False, 3)]
    assert do(pair, ("answer", 2, True)) == [("finished", 0)]
    pair.inside(0)
    assert do(pair, ("commit", 0, None, "YIELD")) == [("finished", 0)]
    assert [bool(one.on) for one in pair.array[0:3]] == [True, True, False]  # nobody comes on for that
    pair.inside(0, False)
    assert do(pair, ("commit", 1, None, "BESIDE")) == [("finished", 0)]
    assert do(pair, ("commit", 0, None, "YIELD"), ("tick", LAZY)) == [("order", 1, False, 3)]
    assert do(pair, ("answer", 1, True), ("commit", 1)) == [("order", 0, False, 4)]
    assert not pair.array[0].free


def test_who_was_preempted_does_not_come_on_when_it_is_the_most_urgent_one() -> None:
    """A process that was first by its level, and cannot yield, has ended.  So has the preempted segment then."""
    pair = yielding(4)
    do(pair, ("plain", 1), ("rank", 1, 60, True), ("rank", 2, 90), ("commit", 0, None, "BESIDE"))
    do(pair, *[("answer", name, True) for name in (0, 1, 2, 3)])
    do(pair, ("resign", 2))
    do(pair, *[("answer", name, True) for name in (0, 1, 3)])
    assert pair.raw.top == pair.array + 1
    assert not pair.array[1].on
    do(pair, ("rank", 1, 60))
    assert pair.array[1].on


def test_a_begin_that_waits_and_a_recall_take_the_others_off_at_once() -> None:
    pair = yielding(3)
    orders = [("order", 1, False, 3), ("order", 2, False, 3)]
    assert do(pair, ("commit", 0, None, "YIELD"), ("commit", 0)) == orders
    pair = yielding(3)
    assert do(pair, ("commit", 0, None, "YIELD"), ("recall",))[:2] == orders


def test_nobody_yields_beside_equals_or_a_slice_that_is_not_known() -> None:
    single = ("single", 1, False), ("single", 0, False), ("single", 0, True, False)
    for wrong in (("rank", 1), *single, ("rank", 0, 0), ("plain", 0, False)):
        pair = yielding(2)
        assert pair.array[0].yields
        do(pair, wrong)
        assert not pair.array[0].yields, wrong
        assert ("finished", 0) not in do(pair, ("answer", 0, True), ("commit", 0, None, "YIELD")), wrong


def test_a_more_urgent_process_gets_the_flag_when_the_other_one_has_lost_flag_and_slice() -> None:
    pair = yielding(3)
    do(pair, ("plain", 1))
    assert do(pair, ("rank", 1, 60)) == [("order", 0, True, 4)]
    assert slices(pair) == [SHORT, SHORT, SHORT]  # the other one may still begin
    assert do(pair, ("answer", 0, True)) == [("order", 1, True, 3)]
    assert slices(pair) == [SHORT, LONG, SHORT]
    assert (pair.array[0].free, pair.array[1].yields) == (False, True)
    do(pair, ("answer", 1, True), ("commit", 1, None, "YIELD"), ("rank", 1, 0))
    assert slices(pair) == [SHORT, SHORT, SHORT]  # none becomes longer in a segment
    do(pair, ("commit", None), ("answer", 1, True))
    assert slices(pair) == [LONG, SHORT, SHORT]
    do(pair, ("rank", 0, 0), ("answer", 0, True))
    assert slices(pair) == [OWN] * 3


NAMES = st.integers(0, 3)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.just("join"), NAMES),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("register"), NAMES, st.integers(0, len(DRIVERS) - 1), st.integers(0, 3)),
    st.tuples(st.just("resign"), NAMES),
    st.tuples(st.just("exempt"), NAMES, st.booleans()),
    st.tuples(st.just("unite"), NAMES, st.none() | st.integers(0, 1)),
    st.tuples(st.just("commit"), st.none(), st.integers(0, 1)),
    st.tuples(st.just("answer"), NAMES, st.just(True)),
    st.tuples(st.just("answer"), NAMES, st.booleans(), st.integers(-1, 2)),
    st.tuples(st.just("commit"), st.none() | NAMES),
    st.tuples(st.just("tick"), st.integers(0, 2 * BOUND) | st.sampled_from([TRUST, 2 * TRUST, SOON * TRUST])),
    st.tuples(st.just("wait")),
    st.tuples(st.just("plain"), NAMES, st.booleans()),
    st.tuples(st.just("channels"), NAMES, st.booleans(), st.sampled_from([0, 4, 40])),
    st.tuples(st.just("recall"), st.booleans()),
    st.tuples(st.just("rank"), NAMES, st.sampled_from([0, 50, 60]), st.booleans()),
    st.tuples(st.just("single"), NAMES, st.booleans(), st.booleans()),
    st.tuples(st.just("commit"), NAMES, st.none(), st.sampled_from(["YIELD", "BESIDE"])),
)


@settings(max_examples=tries(400), deadline=None)
@given(wait=st.booleans(), yields=st.booleans(), limit=st.integers(1, 3), events=st.lists(EVENTS, max_size=60))
def test_random_sequences(wait: bool, yields: bool, limit: int, events: list[Event]) -> None:
    """The core and the model are the same after every event; and once agents answer well all are on."""
    pair = ready(3, wait, limit=limit, yields=yields)
    do(pair, *events)
    do(pair, ("commit", None))
    for _ in range(4):
        do(pair, *[("answer", p.name, True) for p in pair.model.processes])
        if pair.model.failed and not pair.model.step:
            do(pair, ("commit", None))
    assert all(pair.array[p.name].on for p in pair.model.processes if p.agent)


@settings(max_examples=tries(200), deadline=None)
@given(events=st.lists(EVENTS, max_size=40), only=NAMES)
def test_a_failed_update_converges(events: list[Event], only: int) -> None:
    """Whatever happened: once every agent answers what it is ordered, the update goes well within a few rounds."""
    pair = ready(3, wait=True)
    do(pair, *events)
    do(pair, ("join", only), ("commit", only))
    for _ in range(4):
        do(pair, *[("answer", p.name, True) for p in pair.model.processes])
        if pair.model.failed and not pair.model.step:
            do(pair, ("commit", only))
    assert (pair.model.step, pair.model.failed, pair.model.open) == ("", False, True)


def test_the_comparison_can_fail() -> None:
    """A model that believes something else is found out by the next event: `do` compares after each."""
    for wrong in ("late", "on", "exempt"):
        pair = ready(2)
        believed = pair.model.processes[0]
        setattr(believed, wrong, not getattr(believed, wrong))
        with pytest.raises(AssertionError):
            do(pair, ("tick", 0))


def alphabet(processes: int) -> list[Event]:
    events: list[Event] = [("commit", None), ("commit", None, 0), ("tick", AGAIN)]
    for name in range(processes):
        events += [("commit", name), ("answer", name, True), ("answer", name, False), ("answer", name, True, 1)]
        events += [("resign", name), ("register", name), ("exempt", name, True), ("exempt", name, False)]
        events += [("unite", name), ("unite", name, None)]
    return events


def key(pair: Pair) -> Event:
    """All that decides how it goes on: numbers of orders count only as far as they differ, times as they matter."""
    m, now = pair.model, pair.now

    def age(since: int) -> int:
        return min(now - since, m.bound)

    def agent(p: Any) -> Event:
        if not p.agent:
            return ()
        again = None if p.again is None else p.again - now
        called = p.calls, p.channels, p.many and p.sequence - p.many, p.given_up, p.taken, p.anew
        taker = (p.taker.name, p.taker.many - p.taken_in) if p.taker else ()
        order = p.sequence - p.answered, p.sequence > 1, age(p.since), again
        cut = p.slice, p.has, p.single, p.automatic, p.rank, p.yields, p.outlasts, p.inside
        return p.on, p.free, p.plain, any(p.flags), *order, *called, taker, *cut

    went = tuple(p.name for p in sorted(m.processes, key=lambda p: p.went) if p.agent and not p.on)
    processes = tuple((p.name, p.exempt, p.group, p.late, agent(p)) for p in sorted(m.processes, key=lambda p: p.name))
    step = age(m.step_since) if m.step else None
    only = -1 if m.only is None else m.only if isinstance(m.only, int) else (m.only.name,)
    lazy = None if m.lazy_until is None else m.lazy_until - now
    begun = None if m.begun is None else min(now - m.begun, LAZY)
    due = max(pair.raw.deadline - now, -1)
    return lazy, begun, m.beside, only, went, m.step, step, m.open, m.failed, m.recalls, due, processes


def flag_alphabet(processes: int) -> list[Event]:
    events: list[Event] = [("commit", None), ("commit", 0), ("tick", BOUND), ("recall",), ("recall", True)]
    for name in range(processes):
        events += [("answer", name, True), ("answer", name, False), ("answer", name, True, 1), ("resign", name)]
        events += [("register", name), ("plain", name), ("plain", name, False)]
    return events


def many_alphabet(processes: int) -> list[Event]:
    events: list[Event] = [("commit", None), ("commit", 2), ("commit", 0), ("tick", BOUND // 2)]
    for name in range(processes):
        events += [("answer", name, True), ("answer", name, False), ("answer", name, True, 1), ("resign", name)]
        events += [("register", name), ("channels", name)]
    return events


def yield_alphabet(processes: int) -> list[Event]:
    events: list[Event] = [("commit", None), ("commit", 0), ("commit", 1), ("commit", 0, None, "YIELD"), ("tick", LAZY)]
    events += [("commit", 1, None, "BESIDE")]
    events += [("tick", BOUND), ("recall",), ("recall", True)]
    for name in range(processes):
        events += [("answer", name, True), ("answer", name, False), ("resign", name), ("register", name)]
        events += [("single", name), ("rank", name, 0), ("rank", name), ("plain", name), ("plain", name, False)]
        events += [("rank", name, 50, True)]
    return events


#: How many processes, how many events, how many states there are at least, and what the events are.
MOST = [(2, 5, 4_000, alphabet), (3, 3, 800, alphabet), (2, 5, 1_500, flag_alphabet), (3, 4, 1_500, many_alphabet),
        (2, 4, 8_000, yield_alphabet), (3, 3, 2_000, yield_alphabet)]  # fmt: skip
FEW = [(2, 4, 400, alphabet), (3, 2, 80, alphabet), (2, 3, 80, flag_alphabet), (3, 2, 60, many_alphabet),
       (2, 3, 80, yield_alphabet)]  # fmt: skip
WAYS = MOST if everything() else FEW


@pytest.mark.parametrize("wait", [False, True], ids=["go-on", "wait"])
@pytest.mark.parametrize(("processes", "depth", "least", "letters"), WAYS)
def test_every_sequence_of_events(
    wait: bool, processes: int, depth: int, least: int, letters: Callable[[int], list[Event]],
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    """Breadth first; a state that was met is left by every event once."""
    pair = ready(processes, wait) if letters is not yield_alphabet else yielding(processes)
    events = letters(processes)
    if letters is many_alphabet:
        do(pair, *[("channels", name) for name in range(processes)])
    seen = {key(pair)}
    front = [Saved(pair)]
    for _ in range(depth):
        reached = []
        for state in front:
            for event in events:
                state.restore(pair)
                do(pair, event)
                if (at := key(pair)) not in seen:
                    seen.add(at)
                    reached.append(Saved(pair))
        front = reached
    assert len(seen) > least
    record_property("states", len(seen))
