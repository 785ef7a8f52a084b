# SPDX-License-Identifier: GPL-2.0
"""What the probe's records say: pure functions from the records of a part to what a report shows.

A record is one JSON object as scripts/probe/*.c write them (emit.h): ``record`` names its kind, samples are lists of
nanoseconds.  Nothing here needs a GPU.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]

# nvstatuscodes.h, as far as these controls can return them
STATUS_NAMES = {
    0x00: "OK",
    0x0F: "GPU_IS_LOST",
    0x17: "IN_USE",
    0x1B: "INSUFFICIENT_PERMISSIONS",
    0x1F: "INVALID_ARGUMENT",
    0x21: "INVALID_CHANNEL",
    0x22: "INVALID_CLASS",
    0x23: "INVALID_CLIENT",
    0x24: "INVALID_COMMAND",
    0x26: "INVALID_DEVICE",
    0x31: "INVALID_OBJECT",
    0x33: "INVALID_OBJECT_HANDLE",
    0x38: "INVALID_OPERATION",
    0x39: "INVALID_OWNER",
    0x3A: "INVALID_PARAM_STRUCT",
    0x3B: "INVALID_PARAMETER",
    0x40: "INVALID_STATE",
    0x56: "NOT_SUPPORTED",
    0x57: "OBJECT_NOT_FOUND",
    0x65: "TIMEOUT",
    0x66: "TIMEOUT_RETRY",
    0xFFFF: "GENERIC",
}

# The releases whose sources were read for the layouts in rm.h.
FIRST_RELEASE, LAST_RELEASE = (515, 43, 4), (595, 45, 4)


def parse(text: str) -> tuple[list[Record], int]:
    """Records of a part's output, and how many lines were none (a part that was ended leaves one broken)."""
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
    """Nearest rank: the least sample that at least ``percent`` of all do not exceed.

    Raises:
        ValueError: no samples, or a percentage outside 0 to 100.
    """
    if not samples or not 0 <= percent <= 100:
        raise ValueError("a percentile needs samples, and a percentage from 0 to 100")
    return sorted(samples)[max(math.ceil(len(samples) * percent / 100), 1) - 1]


def spread(samples: Sequence[int]) -> Record:
    """Count, least, p50, p99 and greatest; the count alone where there are none."""
    if not samples:
        return {"count": 0}
    return {
        "count": len(samples),
        "min": min(samples),
        "p50": percentile(samples, 50),
        "p99": percentile(samples, 99),
        "max": max(samples),
    }


def status_name(status: int) -> str:
    """The driver's status, or the errno of the ioctl as a negative number, in words."""
    if status < 0:
        return f"errno {-status}"
    return STATUS_NAMES.get(status, f"status {status:#x}")


def release(version: str) -> tuple[int, ...] | None:
    """A driver's version as numbers; None if it is not made of numbers."""
    parts = version.split(".")
    return tuple(int(part) for part in parts) if parts and all(part.isdecimal() for part in parts) else None


def known_release(version: str) -> bool:
    """Whether the layouts in use were read off this release's neighbours; others are probed all the same."""
    numbers = release(version)
    return numbers is not None and FIRST_RELEASE <= numbers <= LAST_RELEASE


def runs(start: int, end: int, gaps: Sequence[int]) -> list[tuple[int, int]]:
    """The stretches in which a kernel ran, from its start, its end and its gaps (last before, first after, ...)."""
    edges = [start, *gaps, end]
    return list(zip(edges[::2], edges[1::2], strict=True))


def switches(all_runs: Sequence[Sequence[tuple[int, int]]]) -> tuple[list[int], int]:
    """Costs of switching between processes, and how many runs began before another's had ended.

    The runs of all processes in the order of their starts: where the next is another process's, the time between the
    end of one and the start of the next is what the switch took (theta), all clocks being the same.
    """
    order = sorted((begin, end, who) for who, own in enumerate(all_runs) for begin, end in own)
    costs: list[int] = []
    overlaps = 0
    for (_, end, who), (begin, _, other) in itertools.pairwise(order):
        if who == other:
            continue
        if begin >= end:
            costs.append(begin - end)
        else:
            overlaps += 1
    return costs, overlaps


def summarise_slices(records: Iterable[Record]) -> list[Record]:
    """One line for all processes that ran together: lengths of slices, costs of switches."""
    scenes: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        scenes.setdefault((record["processes"], record["load"], record["slice_us"]), []).append(record)
    found = []
    for (processes, load, slice_us), together in scenes.items():
        all_runs = [runs(one["start"], one["end"], one["gaps"]) for one in together]
        # the first and the last run of each are cut short by the kernel's own start and end
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
    """A record with every list of samples as its spread and every status by its name."""
    summary: Record = {}
    for key, value in record.items():
        if key == "ns" or key.endswith("_ns"):
            summary[key] = spread(value) if isinstance(value, list) else value
        elif key == "statuses":
            summary[key] = {status_name(int(status)): count for status, count in value.items()}
        elif key.endswith("status") and isinstance(value, int):
            summary[key] = status_name(value)
        else:
            summary[key] = value
    return summary


def summarise(records: Sequence[Record]) -> list[Record]:
    """What a report keeps of a part's records."""
    slices = [record for record in records if record["record"] == "slices"]
    others = [summarise_one(record) for record in records if record["record"] != "slices"]
    return others + summarise_slices(slices)
