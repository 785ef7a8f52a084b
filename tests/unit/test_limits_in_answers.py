# SPDX-License-Identifier: GPL-2.0
"""Limits of chains, and what a test says nothing of: every command that proves or plans knows them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from calls import caller, everywhere
from fit_cases import HOSTS, Fake
from test_answers_agree import Commands

from analysis.answers.registry import TESTS
from analysis.answers.sensitivity import Grows, changed
from analysis.answers.verdict import answer
from analysis.taskset import parse
from pycontrol.link.control import connect

#: The chain's reaction is bounded by 57 ms and more.
CHAINED = """
[platform]
cpus = 1
alpha = "500us"
theta = "100us"
policy = "segment"
compute_units = 8
[[task]]
name = "lidar"
cpu = 0
priority = 3
period = "20ms"
max_period = "40ms"
segments = [ { kernel = "1ms" } ]
[[task]]
name = "brake"
cpu = 0
priority = 9
period = "10ms"
releases = "periodic"
segments = [ { misc = "20us", gpu = { parallel = "500us" } } ]
[[chain]]
name = "stop"
tasks = ["lidar", "brake"]
max_reaction = "MOSTms"
"""


@pytest.mark.parametrize("most", [10, 65])
def test_limits_of_chains_are_part_of_the_one_answer(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int
) -> None:
    """Planners that know nothing of chains refuse files with limits, also ones that would hold."""
    everywhere(monkeypatch, connect, lambda *_: Fake(HOSTS["emulator segment"]))
    gpurt, file, other = Commands(caller(capfd)), tmp_path / "set.toml", tmp_path / "written.toml"
    page, text = tmp_path / "page.html", CHAINED.replace("MOST", str(most))
    file.write_text(text, encoding="utf-8")
    for words in (
        ("analyze", file), ("margins", file), ("report", file, "--elsewhere", "-o", page), ("plan priorities", file),
        ("plan modes", file), ("apply", file, "--ignore-missing"), ("analyze", file, "--test", "gcaps-suspend"),
    ):  # fmt: skip
        code, told = gpurt(*words)
        assert code == (0 if most == 65 else 1), (words, told)
        assert words[0] == "plan modes" or ("stop: max_reaction" in (told["why"] or "")) == (most == 10), (words, told)
    if most == 65:  # the limit is what stops a time from growing
        grown = next(one for one in gpurt("margins", file)[1]["margins"] if one["task"] == "brake")
        for factor, yes in ((grown["factor"] * 0.999, True), (grown["factor"] * 1.001, False)):
            larger = changed(parse(file, text).taskset, "brake", Grows.GPU, Fraction(factor))
            assert answer(larger).schedulable == yes
            assert (answer(replace(larger, chains=())).schedulable, factor) == (True, factor)
    assert gpurt("plan partitions", file, "-o", other)[0] == 2
    file.write_text(text.replace('misc = "20us", gpu = { parallel = "500us" }', 'kernel = "500us"'), encoding="utf-8")
    assert gpurt("plan units", file, "-o", other)[0] == (0 if most == 65 else 1)
    if most == 65:
        assert gpurt.yes("analyze", other)["chains"]["stop"]["holds"]
    told = gpurt("simulate", file, "--runs", "1")[1]
    assert (told["chains"]["stop"]["max_reaction"]["holds"], told["in_time"]) == (most == 65, most == 65)


@pytest.mark.parametrize("key", ["jitter", "cpu_latency", "thread"])
def test_units_are_planned_of_no_file_that_their_tests_say_nothing_of(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, key: str
) -> None:
    """`plan modes` compares no such way either."""
    gpurt = Commands(caller(capfd))
    text = CHAINED.partition("[[chain]]")[0].replace('policy = "segment"', 'policy = "federated"')
    if key == "thread":
        for priority in (3, 9):
            text = text.replace(f"cpu = 0\npriority = {priority}", 'thread = "e"')
        text += '[[thread]]\nname = "e"\ncpu = 0\npriority = 9\norder = "fifo"\n'
    else:
        text = text.replace(*(("max_period", key) if key == "jitter" else ("cpus", f'{key} = "1us"\ncpus')), 1)
    (file := tmp_path / "set.toml").write_text(text, encoding="utf-8")
    code, told = gpurt("plan units", file, "-o", tmp_path / "written.toml")
    assert (code, "knows nothing" in told["error"]["message"]) == (2, True)
    assert gpurt("analyze", file)[0] == 1


#: `slow` is below a thread of which two tasks wait busily inside segments.
THREAD = """
[platform]
cpus = 1
alpha = "50us"
theta = "0us"
policy = "boosted"
[[thread]]
name = "executor"
cpu = 0
priority = 40
order = "fifo"
[[task]]
name = "slow"
cpu = 0
priority = 7
period = "50ms"
waiting = "busy"
segments = [{ cpu = "1ms" }]
"""
SERVED = """[[task]]
name = "{}"
thread = "executor"
period = "20ms"
waiting = "busy"
segments = [{{ misc = "20us", gpu = "400us" }}]
"""


def test_no_test_assigns_priorities_where_it_says_nothing(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`plan modes` tries each; some looked for what a thread's other task takes, and ended as a bug."""
    text = THREAD + SERVED.format("one") + SERVED.format("other")
    (file := tmp_path / "set.toml").write_text(text, encoding="utf-8")
    taskset = parse(file, text).taskset
    for test in (one for one in TESTS.values() if one.assigns and not one.threads):
        assert test.assign(taskset).priorities is None, test.name
    gpurt = Commands(caller(capfd))
    assert gpurt("plan", "modes", file)[0] == 0
    assert gpurt("plan", "priorities", file, "--test", "boosted-busy")[0] == 1


