# SPDX-License-Identifier: GPL-2.0
"""The scripts that boot machines: what they make of a machine's end, and that no machine outlives them."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kernels import COMPLAINED, HERE, HUNG, NOT_BOOTED, ROOT, explain, run_once, run_script

pytestmark = [
    pytest.mark.slow(0.5),
    pytest.mark.timeout(14_400),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels are fetched for x86-64 machines only"),
]
#: How each script runs a shell command; with the module that the other tests build for that kernel as well.
SHELL = {"vm-test": ["--debug", "--command"], "uml-run": ["--real-time", "sh", "-c"]}
BY_SCRIPT = pytest.mark.parametrize("script", SHELL)
PATIENCE = 7200.0  # s: a machine may have to wait for those of other tests


@BY_SCRIPT
def test_the_commands_exit_code_comes_back(script: str) -> None:
    run = run_script(script, *SHELL[script], "exit 7")
    assert run.returncode == 7, explain(run)


def test_what_the_kernel_complains_of_is_shown() -> None:
    """The scripts have that in common; test_debug_kernel.py sees what QEMU makes of it."""
    run = run_script("uml-run", *SHELL["uml-run"], "echo 'BUG: planted' >/dev/kmsg")
    assert run.returncode == COMPLAINED, explain(run)
    assert "BUG: planted" in run.stderr


@BY_SCRIPT
def test_a_machine_that_prints_nothing_any_more_hangs(script: str) -> None:
    run = run_once(script, "--timeout", "20", *SHELL[script], "sleep 100000")
    assert run.returncode == HUNG, explain(run)
    assert "printed nothing for 20 s" in run.stderr
    # its command; what its kernel said, and where QEMU's processors were
    said = {"vm-test": ("-kernel", "as init process", "CPU#1 RIP="), "uml-run": ("rootfstype=hostfs",)}
    assert [part for part in said[script] if part not in run.stderr] == []


@BY_SCRIPT
def test_a_module_that_is_not_loaded_is_told_of(script: str) -> None:
    run = run_script(script, "--options", "policy=77", *SHELL[script], "true")
    assert run.returncode == NOT_BOOTED, explain(run)


class Family:
    """A process and all that it starts, which its environment tells from others."""

    def __init__(self, *command: str | Path) -> None:
        self.mark = f"GPURT_TEST_FAMILY={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        # a session of its own: a signal to its group is what Ctrl-C is
        self.first = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=ROOT,
            env={**os.environ, name: value},
        )  # fmt: skip

    def members(self) -> dict[int, str]:
        """Command lines of those that live, by process."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes():
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(folder.name)] = line
            except OSError:
                continue  # it has ended, or is not ours to look at
        return found

    def machines(self) -> list[int]:
        """Those that are QEMU or user-mode Linux."""
        signs = ("-nodefaults", "rootfstype=hostfs")
        return [pid for pid, line in self.members().items() if any(sign in line for sign in signs)]

    def end(self, how: str) -> None:
        """Ends the first process with that signal; at Ctrl-C its whole group gets it."""
        if how == "Ctrl-C":
            os.killpg(self.first.pid, signal.SIGINT)
        else:
            os.kill(self.first.pid, signal.Signals[how])
        self.first.wait()

    def kill(self) -> None:
        """Ends all that are left."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.first.wait()


def eventually(holds: Callable[[], object]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.1)


@pytest.fixture
def family() -> Iterator[Callable[..., Family]]:
    """Starts families."""
    made: list[Family] = []

    def start(*command: str | Path) -> Family:
        made.append(Family(*command))
        return made[-1]

    yield start
    for one in made:
        one.kill()


@BY_SCRIPT
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGKILL"])
def test_a_machine_ends_with_its_script(family: Callable[..., Family], script: str, how: str) -> None:
    run_script("kernel", {"vm-test": "amd64-6.1", "uml-run": "uml"}[script])
    started = family(ROOT / "scripts" / script, *SHELL[script], "sleep 100000")
    eventually(started.machines)
    started.end(how)
    eventually(lambda: not started.members())


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGKILL"])
def test_a_machine_ends_with_the_tests(family: Callable[..., Family], how: str) -> None:
    run_script("kernel", "amd64-6.1")
    started = family(sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", HERE / "test_smoke.py")
    eventually(started.machines)
    started.end(how)
    eventually(lambda: not started.members())
