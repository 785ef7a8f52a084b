# SPDX-License-Identifier: GPL-2.0
"""No operation of the core takes longer the more clients there are: its basic blocks are counted (native/steps.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from native_build import ROOT, compile_program, copy_tree

SOURCES = ("queue", "budget", "boost", "group", "sched", "interleave", "pace", "vgpu", "whole")
FEW, MANY = 8, 2048
#: Operations on the scheduler under each policy, those of a group with idle members, and on the virtual GPU.
FIGURES = 6 * (13 + 2) + 3
#: A decision that looks at every client; a virtual GPU that looks at every TSG.
WALKS = {
    "kmod/core/sched.c": ("\tcharge(s, now);\n\tnext = choose", "\tlist_for_each(p, &s->order) n++;\n"),
    "kmod/core/vgpu.c": ("\tstop(v);\n\tv->only", "\tlist_for_each(p, &v->ready.ring[0][1]) n++;\n"),
}
COUNTER = "static struct list_head *p; static volatile int n;\n"


def steps(folder: Path, root: Path) -> tuple[dict[str, int], dict[str, int]]:
    """The most steps of each operation, with few clients and with many."""
    flags = ["-O1", "-g"]
    objects = [folder / f"{name}.o" for name in SOURCES]
    for name, made in zip(SOURCES, objects, strict=True):
        compile_program(made, [root / f"kmod/core/{name}.c"], [*flags, "-c", "-fsanitize-coverage=trace-pc"])
    program = compile_program(folder / "steps", [root / "tests/core/native/steps.c", *objects], flags)
    few, many = (
        subprocess.run([program, str(count)], capture_output=True, text=True, check=True).stdout.splitlines()
        for count in (FEW, MANY)
    )
    return figures(few), figures(many)


def figures(lines: list[str]) -> dict[str, int]:
    """The figures that the program printed, by policy and operation."""
    return {name: int(figure) for name, figure in (line.rsplit(maxsplit=1) for line in lines)}


def grown(few: dict[str, int], many: dict[str, int]) -> set[str]:
    """The operations that take longer with many clients.  Where clients are in their lists makes some difference."""
    return {name for name in few if many[name] > 2 * few[name]}


def test_no_operation_takes_longer_the_more_clients_there_are(tmp_path: Path) -> None:
    few, many = steps(tmp_path, ROOT)
    assert len(few) == len(many) == FIGURES
    assert min(few.values()) > 0
    assert grown(few, many) == set()


@pytest.mark.parametrize(
    ("source", "operation"), [("kmod/core/sched.c", "1 end"), ("kmod/core/vgpu.c", "vgpu commit")]
)
def test_a_walk_over_all_clients_is_noticed(tmp_path: Path, source: str, operation: str) -> None:
    root = copy_tree(tmp_path / "copy")
    before, walk = WALKS[source]
    text = (root / source).read_text()
    head, includes = "// SPDX-License-Identifier: GPL-2.0 OR MIT\n", text.split("\n\n", 1)[0] + "\n\n"
    assert text.startswith(head)
    assert text.count(before) == 1
    (root / source).write_text(includes + COUNTER + text[len(includes) :].replace(before, walk + before))
    assert operation in grown(*steps(tmp_path, root))
