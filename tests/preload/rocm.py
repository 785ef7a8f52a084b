# SPDX-License-Identifier: GPL-2.0
"""AMD's runtime as Debian packages it, without installing it: unpacked into a folder that is kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

CACHE = Path.home() / ".cache/gpurt/rocm"
#: The packages that a program of another suite than this machine's runs with.
SYSTEM = ("libc6", "libstdc++6", "libgcc-s1", "libdrm2", "libelf1t64", "libnuma1", "zlib1g", "libzstd1")
#: HIP, its compiler, and LLVM, for this machine's runtime and for sid's.
HIP = ("libamdhip64-5", "libamd-comgr2", "libllvm15")
HIP_6 = ("libamdhip64-6", "libamd-comgr3", "libllvm21", "libxml2-16", "libffi8", "libedit2", "libtinfo6", "libbsd0",
         "libmd0")  # fmt: skip


@dataclass(frozen=True)
class Runtime:
    """A release of ROCr.  ``suite``: Debian's, or empty for this machine's.  ``thunk``: libhsakmt is a library."""

    name: str
    suite: str
    packages: tuple[str, ...]
    thunk: bool = True


OWN = Runtime("5.2.3", "", ("libhsakmt1", "libhsa-runtime64-1", "libdrm2", "libdrm-amdgpu1", "libnuma1", "libelf1"))
TRIXIE = Runtime("6.1.2", "trixie", ("libhsakmt1", "libhsa-runtime64-1", *SYSTEM))
SID = Runtime("6.4.3", "sid", ("libhsa-runtime64-1", *SYSTEM), thunk=False)


def _apt(suite: str, root: Path) -> list[str]:
    """apt's options: for another suite it has lists and a cache of its own below the root, and trusts Debian's keys."""
    if not suite:
        return ["-o", "APT::Sandbox::User=root"]
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Identifier: Packages"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    mirror = next((one for one in found if one.rstrip("/").endswith("/debian")), None)
    if mirror is None:
        pytest.skip("no Debian archive in this machine's apt sources")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (root / folder).mkdir(parents=True)
    (root / "status").touch()
    (root / "sources").write_text(f"deb {mirror} {suite} main\n")
    where = {"Etc::sourcelist": "sources", "State": "state", "State::status": "status", "Cache": "cache"}
    options = [f"Dir::{name}={root / path}" for name, path in where.items()]
    # Descriptions in a language, and indexes that apt-file has apt fetch, would be most of what is read.
    options += ["Dir::Etc::sourceparts=/dev/null", "APT::Sandbox::User=root", "Acquire::Languages=none"]
    options += [f"Acquire::IndexTargets::deb::{name}::DefaultEnabled=false" for name in ("Contents-deb", "DEP-11")]
    given = [word for one in options for word in ("-o", one)]
    # If that fails, the download says so.
    subprocess.run(["apt-get", "-qq", *given, "update"], capture_output=True, check=False)
    return given


def unpacked(package: str, suite: str = "") -> Path:
    """The folder with a package's files.  Downloads it once; skips if that is not possible."""
    return _unpacked((package,), suite)[0]


def _unpacked(packages: Sequence[str], suite: str) -> list[Path]:
    """The folders of several packages, with one look at the suite's list and one download; other workers wait."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("AMD's runtime is taken from Debian's packages: needs apt-get and dpkg-deb")
    folders = {package: CACHE / suite / package for package in packages}
    (CACHE / suite).mkdir(parents=True, exist_ok=True)
    with (CACHE / suite / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if lacking := [package for package, folder in folders.items() if not folder.exists()]:
            _fetch(lacking, CACHE / suite, suite)
    return list(folders.values())


def _fetch(packages: list[str], to: Path, suite: str) -> None:
    """Downloads packages, and unpacks each into a folder of its name."""
    with tempfile.TemporaryDirectory(dir=to) as made:
        command = ["apt-get", "download", "-q", *_apt(suite, Path(made) / "apt"), *packages]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
        for package in packages:
            archives = list(Path(made).glob(f"{package}_*.deb"))
            if done.returncode or not archives:
                pytest.skip(f"apt-get has no package {package}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            subprocess.run(["dpkg-deb", "-x", archives[0], Path(made) / package], check=True)
        for package in packages:
            os.rename(Path(made) / package, to / package)


def libraries(packages: Sequence[str], suite: str = "") -> str:
    """The folders with the packages' libraries, as LD_LIBRARY_PATH takes them."""
    found = {one.parent: True for folder in _unpacked(packages, suite) for one in folder.glob("**/*.so.*")}
    return ":".join(str(folder) for folder in found)


def loader(runtime: Runtime, path: str) -> dict[str, str]:
    """What a program is started with, to run with those libraries."""
    if not runtime.suite:
        return {"LD_LIBRARY_PATH": path}
    (found,) = unpacked("libc6", runtime.suite).glob("usr/lib/*/ld-linux-*.so.*")
    return {"loader": f"{found} --library-path {path}", "LD_LIBRARY_PATH": path}


def lacking(library: Path, path: str) -> list[str]:
    """The libraries that a library needs, and that are neither on that path nor on this machine."""
    found = subprocess.run(
        ["ldd", library], capture_output=True, text=True, check=True, env={**os.environ, "LD_LIBRARY_PATH": path}
    ).stdout
    return [line.split()[0] for line in found.splitlines() if "not found" in line]
