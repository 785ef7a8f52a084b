# SPDX-License-Identifier: GPL-2.0
"""Kernels measured by number of units: gpurt_measure.h on a fake driver, compilers, and `gpurt measure kernels`."""

from __future__ import annotations

import json
import os
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from links import PATIENCE
from once import once
from sm_build import HERE, INCLUDE, ROOT, compiler, fake_driver, run

from analysis.rtgpu.observed import Case, How, Observed, PartitionSizes, cases
from gpurt.errors import FileError, GpurtError, RuntimeFailure, UsageError
from pycontrol import cli
from pycontrol.commands.kernels import kernels_command

SOURCE = ROOT / "userlib/examples/gpurt_measure.cu"
H200 = PartitionSizes(8, 8, 120, 132)


def _made(folder: Path) -> None:
    done = run(compiler("g++"), "-std=c++11", HERE / "measured.cpp", *fake_driver(folder), "-o", folder / "measured")
    assert not done.returncode, done.stderr


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels `compute` and `copy` on a fake GPU of 132 SMs."""
    return once(tmp_path_factory, "measured", _made) / "measured"


def times(program: Path, *words: str, **settings: str) -> list[int]:
    done = subprocess.run([program, "run", *words], capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={**os.environ, **settings})  # fmt: skip
    assert not done.returncode, done.stderr
    return [int(line) for line in done.stdout.split()]


def measured(*words: object) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(kernels_command, [*map(str, words), "--json"] if "--" not in words else
                              [str(word) for word in ("--json", *words)], standalone_mode=False)  # fmt: skip
    if done.exception:
        raise done.exception
    return done.return_value, json.loads(done.stdout)


def test_kernels_execute_on_the_units_that_are_asked_for(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for units, time in ((8, 16_500_000), (64, 2_062_500), (120, 1_100_000), (132, 1_000_000)):
        assert times(program, "compute", str(units), "3", "alone", FAKE_LOG=str(log)) == [time] * 3
    # a context of the first units of the split each, and the whole GPU without one
    assert log.read_text().split("\n")[:-1] == ["0 8", "0 64", "0 120"]


def test_what_else_executes_is_where_it_should_be(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    factors = {"FAKE_SAME": "1500", "FAKE_APART": "1200", "FAKE_LOG": str(log)}
    assert times(program, "copy", "56", "2", "alone", **factors) == [2_000_000] * 2
    assert times(program, "copy", "56", "2", "twice", **factors) == [3_000_000] * 2
    assert times(program, "copy", "56", "2", "same", "compute", **factors) == [3_000_000] * 2
    assert times(program, "copy", "56", "2", "apart", "copy", **factors) == [2_400_000] * 2
    assert times(program, "copy", "56", "2", "apart", "compute", **factors) == [2_000_000] * 2
    assert log.read_text().split("\n")[:-1] == ["0 56"] * 4 + ["56 64"] + ["0 56"] + ["56 64"]


@pytest.mark.parametrize(("words", "code", "says"), [
    (["run", "copy", "9", "1", "alone"], 2, "9 units: no partition of this GPU has so many units"),
    (["run", "copy", "128", "1", "alone"], 2, "no partition"),
    (["run", "copy", "120", "1", "apart", "copy"], 2, "no units are left"),
    (["run", "none", "8", "1", "alone"], 2, "usage"), (["run", "copy", "8", "1", "same"], 2, "usage"),
    (["run", "copy", "8", "0", "alone"], 2, "usage"), ([], 2, "usage"),
])  # fmt: skip
def test_a_program_says_what_is_wrong(program: Path, words: list[str], code: int, says: str) -> None:
    done = run(program, *words)
    assert done.returncode == code
    assert says in done.stderr
    assert not done.stdout


def test_a_driver_that_gives_other_units_ends_the_measurement(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MORE", "2")
    done = run(program, "run", "copy", "8", "1", "alone")
    assert (done.returncode, done.stdout) == (5, "")
    assert "10 SMs instead of 8" in done.stderr
    monkeypatch.setenv("FAKE_NO_GPU", "1")
    with pytest.raises(RuntimeFailure, match="cuInit: CUDA_ERROR_NO_DEVICE"):
        measured("--", program)


def test_its_document_is_one_of_the_schema(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schema = json.loads((ROOT / "docs/output.schema.json").read_text())
    assert cli.run(["measure", "kernels", "--runs", "1", "--units", "8,132", "--json", "--", str(program)]) == 0
    document = json.loads(capfd.readouterr().out)
    jsonschema.validate(document, schema)
    assert document["command"] == "measure kernels"
    assert [one["intensity"] for one in document["kernels"]] == ["compute", "memory"]


def test_the_command_finds_what_the_gpu_is_like(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times and factors go on into the taskset file."""
    monkeypatch.setenv("FAKE_SAME", "1700")
    code, found = measured("--runs", 2, "-o", tmp_path, "--", program)
    assert code == 0
    asked = ("least_units", "unit_step", "most_units", "all_units", "pair_units")
    assert [found[one] for one in asked] == [8, 8, 120, 132, 56]
    by_name = {one["name"]: one for one in found["kernels"]}
    assert {name: one["intensity"] for name, one in by_name.items()} == {"compute": "compute", "copy": "memory"}
    assert by_name["copy"]["interleave_thousandths"] == by_name["copy"]["conflict_thousandths"] == 1700
    assert by_name["copy"]["cross_thousandths"] == 1250
    assert by_name["compute"]["cross_thousandths"] is None
    assert [one["units"] for one in by_name["copy"]["times"]] == [8, 16, 32, 56, 64, 80, 120, 132]
    head, *kept = (tmp_path / "copy.csv").read_text().splitlines()
    assert head == "units,time"
    assert sorted({(*map(int, line.removesuffix("ns").split(",")),) for line in kept}) == [
        (one["units"], one["worst_ns"]) for one in by_name["copy"]["times"]
    ]
    # what was there is continued
    measured("--runs", 2, "--units", 8, "--no-pairs", "--kernel", "copy", "-o", tmp_path, "--", program)
    assert (tmp_path / "copy.csv").read_text().count("8,10000000ns\n") == 4


