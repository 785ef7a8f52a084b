# SPDX-License-Identifier: GPL-2.0
"""Powers fitted to measurements: exact data is recovered, what cannot be told is refused, and the authors' profiles."""

from __future__ import annotations

import os
from pathlib import Path

import energy_authors as authors
import energy_profiles as synthetic
import numpy as np
import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.energy import fit
from analysis.energy.fit import FitError
from analysis.energy.measured import MeasuredPower, load_measured
from analysis.model import Kernel, Span
from analysis.papers.energy import published
from gpurt.errors import TasksetError
from gpurt.units import format_power, parse_power

W = 1_000_000
PROFILES = os.environ.get("GPURT_SBEET_MG")
needs_profiles = pytest.mark.skipif(not PROFILES, reason="GPURT_SBEET_MG does not name the published profiles' folder")


def model(units: int, static: int, idle: int, powers: dict[str, int], kernels: tuple[tuple[str, int], ...]) -> int:
    """Equation 3.2, written down once more."""
    if not kernels:
        return static
    active = sum(count for _, count in kernels)
    return static + sum(count * powers[name] for name, count in kernels) + (units - active) * idle


def exact(units: int, static: int, idle: int, powers: dict[str, int], counts: list[int]) -> list[MeasuredPower]:
    every: list[tuple[tuple[str, int], ...]] = [(), *(((name, count),) for name in powers for count in counts)]
    return [MeasuredPower(one, model(units, static, idle, powers, one)) for one in every]


@settings(max_examples=tries(60))
@given(st.data())
@pytest.mark.parametrize("method", authors.METHODS)
def test_exact_measurements_are_explained_exactly(method: str, data: st.DataObject) -> None:
    units = data.draw(st.integers(2, 60))
    static, idle = data.draw(st.integers(0, 100 * W)), data.draw(st.integers(0, W))
    powers = data.draw(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5 * W), min_size=1))
    counts = [*data.draw(st.lists(st.integers(1, units - 1), min_size=1, unique=True)), units]
    measured = exact(units, static, idle, powers, counts)
    found = fit.fit(measured, units, None, authors.METHODS[method])
    assert found.static.power == static
    assert abs(found.idle.power - idle) <= 1
    assert all(abs(found.kernels[name].power - power) <= 1 for name, power in powers.items())
    assert abs(found.worst) <= 2 * units
    assert found.r2 is None or found.r2 > 0.999


def test_least_squares_by_hand() -> None:
    """M = 2, P^s = 0: P(1) = pd + p in {3, 5} W, P(2) = 2 pd = 6 W: pd = 3, p = 1; residuals -1, 1, 0; s^2 = 2."""
    measured = [MeasuredPower((("k", 1),), 3 * W), MeasuredPower((("k", 1),), 5 * W), MeasuredPower((("k", 2),), 6 * W)]
    found = fit.fit(measured, 2, 0)
    assert (found.kernels["k"].power, found.idle.power) == (3 * W, W)
    # (X'X)^-1 of rows (1, 1), (1, 1), (2, 0): [[1/4, -1/4], [-1/4, 3/4]]
    assert found.kernels["k"].error == round((2 / 4) ** 0.5 * W)
    assert found.idle.error == round((2 * 3 / 4) ** 0.5 * W)
    assert found.r2 == pytest.approx(1 - 2 / (14 - 14 + 4 + 2 / 3))
    assert found.mape == pytest.approx(100 * (1 / 3 + 1 / 5) / 3)
    assert (found.above, found.above_where) == (W, "k on 1 units")


def test_weights_are_those_of_the_errors() -> None:
    """Two measurements of the same: their mean, weighted by 1 and 1/9."""
    rows = [(1, 3 * W, 100), (1, 5 * W, 300), (2, 6 * W, 100)]
    found = fit.fit([MeasuredPower((("k", m),), power, error) for m, power, error in rows], 2, 0)
    assert found.idle.power == round((3 + 5 / 9) / (1 + 1 / 9) * W) - 3 * W
    unknown = [MeasuredPower((("k", m),), power, error if m == 2 else None) for m, power, error in rows]
    assert fit.fit(unknown, 2, 0).idle.power == W


