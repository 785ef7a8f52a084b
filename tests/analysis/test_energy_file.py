# SPDX-License-Identifier: GPL-2.0
"""The energy file: what it says, and every mistake in it with its line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from energy_systems import example5, toy

from analysis.energy.file import load_system
from analysis.model.energy import SpatialSystem
from gpurt.errors import TasksetError
from gpurt.units import parse_power

EXAMPLES = Path(__file__).parents[2] / "examples/energy"
TOY = (EXAMPLES / "toy.toml").read_text()


def plain(system: SpatialSystem) -> SpatialSystem:
    """Without names of types and profiles, which the model's tests do not use."""
    tasks = tuple(replace(task, profile="") for task in system.tasks)
    return SpatialSystem(tuple(replace(gpu, kind="") for gpu in system.gpus), tasks)


def test_the_examples_are_the_worked_systems() -> None:
    assert plain(load_system(EXAMPLES / "toy.toml").system) == plain(toy())
    assert plain(load_system(EXAMPLES / "example5.toml").system) == plain(example5((20, 10, 20)))


def written(folder: Path, text: str) -> Path:
    path = folder / "system.toml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str) -> list[str]:
    path = written(folder, text)
    with pytest.raises(TasksetError) as caught:
        load_system(path)
    return [re.sub(rf"^{re.escape(str(path))}:", "", line) for line in str(caught.value).splitlines()]


MISTAKES = {
    'static_power = "46W"': ('static_power = "-46W"', "static_power: expected a power such as"),
    'idle_power = "400mW"': ('idle_power = "400mV"', 'idle_power: "mV" is not a unit of power; use uW, mW or W'),
    "compute_units = 6": ("compute_units = 6\nlimit = 7", "limit: the GPU has 6 units, got 7"),
    'power = "3.8W"': ('power = "0W"', "power: must be more than 0"),
    'kernel = { work = "960ms", saturates = 6 }': (
        'kernel = ["9ms", "8ms"]', "kernel: little has 6 units, so there are 6 times, got 2",
    ),
    'copy_in = "2ms"\n  copy_out = "1ms"\n  kernel = { work = "180ms"': (
        'copy_in = "2"\n  copy_out = "1ms"\n  kernel = { work = "180ms"', 'copy_in: "2" has no unit',
    ),
    'name = "d"\n  [[profile.on]]\n  gpu = "big"': (
        'name = "c"\n  [[profile.on]]\n  gpu = "big"', 'name: "c" is taken by another profile',
    ),
    'kernel = { work = "60ms", saturates = 8 }': (
        'kernel = { work = "60ms", saturates = 0 }', "saturates: expected an integer",
    ),
    'period = "120ms"': ('period = "120ms"\ndeadline = "121ms"', "deadline: must be at most the period"),
    'offset = "1ms"': ('offset = "1ms"\ngpu = "huge"', 'gpu: there is no GPU "huge"'),
    'segments = [{ profile = "c" }]': ('segments = [{ cpu = "1ms" }]', "here a segment is { profile"),
    'segments = [{ profile = "d" }]': (
        'segments = [{ profile = "e" }]', 'profile: no [[profile]] is called "e"; there are',
    ),
}  # fmt: skip


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = TOY
    for right, (wrong, _) in MISTAKES.items():
        assert right in text
        text = text.replace(right, wrong, 1)
    found = problems(tmp_path, text)
    assert len(found) == len(MISTAKES), found
    lines = text.splitlines()
    for wrong, message in MISTAKES.values():
        (one,) = [line for line in found if message in line]
        number = int(one.split(":")[0])
        key = message.split(":")[0].removeprefix("here a segment is { ").split(".")[0]
        assert key in lines[number - 1] or "segments" in lines[number - 1], (wrong, one)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("", "[[gpus]]\n", 'unknown "gpus"; a taskset file has platform, task, thread, partition, chain, resource, '),
        ('name = "little"', 'name = "little"\ntype = "big"', 'another GPU of type "big" has 12, got 6'),
        ("compute_units = 12", "compute_units = 12\ngranularity = 13", "granularity: jobs may use 12 units, got 13"),
        ("compute_units = 12", "compute_units = 12\nslots = 3", "slots: expected an integer from 1 to 2, got 3"),
        ('period = "150ms"', 'period = "15000000s"', "period: is longer than 13 days"),
        ('kernel = { work = "60ms", saturates = 8 }', "kernel = []", "kernel: expected an array of times"),
        ('  gpu = "little"', '  gpu = "big"', 'gpu: "big" stands here twice'),
        ('power = "400mW"', 'power = "400"', 'idle_power: the power "400" has no unit; write "400W" or'),
        ('name = "big"\n', 'name = "big"\nclock = "1725MHz"\n', None),
    ],
)
def test_one_mistake(tmp_path: Path, right: str, wrong: str, message: str | None) -> None:
    text = wrong + TOY if not right else TOY.replace(right, wrong, 1)
    if message is None:
        load_system(written(tmp_path, text))
    else:
        assert message in "\n".join(problems(tmp_path, text))


