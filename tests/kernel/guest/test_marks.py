# SPDX-License-Identifier: GPL-2.0
"""A client that floods readers with marks of jobs: it loses its own, and that is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

from links import PATIENCE, client_of
from loading import DEVICE

from gpurt._gpurt import lib
from gpurt.enums import EventKind
from pycontrol.link.control import Control, EventRecord

#: Fewer than the ring has room for, however slowly it is drained, and more than the share.
COUNT = 3_000
JOBS = (EventKind.JOB_BEGIN, EventKind.JOB_END)


def test_a_client_that_tells_of_too_many_jobs_loses_its_own_only(module: Control, compiled: Path) -> None:
    """Readers are told of no more than its share, how many they were not told of, and of all of another client's.

    A machine on which a call takes longer than GPURT_MARK_NS, as an emulated one may be, loses none.
    """
    events = module.events(PATIENCE)
    command = [compiled / "marks", str(COUNT)]
    with (
        client_of(DEVICE) as other,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as flood,
    ):
        flooding: list[EventRecord] = []
        meant = ended = 0
        for event in events:
            assert event.kind is not EventKind.LOST
            ended += event.kind is EventKind.END
            if event.kind in JOBS:
                flooding.append(event)
                if len(flooding) % 50 == 1:  # meanwhile
                    other.begin(priority=3)
                    other.end()
                    meant += 1
            if flooding and flooding[-1].kind is EventKind.JOB_END and ended == meant:
                break
        assert flood.stdout
        assert flood.stdout.readline() == b"done\n"
        flood.communicate()
        assert flood.returncode == 0
    assert sum(1 + one.lost for one in flooding) == COUNT + 1
    times = [one.time_ns for one in flooding[:-1]]
    for place, when in enumerate(times):
        assert place + 1 <= lib.GPURT_MARKS // 2 + (when - times[0]) // lib.GPURT_MARK_NS + 1
