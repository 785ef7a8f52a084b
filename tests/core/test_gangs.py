# SPDX-License-Identifier: GPL-2.0
"""Groups never wait for one another for ever: every interleaving of gangs over the core (native/gangs.c).

Variants of the rules that look as good must get stuck, so the silence about the core means something.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from native_build import LONG, NATIVE, compile_program, copy_tree, core_sources
from once import once

CORES = ("sched", "group", "boost", "queue", "budget")


class Found(NamedTuple):
    systems: int
    stuck: int
    states: int


def explored(program: Path, policy: str, overruns: int = 0, levels: int = 3) -> Found:
    run = subprocess.run([program, policy, str(overruns), str(levels)], capture_output=True, text=True, check=False)
    found = re.fullmatch(r"(\d+) systems, (\d+) stuck, (\d+) states\n", run.stdout)
    assert found, run.stdout + run.stderr
    return Found(*map(int, found.groups()))


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program for two gangs and for three, and the core's objects."""

    def build(folder: Path) -> None:
        objects = [folder / f"{name}.o" for name in CORES]
        for name, made in zip(CORES, objects, strict=True):
            compile_program(made, core_sources(name), ["-O2", "-c"])
        for number in (2, 3):
            compile_program(folder / f"gangs{number}", [NATIVE / "gangs.c", *objects], ["-O2", f"-DGANGS={number}"])

    return once(tmp_path_factory, "gangs", build)


def test_two_groups_on_two_gpus_never_get_stuck(gangs: Path) -> None:
    found = explored(gangs / "gangs2", "segment")
    assert found.systems == 3 * 8 * 8 * 2
    assert found.stuck == 0
    assert found.states > 100_000


def test_budgets_that_end_at_any_time_leave_no_group_stuck(gangs: Path) -> None:
    found = explored(gangs / "gangs2", "segment", 1, 3 if LONG else 1)
    assert found.stuck == 0
    assert found.states > 500_000


def test_three_groups_in_a_ring_never_get_stuck(gangs: Path) -> None:
    found = explored(gangs / "gangs3", "segment", 0, 3 if LONG else 1)
    assert found.stuck == 0
    assert found.states > 200_000


def test_programs_without_groups_get_stuck(gangs: Path) -> None:
    assert explored(gangs / "gangs2", "alone").stuck > 0


#: Variants by name: what of the core is changed, (file, right text, wrong text), and how it is explored.
NO_CHECK = ("env", "((invariant) ? (void)0 : __builtin_trap())", "((void)sizeof(invariant))")
INSIDE = """	u8 highest = 0;

	list_for_each(node, &e->group->inside)
		highest = in_segment(node)->own > highest ? in_segment(node)->own : highest;
	e->own = highest;
	place(s, e, now);
"""
ALL = "c->group && c->depth && c->group->group->demoted"
CLOSED = "		gpurt_group_closed(e->group->group, depth);\n		e->depth -= depth;\n"
NESTED = "	if (e->depth > 1) {\n		refresh_boost(s, c, now);\n		return;\n	}\n"
ENTERED = NESTED + "	e->own = e->group->group->level;\n"
BEFORE = "static void line_up_member(struct gpurt_sched_client *c, u8 own)\n{\n"
RELEVEL = (
    "static void relevel(struct gpurt_sched *s, struct gpurt_sched_client *e, u64 now)\n{\n	struct list_head *node;\n"
    + INSIDE + "}\n\n" + BEFORE
)  # fmt: skip
VARIANTS = {
    "level of the members inside on that GPU": (
        [
            NO_CHECK, ("sched", ENTERED, "	relevel(s, e, now);\n"), ("sched", BEFORE, RELEVEL),
            ("sched", CLOSED, CLOSED + "		relevel(s, e, now);\n"),
        ],
        "segment", 0,
    ),
    "each GPU has an order of its own": (
        [NO_CHECK, ("sched", "c->stamp = c->group->group->stamp;", "c->stamp = 2 * ++*c->group->group->stamps;")],
        "segment", 0,
    ),
    "a budget demotes on one GPU": (
        [
            NO_CHECK, ("sched", "if (c->group && c->demoted == GPURT_DEMOTED_SEGMENT && ", "if (0 && "),
            ("sched", ALL, "0"),
        ],
        "segment", 1,
    ),
    "a budget demotes until a segment ends": ([NO_CHECK, ("sched", ALL, "0")], "segment", 1),
    "a lock policy across GPUs": (
        [("sched", "!e->depth && gpurt_group_elsewhere", "0 && gpurt_group_elsewhere")], "lock", 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_of_the_rules_gets_stuck(tmp_path: Path, name: str) -> None:
    changes, policy, overruns = VARIANTS[name]
    core = copy_tree(tmp_path) / "kmod/core"
    for file, right, wrong in changes:
        path = core / (f"{file}.h" if file == "env" else f"{file}.c")
        text = path.read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{path.name} does not say {right!r} once any more"
        path.write_text(text.replace(right, wrong), encoding="utf-8")
    sources = [tmp_path / "tests/core/native/gangs.c", *(core / f"{one}.c" for one in CORES)]
    program = compile_program(tmp_path / "gangs", sources, ["-O1", "-Wno-unused", "-DGANGS=2"])
    assert explored(program, policy, overruns, 1 if overruns else 3).stuck > 0
