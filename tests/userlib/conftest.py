"""The library as a user gets it: installed into a prefix, with a host."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from library import PATIENCE, ROOT, Compile, Run
from once import once

from analysis.model import Platform
from pycontrol.act.run.emulator import Emulator

#: Where `make` builds, and scripts/test has it build before it runs tests.
MADE = ROOT / "build/userlib"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix into which `make install` installed the library."""
    if not shutil.which("make") or not shutil.which("cc"):
        pytest.skip("needs make and a C compiler")

    def install(folder: Path) -> None:
        if MADE.is_dir():
            shutil.copytree(MADE, folder / "build", symlinks=True)  # with the times of files: only the rest is built
        command = ["make", "-s", "-C", ROOT / "userlib", "install", f"PREFIX={folder}", f"BUILD={folder}/build"]
        subprocess.run(command, check=True)

    return once(tmp_path_factory, "prefix", install)


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library's objects, compiled under the sanitizers."""

    def build(folder: Path) -> None:
        own = ["cc", "-std=gnu11", *SANITIZE, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include"]
        for part in (ROOT / "userlib").glob("*.c"):
            subprocess.run([*own, "-c", part, "-o", folder / f"{part.stem}.o"], check=True)

    return once(tmp_path_factory, "sanitized", build)


@pytest.fixture
def compile_c(tmp_path: Path, sanitized: Path) -> Compile:
    """Compiles C (or C++) source together with the library's own sources, under the sanitizers."""

    def build(source: str, *flags: str, language: str = "c") -> Path:
        suffix, compiler = ("cpp", "g++") if language == "c++" else ("c", "cc")
        path = tmp_path / f"program.{suffix}"
        path.write_text(source)
        objects = sorted(sanitized.glob("*.o"))
        command = [compiler, "-Wall", "-Wextra", "-Werror", *SANITIZE, *flags, f"-I{ROOT}/userlib/include"]
        subprocess.run([*command, "-c", path.name], cwd=tmp_path, check=True)  # as ccache knows it
        subprocess.run([*command, "program.o", *objects, "-pthread", "-o", "program"], cwd=tmp_path, check=True)
        return tmp_path / "program"

    return build


@pytest.fixture
def emulator() -> Iterator[Path]:
    """The socket of a running emulator."""
    with Emulator(Platform(1)) as running:
        yield running.socket


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program with a host, or without one, and does not check its result."""

    def call(program: Path, device: Path | None, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "GPURT_DEVICE": str(device or tmp_path / "none"), **extra}
        command = [str(program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)

    return call


assert importlib.util.find_spec("gpurt._gpurt"), f"{sys.executable} lacks the compiled core; run scripts/setup"
