# SPDX-License-Identifier: GPL-2.0
"""Fits the powers of the model to measurements: P = P^s + sum m_j pd_j + (M - sum m_j) p (sBEET-mg, equation 3.2).

P^s comes from the idle GPU.  It cannot come from measurements of kernels: adding c to P^s, and taking c / M from p and
from every pd, changes no prediction.  Powers go in and out as integer microwatts; the fit itself is in floating point
and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from analysis.energy.measured import MeasuredPower
from gpurt.errors import GpurtError

Array = np.ndarray[Any, np.dtype[np.float64]]
#: Each pd and p, and their errors.
Solved: TypeAlias = "tuple[list[float], list[float | None]]"
#: Takes the measurements of single kernels, the kernels' names, M and P^s.
Solver: TypeAlias = "Callable[[Sequence[MeasuredPower], Sequence[str], int, int], Solved]"


class FitError(GpurtError):
    """The measurements do not determine the powers; the text says which, and what to measure."""

    exit_code = 1


@dataclass(frozen=True)
class Estimate:
    """A power and its standard error, uW; None if the measurements leave no freedom to tell it."""

    power: int
    error: int | None


@dataclass(frozen=True)
class Fit:
    """Powers of a GPU with ``units``, and how well they explain the measurements.

    ``r2`` and ``mape`` (percent of the measured power) are of what was fitted, ``pairs_mape`` of kernels side by side,
    which were not.  ``above``: how much a measurement exceeds the model at most, uW, and ``where``.
    """

    units: int
    static: Estimate
    idle: Estimate
    kernels: dict[str, Estimate]
    fitted: int
    r2: float | None
    mape: float
    worst: int
    worst_where: str
    above: int
    above_where: str
    pairs: int
    pairs_mape: float | None
    warnings: tuple[str, ...]

    def predict(self, one: MeasuredPower) -> int:
        """The model's power, uW; P^s alone if no kernel executes, for then the units are gated."""
        if not one.kernels:
            return self.static.power
        active = sum(units * self.kernels[name].power for name, units in one.kernels)
        return self.static.power + active + (self.units - one.busy) * self.idle.power


def fit(
    measured: Sequence[MeasuredPower], units: int, static: int | None = None, solve: Solver | None = None
) -> Fit:  # fmt: skip
    """Fits the powers; ``static``: P^s, uW, if it is known, else it is the mean of the measurements without a kernel.

    ``solve``: how; by weighted least squares unless given.

    Raises:
        FitError: the measurements do not determine the powers.
    """
    base = _static(measured, static)
    single = [one for one in measured if len(one.kernels) == 1]
    pairs = [one for one in measured if len(one.kernels) > 1]
    if not single:
        raise FitError("no measurement of a single kernel: measure each alone, on several numbers of units")
    names = list(dict.fromkeys(one.kernels[0][0] for one in single))
    if unknown := [name for one in pairs for name, _ in one.kernels if name not in names]:
        raise FitError(f"{unknown[0]} was measured only beside other kernels: measure it alone, too")
    powers, errors = (solve or least_squares)(single, names, units, base.power)
    estimates = [_estimate(power, error, base.error, units) for power, error in zip(powers, errors, strict=True)]
    return _judged(units, base, dict(zip(names, estimates, strict=False)), estimates[-1], single, pairs)


def _static(measured: Sequence[MeasuredPower], given: int | None) -> Estimate:
    """P^s with the standard error of the mean."""
    idle = [one.power for one in measured if not one.kernels]
    if given is not None:
        return Estimate(given, None)
    if not idle:
        raise FitError(
            "static power is unknown, and kernels cannot tell it (a change of it hides in the other powers): measure "
            "the idle GPU (a line without a kernel), or give --static"
        )
    error = float(np.std(idle, ddof=1)) / len(idle) ** 0.5 if len(idle) > 1 else None
    return Estimate(round(sum(idle) / len(idle)), None if error is None else round(error))


def _estimate(power: float, error: float | None, base_error: int | None, units: int) -> Estimate:
    """An error of P^s moves p and every pd by its M-th part."""
    if error is None:
        return Estimate(round(power), None)
    return Estimate(round(power), round(float(np.hypot(error, (base_error or 0) / units))))


