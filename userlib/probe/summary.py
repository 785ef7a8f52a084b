# SPDX-License-Identifier: GPL-2.0 OR MIT
"""From the records of a part to what a report shows.

A record is one JSON object that the probe's program writes (native/emit.h).  ``record`` names its kind; samples are
lists of nanoseconds.  Nothing here needs a GPU.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]

#: NVIDIA's numbers and layouts.
HEADER = Path(__file__).resolve().parent.parent / "nvidia" / "rm.h"
#: The first and the last release whose sources were read for HEADER.
FIRST_RELEASE, LAST_RELEASE = (515, 43, 4), (595, 45, 4)


def parse_records(text: str) -> tuple[list[Record], int]:
    """Records of a part's output, and how many lines were none.  A part that is ended can leave a broken line."""
    records: list[Record] = []
    broken = 0
    for line in filter(None, text.splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            broken += 1
            continue
        if isinstance(record, dict) and "record" in record:
            records.append(record)
        else:
            broken += 1
    return records, broken


def percentile(samples: Sequence[int], percent: float) -> int:
    """Nearest rank: the least sample that at least ``percent`` of all samples do not exceed.

    Raises:
        ValueError: no samples, or a percentage outside 0 to 100.
    """
    if not samples or not 0 <= percent <= 100:
        raise ValueError("a percentile needs samples, and a percentage from 0 to 100")
    return sorted(samples)[max(math.ceil(len(samples) * percent / 100), 1) - 1]


def spread(samples: Sequence[int]) -> Record:
    """Count, least, p50, p99 and greatest sample; only the count if there are no samples."""
    if not samples:
        return {"count": 0}
    return {
        "count": len(samples),
        "min": min(samples),
        "p50": percentile(samples, 50),
        "p99": percentile(samples, 99),
        "max": max(samples),
    }


@functools.cache
def status_names() -> dict[int, str]:
    """The names of the driver's statuses, as HEADER defines them."""
    found = re.findall(r"^#define RM_STATUS_(\w+)\s+(0x[0-9a-f]+)$", HEADER.read_text(), re.MULTILINE)
    return {int(number, 16): name for name, number in found}


def status_name(status: int) -> str:
    """The name of a driver's status.  A negative number is the errno of the ioctl."""
    if status < 0:
        return f"errno {-status}"
    return status_names().get(status, f"status {status:#x}")


def release(version: str) -> tuple[int, ...] | None:
    """A driver's version as numbers; None if the version has other words."""
    parts = version.split(".")
    return tuple(int(part) for part in parts) if parts and all(part.isdecimal() for part in parts) else None


def known_release(version: str) -> bool:
    """Whether a release lies in the range whose sources were read.  Other releases are probed as well."""
    numbers = release(version)
    return numbers is not None and FIRST_RELEASE <= numbers <= LAST_RELEASE


def _runs(start: int, end: int, gaps: Sequence[int]) -> list[tuple[int, int]]:
    """The stretches in which a kernel ran, as (from, to).

    Args:
        start: when the kernel began.
        end: when it ended.
        gaps: when it did not run: the last reading before and the first after each gap, in order.
    """
    edges = [start, *gaps, end]
    return list(zip(edges[::2], edges[1::2], strict=True))


def switches(all_runs: Sequence[Sequence[tuple[int, int]]]) -> tuple[list[int], int]:
    """Costs of switching between processes, and how many runs began before another process's run had ended.

    Takes the runs of all processes in the order of their starts.  If the next run is another process's, the cost of the
    switch (theta) is the time from the one's end to the next one's start.  All times are of one clock.
    """
    order = sorted((begin, end, process) for process, own in enumerate(all_runs) for begin, end in own)
    costs: list[int] = []
    overlaps = 0
    for (_, end, process), (begin, _, other) in itertools.pairwise(order):
        if process == other:
            continue
        if begin >= end:
            costs.append(begin - end)
        else:
            overlaps += 1
    return costs, overlaps


def summarise_slices(records: Iterable[Record]) -> list[Record]:
    """One record for all processes that ran together: lengths of slices, costs of switches."""
    scenes: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        scenes.setdefault((record["processes"], record["load"], record["slice_us"]), []).append(record)
    found = []
    for (processes, load, slice_us), together in scenes.items():
        all_runs = [_runs(one["start"], one["end"], one["gaps"]) for one in together]
        # the start and the end of the kernel cut its first and its last run short
        lengths = [end - begin for own in all_runs for begin, end in own[1:-1]]
        costs, overlaps = switches(all_runs)
        found.append(
            {
                "record": "slices",
                "processes": processes,
                "load": load,
                "slice_us": slice_us,
                "set_status": [status_name(one["set_status"]) for one in together] if slice_us else [],
                "clock_resolution_ns": max(one["clock_resolution_ns"] for one in together),
                "slice_ns": spread(lengths),
                "theta_ns": spread(costs),
                "overlaps": overlaps,
            }
        )
    return found


def summarise_one(record: Record) -> Record:
    """A record with each list of samples replaced by its spread and each status by its name."""
    summary: Record = {}
    for key, value in record.items():
        if key == "ns" or key.endswith("_ns"):
            summary[key] = spread(value) if isinstance(value, list) else value
        elif key.endswith("status") and isinstance(value, int):
            summary[key] = status_name(value)
        else:
            summary[key] = value
    return summary


def summarise(records: Sequence[Record]) -> list[Record]:
    """The records of a part that a report keeps, some of them summarised."""
    slices = [record for record in records if record["record"] == "slices"]
    others = [summarise_one(record) for record in records if record["record"] != "slices"]
    return others + summarise_slices(slices)
