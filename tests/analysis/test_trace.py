"""The trace format loses nothing, and a file that is no trace is refused with a reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.traces.trace import TIMED, About, Event, Kind, Trace, load_trace
from gpurt.errors import FileError

NUMBERS = st.integers(0, 2**60)
EVENTS = st.builds(
    Event,
    time=NUMBERS,
    kind=st.sampled_from(Kind),
    task=st.text(max_size=5),
    job=st.none() | st.integers(0, 10),
    duration=st.none() | NUMBERS,
    cpu=st.none() | st.integers(0, 7),
    gpu=st.none() | st.integers(0, 3),
    detail=st.none() | st.text(min_size=1, max_size=5),
    executed=st.none() | NUMBERS,
    priority=st.none() | st.integers(0, 99),
).filter(lambda one: one.duration is not None or one.kind not in TIMED | {Kind.START, Kind.COMPLETE})


ABOUT = st.builds(About, *3 * [st.none() | st.integers(0, 2**60)])


def entries_of(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return entries


@settings(max_examples=tries(150), deadline=None)
@given(
    events=st.lists(EVENTS, max_size=20),
    meta=st.dictionaries(st.sampled_from(["policy", "source"]), st.text()),
    tasks=st.dictionaries(st.text(min_size=1, max_size=5), ABOUT, max_size=3),
    until=NUMBERS,
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], meta: dict[str, str], tasks: dict[str, About],
    until: int,
) -> None:  # fmt: skip
    path = tmp_path_factory.getbasetemp() / "trace.json"
    trace = Trace(meta, tuple(events), tasks, until)
    trace.save(path)
    assert load_trace(path) == trace


@settings(max_examples=tries(150), deadline=None)
@given(events=st.lists(EVENTS, max_size=30))
def test_tracks_are_what_perfetto_needs(tmp_path_factory: pytest.TempPathFactory, events: list[Event]) -> None:
    """Each track has a name and an id of its own, and what executes on it does not overlap.

    Perfetto takes a thread id that equals a process id for that process, and drops intervals that overlap.
    """
    path = tmp_path_factory.getbasetemp() / "tracks.json"
    Trace({}, tuple(sorted(events, key=lambda event: event.time))).save(path)
    entries = entries_of(path)
    names = [(e["pid"], e["tid"]) for e in entries if e["name"] == "thread_name"]
    assert {(e["pid"], e["tid"]) for e in entries if e["ph"] != "M"} <= set(names)
    ids = [tid for _, tid in names] + [e["pid"] for e in entries if e["name"] == "process_name"]
    assert len(ids) == len(set(ids))
    ends: dict[int, int] = {}
    for entry in (e for e in entries if e["ph"] == "X"):
        assert entry["args"]["ns"] >= ends.get(entry["tid"], 0)
        ends[entry["tid"]] = entry["args"]["ns"] + entry["args"].get("duration", 0)


@given(time=st.integers(0, 2**52))
def test_perfetto_reads_the_same_nanosecond(tmp_path_factory: pytest.TempPathFactory, time: int) -> None:
    """It multiplies by 1000 and cuts the fraction off; a nanosecond less would make intervals overlap."""
    path = tmp_path_factory.getbasetemp() / "ns.json"
    Trace({}, (Event(time, Kind.CPU, "a", 1, time, cpu=0),)).save(path)
    (interval,) = (e for e in entries_of(path) if e["ph"] == "X")
    assert (int(interval["ts"] * 1000.0), int(interval["dur"] * 1000.0)) == (time, time)


def test_preemptions_name_the_preemptor(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    events = (
        Event(1, Kind.PREEMPT, gpu=0), Event(1, Kind.GRANT, "low", gpu=0),
        Event(2, Kind.PREEMPT, "low", gpu=0), Event(2, Kind.RESUME, "other", gpu=1),
        Event(2, Kind.GRANT, "high", gpu=0),
        Event(3, Kind.PREEMPT, "high", gpu=0), Event(3, Kind.RESUME, gpu=0),
        Event(4, Kind.PREEMPT, "high", gpu=0), Event(5, Kind.GRANT, "low", gpu=0),
    )  # fmt: skip
    Trace({}, events).save(path)
    shown = [(e["name"], e["args"].get("by")) for e in entries_of(path) if e.get("cat") == "preempt"]
    assert shown == [("all preempted by low", "low"), ("low preempted by high", "high"), ("preempt", None),
                     ("preempt", None)]  # fmt: skip
    assert load_trace(path).events == events


def test_tasks_are_ordered_by_priority(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    events = [Event(0, Kind.RELEASE, name) for name in ("unknown", "best-effort", "low", "high")]
    Trace({}, tuple(events), {"best-effort": About(0), "low": About(1), "high": About(9)}).save(path)
    entries = entries_of(path)
    order = {e["tid"]: e["args"]["sort_index"] for e in entries if e["name"] == "thread_sort_index"}
    rows = sorted((order[e["tid"]], e["args"]["name"]) for e in entries if e["name"] == "thread_name")
    assert [name for _, name in rows] == ["high", "low", "best-effort", "unknown", "all tasks"]


def test_jobs_without_completion_are_unfinished() -> None:
    events = (
        Event(0, Kind.RELEASE, "a"), Event(5, Kind.RELEASE, "a"), Event(5, Kind.RELEASE, "b"),
        Event(7, Kind.COMPLETE, "a", 1, 7), Event(8, Kind.GPU, "a", duration=4), Event(9, Kind.COMPLETE, "b", 1, 5),
    )  # fmt: skip
    assert Trace({}, events).unfinished() == {"a": [5], "b": [5]}
    assert Trace({}, events).end == 12
    assert Trace({}, events, until=20).end == 20


def test_a_trace_that_cannot_be_written_is_an_error() -> None:
    with pytest.raises(FileError, match="No space left"):
        Trace({}).save("/dev/full")


def test_file_is_what_perfetto_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    Trace({}, (Event(1500, Kind.CPU, "a", 1, 2500, cpu=3), Event(4000, Kind.COMPLETE, "a", 1, 4000))).save(path)
    entries = entries_of(path)
    interval = next(e for e in entries if e["ph"] == "X")
    assert (interval["ts"], interval["dur"], interval["name"]) == (1.5, 2.5, "a #1")
    assert {e["args"]["name"] for e in entries if e["name"] == "process_name"} == {"CPUs", "GPUs", "tasks"}
    assert {e["args"]["name"] for e in entries if e["name"] == "thread_name"} == {"CPU 3", "a", "all tasks"}


def test_responses() -> None:
    trace = Trace({}, (Event(5, Kind.COMPLETE, "a", 1, 3), Event(9, Kind.COMPLETE, "a", 2, 4)))
    assert [(r.job, r.release, r.response) for r in trace.responses()["a"]] == [(1, 2, 3), (2, 5, 4)]
    assert trace.observed_worst() == {"a": 4}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "complete JSON"),
        ("[1]", "not a trace"),
        ('{"traceEvents": []}', "not a trace"),
        ('{"otherData": {"format": "gpurt-trace", "version": 99}}', "version 99"),
        ('{"otherData": {"format": "gpurt-trace", "version": 5}, "traceEvents": []}', "version 5"),
        ('{"otherData": {"format": "gpurt-trace", "version": 6}}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 6}, "traceEvents": [{"ph": "i"}]}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 6}, "traceEvents": [3]}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 6, "tasks": {"a": {"no": 1}}}}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 6, "tasks": {"a": {"priority": "1"}}}}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 6, "tasks": [1]}}', "damaged"),
        ("[" * 100_000, "complete JSON"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FileError, match=words) as caught:
        load_trace(path)
    assert "\n" not in str(caught.value)


def test_missing_file() -> None:
    with pytest.raises(FileError, match="No such file"):
        load_trace("nowhere.json")


def test_a_trace_that_gzip_has_compressed(tmp_path: Path) -> None:
    """Viewers take such files.  A line says that a file is cut off or damaged."""
    plain, packed = tmp_path / "run.json", tmp_path / "run.json.gz"
    Trace({}, (Event(5_000_000, Kind.COMPLETE, "camera", 1, 5_000_000),)).save(plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load_trace(packed) == load_trace(plain)
    for raw, why in ((packed.read_bytes()[:-9], "cut off"), (b"\x1f\x8bnonsense", "damaged gzip file")):
        packed.write_bytes(raw)
        with pytest.raises(FileError, match=why):
            load_trace(packed)
