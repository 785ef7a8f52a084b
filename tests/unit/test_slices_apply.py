# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan slices --apply`: plans for the TSGs there, and sets all of it or nothing, on the driver's model."""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller
from jsonschema import Draft202012Validator
from test_tegra import Board

from analysis.answers import registry
from analysis.answers import slices as plan
from analysis.model import MS, Partition
from analysis.slices.runlist import Level
from analysis.taskset import load
from pycontrol.link import hints
from pycontrol.machine.placement import fifo_permitted

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (ROOT / "examples/slices.toml").read_text()
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs/output.schema.json").read_text()))
NAMES = ("camera", "detect", "map")
OPENED = struct.pack("=QQ", 0, 1)
DEFAULT = (1_024, 0)
PLAN = [(1_000, 0), (1_112, 0), (1_000, 0)]
#: With one more TSG of 1.024 ms at level low, which `gpurt plan slices --best-effort 1` plans for, too.
BESIDE_ONE = [(2_000, 0), (2_512, 0), (1_504, 0)]


class Tegra(Board):
    """The driver's model with a group of each task's program.  ``node``: its file, which says when one is opened."""

    def __init__(self, node: Path) -> None:
        super().__init__()
        self.groups.clear()
        self.engine.groups.clear()
        os.mkfifo(node)
        self.said = os.open(node, os.O_RDWR)
        commands = [*(["sleep", f"100{at}"] for at in range(3)), ["tail", "-f", "/dev/null"]]
        self.programs = [subprocess.Popen(command) for command in commands]
        for at, program in enumerate(self.programs[:3]):
            self.open(program.pid, 3 + 300 * at)
            self.priority(at, 30 - 10 * at)

    def open(self, pid: int, number: int) -> None:
        from engine import Group

        self.groups.append(Group(str(number), pid, number=number))
        self.engine.groups.append(self.groups[-1])
        os.write(self.said, OPENED)

    def priority(self, at: int, priority: int) -> None:
        """Has a program execute at that priority, as the file says; 0: best effort."""
        how = os.SCHED_FIFO if priority else os.SCHED_OTHER
        os.sched_setscheduler(self.programs[at].pid, how, os.sched_param(priority))

    def shut(self) -> None:
        self.file.close()
        os.close(self.said)
        for program in self.programs:
            program.kill()
            program.wait()


@pytest.fixture
def tegra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tegra]:
    if not fifo_permitted(30):
        pytest.skip("SCHED_FIFO is not permitted")
    made = Tegra(tmp_path / "sched")
    (tmp_path / "online").write_text("0-3\n")
    monkeypatch.setattr("pycontrol.observe.fit.host.ONLINE", tmp_path / "online")
    monkeypatch.setattr(hints, "SCHED_NODES", (str(tmp_path / "sched"),))
    monkeypatch.setattr(hints.SchedNode.__init__, "__defaults__", (made.call,))
    monkeypatch.delenv("GPURT_DEVICE", raising=False)
    monkeypatch.setattr("pycontrol.commands.slices.WORD_WAIT_S", 0)
    yield made
    made.shut()


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def document(line: str) -> Any:
    """A document, valid by the schema."""
    found = json.loads(line)
    assert not [error.message for error in SCHEMA.iter_errors(found)], line
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The example, whose tasks have the programs' commands."""
    text = EXAMPLE
    for at, name in enumerate(NAMES):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\ncommand = ["sleep", "100{at}"]\n')
    path = tmp_path / "set.toml"
    path.write_text(text)
    return path


