# SPDX-License-Identifier: GPL-2.0
"""`gpurt measure powers`: what it prints, writes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller
from energy_calls import document

from analysis.energy.file import load_system

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
    return caller(capfd, "measure")


@pytest.fixture
def plan(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd, "plan", "energy")


@pytest.fixture
def powers(tmp_path: Path) -> Path:
    path = tmp_path / "powers.csv"
    path.write_text(HEADER + LINES)
    return path


def test_fit_says_what_it_found_and_that_it_is_no_bound(run: Gpurt, powers: Path) -> None:
    code, text, err = run("powers", powers, "--units", 4)
    assert code == 0
    assert "b, a unit      3.000000" in text
    assert "1 of kernels side by side, not fitted: mean error 6.45 %" in text
    assert "the fit is no bound: a on 1 units and b on 2 units drew 2.000000 W more than it says" in err
    found = document(run("powers", powers, "--units", 4, "--json")[1], "powers")
    assert (found["static_uw"], found["idle_uw"], found["above_uw"]) == (20_000_000, 1_000_000, 2_000_000)
    assert {one["name"]: one["power_uw"] for one in found["kernels"]} == {"a": 2_000_000, "b": 3_000_000}
    assert (found["measurements"], found["pairs"], found["r2"]) == (4, 1, pytest.approx(1))
    found = document(run("powers", powers, "--units", 4, "--static", "24W", "--json")[1], "powers")
    assert found["static_uw"] == 24_000_000


def test_a_fit_is_for_one_gpu_at_one_clock_by_one_sensor(run: Gpurt, powers: Path) -> None:
    powers.write_text(HEADER + LINES + "little,2GHz,a,1,9,,t\n")
    code, _, err = run("powers", powers, "--units", 4)
    assert code == 2
    assert "has lines of 'big', 'little': choose one by --gpu-name" in err
    assert run("powers", powers, "--units", 4, "--gpu-name", "big")[0] == 0
    assert run("powers", powers, "--units", 4, "--sensor", "s", "--gpu-name", "big")[0] == 0
    code, _, err = run("powers", powers, "--units", 4, "--gpu-name", "huge")
    assert (code, "no line is of that GPU" in err) == (2, True)
    powers.write_text(HEADER + LINES + "big,2GHz,a,1,9,,s\n")
    code, _, err = run("powers", powers, "--units", 4)
    assert (code, "was measured at several clocks: '1GHz', '2GHz'" in err) == (3, True)
    powers.write_text(HEADER + LINES + "big,1GHz,a,1,9,,t\n")
    code, _, err = run("powers", powers, "--units", 4)
    assert (code, "choose one by --sensor" in err) == (2, True)


SYSTEM = """{gpu}
[[profile]]
file = "profiles.toml"
[[task]]
name = "t"
period = "1s"
segments = [{{ profile = "a" }}]
"""


def test_fit_writes_profiles_that_an_energy_file_reads(
    run: Gpurt, plan: Gpurt, powers: Path, tmp_path: Path
) -> None:
    """Worst cases are the longest time, and a fifth more; jobs get 2 or 4 units, so others need no time."""
    a, b, out = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "profiles.toml"
    a.write_text("units,time\n2,10ms\n2,9ms\n4,5ms\n")
    b.write_text("1,8.000001ms\n2,4ms\n4,3ms\n")
    words = ["powers", powers, "--units", 4, "--times", f"a={a}", "--times", f"b={b}", "--copy-times", "a=1ms,500us",
             "--granularity", 2, "-o", out]  # fmt: skip
    code, text, err = run(*words, "--margin", 20, "--json")
    assert (code, err) == (0, "")
    found = document(text, "powers")
    assert found["files"] == [str(out)]
    assert "no copy times of b: jobs seem shorter than they are" in found["notes"]
    assert not any("--margin adds to it" in note for note in found["notes"])
    lines = out.read_text().splitlines()
    begin = lines.index("# [[gpu]]")
    table = "\n".join(line[2:] for line in lines[begin : lines.index("", begin)])
    (tmp_path / "system.toml").write_text(SYSTEM.format(gpu=table))
    system = load_system(tmp_path / "system.toml").system
    (gpu,) = system.gpus
    assert (gpu.name, gpu.units, gpu.static, gpu.idle, gpu.granularity) == ("big", 4, 20_000_000, 1_000_000, 2)
    kernel = system.tasks[0].on(0)
    assert [kernel.time(units) for units in range(1, 5)] == [12_000_000, 12_000_000, 12_000_000, 6_000_000]
    assert [kernel.times.row(units).best for units in (2, 4)] == [9_000_000, 5_000_000]
    assert (kernel.power, kernel.copy_in, kernel.copy_out) == (2_000_000, 1_000_000, 500_000)
    assert plan("explain", tmp_path / "system.toml")[0] == 0
    (tmp_path / "system.toml").write_text(SYSTEM.format(gpu=table.replace("1GHz", "2GHz")))
    assert "clock: measured at 1GHz, and the GPU runs at 2GHz" in plan("explain", tmp_path / "system.toml")[2]
    assert "--margin adds to it" in run(*words)[2]
    assert 'worst = "8000001ns"' in out.read_text()


def test_profiles_that_cannot_be_written(run: Gpurt, powers: Path, tmp_path: Path) -> None:
    a, b, bad, out = (tmp_path / name for name in ("a.csv", "b.csv", "bad.csv", "profiles.toml"))
    a.write_text("1,9ms\n2,5ms\n3,4ms\n4,3ms\n")
    b.write_text("1,9ms\n4,3ms\n")
    bad.write_text("1,fast\n")
    both = ["--times", f"a={a}", "--times", f"b={b}", "-o", out]
    wrong = [
        (["-o", out], 2, "-o needs the times of every kernel: --times a=FILE is missing"),
        (["--times", f"a={a}"], 2, "go with -o"),
        (["--margin", 5], 2, "go with -o"),
        (both, 1, "b was not measured on 2, 3 units: measure it there, or state --granularity or --limit"),
        ([*both, "--limit", 5], 2, "the GPU has 4 units"),
        ([*both, "--limit", 2, "--granularity", 3], 2, "the GPU has 4 units"),
        ([*both, "--times", f"a={a}"], 2, "--times: 'a' is there twice"),
        (["--times", f"c={a}", "-o", out], 2, "--times: 'c' is none of a, b"),
        (["--times", "a", "-o", out], 2, "--times: expected a kernel, =,"),
        ([*both, "--copy-times", "a=1ms"], 2, "--copy-times: a: "),
        (["--times", f"a={bad}", "--times", f"b={b}", "-o", out], 3, "bad.csv:1:"),
        (["--times", "a=/nonexistent", "--times", f"b={b}", "-o", out], 3, "/nonexistent: No such file"),
        ([*both[:-1], "/nonexistent/x"], 3, "/nonexistent/x: cannot be written"),
        ([*both, "--static", "40W"], 1, "negative"),
    ]
    for words, expected, message in wrong:
        code, text, err = run("powers", powers, "--units", 4, *words)
        assert (code, text) == (expected, ""), words
        assert message in err, err
        assert not out.exists()
    a.write_text("1,9ms\n5,1ms\n")
    assert "a was measured on 5 units, and the GPU has 4" in run("powers", powers, "--units", 4, *both)[2]


def test_mistakes_get_one_clear_line(run: Gpurt, powers: Path, tmp_path: Path) -> None:
    bare, empty = tmp_path / "bare.csv", tmp_path / "empty.csv"
    bare.write_text(HEADER + "\n".join(LINES.split("\n")[1:]))
    empty.write_text(HEADER)
    wrong = [
        (["powers", powers], 2, "Missing option '--units'"),
        (["powers", powers, "--units", 0], 2, "--units"),
        (["powers", powers, "--units", 3], 3, "powers.csv:4: units: 4 are more than the GPU's 3"),
        (["powers", powers, "--units", 4, "--static", "24"], 2, '"24" has no unit; write "24W"'),
        (["powers", powers, "--units", 4, "--static", "24V"], 2, "is not a unit of power"),
        (["powers", powers, "--units", 4, "--static", "2000000W"], 2, "at most 1 MW"),
        (["powers", bare, "--units", 4], 1, "static power is unknown"),
        (["powers", empty, "--units", 4], 3, "empty.csv: has no measurement"),
        (["powers", "/nonexistent", "--units", 4], 3, "/nonexistent: No such file"),
        (["powers", tmp_path, "--units", 4], 3, "Is a directory"),
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
