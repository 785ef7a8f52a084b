# SPDX-License-Identifier: GPL-2.0
"""A host whose driver switches the fake GPUs itself (tier T2), in place of a kernel with a patched driver.

    patched_host.py SOCKET FAKE_GPU DEVICE[,DEVICE]...

DEVICE: where one of the fake's GPUs is, and @ its number in the fake.

The decisions, the calls and the control plane are those of `gpurt serve`.  Programs see what a patched
driver shows: the tier, no agents (EOPNOTSUPP), and updates that the fake GPU carries out without the program.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

from gpurt.enums import Cap, Policy, Tier
from pycontrol.host.endpoint import Access
from pycontrol.host.gpu import Facts, Gpu, GpuClient, Owner, Tell
from pycontrol.host.groups import Seat
from pycontrol.host.serve import Config, run_host


class PatchedGpu(Gpu):
    """A GPU whose driver puts on the runlist what the host says."""

    def __init__(self, index: int, device: str, fake: Path, tell: Tell) -> None:
        self.device, _, number = device.partition("@")
        self.number = int(number)
        self.only: Owner | None = None
        self.fake = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.fake.connect(str(fake))
        super().__init__(index, int(Policy.SEGMENT), tell, time.monotonic_ns)

    def prepare(self, now: int) -> None:
        """Everyone is on the runlist."""

    def facts(self) -> Facts:
        return Facts(Tier.PATCHED, "amdgpu", int(Cap.EMULATED), device=self.device)

    def commit(self, only: Owner | None, now: int) -> None:
        """Has the fake GPU execute work of one process only, or of a group; it has done so when it answers."""
        self.only = only
        self.switch()
        self.finished(0, self.clock() - now)

    def switch(self) -> None:
        """Tells the fake GPU whose work it may execute."""
        exempt = [one.peer.pid for one in self.clients.values() if one.core.exempt]
        runs = [*(one.peer.pid for one in self.only.members), *exempt] if self.only else None
        self.fake.send(json.dumps({"op": "only", "gpu": self.number, "pids": runs}).encode())
        self.fake.recv(1 << 20)

    def unite(self, client: GpuClient, seat: Seat, now: int) -> None:
        """Its work may be executed when the other members' may."""
        self.switch()

    def enter(self, client: GpuClient) -> None:
        """Its work is its process's."""

    def ends(self, client: GpuClient) -> None:
        """Updates wait for nobody."""

    def part(self, client: GpuClient, now: int) -> None:
        """Its work goes with its process."""

    def mark(self, client: GpuClient, exempt: bool, now: int) -> None:
        """It is, or is not, on every runlist from the next update on."""


def main(path: str, fake: str, devices: str) -> None:
    """Serves until a signal comes."""

    def make(tell: Tell) -> list[Gpu]:
        return [PatchedGpu(index, one, Path(fake), tell) for index, one in enumerate(devices.split(","))]

    run_host(Config(Path(path), Access(0o666), "patched GPUs", make, quiet=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
