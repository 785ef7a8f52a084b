# SPDX-License-Identifier: GPL-2.0
"""The observations of each time of a job over all runs: the largest and smallest, where, and whether it still grows.

Observed times are no bound: a further run may take longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from gpurt.errors import UsageError
from gpurt.types import Document
from gpurt.units import US, format_time
from pycontrol.measure.conditions import Condition
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileResult
from pycontrol.measure.segments import MeasuredJob

#: The largest margin, percent.
MOST_MARGIN = 1000
#: Without a drift, run i sets a new record (largest time so far) with probability 1 / i (A. Renyi, 1962).  So the
#: second half of the runs has this many records with a probability below 1 / 30, for any number of runs
#: (tests/unit/test_records.py).
UNLIKELY_RECORDS = 3
#: In fewer runs the second half cannot have as many records.
FEWEST_RUNS = 5


def read_margin(text: str) -> Fraction:
    """A margin such as "20%" as a fraction.

    Raises:
        UsageError: the text is no margin.
    """
    number = text.strip().removesuffix("%")
    digits = number.replace(".", "", 1)
    if not text.strip().endswith("%") or not digits.isdecimal() or not digits.isascii() or len(digits) > 12:
        raise UsageError(f'--margin: expected a share such as "20%", not negative, got {text[:40]!r}')
    if (margin := Fraction(number) / 100) * 100 > MOST_MARGIN:
        raise UsageError(f"--margin: {text} is more than {MOST_MARGIN}%")
    return margin


def enlarged(time: int, margin: Fraction) -> int:
    """The time plus the margin, rounded up to a microsecond; ns."""
    return _up(Fraction(time) * (1 + margin) / US) * US


def reduced(time: int, margin: Fraction) -> int:
    """The time minus the margin, rounded down to a microsecond; ns: a best case must not be too long."""
    return int(Fraction(time) / (1 + margin) / US) * US


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """One time of a job: its CPU time, or the misc or gpu part of a segment; ns.

    ``worst`` includes runlist updates and context switches.  ``best`` excludes them; it is 0 if their time is
    unknown.  ``what``: "cpu", "misc" or "gpu"; ``segment``: the segment's number in the job, from 1; 0: the job's CPU
    time.  ``count``: how often it was measured.  ``maxima``: the largest of each run, in order.  ``run``: the first run
    with the largest time.  ``by_condition``: the largest under each condition.
    """

    what: str
    segment: int
    best: int
    worst: int
    count: int
    maxima: tuple[int, ...]
    run: Planned
    by_condition: dict[Condition, int]
    margin: Fraction

    @property
    def name(self) -> str:
        """The name of the time in messages."""
        return f"segment {self.segment}'s {self.what}" if self.segment else f"the job's {self.what}"

    @property
    def written(self) -> tuple[int, int]:
        """The worst and the best time for the file, with the margin; ns."""
        return enlarged(self.worst, self.margin), reduced(self.best, self.margin)

    @property
    def warnings(self) -> Iterator[str]:
        """Why more runs are needed; nothing if no reason is known."""
        split = len(self.maxima) // 2
        if len(self.maxima) < FEWEST_RUNS:
            return
        if (records := late_records(self.maxima)) >= UNLIKELY_RECORDS:
            yield (
                f"{self.name} still grows: the later half of the runs exceeded all before {records} times, which "
                "seldom happens if nothing drifts; find what does, or measure more runs"
            )
        covered = enlarged(max(self.maxima[:split]), self.margin)
        if covered < self.worst:
            yield (
                f"{self.name} still grows: the first {split} runs and the margin give {format_time(covered)}, and a "
                f"later run took {format_time(self.worst)}; measure more runs, or take a larger margin"
            )

    def as_dict(self) -> Document:
        """For JSON."""
        return {
            "position": self.segment, "part": self.what, "count": self.count, "minimum_ns": self.best,
            "maximum_ns": self.worst, "maxima_ns": self.maxima, "written_worst_ns": self.written[0],
            "written_best_ns": self.written[1],
            "maximum_run": self.run.number, "maximum_under": self.run.condition, "maximum_argument": self.run.given,
            "maximum_by_condition_ns": {one.value: time for one, time in self.by_condition.items()},
            "grows": list(self.warnings),
        }  # fmt: skip


def late_records(values: Sequence[int]) -> int:
    """How many values of the second half exceed all previous values; the first half is the shorter one."""
    split = len(values) // 2
    before = list(accumulate(values, max))
    return sum(value > most for value, most in zip(values[split:], before[split - 1 :], strict=False)) if split else 0


def summary_times(results: Sequence[ProfileResult], margin: Fraction) -> list[MeasuredTime]:
    """Every time of a job that was measured in all jobs, in the order of the file.

    Args:
        results: of runs whose jobs correspond, in the order in which they were made.
        margin: see MeasuredTime.written.
    """
    size = len(results[0].jobs.jobs[0].segments)
    found = [_time("cpu", 0, results, margin)]
    for at in range(1, size + 1):
        found += [_time("misc", at, results, margin), _time("gpu", at, results, margin)]
    return [one for one in found if one is not None]


def _measured(what: str, segment: int, job: MeasuredJob) -> tuple[int, int] | None:
    """The least and the greatest possible value of a job's time, ns; None if unknown."""
    if not segment:
        return None if job.cpu is None else (max(job.cpu - job.inside, 0), job.cpu)
    here = job.segments[segment - 1]
    if what == "gpu":
        return here.least[1], here.pure
    return None if here.misc is None else (here.least[0], here.misc)


def _time(what: str, segment: int, results: Sequence[ProfileResult], margin: Fraction) -> MeasuredTime | None:
    """One time's summary; None if some job lacks it."""
    rows = [[_measured(what, segment, job) for job in result.jobs.jobs] for result in results]
    known = [[one for one in row if one is not None] for row in rows]
    if known != rows:
        return None
    largest = [(result.planned, max(most for _, most in row)) for result, row in zip(results, known, strict=True)]
    maxima = tuple(most for _, most in largest)
    where, worst = max(largest, key=lambda one: one[1])
    by_condition: dict[Condition, int] = {}
    for planned, one in largest:
        by_condition[planned.condition] = max(one, by_condition.get(planned.condition, 0))
    return MeasuredTime(
        what, segment, min(least for row in known for least, _ in row), worst, sum(map(len, known)), maxima, where,
        by_condition, margin,
    )  # fmt: skip


def chances(runs: int) -> str:
    """The probability of larger times in further runs, in words."""
    few = "" if runs >= FEWEST_RUNS else f"; {FEWEST_RUNS} at least are needed to see whether they still grow"
    return (
        f"if runs are alike, another {runs} of them exceed each of these times with a chance of up to 1/2, the next "
        f"one of up to 1/{runs + 1}{few}"
    )
