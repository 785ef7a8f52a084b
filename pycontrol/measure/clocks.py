# SPDX-License-Identifier: GPL-2.0
"""The clocks that measured times are of, as a key of the task's entry: `clocks`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.taskset.clocks import shown
from pycontrol.machine.clocks import Clock, MachineClocks, told


def settings(seen: MachineClocks) -> list[str]:
    """The settings of clocks, in words: times that were measured under other ones have no common worst case."""
    return [*(f"{one.name} {one.text}" for one in (*seen.cpus, *seen.gpus)), f"power mode {seen.power_mode}"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Two looks at the machine.  ``nvidia``: nvidia-smi's words.  ``virtual``: the GPUs have no clock."""

    before: MachineClocks
    after: MachineClocks
    nvidia: Sequence[str] = ()
    virtual: bool = False

    @property
    def changed(self) -> bool:
        """Whether settings have changed meanwhile: nobody knows the settings of each run."""
        return settings(self.before) != settings(self.after)

    @property
    def temperature(self) -> int | None:
        """The higher one, degrees Celsius."""
        return max((one.temperature for one in (self.before, self.after) if one.temperature is not None), default=None)

    @property
    def _gpus(self) -> Sequence[Clock]:
        return () if self.virtual else self.after.gpus

    def key(self) -> list[str]:
        """The line of the entry, with clocks that are held and the only ones; none if nothing is known."""
        if self.changed:
            return []
        speeds, governors = {one.hertz for one in self.after.cpus}, {one.governor for one in self.after.cpus}
        values: list[tuple[str, int | str | None]] = [
            ("cpu", _only(speeds)), ("governor", _only(governors)), ("gpu", _only({one.hertz for one in self._gpus})),
            ("power_mode", self.after.power_mode),
        ]  # fmt: skip
        pairs = [f"{key} = {_quoted(value)}" for key, value in values if value is not None]
        pairs += [] if self.temperature is None else [f"temperature = {self.temperature}"]
        return [f"clocks = {{ {', '.join(pairs)} }}"] if pairs else []

    def text(self) -> str:
        """The clocks in words."""
        pieces = [*told([*self.after.cpus, *self._gpus]), *self.nvidia]
        pieces += [f"power mode {self.after.power_mode}"] if self.after.power_mode else []
        pieces += [] if self.temperature is None else [f"up to {self.temperature} degrees Celsius"]
        if self.changed:
            pieces.append("they have CHANGED during the measurement, from " + ", ".join(settings(self.before)))
        lacking = [what for what, there in (("the CPUs'", self.after.cpus), ("the GPU's", self._gpus or self.virtual))
                   if not there]  # fmt: skip
        return "; ".join([*pieces, *(f"{what} unknown, for nothing here tells it" for what in lacking)])

    def warnings(self) -> list[str]:
        """The reasons why the times may not all be of the same clock."""
        if self.changed:
            return ["the settings of clocks have changed during the measurement: measure again"]
        loose = [one for one in (*self.after.cpus, *self._gpus) if one.hertz is None]
        if not loose:
            return []
        return [f"{loose[0].name} is {loose[0].text}; times at a lower clock are longer (docs/manual/clocks.md)"]


def _only(values: set[int | None] | set[str | None]) -> int | str | None:
    return next(iter(values)) if len(values) == 1 else None


def _quoted(value: int | str) -> str:
    return f'"{shown(value)}"' if isinstance(value, int) else shown(value)
