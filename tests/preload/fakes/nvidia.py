# SPDX-License-Identifier: GPL-2.0
"""A model of NVIDIA's resource manager (RM), as strict as the sources: open-gpu-kernel-modules 535.54.03 to 595.45.04.

Numbers and layouts repeat userlib/nvidia/rm.h on purpose and take nothing from it.  A wrong number there must disagree
with this file, so that a test fails.

The firmware's part in a call is not in these sources.  Where the headers document it, this model does that.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import mig
from drivers import Caller, File, Refused
from engine import Group

ALLOC, CONTROL, FREE, DUP = 0x2B, 0x2A, 0x29, 0x34
OK, NOT_PERMITTED, INVALID_ARGUMENT, INVALID_CHANNEL = 0, 0x1B, 0x1F, 0x21
INVALID_PARAM_STRUCT, NOT_SUPPORTED, NOT_FOUND = 0x3A, 0x56, 0x57
INVALID_COMMAND = 0x24
ROOT, DEVICE, SUBDEVICE, TSG = 0x41, 0x80, 0x2080, 0xA06C

#: Controls that the model knows: name, class (0: a channel's), bytes of the parameters (0: by release).
CONTROLS = {
    0xA06C0101: ("schedule", TSG, 0), 0xA06C0103: ("timeslice", TSG, 8), 0xA06C0104: ("get-timeslice", TSG, 8),
    0xA06C0105: ("preempt", TSG, 8), 0xA06C0107: ("interleave", TSG, 4), 0xA06C0110: ("realtime", TSG, 1),
    0xA06F0103: ("schedule-channel", 0, 0), 0x2080110B: ("disable", SUBDEVICE, 536),
    0xC36F0103: ("schedule-volta", 0, 0), 0x801705: ("start", DEVICE, 48), 0x906F0102: ("reset", 0, 16),
    0x20801210: ("preemption-mode", SUBDEVICE, 32),
    0x201: ("attached", ROOT, 128), 0x205: ("id-info", ROOT, 32), 0x21B: ("pci-info", ROOT, 12),
}  # fmt: skip
#: Controls that newer releases do not have: the last release that has them.
LAST = {"schedule-volta": (550, 163, 1), "start": (560, 35, 3)}


@dataclass
class Release:
    """The differences between releases of the driver."""

    text: str

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.text.split("."))

    @property
    def schedule_bytes(self) -> int:
        """NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS has a third member from 575.51.02 on."""
        return 3 if self.numbers >= (575, 51, 2) else 2

    @property
    def engine_at(self) -> int:
        """Where NV_CHANNEL_ALLOC_PARAMS has the engine: from 610.43.02 on behind hHandleVASpace (gVisor's nvproxy)."""
        return 136 if self.numbers >= (610, 43, 2) else 128

    @property
    def wrong_size(self) -> int:
        """rmapi/control.c compares sizes first from 535.161.07 and 550.40.53 on; before, rs_resource.c does."""
        late = self.numbers >= (550, 40, 53) or (535, 161, 7) <= self.numbers < (536,)
        return INVALID_ARGUMENT if late else INVALID_PARAM_STRUCT


@dataclass
class Object:
    """An object of a client, below ``parent``."""

    parent: int
    kind: int
    instance: int  # a device's, and of all below it; the id of a GPU instance or compute instance
    share: int = 0  # a device: the client that it shares its address space with
    scheduled: bool = False  # a channel: it is on the runlist
    disabled: bool = False

    @property
    def channel(self) -> bool:
        return self.kind & 0xFF == 0x6F


class Nvidia(File):
    """/dev/nvidiactl: clients, devices, time-slice groups, channels, and their controls."""

    CLIENTS = iter(range(0x41D00001, 0x41DFFFFF))
    #: The files by their clients' handles: any process can switch channels of others (docs/hardware).
    OWNERS: ClassVar[dict[int, Nvidia]] = {}
    #: The file with the driver's release, the number of GPUs, and how they are divided; the server sets these.
    VERSION = Path("none")
    GPUS = 1
    MIG = mig.Mig()

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.objects: dict[tuple[int, int], Object] = {}
        self.twins: dict[tuple[int, int], tuple[int, int]] = {}  # second handles of groups, and what they are of
        self.release = Release(self.VERSION.read_text().strip() if self.VERSION.exists() else "570.86.15")

    def close(self) -> None:
        super().close()
        self.objects.clear()

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        number, size = code & 0xFF, code >> 16 & 0x3FFF
        if number == ALLOC and size == 48:
            status = self.alloc(argument, nested)
            struct.pack_into("=I", argument, 40, status)
        elif number == CONTROL and size == 32:
            client, handle, command = struct.unpack_from("=III", argument)
            status = self.control(caller, client, handle, command, nested)
            struct.pack_into("=I", argument, 28, status)
        elif number == FREE and size == 16:
            client, _, handle = struct.unpack_from("=III", argument)
            struct.pack_into("=I", argument, 12, self.free(client, handle))
        elif number == DUP and size == 28:
            struct.pack_into("=I", argument, 24, self.duplicate(*struct.unpack_from("=IIIII", argument)))
        else:
            raise Refused(errno.EINVAL)
        return 0

    def duplicate(self, client: int, parent: int, handle: int, source_client: int, source: int) -> int:
        """A second handle of a group (kchangrpapiCopyConstruct); other classes are not modelled."""
        if (client, parent) not in self.objects or (source_client, source) not in self.groups:
            return NOT_FOUND
        self.objects[client, handle] = Object(parent, TSG, self.objects[client, parent].instance)
        self.twins[client, handle] = source_client, source
        return OK

    def alloc(self, argument: bytearray, nested: bytearray) -> int:
        root, parent, handle, kind = struct.unpack_from("=IIII", argument)
        if kind == ROOT:
            handle = root = parent = next(self.CLIENTS)
            self.OWNERS[handle] = self
            struct.pack_into("=I", argument, 8, handle)
        elif (root, root) not in self.objects or (root, parent) not in self.objects:
            return NOT_FOUND
        above = self.objects.get((root, parent))
        instance, share = above.instance if above else 0, 0
        if kind == DEVICE and nested:
            instance = struct.unpack_from("=I", nested)[0]
            share = struct.unpack_from("=I", nested, 4)[0] if len(nested) >= 8 else 0
        if kind in (mig.GPU_INSTANCE, mig.COMPUTE_INSTANCE):
            status = mig.subscribe(self.MIG, kind, root, self.above(root, parent), nested)
            instance = struct.unpack_from("=I", nested, 8)[0] if not status else 0
            if status:
                return status
        elif instance >= self.GPUS:
            return INVALID_ARGUMENT
        # A channel that is allocated below a device gets a group of its own, which has no handle (kernel_channel.c).
        channel = kind & 0xFF == 0x6F
        status, engine = 0, 0
        if kind == TSG or (channel and above is not None and above.kind != TSG):
            at = 12 if kind == TSG else self.release.engine_at
            wanted = struct.unpack_from("=I", nested, at)[0] if len(nested) >= at + 4 else 0
            status, engine = mig.engine_of(self.MIG, instance, *self.instances(root, parent), wanted)
            if status:
                return status
            self.add((root, handle), engine, False)
        self.objects[root, handle] = Object(parent, kind, instance, share)
        self.calls.append(f"alloc {kind:x}")
        return OK

    def below(self, root: int, parent: int, kind: int) -> int | None:
        """The handle of an object of that kind right below another one."""
        mine = ((at[1], one) for at, one in self.objects.items() if at[0] == root and one.parent == parent)
        return next((handle for handle, one in mine if one.kind == kind), None)

    def instances(self, root: int, device: int) -> tuple[int | None, int | None]:
        """The GPU instance and the compute instance to which a device belongs."""
        handle = self.below(root, device, SUBDEVICE)
        gpu = None if handle is None else self.below(root, handle, mig.GPU_INSTANCE)
        compute = None if gpu is None else self.below(root, gpu, mig.COMPUTE_INSTANCE)
        return self.id_of(root, gpu), self.id_of(root, compute)

    def id_of(self, root: int, handle: int | None) -> int | None:
        return None if handle is None else self.objects[root, handle].instance

    def device_of(self, root: int, handle: int) -> int:
        while self.objects[root, handle].kind != DEVICE and handle != root:
            handle = self.objects[root, handle].parent
        return handle

    def above(self, root: int, parent: int) -> mig.Above:
        one, device = self.objects[root, parent], self.objects[root, self.device_of(root, parent)]
        siblings = {child.kind for at, child in self.objects.items() if at[0] == root and child.parent == parent}
        instance = one.instance if one.kind == mig.GPU_INSTANCE else None
        return mig.Above(one.kind, siblings, device.instance, device.share, instance)

    def free(self, client: int, handle: int) -> int:
        if (client, handle) not in self.objects:
            return NOT_FOUND
        instance = self.objects[client, handle].kind in (mig.GPU_INSTANCE, mig.COMPUTE_INSTANCE)
        device = self.device_of(client, handle) if instance else 0
        for key, one in list(self.objects.items()):
            if key[0] == client and key[1] != handle and one.parent == handle and key in self.objects:
                self.free(*key)
        group = self.owner_of(client, handle) if self.objects[client, handle].channel else None
        self.objects.pop((client, handle), None)
        self.drop((client, handle))
        if group in self.groups:  # the driver for Tegra enables the others in the end, and so may firmware
            self.enable(lambda at: self.owner_of(*at) == group)
        if instance and (client, device) in self.objects:
            self.leave(client, device)
        return OK

    def leave(self, client: int, device: int) -> None:
        """A device has left its instance: all that it has goes, except what says which GPU and instance it is."""
        stays = (ROOT, DEVICE, SUBDEVICE, mig.GPU_INSTANCE, mig.COMPUTE_INSTANCE)
        for at, one in list(self.objects.items()):
            if at in self.objects and at[0] == client and one.kind not in stays and self.device_of(*at) == device:
                self.free(*at)

    def control(self, caller: Caller, client: int, handle: int, command: int, nested: bytearray) -> int:
        """The driver compares the client's owner with the descriptor: another file's client is refused."""
        if (client, client) not in self.objects:
            return NOT_PERMITTED
        if (client, handle) not in self.objects:
            return NOT_FOUND
        what = self.objects[client, handle]
        name, kind, size = CONTROLS.get(command, (f"{command:x}", -1, 0))
        if self.release.numbers > LAST.get(name, self.release.numbers):
            return INVALID_COMMAND
        if what.kind != kind and not (kind == 0 and what.channel):
            return NOT_SUPPORTED
        if len(nested) != (size or self.release.schedule_bytes):
            return self.release.wrong_size
        status = self.faults.due(name)
        if status:
            return status
        self.calls.append(f"{name} {nested[0]}" if name.startswith("schedule") else name)
        if name in ("interleave", "realtime") and caller.uid:
            return NOT_PERMITTED
        return self.carry_out(name, client, handle, nested)

    def carry_out(self, name: str, client: int, handle: int, nested: bytearray) -> int:
        if name == "disable":
            return self.disable(client, handle, nested)
        if name in ("attached", "id-info", "pci-info"):
            return self.whereabouts(name, nested)
        if name in ("start", "reset", "preemption-mode"):
            return self.enable(lambda at: at[0] == client, start=name == "start")
        if name.startswith("schedule"):
            self.schedule(client, handle, bool(nested[0]))
            return OK
        group = self.groups[client, handle]
        if name == "preempt":
            return self.preempt(group, nested)
        if name == "timeslice":
            group.slice_us = struct.unpack("=Q", nested)[0]
            self.calls.append(f"slice {group.slice_us}")
        elif name == "get-timeslice":
            struct.pack_into("=Q", nested, 0, group.slice_us)
        return OK

    def whereabouts(self, name: str, nested: bytearray) -> int:
        """GPU N is on bus 4 + N; its id has bus and slot in the lower 16 bits (gpuGenerate32BitId() in gpu.c)."""
        ids = [(4 + gpu) << 8 for gpu in range(self.GPUS)]
        if name == "attached":
            struct.pack_into("=32I", nested, 0, *ids[::-1], *[0xFFFFFFFF] * (32 - len(ids)))
            return OK
        gpu = struct.unpack_from("=I", nested)[0]
        if gpu not in ids:
            return INVALID_ARGUMENT
        if name == "id-info":
            struct.pack_into("=IIIIIIi", nested, 4, 0, ids.index(gpu), 0, 0, gpu, ids.index(gpu), -1)
        else:
            struct.pack_into("=IHH", nested, 4, 0, gpu >> 8, gpu & 0xFF)
        return OK

    def preempt(self, group: Group, nested: bytearray) -> int:
        """The timeout is at most a second (ctrla06c.h).  With wait the group is disabled until then."""
        if nested[1] and struct.unpack_from("=I", nested, 4)[0] > 1_000_000:
            return INVALID_ARGUMENT
        self.engine_of(group).preempt(group)
        return self.enable(lambda at: self.groups.get(self.owner_of(*at)) is group) if nested[0] else OK

    def owner_of(self, client: int, channel: int) -> tuple[int, int]:
        """The key of the channel's group."""
        above = client, self.objects[client, channel].parent
        above = self.twins.get(above, above)
        return above if above in self.groups else (client, channel)

    def recount(self, key: tuple[int, int]) -> None:
        """A group runs while one of its channels is scheduled and not disabled."""
        mine = [one for at, one in self.objects.items() if one.channel and self.owner_of(*at) == key]
        self.switch(self.groups[key], any(one.scheduled and not one.disabled for one in mine))

    def schedule(self, client: int, handle: int, enable: bool) -> None:
        """Enables the channels and puts them on the runlist, or takes them off (ctrla06fgpfifo.h).  No preemption.

        Under GSP firmware nothing is taken off: so an H200 with release 580.159.04 does (docs/hardware).
        """
        if not enable and not self.faults.always("disable", NOT_SUPPORTED):
            return
        key = (client, handle) if (client, handle) in self.groups else self.owner_of(client, handle)
        for at, one in self.objects.items():
            if one.channel and (at == (client, handle) or (one.parent == handle and at[0] == client)):
                one.scheduled, one.disabled = enable, not enable
        self.recount(key)

    def enable(self, concerns: Callable[[tuple[int, int]], bool], start: bool = False) -> int:
        """START puts channels on the runlist (ctrl0080fifo.h).  Others enable those that they concern."""
        for at, one in self.objects.items():
            if one.channel and concerns(at):
                one.scheduled, one.disabled = one.scheduled or start, False
        for key in self.groups:
            self.recount(key)
        return OK

    def disable(self, own: int, subdevice: int, nested: bytearray) -> int:
        """Disables and preempts the listed channels, or enables them (ctrl2080fifo.h): 64 at most."""
        off, count, hint = nested[0], struct.unpack_from("=I", nested, 4)[0], nested[8]
        if struct.unpack_from("=Q", nested, 16)[0]:
            return NOT_PERMITTED  # only the kernel's own clients may pass an event
        if count > 64:
            return INVALID_ARGUMENT
        self.calls.append(f"{'disable' if off else 'enable'} {count}")
        for index in range(count):
            client = struct.unpack_from("=I", nested, 24 + 4 * index)[0]
            channel = struct.unpack_from("=I", nested, 24 + 256 + 4 * index)[0]
            file = self.OWNERS.get(client, self)
            one = file.objects.get((client, channel))
            if one is None or not one.channel or one.instance != self.objects[own, subdevice].instance:
                return INVALID_CHANNEL
            one.disabled = bool(off)
            key = file.owner_of(client, channel)
            file.recount(key)
            if off and not hint and not file.groups[key].enabled:
                file.engine_of(file.groups[key]).preempt(file.groups[key])
        return OK


class NvidiaUvm(File):
    """/dev/nvidia-uvm: to register an address space or to end that enables its channels (nv_gpu_ops.c, 570.86.15)."""

    #: All open nodes by their cookies; the server sets it.
    FILES: ClassVar[dict[int, File]] = {}

    def enable(self) -> None:
        """All channels of the process: here they have one address space."""
        for file in self.FILES.values():
            if isinstance(file, Nvidia) and file.owner.pid == self.owner.pid:
                for one in file.objects.values():
                    one.disabled = False
                for key in file.groups:
                    file.recount(key)

    def close(self) -> None:
        self.enable()

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if code not in (25, 26, 38):
            raise Refused(errno.EINVAL)
        self.enable()
        return 0
