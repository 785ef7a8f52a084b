# SPDX-License-Identifier: GPL-2.0
"""AMD's runtime as Debian packages it, without installing it: unpacked into a folder that is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CACHE = Path.home() / ".cache/gpurt/rocm"
#: The runtime, and the libraries that it is linked to.
RUNTIME = ("libhsakmt1", "libhsa-runtime64-1", "libdrm2", "libdrm-amdgpu1", "libnuma1", "libelf1")
#: HIP, its compiler, and LLVM.
HIP = ("libamdhip64-5", "libamd-comgr2", "libllvm15")


def unpacked(package: str) -> Path:
    """The folder with a package's files.  Downloads it once; skips if that is not possible."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("AMD's runtime is taken from Debian's packages: needs apt-get and dpkg-deb")
    if not (CACHE / package).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as made:
            command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
            done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
            archives = list(Path(made).glob("*.deb"))
            if done.returncode or not archives:
                pytest.skip(f"apt-get has no package {package}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            subprocess.run(["dpkg-deb", "-x", archives[0], Path(made) / "all"], check=True)
            try:
                os.rename(Path(made) / "all", CACHE / package)
            except OSError:  # another test was faster
                assert (CACHE / package).exists()
    return CACHE / package


def libraries(packages: tuple[str, ...] = RUNTIME) -> str:
    """The folders with the packages' libraries, as LD_LIBRARY_PATH takes them."""
    folders = [folder for package in packages for folder in unpacked(package).glob("**/*-linux-gnu") if folder.is_dir()]
    return ":".join(str(folder) for folder in folders)


def lacking(library: Path, path: str) -> list[str]:
    """The libraries that a library needs, and that are neither on that path nor on this machine."""
    found = subprocess.run(
        ["ldd", library], capture_output=True, text=True, check=True, env={**os.environ, "LD_LIBRARY_PATH": path}
    ).stdout
    return [line.split()[0] for line in found.splitlines() if "not found" in line]
