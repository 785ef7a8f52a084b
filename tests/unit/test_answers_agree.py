# SPDX-License-Identifier: GPL-2.0
"""Whole random files, and files on hosts: what one command says is what the others say, and of what they write."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller, everywhere
from fit_cases import FILES, HOSTS, Fake, with_commands

from analysis.taskset import parse
from analysis.traces.trace import HOST, Event, Kind, Trace, load_trace
from gpurt.enums import Policy
from pycontrol.act.run import launch
from pycontrol.link.control import connect
from pycontrol.machine import placement
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.objection import Defeats
from pycontrol.observe.watch.mismatch import lasting

pytestmark = pytest.mark.usefixtures("margins_once")
SEEDS = range(300 if os.environ.get("GPURT_LONG") else 8)


class Commands:
    """`gpurt` with --json: exit codes and documents."""

    def __init__(self, gpurt: Gpurt) -> None:
        self.gpurt = gpurt

    def __call__(self, *words: object) -> tuple[int, dict[str, Any]]:
        code, out, err = self.gpurt(*words, "--json")
        assert code in (0, 1, 2, 3), (words, code, err)
        return code, json.loads(out if code < 2 else err.splitlines()[-1])

    def yes(self, *words: object) -> dict[str, Any]:
        code, found = self(*words)
        assert code == 0, (words, found)
        return found


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(caller(capfd))


def random_file(rng: random.Random) -> str:
    """A few light tasks, so that the answer is often yes; keys that are optional are there or not."""
    cpus, count = rng.randint(1, 3), rng.randint(2, 4)
    lines = ["[platform]", f"cpus = {cpus}", f'policy = "{rng.choice(Policy.words())}"', "thread_cpu = 0"]
    lines += [f'alpha = "{rng.choice([0, 50, 300])}us"', f'theta = "{rng.choice([0, 10, 200])}us"']
    priorities = rng.sample(range(1, 20), count)
    waiting = [rng.choice(["busy", "suspend"])] * count
    if rng.random() < 0.3:
        waiting = [rng.choice(["busy", "suspend"]) for _ in range(count)]
    for index in range(count):
        period = rng.choice([10_000, 20_000, 50_000])
        priority = priorities[index] if index == 0 or rng.random() < 0.9 else 0
        lines += ["[[task]]", f'name = "t{index}"', f"cpu = {rng.randrange(cpus)}", f"priority = {priority}"]
        lines += [f'period = "{period}us"', f'waiting = "{waiting[index]}"']
        if priority and rng.random() < 0.3:
            lines.append(f'deadline = "{period * rng.choice([5, 7, 9]) // 10}us"')
        segments = [_segment(rng, period // 20) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.2 and priority and any("gpu" in one for one in segments):
            lines.append(f"gpu_priority = {rng.randint(1, 30)}")
        lines.append(f"segments = [{', '.join(segments)}]")
    return "\n".join(lines) + "\n"


def _segment(rng: random.Random, longest: int) -> str:
    worst = rng.randint(1, longest)
    span = f'{{ worst = "{worst}us", best = "{rng.randint(0, worst)}us" }}'
    return rng.choice([f"{{ cpu = {span} }}", f'{{ misc = "{rng.choice([0, 20])}us", gpu = {span} }}'])


def bounds(answer: dict[str, Any]) -> dict[str, int]:
    (test,) = answer["tests"]
    return {name: one["wcrt_ns"] for name, one in test["tasks"].items() if one["wcrt_ns"] is not None}


@pytest.mark.parametrize("seed", SEEDS)
def test_commands_agree_on_a_file_and_on_what_they_write(gpurt: Commands, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    file, written = tmp_path / "set.toml", tmp_path / "written.toml"
    file.write_text(random_file(rng), encoding="utf-8")
    code, answer = gpurt("analyze", file)
    assert gpurt("margins", file)[0] == code
    report = gpurt("report", file, "--elsewhere", "-o", tmp_path / "page.html")
    assert (report[0], report[1]["analysis"]["tests"]) == (code, answer["tests"])
    ran, seen = gpurt("simulate", file, "--runs", 20 if code == 0 else 1, "--seed", seed)
    if answer["tests"] and ran < 2:
        known = bounds(answer)
        assert {name: one["wcrt_ns"] for name, one in seen["tasks"].items() if one["wcrt_ns"] is not None} == known
        assert all((seen["tasks"][name]["mort_ns"] or 0) <= bound for name, bound in known.items())
    assert ran == 0 or code != 0
    chosen, choice = gpurt("plan", "modes", file)
    assert chosen == 0 or code != 0
    if chosen == 0:
        written.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        gpurt("plan", "modes", written, "--write")
        of_choice = gpurt.yes("analyze", written)["tests"][0]["tasks"].values()
        least = min(Fraction(one["slack_ns"], one["deadline_ns"]) for one in of_choice if one["in_time"])
        assert choice["ways"][0]["slack"] == pytest.approx(float(least))
        gpurt.yes("simulate", written, "--runs", 20, "--seed", seed)


class OnHost(Commands):
    """`gpurt` on a host that answers as one of HOSTS, for one of FILES.  Programs do what they do when simulated."""

    def __init__(self, gpurt: Gpurt, patch: pytest.MonkeyPatch, known: fit.Host, file: Path, name: str) -> None:
        super().__init__(gpurt)
        self.known, self.file, self.trace = known, file, Trace({}, (), {}, 0)
        emulated = all(gpu.emulated for gpu in known.gpus)
        text = FILES[name].text if emulated else with_commands(FILES[name].text)
        file.write_text(text, encoding="utf-8")
        self.loaded, recorded = parse(file, text), file.with_name("simulated.json")
        self("simulate", file, "--runs", 1, "-o", recorded)
        if recorded.exists():
            self.trace = load_trace(recorded)
        everywhere(patch, fit.ask, lambda control, file, policy=None: known)
        everywhere(patch, connect, lambda *_: Fake(known))
        everywhere(patch, placement.place_cpus, partial(placement.place_cpus, available=range(4)))
        patch.setattr(launch, "launch", lambda file, options, progress, partial: self._run(options))
        self.spoil: Callable[[Trace], Trace] = lambda trace: trace

    def _run(self, options: Any) -> launch.Run:
        scheduling = placement.FIFO if self.known.fifo else placement.DEFAULT_CLASS
        meta = {"policy": options.policy, HOST: fit.saved(options.host), "scheduling": scheduling}
        trace = self.spoil(replace(self.trace, meta={**self.trace.meta, **meta}))
        return launch.Run(placement.place_cpus(self.loaded.taskset), self.known.fifo, (), {}, 3.0, 0, trace)

    def answers(self, *commands: str) -> dict[str, tuple[bool, list[dict[str, Any]]]]:
        """By command, whether it says yes and what it objects to; without those that refuse the file or the run."""
        recorded = self.file.with_name("run.json")
        words: dict[str, tuple[object, ...]] = {
            "apply": (self.file, "--ignore-missing"), "watch": (self.file, "--until", "1ms"),
            "report": (self.file, "-o", self.file.with_name("page.html")), "run": (self.file, "-o", recorded),
            "trace check": (recorded, self.file), "analyze": (self.file, "--measured", "--margin", "0%"),
        }  # fmt: skip
        found = {}
        for name in commands:
            code, out, err = self.gpurt(name, *words[name], "--json")
            if code < 2:
                first = out.splitlines()[0] if name == "watch" else out
                found[name] = code == 0, json.loads(first)["objections"]
            elif name == "run":
                told, why = json.loads(err)["error"]["message"], fit.against(self.objections(True), Defeats.RUN)
                assert (code, told) == (5, why) or (code == 4 and "AMD GPU" in told), told  # whose CUs masks are of
                recorded.unlink(missing_ok=True)
            else:
                assert code == 3, (name, code, err)
                lacks = "epsilon is missing" in err or (name == "analyze" and "lacks theta" in err)
                assert lacks or not recorded.exists(), err
        return found

    def objections(self, ran: bool) -> list[fit.Objection]:
        return fit.objections(self.loaded, replace(self.known, ran=fit.Ran()) if ran else self.known)


#: Each host with a file, each file with a host or more, and what matters most of their product (test_fit.py has all).
PAIRS = [(host, list(FILES)[at * 5 % len(FILES)]) for at, host in enumerate(HOSTS)]
PAIRS += [(f"{kind} {policy}", f"{policy} suspend") for kind in ("emulator", "two GPUs") for policy in Policy.words()]
PAIRS += [("serve kfd boosted", "boosted busy"), ("two GPUs segment", "partitions")]
PAIRS += [("patched segment", name) for name in ("segment suspend", "boosted suspend", "no epsilon")]
PAIRS += [("patched boosted", name) for name in ("boosted suspend", "boosted busy", "partitions")]
PAIRS = list(dict.fromkeys([*PAIRS, ("patched, unable", "segment suspend")]))


@pytest.mark.parametrize(("title", "name"), PAIRS)
def test_commands_list_the_same_objections_and_none_says_yes_beside_one(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, title: str, name: str
) -> None:
    host = OnHost(caller(capfd), monkeypatch, HOSTS[title], tmp_path / "set.toml", name)
    for ran, commands in ((False, ("apply", "watch", "report")), (True, ("run", "trace check"))):
        for command, (yes, found) in host.answers(*commands).items():
            wanted = host.objections(ran)
            if command == "apply":  # which sets GPU priorities, and does not ask the host if the file is not proved
                wanted = [one for one in wanted if one.code is not fit.Code.GPU_PRIORITY]
                wanted = wanted if yes or found else []
            wanted = lasting(wanted) if command == "watch" else wanted  # its judge tells of strangers, later
            assert found == fit.data(wanted), command
            assert not (yes and fit.against(wanted)), command
    for yes, found in host.answers("analyze").values():  # which judges the file with the costs that the host has timed
        changed, _, few = fit.measured(host.loaded, host.known, Fraction(0))
        assert found == fit.data([*few, *fit.objections(changed, host.known)])
        assert not (yes and any("bounds" in one["defeats"] for one in found))


def test_a_run_without_a_virtual_gpu_needs_a_program_of_each_task(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stand-ins would fail where they ask for work on one, after the policy was set."""
    host = OnHost(caller(capfd), monkeypatch, HOSTS["patched segment"], tmp_path / "set.toml", "segment suspend")
    host.file.write_text(FILES["segment suspend"].text, encoding="utf-8")
    code, told = host("run", host.file, "--policy", "job")
    assert (code, "camera has no command" in told["error"]["message"]) == (2, True)


