# SPDX-License-Identifier: GPL-2.0
"""The urgent process and the best-effort ones of `bench gpu` and `bench agents`: gpu_sides.c."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ways import ROOT, figures

from pycontrol.link.control import Control
from pycontrol.machine.placement import fifo_permitted

Made = TypeVar("Made")
PRIORITY = 50
#: How long starting and stopping may take in addition, seconds.
GRACE = 60


@dataclass(frozen=True)
class Bench:
    """The program, the environment of its processes, and under gpurt a connection to the host's control plane.

    ``settle``: how long a best-effort process may take until it keeps the GPU full, seconds.
    """

    program: Path
    seconds: int
    environment: dict[str, str]
    control: Control | None
    settle: float

    def start(self, part: str, *options: object) -> subprocess.Popen[str]:
        """Starts one side."""
        rt = ["chrt", "-f", str(PRIORITY)] if part in ("critical", "explicit") and fifo_permitted(PRIORITY) else []
        command = [*rt, str(self.program), part, *map(str, options)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, text=True, env=self.environment, stdin=pipe, stdout=pipe)

    def urgent(self, part: str, launches: int) -> subprocess.Popen[str]:
        """Starts the urgent process, waits until it is ready, and gives it its priority."""
        own = self.start(part, self.seconds, launches)
        ready(own)
        if self.control:
            self.control.set_priority(own.pid, PRIORITY)
        return own

    def crowd(self, size: int) -> list[subprocess.Popen[str]]:
        """Best-effort processes that keep the GPU full."""
        others = [self.start("load") for _ in range(size)]
        for other in others:
            ready(other)
        time.sleep(self.settle if others else 0)
        return others

    def scene(self, beside: int, launches: int) -> tuple[list[int], float]:
        """Response times of the urgent process, and the share of GPU time that best-effort processes got beside it."""
        own = self.urgent("critical", launches)
        return self.shares(self.crowd(beside), lambda: list(records(own, self.seconds)["ns"]))

    def without_urgent(self, size: int = 1) -> float:
        """The share of GPU time that best-effort processes get without an urgent process."""
        _, share = self.shares(self.crowd(size), lambda: time.sleep(self.seconds))
        return share

    def shares(self, others: list[subprocess.Popen[str]], meanwhile: Callable[[], Made]) -> tuple[Made, float]:
        """The value of ``meanwhile()``, and the share of GPU time that other processes got during the call."""
        for other in others:
            say(other)
        begun = time.monotonic_ns()
        made = meanwhile()
        for other in others:
            say(other)
        took = time.monotonic_ns() - begun
        return made, 1000 * sum(records(other, self.seconds)["us"] for other in others) / took


def say(process: subprocess.Popen[str]) -> None:
    """Sends a side its next command."""
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def ready(process: subprocess.Popen[str]) -> None:
    """Waits until a side is ready for its command."""
    assert process.stdout
    line = process.stdout.readline()
    if json.loads(line or "{}").get("record") != "ready":
        process.kill()
        raise SystemExit(f"the program failed: {line.strip() or process.wait()}")


def records(process: subprocess.Popen[str], seconds: int) -> dict[str, Any]:
    """Sends a side its last command; returns the records that it writes when it has ended."""
    text, _ = process.communicate("\n", timeout=seconds + GRACE)
    lines = [json.loads(line) for line in text.splitlines()]
    found = [line for line in lines if line.get("record") in ("critical", "load", "endless")]
    if not found:
        raise SystemExit(f"the program failed: {text.strip() or process.returncode}")
    return dict(found[0])


def build(folder: Path) -> Path:
    """Compiles the two sides."""
    program = folder / "gpu_sides"
    probe = [str(ROOT / f"userlib/probe/native/{name}.c") for name in ("cuda_driver", "kernels", "busy", "emit")]
    own = str(ROOT / "scripts/benchmarks/gpu_sides.c")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(["cc", *flags, own, *probe, "-ldl", "-o", str(program)], check=True)
    return program


def rows(label: str, bench: Bench, beside: int, launches: int, scale: float = 1) -> Iterator[tuple[str, float, str]]:
    """A scene's figures; measured times on the GPU are ``scale`` times as long as the printed ones."""
    times, share = bench.scene(beside, launches)
    label = f"{label}.{beside}.k{launches}"
    yield from figures(label, [round(ns / scale) for ns in times])
    if beside:
        yield f"{label}.best_effort_percent", 100 * scale * share, "%"
