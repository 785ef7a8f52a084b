# SPDX-License-Identifier: GPL-2.0
"""The tables of a taskset file that energy commands read: [[gpu]], [[profile]] and [[task]] (docs/energy.md).

``load_system`` reports every mistake at once, each with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.model.energy import PoweredKernel, Profile, SpatialGpu, SpatialSystem, SpatialTask
from analysis.taskset import spatial
from analysis.taskset.chains import LIMITS
from analysis.taskset.file import TABLES
from analysis.taskset.lines import Path as Where
from analysis.taskset.profiles import MISSING_PROFILES, SpatialReader
from analysis.taskset.schema import quoted
from analysis.taskset.text import document_of, read_text
from gpurt.errors import TasksetError
from gpurt.types import Document


@dataclass(frozen=True)
class EnergyFile:
    """An energy file without mistakes; ``profiles`` by name, ``notes`` for the user."""

    path: Path
    system: SpatialSystem
    profiles: dict[str, Profile]
    notes: tuple[str, ...] = ()


def load_system(path: Path | str, ignore_cpu: bool = False, planned: bool = False) -> EnergyFile:
    """Reads and checks a file; ``ignore_cpu``: CPU segments are left out, with a note.

    ``planned``: keys that make jobs late, unknown to plans, are mistakes.  A host decides when jobs come.

    Raises TasksetError with every mistake, FileError if a file cannot be read.
    """
    path = Path(path)
    document, report = document_of(path, read_text(path))
    reader = _Reader(path, document, report, ignore_cpu)
    gpus = reader.gpus("the GPUs that jobs run on")
    profiles = reader.profiles(gpus, MISSING_PROFILES)
    # a file without profiles is for other commands; each of its segments would be reported
    tasks = reader.tasks(gpus, profiles) if document.get("profile") else []
    reader.unknown_tables()
    if planned:
        reader.unplanned()
    if report.problems:
        raise TasksetError(path, report.problems)
    return EnergyFile(path, SpatialSystem(tuple(gpus), tuple(tasks)), profiles, tuple(reader.notes))


@dataclass
class _Reader(SpatialReader):
    ignore_cpu: bool

    def unknown_tables(self) -> None:
        for key in self.document:
            if key not in TABLES:
                self.report.add((key,), f"unknown {quoted(key)}; a taskset file has {', '.join(TABLES)}")
        if "platform" in self.document:
            spatial.MACHINE.read(self.document["platform"], ("platform",), self.report)

    def unplanned(self) -> None:
        """Reports keys that would make jobs later than any energy plan has them."""
        for where, why in _unplanned(self.document):
            self.report.add(where, f"{where[-1]}: {why}, and no plan of energy knows that; leave it out")

    def tasks(self, gpus: list[SpatialGpu], profiles: dict[str, Profile]) -> list[SpatialTask]:
        found = []
        for where, values in self.tables("task", spatial.TASKS, "what is to run"):
            if values is None:
                continue
            period: int = values["period"]
            deadline = values.get("deadline", period)
            if deadline > period:
                self.report.add((*where, "deadline"), "deadline: must be at most the period")
            profile = self._profile(where, values, profiles)
            if self.knows_gpu(values.get("gpu"), where) and profile is not None:
                kernels = self._placed(where, values, gpus, profile)
                offset = values.get("offset", 0)
                found.append(SpatialTask(values["name"], period, deadline, kernels, offset, profile.name))
        return found

    def _profile(self, where: Where, values: Document, profiles: dict[str, Profile]) -> Profile | None:
        """The profile of the task's one kernel."""
        names, others = [], 0
        for index, segment in enumerate(values["segments"]):
            if set(segment) == {"profile"}:
                names.append((index, segment["profile"]))
            elif set(segment) == {"cpu"} and self.ignore_cpu:
                others += 1
            else:
                text = 'here a segment is { profile = "..." }; --ignore-cpu leaves { cpu = "..." } out'
                self.report.add((*where, "segments", index), text)
                return None
        if others:
            self.notes.append(f"{values['name']}: its CPU segments are left out")
        if len(names) != 1:
            self.report.add((*where, "segments"), f"segments: a job is one kernel, got {len(names)}")
            return None
        index, name = names[0]
        self.check_profile(name, profiles, (*where, "segments", index))
        return profiles.get(name)

    def _placed(
        self, where: Where, values: Document, gpus: list[SpatialGpu], profile: Profile
    ) -> tuple[PoweredKernel | None, ...]:
        """The task's kernel on each GPU that it may use."""
        pinned, name = values.get("gpu"), values["name"]
        kernels = tuple(profile.on.get(gpu.kind) if pinned in (None, gpu.name) else None for gpu in gpus)
        if not any(kernels) and not self.lacks_gpu:
            place = f"GPU {quoted(pinned)}" if pinned else "any GPU here"
            self.report.add((*where, "segments"), f"segments: {profile.name} has no [[profile.on]] for {place}")
        lacking = [gpu.name for gpu, kernel in zip(gpus, kernels, strict=True) if kernel is None]
        if lacking and not pinned:
            self.notes.append(f"{name}: {profile.name} has no profile for {', '.join(lacking)}: it never goes there")
        return kernels


#: Keys of a [[task]] that no plan supports, and their meanings.
_UNPLANNED = {
    "jitter": "a job may be released later than it arrives", "max_period": "arrivals may be further apart than period",
    "conflict": "another task slows it down", "thread": "its thread does one job at a time",
    "partition": "it may use a part of the GPU only",
}  # fmt: skip


def _unplanned(document: Document) -> Iterator[tuple[Where, str]]:
    """The places of keys that no plan supports."""
    for at, task in enumerate(_tables(document, "task")):
        for key, why in _UNPLANNED.items():
            if key in task and task[key] not in (1, "0ns", "0us", "0ms", "0s"):
                yield ("task", at, key), why
    for at, chain in enumerate(_tables(document, "chain")):
        yield from ((("chain", at, key), "it limits a chain") for key in LIMITS if key in chain)
        if isinstance(links := chain.get("links"), list) and "triggered" in links:
            yield ("chain", at, "links"), "the end of a job releases another one"
    if document.get("resource"):
        yield ("resource",), "tasks wait for each other"
    platform = document.get("platform")
    for key, why, no in (
        ("cross_contention", "kernels slow each other down", (1,)),
        ("copy_engine", "no kernel executes beside copies", (True,)),
        ("cpu_latency", "a thread executes later than it wakes", ("0ns", "0us", "0ms", "0s")),
    ):  # fmt: skip
        if isinstance(platform, dict) and platform.get(key, no[0]) not in no:
            yield ("platform", key), why


def _tables(document: Document, key: str) -> list[Document]:
    found = document.get(key)
    return [one if isinstance(one, dict) else {} for one in found] if isinstance(found, list) else []
