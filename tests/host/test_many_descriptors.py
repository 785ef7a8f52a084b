# SPDX-License-Identifier: GPL-2.0
"""Programs with more descriptors than select(2) knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pycontrol.link.control import connect
from pycontrol.readable import readable

#: The descriptors that select(2) knows (FD_SETSIZE).
KNOWN = 1024


@pytest.fixture
def full() -> Iterator[None]:
    """Every descriptor that select(2) knows is open."""
    with ExitStack() as stack:
        number = 0
        while number < KNOWN:
            number = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, number)
        yield


def test_a_host_is_asked_and_its_events_are_read(host: Path, full: None) -> None:
    with connect(str(host)) as plane:
        assert len(plane.status()) == 1
        assert list(plane.events(0)) == []


def test_a_descriptor_is_readable_when_something_is_written_or_its_end_is_closed(full: None) -> None:
    reader, writer = os.pipe()
    assert reader > KNOWN
    assert [readable(reader, seconds) for seconds in (-1.0, 0, 0.001)] == [False] * 3
    os.write(writer, b"x")
    assert readable(reader)
    os.read(reader, 1)
    os.close(writer)
    assert readable(reader, 0)
    os.close(reader)
