# SPDX-License-Identifier: GPL-2.0
"""The scheduler core: nanoseconds of begin+end, two decisions, by number of clients."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parent.parent / "kmod/core"
CLIENTS = (8, 64, 1024, 4096)


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields core.pair_ns.N and core.ratio_4096_8."""
    sources = [CORE / f"{name}.c" for name in ("queue", "budget", "boost", "group", "sched")]
    effort = ["1000", "1"] if quick else []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "core_pair"
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-std=gnu11", "-O2", HERE / "core_pair.c", *sources, "-o", program], check=True)
        times = {}
        for count in CLIENTS:
            out = subprocess.run([program, str(count), *effort], capture_output=True, text=True, check=True).stdout
            times[count] = float(out)
            yield f"core.pair_ns.{count}", times[count], "ns"
    yield "core.ratio_4096_8", times[CLIENTS[-1]] / times[CLIENTS[0]], "ratio"