def least_squares(
    single: Sequence[MeasuredPower], names: Sequence[str], units: int, static: int
) -> Solved:
    """Weighted least squares; the weights are the errors' if every measurement has one, else equal."""
    design = np.zeros((len(single), len(names) + 1))
    for row, one in enumerate(single):
        ((name, count),) = one.kernels
        design[row, names.index(name)], design[row, -1] = count, units - count
    _check_rank(design, names, single, units)
    weights = np.sqrt(_weights(single))
    scaled, target = design * weights[:, None], np.array([float(one.power - static) for one in single]) * weights
    solution = np.linalg.lstsq(scaled, target, rcond=None)[0]
    free = len(single) - len(names) - 1
    if not free:
        return list(map(float, solution)), [None] * (len(names) + 1)
    variance = float(np.sum((scaled @ solution - target) ** 2)) / free
    try:
        covariance = np.linalg.inv(scaled.T @ scaled) * variance
    except np.linalg.LinAlgError:
        raise FitError("error_uw differs so much between lines that only some of them count") from None
    return list(map(float, solution)), [float(error) for error in np.sqrt(np.diag(covariance))]


def _weights(single: Sequence[MeasuredPower]) -> Array:
    """Inverse squares of the errors, relative to their mean so that numbers stay small."""
    errors = [one.error for one in single if one.error]
    if len(errors) < len(single):
        return np.ones(len(single))
    return np.asarray(np.mean(errors) / np.array(errors, dtype=float)) ** 2


def _check_rank(design: Array, names: Sequence[str], single: Sequence[MeasuredPower], units: int) -> None:
    """Raises FitError with the reason if the powers are not determined."""
    if not design[:, -1].any():
        raise FitError(
            f"idle power is unknown: every kernel was measured on all {units} units only; measure some on fewer"
        )
    if np.linalg.matrix_rank(design) == design.shape[1]:
        return
    counts = {name: {one.kernels[0][1] for one in single if one.kernels[0][0] == name} for name in names}
    partial = [name for name in names if counts[name] != {units}]
    raise FitError(
        f"idle power and that of {' and '.join(partial)} cannot be told apart: measure one of them on other numbers of "
        "units as well"
    )


def _judged(
    units: int, static: Estimate, kernels: dict[str, Estimate], idle: Estimate,
    single: Sequence[MeasuredPower], pairs: Sequence[MeasuredPower],
) -> Fit:  # fmt: skip
    """The fit with its residuals."""
    bare = Fit(units, static, idle, kernels, len(single), None, 0, 0, "", 0, "", len(pairs), None, ())
    every = [*single, *pairs]
    rests = [one.power - bare.predict(one) for one in every]
    worst = max(range(len(every)), key=lambda i: abs(rests[i]))
    above = max(range(len(every)), key=lambda i: rests[i])
    return Fit(
        units, static, idle, kernels, len(single), _r2(single, rests[: len(single)]),
        _mape(single, rests[: len(single)]) or 0.0, rests[worst], every[worst].where, max(rests[above], 0),
        every[above].where if rests[above] > 0 else "", len(pairs), _mape(pairs, rests[len(single) :]),
        tuple(_warnings(static, idle, kernels)),
    )  # fmt: skip


def _r2(measured: Sequence[MeasuredPower], rests: Sequence[int]) -> float | None:
    """The share of the variance that the model explains; None if there is no variance."""
    powers = np.array([one.power for one in measured], dtype=float)
    total = float(np.sum((powers - powers.mean()) ** 2))
    return 1 - float(np.sum(np.array(rests, dtype=float) ** 2)) / total if total else None


def _mape(measured: Sequence[MeasuredPower], rests: Sequence[int]) -> float | None:
    shares = [abs(rest) / one.power for one, rest in zip(measured, rests, strict=True) if one.power]
    return 100 * sum(shares) / len(shares) if shares else None


def _warnings(static: Estimate, idle: Estimate, kernels: dict[str, Estimate]) -> Iterator[str]:
    for what, power in [("static", static.power), ("idle", idle.power)]:
        if power < 0:
            yield f"{what} power is negative, which no GPU has: is the static power right?"
    for name, one in kernels.items():
        if one.power <= 0:
            yield f"{name}: its power is not positive, which no kernel has"
        elif one.power < idle.power:
            yield f"{name}: an active unit draws less than an idle one: is the static power right?"
