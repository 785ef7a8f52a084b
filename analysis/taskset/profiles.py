# SPDX-License-Identifier: GPL-2.0
"""The GPUs and profiles of a taskset file: the time of named kernels on each number of units, and their power."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.model import Kernel, Span
from analysis.model.energy import PoweredKernel, Profile, SpatialGpu
from analysis.taskset import schema, spatial
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, cure_of_time, quoted
from analysis.taskset.text import document_of, read_text
from gpurt.errors import FileError, Problem, TasksetError
from gpurt.types import Document

MISSING_PROFILES = "what the tasks' kernels take"


@dataclass
class SpatialReader:
    """Reads [[gpu]] and [[profile]].  ``names``: the names read so far, each after its table's kind."""

    path: Path
    document: Document
    report: Mistakes

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self.lacks_file = self.lacks_gpu = False
        self.names: set[str] = set()
        self.clocks: dict[str, str] = {}

    def tables(
        self, key: str, table: dict[str, schema.Field], missing: str
    ) -> list[tuple[Where, Document | None]]:
        """The [[key]] tables and their places; None for one with mistakes.  ``missing``: the error if there is none."""
        entries = self.document.get(key, [])
        if not isinstance(entries, list):
            self.report.add((key,), f"write [[{key}]], with two brackets, for each {key}")
            return []
        if not entries and missing:
            self.report.add((), f"[[{key}]] is missing: {missing}")
        found: list[tuple[Where, Document | None]] = []
        plain, included = schema.table_of_fields(table), schema.table_of_fields(spatial.FROM_FILE)
        for index, entry in enumerate(entries):
            before = len(self.report.problems)
            kind = included if key == "profile" and isinstance(entry, dict) and "file" in entry else plain
            values = kind.read(entry, (key, index), self.report)
            self._once(key, index, values or (entry if isinstance(entry, dict) else {}))
            found.append(((key, index), values if len(self.report.problems) == before else None))
        return found

    def _once(self, key: str, index: int, values: Document) -> None:
        name = values.get("name")
        if not isinstance(name, str):
            return
        if f"{key} {name}" in self.names:
            self.report.add((key, index, "name"), f"name: {quoted(name)} is taken by another {key}")
        self.names.add(f"{key} {name}")

    def knows_gpu(self, name: str | None, where: Where) -> bool:
        """Whether the file has the GPU that a task names, or the task names none; reports it otherwise."""
        if name is None or f"gpu {name}" in self.names:
            return True
        cure = cure_of_time((*where, "gpu"), name)
        self.report.add((*where, "gpu"), f"gpu: there is no GPU {quoted(name)}{cure}")
        return False

    def check_profile(self, name: str, profiles: dict[str, Profile], where: Where) -> None:
        """Reports a profile that the file lacks."""
        if name not in profiles and f"profile {name}" not in self.names and not self.lacks_file:
            known = ", ".join(profiles) or "none"
            self.report.add(where, f"profile: no [[profile]] is called {quoted(name)}; there are {known}")

    def gpus(self, missing: str = "") -> list[SpatialGpu]:
        """The GPUs of the file."""
        found: list[SpatialGpu] = []
        for where, values in self.tables("gpu", spatial.GPU, missing):
            if values is None:
                self.lacks_gpu = True
                continue
            units, name = values["compute_units"], str(values["name"])
            kind = str(values.get("type", name))
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

    def profiles(self, gpus: list[SpatialGpu], missing: str = "") -> dict[str, Profile]:
        """The profiles by name."""
        found: dict[str, Profile] = {}
        for where, values in self.tables("profile", spatial.PROFILE, missing):
            self._lengths(where, gpus)
            if values is None:
                continue
            if "file" in values:
                found.update(self._included(where, self.path.parent / values["file"], gpus))
            else:
                found[values["name"]] = Profile(values["name"], self._kernels(where, values["on"], gpus))
        return found

    def _lengths(self, where: Where, gpus: list[SpatialGpu]) -> None:
        """Reports a profile without a time for each unit of the GPU, even if it has other mistakes."""
        entry = self.document["profile"][where[1]]
        tables = entry.get("on") if isinstance(entry, dict) else None
        for index, one in enumerate(tables if isinstance(tables, list) else []):
            kind, times = (one.get("gpu"), one.get("kernel")) if isinstance(one, dict) else (None, None)
            units = next((gpu.units for gpu in gpus if gpu.kind == kind), None)
            if isinstance(times, list) and times and units is not None and len(times) != units:
                text = f"kernel: {kind} has {units} units, so there are {units} times, got {len(times)}"
                self.report.add((*where, "on", index, "kernel"), text)

    def _included(self, where: Where, path: Path, gpus: list[SpatialGpu]) -> dict[str, Profile]:
        """The profiles of another file.  Raises TasksetError about that file; reports a missing file as a mistake."""
        try:
            document, report = document_of(path, read_text(path))
        except TasksetError:
            raise
        except FileError as error:
            self.report.add((*where, "file"), f"file: {error}")
            self.lacks_file = True
            return {}
        reader = SpatialReader(path, {"profile": document.pop("profile", [])}, report)
        for key in document:
            report.add((key,), f"unknown {quoted(key)}; a profile file has [[profile]] only")
        reader.clocks, reader.names = self.clocks, self.names
        found = reader.profiles(gpus, MISSING_PROFILES)
        if report.problems:
            raise TasksetError(path, report.problems)
        self.notes += reader.notes
        return found

    def _kernels(self, where: Where, entries: list[Document], gpus: list[SpatialGpu]) -> dict[str, PoweredKernel]:
        """The kernels by type of GPU, without kernels for types that the file lacks."""
        found: dict[str, PoweredKernel] = {}
        for index, one in enumerate(entries):
            place, kind = (*where, "on", index), one["gpu"]
            gpu = next((gpu for gpu in gpus if gpu.kind == kind), None)
            if kind in found:
                self.report.add((*place, "gpu"), f"gpu: {quoted(kind)} stands here twice")
            if gpu is None:
                continue
            if {kind, "clock"} <= {*self.clocks, *one} and one["clock"] != self.clocks[kind]:
                text = f"clock: measured at {one['clock']}, and the GPU runs at {self.clocks[kind]}"
                self.report.add((*place, "clock"), text)
            if one["power"] < gpu.idle:
                self.notes.append(f"{kind}: an active unit of a profile draws less than an idle one; is that measured?")
            times: Kernel = one["kernel"]
            powers = one.get("measured_power", ())
            if powers and len(powers) != gpu.units:
                text = f"measured_power: {kind} has {gpu.units} units, so there are as many powers, got {len(powers)}"
                self.report.add((*place, "measured_power"), text)
                continue
            energies = tuple((power - gpu.static) * times.worst(m) for m, power in enumerate(powers, 1))
            found[kind] = PoweredKernel(
                times, one["power"], one.get("copy_in", 0), one.get("copy_out", 0), energies,
            )  # fmt: skip
        return found


