# SPDX-License-Identifier: GPL-2.0
"""Folders that tests share are made once, by the first that can, and again for a test that a standstill had fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import standstill
from once import once

TESTS = Path(__file__).resolve().parents[1]
WORKERS = """
import os, time
from pathlib import Path
import pytest
from once import once

@pytest.mark.parametrize("number", range(4))
def test_it(number, tmp_path_factory):
    def make(folder):
        with Path("made").open("a") as file:
            file.write("x")
        time.sleep(0.1)
        (folder / "result").write_text("whole")
    assert (once(tmp_path_factory, "it", make) / "result").read_text() == "whole"
"""


def test_workers_share_what_one_of_them_makes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(WORKERS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/base"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(TESTS)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "made").read_text() == "x"


def test_what_failed_is_made_by_the_next(tmp_path_factory: pytest.TempPathFactory) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        once(tmp_path_factory, "fails", fails)
    folder = once(tmp_path_factory, "fails", lambda folder: (folder / "whole").touch())
    assert [file.name for file in folder.iterdir()] == ["whole"]


def test_a_test_that_is_run_again_gets_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = once(tmp_path_factory, "again", lambda folder: (folder / "bad").touch())
    monkeypatch.setattr(standstill, "attempt", 1)
    second = once(tmp_path_factory, "again", lambda folder: (folder / "good").touch())
    assert ([file.name for file in first.iterdir()], [file.name for file in second.iterdir()]) == (["bad"], ["good"])
