# SPDX-License-Identifier: GPL-2.0
"""Responses of tasks that suspend while they copy and while their kernels execute.

RTGPU's lemmas 5.3 and 5.5, theorem 5.6 and corollary 5.6.1, which extend lemmas 2.2 and 2.3.
R1 adds the responses of segments; R2 treats the whole job on its CPU at once.  R3 and R4 also treat it so on the bus;
they are ours (docs/readings/rtgpu.md, "RTGPU, holistic bounds").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.rta.result import Term, TermKind
from analysis.rtgpu.chain import Chain, Need
from analysis.rtgpu.workload import Window, Workload, fresh, least_begin, least_window, units_workload

PRINTED = ("R1", "R2")
HOLISTIC = ("R1", "R2", "R3", "R4")

SEGMENT = {Need.CPU: "RTGPU lemma 5.5", Need.BUS: "RTGPU lemma 5.3"}
JOB = {Need.CPU: "RTGPU theorem 5.6", Need.BUS: "readings: RTGPU, holistic bounds"}
KERNEL = "RTGPU lemma 5.1"
KINDS = {Need.CPU: TermKind.CPU_PREEMPTION, Need.BUS: TermKind.BUS}


@dataclass(frozen=True)
class Above:
    """The work of tasks of higher or equal priority: on the task's CPU, and on the bus."""

    names: Mapping[Need, tuple[str, ...]]
    workloads: Mapping[Need, tuple[Workload, ...]]


@dataclass(frozen=True)
class BoundForm:
    """One of R1 to R4: its value, ns, and terms.  ``solved``: False if ``value`` is only beyond the deadline."""

    name: str
    value: int
    solved: bool
    windows: tuple[tuple[Need, Window, str], ...] = field(repr=False)


@dataclass(frozen=True)
class Responses:
    """The bounds of one task.  ``segments``: CR and MR of each segment, in order, by resource."""

    chain: Chain
    above: Above
    blocking: int
    segments: Mapping[Need, tuple[Window, ...]]
    forms: tuple[BoundForm, ...]

    @property
    def best(self) -> BoundForm:
        """The form with the least value, of equals the first; if none is solved, the form with the least excess."""
        return min(self.forms, key=lambda form: (not form.solved, form.value))

    def terms(self, form: BoundForm) -> tuple[Term, ...]:
        """The parts of a form; if the form is solved, they add up to its value."""
        steps = self.chain.steps
        own = sum(step.plain for step in steps)
        grown = sum(step.worst for step in steps) - own
        copies = len(self.chain.lengths(Need.BUS))
        listed = [
            Term(TermKind.OWN, None, own, KERNEL), Term(TermKind.INTERLEAVING, None, grown, KERNEL),
            Term(TermKind.BLOCKING, None, copies * self.blocking, SEGMENT[Need.BUS]),
        ]  # fmt: skip
        for need in (Need.BUS, Need.CPU):
            for name, other in zip(self.above.names[need], self.above.workloads[need], strict=True):
                parts = [(other.at(window.others)[0], lemma) for on, window, lemma in form.windows if on is need]
                if parts:
                    listed.append(Term(KINDS[need], name, sum(amount for amount, _ in parts), parts[0][1]))
        return tuple(term for term in listed if term.amount)


def above(chain: Chain, higher: Sequence[Chain], ends: Mapping[str, int], alone: Sequence[Need] = ()) -> Above:
    """The workloads of these tasks.  ``ends``: by task, when a job is over, ns after its release; else its deadline.

    ``alone``: on these resources, a task of higher priority that needs no other resource carries nothing into a window.
    """
    local = [h for h in higher if h.task.cpu == chain.task.cpu]
    users = {Need.CPU: local, Need.BUS: list(higher)}

    def one(h: Chain, need: Need) -> Workload:
        urgent = need in alone and h.task.priority > chain.task.priority
        return (fresh(h, need) if urgent else None) or units_workload(h, need, ends.get(h.name, h.task.deadline))

    return Above(
        {need: tuple(h.name for h in tasks) for need, tasks in users.items()},
        {need: tuple(one(h, need) for h in tasks) for need, tasks in users.items()},
    )


def responses(
    chain: Chain, others: Above, blocking: int, names: Sequence[str] = HOLISTIC, *, whole: bool = False
) -> Responses:
    """The forms with these names.  ``blocking``: the longest stretch of a lower task's copy, ns (B).

    ``whole``: nothing interrupts a copy, so that only work before its begin can delay it.
    """
    limit = chain.task.deadline
    cpu, bus = others.workloads[Need.CPU], others.workloads[Need.BUS]
    segments = {
        Need.CPU: tuple(least_window(length, cpu, limit) for length in chain.lengths(Need.CPU)),
        Need.BUS: tuple(
            least_begin(blocking, length, bus, limit) if whole else least_window(length + blocking, bus, limit)
            for length in chain.lengths(Need.BUS)
        ),
    }
    found = Responses(chain, others, blocking, segments, ())
    forms = tuple(_form(found, name) for name in names)
    return Responses(chain, others, blocking, segments, forms)


#: By form: the resources on which it treats the whole job at once; on the others it adds up segments.
_WHOLE = {"R1": (), "R2": (Need.CPU,), "R3": (Need.BUS,), "R4": (Need.BUS, Need.CPU)}


def _form(found: Responses, name: str) -> BoundForm:
    """x = constant + W(x) on each resource on which the form treats the job as a whole."""
    chain, whole = found.chain, _WHOLE[name]
    constant = chain.total(Need.UNITS)
    windows: list[tuple[Need, Window, str]] = []
    for need in (Need.BUS, Need.CPU):
        if need in whole:
            constant += chain.total(need)
            constant += found.blocking * len(chain.lengths(need)) if need is Need.BUS else 0
        else:
            constant += sum(window.reached for window in found.segments[need])
            windows += ((need, window, SEGMENT[need]) for window in found.segments[need])
    solved = all(window.solved for _, window, _ in windows)
    workloads = tuple(other for need in whole for other in found.above.workloads[need])
    limit = chain.task.deadline
    if not whole:
        return BoundForm(name, constant, solved and constant <= limit, tuple(windows))
    window = least_window(constant, workloads, limit)
    windows += ((need, window, JOB[need]) for need in whole)
    return BoundForm(name, window.reached, solved and window.solved, tuple(windows))