def test_the_error_of_static_power_moves_all_others() -> None:
    """By the M-th part: adding c to P^s and taking c / M from p and every pd changes no prediction."""
    powers = {"a": 2 * W, "b": 3 * W}
    measured = exact(4, 20 * W, W, powers, [1, 2, 4])
    shifted = fit.fit(measured, 4, 24 * W)
    assert (shifted.idle.power, shifted.kernels["a"].power) == (0, W)
    noisy = [*measured, MeasuredPower((), 20 * W + 400), MeasuredPower((), 20 * W - 400)]
    found = fit.fit(noisy, 4)
    expected = float(np.std([0, 400, -400], ddof=1)) / 3**0.5
    assert found.static.error == round(expected)
    assert found.idle.error == round(expected / 4)


def test_what_cannot_be_told_is_refused_with_the_reason() -> None:
    powers = {"a": 2 * W, "b": 3 * W}
    whole = [one for one in exact(4, 20 * W, W, powers, [4]) if one.kernels]
    one_count = [one for one in exact(4, 20 * W, W, {"a": 2 * W}, [2]) if one.kernels]
    beside = MeasuredPower((("a", 1), ("c", 1)), 30 * W)
    for measured, static, why in [
        (whole, None, "static power is unknown"), (whole, 20 * W, "measured on all 4 units only"),
        (one_count, 20 * W, "idle power and that of a cannot be told apart"),
        ([], 20 * W, "no measurement of a single"),
        ([*exact(4, 20 * W, W, powers, [1, 4]), beside], None, "c was measured only beside other kernels"),
    ]:  # fmt: skip
        with pytest.raises(FitError, match=why):
            fit.fit(measured, 4, static)
    with pytest.raises(FitError, match="not measured on all 4 units, as the method `thesis` needs"):
        fit.fit(one_count, 4, 0, authors.METHODS["thesis"])
    with pytest.raises(FitError, match="measured on all 4 units only"):
        fit.fit(whole, 4, 0, authors.METHODS["thesis"])


def test_pairs_are_compared_and_not_fitted() -> None:
    powers = {"a": 2 * W, "b": 3 * W}
    measured = exact(4, 20 * W, W, powers, [1, 2, 4])
    pair = MeasuredPower((("a", 1), ("b", 2)), model(4, 20 * W, W, powers, (("a", 1), ("b", 2))) * 2)
    found = fit.fit([*measured, pair], 4)
    assert (found.idle.power, found.pairs, found.pairs_mape) == (W, 1, pytest.approx(50))
    assert found.above_where == "a on 1 units and b on 2 units"


