# SPDX-License-Identifier: GPL-2.0
"""What the judge of a running host needs besides events: bounds, and reasons why they do not apply to the host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from analysis.answers import compiled
from analysis.model import Taskset
from analysis.rta import Test
from pycontrol.observe.fit.fit import Code, Defeats
from pycontrol.observe.fit.objection import Objection
from pycontrol.observe.judge.finding import Finding, What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.watch import CHANGING


def bounds_by_task(test: Test | None, taskset: Taskset) -> dict[str, int]:
    """The test's bounds by task, ns; tasks without a bound are omitted."""
    result = compiled.run_compiled(test, taskset) if test else None
    return {} if result is None else {
        name: wcrt for name in result.verdicts if (wcrt := result.wcrt(name)) is not None
    }  # fmt: skip


def lasting(objections: Sequence[Objection]) -> list[Objection]:
    """The objections that no event resolves.  An unknown client may be inside a job, so the judge reports it later."""
    return [one for one in objections if one.code is not Code.STRANGER]


def mismatch(judge: Judge, objections: Sequence[Objection], why: str) -> list[Finding]:
    """Why the bounds do not apply to this host, as findings; the watch finds all other reasons itself.

    ``why``: why the bounds of the test that the user named prove nothing about the file.
    """
    kinds = {
        Code.MEASURED: What.EPSILON, Code.GPU_PRIORITY: What.PRIORITY,
        Code.DEMOTED: What.OVERRUN, Code.TIER: What.LATE, Code.DRIVER: What.LATE,
    }  # fmt: skip
    found, now = list[Any](), time.monotonic_ns()
    if why:
        found += judge.report(now, What.POLICY, "", why)
    for one in objections:
        if Defeats.BOUNDS in one.defeats and one.code not in CHANGING:
            found += judge.report(now, kinds.get(one.code, What.POLICY), "", one.line())
    return found
