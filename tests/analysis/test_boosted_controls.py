# SPDX-License-Identifier: GPL-2.0
"""Facts behind the bounds of `boosted`: each is taken out of the core or the simulator, and a bound must break.

Without a fact a schedule exists that breaks a bound.  So the attack, which breaks none as the code stands, sees it.
"""

from __future__ import annotations

import ctypes
import os
import random
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from effort import tries
from once import once
from random_tasksets import random_taskset

from analysis.model import Taskset, Waiting
from analysis.papers import registry
from analysis.simulation import simulate
from analysis.simulation.simulate import Options, worst_over_offsets
from gpurt._gpurt import ffi, lib
from gpurt.enums import Form

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "kmod/core"
CORE_FILES = ("sched", "boost", "queue", "budget", "group", "interleave", "pace", "vgpu", "whole")
SIMULATOR = ("simulate", "sim_task", "sim_run", "sim_resource", "sim_thread", "sim_chain", "sim_yield")


class Planted:
    """The simulator, built with a change to its source or the core's, in the place of the installed one."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)

    def gpurt_simulate_offsets(self, *arguments: Any) -> int:
        pointers, numbers = (0, 1, 3, 4), (2, 5, 6)
        raw: list[Any] = [None] * len(arguments)
        for index in pointers:
            raw[index] = ctypes.c_void_p(int(ffi.cast("uintptr_t", arguments[index])))
        for index in numbers:
            raw[index] = ctypes.c_uint32(arguments[index]) if index == 2 else ctypes.c_uint64(arguments[index])
        return int(self.library.gpurt_simulate_offsets(*raw))


def compile_c(*words: str | Path) -> None:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-std=gnu11", "-O1", "-w", "-fPIC", f"-I{CORE}", *words], check=True)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The core and the simulator, compiled."""
    folders = {CORE: CORE_FILES, ROOT / "analysis/native": SIMULATOR}
    sources = [folder / f"{name}.c" for folder, names in folders.items() for name in names]

    def compile_all(folder: Path) -> None:
        for source in sources:
            compile_c("-c", source, "-o", folder / f"{source.stem}.o")

    folder = once(tmp_path_factory, "boosted-controls", compile_all)
    return [folder / f"{source.stem}.o" for source in sources]


def build(folder: Path, objects: list[Path], right: str, wrong: str) -> Path:
    """A library of the core and the simulator in which ``wrong`` replaces the text ``right`` of boost.c."""
    text = (CORE / "boost.c").read_text(encoding="utf-8")
    assert text.count(right) == 1, f"boost.c does not say {right!r} once any more"
    planted, library = folder / "boost.c", folder / "planted.so"
    planted.write_text(text.replace(right, wrong), encoding="utf-8")
    compile_c("-shared", planted, *(one for one in objects if one.stem != "boost"), "-o", library)
    return library


@dataclass(frozen=True)
class Control:
    """A change to boost.c, and the test whose bounds it breaks.  The others say what is simulated."""

    test: str
    right: str = ""
    wrong: str = ""
    policy: str = "boosted"
    waiting: Waiting | None = None
    form: Form | None = None


CONTROLS = {
    "nobody is raised": Control("boosted-suspend", policy="segment"),
    "nobody is raised, busy": Control("boosted-busy", policy="segment"),
    "only who has the gate is raised": Control(
        "boosted-suspend", "b->form == GPURT_FORM_FENCE && b->working && !all ? 0 : c->entry->level", "0",
        form=Form.OWNER,
    ),
    "the gate is not part of it": Control(
        "boosted-busy", "	if (b->turn)\n		return GPURT_RAISED_TOP;\n", "", form=Form.OWNER
    ),
    "all that raise themselves are at one level": Control(
        "boosted-suspend", "return c->depth ? c->entry->level : b->asked;", "return 1;", form=Form.SELF
    ),
    "tasks that spin raise themselves": Control("boosted-suspend", waiting=Waiting.BUSY, form=Form.SELF),
    "threads stay raised after an end": Control(
        "boosted-suspend",
        "	if (!c->depth && !b->asked)\n		b->self = false;\n	level = gpurt_boost_level(s, c);",
        "	level = b->self ? c->level : gpurt_boost_level(s, c);", form=Form.SELF,
    ),
}  # fmt: skip


def tasksets(seed: int) -> Iterator[Taskset]:
    rng = random.Random(seed)
    while True:
        yield random_taskset(rng)


def broken(control: Control, most: int) -> tuple[int, bool]:
    """How many tasksets with bounds were simulated, and whether one of those bounds was exceeded."""
    test, bounded = registry.find(control.test), 0
    for number, taskset in enumerate(tasksets(5)):
        if bounded == most:
            break
        result = test.run(taskset)
        if not result.schedulable:
            continue
        bounded += 1
        options = Options(
            control.policy, control.waiting or test.waiting, "worst", horizon=6 * max(t.period for t in taskset),
            seed=number, form=control.form,
        )  # fmt: skip
        seen = worst_over_offsets(taskset, options, 20).tasks
        if any(seen[t.name].worst > (result.wcrt(t.name) or 0) for t in taskset.real_time):
            return bounded, True
    return bounded, False


@pytest.mark.parametrize("name", CONTROLS)
def test_without_it_a_bound_breaks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: list[Path], name: str
) -> None:  # fmt: skip
    control = CONTROLS[name]
    if control.right:
        library = build(tmp_path, objects, control.right, control.wrong)
        monkeypatch.setattr(simulate, "lib", Planted(library))
    assert broken(control, 400)[1]


@pytest.mark.parametrize("name", ["boosted-suspend", "boosted-busy"])
def test_with_all_of_it_none_does(name: str) -> None:
    """The same search, with nothing changed."""
    count = tries(150, 50)
    assert broken(Control(name), count) == (count, False)
