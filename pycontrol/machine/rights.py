# SPDX-License-Identifier: GPL-2.0
"""The right to SCHED_FIFO."""

from __future__ import annotations

import os
import resource

from gpurt.errors import RefusedError


def fifo_cure(priority: int = 1) -> str:
    """What to do where SCHED_FIFO at that priority is refused; root is refused it in a cgroup without such a budget."""
    soft, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if os.geteuid() == 0 or soft == resource.RLIM_INFINITY or soft >= priority:
        return "neither user nor limit forbids it: `gpurt doctor` says what does"
    return "become root or raise RLIMIT_RTPRIO (`ulimit -r`)"


def fifo_refusal(priority: int) -> RefusedError:
    """What to tell who asked for SCHED_FIFO at a priority that is not permitted."""
    return RefusedError(
        f"SCHED_FIFO priority {priority} is not permitted: {fifo_cure(priority)}; `gpurt set priority` gives a running "
        "program a GPU priority without it"
    )
