# SPDX-License-Identifier: GPL-2.0
"""What a host owed when the listening ended is heard, however late it sends that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpurt.enums import EventKind
from gpurt.errors import DeviceError
from pycontrol.link import events
from pycontrol.link.control import EventRecord

OWED = EventRecord(EventKind.END, 10**12, 0, 3, 77, "slow", 10, None, 0, 0)


class Slow:
    """A connection to a host that sends an event it owes only before its next answer."""

    def __init__(self, gone: bool) -> None:
        self._gone, self._sent = gone, list[EventRecord]()

    def events(self, _timeout: float) -> Iterator[EventRecord]:
        return self.more(0)

    def more(self, _timeout: float) -> Iterator[EventRecord]:
        while self._sent:
            yield self._sent.pop()

    def status(self) -> None:
        if self._gone:
            raise DeviceError("the host is gone")
        self._sent.append(OWED)

    def close(self) -> None:
        self._gone = True


@pytest.mark.parametrize("gone", [False, True])
def test_what_the_host_owed_at_the_end_is_heard(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "connect", lambda _device: Slow(gone))
    looked: list[EventRecord] = []
    with events.Listener(None, looked.append) as listener:
        assert listener.records() == ([] if gone else [OWED])
    assert listener.so_far() == looked == ([] if gone else [OWED])  # the end of the context asks for no more
