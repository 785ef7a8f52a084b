# SPDX-License-Identifier: GPL-2.0
"""Measures the kernel module where all instructions take equally long, as root; prints name, value and unit per line.

It measures the cost of a begin and an end beside many other clients, and does the attacker's test.  The test measures
how late real-time tasks execute while an unprivileged user attacks the module (tests/kernel/guest/attacker.c), compared
with the same loops without the module.

With --growth, it measures only the cost.  With --attack SETTING ATTACK..., it only makes these attacks, each by itself,
in one of SETTINGS; without names, all at once.  --policy POLICY sets the module's policy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import GUEST, compiled

sys.path.insert(0, str(GUEST))

import attack

from gpurt.enums import Policy

CLIENTS = (1, 10, 100, 1000)
#: For how many seconds the victim is attacked.
SECONDS, QUICK_SECONDS = 2.0, 0.1
#: Module parameters of each setting in which the module is attacked.
SETTINGS = {
    "busy": "vgpu_alpha_ns=50000",
    "sleeping": "vgpu_sleeps=1 vgpu_alpha_ns=50000",
    "agents": "agent_gpus=1 agent_bound_ms=5 vgpu_sleeps=1",
}
#: Under policies lock-*, a client waits for as long as a best-effort task may hold the GPU, ms.
LOCK_BOUND = 10


def show(name: str, value: float, unit: str) -> None:
    """Prints a figure."""
    print(f"kernel.{name}", value, unit, flush=True)


def figures(*command: str | Path) -> dict[str, float]:
    """The figures that a program prints: a name and a value per line."""
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(value) for name, value in (line.split() for line in run.stdout.splitlines())}


def growth(program: Path) -> None:
    """A begin and an end beside many clients, relative to two ioctls that do nothing, and to one client."""
    for kind, priority in (("real_time", 50), ("best_effort", 0)):
        found = figures(program, "clients", str(priority))
        for count in CLIENTS:
            ratio = found[f"begin_end.{count}"] / (2 * found[f"noop.{count}"])
            show(f"counted.begin_end_over_noop.{kind}.{count}", ratio, "ratio")
        show(f"counted.begin_end_1000_over_1.{kind}", found["begin_end.1000"] / found["begin_end.1"], "ratio")


def show_victim(setting: str, how: str, seen: dict[str, int]) -> None:
    """Prints how late the victim executed, and how late it got the GPU."""
    show(f"attack.{setting}.latency_us.{how}.max", seen["latency_ns"] / 1000, "us")
    show(f"attack.{setting}.grant_us.{how}.max", seen["begin_ns"] / 1000, "us")


def attacked(programs: Path, setting: str, seconds: float, *attacks: str) -> None:
    """Runs the victim beside the same loops without the module, and beside the attacker."""
    beside = attack.attack(programs, "nothing", seconds, *attacks).victim
    show_victim(setting, "beside_noops", beside)
    device = attack.attack(programs, "device", seconds, *attacks)
    show_victim(setting, "attacked", device.victim)
    show(f"attack.{setting}.latency_over_noops", device.victim["latency_ns"] / beside["latency_ns"], "ratio")
    show(f"attack.{setting}.grant_over_noops", device.victim["begin_ns"] / beside["begin_ns"], "ratio")
    show(f"attack.{setting}.charged_kib", device.charged / 1024, "KiB")


def whole(programs: Path, setting: str, seconds: float, *attacks: str) -> None:
    """Runs the victim alone, and attacked."""
    show_victim(setting, "alone", attack.victim(programs, seconds))
    attacked(programs, setting, seconds, *attacks)


def reload(setting: str, policy: Policy) -> str:
    """Loads the module for that setting and policy; returns the prefix of its figures."""
    options = [f"policy={int(policy)}", f"lock_bound_ms={LOCK_BOUND}", *SETTINGS[setting].split()]
    module = Path(os.environ["GPURT_TEST_MODULE"])
    for arguments in (["none"], [module.parent, *options]):
        subprocess.run(["sh", module.with_name("load-gpurt"), *arguments], check=True)
    return setting if policy is Policy.SEGMENT else f"{policy.word}.{setting}"


def each(programs: Path, policy: Policy, setting: str, *attacks: str) -> None:
    """Makes these attacks, one after another."""
    show_victim(reload(setting, policy), "alone", attack.victim(programs, SECONDS))
    for one in attacks:
        attacked(programs, f"{reload(setting, policy)}.{one}", SECONDS, one)


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--policy", choices=Policy.words(), default=Policy.SEGMENT.word)
    parser.add_argument("--attack", nargs="+", default=[], metavar="WHAT")
    given = parser.parse_args()
    if "GPURT_TEST_MODULE" not in os.environ and (given.attack or given.policy != Policy.SEGMENT.word):
        parser.error("a module that is loaded already is attacked as it is")
    if given.attack and given.attack[0] not in SETTINGS:
        parser.error(f"{given.attack[0]!r} is not one of {', '.join(SETTINGS)}")
    return given


def main() -> None:
    """Prints all figures."""
    given = arguments()
    policy = Policy(Policy.parse(given.policy))
    with tempfile.TemporaryDirectory() as folder:
        programs = compiled(Path(folder))
        if not given.attack:
            growth(programs / "kernel_calls")
        if given.growth:
            return
        if "GPURT_TEST_MODULE" not in os.environ:
            whole(programs, "loaded", SECONDS)  # the module as this machine has loaded it
        elif given.quick:
            whole(programs, reload("busy", policy), QUICK_SECONDS, "storm")
        elif len(given.attack) > 1:
            each(programs, policy, *given.attack)
        else:
            for setting in given.attack or SETTINGS:
                whole(programs, reload(setting, policy), SECONDS)


if __name__ == "__main__":
    main()