def test_the_plan_is_set_as_the_driver_rounds(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    code, out, err = gpurt("plan", "slices", file, "--apply", "--json")
    told = document(out)
    assert (code, err, told["applied"], told["others"]) == (0, "", True, [])
    assert tegra.state() == PLAN
    assert [told["tasks"][name]["pids"] for name in NAMES] == [[one.pid] for one in tegra.programs[:3]]
    assert {told["tasks"][name]["slice_ns"] for name in NAMES} == {MS, 1_112_000}
    assert not tegra.file.held
    assert gpurt("plan", "slices", file, "--apply")[0] == 0
    assert tegra.steps.count("5") == 3  # what is set already is not set again: each call reloads the runlist


def test_other_programs_count_with_what_they_have(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    """As the file alone does with as many others; a longer slice or a higher level of theirs lengthens waits."""
    tegra.open(tegra.programs[3].pid, 950)
    code, out, _ = gpurt("plan", "slices", file, "--apply", "--json")
    told = json.loads(out)
    alone = json.loads(gpurt("plan", "slices", file, "--best-effort", 1, "--json")[1])
    assert (code, tegra.state()) == (0, [*BESIDE_ONE, DEFAULT])
    assert [one["wcrt_ns"] for one in told["tasks"].values()] == [one["wcrt_ns"] for one in alone["tasks"].values()]
    assert told["others"] == [{"pid": tegra.programs[3].pid, "tsg": 950, "slice_ns": 1_024_000, "interleave": "low"}]
    tegra.groups[3].slice_us = 20_000
    code, out, _ = gpurt("plan", "slices", file, "--apply")
    assert (code, out.startswith("NOT APPLIED: no slices and levels were found")) == (1, True)
    assert tegra.state()[:3] == BESIDE_ONE


def test_a_high_level_of_another_program_is_no_low_one(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    tegra.open(tegra.programs[3].pid, 950)
    tegra.groups[3].level = 2
    found = json.loads(gpurt("plan", "slices", file, "--apply", "--json")[1])
    whole = plan.with_others(load(file).taskset, 0, [Partition(slice=1_024_000, interleave="high")])
    table = plan.plan_slices(whole)
    assert table is not None
    assert table.entries[-1].level is Level.HIGH
    assert [one["gap_ns"] for one in found["tasks"].values()] == [table.gap(entry) for entry in table.entries[:3]]


def test_what_the_bounds_do_not_cover_is_not_applied(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    tegra.groups[1].mode = 1
    assert "compute preemption of TSG 303 is WFI" in gpurt("plan", "slices", file, "--apply")[1]
    tegra.groups[1].mode, tegra.groups[1].slice_us = 4, 0
    assert "(sleep) has no time slice on TSG 303" in gpurt("plan", "slices", file, "--apply")[1]
    tegra.groups[1].mode, tegra.groups[1].slice_us = 2, 1_024
    code, _, err = gpurt("plan", "slices", file, "--apply")
    assert (code, "theta has to contain the longest thread block of process" in err) == (0, True)
    tegra.groups[1].slice_us, tegra.groups[1].mode = 1_024, 4
    before = tegra.state()
    tegra.open(tegra.programs[0].pid, 950)
    code, out, _ = gpurt("plan", "slices", file, "--apply")
    assert (code, "camera has 2 TSGs" in out) == (1, True)
    assert tegra.state() == [*before, DEFAULT]
    file.write_text(file.read_text().replace('"1001"', '"1000"'))
    code, out, _ = gpurt("plan", "slices", file, "--apply")
    assert (code, "may be camera or detect: their commands do not tell them apart" in out) == (1, True)


@pytest.mark.parametrize("priority", [0, 29])
def test_a_program_at_another_cpu_priority_is_objected_to(
    gpurt: Gpurt, tegra: Tegra, file: Path, priority: int
) -> None:
    """As `gpurt apply` does: its CPU work may take longer than its bound."""
    tegra.priority(0, priority)
    code, out, _ = gpurt("plan", "slices", file, "--apply", "--json")
    told = document(out)
    why = f"process {tegra.programs[0].pid} (sleep) executes at priority {priority}, the file says 30 for camera"
    assert (code, told["schedulable"], told["applied"], why in told["why"]) == (1, False, False, True)
    assert [one["code"] for one in told["objections"]] == ["cpu-priority"]
    assert tegra.state() == [DEFAULT] * 3


def test_a_machine_without_the_files_cpus_is_objected_to(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    (file.parent / "online").write_text("0\n")
    code, out, _ = gpurt("plan", "slices", file, "--apply")
    assert (code, out.startswith("NOT APPLIED: the file has tasks on CPU 1, and this machine has CPUs 0")) == (1, True)


def test_watching_sees_that_a_program_changes_its_cpu_priority(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    tegra.before = lambda _: tegra.priority(1, 5) if tegra.steps.count("1") == 6 else None
    code, out, _ = gpurt("plan", "slices", file, "--apply", "--watch")
    assert (code, "NOT APPLIED: process" in out, "executes at priority 5, the file says 20" in out) == (1, True, True)


def test_a_task_that_is_not_running_keeps_its_place(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    tegra.engine.groups.remove(tegra.groups.pop(0))
    code, out, err = gpurt("plan", "slices", file, "--apply")
    assert (code, "not running" in out, "camera is not running; its TSG counts as planned" in err) == (1, True, True)
    assert tegra.state() == PLAN[1:]
    assert gpurt("plan", "slices", file, "--apply", "--ignore-missing")[0] == 0


def test_best_effort_tasks_keep_what_they_have(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    file.write_text(file.read_text().replace("priority = 10", "priority = 0"))
    tegra.priority(2, 0)
    tegra.groups[2].slice_us = 1_600
    told = json.loads(gpurt("plan", "slices", file, "--apply", "--json")[1])
    assert tegra.state()[2] == (1_600, 0)
    assert told["tasks"]["camera"]["gap_ns"] == (1_600 + tegra.groups[1].slice_us) * 1_024 + 300_000


@pytest.mark.parametrize("call", ["1", "3", "4", "5", "10"])
def test_a_refusal_at_any_step_leaves_nothing_half_set(gpurt: Gpurt, tegra: Tegra, file: Path, call: str) -> None:
    tegra.groups[0].slice_us = 3_000
    before = tegra.state()
    tegra.fails = lambda step: errno.EIO if tegra.steps[step] == call and tegra.steps.count(call) == 2 else 0
    code, out, err = gpurt("plan", "slices", file, "--apply", "-o", file.with_name("out.toml"))
    assert (code, out, err.startswith("gpurt: the driver ")) == (5, "", True), err
    assert (tegra.state(), file.with_name("out.toml").exists()) == (before, False)
    assert not tegra.file.held


def test_a_file_that_cannot_be_written_puts_everything_back(
    gpurt: Gpurt, tegra: Tegra, file: Path, tmp_path: Path
) -> None:
    """The folder goes away while slices are set."""
    folder = tmp_path / "folder"
    folder.mkdir()
    tegra.before = lambda step: folder.rmdir() if tegra.steps[step] == "5" and folder.exists() else None
    code, out, err = gpurt("plan", "slices", file, "--apply", "-o", folder / "out.toml")
    assert (code, out, "cannot be written" in err) == (3, "", True)
    assert tegra.state() == [DEFAULT] * 3


def test_the_plan_in_a_file_has_the_same_bounds(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    out = file.with_name("out.toml")
    code, text, _ = gpurt("plan", "slices", file, "--apply", "-o", out, "--json")
    told = json.loads(text)
    written = load(out).taskset
    assert (code, told["files"]) == (0, [str(out)])
    assert [(one.name, one.slice, one.interleave) for one in written.partitions] == [
        (name, us * 1_000, "low") for name, (us, _) in zip(NAMES, PLAN, strict=True)
    ]
    bounds = registry.find_test("supply-fp").run(written)
    assert {name: bounds.wcrt(name) for name in NAMES} == {name: told["tasks"][name]["wcrt_ns"] for name in NAMES}


def opener(tegra: Tegra, number: int, at: Callable[[int], bool]) -> Callable[[int], None]:
    """Opens a TSG of a stranger once, at that step."""

    def before(step: int) -> None:
        if at(step) and all(one.number != number for one in tegra.groups):
            tegra.open(tegra.programs[3].pid, number)

    return before


def test_a_tsg_that_comes_while_slices_are_set_is_planned_for(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    tegra.before = opener(tegra, 950, lambda step: tegra.steps[step] == "5")
    told = json.loads(gpurt("plan", "slices", file, "--apply", "--json")[1])
    assert (told["applied"], tegra.state()) == (True, [*BESIDE_ONE, DEFAULT])


def test_programs_that_never_end_opening_tsgs(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    def before(step: int) -> None:
        if tegra.steps[step] == "1":
            tegra.open(tegra.programs[3].pid, 703 + step)
            tegra.groups[-1].slice_us = 10

    tegra.before = before
    code, out, err = gpurt("plan", "slices", file, "--apply")
    assert (code, out, "open time-slice groups faster than they can be planned for" in err) == (5, "", True)
    assert tegra.state()[:3] == [DEFAULT] * 3


def test_watching_plans_anew_and_ends_when_nothing_is_proved(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    """A stranger opens a TSG, then one whose slice no plan allows."""

    def before(step: int) -> None:
        listed = tegra.steps.count("1")
        if tegra.steps[step] == "1" and listed in (5, 12):
            tegra.open(tegra.programs[3].pid, 940 + listed)
            tegra.groups[-1].slice_us = 1_024 if listed == 5 else 50_000

    tegra.before = before
    code, out, _ = gpurt("plan", "slices", file, "--apply", "--watch", "--json")
    first, second, last = map(document, out.splitlines())
    assert code == 1
    assert [one["applied"] for one in (first, second, last)] == [True, True, False]
    assert [[tsg["tsg"] for tsg in one["opened"]] for one in (first, second, last)] == [[], [945], [952]]
    assert last["why"].startswith("no slices and levels were found")
    assert tegra.state() == [*BESIDE_ONE, DEFAULT, (50_000, 0)]
    assert tegra.file.locked


def test_watching_says_in_words_that_the_guarantee_is_gone(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    """A number that is closed and opened again by the same process is another TSG, with the driver's slice."""

    def before(step: int) -> None:
        listed = tegra.steps.count("1")
        if tegra.steps[step] == "1" and listed == 5:
            tegra.groups[0].slice_us = 1_024
        if tegra.steps[step] == "1" and listed == 12:
            tegra.groups[0].mode = 1

    tegra.before = before
    code, out, _ = gpurt("plan", "slices", file, "--apply", "--watch")
    camera = tegra.programs[0].pid
    assert code == 1
    assert f"TSG 3 of process {camera} (sleep) is not as planned\nplanned anew:" in out
    assert f"THE GUARANTEE IS GONE\nNOT APPLIED: kernels of process {camera} (sleep) execute to their end" in out
    assert tegra.state() == PLAN


def test_a_new_plan_that_the_driver_refuses_ends_the_watch(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    def before(step: int) -> None:
        if tegra.steps[step] == "1" and tegra.steps.count("1") == 5:
            tegra.open(tegra.programs[3].pid, 950)
            tegra.fails = lambda late: errno.EIO if late > step and tegra.steps[late] == "5" else 0

    tegra.before = before
    code, out, err = gpurt("plan", "slices", file, "--apply", "--watch", "--json")
    assert (code, len(out.splitlines())) == (5, 1)
    assert "the guarantee is gone: the driver refuses a slice" in json.loads(err)["error"]["message"]


def test_ctrl_c_ends_the_watch(gpurt: Gpurt, tegra: Tegra, file: Path) -> None:
    def before(step: int) -> None:
        if tegra.steps.count("1") == 6:
            raise KeyboardInterrupt

    tegra.before = before
    code, out, _ = gpurt("plan", "slices", file, "--apply", "--watch", "--json")
    assert (code, len(out.splitlines()), tegra.state()) == (0, 1, PLAN)


@pytest.mark.parametrize("options", [["--watch"], ["--ignore-missing"], ["--apply", "--watch", "-o", "OUT"]])
def test_options_that_do_not_go_together(gpurt: Gpurt, file: Path, options: list[str]) -> None:
    code, out, err = gpurt("plan", "slices", file, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_without_a_node_nothing_is_done(gpurt: Gpurt, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPURT_DEVICE", raising=False)
    monkeypatch.setattr(hints, "SCHED_NODES", ("/nowhere/sched",))
    code, out, err = gpurt("plan", "slices", file, "--apply")
    assert (code, out, "is this a Tegra?" in err) == (4, "", True)