def test_powers_that_no_gpu_has_are_flagged() -> None:
    found = fit.fit(exact(4, 20 * W, W, {"a": W // 2}, [1, 2, 4]), 4)
    assert [one for one in found.warnings if "draws less than an idle one" in one]
    found = fit.fit(exact(4, 20 * W, W, {"a": W}, [1, 4]), 4, 30 * W)
    assert [one for one in found.warnings if "idle power is negative" in one]


def test_files_of_measurements(tmp_path: Path) -> None:
    path = tmp_path / "powers.csv"
    head = "\ufeffgpu,clock,kernel,units,sensor,runs,power_uw,error_uw"
    path.write_text(head + "\ng,1725MHz,a+b,2+1,s,1,5000000,7\n,,,0,,,4000000,\n")
    assert load_measured(path, 4) == [
        MeasuredPower((("a", 2), ("b", 1)), 5 * W, 7, 2, "g", "1725MHz", "s"),
        MeasuredPower((), 4 * W, None, 3)]  # fmt: skip


def test_every_mistake_in_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "powers.csv"
    lines = {
        "a,5,1000": "units: 5 are more than the GPU's 4", "a,1,-5": "power_uw: is negative",
        "a,1,x": "power_uw: is 'x'",
        "a,0,5": "one positive number for each kernel", "a+b,1,5": "one positive number for each kernel",
        ",2,5": "units: '2' without a kernel", "a;b,1,5": "kernel: 'a;b' is no name", "a,3+2,5": "one positive number",
        "a+b,3+2,5": "units: 5 are more", "a,1": "fewer cells", "a,1,5,6": "fewer cells", "a,1,": "power_uw: is ''",
        "a,1,1.5": "power_uw: is '1.5'", "a,1,9999999999999": "at most 1 MW",
    }  # fmt: skip
    path.write_text("kernel,units,power_uw\n" + "\n".join(lines) + "\n")
    with pytest.raises(TasksetError) as caught:
        load_measured(path, 4)
    told = {problem.line: problem.message for problem in caught.value.problems}
    for number, message in enumerate(lines.values(), 2):
        assert message in told[number]
    path.write_text("kernel,power_uw\n")
    with pytest.raises(TasksetError, match=r"powers.csv:1: column units is missing"):
        load_measured(path, 4)
    path.write_bytes(b"kernel,units,power_uw\n\x00\xff,1,5\n")
    # Python 3.10 refuses the line before it counts it
    with pytest.raises(TasksetError, match=r"powers.csv:[12]:"):
        load_measured(path, 4)
    path.write_text("")
    with pytest.raises(TasksetError, match="column kernel is missing"):
        load_measured(path, 4)


@pytest.mark.parametrize("method", authors.METHODS)
def test_a_folder_in_the_authors_format_is_imported(tmp_path: Path, method: str) -> None:
    big, little = authors.load(synthetic.folder(tmp_path), method)
    assert (big.name, big.units, big.fit.static.power, big.fit.idle.power) == ("big", 6, 30 * W, W // 2)
    assert (little.name, little.units, little.fit.static.power, little.fit.idle.power) == ("little", 2, 8 * W, W // 4)
    assert {name: one.power for name, one in big.fit.kernels.items()} == {"alpha": 2 * W, "beta": 3 * W // 2}
    assert [(one.worst, one.best) for one in little.lines["beta"]] == [
        (90_600_000, 90_596_000), (45_300_000, 45_296_000)]  # fmt: skip


@given(st.integers(0, 10**12))
def test_powers_are_written_as_they_are_read(power: int) -> None:
    assert parse_power(format_power(power)) == power


#: Specification, section 6.5: uW; the method, P^s, p, and pd in this order.
NAMES = ("mmul", "stereodisparity", "hotspot", "dxtc", "bfs", "hist", "mmul2", "hist2")
LEAST = {
    "rtx3070": (46, 46, 0.2881, (3.978, 1.593, 1.198, 1.631, 0.978, 1.230, 3.326, 1.026), 0.9881, 3.18),
    "t400": (6, 8, 0.4258, (2.338, 0.898, 0.751, 1.074, 1.109, 1.282, 2.212, 1.146), 0.9279, 4.07),
}
#: Table 3.2, in the order of NAMES, W; hist and mmul2 are in the authors' code only.
TABLE = {
    "rtx3070": (0.439, (3.77, 1.63, 1.14, 1.67, 0.98, 1.08, 3.18, 0.91)),
    "t400": (0.492, (2.06, 0.98, 0.81, 1.15, 1.07, 1.29, 2.06, 1.19)),
}


@needs_profiles
def test_the_published_profiles_by_least_squares() -> None:
    for gpu in authors.load(Path(str(PROFILES)), "least-squares"):
        units, static, idle, powers, r2, mape = LEAST[gpu.name]
        assert (gpu.units, gpu.fit.static.power) == (units, static * W)
        assert gpu.fit.idle.power / W == pytest.approx(idle, abs=5e-5)
        assert [gpu.fit.kernels[name].power / W for name in NAMES] == pytest.approx(powers, abs=6e-4)  # rounded twice
        assert gpu.fit.r2 == pytest.approx(r2, abs=5e-5)
        assert gpu.fit.mape == pytest.approx(mape, abs=5e-3)


@needs_profiles
def test_the_published_profiles_by_the_published_recipe() -> None:
    """The dynamic powers of table 3.2 come out; the idle powers that it prints (0.445, 0.652) do not."""
    for gpu in authors.load(Path(str(PROFILES)), "thesis"):
        idle, powers = TABLE[gpu.name]
        assert gpu.fit.idle.power / W == pytest.approx(idle, abs=5e-4)
        assert [gpu.fit.kernels[name].power / W for name in NAMES] == pytest.approx(powers, abs=5.1e-3)


@needs_profiles
def test_the_published_times_are_those_that_experiments_use() -> None:
    theirs = published.load_published(Path(str(PROFILES)))
    for gpu in authors.load(Path(str(PROFILES)), "thesis"):
        for name, lines in gpu.lines.items():
            kernel = theirs[name].on[gpu.name]
            assert kernel.times == Kernel.measured([Span(one.worst, one.best) for one in lines])
