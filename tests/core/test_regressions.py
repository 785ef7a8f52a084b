"""One test for each defect that the core once had."""

from __future__ import annotations

from typing import Any

import pytest
from test_policy import Core
from test_vgpu import EXEC, Gpu

from gpurt._gpurt import lib

SEGMENT, JOB = lib.GPURT_POLICY_SEGMENT, lib.GPURT_POLICY_JOB
GRANT, PREEMPT, RESUME = lib.GPURT_EVENT_GRANT, lib.GPURT_EVENT_PREEMPT, lib.GPURT_EVENT_RESUME


def begin_all(policy: int, *own: int) -> tuple[Core, list[Any]]:
    core = Core()
    lib.gpurt_set_policy(core.sched, policy, 0)
    clients = [core.add() for _ in own]
    for client, priority in zip(clients, own, strict=True):
        lib.gpurt_begin(core.sched, client, priority, 0, 1)
    core.events.clear()
    return core, clients


def test_a_change_of_policy_does_not_let_an_equal_preempt() -> None:
    core, (first, second, third) = begin_all(lib.GPURT_POLICY_LOCK_FIFO, 9, 3, 5)
    lib.gpurt_set_priority(core.sched, second, 5, 2)  # reaches level 5 after the third client, but began before it
    lib.gpurt_end(core.sched, first, 3)
    assert core.only == 1
    lib.gpurt_set_policy(core.sched, SEGMENT, 4)
    assert core.only == 1
    lib.gpurt_end(core.sched, second, 5)
    assert core.sched.runner == third


@pytest.mark.parametrize("policy", [lib.GPURT_POLICY_LOCK_PRIORITY, lib.GPURT_POLICY_LOCK_FIFO])
def test_best_effort_does_not_hold_a_lock_for_ever(policy: int) -> None:
    core = Core()
    core.sched.lock_bound = 100
    lib.gpurt_set_policy(core.sched, policy, 0)
    endless, urgent = core.add(), core.add()
    lib.gpurt_begin(core.sched, endless, 0, 0, 7)
    lib.gpurt_begin(core.sched, urgent, 50, 0, 20)
    lib.gpurt_tick(core.sched, 106)
    assert (core.only, core.sched.deadline) == (0, 107)
    lib.gpurt_tick(core.sched, 107)
    assert (core.only, core.sched.deadline) == (1, lib.GPURT_FOREVER)
    assert (endless.demoted, endless.overruns) == (lib.GPURT_DEMOTED_SEGMENT, 1)
    lib.gpurt_end(core.sched, endless, 108)
    lib.gpurt_begin(core.sched, endless, 0, 0, 109)
    lib.gpurt_end(core.sched, urgent, 110)
    assert (core.only, core.sched.deadline) == (0, 210)


@pytest.mark.parametrize("policy", [lib.GPURT_POLICY_LOCK_PRIORITY, lib.GPURT_POLICY_LOCK_FIFO])
def test_a_segment_that_asks_for_a_priority_may_hold_a_lock_until_its_end(policy: int) -> None:
    """At its end, too: its priority goes with it, and the client is best effort when the next owner is chosen."""
    core = Core()
    core.sched.lock_bound = 100
    lib.gpurt_set_policy(core.sched, policy, 0)
    urgent = core.add()
    lib.gpurt_begin(core.sched, urgent, 0, 50, 7)
    lib.gpurt_end(core.sched, urgent, 500)
    assert (urgent.demoted, urgent.overruns) == (lib.GPURT_NOT_DEMOTED, 0)


