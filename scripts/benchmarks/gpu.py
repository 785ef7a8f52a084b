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
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpurt.enums import Cause
from pycontrol.live.control import Control, connect
from pycontrol.readable import readable
from pycontrol.run import preload
from pycontrol.run.placement import fifo_permitted

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = int(os.environ.get("GPURT_BENCH_SECONDS", "60"))
#: The best-effort processes beside the critical one: what each executes, and how many there are.
CROWDS = (("load", 1), ("load", 4), ("loads", 1))
PRIORITY = 50
#: How long starting and stopping may take besides, seconds.
GRACE = 60
#: How long a best-effort process may take until it keeps the GPU full, seconds.
SETTLE = 1.5


def percentile(values: list[int], share: float) -> float:
    """The smallest value that is not exceeded by that share."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


@dataclass(frozen=True)
class Bench:
    """The program, the host's control plane, and the environment that puts a process under gpurt."""

    program: Path
    control: Control
    managed: dict[str, str]
    seconds: int

    def start(self, part: str, seconds: int, managed: bool) -> subprocess.Popen[str]:
        """Starts one side."""
        environment = self.managed if managed else dict(os.environ)
        rt = ["chrt", "-f", str(PRIORITY)] if part in ("critical", "explicit") and fifo_permitted(PRIORITY) else []
        command = [*rt, str(self.program), part, str(seconds)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def critical(self, crowd: tuple[str, int], managed: bool, explicit: bool = False) -> dict[str, Any]:
        """The critical process's record beside so many others; under gpurt it has a priority, and they have none."""
        others = [self.start(crowd[0], self.seconds + GRACE, managed) for _ in range(crowd[1])]
        try:
            time.sleep(SETTLE if others else 0)
            return self.measure("explicit" if explicit else "critical", managed)
        finally:
            for other in others:
                other.send_signal(signal.SIGTERM)
            for other in others:
                other.communicate()

    def measure(self, part: str, managed: bool) -> dict[str, Any]:
        """Starts the critical process, waits until it is ready, gives it its priority, and lets it begin."""
        own = self.start(part, self.seconds, managed)
        assert own.stdout is not None
        line = own.stdout.readline()
        if json.loads(line or "{}").get("record") != "ready":
            own.kill()
            raise SystemExit(f"bench gpu: the program failed: {line.strip() or own.wait()}")
        if managed:
            self.control.set_priority(own.pid, PRIORITY)
        return records(own, self.seconds, "\n")

    def throughput(self, managed: bool) -> float:
        """Launches a second of best-effort work without any critical process."""
        record = records(self.start("load", self.seconds, managed), self.seconds)
        return float(record["launches"]) * 1e9 / float(record["ns"])

    def isolated(self) -> tuple[int, int]:
        """How many of the critical kernels executed while another's endless kernel did not, and how many there were."""
        other = self.start("endless", self.seconds + 8, managed=True)
        time.sleep(SETTLE)
        kernels = self.measure("explicit", managed=True)["kernel"]
        gaps = records(other, self.seconds)["gaps"]
        pairs = list(zip(kernels[::2], kernels[1::2], strict=True))
        return sum(inside(begin, end, gaps) for begin, end in pairs), len(pairs)


def inside(begin: int, end: int, gaps: list[int]) -> bool:
    """Whether a stretch of the GPU's clock lies in one of the gaps, which are pairs in order."""
    after = bisect(gaps, begin)
    return after % 2 == 1 and end <= gaps[after]


def records(process: subprocess.Popen[str], seconds: int, word: str | None = None) -> dict[str, Any]:
    """The words of a side once it has ended."""
    text, _ = process.communicate(word, timeout=seconds + GRACE)
    lines = [json.loads(line) for line in text.splitlines()]
    found = [line for line in lines if line.get("record") in ("critical", "load", "endless")]
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
    trial = subprocess.run([program, "load", "1"], capture_output=True, text=True, check=False)
    return "" if trial.returncode == 0 else trial.stdout.strip() or "the program failed"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields gpu.alone*, gpu.{unmanaged,gpurt,explicit}.CROWD, gpu.isolated_percent, gpu.{preempt,resume}_us, loss."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        reason = missing(program)
        if reason:
            print(f"bench gpu: {reason}: nothing is measured", file=sys.stderr)
            return
        with serving(folder) as path, connect(str(path)) as control:
            managed = {**preload.environment(preload.find(), str(path)), "GPURT_QUIET": "1"}
            bench = Bench(program, control, managed, 1 if quick else SECONDS)
            yield from figures("alone", bench.critical(("load", 0), False))
            yield from figures("alone_automatic", bench.critical(("load", 0), True))
            yield from figures("alone_explicit", bench.critical(("load", 0), True, explicit=True))
            inside_gaps, of = bench.isolated()
            yield "gpu.isolated_percent", 100 * inside_gaps / of, "%"
            yield from costs(control)
            for crowd in CROWDS[:1] if quick else CROWDS:
                label = f"{crowd[1]}_{crowd[0]}"
                yield from figures(f"unmanaged.{label}", bench.critical(crowd, False))
                yield from figures(f"gpurt.{label}", bench.critical(crowd, True))
                yield from figures(f"explicit.{label}", bench.critical(crowd, True, explicit=True))
            unmanaged = bench.throughput(False)
            yield "gpu.best_effort_loss_percent", 100 * (1 - bench.throughput(True) / unmanaged), "%"


def figures(label: str, record: dict[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Percentiles of response times."""
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        yield f"gpu.{label}.{name}_us", percentile(record["ns"], share) / 1e3, "us"


def costs(control: Control) -> Iterator[tuple[str, float, str]]:
    """Costs of updates as the host saw them: those of a begin switch one process off."""
    for one in control.latency():
        if one.cause in (Cause.BEGIN, Cause.END):
            label = "preempt" if one.cause is Cause.BEGIN else "resume"
            yield f"gpu.{label}_us.p50", one.percentile(0.5) / 1e3, "us"
            yield f"gpu.{label}_us.p99", one.percentile(0.99) / 1e3, "us"
