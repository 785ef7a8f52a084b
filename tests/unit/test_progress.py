# SPDX-License-Identifier: GPL-2.0
"""Progress of commands that take long, and their answers to files that are too large."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from calls import Gpurt, caller, rest_of

from analysis.answers import compiled, growth, registry, sensitivity
from analysis.answers.sensitivity import Grows, Margin
from pycontrol.commands import simulate
from pycontrol.output import progress, render
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


def test_notes_of_one_kind_are_one_line_and_the_verdict_is_the_last(
    gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 99 priorities for 130 tasks, hence 62 notes; a terminal of 24 lines shows the end of the table."""
    file = written(tmp_path / "a.toml", 130)
    code, out, said = gpurt("analyze", file)
    assert (code, said.count("have the same priority")) == (0, 3)
    assert said.count("\n") == 1
    assert "; and 59 more of this kind (--json has all): the one that comes first goes first" in said
    assert len(json.loads(gpurt("analyze", file, "--json")[1])["notes"]) == 62
    assert gpurt("report", file, "-o", tmp_path / "page.html")[0] in (0, 1)
    assert (tmp_path / "page.html").read_text().count("have the same priority") == 3
    assert not out.endswith("schedulable\n")
    monkeypatch.setattr(render, "is_terminal", lambda stream: True)
    monkeypatch.setenv("LINES", "24")
    assert gpurt("analyze", file)[1].endswith("\nschedulable\n")
    assert not gpurt("analyze", str(ROOT / "examples/two-programs.toml"))[1].endswith("\nschedulable\n")
    Path(file).write_text(Path(file).read_text().replace("10s", "130us"))
    *_, last = gpurt("analyze", file)[1].splitlines()
    assert last.startswith("NOT PROVED: ")
    assert gpurt("simulate", file, "--runs", "1")[1].endswith("\nNOT IN TIME\n")


def test_many_runs_of_many_jobs_are_said_to_take_minutes_before_they_begin(
    gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "a.toml", 2, "theta = \"1ns\"")
    assert gpurt("simulate", file, "--runs", "9")[2] == ""
    monkeypatch.setattr(simulate, "MANY_JOBS", 200)  # of 2 tasks, each with 20 jobs a run
    assert gpurt("simulate", file, "--runs", "5")[2] == ""
    _, _, said = gpurt("simulate", file, "--runs", "9")
    assert said == "note: 9 runs of 40 jobs each take minutes; --runs 1 takes a 9th of that\n"


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
    known = compiled.run_compiled

    def margins(*_: object) -> object:
        yield Margin(Grows.CPU, "detector", 1_000_000, sensitivity.UNLIMITED)
        raise KeyboardInterrupt

    def run(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(growth, "time_margins", margins)
    code, out, _ = gpurt("margins", str(ROOT / "examples/two-programs.toml"))
    assert code == 130
    assert "interrupted; 1 times were searched under boosted-suspend" in out
    assert "detector" in out
    first = next(iter(registry.TESTS.values()))
    monkeypatch.setattr(compiled, "run_compiled", lambda test, system: known(test, system) if test is first else run())
    code, out, said = gpurt("plan modes", str(ROOT / "examples/two-programs.toml"))
    assert code == 130
    assert out.startswith("interrupted; 1 ways were compared, others may be better:\npolicy")
    code, out, said = gpurt("plan modes", str(ROOT / "examples/two-programs.toml"), "--json")
    assert (code, out, json.loads(said)["error"]["message"]) == (130, "", "interrupted")


def test_analyze_shows_that_it_computes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Also while it looks for what would help, which takes longer than a no; nobody knows how many steps that is."""
    made: list[Progress] = []
    monkeypatch.setattr(render, "progress", lambda *words: made.append(Progress(*words, shown=False)) or made[-1])
    assert caller(capfd)("analyze", ROOT / "examples/minimal.toml")[0] == 0
    assert [(one.length, one.label) for one in made] == [(0, "analyzing")]


def test_setup_says_each_step_and_shows_its_output_on_a_terminal() -> None:
    text = (ROOT / "scripts/setup").read_text(encoding="utf-8")
    functions = text[text.index("say() {") : text.index("python_has() {")]
    script = f"{functions}\nstep 'one step' echo of pip\nstep 'the next' sh -c 'echo why; exit 1'\n"
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
    said = "gpurt setup: one step\ngpurt setup: the next\nwhy\ngpurt setup: the next failed; the output is above\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    master, terminal = pty.openpty()
    assert subprocess.run(["bash", "-euc", script], stdout=subprocess.DEVNULL, stderr=terminal, check=False).returncode
    os.close(terminal)
    shown = rest_of(master).decode().replace("\r\n", "\n")
    os.close(master)
    assert shown == said.replace("one step\n", "one step\nof pip\n")
