# SPDX-License-Identifier: GPL-2.0
"""Threads that serve jobs of several tasks, one at a time, as executors and event loops do.

docs/readings/threads.md says what each order means and which bounds hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Order(str, Enum):
    """The rule by which a thread selects the pending job that it serves next."""

    FIFO = "fifo"
    PRIORITY = "priority"
    ROS2 = "ros2"
    LIVE_TIMERS = "ros2-live-timers"

    @property
    def ranked(self) -> bool:
        """Whether the order depends on the ranks of tasks."""
        return self is not Order.FIFO


class Callback(str, Enum):
    """What releases the jobs of a task, in the words of ROS 2."""

    TIMER = "timer"
    SUBSCRIPTION = "subscription"
    SERVICE = "service"
    CLIENT = "client"
    WAITABLE = "waitable"


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread that serves jobs of several tasks.  It is one client.

    All its tasks have its CPU and its priorities.
    """

    name: str
    order: Order
