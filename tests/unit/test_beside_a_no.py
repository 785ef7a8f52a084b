# SPDX-License-Identifier: GPL-2.0
"""Commands say the same beside a no of the same file, and what they say helps does help."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller, everywhere
from fit_cases import FILES, HOSTS, Fake

from analysis.answers.no import least
from analysis.answers.sensitivity import changed, task_margin
from analysis.answers.verdict import answer
from analysis.taskset import load
from gpurt.enums import Policy
from pycontrol.link.control import connect
from pycontrol.observe.fit import fit

KEYS = ("would_hold", "simulated_misses", "helps")
#: `cause` misses, and `victim` with it; under no policy do all deadlines hold.
NO = """
[platform]
cpus = 1
alpha = "100us"
theta = "0ns"
policy = "boosted"
[[task]]
name = "victim"
cpu = 0
priority = 5
period = "50ms"
segments = [ { cpu = "1ms" }, { misc = "1ms", gpu = "5ms" } ]
[[task]]
name = "cause"
cpu = 0
priority = 9
period = "20ms"
deadline = "10ms"
segments = [ { cpu = "2ms" }, { misc = "1ms", gpu = "9ms" } ]
"""


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (file := tmp_path / "set.toml").write_text(NO, encoding="utf-8")
    return file


def said(gpurt: Gpurt, *words: object) -> dict[str, Any]:
    """The document of a command that says no."""
    code, out, err = gpurt(*words, "--json")
    assert code == 1, err
    return dict(json.loads(out))


def test_commands_say_the_same_beside_a_no(gpurt: Gpurt, file: Path) -> None:
    known = said(gpurt, "analyze", file)
    assert known["simulated_misses"] == ["cause"]
    assert [one.split(":")[0] for one in known["helps"]] == ["gpurt margins"]  # no policy holds
    for command in ("margins", "plan priorities", "plan modes"):
        wanted = {**known, "helps": [one for one in known["helps"] if not one.startswith(f"gpurt {command}")]}
        told = said(gpurt, command, file)
        assert {key: told[key] for key in KEYS} == {key: wanted[key] for key in KEYS}, command
        text = gpurt(command, file)[1]
        assert "cause: misses a deadline in a simulated schedule" in text
        assert all(f"what would help: {one}" in text for one in wanted["helps"])


def test_commands_say_nothing_beside_a_yes(gpurt: Gpurt, file: Path) -> None:
    file.write_text(NO.replace("9ms", "3ms"), encoding="utf-8")
    for command in ("analyze", "margins", "plan priorities", "plan modes"):
        code, out, _ = gpurt(command, file, "--json")
        assert (code, [json.loads(out)[key] for key in KEYS]) == (0, [[], [], []]), command


def test_a_test_of_another_system_would_hold_there(gpurt: Gpurt, file: Path, tmp_path: Path) -> None:
    """`check` compares with its bounds, and says no as the others do."""
    file.write_text(NO.replace("9ms", "3ms"), encoding="utf-8")
    trace = tmp_path / "run.json"
    assert gpurt("simulate", file, "--runs", "1", "-o", trace)[0] == 0
    for command in (["analyze", file], ["margins", file], ["plan priorities", file], ["trace check", trace, file]):
        (one,) = said(gpurt, *command, "--test", "gcaps-suspend")["would_hold"]
        assert (one["test"], one["under"]) == ("gcaps-suspend", "policy segment"), command
    file.write_text(NO.replace("9ms", "3ms").replace("boosted", "segment"), encoding="utf-8")
    assert gpurt("simulate", file, "--runs", "1", "-o", trace)[0] == 0
    assert gpurt("trace", "check", trace, file, "--test", "gcaps-suspend")[0] == 0


def test_the_smallest_change_makes_the_file_pass_and_no_smaller_one_does(file: Path) -> None:
    taskset = load(file).taskset
    test = answer(taskset).test
    assert test is not None
    one = least(test, taskset)
    assert one is not None
    assert answer(changed(taskset, one.task, one.what, Fraction(one.percent, 100))).schedulable
    factors = {(name, what): task_margin(test, taskset, name, what) for name in ("cause", "victim")
               for what in type(one.what) if what.value in "CG"}  # fmt: skip
    best = max(factor for factor in factors.values() if factor is not None)
    assert one.percent == int(100 * best)
    assert factors[one.task, one.what] == best


def test_what_is_said_to_help_names_the_task_and_the_time(gpurt: Gpurt, file: Path) -> None:
    """A time that is written into the file as it is said makes it pass."""
    told = said(gpurt, "analyze", file)["helps"][-1]
    found = re.search(r"cause's GPU time alone has to shrink to \d+ %, from 10 ms to ([\d.]+) ms,", told)
    assert found, told
    file.write_text(NO.replace('gpu = "9ms"', f'gpu = "{float(found[1]) - 1:.6f}ms"'), encoding="utf-8")
    assert gpurt("analyze", file)[0] == 0


def test_no_single_change_is_named_where_none_suffices(gpurt: Gpurt, file: Path) -> None:
    """Nor where the search would take long."""
    both = NO.replace("period = \"50ms\"", "period = \"50ms\"\ndeadline = \"6ms\"")
    many = "".join(f"""[[task]]
