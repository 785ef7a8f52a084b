# SPDX-License-Identifier: GPL-2.0
"""The demonstration's set-ups, and the results of each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.model import Waiting
from gpurt.files import written
from gpurt.text import in_lines
from gpurt.types import Document
from gpurt.units import exact_ms


@dataclass(frozen=True, slots=True)
class Approach:
    """A way to schedule the GPU.  ``test``: the analysis that bounds it.

    ``managed``: whether tasks begin and end their GPU segments.
    """

    name: str
    policy: str
    waiting: Waiting
    test: str
    managed: bool

    @property
    def title(self) -> str:
        """The policy, and whether waiting tasks suspend or spin."""
        return f"{self.policy}, {self.waiting.value}"


SETUPS = (
    Approach("timesliced", "timesliced", Waiting.SUSPEND, "tsg-rr-suspend", False),
    Approach("lock-fifo", "lock-fifo", Waiting.SUSPEND, "lock-fifo-suspend", True),
    Approach("segment-suspend", "segment", Waiting.SUSPEND, "gcaps-suspend", True),
    Approach("segment-busy", "segment", Waiting.BUSY, "gcaps-busy", True),
    Approach("job", "job", Waiting.BUSY, "thesis-kthread-busy", False),
    Approach("boosted", "boosted", Waiting.SUSPEND, "boosted-suspend", True),
)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The results of one task under one set-up.  Times are ns; None: no job was seen, or there is no bound.

    ``observed`` is the MORT on this machine, ``simulated`` the MORT in virtual time, ``bound`` the
    WCRT.  ``throughput`` is in jobs per second; None: this machine could not run the set-up.
    """

    observed: int | None
    jobs: int
    misses: int
    throughput: float | None
    simulated: int | None
    bound: int | None
    why_no_bound: str

    @property
    def above_bound(self) -> bool:
        """Whether a response time on this machine exceeded the bound.  It may: the bound is for another system."""
        return self.bound is not None and self.observed is not None and self.observed > self.bound

    @property
    def unsound(self) -> bool:
        """Whether a simulated response time exceeded the bound: an error in the analysis or the simulator."""
        return self.bound is not None and self.simulated is not None and self.simulated > self.bound


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The properties of a task that the table and the picture show."""

    name: str
    cpu: int
    priority: int
    period: int
    deadline: int

    @property
    def best_effort(self) -> bool:
        """Whether the task has no real-time priority."""
        return self.priority == 0


@dataclass(frozen=True)
class SetupResult:
    """A set-up and its outcome for each task, by name.  ``trace``: None if this machine could not run it."""

    setup: Approach
    tasks: dict[str, TaskResult]
    trace: Path | None


@dataclass(frozen=True)
class Results:
    """The whole demonstration.

    ``comparable``: whether this machine is as the file says, so that the bounds apply to its run.  ``notes``: the
    circumstances of the run.  ``ended``: why it ended before all set-ups had run; None: it did not.
    """

    taskset: str
    tasks: tuple[TaskInfo, ...]
    setups: tuple[SetupResult, ...]
    seconds: float
    offsets: int
    comparable: bool
    notes: tuple[str, ...]
    ended: BaseException | None = None

    @property
    def unsound(self) -> list[str]:
        """Every bound that virtual time exceeded, in words."""
        return [
            f"{name} under {one.setup.name}: simulated {exact_ms(result.simulated or 0)}, "
            f"bound {exact_ms(result.bound or 0)}"
            for one in self.setups
            for name, result in one.tasks.items()
            if result.unsound
        ]

    def data(self) -> Document:
        """The results for JSON; times are ns."""
        return {
            "run_ns": round(self.seconds * 1e9),
            "runs": self.offsets,
            "comparable": self.comparable,
            "setups": {
                one.setup.name: {
                    "policy": one.setup.policy, "waiting": one.setup.waiting.value, "test": one.setup.test,
                    "trace": str(one.trace) if one.trace else None,
                    "tasks": {task.name: _data(task, one.tasks[task.name]) for task in self.tasks},
                }
                for one in self.setups
            },
            "notes": list(self.notes),
        }  # fmt: skip

    def save(self, path: Path) -> None:
        """Writes everything as JSON; times are ns.

        Raises:
            FileError: the file cannot be written.
        """
        with written(path) as file:
            file.write(in_lines(self.data()).encode() + b"\n")


def _data(task: TaskInfo, result: TaskResult) -> Document:
    return {
        "priority": task.priority, "best_effort": task.best_effort, "deadline_ns": task.deadline,
        "wcrt_ns": result.bound, "virtual_mort_ns": result.simulated, "mort_ns": result.observed, "jobs": result.jobs,
        "misses": result.misses, "jobs_per_second": result.throughput,
    }  # fmt: skip
