# SPDX-License-Identifier: GPL-2.0
"""An unprivileged user attacks the module while real-time tasks work: attacker.c against victim.c, in one boot.

    python attack.py PROGRAMS HOW SECONDS [NAME...]

attacks the module that is loaded for so long by each means, or those named, one after the other.  After each it prints
a line: the name, how often it was tried, how often it got what it tried, and how often the victim was served.  HOW is
"device" or "few", as attacker.c says.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DEVICE = Path("/dev/gpurt")
CGROUPS = Path("/sys/fs/cgroup")
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
NOBODY = 65534


@dataclass(frozen=True)
class Seen:
    """Observations during an attack of attacker.c."""

    #: Figures of victim.c, by name; times in ns.
    victim: dict[str, int]
    #: How often each attack was tried, and how often it got what it tried.
    attacks: dict[str, tuple[int, int]]
    #: The kernel's memory that the attacker was charged for when the victim had ended, bytes.
    charged: int


@contextmanager
def cgroup(name: str) -> Iterator[Path]:
    """A cgroup whose memory is counted.  It goes when its last process has."""
    (CGROUPS / "cgroup.subtree_control").write_text("+memory")
    folder = CGROUPS / name
    folder.mkdir()
    yield folder
    while folder.exists():
        with suppress(OSError):  # some of them are on their way out
            folder.rmdir()
        time.sleep(0.01)


def slab_of(folder: Path) -> int:
    """The kernel's objects that the cgroup is charged for, bytes."""
    fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(fields["slab"])


def victim(programs: Path, seconds: float) -> dict[str, int]:
    """Runs the victim for so long; what it prints, by name."""
    done = subprocess.run([programs / "victim", str(seconds)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}


@contextmanager
def prepared() -> Iterator[None]:
    """Nobody in particular may open the device; cores go through a pipe, slowly; and this program gets its CPU."""
    before = CORE_PATTERN.read_text() if CORE_PATTERN.exists() else ""  # kernels that are built here write none
    if before:
        CORE_PATTERN.write_text("|/bin/sleep 0.3")
    os.chown(DEVICE, -1, NOBODY)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if before:
        CORE_PATTERN.write_text(before)


def attack(programs: Path, how: str, seconds: float, *attacks: str) -> Seen:
    """Runs the victim for so long beside the attacker, ``how``: "device", or "nothing" for the same loops without it.

    ``attacks`` names what he does; everything, unless it says.
    """
    with prepared(), cgroup("attacker") as folder:
        join = f"echo $$ >{folder}/cgroup.procs && exec "
        user = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "
        command = ["/bin/sh", "-c", f"{join}{user}{programs / 'attacker'} {' '.join((how, *attacks))}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
            assert attacker.stdout
            assert attacker.stdout.readline() == "ready\n"
            try:
                seen = victim(programs, seconds)
                charged = slab_of(folder)
            finally:  # he would attack for ever, and be waited for
                attacker.send_signal(signal.SIGTERM)
            rows = [line.split() for line in attacker.communicate()[0].splitlines()]
        assert attacker.returncode == 0
    return Seen(seen, {name: (int(done), int(good)) for name, done, good in rows}, charged)


def main() -> None:
    """Carries out what the command line says."""
    programs, how, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    names = sys.argv[4:] or subprocess.run(
        [programs / "attacker", "names"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    for name in names:
        began = time.monotonic()
        seen = attack(programs, how, seconds, name)
        tried, good = seen.attacks[name]
        took = time.monotonic() - began
        print(f"attack {name} {tried} {good} {seen.victim['served']} in {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
