# SPDX-License-Identifier: GPL-2.0
"""The right to SCHED_FIFO."""

from __future__ import annotations

import os
import resource

from gpurt.errors import RefusedError


def fifo_forbidden(priority: int = 1) -> bool:
    """Whether the user's rights forbid SCHED_FIFO at that priority.  If they do not, a cgroup or container may."""
    soft, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    return os.geteuid() != 0 and soft != resource.RLIM_INFINITY and soft < priority


def fifo_cure(priority: int = 1) -> str:
    """The advice if SCHED_FIFO at that priority is refused, as it is even to root in a cgroup without such a budget."""
    if fifo_forbidden(priority):
        return "become root or raise RLIMIT_RTPRIO (`ulimit -r`)"
    return "neither user nor limit forbids it: `gpurt doctor` says what does"


def fifo_refusal(priority: int) -> RefusedError:
    """The advice for a user who asked for SCHED_FIFO at a priority that is not permitted."""
    return RefusedError(
        f"SCHED_FIFO priority {priority} is not permitted: {fifo_cure(priority)}; `gpurt set priority` gives a running "
        "program a GPU priority without it"
    )
