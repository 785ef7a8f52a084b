# SPDX-License-Identifier: GPL-2.0
"""Progress of commands that take long, and their answers to files that are too large."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis.answers import growth, sensitivity
from analysis.answers.sensitivity import Grows, Margin
from pycontrol.output import progress
from pycontrol.output.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
TASK = """
[[task]]
name = "t{number}"
cpu = 0
priority = {priority}
period = "10s"
segments = [{{ cpu = "1us" }}, {{ misc = "1us", gpu = "1us" }}]
"""


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capsys)


def written(path: Path, count: int, platform: str = 'policy = "segment"') -> str:
    tasks = "".join(TASK.format(number=number, priority=number % 99 + 1) for number in range(count))
    path.write_text(f'[platform]\ncpus = 1\nepsilon = "1us"\n{platform}\n{tasks}')
    return str(path)


def test_a_line_is_said_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "INTERVAL", 10.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress(40, "searching") as shown:
        for now[0] in (1.0, 5.0, 11.0, 12.0, 22.0):
            shown.update(1)
    assert capsys.readouterr() == ("", "searching: 3 of 40\nsearching: 5 of 40\n")


def test_what_is_too_large_is_refused_with_its_limit(gpurt: Gpurt, tmp_path: Path) -> None:
    """At once, and not as wrong usage: the file is right."""
    code, _, said = gpurt("analyze", written(tmp_path / "a.toml", 10_000))
    assert (code, said.count("\n")) == (3, 1)
    assert "10000 tasks; files of at most 5000 are read" in said
    file = written(tmp_path / "b.toml", 501)
    code, _, said = gpurt("margins", file)
    assert (code, said) == (1, "gpurt: gpurt margins searches files of at most 500 tasks; this one has 501\n")
    late = Path(written(tmp_path / "c.toml", 100))
    late.write_text(late.read_text().replace('epsilon = "1us"', 'epsilon = "1s"'))
    code, _, said = gpurt("plan priorities", str(late))
    assert code == 1
    assert "100 tasks use the GPU, but there are only 99 priorities" in said
    large = written(tmp_path / "d.toml", 1001, 'theta = "1ns"')
    code, _, said = gpurt("analyze", "--test", "lock-fifo-suspend", large)
    assert code == 1
    assert said.endswith("gpurt: lock-fifo-suspend takes at most 1000 tasks, and the file has 1001\n")


def test_what_a_search_has_found_until_ctrl_c_is_printed(gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch) -> None:
    def margins(*_: object) -> object:
        yield Margin(Grows.CPU, "detector", 1_000_000, sensitivity.UNLIMITED)
        raise KeyboardInterrupt

    monkeypatch.setattr(growth, "margins", margins)
    code, out, _ = gpurt("margins", str(ROOT / "examples/two-programs.toml"))
    assert code == 130
    assert "interrupted; 1 times were searched under boosted-suspend" in out
    assert "detector" in out
