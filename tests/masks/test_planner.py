# SPDX-License-Identifier: GPL-2.0
"""Plans: the specification's examples, brute force on small chips, and what every plan has."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.masks import planner
from analysis.masks.effect import effect
from analysis.masks.lint import Masked, lint
from analysis.masks.planner import Impossible, Plan, Want, mask_sizes, plan_masks
from analysis.masks.topology import CHIPS, Topology

VII = CHIPS["radeon-vii"]


def wants(*units: int, apart: bool = False) -> list[Want]:
    return [Want(f"p{number}", count, apart) for number, count in enumerate(units)]


def shapes(found: Plan) -> list[tuple[int, int]]:
    return [(part.width, part.depth) for part in found.parts]


def shared_engines(found: Plan, topology: Topology) -> int:
    used = [engine for part in found.parts for engine in part.engines]
    return len(used) - len(set(used))


def test_forty_and_twenty() -> None:
    """Section 5.1 of the paper: better distributed, 4 x 10 and 4 x 5."""
    found = plan_masks(wants(40, 20), VII)
    assert [part.mask for part in found.parts] == [0xFFFFFFFFFF, 0xFFFFF0000000000]
    assert (shapes(found), found.waste, found.proved) == ([(4, 10), (4, 5)], 0, True)


def test_two_halves_are_whole_engines() -> None:
    """Observation 4."""
    found = plan_masks(wants(30, 30), VII)
    assert (shapes(found), found.waste, shared_engines(found, VII)) == ([(2, 15), (2, 15)], 0, 0)


def test_four_quarters() -> None:
    found = plan_masks(wants(15, 15, 15, 15), VII)
    assert shapes(found) == [(1, 15)] * 4
    assert [part.mask for part in found.parts] == [0x111111111111111 << engine for engine in range(4)]


def test_seven() -> None:
    assert shapes(plan_masks(wants(7), VII)) == [(1, 7)]


def test_31_and_29_cannot_be_had() -> None:
    with pytest.raises(Impossible) as raised:
        plan_masks(wants(31, 29), VII)
    assert "31 CUs need 3x11 or 4x8" in str(raised.value)
    assert "29 CUs need 2x15 or 3x10 or 4x8" in str(raised.value)
    assert "does not prove" not in str(raised.value), "all plans were looked at"
    assert plan_masks(wants(32, 28), VII).waste == 0


def test_more_than_there_is() -> None:
    with pytest.raises(Impossible, match="61 CUs are wanted, and the chip has 60"):
        plan_masks(wants(61), VII)


def test_apart_and_at_most() -> None:
    with pytest.raises(Impossible):
        plan_masks(wants(40, 20, apart=True), VII)
    found = plan_masks([Want("a", 20, apart=True), Want("b", 20)], VII)
    assert shared_engines(found, VII) == 0
    assert plan_masks([Want("a", 31)], VII).parts[0].effective == 32
    with pytest.raises(Impossible):
        plan_masks([Want("a", 31, most=31)], VII)


def test_pairs_and_xccs() -> None:
    navi = CHIPS["gfx1030"]
    (part,) = plan_masks(wants(7), navi).parts
    assert (part.width, part.depth, part.effective, part.mask) == (4, 2, 8, 0xFF)
    (part,) = plan_masks(wants(100), CHIPS["mi300x"]).parts
    assert (part.width, part.depth, part.effective) == (2, 7, 112)
    assert {sum(xcc) for xcc in effect(part.mask, CHIPS["mi300x"]).counts} == {14}


@pytest.mark.parametrize(
    "wrong", [[], wants(0), wants(*[1] * 33), [Want("a", 1), Want("a", 1)], [Want("a", 3, most=2)], wants(-1)]
)
def test_what_is_no_request(wrong: list[Want]) -> None:
    with pytest.raises(ValueError, match=r"\w") as raised:
        plan_masks(wrong, VII)
    assert not isinstance(raised.value, Impossible)


def every_way(want: Want, engines: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """All sets of engines with all depths that give a partition what it wants."""
    return [
        (chosen, depth)
        for width in range(1, len(engines) + 1)
        for chosen in combinations(range(len(engines)), width)
        for depth in range(1, max(engines) + 1)
        if width * depth >= want.units and width * depth <= (want.most or width * depth)
    ]


def brute_force(asked: list[Want], engines: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The least waste, engines shared, and minus the engines used, of all ways to place all partitions."""
    best = None
    for ways in product(*(every_way(want, engines) for want in asked)):
        load = [sum(depth for chosen, depth in ways if engine in chosen) for engine in range(len(engines))]
        if any(used > there for used, there in zip(load, engines, strict=True)):
            continue
        users = [[want.apart for want, (chosen, _) in zip(asked, ways, strict=True) if engine in chosen]
                 for engine in range(len(engines))]  # fmt: skip
        if any(len(one) > 1 and any(one) for one in users):
            continue
        used = sum(map(len, users))
        waste = sum(len(chosen) * depth - want.units for want, (chosen, depth) in zip(asked, ways, strict=True))
        cost = waste, used - sum(map(bool, users)), -used
        best = cost if best is None else min(best, cost)
    return best


