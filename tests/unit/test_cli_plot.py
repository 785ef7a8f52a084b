# SPDX-License-Identifier: GPL-2.0
"""Pictures that `gpurt trace plot` draws: what is in them, and the file that they are in."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import matplotlib as mpl
import pytest
from calls import Gpurt, caller

from analysis.traces.trace import About, Event, Kind, Trace

MS = 1_000_000
MAGIC = {"a.png": b"\x89PNG\r\n\x1a\n", "a.SVG": b"<?xml", "a.pdf": b"%PDF", "name": b"\x89PNG\r\n\x1a\n"}
#: low is preempted at 2 ms, late at 9 ms, and released again at 10 ms; high is in time.
EVENTS = (
    Event(0, Kind.RELEASE, "low"), Event(0, Kind.CPU, "low", 1, 1 * MS, cpu=2),
    Event(1 * MS, Kind.GPU, "low", 1, 1 * MS, gpu=0), Event(2 * MS, Kind.RELEASE, "high"),
    Event(2 * MS, Kind.PREEMPT, "low", gpu=0),
    Event(2 * MS, Kind.GPU, "high", 1, 3 * MS, gpu=0), Event(5 * MS, Kind.COMPLETE, "high", 1, 3 * MS),
    Event(9 * MS, Kind.COMPLETE, "low", 1, 9 * MS), Event(10 * MS, Kind.RELEASE, "low"),
)  # fmt: skip
TASKS = {"low": About(3, 8 * MS), "high": About(7, 4 * MS)}



@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capsys)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    Trace({"policy": "segment"}, EVENTS, TASKS, 12 * MS).save(path)
    return path


def words(gpurt: Gpurt, trace: Path, *options: str) -> list[str]:
    """The texts of the picture, from the top of each column down."""
    picture = trace.with_suffix(".svg")
    with mpl.rc_context({"svg.fonttype": "none"}):
        code, _, err = gpurt("trace", "plot", str(trace), "-o", str(picture), *options)
    assert (code, err) == (0, "")
    found = re.findall(r"<text[^>]*?(?:translate\(|x=\"|\by=\")[^>]*>([^<]*)</text>", picture.read_text())
    return [word.strip() for word in found]


def test_the_picture_names_what_it_shows(gpurt: Gpurt, trace: Path) -> None:
    shown = words(gpurt, trace)
    rows = ["GPU 0", "CPU 2", "high (7)", "low (3)"]
    assert [word for word in shown if word in rows] == rows
    legend = shown[shown.index("runlist update") - 2 :]
    assert legend[:3] == ["high", "low", "runlist update"]
    marks = {"release", "deadline", "completion", "completion, late", "preempted", "unfinished"}
    assert set(legend[3:]) - {""} == marks
    assert "policy: segment" in shown


def test_releases_at_0_are_shown(gpurt: Gpurt, trace: Path) -> None:
    """The window ends before the second release."""
    assert "release" in words(gpurt, trace, "--to", "1ms")
    assert "release" not in words(gpurt, trace, "--since", "3ms", "--to", "4ms")


def test_a_job_that_ends_in_the_window_is_not_unfinished(gpurt: Gpurt, trace: Path) -> None:
    assert "unfinished" not in words(gpurt, trace, "--to", "9500us")
    assert "unfinished" in words(gpurt, trace, "--since", "11ms", "--to", "12ms")


def test_best_effort_has_no_deadline(gpurt: Gpurt, trace: Path) -> None:
    Trace({}, EVENTS, {"low": About(0, 8 * MS)}).save(trace)
    shown = words(gpurt, trace)
    assert "low (best effort)" in shown
    assert "deadline" not in shown
    assert "completion, late" not in shown


@pytest.mark.parametrize("name", ["_private", "$x^{$", "a$b$c", "\u4e2d\u6587", "x" * 300])
def test_any_name_is_shown(gpurt: Gpurt, tmp_path: Path, name: str) -> None:
    path = tmp_path / "names.json"
    Trace({"taskset": name}, (Event(0, Kind.RELEASE, name), Event(9, Kind.GPU, name, 1, 5, gpu=0))).save(path)
    assert words(gpurt, path).count(name) == 2  # in its row and in the legend


def test_windows_of_every_length_have_a_unit(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    Trace({}, (Event(0, Kind.RELEASE, "a"), Event(10**12, Kind.COMPLETE, "a", 1, 10**12))).save(path)
    units = [words(gpurt, path, "--to", window) for window in ("9us", "4ms", "19s", "900s")]
    assert [unit in shown for unit, shown in zip(("ns", "us", "ms", "s"), units, strict=True)] == [True] * 4


@pytest.mark.parametrize("name", MAGIC)
def test_the_file_is_the_one_that_was_asked_for(gpurt: Gpurt, trace: Path, name: str) -> None:
    before = set(trace.parent.iterdir())
    output = trace.parent / name
    code, out, _ = gpurt("trace", "plot", str(trace), "-o", str(output), "--json")
    assert (code, json.loads(out)["files"]) == (0, [str(output)])
    assert set(trace.parent.iterdir()) - before == {output}
    assert output.read_bytes().startswith(MAGIC[name])


def test_unknown_suffixes_and_devices_are_errors(gpurt: Gpurt, trace: Path) -> None:
    before = set(trace.parent.iterdir())
    for name, code, says in (
        (str(trace.with_suffix(".gif")), 2, "pictures end in .png, .svg, .pdf"),
        ("/dev/full", 3, "cannot be written"),
        (str(trace.parent), 3, "cannot be written"),
        (str(trace.parent / "none" / "x.png"), 3, "cannot be written"),
    ):
        got, out, err = gpurt("trace", "plot", str(trace), "-o", name)
        assert (got, out) == (code, "")
        assert says in err
    assert set(trace.parent.iterdir()) == before
    assert not os.path.exists("/dev/full.png")


def test_the_trace_is_not_overwritten(gpurt: Gpurt, trace: Path) -> None:
    other = trace.rename(trace.with_suffix(".png"))
    before = other.read_bytes()
    assert gpurt("trace", "plot", str(other))[0] == 2
    assert other.read_bytes() == before


def test_segments_are_shown_where_no_job_is_known(gpurt: Gpurt, trace: Path) -> None:
    begin, end = Event(1, Kind.BEGIN, "a-1"), Event(5, Kind.END, "a-1")
    Trace({}, (begin, end)).save(trace)
    assert "GPU segment" in words(gpurt, trace)
    Trace({}, (Event(0, Kind.RELEASE, "a-1"), begin, end)).save(trace)
    assert "GPU segment" not in words(gpurt, trace)


def test_a_window_outside_the_trace_is_refused(gpurt: Gpurt, trace: Path) -> None:
    for options in (["--since", "5ms", "--to", "5ms"], ["--since", "13ms"]):
        code, _, err = gpurt("trace", "plot", str(trace), *options)
        assert code == 2
        assert "lasts 12.0 ms" in err


def test_a_trace_with_nothing_to_draw_is_no_wrong_usage(gpurt: Gpurt, tmp_path: Path) -> None:
    Trace({"policy": "segment"}, (), TASKS, 0).save(tmp_path / "a.json")
    code, _, err = gpurt("trace", "plot", str(tmp_path / "a.json"))
    assert (code, "no events" in err, err.count("\n")) == (3, True, 1)
