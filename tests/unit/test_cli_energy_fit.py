# SPDX-License-Identifier: GPL-2.0
"""`gpurt energy fit` and `import`: what they print, write and refuse."""

from __future__ import annotations

from pathlib import Path

import energy_profiles as synthetic
import pytest
from calls import Gpurt, caller
from energy_calls import document

HEADER = "gpu,clock,kernel,units,power_uw,error_uw,sensor\n"
#: M = 4, P^s = 20 W, p = 1 W, pd = 2 and 3 W; the last line is 2 W above the model.
LINES = """\
big,1GHz,,0,20000000,,s
big,1GHz,a,1,25000000,,s
big,1GHz,a,4,28000000,,s
big,1GHz,b,2,28000000,,s
big,1GHz,b,4,32000000,,s
big,1GHz,a+b,1+2,31000000,,s
"""


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd, "energy")


@pytest.fixture
def powers(tmp_path: Path) -> Path:
    path = tmp_path / "powers.csv"
    path.write_text(HEADER + LINES)
    return path


def test_fit_says_what_it_found_and_that_it_is_no_bound(run: Gpurt, powers: Path) -> None:
    code, text, err = run("fit", powers, "--units", 4)
    assert code == 0
    assert "b, a unit      3.000000" in text
    assert "1 of kernels side by side, not fitted: mean error 6.45 %" in text
    assert "the fit is no bound: a on 1 units and b on 2 units drew 2.000000 W more than it says" in err
    found = document(run("fit", powers, "--units", 4, "--json")[1], "fit")
    assert (found["static_uw"], found["idle_uw"], found["above_uw"]) == (20_000_000, 1_000_000, 2_000_000)
    assert {one["name"]: one["power_uw"] for one in found["kernels"]} == {"a": 2_000_000, "b": 3_000_000}
    assert (found["measurements"], found["pairs"], found["r2"]) == (4, 1, pytest.approx(1))
    found = document(run("fit", powers, "--units", 4, "--static", "24W", "--method", "thesis", "--json")[1], "fit")
    assert (found["static_uw"], found["kernels"][0]["power_uw"]) == (24_000_000, 1_000_000)
    assert [one["error_uw"] for one in found["kernels"]] == [None, None]


def test_a_fit_is_for_one_gpu_at_one_clock_by_one_sensor(run: Gpurt, powers: Path) -> None:
    powers.write_text(HEADER + LINES + "little,2GHz,a,1,9,,t\n")
    code, _, err = run("fit", powers, "--units", 4)
    assert code == 2
    assert "has lines of 'big', 'little': choose one by --gpu" in err
    assert run("fit", powers, "--units", 4, "--gpu", "big")[0] == 0
    assert run("fit", powers, "--units", 4, "--sensor", "s", "--gpu", "big")[0] == 0
    code, _, err = run("fit", powers, "--units", 4, "--gpu", "huge")
    assert (code, "no line is of that GPU" in err) == (2, True)
    powers.write_text(HEADER + LINES + "big,2GHz,a,1,9,,s\n")
    code, _, err = run("fit", powers, "--units", 4)
    assert (code, "was measured at several clocks: '1GHz', '2GHz'" in err) == (3, True)
    powers.write_text(HEADER + LINES + "big,1GHz,a,1,9,,t\n")
    code, _, err = run("fit", powers, "--units", 4)
    assert (code, "choose one by --sensor" in err) == (2, True)


def test_import_writes_profiles(run: Gpurt, tmp_path: Path) -> None:
    folder, out = synthetic.folder(tmp_path / "data"), tmp_path / "profiles.toml"
    code, text, err = run("import", folder, "-o", out)
    assert code == 0
    assert "alpha, a unit   2.000000" in text
    assert "the files have no copy times" in err
    assert out.read_text().count("[[profile]]\nname") == 2
    found = document(run("import", folder, "--method", "thesis", "--published-copies", "--json")[1], "import")
    assert [(one["name"], one["units"], one["static_uw"], one["idle_uw"]) for one in found["gpus"]] == [
        ("big", 6, 30_000_000, 500_000), ("little", 2, 8_000_000, 250_000)]  # fmt: skip
    assert found["notes"] == ["no copy times are known for alpha, beta"]
    (folder / "gpu_little/beta.csv").unlink()
    assert "little has no beta" in document(run("import", folder, "--json")[1], "import")["notes"]


def test_the_published_copy_times_reach_the_file(run: Gpurt, tmp_path: Path) -> None:
    folder, out = synthetic.folder(tmp_path / "data"), tmp_path / "profiles.toml"
    (folder / "gpu_little").rename(folder / "gpu_t400")
    (folder / "gpu_t400/alpha.csv").rename(folder / "gpu_t400/mmul.csv")
    assert run("import", folder, "--published-copies", "-o", out)[0] == 0
    assert out.read_text().count("  copy_") == 2
    assert '  copy_in = "13ms"\n  copy_out = "1500us"\n' in out.read_text().replace('"1.5ms"', '"1500us"')


def test_mistakes_get_one_clear_line(run: Gpurt, powers: Path, tmp_path: Path) -> None:
    folder = synthetic.folder(tmp_path / "data")
    bare, empty = tmp_path / "bare.csv", tmp_path / "empty.csv"
    bare.write_text(HEADER + "\n".join(LINES.split("\n")[1:]))
    empty.write_text(HEADER)
    wrong = [
        (["fit", powers], 2, "Missing option '--units'"),
        (["fit", powers, "--units", 0], 2, "--units"),
        (["fit", powers, "--units", 3], 3, "powers.csv:4: units: 4 are more than the GPU's 3"),
        (["fit", powers, "--units", 4, "--static", "24"], 2, "is not a unit of power"),
        (["fit", powers, "--units", 4, "--static", "2000000W"], 2, "at most 1 MW"),
        (["fit", powers, "--units", 9, "--method", "thesis"], 1, "a was not measured on all 9 units"),
        (["fit", bare, "--units", 4], 1, "static power is unknown"),
        (["fit", empty, "--units", 4], 3, "empty.csv: has no measurement"),
        (["fit", "/nonexistent", "--units", 4], 3, "/nonexistent: No such file"),
        (["fit", tmp_path, "--units", 4], 3, "Is a directory"),
        (["import", tmp_path], 3, "has no folder gpu_NAME"),
        (["import", folder, "--static", "big"], 2, "expected a power"),
        (["import", folder, "--static", "huge=3W"], 2, "--static: the folder has no GPU 'huge'"),
        (["import", folder, "--static", "big=50W"], 1, "gpu_big: idle power is negative"),
        (["import", folder, "-o", "/nonexistent/x"], 3, "/nonexistent/x: cannot be written"),
    ]  # fmt: skip
    for words, expected, message in wrong:
        code, out, err = run(*words)
        assert (code, out) == (expected, ""), words
        assert message in err
        assert all(line.startswith("gpurt: ") for line in err.splitlines())
        assert "bug" not in err
        code, out, err = run(*words, "--json")
        assert (code, out) == (expected, "")
        assert message in document(err, str(words[0]))["error"]["message"]
