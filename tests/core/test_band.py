"""Policy `boosted`: the CPU priorities of raised threads, and what they cannot order."""

from __future__ import annotations

import errno

import pytest

from gpurt._gpurt import lib

N = lib.GPURT_NORMAL_DEFAULT


@pytest.mark.parametrize("normal", [1, 2, N, lib.GPURT_NORMAL_MAX])
def test_raised_threads_are_above_the_others_in_order_of_gpu_priority(normal: int) -> None:
    raised = [lib.gpurt_boost_cpu(normal, level) for level in range(1, normal + 1)]
    assert raised == list(range(normal + 1, 2 * normal + 1))
    assert max(raised) < lib.gpurt_boost_cpu(normal, lib.GPURT_RAISED_TOP) <= 99
    assert lib.gpurt_boost_cpu(normal, 0) == 0


def test_all_of_it_is_below_threaded_interrupts() -> None:
    assert lib.gpurt_boost_cpu(N, lib.GPURT_RAISED_TOP) < 50


@pytest.mark.parametrize("normal", [1, N, lib.GPURT_NORMAL_MAX])
def test_the_right_is_that_to_the_highest_priority_that_a_form_is_raised_to(normal: int) -> None:
    top = lib.gpurt_boost_cpu(normal, lib.GPURT_RAISED_TOP)
    for level in range(1, normal + 1):
        assert lib.gpurt_boost_right(normal, lib.GPURT_FORM_SELF, level) == lib.gpurt_boost_cpu(normal, level)
        for form in (lib.GPURT_FORM_OWNER, lib.GPURT_FORM_FENCE):
            assert lib.gpurt_boost_right(normal, form, level) == top


def test_a_level_that_was_there_before_stays_within_the_band() -> None:
    assert {lib.gpurt_boost_cpu(N, level) for level in range(N, 100)} == {2 * N}


@pytest.mark.parametrize(
    ("own", "level", "refused"),
    [
        (1, 1, False), (N, N, False), (0, 0, False), (60, 0, False),
        (0, 1, True), (N + 1, 1, True), (1, N + 1, True), (99, 99, True),
    ],
)  # fmt: skip
def test_what_cannot_be_ordered_is_refused(own: int, level: int, refused: bool) -> None:
    assert lib.gpurt_boost_refusal(N, own, level) == (-errno.ERANGE if refused else 0)


def test_flags_state_the_form() -> None:
    stated = [lib.gpurt_boost_stated(flags) for flags in (0, lib.GPURT_BEGIN_OWNER, lib.GPURT_BEGIN_FENCE)]
    assert stated == [lib.GPURT_FORM_SELF, lib.GPURT_FORM_OWNER, lib.GPURT_FORM_FENCE]
    waiting = [lib.gpurt_boost_stated(flags | lib.GPURT_BEGIN_WAIT) for flags in (0, lib.GPURT_BEGIN_OWNER)]
    assert waiting == stated[:2]
