# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A whole report: the machine (its GPU, its driver, and what else bears on a report), and the findings of the parts."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from probe import parts, running, summary
from probe.summary import Record


class NoGpu(Exception):
    """There is nothing to probe; the text says why."""


def first_line(path: str) -> str:
    """A file's first line; empty if the file cannot be read."""
    try:
        return (Path(path).read_text(errors="replace").splitlines() or [""])[0].strip()
    except OSError:
        return ""


def driver() -> Record:
    """The driver's version and banner, and whether rm.h was read in sources of this range of releases."""
    banner = first_line("/proc/driver/nvidia/version")
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", banner)
    version = first_line("/sys/module/nvidia/version") or (found[0] if found else "unknown")
    return {"version": version, "banner": banner, "known": summary.known_release(version)}


def system_facts() -> Record:
    """The kernel, and the rights that the probe runs with."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "uid": os.geteuid(),
        "ptrace_scope": first_line("/proc/sys/kernel/yama/ptrace_scope") or "none",
    }


def require_driver() -> None:
    """Checks that the driver is loaded.

    Raises:
        NoGpu: it is not.
    """
    if not Path("/dev/nvidiactl").exists():
        raise NoGpu("no NVIDIA driver here: there is no /dev/nvidiactl")


def cuda_gpu(program: Path) -> Record:
    """The GPU as the CUDA driver names it.

    Raises:
        NoGpu: the driver says that there is none.
    """
    outcome = running.run_part(program, "info", 20)
    records, _ = summary.parse_records(outcome.output)
    for record in records:
        if record["record"] == "gpu":
            return record
    said = [record["why"] for record in records if record["record"] == "error"]
    raise NoGpu(said[0] if said else outcome.detail or "the CUDA driver does not answer")


def _notes(options: parts.Options) -> list[str]:
    """Facts that a reader should know about how this report came about."""
    found = []
    if os.geteuid():
        found.append("not run as root: part strangers has no caller of another user")
    if options.parts != parts.WHOLE:
        found.append(f"only these parts were asked for: {', '.join(options.parts)}")
    return found


def make_report(options: parts.Options, command: Sequence[str], folder: Path) -> Record:
    """Compiles the program into ``folder``, runs the parts, and returns the report.

    Raises:
        NoGpu: there is no driver, or it finds no GPU.
        CannotBuild: the program cannot be compiled.
    """
    require_driver()
    program = running.build(folder)
    return {
        "version": 1,
        "command": list(command),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": cuda_gpu(program),
        "driver": driver(),
        "system": system_facts(),
        "notes": _notes(options),
        "parts": dict(parts.run_all(options, program)),
    }
