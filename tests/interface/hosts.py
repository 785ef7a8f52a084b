# SPDX-License-Identifier: GPL-2.0
"""Hosts with given costs: a new emulator each, or the kernel module, loaded anew where its parameters differ."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from links import MS, PATIENCE, await_host, eventually
from modules import insert_gpurt, parameter, remove_gpurt

from gpurt._gpurt import lib
from gpurt.enums import Notice, Policy
from pycontrol.link.control import connect as control


@dataclass(frozen=True)
class Shape:
    """Virtual GPUs; times in ns."""

    alpha: int = 0
    theta: int = 0
    gpus: int = 1
    slice: int = 1_024_000
    units: tuple[int, ...] = ()  # of the partitions of a GPU; so many virtual GPUs in turn are its partitions
    cross: int = 1000  # thousandths
    lock_bound: int = lib.GPURT_LOCK_BOUND_NS
    stuck_bound: int = lib.GPURT_STUCK_DEFAULT_NS


@dataclass(frozen=True)
class Obedience:
    """Rules for agents: they answer within `bound_ms`, and updates `wait` for late agents, or do not.

    `limit` is how many an ordinary user may have.
    """

    bound_ms: int
    wait: bool = False
    limit: int = lib.GPURT_AGENT_LIMIT


class Hosts(Protocol):
    """Where a test's hosts come from; `latest` is the one that was started last."""

    latest: Path

    def start(self, shape: Shape) -> Path:
        """A host with such GPUs: its socket or its device."""

    def serve(self, obedience: Obedience) -> Path:
        """A host with one GPU that agents switch."""

    def stop(self) -> None:
        """The test is over: nothing of it may be left."""


class Emulators:
    """Starts emulators; all are stopped at the end, and must have ended well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[tuple[subprocess.Popen[bytes], Path, Path]] = []

    def start(self, shape: Shape) -> Path:
        parts = f",partitions={','.join(map(str, shape.units))}" if shape.units else ""
        platform = (
            f"--platform=alpha={shape.alpha}ns,theta={shape.theta}ns,time_slice={shape.slice}ns,"
            f"cross_contention={shape.cross / 1000}{parts}"
        )
        bounds = f"--bound=lock={shape.lock_bound}ns,stuck={shape.stuck_bound}ns"
        return self._run("emulate", platform, f"--gpus={shape.gpus}", bounds)

    def serve(self, obedience: Obedience) -> Path:
        bound, limit = f"--bound=answer={obedience.bound_ms}ms", f"--user-limit=agents={obedience.limit}"
        return self._run("serve", bound, limit, f"--begin={'strict' if obedience.wait else 'isolated'}")

    def _run(self, what: str, *options: str) -> Path:
        self.latest = path = self.folder / f"host{len(self.running)}.sock"
        log = path.with_suffix(".log")
        command = [sys.executable, "-m", "pycontrol", what, f"--socket={path}", "--policy=segment", *options]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        await_host(process, log)
        self.running.append((process, log, path))
        return path

    def stop(self) -> None:
        for process, log, path in self.running:
            process.terminate()
            assert process.wait(PATIENCE) == 0, log.read_text()
            assert "dropped client" not in log.read_text()
            assert not path.exists()


def has(name: str) -> str:
    """The value of a parameter of the module; empty if it is not loaded or has no such parameter."""
    path = parameter(name)
    return path.read_text().strip() if path.exists() else ""


class Module:
    """The module that is loaded; GPURT_TEST_MODULE is its file, to load it with other parameters."""

    def __init__(self, device: Path) -> None:
        self.device = self.latest = device
        self.used = self.serving = False

    def start(self, shape: Shape) -> Path:
        wanted: dict[str, int | str] = {
            "vgpus": shape.gpus,
            "vgpu_alpha_ns": shape.alpha,
            "vgpu_theta_ns": shape.theta,
            "vgpu_slice_ns": shape.slice,
            "vgpu_cross": shape.cross,
            "lock_bound_ms": shape.lock_bound // MS,
            "stuck_ms": shape.stuck_bound // MS,
        }
        if shape.units:
            wanted["vgpu_units"] = ",".join(map(str, shape.units))
        divided = has("vgpu_units") != ",".join(map(str, shape.units))
        if divided or any(has(name) != str(value) for name, value in wanted.items()):
            self.reload([f"{name}={value}" for name, value in wanted.items()])
        self.used = True
        return self.device

    def serve(self, obedience: Obedience) -> Path:
        late = [f"agent_bound_ms={obedience.bound_ms}", f"agent_wait={int(obedience.wait)}"]
        self.reload(["agent_gpus=1", "vgpus=0", f"agent_limit={obedience.limit}", *late])
        self.used = self.serving = True
        return self.device

    def reload(self, parameters: list[str]) -> None:
        """Removes the module and loads it with those parameters, and with one virtual GPU unless they say otherwise."""
        module = os.environ.get("GPURT_TEST_MODULE")
        if not module:
            pytest.skip("GPURT_TEST_MODULE does not say where gpurt.ko is, to load it with other costs")
        if Path("/sys/module/gpurt").exists():
            eventually(remove_gpurt)
        insert_gpurt(module, *parameters)
        eventually(self.device.exists)

    def stop(self) -> None:
        """The next test finds the policy as it was, and no client of this one."""
        if not self.used:
            return
        with control(str(self.device)) as plane:
            plane.set_policy(Policy.SEGMENT, notice=Notice.POLL, poll_ns=1_000_000)
            plane.set_budget(os.getpid(), 0, 0)
            eventually(lambda: not plane.clients())
        if self.serving:
            self.reload([])
