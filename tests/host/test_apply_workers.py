# SPDX-License-Identifier: GPL-2.0
"""A task with workers on a running host: `gpurt apply` has them join their group; nobody says yes of another one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from processes import StartHost

from gpurt.errors import RefusedError
from pycontrol import cli
from pycontrol.link import applied
from pycontrol.link.control import connect
from pycontrol.link.tegra import Setting
from pycontrol.machine.placement import fifo_permitted

pytestmark = pytest.mark.skipif(not fifo_permitted(20), reason="SCHED_FIFO is not permitted")

#: A member that tells when it has had the GPU, and lives until its stdin ends.
MEMBER = """
import os
import sys
from gpurt import Client
with Client(sys.argv[1]) as client:
    priority = {"plan": 20, "left": 10, "right": 9}[sys.argv[2]]
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    os.sched_setaffinity(0, {0})
    if sys.argv[3:]:
        client.join(sys.argv[3], raise_all=sys.argv[4:] == ["all"])
    client.begin(5)
    client.end()
    print(flush=True)
    sys.stdin.read()
"""
#: Costs that no machine exceeds, however busy it is.
FILE = """[platform]
cpus = 1
policy = "segment"
alpha = "20s"
theta = "1ms"
[[task]]
name = "plan"
cpu = 0
priority = 20
gpu_priority = 30
period = "9000s"
group = "plan"
command = {plan}
segments = [{{ misc = "1ms", gpu = "1ms" }}, {{ workers = ["left", "right"] }}, {{ cpu = "2ms" }}]
[[task]]
name = "left"
cpu = 0
priority = 10
command = {left}
segments = [{{ misc = "1ms", gpu = "3ms" }}]
[[task]]
name = "right"
cpu = 0
priority = 9
segments = [{{ cpu = "3ms" }}]
"""


class Set:
    """A host, a file of it, and programs of its tasks."""

    def __init__(self, host: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.host, self.file, self.capfd = host, folder / "set.toml", capfd
        self.text = FILE.format(plan=json.dumps(self.command("plan")), left=json.dumps(self.command("left")))
        self.file.write_text(self.text, encoding="utf-8")

    def command(self, name: str, *group: str) -> list[str]:
        return [sys.executable, "-c", MEMBER, str(self.host), name, *group]

    @contextmanager
    def members(self, *commands: list[str]) -> Iterator[list[int]]:
        """Programs that have been clients, by pid."""
        with ExitStack() as stack:
            made = [
                stack.enter_context(subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                for one in commands
            ]
            for one in made:
                assert one.stdout
                assert one.stdout.readline() == b"\n"
            yield [one.pid for one in made]

    def asked(self, *words: object) -> tuple[int, dict[str, Any]]:
        code = cli.run(["--device", str(self.host), *map(str, words), "--json"])
        return code, json.loads(self.capfd.readouterr().out)

    def asked_in_vain(self, *words: object) -> int:
        code = cli.run(["--device", str(self.host), *map(str, words)])
        assert self.capfd.readouterr().err
        return code

    def clients(self) -> list[tuple[int, str, int]]:
        with connect(str(self.host)) as control:
            return sorted((one.pid, one.group, one.priority) for one in control.clients())


@pytest.fixture
def given(start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Set:
    return Set(start_host(), tmp_path, capfd)


def test_a_task_and_its_workers_join_their_group_at_its_level(given: Set, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert given.asked("analyze", given.file)[0] == 0
    with given.members(given.command("plan"), given.command("left")) as pids:
        for words in (("analyze", given.file, "--measured", "--margin", "0%"), ("report", given.file, "-o", page)):
            code, said = given.asked(*words)
            codes = {one["code"] for one in said["objections"] if one["defeats"]}
            assert (code, codes) == (1, {"group", "gpu-priority"})
        code, said = given.asked("apply", given.file)
        assert (code, said["applied"], said["schedulable"]) == (0, True, True), said
        assert {name: one["group"] for name, one in said["tasks"].items()} == {"plan": "plan", "left": "plan"}
        assert given.clients() == sorted((pid, "plan", 30) for pid in pids)
        assert given.asked("apply", given.file)[0] == 0, "again"
        assert given.asked("analyze", given.file, "--measured", "--margin", "0%")[0] == 0
        assert given.asked("report", given.file, "-o", page)[0] == 0


def test_who_is_in_another_group_stays_there_and_nothing_is_set(given: Set) -> None:
    text = given.text.replace(json.dumps(given.command("left")), json.dumps(given.command("left", "other")))
    given.file.write_text(text, encoding="utf-8")
    with given.members(given.command("plan"), given.command("left", "other")):
        before = given.clients()
        code, said = given.asked("apply", given.file)
        assert (code, said["applied"]) == (1, False)
        assert "is in group other, the file says group plan for left" in said["why"]
        assert given.clients() == before


def test_a_group_without_a_bound_is_joined_by_force_at_the_highest_level_of_its_members(given: Set) -> None:
    plain = given.text.replace(', { workers = ["left", "right"] }', "")
    plain = plain.replace("group =", 'deadline = "9000s"\ngroup =')
    plain = plain.replace('name = "left"\n', 'name = "left"\nperiod = "9000s"\ngroup = "plan"\n')
    plain = plain.replace('name = "right"\n', 'name = "right"\nperiod = "9000s"\ngroup = "plan"\n')
    given.file.write_text(plain.replace("priority = 9\n", "priority = 50\n"), encoding="utf-8")  # it uses no GPU
    assert given.asked_in_vain("apply", given.file) == 3
    with given.members(given.command("plan"), given.command("left")) as pids:
        code, said = given.asked("apply", given.file, "--force")
        assert (code, said["applied"], said["schedulable"]) == (0, True, False), said
        assert {name: (one["group"], one["gpu_priority"]) for name, one in said["tasks"].items()} == {
            "plan": ("plan", 30), "left": ("plan", 30)
        }  # fmt: skip
        assert given.clients() == sorted((pid, "plan", 30) for pid in pids)
        again = given.asked("apply", given.file, "--force")[1]["objections"]
        assert [one for one in again if one["code"] in ("group", "gpu-priority")] == []


def test_a_hold_is_applied_where_each_thread_has_joined_so_by_itself(
    start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The host can have a process join, and cannot know which of its threads to raise."""
    given = Set(start_host(policy="boosted"), tmp_path, capfd)
    held = given.text.replace('"right"] }', '"right"], hold = true }').replace('"segment"', '"boosted"')
    held = held.replace("gpu_priority = 30", "gpu_priority = 20").replace(
        'priority = 9\nsegments = [{ cpu = "3ms" }]',
        f'priority = 9\ncommand = {json.dumps(given.command("right"))}\nsegments = [{{ cpu = "3ms" }}]',
    )  # fmt: skip
    names, alone = ("plan", "left", "right"), given.command("plan")
    given.file.write_text(held.replace(json.dumps(given.command("plan")), json.dumps(alone)), encoding="utf-8")
    with given.members(alone):
        before = given.clients()
        code, said = given.asked("apply", given.file)
        assert (code, said["applied"], given.clients()) == (1, False, before)
        assert "has to join plan itself, with GPURT_GROUP_ALL" in "".join(said["notes"] + [said["why"]])
    for name in names:
        held = held.replace(json.dumps(given.command(name)), json.dumps(given.command(name, "plan", "all")))
    given.file.write_text(held, encoding="utf-8")
    with given.members(*(given.command(name, "plan", "all") for name in names)) as pids:
        code, said = given.asked("apply", given.file)
        assert (code, said["applied"], said["schedulable"]) == (0, True, True), said
        assert given.clients() == sorted((pid, "plan", 20) for pid in pids)


