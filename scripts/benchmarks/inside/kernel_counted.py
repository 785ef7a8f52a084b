# SPDX-License-Identifier: GPL-2.0
"""Measures the kernel module where every instruction takes equally long, as root; prints name, value, unit a line.

What a begin and an end cost beside how many other clients; and the attacker's test: how late real-time tasks execute
while an unprivileged user attacks the module (tests/kernel/guest/attacker.c), against the same loops without it.

With --attack SETTING ATTACK... only these attacks, each by itself, in one setting (SETTINGS).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GUEST = ROOT / "tests/kernel/guest"
sys.path.insert(0, str(GUEST))

import attack  # noqa: E402

CLIENTS = (1, 10, 100, 1000)
#: Seconds that the victim is attacked for.
SECONDS, QUICK_SECONDS = 2.0, 0.1
#: Module parameters of each setting in which the module is attacked.
SETTINGS = {
    "busy": "vgpu_alpha_ns=50000",
    "sleeping": "vgpu_sleeps=1 vgpu_alpha_ns=50000",
    "agents": "agent_gpus=1 agent_bound_ms=5 vgpu_sleeps=1",
}
FLAGS = ["-static", "-O2", "-Wall", "-pthread", f"-I{ROOT}/userlib/include"]


def show(name: str, value: float, unit: str) -> None:
    """Prints a figure."""
    print(f"kernel.{name}", value, unit, flush=True)


def compiled(folder: Path) -> None:
    """The programs."""
    sources = (ROOT / "scripts/benchmarks/inside/kernel_calls.c", GUEST / "attacker.c", GUEST / "victim.c")
    for source in sources:
        subprocess.run(["gcc", *FLAGS, source, "-o", folder / source.stem], check=True)


def figures(*command: str | Path) -> dict[str, float]:
    """What a program prints: a name and a value a line."""
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(value) for name, value in (line.split() for line in run.stdout.splitlines())}


def growth(program: Path) -> None:
    """A begin and an end beside so many clients, over two ioctls that do nothing, and over the same beside one."""
    for kind, priority in (("real_time", 50), ("best_effort", 0)):
        found = figures(program, "clients", str(priority))
        for count in CLIENTS:
            ratio = found[f"begin_end.{count}"] / (2 * found[f"noop.{count}"])
            show(f"counted.begin_end_over_noop.{kind}.{count}", ratio, "ratio")
        show(f"counted.begin_end_1000_over_1.{kind}", found["begin_end.1000"] / found["begin_end.1"], "ratio")


def show_victim(setting: str, how: str, seen: dict[str, int]) -> None:
    """How late the victim executed, and how late it had the GPU."""
    show(f"attack.{setting}.latency_us.{how}.max", seen["latency_ns"] / 1000, "us")
    show(f"attack.{setting}.grant_us.{how}.max", seen["begin_ns"] / 1000, "us")


def attacked(programs: Path, setting: str, seconds: float, *attacks: str) -> None:
    """The victim beside the same loops without the module, and beside the attacker."""
    beside = attack.attack(programs, "nothing", seconds, *attacks).victim
    show_victim(setting, "beside_noops", beside)
    device = attack.attack(programs, "device", seconds, *attacks)
    show_victim(setting, "attacked", device.victim)
    show(f"attack.{setting}.latency_over_noops", device.victim["latency_ns"] / beside["latency_ns"], "ratio")
    show(f"attack.{setting}.grant_over_noops", device.victim["begin_ns"] / beside["begin_ns"], "ratio")
    show(f"attack.{setting}.charged_kib", device.charged / 1024, "KiB")


def whole(programs: Path, setting: str, seconds: float, *attacks: str) -> None:
    """The victim alone, and attacked."""
    show_victim(setting, "alone", attack.victim(programs, seconds))
    attacked(programs, setting, seconds, *attacks)


def reload(options: str) -> None:
    """Loads the module with those parameters."""
    subprocess.run(["rmmod", "gpurt"], check=True)
    subprocess.run(["insmod", os.environ["GPURT_TEST_MODULE"], "vgpus=1", *options.split()], check=True)


def each(programs: Path, setting: str, *attacks: str) -> None:
    """Those attacks, one after another."""
    reload(SETTINGS[setting])
    show_victim(setting, "alone", attack.victim(programs, SECONDS))
    for one in attacks:
        reload(SETTINGS[setting])
        attacked(programs, f"{setting}.{one}", SECONDS, one)


def main() -> None:
    """Prints all figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--attack", nargs="+", default=[], metavar="WHAT")
    given = parser.parse_args()
    quick = given.quick
    with tempfile.TemporaryDirectory() as folder:
        compiled(Path(folder))
        if given.attack:
            each(Path(folder), *given.attack)
            return
        growth(Path(folder) / "kernel_calls")
        if "GPURT_TEST_MODULE" not in os.environ:
            whole(Path(folder), "loaded", SECONDS)  # this machine's module, as it is
            return
        for setting, options in SETTINGS.items():
            reload(options)
            if quick:
                whole(Path(folder), setting, QUICK_SECONDS, "storm")
                break
            whole(Path(folder), setting, SECONDS)


if __name__ == "__main__":
    main()