def test_a_waiting_client_gets_events_when_its_exemption_begins_and_ends() -> None:
    """A blocked GPURT_BEGIN_WAIT sleeps until an event says that its client holds the GPU."""
    core, (waiting, _) = begin_all(SEGMENT, 1, 9)
    assert core.only == 1
    for exempt, event in ((True, RESUME), (False, PREEMPT), (True, RESUME)):
        lib.gpurt_set_exempt(core.sched, waiting, exempt, 2)
        assert core.events.pop() == (0, event)
    newcomer = core.add()
    lib.gpurt_begin(core.sched, newcomer, 0, 0, 3)
    core.events.clear()
    lib.gpurt_set_exempt(core.sched, newcomer, True, 4)
    assert core.events == [(2, GRANT)]


def test_an_exempt_client_that_never_lost_the_gpu_is_not_resumed() -> None:
    core, (exempt, other) = begin_all(SEGMENT, 1, 9)
    lib.gpurt_set_exempt(core.sched, exempt, True, 2)
    core.events.clear()
    lib.gpurt_end(core.sched, other, 3)
    assert core.only == 0
    assert (0, RESUME) not in core.events


def test_every_segment_of_a_job_is_granted() -> None:
    core, (client,) = begin_all(JOB, 0)
    lib.gpurt_end(core.sched, client, 2)
    lib.gpurt_begin(core.sched, client, 0, 0, 3)
    assert core.events[-1] == (0, GRANT)


def test_a_segment_that_the_policy_job_takes_the_gpu_from_is_told_so() -> None:
    core, (segment, job) = begin_all(SEGMENT, 9, 0)
    lib.gpurt_tsg_opened(core.sched, job, 2)
    lib.gpurt_job(core.sched, job, 5, True, 2)
    core.events.clear()
    lib.gpurt_set_policy(core.sched, JOB, 3)
    assert core.only == 1
    assert lib.gpurt_state_of(core.sched, segment) == lib.GPURT_STATE_PENDING
    assert core.events[0] == (0, PREEMPT)


def test_a_job_that_falls_to_the_level_of_another_is_not_preempted_by_it() -> None:
    core = Core()
    lib.gpurt_set_policy(core.sched, JOB, 0)
    runner, other = core.add(), core.add()
    for client, priority in ((runner, 20), (other, 10)):
        lib.gpurt_tsg_opened(core.sched, client, 1)
        lib.gpurt_job(core.sched, client, priority, True, 1)
    assert core.only == 0
    lib.gpurt_set_priority(core.sched, runner, 10, 2)
    assert core.only == 0
    lib.gpurt_set_priority(core.sched, other, 11, 3)
    lib.gpurt_set_priority(core.sched, other, 10, 4)  # it is the runner now, and stays it likewise
    assert core.only == 1


@pytest.mark.parametrize("alone", [1, 7, 23])
def test_a_late_exemption_does_not_turn_time_back(alone: int) -> None:
    """The slice of a TSG that is alone does not end.  When an exempt TSG joined, an end in the past was still due."""
    gpu = Gpu([0, 1], 4, 0, 0, True)
    gpu.commit(0, 0)
    gpu.submit(0, EXEC, False, 40, 0)
    gpu.submit(1, EXEC, False, 4, 0)
    lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[1], True, alone)
    assert lib.gpurt_vgpu_next(gpu.vgpu) >= alone
    gpu.commit(0, alone)
    lib.gpurt_vgpu_advance(gpu.vgpu, 100)
    assert max(when for _, _, when in gpu.done) == 44  # work done = time passed


def test_exempt_contexts_and_the_only_one_take_turns() -> None:
    """Round robin goes over the whole runlist.  The only context once had every other turn."""
    gpu = Gpu([0, 1, 2, 3], 1, 0, 0, True)
    for exempt in (1, 2, 3):
        lib.gpurt_vgpu_exempt(gpu.vgpu, gpu.contexts[exempt], True, 0)
    gpu.commit(0, 0)
    for tsg in range(4):
        gpu.submit(tsg, EXEC, False, 5, 0)
    lib.gpurt_vgpu_advance(gpu.vgpu, 100)
    assert gpu.done == [(0, 1, 17), (1, 1, 18), (2, 1, 19), (3, 1, 20)]
