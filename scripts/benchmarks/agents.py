# SPDX-License-Identifier: GPL-2.0
"""An urgent process beside best-effort ones without a GPU: the real preload library and host over a model of an H200.

tests/preload/fakes/hardware.c has the model: its slices, its switches and how long its calls take.  The programs and
the host are as fast as this machine.  On a slower machine set GPURT_BENCH_SCALE: it multiplies all times of the model
by this factor, and divides the results by it.  The factor fits if the release reproduces its figures of
docs/benchmarks.md for 0 processes.  GPURT_BENCH_SECONDS (default 3) is the length of each scene.

An idle virtual CPU wakes late, so a SCHED_IDLE thread keeps each CPU busy.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "shared"))
from sides import Bench, build, rows
from ways import ROOT, WAYS, known, serving

from pycontrol.act.run import preload
from pycontrol.link.control import connect

SCALE = float(os.environ.get("GPURT_BENCH_SCALE", "1"))
SECONDS = float(os.environ.get("GPURT_BENCH_SECONDS", "3"))
#: Numbers of best-effort processes beside the urgent one, and of kernels in one of its segments.
BESIDE, LAUNCHES = (0, 1, 4, 16), (1, 10)
#: The kernel module, if it is loaded with agent_gpus=1: its row is comparable with `isolated`.
DEVICE = Path("/dev/gpurt")
#: The model is ready at once when a kernel executes, seconds.
SETTLE = 0.2


@contextmanager
def awake() -> Iterator[None]:
    """Keeps all CPUs awake while the context is entered."""
    loop = [sys.executable, "-c", "while True: pass"]
    cpus = sorted(os.sched_getaffinity(0))
    spinners = [subprocess.Popen(["taskset", "-c", str(cpu), "chrt", "-i", "0", *loop]) for cpu in cpus]
    try:
        yield
    finally:
        for one in spinners:
            one.kill()
            one.wait()


class Fakes:
    """The fake driver and libcuda, and what a program needs to use them."""

    def __init__(self, folder: Path) -> None:
        sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "core", "preload", "interface")]
        from machines import FakeGpu, build_fakes

        build_fakes(folder)
        self.folder, self.scenes = folder, 0
        self.make = ctypes.CDLL(str(folder / "libdriver.so")).hardware_make
        self.gpu = FakeGpu(folder / "gpu.sock", 1)
        self.version = folder / "gpu.version"
        self.version.write_text("580.159.04\n")

    def environment(self, host: Path | None) -> dict[str, str]:
        """The environment of a scene's programs, which have their own GPU.  ``host``: the host's socket."""
        self.scenes += 1
        scale = round(1000 * SCALE)
        hardware = self.folder / f"hardware{self.scenes}"
        assert not self.make(os.fsencode(hardware), scale)
        around = {**os.environ} if host is None else preload.environment(preload.find_preload(), str(host))
        loaded = f"{around['LD_PRELOAD']}:" if host else ""
        return {
            **around, "FAKE_HARDWARE": str(hardware), "FAKE_SCALE": str(scale), "FAKE_GROUPS": "4",
            "FAKE_CHANNELS": "8", "FAKE_GPU": str(self.gpu.path), "FAKE_NVIDIA_VERSION": str(self.version),
            "LD_LIBRARY_PATH": str(self.folder), "LD_PRELOAD": f"{loaded}{self.folder}/libdriver.so",
            "GPURT_QUIET": "1", "GPURT_NVIDIA_MANY": "1",
        }  # fmt: skip


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields agents.WAY.BESIDE.kLAUNCHES.{p50,p99,max}_us with best_effort_percent."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        fakes = Fakes(folder)
        stack.callback(fakes.gpu.close)
        program = build(folder)
        stack.enter_context(awake())
        for way in [*known("agents"), *(["module"] if DEVICE.exists() else [])]:
            yield from of_way(way, fakes, program, quick)


def of_way(way: str, fakes: Fakes, program: Path, quick: bool) -> Iterator[tuple[str, float, str]]:
    """The scenes of one way."""
    path, control, options = None, None, WAYS.get(way)
    with ExitStack() as stack:
        if options is not None:
            path = fakes.folder / f"{way}.sock"
            stack.enter_context(serving(path, *options))
        elif way == "module":
            path = DEVICE
        if path:
            control = stack.enter_context(connect(str(path)))
        for launches in LAUNCHES[:1] if quick else LAUNCHES:
            for beside in BESIDE[:2] if quick else BESIDE:
                seconds = 1 if quick else max(1, round(SECONDS * SCALE))
                bench = Bench(program, seconds, fakes.environment(path), control, SETTLE)
                yield from rows(f"agents.{way}", bench, beside, launches, SCALE)
