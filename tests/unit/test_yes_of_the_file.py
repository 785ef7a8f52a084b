# SPDX-License-Identifier: GPL-2.0
"""Exit code 0 and "holds" are about the system that the file describes; what holds elsewhere is printed as that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load
from analysis.traces.trace import Event, Kind, Trace

ROOT = Path(__file__).resolve().parents[2]
TWO = ROOT / "examples/two-programs.toml"
#: One GPU in two partitions whose tasks share no CPU.
APART = """
[platform]
cpus = 3
epsilon = "1ms"
compute_units = 8
policy = "{}"
[[partition]]
name = "a"
compute_units = 4
[[partition]]
name = "b"
compute_units = 4
epsilon = "3ms"
""" + "".join(f"""
[[task]]
name = "{name}"
cpu = {cpu}
priority = {priority}
period = "100ms"
partition = "{part}"
segments = [{{{{ misc = "1ms", gpu = "8ms" }}}}]
""" for name, cpu, priority, part in (("a1", 0, 9, "a"), ("b1", 1, 8, "b"), ("a2", 0, 7, "a"), ("b2", 2, 6, "b")))


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("gcaps-suspend", 'policy = "segment" in [platform], or gpurt plan modes --write'),
        ("boosted-suspend+gpu-priority", "gpurt plan priorities --write, or gpurt plan modes --write"),
    ],
)
def test_a_named_test_of_another_system_is_no_yes(gpurt: Gpurt, tmp_path: Path, name: str, cure: str | None) -> None:
    code, out, _ = gpurt("analyze", TWO, "--test", name, "--json")
    told = json.loads(out)
    assert (code, told["schedulable"], told["tests"][0]["schedulable"]) == (1, False, True)
    assert [(one["test"], one["cure"]) for one in told["would_hold"]] == [(name, cure)]
    assert f"{name} is about" in told["why"]
    text = gpurt("analyze", TWO, "--test", name)[1]
    assert "would hold under" in text
    for command in ("margins", "report"):
        options = ("--elsewhere", "-o", tmp_path / "page.html") if command == "report" else ()
        assert gpurt(command, TWO, "--test", name, *options)[0] == 1, command
    own = json.loads(gpurt("analyze", TWO, "--json")[1])
    assert (own["schedulable"], own["would_hold"]) == (True, [])


def test_another_policy_that_would_hold_is_no_yes_either(gpurt: Gpurt, tmp_path: Path) -> None:
    file = tmp_path / "set.toml"
    file.write_text(TWO.read_text().replace("cpus = 2", 'cpus = 2\npolicy = "timesliced"'))
    code, out, _ = gpurt("analyze", file, "--json")
    assert (code, "policy boosted" in [one["under"] for one in json.loads(out)["would_hold"]]) == (1, True)


def test_a_run_of_another_system_is_no_yes_by_its_test(gpurt: Gpurt, tmp_path: Path) -> None:
    trace = simulate(load(TWO).taskset, Options("segment"), events=100_000).trace
    assert trace is not None
    trace.save(tmp_path / "run.json")
    code, out, _ = gpurt("trace", "check", tmp_path / "run.json", TWO, "--test", "gcaps-suspend", "--json")
    told = json.loads(out)
    assert (code, told["comparable"], told["tasks"]["detector"]["verdict"]) == (1, True, "ok")
    assert "the file says boosted" in told["why"]


def test_late_is_what_missed_a_deadline(gpurt: Gpurt, tmp_path: Path) -> None:
    """The detector's bound is 13.5 ms and its deadline 20."""
    for took, words in ((14, "no deadline was missed, but a bound was exceeded"), (21, "tasks were late")):
        events = [Event(0, Kind.RELEASE, name, 0) for name in ("detector", "mapper")]
        events += [Event(took * 10**6, Kind.COMPLETE, name, 0, took * 10**6) for name in ("detector", "mapper")]
        Trace({"policy": "boosted"}, tuple(events), until=22 * 10**6).save(tmp_path / "run.json")
        code, _, err = gpurt("trace", "check", tmp_path / "run.json", TWO, "--test", "boosted-suspend")
        assert (code, words in err, "tasks were late" in err) == (1, True, took > 20), err


def test_partitions_without_common_cpus_are_systems_of_their_own(gpurt: Gpurt, tmp_path: Path) -> None:
    """A planner's file is analysed, under any policy of one GPU; each partition has its own update costs."""
    file = tmp_path / "set.toml"
    for policy in ("boosted", "segment"):
        file.write_text(APART.format(policy))
        code, out, _ = gpurt("analyze", file, "--json")
        (test,) = json.loads(out)["tests"]
        assert (code, set(test["tasks"])) == (0, {"a1", "b1", "a2", "b2"}), out
        assert test["tasks"]["a1"]["wcrt_ns"] < test["tasks"]["b1"]["wcrt_ns"]
        assert gpurt("simulate", file, "--runs", "200")[0] == 0
        assert gpurt("margins", file)[0] == 0
    file.write_text(APART.format("boosted").replace("cpu = 1", "cpu = 0"))
    assert "several partitions share CPUs" in gpurt("analyze", file)[1]


def test_what_partition_writes_is_accepted_by_analyze(gpurt: Gpurt, tmp_path: Path) -> None:
    out = tmp_path / "planned.toml"
    assert gpurt("plan", "partitions", ROOT / "examples/partitions.toml", "-o", out)[0] == 0
    assert gpurt("analyze", out)[0] == 0
    assert gpurt("plan", "units", ROOT / "examples/federated.toml", "-o", out)[0] == 0
    code, text, _ = gpurt("analyze", out)
    assert (code, text.startswith("rtgpu ")) == (0, True)