def test_partitions_without_common_cpus_are_compared_as_systems_of_their_own(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`analyze` bounds each by itself; `plan modes` knew tests of shared CPUs only, which say nothing of wake-ups."""
    own = 'policy = "segment"\ncompute_units = 8\ncpu_latency = "1us"\n'
    parts = [f'[[partition]]\nname = "{name}"\ncompute_units = 4\nepsilon = "1ms"\n' for name in "pq"]
    tasks = [
        f'[[task]]\nname = "{name}"\ncpu = {cpu}\npriority = 5\nperiod = "50ms"\npartition = "{part}"\n'
        'segments = [{ misc = "1ms", gpu = "2ms" }]\n'
        for cpu, (name, part) in enumerate((("one", "p"), ("other", "q")))
    ]  # fmt: skip
    (file := tmp_path / "set.toml").write_text(
        "\n".join(['[platform]\ncpus = 2\nalpha = "100us"\ntheta = "0us"', own, *parts, *tasks]), encoding="utf-8"
    )
    gpurt = Commands(caller(capfd))
    assert gpurt.yes("analyze", file)["tests"][0]["test"] == "gcaps-suspend"
    assert {one["policy"] for one in gpurt.yes("plan", "modes", file)["ways"]} >= {"boosted", "segment"}
    gpurt.yes("plan", "modes", file, "--write")
    gpurt.yes("analyze", file)


def test_a_chain_longer_than_a_simulation_is_not_in_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each link takes a period of 10 ms, and the runs last for 20 of them."""
    file, names = tmp_path / "long.toml", [f"t{number}" for number in range(25)]
    tasks = "".join(f'[[task]]\nname = "{name}"\ncpu = 0\npriority = {number}\nwaiting = "suspend"\nperiod = "10ms"\n'
                    'releases = "periodic"\nsegments = [{ cpu = "10us" }]\n' for number, name in enumerate(names, 1))
    chain = f'[[chain]]\nname = "long"\ntasks = {names}\nmax_reaction = "10s"\n'
    file.write_text(f'[platform]\ncpus = 1\nepsilon = "10us"\ntheta = "1us"\n{tasks}{chain}', encoding="utf-8")
    code, told = Commands(caller(capfd))("simulate", file, "--runs", "1")
    assert (code, told["in_time"]) == (1, False)
    assert told["why"] == "chain long: no max_reaction was seen, for no output with a whole chain behind it was"
