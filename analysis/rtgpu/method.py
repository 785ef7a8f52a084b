# SPDX-License-Identifier: GPL-2.0
"""The tests of partitioned units: the bound that each uses, and the response of one task under it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.model import Task
from analysis.rta.result import Term, TermKind
from analysis.rtgpu import stgm
from analysis.rtgpu.bounds import HOLISTIC, PRINTED, Above, Responses, above, responses
from analysis.rtgpu.chain import Chain, Need, chain, exact_chain, merged


@dataclass(frozen=True)
class Method:
    """A test.

    ``forms``: of R1 to R4, if tasks suspend; empty if they wait busily: our bound for STGM, or the ``published`` one.
    ``tight``: a known bound of a higher task replaces its deadline.  ``merges``: copies and kernels between CPU
    segments are one request to one resource.  ``refined``: tasks that never suspend carry nothing in, and a copy only
    waits for work before its begin.  ``exact``: lower bounds are taken as equal to upper ones.
    """

    name: str
    forms: tuple[str, ...] = HOLISTIC
    tight: bool = False
    merges: bool = False
    exact: bool = False
    refined: bool = False
    published: bool = False

    @property
    def exact_least(self) -> bool:
        """Whether the least allocation by priority is valid if any is: a task's units only hurt tasks below it."""
        return bool(self.forms) and not self.tight and not self.merges

    @property
    def looks_down(self) -> bool:
        """Whether the bound of a task depends on the numbers of units of the tasks below it."""
        return self.merges

    def chain(self, task: Task, units: int) -> Chain:
        """The task on ``units`` units, as this test sees it.  Raises ValueError if it lacks units."""
        found = chain(exact_chain(task) if self.exact else task, units)
        return merged(found) if self.merges else found


RTGPU = Method("rtgpu", refined=True)
RTGPU_TIGHT = Method("rtgpu-tight", tight=True, refined=True)
STGM = Method("stgm", ())
METHODS = {method.name: method for method in (RTGPU, RTGPU_TIGHT, STGM)}


@dataclass(frozen=True)
class Response:
    """A method's response for one task: a bound, ns, or, if not ``solved``, a value beyond the deadline.

    ``rests_on``: the tasks that must have a bound, too.  ``form``: which of R1 to R4 it is; "" for STGM.
    """

    value: int
    solved: bool
    rests_on: frozenset[str]
    terms: Callable[[], tuple[Term, ...]] = field(repr=False, compare=False)
    form: str = ""


@dataclass(frozen=True)
class Around:
    """The other tasks: those of higher or equal priority, the lower and best-effort ones, and what is known.

    ``known``: bounds of tasks of higher priority, ns.  ``chunk``: the longest part of a copy that nothing interrupts,
    ns; 0: a whole copy.
    """

    higher: Sequence[Chain]
    lower: Sequence[Chain]
    known: Mapping[str, int] = field(default_factory=dict)
    chunk: int = 0

    @property
    def blocking(self) -> int:
        """B: the longest stretch for which a copy of a lower task holds the bus, ns."""
        longest = max((length for low in self.lower for length in low.lengths(Need.BUS)), default=0)
        return min(longest, self.chunk) if self.chunk else longest


def respond(method: Method, found: Chain, around: Around) -> Response:
    """The response of one task among the others."""
    if method.forms:
        return _suspended(method, found, around)
    return _published(found, around) if method.published else _busy(found, around)


def _suspended(method: Method, found: Chain, around: Around) -> Response:
    ends = around.known if method.tight else {}
    # Nothing interrupts a merged chain, which is one request; so chunks of copies do not shorten it.
    blocking = Around(around.higher, around.lower).blocking if method.merges else around.blocking
    others = above(found, around.higher, ends, (Need.CPU,) if method.refined else ())
    whole = method.refined and (method.merges or not around.chunk)
    all_forms = responses(found, others, blocking, method.forms, whole=whole)
    if method.refined:
        all_forms = _sooner(all_forms, _alone_on_bus(method, found, around, others, blocking, whole))
    best = all_forms.best
    rests_on = frozenset(
        name
        for need, names in others.names.items()
        for name, work in zip(names, others.workloads[need], strict=True)
        if work.lengths and found.lengths(need)
    )
    return Response(best.value, best.solved, rests_on, lambda: all_forms.terms(best), best.name)


def _alone_on_bus(
    method: Method, found: Chain, around: Around, carried: Above, blocking: int, whole: bool
) -> Responses | None:  # fmt: skip
    """The responses if a copy's bus window may begin before its request (readings: RTGPU, nothing carried in).

    None if this is never better than ``carried``, in which the same tasks may carry work in.
    """
    others = above(found, around.higher, around.known if method.tight else {}, (Need.CPU, Need.BUS))
    if others == carried:
        return None
    own = max(found.lengths(Need.BUS), default=0)
    chunk = around.chunk if around.chunk and not method.merges else own
    return responses(found, others, max(blocking, min(own, chunk)), PRINTED, whole=whole)


def _sooner(one: Responses, other: Responses | None) -> Responses:
    """The responses with the better best form; of equals the first."""
    if other is None:
        return one
    first, second = one.best, other.best
    return other if (not second.solved, second.value) < (not first.solved, first.value) else one


def _busy(found: Chain, around: Around) -> Response:
    return _spinning(found, stgm.busy(found, around.higher, around.lower, around.blocking))


def _published(found: Chain, around: Around) -> Response:
    """The published bound: each copy waits as in equation 5, also the copies of preempting tasks."""
    levels = [*around.higher, found]
    copies = {}
    for each in levels:
        higher = [h for h in around.higher if h is not each and h.task.priority >= each.task.priority]
        lower = [low for low in (*levels, *around.lower) if low.task.priority < each.task.priority]
        waits = stgm.waits(each, above(each, higher, {}), Around((), lower, chunk=around.chunk).blocking)
        if waits is None and (each is found or each.task.cpu == found.task.cpu):
            needs = frozenset() if each is found else frozenset({each.name})
            return Response(found.task.deadline + 1, False, needs, tuple)
        copies[each.name] = waits or 0
    local = [(h, copies[h.name]) for h in around.higher if h.task.cpu == found.task.cpu]
    remote = frozenset(h.name for h in around.higher if h.total(Need.BUS) and found.total(Need.BUS))
    spins = stgm.published(found, local, copies[found.name])
    answer = _spinning(found, spins)
    return Response(answer.value, answer.solved, answer.rests_on | remote, answer.terms)


def _spinning(found: Chain, spins: stgm.Busy) -> Response:
    value, solved = stgm.solve_stgm(spins, found.task.deadline)

    def terms() -> tuple[Term, ...]:
        window = min(value, found.task.deadline) + spins.closed
        listed = [Term(demand.kind, demand.source, demand.at(window), demand.lemma) for demand in spins.demands]
        listed.append(Term(TermKind.BLOCKING, None, spins.lower(window), stgm.STGM_OWN))
        return tuple(term for term in listed if term.amount)

    return Response(value, solved, spins.rests_on, terms)
