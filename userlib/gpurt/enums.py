# SPDX-License-Identifier: GPL-2.0
"""The interface's enumerations for Python.  Every number is the C compiler's, through cffi."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum, IntFlag
from typing import TypeVar

from gpurt._gpurt import lib
from gpurt.text import near

#: Names that papers, drivers and ROS have for ours.  No file and no option takes them; messages lead from them to ours.
KNOWN_AS = {
    "gcaps": "segment", "gcaps-suspend": "segment", "gcaps-busy": "segment", "tsg": "timesliced",
    "tsg-rr": "timesliced", "round-robin": "timesliced", "rr": "timesliced", "mpcp": "lock-priority",
    "fmlp": "lock-fifo", "fmlp+": "lock-fifo", "spin": "busy", "block": "suspend", "blocking": "suspend",
    "sleep": "suspend", "pip": "inheritance", "pcp": "ceiling", "msrp": "spin", "executor": "ros2", "ros": "ros2",
    "singlethreadedexecutor": "ros2", "eventsexecutor": "fifo", "subscriber": "subscription", "topic": "subscription",
    "server": "service", "aperiodic": "sporadic",
}  # fmt: skip


def meant_by(word: str, options: Iterable[str]) -> str:
    """The end of a message that names our option for other people's word; empty if there is none."""
    ours = KNOWN_AS.get(word.lower().replace("_", "-"), "")
    return f'; what others call {word} is "{ours}" here' if ours in options else ""


def _near(word: str, options: Iterable[str]) -> str:
    found = near(word, options)
    return f"; did you mean {found[0]}?" if found else ""


Member = TypeVar("Member", bound=Enum)


def numbered(prefix: str, members: Iterable[Member]) -> dict[Member, int]:
    """The number that C has for each of these members, under their names with that prefix."""
    return {member: getattr(lib, f"{prefix}_{member.name}") for member in members}


class Words(IntEnum):
    """An enumeration whose members have a spelling for people: LOCK_FIFO is written lock-fifo."""

    @property
    def word(self) -> str:
        """How the command line and the taskset file spell this member."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def words(cls) -> list[str]:
        """All spellings, in the interface's order."""
        return [member.word for member in cls]

    @classmethod
    def parse(cls, word: str) -> Words:
        """The member that `word` spells.

        Raises:
            ValueError: no member is spelt so; the message lists all spellings.
        """
        for member in cls:
            if member.word == word:
                return member
        words = cls.words()
        raise ValueError(f"{word!r} is not one of {', '.join(words)}{meant_by(word, words) or _near(word, words)}")


class Policy(Words):
    """enum gpurt_policy: which clients may be on the runlist (kmod/core/sched.h)."""

    TIMESLICED = lib.GPURT_POLICY_TIMESLICED
    SEGMENT = lib.GPURT_POLICY_SEGMENT
    JOB = lib.GPURT_POLICY_JOB
    LOCK_PRIORITY = lib.GPURT_POLICY_LOCK_PRIORITY
    LOCK_FIFO = lib.GPURT_POLICY_LOCK_FIFO
    BOOSTED = lib.GPURT_POLICY_BOOSTED


class Notice(Words):
    """enum gpurt_notice: how policy `job` notices that a task's state changed."""

    POLL = lib.GPURT_NOTICE_POLL
    NOTIFY = lib.GPURT_NOTICE_NOTIFY


class Tier(Words):
    """enum gpurt_tier: how much the driver underneath can do; spelt T0 to T3."""

    HINTS = lib.GPURT_TIER_HINTS
    UNPATCHED = lib.GPURT_TIER_UNPATCHED
    PATCHED = lib.GPURT_TIER_PATCHED
    VIRTUAL = lib.GPURT_TIER_VIRTUAL

    @property
    def word(self) -> str:
        """How the command line and the documentation spell this tier."""
        return f"T{int(self)}"


class State(Words):
    """enum gpurt_state: what a client does."""

    IDLE = lib.GPURT_STATE_IDLE
    PENDING = lib.GPURT_STATE_PENDING
    RUNNING = lib.GPURT_STATE_RUNNING


class Image(Words):
    """enum gpurt_image: what is on the runlist."""

    ALL = lib.GPURT_IMAGE_ALL
    ONE = lib.GPURT_IMAGE_ONE


class Begin(Words):
    """enum gpurt_begin_way: how the most urgent process begins where agents switch the GPU."""

    ISOLATED = lib.GPURT_BEGINS_ISOLATED
    YIELD = lib.GPURT_BEGINS_YIELD
    TURNS = lib.GPURT_BEGINS_TURNS


