# SPDX-License-Identifier: GPL-2.0
"""A private emulator for one command: a host with virtual GPUs, on a socket in a temporary directory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from analysis.model import Platform
from gpurt.errors import RuntimeFailure
from pycontrol.act.run import task_program
from pycontrol.ending import later
from pycontrol.readable import readable

#: How long the emulator may take to start, and to end, seconds.  If it dies, that is reported at once.  A start took 25
#: s on a busy machine that was emulated itself.
START_TIMEOUT = 120.0
EMULATOR_STOP_S = 3.0


class Emulator:
    """Runs while the context is entered.  The kernel ends the emulator if this process dies.

    The platform gives the GPU's update cost, switch cost, time slice and copy engine.
    """

    def __init__(self, platform: Platform, policy: str = "segment", gpus: int = 1) -> None:
        self._platform = platform
        self._policy, self._gpus = policy, gpus
        self._directory = tempfile.TemporaryDirectory(prefix="gpurt-")
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = Path(self._directory.name) / "host.sock"
        self.log = Path(self._directory.name) / "log"

    def _command(self) -> list[str]:
        platform = self._platform
        wrapper = [str(task_program.find_task_program()), f"--parent={os.getpid()}", "--exec"]
        return [
            *wrapper,
            sys.executable, "-m", "pycontrol", "emulate", f"--socket={self.socket}", f"--gpus={self._gpus}",
            f"--policy={self._policy}", f"--platform=alpha={platform.alpha}ns,theta={platform.theta}ns,"
            f"time_slice={platform.time_slice}ns,copy_engine={platform.copy_engine}",
            "--quiet",
        ]  # fmt: skip

    def __enter__(self) -> Emulator:
        """Starts the emulator.

        Raises:
            RuntimeFailure: the emulator does not start.
        """
        try:
            with self.log.open("wb") as log, later():  # else an emulator could start and not be noted
                self._process = subprocess.Popen(
                    self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
            assert self._process.stdout
            self._await(self._process.stdout.fileno())
        except BaseException:
            self._stop()
            raise
        return self

    def _await(self, stdout: int) -> None:
        """Waits for the emulator's only line on stdout, which says that it serves."""
        deadline = time.monotonic() + START_TIMEOUT
        if readable(stdout, START_TIMEOUT) and os.read(stdout, 4096):
            return
        late = time.monotonic() >= deadline
        reason = f"it was not ready within {START_TIMEOUT:g} s" if late else self.complaint()
        raise RuntimeFailure(f"the emulator did not start: {reason}")

    def complaint(self) -> str:
        """The last line that the emulator wrote."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def remarks(self) -> list[str]:
        """All lines that the emulator wrote: with --quiet, only what it was not permitted to do."""
        return self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(EMULATOR_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout:
                self._process.stdout.close()
        self._directory.cleanup()
