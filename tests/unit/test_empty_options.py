# SPDX-License-Identifier: GPL-2.0
"""Options whose value is empty, as from a script's unset variable, are refused: they do not count as left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import caller

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples/minimal.toml"


@pytest.mark.parametrize(
    ("command", "option"),
    [("analyze", "--region"), ("analyze", "--test"), ("analyze", "--explain"), ("plan priorities", "--test"),
     ("margins", "--test"), ("report", "--test"), ("simulate", "--policy"), ("watch", "--test"),
     ("run", "--policy")],
)  # fmt: skip
def test_an_empty_value_is_no_default(capfd: pytest.CaptureFixture[str], command: str, option: str) -> None:
    code, out, err = caller(capfd)(command, FILE, option, "", *(["-o", "/dev/null"] if command == "report" else []))
    assert (code, out) == (2, "")
    assert option in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["emulate", "--socket", ""], ["serve", "--energy-file", ""], ["experiment", "run", "gcaps-fig8a", "-o", ""]]
)
def test_an_empty_path_is_not_this_folder(capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, out, err = caller(capfd)(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is empty; leave the option out" in err
