# SPDX-License-Identifier: GPL-2.0 OR MIT
"""From the records of a part to what a report shows.

A record is one JSON object that the probe's program writes (native/emit.h).  ``record`` names its kind; samples are
lists of nanoseconds.  Nothing here needs a GPU.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
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
