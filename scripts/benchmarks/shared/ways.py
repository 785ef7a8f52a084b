# SPDX-License-Identifier: GPL-2.0
"""The ways to give a GPU to an urgent process that `bench agents` and `bench gpu` compare, and their scenes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pycontrol.readable import readable

ROOT = Path(__file__).resolve().parents[3]
#: How long a host may take to start, seconds.
START = 60
#: Options of `gpurt serve`; None: programs run without gpurt.
WAYS: dict[str, tuple[str, ...] | None] = {
    "none": None, "isolated": (), "yield": ("--begin=yield",), "turns": ("--begin=turns",)
}  # fmt: skip
#: The percentiles in the output.
SHARES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))


def known(bench: str) -> list[str]:
    """The ways that this release's host knows.  Prints the names of the others."""
    command = [sys.executable, "-m", "pycontrol", "serve", "--help"]
    words = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    missing = [way for way, options in WAYS.items() if any(one.partition("=")[0] not in words for one in options or ())]
    for way in missing:
        print(f"bench {bench}: gpurt serve has no {' '.join(WAYS[way] or ())}: no row {way!r}", file=sys.stderr)
    return [way for way in WAYS if way not in missing]


@contextmanager
def serving(path: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host with agents, once it serves."""
    words = [f"--socket={path}", "--policy=segment", "--quiet", *options]
    command = [sys.executable, "-m", "pycontrol", "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as host:
        try:
            if not (readable(host.stdout, START) and host.stdout.readline()):
                raise SystemExit("the host does not start")
            yield host
        finally:
            host.terminate()


def percentile(values: Sequence[int], share: float) -> float:
    """The value at this share of the sorted values, a quantile."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def figures(label: str, ns: Sequence[int]) -> Iterator[tuple[str, float, str]]:
    """Percentiles of response times."""
    for name, share in SHARES:
        yield f"{label}.{name}_us", percentile(ns, share) / 1e3, "us"