def _slow_update(trace: Trace) -> Trace:
    return replace(trace, events=(*trace.events, Event(trace.end, Kind.COMMIT, "", None, 10**9, gpu=0, detail="end")))


def _hung(trace: Trace) -> Trace:
    """A job is not done after half a second; its deadline is yet to come."""
    hung = Event(trace.end, Kind.RELEASE, "camera", 99_999)
    return replace(trace, events=(*trace.events, hung), until=trace.end + 500 * 10**6)


def _lost(trace: Trace) -> Trace:
    return replace(trace, events=(*trace.events, Event(trace.end, Kind.LOST, detail="7 events lost")))


def _late(trace: Trace) -> Trace:
    return replace(trace, events=(*trace.events, Event(trace.end, Kind.COMPLETE, "lidar", 99_999, 1_500_000_000)))


@pytest.mark.parametrize(("spoil", "why"), [
    (lambda trace: trace, None), (_slow_update, "epsilon: a runlist update (end) on GPU 0 took longer"),
    (_hung, "camera exceeded its bound"), (_lost, "not everything was seen: 7 events lost"),
    (_late, "lidar missed a deadline"),
])  # fmt: skip
@pytest.mark.parametrize("title", ["emulator segment", "emulator boosted"])
def test_a_run_is_judged_as_its_trace_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, title: str,
    spoil: Callable[[Trace], Trace], why: str | None,
) -> None:  # fmt: skip
    """By `run`, `trace check` and `report`, also under another policy than the file's."""
    host, trace = OnHost(caller(capfd), monkeypatch, HOSTS[title], tmp_path / "set.toml", "segment suspend"), "run.json"
    host.spoil = spoil
    code, ran = host("run", host.file, "-o", tmp_path / trace)
    checked = host("trace", "check", tmp_path / trace, host.file)
    keys = ("test", "comparable", "in_time", "why", "tasks", "findings", "objections")
    assert (code, {key: ran[key] for key in keys}) == (checked[0], {key: checked[1][key] for key in keys})
    _, page = host("report", host.file, "--elsewhere", "--trace", tmp_path / trace, "-o", tmp_path / "page.html")
    assert (page["holds"], page["traces"][0]["against"]) == (ran["in_time"], ran["why"])
    if title == "emulator boosted":
        assert not ran["comparable"]
        assert ran["why"]
    else:
        assert (bool(ran["why"]), (ran["why"] or "").startswith(why or "")) == (bool(why), True), ran["why"]
    lines = [host.gpurt(*words)[1].splitlines()[-1:] for words in (
        ("run", host.file), ("trace", "check", tmp_path / trace, host.file))]  # fmt: skip
    assert lines[0] == lines[1]


@pytest.mark.parametrize("title", ["emulator segment", "emulator boosted", "serve kfd boosted", "two GPUs boosted"])
def test_alpha_of_a_host_is_no_proof_for_another_one(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, title: str
) -> None:
    """The answer is about this host: what it objects to defeats a yes about the file."""
    host = OnHost(caller(capfd), monkeypatch, HOSTS[title], tmp_path / "set.toml", "boosted suspend")
    ((yes, found),) = host.answers("analyze").values()
    codes = {one["code"] for one in found if "bounds" in one["defeats"]}
    wanted = {"emulator segment": {"policy", "costs"}, "two GPUs boosted": {"gpus", "costs"}}
    assert codes == wanted.get(title, {"costs"} if title == "emulator boosted" else set())
    assert yes == (not codes)
