# SPDX-License-Identifier: GPL-2.0
"""kernel-fit: a formula or a table from measurements, and where the formula is no bound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from analysis.model import MS, Kernel, Span
from analysis.rtgpu import fit
from analysis.taskset import load
from gpurt.errors import FileError
from pycontrol import cli

#: Medians on a GTX 1080 Ti with 1 to 28 SMs, in ms, as RTGPU's authors measured them (2^18 items, 100 runs each).
AUTHORS = (
    7001.5, 3456, 2324, 1745, 1415, 1205, 1042, 878, 822, 713, 659, 610, 555, 554, 500, 445, 445, 445, 398, 405, 424,
    377, 416, 398, 422, 375, 378, 371,
)  # fmt: skip


def unreached(found: Kernel, measured: fit.MeasuredSpans) -> list[tuple[int, int, int]]:
    """Where a formula's lower bound is none: units, measured and computed time, ns."""
    pairs = [(units, span.best, found.on(units).best) for units, span in measured.spans.items()]
    return [one for one in pairs if one[1] < one[2]]


@pytest.fixture
def times(tmp_path: Path) -> Path:
    path = tmp_path / "times.csv"
    lines = [f"{units},{time}ms" for units, time in enumerate(AUTHORS, 1)]
    path.write_text("units,time\n" + "\n".join(lines) + "\n")
    return path


def test_the_authors_measurements_are_not_monotone(times: Path) -> None:
    measured = fit.read_rows(times)
    assert measured.slower == (20, 21, 23, 24, 25, 27)
    table = fit.times_table(measured)
    found = table.up_to(28)
    assert [time.worst for time in found] == sorted((time.worst for time in found), reverse=True)
    assert found[24].worst == found[21].worst == 377 * MS


def test_the_formula_is_the_least_that_bounds_all(times: Path) -> None:
    measured = fit.read_rows(times)
    for interleave in (1000, 1800, 2000):
        found = fit.formula(measured, interleave)
        assert not fit.unbounded(found, measured)
        assert not unreached(found, measured)
        assert found.overhead > 0
        assert fit.unbounded(fit.formula(measured, interleave, found.overhead - 2), measured), "except for rounding"
    assert 0.015 < fit.formula(measured, 2000).overhead / found.work.worst < 0.025


def test_a_lower_bound_above_what_was_measured_is_none(times: Path) -> None:
    measured = fit.read_rows(times)
    found = fit.formula(measured, 2000)
    slow = replace(found, work=Span.exactly(100 * found.work.worst))
    assert unreached(slow, measured) == [
        (units, span.best, slow.on(units).best) for units, span in measured.spans.items()
    ]


def test_an_overhead_that_is_too_small_is_no_bound(times: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With 7.6 ms the formula is too low from some number of SMs on, as the specification says."""
    assert cli.run(["measure", "kernels", "--from", str(times), "--formula", "overhead=7.6ms", "--json"]) == 1
    beyond = [row["units"] for row in json.loads(capfd.readouterr().out)["unbounded"]]
    assert 18 in beyond
    assert 28 in beyond
    assert 2 not in beyond


@pytest.mark.parametrize("options", [[], ["--table"], ["--formula", "interleave=1.8"]])
def test_what_is_printed_is_a_segment(
    times: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert cli.run(["measure", "kernels", "--from", str(times), *options]) == 0
    segment = capfd.readouterr().out.strip()
    file = tmp_path / "set.toml"
    file.write_text(
        '[platform]\ncpus = 1\nepsilon = "0ns"\ncompute_units = 28\n[[task]]\nname = "a"\ncpu = 0\npriority = 1\n'
        f'period = "100s"\nsegments = [{segment}]\n'
    )
    part = load(file).taskset.tasks[0].gpu_segments[0].parts[0]
    assert isinstance(part, Kernel)
    measured = fit.read_rows(times)
    assert part == (fit.times_table(measured) if options == ["--table"] else
                    fit.formula(measured, 1800 if options else 2000))  # fmt: skip


def test_several_times_of_a_number_and_holes(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("1,9ms\n4,3ms\n1,8ms\n\n4,2.5ms\n")
    measured = fit.read_rows(path)
    assert (measured.spans, measured.missing) == ({1: Span(9 * MS, 8 * MS), 4: Span(3 * MS, 2500000)}, (2, 3))
    assert [time.worst for time in fit.times_table(measured).times] == [9 * MS, 9 * MS, 9 * MS, 3 * MS]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no measurement"), ("1;5ms\n", ":1: expected units,time"), ("1,5ms\n0,5ms\n", ":2: expected a number"),
        ("1,5ms\nx,5ms\n", ":2: expected a number"), ("1,5\n", 'has no unit'), ("1,0ms\n", "takes longer than 0"),
        ("1,-5ms\n", ":1: expected a time"), ("9999999999999,1ms\n", ":1: expected a number"),
        ("²,1ms\n", ":1: expected a number"), ("1,5ms\n0000000014096,5ms\n", ":2: expected a number"),
        ("1," + "9" * 200_000 + "ms\n", ":1: field larger"), ('1,5ms\n"2,5ms\n3,4ms"\n', ":2: expected units,time"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_their_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(FileError, match=says):
        fit.read_rows(path)


def test_the_command_refuses_what_it_cannot_fit(
    tmp_path: Path, times: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.csv"
    path.write_text("2,5ms\n")
    assert cli.run(["measure", "kernels", "--from", str(path)]) == 3
    assert "if no task gets fewer than 2, say --formula minimum=2" in capfd.readouterr().err
    assert cli.run(["measure", "kernels", "--from", str(path), "--formula", "minimum=2"]) == 0
    assert capfd.readouterr().out == '{ kernel = "10ms", overhead = "0ns", interleave = "2" }\n'
    assert cli.run(["measure", "kernels", "--from", str(path), "--formula", "minimum=3"]) == 3
    assert "3 units was not measured" in capfd.readouterr().err
    assert cli.run(["measure", "kernels", "--from", str(times), "--formula", "minimum=2", "--table"]) == 2
    assert cli.run(["measure", "kernels", "--from", str(tmp_path / "none.csv")]) == 3
    assert cli.run(["measure", "kernels", "--from", str(times), "--table", "--formula", "overhead=1ms"]) == 2
    assert cli.run(["measure", "kernels", "--from", str(times), "--formula", "overhead=9000s"]) == 3
    assert cli.run(["measure", "kernels", "--from", str(times), "--formula", "interleave=nan"]) == 2
    assert [cli.run(["measure", "kernels", "--from", str(times), "--formula", f"interleave={factor}"])
            for factor in ("0.99", "1", "2", "2.01")] == [2, 0, 0, 2]  # fmt: skip


@pytest.mark.parametrize("command", [
    ["measure", "kernels", "--from", "TIMES"], ["measure", "kernels", "--from", "TIMES", "--formula", "overhead=7.6ms"],
    ["measure", "kernels", "--from", "TIMES", "--table"],
    ["analyze", "EXAMPLE", "--test", "rtgpu"], ["margins", "EXAMPLE", "--test", "rtgpu-tight"],
])  # fmt: skip
def test_documents_are_as_the_schema_says(
    times: Path, capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    root = Path(__file__).resolve().parents[2]
    names = {"TIMES": str(times), "EXAMPLE": str(root / "examples/federated.toml")}
    assert cli.run([*(names.get(word, word) for word in command), "--json"]) in (0, 1)
    document = json.loads(capfd.readouterr().out)
    jsonschema.validate(document, json.loads((root / "docs/output.schema.json").read_text()))
