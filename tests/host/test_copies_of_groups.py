# SPDX-License-Identifier: GPL-2.0
"""Copies of a group's members are as urgent as the group, whatever their threads are."""

from __future__ import annotations

import os
from pathlib import Path

import gpurt
from pycontrol.live.control import Control, connect


def has_bus(control: Control) -> int:
    """The priority at which a client has the bus."""
    (bus,) = control.buses(0)
    assert bus.client is not None
    return bus.priority


def test_a_copy_has_the_priority_of_its_group_which_may_change_meanwhile(host: Path) -> None:
    with connect(str(host)) as control, gpurt.Client(str(host)) as client:
        client.open_tsg()
        client.join("llm")
        control.set_priority(os.getpid(), 9)
        with gpurt.copy(client=client):
            assert has_bus(control) == 9
            control.set_priority(os.getpid(), 7)
            assert has_bus(control) == 7


def test_who_joins_a_group_in_the_middle_of_a_copy_brings_it_along(host: Path) -> None:
    with connect(str(host)) as control, gpurt.Client(str(host)) as first, gpurt.Client(str(host)) as client:
        first.open_tsg()
        first.join("llm")
        client.open_tsg()
        control.set_priority(os.getpid(), 9)
        first.begin()
        control.set_priority(os.getpid(), 8)
        with gpurt.copy(client=client):
            client.join("llm")
            assert has_bus(control) == 8
