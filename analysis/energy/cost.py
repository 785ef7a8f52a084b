# SPDX-License-Identifier: GPL-2.0
"""The cost of an explicit schedule: a list of kernels, or a table of `gpurt plan energy schedule` (JSON)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.energy.file import EnergyFile
from analysis.energy.outcome import Dispatch
from analysis.energy.power import Energy, Execution, closed_form
from analysis.energy.schedule import Table
from analysis.model.energy import MAX_ENERGY_TIME_NS
from gpurt.errors import FileError
from gpurt.files import read_whole, written
from gpurt.text import filename
from gpurt.types import Document
from gpurt.units import format_time, parse_time

FORMAT, VERSION = "gpurt-energy-table", 1
MAX_SCHEDULE_BYTES = 2**28


def save_table(table: Table, path: Path | str) -> None:
    """Writes a table, as a whole or not at all.  Raises FileError if that fails."""
    setup = table.setup
    document = {
        "format": FORMAT, "version": VERSION, "policy": setup.policy.name, "begin_ns": table.begin,
        "length_ns": table.length, "prefix": [_entry(table, one) for one in table.prefix],
        "cycle": [_entry(table, one) for one in table.cycle],
        "window": format_time(table.length), "kernels": _one_cycle(table),
    }  # fmt: skip
    with written(path) as file:
        file.write(json.dumps(document, indent=1).encode() + b"\n")


def _entry(table: Table, one: Dispatch) -> Document:
    system = table.setup.system
    times = {f"{key}_ns" if key not in ("job", "units", "first") else key: value for key, value in asdict(one).items()}
    del times["task_ns"], times["gpu_ns"]
    return {"task": system.tasks[one.task].name, "gpu": system.gpus[one.gpu].name, **times}


def _one_cycle(table: Table) -> list[Document]:
    """The kernels of a cycle cut at its ends, as cost() reads them."""
    begin, system = table.begin + table.length, table.setup.system
    found = []
    for one in table.unrolled(3):
        start, end = max(one.start, begin), min(one.end, begin + table.length)
        if start < end:
            found.append({
                "gpu": system.gpus[one.gpu].name, "kernel": system.tasks[one.task].profile, "units": one.units,
                "start": format_time(start - begin), "length": format_time(end - start),
            })  # fmt: skip
    return found


def cost(loaded: EnergyFile, path: Path) -> tuple[int, list[Energy]]:
    """The window of a schedule, ns, and the energy of each GPU over it.

    Raises FileError, which names the kernel, if the schedule has a mistake or does not fit the GPUs.
    """
    try:
        document = json.loads(read_whole(path, MAX_SCHEDULE_BYTES, "a schedule"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{filename(path)}: is not a complete JSON file: {error!s:.100}") from None
    if not isinstance(document, dict) or not isinstance(document.get("kernels"), list) or "window" not in document:
        raise FileError(f'{filename(path)}: expected {{"window": "100ms", "kernels": [...]}}')
    until = _time(document["window"], path, "window")
    kernels: list[list[Execution]] = [[] for _ in loaded.system.gpus]
    for index, one in enumerate(document["kernels"], 1):
        execution = _execution(loaded, one, path, f"kernel {index}")
        kernels[execution.gpu].append(execution)
    gpus = loaded.system.gpus
    for gpu, own in zip(gpus, kernels, strict=True):
        _fits(gpu.name, gpu.limit, gpu.slots, own, path)
    return until, [closed_form(gpu, own, 0, until) for gpu, own in zip(gpus, kernels, strict=True)]


def _fits(name: str, limit: int, slots: int, kernels: list[Execution], path: Path) -> None:
    for one in kernels:
        beside = [other for other in kernels if other.start <= one.start < other.end]
        units = sum(other.units for other in beside)
        if units > limit or len(beside) > slots:
            has = f"has {len(beside)} kernels on {units} units; it takes {slots} on {limit}"
            raise FileError(f"{filename(path)}: at {format_time(one.start)} {name} {has}")


def _execution(loaded: EnergyFile, one: Any, path: Path, where: str) -> Execution:
    known = ("gpu", "kernel", "units", "start", "length")
    if not isinstance(one, dict) or not {*known[:3]} <= one.keys() <= {*known}:
        raise FileError(f"{filename(path)}: {where}: expected an object with {', '.join(known)}")
    gpus = loaded.system.gpus
    index = next((index for index, gpu in enumerate(gpus) if gpu.name == one["gpu"]), None)
    if index is None:
        raise FileError(f"{filename(path)}: {where}: there is no GPU {one['gpu']!r:.60}")
    profile = loaded.profiles.get(one["kernel"]) if isinstance(one["kernel"], str) else None
    kernel = profile.on.get(gpus[index].kind) if profile else None
    if kernel is None:
        raise FileError(f"{filename(path)}: {where}: there is no profile {one['kernel']!r:.60} on {gpus[index].name}")
    units = one["units"]
    if type(units) is not int or not 1 <= units <= gpus[index].limit:
        raise FileError(f"{filename(path)}: {where}: units: expected 1 to {gpus[index].limit}, got {units!r:.60}")
    start = _time(one.get("start", "0ns"), path, f"{where}: start")
    length = _time(one["length"], path, f"{where}: length") if "length" in one else kernel.time(units)
    return Execution(index, units, start, start + length, kernel.power)


def _time(value: Any, path: Path, where: str) -> int:
    try:
        time = parse_time(value) if isinstance(value, str) else MAX_ENERGY_TIME_NS + 1
    except ValueError as error:
        raise FileError(f"{filename(path)}: {where}: {error}") from None
    if time > MAX_ENERGY_TIME_NS:
        raise FileError(f'{filename(path)}: {where}: expected a time such as "5ms" of at most 13 days')
    return time
