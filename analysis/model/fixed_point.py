# SPDX-License-Identifier: GPL-2.0
"""Least fixed points of monotone integer functions: the solutions of response-time recurrences."""

from __future__ import annotations

from collections.abc import Callable

#: Steps after which a search gives up.  A recurrence grows by at least one job's demand in each step.
MAX_SEARCH_STEPS = 1_000_000


class Diverged(Exception):
    """The function has no fixed point up to the limit.

    ``reached`` is the first value beyond the limit, or the last value before the steps ran out.
    """

    def __init__(self, reached: int, limit: int, steps: int) -> None:
        super().__init__(f"no fixed point up to {limit} after {steps} steps, reached {reached}")
        self.reached = reached
        self.limit = limit
        self.steps = steps


def least_fixed_point(function: Callable[[int], int], start: int, limit: int) -> int:
    """The least x >= start with function(x) == x, for a monotone function with function(start) >= start.

    Raises Diverged if there is none up to ``limit``, or if MAX_SEARCH_STEPS steps do not find it.
    """
    value = start
    for step in range(MAX_SEARCH_STEPS):
        following = function(value)
        if following == value:
            return value
        value = following
        if value > limit:
            raise Diverged(value, limit, step + 1)
    raise Diverged(value, limit, MAX_SEARCH_STEPS)
