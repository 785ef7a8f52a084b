# SPDX-License-Identifier: GPL-2.0
"""One description of a system is read by every command: bounds, simulations and plans, those of energy too."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis import taskset
from analysis.answers import verdict
from analysis.energy.file import load_system as load_energy
from gpurt.errors import TasksetError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [*sorted((ROOT / "examples").glob("*.toml")), *sorted((ROOT / "examples/energy").glob("*.toml"))]
ENERGY = ROOT / "examples/energy"
ONE, TWO = ENERGY / "example5.toml", ENERGY / "toy.toml"
#: The times in the profiles of ONE, in segments of their own.
SPELT_OUT = {
    name: f'{{ copy = "1ms" }}, {{ kernel_times = [{", ".join(times)}] }}, {{ copy = "1ms" }}'
    for name, times in {
        "long": ('"24ms"', '"12ms"', '"8ms"', '"6ms"'), "short": ('"4ms"', '"2ms"', '"1333334ns"', '"1ms"'),
    }.items()
}


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_what_energy_lacks_is_named(path: Path) -> None:
    tasks = [task.name for task in taskset.load(path).taskset]
    try:
        energy = load_energy(path)
    except TasksetError as error:
        lacking = [one.message.partition(" is missing")[0] for one in error.problems]
        assert lacking == ["[[gpu]]", "[[profile]]"]
    else:
        assert [task.name for task in energy.system.tasks] == tasks


def test_a_profile_is_a_copy_a_kernel_by_units_and_a_copy(tmp_path: Path) -> None:
    text = ONE.read_text()
    for name, segments in SPELT_OUT.items():
        text = text.replace(f'{{ profile = "{name}" }}', segments)
    assert "{ profile" not in text
    (tmp_path / "spelt-out.toml").write_text(text)
    named, spelt = taskset.load(ONE).taskset, taskset.load(tmp_path / "spelt-out.toml").taskset
    assert named == spelt
    assert named.platform.compute_units == 4
    bounds = [verdict.answer(one).result for one in (named, spelt)]
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize("command", ["analyze", "simulate", "plan partitions", "report -o FILE"])
def test_bounds_are_about_one_gpu(gpurt: Gpurt, tmp_path: Path, command: str) -> None:
    words = command.replace("FILE", str(tmp_path / "page.html")).split()
    code, out, err = gpurt(*words, TWO)
    line = TWO.read_text().splitlines().index('name = "little"')
    assert (code, out) == (3, "")
    assert err.startswith(f"gpurt: {TWO}:{line}: gpu: bounds and simulations are about one GPU, and the file has 2")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("limited", "most"), [("limit = 3", 3), ("granularity = 3", 3)])
def test_units_that_jobs_may_not_use_shorten_no_kernel(gpurt: Gpurt, tmp_path: Path, limited: str, most: int) -> None:
    """Of its 4 units the GPU lets jobs use 3, on which a kernel takes 8 ms, not 6."""
    text = ONE.read_text().replace("compute_units = 4", f"compute_units = 4\n{limited}")
    (tmp_path / "limited.toml").write_text(text)
    code, out, err = gpurt("analyze", tmp_path / "limited.toml")
    line = text[: text.index("[[gpu]]")].count("\n") + 1
    assert (code, out) == (3, "")
    assert err.startswith(f"gpurt: {tmp_path}/limited.toml:{line}: gpu: bounds and simulations are about all 4 units, ")
    assert f"jobs may use {most}; say compute_units = {most}" in err


@pytest.mark.parametrize("command", ["analyze", "plan energy simulate"])
def test_the_old_spelling_gets_the_new_one_with_its_line(gpurt: Gpurt, tmp_path: Path, command: str) -> None:
    text = ONE.read_text().replace('{ profile = "long" }', '{ kernel = "long" }')
    (tmp_path / "old.toml").write_text(text)
    code, _, err = gpurt(*command.split(), tmp_path / "old.toml")
    line = text[: text.index("{ kernel = ")].count("\n") + 1
    assert code == 3
    assert err == (
        f'gpurt: {tmp_path}/old.toml:{line}: kernel: "long" is no time; '
        'the name of a [[profile]] is { profile = "long" }\n'
    )


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('{ profile = "long" }', '{ profile = "longer" }', 'profile: no [[profile]] is called "longer"; there are lo'),
        ("cpus = 3", "cpus = 3\ncompute_units = 5", "compute_units: [[gpu]] gpu has 4; leave it out here"),
        ("offset = \"1ms\"", 'gpu = "other"', 'gpu: there is no GPU "other"'),
        ('name = "long"\n  [[profile.on]]\n  gpu = "gpu"', 'name = "long"\n  [[profile.on]]\n  gpu = "other"',
         'profile: long has no [[profile.on]] for GPU "gpu"'),
        ('idle_power = "250mW"', 'idle_power = "250"', 'idle_power: the power "250" has no unit'),
    ],
)  # fmt: skip
def test_mistakes_are_told_by_analyze_too(gpurt: Gpurt, tmp_path: Path, right: str, wrong: str, said: str) -> None:
    text = ONE.read_text()
    assert right in text
    (tmp_path / "wrong.toml").write_text(text.replace(right, wrong, 1))
    code, _, err = gpurt("analyze", tmp_path / "wrong.toml")
    assert code == 3
    assert said in err
    assert err.count("\n") == 1
