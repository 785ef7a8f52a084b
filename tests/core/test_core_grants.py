# SPDX-License-Identifier: GPL-2.0
"""kmod/core/grants.c: what each client hears, against what it would hear of the runlists that were carried out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpurt._gpurt import ffi, lib

GRANT, RESUME, PREEMPT = lib.GPURT_EVENT_GRANT, lib.GPURT_EVENT_RESUME, lib.GPURT_EVENT_PREEMPT
CLIENTS = 3

#: A decision gives the GPU to a client, or to everyone (CLIENTS), and its update fails or succeeds.
Steps = list[tuple[int, bool]]


class Host:
    """A host with clients in a segment each; the core decides which of them the host tells."""

    def __init__(self) -> None:
        self.grants = ffi.new("struct gpurt_grants *")
        self.clients = [ffi.new("struct gpurt_sched_client *") for _ in range(CLIENTS)]
        self.heard: list[list[int]] = [[] for _ in range(CLIENTS + 1)]
        self.owner = CLIENTS
        self.fault = False

    def core(self, number: int) -> object:
        return self.clients[number] if number < CLIENTS else ffi.NULL

    def change(self, number: int, event: int) -> None:
        if lib.gpurt_grants_tell(self.grants, self.core(number), event, self.fault):
            self.heard[number].append(event)

    def gain(self, number: int) -> None:
        """As gained() of core/sched.c: the first gain of a segment is a grant."""
        if number == CLIENTS:
            self.change(number, RESUME)
            return
        event = RESUME if self.clients[number].granted else GRANT
        self.clients[number].granted = True
        self.change(number, event)

    def step(self, owner: int, fails: bool) -> None:
        recovered = self.fault and not fails
        self.fault = fails
        if owner != self.owner:
            self.change(self.owner, PREEMPT)
            self.owner = owner
            self.gain(owner)
        if recovered:
            event = lib.gpurt_grants_take(self.grants, self.core(owner))
            if event:
                self.heard[owner].append(event)


def expected(steps: Steps) -> list[list[int]]:
    """The events that each client hears: its own gains by updates that succeed, and its losses after such gains."""
    heard: list[list[int]] = [[] for _ in range(CLIENTS + 1)]
    owner, has = CLIENTS, {CLIENTS}
    for new, fails in steps:
        if new != owner and owner in has:
            heard[owner].append(PREEMPT)
            has.discard(owner)
        owner = new
        if not fails and owner not in has:
            first = owner < CLIENTS and GRANT not in heard[owner]
            heard[owner].append(GRANT if first else RESUME)
            has.add(owner)
    return heard


@given(st.lists(st.tuples(st.integers(0, CLIENTS), st.booleans()), max_size=12))
def test_a_client_hears_of_what_held(steps: Steps) -> None:
    host = Host()
    for owner, fails in steps:
        host.step(owner, fails)
    assert host.heard == expected(steps)
    owed = [client.owed for client in host.clients] + [host.grants.everyone]
    assert host.grants.owing == sum(event != 0 for event in owed)


def test_a_segment_that_is_over_is_owed_nothing() -> None:
    host = Host()
    host.step(0, True)
    assert (host.clients[0].owed, host.grants.owing) == (GRANT, 1)
    assert lib.gpurt_grants_take(host.grants, host.clients[0]) == GRANT
    assert lib.gpurt_grants_take(host.grants, host.clients[0]) == 0
    assert host.grants.owing == 0
