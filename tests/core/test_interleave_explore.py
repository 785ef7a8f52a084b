# SPDX-License-Identifier: GPL-2.0
"""Every state of the core's interleaving of TSGs, for all levels of few TSGs: no wait is longer than is charged."""

from __future__ import annotations

import re
import subprocess
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from effort import some
from native_build import LONG, NATIVE, SANITIZE, compile_program, copy_tree, core_sources

#: Levels of the TSGs: low, medium, high.
LEVELS = [levels for count in range(1, 6 if LONG else 5) for levels in combinations_with_replacement("012", count)]
#: As those of test_explore: the core's right text, and the wrong text that replaces it.
PLANTED = {
    "a turn that does not count": ("		p->pass = i->pass[p->level];\n", "		(void)i;\n"),
    "a turn stays due": (
        "	list_move_tail(&p->node, served(i, p->level));", "	list_move_tail(&p->node, due(i, p->level));"
    ),
    "who comes back is due": (
        "p->pass == i->pass[p->level] ? served(i, p->level) : due(i, p->level)", "due(i, p->level)"
    ),
    "who comes back goes first": ("	list_add_tail(&p->node,", "	list_add(&p->node,"),
    "passes above do not begin": ("		i->pass[n]++;\n	return p;", "		;\n	return p;"),
    "low goes first": (
        "	for (n = GPURT_INTERLEAVE_COUNT; n-- && !p;)", "	for (n = 0; n < GPURT_INTERLEAVE_COUNT && !p; n++)"
    ),
    "high before medium among those not due": (
        "	for (n = GPURT_INTERLEAVE_MEDIUM; n < GPURT_INTERLEAVE_COUNT && !p; n++)\n		p = ",
        "	for (n = GPURT_INTERLEAVE_COUNT; n-- > GPURT_INTERLEAVE_MEDIUM && !p;)\n		p = ",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("interleave") / "interleave"
    return compile_program(target, [NATIVE / "interleave.c", *core_sources("interleave")], SANITIZE)


def explored(program: Path, levels: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *levels], capture_output=True, text=True, check=False)


def test_no_tsg_waits_longer_than_is_charged(explorer: Path) -> None:
    """Each state that can be reached, whatever TSGs do: so this holds for every length of run."""
    most = 0
    for levels in LEVELS:
        run = explored(explorer, levels)
        assert run.returncode == 0, (levels, run.stdout + run.stderr)
        found = re.fullmatch(r"(\d+) states, (\d+) steps\n", run.stdout)
        assert found
        most = max(most, int(found[1]))
    assert most > 2_000


@pytest.mark.parametrize("name", some(PLANTED))
def test_a_planted_bug_is_found(tmp_path: Path, name: str) -> None:
    right, wrong = PLANTED[name]
    tree = copy_tree(tmp_path / "tree")
    core = tree / "kmod/core/interleave.c"
    text = core.read_text(encoding="utf-8")
    assert text.count(right) == 1, f"interleave.c does not say {right!r} once any more"
    core.write_text(text.replace(right, wrong), encoding="utf-8")
    sources = [tree / "tests/core/native/interleave.c", core]
    program = compile_program(tmp_path / "interleave", sources, ["-O1", "-Wno-unused", "-Wno-type-limits"])
    runs = [explored(program, levels) for levels in LEVELS]
    assert 1 in {run.returncode for run in runs}
