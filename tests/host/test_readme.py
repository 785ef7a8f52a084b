# SPDX-License-Identifier: GPL-2.0
"""The sessions of docs/own-system.md that need a host, as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import eventually
from processes import StartHost

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/own-system.md").read_text()


def shown(containing: str) -> list[str]:
    """The commands of the page's console that has this text, without their comments."""
    consoles = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (session,) = (one for one in consoles if containing in one)
    return re.findall(r"^\$ (.*?)(?:  +#.*)?$", session, re.MULTILINE)


class Shell:
    """Runs the page's commands in a folder, with the checkout's .venv active and a host that serves."""

    def __init__(self, folder: Path, host: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "GPURT_DEVICE": str(host)}

    def __call__(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, check=False)  # fmt: skip

    def clients(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self("gpurt status clients --json").stdout)["clients"]
        return found


@pytest.fixture
def shell(start_host: StartHost, tmp_path: Path) -> Iterator[Shell]:
    """Ends what the commands have left in the background before the host ends."""
    (command,) = (one for one in shown("gpurt plan priorities robot.toml") if one.startswith("gpurt emulate"))
    assert command == "gpurt emulate &"
    made = Shell(tmp_path, start_host(policy=None))
    yield made
    for one in made.clients():
        os.kill(int(str(one["pid"])), signal.SIGKILL)


def test_from_a_file_to_bounds_and_a_run(shell: Shell) -> None:
    """Each command answers yes, the run and its check yes or no: this machine may be late."""
    commands = shown("gpurt plan priorities robot.toml")
    assert commands[:2] == ["scripts/setup", ". .venv/bin/activate"]
    shutil.copytree(ROOT / "examples", shell.folder / "examples")
    codes = {}
    for command in commands[2:]:
        if not command.startswith("gpurt emulate"):
            done = shell(command.replace("gpurt run", "gpurt run --duration 1s"))
            codes[command] = done.returncode
            assert done.returncode in ((0, 1) if "run.json" in command else (0,)), (command, done.stderr)
    assert len(codes) == len(commands) - 3
    assert (shell.folder / "run.json").exists()


def test_two_programs_with_priorities(shell: Shell) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shell.folder / "work.py").write_text(program.replace("range(1000)", "range(10**9)"))
    policy, start, clients, priority, again = shown("gpurt set priority 80 PID")
    assert shell(policy).returncode == 0
    shell(f"({start}) >/dev/null 2>&1")
    eventually(lambda: [one["priority"] for one in shell.clients()] == [0, 0])
    assert shell(clients).returncode == 0
    first, second = (str(one["pid"]) for one in shell.clients())
    done = shell(priority.replace("PID", first))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = {first: "running", second: "pending"}
    eventually(lambda: {str(one["pid"]): one["state"] for one in shell.clients()} == wanted)
    assert shell(again).returncode == 0