class Profiles:
    """The work of tasks that name profiles, for bounds and simulations of one GPU.

    Copies and kernel of a job become a copy, a kernel with a time for each number of units, and a copy.
    """

    def __init__(self, path: Path, document: Document, report: Mistakes) -> None:
        self.report = report
        self.reader = SpatialReader(path, document, report)
        self.gpus = self.reader.gpus()
        self.profiles = self.reader.profiles(self.gpus)

    def with_units(self, platform: object) -> object:
        """The [platform], with the units of the file's one GPU if [platform] does not state how many there are."""
        if not isinstance(platform, dict) or len(self.gpus) != 1:
            return platform
        gpu = self.gpus[0]
        units = platform.get("compute_units", gpu.units)
        if units != gpu.units:
            text = f"compute_units: [[gpu]] {gpu.name} has {gpu.units}; leave it out here"
            self.report.add(("platform", "compute_units"), text)
        return {**platform, "compute_units": units}

    def check(self, values: Document, where: Where) -> None:
        """Reports profiles or a GPU that a task names and the file lacks."""
        if not self.reader.knows_gpu(values.get("gpu"), where):
            return
        for index, segment in enumerate(values.get("segments") or []):
            if "profile" in segment:
                self._check(segment["profile"], values, (*where, "segments", index))

    def _check(self, name: str, values: Document, where: Where) -> None:
        if name not in self.profiles:
            self.reader.check_profile(name, self.profiles, where)
        elif not self.gpus and not self.reader.lacks_gpu:
            self.report.add(where, "profile: the file has no [[gpu]] that it could be for")
        elif self.gpus and self._kernel(name, values) is None:
            text = f"profile: {name} has no [[profile.on]] for GPU {quoted(self._gpu(values).name)}"
            self.report.add(where, text)

    def _gpu(self, values: Document) -> SpatialGpu:
        pinned = values.get("gpu")
        return next((gpu for gpu in self.gpus if gpu.name == pinned), self.gpus[0])

    def _kernel(self, name: str, values: Document) -> PoweredKernel | None:
        return self.profiles[name].on.get(self._gpu(values).kind) if name in self.profiles else None

    def spelt_out(self, values: Document) -> list[Document]:
        """A task's segments, in which work replaces names of profiles."""
        found: list[Document] = []
        for segment in values["segments"]:
            if "profile" not in segment:
                found.append(segment)
                continue
            kernel = self._kernel(segment["profile"], values) if self.gpus else None
            if kernel is None:  # the file is refused anyway
                found.append({"cpu": Span.exactly(0)})
                continue
            found += [{"copy": Span.exactly(kernel.copy_in)}] if kernel.copy_in else []
            found.append({"kernel_times": kernel.times.times})
            found += [{"copy": Span.exactly(kernel.copy_out)}] if kernel.copy_out else []
        return found

    def unmodelled(self) -> tuple[Problem, ...]:
        """Several GPUs, and units that jobs must not use: only energy plans support them."""
        if len(self.gpus) > 1:
            text = f"gpu: bounds and simulations are about one GPU, and the file has {len(self.gpus)}; keep one [[gpu]]"
            return (self.report.problem(("gpu", 1), f"{text} (gpurt plan energy takes several)"),)
        return tuple(
            self.report.problem(("gpu", 0), f"gpu: bounds and simulations are about all {gpu.units} units, and jobs "
                                f"may use {gpu.whole}; say compute_units = {gpu.whole}, and times for so many")
            for gpu in self.gpus if gpu.whole < gpu.units
        )  # fmt: skip