def test_what_is_put_back_of_a_group_is_what_its_earlier_members_had(given: Set) -> None:
    class Node:
        def tsgs(self, _pid: int) -> list[int]:
            raise RefusedError("no")

    members = given.members(given.command("plan", "g"), given.command("left"))
    with members as (member, joins), connect(str(given.host)) as control:
        control.set_priority(member, 7)
        before = control.clients()
        settings: Any = [Setting(member, 5_000)], Node()
        with pytest.raises(RefusedError, match=f"no; not put back: process {joins} stays in its group"):
            applied.apply_settings(control, before, {joins: 30, member: 30}, *settings, {joins: "g"})
        assert {one.set_priority for one in control.clients()} == {7}


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_process_runs_for_all_tasks_whose_jobs_it_does(given: Set, kind: str) -> None:
    """Only one names the command, and that need not be one that uses the GPU."""
    command, place = json.dumps(given.command("plan")), "cpu = 0\npriority = 20"
    home = place if kind == "process" else f'[[thread]]\nname = "node"\n{place}\norder = "fifo"\ncommand = {command}'
    each = {"process": f'process = "node"\n{place}', "thread": 'thread = "node"'}[kind]
    tasks = "".join(
        f'[[task]]\nname = "{name}"\n{each}\nperiod = "9000s"\nwaiting = "suspend"\nsegments = [{{ {segment} }}]\n'
        for name, segment in (("plan", 'cpu = "1ms"'), ("left", 'gpu = "1ms"'), ("right", 'gpu = "2ms"'))
    ).replace("gpu", 'misc = "0ms", gpu')
    if kind == "process":
        tasks = tasks.replace('name = "plan"', f'name = "plan"\ncommand = {command}')
    head = given.text.partition("[[task]]")[0]
    given.file.write_text(head + (home + "\n" if kind == "thread" else "") + tasks, encoding="utf-8")
    with given.members(given.command("plan")) as pids:
        code, said = given.asked("apply", given.file)
        assert (code, said["applied"]) == (0, True), said
        assert {name: one["pids"] for name, one in said["tasks"].items()} == {"left": pids, "right": pids}
        assert [priority for *_, priority in given.clients()] == [20]
