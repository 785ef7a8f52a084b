# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A whole report: the machine, and the findings of the parts."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

from probe import machine, parts, running
from probe.summary import Record


def _notes(options: parts.Options) -> list[str]:
    """Facts that a reader should know about how this report came about."""
    found = []
    if os.geteuid():
        found.append("not run as root: part strangers has no caller of another user, and levels need CAP_SYS_NICE")
    if options.parts != parts.WHOLE:
        found.append(f"only these parts were asked for: {', '.join(options.parts)}")
    return found


def make_report(options: parts.Options, command: Sequence[str], folder: Path, raw: list[str]) -> Record:
    """Compiles the program into ``folder``, runs the parts, and returns the report.

    Appends to ``raw`` what each part wrote.

    Raises:
        NoGpu: there is no driver, or it finds no GPU.
        CannotBuild: the program cannot be compiled.
    """
    machine.require_driver()
    program = running.build(folder)
    return {
        "version": 1,
        "command": list(command),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": machine.cuda_gpu(program),
        "driver": machine.driver(),
        "system": machine.system_facts(),
        "notes": _notes(options),
        "parts": dict(parts.run_all(options, program, raw)),
    }
