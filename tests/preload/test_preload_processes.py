# SPDX-License-Identifier: GPL-2.0
"""Actions of programs on their own process: raw forks, cancelled threads, signal handlers, unloaded libraries."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from machines import LONG, FakeGpu, Program, Start, real_time

from pycontrol.link.control import Control
from pycontrol.machine.placement import fifo_permitted

SHORT = "launch 0 20000"


def priority(pid: int) -> int:
    """The main thread's, also one that it inherits: below 0 as of SCHED_FIFO."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[15])


def test_a_child_that_was_made_without_fork(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """No handler of pthread_atfork() runs in it.  It makes a context, and is managed as any process."""
    parent, urgent = start(), real_time(plane, start())
    known = {parent.pid, urgent.pid}

    def of_child() -> list[bool]:
        return [group["enabled"] for group in gpu.ask()["groups"] if group["pid"] not in known and group["queued"]]

    urgent.do(LONG)
    parent.send("child 2")
    eventually(of_child)
    assert of_child() == [False]
    gpu.finish(urgent.pid)
    urgent.do("all")
    assert parent.answer() == "ok"


def test_threads_that_are_cancelled(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(), real_time(plane, start())
    background.do("cancelled", LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]


def test_a_signal_handler_that_interrupts_the_library(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The thread waits for the driver, and its handler opens, duplicates and closes files, and forks."""
    background, urgent = start(), real_time(plane, start())
    background.do("signals 1")
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    gpu.ask("delay", name="disable 1", ns=1_000_000_000)
    before = gpu.ask()["calls"][str(background.pid)].count("disable 1")
    background.send("own-schedule 1")
    eventually(lambda: gpu.ask()["calls"][str(background.pid)].count("disable 1") > before)
    os.kill(background.pid, signal.SIGUSR1)
    assert background.answer() == "ok"
    background.do("signals 0")
    gpu.ask("delay", name="disable 1", ns=0)
    assert not gpu.enabled(background.pid)


@pytest.mark.skipif(not fifo_permitted(2), reason="SCHED_FIFO is not permitted")
def test_a_thread_that_the_agent_waits_for_runs_at_its_priority(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The thread holds the lock while it waits for the driver.  The agent needs the lock for an order."""
    background, urgent = start(), real_time(plane, start())
    background.do("own-schedule 1")
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    gpu.ask("delay", name="disable 1", ns=60_000_000_000)
    before = gpu.ask()["calls"][str(background.pid)].count("disable 1")
    background.send("own-schedule 1")
    eventually(lambda: gpu.ask()["calls"][str(background.pid)].count("disable 1") > before)
    gpu.finish(urgent.pid)
    urgent.send("all")  # its end orders the others on
    eventually(lambda: priority(background.pid) < 0)


def test_a_library_that_is_closed_and_opened_again(start: Start, depth: Callable[..., int]) -> None:
    """The second time it is elsewhere."""
    program = start(family="hip")
    program.do("launch 0 1000", "all", "reload", "launch 0 1000")
    assert depth(program) == 1
    program.do("all")
    assert depth(program) == 0


def test_a_program_that_seals_itself(start: Start, depth: Callable[..., int]) -> None:
    """The kernel ends it if the library makes calls that the program has forbidden itself."""
    program = start()
    program.do("vfork", "launch 0 1000", "all", "seal", "vfork", "launch 0 1000")
    assert depth(program) == 1
    program.do("all", "context 1 1")
    assert depth(program) == 0
    said = program.quit()
    assert "2 launches in 2 automatic segments" in said
    assert "GPU 1, nvidia-rm: this program sealed itself (no_new_privs, seccomp) before" in said


def test_a_program_that_seals_itself_before_it_uses_the_gpu(built: Path, gpu: FakeGpu, host: Path) -> None:
    program = Program(built, gpu, host, "proc", "nvidia", {})
    program.do("seal", "context 0 0", "launch 0 1000", "all")
    assert "sealed itself (no_new_privs, seccomp) before it used the GPU; this process runs unmanaged" in program.quit()


def test_a_file_of_the_program_s_gets_no_messages(built: Path, gpu: FakeGpu, host: Path, tmp_path: Path) -> None:
    """A daemon closes its stderr, and the next file that it opens has the number."""
    stolen = tmp_path / "stolen"
    for place in (host, tmp_path / "nowhere"):
        program = Program(built, gpu, place, "proc", "nvidia", {"FAKE_STOLEN": str(stolen)})
        program.do("steal-stderr", "context 0 0", "launch 0 1000", "all")
        assert (program.quit(), stolen.read_text()) == ("", "")
