# SPDX-License-Identifier: GPL-2.0
"""The turns of a measurement, in an order by chance: a drift, as of temperature, is no function of the units then."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpurt.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_COUNT = re.compile("[1-9][0-9]{0,3}")
#: The words that stand for the kernel and its units in the program's arguments.
KERNEL, UNITS = "{kernel}", "{units}"


@dataclass(frozen=True)
class Turn:
    """A round: a program, and what it does.  ``kernel`` and ``units`` are empty for the idle GPU; "a+b" is on "4+2"."""

    command: tuple[str, ...]
    kernel: str = ""
    units: str = ""

    @property
    def about(self) -> str:
        """The kernel and the units that are measured, for people."""
        return f"{self.kernel} on {self.units} units" if self.kernel else "no kernel"


def turns(command: Sequence[str], kernels: Sequence[str], units: str | None, rounds: int) -> list[Turn]:
    """Every kernel on every number of units, so many rounds of each, shuffled.

    ``units``: numbers joined by ",".  {kernel} and {units} in the command become those of the round.

    Raises UsageError if these are not names and numbers, or if the program cannot know which ones are meant.
    """
    if bool(kernels) != (units is not None):
        raise UsageError("--kernel and --units go together")
    if units is None:
        return [Turn(tuple(command))] * rounds
    counts = units.split(",")
    if not all(NAME.fullmatch(one) for kernel in kernels for one in kernel.split("+")):
        raise UsageError("--kernel: expected names of letters, digits, '.', '_' and '-', joined by '+'")
    for kernel in kernels:
        for count in counts:
            each = count.split("+")
            if len(each) != len(kernel.split("+")) or not all(_COUNT.fullmatch(one) for one in each):
                raise UsageError("--units: expected a number for each kernel, joined by '+'; and several joined by ','")
    for what, word, several in (("--kernel", KERNEL, kernels), ("--units", UNITS, counts)):
        if len(set(several)) < len(several):
            raise UsageError(f"{what}: names something twice; --rounds says how often to measure it")
        if len(several) > 1 and not any(word in one for one in command):
            raise UsageError(f"{what}: several, but the program does not get which: write {word} in its arguments")
    pairs = [(kernel, count) for kernel in kernels for count in counts]
    found = [
        Turn(tuple(word.replace(KERNEL, kernel).replace(UNITS, count) for word in command), kernel, count)
        for kernel, count in pairs
    ] * rounds
    if len(pairs) > 1:
        random.Random(0).shuffle(found)
    return found
