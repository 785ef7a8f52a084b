# SPDX-License-Identifier: GPL-2.0
"""Scheduling domains of Tegra's nvgpu (NVS): sets of TSGs that take turns by table, made for as long as a run.

Numbers and structures are those of nvgpu-nvs.h in L4T R35 and R36.  The driver's behaviour was read in ioctl_nvs.c and
nvs_sched.c there.  R34 and earlier lack these structures, or have others.  Nothing here has run on hardware.

A domain outlives its maker.  The driver removes only what no TSG is in and whose node is not open.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from gpurt.errors import RefusedError
from gpurt.text import visible
from pycontrol.ending import later
from pycontrol.link.hints import Call, DriverNode
from pycontrol.signals import interrupt

NVSCHED_NODE = "/dev/nvgpu/igpu0/nvsched"
CREATE, REMOVE, QUERY = 0xC0584E01, 0x40104E02, 0xC0184E03
#: R35's thread keeps the length of a turn in 32 bits.
LONGEST_NS = 2**32 - 1
#: How long TSGs of programs that were killed may keep a domain, s.
DOMAIN_PATIENCE_S = 10.0


class _Domain(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 32), ("slice_ns", ctypes.c_uint64), ("grace_ns", ctypes.c_uint64),
                ("subscheduler", ctypes.c_uint32), ("number", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64 * 2)]  # fmt: skip


class _Create(ctypes.Structure):
    _fields_ = [("domain", _Domain), ("reserved", ctypes.c_uint64)]


class _Remove(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint64), ("reserved", ctypes.c_uint64)]


class _Query(ctypes.Structure):
    _fields_ = [("domains", ctypes.c_uint64), ("count", ctypes.c_uint32), ("zero", ctypes.c_uint32),
                ("reserved", ctypes.c_uint64)]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Domain:
    """One that the driver has; how long its turns are, ns, and its number."""

    name: str
    slice_ns: int
    number: int


class Nvs(DriverNode):
    """The scheduler's node."""

    def __init__(self, call: Call = fcntl.ioctl) -> None:
        wants = "is this a Tegra whose driver has scheduling domains (L4T R35 or later)?"
        super().__init__(NVSCHED_NODE, wants, call)

    def domains(self) -> list[Domain]:
        """All domains, also the driver's own if this release lists it.  Raises RefusedError."""
        asked = _Query()
        self._call(QUERY, asked, "the number of its domains")
        while True:
            room = asked.count
            table = (_Domain * max(room, 1))()
            asked = _Query(ctypes.addressof(table), room)
            self._call(QUERY, asked, "its domains")
            if asked.count <= room:  # else some were made meanwhile
                return [Domain(one.name.decode(errors="replace"), one.slice_ns, one.number)
                        for one in table[: asked.count]]  # fmt: skip

    def create(self, name: str, slice_ns: int) -> Domain:
        """Makes a domain.  Raises RefusedError."""
        asked = _Create(_Domain(name.encode(), slice_ns))
        self._call(CREATE, asked, f"domain {visible(name)} with turns of {slice_ns} ns")
        return Domain(name, slice_ns, asked.domain.number)

    def remove(self, domain: Domain) -> None:
        """Removes a domain that nothing uses.  Raises RefusedError."""
        self._call(REMOVE, _Remove(domain.number), f"to remove domain {visible(domain.name)}")


@contextmanager
def domains_of(nvs: Nvs, wanted: Mapping[str, int]) -> Iterator[list[str]]:
    """Has these domains, slices in ns by name, while the context is entered: all of them, or none.

    A domain that exists already with that slice is used, and stays.  Yields a list that has remarks: from the beginning
    which domains were there, and after the end which could not be removed.  Must be called from the main thread,
    because it handles SIGTERM.

    Raises:
        RefusedError: a domain exists with another slice, or the driver refuses something; also after an exception
        inside, if a domain could not be removed.
    """
    there = {one.name: one for one in nvs.domains()}
    for name, slice_ns in wanted.items():
        if name in there and there[name].slice_ns != slice_ns:
            had = f"is there with turns of {there[name].slice_ns} ns, not {slice_ns}"
            raise RefusedError(f"domain {visible(name)} {had}", errno.EEXIST)
        if slice_ns > LONGEST_NS:
            raise RefusedError(f"domain {visible(name)}: nvgpu has no turns of more than {LONGEST_NS} ns", errno.EINVAL)
    remarks = [
        f"domain {visible(one.name)} was there before, with turns of {one.slice_ns} ns, and stays"
        for one in there.values()
    ]
    made: list[Domain] = []
    before = signal.getsignal(signal.SIGTERM)
    if before is not interrupt:  # which raises, too, and what was recorded is kept
        signal.signal(signal.SIGTERM, _terminated)
    try:
        for name, slice_ns in wanted.items():
            if name not in there:
                with later():
                    made.append(nvs.create(name, slice_ns))
        yield remarks
        remarks += _remove(nvs, made)
    except BaseException as error:
        if left := _remove(nvs, made):
            raise RefusedError(f"{str(error) or type(error).__name__}; {'; '.join(left)}") from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(number: int, _frame: object) -> None:
    """SIGTERM ends the process as usual, only that domains are removed before."""
    raise SystemExit(128 + number)


def _remove(nvs: Nvs, made: list[Domain]) -> list[str]:
    """Removes domains from the driver and the list, the last made first; returns remarks on those that are left.

    A killed program's TSGs may end a little after the program.
    """
    left, until = [], time.monotonic() + DOMAIN_PATIENCE_S
    with later():
        for one in reversed(made.copy()):
            while error := _refused(nvs, one):
                if error.errno != errno.EBUSY or time.monotonic() >= until:
                    left.append(f"domain {visible(one.name)} is still there and takes its turns: {error}")
                    break
                time.sleep(0.01)
            else:
                made.remove(one)
    return left


def _refused(nvs: Nvs, domain: Domain) -> RefusedError | None:
    """Why the domain is not removed; None: it is."""
    try:
        nvs.remove(domain)
    except RefusedError as error:
        return error
    return None
