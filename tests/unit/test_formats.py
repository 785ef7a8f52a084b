# SPDX-License-Identifier: GPL-2.0
"""A host and a command import of pyroute2 only what they use, and leave it as it is for others."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gpurt.enums import Command
from gpurt.errors import DeviceError
from pycontrol.link.formats import formats
from pycontrol.link.netlink import HEADER, NUMBERS, SOCKET_FAMILY, GenericTransport, decode, encode, split

ROOT = Path(__file__).resolve().parents[2]


def test_a_datagram_is_cut_where_its_messages_say() -> None:
    """Messages begin at multiples of four bytes.  One that is longer than the datagram, or than none, is no message."""
    first, second = (HEADER.pack(HEADER.size + more, kind, 3, 4, 5) + b"x" * more for kind, more in ((1, 3), (2, 0)))
    assert [*split(first + b"\0" + second)] == [(1, 3, 4, first), (2, 3, 4, second)]
    assert [*split(b""), *split(second[:-1])] == []
    for length in (0, HEADER.size - 1, HEADER.size + 1):
        with pytest.raises(DeviceError, match="not a netlink message"):
            [*split(HEADER.pack(length, 1, 3, 4, 5))]


def test_a_number_is_read_whatever_the_flags_of_its_attribute() -> None:
    """Netlink has flags in the upper bits of an attribute's type.  The host sends none so far."""
    message = encode(Command.EVENT, {}, SOCKET_FAMILY, 0, 1)
    for flag in (0, 0x4000, 0x8000):
        message += struct.pack("=HHI", 8, NUMBERS["GPU"] | flag, 7)
        assert decode(message).attributes == {"GPU": 7}


def said(code: str, *paths: Path) -> list[str]:
    """The words that a new interpreter prints, with these folders before all others."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*paths, ROOT)))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def test_the_rest_of_pyroute2_is_not_imported() -> None:
    code = "import sys, pycontrol.link.netlink; print(*{'asyncio', 'pyroute2.ndb.main', 'pyroute2'} & set(sys.modules))"
    assert said(code) == []


def test_another_importer_gets_all_of_it() -> None:
    code = "import pycontrol.link.netlink, pyroute2, pyroute2.netlink as own; print(pyroute2.IPRoute, own.nlmsg)"
    assert said(code) == ["<class", "'pyroute2.iproute.linux.IPRoute'>", "<class", "'pyroute2.netlink.nlmsg'>"]


def test_what_was_imported_before_is_used() -> None:
    code = "import pyroute2.netlink; from pycontrol.link.formats import formats; print(formats is pyroute2.netlink)"
    assert said(code) == ["True"]


def test_a_release_whose_formats_need_the_package_is_imported_whole(tmp_path: Path) -> None:
    (tmp_path / "pyroute2").mkdir()
    (tmp_path / "pyroute2/__init__.py").write_text("needed = 'whole'\n")
    (tmp_path / "pyroute2/netlink.py").write_text("from pyroute2 import needed\n")
    assert said("from pycontrol.link.formats import formats; print(formats.needed)", tmp_path) == ["whole"]


def test_the_kernel_is_asked_for_a_family_of_its_own() -> None:
    """The controller of generic netlink is such a family, on every machine that has generic netlink."""
    with contextlib.closing(transport("nlctrl")) as found:
        assert found.family == formats.GENL_ID_CTRL
    with pytest.raises(DeviceError, match="no netlink family 'none'"):
        transport("none")


def transport(name: str) -> GenericTransport:
    try:
        return GenericTransport(name)
    except DeviceError as error:
        if str(error).startswith("generic netlink: "):
            pytest.skip(str(error))
        raise