name = "t{number}"
cpu = 0
priority = {20 + number}
period = "10s"
segments = [ {{ cpu = "1us" }} ]
""" for number in range(20))
    for text in (both.replace("9ms", "12ms"), NO + many):
        file.write_text(text, encoding="utf-8")
        assert said(gpurt, "analyze", file)["helps"][-1] == (
            "gpurt margins: it says how much of which time has to go"
        )


def faked(monkeypatch: pytest.MonkeyPatch, host: fit.Host) -> None:
    """Commands find that host, which tells of no event."""
    everywhere(monkeypatch, fit.ask, lambda *_: host)
    everywhere(monkeypatch, connect, lambda *_: Fake(host))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_watch_knows_the_policy_of_each_partition(
    gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swapped: bool
) -> None:
    """GPUs that run what their partitions are for are no finding."""
    known = HOSTS["two GPUs segment"]
    policies = (Policy.TIMESLICED, Policy.SEGMENT) if swapped else (Policy.SEGMENT, Policy.TIMESLICED)
    faked(monkeypatch, replace(known, gpus=[replace(gpu, policy=policy) for gpu, policy in
                                            zip(known.gpus, policies, strict=True)]))  # fmt: skip
    before, name, after = FILES["partitions"].text.partition('name = "b"')
    (file := tmp_path / "set.toml").write_text(f'{before}{name}\npolicy = "timesliced"{after}', encoding="utf-8")
    out = gpurt("watch", file, "--until", "1ms", "--json")[1]
    told = [one for one in map(json.loads, out.splitlines()) if one.get("finding") == "policy"]
    named = [one["message"].split(" is for ")[0] for one in told]
    assert named == (["partition a", "partition b"] if swapped else [])


@pytest.mark.parametrize(("name", "found"), [("gcaps-suspend", {"policy": 1}), ("boosted-suspend", {})])
def test_a_watch_with_the_bounds_of_another_system_says_so(
    gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, found: dict[str, int]
) -> None:
    faked(monkeypatch, HOSTS["emulator boosted"])
    (file := tmp_path / "set.toml").write_text(FILES["boosted suspend"].text, encoding="utf-8")
    code, out, _ = gpurt("watch", file, "--until", "1ms", "--test", name, "--json")
    begun, *events = map(json.loads, out.splitlines())
    assert (code, begun["test"], events[-1]["found"]) == (1, name, found)
    assert any("another one" in one["message"] for one in events[:-1]) == bool(found)


#: A callback that waits for all of its sibling's job, which has room.
SERVED = """[platform]
cpus = 1
epsilon = "1ms"
policy = "boosted"
[[thread]]
name = "exec"
cpu = 0
priority = 20
order = "ros2"
[[task]]
name = "camera"
thread = "exec"
rank = 0
period = "33ms"
segments = [{ cpu = "2ms" }, { misc = "1ms", gpu = "6ms" }]
[[task]]
name = "lidar"
thread = "exec"
rank = 1
period = "100ms"
segments = [{ cpu = "15ms" }, { misc = "1ms", gpu = "11ms" }]
"""


def test_a_late_callback_is_told_what_its_sibling_takes(gpurt: Gpurt, file: Path) -> None:
    file.write_text(SERVED, encoding="utf-8")
    code, out, _ = gpurt("analyze", file, "--explain", "camera")
    assert code == 1
    assert "the largest part is jobs of its thread from lidar, 29 ms" in out
    rows = [re.split(r" {2,}", line)[:3] for line in out.splitlines()]
    assert [row for row in rows if row[0] in ("own execution", "jobs of its thread")] == [
        ["own execution", "9.000", "readings: boosted, own"], ["jobs of its thread", "lidar", "29.000"],
    ]  # fmt: skip
    help_, *_ = said(gpurt, "analyze", file)["helps"]
    assert help_ == "a process of its own for camera, of a priority above that of lidar: every deadline holds then"
    file.write_text(SERVED.replace('{ misc = "1ms", gpu = "11ms" }', '{ cpu = "12ms" }'), encoding="utf-8")
    help_, *_ = said(gpurt, "analyze", file)["helps"]
    assert help_ == "a thread of its own for camera, of a priority above that of lidar: every deadline holds then"
    own = SERVED.replace('thread = "exec"\nrank = 0', "cpu = 0\npriority = 21", 1)
    file.write_text(own, encoding="utf-8")
    assert gpurt("analyze", file)[0] == 0
