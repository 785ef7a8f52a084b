# SPDX-License-Identifier: GPL-2.0
"""Runs a program that uses gpurt_measure.h: asks what it can measure, and has it measure."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.rtgpu.observed import Case, PartitionSizes
from gpurt.errors import RuntimeFailure
from gpurt.text import visible

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile("[1-9][0-9]{0,17}")
#: A larger number of units is not believed.
MOST_UNITS = 4096


@dataclass(frozen=True)
class Offer:
    """A measuring program's offer: the units of its GPU, how it confines kernels to them, and its kernels."""

    units: PartitionSizes
    mechanism: str
    kernels: tuple[str, ...]


def ask_program(command: Sequence[str], seconds: float) -> Offer:
    """The program's offer.  Raises RuntimeFailure if the program does not use gpurt_measure.h, or fails."""
    kernels: list[str] = []
    units, mechanism = None, ""
    for line in _output([*command, "list"], seconds).splitlines():
        key, *values = line.split()[:6] or [""]
        if key == "units" and len(values) == 4 and all(map(_NUMBER.fullmatch, values)):
            units = PartitionSizes(*map(int, values))
        elif key == "mechanism" and len(values) == 1 and _NAME.fullmatch(values[0]):
            mechanism = values[0]
        elif key == "kernel" and len(values) == 1 and _NAME.fullmatch(values[0]):
            kernels.append(values[0])
        else:
            raise _stranger(command, line)
    if units is None or not mechanism or not kernels or len(set(kernels)) < len(kernels) or not _sane(units):
        raise _stranger(command, "")
    return Offer(units, mechanism, tuple(kernels))


def measure(command: Sequence[str], case: Case, runs: int, seconds: float) -> list[int]:
    """The times of ``runs`` launches, ns.  Raises RuntimeFailure if the program fails, or answers something else."""
    words = ["run", case.kernel, str(case.units), str(runs), case.how.value, *([case.other] if case.other else [])]
    lines = _output([*command, *words], seconds).split()
    if wrong := next((line for line in lines if not _NUMBER.fullmatch(line)), None):
        raise RuntimeFailure(f"{visible(command[0])} {' '.join(words)}: {visible(wrong)} is no time of a kernel in ns")
    if len(lines) != runs:
        raise RuntimeFailure(f"{visible(command[0])} {' '.join(words)}: {len(lines)} times instead of {runs}")
    return list(map(int, lines))


def _sane(units: PartitionSizes) -> bool:
    whole = units.least % units.step == units.most % units.step == 0
    return whole and units.least <= units.most <= units.all <= MOST_UNITS


def _stranger(command: Sequence[str], line: str) -> RuntimeFailure:
    said = f"; it says {visible(line)}" if line else ""
    return RuntimeFailure(f"{visible(command[0])}: is no program of gpurt_measure.h{said}")


def _output(command: Sequence[str], seconds: float) -> str:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeFailure(f"{visible(' '.join(command))}: is not over after {seconds:g} s") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise RuntimeFailure(f"{visible(command[0])}: cannot be started: {why}") from None
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RuntimeFailure(f"{visible(' '.join(command))}: {visible(said)}")
    if done.stdout and not done.stdout.endswith(b"\n"):
        raise RuntimeFailure(f"{visible(' '.join(command))}: the last line of its output is cut")
    return done.stdout.decode("utf-8", "replace")
