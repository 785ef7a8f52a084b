# SPDX-License-Identifier: GPL-2.0
"""Partitions in the taskset file: what they make of times, and every mistake with its line."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from analysis.answers import registry
from analysis.answers.verdict import answer, covering
from analysis.model import MS, Intensity, Kernel, Span, Taskset
from analysis.taskset import json_schema, load
from analysis.taskset.text import tomllib
from gpurt.errors import TasksetError

PLATFORM = """[platform]
cpus = 4
epsilon = "0ns"
compute_units = 24
units = { minimum = 4, step = 2 }
cross_contention = 1.5
"""
PARTITIONS = """[[partition]]
name = "vision"
compute_units = 8
cu_mask = "0xff"
policy = "segment"
slice = "5ms"
interleave = "high"
[[partition]]
name = "rest"
compute_units = 12
"""
TASK = """[[task]]
name = "{0}"
cpu = 0
priority = {1}
period = "1s"
partition = "{2}"
intensity = "{3}"
conflict = 2.3
segments = [{{ misc = "0ns", gpu = {4} }}]
"""
SCALED = '{ parallel = "80ms", serial = "2ms" }'
TABLE = '{ units = { "4" = "30ms", "10" = "16ms" } }'
GOOD = PLATFORM + PARTITIONS + "".join(
    TASK.format(*fields)
    for fields in (("a", 9, "vision", "memory", SCALED), ("b", 8, "vision", "compute", SCALED),
                   ("c", 7, "rest", "memory", TABLE), ("d", 6, "rest", "memory", '"7ms"'))
)  # fmt: skip


def read(tmp_path: Path, text: str) -> Taskset:
    path = tmp_path / "set.toml"
    path.write_text(text)
    return load(path).taskset


def problems(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    with pytest.raises(TasksetError) as caught:
        read(tmp_path, text)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def line(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_times_are_those_of_the_partition(tmp_path: Path) -> None:
    """a: 1.5 (80/8 + 2) since c and d are memory intensive elsewhere; c: 1.5 2.3 16 beside d; d: 1.5 2.3 7."""
    taskset = read(tmp_path, GOOD)
    a, b, c, d = taskset.tasks
    assert a.gpu_segments[0].pure == Span(18 * MS, 12 * MS)
    assert b.gpu_segments[0].pure == Span(12 * MS, 12 * MS)
    assert c.gpu_segments[0].pure == Span(55_200_000, 16 * MS)
    assert d.gpu_segments[0].pure == Span(24_150_000, 7 * MS)
    assert a.gpu_segments[0].scaling == Kernel.linear(80 * MS, 2 * MS)
    assert c.gpu_segments[0].scaling == Kernel.falling(((4, 30 * MS), (10, 16 * MS)))
    assert (a.intensity, a.conflict) == (Intensity.MEMORY, Fraction(23, 10))
    vision = taskset.partitions[0]
    assert a.partition is vision
    assert (vision.size, vision.cu_mask, vision.policy, vision.slice, vision.interleave) == (
        8, 0xFF, "segment", 5 * MS, "high"
    )  # fmt: skip
    assert taskset.platform.sizes == (4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24)


def test_without_partitions_all_tasks_share_the_gpu(tmp_path: Path) -> None:
    text = GOOD.replace(PARTITIONS, "").replace('partition = "vision"\n', "").replace('partition = "rest"\n', "")
    a, b, c, _ = read(tmp_path, text.replace("cross_contention = 1.5\n", "")).tasks
    assert a.pure_time == 12_266_667  # 2.3 (80/24 + 2) ms, rounded up
    assert b.pure_time == 5_333_334
    assert c.pure_time == 36_800_000


def test_the_schema_allows_it_and_the_example() -> None:
    jsonschema.validate(tomllib.loads(GOOD), json_schema())


def test_only_tests_of_partitions_answer_for_several_of_them(tmp_path: Path) -> None:
    """The policy is that of the partitions; tests of one GPU are about one task at a time on all of it."""
    path = tmp_path / "set.toml"
    path.write_text(GOOD)
    assert covering(load(path).taskset) == []
    assert answer(load(path).taskset).why.startswith("partitions have policies boosted and segment")
    path.write_text(GOOD.replace("[platform]\n", '[platform]\npolicy = "segment"\n'))
    assert [test.name for test in covering(load(path).taskset)] == ["partitioned-suspend"]
    assert covering(load(path).taskset, "boosted") == []
    path.write_text(GOOD.replace('partition = "rest"', 'partition = "vision"'))
    assert load(path).lacks == ()
    assert covering(load(path).taskset)


TWELVE, REST = "compute_units = 12\n", '[[partition]]\nname = "rest"'


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        (TWELVE, 'compute_units = 0\n', "compute_units = 0", "expected an integer from 1 to 4096, got 0"),
        (TWELVE, 'compute_units = 18\n', REST, "have 26 units, the platform 24"),
        (TWELVE, 'compute_units = 26\n', "compute_units = 26", "the platform has 24, got 26"),
        (TWELVE, 'compute_units = 7\n', REST, "has 4, 6, 8, ... units, not 7"),
        (TWELVE, "", REST, '"compute_units" is missing'),
        (TWELVE, 'cu_mask = "0x1ff80"\n', 'cu_mask = "0x1ff80"', 'shares CUs with partition "vision": 0x80'),
        (TWELVE, 'cu_mask = "0x1ffff00"\n', 'cu_mask = "0x1', "the platform has CUs 0 to 23"),
        (TWELVE, 'cu_mask = "0x0"\n', 'cu_mask = "0x0"', "names no CU"),
        ('[[task]]', '[[partition]]\nname = "rest"\ncompute_units = 4\n[[task]]', 'name = "rest"\ncompute_units = 4',
         "taken by partition 2"),
        ('interleave = "high"', 'interleave = "top"', "interleave", 'expected "low" or "medium" or "high"'),
        ('slice = "5ms"', "slice = 5", "slice", "a time needs a unit"),
        ('policy = "segment"', 'policy = "edf"', "policy =", "expected"),
        ("step = 2", "step = 0", "units = {", "expected an integer from 1 to 4096, got 0"),
        ("minimum = 4", "minimum = 30", "units = {", "the smallest partition has 30, the platform 24"),
        ("compute_units = 24\n", "", "units = {", "compute_units is missing"),
        ("cross_contention = 1.5", "cross_contention = 0.9", "cross_contention", "from 1 to 1000, got 0.9"),
        ("cross_contention = 1.5", "cross_contention = nan", "cross_contention", "from 1 to 1000, got nan"),
        ("cross_contention = 1.5", "cross_contention = 1.1234567", "cross_contention", "more than 6 decimals"),
        ('partition = "rest"\nintensity = "memory"\nconflict = 2.3\nsegments = [{ misc = "0ns", gpu = "7ms"',
         'intensity = "memory"\nconflict = 2.3\nsegments = [{ misc = "0ns", gpu = "7ms"', '[[task]]\nname = "d"',
         'task "d" is in no partition'),
        ('name = "d"\ncpu = 0\npriority = 6\nperiod = "1s"\npartition = "rest"',
         'name = "d"\ncpu = 0\npriority = 6\nperiod = "1s"\npartition = ["rest", "vision"]', 'partition = [',
         "expected the name of one [[partition]] or a table, got an array"),
        ('name = "d"\ncpu = 0\npriority = 6\nperiod = "1s"\npartition = "rest"',
         'name = "d"\ncpu = 0\npriority = 6\nperiod = "1s"\npartition = "rests"', 'partition = "rests"',
         'no [[partition]] is called "rests"; there are vision, rest'),
        ('intensity = "compute"\n', "", '[[task]]\nname = "b"', 'task "b": "intensity" is missing'),
        ('intensity = "compute"\n', 'intensity = "both"\n', "intensity = \"both\"", 'expected "compute" or "memory"'),
        ('"10" = "16ms"', '"10" = "31ms"', "units = { \"4\"", "the time on 10 units is longer than on 4"),
        ('"10" = "16ms"', '"0" = "16ms"', "units = { \"4\"", 'from 1 to 4096 as a key, got "0"'),
        ('"10" = "16ms"', '"ten" = "16ms"', "units = { \"4\"", 'got "ten"'),
        ('{ "4" = "30ms", "10" = "16ms" }', "{}", "units = {}", "no time is given"),
        ('{ "4" = "30ms", "10" = "16ms" }', "4", "units = 4", "expected a table"),
        ('"4" = "30ms"', '"14" = "16ms"', 'gpu = { units', "no time is given for 12 units"),
        ('"10" = "16ms" } }', '"10" = "16ms" }, worst = "1ms" }', 'gpu = { units', 'unknown key "worst"'),
        (SCALED, '{ serial = "2ms" }', 'gpu = { serial', '"parallel" is missing'),
    ],
)  # fmt: skip
def test_every_mistake_has_its_line(tmp_path: Path, old: str, new: str, at: str, says: str) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    if '"14"' in new:
        text = text.replace('"10" = "16ms"', '"16" = "8ms"')
    found = problems(tmp_path, text)
    assert [(number, says in message) for number, message in found] == [(line(text, at), True)], found


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace('"5ms"', '"5"').replace("cpu = 0", "cpu = 9").replace('"10" = "16ms"', '"10" = "99ms"')
    assert len(problems(tmp_path, text)) == 6


def test_a_scaled_time_needs_to_know_how_many_units_there_are(tmp_path: Path) -> None:
    text = GOOD.replace(PARTITIONS, "").replace('partition = "vision"\n', "").replace('partition = "rest"\n', "")
    text = text.replace("compute_units = 24\n", "").replace("units = { minimum = 4, step = 2 }\n", "")
    assert [message for _, message in problems(tmp_path, text)] == [
        "gpu: compute_units is missing in [platform]: this time depends on it"
    ] * 3


def test_best_effort_and_cpu_tasks_need_no_partition(tmp_path: Path) -> None:
    task = '[[task]]\nname = "{}"\ncpu = 1\npriority = {}\nperiod = "1s"\nsegments = [{{ {} }}]\n'
    text = GOOD + task.format("e", 0, 'misc = "1ms", gpu = "1ms"') + task.format("f", 3, 'cpu = "1ms"')
    assert [task.partition for task in read(tmp_path, text).tasks[4:]] == [None, None]


def test_a_plain_time_is_slowed_down_as_others_are_where_all_share_one_partition(tmp_path: Path) -> None:
    """Two memory-intensive tasks with conflict 2.3 on the whole GPU: analyze once took a plain time as it was."""
    task = TASK.replace('partition = "{2}"\n', "")
    text = PLATFORM.replace("cross_contention = 1.5\n", "") + "".join(
        task.format(name, priority, "", "memory", time)
        for name, priority, time in (("a", 9, '"10ms"'), ("b", 8, SCALED))
    )
    assert [one.pure_time for one in read(tmp_path, text)] == [23 * MS, 12_266_667]


BESIDE = """[[task]]
name = "e"
cpu = 1
priority = 0
period = "1s"
partition = "{}"
{}segments = [{{ misc = "0ns", gpu = "1ms" }}]
"""


@pytest.mark.parametrize(
    ("policy", "partition", "intensity", "slower"),
    [
        ("segment", "rest", 'intensity = "memory"\n', 1.5),
        ("segment", "rest", "", 1.5),
        ("segment", "rest", 'intensity = "compute"\n', 1),
        ("segment", "vision", 'intensity = "compute"\n', 1),
        ("timesliced", "vision", 'intensity = "memory"\n', 1.5 * 2.3),
        ("timesliced", "vision", "", 1.5 * 2.3),
        ("timesliced", "vision", 'intensity = "compute"\n', 1),
    ],
)
def test_best_effort_work_slows_down_what_it_executes_beside(
    tmp_path: Path, policy: str, partition: str, intensity: str, slower: float
) -> None:
    """The only real-time task, of 10 ms, loads memory.  Owners are alone in their partition, but not on the GPU."""
    text = PLATFORM.replace("[platform]\n", f'[platform]\npolicy = "{policy}"\n')
    text += PARTITIONS.replace('policy = "segment"\n', "") + TASK.format("a", 9, "vision", "memory", '"10ms"')
    text += BESIDE.format(partition, intensity)
    assert read(tmp_path, text).tasks[0].pure_time == slower * 10 * MS


@pytest.mark.parametrize("own", ["partition = {{ compute_units = 4 }}", 'partition = "p"'])
def test_a_kernel_has_the_units_of_its_task_and_not_all(tmp_path: Path, own: str) -> None:
    """80 ms on 4 units: 20 ms, not the 80 / 24 of all 24 units.  Its two halves may slow each other down to half."""
    task = TASK.replace('partition = "{2}"', own).replace("conflict = 2.3\n", "").replace("gpu = {4}", 'gpu = "1ms"')
    text = PLATFORM.replace("cross_contention = 1.5\n", "") + task.format("a", 9, "", "memory")
    text = text.replace('{ misc = "0ns", gpu = "1ms" }', '{ kernel = "80ms" }')
    if own.endswith('"p"'):
        text += '[[partition]]\nname = "p"\ncompute_units = 4\n'
    assert read(tmp_path, text).tasks[0].pure_time == 20 * MS


def test_kernels_where_work_is_slowed_down_are_refused(tmp_path: Path) -> None:
    text = GOOD.replace('{ misc = "0ns", gpu = "7ms" }', '{ kernel = "7ms" }')
    with pytest.raises(TasksetError, match=r"set.toml:\d+: kernels and copies: what conflict and cross_contention"):
        read(tmp_path, text)


def test_a_missing_epsilon_is_told_in_files_with_partitions_too(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(GOOD.replace('epsilon = "0ns"\n', ""))
    told = [problem.message for problem in load(path).lacks]
    assert [text.partition(":")[0] for text in told] == ["platform"]


def test_a_partition_has_update_costs_of_its_own(tmp_path: Path) -> None:
    """All of an epsilon without theta may be alpha, which is the larger charge where tasks of partitions share CPUs."""
    for costs, wanted in (
        ('epsilon = "3us"\n', (3000, 0)), ('epsilon = "3us"\ntheta = "1us"\n', (2000, 1000)),
        ('theta = "1us"\n', (0, 1000)), ("", (0, 0)),
    ):  # fmt: skip
        found = read(tmp_path, GOOD.replace(REST, f"{REST}\n{costs}"))
        assert found.platform.costs(found.partitions[1]) == wanted
    with pytest.raises(TasksetError, match=r"set.toml:\d+: epsilon: is alpha .* cannot be less than theta"):
        read(tmp_path, GOOD.replace(REST, f'{REST}\nepsilon = "1us"\ntheta = "2us"\n'))


@pytest.mark.parametrize("test", registry.UNITS)
@pytest.mark.parametrize(
    ("shared", "time", "why"),
    [
        ("", '{ parallel = "960ms", serial = "0ms" }', "by parallel, serial or units"),
        ('partition = "p"\n', '"40ms"', "share units of the GPU"),
    ],
)
def test_tests_of_owned_units_say_nothing_of_times_on_other_units(
    tmp_path: Path, test: str, shared: str, time: str, why: str
) -> None:  # fmt: skip
    """40 ms on all 24 units were once a bound on one unit, where the kernel takes 960 ms and the deadline is 400 ms."""
    task = TASK.replace('partition = "{2}"\n', shared).replace("1s", "400ms").replace("conflict = 2.3\n", "")
    text = PLATFORM.replace("cross_contention = 1.5\n", "")
    text += "".join(task.format(name, at, "", "memory", time) for at, name in ((9, "a"), (8, "b")))
    text += '[[partition]]\nname = "p"\ncompute_units = 4\n' if shared else ""
    result = registry.find_test(test).run(read(tmp_path, text))
    assert not result.schedulable
    assert all(why in str(failure) for failure in result.failures)


def test_a_switch_that_a_partition_does_not_name_counts_as_its_whole_epsilon(tmp_path: Path) -> None:
    """A lower task spins, raised, while the GPU switches back to it: after an owner of another CPU, and in updates."""
    head = '[platform]\ncpus = 2\nepsilon = "8ns"\ntheta = "0ns"\npolicy = "boosted"\ncompute_units = 8\n'
    task = '[[task]]\nname = "{}"\ncpu = {}\npriority = {}\nperiod = "400ns"\npartition = "p"\nwaiting = "busy"\n'
    rows = [("h", 0, 9, 5, 4), ("l", 0, 2, 1, 40), ("r", 1, 7, 1, 4)]
    tasks = "".join(
        f'{task.format(*row[:3])}segments = [{{ cpu = "{row[3]}ns" }}, {{ misc = "1ns", gpu = "{row[4]}ns" }}]\n'
        for row in rows
    )

    def bound(costs: str) -> int:
        table = f'[[partition]]\nname = "p"\ncompute_units = 4\nepsilon = "8ns"\n{costs}'
        result = answer(read(tmp_path, head + table + tasks)).result
        assert result is not None
        return result.wcrt("h") or 0

    shares = [bound(f'theta = "{theta}ns"\n') for theta in range(9)]
    assert max(shares) > shares[0]
    assert bound("") >= max(shares)
