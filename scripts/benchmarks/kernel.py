# SPDX-License-Identifier: GPL-2.0
"""The kernel module: the cost of a segment, the delay of policy `job`, and an attacker's effect on real-time tasks.

If /dev/gpurt exists and this is root, it measures the loaded module.  Otherwise it measures in machines that
scripts/vm-test boots.  These are emulated in software, so only ratios within one boot mean anything.  In the first
machine idle CPUs poll: waking a halted CPU costs several times as much there as everything that is measured.  In the
second machine all instructions take equally long, so that other work on this machine does not matter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MISSING = 3
INSIDE = "scripts/benchmarks/inside/kernel.py"
COUNTED = "scripts/benchmarks/inside/kernel_counted.py"
sys.path.append(str(ROOT / "scripts/benchmarks/inside"))

from programs import compiled  # noqa: E402


def commands(quick: bool, programs: Path) -> Iterator[list[str]]:
    """Commands that print the figures; test machines get the compiled programs in that folder."""
    effort = ["--quick"] if quick else []
    inside, counted = (" ".join(("python", script, *effort)) for script in (INSIDE, COUNTED))
    if Path("/dev/gpurt").exists() and os.geteuid() == 0:
        yield from ([sys.executable, script, *effort] for script in (INSIDE, COUNTED))
        return
    boot = ["scripts/vm-test", "--with", str(compiled(programs))]
    counting = [*boot, "--kernel", "amd64-6.1-rt", "--counted", "--cpus", "1", "--command"]
    if quick:
        yield [*counting, f"{inside} && {counted}"]  # one boot
    else:
        yield [*boot, "--cpus", "2", "--append", "idle=poll", "--command", inside]
        yield [*counting, counted]


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields name, value and unit of each figure."""
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(quick, Path(folder)):
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode == MISSING:
                sys.exit(MISSING)
            if done.returncode:
                sys.exit(f"bench: {' '.join(command)} failed with exit code {done.returncode}")
            for line in done.stdout.splitlines():
                if line.startswith("kernel."):
                    name, value, unit = line.split()
                    yield name, float(value), unit
