# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A report as text: one line for each finding, in the order of the parts."""

from __future__ import annotations

from collections.abc import Iterator

from probe.summary import Record

#: How many elements of a list are shown.  The JSON has all.
MAX_ELEMENTS_SHOWN = 12


def duration(ns: int) -> str:
    """A number of nanoseconds in the largest unit that it reaches."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 100 * size else f"{ns / size:.0f} {unit}"
    return f"{ns} ns"


def spread_text(value: Record) -> str:
    """A spread in one line."""
    if not value["count"]:
        return "no samples"
    shown = "  ".join(f"{name} {duration(value[name])}" for name in ("p50", "p99", "max"))
    return f"{shown}  ({value['count']})"


def value_text(key: str, value: object) -> str:
    """One value of a summary."""
    if isinstance(value, dict) and "count" in value and (key == "ns" or key.endswith("_ns")):
        return spread_text(value)
    if isinstance(value, list):
        more = f" and {len(value) - MAX_ELEMENTS_SHOWN} more" if len(value) > MAX_ELEMENTS_SHOWN else ""
        return (", ".join(str(one) for one in value[:MAX_ELEMENTS_SHOWN]) or "none") + more
    if key.endswith("_ns") and isinstance(value, int):
        return duration(value)
    return str(value)


def finding_lines(summary: Record) -> Iterator[str]:
    """One record's summary: its plain values in the first line, each spread in a line below."""
    flat = {key: value for key, value in summary.items() if not (isinstance(value, dict) and "count" in value)}
    words = ", ".join(f"{key} {value_text(key, value)}" for key, value in flat.items() if key != "record")
    yield f"  {summary['record']}: {words}"
    for key, value in summary.items():
        if key not in flat:
            yield f"      {key:12} {value_text(key, value)}"


def part_lines(name: str, part: Record) -> Iterator[str]:
    """A part's heading and findings."""
    yield ""
    yield f"{name}: {part['status']} after {part['seconds']:.1f} s"
    if part.get("detail"):
        yield f"  {part['detail']}"
    for summary in part["findings"]:
        yield from finding_lines(summary)


def render(report: Record) -> str:
    """The whole report."""
    gpu, driver = report["gpu"], report["driver"]
    lines = [
        f"GPU      {gpu['name']}, {gpu['sm_count']} SMs, compute capability {gpu['cc_major']}.{gpu['cc_minor']}",
        f"driver   {driver['version']}" + ("" if driver["known"] else " (its layouts were not read before this run)"),
        f"         {driver['banner']}",
        f"kernel   {report['system']['kernel']}",
        f"user     uid {report['system']['uid']}, Yama ptrace_scope {report['system']['ptrace_scope']}",
        f"date     {report['date']}",
        f"command  {' '.join(report['command'])}",
    ]
    lines += [f"note     {note}" for note in report["notes"]]
    for name, part in report["parts"].items():
        lines.extend(part_lines(name, part))
    return "\n".join(lines) + "\n"
