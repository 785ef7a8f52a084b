# SPDX-License-Identifier: GPL-2.0
"""The scheduling policies, one record each.  Other code asks a record for a fact, and does not compare names."""

from __future__ import annotations

from dataclasses import dataclass

from gpurt.enums import Policy


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """The properties of a policy.  No field has a default: a new policy has to decide each.

    ``name``: in files and on the command line.  ``number``: the hosts' number of the policy.  ``sentence``: its
    effect, for readers of reports.  ``published``: it repeats a paper, and no host has it.

    ``turns``: nobody owns the GPU, and all TSGs take turns.  ``units``: each task owns units of the GPU, in no order.
    ``jobs``: a thread of the host, which looks periodically, gives the GPU to whole jobs.  ``locks``: each segment as a
    whole holds one lock, and best effort may hold it while real-time tasks wait.  ``raises``: the thread that owns the
    GPU also has its CPU.  ``ranked``: GPU priorities decide who has the GPU.

    ``switch``, ``update``: bounds also charge a context switch, or a runlist update, by itself.  ``parts``: there are
    bounds for partitions that share CPUs.  ``workers``, ``processes``: the simulator knows tasks with workers, and
    processes with several threads that use the GPU.  ``yields``: segments may begin by yield (docs/readings/yield.md).
    """

    name: str
    number: Policy
    sentence: str
    published: bool
    turns: bool
    units: bool
    jobs: bool
    locks: bool
    raises: bool
    ranked: bool
    switch: bool
    update: bool
    parts: bool
    workers: bool
    processes: bool
    yields: bool

    @property
    def owned(self) -> bool:
        """Whether a client inside a segment may own the GPU alone until the segment ends."""
        return not (self.turns or self.units or self.jobs)


#: The policy of a taskset that names none: of all policies, it has the best bounds (docs/boosted-bounds.md).
DEFAULT_POLICY = "boosted"
#: The policy of a file whose tasks own units of the GPU and share its bus (docs/rtgpu.md).
FEDERATED = "federated"
_LISTED = (
    PolicyFacts(
        "timesliced", Policy.TIMESLICED, "All programs share the GPU in the driver's round robin.",
        published=False, turns=True, units=False, jobs=False, locks=False, raises=False, ranked=False,
        switch=True, update=False, parts=False, workers=False, processes=True, yields=False,
    ),
    PolicyFacts(
        "segment", Policy.SEGMENT, "The real-time client in a GPU segment with the highest priority has the GPU alone; "
        "if there is none, all others share it.",
        published=False, turns=False, units=False, jobs=False, locks=False, raises=False, ranked=True,
        switch=False, update=False, parts=True, workers=True, processes=True, yields=True,
    ),
    PolicyFacts(
        "job", Policy.JOB, "The most urgent real-time job that is ready has the GPU alone, for the whole job.",
        published=False, turns=False, units=False, jobs=True, locks=False, raises=False, ranked=True,
        switch=False, update=True, parts=False, workers=False, processes=False, yields=False,
    ),
    PolicyFacts(
        "lock-priority", Policy.LOCK_PRIORITY, "One lock around whole GPU segments, handed on by priority.",
        published=False, turns=False, units=False, jobs=False, locks=True, raises=False, ranked=True,
        switch=True, update=True, parts=False, workers=False, processes=False, yields=False,
    ),
    PolicyFacts(
        "lock-fifo", Policy.LOCK_FIFO, "One lock around whole GPU segments, handed on in order of arrival.",
        published=False, turns=False, units=False, jobs=False, locks=True, raises=False, ranked=False,
        switch=True, update=True, parts=False, workers=False, processes=False, yields=False,
    ),
    PolicyFacts(
        DEFAULT_POLICY, Policy.BOOSTED, "As segment, and the thread that owns the GPU also has its CPU.",
        published=False, turns=False, units=False, jobs=False, locks=False, raises=True, ranked=True,
        switch=True, update=True, parts=False, workers=True, processes=False, yields=False,
    ),
    PolicyFacts(
        FEDERATED, Policy.TIMESLICED, "Each task owns units of the GPU, and copies share one bus.",
        published=False, turns=False, units=True, jobs=False, locks=False, raises=False, ranked=False,
        switch=True, update=True, parts=False, workers=False, processes=False, yields=False,
    ),
    PolicyFacts(
        "mpcp", Policy.LOCK_PRIORITY, "MPCP: lock-priority, with boosting and without runlist updates.",
        published=True, turns=False, units=False, jobs=False, locks=True, raises=False, ranked=True,
        switch=True, update=True, parts=False, workers=False, processes=False, yields=False,
    ),
    PolicyFacts(
        "fmlp", Policy.LOCK_FIFO, "FMLP+: lock-fifo, with boosting and without runlist updates.",
        published=True, turns=False, units=False, jobs=False, locks=True, raises=False, ranked=False,
        switch=True, update=True, parts=False, workers=False, processes=False, yields=False,
    ),
)  # fmt: skip
POLICIES = {one.name: one for one in _LISTED}
