# SPDX-License-Identifier: GPL-2.0
"""An objection: a reason why a host, or a run on it, is not the system that a taskset file describes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from gpurt.types import Document


class Defeats(str, Enum):
    """What an objection defeats: the bounds of the file, or a run of its tasks, which the host would refuse."""

    BOUNDS = "bounds"
    RUN = "run"


class Code(str, Enum):
    """The kinds of objections, in the order of output.  docs/output.md has the table."""

    UNKNOWN = "unknown"
    POLICY = "policy"
    BEGIN = "begin"
    UNITS = "units"
    POLL = "poll"
    THREAD = "thread"
    NO_EPSILON = "no-epsilon"
    NO_THETA = "no-theta"
    FEW_UPDATES = "few-updates"
    COSTS = "costs"
    MEASURED = "measured"
    CROSS = "cross"
    SHAPES = "shapes"
    PRIORITIES = "priorities"
    RAISES = "raises"
    GPUS = "gpus"
    ASLEEP = "asleep"
    ELSEWHERE = "elsewhere"
    PARTITIONS = "partitions"
    TIER = "tier"
    DRIVER = "driver"
    ISOLATION = "isolation"
    CLOCKS = "clocks"
    CPUS = "cpus"
    FIFO = "fifo"
    WAITING = "waiting"
    STRANGER = "stranger"
    CPU_STRANGER = "cpu-stranger"
    AMBIGUOUS = "ambiguous"
    EXEMPT = "exempt"
    GROUP = "group"
    FORM = "form"
    BARRED = "barred"
    DEMOTED = "demoted"
    GPU_PRIORITY = "gpu-priority"
    CPU_PRIORITY = "cpu-priority"


#: Most objections defeat the bounds.  If the host would refuse something, they also defeat the run.
BOUNDS: tuple[Defeats, ...] = (Defeats.BOUNDS,)
BOTH: tuple[Defeats, ...] = (Defeats.BOUNDS, Defeats.RUN)


@dataclass(frozen=True, slots=True)
class Objection:
    """``text``: a sentence.  ``cure``: what to do; empty: not known.  ``defeats``: empty for a mere note.
    """

    code: Code
    text: str
    cure: str = ""
    defeats: tuple[Defeats, ...] = BOUNDS

    def line(self) -> str:
        """The sentence and the cure."""
        return f"{self.text}; {self.cure}" if self.cure else self.text

    def data(self) -> Document:
        """The objection for JSON."""
        return {
            "code": self.code.value, "message": self.text, "cure": self.cure or None,
            "defeats": [one.value for one in self.defeats],
        }  # fmt: skip


def against(found: Iterable[Objection], what: Defeats = Defeats.BOUNDS) -> str:
    """The first objection that defeats ``what``, as a line; empty if none does."""
    return next((one.line() for one in found if what in one.defeats), "")


def lines(found: Iterable[Objection]) -> list[str]:
    """All objections, as remarks."""
    return [one.line() for one in found]


def data(found: Sequence[Objection]) -> list[Document]:
    """All objections for JSON: the key ``objections`` of every command that compares."""
    return [one.data() for one in found]
