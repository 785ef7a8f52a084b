# SPDX-License-Identifier: GPL-2.0
"""A latency-critical process on a real GPU against best-effort ones, as the driver has it and under gpurt.

Needs an NVIDIA GPU whose driver release libgpurt-preload knows; yields nothing elsewhere.  Each measurement takes
GPURT_BENCH_SECONDS (60 unless set; with --quick 1).  Nothing about the card is changed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpurt.enums import Cause
from pycontrol.live.control import connect
from pycontrol.readable import readable
from pycontrol.run import preload

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = int(os.environ.get("GPURT_BENCH_SECONDS", "60"))
#: How many best-effort processes there are.
CROWDS = (1, 4)
PRIORITY = 50
#: How long starting and stopping may take besides, seconds.
GRACE = 60


def percentile(values: list[int], share: float) -> float:
    """The smallest value that is not exceeded by that share."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


@dataclass(frozen=True)
class Bench:
    """The program, and the environment that puts a process under gpurt."""

    program: Path
    managed: dict[str, str]
    seconds: int

    def start(self, part: str, seconds: int, managed: bool) -> subprocess.Popen[str]:
        """Starts one side."""
        environment = self.managed if managed else dict(os.environ)
        rt = ["chrt", "-f", str(PRIORITY)] if part != "load" and os.geteuid() == 0 else []
        command = [*rt, str(self.program), part, str(seconds)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def critical(self, crowd: int, managed: bool, explicit: bool = False) -> list[int]:
        """Response times of the critical process beside so many others, ns."""
        others = [self.start("load", self.seconds + GRACE, managed) for _ in range(crowd)]
        try:
            own = self.start("explicit" if explicit else "critical", self.seconds, managed)
            return list(records(own, self.seconds)["ns"])
        finally:
            for other in others:
                other.send_signal(signal.SIGTERM)
            for other in others:
                other.communicate()

    def throughput(self, managed: bool) -> float:
        """Launches a second of best-effort work without any critical process."""
        record = records(self.start("load", self.seconds, managed), self.seconds)
        return float(record["launches"]) * 1e9 / float(record["ns"])


def records(process: subprocess.Popen[str], seconds: int) -> dict[str, Any]:
    """What a side said once it has ended."""
    text, _ = process.communicate(timeout=seconds + GRACE)
    lines = [json.loads(line) for line in text.splitlines()]
    found = [line for line in lines if line.get("record") in ("critical", "load")]
    if not found:
        raise SystemExit(f"bench gpu: the program failed: {text.strip() or process.returncode}")
    return dict(found[0])


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """A host with agents."""
    path = folder / "host.sock"
    reader, writer = os.pipe()
    options = [f"--socket={path}", f"--ready-fd={writer}", "--policy=segment", "--quiet"]
    command = [sys.executable, "-m", "pycontrol.cli", "serve", *options]
    host = subprocess.Popen(command, pass_fds=[writer], cwd=ROOT)
    os.close(writer)
    readable(reader, GRACE)
    os.close(reader)
    try:
        yield path
    finally:
        host.terminate()
        host.wait()


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
    trial = subprocess.run([program, "critical", "1"], capture_output=True, text=True, check=False)
    return "" if trial.returncode == 0 else trial.stdout.strip() or "the program failed"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields gpu.alone_p99_us, gpu.unmanaged_*, gpu.gpurt_*, gpu.preempt_us.*, gpu.best_effort_loss_percent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        reason = missing(program)
        if reason:
            print(f"bench gpu: {reason}: nothing is measured", file=sys.stderr)
            return
        with serving(folder) as path, connect(str(path)) as control:
            managed = {**preload.environment(preload.find(), str(path)), "GPURT_QUIET": "1"}
            bench = Bench(program, managed, 1 if quick else SECONDS)
            yield from figures("alone", bench.critical(0, False))
            for crowd in CROWDS:
                yield from figures(f"unmanaged.{crowd}", bench.critical(crowd, False))
                yield from figures(f"gpurt.{crowd}", bench.critical(crowd, True))
                yield from figures(f"explicit.{crowd}", bench.critical(crowd, True, explicit=True))
            yield from headline(bench, control)


def figures(label: str, times: list[int]) -> Iterator[tuple[str, float, str]]:
    """Percentiles of response times."""
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        value = percentile(times, share) / 1e3
        yield f"gpu.{label}.{name}_us", value, "us"
        # the names without a crowd are those of the largest
        if name == "p99" and label in ("alone", f"unmanaged.{CROWDS[-1]}", f"gpurt.{CROWDS[-1]}"):
            yield f"gpu.{label.split('.')[0]}_p99_us", value, "us"


def headline(bench: Bench, control: Any) -> Iterator[tuple[str, float, str]]:
    """What a preemption costs, and what gpurt costs best-effort work."""
    begun = [one for one in control.latency() if one.cause is Cause.BEGIN]
    if begun:
        yield "gpu.preempt_us.p50", begun[0].percentile(0.5) / 1e3, "us"
        yield "gpu.preempt_us.p99", begun[0].percentile(0.99) / 1e3, "us"
    unmanaged = bench.throughput(False)
    yield "gpu.best_effort_loss_percent", 100 * (1 - bench.throughput(True) / unmanaged), "%"
