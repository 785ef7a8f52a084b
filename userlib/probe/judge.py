# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Judges each assumption of yield by the records of part yield: confirmed, refuted, or not known.

An assumption is confirmed only by what was measured.  A call that the driver refuses, or a scene without enough
samples, leaves it not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from probe.summary import Record

CONFIRMED, REFUTED, NOT_KNOWN = "confirmed", "refuted", "not known"
#: The driver's slices may end this much late; a shorter gap does not count as one, ns.
LATE_NS = 20_000
#: The longest switch that the bound assumes, ns.
THETA_NS = 250_000
#: The least share of a slice that executes: the driver rounds slices down, and a switch takes their ends.
LEAST_SHARE = 0.85
#: With fewer turns or jobs, or kernels watched for less time, nothing is decided.
LEAST_TURNS, LEAST_JOBS, LEAST_WALL_NS = 10, 500, 100_000_000


def _verdict(name: str, seen: str, held: bool | None) -> Record:
    """One line of the report.  ``held``: None if nothing can be said."""
    return {"record": "assumption", "verdict": NOT_KNOWN if held is None else CONFIRMED if held else REFUTED,
            "name": name, "seen": seen}  # fmt: skip


def us(ns: float) -> str:
    """Nanoseconds as microseconds."""
    return f"{ns / 1000:.4g} us"


class Findings:
    """The summarised records of the part."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    def of(self, record: str, **where: object) -> list[Record]:
        """The records of a kind with these values, whose slices the driver has set."""
        return [
            one for one in self.records
            if one["record"] == record and all(one.get(key) == value for key, value in where.items())
            and one.get("slice_status", "OK") == "OK"
        ]  # fmt: skip

    def turns(self) -> list[Record]:
        """Two loads with equal slices, where there were enough turns."""
        return [one for one in self.of("turns", scene="turns") if one["executed_ns"]["count"] >= LEAST_TURNS]

    def theta_ns(self) -> float | None:
        """The longest switch.  The gap between a process's turns has two switches and the other process's slice."""
        each = [(one["gap_ns"]["max"] - 1000 * one["slice_us"]) / 2 for one in self.turns()]
        return max(each, default=None)

    def alone_ns(self, key: str) -> int | None:
        """A short kernel's response time with nothing else on the GPU."""
        found = [one["ns"] for one in self.of("delay", scene="no others") if one["ns"]["count"]]
        return int(found[0][key]) if found else None


def judged_turns(found: Findings) -> Iterator[Record]:
    """Slices and switches."""
    over = [one["executed_ns"]["max"] - 1000 * one["slice_us"] for one in found.turns()]
    seen = f"{us(max(over))} over its slice at worst" if over else "too few turns"
    yield _verdict("a group past its slice yields at once", seen, max(over) <= LATE_NS if over else None)
    theta = found.theta_ns()
    seen = us(theta) if theta is not None else "too few turns"
    yield _verdict("a switch takes 250 us at most", seen, theta <= THETA_NS if theta is not None else None)
    for scene in ("alone, one stream", "alone, two streams"):
        yield uncut(found, f"a group that is {scene}, is not cut", scene)


def uncut(found: Findings, name: str, scene: str, least_calls: int = 0) -> Record:
    """Judges whether a long kernel had no gaps while others made at least ``least_calls`` calls."""
    ran = [
        one for one in found.of("turns", scene=scene)
        if one["calls"] >= least_calls and (one["wall_ns"] >= LEAST_WALL_NS or one["gap_ns"]["count"])
    ]  # fmt: skip
    gaps = [one["gap_ns"] for one in ran]
    count = sum(gap["count"] for gap in gaps)
    seen = f"{count} gaps" + (f", the longest {us(max(gap.get('max', 0) for gap in gaps))}" if count else "")
    return _verdict(name, seen if ran else "not measured", not count if ran else None)


