# SPDX-License-Identifier: GPL-2.0
"""`[[resource]]` in taskset files: what is read, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis.model import Protocol, Section
from analysis.taskset import load

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "examples/locks.toml").read_text()


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def test_the_example_is_read() -> None:
    grid, bus = load(ROOT / "examples/locks.toml").taskset.resources
    assert (grid.name, grid.protocol, bus.protocol) == ("grid", Protocol.INHERITANCE, Protocol.SPIN)
    assert grid.sections == (Section("control", 100_000), Section("map", 600_000, 3))


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('task = "map", time', 'task = "mop", time', 31, 'sections: no [[task]] is called "mop"'),
        ('"600us", times = 3', '"4.1ms"', 31, "sections: a section is a part of a CPU segment, and map has none"),
        ("times = 3", "times = 30", None, "sections of map take longer together than its CPU segments"),
        ('"spin" ', '"ceiling"', 36, "control and io are on different CPUs: protocol ceiling is for one"),
        ('"inheritance"', '"mutex"', 30, 'protocol: expected "inheritance" or "ceiling" or "spin"'),
        ('"grid"', '"bus"', 34, 'name: "bus" is taken by resource 1 already'),
        (TEXT.splitlines()[-1], "sections = []", 36, "sections: expected an array of sections, got an empty array"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(
    gpurt: Gpurt, tmp_path: Path, old: str, new: str, line: int | None, said: str
) -> None:  # fmt: skip
    path = tmp_path / "wrong.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new))
    code, out, err = gpurt("analyze", str(path))
    assert (code, out, len(err.splitlines())) == (3, "", 1), err
    assert said in err, err


def test_plans_refuse_resources(gpurt: Gpurt) -> None:
    code, out, err = gpurt("plan", "partitions", str(ROOT / "examples/locks.toml"))
    assert code != 0
    assert "[[resource]]" in out + err


def test_the_report_says_what_is_assumed_of_sections(gpurt: Gpurt, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert gpurt("report", str(ROOT / "examples/locks.toml"), "--elsewhere", "-o", str(page))[0] == 0
    assert "No critical section takes longer than the file says, or nests, or sleeps." in page.read_text()
