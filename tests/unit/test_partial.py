# SPDX-License-Identifier: GPL-2.0
"""A trace that goes to disk as it comes is read, wherever it was cut off."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from analysis.traces.partial import Partial
from analysis.traces.trace import CUT_OFF_TRACE, Event, Kind, Trace, load_trace
from gpurt.errors import FileError

EVENTS = [
    Event(5, Kind.BEGIN, "a", gpu=0),
    Event(7, Kind.GRANT, "a", gpu=0, detail='quotes " and\nlines'),
    Event(9, Kind.COMPLETE, "b", 3, 4),
    Event(11, Kind.END, "a", gpu=0),
]


def cut_off(last: int) -> Event:
    return Event(last, Kind.LOST, detail=CUT_OFF_TRACE)


def test_what_came_is_read_and_said_to_be_cut_off(tmp_path: Path) -> None:
    partial = Partial(tmp_path / "run.json", {"source": "runtime"})
    assert load_trace(partial.path).events == (cut_off(0),)
    partial.add(EVENTS[:1])
    assert load_trace(partial.path).events == (EVENTS[0], cut_off(5))
    partial.add(EVENTS[1:])
    found = load_trace(partial.path)
    assert found.events == (*EVENTS, cut_off(11))
    assert found.meta == {"source": "runtime"}


def test_it_is_read_wherever_it_ends(tmp_path: Path) -> None:
    partial = Partial(tmp_path / "run.json", {"source": "runtime"})
    head = partial.path.stat().st_size
    partial.add(EVENTS)
    whole = partial.path.read_bytes()
    seen = set()
    for end in range(head, len(whole) + 1):
        partial.path.write_bytes(whole[:end])
        events = load_trace(partial.path).events
        assert list(events[:-1]) == EVENTS[: len(events) - 1]
        assert events[-1].detail == CUT_OFF_TRACE
        seen.add(len(events) - 1)
    assert seen == {0, 1, 2, 3, 4}


def test_a_whole_trace_that_is_cut_off_is_damaged_as_before(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    Trace({"source": "runtime"}, tuple(EVENTS)).save(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FileError, match="complete JSON"):
        load_trace(path)


def test_it_goes_when_the_whole_trace_is_there(tmp_path: Path) -> None:
    partial = Partial(tmp_path / "run.json", {})
    partial.add(EVENTS)
    partial.over()
    assert not list(tmp_path.iterdir())


def test_there_is_none_beside_a_pipe() -> None:
    partial = Partial(Path("/dev/stdout"), {})
    partial.add(EVENTS)
    assert not partial.path.exists()


def test_a_full_disk_ends_the_writing_and_nothing_else(tmp_path: Path) -> None:
    partial = Partial(tmp_path / "run.json", {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (partial.path.stat().st_size + 200, before[1]))
    try:
        for event in EVENTS:
            partial.add([event])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "not on disk before the end" in partial.failed
    assert load_trace(partial.path).events[0] == EVENTS[0]
    assert str(partial.path) in str(partial.kept(FileError("no room")))
