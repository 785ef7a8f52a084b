# SPDX-License-Identifier: GPL-2.0
"""The user-space host's account of one user: connections, calls under way, and memory.

An account counts all connections of a user together.  The administrator's accounts have no limit.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from pycontrol.host.wire import Refusal

#: The memory that counts for a TSG and its latest completions, an item of work, and a long answer, bytes.
TSG, WORK, ANSWER = 32 << 10, 1 << 10, 64 << 10


@dataclass(frozen=True)
class UserLimits:
    """Limits of one user.  ``memory``: bytes of TSGs, of queued work, and of unread answers."""

    connections: int = 1024
    calls: int = 4096
    memory: int = 64 << 20


@dataclass(eq=False)
class Account:
    """The resources that a user holds.  ``limits`` None: there are no limits."""

    user: int = 0
    limits: UserLimits | None = None
    connections: int = 0
    calls: int = 0
    memory: int = 0

    def check(self) -> None:
        """Raises Refusal EDQUOT if the user has more connections than the limit."""
        if self.limits and self.connections > self.limits.connections:
            raise self._refusal(f"{self.limits.connections} connections (--user-limit connections)")

    def call(self) -> None:
        """Counts one more call under way.  Raises Refusal EDQUOT."""
        if self.limits and self.calls >= self.limits.calls:
            raise self._refusal(f"{self.limits.calls} calls under way (--user-limit calls)")
        self.calls += 1

    def take(self, size: int) -> None:
        """Charges memory, which `give` returns.  Raises Refusal EDQUOT."""
        if self.limits and self.memory + size > self.limits.memory:
            raise self._refusal(f"{self.limits.memory} bytes (--user-limit memory)")
        self.memory += size

    def give(self, size: int) -> None:
        """Returns memory."""
        self.memory -= size

    def _refusal(self, what: str) -> Refusal:
        return Refusal(errno.EDQUOT, f"user {self.user} has {what} of this host, the most that it permits")


class Accounts:
    """The accounts of all connected users."""

    def __init__(self, limits: UserLimits) -> None:
        """Starts without accounts."""
        self.limits = limits
        self._all: dict[int, Account] = {}

    def of(self, user: int, administrator: bool) -> Account:
        """The user's account, made on first use."""
        if user not in self._all:
            self._all[user] = Account(user, None if administrator else self.limits)
        return self._all[user]

    def disconnect(self, account: Account) -> None:
        """Counts one connection less; forgets the account with the last connection."""
        account.connections -= 1
        if not account.connections:
            del self._all[account.user]
