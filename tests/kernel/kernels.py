# SPDX-License-Identifier: GPL-2.0
"""Helpers of this folder's tests: running the scripts that build and boot kernels, and programs for inside."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
#: Scripts that boot a machine.
MACHINES = {"vm-test", "debug-run", "uml-run"}
#: How the kernel dies of a breakpoint that it has not put there, or not any more.
STALE_BREAKPOINT = "int3: 0000"
#: Exit codes of scripts/vm-test, debug-run and uml-run.
MISSING, HUNG, COMPLAINED, NOT_BOOTED = 3, 124, 125, 126
MEANING = {HUNG: "the machine hung", COMPLAINED: "the kernel complained", NOT_BOOTED: "it did not build or boot"}
FLAGS = ["-static", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT}/userlib/include"]


def place() -> IO[str]:
    """Waits until few enough machines run: those whose virtual CPUs hardly get a CPU do not finish sooner.

    First come, first served: else what takes longest may start last.  Returns a file that is closed when the machine
    has ended.
    """
    places = ROOT / "build/places"
    places.mkdir(parents=True, exist_ok=True)
    with (places / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        while True:
            for number in range(min(os.cpu_count() or 1, 15) + 1):
                file = (places / str(number)).open("w")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    file.close()
                else:
                    return file
            time.sleep(0.2)


def run_script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs scripts/``name``, which ends when this process ends; skips the test if this machine lacks something.

    There is no time limit here: the scripts notice that a machine hangs.  QEMU may execute a breakpoint that is gone:
    such a machine, and one that hangs, is booted once more, and a warning says so (docs/kernel-tests.md).
    """
    run = run_once(name, *arguments)
    if name in MACHINES and (run.returncode == HUNG or STALE_BREAKPOINT in run.stderr):
        warnings.warn(f"scripts/{name} is tried once more: {explain(run)}", stacklevel=2)
        run = run_once(name, *arguments)
    return run


def run_once(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs scripts/``name``, a machine when there is a place for it."""
    command = ["setpriv", "--pdeathsig", "TERM", ROOT / "scripts" / name, *arguments]
    with (
        place() if name in MACHINES else contextlib.nullcontext(),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            stdout, stderr = process.communicate()
        except BaseException:
            process.terminate()  # the script then ends what it started
            raise
    if process.returncode == MISSING:
        pytest.skip(stderr.strip().splitlines()[-1])
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def explain(run: subprocess.CompletedProcess[str]) -> str:
    """The reason why a run in the machine went wrong, the end of its output last."""
    return f"{MEANING.get(run.returncode, f'exit code {run.returncode}')}\n{run.stderr[-6000:]}\n{run.stdout[-6000:]}"


def static_program(source: Path, compiler: str = "gcc") -> Path:
    """A C file as a statically linked program; each content is compiled once, into build/programs."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    read = subprocess.run([compiler, *FLAGS, "-E", "-P", source], capture_output=True, check=True).stdout
    program = ROOT / "build/programs" / f"{source.stem}-{compiler}-{hashlib.sha256(read).hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, *FLAGS, source, "-o", unfinished], check=True)
        unfinished.rename(program)
    return program


def helper_module(source: Path, kernel: str, *arguments: str) -> Path:
    """A module of these tests, which scripts/kmod-build compiles once for each content; with arguments for make."""
    done = run_script("kmod-build", "--source", source, kernel, *arguments)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def fake_driver(kernel: str) -> Path:
    """A module that is a patched driver without a GPU, with the port that gpurt.ko of this checkout expects."""
    folder = ROOT / "build/fake_driver"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*(HERE / "guest/fake_driver").iterdir(), ROOT / "kmod/drv/port.h"):
        unfinished = folder / f".{file.name}.{os.getpid()}"
        shutil.copyfile(file, unfinished)
        unfinished.rename(folder / file.name)
    return helper_module(folder, kernel)


@contextlib.contextmanager
def amdgpu_source() -> Iterator[Path | None]:
    """The sources of Linux 6.1, from which the debug kernel is built; they stay meanwhile.  None: there are none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpurt/kernels"
    if not (cache / "source-6.1/drivers/gpu/drm/amd").is_dir():
        yield None
        return
    with (cache / ".lock-source").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield cache / "source-6.1"


def patched_files(source: Path, folder: Path) -> list[Path]:
    """The files that the patches of amdgpu change or add, patched, in that empty folder."""
    top = "drivers/gpu/drm/amd/amdkfd"
    shutil.copytree(source / top, folder / top)
    shutil.copy(source / "Makefile", folder)
    before = {one.name: one.read_bytes() for one in (folder / top).iterdir()}
    done = subprocess.run([ROOT / "scripts/patch-driver", "amdgpu", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [one for one in (folder / top).glob("*.[ch]") if before.get(one.name) != one.read_bytes()]


def kfd_driver(kernel: str) -> Path | None:
    """A module that is the queue manager of patched amdgpu, without a card; None: Linux's sources are not there."""
    with amdgpu_source() as source, tempfile.TemporaryDirectory() as tree:
        if source is None:
            return None
        folder = ROOT / "build/kfd_driver"
        folder.mkdir(parents=True, exist_ok=True)
        for file in (*(HERE / "guest/kfd_driver").iterdir(), *patched_files(source, Path(tree))):
            unfinished = folder / f".{file.name}.{os.getpid()}"
            shutil.copyfile(file, unfinished)
            unfinished.rename(folder / file.name)
        return helper_module(folder, kernel, f"AMD={source}/drivers/gpu/drm/amd")