@pytest.mark.parametrize(
    ("table", "line", "why"),
    [
        ("[[task]]", 'jitter = "5ms"', "jitter: a job may be released later than it arrives"),
        ("[[task]]", 'max_period = "1s"', "max_period: arrivals may be further apart than period"),
        ("[[task]]", "conflict = 1.5", "conflict: another task slows it down"),
        ("[[task]]", 'thread = "one"', "thread: its thread does one job at a time"),
        ("[[task]]", "partition = { compute_units = 2 }", "partition: it may use a part of the GPU only"),
        ("[platform]", "cross_contention = 1.5", "cross_contention: kernels slow each other down"),
        ("[platform]", "copy_engine = false", "copy_engine: no kernel executes beside copies"),
        ("[platform]", 'cpu_latency = "1ms"', "cpu_latency: a thread executes later than it wakes"),
        ("", '[[chain]]\nname = "c"\ntasks = ["t1", "t2"]\nlinks = ["triggered"]',
         "links: the end of a job releases another one"),
        ("", '[[resource]]\nname = "r"\nprotocol = "ceiling"\nsections = [{ task = "t1", time = "1ms" }]',
         "resource: tasks wait for each other"),
        ("", '[[chain]]\nname = "c"\ntasks = ["t1", "t2"]\nmax_age = "9ms"', "max_age: it limits a chain"),
    ],
)  # fmt: skip
def test_no_plan_is_made_of_what_makes_jobs_later(tmp_path: Path, table: str, line: str, why: str) -> None:
    """A host takes jobs as they come."""
    text = (EXAMPLES / "example5.toml").read_text()
    path = written(tmp_path, text.replace(table, f"{table}\n{line}", 1) if table else f"{text}\n{line}\n")
    load_system(path)
    with pytest.raises(TasksetError) as caught:
        load_system(path, planned=True)
    assert [one.message for one in caught.value.problems] == [f"{why}, and no plan of energy knows that; leave it out"]


def test_profiles_of_another_clock_are_refused(tmp_path: Path) -> None:
    text = TOY.replace('name = "big"\n', 'name = "big"\nclock = "1725MHz"\n', 1)
    text = text.replace('  gpu = "big"\n', '  gpu = "big"\n  clock = "1300MHz"\n', 1)
    (one,) = problems(tmp_path, text)
    assert "clock: measured at 1300MHz, and the GPU runs at 1725MHz" in one


def test_profiles_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    begin, end = TOY.index("[[profile]]"), TOY.index("[[task]]")
    (tmp_path / "profiles.toml").write_text(TOY[begin:end])
    text = TOY[:begin] + '[[profile]]\nfile = "profiles.toml"\n' + TOY[end:]
    assert load_system(written(tmp_path, text)).system == load_system(EXAMPLES / "toy.toml").system
    (tmp_path / "profiles.toml").write_text(TOY[begin:end].replace('power = "3.8W"', 'power = "x"'))
    with pytest.raises(TasksetError, match=r"profiles\.toml:8: power: expected a power"):
        load_system(tmp_path / "system.toml")
    (tmp_path / "profiles.toml").unlink()
    with pytest.raises(TasksetError, match=r"^\S*system\.toml:21: file: \S*profiles\.toml: No such file[^\n]*$"):
        load_system(tmp_path / "system.toml")


def test_a_gpu_that_cannot_be_read_is_the_only_mistake(tmp_path: Path) -> None:
    """Its profiles fit no GPU that is left, but nothing is wrong with them."""
    assert len(problems(tmp_path, TOY.replace('static_power = "46W"', 'static_power = "46"', 1))) == 1


def test_units_that_no_job_can_get_are_told(tmp_path: Path) -> None:
    loaded = load_system(written(tmp_path, TOY.replace("compute_units = 12", "compute_units = 12\ngranularity = 5", 1)))
    assert loaded.notes == ("big: jobs get multiples of 5 units, so at most 10 of 12",)


def test_cpu_segments_are_left_out_on_request(tmp_path: Path) -> None:
    path = written(tmp_path, TOY.replace('[{ profile = "c" }]', '[{ cpu = "1ms" }, { profile = "c" }]'))
    loaded = load_system(path, ignore_cpu=True)
    assert loaded.system == load_system(EXAMPLES / "toy.toml").system
    assert loaded.notes == ("c: its CPU segments are left out",)


def test_a_task_without_a_profile_for_a_gpu_stays_off_it(tmp_path: Path) -> None:
    cut = TOY.index('  [[profile.on]]\n  gpu = "little"')
    text = TOY[:cut] + TOY[TOY.index("[[profile]]", cut) :]
    loaded = load_system(written(tmp_path, text))
    assert loaded.system.tasks[0].places == (0,)
    assert loaded.notes == ("a: a has no profile for little: it never goes there",)
    pinned = text.replace('period = "120ms"', 'period = "120ms"\ngpu = "little"')
    assert 'a has no [[profile.on]] for GPU "little"' in problems(tmp_path, pinned)[0]


def test_measured_powers_are_energies_beside_the_static_one(tmp_path: Path) -> None:
    line = '  power = "3.8W"\n'
    powers = ", ".join(f'"{46 + units}W"' for units in range(1, 13))
    path = written(tmp_path, TOY.replace(line, f"{line}  measured_power = [{powers}]\n"))
    kernel = load_system(path).system.tasks[0].on(0)
    assert kernel.measured == tuple(units * 10**6 * kernel.time(units) for units in range(1, 13))
    (told,) = problems(tmp_path, TOY.replace(line, f'{line}  measured_power = ["50W"]\n'))
    assert "measured_power: big has 12 units, so there are as many powers, got 1" in told


@pytest.mark.parametrize(("text", "power"), [("46W", 46_000_000), ("0.445 W", 445_000), ("1uW", 1), ("2.5mW", 2500)])
def test_powers(text: str, power: int) -> None:
    assert parse_power(text) == power


@pytest.mark.parametrize("text", ["", "46", "-1W", "0.0000001W", "1kW", "nanW", "1e3W", "1.5uW"])
def test_wrong_powers(text: str) -> None:
    with pytest.raises(ValueError, match=r"power|microwatts"):
        parse_power(text)
