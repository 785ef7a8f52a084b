# SPDX-License-Identifier: GPL-2.0
"""Files of profiles, for [[profile]] file = "..." of a taskset file, with the [[gpu]] tables that go with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.energy.fit import Fit, FitError
from analysis.model import Span
from gpurt.units import format_power, format_time


@dataclass(frozen=True)
class Timed:
    """The times of a kernel with 1, 2, ... units, and of its copies, ns; ``powers``: the GPU's with as many, uW."""

    times: Sequence[Span]
    copy_in: int = 0
    copy_out: int = 0
    powers: Sequence[int] = ()


@dataclass(frozen=True)
class Profiled:
    """A GPU's powers and its kernels' times.  ``limit``, ``granularity``: which numbers of units jobs may get."""

    name: str
    fit: Fit
    kernels: Mapping[str, Timed]
    clock: str = ""
    limit: int | None = None
    granularity: int = 1


def filled(name: str, spans: Mapping[int, Span], gpu: Profiled, margin: int = 0) -> tuple[Span, ...]:
    """The times on 1 to M units from those that were measured; worst cases get ``margin`` percent more, rounded up.

    A number of units that jobs never get has the longest time of all: nothing uses it.  Raises FitError if a number
    that jobs may get was not measured, for nothing says that more units are faster.  Raises FitError, too, if a number
    was measured that exceeds the GPU's units.
    """
    if (largest := max(spans)) > gpu.fit.units:
        raise FitError(f"{name} was measured on {largest} units, and the GPU has {gpu.fit.units}")
    most = gpu.limit or gpu.fit.units
    counts = range(gpu.granularity, most + 1, gpu.granularity)
    if missing := [str(units) for units in counts if units not in spans]:
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        raise FitError(f"{name} was not measured on {shown} units: measure it there, or state --granularity or --limit")
    longest = Span.exactly(max(span.worst for span in spans.values()))
    measured = [spans.get(units, longest) for units in range(1, gpu.fit.units + 1)]
    return tuple(Span(-(-span.worst * (100 + margin) // 100), span.best) for span in measured)


def check_written(fit: Fit) -> None:
    """Raises FitError if no taskset file takes the powers."""
    if fit.static.power <= 0 or fit.idle.power < 0 or any(one.power <= 0 for one in fit.kernels.values()):
        raise FitError(f"{(*fit.warnings, 'static power is 0')[0]}; --static states another one")


def gpu_table(gpu: Profiled) -> Iterator[str]:
    """The [[gpu]] table of a taskset file."""
    yield from ("[[gpu]]", f'name = "{gpu.name}"', f"compute_units = {gpu.fit.units}")
    if gpu.limit is not None:
        yield f"limit = {gpu.limit}"
    if gpu.granularity != 1:
        yield f"granularity = {gpu.granularity}"
    yield f'static_power = "{format_power(gpu.fit.static.power)}"'
    yield f'idle_power = "{format_power(gpu.fit.idle.power)}"'
    if gpu.clock:
        yield f'clock = "{gpu.clock}"'


def profiles(gpus: Sequence[Profiled], head: Iterable[str]) -> str:
    """The [[profile]] tables, after comments: ``head``, and the [[gpu]] tables."""
    text = [f"# {line}" for line in head]
    text.append("# Name this file in [[profile]] file = \"...\" of a taskset file with these GPUs:")
    for gpu in gpus:
        text += [f"# {line}" for line in gpu_table(gpu)]
    for name in dict.fromkeys(name for gpu in gpus for name in gpu.kernels):
        text += ["", "[[profile]]", f'name = "{name}"']
        for gpu in gpus:
            if name in gpu.kernels:
                text += _on(gpu, name, gpu.kernels[name])
    return "\n".join([*text, ""])


def _on(gpu: Profiled, name: str, timed: Timed) -> Iterator[str]:
    yield "  [[profile.on]]"
    yield f'  gpu = "{gpu.name}"'
    for key, time in (("copy_in", timed.copy_in), ("copy_out", timed.copy_out)):
        if time:
            yield f'  {key} = "{format_time(time)}"'
    yield "  kernel = ["
    for one in timed.times:
        yield f'    {{ worst = "{format_time(one.worst)}", best = "{format_time(one.best)}" }},'
    yield "  ]"
    yield f'  power = "{format_power(gpu.fit.kernels[name].power)}"'
    if timed.powers:
        yield "  measured_power = [" + ", ".join(f'"{format_power(one)}"' for one in timed.powers) + "]"
    if gpu.clock:
        yield f'  clock = "{gpu.clock}"'
