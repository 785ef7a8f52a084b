# SPDX-License-Identifier: GPL-2.0
"""As many clients as one packet, or one socket's buffer, does not hold: the list of them is a stream."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from links import DeviceClient
from loading import DEVICE, THOROUGH

from pycontrol import cli
from pycontrol.link.control import Control

COUNT = 2500 if THOROUGH else 600


@pytest.fixture
def descriptors() -> Iterator[None]:
    """So many may be open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(before[1], COUNT + 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("descriptors")
def test_thousands_of_clients_are_listed(module: Control, capfd: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        for _ in range(COUNT):
            client = stack.enter_context(closing(DeviceClient(DEVICE)))
            client.begin()  # now the module has a client of it
        there = module.clients()
        assert len({one.client for one in there}) == len(there) == COUNT
        assert all(one.depth == 1 for one in there)
        assert cli.run(["--device", str(DEVICE), "status", "clients", "--json"]) == 0
        assert len(json.loads(capfd.readouterr().out)["clients"]) == COUNT
    assert module.clients() == []
