# SPDX-License-Identifier: GPL-2.0
"""How [[partition]] divides a real GPU: every mistake has its line, and masks are checked against the chip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from analysis.answers.verdict import answer
from analysis.masks.effect import effect
from analysis.masks.topology import CHIPS
from analysis.model import Partition
from analysis.taskset import json_schema, load
from analysis.taskset.mechanisms import guaranteed, percentage_of, way_of
from analysis.taskset.repartition import with_partitions
from analysis.taskset.text import tomllib
from gpurt.errors import TasksetError

HEAD = '[platform]\ncpus = 2\nepsilon = "0ns"\ncompute_units = {units}\n{more}'
PART = '[[partition]]\nname = "{}"\ncompute_units = {}\n{}\n'
FULL = 'mps_percentage = 50\nslice = "5ms"'


def text_of(first: str, second: str, units: int = 40, more: str = "", one: int = 20) -> str:
    return HEAD.format(units=units, more=more) + PART.format("a", one, first) + PART.format("b", 12, second)


def problems(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    path = tmp_path / "set.toml"
    path.write_text(text)
    with pytest.raises(TasksetError) as caught:
        load(path)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_every_field_is_read_written_and_in_the_schema(tmp_path: Path) -> None:
    text = text_of(FULL, 'mps_percentage = 30')
    path = tmp_path / "set.toml"
    path.write_text(text)
    jsonschema.validate(tomllib.loads(text), json_schema())
    one, other = load(path).taskset.partitions
    assert one == Partition(20, None, "a", slice=5_000_000, mps_percentage=50)
    assert (way_of(one), way_of(Partition(1)), way_of(Partition(1, green_context=0))) == (
        "mps_percentage", None, "green_context"
    )  # fmt: skip
    first = replace(one, slice=None, mps_percentage=None, mig="MIG-0a/1/2")
    changed = (first, replace(other, mps_percentage=None, mig="MIG-7"))
    path.write_text(with_partitions(path, text, changed, {}))
    assert load(path).taskset.partitions == changed


HALF = 'mps_percentage: 50 % of 40 are 20 units'
MI50, RDNA = 'chip = "mi50"\n', 'chip = "gfx1030"\n'


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        (text_of("mps_percentage = 60", "green_context = 1"), "green_context = 1", 'partition "a" has mps_percentage'),
        (text_of('cu_mask = "0xfffff"', 'mig = "MIG-1"'), "mig =", '"a" has cu_mask; a GPU is divided in one'),
        (text_of("mps_percentage = 60", "mps_percentage = 41"), "mps_percentage = 41", "more than 100 %"),
        (text_of("mps_percentage = 49", ""), "mps_percentage", "40 are 18 units, in whole pairs, compute_units says"),
        (text_of("mps_percentage = 90", "", one=40), "mps_percentage", "compute_units says 40; 100 % are enough"),
        (text_of("mps_percentage = 100", "", 15, one=15), "mps_percentage", "no percentage gives so many"),
        (text_of("mps_percentage = 0", ""), "mps_percentage", "expected an integer from 1 to 100, got 0"),
        (text_of("green_context = 3", "green_context = 3\n"), "green_context = 3\n\n", 'partition "a" has 3 already'),
        (text_of('mig = "MIG-7/1/0"', 'mig = "MIG-7/1/0"  '), 'mig = "MIG-7/1/0"  ', 'partition "a" has MIG-7/1/0'),
        (text_of('mig = "GPU-7"', ""), "mig", "expected an instance such as nvidia-smi -L lists"),
        (text_of('mig = "MIG-7\\nX"', ""), "mig", "expected an instance such as nvidia-smi -L lists"),
        (text_of('cu_mask = "0xfffff"', "", more='chip = "mi51"\n'), "chip", 'no chip is called "mi51"'),
        (text_of('cu_mask = "0xfffff"', "", 64, MI50), "compute_units = 64", "mi50 has 60, got 64"),
        (text_of('cu_mask = "0x1fffff"', "", 80, RDNA), 'cu_mask', "not for gfx1030: E2"),
        (text_of("", "", 80, RDNA) + '[[task]]\nname = "t"\ncpu = 0\npriority = 1\nperiod = "1s"\nsegments = '
         '[{ misc = "1ms", gpu = "1ms" }]\npartition = { cu_mask = "0x5" }\n', "partition = {", "not for gfx1030: E2"),
    ],
)  # fmt: skip
def test_every_mistake_has_its_line(tmp_path: Path, text: str, at: str, says: str) -> None:
    found = problems(tmp_path, text)
    line = text[: text.index(at)].count("\n") + 1
    assert (line, True) in [(number, says in message) for number, message in found], found


def test_a_mask_beyond_the_chip(tmp_path: Path) -> None:
    """The file says 64 units, and the chip has 60: both lines are wrong."""
    text = text_of('cu_mask = "0xfffff00000000000"', "", 64, MI50)
    (_, units), (_, mask) = problems(tmp_path, text)
    assert units.startswith("compute_units: mi50 has 60, got 64")
    assert mask.startswith("cu_mask: not for mi50: it has CUs 0 to 59, the mask has CU 63")


def test_masks_of_the_chip_are_right(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(text_of('cu_mask = "0xfffff"', 'cu_mask = "0xfff00000"', 60, MI50))
    assert [one.size for one in load(path).taskset.partitions] == [20, 12]


SCALED = """[[task]]
name = "t"
cpu = 0
priority = 1
period = "1s"
partition = {}
segments = [{{ misc = "0ns", gpu = {} }}]
"""
PARALLEL = '{ parallel = "310ms" }'


@pytest.mark.parametrize("own", [False, True])
def test_a_mask_counts_as_the_units_that_it_works_like(tmp_path: Path, own: bool) -> None:
    """Otterness and Anderson, observation 3: 15 + 15 + 1 CUs work like 3, so that 310 ms of work take 104, not 10."""
    mask, path = 0x333333333333337, tmp_path / "set.toml"
    table = f'cu_mask = "{mask:#x}"'
    chip = 'chip = "radeon-vii"\n'
    assert effect(mask, CHIPS["radeon-vii"]).counts == ((15, 15, 1, 0),)
    given = f"{{ {table} }}" if own else '"a"'
    text = HEAD.format(units=60, more=chip) + ("" if own else f'[[partition]]\nname = "a"\n{table}\n')
    text += SCALED.format(given, PARALLEL)
    line = 1 + text[: text.index("cu_mask")].count("\n")
    ((at, message),) = problems(tmp_path, text)
    assert at == line
    assert "on radeon-vii it works like 3 CUs" in message
    assert "say compute_units = 3" in message
    path.write_text(text.replace(table, f"{table}, compute_units = 3" if own else f"{table}\ncompute_units = 3"))
    loaded = load(path)
    assert loaded.taskset.tasks[0].pure_time == -(-310_000_000 // 3)
    assert not any("cu_mask" in note for note in loaded.notes)
    path.write_text(text.replace(chip, ""))  # nothing says where its CUs are
    assert [note.partition(":")[0] for note in load(path).notes if "cu_mask" in note] == ["t"]
    path.write_text(text.replace(chip, "").replace(PARALLEL, '"10ms"'))  # measured under this mask
    assert not any("cu_mask" in note for note in load(path).notes)


def test_percentages_round_up() -> None:
    """MPS rounds down to pairs: 24 % of 132 SMs are 30, 25 % are 32."""
    assert [percentage_of(units, 132) for units in (1, 31, 32, 33, 132)] == [2, 25, 25, 26, 100]
    assert all(guaranteed(percentage_of(m, there), there) >= m > guaranteed(percentage_of(m, there) - 1, there)
               for there in (2, 68, 132, 304) for m in range(1, there + 1))  # fmt: skip
    assert percentage_of(7, 7) > 100


def test_percentages_may_add_up_to_exactly_100(tmp_path: Path) -> None:
    """The one that exceeds it is named, and none after it."""
    path = tmp_path / "set.toml"
    path.write_text(text_of("mps_percentage = 70", "mps_percentage = 30"))
    assert [one.mps_percentage for one in load(path).taskset.partitions] == [70, 30]
    more = [PART.format(name, 2, "mps_percentage = 5") for name in ("c", "d")]
    found = problems(tmp_path, text_of("mps_percentage = 70", "mps_percentage = 30") + "".join(more))
    assert [message for _, message in found if "more than 100 %" in message] == [
        "mps_percentage: with those before it, more than 100 %: partitions would share SMs"
    ]


@pytest.mark.parametrize(
    ("way", "turns"),
    [("", True), ('mig = "MIG-1"', True), ('cu_mask = "0xfffff"', True), ("mps_percentage = 60", False),
     ('mps_partition = "GPU-6f1b5b1c-3a54-5b6c-9d3e-111111111111/Dx4"', False), ("green_context = 1", False)],
)  # fmt: skip
def test_kernels_of_a_partition_of_mps_have_no_turns(tmp_path: Path, way: str, turns: bool) -> None:
    """They execute at once: no bound for turns says how long one waits for all of another's."""
    task = ('[[task]]\nname = "{}"\ncpu = {}\npriority = 9\nperiod = "1s"\nwaiting = "suspend"\npartition = "a"\n'
            'segments = [{{ misc = "1ms", gpu = "9ms" }}]\n')  # fmt: skip
    head = HEAD.format(units=40, more='theta = "0ns"\npolicy = "timesliced"\n')
    path = tmp_path / "set.toml"
    path.write_text(head + PART.format("a", 20, way) + task.format("t", 0) + task.format("u", 1))
    found = answer(load(path).taskset)
    assert found.schedulable == turns
    assert turns or "t and u are in partition a of MPS, where kernels execute at once" in found.why
