# SPDX-License-Identifier: GPL-2.0
"""The kernel module: what a segment costs, and how soon policy `job` notices.

Where /dev/gpurt is there (and we are root) it is measured as it is; otherwise in a machine that scripts/vm-test boots,
emulated in software, where only ratios within one boot mean anything.  Its idle CPUs poll: to wake one that halts
costs several times as much there as all that is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MISSING = 3
INSIDE = "scripts/benchmarks/inside/kernel.py"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields name, value and unit of each figure."""
    effort = ["--quick"] if quick else []
    if Path("/dev/gpurt").exists() and os.geteuid() == 0:
        command = [sys.executable, INSIDE, *effort]
    else:
        inside = " ".join(("python", INSIDE, *effort))
        command = ["scripts/vm-test", "--cpus", "2", "--append", "idle=poll", "--command", inside]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == MISSING:
        sys.exit(MISSING)
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)} failed with exit code {done.returncode}")
    for line in done.stdout.splitlines():
        if line.startswith("kernel."):
            name, value, unit = line.split()
            yield name, float(value), unit
