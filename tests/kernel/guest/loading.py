# SPDX-License-Identifier: GPL-2.0
"""Loading and removing the module in a booted kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from links import eventually
from modules import insert_gpurt, remove_gpurt

DEVICE = Path("/dev/gpurt")
MODULE = os.environ.get("GPURT_TEST_MODULE", "")
LOADED = Path("/sys/module/gpurt")
OUT = Path(os.environ.get("GPURT_OUT", ""))
#: Where programs are that the host compiled (tests/kernel/test_matrix.py); None where tests compile their own.
BROUGHT = OUT if (OUT / "smoke").exists() else None
#: Whether a test runs for long.
LONG = bool(os.environ.get("GPURT_LONG"))
#: One kernel is tried hard, the others only for what may differ between kernels.
THOROUGH = LONG or os.environ.get("GPURT_TEST_KERNEL") == "amd64-6.1"
#: Whether the module is as load() leaves it, and no test has begun since (conftest.py).
fresh = False


def load(*options: str) -> None:
    """(Re)loads the module with these parameters, and one virtual GPU unless they say otherwise.  Raises OSError."""
    global fresh
    if fresh and not options and LOADED.exists():
        return
    if LOADED.exists():
        unload()
    insert_gpurt(MODULE, *options)
    fresh = not options


def unload() -> None:
    """Removes the module once it is not in use; fails if it stays in use."""
    global fresh
    fresh = False
    eventually(remove_gpurt)


class KernelLog:
    """The kernel's lines from now on, read without another process, which takes long in an emulated machine."""

    def __init__(self) -> None:
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def close(self) -> list[str]:
        """The lines so far."""
        lines = []
        try:
            while True:
                try:
                    lines.append(os.read(self.file, 8192).decode(errors="replace").partition(";")[2])
                except BrokenPipeError:
                    continue  # older lines were overwritten
        except BlockingIOError:
            return lines
        finally:
            os.close(self.file)


def kernel_log() -> list[str]:
    """The kernel's log."""
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()


def own_lines() -> list[str]:
    """Lines of the kernel's log that are the module's."""
    return [line for line in kernel_log() if "gpurt" in line]


def complaints(lines: Iterable[str]) -> list[str]:
    """Lines of the kernel's log that tell of a bug."""
    signs = ("BUG", "WARNING:", "Oops", "Call Trace", "blocked for more than")
    return [line for line in lines if any(sign in line for sign in signs)]


def times_slept(name: str) -> int:
    """How often the module's thread of that name has gone to sleep by itself."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:  # it has ended
            continue
        if text.startswith(f"Name:\t{name}\n"):
            return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    raise AssertionError(f"there is no thread {name}")
