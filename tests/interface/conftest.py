# SPDX-License-Identifier: GPL-2.0
"""One suite for both hosts: they must not differ.

Without GPURT_TEST_DEVICE every test starts its own emulator.  The same tests run against the module with
GPURT_TEST_DEVICE=/dev/gpurt, as root, in a kernel that has the module loaded.  GPURT_TEST_MODULE is gpurt.ko's path.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from actors import Actor, actors
from hosts import Emulators, Hosts, Module, Shape
from links import Client, client_of, eventually

from pycontrol.link.control import Control
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

DEVICE = os.environ.get("GPURT_TEST_DEVICE")


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Makes hosts; see hosts.py."""
    folder = Path(tempfile.mkdtemp(prefix="gpurt-"))
    folder.chmod(0o755)  # some tests use other users, which have no access to pytest's own folders
    made: Hosts = Module(Path(DEVICE)) if DEVICE else Emulators(folder)
    yield made
    try:
        made.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def start_host(hosts: Hosts) -> Callable[..., Path]:
    """Starts hosts with given costs and numbers of GPUs."""
    return lambda **shape: hosts.start(Shape(**shape))


@pytest.fixture
def host(hosts: Hosts) -> Path:
    """A host with one virtual GPU under `segment`, without costs."""
    return hosts.start(Shape())


@pytest.fixture
def device(hosts: Hosts) -> Path:
    """The kernel module.  Skips on the emulator, where the tested case cannot happen."""
    if not DEVICE:
        pytest.skip("needs the kernel module (GPURT_TEST_DEVICE)")
    return hosts.start(Shape())


@pytest.fixture
def connect(host: Path) -> Iterator[Callable[[], Client]]:
    """Makes clients of the host."""
    made: list[Client] = []

    def one() -> Client:
        made.append(client_of(host))
        return made[-1]

    yield one
    for client in made:
        client.close()


@pytest.fixture
def plane(host: Path) -> Iterator[Control]:
    """The host's control plane."""
    with control(str(host)) as made:
        yield made


@pytest.fixture
def spawn(host: Path) -> Iterator[Callable[..., Actor]]:
    """Makes processes that are clients of the host."""
    with actors(host) as made:
        yield made


@pytest.fixture
def group() -> Iterator[Path]:
    """A new cgroup.  Skips if this process cannot make one."""
    roots = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if " cgroup2 " in line]
    if not roots or not procs.cgroup(os.getpid()):
        pytest.skip("needs cgroup v2, mounted")
    made = roots[0] / procs.cgroup(os.getpid()).lstrip("/") / f"gpurt-{os.getpid()}"
    try:
        made.mkdir()
        (made / "inner").mkdir()
    except OSError as error:
        pytest.skip(f"needs a cgroup of its own: {error.strerror}")
    yield made
    for folder in (made / "inner", made):
        eventually(lambda folder=folder: removed(folder))


@pytest.fixture
def deep(group: Path) -> Iterator[Path]:
    """A cgroup far below another one: its path is longer than any that a request can have."""
    folders = [group / "inner" / "/".join(["d" * 200] * depth) for depth in (1, 2)]
    for folder in folders:
        folder.mkdir()
    yield folders[-1]
    for folder in reversed(folders):
        eventually(lambda folder=folder: removed(folder))


def removed(group: Path) -> bool:
    """Removes a cgroup.  False: a process that was reaped is still leaving it."""
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
