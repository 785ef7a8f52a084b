# SPDX-License-Identifier: GPL-2.0
"""An urgent process on a real GPU beside best-effort ones: on the plain driver, isolated by gpurt, and under yield.

Needs an NVIDIA GPU whose driver release libgpurt-preload knows; otherwise yields nothing.  Each measurement takes
GPURT_BENCH_SECONDS (default 2; with --quick 1), and there are 45 to 60.  It changes no setting of the card.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "shared"))
from sides import Bench, build, records, rows
from ways import WAYS, figures, known, serving

from gpurt.enums import Cause
from pycontrol.act.run import preload
from pycontrol.link.control import connect

SETTLE = 1.5
SECONDS = int(os.environ.get("GPURT_BENCH_SECONDS", "2"))
#: Scenes: the number of best-effort processes beside the urgent one, and of kernels in one of its segments.
SCENES = [(beside, launches) for launches in (1, 2, 10, 40) for beside in (0, 1, 4)]


def isolated(bench: Bench) -> tuple[int, int]:
    """How many urgent kernels executed without overlap with another's endless kernel, and how many there were."""
    other = bench.start("endless", bench.seconds + 8, 1)
    time.sleep(bench.settle)
    kernels = records(bench.urgent("explicit", 1), bench.seconds)["kernel"]
    gaps = records(other, bench.seconds)["gaps"]
    pairs = list(zip(kernels[::2], kernels[1::2], strict=True))
    return sum(inside(begin, end, gaps) for begin, end in pairs), len(pairs)


def inside(begin: int, end: int, gaps: list[int]) -> bool:
    """Whether an interval of the GPU's clock lies in one of the gaps, which are sorted pairs."""
    after = bisect(gaps, begin)
    return after % 2 == 1 and end <= gaps[after]


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
                    environment = {**preload.environment(preload.find_preload(), str(path)), "GPURT_QUIET": "1"}
                bench = Bench(program, 1 if quick else SECONDS, environment, control, SETTLE)
                for beside, launches in [(0, 1), (1, 2)] if quick else SCENES:
                    yield from rows(f"gpu.{way}", bench, beside, launches)
                yield f"gpu.{way}.best_effort_percent_without_urgent", 100 * bench.without_urgent(), "%"
                if way == "isolated":
                    yield from isolation(bench)


def isolation(bench: Bench) -> Iterator[tuple[str, float, str]]:
    """Explicit segments: response times, whether other processes executed inside, and the host's update times."""
    yield from figures("gpu.explicit.0.k1", records(bench.urgent("explicit", 1), bench.seconds)["ns"])
    inside_gaps, of = isolated(bench)
    yield "gpu.isolated_percent", 100 * inside_gaps / of, "%"
    assert bench.control
    for one in bench.control.latency():
        if one.cause in (Cause.BEGIN, Cause.END):
            label = "preempt" if one.cause is Cause.BEGIN else "resume"
            yield f"gpu.{label}_us.p50", one.percentile(0.5) / 1e3, "us"
            yield f"gpu.{label}_us.p99", one.percentile(0.99) / 1e3, "us"