SMALL = st.lists(st.integers(1, 4), min_size=1, max_size=3)
ASKED = st.lists(st.tuples(st.integers(1, 7), st.booleans(), st.sampled_from([None, 0, 1])), min_size=1, max_size=3)


@settings(max_examples=tries(150))
@given(SMALL, ASKED)
def test_plans_are_the_best_of_all(engines: list[int], asked: list[tuple[int, bool, int | None]]) -> None:
    chip = Topology("x", 90006, tuple((count,) for count in engines))
    given_ = [Want(f"p{i}", units, apart, None if more is None else units + more)
              for i, (units, apart, more) in enumerate(asked)]  # fmt: skip
    best = brute_force(given_, tuple(engines))
    try:
        found = plan_masks(given_, chip)
    except Impossible:
        assert best is None
        return
    used = sum(part.width for part in found.parts)
    assert (found.waste, shared_engines(found, chip), -used) == best
    assert_sound(found, given_, chip)


def assert_sound(found: Plan, asked: list[Want], chip: Topology) -> None:
    """Disjoint, as large as wanted, without a finding but that engines are shared."""
    masks = [Masked(part.name, part.mask) for part in found.parts]
    assert {one.rule for one in lint(masks, chip)} <= {"W2", "W6"}
    for part, want in zip(found.parts, asked, strict=True):
        assert effect(part.mask, chip).effective == part.effective >= want.units
        assert want.most is None or part.effective <= want.most
        assert part.waste == part.effective - want.units


@settings(max_examples=tries(25))
@given(st.sampled_from(list(CHIPS.values())), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.booleans())
def test_plans_on_real_chips_are_sound(chip: Topology, units: list[int], apart: bool) -> None:
    try:
        found = plan_masks(wants(*units, apart=apart), chip)
    except Impossible:
        return
    assert_sound(found, wants(*units), chip)
    assert not apart or shared_engines(found, chip) == 0


def test_beyond_the_search_first_fit_says_that_it_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "STATES", 3)
    asked = wants(7, 9, 11, 5, 3, 8, 6, 10)
    found = plan_masks(asked, VII)
    assert not found.proved
    assert_sound(found, asked, VII)
    with pytest.raises(Impossible, match="does not prove"):
        plan_masks(wants(18, 24, 15), VII)  # which can be had


@pytest.mark.parametrize("name", ["radeon-vii", "gfx1030"])
def test_sizes_are_those_of_one_partition(name: str) -> None:
    chip, found = CHIPS[name], []
    for units in range(1, chip.units + 1):
        try:
            plan_masks([Want("a", units, most=units)], chip)
        except Impossible:
            continue
        found.append(units)
    assert mask_sizes(chip) == tuple(found)
