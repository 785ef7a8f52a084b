"""Turns (core/queue.c) against a sorted list, retries (core/grants.c), and gpurt_set_tsgs() against TSGs one by one."""

from __future__ import annotations

from typing import Any

from effort import tries
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_policy import Core

from gpurt._gpurt import ffi, lib

LEVELS = st.sampled_from([0, 0, 1, 31, 32, 50, 98, 99])


@given(steps=st.lists(st.tuples(st.sampled_from(["come", "enter", "leave", "give up"]), LEVELS), max_size=60))
def test_the_highest_level_enters_first_and_equals_as_they_came(steps: list[tuple[str, int]]) -> None:
    turns = ffi.new("struct gpurt_turns *")
    lib.gpurt_turns_init(turns)
    waiting: list[Any] = []  # in the order in which they came
    for step, level in steps:
        best = max(waiting, key=lambda turn: turn.level, default=None)  # the first of the highest
        assert lib.gpurt_turns_first(turns) == (best if best is not None else ffi.NULL)
        passes = not turns.held and (best is None or level > best.level)
        assert lib.gpurt_turns_may_enter(turns, level) == passes
        if step == "come":
            waiting.append(ffi.new("struct gpurt_turn *"))
            lib.gpurt_turns_add(turns, waiting[-1], level)
        elif step == "leave":
            turns.held = False
        elif best is not None and (step == "give up" or not turns.held):
            chosen = waiting[level % len(waiting)] if step == "give up" else best
            lib.gpurt_turns_remove(turns, chosen)
            waiting.remove(chosen)
            turns.held = turns.held or step == "enter"


def test_a_failed_update_is_tried_again_less_and_less_often() -> None:
    retry = ffi.new("struct gpurt_retry *")
    lib.gpurt_retry_init(retry)
    assert retry.at == lib.GPURT_FOREVER
    delays = []
    for _ in range(9):
        lib.gpurt_retry_failed(retry, lib.GPURT_CAUSE_END, 1000)
        delays.append((retry.at - 1000) // 1_000_000)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 128]
    assert retry.cause == lib.GPURT_CAUSE_END
    lib.gpurt_retry_init(retry)
    lib.gpurt_retry_failed(retry, lib.GPURT_CAUSE_END, 5)
    assert retry.at == 5 + lib.GPURT_RETRY_FIRST_NS


def test_the_rest_between_updates_that_fail_cannot_be_done_away_with() -> None:
    """However often the host hears that the next one will go well."""
    retry = ffi.new("struct gpurt_retry *")
    lib.gpurt_retry_init(retry)
    lib.gpurt_retry_hurry(retry, 7)
    assert retry.at == lib.GPURT_FOREVER  # there is nothing to try again
    now = tries = 0
    lib.gpurt_retry_failed(retry, lib.GPURT_CAUSE_END, now)
    while now < 10 * lib.GPURT_RETRY_LAST_NS:
        lib.gpurt_retry_hurry(retry, now)
        if retry.at <= now:
            tries += 1
            lib.gpurt_retry_failed(retry, lib.GPURT_CAUSE_END, now)
        now += 100_000
    assert tries <= 2 * (8 + 10)  # each planned one, and one hurry before it


COUNTS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tsgs"), st.integers(0, 2), COUNTS),
        st.tuples(st.just("begin"), st.integers(0, 2), st.sampled_from([0, 5, 5, 40])),
        st.tuples(st.just("end"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("job"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("budget"), st.integers(0, 2), st.integers(0, 6)),
        st.tuples(st.just("policy"), st.just(0), st.integers(0, lib.GPURT_POLICY_COUNT - 1)),
    ),
    max_size=40,
)


def one_by_one(core: Core, client: Any, count: int, now: int) -> None:
    while client.tsgs < count:
        lib.gpurt_tsg_opened(core.sched, client, now)
    while client.tsgs > count:
        lib.gpurt_tsg_closed(core.sched, client, now)


def at_once(core: Core, client: Any, count: int, now: int) -> None:
    lib.gpurt_set_tsgs(core.sched, client, count, now)


def take(core: Core, set_tsgs: Any, step: tuple[str, int, int], now: int) -> None:
    what, which, value = step
    client = core.clients[which]
    if what == "tsgs":
        set_tsgs(core, client, value, now)
    elif what == "begin":
        lib.gpurt_begin(core.sched, client, value, 0, now)
    elif what == "end":
        lib.gpurt_end(core.sched, client, now)
    elif what == "job":
        lib.gpurt_job(core.sched, client, 10 * which, value, now)
    elif what == "budget":
        lib.gpurt_join_budget(core.sched, client, core.budgets[which], now)
        lib.gpurt_set_budget(core.sched, core.budgets[which], value, value + 4, lib.GPURT_OVERRUN_DEMOTE, now)
    else:
        lib.gpurt_set_policy(core.sched, value, now)


def facts(core: Core) -> list[Any]:
    """All that the scheduler knows and has said, except where its memory is, and in which order at one time.

    A budget that is used up is found at the first of several decisions, or at the only one, which tells of all at once.
    """
    fields = [
        "depth", "tsgs", "own", "level", "runnable", "demoted", "granted", "segments", "preemptions", "overruns",
        "held_ns",
    ]  # fmt: skip
    clients = [[int(getattr(c, name)) for name in fields] for c in core.clients]
    budgets = [(one.used, one.ends, one.overrun) for one in core.budgets]
    return [clients, budgets, core.only, core.commits, sorted(core.events, key=str), core.sched.deadline]


@settings(max_examples=tries(400), deadline=None)
@given(steps=STEPS)
@example(steps=[("begin", 0, 5), ("budget", 0, 3), ("end", 1, 0), ("tsgs", 0, 2), ("tsgs", 0, 0)])
def test_many_tsgs_at_once_are_as_many_one_by_one(steps: list[tuple[str, int, int]]) -> None:
    loop, once = Core(), Core()
    for core in (loop, once):
        for _ in range(3):
            core.add()
        lib.gpurt_set_policy(core.sched, lib.GPURT_POLICY_SEGMENT, 0)
    for now, step in enumerate(steps):
        take(loop, one_by_one, step, now)
        take(once, at_once, step, now)
        assert facts(once) == facts(loop)
