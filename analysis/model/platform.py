# SPDX-License-Identifier: GPL-2.0
"""The machine that tasks run on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction

from analysis.model.partition import Partition
from analysis.model.policy import DEFAULT_POLICY
from gpurt._gpurt import lib
from gpurt.enums import Begin
from gpurt.units import US

#: How GPU segments begin.  isolated: others are off before the segment's work executes; yield: others are taken off
#: during it; turns: as yield, and best-effort processes take turns before (readings: yield).
ISOLATED, YIELD, TURNS = Begin.ISOLATED.word, Begin.YIELD.word, Begin.TURNS.word


@dataclass(frozen=True, slots=True)
class Yield:
    """Facts that bounds need where segments begin by yield, times in ns (docs/readings/yield.md).

    ``slice``: the longest slice of a less urgent group, also of a new one.  ``groups``: the number of groups besides
    those of the file's real-time tasks; all that take turns count as one.  ``decision``: the longest time from a post,
    or from the instant at which a timer is due, until the host has decided, including its reads.  ``stall``: how long a
    driver call stops a process that the call does not concern.
    ``lazy``: how long a segment lasts before the host takes others off for it (GPURT_AGENT_LAZY_NS).  ``long``: the
    slice of the most urgent group (GPURT_SLICE_LONG_US).
    """

    slice: int
    groups: int
    decision: int
    stall: int
    lazy: int = lib.GPURT_AGENT_LAZY_NS
    long: int = lib.GPURT_SLICE_LONG_US * US

    @property
    def times(self) -> dict[str, int]:
        """Its times, ns."""
        return {key: value for key, value in asdict(self).items() if key != "groups"}


@dataclass(frozen=True, slots=True)
class Platform:
    """The machine: CPUs and one GPU that time-slices TSGs.  Costs are nanoseconds.

    ``alpha``: runlist update.  ``theta``: GPU context switch (definition 1).  ``epsilon`` = alpha + theta is the cost
    of one update in the analyses (ECRTS'24, definition 2).  ``time_slice``: L of the default driver, as set.
    ``stretch``: slices may last longer than set, as on a Tegra (model/driver.py).  ``policy``: how the GPU is
    scheduled, by the name of a policy that ships.  ``thread_cpu``: the CPU on which the host's thread of policy `job`
    stays; None: it moves.  ``theta_known``: False if only epsilon or only alpha is known; then ``alpha`` is that value,
    and ``theta`` 0.  ``sizes``: the numbers of compute units that a partition may have, ascending; empty: any number.
    ``cross_contention``: the factor that slows memory-intensive work down while another partition does such work.
    ``chip``: the GPU's name, for CU masks.  ``bus_chunk``: the longest part of a copy that nothing interrupts, ns,
    where tasks own units; 0: whole copies. ``region``: the longest work that a preemption of the GPU may have to wait
    for, ns.  0: none is longer than the copies and blocks that segments name. ``begin``: how GPU segments begin;
    ``yields``: what is known of begins by yield. ``cpu_latency``: the longest time from a wake-up of a thread until the
    thread executes on its CPU, ns.  ``woken``: the same by CPU, if the tasks' segments already contain their wake-ups
    (rta/wakeups.py).
    """

    cpus: int
    alpha: int = 0
    theta: int = 0
    time_slice: int = 1_024 * US
    copy_engine: bool = True
    compute_units: int = 0
    policy: str = DEFAULT_POLICY
    thread_cpu: int | None = None
    theta_known: bool = True
    sizes: tuple[int, ...] = ()
    cross_contention: Fraction = Fraction(1)
    chip: str | None = None
    bus_chunk: int = 0
    stretch: bool = False
    region: int = 0
    cpu_latency: int = 0
    woken: tuple[int, ...] = ()
    begin: str = ISOLATED
    yields: Yield | None = None

    @property
    def epsilon(self) -> int:
        """Runlist update cost epsilon = alpha + theta."""
        return self.alpha + self.theta

    def costs(self, part: Partition | None) -> tuple[int, int]:
        """Alpha and theta of updates in a partition, ns; None: of a GPU that is not partitioned.

        If a partition has only an alpha of its own, that alpha is its epsilon, and theta is 0.
        """
        if part is None or not part.own_costs:
            return self.alpha, self.theta
        return self.alpha if part.alpha is None else part.alpha, part.theta or 0

    @property
    def longest_switch(self) -> int:
        """The largest cost of a GPU context switch: theta, or epsilon if theta is unknown."""
        return self.theta if self.theta_known else self.epsilon
