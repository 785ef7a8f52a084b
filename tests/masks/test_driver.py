# SPDX-License-Identifier: GPL-2.0
"""The mapping of bits against the driver's own function, and masks in Python against those of the preload library."""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from native_build import SANITIZE, compile_program
from test_real_trees import TREES, _stays

from analysis.masks.effect import effect
from analysis.masks.lint import Masked, hangs
from analysis.masks.mapping import half_pairs, parse_mask, parse_release, registers, words
from analysis.masks.topology import CHIPS, Topology

__all__ = ["_stays"]  # a fixture
ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "native"
MANAGER = "drivers/gpu/drm/amd/amdkfd/kfd_mqd_manager.c"
FUNCTION = re.compile(r"^void mqd_symmetrically_map_cu_mask\(struct mqd_manager \*mm,[^{]*\)\n\{.*?^\}\n", re.M | re.S)


def answers(program: Path, lines: Iterable[str]) -> list[str]:
    done = subprocess.run([program], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def masks(chip: Topology, count: int) -> list[int]:
    """Masks within the chip, also full, empty and beyond it; of pairs where bits are paired."""
    draw = random.Random(chip.name)
    found = [0, 1, (1 << chip.units) - 1, (1 << 1024) - 1, 1 << chip.units]
    found += [draw.getrandbits(chip.units) & draw.getrandbits(chip.units) for _ in range(count)]
    if not chip.paired:
        return found
    return [sum(3 << 2 * pair for pair in range(512) if mask >> pair & 1) for mask in found]


HARVESTED = [
    Topology("six-and-two", 90008, ((15,), (16,), (14,), (16,), (15,), (13,), (16,), (15,))),
    Topology("half-a-navi", 100300, ((10, 8), (6, 10), (0, 10), (10, 0))),
    Topology("rdna3", 110000, ((8, 6),) * 4 + ((4, 8), (8, 8))),
]


@pytest.mark.parametrize("source", TREES["amdgpu"], ids=[tree.name for tree in TREES["amdgpu"]])
def test_the_drivers_own_function_maps_bits_alike(source: Path, tmp_path: Path) -> None:
    """Linux 6.1's, compiled; trees whose function also takes an XCC have other structures and are left out."""
    if not (source / MANAGER).is_file():
        pytest.skip(f"the sources of Linux 6.1 are not there ({source}); scripts/kernel uml fetches them")
    found = FUNCTION.search((source / MANAGER).read_text())
    if not found or "inst" in found[0].partition("{")[0] or "num_nodes" in found[0]:
        pytest.skip("this release's function takes other structures")
    (tmp_path / "driver.h").write_text(found[0])
    program = compile_program(tmp_path / "map", [HERE / "map.c"], [*SANITIZE, f"-I{tmp_path}", "-Wno-unused-parameter"])
    for chip in [*CHIPS.values(), *HARVESTED]:
        if chip.xccs > 1:
            continue
        step = 2 if 110_000 <= chip.gfx < 120_000 else 1
        bitmap = [0] * 16
        for engine, arrays in enumerate(chip.arrays):
            for array, count in enumerate(arrays):
                bitmap[4 * (engine % 4) + array + engine // 4 * step] = (1 << count) - 1
        version = chip.gfx // 10_000 << 16 | chip.gfx // 100 % 100 << 8 | chip.gfx % 100
        head = f"{version} {len(chip.arrays)} {len(chip.arrays[0])} {chip.units} {' '.join(map(str, bitmap))}"
        given = masks(chip, 60)
        lines = [f"{head} {len(words(mask))} {' '.join(map(str, words(mask)))}" for mask in given]
        for mask, answer in zip(given, answers(program, lines), strict=True):
            kernel = tuple(map(int, answer.split()))
            assert registers(mask, chip, (6, 1))[0] == kernel, (chip.name, hex(mask))


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kfd_mask.c with a driver that writes down what it is told."""
    flags = [*SANITIZE, f"-I{ROOT}/userlib/preload", f"-I{ROOT}/userlib/include", f"-I{ROOT}"]
    return compile_program(tmp_path_factory.mktemp("mask") / "mask", [HERE / "mask.c"], flags)


def confined(
    program: Path, text: str, chip: Topology, release: str = "6.1", units: int | None = None
) -> tuple[list[int], str]:
    """The words that the driver gets, none if it is not asked, and what is said."""
    arrays = len(chip.arrays[0])
    environment = os.environ | {"GPURT_CU_MASK": text, "RELEASE": release}
    arguments = [str(number) for number in (chip.units if units is None else units, chip.xccs, arrays, chip.gfx)]
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()], done.stderr


APU, GFX1250 = Topology("an-apu", 100306, ((4,), (4,))), Topology("gfx1250", 120500, ((8, 8),) * 2)
VII, NAVI, MI300X = CHIPS["radeon-vii"], CHIPS["gfx1030"], CHIPS["mi300x"]
TEXTS = ["0xff", "ff", "0x800000000000001", "0", "0x0", "f" * 256, "f" * 257, "", "0x", "0XFF", "zz", "-1", " 1", "1 ",
         "0xd55555555555555", "1" + 15 * "0", "1" + 16 * "0", "0000000000000000000ff", "1_0", "0x1g"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_preload_library_reads_masks_alike(text: str, preload: Path) -> None:
    """The same text on the same chip is the same mask for both, or for both none."""
    told, said = confined(preload, text, VII)
    try:
        mask = parse_mask(text)
    except ValueError:
        assert told == []
        assert "not a hexadecimal mask" in said
        return
    if not effect(mask, VII).units:
        assert told == []
        assert "none of this GPU's compute units" in said
        return
    assert sum(word << 32 * place for place, word in enumerate(told)) == mask
    assert said == ""


@pytest.mark.parametrize(
    ("text", "chip", "release", "why"),
    [("0x7", NAVI, "6.1", "bits 2n and 2n+1 must be equal"), ("0xc", NAVI, "6.1", ""),
     ("0x7", VII, "6.1", ""), ("c" + 25 * "0", NAVI, "6.1", "none of this GPU"),
     ("0xff", NAVI, "5.14", "this Linux"), ("0xff", NAVI, "6.0", "this Linux"), ("0xff", VII, "5.10", ""),
     ("0x7f", MI300X, "6.12", "some XCC"), ("0xff", MI300X, "6.12", ""), ("0x100", MI300X, "6.12", "some XCC"),
     ("0xff", MI300X, "6.8", "this Linux"), ("0xff", MI300X, "6.11", "this Linux"),
     ("0xf", APU, "6.0", "this Linux"), ("0xf", APU, "5.10", "this Linux"), ("0xf", APU, "6.1", ""),
     ("0xf", GFX1250, "6.19", "this Linux"), ("0xff", NAVI, "none", "")],
)  # fmt: skip
def test_what_can_hang_a_queue_is_not_given_to_the_driver(
    text: str, chip: Topology, release: str, why: str, preload: Path
) -> None:
    """As `gpurt plan masks check` finds E1, E2, E5 and an XCC without CUs, so the preload library sets no such mask."""
    told, said = confined(preload, text, chip, release)
    assert (told == []) == bool(why)
    assert why in said
    if release != "none":
        assert bool(hangs(Masked("a", parse_mask(text)), chip, parse_release(release))) == bool(why)
    if "2n" in why:
        assert half_pairs(parse_mask(text), chip)


@pytest.mark.parametrize(("text", "words"), [("0xff", [0xFF]), ("0xff00000000", [0, 0xFF]), ("0", [])])
def test_a_chip_that_does_not_say_its_units_gets_any_mask_but_none(text: str, words: list[int], preload: Path) -> None:
    told, said = confined(preload, text, VII, units=0)
    assert (told, "none of this GPU's compute units" in said) == (words, not words)