class Overrun(Words):
    """enum gpurt_overrun: what happens when a budget is used up."""

    REPORT = lib.GPURT_OVERRUN_REPORT
    DEMOTE = lib.GPURT_OVERRUN_DEMOTE


class Form(Words):
    """enum gpurt_form: when a task's thread executes above the normal priorities of its CPU, under policy `boosted`.

    SELF: from its wait for a begin until its end is over; only for tasks that never spin inside.  OWNER: while it owns
    the GPU.  FENCE: likewise, except while it spins for its own pure GPU segment (kmod/core/boost.h).
    """

    SELF = lib.GPURT_FORM_SELF
    OWNER = lib.GPURT_FORM_OWNER
    FENCE = lib.GPURT_FORM_FENCE


class Cause(Words):
    """enum gpurt_cause: why a runlist was updated; RAISE: no update, but a thread was raised or lowered."""

    BEGIN = lib.GPURT_CAUSE_BEGIN
    END = lib.GPURT_CAUSE_END
    GONE = lib.GPURT_CAUSE_GONE
    JOB = lib.GPURT_CAUSE_JOB
    PRIORITY = lib.GPURT_CAUSE_PRIORITY
    POLICY = lib.GPURT_CAUSE_POLICY
    BUDGET = lib.GPURT_CAUSE_BUDGET
    TSG = lib.GPURT_CAUSE_TSG
    EXEMPT = lib.GPURT_CAUSE_EXEMPT
    RESET = lib.GPURT_CAUSE_RESET
    RAISE = lib.GPURT_CAUSE_RAISE


class EventKind(Words):
    """enum gpurt_event: what an event is about."""

    BEGIN = lib.GPURT_EVENT_BEGIN
    GRANT = lib.GPURT_EVENT_GRANT
    PREEMPT = lib.GPURT_EVENT_PREEMPT
    RESUME = lib.GPURT_EVENT_RESUME
    END = lib.GPURT_EVENT_END
    OVERRUN = lib.GPURT_EVENT_OVERRUN
    GONE = lib.GPURT_EVENT_GONE
    COMMIT = lib.GPURT_EVENT_COMMIT
    WORK = lib.GPURT_EVENT_WORK
    LOST = lib.GPURT_EVENT_LOST
    LATE = lib.GPURT_EVENT_LATE
    COPY_ASK = lib.GPURT_EVENT_COPY_ASK
    COPY_BEGIN = lib.GPURT_EVENT_COPY_BEGIN
    COPY_END = lib.GPURT_EVENT_COPY_END
    JOB_BEGIN = lib.GPURT_EVENT_JOB_BEGIN
    JOB_END = lib.GPURT_EVENT_JOB_END
    STUCK = lib.GPURT_EVENT_STUCK
    MEMBER_DIED = lib.GPURT_EVENT_MEMBER_DIED


class Command(Words):
    """enum gpurt_cmd: the commands of the control plane."""

    GET_STATUS = lib.GPURT_CMD_GET_STATUS
    GET_CLIENTS = lib.GPURT_CMD_GET_CLIENTS
    SET_PRIORITY = lib.GPURT_CMD_SET_PRIORITY
    SET_POLICY = lib.GPURT_CMD_SET_POLICY
    SET_BUDGET = lib.GPURT_CMD_SET_BUDGET
    SET_EXEMPT = lib.GPURT_CMD_SET_EXEMPT
    GET_LATENCY = lib.GPURT_CMD_GET_LATENCY
    EVENT = lib.GPURT_CMD_EVENT
    SET_BARRED = lib.GPURT_CMD_SET_BARRED
    SET_GROUP = lib.GPURT_CMD_SET_GROUP
    GET_BUS = lib.GPURT_CMD_GET_BUS
    GET_RULES = lib.GPURT_CMD_GET_RULES


class Cap(IntFlag):
    """enum gpurt_caps: what a host can do."""

    VGPU = lib.GPURT_CAP_VGPU
    EMULATED = lib.GPURT_CAP_EMULATED
    NOTIFY = lib.GPURT_CAP_NOTIFY
    AGENTS = lib.GPURT_CAP_AGENTS
    RAISES = lib.GPURT_CAP_RAISES
    UNITS = lib.GPURT_CAP_UNITS
    GROUPS = lib.GPURT_CAP_GROUPS


class Packet(IntEnum):
    """enum gpurt_packet_type: the packets on the user-space host's socket."""

    IOCTL = lib.GPURT_PACKET_IOCTL
    REPLY = lib.GPURT_PACKET_REPLY
    NETLINK = lib.GPURT_PACKET_NETLINK
    SUBSCRIBE = lib.GPURT_PACKET_SUBSCRIBE
    INTERRUPT = lib.GPURT_PACKET_INTERRUPT
