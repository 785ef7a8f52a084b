# SPDX-License-Identifier: GPL-2.0
"""Every program of docs/frameworks.md runs: each segment ends when the work is done that was launched in it.

Here with stand-ins, which accept nothing that the frameworks refuse.  test_real_frameworks.py has the frameworks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from framework_programs import FAKES, PROGRAMS, SEGMENTS, execute, whole
from framework_signatures import RECORDED, beyond, shown

from analysis.model import Platform
from pycontrol.act.run.emulator import Emulator
from pycontrol.machine.placement import fifo_permitted


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with Emulator(Platform(1)) as running:
        yield str(running.socket)


def test_the_page_has_these_programs() -> None:
    assert PROGRAMS.keys() == SEGMENTS.keys()


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_end_when_their_work_is_done(name: str, socket: str) -> None:
    if "SCHED_FIFO" in PROGRAMS[name] and not fifo_permitted(20):
        pytest.skip("SCHED_FIFO is not permitted")
    found = whole(execute(PROGRAMS[name], socket, str(FAKES)))
    assert sum(found) == 3
    assert len(found) == SEGMENTS[name]


def test_without_a_stream_they_end_before(socket: str) -> None:
    """The comparison of the test above can fail."""
    program = PROGRAMS["CuPy"].replace("gpurt.segment(stream=stream)", "gpurt.segment()")
    assert program != PROGRAMS["CuPy"]
    assert -1 in whole(execute(program + "\nstream.synchronize()\n", socket, str(FAKES)))


def test_stand_ins_accept_no_call_that_the_frameworks_refuse() -> None:
    names = [f"{framework}.{name}" for framework, recorded in RECORDED.items() for name in recorded]
    stand_ins = shown(names, str(FAKES))
    for full in names:
        framework, _, name = full.partition(".")
        assert beyond(stand_ins[full] or "no signature", RECORDED[framework][name]) == "", full


@pytest.mark.parametrize(
    ("stand_in", "reason"),
    [
        ("(a)", ""), ("(a, *, c=1)", ""), ("(a, b)", ""), ("(a, b=2, *, c)", ""), ("(a, **more)", "**more"),
        ("()", "a is required"), ("(a=1)", "a is required"), ("(b)", "b is not its parameter 0"), ("(a, b, c)", "c"),
        ("(a, *, d)", "d"), ("(a, *rest)", "*rest"),
    ],
)  # fmt: skip
def test_what_a_stand_in_accepts_beyond_the_framework_is_found(stand_in: str, reason: str) -> None:
    found = beyond(stand_in, "(a, b=2, *, c=None)")
    assert found.startswith(reason) if reason else not found
