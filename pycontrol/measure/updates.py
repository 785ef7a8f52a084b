# SPDX-License-Identifier: GPL-2.0
"""A file with the cost of runlist updates as a host has measured it."""

from __future__ import annotations

from analysis.taskset import TasksetFile
from pycontrol.link.control import connect
from pycontrol.measure.summary import read_margin
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.objection import Objection


def with_measured(
    loaded: TasksetFile, device: str | None, margin: str | None
) -> tuple[TasksetFile, list[Objection], list[str]]:  # fmt: skip
    """The file with the alpha that the host has measured, objections to that and to the host, and remarks.

    Raises UsageError for a wrong margin; FileError and DeviceError as `fit.measured`.
    """
    share = None if margin is None else read_margin(margin)
    with connect(device) as control:
        host = fit.ask(control, loaded)
    changed, text, few = fit.measured(loaded, host, share)
    found = [*few, *fit.objections(changed, host)]
    return changed, found, [f"{text}; what was seen is no proof", *fit.lines(found)]
