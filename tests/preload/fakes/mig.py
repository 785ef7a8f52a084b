# SPDX-License-Identifier: GPL-2.0
"""How NVIDIA's resource manager divides a GPU (MIG): GPU instances, compute instances, and who may use them.

Read in open-gpu-kernel-modules 535.43.02 to 595.45.04: gpu_instance_subscription.c, compute_instance_subscription.c,
kernel_mig_manager.c, alloc_free.c, nv-caps.c, os.c (osRmCapAcquire).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from drivers import Caller, File, Refused

GPU_INSTANCE, COMPUTE_INSTANCE = 0xC637, 0xC638
NOT_PERMITTED, INVALID_ARGUMENT, INVALID_PARENT, INVALID_STATE = 0x1B, 0x1F, 0x36, 0x40
NOT_SUPPORTED, NOT_FOUND, IN_USE = 0x56, 0x57, 0x63
#: The id that profilers subscribe to; it is no GPU instance.
PROFILING = 0xFFFFFFFE
#: The ids of GPU instances that occupy each of a GPU's eight places: ids of one line never exist together.
PLACES = (
    (0, 1, 3, 7), (0, 1, 3, 8), (0, 1, 4, 9), (0, 1, 4, 10), (0, 2, 5, 11), (0, 2, 5, 12), (0, 2, 6, 13), (0, 2, 6, 14),
)  # fmt: skip
COMPUTE_INSTANCES = 8
#: Engine types of the graphics engines: NV2080_ENGINE_TYPE_GR0 to GR7.
GRAPHICS = range(1, 9)


@dataclass
class Mig:
    """The driver's state: of each divided GPU the engine of each compute instance, by the ids of both instances."""

    divided: dict[int, dict[int, dict[int, int]]] = field(default_factory=dict)

    def divide(self, gpu: int, instance: int, engines: list[int]) -> None:
        """Makes a GPU instance with a compute instance for each engine."""
        taken = {one for line in PLACES if instance in line for one in line}
        assert not taken & set(self.divided.setdefault(gpu, {})), "they have a place in common"
        self.divided[gpu][instance] = dict(enumerate(engines))


def minor(gpu: int, instance: int, compute: int | None = None) -> int:
    """The number of the node that permits to use an instance: below /dev/nvidia-caps, after config and monitor."""
    of_instance = 1 + COMPUTE_INSTANCES
    return 3 + of_instance * (15 * gpu + instance) + (0 if compute is None else 1 + compute)


class Cap(File):
    """An open /dev/nvidia-caps/nvidia-cap*."""

    #: All open nodes by their cookies; the server sets it.
    FILES: ClassVar[Mapping[int, File]] = {}

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        raise Refused(errno.ENOTTY)


def permits(cookie: int, number: int) -> bool:
    """Whether the descriptor is that of the node.  Root has no way round it."""
    file = Cap.FILES.get(cookie)
    return isinstance(file, Cap) and file.path == f"/dev/nvidia-caps/nvidia-cap{number}"


@dataclass
class Above:
    """The place of a new instance: the kinds of its parent and of the parent's children, the device's GPU and share."""

    parent: int
    siblings: set[int]
    gpu: int
    client_share: int
    instance: int | None = None  # that the parent is, if it is a GPU instance


def subscribe(mig: Mig, kind: int, client: int, above: Above, params: bytearray) -> int:
    """The status of an allocation of GPU_INSTANCE or COMPUTE_INSTANCE.  ``params``: capability (its cookie), id."""
    if kind in above.siblings:
        return IN_USE
    if above.parent != (0x2080 if kind == GPU_INSTANCE else GPU_INSTANCE):
        return INVALID_PARENT
    if len(params) < 16:
        return INVALID_ARGUMENT  # the driver copies 16 bytes, whatever size it is told
    cookie, number = struct.unpack_from("=QI", params)
    if kind == GPU_INSTANCE:
        return _gpu_instance(mig, client, above, cookie, number)
    return _compute_instance(mig, above, cookie, number)


def _gpu_instance(mig: Mig, client: int, above: Above, cookie: int, number: int) -> int:
    if above.gpu not in mig.divided:
        return NOT_SUPPORTED
    if number == PROFILING:
        return NOT_PERMITTED
    if number not in mig.divided[above.gpu]:
        return INVALID_ARGUMENT
    if above.client_share != client:
        return IN_USE  # the address space is shared with clients outside of the instance
    return 0 if permits(cookie, minor(above.gpu, number)) else NOT_PERMITTED


def _compute_instance(mig: Mig, above: Above, cookie: int, number: int) -> int:
    assert above.instance is not None
    if number not in mig.divided[above.gpu][above.instance]:
        return INVALID_ARGUMENT
    return 0 if permits(cookie, minor(above.gpu, above.instance, number)) else NOT_PERMITTED


def engine_of(mig: Mig, gpu: int, instance: int | None, compute: int | None, engine: int) -> tuple[int, int]:
    """Status, and the index of the engine that a group of a device has.  ``engine``: as the device counts its own."""
    if gpu not in mig.divided:
        return 0, gpu
    if engine not in GRAPHICS:
        return INVALID_STATE, 0  # copy engines are not modelled
    if instance is None:
        return NOT_FOUND, 0
    own = mig.divided[gpu][instance]
    mine = list(own.values()) if compute is None else [own[compute]]
    return (0, mine[engine - 1]) if engine <= len(mine) else (INVALID_ARGUMENT, 0)
