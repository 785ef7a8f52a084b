"""The trace format loses nothing, and a file that is no trace is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.trace import Event, Kind, Trace, load
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
)


@settings(max_examples=150, deadline=None)
@given(events=st.lists(EVENTS, max_size=20), meta=st.dictionaries(st.sampled_from(["policy", "source"]), st.text()))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, events: list[Event], meta: dict[str, str]) -> None:
    path = tmp_path_factory.getbasetemp() / "trace.json"
    trace = Trace(meta, tuple(events))
    trace.save(path)
    assert load(path) == trace


def test_file_is_what_perfetto_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    Trace({}, (Event(1500, Kind.CPU, "a", 1, 2500, cpu=3), Event(4000, Kind.COMPLETE, "a", 1, 4000))).save(path)
    entries = json.loads(path.read_text())["traceEvents"]
    interval = next(e for e in entries if e["ph"] == "X")
    assert (interval["ts"], interval["dur"], interval["tid"], interval["name"]) == (1.5, 2.5, 3, "a #1")
    assert {e["args"]["name"] for e in entries if e["ph"] == "M"} == {"CPUs", "GPUs", "tasks", "a"}


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
        ('{"otherData": {"format": "gpurt-trace", "version": 1}}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 1}, "traceEvents": [{"ph": "i"}]}', "damaged"),
        ('{"otherData": {"format": "gpurt-trace", "version": 1}, "traceEvents": [3]}', "damaged"),
        ("[" * 100_000, "complete JSON"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FileError, match=words) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_missing_file() -> None:
    with pytest.raises(FileError, match="No such file"):
        load("nowhere.json")
