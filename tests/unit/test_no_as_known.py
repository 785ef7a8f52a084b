# SPDX-License-Identifier: GPL-2.0
"""A no says what is known: that no bound is, of which task, and why; once, and in every command in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller

PLATFORM = """
[platform]
cpus = {cpus}
epsilon = "{epsilon}"
policy = "{policy}"
"""
TASK = """
[[task]]
name = "{}"
cpu = {}
priority = {}
period = "{}"
segments = [{}]
"""
#: A published bound that takes a short suspension as blocking, and an exact search, have 7 ms for c.
SHORT_SUSPENSION = PLATFORM.format(cpus=1, epsilon="0us", policy="segment") + "".join((
    TASK.format("a", 0, 20, "4ms", '{ cpu = "1ms" }'),
    TASK.format("b", 0, 15, "8ms", '{ cpu = "2ms" }, { misc = "0ms", gpu = "1ms" }, { cpu = "2ms" }'),
    TASK.format("c", 0, 10, "10ms", '{ cpu = "1ms" }'),
))  # fmt: skip
#: The victim comes first in the file, and the cause last; `alone` has a CPU of its own.
CAUSE_LAST = PLATFORM.format(cpus=3, epsilon="1ms", policy="segment") + "".join((
    TASK.format("victim", 0, 5, "500ms", '{ misc = "0ms", gpu = "10ms" }'),
    TASK.format("alone", 2, 1, "100ms", '{ cpu = "70ms" }'),
    TASK.format("cause", 1, 20, "100ms", '{ misc = "1ms", gpu = "120ms" }'),
))  # fmt: skip
#: Only best effort uses the GPU, in a time slice that its TSGs share.
BEST_EFFORT_SLICES = """
[platform]
cpus = 1
epsilon = "1ms"
policy = "{}"
[[partition]]
name = "a"
slice = "1ms"
shared = "{}"
[[task]]
name = "be"
cpu = 0
priority = 0
period = "10ms"
partition = "a"
segments = [ {{ misc = "1ms", gpu = "1ms" }} ]
[[task]]
name = "rt"
cpu = 0
priority = 2
period = "20ms"
segments = [ {{ cpu = "2ms" }} ]
"""


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "set.toml"


def test_a_failed_sufficient_test_is_no_fact(gpurt: Gpurt, file: Path) -> None:
    file.write_text(SHORT_SUSPENSION)
    known = "c: no bound below the deadline of 10 ms is known (the recurrence passed it at 12 ms)"
    for command in ("analyze", "margins", "plan priorities"):
        code, out, _ = gpurt(command, str(file))
        assert (code, known in out, "exceeds" in out) == (1, True, False), (command, out)
    (test,) = json.loads(gpurt("analyze", str(file), "--json")[1])["tests"]
    assert test["tasks"]["c"]["reason"] == "no bound below the deadline"
    assert "no bound above 0" in gpurt("margins", str(file))[1]


def test_a_time_without_which_the_test_would_not_refuse_the_file_does_not_shrink(gpurt: Gpurt, file: Path) -> None:
    """The test of own units refuses a GPU time that is known on one number of units, however short it is."""
    own = PLATFORM.format(cpus=1, epsilon="1ms", policy="federated") + "compute_units = 7\n"
    file.write_text(own + TASK.format("a", 0, 3, "40ms", '{ cpu = "1ms" }, { misc = "1ms", gpu = "2ms" }'))
    code, out, _ = gpurt("margins", str(file))
    assert (code, " 0.000 " in out, "one of these must shrink" in out) == (1, False, False), out
    assert "None of these makes it schedulable by itself" in out
    assert {one["factor"] for one in json.loads(gpurt("margins", str(file), "--json")[1])["margins"]} == {None}


def test_the_cause_is_named_once_and_everywhere_the_same(gpurt: Gpurt, file: Path, tmp_path: Path) -> None:
    file.write_text(CAUSE_LAST)
    document = json.loads(gpurt("analyze", str(file), "--json")[1])
    why = document["why"]
    assert why.startswith("cause: no bound below the deadline of 100 ms")
    assert why.endswith("; no bound of victim either")
    assert json.loads(gpurt("margins", str(file), "--json")[1])["why"] == why
    report = json.loads(gpurt("report", str(file), "--elsewhere", "-o", str(tmp_path / "page.html"), "--json")[1])
    assert (report["analysis"]["why"], report["sensitivity"]["why"]) == (why, why)
    text = gpurt("analyze", str(file))[1]
    assert text.count("cause: no bound below") == 1
    assert "no bound of victim either, because cause has none" in text


def test_a_bound_that_rests_on_no_failure_is_printed(gpurt: Gpurt, file: Path) -> None:
    """Also where priorities for the GPU are out of order: tasks of CPUs without GPU work wait for none of them."""
    file.write_text(CAUSE_LAST)
    (test,) = json.loads(gpurt("analyze", str(file), "--json")[1])["tests"]
    assert 70_000_000 <= test["tasks"]["alone"]["wcrt_ns"] <= 71_000_000
    low = TASK.format("low", 1, 3, "900ms", '{ misc = "1ms", gpu = "1ms" }') + "gpu_priority = 90\n"
    file.write_text(CAUSE_LAST.replace("120ms", "20ms") + low)
    (test,) = json.loads(gpurt("analyze", str(file), "--json")[1])["tests"]
    assert "out of order" in test["tasks"]["victim"]["reason"]
    assert 70_000_000 <= test["tasks"]["alone"]["wcrt_ns"] <= 71_000_000


@pytest.mark.parametrize("policy", ["boosted", "segment", "job", "lock-fifo", "timesliced"])
@pytest.mark.parametrize("shared", ["priority", "deadline"])
def test_best_effort_alone_on_shared_slices_has_an_answer(gpurt: Gpurt, file: Path, policy: str, shared: str) -> None:
    file.write_text(BEST_EFFORT_SLICES.format(policy, shared))
    for command in ("analyze", "margins"):
        code, out, err = gpurt(command, str(file))
        assert code == (0 if policy == "timesliced" else 1), (out, err)
        assert policy == "timesliced" or f'shared = "{shared}"' in out


def test_a_miss_in_a_simulated_schedule_is_said(gpurt: Gpurt, file: Path) -> None:
    """The cause misses; of the short suspension, which only the test does not pass, nothing is seen to miss."""
    for text, misses in ((CAUSE_LAST, ["victim", "cause"]), (SHORT_SUSPENSION, [])):
        file.write_text(text)
        document = json.loads(gpurt("analyze", str(file), "--json")[1])
        assert document["simulated_misses"] == misses
        assert any(one.startswith("gpurt margins") for one in document["helps"])
        assert ("misses a deadline in a simulated schedule" in gpurt("analyze", str(file))[1]) == bool(misses)


def test_priorities_that_help_are_told_of(gpurt: Gpurt, file: Path) -> None:
    tight = TASK.format("tight", 1, 1, "120ms", '{ misc = "0ms", gpu = "8ms" }') + 'deadline = "20ms"\n'
    file.write_text(PLATFORM.format(cpus=2, epsilon="0ns", policy="boosted")
                    + TASK.format("long", 0, 9, "100ms", '{ misc = "0ms", gpu = "30ms" }') + tight)  # fmt: skip
    (told,) = json.loads(gpurt("analyze", str(file), "--json")[1])["helps"]
    assert told.startswith("gpurt plan priorities --write")
    assert gpurt("plan", "priorities", str(file), "--write")[0] == 0
    assert gpurt("analyze", str(file))[0] == 0
