# SPDX-License-Identifier: GPL-2.0
"""Tegra's driver enables groups on many occasions, on other descriptors than the group's: none may end an order."""

from __future__ import annotations

import pytest
from links import eventually
from machines import LONG, FakeGpu, Served, Start, never_known_to_be_off, real_time

from gpurt.enums import Cause, Tier
from pycontrol.link.control import Control

SHORT = "launch 0 20000"
TIMED_OUT = 110


@pytest.mark.parametrize("node", ["control", "channel", "below"])
def test_a_process_that_starts_while_off(node: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Its channels run from SETUP_BIND on, which is a call on the channel."""
    extra = {"control": {}, "channel": {"FAKE_CHANNEL_NODE": "1"}, "below": {"FAKE_BELOW": "1"}}[node]
    urgent = real_time(plane, start(family="nvgpu"))
    urgent.do(LONG)
    late_comer = start(family="nvgpu", **extra)
    assert not gpu.enabled(late_comer.pid)
    late_comer.do(SHORT)
    gpu.finish(urgent.pid)
    urgent.do("all")
    late_comer.do("all")
    assert gpu.order() == [urgent.pid, late_comer.pid]


@pytest.mark.parametrize(
    "own", ["own-channel 2", "own-close 1", "own-unbind 1", "own-mode 1", "own-object 1", "own-enable 1"]
)
def test_what_the_driver_enables_is_off_again(own: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(family="nvgpu"), start(family="nvgpu")
    background.do("own-channel 1", LONG)
    real_time(plane, urgent).do(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    background.do(own)
    assert not gpu.enabled(background.pid)
    gpu.finish(urgent.pid)
    urgent.do("all")
    gpu.finish(background.pid)
    background.do("all")
    assert gpu.order() == [urgent.pid, background.pid]


@pytest.mark.parametrize("mine", [True, False])
def test_a_group_that_processes_share(mine: bool, start: Start, plane: Control) -> None:
    """R36: either process switches the channels of both, so neither is isolated."""
    program = start(family="nvgpu") if mine else start(family="nvgpu", FAKE_SHARED="1")
    if mine:
        assert plane.status()[0].tier is Tier.UNPATCHED
        program.do("own-share 0")
    assert plane.status()[0].tier is Tier.HINTS
    assert "a group is shared with another process" in program.said()


def test_what_a_resume_enables_is_off_again_before_it_has_work(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """A GPU that is idle for half a second loses its power; the next call that needs it enables all channels."""
    background, urgent = start(family="nvgpu"), real_time(plane, start(family="nvgpu"))
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    gpu.ask("resume")
    assert gpu.enabled(background.pid)
    background.do("own-submit 0")
    assert not gpu.enabled(background.pid)


def test_a_second_step_that_fails(start: Start, hasty: Served, gpu: FakeGpu) -> None:
    """The group is disabled and the preemption failed: it must be enabled again all the same."""
    background, urgent = start(family="nvgpu", at=hasty.path), start(family="nvgpu", at=hasty.path)
    never_known_to_be_off(hasty, gpu, background, urgent, TIMED_OUT)


def test_a_slow_preemption_is_charged_to_all(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The driver polls with its lock held, one group after another, and the measured epsilon has all of that."""
    slow = 150_000_000
    others, urgent = [start(family="nvgpu") for _ in range(3)], real_time(plane, start(family="nvgpu"))
    for one in others:
        one.do(LONG)
    gpu.ask("delay", name="preempt", ns=slow)
    urgent.do(LONG)
    begun = next(one for one in plane.latency(0) if one.cause is Cause.BEGIN)
    assert begun.maximum >= len(others) * slow