def delays(found: Findings) -> Iterator[Record]:
    """The urgent process beside others whose slices are short: each turn of theirs costs it a switch and a slice."""
    theta, alone = found.theta_ns(), found.alone_ns("max")
    for one in found.of("delay"):
        if not one["others"]:
            continue
        others, slice_us = one["others"], one["slice_us"]
        name = f"beside {others} at {slice_us} us a kernel waits for {others} slices and {others + 1} switches at most"
        if one["scene"] != "delays":
            name += f" ({one['scene']})"
        loaded = one["scene"] == "delays" or one["calls"]
        if theta is None or alone is None or one["ns"]["count"] < LEAST_JOBS or not loaded:
            yield _verdict(name, "not measured", None)
            continue
        most = alone + others * (theta + 1000 * slice_us) + theta
        # one late sample may be the CPU's; a hundredth of all is not
        held = True if one["ns"]["max"] <= most else False if one["ns"]["p99"] > most else None
        seen = f"p50 {us(one['ns']['p50'])}, p99 {us(one['ns']['p99'])}, worst {us(one['ns']['max'])} of {us(most)}"
        yield _verdict(name, seen, held)


def bursts(found: Findings) -> Iterator[Record]:
    """How long the urgent process keeps the GPU."""
    yield uncut(found, "a group keeps the GPU for a kernel within its slice", "bursts")
    for one in found.of("burst"):
        over = (one["wall_ns"] - one["kernels"] * one["kernel_ns"]) / one["kernels"]
        held = True if over <= LATE_NS else False if over >= THETA_NS / 2 else None
        yield _verdict("it keeps the GPU for kernels back to back", f"{us(over)} more for each", held)
    alone, theta = found.alone_ns("p50"), found.theta_ns()
    pauses = found.of("pauses") if alone is not None and theta is not None else []
    late = [one["pause_us"] for one in pauses if one["ns"]["p50"] > (alone or 0) + (theta or 0) / 2]
    seen = f"lost after pauses of {min(late)} us" if late else f"kept after {len(pauses)} lengths of pauses"
    yield _verdict("it keeps the GPU between kernels up to 100 us apart", seen, not late if pauses else None)


def calls(found: Findings) -> Iterator[Record]:
    """Calls of other processes, and what they leave behind."""
    for scene, least in (("others go off and on", 100), ("others set slices", 100), ("others make contexts", 2)):
        yield uncut(found, f"it executes on while {scene}", scene, least)
    for scene in ("slice after off and on", "slice of a new channel", "slice changed while running"):
        enough = [one for one in found.of("turns", scene=scene) if one["executed_ns"]["count"] >= LEAST_TURNS]
        p50 = [one["executed_ns"]["p50"] for one in enough]
        kept = all(LEAST_SHARE * 200_000 <= value <= 200_000 + LATE_NS for value in p50) if p50 else None
        yield _verdict(f"{scene}: 200 us", f"p50 {us(p50[0])}" if p50 else "too few turns", kept)
    for one in found.of("kept off"):
        held = None if one["status"] != "OK" else not one["moved"]
        yield _verdict(f"{one['what']}: the group is off", f"status {one['status']}", held)
    for one in found.of("own calls"):
        held = None if one["status"] != "OK" or not one["tried"] else not one["busy"] or one["stopped"] == one["tried"]
        name = f"a {'busy' if one['busy'] else 'idle'} process goes off, {one['what']}"
        yield _verdict(name, f"status {one['status']}, p50 {us(one['off_ns'].get('p50', 0))}", held)


def many(found: Findings) -> Iterator[Record]:
    """One call for several processes."""
    for one in found.of("strangers", groups="compute"):
        held = None if one["off_status"] != "OK" else one["stopped"] == one["tried"]
        seen = f"status {one['off_status']}, p50 {us(one['off_ns'].get('p50', 0))}"
        yield _verdict(f"one call takes {one['others']} other processes off", seen, held)


def judge_records(records: Iterable[Record]) -> list[Record]:
    """One record for each assumption, in the order in which the specification lists them."""
    found = Findings(list(records))
    return [one for rule in (judged_turns, delays, bursts, calls, many) for one in rule(found)]
