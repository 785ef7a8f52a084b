# SPDX-License-Identifier: GPL-2.0
"""An urgent process on a real GPU beside best-effort ones: as the driver has it, isolated by gpurt, and under yield.

Needs an NVIDIA GPU whose driver release libgpurt-preload knows; yields nothing elsewhere.  Each measurement takes
GPURT_BENCH_SECONDS (2 unless set; with --quick 1), and there are 45 to 60.  Nothing about the card is changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "shared"))
from ways import ROOT, WAYS, figures, known, serving

from gpurt.enums import Cause
from pycontrol.live.control import Control, connect
from pycontrol.run import preload
from pycontrol.run.placement import fifo_permitted

SECONDS = int(os.environ.get("GPURT_BENCH_SECONDS", "2"))
#: Best-effort processes beside the urgent one, and kernels of a segment of its.
BESIDE, LAUNCHES = (0, 1, 4), (1, 2, 10, 40)
PRIORITY = 50
#: How long starting and stopping may take besides, seconds.
GRACE = 60
#: How long a best-effort process may take until it keeps the GPU full, seconds.
SETTLE = 1.5
#: How long a kernel of a best-effort process executes: BUSY_LONG_WAVES waves of BUSY_LONG_NS.
KERNEL_NS = 16_000_000


@dataclass(frozen=True)
class Bench:
    """The program and, under gpurt, the host's control plane and the environment of managed processes."""

    program: Path
    seconds: int
    environment: dict[str, str]
    control: Control | None

    def start(self, part: str, *options: object) -> subprocess.Popen[str]:
        """Starts one side."""
        rt = ["chrt", "-f", str(PRIORITY)] if part in ("critical", "explicit") and fifo_permitted(PRIORITY) else []
        command = [*rt, str(self.program), part, *map(str, options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=self.environment, **pipes)  # type: ignore[call-overload,no-any-return]

    def crowd(self, part: str, size: int) -> list[subprocess.Popen[str]]:
        """Best-effort processes that keep the GPU full, and begin to count."""
        others = [self.start(part) for _ in range(size)]
        for other in others:
            ready(other)
        time.sleep(SETTLE if others else 0)
        for other in others:
            say(other)
        return others

    def scene(self, beside: int, launches: int) -> tuple[list[int], float]:
        """Response times of the urgent process, and the share of the GPU's time that best effort got beside it."""
        others = self.crowd("load", beside)
        begun = time.monotonic_ns()
        times = self.measure("critical", launches)["ns"]
        took = time.monotonic_ns() - begun
        return times, sum(records(other, self.seconds)["launches"] for other in others) * KERNEL_NS / took

    def measure(self, part: str, launches: int) -> dict[str, Any]:
        """Starts the urgent process, waits until it is ready, gives it its priority, and lets it begin."""
        own = self.start(part, self.seconds, launches)
        ready(own)
        if self.control:
            self.control.set_priority(own.pid, PRIORITY)
        return records(own, self.seconds)

    def without_urgent(self) -> float:
        """The share of the GPU's time that one best-effort process gets without any urgent one."""
        (load,) = self.crowd("load", 1)
        begun = time.monotonic_ns()
        time.sleep(self.seconds)
        took = time.monotonic_ns() - begun
        return float(records(load, self.seconds)["launches"]) * KERNEL_NS / took

    def isolated(self) -> tuple[int, int]:
        """How many of the urgent kernels executed while another's endless kernel did not, and how many there were."""
        other = self.start("endless", self.seconds + 8, 1)
        time.sleep(SETTLE)
        kernels = self.measure("explicit", 1)["kernel"]
        gaps = records(other, self.seconds)["gaps"]
        pairs = list(zip(kernels[::2], kernels[1::2], strict=True))
        return sum(inside(begin, end, gaps) for begin, end in pairs), len(pairs)


def inside(begin: int, end: int, gaps: list[int]) -> bool:
    """Whether a stretch of the GPU's clock lies in one of the gaps, which are pairs in order."""
    after = bisect(gaps, begin)
    return after % 2 == 1 and end <= gaps[after]


def say(process: subprocess.Popen[str]) -> None:
    """Gives a side its next word."""
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def ready(process: subprocess.Popen[str]) -> None:
    """Waits until a side is ready for its word."""
    assert process.stdout
    line = process.stdout.readline()
    if json.loads(line or "{}").get("record") != "ready":
        process.kill()
        raise SystemExit(f"bench gpu: the program failed: {line.strip() or process.wait()}")


def records(process: subprocess.Popen[str], seconds: int) -> dict[str, Any]:
    """Gives a side its last word; returns what it says when it has ended."""
    text, _ = process.communicate("\n", timeout=seconds + GRACE)
    lines = [json.loads(line) for line in text.splitlines()]
    found = [line for line in lines if line.get("record") in ("critical", "load", "endless")]
    if not found:
        raise SystemExit(f"bench gpu: the program failed: {text.strip() or process.returncode}")
    return dict(found[0])


def build(folder: Path) -> Path:
    """Compiles the two sides."""
    program = folder / "gpu_sides"
    probe = [str(ROOT / f"userlib/probe/native/{name}.c") for name in ("cuda_driver", "kernels", "busy", "emit")]
    own = str(ROOT / "scripts/benchmarks/gpu_sides.c")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(["cc", *flags, own, *probe, "-ldl", "-o", str(program)], check=True)
    return program


def missing(program: Path) -> str:
    """Why nothing can be measured here; empty if it can."""
    trial = subprocess.run([program, "load"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "" if trial.returncode == 0 else trial.stdout.strip() or "the program failed"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields gpu.WAY.BESIDE.kLAUNCHES.{p50,p99,max}_us, their best_effort_percent, and figures of gpurt's calls."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        reason = missing(program)
        if reason:
            print(f"bench gpu: {reason}: nothing is measured", file=sys.stderr)
            return
        for way in known("gpu"):
            with ExitStack() as stack:
                environment, control = dict(os.environ), None
                if (options := WAYS[way]) is not None:
                    path = folder / f"{way}.sock"
                    stack.enter_context(serving(path, *options))
                    control = stack.enter_context(connect(str(path)))
                    environment = {**preload.environment(preload.find(), str(path)), "GPURT_QUIET": "1"}
                bench = Bench(program, 1 if quick else SECONDS, environment, control)
                yield from table(way, bench, quick)
                if way == "isolated":
                    yield from isolation(bench)


def table(way: str, bench: Bench, quick: bool) -> Iterator[tuple[str, float, str]]:
    """One way's rows."""
    scenes: Sequence[tuple[int, int]] = [(beside, launches) for launches in LAUNCHES for beside in BESIDE]
    for beside, launches in [(0, 1), (1, 2)] if quick else scenes:
        times, share = bench.scene(beside, launches)
        label = f"gpu.{way}.{beside}.k{launches}"
        yield from figures(label, times)
        if beside:
            yield f"{label}.best_effort_percent", 100 * share, "%"
    yield f"gpu.{way}.best_effort_percent_without_urgent", 100 * bench.without_urgent(), "%"


def isolation(bench: Bench) -> Iterator[tuple[str, float, str]]:
    """Explicit segments: their response times, whether others executed inside, and what the host's updates took."""
    yield from figures("gpu.explicit.0.k1", bench.measure("explicit", 1)["ns"])
    inside_gaps, of = bench.isolated()
    yield "gpu.isolated_percent", 100 * inside_gaps / of, "%"
    assert bench.control
    for one in bench.control.latency():
        if one.cause in (Cause.BEGIN, Cause.END):
            label = "preempt" if one.cause is Cause.BEGIN else "resume"
            yield f"gpu.{label}_us.p50", one.percentile(0.5) / 1e3, "us"
            yield f"gpu.{label}_us.p99", one.percentile(0.99) / 1e3, "us"
