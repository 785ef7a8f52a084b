# SPDX-License-Identifier: GPL-2.0
"""Whole random files: what one command says of a file is what the others say of it, and of what they write."""

from __future__ import annotations

import json
import os
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller

from gpurt.enums import Policy

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
    assert gpurt("sensitivity", file)[0] == code
    report = gpurt("report", file, "--elsewhere", "-o", tmp_path / "page.html")
    assert (report[0], report[1]["analysis"]["tests"]) == (code, answer["tests"])
    ran, seen = gpurt("simulate", file, "--offsets", 20 if code == 0 else 1, "--seed", seed)
    if answer["tests"] and ran < 2:
        known = bounds(answer)
        assert {name: one["wcrt_ns"] for name, one in seen["tasks"].items() if one["wcrt_ns"] is not None} == known
        assert all((seen["tasks"][name]["mort_ns"] or 0) <= bound for name, bound in known.items())
    assert ran == 0 or code != 0
    chosen, choice = gpurt("choose", file)
    assert chosen == 0 or code != 0
    if chosen == 0:
        written.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        gpurt("choose", written, "--write")
        of_choice = gpurt.yes("analyze", written)["tests"][0]["tasks"].values()
        least = min(Fraction(one["slack_ns"], one["deadline_ns"]) for one in of_choice if one["in_time"])
        assert choice["ways"][0]["slack"] == pytest.approx(float(least))
        gpurt.yes("simulate", written, "--offsets", 20, "--seed", seed)
    if gpurt("slices", file, "-o", written)[0] == 0:
        gpurt.yes("analyze", written)
        gpurt.yes("simulate", written, "--offsets", 20, "--seed", seed)
