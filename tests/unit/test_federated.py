# SPDX-License-Identifier: GPL-2.0
"""Allocation of units as a command gives it, and how much may change before a task misses."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import click
import pytest

from analysis.rtgpu.method import METHODS
from analysis.rtgpu.sensitivity import Limits, limits
from analysis.taskset import load
from gpurt.errors import UsageError
from pycontrol import cli
from pycontrol.commands.federated import federated

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/federated.toml"


def run(capfd: pytest.CaptureFixture[str], **changes: object) -> tuple[int, str]:
    arguments: dict[str, object] = {
        "file": EXAMPLE, "name": "rtgpu", "total": None, "objective": "least", "frontier": False, "writer": None,
        "as_json": False,
    }  # fmt: skip
    with click.Context(click.Command("partition"), info_name="partition"):
        code = federated(**{**arguments, **changes})  # type: ignore[arg-type]
    return code, capfd.readouterr().out


def test_the_least_allocation_is_shown_and_written(capfd: pytest.CaptureFixture[str]) -> None:
    written: list[tuple[Path, dict[str, int]]] = []
    code, text = run(capfd, writer=lambda file, units: written.append((file, dict(units))))
    assert code == 0
    assert "4 of 7 units suffice under rtgpu" in text
    assert written == [(EXAMPLE, {"t1": 2, "t2": 1, "t3": 1})]


def test_the_objective_slack_uses_more_units(capfd: pytest.CaptureFixture[str]) -> None:
    code, text = run(capfd, objective="slack")
    assert code == 0
    assert "4 of 7 units" not in text


def test_too_few_units_are_a_no_that_names_what_lacks(capfd: pytest.CaptureFixture[str]) -> None:
    written: list[object] = []
    code, text = run(capfd, total=2, writer=lambda *arguments: written.append(arguments))
    assert code == 1
    assert "3 tasks have kernels and need 3 units" in text
    code, text = run(capfd, total=3)
    assert code == 1
    assert "t1: exceeds its deadline of 25 ms by at least" in text
    assert written == []


def test_an_unsound_test_proves_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    code, text = run(capfd, name="rtgpu-expected")
    assert code == 1
    assert "rtgpu-expected is unsound" in text


def test_the_frontier_has_a_row_for_each_number_of_units(capfd: pytest.CaptureFixture[str]) -> None:
    code, text = run(capfd, frontier=True, as_json=True)
    rows = [(row["task"], row["units"]) for row in json.loads(text)["frontier"]]
    assert code == 0
    assert rows == [(f"t{i}", count) for i, most in ((1, 5), (2, 4), (3, 4)) for count in range(1, most + 1)]


@pytest.mark.parametrize("changes", [{"name": "gcaps-busy"}, {"objective": "most"}])
def test_wrong_options_are_refused(capfd: pytest.CaptureFixture[str], changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        run(capfd, **changes)


def test_limits_of_the_example() -> None:
    taskset, method = load(EXAMPLE).taskset, METHODS["rtgpu"]
    found = limits(method, taskset)
    assert (found.units, found.chunk) == (4, 0)
    assert found.interleave == 2, "even the most interleaving leaves room on seven units"
    assert found.overhead is not None
    assert found.overhead > 1
    assert found.copies is not None
    assert 1 < found.copies < 2


def test_limits_where_nothing_passes(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(EXAMPLE.read_text().replace('deadline = "25ms"', 'deadline = "5ms"'))
    assert limits(METHODS["rtgpu"], load(path).taskset) == Limits(None, None, None, None, None)


def test_chunks_help_where_a_lower_copy_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    text = EXAMPLE.read_text().replace('{ copy = "4ms" }', '{ copy = "9ms" }')
    path.write_text(text.replace('deadline = "90ms"', 'deadline = "160ms"').replace('"25ms"', '"20ms"'))
    found = limits(METHODS["rtgpu"], load(path).taskset)
    assert found.chunk
    assert 0 < found.chunk < 9 * 10**6


def test_sensitivity_says_the_limits(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["sensitivity", str(EXAMPLE), "--test", "rtgpu", "--json"]) == 0
    data = json.loads(capfd.readouterr().out)
    assert data["limits"]["units"] == 4
    assert Fraction(str(data["limits"]["interleave_factor"])) == 2
    assert cli.run(["sensitivity", str(EXAMPLE), "--test", "rtgpu"]) == 0
    assert "fewest units" in capfd.readouterr().out
