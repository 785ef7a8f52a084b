# SPDX-License-Identifier: GPL-2.0
"""The file that energy commands read: [[gpu]], [[profile]] and [[task]] (TOML; docs/energy.md).

``load`` reports every mistake at once, each with its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.energy import fields
from analysis.energy.fields import StatedTimes
from analysis.energy.model import Kernel, Profile, SpatialGpu, System, Task
from analysis.taskset import schema
from analysis.taskset.file import document_of, read
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted
from gpurt.errors import FileError, TasksetError


@dataclass(frozen=True)
class EnergyFile:
    """An energy file without mistakes; ``profiles`` by name, ``notes`` for the user."""

    path: Path
    system: System
    profiles: dict[str, Profile]
    notes: tuple[str, ...] = ()


def load(path: Path | str, ignore_cpu: bool = False) -> EnergyFile:
    """Reads and checks a file; ``ignore_cpu``: CPU segments are left out, with a note.

    Raises TasksetError with every mistake, FileError if a file cannot be read.
    """
    path = Path(path)
    document, report = document_of(path, read(path))
    reader = _Reader(path, document, report, ignore_cpu)
    gpus = reader.gpus()
    profiles = reader.profiles(gpus)
    tasks = reader.tasks(gpus, profiles)
    reader.unknown_tables()
    if report.problems:
        raise TasksetError(path, report.problems)
    return EnergyFile(path, System(tuple(gpus), tuple(tasks)), profiles, tuple(reader.notes))


@dataclass
class _Reader:
    path: Path
    document: dict[str, Any]
    report: Mistakes
    ignore_cpu: bool

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self.lacks_file = self.lacks_gpu = False
        self.names: dict[str, str] = {}
        self.clocks: dict[str, str] = {}

    def unknown_tables(self) -> None:
        known = ("platform", "gpu", "profile", "task")
        for key in self.document:
            if key not in known:
                self.report.add((key,), f"unknown {quoted(key)}; an energy file has {', '.join(known)}")
        if "platform" in self.document:
            fields.MACHINE.read(self.document["platform"], ("platform",), self.report)

    def _tables(
        self, key: str, table: dict[str, schema.Field], missing: str
    ) -> list[tuple[Where, dict[str, Any] | None]]:
        """The [[key]] tables with their places; None for one with mistakes."""
        entries = self.document.get(key, [])
        if not isinstance(entries, list):
            self.report.add((key,), f"write [[{key}]], with two brackets, for each {key}")
            return []
        if not entries:
            self.report.add((), f"[[{key}]] is missing: {missing}")
        found: list[tuple[Where, dict[str, Any] | None]] = []
        for index, entry in enumerate(entries):
            before = len(self.report.problems)
            fitting = fields.FROM_FILE if key == "profile" and isinstance(entry, dict) and "file" in entry else table
            values = schema.table(fitting).read(entry, (key, index), self.report)
            self._once(key, index, values or (entry if isinstance(entry, dict) else {}))
            found.append(((key, index), values if len(self.report.problems) == before else None))
        return found

    def _once(self, key: str, index: int, values: dict[str, Any]) -> None:
        name = values.get("name")
        if not isinstance(name, str):
            return
        if f"{key} {name}" in self.names:
            self.report.add((key, index, "name"), f"name: {quoted(name)} is taken by another {key}")
        self.names[f"{key} {name}"] = name

    def gpus(self) -> list[SpatialGpu]:
        found: list[SpatialGpu] = []
        for where, values in self._tables("gpu", fields.GPU, "the GPUs that jobs run on"):
            if values is None:
                self.lacks_gpu = True
                continue
            units, kind = values["compute_units"], values.get("type", values["name"])
            limit, granularity = values.get("limit", units), values.get("granularity", 1)
            alike = [gpu.units for gpu in found if gpu.kind == kind and gpu.units != units]
            if limit > units:
                self.report.add((*where, "limit"), f"limit: the GPU has {units} units, got {limit}")
            elif granularity > limit:
                self.report.add((*where, "granularity"), f"granularity: jobs may use {limit} units, got {granularity}")
            elif alike:
                text = f"compute_units: another GPU of type {quoted(kind)} has {alike[0]}, got {units}"
                self.report.add((*where, "compute_units"), text)
            elif limit % granularity:
                most = limit // granularity * granularity
                text = f"{values['name']}: jobs get multiples of {granularity} units, so at most {most} of {limit}"
                self.notes.append(text)
            if "clock" in values:
                self.clocks[kind] = values["clock"]
            found.append(SpatialGpu(
                values["name"], units, min(limit, units), values["static_power"], values["idle_power"],
                min(granularity, limit, units), values.get("slots", 2), kind,
            ))  # fmt: skip
        return found

    def profiles(self, gpus: list[SpatialGpu]) -> dict[str, Profile]:
        found: dict[str, Profile] = {}
        for where, values in self._tables("profile", fields.PROFILE, "what the tasks' kernels take"):
            self._lengths(where, gpus)
            if values is None:
                continue
            if "file" in values:
                found.update(self._included(where, self.path.parent / values["file"], gpus))
            else:
                found[values["name"]] = Profile(values["name"], self._kernels(where, values["on"], gpus))
        return found

    def _lengths(self, where: Where, gpus: list[SpatialGpu]) -> None:
        """A profile has a time for each unit of the GPU; that is told also if something else in it is wrong."""
        entry = self.document["profile"][where[1]]
        tables = entry.get("on") if isinstance(entry, dict) else None
        for index, one in enumerate(tables if isinstance(tables, list) else []):
            kind, times = (one.get("gpu"), one.get("kernel")) if isinstance(one, dict) else (None, None)
            units = next((gpu.units for gpu in gpus if gpu.kind == kind), None)
            if isinstance(times, list) and times and units is not None and len(times) != units:
                text = f"kernel: {kind} has {units} units, so there are {units} times, got {len(times)}"
                self.report.add((*where, "on", index, "kernel"), text)

    def _included(self, where: Where, path: Path, gpus: list[SpatialGpu]) -> dict[str, Profile]:
        """The profiles of another file.  Raises TasksetError about that file; a missing file is a mistake here."""
        try:
            document, report = document_of(path, read(path))
        except TasksetError:
            raise
        except FileError as error:
            self.report.add((*where, "file"), f"file: {error}")
            self.lacks_file = True
            return {}
        reader = _Reader(path, {"profile": document.pop("profile", [])}, report, False)
        for key in document:
            report.add((key,), f"unknown {quoted(key)}; a profile file has [[profile]] only")
        reader.clocks, reader.names = self.clocks, self.names
        found = reader.profiles(gpus)
        if report.problems:
            raise TasksetError(path, report.problems)
        self.notes += reader.notes
        return found

    def _kernels(self, where: Where, entries: list[dict[str, Any]], gpus: list[SpatialGpu]) -> dict[str, Kernel]:
        """The kernels by type of GPU; those for a type that the file has not are left out."""
        found: dict[str, Kernel] = {}
        for index, one in enumerate(entries):
            place, kind = (*where, "on", index), one["gpu"]
            gpu = next((gpu for gpu in gpus if gpu.kind == kind), None)
            if kind in found:
                self.report.add((*place, "gpu"), f"gpu: {quoted(kind)} stands here twice")
            if gpu is None:
                continue
            times: StatedTimes = one["kernel"]
            if {kind, "clock"} <= {*self.clocks, *one} and one["clock"] != self.clocks[kind]:
                text = f"clock: measured at {one['clock']}, and the GPU runs at {self.clocks[kind]}"
                self.report.add((*place, "clock"), text)
            if one["power"] < gpu.idle:
                self.notes.append(f"{kind}: an active unit of a profile draws less than an idle one; is that measured?")
            spans, powers = times.spans(gpu.units), one.get("measured_power", ())
            if powers and len(powers) != gpu.units:
                text = f"measured_power: {kind} has {gpu.units} units, so there are as many powers, got {len(powers)}"
                self.report.add((*place, "measured_power"), text)
                continue
            energies = tuple((power - gpu.static) * span.worst for power, span in zip(powers, spans, strict=False))
            found[kind] = Kernel(
                tuple(span.worst for span in spans), tuple(span.best for span in spans), one["power"],
                one.get("copy_in", 0), one.get("copy_out", 0), energies,
            )  # fmt: skip
        return found

    def tasks(self, gpus: list[SpatialGpu], profiles: dict[str, Profile]) -> list[Task]:
        found = []
        for where, values in self._tables("task", fields.TASKS, "what is to run"):
            if values is None:
                continue
            period = values["period"]
            deadline = values.get("deadline", period)
            if deadline > period:
                self.report.add((*where, "deadline"), "deadline: must be at most the period")
            profile = self._profile(where, values, profiles)
            pinned = values.get("gpu")
            if pinned is not None and f"gpu {pinned}" not in self.names:
                self.report.add((*where, "gpu"), f"gpu: there is no GPU {quoted(pinned)}")
            elif profile is not None:
                kernels = self._placed(where, values, gpus, profile)
                offset = values.get("offset", 0)
                found.append(Task(values["name"], period, deadline, kernels, offset, profile.name))
        return found

    def _profile(self, where: Where, values: dict[str, Any], profiles: dict[str, Profile]) -> Profile | None:
        """The profile of the task's one kernel."""
        names, others = [], 0
        for index, segment in enumerate(values["segments"]):
            if set(segment) == {"kernel"}:
                names.append((index, segment["kernel"]))
            elif set(segment) == {"cpu"} and self.ignore_cpu:
                others += 1
            else:
                text = 'here a segment is { kernel = "..." }; --ignore-cpu leaves { cpu = "..." } out'
                self.report.add((*where, "segments", index), text)
                return None
        if others:
            self.notes.append(f"{values['name']}: its CPU segments are left out")
        if len(names) != 1:
            self.report.add((*where, "segments"), f"segments: a job is one kernel, got {len(names)}")
            return None
        index, name = names[0]
        if name not in profiles and f"profile {name}" not in self.names and not self.lacks_file:
            known = ", ".join(profiles) or "none"
            text = f"kernel: no profile is called {quoted(name)}; there are {known}"
            self.report.add((*where, "segments", index), text)
        return profiles.get(name)

    def _placed(
        self, where: Where, values: dict[str, Any], gpus: list[SpatialGpu], profile: Profile
    ) -> tuple[Kernel | None, ...]:
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


