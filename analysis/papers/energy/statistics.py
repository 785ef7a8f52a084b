# SPDX-License-Identifier: GPL-2.0
"""Ratios of sums over tasksets with 95 % intervals: the taskset is the unit, resampled with replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
Values: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __sub__(self, other: Interval) -> Interval:
        """Adds the intervals' widths: too wide if both come from the same tasksets, but never too narrow."""
        return Interval(self.value - other.value, self.low - other.high, self.high - other.low)

    def __neg__(self) -> Interval:
        return Interval(-self.value, -self.high, -self.low)

    @property
    def sign(self) -> int:
        """1 if the whole interval is above 0, -1 if it is below, else 0."""
        return (self.low > 0) - (self.high < 0)

    def scaled(self, factor: float) -> Interval:
        """The interval times a factor, for another unit."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


class Bootstrap:
    """Resamples of ``count`` tasksets; equal seeds give equal resamples, so that differences are paired."""

    def __init__(self, count: int, seed: int = 1, resamples: int = RESAMPLES) -> None:
        rng = np.random.Generator(np.random.PCG64(seed))
        self.weights: Values = rng.multinomial(count, [1 / count] * count, resamples).astype(np.float64)

    def ratio(self, above: Values, below: Values) -> Interval:
        """sum(above) / sum(below); 0 where the divisor is 0."""
        return _estimate(_divided(above.sum(), below.sum()), _divided(self.weights @ above, self.weights @ below))

    def difference(self, above: Values, below: Values, other: Values, under: Values) -> Interval:
        """sum(above) / sum(below) - sum(other) / sum(under) on the same tasksets."""
        value = _divided(above.sum(), below.sum()) - _divided(other.sum(), under.sum())
        first, second = ((self.weights @ a, self.weights @ b) for a, b in ((above, below), (other, under)))
        return _estimate(value, _divided(*first) - _divided(*second))


def _divided(above: Values, below: Values) -> Values:
    return np.divide(above, below, out=np.zeros_like(above, dtype=np.float64), where=np.asarray(below) != 0)


def _estimate(value: Values, drawn: Values) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(float(value), float(low), float(high))
