# SPDX-License-Identifier: GPL-2.0
"""How long commands take to answer about large files: CPU time of the whole command, including its start."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class System:
    """How a file is generated: loads of each CPU and the GPU; periods of 30 to 500 ms, half the tasks use the GPU."""

    tasks: int
    cpus: int
    load: float
    gpu: float


def text(one: System, policy: str = "boosted") -> str:
    """A taskset file; the same for the same system."""
    draw = random.Random(1)
    found = [f'[platform]\ncpus = {one.cpus}\nalpha = "20us"\ntheta = "5us"\npolicy = "{policy}"\n']
    for number, period in enumerate(sorted(draw.randint(30_000, 500_000) for _ in range(one.tasks))):
        computes = int(period * one.load * one.cpus / one.tasks / 2) + 1
        executes = int(period * one.gpu / one.tasks) + 1
        segments = f'{{ cpu = "{computes}us" }}'
        if draw.random() < 0.5:
            segments += f', {{ misc = "{executes // 10 + 1}us", gpu = "{executes}us" }}'
        found.append(
            f'[[task]]\nname = "t{number}"\ncpu = {number % one.cpus}\npriority = {99 - number * 98 // one.tasks}\n'
            f'period = "{period}us"\nsegments = [{segments}]\n'
        )
    return "".join(found)


#: Names of figures, commands, files.
YES, NO = (0.3, 0.3), (0.9, 2.0)
MEASURED = (
    ("analyze.300", ("analyze",), System(300, 4, *YES)),
    ("analyze_no.300", ("analyze",), System(300, 4, *NO)),
    ("report.300", ("report", "--elsewhere", "-o", os.devnull), System(300, 4, *YES)),
    ("modes.100", ("plan", "modes"), System(100, 16, *YES)),
    ("margins.100", ("margins",), System(100, 16, *YES)),
    ("analyze.10000", ("analyze",), System(10_000, 16, *YES)),
    ("analyze.5000", ("analyze",), System(5000, 16, *YES)),
)


def spent(words: tuple[str, ...], file: Path) -> float:
    """Seconds of CPU time of a command on a file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pycontrol", *words, str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Seconds of each command."""
    with tempfile.TemporaryDirectory() as folder:
        for name, words, one in MEASURED:
            file = Path(folder) / f"{name}.toml"
            file.write_text(text(System(8, 2, one.load, one.gpu) if quick else one))
            yield f"answers.{name}.cpu_seconds", spent(words, file), "s"