@pytest.mark.parametrize(("words", "wrong", "says"), [
    (["--kernel", "none"], UsageError, "has no 'none'; it has compute, copy"),
    (["--units", "8,9"], UsageError, "'9' is no number that a partition has: 8 to 120 in steps of 8, or all 132"),
    (["--units", "x"], UsageError, "'x'"),
    (["-o", "/proc/none", "--units", "8"], FileError, "/proc/none"),
])  # fmt: skip
def test_wrong_use(program: Path, words: list[str], wrong: type[GpurtError], says: str) -> None:
    with pytest.raises(wrong) as told:
        measured(*words, "--", program)
    assert says in str(told.value)


def test_a_file_of_something_else_is_not_continued(program: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.csv").write_text("a,b\n")
    with pytest.raises(FileError, match=r"copy\.csv: is no file of times"):
        measured("--runs", 1, "--units", 8, "-o", tmp_path, "--", program)
    assert (tmp_path / "copy.csv").read_text() == "a,b\n"
    (tmp_path / "copy.csv").write_text("units,time\n8,20ns\n1")  # the next line would be of 18 units
    with pytest.raises(FileError, match=r"copy\.csv: its last line is cut"):
        measured("--runs", 1, "--units", 8, "-o", tmp_path, "--", program)


#: A script that has a kernel, and goes on if it is to be run.
OFFER = "[ $1 = run ] || { echo units 1 1 2 2; echo mechanism m; echo kernel k; exit; }"


@pytest.mark.parametrize(("body", "says"), [
    ("echo hello", "is no program of gpurt_measure.h; it says hello"),
    ("true", "is no program of gpurt_measure.h"),
    ("echo units 8 8 4 132; echo mechanism m; echo kernel k", "is no program of gpurt_measure.h"),
    ("echo boom >&2; exit 5", "boom"),
    (f"{OFFER}; echo 50; printf 5", "the last line of its output is cut"),
    (f"{OFFER}; echo 5", "1 times instead of 2"), (f"{OFFER}; echo 0; echo x", "0 is no time of a"),
])  # fmt: skip
def test_a_program_that_is_none_of_ours(tmp_path: Path, body: str, says: str) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    with pytest.raises(RuntimeFailure) as told:
        measured("--runs", 2, "--", script)
    assert says in str(told.value)


def test_what_is_known_only_if_it_was_measured() -> None:
    """Definition 1 needs times on 60 % of the units and on all; factors need the kernel alone on as many units."""
    seen = Observed(H200)
    seen.add(Case("k", 80), [110, 100])
    assert seen.memory_bound("k") is None
    seen.add(Case("k", 132), [95])
    assert seen.memory_bound("k") is True  # 100 against 95: 110 was an outlier
    seen.add(Case("k", 132), [90])
    assert seen.memory_bound("k") is False
    seen.add(Case("k", 56, How.SAME, "k"), [300])
    assert seen.factor(Case("k", 56, How.SAME, "k")) is None
    seen.add(Case("k", 56), [150, 120])
    assert seen.conflict("k", {"k": False}, How.SAME) == 2
    assert seen.conflict("k", {"k": None}, How.SAME) is None
    assert seen.interleave("k") is None
    seen.add(Case("k", 56, How.TWICE), [200, 280])
    assert seen.interleave("k") == Fraction(280, 150)


def test_numbers_of_units_are_those_of_the_gpu() -> None:
    assert H200.some() == (8, 16, 32, 64, 80, 120, 132)
    assert PartitionSizes(1, 1, 6, 6).some() == (1, 2, 4, 6)
    assert PartitionSizes(2, 2, 80, 80).some() == (2, 4, 8, 16, 32, 48, 64, 80)
    assert [units.half for units in (H200, PartitionSizes(1, 1, 6, 6), PartitionSizes(8, 8, 8, 14))] == [56, 3, 0]
    assert not [one for one in cases(PartitionSizes(8, 8, 8, 14), ["k"], [8], 8) if one.how is How.APART]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_nvcc_builds_the_example(tmp_path: Path, arch: str) -> None:
    strict = ("-Werror", "all-warnings", f"-arch={arch}", f"-I{INCLUDE}")
    done = run(compiler("nvcc"), *strict, "-c", SOURCE, "-o", tmp_path / "o")
    assert not done.returncode, done.stderr


def test_the_part_for_amd_compiles_with_hips_headers(tmp_path: Path) -> None:
    source = tmp_path / "none.cpp"
    source.write_text('''#include <gpurt_measure.h>
static void none(gpurt_measure_stream) {}
int main(int count, char **words) { return gpurt_measure_main(count, words, { { "none", none } }); }
''')
    hip = pytest.importorskip("hip_headers")
    done = run(compiler("g++"), "-std=c++17", "-Wall", f"-I{INCLUDE}", *hip.flags(), "-fsyntax-only", source)
    assert not done.returncode, done.stderr
